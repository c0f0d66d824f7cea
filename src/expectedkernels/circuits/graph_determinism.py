"""Whether a unit graph is deterministic: at most one input of every sum is not zero anywhere.

Four ways, from cheap to dear: variables that separate the inputs, inputs that visibly overlap,
the exact test on blocks for structured graphs, and enumeration of small domains.
"""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.determinism import deterministic
from expectedkernels.circuits.graph import Graph, bits, union
from expectedkernels.circuits.graph_queries import CELLS_AT_ONCE, evaluate
from expectedkernels.circuits.structure import circuit_blocks
from expectedkernels.errors import CircuitError
from expectedkernels.verdict import Verdict

MAX_STATES = 2**16
"""Domains with at most this many states are enumerated if nothing else decides."""
MAX_BITS = 2**31
"""Supports are not propagated if they would take more bits than this."""
MAX_PAIRS = 2000
"""Pairs of inputs of one sum are not tried one by one if there are more than this."""


def graph_deterministic(graph: Graph) -> Verdict:
    """Whether every sum has inputs with disjoint supports; undecided if that is out of reach.

    Inputs with weight zero do not count.
    """
    alive = _alive(graph)
    open_sum = _not_separated(graph, alive)
    if open_sum is None:
        return Verdict(True, "some variable separates any two inputs of every sum unit")
    # With negative numbers terms may cancel, so that supports are smaller than they look.
    signed = graph.has_negative() is not None
    if graph.not_decomposable() is None:
        reason = _overlap(graph, alive) or _two_paths(graph, alive)
        verdict = _on_blocks(graph) if reason is None else Verdict(False, reason)
        if verdict is not None and (verdict.holds or not signed):
            return verdict
    cards = graph.cardinalities
    if None not in cards.values() and prod(cards.values()) <= MAX_STATES:  # type: ignore[arg-type]
        return _enumerated(graph)
    return Verdict(
        None,
        f"could not be decided: no variable separates the inputs of {graph.describe(open_sum)}, "
        "and the circuit is neither structured-decomposable (with non-negative weights) nor "
        f"over at most {MAX_STATES} states",
    )


def _alive(graph: Graph) -> list[bool]:
    """Whether each unit is not zero everywhere, as far as its structure shows."""
    alive: list[bool] = []
    for i, unit in enumerate(graph.units):
        if unit.kind == "input":
            alive.append(_support(unit) != 0)
        elif unit.kind == "sum":
            alive.append(any(alive[j] for j in _counted(graph, i)))
        else:
            alive.append(all(alive[j] for j in graph.inputs[i]))
    return alive


def _support(leaf: Any) -> int:
    """The states where an input unit is not zero, as bits; one bit for a whole real line."""
    if leaf.cardinality is None:
        return 1
    return sum(1 << value for value in np.flatnonzero(leaf.probs).tolist())


def _counted(graph: Graph, i: int) -> list[int]:
    """The inputs of a sum unit whose weights are not zero."""
    weights: Any = graph.units[i].weights.tolist()  # type: ignore[attr-defined]
    return [j for j, weight in zip(graph.inputs[i], weights, strict=True) if weight != 0]


def _not_separated(graph: Graph, alive: list[bool]) -> int | None:
    """The first sum with two inputs that no variable separates (None: there is none).

    For every unit and variable the values that occur are propagated upwards, all in one integer
    with a field of bits for each variable. Two units are separated when some field of
    variables of both is empty in the intersection.
    """
    place = {v: k for k, v in enumerate(bits(graph.masks[-1]))}
    width = max(card or 1 for card in graph.cardinalities.values())
    if len(graph.units) * len(place) * width > MAX_BITS:
        return next((i for i, unit in enumerate(graph.units) if unit.kind == "sum"), None)
    full = {
        v: ((1 << (card or 1)) - 1) << place[v] * width for v, card in graph.cardinalities.items()
    }
    supports: list[int] = []
    fields: list[int] = []  # the lowest bits of the fields of the variables in the scope
    for i, unit in enumerate(graph.units):
        inputs = graph.inputs[i]
        if unit.kind == "input":
            shift = place[unit.variable] * width  # type: ignore[attr-defined]
            supports.append(_support(unit) << shift)
            fields.append(1 << shift)
            continue
        fields.append(union(fields[j] for j in inputs))
        if unit.kind == "product":
            supports.append(union(supports[j] for j in inputs) if alive[i] else 0)
            continue
        terms = []
        for j in _counted(graph, i):
            if alive[j]:
                missing = graph.masks[i] & ~graph.masks[j]
                terms.append(supports[j] | union(full[v] for v in bits(missing)))
        if not _separated(terms, fields[i], width):
            return i
        supports.append(union(terms))
    return None


