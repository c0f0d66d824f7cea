"""All subsets of what a row shows at once, against one prediction for each of them."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.estimators import lattice
from expectedkernels.estimators.lattice import Lattice

NAN = np.nan


@pytest.fixture(autouse=True)
def _few_players(monkeypatch):
    monkeypatch.setattr(lattice, "FEWEST_PLAYERS", 0)


def one_by_one(model, z, players, who):
    """The predictions given all subsets: the first player is the lowest bit."""
    Z = np.tile(z, (2 ** len(who), 1))
    for k, player in enumerate(who):
        hidden = (np.arange(len(Z)) >> k) & 1 == 0
        Z[np.ix_(hidden, players[player])] = NAN
    return model._answers(Z).reshape(len(Z), -1)


def check(model, Z, players, who=None):
    players = [np.array(player) for player in players]
    every = Lattice(model._machine.expansion, model.density_, players)
    for z in Z:
        active = [k for k, player in enumerate(players) if not np.isnan(z[player]).all()]
        active = active if who is None else [k for k in who if k in active]
        found = every.worth(z, active)
        np.testing.assert_allclose(found, one_by_one(model, z, players, active), atol=1e-12)


def table(n=70, seed=0):
    """A one-hot group, a column of few values, and three of many, of which one has a spike."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    group = (rng.integers(3, size=n) + (z > 0)) % 3
    real = z[:, None] + rng.normal(size=(n, 3))
    real[rng.random(n) < 0.4, 2] = 0.0
    X = np.column_stack([np.eye(3)[group], np.round(z), real])
    return X, np.sin(z) + (group == 1) + 0.3 * real[:, 0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"density": "mixture", "random_state": 0},
        {"density": "strudel", "random_state": 0},
    ],
    ids=["tree", "mixture", "strudel"],
)
def test_all_subsets_at_once(options, monkeypatch):
    X, y = table()
    model = ek.ExpectedSVR(
        C=3.0, groups=[[0, 1, 2]], n_bins=4, **({"density": "chow_liu"} | options)
    ).fit(X, y)
    Z = X[:4].copy()
    Z[1, 3], Z[2, 4], Z[3, [1, 2]] = NAN, NAN, NAN
    Z[3, 0] = 0.0  # one bit of the group is known
    alone = [[0, 1, 2], [3], [4], [5], [6]]
    check(model, Z, alone)
    check(model, Z, alone, who=[4, 1])
    check(model, Z, [[3, 6], [4, 0, 1, 2], [5]])  # a player on both sides of the root
    check(model, Z, [[5], [6]])  # the others are known
    monkeypatch.setattr(lattice, "AT_ONCE", 4000)  # some points at a time
    check(model, Z, alone)


@pytest.mark.parametrize("seed", range(4))
def test_random_circuits_and_several_outputs(seed):
    rng = np.random.default_rng(seed)
    cards = [2, 3, 2, 4]
    circuit = ek.random_circuit(ek.Vtree.random(4, rng), 3, rng, cardinalities=cards)
    X = np.stack([rng.integers(c, size=30) for c in cards], axis=1).astype(float)
    y = np.column_stack([X[:, 0], np.sin(X[:, 1] + X[:, 3])])
    model = ek.ExpectedKernelRidge(density=circuit, alpha=0.1).fit(X, y)
    check(model, X[:3], [[i] for i in range(4)])
    check(model, X[:3], [[0, 3], [1, 2]])


def test_a_single_column():
    X = np.arange(20.0)[:, None]
    model = ek.ExpectedKernelRidge(density="chow_liu").fit(X, X[:, 0])
    check(model, X[:3], [[0]])


def test_what_is_left_to_sweeps(monkeypatch):
    X, y = table()
    model = ek.ExpectedSVR(groups=[[0, 1, 2]], n_bins=4, density="chow_liu").fit(X, y)
    players = [np.array([k]) for k in range(7)]
    expansion, density = model._machine.expansion, model.density_
    assert Lattice(expansion, density, players).owners is None  # bits of one variable
    whole = Lattice(expansion, density, [np.arange(3), *players[3:]])
    assert whole.worth(X[0], [0, 1]) is not None
    with monkeypatch.context() as patch:
        patch.setattr(lattice, "SMALLEST", 1.0)
        assert whole.worth(X[0], [0, 1]) is None
    with monkeypatch.context() as patch:
        patch.setattr(lattice, "LARGEST", 3)
        assert whole.worth(X[0], [0, 1]) is None
    monkeypatch.setattr(lattice, "FEWEST_PLAYERS", 3)
    assert whole.worth(X[0], [0, 1]) is None


def test_explanations_are_the_same_either_way(monkeypatch):
    X, y = table()
    model = ek.ExpectedSVC(groups=[[0, 1, 2]], n_bins=4, density="chow_liu").fit(
        X, np.digitize(y, [-0.5, 0.8])
    )
    Z = X[:5].copy()
    Z[2, 4:] = NAN
    for players in (None, [0, 1, 2, 3, 5], [[4, 3], 6]):
        with monkeypatch.context() as patch:
            patch.setattr(lattice, "FEWEST_PLAYERS", 100)
            swept = ek.shapley_values(model, Z, players, interactions=True)
        found = ek.shapley_values(model, Z, players, interactions=True)
        for name in ("values", "base_values", "predictions", "interactions"):
            np.testing.assert_allclose(getattr(found, name), getattr(swept, name), atol=1e-12)
