"""The inference study in tables and words, with reference values beside ours."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from studies.base import REPETITIONS, compare, curves, mean_and_std, plot_panels

CURVE = ["model", "proposal", "collapsed", "masks", "rule"]
"""What a curve over numbers of samples is of."""
LEAST = 100
"""Methods are compared at this number of samples and above."""
NOISE = 2.0
"""Differences within so many standard errors are none."""
WEIGHTED = ("raw", "smoothed", "default")
"""The rules that the claims about weighted samples are looked at for."""
GIBBS = "gibbs"
"""Where the samples come from that the claims are about."""
COLUMNS = ("uniform", "raw", "smoothed", "default", "best ridge", "signed")
"""The rules in the comparison of weights."""
SIZES = (50, 100, 200)
"""The numbers of samples there."""
TITLES = {
    "gibbs": "a thinned Gibbs chain",
    "uniform": "uniformly drawn states",
    "sticky": "every update of a Gibbs chain",
}
OTHER_SETTINGS = (
    "\n\n**These are not the settings of the paper** (a quick run): nothing here can be compared "
    "with reference values."
)


def _read(name: str, index: list[str]) -> Any:
    path = Path(__file__).with_name(name)
    return pd.read_csv(path, index_col=index, na_filter=False).sort_index()


REFERENCE = _read("reference.csv", CURVE).rename(columns=int).rename_axis(columns="n").stack()
"""Errors from an independent computation, to compare with, by curve and number of samples.

The paper shows curves but no numbers, and its figures smooth the weights without saying so. These
numbers come from another implementation of the same protocol, by exact computation: means of
five tries of the log of the mean Hellinger distance, on the grid of the paper ("ising") and the
network "asia".
"""
REFERENCE_WEIGHTS = _read("reference_weights.csv", CURVE[:3])
"""The same at 200 samples with masks per sample, means of ten tries, by rule for weights."""
COUNTS = tuple(REFERENCE.index.unique("n"))
"""The numbers of samples of all known curves."""


def baselines(share: float, rule: str) -> dict[str, tuple[str, float, str, str]]:
    """The curves that collapsed samples with a rule for weights are compared with."""
    return {
        "CVS": (GIBBS, share, "per sample", "uniform"),
        "VS": (GIBBS, 0.0, "none", "uniform"),
        "BBIS": (GIBBS, 0.0, "none", rule),
        "CIS": ("cis", share, "online", "one set"),
    }


def differences(frame: Any, pairs: Any) -> Any:
    """How much larger the errors of collapsed samples are than those of baselines, by model.

    Means over numbers of samples from `LEAST` on, and over tries with their standard errors.
    """
    wide = frame[frame["n"] >= LEAST].pivot_table(
        "error", ["model", "trial", "n"], CURVE[1:], sort=False
    )
    parts = []
    shares = sorted(share for share in frame["collapsed"].unique() if share)
    for share, (rule, name) in product(shares, pairs):
        ours, theirs = (GIBBS, share, "per sample", rule), baselines(share, rule)[name]
        if ours in wide and theirs in wide:
            gap = (
                (wide[ours] - wide[theirs]).dropna().groupby(["model", "trial"], sort=False).mean()
            )
            found = gap.groupby("model", sort=False).agg(["mean", "std", "count"]).reset_index()
            parts.append(found.assign(collapsed=share, weights=rule, baseline=name))
    if not parts:
        return pd.DataFrame()
    found = pd.concat(parts, ignore_index=True)
    found["error"] = found["std"].fillna(0.0) / np.sqrt(found["count"])
    margin = NOISE * found["error"]
    found["outcome"] = np.select(
        [found["mean"] < -margin, found["mean"] > margin], ["better", "worse"], "equal"
    )
    where = found["collapsed"].map("{:.0%}".format)
    found["place"] = found["model"] + " " + where + ": " + found["baseline"]
    found["place"] += found["mean"].map(" ({:+.2f})".format)
    return found


def against_baselines(frame: Any) -> Any:
    """CBBIS with every rule beside CVS, VS, BBIS and CIS, for all models and shares."""
    return differences(frame, list(product(WEIGHTED, baselines(0.0, ""))))


def collapsing(frame: Any) -> Any:
    """Collapsed samples beside complete ones with the same rule for weights."""
    return differences(frame, [("uniform", "VS"), *((rule, "BBIS") for rule in WEIGHTED)])


def agreement(frame: Any) -> Any:
    """All curves for which there are reference values, at all numbers of samples.

    References are means of five tries; those of a fixed partition share one partition.
    """
    found = compare(frame.groupby([*CURVE, "n"])["error"], REFERENCE)
    fixed = found.index.get_level_values("masks") == "fixed"
    share = np.where(fixed, 1.0, 1 / REPETITIONS)
    return compare(frame.groupby([*CURVE, "n"])["error"], REFERENCE, pd.Series(share, found.index))


def rules_table(frame: Any) -> Any:
    """The mean errors of rules for weights, per-sample masks: one row for every place."""
    wanted = frame["masks"].isin(["none", "per sample"]) & frame["n"].isin(SIZES)
    index = ["model", "proposal", "collapsed", "n"]
    found = frame[wanted].pivot_table("error", index, "rule", sort=False)
    order = [frame[name].unique() for name in index[:2]]
    places = product(*order, sorted(frame["collapsed"].unique()), SIZES)
    found = found.loc[[place for place in places if place in found.index]]
    return found[[rule for rule in COLUMNS if rule in found]]


def report(frame: Any, comparable: bool = True) -> tuple[Any, ...]:
    """What `write_report` writes; reference values are there if settings are the paper's."""
    claims, weights = against_baselines(frame), rules_table(frame)
    sections = []
    if len(claims):
        cells = [f"{x.mean:+.2f} ± {x.error:.2f}" for x in claims[["mean", "error"]].itertuples()]
        index = ["model", "collapsed", "weights"]
        grid = claims.assign(cell=cells).pivot_table(
            "cell", index, "baseline", "first", sort=False, fill_value=""
        )
        words = (
            f"Differences of the logs, averaged over N >= {LEAST}, with standard errors over tries "
            "(Gibbs, masks per sample). Negative: CBBIS is better."
        )
        sections.append(("Weighted collapsed samples against the baselines", [words, grid]))
    if len(weights):
        words = "Masks per sample; reference values in brackets."
        sections.append(("Which weights?", [words, _with_reference(weights, comparable)]))
    for model, proposal in product(frame["model"].unique(), TITLES):
        found = table(frame, model, proposal, comparable)
        if len(found):
            sections.append((f"{model}, samples from {TITLES[proposal]}", [found]))
    intro = Path(__file__).with_name("page.md").read_text(encoding="utf-8").rstrip()
    title = "Figure 3 of the paper, from our runs"
    drawn = title, _caption(claims), lambda: figure(frame)
    short = _claims(frame, claims) + (_agreement(frame) if comparable else [])
    if len(weights):
        average = ", ".join(f"{rule} {x:.2f}" for rule, x in weights.dropna().mean().items())
        short.append(f"Mean errors of rules for weights over all places: {average}.")
    return intro + OTHER_SETTINGS * (not comparable), short, sections, weights, drawn


