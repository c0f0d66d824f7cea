"""Files that list units or vtree nodes, children first: .psdd, .jpc, .spn and .vtree."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from math import inf
from operator import itemgetter
from sys import float_info
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, special

from expectedkernels import checks
from expectedkernels.arrays import StatesLike
from expectedkernels.checks import CircuitError, CompatibilityError, ParseError, PropertyError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Categorical, Indicator, Product, Sum, Unit
from expectedkernels.circuits.inputs import Table
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves
from expectedkernels.io import text
from expectedkernels.io.text import PathLike, Record, Source, write_text
from expectedkernels.vtree import Vtree


class Form(NamedTuple):
    """What lines that begin with a word look like, such as ``S id vtree count (input log)...``.

    Attributes
    ----------
    text : str
    n_words : int
        How many integers are behind the first word, before a list starts.
    step : int
        How many words an entry of the list has, 0 if there is none.
    pick : function
        The id, the vtree node, the variable, its value and the length of the list, of what stands
        for those that are missing, followed by these integers.
    is_input, is_literal, has_logs, is_open : bool
        Whether there is a variable, whether it and its value are one word, whether the last word
        of an entry is a float, and whether the list has any length.
    """

    text: str
    n_words: int
    step: int
    pick: Callable[[list[int]], tuple[int, ...]]
    is_input: bool
    is_literal: bool
    has_logs: bool
    is_open: bool


PARTS = (("id",), ("vtree",), ("variable", "literal"), ("value", "literal", "trials"), ("count",))


def grammar(*lines: str) -> dict[str, Form]:
    """The forms of lines by their first words."""
    forms = {}
    for line in lines:
        words = line.split()
        lists = (i for i, word in enumerate(words) if word[0] == "(" or word.endswith("..."))
        start = next(lists, len(words))
        places = {word: len(PARTS) + i for i, word in enumerate(words[1:start])}
        pick = itemgetter(*(max(places.get(x, i) for x in part) for i, part in enumerate(PARTS)))
        is_open = line.endswith("...") and "count" not in places
        is_literal, has_logs = "literal" in places, words[-1].strip("().") == "log"
        flags = is_literal or "variable" in places, is_literal, has_logs, is_open
        forms[words[0]] = Form(line, start - 1, len(words) - start, pick, *flags)
    return forms


VTREE = grammar("L id variable", "I id (left right)")
LITERAL = "L id vtree literal"
PSDD = grammar(LITERAL, "T id vtree variable log...", "D id vtree count (prime sub log)...")
JPC = grammar(
    LITERAL,
    "I id vtree variable value",
    "C id vtree variable log...",
    "B id vtree variable trials (log)",
    "P id vtree count input...",
    "S id vtree count (input log)...",
)
SPN = grammar("v variable value", "* input...", "+ (input log)...")
LOWEST_LOG, HIGHEST_LOG = (float(np.log(x)) for x in (float_info.min, float_info.max))
LOGS_OF_DOUBLES = f"[{LOWEST_LOG:.1f}, {HIGHEST_LOG:.1f}]"
ROUNDING = 1e-6
"""Log-probabilities may be this far above zero: some programs print six decimals."""
NORMALISED = 1e-8
"""How far the log of the circuit's total may be from zero."""
FEW_VARIABLES = 2**13
"""Variables with smaller numbers are fine, however many units a file has."""
TABLE_ENTRIES, ENTRIES_PER_BYTE, STEPS_PER_BYTE = 2**24, 16, 1024
"""The tables of the units of a file may have so many entries, however short the file is."""


def are_logs(logs: Any) -> Any:
    """Which numbers are logs of doubles of all digits, or of zero."""
    return (logs == -inf) | ((logs >= LOWEST_LOG) & (logs <= HIGHEST_LOG))


