"""Likelihoods of hidden Chow-Liu trees, and fits by gradients of the discrepancy to data."""

from __future__ import annotations

from itertools import product
from time import perf_counter, process_time
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import expectedkernels as ek
from benchmarks.timing import best_of, data_file, seconds, show

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


ALL = [hidden_trees, fit_mmd]
