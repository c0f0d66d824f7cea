"""Strudel: circuits grown by splits, with and without missing values, and mixtures of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import logsumexp, xlogy

from expectedkernels import arrays, checks
from expectedkernels.checks import CircuitError, DataError, check_count, check_real, progress_bar
from expectedkernels.circuits.build import blocks_beside, mixture, with_root_weights
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.conditioning import active_edges, chunks
from expectedkernels.circuits.queries import deterministic, log_values
from expectedkernels.data.evidence import as_evidence
from expectedkernels.data.schema import Schema
from expectedkernels.learning import chow_liu, em, structure_search, training_data
from expectedkernels.learning.chow_liu import EM_ITERATIONS, EM_TOLERANCE, ChowLiuTree
from expectedkernels.learning.structure_search import (
    NOTHING,
    Split,
    SplitStructure,
    weighted_circuit,
)
from expectedkernels.learning.training_data import Data, FloatArray, IntArray, Step, fit_weights


class CompleteSearch:
    """A circuit and what complete rows of data say of it, changed by splits.

    It starts at a tree. The weights, (sets, rows), say how much every row counts in the training
    data, and in the validation data if there is any; `beta` is the pseudocount.
    """

    def __init__(self, tree: ChowLiuTree, states: IntArray, weights: FloatArray, beta: float):
        self._start = (tree, states, weights, beta)
        self._done: list[tuple[int, int]] = []
        self._torn = False
        self.circuit, start = structure_search.tree_circuit(tree)
        # small numbers: gathering rows of them is much of the work
        self.states = states.astype(np.min_scalar_type(max(tree.cardinalities)))
        self.weights, self.beta = weights, beta
        self.totals = np.maximum(weights.sum(axis=1), np.finfo(np.float64).tiny).tolist()
        n_sets, n_edges = len(weights), len(self.circuit.sum_of)
        self._used = np.full((tree.vtree.n_nodes, len(states)), NOTHING, dtype=np.int32)
        self._flow = np.zeros((n_sets, 2 * n_edges))
        self._terms = np.zeros((n_sets, 2 * len(self.circuit.node)))
        self._index = np.full(2 * n_edges, -1, dtype=np.intp)
        self._open = np.zeros(2 * n_edges, dtype=np.bool_)  # edges that can be split
        for node, edges in enumerate(start):
            if edges is not None:
                self._used[node] = _tree_edges(tree, states, node, edges)
        for counts, w in zip(self._flow, weights, strict=True):
            for used in self._used[[edges is not None for edges in start]]:
                counts += np.bincount(used, w, minlength=len(counts))
        self._open[:n_edges] = [*map(self.circuit.is_splittable, range(n_edges))]
        self._update_terms(self.circuit.sums())

    @property
    def log_likelihoods(self) -> list[float]:
        """The mean log-likelihood of every set of rows."""
        return [float(x.sum()) / n for x, n in zip(self._terms, self.totals, strict=True)]

    def rows_through(self, edge: int) -> tuple[IntArray, FloatArray]:
        """The training rows that use an edge, and their weights."""
        node = self.circuit.node[self.circuit.sum_of[edge]]
        rows = np.flatnonzero((self._used[node] == edge) & (self.weights[0] > 0))
        return self.states[rows], self.weights[0, rows]

    def split(self, edge: int, variable: int) -> None:
        """Split the circuit, and move the rows that are concerned. Cost: what changes."""
        self._torn = True  # until all is done: an interrupt may come in between
        done = self.circuit.split(edge, variable)
        # arrays are longer than what they are indexed by; NOTHING points to their end
        n_edges, n_units = len(self.circuit.sum_of) + 1, len(self.circuit.node)
        self._index, self._terms = _longer(self._index, n_edges, -1), _longer(self._terms, n_units)
        self._flow, self._open = (_longer(x, n_edges) for x in (self._flow, self._open))
        rows = np.flatnonzero(self._used[done.node] == edge)
        states = self.states[rows, done.variable]
        for level in done.levels:
            self._move(level, rows, states)
        for level in done.levels:
            new = [edge for row in level.moved for edge in row if edge != NOTHING]
            self._open[new] = [*map(self.circuit.is_splittable, new)]
        self._open[done.dead] = False
        # if a sum is left, its terms are set again below
        self._terms[:, [self.circuit.sum_of[gone] for gone in done.dead]] = 0.0
        self._update_terms(done.sums)
        self._done.append((edge, variable))
        self._torn = False

    @property
    def candidates(self) -> tuple[IntArray, FloatArray]:
        """The edges that can be split, and their flows."""
        edges = np.flatnonzero(self._open)
        return edges, self._flow[0, edges]

    @property
    def state(self) -> int:
        """What `circuit_at` takes: the number of splits."""
        return len(self._done)

    def circuit_at(self, state: int) -> Circuit:
        """The circuit after so many splits.

        Going back means to start again and repeat the splits, without choosing them.
        """
        if state == len(self._done) and not self._torn:
            return self.to_circuit()
        again = CompleteSearch(*self._start)
        for edge, variable in self._done[:state]:
            again.split(edge, variable)
        return again.to_circuit()

    def _move(self, level: structure_search.Level, rows: IntArray, states: IntArray) -> None:
        """Let rows use other edges at one node, and the flow with them."""
        old = np.asarray(level.edges, dtype=np.intp)
        moved = np.asarray(level.moved, dtype=np.intp)
        self._index[old] = np.arange(len(old))
        place = self._index[self._used[level.node, rows]]
        self._index[old] = -1
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
        own = np.asarray([edge for part in edges for edge in part], dtype=np.intp)
        unit = np.repeat(np.arange(len(sums)), [len(part) for part in edges])
        return own, unit, fit_weights(self._flow[0, own], self.beta, training_data.group_sums(unit))

    def _update_terms(self, sums: list[int]) -> None:
        """What sums add to the log-likelihoods: flow times log weight, over their edges."""
        edges, unit, weights = self._weights_of(sums)
        for terms, flow in zip(self._terms, self._flow, strict=True):
            terms[sums] = np.bincount(unit, xlogy(flow[edges], weights), minlength=len(sums))

    def to_circuit(self) -> Circuit:
        """The circuit with the weights that fit the training rows best, not minimised."""
        weights = np.zeros(len(self.circuit.sum_of))
        edges, _, found = self._weights_of(self.circuit.sums())
        weights[edges] = found
        return weighted_circuit(self.circuit, structure_search.plan(self.circuit), weights)


def _longer(array: Any, n: int, fill: int = 0) -> Any:
    """The array with space for so many along its last axis: if there was none, twice as much."""
    more = n - array.shape[-1]
    if more <= 0:
        return array
    room = [(0, 0)] * (array.ndim - 1) + [(0, more + array.shape[-1])]
    return np.pad(array, room, constant_values=fill)


def _tree_edges(tree: ChowLiuTree, states: IntArray, node: int, edges: Any) -> IntArray:
    """The edge that every row uses at a node of a tree's circuit."""
    variable = tree.top[node]
    parent = tree.forest.parent[variable]
    context = np.zeros(len(states), dtype=np.intp) if parent < 0 else states[:, parent]
    grouped = not (tree.vtree.is_leaf(node) or tree.decides[node])
    return edges[context, 0 if grouped else states[:, variable]]


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
        self, tree: ChowLiuTree, blocks: list[Any], X: FloatArray, weights: FloatArray, beta: float
    ):
        self.circuit, start = structure_search.tree_circuit(tree)
        self.beta = beta
        self.totals = np.maximum(weights.sum(axis=1), np.finfo(np.float64).tiny).tolist()
        self._theta = np.ones(len(self.circuit.sum_of))
        for edges, block in zip(start, blocks, strict=True):
            if edges is not None and block.numbers is not None:
                numbers = block.numbers
                self._theta[edges] = numbers.toarray() if sparse.issparse(numbers) else numbers
        schema = Schema(tuple(tree.cardinalities))
        self._sets = [Data(schema, X[w > 0], w[w > 0]) for w in weights]
        self.rows = self._sets[0].held
        self._refit()

    def _refit(self) -> None:
        """One step of EM, which gives flows on the way."""
        self._plan = structure_search.plan(self.circuit)
        model = weighted_circuit(self.circuit, self._plan, self._theta)
        _, counts = em.expected_counts(model, self.rows)
        flow = np.zeros(len(self.circuit.sum_of))
        for part, found in zip(self._plan, counts, strict=True):
            if found is not None:
                flow[part.edges] = found[0][part.place]
        edges = np.concatenate([part.edges for part in self._plan])
        sums = training_data.group_sums(np.asarray(self.circuit.sum_of)[edges])
        self._theta = np.ones(len(flow))
        self._theta[edges] = fit_weights(flow[edges], self.beta, sums)
        self._model = weighted_circuit(self.circuit, self._plan, self._theta)
        open_ones = edges[[*map(self.circuit.is_splittable, edges.tolist())]]
        self.candidates = open_ones, np.round(flow[open_ones] / (RESOLUTION * self.totals[0]))
        self.log_likelihoods = [
            float(some.held.weights @ self._model.log_likelihood(some.held.evidence)) / total
            for some, total in zip(self._sets, self.totals, strict=True)
        ]

    def rows_through(self, edge: int) -> tuple[IntArray, FloatArray]:
        """Training rows that may use an edge, weighted by how likely they do.

        Rows that look alike below the edge come once, with the sum of their weights.
        """
        node = self.circuit.node[self.circuit.sum_of[edge]]
        column = int(np.flatnonzero(self._plan[node].edges == edge)[0])
        states, weights = [], []
        for part, chunk in em.pattern_chunks(self._model, self.rows.evidence):
            found, first = em.flow_at(self._model, chunk, self.rows.weights[part], node)
            states.append(training_data.as_states(chunk.values[first]))
            weights.append(found.products[column])
        return np.concatenate(states), np.concatenate(weights)

    def split(self, edge: int, variable: int) -> None:
        """Split the circuit, and fit its weights."""
        done = self.circuit.split(edge, variable)
        missing = len(self.circuit.sum_of) - len(self._theta)
        self._theta = np.pad(self._theta, (0, missing), constant_values=1.0)
        _inherit(self.circuit, done, self._theta)
        self._refit()

    @property
    def state(self) -> Circuit:
        """What `circuit_at` takes: the circuit with the current weights."""
        return self._model

    def circuit_at(self, state: Circuit) -> Circuit:
        """The circuit after EM until it converges; not minimised."""
        weights = self.rows.weights
        if not len(weights):
            return state
        beta, data = self.beta / float(weights.mean()), self._sets[0]
        options: Any = {"X": data, "iterations": EM_ITERATIONS, "tolerance": EM_TOLERANCE}
        return em.em(state, **options, pseudocount=beta, progress=False)


