"""Units as graphs: sums, products and inputs, evaluated as they are, or made blocks on a vtree."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from heapq import heappop, heappush
from itertools import combinations
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from expectedkernels import checks
from expectedkernels.arrays import RngLike, RowsLike, as_generator, spans
from expectedkernels.checks import CircuitError, DataError, PropertyError, check_parameter, public
from expectedkernels.circuits import inputs as leaves
from expectedkernels.data.evidence import check_values
from expectedkernels.data.schema import Schema
from expectedkernels.data.tables import as_floats
from expectedkernels.display import FEW, graph_layout, overview, svg
from expectedkernels.engine.blocks import Inner, from_leaves, from_root, inner_of_edges
from expectedkernels.vtree import Vtree, by_splits

Array = np.ndarray[Any, np.dtype[Any]]

CELLS_AT_ONCE = 2**24
"""Rows are evaluated in chunks of about this many values over all units."""


def evaluate(graph: Graph, X: Array) -> tuple[list[Array], list[Array]]:
    """The log of the absolute value and the sign of every unit, at every row.

    Rows are checked, with NaN where a value is missing.
    """
    logs: list[Array] = []
    signs: list[Array] = []
    columns = {v: X[:, v] for v in graph.cardinalities}
    for v, n in graph.cardinalities.items():
        if n is not None:  # states are integers, with the number of states for "missing"
            columns[v] = np.where(np.isnan(X[:, v]), n, X[:, v]).astype(np.intp)
    for unit, inputs in zip(graph.units, graph.inputs, strict=True):
        if unit.kind == "input":
            log, sign = unit._log_values(columns[unit.variable])  # type: ignore[attr-defined]
        else:
            log, sign = np.stack([logs[j] for j in inputs]), np.stack([signs[j] for j in inputs])
            if unit.kind == "sum":
                weights = unit.weights[:, None]  # type: ignore[attr-defined]
                log = log + leaves.log_sizes(weights)
                log, sign = leaves.log_sum_exp(log, 0, np.sign(weights) * sign)
            else:
                log, sign = log.sum(axis=0), sign.prod(axis=0)
        logs.append(log)
        signs.append(sign)
    return logs, signs


def _integrals(graph: Graph, what: str) -> tuple[Array, Array]:
    """The partition function of every unit as log and sign."""
    _require_tractable(graph, what)
    logs, signs = evaluate(graph, np.full((1, graph.masks[-1].bit_length()), np.nan))
    return np.concatenate(logs), np.concatenate(signs)


def _require_tractable(graph: Graph, what: str) -> None:
    reason = graph.not_smooth() or graph.not_decomposable()
    if reason is not None:
        raise PropertyError(f"{what} needs a smooth and decomposable circuit, but {reason}.")


def draw_positions(weights: Array, n: int, generator: np.random.Generator) -> Array:
    """Positions drawn with probabilities proportional to the weights."""
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative / cumulative[-1], generator.random(n), side="right")


class Unit:
    """A unit of a circuit: the base class of sums, products and inputs.

    Units are immutable, compared by identity, and may be shared by several others, so that a
    circuit is a directed acyclic graph, known by its root unit.

    Attributes
    ----------
    inputs : tuple of Unit
        The units it is computed from; empty for input units.
    mask : int
        Its scope as an integer, with bit v set when the unit depends on variable v.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> isinstance(ek.Product([ek.Indicator(1, 0, 2), ek.Gaussian(0, 0.0, 1.0)]), Unit)
    True
    """

    kind: ClassVar[str]
    inputs: tuple[Unit, ...]
    mask: int

    @property
    def scope(self) -> frozenset[int]:
        """The variables that the unit depends on.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> sorted(ek.Product([ek.Indicator(2, 0, 2), ek.Gaussian(0, 0.0, 1.0)]).scope)
        [0, 2]
        """
        return frozenset(bits(self.mask))

    @property
    def n_variables(self) -> int:
        """One more than the largest variable of the scope: how many columns data must have."""
        return self.mask.bit_length()

    @property
    def cardinalities(self) -> tuple[int | None, ...]:
        """The number of states of every variable from 0 on, None for real and absent ones.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.Product([ek.Categorical(0, [0.2, 0.3, 0.5]), ek.Gaussian(1, 0.0, 1.0)]).cardinalities
        (3, None)
        """
        result = Graph(self).cardinalities
        return tuple(result.get(v) for v in range(self.n_variables))

    def log_likelihood(self, X: RowsLike) -> Array:
        """The log of the unit's value at every row; NaN entries are marginalised out.

        Nothing is normalised. Complete rows need no structural property; marginalising needs a
        smooth and decomposable circuit. Weights and tables may be signed, values may not.
        Cost: rows times edges.

        Parameters
        ----------
        X : array of shape (n, columns)
            Column v holds the values of variable v; columns outside the scope are ignored.

        Returns
        -------
        array of shape (n,)

        Raises
        ------
        PropertyError
            If something is marginalised in a circuit that is not smooth and decomposable, or if
            a value is negative.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.Sum([ek.Categorical(0, [0.5, 0.5]), ek.Indicator(0, 1, 2)], [0.4, 0.6])
        >>> np.exp(p.log_likelihood([[0], [1], [np.nan]])).round(12).tolist()
        [0.2, 0.8, 1.0]
        """
        graph, rows, width = Graph(self), as_floats(X, "X must be an array"), self.n_variables
        if rows.ndim != 2 or rows.shape[1] < width:
            raise DataError(
                f"X must have shape (rows, columns) with at least {width} columns, one per "
                f"variable. Got shape {rows.shape} instead."
            )
        cards, used = graph.cardinalities, list(graph.cardinalities)
        values = np.full((len(rows), width), np.nan)
        values[:, used] = rows[:, used]
        check_values(values, Schema(tuple(map(cards.get, range(width)))), DataError, "Values")
        if np.isnan(values[:, used]).any():
            _require_tractable(graph, "Marginalising out missing values")
        log, sign = np.empty((2, len(rows)))
        for part in spans(len(rows), max(1, CELLS_AT_ONCE // len(graph.units))):
            logs, signs = evaluate(graph, values[part])
            log[part], sign[part] = logs[-1], signs[-1]
        if (sign < 0).any():
            raise PropertyError(
                "A circuit must be non-negative to have a log-likelihood. "
                f"Got a negative value in row {int(np.argmax(sign < 0))}."
            )
        return log

    def log_partition(self) -> float:
        """The log of the sum (or integral) of the unit over all values of its variables.

        Needs a smooth and decomposable circuit. Cost: linear in the number of edges.

        Returns
        -------
        float

        Raises
        ------
        PropertyError
            If the circuit is not smooth and decomposable, or sums to a negative number.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.Product([ek.Categorical(0, [1.0, 3.0]), ek.Gaussian(1, 0.0, 1.0)])
        >>> round(float(np.exp(p.log_partition())), 12)
        4.0
        """
        logs, signs = _integrals(Graph(self), "A partition function")
        if signs[-1] < 0:
            raise PropertyError(
                "The partition function of a circuit must be non-negative to have a logarithm. "
                f"Got a negative one, with absolute value exp({logs[-1]:.6g})."
            )
        return float(logs[-1])

    def sample(self, n: int, rng: RngLike = None) -> Array:
        """Independent samples from the distribution proportional to the unit.

        Ancestral sampling from the root: a sum passes a sample on to one input, drawn with
        probability proportional to weight times partition function; a product passes it on to
        all its inputs. Needs a smooth and decomposable circuit with non-negative weights and
        tables, which need not be normalised.

        Parameters
        ----------
        n : int
            The number of samples.
        rng : None, int or numpy.random.Generator
            The source of randomness.

        Returns
        -------
        array of shape (n, n_variables)
            Floats; NaN in the columns outside the scope.

        Raises
        ------
        PropertyError
            If the circuit is not smooth and decomposable, has negative weights, or is zero.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.Product([ek.Indicator(0, 1, 2), ek.Categorical(1, [0.0, 0.0, 7.0])])
        >>> p.sample(2, rng=0).tolist()
        [[1.0, 2.0], [1.0, 2.0]]
        """
        n, graph = checks.check_count("sample", "n", n, error=DataError), Graph(self)
        if (reason := graph.has_negative()) is not None:
            raise PropertyError(f"Sampling needs non-negative weights and tables, but {reason}.")
        logs, _ = _integrals(graph, "Sampling")
        if logs[-1] == -np.inf:
            raise PropertyError("The circuit is zero everywhere: there is nothing to sample from.")
        generator = as_generator(rng)
        X = np.full((n, self.n_variables), np.nan)
        arriving: list[list[Array]] = [[] for _ in graph.units]
        arriving[-1].append(np.arange(n))
        for unit, inputs in zip(reversed(graph.units), reversed(graph.inputs), strict=True):
            parts = arriving.pop()
            if not parts:
                continue
            rows = np.concatenate(parts)
            if isinstance(unit, Leaf):
                X[rows, unit.variable] = unit._draw(len(rows), generator)
            elif isinstance(unit, Sum):
                with np.errstate(divide="ignore"):
                    scores = np.log(unit.weights) + logs[list(inputs)]
                choice = draw_positions(np.exp(scores - scores.max()), len(rows), generator)
                order = np.argsort(choice, kind="stable")
                chosen, starts = np.unique(choice[order], return_index=True)
                for j, some in zip(chosen, np.split(rows[order], starts[1:]), strict=True):
                    arriving[inputs[j]].append(some)
            else:
                for j in inputs:
                    arriving[j].append(rows)
        return X

    def __repr__(self) -> str:
        name, n = type(self).__name__, len(self.inputs)
        return f"<{name} of {n} inputs over variables {show(self.mask)}>"

    def _repr_html_(self) -> str:
        graph = Graph(self)
        result = {"units": len(graph.units), "edges": sum(map(len, graph.inputs))}
        few = len(graph.units) <= FEW
        return overview(repr(self), result, svg(graph_layout(graph)) if few else "")


@public
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Sum(Unit):
    """A weighted sum of units.

    Parameters
    ----------
    inputs : sequence of Unit
        At least one.
    weights : sequence of float
        As many, finite; they need not be normalised or positive.

    Raises
    ------
    CircuitError
        If the weights are not as many as the inputs.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.Sum([ek.Indicator(0, 0, 2), ek.Indicator(0, 1, 2)], [0.3, 0.7])
    <Sum of 2 inputs over variables {0}>
    """

    kind = "sum"
    inputs: tuple[Unit, ...]
    weights: Array
    mask: int

    def __init__(self, inputs: Sequence[Unit], weights: ArrayLike):
        units = _checked_inputs(inputs, "Sum")
        array = checked_vector(weights, "weights", "Sum")
        wanted = f"one for each of the {len(units)} inputs"
        check_parameter(len(array) == len(units), "Sum", "weights", weights, wanted, CircuitError)
        set_attributes(self, inputs=units, weights=array, mask=union(unit.mask for unit in units))


@public
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Product(Unit):
    """A product of units.

    Parameters
    ----------
    inputs : sequence of Unit
        At least one.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.Product([ek.Indicator(0, 0, 2), ek.Gaussian(1, 0.0, 1.0)])
    <Product of 2 inputs over variables {0, 1}>
    """

    kind = "product"
    inputs: tuple[Unit, ...]
    mask: int

    def __init__(self, inputs: Sequence[Unit]):
        units = _checked_inputs(inputs, "Product")
        set_attributes(self, inputs=units, mask=union(unit.mask for unit in units))


class Leaf(Unit):
    """An input unit: a function of one variable, the base class of the families below.

    Attributes
    ----------
    variable : int
    cardinality : int or None
        The number of states of the variable, None if it is real.
    least_value : float
        The smallest value, or any number with its sign.
    _log_values : callable
        From a prepared column to the logs of absolute values, and the signs, at its entries.
    _draw : callable
        From a number and a generator to samples from the distribution proportional to the unit.
    """

    kind = "input"
    variable: int
    inputs = ()
    cardinality: Any = None
    least_value: Any = 0.0
    _log_values: Any
    _draw: Any

    @property
    def mask(self) -> int:  # type: ignore[override]
        """The bit of the variable."""
        return 1 << self.variable


def topological(root: Unit) -> list[Unit]:
    """The units below a root, inputs before the units that use them, the root last.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> a, b = ek.Indicator(0, 0, 2), ek.Indicator(0, 1, 2)
    >>> root = ek.Sum([a, b], [0.3, 0.7])
    >>> topological(root) == [a, b, root]
    True
    """
    if not isinstance(root, Unit):
        raise CircuitError(
            "The root of a unit graph must be a Sum, Product, Categorical, Indicator or Gaussian. "
            f"Got {type(root).__name__} instead."
        )
    order: dict[Unit, None] = {}
    stack = [root]
    while stack:
        unit = stack[-1]
        waiting = [] if unit in order else [u for u in unit.inputs if u not in order]
        if waiting:
            stack += reversed(waiting)
        else:
            order[stack.pop()] = None
    return list(order)


class Graph:
    """A unit graph with its units numbered in topological order.

    Attributes
    ----------
    units : list of Unit
        Inputs first, the root last.
    inputs : list of tuples of int
        The numbers of the inputs of every unit.
    masks : list of int
        The scope of every unit, as bits.
    """

    def __init__(self, root: Unit):
        self.units = topological(root)
        number = {unit: i for i, unit in enumerate(self.units)}
        self.inputs = [tuple(number[u] for u in unit.inputs) for unit in self.units]
        masks: dict[int, int] = {}  # one integer per scope: for many variables they are long
        self.masks = [masks.setdefault(mask, mask) for mask in (u.mask for u in self.units)]

    @cached_property
    def cardinalities(self) -> dict[int, int | None]:
        """The number of states of every variable in the scope, None for real variables."""
        result: dict[int, int | None] = {}
        for leaf in self.units:
            if isinstance(leaf, Leaf):
                card = result.setdefault(leaf.variable, leaf.cardinality)
                if card != leaf.cardinality:
                    first, second = (
                        "real" if c is None else f"discrete with {c} states"
                        for c in (card, leaf.cardinality)
                    )
                    raise CircuitError(
                        f"All input units of variable {leaf.variable} must have the same domain. "
                        f"Found one that is {first} and one that is {second}."
                    )
        return result

    def describe(self, i: int) -> str:
        """A unit in words: its kind, its number and its scope."""
        return f"{self.units[i].kind} unit #{i} over variables {show(self.masks[i])}"

    def not_smooth(self) -> str | None:
        """The first sum unit whose inputs have different scopes, in words; None if smooth."""
        for i, unit in enumerate(self.units):
            scopes = [self.masks[j] for j in self.inputs[i]] if unit.kind == "sum" else []
            for other in scopes:
                if other != scopes[0]:
                    own = f"an input over {show(scopes[0])} and one over {show(other)}"
                    return f"{self.describe(i)} has {own}"
        return None

    def not_decomposable(self) -> str | None:
        """The first product unit whose inputs share variables, in words; None if decomposable."""
        for i, unit in enumerate(self.units):
            if unit.kind != "product":
                continue
            covered = 0
            for j in self.inputs[i]:
                if covered & self.masks[j]:
                    shared = show(covered & self.masks[j])
                    return f"{self.describe(i)} has inputs that share variables {shared}"
                covered |= self.masks[j]
        return None

    def has_negative(self) -> str | None:
        """The first unit with a negative weight or table entry, in words; None if there is none."""
        for i, unit in enumerate(self.units):
            if isinstance(unit, Sum) and (unit.weights < 0).any():
                return f"{self.describe(i)} has the weight {unit.weights.min():.6g}"
            if isinstance(unit, Leaf) and unit.least_value < 0:
                return f"{self.describe(i)} has the value {unit.least_value:.6g}"
        return None


def bits(mask: int) -> list[int]:
    """The positions of the bits that are set, in order."""
    if mask.bit_count() <= 1:  # one variable of many is found without a look at the others
        return [mask.bit_length() - 1] if mask else []
    raw = np.frombuffer(mask.to_bytes((mask.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    positions: list[int] = np.flatnonzero(np.unpackbits(raw, bitorder="little")).tolist()
    return positions


def show(mask: int, limit: int = 8) -> str:
    """A set of variables in words, cut short when it is long."""
    variables = [str(v) for v in bits(mask)]
    if len(variables) > limit:
        variables = [*variables[: limit - 2], f"... {len(variables)} in all"]
    return "{" + ", ".join(variables) + "}"


def checked_vector(values: Any, name: str, owner: str) -> Array:
    """A read-only copy of a list of numbers, or an error that names the parameter."""
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    good = array.ndim == 1 and len(array) > 0 and bool(np.isfinite(array).all())
    wanted = "a non-empty list of finite numbers"
    check_parameter(good, owner, name, values, wanted, CircuitError)
    array.flags.writeable = False
    return array


def set_attributes(unit: Unit, **attributes: Any) -> None:
    """Fill in the attributes of a frozen unit under construction."""
    for name, value in attributes.items():
        object.__setattr__(unit, name, value)


def union(masks: Iterable[int]) -> int:
    """The bits that are set in any of some integers; an integer that is given, if it has them all.

    Examples
    --------
    >>> union([1, 4, 5])
    5
    """
    result = 0
    for mask in masks:
        if mask != result:  # inputs of a smooth sum share one integer
            result = result | mask if result else mask
    return result


def _checked_inputs(inputs: Sequence[Unit], owner: str) -> tuple[Unit, ...]:
    units = tuple(inputs) if isinstance(inputs, Iterable) else ()
    wrong = [unit for unit in units if not isinstance(unit, Unit)]
    if wrong or not units:
        got = f"{wrong[0]!r} among them" if wrong else repr(inputs)
        raise CircuitError(f"A {owner} needs at least one input, in a list of units. Got {got}.")
    return units


MAX_VARIABLES = 2**20
"""Variables are numbered below this (a scope is stored as an integer with one bit for each)."""


class _Discrete(Leaf):
    """An input unit of a discrete variable, with a value for every state."""

    probs: Array

    @property
    def cardinality(self) -> int:
        return len(self.probs)

    @property
    def least_value(self) -> float:
        return float(self.probs.min())

    def _log_values(self, column: Array) -> tuple[Array, Array]:
        scale = np.abs(self.probs).max() or 1.0
        values = self.probs / scale  # so that the total of large values does not overflow
        values = np.append(values, values.sum())
        return (leaves.log_sizes(values) + np.log(scale))[column], np.sign(values)[column]

    def _draw(self, n: int, generator: np.random.Generator) -> Array:
        return draw_positions(self.probs / self.probs.max(), n, generator).astype(float)


@public
@dataclass(frozen=True, eq=False, init=False)
class Categorical(_Discrete):
    """A table with one value per state of a discrete variable.

    Parameters
    ----------
    variable : int
        The variable, from 0.
    probs : sequence of float
        The values for states 0, 1, ...; finite, not necessarily normalised or positive.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.Categorical(0, [0.2, 0.8]).cardinality
    2
    """

    variable: int
    probs: Array

    def __init__(self, variable: int, probs: ArrayLike):
        array = checked_vector(probs, "probs", "Categorical")
        checked = checks.check_count("Categorical", "variable", variable, high=MAX_VARIABLES)
        set_attributes(self, variable=checked, probs=array)


@public
@dataclass(frozen=True, eq=False, init=False)
class Indicator(_Discrete):
    """One at one state of a discrete variable, zero at the others.

    Parameters
    ----------
    variable : int
        The variable, from 0.
    value : int
        The state, from 0.
    card : int
        The number of states of the variable.

    Raises
    ------
    CircuitError
        If there is no such state.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.Indicator(0, 1, 3).probs.tolist()
    [0.0, 1.0, 0.0]
    """

    variable: int
    value: int
    card: int

    def __init__(self, variable: int, value: int, card: int):
        card = checks.check_count("Indicator", "card", card, 1)
        value = checks.check_count("Indicator", "value", value, high=card)
        checked = checks.check_count("Indicator", "variable", variable, high=MAX_VARIABLES)
        set_attributes(self, variable=checked, value=value, card=card)

    @property
    def cardinality(self) -> int:
        """The number of states, told without the table."""
        return self.card

    @cached_property
    def probs(self) -> Array:  # type: ignore[override]
        """The one-hot table."""
        return np.eye(1, self.card, self.value).ravel()


@public
@dataclass(frozen=True, eq=False, init=False)
class Gaussian(Leaf):
    """The normal density of a real variable.

    Parameters
    ----------
    variable : int
        The variable, from 0.
    mean : float
        The mean.
    variance : float
        The variance, positive.

    Raises
    ------
    CircuitError
        If a parameter is not finite, or the variance is not positive.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> round(float(np.exp(ek.Gaussian(0, 0.0, 1.0).log_likelihood([[0.0]])[0])), 4)
    0.3989
    """

    variable: int
    mean: float
    variance: float

    def __init__(self, variable: int, mean: float, variance: float):
        mean = checks.check_real("Gaussian", "mean", mean, -np.inf, ends="()")
        variance = checks.check_real("Gaussian", "variance", variance, ends="()")
        checked = checks.check_count("Gaussian", "variable", variable, high=MAX_VARIABLES)
        set_attributes(self, variable=checked, mean=mean, variance=variance)

    def _log_values(self, column: Array) -> tuple[Array, Array]:
        """The log-density at each entry, 0 where it is missing, and signs of one."""
        log = leaves.log_normal(column - self.mean, np.array(self.variance))
        return np.where(np.isnan(column), 0.0, log), np.ones(len(column))

    def _draw(self, n: int, generator: np.random.Generator) -> Array:
        """Samples from the normal distribution."""
        return generator.normal(self.mean, np.sqrt(self.variance), size=n)


Family = tuple[tuple[int, ...], int]
"""The inputs of a product unit that lie in some scope, and must not be split there: those over at
least two variables, in order of their numbers, and the variables of all of them. Univariate inputs
never stand in the way of a split."""


def find_vtree(graph: Graph) -> Vtree:
    """A vtree that the products of a decomposable graph split along; raises if there is none.

    From the top: products over a scope keep together what their inputs keep together, so the
    scope can only be split between the blocks of the finest partition that is coarser than
    all of theirs. Any such split will do, since a vtree that fits a circuit also fits it
    between the variables on one side only. Blocks are halved in order of their smallest
    variables. In a graph that is not smooth, units count as constant in the variables they lack.
    """

    def split(part: tuple[int, list[Family]]) -> Any:
        scope, families = part
        if scope.bit_count() == 1:
            return scope.bit_length() - 1
        blocks: list[int] = []
        for fully in (False, True):
            if len(blocks) < 2:
                families = _opened(graph, families, scope, fully)
                blocks = _blocks(graph, families, scope)
        if len(blocks) == 1:
            raise PropertyError(
                "The circuit is not structured-decomposable: "
                f"{_conflict(graph, families, scope)}. Exact expectations need structured "
                "circuits; for others, monte_carlo_expected_kernel gives an estimate with a "
                "standard error."
            )
        middle = len(blocks) // 2

        def within(half: int) -> tuple[int, list[Family]]:
            return half, [
                (tuple(i for i in factors if graph.masks[i] & half), cover & half)
                for factors, cover in families
            ]

        return within(union(blocks[:middle])), within(union(blocks[middle:]))

    root = len(graph.units) - 1
    return by_splits((graph.masks[root], [((root,), graph.masks[root])]), split)


def node_masks(vtree: Vtree) -> list[int]:
    """The variables below every vtree node, as bits."""
    return from_leaves(vtree, lambda _, v: 1 << v, lambda _, left, right: left | right)


def show_split(parts: Iterable[int], limit: int = 4) -> str:
    """A partition of a scope in words, cut short when it is long."""
    ordered = sorted(parts, key=_smallest)
    words = [show(part) for part in ordered[:limit]]
    if len(ordered) > limit:
        words.append(f"... {len(ordered)} parts in all")
    return " | ".join(words)


def can_be_flattened(graph: Graph, i: int) -> bool:
    """Whether a unit is, up to a factor, the product of its inputs."""
    kind = graph.units[i].kind
    return kind == "product" or (kind == "sum" and len(graph.inputs[i]) == 1)


def _family(graph: Graph, inputs: Iterable[int], cover: int) -> Family:
    return tuple(sorted({i for i in inputs if graph.masks[i].bit_count() > 1})), cover


def _opened(graph: Graph, families: list[Family], scope: int, fully: bool) -> list[Family]:
    """Replace units that fill the scope by their inputs, and with `fully` all that can be.

    A sum can be opened when it stands alone. Products within products are only opened fully,
    when there is need: it costs time, and may make the vtree less like the graph.
    """
    masks = graph.masks
    result: list[Family] = []
    seen: set[Family] = set()
    work = families[::-1]
    while work:
        family = work.pop()
        factors, cover = family
        if not factors or family in seen:
            continue
        seen.add(family)
        if len(factors) == 1 and masks[factors[0]] == cover and (fully or cover == scope):
            i = factors[0]
            if graph.units[i].kind == "sum":
                work += [_family(graph, [j], masks[j]) for j in reversed(graph.inputs[i])]
            else:
                work.append(_family(graph, graph.inputs[i], cover))
        elif fully and any(can_be_flattened(graph, i) for i in factors):
            flat: list[int] = []
            stack = list(factors)
            while stack:  # products within the product are opened all the way down
                i = stack.pop()
                if can_be_flattened(graph, i):
                    stack += graph.inputs[i]
                else:
                    flat.append(i)
            work.append(_family(graph, flat, cover))
        else:
            result.append(family)
    return result


def _blocks(graph: Graph, families: Iterable[Family], scope: int) -> list[int]:
    """The finest partition of the scope that splits no factor, by smallest variable."""
    blocks: set[int] = set()
    covered = 0
    for factors, _ in families:
        for i in factors:
            mask = graph.masks[i]
            if mask in blocks:
                continue
            if mask & covered:
                touching = [block for block in blocks if block & mask]
                blocks.difference_update(touching)
                mask |= union(touching)
            blocks.add(mask)
            covered |= mask
    rest = scope & ~covered
    return sorted([*blocks, *(1 << v for v in bits(rest))], key=_smallest)


def _conflict(graph: Graph, families: list[Family], scope: int) -> str:
    """Two products over a scope that no vtree fits, in words.

    Two of their factors cross each other: otherwise the largest ones would be the blocks of a
    partition.
    """
    masks = graph.masks
    factors = sorted({masks[i] for inputs, _ in families for i in inputs}, key=int.bit_count)
    crossing = next((a, b) for a, b in combinations(factors, 2) if a & b and a & ~b)

    def product(part: int) -> tuple[int, str]:
        """The first product unit with an input over these variables, in words."""
        for i, unit in enumerate(graph.units):
            parts = [masks[j] for j in graph.inputs[i]]
            if unit.kind == "product" and part in parts:
                break
        split = show_split(mask & scope for mask in parts if mask & scope)
        return i, f"product unit #{i} splits into {split}"

    (_, first), (_, second) = sorted(map(product, crossing))
    return f"over variables {show(scope)}, {first}, but {second}"


def _smallest(mask: int) -> int:
    return (mask & -mask).bit_length()


Key = tuple[int, ...]
"""A unit wanted at a vtree node: the product of some units of the graph, one if there are none.
Units come in the order of their leftmost variables."""
ADVICE = "sums within sums are multiplied out: use numbers that differ less from each other"


def circuit_blocks(
    root: Unit, vtree: Vtree | None = None, smooth: bool = False
) -> tuple[Vtree, list[leaves.Block]]:
    """The vtree and the blocks of a circuit written as a graph of units.

    Products within products are flattened where the vtree asks for it, wide products are split
    in two along the vtree, sums within sums are multiplied out, and univariate sums become
    one table (or one mixture of normals).

    Parameters
    ----------
    root : Unit
        The root of a decomposable graph over the variables 0 to D - 1.
    vtree : Vtree, optional
        How to split the variables. By default a vtree that fits the products is found.
    smooth : bool
        Whether to fill up sums over different scopes with units that are one everywhere.

    Returns
    -------
    vtree : Vtree
        The given one, or the one found.
    blocks : list
        A block for each of its nodes; the last one has one unit.

    Raises
    ------
    PropertyError
        If the graph is not decomposable, not smooth, or fits no vtree.
    CompatibilityError
        If it does not fit the given vtree.
    CircuitError
        If weights of sums within sums multiply to numbers that are no doubles.

    Examples
    --------
    >>> def point(*values):
    ...     return Product([Indicator(v, value, 2) for v, value in enumerate(values)])
    >>> vtree, blocks = circuit_blocks(Sum([point(0, 0, 0), point(1, 1, 1)], [0.4, 0.6]))
    >>> vtree
    Vtree((0, (1, 2)))
    >>> blocks[0].table.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    graph = Graph(root)
    scope = graph.masks[-1]
    missing = ((1 << scope.bit_length()) - 1) & ~scope
    if missing:
        raise CircuitError(
            f"The variables of a circuit must be 0 to D - 1. The largest here is "
            f"{scope.bit_length() - 1}, but there are no input units for {show(missing)}."
        )
    _ = graph.cardinalities  # raises if they disagree
    if (reason := graph.not_decomposable()) is not None:
        raise PropertyError(f"The circuit is not decomposable: {reason}.")
    if not smooth and (reason := graph.not_smooth()) is not None:
        raise PropertyError(
            f"The circuit is not smooth: {reason}. Pass smooth=True to Circuit.from_units (or "
            "to the reader of the file) to fill up the missing variables with units that are one."
        )
    if vtree is None:
        vtree = find_vtree(graph)
    elif sorted(vtree.scope().tolist()) != bits(scope):
        raise checks.CompatibilityError(
            f"The vtree must have the variables of the circuit, {show(scope)}. Got one "
            f"over {show(sum(1 << v for v in vtree.scope().tolist()))}."
        )
    try:
        builder = _Builder(graph, vtree)
        wanted: dict[Key, int] = {(len(graph.units) - 1,): 0}
        return vtree, from_root(vtree, wanted, builder.leaf_block, builder.inner_block)
    except ArithmeticError:
        raise CircuitError(
            f"The circuit has weights beyond the range of double precision; {ADVICE}."
        ) from None


