"""The lossless format of the library: `.npz` files without pickles."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from itertools import chain, pairwise, repeat
from math import prod
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.checks import CircuitError, CompatibilityError, ParseError, VtreeError
from expectedkernels.circuits.block_circuit import of_tables
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Real, Table
from expectedkernels.data.schema import Schema
from expectedkernels.engine.blocks import Inner, at_nodes
from expectedkernels.io.text import PathLike, checked_path, require_kind, shown
from expectedkernels.models.clique_tree import Scaled
from expectedkernels.models.compiler import Tensors, context_plan
from expectedkernels.models.messages import MessagePlan, Stage, log_partition, make_stage
from expectedkernels.vtree import Vtree

MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    rb"\{'descr': '([^']*)', 'fortran_order': (?:True|False), 'shape': \(([0-9, ]*)\), \} *\n"
)
KNOWN = re.compile(r"[<>|]([iufU])([1-9][0-9]{0,7})")
"""The types of numbers and text; no other type (objects least of all) is ever made."""
DTYPES = {"i": "integers", "f": "floats", "U": "texts"}


class Archive:
    """The members of an uncompressed `.npz` file, in no more memory than the file takes.

    Parameters
    ----------
    path : path
        The file.

    Attributes
    ----------
    names : frozenset of str
        The arrays that the file holds.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.npz")
    ...     np.savez(path, x=np.array([0.5, 2.0]))
    ...     Archive(path).array("x", "f")
    array([0.5, 2. ])
    """

    def __init__(self, path: PathLike):
        self.path = os.fspath(path)
        with open(self.path, "rb") as file:
            data = file.read()
        try:
            self._members = _members(data)
        except Exception as error:  # damage shows up in many ways inside zipfile
            raise self._unknown(str(error)) from error
        self.names = frozenset(self._members)

    def _unknown(self, what: str) -> ParseError:
        return ParseError(
            "expected a circuit written by save(), but the file is damaged, cut off or something "
            f"else ({what})",
            path=self.path,
        )

    def array(self, name: str, kind: str) -> Any:
        """The array of a name, in one dimension and in the byte order of this machine.

        Parameters
        ----------
        name : str
        kind : "i", "f" or "U"
            Whether it holds integers, floats (of four or eight bytes) or texts.
        """
        data = self._members.get(name)
        if data is None:
            raise ParseError(f"expected an array {name!r} of {DTYPES[kind]}, found none", self.path)
        first = len(MAGIC) + 2
        start = first + int.from_bytes(data[len(MAGIC) : first], "little")
        header = HEADER.fullmatch(data[first:start])
        if not data.startswith(MAGIC) or header is None or len(data) < start:
            raise self._unknown(f"the member {shown(name)} is no array")
        descr, length = header[1].decode("latin-1"), header[2].decode().strip(" ").rstrip(",")
        if re.search(r"\d{19}", length):
            raise self._unknown(f"the array {shown(name)} has a length of too many digits")
        known = KNOWN.fullmatch(descr)
        wrong = None
        if known is None or known[1] != kind or not length.isdecimal():
            wrong = f"of {DTYPES[kind]} in one dimension, found another"
        elif kind != "U" and int(known[2]) not in ((4, 8) if kind == "f" else (1, 2, 4, 8)):
            sizes = "4 or 8" if kind == "f" else "1, 2, 4 or 8"
            wrong = f"of {DTYPES[kind]} of {sizes} bytes, found {known[2]}"
        if wrong is not None:
            raise ParseError(f"expected an array {name!r} {wrong}", self.path)
        dtype = np.dtype(descr)
        if int(length) * dtype.itemsize != len(data) - start:
            raise ParseError(
                f"the array {name!r} announces {length} entries of {dtype.itemsize} bytes, "
                f"found {len(data) - start} bytes",
                self.path,
            )
        found: Any = np.ndarray(int(length), dtype, data, start)
        return found.astype(dtype.newbyteorder("="))


def _members(data: bytes) -> dict[str, bytes]:
    """The contents of the members of an archive by their names without `.npy`."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("its arrays are compressed")
        # members may overlap, so that all of them together are larger than the file
        if sum(member.file_size for member in members) > len(data):
            raise ValueError("its arrays are larger than the file")
        names = Counter(member.filename for member in members)
        for name, count in names.items():
            if count > 1 or not name.endswith(".npy"):
                raise ValueError(f"its members are not one array each: {shown(name)}")
        return {member.filename.removesuffix(".npy"): archive.read(member) for member in members}


