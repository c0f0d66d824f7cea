"""Samples as distributions, their rows, and default kernels for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import Array, RowsLike
from expectedkernels.checks import DataError, preview, public
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.data import tables
from expectedkernels.data.evidence import check_rows, check_values, number_rows
from expectedkernels.data.schema import Schema, frame_schema, joint_columns
from expectedkernels.kernels.kernel import RBF, ExpHamming, Kernel
from expectedkernels.models.factor_graph import FactorGraph


def sample_rows(target: Any, samples: Any, *, least: int = 1, check: bool = True) -> Any:
    """Samples in any of their forms as rows of states, a new float array (n, variables).

    Parameters
    ----------
    target : anything with `cardinalities`, and maybe `names` and `states`
    samples : array, frame, xarray object, arviz InferenceData, WeightedSamples or Empirical
        Arrays have shape (n, variables) or (chains, n, variables). Labelled arrays have the
        dimensions ``chain`` and ``draw`` (or one of them) in any place, and one for the variables.
        Frames and datasets have one column per variable, found by name if the target has names,
        else by position; labels of states become their numbers. Chains are put below one another.
    least : int
        How many samples there must be.
    check : bool
        Whether entries must be states of the variables, or NaN.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> target = ek.FactorGraph([2, 2], [], names=["rain", "wet"], states=[["no", "yes"]] * 2)
    >>> import pandas as pd
    >>> sample_rows(target, pd.DataFrame({"wet": ["yes", "no"], "rain": ["no", "no"]})).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    schema = schema_of(target)
    if _is_weighted(samples):
        rows = np.array(samples.rows if hasattr(samples, "rows") else samples.X)
    elif tables.is_frame(table := sample_table(samples)):
        rows = schema.read_frame(table, "The frame of samples")
    else:
        rows = np.array(table)
    check_rows(rows, "Samples", width=schema.n_variables, least=least, unit="sample")
    if check:
        check_values(rows, schema, DataError, "Samples")
    return rows


def schema_of(target: Any) -> Schema:
    """The names and states of a target; of one that has none, its cardinalities."""
    result: Schema = getattr(target, "schema", None) or Schema(tuple(target.cardinalities))
    return result


def sample_weights(samples: Any) -> Any:
    """The weights that come with samples, None for samples without."""
    return samples.weights if _is_weighted(samples) else None


def counted_rows(samples: Any, n: int, log_weights: Any = None) -> Any:
    """The numbers of the samples that count, of n: those of weight zero do not.

    A sample has weight zero if the weights that come with it are zero, or log-weights are -inf.
    What stands in its row does not matter: it may be impossible, or incomplete.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> counted_rows(ek.Empirical([[0], [1], [1]], [0.5, 0.0, 0.5]), 3).tolist()
    [0, 2]
    """
    counts = np.ones(n, dtype=np.bool_)
    weights = sample_weights(samples)
    if weights is not None:
        counts &= np.asarray(weights) != 0
    if log_weights is not None:
        counts &= np.asarray(log_weights) > -np.inf
    if n and not counts.any():
        raise DataError(f"All {n} samples have weight zero, so that none of them counts.")
    return np.flatnonzero(counts)


def check_roles(call: str, target: Any, samples: Any) -> None:
    """Raise if samples and target are swapped, or a kernel is in the place of one of them.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> check_roles("bbis(target, samples)", [[0, 1]], ek.factorized([[0.5, 0.5]]))
    Traceback (most recent call last):
    expectedkernels.DataError: The target and the samples are swapped. The call is
    bbis(target, samples); got samples of type list as the target, and a Circuit as the samples.
    """
    for what, given in (("target", target), ("samples", samples)):
        if isinstance(given, Kernel):
            raise DataError(
                f"A kernel is in the place of the {what}. The call is {call}; got "
                f"{type(given).__name__} as the {what}."
            )
    if is_model(samples) and is_model(target):
        raise DataError(
            f"Samples of a model are needed, not the model itself. The call is {call}; got a "
            f"{type(samples).__name__} as the samples."
        )
    rows = _is_weighted(target) or hasattr(target, "__len__")
    if is_model(samples) and rows and not isinstance(target, str):
        raise DataError(
            f"The target and the samples are swapped. The call is {call}; got samples of type "
            f"{type(target).__name__} as the target, and a {type(samples).__name__} as the samples."
        )


