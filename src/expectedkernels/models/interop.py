"""Models of pgmpy, pyAgrum, scikit-learn, cirkit, SPFlow and networkx."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from expectedkernels.checks import CircuitError, SizeError
from expectedkernels.circuits.build import gaussian_mixture
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Categorical, Gaussian, Graph, Product, Sum, Unit
from expectedkernels.engine.blocks import from_leaves, from_root
from expectedkernels.models.factor_graph import BayesianNetwork, Factor, FactorGraph
from expectedkernels.vtree import Vtree

MOST_WEIGHTS = 2**27
"""A circuit with more weights than this, zeros included, is not written as dense layers."""


def imported(name: str, package: str) -> Any:
    """A module of an optional package; raises with the name to install if it is not there."""
    try:
        with catch_warnings():
            # where warnings are errors, one inside the binary part of pyAgrum ends the process
            simplefilter("ignore")
            return import_module(name)
    except ImportError as error:
        raise CircuitError(
            f"The package {package} is not installed ({error}): pip install {package}."
        ) from error


def numbers(tensor: Any) -> Any:
    """The numbers of a tensor of torch, in NumPy and in double precision."""
    array = tensor.detach().cpu().numpy()
    if np.iscomplexobj(array):
        raise CircuitError("Circuits have real weights. The parameters here are complex numbers.")
    return array.astype(np.float64)


def sums(weights: Any, inputs: Any) -> Any:
    """The units of a dense sum layer: one per row of weights, zeros left out, in an array."""
    found = np.empty(len(weights), dtype=object)
    for i, row in enumerate(weights):
        used = np.flatnonzero(row) if row.any() else [0]
        found[i] = Sum([inputs[j] for j in used], row[used])
    return found


def products(*factors: Any) -> Any:
    """The elementwise products of arrays of units, which are broadcast against each other."""
    several: Any = np.broadcast_arrays(*factors)
    found = np.empty(several[0].shape, dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = Product([array[place] for array in several])
    return found if len(factors) > 1 else factors[0]


def outer_products(factors: Sequence[Any]) -> Any:
    """The products of all tuples of units along the last axis, the first factor slowest."""
    shape = np.broadcast_shapes(*(factor.shape[:-1] for factor in factors))
    grown = []
    for axis, factor in enumerate(factors):
        own = [1] * len(factors)
        own[axis] = factor.shape[-1]
        grown.append(factor.reshape(*factor.shape[:-1], *own))
    return products(*grown).reshape(*shape, -1)


def tables(variable: int, rows: Any) -> Any:
    """The discrete inputs of a variable with these rows of values, in an array."""
    found = np.empty(rows.shape[:-1], dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = Categorical(variable, rows[place])
    return found


def normals(variable: int, means: Any, deviations: Any) -> Any:
    """The normal inputs of a variable with these means and standard deviations, in an array."""
    found = np.empty(means.shape, dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = Gaussian(variable, float(means[place]), float(deviations[place]) ** 2)
    return found


@dataclass(frozen=True, eq=False)
class Dense:
    """The layers of one vtree node, whose last one has as many units as the parent multiplies.

    Attributes
    ----------
    variable : int
        Of a leaf; -1 elsewhere.
    table : array of shape (units, states), or None
        The inputs of a discrete variable.
    mean, deviation : arrays of shape (components,), or None
        The inputs of a real variable, before they are summed.
    kronecker : bool
        Whether all pairs of the children's units are multiplied, and not those of equal numbers.
    weights : array of shape (units, products or components), or None
        The sums; None if the products are passed on.
    """

    variable: int = -1
    table: Any = None
    mean: Any = None
    deviation: Any = None
    kronecker: bool = False
    weights: Any = None


def dense_layers(circuit: Circuit, library: str) -> list[Dense]:
    """The layers at every vtree node, children first; raises if the circuit has none.

    A child gives its units in the order, and as often, as the products of its parent want them,
    so that these are elementwise and no layer only selects.
    """
    if not isinstance(circuit, Circuit):
        raise CircuitError(
            f"A model for {library} is made of a Circuit: compile graphical models first. "
            f"Got {type(circuit).__name__} instead."
        )
    if circuit.n_roots != 1:
        raise CircuitError(
            f"A model for {library} is made of a circuit with one root. Got {circuit.n_roots} "
            "roots."
        )
    circuit = circuit.to("numpy")
    blocks: Any = circuit.blocks
    vtree = circuit.vtree

    def leaf(node: int, variable: int, rows: Any) -> Dense:
        block, taken = blocks[node], slice(None) if rows is None else rows
        if block.cardinality == 1:
            raise CircuitError(
                f"The discrete variables of {library} have at least two states. Variable "
                f"{variable} has one: sum it out, it is known anyway."
            )
        if block.cardinality is not None:
            return Dense(variable, table=block.numbers[taken])
        if block.half is not None or not (block.variance > 0).all():
            raise CircuitError(
                f"The real inputs of {library} are normal distributions. Those of variable "
                f"{variable} have intervals or points."
            )
        deviation = np.sqrt(block.variance)
        weights = _written_out(block.numbers[taken], node, library)
        return Dense(variable, mean=block.mean, deviation=deviation, weights=weights)

    def inner(node: int, rows: Any) -> tuple[Dense, Any, Any]:
        block = blocks[node]
        a, b = block.inputs
        if block.numbers is None:
            taken = slice(None) if rows is None else rows
            return Dense(), a[taken], b[taken]
        matrix = block.csr if rows is None else block.csr[rows]
        weights = _written_out(matrix, node, library)
        n = blocks[int(vtree.left[node])].n_units
        if n > 1 and blocks[int(vtree.right[node])].n_units == n and len(a) == n * n:
            order = np.lexsort((b, a))
            if np.array_equal(a[order] * n + b[order], np.arange(n * n)):
                return Dense(kronecker=True, weights=weights[:, order]), None, None
        return Dense(weights=weights), a, b

    return from_root(vtree, None, leaf, inner)


def _written_out(matrix: Any, node: int, library: str) -> Any:
    if matrix.shape[0] * matrix.shape[1] > MOST_WEIGHTS:
        raise SizeError(
            f"The layers of {library} are dense. At vtree node {node} one would have "
            f"{matrix.shape[0]} times {matrix.shape[1]} weights, most of them zeros; the limit is "
            f"{MOST_WEIGHTS}."
        )
    return np.asarray(matrix) if isinstance(matrix, np.ndarray) else matrix.toarray()


def written(circuit: Circuit, layers: list[Dense], writer: Any) -> Any:
    """What a writer makes of the root's layers: by `inputs` at leaves, and by `inner` above."""
    return from_leaves(
        circuit.vtree,
        lambda node, variable: writer.inputs(layers[node]),
        lambda node, left, right: writer.inner(layers[node], [left, right]),
    )[-1]


