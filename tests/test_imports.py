"""Importing the library stays light: heavy dependencies come in when they are used."""

import importlib
import subprocess
import sys

import pytest

import expectedkernels as ek

HEAVY = ("matplotlib", "narwhals", "pandas", "sklearn", "torch", "typer")


def imported_by(statement):
    """The heavy packages that a fresh interpreter holds after a statement."""
    code = f"import sys\n{statement}\nprint(*(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_library_imports_nothing_heavy():
    assert imported_by("import expectedkernels") == set()


def test_importing_the_command_line_imports_only_typer():
    assert imported_by("import expectedkernels.cli") == {"typer"}


def test_namespaces_are_imported_by_statements():
    spaces = sorted(set(ek._NAMESPACES))
    assert {"algebra", "datasets", "divergences", "io", "models", "stein", "vtrees"} < set(spaces)
    lines = ["import expectedkernels as ek", "import importlib, sys"]
    for space in spaces:
        lines += [
            f"import expectedkernels.{space} as found",
            f"assert found is ek.{space} is sys.modules[ek._NAMESPACES[{space!r}]]",
            f"assert found.__spec__.name == found.__name__ == ek._NAMESPACES[{space!r}]",
            f"from expectedkernels.{space} import {sorted(getattr(ek, space).__all__)[0]}",
        ]
    imported_by("\n".join(lines))


def test_a_namespace_imports_nothing_heavy():
    assert imported_by("from expectedkernels.algebra import multiply") == set()


def test_other_modules_are_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"expectedkernels\.nothing"):
        importlib.import_module("expectedkernels.nothing")


@pytest.mark.parametrize("package", HEAVY)
def test_the_check_would_notice(package):
    pytest.importorskip(package)
    assert package in imported_by(f"import {package}")