def records_after(source: Source, word: str, what: str = "") -> list[Record]:
    """The records after the header; if it counts them, they must be as many as it says."""
    records = list(source.records())
    line, header = records[0] if records else (None, ["an empty file"])
    found = len(records) - 1
    count = text.number_or_none(" ".join(header[1:]), int) if what else found
    wanted = f"'{word} N' with the number of {what}" if what else f"'{word} ...'"
    good = header[0] == word and count is not None
    message = f"expected the header line {wanted}, found {text.quote(' '.join(header))}"
    source.require(good, message, line)
    message = f"the header announces {count} {what}, found {found}; is the file complete?"
    source.require(count == found, message, line)
    return records[1:]


class UnitLine(NamedTuple):
    """The line of a unit, or of a vtree node.

    Attributes
    ----------
    kind : str
        Its first word.
    line, vtree_id : int
        Where it stands, and the vtree node, 0 if there is none.
    variable, value : int
        The variable of an input, -1 for other units; its value, or the trials of a binomial.
    inputs : list of int
        The numbers of units that it is made of.
    logs : list of float
        Log weights of a sum, log values of an input.
    """

    kind: str
    line: int
    vtree_id: int
    variable: int
    value: int
    inputs: list[int]
    logs: list[float]


class UnitList(list[UnitLine]):
    """The units of a file in their order, and `number`: from ids in the file to places here."""

    def __init__(
        self, source: Source, records: Iterable[Record], forms: Mapping[str, Form], first: int = 1
    ):
        super().__init__()
        self.source = source
        self.number: dict[int, int] = {}
        number = self.number
        missing = [0, 0, first - 1, 0, 1]
        for line, tokens in records:
            form, words, logs = forms.get(tokens[0]), tokens[1:], []
            if form is None or len(words) < form.n_words:
                raise self._misfit(forms, tokens, line)
            n, step = len(words) - form.n_words, form.step
            if form.has_logs:
                places = slice(form.n_words + step - 1, None, step)
                logs = source.numbers(words[places], line)
                del words[places]
            integers = source.numbers(words, line, int)
            name, vtree_id, variable, value, entries = form.pick(missing + integers)
            if form.is_open:
                entries = n // step
            if n != step * entries or entries < 1:
                raise self._misfit(forms, tokens, line)
            if form.is_literal:
                variable, value = abs(value), int(value > 0)
            variable -= first
            if form.is_input and not 0 <= variable < text.LARGEST_VARIABLE:
                limits = f"from {first} to {text.LARGEST_VARIABLE}"
                raise source.error(f"variables are {limits}, found {variable + first}", line)
            try:
                inputs = [number[i] for i in integers[form.n_words :]]
            except KeyError as error:
                message = f"unit {error} has not appeared yet; inputs come first"
                raise source.error(message, line) from None
            name = name if first else len(number)
            if name in number:
                raise source.error(f"the id {name} is used a second time", line)
            number[name] = len(number)
            self.append(UnitLine(tokens[0], line, vtree_id, variable, value, inputs, logs))
        source.require(number, "expected at least one unit")

    def _misfit(self, forms: Mapping[str, Form], tokens: list[str], line: int) -> ParseError:
        expected = text.either([f"'{form.text}'" for form in forms.values()])
        found = f"{text.quote(' '.join(tokens))} ({len(tokens)} words)"
        return self.source.error(f"expected {expected}, found {found}", line)

    def weights(self) -> tuple[Any, list[int]]:
        """The numbers that all logs stand for, laid flat, and where those of every unit start."""
        sizes = [len(unit.logs) for unit in self]
        starts = list(accumulate(sizes, initial=0))
        logs = np.fromiter(chain.from_iterable(unit.logs for unit in self), float, starts[-1])
        return self.exp(logs, np.repeat([unit.line for unit in self], sizes)), starts

    def exp(self, logs: Any, lines: Any) -> Any:
        """The numbers with these logs, which stand in these lines, if doubles hold them."""
        good = are_logs(logs)
        if not good.all():
            first = int(np.argmin(good))
            limits = f"{LOGS_OF_DOUBLES}, the range of doubles"
            message = f"a log weight must be -inf or in {limits}, found {logs[first]}"
            raise self.source.error(message, int(lines[first]))
        return np.exp(logs)

    def nodes(self, vtree: Vtree) -> list[int]:
        """The vtree node of every unit, -1 where there is no saying."""
        leaf = {v: node for node, v in enumerate(vtree.variable.tolist())}
        parent = [*vtree.parent.tolist(), -1]
        nodes: list[int] = []
        for kind, line, _, variable, _, inputs, _ in self:
            if variable >= 0 and variable not in leaf:
                what = f"variable {variable + 1} is not below the root of the vtree"
                raise self.source.error(f"{what}; are file and vtree complete?", line)
            node = leaf[variable] if variable >= 0 else nodes[inputs[0]]
            if kind in "PD" and len(inputs) > 1:
                other, is_pair = nodes[inputs[1]], kind == "D" or len(inputs) == 2
                siblings = node != other and parent[node] == parent[other]
                node = parent[node] if is_pair and siblings else -1
            nodes.append(node)
        return nodes

    def check_ids(self, vtree: Vtree, ids: dict[int, int] | None, nodes: Sequence[int]) -> None:
        """Raise unless the vtree ids of all units fit the nodes where they belong (-1: unknown).

        Programs disagree on what these ids are: those of the `.vtree` file, or in-order positions.
        Either is accepted if it fits all units. Without a file (``ids=None``) equal ids must stand
        for equal nodes.
        """
        pairs = [(unit.vtree_id, node) for unit, node in zip(self, nodes, strict=True)]
        if ids is None:
            first = {node: name for name, node in reversed(pairs)}
            readings = [{name: node for node, name in first.items()}]
        else:
            readings = [ids, dict(zip(vtree.inorder.tolist(), range(vtree.n_nodes), strict=True))]
        misfits = [
            [i for i, (name, node) in enumerate(pairs) if node not in (-1, reading.get(name))]
            for reading in readings
        ]
        wrong, reading = min(zip(misfits, readings, strict=True), key=lambda pair: len(pair[0]))
        for i in wrong[:1]:
            expected = next((name for name, node in reading.items() if node == nodes[i]), "another")
            scope = scope_text(vtree, nodes[i])
            what = f"the vtree id {self[i].vtree_id} does not fit a unit over variables {scope}"
            raise self.source.error(f"{what}, expected {expected}", self[i].line)

    def check_root(self, scope: Collection[int], n_variables: int, first: int = 1) -> None:
        """Raise unless the root depends on all variables."""
        missing = sorted(v + first for v in set(range(n_variables)).difference(scope))
        message = f"the root must depend on all {n_variables} variables, and does not on"
        self.source.require(not missing, f"{message} {missing[:8]}")


