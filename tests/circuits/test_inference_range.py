"""Questions whose numbers differ by thousands of nats, or leave the range of floats: the answers
must be right all the same."""

import numpy as np
import pytest
from scipy.special import logsumexp

from assertions import assert_close, assert_logs_close, to_numpy
from expectedkernels import Vtree, factorized, hmm, mixture

nan = np.nan
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
