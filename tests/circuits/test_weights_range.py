"""Circuits with weights of very different sizes, against exact rational arithmetic.

What is built is exact, or refused where weights leave the range of doubles; what is normalised
loses only terms that are no doubles beside the others of their unit.
"""

from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import expectedkernels as ek
from assertions import assert_raises
from oracles import EXACT, Inner, Table, log_of, unit_values_at, values_at, worlds
from strategies import seeds

TINY = np.finfo(np.float64).tiny


def graph_values(root, n):
    """The exact values of a unit graph of binary variables at all points."""
    return unit_values_at(root, worlds([2] * n), EXACT)


def circuit_values(circuit):
    """The exact values of a circuit at all points."""
    return values_at(circuit, worlds(circuit.cardinalities), EXACT)[:, 0]


def assert_values(circuit, expected):
    """The circuit's own numbers, and its likelihoods, against exact values."""
    logs = np.array([log_of(x) for x in expected])
    exact = np.array([log_of(x) for x in circuit_values(circuit)])
    for found in (exact, circuit.log_likelihood(worlds(circuit.cardinalities))):
        np.testing.assert_array_equal(np.isneginf(found), np.isneginf(logs))
        finite = np.isfinite(logs)
        scale = np.maximum(1.0, np.abs(logs[finite]))
        assert (np.abs(found[finite] - logs[finite]) <= 1e-9 * scale).all()
    for block in circuit.blocks:
        numbers = np.abs(block.flat[0])
        assert ((numbers == 0) | ((numbers >= TINY) & np.isfinite(numbers))).all()


def assert_shares(circuit, expected):
    """The likelihoods of a normalised circuit; terms below the smallest double may be lost."""
    logs = np.array([log_of(x) for x in expected])
    found = circuit.log_likelihood(worlds(circuit.cardinalities))
    seen = logs > -690.0
    np.testing.assert_allclose(found[seen], logs[seen], rtol=1e-9, atol=1e-9)
    assert (found[~seen] < -689.0).all()


def check(make, expected):
    """What is made has these values, or None: the error says that there is no such circuit."""
    try:
        circuit = make()
    except ek.CircuitError as error:
        if "beyond the range of double precision" not in str(error):
            raise
        return None
    assert_values(circuit, expected)
    return circuit


def magnitudes(rng, n, reach):
    return 10.0 ** rng.uniform(-reach, reach, size=n)


def nested_units(rng, variables, depth, reach):
    """A smooth and structured unit graph with sums of sums."""
    if depth:
        parts = [
            nested_units(rng, variables, depth - 1, reach) for _ in range(int(rng.integers(1, 4)))
        ]
        return ek.Sum(parts, magnitudes(rng, len(parts), reach))
    if len(variables) == 1:
        table = magnitudes(rng, 2, reach) * (rng.random(2) < 0.9)
        return ek.Categorical(variables[0], table)
    half = len(variables) // 2
    parts = (variables[:half], variables[half:])
    return ek.Product([nested_units(rng, v, int(rng.integers(0, 3)), reach) for v in parts])


@given(seeds, st.integers(1, 4), st.sampled_from([20, 100, 250]))
def test_nested_sums(seed, n, reach):
    rng = np.random.default_rng(seed)
    root = nested_units(rng, tuple(range(n)), int(rng.integers(0, 4)), reach)
    made = check(lambda: ek.Circuit.from_units(root), graph_values(root, n))
    assert made is not None or reach > 50


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.parametrize("weight", [1e-200, 1e200, 1e-110, 3.3e-162, 1e-60])
def test_sums_within_sums_whose_weights_multiply_to_no_double_are_refused(depth, weight):
    root = ek.Product([ek.Categorical(v, [0.25, 0.75]) for v in range(6)])
    for _ in range(depth):
        root = ek.Sum([root], [weight])
    np.testing.assert_allclose(root.log_partition(), depth * np.log(weight), rtol=1e-12)
    if abs(depth * np.log10(weight)) < 307:
        assert_values(ek.Circuit.from_units(root), graph_values(root, 6))
        return
    assert_raises(ek.CircuitError, r"The circuit has weights beyond", ek.Circuit.from_units, root)


