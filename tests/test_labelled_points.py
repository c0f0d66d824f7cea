"""Labelled arrays and frames wherever rows are read: by the names of variables, not by position."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_close

ASIA = ek.asia()
CIRCUIT = ASIA.compile()[0]
ROWS = CIRCUIT.sample(30, rng=1)
FRAME = CIRCUIT.schema.frame(ROWS)[sorted(ASIA.names)]


def text_of(name):
    return FRAME[name].astype(str).to_numpy().astype(object)


def labelled_forms():
    xr = pytest.importorskip("xarray")
    names = list(ASIA.names)[::-1]
    return [
        xr.DataArray(ROWS[:, ::-1], dims=("draw", "variable"), coords={"variable": names}),
        xr.DataArray(ROWS[:, ::-1].T, dims=("variable", "draw"), coords={"variable": names}),
        xr.DataArray(ROWS[:, ::-1], dims=("row", "name"), coords={"name": names}),
        xr.Dataset({name: ("draw", FRAME[name].cat.codes.to_numpy()) for name in FRAME}),
        xr.Dataset({name: ("draw", text_of(name)) for name in FRAME}),
    ]


@pytest.mark.parametrize("number", range(5))
def test_labelled_arrays_are_read_by_name(number):
    given = labelled_forms()[number]
    k = ek.ExpHamming()
    assert_close(CIRCUIT.log_likelihood(given), CIRCUIT.log_likelihood(ROWS))
    assert_close(ek.expected_kernel(CIRCUIT, given, k), ek.expected_kernel(CIRCUIT, ROWS, k))
    assert_close(
        ek.expected_kernel(CIRCUIT, CIRCUIT, k, evidence_p=given),
        ek.expected_kernel(CIRCUIT, CIRCUIT, k, evidence_p=ROWS),
    )
    assert_close(CIRCUIT.marginals(given)["lung"], CIRCUIT.marginals(ROWS)["lung"])
    assert_close(ek.witness(ASIA, FRAME, given), ek.witness(ASIA, FRAME, FRAME))
    assert_close(ek.mmd(ASIA, given), ek.mmd(ASIA, ROWS))


def test_labelled_rows_and_datasets():
    xr = pytest.importorskip("xarray")
    row = xr.DataArray([0.0, np.nan], dims="variable", coords={"variable": ["wet", "rain"]})
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]]).with_names(["rain", "wet"])
    assert_close(p.marginals(row)["wet"], [1.0, 0.0])
    assert p.marginals(row)["rain"].ndim == 1
    learned = ek.learn_chow_liu(labelled_forms()[4])
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


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pd.date_range("2020", periods=4), "'d' holds dates, times or durations"),
        (pd.to_timedelta([1, 2, 3, 4], unit="D"), "'d' holds dates, times or durations"),
        ([[1], [2], [3], [4]], r"'d' must hold one number or label per row. Got \[1\] in row 0"),
        ([1j, 2, 3, 4], "one number or label per row. Got 1j in row 0"),
    ],
)
def test_columns_that_are_neither_numbers_nor_labels(column, match):
    with pytest.raises(ek.DataError, match=match):
        ek.learn_chow_liu(pd.DataFrame({"d": column, "x": [0, 1, 0, 1]}))


def test_columns_of_lists_in_polars():
    with pytest.raises(ek.DataError, match="'d' must hold one number or label per row"):
        ek.learn_chow_liu(pl.DataFrame({"d": [[1], [2]], "x": [0, 1]}))


@pytest.mark.parametrize(
    ("learn", "match"),
    [
        (lambda: ek.learn_strudel(FRAME, X_valid=ROWS), "so must be X_valid and all chunks"),
        (lambda: ek.learn_chow_liu(FRAME, cardinalities=[2]), "one per column, 8 in all"),
        (lambda: ek.learn_mixture(3, FRAME), r"'n_components' .*\.\.\. \(a DataFrame\) instead"),
        (lambda: ek.FactorGraph([2], None), r"factors of a factor graph are .* Got NoneType"),
    ],
)
def test_arguments_that_do_not_fit_each_other(learn, match):
    with pytest.raises(ek.CircuitError, match=match):
        learn()


def test_networks_of_other_libraries_are_written(tmp_path):
    pytest.importorskip("pyagrum")
    network = ek.models.to_pyagrum(ASIA)
    ek.io.write_bif(network, tmp_path / "a.bif")
    ek.write_uai(network, tmp_path / "a.uai")
    for read, name in (
        (ek.read_bif, "a.bif"),
        (ek.read_uai, "a.uai"),
    ):
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
    with pytest.raises(ek.KernelError, match=r"Kernels compare numbers. The column 'smoke' holds"):
        k(FRAME[["smoke"]])
    with pytest.raises(ek.DataError, match="The second data frame lacks columns"):
        k(frame, frame.rename(columns={"a": "c"}))
    p = ek.factorized([[0.2, 0.3, 0.5]]).with_names(["a"], [["x", "y", "z"]])
    one = ek.factorized([[0.1, 0.6, 0.3]]).with_names(["a"], [["x", "y", "z"]])
    other = ek.factorized([[0.6, 0.1, 0.3]]).with_names(["a"], [["y", "x", "z"]])
    assert_close(ek.kdsd(other, p), ek.kdsd(one, p))
