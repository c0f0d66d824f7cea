"""Functions as targets, beside the factor graphs that they were made from."""

import numpy as np
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from factor_graphs import factor_graphs
from oracles import worlds
from strategies import points, rngs

GRID = ek.ising_grid(4, 4, rng=0)
FUNCTION = ek.Target(lambda X: GRID.log_score(X), GRID.cardinalities)


@settings(max_examples=25, deadline=None)
@given(factor_graphs(max_worlds=100, zeros=False), rngs)
def test_weights_are_those_of_the_model(model, rng):
    target = ek.Target(model.log_score, model.cardinalities)
    X = points(rng, model.cardinalities, 15)
    for rule in ("default", "signed", "uniform"):
        ours, theirs = (ek.bbis(t, X[:12], weights=rule).extended(X[12:]) for t in (target, model))
        np.testing.assert_allclose(ours.gram, theirs.gram, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(ours.discrepancy, theirs.discrepancy, rtol=1e-9, atol=1e-10)
        if rule == "uniform":
            for a, b in zip(ours.marginals(), theirs.marginals(), strict=True):
                np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("null", ["signs", "gibbs"])
@pytest.mark.parametrize("operator", ["shift", "gibbs"])
def test_discrepancies_and_tests(operator, null):
    X = ek.gibbs(GRID, 200, burn_in=200, thin=20, rng=0)
    options = {"operator": operator, "null": null, "n_null": 59, "rng": 0}
    ours, theirs = (ek.kdsd_test(X, t, **options) for t in (FUNCTION, GRID))
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-10)
    np.testing.assert_allclose(ours.null, theirs.null, rtol=1e-9, atol=1e-10)
    assert ours.p_value == theirs.p_value
    values = [ek.kdsd(X, t, operator=operator) for t in (FUNCTION, GRID)]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_starts_are_possible():
    def late(X):
        return np.where(X.sum(axis=1) >= 8, 1.0 * X[:, 0], -np.inf)

    few = ek.Target(late, [2] * 9)  # 10 of 512 states
    with pytest.warns(ek.ReducibleWarning):
        X = ek.gibbs(few, 50, rng=0, chains=3)
    assert (X.sum(axis=2) >= 8).all()
    nothing = ek.Target(lambda X: np.full(len(X), -np.inf), [2] * 3)
    assert_raises(ek.DataError, r"8 states \(all\).*zero everywhere", ek.gibbs, nothing, 5, rng=0)
    rare = ek.Target(lambda X: np.where(X.all(axis=1), 0.0, -np.inf), [2] * 40)
    assert_raises(ek.DataError, "Give a possible one as 'start'", ek.gibbs, rare, 5, rng=0)
    with pytest.warns(ek.ReducibleWarning):
        assert ek.gibbs(rare, 5, rng=0, start=np.ones(40)).all()
    message = "'start' must have positive probability"
    assert_raises(ek.DataError, message, ek.gibbs, rare, 5, rng=0, start=np.zeros(40))


FREE = ek.Target(lambda X: 0.0 * X[:, 0], [2] * 4, names="abcd")
FAIR, X = ek.factorized([[0.5, 0.5]] * 4), worlds([2] * 4)
NO_SUM = r"a function, which cannot be summed over.*FactorGraph"
NOT_EXACT = "cannot be summed over exactly"


