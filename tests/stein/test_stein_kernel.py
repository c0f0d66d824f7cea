"""Stein kernels against their definitions, and columns of their Gram matrices."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, refusals
from expectedkernels import SteinKernel
from expectedkernels.stein import langevin
from factor_graphs import factor_graphs, scores
from oracles import worlds
from stein_oracles import gibbs_gram, stein_gram, stein_size
from strategies import kernels, rngs

CARDS = [2, 3, 4]
TABLES = [np.eye(n) + 0.2 + 0.05 * np.add.outer(np.arange(n), np.arange(n)) for n in CARDS]
KERNELS = {
    "product": ek.TableKernel(TABLES),
    "sum of products": 0.5 * ek.TableKernel(TABLES) + 2.0 * ek.ExpHamming(0.3),
    "with zeros": ek.TableKernel([np.eye(n) for n in CARDS]),
}


@pytest.mark.parametrize("operator", ["gibbs", "shift"])
@pytest.mark.parametrize("name", KERNELS)
def test_columns_and_diagonal(name, operator, monkeypatch):
    monkeypatch.setattr(langevin, "CHUNK_ROWS", 7)
    monkeypatch.setattr(langevin, "DIAGONAL_ROWS", 3)
    rng = np.random.default_rng(0)
    p = ek.random_circuit(ek.Vtree.balanced(3), 3, rng, cardinalities=CARDS)
    X = rng.integers(CARDS, size=(17, 3)).astype(float)
    stein = ek.SteinKernel(p, KERNELS[name], operator=operator)
    assert (stein._terms is None) == (name == "with zeros")
    wanted = stein(X)
    column, diagonal = stein._columns(X)
    size = np.abs(wanted).max()
    np.testing.assert_allclose(diagonal, np.diag(wanted), atol=1e-14 * size)
    for i in (0, 9, 16):
        np.testing.assert_allclose(column(i), wanted[:, i], atol=1e-14 * size)


def drawn_kernel(data, model):
    """A positive definite kernel of the states of a model, and its twin."""
    vtree = ek.Vtree.random(model.n_variables, data.draw(rngs))
    return data.draw(kernels(model.cardinalities, vtree, definite=True, signed=True))


@settings(max_examples=60)
@given(factor_graphs(max_worlds=100, zeros=False), rngs, st.data())
def test_it_is_its_definition(model, rng, data):
    twin, cards = drawn_kernel(data, model), model.cardinalities
    p, X = scores(model), worlds(cards)
    expected, size = stein_gram(p, cards, twin.naive), stein_size(p, cards, twin.naive)
    stein = SteinKernel(model, twin.kernel)
    for gram in (stein(X), SteinKernel(model.compile()[0], twin.kernel)(X)):
        assert_close(gram, expected, size)
        assert_close(p @ gram, np.zeros(len(X)), p @ size)
        assert np.linalg.eigvalsh(gram).min() >= -1e-10 * size.max()
    some = rng.integers(len(X), size=7)
    assert_close(stein(X[some], X), expected[some], size[some])
    once = stein.extended(stein(X[some[:3]]), X[some[:3]], X[some[3:]])
    assert_close(once, expected[np.ix_(some, some)], size[np.ix_(some, some)])


def test_zeros_raise_or_restrict():
    asia = ek.asia()
    X = worlds(asia.cardinalities)
    p = np.exp(asia.log_score(X))
    support = X[p > 0]
    with pytest.raises(ek.PropertyError, match="The target has zeros: shifting variable"):
        SteinKernel(asia, ek.ExpHamming())(support)
    gram = SteinKernel(asia, ek.ExpHamming(), zeros="restrict")(support)
    assert np.abs(p[p > 0] @ gram).max() < 1e-12 * np.abs(gram).max()
    # what it cannot see: the masses of the two parts of the support
    either = support[:, 5] == 0
    for part in (either, ~either):
        within = np.where(part, p[p > 0], 0.0)
        assert np.abs(within @ gram).max() < 1e-12 * np.abs(gram).max()
    with pytest.raises(ek.DataError, match=r"The target is zero at row 0 of the samples, \[0"):
        SteinKernel(asia, ek.ExpHamming(), zeros="restrict")(X[p == 0])


@settings(max_examples=25)
@given(factor_graphs(max_worlds=60), st.data())
def test_gibbs_operators_are_their_definition(model, data):
    # zeros are allowed, and all values are bounded
    twin, cards = drawn_kernel(data, model), model.cardinalities
    every, p = worlds(cards), scores(model)
    possible = p > 0
    size = np.abs(twin.naive(every, every)).max() * 4 * len(cards)
    wanted = gibbs_gram(every[possible], p, cards, twin.naive)
    for target in (model, model.compile()[0]):
        gram = SteinKernel(target, twin.kernel, operator="gibbs")(every[possible])
        assert_close(gram, wanted, size)
        assert_close(p[possible] @ gram / p.sum(), np.zeros(len(gram)), size)
    assert np.abs(gram).max() <= size
    if not possible.all():
        with pytest.raises(ek.DataError, match=r"The target is zero at row \d"):
            SteinKernel(model, twin.kernel, operator="gibbs")(every[~possible])


def test_strictness_is_seen():
    cards = [2, 3]
    for kernel in (ek.ExpHamming(), ek.Delta(), ek.RBF(0.5), 2.0 * ek.Laplacian(1.0)):
        assert ek.stein.is_strictly_positive_definite(kernel, cards)
    flat = ek.TableKernel([np.eye(2), np.ones((3, 3))])
    verdict = ek.stein.is_strictly_positive_definite(flat, cards)
    assert not verdict
    assert "variable 1" in verdict.reason
    assert ek.stein.is_strictly_positive_definite(flat + ek.Delta(), cards)
    same, ones = (
        [ek.kernels.kernel_input(v, table) for v in (0, 1)]
        for table in (np.eye(2), np.ones((2, 2)))
    )
    a, b, c = (ek.Product(list(pair)) for pair in ((same[0], ones[1]), (ones[0], same[1]), same))
    split, whole = (ek.KernelCircuit(ek.Sum([a, x], [1.0, 1.0])) for x in (b, c))
    assert "no term" in ek.stein.is_strictly_positive_definite(split, [2, 2]).reason
    assert ek.stein.is_strictly_positive_definite(whole, [2, 2])
    with pytest.raises(ek.KernelError, match=r"for 2 variables\. It is used on 3"):
        ek.stein.is_strictly_positive_definite(ek.KernelCircuit(c), [2, 2, 2])
    negative = ek.TableKernel([np.array([[1.0, 2.0], [2.0, 1.0]])])
    assert not ek.stein.is_strictly_positive_definite(negative, [2])


COIN, STEEP = ek.factorized([[0.5, 0.5]]), ek.FactorGraph([2], [((0,), [1e-300, 1.0])] * 2)


def stein(target=COIN, kernel=None, **options):
    return SteinKernel(target, kernel or ek.Delta(), **options)


test_mistakes = refusals(None, [
    (lambda: stein(zeros="ignore"), ek.KernelError, "'zeros' parameter of a Stein kernel"),
    *((lambda x=x: stein(operator=x), ek.KernelError,
       "'operator' parameter of a Stein kernel must be") for x in ("hmc", ["gibbs"])),
    (lambda: stein(3), ek.DataError, "must be a FactorGraph"),
    (lambda: stein(ek.gaussian_mixture([1.0], [[0.0]], [[1.0]]), ek.RBF(1.0)), ek.PropertyError,
     "Variable 0 of the target is real"),
    (lambda: stein().extended(np.eye(3), [[0]], [[1]]), ek.DataError, "must be square"),
    (lambda: stein(STEEP)([[0]]), ek.DataError, "grows by more than can be written"),
])  # fmt: skip


def test_values_beyond_the_largest_float_are_refused():
    rare = ek.FactorGraph([2, 2], [((0,), [1e-200, 1.0]), ((0, 1), [[1.0, 2.0], [3.0, 4.0]])])
    circuit, _ = rare.compile()
    flat, _ = ek.FactorGraph([2, 2], []).compile(circuit.vtree)
    X = [[0, 0], [1, 1]]
    for kernel in (ek.ExpHamming(), ek.Delta()):
        with pytest.raises(ek.KernelError, match=r"Stein kernel is too large for a float.*'gibbs'"):
            ek.kdsd(X, rare, kernel)
        with pytest.raises(ek.KernelError, match=r"discrepancy is too large for a float.*'gibbs'"):
            ek.kdsd(flat, circuit, kernel)
        with pytest.raises(ek.KernelError, match=r"two samples is too large for a float.*'gibbs'"):
            ek.CollapsedSteinKernel(circuit, kernel)([[0, np.nan], [1, np.nan]])
        assert np.abs(SteinKernel(rare, kernel, operator="gibbs")(X)).max() < 4
    with pytest.raises(ek.KernelError, match="too large for a float"):
        SteinKernel(rare, ek.ExpHamming())._columns(np.array([[0.0, 0.0]]))