def test_sums_of_inputs_and_subnormal_numbers():
    leaf = ek.Categorical(0, [0.5, 0.5])
    for weight, sign in ((1e-200, "-"), (1e200, "")):
        root = ek.Sum([ek.Sum([leaf], [weight])], [weight])
        assert_raises(ek.CircuitError, "weights beyond the range", ek.Circuit.from_units, root)
        assert (root.log_partition() < 0) == (sign == "-")
    far = ek.Sum([ek.Indicator(0, 0, 2), ek.Sum([ek.Indicator(0, 1, 2)], [1e-200])], [1, 1e-200])
    assert_raises(ek.CircuitError, "numbers that differ less", ek.Circuit.from_units, far)
    table = [5e-324, 1e-310, 1.0]
    for root in (ek.Categorical(0, table), ek.Sum([ek.Categorical(0, table)], [1.0])):
        assert ek.Circuit.from_units(root).input(0).table.tolist() == [table]


def random_far(rng, n, reach, deterministic=False):
    """A circuit on a balanced vtree with numbers of very different sizes."""
    vtree = ek.Vtree.balanced(n)
    blocks = []
    for node, v in enumerate(vtree.variable.tolist()):
        k = 1 if node == vtree.root or deterministic else 2
        if v >= 0:
            table = magnitudes(rng, (k, 2), reach) * (rng.random((k, 2)) < 0.9)
            blocks.append(Table(table))
        elif deterministic:
            blocks.append(Inner(1, 1, None, None, magnitudes(rng, (1, 1), reach)))
        else:
            blocks.append(Inner(2, k, None, None, magnitudes(rng, (k, 2), reach)))
    return ek.Circuit.from_blocks(vtree, blocks)


@given(seeds, st.integers(1, 4), st.sampled_from([50, 150, 300]))
def test_products_quotients_and_powers(seed, n, reach):
    rng = np.random.default_rng(seed)
    f, g, d = (random_far(rng, n, reach, deterministic=x) for x in (False, False, True))
    x, y, z = (circuit_values(p) for p in (f, g, d))
    check(lambda: ek.algebra.multiply(f, g), x * y)
    check(lambda: ek.algebra.power(d, 2.0), z**2)
    ratios = [a / b if b else Fraction(0) for a, b in zip(x, z, strict=True)]
    check(lambda: ek.algebra.quotient(f, d), ratios)
    total = sum(x * y)
    if total != 0:
        normalized, log_z = ek.algebra.multiply(f, g, normalize=True)
        assert_shares(normalized, x * y / total)
        np.testing.assert_allclose(log_z, log_of(total), rtol=1e-9, atol=1e-9)


@given(seeds, st.integers(1, 4), st.sampled_from([50, 150, 300]))
def test_sums(seed, n, reach):
    rng = np.random.default_rng(seed)
    f, g, h = (random_far(rng, n, reach) for _ in range(3))
    c = magnitudes(rng, 4, reach)
    a, b, d, e = (Fraction(x) for x in c.tolist())
    x, y, z = (circuit_values(p) for p in (f, g, h))
    inner = check(lambda: ek.algebra.linear_combination([f, g], c[:2]), a * x + b * y)
    if inner is not None:
        expected = d * (a * x + b * y) + e * z
        check(lambda: ek.algebra.linear_combination([inner, h], c[2:]), expected)


@given(seeds, st.integers(2, 5), st.sampled_from([50, 150, 300]))
@example(362881, 2, 150)
def test_marginals(seed, n, reach):
    rng = np.random.default_rng(seed)
    f = random_far(rng, n, reach)
    gone = rng.choice(n, size=int(rng.integers(1, n)), replace=False)
    values = circuit_values(f).reshape(f.cardinalities)
    expected = values.sum(axis=tuple(gone.tolist())).reshape(-1)
    check(lambda: ek.algebra.marginalize(f, gone), expected)