ROUNDING = 1e-9
"""A row of a table is a distribution if its sum is this near to one."""


def from_cirkit(circuit: Any) -> Circuit:
    """The circuit of a compiled circuit of libcirkit, with its parameters as they are now.

    Parameters
    ----------
    circuit : cirkit's TorchCircuit
        As `cirkit.pipeline.compile` makes it, folded and optimised or not; one output. Layers
        are sums, Hadamard and Kronecker products (and what these are fused to), categorical
        inputs, embeddings and Gaussians.

    Returns
    -------
    Circuit
        A column of libcirkit's data is the variable of the same number. It is as normalised as
        the circuit it is made from.

    Raises
    ------
    CircuitError
        If the circuit is not compiled, or has other layers, or several outputs.
    PropertyError
        If its products do not split the variables along one vtree.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> from cirkit.pipeline import compile
    >>> p = ek.factorized([[0.25, 0.75], [0.5, 0.5]])
    >>> from_cirkit(compile(to_cirkit(p)))
    <Circuit of 2 variables: 3 units, 2 edges>
    """
    book = getattr(circuit, "address_book", None)
    if book is None:
        raise CircuitError(
            "The parameters of a circuit of libcirkit are those of its compiled form: pass what "
            f"cirkit.pipeline.compile makes of it. Got {type(circuit).__name__} instead."
        )
    outputs: list[Any] = []
    for entry in book:
        inputs = None
        if entry.in_module_ids:
            stacked = np.concatenate([outputs[i] for i in entry.in_module_ids[0]])
            index = entry.in_fold_idx[0]
            inputs = stacked[index if isinstance(index, tuple) else index.cpu().numpy()]
        if entry.module is None:
            outputs.append(inputs)
        else:
            outputs.append(_cirkit_units(entry.module, inputs))
    roots = outputs[-1].ravel()
    if len(roots) != 1:
        raise CircuitError(f"A circuit has one output. That of libcirkit has {len(roots)}.")
    return Circuit.from_units(roots[0])


def _cirkit_units(layer: Any, inputs: Any) -> Any:
    """The units of a layer, folds by units; inputs are folds by arity by units."""
    kind = type(layer).__name__.removeprefix("Torch").removesuffix("Layer")
    if kind in ("Categorical", "Embedding"):
        return _each(layer, tables, _table(layer, kind))
    if kind == "Gaussian" and layer.log_partition is None:
        return _each(layer, normals, numbers(layer.mean()), numbers(layer.stddev()))
    if kind == "Hadamard":
        return products(*np.moveaxis(inputs, 1, 0))
    if kind == "Kronecker":
        return outer_products(list(np.moveaxis(inputs, 1, 0)))
    if kind == "Sum":
        return _cirkit_sum(layer, inputs.reshape(len(inputs), -1))
    if kind == "CPT":
        return _cirkit_sum(layer, products(*np.moveaxis(inputs, 1, 0)))
    if kind == "Tucker":
        return _cirkit_sum(layer, outer_products(list(np.moveaxis(inputs, 1, 0))))
    if kind == "TensorDot":
        return _contracted(layer, inputs[:, 0])
    raise CircuitError(
        "Circuits have categorical, embedding and normalised Gaussian inputs, sums, and Hadamard "
        f"and Kronecker products. That of libcirkit has a {type(layer).__name__}."
    )


def _table(layer: Any, kind: str) -> Any:
    """The values of discrete inputs, folds by units by states."""
    if kind == "Embedding":
        return numbers(layer.weight())
    if layer.logits is None:
        return numbers(layer.probs())
    return np.exp(numbers(layer.logits()))


def _each(layer: Any, make: Any, *parameters: Any) -> Any:
    """The input units of all folds, each of which has a variable of its own."""
    variables = layer.scope_idx[:, 0].tolist()
    return np.stack([make(v, *mine) for v, *mine in zip(variables, *parameters, strict=True)])


