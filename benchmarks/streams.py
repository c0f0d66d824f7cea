"""Tables that need not fit into memory."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow
from pyarrow import parquet

import expectedkernels as ek
from benchmarks.timing import in_fresh_process, show, timed

COLUMNS, STATES, GROUP = 8, 16, 2**18
"""Of the table: its columns, the states of each, and the rows of a row group."""
INCOMPLETE = 0.2
"""The share of rows with one missing value, in any of the columns."""
NAMES = [f"x{i}" for i in range(COLUMNS)]
TRAINING = 1000
ITERATIONS = 3
PROCESSES = [1, 2]


def streams(rows: int = 2_000_000, work: list[str] = (), processes: list[int] = PROCESSES) -> None:
    """Learning and prediction from a Parquet file: rows per second, and the memory it takes."""
    lines = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        schema = pyarrow.schema([(name, pyarrow.int8()) for name in NAMES])
        taken, _ = timed(write, path, schema, rows_of(rows))
        size = path.stat().st_size / 2**20
        for name in work or WORK:
            for jobs in processes:
                seconds, worked, *peaks = in_fresh_process(measure, name, path, jobs)
                speed = f"{rows / seconds:,.0f}", f"{rows / worked:,.0f}"
                lines.append((name, jobs, *speed, *(f"{peak:.0f}" for peak in peaks)))
    title = f"{rows:,} rows of {COLUMNS} columns with {STATES} states, {INCOMPLETE:.0%} of them "
    title += f"incomplete: {size:.0f} MiB on disk, written in {taken:.0f} s"
    heads = ("", "processes", "rows/s", "rows per core-second", "peak, MiB", "of a worker")
    show(title, lines, heads)


def write(path: Path, schema: Any, tables: Iterable[Any]) -> None:
    """Write a Parquet file, table by table."""
    with parquet.ParquetWriter(path, schema) as file:
        for columns in tables:
            file.write_table(pyarrow.table(columns, schema=schema))


def rows_of(rows: int) -> Iterator[Any]:
    """The columns of row groups: each is near the one above it in a binary tree."""
    rng, group = np.random.default_rng(0), max(1, min(GROUP, rows // 8))
    for start in range(0, rows, group):
        X, missing = chunk(rng, min(group, rows - start))
        yield [pyarrow.array(x, mask=m) for x, m in zip(X.T, missing.T, strict=True)]


def chunk(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Some rows, normal values cut into states, and which of their values are missing."""
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    for v in range(1, COLUMNS):
        X[:, v] = 0.8 * X[:, (v - 1) // 2] + 0.6 * X[:, v]
    gap = np.where(rng.random(n) < INCOMPLETE, rng.integers(COLUMNS, size=n), -1)
    states = np.clip(np.round(3 * X) + STATES // 2, 0, STATES - 1).astype(np.int8)
    return states, gap[:, None] == np.arange(COLUMNS)


def tree() -> Any:
    """A tree for the table."""
    X, _ = chunk(np.random.default_rng(1), TRAINING)
    return ek.learn_chow_liu(X, cardinalities=STATES).with_names(NAMES)


def likelihood(p: Any, path: Path) -> float:
    return sum(float(x.sum()) for x in ek.over_chunks(p.log_likelihood, path))


def ridge() -> Any:
    """Kernel ridge regression with a thousand points."""
    X, _ = chunk(np.random.default_rng(1), TRAINING)
    model = ek.ExpectedKernelRidge(density="chow_liu")
    return model.fit(pd.DataFrame(X, columns=NAMES), np.sin(X.sum(axis=1) / STATES))


def predict(model: Any, path: Path) -> None:
    """Write the predictions for a table to a Parquet file beside it, chunk by chunk."""
    schema = pyarrow.schema([("prediction", pyarrow.float64())])
    found = ([values] for values in model.predict_chunks(path))
    write(path.with_name("predictions.parquet"), schema, found)


WORK: dict[str, Callable[[], Callable[[Path], Any]]] = {
    "learn": lambda: partial(ek.learn_chow_liu, parameters="cpt"),
    "em": lambda: partial(ek.em, tree(), iterations=ITERATIONS, progress=False),
    "likelihood": lambda: partial(likelihood, tree()),
    "predict": lambda: partial(predict, ridge()),
}
"""A Chow-Liu tree by two passes; of such a tree, EM and likelihoods; predictions, to a file."""


def measure(name: str, path: Path, jobs: int) -> tuple[float, ...]:
    """What work takes in this process: seconds, core-seconds, and MiB at the peak.

    Workers count from their start. Memory is that of the process, and of its largest worker.
    """
    work = WORK[name]()
    with joblib.parallel_config(backend="loky", n_jobs=jobs):
        if jobs > 1:  # workers have started, and imported what they need
            list(ek.over_chunks(len, np.zeros((8, 1)), chunk_rows=1))
        before = os.times()
        taken, _ = timed(work, path)
    if jobs > 1:  # what workers took is known when they have ended
        joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    worked = sum(os.times()[:4]) - sum(before[:4])
    users = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return taken, worked, *(resource.getrusage(who).ru_maxrss / 1024 for who in users)


MINUTES = [streams]
