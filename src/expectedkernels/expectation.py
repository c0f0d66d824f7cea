"""Expected kernels, exactly or by Monte Carlo, and how they are computed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from html import escape
from math import ceil, sqrt
from operator import itemgetter
from os import PathLike
from typing import Any

import numpy as np

from expectedkernels import checks
from expectedkernels.arrays import (
    DEFAULT_MAX_BYTES,
    Array,
    RngLike,
    as_generator,
    check_max_bytes,
    device_of,
    is_numpy,
    memory_limit,
    place_of,
)
from expectedkernels.checks import CircuitError, DataError, PropertyError, SizeError
from expectedkernels.circuits import evidence_forms, operands
from expectedkernels.circuits.circuit import Circuit, align, vtree_for
from expectedkernels.circuits.graph import Sum, Unit
from expectedkernels.circuits.joint_pass import JointPass, array_in
from expectedkernels.circuits.properties import require_compatible
from expectedkernels.circuits.queries import TOLERANCE, require_normalized, require_possible
from expectedkernels.data.evidence import (
    Evidence,
    EvidenceLike,
    as_evidence,
    as_points,
    check_rows,
    matched_evidence,
)
from expectedkernels.data.schema import Schema
from expectedkernels.data.tables import as_floats, as_table, is_frame
from expectedkernels.display import overview
from expectedkernels.engine.blocks import Inner
from expectedkernels.engine.scaled import Place, Scaled
from expectedkernels.kernels import kernel
from expectedkernels.kernels.empirical import DistributionLike, Empirical, shared_schema
from expectedkernels.kernels.gram import CHUNK_BYTES, KernelBlocks, extent_of, gram, parts, pieces
from expectedkernels.kernels.points import EVERY, collected
from expectedkernels.kernels.target import Target
from expectedkernels.models.factor_graph import converted
from expectedkernels.vtree import Vtree


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
    if out is not None:
        kernel.refuse_gradients("The 'out' parameter", k)
    if isinstance(found, tuple):
        return _between_points(*found, k, log, out)
    sides = (found.sides[0], found.sides[1])
    n_pairs, here = (sides[0].n_rows or 1) * (sides[1].n_rows or 1), is_numpy(found.circuit.xp)
    if out is not None and not here:
        raise DataError("The 'out' parameter is for circuits in NumPy: move them by p.to('numpy').")
    several = [side.n_rows is not None or side.circuit.n_roots > 1 for side in sides]
    flat = tuple(i for i in (0, 1) if found.weights[i] is not None or not several[i])

    def values(bar: Any) -> Iterator[tuple[Place, Scaled]]:
        if here and (n_pairs > 1 or out is not None):
            yield from pieces(sides, found.blocks, max_bytes, bar)
        else:  # arrays that know their gradients, or cannot be written to, are joined as they are
            yield EVERY, gram(sides, found.blocks, max_bytes, bar)

    with nullcontext() if n_pairs == 1 else checks.progress_bar(n_pairs, "expected kernels") as bar:
        shape = (extent_of(sides[0]), extent_of(sides[1]))
        return collected(values(bar), shape, found.logs, found.weights, flat, log, out)


@dataclass(frozen=True, eq=False)
class Prepared:
    """What an expected kernel is computed from.

    Attributes
    ----------
    circuit : Circuit
        Of the first side that has one.
    blocks : KernelBlocks
    sides : list of two sides
    choice : Choice
        In which forms evidence takes part, and what the sweep costs.
    logs : list
        For either side the logs of what to divide its rows by, or None.
    weights : list
        For either side the weights to sum its rows with, or None.
    """

    circuit: Circuit
    blocks: KernelBlocks
    sides: list[operands.Side]
    choice: evidence_forms.Choice
    logs: list[Any]
    weights: list[Any]


def prepared(
    p: Any, q: Any, k: kernel.Kernel, evidence_p: Any, evidence_q: Any, max_bytes: int
) -> Prepared | tuple[Any, Any]:
    """The arguments of `expected_kernel`, checked, in the forms that cost least.

    Two sets of points stay as they are: their kernels need no sweep.
    """
    kernel.require_kernel(k)
    check_max_bytes(max_bytes)
    p, q = converted(p), converted(q)
    own = [getattr(x, "schema", None) for x in (p, q)]
    p, q = two_distributions(p, q, max_bytes)
    if not isinstance(p, Circuit) and not isinstance(q, Circuit):
        for x, evidence, name in ((p, evidence_p, "evidence_p"), (q, evidence_q, "evidence_q")):
            _read_evidence(x, evidence, name, None)
        return p, q
    if isinstance(p, Circuit) and isinstance(q, Circuit):
        require_compatible(p, q)
        q = q.aligned_to(p.vtree)
    # what is in NumPy goes where the other circuit is, or the parameters of the kernel
    arrays = [*(array_in(x) for x in (p, q) if isinstance(x, Circuit)), *k.tensors]
    places = [place_of(array) for array in arrays if not isinstance(array, np.ndarray)]
    if places and (len(places) < len(arrays) or len(set(places)) > 1):
        same = q is p
        p, q = (x.to(places[0]) if isinstance(x, Circuit) else x for x in (p, q))
        q = p if same else q
    circuit: Circuit = p if isinstance(p, Circuit) else q
    blocks = k.blocks(circuit.vtree, circuit.cardinalities)
    if circuit.schema.unordered:
        _warn_of_codes(k, circuit.schema, blocks)
    first = _read_evidence(p, evidence_p, "evidence_p", own[0])
    same = q is p and evidence_q is evidence_p and own[0] is own[1]
    second = first if same else _read_evidence(q, evidence_q, "evidence_q", own[1])
    given = [(p, first), (q, second)]
    logs = [None if evidence is None else require_possible(x, evidence) for x, evidence in given]
    plain = [_side(x, circuit) if evidence is None else (None, None) for x, evidence in given]
    choice = evidence_forms.Choice((None, None), 0.0, {})
    if first is not None or second is not None:
        one, other = (
            pair if side is None else side for pair, (side, _) in zip(given, plain, strict=True)
        )
        choice = evidence_forms.choose((one, other), max(blocks.operand.units))  # type: ignore[arg-type]
    sides = [
        evidence_forms.operand_in(form, *pair) if side is None else side  # type: ignore[arg-type]
        for form, pair, (side, _) in zip(choice.forms, given, plain, strict=True)
    ]
    if q is p and first is second is not None and choice.forms[0] == choice.forms[1]:
        sides[1] = sides[0]
    logs = [
        None if isinstance(side, evidence_forms.ConditionalsOperand) else own_logs
        for side, own_logs in zip(sides, logs, strict=True)
    ]
    weights = [share for _, share in plain]
    return Prepared(circuit, blocks, sides, choice, logs, weights)


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


def refuse_functions(*distributions: Any) -> None:
    """Raise if one of them is a `Target`: exact expectations are sums over all states."""
    if any(isinstance(x, Target) for x in distributions):
        raise PropertyError(
            "An exact expectation is a sum over all states, and a Target is a function, which "
            "cannot be summed over. Give the model as a FactorGraph, or points: gibbs(target, "
            "1000) samples it, and kdsd compares points with it."
        )


def two_distributions(
    p: Any, q: Any, max_bytes: int = DEFAULT_MAX_BYTES, common: bool = True
) -> tuple[Any, Any]:
    """Both as circuits, points or `Empirical`, over the same variables in the same order.

    Models are compiled: on a vtree that both share, or, unless it is to be `common`, each on the
    one that suits it.
    """
    refuse_functions(p, q)
    p, q = _compiled(as_table(converted(p)), as_table(converted(q)), max_bytes, common)
    if isinstance(p, Unit):
        p = _circuit_beside(p, q)
    if isinstance(q, Unit):
        q = _circuit_beside(q, p)
    if isinstance(p, Circuit) and isinstance(q, Circuit):
        return align(p, q)
    schema = next((x.schema for x in (p, q) if isinstance(x, Circuit)), None)
    tables = [x.frame if isinstance(x, Empirical) else x for x in (p, q)]
    frames = [x for x in tables if is_frame(x)]
    if schema is None and frames:
        schema = shared_schema(*frames)
        if len(frames) < len(tables):
            _refuse_labels(schema)
    first, second = (_points_on(x, schema) for x in (p, q))
    return first, second


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


def _refuse_labels(schema: Schema) -> None:
    """Raise if labels of a frame would be compared with the codes of an array."""
    for v, labels in enumerate(schema.states or ()):
        if labels is not None and labels != (False, True):
            raise DataError(
                f"The column {schema.name(v)!r} of a data frame holds labels, and the other points "
                "are an array of numbers, which do not say what they stand for. Give both as data "
                "frames, or both as arrays of codes."
            )


def _points_on(x: Any, schema: Schema | None) -> Any:
    """Points as an array in the codes of a schema; distributions pass."""
    if isinstance(x, Circuit):
        return x
    if isinstance(x, Empirical):
        return (x if schema is None else x.on(schema)).counted()
    if is_frame(x) and schema is not None:
        return schema.read_frame(x)
    points = as_floats(x)
    check_rows(points, "Points")
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


def _read_evidence(x: Any, evidence: Any, name: str, own: Schema | None) -> Evidence | None:
    """The evidence on a circuit, which may be given in the order of the circuit as it came."""
    if evidence is None:
        return None
    if not isinstance(x, Circuit):
        raise DataError(f"Evidence conditions circuits. Got {name} for a set of points.")
    operands.check_single_root(x, f"Conditioning ({name})")
    if own is not None:
        evidence = matched_evidence(evidence, own, x.schema)
    return as_evidence(evidence, x.schema)


def _side(x: Any, circuit: Circuit) -> tuple[operands.Side, Any]:
    """The side of the sweep without evidence, and weights to sum rows with."""
    if isinstance(x, Circuit):
        return operands.CircuitOperand(x), None
    points, weights, numbers = _weighted(x.merged() if isinstance(x, Empirical) else x)
    with checks.rows_numbered(numbers):
        points = as_points(points, circuit.schema)
    return operands.PointOperand(points, circuit.vtree, circuit.cardinalities), weights


def _weighted(x: Any) -> tuple[Any, Any, Any]:
    """Points, their weights (None: one value for each), and their numbers in the table given."""
    if isinstance(x, Empirical):
        return x.X, x.weights, x.numbers
    return x, None, np.arange(len(x))


def _between_points(p: Any, q: Any, k: kernel.Kernel, log: bool, out: Any) -> Any:
    """Points against points: values of the kernel itself."""
    sides, weights, numbers = zip(*map(_weighted, (p, q)), strict=True)
    for points, own in zip(sides, numbers, strict=True):
        with checks.rows_numbered(own):
            kernel.finite_rows(points)
    summed = tuple(axis for axis in (0, 1) if weights[axis] is not None)
    # rows of the axis that is not summed first are worked on in groups
    along = 1 if summed == (0,) else 0
    step = max(1, CHUNK_BYTES // 64 // max(1, len(sides[1 - along])))
    # of a sum over all pairs of one set of points one half is the other
    half = p is q and len(summed) == 2 and k.is_symmetric(p.X.shape[1])

    def chunks() -> Iterator[tuple[Place, Scaled]]:
        if k.tensors:
            yield EVERY, k.scaled(*sides)
            return
        for start in range(0, max(1, len(sides[along])), step):
            chosen = slice(start, start + step)
            others = slice(start if half else 0, None)
            at = (chosen, others) if along == 0 else (others, chosen)
            X, Y = (points[rows] for rows, points in zip(at, sides, strict=True))
            found = k.scaled(X, Y) if log else Scaled(k(X, Y), None)
            if half:
                found.data[:, len(X) :] *= 2.0
            yield at, found

    shape = (len(sides[0]), len(sides[1]))
    return collected(chunks(), shape, (None, None), weights, summed, log, out)


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
    p, q : see `expected_kernel`
        They need not be compatible.
    k : Kernel
    n : int
        At least 2.
    rng : int, Generator or None
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
    generator = as_generator(rng)
    p, q = sampled_pair(p, q)
    (draw_p, mass_p), (draw_q, mass_q) = _sampler(p, generator), _sampler(q, generator)
    count, mean, squares = 0, 0.0, 0.0
    with checks.progress_bar(n, "sampling") as bar:
        while count < n:
            size = min(chunk, n - count)
            x, y = draw_p(size), draw_q(size)
            if x.shape != y.shape:
                raise DataError(
                    "The two distributions must be over the same variables. "
                    f"Got {x.shape[1]} and {y.shape[1]} variables."
                )
            with np.errstate(over="ignore"):
                values = k.pairs(x, y)
            kernel.refuse_infinite(values)
            # merge the moments of this chunk into those so far
            shift = float(values.mean()) - mean
            squares += float(((values - values.mean()) ** 2).sum())
            squares += shift**2 * count * size / (count + size)
            mean += shift * size / (count + size)
            count += size
            bar.update(size)
    mass = mass_p * mass_q
    return float(mass * mean), float(abs(mass) * sqrt(squares / (n - 1) / n))


def sampled_pair(p: Any, q: Any) -> tuple[Any, Any]:
    """Two distributions to sample from, with variables and states of the second as in the first.

    Unlike for exact answers, they need not be compatible.
    """
    p, q = (x.circuit() if hasattr(x, "compile") else x for x in (converted(p), converted(q)))
    if isinstance(p, Circuit) and isinstance(q, Circuit):
        return align(p, q)
    if isinstance(p, Unit) or isinstance(q, Unit):
        return p, q
    return two_distributions(p, q)


def _sampler(x: Any, generator: Any) -> tuple[Any, float]:
    """A function that draws n points, and the total mass of the distribution."""
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
    """What an expected kernel takes; printed, it says so in words.

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
        found = {
            "way": self.path,
            "expected kernels": " x ".join(map(str, self.shape)),
            "sweeps": self.parts,
            "steps": self.steps,
            "memory": f"{self.n_bytes / 1024:.4g} KiB",
            "operations": self.operations,
        }
        return overview(
            "Explanation", found, f"<pre style='white-space: pre-wrap'>{escape(str(self))}</pre>"
        )


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
    whole = _of_points(*found) if isinstance(found, tuple) else _of_sweeps(found, max_bytes)
    if not k.tensors:
        return whole
    line = f"  gradients by {_counted(len(k.tensors), 'parameter')} of the kernel: in torch"
    return replace(whole, lines=(*whole.lines, line))


