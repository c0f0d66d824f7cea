"""Files: circuits, vtrees and models in the formats of other programs, and in our own."""

from typing import Any

from expectedkernels.io.bif import read_bif, write_bif
from expectedkernels.io.files import load, save
from expectedkernels.io.jpc import read_jpc, write_jpc
from expectedkernels.io.models import XMLBIF, compile_file, read_model
from expectedkernels.io.psdd import read_psdd, write_psdd
from expectedkernels.io.spn import read_spn, write_spn
from expectedkernels.io.tables import read_table
from expectedkernels.io.uai import read_uai, read_uai_evidence, write_uai, write_uai_evidence
from expectedkernels.io.vtree import read_vtree, write_vtree

__all__ = [
    "compile_file",
    "load",
    "read_bif",
    "read_jpc",
    "read_model",
    "read_psdd",
    "read_spn",
    "read_table",
    "read_uai",
    "read_uai_evidence",
    "read_vtree",
    "save",
    "write_bif",
    "write_jpc",
    "write_psdd",
    "write_spn",
    "write_uai",
    "write_uai_evidence",
    "write_vtree",
]


def __getattr__(name: str) -> Any:
    advice = f": it was removed, as {XMLBIF}" if name in ("read_xmlbif", "write_xmlbif") else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")
