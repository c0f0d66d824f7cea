"""Expected kernels in all their forms, against enumeration of all pairs of worlds."""

from fractions import Fraction
from math import exp, prod
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.datasets import load_digits

import expectedkernels as ek
import strategies as draws
from assertions import assert_close, assert_logs_close
from circuit_oracles import absolute
from oracles import (
    conditionals,
    distribution,
    evidence_as_weights,
    expected_kernel_by_units,
    read_psdd_units,
    unit_values_at,
    units_of,
    values_at,
    worlds,
)
from unit_graphs import RandomGraphs

BUDGETS = 2000, 20_000, 2**30
"""Bytes for intermediate values, the first of which force rows into chunks."""


class Problem(NamedTuple):
    """Two circuits and a kernel, and their values on all worlds."""

    p: Any
    q: Any
    twin: draws.KernelTwin
    X: Any
    P: Any
    Q: Any
    K: Any

    @property
    def k(self):
        return self.twin.kernel


@st.composite
def problems(draw, max_worlds=256, signed=False):
    """Problems; q is on the vtree of p with random swaps."""
    cards = draw(draws.domains(max_worlds=max_worlds))
    vtree = draw(draws.vtrees(len(cards)))
    p = draw(draws.circuits(cards, vtree, signed=signed))
    q = draw(draws.circuits(cards, draws.with_swaps(vtree, draw(draws.rngs)), signed=signed))
    twin = draw(draws.kernels(cards, vtree, signed=signed))
    X = worlds(cards)
    return Problem(p, q, twin, X, distribution(p), distribution(q), twin.naive(X, X))


@settings(max_examples=80)
@given(problems(), st.data(), draws.rngs, st.sampled_from([1, 3, 40]), st.sampled_from(BUDGETS))
def test_all_pairs_of_arguments(problem, data, rng, n, max_bytes):
    p, q, twin, X, P, Q, K = problem
    Y, Z = (draws.points(rng, p.cardinalities, m) for m in (n, 5))
    a, b = rng.dirichlet(np.ones(n)), rng.uniform(0.1, 2.0, size=5)
    one, other = ek.Empirical(Y, a), ek.Empirical(Z, b)
    to_Y, from_Y, both = twin.naive(X, Y), twin.naive(Y, X), twin.naive(Y, Z)
    E, F = data.draw(draws.evidence(p)), data.draw(draws.evidence(q))
    on_p, on_q = {"evidence_p": E.given}, {"evidence_q": F.given}
    given_p, given_q = conditionals(P, E.weights, X), conditionals(Q, F.weights, X)
    cases = [
        (p, q, {}, P @ K @ Q),
        (q, p, {}, Q @ K @ P),  # now the blocks of p are aligned to those of q
        (p, Y, {}, P @ to_Y),
        (Y, q, {}, from_Y @ Q),
        (Y, Z, {}, both),
        (p, one, {}, P @ to_Y @ a),
        (one, q, {}, a @ from_Y @ Q),
        (one, other, {}, a @ both @ b),
        (ek.Empirical(Y), q, {}, (from_Y @ Q).mean()),
        (one, Z, {}, a @ both),
        (Y, other, {}, both @ b),
        (p, q, on_p, given_p @ K @ Q),
        (p, q, on_q, P @ K @ given_q.T),
        (p, q, on_p | on_q, given_p @ K @ given_q.T),
        (p, Y, on_p, given_p @ to_Y),
        (p, one, on_p, given_p @ to_Y @ a),
        (Y, q, on_q, from_Y @ given_q.T),
        (one, q, on_q, a @ from_Y @ given_q.T),
        (ek.algebra.stack([p, p]), Y, {}, np.stack([P @ to_Y] * 2)),
    ]
    assert isinstance(ek.expected_kernel(p, q, twin.kernel), float)
    for left, right, options, expected in cases:
        options = options | {"max_bytes": max_bytes}
        assert_close(ek.expected_kernel(left, right, twin.kernel, **options), expected)
        with np.errstate(divide="ignore"):
            logs = ek.expected_kernel(left, right, twin.kernel, log=True, **options)
            assert_logs_close(logs, np.log(expected))


