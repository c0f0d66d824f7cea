"""Tables that need not fit into memory: `python -m benchmarks.streams --rows 20000000`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import expectedkernels as ek

COLUMNS, STATES, GROUP = 8, 16, 2**18
"""Of the table: its columns, the states of each, and the rows of a row group."""
HOLES = 0.2
"""The share of rows with one missing value, in any of the columns."""
NAMES = [f"x{i}" for i in range(COLUMNS)]
Work = Callable[[Path], Any]
TRAINING = 1000
ITERATIONS = 3


def streams(rows: int = 2_000_000, names: Any = None, processes: Any = (1, 2)) -> None:
    """Learning and prediction from a Parquet file: rows per second, and the memory it takes."""
    with tempfile.TemporaryDirectory() as folder:
        path, begin = Path(folder) / "rows.parquet", time.perf_counter()
        write_table(path, rows)
        taken, size = time.perf_counter() - begin, path.stat().st_size / 2**20
        print(
            f"\n{rows:,} rows of {COLUMNS} columns with {STATES} states, {HOLES:.0%} of them "
            f"incomplete: {size:.0f} MiB on disk, written in {taken:.0f} s",
            flush=True,
        )
        for name in names or WORK:
            print((WORK[name].__doc__ or "").rstrip("."), flush=True)
            for jobs in processes:
                print(_line(rows, jobs, *measured(WORK[name], path, jobs)), flush=True)


def write_table(path: Path, rows: int) -> None:
    """A table in which every column is near the one above it in a binary tree."""
    import pyarrow
    from pyarrow import parquet

    rng, group = np.random.default_rng(0), max(1, min(GROUP, rows // 8))
    schema = pyarrow.schema([(name, pyarrow.int8()) for name in NAMES])
    with parquet.ParquetWriter(path, schema) as file:
        for start in range(0, rows, group):
            X, missing = chunk(rng, min(group, rows - start))
            columns = [pyarrow.array(x, mask=m) for x, m in zip(X.T, missing.T, strict=True)]
            file.write_table(pyarrow.table(columns, schema=schema), row_group_size=group)


def chunk(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Some rows, normal values cut into states, and which of their values are missing."""
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    for v in range(1, COLUMNS):
        X[:, v] = 0.8 * X[:, (v - 1) // 2] + 0.6 * X[:, v]
    hole = np.where(rng.random(n) < HOLES, rng.integers(COLUMNS, size=n), -1)
    states = np.clip(np.round(3 * X) + STATES // 2, 0, STATES - 1).astype(np.int8)
    return states, hole[:, None] == np.arange(COLUMNS)


def learn() -> Work:
    """A Chow-Liu tree from pairs of columns, by two passes."""
    return lambda path: ek.learn_chow_liu(path, parameters="cpt")


def fit() -> Work:
    """Three iterations of EM for the weights of a tree."""
    tree = _tree()
    return lambda path: ek.em(tree, path, ITERATIONS, progress=False)


def likelihood() -> Work:
    """Log-likelihoods under a tree."""
    tree = _tree()
    return lambda path: sum(float(x.sum()) for x in ek.over_chunks(tree.log_likelihood, path))


def _tree() -> Any:
    X, _ = chunk(np.random.default_rng(1), TRAINING)
    return ek.learn_chow_liu(X, cardinalities=STATES).with_names(NAMES)


def predict() -> Work:
    """Expected predictions of kernel ridge regression with a thousand points, to a file."""
    import pandas as pd

    X, _ = chunk(np.random.default_rng(1), TRAINING)
    model = ek.ExpectedKernelRidge(density="chow_liu")
    model.fit(pd.DataFrame(X, columns=NAMES), np.sin(X.sum(axis=1) / STATES))
    return lambda path: write_predictions(model, path)


def write_predictions(model: Any, path: Path) -> None:
    """Write the predictions for a table to a Parquet file beside it, chunk by chunk."""
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([("prediction", pyarrow.float64())])
    with parquet.ParquetWriter(path.with_name("predictions.parquet"), schema) as file:
        for found in model.predict_chunks(path):
            file.write_table(pyarrow.table([found], schema=schema))


def _line(n: int, jobs: int, taken: float, worked: float, own: float, others: float) -> str:
    """The number of processes, rows per second of time and of work, and memory."""
    rates = f"{n / taken:,.0f} rows/s, {n / worked:,.0f} rows per core-second"
    peak = f"peak {own:.0f} MiB" if jobs == 1 else f"peak {own:.0f} MiB, a worker {others:.0f} MiB"
    return f"  {jobs} process{'es' * (jobs > 1)}: {rates}, {peak}"


def measured(work: Any, path: Path, jobs: int) -> tuple[float, ...]:
    """What work takes in fresh processes: seconds, core-seconds, and MiB at the peak.

    Workers count from their start. Memory is that of the process, and of its largest worker.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_measure, args=(work, path, jobs, theirs))
    process.start()
    theirs.close()  # so that there is an end if the process fails
    found = ours.recv()
    process.join()
    return found


def _measure(work: Any, path: Path, jobs: int, pipe: Any) -> None:
    run = work()
    with joblib.parallel_config(backend="loky", n_jobs=jobs):
        if jobs > 1:  # workers have started, and imported what they need
            list(ek.over_chunks(len, np.zeros((8, 1)), chunk_rows=1))
        before, begin = os.times(), time.perf_counter()
        run(path)
        taken = time.perf_counter() - begin
    if jobs > 1:  # what workers took is known when they have ended
        joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    worked = sum(os.times()[:4]) - sum(before[:4])
    users = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    pipe.send((taken, worked, *(resource.getrusage(who).ru_maxrss / 1024 for who in users)))


WORK = {"learn": learn, "em": fit, "likelihood": likelihood, "predict": predict}
ALL = [streams]

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", nargs="*", help=f"some of {', '.join(WORK)}; default: all")
    parser.add_argument("--rows", type=int, default=2_000_000, help="how many rows the table has")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    streams(given.rows, given.work, given.processes)
