"""Models of many kinds, small enough to know their marginals and partition functions."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np

import expectedkernels as ek

NETWORKS = ("sachs", "survey", "cancer", "earthquake")
"""Networks that come with pgmpy."""


def networks() -> dict[str, Any]:
    """Bayesian networks of pgmpy; none if it is not installed."""
    try:
        from pgmpy.utils import get_example_model
    except ImportError:
        return {}
    with warnings.catch_warnings():  # the successor of this function looks for files elsewhere
        warnings.simplefilter("ignore", FutureWarning)
        found = {name: get_example_model(name) for name in NETWORKS}
    return {name.upper(): ek.models.as_model(model) for name, model in found.items()}


def edges(rows: int, cols: int) -> list[tuple[int, int]]:
    """The pairs of neighbours on a grid."""
    at = np.arange(rows * cols).reshape(rows, cols)
    across = list(zip(at[:, :-1].ravel().tolist(), at[:, 1:].ravel().tolist(), strict=True))
    return across + list(zip(at[:-1].ravel().tolist(), at[1:].ravel().tolist(), strict=True))


def graph(cards: list[int], pairs: Any, tables: Any, fields: Any = None) -> ek.FactorGraph:
    """A model of pairs, from logs of its tables."""
    factors = [ek.Factor(list(pair), np.exp(t)) for pair, t in zip(pairs, tables, strict=True)]
    if fields is not None:
        factors += [ek.Factor([v], np.exp(f)) for v, f in enumerate(fields)]
    return ek.FactorGraph(cards, factors)


def spins(pairs: list[tuple[int, int]], n: int, couplings: Any, fields: Any) -> ek.FactorGraph:
    """Binary variables with couplings and fields."""
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    own = [np.array([f, -f]) for f in fields]
    return graph([2] * n, pairs, [c * signs for c in couplings], own)


def chain(n: int, rng: Any) -> ek.FactorGraph:
    return spins(list(pairwise(range(n))), n, rng.normal(0, 0.7, n - 1), rng.normal(0, 0.3, n))


def machine(visible: int, hidden: int, rng: Any) -> ek.FactorGraph:
    """A restricted Boltzmann machine."""
    pairs, n = [(i, visible + j) for i in range(visible) for j in range(hidden)], visible + hidden
    return spins(pairs, n, rng.normal(0, 0.25, len(pairs)), rng.normal(0, 0.2, n))


def clauses(rng: Any, cost: float = 2.0) -> ek.FactorGraph:
    """Clauses of three literals, each a factor of exp(-cost) if it is false."""
    factors = []
    for _ in range(60):
        table = np.ones((2, 2, 2))
        table[tuple(rng.integers(2, size=3))] = np.exp(-cost)
        factors.append(ek.Factor(rng.choice(20, 3, replace=False).tolist(), table))
    return ek.FactorGraph([2] * 20, factors)
