"""The data of a circuit: one minimal block of units for every vtree node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter, methodcaller
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from array_api_compat import is_torch_array
from scipy import sparse

from expectedkernels.arrays import (
    Place,
    StatesLike,
    distinct_dense_rows,
    distinct_pairs,
    distinct_rows,
    is_numpy,
    namespace,
)
from expectedkernels.checks import CircuitError, PropertyError, SizeError, is_int
from expectedkernels.circuits.inputs import Input, require_range
from expectedkernels.data.evidence import Evidence
from expectedkernels.data.schema import Matching, Schema
from expectedkernels.data.tables import Label
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves, from_root, inner, tidy
from expectedkernels.engine.layers import Levels, levels
from expectedkernels.engine.sweep import Operand
from expectedkernels.vtree import Vtree

Blocks = list[Input | Inner]


def minimize(vtree: Vtree, blocks: Sequence[Input | Inner]) -> Blocks:
    """The same functions at the roots, with as few units as merging and dropping can reach.

    Units that are equal (same inputs, same weights, to the last bit) become one; units that are
    identically zero, and units no root depends on, go. The roots keep their number and order.
    Cost: linear in the size of the circuit.
    """
    small = _drop_unreachable(vtree, _merge_equal(vtree, _drop_unreachable(vtree, blocks)))
    return small if all(block.n_units for block in small) else _zero(vtree, blocks)


def _zero(vtree: Vtree, blocks: Sequence[Input | Inner]) -> Blocks:
    """The circuit that is zero everywhere, with one unit per node but for the roots."""
    one = Inner(1, 1, None, None, None)

    def zero(block: Any, n: int = 1) -> Any:
        return block.with_numbers(np.zeros((n, block.width)))

    *below, root = at_nodes(vtree, lambda node, _: zero(blocks[node]), lambda _: one)
    return [*below, zero(root, blocks[-1].n_units)]


def _drop_unreachable(vtree: Vtree, blocks: Sequence[Any]) -> Blocks:
    """Keep the units that some root depends on."""

    def leaf(node: int, _: int, units: Any) -> Input:
        return blocks[node] if units is None else blocks[node].take(units)

    def inner_at(node: int, units: Any) -> tuple[Inner, Any, Any]:
        block = blocks[node]
        left, right = block.inputs
        weights = block.csr if (block.weights is None and units is not None) else block.weights
        if weights is not None:
            if units is not None:
                weights = weights[units]
            used = _used_columns(weights)
            if not used.all():
                left, right, weights = left[used], right[used], weights[:, np.flatnonzero(used)]
        left, n_left, from_left = _renumber(left, blocks[vtree.left[node]].n_units)
        right, n_right, from_right = _renumber(right, blocks[vtree.right[node]].n_units)
        return inner(left, right, weights, n_left, n_right), from_left, from_right

    return from_root(vtree, None, leaf, inner_at)


def _used_columns(weights: Any) -> Any:
    """Which columns have an entry that is not zero."""
    if not sparse.issparse(weights):
        return (weights != 0).any(axis=0)
    used = np.zeros(weights.shape[1], dtype=np.bool_)
    used[weights.indices[weights.data != 0]] = True
    return used


def _renumber(index: Any, n: int) -> tuple[Any, int, Any]:
    """The index into the used units only, how many there are, and which (None: all)."""
    used = np.zeros(n, dtype=np.bool_)
    used[index] = True
    if used.all():
        return index, n, None
    number = np.cumsum(used)
    return number[index] - 1, int(number[-1]), np.flatnonzero(used)


def _merge_equal(vtree: Vtree, blocks: Sequence[Any]) -> Blocks:
    """Merge equal units and drop zero ones, bottom-up."""
    root = vtree.root

    def leaf(node: int, _: int) -> tuple[Any, Any]:
        return blocks[node].merged() if node != root else (blocks[node], None)

    def inner_at(node: int, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        return _merged_inner(blocks[node], left, right, node == root)

    return [block for block, _ in from_leaves(vtree, leaf, inner_at)]


def _merged_inner(
    block: Inner, below_left: tuple[Any, Any], below_right: tuple[Any, Any], is_root: bool
) -> tuple[Inner, Any]:
    """The block of distinct units, and for every unit its place there (-1: zero); roots all stay.

    Children come as they are now, with the places of their former units.
    """
    left, right = below_left[1][block.index("left")], below_right[1][block.index("right")]
    n_left, n_right = below_left[0].n_units, below_right[0].n_units
    alive = (left >= 0) & (right >= 0)
    pairs, column = distinct_pairs(left[alive], right[alive], (n_left, n_right))
    if block.weights is None and not is_root:  # every unit is one product
        place: Any = np.full(block.n_products, -1, dtype=np.intp)
        place[alive] = column
        return inner(*pairs, None, n_left, n_right), place
    weights = block.csr if block.weights is None else block.weights
    if not alive.all() or len(pairs[0]) < block.n_products:
        left, right = pairs
        weights = _merge_columns(weights, alive, column, len(left))
    place = None
    if not is_root:
        weights, place = _merge_rows(weights)
    return inner(left, right, weights, n_left, n_right), place


def _merge_columns(weights: Any, alive: Any, column: Any, n: int) -> Any:
    """Add up the columns of products that became one, and drop those that became zero."""
    if not sparse.issparse(weights):
        merged = np.zeros((weights.shape[0], n))
        with np.errstate(over="ignore"):  # refused below, with words
            np.add.at(merged.T, column, weights[:, alive].T)
        _refuse_infinite(merged)
        return merged
    number = np.full(weights.shape[1], -1, dtype=np.intp)
    number[alive] = column
    coo = weights.tocoo()
    target = number[coo.col]
    keep = (target >= 0) & (coo.data != 0)
    merged = sparse.coo_array(
        (coo.data[keep], (coo.row[keep], target[keep])), shape=(weights.shape[0], n)
    ).tocsr()
    merged.sum_duplicates()
    _refuse_infinite(merged.data)
    merged.eliminate_zeros()
    return merged


def _refuse_infinite(numbers: Any) -> None:
    if not np.isfinite(numbers).all():
        raise CircuitError(
            "Weights of equal products of a sum unit add up to a number that is too large for a "
            "double. Scale the weights down."
        )


def _merge_rows(weights: Any) -> tuple[Any, Any]:
    """Keep the first of equal rows of a weight matrix; rows of zeros go."""
    if sparse.issparse(weights):
        weights = tidy(weights)
        kept, place = distinct_rows(weights.indptr, weights.indices, weights.data)
    else:
        kept, place = distinct_dense_rows(weights)
    return (weights if len(kept) == weights.shape[0] else weights[kept]), place


def weighted_units(block: Any, weights: Any, what: str, advice: str) -> Any:
    """The block of weighted sums of the units of another; `what` and `advice` are for the error.

    Raises if a number leaves the range of doubles.
    """
    weights, matrix = sparse.csr_array(weights), block.matrix
    matrix = block.csr if matrix is None else matrix
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        found, sizes = weights @ matrix, abs(weights) @ abs(matrix)
    used = ((weights != 0).astype(np.int64) @ (matrix != 0).astype(np.int64)) > 0
    if (weights.data == 1.0).all():  # what is passed on keeps its digits, however small it is
        sizes = used
    numbers = found.data if sparse.issparse(found) else found
    require_range(numbers, used.sum(), sizes, what, advice)
    return block.with_numbers(found)


Made = TypeVar("Made")
Kind = TypeVar("Kind", bound="BlockCircuit")

REQUIRES_GRAD, VERSION = attrgetter("requires_grad"), attrgetter("_version")
"""What tensors know: whether gradients are asked for, and how often they were written to."""


class Shortcuts(Protocol):
    """What a circuit was made from, where that answers some questions faster than blocks.

    Answers are None where blocks are to be asked. That depends on the question alone, not on what
    has been asked or made before, so that copies of a circuit give the same answers to the last
    digit.
    """

    def log_values(self, evidence: Evidence | None) -> Any:
        """The log of the value of the root for every row, -inf for rows that are impossible."""

    def marginals(self, evidence: Evidence | None) -> list[Any] | None:
        """The probabilities of the states of every variable, (rows, cardinality) each."""

    def blocks(self, vtree: Vtree) -> tuple[Input | Inner, ...]:
        """The blocks of the circuit."""


@dataclass(frozen=True, eq=False)
class BlockCircuit:
    """The data of a circuit; `Circuit` adds the questions that can be put to it.

    Attributes
    ----------
    vtree : Vtree
        How the circuit splits its variables, numbered from 0.
    blocks : tuple
        For every vtree node the block of its units: an input block at leaves, an `Inner` block
        elsewhere. The units of the last block are the roots.
    names : tuple of str, or None
        The names of the variables.
    states : tuple of tuples of labels (None for variables without), or None
        The labels of the states of every variable.
    nonnegative : bool
        Whether it was made so that it has no negative values, whatever its weights are.
    """

    vtree: Vtree
    blocks: tuple[Input | Inner, ...]
    names: tuple[str, ...] | None = None
    states: tuple[tuple[Label, ...] | None, ...] | None = None
    nonnegative: bool = False

    shortcuts: ClassVar[Shortcuts | None] = None

    @classmethod
    def from_blocks(cls, vtree: Vtree, blocks: Sequence[Input | Inner]) -> Self:
        """Check the blocks, minimise them (merge equal units, drop useless ones), and wrap them."""
        _check(vtree, blocks)
        return cls(vtree, tuple(minimize(vtree, blocks)))

    @classmethod
    def deferred(
        cls,
        vtree: Vtree,
        schema: Schema,
        cut: Callable[[], tuple[Input | Inner, ...]],
        shortcuts: Shortcuts | None = None,
    ) -> Self:
        """The circuit on the host with one root, whose blocks `cut` makes when they are asked for.

        `shortcuts` may answer some questions in their place, before and after.
        """
        circuit = object.__new__(cls)
        vars(circuit).update(vtree=vtree, names=schema.names, states=schema.states, _cut=cut)
        vars(circuit).update(
            cardinalities=schema.cardinalities, is_on_host=True, shortcuts=shortcuts
        )
        return circuit

    @property
    def is_deferred(self) -> bool:
        """Whether the blocks have not been made yet."""
        return "blocks" not in vars(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # only what was not set comes here; if another thread was faster, all take what it made
            own = vars(self)
            if name == "blocks" and "_cut" in own:
                own.setdefault("blocks", own["_cut"]())
                own["_cut"] = lambda: own["blocks"]  # what it held can go
                return own["blocks"]
            raise AttributeError(f"A {type(self).__name__} has no attribute {name!r}.")

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return self.vtree.n_variables

    @property
    def n_roots(self) -> int:
        """The number of functions the circuit computes at once, one per root unit."""
        return 1 if self.is_deferred else self.blocks[-1].n_units

    @cached_property
    def cardinalities(self) -> tuple[int | None, ...]:
        """The number of states of every variable, None for real variables."""
        return tuple(self.input(v).cardinality for v in range(self.n_variables))

    @cached_property
    def schema(self) -> Schema:
        """The cardinalities, names and states of the variables."""
        return Schema(self.cardinalities, self.names, self.states)

    def with_names(
        self, names: Sequence[str] | None = None, states: StatesLike | None = None
    ) -> Self:
        """The circuit with other names of its variables, and labels of their states.

        Parameters
        ----------
        names : sequence of str, optional
            One name per variable. Default: as they are.
        states : sequence of sequences of labels, or mapping from variables to these, optional
            The labels of the states of every variable, in the order of their codes; None for
            variables without. Default: as they are.

        Returns
        -------
        Circuit

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.factorized([[0.2, 0.8]]).with_names(["rain"], [["no", "yes"]])
        >>> p.names, p.states
        (('rain',), (('no', 'yes'),))
        """
        named: Any = self.names if names is None else names
        labels: Any = self.states if states is None else states
        if isinstance(states, Mapping):
            labels = list(self.states or [None] * self.n_variables)
            for key, given in states.items():
                labels[Schema(self.cardinalities, named).variable(key)] = given
        return self.with_schema(Schema(self.cardinalities, named, labels))

    def with_schema(self, schema: Schema) -> Self:
        """The circuit with the names and states of a schema."""
        if (schema.names, schema.states) == (self.names, self.states):
            return self
        if self.is_deferred or self.shortcuts is not None:
            return self.deferred(self.vtree, schema, lambda: self.blocks, self.shortcuts)
        return replace(self, names=schema.names, states=schema.states)

    def matched(self, matching: Matching) -> Self:
        """The circuit with its variables and states as those of another one (see `match`)."""
        if matching.is_identity:
            return self.with_schema(matching.schema)
        number: Any = np.empty(self.n_variables, dtype=np.intp)
        number[list(matching.variables)] = np.arange(self.n_variables)
        vtree, states, schema = self.vtree.renumbered(number), matching.states, matching.schema

        def leaf(node: int, variable: int) -> Any:
            block: Any = self.blocks[node]
            return block.recoded(states[variable]) if states[variable] else block

        blocks = tuple(at_nodes(vtree, leaf, self.blocks.__getitem__))
        return replace(self, vtree=vtree, blocks=blocks, names=schema.names, states=schema.states)

    def input(self, variable: int) -> Input:
        """The block of input units of a variable."""
        block: Any = self.blocks[self.vtree.leaf(variable)]
        return block

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        units, edges, parameters = map(sum, zip(*self._each("sizes"), strict=True))
        return units, edges, parameters

    @property
    def n_units(self) -> int:
        """The number of units: inputs, products and sums (sums of one product not counted)."""
        return self._counts[0]

    @property
    def n_edges(self) -> int:
        """The number of edges, the size ``|p|`` of the circuit."""
        return self._counts[1]

    @property
    def n_parameters(self) -> int:
        """The number of sum weights, table entries, means and variances."""
        return self._counts[2]

    @property
    def xp(self) -> ModuleType:
        """The array-API namespace of the circuit's arrays."""
        block: Any = self.blocks[0]
        return namespace(block.numbers)

    @property
    def operand(self) -> Operand:
        """The circuit as one axis of a sweep; what it caches must not outlive its numbers."""
        if is_numpy(self.xp):
            return self._operand
        if self.has_gradients:
            return self._operand.fresh()
        written = self._n_writes
        kept = vars(self).setdefault("_kept_operand", (written, self._operand))
        if kept[0] != written:
            kept = vars(self)["_kept_operand"] = (written, self._new_operand())
        return kept[1]

    @cached_property
    def _operand(self) -> Operand:
        return self._new_operand()

    def _new_operand(self) -> Operand:
        return Operand(
            self.vtree,
            self._each("n_units"),
            at_nodes(self.vtree, None, self.blocks.__getitem__),
            self._each("cardinality"),
            self.xp,
        )

    @cached_property
    def levels(self) -> Levels:
        """The units level by level, for passes up and down, on the host."""
        return levels(self.vtree, self._each("matrix"), self._each("inputs"))

    def _each(self, name: str) -> list[Any]:
        """What all blocks say when they are asked for this."""
        return list(map(attrgetter(name), self.blocks))

    def sharing(self, other: BlockCircuit) -> Self:
        """The circuit, with the levels of one that differs in numbers only, if that has any."""
        found = (
            vars(other)["levels"].renumbered(self._each("matrix"))
            if "levels" in vars(other)
            else None
        )
        if found is not None:
            vars(self)["levels"] = found
        return self

    def remembered(self, key: str, make: Callable[[], Made]) -> Made:
        """What `make` makes, kept for the next time."""
        if key not in self._memory:
            # if another thread was faster, all take what it made
            return self._memory.setdefault(key, make())
        return self._memory[key]

    @cached_property
    def _memory(self) -> dict[str, Any]:
        return {}

    @cached_property
    def atom_names(self) -> tuple[Any, Any]:
        """The variable of every atom of the lowest level, and its number there (its state)."""
        level = self.levels.levels[0]
        sizes = np.diff(level.product_starts)
        variable = np.repeat(self.vtree.variable[level.nodes], sizes)
        number = np.arange(level.n_products) - np.repeat(level.product_starts[:-1], sizes)
        return variable, number.astype(np.float64)

    @cached_property
    def leaf_of_atom(self) -> Any:
        """For every atom the place of its leaf in the lowest level."""
        sizes = np.diff(self.levels.levels[0].product_starts)
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def atom_slices(self) -> list[tuple[int, int, int]]:
        """Every variable, with its first atom and the one behind its last."""
        level = self.levels.levels[0]
        starts = level.product_starts.tolist()
        variables = self.vtree.variable[level.nodes].tolist()
        return list(zip(variables, starts[:-1], starts[1:], strict=True))

    @property
    def has_gradients(self) -> bool:
        """Whether gradients with respect to some array are asked for."""
        if self.is_deferred or is_numpy(self.xp):  # what is deferred is on the host
            return False
        if not self._of_torch:
            return any(getattr(array, "requires_grad", False) for array in self._arrays)
        return any(map(REQUIRES_GRAD, self._arrays))

    @cached_property
    def _of_torch(self) -> bool:
        """Whether all arrays of numbers are tensors of torch."""
        return all(map(is_torch_array, self._arrays))

    @cached_property
    def _arrays(self) -> list[Any]:
        """The arrays of numbers of all blocks."""
        return [x for x in chain.from_iterable(self._each("arrays")) if x is not None]

    def _is_at(self, place: Place) -> bool:
        """Whether all arrays are there."""
        return all(place.holds(x) for block in map(vars, self.blocks) for x in block.values())

    @cached_property
    def is_on_host(self) -> bool:
        """Whether all arrays are NumPy's."""
        return self._is_at(Place("numpy"))

    @property
    def host(self) -> Self:
        """The circuit on the host, kept as long as none of its arrays is written to."""
        if self.is_on_host:
            return self
        written = self._n_writes
        kept = vars(self).get("_kept_host")
        if kept is None or written is None or kept[0] != written:
            kept = vars(self)["_kept_host"] = (written, self.to("numpy"))
        return kept[1]

    @property
    def is_known_nonnegative(self) -> bool:
        """Whether it was made so that it has no negative values, and has its numbers still."""
        return self.nonnegative and not self._n_writes

    @property
    def _n_writes(self) -> int | None:
        """How often tensors were written to, as they count it; None: other arrays do not."""
        return sum(map(VERSION, self._arrays)) if self._of_torch else None

    def to(self, where: str | ModuleType, dtype: str | None = None) -> Self:
        """The circuit with its arrays elsewhere: "numpy", "torch", "cuda", or a namespace.

        A circuit whose arrays are there already is returned itself, with all it has cached.

        Circuits in torch, on a host or a card, answer log-likelihoods, marginals, sites, samples
        and most probable rows there; `condition`, `normalize` and the algebra of circuits work on
        the host.

        Parameters
        ----------
        where : str or module
            "numpy", "torch", a device of torch, or a namespace of the array-API standard.
        dtype : str, optional
            "float32" or "float64". Default: as numbers are. In single precision likelihoods,
            marginals and EM multiply and sum in it, and their logs are in double precision;
            expected kernels read numbers in single precision and work in double precision. Numbers
            that single precision does not hold, as weights below 1e-38 that are not zero, are
            refused.

        Returns
        -------
        Circuit

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.factorized([[0.2, 0.8]]).to("numpy").n_units
        1
        """
        target = Place(where, dtype)
        known = dtype is None and is_numpy(target.xp)
        if self.is_on_host if known else self._is_at(target):
            return self
        blocks = tuple(map(methodcaller("moved", target.move), self.blocks))
        moved = replace(self, blocks=blocks, nonnegative=self.is_known_nonnegative)
        if dtype is None and self.is_on_host:  # what it has cached serves questions there, too
            vars(moved)["_kept_host"] = (moved._n_writes, self)
        return moved

    def aligned_to(self, vtree: Vtree) -> Self | None:
        """The circuit on a vtree equal to its own up to swaps, or None if it is not."""
        if vtree == self.vtree:
            return self
        alignment = vtree.align(self.vtree)
        if alignment is None:
            return None
        blocks = [self.blocks[node] for node in alignment.node]
        for node in np.flatnonzero(alignment.swapped):
            blocks[node] = blocks[node].swapped()
        return replace(self, vtree=vtree, blocks=tuple(blocks))

    def __reduce__(self) -> tuple[Any, ...]:
        # what is cached is not part of the value
        if self.shortcuts is not None:
            return of_tables, (type(self), self.vtree, self.schema, self.shortcuts)
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        roots = "" if self.n_roots == 1 else f", {self.n_roots} roots"
        try:
            size = f"{self.n_units} units, {self.n_edges} edges{roots}"
        except SizeError:
            size = "too large to be written out"
        return f"<Circuit of {self.n_variables} variables: {size}>"

    def _repr_html_(self) -> str:
        from expectedkernels.circuits.drawing import circuit_html

        return circuit_html(self)


