"""Factor graphs, Bayesian networks and their conditionals."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from itertools import combinations
from math import inf, prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from expectedkernels import arrays, checks, vtrees
from expectedkernels.arrays import Array, Labels, NumbersLike, RngLike, RowsLike
from expectedkernels.checks import CircuitError, check_parameter, check_real, public, public_in
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.queries import Marginals
from expectedkernels.data import tables
from expectedkernels.data.evidence import Evidence, EvidenceLike, as_evidence, as_points, is_batch
from expectedkernels.data.schema import Schema, frame_schema
from expectedkernels.data.tables import Label
from expectedkernels.display import Layout, classical_scaling, depths, layered, overview, pale, svg
from expectedkernels.models import messages
from expectedkernels.models.compiler import CompilationPlan, by_contexts, compiled, make_plan
from expectedkernels.models.messages import MessagePlan, Potential
from expectedkernels.vtree import Vtree
from expectedkernels.vtrees import Elimination, conditioning_vtree, interaction_graph


@public
class Factor:
    """A table of non-negative numbers over some variables.

    Parameters
    ----------
    scope : sequence of int
        The variables, each at most once, in the order of the axes of the table. An empty scope
        makes a constant.
    table : array
        One axis per variable.

    Raises
    ------
    CircuitError
        If a variable is repeated, or the table is not one of finite, non-negative numbers with one
        axis per variable.

    Examples
    --------
    >>> Factor([0, 2], [[1.0, 2.0], [3.0, 4.0]])
    <Factor of variables (0, 2), shape (2, 2)>
    """

    scope: tuple[int, ...]
    table: Array

    def __init__(self, scope: Sequence[int], table: NumbersLike):
        self.scope = tuple(integers(scope, "The scope of a factor"))
        try:
            values = np.array(table, dtype=np.float64)
        except (TypeError, ValueError) as error:
            what = f"The table of a factor must be an array of numbers, for scope {self.scope}"
            raise CircuitError(f"{what}. NumPy says: {error}") from error
        problem = ""
        if len(set(self.scope)) != len(self.scope):
            problem = "names a variable once: take the diagonal of its table. Got one twice"
        elif values.ndim != len(self.scope):
            problem = f"has one axis per variable. Got {values.ndim} axes"
        elif not (np.isfinite(values) & (values >= 0)).all():
            wrong = values[~(np.isfinite(values) & (values >= 0))]
            problem = f"has entries that are finite and not negative. Got {wrong[0]}"
        if problem:
            raise CircuitError(f"A factor {problem} for scope {self.scope}.")
        values.flags.writeable = False
        self.table = values

    def __repr__(self) -> str:
        return f"<Factor of variables {self.scope}, shape {self.table.shape}>"


def integers(numbers: Any, what: str) -> list[int]:
    """A sequence of ints, checked."""
    found: list[Any] = list(numbers) if np.iterable(numbers) else [None]
    for x in found:
        if not isinstance(x, (int, np.integer)) or isinstance(x, bool):
            raise CircuitError(f"{what} must be a sequence of ints. Got {numbers!r} instead.")
    return list(map(int, found))


@public
class FactorGraph:
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
        self.cardinalities = cards = tuple(integers(cardinalities, "The cardinalities"))
        if not cards or min(cards) < 1:
            rule = "A factor graph needs at least one variable, and every variable one state"
            raise CircuitError(f"{rule}. Got the cardinalities {cards}.")
        found: list[Factor] = []
        for factor in factors if isinstance(factors, Iterable) else [factors]:
            is_pair = isinstance(factor, (tuple, list)) and len(factor) == 2
            if not is_pair and not isinstance(factor, Factor):
                rule = "The factors of a factor graph are Factors, or pairs of a scope and a table"
                raise CircuitError(f"{rule}, in a list. Got {type(factor).__name__} instead.")
            found.append(factor if isinstance(factor, Factor) else Factor(*factor))
            scope, shape = found[-1].scope, found[-1].table.shape
            inside = all(0 <= v < len(cards) for v in scope)
            if not inside or shape != tuple([cards[v] for v in scope]):
                wanted = tuple(cards[v] for v in scope) if inside else f"0..{len(cards) - 1}"
                rule = "needs a table of shape" if inside else "has variables other than"
                what = f"Factor {len(found) - 1} with scope {scope} {rule} {wanted}"
                raise CircuitError(f"{what}, by the cardinalities. Got shape {shape}.")
        self.factors = tuple(found)
        labels = None if states is None else tuple(None if s is None else tuple(s) for s in states)
        self.schema = Schema(cards, None if names is None else tuple(names), labels)
        self._names, self._states = self.schema.names, self.schema.states

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return len(self.cardinalities)

    @property
    def names(self) -> list[str] | None:
        """The names of the variables, None if they have none."""
        return None if self._names is None else list(self._names)

    @property
    def states(self) -> list[list[Label] | None] | None:
        """The labels of the states of every variable that has some, None if none has."""
        return None if self._states is None else [None if x is None else [*x] for x in self._states]

    def with_names(
        self, names: Sequence[str] | None = None, states: Sequence[Labels] | None = None
    ) -> Self:
        """The model with other names of its variables, and labels of their states.

        Parameters
        ----------
        names : sequence of str, optional
            One name per variable.
        states : sequence of sequences of labels, optional
            The labels of the states of every variable. Default: as they are.

        Returns
        -------
        FactorGraph, or BayesianNetwork

        Examples
        --------
        >>> FactorGraph([2], []).with_names(["rain"], [["no", "yes"]]).states
        [['no', 'yes']]
        """
        return self._with(self.factors, names, self._states if states is None else states)

    def _with(self, factors: Iterable[Factor], names: Any, states: Any) -> Any:
        """A model of this kind with other factors."""
        return FactorGraph(self.cardinalities, factors, names, states)

    @cached_property
    def potential(self) -> Potential:
        """The product of all factors as logarithms, equal scopes multiplied."""
        return Potential.of(self.cardinalities, [(x.scope, x.table) for x in self.factors])

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
        """The order in which variables are marginalised."""
        return vtrees.best_elimination(self.graph, self.cardinalities)

    @cached_property
    def messages(self) -> MessagePlan:
        """How queries run without a circuit: the stages of variable elimination."""
        return messages.message_plan(self.potential, self._elimination)

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
        >>> from expectedkernels.datasets import ising_grid
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
        max_bytes: int = arrays.DEFAULT_MAX_BYTES,
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
            Models whose tables need more memory than this raise `SizeError`. By contexts, units
            are written out when a query needs them, which takes five times as much, and
            raises then if it does not fit; likelihoods and marginals of few rows need none (see
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

    @cached_property
    def _circuit(self) -> Circuit:
        """The circuit that queries go to."""
        return self.compile()[0]

    def _read(self, evidence: Any) -> tuple[Evidence | None, bool]:
        """The rows of evidence, and whether they go through a circuit."""
        read = None if evidence is None else as_evidence(evidence, self.schema)
        n_rows = 1 if read is None else read.n_rows
        if not messages.needs_circuit(self.messages, n_rows):
            return read, False
        tables: Any = self._circuit.clique_tree
        return read, tables is None or tables.by_units(n_rows)

    def marginals(
        self, evidence: EvidenceLike | None = None, max_bytes: int = arrays.DEFAULT_MAX_BYTES
    ) -> Marginals:
        """The probabilities of the states of every variable, given evidence.

        By variable elimination, for one row after the other; where this takes longer than to
        compile the model, by its circuit. See `Circuit.marginals`.

        Parameters
        ----------
        evidence : mapping, array of one or more rows with NaN, data frame, or list of weights
            As for `Circuit.condition`. Default: none.
        max_bytes : int
            Tables that do not fit are made twice; models whose messages do not fit raise.

        Returns
        -------
        list of arrays
            Indexed by number or name of the variables, as that of `Circuit.marginals`.

        Raises
        ------
        EvidenceError
            If the evidence is impossible.

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> asia().marginals({"smoke": "yes"})["lung"].round(6).tolist()
        [0.1, 0.9]
        """
        read, by_circuit = self._read(evidence)
        if by_circuit:
            return self._circuit.marginals(evidence)
        found = messages.marginals(self.messages, read, max_bytes)
        rows = found if is_batch(evidence) else [array[0] for array in found]
        return Marginals(rows, self.schema)

    def map(self, X: EvidenceLike, as_frame: bool | None = None) -> Array:
        """The rows of X with missing entries set to their most probable joint values.

        By variable elimination, or for many rows by a circuit; see `Circuit.map`.

        Parameters
        ----------
        X : array of one or more rows with NaN, data frame, or mapping
            The evidence: NaN, and names that a mapping does not have, are maximised over.
        as_frame : bool, optional
            Whether to return a data frame of pandas with names and labels, or an array of codes
            in the shape of X. Default: a frame if the states have labels, or if X is a frame.

        Returns
        -------
        array or data frame

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> asia().map({"dysp": "yes"})["bronc"].tolist()
        ['yes']
        """
        read, by_circuit = self._read(X)
        if by_circuit or read is None:
            return self._circuit.map(X, as_frame)
        found = messages.most_probable_rows(self.messages, read)
        return self.schema.labelled(found if is_batch(X) else found[0], X, as_frame)

    def sample(
        self,
        n: int,
        rng: RngLike = None,
        evidence: EvidenceLike | None = None,
        as_frame: bool = False,
    ) -> Array:
        """Independent samples of the normalised model, given evidence.

        By variable elimination, or for many rows by a circuit; see `Circuit.sample`.

        Parameters
        ----------
        n : int
            The number of samples.
        rng : int, Generator or None
            Seed or generator of random numbers; an int makes results reproducible.
        evidence : mapping, array of one or more rows with NaN, or data frame, optional
            Sample from the conditional distributions given this. Default: none.
        as_frame : bool
            Return a data frame of pandas with names and labels.

        Returns
        -------
        array or data frame

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> asia().sample(5, rng=0).shape
        (5, 8)
        """
        checks.check_count("sample", "n", n, error=checks.DataError)
        read, by_circuit = self._read(evidence)
        if by_circuit:
            return self._circuit.sample(n, rng, evidence, as_frame)
        found = messages.sampled_rows(self.messages, read, n, arrays.as_generator(rng))
        if not as_frame:
            return found if is_batch(evidence) else found[0]
        index = [range(size) for size in found.shape[:2]] if is_batch(evidence) else None
        return self.schema.frame(found.reshape(-1, self.n_variables), index)

    def log_likelihood(self, X: EvidenceLike) -> Array:
        """The log-probability of every row of X, NaN entries marginalised, shape (n,).

        The model is compiled and normalised at the first call; `log_score` is the sum of
        logs of factors as they are.

        Parameters
        ----------
        X : array of shape (n, variables), data frame, or list of arrays
            The rows; NaN entries are marginalised. A list holds one (n, cardinality) array of
            weights per variable.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> fg = ek.FactorGraph([2, 2], [ek.Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
        >>> import numpy as np
        >>> np.exp(fg.log_likelihood([[1, 1], [0, np.nan]])).round(12).tolist()
        [0.4, 0.3]
        """
        return self._circuit.log_likelihood(X)

    def log_partition(
        self, evidence: EvidenceLike | None = None, max_bytes: int = arrays.DEFAULT_MAX_BYTES
    ) -> float | Array:
        """The log of the sum over all states, or over those that evidence allows.

        By variable elimination, without a circuit.

        Parameters
        ----------
        evidence, max_bytes : see `marginals`

        Returns
        -------
        float, or array of shape (n,) for n rows of evidence
            -inf given impossible evidence.

        Raises
        ------
        PropertyError
            If the factors multiply to zero everywhere.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> fg = ek.FactorGraph([2, 2], [ek.Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])])
        >>> round(fg.log_partition(), 6), round(fg.log_partition({0: 1}), 6)
        (2.302585, 1.94591)
        """
        read = None if evidence is None else as_evidence(evidence, self.schema)
        messages.require_tables(self.messages, self.messages.passing_bytes, max_bytes)
        found = messages.log_partitions(self.messages, read)
        if -np.inf in found:
            messages.refuse_zero(self.messages)
        return found if is_batch(evidence) else float(found[0])

    def log_score(self, X: RowsLike) -> Array:
        """The log of the product of all factors at complete points, shape (n,), unnormalised.

        Parameters
        ----------
        X : array of shape (n, variables)
            Complete points.

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
            The number or the name of the variable.

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
        return self._logs_at(points, self.variable(variable))

    def _logs_at(self, points: Any, v: int) -> Any:
        """What `site_logs` gives for points that have been read."""
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

    def smoothed(self, epsilon: float = 0.01) -> Self:
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
        FactorGraph, or BayesianNetwork

        Examples
        --------
        >>> fg = FactorGraph([2], [Factor([0], [0.0, 4.0])])
        >>> fg.smoothed(0.25).factors[0].table.tolist()
        [1.0, 4.0]
        >>> coin = BayesianNetwork([[]], [[0.0, 1.0]])
        >>> coin.smoothed(0.01).cpts[0].tolist()
        [0.01, 0.99]
        """
        check_real("smoothed", "epsilon", epsilon, 0, 1, "()")
        factors = [Factor(f.scope, self._replace_zeros(f, epsilon)) for f in self.factors]
        return self._with(factors, self._names, self._states)

    def _replace_zeros(self, factor: Factor, epsilon: float) -> Any:
        """The table of a factor without zeros."""
        table = factor.table
        return np.where(table == 0, epsilon * table.max(initial=0.0), table)

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
        if (n := read.n_rows) != 1:
            rule = "Evidence on a factor graph is a mapping or one row with an entry per variable"
            raise checks.EvidenceError(f"{rule}, {self.n_variables} in all. Got {n} rows.")
        factors, values = [], {}
        for v in range(self.n_variables):
            weights = read.column(v).weights[0]
            possible = np.flatnonzero(weights)
            if len(possible) == 1 and weights[possible[0]] == 1.0:
                values[v] = int(possible[0])
            if (weights != 1.0).any():
                factors.append(Factor((v,), weights))
        plugged = []
        for factor in self.factors:
            if any(v in values for v in factor.scope):
                index = tuple(values.get(v, slice(None)) for v in factor.scope)
                scope = [v for v in factor.scope if v not in values]
                factor = Factor(scope, factor.table[index])
            plugged.append(factor)
        return FactorGraph(self.cardinalities, plugged + factors, self._names, self._states)

    def variable(self, key: arrays.VariableLike) -> int:
        """The number of a variable given by its number or its name.

        Parameters
        ----------
        key : int or str
            The number or the name.

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
            The number of the variable.
        key : int or label
            The number or the label of the state.

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
        name, n = type(self).__name__, len(self.factors)
        return f"<{name} of {self.n_variables} variables: {n} factors>"

    def _repr_html_(self) -> str:
        return model_html(self)


