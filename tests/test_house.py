"""What lies around the code says what is there."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml

from benchmarks import house

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.md")])


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def targets():
    """The targets of the Makefile that `make help` lists."""
    return set(re.findall(r"^([a-z]+):.*##", text("Makefile"), flags=re.MULTILINE))


def test_all_targets_are_phony():
    [phony] = re.findall(r"^\.PHONY: (.*)$", text("Makefile"), flags=re.MULTILINE)
    assert set(phony.split()) == targets()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_name_targets_and_files_that_exist(path):
    page = path.read_text(encoding="utf-8")
    for block in re.findall(r"`make ([a-z]+)|^make ([a-z]+)", page, flags=re.MULTILINE):
        assert set(block) - {""} <= targets()
    for link in re.findall(r"\]\(([^)#]+)\)", page):
        assert link.startswith("https://") or (path.parent / link).exists() or is_made(link), link


def is_made(link):
    """Whether the build of the site makes this page: the gallery of examples, the reference."""
    folder, _, name = link.replace("images/sphx_glr_", "").replace("_001.", ".").rpartition("/")
    if folder.rpartition("/")[2] == "gallery":
        return name == "index.rst" or (ROOT / "examples" / name).with_suffix(".py").is_file()
    return link.endswith("api/index.md")


def test_hooks_run_what_the_checks_run():
    [repo] = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"]
    tools = {hook["entry"].split()[0] for hook in repo["hooks"]}
    wanted = re.findall(r"^\t\$\(BIN\)/(ruff|mypy|lint-imports)", text("Makefile"), re.MULTILINE)
    assert tools == {f".venv/bin/{tool}" for tool in wanted}


def test_continuous_integration_runs_its_script():
    workflow = yaml.safe_load(text(".github/workflows/ci.yml"))
    job = workflow["jobs"]["run"]
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    least = tomllib.loads(text("pyproject.toml"))["project"]["requires-python"]
    assert least == f">={job['strategy']['matrix']['python'][0]}"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/*.md")))
def test_templates_of_issues_have_a_name_and_a_purpose(path):
    _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
    assert {"name", "about"} <= set(yaml.safe_load(head))
    assert body.strip()


def test_lines_of_code_are_neither_empty_nor_comments_nor_docstrings():
    text = '"""Words."""\n\n# more\nx = """a\n# b"""\n\n\ndef f():\n    """Words.\n\n    """\n'
    assert house.code_lines(text) == 3


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("isinstance(block, Table)", 1),
        ("isinstance(block, (Table, inputs.Normal)) or isinstance(other, Inner)", 2),
        ("isinstance(block, Normals) or Table(Inner)", 0),
        ("from numbers import Real\nisinstance(x, Real)", 0),
        ("from expectedkernels.circuits.inputs import Real\nisinstance(x, Real)", 1),
    ],
)
def test_kinds_of_blocks_are_found(line, count):
    assert house.kind_tests(line) == count


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("for node, block in enumerate(circuit.blocks): pass", (1, 0)),
        ("for block in blocks: pass", (1, 0)),
        ("for node in range(vtree.root, -1, -1): pass", (1, 0)),
        ("for a, b in zip(f.vtree.left.tolist(), parts): pass", (1, 0)),
        ("[block.n_units for block in reversed(self.blocks)]", (0, 1)),
        ("[[] for _ in range(self.n_nodes + 1)]", (0, 1)),
        ("[block for block in blocks]", (0, 0)),
        ("for v in range(vtree.n_variables): pass", (0, 0)),
        ("for node in visit(circuit.blocks): pass", (0, 0)),
    ],
)
def test_loops_over_nodes_are_found(line, counts):
    assert house.node_loops(line) == counts


def test_the_functions_that_a_call_visits_are_seen():
    found = house.visited(house.expected_kernel())
    assert found["expectation.py", "expected_kernel"] == 1
    assert ("engine/sweep.py", "sweep") in found


def test_archives_with_an_address_have_no_relative_links():
    tools = runpy.run_path(str(ROOT / ".ci" / "addresses.py"))
    page = tools["absolute"](text("README.md"), "https://a.org/b", "1.0")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", page)
    assert ("!", "https://a.org/b/raw/v1.0/docs/demo.png") in links
    assert ("", "https://a.org/b/blob/v1.0/docs/tutorials/models.md") in links
    assert all(link.startswith("https://") for _, link in links)
    table = tomllib.loads(text("pyproject.toml") + tools["urls"]("https://a.org/b", "1.0"))
    assert table["project"]["urls"]["Homepage"] == "https://a.org/b"
    assert table["project"]["urls"]["Changelog"] == "https://a.org/b/blob/v1.0/CHANGELOG.md"
