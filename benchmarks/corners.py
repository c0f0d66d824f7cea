"""Where expectations used to be slow: points, evidence against evidence, second calls."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

import expectedkernels as ek
from benchmarks.timing import PeakMemory, alternating, best_of, seconds, show

KERNEL = ek.RBF(0.1)


def kernels_of_points() -> None:
    """Gram matrices of 72 columns beside scikit-learn's, and a discrepancy from many points."""
    rng, rows = np.random.default_rng(0), []
    for n in (1000, 2000):
        real, codes = rng.normal(size=(n, 72)), rng.integers(0, 4, (n, 72)).astype(float)
        for what, k, X in (
            ("RBF, real values", ek.RBF(0.01), real),
            ("RBF, codes", ek.RBF(0.01), codes),
            ("ExpHamming, codes", ek.ExpHamming(), codes),
            ("Laplacian, real values", ek.Laplacian(0.01), real),
        ):
            ours, theirs = alternating(
                lambda k=k, X=X: k(X), lambda X=X: rbf_kernel(X, gamma=0.01), rounds=3
            )
            rows.append(
                (f"{what}, n = {n}", seconds(ours), f"{seconds(theirs)} rbf_kernel",
                 f"{ours / theirs:.2f} x")
            )  # fmt: skip
    p = _circuit()
    X = p.sample(4000, rng=0)
    expectation = best_of(lambda: ek.expected_kernel(p, X, KERNEL), 5)
    with PeakMemory() as memory:
        whole = best_of(lambda: ek.mmd(p, X, KERNEL), 5)
    rows.append(
        ("mmd(circuit, 4000 points)", f"{seconds(whole)}, "
         f"{(memory.peak - memory.before) / 2**20:.0f} MiB",
         f"{seconds(expectation)} its expectation", f"{whole / expectation:.1f} x")
    )  # fmt: skip
    show("Kernels of points", rows)


def evidence_against_evidence() -> None:
    """Half of 72 variables observed on both sides: the cost of a pair should fall with the rows."""
    p, rows, before = _circuit(), [], float("inf")
    for n in (1, 2, 5, 10, 25, 50, 100, 200):
        E, F = (_with_holes(p, n, seed) for seed in (0, 1))
        said = ek.explain(p, p, KERNEL, evidence_p=E, evidence_q=F)
        t = best_of(
            lambda E=E, F=F: ek.expected_kernel(p, p, KERNEL, evidence_p=E, evidence_q=F), 3
        )
        rows.append(
            (f"{n} x {n} rows", seconds(t), f"{' x '.join(map(str, said.forms))}, {said.path}",
             f"{seconds(t / n**2)} a pair, x {t / n**2 / before:.2f}")
        )  # fmt: skip
        before = t / n**2
    show("Evidence against evidence", rows)


def second_discrepancy() -> None:
    """The Stein discrepancy of the same circuits again, and of collapsed samples."""
    rng, rows = np.random.default_rng(0), []
    tables = [[rng.random((2, 2)) + 0.05 for _ in range(95)] for _ in range(2)]
    graphs = [
        ek.FactorGraph([2] * 96, [((i, i + 1), t) for i, t in enumerate(side)]) for side in tables
    ]
    p = graphs[0].circuit()
    q = graphs[1].circuit(p.vtree)
    first = best_of(lambda: ek.kdsd(q, p), 1, 0.0)
    again = best_of(lambda: ek.kdsd(q, p), 10)
    rows.append(
        ("kdsd of chains of 96", seconds(again), f"{seconds(first)} the first time",
         f"{first / again:.0f} x")
    )  # fmt: skip
    grid = ek.ising_grid(4, 4, rng=0)
    X = ek.gibbs(grid, 200, burn_in=500, thin=20, rng=1).astype(float)
    X[:, ::2] = np.nan
    t = best_of(lambda: ek.collapsed_bbis(grid, X), 5)
    rows.append(("collapsed_bbis, 200 samples of a 4x4 grid, half collapsed", seconds(t), "", ""))
    show("Stein discrepancies again", rows)


def _circuit() -> ek.Circuit:
    folder = os.environ.get("EXPECTEDKERNELS_DATA")
    if folder is not None and (Path(folder) / "psdd" / "abalone.psdd").exists():
        return ek.read_psdd(Path(folder) / "psdd" / "abalone.psdd")
    return ek.random_circuit(ek.Vtree.balanced(72), 16, rng=0, density=0.3)


def _with_holes(p: ek.Circuit, n: int, seed: int) -> np.ndarray:
    X = p.sample(n, rng=seed).astype(float)
    X[np.random.default_rng(seed + 2).random(X.shape) < 0.5] = np.nan
    return X


ALL = [kernels_of_points, evidence_against_evidence, second_discrepancy]
