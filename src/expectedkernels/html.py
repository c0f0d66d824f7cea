"""Numbers and tables as small pieces of HTML, with everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

NOTEBOOK = ' style="font-size: smaller; color: inherit; background: none"'
"""How tables look in a notebook, light or dark."""


def cell(value: Any) -> str:
    """A value as people read it: four digits, "yes" and "no", and a dash where there is nothing.

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
        return "-" if np.isnan(value) else f"{value:.4g}"
    return escape(str(value))


def table(columns: Sequence[Any], rows: Iterable[Sequence[Any]], attributes: str = "") -> str:
    """A table: numbers to the right, everything else to the left.

    Examples
    --------
    >>> table(["name", "size"], [["a", 1]])
    '<table><tr><th>name<th>size<tr><td>a<td class="n">1</table>'
    """
    head = "".join(f"<th>{cell(name)}" for name in columns)
    body = "".join("<tr>" + "".join(map(_entry, row)) for row in rows)
    return f"<table{attributes}>{f'<tr>{head}' if head else ''}{body}</table>"


def _entry(value: Any) -> str:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return f'<td class="n">{cell(value)}' if is_number else f"<td>{cell(value)}"


def pairs(found: Mapping[str, Any], attributes: str = "") -> str:
    """A table of names and values.

    Examples
    --------
    >>> pairs({"units": 3})
    '<table><tr><th>units<td class="n">3</table>'
    """
    rows = "".join(f"<tr><th>{cell(name)}{_entry(value)}" for name, value in found.items())
    return f"<table{attributes}>{rows}</table>"
