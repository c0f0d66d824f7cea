import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_all_close, assert_close, assert_raises, refusals
from factor_graphs import factor_graphs
from networks import ASIA
from oracles import distribution, worlds
from strategies import points, rngs

RULES = ("default", "raw", "smoothed", "signed", "uniform")


@settings(max_examples=40, deadline=None)
@given(factor_graphs(max_worlds=100, zeros=False), rngs)
def test_what_comes_back(model, rng):
    circuit, _ = model.compile()
    X = points(rng, model.cardinalities, 12)
    masks = rng.random(X.shape) < 0.4
    X[9:], masks[9:] = X[:3], masks[:3]
    rows = np.where(masks, np.nan, X)
    gram = ek.CollapsedSteinKernel(circuit)(rows)
    size = np.abs(gram).max()
    for target in (model, circuit):
        samples = ek.collapsed_bbis(target, X, masks, weights="raw")
        np.testing.assert_array_equal(samples.rows, rows)
        assert_close(samples.gram, gram, size)
        w = samples.weights
        assert (w >= 0).all()
        assert_close(w.sum(), 1.0)
        assert_close(samples.discrepancy, w @ gram @ w, size)
        assert_close(samples.uniform_discrepancy, gram.mean(), size)
        assert samples.discrepancy <= samples.uniform_discrepancy + 1e-9 * size
        assert samples.certificate is not None
        plain, f = ek.WeightedSamples(target, rows, w), rng.normal(size=X.shape[1])
        assert_all_close(samples.marginals(), plain.marginals(), atol=1e-9)
        means = (some.expect(lambda Z: np.cos(Z @ f)) for some in (samples, plain))  # noqa: B023
        np.testing.assert_allclose(*means, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(factor_graphs(max_worlds=60, zeros=False))
def test_all_states_together_are_the_target(model):
    X = worlds(model.cardinalities)
    P = distribution(model.compile()[0])
    samples = ek.bbis(model, np.vstack([X, X[: len(X) // 2]]), weights="raw")
    mass = np.bincount(np.r_[np.arange(len(X)), np.arange(len(X) // 2)], samples.weights)
    assert samples.discrepancy <= 1e-8 * np.abs(samples.gram).max()
    np.testing.assert_allclose(mass, P, atol=1e-4)


@pytest.mark.parametrize("rule", RULES)
def test_order_and_normaliser_do_not_matter(rule):
    model = ek.ising_grid(2, 3, rng=0)
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(30, 6)).astype(float)
    X[rng.random(X.shape) < 0.3] = np.nan
    samples = ek.collapsed_bbis(model, X, weights=rule)
    assert samples.rule == rule
    order = rng.permutation(30)
    shuffled = ek.collapsed_bbis(model, X[order], weights=rule)
    np.testing.assert_allclose(shuffled.weights, samples.weights[order], atol=1e-7)
    factors = [(f.scope, 100 * f.table) for f in model.factors]
    scaled = ek.collapsed_bbis(ek.FactorGraph([2] * 6, factors), X, weights=rule)
    np.testing.assert_allclose(scaled.weights, samples.weights, atol=1e-7)


@pytest.mark.parametrize("rule", RULES)
def test_new_samples_extend_old_ones(rule):
    model = ek.ising_grid(2, 3, rng=0)
    rng = np.random.default_rng(1)
    X = rng.integers(2, size=(30, 6))
    for collapsed in ((), [1, 4]):
        whole = ek.collapsed_bbis(model, X, collapsed, weights=rule)
        part = ek.collapsed_bbis(model, X[:20], collapsed, weights=rule)
        grown = part.extended(whole.rows[20:])
        assert_close(grown.gram, whole.gram, np.abs(whole.gram).max())
        np.testing.assert_allclose(grown.weights, whole.weights, atol=1e-7)
        again, raw = grown.reweighted("raw"), whole.reweighted("raw")
        assert_close(again.discrepancy, raw.discrepancy, np.abs(whole.gram).max())
    with pytest.raises(ek.DataError, match="have no collapsed variables"):
        ek.bbis(model, X).extended(np.full((1, 6), np.nan))


def test_rules_are_what_they_say():
    model = ek.ising_grid(3, 3, rng=0)
    X = np.random.default_rng(0).integers(2, size=(60, 9))
    raw, smoothed = (ek.bbis(model, X, weights=rule) for rule in ("raw", "smoothed"))
    assert_close(smoothed.weights, (raw.weights + 0.01) / 1.6)
    updates = ek.bbis(model, X, weights="raw", operator="gibbs")
    for samples in (raw, updates):
        gram = samples.gram if samples is raw else samples.updates_gram
        for other in (raw.weights, updates.weights, np.full(60, 1 / 60)):
            assert other @ gram @ other >= samples.weights @ gram @ samples.weights - 1e-9
    both = raw.reweighted("signed", operator="gibbs")
    assert both.signed
    np.testing.assert_allclose(both.weights, ek.stein.signed_weights(updates.updates_gram))
    signed = ek.bbis(model, X, signed=True)
    assert signed.signed
    assert signed.discrepancy < raw.discrepancy
    assert_close(signed.weights.sum(), 1.0)
    uniform = ek.bbis(model, X, weights="uniform")
    assert uniform.discrepancy == uniform.uniform_discrepancy
    default = ek.bbis(model, X)
    assert (default.rule, raw.decision) == ("default", "")
    assert default.decision


def test_nothing_and_everything_collapsed():
    model = ek.ising_grid(3, 3, rng=0)
    X = ek.gibbs(model, 20, 10, 5, rng=0)
    plain = ek.bbis(model, X, weights="raw")
    for nothing in ([], np.zeros((20, 9), dtype=bool), None):
        same = ek.collapsed_bbis(model, X, nothing, weights="raw")
        np.testing.assert_array_equal(same.weights, plain.weights)
    for rule in RULES:
        everything = ek.collapsed_bbis(model, X, range(9), weights=rule)
        assert everything.discrepancy == 0
        assert_close(np.array(everything.marginals()), np.array(model.circuit().marginals()))
    mixed = np.zeros((20, 9), dtype=bool)
    mixed[7] = True
    for rule in ("raw", "default"):  # a sample that has summed out everything is exact
        assert_close(ek.collapsed_bbis(model, X, mixed, weights=rule).weights[7], 1.0)


def test_remedies_for_zeros():
    asia = ek.asia()
    every = worlds(asia.cardinalities)
    X = every[asia.log_score(every) > -np.inf]
    for zeros in ("auto", "collapse"):  # Gibbs updates alone could not tell what the parts weigh
        collapsed = ek.bbis(asia, X, zeros=zeros, weights="raw")
        np.testing.assert_allclose([t[0] for t in collapsed.marginals()], ASIA, atol=1e-4)
    assert collapsed.collapsed.all(axis=0).tolist() == [v == 5 for v in range(8)]
    smooth = ek.bbis(asia, every, zeros="smooth", weights="raw")
    near = [t[0] for t in smooth.marginals()]
    np.testing.assert_allclose(near, ASIA, atol=0.01)
    assert abs(near[5] - ASIA[5]) > 0.005
    # restricted: right within each of the two parts, blind for their masses
    restricted = ek.bbis(asia, X, zeros="restrict", weights="raw")
    inside = X[:, 5] == 1
    p = np.exp(asia.log_score(X))
    for weights in (restricted.weights, p):
        share = weights[inside].sum()
        tables = [weights[inside & (X[:, v] == 0)].sum() / share for v in (0, 2)]
        np.testing.assert_allclose(tables, [0.0096, 0.47619], atol=1e-4)
    fg = ek.FactorGraph(asia.cardinalities, asia.factors)
    assert ek.stein.determined_variables(asia) == [5]
    assert len(ek.stein.determined_variables(fg)) == 1
    for zeros, message in (("collapse", "tables of a FactorGraph"), ("smooth", "can be smoothed")):
        assert_raises(ek.PropertyError, message, ek.bbis, asia.circuit(), X, zeros=zeros)


@settings(max_examples=20, deadline=None)
@given(factor_graphs(max_worlds=100, zeros=False), rngs)
def test_partitions_of_models_that_are_not_compiled(model, rng):
    collapsed = np.flatnonzero(rng.random(model.n_variables) < 0.5)
    rows = points(rng, model.cardinalities, 9)
    rows[:, collapsed] = np.nan
    circuit, _ = model.compile()
    for operator in ("shift", "gibbs"):
        wanted = ek.CollapsedSteinKernel(circuit, ek.ExpHamming(), operator=operator)(rows)
        parts = ek.models.CollapsedModel(model, collapsed.tolist(), shared=False)
        stein = ek.stein.PartitionSteinKernel(parts, ek.ExpHamming(), operator=operator)
        size = max(1e-12, np.abs(wanted).max())
        assert_close(stein(rows), wanted, 10 * size)
        assert_close(stein.extended(stein(rows[:4]), rows[:4], rows[4:]), wanted, 10 * size)
    if len(collapsed) and len(collapsed) < model.n_variables:
        rows[0, collapsed[0]] = 0
        assert_raises(ek.DataError, "must collapse the same variables", stein, rows)


def test_models_too_large_to_compile():
    grid = ek.ising_grid(5, 20, rng=0)
    tall = ek.ising_grid(30, 30, rng=0)
    X = np.random.default_rng(0).integers(2, size=(3, 900))
    mask = np.random.default_rng(0).random((3, 900)) < 0.5
    assert_raises(ek.SizeError, "one set collapsed in all", ek.collapsed_bbis, tall, X, mask)
    small = X[:, :100]
    rows = [i for i in range(100) if (i // 20 + i) % 2]
    fast = ek.collapsed_bbis(grid, small, rows, weights="raw")
    slow = ek.collapsed_bbis(grid, small, rows, weights="raw", max_bytes=2**14)
    assert isinstance(slow.stein, ek.stein.PartitionSteinKernel)
    assert_close(slow.gram, fast.gram, np.abs(fast.gram).max())
    np.testing.assert_allclose(slow.marginals(), fast.marginals(), atol=1e-7)


SQUARE, CORNERS = ek.ising_grid(2, 2, rng=0), np.zeros((3, 4))
NEGATIVE = ek.TableKernel([np.array([[1.0, 2.0], [2.0, 1.0]])] * 4)
ZERO = ek.FactorGraph([2, 2], [((0, 1), [[0.0, 1.0], [1.0, 1.0]])])


test_mistakes = refusals(None, [
    *(({name: x}, ek.CircuitError, rf"'{name}' parameter of \w+ must be") for name, x in
      (("weights", "best"), ("weights", np.ones(3)), ("zeros", "ignore"), ("operator", "hmc"))),
    ({"samples": CORNERS[:, :3]}, ek.DataError, r"Samples must have shape \(samples, 4\)"),
    ({"target": 3}, ek.DataError, "must be a FactorGraph"),
    ({"kernel": NEGATIVE}, ek.KernelError, "need a positive definite kernel"),
    ({"target": ZERO, "samples": [[1, 0], [0, 0], [1, 1]]}, ek.DataError,
     r"The target is zero at row \d of the samples, \[0, 0\]"),
], lambda options: ek.bbis(**{"target": SQUARE, "samples": CORNERS} | options))  # fmt: skip


def test_new_samples_are_read_like_the_first():
    network = ek.asia()
    X = ek.collapsed_gibbs(network, 20, ["either"], thin=10, rng=0)
    X[:, 5] = np.minimum(X[:, 1], X[:, 3])  # complete again
    some = ek.bbis(network, X[:12], zeros="collapse")
    later = some.extended(X[12:].reshape(2, 4, 8))
    whole = ek.bbis(network, X, zeros="collapse")
    assert np.isnan(later.rows[:, 5]).all()
    assert_close(later.gram, whole.gram, np.abs(whole.gram).max())
    mask = np.random.default_rng(0).random(X.shape) < 0.3
    mask[:, 5] = True
    some = ek.collapsed_bbis(network, X[:12], mask[:12]).extended(X[12:], mask[12:])
    np.testing.assert_array_equal(some.rows, np.where(mask, np.nan, X))
    message = r"Samples on variable 0 \(.asia.\) must be integers in 0\.\.1"
    assert_raises(ek.DataError, message, some.extended, [[-1.0] + [0.0] * 7])
    assert some.extended(np.zeros((0, 8))).n == 20


def test_zeros_that_no_sample_is_next_to():
    model = ek.FactorGraph([3], [ek.Factor([0], [0.0, 1.0, 2.0])])
    for call in (ek.bbis, ek.collapsed_bbis):
        message = "The target has zeros, though none next to .*smooth the tables"
        with pytest.warns(UserWarning, match=message) as caught:
            call(model, [[2], [2]], zeros="raise")
        assert caught[0].filename == __file__
    for zeros in ("auto", "restrict", "smooth", "collapse"):
        ek.bbis(model, [[2], [2]], zeros=zeros)  # without a warning


@pytest.mark.parametrize("gap", [300.0, 355.0, 360.0, 365.0, 370.0, 372.0, 380.0])
@pytest.mark.parametrize("rule", RULES)
def test_states_that_are_far_less_likely_than_the_samples(rule, gap):
    rare = np.exp(-gap)
    single = ek.FactorGraph([2], [((0,), [1.0, rare])])
    np.testing.assert_allclose(ek.bbis(single, [[0], [0]], weights=rule).weights, 0.5)
    table = [[1.0, rare], [rare, 1.0]]
    chain = ek.FactorGraph([2] * 3, [((0, 1), table), ((1, 2), table)])
    for operator in ("shift", "gibbs"):
        found = ek.bbis(chain, [[0, 0, 0], [1, 1, 1]], weights=rule, operator=operator)
        np.testing.assert_allclose(found.weights, 0.5, rtol=1e-6)


@pytest.mark.parametrize("operator", ["shift", "gibbs"])
@pytest.mark.parametrize("rule", RULES)
def test_memory_is_counted_in_full(rule, operator):
    model = ek.ising_grid(3, 4, rng=0)
    every = worlds(model.cardinalities)
    rng = np.random.default_rng(0)
    for X in (every[rng.permutation(4096)[:300]], every[rng.integers(60, size=400)]):
        with pytest.raises(ek.SizeError, match="allow more memory: max_bytes=") as refused:
            ek.bbis(model, X, weights=rule, operator=operator, max_bytes=1)
        needed = int(str(refused.value).split("max_bytes=")[-1].strip("."))
        ek.bbis(model, X[:5], weights=rule, operator=operator)  # what is loaded once
        tracemalloc.start()
        ek.bbis(model, X, weights=rule, operator=operator, max_bytes=needed)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # besides the matrices there are a few arrays of the size of the samples
        assert peak < needed + 2**20
        assert needed < 4 * peak


def test_restricted_operators_do_not_prove_a_match():
    """All states of one class of the support, and some of the other, which must keep its weight."""
    table = np.random.default_rng(0).random((2, 2, 2)) + 0.1
    model = ek.FactorGraph([2] * 4, [ek.Factor([0, 1], np.eye(2)), ek.Factor([0, 2, 3], table)])
    first = [[0, 0, a, b] for a in range(2) for b in range(2)]
    second = [[1, 1, 0, 0], [1, 1, 0, 1], [1, 1, 1, 0]]
    for target in (model, model.compile()[0]):
        samples = ek.bbis(target, 5 * first + 7 * second, zeros="restrict")
        np.testing.assert_allclose(samples.marginals()[0], 0.5, atol=0.1)
        assert "match the target" not in samples.decision
    positive = ek.ising_grid(2, 2, rng=0)
    every = worlds(positive.cardinalities)
    assert "match the target" in ek.bbis(positive, every, zeros="restrict").decision


def test_kernels_that_see_too_little_do_not_prove_a_match():
    model = ek.factorized([[0.1, 0.9], [0.5, 0.5]])
    blind = ek.TableKernel([np.ones((2, 2)), np.ones((2, 2))])
    with pytest.warns(UserWarning, match="may not be strictly positive definite"):
        samples = ek.bbis(model, [[0, 0], [1, 1], [0, 1], [1, 0]], blind)
    ek.bbis(model, [[0, 0], [1, 1]], ek.Delta())  # without a warning
    assert "match the target" not in samples.decision


@pytest.mark.parametrize("operator", ["shift", "gibbs"])
def test_one_collapsed_set_of_many_samples_goes_by_conditionals(monkeypatch, operator):
    called = []
    original = ek.stein.PartitionSteinKernel.__call__
    monkeypatch.setattr(
        ek.stein.PartitionSteinKernel, "__call__", lambda *args: called.append(1) or original(*args)
    )
    grid = ek.ising_grid(4, 4, rng=0)
    X = np.random.default_rng(0).integers(0, 2, (150, 16)).astype(float)
    X[:, :3] = np.nan
    found = ek.collapsed_bbis(grid, X, operator=operator)
    assert called
    called.clear()
    whole = ek.collapsed_bbis(grid.compile()[0], X, operator=operator)
    ek.collapsed_bbis(grid, X[:5], operator=operator)
    assert not called
    assert_close(found.updates_gram, whole.updates_gram, np.abs(whole.updates_gram).max())
    np.testing.assert_allclose(found.weights, whole.weights, atol=1e-9)
    more = np.array(X[:2])
    more[:, 4] = np.nan
    assert found.extended(more).n == 152
