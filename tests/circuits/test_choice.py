import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close
from expectedkernels.circuits.choice import choose, side_in
from expectedkernels.circuits.conditionals import ConditionalsSide
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.extents import extent_of_operand, flat_extent, sweep_cost
from expectedkernels.circuits.queries import log_values
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.kernels.gram import gram
from strategies import circuits, domains

FORMS = ("rows", "patterns", "conditionals")


def with_holes(X, share, seed=0):
    X = np.array(X, dtype=float)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def values_in(forms, p, rows, other):
    """Expected kernels of conditionals, with evidence in given forms."""
    kernel = ek.ExpHamming(0.3).blocks(p.vtree, p.cardinalities)
    sides, logs = [], []
    for form, x in zip(forms, (rows, other), strict=True):
        evidence = as_evidence(x, p.cardinalities)
        sides.append(side_in(form, p, evidence))
        log = log_values(p, evidence)[0][:, 0]
        logs.append(np.zeros(len(x)) if form == "conditionals" else log)
    found = gram(tuple(sides), kernel, 2**30).linear()
    return found / np.exp(logs[0][:, None] + logs[1][None, :])


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_all_forms_give_the_same_values(data, seed):
    p = data.draw(circuits(data.draw(domains(max_variables=5))))
    rng = np.random.default_rng(seed)
    X, Y = (with_holes(p.sample(n, rng=rng), 0.5, seed) for n in (5, 40))
    expected = values_in(("rows", "rows"), p, X, Y)
    for first in FORMS:
        for second in FORMS:
            assert_close(values_in((first, second), p, X, Y), expected)


@pytest.mark.parametrize("n", [1, 3, 9, 30, 40])
def test_the_choice_does_not_change_expected_kernels(monkeypatch, n):
    p = ek.random_circuit(ek.Vtree.balanced(8), 5, rng=0)
    X, Y = with_holes(p.sample(n, rng=1), 0.4), with_holes(p.sample(n + 2, rng=2), 0.6)
    k = ek.RBF(0.2)
    whole = ek.expected_kernel(p, p, k, evidence_p=X, evidence_q=Y)
    assert_close(whole, values_as_single_conditionals(p, k, X, Y))
    monkeypatch.setattr("expectedkernels.circuits.choice.SMALL", 0.0)
    monkeypatch.setattr("expectedkernels.circuits.choice.CONDITION", 0.0)
    assert_close(ek.expected_kernel(p, p, k, evidence_p=X, evidence_q=Y), whole)
    same = ek.expected_kernel(p, p, k, evidence_p=X, evidence_q=X)
    assert_close(same, ek.expected_kernel(p, p, k, evidence_p=X, evidence_q=X.copy()))


def values_as_single_conditionals(p, k, X, Y):
    left, right = ([p.condition(row) for row in rows] for rows in (X, Y))
    return np.array([[ek.expected_kernel(a, b, k) for b in right] for a in left])


def test_few_rows_of_a_small_circuit_are_swept_as_they_are():
    p = ek.random_circuit(ek.Vtree.balanced(4), 2, rng=0)
    evidence = as_evidence(with_holes(p.sample(3, rng=0), 0.5), p.cardinalities)
    choice = choose(((p, evidence), (p, evidence)))
    assert choice.forms == ("rows", "rows")
    assert not choice.others


def test_rows_that_say_the_same_are_put_together():
    p = ek.random_circuit(ek.Vtree.balanced(16), 24, rng=0)
    evidence = as_evidence(np.tile(p.sample(1, rng=0), (30, 1)), p.cardinalities)
    choice = choose(((p, evidence), flat_extent(p.vtree.n_nodes, 200)))
    assert choice.forms[0] == "patterns"
    assert choice.cost < choice.others["rows", None]


def test_conditionals_are_chosen_where_they_are_small(data_dir):
    p = ek.read_psdd(data_dir / "psdd" / "abalone.psdd")
    evidence = as_evidence(with_holes(p.sample(40, rng=0), 0.5), p.cardinalities)
    choice = choose(((p, evidence), (p, evidence)))
    assert choice.forms == ("conditionals", "conditionals")
    assert isinstance(side_in(choice.forms[0], p, evidence), ConditionalsSide)
    assert choice.cost < min(choice.others.values())


def test_signed_circuits_have_no_conditionals(monkeypatch):
    monkeypatch.setattr("expectedkernels.circuits.choice.SMALL", 0.0)
    monkeypatch.setattr("expectedkernels.circuits.choice.CONDITION", 0.0)
    parts = [ek.factorized([[0.5, 0.5]] * 3), ek.factorized([[0.9, 0.1]] * 3)]
    signed = ek.algebra.linear_combination(parts, [2.0, -1.0])
    choice = choose(((signed, as_evidence([[0, 1, np.nan]], signed.cardinalities)),
                     extent_of_operand(signed.operand)))  # fmt: skip
    assert choice.forms[0] in ("rows", "patterns")
    assert all(forms[0] != "conditionals" for forms in choice.others)


def test_costs_grow_with_rows_and_units():
    p, wide = (ek.random_circuit(ek.Vtree.balanced(8), n, rng=0) for n in (3, 9))
    costs = [
        sweep_cost(extent_of_operand(c.operand), flat_extent(c.vtree.n_nodes, n))
        for c, n in ((p, 10), (p, 100), (wide, 100))
    ]
    assert costs == sorted(costs)
    evidence = as_evidence(with_holes(p.sample(7, rng=0), 0.5), p.cardinalities)
    batched = extent_of_operand(CircuitSide(p, evidence, by_patterns=False).operand)
    assert_close(batched.units, 7 * extent_of_operand(p.operand).units)


def test_parts_of_a_side_are_made_once():
    p = ek.random_circuit(ek.Vtree.balanced(4), 3, rng=0)
    side = ConditionalsSide(p, as_evidence(with_holes(p.sample(8, rng=0), 0.5), p.cardinalities))
    assert side.rows(slice(0, 4)) is side.rows(slice(0, 4))
    assert side.rows(slice(4, 8)).n_rows == 4
