"""What lies around the code says what is there: pages, the site, the README."""

import inspect
import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml

import expectedkernels as ek
from docs._ext import api_pages

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.md")])


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def targets():
    """The targets of the Makefile that `make help` lists."""
    return set(re.findall(r"^([a-z]+):.*##", text("Makefile"), flags=re.MULTILINE))


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


def test_targets_hooks_and_continuous_integration():
    [phony] = re.findall(r"^\.PHONY: (.*)$", text("Makefile"), flags=re.MULTILINE)
    assert set(phony.split()) == targets()
    [repo] = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"]
    tools = {hook["entry"].split()[0] for hook in repo["hooks"]}
    wanted = re.findall(r"^\t\$\(BIN\)/(ruff|mypy|lint-imports)", text("Makefile"), re.MULTILINE)
    assert tools == {f".venv/bin/{tool}" for tool in wanted}
    job = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]["run"]
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


WITH_CODE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MADE = {"_build", "api", "gallery"}
WITH_CODE = [page for page in WITH_CODE if not MADE & set(page.relative_to(ROOT).parts)]


def python_blocks(text):
    """(line, source) of every fenced block of Python; the line is that of its first statement."""
    for match in re.finditer(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def promised_output(source):
    """What the comments after print calls say, in order."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", source, flags=re.MULTILINE)


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_run_in_order_and_print_what_they_promise(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # some write files
    names = {"__name__": "readme"}
    for line, source in python_blocks(page.read_text(encoding="utf-8")):
        # Leading newlines make tracebacks point at the lines of the page.
        exec(compile("\n" * (line - 1) + source, page, "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        assert printed == promised_output(source), f"block at line {line}"


def test_the_readme_starts_with_code_and_has_no_other_numbers():
    page = text("README.md")
    assert 0 < page.index("pip install") < page.index("```python")
    _, first = next(python_blocks(page))
    assert "DataFrame" in first
    assert "None" in first
    prose = re.sub(r"^```.*?^```", "", page.partition("## Reference")[0], flags=re.M | re.S)
    found = re.findall(r"\d[\d.,]*", prose)
    # the coverage that is asked for, the rows and the coverage of the demo, the version of Python
    assert found == ["90", "148", "86", "3.11"]


SPACES = [name for name in ek.__all__ if inspect.ismodule(getattr(ek, name))]
LISTED = [name for names in api_pages.groups().values() for name in names]


def test_every_public_name_is_in_the_reference_once():
    flat = set(ek.__all__) - set(SPACES)
    more = {f"{s}.{n}" for s in SPACES for n in getattr(ek, s).__all__ if n not in flat}
    assert sorted(LISTED) == sorted(flat | more)
    files = api_pages.file_names()
    assert files["monitoring.monitor"] == "monitoring.monitor.rst"
    assert len({file.lower() for file in files.values()}) == len(LISTED)  # on all file systems
    index = api_pages.index_page()
    shown = index.split(".. currentmodule:: expectedkernels.algebra\n")[1].split("-----")[0]
    assert re.search(r"^   multiply$", shown, re.MULTILINE)
    page = api_pages.name_page("ExpectedSVR")
    assert "ExpectedSVR.predict" in page
    assert "set_params" not in page
    assert "gram" not in api_pages.name_page("RBF")


@pytest.mark.parametrize(("name", "directive"), [
    ("expected_kernel", ".. autofunction:: expected_kernel"),
    ("Circuit", ".. automethod:: Circuit.sample"),
    ("Circuit", ".. autoproperty:: Circuit.n_edges"),
    ("DataError", ".. autoexception:: DataError"),
    ("algebra.multiply", ".. currentmodule:: expectedkernels.algebra"),
])  # fmt: skip
def test_pages_say_what_there_is(name, directive):
    assert directive in api_pages.name_page(name).splitlines()


@pytest.mark.parametrize(("text", "name"), [
    ("mmd", "expectedkernels.mmd"),
    ("ek.mmd(p, q)", "expectedkernels.mmd"),
    ("Circuit.sample", "expectedkernels.Circuit.sample"),
    ("ek.io.read_spn", "expectedkernels.io.read_spn"),
    ("ek", None),
    ("max_bytes", None),
    ("Circuit.nothing", None),
    ("Circuit.__init__", None),
    ("errors.DataError", None),
])  # fmt: skip
def test_words_in_backticks_lead_to_public_names_only(text, name):
    assert api_pages.public_name(text) == name
