"""Stein kernels: kernels whose mean under a target is zero, known up to its normaliser only."""

from __future__ import annotations

from math import inf
from typing import Any, Protocol

import numpy as np

from expectedkernels.circuits.evidence import as_points
from expectedkernels.errors import DataError, KernelError, PropertyError
from expectedkernels.kernels.blocks import KernelBlocks, is_parallel
from expectedkernels.kernels.kernel import CHUNK, Kernel, factor_matrix
from expectedkernels.verdict import Verdict
from expectedkernels.vtree import Vtree

ZEROS = ("raise", "restrict")
"""What to do where the target has zeros."""

REMEDIES = (
    "Sum out the variables that others determine (collapsed_bbis with zeros='collapse', or a "
    "collapsed set that holds them), smooth the tables (zeros='smooth'), or restrict the "
    "operator to the support (zeros='restrict'), which cannot compare parts of the support that "
    "no change of a single variable connects."
)


class Target(Protocol):
    """What Stein kernels need of a distribution: a `FactorGraph` or a `Circuit` has it."""

    @property
    def cardinalities(self) -> Any:
        """The number of states of every variable."""

    def site_logs(self, X: Any, variable: int) -> Any:
        """Logs at points with one variable set to each state in turn, up to a constant per row."""


class SteinKernel:
    r"""The Stein kernel of a target, a function of pairs of points.

    .. math:: k_p(x, x') = \sum_i r_i(x) r_i(x') k(x, x') - r_i(x) k(x, \downarrow_i x')
                           - r_i(x') k(\downarrow_i x, x') + k(\downarrow_i x, \downarrow_i x')

    Here :math:`r_i(x) = p(\uparrow_i x) / p(x)`, and the arrows shift variable i to its next and
    to its previous state, cyclically. If p is positive everywhere, the mean of
    :math:`k_p(x, \cdot)` under p is zero for every x.

    Parameters
    ----------
    target : FactorGraph or Circuit
        Over discrete variables; need not be normalised.
    kernel : Kernel
        On the points; best a strictly positive definite one, as `ExpHamming`.
    zeros : "raise" or "restrict"
        What to do if the target is zero next to a point, where the mean would not be zero:
        raise, or leave out the points outside the support. The restricted kernel has mean
        zero again, but cannot compare the masses of parts of the support that no change of a single
        variable connects.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> stein = SteinKernel(p, ek.ExpHamming())
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> bool(abs(np.exp(p.log_likelihood(X)) @ stein(X)).max() < 1e-14)
    True
    """

    def __init__(self, target: Target, kernel: Kernel, zeros: str = "raise"):
        if not isinstance(kernel, Kernel):
            raise KernelError(
                "The kernel must be an expectedkernels kernel, such as ExpHamming(). "
                f"Got {type(kernel).__name__} instead."
            )
        if zeros not in ZEROS:
            raise KernelError(
                f"The 'zeros' parameter of SteinKernel must be one of {list(ZEROS)}. "
                f"Got {zeros!r} instead."
            )
        self.target, self.kernel, self.zeros = target, kernel, zeros
        self.cardinalities = discrete_cardinalities(target)
        self._terms = self._product_terms()

    def _product_terms(self) -> list[tuple[float, list[Any]]] | None:
        """Weights and matrices of products of positive kernels that sum to the kernel, if any."""
        if self.kernel.vtree is not None:
            return None
        vtree = Vtree.balanced(len(self.cardinalities))
        blocks = self.kernel.blocks(vtree, self.cardinalities)
        if not is_parallel(blocks):
            return None
        terms = []
        for number, weight in enumerate(blocks.weights):
            matrices = [
                factor_matrix(factors[number], n, v)
                for v, (factors, n) in enumerate(
                    zip(blocks.factors, self.cardinalities, strict=True)
                )
            ]
            if any((matrix <= 0).any() for matrix in matrices):
                return None
            terms.append((float(weight), matrices))
        return terms

    def __call__(self, X: Any, Y: Any = None) -> Any:
        """The Gram matrix of the rows of X and Y (default: X)."""
        first = self._steps(X)
        return self._gram(first, first if Y is None else self._steps(Y))

    def extended(self, gram: Any, X: Any, new: Any) -> Any:
        """The Gram matrix of the rows of X and of new ones, given that of X.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> stein = SteinKernel(ek.factorized([[0.2, 0.8], [0.5, 0.5]]), ek.ExpHamming())
        >>> stein.extended(stein([[0, 0]]), [[0, 0]], [[1, 1], [0, 1]]).shape
        (3, 3)
        """
        old, later = self._steps(X), self._steps(new)
        if np.shape(gram) != (len(old[0]), len(old[0])):
            raise DataError(
                f"The Gram matrix of {len(old[0])} points must be square with as many rows. "
                f"Got shape {np.shape(gram)}."
            )
        corner = self._gram(later, old)
        return np.block([[np.asarray(gram), corner.T], [corner, self._gram(later, later)]])

    def _steps(self, X: Any) -> tuple[Any, Any, Any]:
        """Points, and how the operators weigh them and their predecessors."""
        points = as_points(X, self.cardinalities).astype(np.intp)
        return points, *steps(self.target, points, self.zeros)

    def _gram(self, first: Any, second: Any) -> Any:
        route = _shifted_gram if self._terms is None else _product_gram
        given = self.kernel if self._terms is None else self._terms
        rows = max(1, CHUNK // max(1, len(second[0])))
        parts = [
            route(given, tuple(x[i : i + rows] for x in first), second, self.cardinalities)
            for i in range(0, len(first[0]), rows)
        ]
        return np.concatenate([np.zeros((0, len(second[0]))), *parts])

    def __repr__(self) -> str:
        return f"<SteinKernel of {self.target!r} with {self.kernel!r}>"


def discrete_cardinalities(target: Any) -> list[int]:
    """The number of states of every variable of a target; raises if it is no such thing."""
    cardinalities = getattr(target, "cardinalities", None)
    if cardinalities is None or not hasattr(target, "site_logs"):
        raise DataError(
            "The target must be a FactorGraph, a BayesianNetwork or a Circuit. "
            f"Got {type(target).__name__} instead."
        )
    for variable, n in enumerate(cardinalities):
        if n is None:
            raise PropertyError(
                "Discrete Stein operators shift every variable to its next state. Variable "
                f"{variable} of the target is real."
            )
    return [int(n) for n in cardinalities]


def steps(target: Target, points: Any, zeros: str = "raise", variables: Any = None) -> Any:
    """How Stein operators weigh every point and its predecessors, two (n, variables) arrays.

    The first holds the ratios p(next) / p(here), the second ones, or zeros where the predecessor
    is outside the support and `zeros` says to restrict the operators. Points may have NaN where a
    variable is summed out (if the target can); `variables` limits the work to some columns.
    """
    n, d = points.shape
    ratios, kept = np.zeros((n, d)), np.ones((n, d))
    for variable in range(d) if variables is None else variables:
        column = points[:, variable]
        some = np.flatnonzero(~np.isnan(column)) if column.dtype.kind == "f" else np.arange(n)
        states = column[some].astype(np.intp)
        logs = np.asarray(target.site_logs(points[some], variable))
        card, rows = logs.shape[1], np.arange(len(some))
        here = logs[rows, states]
        if (here == -inf).any():
            raise DataError(
                f"The target is zero at row {int(some[np.argmax(here == -inf)])} of the samples, "
                "so it has no ratio of probabilities there. Leave out such rows: they "
                "cannot have come from the target."
            )
        before = logs[rows, (states - 1) % card] > -inf
        if zeros == "raise" and not before.all():
            row = int(some[np.argmin(before)])
            raise PropertyError(
                f"The target has zeros: shifting variable {variable} of row {row} back leaves its "
                f"support, and Stein operators do not have mean zero then. {REMEDIES}"
            )
        kept[some, variable] = before
        with np.errstate(over="ignore"):
            ratios[some, variable] = np.exp(logs[rows, (states + 1) % card] - here)
    if not np.isfinite(ratios).all():
        row, variable = np.argwhere(~np.isfinite(ratios))[0]
        raise DataError(
            f"The probability of row {row} grows by more than can be written when variable "
            f"{variable} changes. Leave out such rows: their weight is zero in all but name."
        )
    return ratios, kept


def _product_gram(terms: Any, first: Any, second: Any, cardinalities: Any) -> Any:
    """The Gram matrix for products of positive kernels, by matrix products over states.

    Relative to k(x, x'), a shift of one variable multiplies by a ratio that depends on the two
    states of that variable only.
    """
    (E, R, C), (F, Q, B) = (_one_hot(x, r, c, cardinalities) for x, r, c in (first, second))
    total = np.zeros((len(E), len(F)))
    for weight, matrices in terms:
        back = [np.roll(m, 1, axis=1) / m for m in matrices]
        forth = [np.roll(m, 1, axis=0) / m for m in matrices]
        both = [np.roll(m, 1, axis=(0, 1)) / m for m in matrices]
        logs = _times(E, [np.log(m) for m in matrices]) @ F.T
        inside = R @ _times(Q, [np.ones_like(m).T for m in matrices]).T
        inside -= _times(R, back) @ B.T + _times(C, forth) @ Q.T
        inside += _times(C, both) @ B.T
        total += weight * np.exp(logs) * inside
    return total


def _one_hot(points: Any, ratios: Any, kept: Any, cardinalities: Any) -> tuple[Any, Any, Any]:
    """States as columns of zeros and ones, and the same times the two weights of the steps."""
    starts = np.cumsum([0, *cardinalities[:-1]])
    variable = np.repeat(np.arange(len(cardinalities)), cardinalities)
    ones = np.zeros((len(points), len(variable)))
    np.put_along_axis(ones, points + starts, 1.0, axis=1)
    return ones, ones * ratios[:, variable], ones * kept[:, variable]


def _times(columns: Any, matrices: Any) -> Any:
    """Columns of states times one matrix per variable."""
    ends = np.cumsum([len(m) for m in matrices])
    parts = [columns[:, end - len(m) : end] @ m for m, end in zip(matrices, ends, strict=True)]
    return np.concatenate(parts, axis=1)


def _shifted_gram(kernel: Kernel, first: Any, second: Any, cardinalities: Any) -> Any:
    """The Gram matrix for any kernel, by its definition."""
    (X, R, C), (Y, Q, B) = first, second
    here = kernel.gram(X.astype(np.float64), Y.astype(np.float64))
    total = np.zeros_like(here)
    for i, n in enumerate(cardinalities):
        before, also_before = X.astype(np.float64), Y.astype(np.float64)
        before[:, i] = (X[:, i] - 1) % n
        also_before[:, i] = (Y[:, i] - 1) % n
        total += np.outer(R[:, i], Q[:, i]) * here
        total -= np.outer(R[:, i], B[:, i]) * kernel.gram(X.astype(np.float64), also_before)
        total -= np.outer(C[:, i], Q[:, i]) * kernel.gram(before, Y.astype(np.float64))
        total += np.outer(C[:, i], B[:, i]) * kernel.gram(before, also_before)
    return total


def is_strictly_positive_definite(kernel: Kernel, cardinalities: Any) -> Verdict:
    """Whether a kernel on discrete variables tells all distributions apart, as far as one can see.

    It does if one of its terms is a product of strictly positive definite kernels of single
    variables, and nothing in it is negative. The check is linear in its size, and sufficient.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> bool(is_strictly_positive_definite(ek.ExpHamming(), [2, 3]))
    True
    >>> is_strictly_positive_definite(ek.TableKernel([np.ones((2, 2))]), [2])
    no: the kernels of variable 0 are not strictly positive definite
    """
    verdict = kernel.is_positive_definite(cardinalities)
    if not verdict:
        return verdict
    vtree = Vtree.balanced(len(cardinalities)) if kernel.vtree is None else kernel.vtree
    blocks: KernelBlocks = kernel.blocks(vtree, cardinalities)
    strict: list[Any] = []
    for node, variable in enumerate(vtree.variable.tolist()):
        if variable >= 0:
            n = cardinalities[variable]
            found = [_is_strict(factor_matrix(f, n, variable)) for f in blocks.factors[variable]]
            if not any(found):
                return Verdict(
                    False, f"the kernels of variable {variable} are not strictly positive definite"
                )
            strict.append(np.asarray(found))
            continue
        block: Any = blocks.operand.inner[node]
        left, right = strict[int(vtree.left[node])], strict[int(vtree.right[node])]
        products = left[block.index("left")] & right[block.index("right")]
        strict.append((block.csr > 0).astype(np.float64) @ products > 0)
    if (strict[-1] & (np.asarray(blocks.weights) > 0)).any():
        return Verdict(True, "it has a term of strictly positive definite kernels")
    return Verdict(False, "no term of it is strictly positive definite in all variables")


def _is_strict(matrix: Any) -> bool:
    size = float(np.abs(matrix).max())
    return bool(size > 0 and np.linalg.eigvalsh(matrix)[0] > 1e-12 * len(matrix) * size)
