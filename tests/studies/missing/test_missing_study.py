from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from expectedkernels import DataError
from studies.__main__ import main
from studies.base import fill, run
from studies.missing import study

TINY = study.Settings(n_train=30, n_test=20)
OPTIONS = {
    "tables": ["diabetes", "iris"],
    "mechanisms": [("MCAR", 0.5)],
    "trials": 1,
    "settings": TINY,
    "progress": False,
}


@pytest.fixture(scope="module", autouse=True)
def _little_boosting():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "BOOSTING", {"max_iter": [10], "min_samples_leaf": [5]})
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A tiny study of two tables."""
    folder = tmp_path_factory.mktemp("missing")
    return run(study, folder, **OPTIONS)


@pytest.mark.parametrize("name", study.SHIPPED)
def test_tables_are_numbers_without_holes(name):
    table = study.load_table(name)
    assert np.isfinite(table.X).all()
    assert (table.X.std(axis=0) > 0).all()
    assert len(table.owner) == table.X.shape[1]


def test_tables_of_the_data_folder_have_categories(data_dir):
    assert {"insurance", "abalone"} <= set(study.available(data_dir))
    table = study.load_table("insurance", data_dir)
    assert [len(columns) for columns in table.variables] == [1, 2, 4, 2, 1, 1]
    assert table.groups == [[1, 2], [3, 4, 5, 6], [7, 8]]
    np.testing.assert_array_equal(table.X[:, 1:3].sum(axis=1), 1.0)


def test_a_table_that_is_not_there_is_said(tmp_path):
    assert study.available(tmp_path) == list(study.SHIPPED)
    with pytest.raises(DataError, match=r"delta_ailerons\.data does not exist"):
        study.load_table("delta-ailerons", tmp_path)


@pytest.mark.parametrize(("mechanism", "rate"), study.MECHANISMS)
def test_masks_have_their_rate_and_depend_on_what_they_should(mechanism, rate):
    rng = np.random.default_rng(0)
    words = np.array(["a", "b", "c"])[rng.integers(3, size=4000)]
    numbers = rng.normal(size=(4, 4000))
    table = study.make_table("t", "regression", [words, *numbers, numbers[0] ** 2], numbers[0])
    mask = study.draw_mask(np.random.default_rng(1), table, mechanism, rate)
    always = ~mask.any(axis=0)
    assert always.sum() == (2 if mechanism == "MAR" else 0)
    np.testing.assert_allclose(mask[:, ~always].mean(axis=0), rate, atol=0.03)
    for j in np.flatnonzero(~always)[1:]:
        values = table.X[:, table.variables[j][0]]
        difference = abs(values[mask[:, j]].mean() - values[~mask[:, j]].mean()) / values.std()
        assert (difference > 0.3) == (mechanism == "MNAR")


def test_a_missing_category_is_missing_in_all_its_columns():
    table = study.make_table(
        "t", "regression", [["a", "b", "c"] * 20, np.arange(60.0)], np.arange(60.0)
    )
    copy = study.draw_copy(np.random.default_rng(0), table.X, table.owner)
    gone = np.isnan(copy)
    assert (gone[:, 0] == gone[:, 1]).all()
    assert (gone[:, 1] == gone[:, 2]).all()
    assert (gone[:, 2] != gone[:, 3]).any()
    np.testing.assert_array_equal(copy[~gone], table.X[~gone])


def test_training_rows_have_holes_only_where_they_should_and_scale_the_rest():
    table = study.load_table("diabetes")
    rows, n = study.split_rows(table, 0, TINY)
    cell = study.Cell("diabetes", table.task, "test", "MCAR", 0.5, 0)
    at_test, both = (
        study.cell_mask(rows, n, cell._replace(missing=h), TINY) for h in ("test", "both")
    )
    assert not at_test[:30].any()
    np.testing.assert_array_equal(at_test[30:], both[30:])
    task = study.make_task(rows, n, both, 0)
    np.testing.assert_allclose(np.nanmean(task.training.X, axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(task.training.X, axis=0), 1.0)
    wanted = table.y.std() * (task.y_test.max() - task.y_test.min()) * task.unit
    np.testing.assert_allclose(np.ptp(rows.y[30:]), wanted)


def test_every_variable_is_seen_in_training():
    table = study.load_table("linnerud")
    rows, n = study.split_rows(table, 0, study.Settings())
    cell = study.Cell("linnerud", table.task, "both", "MCAR", 1.0 - 1e-9, 0)
    assert ((~study.cell_mask(rows, n, cell, TINY)[:n]).sum(axis=0) == 3).all()


def test_complete_rows_get_the_same_prediction_whatever_is_done_about_holes():
    rows, n = study.split_rows(study.load_table("diabetes"), 0, TINY)
    task = study.make_task(rows, n, np.zeros((50, 10), dtype=bool), 0)
    answers = {
        name: study.fit_method(name, task.training).predict(task.X_test)
        for name in ("expected SVM", "mean, SVM", "k-NN, SVM", "iterative, SVM")
    }
    for found in answers.values():
        np.testing.assert_allclose(found, answers["mean, SVM"], atol=2e-3)


def test_indicators_are_one_for_every_variable():
    owner = np.array([0, 0, 1])
    training = study.Training("t", "regression", np.zeros((2, 3)), owner, np.zeros(2), 0)
    rows = study.hide(training.X, np.array([[True, False], [False, True]]), training.owner)
    found = training.indicated(np.nan_to_num(rows), rows)
    assert found.tolist() == [[0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]


def test_all_methods_have_results_in_all_cells(finished):
    frame = finished.frame
    assert len(frame) == 2 * (2 * len(study.METHODS) - len(study.MASKED))
    assert frame["error"].between(0.0, 1.5, inclusive="neither").all()
    ours, regression = frame["method"].isin(study.EXPECTED), frame["task"] == "regression"
    assert (frame["coverage"].notna() == (ours & regression)).all()
    assert (frame["log_loss"].notna() == ~regression)[ours].all()


def test_the_page_names_all_methods_and_the_figure_all_settings(finished):
    _, sections, _, draw = study.report(finished.frame)
    assert len(sections) == 4
    for title, (_, *tables) in sections:
        for shown in tables:
            assert list(shown.index) == [
                m for m in study.METHODS if "train" in title or m not in study.MASKED
            ]
    axes = draw()
    assert [label.get_text() for label in axes[0].get_xticklabels()] == ["MCAR 0.5"]
    assert len(axes) == 4


def test_means_ranks_and_wins_are_those_of_the_results():
    values = {"expected SVM": (1.0, 2.0, 4.0), "mean, SVM": (2.0, 1.5, 7.0)}
    nothing = (np.nan, np.nan, np.nan, 0.0, 0.0)
    rows = [("d", "regression", "test", "MCAR", 0.5, 0, "mean, SVM", 100.0, *nothing)]  # alone
    for method, errors in values.items():
        for table, error in zip("abc", errors, strict=True):
            for trial, off in enumerate((-0.5, 0.5)):
                key = (table, "regression", "test", "MCAR", 0.5, trial, method)
                rows.append((*key, error + off, *nothing))
    frame = pd.DataFrame(rows, columns=[*study.KEYS, *study.VALUES])
    errors = study.values_of(frame, "regression", "test")["error"]
    np.testing.assert_allclose(errors.mean(axis=1), [7 / 3, 3.5])
    np.testing.assert_allclose(errors.rank().mean(axis=1), [4 / 3, 5 / 3])
    found = study.against(errors, "expected SVM").loc["mean, SVM"]
    assert (found["wins"], found["losses"]) == (2, 1)
    differences = np.array([1.0, -0.5, 3.0])
    wanted = differences.mean() / (differences.std(ddof=1) / np.sqrt(3))
    np.testing.assert_allclose(found["distance"], wanted)
    assert study.against(errors[["a"]], "expected SVM")["distance"].isna().all()
    assert study.values_of(frame, "classification", "test") is None
    page = Path(study.__file__).with_name("page.md").read_text()
    assert "expected SVM against it 2-1 tables" in fill(page, study.report(frame)[0])


def test_the_command_writes_a_summary_and_a_figure(tmp_path, capsys):
    arguments = ["missing", "--quick", "--table", "iris", "--missing", "test"]
    arguments += ["--method", "expected SVM", "--method", "mean, SVM", "--out", str(tmp_path)]
    assert main(arguments) == 0
    shown, text = capsys.readouterr().out, (tmp_path / "summary.md").read_text()
    assert "](figure.png)\n\n## Classification, missing in test rows only\n\n" in text
    assert shown.splitlines()[2].startswith("expected SVM ")
    assert "best of the 1 others, in hindsight, mean, SVM" in shown
