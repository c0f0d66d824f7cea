"""Plots of circuits, vtrees and models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels.arrays import on_host
from expectedkernels.checks import DataError
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.graph import Graph, Unit
from expectedkernels.display import Layout, circuit_layout, graph_layout, short, vtree_layout
from expectedkernels.kernels.kernel import KernelCircuit
from expectedkernels.models import converted
from expectedkernels.models.factor_graph import FactorGraph, model_layout
from expectedkernels.plotting.results import SAMPLED, new_axes, plot_gram, save
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_UNITS = 200
"""Circuits with more units are drawn as their vtree, with the numbers of units."""

MOST_LABELS = 150
"""Graphs with more nodes are drawn without labels."""

AROUND = 0.8
"""How much room there is around the nodes, which are one apart."""

LONG = 8
"""Labels with more letters are not within nodes."""

MOST_LETTERS = 24
"""Longer labels are shortened."""

WIDER = 2.0
"""How much further apart nodes are whose names are in a line below them."""

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
        return draw(graph_layout(Graph(circuit)), ax)
    _require(circuit, Circuit, "A circuit is drawn here")
    if circuit.n_units <= MOST_UNITS:
        return draw(circuit_layout(circuit), ax)
    counts = [block.n_units for block in circuit.blocks]
    return draw(vtree_layout(circuit.vtree, circuit.names, counts), ax)


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
    _require(vtree, Vtree, "A vtree is drawn here")
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
    what = "A factor graph or Bayesian network is drawn here"
    _require(model, FactorGraph, f"{what} (ek.as_model translates those of other libraries)")
    return draw(model_layout(model), ax)


def _require(given: Any, kind: type, what: str) -> None:
    if not isinstance(given, kind):
        raise DataError(f"{what}. Got {type(given).__name__}.")


def draw(layout: Layout, ax: Axes | None = None) -> Axes:
    """The axes with a layout.

    Long names are below their nodes: upwards at nodes with nothing below them, else in a line.
    """
    labelled = len(layout.x) <= MOST_LABELS
    outside = [labelled and len(label) > LONG for label in layout.labels]
    ends = np.bincount(layout.edges[:, 0], minlength=len(layout.x)) == 0
    upright = not layout.arrows and not layout.squares and bool(ends[outside].all())
    longest = max((len(label) for label in layout.labels if labelled), default=0)
    room = AROUND + 0.17 * min(MOST_LETTERS, longest) * (upright and longest > LONG)
    stretch = 1.0 if upright or not any(outside) else WIDER
    x, y = stretch * layout.x, 1.2 * layout.y
    wide, high = np.ptp(x) + 2 * AROUND, np.ptp(y) + AROUND + room
    scale = min(0.5, LARGEST / max(wide, high))  # inches per unit
    on: Any = ax or new_axes(*(max(3.4, float(scale * z) + 0.3) for z in (wide, high)))
    size = max(2.0, (26.0 if labelled else 8.0) * scale / 0.5)  # points
    _draw_edges(on, layout, x, y, size)
    on.set_xlim(x.min() - AROUND, x.max() + AROUND)
    on.set_ylim(y.min() - room, y.max() + AROUND)
    edge = {"markeredgecolor": "0.25", "markeredgewidth": 0.8 * min(1.0, size / 20)}
    for i, fill in enumerate(layout.fills):
        shape, width = ("s", 0.6 * size) if i in layout.squares else ("o", size)
        on.plot(x[i], y[i], shape, color=fill, markersize=width, **edge)
        if labelled:
            _write(on, layout.labels[i], (x[i], y[i]), size, outside[i], upright)
    on.set_title(layout.title.strip("<>"), fontsize="small", loc="left")
    on.set_axis_off()
    return on


def _write(ax: Any, label: str, at: Any, size: float, outside: bool, upright: bool) -> None:
    """Write a label into a node, or below it."""
    if not outside:
        small = min(10.0, size / 2.2, 1.35 * size / max(1, len(label)))
        ax.text(*at, label, ha="center", va="center_baseline", fontsize=small)
        return
    style: Any = {"ha": "center", "va": "top", "fontsize": min(8.0, max(4.0, size / 2.6))}
    style |= {"rotation": 90} if upright else {"bbox": {"fc": "white", "ec": "none", "pad": 0.5}}
    below = (0, -0.62 * size)
    ax.annotate(short(label, MOST_LETTERS), at, below, textcoords="offset points", **style)


def _draw_edges(ax: Any, layout: Layout, x: Any, y: Any, size: float) -> None:
    ends = zip(layout.edges.tolist(), layout.weights.tolist(), strict=True)
    thin = min(1.0, max(0.4, size / 20))  # of small nodes
    for (a, b), weight in ends:
        style: dict[str, Any] = {"linewidth": thin * (0.6 + 2.0 * abs(weight)), "zorder": 0.5}
        style |= {"color": "0.45"} if weight >= 0 else {"color": SAMPLED, "linestyle": "--"}
        if layout.arrows:
            tips = {"arrowstyle": "-|>", "shrinkA": size / 2, "shrinkB": size / 2}
            ax.annotate("", (x[b], y[b]), (x[a], y[a]), arrowprops={**style, **tips})
        else:
            ax.plot([x[a], x[b]], [y[a], y[b]], **style)


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
