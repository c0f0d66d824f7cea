"""Expected kernels of circuits over real variables, against quadrature and closed forms."""

from itertools import pairwise, product
from math import exp, inf, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import integrate, special

import expectedkernels as ek
from assertions import assert_close, assert_logs_close
from oracles import with_holes

SHAPES = {
    "RBF": (ek.RBF(0.7), lambda d: exp(-0.7 * d * d)),
    "Laplacian": (ek.Laplacian(0.9), lambda d: exp(-0.9 * abs(d))),
    "product": (ek.RBF(0.3) * ek.Laplacian(0.5), lambda d: exp(-0.3 * d * d - 0.5 * abs(d))),
    "ExpHamming": (ek.ExpHamming(1.3), lambda d: exp(-1.3) if d else 1.0),
    "all": (
        ek.RBF(0.3) * ek.Laplacian(0.5) * ek.ExpHamming(0.4),
        lambda d: exp(-0.3 * d * d - 0.5 * abs(d) - (0.4 if d else 0.0)),
    ),
}


@pytest.fixture(params=SHAPES)
def shape(request):
    """A kernel, and its value at a difference of two values of one variable."""
    return SHAPES[request.param]


def expectation(function, mean, variance):
    """E[function(z)] for normal z, by quadrature; variance zero is a point."""
    if variance == 0:
        return function(mean)
    sd = sqrt(variance)

    def integrand(z):
        return function(z) * exp(-0.5 * ((z - mean) / sd) ** 2) / (sd * sqrt(2 * pi))

    # in pieces, cut where the kernel has its kink
    cuts = sorted({0.0, *(mean + sd * step for step in np.linspace(-12, 12, 25))})
    return sum(
        integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(cuts)
    )


class Mixture(NamedTuple):
    """A mixture of normals with independent coordinates, as a circuit and as plain arrays."""

    weights: Any
    means: Any
    variances: Any

    @property
    def circuit(self):
        return ek.gaussian_mixture(*self)

    def given(self, row):
        """The conditional mixture: observed coordinates are points."""
        seen = ~np.isnan(row)
        square = (row - self.means) ** 2 / self.variances + np.log(2 * pi * self.variances)
        weights = special.softmax(np.log(self.weights) - 0.5 * square[:, seen].sum(axis=1))
        return Mixture(weights, np.where(seen, row, self.means), np.where(seen, 0, self.variances))


def drawn(rng, components, variables):
    """A random mixture."""
    size = components, variables
    weights = rng.dirichlet(np.ones(components))
    return Mixture(weights, 2.0 * rng.normal(size=size), rng.gamma(2.0, size=size))


def point(x):
    """A mixture of one point."""
    return Mixture(np.ones(1), x[None], np.zeros((1, len(x))))


def naive(p, q, function):
    """The expected kernel of two mixtures for a product of one function of every difference."""
    total = 0.0
    for i, j in product(range(len(p.weights)), range(len(q.weights))):
        factors = [
            expectation(
                function, p.means[i, v] - q.means[j, v], p.variances[i, v] + q.variances[j, v]
            )
            for v in range(p.means.shape[1])
        ]
        total += p.weights[i] * q.weights[j] * np.prod(factors)
    return total


@pytest.mark.parametrize("n", [1, 2, 3])
def test_mixtures(shape, n):
    k, function = shape
    rng = np.random.default_rng(n)
    p, q = drawn(rng, 3, n), drawn(rng, 2, n)
    expected = naive(p, q, function)
    assert_close(ek.expected_kernel(p.circuit, q.circuit, k), expected)
    assert_close(ek.expected_kernel(p.circuit, q.circuit, k, log=True), log(expected))
    Y = 3 * rng.normal(size=(4, n))
    expected = np.array([naive(p, point(y), function) for y in Y])
    assert_close(ek.expected_kernel(p.circuit, Y, k), expected)
    assert_close(ek.expected_kernel(Y, p.circuit, k), expected)
    share = rng.dirichlet(np.ones(4))
    assert_close(ek.expected_kernel(p.circuit, ek.Empirical(Y, share), k), expected @ share)


