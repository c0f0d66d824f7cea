"""Circuits, and their alignment by names and vtrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from expectedkernels.arrays import Array, RngLike, RowsLike, VariableLike
from expectedkernels.checks import CircuitError, DataError, check_choice, public
from expectedkernels.circuits import queries, sample_map
from expectedkernels.circuits.block_circuit import BlockCircuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.circuits.queries import Marginals
from expectedkernels.circuits.structure import circuit_blocks
from expectedkernels.data.evidence import EvidenceLike
from expectedkernels.data.schema import Matching, Schema, match
from expectedkernels.vtree import Vtree


@public
class Circuit(BlockCircuit):
    """A smooth, structured-decomposable circuit: one block of units per vtree node.

    Circuits are values: every operation returns a new one. Build them with `from_units`, with
    the builders (`factorized`, `mixture`, `hmm`, ...), from files, or learn them from data.
    Variables are numbered from 0; the states of a discrete one are 0, 1, ..., and NaN stands for
    a value that is not observed. All answers are right for thousands of variables: values are
    kept in range by log-scales.

    Attributes
    ----------
    vtree : Vtree
        How the circuit splits its variables.
    blocks : tuple
        For every vtree node the block of its units. The units of the last block are the roots.
    names : tuple of str, or None
        The names of the variables; questions take them in the place of numbers.
    states : tuple of tuples of labels, or None
        The labels of the states of every variable; questions take them in the place of codes.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]])
    >>> p
    <Circuit of 2 variables: 3 units, 2 edges>
    """

    @classmethod
    def from_units(cls, root: Unit, vtree: Vtree | None = None, smooth: bool = False) -> Circuit:
        """The block form of a circuit written by hand as a graph of units.

        Finds the vtree, binarises wide products, merges sums of sums, folds sums of one
        variable into tables, and minimises.

        Parameters
        ----------
        root : Sum, Product, Categorical, Indicator or Gaussian
        vtree : Vtree, optional
            The vtree to follow. Default: the one the products imply.
        smooth : bool
            Multiply inputs of sums that miss variables with the constant one over these.

        Returns
        -------
        Circuit

        Raises
        ------
        PropertyError
            If the graph is not smooth, decomposable and structured-decomposable.
        CircuitError
            If weights of sums within sums multiply to numbers that are no doubles.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> a = ek.Product([ek.Categorical(0, [0.2, 0.8]), ek.Indicator(1, 0, 2)])
        >>> b = ek.Product([ek.Categorical(0, [0.6, 0.4]), ek.Indicator(1, 1, 2)])
        >>> p = ek.Circuit.from_units(ek.Sum([a, b], [0.3, 0.7]))
        >>> round(float(p.log_likelihood([[1, 0]])[0]), 6)
        -1.427116
        """
        return cls.from_blocks(*circuit_blocks(root, vtree=vtree, smooth=smooth))

    def written_out(self) -> Circuit:
        """The circuit with its units only, which answer whatever is asked.

        The circuit of a graphical model has tables of conditional probabilities, too. These answer
        likelihoods and marginals where rows are few for the size of the tables, so that single
        questions need no units. Small tables answer one row after the other as fast as units do;
        who puts a hundred single questions to large ones may be served faster by units. Other
        circuits are returned themselves.

        Returns
        -------
        Circuit

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.FactorGraph([2, 2], [ek.Factor([0, 1], [[1.0, 2.0], [3.0, 4.0]])]).circuit()
        >>> p.written_out().marginals()[0].round(12).tolist()
        [0.3, 0.7]
        """
        if self.shortcuts is None:
            return self
        return type(self)(self.vtree, self.blocks, self.names, self.states)

    def log_likelihood(self, X: EvidenceLike) -> Array:
        """The log of the circuit's value at every row of X, shape (n,).

        Parameters
        ----------
        X : array of shape (n, variables), data frame, or list of arrays
            NaN entries are marginalised out. The columns of a frame are found by the names of the
            variables, in any order, and may hold labels. A list of one (n, cardinality) array per
            variable gives weights of the states: sets of allowed values, or soft evidence.

        Returns
        -------
        array of shape (n,), or (n, roots) if the circuit has several roots

        Examples
        --------
        >>> import expectedkernels as ek
        >>> import numpy as np
        >>> p = ek.factorized([[0.25, 0.75], [0.5, 0.5]])
        >>> np.exp(p.log_likelihood([[1, 0], [1, np.nan]])).round(12).tolist()
        [0.375, 0.75]
        """
        return queries.log_likelihood(self, X)

    def site_logs(self, X: RowsLike, variable: int | str) -> Array:
        """The log of the circuit at points with one variable set to each of its states in turn.

        Parameters
        ----------
        X : array of shape (n, variables)
            Complete points; their own values of the variable do not matter. NaN elsewhere sums
            out a variable.
        variable : int or str
            A discrete variable.

        Returns
        -------
        array of shape (n, cardinality), or (n, cardinality, roots) if there are several roots

        Examples
        --------
        >>> import numpy as np
        >>> import expectedkernels as ek
        >>> import numpy as np
        >>> p = ek.factorized([[0.25, 0.75], [0.4, 0.6]])
        >>> np.exp(p.site_logs([[0, 1]], 0)).round(12).tolist()
        [[0.15, 0.45]]
        """
        return queries.site_logs(self, X, variable)

    def all_site_logs(
        self, X: RowsLike, variables: Sequence[VariableLike] | None = None
    ) -> list[Array]:
        """What `site_logs` gives for every variable (or some), by one pass up and one down.

        Parameters
        ----------
        X : array of shape (n, variables)
            As for `site_logs`.
        variables : sequence of ints or names, optional
            Discrete variables. Default: all of them.

        Returns
        -------
        list of arrays of shape (n, cardinality), or (n, cardinality, roots)

        Examples
        --------
        >>> import numpy as np
        >>> import expectedkernels as ek
        >>> import numpy as np
        >>> p = ek.factorized([[0.25, 0.75], [0.4, 0.6]])
        >>> [np.exp(logs).round(12).tolist() for logs in p.all_site_logs([[0, 1]])]
        [[[0.15, 0.45]], [[0.1, 0.15]]]
        """
        return queries.all_site_logs(self, X, variables)

    def log_partition(self) -> Array:
        """The log of the sum (or integral) of the circuit over all states; 0 if normalised.

        Returns
        -------
        float, or array of shape (roots,) if there are several

        Examples
        --------
        >>> import expectedkernels as ek
        >>> round(ek.factorized([[1.0, 3.0]], normalized=False).log_partition(), 6)
        1.386294
        """
        return queries.log_partition(self)

    def normalize(self) -> Circuit:
        """The circuit divided by its sum, with every unit summing to one, on the host.

        The arrays of the result are NumPy's, also if those of the circuit are not. Weights that
        are too small for a double beside the others of their sum unit become zero.

        Returns
        -------
        Circuit

        Examples
        --------
        >>> import expectedkernels as ek
        >>> f = ek.factorized([[1.0, 3.0]], normalized=False)
        >>> f.normalize().input(0).table.tolist()
        [[0.25, 0.75]]
        """
        return queries.normalize(self)

    def marginals(self, evidence: EvidenceLike | None = None) -> Marginals:
        """The probabilities of the states of every variable, given evidence.

        Parameters
        ----------
        evidence : mapping, array of one or more rows with NaN, data frame, or list of weights
            As for `condition`. Default: none.

        Returns
        -------
        Marginals
            A list with one array per variable, which is also indexed by names and prints as a
            table. Shape (cardinality,) for one row, (rows, cardinality) for 2-D evidence. For a
            real variable the two entries are its mean and variance. The arrays are NumPy's, also
            if those of the circuit are not, unless gradients by its numbers are asked for.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.mixture([ek.factorized([[1, 0], [1, 0]]), ek.factorized([[0, 1], [0, 1]])])
        >>> p.marginals({0: 1})[1].tolist()
        [0.0, 1.0]
        >>> named = p.with_names(["rain", "wet"], [["no", "yes"]] * 2)
        >>> named.marginals({"rain": "yes"})["wet"].tolist()
        [0.0, 1.0]
        """
        return queries.marginals(self, evidence)

    def condition(self, evidence: EvidenceLike) -> Circuit:
        """The circuit of the conditional distribution given one row of evidence, normalised.

        The arrays of the result are NumPy's, also if those of the circuit are not: move it with
        `to`. Batches of conditionals on a device are rows of evidence for `expected_kernel`.
        Parts of a sum whose share is too small for a double are left out; evidence that is given
        with a query (`log_likelihood`, `marginals`, `expected_kernel`) loses nothing.

        Parameters
        ----------
        evidence : mapping, or array of shape (variables,) with NaN
            A mapping goes from variables (numbers or names) to a value (a code or a label), to a
            set of allowed values, or to an array of weights of the states (soft evidence):
            ``{3: 1, "rain": {"light", "heavy"}, 5: [0.1, 0.9]}``.

        Returns
        -------
        Circuit

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]])
        >>> p.condition({1: {0, 1}}).marginals()[1].round(12).tolist()
        [0.25, 0.75, 0.0]
        """
        return queries.condition(self, evidence)

    def map(self, X: EvidenceLike, as_frame: bool | None = None) -> Array:
        """The rows of X with missing entries (NaN) set to their most probable joint values.

        Needs a deterministic circuit; for others the problem is NP-hard, and this raises. The
        array is NumPy's, also if those of the circuit are not.

        Parameters
        ----------
        X : array of one or more rows with NaN, data frame, or mapping
            What is known, as for `condition`.
        as_frame : bool, optional
            Whether to return a data frame of pandas with names and labels, or an array of codes
            in the shape of X. Default: a frame if the states have labels, or if X is a frame.

        Returns
        -------
        array or data frame

        Examples
        --------
        >>> import expectedkernels as ek
        >>> import numpy as np
        >>> p = ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]])
        >>> p.map([[np.nan, 0.0], [0.0, np.nan]]).tolist()
        [[1.0, 0.0], [0.0, 2.0]]
        >>> rain = ek.factorized([[0.1, 0.9]]).with_names(["rain"], [["no", "yes"]])
        >>> rain.map({}).to_dict("records")
        [{'rain': 'yes'}]
        """
        return self.schema.labelled(sample_map.most_probable(self, X), X, as_frame)

    def sample(
        self,
        n: int,
        rng: RngLike = None,
        evidence: EvidenceLike | None = None,
        as_frame: bool = False,
    ) -> Array:
        """Independent samples, shape (n, variables); (rows, n, variables) for rows of evidence.

        The array is NumPy's, also if those of the circuit are not.

        Parameters
        ----------
        n : int
        rng : int, Generator or None
        evidence : mapping, array of one or more rows with NaN, data frame, or list of weights
            Sample from the conditional distribution(s). Default: none.
        as_frame : bool
            Return a data frame of pandas with names and labels; rows of evidence become the
            first level of its index.

        Returns
        -------
        array or data frame

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.factorized([[0.0, 1.0], [0.1, 0.9]])
        >>> p.sample(3, rng=0).shape
        (3, 2)
        >>> rain = ek.factorized([[0.0, 1.0]]).with_names(["rain"], [["no", "yes"]])
        >>> rain.sample(1, as_frame=True).to_dict("records")
        [{'rain': 'yes'}]
        """
        drawn = sample_map.sample(self, n, rng, evidence)
        if not as_frame:
            return drawn
        index = None
        if drawn.ndim == 3:
            index = [range(size) for size in drawn.shape[:2]]
        return self.schema.frame(drawn.reshape(-1, self.n_variables), index)


def align(p: Circuit, q: Circuit, states: str = "same") -> tuple[Circuit, Circuit]:
    """Two circuits with the variables and states of the second as in the first, by their names.

    Variables are renumbered and states recoded; no number changes. If one of the circuits has no
    names, variables are taken in their order.

    Parameters
    ----------
    p, q : Circuit
    states : "same" or "union"
        What to do if a variable has labels that only one of the circuits knows: refuse, or join
        them (with probability zero in the other circuit).

    Returns
    -------
    tuple of two Circuits

    Raises
    ------
    CompatibilityError
        If the circuits have different variables or states, with what differs.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5]]).with_names(["rain", "wet"])
    >>> q = ek.factorized([[0.1, 0.9], [0.3, 0.7]]).with_names(["wet", "rain"])
    >>> align(p, q)[1].marginals()["rain"].tolist()
    [0.3, 0.7]
    >>> align(p, q)[1].names
    ('rain', 'wet')
    """
    check_choice("align", "states", states, ("same", "union"))
    require_circuits("align", p, q)
    if p is q or p.schema.is_plain or q.schema.is_plain:
        return p, q
    matching = match(p.schema, q.schema, union=states == "union")
    if not any(matching.first_states):
        return p.with_schema(matching.schema), q.matched(matching)
    own = Matching(matching.schema, tuple(range(p.n_variables)), matching.first_states, ())
    return p.matched(own), q.matched(matching)


def require_circuits(function: str, *given: Any) -> None:
    """Raise unless all arguments of a function are circuits; say how other things become one."""
    for circuit in given:
        if isinstance(circuit, Circuit):
            continue
        how = "Circuit.from_units makes one of a graph of units"
        if hasattr(circuit, "compile"):
            how = "a model becomes one by model.circuit()"
        raise CircuitError(
            f"{function} works on Circuits. Got {type(circuit).__name__} instead; {how}."
        )


def in_order(
    circuit: Circuit, columns: Sequence[Any], states: Mapping[int, Sequence[Any]] | None = None
) -> Circuit:
    """The circuit with its variables in the order of the columns of a table, by their names.

    It stays as it is if it has no names, or the columns are only numbered.

    Parameters
    ----------
    circuit : Circuit
    columns : sequence
        The names of the columns, one per variable.
    states : mapping from columns to labels, optional
        In which order the states of some columns are.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5]]).with_names(["rain", "wet"])
    >>> in_order(p, ["wet", "rain"]).names
    ('wet', 'rain')
    """
    schema = circuit.schema
    if schema.is_plain or len(columns) != schema.n_variables:
        return circuit
    numbers = list(range(schema.n_variables))
    if schema.names is not None and list(columns) != numbers:
        names = tuple(map(str, columns))
        only = [sorted({*a} - {*b}) for a, b in ((names, schema.names), (schema.names, names))]
        if any(only):
            raise DataError(
                "A circuit with names is matched with the columns of a table by these. Only the "
                f"table has {only[0]}, only the circuit {only[1]}; rename one of them, or take the "
                "names off to match them by position: Circuit(circuit.vtree, circuit.blocks)."
            )
        numbers = [schema.variable(name) for name in names]
    wanted = schema.subset(numbers)
    labels: list[Any] = [wanted.labels(v) for v in range(schema.n_variables)]
    for v, given in (states or {}).items():
        if labels[v] is not None and len(labels[v]) != len(given):
            raise DataError(
                f"The column {columns[v]!r} has the categories {list(given)[:20]}, and the circuit "
                f"the states {list(labels[v])[:20]}: they must be the same."
            )
        labels[v] = labels[v] and tuple(given)
    cards = [c if x is None else len(x) for c, x in zip(wanted.cardinalities, labels, strict=True)]
    return circuit.matched(match(Schema(tuple(cards), wanted.names, tuple(labels)), schema))


def vtree_for(model: Any, other: Any, vtree: Vtree) -> Vtree:
    """A vtree of another model in the numbers that a model has for variables of the same name."""
    if model.schema.names is None or other.schema.names is None:
        return vtree
    return vtree.renumbered(match(other.schema, model.schema).variables)
