"""The methods of the regression study: regressors, densities, and imputation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from sklearn.svm import SVR

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels.kernel import RBF, TableKernel
from expectedkernels.learning.chow_liu import learn_chow_liu
from expectedkernels.learning.strudel import learn_strudel
from studies.regression.datasets import Dataset, one_hot

NEIGHBOURS = 10


@dataclass(frozen=True)
class Effort:
    """How much work goes into the baselines.

    Attributes
    ----------
    donors : int
        How many training rows k-nearest-neighbour imputation takes values from.
    learners : int
        How many training rows iterative imputation is fitted to,
    rounds : int
        and how often it goes over the columns.
    completions : int
        How many completions multiple imputation draws.
    """

    donors: int = 2000
    learners: int = 2000
    rounds: int = 10
    completions: int = 5


def hide(bits: Any, mask: Any) -> Any:
    """The rows with NaN where the mask says so."""
    return np.where(mask, np.nan, bits)


def fill(rows: Any, values: Any) -> Any:
    """The rows with values (one per column, or one per entry) in place of NaN.

    Examples
    --------
    >>> fill(np.array([[np.nan, 1.0]]), np.array([0.5, 0.0])).tolist()
    [[0.5, 1.0]]
    """
    return np.where(np.isnan(rows), values, rows)


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


class Imputers:
    """Imputation with what the training rows say.

    Parameters
    ----------
    dataset : Dataset
    effort : Effort
    """

    def __init__(self, dataset: Dataset, effort: Effort):
        self.dataset, self.effort = dataset, effort
        self._iterative = lru_cache(maxsize=1)(self._fit_iterative)

    def mean(self, rows: Any) -> Any:
        """Every missing bit is the share of ones in its column."""
        return fill(rows, self.dataset.train.bits.mean(axis=0))

    def median(self, rows: Any, missing: str) -> Any:
        """Every missing bit is the median of its column; a missing feature, its median bin.

        Features whose categories have no order take the most frequent one.
        """
        if missing == "bits":
            return fill(rows, np.median(self.dataset.train.bits, axis=0))
        codes = self.dataset.train.codes
        n_discrete = len(self.dataset.source.discrete)
        middle = np.sort(codes, axis=0)[len(codes) // 2]
        middle[:n_discrete] = self._most_frequent()[:n_discrete]
        return fill(rows, one_hot(middle[None, :], self.dataset.sizes))

    def mode(self, rows: Any, missing: str) -> Any:
        """Every missing bit is the more frequent one; a missing feature, its mode."""
        if missing == "bits":
            return fill(rows, (self.dataset.train.bits.mean(axis=0) > 0.5).astype(np.float64))
        return fill(rows, one_hot(self._most_frequent()[None, :], self.dataset.sizes))

    def _most_frequent(self) -> Any:
        columns = zip(self.dataset.train.codes.T, self.dataset.sizes, strict=True)
        return np.array([np.bincount(codes, minlength=n).argmax() for codes, n in columns])

    def masked_mode(self, rows: Any) -> Any:
        """Every missing bit is the more frequent one among those observed in these rows.

        This is what the paper's experiments call median imputation.
        """
        seen = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
        ones = np.nansum(rows, axis=0)
        return fill(rows, (ones > 0.5 * seen).astype(np.float64))

    @cached_property
    def _neighbours(self) -> Any:
        from sklearn.impute import KNNImputer

        donors = self.dataset.train.bits[: self.effort.donors]
        return KNNImputer(n_neighbors=min(NEIGHBOURS, len(donors))).fit(donors)

    def neighbours(self, rows: Any) -> Any:
        """Every missing bit is the mean of it in the nearest training rows."""
        return self._neighbours.transform(rows)

    def iterative(self, rows: Any, missing: str, rate: float) -> Any:
        """Every missing bit is predicted from the others, in rounds, by ridge regressions.

        The regressions are fitted to training rows from which as much was removed: from complete
        rows they would only learn that the bits of a feature sum to one.
        """
        return self._iterative(missing, rate).transform(rows)

    def _fit_iterative(self, missing: str, rate: float) -> Any:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer
        from sklearn.linear_model import Ridge

        bits = self.dataset.train.bits[: self.effort.learners]
        rng = np.random.default_rng([round(1000 * rate), len(missing)])
        mask = draw_mask(rng, len(bits), self.dataset.sizes, missing, rate)
        mask[:, mask.all(axis=0)] = False  # a column without any value would be dropped
        imputer = IterativeImputer(Ridge(alpha=1.0), max_iter=self.effort.rounds, random_state=0)
        with catch_warnings():
            simplefilter("ignore", ConvergenceWarning)
            return imputer.fit(hide(bits, mask))


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
        self.circuit = learn_chow_liu(bits, cardinalities=2)
        if splits:
            self.circuit = learn_strudel(bits, iterations=splits, progress=False, cardinalities=2)

    def expected(self, machine: Machine, rows: Any) -> Any:
        """The expected predictions of rows of bits, NaN where they are missing."""
        kernel = RBF(machine.svr.gamma)
        return machine.weighted(
            expected_kernel(self.circuit, machine.points, kernel, evidence_p=rows)
        )

    def most_probable(self, rows: Any) -> Any:
        """The rows with their missing bits set to the most probable completion."""
        return self.circuit.map(rows)

    def samples(self, rows: Any, n: int, rng: Any) -> Any:
        """Completions drawn from the conditionals, shape (n, rows, bits)."""
        return np.swapaxes(self.circuit.sample(n, rng, evidence=rows), 0, 1)


class CategoryDensity:
    """A Chow-Liu tree whose variables are the original features.

    An observed 1 says that a feature has this category; observed zeros, that it has another one.
    A feature whose bits are all observed to be zero has a category that training did not know:
    it is at the same distance from all others, and says nothing of the other features.
    """

    circuit: Circuit

    def __init__(self, dataset: Dataset):
        self.sizes, self.groups = dataset.sizes, dataset.groups
        self.circuit = learn_chow_liu(dataset.train.codes, cardinalities=dataset.sizes)

    def allowed(self, rows: Any) -> tuple[list[Any], Any]:
        """The categories that rows of bits allow, per feature, and where there is none.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> codes = np.array([[0], [1], [2]])
        >>> dataset = SimpleNamespace(
        ...     sizes=(3,), groups=[slice(0, 3)], train=SimpleNamespace(codes=codes)
        ... )
        >>> density = CategoryDensity(dataset)
        >>> allowed, unknown = density.allowed(np.array([[0, np.nan, np.nan], [0, 0, 0]]))
        >>> allowed[0].tolist(), unknown.tolist()
        ([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]], [[False], [True]])
        """
        evidence = []
        unknown = np.zeros((len(rows), len(self.sizes)), dtype=np.bool_)
        for feature, group in enumerate(self.groups):
            bits = rows[:, group]
            one = bits == 1
            known = one.any(axis=1, keepdims=True)
            allowed = np.where(known, one, np.isnan(bits))
            unknown[:, feature] = ~allowed.any(axis=1)
            allowed[unknown[:, feature]] = True
            evidence.append(allowed.astype(np.float64))
        return evidence, unknown

    def expected(self, machine: Machine, rows: Any) -> Any:
        """The expected predictions of rows of bits, NaN where they are missing."""
        points = np.stack([machine.points[:, g].argmax(axis=1) for g in self.groups], axis=1)
        evidence, unknown = self.allowed(rows)
        predictions = np.empty(len(rows))
        kinds, kind = np.unique(unknown, axis=0, return_inverse=True)
        for number, strangers in enumerate(kinds):
            at = np.flatnonzero(kind.reshape(-1) == number)
            kernel = self.kernel(machine.svr.gamma, strangers)
            given = [weights[at] for weights in evidence]
            means = expected_kernel(self.circuit, points, kernel, evidence_p=given)
            predictions[at] = machine.weighted(means)
        return predictions

    def kernel(self, gamma: float, strangers: Any) -> TableKernel:
        """The RBF kernel of one-hot bits, for rows in which some features are of no known category.

        Two categories differ in two bits, a category and none in one.
        """
        tables = []
        for size, stranger in zip(self.sizes, strangers, strict=True):
            table = np.full((size, size), np.exp(-(1.0 if stranger else 2.0) * gamma))
            if not stranger:
                np.fill_diagonal(table, 1.0)
            tables.append(table)
        return TableKernel(tables)

    def most_probable(self, rows: Any) -> Any:
        """The rows with their missing bits set to those of the most probable categories."""
        evidence, unknown = self.allowed(rows)
        return self._bits(self.circuit.map(evidence), unknown)

    def samples(self, rows: Any, n: int, rng: Any) -> Any:
        """Completions drawn from the conditionals, shape (n, rows, bits)."""
        evidence, unknown = self.allowed(rows)
        drawn = np.swapaxes(self.circuit.sample(n, rng, evidence=evidence), 0, 1)
        return np.stack([self._bits(codes, unknown) for codes in drawn])

    def _bits(self, codes: Any, unknown: Any) -> Any:
        return one_hot(np.where(unknown, -1, codes), self.sizes)


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
        Whether the data have to be those of the paper, bit for bit.
    effort : Effort
    """

    rows: int | None = None
    seed: int = 0
    splits: int = 10
    check: bool = True
    effort: Effort = field(default_factory=Effort)


