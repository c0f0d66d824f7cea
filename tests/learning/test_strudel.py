"""Splits, flows and searches of Strudel against naive definitions, and mixtures of circuits."""

from hashlib import sha256
from io import StringIO

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import logsumexp
from threadpoolctl import ThreadpoolController

import expectedkernels as ek
from assertions import assert_close, assert_same_circuit, refusals
from expectedkernels import em, learn_chow_liu, learn_mixture, learn_strudel
from expectedkernels.data.schema import Schema
from expectedkernels.learning import strudel as module
from expectedkernels.learning.chow_liu import flow_blocks, tree_of
from expectedkernels.learning.normals import (
    OneThread,
    fit_mixture,
    fit_normal,
    kernel_mixture,
    log_likelihood,
)
from expectedkernels.learning.structure_search import (
    SplitStructure,
    best_edge,
    plan,
    weighted_circuit,
)
from expectedkernels.learning.strudel import (
    CompleteSearch,
    IncompleteSearch,
    _inherit,
    best_variable,
)
from expectedkernels.learning.training_data import Data, PairCounts
from learning_oracles import NaiveStrudel, Unit, flows, shape
from learning_searches import random_rows, steps
from oracles import distribution, worlds
from strategies import domains, rngs


def start(X, cardinalities, weights=None, alpha=1.0, beta=1.0):
    """A search on complete data, at its beginning."""
    weights = np.ones(len(X)) if weights is None else weights
    tree = tree_of(PairCounts(X, cardinalities, weights), alpha)
    return CompleteSearch(tree, X, weights[None, :], beta), tree


def advance(search, alpha=1.0, rng=None, edge="flow"):
    """One split, on a random variable with a generator, of a random edge if asked; whether any."""
    chosen = best_edge(search.circuit, *search.candidates)
    if chosen is not None:
        if edge == "random":
            chosen = int(rng.choice(np.sort(search.candidates[0])))
        search.split(chosen, variable_of(search, chosen, alpha, rng))
    return chosen is not None


def variable_of(search, edge, alpha=1.0, rng=None):
    if rng is None:
        return best_variable(search, edge, alpha)
    return int(rng.choice(search.circuit.splittable_variables(edge)))


def units_of(circuit):
    """The units of a structure as those of the naive search, by their numbers."""
    starts, made = circuit.first, {}

    def unit(number):
        if number not in made:
            if number < circuit.n_indicators:
                v = int(np.searchsorted(starts, number, side="right")) - 1
                made[number] = Unit("indicator", literal=(v, int(number - starts[v])))
            elif circuit.left[number] >= 0:
                pair = circuit.left[number], circuit.right[number]
                made[number] = Unit("product", [unit(below) for below in pair])
            else:
                inputs = [circuit.input_of[edge] for edge in circuit.edges[number]]
                made[number] = Unit("sum", [unit(below) for below in inputs])
        return made[number]

    unit(circuit.root)
    return made


def shape_of(circuit):
    return shape(units_of(circuit)[circuit.root])


@given(rngs, domains(min_variables=2, max_variables=5), st.sampled_from([1.0, 0.1]), st.booleans())
@settings(max_examples=40)
def test_every_split_is_that_of_the_naive_search(rng, cardinalities, alpha, weighted):
    X = random_rows(rng, cardinalities, 25)
    weights = rng.integers(1, 4, size=25) / 4 if weighted else np.ones(25)
    search, tree = start(X, cardinalities, weights, alpha)
    naive = NaiveStrudel(tree.forest.parent, cardinalities, X, weights, alpha)
    assert shape_of(search.circuit) == shape(naive.root)
    for _ in range(12):
        went_on = advance(search, alpha)
        assert went_on == naive.step()
        assert shape_of(search.circuit) == shape(naive.root)
        assert search.circuit.sizes()[2:] == naive.counts()
        logs = naive.log_likelihoods(1.0)
        np.testing.assert_allclose(search.log_likelihoods, [weights @ logs / weights.sum()])
        if not went_on:
            break
    np.testing.assert_allclose(search.to_circuit().log_likelihood(X), logs, atol=1e-12)


