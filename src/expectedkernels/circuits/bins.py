"""Columns of numbers cut into bins whose names say where they begin and end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from expectedkernels.circuits.frames import FrameColumn

DIGITS = 6
"""Bins end at numbers of so many digits, unless their ends differ in later ones only."""
FIRST_BIN, BIN = re.compile(r"below (\S+)"), re.compile(r"(\S+) to (\S+)")


def binned(column: FrameColumn, n_bins: int) -> FrameColumn:
    """The column as names of bins, with equal shares of its finite values as far as ties allow.

    Examples
    --------
    >>> found = binned(FrameColumn("x", "number", np.array([1.0, 2.5, np.nan, 3.0, 7.0])), 2)
    >>> found.values
    ['below 2.75', 'below 2.75', None, '2.75 or more', '2.75 or more']
    """
    x = column.values
    low, high = np.nanmin(x), np.nanmax(x)
    exact = np.unique(np.nanquantile(x, np.arange(1, n_bins) / n_bins))
    exact = exact[exact > low]  # a bin begins at an edge, and none is before the smallest value
    if not len(exact):  # nearly all values are the smallest
        exact = np.array([x[x > low].min()])
    edges = np.unique([float(f"{edge:.{DIGITS}g}") for edge in exact])
    kept = len(edges) == len(exact) and edges[0] > low and edges[-1] <= high
    edges = edges if kept else exact
    return in_bins(column, edges, bin_names(edges))


def in_bins(column: FrameColumn, edges: Any, names: Sequence[Any]) -> FrameColumn:
    """A column of numbers as the names of the bins that they are in."""
    x = column.values
    places = np.searchsorted(edges, x, side="right").tolist()
    values = [None if v != v else names[i] for v, i in zip(x.tolist(), places, strict=True)]
    return FrameColumn(column.name, "label", values, list(names))


def bin_names(edges: Any) -> tuple[str, ...]:
    """The names of the bins between edges.

    Examples
    --------
    >>> bin_names([0.5, 2.0])
    ('below 0.5', '0.5 to 2', '2 or more')
    """
    short = [f"{edge:.{DIGITS}g}" for edge in edges]
    pairs = zip(short, edges, strict=True)
    ends = [word if float(word) == edge else repr(float(edge)) for word, edge in pairs]
    between = (f"{low} to {high}" for low, high in pairwise(ends))
    return (f"below {ends[0]}", *between, f"{ends[-1]} or more")


def edges_of(labels: Sequence[Any] | None) -> Any:
    """Where bins with these names begin, None if these are no names of bins.

    Examples
    --------
    >>> edges_of(["below 0.5", "0.5 to 2", "2 or more"]).tolist()
    [0.5, 2.0]
    """
    if not labels or not isinstance(labels[0], str) or not FIRST_BIN.fullmatch(labels[0]):
        return None
    found = [FIRST_BIN.fullmatch(labels[0])]
    found += [BIN.fullmatch(str(label)) for label in labels[1:-1]]
    try:
        edges = np.array([float(match[match.lastindex or 1]) for match in found if match])
    except ValueError:
        return None
    same = len(edges) == len(labels) - 1 and bin_names(edges) == tuple(labels)
    return edges if same else None
