"""Vtrees in `.vtree` files, and how other files refer to their nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from expectedkernels.io.text import PathLike, Source, require_kind, shown, write_text
from expectedkernels.vtree import Vtree


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
    require_kind(vtree, Vtree, ".vtree")
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
    nodes = _Nodes(source)
    for line, tokens in source.counted("vtree", "nodes"):
        nodes.add(tokens, line)
    return nodes.finish()


class _Nodes:
    """The nodes read so far, numbered by their place in the file."""

    def __init__(self, source: Source):
        self.source = source
        self.left: list[int] = []
        self.right: list[int] = []
        self.variable: list[int] = []
        self.number: dict[int, int] = {}
        self.leaves: set[int] = set()
        self.orphans: dict[int, int] = {}  # nodes without a parent so far, and their lines

    def add(self, tokens: list[str], line: int) -> None:
        """Add the node of one record."""
        if len(tokens) != {"L": 3, "I": 4}.get(tokens[0]):
            raise self.source.error(
                "expected a leaf 'L id variable' or an inner node 'I id left right', found "
                f"{shown(' '.join(tokens))}",
                line,
            )
        name = self.source.new_id(tokens[1], self.number, "node", line)
        left = right = variable = -1
        if tokens[0] == "L":
            variable = self.source.variable(tokens[2], line)
            if variable in self.leaves:
                raise self.source.error(f"variable {variable + 1} has a second leaf", line)
            self.leaves.add(variable)
        else:
            left, right = self.child(tokens[2], line), self.child(tokens[3], line)
        self.number[name] = len(self.variable)
        self.orphans[len(self.variable)] = line
        self.left.append(left)
        self.right.append(right)
        self.variable.append(variable)

    def child(self, token: str, line: int) -> int:
        """The child with the id in a token, which must be known and have no parent yet."""
        name = self.source.integer(token, "the id of a child", line)
        if name not in self.number:
            raise self.source.error(f"child {name} has not appeared yet; children come first", line)
        if self.orphans.pop(self.number[name], None) is None:
            raise self.source.error(f"node {name} has two parents; a vtree is a tree", line)
        return self.number[name]

    def finish(self) -> tuple[Vtree, dict[int, int]]:
        """The vtree and the meaning of the ids, if the nodes form one tree."""
        self.orphans.pop(len(self.variable) - 1)
        for line in self.orphans.values():
            raise self.source.error("only the last node is a root, but this one is, too", line)
        vtree = Vtree(self.left, self.right, self.variable)
        parent = vtree.parent.tolist()
        node: list[int] = []
        for left, variable in zip(self.left, self.variable, strict=True):
            node.append(vtree.leaf(variable) if variable >= 0 else parent[node[left]])
        return vtree, {name: node[i] for name, i in self.number.items()}


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
        wrong, wanted = _first_ambiguous(found, nodes)
    else:
        wrong, wanted = _first_misfit(vtree, ids, found, nodes)
    if wrong is None:
        return
    scope = (vtree.scope(nodes[wrong]) + 1).tolist()
    raise source.error(
        f"the vtree id {found[wrong]} does not fit a unit over variable(s) {scope[:8]}"
        f"{' and more' if len(scope) > 8 else ''} (from 1), expected "
        f"{'another' if wanted is None else wanted}",
        lines[wrong],
    )


def _first_misfit(
    vtree: Vtree, ids: dict[int, int], found: Sequence[int], nodes: Sequence[int]
) -> tuple[int | None, int | None]:
    """The first record with a wrong id, and the right one, in the reading that fits better."""
    best: dict[int, int] = {}
    misfits = list(range(len(found) + 1))
    for reading in (ids, dict(zip(vtree.inorder.tolist(), range(vtree.n_nodes), strict=True))):
        pairs = enumerate(zip(found, nodes, strict=True))
        wrong = [i for i, (name, node) in pairs if reading.get(name) != node]
        if len(wrong) < len(misfits):
            best, misfits = reading, wrong
    if not misfits:
        return None, None
    return misfits[0], next(name for name, node in best.items() if node == nodes[misfits[0]])


def _first_ambiguous(found: Sequence[int], nodes: Sequence[int]) -> tuple[int | None, int | None]:
    """The first record whose id or node was paired differently before, and its node's id then."""
    node_of: dict[int, int] = {}
    name_of: dict[int, int] = {}
    for i, (name, node) in enumerate(zip(found, nodes, strict=True)):
        if node_of.setdefault(name, node) != node or name_of.get(node, name) != name:
            return i, name_of.get(node)
        name_of[node] = name
    return None, None
