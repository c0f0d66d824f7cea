"""Builders: factorised circuits, mixtures, hidden Markov models, Gaussian mixtures, random ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from expectedkernels import arrays
from expectedkernels.checks import CircuitError, check_count, check_parameter, check_real
from expectedkernels.circuits.circuit import Circuit, align, cpu_circuit, minimize, require_circuits
from expectedkernels.circuits.inputs import Input, Real, Table, weighted_units
from expectedkernels.circuits.properties import require_compatible
from expectedkernels.circuits.queries import TOLERANCE
from expectedkernels.data.tables import as_floats
from expectedkernels.engine.blocks import Inner, at_nodes, inner, side_by_side
from expectedkernels.vtree import Vtree

TABLES = "Tables, weights, means and variances must be arrays"

ONE = Inner(1, 1, None, None, None)


def factorized(
    tables: arrays.TablesLike, vtree: Vtree | None = None, *, normalized: bool = True
) -> Circuit:
    """The circuit of independent discrete variables, the product of one table per variable.

    Parameters
    ----------
    tables : sequence of 1-D arrays
        The probabilities of the states of each variable.
    vtree : Vtree, optional
        Default: balanced.
    normalized : bool
        Whether to raise for tables that are not probabilities. False allows any numbers.

    Returns
    -------
    Circuit

    Raises
    ------
    CircuitError
        If a table is empty or has more than one axis.

    Examples
    --------
    >>> p = factorized([[0.2, 0.8], [0.1, 0.3, 0.6]])
    >>> p.cardinalities
    (2, 3)
    """
    rows = [np.atleast_1d(_array(table)) for table in _listed(tables, "Tables")]
    for variable, row in enumerate(rows):
        if row.ndim != 1 or not len(row):
            raise CircuitError(
                f"The table of variable {variable} must have one dimension and at least one "
                f"entry. Got shape {row.shape}."
            )
        _check_distributions(normalized, row, f"The table of variable {variable}")
    vtree = _over(len(rows), vtree, "tables")
    blocks = at_nodes(vtree, lambda _, v: Table(rows[v][None, :]), lambda _: ONE)
    return Circuit.from_blocks(vtree, blocks)


def _listed(given: Any, what: str) -> list[Any]:
    """A sequence of tables or circuits as a list."""
    if not isinstance(given, Iterable) or isinstance(given, (str, Mapping)):
        raise CircuitError(f"{what} must be a list. Got {type(given).__name__} instead.")
    return list(given)


def _check_distributions(normalized: bool, rows: Any, what: str) -> None:
    """Raise unless the last axis holds probabilities, if it should be normalized.

    Other checks raise for what is not finite.
    """
    if not normalized or not np.isfinite(rows).all():
        return
    with np.errstate(over="ignore"):
        totals = rows.sum(axis=-1)
    wrong = (np.abs(totals - 1.0) > TOLERANCE) | (rows < 0).any(axis=-1)
    if wrong.any():
        row = np.atleast_2d(rows[wrong])[0]
        raise CircuitError(
            f"{what} must be probabilities: not negative, with a sum of one. Got "
            f"{np.array2string(row, threshold=8)}, which sums to {row.sum():.6g}. Divide by the "
            "sum, or pass normalized=False if any numbers are meant."
        )


def _array(numbers: Any) -> Any:
    return np.array(as_floats(numbers, TABLES))


def _over(n: int, vtree: Vtree | None, what: str) -> Vtree:
    """The vtree (default: balanced), after checking that its variables are 0 to n - 1."""
    vtree = Vtree.balanced(n) if vtree is None else vtree
    if sorted(vtree.scope().tolist()) != list(range(n)):
        raise CircuitError(
            f"Got {what} for variables 0 to {n - 1}, but a vtree over "
            f"{sorted(vtree.scope().tolist())[:8]} ({vtree.n_variables} in all)."
        )
    return vtree


def mixture(
    circuits: Sequence[Circuit], weights: ArrayLike | None = None, *, normalized: bool = True
) -> Circuit:
    """The weighted sum of circuits that are compatible with each other.

    The default weights are equal and sum to one. Others must sum to one, too, and not be negative,
    unless `normalized` is False. The circuits share equal units; the result is minimised.

    Parameters
    ----------
    circuits : sequence of Circuit
        The components, compatible with each other.
    weights : array of shape (circuits,), optional
        Default: equal ones.
    normalized : bool
        Whether to raise for weights that are not probabilities.

    Returns
    -------
    Circuit

    Raises
    ------
    CircuitError
        If there are not as many finite weights as circuits.

    Examples
    --------
    >>> p = mixture([factorized([[1, 0], [1, 0]]), factorized([[0, 1], [0, 1]])], [0.3, 0.7])
    >>> p.n_roots
    1
    """
    together = stack(circuits)
    n = together.n_roots
    weights = np.full(n, 1.0 / n) if weights is None else _array(weights)
    if weights.shape != (n,) or not np.isfinite(weights).all():
        raise CircuitError(f"A mixture of {n} circuits needs {n} finite weights. Got {weights}.")
    _check_distributions(normalized, weights, "The weights of a mixture")
    return with_root_weights(together, weights[None, :], "The mixture")


def with_root_weights(circuit: Circuit, weights: Any, what: str) -> Circuit:
    """The circuit whose roots are weighted sums of the roots of another (a matrix of weights)."""
    *below, root = circuit.blocks
    mixed = weighted_units(root, weights, what, "normalise the circuits first")
    return Circuit.from_blocks(circuit.vtree, [*below, mixed]).with_schema(circuit.schema)


def stack(circuits: Sequence[Circuit]) -> Circuit:
    """One circuit with the roots of all the given ones, in order.

    Parameters
    ----------
    circuits : sequence of Circuit
        Compatible with each other.

    Returns
    -------
    Circuit

    Raises
    ------
    CircuitError
        If there are none.
    CompatibilityError
        If they do not split the same variables in the same way.

    Examples
    --------
    >>> stack([factorized([[0.5, 0.5]]), factorized([[0.1, 0.9]])]).n_roots
    2
    """
    circuits = _listed(circuits, "Circuits")
    require_circuits("stack (or mixture)", *circuits)
    circuits = [cpu_circuit(circuit, "stack (or mixture)") for circuit in circuits]
    if not circuits:
        raise CircuitError("There must be at least one circuit. Got none.")
    circuits = [circuits[0], *(align(circuits[0], circuit)[1] for circuit in circuits[1:])]
    vtree = circuits[0].vtree
    for i, circuit in enumerate(circuits[1:], 1):
        require_compatible(circuits[0], circuit, f"Putting circuits 0 and {i} together")
    aligned: Any = [circuit.aligned_to(vtree) for circuit in circuits]
    blocks = minimize(vtree, blocks_beside(vtree, aligned))
    named = next((c for c in circuits if not c.schema.is_plain), circuits[0])
    return Circuit(vtree, tuple(blocks)).with_schema(named.schema)


def blocks_beside(vtree: Vtree, circuits: Sequence[Any]) -> list[Any]:
    """The blocks of all units of circuits on one vtree, equal ones apart."""

    def leaf(node: int, variable: int) -> Input:
        first, *others = (circuit.blocks[node] for circuit in circuits)
        return first.concat(others)

    def inner_at(node: int) -> Inner:
        blocks, lefts, rights = (
            [circuit.blocks[at] for circuit in circuits]
            for at in (node, vtree.left[node], vtree.right[node])
        )
        n_left, n_right = ([block.n_units for block in below] for below in (lefts, rights))
        return side_by_side(blocks, n_left, n_right)

    return at_nodes(vtree, leaf, inner_at)


def hmm(
    initial: ArrayLike,
    transition: arrays.NumbersLike,
    emission: arrays.Array | Sequence[arrays.NumbersLike],
    length: int | None = None,
    *,
    normalized: bool = True,
) -> Circuit:
    """The circuit of a hidden Markov model over its observations, on a right-linear vtree.

    Parameters
    ----------
    initial : array of shape (states,)
        The distribution of the first hidden state.
    transition : array of shape (states, states), or (length - 1, states, states)
        ``transition[i, j]`` is the probability of state j after state i.
    emission : array of shape (states, symbols), or a sequence of one such array per position
        ``emission[i, a]`` is the probability of symbol a in state i.
    length : int, optional
        The number of observations; may be left out if `transition` or `emission` tells.
    normalized : bool
        Whether to raise for rows that are not probabilities. False allows any numbers.

    Returns
    -------
    Circuit

    Raises
    ------
    CircuitError
        If the shapes do not belong together, or the length is not told.

    Examples
    --------
    >>> p = hmm([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]], length=5)
    >>> p.n_variables
    5
    """
    start, steps = _array(initial), _array(transition)
    varying = np.asarray(emission[0]).ndim == 2
    if length is None and (varying or steps.ndim == 3):
        length = len(emission) if varying else len(steps) + 1
    n: int = check_count("hmm", "length", length, 1)
    tables = [*map(_array, emission)] if varying else [_array(emission)] * n
    states = len(start)
    shape = (n - 1, states, states)
    fits = start.ndim == 1 and steps.shape in (shape, shape[1:]) and len(tables) == n
    if not fits or any(t.ndim != 2 or len(t) != states for t in tables):
        raise CircuitError(
            f"An HMM with {states} states and length {n} needs transitions of shape "
            f"({states}, {states}) and emissions of shape ({states}, symbols). "
            f"Got {steps.shape} and {[t.shape for t in tables[:3]]}."
        )
    _check_distributions(normalized, start, "The initial states of an HMM")
    _check_distributions(normalized, steps, "The transitions of an HMM")
    for table in tables:
        _check_distributions(normalized, table, "The emissions of an HMM")
    steps = np.broadcast_to(steps, shape)
    vtree = Vtree.right_linear(n)

    def inner_at(node: int) -> Inner:
        # unit i of this node: the observations from here on, given that the hidden state
        # before them is i (at the root: the whole sequence)
        position = int(vtree.scope(node)[0])
        mix = start[None, :] if position == 0 else steps[position - 1]
        return Inner(states, len(mix), None, None, mix)

    blocks = at_nodes(vtree, lambda _, v: Table(tables[v]), inner_at)
    # below the product of the last two observations the last table is mixed in place
    leaf, rows = vtree.leaf(n - 1), start[None, :] if n == 1 else steps[-1]
    blocks[leaf] = weighted_units(blocks[leaf], rows, "The HMM", "divide the rows by their sums")
    return Circuit.from_blocks(vtree, blocks)


def gaussian_mixture(
    weights: ArrayLike,
    means: arrays.NumbersLike,
    variances: arrays.NumbersLike,
    vtree: Vtree | None = None,
    *,
    normalized: bool = True,
) -> Circuit:
    """The circuit of a mixture of normal distributions with independent coordinates.

    Parameters
    ----------
    weights : array of shape (components,)
        The probabilities of the components.
    means, variances : arrays of shape (components, variables)
        1-D arrays describe a mixture over one variable.
    vtree : Vtree, optional
        Default: balanced.
    normalized : bool
        Whether to raise for weights that are not probabilities. With False they may be any numbers.

    Returns
    -------
    Circuit

    Raises
    ------
    CircuitError
        If the shapes do not belong together.

    Examples
    --------
    >>> p = gaussian_mixture([0.4, 0.6], [[0, 0], [3, 1]], [[1, 1], [1, 2]])
    >>> p.cardinalities
    (None, None)
    """
    share = _array(weights)
    mean, variance = (x[:, None] if x.ndim == 1 else x for x in map(_array, (means, variances)))
    fits = mean.ndim == 2 and mean.shape == variance.shape and share.shape == (len(mean),)
    if not fits or not mean.size:
        raise CircuitError(
            "Means and variances must both have shape (components, variables), with one weight "
            f"per component. Got {mean.shape}, {variance.shape} and {share.shape}."
        )
    _check_distributions(normalized, share, "The weights of a Gaussian mixture")
    n, d = mean.shape
    vtree = _over(d, vtree, "means and variances")
    eye, parts = np.eye(n), Inner(n, n, None, None, None)
    blocks = at_nodes(vtree, lambda _, v: Real(eye, mean[:, v], variance[:, v]), lambda _: parts)
    blocks[-1] = blocks[-1].with_numbers(share[None, :])
    return Circuit.from_blocks(vtree, blocks)


def random_circuit(
    vtree: Vtree | int,
    units: int,
    rng: arrays.RngLike = None,
    cardinalities: int | Sequence[int] = 2,
    density: float | None = None,
) -> Circuit:
    """A normalised circuit with random weights and `units` units per vtree node, one at the root.

    Parameters
    ----------
    vtree : Vtree, or int
        An int means a balanced vtree over that many variables.
    units : int
        How many units every node has, up to thousands.
    rng : int, Generator or None
        Seed or generator of random numbers; an int makes results reproducible.
    cardinalities : int, or one int per variable
        The number of states of every variable.
    density : float in (0, 1], optional
        The share of products that each sum takes. The default takes them all (a dense circuit).

    Returns
    -------
    Circuit

    Raises
    ------
    CircuitError
        If the vtree or the cardinalities are not what they should be.

    Examples
    --------
    >>> p = random_circuit(Vtree.balanced(4), 3, rng=0)
    >>> p.n_variables, p.n_roots
    (4, 1)
    """
    vtree = Vtree.balanced(vtree) if isinstance(vtree, (int, np.integer)) else vtree
    wanted = "a Vtree (Vtree.from_nested makes one of nested pairs) or the number of variables"
    name = "random_circuit"
    check_parameter(isinstance(vtree, Vtree), name, "vtree", vtree, wanted, CircuitError)
    check_count("random_circuit", "units", units, 1)
    if density is not None:
        check_real("random_circuit", "density", density, 0, 1, "(]")
    generator = arrays.as_generator(rng)
    d = vtree.n_variables
    _over(d, vtree, "cardinalities")
    given = np.asarray(cardinalities)
    good = given.shape in ((), (d,)) and given.dtype.kind in "iu" and given.min() >= 1
    wanted = f"a positive int, or one per variable ({d} in all)"
    check_parameter(bool(good), name, "cardinalities", cardinalities, wanted, CircuitError)
    cards = np.broadcast_to(given, (d,)).tolist()
    n_bytes = 8.0 * units * (units * max(0, d - 2) + sum(cards))
    arrays.require_memory(n_bytes, "The circuit", "Take fewer units.")

    def leaf(node: int, variable: int) -> Table:
        rows = 1 if node == vtree.root else units
        return Table(generator.dirichlet(np.ones(cards[variable]), size=rows))

    def inner_at(node: int) -> Inner:
        rows = 1 if node == vtree.root else units
        weights: Any = generator.random((rows, units)) + 1e-3
        if density is not None:
            keep = generator.random((rows, units)) < density
            keep[np.arange(rows), generator.integers(units, size=rows)] = True
            weights = weights * keep
        weights /= weights.sum(axis=1, keepdims=True)
        if density is None:
            return Inner(units, rows, None, None, weights)
        left, right = (generator.permutation(units) for _ in range(2))
        return inner(left, right, sparse.csr_array(weights), units, units)

    blocks = at_nodes(vtree, leaf, inner_at)
    return Circuit(vtree, tuple(blocks) if density is None else tuple(minimize(vtree, blocks)))
