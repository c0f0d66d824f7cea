"""Hypothesis tests: goodness of fit, two samples, and which of several models is closer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.optimize import bisect
from scipy.special import gammainc, ndtr, stdtr, stdtrit

from expectedkernels import arrays, checks
from expectedkernels.arrays import Array, RngLike, RowsLike, SamplesLike, VariablesLike
from expectedkernels.checks import DataError, PropertyError, SizeError, public
from expectedkernels.circuits.circuit import Circuit, align
from expectedkernels.data.schema import Schema, listed
from expectedkernels.discrepancies import mmd
from expectedkernels.discrepancies.mmd import MeanEmbedding, mean_embedding
from expectedkernels.expectation import two_distributions
from expectedkernels.kernels import empirical
from expectedkernels.kernels.empirical import Empirical, default_kernel
from expectedkernels.kernels.kernel import ExpHamming, Kernel, require_kernel
from expectedkernels.kernels.target import Target, TargetLike, as_target
from expectedkernels.models.factor_graph import BayesianNetwork, forward_samples
from expectedkernels.reports import Reported
from expectedkernels.sampling.gibbs import TableSite, sampled_model
from expectedkernels.stein import langevin
from expectedkernels.stein.stein_kernel import SteinKernel, selected_grams, stein_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NULLS = ("auto", "model", "gibbs", "signs")
"""Where samples under the hypothesis come from."""

DRAWN = {
    "model": "simulations of the model",
    "gibbs": "exchangeable Gibbs chains",
    "langevin": "exchangeable Langevin chains",
    "signs": "rows of random signs",
    "permutations": "permutations",
    "conditional": "simulations given the other columns",
}

TIES = 1e-9
"""Statistics whose relative difference is smaller than this are equal up to rounding."""

CHUNK = 2**22
"""How many values of a kernel, or entries of simulated samples, are held at once."""

SWEEPS = 5
"""How often the Gibbs chains of a null distribution update every variable, back and forth."""

REFIT_COPIES = 10
"""How many copies of samples the model is fitted to that others are simulated from."""

NODES = np.linspace(-6.5, 6.5, 651)
"""Where the normal error along the discrepancy is integrated."""

FEW = 5
"""Differences whose variance, or skewness, comes from fewer samples, in effect, are not judged."""

ENOUGH = 8.0
"""Random signs are trusted if there are this many for every unit of skewness, squared."""

ROUNDING = 1e-12
"""Models whose embeddings differ by no more, of their size, are the same up to rounding."""

KernelsLike = Kernel | Sequence[Kernel] | str | None
"""One kernel, several, "aggregate" for a grid around the default, or None for that."""

Statistic = Callable[[Any], Any]
"""From samples (m, n, variables) to statistics (kernels, m)."""

Block = Callable[[Any], Any]
"""From the numbers of some rows to the matrix of their kernels with all rows."""


@dataclass(frozen=True)
class SamplingError:
    """The squared distance between the mean embeddings of samples and of their source."""

    mean: float  # of that distance, if samples were drawn again
    variance: float
    n: int  # the number of samples
    along: float = 0.0  # the variance of the error along the discrepancy, where that is known


@dataclass(frozen=True, eq=False)
class SignificanceTest(Reported):
    """What all tests with a simulated null distribution find.

    Attributes
    ----------
    statistic : float
        An unbiased estimate of a squared discrepancy; for several kernels the largest of these,
        each standardised over the observed and the simulated samples.
    p_value : float
        How often a statistic at least as large is expected under the hypothesis.
    null : array
        The statistics simulated under the hypothesis.
    drawn : str
        How they were: "model", "gibbs", "signs" or "permutations".
    kernel : Kernel
        Of several kernels that for which the statistic is the largest.
    """

    statistic: float
    p_value: float
    null: Array = field(repr=False)
    drawn: str
    kernel: Kernel

    _picture = "The statistic among simulated ones"
    _claim: ClassVar[str]
    _counts: ClassVar[tuple[str, ...]]

    def _numbers(self) -> dict[str, Any]:
        return {"statistic": self.statistic, "p-value": self.p_value}

    def _settings(self) -> dict[str, Any]:
        sizes = " and ".join(str(getattr(self, name)) for name in self._counts)
        simulated = f"{len(self.null)} {DRAWN[self.drawn]}"
        return {"samples": f"{sizes} samples", "simulated": simulated, **super()._settings()}

    def __str__(self) -> str:
        verdict = "rejected" if self.p_value <= 0.05 else "not rejected"
        samples, simulated, kernel, *columns = self._settings().items()
        parts = f"{samples[1]}, {simulated[1]}, {kernel[1]}"
        parts += "".join(f"; {what}: {names}" for what, names in columns)
        claim = f"The hypothesis that {self._claim} is {verdict} at 5 %: p = {self.p_value:.3g}"
        return f"{claim}, statistic {self.statistic:.4g} ({parts})."

    def plot(self) -> Axes:
        """Axes with the statistic among those simulated under the hypothesis. Needs matplotlib.

        Returns
        -------
        matplotlib axes

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
        >>> ek.mmd_test(p.sample(50, rng=0), p, rng=0).plot().get_xlabel()
        'statistic'
        """
        from expectedkernels.plotting import plot_null

        return plot_null(self)


@public
@dataclass(frozen=True, eq=False)
class GoodnessOfFit(SignificanceTest):
    """The result of `kdsd_test` and of `mmd_test`, which also tells how far the model is.

    Attributes
    ----------
    n : int
        The number of samples.
    standard_error : float or None
        Of the statistic of `mmd_test` with one kernel, as an estimate of the squared discrepancy.
    sampling_error : SamplingError or None
        What its interval is made of.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> test = ek.kdsd_test(p.sample(100, rng=0), p, rng=0)
    >>> print(test)
    The hypothesis that the samples come from the model is not rejected at 5 %: p = 0.245,
    statistic 0.001495 (100 samples, 199 simulations of the model, ExpHamming(gamma=None)).
    """

    n: int
    standard_error: float | None = None
    sampling_error: SamplingError | None = field(default=None, repr=False)

    _title = "Do samples come from the model?"
    _claim = "the samples come from the model"
    _counts = ("n",)

    def interval(self, coverage: float = 0.95) -> tuple[float, float]:
        """A confidence interval of the squared discrepancy between the model and the population.

        Parameters
        ----------
        coverage : float
            The probability that the interval holds it.

        Returns
        -------
        tuple of two floats

        Raises
        ------
        DataError
            If this is not the result of `mmd_test` with one kernel and complete samples.

        Notes
        -----
        To *accept* a model, decide which discrepancy delta is too small to matter; if the upper end
        of the interval with coverage 0.9 is below delta^2, the discrepancy is smaller than
        delta at a level of 5 %. A large p-value does not say that: it may come from few samples.

        Both ends hold what half of the remaining chance allows: the estimate would be as small (as
        large) as it is with that probability if the end were the truth. What is estimated are
        the mean and variance of the error of the samples' mean embedding, and its part along the
        discrepancy. Near the model that direction is not known, and the interval is longer than
        it need be; far from it, it is that of a normal estimate. Coverage is approximate for few
        samples, and does not hold if what matters are states that the samples do not show.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
        >>> q = ek.factorized([[0.6, 0.4], [0.5, 0.5]])
        >>> low, high = ek.mmd_test(q.sample(500, rng=1), p, rng=0).interval()
        >>> low < ek.mmd2(p, q) < high
        True
        """
        checks.check_real("interval", "coverage", coverage, 0, 1, "()", error=DataError)
        if self.standard_error is None or self.sampling_error is None:
            what = "An interval is of the discrepancy of complete samples under one kernel"
            raise DataError(f"{what}. Call mmd_test with one kernel, and with complete samples.")
        error = directed_error(self.statistic, self.standard_error, self.sampling_error, self.null)
        return score_interval(self.statistic, error, coverage)


@dataclass(frozen=True, eq=False)
class TwoSamples(SignificanceTest):
    """The result of `mmd_two_sample_test`.

    Attributes
    ----------
    n, m : int
        The numbers of samples.
    categorical : dict from columns to bool, or None
        Whether the default kernel takes a column for categorical, or else for numbers; None if a
        kernel was given.
    """

    n: int
    m: int
    categorical: dict[str | int, bool] | None = None

    _title = "Do two sets of samples have one source?"
    _claim = "both sets of samples have one source"
    _counts = ("n", "m")

    def _settings(self) -> dict[str, Any]:
        kinds: dict[bool, list[Any]] = {False: [], True: []}
        for name, kind in (self.categorical or {}).items():
            kinds[kind].append(name)
        columns = {"columns of numbers": kinds[False], "columns of categories": kinds[True]}
        return super()._settings() | {what: listed(x) for what, x in columns.items() if x}


def directed_error(value: float, error: float, sampling: SamplingError, null: Any) -> SamplingError:
    """The sampling error of an estimate, along the discrepancy and in all.

    Near zero the direction of the discrepancy is not known, and the error along it is at most that
    of all directions together; else it is known from the standard error. Samples that are all in a
    few states do not show how they could differ: so the error is no less than that of simulated
    samples of the model, and one more sample, of the model, is thought to be among those given.

    Examples
    --------
    >>> directed_error(0.5, 0.1, SamplingError(0.02, 1e-4, 100), np.zeros(9)).along.__round__(6)
    0.00505
    """
    mean, most = sampling.mean, sqrt(sampling.variance / 2.0)
    least = sqrt(float(np.mean(np.square(null))) / 2.0)
    if least > most:
        mean = max(mean * least / most if most > 0 else 0.0, least)
    one = max(value, 0.0) / sampling.n**2
    mean, most = mean + one, max(least, most) + one
    along = min(most, error**2 / (4.0 * value) + one) if value > 0 else most
    return SamplingError(mean, 2.0 * most**2, sampling.n, min(along, mean))


def score_interval(statistic: float, error: SamplingError, coverage: float) -> tuple[float, float]:
    r"""The squared discrepancies under which an estimate is not unlikely.

    With the mean embeddings of the model, the source and the samples, :math:`\mu_p`,
    :math:`\mu_q` and :math:`\hat\mu`, and :math:`\theta = \|\mu_q - \mu_p\|`,

    .. math:: \|\hat\mu - \mu_p\|^2 = (\theta + s g)^2 + r,

    where s g is the error of :math:`\hat\mu` along the discrepancy, and r the squared error across.
    g is taken as Student's, r as a multiple of a chi-squared variable, and each end is the
    :math:`\theta^2` at which what was found, or more (less), has half of the remaining chance.

    Examples
    --------
    >>> ends = score_interval(24.0, SamplingError(1.0, 2.0, 10**6, 1.0), 0.9)  # of 5^2
    >>> np.sqrt(ends).round(2) - 5.0
    array([-1.64,  1.64])
    """
    density = np.exp(-0.5 * NODES**2)
    density /= density.sum()
    student = np.copysign(stdtrit(error.n - 1, ndtr(-np.abs(NODES))), NODES) * sqrt(error.along)
    across, variance = error.mean - error.along, error.variance - 2.0 * error.along**2

    def cdf(theta: float, value: float) -> float:
        left = value - (theta + student) ** 2
        if across <= 1e-9 * error.mean or variance <= 1e-9 * error.variance:
            return float(density @ (left >= across))
        half = across**2 / variance  # half of the degrees of freedom
        return float(density @ gammainc(half, np.maximum(left, 0.0) * across / variance))

    def largest_theta(value: float, chance: float) -> float:
        high = sqrt(least)
        if high == 0.0 or cdf(0.0, value) <= chance:
            return 0.0
        while cdf(high, value) > chance:
            high *= 2.0
        return bisect(lambda x: cdf(x, value) - chance, 0.0, high, xtol=1e-300, rtol=1e-15)

    tail = 0.5 - 0.5 * coverage
    least = max(statistic, 0.0) + error.mean  # estimates below zero do not say more than zero
    low = largest_theta(statistic + error.mean, 1.0 - tail)
    return low**2, largest_theta(least, tail) ** 2


def rank_p_value(statistic: float, null: Any) -> float:
    """The share of statistics that are at least as large, the observed one among them.

    If all of them are exchangeable under the hypothesis, the probability that this is at most a is
    at most a, whatever the statistic is. Ties count against the hypothesis being rejected.

    Examples
    --------
    >>> rank_p_value(2.0, np.array([1.0, 2.0, 3.0]))
    0.75
    """
    size = max(abs(statistic), float(np.abs(null).max(initial=0.0)))
    return (1 + int((null >= statistic - TIES * size).sum())) / (len(null) + 1)


def outcome(statistics: Any, drawn: str, kernels: list[Kernel], *others: Any) -> Any:
    """The fields of a result, from statistics (kernels, 1 + simulated), the observed first.

    Of several kernels the largest statistic counts, each standardised over all samples: columns
    that are exchangeable remain so.
    """
    top, best = statistics[0], 0
    if len(kernels) > 1:
        centred = statistics - statistics.mean(axis=1, keepdims=True)
        deviation = centred.std(axis=1, keepdims=True)
        rounding = TIES * np.abs(statistics).max(axis=1, keepdims=True)
        deviation[deviation <= rounding] = np.inf
        scores = centred / deviation
        top, best = scores.max(axis=0), int(np.argmax(scores[:, 0]))
    statistic, null = float(top[0]), np.array(top[1:])
    null.flags.writeable = False
    return statistic, rank_p_value(statistic, null), null, drawn, kernels[best], *others


def kernels_of(k: Any, default: Callable[..., Kernel], categorical: Any = None) -> list[Kernel]:
    """The kernels of a test: one, several, or a grid around the default.

    `default` takes the factor of its gamma as `scale`. What chooses the default kernel, the
    categorical features, stands beside no other.
    """
    if k is None:
        return [default(scale=1.0)]
    if isinstance(k, str) and k == "aggregate":
        return [default(scale=scale) for scale in (0.5, 1.0, 2.0, 4.0, 8.0)]
    empirical.refuse_features(categorical)
    kernels = list(k) if isinstance(k, (list, tuple)) else [k]
    if not kernels:
        raise DataError("A test needs at least one kernel. Got an empty list.")
    for kernel in kernels:
        require_kernel(kernel)
    return kernels


def complete_samples(model: Any, samples: Any, *, incomplete: bool = False) -> Any:
    """The equally weighted samples of a test, (n, variables), at least two, and complete ones."""
    points = empirical.sample_rows(model, samples)
    check_samples(points, empirical.sample_weights(samples), incomplete=incomplete)
    return points


def check_samples(points: Any, weights: Any, of: str = "", *, incomplete: bool = False) -> None:
    """Raise unless there are two samples, all of them complete, finite and counting alike."""
    if len(points) < 2:
        raise DataError(f"A test needs at least two samples{of}. Got {len(points)}.")
    bad = np.isinf(points) if np.isinf(points).any() else np.isnan(points)
    if bad.any() and not incomplete:
        row, column = np.argwhere(bad)[0]
        value = "NaN" if np.isnan(points[row, column]) else points[row, column]
        raise DataError(
            f"A test is of complete and finite samples. Got {value} in row {row}, column {column} "
            f"(in {bad.any(axis=1).sum()} of {len(points)} rows). Leave such rows out only if "
            "values are missing completely at random; imputed rows are no samples of a model. "
            "mmd_test and monitoring.SequentialTest of a model take missing values."
        )
    if weights is not None and not np.allclose(weights, weights[0], rtol=1e-9, atol=0.0):
        what = "A test is of samples that count alike, and these have different weights"
        advice = "Give their rows alone, or ask kdsd or mmd2 for their weighted discrepancy"
        raise DataError(f"{what}. {advice}.")


def distinct_places(samples: Any) -> tuple[Any, Any]:
    """The distinct rows of samples (m, n, variables), and where each row is among them, (m, n)."""
    m, n, d = samples.shape
    codes = np.where(np.isnan(samples), np.inf, samples).reshape(m * n, d)  # values are finite
    rows, place = np.unique(codes, axis=0, return_inverse=True)
    return np.where(np.isinf(rows), np.nan, rows), place.reshape(m, n)


def counts_of(place: Any, size: int) -> Any:
    """How often every distinct row occurs in every sample, (m, size).

    Examples
    --------
    >>> counts_of(np.array([[1, 0], [0, 0]]), 2).tolist()
    [[1.0, 1.0], [2.0, 0.0]]
    """
    m = len(place)
    flat = (place + size * np.arange(m)[:, None]).reshape(-1)
    return np.bincount(flat, minlength=m * size).reshape(m, size).astype(np.float64)


def row_sums(block: Block, weights: Any) -> tuple[Any, Any]:
    """The sums of kernels along rows by every row of weights, (rows, m), and the diagonal.

    Examples
    --------
    >>> sums, diagonal = row_sums(np.diag([1.0, 2.0]).__getitem__, np.array([[3.0, 4.0]]))
    >>> sums.tolist(), diagonal.tolist()
    ([[3.0], [8.0]], [1.0, 2.0])
    """
    size, parts = weights.shape[1], []
    for chunk in arrays.spans(size, max(1, CHUNK // size)):
        matrix = block(np.arange(size)[chunk])
        parts.append((matrix @ arrays.as_like(weights.T, matrix), matrix[:, chunk].diagonal()))
    sums, diagonal = (arrays.namespace(*x).concatenate(x) for x in zip(*parts, strict=True))
    return sums, diagonal


def pair_means(between: Callable[[Any, Any], Any], place: Any, size: int) -> Any:
    """The mean of a kernel over pairs of different samples, for every sample, (m,).

    Kernels of all pairs of distinct rows serve all samples if these are fewer than the pairs within
    the samples; else every sample has its own.

    Examples
    --------
    >>> pair_means(lambda a, b: np.eye(3)[a][:, b], np.array([[0, 0, 1], [0, 1, 2]]), 3).round(6)
    array([0.333333, 0.      ])
    """
    own = [np.unique(row, return_counts=True) for row in place]
    sets = [(rows, counts[None].astype(np.float64)) for rows, counts in own]
    if size**2 <= sum(len(rows) ** 2 for rows, _ in own):
        sets = [(np.arange(size), counts_of(place, size))]
    totals = []
    for rows, counts in sets:
        sums, diagonal = row_sums(lambda some, rows=rows: between(rows[some], rows), counts)  # type: ignore[misc]
        totals.append((counts.T * sums).sum(axis=0) - counts @ diagonal)
    n = place.shape[1]
    return np.concatenate(totals) / (n * (n - 1))


def null_generator(rng: Any) -> Any:
    """The random generator of a test, which does not repeat samples drawn with the same seed.

    Examples
    --------
    >>> null_generator(0).random() == np.random.default_rng(0).random()
    False
    """
    generator = arrays.as_generator(rng)
    return generator if generator is rng else generator.spawn(1)[0]


def null_sampler(target: Any, points: Any, null: str, rng: Any) -> tuple[str, Callable[..., Any]]:
    """How samples under the hypothesis are drawn, and a function that samples m, (m, n, variables).

    Let P be the transition of a chain that leaves the target invariant, and Q its reversal. If x
    comes from the target and a root h from Q given x, then x has, given h, the distribution of a
    step of P from h. So m more steps of P from h are as good as x: given h, all of them are
    independent and have one distribution, however slowly the chain mixes.

    J. Besag and P. Clifford, "Generalized Monte Carlo significance tests", Biometrika 1989.
    """
    sample = None if null == "gibbs" else _exact_sampler(target, rng)
    n, d = points.shape
    if sample is not None:
        return "model", lambda m: sample(m * n).reshape(m, n, d)
    if null == "model":
        why = "it is too large to compile" if hasattr(target, "sample") else "it has no samples"
        if isinstance(target, Target):
            why = f"it is a function of more than {mmd.ENUMERATED} states"
        raise PropertyError(
            f"The target cannot be sampled exactly: {why}. Use null='gibbs', chains that start "
            "from the samples and keep the level all the same."
        )
    sites = sampled_model(target, (), None, "kdsd_test").sites
    root = gibbs_sweeps(target, sites[::-1], points, rng)  # the reversed chain

    def chains(m: int) -> Any:
        return gibbs_sweeps(target, sites, np.tile(root, (m, 1)), rng).reshape(m, n, d)

    return "gibbs", chains


def _exact_sampler(target: Any, rng: Any) -> Callable[[int], Any] | None:
    """A function that samples independent rows of a target, None if nothing exact is known."""
    if mmd.is_small(target):
        states, chances = mmd.states_of(target)
        edges = arrays.cumulative(chances[None])[0]
        return lambda n: states[np.searchsorted(edges, rng.random(n), "right")]
    if isinstance(target, BayesianNetwork):
        return lambda n: forward_samples(target, n, rng, {}).astype(np.float64)
    if isinstance(target, Target) or not hasattr(target, "sample"):
        return None
    model = target.to("numpy") if isinstance(target, Circuit) else target
    try:
        model.sample(1, rng=0)  # compiles, once
    except SizeError:
        return None
    return lambda n: model.sample(n, rng)


def gibbs_sweeps(target: Any, sites: Sequence[Any], points: Any, rng: Any) -> Any:
    """Points after some sweeps of Gibbs updates."""
    rows = points.astype(np.intp)
    at, here = np.arange(len(rows)), target.log_prob(rows) if isinstance(target, Target) else None
    for site in SWEEPS * list(sites):
        v, u = site.variable, rng.random(len(rows))
        if isinstance(site, TableSite):
            rows[:, v] = site.draw(rows, u)
        elif here is None:  # not remembered: many rows hardly ever meet the same states twice
            rows[:, v] = arrays.inverse_cdf(site.evaluated(rows), u)
        else:  # the function is called for the other states only
            n_others = target.cardinalities[v] - 1
            others = np.tile(rows, (n_others, 1))
            others[:, v] += np.repeat(np.arange(1, n_others + 1), len(rows))
            others[:, v] %= n_others + 1
            logs = np.empty((len(rows), n_others + 1))
            logs[at, rows[:, v]] = here
            logs[np.tile(at, n_others), others[:, v]] = target.log_prob(others)
            rows[:, v] = arrays.inverse_cdf(arrays.cumulative(arrays.from_logs(logs)), u)
            here = logs[at, rows[:, v]]
    return rows.astype(np.float64)


def simulate(
    read: Any, make: Any, model: Any, points: Any, refit: Any, null: str, n_null: int, rng: Any
) -> tuple[Any, str, Any]:
    """The model that is tested, how samples were simulated, and statistics (kernels, 1 + n_null).

    The first column is that of the observed samples. If models are fitted to samples, those that
    others are simulated from are fitted to copies of the samples. `read` turns what `refit` returns
    into a model, and `make` a model into its `Statistic`.
    """
    good, wanted = refit is None or callable(refit), "a function from samples to a model"
    checks.check_parameter(good, "a test", "refit", refit, wanted, DataError)
    source = tested = model if refit is None else read(refit(points))
    statistic = make(tested)
    first = np.unique(distinct_places(points[None])[1], return_index=True)[1]
    with checks.rows_numbered(first):  # statistics look at distinct rows
        found = [statistic(points[None])]  # names impossible samples before others are drawn
    if refit is not None:
        source = read(refit(np.tile(points, (REFIT_COPIES, 1))))
    source = source.circuit if isinstance(source, MeanEmbedding) else source
    kind, sample = null_sampler(source, points, null, null_generator(rng))
    for chunk in arrays.spans(n_null, max(1, CHUNK // points.size)):
        samples = np.where(np.isnan(points), np.nan, sample(chunk.stop - chunk.start))
        if refit is None:
            found.append(statistic(samples))
        else:
            found += [make(read(refit(X)))(X[None]) for X in samples]
    return tested, kind, np.concatenate(found, axis=1)


def mmd_statistics(model: MeanEmbedding, kernels: list[Kernel]) -> Statistic:
    """Unbiased estimates of squared discrepancies of samples from a model, a row per kernel."""
    embeddings = [replace(model, kernel=k) for k in kernels]

    def statistics(samples: Any) -> Any:
        rows, place = distinct_places(samples)
        found = []
        for p in embeddings:
            across = arrays.to_cpu(p.at(rows))[place].mean(axis=1)  # first: it names wrong rows
            within = pair_means(partial(kernels_between, p.between, rows), place, len(rows))
            found.append(within - 2.0 * across + float(arrays.to_cpu(p.total)))
        return np.stack(found)

    return statistics


def kernels_between(values: Any, rows: Any, some: Any, others: Any = slice(None)) -> Any:
    """The kernels of some rows and others, by their numbers."""
    return values(rows[some], rows[others])


def mmd_errors(model: MeanEmbedding, k: Kernel, points: Any) -> tuple[float, SamplingError]:
    """The standard error of the estimate of a squared discrepancy, and what is behind it.

    The first by the means of h over the partners of points; the other by h centred at the points.
    """
    rows, place = distinct_places(points[None])
    n, counts = len(points), counts_of(place, len(rows))
    embedded = arrays.to_cpu(replace(model, kernel=k).at(rows))

    def h(some: Any) -> Any:  # constants do not matter for variances
        return k.numbers(rows[some], rows) - embedded[some][:, None] - embedded

    (sums, diagonal), (squares, _) = row_sums(h, counts), row_sums(lambda s: h(s) ** 2, counts)
    counts, sums, squares = counts[0], sums[:, 0], squares[:, 0]
    partners = (sums - diagonal) / (n - 1)
    error = 2.0 * sqrt(float(counts @ (partners - counts @ partners / n) ** 2) / (n - 1) / n)
    means = sums / n
    mean = float(counts @ means) / n
    own = diagonal - 2.0 * means + mean
    pairs = counts @ (squares - 2.0 * n * means**2 - own**2) + (n * mean) ** 2
    variance = 2.0 * max(0.0, float(pairs)) / (n * (n - 1) ** 3)
    return error, SamplingError(max(0.0, float(counts @ own)) / (n * (n - 1)), variance, n)


def mmd_test(
    samples: SamplesLike,
    model: TargetLike,
    k: KernelsLike = None,
    *,
    null: str = "model",
    n_null: int = 199,
    refit: Callable[[Array], TargetLike] | None = None,
    rng: RngLike = None,
) -> GoodnessOfFit:
    r"""A test of the hypothesis that samples come from a model, with its exact mean embedding.

    With :math:`\mu(x) = \mathrm{E}_p k(X, x)` and :math:`M = \mathrm{E}_p \mu(X)`, the statistic is
    the unbiased estimate of the squared discrepancy,

    .. math:: \frac{1}{n (n - 1)} \sum_{i \ne j} h(x_i, x_j), \qquad
              h(x, y) = k(x, y) - \mu(x) - \mu(y) + M,

    without the noise that samples of the model would add. It is ranked among the statistics of
    simulated samples of the model.

    Parameters
    ----------
    samples : array of shape (n, variables), or data frame
        At least two independent rows; NaN for missing values (see the notes). Columns of frames
        are found by name, and labels are read, if the model has names and states.
    model : Circuit, FactorGraph, BayesianNetwork, unit graph, or model of another library
        Normalised; see `as_model`. Variables may be real. A `Target` of at most 2^18 states is
        summed over all of them.
    k : Kernel, list of kernels, or "aggregate"; optional
        Default: ``ExpHamming()`` for discrete variables, ``RBF`` with a `gamma` by the model's
        variances for real ones, and their product for both. Several kernels, or "aggregate" for
        `gamma` from half to eight times the default, are one test: the largest standardised one
        is ranked.
    null : "model" or "auto"
        Samples under the hypothesis come from the model.
    n_null : int
        How many samples are simulated; the p-value is a multiple of 1 / (n_null + 1).
    refit : function, optional
        For a model that was fitted to these samples: how. The function takes an array of samples
        and returns a model. The statistic is then that of ``refit(samples)``, and simulated
        samples get models of their own (parametric bootstrap); they are drawn from the model of
        ten copies of the samples, to which pseudocounts matter little. Without it, the test of a
        fitted model rejects too rarely. A learner that takes copies for more evidence may learn
        them by heart, and then the test sees little.
    rng : int, Generator or None
        Seed or generator of random numbers; an int makes results reproducible.

    Returns
    -------
    GoodnessOfFit
        With ``statistic``, ``p_value``, ``null``, and a confidence interval of the squared
        discrepancy, for those who want to accept a model: ``interval()``.

    Notes
    -----
    The level is exact for every number of samples, as for `kdsd_test`. Zeros of the model do no
    harm, and neither do parts of its support that no change of a single variable connects.
    Cost: one embedding of the distinct rows of all samples, and the kernels within each sample,
    O(n_null n^2): for thousands of samples ``n_null=99`` is enough.

    A row with missing values stands for its conditional mean embedding under the model,
    :math:`\mathrm{E}_p[\phi(X) \mid x_{obs}]`, so that h has mean zero under the hypothesis if
    values are missing at random. Simulated samples have the same missing values, row by row: the
    level is exact if missingness does not depend on values, and close to that if it depends on
    observed ones. To leave rows out instead is valid only if values are missing *completely* at
    random. The statistic of incomplete samples estimates a smaller discrepancy than that of
    complete ones, so that there is no interval. Rows whose observed values have probability zero
    under the model raise.

    A. Gretton, K. Borgwardt, M. Rasch, B. Schölkopf and A. Smola, "A kernel two-sample test",
    JMLR 2012; O. Key, A. Gretton, F.-X. Briol and T. Fernandez, "Composite goodness-of-fit
    tests with kernels", JMLR 2025 (refitting).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> q = ek.factorized([[0.6, 0.4], [0.5, 0.5]])
    >>> ek.mmd_test(q.sample(200, rng=0), p, rng=0).p_value
    0.005
    """
    model = as_target(model)
    empirical.check_roles("mmd_test(samples, model, k)", model, samples)
    given = mean_embedding(model)
    points = complete_samples(given.circuit, samples, incomplete=True)
    checks.check_choice("mmd_test", "null", null, ("auto", "model"), DataError)
    checks.check_count("mmd_test", "n_null", n_null, 1, error=DataError)
    # of the model alone: a gamma by the data would not be that of the simulated samples
    kernels = kernels_of(k, partial(default_kernel, given.circuit))
    make = partial(mmd_statistics, kernels=kernels)
    settings = make, given, points, refit, "model", n_null, rng
    tested, kind, values = simulate(lambda p: mean_embedding(as_target(p)), *settings)
    plain = len(kernels) == 1 and not np.isnan(points).any()
    errors = mmd_errors(tested, kernels[0], points) if plain else ()
    return GoodnessOfFit(*outcome(values, kind, kernels, len(points), *errors))


def kdsd_test(
    samples: SamplesLike,
    target: TargetLike,
    k: KernelsLike = None,
    operator: str = "gibbs",
    *,
    null: str = "auto",
    n_null: int = 199,
    change: float | None = None,
    zeros: str = "raise",
    refit: Callable[[Array], TargetLike] | None = None,
    rng: RngLike = None,
) -> GoodnessOfFit:
    r"""A test of the hypothesis that samples come from a target known up to a constant.

    The statistic is the unbiased discrepancy of the samples,
    :math:`\frac{1}{n (n - 1)} \sum_{i \ne j} k_p(x_i, x_j)`. It is ranked among the statistics of
    samples that are simulated under the hypothesis.

    Parameters
    ----------
    samples : array of shape (n, variables), or of shape (chains, n, variables)
        At least two complete points, in the order in which they were drawn. Frames, labelled
        arrays and InferenceData are read as well, by the names of the variables if the target
        has names.
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Known up to a constant; a circuit need not be deterministic. A `Target` with `n_variables`
        is a density over the reals.
    k : Kernel, list of kernels, or "aggregate"; optional
        Default: ``ExpHamming()``; over the reals `IMQ` with lengthscales by the median distance
        of the common starting point of the chains. Several kernels, or "aggregate" for gammas from
        half to eight times the default, are one test: the largest standardised statistic is ranked.
    operator : "gibbs" or "shift"
        As in `SteinKernel`. Gibbs updates are bounded and need no positive target. Over the reals
        the operator is that of `LangevinSteinKernel`.
    null : "auto", "model", "gibbs" or "signs"
        How samples under the hypothesis come about. "model": independent ones of the target, if it
        is a circuit, compiles to one, or is a function of at most 2^18 states. "gibbs": Gibbs
        chains that lead from the samples to a root and back, for all other targets. Both keep
        the level exactly for independent samples of any size, and so do the Langevin chains that
        take their place over the reals ("auto"). "signs": random signs (wild
        bootstrap), for the samples of a Markov chain; the level holds for many samples. "auto":
        the first of these that is possible; signs if `change` is given.
    n_null : int
        How many samples are simulated; the p-value is a multiple of 1 / (n_null + 1).
    change : float, optional
        For samples of a Markov chain that depend on their predecessors: the probability that the
        sign changes from one sample to the next, one over twice the number of steps after which
        they do not. Only samples that far apart are compared, and signs need many times as many
        samples. Default: one half, for independent samples. Samples of which few rare ones
        outweigh all others raise, because signs reject them too often.
    zeros : "raise" or "restrict"
        What shifts do if the target has zeros, as in `SteinKernel`.
    refit : function, optional
        For a target that was fitted to these samples: how. The function takes an array of samples
        and returns a target. The statistic is then that of ``refit(samples)``, and simulated
        samples get targets of their own (parametric bootstrap); they are drawn from the target of
        ten copies of the samples, to which pseudocounts matter little.
    rng : int, Generator or None
        Seed or generator of random numbers; an int makes results reproducible.

    Returns
    -------
    GoodnessOfFit

    Raises
    ------
    DataError
        If there are fewer than two samples, they have different weights, or random signs cannot
        judge them.

    Notes
    -----
    Simulations and samples are exchangeable under the hypothesis, so the probability of
    a p-value of at most a is at most a, for every kernel and operator. The same holds for Gibbs
    chains, however slowly they mix: see J. Besag and P. Clifford, "Generalized Monte Carlo
    significance tests", Biometrika 1989. If samples have ties, as those of rare states do, the
    probability is smaller.

    The masses of parts of the support that no change of a single variable connects are not
    compared (see `irreducible`); `mmd_test` does.

    J. Yang, Q. Liu, V. Rao and J. Neville, "Goodness-of-fit testing for discrete distributions via
    Stein discrepancy", ICML 2018; K. Chwialkowski, H. Strathmann and A. Gretton, "A kernel test
    of goodness of fit", ICML 2016 (signs for dependent samples).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> q = ek.factorized([[0.6, 0.4], [0.5, 0.5]])
    >>> kdsd_test(q.sample(200, rng=0), p, rng=0).p_value
    0.005
    """
    found = stein_target("kdsd_test(samples, target, k)", target, samples, real=True)
    points, real = complete_samples(found, samples), langevin.is_real(found)
    checks.check_count("kdsd_test", "n_null", n_null, 1, error=DataError)
    null, d, generator = _checked_null(null, change, refit), points.shape[1], null_generator(rng)
    default: Any = lambda scale: ExpHamming(None if scale == 1.0 else scale / d)  # noqa: E731
    root = points
    if real:
        if null not in ("auto", "signs"):
            what = "A density over the reals is tested by Langevin chains, null='auto', or by signs"
            raise DataError(f"{what}. Got null={null!r}, which 'refit' needs as well.")
        if null == "auto":  # the default kernel is that of what all samples have in common
            root = langevin.langevin_sweeps(found, points[None], generator, reverse=True)[0]
        default = partial(langevin.median_kernel, found, root)
    kernels = kernels_of(k, default)

    def steins(model: Any) -> list[Any]:
        if real:
            return [langevin.LangevinSteinKernel(model, kernel) for kernel in kernels]
        return [SteinKernel(model, kernel, zeros, operator) for kernel in kernels]

    def statistic(kernels: list[Any], samples: Any) -> Any:
        rows, place = distinct_places(samples)
        return np.stack([pair_means(f, place, len(rows)) for f in selected_grams(kernels, rows)])

    if null == "signs":
        with checks.rows_numbered(empirical.distinct_rows(points)[2]):
            signs = steins(found), points, n_null, 0.5 if change is None else change
            kind, values = null, _signed_statistics(*signs, generator)
    elif real:
        chains = langevin.langevin_sweeps(found, np.tile(root, (n_null, 1, 1)), generator)
        kind, samples = "langevin", np.concatenate([points[None], chains])
        values = statistic(steins(found), samples)
    else:
        settings = found, points, refit, null, n_null, rng
        _, kind, values = simulate(as_target, lambda p: partial(statistic, steins(p)), *settings)
    return GoodnessOfFit(*outcome(values, kind, kernels, len(points)))


def _checked_null(null: Any, change: Any, refit: Any) -> str:
    checks.check_choice("kdsd_test", "null", null, NULLS, DataError)
    if change is not None:
        checks.check_real("kdsd_test", "change", change, 0, 0.5, "(]", error=DataError)
        if refit is not None or null in ("model", "gibbs"):
            other = "refit" if refit is not None else f"null={null!r}"
            what = "'change' is for the random signs of dependent samples"
            raise DataError(f"{what}. Got {other} as well, which is for independent ones.")
        return "signs"
    if refit is not None and null in ("gibbs", "signs"):
        what = "Models are fitted anew to simulations of the model"
        raise DataError(f"{what}. Got null={null!r} beside 'refit'; use null='model'.")
    return str(null) if refit is None else "model"


def _signed_statistics(kernels: list[Any], X: Any, m: int, change: float, rng: Any) -> Any:
    """The discrepancies of samples, and those with random signs, (kernels, 1 + m)."""
    rows, place = distinct_places(X[None])
    place, every, n = place[0], np.arange(len(rows)), len(X)
    apart = max(1, round(0.5 / change))  # samples next to each other depend
    if apart >= n:
        raise DataError(
            f"With change={change:g}, samples are compared that are at least {apart} steps apart. "
            f"Got {n} samples; draw more of them, or thin the chain and raise 'change'."
        )
    signs = np.vstack([np.ones(n), random_signs(rng, m, n, change)])
    sums = np.stack([np.bincount(place, row, minlength=len(rows)) for row in signs])
    found = []
    for between in selected_grams(kernels, rows):
        matrix = between(every, every)
        own = matrix[place, place]
        # their error grows with the squared skewness over the number of independent signs, and the
        # squared skewness is below the kurtosis, less one
        kurtosis = n * float((own**2).sum() / own.sum() ** 2)
        needed = ENOUGH * (kurtosis - 1.0) * (1.0 - change) / change
        why = ""
        if matrix.min() >= 0:
            why = "no two of them disagree (no entry of their Stein kernel is negative)"
        elif n < needed:
            why = f"they count as {n / kurtosis:.1f}, because rare states outweigh the others. "
            why += f"With change={change:g}, about {needed:.0f} samples of this kind are needed"
        if why:
            raise DataError(
                f"Random signs cannot judge these {n} samples: {why}. Draw more; or thin a chain "
                "until its samples are independent, and use null='auto'."
            )
        near = np.full(1 + m, own.sum())
        for lag in range(1, apart):
            near += 2.0 * (signs[:, lag:] * signs[:, :-lag]) @ matrix[place[lag:], place[:-lag]]
        total = ((sums @ matrix) * sums).sum(axis=1)
        found.append((total - near) / ((n - apart) * (n - apart + 1)))
    return np.stack(found)


def random_signs(rng: Any, m: int, n: int, change: float) -> Any:
    """Rows of signs that change from one to the next with a probability."""
    start = rng.choice([-1.0, 1.0], size=(m, 1))
    flips = np.where(rng.random((m, n - 1)) < change, -1.0, 1.0)
    return np.hstack([start, start * np.cumprod(flips, axis=1)])


def mmd_two_sample_test(
    X: RowsLike,
    Y: RowsLike,
    k: KernelsLike = None,
    *,
    categorical_features: VariablesLike | None = None,
    n_null: int = 199,
    rng: RngLike = None,
) -> TwoSamples:
    r"""A test of the hypothesis that two sets of samples have the same source.

    The statistic is the unbiased estimate of the squared maximum mean discrepancy; it is ranked
    among those of random divisions of all samples into two sets of the same sizes.

    Parameters
    ----------
    X, Y : arrays of shape (n, variables) and (m, variables), or data frames
        At least two complete points each. Frames are matched by the names of their columns, and
        labels of both are read together.
    k : Kernel, list of kernels, or "aggregate"; optional
        Default: ``ExpHamming()`` for categorical columns, ``RBF`` with the median heuristic for
        numbers (see `median_gamma`), and their product for both. Several kernels, or "aggregate"
        for `gamma` from half to eight times the default, are one test.
    categorical_features : names, numbers or mask of columns, optional
        The categorical columns, for the default kernel, as for `mmd2`. The result prints them.
    n_null : int
        How many divisions are drawn; the p-value is a multiple of 1 / (n_null + 1).
    rng : int, Generator or None
        Seed or generator of random numbers; an int makes results reproducible.

    Returns
    -------
    TwoSamples

    Notes
    -----
    Under the hypothesis all divisions are equally likely, so the level is exact. The default
    kernel is chosen by all samples together, which does not depend on how they are divided.
    Cost: the kernels of all pairs of distinct rows, once.

    A. Gretton, K. Borgwardt, M. Rasch, B. Schölkopf and A. Smola, "A kernel two-sample test",
    JMLR 2012.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(80, 2)), rng.normal(size=(60, 2))
    >>> mmd_two_sample_test(X, Y, rng=0).p_value > 0.05
    True
    >>> mmd_two_sample_test(X, Y + [1.0, 0.0], rng=0).p_value
    0.005
    """
    checks.check_count("mmd_two_sample_test", "n_null", n_null, 1, error=DataError)
    first, second, schema = two_sets(X, Y)
    n, m = len(first), len(second)
    rows, place = distinct_places(np.concatenate([first, second])[None])
    # in an order that does not tell which set a row is of
    kernels, categorical = pooled_kernels(k, rows[np.sort(place[0])], schema, categorical_features)
    generator = null_generator(rng)
    needed, what = 32.0 * (n_null + 1) * max(n, len(rows)), f"divisions of {n + m} samples"
    arrays.require_memory(needed, f"A table of {n_null} {what}", "Take fewer of either.")
    chosen = np.stack([place[0, :n], *(generator.permutation(place[0])[:n] for _ in range(n_null))])
    counts = np.concatenate([counts_of(place, len(rows)), counts_of(chosen, len(rows))])
    values = []
    for kernel in kernels:
        sums, diagonal = row_sums(partial(kernels_between, kernel.numbers, rows), counts)
        # of all samples, and of the first set of every division
        forms, across, own = (counts.T * sums).sum(axis=0), counts @ sums[:, 0], counts @ diagonal
        first, second = (forms - own)[1:], (forms[0] - 2.0 * across + forms - own[0] + own)[1:]
        within = first / (n * (n - 1)) + second / (m * (m - 1))
        values.append(within - 2.0 * (across - forms)[1:] / (n * m))
    return TwoSamples(*outcome(np.stack(values), "permutations", kernels, n, m, categorical))


def two_sets(X: Any, Y: Any) -> tuple[Any, Any, Schema | None]:
    """Two sets of complete samples over the same variables, and the schema if one is a frame."""
    given = mmd.as_distribution(X), mmd.as_distribution(Y)
    for x in given:
        if not isinstance(x, Empirical):
            what = f"A two-sample test is between two sets of samples. Got a {type(x).__name__}"
            raise DataError(f"{what}; mmd_test(samples, model) tests samples against a model.")
    both = two_distributions(*given)
    for x in both:
        check_samples(x.X, x.weights, " of each")
    first, second = both[0].X, both[1].X
    n, m = first.shape[1], second.shape[1]
    if n != m:
        raise DataError(f"Both sets of samples need the same variables. Got {n} and {m} columns.")
    return first, second, both[0].schema or both[1].schema


def pooled_kernels(
    k: Any, pooled: Any, schema: Schema | None, categorical_features: Any
) -> tuple[list[Kernel], dict[Any, bool] | None]:
    """The kernels of a comparison of two sets of points, and which columns are categorical.

    The latter, by the names of columns, is for the default kernels; None if others are given.
    """
    points = Empirical(pooled)
    points.schema = schema
    default = partial(default_kernel, points, categorical_features=categorical_features)
    kernels = kernels_of(k, default, categorical_features)
    if k is not None and not isinstance(k, str):
        return kernels, None
    kinds = empirical.categorical_variables(points, categorical_features=categorical_features)
    names = range(len(kinds)) if schema is None or schema.names is None else schema.names
    return kernels, dict(zip(names, kinds.tolist(), strict=True))


@dataclass(frozen=True)
class Comparison:
    """The result of `mmd_compare`: which of two models is closer to the data.

    Attributes
    ----------
    difference : float
        The squared discrepancy of the first model from the data less that of the second:
        negative if the first is closer.
    standard_error : float
    z : float
        Their ratio.
    p_value : float
        How often a ratio of this size, with either sign, is expected of models that are equally
        far from the data; one if that is not judged. Corrected by Holm's rule where several pairs
        are compared.
    n : int
        The number of samples.
    names : pair of str
        What the models are called.
    judged : bool
        Whether the samples say how sure the difference is. They do not if nearly all see the
        same one: its error is that of the few others, of which there may be more, or worse ones,
        in the source.

    Examples
    --------
    >>> Comparison(-0.004, 0.001, -4.0, 6.3e-5, 300, ("circuit", "tree")).closer
    'circuit'
    """

    difference: float
    standard_error: float
    z: float
    p_value: float
    n: int
    names: tuple[str, str] = ("the first model", "the second model")
    judged: bool = True

    @property
    def closer(self) -> str:
        """The name of the model with the smaller discrepancy, whatever the p-value."""
        return self.names[int(self.difference > 0)]

    def __str__(self) -> str:
        other = self.names[int(self.difference <= 0)]
        sure = "" if self.p_value <= 0.05 else ", which may be chance"
        if not self.judged:
            sure = ", which is not judged: too few samples see another difference than the rest"
        apart = f"{abs(self.difference):.3g} ± {self.standard_error:.2g}{sure}"
        claim = f"MMD^2 of {self.closer} is smaller than that of {other} by {apart}"
        return f"{claim} (p = {self.p_value:.3g}, {self.n} samples)."


def compare_scores(values: Any, names: tuple[str, str]) -> Comparison:
    """The comparison by one difference per sample, whose mean is the difference.

    Examples
    --------
    >>> compare_scores(np.array([1.0, 2.0, 3.0]), ("a", "b")).standard_error.__round__(6)
    0.57735
    """
    n, mean = len(values), float(values.mean())
    error = float(values.std(ddof=1)) / sqrt(n)
    if error <= 1e-14 * float(np.abs(values).max()):
        if mean == 0.0:
            return Comparison(0.0, 0.0, 0.0, 1.0, n, names)
        raise DataError(
            f"All {n} samples see the same difference between the models, {mean:.3g}, so that its "
            "error cannot be estimated. More samples, that are not all equal, are needed."
        )
    z, scores = mean / error, (values - mean) / values.std()
    skew = float(np.mean(scores**3)) / sqrt(n)
    # a state that m of n samples are in has skewness sqrt(n / m), and kurtosis n / m; that of n
    # normal values is three, and cannot be told from more if n is small
    if abs(skew) * sqrt(FEW) > 1.0 or float(np.mean(scores**4)) > max(n / FEW, 4.0):
        return Comparison(mean, error, z, 1.0, n, names, judged=False)
    # Student's distribution of a mean over its error, after the transformation that removes what
    # skewness does to it: P. Hall, "On the removal of skewness by transformation", JRSS B 1992
    corrected = z + skew * (z**2 / 3.0 + 1.0 / 6.0) + skew**2 * z**3 / 27.0
    return Comparison(mean, error, z, float(2.0 * stdtr(n - 1, -abs(corrected))), n, names)


def mmd_compare(
    p1: TargetLike, p2: TargetLike, samples: SamplesLike, k: Kernel | None = None
) -> Comparison:
    r"""Which of two models is closer to the source q of samples, and how sure that is.

    .. math:: \mathrm{MMD}^2(p_1, q) - \mathrm{MMD}^2(p_2, q)
              = \mathrm{E}_q \left[ M_1 - M_2 - 2 (\mu_1(X) - \mu_2(X)) \right]

    with the embeddings :math:`\mu_i` of the models and their means :math:`M_i` under the models
    themselves, all exact. What is left to estimate is a plain mean over the samples: a paired
    t-test, linear in the number of samples, with Hall's correction for skewed differences.

    Parameters
    ----------
    p1, p2 : Circuit, FactorGraph, BayesianNetwork, unit graph, or model of another library
        Normalised, and chosen before the samples were seen (or by others). They need not be
        compatible with each other.
    samples : array of shape (n, variables), or data frame
        At least two complete, independent points.
    k : Kernel, optional
        Default: as for `mmd2`.

    Returns
    -------
    Comparison
        With ``difference`` (negative: the first model is closer), ``standard_error``, ``z`` and a
        two-sided ``p_value``.

    Notes
    -----
    W. Bounliphone, E. Belilovsky, M. Blaschko, I. Antonoglou and A. Gretton, "A test of relative
    similarity for model selection in generative models", ICLR 2016, compare sampled models.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> q = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> p1, p2 = ek.factorized([[0.6, 0.4], [0.3, 0.7]]), ek.factorized([[0.9, 0.1], [0.3, 0.7]])
    >>> print(ek.mmd_compare(p1, p2, q.sample(300, rng=0)))
    MMD^2 of the first model is smaller than that of the second model by
    0.114 ± 0.012 (p = 2.92e-19, 300 samples).
    """
    call, names = "mmd_compare(p1, p2, samples, k)", ("the first model", "the second model")
    return _compare_pairs(call, [p1, p2], names, samples, k)[0]


@dataclass(frozen=True)
class Comparisons:
    """The result of `mmd_compare_all`.

    Attributes
    ----------
    names : tuple of str
        What the models are called, that with the smallest discrepancy first.
    pairs : tuple of Comparison
        Of all pairs, the closer model first, p-values corrected by Holm's rule: the probability
        that any of those below a is a mistake is at most a.
    """

    names: tuple[str, ...]
    pairs: tuple[Comparison, ...]

    @property
    def closest(self) -> tuple[str, ...]:
        """The models that no other is closer than, at a level of 5 %."""
        beaten = {pair.names[1] for pair in self.pairs if pair.p_value <= 0.05}
        return tuple(name for name in self.names if name not in beaten)

    def __str__(self) -> str:
        return "\n".join(map(str, self.pairs))


def mmd_compare_all(
    models: Mapping[str, TargetLike] | Sequence[TargetLike],
    samples: SamplesLike,
    k: Kernel | None = None,
) -> Comparisons:
    """Which of several models are closest to the source of samples: all pairs, compared.

    Parameters
    ----------
    models : mapping from names to models, or sequence of models
        At least two, normalised, and chosen before the samples were seen.
    samples, k
        As for `mmd_compare`.

    Returns
    -------
    Comparisons

    Raises
    ------
    DataError
        If there are fewer than two models.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> q = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> models = {f"{x:.1f}": ek.factorized([[x, 1 - x], [0.3, 0.7]]) for x in (0.9, 0.5, 0.7)}
    >>> found = mmd_compare_all(models, q.sample(300, rng=0))
    >>> found.names, found.closest
    (('0.5', '0.7', '0.9'), ('0.5',))
    """
    good = isinstance(models, (Mapping, Sequence))
    wanted = "given as a list, or as a mapping from names to models"
    checks.check_parameter(good, "mmd_compare_all", "models", models, wanted, DataError)
    if not isinstance(models, Mapping):
        models = {f"model {number}": model for number, model in enumerate(models, 1)}
    names, given = tuple(map(str, models)), list(models.values())
    if len(given) < 2:
        raise DataError(f"At least two models are compared. Got {len(given)}.")
    call = "mmd_compare_all(models, samples, k)"
    pairs = sorted(_compare_pairs(call, given, names, samples, k), key=lambda pair: pair.p_value)
    found, least = [], 0.0
    for rank, pair in enumerate(pairs):  # by Holm's rule
        least = max(least, min(1.0, (len(pairs) - rank) * pair.p_value))
        found.append(replace(pair, p_value=least))
        if pair.difference > 0:
            swapped: Any = {"difference": -pair.difference, "z": -pair.z, "names": pair.names[::-1]}
            found[-1] = replace(found[-1], **swapped)
    wins = {name: sum(pair.names[0] == name for pair in found) for name in names}
    return Comparisons(tuple(sorted(names, key=lambda name: -wins[name])), tuple(found))


def _compare_pairs(call: str, models: Any, names: Any, samples: Any, k: Any) -> list[Comparison]:
    """All pairs of models, compared; every model is embedded once."""
    for model in models:
        empirical.check_roles(call, model, samples)
    first, *others = (mean_embedding(as_target(model)) for model in models)
    points = complete_samples(first.circuit, samples)
    k = default_kernel(first.circuit, points) if k is None else k
    require_kernel(k)
    rows, place = distinct_places(points[None])
    scores = []
    for model in (first, *others):  # with variables and states in the order of the first
        circuit = first.circuit if model is first else align(first.circuit, model.circuit)[1]
        p = replace(model, circuit=circuit, kernel=k)
        scores.append(arrays.to_cpu(p.total - 2.0 * p.at(rows))[place[0]])
    found = []
    for a, b in combinations(range(len(models)), 2):
        apart, size = scores[a] - scores[b], max(np.abs(scores[a]).max(), np.abs(scores[b]).max())
        rounding = np.abs(apart).max() <= ROUNDING * size  # everywhere
        found.append(compare_scores(0.0 * apart if rounding else apart, (names[a], names[b])))
    return found
