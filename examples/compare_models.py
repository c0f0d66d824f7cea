"""Which model is closest to the data? The exact MMD between circuits and held-out images tells.

Mixtures of more and more components are fitted to half of the images of a digit and compared
with the other half, without drawing a single sample from them. The distance between the two
halves themselves is what a model that remembers all it has seen would reach.
"""

import expectedkernels as ek
from expectedkernels.experiments.digits import digit_images, fit_mixture


def main() -> None:
    X = digit_images(8)
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