def _separated(terms: list[int], fields: int, width: int) -> bool:
    """Whether any two of the supports have an empty field in common."""
    candidates, seen = fields, 0
    for term in terms:  # most often one variable separates them all
        candidates &= ~_touched(seen & term, width)
        seen |= term
    if candidates:
        return True
    if len(terms) * (len(terms) - 1) // 2 > MAX_PAIRS:
        return False
    return all(fields & ~_touched(a & b, width) for a, b in combinations(terms, 2))


def _touched(values: int, width: int) -> int:
    """The lowest bits of the fields that are not empty (the other bits mean nothing)."""
    reach = 1
    while reach < width:
        shift = min(reach, width - reach)
        values |= values >> shift
        reach += shift
    return values


def _overlap(graph: Graph, alive: list[bool]) -> str | None:
    """A sum over one variable, or over real ones only, with two inputs that overlap, in words."""
    real = union(1 << v for v, card in graph.cardinalities.items() if card is None)
    supports: dict[int, int] = {}
    for i, unit in enumerate(graph.units):
        mask = graph.masks[i]
        if mask & ~real and mask.bit_count() > 1:
            continue
        if unit.kind != "sum":
            supports[i] = int(alive[i]) if mask & real else _support_of_one(graph, i, supports)
            continue
        seen = 0
        for j in _counted(graph, i):
            if seen & supports[j]:
                where = "" if mask & real else f" at value {bits(seen & supports[j])[0]}"
                return f"{graph.describe(i)} has two inputs that are not zero{where}"
            seen |= supports[j]
        supports[i] = seen
    return None


def _support_of_one(graph: Graph, i: int, supports: dict[int, int]) -> int:
    """The support of an input unit, or of a product with one input."""
    inputs = graph.inputs[i]
    return supports[inputs[0]] if inputs else _support(graph.units[i])


def _two_paths(graph: Graph, alive: list[bool]) -> str | None:
    """A sum that reaches a unit along two paths of sums, in words."""
    covered: set[int] = set()
    for top in range(len(graph.units) - 1, -1, -1):
        if graph.units[top].kind != "sum" or top in covered:
            continue
        reached: set[int] = set()
        stack = [top]
        while stack:
            i = stack.pop()
            for j in _counted(graph, i):
                if j in reached and alive[j]:
                    return (
                        f"{graph.describe(top)} reaches unit #{j} along two paths of sum units, "
                        "so that the inputs of one of them overlap"
                    )
                reached.add(j)
                if graph.units[j].kind == "sum":
                    covered.add(j)
                    stack.append(j)
    return None


def _on_blocks(graph: Graph) -> Verdict | None:
    """The exact answer on the blocks of the graph, None if it has none.

    The blocks are not minimised: equal inputs of a sum are to be found, not merged.
    """
    try:
        vtree, blocks = circuit_blocks(graph.units[-1], smooth=True)
    except CircuitError:
        return None
    verdict = deterministic(Circuit(vtree, tuple(blocks)))
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
            for j in _counted(graph, i):
                count += signs[j] != 0
            if (count > 1).any():
                row = int(np.argmax(count > 1))
                point = {v: int(state[row]) for v, state in zip(cards, states, strict=True)}
                shown = ", ".join(f"x{v} = {point[v]}" for v in sorted(point)[:8])
                return Verdict(
                    False, f"{graph.describe(i)} has two inputs that are not zero at {shown}"
                )
    return Verdict(True, f"at each of the {n} points at most one input of every sum is not zero")
