"""The parameters of a circuit as one vector, and which of them every row of complete data uses.

In a deterministic circuit a complete row uses one edge at every vtree node, whatever the
parameters. So likelihoods are sums of the logs of the parameters a row uses, and counts are sums
over the rows that use a parameter: two products with one sparse matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import Evidence, as_evidence
from expectedkernels.circuits.inputs import Input, Table
from expectedkernels.circuits.queries import leaf_sums
from expectedkernels.circuits.sampling import descend
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, products_at, upward
from expectedkernels.errors import DataError
from expectedkernels.learning.data import FloatArray, IntArray
from expectedkernels.learning.em import chunks_of
from expectedkernels.learning.statistics import shares


class Parameters:
    """The sum weights and table entries of a discrete circuit, laid end to end.

    Parameters
    ----------
    circuit : Circuit
        Its zeros are no parameters: they stay zero.

    Attributes
    ----------
    start : int array
        Where the parameters of every vtree node start.
    group : int array
        The sum (or input) unit of every parameter, counted through all nodes.
    fan_in : int array
        The number of parameters that are not zero in the group of each one.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = Parameters(ek.factorized([[0.5, 0.5], [0.2, 0.8]]))
    >>> p.shares(np.array([[1.0], [3.0], [0.0], [0.0]]), beta=0.0)[:, 0].tolist()
    [0.25, 0.75, 0.5, 0.5]
    """

    def __init__(self, circuit: Circuit):
        self.circuit = circuit.to("numpy")
        sizes, groups, alive, n_groups = [], [], [], 0
        for block in self.circuit.blocks:
            unit, numbers = _numbers(block)
            sizes.append(len(numbers))
            groups.append(n_groups + unit)
            alive.append(numbers != 0)
            n_groups += block.n_units
        self.start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self.group = np.concatenate(groups).astype(np.intp)
        self.alive = np.concatenate(alive)
        self.fan_in = np.bincount(self.group, self.alive, n_groups).astype(np.intp)[self.group]
        n = len(self.group)
        self._sums = sparse.csr_array((np.ones(n), (self.group, np.arange(n))), (n_groups, n))

    def shares(self, counts: FloatArray, beta: float) -> FloatArray:
        """Counts of the uses of every parameter, (parameters, components), as shares.

        `beta` counts are spread evenly over each group in advance; groups without any counts
        become uniform.
        """
        uniform = (self.alive / np.maximum(self.fan_in, 1))[:, None]
        return shares(counts, beta, lambda x: (self._sums @ x)[self.group], uniform)

    def with_shares(self, weights: FloatArray) -> Circuit:
        """The circuit with other parameters."""
        blocks: list[Input | Inner] = []
        for node, block in enumerate(self.circuit.blocks):
            numbers = weights[self.start[node] : self.start[node + 1]]
            if isinstance(block, Table):
                blocks.append(Table(numbers.reshape(block.table.shape)))
            elif isinstance(block, Inner) and block.weights is not None:
                csr = block.csr
                matrix: Any = sparse.csr_array((numbers, csr.indices, csr.indptr), csr.shape)
                matrix = matrix if block.is_sparse else matrix.toarray()
                blocks.append(
                    Inner(block.n_products, block.n_units, block.left, block.right, matrix)
                )
            else:
                blocks.append(block)
        return Circuit(self.circuit.vtree, tuple(blocks))

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
        evidence = as_evidence(X, self.circuit.cardinalities)
        chunks = chunks_of(self.circuit, evidence, max_bytes)
        if not chunks:
            return sparse.csr_array((0, len(self.group)))
        parts = [self._uses(evidence.rows(rows), rows.start) for rows in chunks]
        return sparse.csr_array(sparse.vstack(parts, format="csr"))

    def _uses(self, evidence: Evidence, first: int) -> sparse.csr_array:
        circuit, n = self.circuit, evidence.n_rows
        side = CircuitSide(circuit, evidence)
        values = upward([side.operand], leaf_sums(side))
        _refuse_impossible(side, values[-1], first)
        used: list[IntArray] = []

        def choose(side: CircuitSide, node: int, block: Inner, units: Any, pattern: Any) -> Any:
            inputs = products_at([side.operand], values, node)
            data = inputs.data.reshape(side.operand.copies(node), -1)
            positive = data > -np.inf if inputs.is_log else data > 0
            entry = _only_entry(block.csr, positive, units, pattern)
            used.append(self.start[node] + entry)
            return block.csr.indices[entry]

        for node, units, _ in descend(circuit, side, np.arange(n), choose):
            block: Any = circuit.blocks[node]
            column = evidence.column(int(circuit.vtree.variable[node]))
            state = np.argmax(column.weights, axis=1)[column.codes]
            used.append(self.start[node] + units * block.cardinality + state)
        columns = np.stack(used, axis=1)
        kept = self.fan_in[columns] > 1
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        shape = (n, len(self.group))
        return sparse.csr_array((np.ones(starts[-1]), columns[kept], starts), shape)


def _numbers(block: Input | Inner) -> tuple[Any, Any]:
    """The parameters of a block, unit by unit, and the unit of each."""
    if isinstance(block, Table):
        return np.repeat(np.arange(block.n_units), block.cardinality), block.table.ravel()
    if isinstance(block, Inner) and block.weights is not None:
        return np.repeat(np.arange(block.n_units), np.diff(block.csr.indptr)), block.csr.data
    return np.empty(0, dtype=np.intp), np.empty(0)


def _only_entry(csr: Any, positive: Any, units: Any, pattern: Any) -> Any:
    """For every row the one entry of its unit's weights whose product is not zero."""
    pairs, place = np.unique(pattern * csr.shape[0] + units, return_inverse=True)
    at, unit = np.divmod(pairs, csr.shape[0])
    fan_in = np.diff(csr.indptr)[unit]
    stops = np.cumsum(fan_in)
    offset = np.repeat(csr.indptr[unit] - (stops - fan_in), fan_in)
    entry = np.arange(stops[-1]) + offset
    return entry[positive[np.repeat(at, fan_in), csr.indices[entry]]][place]


def _refuse_impossible(side: CircuitSide, root: Any, first: int) -> None:
    """Raise if a row has probability zero."""
    data = root.data.reshape(-1)
    possible = data > -np.inf if root.is_log else data > 0
    if not possible.all():
        rows = side.operand.patterns.rows  # type: ignore[union-attr]
        by_row = possible if rows is None else possible[rows]
        raise DataError(
            f"Row {first + int(np.argmin(by_row))} of the data has probability zero under the "
            "structure, whatever its weights. Use a structure with larger support, or drop the "
            "row."
        )
