"""EM against its definition, by layers and by patterns of rows; chunks, progress, interrupts."""

import sys
from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import expectedkernels as ek
from assertions import assert_close, refusals
from circuit_oracles import drawn_deterministic, drawn_distribution, sparsified
from expectedkernels import em, random_circuit
from expectedkernels.circuits import operands
from expectedkernels.data.evidence import as_evidence
from expectedkernels.learning.em import _by_layers
from expectedkernels.learning.training_data import Rows
from oracles import Inner, Real as Normal, Table, distribution, evidence_weights, with_holes, worlds
from strategies import circuits, domains, evidence, rngs

NAN = np.nan


def fit(circuit, X, iterations=1, **options):
    return em(circuit, X, iterations, progress=False, **options)


def normalized(circuit):
    """The circuit with every unit summing to one: EM without iterations."""
    return fit(circuit, np.full((1, circuit.n_variables), NAN), 0)


def numbers_of(block):
    """The parameters of a discrete block, one row per unit; None if there are none."""
    numbers = block.numbers
    return numbers.toarray() if sparse.issparse(numbers) else numbers


def with_numbers(circuit, node, numbers):
    """The circuit with other parameters at one node."""
    blocks = list(circuit.blocks)
    name = "table" if isinstance(blocks[node], Table) else "weights"
    blocks[node] = replace(blocks[node], **{name: numbers})
    return ek.Circuit(circuit.vtree, tuple(blocks))


def same_parameters(p, q):
    for a, b in zip(p.blocks, q.blocks, strict=True):
        assert (type(a), a.n_units) == (type(b), b.n_units)
        if numbers_of(a) is not None:
            np.testing.assert_allclose(numbers_of(a), numbers_of(b), rtol=1e-9, atol=1e-12)


def naive_counts(circuit, weights, sample_weight):
    """For every node the expected uses of its parameters, by taking each one away in turn.

    A circuit's value is linear in every parameter w, so the probability that it is used is
    (p - p at w = 0) / p.
    """
    X = worlds(circuit.cardinalities)
    allowed = evidence_weights(weights, X)
    whole = allowed @ distribution(circuit)
    counts = []
    for node, block in enumerate(circuit.blocks):
        numbers = numbers_of(block)
        if numbers is None:
            counts.append(None)
            continue
        found = np.zeros_like(numbers)
        for place in np.argwhere(numbers != 0):
            less = numbers.copy()
            less[tuple(place)] = 0.0
            without = allowed @ distribution(with_numbers(circuit, node, less))
            found[tuple(place)] = sample_weight @ ((whole - without) / whole)
        counts.append(found)
    return counts


def naive_shares(old, counts, beta):
    new = old.copy()
    for unit, row in enumerate(counts):
        alive = old[unit] != 0
        if row.sum() + beta > 1e-12 and alive.any():
            new[unit] = (row + beta * alive / alive.sum()) / (row.sum() + beta)
    return new


