"""What the results of the inference study say about the paper's claims, computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt
from typing import Any

from studies.base import distance, spread, standard_error
from studies.inference.records import REFERENCE, TRIES, Curve, InferenceRecords

LEAST = 100
"""Methods are compared at this number of samples and above."""
NOISE = 2.0
"""Differences within so many standard errors are none."""
WEIGHTED = ("raw", "smoothed", "default")
"""The rules that the claims about weighted samples are looked at for."""
PROPOSAL = "gibbs"
"""Where the samples come from that the claims are about."""


@dataclass(frozen=True)
class Difference:
    """The error of one curve minus that of another, both logs, over tries.

    Attributes
    ----------
    mean, standard_error : float
        Of the differences of tries, each the mean over all numbers of samples from `LEAST` on.
    counts : mapping
        From numbers of samples to the mean difference there and its standard error.
    """

    mean: float
    standard_error: float
    counts: dict[int, tuple[float, float]]

    @property
    def outcome(self) -> str:
        """Whether the first curve is "better", "worse", or "equal" within the noise."""
        margin = NOISE * self.standard_error
        if self.mean < -margin:
            return "better"
        return "worse" if self.mean > margin else "equal"


def difference(records: InferenceRecords, first: Curve, second: Curve) -> Difference | None:
    """How two curves differ, try by try; None if there is nothing to compare."""
    pair = (records.by_trial(key).dropna() for key in (first, second))
    ours, theirs = next(pair).align(next(pair), join="inner")
    gap = (ours - theirs).loc[:, ours.columns >= LEAST]
    if gap.empty:
        return None
    counts = {n: _mean_and_error(values) for n, values in gap.items()}
    return Difference(*_mean_and_error(gap.mean(axis=1)), counts)


def _mean_and_error(values: Any) -> tuple[float, float]:
    """The mean of some tries and its standard error, zero for a single one."""
    return float(values.mean()), spread(values) / sqrt(len(values))


def masks_of(share: float) -> str:
    """The kind of masks at a share of collapsed variables: none if nothing is collapsed."""
    return "per sample" if share else "none"


@dataclass(frozen=True)
class Comparison:
    """Collapsed samples beside one baseline."""

    model: str
    share: float
    rule: str
    baseline: str
    found: Difference

    def __str__(self) -> str:
        return f"{self.baseline} ({self.found.mean:+.2f})"

    @property
    def place(self) -> str:
        """The model and the share."""
        return f"{self.model} {100 * self.share:g} %"


def against_baselines(records: InferenceRecords) -> list[Comparison]:
    """CBBIS with every rule beside CVS, VS, BBIS and CIS, for all models and shares."""
    return _compared(records, list(product(WEIGHTED, ("CVS", "VS", "BBIS", "CIS"))))


def collapsing(records: InferenceRecords) -> list[Comparison]:
    """Collapsed samples beside complete ones with the same rule for weights."""
    return _compared(records, [("uniform", "VS"), *((rule, "BBIS") for rule in WEIGHTED)])


def _compared(records: InferenceRecords, pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    shares = sorted(s for s in records.values("collapsed") if s)
    result = []
    for model, share, (rule, name) in product(records.values("model"), shares, pairs):
        theirs: dict[str, tuple[str, float, str, str]] = {
            "CVS": (PROPOSAL, share, masks_of(share), "uniform"),
            "VS": (PROPOSAL, 0.0, "none", "uniform"),
            "BBIS": (PROPOSAL, 0.0, "none", rule),
            "CIS": ("cis", share, "online", "one set"),
        }
        ours = (model, PROPOSAL, share, masks_of(share), rule)
        found = difference(records, ours, (model, *theirs[name]))
        if found is not None:
            result.append(Comparison(model, share, rule, name, found))
    return result


@dataclass(frozen=True)
class Agreement:
    """Our mean error beside a reference value."""

    key: Curve
    n: int
    mean: float
    reference: float
    standard_error: float
    inside: bool

    @property
    def distance(self) -> float:
        """The difference in multiples of its standard error."""
        return distance(self.mean, self.reference, self.standard_error)


def agreement(records: InferenceRecords) -> list[Agreement]:
    """All curves for which there are reference values, at all numbers of samples.

    The standard error of the difference takes the reference to be the mean of five tries with
    as much spread as ours; for a fixed partition, of tries that share one partition.
    A reference is inside if it lies between the smallest and the largest of our tries.
    """
    found = []
    for (*key, n), value in REFERENCE.stack().items():
        errors = records.errors(tuple(key), n)
        if len(errors):
            error = standard_error(errors, 1.0 if key[3] == "fixed" else 1 / TRIES)
            inside = bool(errors.min() <= value <= errors.max())
            found.append(Agreement(tuple(key), n, float(errors.mean()), value, error, inside))
    return found


def rule_rows(records: InferenceRecords, counts: tuple[int, ...] = (50, 100, 200)) -> Any:
    """The mean errors of rules for weights, per-sample masks: one row for every place."""
    frame = records.frame
    wanted = frame["masks"].isin(["none", "per sample"]) & frame["n"].isin(counts)
    index = ["model", "proposal", "collapsed", "n"]
    found = frame[wanted].pivot_table("error", index, "rule", sort=False)
    places = product(
        records.values("model"),
        records.values("proposal"),
        sorted(records.values("collapsed")),
        counts,
    )
    found = found.loc[[place for place in places if place in found.index]]
    return found.dropna(subset="uniform") if "uniform" in found else found[:0]