STAGE_INTEGERS = (
    "stage_variable",  # per stage
    "stage_states",  # per stage: how many the variable has
    "stage_is_log",  # per stage: whether its table holds logarithms
    "stage_parent",  # per stage: the later one that its message enters, -1 for none
    "context_size",  # per stage: the number of variables of its context
    "context",  # all contexts, stage by stage
    "max_bytes",  # one number
)
STAGE_FLOATS = ("stage_low", "conditionals")
TOLERANCE = 1e-6
"""How far the log of the sum of a distribution may be from zero."""
Require = Callable[[Any, str], None]
"""What raises with a message if a condition does not hold."""


def stage_arrays(tensors: Tensors) -> dict[str, Any]:
    """The arrays of a file that hold conditionals."""
    stages = tensors.plan.stages
    tables = [stage.factors[0] for stage in stages]
    parents = {child: i for i, stage in enumerate(stages) for child in stage.children}
    integers = (
        [stage.variable for stage in stages],
        [stage.shape[0] for stage in stages],
        [table.is_log for table in tables],
        [parents.get(i, -1) for i in range(len(stages))],
        [len(stage.context) for stage in stages],
        [v for stage in stages for v in stage.context],
        [tensors.max_bytes],
    )
    arrays: dict[str, Any] = {
        name: np.asarray(numbers, dtype=np.int64)
        for name, numbers in zip(STAGE_INTEGERS, integers, strict=True)
    }
    arrays["stage_low"] = np.array([table.low for table in tables], dtype=np.float64)
    arrays["conditionals"] = np.concatenate([table.data.reshape(-1) for table in tables])
    return arrays


def compiled_circuit(vtree: Vtree, arrays: dict[str, Any], require: Require) -> Circuit:
    """The circuit whose tables are in some arrays, on a vtree that was checked."""
    for name in (*STAGE_INTEGERS[:5], "stage_low"):
        require(len(arrays[name]) == vtree.n_variables, f"{name!r} has one entry per variable")
    order, parents = arrays["stage_variable"].tolist(), arrays["stage_parent"].tolist()
    require(sorted(order) == list(range(len(order))), "every variable has one stage")
    sizes, flags = arrays["stage_states"], arrays["stage_is_log"]
    require(((sizes > 0) & (sizes < 2**31)).all(), "every variable has a state")
    require(((flags == 0) | (flags == 1)).all(), "tables hold numbers or logarithms")
    limit = arrays["max_bytes"].tolist()
    require(len(limit) == 1 and limit[0] > 0, "'max_bytes' is one positive number")
    cards = dict(zip(order, sizes.tolist(), strict=True))
    counts, flat = arrays["context_size"], arrays["context"]
    require(
        ((counts >= 0) & (counts <= len(flat))).all() and counts.sum() == len(flat),
        f"'context' has {len(flat)} entries, which is not what stages need",
    )
    require(((flat >= 0) & (flat < len(order))).all(), "contexts are made of variables")
    bounds = [0, *np.cumsum(counts).tolist()]
    contexts = [tuple(flat[start:stop].tolist()) for start, stop in pairwise(bounds)]
    position = np.argsort(order)
    children: list[list[int]] = [[] for _ in order]
    for i, (parent, context) in enumerate(zip(parents, contexts, strict=True)):
        turns = [i, *position[list(context)].tolist()]
        require(all(a < b for a, b in pairwise(turns)), "contexts follow the order of stages")
        later = i < parent < len(order)
        require(later or parent == -1, "messages enter later stages")
        axes = {order[parent], *contexts[parent]} if later else set()
        require(axes.issuperset(context), "messages fit the stages that they enter")
        if later:
            children[parent].append(i)
    shapes = [tuple(cards[u] for u in (v, *c)) for v, c in zip(order, contexts, strict=True)]
    numbers = arrays["conditionals"].astype(np.float64)
    require(
        sum(map(prod, shapes)) == len(numbers),
        f"'conditionals' has {len(numbers)} entries, which is not what stages need",
    )
    stages: list[Stage] = []
    start = 0
    for i, (variable, context, shape) in enumerate(zip(order, contexts, shapes, strict=True)):
        data = numbers[start : start + prod(shape)].reshape(shape)
        start += data.size
        table = Scaled(data, float(arrays["stage_low"][i]), bool(flags[i]))
        _check_table(table, require)
        stages.append(make_stage(cards, variable, context, [table], children[i], stages))
    plan = MessagePlan(tuple(stages), 0.0, is_normalized=True)
    _check_contexts(vtree, plan, require)
    total = log_partition(replace(plan, is_normalized=False), {})
    require(abs(total) <= TOLERANCE, "conditional probabilities sum to one")
    schema = Schema(tuple(cards[v] for v in range(len(cards))))
    return of_tables(Circuit, vtree, schema, Tensors(plan, limit[0]))


