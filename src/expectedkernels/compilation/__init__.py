"""Graphical models, and how they become circuits."""

from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.compilation.conditionals import CollapsedModel
from expectedkernels.compilation.factors import Factor, FactorGraph
from expectedkernels.compilation.models import asia, ising_grid
from expectedkernels.compilation.others import as_model, to_pgmpy, to_pyagrum
from expectedkernels.compilation.vtrees import (
    bisection_vtree,
    conditioning_vtree,
    elimination_vtree,
    min_fill_order,
)

__all__ = [
    "BayesianNetwork",
    "CollapsedModel",
    "Factor",
    "FactorGraph",
    "as_model",
    "asia",
    "bisection_vtree",
    "conditioning_vtree",
    "elimination_vtree",
    "ising_grid",
    "min_fill_order",
    "to_pgmpy",
    "to_pyagrum",
]
