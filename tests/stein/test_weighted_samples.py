"""Weighted samples: mixtures of conditionals, importance weights, chains of ArviZ, thinning."""

import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize

import expectedkernels as ek
from assertions import assert_all_close, assert_close, assert_raises, refusals
from factor_graphs import factor_graphs, grid_scopes, scores
from oracles import with_holes, worlds
from stein_oracles import conditionals_given, greedy
from strategies import rngs


def mixture(samples):
    """The distribution that weighted samples stand for, at all worlds, and its marginals."""
    target = samples.target
    points = worlds(target.cardinalities)
    values = np.exp(ek.as_model(target).log_likelihood(points))
    total = samples.weights @ conditionals_given(samples.rows, values, target.cardinalities)
    columns = zip(points.T.astype(int), target.cardinalities, strict=True)
    return points, total, [np.bincount(x, total, card) for x, card in columns]


def random_samples(graph, rng, n, signed=False):
    """Possible rows, with entries that are collapsed, some of them equal."""
    points, values = worlds(graph.cardinalities), scores(graph)
    rows = with_holes(points[rng.choice(len(points), size=n, p=values / values.sum())], seed=rng)
    rows[n // 2 :] = rows[: n - n // 2]
    weights = rng.normal(size=n) + 0.6 if signed else rng.random(n)
    return ek.WeightedSamples(graph, rows, weights / weights.sum())


@settings(max_examples=40)
@given(factor_graphs(max_worlds=100), rngs)
def test_marginals_and_expectations_are_those_of_the_mixture(graph, rng):
    samples = random_samples(graph, rng, 7)
    points, total, marginals = mixture(samples)
    assert_all_close(samples.marginals(), marginals, atol=1e-10)
    numbers = rng.normal(size=(graph.n_variables, 3))
    found = samples.expect(lambda X: np.cos(X @ numbers))
    np.testing.assert_allclose(found, total @ np.cos(points @ numbers), atol=1e-10)
    scope = rng.permutation(graph.n_variables)[: rng.integers(1, 4)].tolist()
    some = rng.normal(size=len(scope))
    found = samples.expect(lambda X: (X @ some) ** 2, scope=scope)
    assert isinstance(found, float)
    np.testing.assert_allclose(found, total @ (points[:, scope] @ some) ** 2, atol=1e-10)


@settings(max_examples=20)
@given(factor_graphs(max_worlds=60), rngs)
def test_signed_weights_are_clipped_in_marginals_only(graph, rng):
    samples = random_samples(graph, rng, 6, signed=True)
    points, total, marginals = mixture(samples)
    outside = False
    for v, (found, raw) in enumerate(zip(samples.marginals(), marginals, strict=True)):
        outside |= bool((raw < -1e-12).any())
        if not samples.signed:
            np.testing.assert_allclose(found, raw, atol=1e-10)
            continue
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(), 1.0)
        kept = np.clip(raw, 0.0, 1.0)
        np.testing.assert_allclose(found, kept / kept.sum(), atol=1e-9)
        mean = samples.expect(lambda X: X[:, 0], scope=[v])
        np.testing.assert_allclose(mean, total @ points[:, v], atol=1e-9)
    assert not outside or samples.clipped
    assert samples.signed or not samples.clipped


