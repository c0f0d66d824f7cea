"""
Which of several models is closest?
===================================

Test whether generative models fit data, and rank them by their exact discrepancies.

Three models are learned from half of the images of two digits, and tested on the other half. A
p-value tells whether a difference is significant, and a confidence interval of the squared MMD how
large it is. The discrepancies need no samples of the models, only their null distributions do.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import expectedkernels as ek

images, digit = load_digits(return_X_y=True)
X = (images[(digit == 3) | (digit == 8)] >= 8).astype(int)  # 64 black or white pixels
X = np.random.default_rng(0).permutation(X)
seen, held_out = X[::2], X[1::2]
white = (seen.sum(axis=0) + 1) / (len(seen) + 2)
models = {
    "independent pixels": ek.factorized(np.stack([1 - white, white], axis=1)),
    "a tree": ek.learn_chow_liu(seen),
    "six trees": ek.learn_mixture(seen, 6, rng=0, progress=False),
}
kernel = ek.RBF(gamma=0.05)

# %%
# Does a model fit the data? None does, and the two halves of the data agree.

for name, p in models.items():
    test = ek.mmd_test(held_out, p, kernel, n_null=99, rng=0)
    low, high = test.interval(0.9)
    print(f"{name:19} p = {test.p_value:.3f}   MMD^2 between {low:.4f} and {high:.4f}")
halves = ek.mmd_two_sample_test(seen, held_out, kernel, rng=0)
print(f"{'the seen images':19} p = {halves.p_value:.3f}")

# %%
# Which model is closest?

ranking = ek.mmd_compare_all(models, held_out, kernel)
print(ranking)
print(f"No model is closer than: {', '.join(ranking.closest)}")

# %%
# The null distribution of the statistic, and the observed statistics.

right = models["six trees"]
drawn = right.sample(len(held_out), rng=np.random.default_rng(1))
test = ek.mmd_test(drawn, right, kernel, n_null=99, rng=0)
print(test)
test.plot()
plt.show()
