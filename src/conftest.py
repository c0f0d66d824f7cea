"""Examples that need an optional package are skipped where it cannot be imported."""

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest

NEEDED = {
    "expectedkernels.compilation.cirkit": "cirkit.pipeline",
    "expectedkernels.compilation.graphs": "networkx",
    "expectedkernels.compilation.spflow": "spflow.modules.sums",
    "expectedkernels.kernels.kernel.Kernel": "torch",
    "expectedkernels.learning.gradients": "torch",
    "expectedkernels.sampling.samples.WeightedSamples.to_arviz": "arviz",
}
"""Whose examples need more than the library does, and what they import."""


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
