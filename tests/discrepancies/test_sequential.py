import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from oracles import distribution, worlds
from stein_oracles import conditionals_given

K = ek.ExpHamming(0.7)
BETS = (0.05, 0.1, 0.2, 0.4, 0.7, 0.95)


def pair():
    vtree = ek.Vtree.balanced(3)
    return [ek.random_circuit(vtree, 3, rng, cardinalities=[2, 3, 2]) for rng in (0, 1)]


def stream(n=60, missing=0.3, seed=0):
    """Rows of a model, then of another one."""
    p, q = pair()
    X = np.concatenate([p.sample(n // 2, rng=seed), q.sample(n - n // 2, rng=seed + 1)])
    X[np.random.default_rng(seed).random(X.shape) < missing] = np.nan
    return X


def e_values(h, total, windows, tolerance=0.0, arl=False, largest=1.0):
    """E-values by their definition: one wealth for every start, bet and window."""
    radius, found = np.sqrt(largest + total), []
    stakes = [1 / (2.1098 * (t + 1) * np.log(t + 1) ** 2) for t in range(1, len(h) + 1)]
    stakes = np.ones(len(h)) if arl else np.array(stakes)
    wealth = np.zeros((len(windows), len(BETS), len(h)))  # of every start
    for t in range(len(h)):
        wealth[:, :, t] = stakes[t]
        for i, w in enumerate(windows):
            past = slice(max(0, t - w), t)
            norm, n = h[past, past].sum(), t - past.start
            u = h[past, t].sum() / np.sqrt(norm) if norm > 1e-9 * n * largest else 0.0
            z = (u - tolerance) / (radius + tolerance)
            for j, bet in enumerate(BETS):
                wealth[i, j, : t + 1] *= 1 + bet * z
        found.append(wealth.sum(axis=2).mean() + (0 if arl else 1 - stakes[: t + 1].sum()))
    return np.log(found)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("settings", [{}, {"arl": 50.0}, {"tolerance": 0.1}], ids=str)
def test_e_values_are_those_of_the_definition(settings, missing):
    p, _ = pair()
    X = stream(missing=missing)
    joint, gram = distribution(p), K(worlds(p.cardinalities))
    measures = conditionals_given(X, joint, p.cardinalities) - joint  # signed, over all states
    given = {"tolerance": settings.get("tolerance", 0.0), "arl": "arl" in settings}
    wanted = e_values(measures @ gram @ measures.T, joint @ gram @ joint, (5, 20), **given)
    test = ek.monitoring.SequentialTest(p, K, windows=(5, 20), **settings)
    assert_close(test.update(X), wanted, scale=1.0)
    assert test.n_rows == len(X)
    assert test.log_e == test.update(X[:0]).sum() + test.log_e
    if "arl" in settings:
        assert test.p_value is None
    else:
        assert_close(test.p_value, np.exp(min(0.0, -wanted.max())))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_one_row_or_many_give_the_same_results(missing):
    p, _ = pair()
    X = stream(300, missing)
    whole, single, few = (ek.monitoring.SequentialTest(p, K, windows=(5, 40)) for _ in range(3))
    together = whole.update(X)
    assert_close(np.concatenate([single.update(x) for x in X]), together, scale=1.0)
    parts = [few.update(part) for part in np.split(X, [7, 7, 250])]
    assert_close(np.concatenate(parts), together, scale=1.0)
    assert whole.alarm == single.alarm == few.alarm
    np.testing.assert_array_equal(single.window, X[-40:])
    np.testing.assert_array_equal(whole.window, X[-40:])


def test_real_variables_and_models_of_several_kinds():
    g = ek.gaussian_mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 1.0]])
    k, X = ek.RBF(0.2), g.sample(30, rng=0)
    X[::3, 0] = np.nan
    gram = ek.expected_kernel(g, g, k, evidence_p=X, evidence_q=X)
    at, total = ek.expected_kernel(g, g, k, evidence_p=X), ek.expected_kernel(g, g, k)
    wanted = e_values(gram - at[:, None] - at + total, total, (5, 20))
    assert_close(ek.monitoring.SequentialTest(g, k, windows=(5, 20)).update(X), wanted, scale=1.0)
    asia = ek.asia()
    frame = asia.sample(30, rng=0, as_frame=True)
    frame.loc[3, "smoke"] = np.nan
    rows = asia.schema.read_frame(frame)
    one, other = (ek.monitoring.SequentialTest(p, windows=(5,)) for p in (asia, asia.circuit()))
    assert_close(one.update(frame[sorted(frame)]), other.update(rows), scale=1.0)
    assert repr(one.kernel) == "ExpHamming(gamma=None)"
    assert one.window.astype(str).equals(frame[-5:].reset_index(drop=True).astype(str))


