"""Models of other libraries: in, the same answers, and back; what does not fit is refused."""

import sys
import warnings
from importlib import import_module

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from sklearn.mixture import GaussianMixture

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from factor_graphs import random_graph
from network_oracles import random_network
from oracles import Inner, Table, with_holes


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
    scopes, states = [(0, 1), (2, 1), (1, 0), (2,)], [["x", "y"], ["u", "v", "w"], ["k", "l"]]
    grid = random_graph(np.random.default_rng(0), [2, 3, 2], scopes)
    named = ek.FactorGraph(grid.cardinalities, grid.factors, ["a", "b", "c"], states)
    for model in (grid, named):
        for convert in (ek.models.to_pyagrum, ek.models.to_pgmpy):
            again, wanted = ek.as_model(convert(model)), model.marginals()
            for v, name in enumerate(again.names or range(3)):
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
    names = {"b": ["u", "v"], "a": ["yes", "no"]}
    network.add_cpds(
        pgm.TabularCPD("a", 2, [[0.1], [0.9]], state_names={"a": ["no", "yes"]}),
        pgm.TabularCPD("b", 2, [[0.8, 0.3], [0.2, 0.7]], ["a"], [2], state_names=names),
    )
    wanted = [0.9 * 0.8 + 0.1 * 0.3, 0.9 * 0.2 + 0.1 * 0.7]
    assert_close(ek.as_model(network).marginals()["b"], wanted)
    network = models.DiscreteMarkovNetwork([("a", "b")])
    names = {"a": ["no", "yes"], "b": [0, 1]}
    network.add_factors(pgm.DiscreteFactor(["a", "b"], [2, 2], [1, 2, 3, 4], state_names=names))
    assert_close(ek.as_model(network).marginals()["a"], [0.3, 0.7])


@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_mixtures_of_scikit_learn_are_circuits(kind):
    X = np.random.default_rng(0).normal(size=(100, 2)) * [1.0, 3.0]
    mixture = GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    found = ek.as_model(mixture).log_likelihood(X)
    np.testing.assert_allclose(found, mixture.score_samples(X), rtol=1e-10)
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


@pytest.fixture(scope="module")
def torch():
    """The package, in double precision: circuits of libcirkit are compiled in its default type."""
    torch = pytest.importorskip("torch")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield torch
    torch.set_default_dtype(before)


def imported(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


@pytest.fixture(scope="module")
def cirkit(torch):
    return imported("cirkit.pipeline")


@pytest.fixture(scope="module")
def spflow(torch):
    imported("spflow.modules.sums")
    return {
        name: import_module(f"spflow.modules.{name}")
        for name in ("einsum", "leaves", "products", "sums")
    }


def normals(rng):
    parts = rng.dirichlet(np.ones(3))
    return ek.gaussian_mixture(parts, rng.normal(size=(3, 4)), rng.gamma(2.0, size=(3, 4)))


def mixed(rng):
    inputs = [
        ek.Product([ek.Categorical(0, rng.dirichlet(np.ones(3))), ek.Gaussian(1, i, 1.0 + i)])
        for i in range(3)
    ]
    return ek.Circuit.from_units(ek.Sum(inputs, rng.dirichlet(np.ones(3))))


MODELS = {
    "dense": lambda rng: ek.random_circuit(6, 3, rng=rng, cardinalities=[3, 2, 4, 2, 3, 2]),
    "sparse": lambda rng: ek.random_circuit(6, 4, rng=rng, density=0.4),
    "compiled": lambda rng: ek.asia().compile()[0],
    "factorized": lambda rng: ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]]),
    "one variable": lambda rng: ek.factorized([[0.2, 0.8]]),
    "normals": normals,
    "mixed": mixed,
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param](np.random.default_rng(0))


def values(circuit, X, torch):
    return circuit(torch.as_tensor(X)).detach().numpy().ravel()


