import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import expectedkernels as ek
from cli_files import EXAMPLES, invoke, run
from oracles import with_holes


def test_version_is_that_of_the_package():
    done = run("--version")
    assert done.output == f"expectedkernels {ek.__version__}\n"


def test_demo_without_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for name in [name for name in sys.modules if name.startswith("expectedkernels.plotting")]:
        monkeypatch.delitem(sys.modules, name)
    out = tmp_path / "picture.png"
    done = invoke("demo", "--out", out, "--splits", 1)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: No figure was written. ")
    assert "pip install 'expectedkernels[plot]'" in done.output
    assert "expected prediction" in done.output
    assert not out.exists()


@pytest.mark.parametrize(("call", "instead"), [
    (["reproduce", "regression", "--quick"], "python -m studies NAME"),
    (["reproduce", "--help"], "python -m studies NAME"),
    (["bench", "learned_circuits"], "python -m benchmarks NAME"),
    (["schema", "test"], "docs/schemas.json"),
])  # fmt: skip
def test_removed_commands_name_what_to_use_instead(call, instead):
    done = invoke(*call)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: The command '{call[0]}' was removed. ")
    assert instead in done.stderr
    assert call[0] not in invoke("--help").output.split()


def table(tmp_path, name="data.csv", seed=0):
    """A file with a header and missing values, and its rows."""
    X = np.random.default_rng(seed).integers(2, size=(60, 4))
    X[:, 1] = X[:, 0]
    X = with_holes(X, 0.1, seed)
    np.savetxt(tmp_path / name, X, "%.0f", ",", header="a,b,c,d", comments="")
    return tmp_path / name, X


def shown(done):
    """The two columns that a command prints, as a dictionary."""
    return dict(line.split(None, 1) for line in done.stdout.splitlines() if " " in line)


@pytest.mark.parametrize("method", ["chow-liu", "strudel", "mixture"])
@pytest.mark.parametrize("validated", [False, True])
def test_learn_writes_a_circuit(tmp_path, method, validated):
    data, X = table(tmp_path)
    out = tmp_path / "circuit.npz"
    options = ["--iterations", 3, "--components", 2, "--em-iterations", 3]
    if validated:
        valid, X_valid = table(tmp_path, "valid.csv", seed=1)
        options += ["--valid", valid]
    done = run("learn", data, "-o", out, "--method", method, *options)
    assert done.stderr == ""
    circuit = ek.load(out)
    found = shown(done)
    assert found["rows"] == "60"
    assert found["variables"] == "4 (4 binary)"
    assert found["log-likelihood"].startswith(f"{circuit.log_likelihood(X).mean():.4f}")
    if validated:
        assert found["validation"] == f"{circuit.log_likelihood(X_valid).mean():.4f}"


@pytest.mark.parametrize("method", ["chow-liu", "strudel", "mixture"])
def test_states_that_only_the_validation_data_have_count(tmp_path, method):
    data, valid, out = (tmp_path / name for name in ("data.csv", "valid.csv", "c.npz"))
    data.write_text("0,1\n1,0\n")
    valid.write_text("0,2\n")
    run("learn", data, "-o", out, "--valid", valid, "--method", method, "--components", 2)
    assert ek.load(out).cardinalities == (2, 3)


def test_compile_writes_a_circuit_and_its_partition_function(tmp_path):
    model, out = tmp_path / "model.uai", tmp_path / "c.npz"
    model.write_text("MARKOV 2 2 2 1 2 0 1 4 1.0 2.0 3.0 4.0")
    done = run("compile", model, "-o", out)
    assert f"log Z       {np.log(10):.10f}" in done.stdout
    assert ek.load(out).marginals()[0].round(12).tolist() == [0.3, 0.7]
    evidence, vtree = tmp_path / "model.uai.evid", tmp_path / "model.vtree"
    evidence.write_text("1 0 1")
    ek.write_vtree(ek.Vtree.from_nested((1, 0)), vtree)
    done = run("compile", model, "-o", out, "--evidence", evidence, "--vtree", vtree)
    assert f"log Z       {np.log(7):.10f}" in done.stdout
    assert ek.load(out).vtree == ek.Vtree.from_nested((1, 0))


