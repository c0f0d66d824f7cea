"""The lossless format of the library: `.npz` files without pickles."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from io import BytesIO
from itertools import accumulate, chain, pairwise
from math import prod
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels.checks import CircuitError, CompatibilityError, ParseError, VtreeError
from expectedkernels.circuits.circuit import Circuit, of_tables
from expectedkernels.circuits.inputs import Real, Table
from expectedkernels.data.schema import Schema
from expectedkernels.engine.blocks import Inner, at_nodes
from expectedkernels.io.text import PathLike, checked_path, quote, read_bytes, require_holder
from expectedkernels.models.compiler import CliqueTree, context_plan
from expectedkernels.models.messages import MessagePlan, ScaledTable, log_partitions, make_stage
from expectedkernels.vtree import Vtree

VERSION, COMPILED = 1, 2
"""Of files with the blocks of a circuit, and of those with the tables of a compiled one."""
TABLE, NORMAL, INNER = 0, 1, 2
PASS, DENSE, SPARSE = 0, 1, 2
KINDS: tuple[Any, ...] = (Table, Real, Inner)
"""The blocks by the number of their kind."""
MOST_EMPTY_UNITS = 2**20
"""Units that store no number are limited, so that a small file cannot ask for much memory."""
TOLERANCE = 1e-6
"""How far the log of the sum of a distribution may be from zero."""
TYPES = {"i": "integers", "f": "floats of 4 or 8 bytes", "U": "texts"}
"""What arrays hold, by the kind of their type; no other type is ever made."""

TREE = ("vtree_left", "vtree_right", "vtree_variable")
NODES = ("kind", "n_units", "width", "weight_form", "has_left", "has_right")
"""One number per vtree node: TABLE, NORMAL or INNER; the number of units; that of states, of
components or of products; PASS, DENSE or SPARSE (PASS at leaves); whether products name their left
and right inputs (0 at leaves)."""
SIDES, CSR = ("left", "right"), ("data", "indices", "indptr")
INDICES = (*SIDES, "csr_indptr", "csr_indices")
"""What all nodes have of these, node by node."""
HALF, SQUARE = "normal_half", "nonnegative"
"""Half the widths of intervals, of all real inputs; a one, in files of circuits that were made so
that they have no negative values. Other files have none of these."""
NORMALS = {"weights": "weights", "mean": "mean", "variance": "variance", "half": "halves"}
ARRAYS = ({"tables": "table"}, {f"normal_{name}": x for name, x in NORMALS.items()})
"""The arrays of files that hold those of input blocks, by kind; the first ones have a row per unit,
the others are as long as these rows."""
FLOATS = (*ARRAYS[0], *ARRAYS[1], "dense", "csr_data")
STAGES = ("stage_variable", "stage_states", "stage_is_log", "stage_parent", "context_size")
"""One number per stage: the variable; how many states it has; whether the table holds logarithms;
the later stage that its message enters, -1 for none; the number of variables of its context."""
FORMATS = {
    VERSION: {"i": (*NODES, *INDICES, SQUARE), "f": FLOATS},
    COMPILED: {"i": (*STAGES, "context", "max_bytes"), "f": ("stage_low", "conditionals")},
}
"""The arrays of files by their versions and types."""
Require = Callable[[Any, str], None]
"""What raises with a message if a condition does not hold."""


def write_npz(circuit: Circuit, path: PathLike) -> None:
    """Write a circuit to a `.npz` file, without loss.

    The file is a NumPy archive of a few flat arrays, whatever the number of variables. Equal
    circuits give equal files. Arrays on other devices are moved to the CPU. Names of variables
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
    tables: Any = circuit.clique_tree
    is_compiled = isinstance(tables, CliqueTree)
    arrays: dict[str, Any] = {"version": np.array([COMPILED if is_compiled else VERSION])}
    arrays |= {name: getattr(circuit.vtree, name.removeprefix("vtree_")) for name in TREE}
    arrays |= _stage_arrays(tables) if is_compiled else _block_arrays(circuit)
    if not circuit.schema.is_plain:
        schema = {"names": circuit.schema.names, "states": circuit.schema.states}
        arrays["schema"] = np.array([json.dumps(schema)])
    with open(checked_path(path), "wb") as file:
        np.savez(file, **arrays)


