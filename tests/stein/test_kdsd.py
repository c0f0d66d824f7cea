"""The measure behind KDSD between circuits, the supports it counts, and what is kept of it."""

import gc
import sys
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_close
from expectedkernels.sampling.gibbs import is_positive, support_size
from expectedkernels.stein.kdsd import (
    require_positive,
    stein_measure,
)
from factor_graphs import factor_graphs, random_chain
from oracles import distribution, worlds
from stein_oracles import circuit_problems, moved


@settings(max_examples=30)
@given(circuit_problems())
def test_the_measure_is_u(problem):
    p, q, _ = problem
    cards = p.cardinalities
    X = worlds(cards)
    P, Q = distribution(p), distribution(q)
    index = {tuple(x): n for n, x in enumerate(X)}
    measure = stein_measure(q, p)
    marked = X.copy()
    for i, card in enumerate(cards):
        up = [index[tuple(x)] for x in moved(X, i, card, 1)]
        u = Q * P[up] / P - Q[up]
        marked = X.copy()
        marked[:, i] += card
        values = ek.expected_kernel(measure, marked, ek.Delta())
        assert_close(values, u, Q * P[up] / P + Q[up])
    assert_close(ek.expected_kernel(measure, X, ek.Delta()), np.zeros(len(X)), 1.0)


def test_it_is_linear_in_the_number_of_variables():
    rng = np.random.default_rng(0)
    pairs = []
    for n in (12, 24, 48):
        p, _ = random_chain(n, rng).compile()
        q, _ = random_chain(n, rng).compile(p.vtree)
        pairs.append(sum(block.n_units**2 for block in stein_measure(q, p).blocks))
    assert pairs[2] - pairs[1] == 2 * (pairs[1] - pairs[0])


@settings(max_examples=40)
@given(factor_graphs(max_worlds=200))
def test_supports_are_counted(model):
    circuit, _ = model.compile()
    assert support_size(circuit) == int((distribution(circuit) > 0).sum())


def test_counts_are_exact_for_any_number_of_states():
    tables = [np.ones(2)] * 200
    assert support_size(ek.factorized(tables, normalized=False)) == 2**200
    tables[7] = np.array([1.0, 0.0])
    p = ek.factorized(tables, normalized=False)
    with pytest.raises(ek.PropertyError, match="The target has zeros"):
        ek.kdsd(p.normalize(), p, ek.ExpHamming())


def all_but_one(n, holes=1):
    """A deterministic circuit over n binary variables that is zero at one state only, or nowhere.

    Every sum decides by the next variable: zero frees all that follow, one goes on.
    """
    rest = ek.Categorical(n - 1, [0.5, 0.0 if holes else 0.5])
    for v in range(n - 2, -1, -1):
        free = ek.Product([ek.Categorical(u, [0.5, 0.5]) for u in range(v + 1, n)])
        zero, one = (ek.Indicator(v, state, 2) for state in (0, 1))
        rest = ek.Sum([ek.Product([zero, free]), ek.Product([one, rest])], [0.5, 0.5])
    return ek.Circuit.from_units(rest, vtree=ek.Vtree.right_linear(n))


@pytest.mark.parametrize(
    ("n", "found"),
    [
        (1, r"1 of its 2 states \(0.5\)"),
        (5, r"31 of its 32 states \(0.969\)"),
        (60, "not all of its states"),
        (100, "not all of its states"),
    ],
)
def test_one_zero_among_any_number_of_states(n, found):
    p = all_but_one(n)
    assert support_size(p) == 2**n - 1
    assert not is_positive(p)
    with pytest.raises(ek.PropertyError, match=rf"The target has zeros: {found} are possible"):
        require_positive(p)
    full = all_but_one(n, holes=0)
    assert support_size(full) == 2**n
    assert is_positive(full)
    require_positive(full)


def test_the_share_of_many_states_that_are_possible():
    p = ek.factorized([[1.0, 0.0]] + [[0.5, 0.5]] * 59)
    with pytest.raises(ek.PropertyError, match=r"a fraction 0\.5 of its states"):
        require_positive(p)


def test_a_second_call_keeps_the_measure_and_nothing_alive():
    targets = [ek.factorized([[0.5, 0.5], [0.1 * n, 1 - 0.1 * n]]) for n in (1, 2, 3, 4)]
    q = ek.factorized([[0.3, 0.7], [0.6, 0.4]])
    for p in (*targets, *targets[::-1]):
        first, second = ek.kdsd(q, p, ek.ExpHamming()), ek.kdsd(q, p, ek.RBF(0.3))
        fresh = ek.factorized([[0.3, 0.7], [0.6, 0.4]])
        assert first == ek.kdsd(fresh, p, ek.ExpHamming())
        assert second == ek.kdsd(fresh, p, ek.RBF(0.3))
    assert len(q.operand.cached("stein measure", list)) == 1
    gone = ref(targets[0])
    del p, targets
    gc.collect()
    assert gone() is None


def test_large_measures_are_not_kept(monkeypatch):
    monkeypatch.setattr(sys.modules[require_positive.__module__], "KEPT_BYTES", 0)
    p, q = ek.factorized([[0.5, 0.5]] * 3), ek.factorized([[0.3, 0.7]] * 3)
    ek.kdsd(q, p, ek.ExpHamming())
    assert len(q.operand.cached("stein measure", list)) == 0
