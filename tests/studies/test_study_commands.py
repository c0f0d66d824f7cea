"""Studies and benchmarks run as modules, which list what there is."""

import re
from pathlib import Path

import pytest

from assertions import assert_raises
from benchmarks.__main__ import main as benchmark
from expectedkernels import ParseError
from studies.__main__ import main
from studies.base import Results

STUDIES = ("regression", "inference", "missing")


def test_studies_are_listed(capsys):
    assert main([]) == 2
    assert set(STUDIES) <= set(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", STUDIES)
def test_studies_have_an_example(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "-h"])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Example: python -m studies {name} --quick" in shown


@pytest.mark.parametrize(("study", "option", "message"), [
    ("regression", "--dataset", "There is no data set 'none'. There are: abalone; "),
    ("regression", "--split", "There is no split 'none'"),
    ("regression", "--method", "There is no method 'none'"),
    ("regression", "--jobs=0", "at least 1, or -1 for all. Got 0"),
    ("inference", "--model", "There is no model 'none'"),
    ("inference", "--proposal", "There is no proposal 'none'"),
    ("inference", "--again", "There is no rule for weights 'none'"),
    ("missing", "--table", "There is no table 'none'. There are: diabetes; linnerud"),
    ("missing", "--method", "There is no method 'none'. There are: expected SVM"),
    ("missing", "--missing", "There is no place of missing values 'none'. There are: test; both"),
])  # fmt: skip
def test_unknown_names_are_refused(study, option, message, tmp_path, capsys):
    given = [option] if "=" in option else [option, "none"]
    assert main([study, *given, "--out", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_file_of_other_columns_is_not_touched(tmp_path):
    columns = {"trial": int}, {"error": float}
    for text, message in (
        ("a,b\n1,2\n", "expected results: columns trial, error, found a, b"),
        ("trial,error\nx,1.0\n", "expected results: invalid literal"),
        ("trial,error\n1,2.0\n1\n", "expected results: could not convert string to float"),
    ):
        (tmp_path / "results.csv").write_text(text)
        assert_raises(ParseError, message, Results, tmp_path, *columns, {})
        assert (tmp_path / "results.csv").read_text() == text


def test_benchmarks_are_listed_and_found(capsys):
    for arguments, code, message in (
        (["--help"], 0, "hidden_trees"),
        (["nothing"], 2, "nothing"),
    ):
        with pytest.raises(SystemExit) as raised:
            benchmark(arguments)
        assert raised.value.code == code
        assert message in "".join(capsys.readouterr())


def test_benchmarks_that_pages_name_are_there(capsys):
    docs = Path(__file__).parents[2] / "docs"
    text = " ".join(path.read_text(encoding="utf-8") for path in docs.rglob("*.md"))
    with pytest.raises(SystemExit):
        benchmark(["--help"])
    named = set(re.findall(r"python -m benchmarks (\w+)", text))
    assert named
    assert named <= set(capsys.readouterr().out.split())
