"""Expected kernels, against the textbook recursion."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import best_of, data_file, seconds, show

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import oracles

KERNEL = ek.RBF(0.1)
BINARY = [[1.0, float(np.exp(-0.1))], [float(np.exp(-0.1)), 1.0]]


def learned_circuits() -> None:
    """One sweep over blocks against the memoised recursion over the file's own units."""
    p = ek.random_circuit(ek.Vtree.balanced(64), 12, rng=0, density=0.25)
    rows = _recursion("random sparse, 64 variables", p, *oracles.units_of(p))
    for name in ("abalone", "elevators"):
        path = data_file(f"psdd/{name}.psdd")
        if path is None:
            continue
        p = ek.read_psdd(path)
        rows += _recursion(f"{name}, {p.n_variables} variables", p, oracles.read_psdd_units(path))
        new = [ek.read_psdd(path) for _ in range(5)]
        first = min(best_of(lambda c=c: ek.expected_kernel(c, c, KERNEL), 1, 0.0) for c in new)
        rows.append(("  first call", seconds(first), "", ""))
        read = best_of(lambda path=path: ek.read_psdd(path), 3)
        rows.append(("  reading the file", seconds(read), "", ""))
    show("E[k(x, x')] for x, x' from one circuit, RBF(0.1)", rows)


def _recursion(what: str, p: ek.Circuit, root: Any) -> list[tuple[str, str, str, str]]:
    """Our time beside that of the recursion, which must find the same."""
    tables = [BINARY] * p.n_variables
    textbook = oracles.expected_kernel_by_units(root, root, tables)
    exact = ek.expected_kernel(p, p, KERNEL)
    if abs(exact - textbook) > 1e-10 * abs(textbook):
        raise SystemExit(f"{what}: {exact} differs from {textbook}")
    slow = best_of(lambda: oracles.expected_kernel_by_units(root, root, tables), 2)
    fast = best_of(lambda: ek.expected_kernel(p, p, KERNEL), 200)
    return [(what, seconds(fast), f"{seconds(slow)} recursion", f"{slow / fast:.0f} x")]


ALL = [learned_circuits]