def scope_text(vtree: Vtree, node: int) -> str:
    """The variables below a node, as files number them."""
    scope = (vtree.scope(node) + 1).tolist()
    return f"{scope[:8]}{' and more' if len(scope) > 8 else ''} (from 1)"


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


def read_vtree_and_ids(path: PathLike) -> tuple[Vtree, dict[int, int]]:
    """The vtree in a file, and the node that each id of the file stands for."""
    source = Source(path)
    listed = UnitList(source, records_after(source, "vtree", "nodes"), VTREE)
    variables = [unit.variable for unit in listed]
    left, right = zip(*(unit.inputs or (-1, -1) for unit in listed), strict=True)
    try:
        vtree = Vtree(left, right, variables)
    except checks.VtreeError as error:
        used: set[int] = set()
        for unit in listed:
            keys = unit.inputs or [-1 - unit.variable]
            if not used.isdisjoint(keys) or len({*keys}) < len(keys):
                what = "a node has a second parent, or a variable a second leaf"
                raise source.error(what, unit.line) from None
            used.update(keys)
        raise source.error(f"{error}") from None
    leaf = {v: node for node, v in enumerate(vtree.variable.tolist())}
    above = vtree.parent.tolist()
    nodes: list[int] = []
    for v, child in zip(variables, left, strict=True):
        nodes.append(leaf[v] if v >= 0 else above[nodes[child]])
    return vtree, {name: nodes[i] for name, i in listed.number.items()}


