"""Weighted points as a distribution, and all that kernels are averaged over."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import Array, RowsLike
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import refuse_flat
from expectedkernels.circuits.frames import column_names, frame_columns, is_frame
from expectedkernels.circuits.numbers import as_floats
from expectedkernels.circuits.schema import Schema, frame_schema, joint_column
from expectedkernels.circuits.units import Unit
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.errors import DataError
from expectedkernels.kernels.rows import sample_table


class Empirical:
    """Weighted points as a distribution.

    Parameters
    ----------
    X : array of shape (points, variables) or (chains, points, variables), or data frame
        The columns of a frame (or of labelled arrays and datasets of xarray and arviz) are matched
        with the variables of what it is compared with, by their names.
    weights : array of shape (points,), optional
        Used as they are. Default: equal and summing to one.

    Raises
    ------
    DataError
        If there are no points, or not as many finite weights as points.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> q = ek.Empirical([[0, 0], [1, 1]], [0.25, 0.75])
    >>> float(ek.expected_kernel(q, q, ek.Delta()))
    0.625
    """

    _numbers: Any = None

    def __init__(self, X: RowsLike, weights: ArrayLike | None = None):
        table = sample_table(X)
        self.frame = table if is_frame(table) and len(table) else None
        self.schema = None if self.frame is None else shared_schema(table)
        if self.schema is not None:
            points = self.schema.read_frame(table)
        else:  # an empty frame has no entries that are labels or numbers
            points = np.zeros(table.shape) if is_frame(table) else np.array(table)
        refuse_flat(points, "Points")
        if points.ndim != 2 or not len(points):
            raise DataError(
                f"Points must have shape (points, variables) with at least one point. "
                f"Got shape {points.shape}."
            )
        n = len(points)
        share = np.full(n, 1.0 / n) if weights is None else np.array(as_floats(weights))
        if share.shape != (n,) or not np.isfinite(share).all():
            raise DataError(
                f"An empirical distribution of {n} points needs as many finite weights. "
                f"Got shape {share.shape}."
            )
        self.X, self.weights = points, share

    @property
    def numbers(self) -> Array:
        """The numbers of the points in the table that they come from."""
        return np.arange(len(self.X)) if self._numbers is None else self._numbers

    def on(self, schema: Schema) -> Empirical:
        """The distribution with points in the codes and the order of given variables."""
        if self.frame is None:
            return self
        found = Empirical(schema.read_frame(self.frame), self.weights)
        found.schema = schema
        return found

    def counted(self) -> Empirical:
        """The same distribution without the points of weight zero, whose values do not matter.

        Returns
        -------
        Empirical

        Examples
        --------
        >>> Empirical([[0.0], [float("nan")]], [1.0, 0.0]).counted().X.tolist()
        [[0.0]]
        """
        used = np.flatnonzero(self.weights)
        return self if len(used) in (0, len(self.X)) else self._some(used, self.weights[used])

    def _some(self, used: Any, weights: Any) -> Empirical:
        """Some of the points, with other weights."""
        found = copy(self)
        found.X, found._numbers = self.X[used], self.numbers[used]
        found.weights, found.frame = weights, None
        return found

    def merged(self) -> Empirical:
        """The same distribution with equal points put together.

        Returns
        -------
        Empirical

        Examples
        --------
        >>> Empirical([[0], [0], [1]]).merged().weights.round(3).tolist()
        [0.667, 0.333]
        """
        _, first, place = np.unique(self.X, axis=0, return_index=True, return_inverse=True)
        weights = np.zeros(len(first))
        np.add.at(weights, place.reshape(-1), self.weights)
        return self._some(first, weights)

    def __repr__(self) -> str:
        return f"<Empirical distribution of {len(self.X)} points, {self.X.shape[1]} variables>"


DistributionLike = Circuit | FactorGraph | Unit | Empirical | RowsLike
"""What kernels are averaged over; models of other libraries are converted to one of these."""


def shared_schema(*frames: Any) -> Schema:
    """The names of the columns of data frames, and the states that they have together.

    Columns of numbers are taken as they are.
    """
    names = column_names(frames[0])
    first = frame_columns(frames[0])
    plain = Schema((None,) * len(first), names)
    others = [plain.ordered(frame_columns(f), column_names(f), "A frame") for f in frames[1:]]
    columns = [joint_column(parts) for parts in zip(first, *others, strict=True)]
    return frame_schema(columns, names, max_states=len(columns[0].values) + 2, numbers=True)
