"""Files that list units or vtree nodes, children first: .psdd, .jpc, .spn and .vtree."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from scipy import sparse, special

from expectedkernels.arrays import StatesLike
from expectedkernels.checks import (
    CircuitError,
    CompatibilityError,
    ParseError,
    PropertyError,
    removed,
)
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Categorical, Indicator, Product, Sum, Unit, topological
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves
from expectedkernels.io.text import (
    LOWEST_LOG,
    MOST_STATES,
    ROUNDING,
    SMALLEST,
    Form,
    PathLike,
    Record,
    Source,
    forms,
    require_holder,
    shown,
    whole,
    write_text,
)
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


PSDD = forms(
    "L id vtree literal", "T id vtree variable log...", "D id vtree count (prime sub log)..."
)
JPC = forms(
    "L id vtree literal",
    "I id vtree variable value",
    "C id vtree variable log...",
    "B id vtree variable n log",
    "P id vtree count input...",
    "S id vtree count (input log)...",
)
SPN = forms("v variable value", "* input...", "+ (input log)...", "EOF")
WHOLE = {"value": "a value", "n": "the number of trials"}
"""The words of lines that are integers, and what they are."""
COMMENT = "c L id vtree literal, T id vtree variable log p(1), D id vtree count (prime sub log)*"
NORMALISED = 1e-8
"""How far the log of the circuit's total may be from zero."""
FEW_VARIABLES = 2**13
"""Variables with smaller numbers are fine, however many units a file has."""
TABLE_ENTRIES = 2**24
"""The tables of the units of a file may have so many entries, however short the file is."""
ENTRIES_PER_BYTE = 16
STEPS_PER_BYTE = 1024


