"""Evidence for rows, and its distinct patterns below every vtree node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.arrays import RowsLike, VariableLike, distinct_below, distinct_pairs, to_cpu
from expectedkernels.checks import CircuitError, DataError, EvidenceError, KernelError, preview
from expectedkernels.data import tables
from expectedkernels.data.schema import Schema, match
from expectedkernels.vtree import Vtree

IntArray = np.ndarray[Any, np.dtype[np.intp]]


@dataclass(frozen=True, eq=False)
class Patterns:
    """The distinct restrictions of a batch of rows to the variables of every vtree node.

    Attributes
    ----------
    count : list of int
        The number of distinct restricted rows at every node.
    left, right : lists of int arrays, or None
        For every pattern of an inner node the pattern of its left and right child; None means
        pattern i has pattern i below it (and all are used).
    rows : int array, or None
        The pattern of every row at the root; None: row i has pattern i.
    """

    count: list[int]
    left: list[IntArray | None]
    right: list[IntArray | None]
    rows: IntArray | None

    @cached_property
    def is_uniform(self) -> bool:
        """Whether every node has one pattern per row, in the order of the rows."""
        return self.rows is None and all(x is None for x in self.left + self.right)

    def first_rows(self, vtree: Vtree) -> IntArray:
        """For every node and row the first row that has the same pattern there."""
        n_rows = self.count[-1] if self.rows is None else len(self.rows)
        every = np.arange(n_rows)
        code = np.tile(every, (vtree.n_nodes, 1))
        if self.rows is not None:
            code[-1] = self.rows
        for node in range(vtree.n_nodes - 1, -1, -1):
            for child, below in ((vtree.left, self.left), (vtree.right, self.right)):
                if child[node] >= 0:
                    index = below[node]
                    code[child[node]] = code[node] if index is None else index[code[node]]
            first = np.empty(self.count[node], dtype=np.intp)
            first[code[node, ::-1]] = every[::-1]  # the last one that is written stays
            code[node] = first[code[node]]
        return code


def uniform(vtree: Vtree, n_rows: int) -> Patterns:
    """One pattern per row everywhere: nothing to look up, good for few rows."""
    nothing: list[IntArray | None] = [None] * vtree.n_nodes
    return Patterns([n_rows] * vtree.n_nodes, nothing, nothing, None)


def patterns(vtree: Vtree, codes: Sequence[IntArray], counts: Sequence[int]) -> Patterns:
    """The patterns of rows given, for every variable, the code of each row and the number of codes.

    Cost: a sort of the rows per inner node, or less.
    """
    n_nodes, n_rows = vtree.n_nodes, len(codes[0])
    count = [n_rows] * n_nodes
    left: list[IntArray | None] = [None] * n_nodes
    right: list[IntArray | None] = [None] * n_nodes
    code: list[IntArray | None] = [None] * n_nodes  # None once every row has its own pattern
    nodes = zip(vtree.left.tolist(), vtree.right.tolist(), vtree.variable.tolist(), strict=True)
    for node, (a, b, variable) in enumerate(nodes):
        if variable >= 0:
            count[node], code[node] = int(counts[variable]), codes[variable]
            continue
        below = code[a], code[b]
        if code[a] is not None and code[b] is not None:
            pairs, place = distinct_pairs(code[a], code[b], (count[a], count[b]))
            if len(pairs[0]) < n_rows:
                below, count[node], code[node] = pairs, len(pairs[0]), place
        code[a] = code[b] = None
        for side, index, n in zip((left, right), below, (count[a], count[b]), strict=True):
            if index is not None and not (len(index) == n and (index == np.arange(n)).all()):
                side[node] = index
    return Patterns(count, left, right, code[vtree.root])


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
    values : array of shape (statements,) or (statements, columns), or None
        Of a real variable: its value, NaN if it is not observed (which comes last).
    codes : int array of shape (rows,)
        The statement of every row.
    logs : array of shape (statements, components), or None
        Of a real variable: the logs of what its components are multiplied by. None: by their
        densities at the value, where there is one (and at most one statement without).
    """

    weights: Any
    values: Any
    codes: Any
    logs: Any = None

    @property
    def n_statements(self) -> int:
        """The number of distinct statements."""
        return len(self.values if self.weights is None else self.weights)

    @property
    def observed(self) -> Any:
        """The observed values of a real variable, those of the first statements."""
        missing = np.isnan(self.values)
        return self.values[: np.count_nonzero(~(missing if missing.ndim == 1 else missing[:, 0]))]

    def take(self, rows: Any) -> Column:
        """What some of the rows say."""
        used, codes = np.unique(self.codes[rows], return_inverse=True)
        given = self.weights, self.values, self.logs
        weights, values, logs = (None if x is None else x[used] for x in given)
        return Column(weights, values, codes.reshape(-1), logs)


