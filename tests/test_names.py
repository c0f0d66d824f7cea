"""Models and data over the same variables, matched by name, in the forms that people have."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals

NAMES, CARDS = ["a", "b", "c"], [2, 3, 2]
STATES = [["no", "yes"], ["x", "y", "z"], ["no", "yes"]]
RNG = np.random.default_rng(0)
PARENTS, TABLES = [[], [0], [1, 0]], [0.2 + RNG.random(CARDS[:1]), 0.2 + RNG.random(CARDS[:2])]
TABLES = [
    table / table.sum(axis=-1, keepdims=True) for table in [*TABLES, 0.2 + RNG.random((3, 2, 2))]
]
NAMED = ek.BayesianNetwork(PARENTS, TABLES, NAMES, STATES)
OTHER = ek.BayesianNetwork(
    [[2 - u for u in PARENTS[v]] for v in (2, 1, 0)],
    [np.flip(TABLES[v]) for v in (2, 1, 0)],
    NAMES[::-1],
    [STATES[v][::-1] for v in (2, 1, 0)],
)
"""The same network with all variables and states in the other order."""
PLAIN = ek.BayesianNetwork(PARENTS, TABLES)
CIRCUIT = NAMED.circuit()
CHAINS = RNG.integers(CARDS, size=(2, 5, 3))
X = CHAINS.reshape(-1, 3)
K = ek.ExpHamming(0.3)


LABELLED = xr.DataArray(CHAINS, dims=["chain", "draw", "variable"], coords={"variable": NAMES})
DATASET = LABELLED.to_dataset("variable")
CHOICES = {name: np.array(own, dtype=object) for name, own in zip(NAMES, STATES, strict=True)}
FRAME = pd.DataFrame({name: CHOICES[name][X[:, i]] for i, name in enumerate(NAMES)})
FRAME = FRAME[["b", "c", "a"]]
ROWS = pd.DataFrame(X, columns=NAMES)[["b", "c", "a"]]
TURNED = xr.DataArray(X[:, ::-1], dims=("row", "name"), coords={"name": NAMES[::-1]})
CODES = {
    "pandas": ROWS,
    "polars": pl.from_pandas(ROWS),
    "rows": TURNED.rename(row="draw", name="variable"),
    "rows, turned": TURNED.rename(row="draw", name="variable").T,
    "rows, other dimensions": TURNED,
    "rows in a dataset": xr.Dataset({name: ("draw", X[:, i]) for i, name in enumerate(NAMES)}),
}
LABELS = {
    "pandas, labels": FRAME,
    "pandas, categories": FRAME.astype("category"),
    "polars, labels": pl.from_pandas(FRAME),
    "arrow, labels": pl.from_pandas(FRAME).to_arrow(),
    "rows in a dataset, labels": xr.Dataset.from_dataframe(FRAME.rename_axis("draw")),
}
BY_NAME = CODES | LABELS
"""Rows with one label for every variable."""
FORMS = BY_NAME | {
    "array": X,
    "lists": X.tolist(),
    "chains": CHAINS,
    "labelled": LABELLED,
    "labelled, other order": LABELLED.transpose("variable", "draw", "chain"),
    "labelled, variables in other order": LABELLED.sel(variable=["c", "a", "b"]),
    "labelled, without labels": LABELLED.drop_vars("variable").transpose(
        "draw", "variable", "chain"
    ),
    "labelled, labels": LABELLED.astype(object),
    "dataset": DATASET,
    "dataset, other order": DATASET[["c", "a", "b"]],
    "dataset, other order of dimensions": DATASET.transpose("draw", "chain"),
    "dataset, one array": xr.Dataset({"state": LABELLED.transpose("draw", "chain", "variable")}),
    "inference data": SimpleNamespace(posterior=DATASET[["b", "a", "c"]]),
    "weighted": ek.WeightedSamples(NAMED, X),
    "empirical": ek.Empirical(X),
    "pandas, by position": pd.DataFrame(X),
}


def rows_of(target, samples):
    """The samples as the library reads them."""
    return ek.WeightedSamples(target, samples).rows


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_the_same_rows(form):
    np.testing.assert_array_equal(rows_of(NAMED, FORMS[form]), X)
    assert ek.mmd(CIRCUIT, FORMS[form]) == pytest.approx(ek.mmd(CIRCUIT, X), abs=1e-12)


OF_SAMPLES = {
    "rows": rows_of,
    "bbis": lambda p, X: ek.bbis(p, X).weights,
    "collapsed_bbis": lambda p, X: ek.collapsed_bbis(p, X, ["a"]).weights,
    "kdsd": lambda p, X: ek.kdsd(X, p),
    "kdsd_test": lambda p, X: np.array([*vars(ek.kdsd_test(X, p, rng=0)).values()][:2]),
    "SteinKernel": lambda p, X: ek.SteinKernel(p)(X),
    "Target": lambda p, X: ek.bbis(ek.Target(p.log_score, CARDS, NAMES, STATES), X).weights,
}


@pytest.mark.parametrize("call", OF_SAMPLES.values(), ids=OF_SAMPLES)
@pytest.mark.parametrize("form", ["chains", "labelled", "inference data", "polars, labels"])
def test_functions_of_samples_read_them(form, call):
    np.testing.assert_array_equal(call(NAMED, FORMS[form]), call(NAMED, X))


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


@pytest.mark.parametrize("call", ANSWERS.values(), ids=ANSWERS)
def test_answers_do_not_depend_on_the_order_of_variables_states_and_columns(call):
    wanted = call(CIRCUIT, X)
    for model, forms in ((CIRCUIT, BY_NAME), (NAMED, BY_NAME), (OTHER, LABELS)):
        for given in forms.values():
            assert_close(call(model, given), wanted)


def test_one_network_in_two_orders_is_one_distribution():
    for p, q in ((NAMED, OTHER), (CIRCUIT, OTHER), (NAMED, OTHER.circuit())):
        assert ek.mmd(p, q) < 1e-8
    first = NAMED.circuit(ek.Vtree.right_linear([0, 1, 2]))
    with pytest.raises(ek.CompatibilityError, match=r"model\.circuit\(p\.vtree\)"):
        ek.mmd(first, OTHER.circuit(ek.Vtree.right_linear([0, 1, 2])))
    assert abs(ek.kdsd(NAMED, OTHER)) < 1e-12
    estimate, error = ek.monte_carlo_expected_kernel(NAMED, OTHER, ek.Delta(), 20_000, rng=0)
    assert abs(estimate - ek.expected_kernel(NAMED, NAMED, ek.Delta())) < 5 * error
    np.testing.assert_array_equal(NAMED.sample(10, rng=1), CIRCUIT.sample(10, rng=1))


def test_columns_by_position_and_missing_values():
    for form in ("dataset", "labelled", "pandas, by position"):
        np.testing.assert_array_equal(rows_of(PLAIN, FORMS[form]), X)
    swapped = rows_of(PLAIN, DATASET[["c", "b", "a"]])
    np.testing.assert_array_equal(swapped, X[:, ::-1])
    table = FRAME[NAMES].copy()
    table.loc[1, "b"] = None
    table.loc[2, "a"] = np.nan
    rows = rows_of(NAMED, table)
    assert np.argwhere(np.isnan(rows)).tolist() == [[1, 1], [2, 0]]
    table = pl.DataFrame({"a": [0, None], "b": ["x", None], "c": [1, 1]})
    np.testing.assert_array_equal(rows_of(NAMED, table), [[0, 0, 1], [np.nan, np.nan, 1]])
    table = pd.DataFrame({"a": pd.array([0, None], dtype="Int64"), "b": [0, 1], "c": [1, 1]})
    np.testing.assert_array_equal(rows_of(NAMED, table), [[0, 0, 1], [np.nan, 1, 1]])


def test_labels_and_weights_of_samples():
    table = pd.DataFrame({"a": [True, False], "b": [0, 1], "c": [True, True]})
    assert_raises(ek.DataError, r"'a' must hold one of 'no', 'yes', or", rows_of, NAMED, table)
    np.testing.assert_array_equal(rows_of(PLAIN, table), [[1, 0, 1], [0, 1, 1]])
    turned = ek.Target(NAMED.log_score, CARDS, NAMES, [["true", "false"], "xyz", ["yes", "no"]])
    rows = rows_of(turned, table.assign(c=["no", "yes"]))
    np.testing.assert_array_equal(rows, [[0, 0, 1], [1, 1, 0]])
    weights = np.arange(1, 11) / 55
    given = ek.WeightedSamples(NAMED, X, weights)
    wanted = ek.kdsd(ek.Empirical(X, weights), NAMED)
    assert ek.kdsd(given, NAMED) == wanted != ek.kdsd(X, NAMED)
    assert_raises(ek.DataError, "samples that count alike", ek.kdsd_test, given, NAMED)
    assert ek.kdsd_test(given.uniform(), NAMED, rng=0) is not None
    np.testing.assert_array_equal(ek.bbis(NAMED, given).weights, ek.bbis(NAMED, X).weights)


@pytest.mark.parametrize("names", [("X", "weights", "posterior"), ("rows", "weights", "dims")])
def test_columns_may_have_any_name(names):
    target = ek.BayesianNetwork(PARENTS, TABLES, names)
    for table in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=list(names))):
        np.testing.assert_array_equal(rows_of(target, table), X)
    if "dims" not in names:
        columns = {name: (("draw",), X[:, v]) for v, name in enumerate(names)}
        np.testing.assert_array_equal(rows_of(target, xr.Dataset(columns)), X)


COLLAPSED = ek.CollapsedSteinKernel(CIRCUIT)
MISTAKES = [
    ([0, 1, 1], r"X\.reshape\(-1, 1\).*X\.reshape\(1, -1\)"),
    ([[0, 1], [1, 1]], r"shape \(samples, 3\).*Got shape \(2, 2\)"),
    ([[0, 3, 0], [0, 1, 1]], r"integers in 0\.\.2"),
    (ek.Delta(), "object of type Delta|A kernel is in the place of the"),
]


@pytest.mark.parametrize("call", [*OF_SAMPLES.values(), lambda p, X: COLLAPSED(X)])
@pytest.mark.parametrize(("samples", "message"), MISTAKES)
def test_mistakes_that_all_functions_see(call, samples, message):
    assert_raises(ek.DataError, message, call, NAMED, samples)


@pytest.mark.parametrize("name", [name for name in OF_SAMPLES if name != "SteinKernel"])
def test_states_counted_from_one(name):
    call, one = OF_SAMPLES[name], r"counted from 0; if yours are counted from 1,"
    assert_raises(ek.DataError, one, call, NAMED, X + 1)
    assert_raises(ek.DataError, r"Got \d\.0 in row 0\.$", call, NAMED, X + 3)
    call(NAMED, X)


SQUARE = xr.DataArray(np.zeros((2, 5, 2, 2)), dims=["chain", "draw", "row", "column"])
TEXTS = pd.DataFrame({"a": ["no"], "b": ["q"], "c": ["no"]})
test_columns_that_do_not_fit = refusals(ek.DataError, [
    (NAMED, pd.DataFrame({"a": [0], "d": [1], "c": [1]}), "lacks columns that the .* has: 'b'"),
    (NAMED, DATASET.assign(d=DATASET["a"]), r"the model does not have: 'd'\. Select"),
    (NAMED, TEXTS, r"'b' must hold one of 'x', 'y', .*Got 'q' in row 0"),
    (PLAIN, TEXTS, r"the states of variable 0 have no labels"),
    (PLAIN, pd.DataFrame({"a": [0], "b": [0]}), r"per variable, 3 in all\. Got 2: 'a', 'b'"),
    (NAMED, pd.DataFrame([[0] * 4], columns=["a", "b", "c", "a"]), "distinct column names"),
    (NAMED, SQUARE, r"\.stack\(variable=\['row', 'column'\]\)"),
    (NAMED, DATASET["a"], r"\.expand_dims\('variable'\)"),
    (NAMED, xr.Dataset({"a": DATASET["a"], "grid": SQUARE}), r"'grid' has \['chain'"),
], rows_of)  # fmt: skip


test_swapped_arguments = refusals(ek.DataError, [
    (lambda: ek.bbis(X, NAMED), r"swapped. The call is bbis\(target, samples, kernel\)"),
    (lambda: ek.bbis(pd.DataFrame(X), NAMED), r"samples of type DataFrame as the target"),
    (lambda: ek.collapsed_bbis(X, NAMED, [0]), r"swapped. The call is collapsed_bbis"),
    (lambda: ek.kdsd_test(NAMED, X), r"swapped. The call is kdsd_test\(samples, target, k\)"),
    (lambda: ek.kdsd(NAMED, ek.Empirical(X)), r"samples of type Empirical as the target"),
    (lambda: ek.kdsd(NAMED, X), r"swapped. The call is kdsd\(q, p, k\)"),
    (lambda: ek.kdsd(NAMED.compile()[0], X.tolist()), r"swapped. The call is kdsd"),
    (lambda: ek.bbis(NAMED, ek.Delta()), r"kernel is in the place of the samples.*bbis\("),
    (lambda: ek.bbis(ek.Delta(), X), r"kernel is in the place of the target.*bbis\("),
    (lambda: ek.kdsd(X, ek.Delta(), NAMED), r"kernel is in the place of the target.*kdsd\("),
    (lambda: ek.kdsd_test(X, ek.Delta()), r"kernel is in the place of the target.*kdsd_test"),
    (lambda: ek.SteinKernel(ek.Delta(), NAMED), r"place of the target.*SteinKernel\(target"),
    (lambda: ek.bbis(NAMED, NAMED), r"Samples of a model are needed, not the model itself"),
    (lambda: ek.kdsd_test(NAMED, NAMED), r"Samples of a model are needed"),
])  # fmt: skip


def test_what_does_not_match_is_refused_by_name():
    renamed = ek.BayesianNetwork(OTHER.parents, OTHER.cpts, ["c", "b", "d"], OTHER.states)
    assert_raises(ek.CompatibilityError, "Only the first has 'a', only", ek.mmd, NAMED, renamed)
    frame = FRAME.drop(columns="b")
    assert_raises(ek.DataError, "lacks columns that the model has: 'b'", ek.mmd, NAMED, frame)
    assert_raises(ek.DataError, "'b'", ek.kdsd_test, frame, NAMED)


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


def test_labelled_rows_and_datasets():
    row = xr.DataArray([0.0, np.nan], dims="variable", coords={"variable": ["c", "a"]})
    found = NAMED.marginals(row)
    assert_close(found["c"], [1.0, 0.0])
    assert found["a"].ndim == 1
    learned, again = (ek.learn_chow_liu(x) for x in (LABELS["rows in a dataset, labels"], FRAME))
    assert learned.names == tuple(FRAME)
    assert_close(learned.log_likelihood(FRAME), again.log_likelihood(FRAME))
    starts = FRAME.iloc[[0]], X[0]
    chains = [ek.collapsed_gibbs(NAMED, 3, ["b"], rng=0, start=start) for start in starts]
    np.testing.assert_array_equal(*chains)
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
    (lambda: ek.learn_strudel(FRAME, X_valid=X), "so must be X_valid and all chunks"),
    (lambda: ek.learn_chow_liu(FRAME, cardinalities=[2]), "one per column, 3 in all"),
    (lambda: ek.learn_mixture(3, FRAME), r"'n_components' .*\.\.\. \(a DataFrame\) instead"),
    (lambda: ek.FactorGraph([2], None), r"factors of a factor graph are .* Got NoneType"),
])  # fmt: skip


def test_networks_of_other_libraries_are_written(tmp_path):
    pytest.importorskip("pyagrum")
    asia, network = ek.asia(), ek.models.to_pyagrum(ek.asia())
    ek.io.write_bif(network, tmp_path / "a.bif")
    ek.write_uai(network, tmp_path / "a.uai")
    rows = asia.sample(30, rng=1)
    for read, name in ((ek.read_bif, "a.bif"), (ek.read_uai, "a.uai")):
        assert_close(read(tmp_path / name).log_score(rows), asia.log_score(rows))


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
    assert_raises(ek.KernelError, r"Kernels compare numbers. The column", k, FRAME[["a"]])
    with pytest.raises(ek.DataError, match="The second data frame lacks columns"):
        k(frame, frame.rename(columns={"a": "c"}))
    p = ek.factorized([[0.2, 0.3, 0.5]]).with_names(["a"], [["x", "y", "z"]])
    one = ek.factorized([[0.1, 0.6, 0.3]]).with_names(["a"], [["x", "y", "z"]])
    other = ek.factorized([[0.6, 0.1, 0.3]]).with_names(["a"], [["y", "x", "z"]])
    assert_close(ek.kdsd(other, p), ek.kdsd(one, p))
