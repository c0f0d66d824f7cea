"""Expected counts by layers, beside those by patterns of rows; chunks, progress, interrupts."""

import sys
from itertools import pairwise

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close
from circuit_oracles import drawn_distribution, sparsified
from expectedkernels import Circuit, em, random_circuit
from expectedkernels.data.evidence import as_evidence
from expectedkernels.engine import value
from expectedkernels.learning.em import _by_layers, expected_counts, pattern_counts
from expectedkernels.learning.training_data import Rows
from oracles import Inner, Table

module = sys.modules[em.__module__]  # the package has the function under this name
NAN = np.nan


def fit(circuit, X, iterations=1, **options):
    return em(circuit, X, iterations, progress=False, **options)


def numbers_of(block):
    """The parameters of a discrete block, one row per unit; None if there are none."""
    if isinstance(block, Table):
        return np.asarray(block.table)
    return None if block.weights is None else block.csr.toarray()


def same_parameters(p, q):
    for a, b in zip(p.blocks, q.blocks, strict=True):
        assert (a.n_units, getattr(a, "n_products", 0)) == (b.n_units, getattr(b, "n_products", 0))
        if numbers_of(a) is not None:
            np.testing.assert_allclose(numbers_of(a), numbers_of(b), rtol=1e-9, atol=1e-12)


def test_rows_are_worked_on_in_chunks():
    p = ek.random_circuit(6, 4, rng=1)
    X = np.random.default_rng(0).integers(2, size=(300, 6)).astype(float)
    weights = np.linspace(0.5, 2.0, 300)
    found = module.chunks_of(p, as_evidence(X, p.cardinalities), 4000)
    assert len(found) > 4
    assert found[0].start == 0
    assert found[-1].stop == 300
    assert all(a.stop == b.start for a, b in pairwise(found))
    options = {"sample_weight": weights, "pseudocount": 1.0}
    same_parameters(fit(p, X, 3, max_bytes=4000, **options), fit(p, X, 3, **options))


@pytest.mark.parametrize("density", [None, 0.2])
@pytest.mark.parametrize("always_gather", [False, True])
def test_values_out_of_range_make_no_difference(monkeypatch, density, always_gather):
    p = ek.random_circuit(ek.Vtree.random(8, rng=0), 6, rng=1, cardinalities=3, density=density)
    if density is not None:  # as large circuits store them
        blocks = [
            Inner(b.n_products, b.n_units, b.left, b.right, b.csr)
            if isinstance(b, Inner) and b.weights is not None
            else b
            for b in p.blocks
        ]
        p = ek.Circuit(p.vtree, tuple(blocks))
    rng = np.random.default_rng(0)
    X = p.sample(70, rng)
    X[rng.random(X.shape) < 0.3] = NAN
    plain = fit(p, X, 2)
    if always_gather:
        monkeypatch.setattr("expectedkernels.learning.em.GATHER_ABOVE", 0)
        monkeypatch.setattr("expectedkernels.learning.em.CHUNK", 100)
    else:
        monkeypatch.setattr(value, "limit", lambda array: 0.5)
    same_parameters(fit(p, X, 2), plain)


class Bar:
    """Records what a bar on a terminal would show."""

    disable = False

    def __init__(self, total, name, quiet, unit):
        self.desc, self.shown, self.updates = name, [], 0
        Bar.last = self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.closed = True

    def set_postfix_str(self, text, refresh):
        self.shown.append(text)

    def write(self, text, file):
        self.shown.append(text)

    def update(self, n):
        self.updates += n


def test_an_interrupt_returns_the_last_circuit(monkeypatch):
    p = ek.random_circuit(4, 3, rng=0)
    X = np.random.default_rng(0).integers(2, size=(50, 4))
    expected = fit(p, X, 2)
    step, calls = module.maximized, []

    def interrupted(*arguments):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(module, "maximized", interrupted)
    monkeypatch.setattr(module, "progress_bar", Bar)
    same_parameters(em(p, X, 10), expected)
    assert "interrupted" in Bar.last.shown[-1]
    assert Bar.last.closed


def test_the_bar_shows_the_likelihood(monkeypatch, capsys):
    p = ek.factorized([[0.5, 0.5]])
    em(p, [[0], [1]], 3)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(module, "progress_bar", Bar)
    em(p, [[0], [1]], 3)
    for shown in Bar.last.shown:
        likelihood, rows = shown.rsplit(", ", 1)
        assert likelihood == "log-likelihood -0.6931, 1.0000 bits per variable"
        assert rows.endswith(" rows/s")
        assert float(rows.split()[0]) > 0
    assert len(Bar.last.shown) == 3
    assert Bar.last.updates == 3


def rows_of(p, n, seed):
    X = p.sample(n, rng=seed)
    X[np.random.default_rng(seed).random(X.shape) < 0.4] = np.nan
    return as_evidence(X, p.schema)


@pytest.mark.parametrize("form", [lambda p: p, sparsified])
@pytest.mark.parametrize("n", [1, 50])
@pytest.mark.parametrize("seed", [*range(8), "dense"])
def test_both_ways_agree(seed, n, form, monkeypatch):
    dense = seed == "dense"
    p = form(random_circuit(6, 20, rng=0) if dense else drawn_distribution(seed).normalize())
    rows = Rows(rows_of(p, n, 0), np.random.default_rng(0).uniform(0.5, 2.0, n), np.arange(n), n)
    monkeypatch.setattr(module, "_by_layers", lambda *_: True)
    total, counts = expected_counts(p, rows)
    expected_total, expected = pattern_counts(p, rows)
    assert_close(np.float64(total), np.float64(expected_total), scale=1.0 + abs(expected_total))
    for found, right in zip(counts, expected, strict=True):
        assert (found is None) == (right is None)
        if found is not None:
            assert_close(found[0], right[0], scale=np.maximum(np.abs(right[0]), 1e-3))


def test_circuits_of_em_share_their_levels(monkeypatch):
    start = random_circuit(6, 5, rng=0)
    X = random_circuit(6, 2, rng=1).sample(40, rng=0)
    fitted = em(start, X, iterations=3, progress=False)
    assert "levels" in vars(fitted)
    fresh = Circuit(fitted.vtree, fitted.blocks)
    for level, own in zip(fitted.levels.levels, fresh.levels.levels, strict=True):
        np.testing.assert_array_equal(level.edges.weights, own.edges.weights)
        np.testing.assert_array_equal(level.edges.products, own.edges.products)
        for one, other in zip(level.stacks, own.stacks, strict=True):
            np.testing.assert_array_equal(one.weights, other.weights)
    monkeypatch.setattr(module, "_by_layers", lambda *_: False)
    slow = em(start, X, iterations=3, progress=False)
    assert_close(fitted.log_likelihood(X), slow.log_likelihood(X))


def test_levels_are_not_shared_if_zeros_differ():
    p = random_circuit(3, 3, rng=0)
    p.log_partition()
    blocks = list(p.blocks)
    table = blocks[0].table.copy()
    table[0, 0] = 0.0
    blocks[0] = type(blocks[0])(table)
    q = Circuit(p.vtree, tuple(blocks)).sharing(p)
    assert "levels" not in vars(q)


def test_real_variables_and_several_roots_are_left_to_flows():
    for p, shape in ((drawn_distribution(1, share_real=1.0), 2), (random_circuit(2, 2), (2, 2))):
        rows = Rows(rows_of(p, 2, 0), np.ones(shape), np.arange(2), 2)
        assert not _by_layers(p, rows)
