"""Expected kernels: against the textbook recursion, against matrix products, at scale."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import PeakMemory, alternating, best_of, data_file, seconds, show

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


def dense_circuits() -> None:
    """The share of NumPy's own rate of batched matrix products, on the same shapes."""
    rows = []
    for units in (32, 128):
        vtree = ek.Vtree.balanced(256)
        p, q = ek.random_circuit(vtree, units, rng=0), ek.random_circuit(vtree, units, rng=1)
        a, b = np.random.default_rng(0).random((2, 255, units, units))
        ours, limit = alternating(
            lambda p=p, q=q: ek.expected_kernel(p, q, KERNEL),
            lambda a=a, b=b: (np.matmul(a, b), np.matmul(b, a)),
        )
        rates = [f"{seconds(t)}, {4 * 255 * units**3 / t / 1e9:.1f} GFLOP/s" for t in (ours, limit)]
        rows.append((f"K = {units}", *rates, f"{100 * limit / ours:.0f} %"))
    show("Dense circuits of 256 variables, beside NumPy's batched matmul", rows)


def many_variables() -> None:
    """784 variables beside one log-likelihood, 10 000 beside the closed form."""
    p = ek.random_circuit(ek.Vtree.balanced(784), 8, rng=0)
    x = p.sample(1, rng=0)
    ours, one = alternating(lambda: ek.expected_kernel(p, p, KERNEL), lambda: p.log_likelihood(x))
    beside = f"{seconds(one)} one log-likelihood"
    rows = [("784 variables, K = 8", seconds(ours), beside, f"{ours / one:.1f} x")]
    tables = np.random.default_rng(0).dirichlet([1.0, 1.0], size=(2, 10_000))
    exact = np.log(np.einsum("ia,ab,ib->i", tables[0], BINARY, tables[1])).sum()
    for shape in ("balanced", "right_linear"):
        vtree = getattr(ek.Vtree, shape)(10_000)
        p, q = (ek.factorized(t, vtree, normalized=False) for t in tables)
        error = abs(ek.expected_kernel(p, q, KERNEL, log=True) / exact - 1)
        ours = best_of(lambda p=p, q=q: ek.expected_kernel(p, q, KERNEL, log=True), 10)
        beside = f"closed form {exact:.6f}"
        rows.append((f"10 000 variables, {shape}", seconds(ours), beside, f"off by {error:.0e}"))
    show("Many variables", rows)


def batches() -> None:
    """Rows of evidence against points, under a memory budget."""
    path = data_file("psdd/abalone.psdd")
    if path is None:
        p = ek.random_circuit(ek.Vtree.balanced(72), 16, rng=0, density=0.3)
    else:
        p = ek.read_psdd(path)
    X, E = p.sample(1_000, rng=0), p.sample(10_000, rng=1)
    E[np.random.default_rng(2).random(E.shape) < 0.5] = np.nan
    with PeakMemory() as memory:
        t = best_of(lambda: ek.expected_kernel(p, X, KERNEL, evidence_p=E), 1, 0.0)
    peak = f"peak {memory.peak / 2**20:.0f} MiB (before: {memory.before / 2**20:.0f})"
    title = "10 000 rows of evidence (half of it missing) against 1 000 points, 72 variables"
    show(title, [(f"{p.n_units} units", seconds(t), peak, f"{100 * t:.0f} ns a pair")])


def expected_predictions() -> None:
    """Half of the bits missing, beside SVR.predict on complete rows."""
    if data_file("regression") is None:
        return
    from studies.regression.baselines import draw_mask, hide
    from studies.regression.datasets import load
    from studies.regression.machines import BitDensity, CategoryDensity, fit_machine

    for dataset in map(load, ("abalone", "elevators")):
        machine, bits = fit_machine(dataset), dataset.valid.bits
        mask = draw_mask(np.random.default_rng(0), len(bits), dataset.sizes, "bits", 0.5)
        table = []
        for what, density in (
            ("original features", CategoryDensity(dataset)),
            ("bits one by one", BitDensity(dataset)),
        ):
            ours, plain = alternating(
                partial(density.expected, machine, hide(bits, mask)),
                partial(machine.svr.predict, bits),
                rounds=3,
            )
            beside = f"{seconds(plain)} SVR.predict, complete rows"
            table.append((what, seconds(ours), beside, f"{ours / plain:.1f} x"))
        title = f"{dataset.source.name}: {len(bits)} rows, half of {dataset.n_bits} bits missing"
        show(f"{title}, {len(machine.points)} distinct support vectors", table)


def imports() -> None:
    """How long `import expectedkernels` takes in a new process."""

    def start(code: str) -> float:
        return best_of(lambda: subprocess.run([sys.executable, "-c", code], check=True), 5, 10.0)

    bare = start("pass")
    ours, numpy = start("import expectedkernels") - bare, start("import numpy") - bare
    rows = [("import", seconds(ours), f"{seconds(numpy)} numpy", f"{ours / numpy:.1f} x")]
    show("import expectedkernels", rows)


ALL = [learned_circuits, dense_circuits, many_variables, batches, expected_predictions, imports]
