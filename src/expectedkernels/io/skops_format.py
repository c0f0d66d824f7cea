"""Files of fitted estimators, in the format of skops: types are named, and nothing is executed."""

from __future__ import annotations

import os
from importlib import import_module
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import kernels
from sklearn.utils.validation import check_is_fitted

import expectedkernels as ek
from expectedkernels.circuits.inputs import Real, Table
from expectedkernels.engine.blocks import Inner
from expectedkernels.estimators.calibration import HeldOut, Scores, Training
from expectedkernels.estimators.circuit_density import AverageDensity, CircuitDensity
from expectedkernels.estimators.densities import NormalDensity
from expectedkernels.estimators.encoding import Encoding, Pieces, Variable
from expectedkernels.estimators.kernel_expansion import Expansion, Machine, Masks, Prior
from expectedkernels.learning.normals import NormalMixture

TRUSTED: tuple[Any, ...] = (
    *(ek.CircuitImputer, ek.ExpectedGaussianProcessRegressor, ek.ExpectedKernelClassifier),
    *(ek.ExpectedKernelFeatures, ek.ExpectedKernelRidge, ek.ExpectedSVC, ek.ExpectedSVR),
    *(AverageDensity, CircuitDensity, NormalDensity, NormalMixture),
    *(Encoding, Expansion, HeldOut, Machine, Masks, Pieces, Prior, Scores, Training, Variable),
    *(ek.Circuit, Inner, Real, Table, ek.Vtree),
    *(kernels.ConstantKernel, kernels.Product, kernels.RBF, kernels.Sum, kernels.WhiteKernel),
    csr_array,
)
"""What files of estimators may hold, beside what skops trusts by itself: arrays, and the
estimators of scikit-learn."""


def save_estimator(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file. Needs skops.

    Parameters
    ----------
    model : estimator
        One of this library, fitted; also inside a pipeline of scikit-learn.
    path : path
        By convention it ends in ``.skops``.

    Raises
    ------
    CircuitError
        If it is no estimator, or if it holds objects that `load_estimator` does not trust, such
        as a class of your own in ``density``.
    NotFittedError
        If it is not fitted.
    ImportError
        If skops is not installed.

    Examples
    --------
    >>> import os, tempfile
    >>> import expectedkernels as ek
    >>> model = ek.ExpectedKernelRidge(density="gaussian").fit([[0.0], [1.0], [2.0]], [0.0, 1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_estimator(model, os.path.join(folder, "model.skops"))
    ...     again = load_estimator(os.path.join(folder, "model.skops"))
    >>> bool((again.predict([[0.5]]) == model.predict([[0.5]])).all())
    True
    """
    skops = require_skops()
    if not isinstance(model, BaseEstimator):
        raise ek.CircuitError(
            f"A .skops file holds a fitted estimator. Got {type(model).__name__} instead."
        )
    check_is_fitted(model)
    advice = (
        f"cannot be written to {os.fspath(path)}. Parameters may be numbers, text, and densities "
        "by name or as learned circuits."
    )
    try:
        data = skops.dumps(model, compression=ZIP_DEFLATED)
    except Exception as error:  # whatever skops, or what it is given, comes upon
        raise ek.CircuitError(f"This {type(model).__name__} {advice} Found: {error}") from error
    if others := sorted(set(skops.get_untrusted_types(data=data)) - set(_names())):
        found = ", ".join(others)
        raise ek.CircuitError(f"This {type(model).__name__} {advice} It holds {found}.")
    file = BytesIO(data)
    with ZipFile(file, "a") as archive:
        archive.comment = f"expectedkernels {ek.__version__}".encode()
    with open(path, "wb") as out:
        out.write(file.getbuffer())


def load_estimator(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator in a file that `save_estimator` wrote. Needs skops.

    Types of this library that estimators are made of are trusted beside those that skops trusts by
    itself, and no others, so that loading a file runs no code of its author.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator

    Raises
    ------
    ParseError
        If the file is damaged, holds other types, or was written by another version of this
        library that had other ones.
    ImportError
        If skops is not installed.

    Examples
    --------
    See `save_estimator`.
    """
    skops = require_skops()
    with open(path, "rb") as file:
        data = file.read()
    place = os.fspath(path)
    try:
        with ZipFile(BytesIO(data)) as archive:
            version = archive.comment.decode("ascii", "replace").removeprefix("expectedkernels ")
            if "schema.json" not in archive.namelist():
                raise BadZipFile
        others = sorted(set(skops.get_untrusted_types(data=data)) - set(_names()))
    except BadZipFile as error:
        raise ek.ParseError(
            "expected an estimator in a skops file, found other data", place
        ) from error
    except Exception as error:  # files can be made to fail in any way
        raise ek.ParseError(f"the skops data is damaged ({error})", place) from error
    if others and version not in ("", ek.__version__):
        raise ek.ParseError(
            f"version {version} of expectedkernels has written this file, and version "
            f"{ek.__version__} lacks {others[0]}. Fit and save the estimator again",
            place,
        )
    if others:
        raise ek.ParseError(
            f"expected types of expectedkernels, found {', '.join(others)}. They are not trusted: "
            "loading them could run code of the author of the file",
            place,
        )
    try:
        found = skops.loads(data, trusted=_names())
    except Exception as error:
        raise ek.ParseError(f"the skops data is damaged ({error})", place) from error
    if not isinstance(found, BaseEstimator):
        raise ek.ParseError(f"expected an estimator, found {type(found).__name__}", place)
    return found


def _names() -> list[str]:
    return [f"{found.__module__}.{found.__qualname__}" for found in TRUSTED]


def require_skops() -> Any:
    """The module that reads and writes files of estimators; raises if it is not installed."""
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise ImportError(
            "Files of estimators (.skops) are read and written with skops, which is not "
            "installed: pip install 'expectedkernels[skops]'"
        ) from error