class UnitList:
    """The units of a file in their order.

    Attributes
    ----------
    source : Source
    kind, line, vtree_id : lists
        What the lines of units begin with, where they stand, and their vtree nodes, if any.
    variable : list of int
        Of inputs; -1 for other units.
    inputs : list of lists of int
        Which units every unit is made of.
    numbers : list of lists of numbers
        Log weights of sums; log values and values of inputs.
    """

    def __init__(
        self, source: Source, records: Iterable[Record], known: dict[str, Form], named: bool = True
    ):
        self.source = source
        self.kind: list[str] = []
        self.line: list[int] = []
        self.vtree_id: list[int] = []
        self.variable: list[int] = []
        self.inputs: list[list[int]] = []
        self.numbers: list[list[Any]] = []
        number: dict[int, int] = {}  # by id
        first = 3 if named else 1
        for line, tokens in records:
            form = source.form(known, tokens, line)
            name = source.new_id(tokens[1], number, "unit", line) if named else len(number)
            if named:
                self.vtree_id.append(source.integer(tokens[2], "the id of a vtree node", line))
            variable, inputs = -1, []
            numbers: list[Any] = []
            if form.words[first] in ("literal", "variable"):
                variable, numbers = self._input(
                    form.words[first:], tokens[first:], line, int(named)
                )
            else:
                rest = tokens[form.start :]
                if form.words[-1] == "log":
                    numbers = source.numbers(rest[form.step - 1 :: form.step], line)
                    del rest[form.step - 1 :: form.step]
                inputs = self._known(number, rest, line)
            self.kind.append(tokens[0])
            self.line.append(line)
            self.variable.append(variable)
            self.inputs.append(inputs)
            self.numbers.append(numbers)
            number[name] = len(number)
        if not number:
            raise source.error("expected at least one unit")

    def _input(
        self, words: list[str], tokens: list[str], line: int, first: int
    ) -> tuple[int, list[Any]]:
        """The variable and the numbers of an input; of a literal, its value."""
        source = self.source
        if words[0] == "literal":
            literal = source.integer(tokens[0], "a literal", line)
            return source.variable(str(abs(literal)), line), [int(literal > 0)]
        variable = source.variable(tokens[0], line, first)
        whole = [source.integer(tokens[1], WHOLE[words[1]], line)] if words[1] in WHOLE else []
        return variable, [*whole, *source.numbers(tokens[1 + len(whole) :], line)]

    def _known(self, number: dict[int, int], tokens: list[str], line: int) -> list[int]:
        """The units that the ids in some tokens stand for."""
        try:
            return [number[whole(token)] for token in tokens]  # type: ignore[index]
        except KeyError as error:
            token = next(token for token in tokens if whole(token) == error.args[0])
            name = self.source.integer(token, "the id of an input", line)
            message = f"unit {name} has not appeared yet; inputs come first"
            raise self.source.error(message, line) from None

    def weights(self, numbers: Sequence[Sequence[float]], lines: Sequence[int]) -> Any:
        """The numbers with these logarithms (lines: where each list stands), laid flat."""
        places = np.repeat(np.asarray(lines, dtype=np.intp), list(map(len, numbers)))
        return self.source.weights(list(chain.from_iterable(numbers)), places)

    def check_root(self, scope: Iterable[int]) -> None:
        """Raise unless the variables of the root are numbered without gaps."""
        known = set(scope)
        if max(known) != len(known) - 1:
            raise self.source.error(
                f"the root depends on {len(known)} variables, which must be numbered from 1 to "
                f"{len(known)}, found variable {max(known) + 1}"
            )

    def nodes(self, vtree: Vtree) -> list[int]:
        """The vtree node of every unit, -1 where there is no saying."""
        leaf = {v: node for node, v in enumerate(vtree.variable.tolist())}
        parent = [*vtree.parent.tolist(), -1]
        nodes: list[int] = []
        for i, (variable, inputs) in enumerate(zip(self.variable, self.inputs, strict=True)):
            if variable >= 0 and variable not in leaf:
                raise self.source.error(
                    f"variable {variable + 1} is not below the root of the vtree; is the file "
                    "complete, and the vtree the right one?",
                    self.line[i],
                )
            node = leaf[variable] if variable >= 0 else nodes[inputs[0]]
            if self.kind[i] in "PD" and len(inputs) > 1:
                other = nodes[inputs[1]]
                beside = node != other and parent[node] == parent[other]
                single = self.kind[i] == "D" or len(inputs) == 2
                node = parent[node] if beside and single else -1
            nodes.append(node)
        return nodes

    def root(self, states: Sequence[int] | dict[int, int]) -> Any:
        """The last unit as the root of a graph."""
        logs = [
            x if k in ("S", "+", "C") else [] for k, x in zip(self.kind, self.numbers, strict=True)
        ]
        weights = self.weights(logs, self.line)
        units: list[Any] = []
        stop = 0
        for i, (kind, v, numbers) in enumerate(
            zip(self.kind, self.variable, self.numbers, strict=True)
        ):
            start, stop = stop, stop + len(logs[i])
            inputs = [units[j] for j in self.inputs[i]]
            if inputs and numbers:
                units.append(Sum(inputs, weights[start:stop]))
            elif inputs:
                units.append(inputs[0] if len(inputs) == 1 else Product(inputs))
            elif kind == "B":
                units.append(Categorical(v, self._binomial(i)))
            elif kind == "C":
                units.append(Categorical(v, weights[start:stop]))
            else:
                units.append(Indicator(v, numbers[0], states[v]))
        return units[-1]

    def _binomial(self, i: int) -> Any:
        """The probabilities of a binomial unit."""
        n, log_p = self.numbers[i]
        self.check_log(log_p, "a binomial unit", i)
        (p,) = self.source.weights([log_p], [self.line[i]])
        k = np.arange(n + 1)
        choices = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
        logs = choices + special.xlogy(k, p) + special.xlog1py(n - k, -min(p, 1.0))
        return self.source.weights(logs, [self.line[i]] * len(logs))

    def check_log(self, log: float, what: str, i: int) -> None:
        """Raise if a log-probability is above zero by more than rounding."""
        if log > ROUNDING:
            raise self.source.error(
                f"the log-probability of {what} must not be above 0, found {log}", self.line[i]
            )


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
    source = Source(path)
    records = source.records()
    source.header(records, "psdd")
    units = UnitList(source, records, PSDD)
    beside = companion(path) if vtree is None else None
    found, ids = resolve(beside if vtree is None else vtree)
    if found is None:
        found = _split_by_first(units)
    try:
        nodes, elements = _decisions(units, found)
        check_ids(source, found, ids, units.vtree_id, nodes.tolist(), units.line)
    except ParseError as error:
        if beside is not None:
            error.add_note(f"The vtree is that of {beside}, which lies beside the file.")
        raise
    try:
        circuit = Circuit.from_blocks(found, _blocks(units, found, nodes, elements))
    except ParseError:
        raise
    except CircuitError as error:  # numbers that are too far from each other
        raise source.error(str(error)) from error
    return circuit.with_names(names, states)


