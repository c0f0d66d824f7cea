"""Levels of circuits with their numbers and indices sent to where tensors are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.arrays import namespace
from expectedkernels.engine.levels import Level, Levels, Stack
from expectedkernels.engine.tensors import TensorEdges, TensorLevel, TensorLevels, TensorStack


def tensor_levels(host: Levels, like: Any) -> TensorLevels:
    """The levels with their numbers as tensors of the type and at the place of another one."""
    xp = namespace(like)

    def sent(array: Any) -> Any:
        return xp.asarray(np.array(array), device=like.device)

    def number(array: Any) -> Any:
        return sent(array).to(like.dtype)

    bases, made = _table_bases(host.levels[0]), []
    left, right = host.vtree.left, host.vtree.right
    for level in host.levels:
        lowest = level.inputs is None
        stacks = tuple(
            TensorStack(
                number(stack.weights),
                stack.units,
                stack.products,
                _stack_entries(bases, stack) if lowest else slice(0),
            )
            for stack in _merged(level.stacks)
        )
        edges, at = level.edges, level.sparse_units
        first = level.product_starts[level.node_of_unit[at]] - level.sparse_products.start
        entries = bases[at][edges.units] + edges.products - first[edges.units] if lowest else None
        sizes = np.unique(np.diff(level.unit_starts))
        flat = None if level.inputs is None else level.inputs.reshape(-1)
        made.append(
            TensorLevel(
                start=level.start,
                stop=level.stop,
                n_products=level.n_products,
                n_passed=level.n_passed,
                inputs=None if level.inputs is None else tuple(map(sent, level.inputs)),
                used_once=flat is not None and len(np.unique(flat)) == len(flat),
                starts=sent(level.unit_starts),
                stacks=stacks,
                edges=TensorEdges(
                    sent(edges.units),
                    sent(edges.products),
                    number(edges.weights),
                    sent(entries) if lowest else None,
                ),
                sparse_units=at,
                sparse_products=level.sparse_products,
                node_of_unit=sent(level.node_of_unit),
                nodes=sent(level.nodes),
                children=None if lowest else (sent(left[level.nodes]), sent(right[level.nodes])),
                n_nodes=len(level.nodes),
                height=int(sizes[0]) if len(sizes) == 1 else 0,
            )
        )
    return TensorLevels(host, tuple(made), sent(bases))


def _merged(stacks: Sequence[Stack]) -> list[Stack]:
    """Stacks one after the other, those of one shape together: launches cost more than copies."""
    found: list[list[Stack]] = []
    for stack in stacks:
        if found and found[-1][-1].weights.shape[1:] == stack.weights.shape[1:]:
            found[-1].append(stack)
        else:
            found.append([stack])
    return [
        Stack(
            np.concatenate([stack.weights for stack in group]),
            slice(group[0].units.start, group[-1].units.stop),
            slice(group[0].products.start, group[-1].products.stop),
        )
        for group in found
    ]


def _table_bases(level: Level) -> Any:
    """Where the entries of every input unit begin, with one more for each unit."""
    widths = np.repeat(np.diff(level.product_starts), np.diff(level.unit_starts)) + 1
    return np.cumsum(widths) - widths


def _stack_entries(bases: Any, stack: Any) -> slice:
    """Where the weights of a stack of tables lie among all entries: one after the other."""
    n, height, width = stack.weights.shape
    first = int(bases[stack.units.start]) if n * height else 0
    return slice(first, first + n * height * (width + 1))
