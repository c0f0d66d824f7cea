"""Functions as targets: over states, beside factor graphs, and over the reals."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_all_close, assert_close, assert_raises, refusals
from factor_graphs import factor_graphs
from oracles import worlds
from stein_oracles import greedy
from strategies import points, rngs

GRID = ek.ising_grid(4, 4, rng=0)
FUNCTION = ek.Target(lambda X: GRID.log_score(X), GRID.cardinalities)


@settings(max_examples=25, deadline=None)
@given(factor_graphs(max_worlds=100, zeros=False), rngs)
def test_weights_are_those_of_the_model(model, rng):
    target = ek.Target(model.log_score, model.cardinalities)
    X = points(rng, model.cardinalities, 15)
    for rule in ("default", "signed", "uniform"):
        ours, theirs = (ek.bbis(t, X[:12], weights=rule).extended(X[12:]) for t in (target, model))
        np.testing.assert_allclose(ours.gram, theirs.gram, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(ours.discrepancy, theirs.discrepancy, rtol=1e-9, atol=1e-10)
        if rule == "uniform":
            assert_all_close(ours.marginals(), theirs.marginals())


@pytest.mark.parametrize("null", ["signs", "gibbs"])
@pytest.mark.parametrize("operator", ["shift", "gibbs"])
def test_discrepancies_and_tests(operator, null):
    X = ek.gibbs(GRID, 200, burn_in=200, thin=20, rng=0)
    options = {"operator": operator, "null": null, "n_null": 59, "rng": 0}
    ours, theirs = (ek.kdsd_test(X, t, **options) for t in (FUNCTION, GRID))
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-10)
    np.testing.assert_allclose(ours.null, theirs.null, rtol=1e-9, atol=1e-10)
    assert ours.p_value == theirs.p_value
    values = [ek.kdsd(X, t, operator=operator) for t in (FUNCTION, GRID)]
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_starts_are_possible():
    def late(X):
        return np.where(X.sum(axis=1) >= 8, 1.0 * X[:, 0], -np.inf)

    few = ek.Target(late, [2] * 9)  # 10 of 512 states
    with pytest.warns(ek.ReducibleWarning):
        X = ek.gibbs(few, 50, rng=0, chains=3)
    assert (X.sum(axis=2) >= 8).all()
    nothing = ek.Target(lambda X: np.full(len(X), -np.inf), [2] * 3)
    assert_raises(ek.DataError, r"8 states \(all\).*zero everywhere", ek.gibbs, nothing, 5, rng=0)
    rare = ek.Target(lambda X: np.where(X.all(axis=1), 0.0, -np.inf), [2] * 40)
    assert_raises(ek.DataError, "Give a possible one as 'start'", ek.gibbs, rare, 5, rng=0)
    with pytest.warns(ek.ReducibleWarning):
        assert ek.gibbs(rare, 5, rng=0, start=np.ones(40)).all()
    message = "'start' must have positive probability"
    assert_raises(ek.DataError, message, ek.gibbs, rare, 5, rng=0, start=np.zeros(40))


FREE = ek.Target(lambda X: 0.0 * X[:, 0], [2] * 4, names="abcd")
FAIR, X = ek.factorized([[0.5, 0.5]] * 4), worlds([2] * 4)
NO_SUM = r"a function, which cannot be summed over.*FactorGraph"
NOT_EXACT = "cannot be summed over exactly"


test_what_needs_sums_over_states_says_so = refusals(None, [
    (lambda: ek.collapsed_bbis(FREE, X, ["b"]), ek.PropertyError, NO_SUM),
    (lambda: ek.collapsed_gibbs(FREE, 5, ["b"]), ek.CircuitError, f"others {NOT_EXACT}. Got Targ"),
    (lambda: ek.gibbs(FREE, 5, evidence={0: 1}), ek.CircuitError, f"Evidence .* {NOT_EXACT}"),
    (lambda: ek.cis(FREE, 5, 2), ek.CircuitError, f"others {NOT_EXACT}. Got Target"),
    *((lambda pair=pair: ek.kdsd(*pair), ek.PropertyError, NO_SUM)
      for pair in ((FAIR, FREE), (FREE, FAIR), (FREE, FREE))),
    (lambda: ek.CollapsedSteinKernel(FREE), ek.DataError, f"a function {NOT_EXACT}"),
    (lambda: ek.bbis(FREE, X).expect(FAIR), ek.PropertyError, NO_SUM),
    (lambda: ek.bbis(FREE, X).expect(lambda Z: Z[:, 0], scope="z"), ek.EvidenceError,
     r"one of its names, 'a', 'b', .* Got 'z'"),
    *((call, ek.PropertyError, "a function, which cannot be summed over") for call in (
        lambda: ek.mmd(FAIR, FREE),
        lambda: ek.expected_kernel(FREE, FAIR, ek.Delta()),
        lambda: ek.witness(FREE, FAIR, ek.Delta(), X),
    )),
    *((call, ek.CircuitError, r"Wrap it: Target\(log_prob, cardinalities\)") for call in (
        lambda: ek.bbis(len, [[0, 1]]),
        lambda: ek.kdsd_test([[0, 1], [1, 1]], len),
        lambda: ek.kdsd([[0, 1]], len),
        lambda: ek.gibbs(len, 3),
        lambda: ek.SteinKernel(len),
        lambda: ek.stein_thin(len, [[0, 1]], 1),
        lambda: ek.log_partition_estimate(len, [[0, 1]] * 40),
    )),
])  # fmt: skip


def test_what_needs_no_sum_over_states():
    assert ek.collapsed_bbis(FREE, X, []).n == 16
    assert ek.bbis(FREE, X).expect(lambda Z: Z[:, 0], scope="b") == pytest.approx(0.5)


@settings(max_examples=40, deadline=None)
@given(factor_graphs(max_worlds=100), rngs)
def test_it_says_what_the_model_says(model, rng):
    target = ek.Target(model.log_score, model.cardinalities)
    X = points(rng, model.cardinalities, 9).astype(int)
    np.testing.assert_array_equal(target.log_prob(X), model.log_score(X))
    np.testing.assert_array_equal(target.log_score(X), model.log_score(X))
    every = target.all_site_logs(X)
    for v, n in enumerate(model.cardinalities):
        naive = np.empty((9, n))
        for state in range(n):
            changed = X.copy()
            changed[:, v] = state
            naive[:, state] = model.log_score(changed)
        np.testing.assert_array_equal(target.site_logs(X, v), naive)
        np.testing.assert_array_equal(every[v], naive)


def test_many_variables_need_more_than_one_number():
    cards = [2, 3, 5] * 40
    rng = np.random.default_rng(0)
    weights = rng.normal(size=len(cards))
    target = ek.Target(lambda X: X @ weights, cards)
    X = rng.integers(cards, size=(20, 120))
    np.testing.assert_array_equal(target.log_prob(X), X @ weights)
    logs = target.site_logs(X, 119)
    assert_close(logs - logs[:, :1], np.tile(np.arange(5) * weights[119], (20, 1)))


def test_functions_of_one_row_are_recognised():
    def product(x):
        return x[0] * x[1] + x[2]

    X = worlds([2, 2, 2])
    hint = r"one row at a time.*Target\(\.\.\., vectorized=False\)"
    for n in (1, 3, 8):  # as many rows as variables would give the right shape
        assert_raises(ek.DataError, hint, ek.Target(product, [2] * 3).log_prob, X[:n])
    with pytest.raises(ek.DataError, match=f"TypeError.*{hint}"):
        ek.Target(lambda x: float(x[0]) * 1.0, [2] * 3).log_prob(X)
    slow, logs = ek.Target(product, [2] * 3, vectorized=False), [product(x) for x in X]
    np.testing.assert_array_equal(slow.log_prob(X), logs)
    p = np.exp(logs)
    np.testing.assert_allclose(ek.bbis(slow, X, weights="raw").weights, p / p.sum(), atol=1e-6)
    with pytest.raises(ek.DataError, match=r"one number for one row. Got shape \(3,\)"):
        ek.Target(lambda x: x, [2] * 3, vectorized=False).log_prob(X)


test_wrong_values = refusals(ek.DataError, [
    *((lambda X, x=x: np.where(X[:, 1] == 1, x, 0.0), rf"Got {x} at the state \[0, 1\]")
      for x in (np.nan, np.inf)),
    (lambda X: X[:, :1], r"Got shape \(4, 1\) for 4 rows\.$"),
    (lambda X: X[:, 0] * 1j, "must give real numbers: they are complex"),
    (lambda X: ["a"] * len(X), "must give real numbers"),
], lambda f: ek.Target(f, [2, 2]).log_prob(worlds([2, 2])))  # fmt: skip


def test_errors_of_functions_are_their_own():
    with pytest.raises(ZeroDivisionError):
        ek.Target(lambda X: 1 / 0, [2, 2]).log_prob(worlds([2, 2]))
    assert_raises(ek.DataError, r"integers in 0\.\.1", FREE.log_prob, [[0, 2, 0, 0]])
    assert ek.Target(lambda X: np.log(X[:, 0]), [1, 2]).n_variables == 2


def test_tensors_are_moved():
    torch = pytest.importorskip("torch")
    weights = torch.tensor([0.5, 2.0], requires_grad=True)
    target = ek.Target(lambda X: torch.as_tensor(X).float() @ weights, [2, 2])
    np.testing.assert_allclose(target.log_prob([[1, 1], [0, 1]]), [2.5, 2.0])


def test_labels():
    target = ek.Target(lambda X: 0.0 * X[:, 0], [2, 3], ["a", "b"], [["no", "yes"], "xyz"])
    assert (target.names, target.states) == (("a", "b"), (("no", "yes"), ("x", "y", "z")))
    assert target.variable("b") == target.variable(1) == 1
    assert repr(target) == "<Target: a function of 2 variables>"
    with pytest.raises(ek.EvidenceError, match=r"or one of its names, 'a', 'b'\. Got 'c'"):
        target.site_logs([[0, 0]], "c")


test_mistakes = refusals(ek.CircuitError, [
    (lambda: ek.Target(3, [2]), "must be a function of an array of states"),
    (lambda: ek.Target(GRID, [2] * 4), "is a target already"),
    *((lambda c=c: ek.Target(len, c), r"a sequence of ints in \[1, inf\), one per")
      for c in ([2, 0], [2.0], [True], [], 3)),
    (lambda: ek.Target(len, [2, 2], ["a", "a"]), "names of the variables must be 2 different"),
    (lambda: ek.Target(len, [2, 2], states=[["x", "y"]]), "one list of labels per variable, 2"),
    (lambda: ek.Target(len, [2, 2], states=[["x", "y"], ["x"]]), "states of variable 1 must be 2"),
])  # fmt: skip


MEANS = np.array([[0.0, 0.0], [2.0, 1.0]])
KERNELS = {
    "imq": ek.stein.IMQ([1.5, 0.7]),
    "imq, one scale": ek.stein.IMQ(2.0),
    "rbf": ek.RBF([0.3, 0.1]),
}


def log_mixture(X):
    """Two normals, as a function of tensors."""
    means = torch.as_tensor(MEANS)
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64).log()
    return (weights - 0.5 * ((X[:, None] - means) ** 2).sum(2)).logsumexp(1)


def score(X):
    """The gradient of the same, in NumPy."""
    logs = np.log([0.3, 0.7]) - 0.5 * ((X[:, None] - MEANS) ** 2).sum(axis=2)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return (shares / shares.sum(axis=1, keepdims=True)) @ MEANS - X


MIXTURE = ek.Target(log_mixture, n_variables=2)
CIRCUIT = ek.gaussian_mixture([0.3, 0.7], MEANS, np.ones((2, 2)))
QUICK = ek.Target(CIRCUIT.log_likelihood, n_variables=2, score=score)
NORMAL = ek.Target(
    lambda X: -0.5 * (X**2).sum(axis=1), n_variables=2, score=lambda X: -X, names=["a", "b"]
)


def by_autograd(k, x, y):
    """The Langevin Stein kernel of two points by its definition."""
    x, y = (torch.tensor(v, requires_grad=True) for v in (x, y))
    scores = [torch.autograd.grad(log_mixture(v[None]).sum(), v)[0] for v in (x, y)]
    if isinstance(k, ek.RBF):
        value = torch.exp(-(torch.as_tensor(k.gamma) * (x - y) ** 2).sum())
    else:
        value = (1 + ((x - y) ** 2 / torch.as_tensor(k.lengthscale) ** 2).sum()) ** -0.5
    by_x, by_y = torch.autograd.grad(value, (x, y), create_graph=True)
    both = sum(torch.autograd.grad(by_y[i], x, retain_graph=True)[0][i] for i in range(2))
    cross = scores[0] @ by_y + scores[1] @ by_x
    return (both + cross + value * (scores[0] @ scores[1])).item()


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_those_of_automatic_differentiation(name):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(5, 2)), 100 + rng.normal(size=(2, 2))])
    stein = ek.stein.LangevinSteinKernel(MIXTURE, KERNELS[name])
    wanted = np.array([[by_autograd(KERNELS[name], x, y) for y in X] for x in X])
    size = np.abs(np.diag(wanted)) ** 0.5
    size = np.outer(size, size)
    np.testing.assert_allclose(stein(X) / size, wanted / size, atol=1e-12)
    column, diagonal = stein._columns(X)
    assert_close(diagonal, np.diag(stein(X)))
    assert_close(column(3), stein(X)[3], scale=size[3])
    assert_close(stein.extended(stein(X[:4]), X[:4], X[4:]), stein(X), scale=size)


def test_imq_is_a_kernel_of_points():
    X = np.random.default_rng(0).normal(size=(6, 2))
    k = ek.stein.IMQ([1.0, 2.0])
    wanted = (1 + (((X[:, None] - X) / [1.0, 2.0]) ** 2).sum(axis=2)) ** -0.5
    assert_close(k(X), wanted)
    assert repr(k) == "IMQ(lengthscale=[1.0, 2.0])"
    message = "no product over the variables.*Use RBF"
    assert_raises(ek.KernelError, message, ek.expected_kernel, CIRCUIT, CIRCUIT, k)
    for scale in ([1.0, 0.0], "a"):
        assert_raises(ek.KernelError, "'lengthscale' parameter of IMQ", ek.stein.IMQ, scale)
    assert_raises(ek.KernelError, r"made for 3 variables. Got 2", ek.stein.IMQ([1.0] * 3), X)


def test_discrepancies_of_samples():
    X = np.random.default_rng(0).normal(size=(40, 2))
    k = ek.stein.IMQ(1.5)
    gram = ek.stein.LangevinSteinKernel(NORMAL, k)(X)
    assert_close(ek.kdsd(X, NORMAL, k), gram.mean())
    assert_close(ek.kdsd(X, NORMAL, k, unbiased=True), (gram.sum() - np.trace(gram)) / (40 * 39))
    frame = pd.DataFrame(X, columns=["a", "b"])[["b", "a"]]
    assert_close(ek.kdsd(frame, NORMAL, k), gram.mean())
    assert ek.kdsd(X, NORMAL) < ek.kdsd(X + 1.0, NORMAL)


def test_thinning_is_greedy():
    X = np.random.default_rng(1).normal(size=(60, 2)) * 1.5
    X = np.concatenate([X, X[:5]])
    k = ek.stein.IMQ(1.0)
    chosen = greedy(ek.stein.LangevinSteinKernel(NORMAL, k)(X), 20)
    np.testing.assert_array_equal(ek.stein_thin(NORMAL, X, 20, kernel=k), chosen)
    assert len(ek.stein_thin(MIXTURE, X, 5)) == 5


def test_weights_repair_samples():
    X = np.random.default_rng(0).normal(size=(150, 2)) * [2.0, 1.0] + [0.7, 0.0]
    found = ek.bbis(NORMAL, X)
    mean, variance = np.array(found.marginals()).T
    assert abs(mean[0]) < 0.15 < abs(X.mean(axis=0)[0])
    assert abs(variance[0] - 1) < 0.3
    assert_close(found.marginals()["a"], np.array(found.marginals()[0]))
    assert_close(found.expect(lambda Y: Y), mean)
    raw = ek.bbis(NORMAL, X, ek.RBF(0.3), weights="raw")
    gram = ek.stein.LangevinSteinKernel(NORMAL, ek.RBF(0.3))(X)
    assert_close(raw.weights, ek.simplex_weights(gram).weights, scale=1.0)
    assert raw.discrepancy < raw.uniform_discrepancy
    signed = raw.reweighted("signed")
    np.testing.assert_allclose(signed.weights, ek.stein.signed_weights(gram), atol=1e-6)
    more = ek.bbis(NORMAL, X[:100], ek.RBF(0.3), weights="raw").extended(X[100:])
    assert_close(more.weights, raw.weights, scale=1.0)
    assert more.thin(10).n == 10
    good = ek.bbis(MIXTURE, CIRCUIT.sample(200, rng=0))  # keep their weights
    assert "look like an independent sample" in good.decision
    assert good.ess > 60


def rejected(shift, repeats):
    rng = np.random.default_rng(0)
    samples = (CIRCUIT.sample(30, rng) + shift for _ in range(repeats))
    return np.mean([ek.kdsd_test(X, QUICK, n_null=19, rng=rng).p_value <= 0.05 for X in samples])


def test_chains_keep_the_level_and_have_power():
    assert rejected(0.0, 60) <= 0.05 + 3 * 0.029
    assert rejected(0.8, 10) >= 0.8
    X = CIRCUIT.sample(30, rng=0)
    test = ek.kdsd_test(X, MIXTURE, n_null=19, rng=0)
    assert test.drawn == "langevin"
    assert "19 exchangeable Langevin chains, IMQ" in str(test)
    assert_close(test.statistic, ek.kdsd(X, MIXTURE, test.kernel, unbiased=True))


def test_other_tests_of_densities():
    X = np.random.default_rng(0).normal(size=(60, 2))
    signs = ek.kdsd_test(X, NORMAL, change=0.25, rng=0)
    assert (signs.drawn, signs.p_value > 0.05) == ("signs", True)
    kernels = [ek.RBF(0.2), ek.stein.IMQ(1.0)]
    assert ek.kdsd_test(X, NORMAL, kernels, n_null=19, rng=0).kernel in kernels
    assert ek.kdsd_test(X + 1.0, NORMAL, "aggregate", n_null=19, rng=0).p_value == 0.05
    assert ek.kdsd_test(np.ones((6, 2)), NORMAL, ek.RBF(0.2), n_null=9, rng=0).p_value == 0.1
    assert ek.kdsd_test(X * [1.0, 0.0], NORMAL, n_null=19, rng=0).p_value == 0.05
    for options in ({"null": "gibbs"}, {"null": "model"}, {"refit": lambda X: NORMAL}):
        message = "tested by Langevin chains, null='auto'"
        assert_raises(ek.DataError, message, ek.kdsd_test, X, NORMAL, **options)


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_far_samples_of_steep_densities(scale):
    X = np.random.default_rng(0).normal(size=(40, 1))
    steep = ek.Target(lambda Y: -np.cosh(Y).sum(axis=1), n_variables=1, score=lambda Y: -np.sinh(Y))
    test = ek.kdsd_test(scale * (X + 2.0), steep, n_null=19, rng=0)
    assert test.p_value == 0.05


def test_scores_are_given_or_differentiated():
    X = np.random.default_rng(0).normal(size=(4, 2))
    torch_normal = ek.Target(lambda Y: -0.5 * (Y**2).sum(1), n_variables=2)
    assert_close(torch_normal.score(X), NORMAL.score(X))
    assert_close(torch_normal.log_prob(X), NORMAL.log_prob(X))
    for score in (None, lambda y: -y):
        by_rows = {"n_variables": 2, "score": score, "vectorized": False}
        assert_close(ek.Target(lambda y: -0.5 * (y**2).sum(), **by_rows).score(X), -X)
    assert (NORMAL.is_real, NORMAL.cardinalities) == (True, (None, None))


test_mistakes_in_targets = refusals(ek.CircuitError, [
    (lambda: ek.Target(np.sum, [2], n_variables=1), "over states, with 'cardinalities', or over"),
    (lambda: ek.Target(np.sum, [2], score=np.sum), "over states, with 'cardinalities', or over"),
    (lambda: ek.Target(np.sum), r"'cardinalities' parameter of Target.*give n_variables"),
    (lambda: ek.Target(np.sum, n_variables=1, score=3), "'score' parameter of Target"),
    (lambda: ek.Target(np.sum, n_variables=0), "'n_variables' parameter of Target"),
])  # fmt: skip


REALS, STATES = np.array([[0.5], [1.0], [-0.5]]), ek.Target(lambda Y: 0.0 * Y[:, 0], [2])


def real(log_prob=lambda Y: Y[:, 0], **options):
    return ek.Target(log_prob, n_variables=1, **options)


test_mistakes_in_functions = refusals(None, [
    (lambda: ek.kdsd(REALS, real(lambda Y: np.where(Y > 0, 0, -np.inf)[:, 0], score=np.zeros_like)),
     ek.DataError, r"log_prob is -inf at row 2, .*positive everywhere"),
    (lambda: real(lambda Y: np.log(np.abs(Y)).sum(axis=1)).score(REALS),
     ek.DataError, r"takes a tensor of torch.*Target\(..., score=...\)"),
    (lambda: real(score=lambda Y: Y[:, 0]).score(REALS),
     ek.DataError, r"'score' of a Target has shape \(3,\)"),
    (lambda: real(lambda Y: Y).score(REALS), ek.DataError, "must give one number for each row"),
    (lambda: ek.kdsd(REALS, real(), ek.Laplacian(1.0)), ek.KernelError, "RBF or stein.IMQ. Got"),
    (lambda: ek.kdsd(REALS, real(score=lambda Y: Y + 1e200)), ek.KernelError, "too large for a"),
    (lambda: ek.stein.LangevinSteinKernel(STATES), ek.DataError, "is that of a density"),
    (lambda: STATES.score([[0]]), ek.PropertyError, "This target is over states"),
])  # fmt: skip


@pytest.mark.parametrize("call", [
    lambda: ek.gibbs(NORMAL, 5),
    lambda: ek.SteinKernel(NORMAL),
    lambda: NORMAL.site_logs([[0.0, 0.0]], 0),
    lambda: ek.mmd_test(np.zeros((5, 2)), NORMAL),
    lambda: ek.collapsed_bbis(NORMAL, [[0.0, np.nan], [1.0, np.nan]]),
    lambda: ek.kdsd(CIRCUIT, NORMAL),
    lambda: ek.kdsd([[0.0, 1.0]], CIRCUIT),
    lambda: ek.log_partition_estimate(NORMAL, np.zeros((5, 2))),
])  # fmt: skip
def test_what_is_for_states_says_so(call):
    assert_raises((ek.DataError, ek.PropertyError), r"real|states|Samples need values", call)
