"""Expected predictions given all subsets of what a row shows, in one pass over the circuit.

Below a vtree node with k players there are 2^k subsets, and above it they are the pairs of those
of the children: nothing is looked up, and hardly anything is computed that the root does not need.
At the root the sum over products and points is one product of matrices.

    E[f | S] = sum_i a_i E[k(s_i, x) 1_S(x)] / E[1_S(x)] + b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.arrays import spans
from expectedkernels.circuits.sides import Atoms
from expectedkernels.engine.nodes import from_leaves
from expectedkernels.estimators.circuits import CircuitDensity
from expectedkernels.estimators.expansion import Expansion
from expectedkernels.estimators.rows import Rows
from expectedkernels.kernels.gaussian import at_known, on_atoms

SMALLEST = 1e-200
"""Rows less probable than this are left to sweeps, which keep numbers in range."""
AT_ONCE = 2**20
"""So many points are taken together that nodes have about as many numbers."""
LARGEST = 2**25
"""How many numbers a node may have for a single point."""
FEWEST_PLAYERS = 6
"""Of fewer players, sweeps over many rows at once are faster."""
DENSE = 0.2
"""Sums of at least this share of all products are products of dense matrices."""

Found = tuple[tuple[int, ...], Any]
"""The players below a node, and its values, (units, points, subsets)."""


@dataclass(frozen=True, eq=False)
class Lattice:
    """A function and its expectations given all subsets of players.

    Attributes
    ----------
    expansion : Expansion
        At points without missing values.
    density : CircuitDensity
    players : sequence of int arrays
        The columns of numbers of every player.
    """

    expansion: Expansion
    density: CircuitDensity
    players: Sequence[Any]

    @cached_property
    def owners(self) -> list[int] | None:
        """The player of every variable, -1 for none; None if one is split between players."""
        owners = []
        for columns in self.density.places:
            inside = np.array([np.isin(columns, player).mean() for player in self.players])
            if ((inside > 0) & (inside < 1)).any():
                return None
            owners.append(int(inside.argmax()) if inside.any() else -1)
        return owners

    @cached_property
    def _hidden(self) -> list[Any]:
        """The kernels of the components of every variable and the points, and then one."""
        tables = []
        for i, columns in enumerate(self.density.places):
            block: Any = self.density.real.input(i)
            points = self.expansion.points[:, columns]
            points = points[:, 0] if block.mean.ndim == 1 else points
            atoms = Atoms(None, block.mean, block.variance, block.half)
            at = Atoms(None, points, np.zeros_like(points))
            table = on_atoms(self.expansion.rates[columns], atoms, at)
            tables.append(np.append(table, np.ones((len(table), 1)), axis=1))
        return tables

    def peak(self, who: Sequence[int]) -> int:
        """How many numbers a point needs at the largest node below the root."""
        owners, sizes, blocks = self.owners or [], [1], self.density.real.blocks

        def leaf(node: int, variable: int) -> set[int]:
            return {owners[variable]} & set(who)

        def inner(node: int, left: set[int], right: set[int]) -> set[int]:
            block: Any = blocks[node]
            # pairs of subsets meet in a product of matrices at the root
            paired = node == self.density.vtree.root and not left & right
            subsets = max(len(left), len(right)) if paired else len(left | right)
            sizes.append(len(block.inputs[0]) << subsets)
            return left | right

        from_leaves(self.density.vtree, leaf, inner)
        return max(sizes)

    def worth(self, z: Any, who: Sequence[int]) -> Any:
        """The expectations given all subsets of some players, (subsets, outputs).

        The first player is the lowest bit of the number of a subset. None if that is a matter for
        sweeps: few players, nodes that are too large, or a row that is too improbable.
        """
        peak = self.peak(who)
        if len(who) < FEWEST_PLAYERS or peak > LARGEST:
            return None
        size = max(1, AT_ONCE // peak)
        leaves = self._leaves(Rows(self.density, z[None]), who)
        coef, n = self.expansion.coef, len(self.expansion.points)
        players, chance = self._swept(leaves, slice(n, n + 1), np.ones((1, 1)))
        if not (chance > SMALLEST).all():
            return None
        total = sum(self._swept(leaves, some, coef[some])[1] for some in spans(n, size))
        place = _places(tuple(reversed(who)), players)
        return (total / chance)[place] + self.expansion.intercept

    def _leaves(self, rows: Rows, who: Sequence[int]) -> list[Found]:
        """The values of all variables, hidden and shown; after all points a kernel that is one."""
        leaves: list[Found] = []
        for i, owner in enumerate(self.owners or []):
            block: Any = self.density.real.input(i)
            shown = self._shown(rows, i, block)
            if owner in who:
                hidden = block.weights @ self._hidden[i]
                leaves.append(((owner,), np.stack([hidden, shown], axis=2)))
            else:
                leaves.append(((), shown[:, :, None]))
        return leaves

    def _shown(self, rows: Rows, i: int, block: Any) -> Any:
        """The values of a variable given what the row says of it, (units, points + 1)."""
        column, observed = rows.by_state.column(i), bool(rows.said[i].observed[0])
        share = np.ones(block.width)
        if column.logs is not None:
            share = np.exp(column.logs[column.codes[0]])
        elif observed:
            share = np.exp(block.log_density(column.values[column.codes]))[0]
        if not observed:
            return (block.weights * share) @ self._hidden[i]
        at = self.density.places[i]
        x, points = rows.Z[:, at], self.expansion.points[:, at]
        known = at_known(self.expansion.rates[at], x, np.ones_like(x, dtype=np.bool_), points)
        return (block.weights @ share)[:, None] * np.append(known, [[1.0]], axis=1)

    def _swept(self, leaves: list[Found], some: slice, coef: Any) -> Found:
        """The players at the root, and weighted sums over points there, (subsets, outputs)."""
        vtree, blocks = self.density.vtree, self.density.real.blocks

        def at_leaf(node: int, variable: int) -> Found:
            players, values = leaves[variable][0], leaves[variable][1][:, some]
            if node == vtree.root:
                return players, np.einsum("is,io->so", values[0], coef)
            return players, values

        def at_inner(node: int, left: Found, right: Found) -> Found:
            block: Any = blocks[node]
            one = left[1] if block.left is None else left[1][block.left]
            two = right[1] if block.right is None else right[1][block.right]
            players = _union(left[0], right[0])
            if node == vtree.root and len(players) == len(left[0]) + len(right[0]):
                one = one * block.csr.toarray()[0][:, None, None]
                return players, _at_root(one, two, coef)
            values = _summed(block, _products(one, two, left[0], right[0], players))
            if node == vtree.root:
                return players, np.einsum("is,io->so", values[0], coef)
            return players, values

        return from_leaves(vtree, at_leaf, at_inner)[-1]


def _union(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return a + tuple(player for player in b if player not in a)


def _summed(block: Any, values: Any) -> Any:
    """The sums of products, (units, points, subsets)."""
    if block.weights is None:
        return values
    weights = block.csr
    if weights.nnz >= DENSE * weights.shape[0] * weights.shape[1]:
        weights = weights.toarray()
    return (weights @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:])


def _at_root(one: Any, two: Any, coef: Any) -> Any:
    """The sums over products and points of all pairs of subsets, (subsets, outputs)."""
    outputs = []
    for column in coef.T:
        weighted = (one * column[None, :, None]).reshape(-1, one.shape[2])
        outputs.append((weighted.T @ two.reshape(-1, two.shape[2])).ravel())
    return np.stack(outputs, axis=1)


def _products(
    one: Any, two: Any, a: tuple[int, ...], b: tuple[int, ...], players: tuple[int, ...]
) -> Any:
    """The products of the values of children, (products, points, subsets)."""
    if len(players) == len(a) + len(b):
        return (one[..., :, None] * two[..., None, :]).reshape(*one.shape[:2], -1)
    return one[..., _places(players, a)] * two[..., _places(players, b)]


def _places(players: tuple[int, ...], some: tuple[int, ...]) -> Any:
    """For every subset of players its number among those of some of them: first is highest."""
    number = np.arange(2 ** len(players))
    place = np.zeros(len(number), dtype=np.intp)
    for player in some:
        place = 2 * place + ((number >> (len(players) - 1 - players.index(player))) & 1)
    return place
