"""Answers of circuits against sums over all states, and over thousands of nats."""

import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

import circuit_oracles as oracle
import expectedkernels as ek
from assertions import assert_close, assert_logs_close, assert_raises, refusals, to_numpy
from circuit_oracles import drawn_deterministic, drawn_distribution, joint, sparsified
from expectedkernels import Circuit, EvidenceError, PropertyError, Vtree, factorized, hmm, mixture
from expectedkernels.circuits import queries
from expectedkernels.circuits.queries import conditional_units
from expectedkernels.data.evidence import as_evidence
from oracles import Table, evidence_as_weights, values_at, with_holes
from strategies import points, seeds

kinds = st.sampled_from(["random", "deterministic", "wild"])
nan, inf = np.nan, np.inf
NORMALS = ek.gaussian_mixture([0.3, 0.7], [[0.0, 1.0], [2.0, -1.0]], [[1.0, 0.5], [2.0, 1.5]])


def drawn(seed, kind, n_max=5):
    """A circuit that is not zero: random, deterministic, or with numbers of all magnitudes."""
    if kind == "deterministic":
        return oracle.drawn_deterministic(seed)
    decades = 120 if kind == "wild" else 0.5
    return oracle.drawn_distribution(seed, n_max=n_max, decades=decades)


def random_weights(rng, circuit, n):
    """Soft evidence that leaves every row possible, on the last variable at least."""
    kept = evidence_as_weights(oracle.random_evidence(rng, circuit, n), circuit.cardinalities)
    soft = [w * rng.uniform(0.2, 2, size=w.shape) for w in kept]
    return [None if rng.random() < 0.3 else w for w in soft[:-1]] + soft[-1:]


@given(seeds, kinds, st.sampled_from([1, 20, 60]))
def test_likelihoods_of_points_rows_and_weights(seed, kind, n):
    p = drawn(seed, kind)
    rng, logs = np.random.default_rng(seed), oracle.log_joint(p)
    worlds = oracle.all_worlds(p.cardinalities)  # many rows: by pattern
    assert_logs_close(p.log_likelihood(worlds), logs.ravel())
    few = rng.integers(len(worlds), size=20)
    assert_logs_close(p.log_likelihood(worlds[few]), logs.ravel()[few])
    rows = with_holes(points(rng, p.cardinalities, n), 0.5, seed)
    for given_rows, weights in (
        (rows, evidence_as_weights(rows, p.cardinalities)),
        (np.full((1, p.n_variables), nan), [np.ones((1, c)) for c in p.cardinalities]),
        2 * (random_weights(rng, p, n),),
    ):
        every = logs + oracle.log_weights(weights, p.cardinalities)
        expected = logsumexp(every, axis=tuple(range(1, every.ndim)))
        assert_logs_close(p.log_likelihood(given_rows), expected)
    assert_logs_close(p.log_partition(), logsumexp(logs))


@given(seeds)
def test_signed_circuits_have_a_log_likelihood_where_they_are_positive(seed):
    p = oracle.drawn_circuit(seed, n_max=4, signed=True)
    values, scale = oracle.joint(p)[0].ravel(), oracle.joint(oracle.absolute(p))[0].ravel()
    worlds, clear = oracle.all_worlds(p.cardinalities), np.abs(values) > 1e-6 * scale
    positive = clear & (values > 0)
    if positive.any():
        actual = np.exp(p.log_likelihood(worlds[positive]))
        assert_close(actual, values[positive], scale[positive])
    negative = clear & (values < 0)
    if negative.any():
        assert_raises(ek.PropertyError, "has a negative value", p.log_likelihood, worlds[negative])


@given(seeds)
def test_mixed_circuits(seed):
    p = oracle.drawn_circuit(seed, n_max=4, roots=2, share_real=0.5)
    rng = np.random.default_rng(seed)
    X = points(rng, [c or 2 for c in p.cardinalities], 40)
    real = [c is None for c in p.cardinalities]
    X = np.where(real, rng.normal(0, 2, size=X.shape), X)
    expected = values_at(p, X)
    assert_close(np.exp(p.log_likelihood(X)), expected)
    assert_close(np.exp(p.log_likelihood(X[:5])), expected[:5])
    # real variables are integrated by unit weights of their components: compare by parts
    discrete = [v for v, card in enumerate(p.cardinalities) if card is not None]
    if discrete:
        X[:, discrete[0]] = nan
        states = range(p.cardinalities[discrete[0]])
        parts = [values_at(p, np.where(np.isnan(X), state, X)) for state in states]
        assert_close(np.exp(p.log_likelihood(X)), np.sum(parts, axis=0))


