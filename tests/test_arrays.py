import numpy as np
import pytest
from scipy import sparse

from assertions import assert_raises, to_numpy
from expectedkernels import CircuitError, arrays, arrays as equal_rows


def test_arrays_travel_there_and_back(xp):
    array = arrays.Place(xp).move(np.arange(6.0).reshape(2, 3))
    back = arrays.to_numpy(array)
    np.testing.assert_array_equal(back, np.arange(6.0).reshape(2, 3))
    again = arrays.as_like(back, array)
    assert type(again) is type(array)
    np.testing.assert_array_equal(to_numpy(again), back)
    assert arrays.to_numpy(arrays.Place(xp).move(np.arange(3))).dtype == np.int64


def test_missing_devices():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        assert arrays.Place("cuda").move(np.ones(2)).device.type == "cuda"
    else:
        assert_raises(
            CircuitError, "There is no device 'cuda': torch sees no CUDA", arrays.Place, "cuda"
        )


@pytest.mark.parametrize("rng", [None, 3, np.int64(3), [1, 2], np.random.default_rng(0)])
def test_sources_of_random_numbers(rng):
    assert isinstance(arrays.as_generator(rng), np.random.Generator)


def test_frozen_arrays():
    plain, matrix = np.ones(3), sparse.csr_array(np.eye(2))
    still, still_matrix = arrays.frozen(plain), arrays.frozen(matrix)
    assert np.shares_memory(still, plain)
    assert arrays.frozen(still) is still
    assert arrays.frozen(still_matrix) is still_matrix
    assert arrays.frozen(None) is None
    for array in (still, still_matrix.data, still_matrix.indices, still_matrix.indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert plain.flags.writeable
    assert matrix.data.flags.writeable
    pytest.importorskip("torch")
    still = arrays.frozen(np.ones(3))
    moved = arrays.Place("torch").move(still)
    moved[0] = 0.0
    assert still.tolist() == [1.0, 1.0, 1.0]
    like = arrays.as_like(still, moved)
    like[0] = 0.0
    assert still.tolist() == [1.0, 1.0, 1.0]


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
        monkeypatch.setattr(equal_rows, "_mixed", np.zeros_like)
    for seed in range(5):
        for rows in (drawn_rows(seed, n), np.random.default_rng(seed).random((min(n, 80), 3))):
            expected = by_definition(rows)
            csr = sparse.csr_array(rows)
            for found in (
                arrays.distinct_dense_rows(rows),
                arrays.distinct_sparse_rows(csr.indptr, csr.indices, csr.data),
            ):
                assert tuple(part.tolist() for part in found) == expected
