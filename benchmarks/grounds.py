"""Models with which tests are tried, in the forms that targets have."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import expectedkernels as ek

SPREAD = {"SACHS": 0.5, "EARTHQUAKE": 0.8, "rare bits": 2.0, "chain of 30": 0.6}
"""How far alternatives are: their tables are multiplied by exp(spread times normal numbers)."""

FORMS = ("circuit", "graph", "function")


def network(name: str, folder: str | None) -> Any:
    """A network from a folder of .bif files, or from those that come with pgmpy."""
    if folder is not None:
        return ek.read_bif(Path(folder) / f"{name}.bif")
    from pgmpy.utils import get_example_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ek.as_model(get_example_model(name))


def rare_bits() -> Any:
    """Five bits that are one once in a thousand times."""
    return ek.FactorGraph([2] * 5, [([v], [0.999, 0.001]) for v in range(5)])


def chain() -> Any:
    """Thirty bits in a row, with a random table on every edge."""
    rng = np.random.default_rng(0)
    tables = [([v, v + 1], np.exp(rng.normal(size=(2, 2)))) for v in range(29)]
    return ek.FactorGraph([2] * 30, tables)


def grid(coupling: float) -> Any:
    """Five by five bits whose neighbours attract or repel each other."""
    rng, place = np.random.default_rng(1), np.arange(25).reshape(5, 5)
    pairs = [*zip(place[:, :-1].flat, place[:, 1:].flat, strict=True)]
    pairs += zip(place[:-1].flat, place[1:].flat, strict=True)
    factors = []
    for pair in pairs:
        c = coupling * rng.choice([-1.0, 1.0])
        factors.append((list(map(int, pair)), np.exp([[c, -c], [-c, c]])))
    return ek.FactorGraph([2] * 25, factors)


MODELS: dict[str, Callable[[str | None], Any]] = {
    "SACHS": lambda folder: network("sachs", folder),
    "EARTHQUAKE": lambda folder: network("earthquake", folder),
    "rare bits": lambda _: rare_bits(),
    "chain of 30": lambda _: chain(),
    "weak grid": lambda _: grid(0.3),
    "strong grid": lambda _: grid(1.5),
}

TREES = ("rare bits", "chain of 30")
"""The models that trees can represent."""


def changed(graph: Any, spread: float) -> Any:
    """A model whose tables differ at random from those of another."""
    rng = np.random.default_rng(2)
    factors = [
        (f.scope, f.table * np.exp(spread * rng.normal(size=f.table.shape))) for f in graph.factors
    ]
    return ek.FactorGraph(graph.cardinalities, factors)


def as_function(graph: Any) -> Any:
    """The model as a function of states; of pairs of bits, one look-up for all factors."""
    if any(f.table.shape != (2, 2) for f in graph.factors):
        return ek.Target(graph.log_score, graph.cardinalities)
    first, second = np.array([f.scope for f in graph.factors]).T
    logs = np.log([f.table for f in graph.factors]).reshape(-1)
    start = 4 * np.arange(len(first))
    return ek.Target(
        lambda X: logs[start + 2 * X[:, first] + X[:, second]].sum(axis=1), graph.cardinalities
    )


@dataclass(frozen=True)
class Ground:
    """A model in all forms, one that differs from it, and the tree that is closest to it."""

    forms: dict[str, Any]
    other: Any
    tree: Any

    def source(self, power: bool) -> Any:
        """Where samples come from: the model, or, to see that tests notice it, the other one."""
        return self.other if power else self.forms["circuit"]


@lru_cache(maxsize=len(MODELS))
def ground_of(name: str, folder: str | None) -> Ground:
    """One of the models; raises ImportError if it is that of a library which is not there."""
    graph = MODELS[name](folder)
    circuit = graph.circuit()
    forms = dict(zip(FORMS, (circuit, graph, as_function(graph)), strict=True))
    other = changed(graph, SPREAD.get(name, 0.35)).circuit()
    return Ground(forms, other, fitted_tree(circuit.sample(2000, 4), circuit.cardinalities))


def fitted_tree(X: Any, cardinalities: Any) -> Any:
    """The tree that fits samples best."""
    return ek.learn_chow_liu(X, cardinalities=list(cardinalities))
