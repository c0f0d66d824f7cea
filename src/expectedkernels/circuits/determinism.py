"""Determinism, decided: whether the inputs of any sum unit overlap."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from expectedkernels.arrays import require_memory
from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.engine.nodes import at_nodes
from expectedkernels.engine.sweep import Operand, peak_bytes, visit
from expectedkernels.engine.value import Value, plain
from expectedkernels.verdict import Verdict


def deterministic(circuit: BlockCircuit) -> Verdict:
    """Whether the inputs of every sum unit have disjoint supports, with the first that do not.

    Two units of one vtree node overlap iff the inner product of their support indicators is not
    zero, so one sweep of the circuit's supports against themselves decides. (Weights that
    cancel are taken as if they did not.) Cost: that of one expected kernel, once per circuit.
    """
    return circuit.remembered("deterministic", lambda: _decided(circuit.to("numpy")))


def _decided(circuit: BlockCircuit) -> Verdict:
    """See `deterministic`."""
    for variable in circuit.vtree.scope().tolist():
        block: Any = circuit.input(variable)
        several = (block.numbers != 0).sum(axis=1) > 1
        if block.cardinality is None and several.any():
            kind = "normal densities, which" if block.half is None else "densities, which may"
            return Verdict(
                False,
                f"input unit {int(np.argmax(several))} of the real variable {variable} is a sum of "
                f"several {kind} overlap",
            )
    support = _support(circuit)
    blocks = [block for block in support.inner if block is not None]
    require_memory(
        peak_bytes([support, support])
        + 16.0 * max((block.n_units * block.n_products for block in blocks), default=0),
        "To decide whether the circuit is deterministic",
        "Compile it on a vtree that suits it, where it has fewer units.",
    )

    def leaf(nodes: Any, parts: Any) -> Value:
        block: Any = circuit.blocks[int(nodes[0])]
        return plain(block.overlaps(block).astype(np.float64)[None], (1, 1))

    for node, products, _ in visit([support, support], leaf):
        if products is None or support.inner[node].weights is None:
            continue
        data = products.data[0]
        meets = data > -inf if products.is_log else data != 0
        np.fill_diagonal(meets, False)
        takes = support.inner[node].csr
        clashes = (takes @ meets.astype(np.float64)) * takes.toarray()
        if clashes.any():
            unit = int(np.flatnonzero(clashes.any(axis=1))[0])
            first = int(np.flatnonzero(clashes[unit])[0])
            inputs = takes.indices[takes.indptr[unit] : takes.indptr[unit + 1]]
            second = int(inputs[np.flatnonzero(meets[first, inputs])[0]])
            scope = circuit.vtree.scope(node).tolist()
            shown = ", ".join(map(str, scope[:8])) + (", ..." if len(scope) > 8 else "")
            return Verdict(
                False,
                f"sum unit {unit} at vtree node {node} (variables {{{shown}}}) has inputs "
                f"{first} and {second} with overlapping supports",
            )
    return Verdict(True, "no two inputs of any sum unit overlap")


def _support(circuit: BlockCircuit) -> Operand:
    """The circuit's structure with all weights one."""
    operand = circuit.operand

    def ones(numbers: Any) -> Any:
        return (numbers != 0).astype(np.float64)

    blocks = at_nodes(circuit.vtree, None, lambda node: operand.inner[node].mapped(ones))
    return Operand(circuit.vtree, operand.units, blocks, [None] * len(blocks))