def _check_table(table: Scaled, require: Require) -> None:
    """Raise unless a table holds conditional probabilities, zero or summing to one."""
    logs = table.logs if table.is_log or (table.data >= 0).all() else np.array([np.nan])
    require((logs <= TOLERANCE).all(), "'conditionals' are probabilities or their logarithms")
    least = logs.min(where=logs > -np.inf, initial=0.0)
    require(
        -np.inf < table.low <= least + TOLERANCE, "'stage_low' are bounds of the logs of tables"
    )
    totals = np.exp(logs).sum(axis=0)
    good = (totals == 0) | (np.abs(totals - 1.0) <= TOLERANCE)
    require(good.all(), "conditional probabilities sum to one")


def _check_contexts(vtree: Vtree, plan: MessagePlan, require: Require) -> None:
    """Raise unless units can be written out on the vtree, from tables of these very shapes."""
    try:
        steps = context_plan(vtree, plan).steps
    except CompatibilityError:
        steps = ()
    decided = {step.decides: step.axes for step in steps if step.kind in ("inputs", "decision")}
    several = {stage.variable for stage in plan.stages if stage.shape[0] > 1}
    fits = all(
        decided.get(stage.variable) == tuple(v for v in stage.context if v in several)
        for stage in plan.stages
    )
    require(fits, "contexts belong to the vtree")


VERSION, COMPILED = 1, 2
"""Of files with the blocks of a circuit, and of those with the tables of a compiled one."""
TABLE, NORMAL, INNER = 0, 1, 2
PASS, DENSE, SPARSE = 0, 1, 2
MOST_EMPTY_UNITS = 2**20
"""Units that store no number are limited, so that a small file cannot ask for much memory."""

TREE = ("vtree_left", "vtree_right", "vtree_variable")
INTEGERS = (
    "kind",  # per node: TABLE, NORMAL or INNER
    "n_units",  # per node
    "width",  # per node: cardinality, number of components, or number of products
    "weight_form",  # per node: PASS, DENSE or SPARSE; PASS at leaves
    "has_left",  # per node: whether products name their left inputs, 0 at leaves
    "has_right",
    "left",  # all left inputs, node by node
    "right",
    "csr_indptr",
    "csr_indices",
)
INDICES = ("left", "right", "csr_indptr", "csr_indices")
FLOATS = ("tables", "normal_weights", "normal_mean", "normal_variance", "dense", "csr_data")
HALF = "normal_half"
"""Half the widths of intervals, of all real inputs; only in files of circuits that have some."""
SQUARE = "nonnegative"
"""A one, only in files of circuits that were made so that they have no negative values."""
KINDS = (Table, Real, Inner)
"""The blocks by the number of their kind."""
ARRAYS = (
    {"tables": "table"},
    {
        "normal_weights": "weights",
        "normal_mean": "mean",
        "normal_variance": "variance",
        HALF: "halves",
    },
)
"""The arrays of files that hold those of input blocks, by kind; the first ones have a row per unit,
the others are as long as these rows."""