test_what_needs_sums_over_states_says_so = refusals(None, [
    (lambda: ek.collapsed_bbis(FREE, X, ["b"]), ek.PropertyError, NO_SUM),
    (lambda: ek.collapsed_gibbs(FREE, 5, ["b"]), ek.CircuitError, f"others {NOT_EXACT}. Got Targ"),
    (lambda: ek.gibbs(FREE, 5, evidence={0: 1}), ek.CircuitError, f"Evidence .* {NOT_EXACT}"),
    (lambda: ek.cis(FREE, 5, 2), ek.CircuitError, f"others {NOT_EXACT}. Got Target"),
    *((lambda pair=pair: ek.kdsd(*pair), ek.PropertyError, NO_SUM)
      for pair in ((FAIR, FREE), (FREE, FAIR), (FREE, FREE))),
    (lambda: ek.CollapsedSteinKernel(FREE), ek.DataError, f"a function {NOT_EXACT}"),
    (lambda: ek.bbis(FREE, X).expect(FAIR), ek.PropertyError, NO_SUM),
    (lambda: ek.bbis(FREE, X).expect(lambda Z: Z[:, 0], scope="z"), ek.EvidenceError,
     r"one of its names, 'a', 'b', .* Got 'z'"),
    *((call, ek.PropertyError, "a function, which cannot be summed over") for call in (
        lambda: ek.mmd(FAIR, FREE),
        lambda: ek.expected_kernel(FREE, FAIR, ek.Delta()),
        lambda: ek.witness(FREE, FAIR, ek.Delta(), X),
    )),
    *((call, ek.CircuitError, r"Wrap it: Target\(log_prob, cardinalities\)") for call in (
        lambda: ek.bbis(len, [[0, 1]]),
        lambda: ek.kdsd_test([[0, 1], [1, 1]], len),
        lambda: ek.kdsd([[0, 1]], len),
        lambda: ek.gibbs(len, 3),
        lambda: ek.SteinKernel(len),
        lambda: ek.stein_thin(len, [[0, 1]], 1),
        lambda: ek.log_partition_estimate(len, [[0, 1]] * 40),
    )),
])  # fmt: skip


def test_what_needs_no_sum_over_states():
    assert ek.collapsed_bbis(FREE, X, []).n == 16
    assert ek.bbis(FREE, X).expect(lambda Z: Z[:, 0], scope="b") == pytest.approx(0.5)


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
        assert_raises(ek.DataError, hint, ek.Target(product, [2] * 3).log_prob, X[:n])
    with pytest.raises(ek.DataError, match=f"TypeError.*{hint}"):
        ek.Target(lambda x: float(x[0]) * 1.0, [2] * 3).log_prob(X)
    slow, logs = ek.Target(product, [2] * 3, vectorized=False), [product(x) for x in X]
    np.testing.assert_array_equal(slow.log_prob(X), logs)
    p = np.exp(logs)
    np.testing.assert_allclose(ek.bbis(slow, X, weights="raw").weights, p / p.sum(), atol=1e-6)
    with pytest.raises(ek.DataError, match=r"one number for one row. Got shape \(3,\)"):
        ek.Target(lambda x: x, [2] * 3, vectorized=False).log_prob(X)


test_wrong_values = refusals(ek.DataError, [
    *((lambda X, x=x: np.where(X[:, 1] == 1, x, 0.0), rf"Got {x} at the state \[0, 1\]")
      for x in (np.nan, np.inf)),
    (lambda X: X[:, :1], r"Got shape \(4, 1\) for 4 rows\.$"),
    (lambda X: X[:, 0] * 1j, "must give real numbers: they are complex"),
    (lambda X: ["a"] * len(X), "must give real numbers"),
], lambda f: ek.Target(f, [2, 2]).log_prob(worlds([2, 2])))  # fmt: skip


def test_errors_of_functions_are_their_own():
    with pytest.raises(ZeroDivisionError):
        ek.Target(lambda X: 1 / 0, [2, 2]).log_prob(worlds([2, 2]))
    assert_raises(ek.DataError, r"integers in 0\.\.1", FREE.log_prob, [[0, 2, 0, 0]])
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


test_mistakes = refusals(ek.CircuitError, [
    (lambda: ek.Target(3, [2]), "must be a function of an array of states"),
    (lambda: ek.Target(GRID, [2] * 4), "is a target already"),
    *((lambda c=c: ek.Target(len, c), r"a sequence of ints in \[1, inf\), one per")
      for c in ([2, 0], [2.0], [True], [], 3)),
    (lambda: ek.Target(len, [2, 2], ["a", "a"]), "names of the variables must be 2 different"),
    (lambda: ek.Target(len, [2, 2], states=[["x", "y"]]), "one list of labels per variable, 2"),
    (lambda: ek.Target(len, [2, 2], states=[["x", "y"], ["x"]]), "states of variable 1 must be 2"),
])  # fmt: skip
