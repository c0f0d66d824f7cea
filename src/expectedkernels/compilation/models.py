"""Graphical models, and the way to and from those of other libraries: `ek.models`."""

from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.compilation.conditionals import CollapsedModel
from expectedkernels.compilation.factor import Factor
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.compilation.others import as_model, to_pgmpy, to_pyagrum

__all__ = [
    "BayesianNetwork",
    "CollapsedModel",
    "Factor",
    "FactorGraph",
    "as_model",
    "to_pgmpy",
    "to_pyagrum",
]