def _cirkit_sum(layer: Any, inputs: Any) -> Any:
    weights = numbers(layer.weight())
    return np.stack([sums(w, units) for w, units in zip(weights, inputs, strict=True)])


def _contracted(layer: Any, inputs: Any) -> Any:
    """The units of a tensor dot layer: every slice of its inputs is summed by the same weights."""
    found = []
    for weights, units in zip(numbers(layer.weight()), inputs, strict=True):
        slices = units.reshape(weights.shape[1], -1).T
        found.append(np.concatenate([sums(weights, part) for part in slices]))
    return np.stack(found)


def to_cirkit(circuit: Circuit) -> Any:
    """A circuit as a symbolic circuit of libcirkit, whose parameters start at its numbers.

    Parameters
    ----------
    circuit : Circuit
        One root; discrete variables of at least two states, or normal distributions.

    Returns
    -------
    cirkit's Circuit
        To be compiled by `cirkit.pipeline.compile`, in the default type of torch: call
        ``torch.set_default_dtype(torch.float64)`` before if single precision is not enough. Its
        parameters can be learned. Negative weights need the semiring "sum-product". Its variables
        have no names, and its "lse-sum" gives -708.4 for all logs below that, also of zero.

    Raises
    ------
    CircuitError
        If inputs are intervals, points, or of one state only, or if there are several roots.
    SizeError
        If a layer with all its zeros would be out of all proportion.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> made = to_cirkit(ek.mixture([ek.factorized([[1, 0], [1, 0]]), ek.factorized([[0, 1]] * 2)]))
    >>> sorted(type(layer).__name__ for layer in made.layers)
    ['CategoricalLayer', 'CategoricalLayer', 'HadamardLayer', 'SumLayer']
    """
    symbolic = imported("cirkit.symbolic.circuit", "libcirkit")
    writer = _CirkitWriter()
    top = written(circuit, dense_layers(circuit, "libcirkit"), writer)
    return symbolic.Circuit(list(writer.below), writer.below, [top])


class _CirkitWriter:
    """Layers of libcirkit, each with those below it."""

    def __init__(self) -> None:
        self.layers = imported("cirkit.symbolic.layers", "libcirkit")
        self.parameters = imported("cirkit.symbolic.parameters", "libcirkit")
        self.initializers = imported("cirkit.symbolic.initializers", "libcirkit")
        self.scope = imported("cirkit.utils.scope", "libcirkit").Scope
        self.below: dict[Any, list[Any]] = {}

    def add(self, layer: Any, below: list[Any]) -> Any:
        self.below[layer] = below
        return layer

    def parameter(self, values: Any) -> Any:
        start = self.initializers.ConstantTensorInitializer(np.array(values))
        tensor = self.parameters.TensorParameter(*values.shape, initializer=start)
        return self.parameters.Parameter.from_input(tensor)

    def inputs(self, dense: Dense) -> Any:
        scope, table = self.scope([dense.variable]), dense.table
        if table is None:
            layer = self.layers.GaussianLayer(
                scope,
                len(dense.mean),
                mean=self.parameter(dense.mean),
                stddev=self.parameter(dense.deviation),
            )
            return self.summed(self.add(layer, []), dense.weights)
        values = self.parameter(table)
        if (table >= 0).all() and np.allclose(table.sum(axis=1), 1.0, rtol=0, atol=ROUNDING):
            sizes = {"num_categories": table.shape[1], "probs": values}
            return self.add(self.layers.CategoricalLayer(scope, len(table), **sizes), [])
        sizes = {"num_states": table.shape[1], "weight": values}
        return self.add(self.layers.EmbeddingLayer(scope, len(table), **sizes), [])

    def inner(self, dense: Dense, below: list[Any]) -> Any:
        kind = self.layers.KroneckerLayer if dense.kronecker else self.layers.HadamardLayer
        product = self.add(kind(below[0].num_output_units), below)
        return product if dense.weights is None else self.summed(product, dense.weights)

    def summed(self, layer: Any, weights: Any) -> Any:
        made = self.layers.SumLayer(weights.shape[1], len(weights), weight=self.parameter(weights))
        return self.add(made, [layer])


def from_spflow(module: Any) -> Circuit:
    """The circuit of a module of SPFlow, with its parameters as they are now.

    Parameters
    ----------
    module : spflow's Module
        With one feature, channel and repetition. It consists of sums (elementwise or not, or of
        repetitions), products (elementwise and outer ones, too), einsum and linsum layers,
        concatenations, splits and factorisations, and of categorical, Bernoulli, binomial and
        normal leaves.

    Returns
    -------
    Circuit
        A column of SPFlow's data is the variable of the same number.

    Raises
    ------
    CircuitError
        If there are modules of other kinds, leaves with a network for their parameters, or
        several outputs.
    PropertyError
        If products do not split the variables along one vtree, as those of several random
        repetitions.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.25, 0.75], [0.5, 0.5]])
    >>> from_spflow(to_spflow(p))
    <Circuit of 2 variables: 3 units, 2 edges>
    """
    roots = _Reader().units(module).ravel()
    if len(roots) != 1:
        raise CircuitError(f"A circuit has one output. The module of SPFlow has {len(roots)}.")
    return Circuit.from_units(roots[0])