@given(rngs, domains(min_variables=2, max_variables=5))
@settings(max_examples=30)
def test_splits_keep_structure_and_support(rng, cardinalities):
    X = random_rows(rng, cardinalities, 30)
    search, tree = start(X, cardinalities, beta=0.0)
    before = search.log_likelihoods[0]
    points = worlds(cardinalities)
    for _ in range(6):
        if not advance(search, rng=rng):
            break
        assert search.log_likelihoods[0] >= before - 1e-12
        before = search.log_likelihoods[0]
    circuit = search.circuit
    p = weighted_circuit(circuit, plan(circuit), np.ones(len(circuit.sum_of)))
    p = ek.Circuit.from_blocks(tree.vtree, p.blocks)
    np.testing.assert_array_equal(np.exp(p.log_likelihood(points)), 1.0)
    found = ek.properties(p)
    assert all([found.smooth, found.deterministic, found.structured_decomposable])
    assert search.to_circuit().vtree == tree.vtree


def test_weights_in_closed_form_are_the_most_likely_ones():
    X = random_rows(np.random.default_rng(0), [2, 3, 2], 60)
    p = learn_strudel(X, iterations=2, pseudocount=0.0)
    again = ek.em(p, X, 1, progress=False)
    np.testing.assert_allclose(distribution(again), distribution(p), rtol=1e-12)


@pytest.fixture(scope="module")
def clusters():
    """Training, validation and test rows of nine variables."""
    rng = np.random.default_rng(5)
    X = random_rows(rng, [2, 2, 3, 2, 2, 4, 2, 2, 2], 1500)
    return X[:700], X[700:1000], X[1000:]


def test_an_interrupt_inside_a_split_leaves_nothing_half_done(clusters, monkeypatch):
    calls = []
    release = SplitStructure._release

    def interrupted(self, edge):
        calls.append(edge)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return release(self, edge)

    monkeypatch.setattr(SplitStructure, "_release", interrupted)
    p = learn_strudel(clusters[0])
    monkeypatch.undo()
    assert len(calls) > 5  # the splits before were made again
    assert_same_circuit(p, learn_strudel(clusters[0], iterations=4))


def test_circuits_are_the_same_on_every_machine():
    """Pairs of variables are exact ties, which rounding errors must not decide."""
    X = np.array([[a, b, a ^ b, b, (a & b) ^ c] for a in (0, 1) for b in (0, 1) for c in (0, 0, 1)])
    search, _ = start(X, [2] * 5)
    for _ in range(12):
        advance(search)
    digest = sha256(repr(shape_of(search.circuit)).encode()).hexdigest()[:16]
    assert digest == "9d01577c6cc5431b"


def start_with_holes(X, cardinalities, beta=1.0):
    """A search on rows with missing values (-1), at its beginning."""
    weights = np.ones(len(X))
    tree = tree_of(PairCounts(X, cardinalities, weights), 1.0)
    X = np.where(X < 0, np.nan, X)
    data = Data(Schema(tuple(cardinalities)), X)
    blocks = flow_blocks(tree, data, beta, 1.0, not np.isnan(X).any())
    return IncompleteSearch(tree, blocks, X, weights[None, :], beta), tree


@given(rngs, domains(min_variables=2, max_variables=5))
@settings(max_examples=20)
def test_expected_flows_of_complete_rows_are_flows(rng, cardinalities):
    X = random_rows(rng, cardinalities, 40)
    complete, _ = start(X, cardinalities)
    expected, _ = start_with_holes(X, cardinalities)
    for _ in range(8):
        went_on = advance(complete)
        assert advance(expected) == went_on
        assert shape_of(expected.circuit) == shape_of(complete.circuit)
        np.testing.assert_allclose(expected.log_likelihoods, complete.log_likelihoods)
        if not went_on:
            break
    points = worlds(cardinalities)
    np.testing.assert_allclose(
        expected.circuit_at(expected.state).log_likelihood(points),
        complete.to_circuit().log_likelihood(points),
        atol=1e-10,
    )


