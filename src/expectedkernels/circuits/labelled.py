"""Labelled arrays: arrays and datasets of xarray, inference data of arviz, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from expectedkernels.circuits.frames import Columns, array_column
from expectedkernels.circuits.numbers import as_floats
from expectedkernels.errors import DataError

SAMPLE_DIMS = ("chain", "draw", "sample")
"""The names of dimensions along which samples lie, in the order in which they are put."""


def is_labelled(X: Any) -> bool:
    """Whether an object is a labelled array, a dataset of such, or inference data.

    Examples
    --------
    >>> is_labelled(np.zeros((2, 2))), is_labelled({"rain": 1})
    (False, False)
    """
    kind = type(X)  # frames show their columns as attributes
    if hasattr(kind, "columns"):
        return False
    labelled = hasattr(kind, "dims") and hasattr(kind, "transpose") and hasattr(kind, "coords")
    return labelled or hasattr(kind, "data_vars") or hasattr(X, "posterior")


def labelled_table(X: Any) -> Any:
    """A labelled array or dataset as columns; as an array, if its entries have no names.

    Chains are put below one another.
    """
    if not len(getattr(X, "data_vars", ())) and hasattr(X, "posterior"):
        X = X.posterior
    return _dataset(X) if hasattr(type(X), "data_vars") else _labelled(X)


def as_table(X: Any) -> Any:
    """What is labelled as columns; everything else as it is."""
    return labelled_table(X) if is_labelled(X) else X


def named_row(X: Any) -> Any:
    """A labelled array of one dimension as a mapping from its labels; everything else as it is."""
    if not is_labelled(X) or getattr(X, "ndim", 0) != 1 or X.dims[0] not in X.coords:
        return X
    labels = np.asarray(X.coords[X.dims[0]].values).tolist()
    named = all(isinstance(label, str) for label in labels)
    return dict(zip(labels, np.asarray(X.values).tolist(), strict=True)) if named else X


def _dataset(dataset: Any) -> Any:
    """A dataset with one data variable per variable, or with a single one for all of them."""
    names = [str(name) for name in dataset.data_vars]
    arrays = [dataset[name] for name in dataset.data_vars]
    if len(arrays) == 1 and any(dim not in SAMPLE_DIMS for dim in arrays[0].dims):
        return _labelled(arrays[0])
    columns = []
    for name, array in zip(names, arrays, strict=True):
        extra = [dim for dim in array.dims if dim not in SAMPLE_DIMS]
        if extra:
            raise DataError(
                f"A dataset of samples has one value per chain and draw for every variable. "
                f"{name!r} has the dimensions {list(array.dims)}; give that array alone, or one "
                "data variable for each of its entries."
            )
        columns.append(array.transpose(*_sample_dims(array)).values.reshape(-1))
    return _columns(names, columns)


def _sample_dims(array: Any) -> list[str]:
    return [dim for dim in SAMPLE_DIMS if dim in array.dims]


def _labelled(array: Any) -> Any:
    """An array with named dimensions: samples along some, variables along the last."""
    leading = _sample_dims(array)
    others = [dim for dim in array.dims if dim not in SAMPLE_DIMS]
    if not leading and array.ndim == 2:
        leading, others = [array.dims[0]], [array.dims[1]]
    if not leading:
        return as_floats(array.values)
    if len(others) != 1:
        raise DataError(
            f"Labelled samples have one dimension for the variables, besides {leading}. Got "
            f"{others}; put them together with .stack(variable={others})."
            if others
            else f"Labelled samples need a dimension for the variables, besides {leading}. Got an "
            "array without; use .expand_dims('variable') if there is a single variable."
        )
    values = array.transpose(*leading, *others).values
    values = values.reshape(-1, values.shape[-1])
    labels = np.asarray(array.coords[others[0]].values) if others[0] in array.coords else None
    if labels is None or not all(isinstance(label, str) for label in labels.tolist()):
        labels = np.arange(values.shape[1])
    return _columns(labels.tolist(), list(values.T))


def _columns(names: Sequence[Any], columns: Sequence[Any]) -> Columns:
    """Arrays as columns, which have names if all of these are text."""
    named = tuple(names) if all(isinstance(name, str) for name in names) else None
    found = [array_column(str(x), column) for x, column in zip(names, columns, strict=True)]
    return Columns(tuple(found), named)
