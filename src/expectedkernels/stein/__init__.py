"""Stein kernels, and weights of samples made of them: `ek.stein`."""

from expectedkernels.sampling.gibbs import determined_variables, irreducible
from expectedkernels.sampling.weights import (
    default_weights,
    signed_weights,
    simplex_weights,
    smoothed_weights,
)
from expectedkernels.stein.bbis import SteinSamples
from expectedkernels.stein.langevin import IMQ, LangevinSteinKernel
from expectedkernels.stein.stein_kernel import (
    CollapsedSteinKernel,
    PartitionSteinKernel,
    SteinKernel,
    is_strictly_positive_definite,
)

__all__ = ["CollapsedSteinKernel", "PartitionSteinKernel", "SteinKernel", "SteinSamples"]
__all__ += ["IMQ", "LangevinSteinKernel"]
__all__ += ["default_weights", "signed_weights", "simplex_weights", "smoothed_weights"]
__all__ += ["determined_variables", "irreducible", "is_strictly_positive_definite"]