@given(st.data(), st.booleans())
@settings(max_examples=60)
def test_one_iteration_is_that_of_the_definition(data, by_layers):
    cards = data.draw(domains(max_worlds=32, max_variables=4))
    p = normalized(data.draw(circuits(cards)))
    rows = data.draw(evidence(p, rows=data.draw(st.sampled_from([1, 5, 40]))))
    n = len(rows.weights[0])
    sample_weight = data.draw(rngs).gamma(1.0, size=n)
    pseudocount = data.draw(st.sampled_from([0.0, 0.7]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_by_layers", lambda *_: by_layers)
        q = fit(p, rows.given, pseudocount=pseudocount, sample_weight=sample_weight)
    beta = pseudocount * sample_weight.mean()
    counts = naive_counts(p, rows.weights, sample_weight)
    for old, new, found in zip(p.blocks, q.blocks, counts, strict=True):
        if found is None:
            assert new is old
            continue
        expected = naive_shares(numbers_of(old), found, beta)
        np.testing.assert_allclose(numbers_of(new), expected, rtol=1e-7, atol=1e-9)


def test_deep_circuits():
    p = ek.hmm([0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]], [[0.9, 0.1], [0.2, 0.8]], length=1000)
    X = with_holes(p.sample(40, rng=0), 0.5)
    q = fit(p, X)
    assert q.log_likelihood(X).mean() > p.log_likelihood(X).mean()
    assert q.log_partition() == pytest.approx(0.0, abs=1e-8)


def test_the_structure_stays_unit_for_unit():
    equal = np.full((2, 2), 0.5)
    blocks = (Table(equal), Table(equal), Inner(2, 2, None, None, equal), Table(equal))
    root = Inner(2, 1, None, None, sparse.csr_array([[0.5, 0.5]]))
    vtree = ek.Vtree.from_nested(((0, 1), 2))
    q = fit(ek.Circuit(vtree, (*blocks, root)), [[0, 1, 1], [1, 1, 0]], 2)
    assert [block.n_units for block in q.blocks] == [2, 2, 2, 2, 1]
    assert (q.blocks[2].is_sparse, q.blocks[-1].is_sparse) == (False, True)


def test_unnormalised_circuits_are_normalised_first_and_evidence_counts_as_it_weighs():
    p = ek.factorized([[2.0, 6.0], [1.0, 1.0]], normalized=False)
    assert_close(fit(p, [[0, 1]], 0).input(0).table, np.array([[0.25, 0.75]]))
    same_parameters(fit(p, [[0, NAN]], 1), fit(p.normalize(), [[0, NAN]], 1))
    q = fit(ek.factorized([[0.5, 0.5]]), [np.array([[3e-200, 1e-200], [1.0, 0.0]])])
    assert_close(q.input(0).table, np.array([[0.875, 0.125]]))


def test_shares_do_not_fade_out_of_range():
    blocks = (Table(np.array([[0.4, 0.6], [1.0, 0.0]])), Table(np.array([[0.4, 0.6], [1.0, 0.0]])))
    root = Inner(2, 1, None, None, np.array([[0.5, 0.5]]))
    p = ek.Circuit(ek.Vtree.balanced(2), (*blocks, root))
    X = [[0, 0]] * 9 + [[0, 1], [1, 0], [1, 1]]
    q = fit(p, X, 400)
    weights = q.blocks[-1].weights
    assert weights.min() >= 1e-30
    assert_close(weights.sum(), np.float64(1.0))


def gaussian_em(weights, means, variances, X):
    """One iteration for a mixture of independent normals with missing values, by the book."""
    logs = np.log(weights) + np.zeros((len(X), 1))
    for x, mean, variance in zip(X.T, means.T, variances.T, strict=True):
        density = -0.5 * ((x[:, None] - mean) ** 2 / variance + np.log(2 * np.pi * variance))
        logs += np.where(np.isnan(x)[:, None], 0.0, density)
    r = np.exp(logs - logs.max(axis=1, keepdims=True))
    r /= r.sum(axis=1, keepdims=True)
    hole = np.isnan(X)[:, None, :]
    filled = np.where(hole, means, X[:, None, :])
    new = (r[:, :, None] * filled).sum(axis=0) / r.sum(axis=0)[:, None]
    square = (filled - new) ** 2 + np.where(hole, variances, 0.0)
    return r.mean(axis=0), new, (r[:, :, None] * square).sum(axis=0) / r.sum(axis=0)[:, None]


def mixture_of_normals(weights, means, variances):
    """A mixture in which every component has input units of its own, in order."""
    n = len(weights)
    leaves = [Normal(np.eye(n), m, v) for m, v in zip(means.T, variances.T, strict=True)]
    root = Inner(n, 1, None, None, weights[None])
    return ek.Circuit(ek.Vtree.balanced(2), (*leaves, root))


@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("far", [1.0, 50.0])
def test_gaussian_mixtures_are_fitted_by_the_book(holes, far):
    rng = np.random.default_rng(0)
    centres = far * np.array([[0.0, 0.0], [4.0, 4.0], [-5.0, 3.0]])
    X = centres[rng.integers(3, size=200)] + rng.normal(size=(200, 2))
    X[rng.random(X.shape) < holes] = NAN
    state = np.array([0.2, 0.3, 0.5]), centres + rng.normal(size=(3, 2)), np.full((3, 2), 2.0)
    p = mixture_of_normals(*state)
    for _ in range(4):
        state = gaussian_em(*state, X)
        p = fit(p, X)
        assert_close(p.blocks[-1].weights[0], state[0])
        for v in range(2):
            np.testing.assert_allclose(p.input(v).mean, state[1][:, v], rtol=1e-9)
            np.testing.assert_allclose(p.input(v).variance, state[2][:, v], rtol=1e-7)


def test_inputs_that_are_mixtures_of_normals():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, 100), rng.normal(3, 0.5, 300), [NAN] * 10])[:, None]
    p = ek.gaussian_mixture([0.5, 0.5], [-1.0, 1.0], [1.0, 1.0])
    q = fit(p, X, 100)
    assert q.input(0).weights[0].round(2).tolist() == [0.25, 0.75]
    assert np.abs(q.input(0).mean - [-3, 3]).max() < 0.2
    assert q.log_likelihood(X).mean() > p.log_likelihood(X).mean()
    uneven = fit(p, X, pseudocount=1e9)
    assert_close(uneven.input(0).weights, np.array([[0.5, 0.5]]), scale=1e5)


