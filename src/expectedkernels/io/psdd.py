"""Probabilistic sentential decision diagrams in `.psdd` files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.arrays import StatesLike
from expectedkernels.checks import CircuitError, ParseError, removed
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves
from expectedkernels.io.text import (
    LOWEST_LOG,
    ROUNDING,
    PathLike,
    Source,
    known,
    plain,
    shown,
    write_text,
)
from expectedkernels.io.vtree_format import check_ids, companion, resolve, scope_text, write_vtree
from expectedkernels.vtree import Vtree

NORMALISED = 1e-8
"""How far the log of the circuit's total may be from zero."""
COMMENT = "c L id vtree literal, T id vtree variable log p(1), D id vtree count (prime sub log)*"


def read_psdd(
    path: PathLike,
    vtree: Vtree | PathLike | None = None,
    *,
    names: Sequence[str] | None = None,
    states: StatesLike | None = None,
) -> Circuit:
    """The circuit in a `.psdd` file, plain or compressed with gzip.

    A decision is read as a sum of products (prime times sub), a literal as an indicator, and a
    true unit as a two-valued input. Both dialects of true units are understood: one number (the
    log-probability of the value 1) or two (the log weights of 0 and of 1). Variables are numbered
    from 1 in the file and from 0 in the circuit. The number in the header is ignored, since
    programs disagree on what it counts.

    Parameters
    ----------
    path : path
        The file.
    vtree : Vtree or path, optional
        The vtree, or its file. By default the file with the same stem and the suffix ``.vtree``
        beside the file is used; if there is none, primes and subs tell how variables are split.
    names, states : sequences, optional
        The names of the variables and the labels of their states, which the format does not hold.

    Returns
    -------
    Circuit

    Raises
    ------
    ParseError
        If the file does not follow the format or does not fit the vtree, with the line. Also if a
        weight is positive but too small for a double, and if primes and subs are not over all the
        variables of the two children of a vtree node.

    Examples
    --------
    >>> import os, tempfile
    >>> from expectedkernels.io.text import write_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "equal.psdd")
    ...     lines = ["psdd 5", "L 0 0 1", "L 1 0 -1", "L 2 2 2", "L 3 2 -2"]
    ...     write_text(path, [*lines, "D 4 1 2 0 2 -0.6931471805599453 1 3 -0.6931471805599453"])
    ...     read_psdd(path)
    <Circuit of 2 variables: 7 units, 6 edges>
    """
    records = _Records(Source(path))
    beside = companion(path) if vtree is None else None
    found, ids = resolve(beside if vtree is None else vtree)
    if found is None:
        found = _split_by_primes(records)
    try:
        nodes = _nodes(records, found)
        check_ids(records.source, found, ids, records.vtree_id, nodes.tolist(), records.line)
    except ParseError as error:
        if beside is not None:
            error.add_note(f"The vtree is that of {beside}, which lies beside the file.")
        raise
    try:
        circuit = Circuit.from_blocks(found, _blocks(records, found, nodes))
    except ParseError:
        raise
    except CircuitError as error:  # numbers that are too far from each other
        raise records.source.error(str(error)) from error
    return circuit.with_names(names, states)