def test_no_rows():
    p = ek.random_circuit(3, 2, rng=0)
    assert p.log_likelihood(np.empty((0, 3))).shape == (0,)
    assert [x.shape for x in p.marginals(np.empty((0, 3)))] == [(0, 2)] * 3
    assert ek.algebra.stack([p, p]).log_likelihood(np.empty((0, 3))).shape == (0, 2)


@pytest.mark.parametrize("n", [5, 50])
def test_likelihoods_are_the_same_everywhere(xp, n):
    rng = np.random.default_rng(n)
    circuits = [
        ek.random_circuit(5, 3, rng=0, cardinalities=3),
        ek.random_circuit(ek.Vtree.random(5, rng=1), 4, rng=1, cardinalities=3, density=0.4),
        ek.algebra.stack([ek.random_circuit(5, 2, rng=2, cardinalities=3)] * 2),
    ]
    for p in circuits:
        rows = with_holes(points(rng, p.cardinalities, n))
        there = p.to(xp)
        result = there.log_likelihood(rows)
        assert type(result) is type(there.blocks[0].table)
        assert_logs_close(result, p.log_likelihood(rows))
        assert_logs_close(there.log_partition(), p.log_partition())
    rows = with_holes(rng.normal(0, 2, size=(n, 2)), 0.3)
    assert_logs_close(NORMALS.to(xp).log_likelihood(rows), NORMALS.log_likelihood(rows))
    # other questions come back to the host
    p = circuits[0]
    there = p.to(xp)
    for a, b in zip(there.marginals({0: 1}), p.marginals({0: 1}), strict=True):
        assert_close(a, b)
    assert_close(oracle.joint(there.condition({0: 1})), oracle.joint(p.condition({0: 1})))
    assert there.normalize().xp is np


@given(seeds, kinds, st.sampled_from([1, 20, 60]))
def test_marginals_given_rows_weights_and_nothing(seed, kind, n):
    p = drawn(seed, kind)
    rng = np.random.default_rng(seed)
    rows, weights = oracle.random_evidence(rng, p, n), random_weights(rng, p, n)
    found = p.marginals(rows)
    assert len(found) == p.n_variables
    for evidence, marginals in (
        (evidence_as_weights(rows, p.cardinalities), found),
        (weights, p.marginals(weights)),
        ([np.ones((1, c)) for c in p.cardinalities], [table[None] for table in p.marginals()]),
    ):
        exact = oracle.posterior(p, evidence)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(queries, "layers_of", lambda p: None)
            logs = p.marginals(evidence)
        for variable, (actual, again) in enumerate(zip(marginals, logs, strict=True)):
            expected = oracle.marginal(exact, variable)
            assert actual.shape == again.shape == expected.shape
            np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(again, expected, rtol=1e-9, atol=1e-12)
    for variable, actual in enumerate(p.marginals(rows[0])):
        assert_close(actual, found[variable][0], 1.0)


def test_forms_of_evidence_for_marginals():
    tables = ([[1, 0], [0.5, 0.3, 0.2]], [[0, 1], [0.1, 0.1, 0.8]])
    p = ek.mixture(list(map(ek.factorized, tables)))
    expected = np.array([0.1, 0.1, 0.8])
    for evidence in ({0: 1}, {0: {1}}, {0: [0.0, 3.0]}, [1, nan], np.array([1, nan])):
        assert_close(p.marginals(evidence)[1], expected)
    for evidence in ([[1, nan]], np.array([[1, nan]]), [np.array([[0.0, 1.0]]), None]):
        assert_close(p.marginals(evidence)[1], expected[None])
    assert_close(p.marginals({})[1], np.array([0.3, 0.2, 0.5]))


