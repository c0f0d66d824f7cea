"""What a call of `expected_kernel` would do: which way, in how many steps, at what cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from math import ceil
from typing import Any

import numpy as np

from expectedkernels.arrays import device_of, memory_limit
from expectedkernels.circuits.conditionals import ConditionalsSide
from expectedkernels.circuits.evidence import EvidenceLike
from expectedkernels.circuits.sides import CircuitSide, Side
from expectedkernels.engine.plan import Plan
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES, operations, peak_bytes, plan_of
from expectedkernels.expectation import PointPairs, Prepared, prepared
from expectedkernels.html import overview
from expectedkernels.kernels.empirical import DistributionLike, Empirical
from expectedkernels.kernels.gram import extent_of, parts
from expectedkernels.kernels.kernel import BLOCK, Kernel

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
    plan : Plan or None
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
    plan: Plan | None = field(repr=False, default=None)

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
    k: Kernel,
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
      1 sweep, node by node: 7 steps
      0.3 KiB of intermediate values at most, 138 operations
    """
    found = prepared(p, q, k, evidence_p, evidence_q, max_bytes)
    whole = _of_points(found) if isinstance(found, PointPairs) else _of_sweeps(found, max_bytes)
    if not k.tensors:
        return whole
    line = f"  gradients by {_counted(len(k.tensors), 'parameter')} of the kernel: in torch"
    return replace(whole, lines=(*whole.lines, line))


def _of_points(pairs: PointPairs) -> Explanation:
    """The kernels of points: no sweep."""
    X, Y = (x.X if isinstance(x, Empirical) else np.atleast_2d(x) for x in (pairs.p, pairs.q))
    n, m = len(X), len(Y)
    blocks = ceil(n / BLOCK) * ceil(m / BLOCK)
    count = 2 * n * m * X.shape[1]
    n_bytes = 2 * 8 * min(n, BLOCK) * min(m, BLOCK)
    lines = [
        f"{n} x {m} values of a kernel at points of {X.shape[1]} variables",
        f"  {_counted(blocks, 'block')} of at most {BLOCK} x {BLOCK} pairs",
        _costs(n_bytes, count),
    ]
    return Explanation("points", (None, None), (n, m), blocks, blocks, n_bytes, count, tuple(lines))


def _of_sweeps(found: Prepared, max_bytes: int) -> Explanation:
    first, n_parts, steps, n_bytes, count = None, 0, 0, 0, 0
    ways: dict[str, int] = {}
    for part in parts(tuple(found.sides), found.blocks, max_bytes):
        plan = plan_of(part.operands, max_bytes)
        first = plan if n_parts == 0 else first
        way = "node by node" if plan is None else "folded"
        ways[way] = ways.get(way, 0) + 1
        n_parts += 1
        steps += found.circuit.vtree.n_nodes if plan is None else len(plan.steps)
        held = peak_bytes(part.operands) if plan is None else plan.peak_bytes
        n_bytes, count = max(n_bytes, held), count + operations(part.operands)
    path = " and ".join(sorted(ways)) or "nothing to do"
    shape = tuple(map(extent_of, found.sides))
    terms = len(found.blocks.weights)
    lines = [
        f"{shape[0]} x {shape[1]} expected kernels of a kernel with {_counted(terms, 'term')}",
        *(
            f"  {name}: {_described(side, form)}"
            for name, side, form in zip(("x", "x'"), found.sides, found.choice.forms, strict=True)
        ),
        *_compared(found),
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


def _described(side: Side, form: str | None) -> str:
    if not isinstance(side, CircuitSide):
        return _counted(side.n_rows, "point")
    circuit = side.model if isinstance(side, ConditionalsSide) else side.circuit
    text = f"a circuit of {_counted(circuit.n_variables, 'variable')}, {circuit.n_units} units"
    inner = [block for block in circuit.operand.inner if block is not None]
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


def _compared(found: Prepared) -> list[str]:
    """What else could have been chosen, the cheapest first, and how much more it would cost."""
    choice = found.choice
    lines = []
    for forms, cost in sorted(choice.others.items(), key=lambda other: other[1])[:4]:
        names = [form for form in forms if form is not None]
        lines.append(f"  not by {' x '.join(names)}: {cost / choice.cost:.2g} times the cost")
    return lines


def _counted(n: int | None, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _costs(n_bytes: int, count: int) -> str:
    size = f"{n_bytes / 2**10:.1f} KiB" if n_bytes < 2**20 else f"{n_bytes / 2**20:.1f} MiB"
    size = size if n_bytes < 2**33 else f"{n_bytes / 2**30:.1f} GiB"
    return f"  {size} of intermediate values at most, {count:.5g} operations"
