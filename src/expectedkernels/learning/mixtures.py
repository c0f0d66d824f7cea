"""Mixtures of circuits with one structure."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import logsumexp

from expectedkernels.arrays import RngLike, RowsLike, as_generator, require_memory
from expectedkernels.checks import (
    CircuitError,
    DataError,
    check_count,
    check_real,
    progress_bar,
    removed,
)
from expectedkernels.circuits.build import blocks_beside, mixture, with_root_weights
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.conditioning import chunks, reached_edges
from expectedkernels.circuits.queries import log_values
from expectedkernels.circuits.sample_map import deterministic
from expectedkernels.data.evidence import as_evidence
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.learning.em import expected_counts, maximized, normalized, stored_alike
from expectedkernels.learning.strudel import learn_strudel
from expectedkernels.learning.training_data import (
    VALID,
    Data,
    FloatArray,
    IntArray,
    Rows,
    Step,
    as_rows,
    distinct_rows,
    shares,
    train,
)


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
        evidence, n = as_evidence(X, self.circuit.cardinalities), len(X)
        places = np.concatenate(self._places)
        rows, columns = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
        for part in chunks(self.circuit.levels, n, max_bytes):
            found = reached_edges(self.circuit, evidence.rows(part), alike=False)
            lost = np.bincount(found.rows, minlength=part.stop - part.start) == 0
            if lost.any():
                _refuse_impossible(part.start + int(np.argmax(lost)), "the data")
            rows.append(found.rows + part.start)
            columns.append(places[found.edges])
        row, column = np.concatenate(rows), np.concatenate(columns)
        kept = (column >= 0) & (self.fan_in[column] > 1)
        row, column = row[kept], column[kept]
        return sparse.csr_array((np.ones(len(row)), (row, column)), (n, len(self.group)))

    @property
    def _places(self) -> list[IntArray]:
        """The parameters that the edges of every level are, -1 where units have none."""
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
            place += self.start[level.nodes[node]]
            places.append(np.where(node < level.n_passed_nodes, -1, place))
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


def _refuse_impossible(row: int, what: str) -> None:
    """Raise because a row has probability zero."""
    raise DataError(
        f"Row {row} of {what} has probability zero under the structure, whatever its weights: "
        "zeros stay zero. Use a structure with larger support, or drop the row."
    )


CERTAINTY = 0.9
"""How sure EM is at the start that a row belongs to the component of its cluster."""


@removed(method="components come from EM")
def learn_mixture(
    X: RowsLike,
    n_components: int,
    *,
    iterations: int = 100,
    splits: int = 100,
    structure: Circuit | None = None,
    X_valid: RowsLike | None = None,
    pseudocount: float = 1.0,
    sample_weight: ArrayLike | None = None,
    tolerance: float | None = None,
    rng: RngLike = None,
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
    if tolerance is not None:
        check_real(name, "tolerance", tolerance)
    generator = as_generator(rng)
    if structure is None:
        chosen: dict[str, Any] = {
            "pseudocount": pseudocount,
            "sample_weight": sample_weight,
            "minimize": False,  # units are equal for one component only
            "progress": progress,
        }
        structure = learn_strudel(X, X_valid, splits, **chosen, **options)
        sets = _read(structure, X, X_valid, sample_weight)
        is_deterministic = True
    else:
        if options:
            raise CircuitError(
                "Options of learn_strudel mean nothing when the structure is given. "
                f"Got {', '.join(sorted(options))}."
            )
        structure = normalized(structure)
        sets = _read(structure, X, X_valid, sample_weight)
        for rows, what in zip(sets, ("X", "X_valid"), strict=False):
            impossible = structure.log_likelihood(rows.evidence) == -inf
            if impossible.any():
                _refuse_impossible(rows.numbers[np.argmax(impossible)], what)
        is_deterministic = bool(deterministic(structure))
    X, weights = distinct_rows(sets, structure.cardinalities)
    beta = pseudocount * float(weights[0].sum()) / sets[0].n_given
    quick = is_deterministic and not np.isnan(X).any()
    try:
        family: _Family = (_ByUses if quick else _ByPasses)(structure, X, beta)
        needed = 8.0 * n_components * len(X)
        require_memory(needed, f"A mixture of {n_components} components", "Take fewer components.")
        R = _clusters(X, weights[0], structure.cardinalities, n_components, generator)
        start = _updated(family.start, R * weights[0][:, None])
    except KeyboardInterrupt:  # there is no mixture yet
        alone = Circuit.from_blocks(structure.vtree, structure.blocks)
        return alone.with_schema(structure.schema)
    bar = progress_bar(iterations, "EM of the mixture", not progress, "iteration")
    steps = _steps(start, family, weights, iterations)
    log_weights, parameters = train(steps, start, bar, tolerance=tolerance).state
    return family.mixed(parameters, np.exp(log_weights)).with_schema(structure.schema)


def _read(structure: Circuit, X: Any, X_valid: Any, sample_weight: Any) -> list[Rows]:
    """The rows to learn from, and those for validation if there are any."""
    cards = structure.cardinalities
    if None in cards:
        raise CircuitError(
            "A mixture is learned over discrete variables. The structure has the real variable "
            f"{cards.index(None)}; see `em` for circuits with normal inputs."
        )
    needed = "A mixture needs at least one row of data"
    sets = [Data(structure.schema, as_rows(X, "X"), sample_weight, needed).held]
    if X_valid is not None:
        sets.append(Data(structure.schema, as_rows(X_valid, "X_valid"), None, VALID).held)
    return sets


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


class _ByUses:
    """Components of a deterministic structure, on complete rows: which edges these use is fixed."""

    def __init__(self, structure: Circuit, X: FloatArray, beta: float):
        self.layout, self.beta = Parameters(structure), beta
        self.uses = self.layout.uses(X)
        self.users = sparse.csr_array(self.uses.T)

    def start(self, weights: FloatArray) -> FloatArray:
        return self.layout.shares(self.users @ weights, self.beta)

    def update(self, parameters: FloatArray, weights: FloatArray) -> FloatArray:
        return self.start(weights)

    def logs(self, parameters: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return self.uses @ np.log(parameters)

    def mixed(self, parameters: FloatArray, weights: FloatArray) -> Circuit:
        return mixture([self.layout.with_shares(shares) for shares in parameters.T], weights)


class _ByPasses:
    """Components of any structure, on rows with missing values: a pass up and down for all.

    They are side by side in one circuit, with a root each.
    """

    def __init__(self, structure: Circuit, X: FloatArray, beta: float):
        self.structure, self.beta = normalized(structure), beta
        every = np.arange(len(X))
        self.rows = Rows(as_evidence(X, structure.cardinalities), every, every, len(X))

    def start(self, weights: FloatArray) -> Circuit:
        copies = [self.structure] * weights.shape[1]
        vtree = self.structure.vtree
        return self.update(Circuit(vtree, tuple(blocks_beside(vtree, copies))), weights)

    def update(self, parameters: Circuit, weights: FloatArray) -> Circuit:
        self.rows.weights = weights
        return maximized(parameters, expected_counts(parameters, self.rows)[1], self.beta)

    def logs(self, parameters: Circuit) -> FloatArray:
        found: FloatArray = log_values(parameters, self.rows.evidence)[0]
        return found

    def mixed(self, parameters: Circuit, weights: FloatArray) -> Circuit:
        return with_root_weights(parameters, weights[None, :], "The mixture")


_Family = _ByUses | _ByPasses
"""Circuits of one structure: their parameters from weighted rows, and their likelihoods."""


def _updated(fitted: Any, R: FloatArray, *old: Any) -> tuple[FloatArray, Any]:
    """The logs of the weights of components, and their parameters, given weighted rows for each."""
    with np.errstate(divide="ignore"):
        return np.log(R.sum(axis=0) / R.sum()), fitted(*old, R)


def _steps(state: Any, family: _Family, weights: FloatArray, iterations: int) -> Iterator[Step]:
    """The mixture to start from, and those after every iteration of EM."""
    for number in range(iterations + 1):
        log_weights, parameters = state
        joint = family.logs(parameters) + log_weights
        total = logsumexp(joint, axis=1)
        # rows that are impossible are not among those with weights
        possible = np.where(total > -inf, total, 0.0)
        means = [
            float(own @ possible / own.sum()) if (total > -inf)[own > 0].all() else -inf
            for own in weights
        ]
        yield Step(state, *means, size=min(number, 1))
        if number < iterations:
            R = np.exp(joint - possible[:, None]) * weights[0][:, None]
            state = _updated(family.update, R, parameters)
