"""Stein kernels of collapsed samples: rows in which some variables are summed out."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from expectedkernels.arrays import RowsLike
from expectedkernels.circuits.base import host_for
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.determinism import deterministic
from expectedkernels.circuits.evidence import Column, Evidence, as_evidence
from expectedkernels.circuits.extents import extent_of_operand, sweep_cost
from expectedkernels.circuits.queries import require_possible
from expectedkernels.circuits.sides import CircuitSide, check_single_root
from expectedkernels.discrepancies.kdsd import support_sizes
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import DataError, SizeError
from expectedkernels.kernels.blocks import KernelBlocks
from expectedkernels.kernels.gram import gram
from expectedkernels.kernels.kernel import Kernel, refuse_gradients
from expectedkernels.kernels.library import ExpHamming
from expectedkernels.kernels.marks import marked, same_single_mark
from expectedkernels.kernels.rows import sample_rows
from expectedkernels.kernels.scaled import Scaled
from expectedkernels.kernels.stein import (
    TOO_RARE,
    PairwiseKernel,
    check_choices,
    discrete_cardinalities,
    steps,
)
from expectedkernels.kernels.target import Target
from expectedkernels.progress import progress_bar

CHUNK_BYTES = 2**26
"""Pairs of samples are worked on in groups whose values stay near the processor."""


class CollapsedSteinKernel(PairwiseKernel):
    r"""The Stein kernel of a target between collapsed samples.

    A collapsed sample has values for some variables (:math:`x_s`) and stands for the distribution
    of all others given these, :math:`p(x_c \mid x_s)`. The kernel of two of them is the mean of the
    Stein kernel of p (see `SteinKernel`) over what both stand for. Every sample may
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
        drawn anew given the other values, with the collapsed variables summed out.
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
        kernel = ExpHamming() if kernel is None else kernel
        check_choices(kernel, zeros, operator)
        refuse_gradients("CollapsedSteinKernel", kernel)
        check_single_root(circuit, "A Stein kernel")
        self.cardinalities = discrete_cardinalities(circuit)
        self.circuit, self.kernel, self.zeros = (
            host_for(circuit, "CollapsedSteinKernel"),
            kernel,
            zeros,
        )
        self.operator, self.max_bytes = operator, max_bytes
        self._blocks = self._marked_kernel()
        self._set_marked(positive)

    def _set_marked(self, positive: bool | None) -> None:
        """Set what a marked state means, and whether shifts may meet zeros."""
        if self.operator == "gibbs":
            self._marked, self._positive = marked(self.circuit, lambda table: table), True
            return
        self._marked = marked(self.circuit, lambda table: np.roll(table, -1, axis=1))
        self._positive = is_positive(self.circuit) if positive is None else positive

    def with_operator(self, operator: str) -> CollapsedSteinKernel:
        """The same with another operator; what does not depend on it is shared.

        Parameters
        ----------
        operator : "shift" or "gibbs"

        Returns
        -------
        CollapsedSteinKernel

        Examples
        --------
        >>> import expectedkernels as ek
        >>> stein = CollapsedSteinKernel(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
        >>> stein.with_operator("gibbs").operator
        'gibbs'
        """
        check_choices(self.kernel, self.zeros, operator)
        other = copy(self)
        other.operator = operator
        other._set_marked(None)
        return other

    def __getstate__(self) -> dict[str, Any]:
        # blocks refer to a module, which cannot be pickled, and are quickly made again
        return {name: value for name, value in vars(self).items() if name != "_blocks"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._blocks = self._marked_kernel()

    def _marked_kernel(self) -> KernelBlocks:
        blocks = self.kernel.blocks(self.circuit.vtree, self.cardinalities)
        return same_single_mark(blocks, self.cardinalities)

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
        extent = extent_of_operand(self._read(rows)[1].operand)
        # with and without a mark there are three products for one, and half of the pairs
        return 0.5 * sweep_cost(extent, extent, 3)

    def _gram(self, first: Any, second: Any) -> Any:
        (logs, p), (other_logs, q) = first, second
        with progress_bar(len(logs) * len(other_logs), "Stein kernels") as bar:
            most = min(self.max_bytes, CHUNK_BYTES)
            found = gram((p, q), self._blocks, most, bar, symmetric=p is q)
        scale = -logs[:, None] - other_logs[None, :]
        scaled = Scaled(found.data, scale if found.scale is None else found.scale + scale)
        return scaled.linear("The Stein kernel of two samples", TOO_RARE)

    def _read(self, rows: Any) -> tuple[Any, CircuitSide]:
        """The logs of the probabilities of rows, and the marked circuit given these."""
        from scipy.special import logsumexp  # slow to import, and only needed here

        values = sample_rows(self.circuit, rows, least=0)
        logs = np.asarray(require_possible(self.circuit, as_evidence(values, self.cardinalities)))
        kept = None
        if not self._positive:
            _, kept = steps(self.circuit, values, self.zeros)
        columns = []
        tables = self.circuit.all_site_logs(values) if self.operator == "gibbs" else []
        for v, n in enumerate(self.cardinalities):
            seen = np.flatnonzero(~np.isnan(values[:, v]))
            here = np.eye(n)[values[seen, v].astype(np.intp)]
            if self.operator == "gibbs":
                # a sum of rounded numbers may be less than one of its terms by rounding
                log_chance = logs[seen] - logsumexp(tables[v][seen], axis=1)
                log_chance = np.minimum(log_chance, 0.0)[:, None]
                moves = np.where(here == 1, -np.expm1(log_chance), -np.exp(log_chance))
            else:
                before = np.roll(here, -1, axis=1)
                moves = here - (before if kept is None else kept[seen, v, None] * before)
            columns.append(_column(len(values), seen, here, moves))
        evidence = Evidence([2 * n for n in self.cardinalities], columns=columns)
        return logs, CircuitSide(self._marked, evidence, by_patterns=True)

    def __repr__(self) -> str:
        return f"<CollapsedSteinKernel of {self.circuit!r} with {self.kernel!r}>"


def _column(n_rows: int, seen: Any, here: Any, moves: Any) -> Column:
    """What rows say of one variable, as weights of its states and of its marked states.

    A value lets the variable be in that state, or, if it is marked, in any state with the weights
    of the operator. A variable that is summed out can be in any state, but is never marked.
    """
    n = here.shape[1]
    statements = np.hstack([np.ones((n_rows, n)), np.zeros((n_rows, n))])
    statements[seen] = np.hstack([here, moves])
    distinct, codes = np.unique(statements, axis=0, return_inverse=True)
    return Column(distinct, None, codes.reshape(-1))


def is_positive(circuit: Circuit) -> bool:
    """Whether a circuit is known to be positive everywhere, by its tables or by counting.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> is_positive(ek.factorized([[0.5, 0.5]])), is_positive(ek.factorized([[1.0, 0.0]]))
    (True, False)
    """
    leaves: list[Any] = [circuit.input(v) for v in range(circuit.n_variables)]
    if all((block.table > 0).all() for block in leaves):
        return True
    try:
        if not deterministic(circuit):
            return False
    except SizeError:
        return False  # it may be, but that is not known
    n_states = 1
    for n in circuit.cardinalities:
        n_states *= int(n or 1)
    return support_sizes(circuit)[0] == n_states