def test_circuits_as_targets_and_as_functions():
    vtree = ek.Vtree.balanced(4)
    target = ek.random_circuit(vtree, 3, 0, cardinalities=[2, 3, 2, 4])
    f = ek.random_circuit(vtree, 2, 1, cardinalities=[2, 3, 2, 4])
    rows = [[0, np.nan, 1, np.nan], [1, 2, np.nan, 3], [np.nan] * 4]
    grid, of_six = ek.ising_grid(2, 3, rng=0), ek.random_circuit(ek.Vtree.balanced(6), 2, 0)
    made = ek.WeightedSamples(grid, [[0, *[np.nan] * 5]], circuit=grid.circuit(of_six.vtree))
    points, total, _ = mixture(made)
    np.testing.assert_allclose(made.expect(of_six), total @ np.exp(of_six.log_likelihood(points)))
    samples = ek.WeightedSamples(target, rows, [0.5, 0.2, 0.3])
    points, total, marginals = mixture(samples)
    expected = total @ np.exp(f.log_likelihood(points))
    for function in (f, lambda X: np.exp(f.log_likelihood(X))):
        np.testing.assert_allclose(samples.expect(function), expected, rtol=1e-10)
    assert_all_close(samples.marginals(), marginals, rtol=1e-10)
    other = ek.random_circuit(ek.Vtree.right_linear(4), 2, 1, cardinalities=[2, 3, 2, 4])
    with pytest.raises(ek.CompatibilityError):
        samples.expect(other)
    assert_raises(ek.CircuitError, "function of all variables", samples.expect, f, scope=[0])


def test_conditionals_can_come_from_elsewhere(monkeypatch):
    grid = ek.ising_grid(3, 3, rng=0)
    model = ek.models.CollapsedModel(grid, [1, 4, 7])
    rows = np.random.default_rng(0).integers(0, 2, size=(20, 9)).astype(float)
    rows[:, [1, 4, 7]] = np.nan
    weights = np.arange(1.0, 21.0) / 210
    seen = []

    def conditionals(few):
        seen.append(few)
        return model.marginals(few)

    expected = ek.WeightedSamples(grid, rows, weights)
    found = ek.WeightedSamples(grid, rows, weights, conditionals=conditionals)
    wanted = expected.marginals(), expected.expect(lambda X: X[:, 0] * X[:, 1], scope=[4, 0])
    monkeypatch.setattr(ek.FactorGraph, "compile", None)
    np.testing.assert_allclose(found.marginals(), wanted[0], rtol=1e-10)
    product = found.expect(lambda X: X[:, 0] * X[:, 1], scope=[4, 0])
    np.testing.assert_allclose(product, wanted[1], rtol=1e-10)
    assert all(len(np.unique(np.nan_to_num(few), axis=0)) == len(few) for few in seen)


def test_complete_rows_need_no_circuit(monkeypatch):
    monkeypatch.setattr(ek.FactorGraph, "compile", None)
    grid = ek.ising_grid(2, 2, rng=0)
    samples = ek.WeightedSamples(
        grid, [[0, 1, 1, 0], [0, 0, 1, 1], [0, 1, 1, 0]], [0.5, 0.25, 0.25]
    )
    wanted = [[1.0, 0.0], [0.25, 0.75], [0.0, 1.0], [0.75, 0.25]]
    np.testing.assert_array_equal(samples.marginals(), wanted)
    assert samples.expect(lambda X: X[:, 1] * X[:, 2]) == 0.75


def test_rows_without_weight_may_be_impossible():
    network = ek.asia()
    rows = np.full((2, 8), np.nan)
    rows[:, 3], rows[:, 5] = 0, [0, 1]  # lung cancer, and neither of two diseases
    samples = ek.WeightedSamples(network, rows, [1.0, 0.0])
    np.testing.assert_allclose(samples.marginals()[5], [1.0, 0.0])
    assert samples.expect(lambda X: X[:, 0], scope=["either"]) == 0.0
    heavy = ek.WeightedSamples(network, rows, [0.5, 0.5])
    assert_raises(ek.EvidenceError, "probability zero", heavy.marginals)
    assert_raises(ek.DataError, "probability zero under the", heavy.expect, lambda X: X[:, 0])


