"""Hidden Chow-Liu trees: structure, what they learn, validation, places."""

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from circuit_oracles import joint
from oracles import with_holes


def mixed_rows(n, seed=0):
    """Two groups of rows with different states, over variables of 2, 3 and 4 states."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, size=(n, 1))
    noise = rng.random((n, 6)) < 0.2
    cards = np.array([2, 3, 4, 2, 3, 4])
    states = np.where(noise, rng.integers(0, cards, size=(n, 6)), group * (cards - 1))
    return states.astype(float)


def learned(X, *args, **options):
    return ek.learn_hclt(X, *args, rng=0, progress=False, **options)


def test_a_distribution_that_learns():
    X = mixed_rows(300)
    p = learned(X, 4, epochs=30)
    assert p.cardinalities == (2, 3, 4, 2, 3, 4)
    assert_close(joint(p).sum(), 1.0)
    tree = ek.learn_chow_liu(X, pseudocount=0.1)
    test = mixed_rows(300, seed=1)
    assert p.log_likelihood(test).mean() > tree.log_likelihood(test).mean() + 0.05


def test_structure():
    X = mixed_rows(50)
    p = learned(X, 3, epochs=0)
    assert {block.n_units for block in p.blocks[:-1]} == {3}
    assert p.n_roots == learned(X, 1, epochs=2).n_roots == 1
    assert learned(X[:, :1], 3, epochs=1).n_variables == 1


@pytest.mark.parametrize(("path", "expected"), [
    ([0, 1, 2, 3], "Vtree(((1, 0), (2, 3)))"),
    ([3, 1, 0, 2], "Vtree(((0, 2), (1, 3)))"),  # the child with a child of its own comes last
])  # fmt: skip
def test_vtrees_join_hidden_variables_with_their_children(path, expected):
    rng = np.random.default_rng(0)
    X = np.empty((500, 4))
    X[:, path] = np.cumsum(rng.random((500, 4)) < [0.5, 0.1, 0.1, 0.1], axis=1) % 2
    assert repr(learned(X, 2, epochs=0).vtree) == expected


FEW, CARDS = mixed_rows(5), [2, 3, 4, 2, 3, 4]


test_what_is_wrong_is_said = refusals(None, [
    ({"batch_size": "all"}, ek.CircuitError,
     r"'batch_size' parameter .* an int in the range \[1, inf\), 'auto' or None. Got 'all'"),
    ({"X": FEW[:0], "cardinalities": 4}, ek.DataError, "learn_hclt needs at least one"),
    ({"X": lambda: iter([FEW]), "restarts": 2, "cardinalities": CARDS}, ek.DataError,
     "takes no 'restarts'"),
], lambda options: learned(**{"X": FEW, "n_latent": 2} | options))  # fmt: skip


def test_learning_goes_on_from_what_was_kept():
    X, valid = mixed_rows(60), mixed_rows(40, seed=3)
    kept = []
    p = learned(X, 3, epochs=4, callback=lambda *now: kept.append(now))
    assert len(kept) == 4
    assert_close(kept[-1][0].log_likelihood(X), p.log_likelihood(X))
    assert [mean for _, mean in kept] == sorted(mean for _, mean in kept)
    assert_close(kept[1][1], kept[0][0].log_likelihood(X).mean())
    again = learned(X, 3, epochs=2, start=kept[1][0])
    assert_close(again.log_likelihood(X), p.log_likelihood(X))
    seen = []
    learned(X, 3, epochs=2, X_valid=valid, callback=lambda *now: seen.append(now))
    for circuit, mean in seen:
        assert_close(circuit.log_likelihood(valid).mean(), mean)
    same = ek.em(p, X, 2, progress=False, callback=lambda *found: kept.append(found))
    assert_close(kept[-1][0].log_likelihood(X), same.log_likelihood(X))


def test_data_frames_go_on_by_names():
    rng = np.random.default_rng(0)
    sky = rng.integers(0, 2, size=50)
    rain = (sky + (rng.random(50) < 0.1)) % 2
    table = pd.DataFrame({"sky": np.where(sky, "grey", "blue"), "rain": rain})
    kept = []
    p = learned(table, 2, epochs=3, callback=lambda circuit, mean: kept.append(circuit))
    assert (kept[0].names, kept[0].states) == (p.names, p.states)
    again = learned(table, 2, epochs=2, start=kept[0])
    assert_close(again.log_likelihood(table), p.log_likelihood(table))
    found = [learned(X, 2, epochs=2, start=p) for X in (table[["rain", "sky"]], table)]
    assert found[0].names == p.names
    assert_close(*(circuit.log_likelihood(table) for circuit in found))
    message = "X_valid must have at least one row"
    assert_raises(ek.DataError, message, learned, table, 2, start=p, X_valid=table[:0])
    assert_raises(ek.DataError, "wind", learned, table.rename(columns={"sky": "wind"}), 2, start=p)


def test_the_best_of_several_starts_is_kept():
    X, valid = mixed_rows(60), mixed_rows(100, seed=3)
    found = []
    options = {"epochs": 3, "restarts": 4, "callback": lambda *now: found.append(now)}
    kept = learned(X, 4, pseudocount=0.01, **options)
    ends = found[2::3]
    circuit, _ = max(ends, key=lambda now: now[1])
    assert_close(kept.log_likelihood(X), circuit.log_likelihood(X))
    assert len({mean for _, mean in ends}) == 4
    scores = []
    options = {"epochs": 6, "restarts": 3, "callback": lambda p, mean: scores.append(mean)}
    best = learned(X, 4, X_valid=valid, **options)
    assert len(scores) == 18
    assert_close(best.log_likelihood(valid).mean(), max(scores))


def random_walks(n, seed=0):
    """States of walks on a circle of eight places, of which two neighbours look the same."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 8, size=(n, 1))
    return (first + np.cumsum(rng.integers(-1, 2, size=(n, 12)), axis=1)) % 8 // 2


