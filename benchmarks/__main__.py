"""Run benchmarks: `python -m benchmarks NAME ...`; all of them without names."""

from __future__ import annotations

from argparse import ArgumentParser

from benchmarks import (
    gpus,
    learning,
    networks,
    peer_tests,
    quality,
    rejections,
    sequential,
    streams,
)

MODULES = (learning, gpus, streams, quality, networks, sequential, rejections, peer_tests)
BENCHMARKS = {f.__name__: f for module in MODULES for f in module.ALL}


def main(arguments: list[str] | None = None) -> None:
    parser = ArgumentParser(prog="python -m benchmarks", description="Run benchmarks.")
    parser.add_argument("name", nargs="*", help="a benchmark; without names, all run")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.name if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}. There are {', '.join(BENCHMARKS)}.")
    if asked.list:
        print("\n".join(BENCHMARKS))
        return
    for name in asked.name or BENCHMARKS:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main()