def _times(a: float, b: float) -> float:
    """The product of two doubles; raises if it is none, to all digits."""
    product = a * b
    if leaves.TINY <= abs(product) < inf or not (a and b):
        return product
    raise ArithmeticError


class _Builder:
    """The blocks of a graph along a vtree, made from the root down.

    A unit has its *home* at the lowest vtree node above all its variables. Wanted at its home,
    a sum stands for a weighted sum of products, and a product is split between the children of
    the node. Wanted above its home (to fill up a scope), a unit goes down on its side.

    Products of weights that are no doubles, to all digits, are an `ArithmeticError`.
    """

    def __init__(self, graph: Graph, vtree: Vtree):
        self.graph, self.vtree = graph, vtree
        # for every unit the leaf of its leftmost variable, and the lowest node above them all
        self.low: list[int] = []
        self.home: list[int] = []
        lowest_above = cache(vtree.lca)
        for unit, inputs in zip(graph.units, graph.inputs, strict=True):
            if unit.kind == "input":
                self.low.append(vtree.leaf(unit.variable))  # type: ignore[attr-defined]
                self.home.append(self.low[-1])
            else:
                self.low.append(min(self.low[j] for j in inputs))
                self.home.append(reduce(lowest_above, {self.home[j] for j in inputs}))

    def inner_block(
        self, node: int, keys: dict[Key, int]
    ) -> tuple[Inner, dict[Key, int], dict[Key, int]]:
        """The block of an inner node, and what is wanted from the children."""
        wanted: tuple[dict[Key, int], dict[Key, int]] = {}, {}
        left: list[int] = []
        right: list[int] = []
        columns: dict[Key, tuple[int, float]] = {}
        entries: list[tuple[int, int, float]] = []
        for row, key in enumerate(keys):
            for term, weight in self._terms(key, node).items():
                if term not in columns:
                    one, other, scale = self._halves(term, node)
                    columns[term] = len(left), scale
                    left.append(wanted[0].setdefault(one, len(wanted[0])))
                    right.append(wanted[1].setdefault(other, len(wanted[1])))
                column, scale = columns[term]
                entries.append((row, column, _times(weight, scale)))
        edges: Any = tuple(np.array(numbers) for numbers in zip(*sorted(entries), strict=True))
        if not np.isfinite(edges[2]).all():
            raise ArithmeticError
        sizes = (len(keys), *map(len, wanted))
        return inner_of_edges(np.array(left), np.array(right), edges, *sizes), *wanted

    def _terms(self, key: Key, node: int) -> dict[Key, float]:
        """A wanted unit as a weighted sum of what a node can split (or of input units)."""
        if len(key) != 1 or self._is_term(key[0], node):
            return {key: 1.0}
        terms: dict[Key, float] = {}
        pending = {key[0]: 1.0}  # sums still to be multiplied out, users before their inputs
        heap = [-key[0]]
        while heap:
            i = -heappop(heap)
            scale = pending.pop(i)
            unit: Any = self.graph.units[i]
            weights = unit.weights.tolist() if unit.kind == "sum" else [1.0]
            for j, weight in zip(self.graph.inputs[i], weights, strict=True):
                share = _times(scale, weight)
                if self._is_term(j, node):
                    terms[(j,)] = terms[(j,)] + share if (j,) in terms else share
                elif j in pending:
                    pending[j] += share
                else:
                    pending[j] = share
                    heappush(heap, -j)
        return terms

    def _is_term(self, i: int, node: int) -> bool:
        """Whether a unit is not to be multiplied out at a node (sums at home are)."""
        unit = self.graph.units[i]
        several = unit.kind == "product" and len(unit.inputs) > 1
        return several or unit.kind == "input" or self.home[i] != node

    def _halves(self, term: Key, node: int) -> tuple[Key, Key, float]:
        """What a term asks of the left and of the right child of a node, and its weight.

        Products within the product that have units on both sides are flattened.
        """
        # nodes below the right child have greater numbers than those below the left one
        graph, boundary = self.graph, int(self.vtree.left[node])
        scale, low = 1.0, self.low.__getitem__
        while True:
            middle = bisect_right(term, boundary, key=low)
            crossing = [i for i in term[:middle] if self.home[i] == node]
            if not crossing:
                return term[:middle], term[middle:], scale
            if not can_be_flattened(graph, crossing[0]):
                raise self._misfit(term, crossing[0])
            unit: Any = graph.units[crossing[0]]
            if unit.kind == "sum":  # of one input
                scale = _times(scale, float(unit.weights[0]))
            parts = {*term, *graph.inputs[crossing[0]]} - {crossing[0]}
            term = tuple(sorted(parts, key=low))

    def _misfit(self, term: Key, cut: int) -> checks.CompatibilityError:
        """A unit would be cut by the vtree, as it is multiplied with another one below its node."""
        graph, vtree, node = self.graph, self.vtree, self.home[cut]
        masks, whole = node_masks(vtree), union(graph.masks[i] for i in term)
        kinds = enumerate(unit.kind for unit in graph.units)
        product = next(i for i, kind in kinds if kind == "product" and not whole & ~graph.masks[i])
        parts = show_split(graph.masks[i] for i in graph.inputs[product])
        sides = show_split([masks[vtree.left[node]], masks[vtree.right[node]]])
        return checks.CompatibilityError(
            f"The circuit does not fit the vtree: {graph.describe(product)} splits into {parts}, "
            f"but the vtree splits {show(masks[node])} into {sides}, and so would cut "
            f"{graph.describe(cut)}."
        )

    def leaf_block(self, node: int, variable: int, keys: dict[Key, int]) -> leaves.Input:
        """The block of a leaf: every unit wanted there as a table or as a mixture of normals."""
        card = self.graph.cardinalities[variable]
        if card is None and () in keys:
            raise PropertyError(
                f"Only discrete variables can be filled up: variable {variable} is real, where a "
                f"unit that is one everywhere has no finite integral. {self.graph.not_smooth()}."
            )
        units: Any = self.graph.units
        first: dict[Any, int] = {}
        entries: list[tuple[int, int, float]] = []
        for row, wanted in enumerate(keys):
            for term, weight in self._terms(wanted, node).items():
                key = term if card is not None else (units[term[0]].mean, units[term[0]].variance)
                entries.append((row, first.setdefault(key, len(first)), weight))
        block: leaves.Input
        if card is not None:
            tables = [units[i[0]].probs if i else np.ones(card) for i in first]
            block = leaves.Table(np.stack(tables))
        else:
            means, variances = (np.array(numbers) for numbers in zip(*first, strict=True))
            block = leaves.Real(np.eye(len(first)), means, variances)
        *places, numbers = (np.array(x) for x in zip(*entries, strict=True))
        shape = (len(keys), block.n_units)
        weights = sparse.coo_array((numbers, tuple(places)), shape=shape)
        return leaves.weighted_units(block, weights, "The circuit", ADVICE)
