"""Models of pgmpy, pyAgrum, scikit-learn, cirkit, SPFlow and networkx."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from expectedkernels.checks import CircuitError, SizeError, imported
from expectedkernels.circuits.build import gaussian_mixture
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Categorical, Gaussian, Graph, Product, Sum, Unit
from expectedkernels.engine.blocks import from_leaves, from_root
from expectedkernels.models.factor_graph import BayesianNetwork, FactorGraph, converted
from expectedkernels.vtree import Vtree

MOST_WEIGHTS = 2**27
"""A circuit with more weights than this, zeros included, is not written as dense layers."""


def numbers(tensor: Any) -> Any:
    """The numbers of a tensor of torch, in NumPy and in double precision."""
    array = tensor.detach().cpu().numpy()
    if np.iscomplexobj(array):
        raise CircuitError("Circuits have real weights. The parameters here are complex numbers.")
    return array.astype(np.float64)


def products(factors: Sequence[Any]) -> Any:
    """The elementwise products of arrays of units, which are broadcast against each other."""
    if len(factors) == 1:
        return factors[0]
    return np.frompyfunc(lambda *units: Product(list(units)), len(factors), 1)(*factors)


def outer_products(factors: Sequence[Any]) -> Any:
    """The products of all tuples of units along the last axis, the first factor slowest."""
    n = len(factors)
    last = [(None,) * i + (slice(None),) + (None,) * (n - 1 - i) for i in range(n)]
    made = products([factor[(..., *axes)] for factor, axes in zip(factors, last, strict=True)])
    return made.reshape(*made.shape[:-n], -1)


def _sum(weights: Any, units: Any) -> Unit:
    used = np.flatnonzero(weights) if weights.any() else [0]
    return Sum(list(units[used]), weights[used])


sums = np.vectorize(_sum, otypes=[object], signature="(n),(n)->()")
"""Sums over the last axis of arrays that are broadcast, zero weights left out."""


def _tables(variable: int, rows: Any) -> Any:
    """The discrete inputs of a variable with these rows of values, in an array."""
    return np.vectorize(Categorical, otypes=[object], signature="(),(n)->()")(variable, rows)


def _bernoullis(variable: int, q: Any) -> Any:
    return _tables(variable, np.stack([1.0 - q, q], axis=-1))


def _binomials(variable: int, q: Any, n: Any) -> Any:
    from scipy import stats  # which takes a while, and nobody else here needs

    states = np.arange(int(n.max()) + 1)
    return _tables(variable, stats.binom.pmf(states, n[..., None], q[..., None]))


def _normals(variable: int, means: Any, deviations: Any) -> Any:
    """The normal inputs of a variable with these means and standard deviations, in an array."""
    made = np.frompyfunc(lambda m, s: Gaussian(variable, float(m), float(s) ** 2), 2, 1)
    return made(means, deviations)


def inputs(make: Callable[..., Any], variables: Sequence[int], *parameters: Any) -> Any:
    """The input units of several variables, each with parameters of its own, in an array."""
    arrays = [numbers(parameter) for parameter in parameters]
    return np.stack([make(v, *own) for v, *own in zip(variables, *arrays, strict=True)])


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
    found = type(circuit).__name__
    if isinstance(circuit, Circuit):
        found = "" if circuit.n_roots == 1 else f"one with {circuit.n_roots} roots"
    if found:
        rule = f"A model for {library} is made of a Circuit: compile graphical models first"
        raise CircuitError(f"{rule}, and give one root. Got {found} instead.")
    blocks: Any = circuit.to("numpy").blocks
    vtree = circuit.vtree

    def leaf(node: int, variable: int, rows: Any) -> Dense:
        block = blocks[node]
        if block.cardinality == 1:
            rule = f"The discrete variables of {library} have at least two states"
            raise CircuitError(f"{rule}. Variable {variable} has one: marginalise it.")
        if block.cardinality is not None:
            return Dense(table=block.numbers[rows])
        if block.half is not None or not (block.variance > 0).all():
            rule = f"The real inputs of {library} are normal distributions"
            raise CircuitError(f"{rule}. Those of variable {variable} have intervals or points.")
        weights = _written_out(block.numbers[rows], node, library)
        return Dense(None, block.mean, np.sqrt(block.variance), weights=weights)

    def inner(node: int, rows: Any) -> tuple[Dense, Any, Any]:
        block = blocks[node]
        a, b = block.inputs
        if block.numbers is None:
            return Dense(), a[rows], b[rows]
        weights = _written_out(block.csr[rows], node, library)
        n = blocks[int(vtree.left[node])].n_units
        if n > 1 and blocks[int(vtree.right[node])].n_units == n and len(a) == n * n:
            order = np.lexsort((b, a))
            if np.array_equal(a[order] * n + b[order], np.arange(n * n)):
                every = np.arange(n)
                return Dense(kronecker=True, weights=weights[:, order]), every, every
        return Dense(weights=weights), a, b

    return from_root(vtree, np.zeros(1, dtype=np.intp), leaf, inner)


def _written_out(matrix: Any, node: int, library: str) -> Any:
    rows, columns = matrix.shape
    if rows * columns > MOST_WEIGHTS:
        found = f"At vtree node {node} one would have {rows} times {columns} weights, mostly zeros"
        raise SizeError(f"The layers of {library} are dense. {found}; the limit is {MOST_WEIGHTS}.")
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
        rule = "The parameters of a circuit of libcirkit are those of its compiled form"
        found = f"Got {type(circuit).__name__} instead"
        raise CircuitError(f"{rule}: pass what cirkit.pipeline.compile makes of it. {found}.")
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
            return inputs(_tables, variables, probs)
        if kind == "Embedding":
            return inputs(_tables, variables, layer.weight())
        if kind == "Gaussian" and layer.log_partition is None:
            return inputs(_normals, variables, layer.mean(), layer.stddev())
    elif kind in ("Hadamard", "Kronecker", "Sum", "CPT", "Tucker", "TensorDot"):
        units, factors = below.reshape(len(below), -1), list(np.moveaxis(below, 1, 0))
        if kind not in ("Sum", "TensorDot"):
            units = (products if kind in ("Hadamard", "CPT") else outer_products)(factors)
        if kind in ("Hadamard", "Kronecker"):
            return units
        weights = numbers(layer.weight())
        if kind != "TensorDot":
            return sums(weights, units[:, None])
        # every slice of the units is summed by the same weights
        slices = units.reshape(len(units), weights.shape[2], -1).swapaxes(1, 2)
        return sums(weights[:, None], slices[:, :, None]).reshape(len(units), -1)
    known = "categorical, embedding and normalised Gaussian inputs, sums, Hadamard and Kronecker"
    found = f"That of libcirkit has a {type(layer).__name__}"
    raise CircuitError(f"Circuits have {known} products. {found}.")


def to_cirkit(circuit: Circuit) -> Any:
    """A circuit as a symbolic circuit of libcirkit, whose parameters start at its own.

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
    symbolic, layers, parameters, initializers = (
        imported(f"cirkit.symbolic.{name}", "libcirkit")
        for name in ("circuit", "layers", "parameters", "initializers")
    )
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
            return add(layers.GaussianLayer(scope, len(found.mean), **sizes), [], found.weights)
        if (table >= 0).all() and np.allclose(table.sum(axis=1), 1.0, rtol=0, atol=ROUNDING):
            sizes = {"num_categories": table.shape[1], "probs": parameter(table)}
            return add(layers.CategoricalLayer(scope, len(table), **sizes), [])
        sizes = {"num_states": table.shape[1], "weight": parameter(table)}
        return add(layers.EmbeddingLayer(scope, len(table), **sizes), [])

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
    roots = _spflow_units(module, {}).ravel()
    if len(roots) != 1:
        raise CircuitError(f"A circuit has one output. The module of SPFlow has {len(roots)}.")
    return Circuit.from_units(roots[0])


