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


def test_audit_names_groups(folder):
    done = invoke("audit", "patients.csv", "--without", "id", "--by", "smoker", "--json")
    groups = json.loads(done.stdout)["groups"]
    assert [group["group"] for group in groups] == ["smoker = yes", "smoker = no"]
    assert sum(group["probability"] for group in groups) == pytest.approx(1)
    run("audit", "rain.uai")


def test_columns_without_a_name_are_said(folder):
    done = run("learn", "-", "-o", "l.npz", stdin=",a\n0,x\n1,y\n")
    assert done.stderr.startswith("Warning: standard input: a column has no name")


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
    "drift patients.csv later.csv --without id --permutations 1": (
        [("patients.csv", "120 rows, 5 columns"), ("later.csv", "100 rows, 5 columns")],
        {"permutations": "1", "bins": "8 (default)", "seed": "0 (default)"},
    ),
    "test c.npz rows.csv --simulations 9 --seed 4": (
        [("c.npz", "2 variables, "), ("rows.csv", "60 rows, 2 columns")],
        {"statistic": "mmd (default)", "aggregate": "no (default)", "seed": "4"},
    ),
    "audit patients.csv --without id --by sex": (
        [("patients.csv", "120 rows, 5 columns")],
        {"by": "sex", "least": "0.01 (default)", "without": "id"},
    ),
    "explain new.csv --train patients.csv --target ill --without id --without pressure": (
        [("patients.csv", "120 rows, 3 columns"), ("new.csv", "6 rows, 5 columns")],
        {"target": "ill", "without": "id, pressure", "of": "none (default)"},
    ),
    "mechanisms sick.bif sicker.bif --target ill": (
        [("sick.bif", "&lt;BayesianNetwork of 2 variables: 2 factors"), ("sicker.bif", "")],
        {"target": "ill", "permutations": "0 (default)", "network": "none (default)"},
    ),
}
"""Calls, the files that their reports name, and the options."""


@pytest.mark.parametrize("call", REPORTED)
def test_pictures_and_reports_are_written(folder, call):
    files, options = REPORTED[call]
    call += " --plot picture.png --report page.html"
    done = invoke(*shlex.split(call))
    assert done.exit_code in (0, 3), done.output
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")
    report = (folder / "page.html").read_text()
    assert report.count("<figure") == (2 if call.startswith("drift") else 1)
    assert done.stdout.splitlines()[-1].split()[0] in report
    assert f"<th>command<td>expectedkernels {call}<tr>" in report
    for option, value in options.items():
        assert f"<th>{option}<td>{value}<" in report
    for path, size in files:
        assert f"<td>{path}<td>{size}" in report
    assert f"<th>expectedkernels<td>{ek.__version__}<" in report


def test_a_picture_of_too_many_states_is_refused(folder):
    ek.save(ek.factorized([[0.5, 0.5]] * 31), "many.npz")
    done = invoke("plot", "many.npz", "-o", "a.png")
    assert done.exit_code == 1
    assert "A picture has up to 60 bars" in done.stderr
    run("plot", "many.npz", "-o", "a.png", "--of", "3")
    for path, kind in (("c.npz", "circuit"), ("c.npz", "vtree"), ("rain.uai", "model")):
        run("plot", path, "-o", f"{kind}.svg", "--kind", kind)
        assert (folder / f"{kind}.svg").read_text().startswith("<?xml")
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


