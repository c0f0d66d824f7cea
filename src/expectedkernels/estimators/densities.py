"""Densities: the circuits that say what missing values could be."""

from __future__ import annotations

import copy
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from expectedkernels.circuits.alignment import in_order
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.compilation.others import converted
from expectedkernels.errors import DataError
from expectedkernels.estimators.averages import AverageDensity
from expectedkernels.estimators.circuits import AnyDensity, CircuitDensity
from expectedkernels.estimators.columns import MOST_BYTES, Columns
from expectedkernels.estimators.normals import NormalDensity
from expectedkernels.estimators.scaling import Scaling, learn_scaling, numeric_columns
from expectedkernels.estimators.variables import (
    Variable,
    check_circuit,
    codes_variable,
    completed_groups,
)
from expectedkernels.learning.chow_liu import content_tree
from expectedkernels.learning.mixtures import learn_mixture
from expectedkernels.learning.normals import (
    NormalMixture,
    fit_mixture,
    fit_normal,
    kernel_mixture,
    log_likelihood,
)
from expectedkernels.learning.orders import own_order
from expectedkernels.learning.strudel import learn_strudel

NORMALS = ("gaussian", "kernel", "gaussian_mixture")
NAMES = ("auto", *NORMALS, "chow_liu", "strudel", "mixture")
REMOVED = {"diagonal_mixture": "use 'gaussian_mixture', or a fitted GaussianMixture"}
MIXTURES = ("gaussian_mixture", "mixture")
"""Densities that have a number of components, which may be given: a pair of name and number."""

COVARIANCES = 8
"""About how many matrices of all columns a normal distribution needs at once."""


class Learner(Protocol):
    """An object that learns a circuit, its `circuit_`."""

    def fit(self, X: Any) -> Any:
        """Learn the circuit of the rows of X."""


DensityLike = str | tuple[str, int] | Circuit | FactorGraph | Learner
"""One of the names above (with a number of components), a known density, or what learns one."""

STRUDEL_SPLITS = 50
MIXTURE_COMPONENTS = 8
TOLERANCE = 0.01
"""Mixtures of trees are learned until a step gains less in the mean log-likelihood: more steps are
no better for rows that are held out."""
FULL_COMPONENTS = (1, 2, 4, 8)
"""Numbers of normal distributions with full covariances to choose from."""
WIDTH = 0.6
"""The width of kernels around training rows, in deviations of the table."""


def learn_density(density: Any, columns: Columns, Z: Any, *, n_bins: int, rng: Any) -> AnyDensity:
    """The density of columns of numbers, learned from rows with or without missing values.

    Parameters
    ----------
    density : one of `NAMES`, pair, Circuit, model, or object with fit and circuit_
    columns : Columns
    Z : array of shape (rows, columns)
    n_bins : int
    rng : Generator
    """
    density, n = named(density)
    if hasattr(density, "compile"):
        density = density.circuit()
    if isinstance(density, Circuit):
        categories = {i: known.tolist() for i, known in columns.categories.items()}
        density = in_order(density, columns.names, categories)
        variables = _given(columns, Z, density)
        return CircuitDensity(density, check_circuit(density, variables, "The density"))
    if isinstance(density, str) and density == "gaussian_mixture":
        Z = Z[own_order(Z)[0]]  # what starts at random starts with the same rows
    variables = columns.variables(Z, n_bins)
    Z = completed_groups(variables, Z)
    if isinstance(density, str) and density in NORMALS:
        return _normal(density, n, columns, variables, Z, rng)
    if isinstance(density, str) and density == "auto":
        return _averaged(columns, variables, Z, rng)
    states = as_states(variables, Z)
    circuit = _learned(density, states, variables, columns, rng, n)
    variables = check_circuit(circuit, variables, "The circuit of the density")
    return CircuitDensity(circuit, variables)


def named(density: Any) -> tuple[Any, int | None]:
    """A density without its number of components, and this; raises if it is no such pair."""
    if not isinstance(density, tuple):
        return converted(density), None
    name, n = density if len(density) == 2 else (None, None)
    if name not in MIXTURES or isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
        raise DataError(
            "The 'density' parameter as a pair must be a name and a number of components, such as "
            f"('gaussian_mixture', 3); names are {', '.join(map(repr, MIXTURES))}. Got {density!r}."
        )
    return name, int(n)


def known_labels(density: Any) -> dict[Any, Any]:
    """The labels of the states of a density that is given, by names of variables."""
    density = named(density)[0]
    names, states = getattr(density, "names", None), getattr(density, "states", None)
    if names is None or states is None:
        return {}
    return {name: labels for name, labels in zip(names, states, strict=True) if labels is not None}


def parts_of(learned: AnyDensity, density: Any) -> tuple[list[str], Any]:
    """The names of the densities that a learned one averages, and their weights."""
    if isinstance(learned, AverageDensity):
        return learned.names, learned.weights
    if isinstance(density, tuple):
        density = f"{density[0]}({density[1]})"
    return [density if isinstance(density, str) else type(density).__name__], np.ones(1)


