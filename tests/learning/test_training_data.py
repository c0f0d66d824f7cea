"""Rows of arrays and frames as states, their weights, counts of pairs and mutual information."""

from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import expectedkernels as ek
import learning_oracles
from assertions import assert_close, assert_raises, refusals
from expectedkernels import learn_chow_liu, learn_strudel
from expectedkernels.data.schema import Schema
from expectedkernels.learning.training_data import (
    Data,
    PairCounts,
    as_states,
    as_weights,
    distinct_rows,
    mutual_information,
)
from learning_searches import dependent_rows
from oracles import distribution
from strategies import domains, rngs


@given(rngs, st.integers(1, 200))
def test_sums_of_weights_are_exact_in_any_order(rng, n):
    given_weights = rng.gamma(0.3, size=n)
    weights = as_weights(given_weights, n)
    np.testing.assert_allclose(weights, given_weights, rtol=0, atol=1e-15 * given_weights.sum())
    part = weights[rng.random(n) < 0.7]
    assert part.cumsum()[-1:].tolist() == rng.permutation(part).cumsum()[-1:].tolist()


@given(rngs, st.integers(0, 30), st.sampled_from([2, 3, 70]))
def test_distinct_rows_are_counted(rng, n, d):
    X = rng.integers(-1, 2, size=(n, d))
    if d == 70 and n:
        X = X[rng.integers(min(n, 3), size=n)]
    weights = rng.integers(1, 5, size=(2, n)).astype(float)
    given_rows = np.where(X < 0, np.nan, X)
    sets = [Data(Schema((2,) * d), given_rows, w).held for w in weights]
    rows, sums = distinct_rows(sets, [2] * d)
    expected = {}
    for row, w in zip(X.tolist(), weights.T, strict=True):
        expected[tuple(row)] = expected.get(tuple(row), 0) + w
    found = dict(zip(map(tuple, as_states(rows).tolist()), sums.T, strict=True))
    assert found.keys() == expected.keys()
    assert all((found[row] == expected[row]).all() for row in found)


@given(
    rngs,
    domains(min_variables=2, max_variables=4),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.3]),
)
def test_counts_and_mutual_information_by_definition(rng, cardinalities, alpha, missing):
    X = dependent_rows(rng, cardinalities, 25)
    X[rng.random(X.shape) < missing] = -1
    weights = as_weights(rng.gamma(1.0, size=25) * (rng.integers(0, 4, size=25) > 0), 25)
    counts = PairCounts(X, cardinalities, weights)
    found = mutual_information(counts, alpha)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 0.0)
    assert (found >= 0).all()
    for i, j in combinations(range(len(cardinalities)), 2):
        both = (X[:, i] >= 0) & (X[:, j] >= 0)
        if not weights[both].any():
            np.testing.assert_allclose(found[i, j], 0.0, atol=1e-13)
            continue
        given_rows = X[both], cardinalities, weights[both], alpha
        expected = learning_oracles.mutual_information(*given_rows, i, j)
        np.testing.assert_allclose(found[i, j], expected, atol=1e-13)
        table = np.zeros((cardinalities[i], cardinalities[j]))
        np.add.at(table, (X[both, i], X[both, j]), weights[both])
        np.testing.assert_allclose(counts.pair(i, j), table, atol=1e-12)
    alone = np.bincount(X[:, 0][X[:, 0] >= 0], weights[X[:, 0] >= 0], cardinalities[0])
    np.testing.assert_allclose(counts.single(0), alone, atol=1e-12)


def test_mutual_information_comes_in_parts_for_many_states(monkeypatch):
    rng = np.random.default_rng(0)
    cardinalities = [2, 1, 4, 3, 2]
    X = np.stack([rng.integers(card, size=50) for card in cardinalities], axis=1)
    whole = mutual_information(PairCounts(X, cardinalities, np.ones(50)))
    monkeypatch.setattr("expectedkernels.learning.training_data.CHUNK", 40)
    parts = mutual_information(PairCounts(X, cardinalities, np.ones(50)))
    np.testing.assert_allclose(parts, whole, atol=1e-15)
    np.testing.assert_allclose(whole[1], 0.0, atol=1e-15)


