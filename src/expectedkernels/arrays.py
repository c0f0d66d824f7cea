"""Arrays of several libraries, distinct rows and columns, and orders by content."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from pathlib import Path
from typing import Any, Protocol

import array_api_compat
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import ndtri

from expectedkernels.checks import CircuitError, DataError, SizeError

Array = Any
"""An array of NumPy, torch or another library: which one depends on what a call is given."""

RngLike = np.random.Generator | int | None
"""A generator of random numbers, a seed for one, or None for a fresh one."""

VariableLike = int | str
"""The number or the name of a variable."""

VariablesLike = VariableLike | Iterable[VariableLike] | ArrayLike
"""One variable, several, or a mask with a bool per variable."""


class Frame(Protocol):
    """A data frame of any library."""

    @property
    def columns(self) -> Any:
        """The names of the columns."""


class Weighted(Protocol):
    """Samples with weights."""

    @property
    def weights(self) -> Any:
        """One weight for every sample."""


# lists of lists with ints in some and floats in others are lists of objects to type checkers
NumbersLike = ArrayLike | Sequence[object]
"""An array of numbers, or nested lists of them."""

TablesLike = Sequence[NumbersLike] | np.ndarray[Any, Any]
"""One array of numbers for every variable."""

RowsLike = ArrayLike | Frame | Sequence[object]
"""Rows with one entry per variable: numbers, or labels of states."""

SamplesLike = RowsLike | Weighted
"""Rows, chains of rows, or samples that carry their weights."""

Labels = Sequence[str | float] | None
StatesLike = Sequence[Labels] | Mapping[int, Labels] | Mapping[str, Labels]
"""The labels of the states of every variable."""


FEW_BYTES = 2**28
"""So much memory is taken without asking how much there is."""
MEMORY_SHARE = 0.75
"""Of the memory of a computer, how much the arrays of one call may take."""

DEFAULT_MAX_BYTES = 2**30
"""How much memory a call may use for intermediate values, unless told otherwise."""
SMALLER_CIRCUITS = (
    "Use circuits of fewer units (condition on some variables, marginalise some with "
    "algebra.marginalize, or compile on another vtree), or estimate expectations: "
    "monte_carlo_expected_kernel."
)

SINGLE_RANGE = 2.0**-126, 2.0**128 - 2.0**104
"""The smallest and the largest positive number that singles hold with all their digits."""


def require_memory(n_bytes: float, what: str, advice: str, limit: float | None = None) -> None:
    """Raise a `SizeError` if something needs more memory than is available, before it is allocated.

    Parameters
    ----------
    n_bytes : float
        What is needed, about.
    what : str
        What needs it: the beginning of a sentence.
    advice : str
        What to do about it.
    limit : float, optional
        How many bytes may be used. Default: `memory_limit`.

    Examples
    --------
    >>> require_memory(2.0**60, "A matrix of all pairs of rows", "Take fewer rows.", 2.0**33)
    Traceback (most recent call last):
    expectedkernels.SizeError: A matrix of all pairs of rows needs about 1.07e+09 GiB of
    memory, and 8 GiB can be used. Take fewer rows.
    """
    if n_bytes <= FEW_BYTES and limit is None:
        return
    limit = memory_limit() if limit is None else limit
    if n_bytes > limit:
        raise SizeError(
            f"{what} needs about {n_bytes / 2**30:.3g} GiB of memory, and {limit / 2**30:.3g} GiB "
            f"can be used. {advice}"
        )


def check_max_bytes(max_bytes: Any) -> None:
    """Raise unless this is an amount of memory."""
    if not (isinstance(max_bytes, (int, float, np.integer)) and max_bytes > 0):
        raise DataError(f"The 'max_bytes' parameter must be a positive int. Got {max_bytes!r}.")


def memory_limit() -> float:
    """How many bytes arrays may take: three quarters of the memory that this process may use."""
    limits = [2.0**36]  # where a system says nothing
    try:
        limits = [float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))]
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        limits += [float(soft)] if soft != resource.RLIM_INFINITY else []
        limits.append(float(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (AttributeError, ImportError, OSError, ValueError):
        pass  # each of these is there on some systems
    return MEMORY_SHARE * min(limits)


def namespace(*arrays: Array) -> Any:
    """The array-API namespace of the arrays that are not NumPy's, or NumPy's own."""
    others = [a for a in arrays if a is not None and not isinstance(a, np.ndarray)]
    if not others:
        return np
    if not all(map(array_api_compat.is_torch_array, others)):
        return array_api_compat.array_namespace(*others)
    import array_api_compat.torch as xp  # looked up, as this is asked at every step of every pass

    return xp


def is_numpy(xp: Any) -> bool:
    """Whether the namespace is NumPy's."""
    return xp is np or array_api_compat.is_numpy_namespace(xp)


