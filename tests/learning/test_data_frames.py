"""Learning from data frames: names, states, and the same circuits as from codes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_close

RNG = np.random.default_rng(0)
CODES = RNG.integers(3, size=(200, 3))
CODES[:, 1] = np.where(RNG.random(200) < 0.8, CODES[:, 0], CODES[:, 1])
SHIFT = np.array([0, 1, 0])
SKIES, CYLINDERS = np.array(["blue", "grey", "red"]), np.array([4, 6, 8])
FRAME = pd.DataFrame(
    {"sky": SKIES[CODES[:, 0]], "cylinders": CYLINDERS[CODES[:, 1]], "code": CODES[:, 2]}
)
LEARNERS = {
    "chow_liu": ek.learn_chow_liu,
    "strudel": lambda X: ek.learn_strudel(X, iterations=5, progress=False),
    "mixture": lambda X: ek.learn_mixture(X, 2, splits=2, rng=0, progress=False),
}


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


def test_given_structures_read_frames_by_name():
    p = ek.learn_strudel(FRAME, iterations=3, progress=False)
    mixed = FRAME[["code", "sky", "cylinders"]]
    q = ek.learn_mixture(mixed, 2, structure=p, rng=0, progress=False)
    assert q.states == p.states
    fitted = ek.em(p, mixed, 2, progress=False)
    assert_close(
        fitted.log_likelihood(mixed), ek.em(p, FRAME, 2, progress=False).log_likelihood(FRAME)
    )


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (
            {"id": [f"row {i}" for i in range(101)]},
            {},
            r"'id' has 101 distinct values.*max_states=100",
        ),
        ({"x": [0.5, 1.0]}, {}, r"Got 0.5 in row 0, column 0 \('x'\). Discretise"),
        ({"x": [None, None]}, {}, r"'x'\)? .*has no values"),
        (
            {"x": ["a", "b"]},
            {"cardinalities": 3},
            "has 2 labels, but its cardinality is given as 3",
        ),
        ({}, {}, "without columns"),
        ({"x": ["a", "b"]}, {"max_states": 1}, "'max_states' parameter"),
    ],
)
def test_columns_that_hold_no_states_are_refused(frame, options, message):
    with pytest.raises(ek.CircuitError, match=message):
        ek.learn_chow_liu(pd.DataFrame(frame), **options)


def test_codes_that_start_at_one_are_noticed():
    with pytest.warns(UserWarning, match=r"Column 1 of X holds the codes 1\.\.3 and no 0"):
        ek.learn_chow_liu(CODES + SHIFT)
    assert ek.learn_chow_liu(CODES + SHIFT, cardinalities=4).cardinalities == (4, 4, 4)
    p = ek.learn_chow_liu(pd.DataFrame(CODES + SHIFT, columns=["a", "b", "c"]))
    assert p.states == (None, (1, 2, 3), None)


def test_columns_may_be_numbered():
    p = ek.learn_chow_liu(pd.DataFrame(CODES))
    assert p.names is None
    assert p.cardinalities == (3, 3, 3)
