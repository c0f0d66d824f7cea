import numpy as np
import pytest
from scipy import sparse

from expectedkernels.circuits import equal_rows
from expectedkernels.circuits.equal_rows import distinct_dense_rows, distinct_rows


def drawn_rows(seed, n):
    """Rows of few numbers, so that many are equal or empty."""
    rng = np.random.default_rng(seed)
    return rng.choice([0.0, 0.25, 0.5, -1.0], size=(n, 4), p=[0.6, 0.2, 0.1, 0.1])


def by_definition(rows):
    """The first of equal rows, and the place of every row among these."""
    first, kept, place = {}, [], []
    for i, row in enumerate(rows.tolist()):
        if not any(row):
            place.append(-1)
            continue
        if tuple(row) not in first:
            first[tuple(row)] = len(kept)
            kept.append(i)
        place.append(first[tuple(row)])
    return kept, place


@pytest.mark.parametrize("n", [0, 1, 30, 500])
@pytest.mark.parametrize("collide", [False, True])
def test_rows_are_told_apart_by_hashes_and_without(n, collide, monkeypatch):
    if collide:
        monkeypatch.setattr(equal_rows, "MIX", [np.uint64(0)] * 3)
    for seed in range(5):
        rows = drawn_rows(seed, n)
        expected = by_definition(rows)
        csr = sparse.csr_array(rows)
        for found in (
            distinct_dense_rows(rows),
            distinct_rows(csr.indptr, csr.indices, csr.data),
        ):
            assert tuple(part.tolist() for part in found) == expected


def test_rows_of_one_hash_and_other_lengths_are_different(monkeypatch):
    monkeypatch.setattr(equal_rows, "MIX", [np.uint64(0)] * 3)
    rows = np.tril(np.ones((80, 80)))
    kept, place = distinct_dense_rows(rows)
    assert kept.tolist() == place.tolist() == list(range(80))


def test_distinct_rows_keep_their_order():
    rows = np.random.default_rng(0).random((200, 3))
    kept, place = distinct_dense_rows(rows)
    assert kept.tolist() == place.tolist() == list(range(200))
