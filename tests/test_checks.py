"""Checks of parameters that were removed, and progress bars."""

import inspect
import sys
from types import SimpleNamespace

import pytest
from sklearn.base import BaseEstimator, clone

from expectedkernels import CircuitError
from expectedkernels.checks import check_choice, progress_bar, removed


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


def in_notebook(monkeypatch):
    shell = SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


def test_bars_are_text_in_notebooks_without_widgets(monkeypatch):
    in_notebook(monkeypatch)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with progress_bar(3, "steps") as bar:
        assert not bar.disable
    with progress_bar(3, "steps", quiet=True) as bar:
        assert bar.disable


def test_bars_are_widgets_where_there_are_some(monkeypatch):
    in_notebook(monkeypatch)
    made = []
    fake = SimpleNamespace(tqdm=lambda **options: made.append(options))
    monkeypatch.setitem(sys.modules, "tqdm.notebook", fake)
    monkeypatch.setitem(sys.modules, "ipywidgets", SimpleNamespace(__spec__=object()))
    progress_bar(3, "steps")
    assert made[0]["disable"] is False


def test_there_are_no_bars_off_terminals_and_notebooks(capsys):
    with progress_bar(3, "steps") as bar:
        bar.update(3)
    assert bar.disable
    assert capsys.readouterr().err == ""
