"""Tests of goodness of fit, of two samples, and of which model is closer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import gammainc, ndtr, stdtr, stdtrit

from expectedkernels.arrays import (
    Array,
    RngLike,
    RowsLike,
    SamplesLike,
    VariablesLike,
    as_generator,
    cumulative,
    drawn,
    from_logs,
    on_host,
    require_memory,
    spans,
)
from expectedkernels.checks import (
    DataError,
    PropertyError,
    SizeError,
    check_choice,
    check_count,
    check_real,
    public,
    rows_numbered,
)
from expectedkernels.circuits.circuit import Circuit, align
from expectedkernels.circuits.operands import check_single_root
from expectedkernels.circuits.queries import require_normalized
from expectedkernels.data.schema import Schema, listed
from expectedkernels.discrepancies.mmd import as_distribution
from expectedkernels.expectation import expected_kernel, two_distributions
from expectedkernels.kernels.empirical import (
    Empirical,
    categorical_variables,
    check_roles,
    default_kernel,
    distinct_rows,
    refuse_features,
    sample_rows,
    sample_weights,
)
from expectedkernels.kernels.kernel import ExpHamming, Kernel, require_kernel
from expectedkernels.kernels.target import Target, TargetLike, as_target
from expectedkernels.models.factor_graph import (
    BayesianNetwork,
    Factor,
    FactorGraph,
    forward_samples,
)
from expectedkernels.reports import Reported
from expectedkernels.sampling.gibbs import Site, TableSite, every_state, sampled_model
from expectedkernels.stein.stein_kernel import SteinKernel, selected_grams, stein_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NODES = np.linspace(-6.5, 6.5, 651)
"""Where the normal error along the discrepancy is read."""


@dataclass(frozen=True)
class Noise:
    """The squared distance between the mean embeddings of samples and of their source.

    Attributes
    ----------
    mean, variance : float
        Of the distance, if samples were drawn again.
    n : int
        The number of samples.
    along : float
        The variance of the error in the direction of the discrepancy, where that is known.
    """

    mean: float
    variance: float
    n: int
    along: float = 0.0


def noise_between(statistic: float, error: float, spread: Noise, null: Any) -> Noise:
    """The noise of an estimate, along the discrepancy and in all.

    Near zero the direction of the discrepancy is not known, and the error along it is at most that
    of all directions together; else it is known from the standard error. Samples that are all in a
    few states do not show how they could differ: so the noise is no less than that of simulated
    samples of the model, and one more sample, of the model, is thought to be among those given.

    Examples
    --------
    >>> noise_between(0.5, 0.1, Noise(0.02, 1e-4, 100), np.zeros(9)).along.__round__(6)
    0.00505
    """
    mean, most = spread.mean, sqrt(spread.variance / 2.0)
    least = sqrt(float(np.mean(np.square(null))) / 2.0)
    if least > most:
        mean = max(mean * least / most if most > 0 else 0.0, least)
    one = max(statistic, 0.0) / spread.n**2
    mean, most = mean + one, max(least, most) + one
    along = min(most, error**2 / (4.0 * statistic) + one) if statistic > 0 else most
    return Noise(mean, 2.0 * most**2, spread.n, min(along, mean))


def score_interval(statistic: float, noise: Noise, coverage: float) -> tuple[float, float]:
    r"""The squared discrepancies under which an estimate is not unlikely.

    With the mean embeddings of the model, the source and the samples, :math:`\mu_p`,
    :math:`\mu_q` and :math:`\hat\mu`, and :math:`\theta = \|\mu_q - \mu_p\|`,

    .. math:: \|\hat\mu - \mu_p\|^2 = (\theta + s g)^2 + r,

    where s g is the error of :math:`\hat\mu` along the discrepancy, and r the squared error across.
    g is taken as Student's, r as a multiple of a chi-squared variable, and each end is the
    :math:`\theta^2` at which what was found, or more (less), has half of the remaining chance.

    Examples
    --------
    >>> ends = score_interval(24.0, Noise(1.0, 2.0, 10**6, 1.0), 0.9)  # of 5^2, in one dimension
    >>> np.sqrt(ends).round(2) - 5.0
    array([-1.64,  1.64])
    """
    tail = 0.5 - 0.5 * coverage
    chance = _chance_below(noise)
    found = statistic + noise.mean
    least = max(statistic, 0.0) + noise.mean  # estimates below zero do not say more than zero
    low = _last(lambda length: chance(length, found) > 1.0 - tail, sqrt(least))
    return low**2, _last(lambda length: chance(length, least) > tail, sqrt(least)) ** 2


def _chance_below(noise: Noise) -> Callable[[float, float], float]:
    """From a discrepancy and a value to the probability that what is found is at most that."""
    weights = np.exp(-0.5 * NODES**2)
    weights /= weights.sum()
    errors = np.copysign(stdtrit(noise.n - 1, ndtr(-np.abs(NODES))), NODES) * sqrt(noise.along)
    across, variance = noise.mean - noise.along, noise.variance - 2.0 * noise.along**2

    def chance(length: float, value: float) -> float:
        left = value - (length + errors) ** 2
        if across <= 1e-9 * noise.mean or variance <= 1e-9 * noise.variance:
            return float(weights @ (left >= across))
        half = across**2 / variance  # half of the degrees of freedom
        return float(weights @ gammainc(half, np.maximum(left, 0.0) * across / variance))

    return chance


def _last(holds: Callable[[float], bool], step: float) -> float:
    """The largest length for which something holds, zero if it never does."""
    if step == 0.0 or not holds(0.0):
        return 0.0
    low, high = 0.0, step
    while holds(high):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


TIES = 1e-9
"""Statistics whose relative difference is smaller than this are equal up to rounding."""

FEW = 5
"""Differences whose spread, or skewness, comes from fewer samples, in effect, are not judged."""

DRAWN = {
    "model": "draws of the model",
    "gibbs": "exchangeable Gibbs chains",
    "signs": "rows of random signs",
    "permutations": "permutations",
}


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


def largest(statistics: Any) -> tuple[Any, int]:
    """The largest standardised statistic of every column, and which row has that of the first.

    Rows belong to kernels, columns to samples. Every row is standardised by the mean and the
    standard deviation over all samples, so that columns that are exchangeable remain so.

    Examples
    --------
    >>> top, kernel = largest(np.array([[1.0, 0.0, -1.0], [0.0, 5.0, 5.0]]))
    >>> top.round(3).tolist(), kernel
    ([1.225, 0.707, 0.707], 0)
    """
    centred = statistics - statistics.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1, keepdims=True)
    rounding = TIES * np.abs(statistics).max(axis=1, keepdims=True)
    scores = np.where(spread > rounding, centred / np.where(spread > 0, spread, 1.0), 0.0)
    return scores.max(axis=0), int(np.argmax(scores[:, 0]))


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

    def _numbers(self) -> dict[str, Any]:
        return {"statistic": self.statistic, "p-value": self.p_value}

    def _settings(self) -> dict[str, Any]:
        return {
            "samples": self._sizes(),
            "simulated": f"{len(self.null)} {DRAWN[self.drawn]}",
            **super()._settings(),
        }

    def _sizes(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        verdict = "rejected" if self.p_value <= 0.05 else "not rejected"
        return (
            f"The hypothesis that {self._claim} is {verdict} at 5 %: p = {self.p_value:.3g}, "
            f"statistic {self.statistic:.4g} ({self._sizes()}, {len(self.null)} "
            f"{DRAWN[self.drawn]}, {self.kernel!r})."
        )

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
        from expectedkernels.plotting.results import plot_null

        return plot_null(self)


@public
@dataclass(frozen=True, eq=False)
class GoodnessOfFit(SignificanceTest):
    """The result of `kdsd_test`, and what that of `mmd_test` shares with it.

    Attributes
    ----------
    statistic, p_value, null, drawn, kernel
        As for all tests.
    n : int
        The number of samples.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> test = ek.kdsd_test(p.sample(100, rng=0), p, rng=0)
    >>> print(test)
    The hypothesis that the samples come from the model is not rejected at 5 %: p = 0.245,
    statistic 0.001495 (100 samples, 199 draws of the model, ExpHamming(gamma=None)).
    """

    n: int

    _title = "Do samples come from the model?"
    _claim = "the samples come from the model"

    def _sizes(self) -> str:
        return f"{self.n} samples"


@dataclass(frozen=True, eq=False)
class MMDFit(GoodnessOfFit):
    """The result of `mmd_test`: that of a test, and how far the model is from the data.

    Attributes
    ----------
    statistic, p_value, null, drawn, kernel, n
        As for `kdsd_test`.
    standard_error : float or None
        Of the statistic as an estimate of the squared discrepancy; None if there are several
        kernels.
    noise : Noise or None
        What the interval is made of, likewise.
    """

    standard_error: float | None
    noise: Noise | None = field(repr=False)

    def interval(self, coverage: float = 0.95) -> tuple[float, float]:
        """A confidence interval of the squared discrepancy between the model and the population.

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
        check_real("interval", "coverage", coverage, 0, 1, "()", error=DataError)
        if self.standard_error is None or self.noise is None:
            raise DataError(
                "The discrepancy of an interval is that of one kernel, and this test has several. "
                "Call mmd_test with one kernel."
            )
        noise = noise_between(self.statistic, self.standard_error, self.noise, self.null)
        return score_interval(self.statistic, noise, coverage)


