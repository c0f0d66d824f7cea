from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, strategies as st

import expectedkernels as ek
from expectedkernels.compilation import messages
from expectedkernels.compilation.datasets import asia, ising_grid
from expectedkernels.errors import EvidenceError, SizeError
from expectedkernels.vtree import Vtree
from factor_graphs import factor_graphs, scores
from oracles import worlds
from strategies import rngs


def written_out(circuit):
    return ek.Circuit(circuit.vtree, circuit.blocks, circuit.names, circuit.states)


def assert_same(circuit, evidence, rows):
    """Answers are those of the circuit's units, and need no unit."""
    assert circuit.is_deferred
    marginals, logs = circuit.marginals(evidence), circuit.log_likelihood(rows)
    assert circuit.log_partition() == 0.0
    assert circuit.is_deferred
    units = written_out(circuit)
    assert units.shortcuts is None
    for ours, theirs in zip(marginals, units.marginals(evidence), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(logs, units.log_likelihood(rows), rtol=1e-13, atol=1e-13)


@given(factor_graphs(), rngs, st.booleans())
def test_answers_are_those_of_units(model, rng, linear):
    points = worlds(model.cardinalities)
    vtree = Vtree.right_linear(rng.permutation(model.n_variables).tolist()) if linear else None
    row = points[rng.choice(np.flatnonzero(scores(model) > 0))]
    rows = points[rng.integers(len(points), size=4)]
    rows[::2][rng.random((2, len(row))) < 0.5] = np.nan
    soft = [rng.random((1, card)) for card in model.cardinalities]
    for evidence in (None, np.where(rng.random(len(row)) < 0.5, row, np.nan), soft):
        assert_same(model.compile(vtree, "context")[0], evidence, rows)


@given(factor_graphs(), rngs)
def test_tables_are_cut_down_to_what_is_observed(model, rng):
    points = worlds(model.cardinalities)
    row = points[rng.choice(np.flatnonzero(scores(model) > 0))]
    row = np.where(rng.random(len(row)) < 0.5, row, np.nan)
    mixed = [
        (np.arange(card) == row[v])[None] * 0.5 if row[v] >= 0 else rng.random((1, card))
        for v, card in enumerate(model.cardinalities)
    ]
    circuit, _ = model.compile()
    for evidence in (row, mixed):
        expected = model.marginals(evidence), model.log_partition(evidence)
        with patch.object(messages, "CUT", 0):
            for asked in (model, circuit):
                for ours, theirs in zip(asked.marginals(evidence), expected[0], strict=True):
                    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(
                model.log_partition(evidence), expected[1], rtol=1e-12, atol=1e-13
            )


def test_many_rows_are_answered_by_units():
    circuit, _ = asia().compile()
    rows = circuit.sample(300, rng=0)
    circuit, _ = asia().compile()
    logs = circuit.log_likelihood(rows)
    assert circuit.is_deferred  # complete rows are looked up
    np.testing.assert_allclose(logs, written_out(circuit).log_likelihood(rows), rtol=1e-12)
    rows[:, 2] = np.nan
    circuit, _ = asia().compile()
    circuit.marginals(rows)
    assert not circuit.is_deferred
    np.testing.assert_allclose(
        circuit.marginals(rows[0]), asia().compile()[0].marginals(rows[0]), atol=1e-13
    )


def test_units_are_written_out_when_single_questions_would_have_paid_for_them():
    circuit, _ = asia().compile()
    row = np.array([np.nan, 1.0] * 4)
    expected = [m.copy() for m in circuit.marginals(row)]
    assert circuit.is_deferred
    for _ in range(20):
        found = circuit.marginals(row)
    assert not circuit.is_deferred
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def test_names_need_no_units():
    circuit, _ = asia().compile()
    named = circuit.with_names([f"x{v}" for v in range(8)])
    assert named.marginals({"x0": 0})["x0"].tolist() == [1.0, 0.0]
    assert circuit.is_deferred
    assert named.is_deferred
    assert named.n_units == circuit.n_units
    assert not circuit.is_deferred


def test_variables_with_one_state():
    rng = np.random.default_rng(1)
    star = [((0, v), rng.random((1, 2))) for v in range(1, 5)]
    circuit, _ = ek.FactorGraph([1, 2, 2, 2, 2], [*star, ((1, 2), rng.random((2, 2)))]).compile()
    assert_same(circuit, {2: 1}, np.array([[0, 1, 0, np.nan, 1], [0, 1, 1, 0, 1.0]]))


@pytest.mark.filterwarnings("ignore:.* conditional probabilities of the model are below")
def test_ranges_beyond_doubles():
    rng = np.random.default_rng(0)
    factors = [((v, v + 1), np.exp(rng.uniform(-650, 0, size=(2, 2)))) for v in range(9)]
    circuit, _ = ek.FactorGraph([2] * 10, factors).compile()
    assert_same(circuit, {0: [1e-300, 1.0], 9: 1}, rng.integers(2, size=(2, 10)).astype(float))


def test_units_that_do_not_fit():
    grid = ising_grid(5, 5, rng=0)
    plan = grid.plan()
    needed = grid.messages.table_bytes
    assert needed < plan.n_bytes
    circuit, _ = grid.compile(max_bytes=needed)
    np.testing.assert_allclose(
        np.array(circuit.marginals({3: 0})), np.array(grid.marginals({3: 0})), atol=1e-13
    )
    with pytest.raises(SizeError, match=r"To write out the units of this circuit needs about"):
        circuit.sample(3)
    assert repr(circuit) == "<Circuit of 25 variables: too large to be written out>"
    with pytest.raises(SizeError, match="Compiling this model needs about"):
        grid.compile(max_bytes=needed - 1)


def test_impossible_evidence():
    model = ek.FactorGraph([2, 2], [((0, 1), np.eye(2))])
    circuit, _ = model.compile()
    with pytest.raises(EvidenceError, match="The evidence in row 0 has probability zero"):
        circuit.marginals({0: 0, 1: 1})
    assert circuit.log_likelihood([[0, 1], [0, np.nan]])[0] == -np.inf
    assert circuit.is_deferred


def test_conditionals_too_small_for_doubles_are_not_lost_silently():
    model = ek.FactorGraph([2, 2], [((0, 1), [[1e-162, 2e-162], [3e160, 5e160]])])
    for method in (None, "boundary"):
        with pytest.warns(UserWarning, match="conditional probabilities of the model are below"):
            model.compile(method=method)
    np.testing.assert_allclose(model.marginals({0: 0})[1], [1 / 3, 2 / 3])