@given(rngs, domains(min_variables=2, max_variables=4))
@settings(max_examples=20)
def test_expected_flows_by_enumeration(rng, cardinalities):
    X = random_rows(rng, cardinalities, 40)
    X[rng.random(X.shape) < 0.3] = -1
    search, _ = start_with_holes(X, cardinalities)
    for _ in range(3):
        advance(search, rng=rng)
    # every point counts as often as rows are expected to be it
    points = worlds(cardinalities).astype(int)
    fits = ((X[:, None, :] == points) | (X[:, None, :] == -1)).all(axis=2)
    posterior = fits * distribution(search._model)
    posterior /= posterior.sum(axis=1, keepdims=True)
    circuit, units = search.circuit, units_of(search.circuit)
    uses = flows(units[circuit.root], points)
    for edge in search.candidates[0].tolist():
        rows, weights = search.rows_through(edge)
        assert (rows[weights > 0] < cardinalities).all()
        use = uses[units[circuit.sum_of[edge]], units[circuit.input_of[edge]]]
        np.testing.assert_allclose(weights.sum(), posterior.sum(axis=0) @ use, atol=1e-9)


@given(rngs, domains(min_variables=2, max_variables=5))
@settings(max_examples=20)
def test_splits_inherit_weights_that_keep_the_distribution(rng, cardinalities):
    search, _ = start_with_holes(random_rows(rng, cardinalities, 20), cardinalities)
    for _ in range(4):
        advance(search, rng=rng, edge="random")
    before = distribution(search._model)
    edge = best_edge(search.circuit, *search.candidates)
    if edge is None:
        return
    circuit = search.circuit
    done = circuit.split(edge, variable_of(search, edge, rng=rng))
    theta = np.pad(search._theta, (0, len(circuit.sum_of) - len(search._theta)))
    _inherit(circuit, done, theta)
    after = weighted_circuit(circuit, plan(circuit), theta)
    np.testing.assert_allclose(distribution(after), before, rtol=1e-12)


@given(rngs, domains(max_worlds=16, max_variables=4))
@settings(max_examples=30)
def test_all_splits_together_represent_the_data_exactly(rng, cardinalities):
    X = random_rows(rng, cardinalities, 20)
    p = learn_strudel(X, iterations=10_000, pseudocount=0.0, cardinalities=cardinalities)
    _, place, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    np.testing.assert_allclose(np.exp(p.log_likelihood(X)), counts[place.ravel()] / 20)


def test_the_callback_hears_of_every_split(clusters):
    p, told = steps(clusters[0], iterations=20)
    assert [step.iteration for step in told] == list(range(1, 21))
    assert_close(np.float64(told[-1].log_likelihood), p.log_likelihood(clusters[0]).mean())
    assert all(step.valid_log_likelihood is None for step in told)
    sizes = [(step.units, step.decisions, step.elements) for step in told]
    assert sizes == sorted(sizes)
    _, told = steps(clusters[0], clusters[1], 5)
    assert all(step.valid_log_likelihood < 0 for step in told)


@pytest.mark.parametrize("holes", [False, True])
def test_validation_rows_choose_the_circuit(clusters, holes):
    train, valid, _ = clusters
    valid = np.where(holes & (np.arange(9) == 2), np.nan, valid)
    p, told = steps(train, valid, 2000, patience=30)
    values = [step.valid_log_likelihood for step in told]
    best = int(np.argmax(values))
    assert len(told) == best + 1 + 30
    assert_close(np.float64(values[best]), p.log_likelihood(valid).mean())
    again = learn_strudel(train, iterations=best + 1)
    assert_close(p.log_likelihood(train), again.log_likelihood(train))
    if not holes:
        assert_same_circuit(p, again)


