"""The lossless format of the library: `.npz` files without pickles."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from itertools import accumulate, chain, pairwise
from math import prod
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.checks import CircuitError, CompatibilityError, ParseError, VtreeError
from expectedkernels.circuits.block_circuit import of_tables
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Real, Table
from expectedkernels.data.schema import Schema
from expectedkernels.engine.blocks import Inner, at_nodes
from expectedkernels.io.text import PathLike, checked_path, require_holder, shown
from expectedkernels.models.clique_tree import Scaled
from expectedkernels.models.compiler import Tensors, context_plan
from expectedkernels.models.messages import MessagePlan, Stage, log_partition, make_stage
from expectedkernels.vtree import Vtree

VERSION, COMPILED = 1, 2
"""Of files with the blocks of a circuit, and of those with the tables of a compiled one."""
TABLE, NORMAL, INNER = 0, 1, 2
PASS, DENSE, SPARSE = 0, 1, 2
MOST_EMPTY_UNITS = 2**20
"""Units that store no number are limited, so that a small file cannot ask for much memory."""
TOLERANCE = 1e-6
"""How far the log of the sum of a distribution may be from zero."""
DTYPES = {"i": ("integers", (1, 2, 4, 8)), "f": ("floats", (4, 8)), "U": ("texts", ())}
"""What arrays hold, and of how many bytes (any number for texts); no other type is ever made."""

TREE = ("vtree_left", "vtree_right", "vtree_variable")
NODES = (
    "kind",  # TABLE, NORMAL or INNER
    "n_units",
    "width",  # cardinality, number of components, or number of products
    "weight_form",  # PASS, DENSE or SPARSE; PASS at leaves
    "has_left",  # whether products name their left inputs, 0 at leaves
    "has_right",
)
"""One number per vtree node."""
INDICES = ("left", "right", "csr_indptr", "csr_indices")
"""What all nodes have of these, node by node."""
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
STAGES = (
    "stage_variable",
    "stage_states",  # how many the variable has
    "stage_is_log",  # whether its table holds logarithms
    "stage_parent",  # the later one that its message enters, -1 for none
    "context_size",  # the number of variables of its context
)
"""One number per stage."""
STAGE_INTEGERS = (*STAGES, "context", "max_bytes")
"""All contexts, stage by stage; and one number."""
STAGE_FLOATS = ("stage_low", "conditionals")
FORMATS = {
    VERSION: {"i": (*NODES, *INDICES), "f": FLOATS},
    COMPILED: {"i": STAGE_INTEGERS, "f": STAGE_FLOATS},
}
"""The arrays of files by their versions and types."""
Require = Callable[[Any, str], None]
"""What raises with a message if a condition does not hold."""


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
    require_holder(circuit, ".npz")
    circuit = circuit.to("numpy")
    tables = circuit.shortcuts
    is_compiled = isinstance(tables, Tensors)
    arrays: dict[str, Any] = {"version": np.array([COMPILED if is_compiled else VERSION])}
    arrays |= {name: getattr(circuit.vtree, name.removeprefix("vtree_")) for name in TREE}
    arrays |= _stage_arrays(tables) if isinstance(tables, Tensors) else _block_arrays(circuit)
    if not circuit.schema.is_plain:
        schema = {"names": circuit.schema.names, "states": circuit.schema.states}
        arrays["schema"] = np.array([json.dumps(schema)])
    with open(checked_path(path), "wb") as file:
        np.savez(file, **arrays)


def _stage_arrays(tensors: Tensors) -> dict[str, Any]:
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


def _block_arrays(circuit: Circuit) -> dict[str, Any]:
    """The numbers of all blocks, node by node."""
    lists: dict[str, list[Any]] = {name: [] for name in (*NODES, *INDICES, *FLOATS, HALF)}
    for name, value in chain.from_iterable(map(_flat, circuit.blocks)):
        lists[name].append(np.ravel(value))
    arrays = {}
    for name, parts in lists.items():
        default: Any = np.float64 if name in (*FLOATS, HALF) else np.int64
        array = np.concatenate(parts) if parts else np.empty(0, dtype=default)
        # types that files do not have become the default one, which holds their numbers
        same = array.dtype.kind == default().dtype.kind and array.dtype.itemsize in (4, 8)
        arrays[name] = array if same else array.astype(default)
        if not np.isfinite(arrays[name]).all():
            raise CircuitError(
                f"A file holds finite numbers. The {name.replace('_', ' ')} of the circuit contain "
                "infinities or NaN, which come from an overflow; normalize() it, or rescale its "
                "weights, before the step that overflows."
            )
    if not arrays[HALF].any():
        del arrays[HALF]
    if circuit.nonnegative:
        arrays[SQUARE] = np.ones(1, dtype=np.int64)
    return arrays


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
    place = checked_path(path)

    def require(condition: Any, message: str) -> None:
        if not condition:
            raise ParseError(f"the arrays of the circuit are inconsistent: {message}", place)

    arrays = _checked_arrays(place, _read_archive(place))
    try:
        vtree = Vtree(*(arrays[name] for name in TREE))
    except VtreeError as error:
        raise ParseError(f"the vtree is malformed: {error}", place) from error
    same = map(
        np.array_equal, (arrays[name] for name in TREE), (vtree.left, vtree.right, vtree.variable)
    )
    require(all(same), "vtree nodes must be in post-order")
    require(
        set(vtree.scope().tolist()) == set(range(vtree.n_variables)),
        "variables must be numbered from 0 without gaps",
    )
    make = _block_circuit if "kind" in arrays else _compiled_circuit
    circuit = make(vtree, arrays, require)
    if "schema" not in arrays:
        return circuit
    texts = arrays["schema"].tolist()
    try:
        found: Any = json.loads(texts[0]) if len(texts) == 1 else None
        require(_is_schema(found), "'schema' must hold the names and states of the variables")
        return circuit.with_schema(Schema(circuit.cardinalities, found["names"], found["states"]))
    except ParseError:
        raise
    except (json.JSONDecodeError, RecursionError, CircuitError) as error:
        raise ParseError(f"the names of the circuit are malformed: {error}", place) from error


def _is_schema(found: Any) -> bool:
    """Whether parsed JSON has the form of names and states."""
    if not isinstance(found, dict) or set(found) != {"names", "states"}:
        return False

    def is_list(given: Any, kinds: Any) -> bool:
        return given is None or (
            isinstance(given, list) and all(isinstance(x, kinds) for x in given)
        )

    names, states = found["names"], found["states"]
    return (
        is_list(names, str)
        and is_list(states, (list, type(None)))
        and all(is_list(labels, (str, int, float)) for labels in states or ())
    )


def _read_archive(path: str) -> dict[str, Any]:
    """The arrays of an uncompressed archive, in no more memory than it takes; objects are none."""
    with open(path, "rb") as file:
        data = file.read()
    found: dict[str, Any] = {}
    try:
        with warnings.catch_warnings(action="error"), zipfile.ZipFile(BytesIO(data)) as archive:
            members = archive.infolist()
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise ValueError("its arrays are compressed")
            # members may overlap, so that all of them together are larger than the file
            if sum(member.file_size for member in members) > len(data):
                raise ValueError("its arrays are larger than the file")
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in found or name == member.filename:
                    raise ValueError(
                        f"its members are not one array each: {shown(member.filename)}"
                    )
                found[name] = _read_array(name, archive.read(member))
    except Exception as error:  # damage shows up in many ways inside zipfile and NumPy
        raise ParseError(
            "expected a circuit written by save(), but the file is damaged, cut off or something "
            f"else ({error})",
            path,
        ) from error
    return found


def _read_array(name: str, data: bytes) -> Any:
    """The array in a member of an archive, in the byte order of this machine."""
    file = BytesIO(data)
    try:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception as error:
        raise ValueError(f"the member {shown(name)} is no array: {shown(str(error))}") from error
    if dtype.kind not in DTYPES:
        return np.empty(0, bool)
    size = len(data) - file.tell()
    if prod(shape) * dtype.itemsize != size:
        raise ValueError(
            f"the array {name!r} announces {prod(shape)} entries of {dtype.itemsize} bytes, found "
            f"{size} bytes"
        )
    array = np.ndarray(shape, dtype, data, file.tell())
    return array.astype(dtype.newbyteorder("="))


def _checked_arrays(path: str, found: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a file by their names: of the right kind of numbers, none missing or more."""

    def array(name: str, kind: str) -> Any:
        what, sizes = DTYPES[kind]
        given = found.get(name, np.empty((0, 0)))
        if given.dtype.kind != kind or given.ndim != 1:
            raise ParseError(
                f"expected an array {name!r} of {what} in one dimension, found "
                f"{'another' if name in found else 'none'}",
                path,
            )
        if sizes and given.itemsize not in sizes:
            *most, last = sizes
            known = f"{', '.join(map(str, most))} or {last}"
            raise ParseError(
                f"expected an array {name!r} of {what} of {known} bytes, found {given.itemsize}",
                path,
            )
        # counts are added and multiplied, and narrow types would wrap
        wide = kind == "i" and (name not in INDICES or given.itemsize < 4)
        return given.astype(np.int64) if wide else given

    version = array("version", "i").tolist() if "version" in found else ["unknown"]
    if len(version) != 1 or version[0] not in FORMATS:
        raise ParseError(
            f"expected a circuit in version {VERSION} or {COMPILED} of the format, found version "
            f"{version[0] if version else 'unknown'}",
            path,
        )
    kinds = {name: kind for kind, names in FORMATS[version[0]].items() for name in names}
    more = {"schema": "U"} | ({HALF: "f", SQUARE: "i"} if version == [VERSION] else {})
    kinds |= dict.fromkeys(("version", *TREE), "i")
    kinds |= {name: kind for name, kind in more.items() if name in found}
    arrays = {name: array(name, kind) for name, kind in kinds.items()}
    for name in sorted(found.keys() - kinds.keys()):
        raise ParseError(
            f"expected the arrays of a circuit and nothing else, found {shown(name)}", path
        )
    return arrays


