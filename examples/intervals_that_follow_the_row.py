"""
Intervals that follow the row
=============================

Prediction intervals that are wide where the target varies, and narrow where it does not.

The noise of the target grows with the column. Intervals of constant width would cover nearly all
targets on the left and too few on the right.
"""

import matplotlib.pyplot as plt
import numpy as np

import expectedkernels as ek

rng = np.random.default_rng(0)


def sample(n):
    """Rows of one column, and targets whose noise grows with it."""
    x = rng.random(n)
    return x[:, None], x + (0.05 + 2.0 * x) * rng.normal(size=n)


X, y = sample(600)
model = ek.ExpectedKernelRidge().fit(X, y)
print(f"gain of adaptive widths: {model.interval_gain_[0]:.2f} per row (used above {2 / 600:.4f})")

# %%
# Intervals for a grid of rows, and the coverage of new rows in every fifth of the column.

grid = np.linspace(0.0, 1.0, 200)[:, None]
low, high = model.predict_interval(grid)
rows, targets = sample(2000)
ends = model.predict_interval(rows)
inside = (ends[0] <= targets) & (targets <= ends[1])
fifth = (5 * rows[:, 0]).astype(int)
print("coverage by fifth:", [f"{inside[fifth == k].mean():.2f}" for k in range(5)])

# %%
# The widths against the column. The dashed line is the one width that covers 90 % in all.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
left.plot(X[:, 0], y, ".", color="0.6", markersize=3)
left.plot(grid, model.predict(grid), color="C0")
left.fill_between(grid[:, 0], low, high, alpha=0.3, color="C0")
left.set(xlabel="x", ylabel="y", title="90 % intervals")
constant = 2.0 * np.quantile(np.abs(y - model.predict(X)), 0.9)
right.plot(grid, high - low, color="C0", label="follows the row")
right.axhline(constant, color="0.4", linestyle="--", label="constant")
right.set(xlabel="x", ylabel="width", title="width of intervals")
right.legend()
figure.tight_layout()
plt.show()
