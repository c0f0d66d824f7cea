"""Stein kernels of points and of collapsed samples, and the kernelised Stein discrepancy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from math import inf, prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import csr_array

from expectedkernels import arrays, checks, expectation
from expectedkernels.algebra import multiply, quotient, shift
from expectedkernels.arrays import DEFAULT_MAX_BYTES, Array, RowsLike, SamplesLike, as_like, spans
from expectedkernels.checks import DataError, KernelError, PropertyError, Verdict, public, public_in
from expectedkernels.circuits import queries
from expectedkernels.circuits.circuit import Circuit, cpu_circuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.circuits.inputs import Table, log_sum_exp
from expectedkernels.circuits.operands import CircuitOperand, axis_size, joint_cost
from expectedkernels.circuits.properties import require_compatible
from expectedkernels.circuits.queries import require_possible, states_with_gradients
from expectedkernels.data.evidence import Column, Evidence, as_evidence, as_points
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves
from expectedkernels.engine.scaled import ScaledArray
from expectedkernels.kernels import empirical, kernel as kernels, target as targets
from expectedkernels.kernels.empirical import check_roles, sample_rows
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.gram import KernelBlocks, gram, is_parallel, kernel_operand, kronecker
from expectedkernels.kernels.kernel import ExpHamming, Kernel, factor_matrix, refuse_gradients
from expectedkernels.kernels.points import in_tensors, scaled_products
from expectedkernels.kernels.target import HasSiteLogs, Target, TargetLike, as_target
from expectedkernels.models.factor_graph import CollapsedModel, converted
from expectedkernels.sampling import gibbs
from expectedkernels.stein import langevin
from expectedkernels.stein.langevin import PairwiseKernel, is_real
from expectedkernels.vtree import Vtree

CHUNK_BYTES = 2**26
"""Pairs of samples are worked on in groups whose values stay near the processor."""

NODE, PAIR = 110_000.0, 30.0
"""What a node costs for every sampled variable, and a pair of conditionals, in numbers computed."""

ZEROS = ("raise", "restrict")
"""What to do where the target has zeros."""

OPERATORS = ("shift", "gibbs")
"""What Stein kernels are made of: shifts to neighbouring states, or updates of a Gibbs sampler."""

ZERO_ADVICE = (
    "Use operator='gibbs', which needs no positive target, or restrict the shifts to the support "
    "(zeros='restrict'). Neither can compare parts of the support that no change of a single "
    "variable connects."
)

RARE = "Some state of the target is more than 1e150 times less likely than one next to it."
TOO_RARE = f"{RARE} Leave out samples of such states, or use operator='gibbs', which is bounded."
TOO_RARE_BETWEEN = f"{RARE} Compare samples: kdsd(q.sample(1000), p, k, operator='gibbs')."

DEFAULT_KERNEL = ExpHamming()
KEPT_BYTES = 2**26
"""How large a signed measure may be that a circuit keeps for the next call."""


def marked(circuit: Circuit, change: Callable[[Any], Any]) -> Circuit:
    """The circuit over twice as many states, with changed tables for the marked ones.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = marked(ek.factorized([[0.1, 0.2, 0.7]]), lambda table: np.roll(table, -1, axis=1))
    >>> p.input(0).table.tolist()
    [[0.1, 0.2, 0.7, 0.2, 0.7, 0.1]]
    """

    def leaf(node: int, variable: int) -> Any:
        block = circuit.blocks[node]
        if block.cardinality is None:
            return block
        return Table(np.concatenate([block.numbers, change(block.numbers)], axis=1))

    return Circuit(circuit.vtree, tuple(at_nodes(circuit.vtree, leaf, circuit.blocks.__getitem__)))


def one_marked(vtree: Vtree, cardinalities: Sequence[int]) -> Circuit:
    """The indicator of points in which exactly one variable is marked.

    Its units say that no variable of a vtree node is marked, or that one is.

    Examples
    --------
    >>> one = one_marked(Vtree.balanced(2), [2, 2])
    >>> one.log_likelihood([[0, 1], [0, 3], [2, 1], [2, 3]]).tolist()
    [-inf, 0.0, 0.0, -inf]
    """

    def leaf(node: int, variable: int) -> Table:
        table = np.kron(np.eye(2), np.ones(cardinalities[variable]))
        return Table(table[1:] if node == vtree.root else table)

    return Circuit(vtree, tuple(at_nodes(vtree, leaf, lambda node: _counter(node == vtree.root))))


def _counter(is_root: bool) -> Inner:
    """None marked: none on either side. One marked: one on one of the two sides."""
    if is_root:
        return Inner(2, 1, np.asarray([1, 0]), np.asarray([0, 1]), np.ones((1, 2)))
    weights = np.asarray([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    return Inner(3, 2, np.asarray([0, 1, 0]), np.asarray([0, 0, 1]), weights)


@lru_cache(maxsize=16)
def same_single_mark(kernel: KernelBlocks, cardinalities: tuple[int, ...]) -> KernelBlocks:
    """The kernel on augmented states, zero unless both sides mark one variable, the same."""
    vtree = kernel.operand.vtree
    units = [1 if node == vtree.root else 2 for node in range(vtree.n_nodes)]
    tables = [[np.kron(np.diag(x), np.ones((n, n))) for x in np.eye(2)] for n in cardinalities]
    factors = [tuple(Factor(table=table) for table in pair) for pair in tables]
    if len(factors) == 1:  # the only leaf is the root
        factors = [factors[0][1:]]
    operand = kernel_operand(vtree, units, lambda node: _counter(node == vtree.root))
    counter = KernelBlocks(operand, factors, np.ones(1))
    return kronecker(with_marks(kernel, cardinalities, np.ones((2, 2))), counter)


def with_marks(kernel: KernelBlocks, cardinalities: Sequence[int], marks: Any) -> KernelBlocks:
    """The kernel on augmented states, times a kernel of the marks of every variable.

    The identity makes it zero unless the same variables are marked on both sides.
    """

    def augmented(factor: Factor, cardinality: int, variable: int) -> Factor:
        table = np.kron(marks, factor_matrix(factor, cardinality, variable))
        if not factor.tensors:
            return Factor(table=table)
        # gradients by parameters of a factor are those by its table
        states = np.arange(cardinality, dtype=np.float64)[:, None]
        values = scaled_products([factor], states, states).linear()
        return Factor(table=table, tensors={"table": values.new_tensor(marks).kron(values)})

    tables: dict[Any, tuple[Factor, ...]] = {}
    factors = []
    for v, key in enumerate(zip(kernel.factors, cardinalities, strict=True)):
        if key not in tables:  # equal tuples stay one tuple, which is found equal faster
            tables[key] = tuple(augmented(factor, key[1], v) for factor in key[0])
        factors.append(tables[key])
    return replace(kernel, factors=factors, known={})


class ZerosMet(PropertyError):
    """Shifts lead to states without probability, where they have no mean zero.

    Parameters
    ----------
    where : str
        Which shift of which sample does.
    advice : str
        What to do, in the words of the function that was called.
    """

    def __init__(self, where: str, advice: str = ZERO_ADVICE):
        self.where = where
        super().__init__(f"{where} {advice}")


@public
class SteinKernel(PairwiseKernel):
    r"""The Stein kernel of a target, a function of pairs of points.

    .. math:: k_p(x, x') = \sum_i (T_i \otimes T_i)\, k\, (x, x')

    where the operators :math:`T_i` act on both arguments of a kernel and have mean zero under p,
    so that the mean of :math:`k_p(x, \cdot)` under p is zero for every x. There are two kinds:

    .. math:: T_i f(x) = f(\downarrow_i x) - r_i(x) f(x), \qquad
              r_i(x) = p(\uparrow_i x) / p(x)

    with arrows that shift variable i to its next and to its previous state, cyclically ("shift",
    the operator of the discrepancy `kdsd`), and

    .. math:: T_i f(x) = f(x) - \mathrm{E}_p[f(x) \mid x_{-i}]

    ("gibbs"), which compares a point with what a Gibbs sampler would make of it. The second
    is bounded, however rare the states are that a point is next to, and needs no positive target.

    Parameters
    ----------
    target : FactorGraph, BayesianNetwork, Circuit or Target
        Over discrete variables; need not be normalised.
    kernel : Kernel, optional
        On the points; best a strictly positive definite one. Default: ``ExpHamming()``.
    zeros : "raise" or "restrict"
        For shifts: what to do if the target is zero next to a point, where the mean would not be
        zero. Raise, or leave out the points outside the support. The restricted kernel has
        mean zero again, but cannot compare the masses of parts of the support that no change of
        a single variable connects (nor can "gibbs").
    operator : "shift" or "gibbs"
        Which functions have mean zero under the target: those of cyclic shifts, as published, which
        need a positive target, or of Gibbs updates, which are bounded and need none.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> for operator in ("shift", "gibbs"):
    ...     stein = SteinKernel(p, ek.ExpHamming(), operator=operator)
    ...     bool(abs(np.exp(p.log_likelihood(X)) @ stein(X)).max() < 1e-14)
    True
    True
    """

    def __init__(
        self,
        target: TargetLike,
        kernel: Kernel | None = None,
        zeros: str = "raise",
        operator: str = "shift",
    ):
        if isinstance(target, Kernel):
            check_roles("SteinKernel(target, kernel)", target, None)
        target = as_target(target)
        kernel = DEFAULT_KERNEL if kernel is None else kernel
        check_choices(kernel, zeros, operator)
        # points are read on the CPU, so that is where a circuit is asked
        found: Any = target.to("numpy") if isinstance(target, Circuit) else target
        self.target: HasSiteLogs = found
        self._followed = target if isinstance(target, Circuit) and target.has_gradients else None
        self.kernel, self.zeros, self.operator = kernel, zeros, operator
        self.cardinalities = discrete_cardinalities(target)
        self._terms = self._product_terms()

    def __call__(self, rows: RowsLike, others: RowsLike | None = None) -> Array:
        """The Gram matrix of rows (with themselves, or with others).

        Parameters
        ----------
        rows, others : arrays of shape (n, variables)

        Returns
        -------
        array of shape (rows, others)
            A tensor, if parameters of the kernel, or of a circuit that is the target, require
            gradients.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> stein = ek.SteinKernel(ek.factorized([[0.5, 0.5]]), ek.Delta())
        >>> stein([[0], [1]]).shape
        (2, 2)
        """
        if self._followed is None and not self.kernel.tensors:
            return super().__call__(rows, others)
        first = self._followed_moves(rows)
        second = first if others is None else self._followed_moves(others)

        def values(X: Any, Y: Any) -> Any:
            found = in_tensors(self.kernel.scaled(X, Y))
            return found.linear("The Stein kernel", "Leave out samples of rare states.")

        return _gram_by_states(values, first, second)

    def _followed_moves(self, rows: Any) -> list[Any]:
        points, *moves = side = self._read(rows)
        if self._followed is None:
            return side
        found = [points]
        for v, own in enumerate(moves):
            rest = np.where(np.arange(points.shape[1]) == v, np.nan, points)
            evidence = Evidence(self._followed.cardinalities, rest)
            shares = states_with_gradients(self._followed, evidence, v)
            change = -shares  # how the operator weighs states, up to what has no gradient
            if self.operator == "shift":
                each, states = np.eye(own.shape[1]), points[:, v]
                here, following = (as_like(x[states], shares) for x in (each, np.roll(each, -1, 0)))
                ratio = (shares * following).sum(1) / (shares * here).sum(1)
                change = ratio[:, None] * here
            found.append(as_like(own, shares) + (change - change.detach()))
        return found

    def _product_terms(self) -> list[tuple[float, list[Any]]] | None:
        """Weights and matrices of products of positive kernels that sum to the kernel, if any."""
        if self.kernel.vtree is not None:
            return None
        blocks = self.kernel.blocks(Vtree.balanced(len(self.cardinalities)), self.cardinalities)
        if not is_parallel(blocks):
            return None
        parts = enumerate(zip(blocks.factors, self.cardinalities, strict=True))
        own = [[factor_matrix(factor, n, v) for factor in some] for v, (some, n) in parts]
        if any((matrix <= 0).any() for matrices in own for matrix in matrices):
            return None
        matrices = (list(term) for term in zip(*own, strict=True))
        return list(zip(blocks.weights.tolist(), matrices, strict=True))

    def _read(self, rows: Any) -> Moves:
        return self._moves(*site_tables(self.target, rows))

    def _moves(self, points: Any, tables: list[Any]) -> Moves:
        kind = self.operator, self.zeros
        moves = (operator_weights(logs, points, v, *kind) for v, logs in enumerate(tables))
        return Moves([points, *moves])

    def _gram(self, first: Any, second: Any) -> Any:
        features = None
        if self._terms is not None:  # of many rows, dense matrices are faster
            features = [x if len(first[0]) == 1 else x.toarray() for x in second.features]
        wide = max(self.cardinalities, default=1) ** 2 if features is None else 1
        parts = [np.zeros((0, len(second[0])))]
        for chunk in spans(len(first[0]), max(1, kernels.CHUNK // max(1, wide * len(second[0])))):
            some = [x[chunk] for x in first]
            with np.errstate(over="ignore", invalid="ignore"):
                if features is None:
                    parts.append(_gram_by_states(self.kernel.gram, some, second))
                else:
                    parts.append(_product_gram(self._terms, some, *features))
        return finite_gram(np.concatenate(parts))

    def _diagonal(self, rows: Any, sides: Any) -> Any:
        if self._terms is None:
            return super()._diagonal(rows, sides)
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [_product_diagonal(self._terms, *side) for side in sides]
        return finite_gram(np.concatenate(parts))

    def __repr__(self) -> str:
        return f"<SteinKernel of {self.target!r} with {self.kernel!r}, operator {self.operator!r}>"


def finite_gram(gram: Any) -> Any:
    """These values of a Stein kernel; raises if one of them is too large."""
    if not np.isfinite(gram).all():
        raise KernelError(f"The Stein kernel is too large for a float here. {TOO_RARE}")
    return gram


def selected_grams(kernels: Sequence[Any], rows: Any) -> list[Any]:
    """For each of some Stein kernels of one target a function that gives kernels of some rows.

    It takes the numbers of rows on either side. The kernels have the same operators; rows are read,
    and the target is evaluated, once for all of them.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    >>> stein, X = SteinKernel(p), np.array([[0, 0], [0, 1], [1, 1]])
    >>> [between] = selected_grams([stein], X)
    >>> bool(abs(between([2, 0], [1]) - stein(X)[[2, 0]][:, [1]]).max() < 1e-15)
    True
    """
    side = kernels[0]._read(rows)

    def between(kernel: Any, *numbers: Any) -> Any:
        return kernel._gram(*(type(side)(x[n] for x in side) for n in numbers))

    return [partial(between, kernel) for kernel in kernels]


def shared_grams(first: SteinKernel, second: SteinKernel, rows: Any) -> tuple[Any, Any]:
    """The Gram matrices of two Stein kernels of one target, which is evaluated once for both."""
    read = site_tables(first.target, rows)
    one, other = (kernel._moves(*read) for kernel in (first, second))
    return first._between(one, one), second._between(other, other)


def site_tables(target: HasSiteLogs, rows: Any) -> tuple[Any, list[Any]]:
    """Complete points, and what `site_logs` gives for every variable at them."""
    found = sample_rows(target, rows, least=0, check=False)
    points = as_points(found, target.cardinalities, "Samples").astype(np.intp)
    if isinstance(target, (Target, Circuit)):
        return points, target.all_site_logs(points)
    return points, [np.asarray(target.site_logs(points, v)) for v in range(points.shape[1])]


def check_choices(kernel: Any, zeros: str, operator: str) -> None:
    """Raise unless these are what Stein kernels are made of."""
    kernels.require_kernel(kernel, "ExpHamming()")
    checks.check_choice("a Stein kernel", "zeros", zeros, ZEROS, KernelError)
    checks.check_choice("a Stein kernel", "operator", operator, OPERATORS, KernelError)


def discrete_cardinalities(target: Any, *, real: bool = False) -> list[int]:
    """The number of states of every variable of a target; raises if it is no such thing.

    A density over the reals may have none.
    """
    gibbs.require_target(target)
    if real and is_real(target):
        return []
    for v, n in enumerate(target.cardinalities):
        if n is None:
            what = f"Targets are discrete here. Variable {v} of the target is real"
            raise PropertyError(f"{what}. A log-density is Target(log_prob, n_variables=...).")
    return [int(n) for n in target.cardinalities]


def stein_target(call: str, target: Any, samples: Any, *, real: bool = False) -> Any:
    """The target of a call; raises if it, or the samples, are no such."""
    found = as_target(target)
    check_roles(call, found, samples)
    discrete_cardinalities(found, real=real)
    return found


def operator_weights(logs: Any, points: Any, variable: int, operator: str, zeros: str) -> Any:
    """How the operator of a variable weighs the states that it could be in, (n, cardinality).

    The logs are those of `site_logs`, up to a constant in each row. For a Gibbs update, the own
    state less those it may get; for a shift, the ratio p(next) / p(here) at the own state, less
    one at the state before.

    Examples
    --------
    >>> logs, points = np.log([[0.25, 0.75]]), np.array([[0]])
    >>> operator_weights(logs, points, 0, "gibbs", "raise").round(12).tolist()
    [[0.75, -0.75]]
    >>> operator_weights(logs, points, 0, "shift", "raise").round(12).tolist()
    [[3.0, -1.0]]
    """
    states, here = points[:, variable].astype(np.intp), np.eye(logs.shape[1])
    if operator == "shift":
        ratios, kept = shift_ratios(logs, points, variable, zeros)
        return ratios[:, None] * here[states] - kept[:, None] * here[states - 1]
    _refuse_impossible(logs[np.arange(len(logs)), states], points)
    chances = arrays.from_logs(logs)
    chances /= chances.sum(axis=1, keepdims=True)
    # what the others have, and not one less the own: it may be far below rounding
    others = np.where(here[states] == 1, 0.0, chances)
    return here[states] * others.sum(axis=1, keepdims=True) - others


def shift_ratios(logs: Any, points: Any, variable: int, zeros: str) -> tuple[Any, Any]:
    """The ratios p(next) / p(here) of points, and whether the states before are possible."""
    states, rows, card = points[:, variable].astype(np.intp), np.arange(len(points)), logs.shape[1]
    here = logs[rows, states]
    _refuse_impossible(here, points)
    kept = logs[rows, states - 1] > -inf
    if zeros == "raise" and not kept.all():
        raise ZerosMet(
            f"The target has zeros: shifting variable {variable} of the sample "
            f"{_shown(points[np.argmin(kept)])} back leaves its support."
        )
    with np.errstate(over="ignore"):
        ratios = np.exp(logs[rows, (states + 1) % card] - here)
    if not np.isfinite(ratios).all():
        raise DataError(
            f"The probability of the sample {_shown(points[np.argmin(np.isfinite(ratios))])} grows "
            f"by more than can be written when variable {variable} changes. Use operator='gibbs'."
        )
    return ratios, kept


def _refuse_impossible(logs: Any, points: Any) -> None:
    if (logs == -inf).any():
        row = int(np.argmin(logs))
        raise DataError(
            f"The target is zero at row {{row}} of the samples, {_shown(points[row])}. Leave out "
            "such samples: they cannot have come from the target.",
            row=row,
        )


def _shown(point: Any) -> str:
    """The values of a sample, the first of them if there are many."""
    values = ["NaN" if np.isnan(value) else str(int(value)) for value in point[:30]]
    return f"[{', '.join(values)}{', ...' if len(point) > 30 else ''}]"


class Moves(list[Any]):
    """Points, and for every variable how its operator weighs the states it could be in."""

    @cached_property
    def features(self) -> tuple[Any, Any]:
        """Indicators of all states, (n, states), and their products with weights of operators."""
        points, *moves = self
        n, cards = len(points), np.array([w.shape[1] for w in moves])
        own = np.cumsum(cards) - cards + points
        first = np.cumsum(cards**2) - cards**2 + points * cards
        pairs = np.hstack([first[:, [v]] + np.arange(card) for v, card in enumerate(cards)])

        def matrix(values: Any, columns: Any, width: int) -> Any:
            starts = columns.shape[1] * np.arange(n + 1)
            return csr_array((values.ravel(), columns.ravel(), starts), (n, width))

        states = matrix(np.ones(own.shape), own, cards.sum())
        return states, matrix(np.hstack(moves), pairs, cards @ cards)


def _product_gram(terms: Any, side: list[Any], states: Any, pairs: Any) -> Any:
    """The Gram matrix for products of positive kernels, by matrix products over states.

    Relative to k(x, x'), the operators of one variable see only the two states of that variable
    and how they weigh other states: the features of x', weighted by x.
    """
    total: Any = 0.0
    for weight, matrices in terms:
        columns = list(zip(side[0].T, side[1:], matrices, strict=True))
        logs = np.hstack([np.log(m)[x] for x, _, m in columns])
        ratios = ((1.0 / m)[x][:, :, None] * (w @ m)[:, None, :] for x, w, m in columns)
        inside = np.hstack([ratio.reshape(len(ratio), -1) for ratio in ratios])
        total = total + weight * np.exp((states @ logs.T).T) * (pairs @ inside.T).T
    return total


def _product_diagonal(terms: Any, points: Any, *moves: Any) -> Any:
    """The kernels of points with themselves."""
    total: Any = 0.0
    for weight, matrices in terms:
        own = [np.diag(m)[x] for x, m in zip(points.T, matrices, strict=True)]
        parts = zip(moves, matrices, own, strict=True)
        inside = sum(((w @ m) * w).sum(axis=1) / k for w, m, k in parts)
        total = total + weight * np.prod(own, axis=0) * inside
    return total


def _gram_by_states(values: Callable[..., Any], first: Any, second: Any) -> Any:
    """The Gram matrix by its definition: kernels at all changes of one variable on both sides."""
    (X, *moves), (Y, *others) = first, second
    total: Any = np.zeros((len(X), len(Y)))
    for v, pair in enumerate(zip(moves, others, strict=True)):
        n = pair[0].shape[1]
        sides = [np.repeat(points.astype(np.float64), n, axis=0) for points in (X, Y)]
        for side in sides:
            side[:, v] = np.tile(np.arange(n), len(side) // n)
        cube = values(*sides).reshape(len(X), n, len(Y), n)
        if not isinstance(cube, np.ndarray):
            pair = tuple(as_like(m, cube).to(cube) for m in pair)
        parts = pair[0][:, :, None, None] * cube * pair[1][None, None]
        total = as_like(total, cube) + parts.sum((1, 3))
    return total


def is_strictly_positive_definite(kernel: Kernel, cardinalities: Sequence[int]) -> Verdict:
    """Whether a kernel on discrete variables tells all distributions apart, as far as one can see.

    It does if one of its terms is a product of strictly positive definite kernels of single
    variables, and nothing in it is negative. The check is linear in its size, and sufficient.

    Parameters
    ----------
    kernel : Kernel
        The kernel to check.
    cardinalities : sequence of int
        The number of states of every variable.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import expectedkernels as ek
    >>> bool(is_strictly_positive_definite(ek.ExpHamming(), [2, 3]))
    True
    >>> is_strictly_positive_definite(ek.TableKernel([np.ones((2, 2))]), [2])
    no: the kernels of variable 0 are not strictly positive definite
    """
    judge = _strictness.__wrapped__ if kernel.tensors else _strictness
    return judge(kernel, tuple(cardinalities))


@lru_cache(maxsize=16)
def _strictness(kernel: Kernel, cardinalities: tuple[int, ...]) -> Verdict:
    if not (verdict := kernel.is_positive_definite(cardinalities)):
        return verdict
    n_variables, vtree = len(cardinalities), kernel.vtree
    if vtree is None or vtree.n_variables != n_variables:  # the kernel says what is wrong
        vtree = Vtree.balanced(n_variables)
    blocks: KernelBlocks = kernel.blocks(vtree, cardinalities)

    def is_strict(matrix: Any) -> bool:
        size = float(np.abs(matrix).max())
        return bool(size > 0 and np.linalg.eigvalsh(matrix)[0] > 1e-12 * len(matrix) * size)

    parts = enumerate(zip(blocks.factors, cardinalities, strict=True))
    strict = [np.asarray([is_strict(factor_matrix(f, n, v)) for f in own]) for v, (own, n) in parts]
    for v in vtree.scope().tolist():
        if not strict[v].any():
            return Verdict(False, f"the kernels of variable {v} are not strictly positive definite")

    def inner(node: int, left: Any, right: Any) -> Any:
        block: Any = blocks.operand.blocks[node]
        products = left[block.index("left")] & right[block.index("right")]
        return (block.csr > 0).astype(np.float64) @ products > 0

    roots = from_leaves(vtree, lambda _, variable: strict[variable], inner)[-1]
    if (roots & (np.asarray(blocks.weights.tolist()) > 0)).any():
        return Verdict(True, "it has a term of strictly positive definite kernels")
    return Verdict(False, "no term of it is strictly positive definite in all variables")


@public
class CollapsedSteinKernel(PairwiseKernel):
    r"""The Stein kernel of a target between collapsed samples.

    A collapsed sample has values for some variables (:math:`x_s`) and represents the others
    by their conditional distribution, :math:`p(x_c \mid x_s)`. The kernel of two of them is the
    mean of the Stein kernel of p (see `SteinKernel`) over what both represent. Every sample may
    have values for other variables.

    Parameters
    ----------
    circuit : Circuit
        The target, normalised or not; it need not be deterministic.
    kernel : Kernel, optional
        Must be compatible with the circuit. Default: ``ExpHamming()``.
    zeros : "raise" or "restrict"
        For shifts: what to do if the target has zeros, as in `SteinKernel`. Only the distribution
        of the variables with values matters: zeros that collapsed variables fill do no harm.
    max_bytes : int
        How much memory intermediate values may take.
    operator : "shift" or "gibbs"
        As in `SteinKernel`. The updates of "gibbs" are those of `collapsed_gibbs`: a variable is
        drawn anew given the other values, with the collapsed variables marginalised.
    positive : bool, optional
        Whether the target is known to be positive everywhere. Default: found out, which takes a
        check of determinism; what then is not known is looked up next to the samples.

    Raises
    ------
    DataError
        If it is not given a circuit.

    Notes
    -----
    A variable contributes to the kernel of two samples only if both have values for it. With
    :math:`f` the circuit's table of that variable, the operators turn it into
    :math:`f(\uparrow v)(\delta_x(v) - \delta_{\downarrow x}(v))` ("shift") and
    :math:`f(v)(\delta_x(v) - p(x_i \mid x_{s \setminus i}))` ("gibbs"); all variables together are
    one sweep in which one variable is marked (see `expectedkernels.kernels.marks`), for all
    pairs of distinct rows at once. Cost: that of about three expected kernels.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    >>> stein = CollapsedSteinKernel(p, ek.ExpHamming())
    >>> nan = float("nan")
    >>> stein([[0, nan, 1], [nan, 1, nan], [1, nan, nan]]).round(6).tolist()
    [[68.97897, 0.0, -1.800878], [0.0, 0.489207, 0.0], [-1.800878, 0.0, 0.57358]]
    """

    def __init__(
        self,
        circuit: Circuit,
        kernel: Kernel | None = None,
        zeros: str = "raise",
        max_bytes: int = DEFAULT_MAX_BYTES,
        *,
        operator: str = "shift",
        positive: bool | None = None,
    ):
        if not isinstance(circuit, Circuit):
            why = ": a function cannot be summed over exactly" * isinstance(circuit, Target)
            raise DataError(
                "The target of collapsed samples must be a Circuit (a FactorGraph compiles to "
                f"one). Got {type(circuit).__name__} instead{why}."
            )
        kernel = DEFAULT_KERNEL if kernel is None else kernel
        check_choices(kernel, zeros, operator)
        refuse_gradients("CollapsedSteinKernel", kernel)
        circuit.require_single_root("A Stein kernel")
        self.cardinalities = discrete_cardinalities(circuit)
        self.circuit = cpu_circuit(circuit, "CollapsedSteinKernel")
        self.kernel, self.zeros, self.operator, self.max_bytes = kernel, zeros, operator, max_bytes
        shifts = operator == "shift"
        change: Any = partial(np.roll, shift=-1, axis=1) if shifts else np.asarray
        # the circuit keeps what is made for an operator, for the next samples
        self._marked = self.circuit.operand.cached(operator, partial(marked, self.circuit, change))
        known = gibbs.is_positive(self.circuit) if shifts and positive is None else positive
        self._positive = not shifts or bool(known)

    def __getstate__(self) -> dict[str, Any]:
        # blocks refer to a module, which cannot be pickled, and are quickly made again
        return {name: value for name, value in vars(self).items() if name != "_blocks"}

    @cached_property
    def _blocks(self) -> KernelBlocks:
        blocks = self.kernel.blocks(self.circuit.vtree, self.cardinalities)
        return same_single_mark(blocks, tuple(self.cardinalities))

    def cost(self, rows: RowsLike) -> float:
        """What the Gram matrix of rows costs, in numbers computed, before it is.

        Parameters
        ----------
        rows : array of shape (n, variables)
            NaN is collapsed.

        Returns
        -------
        float

        Examples
        --------
        >>> import expectedkernels as ek
        >>> stein = CollapsedSteinKernel(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
        >>> nan = float("nan")
        >>> stein.cost([[0, nan]]) < stein.cost([[0, nan], [1, nan], [0, 1]])
        True
        """
        size = axis_size(self._read(rows)[1])
        # with and without a mark there are three products for one, and half of the pairs
        return 0.5 * joint_cost(size, size, 3)

    def _gram(self, first: Any, second: Any) -> Any:
        (logs, p), (other_logs, q) = first, second
        with checks.progress_bar(len(logs) * len(other_logs), "Stein kernels") as bar:
            most = min(self.max_bytes, CHUNK_BYTES)
            found = gram((p, q), self._blocks, most, bar, symmetric=p is q)
        scale = -logs[:, None] - other_logs[None, :]
        scaled = ScaledArray(found.data, scale if found.scale is None else found.scale + scale)
        return scaled.linear("The Stein kernel of two samples", TOO_RARE)

    def _read(self, rows: Any) -> tuple[Any, CircuitOperand]:
        """The logs of the probabilities of rows, and the marked circuit given these."""
        values = sample_rows(self.circuit, rows, least=0)
        logs = np.asarray(require_possible(self.circuit, as_evidence(values, self.cardinalities)))
        updates = self.operator == "gibbs"
        tables = self.circuit.all_site_logs(values) if updates or not self._positive else []
        columns = []
        for v, n in enumerate(self.cardinalities):
            observed = np.flatnonzero(~np.isnan(values[:, v]))
            here = np.eye(n)[values[observed, v].astype(np.intp)]
            moves = here - np.roll(here, -1, axis=1)
            if updates:
                # a sum of rounded numbers may be less than one of its terms by rounding
                log_sums, _ = log_sum_exp(tables[v][observed], 1)
                log_chance = np.minimum(logs[observed] - log_sums, 0.0)[:, None]
                moves = np.where(here == 1, -np.expm1(log_chance), -np.exp(log_chance))
            elif not self._positive:
                _, kept = shift_ratios(tables[v][observed], values[observed], v, self.zeros)
                moves = here - kept[:, None] * np.roll(here, -1, axis=1)
            # weights of the states of a variable, and of its marked states
            weights = np.hstack([np.ones((len(values), n)), np.zeros((len(values), n))])
            weights[observed] = np.hstack([here, moves])
            distinct, codes = np.unique(weights, axis=0, return_inverse=True)
            columns.append(Column(distinct, None, codes.reshape(-1)))
        evidence = Evidence([2 * n for n in self.cardinalities], columns=columns)
        return logs, CircuitOperand(self._marked, evidence, "patterns")

    def __repr__(self) -> str:
        return f"<CollapsedSteinKernel of {self.circuit!r} with {self.kernel!r}>"


@public_in("stein")
class PartitionSteinKernel(PairwiseKernel):
    """The Stein kernel of a model between samples that all collapse the same variables.

    Only the conditionals of the collapsed variables are compiled (see `CollapsedModel`), so that
    the model itself may be too large for that.

    Parameters
    ----------
    model : CollapsedModel
        The target with its collapsed variables.
    kernel : Kernel
        The kernel on the sampled variables.
    zeros : "raise" or "restrict"
        As in `SteinKernel`.
    max_bytes : int
        How much memory intermediate values may take.
    operator : "shift" or "gibbs"
        As in `SteinKernel`.

    Notes
    -----
    Every sampled variable takes one batch of expected kernels between the conditionals given the
    samples and given the samples with that variable in other states.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> grid = ek.ising_grid(3, 3, rng=0)
    >>> model = ek.models.CollapsedModel(grid, [1, 3, 5, 7])
    >>> stein = PartitionSteinKernel(model, ek.ExpHamming())
    >>> rows = np.ones((2, 9))
    >>> rows[:, [1, 3, 5, 7]] = np.nan
    >>> rows[1, 0] = 0
    >>> whole = ek.CollapsedSteinKernel(grid.circuit(), ek.ExpHamming())
    >>> bool(abs(stein(rows) - whole(rows)).max() < 1e-9)
    True
    """

    def __init__(
        self,
        model: CollapsedModel,
        kernel: Kernel,
        zeros: str = "raise",
        max_bytes: int = DEFAULT_MAX_BYTES,
        *,
        operator: str = "shift",
    ):
        check_choices(kernel, zeros, operator)
        refuse_gradients("PartitionSteinKernel", kernel)
        self.operator = operator
        self.model, self.kernel, self.zeros, self.max_bytes = model, kernel, zeros, max_bytes
        self.cardinalities = list(model.model.cardinalities)

    def site_logs(self, X: Array, variable: int) -> Array:
        """The logs of the marginal of the sampled variables, one of them set to each state."""
        card = self.cardinalities[variable]
        return gibbs.conditional_logs(self.model.log_marginal, variable, card, X)

    def _read(self, rows: Any) -> tuple[Any, Any]:
        values = sample_rows(self.model.model, rows, least=0)
        free = np.isnan(values)
        wrong = free != np.isin(np.arange(values.shape[1]), self.model.collapsed)
        if wrong.any():
            row = int(np.argmax(wrong.any(axis=1)))
            raise DataError(
                f"All samples must collapse the same variables, {list(self.model.collapsed)}. Row "
                f"{{row}} collapses {np.flatnonzero(free[row]).tolist()}; use collapsed_bbis.",
                row=row,
            )
        kind = self.operator, self.zeros
        tables = ((v, self.site_logs(values, v)) for v in self.model.sampled)
        return values, {v: operator_weights(logs, values, v, *kind) for v, logs in tables}

    def _gram(self, first: Any, second: Any) -> Any:
        total = np.zeros((len(first[0]), len(second[0])))
        for variable in self.model.sampled:
            circuit = self.model.circuit
            if self.operator == "shift":
                circuit = shift(circuit, variable)
            evidence, weights = own = self._measures(first, variable)
            others, other_weights = own if second is first else self._measures(second, variable)
            given: Any = {"evidence_p": evidence, "evidence_q": others, "max_bytes": self.max_bytes}
            means = expectation.expected_kernel(circuit, circuit, self.kernel, **given)
            means = weights[:, None] * means * other_weights[None, :]
            n, m = total.shape
            total += means.reshape(-1, n, means.shape[1] // m, m).sum(axis=(0, 2))
        return total

    def _measures(self, side: Any, variable: int) -> tuple[Evidence, Any]:
        """Conditionals, as evidence on the circuit, and their signed masses.

        The conditional given a state stands at that state; with shifts, at the one before.
        """
        rows, moves = side
        card, shifts = self.cardinalities[variable], int(self.operator == "shift")
        states = rows[:, variable].astype(np.intp)
        places = np.tile(np.arange(card)[:, None], len(rows))
        if shifts:
            places = np.stack([states, (states - 1) % card])
        weights = moves[variable][np.arange(len(rows)), places]
        every = np.tile(rows, (len(places), 1))
        # impossible states have no weight, and any conditional will do
        every[:, variable] = np.where(weights == 0, states, (places + shifts) % card).reshape(-1)
        evidence, _ = self.model.evidence(every)
        evidence[variable] = np.eye(card)[places.reshape(-1)]
        return as_evidence(evidence, self.cardinalities), weights.reshape(-1)


def partition_cost(cardinalities: Any, rows: Any) -> float:
    """What the Gram matrix of rows costs by their conditionals, in numbers computed.

    Examples
    --------
    >>> partition_cost([2, 2], np.array([[0.0, np.nan]]))
    330120.0
    """
    sampled, n_nodes = np.flatnonzero(~np.isnan(rows).any(axis=0)), 2 * len(cardinalities) - 1
    pairs = sum((cardinalities[v] * len(rows)) ** 2 for v in sampled.tolist())
    return len(sampled) * n_nodes * NODE + PAIR * pairs


def kdsd(
    q: empirical.DistributionLike | SamplesLike,
    p: TargetLike,
    k: Kernel | None = None,
    *,
    unbiased: bool = False,
    zeros: str = "raise",
    operator: str = "shift",
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Array:
    r"""The kernelised discrete Stein discrepancy KDSD(q || p), exactly.

    .. math:: \mathrm{KDSD}(q \| p) = \sum_{x, x'} q(x)\, q(x')\, k_p(x, x')

    Here :math:`k_p` is the Stein kernel of the target p (see `SteinKernel`). The discrepancy is
    zero if q is p, positive otherwise if k is strictly positive definite, and does not depend on
    the normaliser of p.

    Parameters
    ----------
    q : Circuit, FactorGraph, unit graph, or samples
        A circuit, and weights of points, must sum to one. Samples are arrays of
        shape (n, variables) or (chains, n, variables), frames, labelled arrays or InferenceData,
        with equal weights, or Empirical and WeightedSamples with theirs; samples of weight zero
        are ignored.
    p : Circuit, FactorGraph, or (for samples) Target
        The target, over states or, for samples, over the reals (`Target` with `n_variables`: then
        this is the kernel Stein discrepancy of a `LangevinSteinKernel`). If q is a circuit, p must
        be deterministic, and compatible with q: a factor graph is compiled on the vtree of q.
    k : Kernel, optional
        Default: ``ExpHamming()``. Over the reals `RBF`, or `IMQ`, the default, with lengthscales
        by the median distance of standardised samples.
    unbiased : bool
        For points: leave out pairs of a point with itself (U-statistic). The mean over samples of
        q is then the discrepancy of q itself, and it may be negative.
    zeros : "raise" or "restrict"
        For points: what to do if the target has zeros, as in `SteinKernel`. Between circuits the
        target must be positive.
    operator : "shift" or "gibbs"
        For points: as in `SteinKernel`. Between circuits the operators are shifts.
    max_bytes : int
        How much memory intermediate values may take, as for `expected_kernel`.

    Returns
    -------
    float, or tensor
        A tensor if gradients are required: by parameters of the kernel, and for points also by
        those of a circuit that is the target.

    Raises
    ------
    PropertyError
        If the target has zeros, or is a circuit that is not deterministic.
    CompatibilityError
        If the circuits are not compatible with each other or with the kernel.

    Notes
    -----
    Between circuits, with :math:`\rho = q / p`, the discrepancy is the sum over variables i of
    the expected kernels of the signed measures
    :math:`u_i(y) = p(\uparrow_i y) (\rho(y) - \rho(\uparrow_i y))` with themselves. All of them are
    one expected kernel of a single circuit, in which exactly one variable is marked as
    shifted, so that the cost does not grow with the square of the number of variables:
    it is linear for circuits of bounded width. q need not be deterministic.

    W. Li, Z. Zeng, A. Vergari and G. Van den Broeck, "Tractable Computation of Expected Kernels",
    UAI 2021; J. Yang, Q. Liu, V. Rao and J. Neville, "Goodness-of-fit testing for discrete
    distributions via Stein discrepancy", ICML 2018.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> round(ek.kdsd(q, p, ek.Delta()), 12)
    0.5
    >>> ek.kdsd(p, p, ek.Delta())
    0.0
    >>> ek.kdsd([[0], [1], [1], [1]], p, ek.Delta())
    0.5
    """
    q, p = converted(q), converted(p)
    if not empirical.is_model(q) or not empirical.is_model(p):
        call = "kdsd(q, p, k), with the samples (or another model) first and the target second"
        check_roles(call, p, q)
    default = k is None and not is_real(p)  # over the reals it depends on the samples
    k = DEFAULT_KERNEL if default else k
    if k is not None:
        check_choices(k, zeros, operator)
    arrays.check_max_bytes(max_bytes)
    if empirical.is_model(q):
        value = _between_models(q, p, k, operator, max_bytes)
    else:
        value = _of_samples(q, p, k, zeros, operator, unbiased)
    return float(value) if isinstance(value, np.generic) else value  # tensors know gradients


def _between_models(q: Any, p: Any, k: Any, operator: str, max_bytes: int) -> Any:
    """The discrepancy of a model from another."""
    targets.refuse_functions(q, p)
    if operator != "shift":
        what = "Between models the operators of a discrepancy are shifts"
        advice = f"Compare samples of q with p: kdsd(q.sample(1000), p, k, operator={operator!r})"
        raise KernelError(f"{what}. {advice}.")
    for model in (q, p):
        if not isinstance(model, Unit):
            discrete_cardinalities(model)
    # shifts go through the states in the order of the target
    p, q = expectation.two_distributions(p, q, max_bytes)
    for circuit in (q, p):
        circuit.require_single_root("A discrepancy")
        cardinalities = discrete_cardinalities(circuit)
    require_compatible(q, p)
    q, p = (cpu_circuit(x, "The discrepancy between circuits") for x in (q, p))
    queries.require_normalized(q, "A discrepancy")
    measure = kept_measure(q.aligned_to(p.vtree), p)
    kernel = with_marks(k.blocks(measure.vtree, cardinalities), cardinalities, np.eye(2))
    axis = CircuitOperand(measure.to(arrays.device_of(k.tensors[0])) if k.tensors else measure)
    return gram((axis, axis), kernel, max_bytes).linear("The discrepancy", TOO_RARE_BETWEEN)[0, 0]


def _of_samples(samples: Any, p: Any, k: Any, zeros: str, operator: str, unbiased: bool) -> Any:
    """The discrepancy of samples, as a V- or U-statistic."""
    p = as_target(p)
    discrete_cardinalities(p, real=True)
    q = empirical.Empirical(sample_rows(p, samples), empirical.sample_weights(samples)).counted()
    expectation.require_distribution(q, "A discrepancy")
    points = q.merged()
    with checks.rows_numbered(points.numbers):
        if is_real(p):
            k = langevin.median_kernel(p, q.X) if k is None else k
            matrix = langevin.LangevinSteinKernel(p, k)(points.X)
        else:
            matrix = SteinKernel(p, k, zeros, operator)(points.X)
    w = as_like(points.weights, matrix)
    if not unbiased:
        return w @ matrix @ w
    # the mean over pairs of different samples; equal samples are different, too
    squares = np.bincount(empirical.distinct_rows(q.X)[1], q.weights**2)
    total = float(q.weights.sum()) ** 2 - float(squares.sum())
    if not total > 0:
        what = "An unbiased discrepancy needs at least two points with positive weights"
        raise DataError(f"{what}. Got {len(q.X)}.")
    return (w @ matrix @ w - as_like(squares, matrix) @ matrix.diagonal()) / total


def stein_measure(q: Circuit, p: Circuit) -> Circuit:
    """The signed measures of the discrepancy of q, one for every variable, as one circuit.

    It is over marked states: with variable i marked (and no other) it is u_i, else zero.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> stein_measure(q, p).input(0).table.tolist()
    [[0.0, 0.0, -0.5, 0.5]]
    """
    verdict = queries.deterministic(p)
    if not verdict:
        raise PropertyError(
            f"The exact discrepancy needs a deterministic target, but {verdict.reason}. Compile a "
            "factor graph, learn one by learn_chow_liu or learn_strudel, or compare samples of q "
            "with the target: kdsd(q.sample(1000), p, k)."
        )
    require_positive(p)
    change = marked(quotient(q, p), lambda t: t - np.roll(t, -1, axis=1))
    shifted = marked(p, lambda t: np.roll(t, -1, axis=1))
    one = one_marked(p.vtree, [int(c) for c in p.cardinalities if c is not None])
    return multiply(multiply(shifted, one), change)


def kept_measure(q: Circuit, p: Circuit) -> Circuit:
    """What `stein_measure` makes, kept with q for the next call.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p, q = ek.factorized([[0.5, 0.5]]), ek.factorized([[0.25, 0.75]])
    >>> kept_measure(q, p) is kept_measure(q, p)
    True
    """
    kept = q.operand.cached("stein measure", WeakKeyDictionary)  # targets are not kept alive
    made: Circuit = kept.get(p) or stein_measure(q, p)
    if p not in kept and 16 * made.n_edges <= KEPT_BYTES:
        kept.clear()
        kept[p] = made
    return made


def require_positive(p: Circuit) -> None:
    """Raise unless a deterministic circuit is positive everywhere.

    The sizes of supports multiply at products and add up at deterministic sums, so they are
    counted exactly, in integers of any size.
    """
    count = gibbs.support_size(p)
    n_states = prod(int(c) for c in p.cardinalities if c is not None)
    if count < n_states:
        found = "not all of its" if n_states > 10**15 else f"{count} of its {n_states}"
        raise PropertyError(
            f"The target has zeros: {found} states are possible, and Stein operators need all of "
            "them. Smooth the tables (FactorGraph.smoothed), or compare samples of q with it, "
            "operators restricted to the support: kdsd(q.sample(1000), p, k, zeros='restrict')."
        )
