"""Workers of Dask, one or two, or two of which one is killed, give the same bits."""

import os
import signal

import joblib
import numpy as np
import pytest

import expectedkernels as ek
from learning_searches import pieces, table

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
arrays = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two processes, and its client."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        yield local, client


def numbers(data):
    """All weights of a tree, and of a circuit that is fitted by EM."""
    start = ek.random_circuit(4, 2, 0, cardinalities=3)
    tree = ek.learn_chow_liu(data, parameters="cpt")
    found = tree, ek.em(start, data, 2, pseudocount=0.1, progress=False)
    return np.concatenate([b.flat[0] for p in found for b in p.blocks if b.numbers is not None])


def machine():
    X = table(60, 0.1)
    return ek.ExpectedKernelRidge(density="chow_liu").fit(X, np.nansum(X, axis=1))


def doomed(lazy, marker):
    """A Dask array; who reads its fourth chunk first is killed."""

    def read(block, block_id=None):
        if block_id[0] == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    return lazy.map_blocks(read, dtype=lazy.dtype)


def test_joblib_with_a_worker_that_is_killed(cluster):
    _, client = cluster
    X, model = table(240, 0.1), machine()
    alone = numbers(lambda: pieces(X, 40)), list(model.predict_chunks(pieces(X, 40)))
    with client.as_current(), joblib.parallel_config(backend="dask", n_jobs=2):
        targets = list(client.run(os.getpid).values())[:1]

        def chunks():
            for i, chunk in enumerate(pieces(X, 40)):
                if i == 4 and targets:
                    os.kill(targets.pop(), signal.SIGKILL)
                yield chunk

        found = numbers(chunks)
        assert not targets
        predicted = list(model.predict_chunks(chunks))
    np.testing.assert_array_equal(found, alone[0])
    np.testing.assert_array_equal(np.concatenate(predicted), np.concatenate(alone[1]))


def test_arrays_with_one_worker_two_or_one_killed(cluster, tmp_path):
    local, client = cluster
    lazy, model = arrays.from_array(table(240, 0.1), chunks=(40, 4)), machine()
    with dask.config.set(scheduler="synchronous"):
        wanted = numbers(lazy), model.predict_chunks(lazy).compute()
    np.testing.assert_array_equal(
        wanted[1], np.concatenate(list(model.predict_chunks(pieces(table(240, 0.1), 40))))
    )
    with client.as_current():
        found = model.predict_chunks(doomed(lazy, tmp_path / "killed")).compute()
        assert (tmp_path / "killed").exists()
        np.testing.assert_array_equal(found, wanted[1])
        np.testing.assert_array_equal(numbers(lazy), wanted[0])
        local.scale(1)
        np.testing.assert_array_equal(numbers(lazy), wanted[0])
        np.testing.assert_array_equal(model.predict_chunks(lazy).compute(), wanted[1])
