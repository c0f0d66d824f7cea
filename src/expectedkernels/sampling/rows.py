"""Samples as rows, with NaN where a variable is collapsed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from expectedkernels.circuits.numbers import as_floats
from expectedkernels.errors import DataError
from expectedkernels.kernels.rows import check_states, counted_rows, sample_rows, schema_of


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
    mask = np.isnan(rows)
    if collapsed is not None:
        mask = _mask(target, collapsed, rows.shape)
    hidden = np.isnan(rows) & ~mask
    if hidden[used].any():
        row, column = (int(i) for i in np.argwhere(hidden[used])[0])
        row = int(used[row])
        raise DataError(
            f"Samples need values for all variables that are not collapsed. Got NaN in row {row}, "
            f"column {column}; with collapsed=None, NaN marks what is collapsed."
        )
    rows[mask] = np.nan
    check_states(target, rows)
    return rows, used


def as_log_weights(log_weights: Any, n: int) -> Any:
    """Logs of importance weights that nobody can write to; some must be finite."""
    logs = np.array(as_floats(log_weights), dtype=np.float64)
    if logs.shape != (n,):
        raise DataError(f"{n} samples need as many log-weights. Got shape {logs.shape}.")
    if np.isnan(logs).any() or (logs == np.inf).any() or (n and not np.isfinite(logs).any()):
        raise DataError(
            "Log-weights are numbers, or -inf for samples that the target rules out, but not for "
            f"all. Got {logs[~np.isfinite(logs)][:5].tolist()} among them."
        )
    logs.flags.writeable = False
    return logs


def _mask(target: Any, collapsed: Any, shape: tuple[int, int]) -> Any:
    """Which entries are collapsed."""
    if isinstance(collapsed, (str, int, np.integer)):
        collapsed = [collapsed]
    if hasattr(collapsed, "__array__"):  # of NumPy, PyTorch, or a table with columns
        collapsed = np.asarray(collapsed)
    else:
        if not isinstance(collapsed, Iterable):
            raise DataError(
                "Collapsed variables are a set of numbers or names, or a mask of booleans. "
                f"Got {collapsed!r}."
            )
        collapsed = list(collapsed)
    try:
        given = np.asarray(collapsed)
    except ValueError as error:
        raise DataError(
            f"The rows of a mask of collapsed variables must have equal lengths, {shape[1]}. "
            f"NumPy says: {error}"
        ) from error
    if given.dtype == np.bool_ and given.ndim == 3 and given.shape[2] == shape[1]:  # chains
        given = given.reshape(-1, shape[1])
    if given.dtype == np.bool_ and given.shape in (shape, shape[1:]):
        return np.broadcast_to(given, shape)
    if given.ndim != 1 or (given.dtype == np.bool_ and given.size):
        raise DataError(
            f"A mask of collapsed variables must have shape {shape} or {shape[1:]}, and hold "
            f"booleans. Got shape {given.shape} of {given.dtype}."
        )
    mask = np.zeros(shape, dtype=np.bool_)
    keys = given.tolist() if isinstance(collapsed, np.ndarray) else collapsed
    mask[:, schema_of(target).variables(keys)] = True
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
