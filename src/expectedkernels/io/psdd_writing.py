"""Probabilistic sentential decision diagrams in `.psdd` files: writing."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.engine.blocks import Inner
from expectedkernels.errors import CircuitError
from expectedkernels.io.text import LOWEST_LOG, PathLike, plain, write_text
from expectedkernels.io.vtree import write_vtree

NORMALISED = 1e-8
"""How far the log of the circuit's total may be from zero."""
COMMENT = {
    "A": "c L id vtree literal, T id vtree variable log p(1), D id vtree count (prime sub log)*",
    "B": "c L id vtree literal, T id vtree variable log p(0) log p(1), "
    "D id vtree count (prime sub log)*",
}


def write_psdd(
    circuit: Circuit, path: PathLike, vtree_path: PathLike | None = None, dialect: str = "A"
) -> None:
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
    dialect : {"A", "B"}
        Whether input units are written with one number (log p(1)) or two (log p(0), log p(1)).

    Raises
    ------
    CircuitError
        If the circuit cannot be written in this format.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from expectedkernels.circuits.inputs import Table
    >>> from expectedkernels.vtree import Vtree
    >>> fair = Circuit.from_blocks(Vtree.balanced(1), [Table(np.array([[0.5, 0.5]]))])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fair.psdd")
    ...     write_psdd(fair, path, dialect="B")
    ...     print(Path(path).read_text())
    c L id vtree literal, T id vtree variable log p(0) log p(1), D id vtree count (prime sub log)*
    psdd 1
    T 0 0 1 -0.6931471805599453 -0.6931471805599453
    """
    if dialect not in COMMENT:
        raise CircuitError(
            f"The 'dialect' parameter of write_psdd must be 'A' or 'B'. Got {dialect!r} instead."
        )
    circuit = plain(circuit, ".psdd")
    records = _Writer(circuit, dialect).records()
    write_text(path, [COMMENT[dialect], f"psdd {len(records)}", *records])
    if vtree_path is not None:
        write_vtree(circuit.vtree, vtree_path)


class _Writer:
    """The records of a circuit, and for every unit its id and the log of its total."""

    def __init__(self, circuit: Circuit, dialect: str):
        self.circuit, self.dialect = circuit, dialect
        self.vtree_id = circuit.vtree.inorder.tolist()
        self.lines: list[str] = []
        self.ids: list[Any] = []
        self.log_total: list[Any] = []

    def records(self) -> list[str]:
        """One record per unit that is not zero everywhere, children first."""
        for node, block in enumerate(self.circuit.blocks):
            if isinstance(block, Inner):
                self._decisions(node, block)
            else:
                self._inputs(node, block)
        total = float(self.log_total[-1][0])
        if not abs(total) <= NORMALISED:
            raise CircuitError(
                "A .psdd file holds a normalised circuit, but the log of the sum of this one's "
                f"values is {total:.12g}. Write p.normalize() instead."
            )
        return self.lines

    def _number(self, exists: Any) -> Any:
        """New ids for the units that exist, -1 for the others."""
        return np.where(exists, len(self.lines) + np.cumsum(exists) - 1, -1)

    def _inputs(self, node: int, block: Any) -> None:
        """Literals for one-hot tables, true units for the others."""
        variable = int(self.circuit.vtree.variable[node])
        if block.cardinality != 2:
            raise CircuitError(
                "A .psdd file holds binary variables. Got "
                f"{block.cardinality} states of variable {variable}; use write_jpc instead."
            )
        with np.errstate(divide="ignore"):
            log = np.log(np.asarray(block.table, dtype=np.float64))
        self.log_total.append(np.logaddexp(log[:, 0], log[:, 1]))
        exists = self.log_total[-1] > -np.inf
        self.ids.append(self._number(exists))
        log = log[exists] - self.log_total[-1][exists, None]
        _check_range(log[log > -np.inf].min(initial=0.0))
        for name, (log0, log1) in zip(self.ids[-1][exists].tolist(), log.tolist(), strict=True):
            start = f"{name} {self.vtree_id[node]}"
            self.lines.append(self._input(start, variable + 1, log0, log1))

    def _input(self, start: str, variable: int, log0: float, log1: float) -> str:
        """The record of one input unit with values that sum to one."""
        if -np.inf in (log0, log1):
            return f"L {start} {-variable if log0 == 0 else variable}"
        if log1 > log0:  # so that reading finds the small value to full precision
            log1 = float(np.log1p(-np.exp(log0)))
        numbers = [log1] if self.dialect == "A" else [log0, log1]
        return f"T {start} {variable} {' '.join(map(repr, numbers))}"

    def _decisions(self, node: int, block: Inner) -> None:
        """One decision per unit; pass-through units have one element."""
        vtree, csr = self.circuit.vtree, block.csr
        a, b = int(vtree.left[node]), int(vtree.right[node])
        unit = np.repeat(np.arange(block.n_units), np.diff(csr.indptr))
        left, right = block.index("left")[csr.indices], block.index("right")[csr.indices]
        log = (
            np.log(csr.data, dtype=np.float64) + self.log_total[a][left] + self.log_total[b][right]
        )
        alive = log > -np.inf
        unit, left, right, log = unit[alive], left[alive], right[alive], log[alive]
        total = _log_sum(unit, log, block.n_units)
        log = log - total[unit]
        _check_range(log.min(initial=0.0))
        self.log_total.append(total)
        self.ids.append(self._number(total > -np.inf))
        elements = [
            f"{prime} {sub} {weight!r}"
            for prime, sub, weight in zip(
                self.ids[a][left].tolist(), self.ids[b][right].tolist(), log.tolist(), strict=True
            )
        ]
        count = np.bincount(unit, minlength=block.n_units).tolist()
        stop = 0
        for name, k in zip(self.ids[-1].tolist(), count, strict=True):
            start, stop = stop, stop + k
            if k:
                head = f"D {name} {self.vtree_id[node]} {k} "
                self.lines.append(head + " ".join(elements[start:stop]))


def _log_sum(group: Any, logs: Any, n: int) -> Any:
    """The log of the sum of the numbers with these logs, in every group."""
    top = np.full(n, -np.inf)
    np.maximum.at(top, group, logs)
    sums = np.bincount(group, np.exp(logs - top[group]), minlength=n)
    return np.where(sums > 0, top, 0.0) + np.log(sums, where=sums > 0, out=np.full(n, -np.inf))


def _check_range(log: float) -> None:
    """Raise if a reader that holds weights as doubles would lose this one."""
    if log < LOWEST_LOG:
        raise CircuitError(
            f"After normalising its units, this circuit has a log weight of {log:.6g}, below the "
            f"range of doubles ({LOWEST_LOG:.1f}); use save() instead."
        )
