"""Predicting with missing pixels: average a kernel machine over what the pixels might have been.

A kernel ridge classifier tells 3 from 8. Then pixels go missing. Instead of guessing them, its
kernel is replaced by the expected kernel given the pixels that are left, under a circuit of the
images: the result is the exact expectation of its decision function.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge

import expectedkernels as ek


def main() -> None:
    rng = np.random.default_rng(0)
    images, digit = load_digits(return_X_y=True)
    chosen = (digit == 3) | (digit == 8)
    X = (images[chosen] >= 8).astype(int)  # 64 black or white pixels
    y = np.where(digit[chosen] == 8, 1, -1)
    test = rng.random(len(X)) < 0.3
    X_train, y_train, X_test, y_test = X[~test], y[~test], X[test], y[test]

    kernel = ek.RBF(gamma=0.05)
    model = KernelRidge(kernel="precomputed", alpha=0.1)
    model.fit(kernel(X_train, X_train), y_train)
    p = ek.learn_mixture(X_train, 24, rng=0, progress=False)
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
