import numpy as np
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_close
from expectedkernels.kernels import target as module
from factor_graphs import factor_graphs
from oracles import worlds
from strategies import points, rngs


class Counted:
    """A function that remembers the rows it is asked for."""

    def __init__(self, model):
        self.model, self.asked = model, []

    def __call__(self, X):
        self.asked.append(X.copy())
        return self.model.log_score(X)


@settings(max_examples=40, deadline=None)
@given(factor_graphs(max_worlds=100), rngs)
def test_it_says_what_the_model_says(model, rng):
    target = ek.Target(model.log_score, model.cardinalities)
    X = points(rng, model.cardinalities, 9).astype(int)
    np.testing.assert_array_equal(target.log_prob(X), model.log_score(X))
    np.testing.assert_array_equal(target.log_score(X), model.log_score(X))
    every = target.all_site_logs(X)
    for v, n in enumerate(model.cardinalities):
        naive = np.empty((9, n))
        for state in range(n):
            changed = X.copy()
            changed[:, v] = state
            naive[:, state] = model.log_score(changed)
        np.testing.assert_array_equal(target.site_logs(X, v), naive)
        np.testing.assert_array_equal(every[v], naive)


def test_no_state_is_asked_twice(monkeypatch):
    model = ek.ising_grid(3, 3, rng=0, cardinality=3)
    X = np.random.default_rng(0).integers(3, size=(40, 9))
    X = np.vstack([X, X[:10]])
    whole = ek.Target(model.log_score, model.cardinalities).all_site_logs(X)
    counted = Counted(model)
    ek.Target(counted, model.cardinalities).all_site_logs(X)
    (asked,) = counted.asked
    assert len(np.unique(asked, axis=0)) == len(asked) <= 40 * (1 + 9 * 2)
    counted.asked.clear()
    ek.bbis(ek.Target(counted, model.cardinalities), X)
    assert len(counted.asked) == 1  # both kinds of operators share the answers
    # less memory: more calls, the same values
    monkeypatch.setattr(module, "KEY_BYTES", 8 * 27 * 7)
    monkeypatch.setattr(module, "ASKED_BYTES", 8 * 9 * 30)
    counted.asked.clear()
    parts = ek.Target(counted, model.cardinalities).all_site_logs(X)
    assert max(map(len, counted.asked)) <= 30
    for a, b in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(a, b)


def test_many_variables_need_more_than_one_number():
    cards = [2, 3, 5] * 40
    rng = np.random.default_rng(0)
    weights = rng.normal(size=len(cards))
    target = ek.Target(lambda X: X @ weights, cards)
    X = rng.integers(cards, size=(20, 120))
    np.testing.assert_array_equal(target.log_prob(X), X @ weights)
    logs = target.site_logs(X, 119)
    assert_close(logs - logs[:, :1], np.tile(np.arange(5) * weights[119], (20, 1)))


def test_functions_of_one_row_are_recognised():
    def product(x):
        return x[0] * x[1] + x[2]

    X = worlds([2, 2, 2])
    hint = r"one row at a time.*Target\(\.\.\., vectorized=False\)"
    for n in (1, 3, 8):  # as many rows as variables would give the right shape
        with pytest.raises(ek.DataError, match=hint):
            ek.Target(product, [2] * 3).log_prob(X[:n])
    with pytest.raises(ek.DataError, match=f"TypeError.*{hint}"):
        ek.Target(lambda x: float(x[0]) * 1.0, [2] * 3).log_prob(X)
    slow = ek.Target(product, [2] * 3, vectorized=False)
    np.testing.assert_array_equal(slow.log_prob(X), [product(x) for x in X])
    samples = ek.bbis(slow, X, weights="raw")
    p = np.exp([product(x) for x in X])
    np.testing.assert_allclose(samples.weights, p / p.sum(), atol=1e-6)
    with pytest.raises(ek.DataError, match=r"one number for one row. Got shape \(3,\)"):
        ek.Target(lambda x: x, [2] * 3, vectorized=False).log_prob(X)


def test_wrong_values():
    X = worlds([2, 2])
    for value in (np.nan, np.inf):
        bad = ek.Target(lambda X, v=value: np.where(X[:, 1] == 1, v, 0.0), [2, 2])
        with pytest.raises(ek.DataError, match=rf"Got {value} at the state \[0, 1\]"):
            bad.log_prob(X)
    with pytest.raises(ek.DataError, match=r"Got shape \(4, 1\) for 4 rows\.$"):
        ek.Target(lambda X: X[:, :1], [2, 2]).log_prob(X)
    with pytest.raises(ek.DataError, match="must give real numbers: they are complex"):
        ek.Target(lambda X: X[:, 0] * 1j, [2, 2]).log_prob(X)
    with pytest.raises(ek.DataError, match="must give real numbers"):
        ek.Target(lambda X: ["a"] * len(X), [2, 2]).log_prob(X)
    with pytest.raises(ZeroDivisionError):
        ek.Target(lambda X: 1 / 0, [2, 2]).log_prob(X)
    assert ek.Target(lambda X: np.log(X[:, 0]), [1, 2]).n_variables == 2


def test_tensors_are_moved():
    torch = pytest.importorskip("torch")
    weights = torch.tensor([0.5, 2.0], requires_grad=True)
    target = ek.Target(lambda X: torch.as_tensor(X).float() @ weights, [2, 2])
    np.testing.assert_allclose(target.log_prob([[1, 1], [0, 1]]), [2.5, 2.0])


def test_labels():
    target = ek.Target(lambda X: 0.0 * X[:, 0], [2, 3], ["a", "b"], [["no", "yes"], "xyz"])
    assert (target.names, target.states) == (("a", "b"), (("no", "yes"), ("x", "y", "z")))
    assert target.variable("b") == target.variable(1) == 1
    assert repr(target) == "<Target: a function of 2 variables>"
    with pytest.raises(ek.EvidenceError, match=r"or one of its names, 'a', 'b'\. Got 'c'"):
        target.site_logs([[0, 0]], "c")


def test_mistakes():
    def flat(X):
        return 0.0 * X[:, 0]

    with pytest.raises(ek.CircuitError, match="must be a function of an array of states"):
        ek.Target(3, [2])
    with pytest.raises(ek.CircuitError, match="is a target already"):
        ek.Target(ek.ising_grid(2, 2, rng=0), [2] * 4)
    for cards in ([2, 0], [2.0], [True]):
        with pytest.raises(ek.CircuitError, match=r"must be ints in \[1, inf\)"):
            ek.Target(flat, cards)
    for cards in ([], 3):
        with pytest.raises(ek.CircuitError, match="a sequence of ints, one per variable"):
            ek.Target(flat, cards)
    with pytest.raises(ek.CircuitError, match="names of the variables must be 2 different labels"):
        ek.Target(flat, [2, 2], ["a", "a"])
    with pytest.raises(ek.CircuitError, match=r"one list of labels per variable, 2 in all\. Got 1"):
        ek.Target(flat, [2, 2], states=[["x", "y"]])
    with pytest.raises(ek.CircuitError, match="states of variable 1 must be 2"):
        ek.Target(flat, [2, 2], states=[["x", "y"], ["x"]])
    with pytest.raises(ek.DataError, match=r"integers in 0\.\.1"):
        ek.Target(flat, [2, 2]).log_prob([[0, 2]])
