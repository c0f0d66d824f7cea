import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.svm import SVR

from assertions import assert_raises
from expectedkernels import demo


def small_result(errors):
    """A result of one split and three rows, with the errors of the methods at every rate."""
    rows, half = np.array([2.0, 0.0, 1.0]), np.array([0.6, 0.3, 0.1])
    middle = rows + 0.5
    why = (["age", "sex"], np.array([30.0, 2.0]), np.array([2.0, -0.5]), 1.0)
    found = demo.Shown(rows, middle, middle - half, middle + half, *why)
    by_method = {
        m: np.full((1, len(demo.RATES)), e) for m, e in zip(demo.METHODS, errors, strict=True)
    }
    return demo.Result(np.array([1.0]), by_method, found, seconds=1.0)


def test_test_rows_are_scaled_by_what_the_training_rows_say():
    split = demo.split_diabetes(np.random.default_rng(0))
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.X_train.std(axis=0), 1)
    assert np.abs(split.X_test.mean(axis=0)).min() > 0
    other = demo.split_diabetes(np.random.default_rng(1))
    assert (other.y_test != split.y_test).any()


def test_all_methods_agree_with_the_same_regressor_on_complete_rows():
    split = demo.split_diabetes(np.random.default_rng(0))
    model = demo.fit_model(split)
    plain = SVR(C=model.C, epsilon=model.epsilon, gamma=model.gamma)
    complete = plain.fit(split.X_train, split.y_train).predict(split.X_test)
    predictors = demo.fit_predictors(model, split)
    assert tuple(predictors) == demo.METHODS
    for predict in predictors.values():
        np.testing.assert_allclose(predict(split.X_test), complete, rtol=1e-9)


def test_a_run_shows_predictions_intervals_and_what_explains_them():
    result = demo.run(seed=0, n_splits=1)
    for errors in result.errors.values():
        assert errors.shape == (1, len(demo.RATES))
        assert result.complete[0] < errors[0, 2] < errors[0, -1]
    found, rate = result.shown, demo.RATES.index(0.5)
    error = demo.rmse(found.expected, found.measured)
    np.testing.assert_allclose(error, result.errors[demo.EXPECTED][0, rate])
    np.testing.assert_allclose(found.base + found.contributions.sum(), found.expected[0])
    assert 0.8 < found.coverage < 1.0
    assert (found.low < found.high).all()
    X = load_diabetes(scaled=False).data
    places = [demo.COLUMNS.index(name) for name in found.names]
    assert 0 < len(places) < 10
    assert np.isclose(X[:, places], found.entries).all(axis=1).any()


def test_table_marks_the_lowest_errors_whoever_has_them():
    lines = demo.table(small_result([2.0, 1.0, 3.0, 1.0])).splitlines()
    rows = [line for line in lines if line.startswith(demo.METHODS)]
    assert [row.count("*") for row in rows] == [0, len(demo.RATES), 0, len(demo.RATES)]
    assert len({len(row) for row in rows}) == 1
    assert lines[-2] == "90% hold the measured progression of 33% of 3 rows."


def test_picture_shows_the_rows_in_the_order_of_their_predictions():
    errors, rows, why = demo.plot(small_result([2.0, 1.0, 3.0, 3.0]))
    assert [line.get_label() for line in errors.get_lines()] == list(demo.METHODS)
    np.testing.assert_allclose(errors.get_lines()[0].get_ydata(), [1.0, *[2.0] * len(demo.RATES)])
    expected, marked = rows.get_lines()
    np.testing.assert_allclose(expected.get_ydata(), [0.5, 1.5, 2.5])
    np.testing.assert_allclose(marked.get_xydata(), [[2.0, 2.5]])
    dashes, bars = rows.collections
    np.testing.assert_allclose([ends[0][1] for ends in dashes.get_segments()], [0.0, 1.0, 2.0])
    lengths = [ends[1][1] - ends[0][1] for ends in bars.get_segments()]
    np.testing.assert_allclose(lengths, [0.6, 0.2, 1.2])
    assert [label.get_text() for label in why.get_yticklabels()] == ["sex = 2", "age = 30"]
    assert why.get_xlabel() == "from 1, if nothing is known, to 2.5"


def test_no_splits_are_refused():
    assert_raises(ValueError, r"'n_splits' must be at least 1\. Got 0", demo.run, n_splits=0)
