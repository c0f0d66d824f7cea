"""Values with one variable set to each of its states, for all variables at once."""

import numpy as np
import pytest

from assertions import assert_logs_close
from circuit_oracles import drawn_circuit
from expectedkernels import EvidenceError, factorized, mixture
from expectedkernels.circuits import sites


def points_of(circuit, n, seed, missing):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, circuit.cardinalities, size=(n, circuit.n_variables)).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("n", [1, 6])
@pytest.mark.parametrize("seed", range(12))
def test_all_sites_are_the_sites_one_by_one(seed, n, missing, monkeypatch):
    p = drawn_circuit(seed)
    X = points_of(p, n, seed, missing)
    found = p.all_site_logs(X)
    monkeypatch.setattr(sites, "levels_of", lambda p: None)
    for v, (logs, wide) in enumerate(zip(found, p.all_site_logs(X), strict=True)):
        assert_logs_close(logs, p.site_logs(X, v))
        assert_logs_close(wide, p.site_logs(X, v))


@pytest.mark.parametrize("where", ["numpy", "torch"])
@pytest.mark.parametrize("seed", range(4))
def test_several_roots_have_an_axis_of_their_own(seed, where):
    p = drawn_circuit(seed, roots=3, zeros=0.1)
    X = points_of(p, 4, seed, 0.2)
    found = p.to(where).all_site_logs(X)
    for v, card in enumerate(p.cardinalities):
        for state in range(card):
            X[:, v] = state
            assert_logs_close(found[v][:, state], p.log_likelihood(X))
        assert_logs_close(p.to(where).site_logs(X, v), found[v])
        X = points_of(p, 4, seed, 0.2)


def test_some_variables_and_no_rows():
    q = factorized([[0.5, 0.5], [0.1, 0.9]]).with_names(["a", "b"])
    assert_logs_close(q.all_site_logs([[0, 1]], ["b"])[0], np.log([[0.05, 0.45]]))
    assert [logs.shape for logs in q.all_site_logs(np.empty((0, 2)))] == [(0, 2)] * 2


@pytest.mark.parametrize("step", [2.0, 20.0])
def test_sites_out_of_range_are_done_in_wide_numbers(step, monkeypatch):
    far = np.exp([0.0, -step]) / (1 + np.exp(-step))
    tables = [far] * 60 + [far[::-1]] * 60
    p = mixture([factorized(tables), factorized(tables[::-1])])
    X = np.zeros((2, 120))
    X[1, 60:] = 1
    asked = []
    again = sites._wide_atom_logs
    monkeypatch.setattr(
        sites, "_wide_atom_logs", lambda p, rows: asked.append(rows.n_rows) or again(p, rows)
    )
    every = p.all_site_logs(X)
    assert asked == ([2] if step == 20.0 else [])
    for v in (0, 59, 60, 119):
        assert_logs_close(every[v], p.site_logs(X, v))


def test_states_far_likelier_than_the_own_one():
    tiny = 1e-25
    p = factorized([[tiny, 1 - tiny]] * 40)
    X = np.zeros((1, 40))
    for v, logs in enumerate(p.all_site_logs(X)):
        assert_logs_close(logs, p.site_logs(X, v))


def test_real_variables_have_no_states():
    p = drawn_circuit(1, share_real=1.0)
    with pytest.raises(EvidenceError, match="Variable 0 is real"):
        p.all_site_logs(np.zeros((1, p.n_variables)))
