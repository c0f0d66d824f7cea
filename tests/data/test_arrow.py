"""Tables of pyarrow are read wherever frames are."""

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    wet = rng.choice(["no", "yes"], 80)
    rain = np.where(rng.random(80) < 0.8, wet, "no").astype(object)
    rain[::9] = None
    return pd.DataFrame({"rain": rain, "wet": wet})


def test_learning_and_questions(frame):
    table = pa.Table.from_pandas(frame)
    p, q = ek.learn_chow_liu(frame), ek.learn_chow_liu(table)
    assert q.names == p.names
    assert q.states == p.states
    np.testing.assert_array_equal(q.log_likelihood(table), p.log_likelihood(frame))
    for mine, theirs in zip(q.marginals(table), p.marginals(frame), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    k = ek.ExpHamming(1.0)
    full, whole = table.drop_null(), frame.dropna()
    np.testing.assert_array_equal(ek.expected_kernel(q, full, k), ek.expected_kernel(p, whole, k))
    assert ek.mmd2(q, full, k) == ek.mmd2(p, whole, k)
    assert ek.WeightedSamples(q, full).n == len(whole)
    back = full.select(["wet", "rain"])  # columns are found by their names
    np.testing.assert_array_equal(q.log_likelihood(back), p.log_likelihood(whole))


def test_drift_and_estimators(frame):
    table = pa.Table.from_pandas(frame)
    found = ek.drift(table.slice(0, 40), table.slice(40), n_permutations=19, rng=0)
    wanted = ek.drift(frame[:40], frame[40:], n_permutations=19, rng=0)
    assert found.p_value == wanted.p_value
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    y = X.sum(axis=1).to_numpy()
    X = X.mask(rng.random(X.shape) < 0.2)
    arrow = pa.Table.from_pandas(X)
    for density in ("gaussian", "chow_liu"):
        mine = ek.ExpectedKernelRidge(density=density).fit(arrow, y).predict(arrow)
        theirs = ek.ExpectedKernelRidge(density=density).fit(X, y).predict(X)
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
