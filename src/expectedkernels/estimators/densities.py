"""Normal densities, and densities by name."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from os import PathLike, fspath
from typing import Any, Protocol

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_memory

from expectedkernels.arrays import own_order
from expectedkernels.checks import DataError, KernelError
from expectedkernels.circuits.circuit import Circuit, in_order
from expectedkernels.estimators.circuit_density import (
    AnyDensity,
    AverageDensity,
    CircuitDensity,
    Nodes,
)
from expectedkernels.estimators.encoding import (
    MOST_BYTES,
    Encoding,
    Variable,
    check_circuit,
    completed_groups,
    require_states,
)
from expectedkernels.estimators.kernel_expansion import (
    Expansion,
    Prior,
    Resources,
    chunks,
    kernels_between,
)
from expectedkernels.kernels.gram import at_known
from expectedkernels.learning.chow_liu import content_tree
from expectedkernels.learning.mixtures import learn_mixture
from expectedkernels.learning.normals import (
    Given,
    NormalMixture,
    conditional_means,
    draws,
    fit_mixture,
    fit_normal,
    given,
    kernel_mixture,
    log_likelihood,
    one_thread,
)
from expectedkernels.learning.strudel import learn_strudel
from expectedkernels.models import converted
from expectedkernels.models.factor_graph import FactorGraph

LEFT_OUT = 1e-4
"""Components that have less than this share of a row, all together, are left out: answers change
by at most this share of the range of f."""
SAME = 1e-9
"""Shares that differ by less, relative to their size, are equal up to rounding."""
DOUBTFUL = 1e4
"""A variance is made anew from covariances if not larger than its rounding error by this factor."""
MANY_ROWS, LARGEST_EXPONENT, FARTHEST = 4, 600.0, 1e4
"""So many rows of a pattern share the exponentials of pairs of components and points, unless some
others are out of range."""
CHUNK_ENTRIES = 2**21
EPS = float(np.finfo(np.float64).eps)
HERMITE = np.polynomial.hermite_e.hermegauss(7)


class NormalDensity:
    """A mixture of normal distributions as a density of columns of data.

    Parameters
    ----------
    mixture : NormalMixture
    variables : sequence of Variable
        Which columns belong together.
    """

    circuit = None

    def __init__(self, mixture: NormalMixture, variables: Sequence[Variable]):
        self.mixture, self.variables = mixture, list(variables)

    def rows(self, Z: Any) -> Any:
        """The rows themselves."""
        return Z

    def check(self, rows: Any, names: Any = None) -> None:
        """Every row is possible."""

    @one_thread
    def mean(self, f: Expansion, rows: Any, resources: Resources) -> Any:
        """The expectations of functions given rows, (rows, outputs)."""
        return self._kernels(f.rates, rows, f.points, f.coef, resources) + f.intercept

    @one_thread
    def variance(
        self, f: Expansion, rows: Any, mean: Any, resources: Resources, prior: Prior | None = None
    ) -> Any:
        """The variances of functions given rows, with those of a process: (rows, outputs)."""
        rates, points = f.rates, f.points
        form = None if prior is None else prior.form
        if f.is_embedded:
            forms = self._known_forms(rates, rows, points, form)
            variance = np.zeros_like(mean)
        else:
            parts = [
                _spreads(self.mixture, rows[at], rates, points, f.coef, form)
                for at in chunks(np.arange(len(rows)), len(points), resources.chunk_bytes)
            ]
            variance, forms = (np.concatenate(each) for each in zip(*parts, strict=True))
        return variance if prior is None else variance + prior.left(forms)

    def _known_forms(self, rates: Any, rows: Any, points: Any, form: Any) -> Any:
        """E[k' Q k] where points have missing values and rows have none."""
        if np.isnan(rows).any():
            raise KernelError(
                "A machine that was fitted to expected kernels under normal distributions has no "
                "standard deviations for rows with missing values. Fit it with fit_missing='mean', "
                "or under a circuit, such as density='chow_liu'."
            )
        if form is None:
            return np.zeros(len(rows))
        kernels = self.gram(rates, rows, points)
        return np.einsum("ri,ri->r", kernels @ form, kernels)

    @one_thread
    def gram(self, rates: Any, A: Any, B: Any = None, resources: Resources | None = None) -> Any:
        """The expected kernels between rows, (rows of A, rows of B)."""
        resources = resources or Resources()
        other = A if B is None else B
        gaps = [np.isnan(x).any(axis=1) for x in (A, other)]
        (i, a), (j, b) = ((np.flatnonzero(gap), np.flatnonzero(~gap)) for gap in gaps)
        gram = np.empty((len(A), len(other)))
        gram[np.ix_(np.arange(len(A)), b)] = self._kernels(rates, A, other[b], None, resources)
        gram[np.ix_(a, j)] = self._kernels(rates, other[j], A[a], None, resources).T
        if len(i) and len(j):
            gram[np.ix_(i, j)] = between(self.mixture, A[i], None if B is None else other[j], rates)
        return gram if B is not None else 0.5 * (gram + gram.T)

    def _kernels(self, rates: Any, rows: Any, points: Any, coef: Any, resources: Resources) -> Any:
        """E[k(x, s) | row], (rows, points); with coefficients their sums, (rows, outputs)."""
        if np.isnan(points).any():
            gram = self.gram(rates, rows, points, resources)
            return gram if coef is None else gram @ coef
        found = np.empty((len(rows), len(points) if coef is None else coef.shape[1]))
        known = ~np.isnan(rows)
        for at in chunks(np.arange(len(rows)), len(points), resources.chunk_bytes):
            kernels = at_known(rates, rows[at], known[at], points)
            kernels *= embed(self.mixture, rows[at], rates, points)
            found[at] = kernels if coef is None else kernels @ coef
        return found

    @one_thread
    def means(self, Z: Any) -> Any:
        """The rows with the expected values of what is missing."""
        Z = completed_groups(self.variables, Z)
        return conditional_means(self.mixture, Z)

    @one_thread
    def draws(self, Z: Any, n: int, rng: Any) -> Any:
        """Completions of the rows, (n, rows, columns)."""
        Z = completed_groups(self.variables, Z)
        return draws(self.mixture, Z, n, rng)

    @one_thread
    def nodes(self, rows: Any) -> list[Nodes]:
        """The nodes of every variable, given what rows show of the others.

        A column has the Gauss rule of its conditional distribution, exact for polynomials of
        degree 13; a group of bits has its categories, weighted by the means of the bits.
        """
        found: list[list[Any]] = [[] for _ in self.variables]
        filled = conditional_means(self.mixture, rows)
        for part in given(self.mixture, rows):
            for i, variable in enumerate(self.variables):
                places = np.flatnonzero(np.isin(part.columns, variable.columns))
                for r, row in enumerate(part.rows if len(places) else ()):
                    if len(variable.columns) > 1:
                        values, weights = _categories(variable, filled[row, variable.columns])
                    else:
                        nodes, weights = _normal_rule(part, r, places[0])
                        values = nodes[:, None]
                    found[i].append((np.full(len(weights), row), values, weights))
        return [
            Nodes(*(np.concatenate(each) for each in zip(*parts, strict=True)))
            if parts
            else Nodes(np.empty(0, dtype=np.intp), np.empty((0, len(v.columns))), np.empty(0))
            for parts, v in zip(found, self.variables, strict=True)
        ]

    def alone(self, i: int) -> NormalDensity:
        """The density of one variable, of tables of its columns only."""
        at, mixture = self.variables[i].columns, self.mixture
        covariances = mixture.covariances[:, at[:, None], at]
        own = NormalMixture(mixture.weights, mixture.means[:, at], covariances)
        return NormalDensity(own, [self.variables[i].alone()])


@dataclass(frozen=True, eq=False)
class Axes:
    """What a covariance of the missing columns, and rates, make of kernels.

    Attributes
    ----------
    turn : array of shape (missing, missing)
        G^1/2 times the eigenvectors of A.
    a : array of shape (missing,)
        The eigenvalues.
    """

    turn: Any
    a: Any

    @classmethod
    def of(cls, S: Any, root: Any) -> Axes:
        """Those of a covariance, and of roots of rates."""
        a, vectors = np.linalg.eigh(root[:, None] * S * root)
        return cls(root[:, None] * vectors, np.maximum(a, 0.0))

    def kernels(self, means: Any, points: Any) -> Any:
        """E k(x, s) for all means and points, (means, points)."""
        scale = 1.0 / np.sqrt(1.0 + 2.0 * self.a)
        away = _squares(means @ self.turn * scale, points @ self.turn * scale)
        return np.exp(-away) * np.prod(scale)

    def roots(self, means: Any, points: Any) -> tuple[Any, Any]:
        """Factors of E k(x, s) k(x, r) = h_s h_r B_sr: (means, points) and (points, points)."""
        b = 1.0 + 4.0 * self.a
        t = points @ self.turn
        h = np.exp(-_squares(means @ self.turn / np.sqrt(b), t / np.sqrt(b)))
        t = t * np.sqrt(2.0 * self.a / b)
        return h * np.prod(b) ** -0.25, np.exp(-_squares(t, t))

    def covariances(self, mean: Any, points: Any) -> Any:
        """Cov(k(x, s), k(x, r)) for all pairs of points, one mean."""
        a, t = self.a, (points - mean) @ self.turn
        b, c = 1.0 + 4.0 * a, 1.0 + 2.0 * a
        e = np.exp(-(t**2 / c).sum(axis=1)) / np.sqrt(np.prod(c))
        p = -4.0 * (t**2) @ (a**2 / (b * c))
        q = t * np.sqrt(4.0 * a / b)
        logs = 0.5 * np.log1p(4.0 * a**2 / b).sum() + p[:, None] + p + q @ q.T
        both = e[:, None] * e
        with np.errstate(over="ignore", invalid="ignore"):  # of points that are remote from x
            found = both * np.expm1(logs)
        return np.where(both > 0, found, 0.0)


def _categories(variable: Variable, bits: Any) -> tuple[Any, Any]:
    """The categories of a variable, (nodes, columns), weighted by how well numbers fit them."""
    fits = variable.fits(bits[None])[0]
    weights = np.maximum(fits, 0.0) if (fits > 0).any() else (fits == fits.max()) * 1.0
    kept = weights > 0
    return variable.pieces.low[kept], weights[kept] / weights.sum()  # type: ignore[union-attr]


def _normal_rule(part: Given, r: int, place: int) -> tuple[Any, Any]:
    """The Gauss rule of one of the missing columns of a row."""
    kept, shares = kept_components(part.shares[r])
    variances = part.covariances[:, place, place]
    variances = variances[kept if len(variances) > 1 else np.zeros_like(kept)]
    steps, weights = HERMITE
    values = part.means[r, kept, place][:, None] + np.sqrt(variances)[:, None] * steps
    return _gauss_rule(values.ravel(), (shares[:, None] * weights).ravel())


def _gauss_rule(values: Any, weights: Any) -> tuple[Any, Any]:
    """The Gauss rule of weighted values with as many nodes as `HERMITE` has, by Lanczos steps."""
    weights = weights / weights.sum()
    centre = weights @ values
    values = values - centre
    scale = max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    basis = [np.sqrt(weights)]
    diagonal, beside = [], []
    for _ in HERMITE[0]:
        v = values / scale * basis[-1]
        diagonal.append(float(basis[-1] @ v))
        for _ in range(2):  # twice: rounding must not bring back what was taken out
            v = v - np.stack(basis).T @ (np.stack(basis) @ v)
        beside.append(float(np.linalg.norm(v)))
        if beside[-1] < 1e-10:
            break
        basis.append(v / beside[-1])
    off = beside[: len(diagonal) - 1]
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    return centre + scale * nodes, vectors[0] ** 2


def _squares(x: Any, y: Any) -> Any:
    """The squared distances between rows."""
    away = (-2.0 * x) @ y.T  # and from here in place: pairs of components are many
    away += np.einsum("ij,ij->i", x, x)[:, None]
    away += np.einsum("ij,ij->i", y, y)
    return np.maximum(away, 0.0, out=away)


def kept_components(shares: Any) -> tuple[Any, Any]:
    """The components that count for a row, and their shares; equal shares all count, or none."""
    ordered = np.sort(shares)
    least = ordered[np.searchsorted(np.cumsum(ordered), LEFT_OUT, side="right")]
    kept = np.flatnonzero(shares >= (1.0 - SAME) * least)
    return kept, shares[kept] / shares[kept].sum()


def _kept(part: Given, r: int) -> Iterator[tuple[Any, Any, int]]:
    """Means, shares and the number of the covariance of components that count for a row.

    Those that have one covariance come together.
    """
    kept, shares = kept_components(part.shares[r])
    means = part.means[r, kept]
    if len(part.covariances) == 1:
        yield means, shares, 0
    else:
        for k, c in enumerate(kept):
            yield means[k : k + 1], shares[k : k + 1], int(c)


def _axes(part: Given, rates: Any) -> list[Axes]:
    root = np.sqrt(rates[part.columns])
    return [Axes.of(S, root) for S in part.covariances]


def embed(mixture: NormalMixture, Z: Any, rates: Any, points: Any) -> Any:
    """E[k(x, s)] over the missing columns of rows, for all rows and points, (rows, points)."""
    found = np.ones((len(Z), len(points)))
    for part in given(mixture, Z):
        if not len(part.columns):
            continue
        axes, seen = _axes(part, rates), points[:, part.columns]
        if mixture.means.shape[0] == 1:
            found[part.rows] = axes[0].kernels(part.means[:, 0], seen)
            continue
        rest = list(range(len(part.rows)))
        if len(axes) == 1 and len(part.rows) >= MANY_ROWS:
            found[part.rows], direct = _shared_kernels(axes[0], part, seen)
            rest = np.flatnonzero(direct).tolist()
        for r in rest:
            found[part.rows[r]] = sum(
                shares @ axes[at].kernels(means, seen) for means, shares, at in _kept(part, r)
            )
    return found


def _shared_kernels(axes: Axes, part: Given, points: Any) -> tuple[Any, Any]:
    """E k(x, s) where components have one covariance, (rows, points), and rows it fails for.

    Means are sums of one part for the row, a, and one for the component, b, so that
    |a + b - t|^2 = |b - t|^2 + 2 a b - 2 a t + |a|^2: only the first has to do with pairs.
    """
    scale = 1.0 / np.sqrt(1.0 + 2.0 * axes.a)
    turn, a = axes.turn * scale, part.means.mean(axis=1)
    near = np.abs(a).max(axis=1).argmin()  # of rows far out, differences lose their digits
    b, middle = (part.means[near] - a[near]) @ turn, a[near]
    with np.errstate(over="ignore", invalid="ignore"):
        a, t = (a - middle) @ turn, (points - middle) @ turn
        direct = ~(np.einsum("ri,ri->r", a, a) <= FARTHEST)
    a[direct] = 0.0
    logs = np.full(part.shares.shape, -np.inf)
    for r, own in enumerate(part.shares):
        kept, shares = kept_components(own)
        logs[r, kept] = np.log(shares)
    logs -= 2.0 * a @ b.T
    top = logs.max(axis=1, keepdims=True)
    outer = 2.0 * a @ t.T + top - np.einsum("ri,ri->r", a, a)[:, None]
    direct |= outer.max(axis=1, initial=-np.inf) > LARGEST_EXPONENT
    kernels = np.exp(logs - top) @ np.exp(-_squares(b, t))
    return kernels * np.exp(np.minimum(outer, LARGEST_EXPONENT)) * np.prod(scale), direct


def _spreads(
    mixture: NormalMixture, Z: Any, rates: Any, points: Any, coef: Any, form: Any
) -> tuple[Any, Any]:
    """Var[f(x)] given rows, (rows, outputs), and E[k' form k], (rows,)."""
    variances, forms = np.zeros((len(Z), coef.shape[1])), np.zeros(len(Z))
    known = ~np.isnan(Z)
    for part in given(mixture, Z):
        axes, seen = _axes(part, rates), points[:, part.columns]
        near = at_known(rates, Z[part.rows], known[part.rows], points)
        for r, row in enumerate(part.rows):
            parts = [(axes[at], means, shares, *axes[at].roots(means, seen))
                     for means, shares, at in _kept(part, r)]  # fmt: skip
            variances[row] = _variance(parts, seen, near[r][:, None] * coef)
            if form is not None:
                for *_, shares, h, pairs in parts:
                    v = h * near[r]
                    forms[row] += shares @ np.einsum("ci,ci->c", v @ (form * pairs), v)
    return variances, forms


def _variance(parts: list[Any], points: Any, coef: Any) -> Any:
    """The variance of sum_j coef_j k(x, s_j) under components, (outputs,).

    Parameters
    ----------
    parts : list of (Axes, means, shares, h, B)
        With the factors of E k(x, s) k(x, r) = h_s h_r B_sr.
    points : array of shape (points, missing)
    coef : array of shape (points, outputs)
    """
    shares = np.concatenate([part[2] for part in parts])
    centres = np.concatenate([axes.kernels(means, points) @ coef for axes, means, *_ in parts])
    variance = shares @ (centres - shares @ centres) ** 2
    squares, sizes = [], []
    for *_, h, pairs in parts:
        weighed = coef.T[:, None] * h
        squares.append(np.einsum("ocj,ocj->co", weighed @ pairs, weighed))
        sizes.append(np.abs(weighed).sum(axis=2).T ** 2)
    within, error = np.concatenate(squares) - centres**2, np.concatenate(sizes)
    if (shares @ within > DOUBTFUL * EPS * (shares @ error)).all():
        return variance + shares @ np.maximum(within, 0.0)
    for axes, means, weights, *_ in parts:
        for mean, share in zip(means, weights, strict=True):
            covariances = axes.covariances(mean, points)
            inner = np.einsum("jo,jo->o", coef, covariances @ coef)
            variance = variance + share * np.maximum(inner, 0.0)
    return variance


def between(mixture: NormalMixture, Z: Any, W: Any, rates: Any) -> Any:
    """E k(x, y) for x and y independent given rows of Z and of W, (rows of Z, rows of W).

    W is Z by default. Every pair of components is a normal distribution of x - y.
    """
    left = _listed(mixture, Z)
    right = left if W is None else _listed(mixture, W)
    found, root = np.zeros((len(left), len(right))), np.sqrt(rates)
    if not right:
        return found
    for i, (means, shares, S) in enumerate(left):
        start = i if W is None else 0
        others = right[start:]
        for a, covariance in enumerate(S):
            of = slice(None) if len(S) == 1 else slice(a, a + 1)
            found[i, start:] += _met(means[of], shares[of], covariance, others, root)
    if W is None:
        found = np.triu(found) + np.triu(found, 1).T
    return found


def _met(means: Any, shares: Any, S: Any, others: list[Any], root: Any) -> Any:
    """What components of one covariance and those of other rows make of the kernel, (others,)."""
    d, found = len(root), []
    size = max(1, CHUNK_ENTRIES // (d * d * max(len(T) for _, _, T in others)))
    for start in range(0, len(others), size):
        some = others[start : start + size]
        T = np.concatenate([T for _, _, T in some])
        L = np.linalg.cholesky(np.eye(d) + 2.0 * root[:, None] * (S + T) * root)
        scale = 1.0 / np.prod(L[:, np.arange(d), np.arange(d)], axis=1)
        turn = np.linalg.solve(L, np.broadcast_to(np.diag(root), L.shape))
        at = 0
        for centres, weights, own in some:
            total = 0.0
            for k in range(len(own)):
                to = slice(None) if len(own) == 1 else slice(k, k + 1)
                Y = turn[at].T
                near = _squares(means @ Y, centres[to] @ Y)
                near = np.exp(np.negative(near, out=near), out=near)
                total += float(shares @ near @ weights[to]) * scale[at]
                at += 1
            found.append(total)
    return np.array(found)


def _listed(mixture: NormalMixture, Z: Any) -> list[Any]:
    """Means, shares and covariances (one, or one for each) of every row."""
    found: list[Any] = [None] * len(Z)
    d = Z.shape[1]
    for part in given(mixture, Z):
        padded = np.zeros((len(part.covariances), d, d))
        padded[:, part.columns[:, None], part.columns] = part.covariances
        for r, row in enumerate(part.rows):
            kept, shares = kept_components(part.shares[r])
            means = np.repeat(Z[row][None], len(kept), axis=0)
            means[:, part.columns] = part.means[r, kept]
            found[row] = means, shares, padded if len(padded) == 1 else padded[kept]
    return found


NORMALS = ("gaussian", "kernel", "gaussian_mixture")
NAMES = ("auto", *NORMALS, "chow_liu", "strudel", "mixture")
REMOVED = {"diagonal_mixture": "use 'gaussian_mixture', or a fitted GaussianMixture"}
MIXTURES = ("gaussian_mixture", "mixture")
"""Densities that have a number of components, which may be given: a pair of name and number."""

COVARIANCES = 8
"""About how many matrices of all columns a normal distribution needs at once."""


class Learner(Protocol):
    """An object that learns a circuit, its `circuit_`."""

    def fit(self, X: Any) -> Any:
        """Learn the circuit of the rows of X."""


DensityLike = str | tuple[str, int] | Circuit | FactorGraph | Learner
"""One of the names above (with a number of components), a known density, or what learns one."""

STRUDEL_SPLITS = 50
MIXTURE_COMPONENTS = 8
TOLERANCE = 0.01
"""Mixtures of trees are learned until a step gains less in the mean log-likelihood: more steps are
no better for rows that are held out."""
FULL_COMPONENTS = (1, 2, 4, 8)
"""Numbers of normal distributions with full covariances to choose from."""
WIDTH = 0.6
"""The width of kernels around training rows, in deviations of the table."""


def learn_density(density: Any, columns: Encoding, Z: Any, *, n_bins: int, rng: Any) -> AnyDensity:
    """The density of columns of numbers, learned from rows with or without missing values.

    Parameters
    ----------
    density : one of `NAMES`, pair, Circuit, model, or object with fit and circuit_
    columns : Encoding
    Z : array of shape (rows, columns)
    n_bins : int
    rng : Generator
    """
    density, n = named(density)
    if hasattr(density, "compile"):
        density = density.circuit()
    if isinstance(density, Circuit):
        categories = {i: known.tolist() for i, known in columns.categories.items()}
        density = in_order(density, columns.names, categories)
        variables = check_circuit(density, columns.variables(Z, None), "The density")
        require_states(variables, Z, columns.names_of_numbers)
        return CircuitDensity(density, variables)
    if isinstance(density, str) and density == "gaussian_mixture":
        Z = Z[own_order(Z)[0]]  # what starts at random starts with the same rows
    variables = columns.variables(Z, n_bins)
    Z = completed_groups(variables, Z)
    if isinstance(density, str) and density in ("auto", *NORMALS):
        return _with_normals(density, n, columns, variables, Z, rng)
    states = as_states(variables, Z)
    circuit = _learned(density, states, variables, columns, rng, n)
    variables = check_circuit(circuit, variables, "The circuit of the density")
    return CircuitDensity(circuit, variables)


def named(density: Any) -> tuple[Any, int | None]:
    """A density without its number of components, and this; raises if it is no such pair."""
    if not isinstance(density, tuple):
        return converted(density), None
    name, n = density if len(density) == 2 else (None, None)
    if name not in MIXTURES or isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
        raise DataError(
            "The 'density' parameter as a pair must be a name and a number of components, such as "
            f"('gaussian_mixture', 3); names are {', '.join(map(repr, MIXTURES))}. Got {density!r}."
        )
    return name, int(n)


def known_labels(density: Any) -> dict[Any, Any]:
    """The labels of the states of a density that is given, by names of variables."""
    density = named(density)[0]
    names, states = getattr(density, "names", None), getattr(density, "states", None)
    if names is None or states is None:
        return {}
    return {name: labels for name, labels in zip(names, states, strict=True) if labels is not None}


def parts_of(learned: AnyDensity, density: Any) -> tuple[list[str], Any]:
    """The names of the densities that a learned one averages, and their weights."""
    if isinstance(learned, AverageDensity):
        return learned.names, learned.weights
    if isinstance(density, tuple):
        density = f"{density[0]}({density[1]})"
    return [density if isinstance(density, str) else type(density).__name__], np.ones(1)


def as_states(variables: list[Variable], Z: Any) -> Any:
    """Rows as states of the variables, NaN where they are not observed."""
    states = np.empty((len(Z), len(variables)))
    for i, variable in enumerate(variables):
        said = variable.say(Z)
        states[:, i] = np.where(said.state >= 0, said.state, np.nan)
    return states


def _learned(
    density: Any, states: Any, variables: list[Variable], columns: Encoding, rng: Any, n: Any = None
) -> Any:
    cards = [max(2, variable.n_states or 2) for variable in variables]
    if isinstance(density, str):
        if density == "chow_liu":
            tree = content_tree(states, cards, columns.variable_names)
            return Circuit.from_blocks(tree.vtree, tree.blocks)
        rows, order = own_order(states)
        states = states[rows][:, order]
        options: Any = {"cardinalities": [cards[i] for i in order], "progress": False}
        if density == "strudel":
            circuit = learn_strudel(states, iterations=STRUDEL_SPLITS, **options)
        else:
            n = min(n or MIXTURE_COMPONENTS, len(states))
            circuit = learn_mixture(states, n, splits=0, tolerance=TOLERANCE, rng=rng, **options)
        names = [str(i) for i in order]
        ordered = in_order(circuit.with_names(names), [str(i) for i in range(len(cards))])
        return Circuit(ordered.vtree, ordered.blocks)
    model = clone(density) if hasattr(density, "get_params") else copy.deepcopy(density)
    model.fit(states)
    found = getattr(model, "circuit_", None)
    if not isinstance(found, Circuit):
        raise DataError(
            "A density with a 'fit' method must have a Circuit as 'circuit_' after it. "
            f"Got {type(found).__name__} from {type(model).__name__}."
        )
    return found


def _validated_mixture(x: Any, rng: Any) -> NormalMixture:
    """As many components as are best for a fifth of the rows that is held out."""
    order = rng.permutation(len(x))
    held, rest = x[order[: len(x) // 5]], x[order[len(x) // 5 :]]
    choices = [n for n in FULL_COMPONENTS if n == 1 or n * x.shape[1] <= len(rest)]
    best = 1
    if len(held) and len(choices) > 1:
        fits = [log_likelihood(fit_mixture(rest, n, rng=rng), held).mean() for n in choices]
        best = choices[int(np.argmax(fits))]
    return fit_mixture(x, best, rng=rng)


def _with_normals(
    name: str, n: int | None, columns: Encoding, variables: list[Variable], Z: Any, rng: Any
) -> AnyDensity:
    """One of `NORMALS`, or "auto": a normal and kernels around rows, or a tree if all is states."""
    size = COVARIANCES * 8 * Z.shape[1] ** 2
    if size > MOST_BYTES:
        raise DataError(
            f"A normal distribution of {Z.shape[1]} columns, one for every category, takes about "
            f"{size / 2**30:.1f} GiB, more than {MOST_BYTES / 2**30:.3g} GiB. Put categories "
            "together, leave out identifiers, or set density='chow_liu'."
        )
    if name == "gaussian_mixture":
        mixture = _validated_mixture(Z, rng) if n is None else fit_mixture(Z, n, rng=rng)
        return NormalDensity(mixture, variables)
    normal = fit_normal(Z)
    parts: dict[str, Any] = {"gaussian": NormalDensity(normal, variables)}
    if name == "gaussian":
        return parts["gaussian"]
    if name == "kernel" or columns.numeric.any():
        kernel = NormalDensity(kernel_mixture(Z, normal, WIDTH, rng), variables)
        if name == "kernel":
            return kernel
        parts[f"kernel({WIDTH})"] = kernel
    else:
        tree = _learned("chow_liu", as_states(variables, Z), variables, columns, rng)
        variables = check_circuit(tree, variables, "The circuit of the density")
        parts["chow_liu"] = CircuitDensity(tree, variables)
    return AverageDensity([*parts.values()], np.full(2, 0.5), [*parts], variables)


IGNORED = ("recipe", "density", "resources")
"""Arguments that the key stands for, or that do not change what is found."""


def key_of(memory: Any, recipe: dict[str, Any]) -> str | None:
    """What stands for the density of a recipe; None if nothing is to be kept.

    Objects that learn a circuit may do so in another way each time: theirs are not kept.

    Examples
    --------
    >>> key_of(None, {"density": "gaussian"}) is None
    True
    >>> len(key_of("folder", {"density": "gaussian"}))
    32
    """
    if memory is None or hasattr(recipe["density"], "fit"):
        return None
    found: str = joblib.hash(recipe)
    return found


def kept(memory: Any, key: str | None, function: Any, **given: Any) -> Any:
    """What a function of this module gives, from memory if it was asked before."""
    if key is None:
        return function(key=key, **given)
    memory = check_memory(fspath(memory) if isinstance(memory, PathLike) else memory)
    ignored = [name for name in IGNORED if name in given]
    # strides count in keys, and in last digits
    arrays = {k: np.ascontiguousarray(x) for k, x in given.items() if isinstance(x, np.ndarray)}
    return memory.cache(function, ignore=ignored)(key=key, **(given | arrays))


def learned(key: Any, recipe: dict[str, Any]) -> Any:
    """The density of a recipe: the arguments of `learn_density`, with a seed."""
    rest = {name: value for name, value in recipe.items() if name != "seed"}
    return learn_density(**rest, rng=np.random.default_rng(recipe["seed"]))


def means(key: Any, density: Any, Z: Any) -> Any:
    """The rows with the expected values of what is missing."""
    return density.means(Z)


def gram(key: Any, density: Any, rates: Any, A: Any, B: Any, resources: Resources) -> Any:
    """The expected kernels between rows, (rows of A, rows of B); B is A by default."""
    return kernels_between(density, rates, A, A if B is None else B, resources)
