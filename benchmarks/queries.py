"""What one circuit is asked: likelihoods, marginals, most probable rows, samples, conditionals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import expectedkernels as ek
from benchmarks.inference import _alarm
from benchmarks.timing import alternating, seconds, show
from expectedkernels.circuits.sample_map import deterministic

ROWS = 1000


def models() -> Iterator[tuple[str, ek.Circuit]]:
    """Circuits of a network, of data (if it is there), and a dense one."""
    yield "ALARM (random tables)", _alarm().circuit()
    folder = os.environ.get("EXPECTEDKERNELS_DATA")
    if folder is None:
        print("\n(no learned circuits: set EXPECTEDKERNELS_DATA to the folder with psdd/)")
    for name in ("abalone", "elevators") if folder else ():
        path = Path(folder) / "psdd" / name  # type: ignore[arg-type]
        yield name, ek.read_psdd(path.with_suffix(".psdd"), path.with_suffix(".vtree"))
    yield "dense, 64 variables, 16 units", ek.random_circuit(64, 16, rng=0)


def questions(p: ek.Circuit, rows: Any) -> dict[str, Callable[[], Any]]:
    """What is asked, given some rows half of whose values are missing."""
    asked = {
        "likelihood": lambda: p.log_likelihood(rows),
        "marginals": lambda: p.marginals(rows),
        "sample": lambda: p.sample(1, rng=0, evidence=rows),
    }
    if deterministic(p):
        asked["map"] = lambda: p.map(rows)
    if len(rows) == 1:
        asked["condition"] = lambda: p.condition(rows[0])
    return asked


def rows_of(p: ek.Circuit, n: int) -> Any:
    """Samples of a circuit, half of whose values are missing."""
    rng = np.random.default_rng(1)
    rows = p.sample(n, rng=rng)
    rows[rng.random(rows.shape) < 0.5] = np.nan
    return rows


def circuit_queries() -> None:
    """Every question for one row, and for many, in likelihoods of as many rows."""
    with threadpool_limits(1):
        for name, p in models():
            table = []
            for n in (1, ROWS):
                asked = questions(p, rows_of(p, n))
                times = dict(zip(asked, alternating(*asked.values(), rounds=3), strict=True))
                for question, took in times.items():
                    ratio = f"{took / times['likelihood']:.1f} likelihoods"
                    table.append((f"{question}, {n} rows", seconds(took), "", ratio))
            show(name, table)


def network_marginals() -> None:
    """All marginals of ALARM given ever new evidence, beside pyAgrum."""
    try:
        import pyagrum as gum
    except ImportError:
        print("\n(no pyAgrum: pip install pyagrum)")
        return
    model = _alarm()
    p = model.circuit()
    network = gum.BayesNet()
    names, cards = model.names, p.cardinalities
    for name, card in zip(names, cards, strict=True):
        network.add(gum.LabelizedVariable(name, name, card))
    for child, parents in enumerate(model.parents):
        for parent in parents:
            network.addArc(names[parent], names[child])
    for factor in model.factors:
        *parents, child = factor.scope
        for index in np.ndindex(*(cards[v] for v in parents)):
            place = {names[v]: int(x) for v, x in zip(parents, index, strict=True)}
            network.cpt(names[child])[place] = factor.table[index].tolist()
    inference = gum.LazyPropagation(network)
    rows = rows_of(p, 50)
    evidence = [{names[v]: int(x[v]) for v in np.flatnonzero(~np.isnan(x))} for x in rows]

    def theirs() -> list[Any]:
        found = []
        for known in evidence:
            inference.setEvidence(known)
            inference.makeInference()
            found.append([inference.posterior(name).toarray() for name in names])
        return found

    units = p.written_out()

    def ours(circuit: ek.Circuit) -> list[Any]:
        return [circuit.marginals(known) for known in evidence]

    for one, other in zip(ours(p), theirs(), strict=True):
        if max(np.abs(a - b).max() for a, b in zip(one, other, strict=True)) > 1e-9:
            raise SystemExit("marginals differ from pyAgrum's")
    together = alternating(
        lambda: ours(p), lambda: ours(units), theirs, lambda: p.marginals(rows), rounds=3
    )
    by_tables, by_units, their_time, at_once = (took / len(rows) for took in together)
    show(
        "All marginals of ALARM given a row",
        [
            (name, seconds(took), seconds(their_time), f"{their_time / took:.1f} x")
            for name, took in (
                ("row by row", by_tables),
                ("row by row, written out", by_units),
                ("50 rows at once", at_once),
            )
        ],
    )


ALL = [circuit_queries, network_marginals]
