"""Full conditionals in all forms, and the classes of states that single updates connect."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse.csgraph import connected_components

import expectedkernels as ek
from circuit_oracles import drawn_deterministic, drawn_distribution
from expectedkernels.sampling import gibbs as sites
from expectedkernels.sampling.gibbs import count_classes, sampled_model
from factor_graphs import equal_chain, factor_graphs, scores
from oracles import worlds
from stein_oracles import joint

seeds = st.integers(0, 2**32 - 1)
POSITIONS = (np.arange(500) + 0.5) / 500
"""Numbers in [0, 1): the share of those that lead to a state is its probability, up to 1/500."""


def assert_conditionals(model, probabilities, collapsed=()):
    """Compare the conditionals of all sites at all possible states with enumeration."""
    marginal = probabilities.sum(axis=tuple(collapsed), keepdims=True)
    states = worlds(probabilities.shape).astype(np.int64)
    for site in model.sites:
        lines = np.moveaxis(np.broadcast_to(marginal, probabilities.shape), site.variable, -1)
        for x in states[:: max(1, len(states) // 20)]:
            others = np.delete(x, site.variable)
            line = lines[tuple(others)]
            if line.sum() == 0:
                continue
            found = site.draw(np.repeat(x[None], len(POSITIONS), axis=0), POSITIONS)
            if isinstance(site, sites.TableSite):
                one = [site.draw_one(x.tolist(), u) for u in POSITIONS.tolist()]
                np.testing.assert_array_equal(found, one)
            share = np.bincount(found, minlength=len(line)) / len(POSITIONS)
            assert not share[line == 0].any()
            assert np.abs(share - line / line.sum()).max() <= 1.01 / len(POSITIONS)


ROUTES = {
    "tables": {},
    "sums": {"SITE_ENTRIES": 0},
    "one circuit": {"TABLE_STATES": 0},
    "circuits of parts": {"TABLE_STATES": 0, "compiles": False},
}


def drawn_collapsed(model, seed):
    rng = np.random.default_rng(seed)
    return np.flatnonzero(rng.random(model.n_variables) < 0.5).tolist()


@pytest.mark.parametrize("route", ROUTES)
@settings(max_examples=25)
@given(model=factor_graphs(), seed=seeds, collapse=st.booleans())
def test_conditionals_of_factor_graphs(route, model, seed, collapse):
    collapsed = drawn_collapsed(model, seed) if collapse else []
    compile_model = ek.FactorGraph.compile

    def refuse(self, *args, **options):
        if "max_bytes" not in options:
            raise ek.SizeError("too large")
        return compile_model(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        for name, value in ROUTES[route].items():
            if name == "compiles":
                patch.setattr(ek.FactorGraph, "compile", refuse)
            else:
                patch.setattr(sites, name, value)
        found = sampled_model(model, collapsed, None, "gibbs")
        assert_conditionals(found, joint(model), collapsed)


@settings(max_examples=30)
@given(seeds, st.booleans(), st.booleans(), st.sampled_from([0, 2**16]))
def test_conditionals_of_circuits(seed, deterministic, collapse, states):
    p = drawn_deterministic(seed) if deterministic else drawn_distribution(seed, n_max=4)
    collapsed = drawn_collapsed(p, seed) if collapse else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sites, "TABLE_STATES", states)
        assert_conditionals(sampled_model(p, collapsed, None, "gibbs"), joint(p), collapsed)


def test_conditionals_are_evaluated_once(monkeypatch):
    monkeypatch.setattr(sites, "TABLE_STATES", 0)
    rows = []
    log_likelihood = ek.Circuit.log_likelihood

    def counted(self, X):
        rows.append(len(X))
        return log_likelihood(self, X)

    monkeypatch.setattr(ek.Circuit, "log_likelihood", counted)
    circuit, _ = ek.ising_grid(2, 2, rng=0).compile()
    ek.gibbs(circuit, 500, rng=0, chains=10)
    # four variables with eight states of the others, two values each; and the starts
    assert sum(rows) <= 4 * 8 * 2 + 10


@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize("chains", [1, 3, 20])
def test_all_ways_to_draw_give_the_same_chain(chains, scan, monkeypatch):
    grid = ek.ising_grid(2, 3, rng=0, cardinality=3)
    circuit, _ = grid.compile()
    options = {"rng": 7, "scan": scan, "chains": chains}
    X = ek.gibbs(grid, 40, 5, 3, **options)
    hidden = ek.collapsed_gibbs(grid, 40, [1, 4], 5, 3, **options)
    np.testing.assert_array_equal(ek.collapsed_gibbs(grid, 40, [], 5, 3, **options), X)
    for same in (circuit, ek.Target(grid.log_score, grid.cardinalities)):
        np.testing.assert_array_equal(ek.gibbs(same, 40, 5, 3, **options), X)
    again = ek.collapsed_gibbs(circuit, 40, [1, 4], 5, 3, **options)
    np.testing.assert_array_equal(again, hidden)
    monkeypatch.setattr(sites, "SITE_ENTRIES", 0)
    monkeypatch.setattr(sites, "CACHED", 10)
    monkeypatch.setattr(sites, "TABLE_STATES", 0)
    for target in (grid, circuit):
        np.testing.assert_array_equal(ek.gibbs(target, 40, 5, 3, **options), X)
    np.testing.assert_array_equal(ek.collapsed_gibbs(grid, 40, [1, 4], 5, 3, **options), hidden)


def classes(possible):
    """The number of connected parts of a set of states, by comparing all pairs of them."""
    points = np.argwhere(possible)
    linked = (points[:, None] != points[None, :]).sum(axis=2) <= 1
    return connected_components(linked, directed=False)[0]


@settings(max_examples=60)
@given(seeds)
def test_count_classes(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 4, size=rng.integers(1, 5))
    possible = np.asarray(rng.random(shape) < rng.uniform(0.2, 0.9))
    assert count_classes(possible) == (classes(possible) if possible.any() else 0)


@settings(max_examples=60)
@given(factor_graphs(), seeds, st.sampled_from([0, 2**16]))
def test_classes_of_factor_graphs(model, seed, states):
    rng = np.random.default_rng(seed)
    collapsed = np.flatnonzero(rng.random(model.n_variables) < 0.4).tolist()
    possible = scores(model).reshape(model.cardinalities) > 0
    expected = classes(possible.any(axis=tuple(collapsed)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sites, "TABLE_STATES", states)
        found = sampled_model(model, collapsed, None, "gibbs").connectivity()
    assert found.classes == expected
    if found.remedy:
        after = possible.any(axis=tuple({*collapsed, *map(int, found.remedy.split(","))}))
        assert classes(after) == 1
    circuit, _ = model.compile()
    assert sampled_model(circuit, collapsed, None, "gibbs").connectivity().classes == expected


def test_classes_of_groups_multiply():
    pairs = ek.FactorGraph([2] * 40, [((i, i + 1), np.eye(2)) for i in range(0, 40, 2)])
    assert sampled_model(pairs, (), None, "gibbs").connectivity().classes == 2**20
    assert ek.stein.irreducible(pairs, collapsed=range(0, 40, 2))


def test_remedies_sum_out_what_others_determine():
    network = ek.asia()
    found = sampled_model(network, (), None, "gibbs").connectivity()
    assert (found.classes, found.remedy) == (2, "'either'")
    found = sampled_model(equal_chain(3), (), None, "gibbs").connectivity()
    assert (found.classes, found.remedy) == (2, "0, 1")


def test_evidence_fixes_variables():
    grid = ek.ising_grid(2, 2, rng=0)
    assert sampled_model(grid, (), {0: 1, 3: 0}, "gibbs").fixed == {0: 1, 3: 0}


def test_zeros_of_circuits_too_large_for_products(monkeypatch):
    halves = [ek.factorized([[1.0, 0.0]] * 20), ek.factorized([[0.0, 1.0]] * 20)]
    monkeypatch.setattr(sites, "PRODUCT_PAIRS", 0)
    with pytest.warns(ek.ReducibleWarning, match=r"The model has zeros. They may split"):
        ek.gibbs(ek.mixture(halves), 3, rng=0)
