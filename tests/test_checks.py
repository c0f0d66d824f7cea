"""Verdicts, parameters that were removed, and progress bars."""

import inspect
import sys
from types import SimpleNamespace

import pytest
from sklearn.base import BaseEstimator, clone

import expectedkernels as ek
from assertions import assert_raises, refusals
from expectedkernels import CircuitError, Verdict
from expectedkernels.checks import check_choice, progress_bar, removed


class Estimator(BaseEstimator):
    @removed(binning="bins are quantiles; set n_bins")
    def __init__(self, n_bins=10):
        self.n_bins = n_bins


def test_removed_parameters_of_estimators_are_no_part_of_the_signature():
    model = clone(Estimator(n_bins=3))
    assert model.get_params() == {"n_bins": 3}
    assert list(inspect.signature(Estimator).parameters) == ["n_bins"]
    assert_raises(CircuitError, "'binning' parameter of Estimator", Estimator, binning="uniform")
    assert_raises(TypeError, "unexpected keyword argument 'bins'", Estimator, bins=3)


def test_removed_values_are_named():
    advice = {"bagging": "use method='em'"}
    with pytest.raises(CircuitError, match="Got 'bagging', which was removed: use m"):
        check_choice("learn", "method", "bagging", ("em", "boost"), removed=advice)
    with pytest.raises(CircuitError, match="Got 'other' instead"):
        check_choice("learn", "method", "other", ("em", "boost"), removed=advice)


def test_bars_are_text_or_widgets_and_only_in_terminals_and_notebooks(monkeypatch, capsys):
    with progress_bar(3, "steps") as bar:
        bar.update(3)
    assert bar.disable
    assert capsys.readouterr().err == ""
    shell, made = SimpleNamespace(kernel=None), []
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    for quiet in (False, True):
        with progress_bar(3, "steps", quiet=quiet) as bar:
            assert bar.disable is quiet
    fake = SimpleNamespace(tqdm=lambda **options: made.append(options))
    monkeypatch.setitem(sys.modules, "tqdm.notebook", fake)
    monkeypatch.setitem(sys.modules, "ipywidgets", SimpleNamespace(__spec__=object()))
    progress_bar(3, "steps")
    assert made[0]["disable"] is False


test_what_was_removed_says_what_to_use = refusals(CircuitError, [
    (lambda: ek.ExpectedSVR(density_weights="equal"), "of ExpectedSVR was removed: densities"),
    (lambda: ek.ExpectedGaussianProcessRegressor(n_restarts_optimizer=1),
     "'n_restarts_optimizer' parameter of .* was removed: give a 'kernel'"),
    (lambda: ek.CircuitImputer().sample([[0]], method="herded"), "Imputer.sample was removed"),
    (lambda: ek.expected_prediction(None, None, [], return_bound=True), "removed: for the dis"),
    (lambda: ek.ExpectedSVC(decision_function_shape="ovo"), "use expected_prediction with an"),
    (lambda: ek.CircuitImputer(binning="uniform"), "of CircuitImputer was removed: bins hold"),
    (lambda: ek.learn_strudel([[0], [1]], beam=2), "of learn_strudel was removed: splits are"),
    (lambda: ek.learn_chow_liu([[0], [1]], min_mi=1.0), "of learn_chow_liu was removed: every"),
    (lambda: ek.learn_mixture([[0]], 1, method="em"), "of learn_mixture was removed: comp"),
])  # fmt: skip


@pytest.mark.parametrize(
    ("holds", "truth", "word"),
    [(True, True, "yes"), (False, False, "no"), (None, False, "undecided")],
)
def test_verdicts_answer_and_explain(holds, truth, word):
    verdict = Verdict(holds, "because of unit 3")
    assert bool(verdict) is truth
    assert repr(verdict) == str(verdict) == f"{word}: because of unit 3"
    for other in (True, False, None):
        assert (verdict == Verdict(other, "because of unit 3")) == (other is holds)
    with pytest.raises(AttributeError):
        verdict.holds = False
