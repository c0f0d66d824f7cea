"""Functions that people write: of many points at once, or of one point at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from expectedkernels.arrays import to_numpy
from expectedkernels.errors import DataError


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
        return _one_by_one(f, rows, what, several)
    # a function of one row would give as many values as there are columns: let it be seen
    asked = np.concatenate([rows, rows[-1:]]) if len(rows) == rows.shape[1] else rows.copy()
    advice = (
        " It seems to take one row at a time: write it for the columns of an array (X[:, 0] in "
        f"place of x[0]), or give {option}, which calls it row by row."
    )
    try:
        values = _floats(f(asked), what)
    except Exception as error:
        if _takes_one_row(f, rows[0], several):
            raise DataError(
                f"{what} gets an array of states, one per row, and this one failed with "
                f"{type(error).__name__}: {error}.{advice}"
            ) from error
        raise
    if values.ndim not in (1, 1 + several) or len(values) != len(asked):
        hint = advice if _takes_one_row(f, rows[0], several) else ""
        raise DataError(
            f"{what} must give one number{' (or one row of numbers)' if several else ''} for each "
            f"row of an array of states. Got shape {values.shape} for {len(asked)} rows.{hint}"
        )
    return values[: len(rows)]


def _one_by_one(f: Callable[[Any], Any], rows: Any, what: str, several: bool) -> Any:
    found = [_floats(f(row.copy()), what) for row in rows]
    shapes = {values.shape for values in found}
    if len(shapes) > 1 or not all(_is_one(values, several) for values in found):
        wanted = "one number, or a row of numbers that is always as long," if several else ""
        raise DataError(
            f"{what} with vectorized=False must give {wanted or 'one number'} for one row. Got "
            f"shape {', '.join(map(str, sorted(shapes)))}."
        )
    return np.stack(found) if several else np.concatenate([v.reshape(-1) for v in found])


def _is_one(values: Any, several: bool) -> bool:
    """Whether numbers can be those of a single row."""
    return bool(values.ndim < 2 if several else values.size == 1)


def _takes_one_row(f: Callable[[Any], Any], row: Any, several: bool) -> bool:
    try:
        return _is_one(_floats(f(row.copy()), ""), several)
    except Exception:  # whatever it is, the function does not take a row
        return False


def _floats(values: Any, what: str) -> Any:
    """What a function returned as an array of floats, moved to the host."""
    try:
        found = np.asarray(to_numpy(values))
        if found.dtype.kind != "c":
            return found.astype(np.float64)
        problem = "they are complex"
    except (TypeError, ValueError) as error:
        problem = str(error)
    raise DataError(f"{what} must give real numbers: {problem}.")
