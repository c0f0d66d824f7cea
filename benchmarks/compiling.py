"""Exact inference in networks of the literature, beside junction trees of pyAgrum."""

from __future__ import annotations

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

NETWORKS = ("alarm", "hailfinder", "win95pts", "diabetes", "munin2", "barley", "mildew", "link")
MAX_BYTES = 2**32
"""What is larger is left out."""
ROUNDS, ENOUGH = 5, 10.0
"""Every task runs so often, unless that takes more seconds."""


def compiling_networks() -> None:
    """All marginals, with a circuit and without: seconds of the processor, and peak memory."""
    try:
        import pyagrum as gum
    except ImportError:
        print("\n(no pyAgrum: nothing to compare with; pip install pyagrum)")
        return
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or spec.origin is None:
        print("\n(the networks come with pgmpy: pip install pgmpy)")
        return
    folder, rows = Path(spec.origin).parent / "utils" / "example_models", []
    with threadpool_limits(1):
        for name in NETWORKS:
            rows += _compared(gum, name, folder / f"{name}.bif.gz")
    show("Marginals of all variables: seconds of the processor, one thread (peak memory)", rows)


def _compared(gum: Any, name: str, path: Path) -> list[tuple[str, str, str, str]]:
    """The lines of one network; stops if answers differ."""
    model = ek.read_bif(path)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.bif"
        file.write_bytes(gzip.decompress(path.read_bytes()))
        network = gum.loadBN(str(file))
    names = sorted(network.names(), key=network.idFromName)

    def fresh() -> Any:
        return ek.BayesianNetwork(model.parents, model.cpts)

    def propagated() -> Any:
        engine = gum.LazyPropagation(network)
        engine.setNumberOfThreads(1)
        engine.makeInference()
        return [engine.posterior(name).toarray() for name in names]

    found = {
        "circuit": _measured(lambda: fresh().compile(max_bytes=MAX_BYTES)[0].marginals()),
        "no circuit": _measured(lambda: fresh().marginals(max_bytes=MAX_BYTES)),
        "pyAgrum": _measured(propagated),
    }
    answers = [np.concatenate(list(answer)) for _, _, answer in found.values() if answer]
    if any(np.abs(other - answers[0]).max() > 1e-6 for other in answers):
        raise SystemExit(f"marginals of {name} differ")
    theirs, words, _ = found.pop("pyAgrum")
    return [
        (f"{name}, {what}", ours, words, f"{took / theirs:.2f}" if took else "")
        for what, (took, ours, _) in found.items()
    ]


def _measured(task: Callable[[], Any]) -> tuple[float, str, Any]:
    """The least time of the processor, which others disturb least, with memory, and the answer."""
    times: list[float] = []
    with PeakMemory() as memory:
        while len(times) < ROUNDS and sum(times) < ENOUGH:
            began = time.process_time()
            try:
                answer = task()
            except SizeError:
                return 0.0, "too large", None
            times.append(time.process_time() - began)
    peak = f"{(memory.peak - memory.before) / 2**20:.0f} MiB"
    return min(times), f"{seconds(min(times))} ({peak})", answer


ALL = [compiling_networks]
