"""Which edge to split next: candidates by flow, ties in the order of the circuit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush

from expectedkernels.learning.logical import Logical


class Candidates:
    """Edges and their flows, the largest first.

    Edges with the same flow are kept together, so that the tied ones are at hand.

    Examples
    --------
    >>> edges = Candidates()
    >>> for edge, flow in enumerate([2.0, 5.0, 5.0]):
    ...     edges.put(edge, flow)
    >>> edges.largest()
    {1, 2}
    """

    def __init__(self) -> None:
        self._flow: dict[int, float] = {}
        self._group: dict[float, set[int]] = {}
        self._heap: list[float] = []

    def __contains__(self, edge: int) -> bool:
        return edge in self._flow

    def __iter__(self) -> Iterator[int]:
        return iter(self._flow)

    def put(self, edge: int, flow: float) -> None:
        """Add an edge, or change its flow."""
        old = self._flow.get(edge)
        if old == flow:
            return
        if old is not None:
            self._leave(edge, old)
        self._flow[edge] = flow
        if flow not in self._group:
            self._group[flow] = set()
            heappush(self._heap, -flow)
        self._group[flow].add(edge)

    def remove(self, edge: int) -> None:
        """Forget an edge, if it is there."""
        flow = self._flow.pop(edge, None)
        if flow is not None:
            self._leave(edge, flow)

    def _leave(self, edge: int, flow: float) -> None:
        group = self._group[flow]
        group.remove(edge)
        if not group:
            del self._group[flow]

    def largest(self) -> set[int]:
        """The edges with the largest flow."""
        while self._heap and -self._heap[0] not in self._group:
            heappop(self._heap)
        return self._group[-self._heap[0]] if self._heap else set()

    def best(self, circuit: Logical) -> int | None:
        """The edge with the largest flow, of several the first in the circuit's order."""
        edges = self.largest()
        return next(in_order(circuit, edges) if len(edges) > 1 else iter(edges), None)


def in_order(circuit: Logical, edges: Collection[int]) -> Iterator[int]:
    """Edges in the circuit's post-order: inputs before the units that use them, each unit once.

    Only what lies between the edges and the lowest unit above all of them is visited, and of that
    only what comes before the edges that are asked for.
    """
    wanted = set(edges)
    between, top = _between(circuit, {circuit.sum_of[edge] for edge in wanted})
    stack: list[tuple[int, Iterator[int]]] = [(top, _inputs(circuit, top))]
    between.discard(top)
    while stack:
        unit, waiting = stack[-1]
        for below in waiting:
            if below in between:
                between.discard(below)  # visited
                stack.append((below, _inputs(circuit, below)))
                break
        else:
            stack.pop()
            if circuit.left[unit] < 0:
                yield from (edge for edge in circuit.edges[unit] if edge in wanted)


def _inputs(circuit: Logical, unit: int) -> Iterator[int]:
    """The inputs of a unit, in order."""
    if circuit.left[unit] >= 0:
        return iter((circuit.left[unit], circuit.right[unit]))
    return iter([circuit.input_of[edge] for edge in circuit.edges[unit]])


def _between(circuit: Logical, sums: Iterable[int]) -> tuple[set[int], int]:
    """The units above some sums up to the lowest one that is above all of them, and that one.

    All paths from the root to a unit have the same length, so going up level by level meets
    every unit once; a level with a single unit is passed by all paths.
    """
    sum_of, users, depth, node = circuit.sum_of, circuit.users, circuit.depth, circuit.node
    levels: dict[int, set[int]] = {}
    for unit in sums:
        levels.setdefault(depth[node[unit]], set()).add(unit)
    level = max(levels)
    frontier = levels.pop(level)
    between: set[int] = set()
    while len(frontier) > 1 or levels:
        between |= frontier
        products = {product for unit in frontier for product in users[unit]}
        between |= products
        level -= 1
        frontier = {sum_of[edge] for product in products for edge in users[product]}
        frontier |= levels.pop(level, set())
    between |= frontier
    return between, frontier.pop()
