"""Every public call knows its gradients, has none to know, or says that it does not follow them."""

from itertools import product

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises
from circuit_oracles import followed, real_mixture

torch = pytest.importorskip("torch")
CARDS = (2, 3, 2)
TREE = ek.learn_chow_liu(ek.random_circuit(3, 2, 0, CARDS).sample(200, rng=0))
P, Q = (ek.random_circuit(TREE.vtree, 2, seed, CARDS) for seed in (0, 1))
NORMALS = ek.gaussian_mixture([0.3, 0.7], [0.0, 2.0], [1.0, 2.0])
X = P.sample(6, rng=1)
E = np.where(np.arange(18).reshape(6, 3) % 4 == 0, np.nan, X)
MANY = np.tile(E, (7, 1))
WEIGHTS = [np.array([[0.5, 1.0]]), np.array([[0.0, 1.0, 0.3]]), np.ones((1, 2))]
K = ek.RBF(0.3) + ek.Delta()


def with_gradients(circuit):
    numbers, build = followed(circuit)
    return build(*numbers)


def joined(parts, axis=0):
    parts = list(parts)
    return torch.cat(parts, axis) if torch.is_tensor(parts[0]) else np.concatenate(parts, axis)


def tensor(x):
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


BY_CIRCUIT = {
    "log_likelihood": lambda p: p.log_likelihood(E),
    "log_likelihood, weights": lambda p: p.log_likelihood(WEIGHTS),
    "log_partition": lambda p: p.log_partition(),
    "site_logs": lambda p: p.site_logs(X, 1),
    "all_site_logs": lambda p: joined(p.all_site_logs(X), 1),
    "marginals": lambda p: joined(p.marginals()),
    "marginals, rows": lambda p: joined(p.marginals(E), 1),
    "marginals, weights": lambda p: joined(p.marginals(WEIGHTS), 1),
    "shift": lambda p: ek.algebra.shift(p, 1).log_likelihood(X),
    "to": lambda p: p.to(p.xp, "float64").log_likelihood(X),
    "log_likelihood, many rows": lambda p: p.log_likelihood(MANY)[:3],
    "mmd": lambda p: ek.mmd(p, Q, K),
    "mmd2": lambda p: ek.mmd2(p, Q, K),
    "mmd2, points": lambda p: ek.mmd2(X, p, K),
    "witness": lambda p: ek.witness(p, Q, K, X),
    "expected_kernel": lambda p: ek.expected_kernel(p, Q, K),
    "expected_kernel, itself": lambda p: ek.expected_kernel(p, p, K),
    "expected_kernel, log": lambda p: ek.expected_kernel(p, Q, K, log=True),
    "expected_kernel, points": lambda p: ek.expected_kernel(p, X[:2], K),
    "expected_kernel, rows": lambda p: ek.expected_kernel(p, Q, K, evidence_p=E[:2]),
    "expected_kernel, many rows": lambda p: ek.expected_kernel(p, Q, K, evidence_p=MANY)[:3],
    "expected_kernel, both": lambda p: ek.expected_kernel(p, p, K, evidence_q=E[:2]),
    "expected_kernel, weights": lambda p: ek.expected_kernel(p, Q, K, evidence_p=WEIGHTS),
    "kdsd": lambda p: ek.kdsd(X, p, K),
    "kdsd, unbiased": lambda p: ek.kdsd(X, p, unbiased=True),
    "kdsd, gibbs": lambda p: ek.kdsd(X, p, K, operator="gibbs"),
    "SteinKernel": lambda p: ek.SteinKernel(p, K)(X, X[:2]),
}

