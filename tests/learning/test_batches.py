"""EM in batches and on devices, against EM on all data in NumPy."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close
from expectedkernels import Vtree

P = ek.random_circuit(Vtree.random(12, rng=1), 18, rng=1, cardinalities=4, density=0.5)
START = ek.random_circuit(P.vtree, 18, rng=5, cardinalities=4, density=0.7)
RNG = np.random.default_rng(0)
X = P.sample(120, rng=1)
X[RNG.random(X.shape) < 0.2] = np.nan
WEIGHTS = RNG.integers(0, 3, size=120).astype(float)
PLACES = [
    {"step": 1.0},
    {"device": "torch"},
    {"device": "torch", "dtype": "float64", "batch_size": 120, "step": 1.0},
]


@pytest.mark.parametrize("options", [{}, {"sample_weight": WEIGHTS, "pseudocount": 2.0}])
@pytest.mark.parametrize("place", PLACES)
def test_all_rows_at_once_are_plain_em(place, options):
    pytest.importorskip("torch")
    wanted = ek.em(START, X, 4, progress=False, **options)
    found = ek.em(START, X, 4, progress=False, **options, **place)
    assert_close(found.log_likelihood(X), wanted.log_likelihood(X))
    assert abs(found.log_partition()) < 1e-12
    assert found.is_on_host
    for one, other in zip(found.blocks, wanted.blocks, strict=True):
        assert type(one.numbers) is type(other.numbers)


def test_single_precision():
    pytest.importorskip("torch")
    wanted = ek.em(START, X, 4, pseudocount=1.0, progress=False)
    found = ek.em(START, X, 4, pseudocount=1.0, progress=False, device="torch", dtype="float32")
    np.testing.assert_allclose(found.log_likelihood(X), wanted.log_likelihood(X), atol=1e-5)
    assert abs(found.log_partition()) < 1e-12


def test_batches_are_the_same_everywhere_and_learn():
    pytest.importorskip("torch")
    options = {"batch_size": 32, "pseudocount": 0.1, "rng": 0, "progress": False}
    found = [ek.em(START, X, 6, **options, device=device) for device in (None, "torch")]
    assert_close(found[1].log_likelihood(X), found[0].log_likelihood(X))
    assert found[0].log_likelihood(X).mean() > START.log_likelihood(X).mean() + 0.5


def test_one_batch_moves_weights_by_its_step():
    # one variable with states 0 and 1, seen 3 times and once; halfway from (1/2, 1/2)
    p = ek.factorized([[0.5, 0.5]])
    rows = [[0], [0], [0], [1]]
    q = ek.em(p, rows, 1, step=0.5, progress=False)
    assert_close(q.input(0).table, [[0.625, 0.375]])
    q = ek.em(p, rows, 1, batch_size=4, step=(0.5, 0.1), pseudocount=4.0, progress=False)
    assert_close(q.input(0).table, [[0.5 + 0.5 * (5 / 8 - 0.5), 0.5 - 0.5 * (5 / 8 - 0.5)]])


def test_what_is_wrong_is_said():
    p = ek.factorized([[1.0, 0.0], [0.5, 0.5]])
    with pytest.raises(ek.DataError, match="Row 2 of the data has probability zero"):
        ek.em(p, [[0, 0], [0, 1], [1, 0]], batch_size=3, progress=False)
    real = ek.gaussian_mixture([0.3, 0.7], [0.0, 2.0], [1.0, 2.0])
    with pytest.raises(
        ek.CircuitError, match="Variable 0 is real: leave out batch_size and device"
    ):
        ek.em(real, [[0.5]], batch_size=1, progress=False)
    with pytest.raises(ek.CircuitError, match="Single precision needs device='torch'"):
        ek.em(p, [[0, 0]], dtype="float32", progress=False)
    with pytest.raises(ek.CircuitError, match="'batch_size' parameter of em must be an int"):
        ek.em(p, [[0, 0]], batch_size=0, progress=False)
    for step in (0.0, 1.5, (0.5, 2.0), "fast"):
        with pytest.raises(ek.CircuitError, match="'step' parameter of em must be a float"):
            ek.em(p, [[0, 0]], step=step, progress=False)