class Evidence:
    """A batch of rows of evidence.

    Parameters
    ----------
    domains : sequence of int or None
    rows : array of shape (rows, variables) with NaN, optional
        Checked values; the columns are made of them at their first use.
    columns : list of Column, optional

    Attributes
    ----------
    values : array of shape (rows, variables), or None
        The rows, None if they were given as weights of states.
    """

    def __init__(self, domains: Domains, rows: Any = None, columns: Sequence[Column] | None = None):
        self.domains, self.values = domains, rows
        self._columns = dict(enumerate(columns or ()))
        self._found: tuple[Vtree, Patterns] | None = None
        self.n_rows = len(rows) if rows is not None else len(self._columns[0].codes)

    def column(self, variable: int) -> Column:
        """What the rows say of one variable."""
        if variable not in self._columns:
            self._columns[variable] = _column(self.values[:, variable], self.domains[variable])
        return self._columns[variable]

    def state_weights(self, variables: Sequence[int]) -> Any:
        """Weights of the states of discrete variables, (variables, rows, cardinality)."""
        if self.values is None:
            columns = [self.column(v) for v in variables]
            return np.stack([column.weights[column.codes] for column in columns])
        cardinality: Any = self.domains[variables[0]]
        values = self.values[:, variables].T
        states = np.asarray(np.where(np.isnan(values), cardinality, values), dtype=np.intp)
        return _indicators(cardinality)[states]

    def rows(self, chosen: Any) -> Evidence:
        """Some of the rows: a slice, or an array of their numbers."""
        if isinstance(chosen, slice) and chosen == slice(0, self.n_rows):
            return self
        if self.values is not None:
            return Evidence(self.domains, self.values[chosen])
        columns = [self.column(v).take(chosen) for v in range(len(self.domains))]
        return Evidence(self.domains, columns=columns)

    def patterns(self, vtree: Vtree, few: int = FEW_ROWS) -> Patterns:
        """The distinct restrictions of the rows to every vtree node, kept for the next time.

        Of at most `few` rows none are put together.
        """
        if self.n_rows <= few:
            return uniform(vtree, self.n_rows)
        if self._found is None or self._found[0] != vtree:
            columns = [self.column(variable) for variable in range(len(self.domains))]
            codes, counts = [c.codes for c in columns], [c.n_statements for c in columns]
            self._found = vtree, patterns(vtree, codes, counts)
        return self._found[1]


ByVariable = Mapping[int, object] | Mapping[str, object] | Mapping[VariableLike, object]

EvidenceLike = RowsLike | ByVariable | Evidence
"""Rows with missing values, what is known by variable, or weights of all states."""


def _column(x: Any, cardinality: int | None) -> Column:
    """The statements of checked values, NaN for nothing."""
    if cardinality is None:
        values, codes = np.unique(x, return_inverse=True)
        return Column(None, values, codes.reshape(-1))
    states = np.where(np.isnan(x), cardinality, x).astype(np.intp)
    present, codes = distinct_below(states, cardinality + 1)
    return Column(_indicators(cardinality)[present], None, codes)


def _indicators(cardinality: Any) -> Any:
    """The weights of knowing each state, and, last, of knowing nothing."""
    return np.vstack([np.eye(cardinality), np.ones((1, cardinality))])