def resolve(vtree: Vtree | PathLike | None) -> tuple[Vtree | None, dict[int, int] | None]:
    """The vtree that an argument stands for, and the ids of its file if it is one."""
    if vtree is None or isinstance(vtree, Vtree):
        return vtree, None
    return read_vtree_and_ids(vtree)


def write_vtree(vtree: Vtree, path: PathLike) -> None:
    """Write a vtree to a `.vtree` file (compressed if the name ends in .gz).

    Nodes carry their in-order positions as ids, which is what most other programs expect.

    Parameters
    ----------
    vtree : Vtree
        What to write.
    path : str or path
        Where to write.

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
    text.require_holder(vtree, ".vtree")
    ids = vtree.inorder.tolist()
    comment = "c L id variable (from 1), I id left right; children first, root last"
    lines = [comment, f"vtree {vtree.n_nodes}"]
    nodes = zip(vtree.left.tolist(), vtree.right.tolist(), vtree.variable.tolist(), strict=True)
    for i, (left, right, v) in zip(ids, nodes, strict=True):
        lines.append(f"L {i} {v + 1}" if v >= 0 else f"I {i} {ids[left]} {ids[right]}")
    write_text(path, lines)


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
    units = UnitList(source, records_after(source, "psdd"), PSDD)
    stem = os.path.splitext(source.path.removesuffix(".gz"))[0]
    companions = (stem + suffix for suffix in (".vtree", ".vtree.gz") if vtree is None)
    beside = next(filter(os.path.isfile, companions), None)
    known, ids = resolve(beside if vtree is None else vtree)
    tree = _split_by_first(units) if known is None else known
    tables = _psdd_tables(units)
    try:
        nodes = units.nodes(tree)
        blocks = _psdd_blocks(units, tree, np.array(nodes), tables)
        units.check_ids(tree, ids, nodes)
    except ParseError as error:
        if beside is not None:
            error.add_note(f"The vtree is that of {beside}, which lies beside the file.")
        raise
    try:
        return Circuit.from_blocks(tree, blocks).with_names(names, states)
    except CircuitError as error:  # numbers that are too far from each other
        raise source.error(str(error)) from error


def _split_by_first(units: UnitList) -> Vtree:
    """The vtree that splits variables as the first prime and sub of every decision do."""
    order: list[int] = []
    stack = [len(units) - 1]
    while stack and len(order) < 2 * len({unit.variable for unit in units}):
        order.append(stack.pop())
        stack += units[order[-1]].inputs[:2]
    variable = [units[i].variable for i in reversed(order)]  # children first, left before right
    below = [v for v in variable if v >= 0]
    good = not stack and len(set(below)) == len(below)
    message = "the last unit is not decomposable: some prime and sub share variables"
    units.source.require(good, message, units[-1].line)
    left, right = [-1] * len(variable), [-1] * len(variable)
    for node, v in enumerate(variable):
        if v < 0:
            right[node], left[node] = stack.pop(), stack.pop()
        stack.append(node)
    return Vtree(left, right, variable)


def _psdd_blocks(units: UnitList, vtree: Vtree, node: Any, tables: Any) -> list[Any]:
    """One block per vtree node, units in the order of their lines, one product per element."""
    n, scope = len(node), set(vtree.scope().tolist())
    units.check_root(scope, max(scope) + 1)
    sizes = [len(unit.inputs) // 2 for unit in units]
    owner = np.repeat(np.arange(n), sizes)
    flat = np.fromiter(chain.from_iterable(u.inputs for u in units), np.intp, 2 * len(owner))
    prime, sub = flat.reshape(-1, 2).T
    left, right = np.where(node[prime] < node[sub], (prime, sub), (sub, prime))
    at = node[owner]
    wrong = (at < 0) | (node[left] != vtree.left[at]) | (node[right] != vtree.right[at])
    if wrong.any():
        first = int(np.argmax(wrong))
        a, b = (scope_text(vtree, node[x[first]]) for x in (prime, sub))
        raise units.source.error(
            f"a prime over variables {a} and a sub over {b} are not over all the variables of the "
            "two children of one vtree node, which is not supported",
            units[owner[first]].line,
        )
    last = scope_text(vtree, int(node[-1]))
    message = f"the last unit is over variables {last}, not all {len(scope)}; is the file complete?"
    units.source.require(node[-1] == vtree.root, message, units[-1].line)
    weights, starts = units.weights()
    weights = weights[np.repeat(np.array(sizes) > 0, np.diff(starts))]
    order = np.argsort(node, kind="stable")
    start = np.searchsorted(node[order], np.arange(vtree.n_nodes + 1))
    start[-2] = n - 1  # of the units over all variables, only the last one is the root
    unit = np.empty(n, dtype=np.intp)
    unit[order] = np.arange(n) - start[node[order]]
    used = np.flatnonzero((at != vtree.root) | (owner == n - 1))
    used = used[np.argsort(at[used], kind="stable")]
    begin = np.searchsorted(at[used], np.arange(vtree.n_nodes + 1))

    def leaf(node: int, variable: int) -> Table:
        return Table(tables[order[start[node] : start[node + 1]]])

    def inner(node: int) -> Inner:
        here = used[begin[node] : begin[node + 1]]
        shape = (int(start[node + 1] - start[node]), len(here))
        rows = np.searchsorted(unit[owner[here]], np.arange(shape[0] + 1))
        matrix = sparse.csr_array((weights[here], np.arange(shape[1]), rows), shape=shape)
        return Inner(shape[1], shape[0], unit[left[here]], unit[right[here]], matrix)

    return at_nodes(vtree, leaf, inner)


def _psdd_tables(units: UnitList) -> Any:
    """The values at 0 and 1 of all inputs; anything for decisions."""
    tables = np.zeros((len(units), 2))
    weights, starts = units.weights()
    for i, (kind, line, _, _, value, _, logs) in enumerate(units):
        if kind == "L":
            tables[i, value] = 1.0
        elif kind == "T" and len(logs) > 2:
            message = f"expected a true unit with one or two log weights, found {len(logs)}"
            raise units.source.error(message, line)
        elif kind == "T" and len(logs) == 2:
            tables[i] = weights[starts[i] : starts[i] + 2]
        elif kind == "T":
            log = _log_probability(units, units[i])
            tables[i] = -np.expm1(log), np.exp(log)
    return tables


def _log_probability(units: UnitList, unit: UnitLine) -> float:
    """The log-probability of a unit, which may be above zero by rounding only."""
    [log] = unit.logs
    message = f"a log-probability must not be above 0, found {log}"
    units.source.require(log <= ROUNDING, message, unit.line)
    return min(log, 0.0)


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
    units = UnitList(source, records_after(source, "jpc", "units"), JPC)
    found, ids = resolve(vtree)
    if found is not None and any(unit.vtree_id for unit in units):  # all 0: there are none
        units.check_ids(found, ids, units.nodes(found))
    root = _root(units, _cardinalities(units), as_units)
    return root if as_units else _circuit(units, root, found, smooth).with_names(names, states)


def _cardinalities(units: UnitList) -> dict[int, int]:
    """The numbers of states of variables, from those units that say them, or the largest value."""
    exact: dict[int, int] = {}
    least: dict[int, int] = {}
    # every scope takes a bit for every variable up to its largest: gaps must be few
    n_variables = max(len(units), FEW_VARIABLES)
    inputs = [unit for unit in units if unit.variable >= 0]
    for kind, line, _, v, value, _, logs in inputs:
        states = {"L": 2, "C": len(logs)}.get(kind, value + 1)
        if not 1 <= states <= text.MOST_STATES or v >= n_variables:
            limits = f"values are 0 to {text.MOST_STATES - 1} and variables 1 to {n_variables}"
            raise units.source.error(f"{limits}, found {value} of variable {v + 1}", line)
        if kind == "I":
            least[v] = max(states, least.get(v, 2))
        elif exact.setdefault(v, states) != states:
            message = f"variable {v + 1} has {states} states here and {exact[v]} before"
            raise units.source.error(message, line)
    for kind, line, _, v, value, _, _ in inputs:
        if kind == "I" and value >= exact.get(v, text.MOST_STATES):
            message = f"variable {v + 1} has {exact[v]} states in other units, found {value}"
            raise units.source.error(message, line)
    return least | exact


def _root(units: UnitList, cards: Mapping[int, int], as_units: bool) -> Any:
    """The last unit as the root of a graph, whose tables are in proportion to the file.

    A unit of one variable becomes a row of a table with an entry for every state, and takes a
    step for every state of every input; those of units are not made yet, but of binomials.
    """
    entries = steps = 0
    alone: list[int] = []
    for unit in units:
        scope = {alone[i] for i in unit.inputs} or {unit.variable}
        alone.append(scope.pop() if len(scope) == 1 else -1)
        size = cards.get(alone[-1], 0) if unit.kind == "B" or not as_units else 0
        entries, steps = entries + size, steps + size * len(unit.inputs)
    size = units.source.size
    good = entries <= TABLE_ENTRIES + ENTRIES_PER_BYTE * size
    good &= steps <= TABLE_ENTRIES * ENTRIES_PER_BYTE + STEPS_PER_BYTE * size
    worst = max(cards, key=lambda v: cards[v])
    units.source.require(
        good,
        f"the tables of the circuit would have about {entries} entries, too many for a file of "
        f"{size} bytes: variable {worst} (from 0) has {cards[worst]} states. Read as_units=True",
    )
    made: list[Any] = []
    numbers, starts = units.weights()
    for i, unit in enumerate(units):
        kind, v = unit.kind, unit.variable
        inputs, weights = [made[j] for j in unit.inputs], numbers[starts[i] : starts[i + 1]]
        if inputs and len(weights):
            made.append(Sum(inputs, weights))
        elif inputs:
            made.append(inputs[0] if len(inputs) == 1 else Product(inputs))
        elif kind == "B":
            made.append(Categorical(v, _binomial(units, unit)))
        elif kind == "C":
            made.append(Categorical(v, weights))
        else:
            made.append(Indicator(v, unit.value, cards[v]))
    return made[-1]


def _binomial(units: UnitList, unit: UnitLine) -> Any:
    """The probabilities of a binomial unit."""
    n, p = unit.value, np.exp(_log_probability(units, unit))
    k = np.arange(n + 1)
    choices = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    logs = choices + special.xlogy(k, p) + special.xlog1py(n - k, -p)
    return units.exp(logs, [unit.line] * len(logs))


def _circuit(units: UnitList, root: Unit, vtree: Any, smooth: bool, n: int = 0) -> Circuit:
    """The circuit of a graph of units from a file, over all n variables that its header names."""
    units.check_root(root.scope, n or max(root.scope) + 1, 0 if n else 1)
    try:
        return Circuit.from_units(root, vtree=vtree, smooth=smooth)
    except (PropertyError, CompatibilityError):
        raise  # the file is sound, and its units can be requested
    except CircuitError as error:
        raise units.source.error(str(error)) from error


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
    (line, head), *records = list(source.records(comment=None)) or [(1, [])]
    states_text = " ".join(head)
    cells = states_text[1:-1].split()
    good = states_text[:1] == "(" and states_text[-1:] == ")" and bool(cells)
    wanted = "the numbers of states in parentheses, like '(2 2 3)'"
    source.require(good, f"expected {wanted}, found {text.quote(states_text)}", line)
    cards = source.numbers(cells, line, int)
    good = 1 <= min(cards) <= max(cards) <= text.MOST_STATES
    source.require(good, f"numbers of states must be from 1 to {text.MOST_STATES}", line)
    good = bool(records) and records[-1][1] == ["EOF"]
    source.require(good, "expected the last line to be EOF; is the file complete?")
    units = UnitList(source, records[:-1], SPN, first=0)
    for _, at, _, v, value, _, _ in units:
        if v >= 0 and not (v < len(cards) and 0 <= value < cards[v]):
            known = f"variables are 0 to {len(cards) - 1} with values as in the first line"
            raise source.error(f"{known}, found variable {v} with value {value}", at)
    root, tree = _root(units, dict(enumerate(cards)), as_units), resolve(vtree)[0]
    if as_units:
        return root
    return _circuit(units, root, tree, smooth, len(cards)).with_names(names, states)


def _writable(circuit: Circuit, suffix: str) -> tuple[Circuit, list[Any]]:
    """A circuit of one root and discrete variables on the CPU, with the logs of its weights.

    These are the logs of the tables of leaves, and of the weights of other nodes that are not zero.
    """
    text.require_holder(circuit, suffix)
    found = "" if circuit.n_roots == 1 else f"a circuit with one root. Got {circuit.n_roots} roots"
    if None in circuit.cardinalities:
        found = f"discrete variables. Variable {circuit.cardinalities.index(None)} is real"
    if found:
        raise CircuitError(f"A {suffix} file holds {found}; use save() with a .npz file.")
    circuit = circuit.to("numpy")
    blocks: Any = circuit.blocks
    numbers = (b.flat[0] if b.cardinality is None else b.numbers for b in blocks)
    with np.errstate(divide="ignore", invalid="ignore"):
        return circuit, _checked_logs([np.log(x, dtype=float) for x in numbers], suffix)


def _checked_logs(logs: list[Any], suffix: str) -> list[Any]:
    """The logs of the numbers of all nodes, if they are those of doubles of all digits."""
    for node, own in enumerate(logs):
        for wrong in own[~are_logs(own)][:1]:
            what = f"logs of weights and tables, -inf or in the range of doubles {LOGS_OF_DOUBLES}"
            got = f"Got {wrong:.6g} (nan: of a negative number) at vtree node {node}"
            raise CircuitError(f"A {suffix} file holds {what}. {got}; use save() with a .npz file.")
    return logs


def _unit_lines(circuit: Circuit, logs: Sequence[Any], suffix: str) -> list[str]:
    """The lines of the units of a circuit with these logs, inputs first and the root last.

    Units that only pass a product on have no line of their own, but in `.psdd` files.
    """
    lines: list[str] = []
    vtree, blocks = circuit.vtree, circuit.blocks
    vtree_id = vtree.inorder.tolist()
    indicators: dict[tuple[int, int], int] = {}
    is_psdd, is_spn = suffix == ".psdd", suffix == ".spn"

    def add(kind: str, node: int, rest: str) -> int:
        ids = "" if is_spn else f" {len(lines)} {vtree_id[node]}"
        lines.append(f"{kind}{ids} {rest}")
        return len(lines) - 1

    def add_sum(node: int, inputs: list[Any], logs: list[float]) -> int:
        last = node != vtree.root or inputs[0] == len(lines) - 1
        if logs == [0.0] and last and not is_psdd:
            return int(inputs[0])
        logs = logs or [-inf]  # zero everywhere
        terms = " ".join([f"{i} {log!r}" for i, log in zip(inputs, logs, strict=True)])
        if is_spn:
            return add("+", node, terms)
        return add("D" if is_psdd else "S", node, f"{len(inputs)} {terms}")

    def add_input(node: int, v: int, logs: list[float]) -> int:
        if is_spn:
            support = [value for value, log in enumerate(logs) if log > -inf] or [0]
            for value in support:
                if (v, value) not in indicators:
                    indicators[v, value] = add("v", node, f"{v} {value}")
            inputs = [indicators[v, value] for value in support]
            return add_sum(node, inputs, [logs[value] for value in support])
        if sorted(logs) == [-inf, 0.0]:
            return add("L", node, str(v + 1 if logs[1] == 0.0 else -v - 1))
        if not is_psdd:
            return add("C", node, f"{v + 1} {' '.join(map(repr, logs))}")
        if logs[1] > logs[0]:  # so that reading finds the small value to full precision
            logs[1] = float(np.log1p(-np.exp(logs[0])))
        return add("T", node, f"{v + 1} {logs[1]!r}")

    def leaf(node: int, variable: int) -> list[int]:
        return [add_input(node, variable, row) for row in logs[node].tolist()]

    def inner(node: int, left: list[int], right: list[int]) -> list[int]:
        block: Any = blocks[node]
        a, b = (index.tolist() for index in block.inputs)
        pairs = [f"{left[i]} {right[j]}" for i, j in zip(a, b, strict=True)]
        products: list[Any] = pairs
        if not is_psdd:
            kind, count = ("*", "") if is_spn else ("P", "2 ")
            products = [add(kind, node, count + pair) for pair in pairs]
        inputs, own = [products[i] for i in block.columns.tolist()], logs[node].tolist()
        spans = (slice(*ends) for ends in pairwise(block.flat[1].tolist()))
        return [add_sum(node, inputs[at] or products[:1], own[at]) for at in spans]

    from_leaves(vtree, leaf, inner)
    return lines


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
    circuit, logs = _writable(circuit, ".jpc")
    lines = _unit_lines(circuit, logs, ".jpc")
    one = "c L id vtree literal, C id vtree variable log*, P id vtree count input*,"
    two = "c S id vtree count (input log)*; inputs first, root last, variables from 1"
    write_text(path, [one, two, f"jpc {len(lines)}", *lines])
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
    circuit, logs = _writable(circuit, ".spn")
    states = " ".join(map(str, circuit.cardinalities))
    write_text(path, [f"({states})", *_unit_lines(circuit, logs, ".spn"), "EOF"])


@checks.removed(dialect="files have one number per true unit, and files with two are still read")
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
    circuit, own = _writable(circuit, ".psdd")
    logs, totals = _normalised_logs(circuit, own)
    if any(-inf in total for total in totals):  # units that are zero everywhere
        circuit, own = _writable(Circuit.from_blocks(circuit.vtree, circuit.blocks), ".psdd")
        logs, totals = _normalised_logs(circuit, own)
    if not abs(totals[-1][0]) <= NORMALISED:
        raise CircuitError(
            "A .psdd file holds a normalised circuit, but the log of the sum of this one's values "
            f"is {totals[-1][0]:.12g}. Write p.normalize() instead."
        )
    _checked_logs(logs, ".psdd")
    lines = _unit_lines(circuit, logs, ".psdd")
    head = "c L id vtree literal, T id vtree variable log p(1), D id vtree count (prime sub log)*"
    write_text(path, [head, f"psdd {len(lines)}", *lines])
    if vtree_path is not None:
        write_vtree(circuit.vtree, vtree_path)


def _normalised_logs(circuit: Circuit, own: list[Any]) -> tuple[list[Any], list[Any]]:
    """Logs of tables and weights of units that sum to one, and of what they summed to before."""
    blocks: Any = circuit.blocks

    def leaf(node: int, variable: int) -> tuple[Any, Any]:
        if blocks[node].cardinality != 2:
            found = f"Got {blocks[node].cardinality} states of variable {variable}"
            rule = "A .psdd file holds binary variables"
            raise CircuitError(f"{rule}. {found}; use a .jpc file instead.")
        totals = np.logaddexp(*own[node].T)
        return own[node] - totals[:, None], totals

    def inner(node: int, primes: tuple[Any, Any], subs: tuple[Any, Any]) -> tuple[Any, Any]:
        left, right = blocks[node].inputs
        logs = own[node] + (primes[1][left] + subs[1][right])[blocks[node].columns]
        starts, sizes = blocks[node].flat[1][:-1], np.diff(blocks[node].flat[1])
        totals = np.full(len(sizes), -inf)
        totals[sizes > 0] = np.logaddexp.reduceat(logs, starts[sizes > 0])
        return logs - np.repeat(totals, sizes), totals

    with np.errstate(invalid="ignore"):  # -inf less -inf, of units that are zero
        found = from_leaves(circuit.vtree, leaf, inner)
    return [logs for logs, _ in found], [totals for _, totals in found]