def _block_circuit(vtree: Vtree, arrays: dict[str, Any], require: Require) -> Circuit:
    """The circuit whose blocks are in some arrays, on a vtree that was checked."""
    for name in NODES:
        numbers = arrays[name]
        require(
            len(numbers) == vtree.n_nodes and numbers.min() >= 0 and numbers.max() < 2**31,
            f"{name!r} must hold one natural number per vtree node",
        )
    kind, n_units, width, form, *named = (arrays[name] for name in NODES)
    is_leaf = vtree.variable >= 0
    require(
        ((kind == INNER) == ~is_leaf).all() and (kind <= INNER).all(),
        "input blocks belong to leaves of the vtree, others to inner nodes",
    )
    require(
        form.max() <= SPARSE
        and max(map(np.max, named)) <= 1
        and not (is_leaf & (form + named[0] + named[1] > 0)).any(),
        "unknown forms of weights or inputs",
    )
    empty = (width == 0) & (kind == NORMAL)
    require(
        (n_units > 0).all()
        and ((width > 0) | empty).all()
        and (n_units[empty] <= MOST_EMPTY_UNITS).all(),
        "every block has units, and every unit numbers",
    )
    passes = ~is_leaf & (form == PASS)
    require(
        (n_units[passes] == width[passes]).all(), "units without weights are as many as products"
    )
    for name in FLOATS:
        require(np.isfinite(arrays[name]).all(), f"{name!r} must be finite")
    # a variance of zero is a point mass: what is left of an observed variable
    require((arrays["normal_variance"] >= 0).all(), "variances must not be negative")
    half = arrays.get(HALF, np.zeros(0))
    require(((half >= 0) & (half < np.inf)).all(), "widths must be finite, and not negative")
    square = arrays.get(SQUARE, np.zeros(0)).tolist()
    require(square in ([], [1]), f"{SQUARE!r} must be one, or not there")

    def cut(name: str, sizes: Any) -> list[Any]:
        return _cut(
            arrays[name],
            sizes,
            require,
            f"{name!r} has {{}} entries, which is not what blocks need",
        )

    def inputs(side: str, child: Any, is_named: Any) -> list[Any]:
        """The inputs of all blocks, None where all units of the child are taken."""
        unnamed = ~is_leaf & ~is_named
        require(
            (width[unnamed] == n_units[child[unnamed]]).all(),
            f"products that take all units of the {side} child are as many as these",
        )
        pieces, index = cut(side, np.where(is_named, width, 0)), arrays[side]
        limit = np.repeat(n_units[child[is_named]], width[is_named])
        good = ((index >= 0) & (index < limit)).all()
        require(good, f"{side} inputs must be units of the child")
        return [piece if used else None for piece, used in zip(pieces, is_named, strict=True)]

    area = n_units * width
    parts: dict[str, list[Any]] = {}
    for number, names in enumerate(ARRAYS):
        for i, name in enumerate(names):
            if name in arrays:
                parts[name] = cut(name, np.where(kind == number, width if i else area, 0))
    dense = cut("dense", np.where(form == DENSE, area, 0))
    indptr = cut("csr_indptr", np.where(form == SPARSE, n_units + 1, 0))
    sizes = [rows[-1] if len(rows) else 0 for rows in indptr]
    csr = list(zip(cut("csr_data", sizes), cut("csr_indices", sizes), indptr, strict=True))

    left = inputs("left", vtree.left, named[0] == 1)
    right = inputs("right", vtree.right, named[1] == 1)

    def leaf(node: int, variable: int) -> Any:
        made: Any = KINDS[kind[node]]
        rows, *more = (parts[name][node] if name in parts else None for name in ARRAYS[kind[node]])
        return made(rows.reshape(n_units[node], width[node]), *more)  # type: ignore[union-attr]

    def inner(node: int) -> Inner:
        weights: Any = None
        shape = int(n_units[node]), int(width[node])
        if form[node] == DENSE:
            weights = dense[node].reshape(shape)
        elif form[node] == SPARSE:
            try:
                weights = sparse.csr_array(csr[node], shape=shape)
                weights.check_format(full_check=True)
            except ValueError as error:
                require(False, f"sparse weights: {error}")
            _, weights.indices, weights.indptr = csr[node]  # of the types that they have
        return Inner(shape[1], shape[0], left[node], right[node], weights)

    return Circuit(vtree, tuple(at_nodes(vtree, leaf, inner)), nonnegative=bool(square))


