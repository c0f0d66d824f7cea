"""Forms of evidence: rows, patterns, conditionals; the cheapest is taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from expectedkernels.arrays import is_numpy, is_on_card
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.conditioning import conditional_blocks, flat_edges, reached_edges
from expectedkernels.circuits.operands import (
    NODE,
    Atoms,
    CircuitSide,
    Extent,
    extent_of_operand,
    flat_extent,
    sweep_cost,
    with_patterns,
)
from expectedkernels.circuits.queries import log_values, negative_node
from expectedkernels.data.evidence import FEW_ROWS, Evidence, uniform
from expectedkernels.engine.plan import Part
from expectedkernels.engine.sweep import Operand
from expectedkernels.engine.value import Value

CHUNK_ROWS = 512
"""How many conditionals are worked on at once."""
KEPT_ROWS = 4 * CHUNK_ROWS
"""The parts of a side of at most so many rows are made once."""


class ConditionalsSide(CircuitSide):
    """A side of an expectation: the conditionals of a circuit, normalised.

    Where shares of their units are no doubles, rows are put together by patterns instead, and
    `row_logs` tells what their values are to be divided by.
    """

    max_rows = CHUNK_ROWS

    def __init__(self, circuit: Circuit, evidence: Evidence):
        self.model, self.rows_of_evidence = circuit, evidence
        self._parts: dict[tuple[Any, Any, Any], ConditionalsSide] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ConditionalsSide, (self.model, self.rows_of_evidence)

    @property
    def n_rows(self) -> int:
        """The number of rows of evidence."""
        return self.rows_of_evidence.n_rows

    def rows(self, chosen: slice) -> ConditionalsSide:
        """The side with some of its rows."""
        key = (chosen.start, chosen.stop, chosen.step)
        found = self._parts.get(key)
        if found is None:
            found = ConditionalsSide(self.model, self.rows_of_evidence.rows(chosen))
            if self.n_rows <= KEPT_ROWS:  # halves are asked for once per part of the other side
                self._parts[key] = found
        return found

    @cached_property
    def _built(self) -> tuple[CircuitSide, Any, Any]:
        """What is swept, the root of every row, and the logs to divide by (or None)."""
        model, evidence = self.model, self.rows_of_evidence
        found = conditional_circuits(model, evidence)
        if found is not None:
            return CircuitSide(found[0]), found[1], None
        side = CircuitSide(model, evidence, by_patterns=True)
        return side, side.root_rows, log_values(model, evidence)[0][:, 0]

    @property
    def root_rows(self) -> Any:
        """The root of every row."""
        return self._built[1]

    @property
    def row_logs(self) -> Any:
        """What the values of rows are to be divided by, as logs; None: by nothing."""
        return self._built[2]

    def atoms(self, variable: int) -> Atoms:
        """The atoms of a variable."""
        return self._built[0].atoms(variable)

    def expand(self, value: Value, axis: int, nodes: Any, part: Part | None) -> Value:
        """From a value over atoms along an axis to one over units."""
        return self._built[0].expand(value, axis, nodes, part)

    @property
    def evidence(self) -> None:  # type: ignore[override]
        """Nothing is left to condition on."""
        return

    @property
    def circuit(self) -> Circuit:  # type: ignore[override]
        """The circuit with one root per distinct conditional."""
        return self._built[0].circuit

    @property
    def operand(self) -> Operand:  # type: ignore[override]
        """The circuit as one axis of a sweep."""
        return self._built[0].operand


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


SMALL = 2e6
"""Below this cost, in numbers computed, nothing is gained by looking for something better."""
PATTERNS = 8_000.0
"""What finding patterns costs at a node."""
CONDITION = 200_000.0
"""What the units of conditionals cost at a node."""
PASSED, MADE = 4.0, 20.0
"""What a product costs that conditionals are looked for in, and what one costs that is kept."""
SAMPLE = 4
"""How many rows are looked at to see how many units conditionals need."""

Form = str
Axis = Extent | tuple[Circuit, Evidence]
"""The size of an axis, or a circuit and what it is given."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The forms of the axes of a sweep (None: there is nothing to choose), and what it costs.

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
    known: list[dict[Form | None, Extent]] = [
        {None: axis} if isinstance(axis, Extent) else {} for axis in axes
    ]
    folds = all(isinstance(axis, tuple) or axis.steps is not None for axis in axes)
    asked = [_forms(*axis, folds) if isinstance(axis, tuple) else iter(()) for axis in axes]
    costs: dict[tuple[Form | None, ...], float] = {}
    while True:
        found = [next(forms, None) for forms in asked]
        new = {i: form for i, form in enumerate(found) if form is not None}
        if costs and not new:
            break
        for i, (form, make, worth) in new.items():
            # an axis that is waited for is made; another one if it may be better
            if not known[i] or min(costs.values()) > worth:
                extent = make()
                if extent is not None:
                    known[i][form] = extent
        for forms in product(*known):
            if forms not in costs:
                a, b = (known[i][form] for i, form in enumerate(forms))
                costs[forms] = sweep_cost(a, b, width)
        if min(costs.values()) <= SMALL:
            break
    best = min(costs, key=costs.__getitem__)
    return Choice(best, costs.pop(best), costs)


