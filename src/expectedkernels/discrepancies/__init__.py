"""Discrepancies between distributions, made of expected kernels."""

from expectedkernels.discrepancies.collapsed import CollapsedSteinKernel
from expectedkernels.discrepancies.goodness import GoodnessOfFit, kdsd_test
from expectedkernels.discrepancies.kdsd import kdsd
from expectedkernels.discrepancies.mmd import mmd, mmd2, witness

__all__ = [
    "CollapsedSteinKernel",
    "GoodnessOfFit",
    "kdsd",
    "kdsd_test",
    "mmd",
    "mmd2",
    "witness",
]
