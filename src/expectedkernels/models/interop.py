"""Models of pgmpy, pyAgrum, scikit-learn, cirkit, SPFlow and networkx."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from expectedkernels.checks import CircuitError, SizeError, imported
from expectedkernels.circuits.build import gaussian_mixture
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Categorical, Gaussian, Graph, Product, Sum, Unit
from expectedkernels.engine.blocks import from_leaves, from_root
from expectedkernels.models import converted
from expectedkernels.models.factor_graph import BayesianNetwork, FactorGraph
from expectedkernels.vtree import Vtree

MOST_WEIGHTS = 2**27
"""A circuit with more weights than this, zeros included, is not written as dense layers."""


def numbers(tensor: Any) -> Any:
    """The numbers of a tensor of torch, in NumPy and in double precision."""
    array = tensor.detach().cpu().numpy()
    if np.iscomplexobj(array):
        raise CircuitError("Circuits have real weights. The parameters here are complex numbers.")
    return array.astype(np.float64)


def elementwise(make: Callable[..., Unit], *arrays: Any) -> Any:
    """What is made of the entries of arrays that are broadcast against each other."""
    several = np.broadcast_arrays(*arrays)
    found = np.empty(several[0].shape, dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = make(*(array[place] for array in several))
    return found


def sums(weights: Any, inputs: Any) -> Any:
    """Sums over the last axis of arrays that are broadcast, zero weights left out."""
    weights, inputs = np.broadcast_arrays(weights, inputs)
    found = np.empty(weights.shape[:-1], dtype=object)
    for place in np.ndindex(found.shape):
        row = weights[place]
        used = np.flatnonzero(row) if row.any() else [0]
        found[place] = Sum(list(inputs[place][used]), row[used])
    return found


def products(factors: Sequence[Any]) -> Any:
    """The elementwise products of arrays of units, which are broadcast against each other."""
    if len(factors) == 1:
        return factors[0]
    return elementwise(lambda *units: Product(list(units)), *factors)


def outer_products(factors: Sequence[Any]) -> Any:
    """The products of all tuples of units along the last axis, the first factor slowest."""
    shape = np.broadcast_shapes(*(factor.shape[:-1] for factor in factors))
    grown = []
    for axis, factor in enumerate(factors):
        own = [1] * len(factors)
        own[axis] = factor.shape[-1]
        grown.append(factor.reshape(*factor.shape[:-1], *own))
    return products(grown).reshape(*shape, -1)


def inputs(make: Callable[..., Any], variables: Sequence[int], *parameters: Any) -> Any:
    """The input units of several variables, each with parameters of its own, in an array."""
    arrays = [numbers(parameter) for parameter in parameters]
    return np.stack([make(v, *own) for v, *own in zip(variables, *arrays, strict=True)])


def tables(variable: int, rows: Any) -> Any:
    """The discrete inputs of a variable with these rows of values, in an array."""
    found = np.empty(rows.shape[:-1], dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = Categorical(variable, rows[place])
    return found


def normals(variable: int, means: Any, deviations: Any) -> Any:
    """The normal inputs of a variable with these means and standard deviations, in an array."""
    return elementwise(lambda m, s: Gaussian(variable, float(m), float(s) ** 2), means, deviations)


@dataclass(frozen=True, eq=False)
class Dense:
    """The layers of one vtree node, whose last one has as many units as the parent multiplies.

    Attributes
    ----------
    table : array of shape (units, states), or None
        The inputs of a discrete variable.
    mean, deviation : arrays of shape (components,), or None
        The inputs of a real variable, before they are summed.
    kronecker : bool
        Whether all pairs of the children's units are multiplied, and not those of equal numbers.
    weights : array of shape (units, products or components), or None
        The sums; None if the products are passed on.
    """

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
            return Dense(table=block.numbers[taken])
        if block.half is not None or not (block.variance > 0).all():
            raise CircuitError(
                f"The real inputs of {library} are normal distributions. Those of variable "
                f"{variable} have intervals or points."
            )
        deviation = np.sqrt(block.variance)
        weights = _written_out(block.numbers[taken], node, library)
        return Dense(mean=block.mean, deviation=deviation, weights=weights)

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
        below = None
        if entry.in_module_ids:
            stacked = np.concatenate([outputs[i] for i in entry.in_module_ids[0]])
            index = entry.in_fold_idx[0]
            below = stacked[index if isinstance(index, tuple) else index.cpu().numpy()]
        outputs.append(below if entry.module is None else _cirkit_units(entry.module, below))
    roots = outputs[-1].ravel()
    if len(roots) != 1:
        raise CircuitError(f"A circuit has one output. That of libcirkit has {len(roots)}.")
    return Circuit.from_units(roots[0])


def _cirkit_units(layer: Any, below: Any) -> Any:
    """The units of a layer, folds by units; those below are folds by arity by units."""
    kind = type(layer).__name__.removeprefix("Torch").removesuffix("Layer")
    if below is None:
        variables = layer.scope_idx[:, 0].tolist()
        if kind == "Categorical":
            probs = layer.logits().exp() if layer.probs is None else layer.probs()
            return inputs(tables, variables, probs)
        if kind == "Embedding":
            return inputs(tables, variables, layer.weight())
        if kind == "Gaussian" and layer.log_partition is None:
            return inputs(normals, variables, layer.mean(), layer.stddev())
    elif kind in ("Hadamard", "Kronecker", "Sum", "CPT", "Tucker", "TensorDot"):
        factors = list(np.moveaxis(below, 1, 0))
        if kind in ("Hadamard", "CPT"):
            units = products(factors)
        elif kind in ("Kronecker", "Tucker"):
            units = outer_products(factors)
        else:
            units = below.reshape(len(below), -1)
        if kind in ("Hadamard", "Kronecker"):
            return units
        weights = numbers(layer.weight())
        if kind != "TensorDot":
            return sums(weights, units[:, None])
        # every slice of the units is summed by the same weights
        slices = units.reshape(len(units), weights.shape[2], -1).swapaxes(1, 2)
        return sums(weights[:, None], slices[:, :, None]).reshape(len(units), -1)
    raise CircuitError(
        "Circuits have categorical, embedding and normalised Gaussian inputs, sums, and Hadamard "
        f"and Kronecker products. That of libcirkit has a {type(layer).__name__}."
    )


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
    dense = dense_layers(circuit, "libcirkit")
    symbolic = imported("cirkit.symbolic.circuit", "libcirkit")
    layers = imported("cirkit.symbolic.layers", "libcirkit")
    parameters = imported("cirkit.symbolic.parameters", "libcirkit")
    initializers = imported("cirkit.symbolic.initializers", "libcirkit")
    scopes = imported("cirkit.utils.scope", "libcirkit")
    below: dict[Any, list[Any]] = {}

    def add(layer: Any, inputs: list[Any], weights: Any = None) -> Any:
        below[layer] = inputs
        if weights is None:
            return layer
        made = layers.SumLayer(weights.shape[1], len(weights), weight=parameter(weights))
        return add(made, [layer])

    def parameter(values: Any) -> Any:
        start = initializers.ConstantTensorInitializer(np.array(values))
        tensor = parameters.TensorParameter(*values.shape, initializer=start)
        return parameters.Parameter.from_input(tensor)

    def leaf(node: int, variable: int) -> Any:
        scope, found = scopes.Scope([variable]), dense[node]
        table = found.table
        if table is None:
            sizes = {"mean": parameter(found.mean), "stddev": parameter(found.deviation)}
            layer = layers.GaussianLayer(scope, len(found.mean), **sizes)
        elif (table >= 0).all() and np.allclose(table.sum(axis=1), 1.0, rtol=0, atol=ROUNDING):
            sizes = {"num_categories": table.shape[1], "probs": parameter(table)}
            layer = layers.CategoricalLayer(scope, len(table), **sizes)
        else:
            sizes = {"num_states": table.shape[1], "weight": parameter(table)}
            layer = layers.EmbeddingLayer(scope, len(table), **sizes)
        return add(layer, [], found.weights)

    def inner(node: int, left: Any, right: Any) -> Any:
        kind = layers.KroneckerLayer if dense[node].kronecker else layers.HadamardLayer
        return add(kind(left.num_output_units), [left, right], dense[node].weights)

    top = from_leaves(circuit.vtree, leaf, inner)[-1]
    return symbolic.Circuit(list(below), below, [top])


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
        return inputs(make, leaf.scope.query, *parameters)

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
        return products(self.units(module.inputs))[None]

    def _Factorize(self, module: Any) -> Any:
        units, chosen = self.units(module.inputs[0]), numbers(module.indices) > 0
        n_out, n_repetitions = chosen.shape[1:]
        units = np.broadcast_to(units, (*units.shape[:2], n_repetitions))
        found = [
            [products(list(units[chosen[:, o, r], :, r])) for r in range(n_repetitions)]
            for o in range(n_out)
        ]
        return np.moveaxis(np.array(found, dtype=object), 1, 2)

    def _ElementwiseProduct(self, module: Any) -> Any:
        return products(self._factors(module))

    def _OuterProduct(self, module: Any) -> Any:
        factors = [np.moveaxis(one, 1, 2) for one in self._factors(module)]
        return np.moveaxis(outer_products(factors), 2, 1)

    def _Sum(self, module: Any) -> Any:
        weights = np.moveaxis(numbers(module.weights), 1, 3)  # features, out, repetitions, in
        return _sum_channels(weights, self.units(module.inputs))

    def _ElementwiseSum(self, module: Any) -> Any:
        units = np.stack(np.broadcast_arrays(*self._factors(module)), axis=-1)
        weights = np.moveaxis(numbers(module.weights), 3, 4)  # features, in, out, repetitions, i
        found = sums(weights, units[:, :, None])
        return found.reshape(len(found), -1, found.shape[-1])

    def _RepetitionMixingLayer(self, module: Any) -> Any:
        return sums(numbers(module.weights)[:, :, None], self.units(module.inputs)[:, :, None])

    def _LinsumLayer(self, module: Any) -> Any:
        return _sum_channels(numbers(module.log_weights.exp()), self._ElementwiseProduct(module))

    def _EinsumLayer(self, module: Any) -> Any:
        weights = numbers(module.log_weights.exp())
        return _sum_channels(weights.reshape(*weights.shape[:3], -1), self._OuterProduct(module))


def _sum_channels(weights: Any, units: Any) -> Any:
    """Sums over the channels of units, the second axis, with weights in the last one."""
    return sums(weights, np.moveaxis(units, 1, 2)[:, None])


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
    circuit = circuit.normalize()
    dense = dense_layers(circuit, "SPFlow")
    leaves = imported("spflow.modules.leaves", "spflow")
    multiplied = imported("spflow.modules.products", "spflow")
    added = imported("spflow.modules.sums", "spflow")
    torch = imported("torch", "torch")

    def logs(values: Any, what: str) -> Any:
        off = np.abs(values.sum(axis=1) - 1.0).max()
        if (values < 0).any() or not off <= ROUNDING:
            raise CircuitError(
                f"The sums and tables of SPFlow are probabilities. The {what} are negative, or do "
                f"not sum to one, even after normalisation (off by {off:.3g})."
            )
        return torch.log(torch.tensor(values, dtype=torch.float64))

    def add(module: Any, weights: Any, where: str) -> Any:
        if weights is None:
            return module
        made = added.Sum(module, out_channels=len(weights))
        own = logs(weights, f"weights of {where}").T[None, :, :, None]
        made.logits = torch.nn.Parameter(own.contiguous())
        return made

    def leaf(node: int, variable: int) -> Any:
        found = dense[node]
        if found.table is not None:
            own = logs(found.table, f"values of variable {variable}")
            # constructors take no probabilities that are zero
            module = leaves.Categorical(variable, len(own), K=own.shape[1])
            module._logits = torch.nn.Parameter(own[None, :, None])
            return module
        mean, deviation = (
            torch.tensor(values, dtype=torch.float64)[None, :, None]
            for values in (found.mean, found.deviation)
        )
        normal = leaves.Normal(variable, loc=mean, scale=deviation)
        return add(normal, found.weights, f"variable {variable}")

    def inner(node: int, left: Any, right: Any) -> Any:
        kind = multiplied.OuterProduct if dense[node].kronecker else multiplied.Product
        return add(kind([left, right]), dense[node].weights, "an inner node")

    return from_leaves(circuit.vtree, leaf, inner)[-1]


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


def _graphical_model(
    names: Sequence[Any],
    states: Sequence[Sequence[Any]],
    tables: Iterable[tuple[Sequence[Any], Any]],
    directed: bool,
) -> FactorGraph:
    """The model of tables with the names of their axes; in a network the variable comes last."""
    number = {name: v for v, name in enumerate(names)}
    factors = [([number[name] for name in scope], table) for scope, table in tables]
    called = list(map(str, names))
    if not directed:
        return FactorGraph([len(labels) for labels in states], factors, called, states)
    parents = [scope[:-1] for scope, _ in factors]
    return BayesianNetwork(parents, [table for _, table in factors], called, states)


def _from_pyagrum(model: Any) -> FactorGraph:
    directed = hasattr(model, "cpt")
    ids = sorted(model.nodes())
    variables = [model.variable(i) for i in ids]
    tensors = map(model.cpt, ids) if directed else map(model.factor, model.factors())
    # arrays have the axes in reverse order
    tables = [(tensor.names[::-1], tensor.toarray()) for tensor in tensors]
    states = [list(variable.labels()) for variable in variables]
    return _graphical_model([variable.name() for variable in variables], states, tables, directed)


def _from_pgmpy(model: Any) -> FactorGraph:
    names, directed = list(model.nodes()), hasattr(model, "get_cpds")
    states: dict[Any, list[Any]] = {}
    if directed:
        cpds = {cpd.variable: cpd for cpd in model.get_cpds()}
        factors = [cpds[name] for name in names if name in cpds]
        states = {name: list(cpd.state_names[name]) for name, cpd in cpds.items()}
        needs, advice = "its probabilities", ": fit the network, or add them with add_cpds."
    else:
        factors = model.get_factors()
        for factor in factors:
            for name in factor.variables:
                states.setdefault(name, list(factor.state_names[name]))
        needs, advice = "a factor", "."
    for name in names:
        if name not in states:
            raise CircuitError(
                f"Every variable of a network needs {needs}. {name!r} has none{advice}"
            )
    tables = [(factor.variables, _pgmpy_table(factor, states)) for factor in factors]
    if directed:
        tables = [((*scope[1:], scope[0]), np.moveaxis(t, 0, -1)) for scope, t in tables]
    return _graphical_model(names, [states[name] for name in names], tables, directed)


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
    names, states = _labels(model, "to_pyagrum")
    directed = isinstance(model, BayesianNetwork)
    made = gum.BayesNet() if directed else gum.MarkovRandomField()
    for name, labels in zip(names, states, strict=True):
        made.add(gum.LabelizedVariable(name, name, list(map(str, labels))))
    if isinstance(model, BayesianNetwork):
        for v, above in enumerate(model.parents):
            for parent in above:
                made.addArc(names[parent], names[v])
        for v, table in enumerate(model.cpts):
            axes = [*range(table.ndim - 2, -1, -1), table.ndim - 1]  # parents in reverse order
            made.cpt(names[v])[:] = np.ascontiguousarray(np.transpose(table, axes))
        return made
    for scope, table in _by_scope(model):
        made.addFactor([names[v] for v in scope])
        tensor = made.factor([names[v] for v in scope])
        axes = [names.index(name) for name in tensor.names[::-1]]
        tensor[:] = np.ascontiguousarray(np.transpose(table, [scope.index(v) for v in axes]))
    return made


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
    names, states = _labels(model, "to_pgmpy")
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


def _labels(model: Any, function: str) -> tuple[list[str], list[list[Any]]]:
    """The names of the variables of a model and of their states, made up where it has none."""
    if not isinstance(model, FactorGraph):
        raise CircuitError(
            f"{function} works on BayesianNetworks and FactorGraphs. "
            f"Got {type(model).__name__} instead."
        )
    names = model.names or [f"x{v}" for v in range(model.n_variables)]
    return names, model.states or [list(range(card)) for card in model.cardinalities]


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


PARAMETERS = ("variable", "probs", "mean", "variance")
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
    graph = networkx.Graph() if type(model) is FactorGraph else networkx.DiGraph()
    if isinstance(model, Vtree):
        for node, variable in enumerate(model.variable.tolist()):
            graph.add_node(node, **({"variable": variable} if variable >= 0 else {}))
            if variable < 0:
                graph.add_edge(node, int(model.left[node]), side="left")
                graph.add_edge(node, int(model.right[node]), side="right")
    elif isinstance(model, Circuit):
        _add_circuit(graph, model.to("numpy"))
    elif isinstance(model, Unit):
        _add_units(graph, model)
    elif isinstance(model, FactorGraph):
        _add_factors(graph, model)
    else:
        raise CircuitError(
            "Graphs are made of Circuits, units, Vtrees, FactorGraphs and BayesianNetworks. "
            f"Got {type(model).__name__} instead."
        )
    return graph


def _add_units(graph: Any, root: Unit) -> None:
    found = Graph(root)
    for i, unit in enumerate(found.units):
        facts = {name: getattr(unit, name) for name in PARAMETERS if hasattr(unit, name)}
        graph.add_node(i, kind=unit.kind, **facts)
        for j, below in enumerate(found.inputs[i]):
            more = {"weight": float(unit.weights[j])} if unit.kind == "sum" else {}  # type: ignore[attr-defined]
            graph.add_edge(i, below, **more)


def _add_circuit(graph: Any, circuit: Circuit) -> None:
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


def _add_factors(graph: Any, model: FactorGraph) -> None:
    names: Any = model.names or range(model.n_variables)
    directed = isinstance(model, BayesianNetwork)
    for v, cardinality in enumerate(model.cardinalities):
        facts = {"table": np.asarray(model.factors[v].table)} if directed else {"bipartite": 0}
        graph.add_node(names[v], cardinality=cardinality, **facts)
    for i, factor in enumerate(model.factors):
        node, others = ("factor", i), factor.scope
        if directed:
            node, others = names[i], factor.scope[:-1]
        else:
            graph.add_node(node, table=np.asarray(factor.table), bipartite=1)
        graph.add_edges_from((names[v], node) for v in others)
