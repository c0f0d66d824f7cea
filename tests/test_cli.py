import subprocess
import sys

import pytest
from typer.testing import CliRunner

import expectedkernels as ek
from expectedkernels.cli import app


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_version_is_that_of_the_package():
    done = invoke("--version")
    assert done.exit_code == 0
    assert done.output == f"expectedkernels {ek.__version__}\n"


def test_without_a_command_help_is_shown():
    assert "demo" in invoke().output


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_the_options(flag):
    done = invoke("demo", flag)
    assert done.exit_code == 0
    for option in ("--out", "--seed", "--samples"):
        assert option in done.output


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "expectedkernels", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "demo" in done.stdout


def test_demo_prints_a_table_and_writes_a_picture(tmp_path):
    out = tmp_path / "picture.png"
    done = invoke("demo", "--out", out, "--samples", 1000)
    assert done.exit_code == 0, done.output
    assert done.output.count("Monte Carlo") == 2
    assert "exact" in done.output
    assert str(out) in done.output
    assert out.read_bytes().startswith(b"\x89PNG")


def test_demo_refuses_too_few_samples():
    done = invoke("demo", "--samples", 10)
    assert done.exit_code == 2
    assert "--samples" in done.output


def test_demo_without_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.delitem(sys.modules, "expectedkernels.plotting", raising=False)
    out = tmp_path / "picture.png"
    done = invoke("demo", "--out", out, "--samples", 100)
    assert done.exit_code == 1
    assert "pip install 'expectedkernels[plot]'" in done.output
    assert "Monte Carlo" in done.output
    assert not out.exists()
