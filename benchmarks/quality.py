"""How good answers are: changed columns that are found, and weights of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import data_sets, neighbours, show, states

TRIALS, WINDOW = 20, 3000
TRIES = 3


def permuted(column: Any, rng: Any) -> None:
    """Change the dependencies, and no marginal distribution."""
    some = np.flatnonzero(rng.random(len(column)) < 0.3)
    column[some] = column[rng.permutation(some)]


def set_to_one(column: Any, rng: Any) -> None:
    column[rng.random(len(column)) < 0.06] = 1


CHANGES = {"30 % of a column permuted": permuted, "6 % of a column set to one": set_to_one}


def drift() -> None:
    """How often the spoiled column is ranked first by one-column differences, and by drift."""
    if (sets := data_sets("nltcs")) is None:
        return
    rows = []
    for name, change in CHANGES.items():
        hits = np.mean([_ranked_first(sets[0], change, seed) for seed in range(TRIALS)], axis=0)
        rows.append((name, *(f"{x:.0%}" for x in hits)))
    title = f"NLTCS, windows of {WINDOW} rows, {TRIALS} trials: how often the change is found"
    show(title, rows, ("", "marginals", "ignoring", "Shapley"))


def _ranked_first(data: Any, change: Callable[[Any, Any], None], seed: int) -> list[bool]:
    rng = np.random.default_rng(seed)
    X, Y = data[rng.permutation(len(data))[: 2 * WINDOW]].reshape(2, WINDOW, -1)
    culprit = int(rng.integers(data.shape[1]))
    change(Y[:, culprit], rng)
    found = ek.drift(X, Y, n_permutations=0)
    marginals = np.abs(X.mean(axis=0) - Y.mean(axis=0))
    return [int(np.argmax(x)) == culprit for x in (marginals, found.ignoring, found.shapley)]


def weights() -> None:
    """Where default weights lose: several modes, right marginals, good proposals and many samples.

    Logs of mean Hellinger distances of single marginals (and of pairs, for the default and equal
    weights), with importance weights and weights shrunk to these where the proposal is known.
    """
    rows = []
    for name, model in _targets().items():
        proposals = {
            "the model itself": model.circuit(),
            "right marginals": ek.factorized(list(model.marginals())),
            "learned circuit": ek.learn_chow_liu(model.sample(300, rng=99)),
        }
        for proposal, p in proposals.items():
            for n in (200, 600):
                found = np.mean([_errors(model, p, n, seed) for seed in range(TRIES)], axis=0)
                rows.append((f"{name}, {proposal}", n, *(f"{value:.2f}" for value in found)))
    names = ("equal", "importance", "default", "shrunk", "pairs: equal", "pairs: default")
    show(f"Logs of errors of weighted samples, {TRIES} tries", rows, ("", "N", *names))


def _targets() -> dict[str, Any]:
    """Small targets without zeros; their marginals are known exactly."""
    rng = np.random.default_rng(5)
    factors = [([v, v + 1], np.exp(rng.normal(size=(2, 2)))) for v in range(14)]
    glued = np.exp([[0.5, -0.5], [-0.5, 0.5]])
    magnet = ek.FactorGraph([2] * 16, [(pair, glued) for pair in neighbours(4)])
    chain = ek.FactorGraph([2] * 15, factors)
    return {"chain of 15": chain, "4x4 grid": ek.ising_grid(4, 4, rng=1), "ferromagnet": magnet}


def _errors(model: Any, proposal: Any, n: int, seed: int) -> list[float]:
    X = proposal.sample(n, rng=seed)
    logs = model.log_score(X) - proposal.log_likelihood(X)
    default, shrunk = (ek.bbis(model, X, log_weights=w).weights for w in (None, logs))
    every = states(X.shape[1])
    chances = np.exp(model.circuit().log_likelihood(every))
    exact, both = chances @ every, every.T @ (chances[:, None] * every)

    def single(w: Any) -> float:
        found = np.average(X, axis=0, weights=w)
        square = 1.0 - np.sqrt(found * exact) - np.sqrt((1.0 - found) * (1.0 - exact))
        return float(np.log(np.mean(np.sqrt(np.maximum(square, 0.0)))))

    def pairs(w: Any) -> float:
        error = np.abs(X.T @ (w[:, None] * X) - both)[np.triu_indices(X.shape[1], 1)]
        return float(np.log(error.mean()))

    equal = np.full(n, 1.0 / n)
    four = [single(w) for w in (equal, np.exp(logs - logs.max()), default, shrunk)]
    return [*four, pairs(equal), pairs(default)]


MINUTES = [drift, weights]