def test_false_alarms_are_rare_and_changes_are_found():
    p, q = pair()
    rng = np.random.default_rng(0)
    alarms, delays = 0, []
    for _ in range(40):
        test = ek.monitoring.SequentialTest(p, K, windows=(10, 50))
        test.update(p.sample(200, rng))
        alarms += test.alarm is not None
        test.update(q.sample(300, rng))
        delays.append(test.alarm or 1000)
    assert alarms <= 5
    assert np.median(delays) < 400


def test_alarms_are_the_first_row_at_the_threshold_and_reset_forgets():
    p, X = pair()[0], pair()[1].sample(200, rng=0)
    test = ek.monitoring.SequentialTest(p, K, arl=100)
    logs = test.update(X)
    copies = copy.deepcopy(test), pickle.loads(pickle.dumps(test))
    after = test.update(X[:9])
    for other in copies:
        np.testing.assert_array_equal(other.update(X[:9]), after)
    assert test.threshold == 100
    assert test.alarm == np.argmax(logs >= np.log(100))
    assert "Alarm at row" in str(test)
    ax = test.plot()
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == ["rows", "threshold", "alarm"]
    test.reset()
    assert (test.alarm, test.n_rows, test.log_e, len(test.window)) == (None, 0, -np.inf, 0)
    np.testing.assert_array_equal(test.update(X), logs)
    other = ek.monitoring.SequentialTest(p, K, tolerance=0.2)
    assert "No alarm" in repr(other)
    assert "tolerance 0.2" in repr(other)
    assert (other.log_e, other.p_value) == (0.0, 1.0)


def test_memory_does_not_grow_with_the_stream(monkeypatch):
    p, _ = pair()
    every, X = ek.monitoring.SequentialTest(p, K), stream(90)
    logs = every.update(X)
    monkeypatch.setattr("expectedkernels.discrepancies.sequential.SHOWN", 20)
    test = ek.monitoring.SequentialTest(p, K)
    assert_close(np.concatenate([test.update(X[:70]), test.update(X[70:])]), logs)
    assert (test.n_rows, test.alarm) == (90, every.alarm)
    assert_close(test.plot().lines[0].get_xydata().T, np.array([range(70, 90), logs[70:]]))
    assert_raises(ek.DataError, "variable 1", test.update, [[0, 0, 0], [0, 7, 0]])
    assert (test.n_rows, test.log_e) == (90, pytest.approx(logs[-1]))


def test_a_sample_takes_the_place_of_a_model():
    rng = np.random.default_rng(0)
    reference, X = rng.normal(size=(80, 2)), rng.normal(size=(40, 2)) + 0.5
    k = ek.RBF(0.3)
    at, total = k(X, reference).mean(axis=1), k(reference).mean()
    gram = k(X) - at[:, None] - at + total
    for given in (reference, pd.DataFrame(reference), ek.Empirical(reference)):
        test = ek.monitoring.SequentialTest(given, k, windows=(5, 20), tolerance="auto")
        wanted = e_values(gram, total, (5, 20), tolerance=test.tolerance)
        assert_close(test.update(X), wanted, scale=1.0)
        assert test.threshold == 40.0
    change = rng.multinomial(80, np.full(80, 1 / 80), size=4000) / 80 - 1 / 80
    squared = ((change @ k(reference)) * change).sum(axis=1)
    assert abs(test.tolerance / np.sqrt(np.quantile(squared, 0.975)) - 1) < 0.15


def test_samples_with_labels_take_the_place_of_models():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": rng.choice(["a", "b"], 60), "x": rng.normal(size=60)})
    test = ek.monitoring.SequentialTest(frame, windows=(5,), tolerance="auto")
    codes = np.column_stack([frame["c"] == "b", frame["x"]])
    plain = ek.monitoring.SequentialTest(codes, test.kernel, windows=(5,), tolerance="auto")
    assert_close(test.update(frame[["x", "c"]]), plain.update(codes), scale=1.0)
    assert test.tolerance == plain.tolerance
    holes, message = frame.assign(x=frame["x"].where(frame.index != 3)), "NaN in row 3, column 1"
    assert_raises(ek.DataError, message, ek.monitoring.SequentialTest, holes)


