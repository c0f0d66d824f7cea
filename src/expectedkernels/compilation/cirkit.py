"""Circuits of libcirkit as ours, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.compilation.layers import (
    Dense,
    dense_layers,
    imported,
    normals,
    numbers,
    outer_products,
    products,
    sums,
    tables,
    written,
)
from expectedkernels.errors import CircuitError

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
            outputs.append(_units(entry.module, inputs))
    roots = outputs[-1].ravel()
    if len(roots) != 1:
        raise CircuitError(f"A circuit has one output. That of libcirkit has {len(roots)}.")
    return Circuit.from_units(roots[0])


def _units(layer: Any, inputs: Any) -> Any:
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
        return _summed(layer, inputs.reshape(len(inputs), -1))
    if kind == "CPT":
        return _summed(layer, products(*np.moveaxis(inputs, 1, 0)))
    if kind == "Tucker":
        return _summed(layer, outer_products(list(np.moveaxis(inputs, 1, 0))))
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


def _summed(layer: Any, inputs: Any) -> Any:
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
    writer = _Writer()
    top = written(circuit, dense_layers(circuit, "libcirkit"), writer)
    return symbolic.Circuit(list(writer.below), writer.below, [top])


class _Writer:
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