def _of_points(p: Any, q: Any) -> Explanation:
    """The kernels of points: no sweep."""
    X, Y = (_weighted(x)[0] for x in (p, q))
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
    first, n_parts, steps, n_bytes, count = None, 0, 0, 0, 0
    ways: dict[str, int] = {}
    for joint, _ in parts(tuple(found.sides), found.blocks, max_bytes):
        first = joint if n_parts == 0 and joint.by_layers else first
        way = "folded" if joint.by_layers else "node by node"
        ways[way] = ways.get(way, 0) + 1
        n_parts, steps = n_parts + 1, steps + joint.n_steps
        n_bytes, count = max(n_bytes, joint.n_bytes), count + joint.operations
    path = " and ".join(sorted(ways)) or "nothing to do"
    shape = tuple(map(extent_of, found.sides))
    terms = len(found.blocks.weights)
    others = [  # what else could have been chosen, the cheapest first
        f"  not by {' x '.join(filter(None, forms))}: {cost / found.choice.cost:.2g} times the cost"
        for forms, cost in sorted(found.choice.others.items(), key=itemgetter(1))[:4]
    ]
    lines = [
        f"{shape[0]} x {shape[1]} expected kernels of a kernel with {_counted(terms, 'term')}",
        *(
            f"  {name}: {_described(side, form)}"
            for name, side, form in zip(("x", "x'"), found.sides, found.choice.forms, strict=True)
        ),
        *others,
        f"  {_counted(n_parts, 'sweep')}, {path}: {_counted(steps, 'step')}",
        _costs(n_bytes, count),
    ]
    if n_bytes > memory_limit():
        lines.append(
            f"  more than the {memory_limit() / 2**30:.3g} GiB that can be used: expected_kernel "
            "raises a SizeError"
        )
    return Explanation(
        path, found.choice.forms, shape, n_parts, steps, n_bytes, count, tuple(lines), first
    )


