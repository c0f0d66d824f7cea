"""Graphical models, and the way to and from those of other libraries: `ek.models`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from expectedkernels.models.factor_graph import BayesianNetwork, CollapsedModel, Factor, FactorGraph

if TYPE_CHECKING:
    from expectedkernels.models.interop import (
        as_model,
        from_cirkit,
        from_spflow,
        to_cirkit,
        to_networkx,
        to_pgmpy,
        to_pyagrum,
        to_spflow,
    )

__all__ = ["BayesianNetwork", "CollapsedModel", "Factor", "FactorGraph", "as_model"]
__all__ += ["from_cirkit", "from_spflow"]
__all__ += ["to_cirkit", "to_networkx", "to_pgmpy", "to_pyagrum", "to_spflow"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("expectedkernels.models.interop"), name)  # imported when used
