"""Drift between windows of data, streams, attribution to columns, subgroups: `ek.monitoring`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels import arrays, checks
from expectedkernels.arrays import DEFAULT_MAX_BYTES, Array, RngLike, RowsLike
from expectedkernels.checks import DataError, EvidenceError, KernelError, public_in
from expectedkernels.circuits.build import stack
from expectedkernels.circuits.circuit import Circuit, align, cpu_circuit, require_circuits
from expectedkernels.circuits.operands import CircuitOperand, JointPass
from expectedkernels.circuits.properties import require_compatible
from expectedkernels.circuits.queries import require_normalized
from expectedkernels.data import tables
from expectedkernels.data.evidence import as_evidence
from expectedkernels.data.schema import Schema, joint_columns
from expectedkernels.discrepancies.hypothesis_tests import rank_p_value
from expectedkernels.discrepancies.independence import as_columns, column_states
from expectedkernels.discrepancies.mmd import kernel_terms
from expectedkernels.discrepancies.sequential import SequentialTest
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels import kernel
from expectedkernels.kernels.empirical import default_kernel
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.gram import gram, one_changed
from expectedkernels.kernels.kernel import ExpHamming, FactorKernel, Kernel, SumKernel
from expectedkernels.learning.chow_liu import EM_ITERATIONS, EM_TOLERANCE, content_tree
from expectedkernels.learning.em import em, expected_counts, maximized
from expectedkernels.learning.training_data import Data, Rows
from expectedkernels.reports import Reported
from expectedkernels.sampling.gibbs import every_state
from expectedkernels.stein.stein_kernel import marked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

__all__ = ["Drift", "Groups", "Monitor", "SequentialTest", "ignoring", "monitor"]
__all__ += ["shapley_account", "univariate"]

GAMMA = 0.5
"""That of the default kernel of windows: smaller ones see less of changed dependencies."""
AT_ONCE = 64
"""How many variables are changed, or groups compared, in one sweep, at most."""
FEW_AT_ONCE = 8
"""The same where every group comes many times."""
SIGNS = np.array([1.0, -1.0])

GroupsLike = int | RowsLike | Sequence[Mapping[str, Any]] | Sequence[str | Sequence[str]]
"""Rows of evidence, mappings from variables to states, or variables whose states are groups."""


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
        Numeric columns with more distinct values are divided into so many bins. More bins see finer
        changes and need more rows.
    pseudocount : float
        As for `em`.
    rng : int, Generator or None
        Seed or generator of random numbers; an int makes results reproducible.

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

    `Drift.ignoring` leaves out one variable at a time, which finds the one that changed also where
    no marginal distribution did; `Drift.shapley` shares the squared discrepancy among all that
    take part, and is negative where a variable dilutes the changes of
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
    checks.check_count("drift", "n_permutations", n_permutations, error=DataError)
    windows, k = read_windows("drift", [X, Y], k, n_bins, pseudocount)
    before, after = windows.fit(0), windows.fit(1)
    blocks = k.blocks(before.vtree, before.cardinalities)

    def squared(*pair: Circuit) -> float:
        """The squared discrepancy of circuits with one structure."""
        side = CircuitOperand(stack(pair))
        return float(SIGNS @ gram((side, side), blocks, DEFAULT_MAX_BYTES).linear() @ SIGNS)

    p_value, statistic, null, rng = None, None, np.empty(0), arrays.as_generator(rng)
    if n_permutations:
        mask = np.arange(len(windows.states)) < windows.sizes[0]
        masks = [mask, *(rng.permutation(mask) for _ in range(n_permutations))]
        statistic, *others = (squared(*windows.divide(chosen)) for chosen in masks)
        null = np.asarray(others)
        p_value = rank_p_value(statistic, null)
    names: Any = windows.schema.names or tuple(range(windows.schema.n_variables))
    settings = before, after, names, k, statistic, null, windows
    return Drift(squared(before, after), p_value, ignoring(before, after, k), *settings)


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
    several = list(windows) if isinstance(windows, Sequence) else []
    wanted = "a list of at least two windows of rows"
    checks.check_parameter(len(several) > 1, "monitor", "windows", windows, wanted, DataError)
    read, k = read_windows("monitor", several, k, n_bins, pseudocount)
    circuits = [read.fit(i) for i in range(len(several))]
    every = stack(circuits)
    values = np.asarray(arrays.to_cpu(expected_kernel(every, every, k)))
    own = np.diag(values)
    mmd2 = own[:, None] + own[None, :] - values - values.T
    np.fill_diagonal(mmd2, 0.0)
    return Monitor(mmd2, circuits, k, read)


@dataclass(frozen=True, eq=False)
class Windows:
    """Rows of several windows as states, and the circuit of all of them together."""

    states: Any  # (rows, variables), one window after the other, NaN where a value is missing
    sizes: tuple[int, ...]  # the number of rows of every window
    schema: Schema
    pooled: Circuit  # of all rows; equal units are kept apart, as they may differ in a window
    pseudocount: float

    def rows(self, window: int) -> Any:
        """The states of the rows of a window."""
        start = sum(self.sizes[:window])
        return self.states[start : start + self.sizes[window]]

    def empty(self, window: int) -> list[Any]:
        """The names, or numbers, of columns that have no value in a window."""
        names = self.schema.names or range(self.schema.n_variables)
        return [names[v] for v in np.flatnonzero(np.isnan(self.rows(window)).all(axis=0))]

    def fit(self, window: int) -> Circuit:
        """The circuit with the most likely parameters for a window, up to the pseudocount."""
        rows = self.rows(window)
        iterations = EM_ITERATIONS if np.isnan(rows).any() else 1
        settings: Any = {"pseudocount": self.pseudocount, "tolerance": EM_TOLERANCE}
        return em(self.pooled, rows, iterations, **settings, progress=False)

    @cached_property
    def _counts(self) -> tuple[Rows, Any]:
        """All rows, and their expected counts."""
        rows = Data(self.pooled.schema, self.states).held
        return rows, expected_counts(self.pooled, rows)[1]

    def divide(self, first: Any) -> tuple[Circuit, Circuit]:
        """The circuits of the rows that a mask chooses, and of the others, by one step of EM.

        For complete rows they are the most likely ones. Expected counts add up over rows, so
        those of the others are what is left.
        """
        rows, whole = self._counts
        weighted = replace(rows, weights=np.asarray(first, dtype=np.float64))
        chosen = expected_counts(self.pooled, weighted)[1]
        rest = [
            None if a is None else tuple(np.maximum(x - y, 0.0) for x, y in zip(a, b, strict=True))
            for a, b in zip(whole, chosen, strict=True)
        ]
        one, other = (maximized(self.pooled, x, self.pseudocount) for x in (chosen, rest))
        return one, other


def read_windows(
    name: str, given: Sequence[Any], k: Any, n_bins: int, pseudocount: float
) -> tuple[Windows, Kernel]:
    """Windows of rows, read by the values that they have together, and the kernel of a call.

    Labels, and numbers of which there are few, are states; other numbers are divided into bins
    with equal shares of all rows.
    """
    checks.check_count(name, "n_bins", n_bins, 2, error=DataError)
    checks.check_real(name, "pseudocount", pseudocount, error=DataError)
    windows = [as_columns(x, f"Window {number}") for number, x in enumerate(given, 1)]
    columns = joint_columns(windows, "Window {}")
    names, sizes = windows[0].names, tuple(map(len, windows))
    if (least := min(sizes)) < 2:
        place = f"Window {sizes.index(least) + 1} has {least}"
        raise DataError(f"Every window needs at least two rows. {place}.")
    codes, labels = zip(*(column_states(column, n_bins) for column in columns), strict=True)
    rows, cards = np.stack(codes, axis=1), list(map(len, labels))
    schema = Schema(tuple(cards), names, labels)
    pooled = content_tree(rows, cards, names, pseudocount).with_schema(schema)
    k = ExpHamming(GAMMA) if k is None else k
    kernel.require_kernel(k, "ExpHamming(0.5)")
    return Windows(rows, sizes, schema, pooled, pseudocount), k


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
        The kernel of the discrepancies.
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
        return {"rows": f"{n} and {m}", "permutations": len(self.null)} | super()._settings()

    def _pictures(self) -> dict[str, Any]:
        from expectedkernels.plotting import plot_null

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
        means = partial(expected_kernel, q=pooled, k=self.kernel, evidence_q=states)
        before, after = (arrays.to_cpu(means(p)) for p in (self.before, self.after))
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
        checks.check_count("typical_rows", "n", n, 1, error=DataError)
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
        return tables.ranked_frame(self.names, self._order(), **own, **shares)

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
        from expectedkernels.plotting import plot_drift

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
            sizes += f", {len(self.null)} permutations of rows, fitted again"
            claim = f"The windows {verdict} at 5 %: p = {self.p_value:.3g}"
            claim += f", discrepancy {self.mmd:.4g} ({sizes})."
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
        The kernel of the discrepancies.
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
        return tables.make_frame(["rows", "from_first", "from_previous"], values, numbers)

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
        from expectedkernels.plotting import draw_gram

        return draw_gram(self.mmd, "discrepancy", "window", "window", first=1)

    def __str__(self) -> str:
        at = int(np.argmax(self.steps))
        return (
            f"{len(self.circuits)} windows: the largest step, {self.steps[at]:.4g}, is from window "
            f"{at + 1} to {at + 2}; the last window is {self.mmd[0, -1]:.4g} from the first "
            f"({self.kernel!r})."
        )


def ignoring(
    p: Circuit, q: Circuit, k: Kernel | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Array:
    r"""How much smaller the squared discrepancy is if one variable is ignored, for every variable.

    .. math:: \delta_i = \mathrm{MMD}^2_k(p, q) - \mathrm{MMD}^2_{k \text{ without } i}(p, q)

    Without i means that the factor of variable i in the kernel is one, which leaves the discrepancy
    of the marginals of the other variables. The variable that has changed, or whose dependence
    on the others has, is usually the one with the largest value. The values do not sum to
    anything; see `shapley_account` for some that do.

    Parameters
    ----------
    p, q : Circuit
        Compatible, and summing to one.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    max_bytes : int
        How much memory intermediate values may take, in bytes; pairs are worked on in chunks.

    Returns
    -------
    array of shape (variables,)

    Raises
    ------
    KernelError
        If the kernel is no sum of products.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.5, 0.5], [0.4, 0.6]])
    >>> ek.monitoring.ignoring(p, q, ek.Delta()).round(6).tolist()
    [-0.04, 0.04]
    """
    p, q, terms = _pair("ignoring", p, q, k)
    ones = [Factor()] * p.n_variables
    forms = ((w, *_changed_forms(p, q, own, ones, max_bytes)) for w, own in terms)
    return np.sum([w * (whole - without) for w, whole, without in forms], axis=0)


def univariate(
    p: Circuit, q: Circuit, k: Kernel | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Array:
    r"""The squared discrepancy of every variable alone: that of its marginal distributions.

    The factors of all other variables in the kernel are one. A variable that differs strongly by
    itself may still have a negative value in `shapley_account`, where it dilutes the differences
    of others more than it adds.

    Parameters
    ----------
    p, q : Circuit
        Compatible, and summing to one.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    max_bytes : int
        How much memory intermediate values may take, in bytes; pairs are worked on in chunks.

    Returns
    -------
    array of shape (variables,)

    Raises
    ------
    KernelError
        If the kernel is no sum of products.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.5, 0.5], [0.4, 0.6]])
    >>> ek.monitoring.univariate(p, q, ek.Delta()).round(6).tolist()
    [0.0, 0.08]
    """
    p, q, terms = _pair("univariate", p, q, k)
    ones = [Factor()] * p.n_variables
    return np.sum([w * _changed_forms(p, q, ones, own, max_bytes)[1] for w, own in terms], axis=0)


def shapley_account(
    p: Circuit, q: Circuit, k: Kernel | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Array:
    r"""The Shapley values of the variables in the squared discrepancy; they sum to it.

    The worth of a set of variables is the squared discrepancy of its marginals: the factors of all
    others are one. With factors :math:`1 + k_i` the value of variable i is

    .. math:: \int_0^1 \langle (p - q) \otimes (p - q), k_i \prod_{j \neq i} (1 + t k_j) \rangle\,dt

    and the integrand a polynomial in t, which Gauss-Legendre quadrature integrates exactly.
    A change of a dependence is shared among all variables that take part in it: ask `ignoring` who
    has changed, and this for an account of how much.

    Parameters
    ----------
    p, q : Circuit
        Compatible, summing to one, over discrete variables.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    max_bytes : int
        How much memory intermediate values may take, in bytes; pairs are worked on in chunks.

    Returns
    -------
    array of shape (variables,)

    Raises
    ------
    KernelError
        If the kernel is no sum of products, or a variable is real.

    Notes
    -----
    Cost: half as many sweeps as there are variables.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5], [0.2, 0.8]]), ek.factorized([[0.5, 0.5], [0.4, 0.6]])
    >>> values = ek.monitoring.shapley_account(p, q, ek.ExpHamming(1.0))
    >>> bool(abs(values.sum() - ek.mmd2(p, q, ek.ExpHamming(1.0))) < 1e-15), values.argmax().item()
    (True, 1)
    """
    p, q, terms = _pair("shapley_account", p, q, k)
    if None in p.cardinalities:
        real = f"Variable {p.cardinalities.index(None)} is real; ignoring(p, q, k) takes real ones"
        raise KernelError(f"Shapley values of a discrepancy need discrete variables. {real}.")
    nodes, shares = np.polynomial.legendre.leggauss((p.n_variables + 1) // 2)
    total = np.zeros(p.n_variables)
    for weight, factors in terms:
        sizes = enumerate(zip(factors, p.cardinalities, strict=True))
        excess = [kernel.factor_matrix(factor, int(n or 0), v) - 1.0 for v, (factor, n) in sizes]
        alone = [Factor(table=table) for table in excess]
        for t, share in zip(0.5 * (nodes + 1.0), 0.5 * shares, strict=True):
            mixed = [Factor(table=1.0 + t * table) for table in excess]
            total += weight * share * _changed_forms(p, q, mixed, alone, max_bytes)[1]
    return total


def _pair(name: str, p: Any, q: Any, k: Any) -> tuple[Circuit, Circuit, Any]:
    """Two circuits on one vtree, and the kernel as weights and products of factors."""
    p, q = align(_distribution(name, p), _distribution(name, q))
    require_compatible(p, q)
    k = default_kernel(p, q) if k is None else k
    return p, q.aligned_to(p.vtree), kernel_terms(name, k, p)


def _distribution(name: str, p: Any) -> Circuit:
    """A circuit that sums to one, in NumPy."""
    require_circuits(name, p)
    p.require_single_root("A discrepancy")
    require_normalized(p, "A discrepancy")
    return cpu_circuit(p, name)


def _changed_forms(p: Circuit, q: Circuit, factors: Any, others: Any, max_bytes: int) -> Any:
    """The squared discrepancy, and for every variable that with its other factor."""
    both = stack([p, q])
    side = CircuitOperand(both)
    changed, whole = np.zeros(p.n_variables), 0.0
    for part in arrays.spans(p.n_variables, AT_ONCE):
        changed_kernel, order = one_changed(both.vtree, factors, others, range(p.n_variables)[part])
        values: Any = JointPass((side, side), changed_kernel).values()  # for every root of it
        forms = SIGNS @ values.linear() @ SIGNS
        whole, changed[order] = float(forms[0]), forms[1:]
    return whole, changed


@public_in("monitoring")
@dataclass(frozen=True, eq=False)
class Groups(Reported):
    """What `group_discrepancies` finds.

    Attributes
    ----------
    groups : list of str
        What is known of every group.
    probabilities : array of shape (groups,)
        How large the groups are.
    mmd2 : array of shape (groups,)
        The squared discrepancy of every group from the population.
    rows : array of shape (groups, variables)
        The groups as evidence, NaN where nothing is known.
    circuit : Circuit
        The distribution of the population.
    kernel : Kernel
        The kernel of the discrepancies.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> found = ek.group_discrepancies(ek.asia().circuit(), ["smoke", "tub"])
    >>> found.groups, found.between.shape
    (['smoke = yes', 'smoke = no', 'tub = yes', 'tub = no'], (4, 4))
    """

    groups: list[str]
    probabilities: Array
    mmd2: Array
    rows: Array = field(repr=False)
    circuit: Circuit = field(repr=False)
    kernel: Kernel = field(repr=False)

    _title = "Groups of a population"
    _table = "Groups, the furthest first"
    _picture = "Discrepancies and sizes"

    def _numbers(self) -> dict[str, Any]:
        return {"groups": len(self.groups), "largest discrepancy": self.mmd.max()}

    @property
    def mmd(self) -> Array:
        """The discrepancy of every group from the population."""
        return np.sqrt(np.maximum(self.mmd2, 0.0))

    @cached_property
    def between(self) -> Array:
        """The squared discrepancies between all pairs of groups, (groups, groups).

        The kernel ignores the variables that either of the two is made by. Cost: a Gram matrix of
        the groups, and one value for every group and set of such variables.
        """
        known = ~np.isnan(self.rows)
        sets, place = np.unique(known, axis=0, return_inverse=True)
        kernels = _group_kernels("between", self.kernel, self.circuit, DEFAULT_MAX_BYTES)
        across = kernels(self.rows, known, self.rows, known)
        own = np.empty((len(known), len(sets)))
        for part in arrays.spans(len(known), FEW_AT_ONCE):
            # what is hidden on one side is ignored: the own variables here, those of others there
            rows, n = self.rows[part], len(self.rows[part])
            others = np.repeat(rows, len(sets), axis=0), np.tile(sets, (n, 1))
            values = kernels(rows, known[part], *others).reshape(n, n, len(sets))
            own[part] = values[np.arange(n), np.arange(n)]
        pairs = own[:, place.reshape(-1)]
        found = pairs + pairs.T - across - across.T
        np.fill_diagonal(found, 0.0)
        return found

    def frame(self) -> DataFrame:
        """A data frame with a row per group, the furthest from the population first. Needs pandas.

        Returns
        -------
        DataFrame
            With the columns `probability` and `mmd`.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.group_discrepancies(ek.asia().circuit(), ["smoke"]).frame().shape
        (2, 2)
        """
        order = np.argsort(-self.mmd2, kind="stable")
        return tables.ranked_frame(self.groups, order, probability=self.probabilities, mmd=self.mmd)

    def plot(self) -> Axes:
        """Axes with the discrepancies of the groups against their sizes. Needs matplotlib.

        Returns
        -------
        matplotlib axes

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.group_discrepancies(ek.asia().circuit(), ["smoke"]).plot().get_xlabel()
        'probability of the group'
        """
        from expectedkernels.plotting import plot_groups

        return plot_groups(self)

    def __str__(self) -> str:
        top = int(np.argmax(self.mmd2))
        return (
            f"{len(self.groups)} groups, by {self.kernel!r}. The furthest from the population is "
            f"{self.groups[top]}: discrepancy {self.mmd[top]:.4g}, probability "
            f"{self.probabilities[top]:.3g}. Of rare groups a circuit knows little."
        )


def group_discrepancies(
    p: Circuit,
    groups: GroupsLike,
    k: Kernel | None = None,
    *,
    min_probability: float = 0.0,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Groups:
    """How far subgroups are from the population, all at once, with their probabilities.

    A group is what is left of the circuit given evidence. The variables that a group is
    made by are ignored by the kernel: they differ from those of the population by definition.

    Parameters
    ----------
    p : Circuit
        Of the population; it must sum to one.
    groups : array or frame of evidence, list of mappings, list of names, or int
        Rows with NaN for "not known"; mappings from names (or numbers) of variables to states;
        names of variables, each for all of its states, or tuples of names, for all combinations
        of their states; or a number, for all combinations of so many discrete variables.
    k : Kernel, optional
        A product over the variables, or a sum of such. Default: as for `mmd2`.
    min_probability : float
        Combinations of states that are less probable are left out, and those of probability zero.
    max_bytes : int
        How much memory intermediate values may take, as for `expected_kernel`.

    Returns
    -------
    Groups
        Prints a sentence; has `mmd`, `probabilities`, `between`, `frame()` and `plot()`.

    Raises
    ------
    EvidenceError
        If a group that was given by its states has probability zero.
    DataError
        If groups are given in another way.
    KernelError
        If the kernel is no sum of products over the variables.

    Notes
    -----
    Every state gets a copy that the kernel does not look at. Evidence on the copies makes groups,
    so that all groups are one call of `expected_kernel`, whatever variables they are made by.
    What a circuit says of groups that were rare in the data it was learned from is a guess:
    read the discrepancies beside the probabilities.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.asia().circuit()
    >>> found = ek.group_discrepancies(p, [{"smoke": 0}, {"smoke": 1}, {"tub": 0, "smoke": 1}])
    >>> found.groups
    ['smoke = yes', 'smoke = no', 'tub = yes, smoke = no']
    >>> found.mmd.round(3).tolist()
    [0.093, 0.093, 0.591]
    """
    name = "group_discrepancies"
    p = _distribution(name, p)
    checks.check_real(name, "min_probability", min_probability, 0, 1, error=DataError)
    k = default_kernel(p) if k is None else k
    kernels = _group_kernels(name, k, p, max_bytes)
    rows, enumerated = _group_rows(p, groups)
    chances = np.exp(p.log_likelihood(rows))
    kept = chances > 0
    if not enumerated and not kept.all():
        raise EvidenceError(
            f"Group {int(np.argmin(kept))}, {_describe(p, rows[np.argmin(kept)])}, has probability "
            "zero, so there is no distribution of its members. Leave it out."
        )
    if enumerated:
        kept &= chances >= min_probability
    rows, chances = rows[kept], chances[kept]
    if not len(rows):
        raise DataError("There are no groups of at least this probability. Lower min_probability.")
    known = ~np.isnan(rows)
    sets, place = np.unique(known, axis=0, return_inverse=True)
    parts = [(rows[part], known[part]) for part in arrays.spans(len(rows), AT_ONCE)]
    own = np.concatenate([np.diag(kernels(*part, *part)) for part in parts])
    # beside the groups the population, of which the variables of every set are hidden
    free = np.full(sets.shape, np.nan)
    both = np.concatenate([rows, free]), np.concatenate([known, sets])
    across = kernels(*both, free[:1], np.zeros_like(sets[:1]))[:, 0]
    mmd2 = own + across[len(rows) :][place.reshape(-1)] - 2.0 * across[: len(rows)]
    return Groups([_describe(p, row) for row in rows], chances, mmd2, rows, p, k)


def _group_kernels(name: str, k: Kernel, p: Circuit, max_bytes: int) -> Callable[..., Any]:
    """The expected kernels of rows of evidence, given with what the kernel ignores of each.

    Every state gets a copy that the kernel does not look at.
    """
    circuit, cards = marked(p, lambda table: table), p.cardinalities

    def beside_copies(factor: Factor, variable: int) -> Factor:
        n = cards[variable]
        if n is None:
            return factor
        table = np.ones((2 * n, 2 * n))
        table[:n, :n] = kernel.factor_matrix(factor, n, variable)
        return Factor(table=table)

    def evidence(rows: Any, hidden: Any) -> list[Any]:
        """What rows allow variables to be: states, or copies of them where they are hidden."""
        found = [rows[:, v] for v in range(len(cards))]
        for v, n in enumerate(cards):
            if n is not None:
                allowed = np.isnan(rows[:, v, None]) | (rows[:, v, None] == np.arange(n))
                parts = [allowed & ~hidden[:, v, None], allowed & hidden[:, v, None]]
                found[v] = np.concatenate(parts, axis=1).astype(np.float64)
        return found

    weights, products = zip(*kernel_terms(name, k, p), strict=True)
    parts = [_Factors(map(beside_copies, own, range(len(cards)))) for own in products]
    marginalized = SumKernel(parts, list(weights))

    def between(rows: Any, hidden: Any, others: Any, other_hidden: Any) -> Any:
        given: Any = {"evidence_p": evidence(rows, hidden), "max_bytes": max_bytes}
        given["evidence_q"] = evidence(others, other_hidden)
        return expected_kernel(circuit, circuit, marginalized, **given)

    return between


class _Factors(FactorKernel):
    """The product of given factors."""

    def __init__(self, factors: Iterable[Factor]):
        self._factors = list(factors)

    def factors(self, n_variables: int) -> list[Factor]:
        """One factor per variable."""
        return self._factors


def _group_rows(p: Circuit, groups: Any) -> tuple[Any, bool]:
    """Groups as rows of evidence, and whether they are all combinations of states."""
    groups, sets = tables.as_table(groups), None
    listed = isinstance(groups, (list, tuple)) and len(groups) > 0
    names = [[x] if isinstance(x, str) else x for x in groups] if listed else []
    are_names = (isinstance(x, (list, tuple)) and all(isinstance(y, str) for y in x) for x in names)
    if checks.is_int(groups):
        discrete = [v for v, card in enumerate(p.cardinalities) if card is not None]
        if not 1 <= groups <= len(discrete):
            what = f"Groups are made by 1 to {len(discrete)} discrete variables"
            raise DataError(f"{what}. Got {groups}.")
        sets = list(combinations(discrete, groups))
    elif listed and all(are_names) and all(names):
        sets = [tuple(p.schema.variables(keys)) for keys in names]
    if sets is not None:
        blocks = []
        for variables in sets:
            states = every_state([p.cardinalities[v] or 1 for v in variables])
            blocks.append(np.full((len(states), p.n_variables), np.nan))
            blocks[-1][:, variables] = states
        rows = np.concatenate(blocks)
    elif tables.is_frame(groups):
        rows = p.schema.read_frame(groups)
    elif listed and all(isinstance(x, Mapping) for x in groups):
        values = [as_evidence(x, p.schema).values for x in groups]
        if any(row is None for row in values):
            raise DataError("A group has one state of every variable that makes it.")
        rows = np.concatenate(values)
    else:
        rows = tables.as_floats(groups)
    if rows.ndim != 2 or rows.shape[1] != p.n_variables or not len(rows):
        raise DataError(
            "Groups are rows of evidence with one column per variable, a list of mappings from "
            "names to states, a list of names (or tuples of names), or a number of variables. "
            f"Got an array of shape {rows.shape} for {p.n_variables} variables."
        )
    known = ~np.isnan(rows)
    if not known.any(axis=1).all():
        group = int(np.argmin(known.any(axis=1)))
        raise DataError(f"Group {group} says nothing, so it is the population. Leave it out.")
    for v in np.flatnonzero(known.any(axis=0)).tolist():
        if p.cardinalities[v] is None:
            what = f"Groups are made by states, and {p.schema.call(v)} is real"
            raise DataError(f"{what}. Divide it into bins before the circuit is learned.")
    return rows, sets is not None


def _describe(p: Circuit, row: Any) -> str:
    """What is known of a group, in words."""
    parts = []
    for v in np.flatnonzero(~np.isnan(row)).tolist():
        labels, state = p.schema.labels(v), int(row[v])
        parts.append(f"{p.schema.name(v)} = {state if labels is None else labels[state]}")
    return ", ".join(parts)


def __dir__() -> list[str]:
    return __all__
