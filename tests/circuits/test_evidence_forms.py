"""Forms of evidence: rows, patterns of rows and batches of conditionals give the same values."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_all_close, assert_close
from expectedkernels.circuits import operands
from expectedkernels.circuits.operands import CircuitOperand, choose
from expectedkernels.circuits.queries import log_values
from expectedkernels.data.evidence import Column, Evidence, as_evidence
from expectedkernels.kernels.gram import expected, gram
from oracles import Inner, Real, Table, conditionals, distribution, values_at, with_holes, worlds
from strategies import circuits, domains, evidence

FORMS = ("rows", "patterns", "conditionals")


def values_in(forms, p, rows, other):
    """Expected kernels of conditionals, with evidence in given forms."""
    kernel = ek.ExpHamming(0.3).blocks(p.vtree, p.cardinalities)
    sides, logs = [], []
    for form, x in zip(forms, (rows, other), strict=True):
        evidence = as_evidence(x, p.cardinalities)
        sides.append(CircuitOperand(p, evidence, form))
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


def test_few_rows_of_a_small_circuit_are_swept_as_they_are():
    p = ek.random_circuit(ek.Vtree.balanced(4), 2, rng=0)
    evidence = as_evidence(with_holes(p.sample(3, rng=0), 0.5), p.cardinalities)
    choice = choose((CircuitOperand(p, evidence), CircuitOperand(p, evidence)))
    assert choice.forms == ("rows", "rows")
    assert not choice.others


def test_rows_that_say_the_same_are_put_together():
    p = ek.random_circuit(ek.Vtree.balanced(16), 24, rng=0)
    evidence = as_evidence(np.tile(p.sample(1, rng=0), (30, 1)), p.cardinalities)
    choice = choose(
        (CircuitOperand(p, evidence), operands.distinct_rows_size(p.vtree.n_nodes, 200))
    )
    assert choice.forms[0] == "patterns"
    assert choice.cost < choice.others["rows", None]


def test_conditionals_are_chosen_where_they_are_small(data_dir):
    p = ek.read_psdd(data_dir / "psdd" / "abalone.psdd")
    evidence = as_evidence(with_holes(p.sample(40, rng=0), 0.5), p.cardinalities)
    choice = choose((CircuitOperand(p, evidence), CircuitOperand(p, evidence)))
    assert choice.forms == ("conditionals", "conditionals")
    assert choice.cost < min(choice.others.values())


def test_signed_circuits_have_no_conditionals(monkeypatch):
    monkeypatch.setattr(operands, "SMALL", 0.0)
    monkeypatch.setattr(operands, "CONDITION_COST", 0.0)
    parts = [ek.factorized([[0.5, 0.5]] * 3), ek.factorized([[0.9, 0.1]] * 3)]
    signed = ek.algebra.linear_combination(parts, [2.0, -1.0])
    side = CircuitOperand(signed, as_evidence([[0, 1, np.nan]], signed.cardinalities))
    choice = choose((side, operands.axis_size(signed.operand)))
    assert choice.forms[0] in ("rows", "patterns")
    assert all(forms[0] != "conditionals" for forms in choice.others)


@settings(max_examples=80)
@given(st.data())
def test_roots_are_the_conditionals(data):
    cards = data.draw(domains())
    p = data.draw(circuits(cards))
    twin = data.draw(evidence(p))
    read = as_evidence(twin.given, p.cardinalities)
    side = CircuitOperand(p, read, "conditionals")
    together, rows = side.circuit, side.row_index
    every = worlds(cards)
    wanted = conditionals(distribution(p), twin.weights, every)
    assert_close(values_at(together, every).T[rows], wanted)
    for block in together.blocks[:-1]:
        if isinstance(block, Table):  # no unit is there twice in a leaf
            assert len(np.unique(block.table, axis=0)) == block.n_units


@pytest.mark.parametrize("learned", [True, False])
def test_many_rows_on_learned_circuits_are_conditionals(learned, request):
    """Many rows at once give what a few at a time give."""
    if learned:
        p = ek.read_psdd(request.getfixturevalue("data_dir") / "psdd" / "elevators.psdd")
    else:
        p = ek.random_circuit(ek.Vtree.balanced(20), 16, rng=0)
    E, X = with_holes(p.sample(1200, rng=1), 0.5), p.sample(40, rng=2)
    read = as_evidence(E, p.cardinalities)
    assert (operands.evidence_operand(p, read, 1000).form == "conditionals") == learned
    assert operands.evidence_operand(p, read, 1).form != "conditionals"
    many = ek.expected_kernel(p, X, ek.RBF(0.1), evidence_p=E)
    assert many.shape == (len(E), len(X))
    for i in (0, 700, len(E) - 20):
        few = ek.expected_kernel(p, X, ek.RBF(0.1), evidence_p=E[i : i + 20])
        assert_close(many[i : i + 20], few)
    logs = ek.expected_kernel(p, X, ek.RBF(0.1), evidence_p=E, log=True)
    assert_close(np.exp(logs), many)


def as_conditionals(monkeypatch):
    """Have all evidence take part in the form of conditionals."""
    choose = operands.choose

    def chosen(axes, width=1):
        return operands.Strategy(tuple(form and FORMS[2] for form in choose(axes, width).forms))

    monkeypatch.setattr(operands, "choose", chosen)


def real_circuit():
    """Normals, intervals, points and states side by side."""
    first = Real(np.array([[0.2, 0.5, 0.3], [0.6, 0.0, 0.4]]), np.array([0.0, 2.0, 1.0]),
                 np.array([0.5, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))  # fmt: skip
    second = Real(np.eye(2), np.array([-1.0, 1.0]), np.array([1.0, 0.25]))
    third = Table(np.array([[0.1, 0.9], [0.7, 0.3]]))
    vtree = ek.Vtree.right_linear(3)
    blocks: list = [None] * vtree.n_nodes
    for variable, block in enumerate((first, second, third)):
        blocks[vtree.leaf(variable)] = block
    for node in np.flatnonzero(vtree.variable < 0):
        weights = np.array([[0.4, 0.6]] if node == vtree.root else [[0.3, 0.7], [1, 0]])
        blocks[node] = Inner(2, len(weights), np.arange(2), np.arange(2), weights)
    return ek.Circuit(vtree, tuple(blocks))


def real_rows():
    E = np.array([[1.0, 0.3, 1.0], [np.nan, 0.3, np.nan], [2.5, np.nan, 0.0], [np.nan] * 3,
                  [0.1, 40.0, np.nan], [1.0, np.nan, np.nan]])  # fmt: skip
    return np.concatenate([E, E[::-1]] * 4)


@pytest.mark.parametrize("n", [1, 5, 48])
def test_conditionals_of_real_variables(monkeypatch, n):
    p, E = real_circuit(), real_rows()[-n:]
    points = np.array([[0.2, 0.3, 1.0], [1.0, 2.0, 0.0], [2.2, -1.0, 1.0]])

    def both(k):
        return [
            ek.expected_kernel(p, points, k, evidence_p=E, log=True),
            ek.expected_kernel(p, p, k, evidence_p=E, evidence_q=E),
        ]

    kernels = [ek.RBF(0.3), ek.RBF([0.5, 0.1, 2.0]) * ek.ExpHamming(0.2)]
    expected = [both(k) for k in kernels]
    as_conditionals(monkeypatch)
    for k, wanted in zip(kernels, expected, strict=True):
        assert_all_close(both(k), wanted, rtol=1e-11)


@pytest.mark.parametrize("form", ["rows", "patterns", "conditionals"])
def test_weights_of_components_in_place_of_densities(form):
    p = real_circuit()
    plain = as_evidence(real_rows(), p.cardinalities)
    columns = [plain.column(v) for v in range(3)]
    for v in (0, 1):
        column, block = columns[v], p.input(v)
        logs = block.log_density(np.nan_to_num(column.values))
        logs[len(column.observed) :] = 0.0
        columns[v] = Column(None, column.values, column.codes, logs)
    weighed = Evidence(p.cardinalities, columns=columns)
    assert_close(log_values(p, weighed)[0], log_values(p, plain)[0])
    axes = [(CircuitOperand(p, read, form), CircuitOperand(p)) for read in (plain, weighed)]
    kernel = ek.RBF(0.4).blocks(p.vtree, p.cardinalities)
    wanted, got = (expected(sides, kernel, 2**27) for sides in axes)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    # components that are ruled out, by two statements without a value
    column = columns[1]
    logs = np.vstack([column.logs[: len(column.observed)], [[0.0, -np.inf], [0.0, 0.0]]])
    values = np.concatenate([column.values, [np.nan]])
    codes = np.where(column.codes == len(column.observed), column.codes + [1, 0] * 24, column.codes)
    columns[1] = Column(None, values, codes, logs)
    given = Evidence(p.cardinalities, columns=columns)
    out = codes == len(column.observed)
    assert out.any()
    got = expected((CircuitOperand(p, given, form), CircuitOperand(p)), kernel, 2**27)
    blocks = list(p.blocks)
    leaf = p.vtree.leaf(1)
    blocks[leaf] = blocks[leaf].with_numbers(p.input(1).weights * [1.0, 0.0])
    without = ek.Circuit(p.vtree, tuple(blocks))
    side = CircuitOperand(without, plain.rows(np.flatnonzero(out)), form)
    some = expected((side, CircuitOperand(p)), kernel, 2**27)
    np.testing.assert_allclose(got[out], some, rtol=1e-12)
    np.testing.assert_allclose(got[~out], wanted[~out], rtol=1e-12)


def test_batches_of_conditionals_keep_components_of_any_rarity():
    n = 80
    rare = ek.factorized([[1e-7, 1.0 - 1e-7]] * n)
    common = ek.factorized([[0.9, 0.1]] * (n - 20) + [[1.0, 0.0]] * 20)
    p = ek.mixture([common, rare])
    rows = np.full((40, n), np.nan)
    rows[:, : n - 20] = np.random.default_rng(0).random((40, n - 20)) < 0.02
    points = np.concatenate([rows[:3], rows[:3]])
    points[:3, n - 20 :] = 1.0
    points[3:, n - 20 :] = 0.0
    expected = p.log_likelihood(points)[None, :] - p.log_likelihood(rows)[:, None]
    fits = (points[None, :, : n - 20] == rows[:, None, : n - 20]).all(axis=2)
    expected = np.where(fits, expected, -np.inf)
    assert np.isfinite(expected).sum() >= 6
    assert expected[np.isfinite(expected)].min() < -745
    side = CircuitOperand(p, as_evidence(rows, p.cardinalities), "conditionals")
    other = operands.PointOperand(points, p.vtree, p.cardinalities)
    found = gram((side, other), ek.Delta().blocks(p.vtree, p.cardinalities), 2**30).log()
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-9, atol=1e-14)
