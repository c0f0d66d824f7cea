"""Squares of circuits with negative weights, against sums over all states."""

import copy
import pickle

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_frequencies, assert_raises
from oracles import conditionals, evidence_as_weights, worlds

CARDS = [2, 3, 2, 2]
STATES = worlds(CARDS).astype(int)


def signed(seed, units=3):
    """A circuit whose weights have both signs, and its values at all states."""
    rng = np.random.default_rng(seed)
    vtree = ek.Vtree.random(4, rng=seed)
    parts = [ek.random_circuit(vtree, units, rng=rng, cardinalities=CARDS) for _ in range(3)]
    c = np.array([1.0, -1.3, 0.4])
    values = sum(w * np.exp(p.log_likelihood(STATES)) for w, p in zip(c, parts, strict=True))
    return ek.algebra.linear_combination(parts, c), values


def squared(seed, units=3):
    """The normalised square of such a circuit, and its values at all states."""
    f, values = signed(seed, units)
    return ek.algebra.square(f), values**2 / (values**2).sum()


@pytest.mark.parametrize("seed", range(6))
def test_the_density_is_the_square(seed):
    p, density = squared(seed)
    assert p.log_partition() == pytest.approx(0.0, abs=1e-12)
    assert np.exp(p.log_likelihood(STATES)) == pytest.approx(density, abs=1e-13)
    holes = np.where([True, False, True, False], np.nan, STATES)
    wanted = [density[(STATES[:, [1, 3]] == row[[1, 3]]).all(axis=1)].sum() for row in holes]
    assert np.exp(p.log_likelihood(holes)) == pytest.approx(wanted, abs=1e-13)
    for evidence in (None, {1: 2}, {0: 1, 3: 0}, {1: [0.2, 0.0, 0.7], 2: 1}):
        given = density.copy()
        for v, state in (evidence or {}).items():
            weights = state if isinstance(state, list) else np.eye(CARDS[v])[state]
            given *= np.asarray(weights)[STATES[:, v]]
        found = np.exp(p.condition(evidence or {}).log_likelihood(STATES))
        assert found == pytest.approx(given / given.sum(), abs=1e-12)
        for v, found in enumerate(p.marginals(evidence)):
            wanted = np.bincount(STATES[:, v], given) / given.sum()
            assert found == pytest.approx(wanted, abs=1e-12)


def test_samples_and_expected_kernels():
    p, density = squared(1)
    assert_frequencies(p.sample(20000, rng=0), density.reshape(CARDS))
    rows = np.array([[1, np.nan, np.nan, 0], [0, 2, np.nan, np.nan]])
    wanted = conditionals(density, evidence_as_weights(rows, CARDS), STATES)
    for sample, given in zip(p.sample(5000, rng=0, evidence=rows), wanted, strict=True):
        assert_frequencies(sample, given.reshape(CARDS))
    (p, a), (q, b) = squared(2), squared(2, units=2)
    K = ek.ExpHamming(0.5)(STATES)
    assert ek.expected_kernel(p, q, ek.ExpHamming(0.5)) == pytest.approx(a @ K @ b, abs=1e-13)
    assert ek.mmd2(p, q, ek.ExpHamming(0.5)) == pytest.approx((a - b) @ K @ (a - b), abs=1e-13)


def test_values_that_cancel():
    a, b = ek.factorized([[0.3, 0.7], [0.1, 0.9]]), ek.factorized([[0.3, 0.7], [0.4, 0.6]])
    f = ek.algebra.linear_combination([a, b], [4.0, -1.0])
    p = ek.algebra.square(f)
    logs = p.log_likelihood([[0, 0], [1, 0], [0, 1]])
    assert (logs[:2] < -35).all()
    assert p.marginals()[1] == pytest.approx([0.0, 1.0], abs=1e-15)
    assert (p.sample(200, rng=0)[:, 1] == 1).all()
    f, _ = signed(0)
    assert not ek.algebra.nonnegative(f)
    assert "no square" in ek.algebra.nonnegative(f).reason
    assert "square" in ek.algebra.nonnegative(ek.algebra.square(f)).reason
    plain = ek.factorized([[0.5, 0.5]])
    assert ek.algebra.nonnegative(plain).reason == "no weight is negative"


def stored(p, tmp_path):
    ek.io.save(p, tmp_path / "square.npz")
    return ek.io.load(tmp_path / "square.npz")


def swapped(vtree):
    return ek.Vtree(vtree.right, vtree.left, vtree.variable)


COPIES = {
    "pickled": lambda p, _: pickle.loads(pickle.dumps(p)),
    "copied": lambda p, _: copy.deepcopy(p),
    "stored": stored,
    "moved": lambda p, _: p.to("torch"),
    "moved back": lambda p, _: p.to("torch").to("numpy"),
    "named": lambda p, _: p.with_names(list("abcd")),
    "normalised": lambda p, _: p.normalize(),
    "swapped": lambda p, _: p.aligned_to(swapped(p.vtree)),
    "given nothing": lambda p, _: p.condition({0: {0, 1}}),
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_are_squares(how, tmp_path):
    square, density = squared(0)
    p = COPIES[how](square, tmp_path)
    assert "square" in ek.algebra.nonnegative(p).reason
    assert np.exp(np.asarray(p.log_likelihood(STATES))) == pytest.approx(density, abs=1e-13)
    assert p.marginals()[1] == pytest.approx(np.bincount(STATES[:, 1], density), abs=1e-12)
    np.testing.assert_array_equal(p.sample(5, rng=0), square.sample(5, rng=0))


def test_conditionals_and_marginals_are_squares():
    p, density = squared(1)
    assert (p.condition({1: 2, 3: {0}}).sample(20, rng=0)[:, [1, 3]] == [2, 0]).all()
    less = ek.algebra.marginalize(p, [0])
    assert less.marginals()[1] == pytest.approx(np.bincount(STATES[:, 2], density), abs=1e-12)
    assert less.sample(3, rng=0).shape == (3, 3)


def test_a_square_whose_numbers_were_changed_is_none():
    p = squared(0)[0].to("torch")
    p.blocks[-1].weights[0, 0] *= -3.0
    assert not ek.algebra.nonnegative(p)
    assert not ek.algebra.nonnegative(p.to("numpy"))
    assert_raises(ek.PropertyError, "without negative weights", p.sample, 1)


def test_what_cannot_be_asked_is_refused():
    normals = [ek.Gaussian(0, 0.0, 1.0), ek.Gaussian(0, 1.0, 1.0)]
    f = ek.Circuit.from_units(ek.Sum(normals, [0.5, 0.5]))
    p = ek.algebra.square(f)
    assert_raises(ek.PropertyError, r"of a square needs discrete variables. Variable", p.sample, 3)
    with pytest.raises(ek.PropertyError, match=r"do not meet|zero"):
        ek.algebra.square(ek.factorized([[0.0, 0.0]], normalized=False))
    with pytest.raises(ek.EvidenceError, match=r"probability zero"):
        ek.algebra.square(ek.factorized([[1.0, 0.0], [0.5, 0.5]])).sample(2, evidence={0: 1})
