"""Functions as targets, beside the factor graphs that they were made from."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import expectedkernels as ek
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
        ours, theirs = (ek.bbis(t, X, weights=rule) for t in (target, model))
        np.testing.assert_allclose(ours.gram, theirs.gram, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(ours.discrepancy, theirs.discrepancy, rtol=1e-9, atol=1e-10)
        if rule == "uniform":
            for a, b in zip(ours.marginals(), theirs.marginals(), strict=True):
                np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("rule", ["default", "raw", "smoothed", "signed", "uniform"])
def test_weights_of_samples_of_a_grid(rule):
    X = ek.gibbs(GRID, 150, burn_in=200, thin=20, rng=0)
    ours, theirs = (ek.bbis(t, X, weights=rule) for t in (FUNCTION, GRID))
    # signed weights solve a system whose ridge is 1e-8, which amplifies rounding as much
    close = 1e-8 if rule == "signed" else 1e-10
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=0, atol=close)
    np.testing.assert_allclose(ours.discrepancy, theirs.discrepancy, rtol=1e-10)
    assert ours.decision == theirs.decision
    more = ours.extended(X[:20]), theirs.extended(X[:20])
    np.testing.assert_allclose(more[0].weights, more[1].weights, rtol=0, atol=close)
    mean = ours.expect(lambda Z: Z[:, 0] * Z[:, 5])
    assert mean == pytest.approx(theirs.expect(lambda Z: Z[:, 0] * Z[:, 5]), abs=close)


@pytest.mark.parametrize("operator", ["shift", "gibbs"])
def test_discrepancies_and_tests(operator):
    X = ek.gibbs(GRID, 200, burn_in=200, thin=20, rng=0)
    options = {"operator": operator, "null": "signs", "rng": 0}
    ours, theirs = (ek.kdsd_test(X, t, **options) for t in (FUNCTION, GRID))
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-10)
    np.testing.assert_allclose(ours.null, theirs.null, rtol=1e-9, atol=1e-10)
    assert ours.p_value == theirs.p_value
    values = [ek.kdsd(X, t, operator=operator) for t in (FUNCTION, GRID)]
    assert values[0] == pytest.approx(values[1], rel=1e-10)
    for kernel in (ek.ExpHamming(), ek.Delta()):
        grams = [ek.SteinKernel(t, kernel, operator=operator)(X[:40]) for t in (FUNCTION, GRID)]
        np.testing.assert_allclose(*grams, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("chains", [1, 20])
def test_chains(chains):
    arguments = {"burn_in": 10, "thin": 3, "rng": 0, "chains": chains}
    wanted = ek.gibbs(GRID, 30, **arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(ek.gibbs(FUNCTION, 30, **arguments), wanted)


def test_starts_are_possible():
    def late(X):
        return np.where(X.sum(axis=1) >= 8, 1.0 * X[:, 0], -np.inf)

    few = ek.Target(late, [2] * 9)  # 10 of 512 states
    with pytest.warns(ek.ReducibleWarning):
        X = ek.gibbs(few, 50, rng=0, chains=3)
    assert (X.sum(axis=2) >= 8).all()
    nothing = ek.Target(lambda X: np.full(len(X), -np.inf), [2] * 3)
    with pytest.raises(ek.DataError, match=r"8 states \(all\).*zero everywhere"):
        ek.gibbs(nothing, 5, rng=0)
    rare = ek.Target(lambda X: np.where(X.all(axis=1), 0.0, -np.inf), [2] * 40)
    with pytest.raises(ek.DataError, match="Give a possible one as 'start'"):
        ek.gibbs(rare, 5, rng=0)
    with pytest.warns(ek.ReducibleWarning):
        assert ek.gibbs(rare, 5, rng=0, start=np.ones(40)).all()
    with pytest.raises(ek.DataError, match="'start' must have positive probability"):
        ek.gibbs(rare, 5, rng=0, start=np.zeros(40))


def test_zeros_of_functions():
    table = np.array([[0.5, 0.0, 0.2], [0.1, 0.3, 0.4]])
    model = ek.FactorGraph([2, 3], [((0, 1), table)])
    target, X = ek.Target(model.log_score, [2, 3]), np.argwhere(table > 0)
    with pytest.warns(UserWarning, match="not known whether changes of single variables connect"):
        samples = ek.bbis(target, X, weights="raw")
    assert samples.operator == "gibbs"
    assert "Gibbs updates take the place of shifts" in samples.decision
    np.testing.assert_allclose(samples.weights, table[table > 0] / table.sum(), atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ek.bbis(target, X, operator="gibbs")
        ek.kdsd_test(X, target, rng=0)
    with pytest.raises(ek.PropertyError, match="zeros='restrict'"):
        ek.bbis(target, X, zeros="raise")
    for remedy in ("collapse", "smooth"):
        with pytest.raises(ek.PropertyError, match="FactorGraph"):
            ek.bbis(target, X, zeros=remedy)


def test_what_needs_sums_over_states_says_so():
    target = ek.Target(lambda X: 0.0 * X[:, 0], [2] * 4, names="abcd")
    circuit = ek.factorized([[0.5, 0.5]] * 4)
    X = worlds([2] * 4)
    with pytest.raises(ek.PropertyError, match=r"a function, which cannot be summed over.*FactorG"):
        ek.collapsed_bbis(target, X, ["b"])
    assert ek.collapsed_bbis(target, X, []).n == 16
    with pytest.raises(ek.CircuitError, match=r"others cannot be summed over exactly. Got Target"):
        ek.collapsed_gibbs(target, 5, ["b"])
    with pytest.raises(ek.CircuitError, match=r"Evidence .* cannot be summed over exactly"):
        ek.gibbs(target, 5, evidence={0: 1})
    with pytest.raises(ek.CircuitError, match=r"others cannot be summed over exactly. Got Target"):
        ek.cis(target, 5, 2)
    for q, p in ((circuit, target), (target, circuit), (target, target)):
        with pytest.raises(ek.PropertyError, match=r"which cannot be summed over exactly.*FactorG"):
            ek.kdsd(q, p)
    with pytest.raises(ek.DataError, match="a function cannot be summed over exactly"):
        ek.CollapsedSteinKernel(target)
    with pytest.raises(ek.PropertyError, match=r"a function, which cannot be.*FactorGraph"):
        ek.bbis(target, X).expect(circuit)
    assert ek.bbis(target, X).expect(lambda Z: Z[:, 0], scope="b") == pytest.approx(0.5)
    with pytest.raises(ek.EvidenceError, match=r"one of its names, 'a', 'b', .* Got 'z'"):
        ek.bbis(target, X).expect(lambda Z: Z[:, 0], scope="z")


def test_bare_functions_are_to_be_wrapped():
    def f(X):
        return X[:, 0]

    for call in (
        lambda: ek.bbis(f, [[0, 1]]),
        lambda: ek.kdsd_test([[0, 1], [1, 1]], f),
        lambda: ek.kdsd([[0, 1]], f),
        lambda: ek.gibbs(f, 3),
        lambda: ek.SteinKernel(f),
    ):
        with pytest.raises(ek.CircuitError, match=r"Wrap it: Target\(log_prob, cardinalities\)"):
            call()


def test_a_function_is_no_distribution_to_expect_under():
    target = ek.Target(lambda X: 0.0 * X[:, 0], [2, 2])
    p = ek.factorized([[0.5, 0.5]] * 2)
    for call in (
        lambda: ek.mmd(p, target),
        lambda: ek.expected_kernel(target, p, ek.Delta()),
        lambda: ek.witness(target, p, ek.Delta(), [[0, 0]]),
    ):
        with pytest.raises(ek.PropertyError, match="a function, which cannot be summed over"):
            call()
