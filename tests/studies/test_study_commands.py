"""Studies and benchmarks run as modules, which list what there is."""

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import main
from studies.__main__ import app

STUDIES = ("regression", "inference", "missing")


def invoke(*arguments):
    return CliRunner().invoke(app, arguments)


def test_studies_are_listed():
    assert set(STUDIES) <= set(invoke().output.split())


@pytest.mark.parametrize("name", STUDIES)
def test_studies_have_an_example(name):
    shown = " ".join(invoke(name, "-h").output.split())
    assert f"Example: python -m studies {name} --quick" in shown


def test_benchmarks_are_listed_and_found(capsys):
    main(["--list"])
    assert "learned_circuits" in capsys.readouterr().out.split()
    with pytest.raises(SystemExit) as raised:
        main(["nothing"])
    assert raised.value.code == 2
    assert "there is no benchmark 'nothing'. There are learned_circuits" in capsys.readouterr().err
