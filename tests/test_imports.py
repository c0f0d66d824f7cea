"""Importing the library stays light: heavy dependencies come in when they are used."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import expectedkernels as ek

HEAVY = ("expectedkernels.arrays", "matplotlib", "narwhals", "pandas", "sklearn", "torch", "typer")


def imported_by(statement):
    """The heavy packages that a fresh interpreter holds after a statement."""
    code = f"import sys\n{statement}\nprint(*(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(("statement", "heavy"), [
    ("import expectedkernels as ek; hasattr(ek, 'power')", set()),
    ("from expectedkernels.algebra import multiply", {"expectedkernels.arrays"}),
    ("import expectedkernels.cli", {"typer"}),
])  # fmt: skip
def test_importing_the_library_imports_nothing_heavy(statement, heavy):
    assert imported_by(statement) == heavy


def test_namespaces_are_imported_by_statements():
    spaces = sorted(set(ek._NAMESPACES))
    assert {"algebra", "datasets", "divergences", "io", "models", "stein", "vtrees"} < set(spaces)
    lines = ["import expectedkernels as ek", "import importlib, sys"]
    for space in spaces:
        lines += [
            f"import expectedkernels.{space} as found",
            f"assert found is ek.{space} is sys.modules['expectedkernels.{space}']",
            f"assert found.__spec__.name == found.__name__ == 'expectedkernels.{space}'",
            f"from expectedkernels.{space} import {sorted(getattr(ek, space).__all__)[0]}",
        ]
    imported_by("\n".join(lines))


def test_the_table_of_names_is_that_of_the_stub():
    stub = ast.parse(Path(ek.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = {a.name: node.module for node in imports if not node.level for a in node.names}
    homes = {name: f"expectedkernels.{module}" for name, module in ek._HOMES.items()}
    assert names == homes
    spaces = [alias.name for node in imports if node.level for alias in node.names]
    assert spaces == list(ek._NAMESPACES)


def test_the_table_of_namespaces_is_what_they_list():
    for space, names in ek._NAMESPACES.items():
        assert set(getattr(ek, space).__all__) - set(ek._HOMES) == set(names.split())


def test_public_classes_are_classes_of_the_package_or_of_a_namespace():
    for name in ek._HOMES:
        value = getattr(ek, name)
        assert not inspect.isclass(value) or value.__module__ == "expectedkernels", name
    for space in ek._NAMESPACES:
        for name in getattr(ek, space).__all__:
            value = getattr(getattr(ek, space), name)
            if inspect.isclass(value) and name not in ek._HOMES:
                assert value.__module__ == f"expectedkernels.{space}", name


def test_modules_of_version_0_2_have_their_classes():
    library = importlib.import_module("expectedkernels.kernels.library")
    with pytest.raises(ImportError, match=r"0\.2\.0 needs expectedkernels\.kernels\.library\.Old"):
        _ = library.Old
    assert library.RBF is ek.RBF
    for module in ek._OLD_CLASSES.split():
        importlib.import_module(f"expectedkernels.{module}")


def test_other_modules_are_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"expectedkernels\.nothing"):
        importlib.import_module("expectedkernels.nothing")
