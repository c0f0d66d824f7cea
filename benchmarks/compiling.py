"""Exact inference in graphical models, beside an engine of junction trees."""

from __future__ import annotations

import ctypes
import importlib.util
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import expectedkernels as ek
from benchmarks.timing import in_turns, peak_memory, seconds, show, timed
from expectedkernels.checks import SizeError

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
    title = "Marginals of all variables: seconds of the processor, one thread (peak memory)"
    with threadpool_limits(1):
        for name, model, network, evidence in _models(gum):
            tasks = {
                "circuit": lambda m=model: _fresh(m).compile(max_bytes=MAX_BYTES)[0].marginals(),
                "no circuit": lambda m=model: _fresh(m).marginals(max_bytes=MAX_BYTES),
                **_engines(gum, network, evidence, model.n_variables),
            }
            show(f"{title}: {name}", _compared(tasks))


def _models(gum: Any) -> Iterator[tuple[str, Any, Any, dict[str, int]]]:
    """Names, models, and networks of pyAgrum with evidence."""
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or spec.origin is None:
        raise SystemExit("the networks come with pgmpy: pip install pgmpy")
    folder = Path(spec.origin).parent / "utils" / "example_models"
    for name in (*SMALL, *GRIDS, *LARGE):
        if isinstance(name, int):
            grid = ek.ising_grid(name, name, rng=0)
            yield f"grid {name} x {name}", grid, *_with_children(gum, grid)
            continue
        took, model = timed(ek.read_bif, folder / f"{name}.bif.gz")
        yield f"{name}, read in {seconds(took)}", model, ek.models.to_pyagrum(model), {}


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


def _engines(gum: Any, network: Any, evidence: dict[str, int], n: int) -> dict[str, Any]:
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
        return {}
    kinds = (gum.LazyPropagation, gum.ShaferShenoyInference)
    return {f"pyAgrum, {kind.__name__}": lambda kind=kind: ask(kind) for kind in kinds}


def _fresh(model: Any) -> Any:
    """The model without what it has computed before."""
    if isinstance(model, ek.BayesianNetwork):
        return ek.BayesianNetwork(model.parents, model.cpts)
    return ek.FactorGraph(model.cardinalities, model.factors)


def _compared(tasks: dict[str, Callable[[], Any]]) -> list[tuple[str, ...]]:
    """The shortest run of every task, in turns, and the peak of memory of the first, in MiB."""
    first, peaks, answers = {}, {}, {}
    for name, task in tasks.items():
        ctypes.CDLL(None).malloc_trim(0)  # what earlier tasks have left behind
        with peak_memory() as peak:
            try:
                first[name], answers[name] = _processor_time(task)
            except SizeError:
                continue
            peaks[name] = peak()
    found = [np.concatenate(list(answer)) for answer in answers.values()]
    if any(np.abs(other - found[0]).max() > 1e-6 for other in found[1:]):
        raise SystemExit("marginals differ")
    again = {name: lambda t=tasks[name]: _processor_time(t)[0] for name in first}
    best = in_turns(again, int(min(20, 3.0 / max(first.values()))))
    best = {name: min(best[name], first[name]) for name in first}
    theirs = min((name for name in best if "pyAgrum" in name), key=best.__getitem__, default="")
    shown = {name: f"{seconds(t)} ({peaks[name]:.0f} MiB)" for name, t in best.items()}
    return [
        (
            name,
            shown.get(name, "too large"),
            shown.get(theirs, "too large"),
            f"{best[name] / best[theirs]:.2f}" if name in best and theirs else "",
        )
        for name in ("circuit", "no circuit")
    ]


def _processor_time(task: Callable[[], Any]) -> tuple[float, Any]:
    """The time of the processor, which other processes disturb least, and the result."""
    began = time.process_time()
    found = task()
    return time.process_time() - began, found


ALL = [compiling_networks]
