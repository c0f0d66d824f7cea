"""Densities: the circuits that say what missing values could be."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from expectedkernels.circuits.alignment import in_order
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.inputs import Input, Normal
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.compilation.others import converted
from expectedkernels.engine.blocks import Inner
from expectedkernels.errors import DataError
from expectedkernels.estimators.columns import Columns
from expectedkernels.estimators.rows import Density
from expectedkernels.estimators.variables import (
    Variable,
    check_circuit,
    codes_variable,
    completed_groups,
)
from expectedkernels.learning.chow_liu import learn_chow_liu
from expectedkernels.learning.mixtures import learn_mixture
from expectedkernels.learning.strudel import learn_strudel

NAMES = ("chow_liu", "strudel", "mixture")


class Learner(Protocol):
    """An object that learns a circuit, its `circuit_`."""

    def fit(self, X: Any) -> Any:
        """Learn the circuit of the rows of X."""


DensityLike = str | Circuit | FactorGraph | Learner
"""One of the names above, a density that is known, or something that learns one."""

STRUDEL_SPLITS = 50
MIXTURE_COMPONENTS = 8
SMALLEST_VARIANCE = 1e-4
"""The variance of a normal piece is at least this share of its column's."""


def learn_density(
    density: Any, columns: Columns, Z: Any, *, n_bins: int, binning: str, rng: Any
) -> Density:
    """The density of columns of numbers, learned from rows with or without missing values.

    Parameters
    ----------
    density : {"chow_liu", "strudel", "mixture"}, Circuit, model, or object with fit and circuit_
    columns : Columns
    Z : array of shape (rows, columns)
    n_bins : int
    binning : {"quantile", "uniform", "gaussian"}
        How numeric columns become states; "gaussian" replaces every quantile bin by the normal
        density with its mean and variance.
    rng : Generator
    """
    density = converted(density)
    if hasattr(density, "compile"):
        density = density.compile()[0]
    if isinstance(density, Circuit):
        categories = {i: known.tolist() for i, known in columns.categories.items()}
        density = in_order(density, columns.names, categories)
        variables = _given(columns, Z, density)
        return Density(density, check_circuit(density, variables, "The density"))
    variables = columns.variables(Z, n_bins, "quantile" if binning == "gaussian" else binning)
    Z = completed_groups(variables, Z)
    states = as_states(variables, Z)
    circuit = _learned(density, states, variables, rng)
    variables = check_circuit(circuit, variables, "The circuit of the density")
    if binning == "gaussian":
        circuit, variables = _with_normals(circuit, variables, Z, states)
    return Density(circuit, variables)


def as_states(variables: list[Variable], Z: Any) -> Any:
    """Rows as states of the variables, NaN where they are not observed."""
    states = np.empty((len(Z), len(variables)))
    for i, variable in enumerate(variables):
        said = variable.say(Z)
        states[:, i] = np.where(said.state >= 0, said.state, np.nan)
    return states


def _learned(density: Any, states: Any, variables: list[Variable], rng: Any) -> Any:
    cards = [max(2, variable.n_states or 2) for variable in variables]
    if isinstance(density, str):
        if density == "chow_liu":
            return learn_chow_liu(states, cardinalities=cards)
        if density == "strudel":
            return learn_strudel(
                states, iterations=STRUDEL_SPLITS, cardinalities=cards, rng=rng, progress=False
            )
        return learn_mixture(
            states,
            min(MIXTURE_COMPONENTS, len(states)),
            splits=0,
            cardinalities=cards,
            tolerance=1e-4,
            rng=rng,
            progress=False,
        )
    model = clone(density) if hasattr(density, "get_params") else copy.deepcopy(density)
    model.fit(states)
    circuit = getattr(model, "circuit_", None)
    if not isinstance(circuit, Circuit):
        raise DataError(
            "A density with a 'fit' method must have a Circuit as 'circuit_' after it. "
            f"Got {type(circuit).__name__} from {type(model).__name__}."
        )
    return circuit


def _given(columns: Columns, Z: Any, circuit: Circuit) -> list[Variable]:
    """Variables by a circuit that is given: numeric columns hold its states, or real values."""
    variables = columns.variables(Z, 2, "quantile")
    single = {int(columns.places[i][0]) for i in range(columns.n_columns)}
    single -= {int(columns.places[i][0]) for i in columns.categories}
    if circuit.n_variables != len(variables):
        return variables  # which is refused
    fitted = []
    for variable, cardinality in zip(variables, circuit.cardinalities, strict=True):
        column = int(variable.columns[0])
        if len(variable.columns) > 1 or column not in single:
            fitted.append(variable)
        elif cardinality is None:
            fitted.append(Variable(variable.columns))
        else:
            _check_states(columns, Z, column, cardinality)
            fitted.append(codes_variable(column, np.arange(cardinality)))
    return fitted


def _check_states(columns: Columns, Z: Any, column: int, cardinality: int) -> None:
    x = Z[:, column]
    bad = ~np.isnan(x) & ~np.isin(x, np.arange(cardinality))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        name = next(n for n, p in zip(columns.names, columns.places, strict=True) if column in p)
        raise DataError(
            f"With this circuit as density, column {name!r} must hold states 0..{cardinality - 1}. "
            f"Got {x[row]} in row {row}. Other densities are learned from real values."
        )


def _with_normals(
    circuit: Circuit, variables: list[Variable], Z: Any, states: Any
) -> tuple[Circuit, list[Variable]]:
    """The circuit with a normal density for every bin of a numeric column."""
    blocks: list[Input | Inner] = list(circuit.blocks)
    changed = list(variables)
    for i, variable in enumerate(variables):
        block = circuit.input(i)
        if variable.n_intervals == 0 or block.cardinality is None:
            continue
        pieces: Any = variable.pieces
        x, state = Z[:, variable.columns[0]], states[:, i]
        mean = pieces.centre[:, 0].copy()
        variance = ((pieces.high - pieces.low)[:, 0] ** 2) / 12.0
        for s in range(pieces.n):
            members = x[state == s]
            if len(members):
                mean[s], variance[s] = members.mean(), members.var()
        variance = np.maximum(variance, SMALLEST_VARIANCE * np.nanvar(x))
        blocks[circuit.vtree.leaf(i)] = Normal(block.numbers, mean, variance)
        changed[i] = replace(variable, pieces=None)
    return Circuit(circuit.vtree, tuple(blocks)), changed
