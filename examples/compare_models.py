"""Which model is closest to the data? The exact MMD between circuits and held-out images tells.

Mixtures of more and more components are fitted to half of the images of a digit and compared
with the other half, without drawing a single sample from them. The distance between the two
halves themselves is what a model that remembers all it has seen would reach.
"""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import expectedkernels as ek


def fit_mixture(X: np.ndarray, n_components: int) -> ek.Circuit:
    """A mixture of independent pixels, one component per cluster of k-means.

    Frequencies are smoothed as if every cluster held one more image, the average of all.
    """
    cluster = KMeans(n_components, n_init=4, random_state=0).fit_predict(X)
    groups = [X[cluster == c] for c in range(n_components)]
    average = (X.sum(axis=0) + 1) / (len(X) + 2)
    white = [(group.sum(axis=0) + average) / (len(group) + 1) for group in groups]
    components = [ek.factorized(np.stack([1 - w, w], axis=1)) for w in white]
    return ek.mixture(components, [len(group) / len(X) for group in groups])


def main() -> None:
    images, digit = load_digits(return_X_y=True)
    X = (images[digit == 8] >= 8).astype(int)  # 64 black or white pixels
    seen, held_out = X[::2], X[1::2]
    kernel = ek.RBF(gamma=0.05)
    print("components   edges   MMD to held-out images   mean log-likelihood of them")
    for n_components in (1, 2, 4, 8, 16, 32):
        p = fit_mixture(seen, n_components)
        distance, fit = ek.mmd(p, held_out, kernel), p.log_likelihood(held_out).mean()
        print(f"{n_components:10}{p.n_edges:8}{distance:25.4f}{fit:30.2f}")
    print(f"seen images{ek.mmd(ek.Empirical(seen), held_out, kernel):32.4f}")


if __name__ == "__main__":
    main()