@pytest.mark.parametrize("X", [
    np.array([[0.0, 1.0], [2.0, 0.0]]),
    np.array([[0, 1], [2, 0]], dtype=np.uint8),
    np.array([[0, 1.0], [2, False]], dtype=object),
    sparse.csr_array(np.array([[0, 1], [2, 0]])),
    np.ma.MaskedArray([[0, 1], [2, 0]]),
])  # fmt: skip
def test_integers_of_any_kind_are_states(X):
    wanted = learn_chow_liu([[0, 1], [2, 0]])
    assert wanted.cardinalities == (3, 2)  # a column of zeros would be binary, too
    found = learn_chow_liu(X)
    np.testing.assert_array_equal(found.log_likelihood([[2, 1]]), wanted.log_likelihood([[2, 1]]))


@pytest.mark.parametrize("missing", [None, np.nan, np.ma.masked])
def test_missing_values_are_marked(missing):
    X, gaps = np.ma.MaskedArray([[0, 1], [1, 1], [1, 0.0]]), [[0, np.nan], [1, 1], [1, 0]]
    X[0, 1] = np.nan if missing is None else missing
    X = X if missing is np.ma.masked else [[0, missing], [1, 1], [1, 0]]
    found, wanted = learn_strudel(X), learn_strudel(gaps)
    np.testing.assert_array_equal(found.log_likelihood(gaps), wanted.log_likelihood(gaps))


@pytest.mark.parametrize("learn", [learn_chow_liu, learn_strudel])
@pytest.mark.parametrize(("X", "message"), [
    ([0, 1, 1], r"X must be a matrix of shape \(rows, variables\).*Got shape \(3,\)"),
    ([[0, 1], [1]], r"as many entries in every row"),
    (np.zeros((3, 0)), r"one column per variable. Got shape \(3, 0\)"),
    ([[0, "M"], [1, "F"]], r"Got text, '0'. Labels are read from data frames"),
    (np.array([[0, "M"]], dtype=object), r"Got text, 'M'. Labels are read from data frames"),
    ([[0, 1], [0.5, 1]], r"Got 0.5 in row 1, column 0. Discretise.*KBinsDiscretizer"),
    ([[0, np.inf]], r"Got inf in row 0, column 1"),
    ([[0, 1], [-1, 1]], r"Got -1 in row 1, column 0. Codes start at 0, and a missing value"),
    ([[2**40, 1]], r"Got 1099511627776 in row 0, column 0. That is too large"),
    (np.array([[1j]]), r"Got complex numbers"),
    ([[0, 5000], [1, 2]], r"Column 1 of X holds codes up to 5000.*give cardinalities="),
    ([[0, np.nan], [1, np.nan]], r"Column 1 .*of X has no values.*Give it with cardinalities="),
    (np.zeros((0, 2)), r"Column 0 .*of X has no values"),
])  # fmt: skip
def test_matrices_that_are_not_states_are_refused(learn, X, message):
    assert_raises(ek.DataError, message, learn, X)


test_data_and_options_that_do_not_fit_are_refused = refusals(ek.CircuitError, [
    (learn_strudel, lambda: [[[0, 1]]], {}, r"X must be rows in memory. Got data in chunks"),
    *(
        (learn_chow_liu, [[0, 1]], {"cardinalities": given}, "a positive int, or one per col")
        for given in ([2], [2, 0], [2, 2.5], "ab", [2, None])
    ),
    (learn_chow_liu, [[0, 2]], {"cardinalities": 2}, "Column 1 .* integers in 0..1.*Got 2"),
    (learn_strudel, [[0, 1]], {"X_valid": [[0, 1, 1]]}, "columns. Got 2 and 3 columns"),
    (learn_strudel, [[0, 1]], {"X_valid": [[0, 0.5]]}, "X_valid must hold the states"),
    (learn_strudel, [[0, 1]], {"X_valid": np.zeros((0, 2))}, "X_valid must have at least one"),
    (learn_chow_liu, pd.DataFrame({"id": [f"row {i}" for i in range(101)]}), {},
     r"'id' has 101 distinct values.*max_states=100"),
    (learn_chow_liu, pd.DataFrame({"x": [0.5, 1.0]}), {},
     r"Got 0.5 in row 0, column 0 \('x'\). Discretise"),
    (learn_chow_liu, pd.DataFrame({"x": [None, None]}), {}, r"'x'\)? .*has no values"),
    (learn_chow_liu, pd.DataFrame({"x": ["a", "b"]}), {"cardinalities": 3},
     "has 2 labels, but its cardinality is given as 3"),
    (learn_chow_liu, pd.DataFrame({}), {}, "without columns"),
    (learn_chow_liu, pd.DataFrame({"x": ["a"]}), {"max_states": 1}, "'max_states' parameter"),
], lambda learn, X, options: learn(X, **options))  # fmt: skip


