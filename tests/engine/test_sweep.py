from concurrent.futures import ThreadPoolExecutor
from itertools import product as pairs
from threading import Barrier
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_close, assert_logs_close, host
from circuit_oracles import random_blocks, random_domain
from expectedkernels import Vtree
from expectedkernels.arrays import Place, namespace
from expectedkernels.data.evidence import patterns, uniform
from expectedkernels.engine import sweep as engine
from expectedkernels.engine.sweep import Operand, pad, peak_bytes, sweep, upward, visit
from expectedkernels.engine.value import from_log, plain, to_log, weights_of
from oracles import Inner

seeds = st.integers(0, 2**32 - 1)
FOLDED, NODE_BY_NODE = 2**40, 0


class Case:
    """Random operands on one vtree, with random values at the leaves.

    Parameters
    ----------
    seed : int
    n_operands : int
    rows : str
        "none", "uniform" (one pattern per row everywhere) or "patterns".
    where : str or namespace
        Where the arrays live.
    """

    def __init__(self, seed, n_operands, rows="none", signed=False, where="numpy"):
        self.rng = rng = np.random.default_rng(seed)
        self.vtree, cards = random_domain(rng)
        if rng.random() < 0.5:  # many nodes of one height
            self.vtree, cards = Vtree.balanced(int(rng.integers(4, 17))), [2] * 16
        self.move = Place(where).move
        self.operands, self.rows = [], []
        for _ in range(n_operands):
            blocks = random_blocks(
                rng, self.vtree, cards, roots=int(rng.integers(1, 4)), zeros=0.2, signed=signed
            )
            operand, codes = self._operand(blocks, rows if rng.random() < 0.8 else "none")
            self.operands.append(operand)
            self.rows.append(codes)
        self.tables = {}
        for v in range(self.vtree.n_nodes):
            if self.vtree.is_leaf(v):
                shape = [n for op in self.operands for n in (op.copies(v), op.units[v])]
                numbers = rng.uniform(0.5, 2.0, size=shape) * (rng.random(shape) < 0.8)
                self.tables[v] = numbers * (rng.choice([-1, 1], size=shape) if signed else 1)

    def _operand(self, blocks, rows):
        inner = [self._moved(block) if isinstance(block, Inner) else None for block in blocks]
        operand = Operand(
            self.vtree,
            [block.n_units for block in blocks],
            inner,
            [
                None if isinstance(b, Inner) else ("same" if self.rng.random() < 0.7 else None)
                for b in blocks
            ],
            namespace(self.move(np.ones(1))),
        )
        n, n_variables = int(self.rng.integers(1, 5)), self.vtree.n_variables
        if rows == "uniform":
            return operand.batched(uniform(self.vtree, n)), [np.arange(n)] * n_variables
        if rows == "patterns":
            raw = self.rng.integers(2, size=(n_variables, n))
            codes = [np.unique(x, return_inverse=True)[1].reshape(-1) for x in raw]
            found = patterns(self.vtree, codes, [int(x.max()) + 1 for x in codes])
            return operand.batched(found), codes
        return operand, [np.zeros(1, dtype=int)] * n_variables

    def _moved(self, block):
        weights = block.weights
        if weights is not None and not isinstance(self.move(np.ones(1)), np.ndarray):
            weights = self.move(weights.toarray() if block.is_sparse else weights)
        left, right = self.move(block.left), self.move(block.right)
        return Inner(block.n_products, block.n_units, left, right, weights)

    def leaf(self, nodes, parts):
        """The values of leaves; in a fold they are padded with zeros."""
        stack = []
        for node in nodes.tolist():
            table = self.tables[node]
            for axis, op in enumerate(self.operands):
                n = op.units[node] if parts is None else op.fold.units[parts[axis][0]]
                width = [(0, 0)] * table.ndim
                width[2 * axis + 1] = (0, n - op.units[node])
                table = np.pad(table, width)
            shape = [table.shape[2 * i] * table.shape[2 * i + 1] for i in range(len(self.operands))]
            stack.append(table.reshape(shape))
        return plain(self.move(np.stack(stack)), tuple(op.copies(node) for op in self.operands))

    def expected(self):
        """The values at the root by definition, (rows_1, roots_1, rows_2, roots_2, ...)."""
        counts = [len(codes[0]) for codes in self.rows]
        roots = [op.units[-1] for op in self.operands]
        result = np.empty([n for pair in zip(counts, roots, strict=True) for n in pair])
        for chosen in pairs(*(range(n) for n in counts)):
            place = tuple(x for row in chosen for x in (row, slice(None)))
            result[place] = self._one(chosen)
        return result

    def _one(self, chosen):
        values, vtree = [], self.vtree
        for node in range(vtree.n_nodes):
            if vtree.is_leaf(node):
                v = int(vtree.variable[node])
                at = [
                    x
                    for codes, row in zip(self.rows, chosen, strict=True)
                    for x in (codes[v][row], slice(None))
                ]
                values.append(self.tables[node][tuple(at)])
                continue
            a, b = values[vtree.left[node]], values[vtree.right[node]]
            blocks = [op.inner[node] for op in self.operands]
            value = a[np.ix_(*(x.index("left") for x in blocks))]
            value = value * b[np.ix_(*(x.index("right") for x in blocks))]
            for axis, block in enumerate(blocks):
                value = np.moveaxis(np.tensordot(block.csr.toarray(), value, (1, axis)), 0, axis)
            values.append(value)
        return values[-1]

    def result(self, max_bytes):
        """The values at the root by a sweep, in the form of `expected`."""
        value = to_log(sweep(self.operands, self.leaf, max_bytes))
        logs = host(value.data)
        numbers = np.exp(logs) if value.sign is None else np.exp(logs) * host(value.sign)
        shape = [n for op in self.operands for n in (op.copies(self.vtree.root), op.units[-1])]
        numbers = numbers.reshape(shape)
        for axis, op in enumerate(self.operands):
            if op.patterns is not None and op.patterns.rows is not None:
                numbers = np.take(numbers, op.patterns.rows, axis=2 * axis)
        return numbers

    def scale(self):
        """What rounding errors are relative to: the same sweep with all numbers positive."""
        tables, operands = self.tables, self.operands
        self.tables = {v: np.abs(table) for v, table in tables.items()}
        self.operands = [_absolute(op) for op in operands]
        scale = self.expected()
        self.tables, self.operands = tables, operands
        return scale