def detach(array: Array) -> Array:
    """The array without its history of gradients."""
    return array.detach() if hasattr(array, "detach") else array


def has_gradient(value: Any) -> bool:
    """Whether this is a tensor of torch that requires gradients.

    Examples
    --------
    >>> has_gradient(1.0)
    False
    """
    return array_api_compat.is_torch_array(value) and bool(value.requires_grad)


class Tape:
    """What a computation on a device received from the CPU and sent back, in order.

    Played again on the same numbers, the computation takes all this from the tape: nothing is
    sent, and nothing read.

    Examples
    --------
    >>> tape = Tape()
    >>> tape.next(lambda: 1.0)
    1.0
    >>> tape.rewound().next(lambda: 2.0)
    1.0
    """

    def __init__(self, kept: Sequence[Any] | None = None):
        self.kept: list[Any] = [] if kept is None else list(kept)
        self._next = None if kept is None else iter(self.kept)

    def next(self, make: Callable[[], Any]) -> Any:
        """What `make` makes, or has made the first time."""
        if self._next is None:
            self.kept.append(make())
            return self.kept[-1]
        return next(self._next)

    def rewound(self) -> Tape:
        """The tape, to be played."""
        return Tape(self.kept)


TAPE: ContextVar[Tape | None] = ContextVar("TAPE", default=None)
"""The tape of the computation that is going on, if there is one."""


def _taped(make: Callable[[], Any]) -> Any:
    tape = TAPE.get()
    return make() if tape is None else tape.next(make)


def numbers(xp: Any, scalars: Callable[[], Sequence[Array]]) -> list[float]:
    """What a function gives, arrays without axes, as plain numbers that are read at once.

    Examples
    --------
    >>> numbers(np, lambda: [np.float64(1.0), np.float64(2.0)])
    [1.0, 2.0]
    """
    if xp is np:
        return [float(x) for x in scalars()]
    return list(_taped(lambda: _read(xp.stack(scalars())).astype(np.float64).tolist()))


def take(array: Array, index: Any, axis: int) -> Array:
    """Entries of an array along an axis, at places that are not negative.

    Examples
    --------
    >>> take(np.arange(4.0), np.array([2, 0]), 0).tolist()
    [2.0, 0.0]
    """
    return namespace(array).take(array, index, axis=axis)


def is_on_gpu(array: Array) -> bool:
    """Whether an array is a tensor on a CUDA GPU."""
    return array_api_compat.is_torch_array(array) and array.device.type == "cuda"


def to_numpy(array: Array) -> Any:
    """The array on the CPU."""
    if isinstance(array, (np.ndarray, np.generic)):
        return array
    return _taped(lambda: _read(array))


def _read(array: Array) -> Any:
    array = detach(array)
    try:
        on_cpu = array.cpu() if hasattr(array, "cpu") else array
        try:
            return np.asarray(on_cpu)
        except (TypeError, RuntimeError):
            if not array_api_compat.is_torch_array(on_cpu):
                raise
            # what NumPy does not know as it is: bfloat16, sparse tensors, subclasses
            return np.asarray(on_cpu.to_dense().double().tolist())
    except (TypeError, RuntimeError) as error:
        kind = f"{type(array).__module__}.{type(array).__qualname__}"
        raise CircuitError(f"A {kind} cannot be read as an array of numbers: {error}") from error