def _claims(frame: Any, claims: Any) -> list[str]:
    """Which claims hold, also where they speak against the method."""
    lines = []
    for rule, ours in claims.groupby("weights", sort=False) if len(claims) else ():
        lost, behind = ours[ours["outcome"] == "worse"], ours[ours["outcome"] == "equal"]
        verdict = "**holds**"
        if len(lost):
            verdict = f"**does not hold**, worse than {'; '.join(lost['place'])}"
        behind = behind[behind["mean"] > 0]["place"]
        lines.append(
            f"That CBBIS never loses to a baseline, {rule} weights (N >= {LEAST}, Gibbs, masks per "
            f"sample): {verdict}"
            + (f"; behind, but within the noise: {'; '.join(behind)}." if len(behind) else ".")
        )
    found = collapsing(frame)
    if len(found):
        worse = found[found["outcome"] == "worse"]
        where = "; ".join(worse["weights"] + " " + worse["place"])
        lines.append(
            "That collapsed samples are better than whole ones with the same weights: better in "
            f"{(found['outcome'] == 'better').sum()} of {len(found)} comparisons, worse in "
            f"{len(worse)}{f' ({where})' if where else ''}."
        )
    return lines


def _caption(claims: Any) -> str:
    """What the paper's figure shows, drawn from these results, and where it does not hold."""
    outcomes = claims[claims["weights"] == "smoothed"]["outcome"].tolist() if len(claims) else []
    return (
        "Samples of a thinned Gibbs chain; which variables are collapsed is drawn for every "
        "sample. Weights have 0.01 added to them, which the paper does not mention. Logs are "
        f"averaged over tries, and not distances. From N = {LEAST} on, CBBIS is better than a "
        f"baseline in {outcomes.count('better')} of {len(outcomes)} comparisons, and worse in "
        f"{outcomes.count('worse')}. Some states of ASIA are impossible, so that a Stein "
        "discrepancy of zero need not mean the right marginals there."
    )


