"""Numbers and tables as small pieces of HTML, with everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

NOTEBOOK = ' style="font-size: smaller; color: inherit; background: none; text-align: left"'
"""How tables look in a notebook, light or dark."""

RIGHT = ' class="n"'
"""Of cells in columns of numbers."""


def number(value: float, digits: int = 4, sign: str = "") -> str:
    """A number as people write it, with commas between thousands where it has more digits.

    Examples
    --------
    >>> number(14312.3), number(-0.123456), number(14312.3, 3, "+"), number(2e-7)
    ('14,310', '-0.1235', '+14,300', '2e-07')
    """
    rounded = float(f"{value:.{digits}g}")
    if 10.0**digits <= abs(rounded) < 1e15:
        return f"{rounded:{sign},.0f}"
    return f"{rounded:{sign}.{digits}g}"


def cell(value: Any) -> str:
    """A value as people read it: four digits, "yes" and "no", and a dash where there is nothing.

    What comes after plus or minus stays in the line.

    Examples
    --------
    >>> cell(0.123456), cell(None), cell(True), cell("<b>"), cell(12345)
    ('0.1235', '-', 'yes', '&lt;b&gt;', '12345')
    """
    if value is None:
        return "-"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "-" if np.isnan(value) else number(float(value))
    return escape(str(value)).replace(" \N{PLUS-MINUS SIGN} ", "&nbsp;\N{PLUS-MINUS SIGN}&nbsp;")


def table(columns: Sequence[Any], rows: Iterable[Sequence[Any]], attributes: str = "") -> str:
    """A table: columns of numbers to the right, everything else to the left.

    Examples
    --------
    >>> table(["name", "size"], [["a", 1]])
    '<table><tr><th>name<th class="n">size<tr><td>a<td class="n">1</table>'
    """
    rows = [list(row) for row in rows]
    right = [i for i in range(len(columns)) if any(_is_number(row[i]) for row in rows)]
    lines = [("th", columns), *(("td", row) for row in rows)]
    inside = "".join(
        "<tr>"
        + "".join(
            f"<{tag}{RIGHT if i in right else ''}>{cell(value)}" for i, value in enumerate(values)
        )
        for tag, values in lines
    )
    return f"<table{attributes}>{inside}</table>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def pairs(found: Mapping[str, Any], attributes: str = "") -> str:
    """A table of names and values.

    Examples
    --------
    >>> pairs({"units": 3})
    '<table><tr><th>units<td>3</table>'
    """
    rows = "".join(f"<tr><th>{cell(name)}<td>{cell(value)}" for name, value in found.items())
    return f"<table{attributes}>{rows}</table>"


def overview(title: str, found: Mapping[str, Any], below: str = "") -> str:
    """What notebooks show: a title, a table of names and values, and perhaps a drawing.

    Examples
    --------
    >>> overview("<Circuit>", {}).startswith("<div><b>Circuit</b>")
    True
    """
    return f"<div><b>{cell(title.strip('<>'))}</b>{pairs(found, NOTEBOOK)}{below}</div>"
