"""Kernels as circuits: `ek.kernels`."""

from expectedkernels.kernels.empirical import median_gamma
from expectedkernels.kernels.kernel import (
    RBF,
    Delta,
    ExpHamming,
    Kernel,
    KernelCircuit,
    Laplacian,
    TableKernel,
    is_kernel_compatible,
    kernel_input,
)

__all__ = ["RBF", "Delta", "ExpHamming", "Kernel", "KernelCircuit", "Laplacian", "TableKernel"]
__all__ += ["is_kernel_compatible", "kernel_input", "median_gamma"]
