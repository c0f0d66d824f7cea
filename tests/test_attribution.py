"""Attributions of discrepancies to variables, against sums over all states and all subsets."""

from itertools import combinations, product
from math import factorial

import numpy as np
import pytest

import expectedkernels as ek

CARDS = [2, 3, 2, 2, 3]
STATES = np.array(list(product(*map(range, CARDS))))
TABLES = [np.eye(n) + 0.2 * np.arange(n)[:, None] * np.arange(n) for n in CARDS]
KERNELS = [ek.ExpHamming(0.7), ek.RBF(0.4), ek.TableKernel(TABLES), 2.0 * ek.Delta() + ek.RBF(0.1)]


def two_circuits(seed):
    vtree = ek.Vtree.random(5, rng=seed)
    p = ek.random_circuit(vtree, 3, rng=seed, cardinalities=CARDS)
    return p, ek.random_circuit(vtree, 2, rng=seed + 100, cardinalities=CARDS)


def terms_of(kernel):
    """Weights, and one table per variable."""
    if hasattr(kernel, "weights"):
        parts = [terms_of(k) for k in kernel.kernels]
        both = zip(kernel.weights, parts, strict=True)
        return [(w * v, tables) for w, part in both for v, tables in part]
    one = np.zeros((1, 5))
    tables = []
    for i, n in enumerate(CARDS):
        rows = np.repeat(one, n, axis=0)
        rows[:, i] = np.arange(n)
        own = kernel(rows)
        # other factors are those at the states 0, 0
        tables.append(own if not isinstance(kernel, ek.TableKernel) else TABLES[i])
    return [(1.0, tables)]


def worth(kernel, p, q, chosen):
    """The squared discrepancy of the marginals of some variables, over all pairs of states."""
    d = np.exp(p.log_likelihood(STATES)) - np.exp(q.log_likelihood(STATES))
    total = 0.0
    for weight, tables in terms_of(kernel):
        values = np.ones((len(STATES), len(STATES)))
        for i in chosen:
            values *= tables[i][np.ix_(STATES[:, i], STATES[:, i])]
        total += weight * d @ values @ d
    return total


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_ignoring_is_the_difference_to_the_marginals(seed, kernel):
    p, q = two_circuits(seed)
    without = [worth(kernel, p, q, set(range(5)) - {i}) for i in range(5)]
    wanted = worth(kernel, p, q, range(5)) - np.array(without)
    assert ek.monitoring.ignoring(p, q, kernel) == pytest.approx(wanted, abs=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_univariate_discrepancies_are_those_of_single_marginals(seed, kernel):
    p, q = two_circuits(seed)
    wanted = [worth(kernel, p, q, {i}) for i in range(5)]
    np.testing.assert_allclose(ek.monitoring.univariate(p, q, kernel), wanted, atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_shapley_values_are_those_of_the_definition_and_sum_to_the_discrepancy(kernel):
    p, q = two_circuits(3)
    worths = {s: worth(kernel, p, q, s) for r in range(6) for s in combinations(range(5), r)}
    wanted = np.zeros(5)
    for i in range(5):
        for s, value in worths.items():
            if i not in s:
                share = factorial(len(s)) * factorial(4 - len(s)) / factorial(5)
                wanted[i] += share * (worths[tuple(sorted((*s, i)))] - value)
    values = ek.monitoring.shapley_account(p, q, kernel)
    assert values == pytest.approx(wanted, abs=1e-13)
    assert values.sum() == pytest.approx(ek.mmd2(p, q, kernel), abs=1e-12)


@pytest.mark.parametrize("vtree", [ek.Vtree.right_linear(90), ek.Vtree.balanced(90)])
def test_many_variables_are_changed_in_groups(vtree):
    p, q = (ek.random_circuit(vtree, 2, rng=i) for i in (0, 1))
    values = ek.monitoring.ignoring(p, q, ek.ExpHamming(0.1))
    for i in (0, 63, 64, 89):
        rates = np.where(np.arange(90) == i, 0.0, 0.1)
        less = ek.mmd2(p, q, ek.ExpHamming(0.1)) - ek.mmd2(p, q, ek.ExpHamming(rates))
        assert values[i] == pytest.approx(less, abs=1e-14)


def test_one_variable():
    p, q = ek.factorized([[0.2, 0.8]]), ek.factorized([[0.5, 0.5]])
    monitoring = ek.monitoring
    for attribute in (monitoring.ignoring, monitoring.shapley_account, monitoring.univariate):
        assert attribute(p, q, ek.Delta()) == pytest.approx([ek.mmd2(p, q, ek.Delta())])


def test_real_variables_can_be_ignored_but_not_shared_among():
    p = ek.gaussian_mixture([1.0], [[0.0, 0.0]], [[1.0, 1.0]])
    q = ek.gaussian_mixture([1.0], [[0.0, 1.0]], [[1.0, 1.0]])
    values = ek.monitoring.ignoring(p, q, ek.RBF(0.5))
    wanted = [ek.mmd2(p, q, ek.RBF(0.5)) - ek.mmd2(p, q, ek.RBF(g)) for g in ([0, 0.5], [0.5, 0])]
    assert values == pytest.approx(wanted)
    with pytest.raises(ek.KernelError, match=r"need discrete variables. Variable 0 is real"):
        ek.monitoring.shapley_account(p, q, ek.RBF(0.5))


def test_circuits_and_kernels_that_do_not_fit_are_refused():
    p = ek.random_circuit(ek.Vtree.balanced(4), 2, rng=0)
    with pytest.raises(ek.CompatibilityError, match="compatible"):
        ek.monitoring.ignoring(p, ek.random_circuit(ek.Vtree.right_linear(4), 2, rng=0))
    with pytest.raises(ek.PropertyError, match="sum"):
        ek.monitoring.ignoring(p, ek.factorized([[1.0, 1.0]] * 4, normalized=False))
    near = ek.kernels.kernel_input(0, np.eye(2)), ek.kernels.kernel_input(1, np.eye(2))
    far = ek.kernels.kernel_input(0, np.ones((2, 2))), ek.kernels.kernel_input(1, np.ones((2, 2)))
    both = ek.Sum([ek.Product(list(near)), ek.Product(list(far))], [0.5, 0.5])
    k = ek.KernelCircuit(ek.Product([both, ek.kernels.kernel_input(2, np.eye(2))]))
    p = ek.random_circuit(ek.Vtree.from_nested(((0, 1), 2)), 2, rng=0)
    with pytest.raises(ek.KernelError, match=r"a product over the variables, or a sum of such"):
        ek.monitoring.ignoring(p, p, k)
