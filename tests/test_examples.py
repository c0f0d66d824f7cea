"""The scripts in examples/ run to their end, draw a figure, and use nothing but public names."""

import ast
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import expectedkernels as ek

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def not_public(source):
    """What a script takes of the library otherwise than as a public name of `ek`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.level or _is_ours(node.module)):
            yield f"from {node.module} import"
        elif isinstance(node, ast.Import):
            ours = [a for a in node.names if _is_ours(a.name)]
            yield from (a.name for a in ours if (a.name, a.asname) != ("expectedkernels", "ek"))
        elif isinstance(node, ast.Attribute):
            of_ek = isinstance(node.value, ast.Name) and node.value.id == "ek"
            if node.attr.startswith("_") or (of_ek and node.attr not in ek.__all__):
                yield node.attr


def _is_ours(module):
    return module.split(".")[0] in ("expectedkernels", "studies", "benchmarks", "tests")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_print_draw_leave_no_files_and_use_public_names(
    path, tmp_path, monkeypatch, capsys
):
    source = path.read_text(encoding="utf-8")
    assert "import expectedkernels as ek\n" in source
    assert list(not_public(source)) == []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)  # nobody looks
    plt.close("all")
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert plt.get_fignums()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("line", "found"), [
    ("from expectedkernels import RBF", "from expectedkernels import"),
    ("from expectedkernels.vtree import Vtree", "from expectedkernels.vtree import"),
    ("import expectedkernels.vtree as vt", "expectedkernels.vtree"),
    ("import expectedkernels", "expectedkernels"),
    ("from studies.base import curve", "from studies.base import"),
    ("ek.vtree.Vtree(0)", "vtree"),
    ("circuit._fields()", "_fields"),
])  # fmt: skip
def test_the_check_would_notice(line, found):
    assert list(not_public(line)) == [found]
