"""From the root down with one unit per row at every node, in tensors: samples, best completions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from expectedkernels.arrays import as_like, namespace, spans, to_numpy
from expectedkernels.engine.on_tensors import times_atoms
from expectedkernels.engine.tensors import States, TensorLevels

CHOICE_BYTES = 2**28
"""How much memory the edges of all chosen units of a level may take, about."""


@dataclass(frozen=True, eq=False)
class EdgeTensors:
    """All edges of a level, unit by unit.

    Attributes
    ----------
    starts, products : int tensors
    units : int tensor
        The unit of every edge.
    weights : tensor
    most : int
        How many edges a unit has at most.
    """

    starts: Any
    products: Any
    units: Any
    weights: Any
    most: int


@dataclass(frozen=True, eq=False)
class TensorChoice:
    """The edges of chosen units of one level, side by side: (nodes, rows, edges).

    Attributes
    ----------
    number : int
    nodes : int tensor
        The vtree nodes.
    units : int tensor of shape (nodes, rows)
    places : int tensor
        The edges; where a unit has fewer than others, its last one again.
    real : bool tensor
        Which of them are edges.
    edges : EdgeTensors
    """

    number: int
    nodes: Any
    units: Any
    places: Any
    real: Any
    edges: EdgeTensors


def edge_tensors(levels: TensorLevels, number: int) -> EdgeTensors:
    """All edges of a level in tensors, kept with the levels."""
    kept = vars(levels).setdefault("_edges", {})
    if number not in kept:
        edges = levels.host.levels[number].all_edges
        like = levels.bases
        index = (edges.starts, edges.products, edges.units)
        starts, products, units = (as_like(np.array(x), like) for x in index)
        weights = as_like(np.array(edges.weights), like).to(levels.like.dtype)
        most = int(np.diff(edges.starts).max())
        kept[number] = EdgeTensors(starts, products, units, weights, most)
    return kept[number]


def tensor_descend(
    levels: TensorLevels, n: int, choose: Callable[[TensorChoice, slice], Any]
) -> Any:
    """The chosen atom of every leaf and row, (leaves, n), on the host.

    `choose` leads from edges, and the rows they are of, to the chosen ones, counted from the first
    of their unit.
    """
    host = levels.host
    widest = max(
        len(level.nodes) * edge_tensors(levels, i).most for i, level in enumerate(host.levels)
    )
    step = max(1, CHOICE_BYTES // (48 * widest))
    parts = spans(n, step)
    return np.concatenate([_descend(levels, rows, choose) for rows in parts], axis=1)


def _descend(
    levels: TensorLevels, rows: slice, choose: Callable[[TensorChoice, slice], Any]
) -> Any:
    """The same for some rows at once."""
    host = levels.host
    at = levels.bases.new_zeros((host.vtree.n_nodes, rows.stop - rows.start))
    at[-1] = host.roots.start
    products: Any = None
    for number in range(len(host.levels) - 1, -1, -1):
        own, level = host.levels[number], levels.levels[number]
        products = at[level.nodes] - level.start
        free = own.n_passed_nodes
        if free < len(own.nodes):
            choice = _choice(levels, number, level.nodes[free:], products[free:])
            first = choice.places[..., :1]
            chosen = first + choose(choice, rows)[..., None]
            products[free:] = choice.edges.products[chosen[..., 0]]
        if level.inputs is not None and level.children is not None:
            for child, inputs in zip(level.children, level.inputs, strict=True):
                at[child] = inputs[products]
    return to_numpy(products)


def _choice(levels: TensorLevels, number: int, nodes: Any, units: Any) -> TensorChoice:
    """The edges of units, side by side."""
    edges = edge_tensors(levels, number)
    xp = namespace(units)
    first, end = edges.starts[units], edges.starts[units + 1]
    places = first[..., None] + xp.arange(edges.most, device=units.device)
    real = places < end[..., None]
    return TensorChoice(number, nodes, units, xp.minimum(places, end[..., None] - 1), real, edges)


def drawing(found: Any, row_of: Any, uniform: Any) -> Callable[[TensorChoice, slice], Any]:
    """What draws edges in proportion to weights times values, given values of rows.

    `row_of` says which row every sample is of, and `uniform` holds a number per vtree node and
    sample, both on the host.
    """
    levels = found.levels
    atoms = _atom_values(found)
    row_of, uniform = as_like(np.array(row_of), levels.bases), as_like(uniform, levels.bases)

    def choose(choice: TensorChoice, rows: slice) -> Any:
        inputs = found.products[choice.number] if choice.number else atoms
        which = row_of[rows][None, :, None]
        edges = choice.edges
        scores = edges.weights[choice.places] * inputs[edges.products[choice.places], which]
        scores = scores.masked_fill_(~choice.real, 0.0)
        reached = scores.cumsum(-1)
        goals = uniform[choice.nodes, rows].to(scores.dtype)
        chosen = (reached <= (goals * reached[..., -1])[..., None]).sum(-1)
        # rounding may step over the last edge whose score is positive
        numbers = namespace(scores).arange(edges.most, device=scores.device)
        last = numbers.masked_fill(scores <= 0, 0).amax(-1)
        return namespace(chosen).minimum(chosen, last)

    return choose


def _atom_values(found: Any) -> Any:
    """The values of all atoms, (atoms, rows)."""
    if not isinstance(found.atoms.values, States):
        return found.atoms.values
    return times_atoms(found, found.values.new_ones(found.atoms.values.shape))


def best_values(levels: TensorLevels, atoms: Any) -> tuple[Any, list[Any]]:
    """The logs of all units and of all products, the largest term in the place of sums.

    They are of the type of the atoms: double precision, or sums of many logs become equal.
    """
    values = atoms.new_full((levels.n_units, atoms.shape[1]), -inf)
    products = []
    for number, level in enumerate(levels.levels):
        edges = edge_tensors(levels, number)
        made = atoms
        if level.inputs is not None:
            made = values.index_select(0, level.inputs[0]) + values.index_select(0, level.inputs[1])
        products.append(made)
        weights = edges.weights.to(values.dtype).log()
        terms = made.index_select(0, edges.products) + weights[:, None]
        index = edges.units[:, None].expand_as(terms)
        values[level.start : level.stop].scatter_reduce_(0, index, terms, "amax")
    return values, products


def best(
    levels: TensorLevels, values: Any, products: list[Any]
) -> Callable[[TensorChoice, slice], Any]:
    """What chooses the first edge that makes up the value of its unit."""

    def choose(choice: TensorChoice, rows: slice) -> Any:
        edges = choice.edges
        which = namespace(values).arange(rows.start, rows.stop, device=values.device)
        inputs = products[choice.number][edges.products[choice.places], which[None, :, None]]
        scores = inputs + edges.weights.to(values.dtype).log()[choice.places]
        goals = values[levels.levels[choice.number].start + choice.units, which[None]]
        missed = (scores < goals[..., None]) | ~choice.real
        return missed.to(choice.places.dtype).cumprod(-1).sum(-1).clamp(max=edges.most - 1)

    return choose