def to_cpu(values: Any) -> Any:
    """What is an array of another library as NumPy's array; anything else as it is.

    Examples
    --------
    >>> to_cpu([1, 2])
    [1, 2]
    """
    if isinstance(values, np.ndarray) or not array_api_compat.is_array_api_obj(values):
        return values
    return to_numpy(values)


def as_like(array: Any, like: Array) -> Array:
    """A NumPy array in the namespace and on the device of another array; others pass."""
    if isinstance(like, np.ndarray) or not isinstance(array, np.ndarray):
        return array
    return _taped(lambda: _sent(array, namespace(like), array_api_compat.device(like)))


def _sent(array: Any, xp: Any, device: Any) -> Array:
    """A NumPy array in another namespace; one that must not change is copied on the way."""
    if array.size == 1 and array.dtype == np.float64:  # on a GPU a launch, where copies wait
        return xp.full(array.shape, array.item(), dtype=xp.float64, device=device)
    return xp.asarray(array if array.flags.writeable else array.copy(), device=device)


def spans(n: int, size: int) -> list[slice]:
    """Ranges of at most so many of n things.

    Examples
    --------
    >>> spans(5, 3)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return [slice(start, min(n, start + size)) for start in range(0, n, size)]


def frozen(array: Any) -> Any:
    """The array as a view that cannot be written to, if it is NumPy's or sparse; others pass.

    Examples
    --------
    >>> table = np.zeros(2)
    >>> frozen(table).flags.writeable, table.flags.writeable
    (False, True)
    """
    if isinstance(array, np.ndarray) and array.flags.writeable:
        view = array.view()
        view.flags.writeable = False
        return view
    if not sparse.issparse(array):
        return array
    parts = array.data, array.indices, array.indptr
    if any(part.flags.writeable for part in parts):
        array = copy(array)
        array.data, array.indices, array.indptr = map(frozen, parts)
    return array


def as_generator(rng: Any) -> np.random.Generator:
    """The generator of random numbers that a seed stands for, or the one that is given.

    Examples
    --------
    >>> generator = as_generator(0)
    >>> as_generator(generator) is generator
    True
    """
    try:
        if isinstance(rng, (bool, np.bool_)):
            raise TypeError("a bool is no seed")
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise CircuitError(
            "The 'rng' parameter must be a non-negative int, a numpy.random.Generator or None. "
            f"Got {rng!r} instead."
        ) from error


def from_logs(logs: Any) -> Any:
    """The exponentials of logs along the last axis over their largest; zeros if all are -inf.

    Examples
    --------
    >>> from_logs(np.array([[-1000.0, -np.inf], [-np.inf, -np.inf]])).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    top = logs.max(axis=-1, keepdims=True)
    return np.exp(logs - np.where(top > -np.inf, top, 0.0))


def cumulative(weights: Any) -> Any:
    """Cumulative probabilities of all states but the last, for rows of weights of states.

    From the last possible state on entries are one: rounding leads to no state without
    probability. Rows without a possible state have entries without a meaning.

    Examples
    --------
    >>> cumulative(np.array([[1.0, 3.0, 0.0]])).tolist()
    [[0.25, 1.0]]
    """
    edges = np.cumsum(weights, axis=1)
    total = edges[:, -1:]
    edges = edges[:, :-1] / np.where(total > 0, total, 1.0)
    last = weights.shape[1] - 1 - np.argmax((weights > 0)[:, ::-1], axis=1)
    edges[np.arange(edges.shape[1]) >= last[:, None]] = 1.0
    return edges


def inverse_cdf(edges: Any, u: Any) -> Any:
    """The states at positions u in [0, 1) of rows of cumulative probabilities.

    Examples
    --------
    >>> inverse_cdf(np.array([[0.25, 1.0], [0.25, 1.0]]), np.array([0.1, 0.9])).tolist()
    [0, 1]
    """
    return (edges <= u[:, None]).sum(axis=1)


def device_of(array: Array) -> Any:
    """What `Circuit.to` takes to move arrays to where this one is."""
    if isinstance(array, np.ndarray):
        return "numpy"
    return str(array.device) if array_api_compat.is_torch_array(array) else namespace(array)


