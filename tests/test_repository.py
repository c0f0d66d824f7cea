"""What lies around the code says what is there."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml

import expectedkernels as ek

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


def test_the_citation_is_that_of_the_package_and_of_the_paper():
    citation = yaml.safe_load(text("CITATION.cff"))
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["type"] == "software"
    assert citation["version"] == ek.__version__
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]
    assert f"\n## {ek.__version__}" in text("CHANGELOG.md")
    [paper] = citation["references"]
    assert paper["title"] == "Tractable Computation of Expected Kernels"
    families = [author["family-names"] for author in paper["authors"]]
    assert families == ["Li", "Zeng", "Vergari", "Van den Broeck"]
    assert paper["year"] == 2021
