"""Kernels as circuits: `ek.kernels`."""

from expectedkernels.kernels.circuit import KernelCircuit, is_kernel_compatible, kernel_input
from expectedkernels.kernels.defaults import median_gamma
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.library import RBF, Delta, ExpHamming, Laplacian, TableKernel

__all__ = [
    "RBF",
    "Delta",
    "ExpHamming",
    "Kernel",
    "KernelCircuit",
    "Laplacian",
    "TableKernel",
    "is_kernel_compatible",
    "kernel_input",
    "median_gamma",
]
