"""Graphical models on paper."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from expectedkernels.arrays import Array
from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.html import overview
from expectedkernels.layouts import Layout, depths, layered, pale, spread, svg

DARK = "#444444"
FEW = 40
"""Of so many variables, notebooks show a drawing."""


def model_layout(model: FactorGraph) -> Layout:
    """The variables of a model: networks from the roots down, other graphs by their distances.

    Factors of two variables are edges, those of more are squares.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> model_layout(ek.BayesianNetwork([[], [0]], [[0.5, 0.5], [[1, 0], [0, 1]]])).y.tolist()
    [0.0, -1.0]
    """
    n = model.n_variables
    labels = list(model.names or map(str, range(n)))
    if isinstance(model, BayesianNetwork):
        arcs = [(parent, v) for v, above in enumerate(model.parents) for parent in above]
        depth = depths(n, arcs)
        x, y = layered(depth, arcs)
        fills = [pale(d) for d in depth.tolist()]
        return _made(x, y, labels, fills, arcs, arrows=True, title=repr(model))
    scopes = {tuple(sorted(factor.scope)) for factor in model.factors}
    edges = sorted(scope for scope in scopes if len(scope) == 2)
    large = sorted(scope for scope in scopes if len(scope) > 2)
    near = {pair for scope in large for pair in combinations(scope, 2)} | set(edges)
    x, y = spread(n, sorted(near))
    spokes = [(n + i, v) for i, scope in enumerate(large) for v in scope]
    centres = [[float(z[list(scope)].mean()) for scope in large] for z in (x, y)]
    x, y = (np.concatenate([z, centre]) for z, centre in zip((x, y), centres, strict=True))
    return _made(
        x,
        y,
        labels + [""] * len(large),
        [pale(5)] * n + [DARK] * len(large),
        [*edges, *spokes],
        squares=frozenset(range(n, n + len(large))),
        title=repr(model),
    )


def model_html(model: FactorGraph) -> str:
    """What notebooks show of a model: its size, and its variables if they are few.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> "<svg" in model_html(ek.asia()), "<svg" in model_html(ek.ising_grid(20, 20, rng=0))
    (True, False)
    """
    cards = sorted(set(model.cardinalities))
    found = {
        "variables": model.n_variables,
        "states": f"{cards[0]} to {cards[-1]}" if len(cards) > 1 else cards[0],
        "factors": len(model.factors),
        "largest factor": f"{max((len(f.scope) for f in model.factors), default=0)} variables",
    }
    few = model.n_variables <= FEW
    return overview(type(model).__name__, found, svg(model_layout(model), 48.0) if few else "")


def _made(
    x: Array,
    y: Array,
    labels: list[str],
    fills: list[str],
    edges: Sequence[Sequence[int]],
    **rest: Any,
) -> Layout:
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    return Layout(x, y, labels, fills, pairs, np.full(len(pairs), 0.3), **rest)
