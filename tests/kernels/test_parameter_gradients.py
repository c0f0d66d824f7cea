"""Gradients by the parameters of kernels: rates, tables and weights as tensors."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises
from strategies import points, random_blocks

torch = pytest.importorskip("torch")
CARDS = (2, 3, 2, 4)
TABLES = [np.random.default_rng(v).normal(size=(card, card)) for v, card in enumerate(CARDS)]
TABLES[1][0, 1] = 0.0  # has a derivative, too
KERNELS = {
    "RBF": (ek.RBF, 0.3),
    "rates": (ek.RBF, [0.3, 0.1, 0.5, 0.2]),
    "Laplacian": (ek.Laplacian, 0.4),
    "ExpHamming": (ek.ExpHamming, [0.4, 0.2, 0.1, 0.7]),
    "tables": (lambda a, b: ek.TableKernel([a, b, *TABLES[2:]]), *TABLES[:2]),
    "tables and rates": (
        lambda a, b: ek.Laplacian(a) * ek.TableKernel([TABLES[0], b, *TABLES[2:]]) + ek.Delta(),
        0.3,
        TABLES[1],
    ),
    "products of tables": (
        lambda a: ek.TableKernel([a, *TABLES[1:]]) * ek.TableKernel(TABLES),
        TABLES[0],
    ),
    "sum": (lambda a, b, w: w * ek.RBF(a) + ek.ExpHamming(b) + 2.0 * ek.Delta(), 0.3, 0.2, 1.0),
    "product": (
        lambda a, b, w: (w * ek.RBF(a) + ek.Delta()) * (ek.RBF(b) + 3.0 * ek.Laplacian(0.1)),
        0.3,
        0.2,
        0.7,
    ),
}

E = np.array([[np.nan, 2.0, 1.0, np.nan], [1.0, np.nan, np.nan, np.nan]])
X = points(np.random.default_rng(1), CARDS, 5)
CALLS = {
    "circuits": lambda p, q, k: ek.expected_kernel(p, q, k),
    "itself": lambda p, q, k: ek.expected_kernel(p, p, k),
    "evidence": lambda p, q, k: ek.expected_kernel(p, q, k, evidence_p=E),
    "many rows": lambda p, q, k: ek.expected_kernel(p, q, k, evidence_p=np.tile(E, (20, 1)))[:3],
    "points": lambda p, q, k: ek.expected_kernel(p, X, k),
    "points and points": lambda p, q, k: ek.expected_kernel(X, X[:3], k),
    "weighted points": lambda p, q, k: ek.expected_kernel(X, ek.Empirical(X), k),
    "mmd2": lambda p, q, k: ek.mmd2(p, q, k),
    "mmd2 to points": lambda p, q, k: ek.mmd2(p, X, k),
    "witness": lambda p, q, k: ek.witness(p, X, k, X[:2]),
}


def circuits():
    vtree, rng = ek.Vtree.balanced(4), np.random.default_rng(0)
    p = ek.Circuit.from_blocks(vtree, random_blocks(rng, vtree, CARDS, "dense"))
    return p.normalize(), ek.random_circuit(vtree, 2, rng, CARDS)


def parameters(name):
    """What makes a kernel, and its parameters in tensors."""
    make, *numbers = KERNELS[name]
    return make, [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in numbers]


def plain(x):
    return np.asarray(x.detach()) if hasattr(x, "detach") else x


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", KERNELS)
def test_gradients(name, call):
    make, tensors = parameters(name)
    p, q = circuits()
    p, q = (p.to("torch"), q) if call == "evidence" else (p, q)  # moved, or to be moved
    found = CALLS[call](p, q, make(*tensors))
    expected = CALLS[call](p, q, make(*(x.detach().numpy() for x in tensors)))
    assert_close(plain(found), plain(expected), scale=np.max(np.abs(plain(expected))))
    assert torch.autograd.gradcheck(
        lambda *x: CALLS[call](p, q, make(*x)), tensors, eps=1e-6, atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("name", ["RBF", "rates", "sum", "product"])
def test_gradients_of_logs_and_of_mmd(name):
    make, tensors = parameters(name)
    p, q = circuits()
    for call in (
        lambda k: ek.expected_kernel(p, q, k, log=True),
        lambda k: ek.expected_kernel(X, X, k, log=True),
        lambda k: ek.mmd(p, q, k),
        lambda k: ek.mmd(p, X, k),
    ):
        assert torch.autograd.gradcheck(lambda *x, c=call: c(make(*x)), tensors, atol=1e-6)


@pytest.mark.parametrize("make", [
    ek.RBF,
    ek.Laplacian,
    ek.ExpHamming,
    lambda rate: ek.RBF(rate) * ek.Laplacian(0.4) + ek.ExpHamming(rate),
], ids=["RBF", "Laplacian", "ExpHamming", "product"])  # fmt: skip
def test_gradients_on_real_variables(make):
    rng = np.random.default_rng(0)
    parts = [
        ek.Product([ek.Gaussian(0, rng.normal(), rng.gamma(2.0)), ek.Categorical(1, rng.random(3))])
        for _ in range(3)
    ]
    p = ek.Circuit.from_units(ek.Sum(parts, rng.random(3)))
    Y = [[0.3, 2.0], [-1.0, 0.0]]
    rows = np.array([[0.3, np.nan], [np.nan, 2.0]])
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    for call in (
        lambda k: ek.expected_kernel(p, p, k),
        lambda k: ek.expected_kernel(p, Y, k),
        lambda k: ek.expected_kernel(p, p, k, evidence_p=rows),
        lambda k: ek.expected_kernel(Y, Y, k),
    ):
        assert torch.autograd.gradcheck(lambda x, c=call: c(make(x)), (rate,), atol=1e-6)


def test_tensors_on_the_host_and_without_gradients():
    p, q = circuits()
    for name in KERNELS:
        make, tensors = parameters(name)
        k, twin = make(*tensors), make(*(x.detach().numpy() for x in tensors))
        assert repr(k) == repr(twin)
        assert np.array_equal(k.numbers(X), twin(X))
        assert np.array_equal(k.pairs(X, X), twin.pairs(X, X))
        assert isinstance(ek.expected_kernel(p, q, twin), float)
    p, q = circuits()
    k = torch.tensor(2.0) * ek.RBF(torch.tensor(0.5)) + ek.ExpHamming(torch.tensor([0.5] * 4))
    assert k.tensors == []
    twin = 2.0 * ek.RBF(0.5) + ek.ExpHamming([0.5] * 4)
    assert ek.expected_kernel(p, q, k) == ek.expected_kernel(p, q, twin)


@pytest.mark.parametrize("gamma", [-1.0, 0.0, float("nan"), [0.1, -0.1]])
def test_wrong_rates(gamma):
    given = torch.tensor(gamma, requires_grad=True)
    assert_raises(ek.KernelError, "'gamma' parameter of RBF must be a float", ek.RBF, given)
    with pytest.raises(ek.KernelError, match="A weight of a kernel"):
        torch.tensor(-1.0, requires_grad=True) * ek.RBF(0.3)


def test_explanations_name_gradients():
    p, q = circuits()
    k = ek.RBF(torch.tensor(0.3, requires_grad=True))
    for text in (str(ek.explain(p, q, k)), str(ek.explain(X, X, k))):
        assert text.endswith("gradients by 1 parameter of the kernel: in torch")
