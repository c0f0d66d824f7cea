"""What the results of the inference study say about the paper's claims, computed from them."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from studies.base import distance, spread, standard_error
from studies.inference.records import InferenceRecords
from studies.inference.reference import TRIES, reference_curves

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


def difference(records: InferenceRecords, first: Any, second: Any) -> Difference | None:
    """How two curves differ, try by try; None if there is nothing to compare.

    Parameters
    ----------
    records : InferenceRecords
    first, second : tuples
        Model, proposal, collapsed share, masks and rule.
    """
    trials = sorted(set(records.trials(first)) & set(records.trials(second)))
    counts = sorted(set(records.counts(first)) & set(records.counts(second)))
    counts = [n for n in counts if n >= LEAST]
    if not trials or not counts:
        return None
    pairs = [
        (records.by_trial(first, n, trials) - records.by_trial(second, n, trials)) for n in counts
    ]
    mean, error = _mean_and_error(np.mean(pairs, axis=0))
    counted = {n: _mean_and_error(d) for n, d in zip(counts, pairs, strict=True)}
    return Difference(mean, error, counted)


def _mean_and_error(values: Any) -> tuple[float, float]:
    """The mean of some tries and its standard error, zero for a single one."""
    return float(values.mean()), spread(values) / sqrt(len(values))


def masks_of(share: float) -> str:
    """The kind of masks at a share of collapsed variables: none if nothing is collapsed."""
    return "per sample" if share else "none"


@dataclass(frozen=True)
class Comparison:
    """Weighted collapsed samples beside one baseline."""

    model: str
    share: float
    rule: str
    baseline: str
    found: Difference


def against_baselines(records: InferenceRecords) -> list[Comparison]:
    """CBBIS with every rule beside CVS, VS, BBIS and CIS, for all models and shares."""
    result = []
    for model in records.values("model"):
        for share in sorted(s for s in records.values("collapsed") if s):
            for rule in WEIGHTED:
                ours = (model, PROPOSAL, share, masks_of(share), rule)
                baselines = {
                    "CVS": (model, PROPOSAL, share, masks_of(share), "uniform"),
                    "VS": (model, PROPOSAL, 0.0, "none", "uniform"),
                    "BBIS": (model, PROPOSAL, 0.0, "none", rule),
                    "CIS": (model, "cis", share, "online", "one set"),
                }
                for name, theirs in baselines.items():
                    found = difference(records, ours, theirs)
                    if found is not None:
                        result.append(Comparison(model, share, rule, name, found))
    return result


def collapsing(records: InferenceRecords) -> list[Comparison]:
    """Collapsed samples beside complete ones with the same rule for weights."""
    result = []
    for model in records.values("model"):
        for share in sorted(s for s in records.values("collapsed") if s):
            for rule in ("uniform", *WEIGHTED):
                ours = (model, PROPOSAL, share, masks_of(share), rule)
                found = difference(records, ours, (model, PROPOSAL, 0.0, "none", rule))
                if found is not None:
                    name = "VS" if rule == "uniform" else "BBIS"
                    result.append(Comparison(model, share, rule, name, found))
    return result


@dataclass(frozen=True)
class Agreement:
    """Our mean error beside a reference value."""

    key: Any
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
    for key, n, value in reference_curves():
        errors = records.errors(key, n)
        if not len(errors):
            continue
        error = standard_error(errors, 1.0 if key[3] == "fixed" else 1 / TRIES)
        inside = bool(errors.min() <= value <= errors.max())
        found.append(Agreement(key, n, float(errors.mean()), value, error, inside))
    return found


@dataclass(frozen=True)
class RuleRow:
    """The mean errors of all rules for weights in one place."""

    model: str
    proposal: str
    share: float
    n: int
    tries: int
    errors: dict[str, float]

    def gain(self, rule: str) -> float:
        """By how much a rule is better than equal weights."""
        return self.errors["uniform"] - self.errors[rule]


def rule_rows(records: InferenceRecords, counts: tuple[int, ...] = (50, 100, 200)) -> list[RuleRow]:
    """The comparison of rules for weights, per-sample masks: one row for every place."""
    found = []
    rules = list(dict.fromkeys(r.rule for r in records if r.cell.proposal != "cis"))
    for model in records.values("model"):
        for proposal in (p for p in records.values("proposal") if p != "cis"):
            for share in sorted(records.values("collapsed")):
                for n in counts:
                    errors = {
                        rule: records.errors((model, proposal, share, masks_of(share), rule), n)
                        for rule in rules
                    }
                    there = {rule: float(e.mean()) for rule, e in errors.items() if len(e)}
                    if "uniform" in there:
                        tries = min(len(e) for e in errors.values() if len(e))
                        found.append(RuleRow(model, proposal, share, n, tries, there))
    return found
