"""
Which mixture is closest to the data?
=====================================

Choose the number of mixture components by the exact MMD to held-out images.

Mixtures with an increasing number of components are fitted to half of the images of a digit and
compared with the other half, without sampling from them. The MMD between the two halves is what a
model that memorises its training images would reach.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import expectedkernels as ek


def fit_mixture(X, n_components):
    """A mixture of independent pixels, one component per cluster of k-means.

    Frequencies are smoothed as if every cluster held one more image, the average of all.
    """
    cluster = KMeans(n_components, n_init=4, random_state=0).fit_predict(X)
    groups = [X[cluster == c] for c in range(n_components)]
    average = (X.sum(axis=0) + 1) / (len(X) + 2)
    white = [(group.sum(axis=0) + average) / (len(group) + 1) for group in groups]
    components = [ek.factorized(np.stack([1 - w, w], axis=1)) for w in white]
    return ek.mixture(components, [len(group) / len(X) for group in groups])


# %%
# The data: 64 binary pixels of the digit eight.

images, digit = load_digits(return_X_y=True)
X = (images[digit == 8] >= 8).astype(int)
seen, held_out = X[::2], X[1::2]
kernel = ek.RBF(gamma=0.05)

# %%
# The MMD and the log-likelihood of the held-out images. They need not agree: the MMD compares
# distributions by the similarity of images, the likelihood measures the density of each image.

sizes = [1, 2, 4, 8, 16, 32]
models = [fit_mixture(seen, size) for size in sizes]
distances = [ek.mmd(p, held_out, kernel) for p in models]
between = ek.mmd(ek.Empirical(seen), held_out, kernel)
print("components   edges   MMD to held-out images   mean log-likelihood of them")
for size, p, distance in zip(sizes, models, distances, strict=True):
    print(f"{size:10}{p.n_edges:8}{distance:25.4f}{p.log_likelihood(held_out).mean():30.2f}")
print(f"seen images{between:32.4f}")

# %%
# From eight components on the model is as close to held-out images as its training images are.

figure, ax = plt.subplots()
ax.semilogx(sizes, distances, "o-", base=2, label="mixtures")
ax.axhline(between, color="grey", linestyle="--", label="the images that were seen")
ax.set_xticks(sizes, sizes)
ax.set_xlabel("components")
ax.set_ylabel("MMD to held-out images")
ax.legend()
plt.show()
