"""Samples as they would be under the hypothesis that they come from a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from expectedkernels.arrays import as_generator, cumulative, drawn
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.compilation.bayesian import BayesianNetwork, forward_samples
from expectedkernels.discrepancies.outcomes import largest, rank_p_value
from expectedkernels.errors import DataError, PropertyError, SizeError
from expectedkernels.kernels.defaults import refuse_features
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.rows import sample_rows, sample_weights
from expectedkernels.kernels.target import Target

ENUMERATED = 2**18
"""Functions of up to this many states are asked for all of them, and sampled exactly."""

SWEEPS = 5
"""How often the Gibbs chains of a null distribution update every variable, back and forth."""

BATCH = 2**22
"""How many entries of simulated samples are held at once."""

KernelsLike = Kernel | Sequence[Kernel] | str | None
"""One kernel, several, "aggregate" for a grid around the default, or None for that."""

Statistic = Callable[[Any], Any]
"""From samples (m, n, variables) to statistics (kernels, m)."""

REFIT_COPIES = 10
"""How many copies of samples the model is fitted to that others are simulated from."""


def complete_samples(model: Any, samples: Any) -> Any:
    """The complete, equally weighted samples of a test, (n, variables), at least two."""
    points = sample_rows(model, samples)
    if len(points) < 2:
        raise DataError(f"A test needs at least two samples. Got {len(points)}.")
    refuse_gaps(points)
    refuse_weights(sample_weights(samples))
    return points


def refuse_gaps(points: Any) -> None:
    """Raise if samples have missing or infinite values."""
    infinite = np.argwhere(np.isinf(points))
    if len(infinite):
        row, column = infinite[0]
        raise DataError(
            f"A test is of finite samples. Got {points[row, column]} in row {row}, column {column}."
        )
    missing = np.isnan(points)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise DataError(
            f"A test is of complete samples. Got NaN in row {row}, column {column} (in "
            f"{int(missing.any(axis=1).sum())} of {len(points)} rows). Leave such rows out if "
            "values are missing at random; rows that were filled in do not come from the model."
        )


def refuse_weights(weights: Any) -> None:
    """Raise if samples do not count alike."""
    if weights is not None and not np.allclose(weights, weights[0], rtol=1e-9, atol=0.0):
        raise DataError(
            "A test is of samples that count alike, and these have different weights. Give their "
            "rows alone to test where they come from, or ask kdsd or mmd2 for their weighted "
            "discrepancy."
        )


def null_generator(rng: Any) -> Any:
    """The random generator of a test, which does not repeat samples drawn with the same seed.

    Examples
    --------
    >>> null_generator(0).random() == np.random.default_rng(0).random()
    False
    """
    generator = as_generator(rng)
    return generator if generator is rng else generator.spawn(1)[0]


def every_state(cardinalities: Any) -> Any:
    """All states of some variables, one per row, the last varying fastest.

    Examples
    --------
    >>> every_state([2, 2]).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return np.indices(tuple(cardinalities)).reshape(len(cardinalities), -1).T


def states_of(target: Target) -> tuple[Any, Any]:
    """All states of a function, one per row, and their probabilities.

    Examples
    --------
    >>> states, chances = states_of(Target(lambda X: np.log(1.0 + X[:, 0]), [2]))
    >>> states.tolist(), chances.round(6).tolist()
    ([[0], [1]], [0.333333, 0.666667])
    """
    states = every_state(target.cardinalities)
    logs = target.log_prob(states)
    top = logs.max()
    if top == -np.inf:
        raise DataError(f"The target is zero at all of its {len(states)} states.")
    chances = np.exp(logs - top)
    return states, chances / chances.sum()


def is_small(target: Any) -> bool:
    """Whether this is a function of so few states that all of them are asked."""
    return isinstance(target, Target) and prod(target.cardinalities) <= ENUMERATED


def model_sampler(target: Any, rng: Any) -> Callable[[int], Any] | None:
    """A function that draws independent rows of a target, None if nothing exact is known.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> model_sampler(ek.asia(), np.random.default_rng(0))(3).shape
    (3, 8)
    """
    if is_small(target):
        states, chances = states_of(target)
        edges = cumulative(chances[None])[0]
        return lambda n: states[np.searchsorted(edges, rng.random(n), "right")]
    if isinstance(target, Circuit):
        circuit = target.to("numpy")
        return lambda n: circuit.sample(n, rng)
    if isinstance(target, Target) or not hasattr(target, "sample"):
        return None
    if isinstance(target, BayesianNetwork):
        return lambda n: forward_samples(target, n, rng, {}).astype(np.float64)
    try:
        target.sample(1, rng=0)  # compiles, once
    except SizeError:
        return None
    return lambda n: target.sample(n, rng)


def null_drawer(target: Any, points: Any, null: str, rng: Any) -> tuple[str, Callable[[int], Any]]:
    """How simulated samples come about, and a function that draws m of them, (m, n, variables).

    Parameters
    ----------
    target : Circuit, FactorGraph, Target, or anything with `site_logs` and `cardinalities`
    points : array of shape (n, variables)
        The observed samples.
    null : "auto", "model" or "gibbs"
        "auto": the first if it is possible.
    rng : Generator
    """
    draw = None if null == "gibbs" else model_sampler(target, rng)
    if draw is not None:
        n, d = points.shape
        return "model", lambda m: draw(m * n).reshape(m, n, d)
    if null == "model":
        raise PropertyError(
            f"The target cannot be sampled exactly: {_why(target)}. Use null='gibbs', chains that "
            "start from the samples and keep the level all the same."
        )
    hub = gibbs_sweeps(target, points, range(points.shape[1])[::-1], rng)
    return "gibbs", lambda m: chains_from(target, hub, m, rng)


