"""All kernel machines, what they are asked, and densities over real values."""

import numpy as np
from sklearn.mixture import GaussianMixture

import expectedkernels as ek

MACHINES = {
    "svr": ek.ExpectedSVR(),
    "ridge": ek.ExpectedKernelRidge(),
    "process": ek.ExpectedGaussianProcessRegressor(optimizer=None),
    "svc": ek.ExpectedSVC(),
    "classifier": ek.ExpectedKernelClassifier(),
}


def target(model, y, ends=(-0.5, 0.5)):
    """Numbers as they are for regression, in classes for classification."""
    return np.digitize(y, ends) if hasattr(model, "decision_function") else y


def answers(model, X, **options):
    """What a machine says of rows, as numbers."""
    method = "decision_function" if hasattr(model, "decision_function") else "predict"
    return getattr(model, method)(X, **options)


def products_of_normals(X, n=4):
    """A mixture of products of normal distributions; means stand for what is missing."""
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    return GaussianMixture(n, covariance_type="diag", random_state=0).fit(X)
