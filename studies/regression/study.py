"""The regression study: predictions of kernel models for rows with missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, get_type_hints
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR

import expectedkernels as ek
from studies import base
from studies.regression.datasets import SOURCES, Dataset, Split, load, one_hot

NEIGHBOURS = 10


@dataclass(frozen=True)
class Settings:
    """What has to be the same for results to belong together.

    Attributes
    ----------
    rows : int or None
        Evaluate only so many of the first rows. None: all.
    seed : int
    splits : int
        Splits of the circuit over bits, after its Chow-Liu tree.
    check : bool
        Whether the data have to be exactly those of the paper.
    donors : int
        How many training rows k-nearest-neighbour imputation takes values from.
    learners : int
        How many training rows iterative imputation is fitted to,
    rounds : int
        and how often it goes over the columns.
    completions : int
        How many completions multiple imputation draws.
    """

    rows: int | None = None
    seed: int = 0
    splits: int = 10
    check: bool = True
    donors: int = 2000
    learners: int = 2000
    rounds: int = 10
    completions: int = 5


def draw_mask(rng: Any, n_rows: int, sizes: tuple[int, ...], missing: str, rate: float) -> Any:
    """Which bits are missing: each by itself ("bits"), or all of a feature ("features").

    Examples
    --------
    >>> draw_mask(np.random.default_rng(1), 1, (2, 3), "features", 0.6).tolist()
    [[True, True, False, False, False]]
    """
    if missing == "bits":
        return rng.random((n_rows, sum(sizes))) < rate
    return np.repeat(rng.random((n_rows, len(sizes))) < rate, sizes, axis=1)


@dataclass(frozen=True, eq=False)
class Machine:
    """A support vector regressor, with equal support vectors put together.

    Attributes
    ----------
    svr : SVR
        scikit-learn's regressor, fitted to complete bits.
    points : array of shape (distinct support vectors, bits)
    coefficients : array of shape (distinct support vectors,)
        Summed over equal support vectors.
    """

    svr: SVR
    points: Any
    coefficients: Any

    def weighted(self, kernels: Any) -> Any:
        """The predictions from (expected) kernels between rows and points."""
        return kernels @ self.coefficients + self.svr.intercept_[0]

    def predict(self, bits: Any) -> Any:
        """The predictions for complete (or imputed) rows of bits.

        They are those of `svr.predict`, without equal support vectors.
        """
        return self.weighted(rbf_kernel(bits, self.points, self.svr.gamma))


def fit_machine(dataset: Dataset) -> Machine:
    """The regressor of a data set, with the parameters that the paper selected."""
    source = dataset.source
    rows = slice(source.fit_rows)
    svr = SVR(kernel="rbf", C=source.C, epsilon=source.epsilon, gamma=source.gamma)
    svr.fit(dataset.train.bits[rows], dataset.train.y[rows])
    points, place = np.unique(svr.support_vectors_, axis=0, return_inverse=True)
    return Machine(svr, points, np.bincount(place.reshape(-1), svr.dual_coef_[0]))


class BitDensity:
    """The paper's density: a circuit whose variables are the one-hot bits, one by one.

    Parameters
    ----------
    dataset : Dataset
    splits : int
        How many splits Strudel adds to the Chow-Liu tree.
    """

    def __init__(self, dataset: Dataset, splits: int = 10):
        bits = dataset.train.bits.astype(np.intp)
        self.circuit = ek.learn_chow_liu(bits, cardinalities=2)
        if splits:
            options: Any = {"progress": False, "cardinalities": 2}
            self.circuit = ek.learn_strudel(bits, iterations=splits, **options)

    def read(self, rows: Any) -> tuple[Any, Callable[[Any], Any]]:
        """Rows of bits as evidence, and a function from completions to bits."""
        return rows, lambda states: states

    def expected(self, machine: Machine, rows: Any) -> Any:
        """The expected predictions of rows of bits, NaN where they are missing."""
        k = ek.RBF(machine.svr.gamma)
        means = ek.expected_kernel(self.circuit, machine.points, k, evidence_p=rows)
        return machine.weighted(means)

    def most_probable(self, rows: Any) -> Any:
        """The rows with their missing bits set to the most probable completion."""
        evidence, bits = self.read(rows)
        return bits(self.circuit.map(evidence))

    def samples(self, rows: Any, n: int, rng: Any) -> Any:
        """Completions drawn from the conditionals, shape (n, rows, bits)."""
        evidence, bits = self.read(rows)
        return np.stack([*map(bits, np.swapaxes(self.circuit.sample(n, rng, evidence), 0, 1))])


class CategoryDensity(BitDensity):
    """A Chow-Liu tree whose variables are the original features.

    An observed 1 says that a feature has this category; observed zeros, that it has another one.
    A feature whose bits are all observed to be zero has a category that training did not know:
    it is at the same distance from all others, and says nothing of the other features.
    """

    def __init__(self, dataset: Dataset):
        self.sizes, self.groups = dataset.sizes, dataset.groups
        self.circuit = ek.learn_chow_liu(dataset.train.codes, cardinalities=dataset.sizes)

    def allowed(self, rows: Any) -> tuple[list[Any], Any]:
        """The categories that rows of bits allow, per feature, and where there is none."""
        evidence = []
        unknown = np.zeros((len(rows), len(self.sizes)), dtype=np.bool_)
        for feature, group in enumerate(self.groups):
            bits = rows[:, group]
            one = bits == 1
            allowed = np.where(one.any(axis=1, keepdims=True), one, np.isnan(bits))
            unknown[:, feature] = ~allowed.any(axis=1)
            allowed[unknown[:, feature]] = True
            evidence.append(allowed.astype(np.float64))
        return evidence, unknown

    def read(self, rows: Any) -> tuple[Any, Callable[[Any], Any]]:
        """Rows of bits as evidence, and a function from completions to bits."""
        evidence, unknown = self.allowed(rows)
        return evidence, lambda codes: one_hot(np.where(unknown, -1, codes), self.sizes)

    def expected(self, machine: Machine, rows: Any) -> Any:
        """The expected predictions of rows of bits, NaN where they are missing.

        By the RBF kernel of one-hot bits: two categories differ in two bits, a category and none
        in one.
        """
        points = np.stack([machine.points[:, g].argmax(axis=1) for g in self.groups], axis=1)
        evidence, unknown = self.allowed(rows)
        predictions, gamma = np.empty(len(rows)), machine.svr.gamma
        kinds, kind = np.unique(unknown, axis=0, return_inverse=True)
        for number, strangers in enumerate(kinds):
            at = np.flatnonzero(kind.reshape(-1) == number)
            apart = [2 - 2 * np.eye(n) for n in self.sizes]
            for feature in np.flatnonzero(strangers):
                apart[feature][:] = 1.0
            k = ek.TableKernel([np.exp(-gamma * bits) for bits in apart])
            given = [weights[at] for weights in evidence]
            means = ek.expected_kernel(self.circuit, points, k, evidence_p=given)
            predictions[at] = machine.weighted(means)
        return predictions


class Study:
    """A data set with its regressor, densities and imputers, each made when it is needed."""

    def __init__(self, dataset: Dataset, settings: Settings):
        self.dataset, self.settings = dataset, settings
        self.bit_means = dataset.train.bits.mean(axis=0)
        self.modes = pd.DataFrame(dataset.train.codes).mode().iloc[0].to_numpy(np.intp)
        self._iterative = lru_cache(maxsize=1)(self._fit_iterative)

    @cached_property
    def machine(self) -> Machine:
        """The regressor."""
        return fit_machine(self.dataset)

    @cached_property
    def bits(self) -> BitDensity:
        """The density over bits."""
        return BitDensity(self.dataset, self.settings.splits)

    @cached_property
    def categories(self) -> CategoryDensity:
        """The density over features."""
        return CategoryDensity(self.dataset)

    @cached_property
    def neighbours(self) -> Any:
        """The imputer by the nearest training rows."""
        from sklearn.impute import KNNImputer

        donors = self.dataset.train.bits[: self.settings.donors]
        return KNNImputer(n_neighbors=min(NEIGHBOURS, len(donors))).fit(donors)

    def sampled(self, density: BitDensity | CategoryDensity, rows: Any, rng: Any) -> Any:
        """The mean prediction for several completions from a density."""
        drawn = density.samples(rows, self.settings.completions, rng)
        return np.mean([self.machine.predict(bits) for bits in drawn], axis=0)

    def impute(self, how: str, rows: Any, missing: str = "bits", rate: float = 0.5) -> Any:
        """The rows filled in: by means of bits, medians or modes, neighbours, or iteratively.

        Where features are missing, the median is the median bin; features whose categories have no
        order take the most frequent one. The "masked mode" is that of the bits observed in these
        rows, which the paper's experiments call median.
        """
        if how == "k-NN":
            return self.neighbours.transform(rows)
        if how == "iterative":
            return self._iterative(missing, rate).transform(rows)
        train, values = self.dataset.train, self.bit_means
        if how == "masked mode":
            seen = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
            values = np.nansum(rows, axis=0) > 0.5 * seen
        elif missing == "bits" and how != "mean":
            values = np.median(train.bits, axis=0) if how == "median" else self.bit_means > 0.5
        elif how != "mean":
            codes, n = self.modes.copy(), len(self.dataset.source.discrete)
            if how == "median":
                codes[n:] = np.quantile(train.codes[:, n:], 0.5, axis=0, method="higher")
            values = one_hot(codes[None, :], self.dataset.sizes)
        return np.where(np.isnan(rows), values, rows)

    def _fit_iterative(self, missing: str, rate: float) -> Any:
        """Ridge regressions, fitted to training rows from which as much was removed.

        From complete rows they would only learn that the bits of a feature sum to one.
        """
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer
        from sklearn.linear_model import Ridge

        bits = self.dataset.train.bits[: self.settings.learners]
        rng = np.random.default_rng([round(1000 * rate), len(missing)])
        mask = draw_mask(rng, len(bits), self.dataset.sizes, missing, rate)
        mask[:, mask.all(axis=0)] = False  # a column without any value would be dropped
        imputer = IterativeImputer(Ridge(alpha=1.0), max_iter=self.settings.rounds, random_state=0)
        with catch_warnings():
            simplefilter("ignore", ConvergenceWarning)
            return imputer.fit(np.where(mask, np.nan, bits))


METHODS: dict[str, Callable[[Study, Any, Any, Any], Any]] = {
    "expected, categories": lambda s, X, *_: s.categories.expected(s.machine, X),
    "expected, bits": lambda s, X, *_: s.bits.expected(s.machine, X),
    "map, categories": lambda s, X, *_: s.machine.predict(s.categories.most_probable(X)),
    "map, bits": lambda s, X, *_: s.machine.predict(s.bits.most_probable(X)),
    "sampled, categories": lambda s, X, _, rng: s.sampled(s.categories, X, rng),
    "sampled, bits": lambda s, X, _, rng: s.sampled(s.bits, X, rng),
    **{
        name: lambda s, X, c, _, name=name: s.machine.predict(s.impute(name, X, c.missing, c.rate))  # type: ignore[misc]
        for name in ("mean", "median", "mode", "masked mode", "k-NN", "iterative")
    },
    "training mean": lambda s, X, *_: np.full(len(X), s.dataset.train.y.mean()),
}
"""Predictions for rows with missing bits, a cell and random numbers, by name."""


COMPLETE = "complete"
"""The method of predictions for rows without missing values."""
IMPUTATIONS = ("median", "mean", "k-NN", "iterative")
"""The imputations people use, which expected predictions have to beat."""
OURS, PAPERS = "expected, categories", "expected, bits"
TITLES = {"bits": "Bits missing", "features": "Features missing"}
PLACES = {"valid": "validation rows (without the first)", "test": "test rows"}
COUNTERPARTS = {"expected": PAPERS, "map": "map, bits"}
COUNTERPARTS |= {name: name for name in ("masked mode", "mean")}
"""Which of our methods is closest to each published one."""
SHOWN = {PAPERS: "expected prediction", "map, bits": "MAP", "masked mode": 'masked mode ("median")'}
"""The methods in the figure of the paper."""


PUBLISHED = pd.read_csv(Path(__file__).with_name("published.csv"), index_col=["dataset", "method"])
PUBLISHED = PUBLISHED.rename(columns=float).rename_axis(columns="rate").stack().sort_index()
"""The errors that the paper's experiments reported, in units of data sets.

