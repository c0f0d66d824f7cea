"""Graphical models, and the way to and from those of other libraries: `ek.models`."""

from expectedkernels.models.factor_graph import BayesianNetwork, CollapsedModel, Factor, FactorGraph
from expectedkernels.models.interop import (
    as_model,
    converted as converted,
    from_cirkit,
    from_spflow,
    to_cirkit,
    to_networkx,
    to_pgmpy,
    to_pyagrum,
    to_spflow,
)

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
