"""Files: circuits, vtrees and models in the formats of other programs, and in our own."""

from expectedkernels.io.bif import read_bif, write_bif
from expectedkernels.io.files import load, save
from expectedkernels.io.jpc import read_jpc, write_jpc
from expectedkernels.io.models import compile_file, read_model
from expectedkernels.io.psdd import read_psdd, write_psdd
from expectedkernels.io.spn import read_spn, write_spn
from expectedkernels.io.tables import read_table
from expectedkernels.io.uai import read_uai, read_uai_evidence, write_uai, write_uai_evidence
from expectedkernels.io.vtree import read_vtree, write_vtree
from expectedkernels.io.xmlbif import read_xmlbif, write_xmlbif

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
    "read_xmlbif",
    "save",
    "write_bif",
    "write_jpc",
    "write_psdd",
    "write_spn",
    "write_uai",
    "write_uai_evidence",
    "write_vtree",
    "write_xmlbif",
]
