"""Stein kernels of complete and collapsed samples, and discrepancies between circuits."""

import gc
import sys
from weakref import ref

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from expectedkernels import CollapsedSteinKernel, SteinKernel
from expectedkernels.sampling.gibbs import is_positive, support_size
from expectedkernels.stein import langevin
from expectedkernels.stein.stein_kernel import require_positive, stein_measure
from factor_graphs import factor_graphs, random_chain, scores
from oracles import distribution, worlds
from stein_oracles import circuit_problems, conditionals_given, gibbs_gram, stein_gram, stein_size
from strategies import circuits, domains, kernels, points, rngs, vtrees

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


def test_it_is_linear_in_the_number_of_variables():
    rng = np.random.default_rng(0)
    pairs = []
    for n in (12, 24, 48):
        p, _ = random_chain(n, rng).compile()
        q, _ = random_chain(n, rng).compile(p.vtree)
        pairs.append(sum(block.n_units**2 for block in stein_measure(q, p).blocks))
    assert pairs[2] - pairs[1] == 2 * (pairs[1] - pairs[0])


def all_but_one(n, holes=1):
    """A deterministic circuit over n binary variables that is zero at one state only, or nowhere.

    Every sum decides by the next variable: zero frees all that follow, one goes on.
    """
    rest = ek.Categorical(n - 1, [0.5, 0.0 if holes else 0.5])
    for v in range(n - 2, -1, -1):
        free = ek.Product([ek.Categorical(u, [0.5, 0.5]) for u in range(v + 1, n)])
        zero, one = (ek.Indicator(v, state, 2) for state in (0, 1))
        rest = ek.Sum([ek.Product([zero, free]), ek.Product([one, rest])], [0.5, 0.5])
    return ek.Circuit.from_units(rest, vtree=ek.Vtree.right_linear(n))


@pytest.mark.parametrize(("n", "found"), [
    (1, "1 of its 2 states"),
    (5, "31 of its 32 states"),
    (60, "not all of its states"),
    (200, "not all of its states"),
])  # fmt: skip
def test_one_zero_among_any_number_of_states(n, found):
    p = all_but_one(n)
    assert support_size(p) == 2**n - 1
    assert not is_positive(p)
    message = rf"The target has zeros: {found} are possible"
    assert_raises(ek.PropertyError, message, require_positive, p)
    full = all_but_one(n, holes=0)
    assert support_size(full) == 2**n
    assert is_positive(full)
    require_positive(full)


def test_a_second_call_keeps_the_measure_and_nothing_alive():
    targets = [ek.factorized([[0.5, 0.5], [0.1 * n, 1 - 0.1 * n]]) for n in (1, 2, 3, 4)]
    q = ek.factorized([[0.3, 0.7], [0.6, 0.4]])
    for p in (*targets, *targets[::-1]):
        first, second = ek.kdsd(q, p, ek.ExpHamming()), ek.kdsd(q, p, ek.RBF(0.3))
        fresh = ek.factorized([[0.3, 0.7], [0.6, 0.4]])
        assert first == ek.kdsd(fresh, p, ek.ExpHamming())
        assert second == ek.kdsd(fresh, p, ek.RBF(0.3))
    assert len(q.operand.cached("stein measure", list)) == 1
    gone = ref(targets[0])
    del p, targets
    gc.collect()
    assert gone() is None


def test_large_measures_are_not_kept(monkeypatch):
    monkeypatch.setattr(sys.modules[require_positive.__module__], "KEPT_BYTES", 0)
    p, q = ek.factorized([[0.5, 0.5]] * 3), ek.factorized([[0.3, 0.7]] * 3)
    ek.kdsd(q, p, ek.ExpHamming())
    assert len(q.operand.cached("stein measure", list)) == 0


