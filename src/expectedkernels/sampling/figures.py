"""Drawings of weighted samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_samples(samples: Any) -> list[Axes]:
    """The axes with sorted weights, and with marginals against those of equal weights."""
    # says what to install where matplotlib is missing, so it comes first
    from expectedkernels.plotting import EXACT, SAMPLED, _tidy  # isort: skip

    import matplotlib.pyplot as plt

    _, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained")
    n = len(samples)
    left.plot(np.arange(1, n + 1), np.sort(samples.weights)[::-1], color=EXACT, label="weights")
    left.axhline(1.0 / n, color=SAMPLED, linestyle="--", label="equal weights")
    left.set_xlabel("sample, heaviest first")
    left.set_ylabel("weight")
    left.set_title(f"effective sample size {samples.ess:.4g} of {n}", fontsize="medium")
    _tidy(left)
    equal, weighted = (np.concatenate(s.marginals()) for s in (samples.uniform(), samples))
    right.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    right.plot(equal, weighted, "o", color=EXACT, markersize=4)
    right.set_xlabel("marginal with equal weights")
    right.set_ylabel("weighted marginal")
    _tidy(right, legend=False)
    return [left, right]
