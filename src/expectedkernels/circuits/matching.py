"""How the variables and states of two models stand for each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from expectedkernels.circuits.frames import match_labels
from expectedkernels.circuits.schema import Schema, are_codes, listed, look_like_numbers
from expectedkernels.errors import CompatibilityError


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
        only = [sorted(set(a) - set(b)) for a, b in _both(one.names, other.names)]
        if any(only):
            raise CompatibilityError(
                "The two models must have the same variables, matched by their names. Only the "
                f"first has {listed(only[0])}, only the second {listed(only[1])}. Rename them "
                "with with_names, or sum out what is too much with marginalize."
            )
        variables = tuple(other.variable(name) for name in one.names)
    matched = [_match_states(one, v, other, w, union) for v, w in enumerate(variables)]
    schema = Schema(
        tuple(card for card, _, _, _ in matched),
        one.names if one.names is not None else other.names,
        tuple(labels for _, labels, _, _ in matched),
    )
    return Matching(
        schema,
        variables,
        tuple(second for _, _, _, second in matched),
        tuple(first for _, _, first, _ in matched),
    )


def _both(a: Any, b: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    return (a, b), (b, a)


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
