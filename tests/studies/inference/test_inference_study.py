"""The inference study: errors, samples and weights by their definitions, runs, and the page."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import assert_raises
from expectedkernels import DataError, collapsed_bbis, simplex_weights
from studies.__main__ import main
from studies.base import Results, fill as fill_page, run
from studies.inference import study

SMALL = study.Settings(n=40, step=20, thin=20)
PLAIN = {"seed": 0, "n": 40, "step": 20, "thin": 20}
ISING = ("ising-random", None, 0)
SHARES = (0.25, 0.5)
ERROR = list({**study.KEYS, **study.VALUES}).index("error")


def errors(results):
    """The errors of all results by their keys."""
    return results.frame.set_index(list(study.KEYS))["error"].to_dict()


@pytest.fixture(scope="module")
def grid():
    return study.make_model("grid", ek.ising_grid(2, 2, rng=0))


@pytest.fixture(scope="module")
def asia():
    return study.make_model("asia", ek.asia())


@pytest.fixture
def grid_file(tmp_path):
    path = tmp_path / "grid.uai"
    ek.write_uai(ek.ising_grid(2, 2, rng=0), path)
    return path


def test_errors_are_those_of_the_definition():
    graph = ek.FactorGraph([2, 3], [((0, 1), np.arange(1.0, 7.0).reshape(2, 3))])
    model = study.make_model("table", graph)
    exact = [np.array([6, 15]) / 21, np.array([5, 7, 9]) / 21]
    np.testing.assert_allclose(model.exact, np.concatenate(exact))
    estimates = [np.array([0.5, 0.5]), np.array([0.2, 0.8, 0.0])]
    distances = [
        np.sqrt(np.sum((np.sqrt(p) - np.sqrt(m)) ** 2)) / np.sqrt(2)
        for p, m in zip(exact, estimates, strict=True)
    ]
    found = model.error(np.concatenate(estimates))
    np.testing.assert_allclose(found, np.log(np.mean(distances)))
    np.testing.assert_allclose(model.error(model.exact), np.log(study.SMALLEST))
    near = np.array([0.5 + 1e-8, 0.5 - 1e-8, 1e-8, 1.0 - 1e-8, 0.0])
    snapped = np.array([0.5 + 1e-8, 0.5 - 1e-8, 0.0, 1.0, 0.0])
    assert model.error(near) == model.error(snapped)
    signed = np.array([0.5, 0.5, -0.5, 0.5, 1.0])
    clipped = np.array([0.5, 0.5, 0.0, 1 / 3, 2 / 3])
    np.testing.assert_allclose(model.error(signed), model.error(clipped))


def test_with_everything_collapsed_marginals_are_exact(grid):
    rows = np.full((3, 4), np.nan)
    gram, other = (study.stein_gram(grid, rows, operator) for operator in ("shift", "gibbs"))
    np.testing.assert_array_equal(gram, np.zeros((3, 3)))
    block = study.Block(grid, gram, other, grid.tables(rows), rows, 3)
    assert block.error(block.raw) == np.log(study.SMALLEST)
    one = study.Cell("grid", "gibbs", 1.0, "per sample", 0)
    for row in study.evaluate(grid, one, ("uniform", "raw", "default"), SMALL):
        assert row[ERROR] == np.log(study.SMALLEST)


def test_ridges_of_merged_samples_are_those_of_all(grid):
    rows = study.cell_rows(grid, study.Cell("grid", "uniform", 0.0, "none", 0), SMALL)
    gram = study.stein_gram(grid, rows, "shift")
    assert len(np.unique(rows, axis=0)) < len(rows)
    block = study.Block(grid, gram, None, grid.tables(rows), rows, len(rows))
    n = len(rows)
    whole = gram + 0.3 * np.trace(gram) / n * np.eye(n)
    wanted = simplex_weights(whole, groups=np.arange(n)).weights
    np.testing.assert_allclose(block.ridge(0.3), wanted, atol=1e-6)


def test_nothing_collapsed_is_plain(grid):
    points = study.draw_points(grid, "gibbs", 20, np.random.default_rng(0), thin=5)
    for masks in study.MASKS:
        rows = study.collapse(grid, points, 0.0, masks, np.random.default_rng(0))
        np.testing.assert_array_equal(rows, points)
    mean = np.concatenate([[1 - x, x] for x in points.mean(axis=0)])
    np.testing.assert_allclose(grid.tables(points).mean(axis=0), mean, atol=1e-12)


def test_points_are_those_of_the_published_chain(grid):
    found = study.draw_points(grid, "gibbs", 3, np.random.default_rng(4))
    chain = ek.gibbs(grid.graph, study.BURN_IN + 3 * study.THIN, rng=np.random.default_rng(4))
    np.testing.assert_array_equal(found, chain[study.BURN_IN + study.THIN - 1 :: study.THIN])
    sticky = study.draw_points(grid, "sticky", 30, np.random.default_rng(4))
    np.testing.assert_array_equal(sticky, chain[:30])
    assert (np.diff(sticky, axis=0) != 0).sum(axis=1).max() == 1


@pytest.mark.parametrize("proposal", study.PROPOSALS)
def test_more_samples_do_not_change_the_first_ones(asia, proposal):
    for masks in study.MASKS:
        cell = study.Cell("asia", proposal, 0.5, masks, 1)
        few, many = (study.cell_rows(asia, cell, study.Settings(n=n, thin=20)) for n in (10, 20))
        np.testing.assert_array_equal(few, many[:10])
        assert (np.isnan(many).sum(axis=1) == 4).all()
        assert np.isnan(many[:, 5]).all()
        same = (np.isnan(many) == np.isnan(many[0])).all()
        assert same == (masks == "fixed")
        plain = study.cell_rows(
            asia, study.Cell("asia", proposal, 0.0, "none", 1), study.Settings(n=20, thin=20)
        )
        known = ~np.isnan(many)
        np.testing.assert_array_equal(many[known], plain[known])
        other = study.cell_rows(
            asia, study.Cell("asia", proposal, 0.5, masks, 2), study.Settings(n=20, thin=20)
        )
        assert not np.array_equal(many, other, equal_nan=True)


def test_numbers_of_collapsed_variables(grid, asia):
    assert [asia.n_collapsed(share) for share in (0.0, *SHARES)] == [1, 2, 4]
    assert [grid.n_collapsed(share) for share in (0.0, *SHARES, 1.0)] == [0, 1, 2, 4]
    sixteen = study.load_model(*ISING)
    assert [sixteen.n_collapsed(share) for share in SHARES] == [4, 8]


def test_records_are_those_of_the_library(asia):
    cell = study.Cell("asia", "gibbs", 0.5, "per sample", 0)
    found = {tuple(row[-5:-3]): row[-3:] for row in study.evaluate(asia, cell, study.RULES, SMALL)}
    rows = study.cell_rows(asia, cell, SMALL)[:20]
    for rule in ("uniform", "raw", "smoothed", "default", "signed"):
        weighted = collapsed_bbis(asia.graph, rows, weights=rule)
        error, ess, discrepancy = found[rule, 20]
        wanted = asia.error(np.concatenate(weighted.marginals()))
        np.testing.assert_allclose(error, wanted, atol=1e-5)
        np.testing.assert_allclose(ess, weighted.ess, rtol=1e-5)
        np.testing.assert_allclose(discrepancy, weighted.discrepancy, rtol=1e-6)
    assert found["best ridge", 40][0] <= min(found["raw", 40][0], found["uniform", 40][0])
    assert ("best ridge", 20) not in found


@pytest.mark.parametrize("rule", study.CIS_RULES)
def test_importance_sampling_with_everything_collapsed_is_exact(asia, rule):
    for row in study.evaluate(asia, study.Cell("asia", "cis", 1.0, "online", 0), (rule,), SMALL):
        assert row[ERROR] == np.log(study.SMALLEST)
    found = study.evaluate(asia, study.Cell("asia", "cis", 0.25, "online", 0), (rule,), SMALL)
    counts, logs, sizes = np.array([row[-4:-1] for row in found]).T
    assert counts.tolist() == [20, 40]
    assert np.isfinite(logs).all()
    assert ((sizes >= 1) & (sizes <= counts)).all()


def test_models_are_found(tmp_path, data_dir, grid_file):
    assert study.find_model("ising", data_dir) == ("ising", str(data_dir / "uai" / study.GRID_FILE))
    assert study.find_model("ising", tmp_path) == ("ising-random", None)
    with pytest.raises(DataError, match=r"There is no model 'alarm'\. There are: ising; asia; "):
        study.find_model("alarm")
    assert study.load_model(*ISING).graph.n_variables == 16
    paper = study.load_model(*study.find_model("ising", data_dir), 0)
    assert paper.always == ()
    np.testing.assert_allclose(paper.graph.log_partition(), -5.0747427194)
    # files are told apart by what is in them, wherever they are
    name, _ = study.find_model(str(grid_file))
    assert name.startswith("grid.uai ")
    other = tmp_path / "other" / "grid.uai"
    other.parent.mkdir()
    other.write_bytes(grid_file.read_bytes())
    assert study.find_model(str(other))[0] == name
    ek.write_uai(ek.ising_grid(2, 2, rng=1), other)
    assert study.find_model(str(other))[0] != name


def test_the_command_writes_results_and_resumes(grid_file, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["inference", "--quick", "--model", str(grid_file), "--out", str(out), "--tries", "1"]
    assert main(options) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    names = {path.name for path in out.iterdir()}
    assert names == {"results.csv", "settings.json", "summary.md", "figure.png"}
    before = (out / "results.csv").read_text()
    counts = study.QUICK.n // study.QUICK.step
    lines = 10 * ((len(study.RULES) - 1) * counts + study.QUICK.n // 50) + 2 * counts
    assert len(before.splitlines()) == 1 + lines
    text = (out / "summary.md").read_text()
    assert "not the settings of the paper" in text
    assert "CBBIS 50%, fixed, default" in text
    assert "That CBBIS never loses to a baseline" in shown.out
    assert "![Figure 3 of the paper, from our runs](figure.png)\n\n## Weighted" in text
    assert "best ridge" in shown.out.splitlines()[0]
    assert main(options) == 0
    assert (out / "results.csv").read_text() == before
    cut = before[: len(before) - 30]  # in the middle of the last line
    (out / "results.csv").write_text(cut)
    assert main(options) == 0
    assert set((out / "results.csv").read_text().splitlines()) == set(before.splitlines())
    capsys.readouterr()
    assert main([x for x in options if x != "--quick"]) == 1
    assert "other settings" in capsys.readouterr().err


def test_rules_that_have_changed_are_computed_anew(grid_file, tmp_path, monkeypatch):
    options = {"models": [str(grid_file)], "trials": 1, "settings": SMALL, "progress": False}
    options |= {"rules": ["raw", "uniform"], "cis_rules": ["one set"]}
    old = errors(run(study, tmp_path, **options))
    monkeypatch.setitem(study._WEIGHTS, "raw", lambda b: np.eye(len(b.gram))[0])
    assert errors(run(study, tmp_path, **options)) == pytest.approx(old, abs=1e-7)
    run(study, tmp_path, again=["raw"], **options)
    found = Results(tmp_path, study.KEYS, study.VALUES, PLAIN)
    assert (found.frame["ess"][found.frame["rule"] == "raw"] == 1.0).all()
    kept = {key: error for key, error in errors(found).items() if "uniform" in key[5:]}
    assert kept == pytest.approx({key: old[key] for key in kept}, abs=1e-7)


def test_two_processes_find_the_same(grid_file, tmp_path):
    some = {"models": [str(grid_file)], "proposals": ["gibbs"], "shares": [0.5], "trials": 2}
    some |= {"masks": ["fixed"], "rules": ["raw"], "settings": SMALL, "progress": False}
    found = [errors(run(study, tmp_path / f"out{jobs}", jobs=jobs, **some)) for jobs in (1, 2)]
    assert found[0] == found[1]
    assert len(found[0]) == 2 * 2 * (2 + 2)


def test_options_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"in the range \(0, 1\]\. Got 25"):
        run(study, tmp_path, shares=[25])
    assert_raises(DataError, "There is no option rulez", run, study, tmp_path, rulez=["raw"])
    assert not list(tmp_path.iterdir())


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
    return pd.DataFrame(rows, columns=[*study.KEYS, *study.VALUES])


@pytest.fixture(scope="module")
def as_known():
    return fill(lambda *key: study.REFERENCE.get(key, -3.0 - key[2]))


@pytest.fixture(scope="module")
def made_up():
    """Errors that say who is best: the default, then equal weights, smoothed and raw ones."""
    return fill(lambda *key: BASE.get(key[4], -3.2) - 2 * key[2])


def text_of(frame, comparable=True):
    page = Path(study.__file__).with_name("page.md")
    return fill_page(page.read_text(), study.report(frame, comparable)[0])


def test_differences_are_of_tries_from_a_hundred_samples_on():
    rows = []
    for trial, gap in enumerate([0.1, 0.2, 0.6]):
        for n, scale in ((50, 100.0), (100, 1.0), (200, 3.0)):
            for rule, error in (("raw", -2.0 + gap * scale), ("uniform", -2.0)):
                rows.append(("asia", "gibbs", 0.5, "per sample", trial, rule, n, error, 5.0, 0.1))
    rows.append(("asia", "gibbs", 0.5, "per sample", 3, "uniform", 100, 7.0, 5.0, 0.1))  # no pair
    frame = pd.DataFrame(rows, columns=[*study.KEYS, *study.VALUES])
    [found] = study.differences(frame, [("raw", "CVS")]).itertuples()
    np.testing.assert_allclose(found.mean, 2 * 0.3)
    np.testing.assert_allclose(found.error, 2 * np.std([0.1, 0.2, 0.6], ddof=1) / 3**0.5)
    assert found.outcome == "equal"
    assert study.differences(frame, [("raw", "CIS")]).empty


def test_outcomes_against_baselines(made_up):
    claims = study.differences(made_up, list(product(study.WEIGHTED, study.baselines(0.0, ""))))
    assert len(claims) == 2 * 2 * 3 * 4
    found = claims.set_index(["model", "collapsed", "weights", "baseline"])
    np.testing.assert_allclose(found["mean"]["asia", 0.25, "raw", "CVS"], 1.0, atol=0.01)
    np.testing.assert_allclose(found["mean"]["ising", 0.5, "default", "CIS"], -0.3, atol=0.01)
    assert found["outcome"]["asia", 0.25, "raw", "CVS"] == "worse"
    assert found["outcome"]["asia", 0.25, "raw", "BBIS"] == "better"
    assert found["outcome"]["asia", 0.5, "default", "CVS"] == "better"


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
    found = study.agreement(as_known)
    assert len(found) == len(study.REFERENCE) == 29 * 5
    np.testing.assert_allclose(found["mean"], found["known"], atol=0.01)
    assert "145 of 145 are within three standard errors" in text_of(as_known)
    assert "outside of three" in text_of(made_up)
    shown = study.table(as_known, "ising", "gibbs", True).loc["*reference: VS*"]
    assert shown.tolist() == ["-2.36", "-3.12", "-3.58", "-3.64", "-3.78", ""]
    assert "(-7.70)" in str(study.report(as_known)[1])
    assert "(-7.70)" not in str(study.report(as_known, comparable=False)[1])
    assert "nothing here can be compared" in text_of(as_known, False)
    assert "Reference values" not in text_of(as_known, False)
    for masks, theirs in (("fixed", 1.0), ("per sample", 0.2)):  # of one partition, or of five
        row = found.loc["ising", "gibbs", 0.25, masks, "raw", 100]
        np.testing.assert_allclose(row["standard_error"], row["std"] * np.sqrt(1 / 3 + theirs))


def test_rules_are_compared_at_three_sizes(made_up):
    rows = study.rules_table(made_up)
    assert len(rows) == 2 * 2 * 3 * 3
    np.testing.assert_allclose(rows["uniform"] - rows["default"], 0.5, atol=0.01)
    assert study.REFERENCE_WEIGHTS.loc[("asia", "sticky", 0.5), "signed"] == -8.0


def test_tables_of_other_numbers_of_samples():
    frame = pd.DataFrame(columns=[*study.KEYS, *study.VALUES])
    assert study.table(frame, "asia", "gibbs", True).empty
    row = ("a.uai", "gibbs", 0.0, "none", 0, "raw", 7, -1.0, 3.0, 0.1)
    frame = pd.DataFrame([row], columns=frame.columns)
    assert study.table(frame, "a.uai", "gibbs", True).to_dict("list") == {
        "N = 7": ["-1.00"],
        "ESS": ["3.0"],
    }
    assert set(study.COUNTS).isdisjoint({7})
    assert study.figure(frame) is None


def test_names_of_methods():
    assert study.method_name(0.5, "online", "per query") == "CIS 50%, per query"
    assert study.method_name(0.0, "none", "signed") == "BBIS, signed"
    assert study.method_name(0.5, "per sample", "uniform") == "CVS 50%, per sample"


def test_the_figure_has_five_methods_and_says_what_does_not_hold(made_up):
    axes = study.figure(made_up)
    assert [ax.get_title() for ax in axes] == [
        f"{model}, {share}% collapsed" for model in ("ising", "asia") for share in (25, 50)
    ]
    assert {len(ax.collections) for ax in axes} == {5}
    labels = [text.get_text() for text in axes[0].figure.legends[0].get_texts()]
    assert labels == ["CBBIS", "CVS", "VS", "BBIS", "CIS"]
    np.testing.assert_allclose(axes[0].get_lines()[0].get_ydata(), -3.0)
    values = study.report(made_up)[0]
    assert (values["won"], values["compared"], values["lost"]) == (6, 16, 8)