SPFLOW_LEAVES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "Categorical": (_tables, ("probs",)),
    "Bernoulli": (_bernoullis, ("probs",)),
    "Binomial": (_binomials, ("probs", "total_count")),
    "Normal": (_normals, ("loc", "scale")),
}
"""What makes the inputs of SPFlow's leaves, and where their parameters are."""


def _spflow_units(module: Any, found: dict[int, Any]) -> Any:
    """The units of a module, features by channels by repetitions; of a split a list of these."""
    if hasattr(module, "root_node"):
        return _spflow_units(module.root_node, found)
    if id(module) not in found:
        found[id(module)] = _read_spflow(module, type(module).__name__, found)
    return found[id(module)]


def _read_spflow(module: Any, kind: str, found: dict[int, Any]) -> Any:
    if kind in SPFLOW_LEAVES:
        if module.is_conditional:
            what = f"The parameters of SPFlow's {kind} come from a network"
            raise CircuitError(f"{what}, so that there is no circuit but for single rows.")
        make, names = SPFLOW_LEAVES[kind]
        return inputs(make, module.scope.query, *(getattr(module, name) for name in names))
    below = getattr(module, "inputs", [])
    several = [below] if hasattr(below, "out_shape") else list(below)
    units: Any = [_spflow_units(one, found) for one in several]
    first: Any = units[0] if units else None
    if kind == "SplitConsecutive":
        return np.split(first, module.num_splits)
    if kind == "SplitInterleaved":
        return [first[i :: module.num_splits] for i in range(module.num_splits)]
    if kind == "SplitByIndex":
        return [first[group] for group in module.indices]
    units = first if isinstance(first, list) else units
    if kind == "Cat":
        return np.concatenate(units, axis=module.dim - 1)
    if kind == "Product":
        return products(units[0])[None]
    if kind == "ElementwiseProduct":
        return products(units)
    if kind == "OuterProduct":
        return _outer_channels(units)
    if kind == "Factorize":
        chosen = numbers(module.indices) > 0
        n_out, n_repetitions = chosen.shape[1:]
        units = np.broadcast_to(units[0], (*units[0].shape[:2], n_repetitions))
        made = [
            [products(list(units[chosen[:, o, r], :, r])) for r in range(n_repetitions)]
            for o in range(n_out)
        ]
        return np.moveaxis(np.array(made, dtype=object), 1, 2)
    # weights by features, channels, repetitions and what is summed
    if kind == "Sum":
        return _sum_channels(np.moveaxis(numbers(module.weights), 1, 3), units[0])
    if kind == "RepetitionMixingLayer":
        return sums(numbers(module.weights)[:, :, None], units[0][:, :, None])
    if kind == "LinsumLayer":
        return _sum_channels(numbers(module.log_weights.exp()), products(units))
    if kind == "EinsumLayer":
        weights = numbers(module.log_weights.exp())
        return _sum_channels(weights.reshape(*weights.shape[:3], -1), _outer_channels(units))
    if kind == "ElementwiseSum":
        stacked = np.stack(np.broadcast_arrays(*units), axis=-1)
        weights = np.moveaxis(numbers(module.weights), 3, 4)  # features, in, out, repetitions, i
        made = sums(weights, stacked[:, :, None])
        return made.reshape(len(made), -1, made.shape[-1])
    rule = "Circuits are sums and products of categorical and normal inputs"
    raise CircuitError(f"{rule}. SPFlow's {kind} is none of these.")