Means of five repetitions, on the validation rows without the first, with bits missing completely
at random. The paper plots "expected", "MAP" and "median" (which is the mode of the masked rows);
"mean" was stored beside them.
"""
RATES = tuple(dict.fromkeys(PUBLISHED.index.get_level_values("rate").tolist()))


QUICK = Settings(rows=100, donors=200, learners=200, rounds=2)
"""Settings for a first look within a minute."""
QUICK_OPTIONS = {"splits": ("valid",), "rates": (0.1, 0.5, 0.9), "trials": 2}
NAMES: dict[str, Any] = {
    "datasets": ("data set", SOURCES),
    "splits": ("split", PLACES),
    "missing": ("kind of missingness", TITLES),
    "methods": ("method", METHODS),
}
DEFAULTS = {"rates": RATES, "trials": 5}


class Cell(NamedTuple):
    """One random mask: all methods are compared on it."""

    dataset: str
    split: str
    missing: str
    rate: float
    trial: int


KEYS = get_type_hints(Cell) | {"method": str}
VALUES = {"rmse": float, "seconds": float, "rows": int}


def evaluation_rows(dataset: Dataset, split: str, settings: Settings) -> Split:
    """The rows to evaluate: of the validation rows all but the first, as in the paper."""
    rows: Split = getattr(dataset, split)
    part = slice(1 if split == "valid" else 0, settings.rows)
    return Split(rows.codes[part], rows.bits[part], rows.y[part])


def cell_mask(dataset: Dataset, cell: Cell, settings: Settings) -> Any:
    """Which bits are missing in a cell: the same for all methods, runs and numbers of rows."""
    n_rows = len(evaluation_rows(dataset, cell.split, Settings()).y)
    mask = draw_mask(_rng(cell, settings, 0), n_rows, dataset.sizes, cell.missing, cell.rate)
    return mask[: len(evaluation_rows(dataset, cell.split, settings).y)]


def _rng(cell: Cell, settings: Settings, stream: int) -> Any:
    where = f"{cell.dataset}/{cell.split}/{cell.missing}"
    return base.cell_rng(settings.seed, where, round(1000 * cell.rate), cell.trial, stream)


@lru_cache(maxsize=1)
def _study(name: str, folder: str | None, settings: Settings) -> Study:
    """The study of a data set; kept, as the next cell is most likely of the same."""
    return Study(load(name, folder, check=settings.check), settings)


def evaluate(study: Study, cell: Cell, methods: Sequence[str]) -> list[Any]:
    """The errors of some methods in a cell, all for the same missing bits."""
    split = evaluation_rows(study.dataset, cell.split, study.settings)
    if cell.rate == 0:
        error = root_mean_squared_error(split.y, study.machine.predict(split.bits))
        return [(*cell, COMPLETE, error, 0.0, len(split.y))]
    rows = np.where(cell_mask(study.dataset, cell, study.settings), np.nan, split.bits)
    found = []
    for name in methods:
        rng, began = _rng(cell, study.settings, 1), perf_counter()
        error = root_mean_squared_error(split.y, METHODS[name](study, rows, cell, rng))
        found.append((*cell, name, error, round(perf_counter() - began, 3), len(split.y)))
    return found


def work(cell: Cell, methods: Sequence[str], folder: str | None, settings: Settings) -> list[Any]:
    """The errors of some methods in a cell of a data set in a folder."""
    return evaluate(_study(cell.dataset, folder, settings), cell, methods)


def tasks(options: Any, settings: Settings, folder: Any, results: base.Results) -> Iterator[Any]:
    """What is left to do; cells that share fitted models are next to each other."""
    where = None if folder is None else str(folder)
    for name in options.datasets:
        kinds = product(options.missing, options.rates, options.splits, range(options.trials))
        cells = [Cell(name, split, "none", 0.0, 0) for split in options.splits]
        cells += [Cell(name, split, kind, rate, trial) for kind, rate, split, trial in kinds]
        every = [(x, results.left(x, options.methods if x.rate else [COMPLETE])) for x in cells]
        if todo := [(cell, left, where, settings) for cell, left in every if left]:
            load(name, where, check=settings.check)  # problems with files show before the work
            yield from todo


def errors(frame: Any) -> Any:
    """The results with errors in units of their data sets."""
    units = frame["dataset"].map({name: s.unit for name, s in SOURCES.items()})
    return frame.assign(error=frame["rmse"] / units.astype(float))


def of(found: Any, split: str, missing: str) -> Any:
    """The results of a split with bits or features missing."""
    return found[(found["split"] == split) & (found["missing"] == missing)]


def means(found: Any, methods: tuple[str, ...]) -> Any:
    """The mean error of some methods (columns) by data set, split and missing fraction."""
    index = ["dataset", "split", "missing", "rate"]
    table = found.pivot_table("error", index, "method", sort=False)
    return table.reindex(columns=list(methods)).dropna()


def against_published(found: Any, ours: str, theirs: str = "expected") -> Any:
    """All cells of a method for which there is a published error."""
    rows = of(found, "valid", "bits")
    grouped = rows[rows["method"] == ours].groupby(["dataset", "rate"], sort=False)["error"]
    compared = base.compare(grouped, PUBLISHED.xs(theirs, level="method"))
    return compared.assign(change=compared["mean"] / compared["known"] - 1)


def overview(found: Any) -> Any:
    """The mean ranks (1 is best) of expected predictions and imputations, in each setting."""
    methods = (OURS, PAPERS, *IMPUTATIONS)
    ranks = {}
    for split, (missing, title) in product(PLACES, TITLES.items()):
        some = of(found, split, missing)
        there = tuple(name for name in methods if name in set(some["method"]))
        ranks[f"{title}, {split}"] = means(some, there).rank(axis=1).mean().dropna()
    table = pd.DataFrame(ranks, index=pd.Index(methods, name="method"))
    return table.dropna(axis=1, how="all")


def report(frame: Any, comparable: bool = True) -> tuple[Any, ...]:
    """What `write_report` writes; published numbers are there if the rows are the paper's."""
    found = errors(frame)
    ranks, constant = overview(found), means(found, (OURS, "training mean"))
    lines = []
    for title, own in ranks.items():
        shown = ", ".join(f"{name} {rank:.2f}" for name, rank in own.sort_values().items())
        lines.append(f"- {title}: mean ranks {shown}.")
    values: dict[str, Any] = {"ranks": "\n".join(lines)}
    values |= published(found) if comparable else {"other_rows": ""}
    values["dashed"] = " Dashed: what the paper reports." * comparable
    if n := len(constant):
        lost, where = _lost(constant, OURS, ["training mean"])
        values |= {"lost": lost, "constant": n, "lost_where": where}
    cells = means(of(found, "valid", "bits"), (PAPERS, "map, bits", "masked mode", "mean"))
    lost, values["not_won"] = _lost(cells, PAPERS, ["map, bits", "masked mode"])
    values |= {"won": len(cells) - lost, "cells": len(cells)}
    values["simpler"], values["simpler_where"] = _lost(cells, PAPERS, ["mean"])
    sections = []
    for (missing, title), (split, place) in product(TITLES.items(), PLACES.items()):
        there = of(found, split, missing)["dataset"].unique()
        if len(there):
            tables = [table(found, name, split, missing, comparable) for name in there]
            sections.append((f"{title}, {place}", list(chain(*tables))))
    return values, sections, ranks, lambda: figure(found, comparable)