def test_batches_of_the_automatic_size_learn_more_than_the_full_batch():
    X, test = random_walks(500), random_walks(2000, seed=1)

    def score(**options):
        found = (ek.learn_hclt(X, 8, rng=i, progress=False, **options) for i in range(3))
        return np.mean([p.log_likelihood(test).mean() for p in found])

    assert score() > score(batch_size=None) + 0.03
    found = [learned(X, 8, **options) for options in ({}, {"batch_size": "auto"})]
    np.testing.assert_array_equal(*(p.log_likelihood(test) for p in found))


def test_automatic_batches_come_after_passes_over_the_full_batch():
    X, kept, full = mixed_rows(300), [], []
    learned(X, 3, epochs=9, callback=lambda p, mean: kept.append(p.log_likelihood(X)))
    learned(X, 3, epochs=9, batch_size=None, callback=lambda p, _: full.append(p.log_likelihood(X)))
    np.testing.assert_array_equal(kept[:3], full[:3])
    assert len(kept) == len(full) == 9
    assert not np.allclose(kept[3], full[3])
    means = []
    learned(X, 3, callback=lambda p, mean: means.append(mean))
    assert len(means) == 15
    valid, means = mixed_rows(200, seed=3), []
    p = learned(X, 3, X_valid=valid, patience=20, callback=lambda p, mean: means.append(mean))
    assert len(means) == 15
    assert_close(p.log_likelihood(valid).mean(), max(means))


def test_patience_is_for_the_passes_in_batches_alone():
    X, valid, means = random_walks(200), random_walks(200, seed=1), []
    start = ek.learn_hclt(X, 8, X_valid=valid, batch_size=None, rng=0, progress=False)
    options = {"start": start, "X_valid": valid, "patience": 5, "epochs": 12}
    p = learned(X, 8, **options, callback=lambda p, mean: means.append(mean))
    assert max(means[4:9]) < max(means[:4])
    assert len(means) > 9
    assert_close(p.log_likelihood(valid).mean(), max(means))


@pytest.mark.parametrize("dtype", [None, "float64", "float32"])
def test_the_full_batch_is_plain_em_and_batches_are_the_same_everywhere(dtype):
    X, options = with_holes(mixed_rows(300), 0.05), {}
    if dtype is not None:
        pytest.importorskip("torch")
        options = {"device": "torch", "dtype": dtype}
    start = learned(X, 4, epochs=0, batch_size=None)
    wanted = ek.em(start, X, 50, pseudocount=0.1, progress=False).log_likelihood(X)
    found = learned(X, 4, batch_size=None, **options).log_likelihood(X)
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-10}
    np.testing.assert_allclose(found, wanted, **near)
    batches = [learned(X, 4, epochs=4, batch_size=32, **more) for more in ({}, options)]
    np.testing.assert_allclose(*(p.log_likelihood(X) for p in batches), **near)


def test_few_rows_are_one_batch():
    X = mixed_rows(300)
    one_heavy = np.where(np.arange(300) == 7, 1e4, 1.0)
    few_left = (np.arange(300) < 99).astype(float)
    for rows, weights in ((X[:99], None), (X, one_heavy), (X, few_left)):
        options = {"sample_weight": weights, "cardinalities": 4}
        found, wanted = (learned(rows, 3, batch_size=size, **options) for size in ("auto", None))
        np.testing.assert_array_equal(found.log_likelihood(X), wanted.log_likelihood(X))


def test_automatic_batches_of_weighted_rows():
    X, test = mixed_rows(300), mixed_rows(300, seed=1)
    plain = learned(X, 3).log_likelihood(test)
    same = learned(X, 3, sample_weight=np.full(300, 7.0)).log_likelihood(test)
    assert_close(same, plain)
    options = {"cardinalities": 4, "pseudocount": 0.0}
    weights = np.where(np.arange(300) < 200, 1.0, 0.0)
    found = learned(X, 3, sample_weight=weights, **options).log_likelihood(test)
    assert_close(found, learned(X[:200], 3, **options).log_likelihood(test))
    uneven = np.random.default_rng(0).lognormal(size=300)
    p = learned(X, 3, sample_weight=uneven)
    full = learned(X, 3, sample_weight=uneven, batch_size=None)
    assert abs(p.log_likelihood(X) @ uneven / (full.log_likelihood(X) @ uneven) - 1) < 0.01


def test_trees_over_variables_with_very_many_states():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, [4200, 5], size=(8000, 2)).T
    same = rng.random((2, 8000)) < 0.9
    third, fourth = np.where(same, [first // 840, second], rng.integers(0, 5, size=(2, 8000)))
    X, cards = np.stack([first, second, third, fourth], axis=1), [4200, 5, 5, 5]
    p = ek.learn_hclt(X, 2, epochs=0, cardinalities=cards, rng=0, progress=False)
    scopes = [set(p.vtree.scope(node).tolist()) for node in range(p.vtree.n_nodes)]
    assert {0, 2} in scopes or {1, 3} in scopes
