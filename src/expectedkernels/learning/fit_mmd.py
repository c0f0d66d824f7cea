"""Circuits fitted by gradient descent on the squared MMD."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isclose, isfinite
from operator import attrgetter
from typing import Any

import numpy as np
from scipy import sparse

from expectedkernels import arrays, checks
from expectedkernels.circuits.circuit import Circuit, renumbered
from expectedkernels.circuits.operands import CircuitOperand, PointOperand
from expectedkernels.data.evidence import as_points
from expectedkernels.engine.replay import steady_step
from expectedkernels.engine.scaled import ScaledArray, contracted
from expectedkernels.kernels.empirical import Empirical, default_kernel
from expectedkernels.kernels.gram import KernelBlocks, gram, parts
from expectedkernels.kernels.kernel import Kernel, refuse_gradients, require_kernel
from expectedkernels.learning.em import normalized
from expectedkernels.learning.training_data import Step, train

CHECKED = 10
"""The discrepancy is looked at after so many steps."""
PATIENCE = 5
"""Fitting stops when it was not smaller at so many looks at validation rows."""
AGREEMENT = {8: 1e-9, 4: 1e-4}
"""How far, relative to itself, the discrepancy of a step that measures nothing may be from that of
a plain one, by the bytes of a number."""

Points = list[tuple[PointOperand, Any]]
"""Distinct rows in groups that fit into memory, with their shares of all rows."""


@dataclass(frozen=True, eq=False)
class FitState:
    """The parameters of a fit, and what its objective needs.

    Attributes
    ----------
    circuit : Circuit
        The circuit to start from, in tensors.
    block_index : list of lists of int
        Which blocks have numbers of one shape.
    logits : list of tensors of shape (blocks, units, width)
        For every such list the logs of their numbers.
    kernel : KernelBlocks
    max_bytes : int
    """

    circuit: Circuit
    block_index: list[list[int]]
    logits: list[Any]
    kernel: KernelBlocks
    max_bytes: int

    def current(self) -> Circuit:
        """The circuit with the current numbers."""
        blocks: list[Any] = list(self.circuit.blocks)
        for places, logits in zip(self.block_index, self.logits, strict=True):
            for place, rows in zip(places, logits.softmax(-1), strict=True):
                blocks[place] = blocks[place].with_numbers(rows)
        return renumbered(self.circuit, blocks)

    def objective(self, points: Points) -> Any:
        """The squared discrepancy to points, less the part that does not depend on the circuit."""
        operand = CircuitOperand(self.current())
        own = _number(gram((operand, operand), self.kernel, self.max_bytes))
        for some, shares in points:
            values = gram((operand, some), self.kernel, self.max_bytes)
            own = own - 2.0 * _number(contracted(values, shares, 1))
        return own

    def numbers(self) -> list[Any]:
        """A copy of all logits."""
        return [x.detach().clone() for x in self.logits]

    def reset(self, numbers: list[Any]) -> None:
        """Set all logits, in place."""
        for logits, x in zip(self.logits, numbers, strict=True):
            logits.data.copy_(x)


def fit_mmd(
    circuit: Circuit,
    X: arrays.RowsLike,
    kernel: Kernel | None = None,
    *,
    steps: int = 300,
    learning_rate: float = 0.03,
    X_valid: arrays.RowsLike | None = None,
    device: str | None = None,
    dtype: str | None = None,
    progress: bool = True,
    max_bytes: int = arrays.DEFAULT_MAX_BYTES,
) -> Circuit:
    """The circuit with its weights and tables fitted to data by the smallest exact MMD.

    The squared maximum mean discrepancy between the circuit and the rows is a function of the
    weights, E k(x, x') - 2 E k(x, X) and a constant, and so are its derivatives. Weights and
    tables are the softmax of free numbers, which Adam moves. Those that are zero stay zero, and
    means and variances of normal inputs stay as they are. Start from a circuit of large
    likelihood (`em`, `learn_hclt`, ...): from a random one this ends in worse places.

    Interrupting (Ctrl-C) returns the best circuit so far.

    Parameters
    ----------
    circuit : Circuit
        The structure and the parameters to start from, with one root and no negative weights.
    X : array of shape (n, variables), data frame, or Empirical
        Complete rows. Equal ones are put together.
    kernel : Kernel, optional
        Default: as for `mmd2`.
    steps : int
        The number of updates.
    learning_rate : float
        How far an update moves the log of a weight, at most, about.
    X_valid : as X, optional
        Rows that are not fitted to: the circuit that is nearest to them is returned, and fitting
        stops when it has not come nearer for a while. Default: nearest to X.
    device : str, optional
        "torch", "cuda", or another device of torch. Default: where the circuit is, or the CPU.
    dtype : {"float32", "float64"}, optional
        The type of numbers. Default: those of the circuit.
    progress : bool
        Whether to show a bar (only on a terminal).
    max_bytes : int
        How much memory intermediate values may take, for one group of rows.

    Returns
    -------
    Circuit
        Normalised, on the CPU.

    Raises
    ------
    DataError
        If there are no rows, or values are missing.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> X = [[0, 0], [0, 0], [1, 1], [0, 1]]
    >>> start = ek.random_circuit(2, units=2, rng=0)
    >>> p = fit_mmd(start, X, steps=50, progress=False)
    >>> bool(ek.mmd(p, X) < ek.mmd(start, X))
    True
    """
    checks.check_count("fit_mmd", "steps", steps)
    checks.check_real("fit_mmd", "learning_rate", learning_rate)
    arrays.check_max_bytes(max_bytes)
    start = normalized(circuit, "fit_mmd")
    rows = _distinct(X, start, "X")
    held = None if X_valid is None else _distinct(X_valid, start, "X_valid")
    kernel = default_kernel(start, rows.X) if kernel is None else kernel
    require_kernel(kernel)
    if device is None:
        device = "torch" if circuit.is_on_cpu else arrays.device_of(circuit.like)
    refuse_gradients("fit_mmd", kernel)
    blocks = kernel.blocks(start.vtree, start.cardinalities)
    state = _start_state(start.to(device, dtype), blocks, max_bytes)
    if not state.logits or steps == 0:
        return start
    points = _groups(state, rows)
    beside = None if held is None else _groups(state, held)
    result = train(
        _steps(state, points, beside, steps, learning_rate),
        state.numbers(),
        checks.progress_bar(steps, "fit_mmd", not progress, "step"),
        patience=None if held is None else PATIENCE,
        text=lambda number, step: f"squared MMD {-step.mean:.4g} and a constant",
    )
    state.reset(result.state)
    return _on_cpu(start, state)


def _distinct(X: Any, circuit: Circuit, name: str) -> Empirical:
    """The distinct rows of data, as points of the circuit, and their shares."""
    given = X if isinstance(X, Empirical) else Empirical(X)
    if not abs(float(given.weights.sum()) - 1.0) <= 1e-6 or (given.weights < 0).any():
        raise checks.DataError(
            f"A circuit is fitted to a distribution: the weights of {name} must not be negative, "
            f"and sum to one. They sum to {float(given.weights.sum()):.6g}."
        )
    given = given.on(circuit.schema)
    missing = np.argwhere(given.X != given.X)
    if len(missing):
        row, column = missing[0].tolist()
        raise checks.DataError(
            f"A discrepancy is to complete rows. Got NaN in row {row}, column {column} of {name}. "
            "em fits circuits to rows with missing values."
        )
    return Empirical(as_points(given.X, circuit.schema, name), given.weights).merged()


def _start_state(circuit: Circuit, kernel: KernelBlocks, max_bytes: int) -> FitState:
    import torch

    alike: dict[Any, list[int]] = {}
    numbers: list[Any] = list(map(attrgetter("numbers"), circuit.blocks))
    for place, rows in enumerate(numbers):
        if rows is not None:
            alike.setdefault(tuple(rows.shape), []).append(place)
    stacks = (torch.stack([numbers[place] for place in places]) for places in alike.values())
    # units without any weight are used by none: shares of zero would not be numbers
    raised = (torch.where(x.any(-1, keepdim=True), x, 1.0) for x in stacks)
    logits = [stack.log().requires_grad_() for stack in raised]
    return FitState(circuit, list(alike.values()), logits, kernel, max_bytes)


def _groups(state: FitState, rows: Empirical) -> Points:
    """The rows in groups that fit into memory."""
    circuit, like = state.circuit, state.circuit.like
    operand = PointOperand(rows.X, circuit.vtree, circuit.cardinalities)
    found = []
    axes = (CircuitOperand(circuit), operand)
    for joint, (_, first, *_) in parts(axes, state.kernel, state.max_bytes):
        points = joint.axes[1]
        shares = arrays.as_like(rows.weights[first : first + points.n_rows], like)
        found.append((points, shares.to(like.dtype)))
    return found


def _number(values: ScaledArray) -> Any:
    """The one number of a circuit and itself, or points that are summed."""
    return (values.data if values.scale is None else values.data * values.scale.exp())[0, 0]


def _steps(
    state: FitState, points: Points, held: Points | None, n: int, rate: float
) -> Iterator[Step]:
    """Parameters after some of n updates, the first and the last ones among them."""
    import torch

    on_gpu = arrays.is_on_gpu(state.logits[0])
    optimizer = torch.optim.Adam(state.logits, lr=rate, capturable=on_gpu)

    def plain_step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        found = state.objective(points)
        found.backward()
        optimizer.step()
        return found.detach()

    def loss(rows: Points) -> float:
        with torch.no_grad():
            return float(state.objective(rows))

    step: Callable[[], Any] = plain_step
    done = some = 0
    while True:
        if done == CHECKED < n - done:
            step, done = steady_step(plain_step, state.logits[0]), done + 2
        here = loss(points)
        numbers = state.numbers()
        yield Step(numbers, -here, -here if held is None else -loss(held), size=some)
        if done == n:
            return
        some = min(CHECKED, n - done)
        found, error = float(step()), AGREEMENT[state.logits[0].element_size()]
        if not (isfinite(found) and isclose(found, here, rel_tol=error)):
            # the ranges of numbers are not what they were
            state.reset(numbers)
            optimizer.state.clear()
            step = plain_step
        for _ in range(some - 1):
            step()
        done += some


def _on_cpu(start: Circuit, state: FitState) -> Circuit:
    """The fitted circuit, on the CPU, stored as the one that it started from."""
    blocks: list[Any] = list(start.blocks)
    for places, logits in zip(state.block_index, state.logits, strict=True):
        for place, rows in zip(places, arrays.to_numpy(logits.double().softmax(-1)), strict=True):
            old = blocks[place].numbers
            rows = rows * (old.sum(axis=1) > 0).reshape(-1, 1)
            stored = sparse.csr_array(rows) if sparse.issparse(old) else rows
            blocks[place] = blocks[place].with_numbers(stored)
    return Circuit(start.vtree, tuple(blocks), start.names, start.states)
