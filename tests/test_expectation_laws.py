"""Laws of expected kernels, and the sampled fallback."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import expectedkernels as ek
import strategies as draws
from assertions import assert_close
from expectedkernels.circuits.operands import JointPass
from oracles import Table, distribution, unit_values_at, with_holes, worlds
from unit_graphs import drawn_unstructured


@st.composite
def settings_of(draw, n_circuits, definite=True, **options):
    """Circuits on one vtree up to swaps, and a kernel (with negative values only if definite)."""
    cards = draw(draws.domains(**options))
    vtree = draw(draws.vtrees(len(cards)))
    trees = [vtree, *(draws.with_swaps(vtree, draw(draws.rngs)) for _ in range(n_circuits - 1))]
    found = [draw(draws.circuits(cards, tree)) for tree in trees]
    return found, draw(draws.kernels(cards, vtree, definite=definite, signed=definite)).kernel


def root_scale(p, q, k):
    """The size of numbers that M(p, q) may be the cancelling sum of (Cauchy-Schwarz)."""
    return np.sqrt(ek.expected_kernel(p, p, k) * ek.expected_kernel(q, q, k))


@settings(max_examples=40)
@given(settings_of(2))
def test_symmetry_and_cauchy_schwarz(drawn):
    (p, q), k = drawn
    scale = root_scale(p, q, k)
    forth, back = ek.expected_kernel(p, q, k), ek.expected_kernel(q, p, k)
    assert_close(forth, back, scale)
    assert abs(forth) <= scale * (1 + 1e-12)


@settings(max_examples=40)
@given(settings_of(3, definite=False), st.floats(0.1, 2.0), st.floats(0.1, 2.0))
def test_linearity_in_the_circuits(drawn, a, b):
    (p, q, r), k = drawn
    mixed = ek.mixture([p, q], [a, b], normalized=False)
    parts = a * ek.expected_kernel(p, r, k) + b * ek.expected_kernel(q, r, k)
    assert_close(ek.expected_kernel(mixed, r, k), parts)
    parts = a * ek.expected_kernel(r, p, k) + b * ek.expected_kernel(r, q, k)
    assert_close(ek.expected_kernel(r, mixed, k), parts)


@settings(max_examples=30)
@given(settings_of(4))
def test_gram_matrices_of_circuits_are_positive_definite(drawn):
    several, k = drawn
    together = ek.algebra.stack(several)
    gram = ek.expected_kernel(together, together, k)
    for i, p in enumerate(several):
        for j, q in enumerate(several):
            assert_close(gram[i, j], ek.expected_kernel(p, q, k), root_scale(p, q, k))
    size = np.abs(gram).max()
    assert np.linalg.eigvalsh((gram + gram.T) / 2).min() >= -1e-12 * len(gram) * size


@settings(max_examples=30)
@given(settings_of(2, definite=False), draws.rngs)
def test_reordering_units_changes_nothing(drawn, rng):
    (p, q), k = drawn
    blocks = list(p.blocks)
    for node, parent in enumerate(p.vtree.parent[:-1].tolist()):
        order = rng.permutation(blocks[node].n_units)
        place = np.argsort(order)
        if isinstance(blocks[node], Table):
            blocks[node] = blocks[node].take(order)
        else:
            weights = sparse.csr_array(blocks[node].csr[order])
            blocks[node] = replace(blocks[node], weights=weights.toarray())
        side = "left" if p.vtree.left[parent] == node else "right"
        blocks[parent] = replace(blocks[parent], **{side: place[blocks[parent].index(side)]})
    shuffled = ek.Circuit(p.vtree, tuple(blocks))
    assert_close(ek.expected_kernel(shuffled, q, k), ek.expected_kernel(p, q, k))
    assert_close(ek.expected_kernel(shuffled, shuffled, k), ek.expected_kernel(p, p, k))


@settings(max_examples=30)
@given(st.data(), draws.domains(), draws.rngs)
def test_renaming_variables_changes_nothing(data, cards, rng):
    vtree = data.draw(draws.vtrees(len(cards)))
    p, q = (data.draw(draws.circuits(cards, vtree)) for _ in range(2))
    n = len(cards)
    name = rng.permutation(n)  # variable v is called name[v]
    renamed = ek.Vtree(
        vtree.left, vtree.right, np.where(vtree.variable < 0, -1, name[vtree.variable])
    )
    a, b = (ek.Circuit(renamed, circuit.blocks) for circuit in (p, q))
    rates = rng.random(n)
    tables = [rng.random((card, card)) for card in cards]
    before = draws.product_twin(draws.rate_twin("RBF", rates), draws.table_twin(tables)).kernel
    inverse = np.argsort(name)
    after = draws.product_twin(
        draws.rate_twin("RBF", rates[inverse]), draws.table_twin([tables[v] for v in inverse])
    ).kernel
    assert_close(ek.expected_kernel(a, b, after), ek.expected_kernel(p, q, before))
    Y = draws.points(rng, cards, 4)
    renamed_points = Y[:, inverse]
    assert_close(ek.expected_kernel(a, renamed_points, after), ek.expected_kernel(p, Y, before))


@settings(max_examples=30)
@given(settings_of(2, definite=False), draws.rngs)
def test_the_witness_is_the_difference_of_mean_embeddings(drawn, rng):
    (p, q), k = drawn
    p, q = p.normalize(), q.normalize()
    Y = draws.points(rng, p.cardinalities, 6)
    one, other = ek.expected_kernel(p, Y, k), ek.expected_kernel(q, Y, k)
    assert_close(ek.witness(p, q, k, Y), one - other, one + other)
    Z = draws.points(rng, p.cardinalities, 4)
    third = k(Z, Y).mean(axis=0)
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