def _stage_arrays(tensors: CliqueTree) -> dict[str, Any]:
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
    lists = zip(FORMATS[COMPILED]["i"], integers, strict=True)
    arrays: dict[str, Any] = {name: np.asarray(numbers, np.int64) for name, numbers in lists}
    arrays["stage_low"] = np.array([table.low for table in tables], dtype=np.float64)
    arrays["conditionals"] = np.concatenate([table.data.reshape(-1) for table in tables])
    return arrays


def _block_arrays(circuit: Circuit) -> dict[str, Any]:
    """The numbers of all blocks, node by node."""
    lists: dict[str, list[Any]] = {name: [] for name in (*NODES, *INDICES, *FLOATS)}
    blocks: Any = circuit.blocks
    for block in blocks:
        kind, weights = KINDS.index(type(block)), getattr(block, "weights", None)
        found: dict[str, Any] = dict.fromkeys(NODES, PASS)
        found |= {"kind": kind, "n_units": block.n_units, "width": block.width}
        if kind != INNER:
            found |= {name: getattr(block, own) for name, own in ARRAYS[kind].items()}
        else:
            sides = {side: getattr(block, side) for side in SIDES}
            found |= {side: index for side, index in sides.items() if index is not None}
            found |= {f"has_{side}": index is not None for side, index in sides.items()}
            if block.is_sparse:
                found |= {f"csr_{name}": getattr(weights, name) for name in CSR}
                found["weight_form"] = SPARSE
            elif weights is not None:
                found |= {"weight_form": DENSE, "dense": weights}
        for name, numbers in found.items():
            lists[name].append(np.ravel(numbers))
    arrays = {}
    for name, parts in lists.items():
        default: Any = np.float64 if name in FLOATS else np.int64
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
    sides = [arrays[name] for name in TREE]
    try:
        vtree = Vtree(*sides)
    except VtreeError as error:
        raise ParseError(f"the vtree is malformed: {error}", place) from error
    same = map(np.array_equal, sides, (vtree.left, vtree.right, vtree.variable))
    require(all(same), "vtree nodes must be in post-order")
    scope = sorted(vtree.scope().tolist())
    require(scope == list(range(len(scope))), "variables must be numbered from 0 without gaps")
    make = _block_circuit if "kind" in arrays else _compiled_circuit
    circuit = make(vtree, arrays, require)
    if "schema" not in arrays:
        return circuit
    try:
        [text] = arrays["schema"].tolist()
        found = json.loads(text)
        names, states = found["names"], found["states"]
        lists = [x for x in (names, states, *(states or ())) if x is not None]
        labels = chain.from_iterable(x for x in states or () if x is not None)
        if (
            len(found) > 2
            or not all(isinstance(x, list) for x in lists)
            or not all(isinstance(x, str) for x in names or ())
            or not all(isinstance(x, (str, int, float)) for x in labels)
        ):
            raise TypeError("lists of names and of labels are expected")
        return circuit.with_schema(Schema(circuit.cardinalities, names, states))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ParseError(f"the names of the circuit are malformed: {error}", place) from error


def _read_archive(path: str) -> dict[str, Any]:
    """The arrays of an uncompressed archive, in no more memory than it takes; no objects."""
    data = read_bytes(path)
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
                    message = f"its members are not one array each: {quote(member.filename)}"
                    raise ValueError(message)
                found[name] = _read_array(name, archive.read(member))
    except Exception as error:  # damage shows up in many ways inside zipfile and NumPy
        what = "expected a circuit written by save(), but the file is damaged, cut off"
        raise ParseError(f"{what} or something else ({error})", path) from error
    return found


def _read_array(name: str, data: bytes) -> Any:
    """The array in a member of an archive, in the byte order of this computer."""
    file = BytesIO(data)
    try:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception as error:
        raise ValueError(f"the member {quote(name)} is no array: {quote(str(error))}") from error
    found, wanted = len(data) - file.tell(), prod(shape) * dtype.itemsize
    if dtype.kind not in TYPES:
        return np.empty((), bool)
    if found != wanted:
        raise ValueError(f"the array {name!r} announces {wanted} bytes, found {found}")
    return np.ndarray(shape, dtype, data, file.tell()).astype(dtype.newbyteorder("="), copy=False)


