"""The functions and modules that some calls run: `python -m benchmarks.call_traces [CALL ...]`.

Calls are warm: they have run once before. With the name of a call, prints the functions it runs,
in the order of their first run.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import incomplete

PACKAGE = Path(__file__).parents[1] / "src" / "expectedkernels"


def circuit(units: int = 3, seed: int = 0) -> Any:
    return ek.random_circuit(ek.Vtree.balanced(8), units, rng=seed, cardinalities=[2] * 8)


def expected_kernel() -> Callable[[], Any]:
    p, q = circuit(), circuit(2, 1)
    return lambda: ek.expected_kernel(p, q, ek.RBF(0.1))


def evidence_and_points() -> Callable[[], Any]:
    p, X = circuit(), circuit().sample(5, rng=0)
    E = incomplete(X[:4], 0.5, 0)
    return lambda: ek.expected_kernel(p, X, ek.RBF(0.1), evidence_p=E)


def marginals() -> Callable[[], Any]:
    return partial(circuit().marginals, np.where(np.arange(8) % 2, np.nan, 1.0))


def _rows() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    return X, X.sum(axis=1), incomplete(X, 0.4, rng)


def fit() -> Callable[[], Any]:
    _, y, rows = _rows()
    return lambda: ek.ExpectedSVR().fit(rows, y)


def predict() -> Callable[[], Any]:
    X, y, rows = _rows()
    return partial(ek.ExpectedSVR().fit(X, y).predict, rows)


def collapsed_bbis() -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    X, masks = rng.integers(2, size=(20, 9)), rng.random((20, 9)) < 0.5
    return partial(ek.collapsed_bbis, ek.ising_grid(3, 3, rng=0), X, masks)


CALLS = (expected_kernel, evidence_and_points, marginals, fit, predict, collapsed_bbis)


def visited(call: Callable[[], Any]) -> Counter[tuple[str, str]]:
    """How often every function of the library runs in a warm call, by (module, name).

    A generator counts whenever it goes on.
    """
    found: Counter[tuple[str, str]] = Counter()
    prefix = f"{PACKAGE}/"

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix):
            name = code.co_qualname.replace(".<locals>", "")
            if not code.co_name.startswith("<"):  # comprehensions and lambdas are their function's
                found[code.co_filename.removeprefix(prefix), name] += 1

    call()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found


def main(names: list[str]) -> None:
    calls = {f.__name__: f for f in CALLS}
    if unknown := sorted(set(names) - set(calls)):
        raise SystemExit(f"no call {unknown}; there are {', '.join(calls)}")
    for name in names:
        for (module, function), n in visited(calls[name]()).items():
            print(f"{module:32}{function}  {n}")
    if not names:
        print(f"{'':20}{'files':>8}{'functions':>11}{'calls':>8}")
        for name, make in calls.items():
            found = visited(make())
            files = len({module for module, _ in found})
            print(f"{name:20}{files:8}{len(found):11}{found.total():8}")


if __name__ == "__main__":
    main(sys.argv[1:])
