"""Circuits from data: Chow-Liu trees, Strudel, mixtures, expectation maximisation."""

from expectedkernels.learning.chow_liu import learn_chow_liu
from expectedkernels.learning.em import em
from expectedkernels.learning.mixtures import learn_mixture
from expectedkernels.learning.strudel import learn_strudel

__all__ = [
    "em",
    "learn_chow_liu",
    "learn_mixture",
    "learn_strudel",
]
