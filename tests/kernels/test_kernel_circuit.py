import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, assert_raises
from oracles import unit_values_at, worlds
from strategies import RandomKernelGraphs, domains, kernel_table, points, rngs, vtrees

NEAR, SAME = np.array([[1.0, 0.5], [0.5, 1.0]]), np.eye(2)


def two_terms(weights=(0.3, 0.7)):
    a = ek.Product([ek.kernels.kernel_input(0, NEAR), ek.kernels.kernel_input(1, SAME)])
    b = ek.Product([ek.kernels.kernel_input(0, SAME), ek.kernels.kernel_input(1, NEAR)])
    return ek.Sum([a, b], weights)


@settings(max_examples=40)
@given(st.data(), domains(max_worlds=64), rngs)
def test_random_kernel_circuits(data, cards, rng):
    vtree = data.draw(vtrees(len(cards)))
    root = RandomKernelGraphs(rng, cards, signed_tables=True).unit(vtree.to_nested())
    k = ek.KernelCircuit(root, vtree)
    assert k.cardinalities == list(cards)
    assert k.vtree == vtree
    X = worlds(cards)
    codes = (X[:, None, :] * np.asarray(cards) + X[None]).reshape(-1, len(cards))
    expected = unit_values_at(root, codes).reshape(len(X), len(X))
    assert_close(k(X), expected, np.abs(expected).max())


@given(rngs)
def test_verdicts(rng):
    tables = [kernel_table(rng, 3, definite=True, signed=True) for _ in range(4)]
    units = [ek.kernels.kernel_input(i % 2, table) for i, table in enumerate(tables)]
    root = ek.Sum([ek.Product(units[:2]), ek.Product(units[2:])], [0.5, 2.0])
    verdict = ek.KernelCircuit(root).is_positive_definite()
    assert verdict
    assert verdict.reason == "all inputs are positive definite and no weight is negative"


def test_verdicts_name_the_input():
    crooked = ek.Product(
        [ek.kernels.kernel_input(0, NEAR), ek.kernels.kernel_input(1, [[1.0, 0.5], [0.4, 1.0]])]
    )
    verdict = ek.KernelCircuit(crooked).is_positive_definite()
    assert not verdict
    assert "table of variable 1 is not symmetric" in verdict.reason
    indefinite = ek.Product(
        [ek.kernels.kernel_input(0, 2 * SAME[::-1]), ek.kernels.kernel_input(1, NEAR)]
    )
    verdict = ek.KernelCircuit(indefinite).is_positive_definite()
    assert not verdict
    assert verdict.reason == "the table of variable 0 has a negative eigenvalue, -2"


def test_kernel_circuits_that_are_refused():
    root = ek.Sum([ek.kernels.kernel_input(0, SAME), ek.kernels.kernel_input(0, NEAR)], [1.0, -2.0])
    with pytest.raises(ek.KernelError, match=r"must not be negative.*Got -2.0.*variables \[0\]"):
        ek.KernelCircuit(root)
    near, ones = [[1.0, 0.5], [0.5, 1.0]], np.ones((2, 2))
    first, second = (ek.kernels.kernel_input(v, near) for v in (0, 1))
    with pytest.raises(ek.PropertyError, match=r"not smooth: .* kernel_input\(v, ") as caught:
        ek.KernelCircuit(ek.Sum([first, second], [0.5, 0.5]))
    assert "smooth=True" not in str(caught.value)
    parts = [
        ek.Product([first, ek.kernels.kernel_input(1, ones)]),
        ek.Product([ek.kernels.kernel_input(0, ones), second]),
    ]
    np.testing.assert_allclose(
        ek.KernelCircuit(ek.Sum(parts, [0.5, 0.5]))([[0, 1]], [[0, 0]]), 0.75
    )
    assert repr(ek.KernelCircuit(two_terms())) == "<KernelCircuit of 2 variables: 7 units>"
    k = ek.KernelCircuit(two_terms())
    assert_raises(ek.DataError, r"variable 0 must be integers in 0..1. Got 2.0 in row", k, [[2, 0]])
    with pytest.raises(ek.DataError, match="one column per variable"):
        k(points(np.random.default_rng(0), (2, 2, 2), 2))


class TestCompatibility:
    P = ek.random_circuit(ek.Vtree.from_nested(((0, 1), 2)), 2, rng=0)
    Q = ek.random_circuit(ek.Vtree.from_nested((2, (1, 0))), 2, rng=1)

    def kernel(self, nested):
        graphs = RandomKernelGraphs(np.random.default_rng(0), (2, 2, 2))
        return ek.KernelCircuit(graphs.unit(nested), ek.Vtree.from_nested(nested))

    @pytest.mark.parametrize(
        "k", [ek.RBF(1.0), ek.Delta() * ek.ExpHamming(), 2.0 * ek.Laplacian(1.0)]
    )
    def test_kernels_that_factorise_fit_every_vtree(self, k):
        assert ek.is_kernel_compatible(k, self.P, self.Q)

    def test_a_kernel_circuit_fits_its_own_vtree_up_to_swaps(self):
        k = self.kernel((2, (0, 1)))
        verdict = ek.is_kernel_compatible(k, self.P, self.Q)
        assert verdict
        assert verdict.reason == "the kernel's products split the variables as the circuits' do"
        X = worlds([2, 2, 2])
        P, Q = (np.exp(c.log_likelihood(X)) for c in (self.P, self.Q))
        assert_close(ek.expected_kernel(self.P, self.Q, k), P @ k(X) @ Q)
        assert_close(ek.expected_kernel(self.Q, self.P, k), Q @ k(X) @ P)

    def test_other_vtrees(self):
        verdict = ek.is_kernel_compatible(self.kernel((0, (1, 2))), self.P, self.Q)
        assert not verdict
        assert "split their variables in different ways" in verdict.reason
        verdict = ek.is_kernel_compatible(ek.RBF(1.0) + self.kernel((0, (1, 2))), self.P, self.Q)
        assert not verdict

    def test_other_domains(self):
        verdict = ek.is_kernel_compatible(ek.TableKernel([np.eye(2)] * 2), self.P, self.Q)
        assert not verdict
        assert "is for 2 variables" in verdict.reason
        verdict = ek.is_kernel_compatible(ek.TableKernel([np.eye(3)] * 3), self.P, self.Q)
        assert not verdict
        assert "must have shape (2, 2)" in verdict.reason

    def test_circuits_that_do_not_fit_each_other(self):
        other = ek.random_circuit(ek.Vtree.from_nested((0, (1, 2))), 2, rng=0)
        verdict = ek.is_kernel_compatible(ek.RBF(1.0), self.P, other)
        assert not verdict
        assert "splits into" in verdict.reason

    def test_unit_graphs(self):
        units = [ek.Categorical(v, [0.5, 0.5]) for v in range(3)]
        graph = ek.Product([ek.Product(units[:2]), units[2]])
        assert ek.is_kernel_compatible(ek.RBF(1.0), graph, graph)
        k = self.kernel(((0, 1), 2))
        assert ek.is_kernel_compatible(k, graph, self.P)
        free = ek.Product(units)  # fits every vtree: it is written on that of the circuit
        assert ek.is_kernel_compatible(k, free, self.P)
        assert ek.is_kernel_compatible(k, self.P, free)
        X = worlds([2, 2, 2])
        P = np.exp(self.P.log_likelihood(X))
        assert_close(ek.expected_kernel(free, self.P, k), np.full(8, 1 / 8) @ k(X) @ P)
