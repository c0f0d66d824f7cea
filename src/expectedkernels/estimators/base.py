"""What all estimators share."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from inspect import cleandoc
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import joblib
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, make_constraint
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from expectedkernels.arrays import DEFAULT_MAX_BYTES, Array, RowsLike, VariableLike, chosen_rows
from expectedkernels.checks import DataError, check_choice, check_real, public, removed
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.data import chunks
from expectedkernels.data.chunks import ROWS, StreamLike, WeightsLike
from expectedkernels.estimators import calibration, densities, encoding, kernel_expansion, landmarks
from expectedkernels.estimators.circuit_density import CircuitDensity
from expectedkernels.estimators.densities import MIXTURES, NAMES, gram
from expectedkernels.estimators.kernel_expansion import KernelExpansion, KernelModel, table
from expectedkernels.estimators.landmarks import FeatureRidge, Nystrom, Source
from expectedkernels.kernels.gram import at_known
from expectedkernels.learning.normals import moments

T = TypeVar("T")

ROUNDING = 1e-9
"""Losses that differ by less, relative to their size, are equal: the order of rows changes them."""


def leave_one_out(gram: Any, targets: Any, alphas: Any, weights: Any) -> Any:
    """Leave-one-out predictions of kernel ridge regression, (alphas, rows, outputs).

    With S = diag(weights)^1/2 and c = (S K S + alpha)^-1 S y, the error at row i of the fit to all
    other rows is c_i / (s_i (S K S + alpha)^-1_ii): one decomposition serves all alphas.

    Parameters
    ----------
    gram : array of shape (rows, rows)
    targets : array of shape (rows, outputs)
    alphas : array
    weights : array of shape (rows,)
        Positive.

    Examples
    --------
    >>> leave_one_out(np.eye(2), np.array([[1.0], [2.0]]), [0.5], np.ones(2)).tolist()
    [[[0.0], [0.0]]]
    """
    root = np.sqrt(weights)[:, None]
    values, vectors = eigh(root * gram * root.T)
    values = np.maximum(values, 0.0)
    turned = vectors.T @ (root * targets)
    answers = []
    for alpha in alphas:
        share = 1.0 / (values + alpha)
        coef = vectors @ (share[:, None] * turned)
        answers.append(targets - coef / (root * (vectors**2 @ share)[:, None]))
    return np.stack(answers)


def least(losses: Any) -> int:
    """The number of the smallest loss, the first of those that are equal up to rounding.

    Examples
    --------
    >>> least(np.array([0.3, 0.1 + 1e-17, 0.1, 0.2]))
    1
    """
    return int(np.argmax(losses <= (1.0 + ROUNDING) * np.min(losses)))


MULTIPLES = (0.0, 1.0, 4.0)
"""What "auto" chooses the gamma of masks from, in multiples of that of a standardised column."""
MARGIN = 0.05
"""By which share the loss must fall before masks count at all."""
MOST_COMPLETE, MOST_INCOMPLETE = 1000, 300
"""How many rows a choice is made by, at most: some of them where there are more."""
REMOVED_PARAMETERS = {
    "binning": "bins hold equally many rows each; set 'n_bins', or give a density without bins",
    "density_weights": "densities of 'auto' count alike; name one as 'density' to take it alone",
}
LARGEST_RATE = 1e300
FAR = 1e3
"""So many deviations from zero, distances from dot products lose half of their digits."""
SMALLEST = 1e-10
"""The smallest regularization strength that rows are left out with, in closed form."""


def _described(kind: type) -> tuple[str, dict[str, str]]:
    """The docstring of a class, and what it says of every parameter."""
    doc = cleandoc(vars(kind).get("__doc__") or "")
    section = doc.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    return doc, {text.partition(" :")[0]: text for text in re.split(r"\n(?=\S)", section)}


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(**advice: str) -> Callable[[type[T]], type[T]]:
    """A decorator for public estimators: their fields are the parameters of the constructor.

    Those that their docstrings do not describe are described as in base classes. Parameters that
    earlier versions had raise, and say what to use now.
    """

    def decorate(kind: type[T]) -> type[T]:
        made: Any = dataclass(kind, eq=False, repr=False, kw_only=True)
        made.__init__ = removed(**advice, **REMOVED_PARAMETERS)(made.__init__)
        constraints: dict[str, Any] = {}
        texts: dict[str, str] = {}
        for base in made.__mro__:  # the nearest first
            constraints = vars(base).get("_parameter_constraints", {}) | constraints
            texts |= {k: text for k, text in _described(base)[1].items() if k not in texts}
        made._parameter_constraints = constraints
        (doc, own), names = _described(made), {f.name for f in fields(made)}
        described = "\n".join(texts[name] for name in texts if name in names)
        made.__doc__ = doc.replace("\n".join(own.values()), described)
        return public(made)

    return decorate


@dataclass(eq=False, repr=False, kw_only=True)
class DensityEstimator(BaseEstimator):  # type: ignore[misc]
    """The part of an estimator that reads tables and learns their density.

    Parameters
    ----------
    density : str, pair, Circuit, or object with `fit` and `circuit_`
        The joint density of the columns, over which predictions for incomplete rows average:
        "gaussian" (a normal distribution with full covariance), "kernel" (a kernel density
        estimate: a narrower normal around every training row), "gaussian_mixture" (up to eight
        components), "chow_liu", "strudel" or "mixture" (circuits over binned columns). A pair such
        as ("gaussian_mixture", 3) sets the number of components. "auto" averages the expectations
        under "gaussian" and "kernel", or under "gaussian" and "chow_liu" if all columns are
        categorical. "gaussian" alone is faster and about as accurate. An object is cloned and
        fitted to the states of all variables, integers with NaN. A circuit determines what numeric
        columns hold: its states, or real values.
    n_bins : int
        The number of quantile bins of a numeric column, for densities over bins. Columns with
        fewer distinct values keep these.
    categorical_features : {"from_dtype"}, array-like or None
        Categorical columns: with "from_dtype" those of a data frame (pandas or polars) that hold
        categories, text or bools; or a boolean mask, column numbers or names. Each is one-hot
        encoded for the kernel. A category that did not occur in fit counts as missing.
    groups : list of lists of columns, optional
        Columns that are the one-hot encoding of one categorical variable, or single columns of
        codes. A row whose category is missing has NaN in all of them. scikit-learn's OneHotEncoder
        encodes missing values as one more category instead: pass the text column itself, which
        needs no encoder.
    standardize : bool
        Whether to scale numeric columns, and the target of regressors, to mean zero and variance
        one (of the observed values in fit; see the notes of `ExpectedSVR`). Set it to False to use
        both unscaled, as scikit-learn does.
    n_jobs : int, optional
        Number of threads for expected kernels. `joblib.parallel_config` selects another backend,
        such as processes or a cluster; the results are the same.
    max_bytes : int
        Memory limit for intermediate values. A kernel matrix of all training rows may take four
        times as much, and at least 4 GiB; more rows raise DataError.
    random_state : int, RandomState or None
        Seed of densities with random initialisation, and of random subsets of many rows. None
        always uses the same seed.

    Attributes
    ----------
    columns_ : Columns
        How tables are read.
    density_ : Density
        The circuit and what its variables mean.
    circuit_ : Circuit or None
        The circuit of the density, of the last one if several are averaged; None if none is one.
    densities_ : list of str
        What the density is an average of.
    density_weights_ : array
        With which weights.
    """

    density: densities.DensityLike = "auto"
    n_bins: int = 10
    categorical_features: str | ArrayLike | None = "from_dtype"
    groups: Sequence[Sequence[VariableLike]] | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    random_state: int | np.random.RandomState | None = None
    standardize = False  # a parameter of some, as the next two
    n_jobs = memory = cast(Any, None)

    _multi_output: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "density": [
            StrOptions(set(NAMES)),
            tuple,
            Circuit,
            HasMethods(["compile"]),
            HasMethods(["fit"]),
        ],
        "n_bins": [Interval(Integral, 2, None, closed="left")],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "groups": ["array-like", list, tuple, None],
        "n_jobs": [Integral, None],
        "max_bytes": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    @property
    def _rescales(self) -> bool:
        """Whether densities see standardised columns; those that are given know their units."""
        return isinstance(self.density, str | tuple)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = self._multi_output
        return tags

    def _validate_params(self) -> None:
        """Raise if a parameter is none of what it may be; True is no number."""
        name = self.density[0] if isinstance(self.density, tuple) and self.density else self.density
        if isinstance(name, str):
            estimator = type(self).__name__
            check_choice(estimator, "density", name, NAMES, DataError, removed=densities.REMOVED)
        for name, constraints in self._parameter_constraints.items():
            value = getattr(self, name, None)
            if isinstance(value, (bool, np.bool_)) and "boolean" not in constraints:
                allowed = ", ".join(map(str, map(make_constraint, constraints)))
                raise DataError(
                    f"The {name!r} parameter of {type(self).__name__} must be one of: {allowed}. "
                    f"Got {value!r} instead, which is not taken for a number."
                )
        super()._validate_params()

    def _seed(self) -> int:
        """What random choices start from: the same for the same rows, unless asked otherwise."""
        state = 0 if self.random_state is None else self.random_state
        return int(check_random_state(state).randint(2**31 - 1))

    def _learn_density(self, Z: Any, density: Any = None) -> None:
        """Learn the density of standardised columns: the one of the estimator by default."""
        self._unseen = np.isnan(Z).all(axis=0)
        density = self.density if density is None else density
        recipe = {"density": density, "columns": self.columns_, "Z": np.ascontiguousarray(Z)}
        recipe |= {"n_bins": self.n_bins, "seed": self._seed()}
        # objects that learn a circuit may do so in another way each time: theirs are not kept
        keeps = self.memory is not None and not hasattr(self.density, "fit")
        self._key = joblib.hash(recipe) if keeps else None
        self.density_ = densities.kept(self.memory, self._key, densities.learn_density, **recipe)
        self.circuit_ = self.density_.circuit
        self.densities_, self.density_weights_ = densities.parts_of(self.density_, density)

    def _kept(self, function: Any, **given: Any) -> Any:
        """What a function of the density returns, from the cache if it is there."""
        return densities.kept(self.memory, self._key, function, density=self.density_, **given)

    def _learn_scale(self, Z: Any, sample_weight: Any = None) -> Any:
        """Learn how to standardise columns of numbers, and how kernels see these; standardised."""
        self.columns_: encoding.Encoding
        unit, centre, scale = encoding.measure(Z, self.columns_.numeric, sample_weight)
        own = kernel = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
        if self._rescales:
            self.columns_ = replace(self.columns_, unit=unit, centre=centre, scale=scale)
            own = centre * unit, scale * unit
        elif self.standardize:
            encoding.require_scales(self.columns_.number_names, scale * unit)
        if self.standardize:
            kernel = centre * unit, scale * unit
        self._shift, self._factor = (kernel[0] - own[0]) / own[1], own[1] / kernel[1]
        return self.columns_.standardise(Z)

    def _for_kernel(self, Z: Any) -> Any:
        """Standardised columns as the kernel sees them: raw ones without `standardize`."""
        return (Z - self._shift) * self._factor

    def _near_zero(self, Z: Any) -> Any:
        """The same, with columns that lie far from zero less one of their values.

        Kernels do not change, but squared distances of scikit-learn's have no digits left there.
        """
        middle = np.sort(Z, axis=0)[(len(Z) - 1) // 2]
        spread = (Z - middle).std(axis=0)
        far = (spread > 0.0) & (FAR * spread < np.abs(middle - self._shift))
        return (Z - np.where(far, middle, self._shift)) * self._factor

    def _gammas(self, gamma: Any, n_columns: int = 0) -> Any:
        """Gamma of every standardised column, and of the masks behind them."""
        with np.errstate(over="ignore"):
            rates = np.minimum(gamma * self._factor**2, LARGEST_RATE)
        return np.append(rates, [self.mask_rate_ for _ in range(n_columns - len(rates))])

    def _numbers(self, X: Any) -> Any:
        """The columns of numbers of a table like the one in fit."""
        check_is_fitted(self)
        table = X if isinstance(X, encoding.Table) else encoding.read_table(X, self, reset=False)
        return self._completed(self.columns_.encode(table, self))

    def _read(self, X: Any) -> Any:
        """The standardised columns of a table like the one in fit."""
        numbers = self._numbers(X)  # raises if it is not fitted
        return self.columns_.standardise(numbers)

    def _completed(self, Z: Any) -> Any:
        """Columns of numbers without what the density does not know, and with what follows."""
        columns, variables = self.columns_, self.density_.variables
        if columns.groups:
            encoding.require_states(columns.variables(Z, None), Z, columns)
        if self._unseen.any():  # nothing is known of what their values mean
            Z = np.where(self._unseen, np.nan, Z)
        for i in sorted(group[0] for group in columns.groups if len(group) == 1):
            at = int(columns.column_index[i][0])
            variable = next(v for v in variables if v.columns[0] == at)
            if variable.low is not None:
                bad = variable.unknown(Z[:, at])
                columns.warn_unseen(i, np.unique(Z[bad, at]).tolist())
                Z[bad, at] = np.nan
        return encoding.complete_groups(variables, Z)

    @property
    def _resources(self) -> kernel_expansion.Resources:
        return kernel_expansion.Resources(self.n_jobs, self.max_bytes)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelMachine(DensityEstimator):
    """A kernel model that is fitted to, and predicts, rows with missing values.

    Parameters
    ----------
    fit_missing : {"auto", "mean", "expected", "drop", "raise"}
        How incomplete rows enter the fit. The density is learned from them in any case. "mean"
        fits the model to their conditional means, "expected" to expected kernels between rows
        (which are positive semidefinite). "auto" is "expected" for single circuits and "mean" for
        all other densities: under "kernel" and "auto", expected kernels take long, as every pair
        of incomplete rows sums over all pairs of up to 500 components (15 seconds for 400 rows of
        five columns). "drop" leaves incomplete rows out, "raise" raises an error.
    mask_kernel : None, float or "auto"
        The gamma of a kernel on missingness indicators, for informative missingness (values whose
        absence depends on the value or on the target): the kernel between two rows is multiplied
        by exp(-gamma * number of variables that are missing in exactly one of them). "auto"
        chooses among 0, gamma and 4 gamma (as if columns were standardised, if they are not) by
        the squared leave-one-out errors of kernel ridge regression (with alpha = 1 / 2C for a
        support vector machine), and takes 0 unless these fall by 5 %. See the notes.
    n_landmarks : int, None or "auto"
        The number of landmarks (Nyström method): the model is a sum of kernels with this many of
        the training rows instead of all, so that time and memory grow linearly with the number of
        rows. "auto" uses all rows up to 2000, and 500 landmarks beyond; None always uses all rows.
        500 landmarks cost about 1 % in accuracy; the time grows with the square of their number.
        They are chosen from 10 000 rows, drawn at random, so that there are not more of them.
        The density "auto" of a landmark model is "gaussian".
    memory : path, joblib.Memory or None
        A cache for densities, means of incomplete rows and expected kernels between rows, so that
        a search over C, epsilon or alpha computes them once for every fold. Objects that learn a
        circuit are not cached.

    Attributes
    ----------
    model_ : object or None
        The fitted model of scikit-learn; None with landmarks.
    n_landmarks_ : int or None
        The number of landmarks; None if the function is a sum of kernels with all rows.
    landmarks_ : array of shape (landmarks, columns) or None
        The landmarks, in the units of the table and with one column for every category. Missing
        values are replaced by conditional means.
    gamma_ : float or array
        The gamma of the kernel (of every column, standardised if they are).
    fit_missing_ : {"mean", "expected"} or None
        What was done with incomplete rows; None if there were none.
    mask_rate_ : float
        The gamma of the mask kernel; 0 if masks do not count.
    """

    standardize: bool = True
    fit_missing: str = "auto"
    mask_kernel: float | str | None = None
    n_landmarks: int | str | None = "auto"
    n_jobs: int | None = None
    memory: object = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "fit_missing": [StrOptions({"auto", "mean", "expected", "drop", "raise"})],
        "memory": [str, PathLike, HasMethods(["cache"]), None],
        "standardize": ["boolean"],
        "mask_kernel": [StrOptions({"auto"}), Interval(Real, 0.0, np.inf, closed="left"), None],
        "n_landmarks": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), None],
    }
    _uses_spread: ClassVar[bool] = True
    _alphas: ClassVar[Any]
    """The function that returns regularization strengths to choose from, one if it is known."""

    def predict_chunks(
        self,
        X: StreamLike | Iterable[Array],
        *,
        columns: Sequence[str] | None = None,
        chunk_rows: int = ROWS,
        n_jobs: int | None = None,
        **options: object,
    ) -> Iterator[Array] | Array:
        """The predictions for data that need not fit into memory, chunk by chunk.

        Parameters
        ----------
        X : path, paths, Dask array or data frame, array, data frame, or iterable of chunks
            See `over_chunks`, which does the same for other methods.
        columns : sequence of str, optional
            Those of Parquet files, datasets and lazy frames to read. Default: those in fit, if
            they have names.
        chunk_rows : int
            How many rows of a file or an array are a chunk.
        n_jobs : int, optional
            How many chunks are worked on at once, by threads, or by the workers that
            `joblib.parallel_config` names.
        **options
            For `predict`, such as ``return_std=True``.

        Returns
        -------
        iterator, or Dask array
            The predictions for every chunk, in order, up to rounding those of a single call; for a
            Dask collection a lazy Dask array.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X = np.random.default_rng(0).normal(size=(40, 2))
        >>> model = ek.ExpectedKernelRidge(density="gaussian").fit(X, X.sum(axis=1))
        >>> [len(some) for some in model.predict_chunks(X, chunk_rows=16)]
        [16, 16, 8]
        """
        check_is_fitted(self)
        if columns is None and (chunks.paths_of(X) is not None or chunks.is_source(X)):
            columns = getattr(self, "feature_names_in_", None)
        predict = partial(self.predict, **options)
        given: Any = {"columns": columns, "chunk_rows": chunk_rows, "n_jobs": n_jobs}
        return chunks.over_chunks(predict, X, **given)

    def fit(
        self,
        X: RowsLike | StreamLike,
        y: ArrayLike | VariableLike | Sequence[VariableLike],
        sample_weight: WeightsLike | None = None,
    ) -> Self:
        """Learn the density of the columns, and the functions to predict by.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns), or data in chunks
            NaN, None and pandas' NA are missing. Data in chunks need not fit into memory: paths of
            Parquet files, Dask collections, and all else that `over_chunks` reads more than once.
            They are read twice: once for categories and 10 000 rows, drawn at random, that the
            density, landmarks, bandwidth and scales are learned from, and once for the fit to all
            rows.
        y : array of shape (rows,), or (rows, targets) for kernel ridge regression
            Of data in chunks the name of a column (its number, of arrays), or a list of these.
        sample_weight : array of shape (rows,), optional
            Weights of the errors of rows. The density does not use them. Of data in chunks the
            name of a column.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If X, y or the weights do not fit, or a kernel matrix of all rows takes too much memory.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]], [0.0, 1.0, 2.0, 3.0]
        >>> ek.ExpectedSVR().fit(X, y).n_features_in_
        2
        """
        self._validate_params()
        labels, source, weights = densities.known_labels(self.density), None, None
        if chunks.is_stream(X):
            draw, split = landmarks.draw_rows(self, X, y, sample_weight)
            if draw.n_rows > landmarks.DRAWN:
                source = Source(draw.n_rows, X, partial(self._read_chunk, split))
            X, y, drawn = split(draw.rows)
            sample_weight = None if sample_weight is None else drawn
            labels |= draw.labels
        self.columns_, Z = encoding.learn_encoding(self, X, labels)
        targets = encoding.read_target(self, X, y, is_classifier(self), self._multi_output)
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, Z)
            encoding.require_weights(weights)
        gaps = np.isnan(Z).any(axis=1)
        self._require_complete(gaps)
        if self.fit_missing == "drop":
            if gaps.all():
                raise DataError(
                    f"All rows of X have missing values, so that fit_missing='drop' leaves "
                    f"{type(self).__name__} nothing to learn from. fit_missing='auto' learns from "
                    "incomplete rows."
                )
            Z, targets = Z[~gaps], targets[~gaps]
            weights = None if weights is None else weights[~gaps]
        return self._learn(Z, targets, weights, source)

    def _read_chunk(self, split: Callable[[Any], Any], chunk: Any) -> tuple[Any, Any, Any]:
        """The standardised columns, targets and weights of the rows of a chunk."""
        X, y, weights = split(*landmarks.as_rows(chunk))
        y = encoding.read_target(self, X, y, is_classifier(self), self._multi_output)
        Z = super()._read(X)
        gaps = np.isnan(Z).any(axis=1)
        self._require_complete(gaps)
        used = ~gaps | (self.fit_missing != "drop")
        return Z[used], self._as_target(y)[used], weights[used]

    def _require_complete(self, gaps: Any) -> None:
        """Raise if rows are incomplete, and fit_missing='raise'."""
        if gaps.any() and self.fit_missing == "raise":
            raise DataError(
                f"X has {int(gaps.sum())} rows with missing values (the first is row "
                f"{int(np.flatnonzero(gaps)[0])}), which {type(self).__name__} does not accept "
                "with fit_missing='raise'. 'auto' learns from them, 'drop' leaves them out."
            )

    def _n_matrices(self) -> int:
        """How many kernel matrices there are at once in fit."""
        return 1

    def _learn(self, Z: Any, y: Any, sample_weight: Any, source: Source | None = None) -> Self:
        """Learn from columns of numbers and targets that are checked, all or some of a source."""
        given, self.model_, self.landmarks_ = (Z, y, sample_weight), cast(Any, None), None
        many = (source.n_rows if source else len(Z)) > landmarks.MANY_ROWS
        default = landmarks.LANDMARKS if many else None
        self.n_landmarks_: Any = default if self.n_landmarks == "auto" else self.n_landmarks
        if self.n_landmarks_ is None:
            self._resources.require_matrix(len(Z), self._n_matrices())
        Z = self._learn_scale(Z, sample_weight)
        targets, density = self._learn_target(y, sample_weight), self.density
        if self.n_landmarks_ is not None:
            sample_weight = np.ones(len(Z)) if sample_weight is None else sample_weight
            source = source or Source.of(Z, targets, sample_weight)
            classes = y if is_classifier(self) else np.zeros(len(Z))
            rows = landmarks.choose_rows(Z, self._seed(), classes, sample_weight)
            Z, y, targets, sample_weight = (x[rows] for x in (Z, y, targets, sample_weight))
            density = "gaussian" if isinstance(density, str) and density == "auto" else density
        self._learn_density(Z, density)
        masks, self.fit_missing_ = kernel_expansion.masks_of(self.density_.variables, Z), None
        if masks.any():
            self.density_.rows(Z)  # raises if a row has probability zero
            # expected kernels between rows take long under mixtures, no better under normals
            mixed = densities.named(self.density)[0] in MIXTURES
            many = mixed or not isinstance(self.density_, CircuitDensity)
            auto = "mean" if many else "expected"
            self.fit_missing_ = auto if self.fit_missing == "auto" else self.fit_missing
        as_is, Z = Z, self._kept(densities.means, Z=Z) if self.fit_missing_ == "mean" else Z
        self.mask_rate_ = 0.0 if isinstance(self.mask_kernel, str) else float(self.mask_kernel or 0)
        if source is not None:
            self._choose_landmarks(*(x[sample_weight > 0] for x in (Z, masks)))
        self._choose(Z, masks, targets, sample_weight)
        rows = Z, masks, targets, sample_weight
        if source is None and sample_weight is not None and sample_weight.any():
            rows = tuple(x[sample_weight > 0] for x in rows)  # libsvm does not number the others
        points, masks, targets, sample_weight = rows
        points = np.column_stack([points, masks]) if self.mask_rate_ else points
        if source is None:
            coef, intercept, prior = self._fit_model(points, masks, targets, sample_weight)
            # parameters that are changed after fit do not count
            kept = {"mask_kernel": self.mask_rate_ or None, **self._kept_parameters()}
            again = type(self)(**(self.get_params(deep=False) | kept))
            copies = (None if x is None else np.array(x) for x in given)
            self._keep_rows(calibration.Training, *copies, again)
        else:
            chosen = points, targets, sample_weight
            points, coef, intercept, prior = self._fit_landmarks(source, as_is, y, *chosen)
        f = self._expansion(points, coef, intercept)
        # kernels with all rows can be kept, for other coefficients; those with some are quicker
        keeps = self._key is not None and prior is None and source is None
        self._whole = f if keeps else None
        flat = targets.ndim == 1 and coef.shape[1] == 1
        self._machine = KernelModel(f if prior is not None else f.merged(), prior, flat)
        return self

    def _kept_parameters(self) -> dict[str, Any]:
        """What is not learned again when rows are held out."""
        return {}

    def _expansion(self, points: Any, coef: Any, intercept: Any) -> KernelExpansion:
        """The functions of coefficients for targets as they are fitted to."""
        (centre, scale), rates = self._target, self._gammas(self.gamma_, points.shape[1])
        return KernelExpansion(rates, points, coef * scale, intercept * scale + centre)

    def _read(self, X: Any) -> Any:
        """Standardised columns, and with a mask kernel what rows lack of each variable."""
        return self._with_masks(super()._read(X))

    def _with_masks(self, Z: Any) -> Any:
        """Rows with their masks behind them, if these count."""
        masks = [kernel_expansion.masks_of(self.density_.variables, Z)] if self.mask_rate_ else []
        return np.column_stack([Z, *masks])

    @property
    def _scales_target(self) -> bool:
        """Whether the target is to be standardised."""
        return self.standardize and not is_classifier(self)

    def _learn_target(self, y: Any, sample_weight: Any) -> Any:
        """Learn centre and scale of the target, if it is to be standardised; the one to fit to."""
        self._target: tuple[Any, Any] = 0.0, 1.0
        if not self._scales_target:
            return y
        columns = table(y)
        every = np.ones(columns.shape[1], dtype=np.bool_)
        unit, centre, scale = encoding.measure(columns, every, sample_weight)
        encoding.require_scales(["y"] * len(scale), scale * unit)
        self._target = centre * unit, scale * unit
        return self._as_target(y)

    def _as_target(self, y: Any) -> Any:
        """Targets as they are fitted to."""
        centre, scale = self._target
        return y if is_classifier(self) else ((table(y) - centre) / scale).reshape(y.shape)

    def _choose_landmarks(self, Z: Any, masks: Any) -> None:
        """Choose landmarks among rows, with their masks."""
        whole = self._kept(densities.means, Z=Z) if np.isnan(Z).any() else Z
        own = masks if self.mask_kernel is not None else masks[:, :0]
        beside = np.column_stack([self._near_zero(whole), own])
        rows = landmarks.choose_landmarks(beside, self.n_landmarks_, self._seed())
        self._landmarks, self.n_landmarks_ = np.column_stack([whole, masks])[rows], len(rows)
        self.landmarks_ = self.columns_.undo(whole[rows])

    def _nystrom(self, gamma: Any, mask_rate: float) -> Nystrom:
        """The features of landmarks for values of gamma; masks are columns if they count."""
        points = self._landmarks if mask_rate else self._landmarks[:, : len(self._shift)]
        more = np.full(points.shape[1] - len(self._shift), mask_rate)
        rates = np.append(self._gammas(gamma), more)
        return Nystrom.of(self.density_, rates, points, self._resources)

    def _features(self, nystrom: Nystrom, Z: Any) -> Any:
        """The features of standardised rows, as they are fitted to: by means, and with masks."""
        rows = self._with_masks(Z)
        if self.fit_missing_ != "expected" and np.isnan(Z).any():
            rows[:, : Z.shape[1]] = self.density_.means(Z)
        resources = replace(self._resources, n_jobs=None)  # chunks are shared out already
        return nystrom.features(self.density_, rows, resources)

    def _fit_landmarks(
        self, source: Source, as_is: Any, y: Any, Z: Any, targets: Any, weights: Any
    ) -> tuple[Any, Any, Any, kernel_expansion.Prior | None]:
        """Fit ridge regression on the features of all rows of a source.

        Given are drawn rows: as they are, and as they are fitted to. Returned are the landmarks,
        their coefficients, the constants, and what a process adds.
        """
        nystrom = self._nystrom(self.gamma_, self.mask_rate_)
        contents, alphas = landmarks.row_contents(as_is, targets), self._alphas()
        known = {content: i for i, content in enumerate(dict.fromkeys(contents))}
        work = partial(landmarks.feature_sums, partial(self._features, nystrom), known)
        square, moments, copies = source.total(work, self.n_jobs)
        ridge, copies = FeatureRidge.of(square, moments), copies[[known[x] for x in contents]]
        if len(alphas) > 1:
            F = nystrom.features(self.density_, Z, self._resources)
            predicted = ridge.leave_one_out(F, table(targets), copies, alphas)
            alphas = [float(alphas[least(self._losses(predicted, table(targets), weights))])]
            [self.alpha_] = alphas
        closed_form, coef = (max(alphas[0], SMALLEST), targets, copies), ridge.coef(alphas[0])
        rows = as_is, y, weights, None, nystrom, ridge
        self._keep_rows(calibration.LandmarkTraining, *rows, *closed_form)
        return nystrom.points, nystrom.root @ coef, np.zeros(coef.shape[1]), None

    def _keep_rows(self, kind: Any, *rows: Any) -> None:
        """Keep rows, to hold some of them out later."""
        seed = 0 if self.random_state is None else self._seed()
        self._training = kind(seed, self.columns_, *rows)

    def _fit_model(
        self, Z: Any, masks: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, kernel_expansion.Prior | None]:
        """Fit the model, to expected kernels between rows if these are incomplete or masks count.

        The coefficients of all rows, (rows, outputs), the constants, and what a process adds.
        """
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        if self.fit_missing_ == "expected" or self.mask_rate_:
            self.model_ = self._make(kernel="precomputed")
            self.model_.fit(self._gram(self.gamma_, Z), y, **weights)
        else:
            self.model_ = self._make(kernel="rbf", gamma=self.gamma_)
            self.model_.fit(self._near_zero(Z), y, **weights)
        coef, intercept = kernel_expansion.coefficients(self.model_)
        if hasattr(self.model_, "support_"):
            some, coef = coef, np.zeros((len(Z), coef.shape[1]))
            coef[self.model_.support_] = some
        return coef, intercept, None

    def _choose(self, Z: Any, masks: Any, y: Any, sample_weight: Any) -> float:
        """The alpha of the smallest leave-one-out loss, learned with gamma, and then that of masks.

        Rows that differ are left out one by one, equal ones together.
        """
        code = kernel_expansion.distinct(y)[1]
        entries = [Z, code] + ([] if self.mask_kernel is None else [masks])
        first, number = kernel_expansion.distinct(
            np.nan_to_num(np.column_stack(entries), nan=np.inf)
        )
        weights = np.bincount(number, weights=sample_weight).astype(np.float64)
        labels = code[first] if is_classifier(self) else y[first]
        used = self._some_rows(np.flatnonzero(weights > 0), Z[first], labels)
        rows, weights = first[used], weights[used]
        alphas, gammas, targets = self._choices(Z, masks, y, rows, weights)
        given = Z[rows], masks[rows], targets[rows], np.maximum(alphas, SMALLEST), weights

        def losses(gamma: Any, mask_rates: Any) -> Any:
            every = self._leave_one_out(gamma, mask_rates, *given)
            return np.array([self._losses(found, targets[rows], weights) for found in every])

        best = 0
        if len(alphas) * len(gammas) > 1:
            best = least(np.ravel([losses(gamma, [self.mask_rate_]) for gamma in gammas]))
        self.gamma_, at = gammas[best // len(alphas)], best % len(alphas)
        if self.mask_kernel == "auto" and masks.any():
            variances = 1.0 if self.standardize else moments(self._for_kernel(Z))[1]
            mask_rates = np.multiply(MULTIPLES, np.mean(self.gamma_ * variances))
            found = losses(self.gamma_, mask_rates)[:, at]
            if found.min() < (1.0 - MARGIN) * found[0]:
                self.mask_rate_ = float(mask_rates[least(found)])
        return float(alphas[at])

    def _choices(self, Z: Any, masks: Any, y: Any, rows: Any, weights: Any) -> tuple[Any, Any, Any]:
        """The alphas and gammas to choose from by some rows, and targets, (rows, outputs).

        Of models that are no ridge regression those of kernel ridge regression in its place.
        """
        raise NotImplementedError

    def _leave_one_out(
        self, gamma: Any, mask_rates: Any, Z: Any, masks: Any, y: Any, alphas: Any, weights: Any
    ) -> Iterator[Any]:
        """Leave-one-out predictions, for every gamma of masks."""
        if self.n_landmarks_ is None:
            gram, own = self._gram(gamma, Z), masks.astype(np.float64)
            for rate in mask_rates:
                factors = at_known(np.full(own.shape[1], rate), own, own == own, own)
                yield leave_one_out(gram * factors, y, alphas, weights)
            return
        for rate in mask_rates:
            rows = np.column_stack([Z, masks]) if rate else Z
            F = self._nystrom(gamma, rate).features(self.density_, rows, self._resources)
            ridge = FeatureRidge.of(F.T @ (weights[:, None] * F), F.T @ (weights[:, None] * y))
            yield ridge.leave_one_out(F, y, weights, alphas)

    def _losses(self, predicted: Any, targets: Any, weights: Any) -> Any:
        """The squared errors of predictions, (alphas, rows, outputs), for every alpha."""
        return ((predicted - targets) ** 2).sum(axis=2) @ weights

    def _some_rows(self, rows: Any, Z: Any, y: Any) -> Any:
        """Rows to choose by, not too many of them."""
        most = MOST_INCOMPLETE if np.isnan(Z).any() else MOST_COMPLETE
        if len(rows) <= most or self.n_landmarks_ is not None:
            return rows
        # means of what is missing have rounding errors, which must not tell rows apart
        return rows[chosen_rows(np.round(Z[rows], 6), most, self._seed(), y[rows])]

    def _gram(self, gamma: Any, Z: Any) -> Any:
        """The expected kernels between rows."""
        rates = self._gammas(gamma, Z.shape[1])
        return self._kept(gram, rates=rates, A=Z, B=None, resources=self._resources)

    def _expect(self, X: Any, return_std: bool, std_tol: float = 0.0) -> Any:
        check_real(type(self).__name__, "std_tol", std_tol, error=DataError)
        return self._expected(self._read(X), return_std, std_tol=std_tol)

    def _expected(self, Z: Any, return_std: bool, std_tol: float = 0.0) -> Any:
        f, resources = self._whole, replace(self._resources, std_tol=std_tol)
        if f is None or return_std or 8 * len(Z) * len(f.points) > self.max_bytes:
            return kernel_expansion.expect(self._machine, self.density_, Z, resources, return_std)
        self.density_.rows(Z)  # raises if a row has probability zero
        kernels = self._kept(gram, rates=f.rates, A=Z, B=f.points, resources=resources)
        mean = kernels @ f.coef + f.intercept
        return mean[:, 0] if self._machine.flat else mean

    def _answers(self, Z: Any) -> Any:
        """What is explained of columns of numbers: expectations, (rows,) or (rows, outputs)."""
        # not kept: explanations ask for many rows, and once
        return kernel_expansion.expect(self._machine, self.density_, Z, self._resources)

    def _make(self, **kernel: Any) -> Any:
        """The model of scikit-learn with an RBF kernel, or for given kernels."""
        raise NotImplementedError


def scaled_gamma(gamma: Any, Z: Any) -> float:
    """The gamma that "scale" or "auto" mean, as in scikit-learn; missing values do not count.

    Examples
    --------
    >>> scaled_gamma("scale", np.array([[0.0, 2.0], [2.0, np.nan]]))
    0.5625
    """
    if gamma in ("auto", None):
        return 1.0 / Z.shape[1]
    if gamma != "scale":
        return float(gamma)
    observed = ~np.isnan(Z)
    with np.errstate(over="ignore", invalid="ignore"):
        variance = float(Z[observed].var()) if observed.any() else 0.0
        within = float(np.average(moments(Z)[1], weights=np.maximum(observed.sum(axis=0), 1)))
    if 0.0 < within * FAR**2 < variance:
        warnings.warn(
            "gamma='scale' takes differences between the means of columns for spread, as in "
            "scikit-learn, and here they are nearly all of it: the kernel is almost constant. Give "
            "a number, or standardize=True.",
            stacklevel=2,
        )
    total = Z.shape[1] * variance
    if variance > 0 and not 1e-300 < total < 1e300:
        raise DataError(
            "The 'gamma' parameter cannot be 'scale' for values of this size: their variance "
            f"is {variance:g}. Rescale the columns of X, for example with StandardScaler."
        )
    return 1.0 / total if variance > 0 else 1.0


GAMMA = [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")]
"""What gamma of a support vector machine may be."""
