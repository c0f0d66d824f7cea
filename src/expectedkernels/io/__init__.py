"""Files: circuits and vtrees in the formats of other programs, and in the library's own."""

from expectedkernels.io.jpc import read_jpc, write_jpc
from expectedkernels.io.npz import load, save
from expectedkernels.io.psdd import read_psdd
from expectedkernels.io.psdd_writing import write_psdd
from expectedkernels.io.spn import read_spn, write_spn
from expectedkernels.io.vtree import read_vtree, write_vtree

__all__ = [
    "load",
    "read_jpc",
    "read_psdd",
    "read_spn",
    "read_vtree",
    "save",
    "write_jpc",
    "write_psdd",
    "write_spn",
    "write_vtree",
]