class _Records:
    """The records of a file in order, and the elements of all its decisions in one list."""

    def __init__(self, source: Source):
        self.source = source
        self.number: dict[int, int] = {}
        self.vtree_id: list[int] = []
        self.line: list[int] = []
        self.variable: list[int] = []  # -1 at decisions
        self.logs: list[tuple[float, float]] = []  # of the values 0 and 1 of inputs
        self.complement: list[int] = []  # inputs that leave out the log of 0
        self.n_elements: list[int] = []
        self.prime: list[int] = []
        self.sub: list[int] = []
        self.log_weight: list[float] = []
        records = source.records()
        source.header(records, "psdd")
        for line, tokens in records:
            if tokens[0] not in ("L", "T", "D") or len(tokens) < 4:
                raise source.error(
                    "expected a literal 'L id vtree literal', a true unit 'T id vtree variable "
                    "log' or a decision 'D id vtree count (prime sub log)...', found "
                    f"{shown(' '.join(tokens))}",
                    line,
                )
            name = source.new_id(tokens[1], self.number, "unit", line)
            self.vtree_id.append(source.integer(tokens[2], "the id of a vtree node", line))
            self.line.append(line)
            if tokens[0] == "D":
                self._decision(tokens, line)
            else:
                self._input(tokens, line)
            self.number[name] = len(self.number)
        if not self.number:
            raise source.error("expected at least one unit after the header")

    def _input(self, tokens: list[str], line: int) -> None:
        """Keep a literal or a true unit."""
        source, wrong = self.source, None
        if tokens[0] == "L" and len(tokens) != 4:
            wrong = "'L id vtree literal'"
        if tokens[0] == "T" and len(tokens) not in (5, 6):
            wrong = (
                "a true unit with one or two log weights, 'T id vtree variable log1' or "
                "'T id vtree variable log0 log1'"
            )
        if wrong is not None:
            raise source.error(f"expected {wrong}, found {shown(' '.join(tokens))}", line)
        self.n_elements.append(0)
        if tokens[0] == "L":
            literal = source.integer(tokens[3], "a literal", line)
            self.variable.append(source.variable(str(abs(literal)), line))
            self.logs.append((-np.inf, 0.0) if literal > 0 else (0.0, -np.inf))
            return
        self.variable.append(source.variable(tokens[3], line))
        logs = source.numbers(tokens[4:], line)
        if len(logs) == 1:
            if logs[0] > ROUNDING:
                raise source.error(
                    f"the log-probability of a true unit must not be above 0, found {tokens[4]}",
                    line,
                )
            self.complement.append(len(self.variable) - 1)
            logs = [0.0, min(logs[0], 0.0)]
        self.logs.append((logs[0], logs[1]))

    def _decision(self, tokens: list[str], line: int) -> None:
        count = self.source.integer(tokens[3], "the number of elements", line)
        if count < 1 or len(tokens) != 4 + 3 * count:
            raise self.source.error(
                f"a decision of {count} elements needs at least one, and {4 + 3 * max(count, 1)} "
                f"entries in its line, found {len(tokens)}",
                line,
            )
        self.prime += known(self.source, self.number, tokens[4::3], line)
        self.sub += known(self.source, self.number, tokens[5::3], line)
        self.log_weight += self.source.numbers(tokens[6::3], line)
        self.variable.append(-1)
        self.logs.append((-np.inf, -np.inf))
        self.n_elements.append(count)

    def first_elements(self) -> list[int]:
        """The place of the first element of every decision in the list of all elements."""
        first: list[int] = (np.cumsum(self.n_elements) - self.n_elements).tolist()
        return first


def _split_by_primes(records: _Records) -> Vtree:
    """The vtree that splits the variables of every decision as its first prime and sub do."""
    left: list[int] = []
    right: list[int] = []
    variable: list[int] = []
    known: dict[Any, int] = {}
    part: list[int] = []  # for every record the node of the vtree in the making
    for first, v in zip(records.first_elements(), records.variable, strict=True):
        a = b = -1
        key: Any = v
        if v < 0:
            a, b = part[records.prime[first]], part[records.sub[first]]
            key = (min(a, b), max(a, b))
        if key not in known:
            known[key] = len(variable)
            left.append(a)
            right.append(b)
            variable.append(v)
        part.append(known[key])
    used = _below(records, part[-1], left, right)
    number = {old: new for new, old in enumerate(used)}
    return Vtree(
        [number.get(left[i], -1) for i in used],
        [number.get(right[i], -1) for i in used],
        [variable[i] for i in used],
    )


