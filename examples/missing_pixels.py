"""Predicting with missing pixels: average a kernel machine over what the pixels might have been.

A kernel ridge classifier tells 3 from 8. Then pixels go missing. Instead of guessing them, its
kernel is replaced by the expected kernel given the pixels that are left, under a circuit of the
images: the result is the exact expectation of its decision function.
"""

import numpy as np
from sklearn.kernel_ridge import KernelRidge

import expectedkernels as ek
from expectedkernels.experiments.digits import digit_images, fit_mixture


def main() -> None:
    rng = np.random.default_rng(0)
    threes, eights = digit_images(3), digit_images(8)
    X = np.concatenate([threes, eights])
    y = np.repeat([-1, 1], [len(threes), len(eights)])
    test = rng.random(len(X)) < 0.3
    X_train, y_train, X_test, y_test = X[~test], y[~test], X[test], y[test]

    kernel = ek.RBF(gamma=0.05)
    model = KernelRidge(kernel="precomputed", alpha=0.1)
    model.fit(kernel(X_train, X_train), y_train)
    p = fit_mixture(X_train, n_components=24)
    mode = np.round(X_train.mean(axis=0))

    print("missing   accuracy: expected   most frequent value filled in")
    for missing in (0.0, 0.5, 0.8, 0.9):
        E = np.where(rng.random(X_test.shape) < missing, np.nan, X_test)
        expected = model.predict(ek.expected_kernel(p, X_train, kernel, evidence_p=E))
        filled = np.where(np.isnan(E), mode, E)
        imputed = model.predict(kernel(filled, X_train))
        scores = [np.mean(np.sign(prediction) == y_test) for prediction in (expected, imputed)]
        print(f"{missing:7.0%}{scores[0]:22.3f}{scores[1]:32.3f}")


if __name__ == "__main__":
    main()