class _Reader:
    """The units of modules, as arrays of features by channels by repetitions."""

    def __init__(self) -> None:
        self.found: dict[int, Any] = {}

    def units(self, module: Any) -> Any:
        """The units of a module; those of a split are a list of arrays."""
        if hasattr(module, "root_node"):
            return self.units(module.root_node)
        if id(module) not in self.found:
            read = getattr(self, f"_{type(module).__name__}", None)
            if read is None:
                raise CircuitError(
                    "Circuits are sums and products of categorical and normal inputs. SPFlow's "
                    f"{type(module).__name__} is none of these."
                )
            self.found[id(module)] = read(module)
        return self.found[id(module)]

    def _factors(self, module: Any) -> list[Any]:
        """What is multiplied: the parts of a split, or the units of several modules."""
        below = module.inputs
        several = [below] if hasattr(below, "out_shape") else list(below)
        found = [self.units(one) for one in several]
        return found[0] if isinstance(found[0], list) else found

    def _Categorical(self, leaf: Any) -> Any:
        return self._leaf(leaf, tables, leaf.probs)

    def _Bernoulli(self, leaf: Any) -> Any:
        p = leaf.probs
        return self._leaf(leaf, lambda v, q: tables(v, np.stack([1.0 - q, q], axis=-1)), p)

    def _Binomial(self, leaf: Any) -> Any:
        from scipy import stats  # which takes a while, and nobody else here needs

        def made(variable: int, q: Any, n: Any) -> Any:
            states = np.arange(int(n.max()) + 1)
            return tables(variable, stats.binom.pmf(states, n[..., None], q[..., None]))

        return self._leaf(leaf, made, leaf.probs, leaf.total_count)

    def _Normal(self, leaf: Any) -> Any:
        return self._leaf(leaf, normals, leaf.loc, leaf.scale)

    def _leaf(self, leaf: Any, make: Any, *parameters: Any) -> Any:
        if leaf.is_conditional:
            raise CircuitError(
                f"The parameters of SPFlow's {type(leaf).__name__} come from a network, so that "
                "there is no circuit but for single rows."
            )
        arrays = [numbers(parameter) for parameter in parameters]
        return np.stack([make(v, *own) for v, *own in zip(leaf.scope.query, *arrays, strict=True)])

    def _Cat(self, module: Any) -> Any:
        return np.concatenate([self.units(one) for one in module.inputs], axis=module.dim - 1)

    def _SplitConsecutive(self, module: Any) -> Any:
        return np.split(self.units(module.inputs), module.num_splits)

    def _SplitInterleaved(self, module: Any) -> Any:
        units = self.units(module.inputs)
        return [units[i :: module.num_splits] for i in range(module.num_splits)]

    def _SplitByIndex(self, module: Any) -> Any:
        units = self.units(module.inputs)
        return [units[group] for group in module.indices]

    def _Product(self, module: Any) -> Any:
        return products(*self.units(module.inputs))[None]

    def _Factorize(self, module: Any) -> Any:
        units, chosen = self.units(module.inputs[0]), numbers(module.indices) > 0
        n_out, n_repetitions = chosen.shape[1:]
        units = np.broadcast_to(units, (*units.shape[:2], n_repetitions))
        found = [
            [products(*units[chosen[:, o, r], :, r]) for r in range(n_repetitions)]
            for o in range(n_out)
        ]
        return np.moveaxis(np.array(found, dtype=object), 1, 2)

    def _ElementwiseProduct(self, module: Any) -> Any:
        return products(*self._factors(module))

    def _OuterProduct(self, module: Any) -> Any:
        return _with_channels_last(outer_products, self._factors(module))

    def _Sum(self, module: Any) -> Any:
        weights = np.moveaxis(numbers(module.weights), 1, 3)  # features, out, repetitions, in
        return _spflow_sum(weights, np.moveaxis(self.units(module.inputs), 1, 2)[:, None])

    def _ElementwiseSum(self, module: Any) -> Any:
        units = np.stack(np.broadcast_arrays(*self._factors(module)), axis=-1)
        weights = np.moveaxis(numbers(module.weights), 3, 4)  # features, in, out, repetitions, i
        found = _spflow_sum(weights, units[:, :, None])
        return found.reshape(len(found), -1, found.shape[-1])

    def _RepetitionMixingLayer(self, module: Any) -> Any:
        return _spflow_sum(
            numbers(module.weights)[:, :, None], self.units(module.inputs)[:, :, None]
        )

    def _LinsumLayer(self, module: Any) -> Any:
        units = products(*self._factors(module))
        return _spflow_sum(numbers(module.log_weights.exp()), np.moveaxis(units, 1, 2)[:, None])

    def _EinsumLayer(self, module: Any) -> Any:
        pairs = _with_channels_last(outer_products, self._factors(module))
        weights = numbers(module.log_weights.exp())
        weights = weights.reshape(*weights.shape[:3], -1)
        return _spflow_sum(weights, np.moveaxis(pairs, 1, 2)[:, None])


def _with_channels_last(function: Any, factors: list[Any]) -> Any:
    return np.moveaxis(function([np.moveaxis(one, 1, 2) for one in factors]), 2, 1)


