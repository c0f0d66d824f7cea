"""Kernel expansions, memory and workers, and kernels that know what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, wrap_non_picklable_objects

from expectedkernels.arrays import spans
from expectedkernels.checks import DataError
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.kernels.gram import CHUNK_BYTES, at_known


def distinct(x: Any) -> tuple[Any, Any]:
    """Where each of the distinct entries (or rows) comes first, and the number of every one."""
    if x.ndim == 2 and not x.shape[1]:
        return np.arange(min(1, len(x))), np.zeros(len(x), dtype=np.intp)
    axis = None if x.ndim == 1 else 0
    _, first, number = np.unique(x, axis=axis, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


MATRICES = 4
"""Kernel matrices may take so many times the memory of other intermediate values."""
BUNDLES = 4
"""Tasks are handed out in so many bundles per worker: what they share is sent once for each."""


@dataclass(frozen=True)
class Resources:
    """How much of the machine to use, and how exact to be.

    Attributes
    ----------
    n_jobs : int or None
        Workers, as in scikit-learn: threads, unless `joblib.parallel_config` names others.
    max_bytes : int
        Memory for intermediate values, of all workers together.
    std_tol : float
        The relative error that standard deviations may have where exact ones take long.
    """

    n_jobs: int | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    std_tol: float = 0.0

    @property
    def workers(self) -> int:
        """The number of workers."""
        return effective_n_jobs(self.n_jobs)

    @property
    def chunk_bytes(self) -> int:
        """What the chunks of one worker may take."""
        return max(2**16, min(self.max_bytes // self.workers, CHUNK_BYTES))

    def require_matrix(self, n: int, matrices: int = 1) -> None:
        """Raise if kernel matrices of n rows take more memory than they may, before they do.

        Parameters
        ----------
        n : int
        matrices : int
            How many of them there are at once.

        Examples
        --------
        >>> Resources().require_matrix(10000)
        """
        limit, size = MATRICES * max(self.max_bytes, DEFAULT_MAX_BYTES), 8 * matrices * n**2
        if size > limit:
            what = "A kernel matrix" if matrices == 1 else f"{matrices} kernel matrices"
            raise DataError(
                f"{what} of {n} rows {'takes' if matrices == 1 else 'take'} {size / 2**30:.1f} "
                f"GiB, more than {limit / 2**30:.3g} GiB. Fit the model to a sample of the rows, "
                "or a linear model to ExpectedKernelFeatures of all rows. If there is enough "
                f"memory, set max_bytes to {-(-size // MATRICES)} or more."
            )

    def map(self, work: Callable[[Any], Any], tasks: list[Any]) -> Iterator[Any]:
        """The results of all tasks, in their order.

        Workers may be other processes, or other machines: what `work` finds out must be in what it
        returns.
        """
        if self.workers == 1 or len(tasks) <= 1:
            yield from map(work, tasks)
            return
        n = min(len(tasks), BUNDLES * self.workers)
        parallel, sent = (
            Parallel(n_jobs=self.n_jobs, prefer="threads"),
            wrap_non_picklable_objects(work),
        )
        bundles = parallel(delayed(_all_done)(sent, tasks[i::n]) for i in range(n))
        for i in range(len(tasks)):
            yield bundles[i % n][i // n]


def _all_done(work: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
    return [work(task) for task in tasks]


def chunks(index: Any, n_points: int, max_bytes: int) -> list[Any]:
    """Parts of an index whose matrices of kernels with all points fit into memory."""
    size = max(1, max_bytes // (32 * max(1, n_points)))
    return [index[span] for span in spans(len(index), size)]


@dataclass(frozen=True, eq=False)
class Prior:
    """What a Gaussian process adds to the variance: scale^2 (total - E[k' form k])."""

    total: float
    form: Any
    scale: Any

    def left(self, forms: Any) -> Any:
        """The variance of the process itself, (rows, outputs)."""
        return np.maximum(self.total - forms, 0.0)[:, None] * self.scale**2


@dataclass(frozen=True, eq=False)
class Expansion:
    """A weighted sum of kernels at points, plus a constant; several of them at once.

    Attributes
    ----------
    rates : array of shape (columns,)
        The kernel is exp(-sum_c rates_c (x_c - s_c)^2).
    points : array of shape (points, columns)
        NaN is missing.
    coef : array of shape (points, outputs)
    intercept : array of shape (outputs,)
    """

    rates: Any
    points: Any
    coef: Any
    intercept: Any

    def merged(self) -> Expansion:
        """The same functions with equal points put together, and without points of no weight."""
        points, place = np.unique(self.points, axis=0, return_inverse=True)
        coef = np.zeros((len(points), self.coef.shape[1]))
        np.add.at(coef, place.reshape(-1), self.coef)
        used = (coef != 0).any(axis=1)
        if not used.any():
            used[:1] = True
        return Expansion(self.rates, points[used], coef[used], self.intercept)

    @property
    def is_embedded(self) -> bool:
        """Whether some of the points have missing values."""
        return bool(np.isnan(self.points).any())

    def at(self, density: Any, Z: Any, resources: Resources) -> Any:
        """The values at complete rows, (rows, outputs), whatever kind of density it is."""
        if self.is_embedded:
            gram = density.gram(self.rates, Z, self.points, resources)
            return gram @ self.coef + self.intercept
        answer = np.empty((len(Z), self.coef.shape[1]))
        for index in chunks(np.arange(len(Z)), len(self.points), resources.chunk_bytes):
            kernels = kernels_between(density, self.rates, Z[index], self.points, resources)
            answer[index] = kernels @ self.coef + self.intercept
        return answer


def kernels_between(density: Any, rates: Any, A: Any, B: Any, resources: Resources) -> Any:
    """The expected kernels between rows under any density, which complete rows need not ask."""
    if np.isnan(A).any() or np.isnan(B).any():
        return density.gram(rates, A, None if B is A else B, resources)
    return at_known(rates, A, np.ones(A.shape, dtype=np.bool_), B)


MULTIPLES = (0.0, 1.0, 4.0)
"""What "auto" chooses the rate from, in multiples of the rate of a standardised column."""
MARGIN = 0.05
"""By which share the loss must fall before the mask counts at all."""


def masks_of(variables: Sequence[Any], Z: Any) -> Any:
    """Which variables rows lack, (rows, variables): the bits of a category are one.

    Examples
    --------
    >>> from expectedkernels.estimators.encoding import Variable
    >>> variables = [Variable(np.array([0])), Variable(np.array([1, 2]))]
    >>> masks_of(variables, np.array([[0.5, np.nan, np.nan]])).tolist()
    [[False, True]]
    """
    found = np.empty((len(Z), len(variables)), dtype=np.bool_)
    for i, variable in enumerate(variables):
        found[:, i] = np.isnan(Z[:, variable.columns]).any(axis=1)
    return found


@dataclass(frozen=True, eq=False)
class Masks:
    """What points lack, and how fast kernels fall with every variable that one of two rows lacks.

    Attributes
    ----------
    rate : float
    points : bool array of shape (points, variables)

    Examples
    --------
    >>> masks = Masks(1.0, np.array([[False, False], [True, True]]))
    >>> masks.factors(np.array([[False, True], [True, True]])).round(3).tolist()
    [[0.368, 0.368], [0.135, 1.0]]
    """

    rate: float
    points: Any

    def factors(self, own: Any) -> Any:
        """What kernels between rows with these masks and the points are multiplied with."""
        first, number = distinct(own)
        a, b = own[first].astype(np.float64), self.points.astype(np.float64)
        apart = a.sum(axis=1)[:, None] + b.sum(axis=1) - 2.0 * (a @ b.T)
        with np.errstate(over="ignore"):
            return np.exp(-self.rate * apart)[number]

    def values(self, f: Expansion, density: Any, Z: Any, own: Any, resources: Resources) -> Any:
        """The expectations of functions given rows with these masks, (rows, outputs)."""
        answer = np.empty((len(Z), f.coef.shape[1]))
        for at in chunks(np.arange(len(Z)), len(f.points), resources.chunk_bytes):
            kernels = kernels_between(density, f.rates, Z[at], f.points, resources)
            answer[at] = (kernels * self.factors(own[at])) @ f.coef + f.intercept
        return answer


def unit_rate(rates: Any, Z: Any, standardised: bool) -> float:
    """The mean rate of columns if they had variance one.

    Examples
    --------
    >>> unit_rate(0.25, np.array([[0.0], [4.0], [np.nan]]), False)
    1.0
    """
    if standardised:
        return float(np.mean(rates))
    seen = ~np.isnan(Z)
    count = np.maximum(seen.sum(axis=0), 1)
    centre = np.where(seen, Z, 0.0).sum(axis=0) / count
    return float(np.mean(rates * (np.where(seen, Z - centre, 0.0) ** 2).sum(axis=0) / count))


def chosen(losses: Sequence[float]) -> int:
    """The number of the smallest loss, 0 if it is not much smaller than the first.

    Examples
    --------
    >>> chosen([1.0, 0.97, 0.99]), chosen([1.0, 0.97, 0.9])
    (0, 2)
    """
    best = int(np.argmin(losses))
    return best if losses[best] < (1.0 - MARGIN) * losses[0] else 0