def _below(records: _Records, root: int, left: list[int], right: list[int]) -> list[int]:
    """The nodes below a node in increasing order, each of which must be met once."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen:
            raise records.source.error(
                "the last record is the root, but it is not decomposable: some prime and sub "
                "share variables",
                records.line[-1],
            )
        seen.add(node)
        if left[node] >= 0:
            stack += [left[node], right[node]]
    return sorted(seen)


def _nodes(records: _Records, vtree: Vtree) -> Any:
    """The vtree node of every record, found from its variables and checked for every element."""
    _check_variables(records, vtree)
    parent = [*vtree.parent.tolist(), -1]
    nodes: list[int] = []
    for first, variable in zip(records.first_elements(), records.variable, strict=True):
        nodes.append(vtree.leaf(variable) if variable >= 0 else parent[nodes[records.prime[first]]])
    node = np.asarray(nodes, dtype=np.intp)
    owner = np.repeat(np.arange(len(node)), records.n_elements)
    at, a, b = node[owner], node[records.prime], node[records.sub]
    straight = (vtree.left[at] == a) & (vtree.right[at] == b)
    swapped = (vtree.left[at] == b) & (vtree.right[at] == a)
    wrong = (at < 0) | ~(straight | swapped)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise records.source.error(
            f"a prime over variable(s) {scope_text(vtree, a[first])} and a sub over "
            f"{scope_text(vtree, b[first])} (from 1) are not over all the variables of the "
            "two children of one vtree node. Units that skip variables, or split them in "
            "different ways, are not supported",
            records.line[owner[first]],
        )
    if node[-1] != vtree.root:
        raise records.source.error(
            "the last record is the root, but its variable(s) "
            f"{scope_text(vtree, int(node[-1]))} (from 1) are not all "
            f"{vtree.n_variables} variables of the vtree; is the file complete?",
            records.line[-1],
        )
    return node


def _check_variables(records: _Records, vtree: Vtree) -> None:
    """Raise unless the vtree has all variables of the records, numbered without gaps."""
    known = set(vtree.scope().tolist())
    for variable, line in zip(records.variable, records.line, strict=True):
        if variable >= 0 and variable not in known:
            raise records.source.error(
                f"variable {variable + 1} is not below the root of the vtree; "
                "is the file complete, and the vtree the right one?",
                line,
            )
    if max(known) != len(known) - 1:
        raise records.source.error(
            f"the {len(known)} variables must be numbered from 1 to {len(known)}, "
            f"found variable {max(known) + 1}"
        )


def _blocks(records: _Records, vtree: Vtree, node: Any) -> list[Input | Inner]:
    """One block per vtree node, units in the order of their records, one product per element."""
    source, lines = records.source, np.asarray(records.line)
    logs = np.asarray(records.logs)
    tables = source.weights(logs.ravel(), np.repeat(lines, 2)).reshape(-1, 2)
    tables[records.complement, 0] = -np.expm1(logs[records.complement, 1])

    order = np.argsort(node, kind="stable")
    start = np.searchsorted(node[order], np.arange(vtree.n_nodes + 1))
    start[-2] = len(node) - 1  # of the units over all variables, only the last one is the root
    unit = np.empty(len(node), dtype=np.intp)
    unit[order] = np.arange(len(node)) - start[node[order]]

    owner = np.repeat(np.arange(len(node)), records.n_elements)
    weights = source.weights(records.log_weight, lines[owner])
    prime, sub = np.asarray(records.prime, np.intp), np.asarray(records.sub, np.intp)
    at = node[owner]
    swapped = node[prime] != vtree.left[at]
    left, right = unit[np.where(swapped, sub, prime)], unit[np.where(swapped, prime, sub)]
    used = np.flatnonzero((at != vtree.root) | (owner == len(node) - 1))
    elements = used[np.argsort(at[used], kind="stable")]
    first = np.searchsorted(at[elements], np.arange(vtree.n_nodes + 1))

    def leaf(node: int, variable: int) -> Table:
        return Table(tables[order[start[node] : start[node + 1]]])

    def inner(node: int) -> Inner:
        here = elements[first[node] : first[node + 1]]
        shape = (int(start[node + 1] - start[node]), len(here))
        rows = np.searchsorted(unit[owner[here]], np.arange(shape[0] + 1))
        matrix = sparse.csr_array((weights[here], np.arange(shape[1]), rows), shape=shape)
        return Inner(shape[1], shape[0], left[here], right[here], matrix)

    return at_nodes(vtree, leaf, inner)


@removed(dialect="files have one number per true unit, and files with two are still read")
def write_psdd(circuit: Circuit, path: PathLike, vtree_path: PathLike | None = None) -> None:
    """Write a circuit of binary variables to a `.psdd` file (compressed if it ends in .gz).

    Every unit becomes a decision over the products it sums, scaled to total one; the scales
    move up into the weights, so the circuit itself must be normalised. Other programs may
    also expect primes that exclude each other, which is not checked here.

    Parameters
    ----------
    circuit : Circuit
        One root, binary variables, no negative weights, total one.
    path : path
        Where to write.
    vtree_path : path, optional
        Where to write the vtree. Reading needs it only to tell left from right.

    Raises
    ------
    CircuitError
        If the circuit cannot be written in this format.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> fair = Circuit.from_blocks(Vtree.balanced(1), [Table(np.array([[0.5, 0.5]]))])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fair.psdd")
    ...     write_psdd(fair, path)
    ...     print(Path(path).read_text())
    c L id vtree literal, T id vtree variable log p(1), D id vtree count (prime sub log)*
    psdd 1
    T 0 0 1 -0.6931471805599453
    """
    circuit = plain(circuit, ".psdd")
    records = _Writer(circuit).records()
    write_text(path, [COMMENT, f"psdd {len(records)}", *records])
    if vtree_path is not None:
        write_vtree(circuit.vtree, vtree_path)


class _Writer:
    """The records of a circuit. Nodes are told the ids of units, and the logs of their totals."""

    def __init__(self, circuit: Circuit):
        self.circuit = circuit
        self.vtree_id = circuit.vtree.inorder.tolist()
        self.lines: list[str] = []

    def records(self) -> list[str]:
        """One record per unit that is not zero everywhere, children first."""
        found = from_leaves(self.circuit.vtree, self._inputs, self._decisions)
        total = float(found[-1][1][0])
        if not abs(total) <= NORMALISED:
            raise CircuitError(
                "A .psdd file holds a normalised circuit, but the log of the sum of this one's "
                f"values is {total:.12g}. Write p.normalize() instead."
            )
        return self.lines

    def _number(self, exists: Any) -> Any:
        """New ids for the units that exist, -1 for the others."""
        return np.where(exists, len(self.lines) + np.cumsum(exists) - 1, -1)

    def _inputs(self, node: int, variable: int) -> tuple[Any, Any]:
        """Literals for one-hot tables, true units for the others."""
        block = self.circuit.blocks[node]
        if block.cardinality != 2:
            raise CircuitError(
                "A .psdd file holds binary variables. Got "
                f"{block.cardinality} states of variable {variable}; use a .jpc file instead."
            )
        with np.errstate(divide="ignore"):
            log = np.log(np.asarray(block.numbers, dtype=np.float64))
        total = np.logaddexp(*log.T)
        exists = total > -np.inf
        ids = self._number(exists)
        log = log[exists] - total[exists, None]
        _check_range(log[log > -np.inf].min(initial=0.0))
        for name, (log0, log1) in zip(ids[exists].tolist(), log.tolist(), strict=True):
            start = f"{name} {self.vtree_id[node]}"
            if -np.inf in (log0, log1):
                literal = -1 - variable if log0 == 0 else variable + 1
                self.lines.append(f"L {start} {literal}")
                continue
            if log1 > log0:  # so that reading finds the small value to full precision
                log1 = float(np.log1p(-np.exp(log0)))
            self.lines.append(f"T {start} {variable + 1} {log1!r}")
        return ids, total

    def _decisions(self, node: int, primes: Any, subs: Any) -> tuple[Any, Any]:
        """One decision per unit; pass-through units have one element."""
        block: Any = self.circuit.blocks[node]
        weights, starts = block.flat
        unit = np.repeat(np.arange(block.n_units), np.diff(starts))
        left, right = (index[block.columns] for index in block.inputs)
        log = np.log(weights, dtype=np.float64) + primes[1][left] + subs[1][right]
        alive = log > -np.inf
        unit, left, right, log = unit[alive], left[alive], right[alive], log[alive]
        total = np.full(block.n_units, -np.inf)
        np.logaddexp.at(total, unit, log)
        log = log - total[unit]
        _check_range(log.min(initial=0.0))
        ids = self._number(total > -np.inf)
        elements = [
            f"{prime} {sub} {weight!r}"
            for prime, sub, weight in zip(
                primes[0][left].tolist(), subs[0][right].tolist(), log.tolist(), strict=True
            )
        ]
        count = np.bincount(unit, minlength=block.n_units).tolist()
        stop = 0
        for name, k in zip(ids.tolist(), count, strict=True):
            start, stop = stop, stop + k
            if k:
                head = f"D {name} {self.vtree_id[node]} {k} "
                self.lines.append(head + " ".join(elements[start:stop]))
        return ids, total


def _check_range(log: float) -> None:
    """Raise if a reader that holds weights as doubles would lose this one."""
    if log < LOWEST_LOG:
        raise CircuitError(
            f"After normalising its units, this circuit has a log weight of {log:.6g}, below the "
            f"range of doubles ({LOWEST_LOG:.1f}); use save() with a .npz file."
        )
