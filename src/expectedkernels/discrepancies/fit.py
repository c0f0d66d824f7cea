"""A test of samples against a model with its exact mean embedding."""

from __future__ import annotations

from collections.abc import Callable

from expectedkernels.arrays import Array, RngLike, SamplesLike
from expectedkernels.checks import check_choice, check_count
from expectedkernels.discrepancies.embeddings import (
    mmd_noise,
    mmd_statistics,
    summable,
)
from expectedkernels.discrepancies.nulls import (
    KernelsLike,
    check_refit,
    complete_samples,
    kernels_of,
    null_drawer,
    null_generator,
    outcome,
    refitted,
    simulated,
    simulated_source,
)
from expectedkernels.discrepancies.outcomes import MMDFit
from expectedkernels.errors import DataError
from expectedkernels.kernels.defaults import default_kernel
from expectedkernels.kernels.kernel import require_kernel
from expectedkernels.kernels.rows import check_roles
from expectedkernels.kernels.target import TargetLike, as_target


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
