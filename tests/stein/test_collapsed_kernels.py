import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, refusals
from expectedkernels import CollapsedSteinKernel, SteinKernel
from factor_graphs import factor_graphs
from oracles import distribution, worlds
from stein_oracles import conditionals_given, gibbs_gram, stein_gram, stein_size
from strategies import circuits, domains, kernels, points, rngs, vtrees


@st.composite
def problems(draw):
    """A positive circuit, a kernel, and samples that have all collapsed something else."""
    if draw(st.booleans()):
        p, _ = draw(factor_graphs(max_worlds=100, zeros=False)).compile()
    else:
        cards = draw(domains(max_worlds=100))
        p = draw(circuits(cards, draw(vtrees(len(cards))), form="dense"))
    rng = draw(rngs)
    rows = points(rng, p.cardinalities, draw(st.sampled_from([1, 3, 40])))
    rows[rng.random(rows.shape) < rng.choice([0.0, 0.3, 0.6, 1.0])] = np.nan
    return p, draw(kernels(p.cardinalities, p.vtree, definite=True, signed=True)), rows


@settings(max_examples=80)
@given(problems(), rngs)
def test_it_is_its_definition(problem, rng):
    p, twin, rows = problem
    P, cards = distribution(p), p.cardinalities
    X = worlds(cards)[P > 0]
    rows = np.where(np.isnan(rows), np.nan, X[rng.integers(len(X), size=len(rows))])
    Q = conditionals_given(rows, P, cards)
    size = np.full((len(rows), len(rows)), 4 * len(cards) * np.abs(twin.naive(X, X)).max())
    # updates sum out one more variable; shifts have the mean of the kernel of complete rows
    wanted = {"gibbs": (gibbs_gram(rows, P, cards, twin.naive), size)}
    if (P > 0).all():  # dense circuits may still have tables with zeros
        parts = (part(P, cards, twin.naive) for part in (stein_gram, stein_size))
        wanted["shift"] = [Q @ part @ Q.T for part in parts]
    for operator, (expected, size) in wanted.items():
        stein = CollapsedSteinKernel(p, twin.kernel, operator=operator)
        assert_close(stein(rows), expected, size)
        assert_close(stein(rows[:2], rows), expected[:2], size[:2])
        assert_close(stein.extended(stein(rows[:1]), rows[:1], rows[1:]), expected, size)


def test_halves_of_a_large_matrix_fit_together():
    p, _ = ek.ising_grid(3, 3, rng=0).compile()
    rng = np.random.default_rng(0)
    rows = p.sample(150, rng).astype(float)
    rows[rng.random(rows.shape) < 0.4] = np.nan
    stein = CollapsedSteinKernel(p, ek.ExpHamming())
    whole = stein(rows)
    assert_close(whole, stein(rows, rows.copy()), np.abs(whole).max())
    assert (whole == whole.T).all()
    small = CollapsedSteinKernel(p, ek.ExpHamming(), max_bytes=2**20)(rows)
    assert_close(small, whole, np.abs(whole).max())


def test_zeros_that_are_summed_out_do_no_harm():
    asia = ek.asia()
    p, _ = asia.compile()
    X = worlds(asia.cardinalities)
    P = np.exp(asia.log_score(X))
    seven = np.unique(np.delete(X, 5, axis=1), axis=0)
    rows = np.insert(seven, 5, np.nan, axis=1)
    gram = CollapsedSteinKernel(p, ek.ExpHamming())(rows)
    mass = np.exp(p.log_likelihood(rows))
    assert np.abs(mass @ gram).max() < 1e-11 * np.abs(gram).max()
    with pytest.raises(ek.PropertyError, match="The target has zeros: shifting variable 1"):
        CollapsedSteinKernel(p, ek.ExpHamming())(X[P > 0])
    restricted = CollapsedSteinKernel(p, ek.ExpHamming(), zeros="restrict")(X[P > 0])
    plain = SteinKernel(asia, ek.ExpHamming(), zeros="restrict")(X[P > 0])
    assert_close(restricted, plain, np.abs(plain).max())
    for part in (1.0, X[P > 0][:, 5] == 0, X[P > 0][:, 5] == 1):  # blind for masses of the parts
        assert np.abs((part * P[P > 0]) @ plain).max() < 1e-12 * np.abs(plain).max()
    with pytest.raises(ek.DataError, match=r"The target is zero at row 0 of the samples, \[0"):
        SteinKernel(asia, ek.ExpHamming(), zeros="restrict")(X[P == 0])
    # restricted operators have mean zero also where variables beside the zeros are summed out
    rows = X[P > 0].copy()
    rows[:, [0, 6]] = np.nan
    rows = np.unique(np.nan_to_num(rows, nan=-1), axis=0)
    rows[rows < 0] = np.nan
    gram = CollapsedSteinKernel(p, ek.ExpHamming(), zeros="restrict")(rows)
    assert np.abs(np.exp(p.log_likelihood(rows)) @ gram).max() < 1e-11 * np.abs(gram).max()