@pytest.mark.parametrize(("units", "density"), [(5, None), (33, None), (70, 0.3), (300, 0.05)])
def test_large_blocks(units, density):
    rng = np.random.default_rng(units)
    cards = (3, 2, 2, 4, 2)
    vtree = ek.Vtree.random(rng.permutation(5).tolist(), rng)
    p, q = (ek.random_circuit(vtree, units, rng, cards, density) for _ in range(2))
    assert any(getattr(block, "is_sparse", False) for block in p.blocks) == (units == 300)
    twin, X = draws.rate_twin("RBF", 0.2), worlds(cards)
    P, Q, K = distribution(p), distribution(q), twin.naive(X, X)
    assert_close(P.sum(), 1.0)
    assert_close(ek.expected_kernel(p, q, twin.kernel), P @ K @ Q)
    E = np.where(rng.random((40, 5)) < 0.5, np.nan, draws.points(rng, cards, 40))
    for rows in (E[:3], E):
        given_rows = conditionals(P, evidence_as_weights(rows, cards), X)
        actual = ek.expected_kernel(p, q, twin.kernel, evidence_p=rows)
        assert_close(actual, given_rows @ K @ Q)


@settings(max_examples=10)
@given(problems(), st.data())
def test_one_row_of_evidence(problem, data):
    E = data.draw(draws.evidence(problem.p, rows=1, form="holes"))
    expected = conditionals(problem.P, E.weights, problem.X) @ problem.K @ problem.Q
    row = E.given[0]
    assert_close(ek.expected_kernel(problem.p, problem.q, problem.k, evidence_p=row), expected)
    known = {v: int(value) for v, value in enumerate(row) if not np.isnan(value)}
    assert_close(ek.expected_kernel(problem.p, problem.q, problem.k, evidence_p=known), expected)
    conditional = problem.p.condition(known)
    assert_close(ek.expected_kernel(conditional, problem.q, problem.k), expected[0])


@settings(max_examples=30)
@given(problems(max_worlds=128), st.data(), draws.rngs)
def test_several_roots(problem, data, rng):
    p, q, twin, X, P, Q, K = problem
    cards = p.cardinalities
    others = [data.draw(draws.circuits(cards, p.vtree)) for _ in range(2)]
    q = data.draw(draws.circuits(cards, q.vtree, roots=2))
    together, Q = ek.algebra.stack([p, *others]), values_at(q, X).T
    every = np.stack([P, *map(distribution, others)])
    assert_close(ek.expected_kernel(together, q, twin.kernel), every @ K @ Q.T)
    assert_close(ek.expected_kernel(together, p, twin.kernel), every @ K @ P)
    assert_close(ek.expected_kernel(p, q, twin.kernel), P @ K @ Q.T)
    Y = draws.points(rng, cards, 4)
    assert_close(ek.expected_kernel(together, Y, twin.kernel), every @ twin.naive(X, Y))
    E = data.draw(draws.evidence(p))
    expected = conditionals(P, E.weights, X) @ K @ Q.T
    assert_close(ek.expected_kernel(p, q, twin.kernel, evidence_p=E.given), expected)


@settings(max_examples=30)
@given(problems(max_worlds=64), draws.rngs)
def test_unit_graphs(problem, rng):
    _, q, twin, X, _, Q, K = problem
    graphs = RandomGraphs(rng, q.cardinalities, zeros=0.2)
    # plain products along the vtree: graphs are compared by the splits of their products
    graphs.factors = lambda nested: [graphs.unit(child) for child in nested]
    a, b = (graphs.unit(problem.p.vtree.to_nested()) for _ in range(2))
    A, B = unit_values_at(a, X), unit_values_at(b, X)
    assert_close(ek.expected_kernel(a, q, twin.kernel), A @ K @ Q)
    assert_close(ek.expected_kernel(q, a, twin.kernel), Q @ K @ A)
    plain = draws.rate_twin("RBF", 0.3)
    assert_close(ek.expected_kernel(a, b, plain.kernel), A @ plain.naive(X, X) @ B)
    Y = draws.points(rng, q.cardinalities, 3)
    assert_close(ek.expected_kernel(a, Y, plain.kernel), A @ plain.naive(X, Y))


