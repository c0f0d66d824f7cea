"""The regression study: its data sets, methods by their definitions, runs, and the page."""

import csv
import warnings
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from numpy.testing import assert_allclose, assert_array_equal

from assertions import assert_raises
from expectedkernels import DataError
from studies.__main__ import main
from studies.base import fill
from studies.regression import study
from studies.regression.datasets import (
    SOURCES,
    SPLITS,
    data_folder,
    digests,
    fetch,
    load,
    one_hot,
    prepare,
    read_table,
)

SMALL = study.Settings(check=False, donors=30, learners=30, rounds=2, completions=3)
HEADER = ["age", "sex", "bmi", "children", "smoker", "region", "charges"]


def insurance_columns(n, seed=0):
    """Made-up rows with the columns of the insurance data."""
    rng = np.random.default_rng(seed)
    smoker, age = rng.choice(["no", "yes"], n), rng.integers(18, 64, n)
    columns = {
        "age": age,
        "sex": rng.choice(["female", "male"], n),
        "bmi": rng.normal(30, 6, n).round(3),
        "children": rng.integers(0, 3, n),
        "smoker": smoker,
        "region": np.where(rng.random(n) < 0.8, "north", "south"),
        "charges": 200 * age + 15000 * (smoker == "yes") + rng.normal(0, 500, n).round(2),
    }
    return {name: [str(x) for x in columns[name].tolist()] for name in HEADER}


@pytest.fixture(scope="module")
def dataset():
    return prepare(SOURCES["insurance"], insurance_columns(120))


@pytest.fixture(scope="module")
def fitted(dataset):
    return study.Study(dataset, SMALL)


