"""Parameters of earlier versions raise an error that says what to use instead."""

import pytest

import expectedkernels as ek
from expectedkernels import CircuitError


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
