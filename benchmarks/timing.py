"""Timing and tables for the benchmarks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import expectedkernels as ek


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


def alternating(*functions: Callable[[], Any], rounds: int = 15) -> list[float]:
    """The shortest run of each function, measured in turns."""
    calls = {str(i): lambda f=f: best_of(f, 3, 0.5) for i, f in enumerate(functions)}  # type: ignore[misc]
    return list(in_turns(calls, rounds).values())


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """A function that says by how many MiB the process grew at most since the block began."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _memory("VmRSS")
    yield lambda: _memory("VmHWM") - before


def _memory(which: str) -> float:
    """The resident memory of the process, or its peak, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def data_file(name: str) -> Path | None:
    """A file or folder in the folder of EXPECTEDKERNELS_DATA; None, said aloud, if it is absent."""
    path = Path(os.environ.get("EXPECTEDKERNELS_DATA", "")) / name
    if "EXPECTEDKERNELS_DATA" in os.environ and path.exists():
        return path
    print(f"\n(no {name}: set EXPECTEDKERNELS_DATA to the folder with it)")
    return None


def literature(name: str) -> Any:
    """ASIA, or a network that comes with pgmpy."""
    if name == "asia":
        return ek.asia()
    spec = find_spec("pgmpy")
    if spec is None or spec.origin is None:
        raise ImportError("the networks come with pgmpy: pip install pgmpy")
    return ek.read_bif(Path(spec.origin).parent / "utils" / "example_models" / f"{name}.bif.gz")


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


def seconds(t: float) -> str:
    """A time with a unit."""
    return f"{t:.2f} s" if t >= 1 else f"{1e3 * t:.2f} ms"
