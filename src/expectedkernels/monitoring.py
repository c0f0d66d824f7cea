"""Drift between windows of data: `ek.monitoring`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import Array, RngLike, RowsLike, as_generator, on_host
from expectedkernels.checks import DataError, check_count, check_real, public_in
from expectedkernels.circuits.build import stack
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.operands import CircuitSide
from expectedkernels.data.schema import Schema, joint_columns
from expectedkernels.data.tables import (
    Columns,
    FrameColumn,
    array_column,
    as_table,
    binned,
    column_names,
    frame_columns,
    is_frame,
    make_frame,
    ranked_frame,
)
from expectedkernels.discrepancies.attribution import Groups, ignoring, shapley_account, univariate
from expectedkernels.discrepancies.hypothesis_tests import rank_p_value
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels.gram import gram
from expectedkernels.kernels.kernel import ExpHamming, Kernel, require_kernel
from expectedkernels.learning.chow_liu import EM_ITERATIONS, EM_TOLERANCE, content_tree
from expectedkernels.learning.em import em, expected_counts, maximized
from expectedkernels.learning.training_data import MAX_STATES, Data, Rows
from expectedkernels.reports import Reported

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class Windows:
    """Rows of several windows as states, and the circuit of all of them together.

    Attributes
    ----------
    states : array of shape (rows, variables)
        One window after the other, NaN where a value is missing.
    sizes : tuple of int
        The number of rows of every window.
    schema : Schema
    pooled : Circuit
        Learned from all rows. Equal units are kept apart: they may differ in a window.
    pseudocount : float
    """

    states: Any
    sizes: tuple[int, ...]
    schema: Schema
    pooled: Circuit
    pseudocount: float

    @cached_property
    def starts(self) -> Any:
        """Where every window begins, and where the last one ends."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def rows(self, window: int) -> Any:
        """The states of the rows of a window."""
        return self.states[self.starts[window] : self.starts[window + 1]]

    def empty(self, window: int) -> list[Any]:
        """The names, or numbers, of columns that have no value in a window."""
        names = self.schema.names or range(self.schema.n_variables)
        return [names[v] for v in np.flatnonzero(np.isnan(self.rows(window)).all(axis=0))]

    def fitted(self, window: int) -> Circuit:
        """The circuit with the most likely parameters for a window, up to the pseudocount."""
        rows = self.rows(window)
        iterations = EM_ITERATIONS if np.isnan(rows).any() else 1
        settings: Any = {"pseudocount": self.pseudocount, "tolerance": EM_TOLERANCE}
        return em(self.pooled, rows, iterations, **settings, progress=False)

    @cached_property
    def _whole(self) -> tuple[Rows, Any]:
        """All rows, and their expected counts."""
        rows = Data(self.pooled.schema, self.states).held
        return rows, expected_counts(self.pooled, rows)[1]

    def divided(self, first: Any) -> tuple[Circuit, Circuit]:
        """The circuits of the rows that a mask chooses, and of the others, by one step of EM.

        For complete rows they are the most likely ones. Expected counts add up over rows, so
        those of the others are what is left.
        """
        rows, whole = self._whole
        chosen = expected_counts(
            self.pooled, replace(rows, weights=np.asarray(first, dtype=np.float64))
        )[1]
        rest = [
            None if a is None else tuple(np.maximum(x - y, 0.0) for x, y in zip(a, b, strict=True))
            for a, b in zip(whole, chosen, strict=True)
        ]
        one, other = (maximized(self.pooled, x, self.pseudocount) for x in (chosen, rest))
        return one, other


def read_windows(name: str, tables: Sequence[Any], n_bins: int, pseudocount: float) -> Windows:
    """Windows of rows, read by the values that they have together.

    Labels, and numbers of which there are few, are states; other numbers are divided into bins
    with equal shares of all rows.
    """
    check_count(name, "n_bins", n_bins, 2, error=DataError)
    check_real(name, "pseudocount", pseudocount, error=DataError)
    windows = [_columns(table, number) for number, table in enumerate(map(as_table, tables), 1)]
    columns = joint_columns(windows, "Window {}")
    names, sizes = windows[0].names, tuple(map(len, windows))
    if min(sizes) < 2:
        raise DataError(
            f"Every window needs at least two rows. Window {sizes.index(min(sizes)) + 1} has "
            f"{min(sizes)}."
        )
    found = [_states(column, n_bins) for column in columns]
    codes, labels = zip(*found, strict=True)
    states, cards = np.stack(codes, axis=1), list(map(len, labels))
    schema = Schema(tuple(cards), names, labels)
    pooled = content_tree(states, cards, names, pseudocount).with_schema(schema)
    return Windows(states, sizes, schema, pooled, pseudocount)


