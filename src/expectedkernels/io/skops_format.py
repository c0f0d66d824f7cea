"""Files of fitted estimators, in the format of skops: types are named, and nothing is executed."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import expectedkernels as ek
from expectedkernels.io.text import PathLike, checked_path, read_bytes


def trusted_types() -> set[str]:
    """What files may hold beside what skops trusts by itself, arrays and scikit-learn's estimators.

    These are the classes that estimators of this library are made of.
    """
    from scipy.sparse import csr_array
    from sklearn.gaussian_process import kernels

    from expectedkernels.circuits.inputs import Real, Table
    from expectedkernels.engine.blocks import Inner
    from expectedkernels.estimators.calibration import (
        HeldOut,
        LandmarkTraining,
        RowScale,
        Training,
    )
    from expectedkernels.estimators.circuit_density import CircuitDensity
    from expectedkernels.estimators.densities import AverageDensity, NormalDensity
    from expectedkernels.estimators.encoding import Encoding, Variable
    from expectedkernels.estimators.kernel_expansion import KernelExpansion, KernelModel, Prior
    from expectedkernels.estimators.landmarks import FeatureRidge, Nystrom
    from expectedkernels.learning.normals import NormalMixture

    types: tuple[Any, ...] = (
        *(ek.CircuitImputer, ek.ExpectedGaussianProcessRegressor, ek.ExpectedKernelClassifier),
        *(ek.ExpectedKernelFeatures, ek.ExpectedKernelRidge, ek.ExpectedSVC, ek.ExpectedSVR),
        *(AverageDensity, CircuitDensity, NormalDensity, NormalMixture),
        *(Encoding, FeatureRidge, HeldOut, KernelExpansion, KernelModel, LandmarkTraining, Nystrom),
        *(Prior, RowScale, Training, Variable),
        *(ek.Circuit, Inner, Real, Table, ek.Vtree),
        *(kernels.ConstantKernel, kernels.Product, kernels.RBF, kernels.Sum, kernels.WhiteKernel),
        csr_array,
    )
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in types}


def save_estimator(model: Any, path: PathLike) -> None:
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
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted

    skops, name = require_skops(), type(model).__name__
    if not isinstance(model, BaseEstimator):
        raise ek.CircuitError(f"A .skops file holds a fitted estimator. Got {name} instead.")
    check_is_fitted(model)
    advice = "Parameters may be numbers, text, and densities by name or as learned circuits"
    try:
        data = skops.dumps(model, compression=ZIP_DEFLATED)
        found = ", ".join(sorted(set(skops.get_untrusted_types(data=data)) - trusted_types()))
    except Exception as error:  # whatever skops, or what it is given, comes upon
        found = str(error)
    if found:
        place = f"This {name} cannot be written to {checked_path(path)}"
        raise ek.CircuitError(f"{place}. {advice}. Found: {found}")
    file = BytesIO(data)
    with ZipFile(file, "a") as archive:
        archive.comment = f"expectedkernels {ek.__version__}".encode()
    with open(path, "wb") as out:
        out.write(file.getbuffer())


def load_estimator(path: PathLike) -> Any:
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
    from sklearn.base import BaseEstimator

    skops, place, known = require_skops(), checked_path(path), trusted_types()
    data = read_bytes(place)
    try:
        with ZipFile(BytesIO(data)) as archive:
            version = archive.comment.decode("ascii", "replace").removeprefix("expectedkernels ")
            archive.getinfo("schema.json")
        others = sorted(set(skops.get_untrusted_types(data=data)) - known)
        found = None if others else skops.loads(data, trusted=sorted(known))
    except Exception as error:  # files can be made to fail in any way
        message = f"expected an estimator in a skops file, found other or damaged data ({error})"
        raise ek.ParseError(message, place) from error
    if others:
        risk = "loading them could run code of the author of the file"
        wanted = f"expected types of expectedkernels, found {', '.join(others)}"
        message = f"{wanted}. They are not trusted: {risk}"
        if version not in ("", ek.__version__):
            lacks = f"and version {ek.__version__} lacks {others[0]}"
            wrote = f"version {version} of expectedkernels has written this file"
            message = f"{wrote}, {lacks}. Fit and save the estimator again"
        raise ek.ParseError(message, place)
    if not isinstance(found, BaseEstimator):
        raise ek.ParseError(f"expected an estimator, found {type(found).__name__}", place)
    return found


def require_skops() -> Any:
    """The module that reads and writes files of estimators; raises if it is not installed."""
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise ImportError(
            "Files of estimators (.skops) are read and written with skops, which is not "
            "installed: pip install 'expectedkernels[skops]'"
        ) from error
