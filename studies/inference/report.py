"""The inference study in tables and words, with reference values beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pandas as pd

from studies.base import curve, markdown, mean_and_std, plot_panels
from studies.inference.claims import (
    LEAST,
    NOISE,
    PROPOSAL,
    WEIGHTED,
    against_baselines,
    agreement,
    collapsing,
    difference,
    masks_of,
    rule_rows,
)
from studies.inference.records import COUNTS, REFERENCE, REFERENCE_WEIGHTS, Curve, InferenceRecords

SHOWN = ("uniform", "raw", "smoothed", "default", "signed")
"""The rules in the tables of curves."""
COLUMNS = ("uniform", "raw", "smoothed", "default", "best ridge", "signed")
"""The rules in the comparison of weights."""
TITLES = {
    "gibbs": "a thinned Gibbs chain",
    "uniform": "uniformly drawn states",
    "sticky": "every update of a Gibbs chain",
}
PAPER = {
    "CBBIS": ("masks", "smoothed"),
    "CVS": ("masks", "uniform"),
    "BBIS": ("none", "smoothed"),
    "VS": ("none", "uniform"),
    "CIS": ("online", "one set"),
}
"""The methods in the figure of the paper: what is collapsed, and the rule for weights."""
MARGIN = 0.1
"""Default weights may be this much worse than equal ones on good samples."""


def method_name(share: float, masks: str, rule: str) -> str:
    """What a curve is called.

    Examples
    --------
    >>> method_name(0.0, "none", "uniform"), method_name(0.25, "fixed", "raw")
    ('VS', 'CBBIS 25 %, fixed, raw')
    """
    if masks == "online":
        return f"CIS {100 * share:g} %, {rule}"
    name = "VS" if rule == "uniform" else "BBIS"
    parts = [f"C{name} {100 * share:g} %", masks] if share else [name]
    return ", ".join(parts if rule == "uniform" else [*parts, rule])


def summary(records: InferenceRecords, comparable: bool = True) -> str:
    """The study as Markdown: what was done, what it says about the claims, and the tables.

    Parameters
    ----------
    records : InferenceRecords
    comparable : bool
        Whether the settings are those of the paper, so that reference values apply.
    """
    tries = max((record.cell.trial for record in records), default=-1) + 1
    parts = [
        "# Marginals from weighted and collapsed samples",
        "Natural logs of the Hellinger distances between estimated and exact marginals, averaged "
        f"over all variables: lower is better. Means and standard deviations over {tries} tries. "
        "All methods but CIS see the same samples.",
        "- *VS, CVS*: equal weights, without and with a share of the variables summed out "
        "exactly; *BBIS, CBBIS*: weights by Stein discrepancy; *CIS*: online collapsed "
        "importance sampling, one set of samples for all marginals, or one run per query.\n"
        "- *per sample, fixed*: which variables are collapsed is drawn for every sample, or "
        "once for all samples of a try.\n"
        "- *raw*: the probabilities of smallest discrepancy; *smoothed*: 0.01 added to them, "
        "as in the published figures; *default*: the library's; *signed*: of any sign; "
        "*best ridge*: the best of several ridges in hindsight, for every try, a bound.\n"
        "- *reference*: an independent computation with the same protocol, means of five "
        "tries (ten for the comparison of weights).\n"
        "- *ESS*: the mean effective sample size at the largest number of samples.",
    ]
    if not comparable:
        parts.append(
            "**These are not the settings of the paper** (a quick run): nothing here can be "
            "compared with reference values."
        )
    parts += ["## In short", "\n".join(_words(records, comparable))]
    parts += [*_claims_table(records), *_rules_table(records, comparable)]
    proposals = [p for p in TITLES if p in records.values("proposal")]
    for model, proposal in product(records.values("model"), proposals):
        found = table(records, model, proposal, comparable)
        if found:
            parts += [f"## {model}, samples from {TITLES[proposal]}", found]
    return "\n\n".join(parts) + "\n"


def _curves(records: InferenceRecords, model: str, proposal: str) -> Iterator[Curve]:
    """The curves of a table that there are results of."""
    shares = sorted(records.values("collapsed"))
    for share in shares:
        for masks, rule in product(("per sample", "fixed") if share else ("none",), SHOWN):
            yield model, proposal, share, masks, rule
    if proposal == PROPOSAL:
        for share, rule in product(shares, ("one set", "per query")):
            yield model, "cis", share, "online", rule


def table(records: InferenceRecords, model: str, proposal: str, comparable: bool) -> str:
    """One table: methods down, numbers of samples across, reference values below each method."""
    curves = {key: records.curve(key) for key in _curves(records, model, proposal)}
    curves = {key: found for key, found in curves.items() if len(found)}
    if not curves:
        return ""
    there = sorted({n for found in curves.values() for n in found["n"]})
    counts, rows = [n for n in COUNTS if n in there] or there, {}
    for key, found in curves.items():
        cells = [mean_and_std(found["error"][found["n"] == n], 2) for n in counts]
        sizes = found["ess"][found["n"] == there[-1]]
        name = method_name(*key[2:])
        rows[name, ""] = [*cells, f"{sizes.mean():.1f}" if len(sizes) else ""]
        if comparable and key in REFERENCE.index:
            known = REFERENCE.loc[key]
            rows[name, "*reference*"] = [f"{known[n]:.2f}" if n in known else "" for n in counts]
            rows[name, "*reference*"].append("")
    names = pd.Index([other or name for name, other in rows], name="method")
    return markdown(pd.DataFrame(rows.values(), names, [*(f"N = {n}" for n in counts), "ESS"]))


def _words(records: InferenceRecords, comparable: bool) -> list[str]:
    """What the numbers say, also where they speak against the method."""
    lines = _better_or_equal(records) + _collapsing_helps(records) + _masks(records)
    for model in records.values("model"):
        lines += _half(records, model)
    return lines + (_agreement(records) if comparable else []) + _rules(records)


def paper_in_words(records: InferenceRecords) -> str:
    """What the paper's figure shows, drawn from these results, and where it does not hold."""
    found = [c for c in against_baselines(records) if c.rule == "smoothed"]
    counted = {
        outcome: [c for c in found if c.found.outcome == outcome] for outcome in ("better", "worse")
    }
    where = "; ".join(f"{c.place}: {c}" for c in counted["worse"])
    return (
        "Samples of a thinned Gibbs chain; which variables are collapsed is drawn for every "
        "sample. Weights have 0.01 added to them, which the paper does not mention; without "
        "that, weighted samples have the errors of raw weights in the tables below. Logs are "
        f"averaged over tries, and not distances. From N = {LEAST} on, CBBIS is better than a "
        f"baseline in {len(counted['better'])} of {len(found)} comparisons, and worse in "
        f"{len(counted['worse'])}{f' ({where})' if where else ''}. Some states of ASIA are "
        "impossible, so that a Stein discrepancy of zero need not mean the right marginals there."
    )


