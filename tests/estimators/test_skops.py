"""Estimators are kept by skops, and list the types that a reader has to trust."""

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.datasets import load_diabetes

import expectedkernels as ek

skops = pytest.importorskip("skops.io")

OWNERS = {"expectedkernels", "functools", "sklearn"}
"""Whose types files of estimators hold, besides those that skops trusts by itself."""
ESTIMATORS = [
    ek.ExpectedSVR(),
    ek.ExpectedSVR(density="chow_liu", mask_kernel=0.5),
    ek.ExpectedKernelRidge(density="gaussian_mixture"),
    ek.ExpectedSVC(),
    ek.ExpectedKernelClassifier(),
    ek.ExpectedGaussianProcessRegressor(alpha=1e-3),
    ek.ExpectedKernelFeatures(),
    ek.CircuitImputer(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_skops_gives_back_what_it_was_given(estimator):
    X, y = load_diabetes(return_X_y=True)
    X, y = 20.0 * X[:60, :4], (y[:60] - 150.0) / 80.0
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    estimator.fit(X, np.digitize(y, [-0.5, 0.5]) if is_classifier(estimator) else y)
    data = skops.dumps(estimator)
    types = skops.get_untrusted_types(data=data)
    assert f"{type(estimator).__module__}.{type(estimator).__qualname__}" in types
    assert {name.split(".")[0] for name in types} <= OWNERS
    found = skops.loads(data, trusted=types)
    asked = [a for a in ("predict", "transform", "predict_proba") if hasattr(estimator, a)]
    for answers in asked:
        np.testing.assert_array_equal(getattr(found, answers)(X), getattr(estimator, answers)(X))
