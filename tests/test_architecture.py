"""The size of the package, its layers, and the page on its architecture."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import call_traces

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "expectedkernels"
TEXTS = {
    path.relative_to(SOURCE): path.read_text(encoding="utf-8")
    for path in sorted(SOURCE.rglob("*.py"))
}
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CODE_LINES = 28_193
STATEMENTS = 24_287
FILES = 106
MODULES_PER_FOLDER = 16
INNER_TEST_FILES = 40
"""Budgets. They only go down."""


def documentation(tree):
    """The statements that are strings alone: docstrings, and what is said below constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            yield node


def code_lines(text):
    """The number of lines that are not blank, no comment and no part of documentation."""
    words = set()
    for node in documentation(ast.parse(text)):
        words |= set(range(node.lineno, node.end_lineno + 1))
    lines = [(i, line.strip()) for i, line in enumerate(text.splitlines(), 1)]
    return sum(bool(line) and line[0] != "#" and i not in words for i, line in lines)


def statements(text):
    """The number of statements, documentation apart."""
    tree = ast.parse(text)
    count = sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
    return count - len(list(documentation(tree)))


def test_lines_of_code_are_neither_blank_nor_comments_nor_documentation():
    text = (
        '"""Words."""\n\n# more\nx = """a\nb"""\n"""Words."""\n\ndef f():\n    """Words.\n    """\n'
    )
    assert code_lines(text) == 3
    assert statements(text) == 2


def test_the_package_is_within_its_budgets():
    assert sum(map(code_lines, TEXTS.values())) <= CODE_LINES
    assert sum(map(statements, TEXTS.values())) <= STATEMENTS
    assert len(TEXTS) <= FILES
    modules = [path for path in TEXTS if path.name != "__init__.py"]
    assert max(Counter(path.parent for path in modules).values()) <= MODULES_PER_FOLDER
    names = Counter(path.name for path in modules)
    assert [name for name, n in names.items() if n > 1] == []


def uses_inner_names(tree):
    """Whether a test file imports from modules of the package that are not public."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return any(name.startswith("expectedkernels.") for name in names)


def test_few_test_files_use_inner_names_directly_or_through_a_helper():
    trees = {p: ast.parse(p.read_text(encoding="utf-8")) for p in ROOT.glob("tests/**/*.py")}
    inner = {path for path, tree in trees.items() if uses_inner_names(tree)}
    helpers = {path.stem for path in inner if not path.name.startswith("test_")}
    nodes = ((path, node) for path, tree in trees.items() for node in ast.walk(tree))
    through = {p for p, n in nodes if isinstance(n, ast.ImportFrom) and n.module in helpers}
    assert len(inner | through) <= INNER_TEST_FILES


def rows(title):
    """The rows of the first table under a title, as lists of cells."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def functions(path):
    """The names of all functions and methods that a file defines."""
    tree = ast.parse((SOURCE / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


NAMED = sorted(set(re.findall(r"`([\w/]+\.(?:py|toml)|[\w/]+/)`", PAGE)))


def test_every_file_named_exists():
    assert len(NAMED) > 30
    assert [n for n in NAMED if not (SOURCE / n).exists() and not (ROOT / n).exists()] == []


@pytest.mark.parametrize("row", rows("The trace of one call"), ids=lambda row: row[0][:40])
def test_every_function_of_the_trace_is_in_a_file_named_beside_it(row):
    defined = set().union(*(functions(path) for path in quoted(row[1])))
    assert quoted(row[2])
    assert set(quoted(row[2])) <= defined


def test_layers_are_those_of_the_contract_from_the_top_down():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = [
        c for c in project["tool"]["importlinter"]["contracts"] if "down the layers" in c["name"]
    ]
    assert quoted(" ".join(row[0] for row in rows("Layers"))) == contract["layers"][1:]


def test_the_functions_that_a_call_runs_are_found():
    found = call_traces.visited(call_traces.expected_kernel())
    assert found["expectation.py", "expected_kernel"] == 1
    assert ("engine/passes.py", "forward") in found
