"""Chains of Gibbs updates, their full conditionals, and the classes of states they connect."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.sparse.csgraph import connected_components

import expectedkernels as ek
from assertions import assert_frequencies, assert_raises, refusals
from circuit_oracles import drawn_deterministic, drawn_distribution
from expectedkernels.sampling import gibbs as sites
from expectedkernels.sampling.gibbs import sampled_model
from factor_graphs import equal_chain, factor_graphs, scores
from oracles import worlds
from stein_oracles import joint
from strategies import seeds

nan, GRID = np.nan, ek.ising_grid(2, 2, rng=0)


def network(rng=0):
    """A network of three variables with two, three and two states."""
    rng = np.random.default_rng(rng)
    tables = [rng.dirichlet(np.full(2, 3.0))]
    tables += [rng.dirichlet(np.full(3, 3.0), size=2), rng.dirichlet(np.full(2, 3.0), size=(2, 3))]
    return ek.BayesianNetwork([[], [0], [0, 1]], tables, names=["a", "b", "c"])


CHAIN = 0.29
"""The number of independent states that one state of a chain stands for, at least."""


@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize("chains", [1, 3, 50])
@pytest.mark.parametrize("kind", ["graph", "network", "circuit"])
def test_frequencies(kind, chains, scan):
    target = network()
    exact = joint(target)
    if kind != "network":
        graph = ek.FactorGraph(target.cardinalities, target.factors)
        target = graph if kind == "graph" else graph.circuit()
    X = ek.gibbs(target, 6000 // chains, 20, 3, rng=5, scan=scan, chains=chains)
    assert_frequencies(X, exact, CHAIN)


class Recorder:
    """A target that counts: every update of a variable raises its state by one."""

    cardinalities = (1000, 1, 1000, 1000)

    def __init__(self):
        self.calls = []

    def site_logs(self, X, variable):
        self.calls.append((variable, X.copy()))
        logs = np.full((len(X), self.cardinalities[variable]), -50.0)
        logs[np.arange(len(X)), (X[:, variable] + 1) % 1000] = 50.0
        return logs


@pytest.mark.parametrize("chains", [1, 2])
@pytest.mark.parametrize(("n", "burn_in", "thin"), [(4, 20, 10), (3, 0, 1), (5, 7, 4), (2, 3, 1)])
def test_steps(n, burn_in, thin, chains):
    target = Recorder()
    X = ek.gibbs(target, n, burn_in, thin, rng=0, start=[0, 0, 0, 0], chains=chains)
    assert X.shape == ((n, 4) if chains == 1 else (chains, n, 4))
    visited = [variable for variable, _ in target.calls]
    assert len(visited) == burn_in + n * thin
    assert visited == ([0, 2, 3] * len(visited))[: len(visited)]
    steps = burn_in + thin * np.arange(1, n + 1)
    np.testing.assert_array_equal(X.sum(axis=-1), np.broadcast_to(steps, X.shape[:-1]))


def test_random_scan_visits_all_variables_alike():
    target = Recorder()
    ek.gibbs(target, 1, thin=3000, rng=0, scan="random")
    counts = np.bincount([variable for variable, _ in target.calls], minlength=4)
    assert counts[1] == 0
    assert (np.abs(counts[[0, 2, 3]] - 1000) < 5 * np.sqrt(3000 * 2 / 9)).all()


@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize(("chains", "thin"), [(1, 1500), (20, 90)])
def test_longer_chains_begin_alike(chains, thin, scan):
    # more steps than random numbers are drawn for at once
    grid = ek.ising_grid(2, 3, rng=0)
    short = ek.gibbs(grid, 10, 5, thin, rng=1, scan=scan, chains=chains)
    long = ek.gibbs(grid, 25, 5, thin, rng=1, scan=scan, chains=chains)
    np.testing.assert_array_equal(long[..., :10, :], short)
    again = ek.gibbs(grid, 10, 5, thin, rng=np.random.default_rng(1), scan=scan, chains=chains)
    np.testing.assert_array_equal(again, short)
    assert short.dtype.kind == "i"
    assert (ek.gibbs(grid, 10, 5, thin, rng=2, scan=scan, chains=chains) != short).any()


def test_evidence():
    target = network()
    exact = joint(target)[:, 1]
    circuit, _ = target.compile()
    X = ek.gibbs(target, 4000, 10, 2, rng=3, evidence={"b": 1})
    assert (X[:, 1] == 1).all()
    assert_frequencies(X[:, [0, 2]], exact, CHAIN)
    for model in (target, circuit):
        for form in ([nan, 1, nan], {1: {1}}, {1: 1}):
            again = ek.gibbs(model, 4000, 10, 2, rng=3, evidence=form)
            np.testing.assert_array_equal(again, X)
    weights = np.array([0.5, 0.0, 0.2])
    exact = joint(target) * weights[:, None]
    for model in (target, circuit):
        assert_frequencies(ek.gibbs(model, 4000, 10, 3, rng=3, evidence={1: weights}), exact, CHAIN)


def test_collapsed_variables():
    target = network(3)
    circuit, _ = target.compile()
    rows = ek.collapsed_gibbs(target, 4000, {"b"}, 10, 2, rng=3)
    assert rows.dtype == np.float64
    assert np.isnan(rows[:, 1]).all()
    assert_frequencies(rows[:, [0, 2]], joint(target).sum(axis=1), CHAIN)
    for model, form in [
        *((target, form) for form in ("b", [1], np.array([False, True, False]))),
        *((circuit, form) for form in ({1}, 1)),
    ]:
        again = ek.collapsed_gibbs(model, 4000, form, 10, 2, rng=3)
        np.testing.assert_array_equal(again, rows)


def test_collapsed_chains_with_evidence():
    target = network(3)
    exact = joint(target)[1].sum(axis=0)
    circuit, _ = target.compile()
    for model in (target, circuit):
        rows = ek.collapsed_gibbs(model, 500, [1], rng=0, chains=12, evidence={0: 1})
        assert rows.shape == (12, 500, 3)
        assert (rows[..., 0] == 1).all()
        assert_frequencies(rows[..., [2]], exact)


def test_everything_or_nothing_to_sample():
    for model in (GRID, GRID.circuit()):
        rows = ek.collapsed_gibbs(model, 3, range(4), rng=0)
        assert rows.shape == (3, 4)
        assert np.isnan(rows).all()
        fixed = ek.gibbs(model, 3, rng=0, evidence=[0, 1, 1, 0])
        np.testing.assert_array_equal(fixed, [[0, 1, 1, 0]] * 3)
        assert ek.gibbs(model, 0, 10, rng=0).shape == (0, 4)
        assert ek.gibbs(model, 0, 10, rng=0, chains=2).shape == (2, 0, 4)


def test_real_variables_can_be_collapsed():
    one = ek.Product([ek.Categorical(0, [0.9, 0.1]), ek.Gaussian(1, 0.0, 1.0)])
    other = ek.Product([ek.Categorical(0, [0.2, 0.8]), ek.Gaussian(1, 3.0, 1.0)])
    p = ek.mixture([ek.Circuit.from_units(one), ek.Circuit.from_units(other)], [0.5, 0.5])
    rows = ek.collapsed_gibbs(p, 2000, [1], rng=0)
    assert abs(rows[:, 0].mean() - 0.45) < 0.06
    assert_raises(ek.PropertyError, r"Variable 1 is real; it can be marginalised", ek.gibbs, p, 3)


test_bad_arguments = refusals(ek.CircuitError, [
    *(({name: x}, rf"'{name}' parameter of gibbs must be an int .*\[{low}, inf\). Got {x}")
      for name, x, low in [("n", -1, 0), ("n", 2.0, 0), ("burn_in", -1, 0), ("thin", 0, 1),
                           ("chains", 0, 1), ("chains", True, 1)]),
    ({"rng": "seed"}, "The 'rng' parameter must be a non-negative int"),
    *(({"scan": x}, "must be 'systematic' or 'random'. Got .* instead") for x in (["random"], "x")),
    ({"target": "grid"}, "or a Target made of a function. Got str"),
    ({"start": [0, 1]}, r"of shape \(4,\), or one per chain, \(1, 4\). Got shape \(2,\)"),
    ({"start": [0, 1, 2, 0]}, "The 'start' on variable 2 must be integers in 0..1. Got 2.0"),
    ({"start": [0, 1, nan, 0]}, "The 'start' must be complete"),
    ({"start": [0] * 4, "evidence": {1: 1}}, "Variable 1 can only be 1, and starts at 0"),
    ({"evidence": [0, 1]}, r"must have shape \(rows, 4\)"),
    ({"evidence": {7: 0}}, "an int in 0..3. Got 7"),
], lambda changes: ek.gibbs(**{"target": GRID, "n": 3} | changes))  # fmt: skip


SUBTRACTED = ek.mixture([ek.factorized([[0.5, 0.5]] * 2), ek.factorized([[0.4, 0.6]] * 2)],
                        [1.5, -0.5], normalized=False)  # fmt: skip
OF_GRAPHS = "Evidence and collapsed variables need a FactorGraph"


test_bad_targets = refusals(None, [
    (lambda: ek.gibbs(Recorder(), 1, evidence={0: 1}), ek.CircuitError, OF_GRAPHS),
    (lambda: ek.collapsed_gibbs(Recorder(), 1, [0]), ek.CircuitError, OF_GRAPHS),
    (lambda: ek.gibbs(ek.algebra.stack([SUBTRACTED] * 2), 1), ek.CircuitError, "root"),
    (lambda: ek.gibbs(SUBTRACTED, 1), ek.PropertyError, "negative"),
    (lambda: ek.gibbs(ek.gaussian_mixture([1.0], [[0.0]], [[1.0]]), 1), ek.PropertyError,
     "Variable 0 is real"),
    (lambda: ek.gibbs(ek.factorized([[0.5, 0.5]] * 2), 1, evidence=[[0, nan], [1, nan]]),
     ek.EvidenceError, "one row of evidence"),
])  # fmt: skip


test_bad_collapsed_variables = refusals(ek.CircuitError, [
    *((model, *row) for model in (GRID, GRID.circuit()) for row in [
        ([4], "an int in 0..3. Got 4"),
        ({"x"}, "an int in 0..3. Got 'x'"),
        ([True, False], r"mask of booleans of shape .*\(4,\). Got \[True, False\]"),
        (0.5, "a set of numbers or names, or a mask"),
        ([2], "Variable 2 is observed and collapsed at once"),
    ]),
    (ek.asia(), {"smoke"}, r"Variable 2 .'smoke'. is observed and collapsed"),
], lambda model, collapsed: ek.collapsed_gibbs(model, 1, collapsed, evidence={2: 0}))  # fmt: skip


def test_a_start_at_collapsed_variables_is_not_looked_at():
    chains = (ek.collapsed_gibbs(GRID, 3, [0], rng=0, start=[x, 1, 0, 1]) for x in (nan, 9))
    np.testing.assert_array_equal(*chains)


def test_a_target_with_an_impossible_start():
    class Nowhere(Recorder):
        def site_logs(self, X, variable):
            return np.full((len(X), self.cardinalities[variable]), -np.inf)

    message = "Variable 0 has no possible state given the others"
    assert_raises(ek.DataError, message, ek.gibbs, Nowhere(), 1, start=[0, 0, 0, 0])


def test_asia_has_two_classes():
    network = ek.asia()
    message = r"the variables 'tub', 'lung', 'either' split .* 2 classes .* Marginalise 'either'"
    with pytest.warns(ek.ReducibleWarning, match=message) as caught:
        X = ek.gibbs(network, 50, rng=0)
    assert caught[0].filename == __file__
    assert len(np.unique(X[:, 5])) == 1
    for target in (network, network.circuit()):
        verdict = ek.stein.irreducible(target)
        assert verdict.holds is False
        assert "2 classes" in verdict.reason
        with pytest.warns(ek.ReducibleWarning, match="2 classes"):
            ek.gibbs(target, 5, rng=0)
        # but one where the variable is collapsed or observed
        ek.collapsed_gibbs(target, 5, [5], rng=0)
        ek.gibbs(target, 5, rng=0, evidence={5: 1})
        assert ek.stein.irreducible(target, collapsed=[5])
        assert ek.stein.irreducible(target, evidence={5: 0})


def test_zeros_that_do_no_harm():
    # at most one of two neighbours is in state one: all states lead to zero
    hard_core = equal_chain(6, np.array([[1.0, 1.0], [1.0, 0.0]]))
    X = ek.gibbs(hard_core, 4000, 60, 6, rng=0)  # without a warning
    assert not (X[:, 1:] & X[:, :-1]).any()
    possible = worlds([2] * 6)[scores(hard_core) > 0]
    np.testing.assert_allclose(X.mean(axis=0), possible.mean(axis=0), atol=0.04)


def test_zeros_among_too_many_states_to_look_at(monkeypatch):
    long = equal_chain(20, np.array([[1.0, 1.0], [1.0, 0.0]]))
    assert ek.stein.irreducible(long).holds is None
    with pytest.warns(ek.ReducibleWarning, match=r"has zeros over the variables 0, 1, .*may split"):
        ek.gibbs(long, 3, rng=0)
    zero, one = ek.factorized([[1.0, 0.0]] * 20), ek.factorized([[0.0, 1.0]] * 20)
    message = r"The model has zeros. They may split"
    for p in (long.circuit(), ek.mixture([zero, one, one])):  # the second is not deterministic
        with pytest.warns(ek.ReducibleWarning, match=message):
            X = ek.gibbs(p, 3, rng=0)
    assert len(np.unique(X)) == 1
    monkeypatch.setattr(sites, "PRODUCT_PAIRS", 0)
    with pytest.warns(ek.ReducibleWarning, match=message):
        ek.gibbs(ek.mixture([zero, one]), 3, rng=0)


def test_large_circuits_without_zeros():
    grid, _ = ek.ising_grid(3, 6, rng=0).compile()
    several = ek.mixture([grid, grid.condition({0: {0, 1}, 1: [0.2, 0.8]})], [0.5, 0.5])
    ek.gibbs(grid, 3, rng=0)  # without a warning
    ek.gibbs(grid, 3, rng=0, evidence={3: 1})
    ek.gibbs(several, 3, rng=0)
    ek.gibbs(ek.factorized([[0.5, 0.5]] * 20), 3, rng=0)
    assert ek.stein.irreducible(grid)
    assert ek.stein.irreducible(several).holds is None
    assert "not known" in ek.stein.irreducible(several).reason


def test_remedies_are_named_if_they_are_known():
    for model, match in (
        (equal_chain(3), r"Marginalise 0, 1 with collapsed_gibbs"),
        (equal_chain(3).compile()[0], r"Marginalise the variables that are functions"),
    ):
        with pytest.warns(ek.ReducibleWarning, match=match):
            ek.gibbs(model, 3, rng=0)


@pytest.mark.filterwarnings("ignore::expectedkernels.ReducibleWarning")
@pytest.mark.parametrize("chains", [1, 30])
def test_a_possible_start_is_found(chains):
    needle = equal_chain(40, np.eye(3))
    circuit, _ = needle.compile()
    for model in (needle, circuit):
        X = ek.gibbs(model, 2, rng=0, chains=chains).reshape(-1, 40)
        assert (X[:, :1] == X).all()
    given_ = ek.gibbs(needle, 2, rng=0, chains=chains, evidence={7: 2})
    assert (given_ == 2).all()
    if chains > 1:  # the start is a sample of the model: all classes occur
        assert set(X[:, 0].tolist()) == {0, 1, 2}


@pytest.mark.filterwarnings("ignore::expectedkernels.ReducibleWarning")
def test_networks_start_from_their_roots(monkeypatch):
    def refuse(self, *args, **options):
        raise ek.SizeError("too large")

    monkeypatch.setattr(ek.FactorGraph, "sample", refuse)
    network = ek.asia()
    X = ek.gibbs(network, 1, rng=0, chains=200)[:, 0]
    assert (network.log_score(X) > -np.inf).all()
    X = ek.gibbs(network, 1, rng=0, chains=20, evidence={"either": "yes", "tub": "no"})[:, 0]
    assert (network.log_score(X) > -np.inf).all()
    with pytest.raises(ek.CircuitError, match=r"too large to sample. Give one as 'start'"):
        ek.gibbs(equal_chain(40, np.eye(3)), 1, rng=0)


def test_impossible_models_and_starts():
    nothing = ek.FactorGraph([2, 2], [((0, 1), np.eye(2)), ((0,), [1.0, 0.0]), ((1,), [0.0, 1.0])])
    for call in (
        lambda: ek.gibbs(nothing, 1, rng=0),
        lambda: ek.gibbs(ek.FactorGraph([2], [((), 0.0)]), 1, rng=0),
        lambda: ek.gibbs(ek.asia(), 1, rng=0, evidence={"either": "no", "tub": "yes"}),
        lambda: ek.collapsed_gibbs(nothing, 1, [0], rng=0),
    ):
        assert_raises(ek.PropertyError, "zero at every state", call)
    message, starts = r"Chain 1 would start at the impossible state \[0, 1\]", [[0, 0], [0, 1]]
    assert_raises(ek.DataError, message, ek.gibbs, equal_chain(2), 1, start=starts, chains=2)


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
