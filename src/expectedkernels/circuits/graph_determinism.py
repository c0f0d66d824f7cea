"""Whether a unit graph is deterministic: at most one input of every sum is not zero anywhere.

Structured graphs are decided on their blocks, small domains by enumeration.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.determinism import deterministic
from expectedkernels.circuits.graph import Graph, bits
from expectedkernels.circuits.graph_queries import CELLS_AT_ONCE, evaluate
from expectedkernels.circuits.structure import circuit_blocks
from expectedkernels.errors import CircuitError
from expectedkernels.verdict import Verdict

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


def _overlap(graph: Graph) -> str | None:
    """A sum over one variable with two inputs that overlap, in words: blocks merge such inputs."""
    supports: dict[int, int] = {}
    for i, unit in enumerate(graph.units):
        if graph.masks[i].bit_count() > 1:
            continue
        if unit.kind != "sum":
            inputs = graph.inputs[i]
            supports[i] = supports[inputs[0]] if inputs else _support(unit)
            continue
        seen = 0
        for j in _counted(graph, i):
            if seen & supports[j]:
                [variable] = bits(graph.masks[i])
                real = graph.cardinalities[variable] is None
                where = "" if real else f" at value {bits(seen & supports[j])[0]}"
                return f"{graph.describe(i)} has two inputs that are not zero{where}"
            seen |= supports[j]
        supports[i] = seen
    return None


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
    """The exact answer on the blocks of the graph, None if it has none, or too large ones.

    The blocks are not minimised: equal inputs of a sum are to be found, not merged.
    """
    try:
        vtree, blocks = circuit_blocks(graph.units[-1], smooth=True)
        reason = _overlap(graph) or _two_paths(graph, _alive(graph))
        if reason is not None:
            return Verdict(False, reason)
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
