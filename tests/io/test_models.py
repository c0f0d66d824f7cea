import numpy as np
import pytest

from expectedkernels import (
    BayesianNetwork,
    ParseError,
    PropertyError,
    Vtree,
    asia,
    io,
    ising_grid,
    write_uai,
)


@pytest.mark.parametrize("name", ["model", "model.uai", "model.bif.gz"])
def test_formats_are_told_by_their_contents(tmp_path, name):
    path = tmp_path / name
    write_uai(ising_grid(2, 2, rng=0), path)
    assert io.read_model(path).n_variables == 4
    io.write_bif(asia(), path)
    assert isinstance(io.read_model(path), BayesianNetwork)


def test_compile(tmp_path):
    grid = ising_grid(3, 3, rng=0)
    write_uai(grid, tmp_path / "grid.uai")
    circuit, log_z = io.compile_file(tmp_path / "grid.uai")
    np.testing.assert_allclose(log_z, grid.log_partition(), rtol=1e-14)
    assert circuit.vtree == grid.vtree
    linear = Vtree.right_linear(9)
    assert io.compile_file(tmp_path / "grid.uai", vtree=linear)[0].vtree == linear


def test_evidence(tmp_path):
    io.write_bif(asia(), tmp_path / "asia.bif")
    io.write_uai_evidence({2: 0}, tmp_path / "smoker.evid")
    circuit, log_z = io.compile_file(tmp_path / "asia.bif", tmp_path / "smoker.evid")
    np.testing.assert_allclose(log_z, np.log(0.5), rtol=1e-12)
    np.testing.assert_allclose(circuit.marginals()[3], [0.1, 0.9], rtol=1e-12)
    io.write_uai_evidence([{2: 0}, {2: 1}], tmp_path / "two.evid")
    with pytest.raises(ParseError, match="expected one set of observations, found 2"):
        io.compile_file(tmp_path / "asia.bif", tmp_path / "two.evid")
    io.write_uai_evidence([{1: 0, 5: 1}], tmp_path / "impossible.evid")
    with pytest.raises(PropertyError, match="Z = 0"):
        io.compile_file(tmp_path / "asia.bif", tmp_path / "impossible.evid")
    (tmp_path / "none.evid").write_text("")
    np.testing.assert_allclose(
        io.compile_file(tmp_path / "asia.bif", tmp_path / "none.evid")[1], 0.0, atol=1e-14
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the declaration of at least one variable"),
        ("vtree 3", "line 1: expected 'network', 'variable', .* found 'vtree'"),
        ("CSV 1 2", "line 1: expected 'MARKOV' or 'BAYES', found 'CSV'"),
    ],
)
def test_other_files(tmp_path, text, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(ParseError, match=message):
        io.read_model(tmp_path / "a.txt")