def _lost(cells: Any, ours: str, others: list[str]) -> tuple[int, str]:
    """In how many cells, and where, the error of a method is larger than some other one."""
    lost = cells.index[cells[ours] > cells[others].min(axis=1)]
    where = "; ".join(f"{name}, {split}, {kind}, {rate:g}" for name, split, kind, rate in lost)
    return len(lost), f" ({where})" * bool(where)


def table(found: Any, dataset: str, split: str, missing: str, comparable: bool) -> list[Any]:
    """The methods (down) by missing fractions (across), with published errors below."""
    unit, rows = SOURCES[dataset].unit, of(found, split, missing)
    rows = rows[rows["dataset"] == dataset]
    grid: Any = {"index": "method", "columns": "rate", "values": "error", "sort": False}
    shown = rows.pivot_table(aggfunc=lambda e: base.mean_and_std(e, 3), **grid).sort_index(axis=1)
    average = rows.pivot_table(**grid).sort_index(axis=1)
    if comparable and (split, missing) == ("valid", "bits"):
        for theirs in (t for t, ours in COUNTERPARTS.items() if ours in average.index):
            row = PUBLISHED.loc[dataset, theirs].reindex(shown.columns)
            shown.loc[f"*published: {theirs}*"] = base.text(row, "{:.3f}")
    shown.columns = [f"{rate:g}" for rate in shown.columns]
    complete = of(found, split, "none").set_index("dataset")["error"].get(dataset)
    note = "" if complete is None else f"Complete rows: {complete:.4g}. "
    winners = average.idxmin().value_counts(sort=False)
    note += "Smallest: " + ", ".join(f"{name} ({n})" for name, n in winners.items()) + "."
    head = f"### {dataset}" + (f", in multiples of {unit:g}" if unit != 1 else "")
    return [head, shown.fillna(""), note]


