"""A test of whether two sets of samples have one source."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from expectedkernels.arrays import RngLike, RowsLike, VariablesLike, require_memory
from expectedkernels.checks import check_count
from expectedkernels.circuits.schema import Schema
from expectedkernels.discrepancies.mmd import as_distribution
from expectedkernels.discrepancies.nulls import (
    KernelsLike,
    kernels_of,
    null_generator,
    outcome,
    refuse_gaps,
    refuse_weights,
)
from expectedkernels.discrepancies.outcomes import TwoSamples
from expectedkernels.discrepancies.pairs import (
    counts_of,
    distinct_places,
    kernel_between,
    quadratic_forms,
    row_sums,
)
from expectedkernels.errors import DataError
from expectedkernels.expectation import refuse_functions, two_distributions
from expectedkernels.kernels.defaults import categorical_variables, default_kernel
from expectedkernels.kernels.empirical import Empirical
from expectedkernels.kernels.kernel import Kernel, require_kernel
from expectedkernels.kernels.rows import is_model


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
