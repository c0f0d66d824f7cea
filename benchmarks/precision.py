"""How far answers in single precision are from those in double precision."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.learning import data_rows
from benchmarks.timing import show

UNITS, EPOCHS, ASKED = 16, 10, 500


def precision() -> None:
    """Answers of circuits in float32, on the host and on a card (there in TF32, too)."""
    try:
        import torch
    except ImportError:
        return
    X = data_rows("nltcs", "train")
    if X is None:
        return
    places = [("torch", "highest")]
    if torch.cuda.is_available():
        places += [("cuda", "highest"), ("cuda", "high")]
    for place, products in places:
        torch.set_float32_matmul_precision(products)
        kind = "TF32" if products == "high" else "float32"
        show(f"Largest errors of {kind} on {place}, hidden tree of NLTCS", _errors(X, place))
    torch.set_float32_matmul_precision("highest")


def _errors(X: Any, place: str) -> list[tuple[str, ...]]:
    options: Any = {"batch_size": 512, "epochs": EPOCHS, "rng": 0, "progress": False}
    single, double = (
        ek.learn_hclt(X, UNITS, device=place, dtype=dtype, **options)
        for dtype in ("float32", "float64")
    )
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((ASKED, X.shape[1])) < 0.3, np.nan, X[:ASKED])
    tree, other = ek.learn_chow_liu(X), ek.random_circuit(double.vtree, 4, rng=0)
    k = ek.ExpHamming()
    lines = [_total(single.to(place, dtype="float32"))]

    def add(what: str, circuit: Any, ask: Callable[[Any], Any], relative: bool = False) -> None:
        exact, found = (_array(ask(circuit.to(place, dtype=d))) for d in ("float64", "float32"))
        error = np.abs(found - exact) / (np.abs(exact) if relative else 1.0)
        lines.append((what, f"{error.max():.1e}", "relative" if relative else "absolute", ""))

    add("log-likelihoods", double, lambda p: p.log_likelihood(rows))
    add("marginals", double, lambda p: np.concatenate(p.marginals(rows), axis=1))
    best = [tree.to(place, dtype=dtype).map(rows) for dtype in ("float64", "float32")]
    differ = float((best[0] != best[1]).any(axis=1).mean())
    lines.append(("most probable rows", f"{differ:.1%}", "of rows differ", ""))
    add("expected kernel", double, lambda p: ek.expected_kernel(p, other.to(place), k), True)
    add("given rows", double, lambda p: ek.expected_kernel(p, p, k, evidence_p=rows[:50]), True)
    add("squared MMD to data", double, lambda p: ek.mmd2(p, X[:ASKED], k), True)
    means = [float(np.mean(p.log_likelihood(X))) for p in (single, double)]
    what = f"mean log-likelihood after {EPOCHS} epochs of EM"
    lines.append((what, f"{abs(means[0] - means[1]):.1e}", "absolute", ""))
    lines.append(("predictions of a kernel machine", *_prediction(X, rows, double)))
    return lines


def _total(circuit: Any) -> tuple[str, ...]:
    """How far the probabilities of all states of a circuit are from summing to one."""
    states = np.array(list(product((0, 1), repeat=circuit.n_variables)))
    total = sum(
        float(np.exp(_array(circuit.log_likelihood(part))).sum())
        for part in np.array_split(states, 16)
    )
    return f"total of {len(states)} states after EM", f"{abs(total - 1.0):.1e}", "absolute", ""


def _prediction(X: Any, rows: Any, circuit: Any) -> tuple[str, ...]:
    y = X[:ASKED, -1] + 0.1 * X[:ASKED, :-1].sum(axis=1)
    found = [
        ek.ExpectedKernelRidge(density=circuit.to("numpy", dtype=dtype)).fit(X[:ASKED], y)
        for dtype in ("float64", "float32")
    ]
    exact, single = (model.predict(rows) for model in found)
    return f"{np.abs(exact - single).max():.1e}", "absolute", ""


def _array(x: Any) -> Any:
    return np.asarray(x.cpu() if hasattr(x, "cpu") else x, dtype=np.float64)


ALL = [precision]
