import matplotlib.pyplot as plt
import numpy as np
import pytest

from expectedkernels.plotting import plot_convergence


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_draws_errors_standard_errors_and_the_exact_line():
    ax = plot_convergence([10, 100], [0.4, 0.51], exact=0.5, standard_errors=[0.2, 0.05])
    exact, points, expected = ax.get_lines()
    np.testing.assert_allclose(points.get_ydata(), [0.1, 0.01])
    np.testing.assert_allclose(expected.get_ydata(), [0.2, 0.05])
    np.testing.assert_allclose(exact.get_ydata(), np.spacing(0.5))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_legend()
    assert ax.get_xlabel() == "number of samples"
    assert ax.get_ylabel() == "absolute error"


def test_draws_on_given_axes_and_returns_them():
    _, ax = plt.subplots()
    assert plot_convergence([10], [0.4], exact=0.5, ax=ax) is ax
    assert len(ax.get_lines()) == 2


def test_an_estimate_without_error_is_drawn_on_the_line():
    points = plot_convergence([10, 100], [0.4, 0.5], exact=0.5).get_lines()[1]
    assert points.get_ydata()[1] == np.spacing(0.5)


@pytest.mark.parametrize("arguments", [([10], [0.1, 0.2]), ([], [])])
def test_refuses_lengths_that_do_not_fit(arguments):
    with pytest.raises(ValueError, match="'estimates' must be of the same length, at least 1"):
        plot_convergence(*arguments, exact=0.5)


def test_refuses_standard_errors_that_do_not_fit():
    with pytest.raises(ValueError, match=r"one entry per estimate, 1\. Got 2"):
        plot_convergence([10], [0.1], exact=0.5, standard_errors=[0.1, 0.2])
