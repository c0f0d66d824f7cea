"""How often the variable that changed is found, on disability data with one column spoiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import expectedkernels as ek

TRIALS, ROWS = 20, 3000


def _nltcs() -> Any:
    folder = os.environ.get("EXPECTEDKERNELS_DATA")
    path = Path(folder or "") / "density" / "nltcs.train.data"
    if folder is None or not path.exists():
        return None
    return np.loadtxt(path, delimiter=",", dtype=np.intp)


def _permuted(column: Any, rng: Any) -> None:
    """Permute some entries: the dependencies change, and no marginal distribution does."""
    some = np.flatnonzero(rng.random(len(column)) < 0.3)
    column[some] = column[rng.permutation(some)]


def _raised(column: Any, rng: Any) -> None:
    """Set some entries to one."""
    column[rng.random(len(column)) < 0.06] = 1


CHANGES: dict[str, Callable[[Any, Any], None]] = {
    "30 % of a column permuted": _permuted,
    "6 % of a column set to one": _raised,
}


def drift() -> None:
    """How often the spoiled column is ranked first by one-column differences, and by drift."""
    data = _nltcs()
    if data is None:
        print("\n(no drift: set EXPECTEDKERNELS_DATA to the folder with density/nltcs.train.data)")
        return
    print(f"\nNLTCS, windows of {ROWS} rows, {TRIALS} trials: how often the change is found")
    print(f"{'':28s}{'marginals':>12s}{'ignoring':>12s}{'Shapley':>12s}")
    for name, change in CHANGES.items():
        hits = np.mean([_one_trial(data, change, seed) for seed in range(TRIALS)], axis=0)
        print(f"{name:28s}" + "".join(f"{x:12.0%}" for x in hits))


def _one_trial(data: Any, change: Callable[[Any, Any], None], seed: int) -> list[bool]:
    rng = np.random.default_rng(seed)
    X, Y = data[rng.permutation(len(data))[: 2 * ROWS]].reshape(2, ROWS, -1)
    culprit = int(rng.integers(data.shape[1]))
    change(Y[:, culprit], rng)
    found = ek.drift(X, Y, n_permutations=0)
    marginals = np.abs(X.mean(axis=0) - Y.mean(axis=0))
    return [int(np.argmax(x)) == culprit for x in (marginals, found.ignoring, found.shapley)]


ALL = (drift,)