def _absolute(operand):
    inner = [
        None if b is None else Inner(b.n_products, b.n_units, b.left, b.right, abs(b.csr))
        for b in operand.inner
    ]
    return Operand(operand.vtree, operand.units, inner, operand.leaf_keys, np, operand.patterns)


@pytest.mark.parametrize("rows", ["none", "uniform", "patterns"])
@pytest.mark.parametrize("n_operands", [1, 2, 3])
@settings(max_examples=60)
@given(seeds)
def test_folded_and_node_by_node_sweeps_agree_with_the_definition(n_operands, rows, seed):
    case = Case(seed, n_operands, rows)
    expected = case.expected()
    assert_close(case.result(FOLDED), expected)
    assert_close(case.result(NODE_BY_NODE), expected)


@pytest.mark.parametrize("n_operands", [1, 2])
@settings(max_examples=50)
@given(seeds)
def test_signed_sweeps(n_operands, seed):
    case = Case(seed, n_operands, "uniform", signed=True)
    expected, scale = case.expected(), case.scale()
    assert_close(case.result(FOLDED), expected, scale)
    assert_close(case.result(NODE_BY_NODE), expected, scale)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("n_operands", [1, 2, 3])
@settings(max_examples=40)
@given(seeds)
def test_sweeps_in_small_parts_agree_with_the_definition(n_operands, signed, seed):
    case = Case(seed, n_operands, "patterns", signed)
    with mock.patch.object(engine, "CACHED_BYTES", 8):
        assert_close(case.result(NODE_BY_NODE), case.expected(), case.scale())


@pytest.mark.parametrize("rows", ["none", "uniform", "patterns"])
@pytest.mark.parametrize("seed", range(6))
def test_sweeps_on_other_arrays(xp, rows, seed):
    case = Case(seed, 2, rows, where=xp)
    expected = case.expected()
    assert_close(case.result(FOLDED), expected)
    assert_close(case.result(NODE_BY_NODE), expected)


def test_a_sweep_can_be_repeated():
    # memory of intermediate values is used again, that of leaves and weights must not be
    case = Case(11, 2, "uniform")
    tables = {node: table.copy() for node, table in case.tables.items()}
    first = case.result(FOLDED)
    np.testing.assert_array_equal(case.result(FOLDED), first)
    for node, table in tables.items():
        np.testing.assert_array_equal(case.tables[node], table)


