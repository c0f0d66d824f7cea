from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from assertions import assert_same_circuit
from expectedkernels import Circuit, ParseError, Vtree, asia, load, save
from oracles import Inner, Real, Table


@given(data=st.data(), roots=st.integers(1, 3))
def test_round_trip_is_exact(scratch, circuits, data, roots):
    options = {"signed": data.draw(st.booleans()), "minimised": data.draw(st.booleans())}
    circuit = data.draw(circuits(real=True, roots=roots, **options))
    save(circuit, scratch / "random.npz")
    assert_same_circuit(load(scratch / "random.npz"), circuit)


def _example():
    """A circuit with every kind of block: tables, normals, all forms of weights and inputs."""
    rng = np.random.default_rng(0)
    vtree = Vtree.from_nested(((0, 1), (2, 3)))
    blocks = (
        Table(rng.random((2, 2))),
        Real(rng.random((2, 3)), rng.normal(size=3), rng.random(3) + 0.1),
        Inner(2, 2, None, np.array([1, 0]), None),
        Table(rng.random((3, 2))),
        Table(rng.random((2, 4))),
        Inner(
            3, 2, None, np.array([1, 0, 1]), sparse.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
        ),
        Inner(3, 1, np.array([0, 1, 1]), np.array([1, 0, 1]), rng.random((1, 3))),
    )
    return Circuit(vtree, blocks)


@pytest.fixture
def arrays(changed_arrays):
    return changed_arrays(_example())


def test_arrays_are_few_and_unchanged_ones_load(arrays):
    found, reload = arrays
    assert len(found) == 20
    assert_same_circuit(reload(), _example())


def test_missing_arrays(arrays):
    found, reload = arrays
    for name in found:
        message = "found version unknown" if name == "version" else f"expected an array '{name}' of"
        with pytest.raises(ParseError, match=message):
            reload(**{name: None})


def test_arrays_of_the_wrong_type_or_shape(arrays):
    found, reload = arrays
    for name in found:
        if name == "version":
            continue
        kind = "floats" if found[name].dtype.kind == "f" else "integers"
        for wrong in (found[name].astype(complex), found[name][None], found[name].astype(str)):
            with pytest.raises(ParseError, match=f"expected an array '{name}' of {kind}"):
                reload(**{name: wrong})


def test_arrays_of_the_wrong_length(arrays):
    found, reload = arrays
    for name in found:
        if name == "version":
            continue
        for wrong in (found[name][:-1], np.append(found[name], found[name][-1:])):
            with pytest.raises(
                ParseError, match=r"changed\.npz: the (arrays .* are incons|vtree is)"
            ):
                reload(**{name: wrong})


def _set(array, index, value):
    new = array.copy()
    new[index] = value
    return new


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        (
            "version",
            0,
            2,
            "expected an array .stage_variable. of integers in one dimension, found none",
        ),
        ("vtree_left", -1, 6, "the vtree is malformed: Node 6 needs two children"),
        ("vtree_left", 0, 3, "the vtree is malformed"),
        ("vtree_left", 0, -(2**40), "vtree nodes must be in post-order"),
        ("vtree_right", 0, -9, "vtree nodes must be in post-order"),
        ("vtree_variable", 0, 1, "the vtree is malformed: .* repeated"),
        ("vtree_variable", 0, 9, "variables must be numbered from 0 without gaps"),
        ("kind", 0, 2, "input blocks belong to leaves"),
        ("kind", 2, 0, "input blocks belong to leaves"),
        ("kind", 0, 7, "input blocks belong to leaves"),
        ("kind", 0, -1, "'kind' must hold one natural number per vtree node"),
        ("kind", 0, 1, "'tables' has 18 entries, which is not what blocks need"),
        ("n_units", 0, 0, "every block has units"),
        ("n_units", 0, 2**31, "'n_units' must hold one natural number"),
        ("n_units", 0, 3, "'tables' has 18 entries"),
        ("n_units", 2, 3, "units without weights are as many as products"),
        ("width", 0, 0, "every block has units, and every unit numbers"),
        ("width", 2, 3, "units without weights are as many as products"),
        ("width", 1, 0, "'normal_weights' has 6 entries"),
        ("weight_form", 0, 1, "unknown forms of weights or inputs"),
        ("weight_form", 5, 3, "unknown forms of weights or inputs"),
        ("weight_form", 5, 1, "'dense' has 3 entries"),
        ("has_left", 0, 1, "unknown forms of weights or inputs"),
        ("has_left", 2, 2, "unknown forms of weights or inputs"),
        ("has_left", 6, 0, "products that take all units of the left child are as many"),
        ("has_right", 6, 0, "products that take all units of the right child are as many"),
        ("left", 0, 2, "left inputs must be units of the child"),
        ("right", 0, -1, "right inputs must be units of the child"),
        ("csr_indptr", 0, 1, "sparse weights: index pointer should start with 0"),
        ("csr_indptr", 1, 9, "sparse weights: indptr must be a non-decreasing"),
        ("csr_indptr", -1, 9, "'csr_data' has 3 entries"),
        ("csr_indices", 0, 3, "sparse weights: indices must be < 3"),
        ("csr_indices", 0, -1, "sparse weights: indices must be >= 0"),
        ("csr_data", 0, np.nan, "'csr_data' must be finite"),
        ("tables", 0, np.inf, "'tables' must be finite"),
        ("dense", 0, np.nan, "'dense' must be finite"),
        ("normal_mean", 0, np.nan, "'normal_mean' must be finite"),
        ("normal_variance", 0, -1e-9, "variances must not be negative"),
        ("normal_weights", 0, -np.inf, "'normal_weights' must be finite"),
    ],
)
def test_inconsistent_arrays(arrays, name, index, value, message):
    found, reload = arrays
    with pytest.raises(ParseError, match=message):
        reload(**{name: _set(found[name], index, value)})


def test_units_without_numbers_are_limited(tmp_path):
    circuit = Circuit(Vtree.balanced(1), (Real(np.zeros((2**21, 0)), np.zeros(0), np.ones(0)),))
    save(circuit, tmp_path / "a.npz")
    with pytest.raises(ParseError, match="every block has units, and every unit numbers"):
        load(tmp_path / "a.npz")


def test_other_files(tmp_path):
    path = tmp_path / "other"
    with open(path, "wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(ParseError, match="expected a circuit written by save"):
        load(path)
    with open(path, "wb") as file:
        np.savez(file, x=np.arange(3))
    with pytest.raises(ParseError, match="found version unknown"):
        load(path)
    path.write_bytes(np.random.default_rng(0).bytes(1000))
    with pytest.raises(ParseError, match="expected a circuit written by save"):
        load(path)


def test_compressed_archives_are_not_loaded(tmp_path):
    path = tmp_path / "packed.npz"
    np.savez_compressed(path, version=np.array([1]))
    with pytest.raises(ParseError, match="its arrays are compressed"):
        load(path)


def test_files_of_earlier_versions_are_read():
    """Written by 0.2.0 and kept: whoever changes the format goes on reading them."""
    files = Path(__file__).parent / "files"
    assert load(files / "version_1.npz").marginals()[0].tolist() == [0.2, 0.8]
    network = load(files / "version_2.npz")
    found = network.marginals({"smoke": "yes", "dysp": "yes"})["lung"]
    np.testing.assert_allclose(found, asia().marginals({"smoke": "yes", "dysp": "yes"})["lung"])
