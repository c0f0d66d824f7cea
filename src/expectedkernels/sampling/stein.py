"""Stein kernels, and weights of samples made of them: `ek.stein`."""

from expectedkernels.discrepancies.collapsed import CollapsedSteinKernel
from expectedkernels.kernels.stein import SteinKernel, is_strictly_positive_definite
from expectedkernels.sampling.gibbs import irreducible
from expectedkernels.sampling.partition import PartitionSteinKernel
from expectedkernels.sampling.shrinkage import default_weights
from expectedkernels.sampling.stein_samples import SteinSamples
from expectedkernels.sampling.weights import signed_weights, simplex_weights, smoothed_weights
from expectedkernels.sampling.zeros import determined_variables

__all__ = [
    "CollapsedSteinKernel",
    "PartitionSteinKernel",
    "SteinKernel",
    "SteinSamples",
    "default_weights",
    "determined_variables",
    "irreducible",
    "is_strictly_positive_definite",
    "signed_weights",
    "simplex_weights",
    "smoothed_weights",
]
