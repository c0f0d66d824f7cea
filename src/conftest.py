"""Examples that need an optional package are skipped where it cannot be imported."""

from importlib import import_module
from typing import Any

import pytest

NEEDED = {
    "expectedkernels.compilation.cirkit": "cirkit.pipeline",
    "expectedkernels.compilation.graphs": "networkx",
    "expectedkernels.compilation.spflow": "spflow.modules.sums",
}
"""Modules whose examples need more than the library does, and what they import."""


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark the examples that cannot run."""
    for item in items:
        package = NEEDED.get(item.name.rpartition(".")[0])
        if package is not None and isinstance(item, pytest.DoctestItem):
            try:
                import_module(package)
            except ImportError as error:
                item.add_marker(pytest.mark.skip(reason=f"{package} is not there: {error}"))