def _outer_channels(below: list[Any]) -> Any:
    return np.moveaxis(outer_products([np.moveaxis(one, 1, 2) for one in below]), 2, 1)


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
    dense_layers(circuit, "SPFlow")  # what does not fit raises before anything is computed
    total = float(circuit.log_partition())
    if abs(total) > ROUNDING:
        found = f"The log of the circuit's sum is {total:.6g}, not zero: call its normalize() first"
        raise CircuitError(f"The sums of SPFlow are normalised. {found}.")
    circuit = circuit.normalize()
    dense = dense_layers(circuit, "SPFlow")
    leaves, multiplied, added = (
        imported(f"spflow.modules.{name}", "spflow") for name in ("leaves", "products", "sums")
    )
    torch = imported("torch", "torch")

    def logs(values: Any, what: str) -> Any:
        off = np.abs(values.sum(axis=1) - 1.0).max()
        if (values < 0).any() or not off <= ROUNDING:
            found = f"The {what} are negative, or do not sum to one (off by {off:.3g})"
            raise CircuitError(f"The sums and tables of SPFlow are probabilities. {found}.")
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
        pair = found.mean, found.deviation
        mean, deviation = (torch.tensor(x, dtype=torch.float64)[None, :, None] for x in pair)
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
    known = (
        "FactorGraphs, BayesianNetworks and Circuits of this library, networks of pyAgrum and "
        "pgmpy, circuits of libcirkit and SPFlow, and GaussianMixtures of scikit-learn"
    )
    raise CircuitError(f"Models are {known}. Got {type(obj).__module__}.{type(obj).__qualname__}.")


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


