"""How often tests reject what is true, and what is not: `python -m benchmarks levels`.

Every cell is one test of one model with n samples, and the share of repetitions whose p-value is at
most 5 %. Samples and simulated samples are fresh in every repetition. Cells are done in batches of
repetitions, each with seeds of its own, over some processes (`--jobs`). SACHS and EARTHQUAKE come
with pgmpy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import expectedkernels as ek
from benchmarks.timing import literature, neighbours, show
from studies.base import markdown

N_NULL = 19
"""With 19 simulated samples a p-value of at most 5 % means the largest statistic of twenty."""

BATCH = 25
"""How many repetitions have one generator of random numbers."""

STAY, CHANGE = 0.5, 0.05
"""How often a chain stays where it is, and how often the signs of its samples change."""
SPREAD = {"SACHS": 0.5, "EARTHQUAKE": 0.8, "rare bits": 2.0, "chain of 30": 0.6}
"""How far alternatives are: their tables are multiplied by exp(spread times normal numbers)."""

FORMS = ("circuit", "graph", "function")


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
    rng = np.random.default_rng(1)
    signs = [(pair, coupling * rng.choice([-1.0, 1.0])) for pair in neighbours(5)]
    return ek.FactorGraph([2] * 25, [(pair, np.exp([[c, -c], [-c, c]])) for pair, c in signs])


MODELS: dict[str, Callable[[], Any]] = {
    "SACHS": partial(literature, "sachs"),
    "EARTHQUAKE": partial(literature, "earthquake"),
    "rare bits": rare_bits,
    "chain of 30": chain,
    "weak grid": partial(grid, 0.3),
    "strong grid": partial(grid, 1.5),
}

TREES = ("rare bits", "chain of 30")
"""The models that trees can represent."""
LARGE = ("chain of 30", "weak grid", "strong grid")
"""Those with more than 2**18 states."""
SIZES = [40, 100]


def changed(graph: Any, spread: float) -> Any:
    """A model whose tables differ at random from those of another."""
    rng = np.random.default_rng(2)
    tables = [f.table * np.exp(spread * rng.normal(size=f.table.shape)) for f in graph.factors]
    scopes = [f.scope for f in graph.factors]
    return ek.FactorGraph(graph.cardinalities, list(zip(scopes, tables, strict=True)))


def as_function(graph: Any) -> Any:
    """The model as a function of states; of pairs of bits, one look-up for all factors."""
    if any(f.table.shape != (2, 2) for f in graph.factors):
        return ek.Target(graph.log_score, graph.cardinalities)
    first, second = np.array([f.scope for f in graph.factors]).T
    logs = np.log([f.table for f in graph.factors]).reshape(-1)
    at = 4 * np.arange(len(first))
    score = lambda X: logs[at + 2 * X[:, first] + X[:, second]].sum(axis=1)  # noqa: E731
    return ek.Target(score, graph.cardinalities)


class Ground(NamedTuple):
    """A model in all forms, one that differs from it, and the tree that is closest to it."""

    forms: dict[str, Any]
    other: Any
    tree: Any

    def sample(self, power: bool, n: int, rng: Any) -> Any:
        """Samples of the model, or, to see that tests notice it, of the other one."""
        return (self.other if power else self.forms["circuit"]).sample(n, rng)


@lru_cache(maxsize=len(MODELS))
def ground_of(name: str) -> Ground:
    """One of the models; raises ImportError if it is that of a library which is not there."""
    graph = MODELS[name]()
    circuit = graph.circuit()
    forms = dict(zip(FORMS, (circuit, graph, as_function(graph)), strict=True))
    other = changed(graph, SPREAD.get(name, 0.35)).circuit()
    return Ground(forms, other, fitted_tree(circuit.sample(2000, 4), circuit.cardinalities))


def fitted_tree(X: Any, cardinalities: Any) -> Any:
    """The tree that fits samples best."""
    return ek.learn_chow_liu(X, cardinalities=list(cardinalities))


def of_samples(test: Any, g: Ground, form: str, n: int, power: bool, rng: Any, **how: Any) -> Any:
    """A test of independent samples."""
    return test(g.sample(power, n, rng), g.forms[form], n_null=N_NULL, rng=rng, **how)


def of_two(g: Ground, form: str, n: int, power: bool, rng: Any, **how: Any) -> Any:
    """The test against as many samples of the model."""
    X, Y = g.sample(power, n, rng), g.forms[form].sample(n, rng)
    return ek.mmd_two_sample_test(X, Y, n_null=N_NULL, rng=rng, **how)


def of_fitted(test: Any, g: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A test of a tree that was fitted to the samples, of a tree or of the model."""
    X = (g.forms[form] if power else g.tree).sample(n, rng)
    refit = partial(fitted_tree, cardinalities=g.tree.cardinalities)
    return test(X, refit(X), refit=refit, n_null=N_NULL, rng=rng)


