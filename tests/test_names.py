"""Models and data over the same variables, in any order: files, networks, frames, arrays."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals

ONE = """network a {{}}
variable rain {{ type discrete [ 2 ] {{ no, yes }}; }}
variable sky {{ type discrete [ 3 ] {{ blue, grey, black }}; }}
variable wet {{ type discrete [ 2 ] {{ no, yes }}; }}
probability ( sky ) {{ table {sky}; }}
probability ( rain | sky ) {{ (blue) 0.95, 0.05; (grey) 0.6, 0.4; (black) 0.1, 0.9; }}
probability ( wet | rain, sky ) {{
  (no, blue) 0.9, 0.1; (no, grey) 0.8, 0.2; (no, black) 0.7, 0.3;
  (yes, blue) 0.3, 0.7; (yes, grey) 0.2, 0.8; (yes, black) 0.1, 0.9; }}
""".format(sky="0.5, 0.3, 0.2")
OTHER = """network b {}
variable wet { type discrete [ 2 ] { yes, no }; }
variable sky { type discrete [ 3 ] { black, blue, grey }; }
variable rain { type discrete [ 2 ] { yes, no }; }
probability ( wet | sky, rain ) {
  (blue, no) 0.1, 0.9; (grey, no) 0.2, 0.8; (black, no) 0.3, 0.7;
  (blue, yes) 0.7, 0.3; (grey, yes) 0.8, 0.2; (black, yes) 0.9, 0.1; }
probability ( sky ) { table 0.2, 0.5, 0.3; }
probability ( rain | sky ) { (black) 0.9, 0.1; (blue) 0.05, 0.95; (grey) 0.4, 0.6; }
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks")
    found = []
    for name, text in (("a.bif", ONE), ("b.bif", OTHER)):
        (folder / name).write_text(text)
        found.append(ek.read_bif(folder / name))
    return found


def test_one_network_in_two_orders_is_one_distribution(models):
    one, other = models
    assert one.names != other.names
    for p, q in ((one, other), (one.compile()[0], other), (one, other.compile()[0])):
        assert ek.mmd(p, q) < 1e-8
    first = one.compile(ek.Vtree.right_linear([0, 1, 2]))[0]
    with pytest.raises(ek.CompatibilityError, match=r"model\.circuit\(p\.vtree\)"):
        ek.mmd(first, other.compile(ek.Vtree.right_linear([0, 1, 2]))[0])
    assert ek.mmd(one, other) == pytest.approx(0.0, abs=1e-8)
    assert abs(ek.kdsd(one, other)) < 1e-12
    estimate, error = ek.monte_carlo_expected_kernel(one, other, ek.Delta(), 20_000, rng=0)
    assert abs(estimate - ek.expected_kernel(one, one, ek.Delta())) < 5 * error


def test_networks_in_two_orders_give_the_same_answers_to_frames(models):
    one, other = models
    frame = one.sample(30, rng=0, as_frame=True)
    for ask in ANSWERS.values():
        wanted = ask(one, frame)
        assert_close(ask(other, frame[["wet", "rain", "sky"]]), wanted, scale=1.0)
        assert_close(ask(one, one.schema.read_frame(frame)), wanted, scale=1.0)


def test_models_answer_for_themselves(models):
    one, _ = models
    assert one.map({"wet": "yes"}).to_dict("records") == [
        {"rain": "yes", "sky": "black", "wet": "yes"}
    ]
    np.testing.assert_array_equal(one.sample(10, rng=1), one.circuit().sample(10, rng=1))


def test_what_does_not_match_is_refused_by_name(models):
    one, other = models
    renamed = ek.BayesianNetwork(other.parents, other.cpts, ["wet", "sky", "snow"], other.states)
    assert_raises(ek.CompatibilityError, "Only the first has 'rain', only", ek.mmd, one, renamed)
    frame = one.sample(5, rng=0, as_frame=True).drop(columns="sky")
    assert_raises(ek.DataError, "lacks columns that the model has: 'sky'", ek.mmd, one, frame)
    assert_raises(ek.DataError, "'sky'", ek.kdsd_test, frame, one)


def test_formats_without_names_are_given_some(tmp_path):
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    names, states = ["rain", "wet"], [["no", "yes"], ["dry", "wet"]]
    ek.write_psdd(p, tmp_path / "a.psdd")
    ek.write_jpc(p, tmp_path / "a.jpc")
    ek.io.write_spn(p, tmp_path / "a.spn")
    for name, read in (("a.psdd", ek.read_psdd), ("a.jpc", ek.read_jpc), ("a.spn", ek.io.read_spn)):
        found = read(tmp_path / name, names=names, states=states)
        assert (found.names, found.states) == (("rain", "wet"), (("no", "yes"), ("dry", "wet")))
        assert read(tmp_path / name).names is None
    ek.write_uai(ek.asia(), tmp_path / "a.uai")
    again = ek.read_uai(tmp_path / "a.uai", names=ek.asia().names, states=ek.asia().states)
    assert ek.mmd(again, ek.asia()) < 1e-7
    assert isinstance(again, ek.BayesianNetwork)


