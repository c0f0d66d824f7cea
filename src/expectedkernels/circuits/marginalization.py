"""Marginalisation: the circuit of a sum over some of the variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from expectedkernels.arrays import VariablesLike
from expectedkernels.circuits.base import checked_variable
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input
from expectedkernels.circuits.ranges import Part, plain_blocks
from expectedkernels.circuits.wide import Wide, mixed, numbers_of, wide
from expectedkernels.circuits.wide_passes import node_values, wide_up
from expectedkernels.engine.blocks import Inner
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
    f = f.to("numpy")
    totals = node_values(f, wide_up(f, None))
    kept = sorted(set(range(f.n_variables)) - gone)
    work = _Projection({variable: number for number, variable in enumerate(kept)})
    for node, block in enumerate(f.blocks):
        variable = int(f.vtree.variable[node])
        if not isinstance(block, Inner):
            work.leaf(block, variable)
            continue
        a, b = int(f.vtree.left[node]), int(f.vtree.right[node])
        work.inner(block, a, b, totals)
    vtree = Vtree(*zip(*work.nodes, strict=True))
    blocks = plain_blocks(vtree, work.parts, "The marginal", "normalise the circuit first")
    return Circuit.from_blocks(vtree, blocks).with_schema(f.schema.subset(kept))


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


class _Projection:
    """The blocks that remain, in the order of the nodes they come from.

    Attributes
    ----------
    number : dict
        The new number of every variable that remains.
    image : list of int
        For every node seen so far the place of what remains of it, -1 if nothing does.
    nodes : list of (left, right, variable)
        The nodes of the new vtree.
    parts : list
        Their blocks, and the numbers of these.
    """

    def __init__(self, number: dict[int, int]):
        self.number = number
        self.image: list[int] = []
        self.nodes: list[tuple[int, int, int]] = []
        self.parts: list[Part] = []

    def leaf(self, block: Input, variable: int) -> None:
        """Take in a leaf."""
        if variable not in self.number:
            self.image.append(-1)
            return
        self._add((-1, -1, self.number[variable]), block)

    def inner(self, block: Inner, left: int, right: int, totals: list[Wide]) -> None:
        """Take in an inner node; `totals` are what the units of every node sum to."""
        a, b = self.image[left], self.image[right]
        if a >= 0 and b >= 0:
            self._add((a, b, -1), block)
        elif a >= 0:
            self._contract(block, "left", a, totals[right])
        elif b >= 0:
            self._contract(block, "right", b, totals[left])
        else:
            self.image.append(-1)

    def _add(self, node: tuple[int, int, int], block: Input | Inner) -> None:
        self.nodes.append(node)
        self.parts.append((block, wide(numbers_of(block)[0])))
        self.image.append(len(self.nodes) - 1)

    def _contract(self, block: Inner, side: str, place: int, totals: Wide) -> None:
        """Replace the units of the child that remains by sums of them, one per unit of the node."""
        csr, other = block.csr, "right" if side == "left" else "left"
        units = block.index(side)[csr.indices]
        weights = wide(csr.data) * totals[block.index(other)[csr.indices]]
        child, numbers = self.parts[place]
        self.parts[place] = mixed(child, numbers, units, weights, csr.indptr)
        self.image.append(place)
