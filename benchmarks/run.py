"""Run the benchmarks: `python -m benchmarks.run [name ...]`."""

from __future__ import annotations

import sys

from benchmarks import (
    cards,
    compiling,
    corners,
    drift,
    expected_kernels,
    explanations,
    fitting,
    inference,
    intervals,
    learning,
    masks,
    partition,
    penguins,
    power,
    precision,
    queries,
    regression,
    streams,
    thinning,
)

MODULES = (
    expected_kernels,
    cards,
    explanations,
    fitting,
    corners,
    learning,
    streams,
    regression,
    penguins,
    power,
    precision,
    masks,
    intervals,
    inference,
    queries,
    compiling,
    partition,
    drift,
    thinning,
)
BENCHMARKS = {f.__name__: f for module in MODULES for f in module.ALL}


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        raise SystemExit(f"no benchmark {unknown}; there are {', '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
