import json
from hashlib import sha256
from itertools import product

import numpy as np
import pytest
from typer.testing import CliRunner

import expectedkernels as ek
from expectedkernels import DataError, collapsed_bbis, simplex_weights
from factor_graphs import scores
from oracles import worlds
from studies.__main__ import app
from studies.base import Results
from studies.inference import samples
from studies.inference.models import (
    BURN_IN,
    GRID_FILE,
    MASKS,
    PROPOSALS,
    SMALLEST,
    THIN,
    collapse,
    draw_points,
    find_model,
    load_model,
    make_model,
)
from studies.inference.samples import (
    CIS_RULES,
    KEYS,
    RULES,
    VALUES,
    Block,
    Cell,
    Settings,
    cell_rows,
    evaluate,
    stein_gram,
)
from studies.inference.study import MODELS, QUICK, SHARES, cells, run

SMALL = Settings(n=40, step=20, thin=20)
PLAIN = {"seed": 0, "n": 40, "step": 20, "thin": 20}
ISING = ("ising-random", None, 0)
ERROR = list({**KEYS, **VALUES}).index("error")


def errors(results):
    """The errors of all results by their keys."""
    return results.frame.set_index(list(KEYS))["error"].to_dict()


@pytest.fixture(scope="module")
def grid():
    return make_model("grid", ek.ising_grid(2, 2, rng=0))


@pytest.fixture(scope="module")
def asia():
    return make_model("asia", ek.asia())


@pytest.fixture
def grid_file(tmp_path):
    path = tmp_path / "grid.uai"
    ek.write_uai(ek.ising_grid(2, 2, rng=0), path)
    return path


def test_errors_are_those_of_the_definition():
    graph = ek.FactorGraph([2, 3], [((0, 1), np.arange(1.0, 7.0).reshape(2, 3))])
    model = make_model("table", graph)
    exact = [np.array([6, 15]) / 21, np.array([5, 7, 9]) / 21]
    np.testing.assert_allclose(model.exact, np.concatenate(exact))
    estimates = [np.array([0.5, 0.5]), np.array([0.2, 0.8, 0.0])]
    distances = [
        np.sqrt(np.sum((np.sqrt(p) - np.sqrt(m)) ** 2)) / np.sqrt(2)
        for p, m in zip(exact, estimates, strict=True)
    ]
    found = model.error(np.concatenate(estimates))
    np.testing.assert_allclose(found, np.log(np.mean(distances)))
    np.testing.assert_allclose(model.error(model.exact), np.log(SMALLEST))
    near = np.array([0.5 + 1e-8, 0.5 - 1e-8, 1e-8, 1.0 - 1e-8, 0.0])
    snapped = np.array([0.5 + 1e-8, 0.5 - 1e-8, 0.0, 1.0, 0.0])
    assert model.error(near) == model.error(snapped)
    signed = np.array([0.5, 0.5, -0.5, 0.5, 1.0])
    clipped = np.array([0.5, 0.5, 0.0, 1 / 3, 2 / 3])
    np.testing.assert_allclose(model.error(signed), model.error(clipped))


def test_exact_marginals_are_those_of_enumeration(grid):
    share = scores(grid.graph) / scores(grid.graph).sum()
    wanted = [
        share @ (worlds(grid.graph.cardinalities)[:, v] == x) for v in range(4) for x in (0, 1)
    ]
    np.testing.assert_allclose(grid.exact, wanted)


def test_equal_weights_get_better_like_one_over_the_root_of_n(grid):
    cell_errors = {100: [], 1600: []}
    for seed in range(30):
        points = draw_points(grid, "gibbs", 1600, np.random.default_rng(seed), thin=8)
        tables = grid.tables(points)
        for n, found in cell_errors.items():
            found.append(grid.error(tables[:n].mean(axis=0)))
    change = np.mean(cell_errors[1600]) - np.mean(cell_errors[100])
    np.testing.assert_allclose(change, -np.log(4), atol=0.25)


def test_with_everything_collapsed_marginals_are_exact(grid):
    rows = np.full((3, 4), np.nan)
    gram, other = (stein_gram(grid, rows, operator) for operator in ("shift", "gibbs"))
    np.testing.assert_array_equal(gram, np.zeros((3, 3)))
    block = Block(grid, gram, other, grid.tables(rows), rows, 3)
    assert block.error(block.raw) == np.log(SMALLEST)
    one = Cell("grid", "gibbs", 1.0, "per sample", 0)
    for row in evaluate(grid, one, ("uniform", "raw", "default"), SMALL):
        assert row[ERROR] == np.log(SMALLEST)


