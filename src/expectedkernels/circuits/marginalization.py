"""Marginalisation: the circuit of a sum over some of the variables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from expectedkernels.arrays import VariablesLike
from expectedkernels.circuits.base import checked_variable, host_for
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input
from expectedkernels.circuits.ranges import Part, plain_blocks
from expectedkernels.circuits.wide import mixed, wide
from expectedkernels.circuits.wide_passes import node_values, wide_up
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.nodes import from_leaves
from expectedkernels.errors import CircuitError
from expectedkernels.vtree import Vtree


def marginalize(f: Circuit, variables: VariablesLike) -> Circuit:
    r"""The circuit of the other variables, summed (or integrated) over the given ones.

    Parameters
    ----------
    f : Circuit
        It may be signed and unnormalised.
    variables : int, str, or iterable of these
        What to sum out. At least one variable must remain.

    Returns
    -------
    Circuit
        Over the remaining variables, renumbered 0, 1, ... in ascending order of their old
        numbers: with ``kept = sorted(set(range(f.n_variables)) - set(variables))``, variable i
        of the result is variable ``kept[i]`` of f. Its vtree is that of f projected onto
        them.

    Raises
    ------
    CircuitError
        If it is given something else than a circuit, or no variable remains.

    Notes
    -----
    Needs no further property. Keeps structure: marginals of compatible circuits over the same
    variables are compatible, and a sum of one stays one. Determinism is not kept in general.
    Vtree nodes left with one child contract: what the other side sums to becomes part of the
    weights. Cost: O(\|f\|) for sparse circuits.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.mixture([ek.factorized([[1, 0], [0.5, 0.5]]), ek.factorized([[0, 1], [0.1, 0.9]])])
    >>> marginalize(p, [0]).input(0).table.round(12).tolist()
    [[0.3, 0.7]]
    """
    if not isinstance(f, Circuit):
        raise CircuitError(
            f"marginalize works on Circuits. Got {type(f).__name__} instead; "
            "Circuit.from_units makes one of a graph of units."
        )
    gone = _checked(f, variables)
    if not gone:
        return f
    f = host_for(f, "marginalize")
    kept = sorted(set(range(f.n_variables)) - gone)
    vtree, parts = _projected(f, kept)
    blocks = plain_blocks(vtree, parts, "The marginal", "normalise the circuit first")
    found = Circuit.from_blocks(vtree, blocks).with_schema(f.schema.subset(kept))
    return replace(found, nonnegative=f.nonnegative)


def _checked(f: Circuit, variables: Any) -> set[int]:
    """The variables as a set."""
    alone = isinstance(variables, str) or not isinstance(variables, Iterable)
    given = [variables] if alone else list(variables)
    gone = {checked_variable(f, v, "The 'variables' of marginalize must be ints") for v in given}
    if len(gone) == f.n_variables:
        raise CircuitError(
            f"At least one of the {f.n_variables} variables must remain; log_partition() sums "
            "over all of them."
        )
    return gone


def _projected(f: Circuit, kept: list[int]) -> tuple[Vtree, list[Part]]:
    """The vtree of the variables that remain, and the blocks that do."""
    totals = node_values(f, wide_up(f, None))
    number = {variable: i for i, variable in enumerate(kept)}
    nodes: list[tuple[int, int, int]] = []
    parts: list[Part] = []

    def added(node: tuple[int, int, int], block: Input | Inner) -> int:
        nodes.append(node)
        parts.append((block, wide(block.flat[0])))
        return len(nodes) - 1

    def leaf(node: int, variable: int) -> int:
        """The place of what remains of a node, -1 if nothing does."""
        return added((-1, -1, number[variable]), f.blocks[node]) if variable in number else -1

    def inner(node: int, a: int, b: int) -> int:
        block: Any = f.blocks[node]
        if a >= 0 and b >= 0:
            return added((a, b, -1), block)
        place = max(a, b)
        if place >= 0:  # units of the child that remains are replaced by sums of them
            own, other = block.inputs if a >= 0 else block.inputs[::-1]
            below = totals[int((f.vtree.left if a < 0 else f.vtree.right)[node])]
            (data, starts), products = block.flat, block.columns
            weights = wide(data) * below[other[products]]
            parts[place] = mixed(*parts[place], own[products], weights, starts)
        return place

    from_leaves(f.vtree, leaf, inner)
    return Vtree(*zip(*nodes, strict=True)), parts
