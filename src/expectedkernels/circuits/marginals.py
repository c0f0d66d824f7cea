"""Marginals as an answer: a list of arrays that knows the names of its variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from expectedkernels.arrays import to_numpy
from expectedkernels.circuits.schema import Schema

MOST_LINES = 60
"""How many lines a table prints before it is cut."""


class Marginals(list[Any]):
    """A list of one array per variable, also indexed by names, that prints as a table.

    Parameters
    ----------
    arrays : iterable of arrays
        Probabilities of the states of every variable, (cardinality,) or (rows, cardinality); mean
        and variance of a real one.
    schema : Schema

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8]]).with_names(["rain"], [["no", "yes"]])
    >>> p.marginals()["rain"].tolist()
    [0.2, 0.8]
    >>> p.marginals()
    variable  state  probability
    rain      no             0.2
              yes            0.8
    """

    def __init__(self, arrays: Iterable[Any], schema: Schema):
        super().__init__(arrays)
        self.schema = schema

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        return super().__getitem__(self.schema.variable(key) if isinstance(key, str) else key)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self), self.schema)

    def __repr__(self) -> str:
        lines = [("variable", "state", "probability")]
        for v, array in enumerate(self):
            lines += _lines(self.schema, v, to_numpy(array))
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        shown = [f"{a:{widths[0]}}  {b:{widths[1]}}  {c:>{widths[2]}}" for a, b, c in lines]
        if len(shown) > MOST_LINES:
            shown = [*shown[:MOST_LINES], f"... ({len(self)} variables in all)"]
        return "\n".join(line.rstrip() for line in shown)


def _lines(schema: Schema, variable: int, array: Any) -> list[tuple[str, str, str]]:
    """The lines of one variable."""
    name = str(schema.name(variable))
    card = schema.cardinalities[variable]
    rows: Any = schema.labels(variable) or range(card or 0)
    if card is None:
        rows = ("mean", "variance")
    if array.ndim != 1:
        return [(name, ", ".join(map(str, rows)), f"{len(array)} rows")]
    values = [f"{x:.6g}" for x in array.tolist()]
    return [
        ("" if i else name, str(label), value)
        for i, (label, value) in enumerate(zip(rows, values, strict=True))
    ]
