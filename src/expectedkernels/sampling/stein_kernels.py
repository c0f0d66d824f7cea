"""Stein kernels of a target for given samples, complete or collapsed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.compilation.conditionals import CollapsedModel
from expectedkernels.discrepancies.collapsed import CollapsedSteinKernel
from expectedkernels.errors import KernelError, SizeError
from expectedkernels.kernels.kernel import Kernel, refuse_gradients, require_kernel
from expectedkernels.kernels.stein import OPERATORS, SteinKernel, is_strictly_positive_definite
from expectedkernels.sampling.partition import PartitionSteinKernel
from expectedkernels.sampling.zeros import is_positive


def stein_kernels(
    target: Any, rows: Any, kernel: Kernel, zeros: str, max_bytes: int
) -> tuple[Any, Any, Circuit | None, Any]:
    """Both Stein kernels for these rows, and the compiled target or else its conditionals."""
    refuse_gradients("What is made of a Stein kernel", kernel, target)
    if not np.isnan(rows).any():
        shifts, updates = (SteinKernel(target, kernel, zeros, kind) for kind in OPERATORS)
        return shifts, updates, None, None
    try:
        circuit = target
        if not isinstance(target, Circuit):
            circuit, _ = target.compile(kernel.vtree, max_bytes=max_bytes)
            _ = circuit.blocks  # tables may fit where units do not
    except SizeError as error:
        masks = np.unique(np.isnan(rows), axis=0)
        if len(masks) > 1:
            raise SizeError(
                f"{error} Samples that collapse different variables need the whole model compiled; "
                "with one set collapsed in all samples, only the conditionals are."
            ) from error
        hidden = np.flatnonzero(masks[0]).tolist()
        model = CollapsedModel(target, hidden, shared=False, max_bytes=max_bytes)
        one, other = (
            PartitionSteinKernel(model, kernel, zeros, max_bytes, operator=kind)
            for kind in OPERATORS
        )
        return one, other, None, model.marginals
    known = True if is_positive(target) else None
    first = CollapsedSteinKernel(circuit, kernel, zeros, max_bytes, positive=known)
    return first, first.with_operator("gibbs"), circuit, None


def check_stein_kernel(kernel: Any, cardinalities: list[int], level: int) -> None:
    """Raise unless a kernel is positive definite, and warn if it may not be strictly so."""
    require_kernel(kernel, "ExpHamming()")
    definite = kernel.is_positive_definite(cardinalities)
    if not definite:
        raise KernelError(
            f"Stein weights need a positive definite kernel, but {definite.reason}. "
            "ExpHamming() is one."
        )
    strict = is_strictly_positive_definite(kernel, cardinalities)
    if not strict:
        warnings.warn(
            f"The kernel may not be strictly positive definite ({strict.reason}): different "
            "distributions can have discrepancy zero, and weights that look perfect can be wrong. "
            "ExpHamming() tells all distributions apart.",
            stacklevel=level + 1,
        )
