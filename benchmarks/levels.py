"""How often tests reject what is true, and what is not: `python -m benchmarks.levels`.

Every line is one test of one model, with the share of repetitions whose p-value is at most 5 %.
Samples and simulated samples are fresh in every repetition. SACHS and EARTHQUAKE are read from
pgmpy where it is installed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import expectedkernels as ek

N_NULL = 19
"""With 19 simulated samples a p-value of at most 5 % means the largest statistic of twenty."""

SPREAD = {"SACHS": 0.5, "EARTHQUAKE": 0.8, "rare bits": 2.0, "chain of 30": 0.6}
"""How far alternatives are: their tables are multiplied by exp(spread times normal numbers)."""


def network(name: str) -> Any:
    """A network that comes with pgmpy."""
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


def forms(graph: Any) -> dict[str, Any]:
    """A model as a circuit, as it is, and as a function."""
    return {
        "circuit": graph.compile()[0],
        "graph": graph,
        "function": as_function(graph),
    }


def two_samples(X: Any, model: Any, n_null: int, rng: Any) -> Any:
    """The test against as many samples of the model."""
    return ek.mmd_two_sample_test(X, model.sample(len(X), rng), n_null=n_null, rng=rng)


def aggregated(X: Any, model: Any, n_null: int, rng: Any) -> Any:
    return ek.mmd_test(X, model, "aggregate", n_null=n_null, rng=rng)


def signs(X: Any, model: Any, n_null: int, rng: Any) -> Any:
    return ek.kdsd_test(X, model, null="signs", n_null=n_null, rng=rng)


MODELS: dict[str, Callable[[], Any]] = {
    "SACHS": lambda: network("sachs"),
    "EARTHQUAKE": lambda: network("earthquake"),
    "rare bits": rare_bits,
    "chain of 30": chain,
    "weak grid": lambda: grid(0.3),
    "strong grid": lambda: grid(1.5),
}

TESTS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "kdsd": (ek.kdsd_test, ("circuit", "graph", "function")),
    "mmd": (ek.mmd_test, ("circuit", "graph", "function")),
    "aggregate": (aggregated, ("circuit",)),
    "two-sample": (two_samples, ("circuit",)),
    "signs": (signs, ("circuit",)),
}


def share(test: Callable[..., Any], source: Any, target: Any, n: int, repeats: int) -> str:
    """How often a test rejects at 5 %, how often it does not judge, and the time of one."""
    rng, rejected, refused, start = np.random.default_rng(3), 0, 0, time.process_time()
    drawn = ""
    for _ in range(repeats):
        try:
            found = test(source.sample(n, rng), target, n_null=N_NULL, rng=rng)
            rejected += found.p_value <= 0.05
            drawn = found.drawn
        except ek.DataError:  # signs that cannot tell
            refused += 1
    took = (time.process_time() - start) / repeats
    why = f", {100 * refused / repeats:.1f} % refused" if refused else ""
    return f"{100 * rejected / repeats:5.1f} %   {drawn}, {1e3 * took:.0f} ms{why}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--n", type=int, nargs="*", default=[40, 100])
    parser.add_argument("--tests", nargs="*", default=list(TESTS), choices=list(TESTS))
    parser.add_argument("--forms", nargs="*", default=["circuit", "graph", "function"])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--power", action="store_true", help="samples of a model that differs")
    given = parser.parse_args(arguments)
    print(f"{'rejected' if given.power else 'level'} at 5 %, {given.repeats} repetitions")
    for name in given.models:
        try:
            graph = MODELS[name]()
        except ImportError:
            print(f"{name} is read from pgmpy, which is not installed")
            continue
        known = forms(graph)
        source = changed(graph, SPREAD.get(name, 0.35)) if given.power else known["circuit"]
        for key in given.tests:
            test, wanted = TESTS[key]
            for form in (f for f in wanted if f in given.forms):
                if key == "mmd" and form == "function" and np.prod(graph.cardinalities) > 2**18:
                    continue  # no embedding
                for n in given.n:
                    line = share(test, source, known[form], n, given.repeats)
                    print(f"{name:12} {key:11} {form:9} n = {n:4} {line}", flush=True)


if __name__ == "__main__":
    main()