def _forms(circuit: Circuit, evidence: Evidence, folds: bool) -> Iterator[tuple[Form, Any, float]]:
    """The forms, how to find out their size, and from which cost on that is worth it.

    `folds` says whether the other axis can be computed in groups of nodes.
    """
    n_nodes = circuit.vtree.n_nodes

    def rows() -> Extent:
        return with_patterns(
            extent_of_operand(circuit.operand), uniform(circuit.vtree, evidence.n_rows)
        )

    def patterns() -> Extent:
        operand = CircuitSide(circuit, evidence, by_patterns=True).operand
        return replace(extent_of_operand(operand), set_up=n_nodes * PATTERNS)

    on_gpu = folds and is_on_card(circuit.input(0).numbers)
    if is_numpy(circuit.xp) or on_gpu or evidence.n_rows <= FEW_ROWS:
        yield "rows", rows, 0.0
        if not is_numpy(circuit.xp):  # on a GPU many launches cost more than repeated rows
            return
    yield "patterns", patterns, SMALL + n_nodes * (NODE + PATTERNS)
    yield "conditionals", lambda: _conditional_extent(circuit, evidence), n_nodes * CONDITION


def _conditional_extent(circuit: Circuit, evidence: Evidence) -> Extent | None:
    """About how large the circuit of all conditionals is; None where there is none.

    How many units a conditional needs is looked up for a few rows, and kept with the circuit for
    evidence on as many variables.
    """
    if not is_numpy(circuit.xp):
        return None
    operand = circuit.operand
    if operand.cached("negative", lambda: negative_node(circuit)) is not None:
        return None

    def looked_up() -> Any:
        every = max(1, evidence.n_rows // SAMPLE)
        return mean_reach(circuit, evidence.rows(slice(None, None, every)))

    reach = operand.cached(("reach", int(4 * evidence.openness)), looked_up)
    count = np.asarray(evidence.patterns(circuit.vtree, few=0).count)
    units, products, terms = count * reach
    steps = len(operand.fold.members)
    indexed = np.ones((2, len(count)), dtype=np.bool_)
    chunks = -(-evidence.n_rows // CHUNK_ROWS)
    passed = count * extent_of_operand(operand).products
    set_up = chunks * len(count) * CONDITION
    set_up += float(PASSED * passed.sum() + MADE * (terms + products).sum())
    return Extent(units, products, terms, indexed, steps, set_up)


def side_in(form: Form | None, circuit: Circuit, evidence: Evidence) -> CircuitSide:
    """The side of a circuit given evidence, in a form."""
    if form == "conditionals":
        return ConditionalsSide(circuit, evidence)
    return CircuitSide(circuit, evidence, form == "patterns")


def evidence_side(circuit: Circuit, evidence: Evidence, n_other: int) -> CircuitSide:
    """The cheapest side for a circuit given evidence, against `n_other` rows."""
    other = flat_extent(circuit.vtree.n_nodes, n_other)
    return side_in(choose(((circuit, evidence), other)).forms[0], circuit, evidence)
