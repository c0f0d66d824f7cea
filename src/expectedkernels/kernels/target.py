"""Targets of inference, and functions of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels import checks
from expectedkernels.arrays import Array, RowsLike, VariableLike, spans, to_numpy
from expectedkernels.checks import (
    CircuitError,
    DataError,
    PropertyError,
    check_parameter,
    is_int,
    public,
)
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.data.evidence import as_points
from expectedkernels.data.schema import Schema
from expectedkernels.data.tables import Label
from expectedkernels.models.factor_graph import FactorGraph, converted


def values_of(
    f: Callable[[Any], Any],
    rows: Any,
    what: str,
    vectorized: bool,
    *,
    option: str = "vectorized=False",
    several: bool = False,
) -> Any:
    """What a function says of rows, one number for each.

    Parameters
    ----------
    f : callable
        Of an array of rows, or of one row.
    rows : array of shape (n, variables)
    what : str
        How errors call the function.
    vectorized : bool
        Whether the function takes all rows at once.
    option : str
        What makes functions of one row welcome, for errors.
    several : bool
        Whether it may also say one row of numbers for each.

    Examples
    --------
    >>> values_of(lambda x: x[0] * x[1], np.array([[2, 3], [4, 5]]), "f", vectorized=False)
    array([ 6., 20.])
    """
    if not vectorized:
        found = [_floats(f(row.copy()), what) for row in rows]
        shapes = sorted({values.shape for values in found})
        if len(shapes) > 1 or not all(_is_one(values, several) for values in found):
            rule = ", or a row of numbers that is always as long," if several else ""
            raise DataError(
                f"{what} with vectorized=False must give one number{rule} for one row. Got shape "
                f"{', '.join(map(str, shapes))}."
            )
        return np.stack(found) if several else np.concatenate([v.reshape(-1) for v in found])
    # a function of one row would give as many values as there are columns: let it be seen
    asked = np.concatenate([rows, rows[-1:]]) if len(rows) == rows.shape[1] else rows.copy()
    cause = None
    try:
        values = _floats(f(asked), what)
        if values.ndim in (1, 1 + several) and len(values) == len(asked):
            return values[: len(rows)]
        problem = f"Got shape {values.shape} for {len(asked)} rows."
    except Exception as error:
        if not _takes_one_row(f, rows[0], several):
            raise
        cause, problem = error, f"It failed with {type(error).__name__}: {error}."
    advice = (
        " It seems to take one row at a time: write it for the columns of an array (X[:, 0] in "
        f"place of x[0]), or give {option}, which calls it row by row."
    )
    raise DataError(
        f"{what} must give one number{' (or one row of numbers)' if several else ''} for each row "
        f"of an array of states. {problem}{advice if _takes_one_row(f, rows[0], several) else ''}"
    ) from cause


def _is_one(values: Any, several: bool) -> bool:
    """Whether numbers can be those of a single row."""
    return bool(values.ndim < 2 if several else values.size == 1)


def _takes_one_row(f: Callable[[Any], Any], row: Any, several: bool) -> bool:
    try:
        return _is_one(_floats(f(row.copy()), ""), several)
    except Exception:  # whatever it is, the function does not take a row
        return False


def _floats(values: Any, what: str) -> Any:
    """What a function returned as an array of floats, moved to the CPU."""
    try:
        found = np.asarray(to_numpy(values))
        if found.dtype.kind != "c":
            return found.astype(np.float64)
        problem = "they are complex"
    except (TypeError, ValueError) as error:
        problem = str(error)
    raise DataError(f"{what} must give real numbers: {problem}.")


ASKED_BYTES = 2**26
"""How much memory the rows of one call of the function take at most."""

KEY_BYTES = 2**27
"""How much memory the states around a batch of points take at most, before their evaluation."""

WORD = 2**62
"""How many joint states of variables one number tells apart."""

LOG_PROB = "The 'log_prob' of a Target"
OPTION, SCORE = "Target(..., vectorized=False)", "Target(..., score=...)"


class HasSiteLogs(Protocol):
    """What Stein kernels need of a distribution: circuits, factor graphs, functions have it."""

    @property
    def cardinalities(self) -> Any:
        """The number of states of every variable."""

    def site_logs(self, X: Any, variable: int) -> Any:
        """Logs at points with one variable set to each state in turn, up to a constant per row."""


def refuse_functions(*distributions: Any) -> None:
    """Raise if one of them is a `Target`: exact expectations are sums over all states."""
    if any(isinstance(x, Target) for x in distributions):
        raise PropertyError(
            "An exact expectation is a sum over all states, and a Target is a function, which "
            "cannot be summed over. Give the model as a FactorGraph, or points: gibbs(target, "
            "1000) samples it, and kdsd compares points with it."
        )


def as_target(given: Any) -> Any:
    """Networks of other libraries and graphs of units as ours, everything else as it is.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> as_target(ek.Categorical(0, [0.2, 0.8]))
    <Circuit of 1 variables: 1 units, 0 edges>
    """
    found = converted(given)
    return Circuit.from_units(found) if isinstance(found, Unit) else found


@public
class Target:
    r"""A distribution that is a function: its log-probability, or log-density, up to a constant.

    Parameters
    ----------
    log_prob : callable
        From an int array of states, shape (n, variables), to one number for each row; -inf for
        what is impossible. Over the reals, from a tensor of torch in double precision (an array, if
        there is a `score`) to the log-density at each row, finite everywhere.
    cardinalities : sequence of int, optional
        The number of states of every variable: the states of variable v are
        0, ..., ``cardinalities[v] - 1``. Either this or `n_variables` is needed.
    names : sequence of str, optional
        One name per variable.
    states : sequence of sequences of labels, optional
        The labels of the states of every variable.
    vectorized : bool
        False for a function of a single row, which is then called row by row.
    n_variables : int, optional
        The number of real variables, for a density over the reals: a target of `kdsd`,
        `kdsd_test`, `stein_thin` and `bbis`.
    score : callable, optional
        The gradient of a log-density: from an array of shape (n, variables) to one of the same
        shape. Default: by automatic differentiation of `log_prob`, which needs torch.

    Attributes
    ----------
    cardinalities : tuple of int, or of None for real variables
        The number of states of every variable.
    names : tuple of str, or None
        The names of the variables.
    states : tuple of tuples of labels, or None
        The labels of the states.

    Raises
    ------
    CircuitError
        If `log_prob` is a target already, or not a function; or if there are both `cardinalities`
        and `n_variables`, or a `score` beside `cardinalities`.

    Notes
    -----
    Stein operators and Gibbs updates look at all states that differ from a sample in one variable,
    :math:`n \sum_v (K_v - 1)` for n samples. They are put to the function together, none of
    them twice, in as few calls as memory allows.

    Variables can be marginalised exactly only where a model has a structure that is known:
    collapsed samples, evidence, and discrepancies between models need a `FactorGraph` or a
    `Circuit`.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> target = ek.Target(lambda X: np.log(1 + X[:, 0]) + 2.0 * (X[:, 0] == X[:, 1]), [2, 2])
    >>> target
    <Target: a function of 2 variables>
    >>> samples = ek.bbis(target, [[0, 0], [0, 1], [1, 0], [1, 1]], weights="raw")
    >>> [round(float(table[1]), 6) for table in samples.marginals()]
    [0.666667, 0.626932]
    >>> normal = ek.Target(lambda X: -0.5 * (X**2).sum(axis=1), n_variables=2, score=lambda X: -X)
    >>> normal.score([[1.0, 2.0]]).tolist()
    [[-1.0, -2.0]]
    """

    cardinalities: tuple[Any, ...]
    schema: Schema

    def __init__(
        self,
        log_prob: Callable[[Array], ArrayLike],
        cardinalities: Sequence[int] | None = None,
        names: Sequence[str] | None = None,
        states: Sequence[Sequence[Label]] | None = None,
        *,
        vectorized: bool = True,
        n_variables: int | None = None,
        score: Callable[[Array], ArrayLike] | None = None,
    ):
        if hasattr(log_prob, "site_logs"):
            raise CircuitError(
                f"A {type(log_prob).__name__} is a target already: give it as it is, without a "
                "Target around it."
            )
        if not callable(log_prob):
            raise CircuitError(
                "The 'log_prob' of a Target must be a function of an array of states, one per row. "
                f"Got {type(log_prob).__name__} instead."
            )
        good, wanted = score is None or callable(score), "a function of an array of points"
        check_parameter(good, "Target", "score", score, wanted, CircuitError)
        self._function, self.vectorized, self._score = log_prob, bool(vectorized), score
        cards: tuple[Any, ...] = tuple(cardinalities) if np.iterable(cardinalities) else ()
        if n_variables is not None:
            cards = (None,) * checks.check_count("Target", "n_variables", n_variables, 1)
        else:
            good = len(cards) > 0 and all(is_int(n) and n >= 1 for n in cards)
            wanted = "a sequence of ints in [1, inf), one per variable (or give n_variables)"
            check_parameter(good, "Target", "cardinalities", cardinalities, wanted, CircuitError)
        if (score if n_variables is None else cardinalities) is not None:
            raise CircuitError(
                "A Target is over states, with 'cardinalities', or over the reals, with "
                "'n_variables' and maybe a 'score'. Got both."
            )
        self.schema = Schema(cards, names, states)  # type: ignore[arg-type]
        self.cardinalities = self.schema.cardinalities

    @cached_property
    def _weights(self) -> Any:
        """What states add to a few words that are equal for equal rows only: multiples of these."""
        places, word, size = [], 0, 1
        for n in self.cardinalities:
            if size * n > WORD:
                word, size = word + 1, 1
            places.append((word, size))
            size *= n
        words, strides = zip(*places, strict=True)
        weights = np.zeros((len(words), word + 1), dtype=np.int64)
        weights[np.arange(len(words)), words] = strides
        return weights

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the variables, None if they have none."""
        return self.schema.names

    @property
    def states(self) -> tuple[tuple[Label, ...] | None, ...] | None:
        """The labels of the states of every variable, None if they have none."""
        return self.schema.states

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return len(self.cardinalities)

    @property
    def is_real(self) -> bool:
        """Whether this is a density over the reals."""
        return self.cardinalities[0] is None

    def variable(self, key: VariableLike) -> int:
        """The number of a variable given by its number or its name.

        Parameters
        ----------
        key : int or str
            The number or the name.

        Returns
        -------
        int

        Examples
        --------
        >>> Target(lambda X: 0.0 * X[:, 0], [2, 2], names=["rain", "wet"]).variable("wet")
        1
        """
        return self.schema.variable(key)

    def log_prob(self, X: RowsLike) -> Array:
        """The logs of probabilities at complete points, shape (n,), up to a constant.

        Parameters
        ----------
        X : array of shape (n, variables)
            Complete points.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> Target(lambda X: -1.0 * X.sum(axis=1), [2, 3]).log_prob([[0, 0], [1, 2]]).tolist()
        [0.0, -3.0]
        """
        if self.is_real:
            return self.log_density(X)[0]
        return self._values(self._points(X) @ self._weights)

    def score(self, X: RowsLike) -> Array:
        """The gradients of the log-density over the reals, shape (n, variables).

        Parameters
        ----------
        X : array of shape (n, variables)
            Complete points.

        Returns
        -------
        array of shape (n, variables)

        Examples
        --------
        >>> Target(lambda X: -0.5 * (X**2).sum(1), n_variables=1).score([[2.0]]).tolist()
        [[-2.0]]
        """
        return self.log_density(X)[1]

    def log_density(self, X: RowsLike, *, strict: bool = True) -> tuple[Array, Array]:
        """The log-density over the reals at points, and its gradients: finite, if strict."""
        if not self.is_real:
            raise PropertyError("Gradients are those of a density. This target is over states.")
        points = as_points(X, self.schema, "Points of a target")
        logs, scores = self._differentiated(points) if self._score is None else self._call(points)
        for found, what in ((logs[:, None], "log_prob"), (scores, "score")):
            bad = ~np.isfinite(found).all(axis=1)
            if strict and bad.any():
                row = int(np.argmax(bad))
                value = found[row][~np.isfinite(found[row])][0]
                rule = "densities over the reals must be positive everywhere"
                place = f"at row {{row}}, {points[row].tolist()}"
                raise DataError(f"{what} is {value} {place}; {rule}.", row=row)
        return logs, scores

    def _call(self, points: Any) -> tuple[Any, Any]:
        """The log-density and its gradients by the functions of the user."""
        what, ask = "The 'score' of a Target", partial(values_of, option=OPTION)
        logs = ask(self._function, points, LOG_PROB, self.vectorized)
        scores = ask(self._score, points, what, self.vectorized, several=True)  # type: ignore[arg-type]
        if scores.shape != points.shape:
            raise DataError(f"{what} has shape {scores.shape} for points of shape {points.shape}.")
        return logs, scores

    def _differentiated(self, points: Any) -> tuple[Any, Any]:
        """The log-density and its gradients, by automatic differentiation."""
        torch = checks.imported("torch", "torch", instead=f", or give a score: {SCORE}")
        x = torch.tensor(points, dtype=torch.float64, requires_grad=True)
        try:
            with torch.enable_grad():
                f = self._function
                logs: Any = f(x) if self.vectorized else torch.stack([f(row) for row in x])
                [scores] = torch.autograd.grad(logs.sum(), x)
        except Exception as error:
            raise DataError(
                f"{LOG_PROB} over the reals takes a tensor of torch, so that it is differentiated. "
                f"It failed with {type(error).__name__}: {error}. Or give a score: {SCORE}."
            ) from error
        if logs.shape != x.shape[:1]:
            what = f"{LOG_PROB} must give one number for each row"
            raise DataError(f"{what}. Got shape {tuple(logs.shape)} for {len(x)} rows.")
        return to_numpy(logs.detach()), to_numpy(scores)

    def log_score(self, X: RowsLike) -> Array:
        """The same as `log_prob`, under the name that it has for a `FactorGraph`.

        Parameters
        ----------
        X : array of shape (n, variables)
            Complete points.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> Target(lambda X: -1.0 * X.sum(axis=1), [2, 3]).log_score([[1, 2]]).tolist()
        [-3.0]
        """
        return self.log_prob(X)

    def site_logs(self, X: RowsLike, variable: int | str) -> Array:
        """The logs at points with one variable set to each of its states in turn.

        Parameters
        ----------
        X : array of shape (n, variables)
            Complete points; their own values of the variable do not matter.
        variable : int or str
            The number or the name of the variable.

        Returns
        -------
        array of shape (n, cardinality)

        Examples
        --------
        >>> Target(lambda X: -1.0 * X.sum(axis=1), [2, 3]).site_logs([[1, 2]], 1).tolist()
        [[-1.0, -2.0, -3.0]]
        """
        return self.all_site_logs(X, [self.variable(variable)])[0]

    def all_site_logs(self, X: RowsLike, variables: Sequence[int] | None = None) -> list[Array]:
        """What `site_logs` gives for every variable (or some), asked together, no state twice.

        Parameters
        ----------
        X : array of shape (n, variables)
            Complete points.
        variables : sequence of int, optional
            Which variables. Default: all.

        Returns
        -------
        list of arrays of shape (n, cardinality)

        Examples
        --------
        >>> target = Target(lambda X: -1.0 * X.sum(axis=1), [2, 3])
        >>> [logs.tolist() for logs in target.all_site_logs([[1, 2]])]
        [[[-2.0, -3.0]], [[-1.0, -2.0, -3.0]]]
        """
        points = self._points(X)
        chosen = range(self.n_variables) if variables is None else variables
        cards = [self.cardinalities[v] for v in chosen]
        column = np.repeat(np.asarray(chosen, dtype=np.intp), cards)
        states = np.concatenate([np.zeros(0, dtype=np.intp), *map(np.arange, cards)])
        values = np.zeros((len(points), len(column)))
        size = 8 * self._weights.shape[1] * max(1, len(column))
        for some in spans(len(points), max(1, KEY_BYTES // size)):
            change = states - points[some][:, column]
            moves = change[..., None] * self._weights[column]
            keys = (points[some] @ self._weights)[:, None] + moves
            values[some] = self._values(keys.reshape(-1, keys.shape[2])).reshape(change.shape)
        return [values[:, end - n : end] for end, n in zip(np.cumsum(cards), cards, strict=True)]

    def _points(self, X: Any) -> Any:
        if self.is_real:
            what = "Variables over the reals have no states to change"
            raise PropertyError(f"{what}. Their targets are for kdsd, kdsd_test, stein_thin, bbis.")
        return as_points(X, self.schema, "Points of a target").astype(np.intp)

    def _values(self, keys: Any) -> Any:
        """The logs of rows given by keys, (n, words), each distinct row asked once."""
        n_words = keys.shape[1]
        distinct, place = np.unique(keys, axis=0 if n_words > 1 else None, return_inverse=True)
        distinct = distinct.reshape(-1, n_words)
        words, strides = self._weights.argmax(axis=1), self._weights.max(axis=1)
        logs = np.zeros(len(distinct))
        for some in spans(len(distinct), max(1, ASKED_BYTES // (8 * self.n_variables))):
            rows = distinct[some][:, words] // strides % np.asarray(self.cardinalities)
            logs[some] = values_of(self._function, rows, LOG_PROB, self.vectorized, option=OPTION)
            if not (logs[some] < np.inf).all():  # -inf is no mistake, NaN and inf are
                row = int(np.argmin(logs[some] < np.inf))
                raise DataError(
                    f"{LOG_PROB} must be a number, or -inf for what is impossible. Got "
                    f"{logs[some][row]} at the state {rows[row].tolist()}."
                )
        return logs[place.reshape(-1)]

    def __repr__(self) -> str:
        return f"<Target: a function of {self.n_variables} variables>"


TargetLike = Circuit | FactorGraph | Unit | Target | HasSiteLogs
"""What samples can stand for; models of other libraries are converted to one of these."""
