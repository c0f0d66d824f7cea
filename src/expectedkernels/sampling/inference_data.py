"""Samples as inference data of ArviZ."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.compilation.layers import imported
from expectedkernels.kernels.rows import schema_of


def inference_data(target: Any, rows: Any, weights: Any) -> Any:
    """Rows of states as one chain of an ``InferenceData``, with their weights beside them."""
    arviz, xarray = imported("arviz", "arviz"), imported("xarray", "xarray")
    schema = schema_of(target)
    names = schema.names or [f"x{v}" for v in range(rows.shape[1])]
    posterior = {}
    for v, name in enumerate(names):
        labels = None if schema.states is None else schema.states[v]
        facts = {} if labels is None else {"states": list(labels)}
        posterior[name] = (("chain", "draw"), _column(rows[:, v], labels)[None], facts)
    places = {"chain": [0], "draw": np.arange(len(rows))}
    beside = {"weight": (("chain", "draw"), np.array(weights)[None])}
    return arviz.InferenceData(
        posterior=xarray.Dataset(posterior, places), sample_stats=xarray.Dataset(beside, places)
    )


def _column(codes: Any, labels: Any) -> Any:
    """Codes as ints, or as the labels if these are numbers; floats where some are missing."""
    known = ~np.isnan(codes)
    found = codes
    if labels is not None and not any(isinstance(label, (str, bool)) for label in labels):
        found = np.full(len(codes), np.nan)
        found[known] = np.asarray(labels, dtype=np.float64)[codes[known].astype(np.intp)]
    whole = known.all() and (found == np.rint(found)).all()
    return found.astype(np.int64) if whole else np.array(found)
