"""The models of the inference study, samples of them, and errors of estimated marginals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from expectedkernels.checks import DataError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.datasets import asia, ising_grid
from expectedkernels.io import read_model
from expectedkernels.models.factor_graph import FactorGraph
from expectedkernels.sampling.gibbs import collapsed_gibbs
from expectedkernels.stein.kdsd import determined_variables

GRID_FILE = "ising_4x4.uai"
"""The grid of the paper, in the data folder or in its folder `uai`."""
BURN_IN, THIN = 2000, 1000
"""As published: the first state is recorded after 3000 updates of single variables."""
PROPOSALS = ("gibbs", "uniform", "sticky")
"""Where samples come from: a thinned Gibbs chain, uniformly drawn states, or every single update
of a Gibbs chain from its start."""
MASKS = ("per sample", "fixed")
"""Collapsed variables drawn anew for every sample, or once for all."""
SNAP = 1e-7
"""Estimates this close to zero or one are zero or one."""
SMALLEST = 1e-8
"""Smaller errors are taken to be this large: they are rounding, and would dominate means."""


@dataclass(frozen=True, eq=False)
class Model:
    """A target with its exact marginals.

    Attributes
    ----------
    name : str
    graph : FactorGraph
    circuit : Circuit
        The compiled graph.
    always : tuple of int
        Variables that others determine: they are collapsed in all samples, as Stein operators must
        not meet zeros, and single-site moves must not be blocked.
    """

    name: str
    graph: FactorGraph
    circuit: Circuit
    always: tuple[int, ...]

    @cached_property
    def exact(self) -> Any:
        """The marginals of all variables, one after the other."""
        return np.concatenate([np.asarray(table) for table in self.circuit.marginals()])

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return self.graph.n_variables

    def n_collapsed(self, share: float) -> int:
        """How many variables a share of them is."""
        return max(len(self.always), round(share * self.n_variables))

    def tables(self, rows: Any) -> Any:
        """The conditional marginals of all variables given each row, side by side."""
        return np.concatenate([np.asarray(t) for t in self.circuit.marginals(rows)], axis=1)

    def error(self, estimates: Any) -> float:
        """The log of the mean Hellinger distance of estimated marginals from the exact ones.

        Estimates outside of [0, 1], which signed weights can lead to, are clipped.
        """
        starts = np.cumsum([0, *self.graph.cardinalities[:-1]])
        if (estimates < 0).any():
            estimates = np.clip(estimates, 0.0, 1.0)
            sums = np.add.reduceat(estimates, starts)
            estimates = estimates / np.repeat(sums, self.graph.cardinalities)
        estimates = np.where(estimates < SNAP, 0.0, estimates)
        estimates = np.where(estimates > 1 - SNAP, 1.0, estimates)
        squares = (np.sqrt(self.exact) - np.sqrt(estimates)) ** 2
        distances = np.sqrt(np.add.reduceat(squares, starts) / 2)
        return float(np.log(max(distances.mean(), SMALLEST)))


def make_model(name: str, graph: FactorGraph) -> Model:
    """The model of a factor graph that can be compiled.

    Examples
    --------
    >>> model = make_model("asia", asia())
    >>> model.always, model.n_collapsed(0.25), model.n_collapsed(0.5)
    ((5,), 2, 4)
    >>> round(model.error(model.exact), 3)  # no distance but rounding
    -18.421
    """
    return Model(name, graph, graph.circuit(), tuple(determined_variables(graph)))


def find_model(name: str, folder: str | Path | None = None) -> tuple[str, str | None]:
    """What a model is called in results, and the file that it is in (None: it is made here).

    Parameters
    ----------
    name : str
        "ising", "asia", or the path of a `.uai` or `.bif` file.
    folder : str or Path, optional
        Where the grid of the paper is looked for; without it, "ising" is another random grid, and
        called so.

    Examples
    --------
    >>> find_model("asia"), find_model("ising")
    (('asia', None), ('ising-random', None))
    >>> find_model("models/small.uai")
    ('small.uai', 'models/small.uai')
    """
    if name == "asia":
        return name, None
    if name in ("ising", "ising-random"):
        places = [Path(folder) / "uai", Path(folder)] if folder and name == "ising" else []
        for place in places:
            if (place / GRID_FILE).is_file():
                return name, str(place / GRID_FILE)
        return "ising-random", None
    if "." not in Path(name).name:
        raise DataError(
            f"There is no model {name!r}. There are: ising; asia; and the path of a .uai or .bif "
            "file."
        )
    return Path(name).name, name


@lru_cache(maxsize=4)
def load_model(name: str, path: str | None, seed: int) -> Model:
    """The model that `find_model` found; kept, as the next cell is most likely of the same."""
    if path is not None:
        return make_model(name, read_model(path))
    return make_model(name, asia() if name == "asia" else ising_grid(4, 4, rng=seed))


def draw_points(model: Model, proposal: str, n: int, rng: Any, thin: int = THIN) -> Any:
    """Samples of a model, NaN at variables that are always collapsed, shape (n, variables).

    More samples do not change the first ones.

    Examples
    --------
    >>> model = make_model("asia", asia())
    >>> draw_points(model, "uniform", 2, np.random.default_rng(0)).tolist()
    [[1.0, 1.0, 1.0, 0.0, 0.0, nan, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0, 1.0, nan, 1.0, 1.0]]
    """
    if proposal == "uniform":
        cards = np.asarray(model.graph.cardinalities)
        rows = rng.integers(cards, size=(n, model.n_variables)).astype(np.float64)
        rows[:, list(model.always)] = np.nan
        return rows
    burn_in, thin = (BURN_IN, thin) if proposal == "gibbs" else (0, 1)
    return collapsed_gibbs(model.graph, n, model.always, burn_in, thin, rng, progress=False)


def collapse(model: Model, rows: Any, share: float, masks: str, rng: Any) -> Any:
    """The rows with a share of the variables collapsed, those that always are counted in.

    Examples
    --------
    >>> model = make_model("asia", asia())
    >>> rows = collapse(model, np.zeros((3, 8)), 0.5, "per sample", np.random.default_rng(0))
    >>> np.isnan(rows).sum(axis=1).tolist(), np.isnan(rows[:, 5]).tolist()
    ([4, 4, 4], [True, True, True])
    """
    rows = np.array(rows, dtype=np.float64)
    rows[:, list(model.always)] = np.nan
    free = [v for v in range(model.n_variables) if v not in model.always]
    k = model.n_collapsed(share) - len(model.always) if share else 0
    if masks == "fixed":
        rows[:, rng.permutation(free)[:k]] = np.nan
        return rows
    for row in rows:
        row[rng.permutation(free)[:k]] = np.nan
    return rows
