import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_raises, refusals, rejected
from expectedkernels import arrays

K = ek.ExpHamming(0.5)


def table(n=120, seed=0, link=0.0):
    """A frame in which x and y depend on the columns a and b, and y, by `link`, on x."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(3, size=n), rng.integers(2, size=n)
    x = (a + b * (rng.random(n) < 0.5)) % 3
    y = (a + (rng.random(n) < 0.3)) % 3
    y = np.where(rng.random(n) < link, x, y)
    words = np.array(["low", "mid", "high"])
    return pd.DataFrame({"x": words[x], "y": y, "a": words[a], "b": b == 1})


def known(tables):
    """A density that returns circuits of given joint tables, one after the other."""
    made = iter(tables)

    def density(X, cardinalities):
        joint = next(made)
        assert joint.shape == tuple(cardinalities)
        return ek.FactorGraph(cardinalities, [(range(joint.ndim), joint)]).circuit()

    return density


def definition(x, y, Z, P, Q):
    """The statistic by its definition."""
    A, B = np.eye(P.shape[1])[x] - P, np.eye(Q.shape[1])[y] - Q
    return ((A @ A.T) * (B @ B.T) * K(Z)).sum() / len(x) ** 2


def test_the_statistic_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    Z = rng.integers([3, 2], size=(50, 2))
    x, y = rng.integers(3, size=50), rng.integers(2, size=50)
    joint_x, joint_y = rng.random((3, 3, 2)), rng.random((2, 3, 2))
    P, Q = ((j / j.sum(axis=0))[:, Z[:, 0], Z[:, 1]].T for j in (joint_x, joint_y))
    test = ek.independence_test(x, y, Z, density=known([joint_x, joint_y]), k=K, n_null=19, rng=0)
    assert test.statistic == pytest.approx(definition(x, y, Z, P, Q), rel=1e-12)
    assert (test.n, test.n_used, len(test.null)) == (50, 50, 19)
    assert np.unique(test.null).size > 10
    assert "x and y are independent given the other columns" in str(test)
    alone = ek.independence_test(x, y, k=K, n_null=19, rng=0)
    P, Q = (np.tile(np.bincount(v) / 50, (50, 1)) for v in (x, y))
    assert alone.statistic == pytest.approx(definition(x, y, np.zeros((50, 1)), P, Q), rel=1e-12)
    assert alone.drawn == "permutations"


def test_names_arrays_and_frames_say_the_same():
    frame = table()
    wanted = ek.independence_test("x", "y", ["a", "b"], data=frame, n_null=19, rng=0)
    for given in (frame[["a", "b"]], frame[["a", "b"]].to_numpy(dtype=object)):
        x, y = frame["x"], frame["y"].to_numpy()
        found = ek.independence_test(x, y, given, n_null=19, rng=0)
        assert found.p_value == wanted.p_value
        assert found.statistic == pytest.approx(wanted.statistic, rel=1e-9)
    dated = frame.assign(day=pd.Timestamp("2020-01-01"))  # a column that is not named is not read
    for data in (pl.from_pandas(frame), dated):
        other = ek.independence_test(["x"], "y", ["a", "b"], data=data, n_null=19, rng=0)
        assert other.p_value == wanted.p_value
    assert wanted.plot().get_xlabel() == "statistic"


def test_conditional_dependence_is_found_and_common_causes_are_not():
    def test(seed):
        data = table(200, seed)
        return ek.independence_test("x", "y", ["a", "b"], data=data, n_null=39, rng=seed)

    assert rejected(test, 25) <= 0.2
    for given, data in ((["a", "b"], table(200, 1, link=0.4)), (None, table(200))):
        test = ek.independence_test("x", "y", given, data=data, n_null=39, rng=0)
        assert test.p_value == 0.025


def test_numbers_are_binned_and_several_columns_are_joint():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcz"))
    frame["d"] = rng.random(200) * np.sign(frame["a"] * frame["b"])  # of both, of neither alone
    for x, found in ((["a", "b"], True), (["a"], False), (["c"], False)):
        options = {"given": "z", "data": frame, "n_bins": 4, "n_null": 39, "rng": 0}
        assert (ek.independence_test(x, "d", **options).p_value == 0.025) == found


def test_rows_without_x_or_y_are_left_out_and_others_are_completed():
    frame = table(200, 1, link=0.4)
    rng = np.random.default_rng(0)
    gaps = frame.mask(pd.DataFrame(rng.random(frame.shape) < 0.15, columns=frame.columns))
    test = ek.independence_test("x", "y", ["a", "b"], data=gaps, n_null=39, rng=0)
    assert test.n_used == gaps[["x", "y"]].notna().all(axis=1).sum() < test.n == 200
    assert test.p_value == 0.025
    y = np.ma.array(frame["y"], mask=gaps["y"].isna())
    masked = ek.independence_test(gaps["x"], y, gaps[["a", "b"]], n_null=39, rng=0)
    assert (masked.n_used, masked.statistic) == (test.n_used, test.statistic)


def test_missing_values_are_completed_under_the_hypothesis():
    rng = np.random.default_rng(0)
    joint = rng.dirichlet(np.ones(8), size=2).reshape(2, 2, 2, 2)  # of (x, a, b) and (y, a, b)
    given = joint[1] / joint[1].sum(axis=0)
    n = 10_000
    x, y, a = np.zeros(n, dtype=int), np.ones(n, dtype=int), np.ones(n)
    x[0], y[0] = 1, 0  # nothing is constant
    Z = np.column_stack([a, np.full(n, np.nan)])
    Z[:2, 1] = 0.0, 1.0
    Z[:2, 0] = 0.0
    weights = joint[0][0, 1] * given[1, 1]
    test = ek.independence_test(x, y, Z, density=known(joint), k=K, n_null=1, rng=0)
    share = weights[1] / weights.sum()
    P = (joint[0] / joint[0].sum(axis=0))[:, 1].T  # given b
    A = np.eye(2)[0] - P
    B = np.eye(2)[1] - given[:, 1].T
    mixed = np.array([1 - share, share])
    gram = K(np.array([[1.0, 0.0], [1.0, 1.0]])) * (A @ A.T) * (B @ B.T)
    assert test.statistic == pytest.approx(mixed @ gram @ mixed, rel=0.05)


def test_equal_conditionals_of_two_samples():
    rng = np.random.default_rng(0)

    def sample(n, share, flip):
        x = rng.random(n) < share
        return pd.DataFrame({"x": x}), pd.Series(x ^ (rng.random(n) < flip), name="y")

    one, same, other = sample(200, 0.5, 0.2), sample(150, 0.8, 0.2), sample(150, 0.8, 0.5)
    assert ek.conditional_two_sample_test(one, same, n_null=39, rng=0).p_value > 0.05
    test = ek.conditional_two_sample_test(one, other, n_null=39, rng=0)
    assert (test.p_value, test.n) == (0.025, 350)


ASKED = {"x": "x", "y": "y", "given": ["a", "b"], "data": table(40)}


test_mistakes = refusals(ek.DataError, [
    ({"given": ["a", "x"]}, "Column 'x' is named twice"),
    ({"y": "x"}, "Column 'x' is named twice"),
    ({"given": ["a", "c"]}, r"'given' names column 'c', which 'data' does not have. It has 'x'"),
    ({"density": "chow_liu"}, "'density' parameter"),
    ({"density": ("tree", 2)}, "'density' parameter"),
    ({"density": lambda X, cards: 3}, "must return a Circuit over 3 variables.* Got 3"),
    ({"density": lambda X, cards: ek.factorized([[0.5, 0.5]])},
     r"over 3 variables, the tested column first. Got <Circuit of 1"),
    ({"x": []}, "'x' names no column"),
    ({"y": "c"}, r"'y' names column 'c'.*It has 'x', 'y', 'a', 'b'"),
    ({"x": 0, "y": 7, "given": None, "data": np.zeros((30, 3))},
     "'y' names column '7'.*It has 0, 1, 2"),
    ({"n_null": 0}, "'n_null' parameter"),
    ({"n_bins": 1}, "'n_bins' parameter"),
], lambda change: ek.independence_test(**ASKED | change))  # fmt: skip


OUTCOMES = np.zeros((9, 1)), np.zeros(9)


test_samples_with_outcomes_are_pairs = refusals(ek.DataError, [
    (sample, r"pairs \(X, y\) of columns. Sample 2 is a .* no pair")
    for sample in (np.zeros((9, 2)), (np.zeros((9, 1)),) * 3)
], lambda sample: ek.conditional_two_sample_test(OUTCOMES, sample))  # fmt: skip


def test_tables_of_samples_that_take_too_much_memory_raise(monkeypatch):
    monkeypatch.setattr(arrays, "FEW_BYTES", 0)
    monkeypatch.setattr(arrays, "memory_limit", lambda: 2.0**10)
    even = lambda X, cards: ek.factorized([np.full(n, 1 / n) for n in cards])  # noqa: E731
    options = {"data": table(60), "density": even, "n_null": 19}
    message = r"A table of 19 samples of x needs .* Take fewer of them"
    assert_raises(ek.SizeError, message, ek.independence_test, "x", "y", "a", **options)


def test_no_given_columns_are_none_at_all():
    test, other = (ek.independence_test("x", "y", z, data=table(60), rng=0) for z in ([], None))
    assert test.drawn == other.drawn == "permutations"
    assert test.p_value == other.p_value


RNG, FRAME, BITS = np.random.default_rng(0), table(40), np.tile([0, 1], 20)
SURE = {"density": known([np.eye(2), np.ones((2, 2))]), "n_null": 1}


test_tables_that_tell_nothing_raise = refusals(ek.DataError, [
    (["k"] * 40, FRAME["y"], FRAME["a"], {}, r"'x' is constant given Z \(every probability abo"),
    (BITS, BITS[::-1], BITS, SURE, "'x' is constant given Z"),
    (FRAME["x"], FRAME["y"], FRAME[["a", "y"]], {"n_null": 1}, "'y' is constant given Z"),
    ("x", "y", "a", {"data": FRAME.assign(x=FRAME["x"].where(FRAME.index < 15))},
     r"15 of 40 rows have values of x and y.* needs 20"),
    (FRAME["x"][:39], FRAME["y"], FRAME["a"], {}, r"same number of rows. Got 39, 40"),
    (RNG.normal(size=(200, 3)), np.tile([0, 1], 100), None, {},
     r"joint states, at most 100\. Got \d+"),
    ([0, 1], [0, 1], np.zeros((2, 2, 2)), {}, r"'given' has shape \(2, 2, 2\)"),
], lambda x, y, given, options: ek.independence_test(x, y, given, **options))  # fmt: skip


def test_many_joint_states_of_few_rows_are_warned_of():
    with pytest.warns(UserWarning, match=r"2.62e\+05 joint states and there are 40 rows"):
        ek.independence_test(FRAME["x"], FRAME["y"], RNG.normal(size=(40, 6)), n_null=1)
