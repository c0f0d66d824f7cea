"""Exact expectations of kernels under probabilistic circuits."""

import ast as _ast
import sys as _sys
from importlib import import_module as _import_module
from importlib.machinery import ModuleSpec as _ModuleSpec
from pathlib import Path as _Path
from typing import Any as _Any

__version__ = "0.2.0"


def _homes() -> tuple[dict[str, str], dict[str, str]]:
    """The module of every public name and of every namespace, as the stub beside this lists them.

    Namespaces are what the stub imports relatively.
    """
    stub = _ast.parse(_Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    names, namespaces = {}, {}
    for node in stub.body:
        if isinstance(node, _ast.ImportFrom):
            for alias in node.names:
                if node.level:
                    inside = (__name__, node.module, alias.name)
                    namespaces[alias.name] = ".".join(part for part in inside if part)
                else:
                    names[alias.name] = str(node.module)
    return names, namespaces


# Names are imported when they are first used, so that starting up is quick.
_NAMES, _NAMESPACES = _homes()
__all__ = sorted({*_NAMES, *_NAMESPACES})


def __getattr__(name: str) -> _Any:
    if name in _NAMES:
        value = getattr(_import_module(_NAMES[name]), name)
    elif name in _NAMESPACES:
        value = _import_module(_NAMESPACES[name])
    else:
        message = f"module {__name__!r} has no attribute {name!r}"
        places = [space for space in _NAMESPACES if name in _listed(_NAMESPACES[space])]
        if places:
            message += f": {name} is now ek.{places[0]}.{name}"
        raise AttributeError(message)
    globals()[name] = value
    return value


class _Namespaces:
    """Finds and loads namespaces where imports name them: ``import expectedkernels.algebra``."""

    @staticmethod
    def find_spec(name: str, path: _Any = None, target: _Any = None) -> _ModuleSpec | None:
        package, _, namespace = name.rpartition(".")
        if package != __name__ or namespace not in _NAMESPACES:
            return None
        return _ModuleSpec(name, _Namespaces())

    @staticmethod
    def create_module(spec: _ModuleSpec) -> None:
        """The module that there would be by default: it is replaced below."""

    @staticmethod
    def exec_module(module: _Any) -> None:
        # one module under two names: classes of a copy would not be those of the library
        _sys.modules[module.__name__] = __getattr__(module.__name__.rpartition(".")[2])


_sys.meta_path.append(_Namespaces)


def _listed(module: str) -> list[str]:
    """The names that a namespace lists, read from its text: asking for a name imports nothing."""
    path = _Path(__file__).parent.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in _ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, _ast.Assign) and _ast.unparse(node.targets[0]) == "__all__":
            return list(_ast.literal_eval(node.value))
    return []


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