def test_zeros_have_no_sign(tmp_path):
    model, data = tmp_path / "model.uai", tmp_path / "data.csv"
    model.write_text("BAYES 1 2 1 1 0 2 0.3 0.7")
    done = invoke("compile", model, "-o", tmp_path / "c.npz")
    assert shown(done)["log"] == "Z       0.0000000000"
    data.write_text("0,1\n0,1\n")
    options = ["--pseudocount", 0, "--method", "chow-liu"]
    done = invoke("learn", data, "-o", tmp_path / "c.npz", *options)
    assert shown(done)["log-likelihood"] == "0.0000 (mean of the rows)"


def test_info_of_every_format(tmp_path):
    p = ek.mixture([ek.factorized([[0.1, 0.9]] * 3), ek.factorized([[0.2, 0.8]] * 3)])
    deterministic = ek.factorized([[0.25, 0.75]] * 3)
    ek.save(p, tmp_path / "p.npz")
    ek.write_jpc(p, tmp_path / "p.jpc.gz")
    ek.io.write_spn(p, tmp_path / "p.spn")
    ek.write_psdd(deterministic, tmp_path / "q.psdd", tmp_path / "q.vtree")
    for name in ("p.npz", "p.jpc.gz", "p.spn", "q.psdd"):
        done = run("info", tmp_path / name)
        assert shown(done)["variables"] == "3 (3 binary)"
        assert shown(done)["sum"] == "1, normalised"
        assert done.stdout.count("yes: ") == (4 if name == "q.psdd" else 3)
    assert "overlapping supports" in invoke("info", tmp_path / "p.npz").stdout
    (tmp_path / "q.vtree").rename(tmp_path / "other.vtree")
    done = run("info", tmp_path / "q.psdd", "--vtree", tmp_path / "other.vtree")


def test_info_of_other_circuits(tmp_path):
    cases = {
        "not normalised": ek.factorized([[1.0, 3.0], [1.0, 1.0]], normalized=False),
        "exp(2.07944), not": ek.factorized([[1.0, 3.0], [1.0, 1.0]], normalized=False),
        "negative": ek.factorized([[1.0, -3.0], [1.0, 1.0]], normalized=False),
        "1 real": ek.gaussian_mixture([1.0], [[0.0]], [[1.0]]),
        "roots": ek.algebra.stack([ek.factorized([[0.5, 0.5]]), ek.factorized([[0.1, 0.9]])]),
        "... up to 12 states": ek.factorized([[1.0] * n for n in range(2, 13)], normalized=False),
    }
    path = tmp_path / "p.npz"
    for text, circuit in cases.items():
        ek.save(circuit, path)
        done = run("info", path)
        assert text in done.stdout
    ek.save(ek.random_circuit(2, 5_001, rng=0), path)  # as many products of one node
    assert "undecided: not checked" in invoke("info", path).stdout


def test_info_of_a_circuit_that_is_not_structured(tmp_path):
    half = np.log(0.5)
    lines = ["(2 2 2)", "v 0 0", "v 1 0", "v 2 0", "v 0 1", "v 1 1", "v 2 1"]
    lines += ["* 0 1", "* 3 4", f"+ 6 {half} 7 {half}", "* 8 2"]  # {0, 1} | {2}
    lines += ["* 0 2", "* 3 5", f"+ 10 {half} 11 {half}", "* 12 4"]  # {0, 2} | {1}
    path = tmp_path / "p.spn"
    path.write_text("\n".join([*lines, f"+ 9 {half} 13 {half}", "EOF"]) + "\n")
    done = run("info", path)
    assert shown(done)["units"] == "15"
    assert "structured_decomposable: no: over variables {0, 1, 2}" in done.stdout


