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

_READERS = {
    ("pyagrum", "BayesNet"): "_from_pyagrum",
    ("pyagrum", "MarkovRandomField"): "_from_pyagrum",
    ("pgmpy", "DiscreteBayesianNetwork"): "_from_pgmpy",
    ("pgmpy", "BayesianNetwork"): "_from_pgmpy",
    ("pgmpy", "DiscreteMarkovNetwork"): "_from_pgmpy",
    ("pgmpy", "MarkovNetwork"): "_from_pgmpy",
    ("sklearn", "GaussianMixture"): "_from_gaussian_mixture",
    ("cirkit", "TorchCircuit"): "from_cirkit",
    ("cirkit", "Circuit"): "from_cirkit",
    ("spflow", "Module"): "from_spflow",
}
"""Classes of other libraries, by package in lower case and name, and what reads them."""
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


def converted(obj: Any) -> Any:
    """A model of another library as one of ours; everything else as it is."""
    for base in type(obj).__mro__:
        reader = _READERS.get((base.__module__.split(".")[0].lower(), base.__name__))
        if reader is not None:
            return getattr(import_module(f"{__name__}.interop"), reader)(obj)
    return obj


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.interop"), name)


def __dir__() -> list[str]:
    return __all__
