"""Expected predictions of any fitted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import _check_feature_names

from expectedkernels.arrays import DEFAULT_MAX_BYTES, Array, RngLike, RowsLike, as_generator
from expectedkernels.checks import DataError, check_count, check_real, removed
from expectedkernels.circuits.circuit import Circuit, in_order
from expectedkernels.discrepancies import quadrature
from expectedkernels.estimators import encoding
from expectedkernels.estimators.circuit_density import CircuitDensity, filled
from expectedkernels.estimators.kernel_expansion import Resources, as_expansion, expect, read_rows
from expectedkernels.kernels.empirical import default_kernel
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.target import values_of

SHARPER = 4.0
"""Models are rougher than the default kernel: its gammas are multiplied by this."""


def completions_of(
    circuit: Circuit, evidence: Any, n: int, kernel: Kernel, rng: Any
) -> tuple[Any, Any]:
    """At most n completions of one row of evidence, and weights that sum to one.

    If there are no more than n possible ones, all of them, with their probabilities.
    """
    embedding = quadrature.embedding_of(circuit, kernel, evidence, "A set of completions")
    points = quadrature.candidate_points(embedding.circuit, n, rng)
    if len(points) <= n and None not in circuit.cardinalities:
        return points, np.exp(embedding.circuit.log_likelihood(points))
    column, diagonal = quadrature.gram_columns(kernel, points)
    points = points[quadrature.sequential_choice(column, diagonal, n, embedding.at(points))]
    return points, quadrature.best_weights(embedding, points, normalize=True)


def expected_answers(
    model: Any, density: CircuitDensity, Z: Any, n: int, kernel: Kernel | None, rng: Any
) -> tuple[Any, Any]:
    """The means of a model's outputs over few completions of every row, and deviations."""
    incomplete, rows = read_rows(density, Z)
    if not len(Z):
        return np.zeros(0), np.zeros(0)
    owner = np.setdiff1d(np.arange(len(Z)), incomplete)
    points, weights = Z[owner], np.ones(len(owner))
    if len(incomplete):
        circuit = density.circuit.normalize()
        kernel = default_kernel(circuit, scale=SHARPER) if kernel is None else kernel
        first, number = rows.distinct
        distinct = (rows.states.rows(first[i : i + 1]) for i in range(len(first)))
        sets = [completions_of(circuit, evidence, n, kernel, rng) for evidence in distinct]
        row = np.repeat(np.arange(len(rows)), [len(sets[i][1]) for i in number])
        states, shares = (np.concatenate([sets[i][part] for i in number]) for part in (0, 1))
        owner, weights = np.append(owner, incomplete[row]), np.append(weights, shares)
        points = np.concatenate([points, filled(rows, row, states)])
    answers = model(points)
    mean = np.zeros((len(Z), *answers.shape[1:]))
    square = np.zeros_like(mean)
    share = weights.reshape(-1, *[1] * (answers.ndim - 1))
    np.add.at(mean, owner, share * answers)
    np.add.at(square, owner, share * (answers - mean[owner]) ** 2)
    # weights may be negative, and a variance may not
    return mean, np.sqrt(np.maximum(square, 0.0))


