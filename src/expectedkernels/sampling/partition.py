"""Stein kernels for one fixed set of collapsed variables, of models too large to compile."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.arrays import Array
from expectedkernels.circuits.algebra import shift
from expectedkernels.circuits.evidence import Evidence, as_evidence
from expectedkernels.compilation.conditionals import CollapsedModel
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import DataError
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels.kernel import Kernel, refuse_gradients
from expectedkernels.kernels.rows import sample_rows
from expectedkernels.kernels.stein import PairwiseKernel, check_choices, steps, update_moves

NODE, PAIR = 110_000.0, 30.0
"""What a node costs for every sampled variable, and a pair of conditionals, in numbers computed."""


class PartitionSteinKernel(PairwiseKernel):
    """The Stein kernel of a model between samples that all collapse the same variables.

    Only the conditionals of the collapsed variables are compiled (see `CollapsedModel`), so that
    the model itself may be too large for that.

    Parameters
    ----------
    model : CollapsedModel
    kernel : Kernel
    zeros : "raise" or "restrict"
        As in `SteinKernel`.
    max_bytes : int
        How much memory intermediate values may take.
    operator : "shift" or "gibbs"
        As in `SteinKernel`.

    Notes
    -----
    Every sampled variable takes one batch of expected kernels between the conditionals given the
    samples and given the samples with that variable in other states.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> grid = ek.ising_grid(3, 3, rng=0)
    >>> model = ek.models.CollapsedModel(grid, [1, 3, 5, 7])
    >>> stein = PartitionSteinKernel(model, ek.ExpHamming())
    >>> rows = np.ones((2, 9))
    >>> rows[:, [1, 3, 5, 7]] = np.nan
    >>> rows[1, 0] = 0
    >>> whole = ek.CollapsedSteinKernel(grid.circuit(), ek.ExpHamming())
    >>> bool(abs(stein(rows) - whole(rows)).max() < 1e-9)
    True
    """

    def __init__(
        self,
        model: CollapsedModel,
        kernel: Kernel,
        zeros: str = "raise",
        max_bytes: int = DEFAULT_MAX_BYTES,
        *,
        operator: str = "shift",
    ):
        check_choices(kernel, zeros, operator)
        refuse_gradients("PartitionSteinKernel", kernel)
        self.operator = operator
        self.model, self.kernel, self.zeros, self.max_bytes = model, kernel, zeros, max_bytes
        self.cardinalities = list(model.model.cardinalities)

    def site_logs(self, X: Array, variable: int) -> Array:
        """The logs of the marginal of the sampled variables, one of them set to each state."""
        n, card = len(X), self.cardinalities[variable]
        rows = np.repeat(X, card, axis=0)
        rows[:, variable] = np.tile(np.arange(card), n)
        return self.model.log_marginal(rows).reshape(n, card)

    def _read(self, rows: Any) -> tuple[Any, Any, Any]:
        values = sample_rows(self.model.model, rows, least=0)
        free = np.isnan(values)
        wanted = np.zeros(values.shape[1], dtype=np.bool_)
        wanted[list(self.model.collapsed)] = True
        if (free != wanted).any():
            row = int(np.argmax((free != wanted).any(axis=1)))
            raise DataError(
                "All samples must collapse the same variables here, "
                f"{list(self.model.collapsed)}. Row {{row}} collapses "
                f"{np.flatnonzero(free[row]).tolist()}; compile the whole model to mix them.",
                row=row,
            )
        if self.operator == "gibbs":
            return values, None, None
        return values, *steps(self, values, self.zeros, self.model.sampled)

    def _gram(self, first: Any, second: Any) -> Any:
        total = np.zeros((len(first[0]), len(second[0])))
        for variable in self.model.sampled:
            circuit = self.model.circuit
            if self.operator == "shift":
                circuit = shift(circuit, variable)
            evidence, weights = self._measures(first, variable)
            others, other_weights = evidence, weights
            if second is not first:
                others, other_weights = self._measures(second, variable)
            means = expected_kernel(
                circuit,
                circuit,
                self.kernel,
                evidence_p=evidence,
                evidence_q=others,
                max_bytes=self.max_bytes,
            )
            means = weights[:, None] * means * other_weights[None, :]
            n, m = total.shape
            total += means.reshape(-1, n, means.shape[1] // m, m).sum(axis=(0, 2))
        return total

    def _measures(self, given: Any, variable: int) -> tuple[Evidence, Any]:
        """Conditionals, as evidence on the circuit, and their signed masses.

        For shifts: first the conditionals given the next state of the variable, placed at its state
        (the circuit is shifted), then those given its state, placed at the state before. Else
        the conditionals given every state of it.
        """
        rows, ratios, kept = given
        card = self.cardinalities[variable]
        states = rows[:, variable].astype(np.intp)
        if self.operator == "gibbs":
            return self._updates(rows, states, variable)
        after = rows.copy()
        after[:, variable] = (states + 1) % card
        # where the next state is impossible, its ratio is zero, and any conditional will do
        after[ratios[:, variable] == 0] = rows[ratios[:, variable] == 0]
        both = np.concatenate([after, rows])
        evidence, _ = self.model.evidence(both)
        places = (both[:, variable].astype(np.intp) - 1) % card
        evidence[variable] = np.eye(card)[places]
        weights = np.concatenate([ratios[:, variable], -kept[:, variable]])
        return as_evidence(evidence, self.cardinalities), weights

    def _updates(self, rows: Any, states: Any, variable: int) -> tuple[Evidence, Any]:
        """Conditionals given every state of a variable, and how an update weighs them."""
        card = self.cardinalities[variable]
        weights = update_moves(self.site_logs(rows, variable), states, rows)
        every = np.tile(rows, (card, 1))
        every[:, variable] = np.repeat(np.arange(card), len(rows))
        # impossible states have no weight, and any conditional will do
        impossible = (weights == 0).T.reshape(-1)
        every[impossible] = np.tile(rows, (card, 1))[impossible]
        evidence, _ = self.model.evidence(every)
        return as_evidence(evidence, self.cardinalities), weights.T.reshape(-1)


def partition_cost(cardinalities: Any, rows: Any) -> float:
    """What the Gram matrix of rows costs by their conditionals, in numbers computed.

    Examples
    --------
    >>> partition_cost([2, 2], np.array([[0.0, np.nan]]))
    330120.0
    """
    sampled = np.flatnonzero(~np.isnan(rows).any(axis=0))
    n_nodes = 2 * len(cardinalities) - 1
    pairs = sum((cardinalities[v] * len(rows)) ** 2 for v in sampled.tolist())
    return len(sampled) * n_nodes * NODE + PAIR * pairs
