"""Errors, verdicts, progress bars, and checks of arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from math import inf, nan
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar
from warnings import catch_warnings, simplefilter

from tqdm import tqdm


def public_in(namespace: str) -> Callable[[type[T]], type[T]]:
    """A decorator: pickles, files and pages find the class in a namespace such as ``ek.stein``."""

    def placed(kind: type[T]) -> type[T]:
        kind.__module__ = f"expectedkernels.{namespace}".rstrip(".")
        return kind

    return placed


public = public_in("")
"""Likewise in the package itself."""


@public
class CircuitError(ValueError):
    """Base class: something is wrong with a circuit, a kernel, or a query.

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
    expectedkernels.CircuitError: Got NaN in row 6.
    """
    try:
        yield
    except CircuitError as error:
        if error.row is None or error.row >= len(numbers):
            raise
        raise type(error)(error.message, row=int(numbers[error.row])) from None


@public
class VtreeError(CircuitError):
    """The arguments do not describe a variable tree."""


@public
class PropertyError(CircuitError):
    """A circuit lacks a structural property that the query needs."""


@public
class CompatibilityError(CircuitError):
    """Two circuits (or a kernel and a circuit) do not decompose their variables in the same way."""


@public
class SizeError(CircuitError):
    """A computation needs more memory than there is, or than it is allowed to take."""


@public
class KernelError(CircuitError):
    """A kernel is malformed, or does not fit the variables it is used on."""


@public
class DataError(CircuitError):
    """Points have missing values, values outside the domain, or the wrong number of columns."""


@public
class EvidenceError(CircuitError):
    """Evidence is malformed, or has probability zero."""


@public
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
        place = [] if path is None else [path]
        place += [] if line is None else [f"line {line}"]
        super().__init__(f"{', '.join(place)}: {message}" if place else message)


@public
@dataclass(frozen=True)
class Verdict:
    """True, false or undecided, and why.

    Attributes
    ----------
    holds : bool or None
        The result; None if it could not be decided.
    reason : str
        Why, and where.

    Examples
    --------
    >>> verdict = Verdict(False, "sum unit 3 has inputs over different variables")
    >>> bool(verdict)
    False
    >>> verdict
    no: sum unit 3 has inputs over different variables
    """

    holds: bool | None
    reason: str

    def __bool__(self) -> bool:
        return self.holds is True

    def __repr__(self) -> str:
        word = {True: "yes", False: "no", None: "undecided"}[self.holds]
        return f"{word}: {self.reason}"


def progress_bar(total: int, what: str, quiet: bool = False, unit: str = "it") -> Any:
    """A bar that appears after a second, if anybody is looking.

    In notebooks it is a widget where ipywidgets is installed, and text elsewhere.

    Examples
    --------
    >>> with progress_bar(3, "steps", quiet=True) as bar:
    ...     bar.update(3)
    >>> bar.total
    3
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    notebook = hasattr(shell, "kernel")
    widgets = notebook and not quiet and find_spec("ipywidgets") is not None
    kind = import_module("tqdm.notebook").tqdm if widgets else tqdm
    # None: only if the output is a terminal, which that of a notebook is not
    disable = True if quiet else False if notebook else None
    return kind(total=total, desc=what, unit=unit, delay=1.0, leave=False, disable=disable)


P = ParamSpec("P")
T = TypeVar("T")


