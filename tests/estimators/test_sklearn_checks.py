"""scikit-learn's own checks, documented parameters, searches, numbers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import expectedkernels as ek
from assertions import assert_raises, refusals
from oracles import with_holes

MACHINES = [
    ek.ExpectedSVR(),
    ek.ExpectedKernelRidge(),
    ek.ExpectedSVC(),
    ek.ExpectedKernelClassifier(),
    ek.ExpectedGaussianProcessRegressor(alpha=1e-3),
]
LANDMARKS = [clone(machine).set_params(n_landmarks=50) for machine in MACHINES]
ESTIMATORS = [*MACHINES, ek.ExpectedKernelFeatures(), ek.CircuitImputer()]


def expected_failures(estimator):
    """What also fails for scikit-learn's own support vector machines, for the same reason."""
    if isinstance(estimator, (ek.ExpectedSVR, ek.ExpectedSVC)):
        reason = "libsvm stops at a tolerance, not at the optimum"
        return {"check_sample_weight_equivalence_on_dense_data": reason}
    return {}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([*ESTIMATORS, *LANDMARKS], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check, monkeypatch):
    # Otherwise check_array_api_input skips itself; it is about NumPy's arrays only, which SciPy
    # treats in the same way whether or not it dispatches on others.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_every_parameter_is_documented_once(estimator):
    section = type(estimator).__doc__.split("Parameters\n----------\n")[1].split("\n\n")[0]
    names = [line.partition(" :")[0] for line in section.splitlines() if line[:1].strip()]
    assert sorted(names) == sorted(estimator.get_params(deep=False))


def diabetes(n):
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X[:n]), y[:n]


def test_a_circuit_can_be_cloned_and_searched():
    X = np.random.default_rng(0).integers(3, size=(60, 3)).astype(float)
    grid = {"density": ["chow_liu", "strudel", ek.learn_chow_liu(X)]}
    search = GridSearchCV(ek.ExpectedSVR(), grid, cv=2, error_score="raise")
    search.fit(X, X.sum(axis=1))
    assert len(search.cv_results_["mean_test_score"]) == 3
    assert np.isfinite(search.predict(with_holes(X, 0.2))).all()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("value", [True, np.False_])
def test_truth_values_are_no_numbers(estimator, value):
    X, y = diabetes(20)
    numbers = {"C", "epsilon", "alpha", "gamma", "tol", "mask_kernel", "n_components", "n_bins"}
    numbers |= {"n_jobs", "max_bytes", "random_state", "n_landmarks"}
    for name in numbers & set(estimator.get_params()):
        message = f"'{name}' parameter of .* must be one of: .* Got .* not taken for a number"
        model = clone(estimator).set_params(**{name: value})
        assert_raises(ek.DataError, message, model.fit, X, y > 150.0)


test_coverages_and_counts_are_numbers = refusals(ek.DataError, [
    (lambda X, y: ek.ExpectedKernelRidge().fit(X, y).predict_interval(X, True),
     r"'coverage' parameter .* range \(0, 1\). Got True"),
    (lambda X, y: ek.CircuitImputer().fit(X).sample(X, True),
     r"'n' parameter of CircuitImputer.sample .* Got True"),
    (lambda X, y: ek.learn_chow_liu([[0, 1], [1, 0]], cardinalities=True),
     r"'cardinalities' parameter .* Got True"),
], lambda call: call(*diabetes(40)))  # fmt: skip
