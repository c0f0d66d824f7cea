"""Learning: splits against full passes and the textbook search; fits by gradients."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.timing import best_of, seconds, show
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.discrepancies.mmd import mmd2
from expectedkernels.kernels.empirical import Empirical
from expectedkernels.kernels.kernel import ExpHamming
from expectedkernels.learning import fit_mmd as gradients
from expectedkernels.learning.chow_liu import chow_liu_tree, learn_chow_liu
from expectedkernels.learning.hclt import learn_hclt
from expectedkernels.learning.strudel import learn_strudel
from expectedkernels.learning.training_data import distinct_rows

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import learning_oracles

SPLITS = (100, 300, 500)
WINDOW = 25
"""The time per split is a mean over so many splits on either side."""


def structure_learning() -> None:
    """The time per split as the circuit grows, beside one likelihood of the training rows."""
    data = {"nltcs, 16 variables": _nltcs(), "30 clusters, 69 variables": _clusters(17_412, 69)}
    for name, X in data.items():
        if X is None:
            print("\n(no NLTCS data: set EXPECTEDKERNELS_DATA to the folder with density/)")
        else:
            _splits(name, X)


def _splits(name: str, X: np.ndarray) -> None:
    times = np.full(max(SPLITS) + WINDOW, np.inf)
    total = np.inf
    for _ in range(3):
        stamps: list[float] = []
        elements: list[int] = []

        def note(step, stamps=stamps, elements=elements):
            stamps.append(perf_counter())
            elements.append(step.elements)

        begin = perf_counter()
        learn_strudel(X, iterations=len(times), callback=note, progress=False)
        total = min(total, stamps[max(SPLITS) - 1] - begin)
        times = np.minimum(times, np.diff([begin, *stamps]))
    tree = best_of(lambda: learn_chow_liu(X), 5)
    rows = [("Chow-Liu tree", seconds(tree), *_beside(X, 0, tree))]
    for n in SPLITS:
        split = float(times[n - WINDOW : n + WINDOW].mean())
        what = f"a split after {n} ({elements[n - 1]} elements)"
        rows.append((what, seconds(split), *_beside(X, n, split)))
    rows.append((f"all {max(SPLITS)} splits", seconds(total), *_beside(X, max(SPLITS), total)))
    show(f"Strudel on {name}, {len(X)} rows", rows)


def _beside(X: np.ndarray, splits: int, time: float) -> tuple[str, str]:
    """One likelihood of all rows under the circuit after some splits, and how often it fits."""
    p = learn_strudel(X, iterations=splits, progress=False)
    likelihood = best_of(lambda: p.log_likelihood(X), 5)
    return f"{seconds(likelihood)} one likelihood of all rows", f"{time / likelihood:.2g} x"


def textbook_search() -> None:
    """The incremental search against one that computes everything anew after every split."""
    X = _nltcs()
    X = _clusters(2_000, 16) if X is None else X
    cardinalities = [2] * X.shape[1]
    tree = chow_liu_tree(X, cardinalities, np.ones(len(X)), 1.0)
    distinct, weights, _ = distinct_rows(X, np.ones((1, len(X))), cardinalities)
    n = 25

    def textbook() -> None:
        search = learning_oracles.NaiveStrudel(
            tree.forest.parent, cardinalities, distinct, weights[0]
        )
        for _ in range(n):
            search.step()

    slow = best_of(textbook, 1)
    fast = best_of(lambda: learn_strudel(X, iterations=n, progress=False), 5)
    show(
        "Strudel against the textbook (on distinct rows, unit by unit)",
        [(f"{n} splits", seconds(fast), f"{seconds(slow)} textbook", f"{slow / fast:.0f} x")],
    )


FITTED = (("nltcs", 16, 50, None), ("dna", 4, 20, None), ("jester", 4, 20, 2000))
"""Data, units of the hidden tree, epochs of EM, and how many training rows are used."""


def fit_mmd() -> None:
    """Discrepancies to rows that were not seen, before and after a fit by gradients."""
    try:
        import torch
    except ImportError:
        return
    places = ["torch", *(["cuda"] if torch.cuda.is_available() else [])]
    for name, units, epochs, most in FITTED:
        sets = [data_rows(name, part) for part in ("train", "valid", "test")]
        if any(X is None for X in sets):
            print(f"\n(no {name} data: set EXPECTEDKERNELS_DATA to the folder with density/)")
            continue
        X, X_valid, X_test = sets
        X = X[:most]
        start = learn_hclt(
            X, units, X_valid=X_valid, batch_size=None, epochs=epochs, rng=0, progress=False
        )
        rows = [("training rows themselves", *_distances(Empirical(X), X, X_test), "")]
        rows.append(("before", *_distances(start, X, X_test), ""))
        for place in places:
            begin = perf_counter()
            fitted = gradients.fit_mmd(start, X, X_valid=X_valid, device=place, progress=False)
            time = perf_counter() - begin
            rows.append((f"after, on {place}", *_distances(fitted, X, X_test), seconds(time)))
            rows.append(("", _speed(start, X, place), "", ""))
        title = f"Squared discrepancies of a hidden tree, K = {units}, to {name}, {len(X)} rows"
        show(title, rows)


def _distances(source: Circuit | Empirical, *sets: np.ndarray) -> list[str]:
    """The squared discrepancies to training and test rows."""
    names, k = ("train", "test"), ExpHamming()
    return [f"{mmd2(source, X, k):.4g} ({name})" for name, X in zip(names, sets, strict=True)]


def _speed(circuit: Circuit, X: np.ndarray, place: str) -> str:
    """Milliseconds per step, the start and capturing left out."""
    times = [
        best_of(lambda n=n: gradients.fit_mmd(circuit, X, steps=n, device=place, progress=False), 2)
        for n in (30, 130)
    ]
    return f"{10 * (times[1] - times[0]):.2f} ms a step"


def _nltcs() -> np.ndarray | None:
    return data_rows("nltcs", "train")


def data_rows(name: str, part: str) -> np.ndarray | None:
    """The rows of one part of a data set in the folder of EXPECTEDKERNELS_DATA, if it is there."""
    folder = os.environ.get("EXPECTEDKERNELS_DATA")
    path = Path(folder or "") / "density" / f"{name}.{part}.data"
    if folder is None or not path.exists():
        return None
    return np.loadtxt(path, delimiter=",", dtype=np.intp)


def _clusters(rows: int, variables: int) -> np.ndarray:
    """Binary rows from thirty clusters of independent variables."""
    rng = np.random.default_rng(0)
    ones = rng.beta(0.3, 0.8, size=(30, variables))
    return (rng.random((rows, variables)) < ones[rng.integers(30, size=rows)]).astype(np.intp)


ALL = [structure_learning, textbook_search, fit_mmd]
