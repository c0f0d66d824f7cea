"""Samples as people have them: arrays, chains, frames and labelled arrays, as rows of states."""

from __future__ import annotations

from typing import Any

import numpy as np

from expectedkernels.circuits.evidence import as_points, refuse_flat
from expectedkernels.circuits.frames import is_frame
from expectedkernels.circuits.labelled import is_labelled, labelled_table
from expectedkernels.circuits.numbers import as_floats
from expectedkernels.circuits.schema import Schema
from expectedkernels.circuits.units import Unit
from expectedkernels.errors import DataError
from expectedkernels.kernels.kernel import Kernel


def sample_rows(target: Any, samples: Any, *, least: int = 1, check: bool = True) -> Any:
    """Samples in any of their forms as rows of states, a new float array (n, variables).

    Parameters
    ----------
    target : anything with `cardinalities`, and maybe `names` and `states`
    samples : array, frame, xarray object, arviz InferenceData, WeightedSamples or Empirical
        Arrays have shape (n, variables) or (chains, n, variables). Labelled arrays have the
        dimensions ``chain`` and ``draw`` (or one of them) in any place, and one for the variables.
        Frames and datasets have one column per variable, found by name if the target has names,
        else by position; labels of states become their numbers. Chains are put below one another.
    least : int
        How many samples there must be.
    check : bool
        Whether entries must be states of the variables, or NaN.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> target = ek.FactorGraph([2, 2], [], names=["rain", "wet"], states=[["no", "yes"]] * 2)
    >>> import pandas as pd
    >>> sample_rows(target, pd.DataFrame({"wet": ["yes", "no"], "rain": ["no", "no"]})).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    d = len(target.cardinalities)
    rows = _rows(target, samples)
    refuse_flat(rows, "Samples")
    if rows.ndim != 2 or rows.shape[1] != d or len(rows) < least:
        at_least = "one sample" if least < 2 else f"{least} samples"
        raise DataError(
            f"Samples must have shape (samples, {d}) with at least {at_least}: one column per "
            f"variable. Got shape {rows.shape}."
        )
    if check:
        check_states(target, rows)
    return rows


def check_states(target: Any, rows: Any) -> None:
    """Raise unless all entries are states of the variables, or NaN."""
    as_points(np.where(np.isnan(rows), 0.0, rows), schema_of(target), "Samples")


def schema_of(target: Any) -> Schema:
    """The names and states of a target; of one that has none, its cardinalities."""
    found: Schema = getattr(target, "schema", None) or Schema(tuple(target.cardinalities))
    return found


def sample_weights(samples: Any) -> Any:
    """The weights that come with samples, None for samples without."""
    return samples.weights if _is_weighted(samples) else None


def counted_rows(samples: Any, n: int, log_weights: Any = None) -> Any:
    """The numbers of the samples that count, of n: those of weight zero do not.

    A sample has weight zero if the weights that come with it say so, or log-weights of -inf.
    What stands in its row does not matter: it may be impossible, or incomplete.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> counted_rows(ek.Empirical([[0], [1], [1]], [0.5, 0.0, 0.5]), 3).tolist()
    [0, 2]
    """
    counts = np.ones(n, dtype=np.bool_)
    weights = sample_weights(samples)
    if weights is not None:
        counts &= np.asarray(weights) != 0
    if log_weights is not None:
        counts &= np.asarray(log_weights) > -np.inf
    if n and not counts.any():
        raise DataError(f"All {n} samples have weight zero, so that none of them counts.")
    return np.flatnonzero(counts)


def check_roles(call: str, target: Any, samples: Any) -> None:
    """Raise if samples and target are swapped, or a kernel is in the place of one of them.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> check_roles("bbis(target, samples)", [[0, 1]], ek.factorized([[0.5, 0.5]]))
    Traceback (most recent call last):
    expectedkernels.errors.DataError: The target and the samples are swapped. The call is
    bbis(target, samples); got samples of type list as the target, and a Circuit as the samples.
    """
    for what, given in (("target", target), ("samples", samples)):
        if isinstance(given, Kernel):
            raise DataError(
                f"A kernel is in the place of the {what}. The call is {call}; got "
                f"{type(given).__name__} as the {what}."
            )
    if is_model(samples) and _looks_like_samples(target):
        raise DataError(
            f"The target and the samples are swapped. The call is {call}; got samples of type "
            f"{type(target).__name__} as the target, and a {type(samples).__name__} as the samples."
        )
    if is_model(samples) and is_model(target):
        raise DataError(
            f"Samples of a model are needed, not the model itself. The call is {call}; got a "
            f"{type(samples).__name__} as the samples."
        )


def is_model(given: Any) -> bool:
    """Whether this is a distribution in the form of a model, and not samples of one."""
    return isinstance(given, Unit) or (
        hasattr(given, "cardinalities") and hasattr(given, "site_logs")
    )


def _looks_like_samples(given: Any) -> bool:
    if isinstance(given, str) or is_model(given):
        return False
    return _is_weighted(given) or any(
        hasattr(given, name) for name in ("__len__", "shape", "posterior")
    )


def _has(samples: Any, *names: str) -> bool:
    """Whether the class has these attributes: frames show their columns as attributes, too."""
    return all(hasattr(type(samples), name) for name in names)


def _is_weighted(samples: Any) -> bool:
    """Whether these are samples with weights: WeightedSamples or an Empirical distribution."""
    if _has(samples, "columns") or _has(samples, "dims"):
        return False
    return hasattr(samples, "weights") and (hasattr(samples, "rows") or hasattr(samples, "X"))


def _rows(target: Any, samples: Any) -> Any:
    if isinstance(samples, Kernel) or is_model(samples):
        raise DataError(
            f"Samples are arrays of states, one per row. Got a {type(samples).__name__} instead."
        )
    if _is_weighted(samples):
        return np.array(samples.rows if hasattr(samples, "rows") else samples.X)
    table = sample_table(samples)
    if is_frame(table):
        return schema_of(target).read_frame(table, "The frame of samples")
    return np.array(table)


def sample_table(samples: Any) -> Any:
    """Samples in any of their forms as a data frame, or as an array whose chains are joined.

    Examples
    --------
    >>> sample_table(np.zeros((2, 5, 3))).shape
    (10, 3)
    """
    if is_frame(samples):
        return samples
    if is_labelled(samples):
        return labelled_table(samples)
    rows = as_floats(samples)
    return rows.reshape(-1, rows.shape[2]) if rows.ndim == 3 else rows