def test_marginals_of_real_variables():
    p, mean = NORMALS, 0.7 * 2.0
    variance = 0.3 * 1.0 + 0.7 * (2.0 + 4.0) - mean**2
    assert_close(p.marginals()[0], np.array([mean, variance]))
    x = 0.4
    share = np.array([0.3 * norm.pdf(x, 1, np.sqrt(0.5)), 0.7 * norm.pdf(x, -1, np.sqrt(1.5))])
    share /= share.sum()
    mean = share[1] * 2
    variance = share @ [1.0, 6.0] - mean**2
    for n in (1, 40):
        found = p.marginals(np.array([[nan, x]] * n))
        assert_close(found[0], np.array([[mean, variance]] * n))
        assert_close(found[1][:, 0], np.full(n, x))
        np.testing.assert_array_equal(found[1][:, 1], 0.0)
    assert_close(p.marginals({1: x})[0], np.array([mean, variance]))


def mixed():
    """A circuit of a discrete and a real variable: p(x0), p(x1 | x0)."""
    normals = (ek.Gaussian(1, 0.0, 1.0), ek.Gaussian(1, 3.0, 0.5))
    parts = [ek.Product([ek.Indicator(0, i, 2), normal]) for i, normal in enumerate(normals)]
    return ek.Circuit.from_units(ek.Sum(parts, [0.4, 0.6]))


def test_conditioning_a_real_variable_leaves_a_point_mass():
    x = 1.2
    q = mixed().condition({1: x})
    assert abs(q.log_partition()) < 1e-12
    assert_close(q.marginals()[1][0], np.array(x))
    assert q.marginals()[1][1] == 0.0
    samples = q.sample(50, rng=0)
    np.testing.assert_array_equal(samples[:, 1], x)
    assert set(samples[:, 0]) <= {0.0, 1.0}
    # the mass lies on one point: elsewhere there is none
    share = q.marginals()[0]
    assert_close(np.exp(q.log_likelihood([[0, x], [1, x]])), share)
    assert q.log_likelihood([[0, x + 1]]).tolist() == [-inf]
    assert_close(np.exp(q.log_likelihood([[0, nan]])), share[:1])
    again = q.condition({1: x})
    assert_close(again.marginals()[0], share)
    both = q.condition({0: 1})
    assert_close(both.marginals()[0], np.array([0.0, 1.0]))
    assert_close(mixed().condition({0: 1, 1: x}).marginals()[1], both.marginals()[1])
    np.testing.assert_array_equal(q.map([[nan, nan]])[:, 1], x)
    assert_raises(ek.EvidenceError, "probability zero", q.condition, {1: x + 1})


@given(seeds, kinds)
def test_conditionals_are_renormalised(seed, kind):
    p = drawn(seed, kind)
    rng = np.random.default_rng(seed)
    row = oracle.random_evidence(rng, p, 1)[0]
    kept = evidence_as_weights(row[None], p.cardinalities)
    values = {v: int(x) for v, x in enumerate(row) if not np.isnan(x)}
    missing = dict.fromkeys(range(len(row)), nan)
    cases = [(given, kept) for given in (row, values, row.tolist(), missing | values)]
    weights = random_weights(rng, p, 1)
    soft = {v: w[0] for v, w in enumerate(weights) if w is not None}
    allowed = {v: set(np.flatnonzero(w).tolist()) for v, w in soft.items()}
    cases += [(soft, weights), (allowed, [None if w is None else 1.0 * (w > 0) for w in weights])]
    for evidence, weights in cases:
        q = p.condition(evidence)
        assert q.vtree == p.vtree
        exact = oracle.posterior(p, weights)
        np.testing.assert_allclose(oracle.joint(q), exact, rtol=1e-9, atol=1e-300)
        assert abs(q.log_partition()) < 1e-9


@given(seeds, kinds)
def test_normalised_circuits_sum_to_one(seed, kind):
    p = drawn(seed, kind)
    q = p.normalize()
    exact = np.exp(oracle.log_joint(p) - logsumexp(oracle.log_joint(p)))[None]
    np.testing.assert_allclose(oracle.joint(q), exact, rtol=1e-9, atol=1e-300)
    for block in q.blocks:
        sums = block.table.sum(axis=1) if isinstance(block, Table) else block.csr.sum(axis=1)
        powers = np.rint(np.log2(sums))  # zero, unless a unit lends its range to smaller weights
        assert_close(sums * 2.0**-powers, np.ones(block.n_units))
    assert powers[-1] == 0


