"""Predictions, missing values and explanations by commands are those of the estimators.

They are the same from a training table and from a file that `fit` wrote.
"""

import csv
import json
import subprocess
import sys
from io import StringIO

import numpy as np
import pytest

import expectedkernels as ek
from cli_files import invoke, patients, run, write_csv

pytest.importorskip("skops")
pytestmark = pytest.mark.usefixtures("folder")
pd = pytest.importorskip("pandas")
WITHOUT = ["--without", "id"]
FIT = ["--train", "patients.csv", *WITHOUT]
MODEL = ["--model", "pressure.skops"]
ILL = ["--target", "ill", "--without", "pressure"]


def lines(done):
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(StringIO(done.stdout)))


def training(*without):
    """The training table without some columns, as a data frame."""
    return pd.read_csv("patients.csv").drop(columns=["id", *without])


def both(command, *options):
    """What a command says of new rows by the file of a model, and by the table it was fitted to."""
    one = invoke(command, "new.csv", *MODEL, *WITHOUT, *options)
    other = invoke(command, "new.csv", *FIT, "--target", "pressure", *options)
    assert (one.exit_code, one.stderr) == (0, "")
    assert one.stdout == other.stdout
    return one


def both_of_classes(command, *options):
    """The same for a model of classes."""
    done = run("fit", "patients.csv", *WITHOUT, *ILL, "-o", "ill.skops", "--json")
    assert json.loads(done.stdout)["classes"] == ["no", "yes"]
    one = invoke(command, "new.csv", "--model", "ill.skops", *WITHOUT, *options)
    assert one.exit_code == 0, one.output
    assert one.stdout == invoke(command, "new.csv", *FIT, *ILL, *options).stdout
    return one


def test_numbers_are_predicted_with_spreads_and_intervals():
    found = lines(both("predict", "--std", "--interval", 0.8))
    X = training("pressure")
    model = ek.ExpectedKernelRidge(alpha="auto", random_state=0).fit(X, training()["pressure"])
    rows = pd.read_csv("new.csv")[list(X)]
    assert [row["id"] for row in found] == [f"p{i}" for i in range(6)]
    mean, std = model.predict(rows, return_std=True)
    low, high = model.predict_interval(rows, 0.8)
    for name, wanted in {"": mean, "_std": std, "_low": low, "_high": high}.items():
        assert [float(row[f"pressure{name}"]) for row in found] == pytest.approx(wanted.tolist())
    assert max(std) > 0
    answer = json.loads(both("predict", "--std", "--json").stdout)
    assert (answer["target"], answer["task"]) == ("pressure", "regression")
    assert answer["rows"][2] == pytest.approx({"prediction": mean[2], "std": std[2]})


def test_words_are_predicted_with_probabilities():
    options = [*FIT, "--target", "smoker", "--without", "pressure", "--proba"]
    done = invoke("predict", "new.csv", *options)
    assert done.stderr.startswith("Warning: patients.csv: ")
    assert done.stderr.endswith("rows have no 'smoker', and are left out.\n")
    found = lines(done)
    for row in found:
        assert float(row["smoker_yes"]) + float(row["smoker_no"]) == pytest.approx(1)
        assert row["smoker"] == ("yes" if float(row["smoker_yes"]) > 0.5 else "no")
    answer = json.loads(invoke("predict", "new.csv", *options, "--json").stdout)
    assert answer["task"] == "classification"
    shares = [row["probabilities"]["yes"] for row in answer["rows"]]
    assert shares == pytest.approx([float(row["smoker_yes"]) for row in found])
    assert all(row["ill_yes"] for row in lines(both_of_classes("predict", "--proba")))


def test_sets_and_references():
    found = lines(both_of_classes("predict", "--set", "0.9"))
    assert {row["ill_set"] for row in found} <= {"no", "yes", "no|yes"}
    done = both_of_classes("predict", "--set", "0.9", "--json")
    sets = [row["set"] for row in json.loads(done.stdout)["rows"]]
    assert ["|".join(own) for own in sets] == [row["ill_set"] for row in found]
    interval = ["--interval", "0.8"]
    one = lines(both("predict", *interval))
    other = lines(invoke("predict", "new.csv", *MODEL, *interval, "--reference", "patients.csv"))
    for a, b in zip(one, other, strict=True):
        assert float(b["pressure_low"]) == pytest.approx(float(a["pressure_low"]), rel=0.05)


def test_numbers_can_be_classes_and_rows_come_from_a_pipe(folder):
    write_csv(folder / "codes.csv", {"x": [0.1, 0.2, 2.1, 2.2] * 5, "y": [4, 4, 6, 6] * 5})
    options = ["--train", "codes.csv", "--target", "y", "--classify"]
    done = invoke("predict", "-", *options, stdin="x\n0\n2\n")
    assert [row["y"] for row in lines(done)] == ["4", "6"]