@dataclass(frozen=True, eq=False)
class TwoSamples(SignificanceTest):
    """The result of `mmd_two_sample_test`.

    Attributes
    ----------
    statistic, p_value, null, drawn, kernel
        As for all tests.
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

    def _sizes(self) -> str:
        return f"{self.n} and {self.m} samples"

    def _columns(self) -> dict[str, str]:
        """Which columns the default kernel takes for what, in words."""
        kinds = {"numbers": False, "categories": True}
        found = {
            f"columns of {kind}": [name for name, x in (self.categorical or {}).items() if x is own]
            for kind, own in kinds.items()
        }
        return {kind: listed(names) for kind, names in found.items() if names}

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | self._columns()

    def __str__(self) -> str:
        columns = "".join(f"; {kind}: {names}" for kind, names in self._columns().items())
        return f"{super().__str__().removesuffix(').')}{columns})."


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
        return (
            f"MMD^2 of {self.closer} is smaller than that of {other} by "
            f"{abs(self.difference):.3g} ± {self.standard_error:.2g}{sure} "
            f"(p = {self.p_value:.3g}, {self.n} samples)."
        )


def compared(values: Any, names: tuple[str, str]) -> Comparison:
    """The comparison by one difference per sample, whose mean is the difference.

    Examples
    --------
    >>> compared(np.array([1.0, 2.0, 3.0]), ("a", "b")).standard_error.__round__(6)
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


Between = Callable[[Any, Any], Any]
"""From the numbers of some rows and of others to the matrix of their kernels."""

CHUNK = 2**22
"""How many values of a kernel are held at once."""