def from_pyagrum(model: Any) -> FactorGraph:
    """The model of a Bayesian network or Markov random field of pyAgrum."""
    directed = hasattr(model, "cpt")
    ids = sorted(model.nodes())
    variables = [model.variable(i) for i in ids]
    tensors = map(model.cpt, ids) if directed else map(model.factor, model.factors())
    # arrays have the axes in reverse order
    tables = [(tensor.names[::-1], tensor.toarray()) for tensor in tensors]
    states = [list(variable.labels()) for variable in variables]
    return _graphical_model([variable.name() for variable in variables], states, tables, directed)


def from_pgmpy(model: Any) -> FactorGraph:
    """The model of a discrete Bayesian or Markov network of pgmpy."""
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
    for name in [name for name in names if name not in states]:
        raise CircuitError(f"Every variable of a network needs {needs}. {name!r} has none{advice}")
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
            place = f"{states[name]} in one table of the network and {own} in another"
            raise CircuitError(f"The states of {name!r} are {place}.")
        table = np.take(table, [own.index(state) for state in states[name]], axis=axis)
    return table


def from_gaussian_mixture(mixture: Any) -> Circuit:
    """The circuit of a diagonal or spherical mixture of scikit-learn."""
    kind = mixture.covariance_type
    if kind not in ("diag", "spherical"):
        rule = "A GaussianMixture becomes a circuit if its coordinates are independent"
        advice = "in every component: fit it with covariance_type='diag' or 'spherical'"
        raise CircuitError(f"{rule} {advice}. Got {kind!r}.")
    if not hasattr(mixture, "weights_"):
        advice = "For what is cloned, as by GridSearchCV, give as_model(mixture)"
        raise CircuitError(f"The GaussianMixture is not fitted yet: call its fit first. {advice}.")
    means, variances = mixture.means_, mixture.covariances_
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
    names, states, tables = _labelled_tables(model, "to_pyagrum")
    directed = isinstance(model, BayesianNetwork)
    made = gum.BayesNet() if directed else gum.MarkovRandomField()
    for name, labels in zip(names, states, strict=True):
        made.add(gum.LabelizedVariable(name, name, list(map(str, labels))))
    for scope, table in tables:
        called = [names[v] for v in scope]
        if directed:
            for parent in called[:-1]:
                made.addArc(parent, called[-1])
        else:
            made.addFactor(called)
        tensor = made.cpt(called[-1]) if directed else made.factor(called)
        axes = [called.index(name) for name in tensor.names[::-1]]  # arrays have them in reverse
        tensor[:] = np.ascontiguousarray(np.transpose(table, axes))
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
    names, states, tables = _labelled_tables(model, "to_pgmpy")
    directed = isinstance(model, BayesianNetwork)
    made = models.DiscreteBayesianNetwork() if directed else models.DiscreteMarkovNetwork()
    made.add_nodes_from(names)
    for scope, table in tables:
        called = [names[v] for v in scope]
        own = {names[v]: list(states[v]) for v in scope}
        if not directed:
            made.add_edges_from(combinations(called, 2))
            made.add_factors(discrete.DiscreteFactor(called, table.shape, table, state_names=own))
            continue
        *parents, name = called
        made.add_edges_from((parent, name) for parent in parents)
        values = np.moveaxis(table, -1, 0).reshape(table.shape[-1], -1)
        above = (parents, table.shape[:-1]) if parents else (None, None)
        made.add_cpds(discrete.TabularCPD(name, table.shape[-1], values, *above, state_names=own))
    return made


