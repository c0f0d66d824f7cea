"""Examples that need an optional package are skipped where it cannot be imported."""

import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest

NEEDED = {
    "expectedkernels.kernels.kernel.Kernel": "torch",
    "expectedkernels.learning.fit_mmd": "torch",
    "expectedkernels.models.interop.from_cirkit": "cirkit.pipeline",
    "expectedkernels.models.interop.to_cirkit": "cirkit.pipeline",
    "expectedkernels.models.interop.from_spflow": "spflow.modules.sums",
    "expectedkernels.models.interop.to_spflow": "spflow.modules.sums",
    "expectedkernels.models.interop.to_networkx": "networkx",
    "expectedkernels.stein.weighted_samples.WeightedSamples.to_arviz": "arviz",
}
"""Whose examples need more than the library does, and what they import."""


_found_by_module = doctest.DocTestFinder._from_module  # type: ignore[attr-defined]


def _from_module(finder: Any, module: Any, value: Any) -> bool:
    """Whether a module defines a value; public classes name the package as their module."""
    if inspect.isclass(value) and value.__module__.partition(".")[0] == "expectedkernels":
        source = inspect.getsource(module)
        return bool(re.search(rf"^class {value.__name__}\b", source, flags=re.MULTILINE))
    return bool(_found_by_module(finder, module, value))


doctest.DocTestFinder._from_module = _from_module  # type: ignore[attr-defined]


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark the examples that cannot run."""
    for start, package in NEEDED.items():
        examples = [
            item
            for item in items
            if isinstance(item, pytest.DoctestItem) and item.name.startswith(start)
        ]
        if examples and (reason := _absence(package)):
            for item in examples:
                item.add_marker(pytest.mark.skip(reason=reason))


def _absence(package: str) -> str:
    """Why a package cannot be imported; empty if it can."""
    with catch_warnings():
        simplefilter("ignore")
        try:
            import_module(package)
        except ImportError as error:
            return f"{package} is not there: {error}"
    return ""


@pytest.fixture(autouse=True)
def no_open_figures() -> Iterator[None]:
    """Pictures of one test are closed before the next one."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