def is_model(given: Any) -> bool:
    """Whether this is a distribution in the form of a model, and not samples of one."""
    return isinstance(given, Unit) or (
        hasattr(given, "cardinalities") and hasattr(given, "site_logs")
    )


def _is_weighted(samples: Any) -> bool:
    """Whether these are samples with weights: WeightedSamples or an Empirical distribution."""
    # frames show their columns as attributes, too
    if any(hasattr(type(samples), name) for name in ("columns", "dims")):
        return False
    return hasattr(samples, "weights") and (hasattr(samples, "rows") or hasattr(samples, "X"))


def sample_table(samples: Any) -> Any:
    """Samples in any of their forms as a data frame, or as an array whose chains are joined.

    Examples
    --------
    >>> sample_table(np.zeros((2, 5, 3))).shape
    (10, 3)
    """
    samples = tables.as_table(samples)
    if tables.is_frame(samples):
        return samples
    rows = tables.as_floats(samples)
    return rows.reshape(-1, rows.shape[2]) if rows.ndim == 3 else rows


@public
class Empirical:
    """Weighted points as a distribution.

    Parameters
    ----------
    X : array of shape (points, variables) or (chains, points, variables), or data frame
        The columns of a frame (or of labelled arrays and datasets of xarray and arviz) are matched
        with the variables of what it is compared with, by their names.
    weights : array of shape (points,), optional
        Used as they are. Default: equal and summing to one.

    Raises
    ------
    DataError
        If there are no points, or not as many finite weights as points.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> q = ek.Empirical([[0, 0], [1, 1]], [0.25, 0.75])
    >>> float(ek.expected_kernel(q, q, ek.Delta()))
    0.625
    """

    numbers: Array
    """The numbers of the points in the table that they come from."""

    def __init__(self, X: RowsLike, weights: ArrayLike | None = None):
        table = sample_table(X)
        self.frame = table if tables.is_frame(table) and len(table) else None
        self.schema = None if self.frame is None else shared_schema(table)
        if self.schema is not None:
            points = self.schema.read_frame(table)
        else:  # an empty frame has no entries that are labels or numbers
            points = np.zeros(table.shape) if tables.is_frame(table) else np.array(table)
        check_rows(points, "Points", least=1, unit="point")
        n = len(points)
        share = np.full(n, 1.0 / n) if weights is None else np.array(tables.as_floats(weights))
        if share.shape != (n,) or not np.isfinite(share).all():
            raise DataError(
                f"An empirical distribution of {n} points needs as many finite weights. "
                f"Got shape {share.shape}."
            )
        self.X, self.weights, self.numbers = points, share, np.arange(n)

    def on(self, schema: Schema) -> Empirical:
        """The distribution with points in the codes and the order of given variables."""
        if self.frame is None:
            return self
        result = Empirical(schema.read_frame(self.frame), self.weights)
        result.schema = schema
        return result

    def counted(self) -> Empirical:
        """The same distribution without the points of weight zero, whose values do not matter.

        Returns
        -------
        Empirical

        Examples
        --------
        >>> Empirical([[0.0], [float("nan")]], [1.0, 0.0]).counted().X.tolist()
        [[0.0]]
        """
        used = np.flatnonzero(self.weights)
        return self if len(used) in (0, len(self.X)) else self._some(used, self.weights[used])

    def _some(self, used: Any, weights: Any) -> Empirical:
        """Some of the points, with other weights."""
        result = copy(self)
        result.X, result.numbers = self.X[used], self.numbers[used]
        result.weights, result.frame = weights, None
        return result

    def merged(self) -> Empirical:
        """The same distribution with equal points put together.

        Returns
        -------
        Empirical

        Examples
        --------
        >>> Empirical([[0], [0], [1]]).merged().weights.round(3).tolist()
        [0.667, 0.333]
        """
        _, place, first = distinct_rows(self.X)
        return self._some(first, np.bincount(place, self.weights))

    def __repr__(self) -> str:
        return f"<Empirical distribution of {len(self.X)} points, {self.X.shape[1]} variables>"


DistributionLike = Circuit | FactorGraph | Unit | Empirical | RowsLike
"""What kernels are averaged over; models of other libraries are converted to one of these."""


