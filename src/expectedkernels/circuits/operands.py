"""Passes over the units of several circuits at once: their operands, costs, and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import ceil, exp, floor, inf, prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from array_api_compat import is_torch_array
from scipy import sparse

from expectedkernels import arrays
from expectedkernels.arrays import as_like, is_on_gpu, namespace, take, to_numpy
from expectedkernels.circuits import conditioning
from expectedkernels.circuits.inputs import log_sizes
from expectedkernels.data.evidence import FEW_ROWS, Evidence, Patterns, patterns, uniform
from expectedkernels.engine.joint import Group, Operand, joint_layers, joint_layout
from expectedkernels.engine.layers import EXPONENTS, LEAST_MARGIN, Layers, log_headroom
from expectedkernels.engine.nodes import CACHED_BYTES, NodePass
from expectedkernels.engine.operations import differentiable
from expectedkernels.engine.passes import LeafValues, chunk_rows, forward
from expectedkernels.engine.replay import CLONE, fits, replayed, total_bytes
from expectedkernels.engine.scaled import ScaledArray, exponentials, of_signed_logs, signed_logs
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
"""The parts of an operand of at most so many rows are made once."""


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
        parts = (self.mean, self.variance, self.half)
        return InputComponents(self.cardinality, *(as_like(x, like) for x in parts))


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
        `log_norms` are the logs of what their values are to be divided by.
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
    log_norms: Any = property(lambda self: self._evaluated[3])

    @property
    def row_index(self) -> Any:
        """The root, or the pattern at the root, of every row; None: row i has pattern i."""
        return self._evaluated[2] if self.batch is None else self.batch.rows

    @cached_property
    def numbers(self) -> Circuit:
        """The circuit on the CPU, or where it is if gradients are required."""
        own = self.circuit
        return own if own.is_on_cpu or own.has_gradients else own.on_cpu

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
        """The operand with some of its rows."""
        key, given = (chosen.start, chosen.stop, chosen.step), self.given
        found = self._parts.get(key) or CircuitOperand(self.model, given.rows(chosen), self.form)  # type: ignore[union-attr]
        if given.n_rows <= KEPT_ROWS:  # type: ignore[union-attr]
            self._parts[key] = found  # used once per part of the other operand
        return found

    def atoms(self, variable: int) -> InputComponents:
        """The atoms of a variable."""
        block = self.numbers.input(variable)
        if block.cardinality is not None:
            return InputComponents(block.cardinality)
        seen = () if self.evidence is None else self.evidence.column(variable).observed
        return InputComponents(None, *block.beside_points(seen))

    def likelihoods(
        self, variables: Sequence[int], uniform: bool, mode: str
    ) -> tuple[Any, ScaledArray, bool]:
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
            index = np.where(statement < len(column.observed), n + statement, np.arange(n)[:, None])
            logs = block.log_weights(column)[None]
            if uniform:
                logs, index = logs[..., column.codes], index[:, column.codes]
            return index, *exponentials(logs, mode, axis=1)
        if uniform:
            weights = evidence.state_weights(variables)
        else:
            weights = evidence.column(variables[0]).weights[None]
        weights = weights.swapaxes(1, 2)
        if mode == "logs":
            return None, ScaledArray(signed_logs(weights)), False
        if evidence.values is not None:
            return None, ScaledArray(weights), False
        found, clamped = exponentials(log_sizes(weights), mode, axis=1)
        found.data = np.copysign(found.data, weights)
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
    row_index: Any = property(lambda self: self.batch.rows)

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
            present, codes = arrays.distinct_below(x.astype(np.intp), n)
            return present.astype(x.dtype), codes
        values, codes = np.unique(x, axis=None if x.ndim == 1 else 0, return_inverse=True)
        return values, codes.reshape(-1)

    def rows(self, chosen: slice) -> PointOperand:
        """The operand with some of its points."""
        return PointOperand(self.points[chosen], self.vtree, self.domains, self.places, self.active)

    def atoms(self, variable: int) -> InputComponents:
        """The atoms of a variable."""
        n, (values, _) = self.domains[variable], self.columns[variable]
        return InputComponents(n, *((values, np.zeros_like(values)) if n is None else ()))

    def index(self, variables: Sequence[int], uniform: bool) -> Any:
        """The atoms of variables at all points, or (of one) at its distinct values."""
        found = []
        for v in variables:
            values, codes = self.columns[v]
            index = np.arange(len(values)) if self.domains[v] is None else values.astype(np.intp)
            found.append(index[codes] if uniform else index)
        return np.stack(found)


AxisOperand = CircuitOperand | PointOperand


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


def axis_size(axis: AxisSize | Operand | AxisOperand, found: Patterns | None = None) -> AxisSize:
    """The size of an operand, alone or with the patterns of its rows."""
    if isinstance(axis, AxisSize):
        return axis
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
    pairs = zip(operand.blocks, operand.vtree.variable.tolist(), strict=True)
    gathers = [v < 0 and (x.left is not None) + (x.right is not None) for x, v in pairs]
    every = operand.units, operand.widths, operand.terms, gathers
    units, products, terms, gathers = np.array(every, dtype=np.float64)
    return AxisSize(units, products, terms, gathers, int(operand.vtree.height.max()) + 1)


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
    layers, flat = circuit.layers, circuit.layers.flat_edges
    reached = conditioning.active_edges(circuit, evidence)
    units, products = flat.units[reached.edges], flat.products[reached.edges]
    node = flat.nodes[units]
    distinct = [np.unique(reached.numbered(x), return_index=True)[1] for x in (units, products)]
    count = evidence.patterns(circuit.vtree).count
    found = [*(node[which] for which in distinct), node]
    sizes = np.stack([np.bincount(x, minlength=len(count)) / count for x in found])
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


def choose(axes: tuple[AxisSize | AxisOperand, AxisSize | AxisOperand], width: int = 1) -> Strategy:
    """The forms of two axes that cost least, found out as far as it may be worth it.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> from expectedkernels.data.evidence import as_evidence
    >>> p = ek.random_circuit(ek.Vtree.balanced(4), 3, rng=0)
    >>> operand = CircuitOperand(p, as_evidence([[0, float("nan"), 1, 1]], p.cardinalities))
    >>> choose((operand, operand)).forms
    ('rows', 'rows')
    """
    sides: dict[int, Any] = {
        i: x for i, x in enumerate(axes) if isinstance(x, CircuitOperand) and x.given is not None
    }
    if not sides:
        return Strategy()
    first = next(iter(sides.values())).model
    if not first.is_on_cpu:  # elsewhere launches cost more than repeated rows
        return Strategy(tuple("rows" if i in sides else None for i in range(2)))
    n_nodes = first.vtree.n_nodes
    known: list[dict[str | None, AxisSize]] = [
        {} if i in sides else {None: axis_size(x)} for i, x in enumerate(axes)
    ]
    found, made = SMALL + n_nodes * (NODE_COST + PATTERN_COST), n_nodes * CONDITION_COST
    least = {"rows": 0.0, "patterns": found, "conditionals": max(SMALL, 2 * made)}
    costs: dict[tuple[str | None, ...], float] = {}
    for form, worth in least.items():
        for i, operand in sides.items():
            if min(costs.values(), default=inf) > worth:
                known[i].update(_size_in(form, operand.model, operand.given))
        for forms in product(*known):
            if forms not in costs:
                costs[forms] = joint_cost(known[0][forms[0]], known[1][forms[1]], width)
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
    """The cheapest operand for a circuit given evidence, against `n_other` rows."""
    other = distinct_rows_size(circuit.vtree.n_nodes, n_other)
    own = CircuitOperand(circuit, evidence)
    return CircuitOperand(circuit, evidence, choose((own, other)).forms[0])


LARGE_NODE = 2**14
"""With more products per node than this, nodes are computed one by one: nothing is gained."""
AGREEMENT = 1e-12
"""How far upper and lower bounds may be apart."""
FEW_ATOMS = 2**16
"""Values of at most so many atoms are kept for the next pass."""
FEW = 0.125
"""With less than this share of cells out of range, these are found by halves of rows."""


@dataclass(frozen=True, eq=False)
class Tables:
    """A product kernel given by plain numbers on the atoms of every variable.

    Attributes
    ----------
    numbers : function of a variable and the atoms of all axes
        Gives an array with one axis for each, of numbers that are zero or of a size that products
        of many can have.
    is_uniform : bool
        Whether all variables have the same values.
    """

    numbers: Callable[[int, tuple[Any, ...]], Any]
    is_uniform: bool = False

    operands: ClassVar[tuple[Any, ...]] = ()
    weights: ClassVar[tuple[float, ...]] = (1.0,)
    is_signed: ClassVar[bool] = False
    has_gradients: ClassVar[bool] = False

    def key(self, variable: int) -> Any:
        """What is equal for variables with the same values."""
        return None if self.is_uniform else variable

    def table(
        self, variable: int, atoms: tuple[Any, ...], like: Any, mode: str
    ) -> tuple[ScaledArray, bool]:
        """The numbers of a variable."""
        return exponentials(log_sizes(self.numbers(variable, atoms)), mode)


LIKELIHOODS = Tables(lambda _, atoms: np.ones(atoms[0].n), is_uniform=True)
"""The kernel of a pass over one circuit."""


class JointPass:
    """One pass over the units of all axes and of the kernel.

    Attributes
    ----------
    axes : tuple of sides
    kernel : object
        With values on atoms, `table`, and maybe with units of its own, `operands`.
    operands : list of Operand
        Of the kernel, if it has units, and of all circuits.
    batched : list of int
        The axes with rows, points first: they choose from their atoms while others are atoms still.
    array, like : arrays
        One of the first circuit: results live where it does. An empty one where values are: in
        torch if the first circuit is, or else in NumPy.
    """

    def __init__(self, axes: tuple[Any, ...], kernel: Any):
        self.axes, self.kernel = axes, kernel
        circuits = [operand for operand in axes if not isinstance(operand, PointOperand)]
        self.operands = [*kernel.operands, *(circuit.operand for circuit in circuits)]
        self.vtree = self.operands[0].vtree
        rows = [i for i, operand in enumerate(axes) if operand not in circuits or operand.evidence]
        self.batched = sorted(rows, key=lambda i: axes[i] in circuits)
        self.shape = tuple(axes[i].n_rows for i in self.batched)
        self.array = like = circuits[0].circuit.like
        self.like: Any = np.empty(0)
        if is_torch_array(like):
            self.like = like.detach().new_empty(0, dtype=namespace(like).float64)
        self.signed = any(x.is_signed for x in (kernel, *self.operands, *axes))
        self.has_gradients = any(x.has_gradients for x in (kernel, *self.operands))

    @cached_property
    def by_layers(self) -> bool:
        """Whether all nodes of a height are computed together, for every row; not by patterns."""
        if is_torch_array(self.like):
            return True
        if self.margin < LEAST_MARGIN:
            return False
        widths = zip(*(operand.widths for operand in self.operands), strict=True)
        n_products = sum(map(prod, widths))
        if n_products > LARGE_NODE * self.vtree.n_nodes:
            return False
        sides = [self.axes[i] for i in self.batched]
        if len(sides) == 1 and isinstance(sides[0], PointOperand):
            return rows_are_cheaper(self.layers, sides[0].n_rows, lambda: sides[0].batch.count)
        return all(isinstance(x, CircuitOperand) and x.batch.is_uniform for x in sides)  # type: ignore[union-attr]

    @cached_property
    def margin(self) -> float:
        """How far from zero the logs of plain numbers may be."""
        if is_torch_array(self.like):
            return float(self.layers.margin)  # known from the last pass
        bounds: Any = sum(op.bounds for op in self.operands)
        return log_headroom(*bounds[:2])

    @cached_property
    def layers(self) -> Any:
        """The layers."""
        return joint_layers(self.operands, self.like if is_torch_array(self.like) else None)

    @cached_property
    def n_bytes(self) -> int:
        """The most memory that values take at once, about."""
        if self.by_layers:
            widest = max(layer.n_products for layer in self.layers.layers)
            size = self.layers.n_units + 2 * widest + 2 * self.layers.n_atoms
            return 8 * size * prod(self.shape)
        rows, units, products = self._sizes
        below, inner = np.zeros_like(units), self.vtree.variable < 0
        below[inner] = units[self.vtree.left[inner]] + units[self.vtree.right[inner]]
        alive = np.cumsum(units - below) - units + below  # values of nodes that wait for others
        part = np.maximum(CACHED_BYTES / 8, products / rows.max(axis=0))
        return int(8 * (alive + np.minimum(3 * products + units, 4 * part + 2 * units)).max())

    @property
    def _sizes(self) -> tuple[Any, Any, Any]:
        """The number of rows or patterns of every batch, of units and of products of all nodes."""
        ones = np.ones((1, self.vtree.n_nodes))
        rows = np.concatenate([ones, *([self.axes[i].batch.count] for i in self.batched)])
        each = np.array([(op.units, op.widths) for op in self.operands], dtype=np.float64)
        units, products = rows.prod(axis=0) * each.prod(axis=0)
        return rows, units, products

    @property
    def _groups(self) -> list[Group]:
        """The nodes that are computed together by layers."""
        return [group for layer in joint_layout(self.operands).groups for group in layer]

    @property
    def n_steps(self) -> int:
        """The number of groups of nodes that are computed together."""
        return len(self._groups) if self.by_layers else self.vtree.n_nodes

    @property
    def operations(self) -> int:
        """How many multiplications and additions there are, those of padding not counted."""
        (rows, _, products), total = self._sizes, 0.0
        units_of, widths_of = zip(*((op.units, op.widths) for op in self.operands), strict=True)
        for node, cells in enumerate(rows.prod(axis=0).tolist()):
            units, sizes = ([x[node] for x in each] for each in (units_of, widths_of))
            for i in sorted(range(len(units)), key=lambda i: units[i] / max(1, sizes[i])):
                if (matrix := self.operands[i].matrices[node]) is not None:
                    terms = matrix.nnz if sparse.issparse(matrix) else prod(matrix.shape)
                    total += 2 * cells * terms * prod(n for j, n in enumerate(sizes) if j != i)
                    sizes[i] = units[i]
        return int(total + products.sum())

    def __str__(self) -> str:
        if not self.by_layers:
            return f"{self.vtree.n_nodes} nodes, one by one"
        lines = [f"{self.n_steps} steps for {self.vtree.n_nodes} nodes"]
        for group in self._groups:
            kind = "leaves" if self.vtree.is_leaf(int(group.nodes[0])) else "inner nodes"
            lines.append(f"  {len(group.nodes)} {kind}: {(len(group.nodes), *group.units)}")
        return "\n".join(lines)

    def _leaf(self, variables: Sequence[int], mode: str) -> tuple[ScaledArray, bool]:
        """The kernel on the atoms of variables that are alike, and what evidence says of these.

        Of shape (variables, kernel units, atoms of every circuit, rows or patterns of every batch),
        the first axis being one if they are all equal; and whether some values were too small.
        """
        like = self.like if self.batched or self.has_gradients else np.empty(0)
        xp = namespace(like)
        atoms = tuple(operand.atoms(variables[0]) for operand in self.axes)
        value, clamped = self.kernel.table(variables[0], atoms, like, mode)
        data: Any = as_like(value.data, like)[None]
        scale = None if value.scale is None else as_like(value.scale, like).reshape(1)
        low, high, axis = value.low, value.high, list(range(data.ndim - len(self.axes), data.ndim))
        for i in self.batched:
            operand, at = self.axes[i], axis[i]
            uniform = self.by_layers or operand.batch.is_uniform
            scale = None if scale is None else scale[..., None]
            if isinstance(operand, PointOperand):
                index = operand.index(variables, uniform)
                data = xp.moveaxis(_repeat(data, index, at), at, 0)[:, 0]
                axis = [x - (x > at) for x in axis]
                continue
            index, found, small = operand.likelihoods(variables, uniform, mode)
            clamped |= small
            n, width, n_rows = found.data.shape
            shape = [n, *[1] * data.ndim]
            shape[at], shape[-1] = width, n_rows
            data = _repeat(data, index, at)
            weights = as_like(found.data, like).reshape(shape)
            data = data + weights if mode == "logs" else data * weights
            low, high = low + found.low, high + found.high
            if found.scale is not None:
                before = [1] * self.batched.index(i)
                more = as_like(found.scale, like).reshape(n, *before, n_rows)
                scale = more if scale is None else scale + more
        if scale is not None:
            rows = data.shape[data.ndim - len(self.batched) :]
            scale = namespace(scale).broadcast_to(scale, (len(variables), *rows))
        if mode != "logs" and low < -self.margin:
            small = (data != 0) & (abs(data) < exp(-self.margin))
            low = -self.margin
            if bool(small.any()):
                least = exp(low) if mode == "floor" else 0.0
                data, clamped = xp.where(small, xp.full_like(data, least), data), True
        return ScaledArray(data, scale, low, high), clamped

    def _leaf_at(self, variable: int, mode: str) -> tuple[ScaledArray, bool]:
        """The same of one variable, without the first axis."""
        value, clamped = self._leaf([variable], mode)
        return value.mapped(itemgetter(0)), clamped

    def values(self) -> ScaledArray | None:
        """The values of all roots and rows; None if those of a few rows are out of range."""
        what = "A pass over all pairs of units of the circuits"
        limit = total_bytes(self.like) if is_on_gpu(self.like) else None
        arrays.require_memory(self.n_bytes, what, arrays.SMALLER_CIRCUITS, limit)
        if self.margin < LEAST_MARGIN:
            return self._logs()
        value, clamped = self._plain("floor")
        if clamped and self.signed:
            return self._logs()
        if not clamped:
            return value
        agree = _agree(value, self._plain("zero")[0])
        if agree.all():
            return value
        return None if prod(self.shape) > 1 and 1.0 - agree.mean() < FEW else self._logs()

    def _logs(self) -> ScaledArray:
        """The values in logarithms, which nothing is too small for."""
        self.by_layers = False
        return of_signed_logs(self._plain("logs")[0].data)

    def _plain(self, mode: str) -> tuple[ScaledArray, bool]:
        """The values of all roots and rows, and whether some were too small."""
        if self.by_layers:
            value, clamped = self._by_layers(mode)
        else:
            nodes = self._nodes(mode)
            value, clamped = nodes.root(), nodes.clamped
        if value.scale is not None:
            shape = value.data.shape
            value.scale = namespace(value.data).broadcast_to(value.scale, shape)
        return value, clamped

    def node_values(self) -> tuple[NodePass, list[ScaledArray]]:
        """A pass by nodes, and the values of all of these: in logarithms if some are too small."""
        self.by_layers = False
        for mode in ("floor", "logs") if self.margin >= LEAST_MARGIN else ("logs",):
            nodes = self._nodes(mode)
            values = [value for _, _, value in nodes]
            if not nodes.clamped:
                break
        return nodes, values

    def _nodes(self, mode: str) -> NodePass:
        batches, order = [self.axes[i].batch for i in self.batched], []
        circuits = [i for i, axis in enumerate(self.axes) if not isinstance(axis, PointOperand)]
        if len(set(circuits) & set(self.batched)) > 1:
            n, first = len(self.operands), len(self.kernel.operands)
            points = [n + j for j, i in enumerate(self.batched) if i not in circuits]
            order = [*range(first), *points]
            for own, i in enumerate(circuits, first):
                order += [n + self.batched.index(i), own] if i in self.batched else [own]
        return NodePass(self.operands, self._leaf_at, batches, order, mode, self.signed)

    def _by_layers(self, mode: str) -> tuple[ScaledArray, bool]:
        kernel, own, found = vars(self.layers).get("last_atoms", (None, "", None))
        if kernel is not self.kernel or own != mode or self.batched or self.has_gradients:
            found = self._atoms(mode)
            if not (self.batched or self.has_gradients) and len(found[0]) <= FEW_ATOMS:
                vars(self.layers)["last_atoms"] = self.kernel, mode, found
        atoms, scale, bounds, clamped = found
        if self.has_gradients:
            roots, more, small = differentiable(self.layers, atoms, bounds)
        else:
            roots, more, small = self._roots(self.layers, atoms, bounds, mode)
        if more is not None:
            scale = more if scale is None else scale + more
        data = roots.reshape(*(op.units[-1] for op in self.operands), *self.shape)
        scale = None if scale is None else scale.reshape(self.shape)
        return ScaledArray(data, scale), clamped or small

    def _atoms(self, mode: str) -> tuple[Any, Any, tuple[int, int, bool], bool]:
        """The values of all atoms, their log-scales and bounds, and whether some were too small."""
        clamped, low, high = False, 0.0, 0.0
        variables = self.vtree.variable[self.layers.layers[0].nodes].tolist()
        parts: list[Any] = [None] * len(variables)
        scale: Any = None
        shape = (-1, prod(self.shape)) if self.shape else (-1,)
        for places in self._alike(variables):
            value, small = self._leaf([variables[i] for i in places], mode)
            clamped, low, high = clamped or small, min(low, value.low), max(high, value.high)
            if value.scale is not None:
                more = value.scale.sum(axis=0).reshape(-1)
                scale = more if scale is None else scale + more
            data = [x.reshape(shape) for x in value.data] * (len(places) // len(value.data))
            for i, x in zip(places, data, strict=True):
                parts[i] = x
        atoms = as_like(namespace(parts[0]).concat(parts), self.like)
        if is_torch_array(atoms):
            atoms = atoms.reshape(len(atoms), -1)
        return atoms, scale, (floor(low), ceil(high), self.signed), clamped

    def _alike(self, variables: list[int]) -> list[list[int]]:
        """The places of variables with the same values of the kernel, together."""
        domains = next(x.circuit for x in self.axes if isinstance(x, CircuitOperand)).cardinalities
        several = sum(isinstance(operand, PointOperand) for operand in self.axes) < 2
        found: dict[Any, list[int]] = {}
        for i, v in enumerate(variables):
            alone = domains[v] is None or not several
            found.setdefault((i,) if alone else (self.kernel.key(v), domains[v]), []).append(i)
        return list(found.values())

    def _roots(self, layers: Any, atoms: Any, bounds: Any, mode: str) -> tuple[Any, Any, bool]:
        """The values of the roots, their log-scales, and whether some values were too small."""
        xp, alone = namespace(atoms), is_torch_array(atoms) and not self.batched

        def run(atoms: Any) -> tuple[Any, ...]:
            found = forward(
                layers, LeafValues(atoms), None, True, bounds=bounds, drop=mode == "zero"
            )
            parts = (found.values[layers.roots], found.scale, found.clamped_mark)
            if alone:  # a few numbers, read at once
                parts = tuple(atoms.new_zeros(1) if x is None else x.reshape(-1) for x in parts)
                return (xp.cat([x.to(atoms.dtype) for x in parts]),)
            return parts

        if is_on_gpu(atoms) and fits(atoms, 8.0 * layers.n_units * atoms.shape[1]):
            key = ("joint", tuple(atoms.shape), mode, bounds)
            read = to_numpy if alone else CLONE
            found = replayed(layers.captured, key, run, (atoms,), read)
        else:
            found = run(atoms)
        if alone:
            *roots, scale, mark = to_numpy(found[0]).tolist()
            plain = [x * exp(scale) for x in roots] if abs(scale) < EXPONENTS else [inf]
            if all(1e-290 < abs(x) < inf or x == 0 == y for x, y in zip(plain, roots, strict=True)):
                return np.array(plain), None, bool(mark)
            return np.array(roots), np.array([scale]), bool(mark)
        roots, scale, mark = found
        return roots, scale, bool(mark)


def _repeat(data: Any, index: Any, axis: int) -> Any:
    """Data with one more axis, for patterns: entries along an axis are chosen by these."""
    if index is None:
        return data[..., None]
    chosen = take(data, as_like(index.reshape(-1), data), axis)
    split = chosen.reshape(*data.shape[:axis], *index.shape, *data.shape[axis + 1 :])
    return namespace(data).moveaxis(split, axis + 1, -1)


def _agree(one: ScaledArray, other: ScaledArray) -> Any:
    """Which upper and lower bounds are as good as equal."""
    a, b = to_numpy(one.data), to_numpy(other.data)
    scales = [np.zeros(()) if x.scale is None else to_numpy(x.scale) for x in (one, other)]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        away = np.abs(b / a * np.exp(scales[1] - scales[0]) - 1.0)
        return ((a == 0) & (b == 0)) | (away <= AGREEMENT * (1.0 + np.abs(scales[0])))