def test_every_root_is_normalised():
    tables = ([[1.0, 3.0], [2.0, 2.0]], [[5.0, 5.0], [1.0, 0.0]])
    p = ek.algebra.stack([ek.factorized(table, normalized=False) for table in tables])
    assert_close(np.exp(p.normalize().log_partition()), np.ones(2))
    expected = np.array([[[0.125, 0.125], [0.375, 0.375]], [[0.5, 0.0], [0.5, 0.0]]])
    assert_close(oracle.joint(p.normalize()), expected)


def subtractive():
    """A distribution with a negative weight, one of whose units sums to zero."""
    odd, even = (ek.Product([ek.Categorical(v, [1.0, x]) for v in range(2)]) for x in (-1.0, 1.0))
    return ek.Circuit.from_units(ek.Sum([odd, even], [-1.0, 2.0]))


def test_units_that_sum_to_zero_are_kept():
    p = subtractive()
    expected = np.array([[[1.0, 3.0], [3.0, 1.0]]])
    assert_close(oracle.joint(p), expected)
    assert_close(oracle.joint(p.normalize()), expected / 8)
    assert_close(oracle.joint(p.condition({0: 1})), np.array([[[0.0, 0.0], [0.75, 0.25]]]))
    assert_close(np.exp(p.log_partition()), np.array(8.0))


def test_variances_far_from_the_origin():
    p = ek.gaussian_mixture([0.5, 0.5], [1e8 - 1.0, 1e8 + 1.0], [0.25, 0.75])
    assert_close(p.marginals()[0], np.array([1e8, 1.5]))


BOTH = ek.mixture([ek.factorized([[1, 0], [1, 0]]), ek.factorized([[0, 1], [0, 1]])])
SEVERAL = ek.algebra.stack([BOTH, BOTH])
ZERO, SIGNED = (ek.factorized([table], normalized=False) for table in ([0, 0], [1, -2]))
REFUSED = [
    (lambda: BOTH.condition({0: 2}), EvidenceError, "A state of variable 0 is an int in 0..1"),
    (lambda: BOTH.condition([[0, nan]] * 2), EvidenceError, "one row of evidence. Got 2 rows"),
    (lambda: BOTH.condition({0: 0, 1: 1}), EvidenceError, "has probability zero"),
    (lambda: BOTH.condition({0: set()}), EvidenceError, "has probability zero"),
    (lambda: BOTH.marginals([[0, 0], [0, 1]]), EvidenceError, "row 1 has probability zero under"),
    (lambda: SEVERAL.condition({0: 0}), ek.CircuitError, "Conditioning .* Got 2 roots"),
    (lambda: SEVERAL.marginals(), ek.CircuitError, "Marginals needs .* one root"),
    (lambda: BOTH.log_likelihood([[0]]), EvidenceError, r"shape \(rows, 2\)"),
    (lambda: ZERO.normalize(), PropertyError, "sums to zero, so it cannot"),
    (lambda: ZERO.marginals(), PropertyError, "sums to zero; it is no"),
    (lambda: SIGNED.log_partition(), PropertyError, "negative value here"),
    (lambda: SIGNED.normalize(), PropertyError, "negative value here"),
    (lambda: subtractive().marginals(), PropertyError, "without negative weights.* one at vtree"),
]


test_errors = refusals(None, REFUSED)


def test_tables_in_binary_fractions_stay_exact():
    tables = [[0.25, 0.75], [0.125, 0.5, 0.375], [0.0, 1.0]]
    p = ek.factorized(tables)
    for q in (p.normalize(), p.condition({}), p.condition({1: [1.0, 1.0, 1.0]})):
        for v, table in enumerate(tables):
            assert q.input(v).table.tolist() == [table]
    for v, table in enumerate(tables):
        assert p.marginals()[v].tolist() == table
        assert p.marginals({0: [2.0, 2.0]})[v].tolist() == table
    q = ek.mixture([p, ek.factorized([[0.5, 0.5], [0.5, 0.25, 0.25], [0.5, 0.5]])], [0.25, 0.75])
    again = q.normalize()
    for block, other in zip(q.blocks, again.blocks, strict=True):
        np.testing.assert_array_equal(block.flat[0], other.flat[0])


def n_units(vtree, blocks):
    """The number of units of the circuit of blocks, where equal ones may differ by rounding."""
    return Circuit.from_blocks(vtree, [b.refilled(b.flat[0].round(12)) for b in blocks]).n_units


