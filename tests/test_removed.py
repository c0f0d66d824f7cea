"""Parameters of earlier versions raise an error that says what to use instead."""

import inspect

import pytest
from sklearn.base import BaseEstimator, clone

import expectedkernels as ek
from expectedkernels import CircuitError
from expectedkernels.checks import check_choice, removed


class Estimator(BaseEstimator):
    @removed(binning="bins are quantiles; set n_bins")
    def __init__(self, n_bins=10):
        self.n_bins = n_bins


def test_removed_parameters_of_estimators_are_no_part_of_the_signature():
    model = clone(Estimator(n_bins=3))
    assert model.get_params() == {"n_bins": 3}
    assert list(inspect.signature(Estimator).parameters) == ["n_bins"]
    with pytest.raises(CircuitError, match="'binning' parameter of Estimator was removed: bins"):
        Estimator(binning="uniform")
    with pytest.raises(TypeError, match="unexpected keyword argument 'bins'"):
        Estimator(bins=3)


def test_removed_values_are_named():
    advice = {"bagging": "use method='em'"}
    with pytest.raises(CircuitError, match="Got 'bagging', which was removed: use m"):
        check_choice("learn", "method", "bagging", ("em", "boost"), removed=advice)
    with pytest.raises(CircuitError, match="Got 'other' instead"):
        check_choice("learn", "method", "other", ("em", "boost"), removed=advice)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: ek.ExpectedSVR(density_weights="equal"), "of ExpectedSVR was removed: densities"),
        (
            lambda: ek.ExpectedGaussianProcessRegressor(n_restarts_optimizer=1),
            "'n_restarts_optimizer' parameter of .* was removed: give a 'kernel'",
        ),
        (
            lambda: ek.CircuitImputer().sample([[0]], method="herded"),
            "Imputer.sample was removed",
        ),
        (lambda: ek.expected_prediction(None, None, [], return_bound=True), "removed: for the dis"),
        (lambda: ek.ExpectedSVC(decision_function_shape="ovo"), "use expected_prediction with an"),
        (lambda: ek.CircuitImputer(binning="uniform"), "of CircuitImputer was removed: bins hold"),
        (lambda: ek.learn_strudel([[0], [1]], beam=2), "of learn_strudel was removed: splits are"),
        (lambda: ek.learn_chow_liu([[0], [1]], min_mi=1.0), "of learn_chow_liu was removed: every"),
        (lambda: ek.learn_mixture([[0]], 1, method="em"), "of learn_mixture was removed: comp"),
    ],
)
def test_what_was_removed_says_what_to_use(call, match):
    with pytest.raises(CircuitError, match=match):
        call()
