"""Files by their suffixes: `ek.load` and `ek.save`."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import expectedkernels as ek
from assertions import assert_raises

CIRCUIT = ek.random_circuit(ek.Vtree.balanced(4), 2, rng=0)
PLAIN = ek.BayesianNetwork([[], [0]], [[0.2, 0.8], [[0.1, 0.9], [0.6, 0.4]]])
NETWORK = PLAIN.with_names(["a", "b"], [["n", "y"]] * 2)
GRAPH = ek.FactorGraph([2, 3], [((0, 1), np.arange(1.0, 7.0).reshape(2, 3))])
STATES = np.indices((2,) * 4).reshape(4, -1).T
SUFFIXES = [".npz", ".psdd", ".jpc", ".spn", ".uai", ".bif", ".vtree", ".skops"]


@pytest.mark.parametrize("suffix", ["", ".npz", ".psdd", ".jpc", ".spn", ".psdd.gz", ".NPZ"])
def test_circuits_by_suffix(tmp_path, suffix):
    path = tmp_path / f"circuit{suffix}"
    ek.save(CIRCUIT, path)
    found, wanted = (p.log_likelihood(STATES) for p in (ek.load(path), CIRCUIT))
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert path.read_bytes().startswith(b"\x1f\x8b") == suffix.endswith(".gz")


@pytest.mark.parametrize("suffix", [".uai", ".bif", ".uai.gz", ".bif.gz"])
def test_models_by_suffix(tmp_path, suffix):
    path = str(tmp_path / f"model{suffix}")
    model = PLAIN if suffix.startswith(".uai") else NETWORK
    ek.save(model, path)
    found = ek.load(path)
    assert isinstance(found, ek.BayesianNetwork)
    X = np.indices((2, 2)).reshape(2, -1).T
    np.testing.assert_allclose(found.log_score(X), NETWORK.log_score(X))
    assert found.names == model.names
    ek.save(GRAPH, tmp_path / "graph.uai")
    found = ek.load(tmp_path / "graph.uai")
    assert type(found) is ek.FactorGraph
    np.testing.assert_allclose(found.factors[0].table, GRAPH.factors[0].table)


def test_a_psdd_takes_the_vtree_beside_it_or_another(tmp_path):
    path = tmp_path / "x.psdd"
    ek.save(CIRCUIT, path)
    ek.save(CIRCUIT.vtree, tmp_path / "same.vtree.gz")
    for name in ("x.vtree", "same.vtree.gz"):
        assert ek.load(tmp_path / name) == CIRCUIT.vtree
    assert ek.load(path).vtree == CIRCUIT.vtree
    beside = (tmp_path / "x.vtree").rename(tmp_path / "other.vtree")
    for vtree in (beside, str(beside), CIRCUIT.vtree):
        assert ek.load(path, vtree=vtree).vtree == CIRCUIT.vtree
    assert_raises(ek.ParseError, r"x\.psdd", ek.load, path, vtree=ek.Vtree.right_linear(4))
    for name in ("x.jpc", "x.spn"):
        ek.save(CIRCUIT, tmp_path / name)
        assert ek.load(tmp_path / name, vtree=str(beside)).vtree == CIRCUIT.vtree


def test_options_go_to_the_reader(tmp_path):
    path = tmp_path / "x.spn"
    path.write_text("(2 2)\nv 0 0\nv 0 1\nv 1 1\n* 1 2\n+ 0 -0.7 3 -0.7\nEOF\n")
    assert_raises(ek.PropertyError, "smooth=True", ek.load, path)
    assert ek.load(path, smooth=True).n_variables == 2
    assert isinstance(ek.load(path, as_units=True), ek.Sum)
    ek.save(GRAPH, tmp_path / "g.uai")
    assert ek.load(tmp_path / "g.uai", names=["a", "b"]).names == ["a", "b"]
    message = r"'vtree' parameter of load is not one of \.uai files"
    assert_raises(ek.CircuitError, message, ek.load, tmp_path / "g.uai", vtree=CIRCUIT.vtree)


@pytest.mark.parametrize("name", ["x.foo", "x.foo.gz", "x.json", "archive.tar"])
def test_unknown_suffixes_are_refused_with_the_known_ones(tmp_path, name):
    for call in (ek.load, lambda path: ek.save(CIRCUIT, path)):
        with pytest.raises(ek.ParseError, match="expected a file that ends in") as caught:
            call(tmp_path / name)
        assert all(suffix in str(caught.value) for suffix in SUFFIXES)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("suffix", ["xmlbif", "bifxml", "xml", "xml.gz"])
def test_xmlbif_files_are_left_to_other_libraries(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    for call in (lambda: ek.save(NETWORK, path), lambda: ek.load(path)):
        assert_raises(ek.ParseError, "as_model takes their networks", call)
    message = r"removed, as pyAgrum .* and pgmpy .* as_model"
    for name in ("read_xmlbif", "write_xmlbif"):
        assert_raises(AttributeError, message, getattr, ek.io, name)
    (tmp_path / "x").write_text("<?xml version='1.0'?><BIF></BIF>")
    assert_raises(ek.ParseError, r"found XML\. pyAgrum", ek.io.read_model, tmp_path / "x")


@pytest.mark.parametrize(("obj", "name", "advice"), [
    (GRAPH, "x.psdd", r"\.psdd file does not hold a FactorGraph.* \.uai, .* model\.circuit\(\)"),
    (GRAPH, "x.npz", r"ends in \.uai, or save its circuit, model\.circuit\(\)"),
    (GRAPH, "x.bif", r"\.bif file does not hold a FactorGraph. Save it .* ends in \.uai\."),
    (NETWORK, "x.jpc", r"ends in \.uai or \.bif, or save its circuit"),
    (CIRCUIT, "x.uai", r"ends in \.npz or \.psdd or \.jpc or \.spn\."),
    (CIRCUIT, "x.vtree", r"or save its vtree, circuit\.vtree"),
    (CIRCUIT, "x.skops", r"\.skops file does not hold a Circuit"),
    (CIRCUIT.vtree, "x.npz", r"\.npz file does not hold a Vtree. Save it .* ends in \.vtree"),
    (ek.Categorical(0, [0.5, 0.5]), "x.npz", r"Save Circuit\.from_units\(root\)"),
    (ek.ExpectedSVR(), "x.npz", r"hold a ExpectedSVR. Save it .* ends in \.skops"),
    (ek.RBF(0.5), "x.npz", r"joblib\.dump and pickle hold kernels"),
    (None, "x.npz", r"hold a NoneType. joblib\.dump"),
    ("x.npz", "y.npz", r"The path comes second"),
], ids=lambda x: x if isinstance(x, str) else type(x).__name__)  # fmt: skip
def test_what_a_file_does_not_hold_is_refused_with_what_to_do(tmp_path, obj, name, advice):
    assert_raises(ek.CircuitError, advice, ek.save, obj, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_names_that_a_format_does_not_hold_are_named_in_a_warning(tmp_path):
    named = CIRCUIT.with_names(list("abcd"), [["n", "y"]] * 4)
    with pytest.warns(UserWarning, match=r"\.psdd files do not hold names .* Save to \.npz"):
        ek.save(named, tmp_path / "x.psdd")
    found = ek.load(tmp_path / "x.psdd", names=named.names, states=named.states)
    assert (found.names, found.states) == (named.names, named.states)
    with pytest.warns(UserWarning, match=r"Save to \.bif to keep"):
        ek.save(NETWORK, tmp_path / "x.uai")
    with pytest.warns(UserWarning, match=r"Save model\.circuit\(\) to \.npz"):
        ek.save(GRAPH.with_names(["a", "b"]), tmp_path / "x.uai")


def test_fitted_estimators_by_suffix(tmp_path):
    pytest.importorskip("skops")
    X = np.array([[0.0, 1.0], [1.0, np.nan], [2.0, 0.5], [np.nan, 2.0]])
    ridge = ek.ExpectedKernelRidge(density="gaussian").fit(X, [0.0, 1.0, 2.0, 3.0])
    for model in (ridge, make_pipeline(ridge)):
        ek.save(model, tmp_path / "model.skops")
        found = ek.load(tmp_path / "model.skops")
        assert type(found) is type(model)
        np.testing.assert_array_equal(found.predict(X), model.predict(X))
    duck, other = type("Duck", (), {"get_params": None})(), tmp_path / "other.skops"
    assert_raises(NotFittedError, "not fitted", ek.save, ek.ExpectedSVR(), other)
    message = r"holds a fitted estimator\. Got Duck instead"
    assert_raises(ek.CircuitError, message, ek.save, duck, other)
    message = r"'names' parameter of load is not one of \.skops"
    assert_raises(ek.CircuitError, message, ek.load, tmp_path / "model.skops", names=["a"])
    message = r"\.skops files are not compressed with gzip"
    assert_raises(ek.ParseError, message, ek.load, tmp_path / "model.skops.gz")


@pytest.mark.parametrize("name", ["model", "model.uai", "model.bif.gz"])
def test_formats_are_told_by_their_contents(tmp_path, name):
    path = tmp_path / name
    ek.write_uai(ek.ising_grid(2, 2, rng=0), path)
    assert ek.io.read_model(path).n_variables == 4
    ek.io.write_bif(ek.asia(), path)
    assert isinstance(ek.io.read_model(path), ek.BayesianNetwork)


def test_models_in_files_are_compiled(tmp_path):
    grid = ek.ising_grid(3, 3, rng=0)
    ek.write_uai(grid, tmp_path / "grid.uai")
    circuit, log_z = ek.io.compile_file(tmp_path / "grid.uai")
    np.testing.assert_allclose(log_z, grid.log_partition(), rtol=1e-14)
    assert circuit.vtree == grid.vtree
    linear = ek.Vtree.right_linear(9)
    assert ek.io.compile_file(tmp_path / "grid.uai", vtree=linear)[0].vtree == linear
    ek.io.write_bif(ek.asia(), tmp_path / "asia.bif")
    ek.io.write_uai_evidence({2: 0}, tmp_path / "smoker.evid")
    circuit, log_z = ek.io.compile_file(tmp_path / "asia.bif", tmp_path / "smoker.evid")
    np.testing.assert_allclose(log_z, np.log(0.5), rtol=1e-12)
    np.testing.assert_allclose(circuit.marginals()[3], [0.1, 0.9], rtol=1e-12)
    files = tmp_path / "asia.bif", tmp_path / "other.evid"
    for evidence, error, message in (
        ([{2: 0}, {2: 1}], ek.ParseError, "expected one set of observations, found 2"),
        ([{1: 0, 5: 1}], ek.PropertyError, "Z = 0"),
    ):
        ek.io.write_uai_evidence(evidence, files[1])
        assert_raises(error, message, ek.io.compile_file, *files)
    files[1].write_text("")
    np.testing.assert_allclose(ek.io.compile_file(*files)[1], 0.0, atol=1e-14)