FILES = {
    **dict.fromkeys(("words.csv", "words.npz", "words.psdd"), "0,1\n1,red\n"),
    "good.csv": "0,1\n1,0\n",
    "ragged.csv": "0,1\n1,0,1\n",
    "three.csv": "0,1,1\n",
    "twice.csv": "a,a\n1,2\n",
    "empty.csv": "0,\n1,\n",
    "wide.csv": "id,sex,smoker,a b\n1,f,no,2\n",
    "inf.csv": "city,x,y\nBonn,1,2\nBonn,1,2\nBonn,1,2\nUlm,inf,3\n",
    "cut.uai": "MARKOV 2 2 2 1 2 0",
}
"""Files that are damaged, or do not fit."""
FIT = "--train patients.csv --without id"
ROW = "sex,smoker,age,ill\n"
WRONG = [
    ("learn absent.csv -o m.npz", 1, "absent.csv: No such file or directory"),
    ("learn ragged.csv -o m.npz", 1, "ragged.csv, line 2: expected 2 cells, found 3"),
    ("learn good.csv -o folder.npz", 1, "Is a folder"),
    ("learn good.csv -o m.npz --valid three.csv", 1,
     "three.csv must have the same columns as good.csv. Got '0', '1', '2' and '0', '1'."),
    ("learn twice.csv -o m.npz", 1, "names of columns must be distinct, found 'a' twice"),
    ("learn empty.csv -o m.npz", 1, "Column 1 of empty.csv has no values"),
    ("learn patients.csv -o m", 2, "must end in .npz. Got m instead."),
    ("learn patients.csv -o m.npz", 1, "leave it out: --without id."),
    ("learn - -o m.npz --without b", 1,
     "Standard input has no column 'b' to leave out. It has 'a'.", "a\nx\ny\n"),
    ("compile words.csv -o m.npz", 1, "words.csv, line 1: expected"),
    ("compile cut.uai -o m.npz", 1, "cut.uai"),
    ("compile rain.uai -o m.jpc", 2, "must end in .npz. Got m.jpc instead."),
    ("info words.csv", 1, "expected a file that ends in .npz, .psdd, .jpc or .spn"),
    ("info words.npz", 1, "words.npz: expected a circuit written by save()"),
    ("info words.psdd", 1, "words.psdd, line 1: expected the header line 'psdd ...'"),
    ("info rain.uai", 1, "found a model: `compile` makes a circuit of it"),
    ("sample c.npz -o rows.xls", 2, "must end in .csv, .csv.gz, .tsv"),
    ("sample c.npz -o absent/rows.csv", 1, "The folder to write to does not exist"),
    ("sample -", 1, "-: expected a table: circuits and models are read from files"),
    ("audit patients.csv", 1, "leave it out: --without id."),
    ("audit rain.uai --by 0", 1, "no names to make groups by"),
    ("drift rows.csv later.csv", 1, "must have the same columns as rows.csv. Got 'id'"),
    ("test c.npz wide.csv", 1, "Leave them out: --without id --without 'a b'"),
    ("mmd - -", 2, ""),
    ("marginals c.npz --given smoker", 1, "written as NAME=VALUE"),
    ("marginals c.npz --given smoke=yes", 1, "Did you mean 'smoker'?"),
    ("marginals c.npz --given smoker=maybe", 1, "Got 'maybe' instead"),
    ("marginals c.npz --given smoker=", 1, "Nothing is said of 'smoker'"),
    ("marginals c.npz --given sex=m --given sex=m", 2, "'sex' can be given once"),
    ("fit-network rows.csv -o a.bif", 2, "Give either --network or --arc"),
    ("mechanisms patients.csv later.csv", 1, "expected a network, in a file that ends in .uai"),
    ("effect sick.bif --treatment smoker --outcome ill --of no", 1, "must be two states of"),
    ("test c.npz absent.csv --report page.txt", 2, "must end in .html"),
    ("test c.npz absent.csv --plot page.html", 2, "must end in .png, .svg, .pdf"),
    ("test c.npz absent.csv --report absent/page.html", 1, "The folder to write to does not exist"),
    ("plot c.npz -o a.bmp", 2, "must end in .png, .svg, .pdf"),
    ("plot c.npz -o a.png --kind vtree --of sex", 2, ""),
    ("convert c.npz c.csv", 1, "c.npz holds a circuit, which is written to files that end in .npz"),
    ("convert rain.uai m.npz", 1, "`compile` makes a circuit of a model."),
    ("convert rows.csv rows.xls", 1, "rows.csv holds a table"),
    ("impute patients.csv -o rows.json", 2, "must end in .csv"),
    ("impute inf.csv", 1, "Column 'x' of inf.csv is infinite in row 3. Leave cells empty"),
    ("impute - --train -", 2, ""),
    ("impute new.csv --model pressure.skops --train patients.csv", 2,
     "Give --model or --train, and not both."),
    (f"impute - {FIT}", 1, "Standard input lacks columns of patients.csv: 'sex', 'smoker'",
     "a,b\n1,\n"),
    ("impute new.csv --model pressure.skops --strategy map", 1,
     "The strategy 'map' of CircuitImputer needs a circuit as density"),
    ("predict inf.csv --train inf.csv --target y", 1, "'x' of inf.csv is infinite in row 3."),
    (f"predict new.csv {FIT} --target mass", 1,
     "patients.csv has no column 'mass' to predict. It has 'sex'"),
    (f"predict new.csv {FIT} --target ill --std", 1,
     "--std and --interval are for numbers, and 'ill'"),
    (f"predict new.csv {FIT} --target age --proba", 1,
     "--proba and --set are for classes, and 'age' holds numbers"),
    (f"predict new.csv {FIT} --target age", 1, "lacks columns of patients.csv: 'pressure'"),
    (f"predict new.csv {FIT} --target pressure --json -o p.csv", 2, ""),
    (f"predict - {FIT} --target pressure", 1,
     "Column 'age' of standard input holds 'old' in row 0, where numbers", f"{ROW}f,yes,old,no\n"),
    *((f"predict new.csv {FIT} --target pressure --interval {coverage}", 2,
       "must be between 0 and 1, such as 0.9") for coverage in ("0", "1", "-0.5", "1.5", "nan")),
    ("predict new.csv --model pressure.skops --set 1.5", 2, ""),
    ("predict new.csv --model pressure.skops --reference patients.csv", 2,
     "--reference is for --interval"),
    (f"explain new.csv {FIT} --target pressure --row 9", 1, "There is no row 9"),
    (f"explain new.csv {FIT} --target pressure --of a", 1, "--of names a class"),
    (f"explain new.csv {FIT} --target ill --without pressure --of a", 1,
     "There is no class 'a'. There are 'no', 'yes'."),
    *((f"{command} new.csv {options}", 2, "either --model, or --train and --target")
      for command in ("predict", "explain")
      for options in ("", FIT, f"--model pressure.skops {FIT} --target age")),
    *((f"{command} new.csv --model pressure.skops --classify", 2, "--classify is for --train")
      for command in ("predict", "explain")),
]  # fmt: skip


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row[0])
def test_wrong_calls_get_a_line_that_says_what_to_do(folder, row):
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "folder.npz").mkdir()
    call, code, message, *stdin = row
    done = invoke(*shlex.split(call), stdin=stdin[0] if stdin else None)
    assert done.exit_code == code, done.output
    words = " ".join(done.stderr.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split())
    assert message in words
    assert done.stdout == ""
    if code == 1:
        assert done.stderr.splitlines()[-1].startswith("Error: ")
    if "absent.csv --" in call:  # options are checked before the work
        assert "absent.csv" not in words
    assert not (folder / "m.npz").exists()


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
