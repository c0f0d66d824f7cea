"""A picture of whatever has one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import on_host
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Unit
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.compilation.others import converted
from expectedkernels.errors import DataError
from expectedkernels.kernels.circuit import KernelCircuit
from expectedkernels.plotting.graphs import plot_circuit, plot_model, plot_vtree
from expectedkernels.plotting.style import save
from expectedkernels.plotting.values import plot_gram
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(what: object, path: str | Path | None = None) -> Axes | list[Axes]:
    """The axes with a picture of something, which is also written to a file if there is a path.

    Parameters
    ----------
    what : object
        A circuit, a kernel circuit, a graph of units, a vtree, a graphical model (also of pgmpy or
        pyAgrum), a matrix (also a tensor), or a result that has a method `plot`.
    path : str or Path, optional
        Its suffix chooses the format, such as .svg or .png.

    Returns
    -------
    matplotlib axes, or a list of them

    Raises
    ------
    DataError
        If there is no picture of such things.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.plotting.plot(ek.asia()).get_title(loc="left")
    'BayesianNetwork of 8 variables: 8 factors'
    """
    axes = _drawn(what)
    if path is not None:
        save(axes[0] if isinstance(axes, list) else axes, path)
    return axes


def _drawn(given: Any) -> Any:
    what = on_host(converted(given))
    if isinstance(what, Circuit | KernelCircuit | Unit):
        return plot_circuit(what)
    if isinstance(what, Vtree):
        return plot_vtree(what)
    if isinstance(what, FactorGraph):
        return plot_model(what)
    if callable(getattr(what, "plot", None)) and not hasattr(what, "columns"):
        return what.plot()
    if isinstance(what, np.ndarray) and what.ndim == 2:
        return plot_gram(what)
    raise DataError(
        "There are pictures of circuits, vtrees, graphical models, matrices, and results with a "
        f"method 'plot'. Got {type(given).__name__}."
    )