def _better_or_equal(records: InferenceRecords) -> list[str]:
    found = against_baselines(records)
    lines = []
    for rule in WEIGHTED:
        ours = [c for c in found if c.rule == rule]
        if not ours:
            continue
        lost = {
            place: [str(c) for c in ours if c.place == place and c.found.outcome == "worse"]
            for place in dict.fromkeys(c.place for c in ours)
        }
        good = [place for place, worse in lost.items() if not worse]
        bad = [f"{x}: worse than {', '.join(worse)}" for x, worse in lost.items() if worse]
        open_ones = [c for c in ours if c.found.outcome == "equal" and c.found.mean > 0]
        behind = [f"{c.place}: {c}" for c in open_ones]
        verdict = "holds" if not bad else ("does not hold" if not good else "holds in part")
        lines.append(
            f"- That CBBIS never loses to a baseline, {rule} weights (N >= {LEAST}, Gibbs, masks "
            f"per sample): **{verdict}**"
            + (f"; it does for {', '.join(good)}" if good and bad else "")
            + (f"; not for {'; '.join(bad)}" if bad else "")
            + (f"; behind, but within the noise: {'; '.join(behind)}." if behind else ".")
        )
    return lines


def _collapsing_helps(records: InferenceRecords) -> list[str]:
    found = collapsing(records)
    if not found:
        return []
    worse = [c for c in found if c.found.outcome == "worse"]
    better = sum(c.found.outcome == "better" for c in found)
    where = "; ".join(f"{c.place}, {c.rule}: {c}" for c in worse)
    lines = [
        "- That collapsed samples are better than whole ones with the same weights: "
        f"**{'holds' if not worse and better else 'does not hold everywhere'}**; better in "
        f"{better} of {len(found)} comparisons, worse in {len(worse)}"
        + (f" ({where})." if worse else ".")
    ]
    shares = sorted({c.share for c in found})
    if len(shares) > 1:
        by = {(c.model, c.rule, c.share): c.found.mean for c in found}
        pairs = [
            (by[m, r, shares[0]], by.get((m, r, shares[-1]))) for m, r, s in by if s == shares[0]
        ]
        more = sum(b is not None and b < a for a, b in pairs)
        lines.append(
            "- That it helps more to collapse more: the gain is larger at "
            f"{100 * shares[-1]:g} % than at {100 * shares[0]:g} % in {more} of {len(pairs)} "
            "comparisons."
        )
    return lines


