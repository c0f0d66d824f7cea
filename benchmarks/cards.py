"""What a CUDA card makes of the library: `python -m benchmarks.run on_a_card`."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import alternating, best_of, seconds, show
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.learning.batches import start_of
from expectedkernels.learning.data import Rows
from expectedkernels.learning.em import wide_counts
from expectedkernels.learning.epochs import epochs

KERNEL = ek.RBF(0.1)


def on_a_card() -> None:
    """Expected kernels, questions and training on a CUDA card."""
    try:
        import torch
    except ImportError:
        return
    if not torch.cuda.is_available():
        print("\n(no CUDA card here: the benchmark of the card is left out)")
        return
    dense_products(torch)
    questions("cuda")
    training("cuda")


def dense_products(torch: Any) -> None:
    """Dense circuits, beside the card's own rate of matrix products."""
    rows = []
    for units in (32, 128, 1024):
        vtree = ek.Vtree.balanced(256)
        p, q = (ek.random_circuit(vtree, units, rng=i).to("cuda") for i in range(2))
        a = torch.rand(128, units, units, dtype=torch.float64, device="cuda")

        def products(a=a):
            for _ in range(4):  # about 2 * 255 products
                torch.matmul(a, a)
            torch.cuda.synchronize()

        def ours(p=p, q=q):
            ek.expected_kernel(p, q, KERNEL)
            torch.cuda.synchronize()

        mine, limit = alternating(ours, products, rounds=5)
        limit *= 510 / 512
        rows.append(
            (f"K = {units}", seconds(mine), f"{seconds(limit)} matmul",
             f"{100 * limit / mine:.0f} %")
        )  # fmt: skip
    show(f"Dense circuits of 256 variables on {torch.cuda.get_device_name()}, float64", rows)


def questions(where: str, n_variables: int = 256, units: int = 32, n_rows: int = 1000) -> None:
    """Questions to one circuit, answered where it is and on the host."""
    p = ek.random_circuit(ek.Vtree.balanced(n_variables), units, rng=0)
    X = p.sample(n_rows, rng=1)
    X[np.random.default_rng(2).random(X.shape) < 0.5] = np.nan
    tree = ek.learn_chow_liu(X[:500], pseudocount=1.0)
    asked = [
        ("likelihoods", p, lambda c: np.asarray(c.log_likelihood(X).sum().item())),
        ("marginals", p, lambda c: c.marginals(X)),
        ("all sites", p, lambda c: c.all_site_logs(X[:100])[0].sum().item()),
        ("samples given rows", p, lambda c: c.sample(1, rng=0, evidence=X)),
        ("most probable rows", tree, lambda c: c.map(X)),
    ]
    rows = []
    for name, circuit, ask in asked:
        host = best_of(lambda ask=ask, circuit=circuit: ask(circuit), 5)
        for dtype in ("float64", "float32"):
            there = circuit.to(where, dtype=dtype)
            mine = best_of(lambda ask=ask, there=there: ask(there), 10)
            rows.append((f"{name}, {dtype}", seconds(mine), f"{seconds(host)} on the host",
                         f"{host / mine:.1f}"))  # fmt: skip
    show(f"{n_rows} rows, {n_variables} variables, K = {units}, on {where}", rows)


def training(
    where: str,
    n_variables: int = 784,
    states: int = 256,
    n_rows: int = 8192,
    sizes: Sequence[tuple[int, int]] = ((32, 512), (64, 2048), (128, 2048), (512, 512)),
) -> None:
    """Passes of EM in batches over a hidden tree, in rows per second."""
    import torch

    rng = np.random.default_rng(0)
    X = rng.integers(0, states, size=(n_rows, n_variables))
    for v in range(1, n_variables):  # every variable is near the one above it in a binary tree
        X[:, v] = (X[:, (v - 1) // 2] + rng.integers(-3, 4, size=n_rows)) % states
    data = Rows(
        Evidence((states,) * n_variables, X.astype(float)), np.ones(n_rows), np.arange(n_rows)
    )
    title = f"EM, {n_variables} variables of {states} states, on {where}: float32, and with TF32"
    for units, size in sizes:
        start = ek.learn_hclt(X[:256], units, epochs=0, cardinalities=states, rng=0, progress=False)
        speeds = []
        for precision in ("highest", "high"):
            torch.set_float32_matmul_precision(precision)
            beta = 0.1 * size / n_rows
            trained = start_of(start, where, "float32", beta, float(size), wide_counts)
            passes = epochs(trained, data, 4, size, (1.0, 0.5), 0.1, np.random.default_rng(0))
            speeds.append(f"{n_rows / min(_times(passes)):.0f} rows/s")
        torch.set_float32_matmul_precision("highest")
        show(title, [(f"K = {units}, batches of {size}", *speeds, "")])


def _times(passes: Any) -> list[float]:
    """How long every pass takes."""
    found, begin = [], perf_counter()
    for _ in passes:
        found.append(perf_counter() - begin)
        begin = perf_counter()
    return found


ALL = [on_a_card]
