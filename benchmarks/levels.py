"""How often tests reject what is true, and what is not: `python -m benchmarks.levels`.

Every cell is one test of one model with n samples, and the share of repetitions whose p-value is at
most 5 %. Samples and simulated samples are fresh in every repetition. Cells are done in batches of
repetitions, each with seeds of its own, over some processes (`--jobs`); with `--results FOLDER`,
batches are kept in a folder, and those in it are not done again. SACHS and EARTHQUAKE come with
pgmpy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_type_hints
from zlib import crc32

import numpy as np

import expectedkernels as ek
from benchmarks.timing import literature, show
from studies.base import Results, collect, markdown

N_NULL = 19
"""With 19 simulated samples a p-value of at most 5 % means the largest statistic of twenty."""

BATCH = 25
"""How many repetitions are one piece of work."""

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
    rng, place = np.random.default_rng(1), np.arange(25).reshape(5, 5)
    pairs = [*zip(place[:, :-1].flat, place[:, 1:].flat, strict=True)]
    pairs += zip(place[:-1].flat, place[1:].flat, strict=True)
    factors = []
    for pair in pairs:
        c = coupling * rng.choice([-1.0, 1.0])
        factors.append((list(map(int, pair)), np.exp([[c, -c], [-c, c]])))
    return ek.FactorGraph([2] * 25, factors)


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


def of_samples(
    test: Any, ground: Ground, form: str, n: int, power: bool, rng: Any, **how: Any
) -> Any:
    """A test of independent samples."""
    return test(
        ground.source(power).sample(n, rng), ground.forms[form], n_null=N_NULL, rng=rng, **how
    )


def of_two(ground: Ground, form: str, n: int, power: bool, rng: Any, **how: Any) -> Any:
    """The test against as many samples of the model."""
    X, Y = ground.source(power).sample(n, rng), ground.forms[form].sample(n, rng)
    return ek.mmd_two_sample_test(X, Y, n_null=N_NULL, rng=rng, **how)


def of_fitted(test: Any, ground: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A test of a tree that was fitted to the samples, of a tree or of the model."""
    X = (ground.forms[form] if power else ground.tree).sample(n, rng)
    refit = partial(fitted_tree, cardinalities=ground.tree.cardinalities)
    return test(X, refit(X), refit=refit, n_null=N_NULL, rng=rng)


def of_chain(ground: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A test of a chain that stays in its place at times, and else moves anywhere."""
    fresh = rng.random(n) >= STAY
    fresh[0] = True
    X = ground.source(power).sample(int(fresh.sum()), rng)[np.cumsum(fresh) - 1]
    return ek.kdsd_test(X, ground.forms[form], change=CHANGE, n_null=N_NULL, rng=rng)


def of_models(ground: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A comparison of two models with samples of both, or, to see which it is, of the first."""
    X = ground.forms[form].sample(n, rng)
    if not power:
        X = np.where(rng.random((n, 1)) < 0.5, X, ground.other.sample(n, rng))
    return ek.mmd_compare(ground.forms[form], ground.other, X)


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


class Batch(NamedTuple):
    """Some repetitions of a test of a form of a model with n samples of it, or of another one."""

    model: str
    test: str
    form: str
    n: int
    power: bool
    number: int
    size: int


CELL = list(Batch._fields[:5])
KEYS = get_type_hints(Batch)
VALUES = {"rejected": int, "refused": int, "seconds": float, "drawn": str}


def done(batch: Batch) -> list[tuple[Any, ...]]:
    """How often a test rejected at 5 %, and how often it did not judge, in how many seconds."""
    ground, test = ground_of(batch.model), TESTS[batch.test][0]
    rng = np.random.default_rng([crc32(repr(batch[:5]).encode()), batch.number])
    rejected, refused, drawn, start = 0, 0, "", time.perf_counter()
    for _ in range(batch.size):
        try:
            found = test(ground, batch.form, batch.n, batch.power, rng)
            rejected += int(found.p_value <= 0.05)
            drawn = getattr(found, "drawn", "")
        except ek.DataError:  # signs that cannot tell, and differences without an error
            refused += 1
    return [(*batch, rejected, refused, time.perf_counter() - start, drawn)]


def batches(given: Any) -> list[Batch]:
    """The batches of the cells that were asked for, without those that make no sense."""
    found = []
    for model in given.models:
        try:
            large = np.prod(ground_of(model).tree.cardinalities) > 2**18
        except ImportError as reason:
            print(f"{model} is left out: {reason}")
            continue
        for test, n in product(given.tests, given.n):
            if given.power and "refit" in test and model in TREES:
                continue  # trees fit
            for form in (f for f in TESTS[test][1] if f in given.forms):
                if large and form == "function" and test == "mmd":
                    continue  # no embedding
                for i, start in enumerate(range(0, given.repeats, BATCH)):
                    size = min(BATCH, given.repeats - start)
                    found.append(Batch(model, test, form, n, given.power, i, size))
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--n", type=int, nargs="*", default=[40, 100])
    parser.add_argument("--tests", nargs="*", default=list(TESTS), choices=list(TESTS))
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=FORMS)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--power", action="store_true", help="samples of a model that differs")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="keep batches, and go on")
    parser.add_argument("--estimate", action="store_true", help="only say how long it takes")
    given = parser.parse_args(arguments)
    wanted = batches(given)
    if given.estimate:
        first = [batch._replace(size=2) for batch in wanted if batch.number == 0]
        cost = sum(done(batch)[0][-2] for batch in first) * given.repeats / 2
        print(f"about {cost:.0f} s, {cost / given.jobs:.0f} s with {given.jobs} processes")
        return
    with TemporaryDirectory() as folder:
        results = Results(given.results or folder, KEYS, VALUES, {})
        todo = [(batch,) for batch in wanted if tuple(batch) not in results]
        frame = collect(results, done, todo, given.jobs, progress=True).frame
    frame = frame[frame[CELL].apply(tuple, axis=1).isin({batch[:5] for batch in wanted})]
    found = frame.groupby(CELL, sort=False).agg(
        {"size": "sum", "rejected": "sum", "refused": "sum", "seconds": "sum", "drawn": "first"}
    )
    for name in ("rejected", "refused"):
        found[name] = (100 * found[name] / found["size"]).map("{:.1f} %".format)
    found["seconds"] = (1e3 * found["seconds"] / found["size"]).map("{:.0f} ms".format)
    found = found.drop(columns="size").reset_index()
    title = f"{'rejected' if given.power else 'level'} at 5 %, {given.repeats} repetitions"
    show(title, found.astype(str).values.tolist(), tuple(found))
    table = found.pivot_table("rejected", ["test", "form"], "model", ", ".join, sort=False)
    print(markdown(table.fillna("-")))


if __name__ == "__main__":
    from benchmarks import levels  # by its name, so that other processes import it, too

    levels.main()
