"""Names and states of variables, and how tables and models are matched by them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from expectedkernels.checks import (
    CircuitError,
    CompatibilityError,
    DataError,
    EvidenceError,
    is_int,
)
from expectedkernels.data.tables import (
    Columns,
    FrameColumn,
    Label,
    as_label,
    column_names,
    frame_columns,
    is_frame,
    is_missing,
    is_number,
    label_key,
    make_frame,
    match_labels,
)

SHOWN = 12
"""How many names or labels a message lists."""


@dataclass(frozen=True)
class Schema:
    """The variables of a model: numbers of states, and (if they have any) names and labels.

    Parameters
    ----------
    cardinalities : sequence of int or None
        The number of states of every variable, None for real ones.
    names : sequence of str, optional
        One name per variable.
    states : sequence of sequences of labels (or None), optional
        The labels of the states of every variable, in the order of their codes.

    Examples
    --------
    >>> schema = Schema([2, None], ["rain", "hours"], [["no", "yes"], None])
    >>> schema.variable("hours"), schema.state(0, "yes")
    (1, 1)
    """

    cardinalities: tuple[int | None, ...]
    names: tuple[str, ...] | None = None
    states: tuple[tuple[Label, ...] | None, ...] | None = None

    def __post_init__(self) -> None:
        cards = tuple(None if c is None else int(c) for c in self.cardinalities)
        names = None if self.names is None else _names(self.names)
        states = None
        if self.states is not None:
            if len(self.states) != len(cards):
                raise CircuitError(
                    f"States are one list of labels per variable, {len(cards)} in all. "
                    f"Got {len(self.states)}."
                )
            states = tuple(None if s is None else _labels(s, v) for v, s in enumerate(self.states))
            states = None if all(labels is None for labels in states) else states
        for field, value in (("cardinalities", cards), ("names", names), ("states", states)):
            object.__setattr__(self, field, value)
        if names is not None:
            _check_distinct(names, len(cards), "names of the variables")
        for v, labels in enumerate(states or ()):
            if labels is None:
                continue
            if cards[v] is None:
                raise CircuitError(f"Real variables have no states. Got labels for {self.call(v)}.")
            _check_distinct(labels, cards[v], f"states of {self.call(v)}")

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return len(self.cardinalities)

    @property
    def is_plain(self) -> bool:
        """Whether there are neither names nor labels."""
        return self.names is None and self.states is None

    def call(self, variable: int) -> str:
        """How messages call a variable: by its number, and its name if it has one."""
        name = "" if self.names is None else f" ({self.names[variable]!r})"
        return f"variable {variable}{name}"

    def name(self, variable: int) -> str | int:
        """The name of a variable, its number if it has none."""
        return variable if self.names is None else self.names[variable]

    def labels(self, variable: int) -> tuple[Label, ...] | None:
        """The labels of the states of a variable, None if they have none."""
        return None if self.states is None else self.states[variable]

    @cached_property
    def unordered(self) -> tuple[int, ...]:
        """The variables with three or more states whose labels are text: their codes are no scale.

        Examples
        --------
        >>> Schema([2, 3], None, [["no", "yes"], ["red", "green", "blue"]]).unordered
        (1,)
        """
        return tuple(
            v
            for v, labels in enumerate(self.states or ())
            if labels is not None and len(labels) > 2 and not look_like_numbers(labels)
        )

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {} if self.names is None else {name: v for v, name in enumerate(self.names)}

    def variable(self, key: Any) -> int:
        """The number of a variable given by its number or its name.

        Examples
        --------
        >>> Schema([2, 2], ["rain", "wet"]).variable("wet")
        1
        """
        if isinstance(key, str):
            if key in self._numbers:
                return self._numbers[key]
        elif is_int(key) and self._numbers.get(str(key), key) != key:
            if not 0 <= key < self.n_variables:
                return self._numbers[str(key)]
            raise EvidenceError(
                f"{key} could be the number of a variable or the name {str(key)!r} of another one. "
                "Give the name, as text."
            )
        elif is_int(key) and 0 <= key < self.n_variables:
            return int(key)
        known = "" if self.names is None else f", or one of its names, {listed(self.names)}"
        near = get_close_matches(str(key), self.names or (), n=1)
        hint = f" Did you mean {near[0]!r}?" if near and isinstance(key, str) else ""
        raise EvidenceError(
            f"A variable of this model is an int in 0..{self.n_variables - 1}{known}. "
            f"Got {key!r} instead.{hint}"
        )

    def variables(self, keys: Any) -> list[int]:
        """The numbers of variables given by numbers or names, one or several."""
        alone = isinstance(keys, (str, int, np.integer)) or not isinstance(keys, Iterable)
        return [self.variable(key) for key in ([keys] if alone else keys)]

    def state(self, variable: int, key: Any) -> int:
        """The code of a state of a discrete variable, given by its code or its label.

        Labels that are numbers, or read as such, come before codes: with states (4, 6, 8), or
        ("4", "6", "8"), 4 is the first state.

        Examples
        --------
        >>> Schema([2], states=[["no", "yes"]]).state(0, "yes")
        1
        """
        card, labels = self.cardinalities[variable], self.labels(variable)
        found = None
        value = key.item() if isinstance(key, (np.generic, np.ndarray)) and not key.ndim else key
        if card is not None and isinstance(value, Hashable):
            if value in self._codes[variable]:  # as most are
                return self._codes[variable][value]
            [place] = match_labels(labels or range(card), [value])
            found = place if place >= 0 else _plain_code(labels, card, value)
        if found is not None:
            return found
        known = "" if labels is None else f" or one of its labels, {listed(labels)}"
        codes = f"an int in 0..{(card or 1) - 1}"
        if labels is not None and _could_be_codes(labels):
            codes, known = "", f"one of {listed(labels)}"
        raise EvidenceError(
            f"A state of {self.call(variable)} is {codes}{known}. Got {key!r} instead."
        )

    @cached_property
    def _codes(self) -> list[dict[Any, int]]:
        return [
            {label: code for code, label in enumerate(labels or ())}
            for labels in self.states or [None] * self.n_variables
        ]

    def read_frame(self, X: Any, what: str = "The data frame") -> Any:
        """The rows of a data frame as codes and numbers, NaN where a value is missing.

        Columns are found by their names, in any order; if the variables or the columns have no
        names, they are taken as they stand.

        Raises
        ------
        DataError
            If columns are missing or too many, or hold what is no state, with their names.
        """
        columns = self.ordered(frame_columns(X), column_names(X), what)
        rows = np.empty((len(X), self.n_variables))
        for v, column in enumerate(columns):
            rows[:, v] = self.read_column(v, column)
        return rows

    def ordered(
        self, columns: list[FrameColumn], names: tuple[str, ...] | None, what: str
    ) -> list[FrameColumn]:
        """The columns of a frame in the order of the variables; raises if they are others."""
        known = self.names or tuple(map(str, range(self.n_variables)))
        named = self.names is not None and names is not None
        if not named and {column.name for column in columns} != set(known):
            if len(columns) != self.n_variables:
                raise DataError(
                    f"{what} must have one column per variable, {self.n_variables} in all. "
                    f"Got {len(columns)}: {listed([c.name for c in columns])}."
                )
            return columns
        by_name = {column.name: column for column in columns}
        missing = [name for name in known if name not in by_name]
        extra = [name for name in by_name if name not in known]
        if missing:
            raise DataError(
                f"{what} lacks columns that the model has: {listed(missing)}. It has "
                f"{listed(list(by_name))}; a column of NaN says that nothing is known."
            )
        if extra:
            raise DataError(
                f"{what} has columns that the model does not have: {listed(extra)}. Select those "
                "of the model: X[list(model.names)]."
            )
        return [by_name[name] for name in known]

    def read_column(self, variable: int, column: FrameColumn) -> Any:
        """The codes (or numbers) of the column of a variable, NaN where a value is missing."""
        card, labels, values = self.cardinalities[variable], self.labels(variable), column.values
        if column.kind == "number":  # stands for labels that are numbers; else they are codes
            if labels is None or not _could_be_codes(labels):
                return values
            present = column.distinct
        else:
            present = [value for value in dict.fromkeys(values) if value is not None]
        known = () if card is None else labels or range(card)
        codes: dict[Any, Any] = dict(zip(present, match_labels(known, present), strict=True))
        for value in present:
            if codes[value] >= 0:
                continue
            real = value if isinstance(value, (int, float)) else None
            codes[value] = real if card is None else _plain_code(labels, card, value)
            if codes[value] is not None:
                continue
            row = list(values).index(value)
            if card is not None and labels is None and isinstance(value, str):
                raise DataError(
                    f"The column {column.name!r} holds text (row {row}: {value!r}), but the states "
                    f"of {self.call(variable)} have no labels. Give codes 0, 1, ..., or a model "
                    "with states (learned from a frame, or named by with_names)."
                )
            wanted = "a real number" if card is None else f"one of {listed(known)}"
            raise DataError(
                f"The column {column.name!r} must hold {wanted}, or nothing. "
                f"Got {value!r} in row {row}."
            )
        if column.kind == "number":  # NaN is behind all that are present
            return np.array([*codes.values(), np.nan])[np.searchsorted(present, values)]
        return np.asarray([codes.get(value, np.nan) for value in values], dtype=np.float64)

    def frame(self, rows: Any, index: Any = None) -> Any:
        """Rows of codes and numbers as a data frame of pandas, with names and labels.

        Examples
        --------
        >>> schema = Schema([2, 2], ["rain", "wet"], [["no", "yes"], None])
        >>> schema.frame(np.array([[1.0, 0.0]])).to_dict("records")
        [{'rain': 'yes', 'wet': 0}]
        """
        rows = np.asarray(rows, dtype=np.float64)
        names = [self.name(v) for v in range(self.n_variables)]
        columns: list[Any] = []
        for v, column in enumerate(rows.T):
            labels, missing = self.labels(v), np.isnan(column)
            if self.cardinalities[v] is None or (labels is None and missing.any()):
                columns.append(column)
            elif labels is None:
                columns.append(column.astype(np.int64))
            else:
                columns.append((np.where(missing, -1.0, column).astype(np.intp), labels))
        return make_frame(names, columns, index)

    def labelled(self, rows: Any, like: Any, as_frame: bool | None) -> Any:
        """One or more rows of codes as a frame of labels, if asked for, or else as they are.

        By default a frame is made where the states have labels, and where the rows are those of a
        frame, whose index they get.
        """
        index = getattr(like, "index", None) if is_frame(like) else None
        wanted = self.states is not None or is_frame(like) if as_frame is None else as_frame
        return self.frame(np.atleast_2d(rows), index) if wanted else rows

    def subset(self, kept: Sequence[int]) -> Schema:
        """The schema of some of the variables, in the given order."""
        return Schema(
            tuple(self.cardinalities[v] for v in kept),
            None if self.names is None else tuple(self.names[v] for v in kept),
            None if self.states is None else tuple(self.states[v] for v in kept),
        )


def frame_schema(
    columns: Sequence[FrameColumn],
    names: Sequence[str] | None,
    cardinalities: Sequence[int | None] | None = None,
    max_states: int = 100,
    numbers: bool = False,
) -> Schema:
    """The schema of a data frame whose columns become the variables of a new model.

    Text, categories and booleans become labelled states, in sorted order or that of the
    categories; so do small integers, if they are not codes already. With `numbers`, columns of
    numbers stay what they are.

    Parameters
    ----------
    columns : sequence of FrameColumn
    names : sequence of str, optional
    cardinalities : sequence of int, optional
        Given numbers of states: numeric columns hold codes then.
    max_states : int
        How many distinct values a column of labels may have.
    numbers : bool
    """
    pairs = [
        _column_states(column, card, max_states, numbers)
        for column, card in zip(columns, cardinalities or [None] * len(columns), strict=True)
    ]
    cards, states = tuple(card for card, _ in pairs), tuple(labels for _, labels in pairs)
    return Schema(cards, None if names is None else tuple(names), states)


def _column_states(
    column: FrameColumn, given: int | None, max_states: int, numbers: bool
) -> tuple[int | None, Any]:
    """The number of states of a new variable, and their labels (None: codes)."""
    found = column.distinct
    if column.kind == "number" and given is None:
        if numbers or not found or not all(isinstance(x, int) for x in found):
            return None, None  # values, or a column that its reader refuses
        if _hold_codes(found):
            return max(2, int(found[-1]) + 1), None
    elif column.kind == "number":
        return given, None
    if column.kind == "bool":
        return 2, (False, True)
    if not found:
        raise DataError(
            f"The column {column.name!r} has no values, so its states are unknown. Drop it, or "
            "make it categorical with its categories."
        )
    if len(found) > max_states and column.categories is None:
        raise DataError(
            f"The column {column.name!r} has {len(found)} distinct values, more than "
            f"max_states={max_states}. If they identify rows or measure something, drop or bin "
            "them (pandas.cut); else raise max_states or make the column categorical."
        )
    if given is not None and given != len(found):
        raise DataError(
            f"The column {column.name!r} has {len(found)} labels, but its cardinality is given as "
            f"{given}. Make it categorical with all its categories."
        )
    return len(found), tuple(found)


def _hold_codes(found: Sequence[Any]) -> bool:
    """Whether sorted integers are codes 0, 1, ... of which few are unseen."""
    return found[0] >= 0 and (found[-1] <= 1 or (found[0] == 0 and found[-1] < 2 * len(found)))


def joint_columns(tables: Sequence[Columns], what: str) -> list[FrameColumn]:
    """The columns of all tables together, in the order of the first; `what` calls a table {}."""
    plain = Schema((None,) * len(tables[0].columns), tables[0].names)
    others = [
        plain.ordered(list(table.columns), table.names, what.format(number))
        for number, table in enumerate(tables[1:], 2)
    ]
    return [joint_column(parts) for parts in zip(tables[0].columns, *others, strict=True)]


def joint_column(parts: Sequence[FrameColumn]) -> FrameColumn:
    """One column of several tables, one after the other; labels that mean the same are one."""
    first = parts[0]
    kinds = {part.kind for part in parts}
    if kinds == {"number"}:
        return FrameColumn(first.name, "number", np.concatenate([part.values for part in parts]))
    labels: list[Label] = []
    values: list[Any] = []
    for part in parts:
        found = match_labels(labels, part.distinct)
        new = [label for label, i in zip(part.distinct, found, strict=True) if i < 0]
        meaning: dict[Any, Any] = {label: label for label in new}
        meaning |= {x: labels[i] for x, i in zip(part.distinct, found, strict=True) if i >= 0}
        labels += new
        own = part.values.tolist() if part.kind == "number" else part.values
        values += [None if is_missing(x) else meaning[x] for x in own]
    kind = "bool" if kinds == {"bool"} else "label"
    if first.categories is not None and len(labels) == len(first.categories):
        return FrameColumn(first.name, kind, values, first.categories)
    if len({isinstance(label, str) for label in labels}) == 2:
        values = [None if x is None else str(x) for x in values]
    return FrameColumn(first.name, kind, values)


def _plain_code(labels: Sequence[Label] | None, card: int | None, key: Any) -> int | None:
    """A code that stands for itself, as labels do not read as numbers; None if it is none."""
    if labels is None or isinstance(key, bool) or _could_be_codes(labels):
        return None
    number: Any = key if isinstance(key, Real) else -1
    return int(number) if number in range(card or 0) else None


def _names(given: Any) -> tuple[str, ...]:
    """The names of variables, checked to be a sequence of names."""
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise CircuitError(
            f"Names are a sequence, one per variable. Got {type(given).__name__} instead."
        )
    names = tuple(given)
    if any(is_missing(name) for name in names):
        raise CircuitError(f"Every variable needs a name, if one has any. Got {list(names)[:20]}.")
    return tuple(map(str, names))


def _labels(given: Any, variable: int) -> tuple[Label, ...]:
    """The labels of the states of a variable, checked to be a sequence of values."""
    labels = tuple(given) if isinstance(given, Iterable) else (None,)
    if any(is_missing(label) for label in labels) or isinstance(given, Mapping):
        raise CircuitError(
            f"The states of variable {variable} are a sequence of labels, none of which is missing "
            f"(nor NaN). Got {given!r} instead."
        )
    return tuple(map(as_label, labels))


def are_codes(labels: Sequence[Label]) -> bool:
    """Whether labels are the codes themselves, as numbers or as text."""
    plain = tuple(range(len(labels)))
    return tuple(labels) == plain or tuple(labels) == tuple(map(str, plain))


def look_like_numbers(labels: Sequence[Label]) -> bool:
    """Whether one of the labels is a number, or text that reads as one."""
    return any(is_number(label) for label in labels)


def _could_be_codes(labels: Sequence[Label]) -> bool:
    """Whether a number may mean a label or a code: labels are numbers, but not the codes."""
    return look_like_numbers(labels) and not are_codes(labels)


def listed(names: Iterable[Any]) -> str:
    """The names or labels as a message shows them."""
    found = list(names)
    shown = ", ".join(map(repr, found[:SHOWN]))
    return (
        shown + (f", ... ({len(found)} in all)" if len(found) > SHOWN else "") if found else "none"
    )


def _check_distinct(labels: Sequence[Any], n: int | None, what: str) -> None:
    if len(labels) != n or len({label_key(label) for label in labels}) != n:
        shown = [*labels[:20], *(["..."] if len(labels) > 20 else [])]
        raise CircuitError(f"The {what} must be {n} different labels. Got {shown}.")


@dataclass(frozen=True)
class Matching:
    """How the variables and states of one model stand for those of another.

    Attributes
    ----------
    schema : Schema
        What both have afterwards.
    variables : tuple of int
        For every variable of the first model, that of the second.
    states : tuple of tuples of int
        For every variable and every state of `schema` the code that the second model has for it,
        -1 if it does not have the state. An empty tuple: the same codes.
    first_states : the same for the first model
    """

    schema: Schema
    variables: tuple[int, ...]
    states: tuple[tuple[int, ...], ...]
    first_states: tuple[tuple[int, ...], ...]

    @property
    def is_identity(self) -> bool:
        """Whether nothing has to be done."""
        same = self.variables == tuple(range(len(self.variables)))
        return same and not any(self.states) and not any(self.first_states)


def match(one: Schema, other: Schema, union: bool = False) -> Matching:
    """How to bring two models over the same variables together.

    Both named: by names, in any order. Otherwise: by position. States with labels on both sides are
    matched by these. With `union`, states that only one side has are allowed.

    Raises
    ------
    CompatibilityError
        If the names or the labels differ, with those that only one side has.

    Examples
    --------
    >>> one = Schema([2, 2], ["a", "b"], [["no", "yes"], ["x", "y"]])
    >>> other = Schema([2, 2], ["b", "a"], [["x", "y"], ["yes", "no"]])
    >>> match(one, other).variables, match(one, other).states
    ((1, 0), ((1, 0), ()))
    """
    if one.n_variables != other.n_variables and (one.names is None or other.names is None):
        raise CompatibilityError(
            "The two models must have the same variables, but one has "
            f"{one.n_variables} and the other {other.n_variables}."
        )
    variables = tuple(range(one.n_variables))
    if one.names is not None and other.names is not None and one.names != other.names:
        first, second = set(one.names), set(other.names)
        only = sorted(first - second), sorted(second - first)
        if any(only):
            raise CompatibilityError(
                "The two models must have the same variables, matched by their names. Only the "
                f"first has {listed(only[0])}, only the second {listed(only[1])}. Rename them "
                "with with_names, or sum out what is too much with marginalize."
            )
        variables = tuple(other.variable(name) for name in one.names)
    matched = [_match_states(one, v, other, w, union) for v, w in enumerate(variables)]
    cards, labels, mine, theirs = (tuple(part[i] for part in matched) for i in range(4))
    return Matching(Schema(cards, one.names or other.names, labels), variables, theirs, mine)


def _match_states(one: Schema, v: int, other: Schema, w: int, union: bool) -> Any:
    """The cardinality and labels afterwards, and what each side does with its codes."""
    first, second = one.labels(v), other.labels(w)
    card = one.cardinalities[v]
    if first is None or second is None or first == second:
        return card, second if first is None else first, (), ()
    found = match_labels(first, second)
    if card == other.cardinalities[w] and set(found) == {-1}:
        if are_codes(first) and not look_like_numbers(second):
            return card, second, (), ()
        if are_codes(second) and not look_like_numbers(first):
            return card, first, (), ()
    new = [code for code, i in enumerate(found) if i < 0]
    if (new or len(first) > len(second)) and not union:
        raise CompatibilityError(
            f"The states of {one.call(v)} have other labels in the two models: {listed(first)} "
            f"and {listed(second)}. Relabel them with with_names, or join them: "
            "align(p, q, states='union')."
        )
    labels = (*first, *(second[code] for code in new))
    mine = (*range(len(first)), *(-1 for _ in new)) if new else ()
    place = {i: code for code, i in enumerate(found)}
    theirs = (*(place.get(i, -1) for i in range(len(first))), *new)
    return len(labels), labels, mine, () if theirs == tuple(range(len(labels))) else theirs
