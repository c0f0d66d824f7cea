"""Circuits of images of handwritten digits, to try things out on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import expectedkernels as ek


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