def test_weights_do_not_depend_on_the_order_of_samples(grid):
    rows = cell_rows(grid, Cell("grid", "gibbs", 0.5, "per sample", 0), SMALL)
    order = np.random.default_rng(0).permutation(len(rows))
    found = []
    for some in (rows, rows[order]):
        gram, other = (stein_gram(grid, some, operator) for operator in ("shift", "gibbs"))
        block = Block(grid, gram, other, grid.tables(some), some, len(some))
        found.append([block.raw, block.ridge(0.1)])
    for straight, shuffled in zip(*found, strict=True):
        np.testing.assert_allclose(straight[order], shuffled, atol=1e-6)


def test_ridges_of_merged_samples_are_those_of_all(grid):
    rows = cell_rows(grid, Cell("grid", "uniform", 0.0, "none", 0), SMALL)
    gram = stein_gram(grid, rows, "shift")
    assert len(np.unique(rows, axis=0)) < len(rows)
    block = Block(grid, gram, None, grid.tables(rows), rows, len(rows))
    n = len(rows)
    whole = gram + 0.3 * np.trace(gram) / n * np.eye(n)
    wanted = simplex_weights(whole, groups=np.arange(n)).weights
    np.testing.assert_allclose(block.ridge(0.3), wanted, atol=1e-6)


def test_nothing_collapsed_is_plain(grid):
    points = draw_points(grid, "gibbs", 20, np.random.default_rng(0), thin=5)
    for masks in MASKS:
        rows = collapse(grid, points, 0.0, masks, np.random.default_rng(0))
        np.testing.assert_array_equal(rows, points)
    mean = np.concatenate([[1 - x, x] for x in points.mean(axis=0)])
    np.testing.assert_allclose(grid.tables(points).mean(axis=0), mean, atol=1e-12)


def test_points_are_those_of_the_published_chain(grid):
    found = draw_points(grid, "gibbs", 3, np.random.default_rng(4))
    chain = ek.gibbs(grid.graph, BURN_IN + 3 * THIN, rng=np.random.default_rng(4))
    np.testing.assert_array_equal(found, chain[BURN_IN + THIN - 1 :: THIN])
    sticky = draw_points(grid, "sticky", 30, np.random.default_rng(4))
    np.testing.assert_array_equal(sticky, chain[:30])
    assert (np.diff(sticky, axis=0) != 0).sum(axis=1).max() == 1


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_more_samples_do_not_change_the_first_ones(asia, proposal):
    for masks in MASKS:
        cell = Cell("asia", proposal, 0.5, masks, 1)
        few, many = (cell_rows(asia, cell, Settings(n=n, thin=20)) for n in (10, 20))
        np.testing.assert_array_equal(few, many[:10])
        assert (np.isnan(many).sum(axis=1) == 4).all()
        assert np.isnan(many[:, 5]).all()
        same = (np.isnan(many) == np.isnan(many[0])).all()
        assert same == (masks == "fixed")
        plain = cell_rows(asia, Cell("asia", proposal, 0.0, "none", 1), Settings(n=20, thin=20))
        known = ~np.isnan(many)
        np.testing.assert_array_equal(many[known], plain[known])
        other = cell_rows(asia, Cell("asia", proposal, 0.5, masks, 2), Settings(n=20, thin=20))
        assert not np.array_equal(many, other, equal_nan=True)


def test_numbers_of_collapsed_variables(grid, asia):
    assert [asia.n_collapsed(share) for share in (0.0, *SHARES)] == [1, 2, 4]
    assert [grid.n_collapsed(share) for share in (0.0, *SHARES, 1.0)] == [0, 1, 2, 4]
    sixteen = load_model(*ISING)
    assert [sixteen.n_collapsed(share) for share in SHARES] == [4, 8]


def test_records_are_those_of_the_library(asia):
    cell = Cell("asia", "gibbs", 0.5, "per sample", 0)
    found = {tuple(row[-5:-3]): row[-3:] for row in evaluate(asia, cell, RULES, SMALL)}
    rows = cell_rows(asia, cell, SMALL)[:20]
    for rule in ("uniform", "raw", "smoothed", "default", "signed"):
        weighted = collapsed_bbis(asia.graph, rows, weights=rule)
        error, ess, discrepancy = found[rule, 20]
        wanted = asia.error(np.concatenate(weighted.marginals()))
        np.testing.assert_allclose(error, wanted, atol=1e-5)
        np.testing.assert_allclose(ess, weighted.ess, rtol=1e-5)
        np.testing.assert_allclose(discrepancy, weighted.discrepancy, rtol=1e-6)
    assert found["best ridge", 40][0] <= min(found["raw", 40][0], found["uniform", 40][0])
    assert ("best ridge", 20) not in found