def shared_schema(*frames: Any) -> Schema:
    """The names of the columns of data frames, and the states that they have together.

    Columns of numbers are taken as they are.
    """
    parts = [
        tables.Columns(tuple(tables.frame_columns(frame)), tables.column_names(frame))
        for frame in frames
    ]
    columns, most = joint_columns(parts, "A frame"), sum(map(len, parts)) + 2
    return frame_schema(columns, parts[0].names, max_states=most, numbers=True)


MOST_POINTS = 1000
"""More points than this are thinned evenly before distances are taken."""
MOST_STATES = 20
"""A column of an array with more distinct whole numbers holds numbers, and no states."""


def median_gamma(X: RowsLike) -> float:
    r"""The `gamma` of an `RBF` kernel by the median heuristic, :math:`\gamma = 1 / (2 m^2)`.

    Here m is the median of the (positive) Euclidean distances between rows. At the median distance
    the kernel is exp(-1/2).

    Parameters
    ----------
    X : array of shape (points, variables), or data frame of numbers
        Rows with missing values are left out. Of many rows, about 1000 are looked at.

    Returns
    -------
    float

    Raises
    ------
    DataError
        If there are no two different rows.

    Examples
    --------
    >>> median_gamma([[0.0], [1.0], [3.0]])
    0.125
    """
    return _rate(_median_distance(X))


def _median_distance(X: RowsLike) -> float:
    """The median of the positive distances between rows, of about 1000 rows at most."""
    from scipy.spatial.distance import pdist  # a fifth of the time to start up

    [table] = number_rows(X, what="Distances are between", error=DataError)
    points = tables.as_floats(table)
    check_rows(points, "Points")
    points = points[~np.isnan(points).any(axis=1)]
    if np.isinf(points).any():
        column = int(np.argwhere(np.isinf(points))[0, 1])
        raise DataError(
            f"Distances are between finite numbers. Got infinite ones in column {column}; put NaN "
            "for what is not known, or leave such rows out."
        )
    if len(points) > MOST_POINTS:
        points = points[np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(np.intp)]
    # squares of numbers between 1/2 and 1 are in range, and powers of two change no digit
    power = int(np.frexp(np.abs(points).max(initial=0.0))[1])
    distances = pdist(np.ldexp(points, -power)) if len(points) > 1 else np.empty(0)
    distances = distances[distances > 0]
    if not len(distances):
        raise DataError(
            "The median heuristic needs at least two different rows without missing values. "
            f"Got {len(points)} rows{' that are all equal' if len(points) > 1 else ''}."
        )
    return float(np.ldexp(np.median(distances), power))


