"""Learned circuits: likelihoods of hidden trees, and fits by gradients."""

from __future__ import annotations

from functools import partial
from itertools import product
from time import process_time
from typing import Any

from joblib import Parallel, delayed

import expectedkernels as ek
from benchmarks.timing import best_of, data_sets, seconds, show, timed

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


def hidden_trees() -> None:
    """The full batch and automatic batches; then settings chosen by validation rows alone."""
    for name, (units, batches, counts, rest) in SETTINGS.items():
        sets = data_sets(name)
        if sets is None:
            continue
        rows = [(str(size), *_batches(*sets[:2], size), "") for size in (None, "auto")]
        show(f"Hidden tree of {name}, K = {LATENT}, by batch_size, mean of {STARTS} starts", rows)
        every = list(product(units, batches, counts))
        work = [delayed(_learned)(*sets, *setting, rest) for setting in every]
        taken, found = timed(Parallel(n_jobs=-1), work)
        (valid, test), best = max(zip(found, every, strict=True))
        words = "K = {}, batches of {}, pseudocount {}".format(*best)
        time = f"{taken:.0f} s for {len(every)} settings"
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
    X: Any, valid: Any, test: Any, units: int, size: int, pseudocount: float, rest: dict[str, Any]
) -> list[float]:
    """The mean log-likelihoods of validation and of test rows."""
    options: Any = {"pseudocount": pseudocount, "step": (1.0, 0.02), "progress": False, **rest}
    p = ek.learn_hclt(X, units, X_valid=valid, batch_size=size, rng=0, **options)
    return [float(p.log_likelihood(rows).mean()) for rows in (valid, test)]


def fit_mmd() -> None:
    """Discrepancies to rows that were not seen, before and after a fit by gradients."""
    import torch

    for name, units, epochs, most in FITTED:
        sets = data_sets(name)
        if sets is None:
            continue
        X, X_valid, X_test = sets[0][:most], *sets[1:]
        options: Any = {"X_valid": X_valid, "progress": False}
        start = ek.learn_hclt(X, units, batch_size=None, epochs=epochs, rng=0, **options)
        rows = [("training rows themselves", *_distances(ek.Empirical(X), X, X_test), "")]
        rows.append(("before", *_distances(start, X, X_test), ""))
        for device in ["torch", *(["cuda"] if torch.cuda.is_available() else [])]:
            fit = partial(ek.fit_mmd, start, X, device=device, progress=False)
            time, fitted = timed(partial(fit, X_valid=X_valid))
            few, many = (best_of(partial(fit, steps=n), 2) for n in (30, 130))
            rows.append((f"after, on {device}", *_distances(fitted, X, X_test), seconds(time)))
            rows.append(("", f"{10 * (many - few):.2f} ms a step", "", ""))
        title = f"Squared discrepancies of a hidden tree, K = {units}, to {name}, {len(X)} rows"
        show(title, rows)


def _distances(source: Any, *sets: Any) -> list[str]:
    """The squared discrepancies to training and test rows."""
    names, k = ("train", "test"), ek.ExpHamming()
    return [f"{ek.mmd2(source, X, k):.4g} ({name})" for name, X in zip(names, sets, strict=True)]


ALL = [hidden_trees, fit_mmd]
