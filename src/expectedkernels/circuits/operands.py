"""Circuits, circuits given evidence, and points as axes of joint passes, and what these cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expectedkernels.arrays import as_like, distinct_below, is_numpy
from expectedkernels.circuits import conditioning
from expectedkernels.circuits.inputs import log_sizes
from expectedkernels.data.evidence import FEW_ROWS, Evidence, Patterns, patterns, uniform
from expectedkernels.engine.joint import Operand
from expectedkernels.engine.layers import Layers
from expectedkernels.engine.passes import chunk_rows
from expectedkernels.engine.scaled import NodeValues, exponentials
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit

ENTRY, REPEATED = 5e-10, 4.0
"""Seconds that one entry (of a unit, a product, or an edge) of one row takes by layers, and how
much longer it takes if it is shared by all rows that look alike at a node."""
LEVEL, IN_RANGE = 2e-5, 1.5e-8
"""Seconds that one layer takes, however few its entries are, and keeping a value in range."""
NODE, NODE_ROW = 6e-5, 1e-8
"""Seconds that finding and using the patterns of rows takes at a node, and of every row."""

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
CONDITIONALS = 512
"""How many conditionals are worked on at once."""
KEPT_ROWS = 4 * CONDITIONALS
"""The parts of a side of at most so many rows are made once."""


def rows_are_cheaper(
    layers: Layers, n_rows: int, counts: Callable[[], Sequence[int]], watched: float = 0.0
) -> bool:
    """Whether a pass over layers for all rows costs less than one over the patterns of nodes.

    `counts` gives the number of patterns of every node; `watched` is the number of units whose
    values are kept in range.
    """
    n_chunks = -(-n_rows // chunk_rows(layers, values_only=True))
    cost = ENTRY * n_rows * layers.n_entries + LEVEL * n_chunks * len(layers.layers)
    cost += IN_RANGE * n_rows * watched
    other = layers.vtree.n_nodes * (NODE + NODE_ROW * n_rows)
    if cost <= other:
        return True
    return cost <= other + REPEATED * ENTRY * float(np.asarray(counts()) @ layers.entries)


@dataclass(frozen=True, eq=False)
class InputComponents:
    """What a kernel is evaluated on, for one variable.

    Attributes
    ----------
    cardinality : int or None
        Of a discrete variable: the atoms are its states 0, 1, ...
    mean, variance : arrays of shape (atoms,) or (atoms, columns), or None
        Of a real variable: the atoms are normal distributions; variance zero is a point. Columns
        are independent given the atom.
    half : array, or None
        Half the widths of intervals over which these are spread; None: all are zero.
    """

    cardinality: int | None
    mean: Any = None
    variance: Any = None
    half: Any = None

    @property
    def n(self) -> int:
        """The number of atoms."""
        return int(self.mean.shape[0]) if self.cardinality is None else self.cardinality

    @cached_property
    def columns(self) -> tuple[InputComponents, ...]:
        """The atoms of every column of a real variable."""
        if self.mean.ndim == 1:
            return (self,)
        halves = [None] * len(self.mean.T) if self.half is None else self.half.T
        every = zip(self.mean.T, self.variance.T, halves, strict=True)
        return tuple(InputComponents(None, *column) for column in every)

    def sent(self, like: Any) -> InputComponents:
        """The atoms in the library and on the device of an array."""
        arrays = (self.mean, self.variance, self.half)
        return InputComponents(
            self.cardinality, *(x if x is None else as_like(x, like) for x in arrays)
        )

    def taken(self, chosen: Any) -> InputComponents:
        """Some of the components of a real variable."""
        half = None if self.half is None else self.half[chosen]
        return InputComponents(None, self.mean[chosen], self.variance[chosen], half)


class CircuitOperand:
    """A circuit, optionally given a batch of rows of evidence.

    Parameters
    ----------
    circuit : Circuit
    evidence : Evidence, optional
    form : "rows", "patterns" or "conditionals", optional
        All units for every row, or for every distinct pattern of rows below a node; or the
        conditionals as one circuit of many roots. Default: patterns, if there are many rows.

    Attributes
    ----------
    circuit, evidence
        What passes take: in the form "conditionals" the circuit of these, and no evidence. Where
        shares of its units are no doubles, rows are put together by patterns instead, and
        `row_logs` are the logs of what their values are to be divided by.
    """

    def __init__(
        self, circuit: Circuit, evidence: Evidence | None = None, form: str | None = None
    ) -> None:
        self.model, self.given, self.form = circuit, evidence, form
        self.max_rows = CONDITIONALS if form == "conditionals" else None
        self.n_rows = None if evidence is None else evidence.n_rows
        self._parts: dict[Any, CircuitOperand] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return CircuitOperand, (self.model, self.given, self.form)

    def in_form(self, form: str) -> CircuitOperand:
        """The side in another form."""
        return CircuitOperand(self.model, self.given, form)

    @cached_property
    def _evaluated(self) -> tuple[Circuit, Evidence | None, Any, Any]:
        """The circuit and evidence of passes, the root of every row, and logs to divide by."""
        circuit, evidence = self.model, self.given
        if evidence is None or self.form != "conditionals":
            return circuit, evidence, None, None
        reached = conditioning.active_edges(circuit, evidence)
        if not reached.is_exact:
            return circuit, evidence, None, conditioning.forward_logs(circuit, evidence).values[-1]
        blocks, roots = conditioning.conditional_blocks(circuit, reached)
        return type(circuit)(circuit.vtree, blocks), None, roots, None

    circuit: Any = property(lambda self: self._evaluated[0])
    evidence: Any = property(lambda self: self._evaluated[1])
    row_logs: Any = property(lambda self: self._evaluated[3])

    @property
    def row_index(self) -> Any:
        """The root, or the pattern at the root, of every row; None: row i has pattern i."""
        return self._evaluated[2] if self.batch is None else self.batch.rows

    @cached_property
    def numbers(self) -> Circuit:
        """The circuit on the CPU, or where it is if gradients are required."""
        own = self.circuit
        return own if own.is_on_host or own.has_gradients else own.host

    @cached_property
    def operand(self) -> Operand:
        """The units of the circuit."""
        return self.numbers.operand

    @cached_property
    def batch(self) -> Patterns | None:
        """The patterns of rows of evidence, None without evidence."""
        if self.evidence is None:
            return None
        few = {None: FEW_ROWS, "rows": self.evidence.n_rows}.get(self.form, 0)
        return self.evidence.patterns(self.circuit.vtree, few)

    @property
    def is_signed(self) -> bool:
        """Whether evidence has negative weights."""
        if self.evidence is None or self.evidence.values is not None:
            return False
        columns = map(self.evidence.column, range(self.circuit.n_variables))
        return any(x.weights is not None and bool((x.weights < 0).any()) for x in columns)

    def rows(self, chosen: slice) -> CircuitOperand:
        """The side with some of its rows."""
        key, given = (chosen.start, chosen.stop, chosen.step), self.given
        found = self._parts.get(key) or CircuitOperand(self.model, given.rows(chosen), self.form)  # type: ignore[union-attr]
        if given.n_rows <= KEPT_ROWS:  # type: ignore[union-attr]
            self._parts[key] = found  # used once per part of the other side
        return found

    def atoms(self, variable: int) -> InputComponents:
        """The atoms of a variable."""
        block = self.numbers.input(variable)
        if block.cardinality is not None:
            return InputComponents(block.cardinality)
        seen = () if self.evidence is None else self.evidence.column(variable).seen
        return InputComponents(None, *block.beside_points(seen))

    def likelihoods(
        self, variables: Sequence[int], uniform: bool, mode: str
    ) -> tuple[Any, NodeValues, bool]:
        """What evidence says of the atoms of variables, (variables, atoms, rows or patterns).

        In numbers, or in logs; also which of the atoms of the kernel these are (None: the same),
        and whether some were too small. Observed values of a real variable are behind its
        components. Several variables are discrete, with as many states, and taken row by row.
        """
        evidence: Any = self.evidence
        block = self.numbers.input(variables[0])
        if block.cardinality is None:
            column = evidence.column(variables[0])
            n, statement = block.width, np.arange(column.n_statements)
            index = np.where(statement < len(column.seen), n + statement, np.arange(n)[:, None])
            logs = block.log_weights(column)[None]
            if uniform:
                logs, index = logs[..., column.codes], index[:, column.codes]
            return index, *exponentials(logs, mode, axis=1)
        if uniform:
            weights = evidence.state_weights(variables)
        else:
            weights = evidence.column(variables[0]).weights[None]
        found = NodeValues(weights.swapaxes(1, 2))
        if mode != "logs" and evidence.values is not None:
            return None, found, False
        sizes, signs = np.abs(found.data), np.sign(found.data)
        least, most = sizes.min(where=sizes > 0, initial=1.0), sizes.max(initial=1.0)
        found.low, found.high = float(np.log(least)), float(np.log(most))
        if mode != "logs" and least >= 1e-30 and most <= 1e30:
            return None, found, False
        found, clamped = exponentials(log_sizes(sizes), mode, axis=1)
        if mode == "logs":
            found.sign = signs if (signs < 0).any() else None
        elif (signs < 0).any():
            found.data = found.data * signs
        return None, found, clamped


class PointOperand:
    """A set of complete points.

    Parameters
    ----------
    points : array of shape (points, columns)
    vtree : Vtree
    domains : sequence of int or None
        The cardinality of every variable, None for real ones.
    places : sequence of int arrays, optional
        The columns of every variable. Default: one each, in their order.
    active : bool array of shape (variables,), optional
        The variables that count: the points are all the same in others, NaN.
    """

    max_rows: int | None = None
    is_signed = False

    def __init__(
        self, points: Any, vtree: Vtree, domains: Any, places: Any = None, active: Any = None
    ):
        self.points, self.vtree, self.domains = points, vtree, domains
        self.places, self.active, self.n_rows = places, active, len(points)
        self.columns = [self._column(variable) for variable in range(vtree.n_variables)]

    @cached_property
    def batch(self) -> Patterns:
        """The patterns of the points."""
        codes = [codes for _, codes in self.columns]
        return patterns(self.vtree, codes, [len(values) for values, _ in self.columns])

    def _column(self, variable: int) -> tuple[Any, Any]:
        """The distinct values of a variable, and which one every point has."""
        x = self.points[:, variable if self.places is None else self.places[variable]]
        x = x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x
        if self.active is not None and not self.active[variable]:
            return np.full((1, *x.shape[1:]), np.nan), np.zeros(len(x), dtype=np.intp)
        n = self.domains[variable]
        if n is not None and x.ndim == 1:
            present, codes = distinct_below(x.astype(np.intp), n)
            return present.astype(x.dtype), codes
        values, codes = np.unique(x, axis=None if x.ndim == 1 else 0, return_inverse=True)
        return values, codes.reshape(-1)

    @property
    def row_index(self) -> Any:
        """The pattern at the root of every point; None: point i has pattern i."""
        return self.batch.rows

    def rows(self, chosen: slice) -> PointOperand:
        """The side with some of its points."""
        return PointOperand(self.points[chosen], self.vtree, self.domains, self.places, self.active)

    def atoms(self, variable: int) -> InputComponents:
        """The atoms of a variable."""
        return self._atoms[variable]

    @cached_property
    def _atoms(self) -> list[InputComponents]:
        pairs = zip(self.domains, (values for values, _ in self.columns), strict=True)
        return [
            InputComponents(n, *(() if n is not None else (x, np.zeros_like(x)))) for n, x in pairs
        ]

    def index(self, variables: Sequence[int], uniform: bool) -> Any:
        """The atoms of variables at all points, or (of one) at its distinct values."""
        found = []
        for v in variables:
            values, codes = self.columns[v]
            index = np.arange(len(values)) if self.domains[v] is None else values.astype(np.intp)
            found.append(index[codes] if uniform else index)
        return np.stack(found)


Side = CircuitOperand | PointOperand


class AxisSize(NamedTuple):
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
    if isinstance(axis, PointOperand):
        ones, found = np.ones(axis.vtree.n_nodes), axis.batch
        single = AxisSize(ones, ones, 0.0 * ones, 0.0 * ones, 1)
    elif isinstance(axis, CircuitOperand):
        single, found = axis_size(axis.operand), axis.batch
    else:
        single = axis.cached("size", partial(_operand_size, axis))
    if found is None:
        return single
    count, gathers = np.asarray(found.count, dtype=np.float64), single.gathers
    if not found.is_uniform:
        gathers = [[x is not None for x in side] for side in (found.left, found.right)]
        gathers = np.maximum(single.gathers, np.sum(gathers, axis=0))
    units, products, terms = count * single[:3]
    return AxisSize(units, products, terms, gathers, found.is_uniform * single.n_layers)


def _operand_size(operand: Operand) -> AxisSize:
    gathers = [
        variable < 0 and (block.left is not None) + (block.right is not None)
        for block, variable in zip(operand.blocks, operand.vtree.variable, strict=True)
    ]
    every = operand.units, operand.widths, operand.terms, gathers
    units, products, terms, taken = np.array(every, dtype=np.float64)
    return AxisSize(units, products, terms, taken, int(operand.vtree.height.max()) + 1)


def distinct_rows_size(n_nodes: int, n: int) -> AxisSize:
    """The size of an axis of rows that are all different."""
    every = np.full(n_nodes, float(n))
    return AxisSize(every, every, 0.0 * every, np.full(n_nodes, 2.0), 0)


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
    flat, layers = conditioning.flat_edges(circuit), circuit.layers
    reached = conditioning.active_edges(circuit, evidence)
    units, products = flat.units[reached.edges], flat.products[reached.edges]
    node = flat.nodes[units]
    distinct = [np.unique(reached.numbered(x), return_index=True)[1] for x in (units, products)]
    sizes = np.stack(
        [
            np.bincount(x, minlength=len(circuit.blocks)) / evidence.patterns(circuit.vtree).count
            for x in (*(node[which] for which in distinct), node)
        ]
    )
    sizes[1:, layers.layers[0].nodes] = 0.0
    for layer in layers.layers[1:]:
        sizes[2, layer.nodes[: layer.n_passed_nodes]] = 0.0
    return sizes


class Strategy(NamedTuple):
    """The forms of the axes of a pass (None: there is nothing to choose), and what it costs.

    Attributes
    ----------
    forms : tuple of "rows", "patterns", "conditionals" or None
    cost : float
        In numbers computed; zero where there is nothing to choose.
    others : dict from forms to costs
        What was not chosen.
    """

    forms: tuple[str | None, ...] = (None, None)
    cost: float = 0.0
    others: dict[tuple[str | None, ...], float] = {}  # noqa: RUF012


def choose(axes: tuple[AxisSize | Side, AxisSize | Side], width: int = 1) -> Strategy:
    """The forms of two axes that cost least, found out as far as it may be worth it.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> from expectedkernels.data.evidence import as_evidence
    >>> p = ek.random_circuit(ek.Vtree.balanced(4), 3, rng=0)
    >>> side = CircuitOperand(p, as_evidence([[0, float("nan"), 1, 1]], p.cardinalities))
    >>> choose((side, side)).forms
    ('rows', 'rows')
    """
    sides: dict[int, Any] = {
        i: x for i, x in enumerate(axes) if isinstance(x, CircuitOperand) and x.given is not None
    }
    if not sides:
        return Strategy()
    first = next(iter(sides.values())).model
    if not is_numpy(first.xp):  # elsewhere launches cost more than repeated rows
        return Strategy(tuple("rows" if i in sides else None for i in range(2)))
    n_nodes = first.vtree.n_nodes
    known: list[dict[str | None, AxisSize]] = [
        {} if i in sides else {None: x if isinstance(x, AxisSize) else axis_size(x)}
        for i, x in enumerate(axes)
    ]
    least = {
        "rows": -1.0,
        "patterns": SMALL + n_nodes * (NODE_COST + PATTERN_COST),
        "conditionals": n_nodes * CONDITION_COST,
    }
    costs: dict[tuple[str | None, ...], float] = {}
    for form, worth in least.items():
        for i, side in sides.items():
            if form == "rows" or min(costs.values()) > worth:
                known[i].update(_size_in(form, side.model, side.given))
        for forms in product(*known):
            if forms not in costs:
                costs[forms] = joint_cost(known[0][forms[0]], known[1][forms[1]], width)
        if min(costs.values()) <= SMALL:
            break
    best = min(costs, key=costs.__getitem__)
    return Strategy(best, costs.pop(best), costs)


def _size_in(form: str, circuit: Circuit, evidence: Evidence) -> dict[str | None, AxisSize]:
    """About how large a circuit given evidence is in a form; nothing if it has none.

    How many units a conditional needs is looked up for a few rows.
    """
    operand, vtree = circuit.operand, circuit.vtree
    if form == "rows":
        return {form: axis_size(operand, uniform(vtree, evidence.n_rows))}
    found = evidence.patterns(vtree, 0)
    size = axis_size(operand, found)
    if form == "patterns":
        return {form: size._replace(set_up=vtree.n_nodes * PATTERN_COST)}
    if operand.is_signed:
        return {}
    some = evidence.rows(slice(None, None, max(1, evidence.n_rows // SAMPLE)))
    units, products, terms = np.asarray(found.count) * mean_reach(circuit, some)
    set_up = -(-evidence.n_rows // CONDITIONALS) * vtree.n_nodes * CONDITION_COST
    set_up += PASSED * float(size.products.sum()) + MADE * float((terms + products).sum())
    gathers, n_layers = np.full(vtree.n_nodes, 2.0), axis_size(operand).n_layers
    return {form: AxisSize(units, products, terms, gathers, n_layers, set_up)}


def evidence_operand(circuit: Circuit, evidence: Evidence, n_other: int) -> CircuitOperand:
    """The cheapest side for a circuit given evidence, against `n_other` rows."""
    other = distinct_rows_size(circuit.vtree.n_nodes, n_other)
    return CircuitOperand(
        circuit, evidence, choose((CircuitOperand(circuit, evidence), other)).forms[0]
    )
