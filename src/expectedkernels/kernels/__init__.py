"""Kernels as circuits."""

from expectedkernels.kernels.circuit import KernelCircuit, is_kernel_compatible, kernel_input
from expectedkernels.kernels.defaults import median_gamma
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.library import RBF, Delta, ExpHamming, Laplacian, TableKernel
from expectedkernels.kernels.stein import SteinKernel, is_strictly_positive_definite
from expectedkernels.kernels.target import Target

__all__ = [
    "RBF",
    "Delta",
    "ExpHamming",
    "Kernel",
    "KernelCircuit",
    "Laplacian",
    "SteinKernel",
    "TableKernel",
    "Target",
    "is_kernel_compatible",
    "is_strictly_positive_definite",
    "kernel_input",
    "median_gamma",
]
