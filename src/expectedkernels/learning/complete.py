"""Structure search on complete data: which edges every row uses, kept up to date by splits.

In a deterministic circuit a complete row uses one edge at every vtree node. These edges are all
that flows, weights and log-likelihoods need, and a split moves only the rows of one edge, at the
nodes between the edge and the variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import xlogy

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.learning.blocks import blocks_of, plan
from expectedkernels.learning.candidates import Candidates
from expectedkernels.learning.chow_liu import ChowLiuTree
from expectedkernels.learning.data import FloatArray, IntArray
from expectedkernels.learning.logical import NOTHING, Level, Split, tree_circuit
from expectedkernels.learning.statistics import group_sums, shares


class CompleteSearch:
    """A circuit and what complete rows of data say of it, changed by splits.

    It starts at a tree. The weights, (sets, rows), say how much every row counts in the training
    data, and in the validation data if there is any; `beta` is the pseudocount.
    """

    def __init__(
        self, tree: ChowLiuTree, states: IntArray, weights: FloatArray, beta: float
    ) -> None:
        self._start = (tree, states, weights, beta)
        self._done: list[tuple[int, int]] = []
        self._kept, self._torn = 0, False
        start = tree_circuit(tree)
        self.circuit = start.circuit
        # small numbers: gathering rows of them is much of the work
        self.states = states.astype(np.min_scalar_type(max(tree.cardinalities)))
        self.weights, self.beta = weights, beta
        self.totals = np.maximum(weights.sum(axis=1), np.finfo(np.float64).tiny).tolist()
        n_sets, n_edges = len(weights), len(self.circuit.sum_of)
        self._used = np.full((tree.vtree.n_nodes, len(states)), NOTHING, dtype=np.int32)
        self._flow = np.zeros((n_sets, 2 * n_edges))
        self._terms = np.zeros((n_sets, 2 * len(self.circuit.node)))
        self._place = np.full(2 * n_edges, -1, dtype=np.intp)
        for node, edges in enumerate(start.edges):
            if edges is not None:
                self._used[node] = _tree_edges(tree, states, node, edges)
        for counts, w in zip(self._flow, weights, strict=True):
            for used in self._used[[edges is not None for edges in start.edges]]:
                counts += np.bincount(used, w, minlength=len(counts))
        self.candidates = Candidates()
        for edge, flow in enumerate(self._flow[0, :n_edges].tolist()):
            if self.circuit.is_splittable(edge):
                self.candidates.put(edge, flow)
        self._update_terms(list(self.circuit.sums()))

    @property
    def log_likelihoods(self) -> list[float]:
        """The mean log-likelihood of every set of rows."""
        return [
            float(terms.sum()) / total
            for terms, total in zip(self._terms, self.totals, strict=True)
        ]

    def rows_through(self, edge: int) -> tuple[IntArray, FloatArray]:
        """The training rows that use an edge, and their weights."""
        node = self.circuit.node[self.circuit.sum_of[edge]]
        rows = np.flatnonzero((self._used[node] == edge) & (self.weights[0] > 0))
        return self.states[rows], self.weights[0, rows]

    def split(self, edge: int, variable: int) -> None:
        """Split the circuit, and move the rows that are concerned. Cost: what changes."""
        self._torn = True  # until all is done: an interrupt may come in between
        done = self.circuit.split(edge, variable)
        self._make_room()
        rows = np.flatnonzero(self._used[done.node] == edge)
        states = self.states[rows, done.variable]
        for level in done.levels:
            self._move(level, rows, states)
        for gone in done.dead:
            self.candidates.remove(gone)
            self._terms[:, self.circuit.sum_of[gone]] = 0.0  # if the sum is left: set again below
        self._update_terms(done.sums)
        self._update_candidates(done)
        self._done.append((edge, variable))
        self._torn = False

    def keep(self) -> None:
        """Remember the present circuit as the one to return."""
        self._kept = len(self._done)

    def kept(self) -> Circuit:
        """The circuit that was kept last; splits after that are forgotten.

        Going back means to start again and repeat the splits, without choosing them.
        """
        if self._kept == len(self._done) and not self._torn:
            return self.to_circuit()
        again = CompleteSearch(*self._start)
        for edge, variable in self._done[: self._kept]:
            again.split(edge, variable)
        return again.to_circuit()

    def _make_room(self) -> None:
        """Let arrays be longer than what they are indexed by; NOTHING points to their end."""
        missing = len(self.circuit.sum_of) + 1 - len(self._place)
        if missing > 0:
            missing += len(self._place)
            self._place = np.pad(self._place, (0, missing), constant_values=-1)
            self._flow = np.pad(self._flow, ((0, 0), (0, missing)))
        missing = len(self.circuit.node) - self._terms.shape[1]
        if missing > 0:
            missing += self._terms.shape[1]
            self._terms = np.pad(self._terms, ((0, 0), (0, missing)))

    def _move(self, level: Level, rows: IntArray, states: IntArray) -> None:
        """Let rows use other edges at one node, and the flow with them."""
        old = np.asarray(level.edges, dtype=np.intp)
        moved = np.asarray(level.moved, dtype=np.intp)
        self._place[old] = np.arange(len(old))
        place = self._place[self._used[level.node, rows]]
        self._place[old] = -1
        concerned = place >= 0
        if not concerned.all():
            rows, states, place = rows[concerned], states[concerned], place[concerned]
        cell = place * moved.shape[1] + states
        new = moved.ravel()
        self._used[level.node, rows] = new[cell]
        there = new != NOTHING
        for flow, weights in zip(self._flow, self.weights, strict=True):
            sent = np.bincount(cell, weights[rows], minlength=moved.size)
            flow[old] -= sent.reshape(moved.shape).sum(axis=1)
            flow[new[there]] = sent[there]

    def _weights_of(self, sums: Sequence[int]) -> tuple[IntArray, IntArray, FloatArray]:
        """The edges of some sums, the place of each one's sum, and its weight in closed form."""
        edges = [self.circuit.edges[unit] for unit in sums]
        every = np.asarray([edge for part in edges for edge in part], dtype=np.intp)
        unit = np.repeat(np.arange(len(sums)), [len(part) for part in edges])
        return every, unit, shares(self._flow[0, every], self.beta, group_sums(unit))

    def _update_terms(self, sums: list[int]) -> None:
        """What sums add to the log-likelihoods: flow times log weight, over their edges."""
        edges, unit, weights = self._weights_of(sums)
        for terms, flow in zip(self._terms, self._flow, strict=True):
            terms[sums] = np.bincount(unit, xlogy(flow[edges], weights), minlength=len(sums))

    def _update_candidates(self, done: Split) -> None:
        circuit, candidates = self.circuit, self.candidates
        for level in done.levels:
            flow = self._flow[0]
            for edge in level.edges:
                if edge in candidates:
                    candidates.put(edge, float(flow[edge]))
            for row in level.moved:
                for edge in row:
                    if edge != NOTHING and circuit.is_splittable(edge):
                        candidates.put(edge, float(flow[edge]))

    def to_circuit(self) -> Circuit:
        """The circuit with the weights that fit the training rows best, not minimised."""
        weights = np.zeros(len(self.circuit.sum_of))
        edges, _, found = self._weights_of(list(self.circuit.sums()))
        weights[edges] = found
        blocks = blocks_of(self.circuit, plan(self.circuit), weights)
        return Circuit(self.circuit.vtree, tuple(blocks))


def _tree_edges(tree: ChowLiuTree, states: IntArray, node: int, edges: Any) -> IntArray:
    """The edge that every row uses at a node of a tree's circuit."""
    variable = tree.layout.top[node]
    parent = tree.forest.parent[variable]
    context = np.zeros(len(states), dtype=np.intp) if parent < 0 else states[:, parent]
    grouped = not (tree.vtree.is_leaf(node) or tree.layout.decides[node])
    return edges[context, 0 if grouped else states[:, variable]]