@pytest.fixture
def raw_data(tmp_path):
    """A folder with made-up insurance data."""
    folder = tmp_path / "data"
    folder.mkdir()
    columns = insurance_columns(120)
    with (folder / "insurance.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        writer.writerows(zip(*columns.values(), strict=True))
    return folder


@pytest.mark.parametrize(("name", "vectors", "distinct", "valid", "test"), [
    ("abalone", 1528, 587, 2.26493, 2.66687),
    ("delta-ailerons", 631, 404, 2.40676e-4, 2.27369e-4),
    ("insurance", 929, 757, 7283.94, 7629.25),
    ("elevators", 2164, 2143, 3.92546e-3, 3.97417e-3),
])  # fmt: skip
def test_the_regressors_are_those_of_the_paper(data_dir, name, vectors, distinct, valid, test):
    dataset = load(name, data_dir)
    machine = study.fit_machine(dataset)
    assert len(machine.svr.support_) == vectors
    assert len(machine.points) == distinct
    for split, error in ((dataset.valid, valid), (dataset.test, test)):
        found = np.sqrt(np.mean((machine.predict(split.bits) - split.y) ** 2))
        assert_allclose(found, error, rtol=4e-6)


@pytest.mark.parametrize(
    ("name", "bits", "categories"),
    [("abalone", -12.9, -6.8), ("delta-ailerons", -10.7, -7.7), ("insurance", -10.7, -8.2)],
)
def test_densities_fit_as_well_as_is_known(data_dir, name, bits, categories):
    dataset = load(name, data_dir)
    known = (dataset.valid.codes >= 0).all(axis=1)
    found = study.BitDensity(dataset, splits=0).circuit.log_likelihood(dataset.valid.bits).mean()
    assert_allclose(found, bits, atol=0.06)
    codes = dataset.valid.codes[known]
    found = study.CategoryDensity(dataset).circuit.log_likelihood(codes).mean()
    assert_allclose(found, categories, atol=0.08)


def test_predictions_are_those_of_scikit_learn(fitted):
    bits = fitted.dataset.valid.bits
    mixed = 0.3 * bits + 0.1
    for rows in (bits, mixed):
        wanted = fitted.machine.svr.predict(rows)
        assert_allclose(fitted.machine.predict(rows), wanted, rtol=1e-10)


def completions(density, row):
    """All rows of bits that agree with a row, with their probabilities given it."""
    n = len(row)
    if not isinstance(density, study.CategoryDensity):
        missing = np.flatnonzero(np.isnan(row))
        bits = np.tile(row, (2 ** len(missing), 1))
        bits[:, missing] = list(product([0.0, 1.0], repeat=len(missing)))
        logs = density.circuit.log_likelihood(bits)
    else:
        codes = np.array(list(product(*map(range, density.sizes))))
        bits = one_hot(codes, density.sizes)
        unknown = density.allowed(row[None, :])[1][0]
        for group in [g for g, u in zip(density.groups, unknown, strict=True) if u]:
            bits[:, group] = 0.0
        agree = np.array([((b == row) | np.isnan(row)).sum() == n for b in bits])
        bits, logs = bits[agree], density.circuit.log_likelihood(codes[agree])
    return bits, np.exp(logs) / np.exp(logs).sum()


@pytest.mark.parametrize("name", ["bits", "categories"])
def test_expected_predictions_are_those_of_enumeration(fitted, name):
    density, machine = getattr(fitted, name), fitted.machine
    rng = np.random.default_rng(3)
    rows = fitted.dataset.valid.bits[:4].copy()
    for row in rows:
        row[rng.choice(len(row), 10, replace=False)] = np.nan
    found = density.expected(machine, rows)
    for row, prediction in zip(rows, found, strict=True):
        bits, share = completions(density, row)
        assert_allclose(prediction, share @ machine.svr.predict(bits), rtol=1e-9)


def test_a_category_that_training_did_not_know_is_treated_exactly(fitted):
    density, machine = fitted.categories, fitted.machine
    rows = fitted.dataset.valid.bits[:3].copy()
    rows[:, density.groups[2]] = 0.0
    assert_allclose(density.expected(machine, rows), machine.svr.predict(rows), rtol=1e-9)
    assert_array_equal(density.most_probable(rows), rows)
    rows[:, density.groups[4]] = np.nan
    for row, prediction in zip(rows, density.expected(machine, rows), strict=True):
        bits, share = completions(density, row)
        assert_allclose(prediction, share @ machine.svr.predict(bits), rtol=1e-9)


@pytest.mark.parametrize("name", ["bits", "categories"])
def test_completions_agree_with_what_is_observed(fitted, name):
    density = getattr(fitted, name)
    rng = np.random.default_rng(0)
    rows = fitted.dataset.valid.bits[:20]
    rows = np.where(
        study.draw_mask(rng, len(rows), fitted.dataset.sizes, "bits", 0.6), np.nan, rows
    )
    for bits in (density.most_probable(rows), *density.samples(rows, 3, 0)):
        assert_array_equal(np.where(np.isnan(rows), np.nan, bits), rows)
    if name == "categories":
        groups = [density.most_probable(rows)[:, g].sum(axis=1) for g in density.groups]
        assert_array_equal(groups, np.ones_like(groups))


def test_imputers_fill_in_statistics(fitted):
    dataset = fitted.dataset
    rows, train = np.full((2, sum(dataset.sizes)), np.nan), dataset.train
    for how, wanted in (
        ("mean", train.bits.mean(axis=0)),
        ("median", np.median(train.bits, axis=0)),
        ("mode", train.bits.mean(axis=0) > 0.5),
    ):
        assert_allclose(fitted.impute(how, rows)[0], wanted)
    median, mode = (fitted.impute(how, rows, "features")[0] for how in ("median", "mode"))
    for filled in (median, mode):
        assert [filled[g].sum() for g in dataset.groups] == [1.0] * len(dataset.sizes)
    assert median[dataset.groups[4]].argmax() == np.sort(train.codes[:, 4])[len(train.codes) // 2]
    for filled in (median, mode):  # categories have no order
        assert filled[dataset.groups[3]].argmax() == np.bincount(train.codes[:, 3]).argmax()
    rows = np.array([[1.0, np.nan, 0.0], [1.0, 1.0, np.nan], [np.nan, np.nan, np.nan]])
    filled = fitted.impute("masked mode", rows)
    assert_array_equal(filled, np.where(np.isnan(rows), [1.0, 1.0, 0.0], rows))


@pytest.mark.parametrize("missing", ["bits", "features"])
def test_fitted_imputers_leave_observed_values_and_fill_all(fitted, missing):
    bits = fitted.dataset.valid.bits
    mask = study.draw_mask(np.random.default_rng(0), len(bits), fitted.dataset.sizes, missing, 0.9)
    for how in ("k-NN", "iterative"):
        filled = fitted.impute(how, np.where(mask, np.nan, bits), missing, 0.9)
        assert np.isfinite(filled).all()
        assert_array_equal(filled[~mask], bits[~mask])


def test_masks_are_the_same_for_all_methods_and_runs(fitted):
    cell, dataset = study.Cell("insurance", "valid", "features", 0.5, 1), fitted.dataset
    mask = study.cell_mask(dataset, cell, fitted.settings)
    assert_array_equal(mask, study.cell_mask(dataset, cell, fitted.settings))
    fewer = study.cell_mask(dataset, cell, study.Settings(rows=5))
    assert_array_equal(fewer, mask[: len(fewer)])
    assert len(fewer) == len(study.evaluation_rows(dataset, "valid", study.Settings(rows=5)).y)
    for group in dataset.groups:
        assert (mask[:, group] == mask[:, [group.start]]).all()
    for field, value in (("trial", 2), ("missing", "bits"), ("split", "test"), ("rate", 0.4)):
        other = study.cell_mask(dataset, cell._replace(**{field: value}), fitted.settings)
        shared = min(len(mask), len(other))
        assert (other[:shared] != mask[:shared]).any()
    apart = [study.evaluate(fitted, cell, [method])[0][:-2] for method in study.METHODS]
    assert apart == [row[:-2] for row in study.evaluate(fitted, cell, list(study.METHODS))]


def test_the_first_validation_row_is_left_out_as_in_the_paper(fitted):
    for split, first in (("valid", 1), ("test", 0)):
        found = study.evaluation_rows(fitted.dataset, split, study.Settings())
        assert_array_equal(found.y, getattr(fitted.dataset, split).y[first:])


def test_the_command_writes_results_and_a_page(raw_data, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["regression", "--quick", "--no-check", "--data-dir", str(raw_data)]
    options += ["--dataset", "insurance", "--out", str(out), "--trials", "1"]
    assert main(options) == 0
    shown = capsys.readouterr().out
    assert shown.endswith(f"written: {out / 'figure.png'}\n")
    assert "expected, categories" in shown.splitlines()[2]
    before = (out / "results.csv").read_text()
    assert len(before.splitlines()) == 1 + 1 + 2 * 3 * len(study.METHODS)
    text = (out / "summary.md").read_text()
    assert "not the rows of the paper" in text
    for method in study.METHODS:
        assert f"| {method} | " in text
    assert "\n\n![Figure 2 of the paper, from our runs](figure.png)\n\n## Bits missing, " in text


def results(rows):
    """The errors of made-up rows."""
    frame = pd.DataFrame(rows, columns=[*study.KEYS, *study.VALUES])
    return study.errors(frame), frame


@pytest.fixture(scope="module")
def records():
    """Results near the published ones, for two trials."""
    rng, rows = np.random.default_rng(0), []
    for name, source in SOURCES.items():
        rows.append((name, "valid", "none", 0.0, 0, study.COMPLETE, source.unit, 0.0, 9))
        for kind, rate, trial in product(("bits", "features"), study.RATES, range(2)):
            base = study.PUBLISHED[name, "expected", rate] * source.unit
            for factor, method in enumerate(study.METHODS):
                error = base * (0.9 + 0.1 * factor + rng.normal(0, 0.001))
                rows.append((name, "valid", kind, rate, trial, method, error, 0.1, 9))
    return results(rows)


def test_comparisons_with_what_was_published(records):
    found = records[0]
    same, better = (
        study.against_published(found, f"expected, {x}") for x in ("bits", "categories")
    )
    assert len(same) == len(better) == 36
    assert (same["change"].abs() < 0.01).all()
    assert_allclose(better["change"], -0.1, atol=0.01)
    rows = found.query("dataset == 'abalone' and missing == 'bits' and rate == 0.1")
    spread = rows.set_index("method")["error"]["expected, bits"].std(ddof=1)
    assert_allclose(same["standard_error"]["abalone", 0.1], spread * np.sqrt(1 / 2 + 1 / 5))


def test_ranks_are_one_for_the_smallest_errors(records):
    ranks = study.overview(records[0])
    assert list(ranks) == ["Bits missing, valid", "Features missing, valid"]
    assert ranks.loc["expected, categories"].tolist() == [1.0, 1.0]


def test_the_page_has_our_numbers_beside_the_published_ones(records):
    page = Path(study.__file__).with_name("page.md").read_text()
    values, sections, *_ = study.report(records[1])
    text = fill(page, values)
    assert "below the published errors in 36 of 36 cells" in text
    assert "lose to the training mean in 0 of 72 cells" in text
    assert "not the rows of the paper" not in text
    _, shown, note = sections[0][1][:3]
    assert shown.loc["*published: expected*"].tolist()[:2] == ["2.407", "2.478"]
    assert "Complete rows: 1." in note
    values, sections, *_ = study.report(records[1], comparable=False)
    assert "not the rows of the paper" in fill(page, values)
    assert "*published: expected*" not in sections[0][1][1].index


def test_the_figure_has_a_panel_per_data_set_with_the_published_curves_beside_ours(records):
    axes = study.figure(records[0], comparable=True)
    assert [ax.get_title() for ax in axes] == list(SOURCES)
    for name, ax in zip(SOURCES, axes, strict=True):
        assert len(ax.collections) == len(study.SHOWN)
        lines = ax.get_lines()
        ours, theirs = lines[1 : 1 + len(study.SHOWN)], lines[1 + len(study.SHOWN) :]
        assert [line.get_linestyle() for line in theirs] == ["--"] * 3
        assert [line.get_color() for line in ours] == [line.get_color() for line in theirs]
        for method, line in zip(("expected", "map", "masked mode"), theirs, strict=True):
            wanted = [study.PUBLISHED[name, method, rate] for rate in study.RATES]
            assert_allclose(line.get_ydata(), wanted)
    labels = [text.get_text() for text in axes[0].figure.legends[0].get_texts()]
    shown = list(study.SHOWN.values())
    assert labels == ["nothing missing", *shown, *(f"{name} (published)" for name in shown)]
    axes = study.figure(records[0], comparable=False)
    assert len(axes[0].get_lines()) == 1 + len(study.SHOWN)


def test_the_words_beside_the_figure_say_where_it_does_not_hold():
    means = {"expected, bits": 2.0, "map, bits": 3.0, "masked mode": 4.0, "mean": 2.5}
    _, frame = results(
        [
            ("abalone", "valid", "bits", rate, 0, method, error, 0.1, 9)
            for rate, other in ((0.1, {}), (0.5, {"map, bits": 1.0}), (0.9, {"mean": 1.5}))
            for method, error in (means | other).items()
        ]
    )
    values = study.report(frame, comparable=False)[0]
    assert [values[x] for x in ("won", "cells", "not_won")] == [
        2,
        3,
        " (abalone, valid, bits, 0.5)",
    ]
    assert (values["simpler"], values["simpler_where"]) == (1, " (abalone, valid, bits, 0.9)")
    assert values["dashed"] == ""
    assert "paper reports" in study.report(frame, comparable=True)[0]["dashed"]


def test_methods_that_are_not_there_at_all_rates_do_not_hide_the_best():
    some = [(0.1, "mean", 2.0), (0.1, "median", 1.0), (0.2, "median", 3.0)]
    found, _ = results(
        [("abalone", "test", "bits", rate, 0, name, error, 0.1, 9) for rate, name, error in some]
    )
    assert study.table(found, "abalone", "test", "bits", False)[-1] == "Smallest: median (2)."


def test_a_figure_of_rates_that_were_not_published():
    assert study.figure(results([])[0], comparable=True) is None
    found, _ = results([("abalone", "valid", "bits", 0.25, 0, "map, bits", 2.0, 0.1, 9)])
    axes = study.figure(found, comparable=True)
    labels = [line.get_label() for line in axes[0].lines]
    assert "MAP" in labels
    assert "MAP (published)" not in labels


SIZES = {
    "abalone": ((3, 11, 11, 5, 11, 10, 11, 10), (2923, 584, 670)),
    "delta-ailerons": ((11,) * 5, (4990, 998, 1141)),
    "insurance": ((6, 2, 4, 2, 11, 11), (936, 187, 215)),
    "elevators": ((*(11,) * 14, 3, 11, 3, 11), (11619, 2323, 2657)),
}


@pytest.fixture(params=SIZES)
def published_data(request, data_dir):
    return load(request.param, data_dir)


def test_all_splits_are_those_of_the_paper_bit_for_bit(published_data):
    dataset = published_data
    assert dataset.verified
    assert digests(dataset) == dataset.source.sha256
    sizes, rows = SIZES[dataset.source.name]
    assert dataset.sizes == sizes
    assert tuple(len(getattr(dataset, split).y) for split in SPLITS) == rows


def test_codes_and_bits_say_the_same(published_data):
    dataset = published_data
    for name in SPLITS:
        split = getattr(dataset, name)
        assert_array_equal(one_hot(split.codes, dataset.sizes), split.bits)
        known = np.stack([split.bits[:, g].sum(axis=1) for g in dataset.groups], axis=1)
        assert_array_equal(known == 0, split.codes < 0)
    assert (dataset.train.codes >= 0).all()


def test_other_rows_are_refused_unless_they_may_be_others(raw_data):
    with pytest.raises(DataError, match=r"not those of the paper: train_x.csv.*--no-check"):
        load("insurance", raw_data)
    dataset = load("insurance", raw_data, check=False)
    assert not dataset.verified
    assert len(dataset.train.y) == 84
    assert_array_equal(dataset.train.y, np.trunc(dataset.train.y))


def columns_of(column, discrete=()):
    """A table with the columns of the insurance data, all real features alike."""
    source, n = SOURCES["insurance"], len(column)
    names = {name: ["a"] * n for name in source.discrete}
    return names | dict.fromkeys(source.continuous, column) | {"charges": column} | dict(discrete)


def test_categories_outside_of_training_are_all_zeros():
    order = np.random.RandomState(1337).permutation(20)
    column = np.full(20, "5.0", dtype=object)
    column[order[:14]] = [str(float(i)) for i in range(14)]
    column[order[14]] = "100.0"  # validation, as high as the training maximum: its own category
    column[order[15]] = "-1.0"  # validation, below all training values
    sex = np.full(20, "f", dtype=object)
    sex[order[16]] = "m"
    dataset = prepare(SOURCES["insurance"], columns_of(column.tolist(), [("sex", sex.tolist())]))
    age = dataset.valid.codes[:, 4]
    assert age[0] == dataset.sizes[4] - 1
    assert age[1] == -1
    assert dataset.test.codes[0, 3] == -1
    assert_array_equal(dataset.valid.bits[1, dataset.groups[4]], 0)


def test_the_folder_comes_from_the_argument_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("EXPECTEDKERNELS_DATA", raising=False)
    assert_raises(DataError, "--data-dir, or set the environment variable", data_folder)
    monkeypatch.setenv("EXPECTEDKERNELS_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    (tmp_path / "regression").mkdir()
    assert data_folder() == tmp_path / "regression"
    assert data_folder(tmp_path / "other") == tmp_path / "other"
    (tmp_path / "file").touch()
    assert_raises(DataError, r"must be a folder\. .*file is a file", data_folder, tmp_path / "file")


def test_a_missing_file_that_is_not_on_openml_says_where_it_is(tmp_path):
    with pytest.raises(DataError, match=r"delta_ailerons.data does not exist.*Luis Torgo"):
        load("delta-ailerons", tmp_path)


def test_a_file_that_cannot_be_fetched_says_why_and_where_it_is(tmp_path, monkeypatch):
    def offline(**_):
        warnings.warn("A network error occurred. Retrying...", UserWarning, stacklevel=2)
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    message = r"could not be fetched from OpenML \(data set 183\): OSError: no route.*UCI"
    assert_raises(DataError, message, load, "abalone", tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_openml_sends_is_written_as_a_raw_file(tmp_path, monkeypatch):
    source = SOURCES["abalone"]
    names = ["Sex", "Length", "Diameter", "Height", "Whole_weight", "Shucked_weight"]
    names += ["Viscera_weight", "Shell_weight"]
    data = pd.DataFrame(np.arange(21).reshape(3, 7) / 10, columns=names[1:])
    data.insert(0, "Sex", pd.Categorical(["F", "M", "M"]))

    def answer(**options):
        assert options["data_id"] == 183
        target = pd.Series([7, 8, 9], name="Class_number_of_rings")
        return SimpleNamespace(data=data, target=target)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", answer)
    path = tmp_path / "new" / source.file
    fetch(source, path)
    found = read_table(source, path)
    assert found["Sex"].tolist() == ["F", "M", "M"]
    assert found["Whole weight"].tolist() == ["0.3", "1.0", "1.7"]
    assert found["Rings"].tolist() == ["7", "8", "9"]


@pytest.mark.parametrize(("text", "message"), [
    ("", "must be a table with a line of column names: No columns"),
    ("age,sex\n1,2\n", "There is no column 'children', 'smoker'"),
    ("age,sex,bmi,children,smoker,region,charges\n1,2\n", "Cells are empty"),
    ("age,sex\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
])  # fmt: skip
def test_a_file_that_is_no_such_table_is_refused(tmp_path, text, message):
    (tmp_path / "insurance.csv").write_text(text)
    assert_raises(DataError, message, load, "insurance", tmp_path)


def test_text_among_numbers_is_refused():
    with pytest.raises(DataError, match=r"column 'age' of insurance\.csv must hold numbers"):
        prepare(SOURCES["insurance"], columns_of(["a"] * 20))


def test_too_few_rows_are_refused():
    with pytest.raises(DataError, match=r"at least ten rows\. Got 2"):
        prepare(SOURCES["insurance"], columns_of(["1", "2"]))
