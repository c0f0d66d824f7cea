"""From the root down: how likely every unit is to take part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.base import BlockCircuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.queries import leaf_sums
from expectedkernels.circuits.sides import CircuitSide
from expectedkernels.engine.sweep import products_at, upward
from expectedkernels.engine.value import Value, Weights, to_log, weighted

CHUNK = 2**22
"""How many shares of flow along edges are computed at once."""
GATHER_ABOVE = 64
"""Sparse weights with less than one entry in so many are worth looking up edge by edge: a matrix
product is that much faster per entry."""


@dataclass(eq=False)
class Flow:
    """How often every unit of one vtree node is expected to take part."""

    node: int
    # (patterns, units): the posterior probability that a unit is used when the circuit is read as a
    # generative process, summed over the weighted rows of each pattern
    flow: Any
    side: CircuitSide
    values: list[Value]  # the values of all nodes

    @property
    def weights(self) -> Any:
        """The weights of the node's sums, None if it has none."""
        return self.side.circuit.blocks[self.node].weights  # type: ignore[union-attr]

    @property
    def logs(self) -> Any:
        """The logs of the values of the units, shape (patterns, units)."""
        return self._by_pattern(to_log(self.values[self.node]))

    def _by_pattern(self, value: Value) -> Any:
        return value.data.reshape(self.side.operand.copies(self.node), -1)

    @property
    def _weights(self) -> Weights:
        return self.side.operand.weights(self.node)  # type: ignore[return-value]

    @cached_property
    def _inputs(self) -> Value:
        return products_at([self.side.operand], self.values, self.node)

    @cached_property
    def _share(self) -> Any:
        """Flow over value of every unit, on the scale of the (plain) inputs."""
        inputs, value = self._inputs, self.values[self.node]
        same = value.scale is inputs.scale or (
            value.scale is not None
            and inputs.scale is not None
            and np.array_equal(value.scale, inputs.scale)
        )
        if value.is_log or not same:
            value = weighted(inputs, self._weights, 1)
        sums = self._by_pattern(value)
        return np.divide(self.flow, sums, out=np.zeros_like(self.flow), where=sums != 0)

    def below(self, side: str) -> Flow:
        """What the products send to the left (or right) child."""
        circuit, found = self.side.circuit, self.side.operand.patterns
        child = int(getattr(circuit.vtree, side)[self.node])
        index = getattr(circuit.blocks[self.node], side)
        step = getattr(found, side)[self.node]
        sent = self.products
        if step is not None:
            sent = _incidence(step, found.count[child]).T @ sent  # type: ignore[union-attr]
        if index is not None:
            sent = sent @ _incidence(index, circuit.blocks[child].n_units)
        return Flow(child, sent, self.side, self.values)

    @cached_property
    def products(self) -> Any:
        """The flow of the product units, shape (patterns, products)."""
        if self.weights is None:
            return self.flow
        if self._inputs.is_log:
            return self._edge_by_edge[0]
        H = self._by_pattern(self._inputs)
        with np.errstate(over="ignore", invalid="ignore"):  # where the product is zero
            return np.where(H != 0, (self._share @ self.weights) * H, 0.0)

    @property
    def edges(self) -> Any:
        """The flow through every weight, summed over all rows, as the weights are stored.

        A matrix for dense weights, one number per stored entry for sparse ones.
        """
        if self._inputs.is_log:
            return self._edge_by_edge[1]
        weights, H = self.weights, self._by_pattern(self._inputs)
        if not sparse.issparse(weights):
            with np.errstate(over="ignore", invalid="ignore"):  # where there is no edge
                return np.where(weights != 0, weights * (self._share.T @ H), 0.0)
        unit = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
        if np.prod(weights.shape) <= GATHER_ABOVE * weights.nnz:
            with np.errstate(over="ignore"):
                return weights.data * (self._share.T @ H)[unit, weights.indices]
        share, H = np.ascontiguousarray(self._share.T), np.ascontiguousarray(H.T)
        step = max(1, CHUNK // max(1, len(self.flow)))
        parts = [
            np.einsum("en,en->e", share[unit[i : i + step]], H[weights.indices[i : i + step]])
            for i in range(0, weights.nnz, step)
        ]
        return weights.data * np.concatenate(parts)

    @cached_property
    def _edge_by_edge(self) -> tuple[Any, Any]:
        """The flow of products and of weights where values are out of range for plain numbers."""
        csr = sparse.csr_array(self.weights)
        unit = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        sums = self._by_pattern(to_log(weighted(self._inputs, self._weights, 1)))
        H, to_products = self._by_pattern(self._inputs), _incidence(csr.indices, csr.shape[1])
        with np.errstate(divide="ignore"):
            logs = np.log(np.abs(csr.data))
        total, products = np.zeros(csr.nnz), []
        step = max(1, CHUNK // max(1, csr.nnz))
        for i in range(0, len(self.flow), step):
            few = slice(i, i + step)
            below = sums[few][:, unit]
            with np.errstate(invalid="ignore"):
                share = np.exp(logs + H[few][:, csr.indices] - below)
            share = np.where(below > -inf, share, 0.0) * self.flow[few][:, unit]
            total += share.sum(axis=0)
            products.append(share @ to_products)
        if not sparse.issparse(self.weights):
            total = sparse.csr_array((total, csr.indices, csr.indptr), csr.shape).toarray()
        return np.concatenate(products), total


def flows(circuit: BlockCircuit, evidence: Evidence, weights: Any) -> Iterator[Flow]:
    """From the root down, how often every unit is expected to take part in weighted rows.

    Rows that look alike at a node, its patterns, are summed up. That is all that counts of edges
    need, and costs as little as a likelihood. Circuits with several roots take a weight for each,
    (rows, roots).
    """
    todo = [_at_root(circuit, evidence, weights)]
    while todo:
        here = todo.pop()
        yield here
        if not circuit.vtree.is_leaf(here.node):
            todo += [here.below("left"), here.below("right")]


def flow_at(circuit: BlockCircuit, evidence: Evidence, weights: Any, node: int) -> Flow:
    """What `flows` gives for one node."""
    here = _at_root(circuit, evidence, weights)
    while here.node != node:
        is_left = circuit.vtree.is_descendant(node, int(circuit.vtree.left[here.node]))
        here = here.below("left" if is_left else "right")
    return here


def _at_root(circuit: BlockCircuit, evidence: Evidence, weights: Any) -> Flow:
    side = CircuitSide(circuit, evidence)
    rows = side.operand.patterns.rows  # type: ignore[union-attr]
    total: Any = np.asarray(weights, dtype=np.float64).reshape(len(weights), -1)
    if rows is not None:
        total = np.stack([np.bincount(rows, column) for column in total.T], axis=1)
    values = upward([side.operand], leaf_sums(side))
    return Flow(circuit.vtree.root, total, side, values)


def _incidence(index: Any, n: int) -> sparse.csr_array:
    """The 0-1 matrix that adds up what products send to their inputs."""
    return sparse.csr_array(
        (np.ones(len(index)), index, np.arange(len(index) + 1)), (len(index), n)
    )
