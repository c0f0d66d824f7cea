"""Circuits, vtrees and graphical models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.drawings import (
    circuit_layout,
    graph_layout,
    summary_layout,
    vtree_layout,
)
from expectedkernels.circuits.graph import Unit
from expectedkernels.compilation.drawings import model_layout
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.errors import DataError
from expectedkernels.kernels.circuit import KernelCircuit
from expectedkernels.layouts import Layout
from expectedkernels.plotting.style import SAMPLED, new_axes
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_UNITS = 200
"""Circuits with more units are drawn as their vtree, with the numbers of units."""

MOST_LABELS = 150
"""Graphs with more nodes are drawn without labels."""

AROUND = 0.8
"""How much room there is around the nodes, which are one apart."""

LARGEST = 14.0
"""How wide and high figures are at most, in inches."""


def plot_circuit(circuit: Circuit | KernelCircuit | Unit, ax: Axes | None = None) -> Axes:
    """The axes with the units of a circuit: sums, the products below them, inputs at the bottom.

    Units have the colour of their scope, and edges are as wide as weights are large beside the
    others of a sum; negative ones are dashed. Large circuits are drawn as their vtree, with
    the number of units at every node.

    Parameters
    ----------
    circuit : Circuit, KernelCircuit or unit
        A graph of units is drawn as it was written down.
    ax : matplotlib axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DataError
        If it is something else.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.random_circuit(ek.Vtree.balanced(3), 2, rng=0)
    >>> sorted({text.get_text() for text in ek.plotting.plot_circuit(p).texts})
    ['+', '0', '1', '2', '×']
    """
    if isinstance(circuit, KernelCircuit):
        circuit = circuit.circuit
    if isinstance(circuit, Unit):
        return draw(graph_layout(circuit), ax)
    if not isinstance(circuit, Circuit):
        raise DataError(f"A circuit is drawn here. Got {type(circuit).__name__}.")
    small = circuit.n_units <= MOST_UNITS
    return draw(circuit_layout(circuit) if small else summary_layout(circuit), ax)


def plot_vtree(vtree: Vtree, ax: Axes | None = None) -> Axes:
    """The axes with the nodes of a vtree.

    Parameters
    ----------
    vtree : Vtree
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DataError
        If it is something else.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> [text.get_text() for text in ek.plotting.plot_vtree(ek.Vtree.balanced(3)).texts]
    ['0', '1', '2', '', '']
    """
    if not isinstance(vtree, Vtree):
        raise DataError(f"A vtree is drawn here. Got {type(vtree).__name__}.")
    return draw(vtree_layout(vtree), ax)


def plot_model(model: FactorGraph, ax: Axes | None = None) -> Axes:
    """The axes with the variables of a graphical model.

    Bayesian networks are drawn from the roots down. Of other factor graphs, factors of two
    variables are edges and those of more are dark squares; distances on paper are about those in
    the graph.

    Parameters
    ----------
    model : FactorGraph or BayesianNetwork
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    DataError
        If it is something else.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> ek.plotting.plot_model(ek.asia()).get_title(loc="left")
    'BayesianNetwork of 8 variables: 8 factors'
    """
    if not isinstance(model, FactorGraph):
        raise DataError(
            "A factor graph or Bayesian network is drawn here (ek.as_model translates those of "
            f"other libraries). Got {type(model).__name__}."
        )
    return draw(model_layout(model), ax)


def draw(layout: Layout, ax: Axes | None = None) -> Axes:
    """The axes with a layout."""
    x, y = layout.x, 1.2 * layout.y
    wide, high = (float(np.ptp(z)) for z in (x, y))
    scale = min(0.5, LARGEST / (max(wide, high) + 2 * AROUND))  # inches per unit
    sides = (scale * (z + 2 * AROUND) for z in (wide, high))
    on: Any = new_axes(*(max(3.4, side + 0.3) for side in sides)) if ax is None else ax
    labelled = len(x) <= MOST_LABELS
    size = (26.0 if labelled else 8.0) * scale / 0.5  # points
    _draw_edges(on, layout, x, y, size)
    on.set_xlim(x.min() - AROUND, x.max() + AROUND)
    on.set_ylim(y.min() - AROUND, y.max() + AROUND)
    for i, (fill, label) in enumerate(zip(layout.fills, layout.labels, strict=True)):
        square = i in layout.squares
        on.plot(
            x[i],
            y[i],
            "s" if square else "o",
            color=fill,
            markersize=0.6 * size if square else size,
            markeredgecolor="0.25",
            markeredgewidth=0.8,
        )
        if labelled:
            small = min(10.0, size / 2.2, 1.6 * size / max(1, len(label)))
            on.text(x[i], y[i], label, ha="center", va="center_baseline", fontsize=small)
    on.set_title(layout.title.strip("<>"), fontsize="small", loc="left")
    on.set_axis_off()
    return on


def _draw_edges(ax: Any, layout: Layout, x: Any, y: Any, size: float) -> None:
    ends = zip(layout.edges.tolist(), layout.weights.tolist(), strict=True)
    for (a, b), weight in ends:
        style: dict[str, Any] = {"linewidth": 0.6 + 2.0 * abs(weight), "zorder": 0.5}
        style |= {"color": "0.45"} if weight >= 0 else {"color": SAMPLED, "linestyle": "--"}
        if layout.arrows:
            tips = {"arrowstyle": "-|>", "shrinkA": size / 2, "shrinkB": size / 2}
            ax.annotate("", (x[b], y[b]), (x[a], y[a]), arrowprops={**style, **tips})
        else:
            ax.plot([x[a], x[b]], [y[a], y[b]], **style)