def test_running_out_of_memory_is_no_traceback(tmp_path, monkeypatch):
    def hungry(path):
        raise MemoryError

    monkeypatch.setattr(ek.io, "load", hungry)
    done = invoke("info", tmp_path / "p.npz")
    assert done.exit_code == 1
    assert "not enough memory" in done.stderr


def test_notes_of_errors_are_shown(tmp_path):
    ek.write_psdd(ek.factorized([[0.5, 0.5]] * 3), tmp_path / "q.psdd", tmp_path / "q.vtree")
    ek.write_vtree(ek.Vtree.balanced(2), tmp_path / "q.vtree")
    done = invoke("info", tmp_path / "q.psdd")
    assert done.exit_code == 1
    assert "which lies beside the file" in done.stderr


DOCS = Path(__file__).parents[2] / "docs"
SCHEMAS = json.loads((DOCS / "schemas.json").read_text(encoding="utf-8"))
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}
TYPES |= {"boolean": bool, "null": type(None)}
MORE = {
    "learn": "learn patients.csv --valid later.csv -o c.npz --without id --method chow-liu",
    "info": "info rain.npz",
    "marginals": "marginals rain.uai --given 0=1",
    "test": "test c.npz rows.csv --statistic kdsd",
    "fit": "fit patients.csv --target ill --without id -o ill.skops",
    "predict": "predict new.csv --train patients.csv --target ill --without id --without pressure",
    "explain": "explain new.csv --train patients.csv --target ill --without id --without pressure",
}
SLOW = ("learn", "demo")
ASKED = [(name, EXAMPLES[name]) for name in EXAMPLES if name in SCHEMAS and name not in SLOW]


def check(value, schema, place="$"):
    """Assert that a value follows a schema, of the words that the schemas here use."""
    known = {"$schema", "title", "description", "type", "enum", "items", "properties", "required"}
    assert set(schema) <= known | {"additionalProperties"}, place
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if isinstance(value, bool):  # true and false are no numbers
        kinds = {"boolean"} & set(kinds)
    assert any(isinstance(value, TYPES[kind]) for kind in kinds), (place, value)
    assert value in schema.get("enum", [value]), place
    if isinstance(value, list):
        for i, entry in enumerate(value):
            check(entry, schema["items"], f"{place}[{i}]")
    if isinstance(value, dict):
        assert set(schema.get("required", ())) <= set(value), place
        for name, entry in value.items():
            below = schema.get("properties", {}).get(name, schema["additionalProperties"])
            assert below is not False, f"{place}.{name}"
            check(entry, below, f"{place}.{name}")


@pytest.fixture
def compiled(folder):
    invoke("compile", "rain.uai", "-o", "rain.npz")
    return folder


@pytest.mark.parametrize(("name", "call"), [*ASKED, *MORE.items()])
def test_answers_follow_their_schema(compiled, name, call):
    done = invoke(*shlex.split(call), *([] if "--json" in call else ["--json"]))
    assert done.exit_code in (0, 3), done.output
    check(json.loads(done.stdout), SCHEMAS[name])


def test_the_demo_prints_a_table_and_writes_a_picture(folder):
    done = run("demo", "--splits", 1, "--json")
    check(json.loads(done.stdout), SCHEMAS["demo"])
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    done = run("demo", "--out", "picture.png", "--splits", 1)
    assert done.stderr == ""  # no progress off a terminal
    for words in ("expected prediction", "iterative imputation", "picture.png"):
        assert words in done.output
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_every_command_with_json_has_a_schema():
    told = {name for name in EXAMPLES if "--json" in invoke(name, "--help").output}
    assert told == set(SCHEMAS)


@pytest.mark.parametrize("more", [{}, {"mmd": "1"}, {"p": 1, "mmd": 1}, {"mmd": 1.0, "more": 2}])
def test_the_check_finds_what_is_wrong(more):
    check({"p": "a", "q": "b", "mmd": 1.0}, SCHEMAS["mmd"])
    for value in ({"p": "a", "q": "b", **more}, []):
        with pytest.raises(AssertionError):
            check(value, SCHEMAS["mmd"])
