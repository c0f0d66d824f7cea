"""Evidence and points: what is known of the variables, row by row, checked against their domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.engine.patterns import Patterns, patterns, uniform
from expectedkernels.errors import DataError, EvidenceError
from expectedkernels.vtree import Vtree

Domains = Sequence[int | None]
"""The cardinality of every variable, None for real ones."""

FEW_ROWS = 32
"""With at most this many rows, finding shared patterns costs more than it saves."""


@dataclass(frozen=True, eq=False)
class Column:
    """What the rows say of one variable: distinct statements, and the statement of every row.

    Attributes
    ----------
    weights : array of shape (statements, cardinality), or None
        Of a discrete variable: the weight of each of its states.
    values : array of shape (statements,), or None
        Of a real variable: its value, NaN if it is not observed (at most once, and last).
    codes : int array of shape (rows,)
        The statement of every row.
    """

    weights: Any
    values: Any
    codes: Any

    @property
    def n_statements(self) -> int:
        """The number of distinct statements."""
        return len(self.values if self.weights is None else self.weights)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A batch of rows of evidence.

    Attributes
    ----------
    n_rows : int
    columns : list of Column
    """

    n_rows: int
    columns: list[Column]

    def rows(self, chosen: slice | Any) -> Evidence:
        """Some of the rows."""
        columns = []
        for column in self.columns:
            used, codes = np.unique(column.codes[chosen], return_inverse=True)
            columns.append(
                Column(
                    None if column.weights is None else column.weights[used],
                    None if column.values is None else column.values[used],
                    codes,
                )
            )
        return Evidence(len(columns[0].codes), columns)

    def patterns(self, vtree: Vtree) -> Patterns:
        """The distinct restrictions of the rows to every vtree node."""
        if self.n_rows <= FEW_ROWS:
            return uniform(vtree, self.n_rows)
        codes = [column.codes for column in self.columns]
        return patterns(vtree, codes, [column.n_statements for column in self.columns])


def as_evidence(evidence: Any, domains: Domains) -> Evidence:
    """Read evidence in any of its forms.

    A 2-D array with NaN for "not observed" (or 1-D for a single row); a list with one
    (rows, cardinality) array of weights per variable (None: not observed); or a mapping from
    variables to a value, a set of allowed values, or an array of weights, for a single row.
    """
    if isinstance(evidence, Evidence):
        return evidence
    if isinstance(evidence, Mapping):
        evidence = _from_mapping(evidence, domains)
    if isinstance(evidence, (list, tuple)) and any(
        x is None or np.ndim(x) == 2 for x in evidence
    ):
        return _from_weights(evidence, domains)
    rows = np.asarray(evidence, dtype=np.float64)
    rows = rows[None, :] if rows.ndim == 1 else rows
    _check_columns(rows, domains, EvidenceError, "Evidence")
    columns = []
    for variable, cardinality in enumerate(domains):
        x = rows[:, variable]
        if cardinality is None:
            if np.isinf(x).any():
                raise EvidenceError(
                    f"Evidence on the real variable {variable} must be finite or NaN. "
                    f"Got {x[np.isinf(x)][0]} in row {int(np.flatnonzero(np.isinf(x))[0])}."
                )
            values, codes = np.unique(x, return_inverse=True)
            columns.append(Column(None, values, codes.reshape(-1)))
            continue
        missing = np.isnan(x)
        _check_states(x, ~missing, cardinality, variable, EvidenceError, "Evidence")
        state = np.where(missing, cardinality, x).astype(np.intp)
        present, codes = _distinct(state, cardinality + 1)
        weights = np.vstack([np.eye(cardinality), np.ones((1, cardinality))])[present]
        columns.append(Column(weights, None, codes))
    return Evidence(len(rows), columns)


def as_points(X: Any, domains: Domains, what: str = "Points") -> Any:
    """Read complete points: a 2-D float array whose entries are inside the domains."""
    points = np.asarray(X, dtype=np.float64)
    points = points[None, :] if points.ndim == 1 else points
    _check_columns(points, domains, DataError, what)
    if np.isnan(points).any():
        row, column = np.argwhere(np.isnan(points))[0]
        raise DataError(
            f"{what} must be complete. Got NaN in row {row}, column {column}; missing values "
            "can be given as evidence (evidence_p=, evidence_q=) on a circuit."
        )
    for variable, cardinality in enumerate(domains):
        if cardinality is None:
            if np.isinf(points[:, variable]).any():
                raise DataError(f"{what} must be finite. Got infinity in column {variable}.")
        else:
            x = points[:, variable]
            _check_states(x, np.ones(len(x), dtype=np.bool_), cardinality, variable, DataError, what)
    return points