def _columns(table: Any, number: int) -> Columns:
    if is_frame(table):
        columns, names = frame_columns(table), column_names(table)
    else:
        array = np.asarray(table)
        if isinstance(table, np.ma.MaskedArray):  # what is masked is missing
            array = np.where(np.ma.getmaskarray(table), np.array(None), array)
        if array.ndim != 2:
            raise DataError(
                "A window is a data frame, or an array of shape (rows, columns). Window "
                f"{number} has shape {array.shape}."
            )
        columns, names = [array_column(str(i), x) for i, x in enumerate(array.T)], None
    if not columns:
        raise DataError(f"Window {number} has no columns.")
    return Columns(tuple(columns), names)


def _states(column: FrameColumn, n_bins: int) -> tuple[Any, tuple[Any, ...]]:
    """The states of a column, NaN where it has no value, and their labels: at least two."""
    labels = column.distinct
    if not labels:
        raise DataError(
            f"Column {column.name!r} has no value in any window. Leave it out of all of them."
        )
    if column.kind == "number" and len(labels) > n_bins:
        if np.isinf(column.values).any():
            raise DataError(
                f"Column {column.name!r} has infinite values. Put NaN for what is not known."
            )
        column = binned(column, n_bins)
        labels = column.distinct
    if len(labels) > MAX_STATES:
        raise DataError(
            f"Column {column.name!r} has {len(labels)} different labels, which are too many for "
            "states. If it is an identifier, leave it out; else put labels together."
        )
    if len(labels) == 1:
        labels = [*labels, "another value"]
    codes = {label: float(code) for code, label in enumerate(labels)}
    values = column.values.tolist() if column.kind == "number" else column.values
    return np.asarray([codes.get(x, np.nan) for x in values]), tuple(labels)


RATE = 0.5
"""The rate of the default kernel: smaller ones see less of changed dependencies."""