def test_observed_values_of_probability_zero_refute_the_hypothesis():
    p = ek.factorized([[1.0, 0.0], [0.5, 0.5]])
    test = ek.monitoring.SequentialTest(p)
    assert np.isfinite(test.update([[0, 0], [1, 1]])).all()  # complete rows have embeddings
    logs = test.update([[0, np.nan], [1, np.nan], [0, 0]])
    np.testing.assert_array_equal(logs == np.inf, [False, True, True])
    assert (test.alarm, test.p_value, test.n_rows) == (3, 0.0, 5)
    np.testing.assert_array_equal(test.window[2:], [[0, np.nan], [1, np.nan], [0, 0]])
    assert test.update([[0, 1]]).tolist() == [np.inf]
    tolerant = ek.monitoring.SequentialTest(p, tolerance=0.1)
    before = tolerant.update([[0, 0], [0, 1]])
    message = r"Row 3 has probability zero .*smoothed\(1e-3\)"
    assert_raises(ek.EvidenceError, message, tolerant.update, [[0, 0], [1, np.nan]])
    assert (tolerant.n_rows, tolerant.log_e) == (2, before[-1])


test_mistakes_in_settings = refusals(ek.DataError, [
    ({"alpha": 0.01, "arl": 100}, "Got alpha=0.01 and arl=100: give one"),
    ({"alpha": 1.0}, "'alpha' parameter"),
    ({"arl": 1.0}, "'arl' parameter"),
    ({"tolerance": 1.3}, r"With tolerance 1.3 nothing can alarm: .* at most 1\.19"),
    ({"tolerance": "auto"}, "resamples a sample, and this is a model"),
    ({"tolerance": -0.1}, "'tolerance' parameter"),
    ({"windows": ()}, "'windows' parameter"),
    ({"windows": 5}, "'windows' parameter"),
    ({"largest": 0.0}, "'largest' parameter"),
], lambda settings: ek.monitoring.SequentialTest(pair()[0], K, **settings))  # fmt: skip


X_REAL = np.random.default_rng(0).normal(size=(20, 2))
SIGNS = ek.TableKernel([[[1.0, -1.0], [-1.0, 1.0]], np.eye(3), np.eye(2)])
INDEFINITE = ek.TableKernel([[[1.0, 0.0, 0.0], [0.0, 0.0, 5.0], [0.0, 5.0, 0.0]]])


@pytest.mark.parametrize(("model", "k", "rows", "error", "message"), [
    (pair()[0], 3.2 * K, stream(4, missing=0.0), ek.KernelError,
     r"k\(x, x\) is 3.2 in row 0 and 'largest' is 1;"),
    (pair()[0], K, [[0, 7, 0]], ek.DataError, "variable 1"),
    (pair()[0], SIGNS, worlds([2, 3, 2]), ek.KernelError,
     r"bound.* a kernel without negative values"),
    (ek.factorized([[0.8, 0.1, 0.1]]), INDEFINITE, [[0], [1], [2]], ek.KernelError,
     r"row 1 is 1.497, and its bound is 1.319; bets need"),
    (X_REAL, None, [[0.0, 1.0], [0.0, np.nan]], ek.DataError,
     r"Row 1 is incomplete.*learn_mixture, or leave"),
])  # fmt: skip
def test_mistakes_in_rows_leave_the_test_as_it_was(model, k, rows, error, message):
    options = {"tolerance": "auto"} if model is X_REAL else {}
    test = ek.monitoring.SequentialTest(model, k, **options)
    assert_raises(error, message, test.update, rows)
    assert (test.n_rows, len(test.window)) == (0, 0)


def test_larger_kernels_and_samples_need_settings():
    equal = {"windows": np.array([5]), "tolerance": "auto"}
    test = ek.monitoring.SequentialTest(np.ones((50, 2)), **equal)
    assert test.tolerance == 0.0
    assert test.update(np.ones((3, 2))).round(12).tolist() == [0.0, 0.0, 0.0]
    assert "windows of 5 rows" in str(test)
    test = ek.monitoring.SequentialTest(pair()[0], 3.2 * K, largest=3.2)
    assert len(test.update(stream(4))) == 4
    message = "with tolerance 0 long streams alarm"
    assert_raises(ek.DataError, message, ek.monitoring.SequentialTest, X_REAL)
