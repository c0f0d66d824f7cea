"""Graphical models, and the way to and from those of other libraries: `ek.models`."""

from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.compilation.cirkit import from_cirkit, to_cirkit
from expectedkernels.compilation.conditionals import CollapsedModel
from expectedkernels.compilation.factor import Factor
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.compilation.graphs import to_networkx
from expectedkernels.compilation.others import as_model, to_pgmpy, to_pyagrum
from expectedkernels.compilation.spflow import from_spflow, to_spflow

__all__ = [
    "BayesianNetwork",
    "CollapsedModel",
    "Factor",
    "FactorGraph",
    "as_model",
    "from_cirkit",
    "from_spflow",
    "to_cirkit",
    "to_networkx",
    "to_pgmpy",
    "to_pyagrum",
    "to_spflow",
]