def _described(side: operands.Side, form: str | None) -> str:
    if not isinstance(side, operands.CircuitOperand):
        return _counted(side.n_rows, "point")
    circuit = side.model if isinstance(side, evidence_forms.ConditionalsOperand) else side.circuit
    text = f"a circuit of {_counted(circuit.n_variables, 'variable')}, {circuit.n_units} units"
    inner = [block for block in circuit.blocks if isinstance(block, Inner)]
    sparse = [block.is_sparse for block in inner if block.weights is not None]
    kinds = {"dense": sparse.count(False), "sparse": sparse.count(True)}
    present = " and ".join(f"{n} {kind}" for kind, n in kinds.items() if n)
    if present:
        text += f" ({present} matrices of weights)"
    if not circuit.is_on_host:
        numbers: Any = circuit.blocks[0].numbers
        text += f", in {circuit.xp.__name__.rpartition('.')[2]} on {device_of(numbers)}"
    if side.n_rows is not None:
        text += f", given {_counted(side.n_rows, 'row')} of evidence"
    return f"{text}: {FORMS[form]}"


def _counted(n: int | None, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _costs(n_bytes: int, count: int) -> str:
    size = f"{n_bytes / 2**10:.1f} KiB" if n_bytes < 2**20 else f"{n_bytes / 2**20:.1f} MiB"
    size = size if n_bytes < 2**33 else f"{n_bytes / 2**30:.1f} GiB"
    return f"  {size} of intermediate values at most, {count:.5g} operations"
