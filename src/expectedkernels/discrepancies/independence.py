"""Tests of conditional independence, and of equal conditional distributions, of mixed columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from expectedkernels import arrays, checks
from expectedkernels.arrays import Array, RngLike, RowsLike, VariablesLike
from expectedkernels.checks import DataError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.data import tables
from expectedkernels.data.schema import joint_columns, listed
from expectedkernels.data.tables import Columns, FrameColumn
from expectedkernels.discrepancies import hypothesis_tests as tests
from expectedkernels.kernels.kernel import ExpHamming, Kernel, require_kernel
from expectedkernels.learning.strudel import learn_mixture
from expectedkernels.learning.training_data import MAX_STATES

GAMMA = 0.5
"""That of the default kernel of the given columns."""
EM_TOLERANCE = 0.001
"""Mixtures are learned until a step gains less in the mean log-likelihood."""
COMPLETIONS = 50
"""How many completions of an incomplete row are drawn, one of which is taken."""
LEAST_ROWS = 20
CERTAIN = 0.999
"""A column is constant given others if a state of every row has this probability."""
SPARSE = 1000
"""So many joint states of the given columns for every row leave a density to guess."""

DensityLike = tuple[str, int] | Callable[[Array, Sequence[int]], Circuit]
"""("mixture", components), or a function from states and cardinalities to a circuit."""
ColumnsLike = RowsLike | VariablesLike
"""Columns, or their names."""


@dataclass(frozen=True, eq=False)
class Independence(tests.SignificanceTest):
    """The result of `independence_test` and `conditional_two_sample_test`.

    Attributes
    ----------
    statistic, p_value, null, drawn, kernel
        As for all tests; the kernel is that of the given columns.
    n : int
        The number of rows.
    n_used : int
        The number of rows with values of x and y.
    """

    n: int
    n_used: int

    _title = "Are columns conditionally independent?"
    _claim = "x and y are independent given the other columns"
    _counts = ("n_used",)


def independence_test(
    x: ColumnsLike,
    y: ColumnsLike,
    given: ColumnsLike | None = None,
    *,
    data: RowsLike | None = None,
    density: DensityLike = ("mixture", 8),
    n_bins: int = 8,
    n_null: int = 199,
    k: Kernel | None = None,
    rng: RngLike = None,
) -> Independence:
    r"""A test of the hypothesis that columns are independent given other columns.

    .. math:: T = \sum_{i, j} \langle \tilde x_i, \tilde x_j \rangle
              \langle \tilde y_i, \tilde y_j \rangle\, k(z_i, z_j), \qquad
              \tilde x_i = e_{x_i} - p(\cdot \mid z_i), \quad
              \tilde y_i = e_{y_i} - p(\cdot \mid z_i)

    with indicators e of states, and conditional distributions of circuits that are learned from
    the rows. T is ranked among its values with x drawn from :math:`p(x \mid z_i)` in every row.

    Parameters
    ----------
    x, y : array, series or data frame; or names of columns of `data`
        Text, categories and numbers, NaN (or None) for missing values. Several columns count as
        one, with their joint states.
    given : the same, optional
        The columns that are conditioned on. Default: none, and x is permuted, which is exact.
    data : data frame or array, optional
        The table that `x`, `y` and `given` name columns of.
    density : ("mixture", int) or function
        How p(x, z) and p(y, z) are learned: mixtures of so many trees, or a function of an array of
        states and their numbers (a sequence of int) that returns a circuit. A single tree misses
        interactions of z, and then rejects true hypotheses.
    n_bins : int
        Numbers of more distinct values are divided into so many bins of equal shares.
    n_null : int
        How often x is drawn; the p-value is a multiple of 1 / (n_null + 1).
    k : Kernel, optional
        Of the states of the given columns. Default: ``ExpHamming(0.5)``.
    rng : int, Generator or None
        Seed or generator of random numbers; an int makes results reproducible.

    Returns
    -------
    Independence
        With ``statistic``, ``p_value``, ``null``, ``n`` and ``n_used``.

    Raises
    ------
    DataError
        If a column is both tested and given, or constant given the others, if columns have other
        numbers of rows, or if fewer than 20 rows are left.

    Notes
    -----
    The level is as good as the fit of p(x | z) *or* of p(y | z): both sides are centred, so that
    the errors of the two multiply. A warning tells if the given columns have far more joint states
    than there are rows. Numbers among them are compared by bins, and what they tell within a bin
    remains as a dependence.

    Rows without x or y are left out, which is valid if missingness depends on the given columns
    only. Missing values of the given columns are completed under the hypothesis: of 50
    completions drawn from p(z | x, observed z), one is taken with weights p(y | z).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> rng = np.random.default_rng(0)
    >>> z = rng.integers(3, size=300)
    >>> x, y = ((z + (rng.random(300) < 0.3)) % 3 for _ in range(2))
    >>> ek.independence_test(x, y, rng=0).p_value
    0.005
    >>> ek.independence_test(x, y, given=z, rng=0).p_value > 0.05
    True
    """
    named = {"'x'": x, "'y'": y, "'given'": given}
    if given is None or (isinstance(given, (list, tuple)) and not given):
        del named["'given'"]
    parts = [_read(name, part, data) for name, part in named.items()]
    columns = [list(part.columns) for part in parts]
    names = [column.name for own in columns for column in own]
    if data is not None and len(set(names)) < len(names):
        again = next(name for name in names if names.count(name) > 1)
        what = f"Column {again!r} is named twice in 'x', 'y' and 'given'"
        raise DataError(f"{what}. A column is tested or given.")
    return _test(columns, density, n_bins, n_null, k, rng)


def conditional_two_sample_test(
    first: tuple[RowsLike, RowsLike],
    second: tuple[RowsLike, RowsLike],
    *,
    density: DensityLike = ("mixture", 8),
    n_bins: int = 8,
    n_null: int = 199,
    k: Kernel | None = None,
    rng: RngLike = None,
) -> Independence:
    """A test of the hypothesis that y given X has the same distribution in two samples.

    The distributions of X may differ. It is the test of `independence_test` of y and the sample
    that a row comes from, given X.

    Parameters
    ----------
    first, second : pair of (X, y)
        Columns, as for `independence_test`; columns of data frames are matched by name.
    density, n_bins, n_null, k, rng
        As for `independence_test`.

    Returns
    -------
    Independence

    Raises
    ------
    DataError
        As for `independence_test`.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> rng = np.random.default_rng(0)
    >>> X1, X2 = rng.random((200, 1)) < 0.5, rng.random((200, 1)) < 0.8
    >>> y1, y2 = (X[:, 0] ^ (rng.random(200) < 0.2) for X in (X1, X2))
    >>> ek.conditional_two_sample_test((X1, y1), (X2, y2), rng=0).p_value > 0.05
    True
    >>> ek.conditional_two_sample_test((X1, y1), (X2, ~y2), rng=0).p_value
    0.005
    """
    for number, sample in enumerate((first, second), 1):
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            what = f"Sample {number} is a {type(sample).__name__}"
            raise DataError(f"Samples are pairs (X, y) of columns. {what}, and no pair.")
    pairs = [[_read("A sample", part, None) for part in sample] for sample in (first, second)]
    X, y = (joint_columns(parts, "Sample {}") for parts in zip(*pairs, strict=True))
    which = FrameColumn("sample", "number", np.repeat([0.0, 1.0], [len(y) for _, y in pairs]))
    return _test([[which], y, X], density, n_bins, n_null, k, rng)


def as_columns(table: Any, what: str, only: Sequence[str] | None = None) -> Columns:
    """The columns of a data frame (or some of them) or of an array, called `what` in errors."""
    table = tables.as_table(table)
    if tables.is_frame(table):
        columns, names = tables.frame_columns(table, only), tables.column_names(table)
    else:
        array = np.asarray(table)
        if isinstance(table, np.ma.MaskedArray):  # what is masked is missing
            array = np.where(np.ma.getmaskarray(table), np.array(None), array)
        if array.ndim != 2:
            rule = "A table is a data frame, or an array of shape (rows, columns)"
            raise DataError(f"{rule}. {what} has shape {array.shape}.")
        columns, names = [tables.array_column(str(i), x) for i, x in enumerate(array.T)], None
    if not columns and only is None:
        raise DataError(f"{what} has no columns.")
    return Columns(tuple(columns), names)


def column_states(column: FrameColumn, n_bins: int) -> tuple[Any, tuple[Any, ...]]:
    """The levels of a column, NaN where it has no value, and their labels: at least two.

    Labels, and numbers of which there are few, are levels; other numbers are divided into bins
    with equal shares of the rows.
    """
    many = column.kind == "number" and len(column.distinct) > n_bins
    infinite = many and np.isinf(column.values).any()
    column = tables.binned(column, n_bins) if many and not infinite else column
    labels, wrong = column.distinct, ""
    if not labels:
        wrong = "no value in any row. Leave it out"
    elif infinite:
        wrong = "infinite values. Put NaN for what is not known"
    elif len(labels) > MAX_STATES:
        wrong = f"{len(labels)} different labels, which are too many for states. If it is an "
        wrong += "identifier, leave it out; else put labels together"
    if wrong:
        raise DataError(f"Column {column.name!r} has {wrong}.")
    if len(labels) == 1:
        labels = [*labels, "another value"]
    codes = {label: float(code) for code, label in enumerate(labels)}
    values = column.values.tolist() if column.kind == "number" else column.values
    return np.asarray([codes.get(x, np.nan) for x in values]), tuple(labels)


def _read(name: str, part: Any, data: Any) -> Columns:
    """The columns that an argument holds, or names."""
    if data is None:
        column = not tables.is_frame(part) and np.ndim(part) == 1
        return as_columns(np.asanyarray(part)[:, None] if column else part, name)
    keys = list(map(str, [part] if isinstance(part, str) or checks.is_int(part) else part))
    if not keys:
        raise DataError(f"{name} names no column.")
    found = as_columns(data, "'data'", keys)
    known = {column.name: column for column in found.columns}
    for key in keys:
        if key not in known:
            what = f"{name} names column {key!r}, which 'data' does not have"
            raise DataError(f"{what}. It has {listed(found.names or range(np.shape(data)[1]))}.")
    return Columns(tuple(known[key] for key in keys), tuple(keys))


def _test(
    parts: list[list[FrameColumn]], density: Any, n_bins: int, n_null: int, k: Any, rng: Any
) -> Independence:
    """The test of x and y, the first two sets of columns, given the third if there is one."""
    checks.check_count("independence_test", "n_bins", n_bins, 2, error=DataError)
    checks.check_count("independence_test", "n_null", n_null, 1, error=DataError)
    k = ExpHamming(GAMMA) if k is None else k
    require_kernel(k)
    sizes = {len(column.values) for own in parts for column in own}
    if len(sizes) > 1:
        raise DataError(f"All columns need the same number of rows. Got {listed(sorted(sizes))}.")
    states = [[column_states(column, n_bins) for column in own] for own in parts]
    codes = [np.stack([code for code, _ in own], axis=1) for own in states]
    used = ~np.isnan(np.hstack(codes[:2])).any(axis=1)
    n, n_used, generator = len(used), int(used.sum()), tests.null_generator(rng)
    if n_used < LEAST_ROWS:
        what = f"{n_used} of {n} rows have values of x and y, and the test needs {LEAST_ROWS}"
        raise DataError(f"{what}. Leave out columns that are mostly missing.")
    x, y = (np.unique(own[used], axis=0, return_inverse=True)[1].ravel() for own in codes[:2])
    if (most := int(max(x.max(), y.max())) + 1) > MAX_STATES:
        what = f"Several columns are tested by their joint states, at most {MAX_STATES}"
        raise DataError(f"{what}. Got {most}: test fewer columns, or with fewer bins.")
    if len(parts) < 3:
        Z, kind = np.zeros((n_used, 1)), "permutations"
        P, Q = (np.tile(np.bincount(v) / n_used, (n_used, 1)) for v in (x, y))
        draws = [x, *(generator.permutation(x) for _ in range(n_null))]
    else:
        Z, kind = codes[2][used], "conditional"
        cards = [len(labels) for _, labels in states[2]]
        if (n_joint := prod(cards)) > SPARSE * n_used:
            what = f"The given columns have {n_joint:.3g} joint states and there are {n_used} rows"
            advice = "Give fewer columns, or fewer bins"
            warnings.warn(f"{what}: the level is as good as the fit. {advice}.", stacklevel=3)
        models = [_learn(density, np.column_stack([v, Z]), cards, generator) for v in (x, y)]
        Z = _completed(models, x, y, Z, generator)
        P, Q = (_conditionals(model, Z) for model in models)
        edges = arrays.cumulative(P)
        draws = [x, *(arrays.inverse_cdf(edges, generator.random(n_used)) for _ in range(n_null))]
    for name, table, v in (("x", P, x), ("y", Q, y)):
        if not v.any() or (table.max(axis=1) > CERTAIN).all() or (v == Z.T).all(axis=1).any():
            what = f"{name!r} is constant given Z (every probability above {CERTAIN})"
            raise DataError(f"{what}: there is nothing to test.")
    rows, [place] = tests.distinct_places(np.column_stack([y, Z])[None])
    first = np.unique(place, return_index=True)[1]
    size, n_states = len(rows), P.shape[1]
    needed, what = 40.0 * (n_null + 1) * n_states * size, f"A table of {n_null} samples of x"
    arrays.require_memory(needed, what, "Take fewer of them, or fewer rows.")
    # residuals of x, summed over rows with equal y and Z: (draws, states of x, distinct rows)
    expected = np.stack([np.bincount(place, p, minlength=size) for p in P.T])
    counts = [np.bincount(v * size + place, minlength=n_states * size) for v in draws]
    sums_x = np.stack(counts).reshape(-1, n_states, size) - expected
    residual = (np.eye(Q.shape[1])[y] - Q)[first]

    def block(some: Any) -> Any:
        return (residual[some] @ residual.T) * k.numbers(rows[some, 1:], rows[:, 1:])

    weights = sums_x.reshape(-1, size)
    values = (weights.T * tests.row_sums(block, weights)[0]).sum(axis=0)
    statistics = values.reshape(1, -1, n_states).sum(axis=2) / n_used**2
    return Independence(*tests.outcome(statistics, kind, [k], n, n_used))


def _learn(density: Any, rows: Any, cardinalities: list[int], rng: Any) -> Circuit:
    """A circuit over a column and the given ones, learned from rows of states."""
    cards = [int(rows[:, 0].max()) + 1, *cardinalities]
    if callable(density):
        found = density(rows, cards)
        if not isinstance(found, Circuit) or len(found.cardinalities) != len(cards):
            what = f"The 'density' must return a Circuit over {len(cards)} variables"
            raise DataError(f"{what}, the tested column first. Got {found!r}.")
        return found
    good = isinstance(density, tuple) and len(density) == 2 and density[0] == "mixture"
    wanted = "('mixture', number of components), or a function that returns a circuit"
    checks.check_parameter(good, "independence_test", "density", density, wanted, DataError)
    settings: Any = {"splits": 0, "tolerance": EM_TOLERANCE, "rng": rng, "progress": False}
    return learn_mixture(rows, density[1], cardinalities=[max(2, c) for c in cards], **settings)


def _conditionals(model: Circuit, Z: Any) -> Any:
    """The distribution of the first variable given rows of all others, (n, states)."""
    rows, place = tests.distinct_places(Z[None])
    evidence = np.column_stack([np.full(len(rows), np.nan), rows])
    return np.asarray(arrays.to_cpu(model.marginals(evidence)[0]))[place[0]]


def _completed(models: list[Circuit], x: Any, y: Any, Z: Any, rng: Any) -> Any:
    """Given columns with missing values drawn under the hypothesis: from p(z | x, y, observed)."""
    incomplete = np.flatnonzero(np.isnan(Z).any(axis=1))
    if not len(incomplete):
        return Z
    for_x, for_y = models
    # (rows, draws, 1 + d)
    samples = for_x.sample(COMPLETIONS, rng, np.column_stack([x, Z])[incomplete])
    flat = samples.reshape(-1, samples.shape[2])
    flat[:, 0] = np.repeat(y[incomplete], COMPLETIONS)
    logs = for_y.log_likelihood(flat)
    flat[:, 0] = np.nan
    logs = (logs - for_y.log_likelihood(flat)).reshape(len(incomplete), -1)
    edges = arrays.cumulative(arrays.from_logs(logs))
    chosen, found = arrays.inverse_cdf(edges, rng.random(len(incomplete))), Z.copy()
    found[incomplete] = samples[np.arange(len(incomplete)), chosen, 1:]
    return found
