"""What a CUDA card makes of the library: `python -m benchmarks.run on_a_card`."""

from __future__ import annotations

from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import alternating, best_of, seconds, show

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
    for units in (128, 1024):
        vtree = ek.Vtree.balanced(256)
        p, q = (ek.random_circuit(vtree, units, rng=i).to("cuda") for i in range(2))
        a = torch.rand(128, units, units, dtype=torch.float64, device="cuda")

        def products(a=a):
            for _ in range(4):  # about 2 * 255 products
                torch.matmul(a, a)
            torch.cuda.synchronize()

        def ours(p=p, q=q):
            ek.expected_kernel(p, q, KERNEL, max_bytes=2**34)
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


def training(where: str, n_variables: int = 784, states: int = 256, n_rows: int = 4096) -> None:
    """Passes of EM in batches over a hidden tree, in rows per second."""
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.integers(-3, 4, size=(n_rows, n_variables)), axis=1) % states
    rows = []
    for units, size in ((32, 512), (32, 2048), (128, 512)):
        start = ek.learn_hclt(X[:64], units, epochs=0, cardinalities=states, rng=0)

        def learn(passes: int, start: Any = start, size: int = size) -> None:
            ek.em(start, X, passes, batch_size=size, pseudocount=0.1, device=where,
                  dtype="float32", rng=0, progress=False)  # fmt: skip

        one, three = (best_of(lambda n=n, learn=learn: learn(n), 3) for n in (1, 3))
        speed = 2 * n_rows / max(three - one, 1e-9)
        rows.append((f"K = {units}, batches of {size}", f"{speed:.0f} rows/s", "", ""))
    show(f"EM, {n_variables} variables of {states} states, float32, on {where}", rows)


ALL = [on_a_card]