TABLES = [np.random.default_rng(v).normal(size=(card, card)) for v, card in enumerate(CARDS)]
TABLES[1][0, 1] = 0.0  # has a derivative, too
POSITIVE = {
    "RBF": (ek.RBF, 0.3),
    "rates": (ek.RBF, [0.3, 0.1, 0.5]),
    "sum": (lambda a, b, w: w * ek.RBF(a) + ek.ExpHamming(b) + 2.0 * ek.Delta(), 0.3, 0.2, 1.0),
    "product": (
        lambda a, b, w: (w * ek.RBF(a) + ek.Delta()) * (ek.RBF(b) + 3.0 * ek.Laplacian(0.1)),
        0.3,
        0.2,
        0.7,
    ),
}
KERNELS = POSITIVE | {
    "Laplacian": (ek.Laplacian, 0.4),
    "ExpHamming": (ek.ExpHamming, [0.4, 0.2, 0.1]),
    "tables": (lambda a, b: ek.TableKernel([a, b, TABLES[2]]), *TABLES[:2]),
    "tables and rates": (
        lambda a, b: ek.Laplacian(a) * ek.TableKernel([TABLES[0], b, TABLES[2]]) + ek.Delta(),
        0.3,
        TABLES[1],
    ),
    "products of tables": (
        lambda a: ek.TableKernel([a, *TABLES[1:]]) * ek.TableKernel(TABLES),
        TABLES[0],
    ),
}

BY_KERNEL = {
    "matrix": lambda k: k(X),
    "matrix, two sets": lambda k: k(X, X[:2]),
    "circuits": lambda k: ek.expected_kernel(P, Q, k),
    "itself": lambda k: ek.expected_kernel(P, P, k),
    "rows": lambda k: ek.expected_kernel(P.to("torch"), Q, k, evidence_p=E),
    "many rows": lambda k: ek.expected_kernel(P, Q, k, evidence_p=MANY)[:3],
    "points": lambda k: ek.expected_kernel(P, X, k),
    "points and points": lambda k: ek.expected_kernel(X, X[:3], k),
    "weighted points": lambda k: ek.expected_kernel(X, ek.Empirical(X), k),
    "mmd2": lambda k: ek.mmd2(P, Q, k),
    "mmd2, points": lambda k: ek.mmd2(P, X, k),
    "witness": lambda k: ek.witness(P, X, k, X[:2]),
    "kdsd": lambda k: ek.kdsd(Q, TREE, k),
    "kdsd, points": lambda k: ek.kdsd(X, P, k),
    "kdsd, unbiased": lambda k: ek.kdsd(X, P, k, unbiased=True),
    "SteinKernel": lambda k: ek.SteinKernel(P, k, operator="gibbs")(X[:3], X),
}
BY_POSITIVE_KERNEL = {
    "logs": lambda k: k.logs(X[:2], X[2:])[0],
    "log": lambda k: ek.expected_kernel(P, Q, k, log=True),
    "log, points": lambda k: ek.expected_kernel(X, X, k, log=True),
    "mmd": lambda k: ek.mmd(P, Q, k),
    "mmd, points": lambda k: ek.mmd(P, X, k),
}


