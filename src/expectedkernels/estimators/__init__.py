"""Kernel machines that accept missing values, with the conventions of scikit-learn."""

from expectedkernels.estimators.classifiers import ExpectedSVC
from expectedkernels.estimators.features import ExpectedKernelFeatures
from expectedkernels.estimators.imputer import CircuitImputer
from expectedkernels.estimators.prediction import expected_prediction
from expectedkernels.estimators.processes import ExpectedGaussianProcessRegressor
from expectedkernels.estimators.regressors import ExpectedKernelRidge, ExpectedSVR

__all__ = [
    "CircuitImputer",
    "ExpectedGaussianProcessRegressor",
    "ExpectedKernelFeatures",
    "ExpectedKernelRidge",
    "ExpectedSVC",
    "ExpectedSVR",
    "expected_prediction",
]