@given(seeds, st.integers(1, 4), st.sampled_from([50, 150, 300]))
def test_conditionals(seed, n, reach):
    rng = np.random.default_rng(seed)
    f = random_far(rng, n, reach)
    values = circuit_values(f).reshape(f.cardinalities)
    weights = magnitudes(rng, 2, reach)
    soft = values * np.array([Fraction(w) for w in weights.tolist()]).reshape(-1, *[1] * (n - 1))
    for make, table in ((f.normalize, values), (lambda: f.condition({0: weights}), soft)):
        total = table.sum()
        if total != 0:
            assert_shares(make(), (table / total).reshape(-1))


def test_mixtures_of_mixtures_and_merged_weights():
    parts = [ek.factorized([table] * 3) for table in ([0.1, 0.9], [0.7, 0.3])]
    p = ek.algebra.linear_combination(parts, [1.0, 1e-200])
    q = ek.algebra.linear_combination([p, parts[0]], [1e-100, 1.0])
    x, y = (circuit_values(part) for part in parts)
    assert_values(q, Fraction(1e-100) * (x + Fraction(1e-200) * y) + x)
    message, small = r"beyond the range .*; normalise the circuits", [1e-200, 1.0]
    assert_raises(ek.CircuitError, message, ek.algebra.linear_combination, [p, parts[0]], small)
    half = [Table(np.array([[0.5, 0.5]])), Table(np.array([[1.0, 0.0]]))]
    twice = Inner(2, 1, np.zeros(2, dtype=int), np.zeros(2, dtype=int), np.full((1, 2), 1.5e308))
    with pytest.raises(ek.CircuitError, match="too large for a double"):
        ek.Circuit.from_blocks(ek.Vtree.balanced(2), [*half, twice])


def test_conditionals_lose_what_is_no_double_and_queries_do_not():
    n, hidden = 80, 20
    common = ek.factorized([[0.9, 0.1]] * (n - hidden) + [[1.0, 0.0]] * hidden)
    rare = ek.factorized([[1e-7, 1.0]] * n, normalized=False)
    p = ek.algebra.linear_combination([common, rare], [0.5, 0.5])
    row = np.zeros(n)
    row[n - hidden :] = np.nan
    x = np.where(np.isnan(row), 1.0, row)  # only the rare component can do this
    share = p.log_likelihood([x])[0] - p.log_likelihood([row])[0]
    np.testing.assert_allclose(share, (n - hidden) * np.log(1e-7 / 0.9), rtol=1e-12)
    assert p.condition(row).log_likelihood([x])[0] == -np.inf
    seen = p.marginals(np.where(np.arange(n) == n - 1, np.nan, x))
    np.testing.assert_allclose(seen[-1], np.array([1e-7, 1.0]) / (1.0 + 1e-7), rtol=1e-9)
    found = ek.expected_kernel(p, x[None], ek.Delta(), evidence_p=row, log=True)
    np.testing.assert_allclose(np.squeeze(found), share, rtol=1e-9)


@pytest.mark.parametrize("real", [False, True])
def test_conditionals_of_signed_circuits(real):
    if real:
        means, variances = np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([[4.0, 1.0], [1.0, 1.0]])
        f = ek.gaussian_mixture([2.0, -0.2], means, variances, normalized=False)
        rows = np.array([[0.3, 0.2], [0.3, 1.5]])
    else:
        parts = [ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.1, 0.9], [0.9, 0.1]])]
        f = ek.algebra.linear_combination(parts, [2.0, -0.1])
        rows = np.array([[0.0, 0.0], [0.0, 1.0]])
    given = rows[0] * [1.0, np.nan]
    expected = f.log_likelihood(rows) - f.log_likelihood([given])
    np.testing.assert_allclose(f.condition(given).log_likelihood(rows), expected, rtol=1e-12)


def test_remote_parts_of_densities_are_left_out():
    p = ek.gaussian_mixture([0.5, 0.5], [[0.0], [1e5]], [[1.0], [1.0]])
    q = ek.gaussian_mixture([1.0], [[0.0]], [[1.0]])
    h, log_z = ek.algebra.multiply(p, q, normalize=True)
    np.testing.assert_allclose(log_z, log(0.5) - 0.5 * log(4 * np.pi), rtol=1e-12)
    assert h.marginals()[0].tolist() == [0.0, 0.5]