class Study:
    """A data set with its regressor, densities and imputers, each made when it is needed."""

    def __init__(self, dataset: Dataset, settings: Settings):
        self.dataset, self.settings = dataset, settings
        self.imputers = Imputers(dataset, settings.effort)

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

    def sampled(self, density: BitDensity | CategoryDensity, rows: Any, rng: Any) -> Any:
        """The mean prediction for several completions from a density."""
        drawn = density.samples(rows, self.settings.effort.completions, rng)
        return np.mean([self.machine.predict(bits) for bits in drawn], axis=0)


METHODS: dict[str, Callable[[Study, Any, Any, Any], Any]] = {
    "expected, categories": lambda s, X, *_: s.categories.expected(s.machine, X),
    "expected, bits": lambda s, X, *_: s.bits.expected(s.machine, X),
    "map, categories": lambda s, X, *_: s.machine.predict(s.categories.most_probable(X)),
    "map, bits": lambda s, X, *_: s.machine.predict(s.bits.most_probable(X)),
    "sampled, categories": lambda s, X, _, rng: s.sampled(s.categories, X, rng),
    "sampled, bits": lambda s, X, _, rng: s.sampled(s.bits, X, rng),
    "mean": lambda s, X, *_: s.machine.predict(s.imputers.mean(X)),
    "median": lambda s, X, c, _: s.machine.predict(s.imputers.median(X, c.missing)),
    "mode": lambda s, X, c, _: s.machine.predict(s.imputers.mode(X, c.missing)),
    "masked mode": lambda s, X, *_: s.machine.predict(s.imputers.masked_mode(X)),
    "k-NN": lambda s, X, *_: s.machine.predict(s.imputers.neighbours(X)),
    "iterative": lambda s, X, c, _: s.machine.predict(s.imputers.iterative(X, c.missing, c.rate)),
    "training mean": lambda s, X, *_: np.full(len(X), s.dataset.train.y.mean()),
}
"""Predictions for rows with missing bits, a cell and random numbers, by name."""