@public_in("monitoring")
@dataclass(frozen=True, eq=False)
class Drift(Reported):
    """What `drift` finds.

    Attributes
    ----------
    mmd2 : float
        The squared maximum mean discrepancy between the circuits of both windows.
    p_value : float or None
        How often divisions of the rows at random give circuits at least as far apart.
    ignoring : array of shape (variables,)
        How much smaller the squared discrepancy is if a variable is ignored: who has changed.
    before, after : Circuit
        Fitted to the first and to the second window, on one structure.
    names : tuple
        What the variables are called: names of columns, or their numbers.
    kernel : Kernel
    statistic : float or None
        What was compared with the permutations: `mmd2`, with circuits after one step of EM from
        the pooled one. Without missing values it is `mmd2`.
    null : array
        The statistics of the permutations.
    windows : Windows
        The rows as states.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> print(ek.drift([[0], [0], [1]] * 30, [[0], [1], [1]] * 30, n_permutations=19, rng=0))
    The windows differ at 5 %: p = 0.05, discrepancy 0.2924 (90 and 90 rows,
    ExpHamming(gamma=0.5), 19 permutations of rows, fitted again). The largest part is that of 0:
    without it, 0% of the squared discrepancy is left.
    """

    mmd2: float
    p_value: float | None
    ignoring: Array = field(repr=False)
    before: Circuit = field(repr=False)
    after: Circuit = field(repr=False)
    names: tuple[str | int, ...] = field(repr=False)
    kernel: Kernel
    statistic: float | None = field(repr=False)
    null: Array = field(repr=False)
    windows: Windows = field(repr=False)

    _title = "Drift between two windows"
    _table = "Variables, the most changed first"
    _picture = "Where the change is"

    def _numbers(self) -> dict[str, Any]:
        return {"discrepancy": self.mmd, "p-value": self.p_value}

    def _settings(self) -> dict[str, Any]:
        n, m = self.windows.sizes
        rows = {"rows": f"{n} and {m}", "permutations": len(self.null)}
        return rows | super()._settings()

    def _pictures(self) -> dict[str, Any]:
        from expectedkernels.plotting.results import plot_null

        found = super()._pictures()
        if self.p_value is not None:
            found["The statistic among permutations"] = partial(plot_null, self)
        return found

    @property
    def mmd(self) -> float:
        """The maximum mean discrepancy between the circuits of both windows."""
        return sqrt(max(0.0, self.mmd2))

    @cached_property
    def univariate(self) -> Array:
        """The squared discrepancies of every variable alone, which need not sum to anything."""
        return univariate(self.before, self.after, self.kernel)

    @cached_property
    def shapley(self) -> Array:
        """The Shapley values of the variables in `mmd2`, which they sum to."""
        return shapley_account(self.before, self.after, self.kernel)

    @cached_property
    def witness(self) -> tuple[Array, Array]:
        """The witness function at the rows of either window: positive where rows were before.

        What is missing in a row is averaged over, given the rest, by the circuit of all rows.
        """
        pooled, states = self.windows.pooled, self.windows.states
        before, after = (
            on_host(expected_kernel(p, pooled, self.kernel, evidence_q=states))
            for p in (self.before, self.after)
        )
        difference, n = np.asarray(before - after), self.windows.sizes[0]
        return difference[:n], difference[n:]

    def typical_rows(self, n: int = 5) -> tuple[Array, Array]:
        """Numbers of rows: those of the first window most typical of what went, and of the second.

        The rows of the second window are most typical of what came. The first of them is the most
        typical.

        Parameters
        ----------
        n : int
            How many rows of either window.

        Returns
        -------
        tuple of two int arrays

        Examples
        --------
        >>> import expectedkernels as ek
        >>> found = ek.drift([[0], [0], [1]] * 30, [[0], [1], [1]] * 30, n_permutations=0)
        >>> [rows.tolist() for rows in found.typical_rows(2)]
        [[0, 1], [1, 2]]
        """
        check_count("typical_rows", "n", n, 1, error=DataError)
        gone, come = self.witness
        return np.argsort(-gone, kind="stable")[:n], np.argsort(come, kind="stable")[:n]

    def frame(self) -> DataFrame:
        """A data frame with a row per variable, the most changed one first. Needs pandas.

        Columns: `univariate`, `shapley`, `ignoring`, and the shares of missing values before and
        after, which the discrepancy does not look at.

        Returns
        -------
        DataFrame

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, Y = [[0, 0], [0, 1], [1, 0]] * 30, [[0, 0], [0, 1], [1, 1]] * 30
        >>> ek.drift(X, Y, n_permutations=0).frame().columns.tolist()
        ['univariate', 'shapley', 'ignoring', 'missing_before', 'missing_after']
        """
        before, after = (np.isnan(self.windows.rows(i)).mean(axis=0) for i in (0, 1))
        shares = {"missing_before": before, "missing_after": after}
        own = {"univariate": self.univariate, "shapley": self.shapley, "ignoring": self.ignoring}
        return ranked_frame(self.names, self._order(), **own, **shares)

    def plot(self) -> Axes:
        """Axes with what every variable has to do with the change. Needs matplotlib.

        Returns
        -------
        matplotlib axes

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, Y = [[0, 0], [0, 1], [1, 0]] * 30, [[0, 0], [0, 1], [1, 1]] * 30
        >>> ek.drift(X, Y, n_permutations=0).plot().get_xlabel()
        'part of the squared discrepancy'
        """
        from expectedkernels.plotting.results import plot_drift

        return plot_drift(self, self._order())

    def _order(self) -> Any:
        return np.argsort(-self.ignoring, kind="stable")

    def __str__(self) -> str:
        n, m = self.windows.sizes
        sizes = f"{n} and {m} rows, {self.kernel!r}"
        if self.p_value is None:
            claim = f"The windows are {self.mmd:.4g} apart ({sizes})."
        else:
            verdict = "differ" if self.p_value <= 0.05 else "do not differ beyond chance"
            claim = (
                f"The windows {verdict} at 5 %: p = {self.p_value:.3g}, discrepancy {self.mmd:.4g} "
                f"({sizes}, {len(self.null)} permutations of rows, fitted again)."
            )
        for i, which in enumerate(("first", "second")):
            if empty := self.windows.empty(i):
                claim += f" Without a value in the {which} window, and so not compared: "
                claim += ", ".join(map(repr, empty)) + "."
        if not self.mmd2 > 0 or (self.p_value is not None and self.p_value > 0.05):
            return claim
        top = int(np.argmax(self.ignoring))
        left = 1.0 - self.ignoring[top] / self.mmd2
        return (
            f"{claim} The largest part is that of {self.names[top]!r}: without it, "
            f"{max(0.0, left):.0%} of the squared discrepancy is left."
        )