MASK = "missing "
"""How the name of a mask begins."""
ByVariable = Mapping[str, object] | Mapping[int, object]
ROUNDING = 0.01
"""How far the sum of a distribution may be from one: tables in files have few decimals."""


@public
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
        cpts: arrays.TablesLike,
        names: Sequence[str] | None = None,
        states: Sequence[Labels] | None = None,
    ):
        if len(parents) != len(cpts):
            rule = "A Bayesian network has one list of parents and one table per variable"
            raise CircuitError(f"{rule}. Got {len(parents)} and {len(cpts)}.")
        pairs = enumerate(zip(parents, cpts, strict=True))
        factors = [Factor((*above, v), table) for v, (above, table) in pairs]
        super().__init__([f.table.shape[-1] for f in factors], factors, names, states)
        self.parents = tuple(factor.scope[:-1] for factor in factors)
        for v, table in enumerate(self.cpts):
            worst = float(np.abs(table.sum(axis=-1) - 1.0).max())
            if worst > ROUNDING:
                rule = f"The probabilities of {self.schema.call(v)} must sum to one for all parents"
                raise CircuitError(f"{rule}. Got a sum that is off by {worst:.3g}.")
        try:
            TopologicalSorter(dict(enumerate(self.parents))).prepare()
        except CycleError as error:
            found = f"{self.schema.call(min(error.args[1]))} is an ancestor of itself"
            raise CircuitError(f"The arcs of a Bayesian network form no cycle: {found}.") from error

    @property
    def cpts(self) -> tuple[Array, ...]:
        """The conditional probability tables: axes of the parents, then of the variable."""
        return tuple(factor.table for factor in self.factors)

    def _with(self, factors: Iterable[Factor], names: Any, states: Any) -> Any:
        return BayesianNetwork(self.parents, [f.table for f in factors], names, states)

    def _replace_zeros(self, factor: Factor, epsilon: float) -> Any:
        zero = factor.table == 0
        left = 1.0 - epsilon * zero.sum(axis=-1, keepdims=True)
        if (left <= 0).any():
            what = f"nothing for the possible states of {self.schema.call(factor.scope[-1])}"
            raise CircuitError(f"An 'epsilon' of {epsilon} leaves {what}. Give a smaller one.")
        return np.where(zero, epsilon, left * factor.table)

    @classmethod
    def from_arcs(cls, arcs: Iterable[Sequence[str | int]], X: RowsLike) -> BayesianNetwork:
        """The network of some arcs, with variables and states from rows, and equal tables.

        `learn_tables` fits the tables to the rows.

        Parameters
        ----------
        arcs : iterable of pairs
            From a parent to its child, by names or numbers of columns.
        X : data frame, or array of shape (rows, variables)
            Every column is a variable, also those without arcs. Labels of a frame are states, in
            sorted order or that of the categories; numbers of an array are codes from 0 on. For a
            hidden variable, add a categorical column without values and with its states as
            categories.

        Returns
        -------
        BayesianNetwork

        Raises
        ------
        CircuitError
            If the arcs form a cycle.
        DataError
            If a column does not show the states: it has no values, or real numbers.

        Examples
        --------
        >>> import pandas as pd
        >>> X = pd.DataFrame({"smoke": ["no", "yes", None], "lung": ["well", None, "ill"]})
        >>> network = BayesianNetwork.from_arcs([("smoke", "lung")], X)
        >>> network.parents, network.states[1], network.cpts[1].tolist()
        (((), (0,)), ['ill', 'well'], [[0.5, 0.5], [0.5, 0.5]])
        """
        table: Any = tables.as_table(X)
        if tables.is_frame(table):
            schema = frame_schema(tables.frame_columns(table), tables.column_names(table))
        else:
            rows = np.atleast_1d(tables.as_floats(table))
            as_evidence(rows, [None] * rows.shape[-1], single=False)
            most = np.fmax.reduce(rows, axis=0, initial=np.nan).tolist()
            schema = Schema(tuple(max(2, int(x) + 1) if x < inf else None for x in most))
            as_evidence(rows, schema)  # raises where numbers are no codes
        cards: Any = schema.cardinalities
        if None in cards:
            rule = f"The states of {schema.call(cards.index(None))} are not known"
            why = "its column has no values, or numbers that are no states"
            raise checks.DataError(f"{rule}: {why}. Bin them, or give a categorical column.")
        parents: list[list[int]] = [[] for _ in cards]
        for arc in arcs if np.iterable(arcs) else [arcs]:
            own, wanted = schema.variables(arc), "pairs of a parent and its child, another variable"
            check_parameter(
                len(own) == len({*own}) == 2, "from_arcs", "arcs", arc, wanted, CircuitError
            )
            parents[own[1]] += [] if own[0] in parents[own[1]] else own[:1]
        shapes = [[cards[u] for u in (*own, v)] for v, own in enumerate(parents)]
        needed = 8.0 * sum(map(prod, shapes))
        arrays.require_memory(needed, "A network of these arcs", "Give fewer parents or states.")
        cpts = [np.full(shape, 1.0 / shape[-1]) for shape in shapes]
        return cls(parents, cpts, schema.names, schema.states)

    def do(self, actions: ByVariable, *, natural: bool = False) -> BayesianNetwork:
        """The network after interventions: some variables are set from outside.

        Evidence on the result is what is seen after the action ("do, then see"). The network
        is taken as it is, hidden variables and all; effects are right where it is.

        Parameters
        ----------
        actions : mapping
            From variables (names or numbers) to a state, to an array of probabilities of its states
            (a stochastic action), or to a table in the shape of the old one (a policy). A state or
            probabilities remove the arcs from the parents.
        natural : bool
            Whether variables keep the value that they would have by themselves, and only their
            children get the state that is set (a single-world intervention). Evidence on a
            variable then chooses those who would have that value anyway: the effect on the treated.

        Returns
        -------
        BayesianNetwork
            Over the same variables, compatible with this network and with its other interventions
            (on `vtree`, or `vtree_for_pairs`).

        Raises
        ------
        CircuitError
            If an action is none of these, or, with `natural`, no state.

        References
        ----------
        Pearl (2009), Causality; Richardson and Robins (2013), Single world intervention graphs.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> network = ek.asia()
        >>> network.marginals({"lung": "yes"})["dysp"].round(4).tolist()  # seen
        [0.8145, 0.1855]
        >>> network.do({"lung": "yes"}).marginals()["dysp"].round(4).tolist()  # set
        [0.79, 0.21]
        >>> network.do({"smoke": "no"}, natural=True).marginals({"smoke": "yes"})["lung"].round(4)
        array([0.01, 0.99])
        """
        parents, cpts = list(self.parents), list(self.cpts)
        for v, value in self._by_variable("do", "actions", actions):
            given = np.asarray(value, dtype=object)  # may be ragged
            n, old, is_state = self.cardinalities[v], cpts[v].shape, given.ndim == 0
            table = np.eye(n)[self.state(v, value)] if is_state else given
            if natural and not is_state:
                what = f"Got a distribution for {self.schema.name(v)!r}"
                raise CircuitError(f"A single-world network sets variables to states. {what}.")
            if table.shape not in ((n,), old):
                rule = f"An action on {self.schema.call(v)} is a state, {n} probabilities or a"
                raise CircuitError(
                    f"{rule} table of shape {old}. Got an array of shape {given.shape}."
                )
            if not natural:
                cpts[v], parents[v] = table, parents[v] if table.shape == old else ()
            for child in [u for u, above in enumerate(parents) if natural and v in above]:
                cpts[child] = np.tensordot(table, cpts[child], (0, parents[child].index(v)))
                parents[child] = tuple(u for u in parents[child] if u != v)
        made = BayesianNetwork(parents, cpts, self._names, self._states)
        vars(made).update(graph=self.graph, _elimination=self._elimination)  # so the same vtrees
        return made

    def with_masks(self, causes: ByVariable) -> BayesianNetwork:
        """The network with variables that say whether others are missing (an m-graph).

        With the columns that `mask_columns` adds, `learn_tables` finds the most likely tables where
        values are missing for the reasons given here. Whether these are identified is for the user
        to know: random restarts that end with other tables and the same likelihood show that they
        are not.

        Parameters
        ----------
        causes : mapping
            From variables to those on which it depends whether they are missing. Masks get the
            names "missing x", the states "observed" and "missing", and equal tables. Call it
            again for masks that depend on masks.

        Returns
        -------
        BayesianNetwork
            With the masks behind the other variables.

        Warns
        -----
        UserWarning
            If a variable is a cause of its own mask, which is in general not identified.

        References
        ----------
        Mohan and Pearl (2021), Graphical models for processing missing data.

        Examples
        --------
        >>> network = BayesianNetwork([[], [0]], [[0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]], ["x", "y"])
        >>> network.with_masks({"x": "y"}).names
        ['x', 'y', 'missing x']
        """
        names = self.names or [str(v) for v in range(self.n_variables)]
        states: list[Any] = list(self._states or [None] * self.n_variables)
        parents, cpts = list(self.parents), list(self.cpts)
        for v, own in self._by_variable("with_masks", "causes", causes):
            above = tuple(dict.fromkeys(self.schema.variables(own)))
            if v in above:
                what = f"Whether {names[v]!r} is missing depends on itself, which is in general not"
                advice = "compare the tables from several random starts of learn_tables"
                warnings.warn(f"{what} identified: {advice}.", stacklevel=2)
            names, states = [*names, f"{MASK}{names[v]}"], [*states, ("observed", "missing")]
            parents.append(above)
            cpts.append(np.full([*(self.cardinalities[u] for u in above), 2], 0.5))
        return BayesianNetwork(parents, cpts, names, states)

    def _by_variable(self, function: str, parameter: str, given: Any) -> list[tuple[int, Any]]:
        """The variables of a mapping and what it has for them."""
        pairs = given.items() if hasattr(given, "items") else [(0, None)] * 2
        found = [(self.variable(key), value) for key, value in pairs]
        wanted, good = "a mapping from variables, each once", len(dict(found)) == len(found)
        check_parameter(good, function, parameter, given, wanted, CircuitError)
        return found

    @property
    def _masks(self) -> dict[int, int]:
        """The variable of every mask."""
        number = {f"{MASK}{name}": v for v, name in enumerate(self._names or ())}
        masks = {v: number[name] for v, name in enumerate(self._names or ()) if name in number}
        arcs = ((u, v) for v, above in enumerate(self.parents) for u in above if v not in masks)
        for mask, v in ((u, v) for u, v in arcs if u in masks):
            one, other = self.schema.name(masks[mask]), self.schema.name(v)
            rule = f"The mask of {one!r} may not be a cause of {other!r}"
            raise CircuitError(f"{rule}: variables do not depend on what is recorded of others.")
        return masks

    def mask_columns(self, X: RowsLike) -> Array:
        """The rows of X with a column for every mask of the network: which values are missing.

        Parameters
        ----------
        X : array of shape (rows, variables), or data frame
            Of the variables that are no masks, NaN (or None) for missing values.

        Returns
        -------
        array, or data frame if X is one

        Raises
        ------
        DataError
            If X holds weights of states.

        Examples
        --------
        >>> network = BayesianNetwork([[], [0]], [[0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]], ["x", "y"])
        >>> network.with_masks({"x": "y"}).mask_columns([[0, 1], [np.nan, 1]]).tolist()
        [[0.0, 1.0, 0.0], [nan, 1.0, 1.0]]
        """
        masks = self._masks
        kept = [v for v in range(self.n_variables) if v not in masks]
        values = as_evidence(X, self.schema.subset(kept), single=False).values
        if values is None:
            raise checks.DataError("Masks are of rows with missing values. Got weights of states.")
        rows = np.empty((len(values), self.n_variables))
        rows[:, kept] = values
        for mask, v in masks.items():
            rows[:, mask] = np.isnan(rows[:, v])
        return self.schema.labelled(rows, X, tables.is_frame(X))

    def without_masks(self) -> BayesianNetwork:
        """The network without the masks that `with_masks` added.

        Returns
        -------
        BayesianNetwork

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.asia().with_masks({"xray": ["dysp"]}).without_masks().names == ek.asia().names
        True
        """
        masks = self._masks
        return self._restricted([v for v in range(self.n_variables) if v not in masks])

    def _restricted(self, kept: Sequence[int]) -> BayesianNetwork:
        """The network of some variables, all parents of which are among them."""
        number, schema = {v: i for i, v in enumerate(kept)}, self.schema.subset(kept)
        parents = [[number[u] for u in self.parents[v]] for v in kept]
        return BayesianNetwork(parents, [self.cpts[v] for v in kept], schema.names, schema.states)