def as_evidence(evidence: Any, variables: Schema | Domains, single: bool = True) -> Evidence:
    """Read evidence in any of its forms.

    A 2-D array with NaN for "not observed", or a data frame; a list with one (rows, cardinality)
    array of weights per variable (None: not observed); or, for a single row, a mapping from
    variables (or names) to a value (or label), a set of allowed values, or an array of weights.
    A 1-D array is a single row too, unless `single` says that rows are meant.
    """
    if isinstance(evidence, Evidence):
        return evidence
    schema = variables if isinstance(variables, Schema) else Schema(tuple(variables))
    if not isinstance(evidence, np.ndarray):
        evidence = tables.as_table(_named_row(evidence))
    if isinstance(evidence, Mapping):
        lists = [x for x in evidence.values() if isinstance(x, (list, tuple)) and len(x)]
        kinds = {type(x) for column in lists for x in column}
        table = str in kinds or (len(lists) == schema.n_variables and kinds == {int})
        if table and not single:
            raise EvidenceError(
                f"A mapping is a single row. Got lists, {list(lists[0][:3])!r}: several rows are a "
                "data frame, pandas.DataFrame(X), states of one row a set, and weights an array."
            )
        return _from_mapping(evidence, schema)
    if not isinstance(evidence, np.ndarray) and _is_weights(evidence):
        return _from_weights(evidence, schema)
    rows = _read_rows(evidence, schema, "Evidence", EvidenceError, single)
    check_values(rows, schema, EvidenceError, "Evidence")
    return Evidence(schema.cardinalities, rows)


def matched_evidence(evidence: Any, before: Schema, after: Schema) -> Any:
    """Evidence in the order and codes of `before`, as evidence for a circuit with those of `after`.

    Names and labels would be found either way, positions and codes would not.
    """
    if before == after:
        return evidence
    read, matching = as_evidence(evidence, before), match(after, before)
    columns = []
    for v, codes in enumerate(matching.states):
        column = read.column(matching.variables[v])
        if column.weights is not None and codes:
            wider = np.hstack([column.weights, np.zeros((len(column.weights), 1))])
            column = Column(wider[:, list(codes)], None, column.codes)
        columns.append(column)
    return Evidence(after.cardinalities, columns=columns)


def is_batch(evidence: Any) -> bool:
    """Whether evidence comes in rows (a 2-D array, a list of weights) and not as a single row."""
    if isinstance(evidence, np.ndarray):
        return evidence.ndim == 2
    if isinstance(evidence, Evidence) or _is_weights(evidence) or tables.is_frame(evidence):
        return True
    if tables.is_labelled(evidence):
        return getattr(evidence, "ndim", 2) > 1
    return (evidence.ndim if hasattr(evidence, "ndim") else np.ndim(evidence)) == 2


def _named_row(evidence: Any) -> Any:
    """A row of a data frame, or a labelled array of one dimension, as a mapping from its names."""
    if getattr(evidence, "ndim", 0) != 1:
        return evidence
    labelled = tables.is_labelled(evidence)
    index = evidence.coords.get(evidence.dims[0]) if labelled else getattr(evidence, "index", None)
    if index is None or callable(index):
        return evidence
    names = np.asarray(index).tolist()
    named = all(isinstance(name, str) for name in names)
    return dict(zip(names, np.asarray(evidence).tolist(), strict=True)) if named else evidence


def is_plain(X: Any) -> bool:
    """Whether this is an array of doubles, read as it is."""
    return type(X) is np.ndarray and X.dtype == np.float64


def _read_rows(
    X: Any, schema: Schema, what: str, error: type[CircuitError], single: bool = False
) -> Any:
    """Rows of an array or a data frame as floats, one column per variable."""
    if not isinstance(X, np.ndarray) and tables.is_frame(X := tables.as_table(X)):
        return schema.read_frame(X)
    rows = X if is_plain(X) else tables.as_floats(X)
    if rows.ndim == 1 and single:
        rows = rows[None, :]
    check_rows(rows, what, error, len(schema.cardinalities))
    return rows


