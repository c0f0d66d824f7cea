import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from studies.inference.report import (
    COUNTS,
    REFERENCE,
    REFERENCE_WEIGHTS,
    against_baselines,
    agreement,
    collapsing,
    differences,
    figure,
    method_name,
    report,
    rules_table,
    table,
)
from studies.inference.samples import KEYS, VALUES

BASE = {"uniform": -3.0, "raw": -2.0, "smoothed": -2.5, "default": -3.5, "best ridge": -3.6}
PLACES = [(0.0, "none")] + [(s, m) for s in (0.25, 0.5) for m in ("per sample", "fixed")]


def fill(error, models=("ising", "asia"), proposals=("gibbs", "uniform"), tries=3):
    """Results that are a function of curve and number of samples, with a small spread."""
    places = [(p, *place) for p in proposals for place in PLACES]
    places += [("cis", share, "online") for share in (0.25, 0.5)]
    rows = []
    for model in models:
        for place in places:
            for rule in ("one set",) if place[0] == "cis" else (*BASE, "signed"):
                for n in (10, 50, 100, 150, 200):
                    for trial in range(tries):
                        value = error(model, *place, rule, n) + 0.001 * (trial - (tries - 1) / 2)
                        rows.append((model, *place, trial, rule, n, value, n / 2, 0.1))
    return pd.DataFrame(rows, columns=[*KEYS, *VALUES])


@pytest.fixture(scope="module")
def as_known():
    return fill(lambda *key: REFERENCE.get(key, -3.0 - key[2]))


@pytest.fixture(scope="module")
def made_up():
    """Errors that say who is best: the default, then equal weights, smoothed and raw ones."""
    return fill(lambda *key: BASE.get(key[4], -3.2) - 2 * key[2])


def text_of(frame, comparable=True):
    return "\n".join(report(frame, comparable)[1])


def test_differences_are_of_tries_from_a_hundred_samples_on():
    rows = []
    for trial, gap in enumerate([0.1, 0.2, 0.6]):
        for n, scale in ((50, 100.0), (100, 1.0), (200, 3.0)):
            for rule, error in (("raw", -2.0 + gap * scale), ("uniform", -2.0)):
                rows.append(("asia", "gibbs", 0.5, "per sample", trial, rule, n, error, 5.0, 0.1))
    rows.append(("asia", "gibbs", 0.5, "per sample", 3, "uniform", 100, 7.0, 5.0, 0.1))  # no pair
    frame = pd.DataFrame(rows, columns=[*KEYS, *VALUES])
    [found] = differences(frame, [("raw", "CVS")]).itertuples()
    np.testing.assert_allclose(found.mean, 2 * 0.3)
    np.testing.assert_allclose(found.error, 2 * np.std([0.1, 0.2, 0.6], ddof=1) / 3**0.5)
    assert found.outcome == "equal"
    assert differences(frame, [("raw", "CIS")]).empty


def test_outcomes_against_baselines(made_up):
    claims = against_baselines(made_up)
    assert len(claims) == 2 * 2 * 3 * 4
    found = claims.set_index(["model", "collapsed", "weights", "baseline"])
    np.testing.assert_allclose(found["mean"]["asia", 0.25, "raw", "CVS"], 1.0, atol=0.01)
    np.testing.assert_allclose(found["mean"]["ising", 0.5, "default", "CIS"], -0.3, atol=0.01)
    assert found["outcome"]["asia", 0.25, "raw", "CVS"] == "worse"
    assert found["outcome"]["asia", 0.25, "raw", "BBIS"] == "better"
    assert found["outcome"]["asia", 0.5, "default", "CVS"] == "better"
    helps = collapsing(made_up)
    assert len(helps) == 2 * 2 * 4
    assert set(helps["outcome"]) == {"better"}


