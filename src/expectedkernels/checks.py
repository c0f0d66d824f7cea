"""Checks of parameters, one wording each: what is wanted, of which function, and what was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import inf
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from expectedkernels.errors import CircuitError

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


def shown(value: Any) -> str:
    """A value in a message, cut if it is long: a table may be where a number belongs.

    Examples
    --------
    >>> shown("a"), shown([0.5] * 1000)[-12:]
    ("'a'", '... (a list)')
    """
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 70 else f"{text[:70]}... (a {type(value).__name__})"


def check_count(
    function: str,
    name: str,
    value: Any,
    low: int = 0,
    none: bool = False,
    error: type[CircuitError] = CircuitError,
    auto: bool = False,
) -> Any:
    """The value, after checking that it is an int that is not too small (or "auto", or None).

    Examples
    --------
    >>> check_count("gibbs", "n", 3)
    3
    """
    if (none and value is None) or (auto and isinstance(value, str) and value == "auto"):
        return value
    if not is_int(value) or value < low:
        raise error(
            f"The {name!r} parameter of {function} must be an int in the range [{low}, inf)"
            f"{', ' + repr('auto') if auto else ''}{' or None' if none else ''}. "
            f"Got {shown(value)} instead."
        )
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
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else None
    good = number is not None and (low < number < high)
    good = good or (number == low and ends[0] == "[") or (number == high and ends[1] == "]")
    if not good or number is None:
        raise error(
            f"The {name!r} parameter of {function} must be a float in the range "
            f"{ends[0]}{low:g}, {high:g}{ends[1]}. Got {shown(value)} instead."
        )
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
        advice = removed.get(value) if removed and isinstance(value, str) else None
        raise error(
            f"The {name!r} parameter of {function} must be {known}. Got {shown(value)}"
            + (f", which was removed: {advice}." if advice else " instead.")
        )
    return value


def check_callback(function: str, value: Any, of: str = "one argument") -> Any:
    """The value, after checking that it can be called (or None).

    Examples
    --------
    >>> check_callback("learn_strudel", print) is print
    True
    """
    if value is not None and not callable(value):
        raise CircuitError(
            f"The 'callback' parameter of {function} must be a function of {of} or None. "
            f"Got {shown(value)} instead."
        )
    return value


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
    expectedkernels.errors.CircuitError: The 'beam' parameter of learn was removed: set n.
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
