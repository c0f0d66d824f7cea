"""Samples and most probable rows from the root down, against loops over units."""

import numpy as np
import pytest

from assertions import assert_close
from circuit_oracles import drawn_deterministic, drawn_distribution
from expectedkernels import factorized, mixture
from expectedkernels.circuits import queries as choices
from expectedkernels.circuits.conditioning import certain, forward_logs, observed
from expectedkernels.data.evidence import as_evidence
from expectedkernels.engine import sampling as descend
from expectedkernels.engine.passes import forward
from oracles import Inner

SEEDS = range(8)


def node_logs(p, evidence):
    """For every vtree node the logs of its units, given one row."""
    logs, starts = forward_logs(p, evidence).values[:, 0], p.layers.unit_starts.tolist()
    return [logs[at : at + n] for at, n in zip(starts, p.operand.units, strict=True)]


def walked(p, read, n, generator):
    """Samples node by node from the root down, as seeds promise them."""
    n_rows = 1 if read is None else read.n_rows
    row = np.repeat(np.arange(n_rows), n)
    drawn = np.empty((len(row), p.n_variables))
    given = [None if read is None else read.rows(np.array([i])) for i in range(n_rows)]
    values = [node_logs(p, evidence) for evidence in given]
    unit = {p.vtree.root: np.zeros(len(row), dtype=int)}
    for node in range(p.vtree.root, -1, -1):
        at, block = unit.pop(node), p.blocks[node]
        chosen = at
        if not isinstance(block, Inner) or block.weights is not None:
            uniform = generator.random(len(row))
            chosen = np.empty_like(at)
            for i, (r, u) in enumerate(zip(row, at, strict=True)):
                scores = np.exp(terms_of(p, node, values[r], given[r], u))
                edge = np.cumsum(scores) / scores.sum()
                chosen[i] = min(np.searchsorted(edge, uniform[i], "right"), scores.nonzero()[0][-1])
        if isinstance(block, Inner):
            unit[int(p.vtree.left[node])] = block.index("left")[chosen]
            unit[int(p.vtree.right[node])] = block.index("right")[chosen]
            continue
        variable = int(p.vtree.variable[node])
        if block.cardinality is None:
            chosen = generator.normal(block.mean[chosen], np.sqrt(block.variance[chosen]))
            seen = [np.nan if e is None else e.values[0, variable] for e in given]
            chosen = np.where(np.isnan(seen)[row], chosen, np.array(seen)[row])
        drawn[:, variable] = chosen
    return drawn


def terms_of(p, node, values, evidence, unit):
    """The logs of what the edges of a unit of one node add to it."""
    block = p.blocks[node]
    if isinstance(block, Inner):
        left = values[p.vtree.left[node]][block.index("left")]
        right = values[p.vtree.right[node]][block.index("right")]
        with np.errstate(divide="ignore"):
            return np.log(block.csr.toarray()[unit]) + left + right
    with np.errstate(divide="ignore"):
        numbers = np.log(block.numbers[unit])
    if evidence is None:
        return numbers
    return numbers + block.log_weights(evidence.column(int(p.vtree.variable[node])))[:, 0]


@pytest.mark.parametrize("long", [0, 12])
@pytest.mark.parametrize("seed", SEEDS)
def test_samples_are_those_of_the_walk_node_by_node(seed, long, monkeypatch):
    monkeypatch.setattr(descend, "LONG", long)
    p = drawn_distribution(seed, share_real=0.3)
    X = p.sample(4, rng=0)
    X[np.random.default_rng(seed).random(X.shape) < 0.6] = np.nan
    for rows, n in ((None, 30), (X[:1], 30), (X, 7)):
        read = None if rows is None else as_evidence(rows, p.schema)
        expected = walked(p, read, n, np.random.default_rng(7))
        scale = np.maximum(np.abs(expected), 1.0)

        def sampled(rows=rows, n=n):
            return p.sample(n, rng=7, evidence=rows).reshape(-1, p.n_variables)

        assert_close(sampled(), expected, scale)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choices, "layers_of", lambda p: None)
            assert_close(sampled(), expected, scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_most_probable_rows_with_long_units(seed, monkeypatch):
    p = drawn_deterministic(seed)
    X = np.full((3, p.n_variables), np.nan)
    before = p.map(X)
    monkeypatch.setattr(descend, "LONG", 0)
    np.testing.assert_array_equal(p.map(X), before)
    np.testing.assert_array_equal(p.map(X[0]), before[0])


def test_samples_out_of_range_are_drawn_in_logs():
    far = np.exp([0.0, -5.0]) / (1 + np.exp(-5.0))
    tables = [far] * 200 + [far[::-1]] * 200
    p = mixture([factorized(tables), factorized(tables[::-1])])
    x = np.zeros((1, 400))
    x[0, 0] = np.nan
    assert not certain(forward(p.layers, observed(p, p.layers, as_evidence(x, p.schema)))).any()
    assert p.sample(2000, rng=0, evidence=x[0])[:, 0].mean() == pytest.approx(
        (far**2).sum(), abs=0.02
    )


def test_samples_in_parts_are_those_of_calls_one_after_the_other(monkeypatch):
    p = drawn_distribution(0)
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    monkeypatch.setattr(choices, "NOISE_BYTES", 8 * 10 * p.vtree.n_nodes)
    several = np.concatenate([p.sample(n, rng=one) for n in (10, 10, 5)])
    np.testing.assert_array_equal(p.sample(25, rng=other), several)
    assert one.random() == other.random()
