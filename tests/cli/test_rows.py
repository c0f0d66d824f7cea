"""Predictions, missing values and explanations by commands are those of the estimators."""

import csv
import json
from io import StringIO

import numpy as np
import pytest

import expectedkernels as ek
from cli_files import invoke, patients, write_csv

pd = pytest.importorskip("pandas")
FIT = ["--train", "patients.csv", "--without", "id"]


def lines(done):
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(StringIO(done.stdout)))


def training(*without):
    """The training table without some columns, as a data frame."""
    return pd.read_csv("patients.csv").drop(columns=["id", *without])


def test_numbers_are_predicted_with_spreads_and_intervals(folder):
    done = invoke("predict", "new.csv", *FIT, "--target", "pressure", "--std", "--interval", 0.8)
    found = lines(done)
    X = training("pressure")
    model = ek.ExpectedKernelRidge(alpha="auto", random_state=0).fit(X, training()["pressure"])
    rows = pd.read_csv("new.csv")[list(X)]
    mean, std = model.predict(rows, return_std=True)
    low, high = model.predict_interval(rows, 0.8)
    assert [row["id"] for row in found] == [f"p{i}" for i in range(6)]
    for name, wanted in {"": mean, "_std": std, "_low": low, "_high": high}.items():
        assert [float(row[f"pressure{name}"]) for row in found] == pytest.approx(wanted.tolist())
    assert max(std) > 0
    done = invoke("predict", "new.csv", *FIT, "--target", "pressure", "--std", "--json")
    answer = json.loads(done.stdout)
    assert (answer["target"], answer["task"]) == ("pressure", "regression")
    assert answer["rows"][2] == pytest.approx({"prediction": mean[2], "std": std[2]})


def test_words_are_predicted_with_probabilities(folder):
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


def test_numbers_can_be_classes_and_rows_come_from_a_pipe(folder):
    write_csv(folder / "codes.csv", {"x": [0.1, 0.2, 2.1, 2.2] * 5, "y": [4, 4, 6, 6] * 5})
    done = invoke(
        "predict", "-", "--train", "codes.csv", "--target", "y", "--classify", stdin="x\n0\n2\n"
    )
    assert [row["y"] for row in lines(done)] == ["4", "6"]


def test_gaps_are_filled_and_the_rest_is_kept(folder):
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


def test_columns_that_only_the_training_table_has_are_marginalised(folder):
    found = lines(invoke("impute", "new.csv", *FIT))  # without the pressure
    few = pd.read_csv("new.csv")
    assert list(found[0]) == list(few)
    rows = few.assign(pressure=np.nan)[list(training())]
    wanted = ek.CircuitImputer(random_state=0).fit(training()).transform(rows)
    assert [float(row["age"]) for row in found] == pytest.approx(
        wanted[:, 2].astype(float).tolist()
    )
    assert [row["sex"] for row in found] == wanted[:, 0].tolist()
    done = invoke("impute", "-", *FIT, stdin="a,b\n1,\n")
    assert done.exit_code == 1
    assert "Standard input lacks columns of patients.csv: 'sex', 'smoker'" in done.stderr


def test_explanations_add_up(folder):
    done = invoke("explain", "new.csv", *FIT, "--target", "pressure", "--row", 1, "--json")
    answer = json.loads(done.stdout)
    total = answer["base"] + sum(part["contribution"] for part in answer["columns"])
    assert total == pytest.approx(answer["prediction"])
    predicted = lines(invoke("predict", "new.csv", *FIT, "--target", "pressure"))[1]
    assert answer["prediction"] == pytest.approx(float(predicted["pressure"]))
    missing = [part["name"] for part in answer["columns"] if part["value"] is None]
    assert all(part["contribution"] == 0 for part in answer["columns"] if part["name"] in missing)
    shares = {}
    for name in ("yes", "no"):
        options = ["--target", "smoker", "--without", "pressure", "--of", name, "--json"]
        found = json.loads(invoke("explain", "new.csv", *FIT, *options).stdout)
        assert found["class"] == name
        shares[name] = {part["name"]: part["contribution"] for part in found["columns"]}
    assert {k: -v for k, v in shares["yes"].items()} == pytest.approx(shares["no"])


def test_words_that_were_not_learned_are_missing_and_said(folder):
    text = "sex,smoker,age,ill\nx,yes,40,no\n,yes,40,no\n"
    done = invoke("predict", "-", *FIT, "--target", "pressure", stdin=text)
    assert "column 'sex' has categories that the training table has not: 'x'" in done.stderr
    one, other = lines(done)
    assert one == other


@pytest.mark.parametrize(("options", "message"), [
    (["--target", "mass"], "patients.csv has no column 'mass' to predict. It has 'sex'"),
    (["--target", "ill", "--std"], "--std and --interval are for numbers, and 'ill'"),
    (["--target", "age", "--proba"], "--proba and --set are for classes, and 'age' holds numbers"),
    (["--target", "age"], "lacks columns of patients.csv: 'pressure'"),
])  # fmt: skip
def test_wrong_questions_get_a_line(folder, options, message):
    done = invoke("predict", "new.csv", *FIT, *options)
    assert done.exit_code == 1
    assert message in done.stderr.splitlines()[-1]
    assert done.stdout == ""


def test_more_wrong_questions(folder):
    fit = [*FIT, "--target", "pressure"]
    assert "There is no row 9" in invoke("explain", "new.csv", *fit, "--row", 9).stderr
    assert "--of names a class" in invoke("explain", "new.csv", *fit, "--of", "a").stderr
    done = invoke(
        "explain", "new.csv", *FIT, "--target", "ill", "--without", "pressure", "--of", "a"
    )
    assert "There is no class 'a'. There are 'no', 'yes'." in done.stderr
    assert invoke("impute", "-", "--train", "-").exit_code == 2
    done = invoke("predict", "new.csv", *fit, "--json", "-o", "p.csv")
    assert done.exit_code == 2
    text = "sex,smoker,age,ill\nf,yes,old,no\n"
    done = invoke("predict", "-", *fit, stdin=text)
    assert "Column 'age' of standard input holds 'old' in row 0, where numbers" in done.stderr
    empty = invoke("predict", "-", *fit, stdin="sex,smoker,age,ill\n,,,\n")
    assert np.isfinite(float(lines(empty)[0]["pressure"]))