def check(call, build, numbers, plain):
    """The numbers are those of the CPU, and the derivatives those of finite differences."""
    found, expected = call(build(*numbers)), np.asarray(call(plain))
    assert found.requires_grad
    assert_close(found.detach().numpy(), expected, scale=min(1.0, np.abs(expected).max()))
    # steps so small that what is normalised counts as such all the way
    assert torch.autograd.gradcheck(
        lambda *x: call(build(*x)), numbers, eps=3e-7, atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("call", BY_CIRCUIT)
def test_gradients_by_circuits(call):
    numbers, build = followed(P)
    check(BY_CIRCUIT[call], build, numbers, P)


@pytest.mark.parametrize(
    ("name", "call"), [*product(KERNELS, BY_KERNEL), *product(POSITIVE, BY_POSITIVE_KERNEL)]
)
def test_gradients_by_kernels(name, call):
    make, *values = KERNELS[name]
    check((BY_KERNEL | BY_POSITIVE_KERNEL)[call], make, [*map(tensor, values)], make(*values))


REAL, OTHER = real_mixture(0), real_mixture(1)
PLACES = [[0.3, 2.0, -1.0], [-1.0, 0.0, 0.5]]
ROWS = np.array([[0.3, np.nan, np.nan], [np.nan, 2.0, -1.0]])
OF_REAL_VARIABLES = {
    "circuit": lambda p, k: ek.expected_kernel(p, OTHER, k),
    "itself": lambda p, k: ek.expected_kernel(p, p, k),
    "log": lambda p, k: ek.expected_kernel(p, OTHER, k, log=True),
    "points": lambda p, k: ek.expected_kernel(p, PLACES, k),
    "rows": lambda p, k: ek.expected_kernel(p, OTHER, k, evidence_p=ROWS),
}


@pytest.mark.parametrize("call", OF_REAL_VARIABLES.values(), ids=OF_REAL_VARIABLES)
@pytest.mark.parametrize("make", [
    ek.RBF,
    ek.Laplacian,
    ek.ExpHamming,
    lambda a: ek.RBF(a) * ek.Laplacian(0.4) + ek.ExpHamming(a),
], ids=["RBF", "Laplacian", "ExpHamming", "product"])  # fmt: skip
def test_gradients_on_real_variables(make, call):
    numbers, build = followed(REAL)
    check(lambda p: call(p, make(0.3)), build, numbers, REAL)
    check(lambda p: p.log_likelihood(ROWS), build, numbers, REAL)
    check(lambda k: call(REAL, k), make, [tensor(0.3)], make(0.3))
    check(lambda k: ek.expected_kernel(PLACES, PLACES, k), make, [tensor(0.3)], make(0.3))


def test_gradients_where_values_underflow():
    n = 2000
    tables = np.random.default_rng(0).random((n, 2))
    p = ek.factorized(tables, normalized=False).to("torch")
    numbers, build = followed(p)
    value = ek.expected_kernel(build(*numbers), p, ek.RBF(0.5), log=True)
    assert float(value.detach()) < -750
    gradients = torch.autograd.grad(value, numbers)
    # the logarithm is a sum over variables of log(t' K u), with gradient K u / (t' K u)
    K = np.exp(-0.5 * (1 - np.eye(2)))
    for variable in (0, 7, n - 1):
        leaf = sorted(range(n), key=lambda v: p.vtree.leaf(v)).index(variable)
        t = tables[variable]
        assert_close(gradients[leaf].numpy()[0], K @ t / (t @ K @ t))


@pytest.mark.parametrize(
    "call", [lambda k, p: ek.kdsd(X, p, k), lambda k, p: ek.expected_kernel(p, p, k)]
)
def test_gradients_by_circuits_and_kernels_at_once(call):
    numbers, build = followed(P)

    def both(a, *x):
        return ek.RBF(a), build(*x)

    check(lambda pair: call(*pair), both, [tensor(0.3), *numbers], (ek.RBF(0.3), P))


def test_other_types_of_numbers_know_gradients():
    p = with_gradients(P)
    for where in ("torch", p.xp):
        assert p.to(where, "float32").has_gradients
        assert p.to(where, "float32").to(where, "float64").log_likelihood(X).requires_grad


@pytest.mark.parametrize("call", ["marginals", "marginals, rows", "marginals, weights", "gibbs"])
def test_gradients_by_zeros_that_make_states_impossible(call):
    zeros = ek.factorized([[0.0, 1.0], [0.3, 0.7, 0.0], [0.5, 0.5]], P.vtree)
    rows = np.where(zeros.sample(6, rng=0) == X, X, np.nan)
    calls = BY_CIRCUIT | {
        "marginals, rows": lambda p: joined(p.marginals(rows), 1),
        "gibbs": lambda p: ek.kdsd([[1, 0, 0], [1, 1, 1]], p, K, operator="gibbs").reshape(1),
    }
    numbers, build = followed(zeros)
    found = calls[call](build(*numbers))
    weights = torch.tensor(np.random.default_rng(0).normal(size=found.shape))
    gradients = torch.autograd.grad((weights * found).sum(), numbers)
    for i, gradient in enumerate(gradients):
        for place in np.ndindex(gradient.shape):
            moved = [x.detach().clone().requires_grad_() for x in numbers]
            moved[i].data[place] += 1e-7
            change = (weights * (calls[call](build(*moved)) - found)).sum() / 1e-7
            assert gradient[place] == pytest.approx(float(change.detach()), abs=1e-5)


NOT_BY_CIRCUITS = {
    "normalize": lambda p: p.normalize(),
    "condition": lambda p: p.condition({0: 1}),
    "stack": lambda p: ek.algebra.stack([p, Q]),
    "mixture": lambda p: ek.mixture([Q, p]),
    "linear_combination": lambda p: ek.algebra.linear_combination([p, Q], [0.5, 0.5]),
    "multiply": lambda p: ek.algebra.multiply(p, Q),
    "square": lambda p: ek.algebra.square(p),
    "power": lambda p: ek.algebra.power(p, 2.0),
    "reciprocal": lambda p: ek.algebra.reciprocal(p),
    "logarithm": lambda p: ek.algebra.logarithm(p),
    "quotient": lambda p: ek.algebra.quotient(Q, p),
    "marginalize": lambda p: ek.algebra.marginalize(p, [0]),
    "entropy": lambda p: ek.divergences.entropy(p),
    "cross_entropy": lambda p: ek.divergences.cross_entropy(Q, p),
    "kl_divergence": lambda p: ek.divergences.kl_divergence(p, TREE),
    "power_divergence": lambda p: ek.divergences.power_divergence(p, TREE, 2.0),
    "renyi_divergence": lambda p: ek.divergences.renyi_divergence(p, TREE, 2.0),
    "kdsd": lambda p: ek.kdsd(Q, p),
    "monte_carlo": lambda p: ek.monte_carlo_expected_kernel(p, Q, K, 10),
    "quadrature": lambda p: ek.quadrature(p, X),
    "herd": lambda p: ek.herd(p, 3),
    "group_discrepancies": lambda p: ek.group_discrepancies(p, [{0: 1}]),
    "bbis": lambda p: ek.bbis(p, X),
    "stein_thin": lambda p: ek.stein_thin(p, X, 2),
    "log_partition_estimate": lambda p: ek.log_partition_estimate(p, P.sample(40, rng=0), rng=0),
    "density": lambda p: ek.ExpectedKernelRidge(density=p).fit(X, X[:, 0]),
    "CollapsedSteinKernel": lambda p: ek.CollapsedSteinKernel(p),
    "extended": lambda p: ek.SteinKernel(p).extended(np.ones((2, 2)), X[:2], X),
}


@pytest.mark.parametrize("call", NOT_BY_CIRCUITS)
def test_what_does_not_follow_gradients_by_circuits(call):
    given = with_gradients(TREE)
    with pytest.raises(ek.PropertyError, match=r"not follow gradients.*to\('numpy'\)"):
        NOT_BY_CIRCUITS[call](given)
    NOT_BY_CIRCUITS[call](given.to("numpy"))


def test_means_and_variances_do_not_follow_gradients():
    with pytest.raises(ek.PropertyError, match=r"with gradients .* Variable 0 is real"):
        with_gradients(NORMALS).marginals()


NOT_BY_KERNELS = {
    "monte_carlo": lambda k: ek.monte_carlo_expected_kernel(P, Q, k, 10),
    "quadrature": lambda k: ek.quadrature(P, X, k),
    "herd": lambda k: ek.herd(P, 3, k),
    "group_discrepancies": lambda k: ek.group_discrepancies(P, [{0: 1}], k),
    "bbis": lambda k: ek.bbis(P, X, k),
    "stein_thin": lambda k: ek.stein_thin(P, X, 2, kernel=k),
    "CollapsedSteinKernel": lambda k: ek.CollapsedSteinKernel(P, k),
    "extended": lambda k: ek.SteinKernel(P, k).extended(np.ones((2, 2)), X[:2], X),
    "left_projection": lambda k: k.left_projection(X[0], CARDS),
    "fit_mmd": lambda k: ek.fit_mmd(P, X, k, steps=1, progress=False),
}


@pytest.mark.parametrize("call", NOT_BY_KERNELS)
def test_what_does_not_follow_gradients_by_kernels(call):
    with pytest.raises(ek.KernelError, match=r"not follow gradients.*gamma\.detach\(\)"):
        NOT_BY_KERNELS[call](ek.ExpHamming(tensor(0.3)))
    NOT_BY_KERNELS[call](ek.ExpHamming(tensor(0.3).detach()))


DATA = {
    "rows": lambda: P.log_likelihood(tensor(X)),
    "points": lambda: ek.expected_kernel(P, tensor(X), K),
    "real points": lambda: NORMALS.to("torch").log_likelihood(tensor([[0.5]])),
    "weights of states": lambda: P.marginals([tensor(x) for x in WEIGHTS]),
    "weights of points": lambda: ek.Empirical(X, tensor([1 / 6] * 6)),
    "points of a kernel": lambda: K(tensor(X)),
    "tables": lambda: ek.factorized([tensor([0.5, 0.5])]),
    "means": lambda: ek.gaussian_mixture([1.0], tensor([0.0]), [1.0]),
    "shares": lambda: ek.mixture([P, Q], tensor([0.5, 0.5])),
}


@pytest.mark.parametrize("call", DATA)
def test_data_has_no_gradients(call):
    assert_raises(ek.DataError, r"requires gradients\. .*not followed.*detach", DATA[call])


def test_what_has_no_derivative_works_with_numbers():
    p, k = with_gradients(TREE), ek.ExpHamming(tensor(0.3))
    assert isinstance(p.sample(3, rng=0), np.ndarray)
    assert isinstance(p.map(E), np.ndarray)
    for made in (
        lambda q, kernel: ek.mmd_test(X, q, kernel, n_null=9, rng=0),
        lambda q, kernel: ek.kdsd_test(X, q, kernel, n_null=9, rng=0),
    ):
        plain = made(TREE, ek.ExpHamming(0.3))
        assert_close(made(p, k).statistic, plain.statistic, scale=1.0)


def test_kernels_of_tensors_are_those_of_numbers():
    for make, *values in KERNELS.values():
        k, twin = make(*map(tensor, values)), make(*values)
        assert repr(k) == repr(twin)
        assert np.array_equal(k.numbers(X), twin(X))
        assert np.array_equal(k.pairs(X, X), twin.pairs(X, X))
    k = torch.tensor(2.0) * ek.RBF(torch.tensor(0.5)) + ek.ExpHamming(torch.tensor([0.5] * 3))
    assert k.tensors == []
    twin = 2.0 * ek.RBF(0.5) + ek.ExpHamming([0.5] * 3)
    found = ek.expected_kernel(P, Q, k)
    assert isinstance(found, float)
    assert found == ek.expected_kernel(P, Q, twin)
    for given in (P, X):
        text = str(ek.explain(given, given, ek.RBF(tensor(0.3))))
        assert text.endswith("gradients by 1 parameter of the kernel: in torch")


@pytest.mark.parametrize("gamma", [-1.0, 0.0, float("nan"), [0.1, -0.1]])
def test_rates_and_weights_in_tensors_are_positive(gamma):
    assert_raises(ek.KernelError, "'gamma' parameter of RBF must be a", ek.RBF, tensor(gamma))
    with pytest.raises(ek.KernelError, match="A weight of a kernel"):
        tensor(-1.0) * ek.RBF(0.3)