def forward_samples(network: BayesianNetwork, n: int, rng: Any, fixed: Mapping[int, int]) -> Array:
    """Samples of a network from its roots down, with some variables held at their values.

    It needs no circuit. With variables held, samples are not those of the conditional distribution.

    Examples
    --------
    >>> rain = BayesianNetwork([[], [0]], [[0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]]])
    >>> forward_samples(rain, 2, np.random.default_rng(0), {}).tolist()
    [[1, 1], [1, 1]]
    """
    rows = np.zeros((n, network.n_variables), dtype=np.intp)
    sorter = TopologicalSorter(dict(enumerate(network.parents)))
    sorter.prepare()
    while ready := sorter.get_ready():
        sorter.done(*ready)
        for v in sorted(ready):
            if v in fixed:
                rows[:, v] = fixed[v]
                continue
            table = network.cpts[v][tuple(rows[:, u] for u in network.parents[v])]
            table = np.broadcast_to(table, (n, network.cardinalities[v]))
            rows[:, v] = arrays.inverse_cdf(arrays.cumulative(table), rng.random(n))
    return rows


@public_in("models")
class CollapsedModel:
    r"""The conditionals p(x_c | x_s) of a model for one set c of collapsed variables.

    A factor with a single collapsed variable only re-weights the states of that variable once the
    sampled ones are known, and a factor with none is a constant:

    .. math:: p(x_c, x_s) \propto a(x_s)\, G(x_c, x_s) \prod_{j \in c} u_j(x_j; x_s)

    where G multiplies the factors with two or more collapsed variables. Its circuit is compiled
    once, for all values of the sampled variables; rows of values become rows of evidence
    on it, so that any number of conditionals costs one batched sweep.

    Parameters
    ----------
    model : FactorGraph
        The model, normalised or not.
    collapsed : int, str, or iterable of int or str
        The variables (numbers or names) to sum over; the others are sampled.
    vtree : Vtree, optional
        Over all variables. Default: see `shared`.
    shared : bool
        Whether the default vtree is that of the model, so that circuits with different collapsed
        sets are compatible. Otherwise it is made for this set alone, which allows larger sets.
    max_bytes : int
        Models that need more memory than about this raise `SizeError`.

    Attributes
    ----------
    model : FactorGraph
        The model, normalised or not.
    collapsed, sampled : tuple of int
    relevant : tuple of int
        The sampled variables that share a factor with a collapsed one. The conditional depends on
        no other.
    circuit : Circuit
        The circuit of G over all variables, normalised.
    log_z : float
        The log of its partition function.

    Raises
    ------
    CircuitError
        If the model is not a FactorGraph.

    Notes
    -----
    In pairwise models G holds collapsed variables only. A sampled variable that shares a factor
    with two or more collapsed ones takes part in the compilation; where this is too expensive,
    `FactorGraph.condition` plugs in values first and is compiled once for each of them.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> from expectedkernels.datasets import ising_grid
    >>> grid = ising_grid(3, 3, rng=0)
    >>> model = CollapsedModel(grid, [1, 4, 7])
    >>> X = np.zeros((2, 9))
    >>> X[1, 0] = 1.0
    >>> weights, log_constants = model.evidence(X)
    >>> gram = ek.expected_kernel(
    ...     model.circuit, model.circuit, ek.ExpHamming(), evidence_p=weights, evidence_q=weights
    ... )
    >>> gram.shape
    (2, 2)
    """

    def __init__(
        self,
        model: FactorGraph,
        collapsed: int | str | Iterable[int | str],
        vtree: Vtree | None = None,
        *,
        shared: bool = True,
        max_bytes: int = arrays.DEFAULT_MAX_BYTES,
    ):
        good = isinstance(model, FactorGraph)
        check_parameter(good, "CollapsedModel", "model", model, "a FactorGraph", CircuitError)
        if isinstance(collapsed, str) or not isinstance(collapsed, Iterable):
            collapsed = [collapsed]  # a name is one variable, and not its letters
        chosen = {model.variable(key) for key in collapsed}
        self.model = model
        self.collapsed = tuple(sorted(chosen))
        self.sampled = tuple(v for v in range(model.n_variables) if v not in chosen)
        parts: list[list[Factor]] = [[], [], []]  # by how many variables are collapsed: 0, 1, more
        for factor in model.factors:
            parts[min(2, len(chosen.intersection(factor.scope)))].append(factor)
        self._constant, self._loose, core = (FactorGraph(model.cardinalities, x) for x in parts)
        touched = {v for factor in parts[1] + parts[2] for v in factor.scope}
        self.relevant = tuple(v for v in self.sampled if v in touched)
        self.circuit: Circuit
        self.log_z: float
        if vtree is None and shared:
            vtree = model.vtree
        self.circuit, self.log_z = core.compile(vtree, max_bytes=max_bytes)

    def evidence(self, X: RowsLike) -> tuple[list[Array], Array]:
        """Rows of evidence on the circuit that make it the conditionals, and log-constants.

        Parameters
        ----------
        X : array of shape (n, variables)
            Values of the sampled variables; the columns of collapsed ones are not looked at, and
            may be NaN.

        Returns
        -------
        weights : list of arrays of shape (n, cardinality), one per variable
            As `expected_kernel` and `Circuit.marginals` take them.
        log_constants : array of shape (n,)
            What the weights leave out: the model at (x_c, x_s) is the circuit times
            the weights times ``exp(log_z + log_constants)``.

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> model = CollapsedModel(asia(), ["either", "lung"])
        >>> weights, log_constants = model.evidence(np.ones((3, 8)))
        >>> [table.shape for table in weights] == [(3, 2)] * 8
        True
        """
        rows = np.array(X, dtype=np.float64, ndmin=2)
        if rows.ndim == 2 and rows.shape[1] == self.model.n_variables:
            rows[:, list(self.collapsed)] = 0.0
        points = as_points(rows, self.model.cardinalities, "Values of sampled variables")
        points = points.astype(np.intp)
        constants = self._constant.log_score(points)
        logs = {v: self._loose._logs_at(points, v) for v in self.collapsed}
        weights: list[Any] = [None] * self.model.n_variables
        for v in self.sampled:
            weights[v] = np.eye(self.model.cardinalities[v])[points[:, v]]
        for v, table in logs.items():
            top = table.max(axis=1)
            constants += top
            weights[v] = np.exp(table - np.where(top > -np.inf, top, 0.0)[:, None])
        # also where no collapsed variable has a say, there is no conditional given the impossible
        for table in weights:
            table[constants == -np.inf] = 0.0
        return weights, constants

    def log_marginal(self, X: RowsLike) -> Array:
        """The log of the model summed over its collapsed variables, shape (n,), unnormalised.

        Parameters
        ----------
        X : array of shape (n, variables)
            As for `evidence`.

        Returns
        -------
        array of shape (n,)

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> x = np.full((1, 8), np.nan)
        >>> x[0, 2] = 0  # a smoker
        >>> model = CollapsedModel(asia(), [0, 1, 3, 4, 5, 6, 7])
        >>> np.exp(model.log_marginal(x)).round(12).tolist()
        [0.5]
        """
        weights, constants = self.evidence(X)
        with np.errstate(invalid="ignore"):
            return self.circuit.log_likelihood(weights) + self.log_z + constants

    def marginals(self, X: RowsLike) -> list[Array]:
        """The probabilities of the states of every variable given each row of sampled values.

        Parameters
        ----------
        X : array of shape (n, variables)
            As for `evidence`.

        Returns
        -------
        list of arrays of shape (n, cardinality), one per variable
            Sampled variables have their value for sure.

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> model = CollapsedModel(asia(), ["lung", "either"])
        >>> model.marginals(np.ones((1, 8)))[3].shape
        (1, 2)
        """
        weights, _ = self.evidence(X)
        return self.circuit.marginals(weights)

    def conditional(self, x: ArrayLike) -> Circuit:
        """The normalised circuit of the conditional given one row of sampled values.

        Sampled variables become point masses, so it is compatible with all other conditionals.

        Parameters
        ----------
        x : array of shape (variables,)
            As a row of X in `evidence`.

        Returns
        -------
        Circuit

        Raises
        ------
        DataError
            If there are several rows.

        Examples
        --------
        >>> from expectedkernels.datasets import asia
        >>> model = CollapsedModel(asia(), ["lung", "either"])
        >>> model.conditional(np.ones(8)).marginals()[0].tolist()
        [0.0, 1.0]
        """
        row = np.asarray(x, dtype=np.float64)
        if row.ndim != 1:
            what = f"Got an array of shape {row.shape}; batches are made by evidence(X)"
            raise checks.DataError(f"One conditional needs one row of values. {what}.")
        weights, _ = self.evidence(row)
        return self.circuit.condition(weights)

    def __repr__(self) -> str:
        n, total = len(self.collapsed), self.model.n_variables
        return f"<CollapsedModel: {n} of {total} variables collapsed, {self.circuit.n_units} units>"