def write_npz(circuit: Circuit, path: PathLike) -> None:
    """Write a circuit to a `.npz` file, without loss.

    The file is a NumPy archive of a few flat arrays, whatever the number of variables. Equal
    circuits give equal files. Arrays on other devices are moved to the host. Names of variables
    and labels of states are kept.

    Parameters
    ----------
    circuit : Circuit
        Any circuit: several roots, real variables and negative weights are fine.
    path : path
        Where to write; nothing is appended to the name.

    Raises
    ------
    CircuitError
        If the circuit has numbers that are not finite.
    """
    require_kind(circuit, Circuit, ".npz")
    circuit = circuit.to("numpy")
    vtree = circuit.vtree
    tables = circuit.shortcuts
    version = COMPILED if isinstance(tables, Tensors) else VERSION
    arrays: dict[str, Any] = {"version": np.array([version])}
    arrays |= {f"vtree_{name}": getattr(vtree, name) for name in ("left", "right", "variable")}
    arrays |= stage_arrays(tables) if isinstance(tables, Tensors) else _block_arrays(circuit)
    if not circuit.schema.is_plain:
        schema = {"names": circuit.schema.names, "states": circuit.schema.states}
        arrays["schema"] = np.array([json.dumps(schema)])
    with open(checked_path(path), "wb") as file:
        np.savez(file, **arrays)


def _block_arrays(circuit: Circuit) -> dict[str, Any]:
    """The numbers of all blocks, node by node."""
    lists: dict[str, list[Any]] = {name: [] for name in (*INTEGERS, *FLOATS, HALF)}
    for name, value in chain.from_iterable(map(_flat, circuit.blocks)):
        lists[name].append(np.ravel(value))
    arrays = {name: _joined(lists[name], "i") for name in INTEGERS}
    arrays |= {name: _joined(lists[name], "f") for name in (*FLOATS, HALF)}
    if not arrays[HALF].any():
        del arrays[HALF]
    for name in list(arrays)[len(INTEGERS) :]:
        if not np.isfinite(arrays[name]).all():
            raise CircuitError(
                f"A file holds finite numbers. The {name.replace('_', ' ')} of the circuit contain "
                "infinities or NaN, which come from an overflow; normalize() it, or rescale its "
                "weights, before the step that overflows."
            )
    if circuit.nonnegative:
        arrays[SQUARE] = np.ones(1, dtype=np.int64)
    return arrays


def _joined(arrays: list[Any], kind: str) -> Any:
    """One array of all, of integers ("i") or floats ("f")."""
    default = np.int64 if kind == "i" else np.float64
    joined = np.concatenate(arrays) if arrays else np.empty(0, dtype=default)
    # types that files do not have become the default one, which holds their numbers
    same = joined.dtype.kind == kind and joined.dtype.itemsize in (4, 8)
    return joined if same else joined.astype(default)


