"""Estimates of partition functions from samples, on models small enough to know the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.targets import chain, clauses, edges, graph, machine, networks, spins

RUNS, SAMPLES = 100, 400
"""Half of the samples are for the proposal, the others for the estimate."""


def models() -> dict[str, ek.FactorGraph]:
    """Models of eight kinds."""
    rng = np.random.default_rng(0)
    grid, small = edges(5, 5), edges(4, 4)
    tree = [(int(rng.integers(v)), v) for v in range(1, 11)] + [(0, 5), (2, 9), (1, 7), (3, 10)]
    normal = rng.normal
    network = graph([3] * 11, tree, normal(size=(len(tree), 3, 3)))
    known = {"SACHS": networks()["SACHS"]} if networks() else {"network of 11": network}
    return known | {
        "Ising 5 x 5, weak": spins(grid, 25, normal(0, 0.2, len(grid)), normal(0, 0.2, 25)),
        "Potts 4 x 4, 3 states": graph([3] * 16, small, [0.5 * np.eye(3)] * len(small)),
        "chain of 30": chain(30, rng),
        "RBM 12 + 6": machine(12, 6, rng),
        "soft 3-SAT": clauses(rng),
        "ferromagnet": spins(small, 16, [0.45] * len(small), [0.02] * 16),
        "spin glass": spins(small, 16, rng.choice([-0.6, 0.6], len(small)), normal(0, 0.1, 16)),
    }


def _importance(model: Any, q: Any, rows: Any, rng: Any) -> float:
    draws = q.sample(len(rows), rng=rng)
    return _log_mean(model.log_score(draws) - q.log_likelihood(draws))


def _gelfand_dey(model: Any, q: Any, rows: Any, rng: Any) -> float:
    return -_log_mean(q.log_likelihood(rows) - model.log_score(rows))


def _log_mean(logs: Any) -> float:
    return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


OTHERS: dict[str, Callable[..., float]] = {
    "importance": _importance,
    "Gelfand-Dey": _gelfand_dey,
}


def partition() -> None:
    """Root mean squared errors of log Z, and how often intervals of 95 % hold the truth."""
    print(f"\nerrors of log Z, {RUNS} runs of {SAMPLES} states of a Gibbs chain, five sweeps apart")
    head = [*OTHERS, "bridge", "weighted", "held", "held, weighted"]
    print(f"{'':26s}" + "".join(f"{name:>15s}" for name in head))
    wins = 0
    for name, model in models().items():
        truth, errors, held = model.log_partition(), [], []
        for run in range(RUNS):
            found, inside = _one_run(model, run, truth)
            errors.append(found)
            held.append(inside)
        rms = np.sqrt(np.mean(np.square(errors), axis=0))
        wins += bool(rms[2] < rms[0])
        cells = [f"{x:15.3f}" for x in rms] + [f"{x:15.0%}" for x in np.mean(held, axis=0)]
        print(f"{name:26s}" + "".join(cells))
    print(f"the bridge beats importance sampling on {wins} of {len(models())} models")


def _one_run(model: Any, run: int, truth: float) -> tuple[list[float], list[bool]]:
    sweep = len(model.cardinalities)
    options: Any = {"burn_in": 20 * sweep, "thin": 5 * sweep, "progress": False}
    samples = ek.gibbs(model, SAMPLES, rng=run, **options)
    half = SAMPLES // 2
    q = ek.learn_chow_liu(samples[:half], cardinalities=list(model.cardinalities))
    errors = [
        method(model, q, samples[half:], np.random.default_rng(run)) - truth
        for method in OTHERS.values()
    ]
    held = []
    for weights in (None, "default"):
        found = ek.log_partition_estimate(model, samples, weights=weights, rng=run)
        low, high = found.interval()
        errors.append(found.log_z - truth)
        held.append(low <= truth <= high)
    return errors, held


ALL = (partition,)