def _inherit(circuit: SplitStructure, done: Split, theta: FloatArray) -> None:
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


def _mass(circuit: SplitStructure, unit: int, variable: int, mass: dict[int, Any]) -> Any:
    """The probability of every state of a variable under a unit."""
    if circuit.left[unit] >= 0:
        states = circuit.states[variable]
        left = circuit.left[unit]
        unit = left if circuit.indicators[left] & states else circuit.right[unit]
    if unit in mass:
        return mass[unit]
    only = np.zeros(circuit.cardinalities[variable])
    only[circuit.present(unit, variable)] = 1.0
    return only


SAME_SCORE = 1e-12
"""Variables whose scores differ by less are tied: the first one is taken."""

Search = CompleteSearch | IncompleteSearch


@dataclass(frozen=True)
class StrudelStep:
    """What `learn_strudel` tells its callback after a split.

    Attributes
    ----------
    iteration : int
        The number of splits so far.
    decisions, elements : int
        The number of sum units that are not sums of indicators, and of their inputs.
    units : int
        The number of sums, products and indicators.
    log_likelihood : float
        The mean log-likelihood of the training rows.
    valid_log_likelihood : float or None
        That of the validation rows.

    Examples
    --------
    >>> from expectedkernels.learning.strudel import learn_strudel
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    >>> told = []
    >>> p = learn_strudel(X, iterations=2, callback=told.append)
    >>> [(step.iteration, step.decisions, step.elements) for step in told]
    [(1, 3, 5), (2, 3, 6)]
    """

    iteration: int
    decisions: int
    elements: int
    units: int
    log_likelihood: float
    valid_log_likelihood: float | None


