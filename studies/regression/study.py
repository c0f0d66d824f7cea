"""The regression study: predictions of kernel models for rows with missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, get_type_hints
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_error
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

        They are those of `svr.predict`, by matrix products and without equal support vectors.
        """
        squares = (bits**2).sum(axis=1)[:, None] + (self.points**2).sum(axis=1)
        distances = np.maximum(squares - 2 * bits @ self.points.T, 0.0)
        return self.weighted(np.exp(-self.svr.gamma * distances))


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
        return machine.weighted(
            ek.expected_kernel(self.circuit, machine.points, k, evidence_p=rows)
        )

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
            bits = [
                np.ones((n, n)) if x else 2 - 2 * np.eye(n)
                for n, x in zip(self.sizes, strangers, strict=True)
            ]
            k = ek.TableKernel([np.exp(-gamma * apart) for apart in bits])
            given = [weights[at] for weights in evidence]
            means = ek.expected_kernel(self.circuit, points, k, evidence_p=given)
            predictions[at] = machine.weighted(means)
        return predictions


class Study:
    """A data set with its regressor, densities and imputers, each made when it is needed."""

    def __init__(self, dataset: Dataset, settings: Settings):
        self.dataset, self.settings = dataset, settings
        self.bit_means = dataset.train.bits.mean(axis=0)
        columns = zip(dataset.train.codes.T, dataset.sizes, strict=True)
        modes = [np.bincount(codes, minlength=n).argmax() for codes, n in columns]
        self.modes = np.array(modes)  # the most frequent categories
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
            codes, n_discrete = self.modes.copy(), len(self.dataset.source.discrete)
            if how == "median":
                codes[n_discrete:] = np.sort(train.codes, axis=0)[
                    len(train.codes) // 2, n_discrete:
                ]
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
COUNTERPARTS = {
    "expected": PAPERS,
    "map": "map, bits",
    "masked mode": "masked mode",
    "mean": "mean",
}
"""Which of our methods is closest to each published one."""
SHOWN = {PAPERS: "expected prediction", "map, bits": "MAP", "masked mode": 'masked mode ("median")'}
"""The methods in the figure of the paper."""


def _published() -> Any:
    frame = pd.read_csv(Path(__file__).with_name("published.csv"), index_col=["dataset", "method"])
    return frame.rename(columns=float).rename_axis(columns="rate").stack().sort_index()


PUBLISHED = _published()
"""The errors that the paper's experiments reported, in units of data sets.

Means of five repetitions, on the validation rows without the first, with bits missing completely
at random. The paper plots "expected", "MAP" and "median" (which is the mode of the masked rows);
"mean" was stored beside them.
"""
RATES = tuple(dict.fromkeys(PUBLISHED.index.get_level_values("rate").tolist()))


