"""Graphs of units: sums and products of univariate inputs, as people write circuits down.

Such a graph need not be structured, smooth or even decomposable. The families of inputs are in
`units`; nothing here names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels.arrays import RngLike, RowsLike
from expectedkernels.circuits import graph_queries
from expectedkernels.errors import CircuitError

Array = np.ndarray[Any, np.dtype[Any]]


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
        found = Graph(self).cardinalities
        return tuple(found.get(v) for v in range(self.n_variables))

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
        return graph_queries.log_likelihood(Graph(self), X)

    def log_partition(self) -> float:
        """The log of the sum (or integral) of the unit over all values of its variables.

        Needs a smooth and decomposable circuit. Cost: linear in the number of edges.

        Returns
        -------
        float

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.Product([ek.Categorical(0, [1.0, 3.0]), ek.Gaussian(1, 0.0, 1.0)])
        >>> round(float(np.exp(p.log_partition())), 12)
        4.0
        """
        return graph_queries.log_partition(Graph(self))

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

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.Product([ek.Indicator(0, 1, 2), ek.Categorical(1, [0.0, 0.0, 7.0])])
        >>> p.sample(2, rng=0).tolist()
        [[1.0, 2.0], [1.0, 2.0]]
        """
        return graph_queries.sample(Graph(self), n, rng)

    def _repr_html_(self) -> str:
        from expectedkernels.circuits.drawings import unit_html

        return unit_html(self)


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
        if len(array) != len(units):
            raise CircuitError(
                "The 'weights' of Sum must be as many as its inputs. "
                f"Got {len(array)} weights for {len(units)} inputs."
            )
        set_attributes(self, inputs=units, weights=array, mask=union(unit.mask for unit in units))

    def __repr__(self) -> str:
        return f"<Sum of {len(self.inputs)} inputs over variables {show(self.mask)}>"


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

    def __repr__(self) -> str:
        return f"<Product of {len(self.inputs)} inputs over variables {show(self.mask)}>"


class Leaf(Unit):
    """An input unit: a function of one variable, the base class of the families in `units`."""

    kind = "input"
    variable: int
    inputs = ()

    @property
    def mask(self) -> int:  # type: ignore[override]
        """The bit of the variable."""
        return 1 << self.variable

    @property
    def cardinality(self) -> int | None:
        """The number of states of the variable, None if it is real."""
        raise NotImplementedError

    @property
    def least_value(self) -> float:
        """The smallest value, or any number with its sign."""
        raise NotImplementedError

    def log_values(self, column: Array) -> tuple[Array, Array]:
        """The log of the absolute value, and the sign, at each entry of a prepared column."""
        raise NotImplementedError

    def draw(self, n: int, generator: np.random.Generator) -> Array:
        """Samples from the distribution proportional to the unit."""
        raise NotImplementedError


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
    order: list[Unit] = []
    done: set[Unit] = set()
    stack = [root]
    while stack:
        unit = stack[-1]
        waiting = [] if unit in done else [u for u in unit.inputs if u not in done]
        if waiting:
            stack += reversed(waiting)
            continue
        stack.pop()
        if unit not in done:
            done.add(unit)
            order.append(unit)
    return order


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
        found: dict[int, int | None] = {}
        for leaf in self.units:
            if isinstance(leaf, Leaf):
                card = found.setdefault(leaf.variable, leaf.cardinality)
                if card != leaf.cardinality:
                    first, second = (
                        "real" if c is None else f"discrete with {c} states"
                        for c in (card, leaf.cardinality)
                    )
                    raise CircuitError(
                        f"All input units of variable {leaf.variable} must have the same domain. "
                        f"Found one that is {first} and one that is {second}."
                    )
        return found

    def describe(self, i: int) -> str:
        """A unit in words: its kind, its number and its scope."""
        return f"{self.units[i].kind} unit #{i} over variables {show(self.masks[i])}"

    def not_smooth(self) -> str | None:
        """The first sum unit whose inputs have different scopes, in words; None if smooth."""
        masks = self.masks
        for i, unit in enumerate(self.units):
            if unit.kind != "sum":
                continue
            first = masks[self.inputs[i][0]]
            for j in self.inputs[i]:
                if masks[j] != first:
                    return (
                        f"{self.describe(i)} has an input over {show(first)} and one over "
                        f"{show(masks[j])}"
                    )
        return None

    def not_decomposable(self) -> str | None:
        """The first product unit whose inputs share variables, in words; None if decomposable."""
        for i, unit in enumerate(self.units):
            if unit.kind != "product":
                continue
            seen = 0
            for j in self.inputs[i]:
                if seen & self.masks[j]:
                    shared = show(seen & self.masks[j])
                    return f"{self.describe(i)} has inputs that share variables {shared}"
                seen |= self.masks[j]
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
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise CircuitError(
            f"The '{name}' of {owner} must be a non-empty list of finite numbers. "
            f"Got {values!r} instead."
        )
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
    found = 0
    for mask in masks:
        if mask != found:  # inputs of a smooth sum share one integer
            found = found | mask if found else mask
    return found


def _checked_inputs(inputs: Sequence[Unit], owner: str) -> tuple[Unit, ...]:
    try:
        units = tuple(inputs)
    except TypeError:
        raise CircuitError(
            f"The inputs of {owner} must be a list of units. Got {inputs!r} instead."
        ) from None
    if not units:
        raise CircuitError(f"A {owner} needs at least one input. Got none.")
    for unit in units:
        if not isinstance(unit, Unit):
            raise CircuitError(f"The inputs of {owner} must be units. Got {unit!r} among them.")
    return units
