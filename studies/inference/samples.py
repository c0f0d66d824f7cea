"""One set of samples of the inference study: Gram matrices, weights, and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints
from zlib import crc32

import numpy as np

from expectedkernels.kernels.empirical import distinct_rows
from expectedkernels.kernels.kernel import ExpHamming
from expectedkernels.sampling.weights import (
    check_gram,
    default_weights,
    minimised,
    signed_weights,
    smoothed_weights,
)
from expectedkernels.stein.cis import cis
from expectedkernels.stein.stein_kernel import CollapsedSteinKernel, SteinKernel
from studies.base import cell_rng
from studies.inference.models import THIN, Model, collapse, draw_points

HINDSIGHT = "best ridge"
RULES = ("uniform", "raw", "smoothed", "default", "signed", HINDSIGHT)
"""How samples are weighted. The best ridge is chosen in hindsight, by its error: a bound."""
HINDSIGHT_STEP = 50
"""It takes longest, so it is not found for all numbers of samples."""
CIS_RULES = ("one set", "per query")
"""One set of samples for all marginals, or a set for every marginal, its variable collapsed."""
RIDGES = (0.0, *(10.0**e for e in np.arange(-4, 2.1, 0.5)))


@dataclass(frozen=True)
class Settings:
    """What has to be the same for results to belong together.

    Attributes
    ----------
    seed : int
    n, step : int
        The number of samples, and between recorded numbers of them.
    thin : int
        The number of updates of single variables between samples of the Gibbs chain.
    """

    seed: int = 0
    n: int = 200
    step: int = 10
    thin: int = THIN

    @property
    def counts(self) -> range:
        """The numbers of samples at which errors are recorded."""
        return range(self.step, self.n + 1, self.step)


class Cell(NamedTuple):
    """One set of samples: all rules for weights are compared on it.

    Attributes
    ----------
    model : str
    proposal : str
        Where the samples come from: "gibbs", "uniform", "sticky" or "cis".
    collapsed : float
        The share of the variables that are summed out.
    masks : str
        How they are chosen: "none", "per sample" or "fixed"; "online" for CIS.
    trial : int
    """

    model: str
    proposal: str
    collapsed: float
    masks: str
    trial: int


KEYS = get_type_hints(Cell) | {"rule": str, "n": int}
VALUES = {"error": float, "ess": float, "discrepancy": float}


def _rng(cell: Cell, settings: Settings, stream: int) -> Any:
    """Random numbers of their own; points are the same for all shares and masks."""
    where = f"{cell.model}/{cell.proposal}"
    if stream:
        where += f"/{cell.collapsed:g}/{cell.masks}"
    return cell_rng(settings.seed, where, cell.trial, stream)


def cell_rows(model: Model, cell: Cell, settings: Settings) -> Any:
    """The samples of a cell, NaN where variables are collapsed."""
    points = draw_points(model, cell.proposal, settings.n, _rng(cell, settings, 0), settings.thin)
    return collapse(model, points, cell.collapsed, cell.masks, _rng(cell, settings, 1))


def stein_gram(model: Model, rows: Any, operator: str) -> Any:
    """The Gram matrix of the model's Stein kernel between collapsed samples.

    The operator is "shift", that of the discrepancy, or "gibbs", that of the default weights.
    """
    if not np.isnan(rows).any():
        return SteinKernel(model.graph, ExpHamming(), operator=operator)(rows)
    positive = True if model.graph.is_positive else None
    return CollapsedSteinKernel(model.circuit, ExpHamming(), operator=operator, positive=positive)(
        rows
    )


def _kept_gram(operator: str, model: Model, cell: Cell, rows: Any, folder: str | None) -> Any:
    """The Gram matrix, from its file if it is there and of these rows; else it is put there."""
    if folder is None:
        return stein_gram(model, rows, operator)
    where = crc32(f"{cell.model}/{cell.proposal}/{cell.collapsed:g}/{cell.masks}".encode())
    path = Path(folder) / f"{where:08x}-{cell.trial}-{operator}.npz"
    if path.exists():
        with np.load(path) as kept:
            if np.array_equal(kept["rows"], rows, equal_nan=True):
                return kept["gram"]
    gram = stein_gram(model, rows, operator)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part.npz")
    np.savez(partial, rows=rows, gram=gram)
    partial.replace(path)
    return gram


class Block:
    """The first samples of a cell, with all that weights are made of and judged by."""

    def __init__(self, model: Model, gram: Any, other: Any, tables: Any, rows: Any, n: int):
        self.model, self.gram, self.tables = model, gram[:n, :n], tables[:n]
        self.other: Any = None if other is None else other[:n, :n]
        self.groups = distinct_rows(rows[:n])[1]
        self.equal = np.full(n, 1 / n)

    @cached_property
    def raw(self) -> Any:
        """The probabilities that minimise the discrepancy."""
        return self.ridge(0.0)

    def ridge(self, amount: float) -> Any:
        """The same with a multiple of the mean diagonal entry added to the diagonal."""
        checked = check_gram(self.gram, "ridge")
        return minimised(checked, self.groups, ridge=amount).weights

    def best_ridge(self) -> Any:
        """The weights with the ridge that turns out best, knowing the exact marginals."""
        return min([self.raw, *map(self.ridge, RIDGES[1:]), self.equal], key=self.error)

    def error(self, weights: Any) -> float:
        """The log of the mean Hellinger distance."""
        return self.model.error(weights @ self.tables)


_WEIGHTS: dict[str, Callable[[Block], Any]] = {
    "uniform": lambda b: b.equal,
    "raw": lambda b: b.raw,
    "smoothed": lambda b: smoothed_weights(b.raw),
    "default": lambda b: default_weights(b.gram, b.other, groups=b.groups).weights,
    "signed": lambda b: signed_weights(b.gram),
    HINDSIGHT: Block.best_ridge,
}


def evaluate(
    model: Model, cell: Cell, rules: Sequence[str], settings: Settings, grams: str | None = None
) -> list[Any]:
    """The errors of some rules for weights in a cell, for all numbers of samples."""
    if cell.proposal == "cis":
        return [r for rule in rules for r in _evaluate_cis(model, cell, rule, settings)]
    rows = cell_rows(model, cell, settings)
    gram, tables = _kept_gram("shift", model, cell, rows, grams), model.tables(rows)
    other = _kept_gram("gibbs", model, cell, rows, grams) if "default" in rules else None
    found, counts = [], settings.counts
    for n in counts:
        block = Block(model, gram, other, tables, rows, n)
        for rule in rules:
            if rule == HINDSIGHT and n % HINDSIGHT_STEP and n != counts[-1]:
                continue
            w = _WEIGHTS[rule](block)
            value = float(w @ block.gram @ w)
            found.append((*cell, rule, n, block.error(w), float(1 / (w @ w)), value))
    return found


def _evaluate_cis(model: Model, cell: Cell, rule: str, settings: Settings) -> Iterator[Any]:
    """The errors of collapsed importance sampling; of a longer run the first samples are taken."""
    rng, budget = _rng(cell, settings, 1), model.n_collapsed(cell.collapsed)
    if rule == "one set":
        runs = [(cis(model.graph, settings.n, budget, rng, progress=False), slice(None))]
    else:
        cards = model.graph.cardinalities
        ends = np.cumsum(cards)
        options: Any = {"order": "bfs", "select": "mi", "progress": False}
        runs = [
            (
                cis(model.graph, settings.n, budget, rng, query=v, **options),
                slice(int(end) - card, int(end)),
            )
            for v, (card, end) in enumerate(zip(cards, ends, strict=True))
        ]
    weighed = []
    for samples, columns in runs:
        possible = samples.log_weights > -np.inf
        tables = np.zeros((settings.n, len(model.exact)))
        tables[possible] = model.tables(samples.rows[possible])
        weighed.append((samples.log_weights, tables[:, columns]))
    for n in settings.counts:
        estimates, sizes = [], []
        for logs, tables in weighed:
            w = np.exp(logs[:n] - logs[:n].max()) if np.isfinite(logs[:n]).any() else np.ones(n)
            w = w / w.sum()
            estimates.append(w @ tables[:n])
            sizes.append(1 / (w @ w))
        error = model.error(np.concatenate(estimates))
        yield (*cell, rule, n, error, float(np.mean(sizes)), float("nan"))
