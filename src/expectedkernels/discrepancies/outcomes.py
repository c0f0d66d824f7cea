"""What tests find: a statistic, what it would be under the hypothesis, and a p-value."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import Array
from expectedkernels.checks import check_real
from expectedkernels.circuits.schema import listed
from expectedkernels.discrepancies.noise import Noise, noise_between, score_interval
from expectedkernels.errors import DataError
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.reports import Reported

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    _title = "Test"

    def _numbers(self) -> dict[str, Any]:
        return {"statistic": self.statistic, "p-value": self.p_value}

    def _settings(self) -> dict[str, Any]:
        return {
            "samples": self._sizes(),
            "simulated": f"{len(self.null)} {DRAWN[self.drawn]}",
            "kernel": repr(self.kernel),
        }

    def _pictures(self) -> dict[str, Any]:
        return {"The statistic among simulated ones": self.plot}

    def _sizes(self) -> str:
        raise NotImplementedError

    def _claim(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        verdict = "rejected" if self.p_value <= 0.05 else "not rejected"
        return (
            f"The hypothesis that {self._claim()} is {verdict} at 5 %: p = {self.p_value:.3g}, "
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

    def _sizes(self) -> str:
        return f"{self.n} samples"

    def _claim(self) -> str:
        return "the samples come from the model"


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

    def _sizes(self) -> str:
        return f"{self.n} and {self.m} samples"

    def _claim(self) -> str:
        return "both sets of samples have one source"

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
    return Comparison(mean, error, z, student_p_value(z, skew, n), n, names)


def student_p_value(z: float, skew: float, n: int) -> float:
    """How often a mean over its standard error is this far from zero, by Student's distribution.

    Means of skewed values are corrected by Hall's transformation, which removes what skewness, over
    the root of the number of values, does to their ratio. P. Hall, "On the removal of skewness by
    transformation", JRSS B 1992.

    Examples
    --------
    >>> student_p_value(2.0, 0.0, 1001).__round__(4), student_p_value(-2.0, 0.3, 1001).__round__(2)
    (0.0458, 0.11)
    """
    from scipy.special import stdtr  # slow to import

    corrected = z + skew * (z**2 / 3.0 + 1.0 / 6.0) + skew**2 * z**3 / 27.0
    return float(2.0 * stdtr(n - 1, -abs(corrected)))