def _spflow_sum(weights: Any, units: Any) -> Any:
    """Sums over the last axis, with arrays broadcast against each other."""
    weights, units = np.broadcast_arrays(weights, units)
    found = np.empty(weights.shape[:-1], dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = sums(weights[place][None], units[place])[0]
    return found


def to_spflow(circuit: Circuit) -> Any:
    """A circuit as a module of SPFlow, in double precision.

    Parameters
    ----------
    circuit : Circuit
        Normalised, with one root and no negative weights; discrete variables, or normal
        distributions.

    Returns
    -------
    spflow's Sum, Product or leaf
        With the columns of its data in the order of the variables, which have no names there.

    Raises
    ------
    CircuitError
        If the circuit is not normalised, or has weights or inputs that SPFlow has no module for.
    SizeError
        If a layer with all its zeros would be out of all proportion.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> import torch
    >>> p = ek.factorized([[0.25, 0.75], [0.5, 0.5]])
    >>> rows = torch.tensor([[1.0, 0.0], [1.0, float("nan")]], dtype=torch.float64)
    >>> to_spflow(p).log_likelihood(rows).exp().flatten().tolist()
    [0.375, 0.75]
    """
    dense_layers(circuit, "SPFlow")  # what does not fit is told before anything is computed
    if abs(float(circuit.log_partition())) > ROUNDING:
        raise CircuitError(
            "The sums of SPFlow are normalised. The log of the circuit's sum is "
            f"{float(circuit.log_partition()):.6g}, not zero: call its normalize() first."
        )
    normal = circuit.normalize()
    return written(normal, dense_layers(normal, "SPFlow"), _SpflowWriter())


class _SpflowWriter:
    """Makes modules of SPFlow."""

    def __init__(self) -> None:
        self.leaves = imported("spflow.modules.leaves", "spflow")
        self.products = imported("spflow.modules.products", "spflow")
        self.sums = imported("spflow.modules.sums", "spflow")
        self.torch = imported("torch", "torch")

    def logs(self, values: Any, what: str) -> Any:
        """The logs of rows that sum to one."""
        off = np.abs(values.sum(axis=1) - 1.0).max()
        if (values < 0).any() or not off <= ROUNDING:
            raise CircuitError(
                f"The sums and tables of SPFlow are probabilities. The {what} are negative, or do "
                f"not sum to one, even after normalisation (off by {off:.3g})."
            )
        return self.torch.log(self.torch.tensor(values, dtype=self.torch.float64))

    def inputs(self, dense: Dense) -> Any:
        variable, double = dense.variable, self.torch.float64
        if dense.table is not None:
            logs = self.logs(dense.table, f"values of variable {variable}")
            # constructors take no probabilities that are zero
            leaf = self.leaves.Categorical(variable, len(logs), K=logs.shape[1])
            leaf._logits = self.torch.nn.Parameter(logs[None, :, None])
            return leaf
        mean, deviation = (
            self.torch.tensor(values, dtype=double)[None, :, None]
            for values in (dense.mean, dense.deviation)
        )
        return self.summed(
            self.leaves.Normal(variable, loc=mean, scale=deviation), dense, f"variable {variable}"
        )

    def inner(self, dense: Dense, below: list[Any]) -> Any:
        kind = self.products.OuterProduct if dense.kronecker else self.products.Product
        product = kind(below)
        return product if dense.weights is None else self.summed(product, dense, "an inner node")

    def summed(self, below: Any, dense: Dense, where: str) -> Any:
        logs = self.logs(dense.weights, f"weights of {where}")
        module = self.sums.Sum(below, out_channels=len(dense.weights))
        module.logits = self.torch.nn.Parameter(logs.T[None, :, :, None].contiguous())
        return module


def as_model(obj: object) -> Circuit | FactorGraph | Unit:
    """A model of another library as one of ours.

    Parameters
    ----------
    obj : object
        A Bayesian network or Markov random field of pyAgrum, a discrete Bayesian or Markov network
        of pgmpy, a (diagonal or spherical) ``GaussianMixture`` of scikit-learn, a compiled circuit
        of libcirkit or a module of SPFlow (see `models.from_cirkit` and `models.from_spflow`), or
        a model of this library, which is returned as it is.

    Returns
    -------
    BayesianNetwork, FactorGraph or Circuit
        With the names of variables and the labels of states.

    Raises
    ------
    CircuitError
        If the object is none of these.

    Notes
    -----
    Functions that take a model or a distribution call this themselves.

    Examples
    --------
    >>> from sklearn.mixture import GaussianMixture
    >>> X = np.array([[0.0, 0.0], [0.1, 0.2], [5.0, 5.0], [5.2, 5.1]])
    >>> as_model(GaussianMixture(2, covariance_type="diag", random_state=0).fit(X))
    <Circuit of 2 variables: 7 units, 6 edges>
    """
    found = converted(obj)
    if isinstance(found, (FactorGraph, Circuit, Unit)):
        return found
    raise CircuitError(
        "Models are FactorGraphs, BayesianNetworks and Circuits of this library, networks of "
        "pyAgrum and pgmpy, circuits of libcirkit and SPFlow, and GaussianMixtures of "
        "scikit-learn. Got "
        f"{type(obj).__module__}.{type(obj).__qualname__}."
    )


def converted(obj: Any) -> Any:
    """A model of another library as one of ours; everything else as it is."""
    for base in type(obj).__mro__:
        reader = READERS.get((base.__module__.split(".")[0], base.__name__))
        if reader is not None:
            return reader(obj)
    return obj


def _from_pyagrum(network: Any) -> BayesianNetwork:
    ids = sorted(network.nodes())
    number = {network.variable(i).name(): v for v, i in enumerate(ids)}
    parents, cpts = [], []
    for i in ids:
        tensor = network.cpt(i)
        names = list(tensor.names)  # the variable itself first; arrays have the axes reversed
        parents.append([number[name] for name in names[:0:-1]])
        cpts.append(tensor.toarray())
    return BayesianNetwork(parents, cpts, list(number), _pyagrum_states(network, ids))


def _pyagrum_states(network: Any, ids: Sequence[int]) -> list[list[str]]:
    return [list(network.variable(i).labels()) for i in ids]


def _from_pyagrum_field(field: Any) -> FactorGraph:
    ids = sorted(field.nodes())
    number = {field.variable(i).name(): v for v, i in enumerate(ids)}
    factors = []
    for scope in field.factors():
        tensor = field.factor(scope)
        factors.append(Factor([number[name] for name in tensor.names[::-1]], tensor.toarray()))
    states = _pyagrum_states(field, ids)
    return FactorGraph([len(labels) for labels in states], factors, list(number), states)


def _from_pgmpy(network: Any) -> BayesianNetwork:
    names = list(network.nodes())
    cpds = {cpd.variable: cpd for cpd in network.get_cpds()}
    lacking = [name for name in names if name not in cpds]
    if lacking:
        raise CircuitError(
            f"Every variable of a network needs its probabilities. {lacking[0]!r} has none: "
            "fit the network, or add them with add_cpds."
        )
    number = {name: v for v, name in enumerate(names)}
    states = {name: list(cpds[name].state_names[name]) for name in names}
    parents, cpts = [], []
    for name in names:
        cpd = cpds[name]
        table = _pgmpy_table(cpd, states)
        parents.append([number[other] for other in cpd.variables[1:]])
        cpts.append(np.moveaxis(table, 0, -1))
    return BayesianNetwork(parents, cpts, list(map(str, names)), [states[n] for n in names])


def _from_pgmpy_field(field: Any) -> FactorGraph:
    names = list(field.nodes())
    number = {name: v for v, name in enumerate(names)}
    states: dict[Any, list[Any]] = {}
    for factor in field.get_factors():
        for name in factor.variables:
            states.setdefault(name, list(factor.state_names[name]))
    lacking = [name for name in names if name not in states]
    if lacking:
        raise CircuitError(f"Every variable of a network needs a factor. {lacking[0]!r} has none.")
    factors = [
        Factor([number[name] for name in factor.variables], _pgmpy_table(factor, states))
        for factor in field.get_factors()
    ]
    cards = [len(states[name]) for name in names]
    return FactorGraph(cards, factors, list(map(str, names)), [states[name] for name in names])


def _pgmpy_table(factor: Any, states: dict[Any, list[Any]]) -> Any:
    """The table of a factor, which may have the states of a variable in an order of its own."""
    table = np.asarray(factor.values, dtype=np.float64)
    for axis, name in enumerate(factor.variables):
        own = list(factor.state_names[name])
        if set(own) != set(states[name]):
            raise CircuitError(
                f"The states of {name!r} are {states[name]} in one table of the network and {own} "
                "in another."
            )
        table = np.take(table, [own.index(state) for state in states[name]], axis=axis)
    return table


def _from_gaussian_mixture(mixture: Any) -> Circuit:
    kind = mixture.covariance_type
    if kind not in ("diag", "spherical"):
        raise CircuitError(
            "A GaussianMixture becomes a circuit if its coordinates are independent in every "
            f"component: fit it with covariance_type='diag' or 'spherical'. Got {kind!r}."
        )
    if not hasattr(mixture, "weights_"):
        raise CircuitError("The GaussianMixture is not fitted yet: call its fit first.")
    means = np.asarray(mixture.means_, dtype=np.float64)
    variances = np.asarray(mixture.covariances_, dtype=np.float64)
    if kind == "spherical":
        variances = np.broadcast_to(variances[:, None], means.shape)
    weights = np.asarray(mixture.weights_, dtype=np.float64)
    circuit = gaussian_mixture(weights / weights.sum(), means, variances)
    names = getattr(mixture, "feature_names_in_", None)
    return circuit if names is None else circuit.with_names(names)


READERS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("pyagrum", "BayesNet"): _from_pyagrum,
    ("pyAgrum", "BayesNet"): _from_pyagrum,
    ("pyagrum", "MarkovRandomField"): _from_pyagrum_field,
    ("pyAgrum", "MarkovRandomField"): _from_pyagrum_field,
    ("pgmpy", "DiscreteBayesianNetwork"): _from_pgmpy,
    ("pgmpy", "BayesianNetwork"): _from_pgmpy,
    ("pgmpy", "DiscreteMarkovNetwork"): _from_pgmpy_field,
    ("pgmpy", "MarkovNetwork"): _from_pgmpy_field,
    ("sklearn", "GaussianMixture"): _from_gaussian_mixture,
    ("cirkit", "TorchCircuit"): from_cirkit,
    ("cirkit", "Circuit"): from_cirkit,
    ("spflow", "Module"): from_spflow,
}
"""Classes of other libraries, by package and name, and what reads them."""