class Place:
    """Where `Circuit.to` moves arrays: a name, a device name of torch, or a namespace.

    Parameters
    ----------
    where : str or module
        ``"numpy"``, ``"torch"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ... (the last ones are
        devices of torch), or any array-API namespace.
    dtype : {"float32", "float64"}, optional
        The type of floating-point numbers. Default: as they are.
    """

    def __init__(self, where: Any, dtype: Any = None):
        self.device: Any = None
        self.dtype = dtype
        if dtype is not None and dtype not in ("float32", "float64"):
            raise CircuitError(
                f"The parameters of a circuit are 'float32' or 'float64'. Got {dtype!r} instead."
            )
        numpy = hasattr(where, "__name__") and is_numpy(where)
        self.xp: Any = np if numpy or where == "numpy" else where
        if isinstance(self.xp, str):
            import torch  # only here: the core does not need torch

            with suppress(RuntimeError):
                self.device = torch.device("cpu" if where == "torch" else where)
                self.xp = array_api_compat.array_namespace(torch.empty(0))
        if not hasattr(self.xp, "asarray"):
            raise CircuitError(
                "Arrays can be moved to 'numpy', 'torch', 'cpu', 'cuda', a device of torch, "
                f"or an array-API namespace. Got {where!r} instead."
            )
        if self.device is not None and self.device.type == "cuda" and not torch.cuda.is_available():
            raise CircuitError(f"There is no device {where!r}: torch sees no CUDA GPU here.")

    def move(self, array: Array | None) -> Array | None:
        """The array at this place, itself if it is there; sparse ones are dense elsewhere."""
        if array is None:
            return None
        if sparse.issparse(array) and self.xp is not np:
            require_memory(
                8.0 * array.shape[0] * array.shape[1],
                f"A sparse matrix of weights, {array.shape[0]} x {array.shape[1]}, which is dense "
                "outside of NumPy,",
                "Keep the circuit in NumPy, or use one of fewer units.",
            )
            array = array.toarray()
        if array_api_compat.is_torch_array(array) and self.device is not None:
            array = array.to(self.device)
        elif not sparse.issparse(array) and namespace(array) is not self.xp:
            array = to_numpy(array)
            array = array if self.xp is np else _sent(array, self.xp, self.device)
        if self.dtype is None or "float" not in str(array.dtype):
            return array
        if self.dtype == "float32":
            low, high = SINGLE_RANGE
            sizes = abs(detach(array.data if sparse.issparse(array) else array))
            outside = ((sizes > 0) & (sizes < low)) | (sizes > high)
            if bool(outside.any()):
                raise CircuitError(
                    f"Single precision holds sizes from {low:.2g} to {high:.2g}. This circuit has "
                    f"a number of size {float(sizes[outside][0]):.2g}: keep 'float64'."
                )
        if sparse.issparse(array):
            return array.astype(self.dtype, copy=False)
        return self.xp.astype(array, getattr(self.xp, self.dtype), copy=False)


FEW = 64
"""So many rows are compared one by one: faster than to set up anything else."""
ODD = np.uint64(0x9E3779B97F4A7C15)
"""Spreads the bits of what it is multiplied with."""

FLAGS = 8
"""Distinct numbers are marked among all possible ones if these are at most so many per number."""


def distinct_below(numbers: Any, n: int) -> tuple[Any, Any]:
    """The distinct ones of numbers below n in ascending order, and every number's place there.

    Examples
    --------
    >>> [x.tolist() for x in distinct_below(np.array([4, 2, 4]), 5)]
    [[2, 4], [1, 0, 1]]
    """
    if n > FLAGS * len(numbers) + 1024:
        distinct, place = np.unique(numbers, return_inverse=True)
        return distinct, place.reshape(-1)
    flags = np.zeros(n, dtype=np.bool_)
    flags[numbers] = True
    distinct = flags.nonzero()[0]
    return distinct, numbers if len(distinct) == n else flags.cumsum()[numbers] - 1