def drift(
    X: RowsLike,
    Y: RowsLike,
    k: Kernel | None = None,
    *,
    n_permutations: int = 99,
    n_bins: int = 8,
    pseudocount: float = 1.0,
    rng: RngLike = None,
) -> Drift:
    """How far two windows of data are apart, which variables changed, and whether it is chance.

    A Chow-Liu tree is learned from the rows of both windows, its parameters are fitted to either,
    and the circuits, which are compatible, are compared exactly.

    Parameters
    ----------
    X, Y : arrays of shape (rows, columns), or data frames
        Labels and numbers; NaN (or None) for missing values. Columns of frames are matched by
        their names. Numbers of which there are more than `n_bins` different ones are divided
        into so many bins, with equal shares of all rows.
    k : Kernel, optional
        Of states, a product over the variables or a sum of such. Default: ``ExpHamming(0.5)``.
    n_permutations : int
        How often rows are divided between the windows at random and the parameters fitted again,
        for the p-value, which is a multiple of 1 / (n_permutations + 1). 0: no p-value.
    n_bins : int
    pseudocount : float
        As for `em`.
    rng : int, Generator or None

    Returns
    -------
    Drift
        Prints a sentence; has `mmd`, `mmd2`, `p_value`, `univariate`, `shapley`, `ignoring`,
        `witness`, `frame()` and `plot()`.

    Raises
    ------
    DataError
        If the windows have other columns, or columns that are no states.
    KernelError
        If the kernel is no sum of products over the variables.

    Notes
    -----
    The structure and the bins come from all rows, whatever window they are of, so that under the
    hypothesis that rows are exchangeable the level of the test is exact. They do not depend on the
    order of columns: ties in the tree are broken by what columns hold, then by their names; where
    columns without names have equal contents, edges that this does not decide are left out. With
    missing values, permutations are fitted by one step of EM from the circuit of all rows, and
    so is the statistic that is compared with them; `mmd2` is that of EM until it converges.
    That *more* values are missing is no drift here: `frame()` shows the shares.

    Variables are asked one by one what happens without them (`Drift.ignoring`), which finds the one
    that changed also where no marginal distribution did; `Drift.shapley` shares the squared
    discrepancy among all that take part, and is negative where a variable dilutes the changes of
    others more than it adds; `Drift.univariate` looks at every variable alone.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.integers(2, size=(2, 500))
    >>> wet = np.where(rng.random((2, 500)) < [[0.1], [0.3]], 1 - rain, rain)
    >>> X, Y = (np.stack([rain[i], wet[i], rng.integers(3, size=500)], axis=1) for i in (0, 1))
    >>> found = ek.drift(X, Y, rng=0)
    >>> found.p_value, bool(abs(found.shapley.sum() - found.mmd2) < 1e-15)
    (0.01, True)
    """
    check_count("drift", "n_permutations", n_permutations, error=DataError)
    windows = read_windows("drift", [X, Y], n_bins, pseudocount)
    k = _kernel(k)
    before, after = windows.fitted(0), windows.fitted(1)
    blocks = k.blocks(before.vtree, before.cardinalities)
    mmd2 = _squared(before, after, blocks)
    statistic, null, rng = None, np.empty(0), as_generator(rng)
    if n_permutations:
        mask = np.arange(len(windows.states)) < windows.sizes[0]
        masks = [mask, *(rng.permutation(mask) for _ in range(n_permutations))]
        found = [_squared(*windows.divided(chosen), blocks) for chosen in masks]
        statistic, null = found[0], np.asarray(found[1:])
    return Drift(
        mmd2,
        None if statistic is None else rank_p_value(statistic, null),
        ignoring(before, after, k),
        before,
        after,
        windows.schema.names or tuple(range(windows.schema.n_variables)),
        k,
        statistic,
        null,
        windows,
    )


def _kernel(k: Kernel | None) -> Kernel:
    if k is None:
        return ExpHamming(RATE)
    require_kernel(k, "ExpHamming(0.5)")
    return k


def _squared(p: Circuit, q: Circuit, blocks: Any) -> float:
    """The squared discrepancy of circuits with one structure."""
    a, b = CircuitSide(p), CircuitSide(q)
    own, other, across = (
        float(gram(axes, blocks, DEFAULT_MAX_BYTES).linear()[0, 0])
        for axes in ((a, a), (b, b), (a, b))
    )
    return own + other - 2.0 * across