def test_variances_do_not_vanish_and_points_stay():
    X = np.array([[0.0], [0.0], [0.0], [5.0], [6.0]])
    p = ek.gaussian_mixture([0.5, 0.5], [0.0, 5.0], [0.1, 1.0])
    q = fit(p, X, 30)
    assert q.input(0).variance.min() == pytest.approx(1e-6 * X.var())
    point = Normal(np.array([[0.5, 0.5]]), np.array([0.0, 5.0]), np.array([0.0, 1.0]))
    fitted = fit(ek.Circuit(ek.Vtree.balanced(1), (point,)), X, 2).input(0)
    assert fitted.mean[0] == fitted.variance[0] == 0.0
    constant = fit(ek.gaussian_mixture([1.0], [0.0], [1.0]), np.full((4, 1), 7.0), 5)
    assert constant.input(0).mean.tolist() == [7.0]
    assert constant.input(0).variance.min() > 0


def test_no_iterations_or_a_tolerance():
    p = ek.random_circuit(4, 3, rng=0)
    X = np.random.default_rng(0).integers(2, size=(50, 4))
    same_parameters(fit(p, X, 0), p)
    far, near = fit(p, X, 200, tolerance=1e-7), fit(p, X, 200, tolerance=1e-2)
    assert far.log_likelihood(X).mean() > near.log_likelihood(X).mean()
    same_parameters(fit(p, X, 200, tolerance=1e9), fit(p, X, 2))


SURE = ek.factorized([[1.0, 0.0], [0.5, 0.5]])


test_bad_arguments_are_refused = refusals(ek.CircuitError, [
    ({"sample_weight": [1.0]}, "'sample_weight' parameter must be 2 finite numbers"),
    ({"sample_weight": [0.0, 0.0]}, "'sample_weight' parameter must have a positive"),
    ({"X": np.empty((0, 2))}, "EM needs at least one row of data. Got none"),
    ({"X": [[0, 3], [0, 0]]}, r"on variable 1 must be integers in 0..1. Got 3.0 in row 0"),
    ({"X": [[1, 0], [0, 0], [1, 1]], "sample_weight": [0, 1, 1]},
     "Row 2 of the data has probability zero"),
    ({"circuit": "p.npz"}, "the structure of a Circuit. Got str instead"),
    ({"circuit": ek.Categorical(0, [0.5, 0.5])},
     "Got Categorical instead. Make one with Circuit.from_units"),
    ({"max_bytes": "1 GiB"}, "'max_bytes' parameter must be a positive int. Got '1 GiB'"),
    ({"X": [[0, 0], [1, 0]]}, "Row 1 of the data has probability zero under the circuit"),
    ({"X_valid": np.empty((0, 2))}, "X_valid must have at least one row"),
    ({"X_valid": lambda: [[[0, 0]]]}, "X_valid must be rows in memory"),
    ({"circuit": ek.factorized([[2.0, -1.0], [1.0, 1.0]], normalized=False)},
     "EM needs a circuit without negative weights"),
    ({"circuit": ek.algebra.stack([ek.factorized([[1.0, 0.0]]), ek.factorized([[0, 1]])])},
     r"EM needs a circuit with one root\. Got 2 roots"),
], lambda options: fit(**{"circuit": SURE, "X": [[0, 0], [0, 1]]} | options))  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"batch_size": 20, "rng": 0}])
@pytest.mark.parametrize("in_chunks", [False, True])
def test_validation_keeps_the_best_iteration_and_stops(options, in_chunks):
    source = ek.random_circuit(6, 2, rng=0)
    X, valid = source.sample(40, rng=1), source.sample(60, rng=2)
    start, data = ek.random_circuit(6, 8, rng=3), (lambda: [X[:25], X[25:]]) if in_chunks else X
    told = []
    options = {"progress": False, "callback": lambda *now: told.append(now), **options}
    p = ek.em(start, data, 60, X_valid=valid, patience=3, **options)
    means = [mean for _, mean in told]
    best = int(np.argmax(means))
    assert len(told) == min(60, best + 4) < 60
    for circuit, mean in told:
        assert_close(np.float64(mean), circuit.log_likelihood(valid).mean())
    assert_close(p.log_likelihood(valid), told[best][0].log_likelihood(valid))
    assert len({id(p), id(told[-1][0])}) == 2
    told.clear()
    ek.em(start, data, 30, X_valid=valid, patience=30, **options)
    assert len(told) == 30