def distinct_pairs(first: Any, second: Any, shape: tuple[int, int]) -> tuple[tuple[Any, Any], Any]:
    """The distinct pairs of numbers in ascending order, and the place of every pair among them.

    The numbers are below those of the shape.

    Examples
    --------
    >>> (a, b), place = distinct_pairs(np.array([1, 0, 1]), np.array([0, 2, 0]), (2, 3))
    >>> a.tolist(), b.tolist(), place.tolist()
    ([0, 1], [2, 0], [1, 0, 1])
    """
    keys = first.astype(np.int64) * shape[1] + second
    distinct, place = distinct_below(keys, shape[0] * shape[1])
    return np.divmod(distinct, max(1, shape[1])), place


def distinct_sparse_rows(starts: Any, columns: Any, numbers: Any) -> tuple[Any, Any]:
    """The first of equal rows, ascending, and for every row its place among these (empty: -1).

    Parameters
    ----------
    starts : int array of shape (rows + 1,)
        Where the entries of every row begin.
    columns, numbers : arrays of shape (entries,)
        Entries that are not zero; columns ascend within a row.

    Notes
    -----
    Rows with different hashes are different; those with equal hashes are compared entry by entry.

    Examples
    --------
    >>> starts, columns = np.array([0, 1, 1, 2, 4]), np.array([3, 3, 0, 3])
    >>> kept, place = distinct_sparse_rows(starts, columns, np.array([0.5, 0.5, 0.5, 0.5]))
    >>> kept.tolist(), place.tolist()
    ([0, 3], [0, -1, 0, 1])
    """
    filled, place = np.flatnonzero(np.diff(starts)), np.full(len(starts) - 1, -1, dtype=np.intp)
    first = None if len(filled) <= FEW else _first_by_hash(starts, columns, numbers, filled)
    if first is None:
        known: dict[Any, Any] = {}
        rows = zip(
            filled.tolist(), starts[filled].tolist(), starts[filled + 1].tolist(), strict=True
        )
        for row, a, b in rows:
            key = columns[a:b].tobytes(), numbers[a:b].tobytes()
            place[row], _ = known.setdefault(key, (len(known), row))
        return np.asarray([row for _, row in known.values()], dtype=np.intp), place
    kept = np.unique(first)
    place[filled] = np.searchsorted(kept, first)
    return kept, place


def distinct_dense_rows(rows: Any) -> tuple[Any, Any]:
    """What `distinct_sparse_rows` gives, for the rows of a matrix."""
    used = rows != 0
    starts = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return distinct_sparse_rows(starts, np.nonzero(used)[1], rows[used])


def _first_by_hash(starts: Any, columns: Any, numbers: Any, filled: Any) -> Any:
    """For every row the first one of the same hash; None if some of these are different."""
    mixed = _mixed(numbers.view(np.uint64) ^ (columns.astype(np.uint64) * ODD))
    hashes = np.add.reduceat(mixed, starts[filled])
    _, index, group = np.unique(hashes, return_index=True, return_inverse=True)
    first, sizes = filled[index][group], np.diff(starts)
    if (sizes[filled] != sizes[first]).any():
        return None
    at = np.arange(len(columns)) + np.repeat(starts[first] - starts[filled], sizes[filled])
    same = (columns[at] == columns).all() and (numbers[at] == numbers).all()
    return first if same else None


ROUNDS = 3


def content_keys(Z: Any) -> tuple[Any, Any]:
    """A key for every row and for every column of a table: integers that look random.

    They depend on the ranks of entries in their columns only. Rows and columns that these do not
    tell apart have equal keys: equal ones, and those that a symmetry of the table exchanges.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        NaN is missing.

    Examples
    --------
    >>> rows, columns = content_keys(np.array([[2.0, 10.0], [1.0, 30.0], [1.0, 20.0]]))
    >>> again, others = content_keys(np.array([[20.0, 1.0], [10.0, 2.0], [30.0, 1.0]]))
    >>> (rows == again[[1, 2, 0]]).all(), (columns == others[[1, 0]]).all()
    (np.True_, np.True_)
    """
    ranks = [np.zeros(len(Z), dtype=np.uint32) for _ in Z.T]  # 0 where a value is missing
    for x, own in zip(Z.T, ranks, strict=True):
        observed = ~np.isnan(x)
        own[observed] = np.unique(x[observed], return_inverse=True)[1].reshape(-1) + 1
    columns = np.zeros(Z.shape[1], dtype=np.uint64)
    for _ in range(ROUNDS):  # rows are told apart by columns, and these by rows
        rows = np.zeros(len(Z), dtype=np.uint64)
        for key, own in zip(columns, ranks, strict=True):
            rows += _mixed(key ^ _mixed(own))
        columns = np.array([_mixed(rows ^ _mixed(own)).sum() for own in ranks], dtype=np.uint64)
    return rows, columns