def to_pyagrum(model: FactorGraph) -> Any:
    """A factor graph as a model of pyAgrum: a ``BayesNet``, or a ``MarkovRandomField``.

    Parameters
    ----------
    model : BayesianNetwork or FactorGraph
        Variables without names are called x0, x1, ..., states without labels 0, 1, ...

    Returns
    -------
    pyAgrum's BayesNet or MarkovRandomField

    Examples
    --------
    >>> import expectedkernels as ek
    >>> network = to_pyagrum(ek.asia())
    >>> network.size(), list(network.variable("smoke").labels())
    (8, ['yes', 'no'])
    """
    gum = imported("pyagrum", "pyagrum")
    names, states = _called(_checked(model, "to_pyagrum"))
    bayesian = isinstance(model, BayesianNetwork)
    made = gum.BayesNet() if bayesian else gum.MarkovRandomField()
    for name, labels in zip(names, states, strict=True):
        made.add(gum.LabelizedVariable(name, name, list(map(str, labels))))
    if isinstance(model, BayesianNetwork):
        for v, above in enumerate(model.parents):
            for parent in above:
                made.addArc(names[parent], names[v])
        for v, table in enumerate(model.cpts):
            made.cpt(names[v])[:] = np.ascontiguousarray(_reversed(table))
        return made
    for scope, table in _by_scope(model):
        made.addFactor([names[v] for v in scope])
        tensor = made.factor([names[v] for v in scope])
        axes = [names.index(name) for name in tensor.names[::-1]]
        tensor[:] = np.ascontiguousarray(np.transpose(table, [scope.index(v) for v in axes]))
    return made


