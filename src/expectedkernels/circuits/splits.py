"""How the product units of a unit graph split their variables, and the vtree they agree on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from expectedkernels.circuits.graph import Graph, bits, show, union
from expectedkernels.engine.nodes import from_leaves
from expectedkernels.errors import CircuitError
from expectedkernels.verdict import Verdict
from expectedkernels.vtree import Vtree


class Family(NamedTuple):
    """The inputs of a product unit that lie in some scope, and must not be split there.

    Univariate inputs never stand in the way of a split, so they only count in `cover`.
    """

    factors: tuple[int, ...]
    """The inputs over at least two variables, in order of their numbers."""
    cover: int
    """The variables of all the inputs in the scope."""
    origin: int
    """The unit they come from."""


def find_vtree(graph: Graph) -> Vtree | Verdict:
    """A vtree that the products of a decomposable graph split along, or why there is none.

    From the top: products over a scope keep together what their inputs keep together, so the
    scope can only be split between the blocks of the finest partition that is coarser than
    all of theirs. Any such split will do, since a vtree that fits a circuit also fits it
    between the variables on one side only. Blocks are halved in order of their smallest
    variables. In a graph that is not smooth, units count as constant in the variables they lack.
    """
    left: list[int] = []
    right: list[int] = []
    variable: list[int] = []
    todo = [(graph.masks[-1], [_alone(graph, len(graph.units) - 1)], -1)]
    while todo:
        scope, families, slot = todo.pop()
        node = len(variable)
        if slot >= 0:
            (right if slot % 2 else left)[slot // 2] = node
        left.append(-1)
        right.append(-1)
        if scope.bit_count() == 1:
            variable.append(scope.bit_length() - 1)
            continue
        variable.append(-1)
        families = _opened(graph, families, scope, fully=False)
        blocks = _blocks(graph, families, scope)
        if len(blocks) == 1:
            families = _opened(graph, families, scope, fully=True)
            blocks = _blocks(graph, families, scope)
        if len(blocks) == 1:
            return Verdict(False, _conflict(graph, families, scope))
        middle = len(blocks) // 2
        first, second = union(blocks[:middle]), union(blocks[middle:])
        todo.append((second, _restricted(graph, families, second), 2 * node + 1))
        todo.append((first, _restricted(graph, families, first), 2 * node))
    n = len(variable)  # parents come first; a vtree wants them last
    left, right = ([n - 1 - i if i >= 0 else -1 for i in reversed(xs)] for xs in (left, right))
    return Vtree(left, right, variable[::-1])


def node_masks(vtree: Vtree) -> list[int]:
    """The variables below every vtree node, as bits."""
    return from_leaves(vtree, lambda _, v: 1 << v, lambda _, left, right: left | right)


def show_split(parts: Iterable[int], limit: int = 4) -> str:
    """A partition of a scope in words, cut short when it is long."""
    ordered = sorted(parts, key=_smallest)
    words = [show(part) for part in ordered[:limit]]
    if len(ordered) > limit:
        words.append(f"... {len(ordered)} parts in all")
    return " | ".join(words)


def can_be_flattened(graph: Graph, i: int) -> bool:
    """Whether a unit is, up to a factor, the product of its inputs."""
    kind = graph.units[i].kind
    return kind == "product" or (kind == "sum" and len(graph.inputs[i]) == 1)


def _alone(graph: Graph, i: int) -> Family:
    return Family((i,), graph.masks[i], i)


def _family(graph: Graph, inputs: Iterable[int], cover: int, origin: int) -> Family:
    several = {i for i in inputs if graph.masks[i].bit_count() > 1}
    return Family(tuple(sorted(several)), cover, origin)


def _opened(graph: Graph, families: list[Family], scope: int, fully: bool) -> list[Family]:
    """Replace units that fill the scope by their inputs, and with `fully` all that can be.

    A sum can be opened when it stands alone. Products within products are only opened fully,
    when there is need: it costs time, and may make the vtree less like the graph.
    """
    masks = graph.masks
    result: list[Family] = []
    seen: set[tuple[tuple[int, ...], int]] = set()
    work = families[::-1]
    while work:
        family = work.pop()
        factors, cover, _ = family
        if not factors or (factors, cover) in seen:
            continue
        seen.add((factors, cover))
        if len(factors) == 1 and masks[factors[0]] == cover and (fully or cover == scope):
            i = factors[0]
            if graph.units[i].kind == "sum":
                inputs = [j for j in graph.inputs[i] if masks[j].bit_count() > 1]
                work += [_alone(graph, j) for j in reversed(inputs)]
            else:
                work.append(_family(graph, graph.inputs[i], cover, i))
        elif fully and any(can_be_flattened(graph, i) for i in factors):
            work.append(_flattened(graph, family))
        else:
            result.append(family)
    return result


def _flattened(graph: Graph, family: Family) -> Family:
    """Products within the product opened all the way down."""
    flat: list[int] = []
    stack = list(family.factors)
    while stack:
        i = stack.pop()
        if can_be_flattened(graph, i):
            stack += graph.inputs[i]
        else:
            flat.append(i)
    return _family(graph, flat, family.cover, family.origin)


def _restricted(graph: Graph, families: list[Family], half: int) -> list[Family]:
    """The families within one half of a split."""
    masks = graph.masks
    result: dict[tuple[tuple[int, ...], int], Family] = {}
    for factors, cover, origin in families:
        inside = tuple(i for i in factors if masks[i] & half)
        if inside:
            result.setdefault((inside, cover & half), Family(inside, cover & half, origin))
    return list(result.values())


def _blocks(graph: Graph, families: Iterable[Family], scope: int) -> list[int]:
    """The finest partition of the scope that splits no factor, by smallest variable."""
    blocks: set[int] = set()
    covered = 0
    for family in families:
        for i in family.factors:
            mask = graph.masks[i]
            if mask in blocks:
                continue
            if mask & covered:
                touching = [block for block in blocks if block & mask]
                blocks.difference_update(touching)
                mask |= union(touching)
            blocks.add(mask)
            covered |= mask
    rest = scope & ~covered
    return sorted([*blocks, *(1 << v for v in bits(rest))], key=_smallest)


def _conflict(graph: Graph, families: list[Family], scope: int) -> str:
    """Two products over a scope that no vtree fits, in words.

    From the largest on, some factor crosses one that is not within another: otherwise those
    would be the blocks of a partition.
    """
    factors = [(graph.masks[i], family) for family in families for i in family.factors]
    factors.sort(key=lambda factor: -factor[0].bit_count())
    largest: list[tuple[int, Family]] = []
    for mask, family in factors:
        for other, rival in largest:
            if mask & other and mask & ~other:
                first, second = (
                    f"{graph.units[f.origin].kind} unit #{f.origin} splits into "
                    f"{_show_family(graph, f)}"
                    for f in sorted((family, rival), key=lambda f: f.origin)
                )
                return f"over variables {show(scope)}, {first}, but {second}"
        if not any(mask & other for other, _ in largest):
            largest.append((mask, family))
    raise CircuitError("The products have a split in common.")  # pragma: no cover


def _show_family(graph: Graph, family: Family) -> str:
    parts = [graph.masks[i] for i in family.factors]
    rest = family.cover & ~union(parts)
    return show_split([*parts, *(1 << v for v in bits(rest))])


def _smallest(mask: int) -> int:
    return (mask & -mask).bit_length()
