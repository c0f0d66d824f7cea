"""Tables that need not fit into memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joblib
import numpy as np

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
        taken, _ = timed(write_table, path, rows)
        size = path.stat().st_size / 2**20
        for name in work or WORK:
            for jobs in processes:
                seconds, worked, *peaks = in_fresh_process(measure, name, path, jobs)
                speed = f"{rows / seconds:,.0f}", f"{rows / worked:,.0f}"
                lines.append((WORK[name][0], jobs, *speed, *(f"{peak:.0f}" for peak in peaks)))
    title = f"{rows:,} rows of {COLUMNS} columns with {STATES} states, {INCOMPLETE:.0%} of them "
    title += f"incomplete: {size:.0f} MiB on disk, written in {taken:.0f} s"
    heads = ("", "processes", "rows/s", "rows per core-second", "peak, MiB", "of a worker")
    show(title, lines, heads)


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
    gap = np.where(rng.random(n) < INCOMPLETE, rng.integers(COLUMNS, size=n), -1)
    states = np.clip(np.round(3 * X) + STATES // 2, 0, STATES - 1).astype(np.int8)
    return states, gap[:, None] == np.arange(COLUMNS)


def tree(path: Path) -> Any:
    """A tree for the table."""
    X, _ = chunk(np.random.default_rng(1), TRAINING)
    return ek.learn_chow_liu(X, cardinalities=STATES).with_names(NAMES)


def ridge(path: Path) -> Any:
    """Kernel ridge regression with a thousand points."""
    import pandas as pd

    X, _ = chunk(np.random.default_rng(1), TRAINING)
    model = ek.ExpectedKernelRidge(density="chow_liu")
    return model.fit(pd.DataFrame(X, columns=NAMES), np.sin(X.sum(axis=1) / STATES))


def predict(model: Any, path: Path) -> None:
    """Write the predictions for a table to a Parquet file beside it, chunk by chunk."""
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([("prediction", pyarrow.float64())])
    with parquet.ParquetWriter(path.with_name("predictions.parquet"), schema) as file:
        for found in model.predict_chunks(path):
            file.write_table(pyarrow.table([found], schema=schema))


WORK: dict[str, tuple[str, Any, Any]] = {
    "learn": (
        "Chow-Liu tree, two passes",
        lambda path: None,
        lambda _, path: ek.learn_chow_liu(path, parameters="cpt"),
    ),
    "em": (
        "three iterations of EM",
        tree,
        lambda p, path: ek.em(p, path, ITERATIONS, progress=False),
    ),
    "likelihood": (
        "log-likelihoods",
        tree,
        lambda p, path: sum(float(x.sum()) for x in ek.over_chunks(p.log_likelihood, path)),
    ),
    "predict": ("predictions, to a file", ridge, predict),
}
"""What is done with the table, and with a model that is made before."""


def measure(name: str, path: Path, jobs: int) -> tuple[float, ...]:
    """What work takes in this process: seconds, core-seconds, and MiB at the peak.

    Workers count from their start. Memory is that of the process, and of its largest worker.
    """
    _, prepare, work = WORK[name]
    model = prepare(path)
    with joblib.parallel_config(backend="loky", n_jobs=jobs):
        if jobs > 1:  # workers have started, and imported what they need
            list(ek.over_chunks(len, np.zeros((8, 1)), chunk_rows=1))
        before = os.times()
        taken, _ = timed(work, model, path)
    if jobs > 1:  # what workers took is known when they have ended
        joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    worked = sum(os.times()[:4]) - sum(before[:4])
    users = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return taken, worked, *(resource.getrusage(who).ru_maxrss / 1024 for who in users)


MINUTES = [streams]
