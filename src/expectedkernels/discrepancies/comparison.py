"""Which of several models is closest to data, by maximum mean discrepancy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from expectedkernels.arrays import SamplesLike
from expectedkernels.circuits.alignment import align
from expectedkernels.discrepancies.embeddings import Summable, summable
from expectedkernels.discrepancies.nulls import complete_samples
from expectedkernels.discrepancies.outcomes import Comparison, compared
from expectedkernels.discrepancies.pairs import distinct_places
from expectedkernels.errors import DataError
from expectedkernels.kernels.defaults import default_kernel
from expectedkernels.kernels.kernel import Kernel, require_kernel
from expectedkernels.kernels.rows import check_roles
from expectedkernels.kernels.target import TargetLike, as_target

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
