"""Witnesses, estimates from samples, and what `explain` says of a call."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
import strategies as draws
from assertions import assert_close
from expectedkernels.circuits.operands import JointPass
from oracles import distribution, unit_values_at, with_holes, worlds
from unit_graphs import drawn_unstructured


@settings(max_examples=30)
@given(st.data(), draws.domains(), draws.rngs)
def test_the_witness_is_the_difference_of_mean_embeddings(data, cards, rng):
    vtree = data.draw(draws.vtrees(len(cards)))
    trees = vtree, draws.with_swaps(vtree, rng)
    p, q = (data.draw(draws.circuits(cards, tree)).normalize() for tree in trees)
    (k, naive), X = data.draw(draws.kernels(cards, vtree)), worlds(cards)
    Y, Z = (draws.points(rng, cards, n) for n in (6, 4))
    one, other = (distribution(circuit) @ naive(X, Y) for circuit in (p, q))
    third = naive(Z, Y).mean(axis=0)
    assert_close(ek.witness(p, q, k, Y), one - other, one + other)
    assert_close(ek.witness(p, Z, k, Y), one - third, one + third)
    assert_close(ek.witness(ek.Empirical(Z), q, k, Y), third - other, third + other)
    np.testing.assert_array_equal(ek.witness(p, p, k, Y), np.zeros(6))


N = 4000


def assert_within(estimate, exact):
    """The estimate is within five standard errors, which are neither zero nor huge."""
    value, error = estimate
    assert isinstance(value, float)
    assert isinstance(error, float)
    assert 0 < error < 0.2 * abs(exact)
    assert abs(value - exact) < 5 * error


NEAR = [np.eye(2), np.full((2, 2), 0.5) + np.eye(2)]
INPUTS = [ek.kernels.kernel_input(v, table) for v, table in enumerate(NEAR)]
HEAVY = ek.Product([ek.Categorical(0, [5.0, 5.0]), ek.Categorical(1, [1.0, 2.0])])
NORMALS = ek.gaussian_mixture([0.4, 0.6], [[0.0, 0.0], [1.0, 2.0]], [[1.0, 0.5], [0.3, 2.0]])
NORMAL = ek.gaussian_mixture([1.0], [[0.5, 0.5]], [[1.0, 1.0]])
UNNORMALISED = ek.factorized([[1.0, 3.0], [2.0, 2.0]], normalized=False)
PAIR = ek.random_circuit(2, 2, rng=0)
X = draws.points(np.random.default_rng(0), (2, 2), 4)
CASES = {
    "points": (PAIR, X, ek.RBF(0.5)),
    "weighted points": (PAIR, ek.Empirical(X, [0.2, 1.0, 0.0, 3.0]), ek.RBF(0.5)),
    "masses": (UNNORMALISED, ek.Sum([HEAVY], [0.1]), ek.ExpHamming()),
    "real variables": (NORMALS, NORMAL, ek.Laplacian(0.5)),
    "kernel circuits": (PAIR, PAIR, ek.KernelCircuit(ek.Product(INPUTS))),
}
for seed in range(5):
    CASES[f"circuits {seed}"] = (
        *(ek.random_circuit(4, 3, rng=seed + i, cardinalities=(2, 3, 4, 2)) for i in (0, 100)),
        ek.RBF(0.3) + 0.5 * ek.Delta(),
    )


@pytest.mark.parametrize("case", CASES)
def test_estimates_are_near_the_exact_values(case):
    p, q, k = CASES[case]
    exact = np.mean(ek.expected_kernel(p, q, k))  # over points
    for pair in ((p, q), (q, p)):
        assert_within(ek.monte_carlo_expected_kernel(*pair, k, N, rng=0), exact)


@pytest.mark.parametrize("seed", range(5))
def test_unit_graphs_that_are_not_structured(seed):
    p, cards = drawn_unstructured(seed)
    twin, X = draws.rate_twin("RBF", 0.4), worlds(cards)
    P = unit_values_at(p, X)
    exact = P @ twin.naive(X, X) @ P
    assert_within(ek.monte_carlo_expected_kernel(p, p, twin.kernel, N, rng=seed), exact)


def test_circuits_that_are_not_compatible():
    p = ek.random_circuit(ek.Vtree.right_linear(4), 3, rng=0)
    q = ek.random_circuit(ek.Vtree.left_linear(4), 3, rng=1)
    twin, X = draws.rate_twin("Laplacian", 0.4), worlds([2] * 4)
    exact = distribution(p) @ twin.naive(X, X) @ distribution(q)
    assert_within(ek.monte_carlo_expected_kernel(p, q, twin.kernel, N, rng=2), exact)


def test_chunks_make_one_estimate():
    # a few samples at a time give the mean and standard error of all of them together
    p, q = ek.random_circuit(3, 2, rng=0), ek.random_circuit(3, 2, rng=1)
    k = ek.RBF(0.3)
    value, error = ek.monte_carlo_expected_kernel(p, q, k, 1001, rng=0, chunk=10)
    generator = np.random.default_rng(0)
    values = []
    for size in [10] * 100 + [1]:
        X = p.sample(size, rng=generator)
        values.append(k.pairs(X, q.sample(size, rng=generator)))
    values = np.concatenate(values)
    np.testing.assert_allclose(value, values.mean(), rtol=1e-12)
    np.testing.assert_allclose(error, values.std(ddof=1) / np.sqrt(1001), rtol=1e-12)


def test_memory_is_that_of_one_chunk():
    p, peaks = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), []
    for n in (50_000, 400_000):
        tracemalloc.start()
        ek.monte_carlo_expected_kernel(p, p, ek.RBF(0.3), n, rng=0, chunk=10_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 500_000  # one number a pair would take 2.8 MB more


class Watched:
    """What a call does: how many passes, with how many steps, by layers or not."""

    def __init__(self, monkeypatch):
        self.passes = self.folded = self.steps = 0
        values = JointPass.values

        def watched(joint):
            if joint.kernel.operands:  # that is no likelihood
                self.passes += 1
                self.folded += joint.by_layers
                self.steps += joint.n_steps
            return values(joint)

        monkeypatch.setattr(JointPass, "values", watched)


def dense():
    return ek.random_circuit(ek.Vtree.balanced(12), 6, rng=0)


CALLS = {
    "circuits": lambda p: ((p, p), {}),
    "points": lambda p: ((p, p.sample(50, rng=0)), {}),
    "one row": lambda p: ((p, p), {"evidence_p": with_holes(p.sample(1, rng=0), 0.5)}),
    "rows": lambda p: ((p, p), {"evidence_p": with_holes(p.sample(20, rng=0), 0.5),
                                "evidence_q": with_holes(p.sample(3, rng=1), 0.5)}),
    "many rows": lambda p: ((p, p.sample(20, rng=0)),
                            {"evidence_p": with_holes(p.sample(90, rng=0), 0.5)}),
    "little memory": lambda p: ((p, p.sample(40, rng=0)),
                                {"evidence_p": with_holes(p.sample(90, rng=0), 0.5),
                                 "max_bytes": 2**19}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_call_does_what_is_said(monkeypatch, name):
    (p, q), options = CALLS[name](dense())
    k = ek.RBF(0.1) + ek.ExpHamming()
    said = ek.explain(p, q, k, **options)
    seen = Watched(monkeypatch)
    values = ek.expected_kernel(p, q, k, **options)
    assert (seen.passes, seen.steps) == (said.parts, said.steps)
    assert seen.folded == (said.parts if said.path == "folded" else 0)
    assert np.size(values) == np.prod(said.shape)
    assert said.n_bytes <= options.get("max_bytes", 2**30)
    if name == "little memory":
        assert said.parts > 1
