"""Stein kernels of densities over the reals, and what all Stein kernels share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels import arrays, checks
from expectedkernels.arrays import Array, RowsLike, spans
from expectedkernels.checks import DataError, KernelError, public_in
from expectedkernels.data.evidence import Domains
from expectedkernels.kernels.empirical import Empirical, default_kernel, sample_rows
from expectedkernels.kernels.gram import KernelBlocks
from expectedkernels.kernels.kernel import RBF, Kernel, refuse_gradients
from expectedkernels.kernels.target import Target
from expectedkernels.vtree import Vtree

CHUNK_ROWS = 4096
"""How many rows are read, and meet another one, at once."""

DIAGONAL_ROWS = 64
"""Where nothing better is known, the diagonal is taken from blocks of this size."""

CHUNK = 2**20
"""How many pairs of points over the reals are worked on at once."""

SWEEPS = 20
"""How often reversible chains update every point, there and back."""


class PairwiseKernel:
    """A kernel of rows that are read before they are paired: what all Stein kernels share.

    A subclass says how rows are read, and what the kernels of two sets of rows are. What is read is
    a list of arrays with one entry per row each, or a tuple that begins with one.
    """

    kernel: Kernel
    _followed: Any = None  # a circuit that requires gradients

    _read: Any
    _gram: Any

    def __call__(self, rows: RowsLike, others: RowsLike | None = None) -> Array:
        """The Gram matrix of rows (with themselves, or with others).

        Parameters
        ----------
        rows, others : arrays of shape (n, variables)

        Returns
        -------
        array of shape (rows, others)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> stein = ek.SteinKernel(ek.factorized([[0.5, 0.5]]), ek.Delta())
        >>> stein([[0], [1]]).shape
        (2, 2)
        """
        first = self._read(rows)
        return self._between(first, first if others is None else self._read(others))

    def extended(self, gram: Array, rows: RowsLike, new: RowsLike) -> Array:
        """The Gram matrix of rows and of new ones, given that of the rows.

        Parameters
        ----------
        gram : array of shape (n, n)
            The Gram matrix of `rows`.
        rows : array of shape (n, variables)
            The old rows.
        new : array of shape (m, variables)
            The rows to add.

        Returns
        -------
        array of shape (n + m, n + m)

        Raises
        ------
        DataError
            If the matrix is not that of the rows.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> stein = ek.SteinKernel(ek.factorized([[0.2, 0.8], [0.5, 0.5]]), ek.ExpHamming())
        >>> larger = stein.extended(stein([[0, 0]]), [[0, 0]], [[1, 1], [0, 1]])
        >>> bool(abs(larger - stein([[0, 0], [1, 1], [0, 1]])).max() < 1e-12)
        True
        """
        refuse_gradients("SteinKernel.extended", self.kernel, self._followed)
        old, later = self._read(rows), self._read(new)
        n = len(old[0])
        if np.shape(gram) != (n, n):
            what = f"The Gram matrix of {n} samples must be square with as many rows"
            raise DataError(f"{what}. Got shape {np.shape(gram)}.")
        corner = self._between(later, old)
        return np.block([[np.asarray(gram), corner.T], [corner, self._between(later, later)]])

    def _between(self, first: Any, second: Any) -> Any:
        n, m = len(first[0]), len(second[0])
        arrays.require_memory(
            24.0 * n * m,  # with its parts, or with the matrix turned over
            f"The Gram matrix of a Stein kernel for {n} x {m} samples",
            "Take every tenth of a chain, or stein_thin, which needs no matrix.",
        )
        matrix = self._gram(first, second)
        return 0.5 * (matrix + matrix.T) if second is first else matrix

    def _columns(self, rows: Array) -> tuple[Callable[[int], Array], Array]:
        """A function that gives one column of the Gram matrix of rows, and the diagonal of it.

        What the kernel knows of the rows is read once, and stays linear in their number.
        """
        sides = [self._read(rows[chunk]) for chunk in spans(len(rows), CHUNK_ROWS)]

        def column(i: int) -> Any:
            side, j = sides[i // CHUNK_ROWS], i % CHUNK_ROWS
            sliced = isinstance(side, list)
            one = [x[j : j + 1] for x in side] if sliced else self._read(rows[i : i + 1])
            return np.concatenate([self._gram(one, side)[0] for side in sides])

        return column, self._diagonal(rows, sides)

    def _diagonal(self, rows: Any, sides: Any) -> Any:
        """The kernels of rows, which were read in parts, with themselves."""
        blocks = (rows[chunk] for chunk in spans(len(rows), DIAGONAL_ROWS))
        return np.concatenate([np.diag(self(block)) for block in blocks])


@public_in("stein")
class IMQ(Kernel):
    r"""The inverse multiquadric kernel :math:`(1 + \sum_j (x_j - x_j')^2 / \ell_j^2)^{-1/2}`.

    Its tails are heavy, so that the Stein discrepancy of a density over the reals sees samples that
    do not converge to it (J. Gorham and L. Mackey, "Measuring sample quality with kernels", ICML
    2017). It is no product over the variables: circuits have no exact expectations of it.

    Parameters
    ----------
    lengthscale : float, or one float per variable
        The distances at which the kernel decreases. Larger ones compare distributions on larger
        scales.

    Raises
    ------
    KernelError
        If a lengthscale is not positive.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.stein.IMQ(2.0)([[0.0]], [[2.0]]).round(6).tolist()
    [[0.707107]]
    """

    def __init__(self, lengthscale: ArrayLike = 1.0):
        given = np.asarray(lengthscale)
        good = given.dtype.kind in "iuf" and given.ndim < 2 and given.size > 0
        good = good and bool((np.isfinite(given) & (given > 0)).all())
        wanted = "a float in the range (0, inf), or one for every variable"
        checks.check_parameter(good, "IMQ", "lengthscale", lengthscale, wanted, KernelError)
        self.lengthscale: Any = float(given) if given.ndim == 0 else given.astype(np.float64)

    def gram(self, X: Array, Y: Array) -> Array:
        """The values k(x_i, y_j) of all rows."""
        return (1.0 + _forms(X, Y, _precisions(self, X.shape[1]))[0]) ** -0.5

    def blocks(self, vtree: Vtree, domains: Domains) -> KernelBlocks:
        """Raises: the kernel is no circuit."""
        what = "IMQ is no product over the variables, so that circuits have no expectation of it"
        raise KernelError(f"{what}. Use RBF.")

    def is_symmetric(self, n_variables: int) -> bool:
        """Whether k(x, x') and k(x', x) are known to be equal."""
        return True

    def __repr__(self) -> str:
        return f"IMQ(lengthscale={np.round(self.lengthscale, 6).tolist()})"


def _precisions(kernel: Any, n_variables: int) -> Any:
    """The inverse squared lengthscales of a kernel, one per variable."""
    if isinstance(kernel, RBF):
        return np.array([2.0 * factor.square for factor in kernel.factors(n_variables)])
    if np.shape(kernel.lengthscale) not in ((), (n_variables,)):
        what = f"{kernel!r} is made for {len(kernel.lengthscale)} variables"
        raise KernelError(f"{what}. Got {n_variables}.")
    return np.broadcast_to(np.asarray(kernel.lengthscale) ** -2.0, n_variables)


def _forms(X: Any, Y: Any, precisions: Any) -> tuple[Any, Any]:
    """Squared distances in units of lengthscales, and the same weighted by precisions again."""
    squares = (X[:, None] - Y) ** 2
    return squares @ precisions, squares @ precisions**2


@public_in("stein")
class LangevinSteinKernel(PairwiseKernel):
    r"""The Stein kernel of a density over the reals, with the operator of Langevin diffusion.

    .. math:: k_p(x, y) = \nabla_x \cdot \nabla_y k + s(x) \cdot \nabla_y k
              + s(y) \cdot \nabla_x k + k\, s(x) \cdot s(y), \qquad s = \nabla \log p

    The mean of :math:`k_p(x, \cdot)` under p is zero for every x.

    Parameters
    ----------
    target : Target
        Over the reals: made with `n_variables`.
    kernel : IMQ or RBF, optional
        Default: ``IMQ()``. `kdsd`, `kdsd_test`, `stein_thin` and `bbis` choose its lengthscales
        by the median distance of standardised samples.

    Raises
    ------
    DataError
        If the target is not over the reals.
    KernelError
        If it is another kernel.

    Notes
    -----
    C. Oates, M. Girolami and N. Chopin, "Control functionals for Monte Carlo integration", JRSS B
    2017; J. Gorham and L. Mackey, "Measuring sample quality with kernels", ICML 2017.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> normal = ek.Target(lambda X: -0.5 * (X**2).sum(axis=1), n_variables=1, score=lambda X: -X)
    >>> ek.stein.LangevinSteinKernel(normal)([[0.0], [1.0]]).round(6).tolist()
    [[1.0, -0.53033], [-0.53033, 2.0]]
    """

    def __init__(self, target: Target, kernel: Kernel | None = None):
        if not (isinstance(target, Target) and target.is_real):
            what = "A LangevinSteinKernel is that of a density: Target(log_prob, n_variables=...)"
            raise DataError(f"{what}. Got {target!r}.")
        self.target, self.kernel = target, IMQ() if kernel is None else kernel
        if not isinstance(self.kernel, (IMQ, RBF)):
            what = "Densities over the reals have Stein kernels with RBF or stein.IMQ"
            raise KernelError(f"{what}. Got {self.kernel!r}.")
        refuse_gradients("LangevinSteinKernel", self.kernel)
        self._precisions = _precisions(self.kernel, target.n_variables)

    def _read(self, rows: Any) -> list[Any]:
        points = sample_rows(self.target, rows, least=0)
        return [points, self.target.score(points)]

    def _gram(self, first: Any, second: Any) -> Any:
        (X, scores), (Y, others) = first, second
        chunks = spans(len(X), max(1, CHUNK // max(1, Y.size)))
        parts = (self._block(X[chunk], scores[chunk], Y, others) for chunk in chunks)
        return np.concatenate([np.zeros((0, len(Y))), *parts])

    def _block(self, X: Any, scores: Any, Y: Any, others: Any) -> Any:
        squared, weighted = _forms(X, Y, self._precisions)
        apart = (X[:, None] - Y) * self._precisions
        slopes = np.einsum("ijk,ijk->ij", apart, others - scores[:, None])
        inner = self._precisions.sum() - slopes
        if isinstance(self.kernel, RBF):
            value = first = second = np.exp(-0.5 * squared)
        else:
            value = (1.0 + squared) ** -0.5
            first, second = value**3, 3.0 * value**5
        with np.errstate(over="ignore", invalid="ignore"):
            found = first * inner - second * weighted + value * (scores @ others.T)
        if not np.isfinite(found).all():
            what = "The Stein kernel is too large for a float: gradients of the log-density are"
            raise KernelError(f"{what} up to {np.abs(scores).max():.3g}. Rescale the variables.")
        return found

    def _diagonal(self, rows: Any, sides: Any) -> Any:
        return np.concatenate([self._precisions.sum() + (s**2).sum(axis=1) for _, s in sides])

    def __repr__(self) -> str:
        return f"<LangevinSteinKernel of {self.target!r} with {self.kernel!r}>"


def is_real(target: Any) -> bool:
    """Whether a target is a density over the reals."""
    return isinstance(target, Target) and target.is_real


def median_kernel(target: Target, points: Any, scale: float = 1.0) -> IMQ:
    """The default kernel: lengthscales by the median distance of standardised points.

    Examples
    --------
    >>> normal = Target(lambda X: -0.5 * (X**2).sum(axis=1), n_variables=1, score=lambda X: -X)
    >>> median_kernel(normal, np.array([[0.0], [1.0], [3.0]]))
    IMQ(lengthscale=[2.0])
    """
    known = Empirical(points)
    known.schema = target.schema
    rbf: Any = default_kernel(known, scale=scale)
    return IMQ(_precisions(rbf, target.n_variables) ** -0.5)


def langevin_sweeps(target: Target, samples: Any, rng: Any, *, reverse: bool = False) -> Any:
    """Sets of points (m, n, variables) after sweeps of Metropolis-adjusted Langevin updates.

    One half of the points of a set is updated given the other half, whose standard deviations are
    the units of proposals (or one, if they are zero). Every such update is reversible with
    respect to independent samples of the target, so that sweeps in the reverse order are the
    reversal of sweeps. Drifts are truncated, so that chains move where the density is steep, and
    proposals at which it is no float are rejected.
    """
    found, shape = np.array(samples), np.shape(samples)

    def density(points: Any, strict: bool) -> tuple[Any, Any]:
        logs, scores = target.log_density(points.reshape(-1, shape[2]), strict=strict)
        return logs.reshape(points.shape[:2]), scores.reshape(points.shape)

    logs, scores = density(found, strict=True)
    halves = [slice(0, None, 2), slice(1, None, 2)]
    for turn in range(2 * SWEEPS):
        half, other = halves[:: -1 if (turn % 2 == 1) != reverse else 1]
        x, given = found[:, half], found[:, other]
        # sizes of steps differ, as scales of the target may, and do not depend on the points
        step, noise = 10.0 ** -rng.random((shape[0], 1, 1)), rng.standard_normal(x.shape)
        with np.errstate(all="ignore"):  # far proposals overflow
            varies = (given != given[:, :1]).any(axis=1, keepdims=True)
            step = step * np.where(varies, given.std(axis=1, keepdims=True), 1.0)
            y = x + step * (noise + np.clip(0.5 * step * scores[:, half], -1.0, 1.0))
            y = np.where(np.isfinite(y).all(axis=2, keepdims=True), y, x)
            new_logs, new_scores = density(y, strict=False)
            back = (x - y) / step - np.clip(0.5 * step * new_scores, -1.0, 1.0)
            gain = new_logs - logs[:, half] + 0.5 * (noise**2 - back**2).sum(axis=2)
            accepted = np.log(rng.random(gain.shape)) < gain
        found[:, half] = np.where(accepted[:, :, None], y, x)
        logs[:, half] = np.where(accepted, new_logs, logs[:, half])
        scores[:, half] = np.where(accepted[:, :, None], new_scores, scores[:, half])
    return found
