"""Names and states of variables, and how tables and models are matched by them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from expectedkernels import checks
from expectedkernels.checks import CircuitError, CompatibilityError, DataError, EvidenceError
from expectedkernels.data import tables
from expectedkernels.data.tables import Columns, FrameColumn, Label

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
        object.__setattr__(self, "cardinalities", cards)
        if self.names is not None:
            names = _labels(self.names, len(cards), "names of the variables", str)
            object.__setattr__(self, "names", names)
        if self.states is None:
            return
        if len(self.states) != len(cards):
            raise CircuitError(
                f"States are one list of labels per variable, {len(cards)} in all. "
                f"Got {len(self.states)}."
            )
        states = list(self.states)
        for v, labels in enumerate(states):
            if labels is not None and cards[v] is None:
                raise CircuitError(f"Real variables have no states. Got labels for {self.call(v)}.")
            if labels is not None:
                states[v] = _labels(labels, cards[v], f"states of {self.call(v)}", tables.as_label)
        object.__setattr__(self, "states", tuple(states) if any(states) else None)

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
        number = self._numbers.get(str(key)) if isinstance(key, str) or checks.is_int(key) else None
        inside = checks.is_int(key) and 0 <= key < self.n_variables
        if inside and number in (None, key):
            return int(key)
        if inside:
            raise EvidenceError(
                f"{key} could be the number of a variable or the name {str(key)!r} of another one. "
                "Give the name, as text."
            )
        if number is not None:
            return number
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
        value = key.item() if isinstance(key, (np.generic, np.ndarray)) and not key.ndim else key
        if card is not None and isinstance(value, Hashable):
            if labels is not None and value in labels:  # as most are
                return labels.index(value)
            [code] = self.codes(variable, [value])
            if code is not None:
                return code
        known = "" if labels is None else f" or one of its labels, {listed(labels)}"
        codes = f"an int in 0..{(card or 1) - 1}"
        if labels is not None and _could_be_codes(labels):
            codes, known = "", f"one of {listed(labels)}"
        raise EvidenceError(
            f"A state of {self.call(variable)} is {codes}{known}. Got {key!r} instead."
        )

    def codes(self, variable: int, values: Sequence[Any]) -> list[int | None]:
        """The codes of states given by labels or codes, None for values that are neither."""
        card, labels = self.cardinalities[variable] or 0, self.labels(variable)
        found = tables.match_labels(labels or range(card), values)
        # a number is a code if labels do not read as numbers
        plain = labels is not None and not _could_be_codes(labels)

        def is_code(x: Any) -> bool:
            return plain and isinstance(x, Real) and not isinstance(x, bool) and x in range(card)

        pairs = zip(found, values, strict=True)
        return [i if i >= 0 else int(x) if is_code(x) else None for i, x in pairs]

    def read_frame(self, X: Any, what: str = "The data frame") -> Any:
        """The rows of a data frame as codes and numbers, NaN where a value is missing.

        Columns are found by their names, in any order; if the variables or the columns have no
        names, they are taken as they stand.

        Raises
        ------
        DataError
            If columns are missing or too many, or hold what is no state, with their names.
        """
        columns = self.ordered(tables.frame_columns(X), tables.column_names(X), what)
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
                f"{listed(by_name)}; a column of NaN says that nothing is known."
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
        numbers = column.kind == "number"  # stand for labels that are numbers; else they are codes
        if numbers and (labels is None or not _could_be_codes(labels)):
            return values
        seen = column.distinct if numbers else dict.fromkeys(values)
        present = [value for value in seen if value is not None]
        codes: list[Any] = [x if isinstance(x, (int, float)) else None for x in present]
        codes = codes if card is None else self.codes(variable, present)
        if None in codes:
            value = present[codes.index(None)]
            row, states = list(values).index(value), labels or range(card or 0)
            if card is not None and labels is None and isinstance(value, str):
                raise DataError(
                    f"The column {column.name!r} holds text (row {row}: {value!r}), but the states "
                    f"of {self.call(variable)} have no labels. Give codes, or add them: with_names."
                )
            wanted = "a real number" if card is None else f"one of {listed(states)}"
            raise DataError(
                f"The column {column.name!r} must hold {wanted}, or nothing. Got {value!r} in row "
                f"{row}."
            )
        if numbers:  # NaN is behind all that are present
            return np.array([*codes, np.nan])[np.searchsorted(present, values)]
        by_value = dict(zip(present, codes, strict=True))
        return np.asarray([by_value.get(value, np.nan) for value in values], dtype=np.float64)

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
        return tables.make_frame(names, columns, index)

    def labelled(self, rows: Any, like: Any, as_frame: bool | None) -> Any:
        """One or more rows of codes as a frame of labels on request, or else as they are.

        By default a frame is made where the states have labels, and where the rows are those of a
        frame, whose index they get.
        """
        index = getattr(like, "index", None) if tables.is_frame(like) else None
        wanted = self.states is not None or tables.is_frame(like) if as_frame is None else as_frame
        return self.frame(np.atleast_2d(rows), index) if wanted else rows

    def subset(self, kept: Sequence[int]) -> Schema:
        """The schema of some of the variables, in the given order."""
        given = self.cardinalities, self.names, self.states
        parts: list[Any] = [None if xs is None else tuple(xs[v] for v in kept) for xs in given]
        return Schema(*parts)


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
    given = cardinalities or [None] * len(columns)
    pairs = zip(columns, given, strict=True)
    found = [_column_states(column, card, max_states, numbers) for column, card in pairs]
    cards, states = zip(*found, strict=True) if found else ((), ())
    return Schema(cards, None if names is None else tuple(names), states)


def _column_states(
    column: FrameColumn, given: int | None, max_states: int, numbers: bool
) -> tuple[int | None, Any]:
    """The number of states of a new variable, and their labels (None: codes)."""
    found: Any = column.distinct
    if column.kind == "number":
        if given is not None:
            return given, None
        if numbers or not found or not all(isinstance(x, int) for x in found):
            return None, None  # values, or a column that its reader refuses
        low, high = found[0], found[-1]
        if low >= 0 and (high <= 1 or (low == 0 and high < 2 * len(found))):  # few are unseen
            return max(2, high + 1), None
    if column.kind == "bool":
        return 2, (False, True)
    if not found:
        raise DataError(
            f"The column {column.name!r} has no values, so its states are unknown. Drop it, or "
            "make it categorical with its categories."
        )
    if len(found) > max_states and column.categories is None:
        raise DataError(
            f"The column {column.name!r} has {len(found)} distinct values, more than max_states="
            f"{max_states}. Drop or bin it (pandas.cut), raise max_states or make it categorical."
        )
    if given is not None and given != len(found):
        raise DataError(
            f"The column {column.name!r} has {len(found)} labels, but its cardinality is given as "
            f"{given}. Make it categorical with all its categories."
        )
    return len(found), tuple(found)


def joint_columns(parts: Sequence[Columns], what: str) -> list[FrameColumn]:
    """The columns of all tables together, in the order of the first; `what` calls a table {}."""
    plain = Schema((None,) * len(parts[0].columns), parts[0].names)
    others = [
        plain.ordered(list(table.columns), table.names, what.format(number))
        for number, table in enumerate(parts[1:], 2)
    ]
    return [joint_column(columns) for columns in zip(parts[0].columns, *others, strict=True)]


def joint_column(parts: Sequence[FrameColumn]) -> FrameColumn:
    """One column of several tables, one after the other; labels that mean the same are one."""
    first = parts[0]
    kinds = {part.kind for part in parts}
    if kinds == {"number"}:
        return FrameColumn(first.name, "number", np.concatenate([part.values for part in parts]))
    labels: list[Label] = []
    values: list[Any] = []
    for part in parts:
        found = tables.match_labels(labels, part.distinct)
        pairs = list(zip(part.distinct, found, strict=True))
        meaning = {x: labels[i] if i >= 0 else x for x, i in pairs}
        labels += [x for x, i in pairs if i < 0]
        own = part.values.tolist() if part.kind == "number" else part.values
        values += [None if tables.is_missing(x) else meaning[x] for x in own]
    kind = "bool" if kinds == {"bool"} else "label"
    if first.categories is not None and len(labels) == len(first.categories):
        return FrameColumn(first.name, kind, values, first.categories)
    if len({isinstance(label, str) for label in labels}) == 2:
        values = [None if x is None else str(x) for x in values]
    return FrameColumn(first.name, kind, values)


def _labels(given: Any, n: int | None, what: str, convert: Any) -> tuple[Any, ...]:
    """Names, or labels of states, checked to be a sequence of so many different values."""
    values = () if isinstance(given, Mapping) or not isinstance(given, Iterable) else tuple(given)
    labels = tuple(map(convert, values))
    distinct = {*map(tables.label_key, labels)}
    if any(map(tables.is_missing, values)) or not len(distinct) == len(labels) == n:
        raise CircuitError(
            f"The {what} must be {n} different labels. Got {checks.preview(list(values) or given)}"
            "; give a sequence, none of which is missing."
        )
    return labels


def are_codes(labels: Sequence[Label]) -> bool:
    """Whether labels are the codes themselves, as numbers or as text."""
    plain = tuple(range(len(labels)))
    return tuple(labels) == plain or tuple(labels) == tuple(map(str, plain))


def look_like_numbers(labels: Sequence[Label]) -> bool:
    """Whether one of the labels is a number, or text that reads as one."""
    return any(tables.is_number(label) for label in labels)


def _could_be_codes(labels: Sequence[Label]) -> bool:
    """Whether a number may mean a label or a code: labels are numbers, but not the codes."""
    return look_like_numbers(labels) and not are_codes(labels)


def listed(names: Iterable[Any]) -> str:
    """The names or labels as a message shows them."""
    found = list(map(repr, names))
    more = f", ... ({len(found)} in all)" if len(found) > SHOWN else ""
    return (", ".join(found[:SHOWN]) or "none") + more


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
                f"Models are matched by names. Only the first has {listed(only[0])}, only the "
                f"second {listed(only[1])}. Rename them (with_names), or marginalize variables."
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
    found = tables.match_labels(first, second)
    if card == other.cardinalities[w] and set(found) == {-1}:
        if are_codes(first) and not look_like_numbers(second):
            return card, second, (), ()
        if are_codes(second) and not look_like_numbers(first):
            return card, first, (), ()
    new = [code for code, i in enumerate(found) if i < 0]
    if (new or len(first) > len(second)) and not union:
        raise CompatibilityError(
            f"The states of {one.call(v)} have other labels in the two models: {listed(first)} and "
            f"{listed(second)}. Relabel (with_names) or join them: align(p, q, states='union')."
        )
    labels = (*first, *(second[code] for code in new))
    mine = (*range(len(first)), *(-1 for _ in new)) if new else ()
    place = {i: code for code, i in enumerate(found)}
    theirs = (*(place.get(i, -1) for i in range(len(first))), *new)
    return len(labels), labels, mine, () if theirs == tuple(range(len(labels))) else theirs