def _why(target: Any) -> str:
    if isinstance(target, Target):
        return f"it is a function of more than {ENUMERATED} states"
    return "it is too large to compile" if hasattr(target, "sample") else "it has no samples"


def chains_from(target: Any, hub: Any, m: int, rng: Any) -> Any:
    r"""Samples that are exchangeable with those whose reversed chains have led to a hub.

    Let P be the transition of a chain that leaves the target invariant, and Q its reversal.
    If x comes from the target and h from Q given x, then x has, given h, the distribution of a
    step of P from h. So m more steps of P from h are as good as x: given h, all of
    them are independent and have one distribution, however slowly the chain mixes.

    J. Besag and P. Clifford, "Generalized Monte Carlo significance tests", Biometrika 1989.
    """
    start = np.tile(hub, (m, 1))
    ends = gibbs_sweeps(target, start, range(hub.shape[1]), rng)
    return ends.reshape(m, *hub.shape)


def gibbs_sweeps(target: Any, points: Any, order: Sequence[int], rng: Any) -> Any:
    """Points after some sweeps of Gibbs updates, variables in an order.

    The order backwards is the reversed chain.
    """
    rows = points.astype(np.intp)
    every = np.arange(len(rows))
    here = target.log_prob(rows) if isinstance(target, Target) else None
    for _ in range(SWEEPS):
        for v in order:
            if target.cardinalities[v] == 1:
                continue
            if here is None:
                logs = np.asarray(target.site_logs(rows, v))
            else:  # what is known of a function is not asked again
                logs = _around(target, rows, v, here)
            weights = np.exp(logs - logs.max(axis=1, keepdims=True))
            rows[:, v] = drawn(cumulative(weights), rng.random(len(rows)))
            here = None if here is None else logs[every, rows[:, v]]
    return rows.astype(np.float64)


def _around(target: Target, rows: Any, v: int, here: Any) -> Any:
    """The logs of a function at rows with one variable in every state, given those at the rows."""
    n, card = len(rows), target.cardinalities[v]
    others = np.tile(rows, (card - 1, 1))
    steps = np.repeat(np.arange(1, card), n)
    others[:, v] = (others[:, v] + steps) % card
    logs = np.empty((n, card))
    logs[np.arange(n), rows[:, v]] = here
    logs[np.tile(np.arange(n), card - 1), others[:, v]] = target.log_prob(others)
    return logs


def simulated(
    observed: Any, statistic: Statistic, draw: Callable[[int], Any], size: int, n_null: int
) -> Any:
    """The observed statistics, and those of simulated samples of a size, (kernels, 1 + n_null)."""
    step = max(1, BATCH // size)
    found = [observed]
    for start in range(0, n_null, step):
        found.append(statistic(draw(min(step, n_null - start))))
    return np.concatenate(found, axis=1)


def kernels_of(
    k: Any, make: Callable[[float], Kernel], categorical_features: Any = None
) -> list[Kernel]:
    """The kernels of a test: one, several, or a grid around the default.

    Parameters
    ----------
    k : Kernel, sequence of kernels, "aggregate" or None
    make : function
        From a factor of the rates to the default kernel with these rates.
    categorical_features
        What chooses the default kernel, and so stands beside no other.
    """
    if k is None:
        return [make(1.0)]
    if isinstance(k, str) and k == "aggregate":
        return [make(scale) for scale in (0.5, 1.0, 2.0, 4.0, 8.0)]
    refuse_features(categorical_features)
    if isinstance(k, (list, tuple)):
        if not k:
            raise DataError("A test needs at least one kernel. Got an empty list.")
        return list(k)
    return [k]


def outcome(found: Any, drawn: str, kernels: list[Kernel]) -> dict[str, Any]:
    """What tests have in common, from the statistics of the observed and the simulated samples."""
    top, best = largest(found) if len(kernels) > 1 else (found[0], 0)
    null = np.array(top[1:])
    null.flags.writeable = False
    statistic = float(top[0])
    return {
        "statistic": statistic,
        "p_value": rank_p_value(statistic, null),
        "null": null,
        "drawn": drawn,
        "kernel": kernels[best],
    }


def refitted(statistic_of: Callable[[Any], Statistic]) -> Statistic:
    """The statistics of samples, each with a model of its own."""

    def statistic(samples: Any) -> Any:
        return np.concatenate([statistic_of(X)(X[None]) for X in samples], axis=1)

    return statistic


def simulated_source(refit: Callable[[Any], Any], points: Any) -> Any:
    """The model that samples are simulated from if models are fitted to samples.

    It is fitted to several copies of the samples: what a fit adds to them (pseudocounts) hardly
    counts then. Draws of the fit to the samples themselves show more rare states than these do,
    and samples that show none would be rejected for it.
    """
    return refit(np.tile(points, (REFIT_COPIES, 1)))


def check_refit(refit: Any) -> None:
    """Raise unless this is a function, or None."""
    if refit is not None and not callable(refit):
        raise DataError(
            "The 'refit' parameter of a test must be a function from samples to a model. "
            f"Got {type(refit).__name__} instead."
        )
