"""Models with their exact mean embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from expectedkernels.arrays import on_host
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.queries import require_normalized
from expectedkernels.circuits.sides import check_single_root
from expectedkernels.compilation.factor import Factor
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.discrepancies.noise import Noise
from expectedkernels.discrepancies.nulls import (
    ENUMERATED,
    Statistic,
    every_state,
    is_small,
    states_of,
)
from expectedkernels.discrepancies.pairs import (
    counts_of,
    distinct_places,
    kernel_between,
    pair_means,
    row_sums,
)
from expectedkernels.errors import DataError
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.target import Target


@dataclass(frozen=True, eq=False)
class Summable:
    """A model whose embedding is known exactly.

    Attributes
    ----------
    circuit : Circuit
        Normalised, on the host.
    wide : bool
        Whether it is that of a function, a unit for every state: too wide to meet itself.
    """

    circuit: Circuit
    wide: bool = False

    def mean(self, k: Kernel) -> float:
        """The expected kernel of two independent draws."""
        if not self.wide:
            return float(on_host(expected_kernel(self.circuit, self.circuit, k)))
        states = every_state(self.circuit.cardinalities)
        return float(np.exp(self.circuit.log_likelihood(states)) @ self.embedding(states, k))

    def embedding(self, rows: Any, k: Kernel) -> Any:
        """The expected kernel of a draw and each of some rows."""
        return on_host(expected_kernel(self.circuit, rows, k))


def summable(model: Any, what: str = "A test") -> Summable:
    """A model with its exact embedding; raises if it has none. `what` is it that needs one."""
    if is_small(model):
        _, chances = states_of(model)
        table = Factor(range(len(model.cardinalities)), chances.reshape(model.cardinalities))
        graph = FactorGraph(model.cardinalities, [table], model.names, model.states)
        return Summable(graph.circuit(), wide=True)
    if isinstance(model, Target):
        raise DataError(
            "The embedding of a model is a sum over all states, and a function of more than "
            f"{ENUMERATED} states cannot be summed over. Give the model as a FactorGraph, or use "
            "kdsd_test, which needs no sum."
        )
    if hasattr(model, "compile"):
        model = model.circuit()
    if not isinstance(model, Circuit):
        raise DataError(
            "The model must be a Circuit, a FactorGraph, a BayesianNetwork, a network or mixture "
            f"of another library, or a Target. Got {type(model).__name__} instead; two sets of "
            "samples are compared by mmd_two_sample_test."
        )
    check_single_root(model, what)
    require_normalized(model, what)
    return Summable(model.to("numpy"))


def mmd_statistics(model: Summable, kernels: list[Kernel]) -> Statistic:
    """Unbiased estimates of squared discrepancies of samples from a model, a row per kernel."""
    means = [model.mean(k) for k in kernels]

    def statistics(samples: Any) -> Any:
        rows, place = distinct_places(samples)
        found = []
        for k, mean in zip(kernels, means, strict=True):
            within = pair_means(kernel_between(k, rows), place, len(rows))
            found.append(within - 2.0 * model.embedding(rows, k)[place].mean(axis=1) + mean)
        return np.stack(found)

    return statistics


def mmd_noise(model: Summable, k: Kernel, points: Any) -> tuple[float, Noise]:
    """The standard error of the estimate of a squared discrepancy, and what is behind it.

    The first by the means of h over the partners of points; the other by h centred at the points.
    """
    rows, place = distinct_places(points[None])
    n, counts = len(points), counts_of(place, len(rows))[0]
    kernel, embedded = kernel_between(k, rows), model.embedding(rows, k)
    # constants do not matter for the spread
    sums, squares, diagonal = row_sums(
        lambda a, b: kernel(a, b) - embedded[a][:, None] - embedded[b], counts
    )
    partners = (sums - diagonal) / (n - 1)
    error = 2.0 * sqrt(float(counts @ (partners - counts @ partners / n) ** 2) / (n - 1) / n)
    means = sums / n
    mean = float(counts @ means) / n
    own = diagonal - 2.0 * means + mean
    pairs = counts @ (squares - 2.0 * n * means**2 - own**2) + (n * mean) ** 2
    variance = 2.0 * max(0.0, float(pairs)) / (n * (n - 1) ** 3)
    return error, Noise(max(0.0, float(counts @ own)) / (n * (n - 1)), variance, n)
