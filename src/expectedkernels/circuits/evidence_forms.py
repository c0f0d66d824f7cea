"""Forms of evidence: rows, patterns, conditionals; the one that costs least is taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from expectedkernels.arrays import is_numpy
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.conditioning import conditional_blocks, flat_edges, reached_edges
from expectedkernels.circuits.operands import CircuitOperand, PointOperand, Side
from expectedkernels.circuits.queries import log_values
from expectedkernels.data.evidence import Evidence, Patterns, uniform
from expectedkernels.engine.joint import Operand

GATHER, LAYER_GATHER = 1.0, 3.0
"""What gathering a number costs node by node and by layers, in numbers computed."""
NODE_COST, LAYER_COST = 40_000.0, 12_000.0
"""What a node, or a layer, costs however small it is, in numbers computed."""
SMALL = 2e6
"""Below this cost nothing is gained by looking for something better."""
PATTERN_COST, CONDITION_COST = 8_000.0, 200_000.0
"""What finding patterns, and what the units of conditionals, cost at a node."""
PASSED, MADE = 4.0, 20.0
"""What a product costs that conditionals are looked for in, and what one costs that is kept."""
SAMPLE = 4
"""How many rows are looked at to see how many units conditionals need."""
CHUNK_ROWS = 512
"""How many conditionals are worked on at once."""
KEPT_ROWS = 4 * CHUNK_ROWS
"""The parts of a side of at most so many rows are made once."""


class ConditionalsOperand(CircuitOperand):
    """The conditionals of a circuit given rows of evidence, as one circuit of many roots.

    Where shares of their units are no doubles, rows are put together by patterns instead, and
    `row_logs` tells what their values are to be divided by.
    """

    max_rows = CHUNK_ROWS

    def __init__(self, circuit: Circuit, evidence: Evidence):
        self.model, self.given, self.by_patterns = circuit, evidence, True
        self._parts: dict[Any, ConditionalsOperand] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ConditionalsOperand, (self.model, self.given)

    @cached_property
    def _built(self) -> tuple[Circuit, Evidence | None, Any, Any]:
        """What is evaluated, the root of every row, and the logs to divide by."""
        found = conditional_circuits(self.model, self.given)
        if found is not None:
            return found[0], None, found[1], None
        logs = log_values(self.model, self.given)[0][:, 0]
        return self.model, self.given, self.given.patterns(self.model.vtree, 0).rows, logs

    circuit = property(lambda self: self._built[0])
    evidence = property(lambda self: self._built[1])
    row_index = property(lambda self: self._built[2])
    row_logs = property(lambda self: self._built[3])
    n_rows = property(lambda self: self.given.n_rows)

    def rows(self, chosen: slice) -> ConditionalsOperand:
        """The side with some of its rows."""
        key = (chosen.start, chosen.stop, chosen.step)
        found = self._parts.get(key)
        if found is None:
            found = ConditionalsOperand(self.model, self.given.rows(chosen))
            if self.n_rows <= KEPT_ROWS:  # halves are asked for once per part of the other side
                self._parts[key] = found
        return found


@dataclass(frozen=True, eq=False)
class AxisSize:
    """The size of one axis of a joint pass at every vtree node, with all its patterns.

    Attributes
    ----------
    units, products, terms : arrays of shape (nodes,)
        `terms` are those of the weighted sums, in terms of sparse ones.
    gathers : array of shape (nodes,)
        How many children have units that are gathered, and not taken as they are.
    n_layers : int
        In how many layers nodes can be computed together; 0: one by one.
    set_up : float
        What making the axis costs, in numbers computed.
    """

    units: Any
    products: Any
    terms: Any
    gathers: Any
    n_layers: int
    set_up: float = 0.0


def axis_size(axis: Operand | Side, found: Patterns | None = None) -> AxisSize:
    """The size of an operand, or of a side with its patterns."""
    if isinstance(axis, Operand):
        single = axis.cached("size", lambda: _operand_size(axis))
    elif isinstance(axis, PointOperand):
        ones, found = np.ones(axis.vtree.n_nodes), axis.batch
        single = AxisSize(ones, ones, 0.0 * ones, 0.0 * ones, 1)
    else:
        single, found = axis_size(axis.operand), axis.batch
    if found is None:
        return single
    count, gathers = np.asarray(found.count, dtype=np.float64), single.gathers
    if not found.is_uniform:
        gathers = [[x is not None for x in side] for side in (found.left, found.right)]
        gathers = np.maximum(single.gathers, np.sum(gathers, axis=0))
    units, products, terms = count * np.stack([single.units, single.products, single.terms])
    return AxisSize(units, products, terms, gathers, found.is_uniform * single.n_layers)


def distinct_rows_size(n_nodes: int, n: int) -> AxisSize:
    """The size of an axis of rows that are all different."""
    every = np.full(n_nodes, float(n))
    return AxisSize(every, every, 0.0 * every, np.full(n_nodes, 2.0), 0)


def _operand_size(operand: Operand) -> AxisSize:
    blocks, inner = operand.blocks, operand.vtree.variable < 0
    gathers = [
        is_inner and (block.left is not None) + (block.right is not None)
        for block, is_inner in zip(blocks, inner, strict=True)
    ]
    units, widths = (np.asarray(x, dtype=np.float64) for x in (operand.units, operand.widths))
    n_layers = int(operand.vtree.height.max()) + 1
    return AxisSize(units, widths, operand.terms, np.asarray(gathers, dtype=float), n_layers)


def joint_cost(a: AxisSize, b: AxisSize, width: int = 1) -> float:
    """What a pass over two axes costs, and making them, in numbers computed.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.random_circuit(ek.Vtree.balanced(4), 3, rng=0)
    >>> one, many = axis_size(p.operand), distinct_rows_size(p.vtree.n_nodes, 100)
    >>> joint_cost(one, one) < joint_cost(one, many)
    True
    """
    by_layers = a.n_layers and b.n_layers
    gathers = np.maximum(a.gathers, b.gathers) * (LAYER_GATHER if by_layers else GATHER)
    products = a.products * b.products
    numbers = (1.0 + gathers) * products + a.terms * b.products + a.units * b.terms
    steps = max(a.n_layers, b.n_layers) * LAYER_COST if by_layers else len(products) * NODE_COST
    return float(width * numbers.sum() + steps) + a.set_up + b.set_up


def mean_reach(circuit: Circuit, evidence: Evidence) -> Any:
    """The mean numbers of units, products and terms that a conditional needs, (3, nodes)."""
    flat, levels = flat_edges(circuit), circuit.levels
    reached = reached_edges(circuit, evidence)
    units, products = flat.units[reached.edges], flat.products[reached.edges]
    node = flat.nodes[units]
    distinct = [np.unique(reached.numbered(x), return_index=True)[1] for x in (units, products)]
    sizes = np.stack(
        [
            np.bincount(x, minlength=len(circuit.blocks)) / evidence.patterns(circuit.vtree).count
            for x in (*(node[which] for which in distinct), node)
        ]
    )
    sizes[1:, levels.levels[0].nodes] = 0.0
    for level in levels.levels[1:]:
        sizes[2, level.nodes[: level.n_passed_nodes]] = 0.0
    return sizes


def conditional_circuits(circuit: Circuit, evidence: Evidence) -> tuple[Circuit, Any] | None:
    """The conditionals given rows of evidence as roots of one circuit, and the root of every row.

    None if shares of units are no doubles.

    Every unit of the result sums to one. Real variables have a component for every observed value,
    after their own. Needs a non-negative circuit on the host, with one root, and evidence of
    positive probability. Cost: two passes over (rows x edges).
    """
    reached = reached_edges(circuit, evidence)
    if not reached.is_exact:
        return None
    blocks, roots = conditional_blocks(circuit, reached)
    return type(circuit)(circuit.vtree, blocks), roots


Form = str
Axis = AxisSize | Side | tuple[Circuit, Evidence]
"""The size of an axis, a side, or a circuit and what it is given."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The forms of the axes of a pass (None: there is nothing to choose), and what it costs.

    Attributes
    ----------
    forms : tuple of "rows", "patterns", "conditionals" or None
    cost : float
        In numbers computed; zero where there is nothing to choose.
    others : dict from forms to costs
        What was not chosen.
    """

    forms: tuple[Form | None, ...]
    cost: float
    others: dict[tuple[Form | None, ...], float]


def choose(axes: tuple[Axis, Axis], width: int = 1) -> Choice:
    """The forms of two axes that cost least, found out as far as it may be worth it.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> from expectedkernels.data.evidence import as_evidence
    >>> p = ek.random_circuit(ek.Vtree.balanced(4), 3, rng=0)
    >>> given = as_evidence([[0, float("nan"), 1, 1]], p.cardinalities)
    >>> choose(((p, given), (p, given))).forms
    ('rows', 'rows')
    """
    pairs = {i: axis for i, axis in enumerate(axes) if isinstance(axis, tuple)}
    first = next(iter(pairs.values()))[0]
    if not is_numpy(first.xp):  # elsewhere launches cost more than repeated rows
        return Choice(tuple("rows" if i in pairs else None for i in range(2)), 0.0, {})
    n_nodes = first.vtree.n_nodes
    known: list[dict[Form | None, AxisSize]] = [{}, {}]
    for i, axis in enumerate(axes):
        if not isinstance(axis, tuple):
            known[i] = {None: axis if isinstance(axis, AxisSize) else axis_size(axis)}
    least = {
        "rows": -1.0,
        "patterns": SMALL + n_nodes * (NODE_COST + PATTERN_COST),
        "conditionals": n_nodes * CONDITION_COST,
    }
    costs: dict[tuple[Form | None, ...], float] = {}
    for form, worth in least.items():
        for i, (circuit, evidence) in pairs.items():
            if form == "rows" or min(costs.values()) > worth:
                size = _size_in(form, circuit, evidence)
                if size is not None:
                    known[i][form] = size
        for forms in product(*known):
            if forms not in costs:
                a, b = (known[i][own] for i, own in enumerate(forms))
                costs[forms] = joint_cost(a, b, width)
        if min(costs.values()) <= SMALL:
            break
    best = min(costs, key=costs.__getitem__)
    return Choice(best, costs.pop(best), costs)


def _size_in(form: Form, circuit: Circuit, evidence: Evidence) -> AxisSize | None:
    """About how large a circuit given evidence is in a form; None if it has none.

    How many units a conditional needs is looked up for a few rows, and kept with the circuit for
    evidence on as many variables.
    """
    operand, vtree = circuit.operand, circuit.vtree
    if form == "rows":
        return axis_size(operand, uniform(vtree, evidence.n_rows))
    found = evidence.patterns(vtree, 0)
    if form == "patterns":
        return replace(axis_size(operand, found), set_up=vtree.n_nodes * PATTERN_COST)
    if operand.is_signed:
        return None
    some = slice(None, None, max(1, evidence.n_rows // SAMPLE))
    key = "reach", int(4 * evidence.openness)
    reach = operand.cached(key, lambda: mean_reach(circuit, evidence.rows(some)))
    units, products, terms = np.asarray(found.count) * reach
    set_up = -(-evidence.n_rows // CHUNK_ROWS) * vtree.n_nodes * CONDITION_COST
    set_up += PASSED * float(axis_size(operand, found).products.sum())
    set_up += MADE * float((terms + products).sum())
    n_layers = axis_size(operand).n_layers
    return AxisSize(units, products, terms, np.full(vtree.n_nodes, 2.0), n_layers, set_up)


def operand_in(form: Form | None, circuit: Circuit, evidence: Evidence) -> CircuitOperand:
    """The side of a circuit given evidence, in a form."""
    if form == "conditionals":
        return ConditionalsOperand(circuit, evidence)
    return CircuitOperand(circuit, evidence, form == "patterns")


def evidence_operand(circuit: Circuit, evidence: Evidence, n_other: int) -> CircuitOperand:
    """The cheapest side for a circuit given evidence, against `n_other` rows."""
    other = distinct_rows_size(circuit.vtree.n_nodes, n_other)
    return operand_in(choose(((circuit, evidence), other)).forms[0], circuit, evidence)