READERS = {
    **dict.fromkeys(("pyagrum.BayesNet", "pyagrum.MarkovRandomField"), "from_pyagrum"),
    **dict.fromkeys(("pgmpy.DiscreteBayesianNetwork", "pgmpy.BayesianNetwork"), "from_pgmpy"),
    **dict.fromkeys(("pgmpy.DiscreteMarkovNetwork", "pgmpy.MarkovNetwork"), "from_pgmpy"),
    **dict.fromkeys(("cirkit.TorchCircuit", "cirkit.Circuit"), "from_cirkit"),
    "sklearn.GaussianMixture": "from_gaussian_mixture",
    "spflow.Module": "from_spflow",
}
"""What reads the classes of other libraries, by package in lower case and name."""


def converted(obj: Any) -> Any:
    """A model of another library as one of ours; everything else as it is."""
    for base in type(obj).__mro__:
        reader = READERS.get(f"{base.__module__.split('.')[0].lower()}.{base.__name__}")
        if reader is not None:
            return getattr(import_module("expectedkernels.models.interop"), reader)(obj)
    return obj


DARK = "#444444"
FEW = 40
"""Of so many variables, notebooks show a drawing."""


def model_layout(model: FactorGraph) -> Layout:
    """The variables of a model: networks from the roots down, other graphs by their distances.

    Factors of two variables are edges, those of more are squares.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> model_layout(ek.BayesianNetwork([[], [0]], [[0.5, 0.5], [[1, 0], [0, 1]]])).y.tolist()
    [0.0, -1.0]
    """
    n = model.n_variables
    labels = list(model.names or map(str, range(n)))
    squares = 0
    if isinstance(model, BayesianNetwork):
        edges = [(parent, v) for v, above in enumerate(model.parents) for parent in above]
        depth = depths(n, edges)
        x, y = layered(depth, edges)
        fills = [pale(d) for d in depth.tolist()]
    else:
        scopes = {tuple(sorted(factor.scope)) for factor in model.factors}
        pairs = sorted(scope for scope in scopes if len(scope) == 2)
        large = sorted(scope for scope in scopes if len(scope) > 2)
        near = {pair for scope in large for pair in combinations(scope, 2)} | set(pairs)
        x, y = classical_scaling(n, sorted(near))
        edges = [*pairs, *((n + i, v) for i, scope in enumerate(large) for v in scope)]
        centres = [[float(z[list(scope)].mean()) for scope in large] for z in (x, y)]
        x, y = (np.concatenate([z, centre]) for z, centre in zip((x, y), centres, strict=True))
        squares = len(large)
        labels += [""] * squares
        fills = [pale(5)] * n + [DARK] * squares
    lines = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    options: Any = {"arrows": isinstance(model, BayesianNetwork), "title": repr(model)}
    options["squares"] = frozenset(range(n, n + squares))
    return Layout(x, y, labels, fills, lines, np.full(len(edges), 0.3), **options)


def model_html(model: FactorGraph) -> str:
    """What notebooks show of a model: its size, and its variables if they are few.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> "<svg" in model_html(ek.asia()), "<svg" in model_html(ek.ising_grid(20, 20, rng=0))
    (True, False)
    """
    cards = sorted(set(model.cardinalities))
    found = {
        "variables": model.n_variables,
        "states": f"{cards[0]} to {cards[-1]}" if len(cards) > 1 else cards[0],
        "factors": len(model.factors),
        "largest factor": f"{max((len(f.scope) for f in model.factors), default=0)} variables",
    }
    few = model.n_variables <= FEW
    return overview(type(model).__name__, found, svg(model_layout(model), 48.0) if few else "")
