"""Conditionals of a model given some of its variables, all on one circuit compiled once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import Array, RowsLike
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import as_points
from expectedkernels.compilation.factor import Factor
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import CircuitError, DataError
from expectedkernels.vtree import Vtree


class CollapsedModel:
    r"""The conditionals p(x_c | x_s) of a model for one set c of collapsed variables.

    A factor with a single collapsed variable only re-weights the states of that variable once the
    sampled ones are known, and a factor with none is a constant:

    .. math:: p(x_c, x_s) \propto a(x_s)\, G(x_c, x_s) \prod_{j \in c} u_j(x_j; x_s)

    where G multiplies the factors with two or more collapsed variables. Its circuit is compiled
    once, for all values of the sampled variables; rows of values become rows of evidence
    on it, so that any number of conditionals costs one batched sweep.

    Parameters
    ----------
    model : FactorGraph
    collapsed : int, str, or iterable of int or str
        The variables (numbers or names) to sum over; the others are sampled.
    vtree : Vtree, optional
        Over all variables. Default: see `shared`.
    shared : bool
        Whether the default vtree is that of the model, so that circuits with different collapsed
        sets are compatible. Otherwise it is made for this set alone, which allows larger sets.
    max_bytes : int
        Models that need more memory than about this are refused.

    Attributes
    ----------
    model : FactorGraph
    collapsed, sampled : tuple of int
    relevant : tuple of int
        The sampled variables that share a factor with a collapsed one. The conditional depends on
        no other.
    circuit : Circuit
        The circuit of G over all variables, normalised.
    log_z : float
        The log of its partition function.

    Raises
    ------
    CircuitError
        If the model is not a FactorGraph.

    Notes
    -----
    In pairwise models G holds collapsed variables only. A sampled variable that shares a factor
    with two or more collapsed ones takes part in the compilation; where this is too expensive,
    `FactorGraph.condition` plugs in values first and is compiled once for each of them.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> from expectedkernels.compilation.datasets import ising_grid
    >>> grid = ising_grid(3, 3, rng=0)
    >>> model = CollapsedModel(grid, [1, 4, 7])
    >>> X = np.zeros((2, 9))
    >>> X[1, 0] = 1.0
    >>> weights, log_constants = model.evidence(X)
    >>> gram = ek.expected_kernel(
    ...     model.circuit, model.circuit, ek.ExpHamming(), evidence_p=weights, evidence_q=weights
    ... )
    >>> gram.shape
    (2, 2)
    """

    def __init__(
        self,
        model: FactorGraph,
        collapsed: int | str | Iterable[int | str],
        vtree: Vtree | None = None,
        *,
        shared: bool = True,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ):
        if not isinstance(model, FactorGraph):
            raise CircuitError(
                "The 'model' parameter of CollapsedModel must be a FactorGraph. "
                f"Got {type(model).__name__} instead."
            )
        if isinstance(collapsed, str) or not isinstance(collapsed, Iterable):
            collapsed = [collapsed]  # a name is one variable, and not its letters
        chosen = {model.variable(key) for key in collapsed}
        self.model = model
        self.collapsed = tuple(sorted(chosen))
        self.sampled = tuple(v for v in range(model.n_variables) if v not in chosen)
        inside = [sum(v in chosen for v in factor.scope) for factor in model.factors]
        pairs = list(zip(model.factors, inside, strict=True))
        self._loose = [factor for factor, n in pairs if n <= 1]
        core = FactorGraph(model.cardinalities, [factor for factor, n in pairs if n > 1])
        touched = {v for factor, n in pairs if n for v in factor.scope}
        self.relevant = tuple(v for v in self.sampled if v in touched)
        self.circuit: Circuit
        self.log_z: float
        if vtree is None and shared:
            vtree = model.vtree
        self.circuit, self.log_z = core.compile(vtree, max_bytes=max_bytes)

    def evidence(self, X: RowsLike) -> tuple[list[Array], Array]:
        """Rows of evidence on the circuit that make it the conditionals, and log-constants.

        Parameters
        ----------
        X : array of shape (n, variables)
            Values of the sampled variables; the columns of collapsed ones are not looked at, and
            may be NaN.

        Returns
        -------
        weights : list of arrays of shape (n, cardinality), one per variable
            As `expected_kernel` and `Circuit.marginals` take them.
        log_constants : array of shape (n,)
            What the weights leave out: the model at (x_c, x_s) is the circuit times
            the weights times ``exp(log_z + log_constants)``.

        Examples
        --------
        >>> from expectedkernels.compilation.datasets import asia
        >>> model = CollapsedModel(asia(), ["either", "lung"])
        >>> weights, log_constants = model.evidence(np.ones((3, 8)))
        >>> [table.shape for table in weights] == [(3, 2)] * 8
        True
        """
        points = self._points(X)
        n = len(points)
        constants = np.zeros(n)
        logs = {v: np.zeros((n, self.model.cardinalities[v])) for v in self.collapsed}
        with np.errstate(divide="ignore"):
            for factor in self._loose:
                target = next((v for v in factor.scope if v in logs), None)
                values = np.log(_sliced(factor, points, target))
                if target is None:
                    constants += values
                else:
                    logs[target] += values
        weights: list[Any] = [None] * self.model.n_variables
        for v in self.sampled:
            weights[v] = np.eye(self.model.cardinalities[v])[points[:, v]]
        for v, table in logs.items():
            top = table.max(axis=1)
            constants += top
            weights[v] = np.exp(table - np.where(top > -np.inf, top, 0.0)[:, None])
        # also where no collapsed variable has a say, there is no conditional given the impossible
        for table in weights:
            table[constants == -np.inf] = 0.0
        return weights, constants

    def log_marginal(self, X: RowsLike) -> Array:
        """The log of the model summed over its collapsed variables, shape (n,), unnormalised.

        Parameters
        ----------
        X : array of shape (n, variables)
            As for `evidence`.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> from expectedkernels.compilation.datasets import asia
        >>> x = np.full((1, 8), np.nan)
        >>> x[0, 2] = 0  # a smoker
        >>> model = CollapsedModel(asia(), [0, 1, 3, 4, 5, 6, 7])
        >>> np.exp(model.log_marginal(x)).round(12).tolist()
        [0.5]
        """
        weights, constants = self.evidence(X)
        with np.errstate(invalid="ignore"):
            return self.circuit.log_likelihood(weights) + self.log_z + constants

    def marginals(self, X: RowsLike) -> list[Array]:
        """The probabilities of the states of every variable given each row of sampled values.

        Parameters
        ----------
        X : array of shape (n, variables)
            As for `evidence`.

        Returns
        -------
        list of arrays of shape (n, cardinality), one per variable
            Sampled variables have their value for sure.

        Examples
        --------
        >>> from expectedkernels.compilation.datasets import asia
        >>> model = CollapsedModel(asia(), ["lung", "either"])
        >>> model.marginals(np.ones((1, 8)))[3].shape
        (1, 2)
        """
        weights, _ = self.evidence(X)
        return self.circuit.marginals(weights)

    def conditional(self, x: ArrayLike) -> Circuit:
        """The normalised circuit of the conditional given one row of sampled values.

        Sampled variables become point masses, so it is compatible with all other conditionals.

        Parameters
        ----------
        x : array of shape (variables,)
            As a row of X in `evidence`.

        Returns
        -------
        Circuit

        Raises
        ------
        DataError
            If there are several rows.

        Examples
        --------
        >>> from expectedkernels.compilation.datasets import asia
        >>> model = CollapsedModel(asia(), ["lung", "either"])
        >>> model.conditional(np.ones(8)).marginals()[0].tolist()
        [0.0, 1.0]
        """
        row = np.asarray(x, dtype=np.float64)
        if row.ndim != 1:
            raise DataError(
                f"One conditional needs one row of values. Got an array of shape {row.shape}; "
                "batches are made by evidence(X)."
            )
        weights, _ = self.evidence(row)
        return self.circuit.condition(weights)

    def _points(self, X: Any) -> Any:
        """The rows as integers, zero at collapsed variables."""
        rows = np.array(X, dtype=np.float64, ndmin=2)
        if rows.ndim == 2 and rows.shape[1] == self.model.n_variables:
            rows[:, list(self.collapsed)] = 0.0
        return as_points(rows, self.model.cardinalities, "Values of sampled variables").astype(
            np.intp
        )

    def __repr__(self) -> str:
        return (
            f"<CollapsedModel: {len(self.collapsed)} of {self.model.n_variables} variables "
            f"collapsed, {self.circuit.n_units} units>"
        )


def _sliced(factor: Factor, points: Any, target: int | None) -> Any:
    """The entries of a factor at rows of values, (n,), or (n, cardinality) along one variable."""
    table = factor.table
    others = [v for v in factor.scope if v != target]
    if target is not None:
        table = np.moveaxis(table, factor.scope.index(target), -1)
    if not others:
        return np.broadcast_to(table, (len(points), *table.shape))
    return table[tuple(points[:, v] for v in others)]