@settings(max_examples=40)
@given(problems(signed=True), draws.rngs)
def test_signed_circuits_and_kernels(problem, rng):
    p, q, twin, X, P, Q, K = problem
    # sums that cancel are compared with the sum of the absolute values of their terms
    size_p, size_q = distribution(absolute(p)), distribution(absolute(q))
    assert_close(ek.expected_kernel(p, q, twin.kernel), P @ K @ Q, size_p @ np.abs(K) @ size_q)
    Y = draws.points(rng, p.cardinalities, 40)
    K, share = twin.naive(X, Y), rng.normal(size=40)
    assert_close(ek.expected_kernel(p, Y, twin.kernel), P @ K, size_p @ np.abs(K))
    actual = ek.expected_kernel(p, ek.Empirical(Y, share), twin.kernel)
    assert_close(actual, P @ K @ share, size_p @ np.abs(K) @ np.abs(share))


@settings(max_examples=20)
@given(problems(max_worlds=128))
def test_algorithm_1_agrees(problem):
    (p,) = units_of(problem.p)
    (q,) = units_of(problem.q.aligned_to(problem.p.vtree))
    k = draws.rate_twin("RBF", 0.4)
    tables = [k.naive(x, x).tolist() for x in (worlds([c]) for c in problem.p.cardinalities)]
    expected = expected_kernel_by_units(p, q, tables)
    assert_close(expected, problem.P @ k.naive(problem.X, problem.X) @ problem.Q)
    assert_close(ek.expected_kernel(problem.p, problem.q, k.kernel), expected)


@pytest.mark.parametrize("name", ["toy", "elevators", "abalone"])
def test_learned_circuits_agree_with_algorithm_1(data_dir, name):
    vtree = ek.read_vtree(data_dir / "psdd" / f"{name}.vtree")
    p = ek.read_psdd(data_dir / "psdd" / f"{name}.psdd", vtree)
    root = read_psdd_units(data_dir / "psdd" / f"{name}.psdd")
    table = draws.rate_twin("RBF", 0.1).naive(worlds([2]), worlds([2])).tolist()
    expected = expected_kernel_by_units(root, root, [table] * p.n_variables)
    assert_close(ek.expected_kernel(p, p, ek.RBF(0.1)), expected)


@pytest.mark.parametrize("log", [False, True])
def test_no_rows_give_no_values(log):
    p, k, nothing = ek.random_circuit(5, 3, rng=0), ek.RBF(1.0), np.zeros((0, 5))
    several = ek.algebra.stack([p, p])
    assert ek.expected_kernel(p, nothing, k, log=log).shape == (0,)
    assert ek.expected_kernel(nothing, several, k, log=log).shape == (0, 2)
    assert ek.expected_kernel(nothing, np.zeros((3, 5)), k, log=log).shape == (0, 3)
    assert ek.expected_kernel(p, p, k, evidence_p=nothing, log=log).shape == (0,)
    rows = {"evidence_p": np.zeros((2, 5)), "evidence_q": nothing}
    assert ek.expected_kernel(p, p, k, log=log, **rows).shape == (2, 0)


def test_exact_value_is_that_of_the_double_sum_in_rational_arithmetic():
    # white pixels of the images of two digits, in groups
    X, y = load_digits(return_X_y=True)
    white = [
        [(g.mean(axis=0) + 1) / 18 for g in np.array_split(X[y == digit], 3)] for digit in (3, 8)
    ]
    weights = [0.5, 0.25, 0.25]
    p, q = (
        ek.mixture([ek.factorized(np.stack([1 - w, w], axis=1)) for w in parts], weights)
        for parts in white
    )
    loss = 1 - Fraction(exp(-0.1))  # a pixel that differs multiplies the kernel by 1 - loss
    first, second = ([[Fraction(w) for w in row.tolist()] for row in parts] for parts in white)
    total = sum(
        Fraction(v * w) * prod(1 - loss * (a + b - 2 * a * b) for a, b in zip(x, y, strict=True))
        for v, x in zip(weights, first, strict=True)
        for w, y in zip(weights, second, strict=True)
    )
    exact = ek.expected_kernel(p, q, ek.RBF(gamma=0.1))
    np.testing.assert_allclose(exact, float(total), rtol=1e-13)