@pytest.mark.parametrize(("weights", "message"), [
    ([1.0], r"must be 2 finite numbers.*Got an array of shape \(1,\)\."),
    ([1.0, -1.0], r"with other entries"),
    ([1.0, np.nan], r"with other entries"),
    ([0.0, 0.0], r"positive, finite sum. Got 0"),
])  # fmt: skip
@pytest.mark.parametrize("learn", [learn_chow_liu, learn_strudel])
def test_weights_that_do_not_fit_are_refused(learn, weights, message):
    assert_raises(ek.DataError, message, learn, [[0, 1], [1, 1]], sample_weight=weights)


RNG = np.random.default_rng(0)
CODES = RNG.integers(3, size=(200, 3))
CODES[:, 1] = np.where(RNG.random(200) < 0.8, CODES[:, 0], CODES[:, 1])
SHIFT = np.array([0, 1, 0])
SKIES, CYLINDERS = np.array(["blue", "grey", "red"]), np.array([4, 6, 8])
FRAME = pd.DataFrame({"sky": SKIES[CODES[:, 0]], "cylinders": CYLINDERS[CODES[:, 1]]})
FRAME["code"] = CODES[:, 2]
LEARNERS = {
    "chow_liu": ek.learn_chow_liu,
    "strudel": partial(ek.learn_strudel, iterations=5, progress=False),
    "mixture": partial(ek.learn_mixture, n_components=2, splits=2, rng=0, progress=False),
    "hclt": partial(ek.learn_hclt, n_latent=3, epochs=3, rng=0, progress=False),
}


@pytest.mark.parametrize("learn", LEARNERS.values(), ids=LEARNERS)
@given(rngs, domains(min_variables=2, max_variables=5), st.sampled_from([0.0, 1.0]))
@settings(max_examples=10)
def test_integer_weights_are_repeated_rows(learn, rng, cardinalities, pseudocount):
    X = dependent_rows(rng, cardinalities, 20)
    weights = rng.integers(0, 4, size=20)
    weights[0] = 1
    p = learn(X, sample_weight=weights, pseudocount=pseudocount, cardinalities=cardinalities)
    again = {"pseudocount": pseudocount * weights.mean(), "cardinalities": cardinalities}
    q = learn(np.repeat(X, weights, axis=0), **again)
    np.testing.assert_allclose(distribution(p), distribution(q), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"parameters": "cpt"}, {"iterations": 4}], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_no_rows_are_a_uniform_distribution(options, smoothing):
    learn = learn_strudel if "iterations" in options else learn_chow_liu
    options = {"pseudocount": smoothing, "alpha": smoothing, **options}
    p = learn(np.zeros((0, 3)), cardinalities=[2, 3, 2], **options)
    np.testing.assert_allclose(distribution(p), 1 / 12)
    p = learn_strudel(np.zeros((0, 2)), [[0, np.nan]], 0, cardinalities=2)
    np.testing.assert_allclose(distribution(p), 1 / 4)


@pytest.mark.parametrize("learn", [learn_chow_liu, learn_strudel])
def test_one_variable(learn):
    p = learn([[0], [2], [2]], pseudocount=3.0)
    np.testing.assert_allclose(distribution(p), [2 / 6, 1 / 6, 3 / 6])
    assert p.vtree.n_nodes == 1


