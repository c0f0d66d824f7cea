"""Imputation, and expected kernel features."""

from __future__ import annotations

import warnings
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config

from expectedkernels.arrays import Array, RowsLike, spans
from expectedkernels.checks import DataError, check_count, removed
from expectedkernels.estimators import circuit_density, densities
from expectedkernels.estimators.base import GAMMA, DensityEstimator, estimator, scaled_gamma
from expectedkernels.estimators.circuit_density import CircuitDensity
from expectedkernels.estimators.encoding import Encoding, decode_column, learn_encoding, read_table
from expectedkernels.estimators.kernel_expansion import read_rows
from expectedkernels.estimators.landmarks import inverse_root

CHUNK_ROWS = 4096
"""How many rows are completed at once, at most."""
KEPT_TYPES = ("object", "str", "string", "bool", "boolean")
"""Categorical columns of these types keep them in data frames."""


@estimator()
class CircuitImputer(OneToOneFeatureMixin, TransformerMixin, DensityEstimator):  # type: ignore[misc]
    """Missing values filled in from the density of the columns, given what is observed.

    Parameters
    ----------
    strategy : {"mean", "map", "sample"}
        Fill in the conditional mean of numeric columns and the most probable category of others,
        which keeps errors small; the most probable states of all missing columns together (needs a
        deterministic circuit as density: no mixture); or a sample.
        The middle of a bin stands for it, except in samples.
    density : str, pair, Circuit, or object with `fit` and `circuit_`
        One of "auto", "gaussian", "kernel", "gaussian_mixture", "chow_liu", "strudel", "mixture",
        such a mixture with a number of components as a pair, a circuit, or an object that learns
        one (see `ExpectedSVR`). With "auto", means of numeric columns are those of the estimators'
        default, the average of two densities; categories, "map" and samples are those of
        "chow_liu", a tree over bins.
    max_bytes : int
        Memory for intermediate values. Samples do not heed it: with a seed they would depend on it.
    random_state : int, RandomState or None
        For samples, and for densities with random starts; None is the same start always.

    Attributes
    ----------
    circuit_ : Circuit or None
        The tree of "auto", or the density, if it is a circuit.
    densities_, density_weights_ : list of str and array
        What the density of means is an average of, and with which weights.

    Notes
    -----
    `sample` draws several completions of every row, for multiple imputation: fit a model to each,
    or average a model's predictions over them. `ExpectedSVR` and its kin give the limit of
    infinitely many.

    Columns that have no value at all in fit stay as they are, with a warning: scikit-learn's
    imputers leave them out, or fill in zeros (`keep_empty_features`), which never occurred there.

    The default has every strategy. Other densities that are no circuits have no "map",
    and take bits and codes for numbers: the category of the largest bit is taken, and the nearest
    code.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, np.nan]])
    >>> CircuitImputer().fit_transform(X)[-1].round(1).tolist()
    [1.0, 0.9]
    >>> CircuitImputer("map").fit_transform(X)[-1].tolist()
    [1.0, 1.0]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "strategy": [StrOptions({"mean", "map", "sample"})],
    }

    strategy: str = field(default="mean", kw_only=False)

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> Self:
        """Learn the density of the columns.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN, None and pandas' NA are missing.
        y : ignored
            Present for scikit-learn's pipelines.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If the strategy is "map", and the density is no circuit.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.CircuitImputer().fit([[0.0, 1.0], [1.0, 0.0]]).n_features_in_
        2
        """
        self._validate_params()
        self.columns_, Z = learn_encoding(self, X, densities.known_labels(self.density))
        self._learn_density(self._learn_scale(Z))
        # of categories, of what is most probable, and of samples
        self._of_states, self._units = self.density_, self.columns_
        if isinstance(self.density, str) and self.density == "auto":
            self._of_states = densities.learn_density("chow_liu", self.columns_, Z, self.n_bins)
            self._units = Encoding([], {}, [])
        self.circuit_ = self._of_states.circuit
        if empty := [self.columns_.names[i] for i in self._empty]:
            shown = ", ".join(map(repr, empty))
            warnings.warn(
                f"Columns without a value in fit keep their missing values: {shown}. "
                "Nothing is known of what could be in them: leave them out, or learn from others.",
                stacklevel=2,
            )
        self._require_circuit("strategy='mean'")
        return self

    def transform(self, X: RowsLike) -> Array:
        """The rows with missing values filled in.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.

        Returns
        -------
        array or data frame
            Of the shape of X.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> imputer = ek.CircuitImputer().fit([[0.0, 1.0], [1.0, 0.0]])
        >>> imputer.transform([[0.0, np.nan]]).shape
        (1, 2)
        """
        numbers = self._numbers(X)
        if self.strategy == "sample":
            [numbers] = self._sampled(numbers, 1, self.random_state)
        else:
            units = 1 if self.circuit_ is None else self.circuit_.n_units
            size = max(1, min(CHUNK_ROWS, self.max_bytes // (8 * units)))
            [numbers] = self._completed_by(self._most_probable_or_mean, numbers, 1, size)
        return self._typed(self._decoded(numbers, X), X)

    def _most_probable_or_mean(self, Z: Any) -> list[Any]:
        """Incomplete rows with what `strategy` says."""
        density, numeric = self._of_states, self.columns_.numeric
        if self.strategy == "map":
            rows = density.rows(Z)
            states = self.circuit_.map(rows.states, as_frame=False)
            return [circuit_density.filled(rows, np.arange(len(Z)), states)]
        if not isinstance(density, CircuitDensity):
            return [self._as_states(Z, density.means(Z))]
        whole = density.means(Z, [not numeric[v.columns[0]] for v in density.variables])
        if density is not self.density_:
            means = self.density_.means(self.columns_.standardise(Z))
            whole[:, numeric] = self.columns_.undo(means)[:, numeric]
        return [whole]

    @removed(
        method="completions are independent samples; for means over what is missing use "
        "expected_prediction, for a few points that represent a distribution 'herd'"
    )
    def sample(
        self, X: RowsLike, n: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> list[Array]:
        """Several completions of the rows of X: multiple imputation.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            The rows to complete; NaN, None and pandas' NA are missing.
        n : int
            The number of completions.
        random_state : int, RandomState or None
            Default: that of the imputer.

        Returns
        -------
        list of n arrays of the shape of X

        Raises
        ------
        DataError
            If `n` is not a positive int.

        Examples
        --------
        >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, np.nan]])
        >>> imputer = CircuitImputer().fit(X)
        >>> [Z.shape for Z in imputer.sample(X, 2, random_state=0)]
        [(4, 2), (4, 2)]
        """
        check_count("CircuitImputer.sample", "n", n, 1, error=DataError)
        seed = self.random_state if random_state is None else random_state
        return [self._decoded(Z, X) for Z in self._sampled(self._numbers(X), int(n), seed)]

    def _require_circuit(self, other: str) -> None:
        if self.strategy == "map" and not isinstance(self._of_states, CircuitDensity):
            raise DataError(
                "The strategy 'map' of CircuitImputer needs a circuit as density, such as "
                f"'chow_liu'. Got density={self.density!r}, which is not one. Give a circuit, or "
                f"{other}."
            )

    @property
    def _rescales(self) -> bool:
        """Whether the density is one of normals: states are values of the table itself."""
        return densities.named(self.density)[0] in ("auto", *densities.NORMALS)

    def _sampled(self, numbers: Any, n: int, random_state: Any) -> list[Any]:
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))

        def draws(Z: Any) -> list[Any]:
            return [self._as_states(Z, whole) for whole in self._of_states.draws(Z, n, rng)]

        return self._completed_by(draws, numbers, n, CHUNK_ROWS)

    def _completed_by(self, complete: Any, numbers: Any, n: int, size: int) -> list[Any]:
        """Completions of columns of numbers by a function of some incomplete rows, n of each."""
        Z = self._units.standardise(numbers)
        index, _ = read_rows(self._of_states, Z)
        answers = [Z.copy() for _ in range(n)]
        for span in spans(len(index), size):
            for answer, whole in zip(answers, complete(Z[index[span]]), strict=True):
                answer[index[span]] = whole
        return [np.where(np.isnan(numbers), self._units.undo(x), numbers) for x in answers]

    def _as_states(self, Z: Any, whole: Any) -> Any:
        """Completed rows, with a category or code wherever a number was found for one."""
        for variable in self.density_.variables:
            shown, column = variable.observe(Z), variable.columns[0]
            missing = ~shown.observed
            if self.columns_.numeric[column] or variable.low is None or not missing.any():
                continue
            at = np.ix_(missing, variable.columns)
            fits = variable.fits(whole[at])
            if shown.allowed is not None:
                fits = np.where(shown.allowed[missing], fits, -np.inf)
            whole[at] = variable.low[circuit_density.first_largest(fits)]
        return whole

    @property
    def _empty(self) -> list[int]:
        """The columns of the table that had no value in fit."""
        return [i for i, at in enumerate(self.columns_.column_index) if self._unseen[at].all()]

    def _decoded(self, Z: Any, X: Any) -> Any:
        """Columns of numbers as columns of a table; those without a value in fit as they are."""
        columns, table = self.columns_, Z
        if columns.categories:
            table = np.empty((len(Z), len(columns.names)), dtype=object)
            for i, place in enumerate(columns.column_index):
                table[:, i] = decode_column(Z[:, place], columns.categories.get(i))
        if self._empty:
            given = read_table(X, self)
            for i in self._empty:
                table[:, i] = given.entries(i)
        return table

    def _typed(self, table: Any, X: Any) -> Any:
        """The table as a data frame with a type for every column, if `set_output` wants pandas.

        Otherwise scikit-learn would make all columns objects, and categories would be lost.
        """
        output = _get_output_config("transform", self)["dense"]
        if not self.columns_.categories or output != "pandas":
            return table
        import pandas as pd

        names = self.get_feature_names_out()
        typed = {}
        for i, name in enumerate(names):
            known = self.columns_.categories.get(i)
            if i in self._empty and hasattr(X, "iloc"):
                typed[name] = X.iloc[:, i]
            elif known is None:
                typed[name] = table[:, i].astype(np.float64)
            elif hasattr(X, "iloc") and str(X.dtypes.iloc[i]) in KEPT_TYPES:
                typed[name] = pd.Series(table[:, i], index=X.index, dtype=X.dtypes.iloc[i])
            else:
                typed[name] = pd.Categorical(table[:, i], categories=known)
        return pd.DataFrame(typed, index=getattr(X, "index", None))


@estimator()
class ExpectedKernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityEstimator):  # type: ignore[misc]
    """The features E[k(x, s_j) | what is observed] of rows, for landmarks s_j.

    Any model can follow: a row with missing values has complete features, which are the mean
    embedding of what it could be, evaluated at the landmarks.

    Parameters
    ----------
    n_components : int
        The number of landmarks, drawn at random from the complete rows that differ; fewer if there
        are not as many. If no row is complete, landmarks are the distributions of incomplete ones.
    gamma : {"scale", "auto"} or float
        That of the kernel ``exp(-gamma |x - x'|^2)``.
    normalize : bool
        Whether to multiply features with the inverse root of the landmarks' kernel matrix, so that
        inner products of features approximate expected kernels (the Nyström method).

    Attributes
    ----------
    landmarks_ : array of shape (components, columns)
    circuit_ : Circuit or None
        The density, if it is a circuit.
    densities_, density_weights_ : list of str and array
        What the density is an average of, and with which weights.
    gamma_ : float
        What was given, or is meant by the name.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, np.nan]])
    >>> ExpectedKernelFeatures(n_components=2, random_state=0).fit_transform(X).shape
    (4, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "gamma": GAMMA,
        "normalize": ["boolean"],
        "standardize": ["boolean"],
    }

    n_components: int = field(default=100, kw_only=False)
    gamma: str | float = "scale"
    normalize: bool = False
    density: densities.DensityLike = "chow_liu"
    standardize: bool = True
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(self, X: RowsLike, y: ArrayLike | None = None) -> Self:
        """Learn the density of the columns and choose landmarks.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN, None and pandas' NA are missing.
        y : ignored
            Present for scikit-learn's pipelines.

        Returns
        -------
        self

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.ExpectedKernelFeatures(2).fit([[0.0, 1.0], [1.0, 0.0]]).n_features_in_
        2
        """
        self._validate_params()
        self.columns_, Z = learn_encoding(self, X, densities.known_labels(self.density))
        Z = self._learn_scale(Z)
        self._learn_density(Z)
        self.density_.rows(Z)  # raises if a row has probability zero
        self.gamma_ = scaled_gamma(self.gamma, self._for_kernel(Z))
        complete = ~np.isnan(Z).any(axis=1)
        possible = np.unique(Z[complete] if complete.any() else Z, axis=0)
        rng = check_random_state(self.random_state)
        n = min(self.n_components, len(possible))
        self._landmarks = possible[np.sort(rng.permutation(len(possible))[:n])]
        self.landmarks_ = self.columns_.undo(self._landmarks)
        self._n_features_out, self._root = n, None
        if self.normalize:
            self._resources.require_matrix(n, advice="Take fewer components.")
            root, vectors = inverse_root(self._kernels(self._landmarks, None))
            self._root = root @ vectors.T
        return self

    def transform(self, X: RowsLike) -> Array:
        """The expected kernel values between rows and landmarks.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            NaN is missing.

        Returns
        -------
        array of shape (rows, landmarks)

        Examples
        --------
        >>> import expectedkernels as ek
        >>> features = ek.ExpectedKernelFeatures(2).fit([[0.0, 1.0], [1.0, 0.0]])
        >>> features.transform([[0.0, np.nan]]).shape
        (1, 2)
        """
        Z = self._read(X)
        self.density_.rows(Z)  # raises if a row has probability zero
        found = self._kernels(Z, self._landmarks)
        return found if self._root is None else found @ self._root

    def _kernels(self, A: Any, B: Any) -> Any:
        return self.density_.gram(self._gammas(self.gamma_), A, B, self._resources)
