"""Shapley values of games: what every player adds to the worth of coalitions.

A game of a row is a function from the players who take part to its worth,

    phi_j = sum over S without j of |S|! (m - |S| - 1)! / m! (v(S + j) - v(S))

Players a row says nothing of add nothing, and are left out. Rows with the same players are asked
about together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from expectedkernels.errors import SizeError
from expectedkernels.estimators.rows import distinct

MOST_PLAYERS = 20
"""Of more players not all subsets are asked for."""
BATCH = 2**15
"""Rows are taken together up to so many coalitions: they share what depends on these only."""

Worth = Callable[[Any, Any], Any]
"""From numbers of rows, and who takes part, (coalitions, players), to (rows, coalitions,
outputs)."""


@dataclass(frozen=True, eq=False)
class Shares:
    """What players of rows get: always with an axis of outputs, the last one.

    Attributes
    ----------
    values : array of shape (rows, players, outputs)
    base, total : arrays of shape (rows, outputs)
        The worth of nobody, and of all.
    errors : array of the shape of values, or None
    pairs : array of shape (rows, players, players, outputs), or None
    """

    values: Any
    base: Any
    total: Any
    errors: Any = None
    pairs: Any = None


def by_subsets(worth: Worth, active: Any, interactions: bool = False) -> Shares:
    """The exact values, from all subsets of the active players of every row, (rows, players)."""
    most = int(active.sum(axis=1).max(initial=0))
    if most > MOST_PLAYERS:
        raise SizeError(
            f"Exact Shapley values need the worth of all subsets of players. Got {most} players, "
            f"more than {MOST_PLAYERS}. Put columns together by the 'players' parameter, or use "
            "method='permutations'."
        )
    parts = []
    for rows, who in _alike(active, lambda k: 2**k):
        subsets = _subsets(len(who))
        v = worth(rows, _of_all(subsets, who, active.shape[1]))
        values = _placed(np.einsum("sk,rso->rko", _weights(subsets), v), who, active.shape[1])
        pairs = _pairs(subsets, v, who, active.shape[1]) if interactions else None
        parts.append((rows, Shares(values, v[:, 0], v[:, -1], None, pairs)))
    return _together(parts, len(active))


def by_orders(worth: Worth, active: Any, n_orders: int, rng: Any) -> Shares:
    """Unbiased values from random orders and their reverses, with standard errors over pairs."""
    half, m, parts = (n_orders + 1) // 2, active.shape[1], []
    for rows, who in _alike(active, lambda k: 2 * half * max(1, k)):
        k = len(who)
        rank = rng.permuted(np.tile(np.arange(k), (half, 1)), axis=1)
        rank = np.stack([rank, k - 1 - rank], axis=1).reshape(-1, k)
        before = rank[:, None, :] < np.arange(k + 1)[None, :, None]
        first, number = distinct(before.reshape(-1, k))
        v = worth(rows, _of_all(before.reshape(-1, k)[first], who, m))
        steps = v[:, number].reshape(len(rows), 2 * half, k + 1, -1)
        gains = np.take_along_axis(np.diff(steps, axis=2), rank[None, :, :, None], axis=2)
        gains = gains.reshape(len(rows), half, 2, k, -1).mean(axis=2)
        errors = gains.std(axis=1, ddof=1) / np.sqrt(half)
        values, errors = (_placed(x, who, m) for x in (gains.mean(axis=1), errors))
        parts.append((rows, Shares(values, steps[:, 0, 0], steps[:, 0, -1], errors)))
    return _together(parts, len(active))


def _alike(active: Any, n_coalitions: Callable[[int], int]) -> Iterator[tuple[Any, Any]]:
    """Numbers of rows with the same active players, and these, batch by batch."""
    first, number = distinct(active)
    for group, row in enumerate(first):
        members, who = np.flatnonzero(number == group), np.flatnonzero(active[row])
        size = max(1, BATCH // n_coalitions(len(who)))
        for start in range(0, len(members), size):
            yield members[start : start + size], who


def _of_all(shown: Any, who: Any, m: int) -> Any:
    every = np.zeros((len(shown), m), dtype=np.bool_)
    every[:, who] = shown
    return every


def _placed(found: Any, who: Any, m: int) -> Any:
    """What some players get, among all of them."""
    every = np.zeros((len(found), m, found.shape[2]))
    every[:, who] = found
    return every


def _together(parts: list[tuple[Any, Shares]], n: int) -> Shares:
    """The shares of all rows, from those of batches of them."""
    rows = np.concatenate([rows for rows, _ in parts])
    back = np.empty(n, dtype=np.intp)
    back[rows] = np.arange(n)

    def joined(name: str) -> Any:
        arrays = [getattr(shares, name) for _, shares in parts]
        return None if arrays[0] is None else np.concatenate(arrays)[back]

    return Shares(*map(joined, ("values", "base", "total", "errors", "pairs")))


def _subsets(m: int) -> Any:
    """All subsets of m players, (2^m, m): nobody first, all last."""
    return (np.arange(2**m)[:, None] >> np.arange(m)) & 1 == 1


def _weights(subsets: Any) -> Any:
    """How much every subset counts for every player, (subsets, players)."""
    m = subsets.shape[1]
    size = subsets.sum(axis=1)
    joins = np.array([*(1.0 / (m * comb(m - 1, s)) for s in range(m)), 0.0])
    return np.where(subsets, joins[size - 1][:, None], -joins[size][:, None])


def _pairs(subsets: Any, v: Any, who: Any, n_players: int) -> Any:
    """The Shapley interaction indices of all pairs, zero on the diagonal.

    sum over S without i and j of |S|! (m - |S| - 2)! / (m - 1)!
    (v(S + i + j) - v(S + i) - v(S + j) + v(S))
    """
    m = subsets.shape[1]
    pairs = np.zeros((len(v), n_players, n_players, v.shape[2]))
    share = np.array([1.0 / ((m - 1) * comb(m - 2, s)) for s in range(m - 1)])
    for i in range(m):
        for j in range(i):
            both = subsets[:, i].astype(np.intp) + subsets[:, j]
            weight = share[subsets.sum(axis=1) - both] * np.where(both == 1, -1.0, 1.0)
            index = np.einsum("s,rso->ro", weight, v)
            pairs[:, who[i], who[j]] = pairs[:, who[j], who[i]] = index
    return pairs