def _labelled_tables(
    model: Any, function: str
) -> tuple[list[str], list[list[Any]], list[tuple[tuple[int, ...], Any]]]:
    """The names of variables and states, made up where there are none, and scopes with tables.

    Those of a network are its conditionals, the variable last. Of other models there is one table
    for every set of variables, and one for each variable; constants are left out.
    """
    if not isinstance(model, FactorGraph):
        rule = f"{function} works on BayesianNetworks and FactorGraphs"
        raise CircuitError(f"{rule}. Got {type(model).__name__} instead.")
    names = model.names or [f"x{v}" for v in range(model.n_variables)]
    states = [list(model.schema.labels(v) or range(n)) for v, n in enumerate(model.cardinalities)]
    if isinstance(model, BayesianNetwork):
        return names, states, [(factor.scope, factor.table) for factor in model.factors]
    tables: dict[Any, Any] = {(v,): np.ones(c) for v, c in enumerate(model.cardinalities)}
    for factor in model.factors:
        scope = tuple(sorted(factor.scope))
        table = np.transpose(factor.table, [factor.scope.index(v) for v in scope])
        tables[scope] = tables.get(scope, 1.0) * table
    tables.pop((), None)
    return names, states, list(tables.items())


PARAMETERS = ("variable", "probs", "mean", "variance")
"""What input units of the families have, or a part of it."""


def to_networkx(model: Circuit | Unit | Vtree | FactorGraph) -> Any:
    """The graph of a circuit, a vtree or a graphical model, to be drawn or searched by networkx.

    Parameters
    ----------
    model : Circuit, Unit, Vtree, FactorGraph or BayesianNetwork
        What to convert.

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
        found = Graph(model)
        for unit, below in zip(found.units, found.inputs, strict=True):
            facts = {name: getattr(unit, name) for name in PARAMETERS if hasattr(unit, name)}
            weights = getattr(unit, "weights", None) if unit.kind == "sum" else None
            _add_unit(graph, unit.kind, below, weights, **facts)
    elif isinstance(model, FactorGraph):
        _add_factors(graph, model)
    else:
        rule = "Graphs are made of Circuits, units, Vtrees, FactorGraphs and BayesianNetworks"
        raise CircuitError(f"{rule}. Got {type(model).__name__} instead.")
    return graph


def _add_unit(graph: Any, kind: str, inputs: Any, edges: Any = None, **facts: Any) -> int:
    """Add a unit and its edges, with their weights; returns its number."""
    number = len(graph)
    graph.add_node(number, kind=kind, **facts)
    for i, below in enumerate(inputs):
        graph.add_edge(number, int(below), **({} if edges is None else {"weight": float(edges[i])}))
    return number


def _add_circuit(graph: Any, circuit: Circuit) -> None:
    """The units of a circuit; sums that only pass a product on are left out."""
    blocks: Any = circuit.blocks
    called: Any = circuit.names or range(circuit.n_variables)
    add = partial(_add_unit, graph)

    def leaf(node: int, variable: int) -> Any:
        block, facts = blocks[node], {"variable": called[variable]}
        if block.cardinality is not None:
            return np.array([add("input", (), probs=row, **facts) for row in block.numbers])
        facts |= {"mean": block.mean, "variance": block.variance, "half": block.halves}
        return np.array([add("input", (), weights=row, **facts) for row in block.numbers])

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
