"""Marginals of 50 of 200 samples, the first or thinned: `python -m benchmarks.thinning [--jobs 2]`.

Thirteen models (four of them with pgmpy only) and six proposals; logs of mean Hellinger distances
of single marginals, as means over the tries. About two minutes of one core for 20 tries.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import expectedkernels as ek
from benchmarks.targets import chain, clauses, edges, graph, machine, networks, spins

SAMPLES, KEPT, TRIES = 200, 50, 20
PROPOSALS = ("independent", "thinned Gibbs", "one sweep apart", "uniform", "learned", "tempered")


def models() -> dict[str, Any]:
    """The targets; all but the networks of pgmpy are positive."""
    rng = np.random.default_rng(1)
    grid, small = edges(5, 5), edges(4, 4)
    signs, fields = rng.choice([-0.6, 0.6], len(grid)), rng.normal(0, 0.1, 25)
    return networks() | {
        "chain of 30": chain(30, rng),
        "Ising, weak": spins(grid, 25, rng.normal(0, 0.2, len(grid)), rng.normal(0, 0.2, 25)),
        "Ising, ferromagnet": spins(grid, 25, [0.45] * len(grid), [0.02] * 25),
        "Ising, spin glass": spins(grid, 25, signs, fields),
        "Potts, weak": graph([3] * 16, small, [0.3 * np.eye(3)] * len(small)),
        "Potts, ferromagnet": graph([3] * 16, small, [1.2 * np.eye(3)] * len(small)),
        "RBM 12 + 6": machine(12, 6, rng),
        "3-SAT, soft": clauses(rng, 1.0),
        "3-SAT, hard": clauses(rng, 4.0),
    }


def tempered(model: Any) -> Any:
    """The model with the roots of its factors."""
    factors = [ek.Factor(list(f.scope), np.sqrt(f.table)) for f in model.factors]
    return ek.FactorGraph(list(model.cardinalities), factors)


def drawn(model: Any, proposal: str, rng: int) -> Any:
    """As many samples as the grid takes."""
    d = len(model.cardinalities)
    if proposal == "independent":
        return model.sample(SAMPLES, rng=rng)
    if proposal == "thinned Gibbs":
        return ek.gibbs(model, SAMPLES, burn_in=50 * d, thin=5 * d, rng=rng, progress=False)
    if proposal == "one sweep apart":
        return ek.gibbs(model, SAMPLES, thin=d, rng=rng, progress=False)
    if proposal == "uniform":
        return np.random.default_rng(rng).integers(model.cardinalities, size=(SAMPLES, d))
    if proposal == "learned":
        cards = list(model.cardinalities)
        q = ek.learn_chow_liu(model.sample(300, rng=1000 + rng), cardinalities=cards)
        return q.sample(SAMPLES, rng=rng)
    return tempered(model).sample(SAMPLES, rng=rng)


def log_hellinger(exact: Any, rows: Any) -> float:
    """The log of the mean Hellinger distance of single marginals."""
    distances = []
    for v, table in enumerate(exact):
        found = np.bincount(rows[:, v].astype(np.intp), minlength=len(table)) / len(rows)
        distances.append(np.sqrt(max(0.0, 1.0 - float(np.sqrt(found * table).sum()))))
    return float(np.log(np.mean(distances)))


def one_try(model: Any, exact: Any, proposal: str, rng: int) -> list[float]:
    """The errors of the first samples, of thinned ones and of all."""
    X = np.asarray(drawn(model, proposal, rng), dtype=np.float64)
    thinned = X[ek.stein_thin(model, X, KEPT)]
    return [log_hellinger(exact, rows) for rows in (X[:KEPT], thinned, X)]


def thinning_grid(jobs: int = 1, tries: int = TRIES) -> None:
    """In how many cells the thinned samples are better than the first ones."""
    print(f"\n{KEPT} of {SAMPLES} samples, {tries} tries: first, thinned, all {SAMPLES}")
    targets, means = models(), []
    for name, model in targets.items():
        exact = [np.asarray(table) for table in model.marginals()]
        found = Parallel(jobs)(
            delayed(one_try)(model, exact, proposal, rng)
            for proposal in PROPOSALS
            for rng in range(tries)
        )
        table = np.reshape(found, (len(PROPOSALS), tries, 3)).mean(axis=1)
        means.append(table)
        for proposal, row in zip(PROPOSALS, table, strict=True):
            print(f"{name:20}{proposal:18}" + "".join(f"{value:8.2f}" for value in row), flush=True)
    for proposal, row in zip(PROPOSALS, np.mean(means, axis=0), strict=True):
        print(f"{'mean':20}{proposal:18}" + "".join(f"{value:8.2f}" for value in row))
    wins = sum(int((table[:, 1] < table[:, 0]).sum()) for table in means)
    print(f"thinned samples are better in {wins} of {len(means) * len(PROPOSALS)} cells")


ALL = (thinning_grid,)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tries", type=int, default=TRIES)
    thinning_grid(**vars(parser.parse_args()))
