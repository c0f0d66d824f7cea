"""Files of every format, read and written by the suffixes of their names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Protocol

from expectedkernels.arrays import StatesLike
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.units import Unit
from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.errors import CircuitError, ParseError
from expectedkernels.io.bif import read_bif, write_bif
from expectedkernels.io.jpc import read_jpc, write_jpc
from expectedkernels.io.models import XMLBIF
from expectedkernels.io.npz import read_npz, write_npz
from expectedkernels.io.psdd import read_psdd, write_psdd
from expectedkernels.io.spn import read_spn, write_spn
from expectedkernels.io.text import PathLike, checked_path
from expectedkernels.io.uai import read_uai, write_uai
from expectedkernels.io.vtree import read_vtree, write_vtree
from expectedkernels.vtree import Vtree


class Estimator(Protocol):
    """A scikit-learn compatible estimator."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor."""
        ...


def _read_estimator(path: PathLike) -> Any:
    from expectedkernels.estimators.persistence import load_estimator  # imports scikit-learn

    return load_estimator(path)


def _write_estimator(model: Any, path: PathLike) -> None:
    from expectedkernels.estimators.persistence import save_estimator

    save_estimator(model, path)


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
    ".skops": (_read_estimator, _write_estimator),
}
"""The reader and the writer of every suffix."""
HOLDERS = (
    (Circuit, (".npz", ".psdd", ".jpc", ".spn")),
    (BayesianNetwork, (".uai", ".bif")),
    (FactorGraph, (".uai",)),
    (Vtree, (".vtree",)),
)
"""The suffixes of the files that hold an object; estimators are told by their methods."""
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
    options = {
        "vtree": vtree,
        "names": names,
        "states": states,
        "smooth": smooth or None,
        "as_units": as_units or None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    for name in sorted(given.keys() - signature(read).parameters.keys()):
        raise CircuitError(
            f"The {name!r} parameter of load is not one of {suffix} files. Got "
            f"{given[name]!r} for {checked_path(path)}."
        )
    return read(path, **given)


def save(obj: Circuit | FactorGraph | Vtree | Estimator, path: PathLike) -> None:
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
    _check_holder(obj, suffix)
    schema = getattr(obj, "schema", None)
    if schema is not None and not schema.is_plain and suffix not in NAMED:
        named = " or ".join(s for s in _holders(obj) if s in NAMED)
        keeping = f"Save to {named}" if named else "Save model.circuit() to .npz"
        warnings.warn(
            f"{suffix} files do not hold names and labels, which {checked_path(path)} leaves out. "
            f"{keeping} to keep them, or give them to load(path, names=..., states=...).",
            stacklevel=2,
        )
    FORMATS[suffix][1](obj, path)


def _suffix(path: PathLike) -> str:
    """The suffix of a known format."""
    name = checked_path(path)
    suffix = suffix_of(name) or ".npz"
    if suffix not in FORMATS:
        raise ParseError(
            f"expected a file that ends in {', '.join(FORMATS)} (text formats also with .gz), "
            f"found the suffix {suffix!r}"
            + (f". {XMLBIF}" if suffix in (".xmlbif", ".bifxml", ".xml") else ""),
            name,
        )
    if suffix in BINARY and name.endswith(".gz"):
        raise ParseError(
            f"{suffix} files are not compressed with gzip: unpack the file, and leave .gz out of "
            "its name",
            name,
        )
    return suffix


def _holders(obj: Any) -> tuple[str, ...]:
    """The suffixes of the files that hold an object."""
    if hasattr(obj, "get_params") and not isinstance(obj, type):
        return (".skops",)
    return next((suffixes for kind, suffixes in HOLDERS if isinstance(obj, kind)), ())


def _check_holder(obj: Any, suffix: str) -> None:
    """Raise unless files with this suffix hold such objects."""
    known, kind = _holders(obj), type(obj).__name__
    if suffix in known:
        return
    if isinstance(obj, (str, Path)):
        advice = "The path comes second: save(obj, path)"
    elif isinstance(obj, Unit):
        advice = "Save Circuit.from_units(root)"
    elif not known:
        advice = "joblib.dump and pickle hold kernels and other objects"
    else:
        advice = f"Save it to a file that ends in {' or '.join(known)}"
        if isinstance(obj, FactorGraph) and suffix in HOLDERS[0][1]:
            advice += ", or save its circuit, model.circuit()"
        if isinstance(obj, Circuit) and suffix == ".vtree":
            advice += ", or save its vtree, circuit.vtree"
    raise CircuitError(f"A {suffix} file does not hold a {kind}. {advice}.")
