"""Arrays that NumPy cannot read, as those on a card: data, evidence and circuits made of them."""

from dataclasses import replace

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises, to_numpy
from expectedkernels import SteinKernel

torch = pytest.importorskip("torch")


class Remote(torch.Tensor):
    """A tensor that NumPy refuses to read until it is moved to the CPU, as those on a GPU."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def cpu(self, *args, **kwargs):
        return self.detach().as_subclass(torch.Tensor)


def remote(array):
    """An array where NumPy cannot read it."""
    return None if array is None else torch.as_tensor(array).clone().as_subclass(Remote)


def remote_circuit(p):
    """The circuit with all of its arrays where NumPy cannot read them."""
    blocks = [
        replace(block, **{name: remote(x) for name, x in vars(block).items() if hasattr(x, "cpu")})
        for block in p.to("torch").blocks
    ]
    return ek.Circuit(p.vtree, tuple(blocks))


P = ek.random_circuit(3, 3, rng=0)
Q = ek.random_circuit(3, 2, rng=1)
TARGET = ek.learn_chow_liu(P.sample(50, rng=0), pseudocount=1.0)
POINTS = P.sample(20, rng=2)
ROWS = np.array([[0, np.nan, 1], [np.nan, 1, np.nan]])
K = ek.ExpHamming()


def test_numpy_cannot_read_them():
    assert_raises(TypeError, "to numpy", np.asarray, remote(POINTS))
    assert (remote_circuit(P).to("numpy").input(0).table == P.input(0).table).all()


ONE, PAIRED = np.array([[0.2, 0.8]]), np.array([0.5, 1.0])
QUESTIONS = {
    "log_likelihood of points": lambda at: P.log_likelihood(at(POINTS)),
    "marginals of rows": lambda at: P.marginals(at(ROWS))[1],
    "condition": lambda at: P.condition(at(ROWS[0])).marginals()[1],
    "weights of one": lambda at: P.marginals({0: at(PAIRED)})[1],
    "weights": lambda at: P.log_likelihood([at(ONE), None, None]),
    "samples of rows": lambda at: P.sample(3, rng=0, evidence=at(ROWS)),
    "kernel": lambda at: K(at(POINTS)),
    "pairs": lambda at: K.pairs(at(POINTS), at(POINTS)),
    "unit": lambda at: ek.Categorical(0, [0.25, 0.75]).log_likelihood(at(POINTS)),
    "mmd of points": lambda at: ek.mmd(P, at(POINTS), K),
    "mmd of weights": lambda at: ek.mmd(P, ek.Empirical(at(POINTS), at(np.full(20, 0.05))), K),
    "learning": lambda at: ek.learn_chow_liu(at(POINTS)).log_likelihood(POINTS),
    "log_likelihood": lambda at: at(P).log_likelihood(at(POINTS)),
    "marginals": lambda at: at(P).marginals(ROWS)[0],
    "sample": lambda at: at(P).sample(4, rng=0),
    "condition of it": lambda at: at(P).condition(ROWS[0]).marginals()[1],
    "normalize": lambda at: at(P).normalize().log_likelihood(POINTS),
    "map": lambda at: at(TARGET).map(at(ROWS)),
    "both": lambda at: ek.expected_kernel(at(P), at(Q), K),
    "first": lambda at: ek.expected_kernel(at(P), Q, K),
    "second": lambda at: ek.expected_kernel(P, at(Q), K),
    "evidence": lambda at: ek.expected_kernel(at(P), at(Q), K, evidence_p=at(ROWS), log=True),
    "mmd": lambda at: ek.mmd(at(P), at(Q), K),
    "witness": lambda at: ek.witness(at(P), Q, K, at(POINTS)),
    "SteinKernel": lambda at: SteinKernel(at(TARGET), K)(at(POINTS)),
    "kdsd of points": lambda at: ek.kdsd(at(POINTS), at(TARGET), K),
    "kdsd": lambda at: ek.kdsd(at(TARGET), at(TARGET), K),
    "kdsd_test": lambda at: ek.kdsd_test(at(POINTS), at(TARGET), K, rng=0).p_value,
    "bbis": lambda at: ek.bbis(at(TARGET), at(POINTS)).weights,
    "gibbs": lambda at: ek.gibbs(at(TARGET), 5, rng=0) * 1.0,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_are_those_of_arrays_that_numpy_reads(name):
    ask = QUESTIONS[name]
    found = ask(lambda x: remote_circuit(x) if isinstance(x, ek.Circuit) else remote(x))
    scale = 1e-2 if name == "kdsd" else 1.0 if name == "witness" else None  # sums that cancel
    assert_close(to_numpy(found), to_numpy(ask(lambda x: x)), scale)


def test_circuits_in_two_places_meet_at_the_first():
    xp = pytest.importorskip("array_api_strict")
    p, q = P.to("torch"), Q.to(xp)
    first, second = ek.expected_kernel(p, q, K), ek.expected_kernel(q, p, K)
    assert type(first) is torch.Tensor
    assert type(second) is type(q.input(0).table)
    assert_close(to_numpy(first), ek.expected_kernel(P, Q, K))
    assert_close(to_numpy(second), ek.expected_kernel(Q, P, K))