def _split_by_first(units: UnitList) -> Vtree:
    """The vtree that splits variables as the first prime and sub of every decision do."""
    order: list[int] = []
    stack = [len(units.line) - 1]
    while stack and len(order) < 2 * len(set(units.variable)):
        order.append(stack.pop())
        stack += units.inputs[order[-1]][:2]
    variable = [units.variable[i] for i in reversed(order)]  # children first, left before right
    below = [v for v in variable if v >= 0]
    if stack or len(set(below)) < len(below):
        raise units.source.error(
            "the last record is the root, but it is not decomposable: some prime and sub share "
            "variables",
            units.line[-1],
        )
    left, right = [-1] * len(variable), [-1] * len(variable)
    for node, v in enumerate(variable):
        if v < 0:
            right[node], left[node] = stack.pop(), stack.pop()
        stack.append(node)
    return Vtree(left, right, variable)


def _decisions(units: UnitList, vtree: Vtree) -> tuple[Any, Any]:
    """The vtree node of every unit; the decisions, primes and subs of all elements, checked."""
    nodes = np.asarray(units.nodes(vtree), dtype=np.intp)
    units.check_root(vtree.scope().tolist())
    sizes = [len(inputs) // 2 for inputs in units.inputs]
    owner = np.repeat(np.arange(len(nodes)), sizes)
    flat = np.fromiter(chain.from_iterable(units.inputs), np.intp, 2 * len(owner))
    prime, sub = flat.reshape(-1, 2).T
    at, a, b = nodes[owner], nodes[prime], nodes[sub]
    swapped = vtree.left[at] == b
    wrong = (at < 0) | (np.where(swapped, b, a) != vtree.left[at])
    wrong |= np.where(swapped, a, b) != vtree.right[at]
    if wrong.any():
        first = int(np.argmax(wrong))
        raise units.source.error(
            f"a prime over variable(s) {scope_text(vtree, a[first])} and a sub over "
            f"{scope_text(vtree, b[first])} (from 1) are not over all the variables of the "
            "two children of one vtree node. Units that skip variables, or split them in "
            "different ways, are not supported",
            units.line[owner[first]],
        )
    if nodes[-1] != vtree.root:
        raise units.source.error(
            "the last record is the root, but its variable(s) "
            f"{scope_text(vtree, int(nodes[-1]))} (from 1) are not all "
            f"{vtree.n_variables} variables of the vtree; is the file complete?",
            units.line[-1],
        )
    return nodes, (owner, np.where(swapped, sub, prime), np.where(swapped, prime, sub))


def _tables(units: UnitList) -> Any:
    """The values at 0 and 1 of all inputs; anything for decisions."""
    logs = np.zeros((len(units.line), 2))
    complement = []
    for i, (kind, numbers) in enumerate(zip(units.kind, units.numbers, strict=True)):
        if kind == "L":
            logs[i, 1 - numbers[0]] = -np.inf
        elif kind == "T" and len(numbers) == 1:
            units.check_log(numbers[0], "a true unit", i)
            logs[i, 1] = min(numbers[0], 0.0)
            complement.append(i)
        elif kind == "T" and len(numbers) == 2:
            logs[i] = numbers
        elif kind == "T":
            raise units.source.error(
                f"expected a true unit with one or two log weights, found {len(numbers)}",
                units.line[i],
            )
    tables = units.weights(logs.tolist(), units.line).reshape(-1, 2)
    tables[complement, 0] = -np.expm1(logs[complement, 1])
    return tables


def _blocks(units: UnitList, vtree: Vtree, node: Any, elements: Any) -> list[Input | Inner]:
    """One block per vtree node, units in the order of their lines, one product per element."""
    tables = _tables(units)
    order = np.argsort(node, kind="stable")
    start = np.searchsorted(node[order], np.arange(vtree.n_nodes + 1))
    start[-2] = len(node) - 1  # of the units over all variables, only the last one is the root
    unit = np.empty(len(node), dtype=np.intp)
    unit[order] = np.arange(len(node)) - start[node[order]]

    logs = [x if v < 0 else [] for v, x in zip(units.variable, units.numbers, strict=True)]
    weights = units.weights(logs, units.line)
    owner, left, right = elements
    at = node[owner]
    used = np.flatnonzero((at != vtree.root) | (owner == len(node) - 1))
    kept = used[np.argsort(at[used], kind="stable")]
    first = np.searchsorted(at[kept], np.arange(vtree.n_nodes + 1))

    def leaf(node: int, variable: int) -> Table:
        return Table(tables[order[start[node] : start[node + 1]]])

    def inner(node: int) -> Inner:
        here = kept[first[node] : first[node + 1]]
        shape = (int(start[node + 1] - start[node]), len(here))
        rows = np.searchsorted(unit[owner[here]], np.arange(shape[0] + 1))
        matrix = sparse.csr_array((weights[here], np.arange(shape[1]), rows), shape=shape)
        return Inner(shape[1], shape[0], unit[left[here]], unit[right[here]], matrix)

    return at_nodes(vtree, leaf, inner)


def read_jpc(
    path: PathLike,
    vtree: Vtree | PathLike | None = None,
    *,
    smooth: bool = False,
    as_units: bool = False,
    names: Sequence[str] | None = None,
    states: StatesLike | None = None,
) -> Circuit | Unit:
    """The circuit in a `.jpc` file, plain or compressed with gzip.

    The file lists literals (``L``), indicators (``I``), categorical (``C``) and binomial (``B``)
    inputs, products (``P``) and sums (``S``), inputs before the units that use them and the root
    last. Variables are numbered from 1 in the file and from 0 in the circuit, values from 0
    in both. The number of states of a variable follows from its categorical and binomial units;
    if it has none, from its largest indicator. A binomial unit with n trials has the values 0 to n.

    Parameters
    ----------
    path : path
        The file.
    vtree : Vtree or path, optional
        The vtree, or its file. By default it is found from the products. If given, the vtree ids in
        the file must fit it, unless all are 0, which marks files without a vtree.
    smooth : bool
        Whether to add the variables that some inputs of a sum leave out.
    as_units : bool
        Whether to return the root of a graph of units, which need not be structured, and not a
        `Circuit`.
    names, states : sequences, optional
        The names of the variables and the labels of their states, which the format does not hold.

    Returns
    -------
    Circuit or unit

    Raises
    ------
    ParseError
        If the file does not follow the format or its vtree ids do not fit, with the line. Also
        if a weight is positive but too small for a double.
    PropertyError
        If the circuit in the file has no vtree; ask for its units then.
    CompatibilityError
        If the circuit in the file does not fit the given vtree.

    Examples
    --------
    >>> import os, tempfile
    >>> from expectedkernels.io.text import write_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.jpc")
    ...     write_text(path, ["jpc 3", "C 0 0 1 -1.5 -0.3 -3.2", "L 1 0 -2", "P 2 0 2 0 1"])
    ...     read_jpc(path)
    <Circuit of 2 variables: 3 units, 2 edges>
    """
    source = Source(path)
    units = UnitList(source, source.counted("jpc", "units"), JPC)
    found, ids = resolve(vtree)
    if found is not None:
        nodes = zip(units.vtree_id, units.nodes(found), units.line, strict=True)
        placed = [(name, node, line) for name, node, line in nodes if node >= 0]
        if any(name != 0 for name, _, _ in placed):  # all 0: there are none
            check_ids(source, found, ids, *zip(*placed, strict=True))
    root = units.root(_states(units))
    if as_units:
        return root
    units.check_root(root.scope)
    return circuit_of(source, root, found, smooth).with_names(names, states)


def _states(units: UnitList) -> dict[int, int]:
    """The numbers of states of variables, from those units that say them, or the largest value."""
    error = units.source.error
    stated: dict[int, int] = {}
    least: dict[int, int] = {}
    entries, most = 0, TABLE_ENTRIES + ENTRIES_PER_BYTE * units.source.size
    # every scope takes a bit for every variable up to its largest: gaps must be few
    n_variables = max(len(units.line), FEW_VARIABLES)
    lines = zip(units.kind, units.variable, units.numbers, units.line, strict=True)
    inputs = [line for line in lines if line[1] >= 0]
    for kind, variable, numbers, line in inputs:
        states = {"L": 2, "C": len(numbers)}.get(kind) or numbers[0] + 1
        if not 1 <= states <= MOST_STATES:
            raise error(
                f"values are numbered from 0 and at most {MOST_STATES - 1}, found {states - 1}",
                line,
            )
        if variable >= n_variables:
            raise error(
                f"a file of {len(units.line)} units has variables up to {n_variables}, found "
                f"{variable + 1}",
                line,
            )
        entries += states if kind == "B" else 0
        if entries > most:
            raise error(
                f"the tables of the binomial units up to here have {entries} entries, too many "
                f"for a file of {units.source.size} bytes",
                line,
            )
        if kind == "I":
            least[variable] = max(states, least.get(variable, 2))
        elif stated.setdefault(variable, states) != states:
            before = stated[variable]
            raise error(
                f"variable {variable + 1} has {states} states here and {before} before", line
            )
    for kind, variable, numbers, line in inputs:
        states = stated.setdefault(variable, least.get(variable, 2))
        if kind == "I" and numbers[0] >= states:
            raise error(
                f"variable {variable + 1} has {states} states in other units, found the value "
                f"{numbers[0]}",
                line,
            )
    return stated


def read_spn(
    path: PathLike,
    vtree: Vtree | PathLike | None = None,
    *,
    smooth: bool = False,
    as_units: bool = False,
    names: Sequence[str] | None = None,
    states: StatesLike | None = None,
) -> Circuit | Unit:
    """The circuit in a `.spn` file, plain or compressed with gzip.

    The first line holds the numbers of states in parentheses, then comes one unit per line,
    numbered from 0: ``v variable value`` (both from 0), ``* input...`` or
    ``+ input log-weight ...``. The last unit is the root, and the last line is ``EOF``.

    Parameters
    ----------
    path : path
        The file.
    vtree : Vtree or path, optional
        The vtree, or its file; by default it is found from the products.
    smooth : bool
        Whether to add the variables that some inputs of a sum leave out.
    as_units : bool
        Whether to return the root of a graph of units, which need not be structured, and not a
        `Circuit`.
    names, states : sequences, optional
        The names of the variables and the labels of their states, which the format does not hold.

    Returns
    -------
    Circuit or unit

    Raises
    ------
    ParseError
        If the file does not follow the format, with the line. Also if a weight is positive but too
        small for a double.
    PropertyError
        If the circuit in the file has no vtree; ask for its units then.
    CompatibilityError
        If the circuit in the file does not fit the given vtree.

    Examples
    --------
    >>> import os, tempfile
    >>> from expectedkernels.io.text import write_text
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.spn")
    ...     write_text(path, ["(2 3)", "v 0 1", "v 1 2", "* 0 1", "EOF"])
    ...     read_spn(path)
    <Circuit of 2 variables: 3 units, 2 edges>
    """
    source = Source(path)
    records = source.records(comment=None)
    cards = _domain(source, *next(records, (1, [])))
    units = UnitList(source, _before_end(source, records), SPN, named=False)
    for variable, numbers, line in zip(units.variable, units.numbers, units.line, strict=True):
        if variable >= 0 and not (variable < len(cards) and 0 <= numbers[0] < cards[variable]):
            raise source.error(
                f"variables are 0 to {len(cards) - 1} with values as in the first line, found "
                f"variable {variable} with value {numbers[0]}",
                line,
            )
    root = units.root(cards)
    if as_units:
        return root
    missing = set(range(len(cards))) - root.scope
    if missing:
        raise source.error(
            f"the first line announces {len(cards)} variables, but the root does not depend on "
            f"variable {min(missing)}",
            1,
        )
    return circuit_of(source, root, resolve(vtree)[0], smooth).with_names(names, states)


def _domain(source: Source, line: int, tokens: list[str]) -> list[int]:
    """The number of states of every variable, from the first line."""
    text = " ".join(tokens)
    inside = text[1:-1].split()
    if len(text) < 2 or text[0] != "(" or text[-1] != ")" or not inside:
        raise source.error(
            f"expected the numbers of states in parentheses, like '(2 2 3)', found {shown(text)}",
            line,
        )
    states = [source.integer(token, "a number of states", line) for token in inside]
    if not 1 <= min(states) <= max(states) <= MOST_STATES:
        raise source.error(f"numbers of states must be from 1 to {MOST_STATES}", line)
    return states


def _before_end(source: Source, records: Iterator[Record]) -> Iterator[Record]:
    """The records before the last one, which says that the file ends."""
    for line, tokens in records:
        if tokens == ["EOF"]:
            for line, tokens in records:
                raise source.error(f"expected nothing after EOF, found {shown(tokens[0])}", line)
            return
        yield line, tokens
    raise source.error("expected the last line to be EOF; is the file complete?")


def circuit_of(source: Source, root: Any, vtree: Vtree | None, smooth: bool) -> Circuit:
    """The circuit of a graph of units from a file; see `Circuit.from_units`."""
    _check_tables(source, root)
    try:
        return Circuit.from_units(root, vtree=vtree, smooth=smooth)
    except (PropertyError, CompatibilityError):
        raise  # the file is sound, and its units can be asked for
    except CircuitError as error:
        raise source.error(str(error)) from error


def _check_tables(source: Source, root: Any) -> None:
    """Raise if the circuit of a root has tables out of all proportion to its file.

    A unit of one variable becomes a row of a table with an entry for every state, and takes a
    step for every state of every input.
    """
    variable: dict[Any, int] = {}
    entries = steps = 0
    cards: dict[int, int] = {}
    for unit in topological(root):
        if not unit.inputs:
            leaf: Any = unit
            variable[unit] = leaf.variable
            cards[leaf.variable] = leaf.cardinality
        else:
            below = {variable.get(i, -1) for i in unit.inputs}
            variable[unit] = below.pop() if len(below) == 1 else -1
        card = cards.get(variable[unit], 0)
        entries += card
        steps += card * len(unit.inputs)
    size = source.size
    if entries > TABLE_ENTRIES + ENTRIES_PER_BYTE * size or (
        steps > TABLE_ENTRIES * ENTRIES_PER_BYTE + STEPS_PER_BYTE * size
    ):
        worst = max(cards, key=lambda v: cards[v])
        raise source.error(
            f"the tables of the circuit would have about {entries} entries, too many for a file of "
            f"{size} bytes: variable {worst} (from 0) has {cards[worst]} states. Ask for its units "
            "(as_units=True)"
        )


def plain(circuit: Circuit, suffix: str) -> Circuit:
    """The circuit on the host, if it has one root, discrete variables and weights with logs."""
    require_holder(circuit, suffix)
    if circuit.n_roots != 1:
        raise CircuitError(
            f"A {suffix} file holds a circuit with one root. Got {circuit.n_roots} roots; "
            "write them one by one, or use save() with a .npz file."
        )
    circuit = circuit.to("numpy")
    for node, variable in enumerate(circuit.vtree.variable.tolist()):
        block: Any = circuit.blocks[node]
        if variable >= 0 and circuit.cardinalities[variable] is None:
            raise CircuitError(
                f"A {suffix} file holds discrete variables. Variable {variable} is real; use "
                "save() with a .npz file."
            )
        values = block.numbers if variable >= 0 else block.flat[0]
        wrong = ~((values == 0) | ((values >= SMALLEST) & (values < np.inf)))
        if wrong.any():
            place = f"weights at vtree node {node}"
            what = place if variable < 0 else f"tables of variable {variable}"
            raise CircuitError(
                f"A {suffix} file holds logarithms, so weights and tables must be zero or at least "
                f"{SMALLEST:.3g}. The {what} contain {values[wrong].flat[0]}; use save() "
                "with a .npz file."
            )
    return circuit


def _logs(block: Any) -> Any:
    """The logarithms of a table, or of the weights of an inner block that are not zero."""
    with np.errstate(divide="ignore"):
        return np.log(block.flat[0] if block.cardinality is None else block.numbers, dtype=float)


class _Writer:
    """The lines of the units of a circuit, inputs first and the root last.

    Units that only pass a product on have no line of their own.
    """

    def __init__(self, circuit: Circuit):
        self.vtree, self.blocks = circuit.vtree, circuit.blocks
        self.vtree_id = circuit.vtree.inorder.tolist()
        self.lines: list[str] = []
        from_leaves(self.vtree, self._inputs, self._units)

    def add(self, kind: str, node: int, rest: object) -> int:
        """Write a line, and return the number of its unit."""
        self.lines.append(f"{kind} {len(self.lines)} {self.vtree_id[node]} {rest}")
        return len(self.lines) - 1

    def logs(self, node: int) -> Any:
        """The logarithms of the tables of a leaf, or of the weights that are not zero."""
        return _logs(self.blocks[node])

    def _inputs(self, node: int, variable: int) -> list[int]:
        return [self.input(node, variable, logs) for logs in self.logs(node).tolist()]

    def _units(self, node: int, left: list[int], right: list[int]) -> list[int]:
        """Write the products and sums of an inner node and return the numbers of its units."""
        block: Any = self.blocks[node]
        pairs = zip(*(index.tolist() for index in block.inputs), strict=True)
        products = [self.product(node, left[a], right[b]) for a, b in pairs]
        inputs, logs = block.columns.tolist(), self.logs(node).tolist()
        return [
            self.sum(
                node, [products[i] for i in inputs[start:stop]] or products[:1], logs[start:stop]
            )
            for start, stop in pairwise(block.flat[1].tolist())
        ]

    def input(self, node: int, variable: int, logs: list[float]) -> Any:
        """Write an input, and return its number."""
        if sorted(logs) == [-np.inf, 0.0]:
            return self.add("L", node, variable + 1 if logs[1] == 0.0 else -variable - 1)
        return self.add("C", node, f"{variable + 1} {' '.join(map(repr, logs))}")

    def product(self, node: int, left: int, right: int) -> Any:
        """Write a product of two units, and return its number."""
        return self.add("P", node, f"2 {left} {right}")

    def sum(self, node: int, inputs: list[Any], logs: list[float]) -> int:
        """Write a sum of units, and return its number."""
        last = node != self.vtree.root or inputs[0] == len(self.lines) - 1
        if logs == [0.0] and last:
            return int(inputs[0])
        logs = logs or [-np.inf]  # zero everywhere
        return self.add("S", node, f"{len(inputs)} {self.terms(inputs, logs)}")

    def terms(self, inputs: list[Any], logs: list[float]) -> str:
        """What a sum says of its inputs."""
        return " ".join([f"{i} {log!r}" for i, log in zip(inputs, logs, strict=True)])


def write_jpc(circuit: Circuit, path: PathLike, vtree_path: PathLike | None = None) -> None:
    """Write a circuit of discrete variables to a `.jpc` file (compressed if it ends in .gz).

    Indicators of binary variables are written as literals, other inputs as categorical units.

    Parameters
    ----------
    circuit : Circuit
        One root, discrete variables, no negative weights; normalised or not.
    path : path
        Where to write.
    vtree_path : path, optional
        Where to write the vtree, whose ids the file refers to.

    Raises
    ------
    CircuitError
        If the circuit cannot be written in this format.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from expectedkernels.circuits.inputs import Table
    >>> fair = Circuit.from_blocks(Vtree.balanced(1), [Table(np.array([[0.5, 0.5]]))])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fair.jpc")
    ...     write_jpc(fair, path)
    ...     print(Path(path).read_text())
    c L id vtree literal, C id vtree variable log*, P id vtree count input*,
    c S id vtree count (input log)*; inputs first, root last, variables from 1
    jpc 1
    C 0 0 1 -0.6931471805599453 -0.6931471805599453
    """
    circuit = plain(circuit, ".jpc")
    records = _Writer(circuit).lines
    comment = [
        "c L id vtree literal, C id vtree variable log*, P id vtree count input*,",
        "c S id vtree count (input log)*; inputs first, root last, variables from 1",
    ]
    write_text(path, [*comment, f"jpc {len(records)}", *records])
    if vtree_path is not None:
        write_vtree(circuit.vtree, vtree_path)


def write_spn(circuit: Circuit, path: PathLike) -> None:
    """Write a circuit of discrete variables to a `.spn` file (compressed if it ends in .gz).

    Tables that are not indicators are written as sums of indicators.

    Parameters
    ----------
    circuit : Circuit
        One root, discrete variables, no negative weights; normalised or not.
    path : path
        Where to write.

    Raises
    ------
    CircuitError
        If the circuit cannot be written in this format.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from expectedkernels.circuits.inputs import Table
    >>> fair = Circuit.from_blocks(Vtree.balanced(1), [Table(np.array([[0.5, 0.5]]))])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fair.spn")
    ...     write_spn(fair, path)
    ...     print(Path(path).read_text())
    (2)
    v 0 0
    v 0 1
    + 0 -0.6931471805599453 1 -0.6931471805599453
    EOF
    """
    circuit = plain(circuit, ".spn")
    states = " ".join(str(states) for states in circuit.cardinalities)
    write_text(path, [f"({states})", *_SpnWriter(circuit).lines, "EOF"])


class _SpnWriter(_Writer):
    """The lines of a `.spn` file."""

    def __init__(self, circuit: Circuit):
        self.indicators: dict[tuple[int, int], int] = {}
        super().__init__(circuit)

    def add(self, kind: str, node: int, rest: object) -> int:
        """Write a line, and return the number of its unit; inputs are not counted."""
        if kind in "PS":
            kind, rest = "*" if kind == "P" else "+", str(rest).split(" ", 1)[1]
        self.lines.append(f"{kind} {rest}")
        return len(self.lines) - 1

    def input(self, node: int, variable: int, logs: list[float]) -> int:
        """Write an indicator or a sum of some, and return its number."""
        support = [value for value, log in enumerate(logs) if log > -np.inf] or [0]
        for value in support:
            if (variable, value) not in self.indicators:
                self.indicators[variable, value] = self.add("v", node, f"{variable} {value}")
        inputs = [self.indicators[variable, value] for value in support]
        return self.sum(node, inputs, [logs[value] for value in support])


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
    records = _PsddWriter(circuit).lines
    write_text(path, [COMMENT, f"psdd {len(records)}", *records])
    if vtree_path is not None:
        write_vtree(circuit.vtree, vtree_path)


class _PsddWriter(_Writer):
    """The lines of a `.psdd` file: what units sum to moves up into the weights."""

    def __init__(self, circuit: Circuit):
        self.found = self._normalised(circuit)
        if any(-np.inf in total for _, total in self.found):  # units that are zero everywhere
            circuit = Circuit.from_blocks(circuit.vtree, circuit.blocks)
            self.found = self._normalised(circuit)
        total = float(self.found[-1][1][0])
        if not abs(total) <= NORMALISED:
            raise CircuitError(
                "A .psdd file holds a normalised circuit, but the log of the sum of this one's "
                f"values is {total:.12g}. Write p.normalize() instead."
            )
        super().__init__(circuit)

    @staticmethod
    def _normalised(circuit: Circuit) -> list[tuple[Any, Any]]:
        """Logs of tables and weights, these with the totals below, and of the totals of units."""
        blocks: Any = circuit.blocks

        def leaf(node: int, variable: int) -> tuple[Any, Any]:
            if blocks[node].cardinality != 2:
                raise CircuitError(
                    f"A .psdd file holds binary variables. Got {blocks[node].cardinality} states "
                    f"of variable {variable}; use a .jpc file instead."
                )
            logs = _logs(blocks[node])
            return logs, np.logaddexp(*logs.T)

        def inner(node: int, primes: tuple[Any, Any], subs: tuple[Any, Any]) -> tuple[Any, Any]:
            block = blocks[node]
            left, right = (index[block.columns] for index in block.inputs)
            logs = _logs(block) + primes[1][left] + subs[1][right]
            total = np.full(block.n_units, -np.inf)
            np.logaddexp.at(total, np.repeat(np.arange(len(total)), np.diff(block.flat[1])), logs)
            return logs, total

        return from_leaves(circuit.vtree, leaf, inner)

    def logs(self, node: int) -> Any:
        """The logarithms of the tables of a leaf, or of weights, of units that sum to one."""
        block: Any = self.blocks[node]
        logs, total = self.found[node]
        inner = block.cardinality is None
        logs = logs - (np.repeat(total, np.diff(block.flat[1])) if inner else total[:, None])
        lowest = logs[logs > -np.inf].min(initial=0.0)
        if lowest < LOWEST_LOG:
            raise CircuitError(
                f"After normalising its units, this circuit has a log weight of {lowest:.6g}, "
                f"below the range of doubles ({LOWEST_LOG:.1f}); use save() with a .npz file."
            )
        return logs

    def input(self, node: int, variable: int, logs: list[float]) -> int:
        """Write a literal or a true unit, and return its number."""
        log0, log1 = logs
        if -np.inf in logs:
            return self.add("L", node, -1 - variable if log0 == 0 else variable + 1)
        if log1 > log0:  # so that reading finds the small value to full precision
            log1 = float(np.log1p(-np.exp(log0)))
        return self.add("T", node, f"{variable + 1} {log1!r}")

    def product(self, node: int, left: int, right: int) -> str:
        """What a decision says of a prime and a sub."""
        return f"{left} {right}"

    def sum(self, node: int, inputs: list[Any], logs: list[float]) -> int:
        """Write a decision, and return its number."""
        return self.add("D", node, f"{len(inputs)} {self.terms(inputs, logs)}")
