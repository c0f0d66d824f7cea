"""Models that `fit` writes, and what other commands make of them."""

import csv
import json
import subprocess
import sys
from io import StringIO

import numpy as np
import pytest

import expectedkernels as ek
from cli_files import invoke, run, write_csv

pytest.importorskip("skops")
pytestmark = pytest.mark.usefixtures("folder")
pd = pytest.importorskip("pandas")
TRAIN = ["--train", "patients.csv", "--target", "pressure"]
MODEL = ["--model", "pressure.skops"]


def rows_of(done):
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(StringIO(done.stdout)))


@pytest.mark.parametrize("options", [[], ["--std", "--interval", "0.8"], ["--json"]])
def test_predictions_of_a_file_are_those_of_its_training_table(options):
    one = invoke("predict", "new.csv", *MODEL, *options, "--without", "id")
    other = invoke("predict", "new.csv", *TRAIN, *options, "--without", "id")
    assert (one.exit_code, one.stderr) == (0, "")
    assert one.stdout == other.stdout


def test_classes_of_a_file_are_those_of_its_training_table():
    options = ["--target", "ill", "--without", "id", "--without", "pressure"]
    done = invoke("fit", "patients.csv", *options, "-o", "ill.skops", "--json")
    assert json.loads(done.stdout)["classes"] == ["no", "yes"]
    one = invoke("predict", "new.csv", "--model", "ill.skops", "--proba")
    other = invoke("predict", "new.csv", "--train", "patients.csv", *options, "--proba")
    assert one.exit_code == 0, one.output
    assert [row["ill_yes"] for row in rows_of(one)] == [row["ill_yes"] for row in rows_of(other)]
    one = invoke("explain", "new.csv", "--model", "ill.skops", "--json")
    assert (
        one.stdout
        == invoke("explain", "new.csv", "--train", "patients.csv", *options, "--json").stdout
    )


def test_sets_and_references():
    options = ["--target", "ill", "--without", "id", "--without", "pressure"]
    run("fit", "patients.csv", *options, "-o", "ill.skops")
    found = rows_of(invoke("predict", "new.csv", "--model", "ill.skops", "--set", "0.9"))
    assert {row["ill_set"] for row in found} <= {"no", "yes", "no|yes"}
    done = invoke("predict", "new.csv", "--model", "ill.skops", "--set", "0.9", "--json")
    sets = [row["set"] for row in json.loads(done.stdout)["rows"]]
    assert ["|".join(own) for own in sets] == [row["ill_set"] for row in found]
    one = rows_of(invoke("predict", "new.csv", *MODEL, "--interval", "0.8"))
    same = ["--interval", "0.8", "--reference", "patients.csv"]
    other = rows_of(invoke("predict", "new.csv", *MODEL, *same))
    for a, b in zip(one, other, strict=True):
        assert float(b["pressure_low"]) == pytest.approx(float(a["pressure_low"]), rel=0.05)
    wrong = invoke("predict", "new.csv", *MODEL, "--reference", "patients.csv")
    assert wrong.exit_code == 2
    assert "--reference is for --interval" in wrong.stderr
    wrong = invoke("predict", "new.csv", *MODEL, "--set", "1.5")
    assert wrong.exit_code == 2


def test_explanations_of_a_file_are_those_of_its_training_table(folder):
    one = invoke("explain", "new.csv", *MODEL, "--row", 3, "--json", "--report", "page.html")
    other = invoke("explain", "new.csv", *TRAIN, "--without", "id", "--row", 3, "--json")
    assert one.exit_code == 0, one.output
    assert one.stdout == other.stdout
    page = (folder / "page.html").read_text()
    assert "<td>pressure.skops<td>ExpectedKernelRidge, 4 columns" in page


def test_files_of_models_fill_in_what_they_predict_from(folder):
    found = rows_of(invoke("impute", "new.csv", *MODEL))
    given = pd.read_csv("new.csv", dtype=str, keep_default_na=False)
    X = pd.read_csv("patients.csv")[["sex", "smoker", "age", "ill"]]
    imputer = ek.CircuitImputer(density="auto", random_state=0).fit(X)
    wanted = imputer.transform(pd.read_csv("new.csv")[list(X)])
    filled = 0
    for i, row in enumerate(found):
        for name in given:
            if given[name][i]:
                assert row[name] == given[name][i]
                continue
            filled += 1
            value = wanted[i, list(X).index(name)]
            if isinstance(value, str):  # the file has no tree to take them from
                assert row[name] in set(X[name])
            else:
                assert float(row[name]) == pytest.approx(value)
    assert filled == (given == "").to_numpy().sum() > 0
    done = invoke("impute", "new.csv", *MODEL, "--strategy", "map")
    assert done.exit_code == 1
    assert "The strategy 'map' of CircuitImputer needs a circuit as density" in done.stderr
    run("impute", "new.csv", *MODEL, "--strategy", "sample")