def published(found: Any) -> dict[str, Any]:
    """How our errors compare with the published ones, as values of the page."""
    same, better = against_published(found, PAPERS), against_published(found, OURS)
    exact = against_published(found, "map, bits", "map")
    values: dict[str, Any] = {}
    if len(same):
        far = same[same["distance"] > 3]["distance"]
        where = "; ".join(f"{name} at {rate:g}: {x:.1f}" for (name, rate), x in far.items())
        values |= {"near": len(same) - len(far), "same": len(same)}
        values["far"] = f" (not: {where})" * bool(where)
    if len(better):
        change = 100 * better.groupby("dataset", sort=False)["change"].mean()
        shown = ", ".join(f"{name} {value:+.1f} %" for name, value in change.items())
        below = (better["change"] < 0).sum()
        values |= {"below": below, "better": len(better), "change": shown}
    if len(exact):
        values |= {"worse": (exact["change"] > 0).sum(), "maps": len(exact)}
    return values


def figure(found: Any, comparable: bool) -> Any:
    """The axes of the figure of the paper, None without results.

    Its curves, dashed, are beside ours where the rows are the same.
    """
    panels, ylabels, levels = {}, {}, {}
    for dataset, rows in of(found, "valid", "bits").groupby("dataset", sort=False):
        there = {m: base.curve(rows[rows["method"] == m], "rate") for m in SHOWN}
        lines = {SHOWN[m]: line for m, line in there.items() if len(line)}
        if not lines:
            continue
        rates = np.intersect1d(rows["rate"], RATES)
        for theirs, ours in COUNTERPARTS.items() if comparable and len(rates) else ():
            if (name := SHOWN.get(ours)) in lines:
                lines[f"{name}{base.KNOWN}"] = PUBLISHED[dataset, theirs][rates].to_frame("mean")
        unit = SOURCES[dataset].unit
        panels[dataset] = lines
        ylabels[dataset] = "RMSE" + ("" if unit == 1 else f" / {unit:g}")
        complete = of(found, "valid", "none").set_index("dataset")["error"].get(dataset)
        levels[dataset] = {} if complete is None else {"nothing missing": complete}
    return base.plot_panels(panels, "share of bits that are missing", ylabels, levels)