def _flat(block: Any) -> Iterator[tuple[str, Any]]:
    """The numbers of a block, each with the name of the array they go to."""
    kind = KINDS.index(type(block))
    yield from (("kind", kind), ("n_units", block.n_units), ("width", block.width))
    if kind != INNER:
        yield from (("weight_form", PASS), ("has_left", 0), ("has_right", 0))
        yield from ((name, getattr(block, attribute)) for name, attribute in ARRAYS[kind].items())
        return
    for side in ("left", "right"):
        index = getattr(block, side)
        yield f"has_{side}", index is not None
        if index is not None:
            yield side, index
    weights = block.weights
    if block.is_sparse:
        yield "weight_form", SPARSE
        yield from (
            (f"csr_{name}", getattr(weights, name)) for name in ("indptr", "indices", "data")
        )
    else:
        yield "weight_form", PASS if weights is None else DENSE
        yield "dense", [] if weights is None else weights


def read_npz(path: PathLike) -> Circuit:
    """The circuit in a file written by `write_npz`, with the same arrays to the last bit.

    Loading untrusted files is safe: no code is run, and every array is checked.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Circuit

    Raises
    ------
    ParseError
        If the file was not written by `write_npz`, is damaged, or comes from a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> circuit = Circuit.from_blocks(Vtree.balanced(1), [Table(np.array([[0.3, 0.7]]))])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "coin.npz")
    ...     write_npz(circuit, path)
    ...     read_npz(path)
    <Circuit of 1 variables: 1 units, 0 edges>
    """
    return _Loader(checked_path(path), _read(path)).circuit()


def _read(path: PathLike) -> dict[str, Any]:
    """The arrays of a file by their names: of the right kind of numbers, none missing."""
    archive = Archive(path)
    version = archive.array("version", "i").tolist() if "version" in archive.names else []
    if version not in ([VERSION], [COMPILED]):
        raise ParseError(
            f"expected a circuit in version {VERSION} or {COMPILED} of the format, found version "
            f"{version[0] if version else 'unknown'}",
            path=archive.path,
        )
    by_kind = (INTEGERS, FLOATS) if version == [VERSION] else (STAGE_INTEGERS, STAGE_FLOATS)
    integers = ("version", *TREE, *by_kind[0])
    arrays = {name: archive.array(name, "i") for name in integers}
    arrays |= {name: archive.array(name, "f") for name in by_kind[1]}
    for name in integers:
        # counts are added and multiplied, and narrow types would wrap
        if name not in INDICES or arrays[name].dtype.itemsize < 4:
            arrays[name] = arrays[name].astype(np.int64)
    extra = {HALF: "f", SQUARE: "i"} if version == [VERSION] else {}
    for name, kind in {**extra, "schema": "U"}.items():
        if name in archive.names:
            arrays[name] = archive.array(name, kind)
    for name in sorted(archive.names - set(arrays)):
        raise ParseError(
            f"expected the arrays of a circuit and nothing else, found {shown(name)}", archive.path
        )
    return arrays


def _is_schema(found: Any) -> bool:
    """Whether parsed JSON has the form of names and states."""
    if not isinstance(found, dict) or set(found) != {"names", "states"}:
        return False
    names, states = found["names"], found["states"]
    parts = [] if states is None else states
    return (names is None or _is_list(names, str)) and (
        isinstance(parts, list)
        and all(labels is None or _is_list(labels, (str, int, float)) for labels in parts)
    )


def _is_list(found: Any, kinds: Any) -> bool:
    return isinstance(found, list) and all(isinstance(x, kinds) for x in found)


