import csv
from itertools import product
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from expectedkernels import DataError, ParseError
from studies.__main__ import app
from studies.base import Results
from studies.regression.datasets import SOURCES, load, prepare
from studies.regression.methods import (
    METHODS,
    BitDensity,
    CategoryDensity,
    Effort,
    Imputers,
    Settings,
    Study,
    draw_mask,
    fill,
    fit_machine,
    hide,
)
from studies.regression.report import (
    COMPLETE,
    PUBLISHED,
    RATES,
    SHOWN,
    against_published,
    caption,
    errors,
    figure,
    overview,
    report,
    table,
)
from studies.regression.study import (
    KEYS,
    VALUES,
    Cell,
    cell_mask,
    cells,
    evaluate,
    evaluation_rows,
    run,
)

SMALL = Effort(donors=30, learners=30, rounds=2, completions=3)
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
def study(dataset):
    return Study(dataset, Settings(check=False, effort=SMALL))


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


@pytest.mark.parametrize(
    ("name", "vectors", "distinct", "valid", "test"),
    [
        ("abalone", 1528, 587, 2.26493, 2.66687),
        ("delta-ailerons", 631, 404, 2.40676e-4, 2.27369e-4),
        ("insurance", 929, 757, 7283.94, 7629.25),
        ("elevators", 2164, 2143, 3.92546e-3, 3.97417e-3),
    ],
)
def test_the_regressors_are_those_of_the_paper(data_dir, name, vectors, distinct, valid, test):
    dataset = load(name, data_dir)
    machine = fit_machine(dataset)
    assert len(machine.svr.support_) == vectors
    assert len(machine.points) == distinct
    for split, error in ((dataset.valid, valid), (dataset.test, test)):
        found = np.sqrt(np.mean((machine.predict(split.bits) - split.y) ** 2))
        np.testing.assert_allclose(found, error, rtol=4e-6)


@pytest.mark.parametrize(
    ("name", "bits", "categories"),
    [("abalone", -12.9, -6.8), ("delta-ailerons", -10.7, -7.7), ("insurance", -10.7, -8.2)],
)
def test_densities_fit_as_well_as_is_known(data_dir, name, bits, categories):
    dataset = load(name, data_dir)
    known = (dataset.valid.codes >= 0).all(axis=1)
    found = BitDensity(dataset, splits=0).circuit.log_likelihood(dataset.valid.bits).mean()
    np.testing.assert_allclose(found, bits, atol=0.06)
    codes = dataset.valid.codes[known]
    found = CategoryDensity(dataset).circuit.log_likelihood(codes).mean()
    np.testing.assert_allclose(found, categories, atol=0.08)


def test_predictions_are_those_of_scikit_learn(study):
    bits = study.dataset.valid.bits
    mixed = 0.3 * bits + 0.1
    for rows in (bits, mixed):
        wanted = study.machine.svr.predict(rows)
        np.testing.assert_allclose(study.machine.predict(rows), wanted, rtol=1e-10)


@pytest.mark.parametrize("name", ["bits", "categories"])
def test_complete_rows_have_the_regressors_own_prediction(study, name):
    rows = study.dataset.valid.bits
    wanted = study.machine.svr.predict(rows)
    found = getattr(study, name).expected(study.machine, rows)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def completions(density, row):
    """All rows of bits that agree with a row, with their probabilities given it."""
    n = len(row)
    if isinstance(density, BitDensity):
        missing = np.flatnonzero(np.isnan(row))
        bits = np.tile(row, (2 ** len(missing), 1))
        bits[:, missing] = list(product([0.0, 1.0], repeat=len(missing)))
        logs = density.circuit.log_likelihood(bits)
    else:
        codes = np.array(list(product(*map(range, density.sizes))))
        bits = density._bits(codes, np.zeros(codes.shape, dtype=bool))
        unknown = density.allowed(row[None, :])[1][0]
        for group in [g for g, u in zip(density.groups, unknown, strict=True) if u]:
            bits[:, group] = 0.0
        agree = np.array([((b == row) | np.isnan(row)).sum() == n for b in bits])
        bits, logs = bits[agree], density.circuit.log_likelihood(codes[agree])
    return bits, np.exp(logs) / np.exp(logs).sum()