@pytest.mark.parametrize("rule", CIS_RULES)
def test_importance_sampling_with_everything_collapsed_is_exact(asia, rule):
    for row in evaluate(asia, Cell("asia", "cis", 1.0, "online", 0), (rule,), SMALL):
        assert row[ERROR] == np.log(SMALLEST)
    found = evaluate(asia, Cell("asia", "cis", 0.25, "online", 0), (rule,), SMALL)
    counts, logs, sizes = np.array([row[-4:-1] for row in found]).T
    assert counts.tolist() == [20, 40]
    assert np.isfinite(logs).all()
    assert ((sizes >= 1) & (sizes <= counts)).all()


def test_models_are_found(tmp_path, data_dir):
    assert find_model("ising", data_dir) == ("ising", str(data_dir / "uai" / GRID_FILE))
    assert find_model("ising", tmp_path) == ("ising-random", None)
    with pytest.raises(DataError, match=r"There is no model 'alarm'\. There are: ising; asia; "):
        find_model("alarm")
    assert load_model(*ISING).n_variables == 16
    paper = load_model(*find_model("ising", data_dir), 0)
    assert paper.always == ()
    np.testing.assert_allclose(paper.graph.log_partition(), -5.0747427194)


def invoke(*arguments):
    return CliRunner().invoke(app, ["inference", *map(str, arguments)])