def _rate(distance: float) -> float:
    """The `gamma` of an `RBF` kernel that is exp(-1/2) at a distance."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        rate = float(np.float64(0.5) / np.float64(distance) ** 2)
    if not 0 < rate < np.inf:
        raise DataError(
            f"Values are about {distance:.3g} apart, and the square of that is no float. Rescale "
            "columns in the same way in all that is compared, as by their standard deviations."
        )
    return rate


def default_kernel(
    *distributions: Any, scale: float = 1.0, categorical_features: Any = None
) -> Kernel:
    """The kernel for variables of these circuits or points, if no other is given.

    Categorical variables (see `categorical_variables`): ``ExpHamming()``. Numbers: ``RBF`` with
    the `gamma` of the median heuristic on the points (see `median_gamma`), several columns in units
    of their standard deviations; if there are only circuits, the mean squared distance of two
    samples, which is known exactly, takes the place of the squared median. Both: the product, each
    over its own variables.

    Parameters
    ----------
    *distributions : Circuit, Empirical, or array of shape (points, variables)
    scale : float
        Factor of the default `gamma`.
    categorical_features
        As for `categorical_variables`.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> default_kernel(ek.factorized([[0.5, 0.5], [0.2, 0.8]]))
    ExpHamming(gamma=None)
    >>> default_kernel(np.array([[0.0], [1.5], [3.0]]))
    RBF(gamma=0.2222222222222222)
    """
    circuits, points = _circuits_and_points(distributions)
    real = ~categorical_variables(*distributions, categorical_features=categorical_features)
    if not real.any():
        return ExpHamming() if scale == 1.0 else ExpHamming(scale / len(real))
    rates = np.zeros(len(real))
    rates[real] = scale * _real_rates(circuits, points, np.flatnonzero(real))
    if real.all():
        return RBF(float(rates[0]) if len(rates) == 1 else rates)
    share = scale / max(1, int((~real).sum()))
    return RBF(rates) * ExpHamming(np.where(real, 0.0, share))


def categorical_variables(*distributions: Any, categorical_features: Any = None) -> Any:
    """Which variables of circuits or points are categorical, a bool each; others are numbers.

    Circuits say it themselves. In data frames the type of a column decides: text, categories and
    bools are categorical, numbers are not. In arrays, columns of whole numbers are categorical if
    these are few: at most 20 distinct ones, of which every one is there twice on average.

    Parameters
    ----------
    *distributions : Circuit, Empirical, or array of shape (points, variables)
    categorical_features : names, numbers or mask of columns, optional
        Those that are categorical, whatever they hold.

    Examples
    --------
    >>> categorical_variables(np.array([[0, 20_000, 0.5], [1, 40_000, 0.5]] * 2 + [[1, 7, 2]]))
    array([ True, False, False])
    """
    circuits, points = _circuits_and_points(distributions)
    schemas = [x.schema for x in distributions if getattr(x, "schema", None) is not None]
    n = schemas[0].n_variables if schemas else points[0].shape[1]
    codes = np.zeros(n, dtype=np.bool_)
    if schemas:
        codes[:] = [card is not None for card in schemas[0].cardinalities]
    if categorical_features is None:
        for column, values in enumerate(() if schemas else np.concatenate(points).T):
            values = values[~np.isnan(values)]  # few distinct whole numbers look like codes
            if (np.isfinite(values) & (values == np.floor(values))).all():
                codes[column] = len(np.unique(values)) <= min(MOST_STATES, max(2, len(values) / 2))
        return codes
    if circuits:
        raise DataError(
            "The 'categorical_features' parameter is for tables, and a circuit says itself which "
            "of its variables are discrete. Leave it out."
        )
    names = schemas[0].names if schemas else None
    chosen = tables.column_numbers(categorical_features, names, n, "categorical_features")
    other = np.setdiff1d(np.flatnonzero(codes), chosen)
    if len(other):
        raise DataError(
            f"The column {schemas[0].name(int(other[0]))!r} holds labels, and so is categorical. "
            "Name it in categorical_features, or turn it into numbers."
        )
    codes[chosen] = True
    return codes


def refuse_features(categorical_features: Any) -> None:
    """Raise if categorical columns are named beside a kernel, which they could not change."""
    if categorical_features is not None:
        raise DataError(
            "The 'categorical_features' parameter is for the default kernel, and a kernel is "
            "given. Leave one of them out."
        )


def _circuits_and_points(distributions: Sequence[Any]) -> tuple[list[Circuit], list[Any]]:
    circuits = [x for x in distributions if isinstance(x, Circuit)]
    others = [x for x in distributions if not isinstance(x, Circuit)]
    return circuits, [x.X if isinstance(x, Empirical) else tables.as_floats(x) for x in others]


def _real_rates(circuits: Sequence[Circuit], points: Sequence[Any], real: Any) -> Any:
    """`gamma` for the real variables of circuits and points, each in units of its own."""
    if points:
        together = np.concatenate([x[:, real] for x in points])
        together = together[np.isfinite(together).all(axis=1)]  # kernels refuse the other rows
        if (together == together[:1]).all():  # then any gamma gives the same kernel
            return np.ones(len(real))
        units = np.ones(1)
        if len(real) > 1:
            away = together - together[:1]
            top = np.abs(away).max(axis=0)
            top[top == 0.0] = 1.0
            units = (away / top).std(axis=0) * top  # squares of what is at most one are in range
            units[units == 0.0] = 1.0
        distance = _median_distance(together / units)
    else:
        moments = [np.stack([circuit.marginals()[v] for v in real]) for circuit in circuits]
        apart = moments[0][:, 0] - moments[-1][:, 0]
        spreads = np.sqrt([moments[0][:, 1], moments[-1][:, 1]])
        units = np.hypot(apart, np.hypot(*spreads))
        distance = sqrt(np.count_nonzero(units))
        if not distance:
            raise DataError(
                "The default kernel needs real variables that vary. Give a kernel, such as "
                "RBF(1.0)."
            )
        units[units == 0.0] = 1.0
    return np.array([_rate(distance * float(unit)) for unit in units])


def collapsed_rows(
    target: Any, samples: Any, collapsed: Any, least: int = 1, log_weights: Any = None
) -> tuple[Any, Any]:
    """The samples as rows, NaN where they are collapsed, and the numbers of those that count.

    Samples come in any form that `sample_rows` reads, at least so many of them. What is collapsed
    is one set of variables of the target for all samples, or a mask; by default it is where the
    samples have NaN. Samples of weight zero do not count, and may be incomplete.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> rows, used = collapsed_rows(target, [[0, 1], [1, 1]], [1])
    >>> rows.tolist(), used.tolist()
    ([[0.0, nan], [1.0, nan]], [0, 1])
    """
    rows = sample_rows(target, samples, least=least, check=False)
    logs = None if log_weights is None else as_log_weights(log_weights, len(rows))
    used = counted_rows(samples, len(rows), logs)
    mask = np.isnan(rows) if collapsed is None else _mask(target, collapsed, rows.shape)
    hidden = np.isnan(rows) & ~mask
    if hidden[used].any():
        row, column = (int(i) for i in np.argwhere(hidden[used])[0])
        row = int(used[row])
        raise DataError(
            f"Samples need values for all variables that are not collapsed. Got NaN in row {row}, "
            f"column {column}; with collapsed=None, NaN marks what is collapsed."
        )
    rows[mask] = np.nan
    check_values(rows, schema_of(target), DataError, "Samples")
    return rows, used


def as_log_weights(log_weights: Any, n: int) -> Any:
    """Read-only logs of importance weights; some must be finite."""
    logs = np.array(tables.as_floats(log_weights), dtype=np.float64)
    finite = np.isfinite(logs)
    if logs.shape != (n,) or not (logs < np.inf).all() or (n and not finite.any()):
        raise DataError(
            f"{n} samples need as many log-weights: numbers, or -inf where the target rules them "
            f"out, but not for all. Got shape {logs.shape}, with {logs[~finite][:5].tolist()}."
        )
    logs.flags.writeable = False
    return logs


def _mask(target: Any, collapsed: Any, shape: tuple[int, int]) -> Any:
    """Which entries are collapsed."""
    keys = [collapsed] if isinstance(collapsed, (str, int, np.integer)) else collapsed
    if not hasattr(keys, "__array__"):  # of NumPy, PyTorch, or a table with columns
        keys = list(keys) if isinstance(keys, Iterable) else [[keys]]
    try:
        given = np.asarray(keys)
    except ValueError:  # rows of different lengths
        given = np.zeros((0, 0))
    if given.dtype == np.bool_ and given.ndim == 3 and given.shape[2] == shape[1]:  # chains
        given = given.reshape(-1, shape[1])
    if given.dtype == np.bool_ and given.shape in (shape, shape[1:]):
        return np.broadcast_to(given, shape)
    if given.ndim != 1 or (given.dtype == np.bool_ and given.size):
        raise DataError(
            "Collapsed variables are a set of numbers or names, or a mask of booleans of shape "
            f"{shape} or {shape[1:]}. Got {preview(collapsed)}."
        )
    mask = np.zeros(shape, dtype=np.bool_)
    mask[:, schema_of(target).variables(keys if isinstance(keys, list) else given.tolist())] = True
    return mask


def variables_of(target: Any, collapsed: Any) -> frozenset[int]:
    """The numbers of variables of a target, given as numbers, names, or a mask.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> variables_of(ek.asia(), {"either"})
    frozenset({5})
    """
    mask = _mask(target, collapsed, (1, len(target.cardinalities)))
    return frozenset(np.flatnonzero(mask[0]).tolist())


def distinct_rows(rows: Any) -> tuple[Any, Any, Any]:
    """The distinct rows, the place of every row among them, and where each of them comes first.

    Examples
    --------
    >>> rows, place, first = distinct_rows(np.array([[1, np.nan], [0, 1], [1, np.nan]]))
    >>> rows.tolist(), place.tolist(), first.tolist()
    ([[0.0, 1.0], [1.0, nan]], [1, 0, 1], [1, 0])
    """
    codes = np.where(np.isnan(rows), -1.0, rows)
    _, first, place = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    return rows[first], place.reshape(-1), first