def of_tables(kind: type[Kind], vtree: Vtree, schema: Schema, tables: Shortcuts) -> Kind:
    """The circuit that tables are the whole value of."""
    return kind.deferred(vtree, schema, partial(tables.blocks, vtree), tables)


def shortcut(circuit: BlockCircuit, question: str, evidence: Evidence | None) -> Any:
    """What is found without blocks, None if these are to be asked."""
    if circuit.shortcuts is None:
        return None
    return getattr(circuit.shortcuts, question)(evidence)


def host_for(circuit: Kind, what: str) -> Kind:
    """The circuit on the host; raises if gradients are asked for, as `what` loses them.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> host_for(ek.factorized([[0.2, 0.8]]), "A product").n_units
    1
    """
    if circuit.has_gradients:
        raise PropertyError(
            f"{what} does not follow gradients, and they are asked for by numbers of this "
            "circuit. Give circuit.to('numpy'), which has none."
        )
    return circuit.to("numpy")


def checked_variable(circuit: BlockCircuit, variable: Any, rule: str) -> int:
    """The number of a variable, after checking that the circuit has it; `rule` starts the error."""
    if isinstance(variable, str) and circuit.names is not None:
        return circuit.schema.variable(variable)
    if not is_int(variable) or not 0 <= variable < circuit.n_variables:
        raise CircuitError(f"{rule} in 0..{circuit.n_variables - 1}. Got {variable!r} instead.")
    return int(variable)