def test_many_completions_come_in_chunks_or_not_at_all():
    chain = ek.ising_grid(1, 17, rng=0)
    rows = np.full((512, 17), np.nan)
    rows[:, :9] = worlds([2] * 9)  # 256 completions each
    samples = ek.WeightedSamples(chain, rows, np.arange(1, 513) / np.arange(1, 513).sum())
    whole = sum(table[1] for table in samples.marginals())
    np.testing.assert_allclose(samples.expect(lambda X: X.sum(axis=1)), whole, rtol=1e-12)
    large = ek.WeightedSamples(ek.ising_grid(1, 21, rng=0), [[0] + [np.nan] * 20])
    with pytest.raises(ek.CircuitError, match=r"1.05e\+06 completions of the 20 .* scope=\["):
        large.expect(lambda X: X.sum(axis=1))
    assert 0 < large.expect(lambda X: X[:, 0] * X[:, 1], scope=[4, 5]) < 1


def test_what_is_shown():
    grid = ek.ising_grid(2, 2, rng=0)
    rows = np.array([[0, 1, np.nan, 0], [0, 0, np.nan, 1.0]])
    told = {"discrepancy": 0.5, "uniform_discrepancy": 0.75, "certificate": 1e-9}
    samples = ek.WeightedSamples(grid, rows, [0.75, 0.25], "raw", **told)
    assert repr(samples) == (
        "<WeightedSamples: samples 2, variables 4, collapsed 25 %, effective sample size 1.6, "
        "discrepancy 0.5, with equal weights 0.75, rule raw>"
    )
    plain = samples.uniform()
    assert (plain.discrepancy, plain.certificate, plain.rule) == (0.75, None, "uniform")
    assert (plain.ess, len(plain), plain.n) == (2.0, 2, 2)
    assert "weights signed" in repr(ek.WeightedSamples(grid, rows, [1.5, -0.5]))
    assert "log Z 2" in repr(ek.WeightedSamples(grid, rows, log_z=2.0))
    left, right = samples.plot()
    np.testing.assert_allclose(left.get_lines()[0].get_ydata(), [0.75, 0.25])
    np.testing.assert_allclose(left.get_lines()[1].get_ydata(), 0.5)
    assert len(right.get_lines()[1].get_xdata()) == 8
    assert "1.6 of 2" in left.get_title()


