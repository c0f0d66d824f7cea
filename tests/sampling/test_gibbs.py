import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_raises, refusals
from factor_graphs import equal_chain, scores
from oracles import worlds
from stein_oracles import joint

nan, GRID = np.nan, ek.ising_grid(2, 2, rng=0)


def drawn_target(seed):
    """A factor graph with two to four states per variable and no zeros."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(2, 5, size=3).tolist()
    scopes = [(0, 1), (1, 2), (2,)]
    factors = [(s, rng.uniform(0.3, 1.0, [cards[v] for v in s])) for s in scopes]
    return ek.FactorGraph(cards, factors)


def network(rng=0):
    """A network of three variables with two, three and two states."""
    rng = np.random.default_rng(rng)
    tables = [rng.dirichlet(np.full(2, 3.0))]
    tables += [rng.dirichlet(np.full(3, 3.0), size=2), rng.dirichlet(np.full(2, 3.0), size=(2, 3))]
    return ek.BayesianNetwork([[], [0], [0, 1]], tables, names=["a", "b", "c"])


def assert_frequencies(X, probabilities, effective=0.2):
    """Compare frequencies of states with probabilities: five standard errors of a dependent chain.

    `effective` is the number of independent states that one recorded state stands for.
    """
    p = probabilities / probabilities.sum()
    X = X.reshape(-1, X.shape[-1])
    n = len(X) * effective
    counts = np.bincount(np.ravel_multi_index(X.T, p.shape), minlength=p.size)
    share = (counts / len(X)).reshape(p.shape)
    assert not share[p == 0].any()
    assert (np.abs(share - p) <= 5 * np.sqrt(p * (1 - p) / n) + 5 / n).all()


@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize("chains", [1, 3, 50])
@pytest.mark.parametrize("kind", ["graph", "network", "circuit"])
def test_frequencies(kind, chains, scan):
    target = network() if kind == "network" else drawn_target(1)
    exact = joint(target)
    if kind == "circuit":
        target, _ = target.compile()
    X = ek.gibbs(target, 6000 // chains, 20, 3, rng=5, scan=scan, chains=chains)
    assert_frequencies(X, exact)


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
    assert_frequencies(X[:, [0, 2]], exact)
    for model in (target, circuit):
        for form in ([nan, 1, nan], {1: {1}}, {1: 1}):
            again = ek.gibbs(model, 4000, 10, 2, rng=3, evidence=form)
            np.testing.assert_array_equal(again, X)
    weights = np.array([0.5, 0.0, 0.2])
    exact = joint(target) * weights[:, None]
    for model in (target, circuit):
        assert_frequencies(ek.gibbs(model, 4000, 10, 3, rng=3, evidence={1: weights}), exact)


def test_collapsed_variables():
    target = network(3)
    circuit, _ = target.compile()
    rows = ek.collapsed_gibbs(target, 4000, {"b"}, 10, 2, rng=3)
    assert rows.dtype == np.float64
    assert np.isnan(rows[:, 1]).all()
    assert_frequencies(rows[:, [0, 2]].astype(int), joint(target).sum(axis=1))
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
        assert_frequencies(rows[..., [2]].astype(int), exact, effective=1.0)


def test_everything_or_nothing_to_sample():
    grid = ek.ising_grid(2, 2, rng=0)
    circuit, _ = grid.compile()
    for model in (grid, circuit):
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
    ({"n": -1}, r"'n' parameter of gibbs must be an int in the range \[0, inf\). Got -1"),
    ({"n": 2.0}, "'n' parameter of gibbs must be an int"),
    ({"burn_in": -1}, r"'burn_in' parameter of gibbs must be an int in the range \[0, inf\)"),
    ({"thin": 0}, r"'thin' parameter of gibbs must be an int in the range \[1, inf\). Got 0"),
    ({"chains": 0}, r"'chains' parameter of gibbs must be an int in the range \[1, inf\)"),
    ({"chains": True}, "'chains' parameter of gibbs must be an int"),
    ({"rng": "seed"}, "The 'rng' parameter must be a non-negative int"),
    ({"scan": ["random"]}, r"must be 'systematic' or 'random'. Got \['random'\] instead"),
    ({"scan": "zigzag"}, "must be 'systematic' or 'random'. Got 'zigzag' instead"),
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


@pytest.mark.parametrize(("collapsed", "message"), [
    ([4], "an int in 0..3. Got 4"),
    ({"x"}, "an int in 0..3. Got 'x'"),
    ([True, False], r"mask of booleans of shape .*\(4,\). Got \[True, False\]"),
    (0.5, "a set of numbers or names, or a mask"),
    ([2], "Variable 2 is observed and collapsed at once"),
])  # fmt: skip
def test_bad_collapsed_variables(collapsed, message):
    grid = ek.ising_grid(2, 2, rng=0)
    for model in (grid, grid.compile()[0]):
        with pytest.raises(ek.CircuitError, match=message):
            ek.collapsed_gibbs(model, 1, collapsed, evidence={2: 0})
    with pytest.raises(ek.EvidenceError, match=r"Variable 5 .'either'. is observed and collapsed"):
        ek.collapsed_gibbs(ek.asia(), 1, {"either"}, evidence={"either": "yes"})


def test_a_start_at_collapsed_variables_is_not_looked_at():
    grid = ek.ising_grid(2, 2, rng=0)
    one = ek.collapsed_gibbs(grid, 3, [0], rng=0, start=[nan, 1, 0, 1])
    other = ek.collapsed_gibbs(grid, 3, [0], rng=0, start=[9, 1, 0, 1])
    np.testing.assert_array_equal(one, other)


def test_a_target_with_an_impossible_start():
    class Nowhere(Recorder):
        def site_logs(self, X, variable):
            return np.full((len(X), self.cardinalities[variable]), -np.inf)

    with pytest.raises(ek.DataError, match=r"Variable 0 has no possible state given the others"):
        ek.gibbs(Nowhere(), 1, start=[0, 0, 0, 0])


def test_asia_has_two_classes():
    network = ek.asia()
    verdict = ek.stein.irreducible(network)
    assert verdict.holds is False
    assert "2 classes" in verdict.reason
    message = r"the variables 'tub', 'lung', 'either' split .* 2 classes .* Marginalise 'either'"
    with pytest.warns(ek.ReducibleWarning, match=message) as caught:
        X = ek.gibbs(network, 50, rng=0)
    assert caught[0].filename == __file__
    assert len(np.unique(X[:, 5])) == 1
    circuit, _ = network.compile()
    with pytest.warns(ek.ReducibleWarning, match="2 classes"):
        ek.gibbs(circuit, 5, rng=0)


def test_asia_is_not_warned_of_when_either_is_collapsed_or_observed():
    circuit, _ = ek.asia().compile()
    for target in (ek.asia(), circuit):
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


def test_too_many_states_to_look_at():
    long = equal_chain(20, np.array([[1.0, 1.0], [1.0, 0.0]]))
    assert ek.stein.irreducible(long).holds is None
    with pytest.warns(ek.ReducibleWarning, match=r"has zeros over the variables 0, 1, .*may split"):
        ek.gibbs(long, 3, rng=0)
    circuit, _ = long.compile()
    with pytest.warns(ek.ReducibleWarning, match=r"The model has zeros. They may split"):
        ek.gibbs(circuit, 3, rng=0)


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


def test_zeros_that_a_large_circuit_shows_on_the_way():
    halves = [ek.factorized([[1.0, 0.0]] * 20), ek.factorized([[0.0, 1.0]] * 20)]
    p = ek.mixture([*halves, ek.factorized([[0.0, 1.0]] * 20)])  # not deterministic
    with pytest.warns(ek.ReducibleWarning, match=r"The model has zeros. They may split"):
        X = ek.gibbs(p, 3, rng=0)
    assert len(np.unique(X)) == 1


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
    with pytest.raises(ek.DataError, match=r"Chain 1 would start at the impossible state \[0, 1\]"):
        ek.gibbs(equal_chain(2), 1, start=[[0, 0], [0, 1]], chains=2)
