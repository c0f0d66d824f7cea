"""Circuits of SPFlow as ours, and back."""

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
"""Weights are normalised if their sum is this near to one."""


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
        return _summed(weights, np.moveaxis(self.units(module.inputs), 1, 2)[:, None])

    def _ElementwiseSum(self, module: Any) -> Any:
        units = np.stack(np.broadcast_arrays(*self._factors(module)), axis=-1)
        weights = np.moveaxis(numbers(module.weights), 3, 4)  # features, in, out, repetitions, i
        found = _summed(weights, units[:, :, None])
        return found.reshape(len(found), -1, found.shape[-1])

    def _RepetitionMixingLayer(self, module: Any) -> Any:
        return _summed(numbers(module.weights)[:, :, None], self.units(module.inputs)[:, :, None])

    def _LinsumLayer(self, module: Any) -> Any:
        units = products(*self._factors(module))
        return _summed(numbers(module.log_weights.exp()), np.moveaxis(units, 1, 2)[:, None])

    def _EinsumLayer(self, module: Any) -> Any:
        pairs = _with_channels_last(outer_products, self._factors(module))
        weights = numbers(module.log_weights.exp())
        weights = weights.reshape(*weights.shape[:3], -1)
        return _summed(weights, np.moveaxis(pairs, 1, 2)[:, None])


def _with_channels_last(function: Any, factors: list[Any]) -> Any:
    return np.moveaxis(function([np.moveaxis(one, 1, 2) for one in factors]), 2, 1)


def _summed(weights: Any, units: Any) -> Any:
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
    return written(normal, dense_layers(normal, "SPFlow"), _Writer())


class _Writer:
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
