"""The errors of the library: all are `ValueError`s and say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class CircuitError(ValueError):
    """Base class: something is wrong with a circuit, a kernel, or a question put to them.

    Parameters
    ----------
    message : str
        What is wrong. Where it has ``{row}``, the number of a row is put.
    row : int, optional
        The row of a table that is wrong.

    Examples
    --------
    >>> str(CircuitError("Got NaN in row {row}.", row=3))
    'Got NaN in row 3.'
    """

    def __init__(self, message: str = "", row: int | None = None):
        super().__init__(message if row is None else message.replace("{row}", str(row)))
        self.message, self.row = message, row


@contextmanager
def rows_numbered(numbers: Any) -> Iterator[None]:
    """Errors about rows of a table name them by these numbers, those that the caller knows.

    Examples
    --------
    >>> with rows_numbered([4, 6]):
    ...     raise CircuitError("Got NaN in row {row}.", row=1)
    Traceback (most recent call last):
    expectedkernels.errors.CircuitError: Got NaN in row 6.
    """
    try:
        yield
    except CircuitError as error:
        if error.row is None or error.row >= len(numbers):
            raise
        raise type(error)(error.message, row=int(numbers[error.row])) from None


class VtreeError(CircuitError):
    """The arguments do not describe a variable tree."""


class PropertyError(CircuitError):
    """A circuit lacks a structural property that the question needs."""


class CompatibilityError(CircuitError):
    """Two circuits (or a kernel and a circuit) do not decompose their variables in the same way."""


class SizeError(CircuitError):
    """A computation needs more memory than there is, or than it is allowed to take."""


class KernelError(CircuitError):
    """A kernel is malformed, or does not fit the variables it is used on."""


class DataError(CircuitError):
    """Points have missing values, values outside the domain, or the wrong number of columns."""


class EvidenceError(CircuitError):
    """Evidence is malformed, or has probability zero."""


class ParseError(CircuitError):
    """A file does not follow its format.

    Parameters
    ----------
    message : str
        What was expected and what was found.
    path : str, optional
        The file.
    line : int, optional
        The number of the offending line, from 1.

    Examples
    --------
    >>> str(ParseError("expected a leaf or inner node, found 'X'", path="a.vtree", line=3))
    "a.vtree, line 3: expected a leaf or inner node, found 'X'"
    """

    def __init__(self, message: str, path: str | None = None, line: int | None = None):
        self.path, self.line = path, line
        place = ", ".join(
            part for part in (path, None if line is None else f"line {line}") if part is not None
        )
        super().__init__(f"{place}: {message}" if place else message)