module = sys.modules[em.__module__]  # the package has the function under this name


def test_rows_are_worked_on_in_chunks():
    p = ek.random_circuit(6, 4, rng=1)
    X = np.random.default_rng(0).integers(2, size=(300, 6)).astype(float)
    weights = np.linspace(0.5, 2.0, 300)
    assert len(list(module.pattern_chunks(p, as_evidence(X, p.cardinalities), 4000))) > 4
    options = {"sample_weight": weights, "pseudocount": 1.0}
    same_parameters(fit(p, X, 3, max_bytes=4000, **options), fit(p, X, 3, **options))


@pytest.mark.parametrize("density", [None, 0.2])
@pytest.mark.parametrize("always_gather", [False, True])
def test_values_out_of_range_make_no_difference(monkeypatch, density, always_gather):
    p = ek.random_circuit(ek.Vtree.random(8, rng=0), 6, rng=1, cardinalities=3, density=density)
    p = p if density is None else sparsified(p)
    X = with_holes(p.sample(70, rng=0), 0.3)
    plain = fit(p, X, 2)
    monkeypatch.setattr(module, "_by_layers", lambda *_: False)
    if always_gather:
        monkeypatch.setattr("expectedkernels.learning.em.GATHER_ABOVE", 0)
        monkeypatch.setattr("expectedkernels.learning.em.CHUNK", 100)
    else:
        monkeypatch.setattr(operands, "LEAST_MARGIN", np.inf)  # logarithms only
    same_parameters(fit(p, X, 2), plain)


def watched(monkeypatch):
    """What stands for a bar on a terminal, and records what it would show."""
    bar = MagicMock(disable=False)
    bar.__enter__.return_value, bar.__exit__.return_value = bar, None
    monkeypatch.setattr(module.checks, "progress_bar", lambda *given, **more: bar)
    return bar


def test_an_interrupt_returns_the_last_circuit(monkeypatch):
    p = ek.random_circuit(4, 3, rng=0)
    X = np.random.default_rng(0).integers(2, size=(50, 4))
    expected = fit(p, X, 2)
    step, calls = module.maximized, []

    def interrupted(*arguments):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(module, "maximized", interrupted)
    bar = watched(monkeypatch)
    same_parameters(em(p, X, 10), expected)
    assert "interrupted" in bar.write.call_args.args[0]
    assert bar.__exit__.called


def test_the_bar_shows_the_likelihood(monkeypatch, capsys):
    p = ek.factorized([[0.5, 0.5]])
    em(p, [[0], [1]], 3)
    assert capsys.readouterr() == ("", "")
    bar = watched(monkeypatch)
    em(p, [[0], [1]], 3)
    for shown in bar.set_postfix_str.call_args_list:
        likelihood, rows = shown.args[0].rsplit(", ", 1)
        assert likelihood == "log-likelihood -0.6931, 1.0000 bits per variable"
        assert rows.endswith(" rows/s")
        assert float(rows.split()[0]) > 0
    assert bar.set_postfix_str.call_count == 3
    assert sum(call.args[0] for call in bar.update.call_args_list) == 3


@pytest.mark.parametrize("seed", range(4))
def test_sparse_weights_may_become_zero(seed):
    p = drawn_deterministic(seed)
    X = p.sample(2, rng=0)
    found = em(sparsified(p), X, 3, progress=False).log_likelihood(X)
    np.testing.assert_allclose(found, em(p, X, 3, progress=False).log_likelihood(X), rtol=1e-9)


def test_real_variables_and_several_roots_are_left_to_flows():
    for p, shape in ((drawn_distribution(1, share_real=1.0), 2), (random_circuit(2, 2), (2, 2))):
        X = as_evidence(with_holes(p.sample(2, rng=0), 0.4), p.schema)
        rows = Rows(X, np.ones(shape), np.arange(2), 2)
        assert not _by_layers(p, rows)
