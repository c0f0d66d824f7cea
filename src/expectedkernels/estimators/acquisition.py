"""Which value to get next: how much of the variance of a prediction a column would explain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import Array, RowsLike, spans
from expectedkernels.checks import DataError, check_real
from expectedkernels.data.tables import column_number, is_missing
from expectedkernels.estimators.base import KernelMachine
from expectedkernels.estimators.circuit_density import CircuitDensity, Nodes
from expectedkernels.estimators.encoding import Encoding
from expectedkernels.estimators.kernel_expansion import distinct, expect, read_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


CHUNK_ROWS = 256
"""For how many rows the nodes of all columns are asked about at once."""
CHUNK_ENTRIES = 2**22
"""Rows have about ten nodes for every column: so many numbers, ten times, at once."""

CostsLike = Sequence[float] | Array | Mapping[str, float] | Mapping[int, float]
"""A cost for every column, or for some of them by name or number; the others cost 1."""


def acquisition_gain(model: KernelMachine, X: RowsLike, costs: CostsLike | None = None) -> Array:
    r"""How much variance of the prediction every missing value would explain.

    .. math:: A_j = Var(E[f \mid x_o, x_j] \mid x_o)
        = Var(f \mid x_o) - E[Var(f \mid x_o, x_j) \mid x_o]

    Parameters
    ----------
    model : fitted estimator of this library
    X : array or data frame of shape (rows, columns)
        NaN is missing.
    costs : sequence of one cost per column, or mapping from columns to costs, optional
        What gains are divided by: positive numbers. Columns that a mapping does not name cost 1.

    Returns
    -------
    array of shape (rows, columns)
        NaN where a value is observed. The columns of one of the estimator's `groups` become known
        together: each has the gain of all, divided by the cost of the first of them. With several
        outputs (targets, or pairs of classes) gains are summed over them.

    Raises
    ------
    DataError
        If the model is no estimator of this library, or costs do not fit the columns.
    EvidenceError
        If a row has probability zero under the density.

    Notes
    -----
    Exact for columns of states (categories, codes, columns of few distinct values) of circuits.
    Bins have four nodes of Gauss and Legendre, mostly within a tenth of a percent; normal
    distributions have seven of Gauss and Hermite, within a few percent. Cost: one expected
    prediction for every node of every missing value.

    Normal densities, and so the default, take the bits of a category for numbers. Its gain is the
    variance now, as ``predict(return_std=True)`` has it, less the mean of the variances with each
    category filled in, weighted by the means of its bits: one variance for every category. As
    numbers can be between categories, it can be a little below zero where a category tells
    nothing. (A model with fit_missing="expected" has no such variances: there it is the variance
    of predictions over categories.)

    Of an estimator with a `mask_kernel`, f is the function of the row's own mask: a value that is
    asked for was missing all the same.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = ek.ExpectedKernelRidge(alpha=0.1).fit(X, 2 * X[:, 0] + X[:, 1])
    >>> gain = ek.acquisition_gain(model, [[np.nan, np.nan, 0.5]])
    >>> bool(gain[0, 0] > gain[0, 1] > 0), bool(np.isnan(gain[0, 2]))
    (True, True)
    """
    _require_machine("acquisition_gain", model)
    Z = model._read(X)
    divisor = _costs("acquisition_gain", model.columns_, costs)
    return _by_column(model.columns_, _gains(model, Z, Z) / divisor, Z)


@dataclass(frozen=True, eq=False, repr=False)
class Acquisition:
    """What was asked about one row, and what became of its prediction.

    Attributes
    ----------
    asked : list
        The columns, in the order in which they were asked about; a list of names for a group.
    answers : list
    predictions : array of shape (questions + 1,)
        The expected prediction before the first question, and after each; with one more axis if
        there are several outputs.
    gains : array of shape (questions, columns)
        What `acquisition_gain` was before each question.
    costs : array of shape (questions,)
    columns : list
        The names of all columns.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> model = ek.ExpectedKernelRidge(alpha=0.01).fit(X, [0.0, 1.0, 3.0, 4.0])
    >>> ek.acquire(model, [np.nan, np.nan], lambda column: 1.0, budget=1)
    <Acquisition: 1 question at cost 1: 0; prediction 2.00 -> 3.44>
    """

    asked: list[object]
    answers: list[object]
    predictions: Array
    gains: Array
    costs: Array
    columns: list[object]

    def __repr__(self) -> str:
        n = len(self.asked)
        ends = [
            ", ".join(f"{x:.2f}" for x in np.atleast_1d(self.predictions[i]))
            for i in range(-len(self.predictions), 0, max(1, n))
        ]
        names = ", ".join(map(str, self.asked)) or "nothing"
        return (
            f"<Acquisition: {n} question{'' if n == 1 else 's'} at cost "
            f"{float(self.costs.sum()):g}: {names}; prediction {' -> '.join(ends)}>"
        )

    def plot(self, question: int = 0) -> Axes:
        """The axes of a bar for the gain of every column before a question. Needs matplotlib.

        Parameters
        ----------
        question : int
            The number of the question, from 0.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        DataError
            If there was no such question.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
        >>> model = ek.ExpectedKernelRidge(alpha=0.01).fit(X, [0.0, 1.0, 3.0, 4.0])
        >>> history = ek.acquire(model, [np.nan, np.nan], lambda column: 1.0, budget=1)
        >>> history.plot().get_xlabel()
        'variance explained, per cost'
        """
        from expectedkernels.plotting.results import plot_importances

        if not -len(self.gains) <= question < len(self.gains):
            raise DataError(f"There were {len(self.gains)} questions. Got number {question}.")
        gains = self.gains[question]
        shown = np.flatnonzero(~np.isnan(gains))
        names = [str(self.columns[i]) for i in shown]
        return plot_importances(names, gains[shown], "variance explained, per cost")


def acquire(
    model: KernelMachine,
    row: RowsLike | Mapping[str, object],
    ask: Callable[[object], object],
    budget: float,
    costs: CostsLike | None = None,
) -> Acquisition:
    """The history of asking, one by one, for the values that explain most of a prediction.

    Parameters
    ----------
    model : fitted estimator of this library
    row : sequence of entries, table of one row, or mapping from columns to entries
        What is known from the start; NaN, and columns that a mapping does not name, are missing.
    ask : function
        From the name of a column (its number, if columns have no names) to its value; from a list
        of names to a list of values, for one of the estimator's `groups`. A missing value (None or
        NaN) says that it cannot be had: it is paid for, and not asked for again.
    budget : float
        What all questions together may cost.
    costs : sequence of one cost per column, or mapping from columns to costs, optional
        Default: every question costs 1. Gains are divided by costs.

    Returns
    -------
    Acquisition

    Raises
    ------
    DataError
        If an argument does not fit the model, or an answer its column.

    Notes
    -----
    Stops when nothing that is missing can be paid for, or would change the prediction. Of an
    estimator with a `mask_kernel`, the mask stays that of the row at the start.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = ek.ExpectedKernelRidge(alpha=0.1).fit(X, 2 * X[:, 0] + X[:, 1])
    >>> history = ek.acquire(model, [np.nan] * 3, lambda column: X[7, column], budget=2)
    >>> history.asked
    [0, 1]
    """
    _require_machine("acquire", model)
    if not callable(ask):
        raise DataError(f"The 'ask' parameter of acquire must be a function. Got {ask!r} instead.")
    left = check_real("acquire", "budget", budget, 0.0, inf, "[]", DataError)
    columns, numbers = model.columns_, _start(model, row)
    divisor = _costs("acquire", columns, costs)
    options = columns.groups_or_columns()
    start = Z = columns.standardise(numbers)
    available = np.ones(len(options), dtype=np.bool_)
    asked, answers, gains, paid = [], [], [], []
    predictions = [model._answers(Z, start)[0]]
    while True:
        gain = _gains(model, Z, start) / divisor
        possible = np.where(available & (divisor <= left), gain[0], np.nan)
        if not (possible > 0).any():
            break
        best = int(np.nanargmax(possible))
        names = [columns.names[i] for i in options[best]]
        asked.append(names[0] if len(names) == 1 else names)
        answers.append(ask(asked[-1]))
        gains.append(_by_column(columns, gain, Z)[0])
        paid.append(divisor[best])
        left -= divisor[best]
        numbers = _with_answer(model, numbers, options[best], answers[-1])
        Z, available[best] = columns.standardise(numbers), False
        predictions.append(model._answers(Z, start)[0])
    table = np.array(gains).reshape(len(gains), columns.n_columns)
    return Acquisition(
        asked, answers, np.array(predictions), table, np.array(paid), list(columns.names)
    )


def _require_machine(function: str, model: Any) -> None:
    if not isinstance(model, KernelMachine):
        raise DataError(
            f"The 'model' parameter of {function} must be a fitted estimator of this library, "
            f"which knows the distribution of missing values. Got {type(model).__name__} instead."
        )


def _gains(model: KernelMachine, Z: Any, like: Any) -> Any:
    """The gains of what is known or missing as a whole, (rows, options); NaN where observed.

    The masks are those of the rows that they are like.
    """
    density = model.density_
    Z, incomplete, _ = read_rows(density, Z)
    gains = np.full((len(Z), len(density.variables)), np.nan)
    # of the bits of a category, which normal densities take for numbers
    embedded = model._machine.expansion.is_embedded
    has_variances = not (isinstance(density, CircuitDensity) or embedded)
    size = max(1, min(CHUNK_ROWS, CHUNK_ENTRIES // Z.shape[1] ** 2))
    for span in spans(len(incomplete), size):
        some = incomplete[span]
        every, filled = density.nodes(density.rows(Z[some])), []
        for variable, nodes in zip(density.variables, every, strict=True):
            rows = Z[some[nodes.rows]]
            rows[:, variable.columns] = nodes.values
            filled.append(rows)
        alike = like[np.concatenate([some[nodes.rows] for nodes in every])]
        answers = model._answers(np.concatenate(filled), alike).reshape(len(alike), -1)
        start = 0
        for i, (nodes, rows) in enumerate(zip(every, filled, strict=True)):
            stop = start + len(nodes.rows)
            at = np.unique(nodes.rows)
            if has_variances and len(density.variables[i].columns) > 1:
                found = _explained(model, Z[some[at]], like[some[at]], nodes, rows)
            else:
                found = _variances(nodes, answers[start:stop], len(some))[at]
            gains[some[at], i] = found
            start = stop
    return gains


def _explained(model: KernelMachine, Z: Any, like: Any, nodes: Nodes, filled: Any) -> Any:
    """The variances of rows less those that are expected once a category is known, (rows,)."""
    machine = replace(model._machine, prior=None, flat=False)
    row = np.unique(nodes.rows, return_inverse=True)[1]
    # parts of an average have the same categories
    first, number = distinct(np.column_stack([row, nodes.values]))
    rows, like = np.concatenate([Z, filled[first]]), np.concatenate([like, like[row[first]]])
    std = expect(machine, model.density_, rows, model._resources, True, like=like)[1]
    variance = (std**2).sum(axis=1)
    left = np.bincount(row, nodes.weights * variance[len(Z) :][number], minlength=len(Z))
    return variance[: len(Z)] - left


def _variances(nodes: Any, f: Any, n: int) -> Any:
    """The variances of values at nodes, in every row, summed over outputs."""
    total = np.zeros(n)
    for column in f.T:
        mean = np.bincount(nodes.rows, nodes.weights * column, minlength=n)
        away = nodes.weights * (column - mean[nodes.rows]) ** 2
        total += np.bincount(nodes.rows, away, minlength=n)
    return total


def _by_column(columns: Encoding, gains: Any, Z: Any) -> Any:
    """The gains of columns of the table; NaN where these are observed."""
    table = np.empty((len(Z), columns.n_columns))
    for i, group in enumerate(columns.groups_or_columns()):
        table[:, group] = gains[:, i : i + 1]
    known = np.stack([~np.isnan(Z[:, place]).any(axis=1) for place in columns.places], axis=1)
    return np.where(known, np.nan, table)


def _costs(function: str, columns: Encoding, costs: Any) -> Any:
    """The costs of what is known or missing as a whole."""
    n = columns.n_columns
    if costs is None:
        costs = {}
    if isinstance(costs, Mapping):
        found = np.ones(n)
        for name, cost in costs.items():
            place = column_number(name, columns.names, n, "costs")
            found[place] = check_real(function, "costs", cost, 0.0, inf, "()", DataError)
    else:
        found = np.asarray(costs, dtype=np.float64)
        if found.shape != (n,) or not ((found > 0) & np.isfinite(found)).all():
            raise DataError(
                f"The 'costs' parameter of {function} must have one positive number for every one "
                f"of {n} columns. Got {costs!r} instead."
            )
    return found[[group[0] for group in columns.groups_or_columns()]]


def _start(model: KernelMachine, row: Any) -> Any:
    """The columns of numbers of one row, (1, columns)."""
    if hasattr(row, "to_dict") and not hasattr(row, "columns"):  # a row of a data frame
        row = row.to_dict()
    if isinstance(row, Mapping):
        Z = np.full((1, sum(map(len, model.columns_.places))), np.nan)
        for name, entry in row.items():
            i = column_number(name, model.columns_.names, model.columns_.n_columns, "row")
            Z[0, model.columns_.places[i]] = model.columns_.encode_entry(i, entry)
        return model._completed(Z)
    Z = model._numbers([row] if np.ndim(row) == 1 else row)
    if len(Z) != 1:
        raise DataError(f"The 'row' parameter of acquire must be a single row. Got {len(Z)} rows.")
    return Z


def _with_answer(model: KernelMachine, Z: Any, group: list[int], answer: Any) -> Any:
    """A row with what was answered."""
    several = isinstance(answer, Sequence | np.ndarray) and not isinstance(answer, str)
    entries = list(answer) if len(group) > 1 and several else [answer]
    if is_missing(answer):
        entries = [answer] * len(group)
    if len(entries) != len(group):
        raise DataError(
            f"The answer of 'ask' for columns {[model.columns_.names[i] for i in group]} must be a "
            f"value for each. Got {answer!r} instead."
        )
    Z = Z.copy()
    for i, entry in zip(group, entries, strict=True):
        Z[0, model.columns_.places[i]] = model.columns_.encode_entry(i, entry)
    return model._completed(Z)
