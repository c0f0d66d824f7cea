"""Shapley values of expected predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import Array, RngLike, RowsLike, VariableLike, spans
from expectedkernels.checks import (
    DataError,
    EvidenceError,
    SizeError,
    check_choice,
    check_count,
    public,
)
from expectedkernels.data.tables import column_number
from expectedkernels.display import NOTEBOOK, number, overview, table
from expectedkernels.estimators.base import KernelMachine
from expectedkernels.estimators.circuit_density import AnyDensity
from expectedkernels.estimators.encoding import (
    Variable,
    as_frame,
    column_names,
    read_numbers,
    split_columns,
)
from expectedkernels.estimators.kernel_expansion import Expansion, Resources, chunks, distinct

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_PLAYERS = 20
"""Of more players not all subsets are asked for."""
BATCH = 2**15
"""Rows are taken together up to so many coalitions: they share what depends on these only."""

Worth = Callable[[Any, Any], Any]
"""From numbers of rows, and who takes part, (coalitions, players), to (rows, coalitions,
outputs)."""


@dataclass(frozen=True, eq=False)
class Shares:
    """What players of rows get: always with an axis of outputs, the last one.

    Attributes
    ----------
    values : array of shape (rows, players, outputs)
    base, total : arrays of shape (rows, outputs)
        The worth of nobody, and of all.
    errors : array of the shape of values, or None
    pairs : array of shape (rows, players, players, outputs), or None
    """

    values: Any
    base: Any
    total: Any
    errors: Any = None
    pairs: Any = None


def by_subsets(worth: Worth, active: Any, interactions: bool = False) -> Shares:
    """The exact values, from all subsets of the active players of every row, (rows, players)."""
    most = int(active.sum(axis=1).max(initial=0))
    if most > MOST_PLAYERS:
        raise SizeError(
            f"Exact Shapley values need the worth of all subsets of players. Got {most} players, "
            f"more than {MOST_PLAYERS}. Put columns together by the 'players' parameter, or use "
            "method='permutations'."
        )

    def of_rows(rows: Any, who: Any) -> Any:
        # nobody first, all last
        subsets = (np.arange(2 ** len(who))[:, None] >> np.arange(len(who))) & 1 == 1
        v = worth(rows, _among(subsets, who, active.shape[1], 1))
        pairs = _pairs(subsets, v) if interactions else None
        return np.einsum("sk,rso->rko", _weights(subsets), v), v[:, 0], v[:, -1], None, pairs

    return _by_batches(active, lambda k: 2**k, of_rows)


def by_orders(worth: Worth, active: Any, n_orders: int, rng: Any) -> Shares:
    """Unbiased values from random orders and their reverses, with standard errors over pairs."""
    half = (n_orders + 1) // 2

    def of_rows(rows: Any, who: Any) -> Any:
        k = len(who)
        rank = rng.permuted(np.tile(np.arange(k), (half, 1)), axis=1)
        rank = np.stack([rank, k - 1 - rank], axis=1).reshape(-1, k)
        before = (rank[:, None, :] < np.arange(k + 1)[None, :, None]).reshape(-1, k)
        first, number = distinct(before)
        v = worth(rows, _among(before[first], who, active.shape[1], 1))
        steps = v[:, number].reshape(len(rows), 2 * half, k + 1, -1)
        gains = np.take_along_axis(np.diff(steps, axis=2), rank[None, :, :, None], axis=2)
        gains = gains.reshape(len(rows), half, 2, k, -1).mean(axis=2)
        errors = gains.std(axis=1, ddof=1) / np.sqrt(half)
        return gains.mean(axis=1), steps[:, 0, 0], steps[:, 0, -1], errors, None

    return _by_batches(active, lambda k: 2 * half * max(1, k), of_rows)


def _by_batches(active: Any, n_coalitions: Callable[[int], int], of_rows: Any) -> Shares:
    """The shares of all rows, from batches of rows with the same active players."""
    (first, number), m = distinct(active), active.shape[1]
    places, parts = [], []
    for group, row in enumerate(first):
        members, who = np.flatnonzero(number == group), np.flatnonzero(active[row])
        for span in spans(len(members), max(1, BATCH // n_coalitions(len(who)))):
            values, base, total, errors, pairs = of_rows(members[span], who)
            values, errors, pairs = (
                None if x is None else _among(x, who, m, axes)
                for x, axes in ((values, 1), (errors, 1), (pairs, 2))
            )
            places.append(members[span])
            parts.append((values, base, total, errors, pairs))
    back = np.argsort(np.concatenate(places))
    each = zip(*parts, strict=True)
    return Shares(*(None if x[0] is None else np.concatenate(x)[back] for x in each))


def _among(found: Any, who: Any, m: int, axes: int) -> Any:
    """What there is of some players, along some axes after the first, among all of them."""
    every = np.zeros((len(found), *[m] * axes, *found.shape[1 + axes :]), dtype=found.dtype)
    every[(slice(None), *np.ix_(*[who] * axes))] = found
    return every


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


def independent_shares(
    expansion: Expansion, density: AnyDensity, Z: Any, players: Sequence[Any], resources: Resources
) -> Shares:
    """The values of rows, for players that are columns of numbers.

    Columns of no player count as known from the start. Every variable has its distribution under
    the density, and they are independent, also those of one player.
    """
    if expansion.is_embedded:
        raise DataError(
            "method='independent' needs a model that was fitted to complete rows: a training row "
            "with missing values is no product of kernels of columns. Fit with "
            "fit_missing='drop', or use method='exact' or 'permutations'."
        )
    owner = _owners(density.variables, players)
    alone = [density.alone(i) for i in range(len(owner))]
    m, n = len(players), len(expansion.points)
    parts = []
    for index in chunks(np.arange(len(Z)), (m + 1) * n, resources.chunk_bytes):
        shown, hidden = np.ones((len(index), m + 1, n)), np.ones((len(index), m + 1, n))
        for single, variable, player in zip(alone, density.variables, owner, strict=True):
            u, e = _kernels(expansion, single, variable.columns, Z[index], resources)
            shown[:, player] *= u
            hidden[:, player] *= u if player == m else e
        values = [_one_row(u, e, expansion.coef) for u, e in zip(shown, hidden, strict=True)]
        base, total = (
            k.prod(axis=1) @ expansion.coef + expansion.intercept for k in (hidden, shown)
        )
        parts.append((np.stack(values), base, total))
    return Shares(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _one_row(u: Any, e: Any, coef: Any) -> Any:
    """The values of all players but the last, (players, outputs); u and e of (players, points)."""
    m = len(u) - 1
    values = np.zeros((m, coef.shape[1]))
    if not m:
        return values
    nodes, weights = np.polynomial.legendre.leggauss((m + 1) // 2)
    for t, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        factors = (1.0 - t) * e + t * u
        before = np.ones_like(factors)
        np.cumprod(factors[:-1], axis=0, out=before[1:])
        after = np.ones_like(factors)
        after[:-1] = np.cumprod(factors[:0:-1], axis=0)[::-1]
        values += weight * (((u - e) * before * after)[:m] @ coef)
    return values


def _owners(variables: Sequence[Variable], players: Sequence[Any]) -> list[int]:
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


def _kernels(
    expansion: Expansion, density: AnyDensity, at: Any, Z: Any, resources: Resources
) -> tuple[Any, Any]:
    """The kernels between rows and points in some columns, and what is expected of them."""
    points = expansion.points[:, at]
    first, number = distinct(points)
    rows = np.concatenate([Z[:, at], np.full((1, len(at)), np.nan)])
    kernels = density.gram(expansion.rates[at], rows, points[first], resources)
    return kernels[:-1, number], kernels[-1:, number]


EXACT_PLAYERS = 14
"""Up to so many players all subsets are asked for, if nothing else is said."""
FEWEST_PERMUTATIONS = 32
"""With fewer, standard errors are too small."""
CHUNK_ENTRIES = 2**23
"""How many numbers rows that are asked about at once may have."""
CHUNK_ROWS = 2**16
"""How many rows a model is asked about at once, at most."""

ModelLike = KernelMachine | Callable[[Array], ArrayLike]
"""A fitted estimator of this library, or a function of rows in which NaN is unknown."""

SHOWN = 10
"""How many players notebooks show."""


@public
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

    def __repr__(self) -> str:
        rows, players = self.values.shape[:2]
        how = "exact" if self.standard_errors is None else "estimated"
        size = np.abs(self.values).mean(axis=0).reshape(players, -1).sum(axis=1)
        top = ", ".join(f"{self.names[i]} {number(size[i], 3)}" for i in np.argsort(-size)[:3])
        return f"<ShapleyValues: {rows} rows, {players} players, {how}; largest on average: {top}>"

    def _repr_html_(self) -> str:
        rows, players = self.values.shape[:2]
        size = np.abs(self.values).mean(axis=0).reshape(players, -1).sum(axis=1)
        lines = [(str(self.names[i]), float(size[i])) for i in np.argsort(-size)[:SHOWN]]
        shown = table(["player", "mean size"], lines, NOTEBOOK)
        how = "exact" if self.standard_errors is None else "estimated"
        return overview("Shapley values", {"rows": rows, "players": players, "how": how}, shown)

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
        from expectedkernels.plotting import results as contributions

        check_choice("plot", "kind", kind, ("bar", "beeswarm", "waterfall"))
        values, base = (
            x.reshape(*x.shape[:n], -1)[..., output]
            for x, n in ((self.values, 2), (self.base_values, 1))
        )
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
        return shap.Explanation(
            self.values,
            base_values=self.base_values,
            data=self.data,
            feature_names=[str(name) for name in self.names],
        )


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
        If all subsets of more than 20 players are asked for.

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
    check_choice("shapley_values", "method", method, methods)
    check_count("shapley_values", "n_permutations", n_permutations, FEWEST_PERMUTATIONS)
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
    if method == "exact":
        shares = by_subsets(asked.worth, active, interactions)
    elif method == "permutations":
        shares = by_orders(asked.worth, active, n_permutations, np.random.default_rng(rng))
    else:
        shares = _independent(asked)
    flat = asked.f(asked.Z[:1], asked.Z[:1]).ndim == 1
    values, base, total, errors, pairs = (
        x[..., 0] if flat and x is not None else x
        for x in (shares.values, shares.base, shares.total, shares.errors, shares.pairs)
    )
    return ShapleyValues(values, base, total, asked.names, asked.data, errors, pairs)


@dataclass(frozen=True, eq=False)
class Asked:
    """A model as a function of columns of numbers, and the rows that it is asked about.

    Attributes
    ----------
    model : fitted estimator or function
    f : function from (rows, columns) to (rows,) or (rows, outputs)
        And from rows whose masks count, if what is missing matters to the model.
    Z : array of shape (rows, columns)
    columns : list of int arrays
        The columns of numbers of every player.
    names, data
        As in `ShapleyValues`.
    """

    model: Any
    f: Callable[[Any, Any], Any]
    Z: Any
    columns: list[Any]
    names: list[Any]
    data: Any

    def worth(self, rows: Any, shown: Any) -> Any:
        """What rows are worth with some players shown, (rows, coalitions, outputs)."""
        hidden = np.zeros((len(shown), self.Z.shape[1]), dtype=np.bool_)
        for i, columns in enumerate(self.columns):
            hidden[:, columns] = ~shown[:, i : i + 1]
        found, size = [], max(1, min(CHUNK_ROWS, CHUNK_ENTRIES // self.Z.shape[1]))
        for span in spans(len(rows) * len(shown), size):
            row, coalition = np.divmod(np.arange(span.start, span.stop), len(shown))
            like = self.Z[rows[row]]
            try:
                found.append(self.f(np.where(hidden[coalition], np.nan, like), like))
            except EvidenceError:
                self._refuse_impossible()
                raise
        return np.concatenate(found).reshape(len(rows), len(shown), -1)

    def _refuse_impossible(self) -> None:
        """Raise if a row has probability zero, and say which one."""
        if isinstance(self.model, KernelMachine):
            density = self.model.density_
            density.check(density.rows(self.Z))


def _read(model: Any, X: Any, players: Sequence[Any] | None) -> Asked:
    categories: dict[int, Any] = {}
    if isinstance(model, KernelMachine):
        numbers = model._numbers(X)
        Z = model.columns_.standardise(numbers)
        names, places = list(model.columns_.names), model.columns_.places
        f: Callable[[Any, Any], Any] = model._answers
        default, categories = model.columns_.groups_or_columns(), model.columns_.categories
    elif callable(model):
        X = as_frame(X)
        Z = numbers = read_numbers(split_columns(X), column_names(X), "Encode it.")
        names = column_names(X) or list(range(Z.shape[1]))
        places, f = [np.array([i]) for i in range(Z.shape[1])], _checked_answers(model)
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
            data[:, k] = _shown(numbers[:, columns[k]], categories.get(group[0]))
    return Asked(model, f, Z, columns, labels, data)


def _shown(Z: Any, categories: Any) -> Any:
    """What rows show of one column: numbers, or categories (None where there is none)."""
    if categories is None:
        return Z[:, 0]
    gap = np.isnan(Z).any(axis=1)
    found = np.array(categories, dtype=object)[np.where(gap[:, None], 0.0, Z).argmax(axis=1)]
    found[gap] = None
    return found


def _checked_answers(model: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def answers(Z: Any, like: Any) -> Any:
        found = np.asarray(model(Z), dtype=np.float64)
        if found.ndim not in (1, 2) or len(found) != len(Z) or not np.isfinite(found).all():
            raise DataError(
                f"The 'model' function must return a finite value, or row of values, for each of "
                f"{len(Z)} rows in which NaN is unknown. Got an array of shape {found.shape}"
                f"{' with NaN or infinity' if not np.isfinite(found).all() else ''}."
            )
        return found

    return answers


def _players(players: Sequence[Any], names: list[Any]) -> list[list[int]]:
    """The columns of every player, as numbers."""
    groups = []
    for player in players:
        several = isinstance(player, Sequence | np.ndarray) and not isinstance(player, str)
        group = player if several else [player]
        groups.append([column_number(x, names, len(names), "players") for x in group])
    every = [i for group in groups for i in group]
    if len(set(every)) < len(every) or not every or not all(groups):
        raise DataError(
            "The 'players' parameter must name columns, each at most once, and at least one for "
            f"every player. Got {players!r} instead."
        )
    return groups


def _independent(asked: Asked) -> Shares:
    model = asked.model
    if not isinstance(model, KernelMachine):
        raise DataError(
            "method='independent' needs a fitted estimator of this library, which knows the "
            "distributions of columns. Got a function."
        )
    if model._machine.masks is not None:
        raise DataError(
            "method='independent' needs a model to which it does not matter what is missing. Got a "
            f"{type(model).__name__} whose mask kernel has the rate {model.mask_rate_:.3g}. Use "
            "method='exact' or 'permutations', or fit it with mask_kernel=None."
        )
    return independent_shares(
        model._machine.expansion, model.density_, asked.Z, asked.columns, model._resources
    )
