"""Circuits in the `.jpc` and `.spn` formats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special

from expectedkernels.arrays import StatesLike
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Categorical, Indicator, Unit
from expectedkernels.engine.blocks import from_leaves
from expectedkernels.io.text import (
    ENTRIES_PER_BYTE,
    MOST_STATES,
    ROUNDING,
    TABLE_ENTRIES,
    PathLike,
    Source,
    circuit_of,
    known,
    logs,
    plain,
    product,
    shown,
    weighted_sum,
    write_text,
)
from expectedkernels.io.vtree_format import check_ids, resolve, write_vtree
from expectedkernels.vtree import Vtree

KINDS = frozenset("LICBPS")
FEW_VARIABLES = 2**13
"""Variables with smaller numbers are fine, however many units a file has."""
LENGTHS = {"L": 4, "I": 5, "B": 6}
"""The number of entries in records that always have the same number."""


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
    records = _Records(Source(path))
    found, ids = resolve(vtree)
    if found is not None:
        records.check_vtree(found, ids)
    root = records.root()
    if as_units:
        return root
    scope = root.scope
    if scope != frozenset(range(len(scope))):
        raise records.source.error(
            f"the root depends on {len(scope)} variables, which must be numbered from 1 to "
            f"{len(scope)}, found variable {max(scope) + 1}"
        )
    return circuit_of(records.source, root, found, smooth).with_names(names, states)


class _Records:
    """The records of a file in order; units are made of them once all variables are known."""

    def __init__(self, source: Source):
        self.source = source
        self.records: dict[int, tuple[int, list[str]]] = {}  # by id: line and tokens
        self.states: dict[int, int] = {}  # of variables whose units say how many there are
        self.fewest: dict[int, int] = {}  # of variables with indicators
        self.n_binomial = 0  # entries in the tables of binomial units
        for line, tokens in source.counted("jpc", "units"):
            self._add(tokens, line)
        self._check_states()

    def _add(self, tokens: list[str], line: int) -> None:
        """Check the shape of a record and keep it."""
        kind, source = tokens[0], self.source
        if kind not in KINDS or len(tokens) < 4 or len(tokens) != LENGTHS.get(kind, len(tokens)):
            raise source.error(
                "expected 'L id vtree literal', 'I id vtree variable value', 'C id vtree variable "
                "log...', 'B id vtree variable n log', 'P id vtree count input...' or 'S id vtree "
                f"count (input log)...', found {shown(' '.join(tokens))}",
                line,
            )
        name = source.new_id(tokens[1], self.records, "unit", line)
        source.integer(tokens[2], "the id of a vtree node", line)
        if kind in "PS":
            count = source.integer(tokens[3], "the number of inputs", line)
            wanted = 4 + (count if kind == "P" else 2 * count)
            if count < 1 or len(tokens) != wanted:
                raise source.error(
                    f"a unit with {count} inputs needs at least one, and {max(wanted, 5)} entries "
                    f"in its line, found {len(tokens)}",
                    line,
                )
        else:
            self._count_states(tokens, line)
        self.records[name] = line, tokens

    def _count_states(self, tokens: list[str], line: int) -> None:
        """Note what an input says about the number of states of its variable."""
        variable, source = self.variable(tokens, line), self.source
        if tokens[0] in "IB":
            what = "a value" if tokens[0] == "I" else "the number of trials"
            states = source.integer(tokens[4], what, line) + 1
        else:
            states = 2 if tokens[0] == "L" else len(tokens) - 4
        if not 1 <= states <= MOST_STATES:
            raise source.error(
                f"values are numbered from 0 and at most {MOST_STATES - 1}, and tables have at "
                f"least one, found {shown(' '.join(tokens))}",
                line,
            )
        self.n_binomial += states if tokens[0] == "B" else 0
        if self.n_binomial > TABLE_ENTRIES + ENTRIES_PER_BYTE * source.size:
            raise source.error(
                f"the tables of the binomial units up to here have {self.n_binomial} entries, too "
                f"many for a file of {source.size} bytes",
                line,
            )
        if tokens[0] == "I":
            self.fewest[variable] = max(states, self.fewest.get(variable, 2))
        elif self.states.setdefault(variable, states) != states:
            before = self.states[variable]
            raise source.error(
                f"variable {variable + 1} has {states} states here and {before} before", line
            )

    def _check_states(self) -> None:
        """Raise if an indicator is at a value, or a unit over a variable, that cannot be."""
        # every scope takes a bit for every variable up to its largest: gaps must be few
        most = max(len(self.records), FEW_VARIABLES)
        for line, tokens in self.records.values():
            if tokens[0] in "PS":
                continue
            variable = self.variable(tokens, line)
            if variable >= most:
                raise self.source.error(
                    f"a file of {len(self.records)} units has variables up to {most}, found "
                    f"{tokens[3]}",
                    line,
                )
            states = self.states.setdefault(variable, self.fewest.get(variable, 2))
            if tokens[0] == "I" and int(tokens[4]) >= states:
                raise self.source.error(
                    f"variable {variable + 1} has {states} states in other units, found "
                    f"the value {tokens[4]}",
                    line,
                )

    def variable(self, tokens: list[str], line: int) -> int:
        """The variable of an input, from 0."""
        if tokens[0] == "L":
            literal = self.source.integer(tokens[3], "a literal", line)
            return self.source.variable(str(abs(literal)), line)
        return self.source.variable(tokens[3], line)

    def root(self) -> Any:
        """The unit of the last record, with all units below it."""
        units: dict[int, Any] = {}
        for name, (line, tokens) in self.records.items():
            if tokens[0] == "P":
                units[name] = product(known(self.source, units, tokens[4:], line))
            elif tokens[0] == "S":
                inputs = known(self.source, units, tokens[4::2], line)
                units[name] = weighted_sum(self.source, inputs, tokens[5::2], line)
            else:
                units[name] = self._input(tokens, line)
        return units[name]

    def _input(self, tokens: list[str], line: int) -> Any:
        """The unit of an input record."""
        variable, kind = self.variable(tokens, line), tokens[0]
        if kind == "L":
            return Indicator(variable, int(int(tokens[3]) > 0), 2)
        if kind == "I":
            return Indicator(variable, int(tokens[4]), self.states[variable])
        if kind == "C":
            log_values = np.asarray(self.source.numbers(tokens[4:], line))
        else:
            n, (log_p,) = int(tokens[4]), self.source.numbers(tokens[5:], line)
            if log_p > ROUNDING:
                raise self.source.error(
                    "the log-probability of a binomial unit must not be above 0, found "
                    f"{tokens[5]}",
                    line,
                )
            (p,) = self.source.weights([log_p], [line])
            k = np.arange(n + 1)
            choices = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
            log_values = choices + special.xlogy(k, p) + special.xlog1py(n - k, -min(p, 1.0))
        return Categorical(variable, self.source.weights(log_values, [line] * len(log_values)))

    def check_vtree(self, vtree: Vtree, ids: dict[int, int] | None) -> None:
        """Raise unless the vtree ids of the records fit a vtree (all 0: there are none)."""
        parent, scope = vtree.parent.tolist(), set(vtree.scope().tolist())
        node: dict[int, int] = {}
        for name, (line, tokens) in self.records.items():
            if tokens[0] in "PS":
                step = 1 if tokens[0] == "P" else 2
                inputs = known(self.source, node, tokens[4::step], line)
                node[name] = _above(inputs, parent) if tokens[0] == "P" else inputs[0]
                continue
            variable = self.variable(tokens, line)
            if variable not in scope:
                raise self.source.error(f"variable {variable + 1} is not in the vtree", line)
            node[name] = vtree.leaf(variable)
        placed = [
            (int(tokens[2]), node[name], line)
            for name, (line, tokens) in self.records.items()
            if node[name] >= 0
        ]
        if any(name != 0 for name, _, _ in placed):
            check_ids(self.source, vtree, ids, *zip(*placed, strict=True))


def _above(inputs: list[int], parent: list[int]) -> int:
    """The vtree node of a product of units at these nodes, -1 if there is no saying."""
    if len(inputs) == 1:
        return inputs[0]
    nodes = {parent[node] if node >= 0 else -1 for node in inputs}
    return nodes.pop() if len(nodes) == 1 and len(set(inputs)) == 2 else -1


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


class _Writer:
    """The records of a circuit, one per unit, inputs first and the root last.

    Units that only pass a product on have no record of their own.
    """

    def __init__(self, circuit: Circuit):
        self.vtree, self.blocks = circuit.vtree, circuit.blocks
        self.vtree_id = circuit.vtree.inorder.tolist()
        self.lines: list[str] = []
        from_leaves(self.vtree, self._inputs, self._units)

    def add(self, record: str) -> int:
        """Write a record and return the number of its unit."""
        self.lines.append(record)
        return len(self.lines) - 1

    def start(self, kind: str, node: int) -> str:
        """The part that all records share."""
        return f"{kind} {len(self.lines)} {self.vtree_id[node]}"

    def input(self, node: int, values: list[float]) -> int:
        """Write a literal or a categorical unit, and return its number."""
        variable = int(self.vtree.variable[node]) + 1
        if values in ([0.0, 1.0], [1.0, 0.0]):
            return self.add(f"{self.start('L', node)} {variable if values[1] else -variable}")
        return self.add(f"{self.start('C', node)} {variable} {' '.join(logs(values))}")

    def product(self, node: int, left: int, right: int) -> int:
        """Write a product of two units, and return its number."""
        return self.add(f"{self.start('P', node)} 2 {left} {right}")

    def sum(self, node: int, inputs: list[int], log_weights: list[str]) -> int:
        """Write a sum of units, and return its number."""
        terms = " ".join(f"{i} {w}" for i, w in zip(inputs, log_weights, strict=True))
        return self.add(f"{self.start('S', node)} {len(inputs)} {terms}")

    def _inputs(self, node: int, variable: int) -> Any:
        tables: Any = self.blocks[node].numbers
        return np.asarray([self.input(node, values) for values in tables.tolist()])

    def _units(self, node: int, left: Any, right: Any) -> Any:
        """Write the products and sums of an inner node and return the numbers of its units."""
        block: Any = self.blocks[node]
        a, b = block.inputs
        pairs = zip(left[a].tolist(), right[b].tolist(), strict=True)
        products = np.asarray([self.product(node, *pair) for pair in pairs])
        if block.numbers is None:
            return products
        csr = block.csr
        inputs = products[csr.indices].tolist()
        weights, log_weights = csr.data.tolist(), logs(csr.data)
        units = []
        for start, stop in pairwise(csr.indptr.tolist()):
            if start == stop:  # zero everywhere
                units.append(self.sum(node, products[:1].tolist(), ["-inf"]))
            elif stop - start == 1 and weights[start] == 1.0 and node != self.vtree.root:
                units.append(inputs[start])
            else:
                units.append(self.sum(node, inputs[start:stop], log_weights[start:stop]))
        return np.asarray(units)


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
    cards = _states(source, *next(records, (1, [])))
    units: dict[int, Any] = {}
    complete = False
    for line, tokens in records:
        if complete:
            raise source.error(f"expected nothing after EOF, found {shown(tokens[0])}", line)
        complete = tokens == ["EOF"]
        if not complete:
            units[len(units)] = _unit(source, cards, units, tokens, line)
    if not complete:
        raise source.error("expected the last line to be EOF; is the file complete?")
    if not units:
        raise source.error("expected at least one unit before EOF")
    root = units[len(units) - 1]
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


def _states(source: Source, line: int, tokens: list[str]) -> list[int]:
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


def _unit(
    source: Source, states: list[int], units: dict[int, Any], tokens: list[str], line: int
) -> Any:
    """The unit in one line."""
    kind, rest = tokens[0], tokens[1:]
    if kind == "v" and len(rest) == 2:
        variable = source.integer(rest[0], "a variable", line)
        value = source.integer(rest[1], "a value", line)
        if not (0 <= variable < len(states) and 0 <= value < states[variable]):
            raise source.error(
                f"variables are 0 to {len(states) - 1} with values as in the first line, found "
                f"variable {variable} with value {value}",
                line,
            )
        return Indicator(variable, value, states[variable])
    if kind == "*" and rest:
        return product(known(source, units, rest, line))
    if kind == "+" and rest and len(rest) % 2 == 0:
        return weighted_sum(source, known(source, units, rest[::2], line), rest[1::2], line)
    raise source.error(
        "expected 'v variable value', '* input...', '+ input log ...' or 'EOF', found "
        f"{shown(' '.join(tokens))}",
        line,
    )


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
    """The records of a `.spn` file."""

    def __init__(self, circuit: Circuit):
        self.indicators: dict[tuple[int, int], int] = {}
        super().__init__(circuit)

    def indicator(self, variable: int, value: int) -> int:
        """The number of an indicator, written if it is new."""
        if (variable, value) not in self.indicators:
            self.indicators[variable, value] = self.add(f"v {variable} {value}")
        return self.indicators[variable, value]

    def input(self, node: int, values: list[float]) -> int:
        """Write an indicator or a sum of some, and return its number."""
        variable = int(self.vtree.variable[node])
        support = [value for value, weight in enumerate(values) if weight] or [0]
        inputs = [self.indicator(variable, value) for value in support]
        if len(support) == 1 and values[support[0]] == 1.0:
            return inputs[0]
        return self.sum(node, inputs, logs([values[value] for value in support]))

    def product(self, node: int, left: int, right: int) -> int:
        """Write a product of two units, and return its number."""
        return self.add(f"* {left} {right}")

    def sum(self, node: int, inputs: list[int], log_weights: list[str]) -> int:
        """Write a sum of units, and return its number."""
        terms = (f"{i} {w}" for i, w in zip(inputs, log_weights, strict=True))
        return self.add("+ " + " ".join(terms))