def of_chain(g: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A test of a chain that stays in its place at times, and else moves anywhere."""
    fresh = rng.random(n) >= STAY
    fresh[0] = True
    X = g.sample(power, int(fresh.sum()), rng)[np.cumsum(fresh) - 1]
    return ek.kdsd_test(X, g.forms[form], change=CHANGE, n_null=N_NULL, rng=rng)


def of_models(g: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A comparison of two models with samples of both, or, to see which it is, of the first."""
    X = g.forms[form].sample(n, rng)
    if not power:
        X = np.where(rng.random((n, 1)) < 0.5, X, g.other.sample(n, rng))
    return ek.mmd_compare(g.forms[form], g.other, X)


TESTS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "kdsd": (partial(of_samples, ek.kdsd_test), FORMS),
    "mmd": (partial(of_samples, ek.mmd_test), FORMS),
    "two-sample": (of_two, FORMS[:1]),
    "kdsd aggregate": (partial(of_samples, ek.kdsd_test, k="aggregate"), FORMS[:1]),
    "mmd aggregate": (partial(of_samples, ek.mmd_test, k="aggregate"), FORMS[:1]),
    "two-sample aggregate": (partial(of_two, k="aggregate"), FORMS[:1]),
    "kdsd refit": (partial(of_fitted, ek.kdsd_test), FORMS[:1]),
    "mmd refit": (partial(of_fitted, ek.mmd_test), FORMS[:1]),
    "kdsd signs": (partial(of_samples, ek.kdsd_test, null="signs"), FORMS),
    "kdsd change": (of_chain, FORMS[:1]),
    "compare": (of_models, FORMS[:1]),
}


CELL = ["model", "test", "form", "n", "power"]
COLUMNS = [*CELL, "rejected", "refused", "seconds", "drawn"]


@threadpool_limits.wrap(limits=1)
def rejections(cell: tuple[Any, ...], repeats: int) -> tuple[str, ...]:
    """How often a test rejected at 5 %, and how often it did not judge, in how many seconds."""
    model, name, *rest = cell
    ground, test, found, drawn, refused = ground_of(model), TESTS[name][0], [], "", 0
    rng, began = None, time.perf_counter()
    for i in range(repeats):
        if i % BATCH == 0:
            rng = np.random.default_rng([crc32(repr(cell).encode()), i // BATCH])
        try:
            result = test(ground, *rest, rng)
        except ek.DataError:  # signs that cannot tell, and differences without an error
            refused += 1
            continue
        found.append(result.p_value <= 0.05)
        drawn = getattr(result, "drawn", "")
    shares = [f"{100 * x / repeats:.1f} %" for x in (sum(found), refused)]
    ms = 1e3 * (time.perf_counter() - began) / repeats
    return *map(str, cell), *shares, f"{ms:.0f} ms", drawn


def levels(
    repeats: int = 400,
    n: list[int] = SIZES,
    tests: list[str] = (),
    forms: list[str] = (),
    models: list[str] = (),
    power: bool = False,
    jobs: int = 1,
) -> None:
    """How often tests reject what is true, or (--power) what is not."""
    cells = [
        (model, test, form, size, power)
        for model, test, size in product(models or MODELS, tests or TESTS, n)
        for form in TESTS[test][1]
        if form in (forms or FORMS)
        and not (power and "refit" in test and model in TREES)  # trees fit
        and not (test == "mmd" and form == "function" and model in LARGE)  # no embedding
    ]
    lines = Parallel(jobs)(delayed(rejections)(cell, repeats) for cell in cells)
    title = f"{'rejected' if power else 'level'} at 5 %, {repeats} repetitions"
    show(title, lines, tuple(COLUMNS))
    frame = pd.DataFrame(lines, columns=COLUMNS)
    table = frame.pivot_table("rejected", ["test", "form"], "model", ", ".join, sort=False)
    print(markdown(table.fillna("-")))


ALL = [levels]
