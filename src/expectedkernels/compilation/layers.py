"""Circuits as dense layers, the form of tensor libraries: what ways to and from them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.units import Categorical, Gaussian, Product, Sum
from expectedkernels.engine.nodes import from_leaves, from_root
from expectedkernels.errors import CircuitError, SizeError

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
