"""Expected kernels: against the textbook recursion, against matrix products, at scale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import expectedkernels as ek
from benchmarks.timing import PeakMemory, alternating, best_of, seconds, show

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import oracles

KERNEL = ek.RBF(0.1)
BINARY = [[1.0, float(np.exp(-0.1))], [float(np.exp(-0.1)), 1.0]]


def learned_circuits() -> None:
    """One sweep over blocks against the memoised recursion over the file's own units."""
    rows = []
    folder = os.environ.get("EXPECTEDKERNELS_DATA")
    for name in ("abalone", "elevators"):
        path = Path(folder or "") / "psdd" / f"{name}.psdd"
        if folder is None or not path.exists():
            print(f"(no {name} circuit: set EXPECTEDKERNELS_DATA to the folder with psdd/)")
            continue
        rows += _learned(name, path)
    p = ek.random_circuit(ek.Vtree.balanced(64), 12, rng=0, density=0.25)
    (root,) = oracles.units_of(p)
    slow = best_of(lambda: oracles.expected_kernel_by_units(root, root, [BINARY] * 64), 2)
    fast = best_of(lambda: ek.expected_kernel(p, p, KERNEL), 200)
    rows.append(
        ("random sparse, 64 variables", seconds(fast), f"{seconds(slow)} recursion",
         f"{slow / fast:.0f} x")
    )  # fmt: skip
    show("E[k(x, x')] for x, x' from one circuit, RBF(0.1)", rows)


def _learned(name: str, path: Path) -> list[tuple[str, str, str, str]]:
    root = oracles.read_psdd_units(path)
    p = ek.read_psdd(path)
    tables = [BINARY] * p.n_variables
    textbook = oracles.expected_kernel_by_units(root, root, tables)
    exact = ek.expected_kernel(p, p, KERNEL)
    if abs(exact - textbook) > 1e-10 * abs(textbook):
        raise SystemExit(f"{name}: {exact} differs from {textbook}")
    slow = best_of(lambda: oracles.expected_kernel_by_units(root, root, tables), 2)
    fast = best_of(lambda: ek.expected_kernel(p, p, KERNEL), 200)
    new = [ek.read_psdd(path) for _ in range(5)]
    first = min(best_of(lambda c=c: ek.expected_kernel(c, c, KERNEL), 1, 0.0) for c in new)
    load = best_of(lambda: ek.read_psdd(path), 3)
    what = f"{name}, {p.n_variables} variables"
    return [
        (what, seconds(fast), f"{seconds(slow)} recursion", f"{slow / fast:.0f} x"),
        ("  first call", seconds(first), "", f"{slow / first:.0f} x"),
        ("  reading the file", seconds(load), "", ""),
    ]


def dense_circuits() -> None:
    """The share of NumPy's own rate of batched matrix products, on the same shapes."""
    rows = []
    for units in (32, 128):
        vtree = ek.Vtree.balanced(256)
        p, q = ek.random_circuit(vtree, units, rng=0), ek.random_circuit(vtree, units, rng=1)
        a, b = np.random.default_rng(0).random((2, 255, units, units))

        def products(a=a, b=b):
            np.matmul(a, b)
            np.matmul(b, a)

        ours, limit = alternating(lambda p=p, q=q: ek.expected_kernel(p, q, KERNEL), products)
        flops = 2 * 255 * 2 * units**3
        rows.append(
            (
                f"K = {units}",
                f"{seconds(ours)}, {flops / ours / 1e9:.1f} GFLOP/s",
                f"{seconds(limit)}, {flops / limit / 1e9:.1f} GFLOP/s",
                f"{100 * limit / ours:.0f} %",
            )
        )
    show("Dense circuits of 256 variables, beside NumPy's batched matmul", rows)


def many_variables() -> None:
    """Overheads and scale."""
    rows = []
    p = ek.random_circuit(ek.Vtree.balanced(784), 8, rng=0)
    x = p.sample(1, rng=0)
    ours, likelihood = alternating(
        lambda: ek.expected_kernel(p, p, KERNEL), lambda: p.log_likelihood(x)
    )
    rows.append(
        ("784 variables, K = 8", seconds(ours), f"{seconds(likelihood)} one log-likelihood",
         f"{ours / likelihood:.1f} x")
    )  # fmt: skip
    tables = np.random.default_rng(0).dirichlet([1.0, 1.0], size=(2, 10_000))
    exact = np.log(np.einsum("ia,ab,ib->i", tables[0], BINARY, tables[1])).sum()
    for shape in ("balanced", "right_linear"):
        vtree = getattr(ek.Vtree, shape)(10_000)
        p, q = (ek.factorized(t, vtree, normalized=False) for t in tables)
        error = abs(ek.expected_kernel(p, q, KERNEL, log=True) / exact - 1)
        ours = best_of(lambda p=p, q=q: ek.expected_kernel(p, q, KERNEL, log=True), 10)
        rows.append(
            (f"10 000 variables, {shape}", seconds(ours), f"closed form {exact:.6f}",
             f"relative error {error:.0e}")
        )  # fmt: skip
    show("Many variables", rows)


def batches() -> None:
    """Rows of evidence against points, under a memory budget."""
    folder = os.environ.get("EXPECTEDKERNELS_DATA")
    if folder is not None and (Path(folder) / "psdd" / "abalone.psdd").exists():
        p = ek.read_psdd(Path(folder) / "psdd" / "abalone.psdd")
    else:
        p = ek.random_circuit(ek.Vtree.balanced(72), 16, rng=0, density=0.3)
    X, E = p.sample(1_000, rng=0), p.sample(10_000, rng=1)
    E[np.random.default_rng(2).random(E.shape) < 0.5] = np.nan
    with PeakMemory() as memory:
        t = best_of(lambda: ek.expected_kernel(p, X, KERNEL, evidence_p=E), 1, 0.0)
    show(
        "10 000 rows of evidence (half of it missing) against 1 000 points, 72 variables",
        [
            (
                f"{p.n_units} units",
                seconds(t),
                f"peak {memory.peak / 2**20:.0f} MiB (before: {memory.before / 2**20:.0f})",
                f"{1e9 * t / 1e7:.0f} ns a pair",
            )
        ],
    )


def imports() -> None:
    """How long `import expectedkernels` takes in a new process."""

    def start(code: str) -> float:
        return best_of(lambda: subprocess.run([sys.executable, "-c", code], check=True), 5, 10.0)

    bare = start("pass")
    ours, numpy = start("import expectedkernels") - bare, start("import numpy") - bare
    show(
        "import expectedkernels",
        [("import", seconds(ours), f"{seconds(numpy)} numpy", f"{ours / numpy:.1f} x")],
    )


ALL = [learned_circuits, dense_circuits, many_variables, batches, imports]
