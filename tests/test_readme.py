"""The code of the README and of the pages in docs/ runs, and prints what they say it prints."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MADE = ("_build", "api", "gallery")
"""Folders of docs/ that a build fills."""
PAGES = [ROOT / "README.md"] + [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.relative_to(ROOT / "docs").parts[0] not in MADE
]


def python_blocks(text):
    """(line, source) of every fenced block of Python; the line is that of its first statement."""
    for match in re.finditer(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start(1)) + 1, match.group(1)


def promised_output(source):
    """What the comments after print calls say, in order."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", source, flags=re.MULTILINE)


def test_there_are_blocks():
    assert sum(bool(list(python_blocks(page.read_text(encoding="utf-8")))) for page in PAGES) > 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_run_in_order_and_print_what_they_promise(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # some write files
    names = {"__name__": "readme"}
    for line, source in python_blocks(page.read_text(encoding="utf-8")):
        # Leading newlines make tracebacks point at the lines of the page.
        exec(compile("\n" * (line - 1) + source, page, "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        assert printed == promised_output(source), f"block at line {line}"


def test_promises_are_found():
    assert promised_output("x = 1  # no\nprint(x)  # 1\n    print('#')  # #\n") == ["1", "#"]


def test_the_readme_starts_with_an_installation_and_an_incomplete_table():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 0 < text.index("pip install") < text.index("```python")
    _, first = next(python_blocks(text))
    assert "DataFrame" in first
    assert "None" in first


def test_the_readme_has_no_numbers_but_those_that_code_prints():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text.partition("## Reference")[0], flags=re.M | re.S)
    found = re.findall(r"\d[\d.,]*", prose)
    assert found == ["90", "3.11"]  # the coverage that is asked for, and the version of Python
