"""Batches of conditionals as one circuit: the same functions as conditioning row by row."""

import numpy as np
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close
from expectedkernels.circuits.choice import evidence_side
from expectedkernels.circuits.conditionals import (
    ConditionalsSide,
    conditional_circuits,
)
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.sides import CircuitSide
from oracles import conditionals, distribution, values_at, worlds
from strategies import circuits, domains, evidence


@settings(max_examples=80)
@given(st.data())
def test_roots_are_the_conditionals(data):
    cards = data.draw(domains())
    p = data.draw(circuits(cards))
    twin = data.draw(evidence(p))
    read = as_evidence(twin.given, p.cardinalities)
    together, rows = conditional_circuits(p, read)
    every = worlds(cards)
    expected = conditionals(distribution(p), twin.weights, every)
    assert_close(values_at(together, every).T[rows], expected)
    for block in together.blocks[:-1]:  # no unit is there twice in a leaf, or in vain
        if not isinstance(block, ek.circuits.inputs.Table):
            continue
        assert len(np.unique(block.table, axis=0)) == block.n_units


@settings(max_examples=30)
@given(st.data())
def test_both_sides_of_an_expectation_agree(data):
    cards = data.draw(domains())
    p = data.draw(circuits(cards))
    read = as_evidence(data.draw(evidence(p, rows=40)).given, p.cardinalities)
    k = ek.RBF(0.3) + ek.Delta()
    together, rows = conditional_circuits(p, read)
    points = worlds(cards)
    assert_close(
        ek.expected_kernel(together, points, k).reshape(-1, len(points))[rows],
        ek.expected_kernel(p, points, k, evidence_p=read),
    )


def chain(n):
    """A Markov chain of eight states: given one of them, most units are out."""
    stay = 0.9 * np.eye(8) + 0.1 / 8
    return ek.hmm(np.full(8, 1 / 8), stay / stay.sum(axis=1, keepdims=True), np.eye(8), length=n)


def with_holes(X, share):
    return np.where(np.random.default_rng(0).random(X.shape) < share, np.nan, X)


def check_many_rows(p, E, X):
    """Many rows at once give what a few at a time give."""
    many = ek.expected_kernel(p, X, ek.RBF(0.1), evidence_p=E)
    assert many.shape == (len(E), len(X))
    for i in (0, 700, len(E) - 20):
        few = ek.expected_kernel(p, X, ek.RBF(0.1), evidence_p=E[i : i + 20])
        assert_close(many[i : i + 20], few)
    logs = ek.expected_kernel(p, X, ek.RBF(0.1), evidence_p=E, log=True)
    assert_close(np.exp(logs), many)


def test_learned_circuits_are_condensed(data_dir):
    p = ek.read_psdd(data_dir / "psdd" / "elevators.psdd")
    E = with_holes(p.sample(1200, rng=1), 0.5)
    read = as_evidence(E, p.cardinalities)
    assert isinstance(evidence_side(p, read, 1000), ConditionalsSide)
    assert type(evidence_side(p, read, 1)) is CircuitSide
    check_many_rows(p, E, p.sample(40, rng=2))


def test_dense_circuits_are_not():
    p = ek.random_circuit(ek.Vtree.balanced(20), 16, rng=0)
    E = with_holes(p.sample(1200, rng=1), 0.5)
    assert type(evidence_side(p, as_evidence(E, p.cardinalities), 1000)) is CircuitSide
    check_many_rows(p, E, p.sample(40, rng=2))


def test_condensing_is_right_where_it_would_not_be_chosen(monkeypatch):
    monkeypatch.setattr("expectedkernels.expectation.side_in",
                        lambda form, p, read: ConditionalsSide(p, read))  # fmt: skip
    p = chain(30)
    check_many_rows(p, with_holes(p.sample(1200, rng=1), 0.5), p.sample(40, rng=2))


def test_conditionals_on_both_sides_and_equal_rows():
    p = chain(12)
    E = with_holes(p.sample(300, rng=1), 0.7)
    E = np.concatenate([E, E[::-1]])
    gram = ek.expected_kernel(p, p, ek.ExpHamming(), evidence_p=E, evidence_q=E)
    assert_close(gram, gram.T)
    assert_close(gram, gram[::-1, ::-1])
    assert_close(
        gram[:5, :5],
        ek.expected_kernel(p, p, ek.ExpHamming(), evidence_p=E[:5], evidence_q=E[:5]),
    )
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * len(E)
