"""How often every edge of a circuit is expected to be used, summed over weighted rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import as_like, namespace, to_numpy
from expectedkernels.engine.levels import Level, Levels
from expectedkernels.engine.passes import AnyLevels, Down, Up, down, operations


class EdgeCounts:
    """Expected counts of all weights of a circuit, level by level."""

    def __init__(self, levels: AnyLevels) -> None:
        self.levels = levels
        every: Any = levels.levels
        zeros = namespace(every[0].edges.weights).zeros_like
        self._stacks = [[zeros(stack.weights) for stack in level.stacks] for level in every]
        self._edges = [zeros(level.edges.weights) for level in every]

    def take_in(self, found: Up, number: int, units: Any) -> None:
        """Add w * sum over rows of (derivative of the unit) * (value of the product)."""
        level: Any = self.levels.levels[number]
        ops, products = operations(self.levels), found.products[number]
        if isinstance(products, tuple):  # the states of variables, in tensors
            stacks, dots = ops.table_counts(*products[:1], ops.table_uses(*products, units))
            for counts, more in zip(self._stacks[number], stacks, strict=True):
                counts += more
            self._edges[number] += dots
            return
        for counts, stack in zip(self._stacks[number], level.stacks, strict=True):
            n, height, width = stack.weights.shape
            above = units[stack.units].reshape(n, height, -1)
            below = products[stack.products].reshape(n, width, -1)
            counts += stack.weights * (above @ below.swapaxes(1, 2))
        if len(level.edges.weights):
            self._edges[number] += level.edges.weights * ops.edge_dots(level, units, products)

    def add(self, other: EdgeCounts) -> None:
        """Add the counts of other rows."""
        for stacks, more in zip(self._stacks, other._stacks, strict=True):
            for counts, found in zip(stacks, more, strict=True):
                counts += found
        for counts, found in zip(self._edges, other._edges, strict=True):
            counts += found

    def add_nodes(self, found: Sequence[Any]) -> None:
        """Add the counts of other rows, given as `by_node` gives them."""
        for level, stacks, edges in zip(
            self.levels.host.levels, self._stacks, self._edges, strict=True
        ):
            free = level.n_passed_nodes
            own = [found[node] for node in level.nodes[free:].tolist()]
            at = 0
            for counts in stacks:
                parts = zip(level.matrices[free + at :], own[at : at + len(counts)], strict=False)
                counts += as_like(np.stack([_written(*part) for part in parts]), counts)
                at += len(counts)
            if len(edges):
                edges += as_like(_edge_numbers(level, level.matrices[free + at :], own[at:]), edges)

    def by_node(self) -> list[Any]:
        """The counts of every vtree node as its weights are stored, None where there are none.

        A matrix for dense weights, one number per stored entry for sparse ones.
        """
        return by_node(self.levels.host, self.by_level())

    def by_level(self) -> list[tuple[list[Any], Any]]:
        """The counts of the stacks and of the edges of every level."""
        return list(zip(self._stacks, self._edges, strict=True))


def by_node(levels: Levels, numbers: Sequence[tuple[list[Any], Any]]) -> list[Any]:
    """Numbers of stacks and edges of every level as the weights of vtree nodes are stored."""
    found: list[Any] = [None] * levels.vtree.n_nodes
    for level, (stacks, edges) in zip(levels.levels, numbers, strict=True):
        parts = _cut(level, list(map(to_numpy, stacks)), to_numpy(edges))
        for node, part in zip(level.nodes[level.n_passed_nodes :].tolist(), parts, strict=True):
            found[node] = part
    return found


def _cut(level: Level, stacks: list[Any], edges: Any) -> list[Any]:
    """The counts of the nodes of a level that have weights."""
    own = level.matrices[level.n_passed_nodes :]
    found = [matrix for stack in stacks for matrix in stack]
    for i, matrix in enumerate(found):
        if sparse.issparse(own[i]):
            found[i] = matrix[own[i].nonzero()]
    rest = own[len(found) :]
    small = [matrix for matrix in rest if not sparse.issparse(matrix)]
    flat = np.zeros(sum(matrix.size for matrix in small))
    n = len(level.edges.kept)
    flat[level.edges.kept] = edges[:n]
    ends = np.cumsum([matrix.size for matrix in small])[:-1]
    parts = np.split(flat, ends) if small else []
    found += [part.reshape(m.shape) for part, m in zip(parts, small, strict=True)]
    stored = [matrix.nnz for matrix in rest if sparse.issparse(matrix)]
    return found + (np.split(edges[n:], np.cumsum(stored)[:-1]) if stored else [])


def _written(matrix: Any, numbers: Any) -> Any:
    """Numbers as a dense matrix, given those of stored entries if the weights are sparse."""
    if not sparse.issparse(matrix):
        return numbers
    dense = np.zeros(matrix.shape)
    dense[matrix.nonzero()] = numbers
    return dense


def _edge_numbers(level: Level, matrices: Sequence[Any], own: Sequence[Any]) -> Any:
    """Numbers of the sparse nodes of a level, edge by edge."""
    pairs = list(zip(matrices, own, strict=True))
    small = [numbers.reshape(-1) for matrix, numbers in pairs if not sparse.issparse(matrix)]
    stored = [numbers for matrix, numbers in pairs if sparse.issparse(matrix)]
    kept = np.concatenate(small)[level.edges.kept] if small else np.zeros(0)
    return np.concatenate([kept, *stored])


def count(found: Up, weights: Any, counts: EdgeCounts, work: Any = None) -> Down:
    """The pass down that adds the expected counts of all edges in weighted rows."""
    return down(
        found,
        work=work,
        each=lambda number, units: counts.take_in(found, number, units),
        to_atoms=False,
        weights=weights,
    )