def _cut(array: Any, sizes: Any, require: Require, message: str) -> list[Any]:
    """An array cut into pieces of these sizes, which must use it up."""
    bounds = [0, *accumulate(map(int, sizes))]
    require(bounds[-1] == len(array) and sorted(bounds) == bounds, message.format(len(array)))
    return [array[start:stop] for start, stop in pairwise(bounds)]


def _compiled_circuit(vtree: Vtree, arrays: dict[str, Any], require: Require) -> Circuit:
    """The circuit whose tables are in some arrays, on a vtree that was checked."""
    for name in (*STAGES, "stage_low"):
        require(len(arrays[name]) == vtree.n_variables, f"{name!r} has one entry per variable")
    order, sizes, is_log, parents, counts = (arrays[name].tolist() for name in STAGES)
    require(sorted(order) == list(range(len(order))), "every variable has one stage")
    require(0 < min(sizes) <= max(sizes) < 2**31, "every variable has a state")
    require({*is_log} <= {0, 1}, "tables hold numbers or logarithms")
    limit, flat = arrays["max_bytes"].tolist(), arrays["context"]
    require(len(limit) == 1 and limit[0] > 0, "'max_bytes' is one positive number")
    require(((flat >= 0) & (flat < len(order))).all(), "contexts are made of variables")
    message = "{!r} has {{}} entries, which is not what stages need"
    cut = _cut(flat, counts, require, message.format("context"))
    contexts = [tuple(context.tolist()) for context in cut]
    cards = dict(zip(order, sizes, strict=True))
    position = {v: i for i, v in enumerate(order)}
    children: list[list[int]] = [[] for _ in order]
    for i, (parent, context) in enumerate(zip(parents, contexts, strict=True)):
        turns = [i, *map(position.__getitem__, context)]
        require(turns == sorted({*turns}), "contexts follow the order of stages")
        require(i < parent < len(order) or parent == -1, "messages enter later stages")
        axes = () if parent == -1 else (order[parent], *contexts[parent])
        require({*context} <= {*axes}, "messages fit the stages that they enter")
        if parent >= 0:
            children[parent].append(i)
    shapes = [tuple(cards[u] for u in (v, *c)) for v, c in zip(order, contexts, strict=True)]
    tables = _cut(
        arrays["conditionals"].astype(np.float64),
        map(prod, shapes),
        require,
        message.format("conditionals"),
    )
    stages: list[Stage] = []
    for i, (variable, context) in enumerate(zip(order, contexts, strict=True)):
        low = float(arrays["stage_low"][i])
        table = Scaled(tables[i].reshape(shapes[i]), low, bool(is_log[i]))
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
        decided = context_plan(vtree, plan).contexts
    except CompatibilityError:
        decided = {}
    several = {stage.variable for stage in plan.stages if stage.shape[0] > 1}
    fits = all(
        decided.get(stage.variable) == tuple(v for v in stage.context if v in several)
        for stage in plan.stages
    )
    require(fits, "contexts belong to the vtree")
