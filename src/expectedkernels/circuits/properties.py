"""Structural properties of circuits, each with a reason."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from expectedkernels.checks import CircuitError, CompatibilityError, SizeError, Verdict
from expectedkernels.circuits.block_circuit import merge_equal
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import (
    CELLS_AT_ONCE,
    Categorical,
    Graph,
    Leaf,
    Product,
    Sum,
    Unit,
    evaluate,
    show,
)
from expectedkernels.circuits.sample_map import deterministic
from expectedkernels.circuits.structure import circuit_blocks, find_vtree, node_masks, show_split
from expectedkernels.display import overview
from expectedkernels.vtree import Vtree

MAX_STATES = 2**16
"""Domains with at most this many states are enumerated if nothing else decides."""


def graph_deterministic(graph: Graph) -> Verdict:
    """Whether every sum has inputs with disjoint supports; undecided if that is out of reach.

    Inputs with weight zero do not count.
    """
    # With negative numbers terms may cancel, so that supports are smaller than they look.
    signed = graph.has_negative() is not None
    verdict = _on_blocks(graph) if graph.not_decomposable() is None else None
    if verdict is not None and (verdict.holds or not signed):
        return verdict
    cards = graph.cardinalities
    if None not in cards.values() and prod(cards.values()) <= MAX_STATES:  # type: ignore[arg-type]
        return _enumerated(graph)
    return Verdict(
        None,
        "could not be decided: the circuit is neither structured-decomposable (with non-negative "
        f"weights, and small enough to be multiplied with itself) nor over at most {MAX_STATES} "
        "states",
    )


def _on_blocks(graph: Graph) -> Verdict | None:
    """The exact answer on the blocks of the graph, None if it has none, or too large ones.

    Weights and values that are not zero are taken for one, so that numbers of blocks count the
    inputs of sums that were merged there.
    """
    made: list[Unit] = []
    try:
        for unit, inputs in zip(graph.units, graph.inputs, strict=True):
            below = [made[j] for j in inputs]
            if isinstance(unit, Sum):
                made.append(Sum(below, unit.weights != 0))
            elif isinstance(unit, Leaf):
                discrete = unit.cardinality is not None
                made.append(Categorical(unit.variable, unit.probs != 0) if discrete else unit)  # type: ignore[attr-defined]
            else:
                made.append(Product(below))
        vtree, blocks = circuit_blocks(made[-1], smooth=True)
        for mask, block in zip(node_masks(vtree), merge_equal(vtree, blocks), strict=True):
            if (block.flat[0] > 1.0).any():
                reason = f"a sum unit over variables {show(mask)} has two inputs that are not zero"
                return Verdict(False, f"{reason} at the same values")
        verdict = deterministic(Circuit(vtree, tuple(blocks)))
    except CircuitError:
        return None
    return Verdict(verdict.holds, f"in the form of blocks, {verdict.reason}")


def _enumerated(graph: Graph) -> Verdict:
    """The answer from the values of all units at all points."""
    cards: dict[int, Any] = graph.cardinalities
    n = prod(cards.values())
    rows = max(1, CELLS_AT_ONCE // len(graph.units))
    for start in range(0, n, rows):
        states = np.unravel_index(np.arange(start, min(n, start + rows)), tuple(cards.values()))
        _, signs = evaluate(graph, dict(zip(cards, states, strict=True)))
        for i, unit in enumerate(graph.units):
            if unit.kind != "sum":
                continue
            count = np.zeros(len(states[0]), dtype=np.intp)
            for j, weight in zip(graph.inputs[i], unit.weights, strict=True):  # type: ignore[attr-defined]
                count += (signs[j] != 0) & (weight != 0)
            if (count > 1).any():
                row = int(np.argmax(count > 1))
                point = {v: int(state[row]) for v, state in zip(cards, states, strict=True)}
                shown = ", ".join(f"x{v} = {point[v]}" for v in sorted(point)[:8])
                return Verdict(
                    False, f"{graph.describe(i)} has two inputs that are not zero at {shown}"
                )
    return Verdict(True, f"at each of the {n} points at most one input of every sum is not zero")


HARDNESS = (
    "If one of them comes from a model, compile that on the vtree of the other, "
    "model.circuit(p.vtree), or give the model itself. Exact expectations over circuits that are "
    "not compatible are #P-hard in general; monte_carlo_expected_kernel gives an estimate with a "
    "standard error."
)


@dataclass(frozen=True, repr=False)
class Properties:
    """What `properties` found: a verdict with its reason for each property.

    Attributes
    ----------
    smooth : Verdict
        The inputs of every sum unit have the same scope.
    decomposable : Verdict
        The inputs of every product unit have disjoint scopes.
    structured_decomposable : Verdict
        The circuit is smooth and decomposable, and product units over the same scope split it
        in the same way.
    deterministic : Verdict
        At every point at most one input of every sum unit is not zero.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> found = ek.properties(ek.Sum([ek.Indicator(0, 0, 2), ek.Indicator(0, 1, 2)], [0.3, 0.7]))
    >>> bool(found.deterministic)
    True
    """

    smooth: Verdict
    decomposable: Verdict
    structured_decomposable: Verdict
    deterministic: Verdict

    def __repr__(self) -> str:
        names = ("smooth", "decomposable", "structured_decomposable", "deterministic")
        width = max(map(len, names)) + 1
        return "\n".join(f"{name + ':':{width}} {getattr(self, name)}" for name in names)

    def _repr_html_(self) -> str:
        return overview("Properties", {name: str(verdict) for name, verdict in vars(self).items()})


def properties(p: Circuit | Unit) -> Properties:
    """The structural properties of a circuit, each with a reason and a place.

    Smoothness and decomposability take time linear in the size of the circuit. Determinism is
    decided for every `Circuit` (unless it is too large to be multiplied with itself) and for
    graphs of units that are structured-decomposable, or over few states; for others the verdict is
    "undecided".

    Parameters
    ----------
    p : Circuit or Unit
        A circuit, or the root of a graph of units.

    Returns
    -------
    Properties

    Examples
    --------
    >>> import expectedkernels as ek
    >>> a = ek.Product([ek.Indicator(0, 0, 2), ek.Categorical(1, [0.5, 0.5])])
    >>> ek.properties(ek.Sum([a, ek.Indicator(0, 1, 2)], [0.4, 0.6])).smooth
    no: sum unit #4 over variables {0, 1} has an input over {0, 1} and one over {0}
    """
    if isinstance(p, Circuit):
        try:
            determinism = deterministic(p)
        except SizeError as error:
            determinism = Verdict(None, str(error))
        return Properties(
            Verdict(True, "the units of a block, and so the inputs of a sum, share a vtree node"),
            Verdict(True, "products multiply units of the two children of a vtree node"),
            Verdict(True, "every product over a scope splits it as the vtree does"),
            determinism,
        )
    graph = _graph(p)
    return Properties(
        _unless(graph.not_smooth(), "the inputs of every sum unit have the same scope"),
        _unless(graph.not_decomposable(), "the inputs of every product unit have disjoint scopes"),
        _structured(graph),
        graph_deterministic(graph),
    )


def is_compatible(p: Circuit | Unit, q: Circuit | Unit) -> Verdict:
    """Whether two circuits decompose their variables in the same way, and if not, where.

    Two circuits over the same variables are compatible when both are smooth and decomposable
    and any two product units (one of each) with the same scope split it in the same way. The
    order of inputs does not matter.

    Parameters
    ----------
    p, q : Circuit or Unit
        Circuits, or roots of graphs of units, in any mix. A graph is compatible with a
        `Circuit` when it can be written on its vtree.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import expectedkernels as ek
    >>> x, y, z = (ek.Indicator(v, 0, 2) for v in range(3))
    >>> ek.is_compatible(ek.Product([ek.Product([x, y]), z]), ek.Product([z, ek.Product([y, x])]))
    yes: both are smooth and decomposable, and split each common scope in the same way
    >>> ek.is_compatible(ek.Product([ek.Product([x, y]), z]), ek.Product([x, ek.Product([y, z])]))
    no: over variables {0, 1, 2}, product unit #4 of the first circuit splits into {0, 1} | {2},
    product unit #4 of the second into {0} | {1, 2}
    """
    reason = _other_domain(p, q)
    return Verdict(False, reason) if reason is not None else _same_splits(p, q)


def require_compatible(p: Circuit | Unit, q: Circuit | Unit) -> None:
    """Raise a `CompatibilityError` unless two circuits are compatible.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> x, y = (ek.Indicator(v, 0, 2) for v in range(2))
    >>> require_compatible(ek.Product([x, y]), ek.Product([y, x]))
    """
    reason = _other_domain(p, q)
    if reason is not None:
        raise CompatibilityError(f"The circuits must have the same variables, but {reason}.")
    verdict = _same_splits(p, q)
    if not verdict:
        raise CompatibilityError(f"The circuits are not compatible: {verdict.reason}. {HARDNESS}")


def _graph(p: Unit) -> Graph:
    if not isinstance(p, Unit):
        raise CircuitError(
            f"Expected a Circuit or a unit (the root of a graph). Got {type(p).__name__} instead."
        )
    return Graph(p)


def _unless(reason: str | None, fine: str) -> Verdict:
    """No for a reason, or yes."""
    return Verdict(True, fine) if reason is None else Verdict(False, reason)


def _structured(graph: Graph) -> Verdict:
    reason = graph.not_decomposable() or graph.not_smooth()
    if reason is not None:
        return Verdict(False, reason)
    difference = _first_difference(graph, graph, (" ", " "))
    if difference is None:
        return Verdict(True, "product units over the same scope split it in the same way")
    vtree = find_vtree(graph)
    if isinstance(vtree, Vtree):
        difference += "; Circuit.from_units can reconcile all product units on one vtree"
    return Verdict(False, difference)


def _other_domain(p: Circuit | Unit, q: Circuit | Unit) -> str | None:
    """How the variables of two circuits differ, in words; None if they do not."""
    if isinstance(p, Circuit) and isinstance(q, Circuit) and p.cardinalities == q.cardinalities:
        return None
    one, other = (
        dict(enumerate(x.cardinalities)) if isinstance(x, Circuit) else _graph(x).cardinalities
        for x in (p, q)
    )
    if one == other:
        return None
    if set(one) != set(other):
        first, second = (show(sum(1 << v for v in domain)) for domain in (one, other))
        return f"the first circuit has the variables {first}, the second {second}"
    for v in sorted(one):
        if one[v] != other[v]:
            first, second = (
                "is real" if card is None else f"has {card} states" for card in (one[v], other[v])
            )
            return f"variable {v} {first} in the first circuit and {second} in the second"
    return None


def _same_splits(p: Circuit | Unit, q: Circuit | Unit) -> Verdict:
    """The verdict on two circuits over the same variables."""
    if isinstance(p, Circuit) and isinstance(q, Circuit):
        if p.vtree.align(q.vtree) is None:
            return Verdict(False, _vtree_difference(p.vtree, q.vtree))
        return Verdict(True, "their vtrees are equal up to swapping left and right")
    for name, circuit in (("first", p), ("second", q)):
        if isinstance(circuit, Unit):
            graph = Graph(circuit)
            reason = graph.not_decomposable() or graph.not_smooth()
            if reason is not None:
                return Verdict(False, f"in the {name} circuit, {reason}")
    if isinstance(p, Unit) and isinstance(q, Unit):
        names = (" of the first circuit ", " of the second ")
        fine = "both are smooth and decomposable, and split each common scope in the same way"
        return _unless(_first_difference(Graph(p), Graph(q), names), fine)
    if isinstance(p, Unit):
        return _fits(p, "first", q.vtree)  # type: ignore[union-attr]
    return _fits(q, "second", p.vtree)  # type: ignore[arg-type]


def _fits(root: Unit, name: str, vtree: Vtree) -> Verdict:
    """Whether a smooth and decomposable graph can be written on the vtree of a circuit."""
    try:
        circuit_blocks(root, vtree=vtree)
    except CompatibilityError as error:
        return Verdict(False, f"in the {name} circuit, {error}".rstrip("."))
    other = "second" if name == "first" else "first"
    return Verdict(True, f"the {name} circuit splits its variables along the {other} one's vtree")


def _first_difference(one: Graph, other: Graph, names: tuple[str, str]) -> str | None:
    """Two products, one of each graph, that split the largest scope differently, in words."""
    first, second = _splits(one), _splits(other)
    for scope in sorted(first.keys() & second.keys(), key=lambda s: (-s.bit_count(), s)):
        for split, i in first[scope].items():
            for other_split, j in second[scope].items():
                if split != other_split:
                    wide = (
                        " (products of more than two inputs may be reconciled by "
                        "Circuit.from_units with one vtree for both)"
                        if one is not other and max(len(split), len(other_split)) > 2
                        else ""
                    )
                    verb = "splits " if one is other else ""
                    return (
                        f"over variables {show(scope)}, product unit #{i}{names[0]}splits into "
                        f"{show_split(split)}, product unit #{j}{names[1]}{verb}into "
                        f"{show_split(other_split)}{wide}"
                    )
    return None


def _splits(graph: Graph) -> dict[int, dict[frozenset[int], int]]:
    """For every scope the ways in which products split it, each with the first such product."""
    found: dict[int, dict[frozenset[int], int]] = {}
    for i, unit in enumerate(graph.units):
        if unit.kind == "product" and len(unit.inputs) > 1:
            split = frozenset(graph.masks[j] for j in graph.inputs[i])
            found.setdefault(graph.masks[i], {}).setdefault(split, i)
    return found


def _vtree_difference(one: Vtree, other: Vtree) -> str:
    """The highest scope that two vtrees over the same variables split differently, in words."""
    mine, theirs = node_masks(one), node_masks(other)
    queue = deque([(one.root, other.root)])
    while queue:
        a, b = queue.popleft()
        if one.is_leaf(a):
            continue
        left, right = int(one.left[a]), int(one.right[a])
        other_left, other_right = int(other.left[b]), int(other.right[b])
        if mine[left] == theirs[other_right]:
            other_left, other_right = other_right, other_left
        if mine[left] != theirs[other_left]:
            return (
                f"over variables {show(mine[a])}, a product unit of the first circuit splits into "
                f"{show_split([mine[left], mine[right]])}, one of the second into "
                f"{show_split([theirs[other_left], theirs[other_right]])}"
            )
        queue += [(left, other_left), (right, other_right)]
    raise CircuitError("The vtrees do not differ.")  # pragma: no cover - asked only when they do