def _reversed(table: Any) -> Any:
    """The table with the axes of the parents, all but the last one, in reverse order."""
    return np.transpose(table, [*range(table.ndim - 2, -1, -1), table.ndim - 1])


def to_pgmpy(model: FactorGraph) -> Any:
    """A factor graph as a ``DiscreteBayesianNetwork`` or ``DiscreteMarkovNetwork`` of pgmpy.

    Parameters
    ----------
    model : BayesianNetwork or FactorGraph
        Variables without names are called x0, x1, ..., states without labels 0, 1, ...

    Returns
    -------
    pgmpy's DiscreteBayesianNetwork or DiscreteMarkovNetwork

    Examples
    --------
    >>> import expectedkernels as ek
    >>> network = to_pgmpy(ek.asia())
    >>> sorted(network.get_cpds("either").variables)
    ['either', 'lung', 'tub']
    """
    models = imported("pgmpy.models", "pgmpy")
    discrete = imported("pgmpy.factors.discrete", "pgmpy")
    names, states = _called(_checked(model, "to_pgmpy"))
    labels = dict(zip(names, map(list, states), strict=True))
    if isinstance(model, BayesianNetwork):
        made = models.DiscreteBayesianNetwork()
        made.add_nodes_from(names)
        for v, (above, table) in enumerate(zip(model.parents, model.cpts, strict=True)):
            parents = [names[parent] for parent in above]
            made.add_edges_from((parent, names[v]) for parent in parents)
            values = np.moveaxis(table, -1, 0).reshape(table.shape[-1], -1)
            cpd = discrete.TabularCPD(
                names[v],
                table.shape[-1],
                values,
                parents or None,
                [len(labels[parent]) for parent in parents] or None,
                state_names={name: labels[name] for name in (names[v], *parents)},
            )
            made.add_cpds(cpd)
        return made
    made = models.DiscreteMarkovNetwork()
    made.add_nodes_from(names)
    for scope, table in _by_scope(model):
        called = [names[v] for v in scope]
        made.add_edges_from((a, b) for i, a in enumerate(called) for b in called[i + 1 :])
        own = {name: labels[name] for name in called}
        made.add_factors(discrete.DiscreteFactor(called, table.shape, table, state_names=own))
    return made


def _checked(model: Any, function: str) -> FactorGraph:
    if not isinstance(model, FactorGraph):
        raise CircuitError(
            f"{function} works on BayesianNetworks and FactorGraphs. "
            f"Got {type(model).__name__} instead."
        )
    return model


def _called(model: FactorGraph) -> tuple[list[str], list[list[Any]]]:
    names = model.names or [f"x{v}" for v in range(model.n_variables)]
    states = model.states or [list(range(card)) for card in model.cardinalities]
    return names, states


def _by_scope(model: FactorGraph) -> list[tuple[tuple[int, ...], Any]]:
    """The tables of a factor graph, one per set of variables; constants are left out."""
    tables: dict[tuple[int, ...], Any] = {
        (v,): np.ones(c) for v, c in enumerate(model.cardinalities)
    }
    for factor in model.factors:
        scope = tuple(sorted(factor.scope))
        table = np.transpose(factor.table, [factor.scope.index(v) for v in scope])
        tables[scope] = tables[scope] * table if scope in tables else table
    tables.pop((), None)
    return list(tables.items())


PARAMETERS = ("probs", "mean", "variance")
"""What input units of the families have, or a part of it."""


