"""Graphs of networkx say what circuits, vtrees and models are."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_raises

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