def _distinct(codes: Any, n: int) -> tuple[Any, Any]:
    """The codes that occur, and every code's place among them."""
    present = np.flatnonzero(np.bincount(codes, minlength=n))
    number = np.empty(n, dtype=np.intp)
    number[present] = np.arange(len(present))
    return present, number[codes]


def _check_columns(rows: Any, domains: Domains, error: type[ValueError], what: str) -> None:
    if rows.ndim != 2 or rows.shape[1] != len(domains):
        raise error(
            f"{what} must have shape (rows, {len(domains)}): one column per variable. "
            f"Got shape {rows.shape}."
        )


def _check_states(
    x: Any, given: Any, cardinality: int, variable: int, error: type[ValueError], what: str
) -> None:
    with np.errstate(invalid="ignore"):
        bad = given & ~((x >= 0) & (x < cardinality) & (x == np.floor(x)))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise error(
            f"{what} on variable {variable} must be integers in 0..{cardinality - 1}. "
            f"Got {x[row]} in row {row}."
        )


def _from_mapping(evidence: Mapping[Any, Any], domains: Domains) -> list[Any]:
    """A mapping as a list of weights, one row."""
    statements: list[Any] = [None] * len(domains)
    for variable, statement in evidence.items():
        if not (isinstance(variable, (int, np.integer)) and 0 <= variable < len(domains)):
            raise EvidenceError(
                f"Evidence is on variables 0..{len(domains) - 1}. Got {variable!r} instead."
            )
        cardinality = domains[variable]
        if isinstance(statement, AbstractSet):
            states = np.asarray(sorted(statement), dtype=np.float64)
        elif np.ndim(statement) == 0:
            states = np.asarray([statement], dtype=np.float64)
        else:
            statements[variable] = np.asarray(statement, dtype=np.float64)[None, :]
            continue
        if cardinality is None:
            if len(states) != 1:
                raise EvidenceError(
                    f"Evidence on the real variable {variable} must be one value. "
                    f"Got {statement!r} instead."
                )
            statements[variable] = states[None, :]
            continue
        if np.isnan(states).any():
            continue
        _check_states(states, np.ones(len(states), dtype=np.bool_), cardinality, int(variable),
                      EvidenceError, "Evidence")
        weights = np.zeros((1, cardinality))
        weights[0, states.astype(np.intp)] = 1.0
        statements[variable] = weights
    if not any(s is not None for s in statements):
        return [None] * (len(domains) - 1) + [_nothing(domains[-1])]
    return statements


def _nothing(cardinality: int | None) -> Any:
    """One row that says nothing."""
    return np.full((1, 1), np.nan) if cardinality is None else np.ones((1, cardinality))


def _from_weights(evidence: Sequence[Any], domains: Domains) -> Evidence:
    """A list with one array of weights per variable."""
    if len(evidence) != len(domains):
        raise EvidenceError(
            f"A list of weights needs one array per variable, {len(domains)} in all. "
            f"Got {len(evidence)}."
        )
    n_rows = {len(x) for x in evidence if x is not None}
    if len(n_rows) > 1:
        raise EvidenceError(
            f"All arrays of weights need as many rows. Got {sorted(n_rows)} rows."
        )
    rows = n_rows.pop() if n_rows else 1
    columns = []
    for variable, (given, cardinality) in enumerate(zip(evidence, domains, strict=True)):
        if given is None:
            nothing = _nothing(cardinality)
            codes = np.zeros(rows, dtype=np.intp)
            weights, values = (None, nothing[0]) if cardinality is None else (nothing, None)
            columns.append(Column(weights, values, codes))
            continue
        x = np.asarray(given, dtype=np.float64)
        if cardinality is None:
            if x.size != rows or np.isinf(x).any():
                raise EvidenceError(
                    f"Evidence on the real variable {variable} must be one finite value (or NaN) "
                    f"per row. Got an array of shape {x.shape}."
                )
            values, codes = np.unique(x.reshape(-1), return_inverse=True)
            columns.append(Column(None, values, codes.reshape(-1)))
            continue
        if x.shape != (rows, cardinality) or not np.isfinite(x).all() or (x < 0).any():
            raise EvidenceError(
                f"The weights of variable {variable} must be finite, non-negative and of shape "
                f"(rows, {cardinality}). Got an array of shape {x.shape}"
                + ("." if x.shape != (rows, cardinality) else " with other entries.")
            )
        weights, codes = np.unique(x, axis=0, return_inverse=True)
        columns.append(Column(weights, None, codes.reshape(-1)))
    return Evidence(rows, columns)
