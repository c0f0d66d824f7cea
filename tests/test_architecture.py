"""The page on the architecture speaks of files, functions and layers that are there."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from benchmarks import house

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "expectedkernels"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


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


@pytest.mark.parametrize("name", NAMED)
def test_every_file_named_exists(name):
    assert (SOURCE / name).exists() or (ROOT / name).exists()


def test_enough_files_are_named():
    assert len(NAMED) > 30


@pytest.mark.parametrize("row", rows("The walk of one call"), ids=lambda row: row[0][:40])
def test_every_function_on_the_walk_is_in_a_file_named_beside_it(row):
    there = set().union(*(functions(path) for path in quoted(row[1])))
    assert quoted(row[2])
    assert set(quoted(row[2])) <= there


def test_layers_are_those_of_the_contract_from_the_top_down():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = [
        c for c in project["tool"]["importlinter"]["contracts"] if "down the layers" in c["name"]
    ]
    wanted = [set(re.findall(r"\w+", layer)) - {"__main__"} for layer in contract["layers"]]
    shown = [layer for row in rows("Layers") for layer in quoted(row[0])]
    for level in filter(None, wanted):
        assert set(shown[: len(level)]) == level
        shown = shown[len(level) :]
    assert shown == []


def places(home, count):
    """The files outside of their home in which something is counted."""
    texts = house.sources(SOURCE).items()
    return {path for path, text in texts if not path.startswith(home) and count(text)}


def test_blocks_are_not_asked_for_their_kind():
    assert places(house.AT_HOME, house.kind_tests) == set()


def test_nodes_of_vtrees_are_gone_through_by_the_engine():
    assert places(house.OF_NODES, lambda text: sum(house.node_loops(text))) == set()