def best_variable(search: Search, edge: int, alpha: float) -> int:
    """The variable to split an edge on: the one that tells most about the others."""
    variables = search.circuit.splittable_variables(edge)
    if len(variables) == 1:
        return int(variables[0])
    rows, weights = search.rows_through(edge)
    cards = np.asarray(search.circuit.cardinalities)[variables]
    counts = training_data.PairCounts(rows[:, variables], cards, weights)
    scores = training_data.mutual_information(counts, alpha).sum(axis=1)
    return int(variables[np.argmax(scores >= scores.max() - SAME_SCORE)])


def splits(search: Search, n: int, alpha: float) -> Iterator[Step]:
    """At most n splits of one circuit, each of the edge that most rows use."""
    for _ in range(n):
        edge = structure_search.best_edge(search.circuit, *search.candidates)
        if edge is None:
            return
        search.split(edge, best_variable(search, edge, alpha))
        yield Step(search.state, *search.log_likelihoods)


@checks.removed(
    beam="splits are made one by one",
    edge="the edge that most rows use is split",
    max_units="set 'iterations', or raise KeyboardInterrupt in 'callback' to stop",
    rng="nothing is drawn at random",
    tie="of edges that as many rows use, the first is split; set 'iterations' for larger circuits",
    time_limit="set 'iterations', or raise KeyboardInterrupt in 'callback' to stop",
    variable="the variable that tells most about the others is taken",
)
def learn_strudel(
    X: arrays.RowsLike,
    X_valid: arrays.RowsLike | None = None,
    iterations: int = 100,
    *,
    pseudocount: float = 1.0,
    alpha: float = 1.0,
    patience: int | None = 100,
    sample_weight: ArrayLike | None = None,
    cardinalities: int | Sequence[int] | None = None,
    max_states: int = training_data.MAX_STATES,
    minimize: bool = True,
    callback: Callable[[StrudelStep], object] | None = None,
    progress: bool = True,
) -> Circuit:
    """The deterministic circuit that splits make of a Chow-Liu tree.

    A split takes an edge from a sum to a product and a variable, and replaces the product by one
    copy for every state of the variable; copies share what does not depend on it. The circuit
    stays smooth, deterministic and on the vtree of the tree, and its weights are the
    maximum likelihood (or, with a pseudocount, the smoothed) ones in closed form. The edge that
    most rows use is split (the first of several, inputs before the units that use them), on the
    variable that tells most about the others in these rows.

    Parameters
    ----------
    X : array of shape (n, variables), or data frame
        States coded as integers 0, 1, 2, ...; NaN for missing values. The columns of a data frame
        name the variables, and may hold text, categories, booleans or other integers, which
        become labelled states.
    X_valid : array of shape (m, variables), optional
        Rows to stop by: the circuit that is most likely on them is returned.
    iterations : int
        The largest number of splits.
    pseudocount : float
        How many rows' worth of counts every sum unit gets in advance, spread evenly over its
        inputs.
    alpha : float
        Smoothing of mutual information, as in `learn_chow_liu`.
    patience : int or None
        With `X_valid`, stop after so many splits without improvement.
    sample_weight : array of shape (n,), optional
        How much every row counts, for flows, mutual information and weights. The pseudocount is
        multiplied by the mean weight.
    cardinalities : int or sequence of int, optional
        The number of states of every variable. Default: one more than the largest code, and at
        least two.
    max_states : int
        How many distinct labels a column of a data frame may have.
    minimize : bool
        Whether to merge units that are equal. Without, units whose weights happen to be equal stay
        apart, so that they can be fitted to other data.
    callback : function, optional
        Called with a `StrudelStep` after every split.
    progress : bool
        Whether to show a bar with the log-likelihood (only on a terminal).

    Returns
    -------
    Circuit
        Deterministic, on the vtree of the Chow-Liu tree. After an interrupt (Ctrl-C), the best one
        so far.

    Raises
    ------
    DataError
        If the data are not states coded as integers.

    Notes
    -----
    On complete data a split costs what it changes: the rows of one edge move at the vtree nodes
    between the edge and the variable. With missing values the flow of an edge is how often it is
    expected to be used, and there is one step of EM after every split, each a pass over all
    rows, and EM until it converges at the end. The mutual information is then that of rows
    weighted by how likely they use the edge, every pair of variables on the rows in which both
    are observed.

    References
    ----------
    Dang, M., Vergari, A. and Van den Broeck, G. (2020). Strudel: learning structured-decomposable
    probabilistic circuits. PGM.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    >>> p = learn_strudel(X, pseudocount=0.0)
    >>> np.exp(p.log_likelihood(X)).round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    name = "learn_strudel"
    beta, alpha = check_real(name, "pseudocount", pseudocount), check_real(name, "alpha", alpha)
    check_count(name, "iterations", iterations)
    check_count(name, "patience", patience, 1, none=True)
    checks.check_callback(name, callback)
    options = cardinalities, sample_weight, max_states, name
    data, beside, complete = training_data.read_data(X, X_valid, *options)
    sets = [data.in_memory("X"), *([] if beside is None else [beside.held])]
    tree = chow_liu.tree_of(data.pair_counts(complete), alpha)
    rows, weights = training_data.distinct_rows(sets, tree.cardinalities)
    given = weights, beta * tree.counts.mean_weight
    search: Search
    if complete:
        search = CompleteSearch(tree, training_data.as_states(rows), *given)
    else:
        complete = not np.isnan(sets[0].evidence.values).any()
        blocks = chow_liu.flow_blocks(tree, data, beta, alpha, complete)
        search = IncompleteSearch(tree, blocks, rows, *given)
    number = count(1)

    def tell(step: Step) -> None:
        if callback is not None:
            n_sums, n_products, *few = search.circuit.sizes()
            n_units = n_sums + n_products + search.circuit.n_indicators
            callback(StrudelStep(next(number), few[0], few[1], n_units, step.mean, step.valid))

    result = training_data.train(
        splits(search, iterations, alpha),
        search.state,
        progress_bar(iterations, "Strudel", not progress, "split"),
        score=search.log_likelihoods[-1],
        patience=patience,
        callback=tell,
    )
    circuit = search.circuit_at(result.state)
    circuit = Circuit.from_blocks(circuit.vtree, circuit.blocks) if minimize else circuit
    return circuit.with_schema(data.schema)


CERTAINTY = 0.9
"""How sure EM is at the start that a row belongs to the component of its cluster."""


@checks.removed(method="components come from EM")
def learn_mixture(
    X: arrays.RowsLike,
    n_components: int,
    *,
    iterations: int = 100,
    splits: int = 100,
    structure: Circuit | None = None,
    X_valid: arrays.RowsLike | None = None,
    pseudocount: float = 1.0,
    sample_weight: ArrayLike | None = None,
    tolerance: float | None = None,
    rng: arrays.RngLike = None,
    progress: bool = True,
    **options: Any,
) -> Circuit:
    """The mixture of circuits of one structure, each with its own parameters, that fits data.

    The structure is learned once by `learn_strudel` (or given). Every component weights it in
    its own way: by EM, which starts at the clusters of k-means and alternates between how far
    each component is responsible for each row and the parameters that fit these rows. A mixture is
    not deterministic, but structured-decomposable, and compatible with all circuits on its vtree.

    Parameters
    ----------
    X : array of shape (n, variables), or data frame
        States coded as integers 0, 1, 2, ...; NaN for missing values. The columns of a data frame
        name the variables, and may hold text, categories, booleans or other integers, which
        become labelled states.
    n_components : int
        The number of components: more fit better and cost proportionally more. Choose by the
        likelihood of `X_valid`.
    iterations : int
        How many iterations of EM follow.
    splits : int
        How often `learn_strudel` splits the structure.
    structure : Circuit, optional
        The circuit to reweight instead of learning one. Its zeros stay zero.
    X_valid : array of shape (m, variables), optional
        Validation data. The structure and the iteration of EM are those that fit it best.
    pseudocount : float
        How many rows' worth of counts every sum unit of a component gets in advance, spread
        evenly over its inputs. With zero the likelihood never decreases during EM.
    sample_weight : array of shape (n,), optional
        How much every row counts. The pseudocount is multiplied by the mean weight.
    tolerance : float, optional
        Stop when the mean log-likelihood improves by less than this.
    rng : int, Generator or None
        For k-means.
    progress : bool
        Whether to show bars with the log-likelihood. Ctrl-C returns the best circuit so far:
        before EM starts, that is the structure.
    **options
        Further options of `learn_strudel`.

    Returns
    -------
    Circuit
        Normalised, with one root.

    Raises
    ------
    CircuitError
        If a structure is given and also options for learning one.

    Notes
    -----
    On complete data and a deterministic structure the edges that a row uses do not depend on the
    parameters. They are found once, and an iteration is two products with a sparse matrix of
    one entry per row and vtree node. Otherwise one costs two passes over all components.

    References
    ----------
    Dang, M., Vergari, A. and Van den Broeck, G. (2020). Strudel: Learning structured-decomposable
    probabilistic circuits. PGM.

    Examples
    --------
    >>> X = [[0, 0], [0, 0], [1, 1], [1, 1], [0, 1]]
    >>> p = learn_mixture(X, 2, splits=1, rng=0, progress=False)
    >>> p.n_roots, round(p.log_partition(), 9)
    (1, 0.0)
    """
    name = "learn_mixture"
    check_count(name, "n_components", n_components, low=1)
    check_count(name, "splits", splits)
    check_count(name, "iterations", iterations)
    check_real(name, "pseudocount", pseudocount)
    check_real(name, "tolerance", 0.0 if tolerance is None else tolerance)
    generator, is_learned = arrays.as_generator(rng), structure is None
    if structure is None:
        chosen: dict[str, Any] = {
            "pseudocount": pseudocount,
            "sample_weight": sample_weight,
            "minimize": False,  # units are equal for one component only
            "progress": progress,
        }
        structure = learn_strudel(X, X_valid, splits, **chosen, **options)
    elif options:
        raise CircuitError(
            "Options of learn_strudel mean nothing when the structure is given. "
            f"Got {', '.join(sorted(options))}."
        )
    structure = em.normalized(structure)
    sets = _read(structure, X, X_valid, sample_weight)
    for rows, what in () if is_learned else zip(sets, ("X", "X_valid"), strict=False):
        impossible = structure.log_likelihood(rows.evidence) == -inf
        if impossible.any():
            raise DataError(
                f"Row {rows.numbers[np.argmax(impossible)]} of {what} has probability zero "
                "under the structure, whatever its weights: zeros stay zero. Use a structure "
                "with larger support, or drop the row."
            )
    X, weights = training_data.distinct_rows(sets, structure.cardinalities)
    beta = pseudocount * float(weights[0].sum()) / sets[0].n_given
    quick = not np.isnan(X).any() and (is_learned or bool(deterministic(structure)))
    try:
        family: _Family = (_ByUses if quick else _ByPasses)(structure, X, beta)
        what = f"A mixture of {n_components} components"
        arrays.require_memory(8.0 * n_components * len(X), what, "Take fewer components.")
        R = _clusters(X, weights[0], structure.cardinalities, n_components, generator)
        start = _updated(family, R * weights[0][:, None])
    except KeyboardInterrupt:  # there is no mixture yet
        return Circuit.from_blocks(structure.vtree, structure.blocks).with_schema(structure.schema)
    bar = progress_bar(iterations, "EM of the mixture", not progress, "iteration")
    steps = _steps(start, family, weights, iterations)
    log_weights, parameters = training_data.train(steps, start, bar, tolerance=tolerance).state
    return family.mixed(parameters, np.exp(log_weights)).with_schema(structure.schema)


def _read(structure: Circuit, X: Any, X_valid: Any, sample_weight: Any) -> list[training_data.Rows]:
    """The rows to learn from, and those for validation if there are any."""
    cards = structure.cardinalities
    if None in cards:
        raise CircuitError(
            "A mixture is learned over discrete variables. The structure has the real variable "
            f"{cards.index(None)}; see `em` for circuits with normal inputs."
        )
    needed = "A mixture needs at least one row of data"
    own, beside = (
        Data(structure.schema, X, sample_weight, needed),
        em.valid_rows(structure, X_valid),
    )
    return [own.in_memory("X"), *([] if beside is None else [beside])]


def _clusters(
    X: FloatArray, weights: FloatArray, cardinalities: Any, n: int, generator: np.random.Generator
) -> FloatArray:
    """How far each component is responsible for each row at the start, (rows, components)."""
    from sklearn.cluster import KMeans  # heavy, and needed only here

    train = np.flatnonzero(weights)
    own, parts = weights[train], []
    for x, card in zip(X[train].T, cardinalities, strict=True):
        bits = (x[:, None] == np.arange(card)).astype(np.float64)
        frequency = own @ bits
        bits[np.isnan(x)] = frequency / max(frequency.sum(), 1.0)
        parts.append(bits[:, 1:] if card == 2 else bits)
    points = np.concatenate(parts, axis=1)
    R = np.full((len(X), n), (1.0 - CERTAINTY) / n)
    seed = int(generator.integers(2**31))
    n_points = len(np.unique(points, axis=0))  # rows with missing values can look the same
    means = KMeans(min(n, n_points), n_init=4, random_state=seed)
    R[train, means.fit_predict(points, sample_weight=own)] += CERTAINTY
    return R


class _ByPasses:
    """Components of any structure, on rows with missing values: both passes for all.

    They are side by side in one circuit, with a root each.
    """

    def __init__(self, structure: Circuit, X: FloatArray, beta: float):
        self.structure, self.beta = em.normalized(structure), beta
        evidence, every = as_evidence(X, structure.cardinalities), np.arange(len(X))
        self.rows = training_data.Rows(evidence, every, every, len(X))

    def update(self, parameters: Any, weights: FloatArray) -> Any:
        vtree, self.rows.weights = self.structure.vtree, weights
        if parameters is None:
            copies = [self.structure] * weights.shape[1]
            parameters = Circuit(vtree, tuple(blocks_beside(vtree, copies)))
        return em.maximized(parameters, em.expected_counts(parameters, self.rows)[1], self.beta)

    def logs(self, parameters: Any) -> FloatArray:
        found: FloatArray = log_values(parameters, self.rows.evidence)[0]
        return found

    def mixed(self, parameters: Any, weights: FloatArray) -> Circuit:
        return with_root_weights(parameters, weights[None, :], "The mixture")


class _ByUses:
    """Components of a deterministic structure, on complete rows: which edges these use is fixed.

    Parameters are the weights of all edges, (edges, components).
    """

    def __init__(self, structure: Circuit, X: FloatArray, beta: float):
        self.structure, self.beta, self.flat = structure, beta, structure.layers.flat_edges
        evidence, units, found = as_evidence(X, structure.cardinalities), self.flat.units, []
        for part in chunks(structure.layers, len(X), arrays.DEFAULT_MAX_BYTES):
            used = active_edges(structure, evidence.rows(part), alike=False)
            found.append((used.rows + part.start, used.edges))
        row, edge = (np.concatenate(each) for each in zip(*found, strict=True))
        kept = (np.bincount(units)[units] > 1)[edge]  # edges that are alone have the weight one
        row, edge, n = row[kept], edge[kept], len(units)
        self.uses = sparse.csr_array((np.ones(len(row)), (row, edge)), (len(X), n))
        self.users = sparse.csr_array(self.uses.T)
        sums = sparse.csr_array((np.ones(n), (units, np.arange(n))))
        self.sums = lambda x: (sums @ x)[units]

    def update(self, parameters: Any, weights: FloatArray) -> Any:
        return fit_weights(self.users @ weights, self.beta, self.sums)

    def logs(self, parameters: Any) -> FloatArray:
        with np.errstate(divide="ignore"):
            return self.uses @ np.log(parameters)

    def mixed(self, parameters: Any, weights: FloatArray) -> Circuit:
        nodes, components = self.flat.nodes[self.flat.units], []
        cuts = np.flatnonzero(np.diff(nodes)) + 1
        for every in parameters.T:
            blocks = list(self.structure.blocks)
            for node, own in zip(nodes[[0, *cuts]], np.split(every, cuts), strict=True):
                block: Any = blocks[node]
                if sparse.issparse(block.numbers):
                    blocks[node] = block.refilled(own)
                elif block.numbers is not None:
                    numbers = np.zeros_like(block.numbers)
                    numbers[block.numbers != 0] = own
                    blocks[node] = block.with_numbers(numbers)
            components.append(Circuit(self.structure.vtree, tuple(blocks)))
        return mixture(components, weights)


_Family = _ByUses | _ByPasses
"""Circuits of one structure: their parameters from weighted rows, and their likelihoods."""


def _updated(family: _Family, R: FloatArray, old: Any = None) -> tuple[FloatArray, Any]:
    """The logs of the weights of components, and their parameters, given weighted rows for each."""
    with np.errstate(divide="ignore"):
        return np.log(R.sum(axis=0) / R.sum()), family.update(old, R)


def _steps(state: Any, family: _Family, weights: FloatArray, iterations: int) -> Iterator[Step]:
    """The mixture to start from, and those after every iteration of EM."""
    for number in range(iterations + 1):
        log_weights, parameters = state
        joint = family.logs(parameters) + log_weights
        total = logsumexp(joint, axis=1)
        # rows that are impossible are not among those with weights
        good = total > -inf
        possible = np.where(good, total, 0.0)
        means = [float(w @ possible / w.sum()) if good[w > 0].all() else -inf for w in weights]
        yield Step(state, *means, size=min(number, 1))
        if number < iterations:
            R = np.exp(joint - possible[:, None]) * weights[0][:, None]
            state = _updated(family, R, parameters)
