"""Factor graphs: products of tables over a few discrete variables each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from expectedkernels.arrays import Array, Labels, NumbersLike, RowsLike, VariableLike
from expectedkernels.checks import check_real
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.evidence import EvidenceLike, as_evidence, as_points
from expectedkernels.circuits.frames import Label
from expectedkernels.circuits.schema import Schema
from expectedkernels.compilation.compiler import by_contexts, compiled
from expectedkernels.compilation.factor import Factor, as_factor, integers, plugged
from expectedkernels.compilation.messages import MessagePlan, message_plan
from expectedkernels.compilation.orders import Elimination, best_elimination, interaction_graph
from expectedkernels.compilation.plan import CompilationPlan, Potential, make_plan
from expectedkernels.compilation.questions import Questions
from expectedkernels.compilation.vtrees import conditioning_vtree
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import CircuitError, EvidenceError
from expectedkernels.vtree import Vtree


class FactorGraph(Questions):
    """A product of factors over discrete variables, unnormalised.

    Parameters
    ----------
    cardinalities : sequence of int
        The number of states of every variable.
    factors : sequence of Factor, or of (scope, table) pairs
        Zero entries, equal scopes, empty scopes and variables without factors are allowed.
    names : sequence of str, optional
        One name per variable.
    states : sequence of sequences of str, optional
        The labels of the states of every variable.

    Attributes
    ----------
    cardinalities : tuple of int
    factors : tuple of Factor

    Raises
    ------
    CircuitError
        If there are no variables or states, or a factor does not fit them.

    Examples
    --------
    >>> fg = FactorGraph([2, 2], [Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
    >>> circuit, log_z = fg.compile()
    >>> float(np.exp(log_z).round(12))
    10.0
    >>> circuit.marginals()[0].round(12).tolist()
    [0.3, 0.7]
    """

    cardinalities: tuple[int, ...]
    factors: tuple[Factor, ...]

    def __init__(
        self,
        cardinalities: Sequence[int],
        factors: Iterable[Factor | tuple[Sequence[int], NumbersLike]],
        names: Sequence[str] | None = None,
        states: Sequence[Labels] | None = None,
    ):
        self.cardinalities = tuple(integers(cardinalities, "The cardinalities"))
        if not self.cardinalities or min(self.cardinalities) < 1:
            raise CircuitError(
                "A factor graph needs at least one variable, and every variable at least one "
                f"state. Got the cardinalities {self.cardinalities}."
            )
        if not isinstance(factors, Iterable):
            raise CircuitError(
                f"The factors of a factor graph are a list. Got {type(factors).__name__} instead."
            )
        self.factors = tuple(map(as_factor, factors))
        for number, factor in enumerate(self.factors):
            self._check_factor(number, factor)
        self.schema = Schema(
            self.cardinalities,
            None if names is None else tuple(names),
            None if states is None else tuple(None if s is None else tuple(s) for s in states),
        )
        self._names, self._states = self.schema.names, self.schema.states

    def _check_factor(self, number: int, factor: Factor) -> None:
        n = self.n_variables
        if any(not 0 <= v < n for v in factor.scope):
            raise CircuitError(
                f"The variables of this factor graph are 0..{n - 1}. Got factor {number} with "
                f"scope {factor.scope}."
            )
        wanted = tuple(self.cardinalities[v] for v in factor.scope)
        if factor.table.shape != wanted:
            raise CircuitError(
                f"Factor {number} with scope {factor.scope} needs a table of shape {wanted}, the "
                f"cardinalities of its variables. Got shape {factor.table.shape}."
            )

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return len(self.cardinalities)

    @property
    def names(self) -> list[str] | None:
        """The names of the variables, None if they have none."""
        return None if self._names is None else list(self._names)

    @property
    def states(self) -> list[list[Label]] | None:
        """The labels of the states of every variable, None if they have none."""
        return None if self._states is None else [list(labels or ()) for labels in self._states]

    def with_names(
        self, names: Sequence[str] | None = None, states: Sequence[Labels] | None = None
    ) -> FactorGraph:
        """The model with other names of its variables, and labels of their states.

        Parameters
        ----------
        names : sequence of str, optional
            One name per variable.
        states : sequence of sequences of labels, optional
            The labels of the states of every variable. Default: as they are.

        Returns
        -------
        FactorGraph

        Examples
        --------
        >>> FactorGraph([2], []).with_names(["rain"], [["no", "yes"]]).states
        [['no', 'yes']]
        """
        states = self._states if states is None else states
        return FactorGraph(self.cardinalities, self.factors, names, states)

    @cached_property
    def potential(self) -> Potential:
        """The product of all factors as logarithms, equal scopes multiplied."""
        return Potential.of(
            self.cardinalities, [(factor.scope, factor.table) for factor in self.factors]
        )

    @cached_property
    def graph(self) -> tuple[frozenset[int], ...]:
        """The interaction graph: for every variable those it shares a factor with.

        Examples
        --------
        >>> chain = FactorGraph([2] * 3, [((0, 1), np.ones((2, 2))), ((1, 2), np.eye(2))])
        >>> [sorted(found) for found in chain.graph]
        [[1], [0, 2], [1]]
        """
        return interaction_graph(self.n_variables, [factor.scope for factor in self.factors])

    @cached_property
    def vtree(self) -> Vtree:
        """The vtree that `compile` uses by default, in the reversed order of a good elimination."""
        return conditioning_vtree(self.graph, self._elimination.order, self.cardinalities)

    @cached_property
    def _elimination(self) -> Elimination:
        """The order in which variables are summed out."""
        return best_elimination(self.graph, self.cardinalities)

    @cached_property
    def messages(self) -> MessagePlan:
        """How questions are answered without a circuit: the stages of variable elimination."""
        return message_plan(self.potential, self._elimination)

    @cached_property
    def vtree_for_pairs(self) -> Vtree:
        """The vtree that makes expected kernels between two models of this graph cheap."""
        return conditioning_vtree(self.graph, None, self.cardinalities, for_pairs=True)

    def plan(
        self, vtree: Vtree | None = None, method: str | None = None, for_pairs: bool = False
    ) -> CompilationPlan:
        """What `compile` would do: sizes of circuits can be compared before one is made.

        Parameters
        ----------
        vtree, method, for_pairs
            As for `compile`.

        Returns
        -------
        CompilationPlan

        Examples
        --------
        >>> from expectedkernels.compilation.datasets import ising_grid
        >>> from expectedkernels.vtree import Vtree
        >>> ising_grid(4, 4, rng=0).plan(Vtree.balanced(16))
        <CompilationPlan: boundary method, 129 sums, 864 products, width 7>
        """
        if vtree is None:
            vtree = self.vtree_for_pairs if for_pairs else self.vtree
        return make_plan(self.potential, vtree, method)

    def compile(
        self,
        vtree: Vtree | None = None,
        method: str | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        for_pairs: bool = False,
    ) -> tuple[Circuit, float]:
        """The circuit of the model, normalised and deterministic, and its log partition function.

        Parameters
        ----------
        vtree : Vtree, optional
            Default: `FactorGraph.vtree`. Models compiled on the same vtree are compatible.
        method : "context", "boundary" or None
            Whether units stand for assignments of the variables around a vtree node, or of those
            at the rim inside it. The first gives smaller circuits, but needs a leaf beside
            every node that it interacts with, as conditioning and linear vtrees have. None: the
            first if it is possible.
        max_bytes : int
            Models whose tables need more memory than about this are refused. By contexts, units
            are written out when a question needs them, which takes five times as much, and is
            refused then if it does not fit; likelihoods and marginals of few rows need none (see
            `Circuit.written_out`).
        for_pairs : bool
            Without a vtree: whether it is `vtree_for_pairs`, for circuits that will meet others
            in expected kernels. They may be larger, but less work in pairs.

        Returns
        -------
        circuit : Circuit
        log_z : float

        Raises
        ------
        PropertyError
            If the factors multiply to zero everywhere.

        Notes
        -----
        Cost: O(D K^(w+1)) time and memory for D variables of K states, where w is the width of the
        elimination order behind the vtree.

        Examples
        --------
        >>> fg = FactorGraph([2, 3], [Factor([0], [1.0, 3.0]), Factor([0, 1], np.eye(2, 3))])
        >>> circuit, log_z = fg.compile()
        >>> float(np.exp(log_z).round(12)), circuit.marginals()[1].round(12).tolist()
        (4.0, [0.25, 0.75, 0.0])
        """
        # variables with one state are part of the elimination, but of no context in a plan
        by_messages = vtree is None and method is None and min(self.cardinalities) > 1
        if by_messages and not for_pairs:
            circuit, log_z = by_contexts(self.vtree, self.messages, max_bytes)
        else:
            circuit, log_z = compiled(self.plan(vtree, method, for_pairs), max_bytes)
        return circuit.with_schema(self.schema), log_z

    def circuit(self, vtree: Vtree | None = None) -> Circuit:
        """The circuit of the model, normalised and deterministic: the first half of `compile`.

        Parameters
        ----------
        vtree : Vtree, optional
            Default: `FactorGraph.vtree`, on which the circuit is compiled once and kept.

        Returns
        -------
        Circuit

        Raises
        ------
        PropertyError
            If the factors multiply to zero everywhere.

        Examples
        --------
        >>> fg = FactorGraph([2, 2], [Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
        >>> fg.circuit().marginals()[0].round(12).tolist()
        [0.3, 0.7]
        """
        return self._circuit if vtree is None else self.compile(vtree)[0]

    def log_score(self, X: RowsLike) -> Array:
        """The log of the product of all factors at complete points, shape (n,), unnormalised.

        Parameters
        ----------
        X : array of shape (n, variables)

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> fg = FactorGraph([2, 2], [Factor([0, 1], [[1.0, 2.0], [0.0, 4.0]])])
        >>> fg.log_score([[0, 1], [1, 0]]).round(6).tolist()
        [0.693147, -inf]
        """
        points = as_points(X, self.schema, "Points of a factor graph").astype(np.intp)
        total = np.zeros(len(points))
        with np.errstate(divide="ignore"):
            for factor in self.factors:
                total += np.log(factor.table[tuple(points[:, v] for v in factor.scope)])
        return total

    def site_logs(self, X: RowsLike, variable: int | str) -> Array:
        """The log of the model at points with one variable set to each of its states in turn.

        Only the factors that touch the variable are looked at, so that every row is right up to
        a constant: differences within a row are logs of ratios of probabilities.

        Parameters
        ----------
        X : array of shape (n, variables)
            Complete points; their own values of the variable do not matter.
        variable : int or str

        Returns
        -------
        array of shape (n, cardinality)

        Examples
        --------
        >>> fg = FactorGraph([2, 3], [Factor([0], [1.0, 3.0]), Factor([0, 1], np.ones((2, 3)))])
        >>> np.exp(fg.site_logs([[0, 2]], 0)).round(12).tolist()
        [[1.0, 3.0]]
        """
        points = as_points(X, self.schema, "Points of a factor graph").astype(np.intp)
        v = self.variable(variable)
        total = np.zeros((len(points), self.cardinalities[v]))
        for logs, others in self._sites[v]:
            total += logs[tuple(points[:, u] for u in others)]
        return total

    @cached_property
    def _sites(self) -> list[list[tuple[Any, tuple[int, ...]]]]:
        """For every variable the logs of its factors, its axis last, and the other axes."""
        sites: list[list[tuple[Any, tuple[int, ...]]]] = [[] for _ in self.cardinalities]
        with np.errstate(divide="ignore"):
            for factor in self.factors:
                logs = np.log(factor.table)
                for axis, v in enumerate(factor.scope):
                    others = factor.scope[:axis] + factor.scope[axis + 1 :]
                    sites[v].append((np.moveaxis(logs, axis, -1), others))
        return sites

    @property
    def is_positive(self) -> bool:
        """Whether no table has a zero, so that every state is possible."""
        return all((factor.table > 0).all() for factor in self.factors)

    def smoothed(self, epsilon: float = 0.01) -> FactorGraph:
        """The model with its zeros raised, so that every state is possible.

        A zero becomes `epsilon` times the largest entry of its table; in a Bayesian network it
        becomes the probability `epsilon`, taken from the others in proportion. Marginals change by
        about as much.

        Parameters
        ----------
        epsilon : float
            Above zero, and below one.

        Returns
        -------
        FactorGraph

        Examples
        --------
        >>> fg = FactorGraph([2], [Factor([0], [0.0, 4.0])])
        >>> fg.smoothed(0.25).factors[0].table.tolist()
        [1.0, 4.0]
        """
        check_real("smoothed", "epsilon", epsilon, 0, 1, "()")
        factors = [
            Factor(f.scope, np.where(f.table == 0, epsilon * f.table.max(initial=0.0), f.table))
            for f in self.factors
        ]
        return FactorGraph(self.cardinalities, factors, self._names, self._states)

    def condition(self, evidence: EvidenceLike) -> FactorGraph:
        """The model given evidence, over the same variables: observed ones become point masses.

        Observed values are plugged into the factors, so that the rest falls apart where
        observations separate it. The partition function of the result is the unnormalised
        probability of the evidence; compiled on the same vtree, models with different evidence
        are compatible.

        Parameters
        ----------
        evidence : mapping, or array of shape (variables,) with NaN for "not observed"
            A mapping goes from variables (numbers or names) to a state (a number or a label), to a
            set of allowed states, or to an array of weights of the states.

        Returns
        -------
        FactorGraph

        Raises
        ------
        EvidenceError
            If there are several rows.

        Examples
        --------
        >>> fg = FactorGraph(
        ...     [2, 2], [Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])], names=["rain", "wet"]
        ... )
        >>> circuit, log_z = fg.condition({"rain": 1}).compile()
        >>> float(np.exp(log_z).round(12)), circuit.marginals()[1].round(6).tolist()
        (7.0, [0.428571, 0.571429])
        """
        read = as_evidence(evidence, self.schema)
        if read.n_rows != 1:
            raise EvidenceError(
                "Evidence on a factor graph is a mapping or one row with an entry per variable, "
                f"{self.n_variables} in all. Got {read.n_rows} rows."
            )
        factors, values = [], {}
        for v in range(self.n_variables):
            weights = read.column(v).weights[0]
            possible = np.flatnonzero(weights)
            if len(possible) == 1 and weights[possible[0]] == 1.0:
                values[v] = int(possible[0])
            if (weights != 1.0).any():
                factors.append(Factor((v,), weights))
        factors = [plugged(factor, values) for factor in self.factors] + factors
        return FactorGraph(self.cardinalities, factors, self._names, self._states)

    def variable(self, key: VariableLike) -> int:
        """The number of a variable given by its number or its name.

        Parameters
        ----------
        key : int or str

        Returns
        -------
        int

        Examples
        --------
        >>> FactorGraph([2, 2], [], names=["rain", "wet"]).variable("wet")
        1
        """
        return self.schema.variable(key)

    def state(self, variable: int, key: object) -> int:
        """The number of a state of a variable, given by its number or its label.

        Parameters
        ----------
        variable : int
        key : int or label

        Returns
        -------
        int

        Examples
        --------
        >>> FactorGraph([2], [], states=[["no", "yes"]]).state(0, "yes")
        1
        """
        return self.schema.state(variable, key)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {self.n_variables} variables: {len(self.factors)} factors>"
        )

    def _repr_html_(self) -> str:
        from expectedkernels.compilation.drawings import model_html

        return model_html(self)