@settings(max_examples=60)
@given(circuit_problems())
def test_it_is_the_mean_of_the_stein_kernel(problem):
    p, q, twin = problem
    P, Q = distribution(p), distribution(q)
    gram = stein_gram(P, p.cardinalities, twin.naive)
    size = Q @ stein_size(P, p.cardinalities, twin.naive) @ Q
    assert_close(ek.kdsd(q, p, twin.kernel), Q @ gram @ Q, size)
    assert_close(ek.kdsd(p, p, twin.kernel), 0.0, max(1.0, size))


@settings(max_examples=30)
@given(factor_graphs(max_worlds=100, zeros=False), rngs)
def test_samples_against_a_target(model, rng):
    k = ek.ExpHamming()
    X = points(rng, model.cardinalities, 8)
    w = rng.dirichlet(np.ones(8))
    gram = SteinKernel(model, k)(X)
    size = np.abs(gram).max()
    circuit, _ = model.compile()
    for target in (model, circuit):
        assert_close(ek.kdsd(X, target, k), gram.mean(), size)
        assert_close(ek.kdsd(ek.Empirical(X, w), target, k), w @ gram @ w, size)
        u = (gram.sum() - np.trace(gram)) / (8 * 7)
        assert_close(ek.kdsd(X, target, k, unbiased=True), u, size)


def test_long_chains_agree_with_one_variable_at_a_time():
    rng = np.random.default_rng(3)
    p, _ = random_chain(60, rng).compile()
    q, _ = random_chain(60, rng).compile(p.vtree)
    k, total = ek.ExpHamming(), 0.0
    rho = ek.algebra.quotient(q, p)
    for i in range(60):
        change = ek.algebra.linear_combination([rho, ek.algebra.shift(rho, i)], [1.0, -1.0])
        u = ek.algebra.multiply(ek.algebra.shift(p, i), change)
        total += ek.expected_kernel(u, u, k)
    assert_close(ek.kdsd(q, p, k), total)


def test_reasons_not_to_answer():
    k = ek.ExpHamming()
    p, q = ek.factorized([[0.5, 0.5]] * 2), ek.factorized([[0.3, 0.7]] * 2)
    overlapping = ek.mixture([p, q], [0.5, 0.5])
    assert_raises(ek.PropertyError, "needs a deterministic target", ek.kdsd, p, overlapping, k)
    assert ek.kdsd(overlapping, p, k) > 0
    with pytest.raises(ek.PropertyError, match=r"2 of its 4 states are possible"):
        ek.kdsd(p, ek.factorized([[1.0, 0.0], [0.5, 0.5]]), k)
    four = ek.random_circuit(ek.Vtree.balanced(4), 2, rng=0)
    other = ek.FactorGraph([2] * 4, [((0, 2), np.ones((2, 2)))])
    with pytest.raises(ek.CompatibilityError):
        ek.kdsd(four, other.compile(ek.Vtree.from_nested(((0, 2), (1, 3))))[0], k)
    assert_raises(ek.DataError, "at least two points", ek.kdsd, [[0, 1]], p, k, unbiased=True)
    assert_raises(ek.DataError, "must be a FactorGraph", ek.kdsd, p, 3, k)
    real = ek.gaussian_mixture([1.0], [[0.0]], [[1.0]])
    assert_raises(ek.PropertyError, "is real", ek.kdsd, real, real, ek.RBF(1.0))


def test_factor_graphs_are_compiled_on_the_vtree_of_the_other():
    p, q = ek.ising_grid(2, 3, rng=0), ek.ising_grid(2, 3, rng=1)
    r = ek.random_circuit(ek.Vtree.balanced(6), 3, rng=1)
    assert_close(ek.kdsd(r, p, ek.ExpHamming()), ek.kdsd(r, p.compile(r.vtree)[0], ek.ExpHamming()))
    circuit, _ = p.compile()
    wanted = ek.kdsd(q.compile(circuit.vtree)[0], circuit, ek.ExpHamming())
    for target in (p, circuit):
        np.testing.assert_allclose(ek.kdsd(q, target, ek.ExpHamming()), wanted, rtol=1e-10)


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
def test_collapsed_kernels_are_their_definition(problem, rng):
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


test_mistakes_in_collapsed_samples = refusals(None, [
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