def answers_of(model: Any) -> Callable[[Any], Any]:
    """The function from complete rows to the outputs of a model.

    Probabilities of classes, decision functions or predictions, whatever comes first; or the model,
    if it is a function.
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
        import pandas as pd  # models that know names of columns were fitted to frames

        return np.asarray(function(pd.DataFrame(Z, columns=names)), dtype=np.float64)

    return answers


@removed(return_bound="for the discrepancy of few points see 'herd', whose result has 'mmd'")
def expected_prediction(
    fitted_model: object,
    circuit: Circuit,
    X: RowsLike,
    return_std: bool = False,
    std_tol: float = 0.01,
    *,
    n_completions: int = 10,
    kernel: Kernel | None = None,
    groups: Sequence[int | Sequence[int]] | None = None,
    n_jobs: int | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    rng: RngLike = 0,
) -> Array:
    r"""The expectation of a fitted model's prediction over the missing values.

    .. math:: E[f(x) \mid x_{obs}], \quad x \sim p

    Complete rows get the model's own prediction; a row of nothing but missing values gets E[f].
    It is exact for kernel models, :math:`f(x) = \sum_j a_j k(s_j, x) + b`. Any other model is
    evaluated at a few completions of each row, with the weights of a Bayesian quadrature (see
    `herd`).

    Parameters
    ----------
    fitted_model : model with predict_proba or predict, or function of an array of rows
        Fitted to columns that are integer-coded states, one-hot bits, or real values. Exact for
        SVR, NuSVR, SVC, NuSVC, KernelRidge and GaussianProcessRegressor of scikit-learn with an
        RBF kernel; forests, boosting, networks, pipelines and whatever else by completions.
    circuit : Circuit
        The distribution of the columns. A discrete variable has a column of states 0, 1, ...,
        or one bit per state; a real variable has a column of its values.
    X : array of shape (rows, columns)
        NaN is missing.
    return_std : bool
        Also return the standard deviation of the prediction that is due to the missing values:
        zero for complete rows, and no interval for the target. For Gaussian processes their own
        variance is included.
    std_tol : float
        The relative error that standard deviations may have; 0 asks for exact ones, which take
        all pairs of support vectors. Those of Gaussian processes, and of few support vectors, are
        exact in any case; those by completions are estimates that do not heed it.
    n_completions : int
        For other models: at how many completions of a row they are evaluated. If a row has no more
        possible ones, all are used, and the result is exact.
    kernel : Kernel, optional
        That of the quadrature, over the variables of the circuit. Default: that of `herd`, with
        four times its gammas.
    groups : sequence of int or lists of int, optional
        For every variable of the circuit its column, or the columns of its one-hot bits. Default:
        one column per variable, or, if there are as many columns as states of all variables
        together, the bits of one variable after the other.
    n_jobs : int, optional
        Number of threads, or of workers of the backend that `joblib.parallel_config` names.
    max_bytes : int
        Rows are worked on in chunks so that intermediate values stay below this.
    rng : int, Generator or None
        Completions are chosen among samples, if there are more than max(1000, 10 n_completions).

    Returns
    -------
    array of shape (rows,) or (rows, outputs), or two of them with the deviations
        For SVC and NuSVC the expected decision function: one value for two classes, one for every
        pair of classes otherwise. For other classifiers the expected probabilities of classes, or
        the decision function if there are none.

    Raises
    ------
    DataError
        If X does not have the columns of the model, or a model or circuit does not fit.

    Notes
    -----
    The result is consistent when values are missing (completely) at random, f is the best
    predictor and the circuit is right. The sign of an expected decision function is not the
    expectation of its sign.

    Cost: one sweep over the circuit for all rows that differ in what they say, against all
    distinct support vectors. The exact standard deviation needs all pairs of support vectors that
    differ in the missing columns, row by row; to a tolerance, all of them and a few functions (10
    or so) that they are combinations of. Completions cost an expected kernel with 1000 samples
    for each row that differs, and `n_completions` predictions. All that they use of the model is
    that it is smooth: for a forest with leaves of single rows, which is not, 30 of them are about
    as good as 10 for one with leaves of five.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> from sklearn.svm import SVR
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = SVR(C=100.0, epsilon=0.001, gamma=1.0).fit(X, [0.0, 1.0, 2.0, 3.0])
    >>> p = ek.factorized([[0.5, 0.5], [0.25, 0.75]])
    >>> mean, std = expected_prediction(model, p, [[1, np.nan], [0, 1]], return_std=True)
    >>> mean.round(3).tolist(), std.round(3).tolist()
    ([2.749, 1.001], [0.433, 0.0])
    >>> product = expected_prediction(lambda X: X[:, 0] * X[:, 1], p, [[1, np.nan], [np.nan] * 2])
    >>> product.round(6).tolist()
    [0.75, 0.375]
    """
    check_real("expected_prediction", "std_tol", std_tol, error=DataError)
    check_count("expected_prediction", "n_completions", n_completions, 1, error=DataError)
    if isinstance(X, Circuit):
        raise DataError(
            "The circuit and the rows are swapped. The call is expected_prediction(model, circuit, "
            "X)."
        )
    table = encoding.read_table(X, least=0)
    model = as_expansion(fitted_model)
    answers = answers_of(fitted_model) if model is None else None
    n_columns = getattr(fitted_model, "n_features_in_", None)
    if model is not None:
        n_columns = model.expansion.points.shape[1]
    if table.is_frame and hasattr(fitted_model, "feature_names_in_"):
        _check_feature_names(fitted_model, X, reset=False)
    named = table.names if table.is_frame else None
    names = getattr(fitted_model, "feature_names_in_", named)
    every = range(len(table.columns))
    rows = table.numbers(every, "Encode it as for the model.", least=0)
    n_columns = rows.shape[1] if n_columns is None else n_columns
    if rows.shape[1] != n_columns:
        raise DataError(
            f"X must have {n_columns} columns, as the model was fitted with. Got {rows.shape[1]}."
        )
    if groups is None and names is not None and isinstance(circuit, Circuit):
        circuit = in_order(circuit, list(names))
    density = coded_density(circuit, n_columns, groups)
    encoding.require_states(density.variables, rows)
    rows = encoding.complete_groups(density.variables, rows)
    if model is None:
        found = expected_answers(answers, density, rows, n_completions, kernel, as_generator(rng))
        return found if return_std else found[0]
    resources = Resources(n_jobs, max_bytes, std_tol)
    return expect(model, density, rows, resources, return_std)


def coded_density(
    circuit: Any, n_columns: int, groups: Sequence[Any] | None = None
) -> CircuitDensity:
    """A circuit over columns of states, one-hot bits or real values."""
    if not isinstance(circuit, Circuit):
        raise DataError(
            f"The 'circuit' parameter must be a Circuit. Got {type(circuit).__name__} instead."
        )
    cards = circuit.cardinalities
    if groups is None:
        groups = _guessed_groups(cards, n_columns)
    if len(groups) != len(cards):
        raise DataError(
            f"The 'groups' parameter needs one entry per variable of the circuit, {len(cards)} in "
            f"all. Got {len(groups)}."
        )
    places = [np.atleast_1d(np.asarray(group, dtype=np.intp)) for group in groups]
    for columns, cardinality in zip(places, cards, strict=True):
        if cardinality != len(columns) > 1:
            raise DataError(
                f"A group of {len(columns)} one-hot columns needs a variable with as many states. "
                f"Got {cardinality}."
            )
    used = np.sort(np.concatenate(places))
    if not np.array_equal(used, np.arange(n_columns)):
        raise DataError(
            f"The 'groups' parameter must name every column in 0..{n_columns - 1} once. "
            f"Got {used.tolist()}."
        )
    variables = [
        encoding.states_variable(x, np.eye(len(x))) if len(x) > 1 else encoding.Variable(x)
        for x in places
    ]
    return CircuitDensity(circuit, encoding.check_circuit(circuit, variables, "The circuit"))


def _guessed_groups(cards: Sequence[int | None], n_columns: int) -> list[Any]:
    if len(cards) == n_columns:
        return list(range(n_columns))
    stops = np.cumsum([c or 0 for c in cards])
    if None not in cards and stops[-1] == n_columns:
        return np.split(np.arange(n_columns), stops[:-1])
    raise DataError(
        f"The circuit must be over {n_columns} variables, one for every column of the model, or "
        f"have {n_columns} states in all, one for every one-hot column. Got a circuit over "
        f"{len(cards)} variables. The 'groups' parameter says which columns are whose."
    )
