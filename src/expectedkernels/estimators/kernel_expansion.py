"""Kernel expansions of fitted models, what they expect, and kernels that know what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, wrap_non_picklable_objects
from scipy.linalg import solve_triangular
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as gp_kernels
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR, NuSVC, NuSVR
from sklearn.utils.validation import check_is_fitted

from expectedkernels.arrays import DEFAULT_MAX_BYTES, spans
from expectedkernels.checks import DataError, KernelError, rows_numbered
from expectedkernels.estimators.encoding import Variable
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
FEWER_POINTS = "Set n_landmarks, such as n_landmarks=500 (the default for more than 2000 rows)."
BUNDLES = 4
"""Tasks are handed out in so many bundles per worker: what they share is sent once for each."""


@dataclass(frozen=True)
class Resources:
    """Workers and memory to use, and how exact to be.

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
    def chunk_bytes(self) -> int:
        """What the chunks of one worker may take."""
        share = self.max_bytes // effective_n_jobs(self.n_jobs)
        return max(2**16, min(share, CHUNK_BYTES))

    def require_matrix(self, n: int, matrices: int = 1, advice: str = FEWER_POINTS) -> None:
        """Raise if kernel matrices of n rows take more memory than they may, before they do.

        Parameters
        ----------
        n : int
        matrices : int
            How many of them there are at once.
        advice : str
            What to do about it.

        Examples
        --------
        >>> Resources().require_matrix(10000)
        """
        what = "A kernel matrix" if matrices == 1 else f"{matrices} kernel matrices"
        what = f"{what} of {n} rows {'takes' if matrices == 1 else 'take'}"
        self.require(8 * matrices * n**2, what, advice)

    def require(self, size: int, what: str, advice: str) -> None:
        """Raise if something takes more bytes than kernel matrices may."""
        if size > MATRICES * max(self.max_bytes, DEFAULT_MAX_BYTES):
            raise DataError(
                f"{what} {size / 2**30:.1f} GiB. {advice} If there is enough memory, set max_bytes "
                f"to {-(-size // MATRICES)} or more."
            )

    def map(self, work: Callable[[Any], Any], tasks: list[Any]) -> Iterator[Any]:
        """The results of all tasks, in their order.

        Workers may be other processes, or other computers: what `work` finds out must be in what it
        returns.
        """
        workers = effective_n_jobs(self.n_jobs)
        if workers == 1 or len(tasks) <= 1:
            return map(work, tasks)
        size, sent = -(-len(tasks) // (BUNDLES * workers)), wrap_non_picklable_objects(work)
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", batch_size=size)
        return iter(parallel(delayed(sent)(task) for task in tasks))


def chunks(index: Any, n_points: int, max_bytes: int) -> list[Any]:
    """Parts of an index whose matrices of kernels with all points fit into memory."""
    size = max(1, max_bytes // (32 * max(1, n_points)))
    return [index[span] for span in spans(len(index), size)]


@dataclass(frozen=True, eq=False)
class Prior:
    """What a Gaussian process adds to the variance: scale^2 (total - E[|root' k|^2])."""

    total: float
    root: Any
    scale: Any

    @cached_property
    def form(self) -> Any:
        """The matrix of the quadratic form in k, which has fewer digits than its root."""
        return self.root @ self.root.T

    def left(self, forms: Any) -> Any:
        """The variance of the process itself, (rows, outputs)."""
        return np.maximum(self.total - forms, 0.0)[:, None] * self.scale**2


@dataclass(frozen=True, eq=False)
class KernelExpansion:
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

    def merged(self) -> KernelExpansion:
        """The same functions with equal points put together, and without points of no weight."""
        points, place = np.unique(self.points, axis=0, return_inverse=True)
        coef = np.zeros((len(points), self.coef.shape[1]))
        np.add.at(coef, place.reshape(-1), self.coef)
        used = (coef != 0).any(axis=1)
        if not used.any():
            used[:1] = True
        return KernelExpansion(self.rates, points[used], coef[used], self.intercept)

    @property
    def is_embedded(self) -> bool:
        """Whether some of the points have missing values."""
        return bool(np.isnan(self.points).any())

    def at(self, density: Any, Z: Any, resources: Resources) -> Any:
        """The values at complete rows, or expected ones at others, (rows, outputs)."""
        answer = np.empty((len(Z), self.coef.shape[1]))
        for index in chunks(np.arange(len(Z)), len(self.points), resources.chunk_bytes):
            kernels = density.gram(self.rates, Z[index], self.points, resources)
            answer[index] = kernels @ self.coef + self.intercept
        return answer


class Density:
    """A distribution of columns of data, which kernels are averaged over.

    Tables may have further columns, without missing values, which count in kernels alone.

    Attributes
    ----------
    variables : list of Variable
        Which columns belong together.
    circuit : Circuit or None
    kernels : function
        E[k(x, s) | row], (rows, points); with coefficients their sums, (rows, outputs).
    between : function
        The expected kernels between incomplete rows, (rows of A, rows of B); B may be None, for A.
    variance : function
        The variances of functions given rows, with those of a process, (rows, outputs).
    means, draws : functions
        The rows with expected values in place of missing ones; several completions of them.
    nodes : function
        For every variable a quadrature of its distribution given what rows show of the others.
    """

    variables: list[Variable]
    circuit: Any = None
    kernels: Callable[..., Any]
    between: Callable[..., Any]
    variance: Callable[..., Any]
    means: Callable[..., Any]
    draws: Callable[..., Any]
    nodes: Callable[..., Any]

    def rows(self, Z: Any) -> Any:
        """The rows as the density reads them; raises if an incomplete one has probability zero."""
        return Z

    def mean(self, f: KernelExpansion, rows: Any, resources: Resources) -> Any:
        """The expectations of functions given incomplete rows, (rows, outputs)."""
        if f.is_embedded:
            return f.at(self, getattr(rows, "Z", rows), resources)
        return self.kernels(f.rates, rows, f.points, resources, f.coef) + f.intercept

    def gram(self, rates: Any, A: Any, B: Any = None, resources: Resources | None = None) -> Any:
        """The expected kernels between rows, (rows of A, rows of B); B is A by default."""
        other, resources = A if B is None else B, resources or Resources()
        gaps = (np.isnan(x).any(axis=1) for x in (A, other))
        (i, a), (j, b) = ((np.flatnonzero(gap), np.flatnonzero(~gap)) for gap in gaps)
        found = np.empty((len(A), len(other)))
        for at in chunks(a, len(b), resources.chunk_bytes):
            known = np.ones((len(at), A.shape[1]), dtype=np.bool_)
            found[np.ix_(at, b)] = at_known(rates, A[at], known, other[b])
        if len(i) and len(b):
            found[np.ix_(i, b)] = self.kernels(rates, self.rows(A[i]), other[b], resources)
        if len(j) and len(a):
            found.T[np.ix_(j, a)] = self.kernels(rates, self.rows(other[j]), A[a], resources)
        if len(i) and len(j):
            met = self.between(rates, A[i], None if B is None else other[j], resources)
            found[np.ix_(i, j)] = met * self.further(rates, A[i], other[j])
        return found if B is not None else 0.5 * (found + found.T)

    def further(self, rates: Any, A: Any, B: Any) -> Any:
        """What columns that are not those of the density make of kernels, (rows of A, of B)."""
        d = sum(len(variable.columns) for variable in self.variables)
        if A.shape[1] == d:
            return np.ones((len(A), 1))
        return at_known(rates[d:], A[:, d:], np.ones((len(A), len(rates) - d), bool), B[:, d:])


def masks_of(variables: Sequence[Any], Z: Any) -> Any:
    """Which variables rows lack, (rows, variables): the bits of a category are one.

    Examples
    --------
    >>> from expectedkernels.estimators.encoding import Variable
    >>> variables = [Variable(np.array([0])), Variable(np.array([1, 2]))]
    >>> masks_of(variables, np.array([[0.5, np.nan, np.nan]])).tolist()
    [[False, True]]
    """
    return np.stack([np.isnan(Z[:, v.columns]).any(axis=1) for v in variables], axis=1)


SUPPORTED = (
    "SVR, NuSVR, SVC, NuSVC and KernelRidge with kernel='rbf', and GaussianProcessRegressor with "
    "an RBF kernel (times a ConstantKernel, plus a WhiteKernel)"
)
MODELS = SVR, NuSVR, SVC, NuSVC, KernelRidge


@dataclass(frozen=True, eq=False)
class KernelModel:
    """A fitted model as a kernel expansion.

    Attributes
    ----------
    expansion : KernelExpansion
    prior : Prior or None
    flat : bool
        Whether answers have no axis of outputs.
    """

    expansion: KernelExpansion
    prior: Prior | None = None
    flat: bool = True


def expect(
    model: KernelModel, density: Any, Z: Any, resources: Resources, return_std: bool = False
) -> Any:
    """The expected outputs of a model for rows with missing values (and their deviations)."""
    incomplete, rows = read_rows(density, Z)
    f, prior = model.expansion, model.prior
    complete = np.setdiff1d(np.arange(len(Z)), incomplete)
    mean = np.empty((len(Z), f.coef.shape[1]))
    std = np.zeros_like(mean)
    mean[complete] = f.at(density, Z[complete], resources)
    if len(incomplete):
        mean[incomplete] = density.mean(f, rows, resources)
    if return_std and len(incomplete):
        variance = density.variance(f, rows, mean[incomplete], resources, prior)
        std[incomplete] = np.sqrt(variance)
    if return_std and prior is not None:
        for at in chunks(complete, len(f.points), resources.chunk_bytes):
            kernels = density.gram(f.rates, Z[at], f.points, resources)
            std[at] = np.sqrt(prior.left(((kernels @ prior.root) ** 2).sum(axis=1)))
    if model.flat:
        mean, std = mean[:, 0], std[:, 0]
    return (mean, std) if return_std else mean


def table(answers: Any) -> Any:
    """Answers with an axis of outputs."""
    return answers[:, None] if answers.ndim == 1 else answers


def read_rows(density: Any, Z: Any) -> tuple[Any, Any]:
    """Which rows are incomplete, and these as evidence."""
    incomplete = np.flatnonzero(np.isnan(Z).any(axis=1))
    with rows_numbered(incomplete):
        return incomplete, density.rows(Z[incomplete])


def as_expansion(model: Any) -> KernelModel | None:
    """A fitted model as a kernel expansion, None if it is something else that rows are given to."""
    if isinstance(model, (*MODELS, GaussianProcessRegressor)):
        check_is_fitted(model)
    if getattr(model, "kernel", None) == "precomputed":  # wants kernels in place of rows
        raise unsupported(f"{type(model).__name__} with kernel='precomputed'.")
    if isinstance(model, GaussianProcessRegressor):
        try:
            return _read_process(model)
        except KernelError:
            return None
    if not isinstance(model, MODELS) or model.kernel != "rbf":
        return None
    coef, intercept = coefficients(model)
    is_ridge = isinstance(model, KernelRidge)
    points = _dense(model.X_fit_ if is_ridge else model.support_vectors_)
    gamma = model.gamma if is_ridge else model._gamma
    rates = np.full(points.shape[1], 1.0 / points.shape[1] if gamma is None else float(gamma))
    flat = model.dual_coef_.ndim == 1 if is_ridge else coef.shape[1] == 1
    return KernelModel(KernelExpansion(rates, points, coef, intercept).merged(), flat=flat)


def unsupported(found: str) -> KernelError:
    """The error for a model that is no sum of RBF kernels."""
    return KernelError(f"Expected prediction is supported for {SUPPORTED}. Got a {found}")


def _dense(x: Any) -> Any:
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x, dtype=np.float64)


def coefficients(model: Any) -> tuple[Any, Any]:
    """The coefficients of the points of a fitted model, (points, outputs), and its constants.

    Of classes, every pair is an output.
    """
    dual = _dense(model.dual_coef_)
    if isinstance(model, KernelRidge):
        return table(dual), np.zeros(table(dual).shape[1])
    pairs = list(combinations(range(len(getattr(model, "classes_", (0, 1)))), 2))
    coef = dual.T
    if len(pairs) > 1:
        stops = np.cumsum(model.n_support_)
        owner = np.searchsorted(stops, np.arange(dual.shape[1]), side="right")
        coef = np.zeros((dual.shape[1], len(pairs)))
        for k, (i, j) in enumerate(pairs):
            coef[owner == i, k] = dual[j - 1, owner == i]
            coef[owner == j, k] = dual[i, owner == j]
    return coef, np.asarray(model.intercept_)


def _read_process(model: Any) -> KernelModel:
    points = np.asarray(model.X_train_, dtype=np.float64)
    amplitude, rates, noise = read_gp_kernel(model.kernel_, points.shape[1])
    alpha = np.asarray(model.alpha_)
    flat, alpha = alpha.ndim == 1, table(alpha)
    centre = np.broadcast_to(model._y_train_mean, alpha.shape[1:])
    scale = np.broadcast_to(model._y_train_std, alpha.shape[1:])
    root = amplitude * solve_triangular(model.L_, np.eye(len(points)), lower=True).T
    expansion = KernelExpansion(rates, points, amplitude * alpha * scale, np.asarray(centre))
    prior = Prior(amplitude + noise, root, scale)
    # points stay as they are: the quadratic form has a row for each
    return KernelModel(expansion, prior, flat)


def read_gp_kernel(kernel: Any, n_columns: int) -> tuple[float, Any, float]:
    """The amplitude and the gammas of the RBF part of a kernel, and the level of its noise."""
    terms = _terms(kernel, n_columns)
    smooth = [(amplitude, rates) for amplitude, rates, white in terms if not white]
    if len(smooth) != 1 or not smooth[0][1].any():
        raise unsupported(f"GaussianProcessRegressor with kernel {kernel}.")
    noise = sum(amplitude for amplitude, _, white in terms if white)
    return smooth[0][0], smooth[0][1], float(noise)


def _terms(kernel: Any, n_columns: int) -> list[tuple[float, Any, bool]]:
    """A kernel as a sum of constants times RBF kernels, and of white noise."""
    nothing = np.zeros(n_columns)
    if isinstance(kernel, gp_kernels.ConstantKernel):
        return [(float(kernel.constant_value), nothing, False)]
    if isinstance(kernel, gp_kernels.WhiteKernel):
        return [(float(kernel.noise_level), nothing, True)]
    if type(kernel) is gp_kernels.RBF:  # Matern kernels inherit from it
        rates = nothing + 0.5 / np.asarray(kernel.length_scale, dtype=np.float64) ** 2
        return [(1.0, rates, False)]
    if isinstance(kernel, gp_kernels.Sum):
        return _terms(kernel.k1, n_columns) + _terms(kernel.k2, n_columns)
    if isinstance(kernel, gp_kernels.Product):
        return [
            (a * b, r + s, v or w)
            for a, r, v in _terms(kernel.k1, n_columns)
            for b, s, w in _terms(kernel.k2, n_columns)
        ]
    raise unsupported(f"GaussianProcessRegressor with kernel {kernel}.")
