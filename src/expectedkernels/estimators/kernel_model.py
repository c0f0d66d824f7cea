"""Fitted kernel models as expansions, and their expected predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as gp_kernels
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR, NuSVC, NuSVR
from sklearn.utils.validation import check_is_fitted

from expectedkernels.checks import KernelError
from expectedkernels.estimators.circuit_density import AnyDensity
from expectedkernels.estimators.encoding import completed_groups
from expectedkernels.estimators.kernel_expansion import (
    Expansion,
    Masks,
    Prior,
    Resources,
    distinct,
    masks_of,
)

SUPPORTED = (
    "SVR, NuSVR, SVC, NuSVC and KernelRidge with kernel='rbf', and GaussianProcessRegressor with "
    "an RBF kernel (times a ConstantKernel, plus a WhiteKernel)"
)


@dataclass(frozen=True, eq=False)
class Machine:
    """A fitted model as a kernel expansion.

    Attributes
    ----------
    expansion : Expansion
    prior : Prior or None
    flat : bool
        Whether answers have no axis of outputs.
    masks : Masks or None
        Those of the points of the expansion, if kernels know what is missing.
    """

    expansion: Expansion
    prior: Prior | None = None
    flat: bool = True
    masks: Masks | None = None


def expect(
    machine: Machine,
    density: AnyDensity,
    Z: Any,
    resources: Resources,
    return_std: bool = False,
    like: Any = None,
) -> Any:
    """The expected answers of a machine for rows with missing values (and their deviations).

    If kernels know masks, `like` are rows whose masks count in place of the own ones.
    """
    Z, incomplete, rows = read_rows(density, Z)
    complete = np.setdiff1d(np.arange(len(Z)), incomplete)
    mean = np.empty((len(Z), machine.expansion.coef.shape[1]))
    std = np.zeros_like(mean)
    if machine.masks is not None:
        own = masks_of(density.variables, Z if like is None else like)
        mean = machine.masks.values(machine.expansion, density, Z, own, resources)
        first, number = distinct(own)
        for k, mask in enumerate(own[first] if return_std else []):
            at = np.flatnonzero(number == k)
            factors, f, prior = (
                machine.masks.factors(mask[None])[0],
                machine.expansion,
                machine.prior,
            )
            if prior is not None:
                prior = replace(prior, form=prior.form * factors * factors[:, None])
            plain = Machine(replace(f, coef=f.coef * factors[:, None]), prior, flat=False)
            std[at] = expect(plain, density, Z[at], resources, True)[1]
    else:
        if len(complete):
            mean[complete] = machine.expansion.at(density, Z[complete], resources)
        if len(incomplete):
            mean[incomplete] = density.mean(machine.expansion, rows, resources)
        parts = [(incomplete, rows)]
        if machine.prior is not None:
            parts.append((complete, density.rows(Z[complete])))
        for at, own in parts if return_std else []:
            if len(at):
                f, prior = machine.expansion, machine.prior
                std[at] = np.sqrt(density.variance(f, own, mean[at], resources, prior))
    if machine.flat:
        mean, std = mean[:, 0], std[:, 0]
    return (mean, std) if return_std else mean


def table(answers: Any) -> Any:
    """Answers with an axis of outputs."""
    return answers[:, None] if answers.ndim == 1 else answers


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
            return read(model)
    advice = ""
    if hasattr(model, "steps"):
        advice = " Give its last step, and X as the steps before transform it."
    elif hasattr(model, "best_estimator_"):
        advice = " Give its best_estimator_."
    raise unsupported(f"{type(model).__name__}.{advice}")


def unsupported(found: str) -> KernelError:
    """The error for a model that is no sum of RBF kernels."""
    return KernelError(f"Expected prediction is supported for {SUPPORTED}. Got a {found}")


def _require_rbf(model: Any) -> None:
    if model.kernel != "rbf":
        raise unsupported(f"{type(model).__name__} with kernel={model.kernel!r}.")


def _dense(x: Any) -> Any:
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x, dtype=np.float64)


def _read_svr(model: Any) -> Machine:
    _require_rbf(model)
    points = _dense(model.support_vectors_)
    rates = np.full(points.shape[1], float(model._gamma))
    expansion = Expansion(rates, points, _dense(model.dual_coef_).T, np.asarray(model.intercept_))
    return Machine(expansion.merged())


def _read_svc(model: Any) -> Machine:
    """One function for every pair of classes; a single one for two classes."""
    _require_rbf(model)
    points, coef = _dense(model.support_vectors_), pairwise_coef(model)
    rates = np.full(points.shape[1], float(model._gamma))
    expansion = Expansion(rates, points, coef, np.asarray(model.intercept_))
    return Machine(expansion.merged(), flat=coef.shape[1] == 1)


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
    return Machine(expansion.merged(), flat=flat)


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
    return Machine(expansion, prior, flat)


def read_gp_kernel(kernel: Any, n_columns: int) -> tuple[float, Any, float]:
    """The amplitude and the rates of the RBF part of a kernel, and the level of its noise."""
    terms = _terms(kernel, n_columns)
    smooth = [(amplitude, rates) for amplitude, rates, white in terms if not white]
    if len(smooth) != 1 or not smooth[0][1].any():
        raise unsupported(f"GaussianProcessRegressor with kernel {kernel}.")
    noise = sum(amplitude for amplitude, _, white in terms if white)
    return smooth[0][0], smooth[0][1], float(noise)


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
    raise unsupported(f"GaussianProcessRegressor with kernel {kernel}.")


READERS: list[tuple[Any, Callable[[Any], Machine]]] = [
    ((SVR, NuSVR), _read_svr),
    ((SVC, NuSVC), _read_svc),
    (KernelRidge, _read_ridge),
    (GaussianProcessRegressor, _read_process),
]
