"""Likelihoods of hidden Chow-Liu trees: the full batch, automatic batches, and chosen settings.

Run as `python -m benchmarks.hidden_trees [data sets...]`, with EXPECTEDKERNELS_DATA set. Settings
are chosen by rows for validation alone, side by side on as many cores as there are.
"""

from __future__ import annotations

import sys
from itertools import product
from time import perf_counter, process_time
from typing import Any

from joblib import Parallel, delayed

import expectedkernels as ek
from benchmarks.learning import data_rows
from benchmarks.timing import show

SETTINGS: dict[str, tuple[list[int], list[int], list[float], dict[str, Any]]] = {
    "nltcs": ([32, 64], [1000, 4000], [0.1, 1.0], {"epochs": 80, "patience": 20}),
    "dna": ([8, 16, 32], [50, 100, 200], [0.5, 1.0], {"epochs": 50, "patience": 15}),
    "jester": ([16, 32, 64], [500, 1500], [1.0], {"epochs": 50, "patience": 15}),
}
"""Hidden states, sizes of batches, pseudocounts, and what all have in common."""

LATENT, STARTS = 16, 3
"""Hidden states, and random starts, for comparing batches."""


def compare_batches(names: list[str]) -> None:
    """Validation likelihoods and times of the full batch and of batches of the automatic size."""
    for name in names:
        sets = [data_rows(name, part) for part in ("train", "valid")]
        if any(X is None for X in sets):
            continue
        rows = [(str(size), *_compared(*sets, size)) for size in (None, "auto")]
        show(f"Hidden tree of {name}, K = {LATENT}, by batch_size, mean of {STARTS} starts", rows)


def _compared(X: Any, valid: Any, size: str | None) -> tuple[str, str, str]:
    """The mean log-likelihood of validation rows, and the CPU time of one fit."""
    total, begin = 0.0, process_time()
    for start in range(STARTS):
        p = ek.learn_hclt(X, LATENT, batch_size=size, rng=start, progress=False)
        total += float(p.log_likelihood(valid).mean())
    time = (process_time() - begin) / STARTS
    return f"{total / STARTS:.3f} valid", f"{time:.1f} s of CPU time", ""


def hidden_trees(names: list[str]) -> None:
    """The likelihood of the circuit that is best at validation rows, for every data set."""
    for name in names:
        sets = [data_rows(name, part) for part in ("train", "valid", "test")]
        if any(X is None for X in sets):
            print(f"\n(no {name} data: set EXPECTEDKERNELS_DATA to the folder with density/)")
            continue
        units, batches, counts, rest = SETTINGS[name]
        begin, every = perf_counter(), list(product(units, batches, counts))
        learn = delayed(_learned)
        found = Parallel(n_jobs=-1)(learn(sets, *setting, rest) for setting in every)
        best = max(range(len(every)), key=lambda i: found[i][0])
        words = "K = {}, batches of {}, pseudocount {}".format(*every[best])
        valid, test = found[best]
        time = f"{perf_counter() - begin:.0f} s for {len(every)} settings"
        show(f"Hidden tree of {name}", [(words, f"{test:.4f} test", f"{valid:.4f} valid", time)])


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


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(SETTINGS)
    compare_batches(chosen)
    hidden_trees(chosen)