@given(seeds)
def test_visits_give_products_and_units_of_every_node(seed):
    case = Case(seed, 2)
    (p, q), vtree = case.operands, case.vtree
    values = upward(case.operands, case.leaf)
    for node, products, value in visit(case.operands, case.leaf, with_products=True):
        assert_close(np.exp(to_log(value).data), np.exp(to_log(values[node]).data))
        if vtree.is_leaf(node):
            assert products is None
            continue
        left, right = (
            np.exp(to_log(values[child]).data[0]) for child in (vtree.left[node], vtree.right[node])
        )
        a, b = p.inner[node], q.inner[node]
        expected = (
            left[np.ix_(a.index("left"), b.index("left"))]
            * right[np.ix_(a.index("right"), b.index("right"))]
        )
        assert_close(np.exp(to_log(products).data[0]), expected)


@pytest.mark.parametrize("build", [Vtree.balanced, Vtree.right_linear, Vtree.left_linear])
@pytest.mark.parametrize("max_bytes", [FOLDED, NODE_BY_NODE])
def test_values_that_drift_apart_by_thousands_of_nats(build, max_bytes):
    # unit 0 gains 3 nats at every leaf, unit 1 loses 5, and the root mixes them
    vtree = build(1000)
    mix = Inner(2, 3, None, None, np.array([[1.0, 1.0], [0.5, 0.0], [0.0, 2.0]]))
    keep = Inner(2, 2, None, None, None)
    inner = [None if v >= 0 else keep for v in vtree.variable]
    inner[-1] = mix
    units = [2] * (vtree.n_nodes - 1) + [3]
    operand = Operand(vtree, units, inner, [0] * vtree.n_nodes)

    def leaf(nodes, parts):
        return from_log(np.tile([3.0, -5.0], (len(nodes), 1)), (1,))

    result = to_log(sweep([operand], leaf, max_bytes)).data
    assert_logs_close(result, np.array([[3000.0, 3000 - np.log(2), -5000 + np.log(2)]]))


@pytest.mark.parametrize("max_bytes", [FOLDED, NODE_BY_NODE])
def test_mantissas_that_cross_the_range_from_both_ends(max_bytes):
    # plain numbers at every leaf; products leave the range upwards in one unit, downwards in
    # the other, so that no common scale holds both
    vtree = Vtree.right_linear(40)
    inner = [None if v >= 0 else Inner(2, 2, None, None, None) for v in vtree.variable]
    operand = Operand(vtree, [2] * vtree.n_nodes, inner, [None] * vtree.n_nodes)

    def leaf(nodes, parts):
        return plain(np.tile(np.exp([30.0, -30.0]), (len(nodes), 1)), (1,))

    result = to_log(sweep([operand], leaf, max_bytes)).data
    assert_logs_close(result, np.array([[1200.0, -1200.0]]))


def test_padding():
    padded = pad(np.ones((2, 3)), (3, 3))
    assert padded.tolist() == [[1.0] * 3, [1.0] * 3, [0.0] * 3]
    same = np.ones((2, 2))
    assert pad(same, (2, 2)) is same


def test_memory_is_foreseen():
    case = Case(3, 2, "patterns")
    peak = peak_bytes(case.operands)
    largest = max(
        8 * np.prod([op.copies(node) * op.units[node] for op in case.operands])
        for node in range(case.vtree.n_nodes)
    )
    assert peak >= largest


def test_threads_that_make_the_same_thing_at_once_share_one():
    vtree = Vtree.balanced(1)
    operand = Operand(vtree, [1], [None], [2])
    barrier = Barrier(4)

    def make():
        barrier.wait(10)  # until all have seen that there is none
        return object()

    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(operand.cached, "key", make) for _ in range(4)]
        assert len({id(future.result(10)) for future in made}) == 1


def test_operands_keep_few_parts_of_stacks():
    p = ek.random_circuit(Vtree.balanced(8), 3, rng=0)
    operand = p.operand
    group = int(np.argmax([len(nodes) for nodes in operand.fold.members]))
    matrices = np.random.default_rng(0).random((400, 2, 2))
    for start in range(200):
        for stop in (start + 1, start + 7):
            part = operand.stacked(
                "some", (group, slice(start, stop)), lambda: weights_of(matrices)
            )
            np.testing.assert_array_equal(part.matrix, matrices[start:stop])
    assert len(operand._stacks) <= 8 * p.vtree.n_nodes + 1
