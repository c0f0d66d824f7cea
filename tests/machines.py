"""All kernel machines, and what they are asked."""

import numpy as np

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