def canonical_order(Z: Any, *beside: Any) -> tuple[Any, Any]:
    """The numbers of the rows and of the columns of a table, in the order of their keys.

    Rows and columns of equal keys stay as they come.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        NaN is missing.
    *beside : arrays of shape (rows,) or (rows, targets)
        What else tells apart rows that are equal.

    Examples
    --------
    >>> Z = np.array([[2.0, 10.0], [1.0, 30.0], [1.0, 20.0]])
    >>> rows, columns = canonical_order(Z)
    >>> again, other = canonical_order(Z[::-1, ::-1])
    >>> (Z[rows][:, columns] == Z[::-1, ::-1][again][:, other]).all()
    np.True_
    """
    rows, columns = content_keys(Z)
    keys = [x for y in beside for x in y.reshape(len(Z), -1).T]
    return np.lexsort((*keys, rows)), np.argsort(columns, kind="stable")


def column_ranks(Z: Any, names: Sequence[Any] | None = None) -> Any:
    """The place of every column by its key, and by its name where keys are equal.

    Without names, columns of equal keys have equal ranks.

    Examples
    --------
    >>> Z = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    >>> ranks = column_ranks(Z)
    >>> bool(ranks[0] == ranks[2] != ranks[1])
    True
    >>> sorted(column_ranks(Z, ["a", "b", "c"]).tolist())
    [0, 1, 2]
    """
    keys = content_keys(Z)[1]
    names = [0] * len(keys) if names is None else names
    pairs = list(zip(keys.tolist(), names, strict=True))
    place = {pair: i for i, pair in enumerate(sorted(set(pairs)))}
    return np.array([place[pair] for pair in pairs])


def chosen_rows(Z: Any, n: int, seed: int, *beside: Any) -> Any:
    """The numbers of about n rows, drawn by their keys: all of those that are alike, or none.

    Equal rows differ by how many of them come before, so that some of them may be drawn.

    Parameters
    ----------
    Z : array of shape (rows, columns)
    n : int
    seed : int
    *beside : arrays of shape (rows,) or (rows, targets)
        What else tells apart rows that are equal.
    """
    if len(Z) <= n:
        return np.arange(len(Z))
    keys = row_keys(Z, seed, *beside)
    return np.flatnonzero(keys <= np.partition(keys, n - 1)[n - 1])


def row_keys(Z: Any, seed: int, *beside: Any) -> Any:
    """Keys of rows that differ between equal rows too."""
    whole = np.column_stack([Z, *beside])
    entries = np.nan_to_num(whole, nan=np.inf)
    _, number = np.unique(entries, axis=0, return_inverse=True)
    order = np.argsort(number.reshape(-1), kind="stable")
    counts = np.bincount(number.reshape(-1))
    before = np.empty(len(Z), dtype=np.uint64)
    before[order] = np.arange(len(Z)) - np.repeat(np.cumsum(counts) - counts, counts)
    return _mixed(content_keys(whole)[0] ^ _mixed(before ^ np.uint64(seed)))


def normal_numbers(rows: Any, columns: Any, n: int) -> Any:
    """Numbers as if drawn from the normal distribution, (n, rows, columns), by keys."""
    draw = _mixed(np.arange(n))[:, None, None]
    keys = _mixed(rows[:, None] ^ _mixed(columns ^ draw))
    return ndtri(((keys >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


def _mixed(x: Any) -> Any:
    """Numbers that look random, the same for the same ones (the last steps of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, dtype=np.uint64) + ODD
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