@pytest.mark.parametrize("copies", [1, 12])
@pytest.mark.parametrize("n", [1, 3])
def test_evidence(shape, n, copies):
    k, function = shape
    rng = np.random.default_rng(10 + n)
    p, q = drawn(rng, 3, n), drawn(rng, 2, n)
    E, F = (with_holes(2 * rng.normal(size=(rows, n)), 0.5, seed=rows + n) for rows in (3, 2))
    F[0] = np.where(np.isnan(F[0]), F[0], E[0])  # the same value on both sides
    expected = np.array([[naive(p.given(e), q.given(f), function) for f in F] for e in E])
    rows = {"evidence_p": np.tile(E, (copies, 1)), "evidence_q": np.tile(F, (copies, 1))}
    actual = ek.expected_kernel(p.circuit, q.circuit, k, **rows)
    assert_close(actual, np.tile(expected, (copies, copies)))
    as_list = [column[:, None] for column in E.T]
    actual = ek.expected_kernel(p.circuit, q.circuit, k, evidence_p=as_list, evidence_q=F)
    assert_close(actual, expected)
    Y = 3 * rng.normal(size=(2, n))
    expected = np.array([[naive(p.given(e), point(y), function) for y in Y] for e in E])
    actual = ek.expected_kernel(p.circuit, Y, k, evidence_p=rows["evidence_p"])
    assert_close(actual, np.tile(expected, (copies, 1)))


def test_conditioning_gives_points():
    rng = np.random.default_rng(3)
    p, q = drawn(rng, 3, 3).circuit, drawn(rng, 2, 3).circuit
    row = np.array([0.3, np.nan, -1.0])
    k = ek.RBF(0.2) * ek.ExpHamming(0.1)
    conditional = p.condition({0: 0.3, 2: -1.0})
    expected = ek.expected_kernel(p, q, k, evidence_p=row)
    assert_close(ek.expected_kernel(conditional, q, k), expected[0])
    # a value that both sides are known to have is equal on both sides
    known = ek.expected_kernel(p, q, ek.Delta(), evidence_p=[1.0, 2.0, 3.0], evidence_q=[1, 2, 3])
    assert_close(known, np.ones((1, 1)))


def test_delta_of_continuous_distributions_is_zero():
    p = drawn(np.random.default_rng(0), 2, 2).circuit
    assert ek.expected_kernel(p, p, ek.Delta()) == 0.0
    assert ek.expected_kernel(p, p, ek.Delta(), log=True) == -inf
    np.testing.assert_array_equal(ek.expected_kernel(p, [[0.0, 0.0]], ek.Delta()), [0.0])


def mixed(rng):
    """A mixture over a real, a discrete and a real variable, and its real part given each state."""
    real, tables = drawn(rng, 3, 2), rng.dirichlet(np.ones(3), size=3)
    parts = [
        ek.Product([ek.Product([ek.Gaussian(0, *x), ek.Categorical(1, t)]), ek.Gaussian(2, *y)])
        for (x, y), t in zip(np.stack([real.means, real.variances], axis=2), tables, strict=True)
    ]
    return ek.Sum(parts, real.weights), [real._replace(weights=real.weights * t) for t in tables.T]


def test_mixed_variables(shape):
    k, function = shape
    rng = np.random.default_rng(7)
    (p, p_given), (q, q_given) = mixed(rng), mixed(rng)
    states = list(product(range(3), repeat=2))
    terms = [function(i - j) * naive(p_given[i], q_given[j], function) for i, j in states]
    terms = np.reshape(terms, (3, 3))
    assert_close(ek.expected_kernel(p, q, k), terms.sum())
    circuit, other = ek.Circuit.from_units(p), ek.Circuit.from_units(q)
    assert circuit.cardinalities == (None, 3, None)
    # what the evidence on the discrete variable leaves is a mixture again
    expected = terms[2].sum() / p_given[2].weights.sum()
    E = np.array([[np.nan, 2.0, np.nan]])
    for rows in (E, np.tile(E, (40, 1))):
        actual = ek.expected_kernel(circuit, other, k, evidence_p=rows)
        assert_close(actual, np.full(len(rows), expected))
    sets = [None, np.array([[0.0, 0.0, 0.5]]), None]
    assert_close(ek.expected_kernel(circuit, other, k, evidence_p=sets), np.array([expected]))


@pytest.mark.parametrize("away", [1e2, 3e3, 1e6, 1e9])
def test_points_where_densities_and_kernels_underflow(away):
    p = ek.gaussian_mixture([1.0], [[0.0, 1.0]], [[1.0, 0.5]])
    y = [[away, 0.0]]
    second = -0.7 / 1.7 - 0.5 * log(1.7)
    expected = -0.7 * away**2 / 2.4 - 0.5 * log(2.4) + second
    assert_logs_close(ek.expected_kernel(p, y, ek.RBF(0.7), log=True), np.array([expected]))
    # far from its kink the Laplacian kernel is an exponential function
    k = ek.Laplacian([2.0, 0.0])
    assert_logs_close(ek.expected_kernel(p, y, k, log=True), np.array([-2.0 * away + 2.0]))
    far = ek.gaussian_mixture([1.0], [[away, 1.0]], [[1.0, 0.5]])
    assert_logs_close(ek.expected_kernel(p, far, k, log=True), -2.0 * away + 4.0)
    # linear values are zero, without a warning
    assert ek.expected_kernel(p, far, ek.RBF(0.7)) == 0.0