@public_in("monitoring")
@dataclass(frozen=True, eq=False)
class Monitor(Reported):
    """What `monitor` finds.

    Attributes
    ----------
    mmd2 : array of shape (windows, windows)
        The squared discrepancies between all pairs of windows.
    circuits : list of Circuit
        Fitted to the windows, on one structure.
    kernel : Kernel
    windows : Windows
        The rows as states.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> found = ek.monitoring.monitor([[[0], [1]] * 20, [[0], [1]] * 30, [[1], [1]] * 20])
    >>> found.steps.round(3).tolist()
    [0.0, 0.433]
    """

    mmd2: Array = field(repr=False)
    circuits: list[Circuit] = field(repr=False)
    kernel: Kernel
    windows: Windows = field(repr=False)

    _title = "Windows of data"
    _table = "Windows"
    _picture = "Discrepancies between windows"

    def _numbers(self) -> dict[str, Any]:
        return {"windows": len(self.circuits), "largest step": self.steps.max()}

    @property
    def mmd(self) -> Array:
        """The discrepancies between all pairs of windows."""
        return np.sqrt(np.maximum(self.mmd2, 0.0))

    @property
    def steps(self) -> Array:
        """The discrepancies between every window and the next one."""
        return np.diagonal(self.mmd, 1)

    def frame(self) -> DataFrame:
        """A data frame with a row per window, from 1 on. Needs pandas.

        Columns: how many rows it has, how far it is from the first window, and from the previous.

        Returns
        -------
        DataFrame

        Examples
        --------
        >>> import expectedkernels as ek
        >>> found = ek.monitoring.monitor([[[0], [1]] * 20, [[0], [1]] * 30, [[1], [1]] * 20])
        >>> found.frame()["from_first"].round(3).tolist()
        [0.0, 0.0, 0.433]
        """
        steps = np.concatenate([[np.nan], self.steps])
        values = [np.asarray(self.windows.sizes), self.mmd[0], steps]
        numbers = np.arange(1, len(self.circuits) + 1)
        return make_frame(["rows", "from_first", "from_previous"], values, numbers)

    def plot(self) -> Axes:
        """Axes with the discrepancies between all windows. Needs matplotlib.

        Returns
        -------
        matplotlib axes

        Examples
        --------
        >>> import expectedkernels as ek
        >>> found = ek.monitoring.monitor([[[0], [1]] * 20, [[0], [1]] * 30, [[1], [1]] * 20])
        >>> found.plot().get_xlabel()
        'window'
        """
        from expectedkernels.plotting.results import plot_monitor

        return plot_monitor(self)

    def __str__(self) -> str:
        at = int(np.argmax(self.steps))
        return (
            f"{len(self.circuits)} windows: the largest step, {self.steps[at]:.4g}, is from window "
            f"{at + 1} to {at + 2}; the last window is {self.mmd[0, -1]:.4g} from the first "
            f"({self.kernel!r})."
        )


def monitor(
    windows: Sequence[RowsLike],
    k: Kernel | None = None,
    *,
    n_bins: int = 8,
    pseudocount: float = 1.0,
) -> Monitor:
    """The discrepancies between all pairs of windows of data, as one Gram matrix.

    One structure is learned from all rows, its parameters are fitted to every window, and the
    expected kernels of all pairs of circuits are computed together.

    Parameters
    ----------
    windows : sequence of arrays or data frames
        At least two, as for `drift`.
    k, n_bins, pseudocount
        As for `drift`.

    Returns
    -------
    Monitor

    Raises
    ------
    DataError
        If there are fewer than two windows, or if they have other columns.

    Notes
    -----
    Windows of few rows differ by chance, the more so the smaller they are. `drift` tells, of two
    windows, whether they do.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> print(ek.monitoring.monitor([[[0], [1]] * 20, [[0], [1]] * 30, [[1], [1]] * 20]))
    3 windows: the largest step, 0.4327, is from window 2 to 3; the last window is 0.4327 from the
    first (ExpHamming(gamma=0.5)).
    """
    tables = list(windows) if isinstance(windows, Sequence) else []
    if len(tables) < 2:
        raise DataError(
            "The 'windows' parameter of monitor must be a list of at least two windows of rows. "
            f"Got {type(windows).__name__}"
            + (f" of {len(tables)}." if isinstance(windows, Sequence) else ".")
        )
    read = read_windows("monitor", tables, n_bins, pseudocount)
    k = _kernel(k)
    circuits = [read.fitted(i) for i in range(len(tables))]
    every = stack(circuits)
    values = np.asarray(on_host(expected_kernel(every, every, k)))
    own = np.diag(values)
    mmd2 = own[:, None] + own[None, :] - values - values.T
    np.fill_diagonal(mmd2, 0.0)
    return Monitor(mmd2, circuits, k, read)


__all__ = ["Drift", "Groups", "Monitor", "ignoring", "monitor", "shapley_account", "univariate"]


def __dir__() -> list[str]:
    return __all__
