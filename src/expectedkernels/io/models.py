"""Models from files of any of the known formats, and their circuits."""

from __future__ import annotations

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.errors import ParseError
from expectedkernels.io.bif import read_bif
from expectedkernels.io.text import PathLike, Source
from expectedkernels.io.uai import read_uai, read_uai_evidence
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
        source = Source(evidence)
        sets = read_uai_evidence(evidence)
        if len(sets) > 1:
            raise source.error(f"expected one set of observations, found {len(sets)}")
        model = model.condition(sets[0] if sets else {})
    return model.compile(vtree)
