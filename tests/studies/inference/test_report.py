import matplotlib.pyplot as plt
import numpy as np
import pytest

from studies.inference.claims import (
    against_baselines,
    agreement,
    collapsing,
    difference,
    rule_rows,
)
from studies.inference.records import (
    COUNTS,
    REFERENCE,
    REFERENCE_WEIGHTS,
    Cell,
    InferenceRecords,
    Record,
)
from studies.inference.report import figure, method_name, paper_in_words, summary, table

RULES = ("uniform", "raw", "smoothed", "default", "best ridge", "signed")
BASE = {"uniform": -3.0, "raw": -2.0, "smoothed": -2.5, "default": -3.5, "best ridge": -3.6}


def fill(folder, error, models=("ising", "asia"), proposals=("gibbs", "uniform"), tries=3):
    """Results that are a function of cell, rule and number of samples, with a small spread."""
    found = InferenceRecords(folder, {})
    for model in models:
        for proposal, share, masks in (
            *((p, s, m) for p in proposals for s, m in PLACES),
            ("cis", 0.25, "online"),
            ("cis", 0.5, "online"),
        ):
            for trial in range(tries):
                for rule in ("one set",) if proposal == "cis" else RULES:
                    for n in (10, 50, 100, 150, 200):
                        cell = Cell(model, proposal, share, masks, trial)
                        value = error(cell, rule, n) + 0.001 * (trial - (tries - 1) / 2)
                        found.add([Record(cell, rule, n, value, n / 2, 0.1)])
    return found


PLACES = [(0.0, "none")] + [(s, m) for s in (0.25, 0.5) for m in ("per sample", "fixed")]


def good(cell, rule, n):
    """Collapsing helps, and weights do where something is collapsed."""
    key = (cell.model, cell.proposal, cell.collapsed, cell.masks, rule)
    return REFERENCE.loc[key, n] if key in REFERENCE.index else -3.0 - cell.collapsed


def constant(cell, rule, n):
    """Errors that say who is best: the default, then equal weights, smoothed and raw ones."""
    return BASE.get(rule, -3.2) - 2 * cell.collapsed


@pytest.fixture(scope="module")
def as_known(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("known"), good)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("made-up"), constant)


def test_differences_are_of_tries_from_a_hundred_samples_on(tmp_path):
    found = InferenceRecords(tmp_path, {})
    first, second = (("asia", "gibbs", 0.0, "none", rule) for rule in ("raw", "uniform"))
    assert difference(found, first, second) is None
    for trial, gap in enumerate([0.1, 0.2, 0.6]):
        cell = Cell(*first[:-1], trial)
        for n, scale in ((50, 100.0), (100, 1.0), (200, 3.0)):
            found.add([Record(cell, "raw", n, -2.0 + gap * scale, 5.0, 0.1)])
            found.add([Record(cell, "uniform", n, -2.0, 5.0, 0.1)])
    found.add([Record(Cell(*first[:-1], 3), "uniform", 100, 7.0, 5.0, 0.1)])  # not paired
    gap = difference(found, first, second)
    np.testing.assert_allclose(gap.mean, 2 * 0.3)
    np.testing.assert_allclose(gap.standard_error, 2 * np.std([0.1, 0.2, 0.6], ddof=1) / 3**0.5)
    assert list(gap.counts) == [100, 200]
    np.testing.assert_allclose([mean for mean, _ in gap.counts.values()], [0.3, 0.9])
    np.testing.assert_allclose(gap.counts[200][1], 3 * gap.counts[100][1])
    assert gap.outcome == "equal"
    assert difference(found, second, first).outcome == "equal"


def test_outcomes_against_baselines(made_up):
    found = {(c.model, c.share, c.rule, c.baseline): c.found for c in against_baselines(made_up)}
    assert len(found) == 2 * 2 * 3 * 4
    np.testing.assert_allclose(found["asia", 0.25, "raw", "CVS"].mean, 1.0, atol=0.01)
    assert found["asia", 0.25, "raw", "CVS"].outcome == "worse"
    assert found["asia", 0.25, "raw", "BBIS"].outcome == "better"
    assert found["asia", 0.5, "default", "CVS"].outcome == "better"
    np.testing.assert_allclose(found["ising", 0.5, "default", "CIS"].mean, -0.3, atol=0.01)
    helps = collapsing(made_up)
    assert len(helps) == 2 * 2 * 4
    assert {c.found.outcome for c in helps} == {"better"}


def test_the_summary_says_which_claims_hold(made_up):
    text = summary(made_up)
    claim = "That CBBIS never loses to a baseline"
    lines = {
        rule: next(x for x in text.splitlines() if claim in x and f" {rule} weights" in x)
        for rule in ("raw", "smoothed", "default")
    }
    assert "**does not hold**" in lines["raw"]
    assert "ising 25 %: worse than CVS (+1.00), VS (+0.50), CIS (+1.20)" in lines["raw"]
    assert "**holds in part**" in lines["smoothed"] or "**does not hold**" in lines["smoothed"]
    assert lines["default"].endswith("**holds**.")
    assert "with the same weights: **holds**; better in 16 of 16" in text
    assert "larger at 50 % than at 25 % in 8 of 8" in text
    half = "asia, CBBIS 50 % ({}) against CVS 50 %, N >= 100: {}"
    assert half.format("raw", "not clearly better at N = 100, 150, 200 (N = 100: +1.00") in text
    assert half.format("default", "better (N = 100: -0.50 ± 0.00; ") in text
    assert "more than 0.1 worse than equal weights in 0 of 18 places" in text
    assert "Where raw weights gain" not in text
    assert "The default is better than equal, raw and smoothed weights." in text


