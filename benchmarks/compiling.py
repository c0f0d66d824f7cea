"""Exact inference in graphical models, beside an engine of junction trees."""

from __future__ import annotations

import ctypes
import gzip
import importlib.util
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import expectedkernels as ek
from benchmarks.timing import PeakMemory, seconds, show
from expectedkernels.checks import SizeError
from expectedkernels.datasets import ising_grid

SMALL = ("alarm", "hailfinder", "win95pts")
LARGE = ("diabetes", "munin2", "munin3", "barley", "mildew", "munin4", "munin", "link", "munin1")
GRIDS = (10, 12, 14, 16)
MAX_BYTES, THEIR_BYTES = 2**32, 2**31
"""What is larger is left out; junction trees near two gigabytes take minutes."""


def compiling_networks() -> None:
    """All marginals, with a circuit and without, beside the faster engine of pyAgrum."""
    try:
        import pyagrum as gum
    except ImportError:
        print("\n(no pyAgrum: nothing to compare with; pip install pyagrum)")
        return
    rows = []
    with threadpool_limits(1):
        for name, model, theirs in _models(gum):
            rows += _compared(name, model, theirs)
            print("  ".join(rows[-2]), "  ".join(rows[-1]), sep="\n", flush=True)
    show("Marginals of all variables: seconds of the processor, one thread (peak memory)", rows)


def _models(gum: Any) -> Any:
    """Names, models, and what makes pyAgrum's answers: functions of no arguments."""
    for name in SMALL:
        yield _network(gum, name)
    for side in GRIDS:
        grid = ising_grid(side, side, rng=0)
        network, evidence = _with_children(gum, grid)
        yield f"grid {side} x {side}", grid, _engines(gum, network, evidence, grid.n_variables)
    for name in LARGE:
        yield _network(gum, name)


def _network(gum: Any, name: str) -> tuple[str, Any, list[Callable[[], Any]]]:
    """A network of the literature, from a file that comes with pgmpy."""
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or spec.origin is None:
        raise SystemExit("the networks come with pgmpy: pip install pgmpy")
    path = Path(spec.origin).parent / "utils" / "example_models" / f"{name}.bif.gz"
    began = time.perf_counter()
    model = ek.read_bif(path)
    print(f"({name}: read in {seconds(time.perf_counter() - began)})")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.bif"
        file.write_bytes(gzip.decompress(path.read_bytes()))
        network = gum.loadBN(str(file))
    return name, model, _engines(gum, network, {}, model.n_variables)


def _with_children(gum: Any, model: Any) -> tuple[Any, dict[str, int]]:
    """A factor graph as a network: every factor is the probability of a child that is observed."""
    network, evidence = gum.BayesNet(), {}
    for v, card in enumerate(model.cardinalities):
        network.add(gum.LabelizedVariable(f"x{v}", "", card))
        network.cpt(f"x{v}").fillWith(1.0 / card)
    for number, factor in enumerate(model.factors):
        child = f"f{number}"
        network.add(gum.LabelizedVariable(child, "", 2))
        for v in factor.scope:
            network.addArc(f"x{v}", child)
        share = factor.table / factor.table.max()
        for index in np.ndindex(*share.shape):
            place = {f"x{v}": int(x) for v, x in zip(factor.scope, index, strict=True)}
            network.cpt(child)[place] = [1.0 - share[index], share[index]]
        evidence[child] = 1
    return network, evidence


def _engines(gum: Any, network: Any, evidence: dict[str, int], n: int) -> list[Callable[[], Any]]:
    """Both exact engines; those whose cliques are too large are left out."""
    names = sorted(network.names(), key=network.idFromName)[:n]

    def ask(kind: Any) -> list[Any]:
        engine = kind(network)
        engine.setNumberOfThreads(1)
        engine.setEvidence(evidence)
        engine.makeInference()
        return [engine.posterior(name).toarray() for name in names]

    tree = gum.LazyPropagation(network).junctionTree()
    sizes = [
        np.prod([float(network.variable(v).domainSize()) for v in tree.clique(node)])
        for node in tree.nodes()
    ]
    if 8 * sum(sizes) > THEIR_BYTES:
        return []
    return [lambda: ask(gum.LazyPropagation), lambda: ask(gum.ShaferShenoyInference)]


def _compared(
    name: str, model: Any, engines: list[Callable[[], Any]]
) -> list[tuple[str, str, str, str]]:
    """The lines of one model."""

    def fresh() -> Any:
        if isinstance(model, ek.BayesianNetwork):
            return ek.BayesianNetwork(model.parents, model.cpts)
        return ek.FactorGraph(model.cardinalities, model.factors)

    def compiled(given: Any) -> Any:
        return given.compile(max_bytes=MAX_BYTES)[0].marginals()

    def eliminated(given: Any) -> Any:
        return given.marginals(max_bytes=MAX_BYTES)

    ours = [("circuit", compiled), ("no circuit", eliminated)]
    tasks: list[tuple[str, Callable[[], Any], Callable[..., Any]]] = [
        (what, fresh, task) for what, task in ours
    ]
    tasks += [("pyAgrum", lambda engine=engine: engine, _call) for engine in engines]
    best, peaks = _alternated(tasks)
    theirs = min((best[i] for i in range(2, len(tasks))), default=np.nan)
    memory = min((peaks[i] for i in range(2, len(tasks))), default=np.nan)
    beside = "too large" if np.isnan(theirs) else f"{seconds(theirs)} ({memory:.0f} MiB)"
    rows = []
    for i, (what, _) in enumerate(ours):
        took = "too large" if np.isnan(best[i]) else f"{seconds(best[i])} ({peaks[i]:.0f} MiB)"
        ratio = "" if np.isnan(best[i] * theirs) else f"{best[i] / theirs:.2f}"
        rows.append((f"{name}, {what}", took, beside, ratio))
    return rows


def _call(engine: Callable[[], Any]) -> Any:
    return engine()


def _alternated(tasks: list[Any]) -> tuple[list[float], list[float]]:
    """The shortest run of every task, in turns, and the peak of memory of the first, in MiB."""
    best, peaks = [np.nan] * len(tasks), [np.nan] * len(tasks)
    answers: list[Any] = [None] * len(tasks)
    for i, (_, make, task) in enumerate(tasks):
        ctypes.CDLL(None).malloc_trim(0)  # what earlier tasks have left behind
        with PeakMemory() as memory:
            try:
                best[i], answers[i] = _timed(make, task)
            except SizeError:
                continue
        peaks[i] = (memory.peak - memory.before) / 2**20
    _compare(answers)
    longest = np.nanmax(best)
    for _ in range(int(min(20, 3.0 / longest))):
        for i, (_, make, task) in enumerate(tasks):
            if not np.isnan(best[i]):
                best[i] = min(best[i], _timed(make, task)[0])
    return best, peaks


def _timed(make: Callable[[], Any], task: Callable[..., Any]) -> tuple[float, Any]:
    """The time of the processor, which others on the machine disturb least, and the answer."""
    given = make()
    began = time.process_time()
    found = task(given)
    return time.process_time() - began, found


def _compare(answers: list[Any]) -> None:
    """Stop if two lists of marginals differ."""
    found = [np.concatenate(list(answer)) for answer in answers if answer is not None]
    for other in found[1:]:
        if np.abs(other - found[0]).max() > 1e-6:
            raise SystemExit(f"marginals differ by {np.abs(other - found[0]).max()}")


ALL = [compiling_networks]
