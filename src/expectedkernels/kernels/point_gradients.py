"""Kernels at pairs of points, as tensors that know their gradients by rates, tables and weights.

The numbers are those of the host. Logs are linear in rates, so that sums of distances are the
derivatives; entries of tables are multiplied in tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from expectedkernels.arrays import has_gradient
from expectedkernels.kernels.factors import Factor
from expectedkernels.kernels.points import check_states, log_products
from expectedkernels.kernels.scaled import Scaled

RATES = ("square", "absolute", "unequal")


def in_tensors(data: Any, scale: Any) -> Scaled:
    """Values in tensors on the host, without gradients so far."""
    import torch  # whoever asks for gradients has imported it

    return Scaled(torch.as_tensor(data), torch.as_tensor(scale))


def values_with_gradients(factors: Sequence[Factor], X: Any, Y: Any) -> Scaled:
    """The values of a product of factors at all pairs of rows."""
    plain = [replace(f, table=None) if "table" in (f.tensors or {}) else f for f in factors]
    logs, signs = log_products(plain, X, Y, relative=True)
    values = in_tensors(np.ones_like(logs) if signs is None else signs, logs)
    data, scale = values.data, values.scale
    for name in RATES:
        for rate, columns in _shared(factors, name):
            unit = log_products(
                [Factor(**{name: 1.0}, tensors=None)] * len(columns),
                X[:, columns],
                Y[:, columns],
                relative=True,
            )[0]
            own = rate.to(scale)
            scale = scale + scale.new_tensor(unit) * (own - own.detach())
    for variable, factor in enumerate(factors):
        if "table" in (factor.tensors or {}):
            table = factor.tensors["table"].to(data)  # type: ignore[index]
            x, y = X[:, variable], Y[:, variable]
            for side in (x, y):
                check_states(factor.table, side, variable)
            data = data * table[x.astype(np.intp)][:, y.astype(np.intp)]
    return Scaled(data, scale)


def _shared(factors: Sequence[Factor], name: str) -> list[tuple[Any, list[int]]]:
    """The tensors of rates of one kind, each with the variables that have it."""
    found: dict[int, tuple[Any, list[int]]] = {}
    for variable, factor in enumerate(factors):
        rate = (factor.tensors or {}).get(name)
        if rate is not None:
            found.setdefault(id(rate), (rate, []))[1].append(variable)
    return list(found.values())


def summed(parts: Sequence[Scaled], weights: Sequence[Any]) -> Scaled:
    """The sum of values, each times a weight that may be a tensor."""
    top = parts[0].scale.detach()
    for part in parts[1:]:
        top = top.maximum(part.scale.detach())
    top = top.nan_to_num(neginf=0.0)
    total: Any = 0.0
    for part, weight in zip(parts, weights, strict=True):
        factor = weight.to(top) if has_gradient(weight) else float(weight)
        total = total + factor * part.data * (part.scale - top).exp()
    return Scaled(total, top)