def test_targets_may_be_models_of_others(gum):
    asia = ek.asia()
    theirs, pgmpy = ek.models.to_pyagrum(asia), ek.models.to_pgmpy(asia)
    X = asia.sample(40, rng=0, as_frame=True)
    wanted = ek.bbis(asia, X).weights
    for model in (theirs, pgmpy):
        np.testing.assert_allclose(ek.bbis(model, X).weights, wanted, atol=1e-12)
        for test in (ek.kdsd_test, ek.mmd_test):
            assert_close(test(X, model, rng=0).statistic, test(X, asia, rng=0).statistic)
        chain = ek.collapsed_gibbs(model, 3, ["either"], burn_in=5, rng=0)
        assert chain.shape == (3, 8)
        assert ek.cis(model, 5, 2, rng=0).marginals()["lung"].shape == (2,)
        assert ek.collapsed_bbis(model, X, ["either"]).n == 40
        assert ek.herd(model, 4, rng=3).mmd == ek.herd(asia, 4, rng=3).mmd
        smooth = ek.as_model(model).smoothed(0.01)
        assert abs(ek.kdsd(ek.models.to_pyagrum(smooth), smooth)) < 1e-9


def test_kernels_that_take_text_for_numbers_are_noticed():
    p = ek.factorized([[0.2, 0.3, 0.5], [0.5, 0.5]])
    named = p.with_names(["sky", "rain"], [["blue", "grey", "black"], ["no", "yes"]])
    with pytest.warns(
        UserWarning, match=r"RBF\(gamma=0.5\) compares the codes .*'sky'.*ExpHamming"
    ):
        assert ek.expected_kernel(named, named, ek.RBF(0.5)) == ek.expected_kernel(
            p, p, ek.RBF(0.5)
        )
    ek.expected_kernel(named, named, ek.RBF([0.0, 0.5]) * ek.ExpHamming())
    numbered = p.with_names(["cylinders", "rain"], [[4, 6, 8], ["no", "yes"]])
    ek.expected_kernel(numbered, numbered, ek.RBF(0.5))


ASIA = ek.asia()
CIRCUIT = ASIA.compile()[0]
ROWS, K = CIRCUIT.sample(30, rng=1), ek.ExpHamming(0.3)
FRAME = CIRCUIT.schema.frame(ROWS)[sorted(ASIA.names)]


def labelled_forms():
    xr = pytest.importorskip("xarray")
    names, text = list(ASIA.names)[::-1], FRAME.astype(str).astype(object)
    return {
        "frame": FRAME,
        "polars": pl.from_pandas(FRAME.astype(str)),
        "array": xr.DataArray(ROWS[:, ::-1], dims=("draw", "variable"), coords={"variable": names}),
        "turned": xr.DataArray(
            ROWS[:, ::-1].T, dims=("variable", "draw"), coords={"variable": names}
        ),
        "other axes": xr.DataArray(ROWS[:, ::-1], dims=("row", "name"), coords={"name": names}),
        "codes": xr.Dataset({name: ("draw", FRAME[name].cat.codes.to_numpy()) for name in FRAME}),
        "text": xr.Dataset({name: ("draw", text[name].to_numpy()) for name in FRAME}),
    }


ANSWERS = {
    "log_likelihood": lambda p, X: p.log_likelihood(X),
    "marginals": lambda p, X: sum((table**2).sum() for table in p.marginals(X)),
    "points": lambda p, X: ek.expected_kernel(p, X, K),
    "evidence": lambda p, X: ek.expected_kernel(p, p, K, evidence_p=X),
    "witness": lambda p, X: ek.witness(p, X, X),
    "mmd": lambda p, X: ek.mmd(p, X),
    "mmd_test": lambda p, X: ek.mmd_test(X, p, n_null=1, rng=0).statistic,
    "SequentialTest": lambda p, X: ek.monitoring.SequentialTest(p, K, windows=(5,)).update(X),
    "kdsd_test": lambda p, X: ek.kdsd_test(X, p, n_null=1, rng=0).statistic,
    "kdsd": lambda p, X: ek.kdsd(X, p, operator="gibbs"),
    "bbis": lambda p, X: ek.bbis(p, X, operator="gibbs", zeros="restrict").weights,
    "stein_thin": lambda p, X: ek.stein_thin(p, X, 3) * 1.0,
    "quadrature": lambda p, X: ek.quadrature(p, X, jitter=1e-2).weights,
    "herd": lambda p, X: ek.herd(p, 3, candidates=X).mmd,
}


@pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
@pytest.mark.parametrize("name", ANSWERS)
def test_labelled_data_are_read_by_name(name):
    ask = ANSWERS[name]
    for given in labelled_forms().values():
        assert_close(ask(CIRCUIT, given), ask(CIRCUIT, ROWS))


