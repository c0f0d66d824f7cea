"""Which model is closest to the data? The exact MMD between circuits and held-out images tells.

Mixtures of more and more components are fitted to images of one digit; each is compared with
images that it has not seen, without drawing a single sample from it.
"""

import expectedkernels as ek
from expectedkernels.experiments.demo import digit_images, fit_mixture


def main() -> None:
    X = digit_images(8)
    train, held_out = X[::2], X[1::2]
    kernel = ek.RBF(gamma=0.05)
    print("components   edges   MMD to held-out images")
    for n_components in (1, 2, 4, 8, 16):
        p = fit_mixture(train, n_components)
        print(f"{n_components:10}{p.n_edges:8}{ek.mmd(p, held_out, kernel):25.4f}")


if __name__ == "__main__":
    main()