def test_the_tree_may_be_the_best(clusters):
    """Validation rows from elsewhere never improve."""
    train, valid, _ = clusters
    noise = np.random.default_rng(0).integers(2, size=valid.shape)
    p, told = steps(train, noise, 300, patience=7, pseudocount=0.01)
    values = [step.valid_log_likelihood for step in told]
    tree = learn_chow_liu(train, 0.01)
    best = max(tree.log_likelihood(noise).mean(), *values)
    assert_close(p.log_likelihood(noise).mean(), np.float64(best))
    assert len(told) < len(steps(train, noise, 150, patience=None)[1]) == 150


@pytest.mark.parametrize("holes", [False, True])
def test_an_interrupt_returns_the_best_circuit_so_far(clusters, holes):
    X = clusters[0][:200].astype(float)
    if holes:
        X[::3, 4] = np.nan

    def stop(step):
        if step.iteration == 4:
            raise KeyboardInterrupt

    p = learn_strudel(X, callback=stop)
    assert_same_circuit(p, learn_strudel(X, iterations=4))


def test_progress_tells_of_an_interrupt_on_a_terminal(clusters, monkeypatch):
    def stop(step):
        raise KeyboardInterrupt

    terminal = StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    learn_strudel(clusters[0], clusters[1], callback=stop)
    assert "Strudel was interrupted: returning the best model so far" in terminal.getvalue()


def test_the_order_of_rows_does_not_matter(clusters):
    X = clusters[0]
    shuffled = np.random.default_rng(0).permutation(X)
    assert_same_circuit(learn_strudel(X, iterations=40), learn_strudel(shuffled, iterations=40))


@pytest.mark.parametrize(("iterations", "size", "means"), [
    (200, (619, 917), (-6.1149, -6.0920, -6.1347)),
    (500, (1575, 2382), (-6.0184, -6.0073, -6.0677)),
])  # fmt: skip
def test_nltcs(nltcs, iterations, size, means):
    p, told = steps(nltcs[0], iterations=iterations)
    assert (told[-1].decisions, told[-1].elements) == size
    found = [float(p.log_likelihood(X).mean()) for X in nltcs]
    np.testing.assert_allclose(found, means, rtol=0, atol=5e-5)
    assert ek.properties(p).deterministic


def test_missing_values(clusters):
    train, valid, test = (X.astype(float) for X in clusters)
    rng = np.random.default_rng(0)
    holes = np.where(rng.random(train.shape) < 0.2, np.nan, train)
    valid = np.where(rng.random(valid.shape) < 0.2, np.nan, valid)
    tree = learn_chow_liu(holes)
    p, told = steps(holes, iterations=25)
    assert ek.properties(p).deterministic
    assert p.vtree == tree.vtree
    assert p.log_likelihood(holes).mean() >= told[-1].log_likelihood - 1e-9
    assert p.log_likelihood(test).mean() > tree.log_likelihood(test).mean() + 0.03
    q, told = steps(holes, valid, 25, patience=5)
    assert ek.properties(q).deterministic
    assert len(told) <= 25


NAN = np.nan


def learned(X, k, **options):
    return learn_mixture(X, k, **({"rng": 0, "progress": False} | options))


def rows(n=200, seed=0):
    """Rows of five binary variables from three groups."""
    rng = np.random.default_rng(seed)
    centres = np.array([[9, 9, 1, 1, 5], [1, 8, 9, 9, 1], [3, 1, 2, 9, 9]]) / 10
    return (rng.random((n, 5)) < centres[rng.integers(3, size=n)]).astype(float)


def structure_of(X, splits=3):
    return learn_strudel(X, iterations=splits, progress=False)


def naive_em(components, weights, X, iterations, beta):
    """EM with components fitted one by one, each to all rows with its responsibilities."""
    for _ in range(iterations):
        logs = np.stack([c.log_likelihood(X) for c in components], axis=1) + np.log(weights)
        r = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        weights = r.mean(axis=0)
        components = [
            em(c, X, 1, pseudocount=beta / r[:, k].mean(), sample_weight=r[:, k], progress=False)
            for k, c in enumerate(components)
        ]
    return ek.mixture(components, weights)


