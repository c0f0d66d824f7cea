"""Targets of numbers as text beside missing values; impossible rows of collapsed graphs."""

import numpy as np
import pytest

import expectedkernels as ek
from cli_files import invoke, run


@pytest.mark.parametrize("words", [
    ("3,300 g", "2,100 g", "-"),
    ("3,300", "2,100", "?"),
    ("10%", "20%", "none"),
    ("-$5", "$3", "-$2"),
])  # fmt: skip
def test_targets_of_numbers_as_text_beside_missing_marks(words, tmp_path):
    table = tmp_path / "t.csv"
    cells = [f'{row}.5,"{words[row % len(words)]}"\n' for row in range(30)]
    table.write_text("".join(["x,y\n", *cells]), encoding="utf-8")
    done = invoke("predict", table, "--train", table, "--target", "y")
    assert done.exit_code == 1
    assert "holds numbers that are written as text, such as" in done.stderr
    assert repr(min(set(words) - {"-", "?", "none"})) in done.stderr
    run("predict", table, "--train", table, "--target", "y", "--classify")


@pytest.mark.parametrize("zero", [0, 2])
def test_impossible_rows_of_collapsed_graphs_are_those_of_the_table(zero):
    table = [[1.0, 0.5], [0.5, 0.0]]
    graph = ek.FactorGraph([2] * 3, [((0, 1), table), ((1, 2), table)])
    rows = np.array([[0, 0, 0]] * 4 + [[0, 1, 0]] * 2 + [[1, 1, 0]] + [[0, 0, 1]] * 5)
    logs = np.where(np.arange(len(rows)) < zero, -np.inf, 0.0)
    with pytest.raises(ek.EvidenceError, match="evidence in row 6 has probability zero"):
        ek.collapsed_bbis(graph, rows, [2], log_weights=logs)


def test_expected_kernels_of_incomplete_training_rows_alone():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(33, 4))
    y = X[:, 0] + np.sin(X[:, 1])
    X[rng.random(X.shape) < 0.15] = np.nan
    model = ek.ExpectedKernelRidge(alpha=0.1, gamma=0.2, fit_missing="expected").fit(X, y)
    assert np.abs(model.predict(X) - y).mean() < 0.5


@pytest.mark.parametrize("big", [1e6, 1e12, 2.0**60, 1e100])
@pytest.mark.parametrize("signs", [(1, -1), (1, 1, 1, 1)])
def test_outliers_do_not_change_the_predictions_of_other_rows(big, signs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = ek.ExpectedKernelRidge(random_state=0).fit(X, X @ [1.0, 2.0, 3.0] + np.sin(X[:, 0]))
    rows = X[:6].copy()
    rows[:, 1] = np.nan
    changed = rows.copy()
    changed[: len(signs), 0] = big * np.array(signs)
    others = model.predict(rows)[len(signs) :]
    np.testing.assert_allclose(model.predict(changed)[len(signs) :], others, rtol=1e-11)


def test_equal_units_of_squares_are_merged():
    f = ek.random_circuit(ek.Vtree.right_linear(8), 6, rng=1, cardinalities=3)
    assert ek.algebra.square(f).n_units <= ek.algebra.multiply(f, f).n_units