def _masks(records: InferenceRecords) -> list[str]:
    lines = []
    for proposal in (p for p in TITLES if p in records.values("proposal")):
        parts = []
        shares = sorted(s for s in records.values("collapsed") if s)
        for model, share in product(records.values("model"), shares):
            place = (model, proposal, share)
            found = difference(records, (*place, "per sample", "raw"), (*place, "fixed", "raw"))
            if found is not None:
                parts.append(f"{model} {100 * share:g} %: {found.outcome} ({found.mean:+.2f})")
        if parts:
            lines.append(
                f"- Masks per sample against a fixed partition, raw weights, {TITLES[proposal]}: "
                + "; ".join(parts)
                + "."
            )
    return lines


def _half(records: InferenceRecords, model: str) -> list[str]:
    """Whether half of the variables collapsed and Stein weights are better than equal weights."""
    lines = []
    for rule in WEIGHTED:
        place = (model, PROPOSAL, 0.5, "per sample")
        found = difference(records, (*place, rule), (*place, "uniform"))
        if found is None:
            continue
        lost = [n for n, (mean, error) in found.counts.items() if mean >= -NOISE * error]
        shown = "; ".join(
            f"N = {n}: {mean:+.2f} ± {error:.2f}"
            for n, (mean, error) in found.counts.items()
            if n in COUNTS
        )
        said = "better" if not lost else f"not clearly better at N = {', '.join(map(str, lost))}"
        lines.append(
            f"- {model}, CBBIS 50 % ({rule}) against CVS 50 %, N >= {LEAST}: {said} ({shown})."
        )
    return lines


def _agreement(records: InferenceRecords) -> list[str]:
    found = agreement(records)
    if not found:
        return []
    far = [a for a in found if a.distance > 3]
    where = "; ".join(
        f"{a.key[0]}, {a.key[1]}, {method_name(*a.key[2:])}, N = {a.n}: {a.mean:.2f} and not "
        f"{a.reference:.2f}, {a.distance:.1f}"
        for a in far
    )
    return [
        f"- Reference values: {len(found) - len(far)} of {len(found)} are within three standard "
        f"errors of our means, and {sum(a.inside for a in found)} between the smallest and the "
        "largest of our tries" + (f" (outside of three: {where})." if far else ".")
    ]


