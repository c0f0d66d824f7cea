"""Maximum mean discrepancy between circuits, points, or both, and exact mean embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod, sqrt
from typing import Any

import numpy as np

from expectedkernels import arrays, checks, expectation
from expectedkernels.arrays import DEFAULT_MAX_BYTES, Array, VariablesLike, as_like, detach, to_cpu
from expectedkernels.checks import DataError, KernelError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.circuits.queries import require_normalized
from expectedkernels.data.tables import as_table, is_frame
from expectedkernels.expectation import expected_kernel, two_distributions
from expectedkernels.kernels import empirical, kernel
from expectedkernels.kernels.empirical import DistributionLike, Empirical, default_kernel
from expectedkernels.kernels.gram import is_parallel
from expectedkernels.kernels.kernel import Kernel, is_kernel_compatible
from expectedkernels.kernels.target import Target, refuse_functions
from expectedkernels.models.factor_graph import Factor, FactorGraph, converted
from expectedkernels.sampling.gibbs import every_state

ROUNDING = 2.0**-49
"""A squared discrepancy that is no larger, of the size of its terms, is their rounding error."""

ENUMERATED = 2**18
"""Functions of up to this many states are evaluated at all of them, and sampled exactly."""


def mmd2(
    p: DistributionLike,
    q: DistributionLike,
    k: Kernel | None = None,
    *,
    categorical_features: VariablesLike | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Array:
    """The squared maximum mean discrepancy, M(p, p) + M(q, q) - 2 M(p, q), exactly.

    Parameters
    ----------
    p, q : Circuit, FactorGraph, unit graph, Empirical, or array or frame of points
        Points have equal weights. Circuits, and weights of points, must sum to one, and circuits
        must be compatible with each other. Models are compiled: for M(p, q) on a vtree that both
        share, that of the circuit or of the model for which both are smaller, and for M(p, p) and
        M(q, q) each on the vtree that suits it. Variables and states are matched by their names
        and labels, if both sides have them.
    k : Kernel, optional
        Default: ``ExpHamming()`` for categorical variables, ``RBF`` with the median heuristic for
        numbers (see `median_gamma`), and their product for both.
    categorical_features : names, numbers or mask of columns, optional
        The categorical columns of tables, for the default kernel. By default the type of a column
        of a data frame decides: text, categories and bools are categorical, numbers are not. In
        arrays, columns of few distinct whole numbers are: at most 20, and each of them twice on
        average.
    max_bytes : int
        How much memory intermediate values may take, as for `expected_kernel`.

    Returns
    -------
    float, or array
        Zero if it is no larger than the rounding errors of its terms (one part in 5e14).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.5, 0.5]])
    >>> round(ek.mmd2(p, q, ek.Delta()), 12)
    0.32
    >>> ek.mmd2(p, p)
    0.0
    """
    return _squared(p, q, k, categorical_features, max_bytes)[0]


def _squared(p: Any, q: Any, k: Any, categorical: Any, max_bytes: int) -> tuple[Any, Any, Kernel]:
    """The squared discrepancy, zero if it is rounding, the size of its terms, and the kernel."""
    given, first, second, k = _read(p, q, k, categorical, max_bytes)
    pair = [first, second]
    circuits = isinstance(first, Circuit) and isinstance(second, Circuit) and q is not p
    if circuits and any(hasattr(x, "compile") for x in given):
        # the mixed term alone needs a vtree that both share
        pair = two_distributions(*given, max_bytes)
        if not is_kernel_compatible(k, first, first) or not is_kernel_compatible(k, second, second):
            first, second = pair
    size = expected_kernel(first, first, k, max_bytes=max_bytes)
    if q is p:
        return 0.0 * size, size, k
    size = size + expected_kernel(second, second, k, max_bytes=max_bytes)
    squared = size - 2.0 * expected_kernel(pair[0], pair[1], k, max_bytes=max_bytes)
    return abs(0.0 * squared) if abs(squared) <= ROUNDING * abs(size) else squared, size, k


def mmd(
    p: DistributionLike,
    q: DistributionLike,
    k: Kernel | None = None,
    *,
    categorical_features: VariablesLike | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Array:
    """The maximum mean discrepancy, the square root of `mmd2`.

    Rounding may leave a squared discrepancy of zero slightly negative; it counts as zero. A value
    that is negative beyond rounding means that the kernel is not positive definite, and raises.

    Parameters
    ----------
    p, q, k, categorical_features, max_bytes
        As for `mmd2`.

    Returns
    -------
    float, or array

    Raises
    ------
    KernelError
        If the squared discrepancy is negative beyond rounding: the kernel is not positive definite.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.5, 0.5]])
    >>> round(ek.mmd(p, q, ek.Delta()), 6)
    0.565685
    """
    squared, size, k = _squared(p, q, k, categorical_features, max_bytes)
    if squared > 0:
        return sqrt(squared) if isinstance(squared, float) else squared**0.5
    if squared < -1e-10 * abs(float(detach(size))):
        raise KernelError(
            f"The squared discrepancy is {float(detach(squared)):.6g}, which is negative beyond "
            f"rounding: the kernel is not positive definite ({k.is_positive_definite()!r})."
        )
    return abs(0.0 * squared)


def witness(
    p: DistributionLike,
    q: DistributionLike,
    k: Kernel | None = None,
    X: arrays.RowsLike | None = None,
    *,
    categorical_features: VariablesLike | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Array:
    """The witness function of the MMD at the rows of X: E_p[k(x, X_i)] - E_q[k(x', X_i)].

    Parameters
    ----------
    p, q, k, categorical_features, max_bytes
        As for `mmd2`.
    X : array of shape (points, variables), or data frame
        Where to evaluate the function.

    Returns
    -------
    array of shape (points,)

    Raises
    ------
    DataError
        If there are no points.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.9, 0.1]]), ek.factorized([[0.5, 0.5]])
    >>> ek.witness(p, q, ek.Delta(), [[0], [1]]).round(12).tolist()
    [0.4, -0.4]
    """
    if X is None and k is not None and not isinstance(k, Kernel):
        k, X = None, k  # witness(p, q, X)
    if X is None:
        raise DataError("The witness function is evaluated at points. Give some as X.")
    given, p, q, k = _read(p, q, k, categorical_features, max_bytes)
    X = as_table(X)
    if is_frame(X):
        schemas = [x.schema for x in (p, q) if isinstance(x, Circuit)]
        frames = [x.frame for x in given if isinstance(x, Empirical) and x.frame is not None]
        X = (schemas[0] if schemas else empirical.shared_schema(*frames, X)).read_frame(X)
    first, second = (expected_kernel(x, X, k, max_bytes=max_bytes) for x in (p, q))
    return as_like(first, second) - as_like(second, first)  # one of them may be on a GPU


def _read(
    p: Any, q: Any, k: Any, categorical_features: Any, max_bytes: int
) -> tuple[tuple[Any, Any], Any, Any, Kernel]:
    """Two distributions before and after models are compiled, each by itself, and the kernel."""
    given = as_distribution(p), as_distribution(q)
    first, second = two_distributions(*given, max_bytes, common=False)
    second = first if q is p else second
    for x in (first, second):
        if isinstance(x, Circuit):
            x.require_single_root("A discrepancy")
        expectation.require_distribution(x, "A discrepancy")
    if k is None:
        k = default_kernel(first, second, categorical_features=categorical_features)
    else:
        empirical.refuse_features(categorical_features)
    return given, first, second, k


def kernel_terms(name: str, k: Kernel, p: Circuit | FactorGraph) -> Any:
    """The kernel on the vtree of a model as weights and products of factors, one per variable."""
    kernel.require_kernel(k)
    kernel.refuse_gradients(name, k)
    blocks = k.blocks(p.vtree, p.cardinalities)
    if not is_parallel(blocks):
        raise KernelError(
            f"{name} takes the factors of single variables out of the kernel, so it must be a "
            f"product over the variables, or a sum of such. Got {k!r}, which has sums inside."
        )
    return list(zip(blocks.weights.tolist(), zip(*blocks.factors, strict=True), strict=True))


def as_distribution(x: Any) -> Any:
    """A plain array or frame of points stands for its empirical distribution."""
    refuse_functions(x)
    if isinstance(x, (Circuit, Unit, Empirical)) or hasattr(x, "compile"):
        return x
    model = converted(x)
    if model is not x:
        return model
    weights = empirical.sample_weights(x)
    return Empirical(x if weights is None else x.rows, weights)


@dataclass(frozen=True, eq=False)
class MeanEmbedding:
    """The exact mean embedding of a model, in the space of a kernel.

    An incomplete row stands for the conditional mean embedding given its observed values.
    """

    circuit: Any  # a normalised circuit, or points as an `Empirical` distribution
    # whether it is that of a function, with a unit for every state: too wide to meet itself
    wide: bool = False
    kernel: Any = None

    @cached_property
    def total(self) -> Any:
        """The expected kernel of two independent samples."""
        if not self.wide:
            return expected_kernel(self.circuit, self.circuit, self.kernel)
        states = every_state(self.circuit.cardinalities)
        values = self.at(states)
        return as_like(np.exp(to_cpu(self.circuit.log_likelihood(states))), values) @ values

    def at(self, points: Any) -> Any:
        """The expected kernel of a sample and each of some rows."""
        parts = self._parts(points)
        if len(parts) == 1 and parts[0][2] is None:
            return expected_kernel(self.circuit, points, self.kernel)
        found = np.empty(len(points))
        for rows, x, evidence in parts:
            with checks.rows_numbered(rows):
                values = expected_kernel(self.circuit, x, self.kernel, evidence_q=evidence)
            found[rows] = to_cpu(values)
        return found

    def between(self, rows: Any, others: Any) -> Any:
        """The expected kernels of pairs of rows, each given what is observed in it."""
        if not (np.isnan(rows).any() or np.isnan(others).any()):
            return self.kernel.numbers(rows, others)
        found = np.empty((len(rows), len(others)))
        for (i, x, given), (j, y, other) in product(self._parts(rows), self._parts(others)):
            evidence: Any = {"evidence_p": given, "evidence_q": other}
            found[np.ix_(i, j)] = to_cpu(expected_kernel(x, y, self.kernel, **evidence))
        return found

    def _parts(self, rows: Any) -> list[tuple[Any, Any, Any]]:
        """Numbers of complete rows with these, of incomplete ones with the model given these."""
        missing = np.isnan(rows).any(axis=1)
        complete, incomplete = np.flatnonzero(~missing), np.flatnonzero(missing)
        parts = [(complete, rows[complete], None), (incomplete, self.circuit, rows[incomplete])]
        return [part for part in parts if len(part[0])] or parts[:1]


def mean_embedding(model: Any, what: str = "A test") -> MeanEmbedding:
    """A model whose exact embedding is known; raises if it is not. `what` is it that needs one."""
    if is_small(model):
        table = states_of(model)[1].reshape(model.cardinalities)
        factor = Factor(range(table.ndim), table)
        graph = FactorGraph(model.cardinalities, [factor], model.names, model.states)
        return MeanEmbedding(graph.circuit(), wide=True)
    if isinstance(model, Target):
        raise DataError(
            f"A mean embedding is a sum over all states: a function of more than {ENUMERATED} "
            "states, or of real ones, has none. Give the model as a FactorGraph, or use kdsd_test."
        )
    if hasattr(model, "compile"):
        model = model.circuit()
    if not isinstance(model, Circuit):
        rule = "The model must be a Circuit, a FactorGraph, a Target, or a model of another library"
        found = f"Got {type(model).__name__}; mmd_two_sample_test compares two sets of samples"
        raise DataError(f"{rule}. {found}.")
    model.require_single_root(what)
    require_normalized(model, what)
    return MeanEmbedding(model.to("numpy"))


def is_small(target: Any) -> bool:
    """Whether this is a function of so few states that it is evaluated at all of them."""
    states = isinstance(target, Target) and not target.is_real
    return states and prod(target.cardinalities) <= ENUMERATED


def states_of(target: Target) -> tuple[Any, Any]:
    """All states of a function, one per row, and their probabilities.

    Examples
    --------
    >>> states, chances = states_of(Target(lambda X: np.log(1.0 + X[:, 0]), [2]))
    >>> states.tolist(), chances.round(6).tolist()
    ([[0], [1]], [0.333333, 0.666667])
    """
    states = every_state(target.cardinalities)
    chances = arrays.from_logs(target.log_prob(states))
    if not chances.any():
        raise DataError(f"The target is zero at all of its {len(states)} states.")
    return states, chances / chances.sum()
