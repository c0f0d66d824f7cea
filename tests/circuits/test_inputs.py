"""Means of exp(-x^2) over intervals against fine rules."""

import numpy as np
import pytest

from expectedkernels.circuits.inputs import log_box, log_boxes

NODES, SHARES = np.polynomial.legendre.leggauss(40)


def log_mean(d, widths):
    """The log of the mean by a fine rule over every interval, scaled by its largest term."""
    values, shares = np.array([d]), np.ones(1)
    for half in widths:
        # panels that are narrow for the kernel, and for its slope at this distance
        panels = int(np.ceil(2.0 * half * (1.0 + abs(d) / 4.0))) + 1
        start = 2.0 * np.arange(panels)[:, None] - panels + 1.0
        nodes = ((start + NODES) / panels).ravel()
        share = np.tile(0.5 * SHARES / panels, panels)
        values = (values[:, None] + half * nodes).ravel()
        shares = (shares[:, None] * share).ravel()
    logs = -(values**2)
    return logs.max() + np.log(np.exp(logs - logs.max()) @ shares)


@pytest.mark.parametrize("d", [0.0, 1e-6, 0.3, 1.0, 2.7, 8.0, 60.0])
@pytest.mark.parametrize("a", [1e-9, 1e-3, 0.4, 0.6, 2.0, 7.0])
def test_one_interval(d, a):
    expected = log_mean(d, [a])
    found = log_box(np.array([d, -d]), np.array([a, a]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("d", [0.0, 0.3, 1.5, 4.0, 9.0, 30.0])
@pytest.mark.parametrize("a", [1e-6, 0.02, 0.5, 3.0])
@pytest.mark.parametrize("b", [1e-3, 0.3, 1.0, 4.0])
def test_two_intervals(d, a, b):
    expected = log_mean(d, [a, b])
    found = log_boxes(np.array([d, -d, d]), np.array([a, a, b]), np.array([b, b, a]))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("d", [0.0, 10.0, 50.0, 79.5, 80.0, 80.5, 83.0, 120.0])
def test_intervals_that_are_wide_for_the_kernel(d):
    # one is integrated in closed form, the other by panels
    panels = 400
    start = 2.0 * np.arange(panels)[:, None] - panels + 1.0
    nodes = ((start + NODES) / panels).ravel()
    logs = log_box(d + 30.0 * nodes, 50.0)
    shares = np.tile(0.5 * SHARES / panels, panels)
    expected = logs.max() + np.log(np.exp(logs - logs.max()) @ shares)
    found = log_boxes(np.array([d]), np.array([30.0]), np.array([50.0]))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_without_width():
    d = np.array([0.5, 3.0, 1e200])
    zero = np.zeros(3)
    np.testing.assert_array_equal(log_box(d, zero)[:2], -(d[:2] ** 2))
    assert log_box(d, zero)[2] == -np.inf
    np.testing.assert_array_equal(log_boxes(d, zero, zero), log_box(d, zero))
    a = np.array([1.0, 0.2, 3.0])
    np.testing.assert_array_equal(log_boxes(d, zero, a), log_box(d, a))
