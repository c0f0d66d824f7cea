"""Models to try things on, random grids and a small Bayesian network: `ek.datasets`."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.arrays import RngLike, as_generator, require_memory
from expectedkernels.checks import check_count
from expectedkernels.models.factor_graph import BayesianNetwork, Factor, FactorGraph
from expectedkernels.vtrees import check_grid

__all__ = ["asia", "ising_grid"]


def __dir__() -> list[str]:
    return __all__


def ising_grid(
    rows: int, cols: int, rng: RngLike = None, *, frustrated: bool = False, cardinality: int = 2
) -> FactorGraph:
    """A grid of variables with a random table on every edge.

    Variable ``i * cols + j`` is in row i and column j. The factors come in the order horizontal
    edges, row by row, then vertical edges, column by column.

    Parameters
    ----------
    rows, cols : int
        The height and the width of the grid.
    rng : int, Generator or None
        Seed or generator of random numbers; an int makes results reproducible.
    frustrated : bool
        By default the entries of the tables are independent and uniform in [0, 1). In frustrated
        grids they are r / 2 or 1 - r / 2 with independent uniform r: the first on the
        diagonal and the second elsewhere, or the other way round, with equal chances for every
        edge.
    cardinality : int
        The number of states of every variable.

    Returns
    -------
    FactorGraph

    Examples
    --------
    >>> grid = ising_grid(2, 3, rng=0)
    >>> grid
    <FactorGraph of 6 variables: 7 factors>
    >>> [factor.scope for factor in grid.factors]
    [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    """
    check_grid(rows, cols, "ising_grid")
    check_count("ising_grid", "cardinality", cardinality, 1)
    needed = 16.0 * rows * cols * cardinality**2
    require_memory(needed, f"A grid of {rows} x {cols} variables", "Take a smaller grid.")
    number = np.arange(rows * cols).reshape(rows, cols)
    across = np.stack([number[:, :-1], number[:, 1:]], axis=-1).reshape(-1, 2)
    down = np.stack([number[:-1], number[1:]], axis=-1).transpose(1, 0, 2).reshape(-1, 2)
    scopes = np.concatenate([across, down]).tolist()
    generator = as_generator(rng)
    tables = generator.random((len(scopes), cardinality, cardinality))
    if frustrated:
        flipped = generator.random(len(scopes)) < 0.5
        small = np.eye(cardinality, dtype=np.bool_) != flipped[:, None, None]
        tables = np.where(small, 0.5 * tables, 1.0 - 0.5 * tables)
    factors = [Factor(scope, table) for scope, table in zip(scopes, tables, strict=True)]
    return FactorGraph([int(cardinality)] * (rows * cols), factors)


def asia() -> BayesianNetwork:
    """The network of eight diseases, causes and symptoms by Lauritzen and Spiegelhalter.

    Every variable has the states "yes" (0) and "no" (1). Whether a patient has either tuberculosis
    or lung cancer is a deterministic function of the two.

    Returns
    -------
    BayesianNetwork

    References
    ----------
    S. L. Lauritzen and D. J. Spiegelhalter, "Local computations with probabilities on graphical
    structures and their application to expert systems", JRSS B 50, 1988.

    Examples
    --------
    >>> network = asia()
    >>> network.names
    ['asia', 'tub', 'smoke', 'lung', 'bronc', 'either', 'xray', 'dysp']
    >>> circuit, log_z = network.compile()
    >>> [round(float(table[0]), 6) for table in circuit.marginals()]
    [0.01, 0.0104, 0.5, 0.055, 0.45, 0.064828, 0.11029, 0.435971]
    """
    yes: list[tuple[str, list[str], Any]] = [  # probabilities of "yes", parents "yes" first
        ("asia", [], 0.01),
        ("tub", ["asia"], [0.05, 0.01]),
        ("smoke", [], 0.5),
        ("lung", ["smoke"], [0.1, 0.01]),
        ("bronc", ["smoke"], [0.6, 0.3]),
        ("either", ["tub", "lung"], [[1.0, 1.0], [1.0, 0.0]]),
        ("xray", ["either"], [0.98, 0.05]),
        ("dysp", ["bronc", "either"], [[0.9, 0.8], [0.7, 0.1]]),
    ]
    names = [name for name, _, _ in yes]
    parents = [[names.index(parent) for parent in above] for _, above, _ in yes]
    tables = [np.stack([p, 1 - p], axis=-1) for p in (np.asarray(table) for _, _, table in yes)]
    return BayesianNetwork(parents, tables, names, [["yes", "no"]] * len(names))