def test_the_command_writes_results_and_resumes(grid_file, tmp_path):
    out = tmp_path / "out"
    options = ["--quick", "--model", grid_file, "--out", out]
    done = invoke(*options, "--tries", 1)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    names = {path.name for path in out.iterdir()}
    assert names == {"results.csv", "settings.json", "summary.md", "figure.png"}
    before = (out / "results.csv").read_text()
    counts = QUICK.n // QUICK.step
    lines = 10 * ((len(RULES) - 1) * counts + QUICK.n // 50) + 2 * counts
    assert len(before.splitlines()) == 1 + lines
    text = (out / "summary.md").read_text()
    assert "not the settings of the paper" in text
    assert "CBBIS 50%, fixed, default" in text
    assert "That CBBIS never loses to a baseline" in done.output
    assert "![Figure 3 of the paper, from our runs](figure.png)\n\n## Weighted" in text
    assert "best ridge" in done.output.splitlines()[0]

    again = invoke(*options, "--tries", 1)
    assert again.exit_code == 0, again.output
    assert (out / "results.csv").read_text() == before

    cut = before[: len(before) - 30]  # in the middle of the last line
    (out / "results.csv").write_text(cut)
    more = invoke(*options, "--tries", 1)
    assert more.exit_code == 0, more.output
    assert set((out / "results.csv").read_text().splitlines()) == set(before.splitlines())

    other = invoke(*options[1:], "--tries", 1)
    assert other.exit_code == 1
    assert "other settings" in other.output


def test_grams_are_kept_for_other_rules(grid_file, tmp_path):
    options = {"models": [str(grid_file)], "tries": 1, "settings": SMALL, "progress": False}
    kept = run(tmp_path / "a", rules=["raw"], keep=True, cis_rules=[], **options)
    assert len(list((tmp_path / "a" / "grams").iterdir())) == 10
    kept = run(tmp_path / "a", rules=["raw", "default"], keep=True, cis_rules=[], **options)
    assert len(list((tmp_path / "a" / "grams").iterdir())) == 20
    fresh = run(tmp_path / "b", rules=["raw", "default"], cis_rules=[], **options)
    again = Results(tmp_path / "a", KEYS, VALUES, PLAIN)
    for found in (kept, again):
        assert errors(found) == pytest.approx(errors(fresh), abs=1e-6)


def test_rules_that_have_changed_are_computed_anew(grid_file, tmp_path, monkeypatch):
    options = {"models": [str(grid_file)], "tries": 1, "settings": SMALL, "progress": False}
    first = run(tmp_path, rules=["raw", "uniform"], cis_rules=[], **options)
    old = errors(first)
    monkeypatch.setitem(samples._WEIGHTS, "raw", lambda b: np.eye(len(b.gram))[0])
    same = run(tmp_path, rules=["raw", "uniform"], cis_rules=[], **options)
    assert errors(same) == pytest.approx(old, abs=1e-7)
    run(tmp_path, rules=["raw", "uniform"], again=["raw"], cis_rules=[], **options)
    found = Results(tmp_path, KEYS, VALUES, PLAIN)
    assert (found.frame["ess"][found.frame["rule"] == "raw"] == 1.0).all()
    kept = {key: error for key, error in errors(found).items() if "uniform" in key[5:]}
    assert kept == pytest.approx({key: old[key] for key in kept}, abs=1e-7)


def test_two_processes_find_the_same(grid_file, tmp_path):
    found = []
    for jobs in (1, 2):
        records = run(
            tmp_path / f"out{jobs}",
            models=[str(grid_file)],
            proposals=["gibbs"],
            shares=[0.5],
            masks=["fixed"],
            rules=["raw"],
            tries=2,
            settings=SMALL,
            jobs=jobs,
            progress=False,
        )
        found.append(errors(records))
    assert found[0] == found[1]
    assert len(found[0]) == 2 * 2 * (2 + 2)


FEW = {
    "proposals": ["gibbs"],
    "shares": [0.5],
    "masks": ["fixed"],
    "rules": ["uniform"],
    "cis_rules": [],
    "tries": 1,
    "settings": SMALL,
    "progress": False,
}


def other_grid(tmp_path):
    """Another file with the name of the first one."""
    path = tmp_path / "other" / "grid.uai"
    path.parent.mkdir()
    ek.write_uai(ek.ising_grid(2, 2, rng=1), path)
    return path


def test_models_of_equal_names_are_refused(grid_file, tmp_path):
    other, out = other_grid(tmp_path), tmp_path / "out"
    with pytest.raises(DataError, match=r"different names.* Got 'grid\.uai' twice: .* and .*other"):
        run(out, models=[str(grid_file), str(other)], **FEW)
    done = invoke("--model", grid_file, "--model", other, "--out", out)
    assert done.exit_code == 1
    assert "Got 'grid.uai' twice" in done.output
    assert not out.exists()


def test_results_of_another_file_of_the_same_name_are_refused(grid_file, tmp_path):
    out, other = tmp_path / "out", other_grid(tmp_path)
    before = len(run(out, models=[str(grid_file)], **FEW).frame)
    digest = sha256(grid_file.read_bytes()).hexdigest()
    text = (out / "settings.json").read_text()
    assert json.loads(text)["files"] == {"grid.uai": digest}
    with pytest.raises(DataError, match=f"another file of this name: its SHA-256 sum was {digest}"):
        run(out, models=[str(other)], **FEW)
    assert (out / "settings.json").read_text() == text
    moved = tmp_path / "elsewhere" / "grid.uai"
    moved.parent.mkdir()
    moved.write_bytes(grid_file.read_bytes())
    assert len(run(out, models=[str(moved)], **FEW).frame) == before
    second = other.rename(other.with_name("second.uai"))
    assert len(run(out, models=["asia", str(second)], **FEW).frame) == 3 * before
    assert set(json.loads((out / "settings.json").read_text())["files"]) == {
        "grid.uai",
        "second.uai",
    }


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(DataError, match="There is no model 'alarm'"):
        run(tmp_path, models=["alarm"])
    with pytest.raises(DataError, match="There is no proposal 'guess'"):
        run(tmp_path, proposals=["guess"])
    with pytest.raises(DataError, match="There is no rule for weights 'best'"):
        run(tmp_path, rules=["best"])
    with pytest.raises(DataError, match="There is no kind of masks 'all'"):
        run(tmp_path, masks=["all"])
    with pytest.raises(DataError, match="There is no variant of CIS 'mi'"):
        run(tmp_path, cis_rules=["mi"])
    with pytest.raises(DataError, match=r"must be in the range \(0, 1\]\. Got 25"):
        run(tmp_path, shares=[25])
    with pytest.raises(DataError, match=r"at least 1, or -1 for all\. Got 0"):
        run(tmp_path, jobs=0)
    assert not list(tmp_path.iterdir())
    for arguments, message in (
        (["--proposal", "guess"], "There is no proposal 'guess'"),
        (["--model", tmp_path / "none.uai"], "none.uai"),
    ):
        done = invoke(*arguments, "--out", tmp_path / "out")
        assert done.exit_code == 1
        assert message in done.output
        assert len(done.output.splitlines()) == 1


def test_a_try_of_everything_comes_before_the_next():
    found = list(cells(MODELS, PROPOSALS, SHARES, MASKS, 2))
    assert [c.trial for c in found] == [0] * 30 + [1] * 30
    assert {(c.model, c.proposal) for c in found[:30]} == set(product(MODELS, PROPOSALS))
