"""The parameters of a circuit as one vector, and which of them every row of complete data uses.

In a deterministic circuit a complete row uses one edge at every vtree node, whatever the
parameters. So likelihoods are sums of the logs of the parameters a row uses, and counts are sums
over the rows that use a parameter: two products with one sparse matrix.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import as_evidence
from expectedkernels.circuits.observed import chunks, observed
from expectedkernels.engine.descend import Choice, descend, walked_to
from expectedkernels.engine.semiring import LOGIC, lifted, products_over, up_over
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import DataError
from expectedkernels.learning.data import FloatArray, IntArray
from expectedkernels.learning.em import stored_alike
from expectedkernels.learning.statistics import shares


class Parameters:
    """The sum weights and table entries of a discrete circuit, laid end to end.

    Those of a vtree node begin at its `start`. Every one has the number of its unit, counted
    through all nodes, as its `group`, and as its `fan_in` how many in that are not zero. Zeros stay
    zero.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = Parameters(ek.factorized([[0.5, 0.5], [0.2, 0.8]]))
    >>> p.shares(np.array([[1.0], [3.0], [0.0], [0.0]]), beta=0.0)[:, 0].tolist()
    [0.25, 0.75, 0.5, 0.5]
    """

    def __init__(self, circuit: Circuit):
        self.circuit = circuit.to("numpy")
        numbers, fan_in = zip(*map(_numbers, self.circuit.blocks), strict=True)
        self.start = np.cumsum([0, *map(len, numbers)])
        counts = np.concatenate(fan_in)
        self.group = np.repeat(np.arange(len(counts)), counts)
        self.alive = np.concatenate(numbers) != 0
        self.fan_in = np.bincount(self.group, self.alive).astype(np.intp)[self.group]
        n = len(self.group)
        self._sums = sparse.csr_array((np.ones(n), (self.group, np.arange(n))), (len(counts), n))

    def shares(self, counts: FloatArray, beta: float) -> FloatArray:
        """Counts of the uses of every parameter, (parameters, components), as shares.

        `beta` counts are spread evenly over each group in advance; groups without any counts
        become uniform.
        """
        uniform = (self.alive / np.maximum(self.fan_in, 1))[:, None]
        return shares(counts, beta, lambda x: (self._sums @ x)[self.group], uniform)

    def with_shares(self, weights: FloatArray) -> Circuit:
        """The circuit with other parameters."""
        parts = np.split(weights, self.start[1:-1])
        return Circuit(self.circuit.vtree, tuple(map(_refilled, self.circuit.blocks, parts)))

    def uses(self, X: Any, max_bytes: int = DEFAULT_MAX_BYTES) -> sparse.csr_array:
        """Which parameters complete rows use, a 0-1 matrix of shape (rows, parameters).

        The circuit must be deterministic. Parameters that are alone in their group are one in
        any case, and left out.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = Parameters(ek.factorized([[0.5, 0.5], [0.2, 0.8]]))
        >>> p.uses([[0, 1], [1, 1]]).toarray().astype(int).tolist()
        [[1, 0, 0, 1], [0, 1, 0, 1]]
        """
        circuit = self.circuit
        evidence = as_evidence(X, circuit.cardinalities)
        n = evidence.n_rows
        possible = np.ones(n, dtype=np.bool_)
        used: list[Any] = []
        for rows in chunks(circuit.levels, n, max_bytes):
            atoms = observed(circuit, circuit.levels, evidence.rows(rows)).values > 0
            atoms = atoms.reshape(len(atoms), -1)
            values = up_over(LOGIC, circuit.levels, self._logic, atoms)
            possible[rows] = values[-1]
            _refuse_impossible(possible)
            used.append(self._walked(values, atoms))
        if not used:
            return sparse.csr_array((0, len(self.group)))
        columns = np.concatenate(used)
        kept = self.fan_in[columns] > 1
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        shape = (n, len(self.group))
        return sparse.csr_array((np.ones(starts[-1]), columns[kept], starts), shape)

    def _walked(self, values: Any, atoms: Any) -> IntArray:
        """The parameters that rows use, (rows, nodes), given which units are not zero there."""
        levels, n = self.circuit.levels, atoms.shape[1]
        used: list[Any] = []

        def choose(choice: Choice) -> Any:
            edges = choice.level.all_edges
            products = products_over(LOGIC, levels, choice.number, values, atoms)
            row = np.tile(np.arange(n), len(choice.nodes))

            def scores(places: Any, at: Any) -> Any:
                return products[edges.products[at], row[places]]

            goals = np.ones(len(row), dtype=np.bool_)
            chosen = walked_to(edges, choice.flat, scores, goals).reshape(choice.units.shape)
            used.append(self._places[choice.number][chosen])
            return chosen

        descend(levels, n, choose)
        return np.concatenate(used).T

    @cached_property
    def _logic(self) -> list[Any]:
        return lifted(LOGIC, self.circuit.levels)

    @cached_property
    def _places(self) -> list[IntArray]:
        """The parameters that the edges of every level are."""
        places = []
        for level in self.circuit.levels.levels:
            edges = level.all_edges
            node = level.node_of_unit[edges.units]
            if level.inputs is None:
                width = np.diff(level.product_starts)[node]
                place = (edges.units - level.unit_starts[node]) * width
                place += edges.products - level.product_starts[node]
            else:
                place = np.arange(len(node)) - edges.starts[level.unit_starts[node]]
            places.append(self.start[level.nodes[node]] + place)
        return places


def _numbers(block: Any) -> tuple[Any, Any]:
    """The parameters of a block, unit by unit, and how many each unit has."""
    if block.numbers is None:
        return np.empty(0), np.zeros(block.n_units, dtype=np.intp)
    numbers, starts = block.flat
    return numbers, np.diff(starts)


def _refilled(block: Any, numbers: Any) -> Any:
    """A block with other parameters."""
    return block if block.numbers is None else stored_alike(block, block.refilled(numbers))


def _refuse_impossible(possible: Any) -> None:
    """Raise if a row has probability zero."""
    if not possible.all():
        raise DataError(
            f"Row {int(np.argmin(possible))} of the data has probability zero under the "
            "structure, whatever its weights. Use a structure with larger support, or drop the "
            "row."
        )
