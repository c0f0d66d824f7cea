"""Files: circuits, vtrees and models in the formats of other programs, and in our own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from expectedkernels.arrays import StatesLike
from expectedkernels.checks import CircuitError, ParseError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.io.model_files import (
    read_bif,
    read_uai,
    read_uai_evidence,
    write_bif,
    write_uai,
    write_uai_evidence,
)
from expectedkernels.io.npz import read_npz, write_npz
from expectedkernels.io.skops_format import load_estimator, save_estimator
from expectedkernels.io.table_files import read_table
from expectedkernels.io.text import PathLike, Source, checked_path, holders, require_holder
from expectedkernels.io.unit_lists import (
    read_jpc,
    read_psdd,
    read_spn,
    read_vtree,
    write_jpc,
    write_psdd,
    write_spn,
    write_vtree,
)
from expectedkernels.models.factor_graph import FactorGraph
from expectedkernels.vtree import Vtree

XMLBIF = (
    "pyAgrum (loadBN, saveBN) and pgmpy (XMLBIFReader, XMLBIFWriter) read and write XMLBIF files: "
    "as_model takes their networks, and models.to_pyagrum and models.to_pgmpy make them"
)
"""What to do with files that earlier versions read."""


def read_model(path: PathLike) -> FactorGraph:
    """The graphical model in a `.uai` or `.bif` file; which, its first word tells.

    Parameters
    ----------
    path : path
        The file, plain or compressed with gzip.

    Returns
    -------
    FactorGraph or BayesianNetwork

    Raises
    ------
    ParseError
        If the file follows none of these formats.

    Examples
    --------
    >>> import os, tempfile
    >>> from expectedkernels.io.text import write_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "one.uai")
    ...     write_text(path, ["MARKOV 1 2 1 1 0 2 0.5 1.5"])
    ...     read_model(path)
    <FactorGraph of 1 variables: 1 factors>
    """
    words = Source(path).text.split(None, 1)
    if words and words[0].startswith("<"):
        raise ParseError(f"expected a .uai or .bif file, found XML. {XMLBIF}", str(path))
    return read_uai(path) if words and words[0].isupper() else read_bif(path)


def compile_file(
    path: PathLike, evidence: PathLike | None = None, vtree: Vtree | None = None
) -> tuple[Circuit, float]:
    """The circuit of the model in a file, and the log of its partition function.

    Parameters
    ----------
    path : path
        The `.uai` or `.bif` file with the model, plain or compressed with gzip.
    evidence : path, optional
        A `.uai.evid` file with one set of observations. The circuit is that of the conditional
        distribution then, and the partition function is summed over the states that agree with it.
    vtree : Vtree, optional
        Default: a conditioning vtree in reversed min-fill order.

    Returns
    -------
    circuit : Circuit
    log_z : float

    Raises
    ------
    ParseError
        If a file does not follow its format, with the line.
    PropertyError
        If the factors multiply to zero everywhere.

    Examples
    --------
    >>> import os, tempfile
    >>> from expectedkernels.io.text import write_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "one.uai")
    ...     write_text(path, ["MARKOV 1 2 1 1 0 2 0.5 1.5"])
    ...     circuit, log_z = compile_file(path)
    >>> circuit.marginals()[0].round(12).tolist(), round(log_z, 6)
    ([0.25, 0.75], 0.693147)
    """
    model = read_model(path)
    if evidence is not None:
        sets = read_uai_evidence(evidence)
        if len(sets) > 1:
            message = f"expected one set of observations, found {len(sets)}"
            raise ParseError(message, checked_path(evidence))
        model = model.condition(sets[0] if sets else {})
    return model.compile(vtree)


def _write_psdd(circuit: Circuit, path: PathLike) -> None:
    """Write a circuit, and its vtree beside it, where `read_psdd` finds it."""
    write_psdd(circuit, path, Path(checked_path(path).removesuffix(".gz")).with_suffix(".vtree"))


FORMATS: dict[str, tuple[Callable[..., Any], Callable[[Any, PathLike], None]]] = {
    ".npz": (read_npz, write_npz),
    ".psdd": (read_psdd, _write_psdd),
    ".jpc": (read_jpc, write_jpc),
    ".spn": (read_spn, write_spn),
    ".uai": (read_uai, write_uai),
    ".bif": (read_bif, write_bif),
    ".vtree": (read_vtree, write_vtree),
    ".skops": (load_estimator, save_estimator),
}
"""The reader and the writer of every suffix."""
BINARY = (".npz", ".skops")
"""Formats that are not compressed with gzip."""
NAMED = (".npz", ".bif")
"""Formats that hold names and labels."""


def suffix_of(path: PathLike) -> str:
    """What the name of a file says of its format, in small letters, without that of gzip."""
    path = Path(path)
    return (Path(path.stem).suffix if path.suffix == ".gz" else path.suffix).lower()


def load(
    path: PathLike,
    *,
    vtree: Vtree | PathLike | None = None,
    names: Sequence[str] | None = None,
    states: StatesLike | None = None,
    smooth: bool = False,
    as_units: bool = False,
) -> Any:
    """The circuit, model, vtree or fitted estimator in a file, by the suffix of its name.

    Loading untrusted files is safe: no code is run, and every number is checked.

    Parameters
    ----------
    path : path
        ``.npz`` (the format of `save`, lossless), ``.psdd``, ``.jpc`` and ``.spn`` files hold
        circuits, ``.uai`` and ``.bif`` files models, ``.vtree`` files vtrees, and ``.skops`` files
        fitted estimators (``pip install expectedkernels[skops]``). A name without a suffix stands
        for ``.npz``. Text files may be compressed with gzip (``.psdd.gz``).
    vtree : Vtree or path, optional
        The vtree of a ``.psdd``, ``.jpc`` or ``.spn`` file, or its own file. Default: for
        ``.psdd``, the file with the same stem and the suffix ``.vtree`` beside it, if there is one;
        else the vtree that the products imply.
    names, states : sequences, optional
        The names of the variables and the labels of their states, for formats that hold none.
    smooth : bool
        For ``.jpc`` and ``.spn``: whether to add the variables that some inputs of a sum leave out.
    as_units : bool
        For ``.jpc`` and ``.spn``: whether to return the root of a graph of units, which need not be
        structured.

    Returns
    -------
    Circuit, FactorGraph, BayesianNetwork, Vtree or estimator

    Raises
    ------
    ParseError
        If no format has the suffix, or the file does not follow its format, with the line.
    CircuitError
        If an option is not one of the format.

    Examples
    --------
    >>> import os, tempfile
    >>> import expectedkernels as ek
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "asia.bif")
    ...     ek.save(ek.asia(), path)
    ...     ek.load(path)
    <BayesianNetwork of 8 variables: 8 factors>
    """
    suffix = _suffix(path)
    read = FORMATS[suffix][0]
    options: dict[str, Any] = {"vtree": vtree, "names": names, "states": states}
    options |= {"smooth": smooth or None, "as_units": as_units or None}
    given = {name: value for name, value in options.items() if value is not None}
    for name in sorted(given.keys() - signature(read).parameters.keys()):
        place = f"{suffix} files. Got {given[name]!r} for {checked_path(path)}"
        raise CircuitError(f"The {name!r} parameter of load is not one of {place}.")
    return read(path, **given)


def save(obj: object, path: PathLike) -> None:
    """Write a circuit, model, vtree or fitted estimator to a file, by the suffix of its name.

    Parameters
    ----------
    obj : Circuit, FactorGraph, BayesianNetwork, Vtree, or fitted estimator
        ``.npz`` files hold any circuit without loss, with names and labels, and equal circuits
        give equal files; ``.psdd`` (with the vtree in a ``.vtree`` file beside it), ``.jpc`` and
        ``.spn`` files hold circuits as other programs read them. ``.uai`` files hold factor graphs,
        ``.bif`` files Bayesian networks, ``.vtree`` files vtrees, and ``.skops`` files fitted
        estimators (``pip install expectedkernels[skops]``).
    path : path
        Where to write; nothing is appended to the name. A name without a suffix stands for
        ``.npz``. Text formats are compressed if the name ends in ``.gz``.

    Raises
    ------
    ParseError
        If no format has the suffix.
    CircuitError
        If files with this suffix do not hold such an object, or not this one; the error says
        what to use then.

    Examples
    --------
    >>> import os, tempfile
    >>> import expectedkernels as ek
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "coin.npz")
    ...     ek.save(ek.factorized([[0.3, 0.7]]), path)
    ...     ek.load(path).input(0).table
    array([[0.3, 0.7]])
    """
    suffix = _suffix(path)
    require_holder(obj, suffix)
    schema = getattr(obj, "schema", None)
    if schema is not None and not schema.is_plain and suffix not in NAMED:
        named = " or ".join(s for s in holders(obj) if s in NAMED)
        keep = f"Save to {named}" if named else "Save model.circuit() to .npz"
        warnings.warn(
            f"{suffix} files do not hold names and labels, which {checked_path(path)} leaves out. "
            f"{keep} to keep them, or give them to load(path, names=..., states=...).",
            stacklevel=2,
        )
    FORMATS[suffix][1](obj, path)


def _suffix(path: PathLike) -> str:
    """The suffix of a known format."""
    name = checked_path(path)
    suffix = suffix_of(name) or ".npz"
    if suffix not in FORMATS:
        known = f"{', '.join(FORMATS)} (text formats also with .gz)"
        advice = f". {XMLBIF}" if suffix in (".xmlbif", ".bifxml", ".xml") else ""
        message = f"expected a file that ends in {known}, found the suffix {suffix!r}{advice}"
        raise ParseError(message, name)
    if suffix in BINARY and name.endswith(".gz"):
        advice = "unpack the file, and leave .gz out of its name"
        raise ParseError(f"{suffix} files are not compressed with gzip: {advice}", name)
    return suffix


__all__ = ["compile_file", "load", "read_model", "read_table", "save"]
__all__ += ["read_bif", "read_uai", "read_uai_evidence", "write_bif", "write_uai"]
__all__ += ["read_jpc", "read_psdd", "read_spn", "read_vtree", "write_uai_evidence"]
__all__ += ["write_jpc", "write_psdd", "write_spn", "write_vtree"]


def __getattr__(name: str) -> Any:
    advice = f": it was removed, as {XMLBIF}" if name in ("read_xmlbif", "write_xmlbif") else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")