def test_rows_without_values_and_with_unknown_words():
    fit, names = [*FIT, "--target", "pressure"], "sex,smoker,age,ill\n"
    done = invoke("predict", "-", *fit, stdin=f"{names}x,yes,40,no\n,yes,40,no\n")
    assert "column 'sex' has categories that the training table has not: 'x'" in done.stderr
    one, other = lines(done)
    assert one == other
    [empty] = lines(invoke("predict", "-", *fit, stdin=f"{names},,,\n"))
    assert np.isfinite(float(empty["pressure"]))


def test_gaps_are_filled_and_the_rest_is_kept():
    given, found = patients(120, 0), lines(invoke("impute", "patients.csv", "--without", "id"))
    for name, column in given.items():
        for cell, row in zip(column, found, strict=True):
            assert row[name] != ""
            assert cell in ("", row[name]) or row[name] == str(cell)
    wanted = ek.CircuitImputer(random_state=0).fit_transform(training())
    ages = [float(row["age"]) for row in found]
    assert ages == pytest.approx(wanted[:, 2].astype(float).tolist())
    assert [row["sex"] for row in found] == wanted[:, 0].tolist()
    for strategy in ("map", "sample"):
        options = ["--strategy", strategy, "--train", "patients.csv"]
        rest = [x for name in ("id", "pressure", "ill") for x in ("--without", name)]
        filled = lines(invoke("impute", "new.csv", *options, *rest))
        assert all(row["age"] and row["sex"] in "fm" for row in filled)


def test_columns_that_only_the_training_table_has_are_marginalised():
    found = lines(invoke("impute", "new.csv", *FIT))  # without the pressure
    few = pd.read_csv("new.csv")
    assert list(found[0]) == list(few)
    rows = few.assign(pressure=np.nan)[list(training())]
    wanted = ek.CircuitImputer(random_state=0).fit(training()).transform(rows)
    ages = [float(row["age"]) for row in found]
    assert ages == pytest.approx(wanted[:, 2].astype(float).tolist())
    assert [row["sex"] for row in found] == wanted[:, 0].tolist()


def test_files_of_models_fill_in_what_they_predict_from():
    found = lines(invoke("impute", "new.csv", *MODEL))
    given = pd.read_csv("new.csv", dtype=str, keep_default_na=False)
    X = training("pressure")
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
    run("impute", "new.csv", *MODEL, "--strategy", "sample")


def test_imputers_that_were_saved_elsewhere_fill_in():
    ek.save(ek.CircuitImputer().fit(training()), "imputer.skops")
    one, other = (
        invoke("impute", "new.csv", *options, "--strategy", "map")
        for options in (["--model", "imputer.skops"], FIT)
    )
    assert one.exit_code == 0, one.output
    assert one.stdout == other.stdout


def test_explanations_add_up(folder):
    answer = json.loads(both("explain", "--row", 1, "--json").stdout)
    total = answer["base"] + sum(part["contribution"] for part in answer["columns"])
    assert total == pytest.approx(answer["prediction"])
    predicted = lines(both("predict"))[1]
    assert answer["prediction"] == pytest.approx(float(predicted["pressure"]))
    assert all(p["contribution"] == 0 for p in answer["columns"] if p["value"] is None)
    shares = []
    for name in ("yes", "no"):
        found = json.loads(both_of_classes("explain", "--of", name, "--json").stdout)
        assert found["class"] == name
        shares.append(np.array([part["contribution"] for part in found["columns"]]))
    np.testing.assert_allclose(-shares[0], shares[1], rtol=1e-6, atol=1e-12)
    run("explain", "new.csv", *MODEL, "--row", 3, "--report", "page.html")
    page = (folder / "page.html").read_text()
    assert "<td>pressure.skops<td>ExpectedKernelRidge, 4 columns" in page


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
    found = lines(invoke("predict", "-", "--model", "m.skops", stdin=text))
    rows = pd.DataFrame({"up": [True, False, None], "grade": [1, None, 3], "x": [0.5, None, 0.25]})
    wanted = model.predict(rows.astype({"up": object}))
    assert [float(row["prediction"]) for row in found] == pytest.approx(wanted.tolist())


def test_types_levels_and_marks_are_kept_in_the_file(folder):
    code, size = ["001", "002", "A01"] * 10, [f"{i},5" for i in range(30)]
    size[4] = "-9"
    rows = [f"{a};{b};{i}" for i, (a, b) in enumerate(zip(code, size, strict=True))]
    (folder / "t.csv").write_text("\n".join(["code;size;y", *rows]))
    run("fit", "t.csv", "--target", "y", "-o", "m.skops", "--missing", "-9")
    # on its own, 1,250 could be 1250; and 002 would be the number 2
    (folder / "new.csv").write_text("code;size\n002;1,250\n002;-9\n002;\n")
    one = invoke("predict", "new.csv", "--model", "m.skops")
    other = invoke("predict", "new.csv", "--train", "t.csv", "--target", "y", "--missing", "-9")
    assert (one.exit_code, one.stdout) == (0, other.stdout)
    assert "'1,250' is read as 1.25" in one.stderr
    assert "categories" not in one.stderr
    found = [row["y"] for row in lines(one)]
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
