import numpy as np
import pytest
from hypothesis import strategies as st

from circuit_oracles import log_joint
from expectedkernels import (
    BayesianNetwork,
    Categorical,
    Circuit,
    CircuitError,
    DataError,
    EvidenceError,
    FactorGraph,
    Gaussian,
    Product,
    PropertyError,
    algebra,
    asia,
    collapsed_gibbs,
    factorized,
    gaussian_mixture,
    gibbs,
    ising_grid,
    mixture,
)
from factor_graphs import scores

seeds = st.integers(0, 2**32 - 1)
nan = np.nan


def joint(target):
    """The unnormalised probabilities of all states, one axis per variable."""
    if isinstance(target, FactorGraph):
        return scores(target).reshape(target.cardinalities)
    return np.exp(log_joint(target))


def drawn_target(seed):
    """A factor graph with two to four states per variable and no zeros."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(2, 5, size=3).tolist()
    scopes = [(0, 1), (1, 2), (2,)]
    factors = [(s, rng.uniform(0.3, 1.0, [cards[v] for v in s])) for s in scopes]
    return FactorGraph(cards, factors)


def network(rng=0):
    """A network of three variables with two, three and two states."""
    rng = np.random.default_rng(rng)
    tables = [rng.dirichlet(np.full(2, 3.0))]
    tables += [rng.dirichlet(np.full(3, 3.0), size=2), rng.dirichlet(np.full(2, 3.0), size=(2, 3))]
    return BayesianNetwork([[], [0], [0, 1]], tables, names=["a", "b", "c"])


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
    X = gibbs(target, 6000 // chains, 20, 3, rng=5, scan=scan, chains=chains)
    assert_frequencies(X, exact)


def test_frequencies_of_one_state_of_many_chains():
    model = drawn_target(2)
    X = gibbs(model, 1, burn_in=30, rng=1, chains=4000)
    assert X.shape == (4000, 1, 3)
    assert_frequencies(X, joint(model), effective=1.0)


def test_the_paper_grid():
    grid = ising_grid(4, 4, rng=0)
    circuit, _ = grid.compile()
    X = gibbs(grid, 1000, burn_in=2000, thin=100, rng=0)
    exact = np.array([table[1] for table in circuit.marginals()])
    error = np.sqrt(exact * (1 - exact) / 300)
    assert (np.abs(X.mean(axis=0) - exact) <= 5 * error).all()
    pair = np.mean(X[:, 5] * X[:, 6])
    both = exact[5] * circuit.marginals({5: 1})[6][1]
    assert abs(pair - both) <= 5 * np.sqrt(both * (1 - both) / 300)


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
    X = gibbs(target, n, burn_in, thin, rng=0, start=[0, 0, 0, 0], chains=chains)
    assert X.shape == ((n, 4) if chains == 1 else (chains, n, 4))
    visited = [variable for variable, _ in target.calls]
    assert len(visited) == burn_in + n * thin
    assert visited == ([0, 2, 3] * len(visited))[: len(visited)]
    steps = burn_in + thin * np.arange(1, n + 1)
    np.testing.assert_array_equal(X.sum(axis=-1), np.broadcast_to(steps, X.shape[:-1]))


def test_the_paper_records_after_steps_divisible_by_thin():
    target = Recorder()
    X = gibbs(target, 3, burn_in=200, thin=100, rng=0, start=[0, 0, 0, 0])
    recorded = [step for step in range(1, 501) if step > 200 and step % 100 == 0]
    assert X.sum(axis=1).tolist() == recorded


def test_random_scan_visits_all_variables_alike():
    target = Recorder()
    gibbs(target, 1, thin=3000, rng=0, scan="random")
    counts = np.bincount([variable for variable, _ in target.calls], minlength=4)
    assert counts[1] == 0
    assert (np.abs(counts[[0, 2, 3]] - 1000) < 5 * np.sqrt(3000 * 2 / 9)).all()


@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize("chains", [1, 3, 20])
def test_models_and_circuits_give_the_same_chain(chains, scan):
    grid = ising_grid(2, 3, rng=0, cardinality=3)
    circuit, _ = grid.compile()
    options = {"rng": 7, "scan": scan, "chains": chains}
    X = gibbs(grid, 40, 5, 3, **options)
    np.testing.assert_array_equal(gibbs(circuit, 40, 5, 3, **options), X)
    np.testing.assert_array_equal(collapsed_gibbs(grid, 40, [], 5, 3, **options), X)
    hidden = collapsed_gibbs(grid, 40, [1, 4], 5, 3, **options)
    np.testing.assert_array_equal(collapsed_gibbs(circuit, 40, [1, 4], 5, 3, **options), hidden)


@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize(("chains", "thin"), [(1, 1500), (20, 90)])
def test_longer_chains_begin_alike(chains, thin, scan):
    # more steps than random numbers are drawn for at once
    grid = ising_grid(2, 3, rng=0)
    short = gibbs(grid, 10, 5, thin, rng=1, scan=scan, chains=chains)
    long = gibbs(grid, 25, 5, thin, rng=1, scan=scan, chains=chains)
    np.testing.assert_array_equal(long[..., :10, :], short)
    again = gibbs(grid, 10, 5, thin, rng=np.random.default_rng(1), scan=scan, chains=chains)
    np.testing.assert_array_equal(again, short)
    assert short.dtype.kind == "i"
    assert (gibbs(grid, 10, 5, thin, rng=2, scan=scan, chains=chains) != short).any()


def test_evidence():
    target = network()
    exact = joint(target)[:, 1]
    circuit, _ = target.compile()
    for model, given_ in [
        (target, {"b": 1}),
        (target, [nan, 1, nan]),
        (target, {1: {1}}),
        (circuit, {1: 1}),
        (circuit, [nan, 1, nan]),
    ]:
        X = gibbs(model, 4000, 10, 2, rng=3, evidence=given_)
        assert (X[:, 1] == 1).all()
        assert_frequencies(X[:, [0, 2]], exact)


def test_soft_evidence():
    target = network()
    weights = np.array([0.5, 0.0, 0.2])
    exact = joint(target) * weights[:, None]
    circuit, _ = target.compile()
    for model in (target, circuit):
        assert_frequencies(gibbs(model, 4000, 10, 3, rng=3, evidence={1: weights}), exact)


def test_observed_variables_are_not_visited():
    grid = ising_grid(2, 2, rng=0)
    given_ = {0: 1, 3: 0}
    X = gibbs(grid, 6, rng=0, start=[1, 0, 0, 0], evidence=given_)
    changed = X[1:] != X[:-1]
    # steps take turns between the other two
    assert not changed[::2, 2].any() or not changed[::2, 1].any()
    assert (X[:, [0, 3]] == [1, 0]).all()


def test_collapsed_frequencies():
    target = network(3)
    exact = joint(target).sum(axis=1)
    circuit, _ = target.compile()
    for model, collapsed in [
        (target, {"b"}),
        (target, "b"),
        (target, [1]),
        (target, np.array([False, True, False])),
        (circuit, {1}),
        (circuit, 1),
    ]:
        rows = collapsed_gibbs(model, 4000, collapsed, 10, 2, rng=3)
        assert rows.dtype == np.float64
        assert np.isnan(rows[:, 1]).all()
        assert_frequencies(rows[:, [0, 2]].astype(int), exact)


def test_collapsed_chains_with_evidence():
    target = network(3)
    exact = joint(target)[1].sum(axis=0)
    circuit, _ = target.compile()
    for model in (target, circuit):
        rows = collapsed_gibbs(model, 500, [1], rng=0, chains=12, evidence={0: 1})
        assert rows.shape == (12, 500, 3)
        assert (rows[..., 0] == 1).all()
        assert_frequencies(rows[..., [2]].astype(int), exact, effective=1.0)


def test_asia_with_either_collapsed():
    target = asia()
    circuit, _ = target.compile()
    rows = collapsed_gibbs(target, 2000, {"either"}, burn_in=2000, thin=70, rng=0)
    exact = np.array([table[0] for table in circuit.marginals()])
    found = np.array([table[:, 0].mean() for table in circuit.marginals(rows)])
    assert (np.abs(found - exact) <= 5 * np.sqrt(exact * (1 - exact) / 1000)).all()


def test_everything_or_nothing_to_sample():
    grid = ising_grid(2, 2, rng=0)
    circuit, _ = grid.compile()
    for model in (grid, circuit):
        rows = collapsed_gibbs(model, 3, range(4), rng=0)
        assert rows.shape == (3, 4)
        assert np.isnan(rows).all()
        fixed = gibbs(model, 3, rng=0, evidence=[0, 1, 1, 0])
        np.testing.assert_array_equal(fixed, [[0, 1, 1, 0]] * 3)
        assert gibbs(model, 0, 10, rng=0).shape == (0, 4)
        assert gibbs(model, 0, 10, rng=0, chains=2).shape == (2, 0, 4)


def test_real_variables_can_be_collapsed():
    one = Product([Categorical(0, [0.9, 0.1]), Gaussian(1, 0.0, 1.0)])
    other = Product([Categorical(0, [0.2, 0.8]), Gaussian(1, 3.0, 1.0)])
    p = mixture([Circuit.from_units(one), Circuit.from_units(other)], [0.5, 0.5])
    rows = collapsed_gibbs(p, 2000, [1], rng=0)
    assert abs(rows[:, 0].mean() - 0.45) < 0.06
    with pytest.raises(PropertyError, match=r"Variable 1 is real; it can be summed out"):
        gibbs(p, 3)


def test_states_of_an_array_target_and_other_places():
    pytest.importorskip("torch")
    circuit, _ = ising_grid(2, 2, rng=0).compile()
    np.testing.assert_array_equal(gibbs(circuit.to("torch"), 5, rng=0), gibbs(circuit, 5, rng=0))


BAD_ARGUMENTS = [
    (
        {"n": -1},
        r"The 'n' parameter of gibbs must be an int in the range \[0, inf\). Got -1 instead",
    ),
    ({"n": 2.0}, r"The 'n' parameter of gibbs must be an int"),
    ({"burn_in": -1}, r"The 'burn_in' parameter of gibbs must be an int in the range \[0, inf\)"),
    (
        {"thin": 0},
        r"The 'thin' parameter of gibbs must be an int in the range \[1, inf\). Got 0 instead",
    ),
    ({"chains": 0}, r"The 'chains' parameter of gibbs must be an int in the range \[1, inf\)"),
    ({"chains": True}, r"The 'chains' parameter of gibbs must be an int"),
    ({"rng": "seed"}, r"The 'rng' parameter must be a non-negative int"),
    ({"scan": ["random"]}, r"must be 'systematic' or 'random'. Got \['random'\] instead"),
    ({"scan": "zigzag"}, r"must be 'systematic' or 'random'. Got 'zigzag' instead"),
    ({"target": "grid"}, r"or a Target made of a function. Got str"),
    ({"start": [0, 1]}, r"of shape \(4,\), or one per chain, \(1, 4\). Got shape \(2,\)"),
    ({"start": [0, 1, 2, 0]}, r"The 'start' on variable 2 must be integers in 0..1. Got 2.0"),
    ({"start": [0, 1, nan, 0]}, r"The 'start' must be complete"),
    ({"start": [0] * 4, "evidence": {1: 1}}, r"Variable 1 can only be 1, and starts at 0"),
    ({"evidence": [0, 1]}, r"must have shape \(rows, 4\)"),
    ({"evidence": {7: 0}}, r"an int in 0..3. Got 7"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_ARGUMENTS)
def test_bad_arguments(changes, message):
    arguments = {"target": ising_grid(2, 2, rng=0), "n": 3} | changes
    with pytest.raises(CircuitError, match=message):
        gibbs(**arguments)


def test_bad_targets():
    with pytest.raises(CircuitError, match="Evidence and collapsed variables need a FactorGraph"):
        gibbs(Recorder(), 1, evidence={0: 1})
    with pytest.raises(CircuitError, match="Evidence and collapsed variables need a FactorGraph"):
        collapsed_gibbs(Recorder(), 1, [0])
    p = factorized([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(CircuitError, match="root"):
        gibbs(algebra.stack([p, p]), 1)
    with pytest.raises(PropertyError, match="negative"):
        gibbs(mixture([p, factorized([[0.4, 0.6], [0.4, 0.6]])], [1.5, -0.5], normalized=False), 1)
    with pytest.raises(PropertyError, match="Variable 0 is real"):
        gibbs(gaussian_mixture([1.0], [[0.0]], [[1.0]]), 1)
    with pytest.raises(EvidenceError, match="one row of evidence"):
        gibbs(p, 1, evidence=[[0, nan], [1, nan]])


def test_bad_collapsed_variables():
    grid = ising_grid(2, 2, rng=0)
    circuit, _ = grid.compile()
    with pytest.raises(EvidenceError, match=r"an int in 0..3. Got 4"):
        collapsed_gibbs(grid, 1, [4])
    with pytest.raises(EvidenceError, match=r"an int in 0..3. Got 'x'"):
        collapsed_gibbs(grid, 1, {"x"})
    with pytest.raises(EvidenceError, match=r"an int in 0..3. Got 4"):
        collapsed_gibbs(circuit, 1, [4])
    with pytest.raises(
        CircuitError, match=r"must have shape .*\(4,\), and hold booleans. Got shape \(2,\)"
    ):
        collapsed_gibbs(grid, 1, [True, False])
    with pytest.raises(CircuitError, match="a set of numbers or names, or a mask"):
        collapsed_gibbs(grid, 1, 0.5)
    for model in (grid, circuit):
        with pytest.raises(EvidenceError, match="Variable 2 is observed and collapsed at once"):
            collapsed_gibbs(model, 1, [2], evidence={2: 0})
    with pytest.raises(EvidenceError, match=r"Variable 5 .'either'. is observed and collapsed"):
        collapsed_gibbs(asia(), 1, {"either"}, evidence={"either": "yes"})


def test_a_start_at_collapsed_variables_is_not_looked_at():
    grid = ising_grid(2, 2, rng=0)
    one = collapsed_gibbs(grid, 3, [0], rng=0, start=[nan, 1, 0, 1])
    other = collapsed_gibbs(grid, 3, [0], rng=0, start=[9, 1, 0, 1])
    np.testing.assert_array_equal(one, other)


def test_a_target_with_an_impossible_start():
    class Nowhere(Recorder):
        def site_logs(self, X, variable):
            return np.full((len(X), self.cardinalities[variable]), -np.inf)

    with pytest.raises(DataError, match=r"Variable 0 has no possible state given the others"):
        gibbs(Nowhere(), 1, start=[0, 0, 0, 0])