@pytest.mark.parametrize("name", ["bits", "categories"])
def test_expected_predictions_are_those_of_enumeration(study, name):
    density, machine = getattr(study, name), study.machine
    rng = np.random.default_rng(3)
    rows = study.dataset.valid.bits[:4].copy()
    for row in rows:
        row[rng.choice(len(row), 10, replace=False)] = np.nan
    found = density.expected(machine, rows)
    for row, prediction in zip(rows, found, strict=True):
        bits, share = completions(density, row)
        np.testing.assert_allclose(prediction, share @ machine.svr.predict(bits), rtol=1e-9)


def test_a_category_that_training_did_not_know_is_treated_exactly(study):
    density, machine = study.categories, study.machine
    rows = study.dataset.valid.bits[:3].copy()
    rows[:, density.groups[2]] = 0.0
    np.testing.assert_allclose(
        density.expected(machine, rows), machine.svr.predict(rows), rtol=1e-9
    )
    np.testing.assert_array_equal(density.most_probable(rows), rows)
    rows[:, density.groups[4]] = np.nan
    for row, prediction in zip(rows, density.expected(machine, rows), strict=True):
        bits, share = completions(density, row)
        np.testing.assert_allclose(prediction, share @ machine.svr.predict(bits), rtol=1e-9)


@pytest.mark.parametrize("name", ["bits", "categories"])
def test_completions_agree_with_what_is_observed(study, name):
    density = getattr(study, name)
    rng = np.random.default_rng(0)
    rows = study.dataset.valid.bits[:20]
    rows = hide(rows, draw_mask(rng, len(rows), study.dataset.sizes, "bits", 0.6))
    for bits in (density.most_probable(rows), *density.samples(rows, 3, 0)):
        np.testing.assert_array_equal(np.where(np.isnan(rows), np.nan, bits), rows)
    if name == "categories":
        groups = [density.most_probable(rows)[:, g].sum(axis=1) for g in density.groups]
        np.testing.assert_array_equal(groups, np.ones_like(groups))


def test_most_probable_completions_have_the_highest_probability(study):
    row = study.dataset.valid.bits[0].copy()
    row[:9] = np.nan
    for density in (study.bits, study.categories):
        bits, share = completions(density, row)
        best = density.most_probable(row[None, :])[0]
        at = np.flatnonzero((bits == best).all(axis=1))
        np.testing.assert_allclose(share[at].sum(), share.max(), rtol=1e-9)


