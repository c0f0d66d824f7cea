"""Models of other libraries: in, the same answers, and back."""

import warnings
from importlib import import_module

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import expectedkernels as ek
from assertions import assert_close, assert_raises
from network_oracles import random_network


@pytest.fixture(scope="module")
def pgmpy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [import_module(f"pgmpy.{name}") for name in ("factors.discrete", "inference")]
        return import_module("pgmpy.models"), *parts


def named_network(seed, n=7):
    """A network with names and labels, up to three parents, all orders shuffled."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, n, least=2, zeros=0.0)
    states = [[f"s{i}" for i in range(card)] for card in network.cardinalities]
    return network.with_names([f"n{i}" for i in rng.permutation(n)], states)


@pytest.mark.parametrize("seed", range(2))
def test_pyagrum_networks_give_their_own_marginals(gum, seed):
    network = named_network(seed)
    theirs = ek.models.to_pyagrum(network)
    engine = gum.LazyPropagation(theirs)
    name = network.names[-1]
    engine.setEvidence({name: "s1"})
    engine.makeInference()
    ours = ek.as_model(theirs)
    found = ours.marginals({name: "s1"})
    for other in network.names:
        np.testing.assert_allclose(found[other], engine.posterior(other).toarray(), rtol=1e-10)
    assert ek.mmd(theirs, network) < 1e-7
    assert ek.mmd(network, theirs) < 1e-7


@pytest.mark.parametrize("seed", range(2))
def test_pgmpy_networks_give_their_own_marginals(pgmpy, seed):
    network = named_network(seed)
    theirs = ek.models.to_pgmpy(network)
    assert theirs.check_model()
    name = network.names[-1]
    found = ek.as_model(theirs).marginals({name: "s1"})
    engine = pgmpy[2].VariableElimination(theirs)
    for other in network.names[:-1]:
        posterior = engine.query([other], evidence={name: "s1"}, show_progress=False)
        np.testing.assert_allclose(found[other], posterior.values, rtol=1e-10)
    assert ek.mmd(theirs, network) < 1e-7


@pytest.mark.filterwarnings("ignore")  # binary parts that do not survive warnings as errors
def test_fields_go_to_other_libraries_and_back():
    rng = np.random.default_rng(0)
    tables = [((0, 1), (2, 3)), ((2, 1), (2, 3)), ((1, 0), (3, 2)), ((2,), (2,))]
    grid = ek.FactorGraph([2, 3, 2], [(scope, rng.random(shape)) for scope, shape in tables])
    named = ek.FactorGraph(
        grid.cardinalities, grid.factors, ["a", "b", "c"], [["x", "y"], ["u", "v", "w"], ["k", "l"]]
    )
    for model in (grid, named):
        for convert in (ek.models.to_pyagrum, ek.models.to_pgmpy):
            again = ek.as_model(convert(model))
            order = again.names or range(3)
            wanted = model.marginals()
            for v, name in enumerate(order):
                u = name if model.names else int(str(name).removeprefix("x"))
                np.testing.assert_allclose(again.marginals()[v], wanted[u], rtol=1e-12)


def test_labels_of_some_variables_go_to_other_libraries(gum):
    tables = [[0.2, 0.3, 0.5], [[0.1, 0.9], [0.6, 0.4], [0.5, 0.5]]]
    network = ek.BayesianNetwork([[], [0]], tables, ["dose", "ill"], [None, ["no", "yes"]])
    assert network.states == [None, ["no", "yes"]]
    again = ek.BayesianNetwork(network.parents, tables, network.names, network.states)
    assert again.schema == network.schema
    for convert, labels in ((ek.models.to_pgmpy, [0, 1, 2]), (ek.models.to_pyagrum, list("012"))):
        assert ek.as_model(convert(network)).states == [labels, ["no", "yes"]]


def test_tables_of_one_network_may_order_states_differently(pgmpy):
    models, pgm, _ = pgmpy
    network = models.DiscreteBayesianNetwork([("a", "b")])
    network.add_cpds(
        pgm.TabularCPD("a", 2, [[0.1], [0.9]], state_names={"a": ["no", "yes"]}),
        pgm.TabularCPD(
            "b",
            2,
            [[0.8, 0.3], [0.2, 0.7]],
            ["a"],
            [2],
            state_names={"b": ["u", "v"], "a": ["yes", "no"]},
        ),
    )
    assert_close(
        ek.as_model(network).marginals()["b"], [0.9 * 0.8 + 0.1 * 0.3, 0.9 * 0.2 + 0.1 * 0.7]
    )
    network = models.DiscreteMarkovNetwork([("a", "b")])
    names = {"a": ["no", "yes"], "b": [0, 1]}
    network.add_factors(pgm.DiscreteFactor(["a", "b"], [2, 2], [1, 2, 3, 4], state_names=names))
    assert_close(ek.as_model(network).marginals()["a"], [0.3, 0.7])


@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_mixtures_of_scikit_learn_are_circuits(kind):
    X = np.random.default_rng(0).normal(size=(100, 2)) * [1.0, 3.0]
    mixture = GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    np.testing.assert_allclose(
        ek.as_model(mixture).log_likelihood(X), mixture.score_samples(X), rtol=1e-10
    )
    assert ek.mmd(mixture, ek.as_model(mixture)) < 1e-7


def test_other_things_are_refused(pgmpy):
    assert_raises(ek.CircuitError, r"Got builtins\.dict", ek.as_model, {})
    full = GaussianMixture(1).fit(np.random.default_rng(0).normal(size=(9, 2)))
    assert_raises(ek.CircuitError, r"covariance_type='diag' or 'spherical'. Got", ek.as_model, full)
    with pytest.raises(ek.CircuitError, match=r"not fitted yet"):
        ek.as_model(GaussianMixture(1, covariance_type="diag"))
    lacking = pgmpy[0].DiscreteBayesianNetwork([("a", "b")])
    assert_raises(ek.CircuitError, r"'a' has none: fit the network", ek.as_model, lacking)
    for convert in (ek.models.to_pyagrum, ek.models.to_pgmpy):
        with pytest.raises(ek.CircuitError, match=r"works on BayesianNetworks and FactorGraphs"):
            convert(ek.factorized([[0.5, 0.5]]))
    p = ek.asia()
    assert ek.as_model(p) is p


nx = pytest.importorskip("networkx")


def evaluated(graph, point):
    """The value of the last unit at a point, by the graph alone."""
    values = {}
    for unit in reversed(list(nx.topological_sort(graph))):
        facts, below = graph.nodes[unit], list(graph.successors(unit))
        if facts["kind"] == "input":
            values[unit] = facts["probs"][point[facts["variable"]]]
        elif facts["kind"] == "product":
            values[unit] = np.prod([values[i] for i in below])
        else:
            values[unit] = sum(graph.edges[unit, i]["weight"] * values[i] for i in below)
    return values[max(graph)]


@pytest.mark.parametrize("density", [None, 0.4])
def test_the_graph_of_a_circuit_computes_its_values(density):
    p = ek.random_circuit(4, 3, rng=0, cardinalities=[2, 3, 2, 2], density=density)
    graph = ek.models.to_networkx(p)
    X = p.sample(10, rng=1).astype(int)
    found = [evaluated(graph, x) for x in X]
    np.testing.assert_allclose(np.log(found), p.log_likelihood(X.astype(float)), rtol=1e-12)
    assert [unit for unit, degree in graph.in_degree if not degree] == [max(graph)]


def test_the_graph_of_units_computes_their_values():
    a = ek.Product([ek.Categorical(0, [0.2, 0.8]), ek.Indicator(1, 0, 2)])
    b = ek.Product([ek.Categorical(0, [0.6, 0.4]), ek.Indicator(1, 1, 2)])
    root = ek.Sum([a, b], [0.3, 0.7])
    graph = ek.models.to_networkx(root)
    assert np.log(evaluated(graph, [1, 0])) == pytest.approx(root.log_likelihood([[1.0, 0.0]])[0])
    real = ek.models.to_networkx(ek.Gaussian(0, 1.0, 2.0))
    assert real.nodes[0] == {"kind": "input", "variable": 0, "mean": 1.0, "variance": 2.0}


def test_inputs_have_names_and_the_parameters_of_real_variables():
    p = ek.gaussian_mixture([0.5, 0.5], [[0.0], [1.0]], [[1.0], [2.0]]).with_names(["height"])
    assert_raises(ek.CircuitError, "Got list instead", ek.models.to_networkx, [1, 2])
    [facts] = dict(ek.models.to_networkx(p).nodes(data=True)).values()
    assert facts["variable"] == "height"
    assert facts["mean"].tolist() == [0.0, 1.0]


def test_the_graph_of_a_vtree_has_its_sides():
    vtree = ek.Vtree.random(6, rng=0)
    graph = ek.models.to_networkx(vtree)
    assert nx.is_arborescence(graph)
    for node in range(vtree.n_nodes):
        sides = {facts["side"]: child for _, child, facts in graph.out_edges(node, data=True)}
        if vtree.is_leaf(node):
            assert graph.nodes[node]["variable"] == vtree.variable[node]
        else:
            assert sides == {"left": vtree.left[node], "right": vtree.right[node]}


def test_networks_and_factor_graphs_have_their_scopes():
    network = ek.asia()
    graph = ek.models.to_networkx(network)
    for v, above in enumerate(network.parents):
        name = network.names[v]
        assert sorted(graph.predecessors(name)) == sorted(network.names[u] for u in above)
        assert graph.nodes[name]["table"].shape[-1] == graph.nodes[name]["cardinality"] == 2
    model = ek.ising_grid(2, 3, rng=0)
    graph = ek.models.to_networkx(model)
    assert nx.is_bipartite(graph)
    for i, factor in enumerate(model.factors):
        assert sorted(graph.neighbors(("factor", i))) == sorted(factor.scope)
