"""Vtrees in `.vtree` files, and how other files refer to their nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from expectedkernels.io.text import PathLike, Source, forms, require_holder, write_text
from expectedkernels.vtree import Vtree

VTREE = forms("L id variable", "I id left right")


def read_vtree(path: PathLike) -> Vtree:
    """The vtree in a `.vtree` file, plain or compressed with gzip.

    Variables are numbered from 1 in the file and from 0 in the vtree. The ids of the nodes in the
    file are labels without meaning; nodes are renumbered in post-order.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Vtree

    Raises
    ------
    ParseError
        If the file does not follow the format, with the line.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.vtree")
    ...     write_vtree(Vtree.balanced(3), path)
    ...     read_vtree(path)
    Vtree((0, (1, 2)))
    """
    return read_vtree_and_ids(path)[0]


def write_vtree(vtree: Vtree, path: PathLike) -> None:
    """Write a vtree to a `.vtree` file (compressed if the name ends in .gz).

    Nodes carry their in-order positions as ids, which is what most other programs expect.

    Parameters
    ----------
    vtree : Vtree
    path : str or path

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.vtree")
    ...     write_vtree(Vtree.right_linear(2), path)
    ...     print(Path(path).read_text())
    c L id variable (from 1), I id left right; children first, root last
    vtree 3
    L 0 1
    L 2 2
    I 1 0 2
    """
    require_holder(vtree, ".vtree")
    ids = vtree.inorder.tolist()
    lines = [
        "c L id variable (from 1), I id left right; children first, root last",
        f"vtree {vtree.n_nodes}",
    ]
    nodes = zip(vtree.left.tolist(), vtree.right.tolist(), vtree.variable.tolist(), strict=True)
    for node, (left, right, variable) in enumerate(nodes):
        if variable >= 0:
            lines.append(f"L {ids[node]} {variable + 1}")
        else:
            lines.append(f"I {ids[node]} {ids[left]} {ids[right]}")
    write_text(path, lines)


def read_vtree_and_ids(path: PathLike) -> tuple[Vtree, dict[int, int]]:
    """The vtree in a file, and the node that each id of the file stands for."""
    source = Source(path)
    left: list[int] = []
    right: list[int] = []
    variables: list[int] = []
    number: dict[int, int] = {}  # by id, from 0 in the order of the file
    leaves: set[int] = set()
    orphans: dict[int, int] = {}  # nodes without a parent so far, and their lines
    for line, tokens in source.counted("vtree", "nodes"):
        source.form(VTREE, tokens, line)
        name = source.new_id(tokens[1], number, "node", line)
        children, variable = [-1, -1], -1
        if tokens[0] == "L":
            variable = source.variable(tokens[2], line)
            if variable in leaves:
                raise source.error(f"variable {variable + 1} has a second leaf", line)
            leaves.add(variable)
        else:
            ids = [source.integer(token, "the id of a child", line) for token in tokens[2:]]
            for child in ids:
                if child not in number:
                    raise source.error(
                        f"child {child} has not appeared yet; children come first", line
                    )
                if orphans.pop(number[child], None) is None:
                    raise source.error(f"node {child} has two parents; a vtree is a tree", line)
            children = [number[child] for child in ids]
        number[name] = len(variables)
        orphans[len(variables)] = line
        left.append(children[0])
        right.append(children[1])
        variables.append(variable)
    orphans.pop(len(variables) - 1)
    for line in orphans.values():
        raise source.error("only the last node is a root, but this one is, too", line)
    vtree = Vtree(left, right, variables)
    parent = vtree.parent.tolist()
    node: list[int] = []
    for first, variable in zip(left, variables, strict=True):
        node.append(vtree.leaf(variable) if variable >= 0 else parent[node[first]])
    return vtree, {name: node[i] for name, i in number.items()}


def companion(path: PathLike) -> str | None:
    """The `.vtree` file with the same stem beside a file, None if there is none."""
    stem = os.fspath(path).removesuffix(".gz")
    stem = os.path.splitext(stem)[0]
    for suffix in (".vtree", ".vtree.gz"):
        if os.path.isfile(stem + suffix):
            return stem + suffix
    return None


def resolve(vtree: Vtree | PathLike | None) -> tuple[Vtree | None, dict[int, int] | None]:
    """The vtree that an argument stands for, and the ids of its file if it is one."""
    if vtree is None or isinstance(vtree, Vtree):
        return vtree, None
    return read_vtree_and_ids(vtree)


def check_ids(
    source: Source,
    vtree: Vtree,
    ids: dict[int, int] | None,
    found: Sequence[int],
    nodes: Sequence[int],
    lines: Sequence[int],
) -> None:
    """Raise unless the vtree ids found in records fit the nodes where the records belong.

    Programs disagree on what these ids are: those of the `.vtree` file, or in-order positions.
    Either is accepted if it fits all records. Without a file (``ids=None``) there is nothing
    to look them up in, and equal ids must stand for equal nodes.
    """
    if ids is None:
        first: dict[int, int] = {}  # the first id of every node
        known: dict[int, int] = {}
        for name, node in zip(found, nodes, strict=True):
            if first.setdefault(node, name) == name:
                known.setdefault(name, node)
        readings = [known]
    else:
        readings = [ids, dict(zip(vtree.inorder.tolist(), range(vtree.n_nodes), strict=True))]
    pairs = list(enumerate(zip(found, nodes, strict=True)))
    misfits = [[i for i, (name, node) in pairs if r.get(name) != node] for r in readings]
    fewest = min(misfits, key=len)
    if fewest:
        wrong, reading = fewest[0], readings[misfits.index(fewest)]
        wanted = (name for name, node in reading.items() if node == nodes[wrong])
        raise source.error(
            f"the vtree id {found[wrong]} does not fit a unit over variable(s) "
            f"{scope_text(vtree, nodes[wrong])} (from 1), expected {next(wanted, 'another')}",
            lines[wrong],
        )


def scope_text(vtree: Vtree, node: int) -> str:
    """The variables below a node, as files number them."""
    scope = (vtree.scope(node) + 1).tolist()
    return f"{scope[:8]}{' and more' if len(scope) > 8 else ''}"
