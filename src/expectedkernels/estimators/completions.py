"""Few completions of rows with missing values, chosen by herding and Bayesian quadrature."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.discrepancies.quadrature import (
    best_weights,
    candidate_points,
    embedding_of,
    gram_columns,
    greedy_choice,
    sequential_choice,
)
from expectedkernels.errors import DataError
from expectedkernels.estimators.circuits import filled
from expectedkernels.estimators.rows import Rows
from expectedkernels.kernels.defaults import default_kernel
from expectedkernels.kernels.functions import values_of
from expectedkernels.kernels.kernel import Kernel

SHARPER = 4.0
"""Models are rougher than the default kernel: its rates are multiplied by this."""


class Completions(NamedTuple):
    """States of the variables given one row, their weights, and how far they are from the truth."""

    states: Any
    weights: Any
    mmd: float


def completions_of(
    circuit: Circuit, evidence: Any, n: int, kernel: Kernel, rng: Any, equal: bool = False
) -> Completions:
    """At most n completions of one row of evidence, with weights that sum to one.

    If there are no more than n possible ones, all of them, with their probabilities. With `equal`
    there are n with equal weights in any case, and some may be repeated.
    """
    embedding = embedding_of(circuit, kernel, evidence, "A set of completions")
    points = candidate_points(embedding.circuit, n, rng)
    if len(points) <= n and not equal and None not in circuit.cardinalities:
        return Completions(points, np.exp(embedding.circuit.log_likelihood(points)), 0.0)
    column, diagonal = gram_columns(kernel, points)
    choose = greedy_choice if equal else sequential_choice
    points = points[choose(column, diagonal, embedding.at(points), n)]
    weights = np.full(n, 1.0 / n) if equal else best_weights(embedding, points, normalize=True)
    return Completions(points, weights, sqrt(embedding.squared_mmd(points, weights)))


def herded_states(rows: Rows, circuit: Circuit, n: int, rng: Any) -> Any:
    """Equally weighted completions that stand for what is missing, (rows, n, variables)."""
    circuit = circuit.normalize()
    kernel, (first, number) = default_kernel(circuit), rows.distinct
    found = [
        completions_of(circuit, rows.states.rows(first[i : i + 1]), n, kernel, rng, equal=True)
        for i in range(len(first))
    ]
    # the first to be chosen are typical, and should not all be in the first completion
    return np.stack([found[i].states[rng.permutation(n)] for i in number])


def expected_answers(
    model: Any,
    rows: Rows,
    circuit: Circuit,
    n: int,
    kernel: Kernel | None,
    rng: Any,
) -> tuple[Any, Any, Any]:
    """The means of a model's answers over the completions of rows, deviations and bounds."""
    circuit = circuit.normalize()
    kernel = default_kernel(circuit, scale=SHARPER) if kernel is None else kernel
    first, number = rows.distinct
    sets = [
        completions_of(circuit, rows.states.rows(first[i : i + 1]), n, kernel, rng)
        for i in range(len(first))
    ]
    owner = np.repeat(np.arange(len(rows)), [len(sets[i].weights) for i in number])
    weights = np.concatenate([sets[i].weights for i in number])
    states = np.concatenate([sets[i].states for i in number])
    answers = model(filled(rows, owner, states))
    mean = np.zeros((len(rows), *answers.shape[1:]))
    square = np.zeros_like(mean)
    share = weights.reshape(-1, *[1] * (answers.ndim - 1))
    np.add.at(mean, owner, share * answers)
    np.add.at(square, owner, share * (answers - mean[owner]) ** 2)
    # weights may be negative, and a variance may not
    return mean, np.sqrt(np.maximum(square, 0.0)), np.array([sets[i].mmd for i in number])


def answers_of(model: Any) -> Callable[[Any], Any]:
    """The function from complete rows to the numbers that a model is asked for.

    Probabilities of classes, decision functions or predictions, whatever comes first; a model that
    is a function is asked itself.
    """
    known = not isinstance(model, type) and hasattr(model, "__sklearn_tags__")
    labels = known and is_classifier(model)
    methods = ["predict_proba", "decision_function"] if labels else ["predict_proba", "predict"]
    found = (getattr(model, method, None) for method in methods)
    function: Any = next((method for method in found if method is not None), model)
    if labels and function is model:
        raise DataError(
            f"Averages of labels mean nothing, and {type(model).__name__} has neither "
            "predict_proba nor decision_function. Give a function of rows that says numbers."
        )
    if not callable(function) or isinstance(model, type):
        raise DataError(
            "Expected prediction is that of a fitted model with predict or predict_proba, or of a "
            f"function of rows. Got {model!r}."
        )
    names = getattr(model, "feature_names_in_", None)

    def answers(Z: Any) -> Any:
        if names is None:
            return values_of(function, Z, "The model", True, several=True)
        return np.asarray(function(_frame(Z, names)), dtype=np.float64)

    return answers


def _frame(Z: Any, names: Any) -> Any:
    """Rows as the data frame that a model was fitted to."""
    import pandas as pd  # models that know names of columns were fitted to frames

    return pd.DataFrame(Z, columns=names)
