"""Sums over some of the variables, against sums over worlds."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close
from circuit_oracles import drawn_circuit, joint
from oracles import values_at
from strategies import circuits, domains, with_swaps


@st.composite
def parts(draw, n):
    """Some of n variables, at least one, not all."""
    order = draw(st.permutations(range(n)))
    return sorted(order[: draw(st.integers(1, n - 1))])


@given(st.data(), st.booleans(), st.sampled_from([1, 1, 3]))
@settings(max_examples=80)
def test_sums_over_worlds(data, signed, roots):
    cards = data.draw(domains(min_variables=2).filter(lambda cards: len(cards) > 1))
    f = data.draw(circuits(cards, signed=signed, roots=roots))
    gone = data.draw(parts(len(cards)))
    kept = [v for v in range(len(cards)) if v not in gone]
    h = ek.algebra.marginalize(f, gone)
    axes = tuple(1 + v for v in gone)
    table = joint(f)
    assert h.cardinalities == tuple(cards[v] for v in kept)
    if signed:
        scale = np.full(joint(h).shape, np.abs(table).sum() * 1e3 + 1e-300)
        assert_close(joint(h), table.sum(axis=axes), scale)
    else:
        assert_close(joint(h), table.sum(axis=axes))


@given(st.data())
@settings(max_examples=40)
def test_vtree_is_the_projection(data):
    f = data.draw(circuits(data.draw(domains(min_variables=2).filter(lambda c: len(c) > 1))))
    gone = data.draw(parts(f.n_variables))
    kept = [v for v in range(f.n_variables) if v not in gone]
    projected = f.vtree.project(kept)
    number = {v: i for i, v in enumerate(kept)} | {-1: -1}
    variables = [number[v] for v in projected.variable.tolist()]
    expected = ek.Vtree(projected.left, projected.right, variables)
    h = ek.algebra.marginalize(f, gone)
    assert h.vtree == expected
    swapped = f.aligned_to(with_swaps(f.vtree, np.random.default_rng(0)))
    assert ek.is_compatible(h, ek.algebra.marginalize(swapped, gone))


@given(st.integers(0, 10_000), st.data())
@settings(max_examples=40)
def test_real_variables(seed, data):
    f = drawn_circuit(seed, share_real=0.5)
    if f.n_variables == 1:
        return
    gone = data.draw(parts(f.n_variables))
    kept = [v for v in range(f.n_variables) if v not in gone]
    rng = np.random.default_rng(seed)
    X = np.full((5, f.n_variables), np.nan)
    for v in kept:
        card = f.cardinalities[v]
        X[:, v] = rng.normal(size=5) if card is None else rng.integers(card, size=5)
    values = values_at(ek.algebra.marginalize(f, gone), X[:, kept])[:, 0]
    assert_close(values, np.exp(f.log_likelihood(X)), np.maximum(values, 1e-300))


def test_one_variable_or_none():
    f = ek.factorized([[0.2, 0.8], [1.0, 2.0, 3.0], [0.5, 0.5]], normalized=False)
    assert ek.algebra.marginalize(f, []) is f
    assert_close(
        joint(ek.algebra.marginalize(f, 1)), 6.0 * joint(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
    )
    assert_close(joint(ek.algebra.marginalize(f, {0, 2})), np.array([[1.0, 2.0, 3.0]]))


def test_marginals_of_a_marginal(data_dir):
    folder = data_dir / "psdd"
    p = ek.read_psdd(folder / "abalone.psdd", ek.read_vtree(folder / "abalone.vtree"))
    h = ek.algebra.marginalize(p, range(0, 72, 2))
    assert h.n_edges < p.n_edges
    for found, expected in zip(h.marginals(), p.marginals()[1::2], strict=True):
        assert_close(found, expected)
    X = p.sample(20, rng=0)
    missing = X.copy()
    missing[:, ::2] = np.nan
    assert_close(h.log_likelihood(X[:, 1::2]), p.log_likelihood(missing))


def test_deep_chains_of_contractions():
    n = 3000
    p = ek.hmm([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2], [0.3, 0.7]], length=n)
    assert_close(ek.algebra.marginalize(p, range(1, n)).input(0).table[0], p.marginals()[0])
    assert_close(ek.algebra.marginalize(p, range(n - 1)).input(0).table[0], p.marginals()[-1])


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_numbers_that_leave_the_range(size):
    n = 400
    tables = [[size, 3 * size]] * n + [[0.25 / size, 0.25 / size]] * n
    for vtree in (ek.Vtree.right_linear(2 * n), ek.Vtree.balanced(2 * n)):
        # all factors but two cancel, those of either half leave the range on the way
        f = ek.factorized(
            [[1.0, 2.0], *tables, [1.0, 3.0]], _with_ends(vtree, 2 * n), normalized=False
        )
        h = ek.algebra.marginalize(f, range(1, 2 * n + 1))
        expected = np.array([[[1.0, 3.0], [2.0, 6.0]]]) * 2.0**n
        assert_close(joint(h), expected)


def _with_ends(vtree, n):
    """The vtree over variables 1..n, with 0 and n + 1 at its sides."""
    nested = ek.Vtree(
        vtree.left, vtree.right, np.where(vtree.variable >= 0, vtree.variable + 1, -1)
    )
    left = [*nested.left, -1, n * 2 - 1, -1, n * 2]
    right = [*nested.right, -1, n * 2 - 2, -1, n * 2 + 1]
    return ek.Vtree(left, right, [*nested.variable, 0, -1, n + 1, -1])


def test_results_beyond_the_range_are_refused():
    f = ek.factorized([[1e-3, 2e-3]] * 200, normalized=False)
    with pytest.raises(ek.CircuitError, match=r"The marginal has weights beyond .*normalise"):
        ek.algebra.marginalize(f, range(1, 200))
    assert_close(
        ek.algebra.marginalize(f.normalize(), range(1, 200)).input(0).table, np.array([[1, 2]]) / 3
    )


def test_bad_variables():
    f = ek.factorized([[0.5, 0.5], [0.1, 0.9]])
    for variables in (2, [-1], [0.0], "0", [True], None):
        with pytest.raises(ek.CircuitError, match="variable of this model is an int"):
            ek.algebra.marginalize(f, variables)
    with pytest.raises(ek.CircuitError, match=r"At least one of the 2 variables must remain"):
        ek.algebra.marginalize(f, [0, 1])
    with pytest.raises(ek.CircuitError, match=r"marginalize works on Circuits\. Got Indicator"):
        ek.algebra.marginalize(ek.Indicator(0, 1, 2), [0])
