"""What benchmarks share: timing, commits to compare, data, and tables of results."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import expectedkernels as ek

ROOT = Path(__file__).parents[1]
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
BASE = "fbb9c2e"
"""The commit that the rebuild of the package began at."""


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """How long a call took, and its result."""
    began = time.perf_counter()
    found = function(*arguments)
    return time.perf_counter() - began, found


def best_of(function: Callable[[], Any], repeats: int = 20, seconds: float = 2.0) -> float:
    """The shortest of several runs: what the computer can do undisturbed."""
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < repeats and (not times or time.perf_counter() - start < seconds):
        times.append(timed(function)[0])
    return min(times)


def in_turns(functions: Mapping[str, Callable[[], float]], rounds: int = 15) -> dict[str, float]:
    """The shortest of the times that functions return, in turns so that all meet the same noise."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            best[name] = min(best[name], function())
    return best


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call in a process that did nothing before."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def peak_memory() -> Callable[[], float]:
    """A function that says by how many MiB the process has grown at most since now."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _memory("VmRSS")
    return lambda: _memory("VmHWM") - before


def _memory(which: str) -> float:
    """The resident memory of the process, or its peak, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


@contextmanager
def source(commit: str) -> Iterator[Path]:
    """The folder `src` of a commit, in a temporary worktree; that of this tree for "."."""
    if commit == ".":
        yield ROOT / "src"
        return
    with TemporaryDirectory() as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", folder, commit], check=True)
        try:
            yield Path(folder) / "src"
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


def run(
    module: str, src: Path, *arguments: str, threads: str | None = "1"
) -> subprocess.Popen[str]:
    """A process that runs a benchmark of this tree on the library in another folder."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(src), str(ROOT)])}
    for name in THREADS:
        env.pop(name, None)
        if threads:
            env[name] = threads
    command, pipe = [sys.executable, "-m", module, *arguments], subprocess.PIPE
    return subprocess.Popen(command, env=env, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)


def data_file(name: str) -> Path | None:
    """A file or folder in the folder of EXPECTEDKERNELS_DATA; None, said aloud, if it is absent."""
    path = Path(os.environ.get("EXPECTEDKERNELS_DATA", "")) / name
    if "EXPECTEDKERNELS_DATA" in os.environ and path.exists():
        return path
    print(f"\n(no {name}: set EXPECTEDKERNELS_DATA to the folder with it)")
    return None


def data_sets(*names: str) -> Iterator[tuple[str, list[Any]]]:
    """The training, validation and test rows of the data sets that are there, by name."""
    for name in names:
        paths = [data_file(f"density/{name}.{part}.data") for part in ("train", "valid", "test")]
        if None not in paths:
            yield name, [np.loadtxt(path, delimiter=",", dtype=np.intp) for path in paths]


def literature(name: str) -> Any:
    """ASIA, or a network that comes with pgmpy."""
    if name == "asia":
        return ek.asia()
    if (spec := find_spec("pgmpy")) is None:
        raise ImportError("the networks come with pgmpy: pip install pgmpy")
    folder = Path(str(spec.origin)).parent / "utils" / "example_models"
    return ek.read_bif(folder / f"{name}.bif.gz")


def incomplete(X: Any, share: Any, seed: Any) -> Any:
    """Rows, in an array or a data frame, with a share of the values missing at random."""
    gaps = np.random.default_rng(seed).random(X.shape) < share
    return X.mask(gaps) if hasattr(X, "mask") else np.where(gaps, np.nan, X)


def divided(X: Any, y: Any, n: int, seed: int = 0, n_test: int | None = None) -> list[Any]:
    """Rows to learn from and their targets, and others to test with."""
    order = np.random.default_rng(seed).permutation(len(X))
    parts = order[:n], order[n:][:n_test]
    return [values for part in parts for values in (X.take(part, axis=0), y[part])]


@cache
def states(n: int) -> Any:
    """All states of n bits."""
    return np.indices((2,) * n).reshape(n, -1).T.astype(np.float64)


def neighbours(size: int) -> list[list[int]]:
    """The pairs of neighbours in a square grid."""
    place = np.arange(size**2).reshape(size, size)
    pairs = [*zip(place[:, :-1].flat, place[:, 1:].flat, strict=True)]
    pairs += zip(place[:-1].flat, place[1:].flat, strict=True)
    return [list(map(int, pair)) for pair in pairs]


def show(
    title: str, rows: list[Any], header: tuple[str, ...] = ("", "ours", "beside", "ratio")
) -> None:
    """Print rows of (what, ours, compared with, ratio or result) as a table."""
    lines = [header, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}")
    for row in lines:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join(cells).rstrip(), flush=True)


def cross(title: str, rows: Any, columns: Any, cell: Callable[[Any, Any], str]) -> None:
    """Print what a function says of every row and column, which have names."""
    lines = [(name, *(cell(row, x) for x in columns.values())) for name, row in rows.items()]
    show(title, lines, ("", *columns))


def seconds(t: float) -> str:
    """A time with a unit."""
    return f"{t:.2f} s" if t >= 1 else f"{1e3 * t:.2f} ms"
