"""Circuits to and from libcirkit and SPFlow: the same values, and what does not fit is refused."""

import sys
import warnings
from importlib import import_module

import numpy as np
import pytest
from scipy import sparse

import expectedkernels as ek
from assertions import assert_raises, refusals
from oracles import Inner, Table


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
    X[np.random.default_rng(2).random(X.shape) < 0.3] = np.nan
    np.testing.assert_allclose(back.log_likelihood(X), model.log_likelihood(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("product", ["cp", "cp-t", "tucker"])
@pytest.mark.parametrize("optimize", [False, True])
def test_templates_of_libcirkit_are_read(cirkit, torch, product, optimize):
    modalities = import_module("cirkit.templates.data_modalities")
    parameters = import_module("cirkit.templates.utils").Parameterization
    torch.manual_seed(0)
    symbolic = modalities.image_data(
        (1, 2, 3),
        region_graph="quad-tree-2",
        input_layer="categorical",
        num_input_units=3,
        sum_product_layer=product,
        num_sum_units=2,
        sum_weight_param=parameters(activation="softmax", initialization="normal"),
    )
    context = cirkit.PipelineContext("torch", semiring="lse-sum", fold=True, optimize=optimize)
    theirs = context.compile(symbolic)
    X = np.random.default_rng(0).integers(0, 256, (20, 6))
    found = ek.models.from_cirkit(theirs)
    np.testing.assert_allclose(
        found.log_likelihood(X.astype(float)), values(theirs, X, torch), rtol=0, atol=1e-10
    )
    assert abs(found.log_partition()) < 1e-10


def test_signed_and_unnormalised_tables_become_embeddings(cirkit, torch):
    a, b = (
        ek.factorized([[1.0, 3.0], [2.0, 5.0]], normalized=False),
        ek.factorized([[0.5, 0.5]] * 2),
    )
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
    graph = modalities.image_data(
        (1, 2, 3), region_graph="quad-graph", input_layer="categorical", **sizes
    )
    with pytest.raises(ek.PropertyError, match="not structured-decomposable"):
        ek.as_model(cirkit.compile(graph))
    binomial = modalities.image_data(
        (1, 2, 3), region_graph="quad-tree-2", input_layer="binomial", **sizes
    )
    with pytest.raises(ek.CircuitError, match="libcirkit has a TorchBinomialLayer"):
        ek.as_model(cirkit.compile(binomial))


def test_spflow_gives_the_same_likelihoods_both_ways(spflow, torch, model):
    X = model.sample(40, rng=1)
    X[np.random.default_rng(2).random(X.shape) < 0.3] = np.nan
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
    X = np.random.default_rng(0).integers(0, 2, (20, 8)).astype(float)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    for module in spflow_modules(spflow):
        assert_same_in_spflow(module, X, torch, ek.models.from_spflow(module))


def test_binomial_leaves_and_random_structures_of_spflow_are_read(spflow, torch):
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  the package shuffles by it
    leaves = spflow["leaves"]
    rng = np.random.default_rng(0)
    binomial = spflow["products"].Product(
        leaves.Binomial(
            [0, 1], total_count=torch.tensor(3.0), probs=torch.tensor([[[0.2]], [[0.7]]])
        )
    )
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
