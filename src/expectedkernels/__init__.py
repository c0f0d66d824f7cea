"""Exact expectations of kernels under probabilistic circuits."""

from expectedkernels.circuits.build import (
    factorized,
    gaussian_mixture,
    hmm,
    mixture,
    random_circuit,
    stack,
)
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.properties import is_compatible, properties
from expectedkernels.circuits.units import Categorical, Gaussian, Indicator, Product, Sum
from expectedkernels.discrepancies.mmd import mmd, mmd2
from expectedkernels.errors import (
    CircuitError,
    CompatibilityError,
    DataError,
    EvidenceError,
    KernelError,
    ParseError,
    PropertyError,
    VtreeError,
)
from expectedkernels.expectation import (
    Empirical,
    expected_kernel,
    monte_carlo_expected_kernel,
    witness,
)
from expectedkernels.io import (
    load,
    read_jpc,
    read_psdd,
    read_spn,
    read_vtree,
    save,
    write_jpc,
    write_psdd,
    write_spn,
    write_vtree,
)
from expectedkernels.kernels.circuit import KernelCircuit, is_kernel_compatible, kernel_input
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.library import RBF, Delta, ExpHamming, Laplacian, TableKernel
from expectedkernels.verdict import Verdict
from expectedkernels.vtree import Vtree

__version__ = "0.1.0"

__all__ = [
    "RBF",
    "Categorical",
    "Circuit",
    "CircuitError",
    "CompatibilityError",
    "DataError",
    "Delta",
    "Empirical",
    "EvidenceError",
    "ExpHamming",
    "Gaussian",
    "Indicator",
    "Kernel",
    "KernelCircuit",
    "KernelError",
    "Laplacian",
    "ParseError",
    "Product",
    "PropertyError",
    "Sum",
    "TableKernel",
    "Verdict",
    "Vtree",
    "VtreeError",
    "expected_kernel",
    "factorized",
    "gaussian_mixture",
    "hmm",
    "is_compatible",
    "is_kernel_compatible",
    "kernel_input",
    "load",
    "mixture",
    "mmd",
    "mmd2",
    "monte_carlo_expected_kernel",
    "properties",
    "random_circuit",
    "read_jpc",
    "read_psdd",
    "read_spn",
    "read_vtree",
    "save",
    "stack",
    "witness",
    "write_jpc",
    "write_psdd",
    "write_spn",
    "write_vtree",
]