def test_the_summary_says_which_claims_hold(made_up):
    text = text_of(made_up)
    assert "raw weights (N >= 100, Gibbs, masks per sample): **does not hold**, worse than" in text
    assert "ising 25%: CVS (+1.00)" in text
    assert "default weights (N >= 100, Gibbs, masks per sample): **holds**." in text
    assert "better in 16 of 16 comparisons, worse in 0." in text
    noisy = made_up.copy()
    noisy["error"] = -3.0
    late = (noisy["rule"] == "raw") & (noisy["collapsed"] > 0)
    noisy.loc[late, "error"] += 0.3 * (noisy["trial"][late] - 0.8)
    assert "behind, but within the noise: ising 25%: CVS (+0.06)" in text_of(noisy)


def test_reference_values_are_compared_with(as_known, made_up):
    found = agreement(as_known)
    assert len(found) == len(REFERENCE) == 29 * 5
    np.testing.assert_allclose(found["mean"], found["known"], atol=0.01)
    assert "145 of 145 are within three standard errors" in text_of(as_known)
    assert "outside of three" in text_of(made_up)
    shown = table(as_known, "ising", "gibbs", True).loc["*reference: VS*"]
    assert shown.tolist() == ["-2.36", "-3.12", "-3.58", "-3.64", "-3.78", ""]
    assert "(-7.70)" in str(report(as_known)[2])
    quick = report(as_known, comparable=False)
    assert "(-7.70)" not in str(quick[2])
    assert "nothing here can be compared" in quick[0]
    assert "Reference values" not in text_of(as_known, False)
    for masks, theirs in (("fixed", 1.0), ("per sample", 0.2)):  # of one partition, or of five
        row = found.loc["ising", "gibbs", 0.25, masks, "raw", 100]
        np.testing.assert_allclose(row["standard_error"], row["std"] * np.sqrt(1 / 3 + theirs))


def test_rules_are_compared_at_three_sizes(made_up):
    rows = rules_table(made_up)
    assert len(rows) == 2 * 2 * 3 * 3
    np.testing.assert_allclose(rows["uniform"] - rows["default"], 0.5, atol=0.01)
    assert REFERENCE_WEIGHTS.loc[("asia", "sticky", 0.5), "signed"] == -8.0


def test_tables_of_other_numbers_of_samples():
    frame = pd.DataFrame(columns=[*KEYS, *VALUES])
    assert table(frame, "asia", "gibbs", True).empty
    row = ("a.uai", "gibbs", 0.0, "none", 0, "raw", 7, -1.0, 3.0, 0.1)
    frame = pd.DataFrame([row], columns=frame.columns)
    assert table(frame, "a.uai", "gibbs", True).to_dict("list") == {
        "N = 7": ["-1.00"],
        "ESS": ["3.0"],
    }
    assert set(COUNTS).isdisjoint({7})
    assert figure(frame) is None


def test_names_of_methods():
    assert method_name(0.5, "online", "per query") == "CIS 50%, per query"
    assert method_name(0.0, "none", "signed") == "BBIS, signed"
    assert method_name(0.5, "per sample", "uniform") == "CVS 50%, per sample"


def test_the_figure_has_five_methods_and_says_what_does_not_hold(made_up):
    axes = figure(made_up)
    assert [ax.get_title() for ax in axes] == [
        f"{model}, {share}% collapsed" for model in ("ising", "asia") for share in (25, 50)
    ]
    assert {len(ax.collections) for ax in axes} == {5}
    labels = [text.get_text() for text in axes[0].figure.legends[0].get_texts()]
    assert labels == ["CBBIS", "CVS", "VS", "BBIS", "CIS"]
    np.testing.assert_allclose(axes[0].get_lines()[0].get_ydata(), -3.0)
    plt.close(axes[0].figure)
    outcomes = against_baselines(made_up).query("weights == 'smoothed'")["outcome"].tolist()
    better, worse = outcomes.count("better"), outcomes.count("worse")
    assert f"in {better} of 16 comparisons, and worse in {worse}" in report(made_up)[4][1]