class _Loader:
    """The arrays of a file, checked against each other and cut into blocks."""

    def __init__(self, path: str, arrays: dict[str, Any]):
        self.path, self.arrays = path, arrays

    def require(self, condition: Any, message: str) -> None:
        """Raise with the message if the condition does not hold."""
        if not condition:
            raise ParseError(f"the arrays of the circuit are inconsistent: {message}", self.path)

    def circuit(self) -> Circuit:
        """The circuit of the arrays."""
        vtree = self.vtree()
        if "kind" in self.arrays:
            self.kind, self.n_units = self.arrays["kind"], self.arrays["n_units"]
            self.width, self.form = self.arrays["width"], self.arrays["weight_form"]
            self.check_nodes(vtree)
            self.check_numbers()
            square = self.arrays.get(SQUARE, np.zeros(0)).tolist()
            self.require(square in ([], [1]), f"{SQUARE!r} must be one, or not there")
            circuit = Circuit(vtree, tuple(self.blocks(vtree)), nonnegative=bool(square))
        else:
            circuit = compiled_circuit(vtree, self.arrays, self.require)
        return self.named(circuit) if "schema" in self.arrays else circuit

    def named(self, circuit: Circuit) -> Circuit:
        """The circuit with the names and states of the file."""
        texts = self.arrays["schema"].tolist()
        try:
            found: Any = json.loads(texts[0]) if len(texts) == 1 else None
            self.require(
                _is_schema(found), "'schema' must hold the names and states of the variables"
            )
            schema = Schema(circuit.cardinalities, found["names"], found["states"])
        except (json.JSONDecodeError, RecursionError, CircuitError) as error:
            if isinstance(error, ParseError):
                raise
            raise ParseError(
                f"the names of the circuit are malformed: {error}", self.path
            ) from error
        return circuit.with_schema(schema)

    def vtree(self) -> Vtree:
        """The vtree, whose nodes must be numbered as they are in memory."""
        arrays = [self.arrays[name] for name in TREE]
        variable = arrays[2]
        try:
            vtree = Vtree(*arrays)
        except VtreeError as error:
            raise ParseError(f"the vtree is malformed: {error}", self.path) from error
        same = map(np.array_equal, arrays, (vtree.left, vtree.right, vtree.variable))
        self.require(all(same), "vtree nodes must be in post-order")
        leaves = np.sort(variable[variable >= 0])
        self.require(
            np.array_equal(leaves, np.arange(vtree.n_variables)),
            "variables must be numbered from 0 without gaps",
        )
        return vtree

    def check_nodes(self, vtree: Vtree) -> None:
        """Raise unless the arrays that describe the blocks fit the vtree."""
        names = ("kind", "n_units", "width", "weight_form", "has_left", "has_right")
        for name in names:
            array = self.arrays[name]
            self.require(
                len(array) == vtree.n_nodes and array.min() >= 0 and array.max() < 2**31,
                f"{name!r} must hold one natural number per vtree node",
            )
        leaf = vtree.variable >= 0
        named = self.arrays["has_left"], self.arrays["has_right"]
        self.require(
            ((self.kind == INNER) == ~leaf).all() and (self.kind <= INNER).all(),
            "input blocks belong to leaves of the vtree, others to inner nodes",
        )
        self.require(
            (self.form <= SPARSE).all()
            and all((flag <= 1).all() for flag in named)
            and not (leaf & ((self.form > 0) | (named[0] > 0) | (named[1] > 0))).any(),
            "unknown forms of weights or inputs",
        )
        empty = (self.width == 0) & (self.kind == NORMAL)
        self.require(
            (self.n_units > 0).all()
            and ((self.width > 0) | empty).all()
            and (self.n_units[empty] <= MOST_EMPTY_UNITS).all(),
            "every block has units, and every unit numbers",
        )
        passes = ~leaf & (self.form == PASS)
        self.require(
            (self.n_units[passes] == self.width[passes]).all(),
            "units without weights are as many as products",
        )

    def check_numbers(self) -> None:
        """Raise unless all weights, tables and parameters are finite, no variance negative."""
        for name in FLOATS:
            self.require(np.isfinite(self.arrays[name]).all(), f"{name!r} must be finite")
        # a variance of zero is a point mass: what is left of an observed variable
        self.require((self.arrays["normal_variance"] >= 0).all(), "variances must not be negative")
        half = self.arrays.get(HALF, np.zeros(0))
        fine = (half >= 0).all() and (half < np.inf).all()
        self.require(fine, "widths must be finite, and not negative")

    def pieces(self, name: str, sizes: Any) -> list[Any]:
        """The flat array cut into pieces of these sizes, which must use it up."""
        array = self.arrays[name]
        fits = (sizes <= len(array)).all() and sizes.sum() == len(array)
        self.require(fits, f"{name!r} has {len(array)} entries, which is not what blocks need")
        bounds = [0, *np.cumsum(sizes).tolist()]
        return [array[start:stop] for start, stop in pairwise(bounds)]

    def inputs(self, vtree: Vtree, side: str) -> list[Any]:
        """The left (or right) inputs of all blocks, None where all units of the child are taken."""
        child = vtree.left if side == "left" else vtree.right
        named = self.arrays[f"has_{side}"] == 1
        unnamed = (self.kind == INNER) & ~named
        self.require(
            (self.width[unnamed] == self.n_units[child[unnamed]]).all(),
            f"products that take all units of the {side} child are as many as these",
        )
        pieces = self.pieces(side, np.where(named, self.width, 0))
        index = self.arrays[side]
        limit = np.repeat(self.n_units[child[named]], self.width[named])
        self.require(
            ((index >= 0) & (index < limit)).all(), f"{side} inputs must be units of the child"
        )
        return [piece if used else None for piece, used in zip(pieces, named, strict=True)]

    def sparse_weights(self) -> list[Any]:
        """The sparse weights of all blocks, None where weights have another form."""
        sparse_nodes = self.form == SPARSE
        shapes = list(zip(self.n_units.tolist(), self.width.tolist(), strict=True))
        indptr = self.pieces("csr_indptr", np.where(sparse_nodes, self.n_units + 1, 0))
        for rows in indptr:
            ordered = not len(rows) or (rows[0] == 0 and (np.diff(rows) >= 0).all())
            self.require(ordered, "row pointers of sparse weights must increase from 0")
        sizes = np.asarray([rows[-1] if len(rows) else 0 for rows in indptr], dtype=np.int64)
        data, indices = self.pieces("csr_data", sizes), self.pieces("csr_indices", sizes)
        column = self.arrays["csr_indices"]
        self.require(
            ((column >= 0) & (column < np.repeat(self.width, sizes))).all(),
            "columns of sparse weights must be products of the block",
        )
        return [
            _csr(shapes[node], *parts) if used else None
            for node, (used, *parts) in enumerate(
                zip(sparse_nodes.tolist(), data, indices, indptr, strict=True)
            )
        ]

    def blocks(self, vtree: Vtree) -> list[Input | Inner]:
        """One block per vtree node."""
        shapes = list(zip(self.n_units.tolist(), self.width.tolist(), strict=True))
        area = self.n_units * self.width
        parts: dict[str, list[Any]] = {HALF: [None] * len(shapes)}
        for kind, names in enumerate(ARRAYS):
            for size, name in zip(chain([area], repeat(self.width)), names, strict=False):
                if name in self.arrays:
                    parts[name] = self.pieces(name, np.where(self.kind == kind, size, 0))
        dense = self.pieces("dense", np.where(self.form == DENSE, area, 0))
        csr = self.sparse_weights()
        left, right = self.inputs(vtree, "left"), self.inputs(vtree, "right")

        def leaf(node: int, variable: int) -> Any:
            kind = self.kind[node]
            rows, *more = (parts[name][node] for name in ARRAYS[kind])
            return KINDS[kind](rows.reshape(shapes[node]), *more)

        def inner(node: int) -> Inner:
            n_units, width = shapes[node]
            is_dense = self.form[node] == DENSE
            weights = dense[node].reshape(shapes[node]) if is_dense else csr[node]
            return Inner(width, n_units, left[node], right[node], weights)

        return at_nodes(vtree, leaf, inner)


def _csr(shape: tuple[int, int], data: Any, indices: Any, indptr: Any) -> sparse.csr_array:
    """The sparse matrix of these arrays, whose types it keeps."""
    matrix = sparse.csr_array((data, indices, indptr), shape=shape)
    matrix.indices, matrix.indptr = indices, indptr
    return matrix
