"""Samplers and importance weights."""

from expectedkernels.sampling.bbis import bbis, collapsed_bbis
from expectedkernels.sampling.cis import cis
from expectedkernels.sampling.gibbs import collapsed_gibbs, gibbs, irreducible
from expectedkernels.sampling.partition import PartitionSteinKernel
from expectedkernels.sampling.reducible import ReducibleWarning
from expectedkernels.sampling.samples import WeightedSamples
from expectedkernels.sampling.shrinkage import default_weights
from expectedkernels.sampling.stein_samples import SteinSamples
from expectedkernels.sampling.weights import signed_weights, simplex_weights, smoothed_weights
from expectedkernels.sampling.zeros import determined_variables

__all__ = [
    "PartitionSteinKernel",
    "ReducibleWarning",
    "SteinSamples",
    "WeightedSamples",
    "bbis",
    "cis",
    "collapsed_bbis",
    "collapsed_gibbs",
    "default_weights",
    "determined_variables",
    "gibbs",
    "irreducible",
    "signed_weights",
    "simplex_weights",
    "smoothed_weights",
]
