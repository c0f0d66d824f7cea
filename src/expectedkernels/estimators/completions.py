"""Few completions of rows with missing values, chosen by Bayesian quadrature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.discrepancies.quadrature import (
    best_weights,
    candidate_points,
    embedding_of,
    gram_columns,
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


def completions_of(
    circuit: Circuit, evidence: Any, n: int, kernel: Kernel, rng: Any
) -> tuple[Any, Any]:
    """At most n completions of one row of evidence, and weights that sum to one.

    If there are no more than n possible ones, all of them, with their probabilities.
    """
    embedding = embedding_of(circuit, kernel, evidence, "A set of completions")
    points = candidate_points(embedding.circuit, n, rng)
    if len(points) <= n and None not in circuit.cardinalities:
        return points, np.exp(embedding.circuit.log_likelihood(points))
    column, diagonal = gram_columns(kernel, points)
    points = points[sequential_choice(column, diagonal, embedding.at(points), n)]
    return points, best_weights(embedding, points, normalize=True)


def expected_answers(
    model: Any,
    rows: Rows,
    circuit: Circuit,
    n: int,
    kernel: Kernel | None,
    rng: Any,
) -> tuple[Any, Any]:
    """The means of a model's answers over the completions of rows, and deviations."""
    circuit = circuit.normalize()
    kernel = default_kernel(circuit, scale=SHARPER) if kernel is None else kernel
    first, number = rows.distinct
    sets = [
        completions_of(circuit, rows.states.rows(first[i : i + 1]), n, kernel, rng)
        for i in range(len(first))
    ]
    owner = np.repeat(np.arange(len(rows)), [len(sets[i][1]) for i in number])
    states, weights = (np.concatenate([sets[i][part] for i in number]) for part in (0, 1))
    answers = model(filled(rows, owner, states))
    mean = np.zeros((len(rows), *answers.shape[1:]))
    square = np.zeros_like(mean)
    share = weights.reshape(-1, *[1] * (answers.ndim - 1))
    np.add.at(mean, owner, share * answers)
    np.add.at(square, owner, share * (answers - mean[owner]) ** 2)
    # weights may be negative, and a variance may not
    return mean, np.sqrt(np.maximum(square, 0.0))


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
