"""Exact expectations of kernels under probabilistic circuits."""

import ast as _ast
from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import Any as _Any

__version__ = "0.1.0"


def _homes() -> dict[str, str]:
    """The module of every public name, as the stub beside this file lists them."""
    stub = _ast.parse(_Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, _ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


# Names are imported when they are first used, so that starting up is quick.
_HOMES = _homes()
_PACKAGES = sorted({home.split(".")[1] for home in _HOMES.values()})
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> _Any:
    if name in _HOMES:
        value = getattr(_import_module(_HOMES[name]), name)
    elif name in _PACKAGES:
        value = _import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
