"""Expected kernels on arrays of other libraries."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close
from circuit_oracles import real_mixture
from oracles import Table
from strategies import RandomKernelGraphs, points, random_blocks, with_swaps

CARDS = (2, 3, 2, 4)


def two_circuits(seed=0, form="sparse", cards=CARDS):
    """Circuits on the same vtree up to swaps."""
    rng = np.random.default_rng(seed)
    vtree = ek.Vtree.random(rng.permutation(len(cards)).tolist(), rng)
    other = with_swaps(vtree, rng)
    return [ek.Circuit.from_blocks(v, random_blocks(rng, v, cards, form)) for v in (vtree, other)]


def all_kernels(vtree):
    """A kernel of every kind."""
    rng = np.random.default_rng(5)
    graphs = RandomKernelGraphs(rng, CARDS, signed_tables=True)
    tables = [rng.normal(size=(card, card)) for card in CARDS]
    return {
        "RBF": ek.RBF(0.3),
        "rates": ek.Laplacian([0.3, 0.0, 1.0, 0.2]),
        "ExpHamming": ek.ExpHamming(),
        "Delta": ek.Delta(),
        "TableKernel": ek.TableKernel(tables),
        "KernelCircuit": ek.KernelCircuit(graphs.unit(vtree.to_nested()), vtree),
        "sum": ek.RBF(0.3) + 2.0 * ek.Delta() + ek.Laplacian(0.1),
        "product": (ek.RBF(0.3) + ek.Delta()) * ek.ExpHamming(),
    }


KERNELS = list(all_kernels(ek.Vtree.balanced(len(CARDS))))


def assert_same(xp, function, *circuits):
    """The function gives the same numbers wherever the circuits are, and keeps them there."""
    expected = function(*circuits)
    moved = [circuit.to(xp) for circuit in circuits]
    actual = function(*moved)
    if xp != "numpy":
        block = moved[0].blocks[0]
        assert type(actual) is type(block.table if isinstance(block, Table) else block.weights)
    assert_close(actual, expected, scale=np.max(np.abs(expected)))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_circuits(xp, name, form):
    p, q = two_circuits(form=form)
    k = all_kernels(p.vtree)[name]
    assert_same(xp, lambda a, b: ek.expected_kernel(a, b, k), p, q)
    Y = points(np.random.default_rng(1), CARDS, 40)
    assert_same(xp, lambda a: ek.expected_kernel(a, Y, k), p)
    assert_same(xp, lambda a: ek.expected_kernel(Y[:1], a, k), p)


@pytest.mark.parametrize("rows", [3, 40])
@pytest.mark.parametrize("max_bytes", [10_000, 2**30])
def test_evidence(xp, rows, max_bytes):
    p, q = two_circuits(form="dense")
    rng = np.random.default_rng(2)
    E = np.where(rng.random((rows, 4)) < 0.5, np.nan, points(rng, CARDS, rows))
    F = [rng.gamma(1.0, size=(rows, card)) for card in CARDS]
    k = ek.RBF(0.3) + ek.Delta()
    options = {"max_bytes": max_bytes}
    assert_same(xp, lambda a, b: ek.expected_kernel(a, b, k, evidence_p=E, **options), p, q)
    assert_same(
        xp, lambda a, b: ek.expected_kernel(a, b, k, evidence_p=F, evidence_q=E, **options), p, q
    )
    Y = points(rng, CARDS, 7)
    assert_same(xp, lambda a: ek.expected_kernel(a, Y, k, evidence_p=F, **options), p)
    share = ek.Empirical(Y, rng.normal(size=7))
    assert_same(xp, lambda a: ek.expected_kernel(a, share, k, evidence_p=E, **options), p)


@pytest.mark.parametrize(
    "k",
    [ek.RBF(0.3), ek.Laplacian(0.4), ek.RBF(0.2) * ek.Laplacian(0.4) + ek.ExpHamming()],
    ids=repr,
)
def test_real_variables(xp, k):
    p, q = real_mixture(0), real_mixture(1)
    assert_same(xp, lambda a, b: ek.expected_kernel(a, b, k), p, q)
    Y = np.array([[0.1, 2.0, -3.0], [0.1, 0.0, 4.0], [-1.0, 2.0, 0.5]])
    assert_same(xp, lambda a: ek.expected_kernel(a, Y, k), p)
    assert_same(xp, lambda a: ek.expected_kernel(Y, a, k, log=True), p)
    E = np.where(np.eye(3, dtype=bool), np.nan, Y)
    for rows in (E, np.tile(E, (12, 1))):
        assert_same(
            xp, lambda a, b, r=rows: ek.expected_kernel(a, b, k, evidence_p=r, evidence_q=r), p, q
        )


@pytest.mark.parametrize("n", [300, 2500])
def test_long_chains(xp, n):
    # values far below the range of floats, kept by scales or by logarithms
    rng = np.random.default_rng(0)
    p, q = (
        ek.factorized(rng.random((n, 2)), ek.Vtree.right_linear(n), normalized=False)
        for _ in range(2)
    )
    both = ek.mixture([p, q])
    assert_same(xp, lambda a, b: ek.expected_kernel(a, b, ek.RBF(0.5), log=True), p, both)
    E = np.where(rng.random((3, n)) < 0.3, np.nan, rng.integers(2, size=(3, n)))
    assert_same(xp, lambda a: ek.expected_kernel(a, a, ek.RBF(0.5), evidence_p=E, log=True), both)


def test_several_roots_empirical_distributions_and_discrepancies(xp):
    p, q = (circuit.normalize() for circuit in two_circuits(form="dense"))
    k, Y = ek.Laplacian(0.4), points(np.random.default_rng(3), CARDS, 9)
    assert_same(xp, lambda a: ek.expected_kernel(a, a, k), ek.algebra.stack([p, q, p]))
    assert_same(xp, lambda a: ek.expected_kernel(ek.Empirical(Y), a, k), ek.algebra.stack([p, q]))
    assert_same(xp, lambda a: ek.expected_kernel(ek.Empirical(Y), a, k, log=True), p)
    assert_same(xp, lambda a, b: ek.mmd2(a, b, k), p, q)
    assert_same(xp, lambda a, b: ek.mmd(a, b, k), p, q)
    assert_same(xp, lambda a, b: ek.witness(a, b, k, Y), p, q)
    expected = ek.monte_carlo_expected_kernel(p, q, k, 100, rng=0)
    actual = ek.monte_carlo_expected_kernel(p.to(xp), q.to(xp), k, 100, rng=0)
    assert_close(np.array(actual), np.array(expected))