def as_states(variables: list[Variable], Z: Any) -> Any:
    """Rows as states of the variables, NaN where they are not observed."""
    states = np.empty((len(Z), len(variables)))
    for i, variable in enumerate(variables):
        said = variable.say(Z)
        states[:, i] = np.where(said.state >= 0, said.state, np.nan)
    return states


def _learned(
    density: Any, states: Any, variables: list[Variable], columns: Columns, rng: Any, n: Any = None
) -> Any:
    cards = [max(2, variable.n_states or 2) for variable in variables]
    if isinstance(density, str):
        if density == "chow_liu":
            tree = content_tree(states, cards, columns.variable_names)
            return Circuit.from_blocks(tree.vtree, tree.blocks)
        rows, order = own_order(states)
        states = states[rows][:, order]
        options: Any = {"cardinalities": [cards[i] for i in order], "progress": False}
        if density == "strudel":
            circuit = learn_strudel(states, iterations=STRUDEL_SPLITS, **options)
        else:
            n = min(n or MIXTURE_COMPONENTS, len(states))
            circuit = learn_mixture(states, n, splits=0, tolerance=TOLERANCE, rng=rng, **options)
        names = [str(i) for i in order]
        ordered = in_order(circuit.with_names(names), [str(i) for i in range(len(cards))])
        return Circuit(ordered.vtree, ordered.blocks)
    model = clone(density) if hasattr(density, "get_params") else copy.deepcopy(density)
    model.fit(states)
    found = getattr(model, "circuit_", None)
    if not isinstance(found, Circuit):
        raise DataError(
            "A density with a 'fit' method must have a Circuit as 'circuit_' after it. "
            f"Got {type(found).__name__} from {type(model).__name__}."
        )
    return found


def _standard(columns: Columns, Z: Any) -> tuple[Scaling, Any]:
    """How numeric columns are standardised, and the columns that are; raises if they are many."""
    size = COVARIANCES * 8 * Z.shape[1] ** 2
    if size > MOST_BYTES:
        raise DataError(
            f"A normal distribution of {Z.shape[1]} columns, one for every category, takes about "
            f"{size / 2**30:.1f} GiB, more than {MOST_BYTES / 2**30:.3g} GiB. Put categories "
            "together, leave out identifiers, or set density='chow_liu'."
        )
    scaling = learn_scaling(Z, *numeric_columns(columns))
    return scaling, scaling.apply(Z)


def _normal(
    name: str, n: int | None, columns: Columns, variables: list[Variable], Z: Any, rng: Any
) -> NormalDensity:
    scaling, x = _standard(columns, Z)
    if name == "gaussian_mixture":
        found = _validated_mixture(x, rng) if n is None else fit_mixture(x, n, rng=rng)
        return NormalDensity(found, scaling, variables)
    mixture = fit_normal(x)
    if name == "kernel":
        mixture = kernel_mixture(x, mixture, WIDTH, rng)
    return NormalDensity(mixture, scaling, variables)


def _validated_mixture(x: Any, rng: Any) -> NormalMixture:
    """As many components as are best for a fifth of the rows that is held out."""
    order = rng.permutation(len(x))
    held, rest = x[order[: len(x) // 5]], x[order[len(x) // 5 :]]
    choices = [n for n in FULL_COMPONENTS if n == 1 or n * x.shape[1] <= len(rest)]
    best = 1
    if len(held) and len(choices) > 1:
        fits = [log_likelihood(fit_mixture(rest, n, rng=rng), held).mean() for n in choices]
        best = choices[int(np.argmax(fits))]
    return fit_mixture(x, best, rng=rng)


def _averaged(columns: Columns, variables: list[Variable], Z: Any, rng: Any) -> AverageDensity:
    """The average of a normal distribution and kernels around rows, or a tree if all is states."""
    scaling, x = _standard(columns, Z)
    normal = fit_normal(x)
    parts: dict[str, Any] = {"gaussian": NormalDensity(normal, scaling, variables)}
    if numeric_columns(columns)[1].any():
        kernel = kernel_mixture(x, normal, WIDTH, rng)
        parts[f"kernel({WIDTH})"] = NormalDensity(kernel, scaling, variables)
    else:
        tree = _learned("chow_liu", as_states(variables, Z), variables, columns, rng)
        variables = check_circuit(tree, variables, "The circuit of the density")
        parts["chow_liu"] = CircuitDensity(tree, variables)
    return AverageDensity([*parts.values()], np.full(2, 0.5), [*parts], variables)


def _given(columns: Columns, Z: Any, circuit: Circuit) -> list[Variable]:
    """Variables by a circuit that is given: numeric columns hold its states, or real values."""
    variables = columns.variables(Z, 2)
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
