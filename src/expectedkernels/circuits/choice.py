"""Which form a circuit given rows of evidence takes in a sweep: the one that costs least.

There are three: all units for every row, nodes computed together ("rows"); all units for every
distinct pattern of evidence at each node ("patterns"); or one circuit of all conditionals, with
no more units than they need ("conditionals").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from expectedkernels.arrays import is_numpy
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.conditionals import CHUNK_ROWS, ConditionalsSide, mean_reach
from expectedkernels.circuits.evidence import FEW_ROWS, Evidence
from expectedkernels.circuits.extents import (
    NODE,
    Extent,
    extent_of_operand,
    flat_extent,
    sweep_cost,
    with_patterns,
)
from expectedkernels.circuits.queries import negative_node
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.engine.patterns import uniform

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
Axis = Extent | tuple[BlockCircuit, Evidence]
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
    >>> from expectedkernels.circuits.evidence import as_evidence
    >>> p = ek.random_circuit(ek.Vtree.balanced(4), 3, rng=0)
    >>> given = as_evidence([[0, float("nan"), 1, 1]], p.cardinalities)
    >>> choose(((p, given), (p, given))).forms
    ('rows', 'rows')
    """
    known: list[dict[Form | None, Extent]] = [
        {None: axis} if isinstance(axis, Extent) else {} for axis in axes
    ]
    asked = [_forms(*axis) if isinstance(axis, tuple) else iter(()) for axis in axes]
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


def _forms(circuit: BlockCircuit, evidence: Evidence) -> Iterator[tuple[Form, Any, float]]:
    """The forms, how to find out their size, and from which cost on that is worth it."""
    n_nodes = circuit.vtree.n_nodes

    def rows() -> Extent:
        return with_patterns(
            extent_of_operand(circuit.operand), uniform(circuit.vtree, evidence.n_rows)
        )

    def patterns() -> Extent:
        operand = CircuitSide(circuit, evidence, by_patterns=True).operand
        return _with_set_up(extent_of_operand(operand), n_nodes * PATTERNS)

    def conditionals() -> Extent | None:
        return _conditional_extent(circuit, evidence)

    if is_numpy(circuit.xp) or evidence.n_rows <= FEW_ROWS:
        yield "rows", rows, 0.0
        if not is_numpy(circuit.xp):  # on a card a sweep node by node is never better
            return
    yield "patterns", patterns, SMALL + n_nodes * (NODE + PATTERNS)
    yield "conditionals", conditionals, n_nodes * CONDITION


def _with_set_up(extent: Extent, set_up: float) -> Extent:
    return Extent(extent.units, extent.products, extent.terms, extent.indexed, extent.steps, set_up)


def _conditional_extent(circuit: BlockCircuit, evidence: Evidence) -> Extent | None:
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


def side_in(form: Form | None, circuit: BlockCircuit, evidence: Evidence) -> CircuitSide:
    """The side of a circuit given evidence, in a form."""
    if form == "conditionals":
        return ConditionalsSide(circuit, evidence)
    return CircuitSide(circuit, evidence, form == "patterns")


def evidence_side(circuit: BlockCircuit, evidence: Evidence, n_other: int) -> CircuitSide:
    """The cheapest side for a circuit given evidence, against `n_other` rows."""
    other = flat_extent(circuit.vtree.n_nodes, n_other)
    return side_in(choose(((circuit, evidence), other)).forms[0], circuit, evidence)