@pytest.mark.parametrize("learn", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.parametrize("missing", [False, True])
def test_frames_give_the_circuits_of_their_codes(learn, missing):
    frame, codes = FRAME.copy(), CODES.astype(float)
    if missing:
        frame.loc[3, "sky"], codes[3, 0] = None, np.nan
        frame.loc[5, "cylinders"], codes[5, 1] = None, np.nan
    p, q = learn(frame), learn(codes)
    assert p.names == ("sky", "cylinders", "code")
    assert p.states == (tuple(SKIES), (4, 6, 8), None)
    np.testing.assert_array_equal(p.log_likelihood(frame), q.log_likelihood(codes))
    table = pl.DataFrame(frame.astype(object).where(frame.notna(), None).to_dict("list"))
    np.testing.assert_array_equal(learn(table).log_likelihood(table), q.log_likelihood(codes))


def test_states_come_from_categories_booleans_and_both_tables():
    size = pd.Categorical(["m", "s", "s"], categories=["s", "m", "l"], ordered=True)
    frame = pd.DataFrame({"size": size, "new": [True, False, None], "gone": [1, 1, 0]})
    p = ek.learn_chow_liu(frame)
    assert p.states == (("s", "m", "l"), (False, True), None)
    assert p.cardinalities == (3, 2, 2)
    train, valid = FRAME[FRAME["sky"] != "red"], FRAME[["code", "sky", "cylinders"]]
    q = ek.learn_strudel(train, valid, iterations=2, progress=False)
    assert q.states[0] == tuple(SKIES)
    assert np.isfinite(q.log_likelihood(valid)).all()
    assert ek.learn_chow_liu(pd.DataFrame(CODES)).names is None


def test_given_structures_read_frames_by_name():
    p = ek.learn_strudel(FRAME, iterations=3, progress=False)
    mixed = FRAME[["code", "sky", "cylinders"]]
    for fit in (
        partial(ek.em, p, iterations=2, progress=False),
        partial(ek.fit_mmd, p, steps=5, progress=False),
        partial(ek.learn_mixture, n_components=2, structure=p, rng=0, progress=False),
    ):
        found, wanted = fit(X=mixed), fit(X=FRAME)
        assert found.schema == p.schema
        assert_close(found.log_likelihood(mixed), wanted.log_likelihood(FRAME))
    fit, weighted = partial(ek.fit_mmd, p, steps=5, progress=False), ek.Empirical(CODES).merged()
    for rows in (weighted, np.tile(CODES, (2, 1))):  # weights are the numbers of equal rows
        assert_close(fit(X=rows).log_likelihood(CODES), fit(X=CODES).log_likelihood(CODES))


def test_codes_that_start_at_one_are_noticed():
    with pytest.warns(UserWarning, match=r"Column 1 of X holds the codes 1\.\.3 and no 0"):
        ek.learn_chow_liu(CODES + SHIFT)
    assert ek.learn_chow_liu(CODES + SHIFT, cardinalities=4).cardinalities == (4, 4, 4)
    p = ek.learn_chow_liu(pd.DataFrame(CODES + SHIFT, columns=["a", "b", "c"]))
    assert p.states == (None, (1, 2, 3), None)


BAD = {
    ek.learn_chow_liu: {"pseudocount": [-1.0], "alpha": [np.nan, "1", True, None]},
    ek.learn_strudel: {"pseudocount": [-0.5], "iterations": [-1, 2.0], "alpha": ["1"],
                       "patience": [0], "callback": [3]},
    ek.learn_hclt: {"pseudocount": [-1.0], "n_latent": [0], "epochs": [-1], "patience": [0],
                    "batch_size": [0], "restarts": [0], "callback": ["so_far.npz"]},
    partial(ek.learn_mixture, n_components=2): {
        "pseudocount": [-1], "n_components": [0], "iterations": [-1], "splits": [1.5],
        "tolerance": [-1]},
    partial(ek.em, ek.factorized([[0.5, 0.5]] * 2)): {
        "pseudocount": [-1.0], "iterations": [-1], "tolerance": ["x"], "patience": [0],
        "batch_size": [0], "step": [0.0, 1.5, (0.5, 2.0), "fast"]},
    partial(ek.fit_mmd, ek.factorized([[0.5, 0.5]] * 2)): {"steps": [-1], "learning_rate": [-1.0]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("learn", "name", "value"),
    [(f, name, x) for f, options in BAD.items() for name, some in options.items() for x in some],
)
def test_parameters_are_checked(learn, name, value):
    own = getattr(learn, "func", learn).__name__
    message, options = rf"'{name}' parameter of {own} must be an? .*Got ", {name: value}
    assert_raises(ek.CircuitError, message, learn, X=[[0, 1], [1, 0]], **options)
