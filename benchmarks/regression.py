"""Expected predictions of support vector regressors, beside predictions for complete rows."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import PeakMemory, alternating, best_of, seconds, show

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import oracles

DATA_SETS = ("abalone", "elevators")
PAIRS = 3
"""The recursion is measured for so many rows and support vectors: one pair takes long enough."""


def expected_predictions() -> None:
    """Half of the bits missing: against SVR.predict on complete rows, and pair by pair."""
    folder = os.environ.get("EXPECTEDKERNELS_DATA")
    if folder is None or not (Path(folder) / "regression").is_dir():
        print("\n(no regression data: set EXPECTEDKERNELS_DATA to the folder with regression/)")
        return
    from studies.regression.datasets import load

    for name in DATA_SETS:
        _predictions(load(name, folder))


def _predictions(dataset: Any) -> None:
    from studies.regression.baselines import draw_mask, hide
    from studies.regression.machines import (
        BitDensity,
        CategoryDensity,
        fit_machine,
    )

    machine, bits = fit_machine(dataset), dataset.valid.bits
    mask = draw_mask(np.random.default_rng(0), len(bits), dataset.sizes, "bits", 0.5)
    rows = hide(bits, mask)
    n_pairs = len(rows) * len(machine.points)
    table = []
    for what, density in (
        ("original features", CategoryDensity(dataset)),
        ("bits one by one", BitDensity(dataset)),
    ):
        with PeakMemory() as memory:
            density.expected(machine, rows)
        ours, plain, products = alternating(
            lambda density=density: density.expected(machine, rows),
            lambda: machine.svr.predict(bits),
            lambda: machine.predict(bits),
            rounds=3,
        )
        pair = _recursion(density, machine, rows)
        table += [
            (what, seconds(ours), f"{seconds(plain)} SVR.predict, complete rows",
             f"{ours / plain:.1f} x (wanted: at most 10)"),
            ("", "", f"{seconds(products)} by matrix products", f"{ours / products:.1f} x"),
            ("", f"{1e9 * ours / n_pairs:.0f} ns a pair", f"{seconds(pair)} recursion, a pair",
             f"{pair * n_pairs / ours:.0f} x less (wanted: 200)"),
            ("", f"peak {memory.peak / 2**20:.0f} MiB",
             f"{memory.before / 2**20:.0f} MiB before", ""),
        ]  # fmt: skip
    show(
        f"{dataset.source.name}: {len(rows)} rows, half of {dataset.n_bits} bits missing, "
        f"{len(machine.svr.support_)} support vectors ({len(machine.points)} distinct)",
        table,
    )


def _recursion(density: Any, machine: Any, rows: Any) -> float:
    """The mean time of the memoised recursion for one row and one support vector."""
    circuit = density.circuit
    evidence, points, tables = _as_states(density, machine, rows[:PAIRS])
    wanted = ek.expected_kernel(circuit, points, ek.TableKernel(tables), evidence_p=evidence)
    total = 0.0
    for i in range(PAIRS):
        one = {v: weights[i] for v, weights in enumerate(evidence)}
        (p,) = oracles.units_of(circuit.condition(one))
        for j, point in enumerate(points):
            states = [np.eye(len(t))[int(x)] for x, t in zip(point, tables, strict=True)]
            (q,) = oracles.units_of(ek.factorized(states, circuit.vtree))
            found = oracles.expected_kernel_by_units(p, q, [t.tolist() for t in tables])
            if abs(found - wanted[i, j]) > 1e-9 * abs(wanted[i, j]):
                raise SystemExit(f"{found} differs from {wanted[i, j]}")
            total += best_of(lambda p=p, q=q: oracles.expected_kernel_by_units(p, q, tables), 1)
    return total / PAIRS**2


def _as_states(density: Any, machine: Any, rows: Any) -> tuple[list[Any], Any, list[Any]]:
    """Evidence as weights, support vectors as states, and the kernel as one table per variable."""
    if hasattr(density, "allowed"):
        evidence, unknown = density.allowed(rows)
        if unknown.any():
            raise SystemExit("the rows of the sample must be of known categories")
        points = [machine.points[:PAIRS, group].argmax(axis=1) for group in density.groups]
        kernel = density.kernel(machine.gamma, np.zeros(len(points), dtype=bool))
        return evidence, np.stack(points, axis=1), kernel.tables
    away = float(np.exp(-machine.gamma))
    n_bits = rows.shape[1]
    weights = oracles.evidence_as_weights(rows, [2] * n_bits)
    return weights, machine.points[:PAIRS], [np.array([[1.0, away], [away, 1.0]])] * n_bits


ALL = [expected_predictions]
