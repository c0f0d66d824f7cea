"""Estimates of partition functions from samples, on models small enough to know the truth."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import expectedkernels as ek

RUNS, SAMPLES = 15, 400
"""Half of the samples are for the proposal, the others for the estimate."""


def _edges(rows: int, cols: int) -> list[tuple[int, int]]:
    at = np.arange(rows * cols).reshape(rows, cols)
    across = list(zip(at[:, :-1].ravel().tolist(), at[:, 1:].ravel().tolist(), strict=True))
    return across + list(zip(at[:-1].ravel().tolist(), at[1:].ravel().tolist(), strict=True))


def _graph(cards: list[int], pairs: Any, tables: Any, fields: Any = None) -> ek.FactorGraph:
    factors = [ek.Factor(list(pair), np.exp(t)) for pair, t in zip(pairs, tables, strict=True)]
    if fields is not None:
        factors += [ek.Factor([v], np.exp(f)) for v, f in enumerate(fields)]
    return ek.FactorGraph(cards, factors)


def _spins(pairs: list[tuple[int, int]], n: int, couplings: Any, fields: Any) -> ek.FactorGraph:
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    own = [np.array([f, -f]) for f in fields]
    return _graph([2] * n, pairs, [c * signs for c in couplings], own)


def _clauses(rng: Any) -> ek.FactorGraph:
    """Clauses of three literals, each a factor of exp(-2) if it is false."""
    factors = []
    for _ in range(60):
        table = np.ones((2, 2, 2))
        table[tuple(rng.integers(2, size=3))] = np.exp(-2.0)
        factors.append(ek.Factor(rng.choice(20, 3, replace=False).tolist(), table))
    return ek.FactorGraph([2] * 20, factors)


def models() -> dict[str, ek.FactorGraph]:
    """Models of eight kinds."""
    rng = np.random.default_rng(0)
    grid, small = _edges(5, 5), _edges(4, 4)
    chain = list(pairwise(range(30)))
    layers = [(i, 12 + j) for i in range(12) for j in range(6)]
    tree = [(int(rng.integers(v)), v) for v in range(1, 11)] + [(0, 5), (2, 9), (1, 7), (3, 10)]
    normal = rng.normal
    return {
        "network of 11 variables": _graph([3] * 11, tree, normal(size=(len(tree), 3, 3))),
        "Ising 5 x 5, weak": _spins(grid, 25, normal(0, 0.2, len(grid)), normal(0, 0.2, 25)),
        "Potts 4 x 4, 3 states": _graph([3] * 16, small, [0.5 * np.eye(3)] * len(small)),
        "chain of 30": _spins(chain, 30, normal(0, 0.7, 29), normal(0, 0.3, 30)),
        "RBM 12 + 6": _spins(layers, 18, normal(0, 0.25, 72), normal(0, 0.2, 18)),
        "soft 3-SAT": _clauses(rng),
        "ferromagnet": _spins(small, 16, [0.45] * len(small), [0.02] * 16),
        "spin glass": _spins(small, 16, rng.choice([-0.6, 0.6], len(small)), normal(0, 0.1, 16)),
    }


def _importance(graph: Any, q: Any, rows: Any, rng: Any) -> float:
    draws = q.sample(len(rows), rng=rng)
    return _log_mean(graph.log_score(draws) - q.log_likelihood(draws))


def _gelfand_dey(graph: Any, q: Any, rows: Any, rng: Any) -> float:
    return -_log_mean(q.log_likelihood(rows) - graph.log_score(rows))


def _log_mean(logs: Any) -> float:
    return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


OTHERS: dict[str, Callable[..., float]] = {
    "importance": _importance,
    "Gelfand-Dey": _gelfand_dey,
}


def partition() -> None:
    """Root mean squared errors of log Z, and how often intervals of 95 % hold the truth."""
    print(f"\nerrors of log Z, {RUNS} runs of {SAMPLES} samples of Gibbs chains")
    head = [*OTHERS, "bridge", "weighted", "held", "held, weighted"]
    print(f"{'':26s}" + "".join(f"{name:>15s}" for name in head))
    wins = 0
    for name, graph in models().items():
        truth, errors, held = graph.log_partition(), [], []
        for run in range(RUNS):
            found, inside = _one_run(graph, run, truth)
            errors.append(found)
            held.append(inside)
        rms = np.sqrt(np.mean(np.square(errors), axis=0))
        wins += bool(rms[2] < rms[0])
        cells = [f"{x:15.3f}" for x in rms] + [f"{x:15.0%}" for x in np.mean(held, axis=0)]
        print(f"{name:26s}" + "".join(cells))
    print(f"the bridge beats importance sampling on {wins} of {len(models())} models")


def _one_run(graph: Any, run: int, truth: float) -> tuple[list[float], list[bool]]:
    samples = ek.gibbs(graph, SAMPLES, burn_in=100, thin=10, rng=run, progress=False)
    half = SAMPLES // 2
    q = ek.learn_chow_liu(samples[:half], cardinalities=list(graph.cardinalities))
    errors = [
        method(graph, q, samples[half:], np.random.default_rng(run)) - truth
        for method in OTHERS.values()
    ]
    held = []
    for weights in (None, "default"):
        found = ek.log_partition_estimate(graph, samples, weights=weights, rng=run)
        low, high = found.interval()
        errors.append(found.log_z - truth)
        held.append(low <= truth <= high)
    return errors, held


ALL = (partition,)
