"""Arrays that NumPy cannot read, as those on a card: data, evidence and circuits made of them."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, host
from expectedkernels import SteinKernel
from oracles import Inner, Table

torch = pytest.importorskip("torch")


class Remote(torch.Tensor):
    """A tensor that NumPy refuses to read until it is brought to the host, as those on a card."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def cpu(self, *args, **kwargs):
        return self.detach().as_subclass(torch.Tensor)


def remote(array):
    """An array where NumPy cannot read it."""
    return None if array is None else torch.as_tensor(array).clone().as_subclass(Remote)


def remote_circuit(p):
    """The circuit with all of its arrays where NumPy cannot read them."""
    blocks = []
    for block in p.to("torch").blocks:
        if isinstance(block, Table):
            blocks.append(Table(remote(block.table)))
        else:
            index = (None if i is None else remote(i) for i in (block.left, block.right))
            blocks.append(Inner(block.n_products, block.n_units, *index, remote(block.weights)))
    return ek.Circuit(p.vtree, tuple(blocks))


P = ek.random_circuit(3, 3, rng=0)
Q = ek.random_circuit(3, 2, rng=1)
TARGET = ek.learn_chow_liu(P.sample(50, rng=0), pseudocount=1.0)
POINTS = P.sample(20, rng=2)
ROWS = np.array([[0, np.nan, 1], [np.nan, 1, np.nan]])
K = ek.ExpHamming()


def test_numpy_cannot_read_them():
    with pytest.raises(TypeError, match="to numpy"):
        np.asarray(remote(POINTS))
    assert (remote_circuit(P).to("numpy").input(0).table == P.input(0).table).all()


def test_data_and_evidence_are_read():
    X, E = remote(POINTS), remote(ROWS)
    assert_close(P.log_likelihood(X), P.log_likelihood(POINTS))
    assert_close(P.marginals(E)[1], P.marginals(ROWS)[1])
    assert_close(P.condition(E[0]).log_likelihood(X[:0]), np.zeros(0))
    assert_close(P.marginals({0: remote([0.5, 1.0])})[1], P.marginals({0: [0.5, 1.0]})[1])
    weights = [remote(np.array([[0.2, 0.8]])), None, None]
    assert_close(P.log_likelihood(weights), P.log_likelihood([np.array([[0.2, 0.8]]), None, None]))
    assert_close(P.sample(3, rng=0, evidence=E), P.sample(3, rng=0, evidence=ROWS))
    assert_close(K(X), K(POINTS))
    assert_close(K.pairs(X, X), K.pairs(POINTS, POINTS))
    unit = ek.Categorical(0, [0.25, 0.75])
    assert_close(unit.log_likelihood(X), unit.log_likelihood(POINTS))
    share = np.full(20, 0.05)
    found = ek.mmd(P, ek.Empirical(X, remote(share)), K)
    assert_close(found, ek.mmd(P, ek.Empirical(POINTS, share), K))
    assert_close(ek.mmd(P, X, K), ek.mmd(P, POINTS, K))


def test_questions_to_circuits():
    p, q = remote_circuit(P), remote_circuit(Q)
    assert_close(host(p.log_likelihood(remote(POINTS))), P.log_likelihood(POINTS))
    for first, second in ((p, q), (p, Q), (P, q)):
        assert_close(host(ek.expected_kernel(first, second, K)), ek.expected_kernel(P, Q, K))
        assert_close(host(ek.mmd(first, second, K)), ek.mmd(P, Q, K))
        found = ek.witness(first, second, K, remote(POINTS))
        assert_close(host(found), ek.witness(P, Q, K, POINTS), scale=np.ones(20))
    given = ek.expected_kernel(p, q, K, evidence_p=remote(ROWS), log=True)
    assert_close(host(given), ek.expected_kernel(P, Q, K, evidence_p=ROWS, log=True))

    assert_close(p.marginals(ROWS)[0], P.marginals(ROWS)[0])
    assert_close(p.sample(4, rng=0), P.sample(4, rng=0))
    assert_close(p.condition(ROWS[0]).log_likelihood(POINTS[:0]), np.zeros(0))
    assert_close(p.normalize().log_likelihood(POINTS), P.log_likelihood(POINTS))


def test_targets_of_stein_kernels_and_weights():
    target, X = remote_circuit(TARGET), remote(POINTS)
    assert_close(SteinKernel(target, K)(X), SteinKernel(TARGET, K)(POINTS))
    assert_close(ek.kdsd(X, target, K), ek.kdsd(POINTS, TARGET, K))
    q = remote_circuit(TARGET)
    assert abs(ek.kdsd(q, target, K)) < 1e-12
    tests = [ek.kdsd_test(x, t, K, rng=0) for x, t in ((X, target), (POINTS, TARGET))]
    assert tests[0].p_value == tests[1].p_value
    found = [ek.bbis(t, x) for x, t in ((X, target), (POINTS, TARGET))]
    assert_close(found[0].weights, found[1].weights)
    np.testing.assert_array_equal(ek.gibbs(target, 5, rng=0), ek.gibbs(TARGET, 5, rng=0))
    assert_close(target.map(remote(ROWS)), TARGET.map(ROWS))


def test_circuits_in_two_places_meet_at_the_first():
    xp = pytest.importorskip("array_api_strict")
    p, q = P.to("torch"), Q.to(xp)
    first, second = ek.expected_kernel(p, q, K), ek.expected_kernel(q, p, K)
    assert type(first) is torch.Tensor
    assert type(second) is type(q.input(0).table)
    assert_close(host(first), ek.expected_kernel(P, Q, K))
    assert_close(host(second), ek.expected_kernel(Q, P, K))


def test_learning_reads_them():
    found = ek.learn_chow_liu(remote(POINTS))
    assert_close(found.log_likelihood(POINTS), ek.learn_chow_liu(POINTS).log_likelihood(POINTS))
