"""Fitted kernel models, and the scale of their columns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as gp_kernels
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR
from sklearn.utils.validation import check_is_fitted

from expectedkernels.checks import DataError, KernelError
from expectedkernels.estimators.circuit_density import AnyDensity
from expectedkernels.estimators.encoding import LARGEST_POWER, Columns, completed_groups
from expectedkernels.estimators.kernel_expansion import (
    Expansion,
    Masks,
    Prior,
    Resources,
    chunks,
    distinct,
    masks_of,
)

SUPPORTED = (
    "SVR, NuSVR, SVC, NuSVC and KernelRidge with kernel='rbf', and GaussianProcessRegressor with "
    "an RBF kernel (times a ConstantKernel, plus a WhiteKernel)"
)


@dataclass(frozen=True, eq=False)
class Machine:
    """A fitted model as a kernel expansion, and its own answers for complete rows.

    Attributes
    ----------
    expansion : Expansion
    predict : function from complete rows to answers, or None
        None: the expansion itself answers.
    spread : function from complete rows to standard deviations, or None (they are zero)
    prior : Prior or None
    flat : bool
        Whether answers have no axis of outputs.
    masks : Masks or None
        Those of the points of the expansion, if kernels know what is missing.
    """

    expansion: Expansion
    predict: Callable[[Any], Any] | None = None
    spread: Callable[[Any], Any] | None = None
    prior: Prior | None = None
    flat: bool = True
    masks: Masks | None = None

    def under(self, mask: Any) -> Machine:
        """The machine for rows with one mask: its kernels do not know masks any more."""
        if self.masks is None:
            return self
        factors, f, prior = self.masks.factors(mask[None])[0], self.expansion, self.prior
        if prior is not None:
            prior = replace(prior, form=prior.form * factors * factors[:, None])
        f = replace(f, coef=f.coef * factors[:, None])
        return replace(self, expansion=f, prior=prior, masks=None)

    def at(self, density: AnyDensity, Z: Any, like: Any, resources: Resources) -> Any:
        """The values of the expansion at complete rows that have the masks of others."""
        if self.masks is None:
            return self.expansion.at(density, Z, resources)
        own = masks_of(density.variables, like)
        return self.masks.values(self.expansion, density, Z, own, resources)


def expect(
    machine: Machine,
    density: AnyDensity,
    Z: Any,
    resources: Resources,
    return_std: bool = False,
    skip_complete: bool = False,
    like: Any = None,
) -> Any:
    """The expected answers of a machine for rows with missing values (and their deviations).

    With `skip_complete` those of complete rows are NaN, if kernels do not know masks. If they do,
    `like` are rows whose masks count in place of the own ones.
    """
    if machine.masks is not None:
        return _expect_by_mask(machine, density, Z, resources, return_std, like)
    Z, incomplete, rows = read_rows(density, Z)
    complete = np.setdiff1d(np.arange(len(Z)), incomplete)
    outputs = machine.expansion.coef.shape[1]
    mean, std = np.full((len(Z), outputs), np.nan), np.zeros((len(Z), outputs))
    if skip_complete:
        std[complete] = np.nan
    elif len(complete):
        if machine.predict is None:
            mean[complete] = machine.expansion.at(density, Z[complete], resources)
        else:
            mean[complete] = _in_parts(machine, machine.predict, Z[complete], resources)
        if return_std and machine.spread is not None:
            std[complete] = _in_parts(machine, machine.spread, Z[complete], resources)
        elif return_std and machine.prior is not None:
            known = density.rows(Z[complete])
            std[complete] = _std(machine, density, known, mean[complete], resources)
    if len(incomplete):
        mean[incomplete] = density.mean(machine.expansion, rows, resources)
        if return_std:
            std[incomplete] = _std(machine, density, rows, mean[incomplete], resources)
    if machine.flat:
        mean, std = mean[:, 0], std[:, 0]
    return (mean, std) if return_std else mean


def _expect_by_mask(
    machine: Any, density: AnyDensity, Z: Any, resources: Resources, return_std: bool, like: Any
) -> Any:
    Z, _, _ = read_rows(density, Z)
    own = masks_of(density.variables, Z if like is None else like)
    mean = machine.masks.values(machine.expansion, density, Z, own, resources)
    std = np.zeros_like(mean)
    first, number = distinct(own)
    for k, mask in enumerate(own[first] if return_std else []):
        at = np.flatnonzero(number == k)
        std[at] = table(expect(machine.under(mask), density, Z[at], resources, True)[1])
    if machine.flat:
        mean, std = mean[:, 0], std[:, 0]
    return (mean, std) if return_std else mean


def _in_parts(machine: Machine, function: Any, Z: Any, resources: Resources) -> Any:
    """What a function says of rows, so few at a time that their kernels with points are small."""
    near, points = machine.expansion.brought_near(Z), len(machine.expansion.points)
    parts = chunks(np.arange(len(Z)), points, resources.chunk_bytes)
    return np.concatenate([table(function(near[part])) for part in parts])


def table(answers: Any) -> Any:
    """Answers with an axis of outputs."""
    return answers[:, None] if answers.ndim == 1 else answers


def _std(machine: Machine, density: AnyDensity, rows: Any, mean: Any, resources: Resources) -> Any:
    return np.sqrt(density.variance(machine.expansion, rows, mean, resources, machine.prior))


def read_rows(density: AnyDensity, Z: Any) -> tuple[Any, Any, Any]:
    """The data with completed groups, which rows are incomplete, and these as evidence."""
    Z = completed_groups(density.variables, Z)
    incomplete = np.flatnonzero(np.isnan(Z).any(axis=1))
    rows = density.rows(Z[incomplete])
    density.check(rows, incomplete)
    return Z, incomplete, rows


def machine_of(model: Any) -> Machine | None:
    """A fitted model as a kernel expansion, None if it is something else that rows are given to."""
    try:
        return read_machine(model)
    except KernelError:
        if getattr(model, "kernel", None) == "precomputed":  # wants kernels in place of rows
            raise
        return None


def read_machine(model: Any) -> Machine:
    """A fitted model of scikit-learn as a kernel expansion; raises if it is not supported."""
    for classes, read in READERS:
        if isinstance(model, classes):
            check_is_fitted(model)
            if hasattr(model, "feature_names_in_"):  # it would warn that arrays have no names
                model = copy.copy(model)
                del model.feature_names_in_
            return read(model)
    advice = ""
    if hasattr(model, "steps"):
        advice = " Give its last step, and X as the steps before transform it."
    elif hasattr(model, "best_estimator_"):
        advice = " Give its best_estimator_."
    raise KernelError(
        f"Expected prediction is supported for {SUPPORTED}. Got a {type(model).__name__}.{advice}"
    )


def _require_rbf(model: Any) -> None:
    if model.kernel != "rbf":
        raise KernelError(
            f"Expected prediction is supported for {SUPPORTED}. "
            f"Got a {type(model).__name__} with kernel={model.kernel!r}."
        )


def _dense(x: Any) -> Any:
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x, dtype=np.float64)


def _read_svr(model: Any) -> Machine:
    _require_rbf(model)
    points = _dense(model.support_vectors_)
    rates = np.full(points.shape[1], float(model._gamma))
    expansion = Expansion(rates, points, _dense(model.dual_coef_).T, np.asarray(model.intercept_))
    return Machine(expansion.merged(), partial(_predicted, model))


def _read_svc(model: Any) -> Machine:
    """One function for every pair of classes; a single one for two classes."""
    _require_rbf(model)
    points, coef = _dense(model.support_vectors_), pairwise_coef(model)
    rates = np.full(points.shape[1], float(model._gamma))
    pairwise = copy.copy(model)
    pairwise.decision_function_shape = "ovo"
    expansion = Expansion(rates, points, coef, np.asarray(model.intercept_))
    return Machine(expansion.merged(), partial(_decided, pairwise), flat=coef.shape[1] == 1)


def pairwise_coef(model: Any) -> Any:
    """The coefficients of the support vectors of a classifier, (vectors, pairs of classes)."""
    dual = _dense(model.dual_coef_)
    pairs = list(combinations(range(len(model.classes_)), 2))
    if len(pairs) == 1:
        return dual.T
    stops = np.cumsum(model.n_support_)
    owner = np.searchsorted(stops, np.arange(dual.shape[1]), side="right")
    coef = np.zeros((dual.shape[1], len(pairs)))
    for k, (i, j) in enumerate(pairs):
        coef[owner == i, k] = dual[j - 1, owner == i]
        coef[owner == j, k] = dual[i, owner == j]
    return coef


def _read_ridge(model: Any) -> Machine:
    _require_rbf(model)
    points, coef = _dense(model.X_fit_), np.asarray(model.dual_coef_)
    gamma = 1.0 / points.shape[1] if model.gamma is None else float(model.gamma)
    flat, coef = coef.ndim == 1, table(coef)
    expansion = Expansion(np.full(points.shape[1], gamma), points, coef, np.zeros(coef.shape[1]))
    return Machine(expansion.merged(), partial(_predicted, model), flat=flat)


def _read_process(model: Any) -> Machine:
    points = np.asarray(model.X_train_, dtype=np.float64)
    amplitude, rates, noise = read_gp_kernel(model.kernel_, points.shape[1])
    alpha = np.asarray(model.alpha_)
    flat, alpha = alpha.ndim == 1, table(alpha)
    centre = np.broadcast_to(model._y_train_mean, alpha.shape[1:])
    scale = np.broadcast_to(model._y_train_std, alpha.shape[1:])
    inverse = cho_solve((model.L_, True), np.eye(len(points)))
    expansion = Expansion(rates, points, amplitude * alpha * scale, np.asarray(centre))
    prior = Prior(amplitude + noise, amplitude**2 * inverse, scale)
    # points stay as they are: the quadratic form has a row for each
    answers = partial(_predicted, model), partial(_process_spread, model)
    return Machine(expansion, *answers, prior, flat)


# Functions of models, as skops does not keep all of their bound methods.
def _predicted(model: Any, Z: Any) -> Any:
    return model.predict(Z)


def _decided(model: Any, Z: Any) -> Any:
    return model.decision_function(Z)


def _process_spread(model: Any, Z: Any) -> Any:
    return model.predict(Z, return_std=True)[1]


def read_gp_kernel(kernel: Any, n_columns: int) -> tuple[float, Any, float]:
    """The amplitude and the rates of the RBF part of a kernel, and the level of its noise."""
    terms = _terms(kernel, n_columns)
    smooth = [(amplitude, rates) for amplitude, rates, white in terms if not white]
    if len(smooth) != 1 or not smooth[0][1].any():
        _refuse_gp_kernel(kernel)
    noise = sum(amplitude for amplitude, _, white in terms if white)
    return smooth[0][0], smooth[0][1], float(noise)


def _refuse_gp_kernel(kernel: Any) -> None:
    raise KernelError(
        f"Expected prediction is supported for {SUPPORTED}. "
        f"Got a GaussianProcessRegressor with kernel {kernel}."
    )


def _terms(kernel: Any, n_columns: int) -> list[tuple[float, Any, bool]]:
    """A kernel as a sum of constants times RBF kernels, and of white noise."""
    nothing = np.zeros(n_columns)
    if isinstance(kernel, gp_kernels.ConstantKernel):
        return [(float(kernel.constant_value), nothing, False)]
    if isinstance(kernel, gp_kernels.WhiteKernel):
        return [(float(kernel.noise_level), nothing, True)]
    if type(kernel) is gp_kernels.RBF:  # Matern kernels inherit from it
        rates = nothing + 0.5 / np.asarray(kernel.length_scale, dtype=np.float64) ** 2
        return [(1.0, rates, False)]
    if isinstance(kernel, gp_kernels.Sum):
        return _terms(kernel.k1, n_columns) + _terms(kernel.k2, n_columns)
    if isinstance(kernel, gp_kernels.Product):
        return [
            (a * b, r + s, v or w)
            for a, r, v in _terms(kernel.k1, n_columns)
            for b, s, w in _terms(kernel.k2, n_columns)
        ]
    _refuse_gp_kernel(kernel)
    return []


READERS: list[tuple[Any, Callable[[Any], Machine]]] = [
    ((SVR, NuSVR), _read_svr),
    ((SVC, NuSVC), _read_svc),
    (KernelRidge, _read_ridge),
    (GaussianProcessRegressor, _read_process),
]


SMALLEST, LARGEST = 1e-140, 1e140
"""Deviations beyond these have squares that numbers do not hold."""
FAR = 1e3
"""So many deviations from zero, distances from dot products lose half of their digits."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """What columns (or targets) are reduced by, and divided by.

    Attributes
    ----------
    centre, scale : arrays of shape (columns,)

    Examples
    --------
    >>> scaling = Scaling(np.array([1.0]), np.array([2.0]))
    >>> scaling.apply(np.array([[5.0]])).tolist(), scaling.undo(np.array([[2.0]])).tolist()
    ([[2.0]], [[5.0]])
    """

    centre: Any
    scale: Any

    def apply(self, x: Any) -> Any:
        """The standardised columns."""
        return (x - self.centre) / self.scale

    def undo(self, x: Any) -> Any:
        """The columns at their own scale."""
        return x * self.scale + self.centre

    def rates(self, gamma: Any) -> Any:
        """The rates of the kernel for columns at their own scale, of one for standardised ones."""
        return gamma / self.scale**2


def learn_scaling(Z: Any, names: Sequence[Any], chosen: Any, sample_weight: Any = None) -> Scaling:
    """The means and deviations of chosen columns, as by scikit-learn's StandardScaler.

    Parameters
    ----------
    Z : array of shape (rows, columns)
        NaN is missing, and does not count.
    names : sequence
        What columns are called in messages.
    chosen : bool array of shape (columns,)
        Others stay as they are.
    sample_weight : array of shape (rows,), optional
    """
    centre, scale = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
    chosen = np.flatnonzero(chosen & ~np.isnan(Z).all(axis=0))
    if len(chosen):
        # a variance that is no number would pass for that of a constant
        power = np.frexp(np.nanmax(np.abs(Z[:, chosen]), axis=0))[1]
        power = np.where(np.abs(power) > LARGEST_POWER, power, 0)
        scaler = StandardScaler().fit(np.ldexp(Z[:, chosen], -power), sample_weight=sample_weight)
        varies = scaler.scale_ != 1.0
        centre[chosen] = np.ldexp(scaler.mean_, power)
        scale[chosen] = np.ldexp(scaler.scale_, np.where(varies, power, 0))
    bad = ~np.isfinite(centre) | ~((scale >= SMALLEST) & (scale <= LARGEST))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"Column {names[i]!r} holds values that cannot be standardised: their standard "
            f"deviation is {scale[i]:g}. Rescale the column."
        )
    return Scaling(centre, scale)


def centre_far(Z: Any) -> Scaling | None:
    """What brings columns that lie far from zero there, None if there are none.

    Kernels do not change, but squared distances of scikit-learn's have no digits left there. They
    are reduced by one of their values, so that differences are exact.

    Examples
    --------
    >>> scaling = centre_far(np.array([[1e9, 1.0], [1e9 + 1.0, 2.0]]))
    >>> scaling.centre.tolist(), scaling.scale.tolist()
    ([1000000000.0, 0.0], [1.0, 1.0])
    """
    centre = np.zeros(Z.shape[1])
    for i, x in enumerate(Z.T):
        middle = np.partition(x, (len(x) - 1) // 2)[(len(x) - 1) // 2]
        with np.errstate(over="ignore"):  # deviations that are no numbers are large
            spread = (x - middle).std()
        centre[i] = middle if 0.0 < FAR * spread < abs(middle) else 0.0
    return Scaling(centre, np.ones_like(centre)) if centre.any() else None


def numeric_columns(columns: Columns) -> tuple[list[Any], Any]:
    """The names of all columns of numbers, and which of them hold quantities, not categories."""
    grouped = {i for group in columns.groups for i in group}
    names: list[Any] = []
    numeric: list[bool] = []
    for i, place in enumerate(columns.places):
        names += [columns.names[i]] * len(place)
        numeric += [i not in columns.categories and i not in grouped] * len(place)
    return names, np.array(numeric)


def rescaled(machine: Machine, columns: Scaling | None, target: Scaling | None) -> Machine:
    """A machine of standardised columns and targets as one of columns and targets as they are."""
    expansion, predict, spread = machine.expansion, machine.predict, machine.spread
    if columns is not None:
        expansion = replace(
            expansion, rates=columns.rates(expansion.rates), points=columns.undo(expansion.points)
        )
        predict, spread = (f and partial(_of_columns, f, columns) for f in (predict, spread))
    if target is not None:
        expansion = of_target(expansion, target)
        predict = predict and partial(_of_target, predict, target)
    return replace(machine, expansion=expansion, predict=predict, spread=spread)


def of_target(expansion: Expansion, target: Scaling) -> Expansion:
    """An expansion of the standardised target as one of the target as it is."""
    return replace(
        expansion, coef=expansion.coef * target.scale, intercept=target.undo(expansion.intercept)
    )


def _of_columns(f: Callable[[Any], Any], columns: Scaling, Z: Any) -> Any:
    return f(columns.apply(Z))


def _of_target(f: Callable[[Any], Any], target: Scaling, Z: Any) -> Any:
    answers = f(Z)
    return target.undo(answers[:, None])[:, 0] if answers.ndim == 1 else target.undo(answers)