def to_networkx(model: Circuit | Unit | Vtree | FactorGraph) -> Any:
    """The graph of a circuit, a vtree or a graphical model, to be drawn or searched by networkx.

    Parameters
    ----------
    model : Circuit, Unit, Vtree, FactorGraph or BayesianNetwork

    Returns
    -------
    networkx's DiGraph, or Graph of a FactorGraph
        Of a circuit: the units, numbered with inputs first and the root last, with a ``kind`` of
        "sum", "product" or "input", and edges to their inputs, those of sums with a ``weight``.
        Inputs have their ``variable`` and parameters. Of a vtree: its nodes, those at leaves with
        a ``variable``, and edges to their children with a ``side``. Of a Bayesian network: the
        variables by name or number with their ``cardinality`` and ``table``, edges from parents.
        Of a factor graph: variables and, as pairs ("factor", number), factors with a ``table``,
        told apart by ``bipartite`` (0 and 1).

    Raises
    ------
    CircuitError
        If it is none of these, or networkx is not installed.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> graph = to_networkx(ek.asia())
    >>> sorted(graph.predecessors("either"))
    ['lung', 'tub']
    >>> units = to_networkx(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
    >>> [kind for _, kind in units.nodes(data="kind")], list(units.edges)
    (['input', 'input', 'product'], [(2, 0), (2, 1)])
    """
    networkx = imported("networkx", "networkx")
    if isinstance(model, Vtree):
        return _vtree(model, networkx.DiGraph())
    if isinstance(model, Circuit):
        return _circuit(model.to("numpy"), networkx.DiGraph())
    if isinstance(model, Unit):
        return _networkx_units(model, networkx.DiGraph())
    if isinstance(model, BayesianNetwork):
        return _network(model, networkx.DiGraph())
    if isinstance(model, FactorGraph):
        return _factors(model, networkx.Graph())
    raise CircuitError(
        "Graphs are made of Circuits, units, Vtrees, FactorGraphs and BayesianNetworks. "
        f"Got {type(model).__name__} instead."
    )


def _vtree(vtree: Vtree, graph: Any) -> Any:
    def leaf(node: int, variable: int) -> int:
        graph.add_node(node, variable=variable)
        return node

    def inner(node: int, left: int, right: int) -> int:
        graph.add_edge(node, left, side="left")
        graph.add_edge(node, right, side="right")
        return node

    from_leaves(vtree, leaf, inner)
    return graph


def _networkx_units(root: Unit, graph: Any) -> Any:
    found = Graph(root)
    for i, unit in enumerate(found.units):
        facts = {name: getattr(unit, name) for name in PARAMETERS if hasattr(unit, name)}
        if unit.kind == "input":
            facts["variable"] = unit.variable  # type: ignore[attr-defined]
        graph.add_node(i, kind=unit.kind, **facts)
        for j, below in enumerate(found.inputs[i]):
            more = {"weight": float(unit.weights[j])} if unit.kind == "sum" else {}  # type: ignore[attr-defined]
            graph.add_edge(i, below, **more)
    return graph


def _circuit(circuit: Circuit, graph: Any) -> Any:
    """The units of a circuit; sums that only pass a product on are left out."""
    blocks: Any = circuit.blocks
    called: Any = circuit.names or range(circuit.n_variables)

    def add(kind: str, inputs: Any, weights: Any = None, **facts: Any) -> int:
        number = len(graph)
        graph.add_node(number, kind=kind, **facts)
        for i, below in enumerate(inputs):
            graph.add_edge(
                number, int(below), **({} if weights is None else {"weight": weights[i]})
            )
        return number

    def leaf(node: int, variable: int) -> Any:
        block, name = blocks[node], called[variable]
        if block.cardinality is not None:
            return np.array([add("input", (), variable=name, probs=row) for row in block.numbers])
        shared = {"mean": block.mean, "variance": block.variance, "half": block.halves}
        return np.array(
            [add("input", (), variable=name, weights=row, **shared) for row in block.numbers]
        )

    def inner(node: int, left: Any, right: Any) -> Any:
        block = blocks[node]
        a, b = block.inputs
        made = np.array([add("product", pair) for pair in zip(left[a], right[b], strict=True)])
        csr, units = block.csr, []
        for start, stop in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
            below, weights = made[csr.indices[start:stop]], csr.data[start:stop].tolist()
            units.append(int(below[0]) if weights == [1.0] else add("sum", below, weights))
        return np.array(units)

    from_leaves(circuit.vtree, leaf, inner)
    return graph


def _named(model: FactorGraph) -> list[Any]:
    return list(model.names or range(model.n_variables))


def _network(network: BayesianNetwork, graph: Any) -> Any:
    names = _named(network)
    for v, table in enumerate(network.cpts):
        graph.add_node(names[v], cardinality=network.cardinalities[v], table=np.asarray(table))
    for v, above in enumerate(network.parents):
        graph.add_edges_from((names[parent], names[v]) for parent in above)
    return graph


def _factors(model: FactorGraph, graph: Any) -> Any:
    names = _named(model)
    for name, cardinality in zip(names, model.cardinalities, strict=True):
        graph.add_node(name, cardinality=cardinality, bipartite=0)
    for i, factor in enumerate(model.factors):
        graph.add_node(("factor", i), table=np.asarray(factor.table), bipartite=1)
        graph.add_edges_from((("factor", i), names[v]) for v in factor.scope)
    return graph
