"""The demo: an exact expectation beside Monte Carlo estimates, on images of digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, takewhile
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import expectedkernels as ek

Value = TypeVar("Value")

DIGITS = (3, 8)
GAMMA = 0.1


@dataclass(frozen=True)
class Estimate:
    """One Monte Carlo estimate of the expected kernel."""

    n_samples: int
    value: float
    standard_error: float
    seconds: float


@dataclass(frozen=True)
class Result:
    """What the demo found."""

    p: ek.Circuit
    q: ek.Circuit
    exact: float
    exact_seconds: float
    mmd: float
    mmd_seconds: float
    estimates: tuple[Estimate, ...]


def digit_images(digit: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The images of one digit in scikit-learn's data set, as rows of 64 black or white pixels.

    Examples
    --------
    >>> digit_images(3).shape
    (183, 64)
    """
    X, y = load_digits(return_X_y=True)
    return np.asarray(X[y == digit] >= 8, dtype=np.int64)


def cluster_frequencies(X: Any, n_components: int, seed: int = 0) -> tuple[Any, Any]:
    """The shares of the clusters of k-means, and how often each pixel is white in each of them.

    Frequencies are smoothed as if every cluster held one more image, the average of all.

    Examples
    --------
    >>> shares, white = cluster_frequencies(digit_images(3), n_components=4)
    >>> shares.shape, white.shape
    ((4,), (4, 64))
    """
    cluster = KMeans(n_components, n_init=4, random_state=seed).fit_predict(X)
    groups = [X[cluster == c] for c in range(n_components)]
    average = (X.sum(axis=0) + 1) / (len(X) + 2)
    white = [(group.sum(axis=0) + average) / (len(group) + 1) for group in groups]
    return np.array([len(group) / len(X) for group in groups]), np.array(white)


def fit_mixture(X: Any, n_components: int, seed: int = 0) -> ek.Circuit:
    """The circuit of a mixture of independent pixels, one component per cluster of k-means.

    Examples
    --------
    >>> fit_mixture(digit_images(3), n_components=4).n_variables
    64
    """
    shares, white = cluster_frequencies(X, n_components, seed)
    tables = np.stack([1 - white, white], axis=2)
    return ek.mixture([ek.factorized(component) for component in tables], shares)


def run(seed: int = 0, max_samples: int = 1_000_000, n_components: int = 16) -> Result:
    """The exact expected kernel of two digits, and its estimates from more and more samples.

    Parameters
    ----------
    seed : int
        Seed of the clustering and of the samples.
    max_samples : int
        Numbers of samples are the powers of ten from 100 up to this one.
    n_components : int
        Size of each mixture.

    Examples
    --------
    >>> result = run(max_samples=1000, n_components=4)
    >>> [estimate.n_samples for estimate in result.estimates]
    [100, 1000]
    """
    p, q = (fit_mixture(digit_images(digit), n_components, seed) for digit in DIGITS)
    kernel = ek.RBF(gamma=GAMMA)
    exact, exact_seconds = _timed(lambda: ek.expected_kernel(p, q, kernel))
    mmd, mmd_seconds = _timed(lambda: ek.mmd(p, q, kernel))
    rng = np.random.default_rng(seed)
    sizes = takewhile(lambda n: n <= max_samples, (10**i for i in count(2)))
    estimates = tuple(_estimate(p, q, kernel, n, rng) for n in sizes)
    return Result(p, q, exact, exact_seconds, mmd, mmd_seconds, estimates)


def _estimate(p: ek.Circuit, q: ek.Circuit, kernel: ek.Kernel, n: int, rng: Any) -> Estimate:
    """One estimate from n pairs of samples, with its time."""
    (value, error), seconds = _timed(lambda: ek.monte_carlo_expected_kernel(p, q, kernel, n, rng))
    return Estimate(n, value, error, seconds)


def table(result: Result) -> str:
    """The result as a few lines of plain text, with a table."""
    p, q = result.p, result.q
    lines = [
        f"p: images of the digit {DIGITS[0]}, {p.n_variables} pixels, {p.n_edges} edges",
        f"q: images of the digit {DIGITS[1]}, {q.n_variables} pixels, {q.n_edges} edges",
        f"k: exp(-{GAMMA} |x - x'|^2)",
        "",
        _row("E[k(x, x')]", "samples", "value", "error", "std. error", "time"),
        _row("exact", "", f"{result.exact:.12f}", "", "", _time(result.exact_seconds)),
    ]
    for e in result.estimates:
        error, expected = abs(e.value - result.exact), e.standard_error
        cells = f"{e.value:.12f}", f"{error:.1e}", f"{expected:.1e}", _time(e.seconds)
        lines.append(_row("Monte Carlo", str(e.n_samples), *cells))
    lines += ["", f"MMD(p, q) = {result.mmd:.12f}, exact, in {_time(result.mmd_seconds)}"]
    return "\n".join(lines)


def _row(name: str, samples: str, value: str, error: str, expected: str, time: str) -> str:
    return f"{name:13}{samples:>9}{value:>17}{error:>10}{expected:>12}{time:>11}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _timed(call: Callable[[], Value]) -> tuple[Value, float]:
    start = perf_counter()
    value = call()
    return value, perf_counter() - start