def is_int(value: Any) -> bool:
    """Whether a value is a whole number of Python or NumPy, and no bool.

    Examples
    --------
    >>> is_int(3), is_int(True), is_int(3.0)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def preview(value: Any) -> str:
    """A value in a message, cut if it is long: a table may be where a number belongs.

    Examples
    --------
    >>> preview("a"), preview([0.5] * 1000)[-12:]
    ("'a'", '... (a list)')
    """
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 70 else f"{text[:70]}... (a {type(value).__name__})"


def check_parameter(
    good: bool, function: str, name: str, value: Any, wanted: str, error: type[Exception]
) -> None:
    """Raise unless the value of a parameter is good.

    Examples
    --------
    >>> check_parameter(False, "gibbs", "n", -1, "a positive int", CircuitError)
    Traceback (most recent call last):
    expectedkernels.CircuitError: The 'n' parameter of gibbs must be a positive int. Got -1 instead.
    """
    if not good:
        raise error(
            f"The {name!r} parameter of {function} must be {wanted}. Got {preview(value)} instead."
        )


def check_count(
    function: str,
    name: str,
    value: Any,
    low: int = 0,
    none: bool = False,
    error: type[CircuitError] = CircuitError,
    auto: bool = False,
    high: float = inf,
) -> Any:
    """The value, after checking that it is an int that is not too small (or "auto", or None).

    Examples
    --------
    >>> check_count("gibbs", "n", 3)
    3
    """
    if (none and value is None) or (auto and isinstance(value, str) and value == "auto"):
        return value
    wanted = f"an int in the range [{low}, {high}){', ' + repr('auto') if auto else ''}"
    wanted += " or None" * none
    check_parameter(is_int(value) and low <= value < high, function, name, value, wanted, error)
    return int(value)


def check_real(
    function: str,
    name: str,
    value: Any,
    low: float = 0.0,
    high: float = inf,
    ends: str = "[)",
    error: type[CircuitError] = CircuitError,
) -> float:
    """The value, after checking that it is a number in a range; `ends` says whether ends belong.

    Examples
    --------
    >>> check_real("smoothed", "epsilon", 0.5, 0, 1, "()")
    0.5
    """
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else nan
    good = low < number < high
    good = good or (number == low and ends[0] == "[") or (number == high and ends[1] == "]")
    wanted = f"a float in the range {ends[0]}{low:g}, {high:g}{ends[1]}"
    check_parameter(good, function, name, value, wanted, error)
    return number


def check_choice(
    function: str,
    name: str,
    value: Any,
    choices: Sequence[str | None],
    error: type[CircuitError] = CircuitError,
    removed: Mapping[str, str] | None = None,
) -> Any:
    """The value, after checking that it is one of some names (or None, if that is one of them).

    `removed` says what to use instead of names that earlier versions took.

    Examples
    --------
    >>> check_choice("gibbs", "scan", "random", ("systematic", "random"))
    'random'
    """
    if not (value is None or isinstance(value, str)) or value not in choices:
        known = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        if removed and isinstance(value, str) and value in removed:
            raise error(
                f"The {name!r} parameter of {function} must be {known}. Got {preview(value)}, "
                f"which was removed: {removed[value]}."
            )
        check_parameter(False, function, name, value, known, error)
    return value


def check_callback(function: str, value: Any, of: str = "one argument") -> None:
    """Raise unless a value can be called (or is None).

    Examples
    --------
    >>> check_callback("learn_strudel", print)
    """
    good = value is None or callable(value)
    check_parameter(good, function, "callback", value, f"a function of {of} or None", CircuitError)


def removed(**advice: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: keyword parameters that earlier versions had raise, and say what to use now.

    The signature of the function, or of `__init__`, stays the one without them.

    Examples
    --------
    >>> @removed(beam="set n")
    ... def learn(X, n=1):
    ...     return X
    >>> learn(1, beam=3)
    Traceback (most recent call last):
    expectedkernels.CircuitError: The 'beam' parameter of learn was removed: set n.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            for name in advice.keys() & kwargs.keys():
                raise CircuitError(
                    f"The {name!r} parameter of {function.__qualname__.removesuffix('.__init__')} "
                    f"was removed: {advice[name]}."
                )
            return function(*args, **kwargs)

        return checked

    return decorate


def imported(name: str, package: str, failure: Any = CircuitError, instead: str = "") -> Any:
    """A module of an optional package; raises with the name to install if it is not there."""
    try:
        with catch_warnings():
            # where warnings are errors, one inside the binary part of pyAgrum ends the process
            simplefilter("ignore")
            return import_module(name)
    except ImportError as error:
        raise failure(
            f"The package {package} is not installed ({error}): pip install {package}{instead}."
        ) from error