@pytest.mark.parametrize("form", [lambda p: p, sparsified])
@pytest.mark.parametrize("drawn", [drawn_distribution, drawn_deterministic])
@pytest.mark.parametrize("seed", range(8))
def test_conditionals_have_no_more_units_than_they_need(seed, drawn, form):
    p = form(drawn(seed))
    x = with_holes(p.sample(1, rng=seed), 0.5, seed)
    evidence = as_evidence(x, p.schema)
    found = p.condition(x[0])
    blocks = found.blocks
    assert found.n_units == Circuit.from_blocks(p.vtree, blocks).n_units
    assert n_units(p.vtree, blocks) <= 1.1 * n_units(p.vtree, conditional_units(p, evidence))


def test_blocks_are_cut_once_when_they_are_asked_for():
    p = drawn_deterministic(3)
    found = p.condition({0: int(p.sample(1, rng=0)[0, 0])})
    assert "blocks" not in vars(found)
    copied = pickle.loads(pickle.dumps(found))
    assert found.blocks is found.blocks
    assert copied.vtree == found.vtree
    assert_close(joint(copied), joint(found))
    with pytest.raises(AttributeError, match="A Circuit has no attribute 'block'"):
        _ = found.block


COMPONENTS = ([0.9, 0.1], [0.1, 0.9])


def crossing(n, build):
    """A mixture of two factorised circuits that are thousands of nats apart on most rows."""
    return mixture([factorized([table] * n, build(n)) for table in COMPONENTS], [0.6, 0.4])


def component_logs(rows):
    """Logs of weight times likelihood of the two components, (rows, 2)."""
    result = []
    for weight, table in zip([0.6, 0.4], COMPONENTS, strict=True):
        logs = np.where(np.isnan(rows), 0.0, np.log(table)[np.nan_to_num(rows).astype(int)])
        result.append(np.log(weight) + logs.sum(axis=1))
    return np.stack(result, axis=1)