def test_what_is_behind_within_the_noise_is_said(tmp_path):
    def error(cell, rule, n):
        return -3.0 + 0.3 * (rule == "raw") * (cell.trial - 0.8) * (cell.collapsed > 0)

    text = summary(fill(tmp_path, error, ("asia",), ("gibbs",)))
    line = next(x for x in text.splitlines() if "loses to a baseline" in x and " raw weights" in x)
    assert "**holds**; behind, but within the noise: asia 25 %: CVS (+0.06)" in line


def test_the_summary_says_where_the_default_fails(tmp_path):
    worse = {"uniform": -3.0, "raw": -4.0, "smoothed": -3.5, "default": -2.0}

    def error(cell, rule, n):
        return worse.get(rule, -3.0) + cell.collapsed

    found = fill(tmp_path, error, ("asia",), ("gibbs",))
    text = summary(found)
    assert "more than 0.1 worse than equal weights in 9 of 9 places (asia, gibbs, 0 %" in text
    assert "Where raw weights gain over equal ones (9 of 9 places)" in text
    assert "at least half of their gain but in 9 (" in text
    assert "The default is not better than uniform, raw, smoothed." in text
    assert "with the same weights: **does not hold everywhere**" in text


def test_reference_values_are_compared_with(as_known, made_up):
    found = agreement(as_known)
    assert len(found) == REFERENCE.size == 29 * 5
    assert all(abs(a.mean - a.reference) < 0.01 for a in found)
    text = summary(as_known)
    assert "145 of 145 are within three standard errors" in text
    assert "outside of three" in summary(made_up)
    assert "| *reference* | -2.36 | -3.12 | -3.58 | -3.64 | -3.78 |  |" in text
    assert "(-7.70)" in text
    quick = summary(as_known, comparable=False)
    assert "*reference* |" not in quick
    assert "(-7.70)" not in quick
    assert "Reference values" not in quick
    assert "nothing here can be compared" in quick


def test_a_fixed_partition_of_the_reference_is_one_draw(as_known):
    found = {(a.key, a.n): a for a in agreement(as_known)}
    for masks, theirs in (("fixed", 1.0), ("per sample", 0.2)):
        key = ("ising", "gibbs", 0.25, masks, "raw")
        spread = as_known.errors(key, 100).std(ddof=1)
        np.testing.assert_allclose(found[key, 100].standard_error, spread * np.sqrt(1 / 3 + theirs))


def test_rules_are_compared_at_three_sizes(made_up):
    rows = rule_rows(made_up)
    assert len(rows) == 2 * 2 * 3 * 3
    np.testing.assert_allclose(rows["uniform"] - rows["default"], 0.5, atol=0.01)
    assert REFERENCE_WEIGHTS.loc[("asia", "sticky", 0.5), "signed"] == -8.0


def test_tables_of_other_numbers_of_samples(tmp_path):
    found = InferenceRecords(tmp_path, {})
    assert table(found, "asia", "gibbs", True) == ""
    assert "over 0 tries" in summary(found)
    found.add([Record(Cell("a.uai", "gibbs", 0.0, "none", 0), "raw", 7, -1.0, 3.0, 0.1)])
    text = table(found, "a.uai", "gibbs", True)
    assert "| BBIS, raw | -1.00 | 3.0 |" in text
    assert "N = 7" in text
    assert set(COUNTS).isdisjoint({7})
    assert figure(found) is None


def test_names_of_methods():
    assert method_name(0.5, "online", "per query") == "CIS 50 %, per query"
    assert method_name(0.0, "none", "signed") == "BBIS, signed"
    assert method_name(0.5, "per sample", "uniform") == "CVS 50 %, per sample"


def test_the_figure_has_five_methods_and_says_what_does_not_hold(made_up):
    axes = figure(made_up)
    shares = ("25", "50")
    assert [ax.get_title() for ax in axes] == [
        f"{model}, {share} % collapsed" for model in ("ising", "asia") for share in shares
    ]
    assert {len(ax.collections) for ax in axes} == {5}
    labels = [text.get_text() for text in axes[0].figure.legends[0].get_texts()]
    assert labels == ["CBBIS", "CVS", "BBIS", "VS", "CIS"]
    smoothed = ("ising", "gibbs", 0.25, "per sample", "smoothed")
    counts = made_up.counts(smoothed)
    wanted = [made_up.errors(smoothed, n).mean() for n in counts]
    assert axes[0].get_lines()[0].get_ydata().tolist() == wanted
    plt.close(axes[0].figure)
    compared = [c.found.outcome for c in against_baselines(made_up) if c.rule == "smoothed"]
    better, worse = compared.count("better"), compared.count("worse")
    assert f"in {better} of {len(compared)} comparisons, and worse in {worse}" in paper_in_words(
        made_up
    )
