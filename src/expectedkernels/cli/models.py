"""Circuits from files of all formats, and what can be said of their size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from expectedkernels import io
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Graph
from expectedkernels.circuits.properties import Properties, properties
from expectedkernels.errors import ParseError, PropertyError
from expectedkernels.io.files import suffix_of
from expectedkernels.verdict import Verdict

CIRCUITS = (".npz", ".psdd", ".jpc", ".spn")
MODELS = (".uai", ".bif")
LARGEST_CHECKED = 5_000
"""Determinism compares all pairs of products of a vtree node: `info` does for up to so many."""
ROUNDING = 1e-6
"""Sums this close to one are one: some formats print six decimals."""


def read_circuit(path: Path, vtree: Path | None) -> Any:
    """The circuit in a file, or, if it is not structured, the root of its graph of units."""
    suffix = suffix_of(path)
    if suffix in MODELS:
        advice = "found a model: `compile` makes a circuit of it, and `plot --kind model` draws it"
        raise ParseError(f"expected a circuit, {advice}", path=str(path))
    if suffix not in CIRCUITS:
        raise ParseError("expected a file that ends in .npz, .psdd, .jpc or .spn", path=str(path))
    try:
        return io.load(path) if suffix == ".npz" else io.load(path, vtree=vtree)
    except PropertyError:
        if suffix not in (".jpc", ".spn"):
            raise
        return io.load(path, as_units=True)


def is_model(path: str) -> bool:
    """Whether a file holds a circuit or a graphical model, by its name."""
    return suffix_of(path) in CIRCUITS + MODELS


def read_distribution(path: str) -> Circuit:
    """The circuit in a file, or that of the graphical model in it."""
    suffix = suffix_of(path)
    if suffix in MODELS:
        return io.compile_file(path)[0]
    if path == "-":
        raise ParseError("expected a table: circuits and models are read from files", path)
    if suffix not in CIRCUITS:
        known = ", ".join(CIRCUITS + MODELS)
        raise ParseError(f"expected a circuit or a model, in a file that ends in {known}", path)
    found = read_circuit(Path(path), None)
    if not isinstance(found, Circuit):
        raise PropertyError(
            f"{path} holds a circuit that splits its variables in several ways, which `info` "
            "shows. Questions are answered by structured circuits."
        )
    return found


def in_numbers(circuit: Any) -> dict[str, Any]:
    """The variables and the size of a circuit or a graph of units; the log of what it sums to."""
    if not isinstance(circuit, Circuit):
        graph = Graph(circuit)
        return {
            "variables": [{"name": v, "states": c} for v, c in sorted(graph.cardinalities.items())],
            "units": len(graph.units),
            "edges": sum(map(len, graph.inputs)),
            "log_partition": None,
        }
    variables = [
        {"name": circuit.schema.name(v), "states": circuit.schema.labels(v) or card}
        for v, card in enumerate(circuit.cardinalities)
    ]
    try:
        logs = np.atleast_1d(circuit.log_partition()).tolist()
    except PropertyError:  # negative sums have no logarithm
        logs = None
    return {
        "variables": variables,
        "units": circuit.n_units,
        "edges": circuit.n_edges,
        "log_partition": logs,
    }


def sizes(circuit: Circuit) -> dict[str, str]:
    """The variables and the size of a circuit, in words."""
    return {
        "variables": variables_in_words(circuit.cardinalities),
        "units": f"{circuit.n_units}",
        "edges": f"{circuit.n_edges}",
        "parameters": f"{circuit.n_parameters}",
    } | ({} if circuit.n_roots == 1 else {"roots": f"{circuit.n_roots}"})


def graph_sizes(root: Any) -> dict[str, str]:
    """The variables and the size of a graph of units, in words."""
    graph = Graph(root)
    return {
        "variables": variables_in_words(tuple(graph.cardinalities.values())),
        "units": f"{len(graph.units)}",
        "edges": f"{sum(map(len, graph.inputs))}",
    }


def variables_in_words(cardinalities: tuple[int | None, ...]) -> str:
    """How many variables there are, and with how many states."""
    counts = Counter(-1 if card is None else card for card in cardinalities)
    names = {-1: "real", 2: "binary"}
    kinds = [f"{n} {names.get(card, f'with {card} states')}" for card, n in sorted(counts.items())]
    shown = kinds if len(kinds) <= 6 else [*kinds[:5], f"... up to {max(counts)} states"]
    return f"{len(cardinalities)} ({', '.join(shown)})"


def sum_in_words(circuit: Circuit) -> str:
    """What a circuit sums to over all states, and whether that is one."""
    try:
        logs = np.atleast_1d(circuit.log_partition())
    except PropertyError:
        return "negative, so the circuit is no distribution"
    if (np.abs(logs) <= ROUNDING).all():
        return "1, normalised"
    shown = ", ".join(f"exp({log:.6g})" for log in logs[:4]) + (", ..." if len(logs) > 4 else "")
    return f"{shown}, not normalised"


def circuit_properties(circuit: Circuit) -> Any:
    """The structural properties of a circuit; determinism only if it does not take too long."""
    inner = [block for block in circuit.operand.inner if block is not None]
    most = max((block.n_products for block in inner), default=1)
    if most <= LARGEST_CHECKED:
        return properties(circuit)
    holds = Verdict(True, "its units are those of a vtree's nodes")
    return Properties(
        holds,
        holds,
        holds,
        Verdict(
            None,
            f"not checked, as a vtree node has {most} products and all pairs of them would be "
            "compared; properties() does that",
        ),
    )