def test_components_that_differ_by_thousands_of_nats():
    # each component is near one of the two in one variable and remote in the other
    p = ek.gaussian_mixture([0.5, 0.5], [[0.0, 400.0], [400.0, 0.0]], np.ones((2, 2)))
    q = ek.gaussian_mixture([1.0], [[0.0, 0.0]], [[1.0, 1.0]])
    expected = -0.5 * 400.0**2 / 3 - log(3)
    assert_close(ek.expected_kernel(p, q, ek.RBF(0.5), log=True), expected)
    assert_close(p.log_likelihood([[0.0, 0.0]]), np.array([-0.5 * 400.0**2 - log(2 * pi)]))
    three = ek.gaussian_mixture(np.full(3, 1 / 3), 400.0 * (1 - np.eye(3)), np.ones((3, 3)))
    origin = ek.gaussian_mixture([1.0], np.zeros((1, 3)), np.ones((1, 3)))
    expected = 2 * (-0.5 * 400.0**2 / 3) - 1.5 * log(3)
    assert_close(ek.expected_kernel(three, origin, ek.RBF(0.5), log=True), expected)


NEAR = np.array([[0.1, np.nan, np.nan], [0.2, np.nan, 0.3]])
FAR = np.array([[1e3, np.nan, -2e3], [np.nan, -3e3, 999.0], [998.0, np.nan, np.nan]])


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize(("E", "F"), [(NEAR, FAR), (FAR, NEAR), (FAR, FAR[::-1])])
def test_evidence_far_from_everything(E, F, copies):
    rng = np.random.default_rng(4)
    p, q = drawn(rng, 3, 3), drawn(rng, 4, 3)
    k = ek.RBF(0.01)

    def expected_log(a, b):
        """Log of the closed form, for mixtures of points and normals."""
        v = 1 + 2 * 0.01 * (a.variances[:, None] + b.variances)
        square = 0.01 * (a.means[:, None] - b.means) ** 2 / v
        logs = np.log(a.weights)[:, None] + np.log(b.weights)
        return special.logsumexp(logs - (square + 0.5 * np.log(v)).sum(axis=2))

    with np.errstate(divide="ignore"):
        expected = [[expected_log(p.given(e), q.given(f)) for f in F] for e in E]
    rows = {"evidence_p": np.tile(E, (copies, 1)), "evidence_q": np.tile(F, (copies, 1))}
    actual = ek.expected_kernel(p.circuit, q.circuit, k, log=True, **rows)
    # they are differences of logs, and no closer than these
    size = -p.circuit.log_likelihood(rows["evidence_p"])[:, None]
    size = size - q.circuit.log_likelihood(rows["evidence_q"])
    assert size.max() > 1e5
    assert_close(actual, np.tile(expected, (copies, copies)), size)


def test_narrow_normals_are_nearly_points(shape):
    k, function = shape
    p = ek.gaussian_mixture([1.0], [[0.3, -1.0]], [[1e-22, 1e-22]])
    expected = np.array([function(0.3 - 1.0) * function(-1.0 + 2.0)])
    np.testing.assert_allclose(ek.expected_kernel(p, [[1.0, -2.0]], k), expected, rtol=1e-9)


@pytest.mark.parametrize("variance", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("mean", [0.0, 0.5, -40.0, 3000.0])
def test_laplacian_over_all_sizes(mean, variance):
    p = ek.gaussian_mixture([1.0], [mean], [variance])
    sd = sqrt(variance)
    halves = [
        0.5 * variance - sign * mean + special.log_ndtr((sign * mean - variance) / sd)
        for sign in (1.0, -1.0)
    ]
    expected = np.logaddexp(*halves)
    # this form cancels for large variances, where the density at the kink is all that counts
    if variance > 1:
        expected = log(2.0) - 0.5 * log(2 * pi * variance) - 0.5 * mean**2 / variance
        np.testing.assert_allclose(
            ek.expected_kernel(p, [[0.0]], ek.Laplacian(1.0), log=True), [expected], rtol=1e-6
        )
        return
    assert_logs_close(
        ek.expected_kernel(p, [[0.0]], ek.Laplacian(1.0), log=True), np.array([expected])
    )