def _agreement(frame: Any) -> list[str]:
    found = agreement(frame)
    far, inside = found[found["distance"] > 3], found["known"].between(found["min"], found["max"])
    where = "; ".join(
        f"{key[0]}, {key[1]}, {method_name(*key[2:5])}, N = {key[5]}: {x.mean:.2f} and not "
        f"{x.known:.2f}, {x.distance:.1f}"
        for key, x in zip(far.index, far[["mean", "known", "distance"]].itertuples(), strict=True)
    )
    line = (
        f"Reference values: {len(found) - len(far)} of {len(found)} are within three standard "
        f"errors of our means, and {inside.sum()} between the smallest and the largest of our "
        f"tries{f' (outside of three: {where})' if where else ''}."
    )
    return [line] if len(found) else []


def _with_reference(weights: Any, comparable: bool) -> Any:
    """The table of rules as text, with reference values at 200 samples."""
    shown = weights.map("{:.2f}".format, na_action="ignore").fillna("")
    for (*place, n), cells in shown.iterrows():
        if comparable and n == 200 and tuple(place) in REFERENCE_WEIGHTS.index:
            known = REFERENCE_WEIGHTS.loc[tuple(place)]
            shown.loc[(*place, n)] = [
                f"{cell} ({known[rule]:.2f})" if rule in known else cell
                for rule, cell in cells.items()
            ]
    shown = shown.rename(index="{:.0%}".format, level="collapsed")
    return shown.rename_axis(index={"proposal": "samples", "n": "N"})


def method_name(share: float, masks: str, rule: str) -> str:
    """What a curve is called.

    Examples
    --------
    >>> method_name(0.0, "none", "uniform"), method_name(0.25, "fixed", "raw")
    ('VS', 'CBBIS 25%, fixed, raw')
    """
    if masks == "online":
        return f"CIS {share:.0%}, {rule}"
    name = "VS" if rule == "uniform" else "BBIS"
    parts = [f"C{name} {share:.0%}", masks] if share else [name]
    return ", ".join(parts if rule == "uniform" else [*parts, rule])


def table(frame: Any, model: str, proposal: str, comparable: bool) -> Any:
    """Methods down, numbers of samples across, reference values below each method."""
    sources = [proposal, "cis"] if proposal == GIBBS else [proposal]
    own = frame[(frame["model"] == model) & frame["proposal"].isin(sources)]
    own = own[own["rule"] != "best ridge"]
    there = sorted(own["n"].unique())
    counts = [n for n in COUNTS if n in there] or there
    rows = {}
    for key, found in own.groupby(CURVE, sort=False):
        by_count = found.groupby("n")["error"]
        cells = by_count.agg(lambda errors: mean_and_std(errors, 2)).reindex(counts).fillna("")
        size = found["ess"][found["n"] == there[-1]].mean()
        rows[method_name(*key[2:])] = [*cells, f"{size:.1f}"]
        if comparable and key in REFERENCE.index:
            known = REFERENCE.loc[key].map("{:.2f}".format).reindex(counts).fillna("")
            rows[f"*reference: {method_name(*key[2:])}*"] = [*known, ""]
    columns = [*(f"N = {n}" for n in counts), "ESS"]
    return pd.DataFrame.from_dict(rows, "index", columns=columns).rename_axis("method")


def figure(frame: Any) -> Any:
    """The axes of the figure of the paper, one panel per model and share; None without results."""
    panels = {}
    index = pd.MultiIndex.from_frame(frame[CURVE])
    shares = sorted(share for share in frame["collapsed"].unique() if share)
    for model, share in product(frame["model"].unique(), shares):
        shown = {"CBBIS": (GIBBS, share, "per sample", "smoothed"), **baselines(share, "smoothed")}
        found = curves(frame, {name: index == (model, *key) for name, key in shown.items()}, "n")
        if "CVS" in found:
            panels[f"{model}, {share:.0%} collapsed"] = found
    if not panels:
        return None
    ylabels = {next(iter(panels)): "log of the mean Hellinger distance"}
    return plot_panels(panels, "number of samples", ylabels)
