import warnings

import numpy as np
import pytest

from expectedkernels import (
    CircuitError,
    DataError,
    FactorGraph,
    PropertyError,
    ReducibleWarning,
    SizeError,
    asia,
    collapsed_gibbs,
    factorized,
    gibbs,
    ising_grid,
    mixture,
    stein,
)
from factor_graphs import equal_chain, scores
from oracles import worlds


def test_asia_has_two_classes():
    network = asia()
    verdict = stein.irreducible(network)
    assert verdict.holds is False
    assert "2 classes" in verdict.reason
    message = (
        r"over the variables 'tub', 'lung', 'either' split .* into 2 classes .* Sum out 'either'"
    )
    with pytest.warns(ReducibleWarning, match=message) as caught:
        X = gibbs(network, 50, rng=0)
    assert caught[0].filename == __file__
    assert len(np.unique(X[:, 5])) == 1
    circuit, _ = network.compile()
    with pytest.warns(ReducibleWarning, match="2 classes"):
        gibbs(circuit, 5, rng=0)


def test_asia_is_not_warned_of_when_either_is_collapsed_or_observed():
    circuit, _ = asia().compile()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for target in (asia(), circuit):
            collapsed_gibbs(target, 5, [5], rng=0)
            gibbs(target, 5, rng=0, evidence={5: 1})
            assert stein.irreducible(target, collapsed=[5])
            assert stein.irreducible(target, evidence={5: 0})


def test_zeros_that_do_no_harm():
    # at most one of two neighbours is in state one: all states lead to zero
    hard_core = equal_chain(6, np.array([[1.0, 1.0], [1.0, 0.0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X = gibbs(hard_core, 4000, 60, 6, rng=0)
    assert not (X[:, 1:] & X[:, :-1]).any()
    possible = worlds([2] * 6)[scores(hard_core) > 0]
    np.testing.assert_allclose(X.mean(axis=0), possible.mean(axis=0), atol=0.04)


def test_too_many_states_to_look_at():
    long = equal_chain(20, np.array([[1.0, 1.0], [1.0, 0.0]]))
    assert stein.irreducible(long).holds is None
    with pytest.warns(ReducibleWarning, match=r"has zeros over the variables 0, 1, .*may split"):
        gibbs(long, 3, rng=0)
    circuit, _ = long.compile()
    with pytest.warns(ReducibleWarning, match=r"The model has zeros. They may split"):
        gibbs(circuit, 3, rng=0)


def test_large_circuits_without_zeros():
    grid, _ = ising_grid(3, 6, rng=0).compile()
    several = mixture([grid, grid.condition({0: {0, 1}, 1: [0.2, 0.8]})], [0.5, 0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gibbs(grid, 3, rng=0)
        gibbs(grid, 3, rng=0, evidence={3: 1})
        gibbs(several, 3, rng=0)
        gibbs(factorized([[0.5, 0.5]] * 20), 3, rng=0)
    assert stein.irreducible(grid)
    assert stein.irreducible(several).holds is None
    assert "not known" in stein.irreducible(several).reason


def test_zeros_that_a_large_circuit_shows_on_the_way():
    halves = [factorized([[1.0, 0.0]] * 20), factorized([[0.0, 1.0]] * 20)]
    p = mixture([*halves, factorized([[0.0, 1.0]] * 20)])  # not deterministic
    with pytest.warns(ReducibleWarning, match=r"The model has zeros. They may split"):
        X = gibbs(p, 3, rng=0)
    assert len(np.unique(X)) == 1


def test_equal_variables_have_a_remedy():
    with pytest.warns(ReducibleWarning, match=r"Sum out 1, 2 with collapsed_gibbs"):
        gibbs(equal_chain(3), 3, rng=0)


def test_no_remedy_is_named_if_none_is_known():
    # zero goes with zero only, and neither variable is a function of the other
    exclusive = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]])
    with pytest.warns(ReducibleWarning, match=r"Sum out the variables that are functions"):
        gibbs(FactorGraph([3, 3], [((0, 1), exclusive)]), 3, rng=0)


@pytest.mark.filterwarnings("ignore::expectedkernels.ReducibleWarning")
@pytest.mark.parametrize("chains", [1, 30])
def test_a_possible_start_is_found(chains):
    needle = equal_chain(40, np.eye(3))
    circuit, _ = needle.compile()
    for model in (needle, circuit):
        X = gibbs(model, 2, rng=0, chains=chains).reshape(-1, 40)
        assert (X[:, :1] == X).all()
    given_ = gibbs(needle, 2, rng=0, chains=chains, evidence={7: 2})
    assert (given_ == 2).all()
    if chains > 1:  # the start is a sample of the model: all classes occur
        assert set(X[:, 0].tolist()) == {0, 1, 2}


@pytest.mark.filterwarnings("ignore::expectedkernels.ReducibleWarning")
def test_networks_start_from_their_roots(monkeypatch):
    def refuse(self, *args, **options):
        raise SizeError("too large")

    monkeypatch.setattr(FactorGraph, "sample", refuse)
    network = asia()
    X = gibbs(network, 1, rng=0, chains=200)[:, 0]
    assert (network.log_score(X) > -np.inf).all()
    X = gibbs(network, 1, rng=0, chains=20, evidence={"either": "yes", "tub": "no"})[:, 0]
    assert (network.log_score(X) > -np.inf).all()
    with pytest.raises(CircuitError, match=r"too large to sample. Give one as 'start'"):
        gibbs(equal_chain(40, np.eye(3)), 1, rng=0)


def test_impossible_models_and_starts():
    nothing = FactorGraph([2, 2], [((0, 1), np.eye(2)), ((0,), [1.0, 0.0]), ((1,), [0.0, 1.0])])
    with pytest.raises(PropertyError, match="zero at every state"):
        gibbs(nothing, 1, rng=0)
    with pytest.raises(PropertyError, match="zero at every state"):
        gibbs(FactorGraph([2], [((), 0.0)]), 1, rng=0)
    with pytest.raises(PropertyError, match="zero at every state"):
        gibbs(asia(), 1, rng=0, evidence={"either": "no", "tub": "yes"})
    with pytest.raises(PropertyError, match="zero at every state"):
        collapsed_gibbs(nothing, 1, [0], rng=0)
    with pytest.raises(DataError, match=r"Chain 1 would start at the impossible state \[0, 1\]"):
        gibbs(equal_chain(2), 1, start=[[0, 0], [0, 1]], chains=2)
