"""Circuits, and their alignment by names and vtrees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from operator import attrgetter, methodcaller
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from array_api_compat import is_torch_array
from scipy import sparse

from expectedkernels import arrays, checks
from expectedkernels.circuits import queries
from expectedkernels.circuits.graph import Unit, circuit_blocks
from expectedkernels.circuits.inputs import Block
from expectedkernels.circuits.queries import Marginals
from expectedkernels.data.evidence import EvidenceLike
from expectedkernels.data.schema import Matching, Schema, match
from expectedkernels.data.tables import Label
from expectedkernels.display import circuit_html
from expectedkernels.engine.blocks import Inner, at_nodes, from_leaves, from_root, inner, tidy
from expectedkernels.engine.joint import Operand
from expectedkernels.engine.layers import Layers, circuit_layers
from expectedkernels.vtree import Vtree

AnyCircuit = TypeVar("AnyCircuit", bound="Circuit")


@checks.public
@dataclass(frozen=True, eq=False, repr=False)
class Circuit:
    """A smooth, structured-decomposable circuit: one block of units per vtree node.

    Circuits are values: every operation returns a new one. Build them with `from_units`, with
    the builders (`factorized`, `mixture`, `hmm`, ...), from files, or learn them from data.
    Variables are numbered from 0; the states of a discrete one are 0, 1, ..., and NaN stands for
    a value that is not observed. All results are right for thousands of variables: values are
    kept in range by log-scales.

    Attributes
    ----------
    vtree : Vtree
        How the circuit splits its variables.
    blocks : tuple
        For every vtree node the block of its units. The units of the last block are the roots.
    names : tuple of str, or None
        The names of the variables; queries take them in the place of numbers.
    states : tuple of tuples of labels, or None
        The labels of the states of every variable; queries take them in the place of codes.
    nonnegative : bool
        Whether it was made so that it has no negative values, whatever its weights are.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]])
    >>> p
    <Circuit of 2 variables: 3 units, 2 edges>
    """

    vtree: Vtree
    blocks: tuple[Block, ...]
    names: tuple[str, ...] | None = None
    states: tuple[tuple[Label, ...] | None, ...] | None = None
    nonnegative: bool = False

    clique_tree: ClassVar[Any] = None
    """What it was made from, if that computes `log_values` and `marginals` faster than blocks.

    Results are None where blocks are to be used. That depends on the query alone, not on earlier
    ones, so that copies of a circuit give bitwise equal results.
    """

    @classmethod
    def from_blocks(cls, vtree: Vtree, blocks: Sequence[Block]) -> Self:
        """Check the blocks, minimise them (merge equal units, drop useless ones), and wrap them."""
        check_blocks(vtree, blocks)
        return cls(vtree, tuple(minimize(vtree, blocks)))

    @classmethod
    def deferred(
        cls, vtree: Vtree, schema: Schema, cut: Callable[[], object], **known: object
    ) -> Self:
        """The circuit with one root, whose blocks `cut` makes at their first use.

        It is on the CPU unless what is `known` says otherwise, and `clique_tree` there may compute
        some queries in their place, before and after.
        """
        circuit = object.__new__(cls)
        named = {field.name: getattr(schema, field.name) for field in fields(schema)}
        vars(circuit).update(
            named | {"is_on_cpu": True, "n_roots": 1} | known, vtree=vtree, _cut=cut
        )
        return circuit

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # only what was not set comes here; if another thread was faster, all take what it made
            own = vars(self)
            if name == "blocks" and "_cut" in own:
                own.setdefault("blocks", own["_cut"]())
                own["_cut"] = lambda: own["blocks"]  # what it held can go
                return own["blocks"]
            raise AttributeError(f"A {type(self).__name__} has no attribute {name!r}.")

    @property
    def n_variables(self) -> int:
        """The number of variables."""
        return self.vtree.n_variables

    @cached_property
    def n_roots(self) -> int:
        """The number of functions the circuit computes at once, one per root unit."""
        return self.blocks[-1].n_units

    def require_single_root(self, why: str) -> None:
        """Raise unless the circuit has one root."""
        if self.n_roots != 1:
            raise checks.CircuitError(
                f"{why} needs a circuit with one root. Got {self.n_roots} roots."
            )

    @cached_property
    def cardinalities(self) -> tuple[int | None, ...]:
        """The number of states of every variable, None for real variables."""
        return tuple(self.input(v).cardinality for v in range(self.n_variables))

    @cached_property
    def schema(self) -> Schema:
        """The cardinalities, names and states of the variables."""
        return Schema(self.cardinalities, self.names, self.states)

    def with_names(
        self, names: Sequence[str] | None = None, states: arrays.StatesLike | None = None
    ) -> Self:
        """The circuit with other names of its variables, and labels of their states.

        Parameters
        ----------
        names : sequence of str, optional
            One name per variable. Default: as they are.
        states : sequence of sequences of labels, or mapping from variables to these, optional
            The labels of the states of every variable, in the order of their codes; None for
            variables without. Default: as they are.

        Returns
        -------
        Circuit

        Examples
        --------
        >>> import expectedkernels as ek
        >>> p = ek.factorized([[0.2, 0.8]]).with_names(["rain"], [["no", "yes"]])
        >>> p.names, p.states
        (('rain',), (('no', 'yes'),))
        """
        named: Any = self.names if names is None else names
        labels: Any = self.states if states is None else states
        if isinstance(states, Mapping):
            labels = list(self.states or [None] * self.n_variables)
            for key, given in states.items():
                labels[Schema(self.cardinalities, named).variable(key)] = given
        return self.with_schema(Schema(self.cardinalities, named, labels))

    def with_schema(self, schema: Schema) -> Self:
        """The circuit with the names and states of a schema."""
        if (schema.names, schema.states) == (self.names, self.states):
            return self
        if self.is_on_cpu and ("blocks" not in vars(self) or self.clique_tree is not None):
            known = {"clique_tree": self.clique_tree}
            return self.deferred(self.vtree, schema, lambda: self.blocks, **known)
        return replace(self, names=schema.names, states=schema.states)

    def matched(self, matching: Matching) -> Self:
        """The circuit with its variables and states as those of another one (see `match`)."""
        if matching.is_identity:
            return self.with_schema(matching.schema)
        number: Any = np.empty(self.n_variables, dtype=np.intp)
        number[list(matching.variables)] = np.arange(self.n_variables)
        vtree, states, schema = self.vtree.renumbered(number), matching.states, matching.schema

        blocks = list(self.blocks)
        for variable, codes in enumerate(states):
            if codes:
                leaf = vtree.leaf(variable)
                blocks[leaf] = blocks[leaf].recoded(codes)
        return replace(self, vtree=vtree, blocks=tuple(blocks)).with_schema(schema)

    def input(self, variable: int) -> Block:
        """The block of input units of a variable."""
        return self._inputs[variable]

    @cached_property
    def _inputs(self) -> list[Block]:
        return [self.blocks[self.vtree.leaf(v)] for v in range(self.n_variables)]

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        units, edges, parameters = np.sum([block.sizes for block in self.blocks], axis=0).tolist()
        return units, edges, parameters

    @property
    def n_units(self) -> int:
        """The number of units: inputs, products and sums (sums of one product not counted)."""
        return self._counts[0]

    @property
    def n_edges(self) -> int:
        """The number of edges, the size ``|p|`` of the circuit."""
        return self._counts[1]

    @property
    def n_parameters(self) -> int:
        """The number of sum weights, table entries, means and variances."""
        return self._counts[2]

    @property
    def xp(self) -> ModuleType:
        """The array-API namespace of the circuit's arrays."""
        return arrays.namespace(self.like)

    @cached_property
    def like(self) -> Any:
        """An array of the type and at the place of all numbers."""
        return self.blocks[0].numbers

    @property
    def operand(self) -> Operand:
        """The circuit as one axis of a joint pass, on the CPU unless gradients are required."""
        if self.is_on_cpu:
            return self._operand
        if self.has_gradients:
            return self._operand.renumbered(self.blocks)
        return self.on_cpu.operand

    @cached_property
    def _operand(self) -> Operand:
        return Operand(self.vtree, self.blocks)

    @cached_property
    def layers(self) -> Layers:
        """The units layer by layer, for forward and backward passes, on the CPU."""
        return circuit_layers(self.vtree, self.blocks, self.operand.bounds)

    @cached_property
    def atom_names(self) -> tuple[Any, Any]:
        """The variable of every atom of the lowest layer, and its number there (its state)."""
        leaf, number, _ = self.layers.atom_numbers
        return self.vtree.variable[self.layers.layers[0].nodes][leaf], number.astype(np.float64)

    @cached_property
    def atom_slices(self) -> list[tuple[int, int, int]]:
        """Every variable, with its first atom and the one behind its last."""
        layer = self.layers.layers[0]
        starts = layer.product_starts.tolist()
        variables = self.vtree.variable[layer.nodes].tolist()
        return list(zip(variables, starts[:-1], starts[1:], strict=True))

    @property
    def has_gradients(self) -> bool:
        """Whether gradients with respect to some array are required."""
        if self.is_on_cpu:
            return False
        return self._of_torch and any(map(attrgetter("requires_grad"), self._arrays))

    @cached_property
    def _of_torch(self) -> bool:
        """Whether all arrays of numbers are tensors of torch."""
        return all(map(is_torch_array, self._arrays))

    @property
    def _arrays(self) -> list[Any]:
        """The arrays of numbers of all blocks; until these are made, one that is like them."""
        return self._made_arrays if "blocks" in vars(self) else [self.like]

    @cached_property
    def _made_arrays(self) -> list[Any]:
        return [x for block in self.blocks for x in block.arrays if x is not None]

    @cached_property
    def is_on_cpu(self) -> bool:
        """Whether all arrays are NumPy's."""
        return all(isinstance(x, np.ndarray) or sparse.issparse(x) for x in self._arrays)

    @property
    def on_cpu(self) -> Self:
        """The circuit on the CPU, kept as long as none of its arrays is written to."""
        if self.is_on_cpu:
            return self
        written = self._n_writes
        kept = vars(self).get("_kept_on_cpu")
        if kept is None or written is None or kept[0] != written:
            kept = vars(self)["_kept_on_cpu"] = (written, self.to("numpy"))
        return kept[1]

    @property
    def is_known_nonnegative(self) -> bool:
        """Whether it was made so that it has no negative values, and has its parameters still."""
        return self.nonnegative and not self._n_writes

    @property
    def _n_writes(self) -> int | None:
        """How often tensors were written to, as they count it; None: other arrays do not."""
        return sum(map(attrgetter("_version"), self._arrays)) if self._of_torch else None

    def to(self, where: str | ModuleType, dtype: str | None = None) -> Self:
        """The circuit with its arrays elsewhere: "numpy", "torch", "cuda", or a namespace.

        A circuit whose arrays are there already is returned itself, with all it has cached.

        Circuits in torch, on a CPU or a GPU, compute log-likelihoods, marginals, sites, samples
        and most probable rows there; `condition`, `normalize` and the algebra of circuits work on
        the CPU. Tensors are made when `blocks` or a query first reads them: expected kernels only
        need the weights layer by layer.

        Parameters
        ----------
        where : str or module
            "numpy", "torch", a device of torch, or a namespace of the array-API standard.
        dtype : str, optional
            "float32" or "float64". Default: as numbers are. In single precision likelihoods,
            marginals and EM multiply and sum in it, and their logs are in double precision;
            expected kernels read numbers in single precision and work in double precision. Numbers
            that single precision does not hold, as nonzero weights below 1e-38, raise.

        Returns
        -------
        Circuit

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.factorized([[0.2, 0.8]]).to("numpy").n_units
        1
        """
        target = arrays.Place(where, dtype)
        to_cpu = dtype is None and target.xp is np
        if self.is_on_cpu if to_cpu else all(target.move(x) is x for x in self._arrays):
            return self

        def cut() -> tuple[Block, ...]:
            return tuple(map(methodcaller("moved", target.move), self.blocks))

        if dtype is not None or not self.is_on_cpu:
            return replace(self, blocks=cut(), nonnegative=self.is_known_nonnegative)
        if None in self.cardinalities:
            cut()  # raises if inputs cannot be moved
        # tensors are made when they are asked for: until then nobody can write to them, and what
        # is cached here serves queries there, too
        known = {"is_on_cpu": False, "like": target.move(self.like[:0]), "n_roots": self.n_roots}
        known |= {"_kept_on_cpu": (0, self), "nonnegative": self.nonnegative}
        return self.deferred(self.vtree, self.schema, cut, **known)

    def aligned_to(self, vtree: Vtree) -> Self | None:
        """The circuit on a vtree equal to its own up to swaps, or None if it is not."""
        if vtree == self.vtree:
            return self
        alignment = vtree.align(self.vtree)
        if alignment is None:
            return None
        blocks = [self.blocks[node] for node in alignment.node]
        for node in np.flatnonzero(alignment.swapped):
            blocks[node] = blocks[node].swapped()
        return replace(self, vtree=vtree, blocks=tuple(blocks))

    def __reduce__(self) -> tuple[Any, ...]:
        # what is cached is not part of the value
        if self.clique_tree is not None:
            return of_tables, (type(self), self.vtree, self.schema, self.clique_tree)
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        roots = "" if self.n_roots == 1 else f", {self.n_roots} roots"
        try:
            size = f"{self.n_units} units, {self.n_edges} edges{roots}"
        except checks.SizeError:
            size = "too large to be written out"
        return f"<Circuit of {self.n_variables} variables: {size}>"

    def _repr_html_(self) -> str:
        return circuit_html(self)

    @classmethod
    def from_units(cls, root: Unit, vtree: Vtree | None = None, smooth: bool = False) -> Circuit:
        """The block form of a circuit written by hand as a graph of units.

        Finds the vtree, binarises wide products, merges sums of sums, folds sums of one
        variable into tables, and minimises.

        Parameters
        ----------
        root : Sum, Product, Categorical, Indicator or Gaussian
            The root of the graph.
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
        """The circuit with its units only, which serve all queries.

        The circuit of a graphical model also has tables of conditional probabilities. These compute
        likelihoods and marginals of few rows, so that single queries need no units. For a hundred
        single queries of a model with large tables, units may be faster. Other circuits are
        returned themselves.

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
        if self.clique_tree is None:
            return self
        return type(self)(self.vtree, self.blocks, self.names, self.states)

    def log_likelihood(self, X: EvidenceLike) -> arrays.Array:
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

    def site_logs(self, X: arrays.RowsLike, variable: int | str) -> arrays.Array:
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
        return queries.site_logs(self, X, [variable])[0]

    def all_site_logs(
        self, X: arrays.RowsLike, variables: Sequence[arrays.VariableLike] | None = None
    ) -> list[arrays.Array]:
        """What `site_logs` gives for every variable (or some), by one pass forward and back.

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
        chosen = range(self.n_variables) if variables is None else variables
        return queries.site_logs(self, X, chosen)

    def log_partition(self) -> arrays.Array:
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
        found = None if self.clique_tree is None else self.clique_tree.log_values(None)
        if found is not None:
            return float(found[0])
        logs, sign = self.operand.cached("partition", lambda: queries.log_values(self, None))
        queries.refuse_negative(sign)
        if self.n_roots > 1:
            return logs[0, :]
        return float(logs[0, 0]) if arrays.is_numpy(self.xp) else logs[0, 0]

    def normalize(self) -> Circuit:
        """The circuit divided by its sum, with every unit summing to one, on the CPU.

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
        return queries.conditioned(cpu_circuit(self, "normalize"), None)

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
            if those of the circuit are not, unless its parameters require gradients.

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
        return queries.condition(cpu_circuit(self, "condition"), evidence)

    def map(self, X: EvidenceLike, as_frame: bool | None = None) -> arrays.Array:
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
        return self.schema.labelled(queries.most_probable(self, X), X, as_frame)

    def sample(
        self,
        n: int,
        rng: arrays.RngLike = None,
        evidence: EvidenceLike | None = None,
        as_frame: bool = False,
    ) -> arrays.Array:
        """Independent samples, shape (n, variables); (rows, n, variables) for rows of evidence.

        The array is NumPy's, also if those of the circuit are not.

        Parameters
        ----------
        n : int
            The number of samples.
        rng : int, Generator or None
            Seed or generator of random numbers; an int makes results reproducible.
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
        samples = queries.sample(self, n, rng, evidence)
        if not as_frame:
            return samples
        index = [range(size) for size in samples.shape[:2]] if samples.ndim == 3 else None
        return self.schema.frame(samples.reshape(-1, self.n_variables), index)


def align(p: Circuit, q: Circuit, states: str = "same") -> tuple[Circuit, Circuit]:
    """Two circuits with the variables and states of the second as in the first, by their names.

    Variables are renumbered and states recoded; no number changes. If one of the circuits has no
    names, variables are taken in their order.

    Parameters
    ----------
    p, q : Circuit
        Two circuits over the same variables, in any order.
    states : "same" or "union"
        What to do if a variable has labels that only one of the circuits has: raise, or take all
        of them (with probability zero in the other circuit).

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
    checks.check_choice("align", "states", states, ("same", "union"))
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
        raise checks.CircuitError(
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
            raise checks.DataError(
                "A circuit with names is matched with the columns of a table by these. Only the "
                f"table has {only[0]}, only the circuit {only[1]}; rename one of them, or take the "
                "names off to match them by position: Circuit(circuit.vtree, circuit.blocks)."
            )
        numbers = [schema.variable(name) for name in names]
    wanted = schema.subset(numbers)
    labels: list[Any] = [wanted.labels(v) for v in range(schema.n_variables)]
    for v, given in (states or {}).items():
        if labels[v] is not None and len(labels[v]) != len(given):
            raise checks.DataError(
                f"The column {columns[v]!r} has the categories {list(given)[:20]}, and the circuit "
                f"the states {list(labels[v])[:20]}: they must be the same."
            )
        labels[v] = labels[v] and tuple(given)
    wanted = Schema(wanted.cardinalities, wanted.names, tuple(labels))
    return circuit.matched(match(wanted, schema))


def vtree_for(model: Any, other: Any, vtree: Vtree) -> Vtree:
    """A vtree of another model in the numbers that a model has for variables of the same name."""
    if model.schema.names is None or other.schema.names is None:
        return vtree
    return vtree.renumbered(match(other.schema, model.schema).variables)


def minimize(vtree: Vtree, blocks: Sequence[Block]) -> list[Block]:
    """The same functions at the roots, with as few units as merging and dropping can reach.

    Units that are equal (same inputs, same weights, to the last bit) become one; units that are
    identically zero, and units no root depends on, go. The roots keep their number and order.
    Cost: linear in the size of the circuit.
    """
    small = _drop_unreachable(vtree, merge_equal(vtree, _drop_unreachable(vtree, blocks)))
    if all(block.n_units for block in small):
        return small
    one = Inner(1, 1, None, None, None)  # zero everywhere, with one unit per node but for the roots

    def zero(block: Any, n: int = 1) -> Any:
        return block.with_numbers(np.zeros((n, block.width)))

    *below, root = at_nodes(vtree, lambda node, _: zero(blocks[node]), lambda _: one)
    return [*below, zero(root, blocks[-1].n_units)]


def _drop_unreachable(vtree: Vtree, blocks: Sequence[Any]) -> list[Block]:
    """Keep the units that some root depends on."""

    def leaf(node: int, _: int, units: Any) -> Block:
        return blocks[node] if units is None else blocks[node].take(units)

    def inner_at(node: int, units: Any) -> tuple[Inner, Any, Any]:
        block = blocks[node]
        left, right = block.inputs
        weights = block.matrix
        if units is not None:
            weights = (block.csr if weights is None else weights)[units]
        if weights is not None:
            at = weights.indices if sparse.issparse(weights) else weights.any(axis=0).nonzero()[0]
            used = np.bincount(at, minlength=len(left)) > 0
            if not used.all():
                left, right, weights = left[used], right[used], weights[:, np.flatnonzero(used)]
        n, m = blocks[vtree.left[node]].n_units, blocks[vtree.right[node]].n_units
        (one, left), (other, right) = map(arrays.distinct_below, (left, right), (n, m))
        index = [None if len(x) == size else x for x, size in ((one, n), (other, m))]
        return inner(left, right, weights, len(one), len(other)), index[0], index[1]

    return from_root(vtree, None, leaf, inner_at)


def merge_equal(vtree: Vtree, blocks: Sequence[Any]) -> list[Block]:
    """Merge equal units and drop zero ones, bottom-up; roots all stay."""
    root = vtree.root

    def leaf(node: int, _: int) -> tuple[Any, Any]:
        return blocks[node].merged() if node != root else (blocks[node], None)

    def inner_at(node: int, below_left: Any, below_right: Any) -> tuple[Any, Any]:
        # children come as they are now, with the places of their former units
        block, is_root = blocks[node], node == root
        left, right = below_left[1][block.index("left")], below_right[1][block.index("right")]
        n_left, n_right = below_left[0].n_units, below_right[0].n_units
        alive = (left >= 0) & (right >= 0)
        pairs, column = arrays.distinct_pairs(left[alive], right[alive], (n_left, n_right))
        place: Any = None
        if block.weights is None and not is_root:  # every unit is one product
            place = np.full(block.n_products, -1, dtype=np.intp)
            place[alive] = column
            return inner(*pairs, None, n_left, n_right), place
        weights = block.csr if block.weights is None else block.matrix
        if not alive.all() or len(pairs[0]) < block.n_products:
            left, right = pairs
            weights = _merge_columns(weights, alive, column, len(left))
        if not is_root:  # the first of equal rows stays, and rows of zeros go
            if sparse.issparse(weights):
                kept, place = arrays.distinct_sparse_rows(
                    weights.indptr, weights.indices, weights.data
                )
            else:
                kept, place = arrays.distinct_dense_rows(weights)
            weights = weights if len(kept) == weights.shape[0] else weights[kept]
        return inner(left, right, weights, n_left, n_right), place

    return [block for block, _ in from_leaves(vtree, leaf, inner_at)]


def _merge_columns(weights: Any, alive: Any, column: Any, n: int) -> Any:
    """Add up the columns of products that became one, and drop those that became zero."""
    merged: Any = np.zeros((weights.shape[0], n))
    some = weights[:, np.flatnonzero(alive)]
    if sparse.issparse(weights):
        entries = np.ones(len(column)), column, np.arange(len(column) + 1)
        merged = tidy(some @ sparse.csr_array(entries, (len(column), n)))
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # refused below, with words
            np.add.at(merged.T, column, some.T)
    if not np.isfinite(merged.data if sparse.issparse(merged) else merged).all():
        raise checks.CircuitError(
            "Weights of equal products of a sum unit add up to a number that is too large for a "
            "double. Scale the weights down."
        )
    return merged


def of_tables(kind: type[AnyCircuit], vtree: Vtree, schema: Schema, tables: Any) -> AnyCircuit:
    """The circuit that tables are the whole value of."""
    return kind.deferred(vtree, schema, partial(tables.blocks, vtree), clique_tree=tables)


def cpu_circuit(circuit: AnyCircuit, what: str) -> AnyCircuit:
    """The circuit on the CPU; raises if gradients are required, as `what` loses them.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> cpu_circuit(ek.factorized([[0.2, 0.8]]), "A product").n_units
    1
    """
    if circuit.has_gradients:
        raise checks.PropertyError(
            f"{what} does not follow gradients, and they are required by parameters of this "
            "circuit. Give circuit.to('numpy'), which has none."
        )
    return circuit.on_cpu


def check_blocks(vtree: Vtree, blocks: Sequence[Block]) -> None:
    """Raise unless the blocks fit the vtree and hold finite numbers."""
    scope = sorted(vtree.scope().tolist())
    if scope != list(range(vtree.n_variables)):
        raise checks.CircuitError(
            f"The variables of a circuit are 0 to {vtree.n_variables - 1}. "
            f"Got a vtree over {scope}."
        )
    if len(blocks) != vtree.n_nodes:
        raise checks.CircuitError(
            f"A vtree of {vtree.n_nodes} nodes needs as many blocks. Got {len(blocks)}."
        )
    for node, block in enumerate(blocks):
        sides = () if vtree.is_leaf(node) else ("left", "right")
        if not sides and (wrong := block.invalid_reason()) is not None:
            variable = int(vtree.variable[node])
            raise checks.CircuitError(f"Normal inputs of variable {variable} need {wrong}.")
        for side in sides:
            index, n = block.index(side), blocks[getattr(vtree, side)[node]].n_units
            if len(index) and not (index.min() >= 0 and index.max() < n):
                raise checks.CircuitError(
                    f"At vtree node {node}, {side} inputs must be in 0..{n - 1}. "
                    f"Got {int(index.min())}..{int(index.max())}."
                )
        values = block.numbers
        values = values.data if sparse.issparse(values) else values
        if values is not None and not np.isfinite(values).all():
            raise checks.CircuitError(
                f"At vtree node {node} (variables {vtree.scope(node).tolist()[:8]}), weights and "
                "tables must be finite numbers. Got NaN or infinity."
            )


def renumbered(circuit: AnyCircuit, blocks: Sequence[Block]) -> AnyCircuit:
    """The circuit with blocks that differ in numbers only; how they are folded is kept."""
    new = replace(circuit, blocks=tuple(blocks))
    vars(new)["_operand"] = circuit._operand.renumbered(new.blocks)
    return new
