"""Timing and tables for the benchmarks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEADER = ("", "ours", "beside", "ratio")


def best_of(function: Callable[[], Any], repeats: int = 20, seconds: float = 2.0) -> float:
    """The shortest of several runs: what the machine can do when nobody disturbs it."""
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < repeats and (not times or time.perf_counter() - start < seconds):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def alternating(*functions: Callable[[], Any], rounds: int = 15) -> list[float]:
    """The shortest run of each function, measured in turns so that all meet the same noise."""
    times = [[] for _ in functions]
    for _ in range(rounds):
        for function, runs in zip(functions, times, strict=True):
            runs.append(best_of(function, repeats=3, seconds=0.5))
    return [min(runs) for runs in times]


class PeakMemory:
    """The most memory the process holds while the block runs, sampled every few milliseconds."""

    def __enter__(self) -> PeakMemory:
        self.before = self.peak = _resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, _resident())


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return 1024 * int(line.split()[1])
    return 0


def data_file(name: str) -> Path | None:
    """A file or folder in the folder of EXPECTEDKERNELS_DATA; None, said aloud, if it is absent."""
    path = Path(os.environ.get("EXPECTEDKERNELS_DATA", "")) / name
    if "EXPECTEDKERNELS_DATA" in os.environ and path.exists():
        return path
    print(f"\n(no {name}: set EXPECTEDKERNELS_DATA to the folder with it)")
    return None


def show(
    title: str,
    rows: list[tuple[str, ...]],
    header: tuple[str, ...] = ("", "ours", "beside", "ratio"),
) -> None:
    """Print rows of (what, ours, compared with, ratio or result) as a table."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    print(f"\n{title}")
    for row in [header, *rows]:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def seconds(t: float) -> str:
    """A time with a unit."""
    return f"{t:.2f} s" if t >= 1 else f"{1e3 * t:.2f} ms"
