"""Commands on whole files: examples of the help, pipes, exit codes, and what they print."""

import csv
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import expectedkernels as ek
from cli_files import EXAMPLES, invoke, patients, run, write_csv


def states(circuit, path):
    """The rows of a text file as states of the variables of a circuit, numbers by their bins."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    found = np.full((len(rows), circuit.n_variables), np.nan)
    for v, (name, labels) in enumerate(zip(circuit.names, circuit.states, strict=True)):
        for i, cell in enumerate(row[name] for row in rows):
            if cell in labels:
                found[i, v] = labels.index(cell)
            elif cell:
                found[i, v] = sum(float(label.split()[0]) <= float(cell) for label in labels[1:])
    return found


def test_every_command_is_described():
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    for name in EXAMPLES:
        assert re.search(f"(expectedkernels |`){name}[ `]", text), name


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "demo"])
def test_examples_of_the_help_run(folder, name):
    done = invoke(*shlex.split(EXAMPLES[name]))
    assert done.exit_code == (3 if name == "drift" else 0), done.output
    assert not done.stderr


def test_samples_are_piped_into_a_test(folder):
    rows = invoke("sample", "c.npz", "-n", 1000).stdout
    assert rows.startswith("smoker,sex\n")
    run("test", "c.npz", "-", stdin=rows)
    other = ek.factorized([[0.5, 0.5]] * 2).with_names(
        ["sex", "smoker"], [["f", "m"], ["no", "yes"]]
    )
    ek.save(other, "other.npz")
    done = invoke("test", "other.npz", "-", stdin=rows)
    assert done.exit_code == 3
    assert "is rejected at 0.05" in done.stdout


@pytest.mark.parametrize("statistic", ["mmd", "kdsd"])
def test_a_test_is_that_of_the_library(folder, statistic):
    done = invoke("test", "c.npz", "rows.csv", "--statistic", statistic, "--seed", 3, "--json")
    p = ek.load("c.npz")
    rows = states(p, "rows.csv")
    call = ek.mmd_test if statistic == "mmd" else ek.kdsd_test
    wanted, found = call(rows, p, rng=3), json.loads(done.stdout)
    assert (found["p_value"], found["statistic"]) == (wanted.p_value, wanted.statistic)
    assert found["rejected"] == (done.exit_code == 3)


def test_discrepancies_are_those_of_the_library(folder):
    p = ek.load("c.npz")
    rows = states(p, "rows.csv")
    q = ek.factorized([[0.5, 0.5]] * 2).with_names(p.names, p.states)
    ek.save(q, "q.npz")
    for pair, wanted in (
        (("c.npz", "rows.csv"), ek.mmd(p, rows)),
        (("rows.csv", "c.npz"), ek.mmd(rows, p)),
        (("c.npz", "q.npz"), ek.mmd(p, q)),
    ):
        found = json.loads(invoke("mmd", *pair, "--json").stdout)
        assert found == {"p": pair[0], "q": pair[1], "mmd": pytest.approx(wanted, rel=1e-12)}
    found = json.loads(invoke("kdsd", "rows.csv", "q.npz", "--json").stdout)
    assert found["kdsd"] == pytest.approx(ek.kdsd(rows, q), rel=1e-12)
    assert float(invoke("mmd", "rows.csv", "rows.csv").stdout) == 0.0
    assert invoke("mmd", "-", "-").exit_code == 2


def test_marginals_are_conditional(folder):
    p = ek.load("c.npz")
    [found] = json.loads(
        invoke("marginals", "c.npz", "--given", "smoker=yes", "--of", "sex", "--json").stdout
    )["marginals"]
    wanted = p.marginals({"smoker": "yes"})["sex"]
    assert found == {
        "name": "sex",
        "real": False,
        "values": pytest.approx(dict(zip("fm", wanted, strict=True))),
    }
    assert "1 0.6" in invoke("marginals", "rain.uai", "--of", "1").stdout
    for words, message in (
        ("smoker", "written as NAME=VALUE"),
        ("smoke=yes", "Did you mean 'smoker'?"),
        ("smoker=maybe", "Got 'maybe' instead"),
        ("smoker=", "Nothing is said of 'smoker'"),
    ):
        done = invoke("marginals", "c.npz", "--given", words)
        assert done.exit_code == 1
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_numbers_are_found_in_their_bins(folder):
    done = invoke(
        "learn", "patients.csv", "-o", "l.npz", "--without", "id", "--bins", 4, "--iterations", 5
    )
    assert done.exit_code == 0, done.output
    p = ek.load("l.npz")
    assert p.names == ("sex", "smoker", "age", "pressure", "ill")
    assert p.cardinalities[3] == 4
    table = patients(120, 0)
    edge = float(p.states[3][0].removeprefix("below "))
    rows = states(p, "patients.csv")
    complete = ~np.isnan(rows).any(axis=1)
    write_csv(folder / "full.csv", {name: np.array(table[name])[complete] for name in p.names})
    found = json.loads(invoke("mmd", "l.npz", "full.csv", "--json").stdout)
    assert found["mmd"] == pytest.approx(ek.mmd(p, rows[complete]), rel=1e-12)
    assert ((rows[:, 3] == 0) == (np.array(table["pressure"]) < edge)).all()
    assert np.isnan(rows[:, 0]).tolist() == [x == "" for x in table["sex"]]
    shares = np.bincount(rows[:, 3].astype(int)) / len(rows)
    assert abs(shares - 0.25).max() < 0.03
    drawn = invoke("sample", "l.npz", "-n", 20, "--given", f"pressure={edge - 1}").stdout
    assert drawn.count(p.states[3][0]) == 20
    (folder / "drawn.csv").write_text(drawn)
    again = states(p, "drawn.csv")
    assert (again[:, 3] == 0).all()
    found = json.loads(invoke("mmd", "l.npz", "drawn.csv", "--json").stdout)
    assert found["mmd"] == pytest.approx(ek.mmd(p, again), rel=1e-12)


@pytest.mark.parametrize("name", ["drift", "compare"])
def test_drift_is_that_of_the_library(folder, name):
    pd = pytest.importorskip("pandas")
    options = ["--without", "id", "--permutations", 19, "--seed", 1, "--json"]
    done = invoke(name, "patients.csv", "later.csv", *options)
    found = json.loads(done.stdout)
    tables = (pd.read_csv(path).drop(columns="id") for path in ("patients.csv", "later.csv"))
    wanted = ek.drift(*tables, n_permutations=19, rng=1)
    assert done.exit_code == 3
    assert (found["mmd"], found["p_value"]) == (wanted.mmd, wanted.p_value)
    assert found["columns"][0]["name"] == "pressure"
    for part in ("univariate", "shapley", "ignoring"):
        parts = {column["name"]: column[part] for column in found["columns"]}
        assert [parts[name] for name in wanted.names] == getattr(wanted, part).tolist()
    same = run(name, "patients.csv", "patients.csv", *options)
    assert json.loads(same.stdout)["p_value"] == 1.0
    pd.read_csv("later.csv").drop(columns="id").to_csv("targetless.csv", index=False)
    assert invoke(name, "patients.csv", "targetless.csv", *options).stdout == done.stdout
    absent = invoke(name, "patients.csv", "targetless.csv", "--without", "ids").stderr
    assert "patients.csv has no column 'ids' to leave out" in absent


LEFT_OUT = ["--without", "id", "--without", "pressure"]


def test_networks_are_fitted_as_by_the_library(folder):
    pd = pytest.importorskip("pandas")
    arcs = ["--arc", "smoker,ill", "--arc", "sex,ill"]
    few = [*LEFT_OUT, "--without", "age"]
    done = invoke("fit-network", "patients.csv", *arcs, *few, "-o", "a.bif", "--json")
    found = json.loads(done.stdout)
    frame = pd.read_csv("patients.csv")[["sex", "smoker", "ill"]]
    start = ek.BayesianNetwork.from_arcs([("smoker", "ill"), ("sex", "ill")], frame)
    means = []
    wanted = ek.learn_tables(start, frame, callback=lambda _, x: means.append(x))
    assert (found["iterations"], found["objective"]) == (len(means), means[-1])
    assert ek.mmd(ek.load("a.bif"), wanted) < 1e-7
    run("fit-network", "patients.csv", "--network", "a.bif", *few, "-o", "b.bif")
    assert ek.mmd(ek.load("b.bif"), wanted) < 1e-7
    run("fit-network", "patients.csv", "--arc", "age,ill", *LEFT_OUT, "-o", "c.bif")
    labels = ek.load("c.bif").states[2]
    assert len(labels) == 8
    pairs = f"{labels[0]},{labels[-1]}", "0, 1000"  # numbers are read as in tables
    calls = ["effect", "c.bif", "--treatment", "age", "--outcome", "ill", "--of"]
    one, other = (run(*calls, pair) for pair in pairs)
    assert one.stdout == other.stdout


def test_networks_of_coded_columns_are_used_with_their_rows(folder):
    rows = "\n".join(["dose,ill", *["0,no", "1,yes", "2,", ",no", "2,yes"] * 4])
    (folder / "coded.csv").write_text(rows)
    assert invoke("fit-network", "coded.csv", "--arc", "dose,ill", "-o", "d.bif").exit_code == 0
    assert ek.load("d.bif").states == [["0", "1", "2"], ["no", "yes"]]
    again = invoke("fit-network", "coded.csv", "--network", "d.bif", "-o", "e.bif")
    assert again.exit_code == 0, again.output
    done = invoke("effect", "d.bif", "--treatment", "dose", "--outcome", "ill", "--of", "0,2")
    wanted = ek.effect(ek.load("d.bif"), "dose", "ill", ("0", "2"))
    assert done.stdout.splitlines()[0].split() == ["difference", f"{wanted.difference:.6g}"]
    assert f"treated     {wanted.treated[0]:.6g}  {wanted.treated[1]:.6g}" in done.stdout


def test_networks_without_names_are_asked_by_numbers(folder):
    ek.save(ek.BayesianNetwork([[], [0]], [[0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]]), "plain.uai")
    done = invoke("effect", "plain.uai", "--treatment", "0", "--outcome", "1", "--of", "0,1")
    assert done.stdout.splitlines()[0].split() == ["difference", "0.7"]
    done = invoke("mechanisms", "plain.uai", "plain.uai", "--target", "1")
    assert done.exit_code == 0, done.output


def test_effects_and_mechanisms_are_those_of_the_library(folder):
    network, other = ek.load("sick.bif"), ek.load("sicker.bif")
    call = ["--treatment", "smoker", "--outcome", "ill", "--of", "no,yes", "--given", "smoker=yes"]
    found = json.loads(invoke("effect", "sick.bif", *call, "--json").stdout)
    wanted = ek.effect(network, "smoker", "ill", ("no", "yes"), {"smoker": "yes"})
    assert (found["difference"], found["mmd"]) == (wanted.difference, wanted.mmd)
    assert (found["treated"], found["states"]) == (wanted.treated.tolist(), ["no", "yes"])
    found = json.loads(invoke("mechanisms", "sick.bif", "sicker.bif", "--json").stdout)
    wanted = ek.mechanism_change(network, other)
    parts = {row["table"]: row["shapley"] for row in found["tables"]}
    assert [parts[name] for name in wanted.names] == wanted.shapley.tolist()
    ek.save(ek.asia(), "asia.bif")
    for name, seed in (("x.csv", 0), ("y.csv", 1)):
        ek.asia().sample(80, rng=seed, as_frame=True).to_csv(name, index=False)
    options = ["--network", "asia.bif", "--permutations", 4, "--json"]
    found = json.loads(invoke("mechanisms", "x.csv", "y.csv", *options).stdout)
    assert all(row["p_value"] in (0.2, 0.4, 0.6, 0.8, 1.0) for row in found["tables"])


def test_wrong_questions_to_networks_get_a_line(folder):
    for call, code, message in [
        ("fit-network rows.csv -o a.bif", 2, "Give either --network or --arc"),
        ("mechanisms patients.csv later.csv", 1, "expected a network, in a file that ends in .uai"),
        ("effect sick.bif --treatment smoker --outcome ill --of no", 1, "must be two states of"),
    ]:
        done = invoke(*shlex.split(call))
        assert (done.exit_code, done.stdout) == (code, "")
        assert message in done.stderr


def test_audit_names_groups(folder):
    done = invoke("audit", "patients.csv", "--without", "id", "--by", "smoker", "--json")
    groups = json.loads(done.stdout)["groups"]
    assert [group["group"] for group in groups] == ["smoker = yes", "smoker = no"]
    assert sum(group["probability"] for group in groups) == pytest.approx(1)
    run("audit", "rain.uai")
    assert "no names to make groups by" in invoke("audit", "rain.uai", "--by", "0").stderr


def test_columns_without_a_name_are_said(folder):
    done = run("learn", "-", "-o", "l.npz", stdin=",a\n0,x\n1,y\n")
    assert done.stderr.startswith("Warning: standard input: a column has no name")
    done = invoke("learn", "-", "-o", "l.npz", "--without", "b", stdin="a\nx\ny\n")
    assert "Standard input has no column 'b' to leave out. It has 'a'." in done.stderr


def test_parquet_is_read_and_written(folder, monkeypatch):
    pytest.importorskip("pyarrow")
    run("sample", "c.npz", "--seed", 1, "-n", 300, "-o", "rows.parquet")
    text = invoke("sample", "c.npz", "--seed", 1, "-n", 300).stdout
    (folder / "same.csv").write_text(text)
    assert invoke("convert", "rows.parquet", "-").stdout == text
    found = [invoke("mmd", "c.npz", name).stdout for name in ("rows.parquet", "same.csv")]
    assert found[0] == found[1]
    run("test", "c.npz", "-", stdin=(folder / "rows.parquet").read_bytes())
    (folder / "cut.parquet").write_bytes((folder / "rows.parquet").read_bytes()[:40])
    assert "damaged or cut off" in invoke("test", "c.npz", "cut.parquet").stderr
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "or use CSV" in invoke("test", "c.npz", "rows.parquet").stderr


REPORTED = {
    "drift": "patients.csv later.csv --without id --permutations 1",
    "test": "c.npz rows.csv --simulations 9 --seed 4",
    "audit": "patients.csv --without id --by sex",
    "explain": "new.csv --train patients.csv --target ill --without id --without pressure",
    "mechanisms": "sick.bif sicker.bif --target ill",
}
HELD = {
    "drift": [("patients.csv", "120 rows, 5 columns"), ("later.csv", "100 rows, 5 columns")],
    "test": [("c.npz", "2 variables, "), ("rows.csv", "60 rows, 2 columns")],
    "audit": [("patients.csv", "120 rows, 5 columns")],
    "explain": [("patients.csv", "120 rows, 3 columns"), ("new.csv", "6 rows, 5 columns")],
    "mechanisms": [
        ("sick.bif", "&lt;BayesianNetwork of 2 variables: 2 factors"),
        ("sicker.bif", ""),
    ],
}
OPTIONS = {
    "drift": {"permutations": "1", "bins": "8 (default)", "seed": "0 (default)"},
    "test": {"statistic": "mmd (default)", "aggregate": "no (default)", "seed": "4"},
    "audit": {"by": "sex", "least": "0.01 (default)", "without": "id"},
    "explain": {"target": "ill", "without": "id, pressure", "of": "none (default)"},
    "mechanisms": {"target": "ill", "permutations": "0 (default)", "network": "none (default)"},
}


@pytest.mark.parametrize("name", REPORTED)
def test_pictures_and_reports_are_written(folder, name):
    call = f"{name} {REPORTED[name]} --plot picture.png --report page.html"
    done = invoke(*shlex.split(call))
    assert done.exit_code in (0, 3), done.output
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    report = (folder / "page.html").read_text()
    assert report.count("<figure") == (2 if name == "drift" else 1)
    assert done.stdout.splitlines()[-1].split()[0] in report
    assert f"<th>command<td>expectedkernels {call}<tr>" in report
    for option, value in OPTIONS[name].items():
        assert f"<th>{option}<td>{value}<" in report
    for path, size in HELD[name]:
        assert f"<td>{path}<td>{size}" in report
    assert f"<th>expectedkernels<td>{ek.__version__}<" in report


@pytest.mark.parametrize(("option", "path", "code", "message"), [
    ("--report", "page.txt", 2, "must end in .html"),
    ("--plot", "page.html", 2, "must end in .png, .svg, .pdf"),
    ("--report", "absent/page.html", 1, "The folder to write to does not exist"),
])  # fmt: skip
def test_places_of_reports_are_checked_before_the_work(folder, option, path, code, message):
    done = invoke("test", "c.npz", "absent.csv", option, path)
    assert done.exit_code == code
    assert message in " ".join(done.stderr.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", "").split())
    assert "absent.csv" not in done.stderr


def test_a_picture_of_too_many_states_is_refused(folder):
    ek.save(ek.factorized([[0.5, 0.5]] * 31), "many.npz")
    done = invoke("plot", "many.npz", "-o", "a.png")
    assert done.exit_code == 1
    assert "A picture has up to 60 bars" in done.stderr
    run("plot", "many.npz", "-o", "a.png", "--of", "3")
    for path, kind in (("c.npz", "circuit"), ("c.npz", "vtree"), ("rain.uai", "model")):
        run("plot", path, "-o", f"{kind}.svg", "--kind", kind)
        assert (folder / f"{kind}.svg").read_text().startswith("<?xml")
    done = invoke("plot", "c.npz", "-o", "a.png", "--kind", "vtree", "--of", "sex")
    assert done.exit_code == 2
    ek.save(ek.gaussian_mixture([1.0], [[0.0]], [[1.0]]), "real.npz")
    done = invoke("plot", "real.npz", "-o", "a.png")
    assert "these are real: `marginals` prints their means" in done.stderr


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.tsv.gz", "rows.tsv"])
def test_tables_are_compressed_by_their_name(folder, name):
    run("sample", "c.npz", "-n", 9, "-o", name)
    raw = (folder / name).read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    wanted = invoke("sample", "c.npz", "-n", 9).stdout
    assert text.replace("\t", ",") == wanted
    assert invoke("convert", name, "-").stdout == wanted
    run("convert", name, f"again-{name}")
    assert (folder / f"again-{name}").read_bytes() == raw


@pytest.mark.parametrize(("call", "code", "message"), [
    ("sample c.npz -o rows.xls", 2, "must end in .csv, .csv.gz, .tsv"),
    ("sample c.npz -o absent/rows.csv", 1, "The folder to write to does not exist"),
    ("impute patients.csv -o rows.json", 2, "must end in .csv"),
    ("plot c.npz -o a.bmp", 2, "must end in .png, .svg, .pdf"),
    ("learn patients.csv -o c", 2, "must end in .npz. Got c instead."),
    ("compile rain.uai -o c.jpc", 2, "must end in .npz. Got c.jpc instead."),
    ("sample -", 1, "-: expected a table: circuits and models are read from files"),
    ("info rain.uai", 1, "found a model: `compile` makes a circuit of it"),
    ("learn patients.csv -o l.npz", 1, "leave it out: --without id."),
    ("audit patients.csv", 1, "leave it out: --without id."),
    ("drift rows.csv later.csv", 1, "must have the same columns as rows.csv. Got 'id'"),
    ("test c.npz wide.csv", 1, "Leave them out: --without id --without 'a b'"),
])  # fmt: skip
def test_strangers_are_told_what_to_do(folder, call, code, message):
    write_csv(folder / "wide.csv", {"id": [1], "sex": ["f"], "smoker": ["no"], "a b": [2]})
    done = invoke(*shlex.split(call))
    assert done.exit_code == code, done.output
    assert message in " ".join(done.stderr.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", "").split())
    assert done.stdout == ""


def test_files_are_converted_and_back(folder):
    p = ek.factorized([[0.25, 0.75], [0.5, 0.5]])
    ek.save(p, "p.npz")
    for name in ("q.psdd", "q.jpc", "q.spn", "q.jpc.gz"):
        run("convert", "p.npz", name)
        run("convert", name, "again.npz")
        assert ek.mmd(p, ek.load("again.npz")) < 1e-9
    done = invoke("convert", "c.npz", "c.spn")
    assert "Warning: .spn files do not hold names" in done.stderr
    ek.io.write_bif(ek.asia(), "asia.bif")
    run("convert", "asia.bif", "a.uai")
    x = np.zeros((1, 8))
    assert ek.io.read_model("a.uai").log_score(x) == pytest.approx(ek.asia().log_score(x))
    invoke("convert", "patients.csv", "p.tsv")
    assert invoke("convert", "p.tsv", "-").stdout == invoke("convert", "patients.csv", "-").stdout
    for source, out, message in (
        ("c.npz", "c.csv", "c.npz holds a circuit, which is written to files that end in .npz"),
        ("rain.uai", "c.npz", "`compile` makes a circuit of a model."),
        ("rows.csv", "rows.xls", "rows.csv holds a table"),
    ):
        done = invoke("convert", source, out)
        assert done.exit_code == 1
        assert message in done.stderr


def test_commands_work_in_a_shell(folder):
    run = f"{sys.executable} -m expectedkernels"
    pipe = f"{run} sample c.npz -n 1000 | {run} test c.npz -"
    done = subprocess.run(pipe, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    head = f"{run} sample c.npz -n 100000 | head -n 1"
    done = subprocess.run(head, shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("smoker,sex\n", "")


def test_shells_complete_commands():
    words = {"COMP_WORDS": "expectedkernels le", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "expectedkernels"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | words | {"_EXPECTEDKERNELS_COMPLETE": "complete_bash"},
    )
    assert done.stdout.split() == ["learn"]


def unlike(n):
    """Lines of rows that the model of the folder does not have."""
    rng = np.random.default_rng(0)
    return [
        f"{x},{y}"
        for x, y in zip(rng.choice(["yes", ""], n), rng.choice(["m", "m", "f"], n), strict=True)
    ]


def test_a_stream_is_watched(folder):
    p = ek.load("c.npz")
    lines = unlike(150)
    stream = "\n".join(["smoker,sex", *lines]) + "\n"
    done = invoke("monitor", "c.npz", "-", "--arl", 500, stdin=stream)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    (folder / "stream.csv").write_text(stream)
    rows, test = states(p, "stream.csv"), ek.monitoring.SequentialTest(p, arl=500)
    start, wanted = 0, []
    while start < len(rows):
        logs = test.update(rows[start:])
        if test.alarm is None:
            break
        row = {"row": start + test.alarm, "rows": test.alarm + 1, "log_e": logs[test.alarm]}
        wanted.append(row | {"threshold": 500.0})
        start += test.alarm + 1
        test.reset()
    assert len(wanted) > 1
    assert found == wanted
    assert done.exit_code == 3
    assert invoke("monitor", "c.npz", "stream.csv", "--arl", 500).stdout == done.stdout
    plain = "\n".join(f"{'' if np.isnan(a) else int(a)},{int(b)}" for a, b in rows)
    ek.save(ek.Circuit(p.vtree, p.blocks), "plain.npz")
    codes = invoke("monitor", "plain.npz", "-", "--arl", 500, stdin=plain)
    assert codes.stdout == done.stdout
    calm = invoke("monitor", "c.npz", "-", "--tolerance", 0.9, stdin=stream)
    assert (calm.exit_code, calm.stdout) == (0, "")
    wrong = invoke("monitor", "c.npz", "-", "--arl", 500, "--alpha", 0.1, stdin=stream)
    assert wrong.exit_code == 1
    assert "give one" in wrong.stderr


def test_alarms_are_printed_before_the_stream_ends(folder):
    command = [sys.executable, "-m", "expectedkernels", "monitor", "c.npz", "-", "--arl", "100"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        process.stdin.write("\n".join(["smoker,sex", *unlike(150)]) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["row"] < 150
        process.stdin.close()
        process.stdout.read()
        assert process.wait() == 3
    ek.save(ek.factorized([[1.0, 0.0], [0.5, 0.5]]), "zero.npz")
    command[4:] = ["zero.npz", "-", "--tolerance", "0.1"]
    with subprocess.Popen(command, **pipes, stderr=subprocess.PIPE, text=True) as process:
        process.stdin.write("1,0\n" * 60)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["row"] < 60
        _, found = process.communicate("1,\n")  # rows are counted from the start of the stream
        assert "Row 60 has probability zero under the model" in found