def _rules(records: InferenceRecords) -> list[str]:
    """What the default weights promise, and whether they keep it."""
    rows = rule_rows(records)
    if not {"default", "raw", "smoothed"} <= set(rows):
        return []
    rows = rows.dropna(subset=["default", "raw", "smoothed"])
    default, raw = (rows["uniform"] - rows[rule] for rule in ("default", "raw"))
    lines = []
    good = default[default.index.get_level_values("proposal") == PROPOSAL]
    if len(good):
        lost = good[good < -MARGIN]
        lines.append(
            f"- Default weights on thinned Gibbs samples: more than {MARGIN} worse than equal "
            f"weights in {len(lost)} of {len(good)} places{_places(lost)}; the least "
            f"favourable difference is {-good.min():+.2f} ({_place(good.idxmin())})."
        )
    if (raw > 0).any():
        less = default[(raw > 0) & (default < 0.5 * raw)]
        lines.append(
            f"- Where raw weights gain over equal ones ({(raw > 0).sum()} of {len(rows)} places), "
            f"the default has at least half of their gain but in {len(less)}{_places(less)}."
        )
    means = rows.dropna(axis=1).reindex(columns=list(COLUMNS)).mean().dropna()
    shown = ", ".join(f"{rule} {value:.2f}" for rule, value in means.items())
    beaten = [r for r in ("uniform", "raw", "smoothed") if means["default"] >= means[r]]
    lines.append(
        f"- On average over all {len(rows)} places: {shown}. The default is "
        + ("better than equal, raw and smoothed weights." if not beaten else "not better than ")
        + (f"{', '.join(beaten)}." if beaten else "")
    )
    return lines


def _place(place: Any) -> str:
    model, proposal, share, n = place
    return f"{model}, {proposal}, {100 * share:g} %, N = {n}"


def _places(rows: Any) -> str:
    return f" ({'; '.join(map(_place, rows.index))})" if len(rows) else ""


def _claims_table(records: InferenceRecords) -> list[str]:
    """All comparisons of weighted collapsed samples with baselines."""
    found = against_baselines(records)
    if not found:
        return []
    cells = [
        (c.model, f"{100 * c.share:g} %", c.rule, c.baseline,
         f"{c.found.mean:+.2f} ± {c.found.standard_error:.2f}")
        for c in found
    ]  # fmt: skip
    frame = pd.DataFrame(cells, columns=["model", "collapsed", "weights", "baseline", "cell"])
    index = ["model", "collapsed", "weights"]
    grid = frame.pivot_table("cell", index, "baseline", "first", sort=False, fill_value="")
    return [
        "## Weighted collapsed samples against the baselines",
        f"Differences of the logs, averaged over N >= {LEAST}, with standard errors over tries "
        "(Gibbs, masks per sample). Negative: CBBIS is better.",
        markdown(grid),
    ]


def overview(records: InferenceRecords) -> Any:
    """The mean errors of all rules for weights."""
    found = rule_rows(records)
    return found[[rule for rule in COLUMNS if rule in found]]


def _rules_table(records: InferenceRecords, comparable: bool) -> list[str]:
    """The comparison of rules for weights, with reference values at 200 samples."""
    rows = overview(records)
    if rows.empty:
        return []
    shown = rows.map(lambda x: f"{x:.2f}", na_action="ignore").fillna("")
    for (*place, n), cells in shown.iterrows():
        if comparable and n == 200 and tuple(place) in REFERENCE_WEIGHTS.index:
            known = REFERENCE_WEIGHTS.loc[tuple(place)]
            shown.loc[(*place, n)] = [
                f"{cell} ({known[rule]:.2f})" if rule in known else cell
                for rule, cell in cells.items()
            ]
    shown = shown.rename(index=lambda share: f"{100 * share:g} %", level="collapsed")
    shown = shown.rename_axis(index={"proposal": "samples", "n": "N"})
    return ["## Which weights?", "Masks per sample; reference values in brackets.", markdown(shown)]


def figure(records: InferenceRecords) -> Any:
    """The axes of the figure of the paper, one panel per model and share; None without results."""
    panels = {}
    shares = sorted(s for s in records.values("collapsed") if s)
    for model, share in product(records.values("model"), shares):
        place: dict[str, tuple[str, float, str]] = {
            "masks": (PROPOSAL, share, masks_of(share)),
            "none": (PROPOSAL, 0.0, "none"),
            "online": ("cis", share, "online"),
        }
        lines = {
            name: curve(records.curve((model, *place[collapsed], rule)), "n", "error")
            for name, (collapsed, rule) in PAPER.items()
        }
        if lines["CVS"] is not None:
            title = f"{model}, {100 * share:g} % collapsed"
            panels[title] = {name: line for name, line in lines.items() if line is not None}
    if not panels:
        return None
    ylabels = {next(iter(panels)): "log of the mean Hellinger distance"}
    return plot_panels(panels, "number of samples", ylabels)
