"""Structure search on data with missing values: expected flows, and EM for the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import Evidence
from expectedkernels.circuits.inputs import Input
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.learning.blocks import Plan, blocks_of, plan
from expectedkernels.learning.candidates import Candidates
from expectedkernels.learning.chow_liu import EM_ITERATIONS, EM_TOLERANCE, ChowLiuTree
from expectedkernels.learning.data import MISSING, FloatArray, IntArray
from expectedkernels.learning.em import chunks_of, em, expected_counts
from expectedkernels.learning.flows import flow_at
from expectedkernels.learning.logical import NOTHING, Logical, Split, tree_circuit
from expectedkernels.learning.statistics import group_sums, shares
from expectedkernels.vtree import Vtree

RESOLUTION = 1e-9
"""Expected flows are equal if they differ by less than this part of the data."""


class IncompleteSearch:
    """A circuit with weights, and what rows with missing values say of it, changed by splits.

    After every split there is one step of EM, started at weights for which the circuit is the
    same distribution as before.

    It starts at the blocks of a tree's circuit, not minimised. The rows, their weights and `beta`
    are as in `CompleteSearch`.
    """

    def __init__(
        self,
        tree: ChowLiuTree,
        blocks: list[Input | Inner],
        states: IntArray,
        weights: FloatArray,
        beta: float,
    ) -> None:
        start = tree_circuit(tree)
        self.circuit = start.circuit
        self.beta = beta
        self.totals = np.maximum(weights.sum(axis=1), np.finfo(np.float64).tiny).tolist()
        self._theta = np.ones(len(self.circuit.sum_of))
        for edges, weights_at in zip(start.edges, map(_dense, blocks), strict=True):
            if edges is not None and weights_at is not None:
                self._theta[edges] = weights_at
        train = weights[0] > 0
        self.states, self.weights = states[train], weights[0, train]
        self._rows = np.where(self.states == MISSING, np.nan, self.states)
        self._evidence = Evidence(tree.cardinalities, self._rows)
        self._valid = None
        if len(weights) > 1:
            valid = weights[1] > 0
            self._valid = np.where(states[valid] == MISSING, np.nan, states[valid])
            self._valid_weights = weights[1, valid]
        self._refit()
        self._kept = self._model

    def _refit(self) -> None:
        """One step of EM, which gives flows on the way."""
        self._plan = plan(self.circuit)
        model = _model(self.circuit, self._plan, self._theta)
        self._chunks = chunks_of(model, self._evidence, DEFAULT_MAX_BYTES)
        _, counts = expected_counts(model, self._evidence, self.weights, self._chunks)
        flow = np.zeros(len(self.circuit.sum_of))
        for part, found in zip(self._plan, counts, strict=True):
            if found is not None:
                flow[part.edges] = part.counts(found[0])
        edges = np.concatenate([part.edges for part in self._plan])
        sums = group_sums(np.asarray(self.circuit.sum_of)[edges])
        self._theta = np.ones(len(flow))
        self._theta[edges] = shares(flow[edges], self.beta, sums)
        self._model = _model(self.circuit, self._plan, self._theta)
        quantum = RESOLUTION * self.totals[0]
        self.candidates = Candidates()
        for edge in edges.tolist():
            if self.circuit.is_splittable(edge):
                self.candidates.put(edge, round(float(flow[edge]) / quantum))
        self.log_likelihoods = [
            float(self.weights @ self._model.log_likelihood(self._evidence)) / self.totals[0]
        ]
        if self._valid is not None:
            logs = self._model.log_likelihood(self._valid)
            self.log_likelihoods.append(float(self._valid_weights @ logs) / self.totals[1])

    def rows_through(self, edge: int) -> tuple[IntArray, FloatArray]:
        """Training rows that may use an edge, weighted by how likely they do.

        Rows that look alike below the edge come once, with the sum of their weights.
        """
        node = self.circuit.node[self.circuit.sum_of[edge]]
        column = int(np.flatnonzero(self._plan[node].edges == edge)[0])
        states, weights = [], []
        for rows in self._chunks:
            chunk = self._evidence if len(self._chunks) == 1 else self._evidence.rows(rows)
            first = _first_rows(self.circuit.vtree, chunk, node)
            found = flow_at(self._model, chunk, self.weights[rows], node)
            states.append(self.states[rows][first])
            weights.append(found.products[:, column])
        return np.concatenate(states), np.concatenate(weights)

    def split(self, edge: int, variable: int) -> None:
        """Split the circuit, and fit its weights."""
        done = self.circuit.split(edge, variable)
        missing = len(self.circuit.sum_of) - len(self._theta)
        self._theta = np.pad(self._theta, (0, missing), constant_values=1.0)
        _inherit(self.circuit, done, self._theta)
        self._refit()

    def keep(self) -> None:
        """Remember the present circuit as the one to return."""
        self._kept = self._model

    def kept(self) -> Circuit:
        """The circuit that was kept last, after EM until it converges; not minimised."""
        if not len(self._rows):
            return self._kept
        return em(
            self._kept,
            self._rows,
            EM_ITERATIONS,
            pseudocount=self.beta / float(self.weights.mean()),
            sample_weight=self.weights,
            tolerance=EM_TOLERANCE,
            progress=False,
        )


def _dense(block: Any) -> Any:
    """The numbers of a block as a matrix, None if it has none."""
    return block.numbers.toarray() if sparse.issparse(block.numbers) else block.numbers


def _model(circuit: Logical, plans: Plan, theta: FloatArray) -> Circuit:
    """The circuit with these weights, not minimised: every edge keeps its place."""
    return Circuit(circuit.vtree, tuple(blocks_of(circuit, plans, theta)))


def _first_rows(vtree: Vtree, evidence: Evidence, node: int) -> IntArray:
    """For every pattern at a vtree node the first row that has it."""
    found = evidence.patterns(vtree)
    pattern = np.arange(evidence.n_rows) if found.rows is None else found.rows
    above = vtree.root
    while above != node:
        on_left = vtree.is_descendant(node, int(vtree.left[above]))
        step = (found.left if on_left else found.right)[above]
        pattern = pattern if step is None else step[pattern]
        above = int((vtree.left if on_left else vtree.right)[above])
    return np.unique(pattern, return_index=True)[1]


def _inherit(circuit: Logical, done: Split, theta: FloatArray) -> None:
    """Give the edges of a split the weights for which the distribution stays the same.

    Every copy of a unit becomes the conditional distribution given the state of the variable.
    """
    cardinality = circuit.cardinalities[done.variable]
    mass: dict[int, Any] = {}
    for level in reversed(done.levels):
        shares = [
            theta[edge] * _mass(circuit, circuit.input_of[edge], done.variable, mass)
            for edge in level.edges
        ]
        for edge, share in zip(level.edges, shares, strict=True):
            unit = circuit.sum_of[edge]
            mass[unit] = mass.get(unit, np.zeros(cardinality)) + share
        for edge, share, moved in zip(level.edges, shares, level.moved, strict=True):
            top = level is done.levels[0]
            total = np.ones(cardinality) if top else mass[circuit.sum_of[edge]]
            for state, new in enumerate(moved):
                if new != NOTHING:
                    fan_in = len(circuit.edges[circuit.sum_of[new]])
                    theta[new] = share[state] / total[state] if total[state] > 0 else 1.0 / fan_in


def _mass(circuit: Logical, unit: int, variable: int, mass: dict[int, Any]) -> Any:
    """The probability of every state of a variable under a unit."""
    if circuit.left[unit] >= 0:
        states = circuit.states[variable]
        left = circuit.left[unit]
        unit = left if circuit.seen[left] & states else circuit.right[unit]
    if unit in mass:
        return mass[unit]
    only = np.zeros(circuit.cardinalities[variable])
    bits = (circuit.seen[unit] & circuit.states[variable]) >> circuit.first[variable]
    only[bits.bit_length() - 1] = 1.0
    return only
