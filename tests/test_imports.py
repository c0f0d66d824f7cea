"""Importing the library stays light: heavy dependencies come in when they are used."""

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("package", HEAVY)
def test_the_check_would_notice(package):
    pytest.importorskip(package)
    assert package in imported_by(f"import {package}")