def crossing_rows(n):
    """Rows on which the first, the second, or both components are likely."""
    rng = np.random.default_rng(0)
    half = np.arange(n) % 2.0
    rows = np.stack([np.zeros(n), np.ones(n), half, (np.arange(n) < n // 2) * 1.0])
    partial = rows.copy()
    partial[rng.random(partial.shape) < 0.3] = nan
    few = np.full((1, n), nan)
    few[0, :3] = [0, 1, 1]
    return np.concatenate([rows, partial, few])


BUILDS = [Vtree.balanced, Vtree.right_linear, Vtree.left_linear]


@pytest.mark.parametrize(("build", "copies"), list(zip(BUILDS, [5, 1, 5], strict=True)))
def test_components_thousands_of_nats_apart(build, copies):
    n = 1000
    p = crossing(n, build)
    rows = np.tile(crossing_rows(n), (copies, 1))  # nine rows, or 45: by pattern
    logs = component_logs(rows)
    assert np.abs(logs[0, 0] - logs[0, 1]) > 2000
    assert_logs_close(p.log_likelihood(rows), logsumexp(logs, axis=1))
    share = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    found = p.marginals(rows)
    for variable in (0, 1, n // 2, n - 1):
        exact = np.eye(2)[np.nan_to_num(rows[:, variable]).astype(int)]
        free = np.isnan(rows[:, variable])
        exact[free] = (share @ np.array(COMPONENTS))[free]
        np.testing.assert_allclose(found[variable], exact, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("build", BUILDS)
def test_conditionals_of_components_thousands_of_nats_apart(build):
    n = 1000
    p = crossing(n, build)
    row = crossing_rows(n)[2].copy()  # both components are equally likely so far
    row[-2:] = row[:20] = nan
    logs = component_logs(row[None])[0]
    share = np.exp(logs - logsumexp(logs))
    found = p.condition(row).marginals()
    for variable in (0, 19, n - 1):
        assert_close(found[variable], share @ np.array(COMPONENTS))
    rare = np.concatenate([np.ones(n - 100), np.full(100, nan)])
    q = p.condition(rare)
    assert_close(q.marginals({n - 2: 0})[n - 1], np.array(COMPONENTS[1]))
    assert_logs_close(q.log_likelihood(np.ones((1, n))), np.array([100 * np.log(0.9)]))
    samples = p.sample(400, rng=0)
    assert abs((samples.mean(axis=1) < 0.5).mean() - 0.6) < 6 * np.sqrt(0.24 / 400)
    both = np.stack([np.where(np.isnan(rare), nan, 0.0), rare])
    for found, share in zip(p.sample(200, rng=0, evidence=both), (0.1, 0.9), strict=True):
        assert abs(found[:, -100:].mean() - share) < 6 * np.sqrt(0.09 / 20_000)


@pytest.mark.parametrize("build", BUILDS)
def test_completions_of_components_thousands_of_nats_apart(build):
    # variable 0 tells which of two opposite factorised components a row comes from
    n, tables = 800, ([0.8, 0.2], [0.1, 0.9])
    parts = [factorized([np.eye(2)[i], *[tables[i]] * (n - 1)], build(n)) for i in range(2)]
    p = mixture(parts, [0.6, 0.4])
    rows = np.full((4, n), nan)
    rows[0, 1:], rows[1, 1:], rows[2, 0] = 0.0, 1.0, 0.0
    expected = np.stack([np.zeros(n), np.ones(n), np.zeros(n), np.ones(n)])
    for copies in (1, 10):
        found = p.map(np.tile(rows, (copies, 1)))
        np.testing.assert_array_equal(found, np.tile(expected, (copies, 1)))


def test_deep_circuits():
    n = 2000  # beyond any recursion limit
    p = hmm([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]], length=n)
    row = np.full(n, nan)
    row[::2] = 0
    q = p.condition(row)
    assert abs(q.log_partition()) < 1e-8
    assert p.n_units < 6 * n
    # two steps of the chain around position 1 are enough: the evidence before and after
    # it is summarised by forward and backward messages
    step, emit = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.8, 0.2], [0.3, 0.7]])
    backward = np.ones(2)
    for t in range(n - 1, 1, -1):
        backward = step @ (backward * (emit[:, 0] if t % 2 == 0 else 1.0))
        backward /= backward.sum()
    forward = (np.array([0.5, 0.5]) * emit[:, 0]) @ step
    exact = (forward * backward) @ emit
    assert_close(q.marginals()[1], exact / exact.sum())


def test_gradients_over_thousands_of_nats():
    pytest.importorskip("torch")
    p = crossing(1000, Vtree.right_linear).to("torch")
    weights = p.blocks[-1].weights.requires_grad_(True)
    p.log_likelihood(np.zeros((1, 1000))).sum().backward()
    # the value is dominated by the first component: d log(w a) / dw = 1 / w
    dominant = int(to_numpy(p.blocks[-1].weights).argmax())
    gradient = to_numpy(weights.grad)[0]
    np.testing.assert_allclose(gradient[dominant], 1 / 0.6, rtol=1e-10)
    np.testing.assert_allclose(np.delete(gradient, dominant), 0.0, atol=1e-300)


def test_cancelling_tables_of_many_variables():
    # every table sums to 1e-5: the product is far below the smallest number
    n = 500
    p = factorized([[0.5, -0.49999]] * n, normalized=False)
    np.testing.assert_allclose(p.log_partition(), n * np.log(0.5 - 0.49999), rtol=1e-9)


@pytest.mark.parametrize("size", [120, 150])
def test_heavy_weights_of_products_that_evidence_rules_out(size):
    tiny = 10.0**-size
    parts = [
        factorized([[1, 0], [1, 1]], normalized=False),
        factorized([[1, tiny], [tiny, 3 * tiny]], normalized=False),
    ]
    p = mixture(parts, [1 / tiny, 1.0], normalized=False)
    for found in (p.marginals({0: 1}), p.condition({0: 1}).marginals()):
        assert_close(found[1], np.array([0.25, 0.75]))


def test_numbers_out_of_range_in_soft_evidence():
    p = factorized([[1e-200, 1e-201, 0.5]], normalized=False)
    weights = [1e-200, 1e-200, 0.0]
    expected = np.array([10 / 11, 1 / 11, 0.0])
    assert_close(p.marginals({0: weights})[0], expected)
    assert_close(p.condition({0: weights}).marginals()[0], expected)
    huge = factorized([[1e300, 1e299], [1e300, 1e300]], normalized=False)
    assert_close(huge.marginals({0: [1e300, 1e300]})[0], np.array([10 / 11, 1 / 11]))
