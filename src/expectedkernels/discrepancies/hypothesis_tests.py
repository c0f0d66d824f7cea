"""Tests of goodness of fit, of two samples, and of which model is closer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from expectedkernels.arrays import (
    Array,
    RngLike,
    RowsLike,
    SamplesLike,
    VariablesLike,
    require_memory,
)
from expectedkernels.checks import DataError, check_choice, check_count, check_real, rows_numbered
from expectedkernels.circuits.circuit import align
from expectedkernels.data.schema import Schema
from expectedkernels.discrepancies.mmd import as_distribution
from expectedkernels.discrepancies.null_distributions import (
    Comparison,
    GoodnessOfFit,
    KernelsLike,
    MMDFit,
    Statistic,
    Summable,
    TwoSamples,
    check_refit,
    compared,
    complete_samples,
    counts_of,
    distinct_places,
    kernel_between,
    kernels_of,
    mmd_noise,
    mmd_statistics,
    null_drawer,
    null_generator,
    outcome,
    pair_means,
    quadratic_forms,
    refitted,
    refuse_gaps,
    refuse_weights,
    row_sums,
    simulated,
    simulated_source,
    summable,
)
from expectedkernels.expectation import refuse_functions, two_distributions
from expectedkernels.kernels.empirical import (
    Empirical,
    categorical_variables,
    check_roles,
    default_kernel,
    is_model,
)
from expectedkernels.kernels.kernel import ExpHamming, Kernel, require_kernel
from expectedkernels.kernels.target import TargetLike, as_target
from expectedkernels.stein.stein_kernel import SteinKernel, discrete_cardinalities, selected_grams


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
    given = summable(model)
    points = complete_samples(given.circuit, samples)
    check_choice("mmd_test", "null", null, ("auto", "model"), DataError)
    check_count("mmd_test", "n_null", n_null, 1, error=DataError)
    check_refit(refit)
    # of the model alone: a rate by the data would not be that of the simulated samples
    kernels = kernels_of(k, lambda scale: default_kernel(given.circuit, scale=scale))
    for kernel in kernels:
        require_kernel(kernel)
    tested = given if refit is None else summable(as_target(refit(points)))
    statistic = mmd_statistics(tested, kernels)
    observed = statistic(points[None])
    source = given if refit is None else summable(as_target(simulated_source(refit, points)))
    drawn, draw = null_drawer(source.circuit, points, "model", null_generator(rng))
    if refit is not None:
        statistic = refitted(lambda X: mmd_statistics(summable(as_target(refit(X))), kernels))
    values = simulated(observed, statistic, draw, points.size, n_null)
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
    target = as_target(target)
    check_roles("kdsd_test(samples, target, k)", target, samples)
    cardinalities = discrete_cardinalities(target)
    points = complete_samples(target, samples)
    check_count("kdsd_test", "n_null", n_null, 1, error=DataError)
    null = _checked_null(null, change, refit)
    kernels = kernels_of(k, lambda c: ExpHamming(None if c == 1.0 else c / len(cardinalities)))
    generator = null_generator(rng)

    def statistic_of(model: Any) -> Statistic:
        return _statistic([SteinKernel(model, kernel, zeros, operator) for kernel in kernels])

    if refit is not None:
        target = as_target(refit(points))
    first = np.unique(points, axis=0, return_index=True)[1]  # statistics look at distinct rows
    if null == "signs":
        change = 0.5 if change is None else change
        steins = [SteinKernel(target, kernel, zeros, operator) for kernel in kernels]
        with rows_numbered(first):
            found = _signed_statistics(steins, points, n_null, change, generator)
        drawn = "signs"
    else:
        statistic = statistic_of(target)
        with rows_numbered(first):
            observed = statistic(points[None])  # names impossible samples before others are drawn
        source = target if refit is None else as_target(simulated_source(refit, points))
        drawn, draw = null_drawer(source, points, null, generator)
        if refit is not None:
            statistic = refitted(lambda X: statistic_of(as_target(refit(X))))
        found = simulated(observed, statistic, draw, points.size, n_null)
    return GoodnessOfFit(**outcome(found, drawn, kernels), n=len(points))


def _checked_null(null: Any, change: Any, refit: Any) -> str:
    check_choice("kdsd_test", "null", null, NULLS, DataError)
    if change is None and refit is None:
        return str(null)
    if change is not None:
        check_real("kdsd_test", "change", change, 0, 0.5, "(]", error=DataError)
    check_refit(refit)
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
    apart = _steps_apart(change, n)
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


def _steps_apart(change: float, n: int) -> int:
    """How many steps samples are apart that are compared: those next to each other depend."""
    apart = max(1, round(0.5 / change))
    if apart >= n:
        raise DataError(
            f"With change={change:g}, samples are compared that are at least {apart} steps apart. "
            f"Got {n} samples; draw more of them, or thin the chain and raise 'change'."
        )
    return apart


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
    for given in (X, Y):
        refuse_functions(given)
        if is_model(given) or hasattr(given, "compile"):
            raise DataError(
                "A two-sample test is between two sets of samples. Got a "
                f"{type(given).__name__}; mmd_test(samples, model) tests samples against a model."
            )
    both = two_distributions(as_distribution(X), as_distribution(Y))
    for found in both:
        if not isinstance(found, Empirical):
            raise DataError(
                "A two-sample test is between two sets of samples. Got a model; "
                "mmd_test(samples, model) tests samples against one."
            )
        refuse_gaps(found.X)
        refuse_weights(found.weights)
        if len(found.X) < 2:
            raise DataError(f"A test needs at least two samples of each. Got {len(found.X)}.")
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
    found = [_closer_first(pair) for pair in _holm(_pairs(given, names, samples, k))]
    beats = {name: sum(pair.names[0] == name for pair in found) for name in names}
    order = sorted(names, key=lambda name: -beats[name])
    return Comparisons(tuple(order), tuple(sorted(found, key=lambda pair: pair.p_value)))


def _pairs(
    models: list[Any], names: Sequence[str], samples: Any, k: Kernel | None
) -> list[Comparison]:
    """All pairs of models, compared; every model is embedded once."""
    known = _aligned([summable(as_target(model)) for model in models])
    points = complete_samples(known[0].circuit, samples)
    k = default_kernel(known[0].circuit, points) if k is None else k
    require_kernel(k)
    rows, place = distinct_places(points[None])
    scores = [(model.mean(k) - 2.0 * model.embedding(rows, k))[place[0]] for model in known]
    return [
        compared(_differences(scores[a], scores[b]), (names[a], names[b]))
        for a, b in combinations(range(len(models)), 2)
    ]


def _differences(a: Any, b: Any) -> Any:
    """How much numbers differ; not at all if that is rounding everywhere."""
    found, size = a - b, max(np.abs(a).max(), np.abs(b).max())
    return found if np.abs(found).max() > ROUNDING * size else np.zeros_like(found)


def _aligned(models: list[Summable]) -> list[Summable]:
    """The models with their variables and states in the order of the first."""
    first, *others = models
    return [first, *(replace(x, circuit=align(first.circuit, x.circuit)[1]) for x in others)]


def _holm(pairs: list[Comparison]) -> list[Comparison]:
    """The comparisons with p-values that allow for their number."""
    order = np.argsort([pair.p_value for pair in pairs])
    found, least = list(pairs), 0.0
    for rank, number in enumerate(order.tolist()):
        least = max(least, min(1.0, (len(pairs) - rank) * pairs[number].p_value))
        found[number] = replace(pairs[number], p_value=least)
    return found


def _closer_first(pair: Comparison) -> Comparison:
    if pair.difference <= 0:
        return pair
    first, second = pair.names
    return replace(pair, difference=-pair.difference, z=-pair.z, names=(second, first))
