"""
Predicting with missing pixels
==============================

Classify images with missing pixels by the expected decision function of a kernel classifier.

A kernel ridge classifier separates 3 from 8. For images with missing pixels, its kernel is replaced
by the expected kernel given the observed pixels, under a circuit learned from images. The result is
the exact expectation of its decision function.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge

import expectedkernels as ek

# %%
# The data, 64 binary pixels, and the classifier, fitted to complete images.

rng = np.random.default_rng(0)
images, digit = load_digits(return_X_y=True)
chosen = (digit == 3) | (digit == 8)
X = (images[chosen] >= 8).astype(int)
y = np.where(digit[chosen] == 8, 1, -1)
test = rng.random(len(X)) < 0.3
X_train, y_train, X_test, y_test = X[~test], y[~test], X[test], y[test]

kernel = ek.RBF(gamma=0.05)
model = KernelRidge(kernel="precomputed", alpha=0.1)
model.fit(kernel(X_train, X_train), y_train)

# %%
# The circuit: a mixture of trees. Predictions for incomplete images are expected kernels times the
# dual coefficients of the classifier. The baseline imputes the most frequent value of each pixel.

p = ek.learn_mixture(X_train, 24, rng=0, progress=False)
mode = np.round(X_train.mean(axis=0))
rates = [0.0, 0.5, 0.8, 0.9]
scores = []
print("missing   accuracy: expected   most frequent value filled in")
for missing in rates:
    E = np.where(rng.random(X_test.shape) < missing, np.nan, X_test)
    expected = model.predict(ek.expected_kernel(p, X_train, kernel, evidence_p=E))
    filled = np.where(np.isnan(E), mode, E)
    imputed = model.predict(kernel(filled, X_train))
    scores.append([np.mean(np.sign(prediction) == y_test) for prediction in (expected, imputed)])
    print(f"{missing:7.0%}{scores[-1][0]:22.3f}{scores[-1][1]:32.3f}")

# %%
# Left: an image with nine of ten pixels missing (grey). Right: accuracy.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.imshow(np.nan_to_num(E[0], nan=0.5).reshape(8, 8), cmap="gray", vmin=0, vmax=1)
left.set_axis_off()
right.plot(rates, scores, "o-", label=["expected prediction", "most frequent value"])
right.set_xlabel("share of missing pixels")
right.set_ylabel("accuracy")
right.legend()
plt.show()