def test_imputers_fill_in_training_statistics(dataset):
    imputers = Imputers(dataset, SMALL)
    rows = np.full((2, dataset.n_bits), np.nan)
    train = dataset.train
    np.testing.assert_allclose(imputers.mean(rows)[0], train.bits.mean(axis=0))
    np.testing.assert_array_equal(imputers.median(rows, "bits")[0], np.median(train.bits, axis=0))
    np.testing.assert_array_equal(imputers.mode(rows, "bits")[0], train.bits.mean(axis=0) > 0.5)
    for filled in (imputers.median(rows, "features"), imputers.mode(rows, "features")):
        assert [filled[0, g].sum() for g in dataset.groups] == [1.0] * len(dataset.sizes)
    age = imputers.median(rows, "features")[0, dataset.groups[4]].argmax()
    assert age == int(np.sort(train.codes[:, 4])[len(train.codes) // 2])
    sex = imputers.mode(rows, "features")[0, dataset.groups[3]].argmax()
    assert sex == np.bincount(train.codes[:, 3]).argmax()


def test_the_masked_mode_is_that_of_the_rows_themselves(dataset):
    rows = np.array([[1.0, np.nan, 0.0], [1.0, 1.0, np.nan], [np.nan, np.nan, np.nan]])
    filled = Imputers(dataset, SMALL).masked_mode(rows)
    np.testing.assert_array_equal(filled[2], [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(filled[:2], fill(rows[:2], np.array([1.0, 1.0, 0.0])))


def test_fitted_imputers_leave_observed_values_and_fill_all(dataset):
    imputers = Imputers(dataset, SMALL)
    bits = dataset.valid.bits
    for missing in ("bits", "features"):
        mask = draw_mask(np.random.default_rng(0), len(bits), dataset.sizes, missing, 0.9)
        rows = hide(bits, mask)
        for filled in (imputers.neighbours(rows), imputers.iterative(rows, missing, 0.9)):
            assert filled.shape == bits.shape
            assert np.isfinite(filled).all()
            np.testing.assert_array_equal(filled[~mask], bits[~mask])


def test_masks_are_the_same_for_all_methods_and_runs(study):
    cell = Cell("insurance", "valid", "features", 0.5, 1)
    mask = cell_mask(study.dataset, cell, study.settings)
    np.testing.assert_array_equal(mask, cell_mask(study.dataset, cell, study.settings))
    fewer = cell_mask(study.dataset, cell, Settings(rows=5))
    np.testing.assert_array_equal(fewer, mask[: len(fewer)])
    assert len(fewer) == len(evaluation_rows(study.dataset, "valid", Settings(rows=5)).y)
    for group in study.dataset.groups:
        assert (mask[:, group] == mask[:, [group.start]]).all()
    for field, value in (("trial", 2), ("missing", "bits"), ("split", "test"), ("rate", 0.4)):
        other = cell._replace(**{field: value})
        shared = min(len(mask), len(cell_mask(study.dataset, other, study.settings)))
        assert (cell_mask(study.dataset, other, study.settings)[:shared] != mask[:shared]).any()
    apart = [evaluate(study, cell, [method])[0][:-2] for method in METHODS]
    assert apart == [row[:-2] for row in evaluate(study, cell, list(METHODS))]


def test_the_first_validation_row_is_left_out_as_in_the_paper(study):
    split = evaluation_rows(study.dataset, "valid", Settings())
    np.testing.assert_array_equal(split.y, study.dataset.valid.y[1:])
    split = evaluation_rows(study.dataset, "test", Settings())
    np.testing.assert_array_equal(split.y, study.dataset.test.y)


def invoke(*arguments):
    return CliRunner().invoke(app, ["regression", *map(str, arguments)])


def test_the_command_writes_results_and_resumes(raw_data, tmp_path):
    out = tmp_path / "out"
    options = ["--quick", "--no-check", "--data-dir", raw_data, "--dataset", "insurance"]
    done = invoke(*options, "--out", out, "--trials", 1)
    assert done.exit_code == 0, done.output
    assert done.output.endswith(f"written: {out / 'figure.png'}\n")
    assert "expected, categories" in done.output.splitlines()[2]
    names = {path.name for path in out.iterdir()}
    assert names == {"results.csv", "settings.json", "summary.md", "figure.png"}
    before = (out / "results.csv").read_text()
    assert len(before.splitlines()) == 1 + 1 + 2 * 3 * len(METHODS)
    text = (out / "summary.md").read_text()
    assert "not the rows of the paper" in text
    for method in METHODS:
        assert f"| {method} | " in text
    assert "\n\n![Figure 2 of the paper, from our runs](figure.png)\n\n## Bits missing, " in text

    again = invoke(*options, "--out", out, "--trials", 1)
    assert again.exit_code == 0, again.output
    assert (out / "results.csv").read_text() == before

    cut = before[: len(before) - 30]  # in the middle of the last line
    (out / "results.csv").write_text(cut)
    more = invoke(*options, "--out", out, "--trials", 1)
    assert more.exit_code == 0, more.output
    lines, wanted = (out / "results.csv").read_text().splitlines(), before.splitlines()
    assert [line.split(",")[:-2] for line in lines] == [line.split(",")[:-2] for line in wanted]

    other = invoke(*options[1:], "--out", out, "--trials", 1)
    assert other.exit_code == 1
    assert "other settings" in other.output


def test_two_processes_find_the_same(raw_data, tmp_path):
    found = []
    for jobs in (1, 2):
        records = run(
            tmp_path / f"out{jobs}",
            raw_data,
            datasets=["insurance"],
            splits=["valid"],
            missing=["bits"],
            rates=[0.5],
            trials=2,
            methods=["expected, categories", "sampled, bits"],
            settings=Settings(check=False, effort=SMALL),
            jobs=jobs,
            progress=False,
        )
        found.append(records.frame.set_index(list(KEYS))["rmse"].to_dict())
    assert found[0] == found[1]
    assert len(found[0]) == 5


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"There is no data set 'iris'\. There are: abalone; "):
        run(tmp_path, datasets=["iris"])
    with pytest.raises(DataError, match="There is no method 'guess'"):
        run(tmp_path, methods=["guess"])
    with pytest.raises(DataError, match=r"at least 1, or -1 for all\. Got 0"):
        run(tmp_path, jobs=0)
    assert not list(tmp_path.iterdir())
    done = invoke("--split", "train", "--out", tmp_path)
    assert done.exit_code == 1
    assert "There is no split 'train'" in done.output


def test_a_file_of_other_columns_is_not_touched(tmp_path):
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ParseError, match="expected the columns dataset, split"):
        Results(tmp_path, KEYS, VALUES, {})
    (tmp_path / "results.csv").write_text(
        "dataset,split,missing,rate,trial,method,rmse,seconds,rows\nabalone,valid\n"
    )
    with pytest.raises(ParseError, match="line 2: expected a result"):
        Results(tmp_path, KEYS, VALUES, {})


def results(rows):
    """The errors of made-up rows."""
    frame = pd.DataFrame(rows, columns=[*KEYS, *VALUES])
    return errors(SimpleNamespace(frame=frame)), SimpleNamespace(frame=frame)


@pytest.fixture(scope="module")
def records():
    """Results near the published ones, for two trials."""
    rng, rows = np.random.default_rng(0), []
    for name, source in SOURCES.items():
        rows.append((name, "valid", "none", 0.0, 0, COMPLETE, source.unit, 0.0, 9))
        for kind, rate, trial in product(("bits", "features"), RATES, range(2)):
            base = PUBLISHED[name, "expected", rate] * source.unit
            for factor, method in enumerate(METHODS):
                error = base * (0.9 + 0.1 * factor + rng.normal(0, 0.001))
                rows.append((name, "valid", kind, rate, trial, method, error, 0.1, 9))
    return results(rows)


def test_comparisons_with_what_was_published(records):
    found = records[0]
    same, better = (against_published(found, f"expected, {x}") for x in ("bits", "categories"))
    assert len(same) == len(better) == 36
    assert (same["change"].abs() < 0.01).all()
    np.testing.assert_allclose(better["change"], -0.1, atol=0.01)
    rows = found.query("dataset == 'abalone' and missing == 'bits' and rate == 0.1")
    spread = rows.set_index("method")["error"]["expected, bits"].std(ddof=1)
    np.testing.assert_allclose(
        same["standard_error"]["abalone", 0.1], spread * np.sqrt(1 / 2 + 1 / 5)
    )


def test_ranks_are_one_for_the_smallest_errors(records):
    ranks = overview(records[0])
    assert list(ranks) == ["Bits missing, valid", "Features missing, valid"]
    assert ranks.loc["expected, categories"].tolist() == [1.0, 1.0]


def test_the_page_has_our_numbers_beside_the_published_ones(records):
    intro, short, sections, _, _ = report(records[1])
    text = "\n".join(short)
    assert "below the published errors in 36 of 36 cells" in text
    assert "lose to the training mean in 0 of 72 cells" in text
    assert "not the rows of the paper" not in intro
    _, shown, note = sections[0][1][:3]
    assert shown.loc["*published: expected*"].tolist()[:2] == ["2.407", "2.478"]
    assert "Complete rows: 1." in note
    shown = report(records[1], comparable=False)[2][0][1][1]
    assert "*published: expected*" not in shown.index


def test_the_figure_has_a_panel_per_data_set_with_the_published_curves_beside_ours(records):
    axes = figure(records[0], comparable=True)
    assert [ax.get_title() for ax in axes] == list(SOURCES)
    for name, ax in zip(SOURCES, axes, strict=True):
        assert len(ax.collections) == len(SHOWN)
        lines = ax.get_lines()
        ours, theirs = lines[1 : 1 + len(SHOWN)], lines[1 + len(SHOWN) :]
        assert [line.get_linestyle() for line in theirs] == ["--"] * 3
        assert [line.get_color() for line in ours] == [line.get_color() for line in theirs]
        for method, line in zip(("expected", "map", "masked mode"), theirs, strict=True):
            wanted = [PUBLISHED[name, method, rate] for rate in RATES]
            np.testing.assert_allclose(line.get_ydata(), wanted)
    labels = [text.get_text() for text in axes[0].figure.legends[0].get_texts()]
    shown = list(SHOWN.values())
    assert labels == ["nothing missing", *shown, *(f"{name} (published)" for name in shown)]
    plt.close(axes[0].figure)
    axes = figure(records[0], comparable=False)
    assert len(axes[0].get_lines()) == 1 + len(SHOWN)
    plt.close(axes[0].figure)


def test_the_words_beside_the_figure_say_where_it_does_not_hold():
    means = {"expected, bits": 2.0, "map, bits": 3.0, "masked mode": 4.0, "mean": 2.5}
    found, _ = results(
        [
            ("abalone", "valid", "bits", rate, 0, method, error, 0.1, 9)
            for rate, other in ((0.1, {}), (0.5, {"map, bits": 1.0}), (0.9, {"mean": 1.5}))
            for method, error in (means | other).items()
        ]
    )
    text = caption(found, comparable=False)
    assert "the smallest error in 2 of 3 cells (abalone, valid, bits, 0.5)" in text
    assert "has a smaller one than they have in 1 (abalone, valid, bits, 0.9)" in text
    assert "paper reports" not in text
    assert "paper reports" in caption(found, comparable=True)


def test_cells_of_the_same_fitted_models_are_next_to_each_other():
    found = list(cells(["abalone"], ["valid", "test"], ["bits"], [0.1, 0.2], 2))
    assert [c.rate for c in found] == [0.0] * 2 + [0.1] * 4 + [0.2] * 4


def test_methods_that_are_not_there_at_all_rates_do_not_hide_the_best():
    some = [(0.1, "mean", 2.0), (0.1, "median", 1.0), (0.2, "median", 3.0)]
    found, _ = results(
        [("abalone", "test", "bits", rate, 0, name, error, 0.1, 9) for rate, name, error in some]
    )
    assert table(found, "abalone", "test", "bits", False)[-1] == "Smallest: median (2)."


def test_a_figure_of_rates_that_were_not_published():
    assert figure(results([])[0], comparable=True) is None
    found, _ = results([("abalone", "valid", "bits", 0.25, 0, "map, bits", 2.0, 0.1, 9)])
    axes = figure(found, comparable=True)
    labels = [line.get_label() for line in axes[0].lines]
    assert "MAP" in labels
    assert "MAP (published)" not in labels
    plt.close(axes[0].figure)
