"""Expected kernels, exactly or by Monte Carlo, and how they are computed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from html import escape
from math import ceil, prod, sqrt
from operator import itemgetter, methodcaller
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from expectedkernels import arrays, checks
from expectedkernels.arrays import DEFAULT_MAX_BYTES, Array, RngLike, as_like, device_of
from expectedkernels.checks import CircuitError, DataError, SizeError
from expectedkernels.circuits import operands
from expectedkernels.circuits.circuit import Circuit, align, vtree_for
from expectedkernels.circuits.graph import Sum, Unit
from expectedkernels.circuits.operands import JointPass
from expectedkernels.circuits.properties import require_compatible
from expectedkernels.circuits.queries import TOLERANCE, require_normalized, require_possible
from expectedkernels.data import evidence as rows_of
from expectedkernels.data.evidence import EvidenceLike
from expectedkernels.data.schema import Schema
from expectedkernels.data.tables import as_floats, as_table, is_frame
from expectedkernels.display import overview
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.scaled import Place, ScaledArray, added, contracted, divided
from expectedkernels.kernels import kernel
from expectedkernels.kernels.empirical import DistributionLike, Empirical, shared_schema
from expectedkernels.kernels.gram import CHUNK_BYTES, extent_of, parts, pieces
from expectedkernels.kernels.target import refuse_functions
from expectedkernels.models.factor_graph import converted
from expectedkernels.vtree import Vtree

FEW_PAIRS = 1000
"""For fewer expected kernels there is no progress bar."""


def expected_kernel(
    p: DistributionLike,
    q: DistributionLike,
    k: kernel.Kernel,
    *,
    evidence_p: EvidenceLike | None = None,
    evidence_q: EvidenceLike | None = None,
    log: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    out: str | PathLike[str] | Array | None = None,
) -> Array:
    r"""The expectation of a kernel, E[k(x, x')] for x ~ p and x' ~ q, exactly.

    .. math:: M_k(p, q) = \sum_{x, x'} p(x)\, q(x')\, k(x, x')

    Parameters
    ----------
    p, q : Circuit, model, unit graph, array or data frame of complete points, or Empirical
        Circuits are used as they are, normalised or not. Models (`FactorGraph`, networks of other
        libraries, see `as_model`) are compiled on the vtree of the circuit on the other side; two
        models on the vtree of the one for which both are smaller. Points ask for one value per
        row. If both sides have names, variables and states are matched by these.
    k : Kernel
        The kernel: a product over the variables such as `RBF`, `Laplacian`, `ExpHamming` or
        `Delta`, a sum of products, or a `KernelCircuit`.
    evidence_p, evidence_q : array with NaN for "not observed", or list of weights, optional
        Rows of evidence on a circuit: one value per row, for the conditional distribution (which
        is normalised). A list holds one (rows, cardinality) array of weights per variable:
        sets of allowed values, or soft evidence. Real variables take one value per row.
    log : bool
        Return logarithms, right also where the numbers themselves underflow.
    max_bytes : int
        Rows are worked on in chunks so that intermediate values stay below this, and models
        whose circuits take more are not compiled.
    out : path or array, optional
        Where to put values that are too many for memory, chunk by chunk: a new .npy file (to be
        read with ``np.load(path, mmap_mode="r")``), or an array, which may be memory-mapped. In
        NumPy only.

    Returns
    -------
    float, or array
        With rows (points, evidence) on one side an array of one value per row, with rows on both
        sides a matrix. Circuits with several roots count as one row per root. If the circuits are
        on torch, a tensor.

    Raises
    ------
    DataError
        If `out` is no array of the shape and type of the values, or there is evidence on points.
    SizeError
        If a pair of circuits, a model or the values need more memory than there is; `explain`
        prints how much.

    Notes
    -----
    Needs circuits that are compatible, and a kernel that is compatible with them (see
    `is_compatible`, `is_kernel_compatible`); for others the problem is #P-hard in general, and
    `monte_carlo_expected_kernel` estimates. Cost: at most ``O(|p| |q| |k|)`` per pair of distinct
    rows, in practice much less. W. Li, Z. Zeng, A. Vergari and G. Van den Broeck,
    "Tractable Computation of Expected Kernels", UAI 2021.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    >>> q = ek.factorized([[0.9, 0.1], [0.6, 0.4]])
    >>> round(ek.expected_kernel(p, q, ek.Delta()), 12)
    0.22
    >>> ek.expected_kernel(p, [[0, 1], [1, 0]], ek.Delta()).round(12).tolist()
    [0.4, 0.1]
    """
    found = prepared(p, q, k, evidence_p, evidence_q, max_bytes)
    like = np.empty(0) if found.circuit is None else found.circuit.like
    if out is not None:
        kernel.refuse_gradients("The 'out' parameter", k)
        if not isinstance(like, np.ndarray):
            raise DataError(
                "The 'out' parameter is for circuits in NumPy: move them by p.to('numpy')."
            )
    if found.circuit is None:
        return _collected(found, _at_points(found, k, log), log, out, like)
    n_pairs = prod(operand.n_rows or 1 for operand in found.sides)
    few = n_pairs < FEW_PAIRS  # nobody waits for these
    with nullcontext() if few else checks.progress_bar(n_pairs, "expected kernels") as bar:
        every = pieces(found.sides, found.blocks, max_bytes, bar)
        return _collected(found, every, log, out, like)


@contextmanager
def output_array(out: Any, shape: tuple[int, ...], flat: tuple[int, ...]) -> Iterator[Any]:
    """An array or a new file to put results into, with all axes; None if none is given.

    `flat` are the axes of one entry that results do not have in the end. The file is
    deleted if something goes wrong.
    """
    own = tuple(n for axis, n in enumerate(shape) if axis not in flat)
    if out is None:
        yield None
    elif not own:
        raise DataError(
            "The 'out' parameter is for one value per row of points or evidence. This is a number."
        )
    elif isinstance(out, (str, PathLike)):
        if Path(out).suffix != ".npy":
            raise DataError(
                "The file that the 'out' parameter names is one for np.load, and must end in .npy. "
                f"Got {str(out)!r}."
            )
        mapped = np.lib.format.open_memmap(out, "w+", np.dtype(np.float64), own)
        try:
            yield np.expand_dims(mapped, flat)
            mapped.flush()
        except BaseException:
            Path(out).unlink()
            raise
    else:
        kind = getattr(out, "dtype", None)
        if not isinstance(out, np.ndarray) or kind != np.float64 or out.shape != own:
            raise DataError(
                f"The 'out' parameter must be a path, or a float64 array of shape {own}. Got "
                f"{type(out).__name__} of type {kind} and shape {getattr(out, 'shape', None)}."
            )
        if not out.flags.writeable:
            raise DataError(
                "The 'out' parameter is an array that is read-only. Give one that can be written "
                "to, such as np.empty(shape), or for a file mode='r+' in np.load."
            )
        yield np.expand_dims(out, flat)


def _collected(
    given: Prepared, every: Iterable[tuple[Place, ScaledArray]], log: bool, out: Any, like: Any
) -> Any:
    """The numbers of all pieces, in one array or in `out`: each is finished before the next one."""
    shape, weights = given.shape, given.weights
    axes = [axis for axis, share in enumerate(weights) if share is not None]
    single = [
        n == 1 and getattr(x, "n_rows", n) is None for x, n in zip(given.sides, shape, strict=True)
    ]
    flat = tuple(axis for axis in (0, 1) if axis in axes or single[axis])
    kept = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
    total: Any = None
    finish = methodcaller("log" if log else "linear")
    with output_array(out, shape, flat) as values:
        if values is None or axes:
            arrays.require_memory(
                8.0 * prod(kept),
                f"An array of {' x '.join(map(str, kept))} expected kernels",
                "Take fewer rows, or have it written to a file: expected_kernel(..., out='k.npy').",
            )
        for at, piece in every:
            found = divided(piece, given.logs, at)
            for axis in axes:
                found = contracted(found, as_like(weights[axis][at[axis]], found.data), axis)
            if values is None and tuple(piece.data.shape) == shape:
                values = finish(found)
            elif axes:
                if total is None:
                    total = ScaledArray(*(as_like(x, found.data) for x in np.zeros((2, *kept))))
                place = tuple(slice(0, 1) if i in axes else at[i] for i in range(len(shape)))
                found = added(total.mapped(itemgetter(place)), found)
                total.data[place], total.scale[place] = found.data, found.scale
            else:
                values = as_like(np.zeros(kept), found.data) if values is None else values
                values[at] = finish(found)
        if total is not None:
            numbers = finish(total)
            values = numbers if values is None else values
            values[...] = numbers
    values = as_like(np.zeros(kept), like) if values is None else values
    kept = tuple(n for axis, n in enumerate(values.shape) if axis not in flat)
    values = arrays.namespace(values).reshape(values, kept)
    return float(values) if isinstance(values, np.ndarray) and values.ndim == 0 else values


class Prepared(NamedTuple):
    """What an expected kernel is computed from.

    Attributes
    ----------
    circuit : Circuit or None
        Of the first side that has one.
    blocks : KernelBlocks or None
    sides : two sides, or (without a circuit) two arrays of points
    strategy : Strategy
        In which forms evidence takes part, and what the sweep costs.
    logs : list
        For either side the logs of what to divide its rows by, or None.
    weights : list
        For either side the weights to sum its rows with, or None.
    """

    circuit: Any
    blocks: Any
    sides: tuple[Any, Any]
    strategy: operands.Strategy
    logs: Sequence[Any]
    weights: Sequence[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, or roots, of either side."""
        return tuple(map(len if self.circuit is None else extent_of, self.sides))


def prepared(
    p: Any, q: Any, k: kernel.Kernel, evidence_p: Any, evidence_q: Any, max_bytes: int
) -> Prepared:
    """The arguments of `expected_kernel`, checked, in the forms that cost least."""
    kernel.require_kernel(k)
    arrays.check_max_bytes(max_bytes)
    pair = _circuits_or_points(p, q, max_bytes)
    own: list[Any] = [getattr(x, "schema", None) for x in pair]
    pair = _on_same_variables(*pair)
    circuits = [x for x in pair if isinstance(x, Circuit)]
    evidence = evidence_p, evidence_q
    for x, given, name in zip(pair, evidence, ("evidence_p", "evidence_q"), strict=True):
        if given is not None and not isinstance(x, Circuit):
            raise DataError(f"Evidence conditions circuits. Got {name} for a set of points.")
        if given is not None:
            x.require_single_root(f"Conditioning ({name})")
    if not circuits:  # no sweep is needed
        points, shares, numbers = zip(*map(_weighted, pair), strict=True)
        for rows, own_numbers in zip(points, numbers, strict=True):
            with nullcontext() if own_numbers is None else checks.rows_numbered(own_numbers):
                kernel.finite_rows(rows)
        return Prepared(None, None, points, operands.Strategy(), (None, None), shares)
    first, other = circuits[0], circuits[-1]
    if (first.vtree, first.cardinalities) != (other.vtree, other.cardinalities):
        require_compatible(first, other)
        pair[1] = other.aligned_to(first.vtree)
    # what is in NumPy goes where the other circuit is, or the parameters of the kernel
    given = [*(x.like for x in circuits), *k.tensors]
    if len({*map(device_of, given)}) > 1:
        place = next(device_of(array) for array in given if not isinstance(array, np.ndarray))
        one, two = (x.to(place) if isinstance(x, Circuit) else x for x in pair)
        pair = [one, one if pair[1] is pair[0] else two]
    circuit: Circuit = next(x for x in pair if isinstance(x, Circuit))
    blocks = k.blocks(circuit.vtree, circuit.cardinalities)
    if circuit.states is not None:
        _warn_of_codes(k, circuit.schema, blocks)
    sides: list[Any] = []
    logs, weights = [None, None], [None, None]
    for i, (x, given) in enumerate(zip(pair, evidence, strict=True)):
        if i and x is pair[0] and given is evidence[0] and own[0] is own[1]:
            sides.append(sides[0])
            logs[1] = logs[0]
        elif given is not None:  # it may be in the order of the circuit as it came
            if own[i] is not x.schema:
                given = rows_of.matched_evidence(given, own[i], x.schema)
            read = rows_of.as_evidence(given, x.schema)
            sides.append(operands.CircuitOperand(x, read))
            logs[i] = require_possible(x, read)
        elif isinstance(x, Circuit):
            sides.append(operands.CircuitOperand(x))
        else:
            points, weights[i], numbers = _weighted(x.merged() if isinstance(x, Empirical) else x)
            with nullcontext() if numbers is None else checks.rows_numbered(numbers):
                points = rows_of.as_points(points, circuit.schema)
            sides.append(operands.PointOperand(points, circuit.vtree, circuit.cardinalities))
    strategy = operands.choose((sides[0], sides[1]), max(blocks.operand.units))
    made: dict[Any, Any] = {}
    for i, (x, form) in enumerate(zip(tuple(sides), strategy.forms, strict=True)):
        if form is not None:
            sides[i] = made.setdefault((x, form), operands.CircuitOperand(x.model, x.given, form))
            logs[i] = None if form == "conditionals" else logs[i]
    return Prepared(circuit, blocks, (sides[0], sides[1]), strategy, logs, weights)


def _warn_of_codes(k: kernel.Kernel, schema: Schema, blocks: Any) -> None:
    """Warn if a kernel takes the codes of text labels for numbers."""
    for v in schema.unordered:
        if any(factor.square or factor.absolute for factor in blocks.factors[v]):
            warnings.warn(
                f"{k!r} compares the codes of states, and those of {schema.call(v)} are labelled "
                "by text, whose order means nothing; ExpHamming does not depend on it.",
                stacklevel=4,
            )
            return


def two_distributions(
    p: Any, q: Any, max_bytes: int = DEFAULT_MAX_BYTES, common: bool = True
) -> list[Any]:
    """Both as circuits, points or `Empirical`, over the same variables in the same order.

    Models are compiled: on a vtree that both share, or, unless it is to be `common`, each on the
    one that suits it.
    """
    return _on_same_variables(*_circuits_or_points(p, q, max_bytes, common))


def _circuits_or_points(p: Any, q: Any, max_bytes: int, common: bool = True) -> list[Any]:
    """Models and graphs of units as circuits; tables of any kind as arrays, frames or points."""
    if isinstance(p, (Circuit, np.ndarray)) and isinstance(q, (Circuit, np.ndarray)):
        return [p, q]
    refuse_functions(p, q)
    p, q = _compiled(as_table(converted(p)), as_table(converted(q)), max_bytes, common)
    if isinstance(p, Unit):
        p = _circuit_beside(p, q)
    return [p, _circuit_beside(q, p) if isinstance(q, Unit) else q]


def _on_same_variables(p: Any, q: Any) -> list[Any]:
    """Both over the same variables in the same order, with the same codes of states."""
    if isinstance(p, Circuit) and isinstance(q, Circuit):
        plain = any(x.names is None and x.states is None for x in (p, q))
        return [p, q] if plain or p is q else [*align(p, q)]
    schema: Any = next((x.schema for x in (p, q) if isinstance(x, Circuit)), None)
    if schema is None:
        tables = (x.frame if isinstance(x, Empirical) else x for x in (p, q))
        frames = [x for x in tables if is_frame(x)]
        schema = shared_schema(*frames) if frames else None
        for v, labels in enumerate(schema.states or () if len(frames) == 1 else ()):
            if labels is not None and labels != (False, True):
                raise DataError(
                    f"The column {schema.name(v)!r} of a data frame holds labels, and the other "
                    "points are an array of numbers, which do not say what they stand for. Give "
                    "both as data frames, or both as arrays of codes."
                )
    return [_points_on(x, schema) for x in (p, q)]


def _compiled(p: Any, q: Any, max_bytes: int, common: bool) -> list[Any]:
    """Models as circuits; other distributions pass."""
    vtrees = _common_vtrees(p, q) if common else (None, None)
    for_pairs = all(isinstance(x, Circuit) or hasattr(x, "compile") for x in (p, q))
    found: list[Any] = []
    for x, vtree in zip((p, q), vtrees, strict=True):
        if x is p and found:
            x = found[0]
        elif hasattr(x, "compile"):
            try:
                x, _ = x.compile(vtree, max_bytes=max_bytes, for_pairs=for_pairs)
            except SizeError as error:
                if vtree is None:
                    raise
                raise SizeError(
                    f"An expectation over two models needs a vtree that both share. {error} An "
                    "estimate needs none: monte_carlo_expected_kernel."
                ) from error
        found.append(x)
    return found


def _common_vtrees(p: Any, q: Any) -> tuple[Vtree | None, Vtree | None]:
    """On which vtrees two models are compiled to be compatible: the same, each in its own numbers.

    That of a circuit, or of two models that on which both are smaller.
    """
    first, second = (hasattr(x, "compile") for x in (p, q))
    if first and isinstance(q, Circuit):
        return vtree_for(p, q, q.vtree), None
    if second and isinstance(p, Circuit):
        return None, vtree_for(q, p, p.vtree)
    if not (first and second) or q is p:
        return None, None
    one, other = p.vtree_for_pairs, q.vtree_for_pairs
    pairs = [(one, vtree_for(q, p, one)), (vtree_for(p, q, other), other)]
    return min(pairs, key=lambda pair: p.plan(pair[0]).n_products + q.plan(pair[1]).n_products)


def _points_on(x: Any, schema: Schema | None) -> Any:
    """Points as an array in the codes of a schema; distributions pass."""
    if isinstance(x, Circuit):
        return x
    if isinstance(x, Empirical):
        return (x if schema is None else x.on(schema)).counted()
    plain = rows_of.is_plain(x)
    if not plain and is_frame(x) and schema is not None:
        return schema.read_frame(x)
    points = x if plain else as_floats(x)
    rows_of.check_rows(points, "Points")
    return points


def _circuit_beside(x: Unit, other: Any) -> Circuit:
    """A unit graph as a circuit, on a vtree that fits the other side too, if there is one."""
    if not isinstance(other, (Circuit, Unit)):
        return Circuit.from_units(x)
    try:
        if isinstance(other, Circuit):
            return Circuit.from_units(x, vtree=other.vtree)
        together = Circuit.from_units(Sum([x, other], [1.0, 1.0]))
        return Circuit.from_units(x, vtree=together.vtree)
    except CircuitError:
        Circuit.from_units(x)  # says what is wrong if it is this graph
        require_compatible(x, other)
        raise


def _weighted(x: Any) -> tuple[Any, Any, Any]:
    """Points, their weights (None: one value for each), and their numbers if some are left out."""
    return (x.X, x.weights, x.numbers) if isinstance(x, Empirical) else (x, None, None)


def _at_points(found: Prepared, k: kernel.Kernel, log: bool) -> Iterator[tuple[Place, ScaledArray]]:
    """Points against points: values of the kernel itself."""
    sides = found.sides
    if k.tensors:
        yield (slice(None), slice(None)), k.scaled(*sides)
        return
    # rows of the axis that is not summed first are worked on in groups
    one, other = found.weights
    along = 1 if one is not None and other is None else 0
    step = max(1, CHUNK_BYTES // 64 // max(1, len(sides[1 - along])))
    # of a sum over all pairs of one set of points one half is the other
    same = sides[0] is sides[1] and one is other and one is not None
    half = same and k.is_symmetric(sides[0].shape[1])
    for start in range(0, max(1, len(sides[along])), step):
        chosen = slice(start, start + step)
        others = slice(start if half else 0, None)
        at = (chosen, others) if along == 0 else (others, chosen)
        X, Y = (points[rows] for rows, points in zip(at, sides, strict=True))
        values = k.scaled(X, Y) if log else ScaledArray(k(X, Y))
        if half:
            values.data[:, len(X) :] *= 2.0
        yield at, values


def require_distribution(x: Any, what: str) -> None:
    """Raise unless a circuit, a graph of units or weighted points sum to one."""
    if not isinstance(x, Empirical):
        require_normalized(x, what)
        return
    total = float(x.weights.sum())
    if not abs(total - 1.0) <= TOLERANCE:
        raise DataError(
            f"{what} is between distributions, so the weights of points must sum to one (they may "
            f"be negative). These sum to {total:.6g}: divide them by that."
        )


def monte_carlo_expected_kernel(
    p: DistributionLike,
    q: DistributionLike,
    k: kernel.Kernel,
    n: int,
    rng: RngLike = None,
    chunk: int = 100_000,
) -> tuple[float, float]:
    """A Monte Carlo estimate of E[k(x, x')] and its standard error, from n pairs of samples.

    It needs no compatibility: p and q may be any circuits that can be sampled, also unit graphs
    that are not structured, or `Empirical` distributions. Unnormalised circuits are
    accounted for.

    Parameters
    ----------
    p, q : Circuit, model, unit graph, array or data frame of complete points, or Empirical
        They need not be compatible.
    k : Kernel
        Any kernel on the variables.
    n : int
        At least 2.
    rng : int, Generator or None
        Seed or generator of random numbers; an int makes results reproducible.
    chunk : int
        How many pairs are drawn at once.

    Returns
    -------
    tuple of two floats

    Raises
    ------
    DataError
        If there are fewer than two pairs, or the variables differ.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    >>> estimate, error = ek.monte_carlo_expected_kernel(p, p, ek.RBF(0.5), n=1000, rng=0)
    >>> abs(estimate - ek.expected_kernel(p, p, ek.RBF(0.5))) < 5 * error
    True
    """
    kernel.require_kernel(k)
    kernel.refuse_gradients("monte_carlo_expected_kernel", k, p, q)
    checks.check_count("monte_carlo_expected_kernel", "n", n, 2, error=DataError)
    generator = arrays.as_generator(rng)
    p, q = (x.circuit() if hasattr(x, "compile") else x for x in map(converted, (p, q)))
    if isinstance(p, Circuit) and isinstance(q, Circuit):  # they need not be compatible
        p, q = align(p, q)
    elif not (isinstance(p, Unit) or isinstance(q, Unit)):
        p, q = two_distributions(p, q)
    (draw_p, mass_p), (draw_q, mass_q) = _sampler(p, generator), _sampler(q, generator)
    moments = []
    with checks.progress_bar(n, "sampling") as bar:
        for part in arrays.spans(n, chunk):
            size = part.stop - part.start
            x, y = draw_p(size), draw_q(size)
            if x.shape != y.shape:
                raise DataError(
                    "The two distributions must be over the same variables. "
                    f"Got {x.shape[1]} and {y.shape[1]} variables."
                )
            with np.errstate(over="ignore"):
                values = k.pairs(x, y)
            kernel.refuse_infinite(values)
            moments.append((size, values.mean(), values.var()))
            bar.update(size)
    sizes, means, variances = np.transpose(moments)
    mean, mass = sizes @ means / n, mass_p * mass_q
    variance = sizes @ (variances + (means - mean) ** 2) / (n - 1)
    return float(mass * mean), float(abs(mass) * sqrt(variance / n))


def _sampler(x: Any, generator: Any) -> tuple[Any, float]:
    """A function that samples n points, and the total mass of the distribution."""
    if isinstance(x, (Circuit, Unit)):
        return lambda n: x.sample(n, rng=generator), float(np.exp(float(x.log_partition())))
    if not isinstance(x, Empirical):
        x = Empirical(x)
    total = float(x.weights.sum())
    if (x.weights < 0).any() or total <= 0:
        raise DataError("Points with negative weights cannot be sampled.")
    return lambda n: x.X[generator.choice(len(x.X), size=n, p=x.weights / total)], total


FORMS = {
    "rows": "all units for every row",
    "patterns": "all units for every distinct pattern of evidence",
    "conditionals": "the conditionals as one circuit",
    None: "as it is",
}


@dataclass(frozen=True)
class Explanation:
    """What an expected kernel takes, printed in words.

    Attributes
    ----------
    path : str
        "points", "folded" (nodes of equal shape are computed together), "node by node", or
        "folded and node by node" if parts differ.
    forms : tuple of str or None
        In which form either side takes part: "rows", "patterns", "conditionals", or None where
        there is no choice.
    shape : tuple of int
        How many rows (or roots) either side has.
    parts : int
        How many sweeps, or blocks of points, there are.
    steps : int
        Of all of these together.
    n_bytes : int
        The most memory that intermediate values take at once, about.
    operations : int
        Multiplications and additions.
    lines : tuple of str
        The explanation.
    plan : JointPass or None
        Of the first sweep, if it is folded.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    >>> ek.explain(p, p, ek.RBF(1.0)).path
    'folded'
    """

    path: str
    forms: tuple[str | None, ...]
    shape: tuple[int, ...]
    parts: int
    steps: int
    n_bytes: int
    operations: int
    lines: tuple[str, ...] = field(repr=False)
    plan: JointPass | None = field(repr=False, default=None)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        sizes = f"{self.n_bytes / 1024:.4g} KiB", self.operations
        values = self.path, " x ".join(map(str, self.shape)), self.parts, self.steps, *sizes
        names = "way", "expected kernels", "sweeps", "steps", "memory", "operations"
        text = f"<pre style='white-space: pre-wrap'>{escape(str(self))}</pre>"
        return overview("Explanation", dict(zip(names, values, strict=True)), text)


def explain(
    p: DistributionLike,
    q: DistributionLike,
    k: kernel.Kernel,
    evidence_p: EvidenceLike | None = None,
    evidence_q: EvidenceLike | None = None,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Explanation:
    """What `expected_kernel` would do with the same arguments, without doing it.

    It prints which way is taken and why, how many steps there are, how much memory intermediate
    values take, and how many operations. All of it comes from the plans and the choices that the
    call itself makes; circuits of conditionals, where they are chosen, are made to be measured.

    Parameters
    ----------
    p, q, k, evidence_p, evidence_q, max_bytes
        As for `expected_kernel`.

    Returns
    -------
    Explanation
        It prints as text.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.random_circuit(ek.Vtree.balanced(4), 3, rng=0)
    >>> print(ek.explain(p, [[0, 1, 1, 0], [1, 1, 0, 0]], ek.ExpHamming()))
    1 x 2 expected kernels of a kernel with 1 term
      x: a circuit of 4 variables, 28 units (3 dense matrices of weights): as it is
      x': 2 points
      1 sweep, folded: 3 steps
      0.8 KiB of intermediate values at most, 186 operations
    """
    found = prepared(p, q, k, evidence_p, evidence_q, max_bytes)
    whole = _of_points(*found.sides) if found.circuit is None else _of_sweeps(found, max_bytes)
    if not k.tensors:
        return whole
    line = f"  gradients by {_counted(len(k.tensors), 'parameter')} of the kernel: in torch"
    return replace(whole, lines=(*whole.lines, line))


def _of_points(X: Any, Y: Any) -> Explanation:
    """The kernels of points: no sweep."""
    n, m = len(X), len(Y)
    blocks = ceil(n / kernel.BLOCK) * ceil(m / kernel.BLOCK)
    count = 2 * n * m * X.shape[1]
    n_bytes = 2 * 8 * min(n, kernel.BLOCK) * min(m, kernel.BLOCK)
    lines = [
        f"{n} x {m} values of a kernel at points of {X.shape[1]} variables",
        f"  {_counted(blocks, 'block')} of at most {kernel.BLOCK} x {kernel.BLOCK} pairs",
        _costs(n_bytes, count),
    ]
    return Explanation("points", (None, None), (n, m), blocks, blocks, n_bytes, count, tuple(lines))


def _of_sweeps(found: Prepared, max_bytes: int) -> Explanation:
    first, made = None, list[Any]()
    for joint, _ in parts(found.sides, found.blocks, max_bytes):
        first = joint if not made and joint.by_layers else first
        way = "folded" if joint.by_layers else "node by node"
        made.append((way, joint.n_steps, joint.n_bytes, joint.operations))
    ways, steps, sizes, counts = zip(*made, strict=True) if made else [()] * 4
    path = " and ".join(sorted({*ways})) or "nothing to do"
    n_bytes, count, terms = max(sizes, default=0), sum(counts), len(found.blocks.weights)
    shape, least = found.shape, found.strategy.cost
    others = [  # what else could have been chosen, the cheapest first
        f"  not by {' x '.join(filter(None, forms))}: {cost / least:.2g} times the cost"
        for forms, cost in sorted(found.strategy.others.items(), key=itemgetter(1))[:4]
    ]
    lines = [
        f"{shape[0]} x {shape[1]} expected kernels of a kernel with {_counted(terms, 'term')}",
        *(
            f"  {name}: {_described(axis, form)}"
            for name, axis, form in zip(("x", "x'"), found.sides, found.strategy.forms, strict=True)
        ),
        *others,
        f"  {_counted(len(made), 'sweep')}, {path}: {_counted(sum(steps), 'step')}",
        _costs(n_bytes, count),
    ]
    if n_bytes > (most := arrays.memory_limit()):
        more = f"  more than the {most / 2**30:.3g} GiB that can be used: expected_kernel raises a "
        lines.append(f"{more}SizeError")
    numbers = len(made), sum(steps), n_bytes, count
    return Explanation(path, found.strategy.forms, shape, *numbers, tuple(lines), first)


def _described(operand: operands.AxisOperand, form: str | None) -> str:
    if not isinstance(operand, operands.CircuitOperand):
        return _counted(operand.n_rows, "point")
    circuit = operand.model
    text = f"a circuit of {_counted(circuit.n_variables, 'variable')}, {circuit.n_units} units"
    inner = [x for x in circuit.blocks if isinstance(x, Inner) and x.weights is not None]
    n_sparse = sum(block.is_sparse for block in inner)
    kinds = {"dense": len(inner) - n_sparse, "sparse": n_sparse}
    if inner:
        present = " and ".join(f"{n} {kind}" for kind, n in kinds.items() if n)
        text += f" ({present} matrices of weights)"
    if not circuit.is_on_cpu:
        text += f", in {circuit.xp.__name__.rpartition('.')[2]} on {circuit.like.device}"
    if operand.n_rows is not None:
        text += f", given {_counted(operand.n_rows, 'row')} of evidence"
    return f"{text}: {FORMS[form]}"


def _counted(n: int | None, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _costs(n_bytes: int, count: int) -> str:
    size = f"{n_bytes / 2**10:.1f} KiB" if n_bytes < 2**20 else f"{n_bytes / 2**20:.1f} MiB"
    size = size if n_bytes < 2**33 else f"{n_bytes / 2**30:.1f} GiB"
    return f"  {size} of intermediate values at most, {count:.5g} operations"
