"""How often tests with chosen kernels reject, under the hypothesis and not."""

from __future__ import annotations

import numpy as np

import expectedkernels as ek
from benchmarks.timing import show

REPEATS, SAMPLES = 200, 100


def chosen_kernels() -> None:
    """Kernels chosen by half of the samples from a list, and by gradients, tested by the rest."""
    fair = ek.factorized([[0.5, 0.5]] * 8)
    parts = [ek.factorized([[x, 1 - x]] * 2 + [[0.5, 0.5]] * 6) for x in (0.02, 0.98)]
    bits = ek.mixture([fair, *parts], [0.2, 0.4, 0.4])
    p, q = (ek.random_circuit(ek.Vtree.balanced(6), 2, rng=seed) for seed in (0, 1))
    lines = []
    for name, model, source in (
        ("two of 8 bits depend", fair, bits),
        ("mixture", p, ek.mixture([p, q], [0.4, 0.6])),
    ):
        n = model.n_variables
        kernels = [ek.ExpHamming(np.full(n, scale / n)) for scale in (0.5, 1.0, 2.0, 4.0, 8.0)]
        best = max(_rejected(model, source, [k]) for k in kernels)
        for method in ("list", "gradient"):
            level, power = (_rejected(model, x, kernels, method) for x in (model, source))
            beside = f"{best:.1%} the best of the list"
            lines.append((f"{name}, {method}", f"{power:.1%}", beside, f"level {level:.1%}"))
    show(f"rejected at 5 %, {SAMPLES} samples, {REPEATS} repetitions", lines)


def _rejected(model: ek.Circuit, source: ek.Circuit, kernels: list, method: str = "list") -> float:
    found = []
    for seed in range(REPEATS):
        X = source.sample(SAMPLES, rng=1000 + seed)
        half = SAMPLES // 2
        k = kernels[0]
        if len(kernels) > 1:
            k = ek.choose_kernel(X[:half], model, kernels, method)
        found.append(ek.mmd_test(X[half:], model, k, n_null=99, rng=seed).p_value <= 0.05)
    return float(np.mean(found))


ALL = [chosen_kernels]
