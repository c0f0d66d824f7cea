"""Structural properties of circuits, each with a reason."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from expectedkernels import checks
from expectedkernels.arrays import spans
from expectedkernels.checks import CircuitError, CompatibilityError, PropertyError, Verdict
from expectedkernels.circuits import graph as units
from expectedkernels.circuits.circuit import Circuit, merge_equal
from expectedkernels.circuits.graph import Graph, Sum, Unit, show
from expectedkernels.circuits.queries import deterministic
from expectedkernels.display import overview

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
    """The exact result on the blocks of the graph, None if it has none, or too large ones.

    Weights and values that are not zero are taken for one, so that numbers of blocks count the
    inputs of sums that were merged there.
    """
    new: list[Unit] = []
    try:
        for unit, inputs in zip(graph.units, graph.inputs, strict=True):
            below = [new[j] for j in inputs]
            if isinstance(unit, Sum):
                new.append(Sum(below, unit.weights != 0))
            elif isinstance(unit, units.Leaf):
                discrete = unit.cardinality is not None
                new.append(units.Categorical(unit.variable, unit.probs != 0) if discrete else unit)  # type: ignore[attr-defined]
            else:
                new.append(units.Product(below))
        vtree, blocks = units.circuit_blocks(new[-1], smooth=True)
        for mask, block in zip(units.node_masks(vtree), merge_equal(vtree, blocks), strict=True):
            if (block.flat[0] > 1.0).any():
                reason = f"a sum unit over variables {show(mask)} has two inputs that are not zero"
                return Verdict(False, f"{reason} at the same values")
        verdict = deterministic(Circuit(vtree, tuple(blocks)))
    except CircuitError:
        return None
    return Verdict(verdict.holds, f"in the form of blocks, {verdict.reason}")


def _enumerated(graph: Graph) -> Verdict:
    """The result from the values of all units at all points."""
    cards: dict[int, Any] = graph.cardinalities
    n, variables = prod(cards.values()), sorted(cards)
    X = np.zeros((n, variables[-1] + 1))
    shape = tuple(cards[v] for v in variables)
    X[:, variables] = np.stack(np.unravel_index(np.arange(n), shape), axis=1)
    for part in spans(n, max(1, units.CELLS_AT_ONCE // len(graph.units))):
        _, signs = units.evaluate(graph, X[part])
        for i, unit in enumerate(graph.units):
            if isinstance(unit, Sum):
                pairs = zip(graph.inputs[i], unit.weights, strict=True)
                twice = np.sum([signs[j] != 0 for j, w in pairs if w], axis=0) > 1
                if np.any(twice):
                    point = X[part][np.argmax(twice)]
                    at = ", ".join(f"x{v} = {int(point[v])}" for v in variables[:8])
                    reason = f"{graph.describe(i)} has two inputs that are not zero at {at}"
                    return Verdict(False, reason)
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
        return "\n".join(f"{name + ':':24} {verdict}" for name, verdict in vars(self).items())

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
        except checks.SizeError as error:
            determinism = Verdict(None, str(error))
        return Properties(
            Verdict(True, "the units of a block, and so the inputs of a sum, share a vtree node"),
            Verdict(True, "products multiply units of the two children of a vtree node"),
            Verdict(True, "every product over a scope splits it as the vtree does"),
            determinism,
        )
    graph = Graph(p)
    reason = graph.not_decomposable() or graph.not_smooth()
    if reason is None:
        splits = _splits(graph)
        reason = _first_difference(splits, splits, " splits into", " splits into")
        if reason is not None:
            with suppress(PropertyError):
                units.find_vtree(graph)
                reason += "; Circuit.from_units can reconcile all product units on one vtree"
    return Properties(
        _unless(graph.not_smooth(), "the inputs of every sum unit have the same scope"),
        _unless(graph.not_decomposable(), "the inputs of every product unit have disjoint scopes"),
        _unless(reason, "product units over the same scope split it in the same way"),
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


def require_compatible(p: Circuit | Unit, q: Circuit | Unit, what: str | None = None) -> None:
    """Raise a `CompatibilityError` unless two circuits are compatible; `what` needs it.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> x, y = (ek.Indicator(v, 0, 2) for v in range(2))
    >>> require_compatible(ek.Product([x, y]), ek.Product([y, x]))
    """
    verdict = is_compatible(p, q)
    if verdict:
        return
    message = f"{what} needs compatible circuits, but {verdict.reason}."
    if what is None and _other_domain(p, q) is not None:
        message = f"The circuits must have the same variables, but {verdict.reason}."
    elif what is None:
        message = f"The circuits are not compatible: {verdict.reason}. {HARDNESS}"
    raise CompatibilityError(message)


def _unless(reason: str | None, fine: str) -> Verdict:
    """No for a reason, or yes."""
    return Verdict(True, fine) if reason is None else Verdict(False, reason)


def _other_domain(p: Circuit | Unit, q: Circuit | Unit) -> str | None:
    """How the variables of two circuits differ, in words; None if they do not."""
    if isinstance(p, Circuit) and isinstance(q, Circuit) and p.cardinalities == q.cardinalities:
        return None
    one, other = (
        dict(enumerate(x.cardinalities)) if isinstance(x, Circuit) else Graph(x).cardinalities
        for x in (p, q)
    )
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
    for name, x, other, y in (("first", p, "second", q), ("second", q, "first", p)):
        if not isinstance(x, Unit):
            continue
        graph = Graph(x)
        reason = graph.not_decomposable() or graph.not_smooth()
        if reason is None and isinstance(y, Circuit):
            try:
                units.circuit_blocks(x, vtree=y.vtree)
            except CompatibilityError as error:
                reason = str(error).rstrip(".")
        if reason is not None:
            return Verdict(False, f"in the {name} circuit, {reason}")
        if isinstance(y, Circuit):
            return Verdict(
                True, f"the {name} circuit splits its variables along the {other} one's vtree"
            )
    if isinstance(p, Circuit) and isinstance(q, Circuit):
        fine = "their vtrees are equal up to swapping left and right"
        if p.vtree.align(q.vtree) is not None:
            return Verdict(True, fine)
    else:
        fine = "both are smooth and decomposable, and split each common scope in the same way"
    first, second = (x if isinstance(x, Circuit) else Graph(x) for x in (p, q))
    splits = _splits(first, "a product unit"), _splits(second, "one")
    into = " of the first circuit splits into", " of the second into"
    return _unless(_first_difference(*splits, *into), fine)


Splits = dict[int, dict[frozenset[int], str]]
"""For every scope the ways in which products split it, and what splits it so."""


def _splits(p: Circuit | Graph, name: str = "") -> Splits:
    if isinstance(p, Circuit):
        masks = units.node_masks(p.vtree)
        nodes = zip(masks, p.vtree.left.tolist(), p.vtree.right.tolist(), strict=True)
        return {mask: {frozenset((masks[a], masks[b])): name} for mask, a, b in nodes if a >= 0}
    splits: Splits = {}
    for i, unit in enumerate(p.units):
        if unit.kind == "product" and len(unit.inputs) > 1:
            split = frozenset(p.masks[j] for j in p.inputs[i])
            splits.setdefault(p.masks[i], {}).setdefault(split, f"product unit #{i}")
    return splits


def _first_difference(one: Splits, other: Splits, first: str, second: str) -> str | None:
    """Two products, one of each circuit, that split the largest scope differently, in words."""
    for scope in sorted(one.keys() & other.keys(), key=lambda s: (-s.bit_count(), s)):
        for (a, unit), (b, rival) in product(one[scope].items(), other[scope].items()):
            if a != b:
                wide = (
                    " (products of more than two inputs may be reconciled by "
                    "Circuit.from_units with one vtree for both)"
                )
                return (
                    f"over variables {show(scope)}, {unit}{first} {units.show_split(a)}, "
                    f"{rival}{second} {units.show_split(b)}"
                    f"{wide if one is not other and max(len(a), len(b)) > 2 else ''}"
                )
    return None