def test_probabilities_far_below_the_smallest_number():
    n = 3000
    p = ek.factorized([[0.2, 0.8]] * n)
    rows = np.zeros((2, n))
    rows[:, 5:9] = np.nan
    rows[1, 0] = 1
    gram = CollapsedSteinKernel(p, ek.ExpHamming())(rows)
    # a product of independent variables: one term per variable with values on both sides
    same = np.array([[1.0, np.exp(-1 / n)], [np.exp(-1 / n), 1.0]])
    q = np.array([0.2, 0.8])
    free = (q @ same @ q) ** 4

    def term(x, y):
        r, s = q[1 - x] / q[x], q[1 - y] / q[y]
        return r * s * same[x, y] - r * same[x, 1 - y] - s * same[1 - x, y] + same[1 - x, 1 - y]

    here = free * (n - 4) * term(0, 0)
    apart = free * (term(0, 1) + same[0, 1] * (n - 5) * term(0, 0))
    assert_close(gram[0, 0], here)
    assert_close(gram[0, 1], apart)


CARDS = [2, 3, 4]
TARGET = ek.FactorGraph(CARDS, [ek.Factor([0, 1, 2], np.ones(CARDS))], names=["a", "b", "c"])
CIRCUIT = TARGET.compile()[0]
X = np.array([[0, 2, 3], [1, 0, 1], [0, 1, 2], [1, 2, 0]])


def read(samples, collapsed=None, target=TARGET):
    return ek.collapsed_bbis(target, samples, collapsed, weights="uniform").rows


@pytest.mark.parametrize("one", ["b", 1, np.int64(1), ["b"], {1}, range(1, 2), np.array([1])])
def test_one_set_for_all_samples(one):
    assert np.isnan(read(X, one)).tolist() == [[False, True, False]] * 4


def test_masks_come_in_many_types():
    mask = np.random.default_rng(0).random(X.shape) < 0.5
    many = [mask, mask.tolist(), tuple(map(tuple, mask)), mask.reshape(2, 2, 3)]
    frame = pd.DataFrame(mask)  # iteration would give the columns
    for samples, form in (*((X, form) for form in many), (pd.DataFrame(X), frame)):
        np.testing.assert_array_equal(read(samples, form), np.where(mask, np.nan, X))
    np.testing.assert_array_equal(np.isnan(read(np.where(mask, np.nan, X))), mask)
    np.testing.assert_array_equal(np.isnan(read(X, mask[0])), np.tile(mask[0], (4, 1)))


def test_values_of_collapsed_variables_do_not_matter():
    assert np.isnan(read([[0, 99, 0]], [1])[0, 1])
    assert np.isnan(read([[0, np.inf, 0]], [1])[0, 1])


def kernel(p=CIRCUIT, rows=((0, 0, 0),), **options):
    return CollapsedSteinKernel(p, ek.Delta(), **options)(rows)


OUTSIDE = r"Samples on variable 1 .*must be integers in 0\.\.2"


test_mistakes = refusals(None, [
    *((read, [[X[0], [0, x, 0]], on], ek.DataError, OUTSIDE)
      for x in (-1, 3, 0.5, np.inf) for on in ((), [0])),
    (read, [X, 1.5], ek.DataError, "set of numbers or names, or a mask of booleans"),
    (read, [X, [[True, False], [True]]], ek.DataError, r"mask of booleans of shape \(4, 3\)"),
    (read, [X, np.ones((4, 3), dtype=int)], ek.DataError, r"\(4, 3\) or \(3,\). Got array"),
    (read, [[[0, 1, np.nan]], [1]], ek.DataError, "Got NaN in row 0, column 2"),
    (read, [X[:0]], ek.DataError, "with at least one sample"),
    (read, [X, ["z"], CIRCUIT], ek.CircuitError, "'z'"),
    (kernel, [TARGET], ek.DataError, "must be a Circuit"),
    (lambda: kernel(operator="hmc"), [], ek.KernelError, "'operator' parameter"),
    (kernel, [ek.factorized([[1.0, 0.0]]), [[1]]], ek.EvidenceError, "probability zero"),
], lambda call, arguments: call(*arguments))  # fmt: skip