def test_labelled_rows_and_datasets():
    xr = pytest.importorskip("xarray")
    row = xr.DataArray([0.0, np.nan], dims="variable", coords={"variable": ["wet", "rain"]})
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]]).with_names(["rain", "wet"])
    assert_close(p.marginals(row)["wet"], [1.0, 0.0])
    assert p.marginals(row)["rain"].ndim == 1
    learned = ek.learn_chow_liu(labelled_forms()["text"])
    assert learned.names == tuple(FRAME)
    again = ek.learn_chow_liu(FRAME.astype(str))
    assert_close(learned.log_likelihood(FRAME), again.log_likelihood(FRAME))
    start = FRAME.iloc[[0]]
    chain = ek.collapsed_gibbs(ASIA, 3, ["either"], rng=0, start=start)
    same = ek.collapsed_gibbs(ASIA, 3, ["either"], rng=0, start=ROWS[0])
    np.testing.assert_array_equal(chain, same)
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]]).with_names(["rain", "wet"])
    named = p.with_names(states={"wet": ["no", "yes"]})
    assert named.names == ("rain", "wet")
    assert named.states == (None, ("no", "yes"))


test_columns_that_are_neither_numbers_nor_labels = refusals(ek.DataError, [
    (pd.date_range("2020", periods=4), "'d' holds dates, times or durations"),
    (pd.to_timedelta([1, 2, 3, 4], unit="D"), "'d' holds dates, times or durations"),
    ([[1], [2], [3], [4]], r"'d' must hold one number or label per row. Got \[1\] in row 0"),
    ([1j, 2, 3, 4], "one number or label per row. Got 1j in row 0"),
], lambda column: ek.learn_chow_liu(pd.DataFrame({"d": column, "x": [0, 1, 0, 1]})))  # fmt: skip


def test_columns_of_lists_in_polars():
    with pytest.raises(ek.DataError, match="'d' must hold one number or label per row"):
        ek.learn_chow_liu(pl.DataFrame({"d": [[1], [2]], "x": [0, 1]}))


test_arguments_that_do_not_fit_each_other = refusals(ek.CircuitError, [
    (lambda: ek.learn_strudel(FRAME, X_valid=ROWS), "so must be X_valid and all chunks"),
    (lambda: ek.learn_chow_liu(FRAME, cardinalities=[2]), "one per column, 8 in all"),
    (lambda: ek.learn_mixture(3, FRAME), r"'n_components' .*\.\.\. \(a DataFrame\) instead"),
    (lambda: ek.FactorGraph([2], None), r"factors of a factor graph are .* Got NoneType"),
])  # fmt: skip


def test_networks_of_other_libraries_are_written(tmp_path):
    pytest.importorskip("pyagrum")
    network = ek.models.to_pyagrum(ASIA)
    ek.io.write_bif(network, tmp_path / "a.bif")
    ek.write_uai(network, tmp_path / "a.uai")
    for read, name in ((ek.read_bif, "a.bif"), (ek.read_uai, "a.uai")):
        assert_close(read(tmp_path / name).log_score(ROWS), ASIA.log_score(ROWS))


def test_evidence_by_position_is_in_the_order_of_its_own_circuit():
    p = ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]])
    p = p.with_names(["a", "b"], [["n", "y"], ["low", "mid", "high"]])
    q = ek.factorized([[0.5, 0.2, 0.3], [0.7, 0.3]])
    q = q.with_names(["b", "a"], [["high", "low", "mid"], ["y", "n"]])
    k = ek.TableKernel([np.eye(2), np.diag([1.0, 2.0, 3.0])])
    by_name = ek.expected_kernel(p, q, k, evidence_q={"b": "high"})
    for evidence in ([[0, np.nan]], [np.array([[1.0, 0, 0]]), None], {"b": 0}, {0: "high"}):
        assert_close(ek.expected_kernel(p, q, k, evidence_q=evidence), by_name)
    assert_close(by_name, [3 * 0.6 * (0.2 * 0.3 + 0.8 * 0.7)])


def test_columns_are_matched_by_kernels_and_discrepancies():
    points = np.arange(6.0).reshape(3, 2)
    frame = pd.DataFrame(points, columns=["a", "b"])
    k = ek.RBF(0.1)
    assert_close(k(frame, frame[["b", "a"]]), k(points))
    assert_close(k(frame[["b", "a"]]), k(points))
    assert_raises(ek.KernelError, r"Kernels compare numbers. The column", k, FRAME[["smoke"]])
    with pytest.raises(ek.DataError, match="The second data frame lacks columns"):
        k(frame, frame.rename(columns={"a": "c"}))
    p = ek.factorized([[0.2, 0.3, 0.5]]).with_names(["a"], [["x", "y", "z"]])
    one = ek.factorized([[0.1, 0.6, 0.3]]).with_names(["a"], [["x", "y", "z"]])
    other = ek.factorized([[0.6, 0.1, 0.3]]).with_names(["a"], [["y", "x", "z"]])
    assert_close(ek.kdsd(other, p), ek.kdsd(one, p))