@pytest.mark.parametrize("holes", [0.0, 0.2])
@pytest.mark.parametrize("pseudocount", [0.0, 0.5])
def test_em_is_that_of_the_definition(monkeypatch, holes, pseudocount):
    X = rows(120)
    p = structure_of(X)
    X[np.random.default_rng(1).random(X.shape) < holes] = NAN
    cluster = np.random.default_rng(2).integers(3, size=len(X))
    R = 0.9 * np.eye(3)[cluster] + 0.1 / 3
    # distinct rows may be in several clusters here: what counts is the sum over equal rows
    start = [
        em(p, X, 1, pseudocount=pseudocount / R[:, k].mean(), sample_weight=R[:, k], progress=False)
        for k in range(3)
    ]
    expected = naive_em(start, R.mean(axis=0), X, 4, pseudocount)

    def clusters(distinct, weights, cardinalities, n, generator):
        shares = np.zeros((len(distinct), n))
        for x, r in zip(X, R, strict=True):
            shares[np.array([np.array_equal(x, y, equal_nan=True) for y in distinct])] += r
        return shares / weights[:, None]

    monkeypatch.setattr(module, "_clusters", clusters)
    q = learned(X, 3, structure=p, iterations=4, pseudocount=pseudocount)
    np.testing.assert_allclose(q.log_likelihood(X), expected.log_likelihood(X), rtol=1e-8)


def test_equal_components_are_one_circuit(monkeypatch):
    X = rows(100)
    p = structure_of(X)
    monkeypatch.setattr(module, "_clusters", lambda X, *of: np.full((len(X), of[2]), 1 / of[2]))
    q = learned(X, 3, structure=p, iterations=3, pseudocount=0.0)
    single = em(p, X, 1, progress=False)
    assert_close(q.log_likelihood(X), single.log_likelihood(X), scale=1.0)
    assert q.n_units == single.n_units


def test_more_states_missing_values_and_few_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 4)).astype(float)
    X[:, 1] = X[:, 0]
    q = learned(X, 3, splits=2, iterations=5)
    assert q.cardinalities == (3, 3, 3, 3)
    X[rng.random(X.shape) < 0.2] = NAN
    holey = learned(X, 3, splits=2, iterations=5)
    assert holey.log_partition() == pytest.approx(0.0, abs=1e-9)
    assert learned(X[:2], 5, splits=0, cardinalities=3, iterations=2).n_variables == 4


def test_validation_data_choose_the_iteration():
    X, X_valid = rows(40, seed=0), rows(400, seed=1)
    p = structure_of(X, splits=8)
    options = {"structure": p, "pseudocount": 0.05}
    every = (learned(X, 4, iterations=i, **options) for i in range(25))
    means = [p.log_likelihood(X_valid).mean() for p in every]
    best = learned(X, 4, iterations=24, X_valid=X_valid, **options)
    assert best.log_likelihood(X_valid).mean() == pytest.approx(max(means), abs=1e-10)
    assert max(means) > means[-1] + 1e-4


def test_seeds_tolerance_and_options():
    X = rows(100)
    a, b = (learned(X, 3, splits=2, iterations=3, rng=5) for _ in range(2))
    np.testing.assert_array_equal(a.log_likelihood(X), b.log_likelihood(X))
    p = structure_of(X)
    far, near = (learned(X, 3, structure=p, tolerance=t) for t in (1e-9, 1e9))
    assert_close(near.log_likelihood(X), learned(X, 3, structure=p, iterations=1).log_likelihood(X))
    assert far.log_likelihood(X).mean() > near.log_likelihood(X).mean()
    top = learned(X, 2, splits=2, iterations=1, alpha=0.5)
    assert top.n_roots == 1