MISSING = ("bits", "features")
EVALUATED = ("valid", "test")
QUICK = Settings(rows=100, donors=200, learners=200, rounds=2)
"""Settings for a first look within a minute."""
QUICK_OPTIONS = {"splits": EVALUATED[:1], "rates": (0.1, 0.5, 0.9), "trials": 2}
NAMES: dict[str, Any] = {
    "datasets": ("data set", SOURCES),
    "splits": ("split", EVALUATED),
    "missing": ("kind of missingness", MISSING),
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


def _work(cell: Cell, methods: Sequence[str], folder: str | None, settings: Settings) -> list[Any]:
    return evaluate(_study(cell.dataset, folder, settings), cell, methods)


def cells(options: Any) -> Iterator[Cell]:
    """All cells of a run, those that share fitted models next to each other."""
    for name in options.datasets:
        yield from (Cell(name, split, "none", 0.0, 0) for split in options.splits)
        trials = range(options.trials)
        for kind, rate, split, trial in product(
            options.missing, options.rates, options.splits, trials
        ):
            yield Cell(name, split, kind, rate, trial)


def run(
    out: str | Path, folder: str | Path | None = None, quick: bool = False, **asked: Any
) -> base.Results:
    """The errors of all methods, written to `results.csv` in a folder as they are found.

    What is there already is not computed again, so an interrupted run resumes where it stopped.

    Parameters
    ----------
    out, folder : str or Path
        For the results; and with the raw data, see `data_folder`.
    quick : bool
        Evaluate a hundred validation rows at three missing fractions.
    datasets, splits, missing, methods : sequences of str
        What to run, of `SOURCES`, `EVALUATED`, `MISSING` and `METHODS`.
    rates : sequence of float
        The probabilities that a bit (or a feature) is missing.
    trials : int
        The number of random masks for every missing fraction.
    settings, jobs, progress
        See `Results` and `collect`.
    """
    options = base.choose(asked, NAMES, DEFAULTS, QUICK_OPTIONS if quick else {})
    settings = options.settings or (QUICK if quick else Settings())
    results = base.Results(out, KEYS, VALUES, asdict(settings))
    where = None if folder is None else str(folder)
    todo = []
    for cell in cells(options):
        wanted = (COMPLETE,) if cell.rate == 0 else options.methods
        left = [name for name in wanted if (*cell, name) not in results]
        if left:
            todo.append((cell, left, where, settings))
    for name in dict.fromkeys(cell.dataset for cell, *_ in todo):
        load(name, where, check=settings.check)  # problems with files show before the work
    return base.collect(results, _work, todo, options.jobs, options.progress)


def reproduce(
    out: Path, folder: Path | None = None, quick: bool = False, check: bool = True, **asked: Any
) -> base.Done:
    """The study with its page and figure, written to a folder (for options, see `run`)."""
    settings = replace(QUICK if quick else Settings(), check=check)
    results = run(out, folder, quick, settings=settings, **asked)
    return base.write_report(results, *report(results.frame, check and settings.rows is None))


def errors(frame: Any) -> Any:
    """The results with errors in units of their data sets."""
    units = frame["dataset"].map({name: s.unit for name, s in SOURCES.items()})
    return frame.assign(error=frame["rmse"] / units.astype(float))


def means(found: Any, methods: tuple[str, ...]) -> Any:
    """The mean error of some methods (columns) by data set, split and missing fraction."""
    index = ["dataset", "split", "missing", "rate"]
    table = found.pivot_table("error", index, "method", sort=False)
    return table.reindex(columns=list(methods)).dropna()


def against_published(found: Any, ours: str, theirs: str = "expected") -> Any:
    """All cells of a method for which there is a published error."""
    rows = found.query("split == 'valid' and missing == 'bits' and method == @ours")
    grouped = rows.groupby(["dataset", "rate"], sort=False)["error"]
    compared = base.compare(grouped, PUBLISHED.xs(theirs, level="method"))
    return compared.assign(change=compared["mean"] / compared["known"] - 1)


def overview(found: Any) -> Any:
    """The mean ranks (1 is best) of expected predictions and imputations, in each setting."""
    methods = (OURS, PAPERS, *IMPUTATIONS)
    ranks = {}
    for split, (missing, title) in product(PLACES, TITLES.items()):
        some = found[(found["split"] == split) & (found["missing"] == missing)]
        there = tuple(name for name in methods if name in set(some["method"]))
        ranks[f"{title}, {split}"] = means(some, there).rank(axis=1).mean().dropna()
    table = pd.DataFrame(ranks, index=pd.Index(methods, name="method"))
    return table.dropna(axis=1, how="all")


def report(frame: Any, comparable: bool = True) -> tuple[Any, ...]:
    """What `write_report` writes; published numbers are there if the rows are the paper's."""
    found, ranks = errors(frame), overview(errors(frame))
    lines = []
    for title, own in ranks.items():
        shown = ", ".join(f"{name} {rank:.2f}" for name, rank in own.sort_values().items())
        lines.append(f"- {title}: mean ranks {shown}.")
    values: dict[str, Any] = {"ranks": "\n".join(lines)}
    values |= published(found) if comparable else {"other_rows": ""}
    constant = means(found, (OURS, "training mean"))
    if len(constant):
        lost = constant[constant[OURS] > constant["training mean"]]
        values |= {"lost": len(lost), "constant": len(constant), "lost_where": _listed(lost)}
    some = found[(found["split"] == "valid") & (found["missing"] == "bits")]
    cells = means(some, (PAPERS, "map, bits", "masked mode", "mean"))
    lost = cells[cells[PAPERS] > cells[["map, bits", "masked mode"]].min(axis=1)]
    values |= {"won": len(cells) - len(lost), "cells": len(cells), "not_won": _listed(lost)}
    simpler = cells[cells[PAPERS] > cells["mean"]]
    values |= {"simpler": len(simpler), "simpler_where": _listed(simpler)}
    values["dashed"] = " Dashed: what the paper reports." * comparable
    sections = []
    for (missing, title), (split, place) in product(TITLES.items(), PLACES.items()):
        some = found[(found["split"] == split) & (found["missing"] == missing)]
        tables = [table(found, x, split, missing, comparable) for x in some["dataset"].unique()]
        sections += (
            [(f"{title}, {place}", [x for parts in tables for x in parts])] if tables else []
        )
    page = Path(__file__).with_name("page.md")
    return page, values, sections, ranks, lambda: figure(found, comparable)


def table(found: Any, dataset: str, split: str, missing: str, comparable: bool) -> list[Any]:
    """The methods (down) by missing fractions (across), with published errors below."""
    unit, own = SOURCES[dataset].unit, found.query("dataset == @dataset and split == @split")
    rows = own[own["missing"] == missing]
    grid: Any = {"index": "method", "columns": "rate", "values": "error", "sort": False}
    shown = rows.pivot_table(aggfunc=lambda e: base.mean_and_std(e, 3), **grid).sort_index(axis=1)
    average = rows.pivot_table(**grid).sort_index(axis=1)
    if comparable and (split, missing) == ("valid", "bits"):
        for theirs in (t for t, ours in COUNTERPARTS.items() if ours in average.index):
            row = PUBLISHED.loc[dataset, theirs].reindex(shown.columns)
            shown.loc[f"*published: {theirs}*"] = row.map("{:.3f}".format, na_action="ignore")
    shown.columns = [f"{rate:g}" for rate in shown.columns]
    complete = own[own["method"] == COMPLETE]["error"]
    note = f"Complete rows: {complete.iloc[0]:.4g}. " if len(complete) else ""
    winners = average.idxmin().value_counts(sort=False)
    note += "Smallest: " + ", ".join(f"{name} ({n})" for name, n in winners.items()) + "."
    head = f"### {dataset}" + (f", in multiples of {unit:g}" if unit != 1 else "")
    return [head, shown.fillna(""), note]


def _listed(cells: Any) -> str:
    where = "; ".join(
        f"{name}, {split}, {kind}, {rate:g}" for name, split, kind, rate in cells.index
    )
    return f" ({where})" if where else ""


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
    found = found[found["split"] == "valid"]
    panels, ylabels, levels = {}, {}, {}
    for dataset, own in found.groupby("dataset", sort=False):
        rows = own[own["missing"] == "bits"]
        lines = base.curves(rows, {SHOWN[m]: rows["method"] == m for m in SHOWN}, "rate")
        if not lines:
            continue
        there = np.intersect1d(rows["rate"], RATES)
        for theirs, ours in COUNTERPARTS.items() if comparable and len(there) else ():
            if SHOWN.get(ours) in lines:
                values = PUBLISHED.loc[dataset, theirs][there].tolist()
                name = f"{SHOWN[ours]} (published)"
                lines[name] = base.Curve(there.tolist(), values, like=SHOWN[ours])
        unit, complete = SOURCES[dataset].unit, own[own["method"] == COMPLETE]["error"]
        panels[dataset] = lines
        ylabels[dataset] = "RMSE" + ("" if unit == 1 else f" / {unit:g}")
        levels[dataset] = {"nothing missing": complete.iloc[0]} if len(complete) else {}
    if not panels:
        return None
    return base.plot_panels(panels, "share of bits that are missing", ylabels, levels)
