"""Learned circuits: their expected kernels, likelihoods of hidden trees, fits by gradients."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import expectedkernels as ek
from benchmarks.timing import best_of, data_file, seconds, show

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import oracles

KERNEL = ek.RBF(0.1)
BINARY = [[1.0, float(np.exp(-0.1))], [float(np.exp(-0.1)), 1.0]]
SETTINGS: dict[str, tuple[list[int], list[int], list[float], dict[str, Any]]] = {
    "nltcs": ([32, 64], [1000, 4000], [0.1, 1.0], {"epochs": 80, "patience": 20}),
    "dna": ([8, 16, 32], [50, 100, 200], [0.5, 1.0], {"epochs": 50, "patience": 15}),
    "jester": ([16, 32, 64], [500, 1500], [1.0], {"epochs": 50, "patience": 15}),
}
"""Hidden states, sizes of batches, pseudocounts, and what all have in common."""
LATENT, STARTS = 16, 3
"""Hidden states, and random starts, for comparing batches."""
FITTED = (("nltcs", 16, 50, None), ("dna", 4, 20, None), ("jester", 4, 20, 2000))
"""Data, units of the hidden tree, epochs of EM, and how many training rows `fit_mmd` uses."""


def data_rows(name: str, part: str) -> Any:
    """The rows of one part of a data set, None if it is not there."""
    path = data_file(f"density/{name}.{part}.data")
    return None if path is None else np.loadtxt(path, delimiter=",", dtype=np.intp)


def hidden_trees() -> None:
    """The full batch and automatic batches; then settings chosen by validation rows alone."""
    for name, (units, batches, counts, rest) in SETTINGS.items():
        sets = [data_rows(name, part) for part in ("train", "valid", "test")]
        if any(X is None for X in sets):
            continue
        rows = [(str(size), *_batches(*sets[:2], size), "") for size in (None, "auto")]
        show(f"Hidden tree of {name}, K = {LATENT}, by batch_size, mean of {STARTS} starts", rows)
        begin, every = perf_counter(), list(product(units, batches, counts))
        learn = delayed(_learned)
        found = Parallel(n_jobs=-1)(learn(sets, *setting, rest) for setting in every)
        best = max(range(len(every)), key=lambda i: found[i][0])
        words = "K = {}, batches of {}, pseudocount {}".format(*every[best])
        valid, test = found[best]
        time = f"{perf_counter() - begin:.0f} s for {len(every)} settings"
        show(f"Hidden tree of {name}", [(words, f"{test:.4f} test", f"{valid:.4f} valid", time)])


def _batches(X: Any, valid: Any, size: str | None) -> tuple[str, str]:
    """The mean log-likelihood of validation rows, and the CPU time of one fit."""
    total, begin = 0.0, process_time()
    for start in range(STARTS):
        p = ek.learn_hclt(X, LATENT, batch_size=size, rng=start, progress=False)
        total += float(p.log_likelihood(valid).mean())
    time = (process_time() - begin) / STARTS
    return f"{total / STARTS:.3f} valid", f"{time:.1f} s of CPU time"


def _learned(
    sets: Any, units: int, size: int, pseudocount: float, rest: dict[str, Any]
) -> tuple[float, float]:
    """The mean log-likelihoods of validation and of test rows."""
    X, valid, test = sets
    p = ek.learn_hclt(
        X, units, X_valid=valid, batch_size=size, pseudocount=pseudocount, step=(1.0, 0.02),
        rng=0, progress=False, **rest,
    )  # fmt: skip
    return float(p.log_likelihood(valid).mean()), float(p.log_likelihood(test).mean())


def fit_mmd() -> None:
    """Discrepancies to rows that were not seen, before and after a fit by gradients."""
    try:
        import torch
    except ImportError:
        return
    devices = ["torch", *(["cuda"] if torch.cuda.is_available() else [])]
    for name, units, epochs, most in FITTED:
        sets = [data_rows(name, part) for part in ("train", "valid", "test")]
        if any(X is None for X in sets):
            continue
        X, X_valid, X_test = sets
        X = X[:most]
        start = ek.learn_hclt(
            X, units, X_valid=X_valid, batch_size=None, epochs=epochs, rng=0, progress=False
        )
        rows = [("training rows themselves", *_distances(ek.Empirical(X), X, X_test), "")]
        rows.append(("before", *_distances(start, X, X_test), ""))
        for device in devices:
            options: Any = {"device": device, "progress": False}
            begin = perf_counter()
            fitted = ek.fit_mmd(start, X, X_valid=X_valid, **options)
            time = perf_counter() - begin
            few, many = (
                best_of(lambda n=n, o=options, p=start, X=X: ek.fit_mmd(p, X, steps=n, **o), 2)
                for n in (30, 130)
            )
            rows.append((f"after, on {device}", *_distances(fitted, X, X_test), seconds(time)))
            rows.append(("", f"{10 * (many - few):.2f} ms a step", "", ""))
        title = f"Squared discrepancies of a hidden tree, K = {units}, to {name}, {len(X)} rows"
        show(title, rows)


def _distances(source: Any, *sets: Any) -> list[str]:
    """The squared discrepancies to training and test rows."""
    names, k = ("train", "test"), ek.ExpHamming()
    return [f"{ek.mmd2(source, X, k):.4g} ({name})" for name, X in zip(names, sets, strict=True)]


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


ALL = [learned_circuits, hidden_trees, fit_mmd]