def check_rows(
    rows: Any,
    what: str,
    error: type[CircuitError] = DataError,
    width: int | None = None,
    least: int = 0,
    unit: str = "row",
) -> None:
    """Raise unless an array has rows, at least so many, with one column per variable."""
    if rows.ndim == 1:
        raise error(
            f"{what} must be a 2-D array, one row each. Got a 1-D array of {len(rows)} numbers: "
            "reshape it, by X.reshape(-1, 1) if these are values of one variable, or by "
            "X.reshape(1, -1) if they are a single row."
        )
    if rows.ndim != 2 or width not in (None, rows.shape[1]) or len(rows) < least:
        many = f" with at least {f'{least} {unit}s' if least > 1 else f'one {unit}'}" * (least > 0)
        raise error(
            f"{what} must have shape ({unit}s, {width or 'variables'}){many}: one column per "
            f"variable. Got shape {rows.shape}."
        )


def number_rows(*given: Any, what: str, error: type[CircuitError] = KernelError) -> list[Any]:
    """Tables as they are, and data frames as numbers, with columns in the order of the first."""
    schema, found = None, []
    for table in given:
        if tables.is_frame(table):
            columns = tables.frame_columns(table)
            for column in columns:
                if column.kind == "label":
                    raise error(
                        f"{what} numbers. The column {column.name!r} holds labels: give codes, or "
                        "compare distributions (expected_kernel, mmd), which read labels."
                    )
            schema = schema or Schema((None,) * len(columns), tables.column_names(table))
            table = schema.read_frame(table, "The second data frame")
        found.append(table)
    return found


def _is_weights(evidence: Any) -> bool:
    """Whether evidence is a list of arrays of weights, one per variable."""
    if not isinstance(evidence, (list, tuple)):
        return False
    dimensions = [np.ndim(x) for x in evidence if x is not None]
    # a single row such as [0, None, 1] has numbers beside what is missing
    return 2 in dimensions or (len(dimensions) < len(evidence) and 0 not in dimensions)


def as_points(X: Any, variables: Schema | Domains, what: str = "Points") -> Any:
    """Read complete points: a 2-D float array whose entries are inside the domains."""
    schema = variables if isinstance(variables, Schema) else Schema(tuple(variables))
    points = _read_rows(X, schema, what, DataError)
    if np.isnan(points).any():
        row, column = (int(i) for i in np.argwhere(np.isnan(points))[0])
        raise DataError(
            f"{what} must be complete. Got NaN in row {{row}}, column {column}; missing values "
            "can be given as evidence (evidence_p=, evidence_q=) on a circuit.",
            row=row,
        )
    check_values(points, schema, DataError, what)
    return points


def check_values(rows: Any, schema: Schema, error: type[CircuitError], what: str) -> None:
    """Raise unless all entries that are not NaN are states, or finite for real variables."""
    domains = schema.cardinalities
    above = np.asarray([np.inf if c is None else c for c in domains], dtype=np.float64)
    real = np.isinf(above)
    wrong = (rows < 0) | (rows >= above) | ((rows != np.floor(rows)) & ~np.isnan(rows))
    if real.any():
        wrong = np.where(real, np.isinf(rows), wrong)
    if not wrong.any():
        return
    row, variable = (int(i) for i in np.argwhere(wrong)[0])
    cardinality = domains[variable]
    wanted = "finite" if cardinality is None else f"integers in 0..{cardinality - 1}"
    hint = ""
    known = rows[:, variable][~np.isnan(rows[:, variable])]
    if cardinality is not None and known.min() >= 1 and known.max() == cardinality:
        hint = " Codes are counted from 0; if yours are counted from 1, subtract 1."
    raise error(
        f"{what} on {schema.call(variable)} must be {wanted}. "
        f"Got {rows[row, variable]} in row {{row}}.{hint}",
        row=row,
    )


def _from_mapping(evidence: Mapping[Any, Any], schema: Schema) -> Evidence:
    """One row: observed values, else weights of states."""
    domains = schema.cardinalities
    row, soft, seen = np.full((1, len(domains)), np.nan), dict[int, Any](), set[int]()
    for key, value in evidence.items():
        variable = schema.variable(key)
        if variable in seen:
            raise EvidenceError(
                f"Evidence says one thing about a variable. V{schema.call(variable)[1:]} is "
                "given twice, by its number and by its name."
            )
        seen.add(variable)
        if domains[variable] is None:
            row[0, variable] = _real_values(value, schema, variable, 1).item()
        elif isinstance(value, (str, int, float, np.number)) and not tables.is_missing(value):
            row[0, variable] = schema.state(variable, value)
        elif not tables.is_missing(value):
            weights = _state_weights(schema, variable, to_cpu(value))
            soft[variable] = _weight_column(weights, schema, variable, 1)
    if not soft:
        return Evidence(domains, row)
    columns = [soft.get(v) or _column(row[:, v], card) for v, card in enumerate(domains)]
    return Evidence(domains, columns=columns)


