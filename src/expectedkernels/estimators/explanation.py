"""Explanations: Shapley values of expected predictions, and which value to acquire next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import combinations
from math import comb, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from expectedkernels import checks, display
from expectedkernels.arrays import Array, RngLike, RowsLike, VariableLike, spans
from expectedkernels.checks import DataError, SizeError
from expectedkernels.data.tables import column_number, is_missing
from expectedkernels.estimators import encoding, kernel_expansion
from expectedkernels.estimators.base import KernelMachine
from expectedkernels.estimators.circuit_density import CircuitDensity, Nodes
from expectedkernels.estimators.encoding import decode_column
from expectedkernels.estimators.kernel_expansion import KernelExpansion, chunks, table
from expectedkernels.kernels.gram import at_known

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_PLAYERS = 20
"""Of more players not all subsets are evaluated."""
BATCH = 2**15
"""Rows are taken together up to so many coalitions: they share what depends on these only."""

Result = tuple[Any, Any, Any, Any, Any]
"""The values of players, (rows, players, outputs); those of the empty and of the full coalition,
(rows, outputs); standard errors, and interactions, (rows, players, players, outputs), or None."""


def by_coalitions(
    asked: Asked, active: Any, n_outputs: int, half: int | None, interactions: bool, rng: Any
) -> Result:
    """What active players of rows, (rows, players), contribute.

    Exact from all subsets of them, or unbiased from `half` random orders and their reverses, with
    standard errors over pairs of these.
    """
    n, m = active.shape
    values, base = np.zeros((n, m, n_outputs)), np.zeros((n, n_outputs))
    total, errors = base.copy(), None if half is None else values.copy()
    pairs = np.zeros((n, m, m, n_outputs)) if interactions else None
    first, number = kernel_expansion.distinct(active)
    for group, row in enumerate(first):
        members, who = np.flatnonzero(number == group), np.flatnonzero(active[row])
        k = len(who)
        size = 2**k if half is None else 2 * half * max(1, k)
        for span in spans(len(members), max(1, BATCH // size)):
            rows = members[span]
            if half is None:  # nobody first, all last
                subsets = (np.arange(2**k)[:, None] >> np.arange(k)) & 1 == 1
                v = asked.value(rows, who, subsets)
                values[np.ix_(rows, who)] = np.einsum("sk,rso->rko", _weights(subsets), v)
                base[rows], total[rows] = v[:, 0], v[:, -1]
                if pairs is not None:
                    pairs[np.ix_(rows, who, who)] = _pairs(subsets, v)
                continue
            rank = rng.permuted(np.tile(np.arange(k), (half, 1)), axis=1)
            rank = np.stack([rank, k - 1 - rank], axis=1).reshape(-1, k)
            before = (rank[:, None, :] < np.arange(k + 1)[None, :, None]).reshape(-1, k)
            some, place = kernel_expansion.distinct(before)
            steps = asked.value(rows, who, before[some])[:, place]
            steps = steps.reshape(len(rows), 2 * half, k + 1, -1)
            gains = np.take_along_axis(np.diff(steps, axis=2), rank[None, :, :, None], axis=2)
            gains = gains.reshape(len(rows), half, 2, k, -1).mean(axis=2)
            values[np.ix_(rows, who)] = gains.mean(axis=1)
            errors[np.ix_(rows, who)] = gains.std(axis=1, ddof=1) / np.sqrt(half)  # type: ignore[index]
            base[rows], total[rows] = steps[:, 0, 0], steps[:, 0, -1]
    return values, base, total, errors, pairs


def _weights(subsets: Any) -> Any:
    """How much every subset counts for every player, (subsets, players)."""
    m = subsets.shape[1]
    size = subsets.sum(axis=1)
    joins = np.array([*(1.0 / (m * comb(m - 1, s)) for s in range(m)), 0.0])
    return np.where(subsets, joins[size - 1][:, None], -joins[size][:, None])


def _pairs(subsets: Any, v: Any) -> Any:
    """The Shapley interaction indices of all pairs, zero on the diagonal.

    sum over S without i and j of |S|! (m - |S| - 2)! / (m - 1)!
    (v(S + i + j) - v(S + i) - v(S + j) + v(S))
    """
    m = subsets.shape[1]
    pairs = np.zeros((len(v), m, m, v.shape[2]))
    share = np.array([1.0 / ((m - 1) * comb(m - 2, s)) for s in range(m - 1)])
    for i, j in combinations(range(m), 2):
        both = subsets[:, i].astype(np.intp) + subsets[:, j]
        weight = share[subsets.sum(axis=1) - both] * np.where(both == 1, -1.0, 1.0)
        pairs[:, i, j] = pairs[:, j, i] = np.einsum("s,rso->ro", weight, v)
    return pairs


def if_independent(asked: Asked) -> Result:
    """What players of rows contribute if all variables are independent, also those of one player.

    Columns of no player count as known from the start.
    """
    model, Z, players = asked.model, asked.Z, asked.columns
    if not isinstance(model, KernelMachine):
        raise DataError(
            "method='independent' needs a fitted estimator of this library, which knows the "
            "distributions of columns. Got a function."
        )
    if model.mask_rate_:
        raise DataError(
            "method='independent' needs a model to which it does not matter what is missing. Got a "
            f"{type(model).__name__} whose mask kernel has mask_rate_={model.mask_rate_:.3g}. Use "
            "method='exact' or 'permutations', or fit it with mask_kernel=None."
        )
    expansion, density = model._machine.expansion, model.density_
    if expansion.is_embedded:
        raise DataError(
            "method='independent' needs a model that was fitted to complete rows: a training row "
            "with missing values is no product of kernels of columns. Fit with "
            "fit_missing='drop', or use method='exact' or 'permutations'."
        )
    owner, coef = _owners(density.variables, players), expansion.coef
    m, n = len(players), len(expansion.points)
    steps = np.polynomial.legendre.leggauss(max(1, (m + 1) // 2))
    values = np.zeros((len(Z), m, coef.shape[1]))
    base, total = np.zeros((2, len(Z), coef.shape[1])) + expansion.intercept
    for index in chunks(np.arange(len(Z)), (m + 1) * n, model._resources.chunk_bytes):
        shown, hidden = np.ones((2, len(index), m + 1, n))
        for variable, player in zip(density.variables, owner, strict=True):
            u, e = _factors(expansion, density, variable.columns, Z[index], model._resources)
            shown[:, player] *= u
            hidden[:, player] *= u if player == m else e
        for t, weight in zip(0.5 * (steps[0] + 1.0), 0.5 * steps[1], strict=True):
            factors = (1.0 - t) * hidden + t * shown
            before, after = np.ones((2, *factors.shape))
            np.cumprod(factors[:, :-1], axis=1, out=before[:, 1:])
            after[:, :-1] = np.cumprod(factors[:, :0:-1], axis=1)[:, ::-1]
            values[index] += weight * (((shown - hidden) * before * after)[:, :m] @ coef)
        base[index] += hidden.prod(axis=1) @ coef
        total[index] += shown.prod(axis=1) @ coef
    return values, base, total, None, None


def _owners(variables: Sequence[encoding.Variable], players: Sequence[Any]) -> list[int]:
    """The player of every variable; the number of players for those of none."""
    owners = []
    for variable in variables:
        found = {i for i, columns in enumerate(players) if np.isin(variable.columns, columns).any()}
        whole = len(found) == 1 and np.isin(variable.columns, players[min(found)]).all()
        if found and not whole:
            raise DataError(
                "The 'players' parameter must leave categorical variables whole for "
                f"method='independent'. Got the bits {variable.columns.tolist()} of one variable "
                "with several players, or partly with none."
            )
        owners.append(min(found, default=len(players)))
    return owners


def _factors(
    expansion: KernelExpansion, density: Any, at: Any, Z: Any, resources: kernel_expansion.Resources
) -> tuple[Any, Any]:
    """The kernels between rows and points in some columns, and what is expected of them."""
    first, number = kernel_expansion.distinct(expansion.points[:, at])
    rates, points = np.zeros_like(expansion.rates), np.zeros((len(first), Z.shape[1]))
    rates[at], points[:, at] = expansion.rates[at], expansion.points[np.ix_(first, at)]
    rows = np.full((len(Z) + 1, Z.shape[1]), np.nan)
    rows[:-1, at] = Z[:, at]
    kernels = at_known(rates, rows, ~np.isnan(rows), points)
    missing = np.flatnonzero(np.isnan(rows[:, at]).any(axis=1))
    kernels[missing] = density.gram(rates, rows[missing], points, resources)
    return kernels[:-1, number], kernels[-1:, number]


EXACT_PLAYERS = 14
"""Up to so many players "auto" evaluates all subsets."""
FEWEST_PERMUTATIONS = 32
"""With fewer, standard errors are too small."""
CHUNK_ENTRIES = 2**23
"""How many numbers rows that are evaluated at once may have."""
CHUNK_ROWS = 2**16
"""How many rows a model is evaluated at once, at most."""

ModelLike = KernelMachine | Callable[[Array], ArrayLike]
"""A fitted estimator of this library, or a function of rows in which NaN is unknown."""

SHOWN = 10
"""How many players notebooks show."""


@checks.public
@dataclass(frozen=True, eq=False, repr=False)
class ShapleyValues:
    """What every player contributes to the predictions of rows.

    With several outputs (targets, or pairs of classes) all arrays have one more axis, the last.

    Attributes
    ----------
    values : array of shape (rows, players)
        They sum to the prediction minus the base value.
    base_values : array of shape (rows,)
        The expected prediction if no player shows anything.
    predictions : array of shape (rows,)
        The predictions that the values explain.
    names : list
        Of the players.
    data : array of shape (rows, players), of objects
        What the rows show of single columns; None for several columns that are one player.
    standard_errors : array of shape (rows, players), or None
        None: the values are exact.
    interactions : array of shape (rows, players, players), or None
        The Shapley interaction indices of pairs, if asked for; zero on the diagonal.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> found = ek.shapley_values(lambda Z: np.nan_to_num(Z).prod(axis=1), [[2.0, 3.0]])
    >>> found.values.tolist(), found.base_values.tolist(), found.predictions.tolist()
    ([[3.0, 3.0]], [0.0], [6.0])
    """

    values: Array
    base_values: Array
    predictions: Array
    names: list[object]
    data: Array
    standard_errors: Array | None = None
    interactions: Array | None = None

    @property
    def base_value(self) -> Array:
        """What is expected of a row of which nothing is known: one number for all rows.

        Where columns that are no players differ between rows, it is `base_values`.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.shapley_values(lambda Z: 1 + np.nan_to_num(Z).sum(axis=1), [[2.0], [3.0]]).base_value
        1.0
        """
        first = self.base_values[:1]
        if not len(first) or not np.allclose(self.base_values, first, rtol=1e-12, atol=0.0):
            return self.base_values
        return float(first[0]) if first.ndim == 1 else first[0]

    @property
    def _largest(self) -> tuple[str, list[tuple[str, float]]]:
        """Whether values are exact, and the mean sizes of players, the largest first."""
        how = "exact" if self.standard_errors is None else "estimated"
        size = np.abs(self.values).mean(axis=0).reshape(len(self.names), -1).sum(axis=1)
        return how, [(str(self.names[i]), float(size[i])) for i in np.argsort(-size)]

    def __repr__(self) -> str:
        (rows, players), (how, sizes) = self.values.shape[:2], self._largest
        top = ", ".join(f"{name} {display.number(size, 3)}" for name, size in sizes[:3])
        return f"<ShapleyValues: {rows} rows, {players} players, {how}; largest on average: {top}>"

    def _repr_html_(self) -> str:
        (rows, players), (how, sizes) = self.values.shape[:2], self._largest
        shown = display.table(["player", "mean size"], sizes[:SHOWN], display.NOTEBOOK)
        facts = {"rows": rows, "players": players, "how": how}
        return display.overview("Shapley values", facts, shown)

    def plot(self, kind: str = "bar", row: int = 0, output: int = 0) -> Axes:
        """The axes of a picture. Needs matplotlib.

        Parameters
        ----------
        kind : {"bar", "beeswarm", "waterfall"}
            Mean sizes; all values of all rows; how the prediction of one row comes about.
        row : int
            For "waterfall".
        output : int
            Which output to draw, if there are several.

        Returns
        -------
        matplotlib.axes.Axes

        Examples
        --------
        >>> import expectedkernels as ek
        >>> found = ek.shapley_values(lambda Z: np.nan_to_num(Z).sum(axis=1), [[2.0, 3.0]])
        >>> found.plot("waterfall").get_xlabel()
        'prediction'
        """
        from expectedkernels import plotting as contributions

        checks.check_choice("plot", "kind", kind, ("bar", "beeswarm", "waterfall"))
        values = self.values.reshape(*self.values.shape[:2], -1)[..., output]
        base = self.base_values.reshape(len(self.base_values), -1)[:, output]
        names = [str(name) for name in self.names]
        if kind == "bar":
            return contributions.plot_importances(names, np.abs(values).mean(axis=0))
        if kind == "beeswarm":
            return contributions.plot_beeswarm(names, values, self.data)
        return contributions.plot_waterfall(names, values[row], float(base[row]), self.data[row])

    def to_shap(self) -> object:
        """The same as an `Explanation` of the package shap, which must be installed.

        Returns
        -------
        shap.Explanation

        Raises
        ------
        ImportError
            If shap is not installed.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> found = ek.shapley_values(lambda Z: np.nan_to_num(Z).sum(axis=1), [[2.0, 3.0]])
        >>> shap.plots.waterfall(found.to_shap()[0])  # doctest: +SKIP
        """
        try:
            shap = import_module("shap")
        except ImportError as error:
            raise ImportError("This needs the package shap: pip install shap") from error
        names = [str(name) for name in self.names]
        given = {"base_values": self.base_values, "data": self.data, "feature_names": names}
        return shap.Explanation(self.values, **given)


def shapley_values(
    model: ModelLike,
    X: RowsLike,
    players: Sequence[VariableLike | Sequence[VariableLike]] | None = None,
    *,
    method: str = "auto",
    n_permutations: int = 128,
    interactions: bool = False,
    rng: RngLike = None,
) -> ShapleyValues:
    r"""What every column of a row contributes to its expected prediction.

    The players are the columns; a coalition S is worth what the model expects of a row that shows
    S and nothing else, :math:`v(S) = E[f(X) \mid X_S = x_S]`, which is exact.

    Parameters
    ----------
    model : fitted estimator of this library, or function
        Of `ExpectedSVC` it is the expected decision function that is explained (that of every pair
        of classes, if there are more than two), of `ExpectedKernelClassifier` the expected
        function of every class. A function takes an array of rows with NaN for what is not known,
        and returns one value, or one row of values, for each.
    X : array or data frame of shape (rows, columns)
        What is missing contributes nothing.
    players : sequence of columns or lists of columns, optional
        Columns by name or number; those of a list are one player. Columns that are not named are
        known from the start. Default: every column (and every one of `groups` of the estimator).
    method : {"auto", "exact", "permutations", "independent"}
        All subsets of the players that a row shows; random orders and their reverses, unbiased,
        with standard errors; or the values as if all columns were independent, in polynomial
        time. "auto" takes all subsets up to 14 players, and permutations for more.
    n_permutations : int
        The number of orders, at least 32.
    interactions : bool
        Also return the interaction indices of pairs of players; needs all subsets.
    rng : int, Generator or None
        For permutations.

    Returns
    -------
    ShapleyValues

    Raises
    ------
    DataError
        If players overlap or are unknown, or the model cannot be asked.
    EvidenceError
        If a row has probability zero under the density.
    SizeError
        If method="exact" has more than 20 players.

    Notes
    -----
    All subsets of m players are 2^m predictions of rows with missing values, asked in batches.
    "independent" ignores what columns tell about each other (the "interventional" values under
    the product of the marginals), costs O(m^2) for every support vector, and needs a model that
    was fitted to complete rows.

    Of an estimator with a `mask_kernel`, the function is the one of the row's own mask for all
    coalitions: that a player does not take part is not that its value is missing.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> model = ek.ExpectedKernelRidge(alpha=0.1).fit(X, X[:, 0] - X[:, 1])
    >>> found = ek.shapley_values(model, X[:2])
    >>> found.values.shape
    (2, 3)
    >>> bool(np.allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:2])))
    True
    """
    methods = ("auto", "exact", "permutations", "independent")
    checks.check_choice("shapley_values", "method", method, methods)
    checks.check_count("shapley_values", "n_permutations", n_permutations, FEWEST_PERMUTATIONS)
    asked = _read(model, X, players)
    known = ~np.isnan(asked.Z)
    active = np.stack([known[:, columns].any(axis=1) for columns in asked.columns], axis=1)
    most = int(active.sum(axis=1).max(initial=0))
    if method == "auto":
        method = "exact" if most <= EXACT_PLAYERS else "permutations"
    if interactions and method != "exact":
        raise DataError(
            f"Interactions need all subsets of the players, of which rows have up to {most}. Put "
            f"columns together into at most {EXACT_PLAYERS} players, or set method='exact'. "
            f"Got method={method!r}."
        )
    if method == "exact" and most > MOST_PLAYERS:
        raise SizeError(
            f"Exact Shapley values need the values of all subsets of players. Got {most} players, "
            f"more than {MOST_PLAYERS}. Put columns together by the 'players' parameter, or use "
            "method='permutations'."
        )
    shape = asked.f(asked.Z[:1]).shape[1:]
    if method == "independent":
        found = if_independent(asked)
    else:
        half, generator = (n_permutations + 1) // 2, np.random.default_rng(rng)
        orders = None if method == "exact" else half
        found = by_coalitions(asked, active, prod(shape), orders, interactions, generator)
    values, base, total, errors, pairs = (x if shape or x is None else x[..., 0] for x in found)
    return ShapleyValues(values, base, total, asked.names, asked.data, errors, pairs)


@dataclass(frozen=True, eq=False)
class Asked:
    """A model as a function of columns of numbers, and the rows to explain.

    Attributes
    ----------
    model : fitted estimator or function
    f : function from (rows, columns) to (rows,) or (rows, outputs)
    Z : array of shape (rows, columns)
    columns : list of int arrays
        The columns of numbers of every player.
    names, data
        As in `ShapleyValues`.
    """

    model: Any
    f: Callable[[Any], Any]
    Z: Any
    columns: list[Any]
    names: list[Any]
    data: Any

    def value(self, rows: Any, who: Any, shown: Any) -> Any:
        """The value function of rows that show some players, (rows, coalitions, outputs).

        Of all others they show nothing.
        """
        hidden = np.zeros((len(shown), self.Z.shape[1]), dtype=np.bool_)
        hidden[:, np.concatenate(self.columns)] = True
        for own, i in zip(shown.T, who, strict=True):
            hidden[np.ix_(own, self.columns[i])] = False
        found, size = [], max(1, min(CHUNK_ROWS, CHUNK_ENTRIES // self.Z.shape[1]))
        for span in spans(len(rows) * len(shown), size):
            row, coalition = np.divmod(np.arange(span.start, span.stop), len(shown))
            with checks.rows_numbered(rows[row]):
                found.append(self.f(np.where(hidden[coalition], np.nan, self.Z[rows[row]])))
        return np.concatenate(found).reshape(len(rows), len(shown), -1)


def _read(model: Any, X: Any, players: Sequence[Any] | None) -> Asked:
    categories: dict[int, Any] = {}
    if isinstance(model, KernelMachine):
        numbers = model._numbers(X)
        Z = model._with_masks(model.columns_.standardise(numbers))
        names, places = list(model.columns_.names), model.columns_.column_index
        f: Callable[[Any], Any] = partial(_expected, model)
        default, categories = model.columns_.groups_or_columns(), model.columns_.categories
    elif callable(model):
        table = encoding.read_table(X)
        Z = numbers = table.numbers(range(len(table.columns)), "Encode it.")
        names = table.names
        places, f = [np.array([i]) for i in range(Z.shape[1])], partial(_checked_answers, model)
        default = [[i] for i in range(Z.shape[1])]
    else:
        raise DataError(
            "The 'model' parameter must be a fitted estimator of this library, or a function of "
            f"rows in which NaN is unknown. Got {type(model).__name__} instead."
        )
    groups = default if players is None else _players(players, names)
    columns = [np.concatenate([places[i] for i in group]) for group in groups]
    labels = [names[g[0]] if len(g) == 1 else "+".join(str(names[i]) for i in g) for g in groups]
    data = np.full((len(Z), len(groups)), None, dtype=object)
    for k, group in enumerate(groups):
        if len(group) == 1:
            data[:, k] = decode_column(numbers[:, columns[k]], categories.get(group[0]))
    return Asked(model, f, Z, columns, labels, data)


def _expected(model: KernelMachine, Z: Any) -> Any:
    """What a model expects of rows in which some bits of a group may be hidden."""
    return model._answers(encoding.complete_groups(model.density_.variables, Z))


def _checked_answers(model: Callable[[Any], Any], Z: Any) -> Any:
    found = np.asarray(model(Z), dtype=np.float64)
    if found.ndim not in (1, 2) or len(found) != len(Z) or not np.isfinite(found).all():
        raise DataError(
            f"The 'model' function must return a finite value, or row of values, for each of "
            f"{len(Z)} rows in which NaN is unknown. Got an array of shape {found.shape}"
            f"{' with NaN or infinity' if not np.isfinite(found).all() else ''}."
        )
    return found


def _players(players: Sequence[Any], names: list[Any]) -> list[list[int]]:
    """The columns of every player, as numbers."""
    groups = []
    for player in players:
        group = player if _is_list(player) else [player]
        groups.append([column_number(x, names, len(names), "players") for x in group])
    every = [i for group in groups for i in group]
    if len(set(every)) < len(every) or not every or not all(groups):
        raise DataError(
            "The 'players' parameter must name columns, each at most once, and at least one for "
            f"every player. Got {players!r} instead."
        )
    return groups


GAIN_ROWS = 256
"""For how many rows the nodes of all columns are evaluated at once."""
GAIN_ENTRIES = 2**22
"""Rows have about ten nodes for every column: so many numbers, ten times, at once."""

CostsLike = Sequence[float] | Array | Mapping[str, float] | Mapping[int, float]
"""A cost for every column, or for some of them by name or number; the others cost 1."""


def acquisition_gain(model: KernelMachine, X: RowsLike, costs: CostsLike | None = None) -> Array:
    r"""How much variance of the prediction every missing value would explain.

    .. math:: A_j = Var(E[f \mid x_o, x_j] \mid x_o)
        = Var(f \mid x_o) - E[Var(f \mid x_o, x_j) \mid x_o]

    Parameters
    ----------
    model : fitted estimator of this library
        Its predictions are to become more certain.
    X : array or data frame of shape (rows, columns)
        NaN is missing.
    costs : sequence of one cost per column, or mapping from columns to costs, optional
        What gains are divided by: positive numbers. Columns that a mapping does not name cost 1.

    Returns
    -------
    array of shape (rows, columns)
        NaN where a value is observed. The columns of one of the estimator's `groups` become known
        together: each has the gain of all, divided by the cost of the first of them. With several
        outputs (targets, or pairs of classes) gains are summed over them.

    Raises
    ------
    DataError
        If the model is no estimator of this library, or costs do not fit the columns.
    EvidenceError
        If a row has probability zero under the density.

    Notes
    -----
    Exact for columns of states (categories, codes, columns of few distinct values) of circuits.
    Bins have four nodes of Gauss and Legendre, mostly within a tenth of a percent; normal
    distributions have seven of Gauss and Hermite, within a few percent. Cost: one expected
    prediction for every node of every missing value.

    Normal densities, and so the default, take the bits of a category for numbers. Its gain is the
    variance now, as ``predict(return_std=True)`` has it, less the mean of the variances with each
    category filled in, weighted by the means of its bits: one variance for every category. As
    numbers can be between categories, it can be a little below zero where a category tells
    nothing. (A model with fit_missing="expected" has no such variances: there it is the variance
    of predictions over categories.)

    Of an estimator with a `mask_kernel`, f is the function of the row's own mask: a value that is
    acquired was missing all the same.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = ek.ExpectedKernelRidge(alpha=0.1).fit(X, 2 * X[:, 0] + X[:, 1])
    >>> gain = ek.acquisition_gain(model, [[np.nan, np.nan, 0.5]])
    >>> bool(gain[0, 0] > gain[0, 1] > 0), bool(np.isnan(gain[0, 2]))
    (True, True)
    """
    _require_machine("acquisition_gain", model)
    Z = model._read(X)
    divisor = _costs("acquisition_gain", model.columns_, costs)
    return _by_column(model.columns_, _gains(model, Z) / divisor, Z)


@dataclass(frozen=True, eq=False, repr=False)
class Acquisition:
    """Which values of one row were acquired, and how its prediction changed.

    Attributes
    ----------
    asked : list
        The columns, in the order of the queries; a list of names for a group.
    answers : list
    predictions : array of shape (queries + 1,)
        The expected prediction before the first query, and after each; with one more axis if there
        are several outputs.
    gains : array of shape (queries, columns)
        What `acquisition_gain` was before each query.
    costs : array of shape (queries,)
    columns : list
        The names of all columns.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> model = ek.ExpectedKernelRidge(alpha=0.01).fit(X, [0.0, 1.0, 3.0, 4.0])
    >>> ek.acquire(model, [np.nan, np.nan], lambda column: 1.0, budget=1)
    <Acquisition: 1 query at cost 1: 0; prediction 2.00 -> 3.44>
    """

    asked: list[object]
    answers: list[object]
    predictions: Array
    gains: Array
    costs: Array
    columns: list[object]

    def __repr__(self) -> str:
        n = len(self.asked)
        first_and_last = self.predictions[:: max(1, n)]
        ends = [", ".join(f"{x:.2f}" for x in np.atleast_1d(some)) for some in first_and_last]
        names = ", ".join(map(str, self.asked)) or "nothing"
        return (
            f"<Acquisition: {n} {'query' if n == 1 else 'queries'} at cost "
            f"{float(self.costs.sum()):g}: {names}; prediction {' -> '.join(ends)}>"
        )

    def plot(self, question: int = 0) -> Axes:
        """The axes of a bar for the gain of every column before a query. Needs matplotlib.

        Parameters
        ----------
        question : int
            The number of the query, from 0.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        DataError
            If there was no such query.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
        >>> model = ek.ExpectedKernelRidge(alpha=0.01).fit(X, [0.0, 1.0, 3.0, 4.0])
        >>> history = ek.acquire(model, [np.nan, np.nan], lambda column: 1.0, budget=1)
        >>> history.plot().get_xlabel()
        'variance explained, per cost'
        """
        from expectedkernels.plotting import plot_importances

        if not -len(self.gains) <= question < len(self.gains):
            raise DataError(f"There were {len(self.gains)} queries. Got number {question}.")
        gains = self.gains[question]
        shown = np.flatnonzero(~np.isnan(gains))
        names = [str(self.columns[i]) for i in shown]
        return plot_importances(names, gains[shown], "variance explained, per cost")


def acquire(
    model: KernelMachine,
    row: RowsLike | Mapping[str, object],
    ask: Callable[[object], object],
    budget: float,
    costs: CostsLike | None = None,
) -> Acquisition:
    """The history of querying, one by one, the values that explain most of a prediction.

    Parameters
    ----------
    model : fitted estimator of this library
        Its predictions are to become more certain.
    row : sequence of entries, table of one row, or mapping from columns to entries
        What is known from the start; NaN, and columns that a mapping does not name, are missing.
    ask : function
        From the name of a column (its number, if columns have no names) to its value; from a list
        of names to a list of values, for one of the estimator's `groups`. A missing value (None or
        NaN) means that it is not available: it is paid for, and not queried again.
    budget : float
        What all queries together may cost.
    costs : sequence of one cost per column, or mapping from columns to costs, optional
        Default: every query costs 1. Gains are divided by costs.

    Returns
    -------
    Acquisition

    Raises
    ------
    DataError
        If an argument does not fit the model, or a value of `ask` its column.

    Notes
    -----
    Stops when nothing that is missing can be paid for, or would change the prediction. Of an
    estimator with a `mask_kernel`, the mask stays that of the row at the start.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = ek.ExpectedKernelRidge(alpha=0.1).fit(X, 2 * X[:, 0] + X[:, 1])
    >>> history = ek.acquire(model, [np.nan] * 3, lambda column: X[7, column], budget=2)
    >>> history.asked
    [0, 1]
    """
    _require_machine("acquire", model)
    if not callable(ask):
        raise DataError(f"The 'ask' parameter of acquire must be a function. Got {ask!r} instead.")
    left = checks.check_real("acquire", "budget", budget, 0.0, inf, "[]", DataError)
    columns, entries = model.columns_, _entries(model, row)
    divisor = _costs("acquire", columns, costs)
    options = columns.groups_or_columns()
    Z = _row(model, entries)
    masks = Z[:, len(model._shift) :]
    available = np.ones(len(options), dtype=np.bool_)
    asked, answers, gains, paid = [], [], [], []
    predictions = [model._answers(Z)[0]]
    while True:
        gain = _gains(model, Z) / divisor
        possible = np.where(available & (divisor <= left), gain[0], np.nan)
        if not (possible > 0).any():
            break
        best = int(np.nanargmax(possible))
        names = [columns.names[i] for i in options[best]]
        asked.append(names[0] if len(names) == 1 else names)
        answer: Any = ask(asked[-1])
        answers.append(answer)
        gains.append(_by_column(columns, gain, Z)[0])
        paid.append(divisor[best])
        left -= divisor[best]
        found = list(answer) if len(names) > 1 and _is_list(answer) else [answer]
        found = [answer] * len(names) if is_missing(answer) else found
        if len(found) != len(names):
            raise DataError(
                f"The result of 'ask' for columns {names} must be a value for each. Got {answer!r} "
                "instead."
            )
        for i, entry in zip(options[best], found, strict=True):
            entries[i] = entry
        Z, available[best] = _row(model, entries), False
        Z[:, len(model._shift) :] = masks
        predictions.append(model._answers(Z)[0])
    every = np.array(gains).reshape(len(gains), len(columns.names))
    numbers = np.array(predictions), every, np.array(paid)
    return Acquisition(asked, answers, *numbers, list(columns.names))


def _require_machine(function: str, model: Any) -> None:
    if not isinstance(model, KernelMachine):
        raise DataError(
            f"The 'model' parameter of {function} must be a fitted estimator of this library, "
            f"which knows the distribution of missing values. Got {type(model).__name__} instead."
        )


def _gains(model: KernelMachine, Z: Any) -> Any:
    """The gains of what is known or missing as a whole, (rows, options); NaN where observed."""
    density = model.density_
    incomplete, _ = kernel_expansion.read_rows(density, Z)
    gains = np.full((len(Z), len(density.variables)), np.nan)
    # of the bits of a category, which normal densities take for numbers
    embedded = model._machine.expansion.is_embedded
    has_variances = not (isinstance(density, CircuitDensity) or embedded)
    size = max(1, min(GAIN_ROWS, GAIN_ENTRIES // Z.shape[1] ** 2))
    for span in spans(len(incomplete), size):
        some = incomplete[span]
        every, filled = density.nodes(density.rows(Z[some])), []
        for variable, nodes in zip(density.variables, every, strict=True):
            rows = Z[some[nodes.rows]]
            rows[:, variable.columns] = nodes.values
            filled.append(rows)
        stops = np.cumsum([len(rows) for rows in filled])[:-1]
        answers = np.split(table(model._answers(np.concatenate(filled))), stops)
        for i, (nodes, rows, f) in enumerate(zip(every, filled, answers, strict=True)):
            at, row = np.unique(nodes.rows, return_inverse=True)
            if has_variances and len(density.variables[i].columns) > 1:
                found = _explained(model, Z[some[at]], nodes, row, rows)
            else:
                entries = nodes.weights, (row, np.arange(len(row)))
                sums = sparse.csr_array(entries, shape=(len(at), len(row)))
                found = (sums @ (f - (sums @ f)[row]) ** 2).sum(axis=1)
            gains[some[at], i] = found
    return gains


def _explained(model: KernelMachine, Z: Any, nodes: Nodes, row: Any, filled: Any) -> Any:
    """The variances of rows less those that are expected once a category is known, (rows,)."""
    machine = replace(model._machine, prior=None, flat=False)
    # parts of an average have the same categories
    first, number = kernel_expansion.distinct(np.column_stack([row, nodes.values]))
    rows = np.concatenate([Z, filled[first]])
    std = kernel_expansion.expect(machine, model.density_, rows, model._resources, True)[1]
    variance = (std**2).sum(axis=1)
    left = np.bincount(row, nodes.weights * variance[len(Z) :][number], minlength=len(Z))
    return variance[: len(Z)] - left


def _by_column(columns: encoding.Encoding, gains: Any, Z: Any) -> Any:
    """The gains of columns of the table; NaN where these are observed."""
    every = np.empty((len(Z), len(columns.names)))
    for i, group in enumerate(columns.groups_or_columns()):
        every[:, group] = gains[:, i : i + 1]
    known = np.stack([~np.isnan(Z[:, place]).any(axis=1) for place in columns.column_index], axis=1)
    return np.where(known, np.nan, every)


def _costs(function: str, columns: encoding.Encoding, costs: Any) -> Any:
    """The costs of what is known or missing as a whole."""
    n = len(columns.names)
    costs = {} if costs is None else costs
    if isinstance(costs, Mapping):
        found = np.ones(n)
        for name, cost in costs.items():
            place = column_number(name, columns.names, n, "costs")
            found[place] = checks.check_real(function, "costs", cost, 0.0, inf, "()", DataError)
    else:
        found = np.asarray(costs, dtype=np.float64)
        if found.shape != (n,) or not ((found > 0) & np.isfinite(found)).all():
            raise DataError(
                f"The 'costs' parameter of {function} must have one positive number for every one "
                f"of {n} columns. Got {costs!r} instead."
            )
    return found[[group[0] for group in columns.groups_or_columns()]]


def _entries(model: KernelMachine, row: Any) -> list[Any]:
    """The entries of one row."""
    names = model.columns_.names
    if hasattr(row, "to_dict") and not hasattr(row, "columns"):  # a row of a data frame
        row = row.to_dict()
    if isinstance(row, Mapping):
        entries: list[Any] = [None] * len(names)
        for name, entry in row.items():
            entries[column_number(name, names, len(names), "row")] = entry
        return entries
    found = encoding.read_table([row] if np.ndim(row) == 1 else row, model, reset=False)
    n = len(found.columns[0])
    if n != 1:
        raise DataError(f"The 'row' parameter of acquire must be a single row. Got {n} rows.")
    return [found.entries(i)[0] for i in range(len(names))]


def _row(model: KernelMachine, entries: list[Any]) -> Any:
    """Entries as standardised columns of numbers, (1, columns)."""
    columns = list(np.array([*entries, None], dtype=object)[:-1, None])
    return model._read(encoding.Table(model.columns_.names, columns, False))


def _is_list(x: Any) -> bool:
    return isinstance(x, Sequence | np.ndarray) and not isinstance(x, str)
