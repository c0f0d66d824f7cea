"""Algebra of circuits, `ek.algebra`: products, powers, quotients, shifts, linear combinations.

Every function returns a new circuit on the vtree of its first argument. It says which properties
it needs, checks them, and says which ones it keeps. Results are minimised and live on the CPU
(but for shifts). Circuits that require gradients raise: these would be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from math import inf
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from expectedkernels.arrays import VariablesLike, distinct_pairs, require_memory, spans
from expectedkernels.checks import CircuitError, PropertyError, check_parameter, check_real, is_int
from expectedkernels.circuits import inputs, queries
from expectedkernels.circuits.build import stack, with_root_weights
from expectedkernels.circuits.circuit import Circuit, align, cpu_circuit, minimize, require_circuits
from expectedkernels.circuits.conditioning import forward_logs, normalized_blocks
from expectedkernels.circuits.inputs import Block, Input, Table, log_sizes, require_range
from expectedkernels.circuits.properties import require_compatible
from expectedkernels.circuits.queries import nonnegative, require_deterministic, require_discrete
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves, from_root, inner, runs
from expectedkernels.vtree import Vtree

MARGINAL = "The marginal", "normalise the circuit first"
OVERLAPS = "Powers and logarithms do not distribute over sums whose inputs overlap."
FAR = 300.0
"""Products of two numbers whose logs are smaller than this are doubles."""


def marginalize(f: Circuit, variables: VariablesLike) -> Circuit:
    r"""The circuit of the other variables, summed (or integrated) over the given ones.

    Parameters
    ----------
    f : Circuit
        It may be signed and unnormalised.
    variables : int, str, or iterable of these
        What to marginalise. At least one variable must remain.

    Returns
    -------
    Circuit
        Over the remaining variables, renumbered 0, 1, ... in ascending order of their old
        numbers: with ``kept = sorted(set(range(f.n_variables)) - set(variables))``, variable i
        of the result is variable ``kept[i]`` of f. Its vtree is that of f projected onto
        them.

    Raises
    ------
    CircuitError
        If it is given something else than a circuit, or no variable remains.

    Notes
    -----
    Needs no further property. Keeps structure: marginals of compatible circuits over the same
    variables are compatible, and a sum of one stays one. Determinism is not kept in general.
    Vtree nodes left with one child contract: what the other side sums to becomes part of the
    weights. Cost: O(\|f\|) for sparse circuits.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.mixture([ek.factorized([[1, 0], [0.5, 0.5]]), ek.factorized([[0, 1], [0.1, 0.9]])])
    >>> marginalize(p, [0]).input(0).table.round(12).tolist()
    [[0.3, 0.7]]
    """
    require_circuits("marginalize", f)
    gone = set(f.schema.variables(variables))
    kept = [v for v in range(f.n_variables) if v not in gone]
    if not kept:
        raise CircuitError(
            f"At least one of the {f.n_variables} variables must remain; log_partition() sums "
            "over all of them."
        )
    if not gone:
        return f
    f = cpu_circuit(f, "marginalize")
    sizes = forward_logs(f, None).values
    if np.abs(sizes[np.isfinite(sizes)]).max(initial=0.0) < FAR:
        result = Circuit.from_blocks(*_projected(f, kept)).with_schema(f.schema.subset(kept))
    else:  # sums of some units leave the range of doubles, those of normalised ones do not
        units = minimize(f.vtree, f.blocks)
        logs = [log_sizes(block.flat[0]) for block in units]
        blocks, totals = normalized_blocks(f.vtree, units, logs)
        stays = from_leaves(f.vtree, lambda _, v: v not in gone, lambda _, a, b: a or b)
        for block, sizes in compress(zip(blocks, logs, strict=True), stays):
            numbers = block.flat[0]
            require_range(numbers, (sizes > -np.inf).sum(), np.abs(numbers), *MARGINAL)
        with np.errstate(over="ignore", under="ignore"):
            roots = np.exp(totals)
        require_range(roots, len(roots), roots, *MARGINAL)
        normalised = Circuit.from_blocks(f.vtree, blocks).with_schema(f.schema)
        rest = marginalize(normalised, sorted(gone))
        result = with_root_weights(rest, np.diag(roots), MARGINAL[0])
    return replace(result, nonnegative=f.nonnegative)


def _projected(f: Circuit, kept: list[int]) -> tuple[Vtree, list[Block]]:
    """The vtree of the variables that remain, and the blocks that do."""
    number = np.full(f.n_variables, -1)
    number[kept] = np.arange(len(kept))
    blocks: list[Block] = []  # of nodes from below, as those of the projected vtree

    def leaf(node: int, variable: int) -> tuple[Any, int]:
        """What the units of a node sum to, and the place of what remains of it (-1: nothing)."""
        stays = number[variable] >= 0
        blocks.extend([f.blocks[node]] if stays else [])
        return f.input(variable).numbers.sum(axis=1), len(blocks) - 1 if stays else -1

    def inner(node: int, left: tuple[Any, int], right: tuple[Any, int]) -> tuple[Any, int]:
        block, place = f.blocks[node], max(left[1], right[1])
        a, b = block.inputs
        total = block.csr @ (left[0][a] * right[0][b])
        if left[1] >= 0 and right[1] >= 0:
            blocks.append(block)
            place = len(blocks) - 1
        elif place >= 0:  # units of the child that remains are replaced by sums of them
            own, other, gone = (a, b, right[0]) if left[1] >= 0 else (b, a, left[0])
            (data, starts), products = block.flat, block.columns
            below = gone[other[products]]
            weights = data * below
            require_range(weights, np.count_nonzero(below[data != 0]), np.abs(weights), *MARGINAL)
            shape = (block.n_units, blocks[place].n_units)
            matrix = sparse.csr_array((weights, own[products], starts), shape=shape)
            blocks[place] = inputs.weighted_units(blocks[place], matrix, *MARGINAL)
        return total, place

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        from_leaves(f.vtree, leaf, inner)
    return f.vtree.project(kept).renumbered(number.tolist()), blocks


LEAST = float(np.finfo(np.float64).smallest_subnormal)
"""Stands for products of weights that are smaller still."""
CHUNK = 2**21
"""How many pairs are looked at in one go."""

PRODUCT = "The product of the two circuits"
FEWER_UNITS = (
    "Multiply circuits of fewer units: condition on some variables, or marginalise some with "
    "algebra.marginalize, before. For the expectation of a product, expected_kernel(p, q, Delta()) "
    "needs less."
)

Pairs = tuple[Any, Any]
"""Units of the first circuit, and those of the second they are multiplied with."""


Part = tuple[Block, Any]
"""A block, and the logs of the sizes of its numbers, which may be no doubles."""


def product_parts(f: Circuit, g: Circuit, roots: Pairs) -> list[Part]:
    """The blocks of the products of pairs of roots.

    The circuits are on the same vtree, on the CPU. Blocks of no units mean that the product is
    zero everywhere.
    """
    overlap: list[Any] = from_leaves(
        f.vtree,
        lambda _, v: f.input(v).overlaps(g.input(v)),
        lambda node, *below: _inner_meetings(f.blocks[node], g.blocks[node], *below),
    )

    def leaf(node: int, variable: int, pairs: Pairs) -> Part:
        return f.input(variable).times(g.input(variable), *pairs)

    def inner(node: int, pairs: Pairs) -> tuple[Part, Pairs, Pairs]:
        # the sums and products of wanted pairs, and the pairs of the children they need
        a, b = int(f.vtree.left[node]), int(f.vtree.right[node])
        left, right, overlap[a], overlap[b] = overlap[a], overlap[b], None, None
        one, other = f.blocks[node], g.blocks[node]
        (own_left, own_right), (other_left, other_right) = one.inputs, other.inputs

        def alive(a: Any, b: Any) -> Any:
            return left[own_left[a], other_left[b]] & right[own_right[a], other_right[b]]

        unit, edge, other_edge = _common_edges(one.csr, other.csr, pairs, alive)
        sizes = (one.n_products, other.n_products)
        (a, b), column = distinct_pairs(one.columns[edge], other.columns[other_edge], sizes)
        left_pairs, left_index = distinct_pairs(own_left[a], other_left[b], left.shape)
        right_pairs, right_index = distinct_pairs(own_right[a], other_right[b], right.shape)
        n_units = len(pairs[0])
        starts = np.searchsorted(unit, np.arange(n_units + 1))
        first, second = one.csr.data[edge], other.csr.data[other_edge]
        with np.errstate(over="ignore", under="ignore"):
            numbers = first * second
        numbers = np.where(numbers != 0, numbers, np.copysign(LEAST, numbers))  # entries stay
        weights = sparse.csr_array((numbers, column, starts), shape=(n_units, len(a)))
        block = Inner(len(a), n_units, left_index, right_index, weights)
        return (block, log_sizes(first) + log_sizes(second)), left_pairs, right_pairs

    return from_root(f.vtree, roots, leaf, inner)


def _inner_meetings(one: Any, other: Any, left: Any, right: Any) -> Any:
    """Which units of two inner blocks meet, given which units of the children do."""
    takes, other_takes = (
        None if block.weights is None else (block.matrix != 0).astype(np.float32)
        for block in (one, other)
    )
    (own_left, own_right), (other_left, other_right) = one.inputs, other.inputs
    require_memory(5.0 * one.n_products * other.n_units, PRODUCT, FEWER_UNITS)
    met = np.zeros((one.n_products, other.n_units), dtype=np.bool_)
    for chosen in spans(one.n_products, max(1, CHUNK // max(1, other.n_products))):
        pairs = left[own_left[chosen]][:, other_left] & right[own_right[chosen]][:, other_right]
        if other_takes is not None:
            pairs = (other_takes @ pairs.T.astype(np.float32)).T > 0
        met[chosen] = pairs
    return met if takes is None else takes @ met.astype(np.float32) > 0


def _common_edges(one: Any, other: Any, pairs: Pairs, alive: Any) -> tuple[Any, ...]:
    """The edges of sums of pairs: which pair, and which edge of either of its sums.

    `one` and `other` are the sums' weights in sparse form; `alive` says which products meet.
    """
    units, partners = pairs
    sizes = np.diff(one.indptr)[units]
    require_memory(32.0 * float(sizes.sum()), PRODUCT, FEWER_UNITS)
    pair, edge = runs(one.indptr[units], sizes)
    starts, counts = other.indptr[partners[pair]], np.diff(other.indptr)[partners[pair]]
    edges, kept = [(np.zeros(0, dtype=np.intp),) * 3], 0
    for some in spans(len(pair), max(1, CHUNK // int(counts.max(initial=1)))):
        row, partner = runs(starts[some], counts[some])
        row += some.start
        keep = np.flatnonzero(alive(one.indices[edge[row]], other.indices[partner]))
        row = row[keep]
        edges.append((pair[row], edge[row], partner[keep]))
        kept += len(row)
        require_memory(80.0 * kept, PRODUCT, FEWER_UNITS)  # with the products made of them
    return tuple(map(np.concatenate, zip(*edges, strict=True)))


__all__ = ["linear_combination", "logarithm", "marginalize", "multiply", "nonnegative", "power"]
__all__ += ["quotient", "reciprocal", "shift", "square", "stack"]


def __dir__() -> list[str]:
    return __all__


@overload
def multiply(f: Circuit, g: Circuit, normalize: Literal[False] = False) -> Circuit: ...
@overload
def multiply(f: Circuit, g: Circuit, normalize: Literal[True]) -> tuple[Circuit, float]: ...
def multiply(f: Circuit, g: Circuit, normalize: bool = False) -> Circuit | tuple[Circuit, float]:
    r"""The pointwise product of two circuits, :math:`h(x) = f(x)\, g(x)`.

    Parameters
    ----------
    f, g : Circuit
        They may be signed and unnormalised. Both may have as many roots, which are multiplied one
        by one, or one of them has a single root, which is multiplied with all of the other's.
    normalize : bool
        Return the normalised product and the log of its normaliser.

    Returns
    -------
    Circuit, or tuple of Circuit and float
        With `normalize`, (h, log_z) such that f g = exp(log_z) h and h sums to one, right also
        where exp(log_z) is no double (an array of log_z if there are several roots).

    Raises
    ------
    CompatibilityError
        If the circuits are not compatible.
    PropertyError
        With `normalize`, if the product sums to zero or to a negative number.

    Notes
    -----
    Needs compatible circuits. Keeps structure: the product is compatible with f, with g, and with
    what is compatible with them. It is deterministic if both are. Normal densities of real
    variables multiply to normal densities; pairs of them whose share is too small for a double
    are left out.

    Units of the product are pairs of units of the same vtree node. Pairs whose supports do not
    meet, or that no root needs, are left out before anything is computed, which keeps products
    of deterministic circuits small. Cost: O(\|f\| \|g\|), usually far less.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> f = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> g = ek.factorized([[1.0, 1.0], [0.0, 2.0]], normalized=False)
    >>> multiply(f, g).input(1).table.tolist()
    [[0.0, 1.0]]
    >>> h, log_z = multiply(f, f, normalize=True)
    >>> round(log_z, 6), h.marginals()[1].tolist()
    (-1.07881, [0.5, 0.5])
    """
    f, g = compatible_pair("multiply", "A product", f, g)
    n_roots = max(f.n_roots, g.n_roots)
    if {f.n_roots, g.n_roots} - {1, n_roots}:
        raise CircuitError(
            "Circuits with several roots are multiplied root by root, so they need as many roots, "
            f"or one of them a single root. Got {f.n_roots} and {g.n_roots} roots."
        )
    partner, every = g.aligned_to(f.vtree), np.arange(n_roots)
    roots = every % f.n_roots, every % g.n_roots
    parts = product_parts(f, partner, roots)  # type: ignore[arg-type]
    blocks, logs = map(list, zip(*parts, strict=True))
    numbers = np.concatenate([block.flat[0] for block in blocks])
    used = np.count_nonzero(np.concatenate(logs) > -np.inf)
    log_z: Any = None
    if normalize:
        if inputs.in_range(numbers, used, np.abs(numbers)):  # merge what is equal, then round
            blocks = list(Circuit.from_blocks(f.vtree, blocks).blocks)
            logs = [log_sizes(block.flat[0]) for block in blocks]
        blocks, log_z = queries.normalized_units(f, blocks, logs)
        if not (log_z > -np.inf).all():
            raise PropertyError(
                "The supports of the circuits do not meet, so their product is zero everywhere and "
                "cannot be normalised."
            )
    else:
        require_range(numbers, used, np.abs(numbers), "The product", "ask for normalize=True")
    product = Circuit.from_blocks(f.vtree, blocks).with_schema(f.schema)
    if not normalize:
        return product
    return product, log_z if product.n_roots > 1 else float(log_z[0])


def compatible_pair(function: str, what: str, p: Circuit, q: Circuit) -> tuple[Circuit, Circuit]:
    """Two circuits on the CPU over the same variables in the same order; raises if they differ."""
    require_circuits(function, p, q)
    p, q = align(p, q)
    require_compatible(p, q, what)
    return cpu_circuit(p, what), cpu_circuit(q, what)


def square(f: Circuit) -> Circuit:
    r"""The distribution whose density is the square of a circuit, :math:`p(x) = f(x)^2 / Z`.

    The circuit f may have negative weights, which makes squares more expressive than mixtures. The
    square supports the queries of distributions: likelihoods, marginals, samples, expected kernels.

    Parameters
    ----------
    f : Circuit
        With one root, of any signs.

    Returns
    -------
    Circuit
        Normalised, and known to have no negative values (see `nonnegative`).

    Raises
    ------
    PropertyError
        If f is zero everywhere.

    Notes
    -----
    Needs no property. Keeps structure: the square is compatible with f. Cost: at most that of f
    squared. Its marginals and samples go through the states of one variable after the other, as
    sums with negative weights are no choices: a sample costs as many likelihoods as there are
    states. What else is made of the square (`Circuit.condition`, copies on other devices) is
    a circuit with negative weights like any other; evidence can be given with the query.
    Values that cancel are zero up to rounding, relative to what cancels.

    L. Loconte et al., "Subtractive mixture models via squaring", ICLR 2024.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> a, b = ek.factorized([[0.5, 0.5], [0.5, 0.5]]), ek.factorized([[0.9, 0.1], [0.1, 0.9]])
    >>> p = square(linear_combination([a, b], [1.0, -1.0]))
    >>> np.exp(p.log_likelihood([[0, 0], [0, 1]])).round(4).tolist()
    [0.0606, 0.7424]
    >>> p.sample(3, rng=0).tolist()
    [[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    require_circuits("square", f)
    f.require_single_root("A square")
    return replace(multiply(f, f, normalize=True)[0], nonnegative=True)


def power(f: Circuit, alpha: float) -> Circuit:
    r"""The power of a circuit on its support: :math:`f(x)^\alpha` where f(x) > 0, and 0 elsewhere.

    Parameters
    ----------
    f : Circuit
        Deterministic and not negative.
    alpha : float
        Any finite number. Zero gives the indicator of the support.

    Returns
    -------
    Circuit

    Raises
    ------
    PropertyError
        If the circuit is not deterministic, has negative weights, or has a real variable and
        alpha is not positive.

    Notes
    -----
    At every point at most one input of every sum is not zero, so that the power of a sum is the
    sum of powers: only the numbers change. Keeps everything: the vtree, determinism,
    compatibility. Cost: O(\|f\|), and the check of determinism.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> f = ek.factorized([[4.0, 9.0], [0.0, 1.0]], normalized=False)
    >>> power(f, 0.5).input(0).table.tolist()
    [[2.0, 3.0]]
    >>> power(f, 0).input(1).table.tolist()
    [[0.0, 1.0]]
    """
    require_circuits("power", f)
    return _power(f, check_real("power", "alpha", alpha, -inf, ends="()"), "A power")


def reciprocal(f: Circuit) -> Circuit:
    """The reciprocal of a circuit on its support: 1 / f(x) where f(x) > 0, and 0 elsewhere.

    Parameters
    ----------
    f : Circuit
        Deterministic and not negative, over discrete variables.

    Returns
    -------
    Circuit

    Raises
    ------
    PropertyError
        If the circuit is not deterministic, has negative weights, or has a real variable.

    Notes
    -----
    The power -1, see `power`. Keeps everything: the vtree, determinism, compatibility.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> reciprocal(ek.factorized([[0.25, 0.0, 0.75]])).input(0).table.round(6).tolist()
    [[4.0, 0.0, 1.333333]]
    """
    require_circuits("reciprocal", f)
    return _power(f, -1.0, "A reciprocal")


def _power(f: Circuit, alpha: float, what: str) -> Circuit:
    f = cpu_circuit(f, what)
    require_deterministic(f, what, OVERLAPS)

    advice = "normalise the circuit, or lower the exponent"

    def powers(numbers: Any, factor: Any = 1.0) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            result = np.where(numbers != 0, np.where(numbers != 0, numbers, 1.0) ** alpha, 0.0)
            result = result * factor
        used = np.count_nonzero(numbers)
        require_range(result, used, result, f"The power {alpha:g}", advice)
        return result

    def leaf(node: int, variable: int) -> Input:
        block = f.input(variable)
        try:
            new, factor = block.power(alpha)
        except PropertyError as error:
            raise PropertyError(f"{what}: variable {variable} is real, and {error}.") from None
        return new.with_numbers(powers(block.numbers, factor))

    def inner(node: int) -> Inner:
        return f.blocks[node].refilled(powers(f.blocks[node].flat[0]))

    blocks = at_nodes(f.vtree, leaf, inner)
    return Circuit.from_blocks(f.vtree, blocks).with_schema(f.schema)


def logarithm(f: Circuit) -> Circuit:
    r"""The logarithm of a circuit on its support: log f(x) where f(x) > 0, and 0 elsewhere.

    Parameters
    ----------
    f : Circuit
        Deterministic and not negative, over discrete variables.

    Returns
    -------
    Circuit
        Signed.

    Raises
    ------
    PropertyError
        If the circuit is not deterministic, has negative weights, or has a real variable.

    Notes
    -----
    Every unit becomes two: the indicator of its support, and its logarithm there. Keeps structure:
    the logarithm is compatible with f. Cost: O(\|f\|), and the check of determinism.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> logarithm(ek.factorized([[1.0, 0.0, 2.0]], normalized=False)).input(0).table.round(
    ...     6
    ... ).tolist()
    [[0.0, 0.0, 0.693147]]
    """
    require_circuits("logarithm", f)
    f = cpu_circuit(f, "A logarithm")
    require_deterministic(f, "A logarithm", OVERLAPS)
    require_discrete(f, "A logarithm")

    def leaf(node: int, variable: int) -> Any:
        numbers = np.asarray(f.input(variable).numbers)
        positive = numbers > 0
        return Table(np.concatenate([positive, np.log(np.where(positive, numbers, 1.0))]))

    def inner_at(node: int) -> Any:
        block, weights = f.blocks[node], f.blocks[node].csr
        takes, logs = weights.copy(), weights.copy()
        takes.data, logs.data = np.ones_like(weights.data), np.log(weights.data)
        left, right = block.inputs
        n, m = (f.blocks[int(child[node])].n_units for child in (f.vtree.left, f.vtree.right))
        matrix = sparse.block_array([[takes, None, None], [logs, takes, takes]], format="csr")
        lefts = np.concatenate([left, left + n, left])
        rights = np.concatenate([right, right, right + m])
        return inner(lefts, rights, sparse.csr_array(matrix), 2 * n, 2 * m)

    both = Circuit(f.vtree, tuple(at_nodes(f.vtree, leaf, inner_at)), f.names, f.states)
    chosen = np.hstack([np.zeros((f.n_roots, f.n_roots)), np.eye(f.n_roots)])
    return with_root_weights(both, chosen, "The logarithm")


def quotient(f: Circuit, g: Circuit) -> Circuit:
    r"""The quotient of two circuits: :math:`f(x) / g(x)` where g(x) > 0, and 0 elsewhere.

    Parameters
    ----------
    f : Circuit
        It may be signed and need not be deterministic.
    g : Circuit
        Deterministic and not negative, over discrete variables.

    Returns
    -------
    Circuit

    Raises
    ------
    CompatibilityError
        If the circuits are not compatible.
    PropertyError
        If g is not deterministic, has negative weights, or has a real variable.

    Notes
    -----
    The product of f and the reciprocal of g, so that (f / g) g = f only where the support of f
    lies in that of g. Keeps structure: the quotient is compatible with f and with g, and
    deterministic if f is. Roots are paired as in `multiply`. Cost: that of a product.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> f, g = ek.factorized([[0.5, 0.25, 0.25]]), ek.factorized([[0.75, 0.0, 0.25]])
    >>> quotient(f, g).input(0).table.round(6).tolist()
    [[0.666667, 0.0, 1.0]]
    """
    f, g = compatible_pair("quotient", "A quotient", f, g)
    return multiply(f, _power(g, -1.0, "Division"))


def shift(f: Circuit, variable: int | str, by: int = 1) -> Circuit:
    r"""The circuit with one variable shifted cyclically: :math:`g(x) = f(x')`.

    Here x' is x with :math:`x_i` replaced by :math:`x_i + by` modulo the number of states.

    Parameters
    ----------
    f : Circuit
        The circuit to shift.
    variable : int or str
        The variable i, a discrete one.
    by : int
        By how many states. The default 1 is the shift of discrete Stein operators, -1 its inverse.

    Returns
    -------
    Circuit

    Raises
    ------
    PropertyError
        If the variable is real.

    Notes
    -----
    Needs no property and keeps all of them: only the tables of the variable change, and they stay
    where they are (torch, a GPU). Cost: O(units of the variable).

    Examples
    --------
    >>> import expectedkernels as ek
    >>> shift(ek.factorized([[0.1, 0.2, 0.7]]), 0).input(0).table.tolist()
    [[0.2, 0.7, 0.1]]
    """
    require_circuits("shift", f)
    i = f.schema.variable(variable)
    check_parameter(is_int(by), "shift", "by", by, "an int", CircuitError)
    require_discrete(f, "A cyclic shift", [i])
    block, blocks = f.input(i), list(f.blocks)
    blocks[f.vtree.leaf(i)] = block.recoded(np.roll(np.arange(block.cardinality), -int(by)))
    return Circuit(f.vtree, tuple(blocks), f.names, f.states)


def linear_combination(circuits: Sequence[Circuit], coefficients: ArrayLike) -> Circuit:
    r"""The weighted sum of circuits, :math:`\sum_j c_j f_j(x)`, with weights of any sign.

    Parameters
    ----------
    circuits : sequence of Circuit
        All with as many roots (which are combined one by one), or with a single root.
    coefficients : sequence of float
        One per circuit; they need not sum to anything.

    Returns
    -------
    Circuit

    Raises
    ------
    CompatibilityError
        If the circuits are not compatible with each other.

    Notes
    -----
    Needs compatible circuits. Keeps structure: the sum is compatible with what its terms are
    compatible with. It is deterministic only if the terms are and their supports are disjoint.
    Cost: the sum of the sizes; equal units are shared.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> f, g = ek.factorized([[0.3, 0.7]]), ek.factorized([[0.5, 0.5]])
    >>> linear_combination([f, g], [1.0, -1.0]).input(0).table.round(12).tolist()
    [[-0.2, 0.2]]
    """
    circuits = list(circuits)
    require_circuits("linear_combination", *circuits)
    factors = np.asarray(coefficients, dtype=np.float64)
    if not circuits or factors.shape != (len(circuits),) or not np.isfinite(factors).all():
        raise CircuitError(
            "A linear combination needs at least one circuit, and one finite coefficient for "
            f"each. Got {len(circuits)} circuits and coefficients {coefficients!r}."
        )
    for circuit in circuits[1:]:
        require_compatible(*align(circuits[0], circuit), "A linear combination")
    n_roots = max(circuit.n_roots for circuit in circuits)
    if any(circuit.n_roots not in (1, n_roots) for circuit in circuits):
        raise CircuitError(
            "Circuits with several roots are combined root by root, so they need as many roots, "
            f"or a single one. Got {[circuit.n_roots for circuit in circuits]} roots."
        )
    each, every = np.eye(n_roots), np.ones((n_roots, 1))
    pairs = zip(circuits, factors, strict=True)
    parts = [x * (each if circuit.n_roots == n_roots else every) for circuit, x in pairs]
    return with_root_weights(stack(circuits), np.hstack(parts), "The linear combination")