def _check(vtree: Vtree, blocks: Sequence[Input | Inner]) -> None:
    """Raise unless the blocks fit the vtree and hold finite numbers."""
    if sorted(vtree.scope().tolist()) != list(range(vtree.n_variables)):
        raise CircuitError(
            f"The variables of a circuit are 0 to {vtree.n_variables - 1}. "
            f"Got a vtree over {sorted(vtree.scope().tolist())}."
        )
    if len(blocks) != vtree.n_nodes:
        raise CircuitError(
            f"A vtree of {vtree.n_nodes} nodes needs as many blocks. Got {len(blocks)}."
        )

    def leaf(node: int, variable: int) -> int:
        block: Any = blocks[node]
        wrong = block.complaint()
        if wrong is not None:
            raise CircuitError(f"Normal inputs of variable {variable} need {wrong}.")
        return _checked_numbers(vtree, node, block)

    def inner(node: int, n_left: int, n_right: int) -> int:
        block: Any = blocks[node]
        for side, index, n in zip(("left", "right"), block.inputs, (n_left, n_right), strict=True):
            if len(index) and not (index.min() >= 0 and index.max() < n):
                raise CircuitError(
                    f"At vtree node {node}, {side} inputs must be in 0..{n - 1}. "
                    f"Got {int(index.min())}..{int(index.max())}."
                )
        return _checked_numbers(vtree, node, block)

    from_leaves(vtree, leaf, inner)


def _checked_numbers(vtree: Vtree, node: int, block: Input | Inner) -> int:
    """The number of units, after checking that their numbers are finite."""
    values: Any = block.numbers
    values = values.data if sparse.issparse(values) else values
    if values is not None and not np.isfinite(values).all():
        raise CircuitError(
            f"At vtree node {node} (variables {vtree.scope(node).tolist()[:8]}), weights and "
            "tables must be finite numbers. Got NaN or infinity."
        )
    return block.n_units


def renumbered(circuit: Kind, blocks: Sequence[Input | Inner]) -> Kind:
    """The circuit with blocks that differ in numbers only; how they are folded is kept."""
    new = replace(circuit, blocks=tuple(blocks))
    inner = at_nodes(new.vtree, None, new.blocks.__getitem__)
    vars(new)["_operand"] = circuit._operand.renumbered(inner)
    return new
