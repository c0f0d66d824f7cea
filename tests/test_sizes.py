"""What needs more memory than there is raises a `SizeError` before any of it is taken."""

import os

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_raises
from networks import bif_of_pgmpy

K = ek.ExpHamming()
MANY = np.zeros((400_000, 2))
PAIR = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
BINARY = ek.FactorGraph([2, 2], [ek.Factor([0, 1], [[1.0, 2.0], [3.0, 1.0]])])
NETWORK = ek.BayesianNetwork([[], [0]], [[0.5, 0.5], [[0.1, 0.9], [0.4, 0.6]]])
DENSE = ek.FactorGraph([2] * 40, [((i, j), np.ones((2, 2))) for i in range(40) for j in range(i)])
MATRICES = {
    "kernel": lambda: K(MANY),
    "logs of a kernel": lambda: K.logs(MANY, MANY),
    "sum of kernels": lambda: (K + ek.RBF(1.0))(MANY),
    "kernel of points": lambda: ek.expected_kernel(MANY, MANY, K),
    "conditionals and points": lambda: ek.expected_kernel(PAIR, MANY, K, evidence_p=MANY),
    "conditionals": lambda: ek.expected_kernel(PAIR, PAIR, K, evidence_p=MANY, evidence_q=MANY),
    "quadrature": lambda: ek.quadrature(PAIR, MANY),
    "Stein kernel": lambda: ek.SteinKernel(PAIR, K)(MANY),
    "collapsed Stein kernel": lambda: ek.CollapsedSteinKernel(PAIR, K)(MANY),
    "bbis": lambda: ek.bbis(BINARY, MANY, max_bytes=2**60),
    "weights": lambda: ek.simplex_weights(np.broadcast_to(0.5, (400_000, 400_000))),
    "states": lambda: ek.mmd2(*(ek.factorized([np.full(10**6, 1e-6)]) for _ in range(2)), K),
    "permutations": lambda: ek.mmd_two_sample_test(MANY[:500], MANY[:500], n_null=10**10),
}
MODELS = {
    "samples of a circuit": lambda: PAIR.sample(10**13),
    "samples of a network": lambda: NETWORK.sample(10**13),
    "Gibbs samples": lambda: ek.gibbs(BINARY, 10**13),
    "partition function": lambda: DENSE.log_partition(max_bytes=2**60),
    "marginals": lambda: DENSE.marginals(max_bytes=2**60),
    "compilation": lambda: DENSE.compile(max_bytes=2**60),
    "compilation by boundaries": lambda: DENSE.compile(ek.Vtree.balanced(40), max_bytes=2**60),
    "vtree": lambda: ek.Vtree.balanced(10**12),
    "herded points": lambda: ek.herd(ek.factorized([[0.5, 0.5]] * 30), 10**10),
    "grid": lambda: ek.ising_grid(10**6, 10**6),
    "units": lambda: ek.random_circuit(4, 10**6),
    "states of a random circuit": lambda: ek.random_circuit(2, 2, cardinalities=10**12),
    "hidden states": lambda: ek.learn_hclt(MANY[:50].astype(int), 10**7),
    "components": lambda: ek.learn_mixture(MANY[:50].astype(int), 10**13),
    "samples of predictions": lambda: (
        ek.ExpectedKernelRidge()
        .fit([[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 2.0, 3.0])
        .sample_predictions([[np.nan]], 10**13)
    ),
}


@pytest.mark.parametrize("call", [*MATRICES.values(), *MODELS.values()], ids=[*MATRICES, *MODELS])
def test_what_is_too_large_is_refused_in_advance(call):
    assert_raises(ek.SizeError, r"needs about \S+ GiB of memory, and \S+ GiB can be", call)


@pytest.fixture(scope="module")
def foreign():
    """A network compiled on the vtree of a tree that was learned from its samples, and the tree."""
    network = ek.read_bif(bif_of_pgmpy("alarm"))
    tree = ek.learn_chow_liu(network.sample(2000, rng=0, as_frame=True))
    return network.compile(tree.vtree)[0], tree


CIRCUITS = {
    "expected kernel": lambda p, q: ek.expected_kernel(p, p, K),
    "mmd": lambda p, q: ek.mmd(p, q),
    "mmd_test": lambda p, q: ek.mmd_test(q.sample(20, rng=0), p, rng=0),
    "mmd_compare": lambda p, q: ek.mmd_compare(p, q, q.sample(20, rng=0)),
    "herd": lambda p, q: ek.herd(p, 3),
    "quadrature": lambda p, q: ek.quadrature(p, q.sample(5, rng=0)),
    "group_discrepancies": lambda p, q: ek.group_discrepancies(p, [{"HISTORY": 0}]),
    "kdsd": lambda p, q: ek.kdsd(q, p),
    "entropy": lambda p, q: ek.divergences.entropy(p),
    "power": lambda p, q: ek.algebra.power(p, 2.0),
    "map": lambda p, q: p.map(np.full((1, 37), np.nan)),
}


@pytest.mark.parametrize("call", CIRCUITS.values(), ids=CIRCUITS)
def test_circuits_that_are_too_large_for_each_other_are_refused_in_advance(foreign, call):
    assert_raises(ek.SizeError, r"needs about .* GiB of memory, .* vtree", call, *foreign)


def test_explanations_and_properties_of_what_is_too_large(foreign):
    p, _ = foreign
    found = ek.explain(p, p, K)
    assert found.n_bytes > 2**40
    assert "GiB that can be used: expected_kernel raises a SizeError" in str(found)
    assert "GiB of intermediate values" in str(found)
    found = ek.properties(p)
    assert found.deterministic.holds is None
    assert "GiB of memory" in found.deterministic.reason
    assert found.smooth
    assert found.structured_decomposable


def test_products_that_are_too_large_are_refused(monkeypatch):
    system = os.sysconf
    few = {"SC_PHYS_PAGES": 2**16, "SC_PAGE_SIZE": 2**12}
    monkeypatch.setattr(os, "sysconf", lambda name: few.get(name) or system(name))
    p, q = (ek.random_circuit(ek.Vtree.balanced(4), 240, seed, 3) for seed in range(2))
    assert_raises(ek.SizeError, r"The product of the two circuits needs", ek.algebra.multiply, p, q)


def test_models_without_a_common_vtree_and_what_fits():
    network = ek.read_bif(bif_of_pgmpy("insurance"))
    tree = ek.learn_chow_liu(network.sample(500, rng=0), cardinalities=network.cardinalities)
    with pytest.raises(ek.SizeError, match=r"vtree that both share.* monte_carlo_expected_kernel"):
        ek.mmd(network, tree.with_names(network.names, network.states))
    p = ek.random_circuit(ek.Vtree.balanced(8), 20, rng=0)
    few = [ek.expected_kernel(p, p, K, max_bytes=n) for n in (1, 2**30, 2**50)]
    np.testing.assert_allclose(few, few[0], rtol=1e-12)