def test_mixtures_of_a_real_data_set(nltcs):
    X, _, test = nltcs
    single = learn_strudel(X, iterations=100, progress=False)
    alone = learned(X, 1, splits=100, iterations=1)
    assert_close(alone.log_likelihood(test), single.log_likelihood(test), scale=1.0)
    mixed = learned(X, 5, splits=100, iterations=50)
    gain = mixed.log_likelihood(test).mean() - single.log_likelihood(test).mean()
    assert gain > 0.15
    assert ek.is_compatible(mixed, single)
    few = learned(X, 5, splits=100, iterations=5)
    assert -6.07 < few.log_likelihood(test).mean() < -6.035


PAIR = {"X": [[0, 0], [1, 1]], "k": 2, "structure": ek.factorized([[0.5, 0.5]] * 2)}
SURE = ek.factorized([[1, 0], [1, 1]], normalized=False)


test_bad_arguments_are_refused = refusals(ek.CircuitError, [
    ({"X": [[0.5, 0]]}, r"must be integers in 0..1. Got 0.5 in row 0"),
    ({"alpha": 0.5}, "Options of learn_strudel mean nothing .* Got alpha"),
    ({"structure": SURE}, "Row 1 of X has probability zero"),
    ({"structure": SURE, "X": [[0, 0]], "X_valid": [[1, 0]]}, "Row 0 of X_valid has"),
    ({"structure": ek.gaussian_mixture([1], [[0, 0]], [[1, 1]])}, "has the real variable 0"),
    ({"X": np.empty((0, 2))}, "A mixture needs at least one row"),
    ({"structure": "p.npz"}, "the structure of a Circuit. Got str instead"),
], lambda options: learned(**PAIR | options))  # fmt: skip


def test_components_without_pseudocount_do_not_disturb_each_other():
    # a weight of zero in one component must not touch the structure it shares with the others
    X = np.array([[0, 1], [1, 1]])
    p = ek.learn_mixture(X, 3, rng=0, pseudocount=0.0)
    assert np.isclose(p.log_partition(), 0.0)
    assert np.exp(p.log_likelihood([[0, 0], [1, 0]])).tolist() == [0.0, 0.0]


def test_any_circuit_can_be_the_structure():
    X = rows(150)
    dense = ek.random_circuit(5, 4, rng=0)
    q = learned(X, 2, structure=dense, iterations=5)
    assert q.log_partition() == pytest.approx(0.0, abs=1e-9)
    assert q.log_likelihood(X).mean() > dense.log_likelihood(X).mean()


def test_learning_with_holes_never_lowers_the_likelihood():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 3))
    whole = fit_normal(Z)
    np.testing.assert_allclose(whole.means[0], Z.mean(axis=0))
    Z[rng.random(Z.shape) < 0.3] = np.nan
    logs = [log_likelihood(fit_normal(Z, steps=n, tolerance=0), Z).mean() for n in range(1, 12)]
    assert (np.diff(logs) > -1e-3).all()
    mixture = fit_mixture(Z, 2, rng=rng)
    assert log_likelihood(mixture, Z).mean() > logs[0]


def test_kernel_mixtures_keep_mean_and_covariance():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 2))
    normal = fit_normal(Z)
    found = kernel_mixture(Z, normal, 0.6, rng)
    np.testing.assert_allclose(found.weights @ found.means, normal.means[0], atol=1e-12)
    away = found.means - normal.means[0]
    total = found.covariances[0] + (found.weights[:, None] * away).T @ away
    np.testing.assert_allclose(total, normal.covariances[0], rtol=0.1, atol=0.05)


def blas_threads():
    found = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in found]


def test_the_limit_on_threads_is_lifted_by_the_last_that_leaves():
    before, limit = blas_threads(), OneThread()
    limit.__enter__()
    limit.__enter__()
    assert set(blas_threads()) == {1}
    limit.__exit__()
    assert set(blas_threads()) == {1}
    limit.__exit__()
    assert blas_threads() == before