def _state_weights(schema: Schema, variable: int, given: Any) -> Any:
    """The weights of the states of a discrete variable, one row: given as such, or as states."""
    states = given if isinstance(given, AbstractSet) else [given]
    if np.ndim(given) == 1 and not isinstance(given, range):
        states = [x.item() if isinstance(x, np.generic) else x for x in given]
        if not any(isinstance(x, str) for x in states):
            labels = schema.labels(variable) or ()
            codes = [*map(repr, labels)] == [*map(repr, range(len(labels)))]  # True is no code
            known, found = ({(type(x), x) for x in xs} for xs in (labels, states))
            if states and found <= known and len(found) == len(states) and not codes:
                raise EvidenceError(
                    f"Evidence on {schema.call(variable)} could be states or weights of the "
                    f"states. Got {states!r}; states are a set, weights an array of floats."
                )
            return tables.as_floats(given)[None, :]
    elif np.ndim(given) > 0:
        raise EvidenceError(
            f"Evidence on {schema.call(variable)} is a state, a set of states or one weight per "
            f"state. Got {given!r}; for states write set({given!r})."
        )
    weights = np.zeros((1, schema.cardinalities[variable] or 0))
    for state in states:
        weights[0, schema.state(variable, state)] = 1.0
    return weights


def _from_weights(evidence: Sequence[Any], schema: Schema) -> Evidence:
    """A list with one array of weights per variable."""
    domains = schema.cardinalities
    if len(evidence) != len(domains):
        raise EvidenceError(
            f"A list of weights needs one array per variable, {len(domains)} in all. "
            f"Got {len(evidence)}."
        )
    n_rows = {len(x) for x in evidence if x is not None}
    if len(n_rows) > 1:
        raise EvidenceError(f"All arrays of weights need as many rows. Got {sorted(n_rows)} rows.")
    rows = n_rows.pop() if n_rows else 1
    columns = []
    for variable, (given, cardinality) in enumerate(zip(evidence, domains, strict=True)):
        if given is not None and cardinality is not None:
            columns.append(_weight_column(given, schema, variable, rows))
            continue
        given = np.full(rows, np.nan) if given is None else given
        columns.append(_column(_real_values(given, schema, variable, rows), cardinality))
    return Evidence(domains, columns=columns)


def _real_values(given: Any, schema: Schema, variable: int, rows: int) -> Any:
    """The values of a real variable in rows, NaN where it is not observed."""
    try:
        x = tables.as_floats(list(given) if isinstance(given, AbstractSet) else given)
    except (TypeError, ValueError):
        x = np.empty(0)
    if x.size != rows or np.isinf(x).any():
        many = "" if rows == 1 else " (or NaN) in every row"
        raise EvidenceError(
            f"Evidence on the real {schema.call(variable)} must be one finite value{many}. "
            f"Got {preview(given)} instead."
        )
    return x.reshape(-1)


def _weight_column(given: Any, schema: Schema, variable: int, rows: int) -> Column:
    """What rows of weights of the states of a variable say."""
    x, cardinality = tables.as_floats(given), schema.cardinalities[variable]
    if x.shape != (rows, cardinality) or not np.isfinite(x).all() or (x < 0).any():
        raise EvidenceError(
            f"The weights of {schema.call(variable)} must be finite, non-negative and of shape "
            f"(rows, {cardinality}). Got an array of shape {x.shape}"
            + ("." if x.shape != (rows, cardinality) else " with other entries.")
        )
    weights, codes = np.unique(x, axis=0, return_inverse=True)
    return Column(weights, None, codes.reshape(-1))