def _checked_arrays(path: str, found: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a file by their names: of the right kind of numbers, none missing or more."""
    version = found.get("version", np.zeros(0)).tolist()
    if version not in ([VERSION], [COMPILED]):
        known = f"version {VERSION} or {COMPILED} of the format"
        text = quote(str(version)) if version else "unknown"
        raise ParseError(f"expected a circuit in {known}, found version {text}", path)
    kinds = {name: kind for kind, names in FORMATS[version[0]].items() for name in names}
    kinds |= dict.fromkeys(("version", *TREE), "i") | {"schema": "U"}
    arrays = {}
    for name, kind in kinds.items():
        array = found.pop(name, None)
        if array is None and name in ("schema", HALF, SQUARE):
            continue
        good = array is not None and array.dtype.kind == kind and array.ndim == 1
        if not good or (kind == "f" and array.itemsize not in (4, 8)):
            what = "none" if array is None else f"{array.dtype} in {array.ndim}"
            wanted = f"an array {name!r} of {TYPES[kind]} in one dimension"
            raise ParseError(f"expected {wanted}, found {what}", path)
        # counts are added and multiplied, and narrow types would wrap
        wide = kind == "i" and (name not in INDICES or array.itemsize < 4)
        arrays[name] = array.astype(np.int64) if wide else array
    for name in sorted(found):
        message = f"expected the arrays of a circuit and nothing else, found {quote(name)}"
        raise ParseError(message, path)
    return arrays


def _block_circuit(vtree: Vtree, arrays: dict[str, Any], require: Require) -> Circuit:
    """The circuit whose blocks are in some arrays, on a vtree that was checked."""
    for name in NODES:
        numbers = arrays[name]
        good = len(numbers) == vtree.n_nodes and 0 <= numbers.min() <= numbers.max() < 2**31
        require(good, f"{name!r} must hold one natural number per vtree node")
    kind, n_units, width, form, *named = (arrays[name] for name in NODES)
    is_leaf, area = vtree.variable >= 0, n_units * width
    at_leaf, inside = (kind < INNER) & (form + sum(named) == 0), (kind == INNER) & (form <= SPARSE)
    good = np.where(is_leaf, at_leaf, inside & ((form != PASS) | (n_units == width)))
    for has_side, child in zip(named, (vtree.left, vtree.right), strict=True):
        good &= is_leaf | (has_side == 1) | ((has_side == 0) & (width == n_units[child]))
    good &= (n_units > 0) & ((width > 0) | ((kind == NORMAL) & (n_units <= MOST_EMPTY_UNITS)))
    require(good.all(), "blocks have units that fit the vtree, their children and their weights")
    for name in (*FLOATS, HALF):
        require(np.isfinite(arrays.get(name, 0.0)).all(), f"{name!r} must be finite")
    # a variance of zero is a point mass: what is left of an observed variable
    good = arrays["normal_variance"].min(initial=0) >= 0 and np.min(arrays.get(HALF, 0)) >= 0
    square = arrays.get(SQUARE, np.zeros(0)).tolist()
    message = f"variances and widths are not negative, and {SQUARE!r} is one or not there"
    require(good and square in ([], [1]), message)
    sizes = {"dense": area * (form == DENSE), "csr_indptr": (n_units + 1) * (form == SPARSE)}
    sizes |= {side: width * has_side for side, has_side in zip(SIDES, named, strict=True)}
    for number, names in enumerate(ARRAYS):
        for i, name in enumerate(names):
            sizes[name] = (width if i else area) * (kind == number)
    known = {name: found.tolist() for name, found in sizes.items() if name in arrays}
    parts = {name: _cut(name, arrays[name], found, require) for name, found in known.items()}
    n_terms = [int(rows[-1]) if len(rows) else 0 for rows in parts["csr_indptr"]]
    for name in ("csr_data", "csr_indices"):
        parts[name] = _cut(name, arrays[name], n_terms, require)
    for side, has_side, child in zip(SIDES, named, (vtree.left, vtree.right), strict=True):
        index, limit = arrays[side], np.repeat(n_units[child], sizes[side])
        require(((index >= 0) & (index < limit)).all(), f"{side} inputs must be units of the child")
        parts[side] = [x if used else None for x, used in zip(parts[side], has_side, strict=True)]
    kinds, forms = kind.tolist(), form.tolist()
    shapes = list(zip(n_units.tolist(), width.tolist(), strict=True))

    def leaf(node: int, variable: int) -> Any:
        first, *more = (parts[name][node] for name in ARRAYS[kinds[node]] if name in parts)
        return KINDS[kinds[node]](first.reshape(shapes[node]), *more)

    def inner(node: int) -> Inner:
        weights: Any = None
        if forms[node] == DENSE:
            weights = parts["dense"][node].reshape(shapes[node])
        elif forms[node] == SPARSE:
            csr = tuple(parts[f"csr_{name}"][node] for name in CSR)
            try:
                weights = sparse.csr_array(csr, shape=shapes[node])
                weights.check_format(full_check=True)
            except ValueError as error:
                require(False, f"sparse weights: {error}")
            _, weights.indices, weights.indptr = csr  # of the types that they have
        n, products = shapes[node]
        return Inner(products, n, parts["left"][node], parts["right"][node], weights)

    return Circuit(vtree, tuple(at_nodes(vtree, leaf, inner)), nonnegative=bool(square))


def _cut(name: str, array: Any, sizes: Iterable[int], require: Require) -> list[Any]:
    """An array cut into pieces of these sizes, which must use it up."""
    bounds = [0, *accumulate(sizes)]
    good = bounds[-1] == len(array) and sorted(bounds) == bounds
    require(good, f"{name!r} has {len(array)} entries, which is not what the others say")
    if not len(array):
        return [array] * (len(bounds) - 1)
    return [array[start:stop] for start, stop in pairwise(bounds)]


def _compiled_circuit(vtree: Vtree, arrays: dict[str, Any], require: Require) -> Circuit:
    """The circuit whose tables are in some arrays, on a vtree that was checked."""
    for name in (*STAGES, "stage_low"):
        require(len(arrays[name]) == vtree.n_variables, f"{name!r} has one entry per variable")
    order, sizes, is_log, parents, counts = (arrays[name].tolist() for name in STAGES)
    require(sorted(order) == list(range(len(order))), "every variable has one stage")
    require(0 < min(sizes) <= max(sizes) < 2**31, "every variable has a state")
    limit, flat = arrays["max_bytes"].tolist(), arrays["context"]
    require(len(limit) == 1 and limit[0] > 0, "'max_bytes' is one positive number")
    require(((flat >= 0) & (flat < len(order))).all(), "contexts are made of variables")
    contexts = [tuple(context.tolist()) for context in _cut("context", flat, counts, require)]
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
    numbers = arrays["conditionals"].astype(np.float64)
    tables = _cut("conditionals", numbers, map(prod, shapes), require)
    stages: list[Any] = []
    for i, (variable, context) in enumerate(zip(order, contexts, strict=True)):
        require(is_log[i] in (0, 1), "tables hold numbers or logarithms")
        low = float(arrays["stage_low"][i])
        table = ScaledTable(tables[i].reshape(shapes[i]), low, bool(is_log[i]))
        good = table.is_log or (table.data >= 0).all()
        logs = table.logs if good else np.array([np.nan])
        require((logs <= TOLERANCE).all(), "'conditionals' are probabilities or their logarithms")
        least = logs.min(where=logs > -np.inf, initial=0.0)
        good = -np.inf < low <= least + TOLERANCE
        require(good, "'stage_low' are bounds of the logs of tables")
        totals = np.exp(logs).sum(axis=0)
        good = ((totals == 0) | (np.abs(totals - 1.0) <= TOLERANCE)).all()
        require(good, "conditional probabilities sum to one")
        stages.append(make_stage(cards, variable, context, [table], children[i], stages))
    plan = MessagePlan(tuple(stages), 0.0, is_normalized=True)
    try:  # units are written out on the vtree, from tables of these very shapes
        decided = context_plan(vtree, plan).contexts
    except CompatibilityError:
        decided = {}
    for v, context in zip(order, contexts, strict=True):
        several = tuple(u for u in context if cards[u] > 1)
        require(decided.get(v) == several, "contexts belong to the vtree")
    total = float(log_partitions(replace(plan, is_normalized=False), None)[0])
    require(abs(total) <= TOLERANCE, "conditional probabilities sum to one")
    schema = Schema(tuple(cards[v] for v in range(len(cards))))
    return of_tables(Circuit, vtree, schema, CliqueTree(plan, limit[0]))