def test_imputers_that_were_saved_elsewhere_fill_in(folder):
    table = pd.read_csv("patients.csv").drop(columns="id")
    ek.save(ek.CircuitImputer().fit(table), "imputer.skops")
    one = invoke("impute", "new.csv", "--model", "imputer.skops", "--strategy", "map")
    options = ["--without", "id", "--strategy", "map"]
    assert one.exit_code == 0, one.output
    assert one.stdout == invoke("impute", "new.csv", "--train", "patients.csv", *options).stdout


def test_models_that_were_saved_elsewhere_predict(folder):
    table = pd.DataFrame(
        {
            "up": [True, False] * 15,
            "grade": pd.Categorical([1, 2, 3] * 10),
            "x": np.linspace(0.0, 1.0, 30),
        }
    )
    model = ek.ExpectedKernelRidge().fit(table, table["x"] + table["up"])
    ek.save(model, "m.skops")
    text = "up,grade,x\ntrue,1,0.5\nFalse,,\n,3,0.25\n"
    found = rows_of(invoke("predict", "-", "--model", "m.skops", stdin=text))
    rows = pd.DataFrame({"up": [True, False, None], "grade": [1, None, 3], "x": [0.5, None, 0.25]})
    wanted = model.predict(rows.astype({"up": object}))
    assert [float(row["prediction"]) for row in found] == pytest.approx(wanted.tolist())


def test_types_levels_and_marks_are_kept_in_the_file(folder):
    code, size = ["001", "002", "A01"] * 10, [f"{i},5" for i in range(30)]
    size[4] = "-9"
    lines = [f"{a};{b};{i}" for i, (a, b) in enumerate(zip(code, size, strict=True))]
    (folder / "t.csv").write_text("\n".join(["code;size;y", *lines]))
    run("fit", "t.csv", "--target", "y", "-o", "m.skops", "--missing", "-9")
    # on its own, 1,250 could be 1250; and 002 would be the number 2
    (folder / "new.csv").write_text("code;size\n002;1,250\n002;-9\n002;\n")
    one = invoke("predict", "new.csv", "--model", "m.skops")
    other = invoke("predict", "new.csv", "--train", "t.csv", "--target", "y", "--missing", "-9")
    assert (one.exit_code, one.stdout) == (0, other.stdout)
    assert "'1,250' is read as 1.25" in one.stderr
    assert "categories" not in one.stderr
    found = [row["y"] for row in rows_of(one)]
    assert found[1] == found[2] != found[0]


def test_models_in_files_are_not_fitted_again(monkeypatch):
    def refit(*_):
        raise AssertionError("a model was fitted")

    for name in ("ExpectedKernelRidge", "CircuitImputer"):
        monkeypatch.setattr(getattr(ek, name), "fit", refit)
    monkeypatch.setattr(ek.ExpectedKernelRidge, "_learn", refit)
    for call in (["predict", "--interval", 0.9], ["explain"], ["impute"]):
        done = invoke(call[0], "new.csv", *MODEL, *call[1:])
        assert done.exit_code == 0, done.exception


@pytest.mark.parametrize(("options", "message"), [
    ([], "either --model, or --train and --target"),
    (["--train", "patients.csv"], "either --model, or --train and --target"),
    ([*MODEL, *TRAIN], "either --model, or --train and --target"),
    ([*MODEL, "--classify"], "--classify is for --train"),
])  # fmt: skip
def test_models_are_given_or_fitted(options, message):
    for command in ("predict", "explain"):
        done = invoke(command, "new.csv", *options)
        assert done.exit_code == 2
        words = done.stderr.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split()
        assert message in " ".join(words)
    assert invoke("impute", "new.csv", *MODEL, "--train", "patients.csv").exit_code == 2


@pytest.mark.parametrize("call", [
    "fit absent.csv --target y -o m.skops",
    "predict absent.csv --train patients.csv --target age",
    "predict new.csv --train absent.csv --target age",
    "predict new.csv --model absent.skops",
    "explain absent.csv --model pressure.skops",
    "impute absent.csv",
    "drift patients.csv absent.csv",
    "learn absent.csv -o c.npz",
])  # fmt: skip
def test_missing_files_are_told_without_importing_scikit_learn(call):
    code = (
        "import sys; from importlib.metadata import entry_points; "
        "from typer.testing import CliRunner; "
        "[command] = entry_points(group='console_scripts', name='expectedkernels'); "
        f"done = CliRunner().invoke(command.load(), {call.split()!r}); "
        "print(done.stderr, end=''); "
        "sys.exit(done.exit_code + 10 * ('sklearn' in sys.modules) + 20 * ('numpy' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    name = next(word for word in call.split() if word.startswith("absent"))
    assert (done.returncode, done.stdout) == (1, f"Error: {name}: No such file or directory\n")


def test_intervals_without_an_end_are_said_once(folder):
    write_csv(folder / "few.csv", {"x": list(range(12)), "y": list(range(12))})
    done = run("predict", "few.csv", "--train", "few.csv", "--target", "y", "--interval", 0.999)
    assert done.stderr.count("12 of 12 intervals have an infinite end: there are too few") == 1
    assert done.stderr.count("\n") == 1
