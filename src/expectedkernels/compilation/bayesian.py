"""Bayesian networks: factor graphs of conditional probability tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from expectedkernels.arrays import Array, Labels, TablesLike, cumulative, drawn
from expectedkernels.compilation.factor import Factor
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.errors import CircuitError

ROUNDING = 0.01
"""How far the sum of a distribution may be from one: tables in files have few decimals."""


class BayesianNetwork(FactorGraph):
    """A factor graph whose factors are conditional probability tables, one per variable.

    Parameters
    ----------
    parents : sequence of sequences of int
        The parents of every variable.
    cpts : sequence of arrays
        For every variable its probabilities given its parents: one axis per parent, in their
        order, and the last one for the variable itself. Sums may differ a little from one, as they
        do where probabilities were rounded; the numbers are used as they are.
    names, states : optional
        As for `FactorGraph`.

    Attributes
    ----------
    parents : tuple of tuples of int
    cpts : tuple of arrays

    Raises
    ------
    CircuitError
        If arcs form a cycle, or tables do not hold one distribution for every state of the parents.

    Examples
    --------
    >>> rain = BayesianNetwork([[], [0]], [[0.8, 0.2], [[0.9, 0.1], [0.3, 0.7]]])
    >>> rain
    <BayesianNetwork of 2 variables: 2 factors>
    >>> circuit, log_z = rain.compile()
    >>> circuit.marginals()[1].round(12).tolist()
    [0.78, 0.22]
    """

    parents: tuple[tuple[int, ...], ...]

    def __init__(
        self,
        parents: Sequence[Sequence[int]],
        cpts: TablesLike,
        names: Sequence[str] | None = None,
        states: Sequence[Labels] | None = None,
    ):
        if len(parents) != len(cpts):
            raise CircuitError(
                "A Bayesian network has one list of parents and one table per variable. "
                f"Got {len(parents)} and {len(cpts)}."
            )
        factors = [
            Factor((*above, v), table)
            for v, (above, table) in enumerate(zip(parents, cpts, strict=True))
        ]
        super().__init__([f.table.shape[-1] for f in factors], factors, names, states)
        self.parents = tuple(factor.scope[:-1] for factor in factors)
        for v, table in enumerate(self.cpts):
            worst = float(np.abs(table.sum(axis=-1) - 1.0).max())
            if worst > ROUNDING:
                raise CircuitError(
                    f"The probabilities of {self._called(v)} must sum to one for every state of "
                    f"its parents. Got a sum that is off by {worst:.3g}."
                )
        cycle = self._cycle()
        if cycle is not None:
            raise CircuitError(
                f"The arcs of a Bayesian network form no cycle. {self._called(cycle)} is an "
                "ancestor of itself."
            )

    @property
    def cpts(self) -> tuple[Array, ...]:
        """The conditional probability tables: axes of the parents, then of the variable."""
        return tuple(factor.table for factor in self.factors)

    def with_names(
        self, names: Sequence[str] | None = None, states: Sequence[Labels] | None = None
    ) -> BayesianNetwork:
        """The network with other names of its variables (see `FactorGraph.with_names`).

        Examples
        --------
        >>> BayesianNetwork([[]], [[0.2, 0.8]]).with_names(["rain"]).names
        ['rain']
        """
        states = self._states if states is None else states
        return BayesianNetwork(self.parents, self.cpts, names, states)

    def smoothed(self, epsilon: float = 0.01) -> BayesianNetwork:
        """The network with its zeros raised to a probability (see `FactorGraph.smoothed`).

        Examples
        --------
        >>> coin = BayesianNetwork([[]], [[0.0, 1.0]])
        >>> coin.smoothed(0.01).cpts[0].tolist()
        [0.01, 0.99]
        """
        cpts = []
        for factor in super().smoothed(epsilon).factors:
            table = self.cpts[factor.scope[-1]]
            zero = table == 0
            left = 1.0 - epsilon * zero.sum(axis=-1, keepdims=True)
            if (left <= 0).any():
                raise CircuitError(
                    f"An 'epsilon' of {epsilon} leaves nothing for the possible states of "
                    f"{self._called(factor.scope[-1])}. Give a smaller one."
                )
            cpts.append(np.where(zero, epsilon, left * table))
        return BayesianNetwork(self.parents, cpts, self._names, self._states)

    def _called(self, variable: int) -> str:
        name = "" if self._names is None else f" ({self._names[variable]!r})"
        return f"variable {variable}{name}"

    def _cycle(self) -> int | None:
        """A variable on a cycle (or below one), None if there is none."""
        children: list[list[int]] = [[] for _ in self.parents]
        waiting = [len(above) for above in self.parents]
        for v, above in enumerate(self.parents):
            for parent in above:
                children[parent].append(v)
        ready = [v for v, n in enumerate(waiting) if n == 0]
        while ready:
            for child in children[ready.pop()]:
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
        left = [v for v, n in enumerate(waiting) if n > 0]
        return left[0] if left else None


def forward_samples(
    network: BayesianNetwork, n: int, rng: np.random.Generator, fixed: Mapping[int, int]
) -> Array:
    """Samples of a network from its roots down, with some variables held at their values.

    It needs no circuit. With variables held, samples are not those of the conditional distribution.

    Examples
    --------
    >>> rain = BayesianNetwork([[], [0]], [[0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]]])
    >>> forward_samples(rain, 2, np.random.default_rng(0), {}).tolist()
    [[1, 1], [1, 1]]
    """
    rows = np.zeros((n, network.n_variables), dtype=np.intp)
    done: set[int] = set()
    waiting = list(range(network.n_variables))
    while waiting:
        ready = [v for v in waiting if done.issuperset(network.parents[v])]
        for v in ready:
            if v in fixed:
                rows[:, v] = fixed[v]
                continue
            table = network.cpts[v][tuple(rows[:, u] for u in network.parents[v])]
            table = np.broadcast_to(table, (n, network.cardinalities[v]))
            rows[:, v] = drawn(cumulative(table), rng.random(n))
        done.update(ready)
        waiting = [v for v in waiting if v not in done]
    return rows
