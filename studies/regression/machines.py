"""Support vector regressors of the study, and their expected predictions under two densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.svm import SVR

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels.kernel import RBF, TableKernel
from expectedkernels.learning.chow_liu import learn_chow_liu
from expectedkernels.learning.strudel import learn_strudel
from studies.regression.datasets import Dataset, one_hot


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

    @property
    def gamma(self) -> float:
        """The rate of the RBF kernel."""
        return float(self.svr.gamma)

    @property
    def intercept(self) -> float:
        """What is added to the weighted sum of kernels."""
        return float(self.svr.intercept_[0])

    def predict(self, bits: Any) -> Any:
        """The predictions for complete (or imputed) rows of bits.

        They are those of `svr.predict`, by matrix products and without equal support vectors.
        """
        squares = (bits**2).sum(axis=1)[:, None] + (self.points**2).sum(axis=1)
        distances = np.maximum(squares - 2 * bits @ self.points.T, 0.0)
        return np.exp(-self.gamma * distances) @ self.coefficients + self.intercept


def fit_machine(dataset: Dataset) -> Machine:
    """The regressor of a data set, with the parameters that the paper selected."""
    source = dataset.source
    rows = slice(source.fit_rows)
    svr = SVR(kernel="rbf", C=source.C, epsilon=source.epsilon, gamma=source.gamma)
    svr.fit(dataset.train.bits[rows], dataset.train.y[rows])
    return Machine(svr, *merged(svr.support_vectors_, svr.dual_coef_[0]))


def merged(points: Any, coefficients: Any) -> tuple[Any, Any]:
    """The distinct points, and the sums of the coefficients of equal ones.

    Examples
    --------
    >>> points, coefficients = merged(np.array([[1, 0], [0, 1], [1, 0]]), np.array([1.0, 2.0, 3.0]))
    >>> points.tolist(), coefficients.tolist()
    ([[0, 1], [1, 0]], [2.0, 4.0])
    """
    distinct, place = np.unique(points, axis=0, return_inverse=True)
    return distinct, np.bincount(place.reshape(-1), coefficients, minlength=len(distinct))


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
        options: dict[str, Any] = {"cardinalities": 2}
        if splits:
            self.circuit = learn_strudel(bits, iterations=splits, progress=False, **options)
        else:
            self.circuit = learn_chow_liu(bits, **options)

    def expected(self, machine: Machine, rows: Any) -> Any:
        """The expected predictions of rows of bits, NaN where they are missing."""
        kernel = RBF(machine.gamma)
        means = expected_kernel(self.circuit, machine.points, kernel, evidence_p=rows)
        return means @ machine.coefficients + machine.intercept

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
            kernel = self.kernel(machine.gamma, strangers)
            given = [weights[at] for weights in evidence]
            means = expected_kernel(self.circuit, points, kernel, evidence_p=given)
            predictions[at] = means @ machine.coefficients + machine.intercept
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