def distinct_places(samples: Any) -> tuple[Any, Any]:
    """The distinct rows of samples (m, n, variables), and where each row is among them, (m, n)."""
    m, n, d = samples.shape
    rows, place = np.unique(samples.reshape(m * n, d), axis=0, return_inverse=True)
    return rows, place.reshape(m, n)


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


def _blocks(between: Between, size: int) -> Iterator[tuple[Any, Any]]:
    """Some rows after the other, and their kernels with all rows."""
    every = np.arange(size)
    for chunk in spans(size, max(1, CHUNK // max(1, size))):
        yield every[chunk], between(every[chunk], every)


def quadratic_forms(between: Between, weights: Any) -> tuple[Any, Any]:
    """The sums of weights times kernels times weights, (m,), and the diagonal, (rows,).

    Examples
    --------
    >>> forms, diagonal = quadratic_forms(lambda a, b: np.eye(3)[a][:, b], np.array([[1, 2, 0.0]]))
    >>> forms.tolist(), diagonal.tolist()
    ([5.0], [1.0, 1.0, 1.0])
    """
    total, diagonal = np.zeros(len(weights)), np.zeros(weights.shape[1])
    for some, matrix in _blocks(between, weights.shape[1]):
        diagonal[some] = matrix[np.arange(len(some)), some]
        total += ((weights @ matrix.T) * weights[:, some]).sum(axis=1)
    return total, diagonal


def pair_means(between: Between, place: Any, size: int) -> Any:
    """The mean of a kernel over pairs of different draws, for every sample, (m,).

    Parameters
    ----------
    between : function
        From the numbers of distinct rows to their kernels.
    place : int array of shape (m, n)
        Which row every draw is.
    size : int
        How many distinct rows there are.

    Notes
    -----
    Kernels of all pairs of distinct rows serve all samples if these are fewer than the pairs within
    the samples; else every sample has its own.

    Examples
    --------
    >>> pair_means(lambda a, b: np.eye(3)[a][:, b], np.array([[0, 0, 1], [0, 1, 2]]), 3).round(6)
    array([0.333333, 0.      ])
    """
    n = place.shape[1]
    own = [np.unique(row, return_counts=True) for row in place]
    if size**2 <= sum(len(rows) ** 2 for rows, _ in own):
        counts = counts_of(place, size)
        total, diagonal = quadratic_forms(between, counts)
        return (total - counts @ diagonal) / (n * (n - 1))
    means = np.zeros(len(place))
    for number, (rows, found) in enumerate(own):
        counts = found[None, :].astype(np.float64)
        among = partial(lambda rows, a, b: between(rows[a], rows[b]), rows)
        total, diagonal = quadratic_forms(among, counts)
        means[number] = (total - counts @ diagonal)[0] / (n * (n - 1))
    return means


def row_sums(between: Between, weights: Any) -> tuple[Any, Any, Any]:
    """The weighted sums of kernels along rows, those of their squares, and the diagonal.

    Examples
    --------
    >>> sums, squares, own = row_sums(
    ...     lambda a, b: np.full((2, 2), 3.0)[a][:, b], np.array([1.0, 2])
    ... )
    >>> sums.tolist(), squares.tolist(), own.tolist()
    ([9.0, 9.0], [27.0, 27.0], [3.0, 3.0])
    """
    sums, squares, diagonal = np.zeros((3, len(weights)))
    for some, matrix in _blocks(between, len(weights)):
        sums[some], squares[some] = matrix @ weights, matrix**2 @ weights
        diagonal[some] = matrix[np.arange(len(some)), some]
    return sums, squares, diagonal


def kernel_between(k: Kernel, rows: Any) -> Between:
    """The kernels of some rows and others, by their numbers."""
    return lambda a, b: k.numbers(rows[a], rows[b])


ENUMERATED = 2**18
"""Functions of up to this many states are asked for all of them, and sampled exactly."""

SWEEPS = 5
"""How often the Gibbs chains of a null distribution update every variable, back and forth."""

BATCH = 2**22
"""How many entries of simulated samples are held at once."""

KernelsLike = Kernel | Sequence[Kernel] | str | None
"""One kernel, several, "aggregate" for a grid around the default, or None for that."""

Statistic = Callable[[Any], Any]
"""From samples (m, n, variables) to statistics (kernels, m)."""

REFIT_COPIES = 10
"""How many copies of samples the model is fitted to that others are simulated from."""


def complete_samples(model: Any, samples: Any) -> Any:
    """The complete, equally weighted samples of a test, (n, variables), at least two."""
    points = sample_rows(model, samples)
    check_samples(points, sample_weights(samples))
    return points


def check_samples(points: Any, weights: Any, of: str = "") -> None:
    """Raise unless there are two samples, all of them complete, finite and counting alike."""
    if len(points) < 2:
        raise DataError(f"A test needs at least two samples{of}. Got {len(points)}.")
    bad = ~np.isfinite(points)
    if bad.any():
        row, column = np.argwhere(np.isinf(points) if np.isinf(points).any() else bad)[0]
        what = points[row, column] if np.isinf(points[row, column]) else "NaN"
        raise DataError(
            f"A test is of complete and finite samples. Got {what} in row {row}, "
            f"column {column} (in {int(bad.any(axis=1).sum())} of {len(points)} rows). Leave such "
            "rows out if values are missing at random; rows that were filled in do not come from "
            "the model."
        )
    if weights is not None and not np.allclose(weights, weights[0], rtol=1e-9, atol=0.0):
        raise DataError(
            "A test is of samples that count alike, and these have different weights. Give their "
            "rows alone to test where they come from, or ask kdsd or mmd2 for their weighted "
            "discrepancy."
        )


def null_generator(rng: Any) -> Any:
    """The random generator of a test, which does not repeat samples drawn with the same seed.

    Examples
    --------
    >>> null_generator(0).random() == np.random.default_rng(0).random()
    False
    """
    generator = as_generator(rng)
    return generator if generator is rng else generator.spawn(1)[0]


def states_of(target: Target) -> tuple[Any, Any]:
    """All states of a function, one per row, and their probabilities.

    Examples
    --------
    >>> states, chances = states_of(Target(lambda X: np.log(1.0 + X[:, 0]), [2]))
    >>> states.tolist(), chances.round(6).tolist()
    ([[0], [1]], [0.333333, 0.666667])
    """
    states = every_state(target.cardinalities)
    logs = target.log_prob(states)
    top = logs.max()
    if top == -np.inf:
        raise DataError(f"The target is zero at all of its {len(states)} states.")
    chances = np.exp(logs - top)
    return states, chances / chances.sum()


def is_small(target: Any) -> bool:
    """Whether this is a function of so few states that all of them are asked."""
    return isinstance(target, Target) and prod(target.cardinalities) <= ENUMERATED


def model_sampler(target: Any, rng: Any) -> Callable[[int], Any] | None:
    """A function that draws independent rows of a target, None if nothing exact is known.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> model_sampler(ek.asia(), np.random.default_rng(0))(3).shape
    (3, 8)
    """
    if is_small(target):
        states, chances = states_of(target)
        edges = cumulative(chances[None])[0]
        return lambda n: states[np.searchsorted(edges, rng.random(n), "right")]
    if isinstance(target, Circuit):
        circuit = target.to("numpy")
        return lambda n: circuit.sample(n, rng)
    if isinstance(target, Target) or not hasattr(target, "sample"):
        return None
    if isinstance(target, BayesianNetwork):
        return lambda n: forward_samples(target, n, rng, {}).astype(np.float64)
    try:
        target.sample(1, rng=0)  # compiles, once
    except SizeError:
        return None
    return lambda n: target.sample(n, rng)


def null_drawer(target: Any, points: Any, null: str, rng: Any) -> tuple[str, Callable[[int], Any]]:
    """How simulated samples come about, and a function that draws m of them, (m, n, variables).

    Parameters
    ----------
    target : Circuit, FactorGraph, Target, or anything with `site_logs` and `cardinalities`
    points : array of shape (n, variables)
        The observed samples.
    null : "auto", "model" or "gibbs"
        "auto": the first if it is possible.
    rng : Generator

    Notes
    -----
    Let P be the transition of a chain that leaves the target invariant, and Q its reversal. If x
    comes from the target and a hub h from Q given x, then x has, given h, the distribution of a
    step of P from h. So m more steps of P from h are as good as x: given h, all of them are
    independent and have one distribution, however slowly the chain mixes.

    J. Besag and P. Clifford, "Generalized Monte Carlo significance tests", Biometrika 1989.
    """
    draw = None if null == "gibbs" else model_sampler(target, rng)
    shape = points.shape
    if draw is not None:
        return "model", lambda m: draw(m * shape[0]).reshape(m, *shape)
    if null == "model":
        why = "it is too large to compile" if hasattr(target, "sample") else "it has no samples"
        if isinstance(target, Target):
            why = f"it is a function of more than {ENUMERATED} states"
        raise PropertyError(
            f"The target cannot be sampled exactly: {why}. Use null='gibbs', chains that start "
            "from the samples and keep the level all the same."
        )
    sites = sampled_model(target, (), None, "kdsd_test").sites
    root = gibbs_sweeps(target, sites[::-1], points, rng)  # the reversed chain

    def chains(m: int) -> Any:
        return gibbs_sweeps(target, sites, np.tile(root, (m, 1)), rng).reshape(m, *shape)

    return "gibbs", chains


def gibbs_sweeps(target: Any, sites: list[Site], points: Any, rng: Any) -> Any:
    """Points after some sweeps of Gibbs updates."""
    rows = points.astype(np.intp)
    at = np.arange(len(rows))
    here = target.log_prob(rows) if isinstance(target, Target) else None
    for site in SWEEPS * sites:
        v, u = site.variable, rng.random(len(rows))
        if isinstance(site, TableSite):
            rows[:, v] = site.draw(rows, u)
        elif here is None:  # not remembered: many rows hardly ever meet the same states twice
            rows[:, v] = drawn(site.evaluated(rows), u)
        else:  # the function is called for the other states only
            n_others = target.cardinalities[v] - 1
            others = np.tile(rows, (n_others, 1))
            others[:, v] += np.repeat(np.arange(1, n_others + 1), len(rows))
            others[:, v] %= n_others + 1
            logs = np.empty((len(rows), n_others + 1))
            logs[at, rows[:, v]] = here
            logs[np.tile(at, n_others), others[:, v]] = target.log_prob(others)
            rows[:, v] = drawn(cumulative(from_logs(logs)), u)
            here = logs[at, rows[:, v]]
    return rows.astype(np.float64)


def simulated(
    read: Callable[[Any], Any],
    make: Callable[[Any], Statistic],
    model: Any,
    points: Any,
    refit: Any,
    null: str,
    n_null: int,
    rng: Any,
) -> tuple[Any, str, Any]:
    """The model that is tested, how samples were simulated, and statistics of a test.

    The first of the statistics, (kernels, 1 + n_null), are the observed ones. If models are fitted
    to samples, those that others are simulated from are fitted to copies of the samples.
    """
    if refit is not None and not callable(refit):
        raise DataError(
            "The 'refit' parameter of a test must be a function from samples to a model. "
            f"Got {type(refit).__name__} instead."
        )
    source = tested = model if refit is None else read(refit(points))
    statistic = make(tested)
    with rows_numbered(distinct_rows(points)[2]):  # statistics look at distinct rows
        found = [statistic(points[None])]  # names impossible samples before others are drawn
    if refit is not None:
        source = read(refit(np.tile(points, (REFIT_COPIES, 1))))
    source = source.circuit if isinstance(source, MeanEmbedding) else source
    kind, draw = null_drawer(source, points, null, null_generator(rng))
    for chunk in spans(n_null, max(1, BATCH // points.size)):
        samples = draw(chunk.stop - chunk.start)
        if refit is None:
            found.append(statistic(samples))
        else:
            found += [make(read(refit(X)))(X[None]) for X in samples]
    return tested, kind, np.concatenate(found, axis=1)


def kernels_of(
    k: Any, make: Callable[[float], Kernel], categorical_features: Any = None
) -> list[Kernel]:
    """The kernels of a test: one, several, or a grid around the default.

    Parameters
    ----------
    k : Kernel, sequence of kernels, "aggregate" or None
    make : function
        From a factor of the rates to the default kernel with these rates.
    categorical_features
        What chooses the default kernel, and so stands beside no other.
    """
    if k is None:
        return [make(1.0)]
    if isinstance(k, str) and k == "aggregate":
        return [make(scale) for scale in (0.5, 1.0, 2.0, 4.0, 8.0)]
    refuse_features(categorical_features)
    if isinstance(k, (list, tuple)):
        if not k:
            raise DataError("A test needs at least one kernel. Got an empty list.")
        return list(k)
    return [k]


def outcome(found: Any, drawn: str, kernels: list[Kernel]) -> dict[str, Any]:
    """What tests have in common, from the statistics of the observed and the simulated samples."""
    top, best = largest(found) if len(kernels) > 1 else (found[0], 0)
    null = np.array(top[1:])
    null.flags.writeable = False
    statistic = float(top[0])
    return {
        "statistic": statistic,
        "p_value": rank_p_value(statistic, null),
        "null": null,
        "drawn": drawn,
        "kernel": kernels[best],
    }


@dataclass(frozen=True, eq=False)
class MeanEmbedding:
    """A model whose embedding is known exactly.

    Attributes
    ----------
    circuit : Circuit
        Normalised, on the host.
    wide : bool
        Whether it is that of a function, a unit for every state: too wide to meet itself.
    """

    circuit: Circuit
    wide: bool = False

    def mean(self, k: Kernel) -> float:
        """The expected kernel of two independent draws."""
        if not self.wide:
            return float(on_host(expected_kernel(self.circuit, self.circuit, k)))
        states = every_state(self.circuit.cardinalities)
        return float(np.exp(self.circuit.log_likelihood(states)) @ self.embedding(states, k))

    def embedding(self, rows: Any, k: Kernel) -> Any:
        """The expected kernel of a draw and each of some rows."""
        return on_host(expected_kernel(self.circuit, rows, k))


def mean_embedding(model: Any, what: str = "A test") -> MeanEmbedding:
    """A model with its exact embedding; raises if it has none. `what` is it that needs one."""
    if is_small(model):
        _, chances = states_of(model)
        table = Factor(range(len(model.cardinalities)), chances.reshape(model.cardinalities))
        graph = FactorGraph(model.cardinalities, [table], model.names, model.states)
        return MeanEmbedding(graph.circuit(), wide=True)
    if isinstance(model, Target):
        raise DataError(
            "The embedding of a model is a sum over all states, and a function of more than "
            f"{ENUMERATED} states cannot be summed over. Give the model as a FactorGraph, or use "
            "kdsd_test, which needs no sum."
        )
    if hasattr(model, "compile"):
        model = model.circuit()
    if not isinstance(model, Circuit):
        raise DataError(
            "The model must be a Circuit, a FactorGraph, a BayesianNetwork, a network or mixture "
            f"of another library, or a Target. Got {type(model).__name__} instead; two sets of "
            "samples are compared by mmd_two_sample_test."
        )
    check_single_root(model, what)
    require_normalized(model, what)
    return MeanEmbedding(model.to("numpy"))


def mmd_statistics(model: MeanEmbedding, kernels: list[Kernel]) -> Statistic:
    """Unbiased estimates of squared discrepancies of samples from a model, a row per kernel."""
    means = [model.mean(k) for k in kernels]

    def statistics(samples: Any) -> Any:
        rows, place = distinct_places(samples)
        found = []
        for k, mean in zip(kernels, means, strict=True):
            within = pair_means(kernel_between(k, rows), place, len(rows))
            found.append(within - 2.0 * model.embedding(rows, k)[place].mean(axis=1) + mean)
        return np.stack(found)

    return statistics


def mmd_noise(model: MeanEmbedding, k: Kernel, points: Any) -> tuple[float, Noise]:
    """The standard error of the estimate of a squared discrepancy, and what is behind it.

    The first by the means of h over the partners of points; the other by h centred at the points.
    """
    rows, place = distinct_places(points[None])
    n, counts = len(points), counts_of(place, len(rows))[0]
    kernel, embedded = kernel_between(k, rows), model.embedding(rows, k)
    # constants do not matter for the spread
    sums, squares, diagonal = row_sums(
        lambda a, b: kernel(a, b) - embedded[a][:, None] - embedded[b], counts
    )
    partners = (sums - diagonal) / (n - 1)
    error = 2.0 * sqrt(float(counts @ (partners - counts @ partners / n) ** 2) / (n - 1) / n)
    means = sums / n
    mean = float(counts @ means) / n
    own = diagonal - 2.0 * means + mean
    pairs = counts @ (squares - 2.0 * n * means**2 - own**2) + (n * mean) ** 2
    variance = 2.0 * max(0.0, float(pairs)) / (n * (n - 1) ** 3)
    return error, Noise(max(0.0, float(counts @ own)) / (n * (n - 1)), variance, n)


def mmd_test(
    samples: SamplesLike,
    model: TargetLike,
    k: KernelsLike = None,
    *,
    null: str = "model",
    n_null: int = 199,
    refit: Callable[[Array], TargetLike] | None = None,
    rng: RngLike = None,
) -> MMDFit:
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
        At least two complete, independent points. Columns of frames are found by name, and labels
        are read, if the model has names and states.
    model : Circuit, FactorGraph, BayesianNetwork, unit graph, or model of another library
        Normalised; see `as_model`. Variables may be real. A `Target` of at most 2^18 states is
        summed over all of them.
    k : Kernel, list of kernels, or "aggregate"; optional
        Default: ``ExpHamming()`` for discrete variables, ``RBF`` with a rate by the model's
        variances for real ones, and their product for both. Several kernels, or "aggregate" for
        rates from half to eight times the default, are one test: the largest standardised statistic
        is ranked.
    null : "model" or "auto"
        Samples under the hypothesis are draws of the model.
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

    Returns
    -------
    MMDFit
        With ``statistic``, ``p_value``, ``null``, and a confidence interval of the squared
        discrepancy, for those who want to accept a model: ``interval()``.

    Notes
    -----
    The level is exact for every number of samples, as for `kdsd_test`. Zeros of the model do no
    harm, and neither do parts of its support that no change of a single variable connects.
    Cost: one embedding of the distinct rows of all samples, and the kernels within each sample,
    O(n_null n^2): for thousands of samples ``n_null=99`` is enough.

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
    check_roles("mmd_test(samples, model, k)", model, samples)
    given = mean_embedding(model)
    points = complete_samples(given.circuit, samples)
    check_choice("mmd_test", "null", null, ("auto", "model"), DataError)
    check_count("mmd_test", "n_null", n_null, 1, error=DataError)
    # of the model alone: a rate by the data would not be that of the simulated samples
    kernels = kernels_of(k, lambda scale: default_kernel(given.circuit, scale=scale))
    for kernel in kernels:
        require_kernel(kernel)
    tested, drawn, values = simulated(
        lambda model: mean_embedding(as_target(model)),
        lambda model: mmd_statistics(model, kernels),
        *(given, points, refit, "model", n_null, rng),
    )
    error, noise = mmd_noise(tested, kernels[0], points) if len(kernels) == 1 else (None, None)
    found = outcome(values, drawn, kernels)
    return MMDFit(**found, n=len(points), standard_error=error, noise=noise)


NULLS = ("auto", "model", "gibbs", "signs")

ENOUGH = 8.0
"""Random signs are trusted if there are this many for every unit of skewness, squared."""


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
        Known up to a constant; a circuit need not be deterministic.
    k : Kernel, list of kernels, or "aggregate"; optional
        Default: ``ExpHamming()``. Several kernels, or "aggregate" for rates from 0.5 / D to 8 / D,
        are one test: the largest standardised statistic is ranked.
    operator : "gibbs" or "shift"
        As in `SteinKernel`. Gibbs updates are bounded and need no positive target.
    null : "auto", "model", "gibbs" or "signs"
        How samples under the hypothesis come about. "model": independent draws of the target, if it
        is a circuit, compiles to one, or is a function of at most 2^18 states. "gibbs": Gibbs
        chains that lead from the samples to a hub and back, for all other targets. Both keep
        the level exactly for independent samples of any size. "signs": random signs (wild
        bootstrap), for the samples of a Markov chain; the level holds for many samples. "auto":
        the first of these that is possible; signs if `change` is given.
    n_null : int
        How many samples are simulated; the p-value is a multiple of 1 / (n_null + 1).
    change : float, optional
        For samples of a Markov chain that depend on their predecessors: the probability that the
        sign changes from one sample to the next, one over twice the number of steps after which
        they do not. Only samples that far apart are compared, and signs need many times as many
        samples. Default: one half, for independent samples. Samples of which few rare ones
        outweigh all others are refused, because signs reject them too often.
    zeros : "raise" or "restrict"
        What shifts do if the target has zeros, as in `SteinKernel`.
    refit : function, optional
        For a target that was fitted to these samples: how. The function takes an array of samples
        and returns a target. The statistic is then that of ``refit(samples)``, and simulated
        samples get targets of their own (parametric bootstrap); they are drawn from the target of
        ten copies of the samples, to which pseudocounts matter little.
    rng : int, Generator or None

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
    Draws of the target and the samples are exchangeable under the hypothesis, so the probability of
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
    target, cardinalities = stein_target("kdsd_test(samples, target, k)", target, samples)
    points = complete_samples(target, samples)
    check_count("kdsd_test", "n_null", n_null, 1, error=DataError)
    null = _checked_null(null, change, refit)
    kernels = kernels_of(k, lambda c: ExpHamming(None if c == 1.0 else c / len(cardinalities)))

    def steins_of(model: Any) -> list[SteinKernel]:
        return [SteinKernel(model, kernel, zeros, operator) for kernel in kernels]

    if null != "signs":
        settings = target, points, refit, null, n_null, rng
        _, drawn, found = simulated(as_target, lambda p: _statistic(steins_of(p)), *settings)
        return GoodnessOfFit(**outcome(found, drawn, kernels), n=len(points))
    with rows_numbered(distinct_rows(points)[2]):
        signs = steins_of(target), points, n_null, 0.5 if change is None else change
        found = _signed_statistics(*signs, null_generator(rng))
    return GoodnessOfFit(**outcome(found, "signs", kernels), n=len(points))


def _checked_null(null: Any, change: Any, refit: Any) -> str:
    check_choice("kdsd_test", "null", null, NULLS, DataError)
    if change is None and refit is None:
        return str(null)
    if change is not None:
        check_real("kdsd_test", "change", change, 0, 0.5, "(]", error=DataError)
    if change is not None and (refit is not None or null in ("model", "gibbs")):
        other = "refit" if refit is not None else f"null={null!r}"
        raise DataError(
            f"'change' is for the random signs of dependent samples. Got {other} as well, which "
            "is for independent ones."
        )
    if refit is not None and null in ("gibbs", "signs"):
        raise DataError(
            f"Models are fitted anew to draws of the model. Got null={null!r} beside 'refit'; "
            "use null='model'."
        )
    return "signs" if change is not None else "model"


def _statistic(kernels: list[SteinKernel]) -> Statistic:
    """The unbiased discrepancies of samples, one row per kernel."""

    def statistic(samples: Any) -> Any:
        rows, place = distinct_places(samples)
        found = [pair_means(f, place, len(rows)) for f in selected_grams(kernels, rows)]
        return np.stack(found)

    return statistic


def _signed_statistics(
    kernels: list[SteinKernel], points: Any, m: int, change: float, generator: Any
) -> Any:
    """The discrepancies of samples, and those with random signs, (kernels, 1 + m)."""
    rows, place = distinct_places(points[None])
    place, every, n = place[0], np.arange(len(rows)), len(points)
    apart = max(1, round(0.5 / change))  # samples next to each other depend
    if apart >= n:
        raise DataError(
            f"With change={change:g}, samples are compared that are at least {apart} steps apart. "
            f"Got {n} samples; draw more of them, or thin the chain and raise 'change'."
        )
    signs = np.vstack([np.ones(n), _signs(generator, m, n, change)])
    sums = np.stack([np.bincount(place, row, minlength=len(rows)) for row in signs])
    found = []
    for between in selected_grams(kernels, rows):
        matrix = between(every, every)
        if matrix.min() >= 0:
            raise DataError(
                f"Random signs cannot judge these {n} samples: no two of them disagree (no entry "
                "of their Stein kernel is negative), so the statistic is the largest one that "
                "signs can give, whatever the samples come from. Thin a chain until its samples "
                "are independent, and use null='auto'."
            )
        _refuse_skewed(matrix[place, place], change)
        near = np.full(1 + m, matrix[place, place].sum())
        for lag in range(1, apart):
            near += 2.0 * (signs[:, lag:] * signs[:, :-lag]) @ matrix[place[lag:], place[:-lag]]
        total = ((sums @ matrix) * sums).sum(axis=1)
        found.append((total - near) / ((n - apart) * (n - apart + 1)))
    return np.stack(found)


def _refuse_skewed(own: Any, change: float) -> None:
    """Raise if few samples, by their Stein kernels with themselves, outweigh all others.

    The error of random signs grows with the squared skewness over the number of independent signs,
    and the squared skewness is below the kurtosis, less one.
    """
    n = len(own)
    kurtosis = n * float((own**2).sum() / own.sum() ** 2)
    needed = ENOUGH * (kurtosis - 1.0) * (1.0 - change) / change
    if n < needed:
        raise DataError(
            f"Random signs cannot judge these {n} samples: by the sizes of their Stein kernels "
            f"they count as {n / kurtosis:.1f}, because rare states outweigh the others. With "
            f"change={change:g}, about {needed:.0f} samples of this kind are needed. Draw more; or "
            "thin a chain until its samples are independent, and use null='auto'."
        )


def _signs(generator: Any, m: int, n: int, change: float) -> Any:
    """Rows of signs that change from one to the next with a probability."""
    start = generator.choice([-1.0, 1.0], size=(m, 1))
    flips = np.where(generator.random((m, n - 1)) < change, -1.0, 1.0)
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
        for rates from half to eight times the default, are one test.
    categorical_features : names, numbers or mask of columns, optional
        The categorical columns, for the default kernel, as for `mmd2`. The result prints them.
    n_null : int
        How many divisions are drawn; the p-value is a multiple of 1 / (n_null + 1).
    rng : int, Generator or None

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
    check_count("mmd_two_sample_test", "n_null", n_null, 1, error=DataError)
    first, second, schema = two_sets(X, Y)
    n, m = len(first), len(second)
    rows, place = distinct_places(np.concatenate([first, second])[None])
    # in an order that does not tell which set a row is of
    kernels, categorical = pooled_kernels(k, rows[np.sort(place[0])], schema, categorical_features)
    generator = null_generator(rng)
    require_memory(
        24.0 * (n_null + 1) * max(n, len(rows)),
        f"A table of {n_null} divisions of {n + m} samples",
        "Take fewer of either.",
    )
    chosen = np.stack([place[0, :n], *(generator.permutation(place[0])[:n] for _ in range(n_null))])
    counts = counts_of(chosen, len(rows))
    whole = np.bincount(place[0], minlength=len(rows)).astype(np.float64)
    found = []
    for kernel in kernels:
        require_kernel(kernel)
        found.append(_two_sample_statistics(kernel_between(kernel, rows), counts, whole, n, m))
    return TwoSamples(
        **outcome(np.stack(found), "permutations", kernels), n=n, m=m, categorical=categorical
    )


def pooled_kernels(
    k: Any, pooled: Any, schema: Schema | None, categorical_features: Any
) -> tuple[list[Kernel], dict[Any, bool] | None]:
    """The kernels of a comparison of two sets of points, and which columns are categorical.

    The latter, by the names of columns, is for the default kernels; None if others are given.
    """
    points = Empirical(pooled)
    points.schema = schema
    default = partial(default_kernel, points, categorical_features=categorical_features)
    kernels = kernels_of(k, lambda scale: default(scale=scale), categorical_features)
    if k is not None and not isinstance(k, str):
        return kernels, None
    found = categorical_variables(points, categorical_features=categorical_features)
    names = range(len(found)) if schema is None or schema.names is None else schema.names
    return kernels, dict(zip(names, found.tolist(), strict=True))


def two_sets(X: Any, Y: Any) -> tuple[Any, Any, Schema | None]:
    """Two sets of points over the same variables, complete and counting alike.

    And what is known of the variables, if one of the sets is a data frame.
    """
    given = as_distribution(X), as_distribution(Y)
    for found in given:
        if not isinstance(found, Empirical):
            raise DataError(
                "A two-sample test is between two sets of samples. Got a "
                f"{type(found).__name__}; mmd_test(samples, model) tests samples against a model."
            )
    both = two_distributions(*given)
    for found in both:
        check_samples(found.X, found.weights, " of each")
    first, second = both[0].X, both[1].X
    if first.shape[1] != second.shape[1]:
        raise DataError(
            "Both sets of samples need the same variables. "
            f"Got {first.shape[1]} and {second.shape[1]} columns."
        )
    return first, second, both[0].schema or both[1].schema


def _two_sample_statistics(between: Any, counts: Any, whole: Any, n: int, m: int) -> Any:
    """The unbiased squared discrepancies of divisions, given how often rows are in the first."""
    forms, diagonal = quadratic_forms(between, np.concatenate([counts, whole[None]]))
    sums, _, _ = row_sums(between, whole)
    first, everything, across = forms[:-1], forms[-1], counts @ sums
    second = everything - 2.0 * across + first
    own = counts @ diagonal
    within = (first - own) / (n * (n - 1)) + (second - (whole @ diagonal - own)) / (m * (m - 1))
    return within - 2.0 * (across - first) / (n * m)


ROUNDING = 1e-12
"""Models whose embeddings differ by no more, of their size, are the same up to rounding."""


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
    for given in (p1, p2):
        check_roles("mmd_compare(p1, p2, samples, k)", given, samples)
    names = ("the first model", "the second model")
    return _pairs([p1, p2], names, samples, k)[0]


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
        As for `mmd_compare`, at least two.
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
    if isinstance(models, Mapping):
        names, given = tuple(map(str, models)), list(models.values())
    elif isinstance(models, Sequence):
        given = list(models)
        names = tuple(f"model {number}" for number in range(1, len(given) + 1))
    else:
        raise DataError(
            "Several models come as a list, or as a mapping from names to models. Got "
            f"{type(models).__name__} instead."
        )
    if len(given) < 2:
        raise DataError(f"At least two models are compared. Got {len(given)}.")
    for model in given:
        check_roles("mmd_compare_all(models, samples, k)", model, samples)
    found = [
        replace(pair, difference=-pair.difference, z=-pair.z, names=pair.names[::-1])
        if pair.difference > 0
        else pair
        for pair in _holm(_pairs(given, names, samples, k))
    ]
    beats = {name: sum(pair.names[0] == name for pair in found) for name in names}
    order = sorted(names, key=lambda name: -beats[name])
    return Comparisons(tuple(order), tuple(sorted(found, key=lambda pair: pair.p_value)))


def _pairs(
    models: list[Any], names: Sequence[str], samples: Any, k: Kernel | None
) -> list[Comparison]:
    """All pairs of models, compared; every model is embedded once."""
    first, *others = (mean_embedding(as_target(model)) for model in models)
    # with variables and states in the order of the first
    known = [first, *(replace(x, circuit=align(first.circuit, x.circuit)[1]) for x in others)]
    points = complete_samples(known[0].circuit, samples)
    k = default_kernel(known[0].circuit, points) if k is None else k
    require_kernel(k)
    rows, place = distinct_places(points[None])
    scores = [(model.mean(k) - 2.0 * model.embedding(rows, k))[place[0]] for model in known]
    found = []
    for a, b in combinations(range(len(models)), 2):
        apart, size = scores[a] - scores[b], max(np.abs(scores[a]).max(), np.abs(scores[b]).max())
        rounding = np.abs(apart).max() <= ROUNDING * size  # everywhere
        found.append(compared(0.0 * apart if rounding else apart, (names[a], names[b])))
    return found


def _holm(pairs: list[Comparison]) -> list[Comparison]:
    """The comparisons with p-values that allow for their number."""
    order = np.argsort([pair.p_value for pair in pairs])
    found, least = list(pairs), 0.0
    for rank, number in enumerate(order.tolist()):
        least = max(least, min(1.0, (len(pairs) - rank) * pairs[number].p_value))
        found[number] = replace(pairs[number], p_value=least)
    return found