def test_results_are_values():
    rows, weights = np.zeros((2, 4)), np.array([0.5, 0.5])
    samples = ek.WeightedSamples(ek.ising_grid(2, 2, rng=0), rows, weights)
    rows[:], weights[:] = 1, 0
    assert samples.rows.sum() == 0
    assert samples.weights.sum() == 1
    for array in (samples.rows, samples.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3
    with pytest.raises(AttributeError):
        samples.weights = weights
    samples.marginals()[0][:] = 7
    assert samples.marginals()[0].max() == 1


GRID = ek.ising_grid(2, 2, rng=0)
ROW = np.zeros((2, 4))


GRID_SAMPLES, COIN = ek.WeightedSamples(GRID, ROW), ek.factorized([[0.5, 0.5]])


def expect(f, scope=None):
    return GRID_SAMPLES.expect(f, scope)


test_bad_arguments = refusals(None, [
    (lambda: ek.WeightedSamples(3, ROW), ek.CircuitError,
     r"target must be a FactorGraph, .* a Target made of a function\. Got int"),
    (lambda: ek.WeightedSamples(ek.gaussian_mixture([1.0], [[0.0]], [[1.0]]), [[0.0]]),
     ek.CircuitError, r"Targets are discrete here. Variable 0"),
    *((lambda x=x: ek.WeightedSamples(GRID, *x), ek.DataError, message) for *x, message in [
        (np.zeros((0, 4)), r"at least one sample: .* Got shape \(0, 4\)"),
        ([[0, 0, 0, 0], [1, 1]], "as many entries in every row"),
        (ROW, [1.0], r"2 samples need as many finite weights\. Got shape \(1,\)"),
        (ROW, [np.nan, 1.0], r"2 samples need as many finite weights"),
        (ROW, [0.5, 0.7], r"must sum to one\. Got a sum of 1\.2"),
    ]),
    (lambda: ek.WeightedSamples(GRID, ROW, log_weights=[0.0]), ek.DataError,
     r"as many log-weights.* Got shape \(1,\)"),
    (lambda: expect(3), ek.CircuitError, r"function of points, or of a Circuit\. Got int"),
    (lambda: expect(lambda X: np.zeros(3)), ek.DataError, r"Got shape \(3,\) for 1 rows"),
    (lambda: expect(lambda X: ["high"] * len(X)), ek.DataError, "must give real numbers: could"),
    *((lambda scope=scope: expect(len, scope), error, message) for scope, error, message in [
        ([4], ek.EvidenceError, r"int in 0\.\.3.* Got 4"),
        ([1, 1], ek.DataError, "none twice"),
        ([], ek.DataError, "at least one variable"),
        (1.5, ek.DataError, r"A scope is a list of variables\. Got float"),
    ]),
    (lambda: ek.WeightedSamples(COIN, [[0]]).expect(len, scope=["x"]), ek.EvidenceError,
     r"an int in 0\.\.0\. Got 'x'"),
])  # fmt: skip


def test_a_scope_may_be_one_variable():
    samples = ek.WeightedSamples(ek.asia(), [[0, 1, 0, 1, 0, np.nan, 1, 1], [1] * 8])
    exact = samples.marginals()
    for v, scope in ((5, "either"), (5, 5), (0, "asia"), (0, np.int64(0))):
        np.testing.assert_allclose(samples.expect(lambda X: X[:, 0], scope), exact[v][1])


@pytest.mark.parametrize("n", [1, 4, 7])  # as many points as variables, too
def test_functions_of_one_point(n):
    samples = ek.WeightedSamples(GRID, [[i % 2, i // 2 % 2, i // 4, 1] for i in range(n)])

    def one(x):
        return x[0] * x[1] + 2 * x[2]

    wanted = samples.expect(lambda X: X[:, 0] * X[:, 1] + 2 * X[:, 2])
    assert samples.expect(one, vectorized=False) == pytest.approx(wanted)
    hint = r"one row at a time.*vectorized=False"
    assert_raises(ek.CircuitError, hint, samples.expect, one)
    with pytest.raises(ek.CircuitError, match=f"failed with .*{hint}"):
        samples.expect(lambda x: one([float(value) for value in x]))
    both = samples.expect(lambda x: np.array([one(x), 1.0]), vectorized=False)
    np.testing.assert_allclose(both, [wanted, 1.0])
    with pytest.raises(ZeroDivisionError):
        samples.expect(lambda X: 1 / 0)
    with pytest.raises(ek.CircuitError, match="must give one number, or a row of numbers"):
        samples.expect(lambda x: np.zeros((2, 2)), vectorized=False)


def problem(n=12):
    """A target, samples of a proposal that is known, and logs of importance weights."""
    target, proposal = ek.ising_grid(2, 3, rng=0), ek.factorized([[0.4, 0.6]] * 6)
    X = proposal.sample(n, rng=1)
    return target, X, target.log_score(X) - proposal.log_likelihood(X)


def test_the_weights_minimise_what_they_should():
    target, X, logs = problem()
    G = ek.SteinKernel(target, operator="gibbs")(X)
    s = np.exp(logs - logs.max())
    s /= s.sum()
    c = s**2 @ np.diag(G)
    A = G + np.diag(c / s)
    found = minimize(
        lambda w: w @ A @ w,
        s,
        jac=lambda w: 2 * A @ w,
        bounds=[(0.0, 1.0)] * len(s),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    samples = ek.bbis(target, X, log_weights=logs)
    np.testing.assert_allclose(samples.weights, found.x, atol=1e-5)
    assert "towards importance weights" in samples.decision
    assert f"one of {1 / (s**2).sum():.1f}" in samples.decision


def test_equal_importance_weights_make_the_rule_for_draws():
    target, X, _ = problem()
    K, G = (ek.SteinKernel(target, operator=o)(X) for o in ("shift", "gibbs"))
    found = ek.stein.default_weights(K, G, exact=False, log_weights=np.zeros(len(X)))
    shifted = G + np.eye(len(X)) * np.trace(G) / len(X)
    wanted = ek.simplex_weights(shifted).weights
    np.testing.assert_allclose(found.weights, wanted, rtol=0, atol=1e-10)


def test_equal_samples_share_in_proportion_to_their_importance():
    target, X, logs = problem(6)
    twice = np.vstack([X, X[:1]])
    split = np.append(logs, logs[0] + np.log(0.25))
    split[0] += np.log(0.75)  # three quarters and one quarter of the same sample
    both = ek.bbis(target, twice, log_weights=split)
    np.testing.assert_allclose(both.weights[0], 3 * both.weights[-1], atol=1e-9)


def test_samples_that_carry_log_weights_pass_them_on():
    target = ek.ising_grid(3, 3, rng=0)
    drawn = ek.cis(target, 30, 2, rng=0)
    carried = ek.collapsed_bbis(target, drawn)
    told = ek.collapsed_bbis(target, drawn.rows, log_weights=drawn.log_weights)
    np.testing.assert_array_equal(carried.weights, told.weights)
    np.testing.assert_array_equal(carried.log_weights, drawn.log_weights)
    plain = ek.collapsed_bbis(target, drawn, weights="raw")
    assert plain.log_weights is None


def test_new_samples_come_with_theirs():
    target, X, logs = problem()
    some = ek.bbis(target, X[:8], log_weights=logs[:8])
    every = ek.bbis(target, X, log_weights=logs)
    assert_close(some.extended(X[8:], log_weights=logs[8:]).weights, every.weights, scale=1.0)
    message = "Either all samples have importance weights or none"
    assert_raises(ek.DataError, message, some.extended, X[8:])
    plain = ek.bbis(target, X[:8])
    assert_raises(ek.DataError, message, plain.extended, X[8:], log_weights=logs[8:])


def test_a_proposal_that_visits_both_modes_keeps_their_masses():
    glued = np.exp([[0.8, -0.8], [-0.8, 0.8]])
    factors = [(scope, glued) for scope in grid_scopes(4, 4)]
    magnet = ek.FactorGraph([2] * 16, [*factors, ([0], [0.3, 0.7])])
    exact = np.array([table[1] for table in magnet.marginals()])
    learned = ek.learn_chow_liu(magnet.sample(300, rng=9))
    errors = []
    for seed in range(4):
        X = learned.sample(200, rng=seed)
        logs = magnet.log_score(X) - learned.log_likelihood(X)
        samples = (ek.bbis(magnet, X), ek.bbis(magnet, X, log_weights=logs))
        errors.append([np.abs(found.weights @ X - exact).mean() for found in samples])
    plain, shrunk = np.mean(errors, axis=0)
    assert shrunk < plain


test_mistakes_are_told = refusals(ek.DataError, [
    ([0.0], {}, "12 samples need as many log-weights"),
    ([np.nan] * 12, {}, "log-weights: numbers, or -inf"),
    ([-np.inf] * 12, {}, "but not for all"),
    ([0.0] * 12, {"weights": "raw"}, "Got weights='raw'. Leave out log_weights"),
    ([0.0] * 12, {"signed": True}, "Got weights='signed'. Leave out log_weights"),
], lambda logs, options: ek.bbis(*problem()[:2], log_weights=logs, **options))  # fmt: skip


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it announces another package
    arviz = pytest.importorskip("arviz")

LABELS = {
    "none": None,
    "text": [["no", "yes"], ["low", "mid", "high"]],
    "numbers": [[10, 20], [1, 2, 3]],
    "fractions": [[0.5, 1.5], [1, 2.5, 3]],
    "bools": [[False, True], ["low", "mid", "high"]],
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("collapsed", [False, True])
def test_samples_come_back_as_they_were(labels, collapsed):
    target = ek.random_circuit(2, 2, rng=0, cardinalities=[2, 3])
    if LABELS[labels] is not None:
        target = target.with_names(["rain", "wind"], LABELS[labels])
    rows = with_holes(target.sample(30, rng=1), 0.3 * collapsed)
    weights = np.random.default_rng(3).dirichlet(np.ones(30))
    samples = ek.WeightedSamples(target, rows, weights)
    data = samples.to_arviz()
    found = ek.WeightedSamples(target, data, data.sample_stats["weight"].values.ravel())
    np.testing.assert_array_equal(found.rows, samples.rows)
    np.testing.assert_array_equal(found.weights, samples.weights)


def test_arviz_summarises_what_it_is_given():
    target = ek.asia()
    samples = ek.WeightedSamples(target, target.sample(200, rng=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains that never move have no diagnostics
        table = arviz.summary(samples.to_arviz(), kind="stats", round_to="none")
    means = dict(zip(target.names, samples.rows.mean(axis=0), strict=True))
    assert table["mean"].to_dict() == pytest.approx(means)
    assert samples.to_arviz().posterior["smoke"].attrs["states"] == ["yes", "no"]


def test_chains_of_arviz_are_samples_of_discrete_variables_by_name():
    target = ek.asia()
    drawn = np.stack([target.sample(25, rng=seed) for seed in (0, 1)])
    order = np.random.default_rng(0).permutation(len(target.names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chains = {target.names[v]: drawn[..., v].astype(int) for v in order}
        if "InferenceData" in vars(arviz):
            data = arviz.from_dict(posterior=chains)
        else:
            data = arviz.from_dict({"posterior": chains})
    found = ek.WeightedSamples(target, data)
    np.testing.assert_array_equal(found.rows, drawn.reshape(-1, 8))
    embeddings = (ek.expected_kernel(target, X, ek.ExpHamming(1.0)) for X in (data, found.rows))
    np.testing.assert_array_equal(*embeddings)


def test_the_package_is_named_if_it_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ek.CircuitError, match="arviz is not installed"):
        ek.WeightedSamples(ek.factorized([[0.5, 0.5]]), [[0]]).to_arviz()


K = ek.ExpHamming(0.5)
CARDS = [2, 3, 2]


def model(rng=0):
    return ek.random_circuit(ek.Vtree.balanced(3), 3, rng, cardinalities=CARDS)


@pytest.mark.parametrize("operator", ["gibbs", "shift"])
def test_complete_samples(operator):
    p, X = model(), worlds(CARDS)
    wanted = ek.SteinKernel(p, K, operator=operator)(X)
    for rows in (np.arange(12), np.random.default_rng(0).integers(12, size=40)):
        found = ek.stein_thin(p, X[rows], 9, kernel=K, operator=operator)
        assert found.tolist() == greedy(wanted[np.ix_(rows, rows)], 9)


@pytest.mark.parametrize("form", ["set", "mask", "names"])
def test_collapsed_samples(form):
    grid = ek.ising_grid(3, 3, rng=0)
    X = np.random.default_rng(1).integers(2, size=(30, 9)).astype(float)
    hidden = [1, 3, 5, 7]
    collapsed = {"set": hidden, "mask": np.isin(np.arange(9), hidden), "names": None}[form]
    if form == "names":
        X[:, hidden] = np.nan
    rows = X.copy()
    rows[:, hidden] = np.nan
    G = ek.CollapsedSteinKernel(grid.compile()[0], K, operator="gibbs")(rows)
    found = ek.stein_thin(grid, X, 8, kernel=K, collapsed=collapsed)
    assert found.tolist() == greedy(G, 8)


def test_functions_and_chains_of_samples():
    grid = ek.ising_grid(2, 3, rng=0)
    chains = np.stack([ek.gibbs(grid, 20, burn_in=5, rng=rng) for rng in range(2)])
    wanted = ek.stein_thin(grid, chains.reshape(-1, 6), 6).tolist()
    assert ek.stein_thin(grid, chains, 6).tolist() == wanted
    function = ek.Target(grid.log_score, grid.cardinalities)
    assert ek.stein_thin(function, chains, 6).tolist() == wanted


def test_many_samples_need_little_memory():
    grid = ek.ising_grid(4, 4, rng=0)
    X = np.random.default_rng(0).integers(2, size=(20_000, 16)).astype(float)
    tracemalloc.start()
    chosen = ek.stein_thin(grid, X, 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(chosen) == 3
    assert peak < 20 * X.nbytes  # the Gram matrix would be 1250 times as large


GIVEN = {"target": model(), "samples": [[0, 0, 0]], "m": 2}


test_mistakes_in_thinning = refusals(None, [
    ({"m": 0}, ek.DataError, "'m' parameter of stein_thin"),
    ({"operator": "both"}, ek.DataError, "'operator' parameter of stein_thin"),
    ({"samples": [[0, 1]]}, ek.DataError, r"shape \(samples, 3\)"),
    ({"samples": model()}, ek.DataError, "Samples of a model are needed"),
], lambda options: ek.stein_thin(**GIVEN | options))  # fmt: skip


def test_functions_cannot_be_collapsed_and_zeros_are_told():
    function, hidden = ek.Target(lambda X: 0.0 * X[:, 0], [2, 2]), [[0, np.nan]]
    assert_raises(ek.PropertyError, "a Target is a function", ek.stein_thin, function, hidden, 1)
    asia = ek.asia()
    X = asia.sample(20, rng=0)
    zeros = "The target has zeros"
    assert_raises(ek.PropertyError, zeros, ek.stein_thin, asia, X, 2, operator="shift")
    with pytest.warns(UserWarning, match=r"2 classes.*collapsed=\[\.\.\.\]"):
        ek.stein_thin(asia, X, 2)
    assert len(ek.stein_thin(asia, X, 2, collapsed=["either"])) == 2
    X[0, asia.names.index("either")] = 1 - X[0, asia.names.index("either")]
    assert_raises(ek.DataError, "The target is zero at row", ek.stein_thin, asia, X, 2)


def test_resampled_rows_follow_their_weights():
    coin = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    rows, weights = [[0, np.nan], [1, 0], [1, 1]], [0.1, 0.65, 0.25]
    samples = ek.WeightedSamples(coin, rows, weights)
    for rng in range(5):
        drawn = samples.resample(20, rng=rng)
        counts = [np.isnan(drawn.rows[:, 1]).sum(), (drawn.rows[:, 1] == 0).sum()]
        assert np.abs(counts - 20 * np.array([0.1, 0.65])).max() <= 1
        np.testing.assert_allclose(drawn.weights, 0.05)
    means = np.mean([samples.resample(3, rng=rng).marginals()[0][1] for rng in range(3000)])
    np.testing.assert_allclose(means, samples.marginals()[0][1], atol=0.02)
    assert samples.resample(rng=0).n == 3
    signed = ek.WeightedSamples(coin, rows, [0.5, 0.7, -0.2])
    assert_raises(ek.DataError, r"weights here are negative. Use thin\(m\)", signed.resample)
    assert_raises(ek.DataError, "'n' parameter of resample", samples.resample, 0)


def test_weighted_samples_are_thinned_among_those_with_weights():
    grid = ek.ising_grid(3, 3, rng=0)
    samples = ek.cis(grid, 20, 3, rng=0)
    thinned = samples.thin(6)
    rows = samples.rows[np.flatnonzero(samples.weights)]
    np.testing.assert_array_equal(thinned.rows, rows[ek.stein_thin(grid, rows, 6)])
    np.testing.assert_allclose(thinned.weights, 1 / 6)
    assert ek.bbis(grid, grid.sample(10, rng=0)).thin(4).n == 4