def assert_same_in_spflow(module, X, torch, ours=None):
    theirs = module.log_likelihood(torch.as_tensor(X)).detach().numpy().ravel()
    for model in (ours, ek.as_model(module)):
        if model is not None:
            np.testing.assert_allclose(model.log_likelihood(X), theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("plain", [False, True])
def test_libcirkit_gives_the_same_likelihoods_both_ways(cirkit, torch, model, plain):
    context = cirkit.PipelineContext(
        "torch", semiring="lse-sum", fold=not plain, optimize=not plain
    )
    theirs = context.compile(ek.models.to_cirkit(model))
    X = model.sample(40, rng=1)
    expected = model.log_likelihood(X)
    np.testing.assert_allclose(values(theirs, X, torch), expected, rtol=0, atol=1e-10)
    back = ek.as_model(theirs)
    np.testing.assert_allclose(back.log_likelihood(X), expected, rtol=0, atol=1e-10)
    X = with_holes(X, 0.3)
    np.testing.assert_allclose(back.log_likelihood(X), model.log_likelihood(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("product", ["cp", "cp-t", "tucker"])
@pytest.mark.parametrize("optimize", [False, True])
def test_templates_of_libcirkit_are_read(cirkit, torch, product, optimize):
    modalities = import_module("cirkit.templates.data_modalities")
    parameters = import_module("cirkit.templates.utils").Parameterization
    torch.manual_seed(0)
    sizes = {"num_input_units": 3, "sum_product_layer": product, "num_sum_units": 2}
    weights = {"sum_weight_param": parameters(activation="softmax", initialization="normal")}
    options = {"region_graph": "quad-tree-2", "input_layer": "categorical"}
    symbolic = modalities.image_data((1, 2, 3), **options, **sizes, **weights)
    context = cirkit.PipelineContext("torch", semiring="lse-sum", fold=True, optimize=optimize)
    theirs = context.compile(symbolic)
    X = np.random.default_rng(0).integers(0, 256, (20, 6))
    found = ek.models.from_cirkit(theirs)
    logs = found.log_likelihood(X.astype(float))
    np.testing.assert_allclose(logs, values(theirs, X, torch), rtol=0, atol=1e-10)
    assert abs(found.log_partition()) < 1e-10


def test_signed_and_unnormalised_tables_become_embeddings(cirkit, torch):
    a = ek.factorized([[1.0, 3.0], [2.0, 5.0]], normalized=False)
    b = ek.factorized([[0.5, 0.5]] * 2)
    f = ek.algebra.linear_combination([a, b], [1.0, -0.25])
    context = cirkit.PipelineContext("torch", semiring="sum-product")
    theirs = context.compile(ek.models.to_cirkit(f))
    X = np.array([[i, j] for i in (0, 1) for j in (0, 1)])
    expected = np.exp(f.log_likelihood(X.astype(float)))
    np.testing.assert_allclose(values(theirs, X, torch), expected, rtol=1e-12)
    assert "EmbeddingLayer" in {type(one).__name__ for one in ek.models.to_cirkit(f).layers}
    found = ek.models.from_cirkit(theirs)
    np.testing.assert_allclose(np.exp(found.log_likelihood(X.astype(float))), expected, rtol=1e-12)


def test_what_libcirkit_has_and_circuits_have_not_is_refused(cirkit, torch):
    symbolic = ek.models.to_cirkit(ek.factorized([[0.2, 0.8]] * 2))
    assert_raises(ek.CircuitError, r"compiled form: .* Got Circuit instead", ek.as_model, symbolic)
    modalities = import_module("cirkit.templates.data_modalities")
    sizes = {"num_input_units": 2, "sum_product_layer": "cp", "num_sum_units": 2}
    for graph, layer, error, message in (
        ("quad-graph", "categorical", ek.PropertyError, "not structured-decomposable"),
        ("quad-tree-2", "binomial", ek.CircuitError, "libcirkit has a TorchBinomialLayer"),
    ):
        options = {"region_graph": graph, "input_layer": layer}
        theirs = cirkit.compile(modalities.image_data((1, 2, 3), **options, **sizes))
        assert_raises(error, message, ek.as_model, theirs)


def test_spflow_gives_the_same_likelihoods_both_ways(spflow, torch, model):
    X = with_holes(model.sample(40, rng=1), 0.3)
    assert_same_in_spflow(ek.models.to_spflow(model), X, torch, model)


def spflow_modules(spflow):
    leaves, products, sums = spflow["leaves"], spflow["products"], spflow["sums"]
    eight = list(range(8))

    def categorical(n=3):
        return leaves.Categorical(eight, K=2, out_channels=n)

    factorize = import_module("spflow.modules.rat").Factorize
    yield sums.Sum([products.Product(categorical(1)), products.Product(categorical(1))])
    yield sums.Sum(products.Product(sums.ElementwiseSum([categorical(), categorical()], 2)))
    yield products.Product(leaves.Bernoulli(eight))
    for layer in (spflow["einsum"].EinsumLayer, spflow["einsum"].LinsumLayer):
        yield sums.Sum(products.Product(layer(categorical(), out_channels=2)))
    for product in (products.ElementwiseProduct, products.OuterProduct):
        pairs = sums.Sum(product(categorical(2), num_splits=2), out_channels=2)
        yield sums.Sum(products.Product(pairs))
    yield sums.Sum(products.Product(factorize([categorical()], depth=2, num_repetitions=1)))


def test_modules_of_spflow_are_read(spflow, torch):
    torch.manual_seed(0)
    X = with_holes(np.random.default_rng(0).integers(0, 2, (20, 8)), 0.3)
    for module in spflow_modules(spflow):
        assert_same_in_spflow(module, X, torch, ek.models.from_spflow(module))


def test_binomial_leaves_and_random_structures_of_spflow_are_read(spflow, torch):
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  the package shuffles by it
    leaves = spflow["leaves"]
    rng = np.random.default_rng(0)
    shares = {"total_count": torch.tensor(3.0), "probs": torch.tensor([[[0.2]], [[0.7]]])}
    binomial = spflow["products"].Product(leaves.Binomial([0, 1], **shares))
    assert_same_in_spflow(binomial, rng.integers(0, 4, (20, 2)).astype(float), torch)
    rat = import_module("spflow.zoo.rat").RatSPN
    sizes = {"n_root_nodes": 1, "n_region_nodes": 2, "depth": 2, "outer_product": True}

    def random_structure(n):
        normal = leaves.Normal(list(range(8)), out_channels=3, num_repetitions=n)
        return rat(leaf_modules=[normal], num_repetitions=n, **sizes)

    assert_same_in_spflow(random_structure(1), rng.normal(size=(20, 8)), torch)
    assert_raises(ek.PropertyError, "not structured-decomposable", ek.as_model, random_structure(2))


def test_what_spflow_has_and_circuits_have_not_is_refused(spflow, torch):
    leaves, product = spflow["leaves"], spflow["products"].Product
    for module, message in (
        (product(leaves.Poisson([0, 1])), "SPFlow's Poisson is none of these"),
        (leaves.Categorical([0, 1], K=2, out_channels=3), "module of SPFlow has 6"),
        (leaves.Normal([0], parameter_fn=lambda evidence: {}), "Normal come from a network"),
    ):
        assert_raises(ek.CircuitError, message, ek.as_model, module)


def wide():
    """A circuit with few edges, whose weights with all zeros take more than a gigabyte."""
    n, tables = 12_000, np.random.default_rng(0).dirichlet(np.ones(2), size=110)
    weights = sparse.csr_array(0.5 * (sparse.eye(n) + sparse.eye(n, k=1) + sparse.eye(n, k=1 - n)))
    pairs = Inner(n, n, *np.divmod(np.arange(n), 110), weights)
    root = Inner(n, 1, np.zeros(n, dtype=int), np.arange(n), np.full((1, n), 1 / n))
    blocks = [Table(np.full((1, 2), 0.5)), Table(tables), Table(tables), pairs, root]
    return ek.Circuit.from_blocks(ek.Vtree.from_nested((0, (1, 2))), blocks)


test_what_does_not_fit_is_refused_before_the_package_is_needed = refusals(None, [
    (lambda: ek.factorized([[1.0, 3.0]], normalized=False), ek.CircuitError,
     r"log of the circuit's sum is 1.386.*normalize\(\)"),
    (ek.asia, ek.CircuitError, "for SPFlow is made of a Circuit: compile"),
    (lambda: ek.factorized([[1.0], [0.5, 0.5]]), ek.CircuitError,
     "SPFlow have at least two states. Variable 0"),
    (wide, ek.SizeError, "layers of SPFlow are dense.* 12000 times 12000 weights"),
], lambda model: ek.models.to_spflow(model()))  # fmt: skip


@pytest.mark.parametrize(
    ("convert", "package", "name"),
    [(ek.models.to_cirkit, "cirkit", "libcirkit"), (ek.models.to_spflow, "spflow", "spflow")],
)
def test_packages_that_are_absent_are_named(monkeypatch, convert, package, name):
    for module in [module for module in sys.modules if module.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    assert_raises(ek.CircuitError, f"{name} is not installed", convert, ek.factorized([[0.5, 0.5]]))
