"""Normal densities, and densities by name."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from os import PathLike, fspath
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_memory

from expectedkernels.arrays import canonical_order, spans
from expectedkernels.checks import DataError, KernelError
from expectedkernels.circuits.circuit import Circuit, in_order
from expectedkernels.estimators import encoding
from expectedkernels.estimators.circuit_density import CircuitDensity, Nodes
from expectedkernels.estimators.encoding import MOST_BYTES, Encoding, Variable
from expectedkernels.estimators.kernel_expansion import Density, KernelExpansion, Resources, chunks
from expectedkernels.kernels.gram import at_known
from expectedkernels.learning import normals
from expectedkernels.learning.chow_liu import content_tree
from expectedkernels.learning.normals import Given, NormalMixture, condition, draws, one_thread
from expectedkernels.learning.strudel import learn_mixture, learn_strudel
from expectedkernels.models.factor_graph import FactorGraph, converted

LEFT_OUT = 1e-4
"""Components that have less than this share of a row, all together, are left out: results change
by at most this share of the range of f."""
SAME = 1e-9
"""Shares that differ by less, relative to their size, are equal up to rounding."""
DOUBTFUL = 1e4
"""A variance is made anew from covariances if not larger than its rounding error by this factor."""
LARGEST_EXPONENT, FARTHEST = 600.0, 1e4
"""Rows share the exponentials of pairs of components and points, unless some others are out of
range."""
CHUNK_ENTRIES = 2**21
EPS = float(np.finfo(np.float64).eps)
HERMITE = np.polynomial.hermite_e.hermegauss(7)


@dataclass(eq=False)
class NormalDensity(Density):
    """A mixture of normal distributions as a density of columns of data.

    Attributes
    ----------
    mixture : NormalMixture
    variables : list of Variable
        Which columns belong together.
    """

    mixture: NormalMixture
    variables: list[Variable]

    @one_thread
    def kernels(
        self, rates: Any, rows: Any, points: Any, resources: Resources, coef: Any = None
    ) -> Any:
        """E[k(x, s) | row], (rows, points); with coefficients their sums, (rows, outputs)."""
        found = np.empty((len(rows), len(points) if coef is None else coef.shape[1]))
        known = ~np.isnan(rows)
        for at in chunks(np.arange(len(rows)), len(points), resources.chunk_bytes):
            kernels = at_known(rates, rows[at], known[at], points)
            kernels *= embed(self.mixture, rows[at], rates, points)
            found[at] = kernels if coef is None else kernels @ coef
        return found

    @one_thread
    def between(self, rates: Any, A: Any, B: Any, resources: Resources) -> Any:
        """The expected kernels between incomplete rows, (rows of A, rows of B)."""
        d = self.mixture.means.shape[1]
        return between(self.mixture, A[:, :d], None if B is None else B[:, :d], rates[:d])

    @one_thread
    def variance(
        self, f: KernelExpansion, rows: Any, mean: Any, resources: Resources, prior: Any = None
    ) -> Any:
        """The variances of functions given rows, with those of a process: (rows, outputs)."""
        variance, forms = np.zeros_like(mean), np.zeros(len(rows))
        if f.is_embedded:
            raise KernelError(
                "A model that was fitted to expected kernels under normal distributions has no "
                "standard deviations for rows with missing values. Fit it with fit_missing='mean', "
                "or under a circuit, such as density='chow_liu'."
            )
        for at in chunks(np.arange(len(rows)), len(f.points), resources.chunk_bytes):
            variance[at], forms[at] = _spreads(self.mixture, rows[at], f, prior and prior.form)
        return variance if prior is None else variance + prior.left(forms)

    @one_thread
    def means(self, Z: Any) -> Any:
        """The rows with the expected values of what is missing."""
        return normals.conditional_means(self.mixture, Z)

    @one_thread
    def draws(self, Z: Any, n: int, rng: Any) -> Any:
        """Completions of the rows, (n, rows, columns)."""
        return draws(self.mixture, Z, n, rng)

    @one_thread
    def nodes(self, rows: Any) -> list[Nodes]:
        """The nodes of every variable, given what rows show of the others.

        A column has the Gauss rule of its conditional distribution, exact for polynomials of
        degree 13; a group of bits has its categories, weighted by the means of the bits.
        """
        found: list[list[Any]] = [[] for _ in self.variables]
        rows = rows[:, : self.mixture.means.shape[1]]
        filled = normals.conditional_means(self.mixture, rows)
        for part in condition(self.mixture, rows):
            shares = significant(part.responsibilities)
            for nodes, variable in zip(found, self.variables, strict=True):
                place = np.isin(part.columns, variable.columns)[part.pattern]
                at, j = np.flatnonzero(place.any(axis=1)), place.argmax(axis=1)
                if len(variable.columns) > 1:
                    values = np.broadcast_to(variable.low, (len(at), *variable.low.shape))
                    fits = variable.fits(filled[np.ix_(part.rows[at], variable.columns)])
                    best = fits == fits.max(axis=1, keepdims=True)
                    weights = np.where((fits > 0).any(axis=1)[:, None], np.maximum(fits, 0.0), best)
                else:
                    variances = part.covariances[:, part.pattern[at], j[at], j[at]].T
                    values, weights = _normal_rules(part.means[at, :, j[at]], variances, shares[at])
                row, node = np.nonzero(weights)
                total = weights.sum(axis=1)[row]
                nodes.append((part.rows[at][row], values[row, node], weights[row, node] / total))
        return [Nodes(*map(np.concatenate, zip(*parts, strict=True))) for parts in found]


class Axes(NamedTuple):
    """What a covariance of the missing columns, and gammas, make of kernels.

    Attributes
    ----------
    turn : array of shape (missing, missing)
        G^1/2 times the eigenvectors of A = G^1/2 S G^1/2.
    a : array of shape (missing,)
        The eigenvalues.
    """

    turn: Any
    a: Any

    def kernels(self, means: Any, points: Any) -> Any:
        """E k(x, s) for all means and points, (means, points)."""
        scale = 1.0 / np.sqrt(1.0 + 2.0 * self.a)
        turn = self.turn * scale
        return _decay(means @ turn, points @ turn) * np.prod(scale)

    def roots(self, means: Any, points: Any) -> Any:
        """The factors h of E k(x, s) k(x, r) = h_s h_r B_sr: (means, points)."""
        b = 1.0 + 4.0 * self.a
        turn = self.turn / np.sqrt(b)
        return _decay(means @ turn, points @ turn) * np.prod(b) ** -0.25

    def pairs(self, points: Any) -> Any:
        """The factors B, (points, points)."""
        t = points @ self.turn * np.sqrt(2.0 * self.a / (1.0 + 4.0 * self.a))
        return _decay(t, t)

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


def _axes(part: Given, rates: Any) -> list[list[Axes]]:
    """Those of every pattern and every covariance."""
    root = np.sqrt(np.append(rates, 0.0))[part.columns]
    a, vectors = np.linalg.eigh(root[:, :, None] * part.covariances * root[:, None])
    turns = root[:, :, None] * vectors
    return [
        [Axes(turn, np.maximum(x, 0.0)) for turn, x in zip(turns[:, p], a[:, p], strict=True)]
        for p in range(len(root))
    ]


def _normal_rules(means: Any, variances: Any, shares: Any) -> tuple[Any, Any]:
    """The Gauss rules of mixtures of normal distributions, with as many nodes as `HERMITE` has.

    Means and shares are of shape (rows, components), values (rows, nodes, 1) and weights (rows,
    nodes). By Lanczos steps from the nodes of all components.
    """
    (n, c), size = means.shape, len(HERMITE[0])
    values = means[:, :, None] + np.sqrt(variances)[:, :, None] * HERMITE[0]
    weights = shares[:, :, None] * (HERMITE[1] / HERMITE[1].sum())
    values, weights = values.reshape(n, c * size), weights.reshape(n, c * size)
    centre = np.einsum("rv,rv->r", weights, values)[:, None]
    values = values - centre
    scale = np.abs(values * (weights > 0)).max(axis=1, initial=np.finfo(np.float64).tiny)[:, None]
    basis, matrix = np.zeros((n, size, values.shape[1])), np.zeros((n, size, size))
    v = np.sqrt(weights)
    for i in range(size):
        basis[:, i] = v
        v = values / scale * v
        matrix[:, i, i] = np.einsum("rv,rv->r", basis[:, i], v)
        for _ in range(2):  # twice: rounding must not bring back what was taken out
            v = v - np.einsum("riv,ri->rv", basis, np.einsum("riv,rv->ri", basis, v))
        norm = np.linalg.norm(v, axis=1)
        norm[norm < 1e-10] = 0.0  # fewer nodes are enough: the others have no weight
        v = v / np.where(norm > 0, norm, np.inf)[:, None]
        if i + 1 < size:
            matrix[:, i, i + 1] = matrix[:, i + 1, i] = norm
    nodes, vectors = np.linalg.eigh(matrix)
    return (centre + scale * nodes)[..., None], vectors[:, 0] ** 2


def _decay(x: Any, y: Any) -> Any:
    """exp(-|x_i - y_j|^2) for all pairs of rows."""
    one = np.column_stack([2.0 * x, np.full(len(x), -1.0), -np.einsum("ij,ij->i", x, x)])
    two = np.column_stack([y, np.einsum("ij,ij->i", y, y), np.ones(len(y))])
    found = one @ two.T  # and from here in place: pairs are many
    return np.exp(np.minimum(found, 0.0, out=found), out=found)


def significant(shares: Any) -> Any:
    """The shares of the components that count for rows, zero for others.

    Equal shares all count, or none.
    """
    ordered = np.sort(shares, axis=1)
    n_left = (np.cumsum(ordered, axis=1) <= LEFT_OUT).sum(axis=1, keepdims=True)
    least = np.take_along_axis(ordered, n_left, axis=1)
    kept = np.where(shares >= (1.0 - SAME) * least, shares, 0.0)
    return kept / kept.sum(axis=1, keepdims=True)


def _components(part: Given, shares: Any, r: int) -> Iterator[tuple[int, Any, Any]]:
    """The numbers of covariances, and of the components that have each and count for a row.

    Also the shares of these.
    """
    kept = np.flatnonzero(shares[r])
    several = len(part.covariances) > 1
    for at in kept[:, None] if several else [kept]:
        yield int(at[0]) if several else 0, at, shares[r, at]


def embed(mixture: NormalMixture, Z: Any, rates: Any, points: Any) -> Any:
    """E[k(x, s)] over the missing columns of rows, for all rows and points, (rows, points)."""
    d = mixture.means.shape[1]
    found, points = np.ones((len(Z), len(points))), np.pad(points[:, :d], ((0, 0), (0, 1)))
    for part in condition(mixture, Z[:, :d]):
        if not part.columns.size:
            continue
        axes, shares = _axes(part, rates[:d]), significant(part.responsibilities)
        for p, at in part.by_pattern():
            observed, means = points[:, part.columns[p]], part.means[at]
            if shares.shape[1] > len(axes[p]):
                found[part.rows[at]] = _shared_kernels(axes[p][0], means, shares[at], observed)
                continue
            own = (axes[p][c].kernels(means[:, c], observed) for c in range(len(axes[p])))
            each = zip(shares[at].T[:, :, None], own, strict=True)
            found[part.rows[at]] = sum(share * kernels for share, kernels in each)
    return found


def _shared_kernels(axes: Axes, means: Any, shares: Any, points: Any) -> Any:
    """E k(x, s) where components have one covariance, (rows, points).

    Means are sums of one part for the row, a, and one for the component, b, so that
    |a + b - t|^2 = |b - t|^2 + 2 a b - 2 a t + |a|^2: only the first has to do with pairs.
    """
    used = shares.any(axis=0)
    means, shares = means[:, used], shares[:, used]
    scale = 1.0 / np.sqrt(1.0 + 2.0 * axes.a)
    turn, a = axes.turn * scale, means.mean(axis=1)
    near = np.abs(a).max(axis=1).argmin()  # of rows far out, differences lose their digits
    b, middle = (means[near] - a[near]) @ turn, a[near]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        a, t = (a - middle) @ turn, (points - middle) @ turn
        direct = ~(np.einsum("ri,ri->r", a, a) <= FARTHEST)
        a[direct] = 0.0
        logs = np.log(shares) - 2.0 * a @ b.T
    top = logs.max(axis=1, keepdims=True)
    outer = 2.0 * a @ t.T + top - np.einsum("ri,ri->r", a, a)[:, None]
    direct |= outer.max(axis=1, initial=-np.inf) > LARGEST_EXPONENT
    kernels = np.exp(logs - top) @ _decay(b, t)
    kernels *= np.exp(np.minimum(outer, LARGEST_EXPONENT)) * np.prod(scale)
    for r in np.flatnonzero(direct):
        kernels[r] = shares[r] @ axes.kernels(means[r], points)
    return kernels


def _spreads(mixture: NormalMixture, Z: Any, f: KernelExpansion, form: Any) -> tuple[Any, Any]:
    """Var[f(x)] given rows, (rows, outputs), and E[k' form k], (rows,)."""
    variances, forms = np.zeros((len(Z), f.coef.shape[1])), np.zeros(len(Z))
    d, known = mixture.means.shape[1], ~np.isnan(Z)
    points = np.pad(f.points[:, :d], ((0, 0), (0, 1)))
    for part in condition(mixture, Z[:, :d]):
        axes, shares = _axes(part, f.rates[:d]), significant(part.responsibilities)
        near = at_known(f.rates, Z[part.rows], known[part.rows], f.points)
        for p, at in part.by_pattern():
            observed = points[:, part.columns[p]]
            pairs = [own.pairs(observed) for own in axes[p]]
            for r, row in zip(at, part.rows[at], strict=True):
                parts = []
                for c, kept, weights in _components(part, shares, r):
                    own, means = axes[p][c], part.means[r, kept]
                    parts.append((own, means, weights, own.roots(means, observed), pairs[c]))
                variances[row] = _variance(parts, observed, near[r][:, None] * f.coef)
                for *_, weights, h, pairs_ in parts if form is not None else ():
                    v = h * near[r]
                    forms[row] += weights @ np.einsum("ci,ci->c", v @ (form * pairs_), v)
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

    W is Z if it is None. Every pair of components is a normal distribution of x - y.
    """
    left = _by_covariance(mixture, Z)
    right = left if W is None else _by_covariance(mixture, W)
    (n, d), root = Z.shape, np.sqrt(rates)
    found = np.zeros((n, n if W is None else len(W)))
    for first, (i, means, shares, S) in enumerate(left):
        others = right[first:] if W is None else right
        for span in spans(len(others), max(1, CHUNK_ENTRIES // d**2)):
            T = np.stack([T for *_, T in others[span]])
            L = np.linalg.cholesky(np.eye(d) + 2.0 * root[:, None] * (S + T) * root)
            scales = 1.0 / np.prod(L[:, np.arange(d), np.arange(d)], axis=1)
            turns = np.linalg.solve(L, np.broadcast_to(np.diag(root), L.shape)).swapaxes(1, 2)
            for other, scale, turn in zip(others[span], scales, turns, strict=True):
                j, centres, weights, own = other
                total = float(shares @ _decay(means @ turn, centres @ turn) @ weights) * scale
                found[i, j] += total
                if W is None and own is not S:
                    found[j, i] += total
    return found


def _by_covariance(mixture: NormalMixture, Z: Any) -> list[tuple[int, Any, Any, Any]]:
    """Rows, means and shares of the components that count for each, and their covariance.

    Those that have one covariance come together.
    """
    found, d = [], Z.shape[1]
    for part in condition(mixture, Z):
        every = part.filled(Z, part.means.swapaxes(0, 1))
        shares = significant(part.responsibilities)
        n_patterns = len(part.columns)
        wide = np.zeros((len(part.covariances), n_patterns, d + 1, d + 1))
        at = np.arange(n_patterns)[:, None, None], part.columns[:, :, None], part.columns[:, None]
        wide[:, *at] = part.covariances
        for r, row in enumerate(part.rows):
            for c, kept, weights in _components(part, shares, r):
                S = wide[c, part.pattern[r], :d, :d]
                found.append((int(row), every[kept, r], weights, S))
    return found


@dataclass(eq=False, repr=False)
class AverageDensity(Density):
    """An average of densities.

    Attributes
    ----------
    parts : list of Density
    weights : array
    names : list of str
    variables : list of Variable
    """

    parts: list[Any]
    weights: Any
    names: list[str]
    variables: list[Variable]

    @property
    def circuit(self) -> Any:
        """The circuit of the last part, None if it has none."""
        return self.parts[-1].circuit

    def __repr__(self) -> str:
        shares = zip(self.weights, self.names, strict=True)
        return "AverageDensity(" + " + ".join(f"{w:.3g} {name}" for w, name in shares) + ")"

    def rows(self, Z: Any) -> Any:
        """The rows as every part reads them."""
        return [part.rows(Z) for part in self.parts]

    def kernels(
        self, rates: Any, rows: Any, points: Any, resources: Resources, coef: Any = None
    ) -> Any:
        """E[k(x, s) | row], (rows, points); with coefficients their sums, (rows, outputs)."""
        each = zip(self.parts, rows, strict=True)
        return self._mixed([p.kernels(rates, own, points, resources, coef) for p, own in each])

    def mean(self, f: KernelExpansion, rows: Any, resources: Resources) -> Any:
        """The expectations of functions given incomplete rows, (rows, outputs)."""
        each = zip(self.parts, rows, strict=True)
        return self._mixed([part.mean(f, own, resources) for part, own in each])

    def between(self, rates: Any, A: Any, B: Any, resources: Resources) -> Any:
        """The expected kernels between incomplete rows, (rows of A, rows of B)."""
        return self._mixed([part.between(rates, A, B, resources) for part in self.parts])

    def variance(
        self, f: KernelExpansion, rows: Any, mean: Any, resources: Resources, prior: Any = None
    ) -> Any:
        """The variances of functions given rows, with those of a process: (rows, outputs)."""
        within = []
        for part, own in zip(self.parts, rows, strict=True):
            centre = part.mean(f, own, resources)
            spread = part.variance(f, own, centre, resources, prior)
            within.append(spread + (centre - mean) ** 2)
        return self._mixed(within)

    def means(self, Z: Any) -> Any:
        """The rows with the expected values of what is missing."""
        # what is known stands as it is, to the last digit
        return np.where(np.isnan(Z), self._mixed([part.means(Z) for part in self.parts]), Z)

    def draws(self, Z: Any, n: int, rng: Any) -> Any:
        """Completions of the rows, (n, rows, columns): each from a density drawn for it."""
        chosen = rng.choice(len(self.parts), size=(n, len(Z)), p=self.weights)
        found = np.empty((n, *Z.shape))
        for k, part in enumerate(self.parts):
            samples = part.draws(Z, n, rng)
            found[chosen == k] = samples[chosen == k]
        return found

    def nodes(self, rows: Any) -> list[Nodes]:
        """The nodes of every variable, given what rows show of the others."""
        every = [part.nodes(own) for part, own in zip(self.parts, rows, strict=True)]
        found = []
        for each in zip(*every, strict=True):
            pairs = zip(self.weights, each, strict=True)
            parts = [(nodes.rows, nodes.values, share * nodes.weights) for share, nodes in pairs]
            found.append(Nodes(*map(np.concatenate, zip(*parts, strict=True))))
        return found

    def _mixed(self, values: list[Any]) -> Any:
        return sum(w * value for w, value in zip(self.weights, values, strict=True))


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


def learn_density(
    density: Any, columns: Encoding, Z: Any, n_bins: int, seed: int = 0, key: Any = None
) -> Density:
    """The density of columns of numbers, learned from rows with or without missing values.

    Parameters
    ----------
    density : one of `NAMES`, pair, Circuit, model, or object with fit and circuit_
    columns : Encoding
    Z : array of shape (rows, columns)
    n_bins, seed : int
    key : object
        What stands for the other arguments where results are kept.
    """
    density, n = named(density)
    if hasattr(density, "compile"):
        density = density.circuit()
    if isinstance(density, Circuit):
        categories = {i: known.tolist() for i, known in columns.categories.items()}
        density = in_order(density, columns.names, categories)
        variables = encoding.check_circuit(density, columns.variables(Z, None), "The density")
        encoding.require_states(variables, Z, columns)
        return CircuitDensity(density, variables)
    name, rng = density if isinstance(density, str) else None, np.random.default_rng(seed)
    if name == "gaussian_mixture":
        Z = Z[canonical_order(Z)[0]]  # what starts at random starts with the same rows
    variables = columns.variables(Z, n_bins)
    if name not in ("auto", *NORMALS):
        return _learn_circuit(density, n, columns, variables, Z, rng)
    size = COVARIANCES * 8 * Z.shape[1] ** 2
    if size > MOST_BYTES:
        raise DataError(
            f"A normal distribution of {Z.shape[1]} columns, one for every category, takes about "
            f"{size / 2**30:.1f} GiB, more than {MOST_BYTES / 2**30:.3g} GiB. Put categories "
            "together, leave out identifiers, or set density='chow_liu'."
        )
    if name == "gaussian_mixture":
        n = _best_number(Z, rng) if n is None else n
        return NormalDensity(normals.fit_mixture(Z, n, rng=rng), variables)
    normal = normals.fit_normal(Z)
    parts: dict[str, Density] = {"gaussian": NormalDensity(normal, variables)}
    if name == "kernel" or (name == "auto" and columns.numeric.any()):
        mixture = normals.kernel_mixture(Z, normal, WIDTH, rng)
        parts[f"kernel({WIDTH})"] = NormalDensity(mixture, variables)
    elif name == "auto":
        parts["chow_liu"] = _learn_circuit("chow_liu", None, columns, variables, Z, rng)
    last = [*parts.values()][-1]
    if name != "auto":
        return last
    return AverageDensity([*parts.values()], np.full(2, 0.5), [*parts], last.variables)


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


def parts_of(learned: Density, density: Any) -> tuple[list[str], Any]:
    """The names of the densities that a learned one averages, and their weights."""
    if isinstance(learned, AverageDensity):
        return learned.names, learned.weights
    if isinstance(density, tuple):
        density = f"{density[0]}({density[1]})"
    return [density if isinstance(density, str) else type(density).__name__], np.ones(1)


def _learn_circuit(
    density: Any, n: int | None, columns: Encoding, variables: list[Variable], Z: Any, rng: Any
) -> CircuitDensity:
    """A circuit over the states of variables, by its name or by an object that learns one."""
    codes = np.stack([variable.observe(Z).state for variable in variables], axis=1)
    states = np.where(codes >= 0, codes, np.nan)
    cards = [max(2, variable.n_states or 2) for variable in variables]
    rows, order = canonical_order(states)
    options: Any = {"cardinalities": [cards[i] for i in order], "progress": False}
    if not isinstance(density, str):
        model = clone(density) if hasattr(density, "get_params") else copy.deepcopy(density)
        model.fit(states)
        circuit = getattr(model, "circuit_", None)
        if not isinstance(circuit, Circuit):
            raise DataError(
                "A density with a 'fit' method must have a Circuit as 'circuit_' after it. "
                f"Got {type(circuit).__name__} from {type(model).__name__}."
            )
    elif density == "chow_liu":
        tree = content_tree(states, cards, columns.variable_names)
        circuit = Circuit.from_blocks(tree.vtree, tree.blocks)
    else:
        states = states[rows][:, order]
        if density == "strudel":
            circuit = learn_strudel(states, iterations=STRUDEL_SPLITS, **options)
        else:
            n = min(n or MIXTURE_COMPONENTS, len(states))
            circuit = learn_mixture(states, n, splits=0, tolerance=TOLERANCE, rng=rng, **options)
        circuit = circuit.with_names([str(i) for i in order])
        circuit = in_order(circuit, [str(i) for i in range(len(cards))])
        circuit = Circuit(circuit.vtree, circuit.blocks)
    variables = encoding.check_circuit(circuit, variables, "The circuit of the density")
    return CircuitDensity(circuit, variables)


def _best_number(x: Any, rng: Any) -> int:
    """The number of components that is best for a fifth of the rows that is held out."""
    order = rng.permutation(len(x))
    held, rest = x[order[: len(x) // 5]], x[order[len(x) // 5 :]]
    choices = [n for n in FULL_COMPONENTS if n == 1 or n * x.shape[1] <= len(rest)]
    if not len(held) or len(choices) == 1:
        return 1
    mixtures = (normals.fit_mixture(rest, n, rng=rng) for n in choices)
    fits = [normals.log_likelihood(mixture, held).mean() for mixture in mixtures]
    return choices[int(np.argmax(fits))]


IGNORED = ("density", "columns", "n_bins", "seed", "resources")
"""Arguments that the key stands for, or that do not change what is found."""


def kept(memory: Any, key: str | None, function: Any, **given: Any) -> Any:
    """What a function of this module returns, from the cache if it is there."""
    if key is None:
        return function(key=key, **given)
    memory = check_memory(fspath(memory) if isinstance(memory, PathLike) else memory)
    ignored = [name for name in IGNORED if name in given]
    # strides count in keys, and in last digits
    arrays = {k: np.ascontiguousarray(x) for k, x in given.items() if isinstance(x, np.ndarray)}
    return memory.cache(function, ignore=ignored)(key=key, **(given | arrays))


def means(key: Any, density: Any, Z: Any) -> Any:
    """The rows with the expected values of what is missing."""
    return density.means(Z)


def gram(key: Any, density: Any, rates: Any, A: Any, B: Any, resources: Resources) -> Any:
    """The expected kernels between rows, (rows of A, rows of B); B is A by default."""
    return density.gram(rates, A, B, resources)
