"""HTML tables, and circuits, vtrees and other graphs as small SVG drawings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from expectedkernels.arrays import Array
from expectedkernels.checks import SizeError

NOTEBOOK = ' style="font-size: smaller; color: inherit; background: none; text-align: left"'
"""How tables look in a notebook, light or dark."""

RIGHT = ' class="n"'
"""Of cells in columns of numbers."""


def number(value: float, digits: int = 4, sign: str = "") -> str:
    """A number as people write it, with commas between thousands where it has more digits.

    Examples
    --------
    >>> number(14312.3), number(-0.123456), number(14312.3, 3, "+"), number(2e-7)
    ('14,310', '-0.1235', '+14,300', '2e-07')
    """
    rounded = float(f"{value:.{digits}g}")
    if 10.0**digits <= abs(rounded) < 1e15:
        return f"{rounded:{sign},.0f}"
    return f"{rounded:{sign}.{digits}g}"


def cell(value: Any) -> str:
    """A value as people read it: four digits, "yes" and "no", and a dash where there is nothing.

    What comes after plus or minus stays in the line.

    Examples
    --------
    >>> cell(0.123456), cell(None), cell(True), cell("<b>"), cell(12345)
    ('0.1235', '-', 'yes', '&lt;b&gt;', '12345')
    """
    if value is None:
        return "-"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "-" if np.isnan(value) else number(float(value))
    return escape(str(value)).replace(" \N{PLUS-MINUS SIGN} ", "&nbsp;\N{PLUS-MINUS SIGN}&nbsp;")


def table(columns: Sequence[Any], rows: Iterable[Sequence[Any]], attributes: str = "") -> str:
    """A table: columns of numbers to the right, everything else to the left.

    Examples
    --------
    >>> table(["name", "size"], [["a", 1]])
    '<table><tr><th>name<th class="n">size<tr><td>a<td class="n">1</table>'
    """
    rows = [list(row) for row in rows]
    numbers = int | float | np.number
    cells = [(i, x) for row in rows for i, x in enumerate(row)]
    right = {i for i, x in cells if isinstance(x, numbers) and not isinstance(x, bool)}
    inside = ""
    for tag, values in [("th", columns), *(("td", row) for row in rows)]:
        inside += "<tr>"
        for i, value in enumerate(values):
            inside += f"<{tag}{RIGHT if i in right else ''}>{cell(value)}"
    return f"<table{attributes}>{inside}</table>"


def pairs(found: Mapping[str, Any], attributes: str = "") -> str:
    """A table of names and values.

    Examples
    --------
    >>> pairs({"units": 3})
    '<table><tr><th>units<td>3</table>'
    """
    rows = "".join(f"<tr><th>{cell(name)}<td>{cell(value)}" for name, value in found.items())
    return f"<table{attributes}>{rows}</table>"


def overview(title: str, found: Mapping[str, Any], below: str = "") -> str:
    """What notebooks show: a title, a table of names and values, and perhaps a drawing.

    Examples
    --------
    >>> overview("<Circuit>", {}).startswith("<div><b>Circuit</b>")
    True
    """
    return f"<div><b>{cell(title.strip('<>'))}</b>{pairs(found, NOTEBOOK)}{below}</div>"


# The palette of Okabe and Ito, told apart with every kind of colour vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#B8A900")

PALE = 0.55
"""How much white is in the colours of nodes: labels are black."""

WHITE = "#ffffff"

FEW = 60
"""Of so many nodes, notebooks show a drawing."""

DASHED = ' stroke-dasharray="3 2"'

ROUNDS = 8
"""How often nodes of a layer are put in the order of their neighbours, down and up."""


@dataclass(frozen=True, eq=False)
class Layout:
    """A graph on paper.

    Attributes
    ----------
    x, y : arrays of shape (nodes,)
        Where nodes are; neighbours of a layer are at least one apart.
    labels : sequence of str
    fills : sequence of str
        Colours, "#rrggbb".
    edges : int array of shape (edges, 2)
        The upper and the lower node of every edge.
    weights : array of shape (edges,)
        Between -1 and 1: how wide edges are; negative ones are dashed.
    squares : frozenset of int
        The nodes that are drawn as squares.
    arrows : bool
        Whether edges have a direction.
    title : str
    """

    x: Array
    y: Array
    labels: Sequence[str]
    fills: Sequence[str]
    edges: Array
    weights: Array
    squares: frozenset[int] = field(default_factory=frozenset)
    arrows: bool = False
    title: str = ""


def pale(i: int) -> str:
    """A light colour of the palette.

    Examples
    --------
    >>> pale(0) == pale(7), pale(0)
    (True, '#8cc0dc')
    """
    colour = PALETTE[i % len(PALETTE)]
    parts = (int(colour[j : j + 2], 16) for j in (1, 3, 5))
    return "#" + "".join(f"{round(255 * PALE + part * (1 - PALE)):02x}" for part in parts)


def depths(n: int, edges: Any) -> Array:
    """The length of the longest path down to every node of an acyclic graph.

    Examples
    --------
    >>> depths(3, [(0, 1), (1, 2), (0, 2)]).tolist()
    [0, 1, 2]
    """
    found = np.zeros(n, dtype=np.intp)
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    for _ in range(n):
        below = found.copy()
        np.maximum.at(below, pairs[:, 1], found[pairs[:, 0]] + 1)
        if np.array_equal(below, found):
            break
        found = below
    return found


def layered(depth: Any, edges: Any) -> tuple[Array, Array]:
    """Places of nodes in layers: those of a layer in the order of their neighbours' mean places.

    Examples
    --------
    >>> x, y = layered(np.array([0, 0, 1, 1]), [(0, 3), (1, 2)])
    >>> bool((x[0] < x[1]) == (x[3] < x[2])), y.tolist()
    (True, [0.0, 0.0, -1.0, -1.0])
    """
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    layers = [np.flatnonzero(depth == d) for d in range(int(depth.max()) + 1)]
    x = np.zeros(len(depth))
    widest = max(map(len, layers))
    for layer in layers:
        x[layer] = _evenly(len(layer), widest)
    for turn in range(2 * ROUNDS):
        here, there = (1, 0) if turn % 2 == 0 else (0, 1)
        count = np.bincount(pairs[:, here], minlength=len(x))
        total = np.bincount(pairs[:, here], weights=x[pairs[:, there]], minlength=len(x))
        wanted = np.where(count > 0, total / np.maximum(count, 1), x)
        for layer in layers:
            x[layer[np.argsort(wanted[layer], kind="stable")]] = _evenly(len(layer), widest)
    return x, -np.asarray(depth, dtype=np.float64)


def _evenly(n: int, width: int) -> Any:
    """Places of n nodes in the middle of a width, further apart if they are few."""
    gap = min(4.0, width / n)
    return (np.arange(n) - (n - 1) / 2) * gap


def vtree_layout(
    vtree: Any, names: Sequence[str] | None = None, counts: Sequence[int] | None = None
) -> Layout:
    """The nodes of a vtree, those of a depth in one colour.

    Leaves have the names of their variables, and all nodes what there is to count.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> layout = vtree_layout(ek.Vtree.balanced(2), counts=[3, 4, 5])
    >>> layout.labels, layout.x.tolist(), layout.edges.tolist()
    (['0: 3', '1: 4', '5'], [0.0, 1.25, 0.625], [[2, 0], [2, 1]])
    """
    n, variables = vtree.n_nodes, vtree.variable.tolist()
    labels = ["" if v < 0 else str(v if names is None else names[v]) for v in variables]
    if counts is not None:
        labels = [f"{a}: {n}" if a else str(n) for a, n in zip(labels, counts, strict=True)]
    inner = np.flatnonzero(vtree.variable < 0)
    x = np.zeros(n)
    x[vtree.variable >= 0] = 1.25 * np.arange(n - len(inner))
    edges = np.repeat(inner, 2), np.stack([vtree.left[inner], vtree.right[inner]], 1).ravel()
    for node, a, b in zip(inner, vtree.left[inner], vtree.right[inner], strict=True):
        x[node] = (x[a] + x[b]) / 2
    fills = [pale(d) if v < 0 else WHITE for v, d in zip(variables, vtree.depth, strict=True)]
    title = f"Vtree of {vtree.n_variables} variables"
    pairs, widths = np.stack(edges, axis=1), np.full(len(edges[0]), 0.3)
    return Layout(x, -vtree.depth.astype(np.float64), labels, fills, pairs, widths, title=title)


TIMES = "\N{MULTIPLICATION SIGN}"

Drawn = tuple[str, Any, Sequence[int], Any]
"""A unit: label, scope (None: an input), inputs, and their weights (None: a product)."""


def circuit_layout(circuit: Any) -> Layout:
    """The units of a circuit in layers, inputs at the bottom, in the order of their neighbours.

    Units have the colour of their scope; inputs are white. Sums of one product with weight one are
    not drawn.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> layout = circuit_layout(ek.factorized([[0.2, 0.8], [0.5, 0.5]]))
    >>> layout.labels, layout.edges.tolist()
    (['0', '1', '×'], [[2, 0], [2, 1]])
    """
    on_cpu, vtree, units, made = circuit.on_cpu, circuit.vtree, list[Drawn](), list[list[int]]()

    def added(*unit: Any) -> int:
        units.append(unit)
        return len(units) - 1

    for node, (block, v) in enumerate(zip(on_cpu.blocks, vtree.variable.tolist(), strict=True)):
        if v >= 0:
            states = on_cpu.schema.labels(v) or range(block.cardinality or 0)
            made.append([])
            for row in block.numbers:
                label, possible = str(on_cpu.schema.name(v)), np.flatnonzero(row)
                if len(states) > 1 and len(possible) == 1:  # of one state
                    label += f"={states[possible[0]]}"
                made[-1].append(added(label, None, (), None))
            continue
        left, right = (made[child[node]] for child in (vtree.left, vtree.right))
        pairs = zip(*(index.tolist() for index in block.inputs), strict=True)
        products = [added(TIMES, node, (left[a], right[b]), None) for a, b in pairs]
        (data, starts), columns = block.flat, block.columns
        made.append([])
        for i in range(block.n_units):
            terms = slice(starts[i], starts[i + 1])
            below, weights = [products[j] for j in columns[terms].tolist()], data[terms]
            alone = len(below) == 1 and weights[0] == 1.0
            made[-1].append(below[0] if alone else added("+", node, below, weights))
    return _layout(units, repr(circuit))


def graph_layout(graph: Any) -> Layout:
    """The units of a graph in layers, inputs at the bottom, in the order of their neighbours."""
    units = list[Drawn]()
    for unit, mask, below in zip(graph.units, graph.masks, graph.inputs, strict=True):
        label = {"sum": "+", "product": TIMES}.get(unit.kind) or str(unit.variable)
        scope = mask if below else None
        units.append((label, scope, below, getattr(unit, "weights", None)))
    return _layout(units, repr(graph.units[-1]))


def _layout(units: Sequence[Drawn], title: str) -> Layout:
    """Units in layers, those of a scope in one colour, with edges as wide as their weights."""
    edges = [(i, j) for i, (_, _, below, _) in enumerate(units) for j in below]
    height = depths(len(units), [(j, i) for i, j in edges])
    x, y = layered(height.max() - height, edges)
    colours: dict[Any, int] = {}
    fills = [
        WHITE if scope is None else pale(colours.setdefault(scope, len(colours)))
        for _, scope, _, _ in units
    ]
    widths = [
        np.full(len(below), 0.3) if w is None else w / (np.abs(w).max(initial=0.0) or 1.0)
        for _, _, below, w in units
    ]
    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    return Layout(x, y, [u[0] for u in units], fills, pairs, np.concatenate(widths), title=title)


def circuit_html(circuit: Any) -> str:
    """What notebooks show of a circuit: its variables and sizes, and its units if they are few.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> "<svg" in circuit_html(ek.factorized([[0.2, 0.8]]))
    True
    """
    n, names = circuit.n_variables, circuit.names
    called = "" if names is None else f": {', '.join(names[:12])}{', ...' if n > 12 else ''}"
    found: dict[str, Any] = {"variables": f"{n}{called}"}
    try:
        found |= {"units": circuit.n_units, "edges": circuit.n_edges}
    except SizeError:
        return overview(repr(circuit), found)
    found |= {"parameters": circuit.n_parameters, "roots": circuit.n_roots}
    few = circuit.n_units <= FEW
    return overview("Circuit", found, svg(circuit_layout(circuit)) if few else "")


def classical_scaling(n: int, edges: Any) -> tuple[Array, Array]:
    """Places whose distances are about those in the graph: classical scaling of shortest paths.

    Examples
    --------
    >>> x, y = classical_scaling(3, [(0, 1), (1, 2)])
    >>> np.abs(np.diff(x)).round(6).tolist()
    [1.0, 1.0]
    """
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import shortest_path

    pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n)).tocsr()
    steps = shortest_path(graph, directed=False, unweighted=True)
    steps[np.isinf(steps)] = 2.0 + np.max(steps[np.isfinite(steps)], initial=0.0)
    squares = steps**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-0.5 * centred)
    places = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
    # signs of eigenvectors are arbitrary: the first node is at the upper left
    x, y = (places[:, i] if i < n else np.zeros(n) for i in (0, 1))
    return (-x if x[0] > 0 else x), (-y if y[0] < 0 else y)


def svg(layout: Layout, scale: float = 34.0) -> str:
    """The layout as an SVG element, in the colour of the text around it.

    Examples
    --------
    >>> one = Layout(np.zeros(1), np.zeros(1), ["a<b"], ["#ffffff"], np.empty((0, 2)), np.empty(0))
    >>> "a&lt;b" in svg(one)
    True
    """
    r = 11.0
    x = (layout.x - layout.x.min()) * scale + 2.2 * r
    y = (layout.y.max() - layout.y) * 1.2 * scale + 1.5 * r
    lines = "".join(
        f'<line x1="{x[a]:.1f}" y1="{y[a]:.1f}" x2="{x[b]:.1f}" y2="{y[b]:.1f}" '
        f'stroke-width="{0.6 + 2.4 * abs(w):.2f}"{DASHED if w < 0 else ""}/>'
        for (a, b), w in zip(layout.edges.tolist(), layout.weights.tolist(), strict=True)
    )
    nodes = "".join(
        f'<circle cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="{r}" fill="{fill}"/>'
        f'<text x="{x[i]:.1f}" y="{y[i] + 3.5:.1f}" fill="#000" stroke="none" '
        f'font-size="{min(11.0, 36.0 / max(1, len(short(label, 7)))):.1f}">'
        f"{escape(short(label, 7))}<title>{escape(label)}</title></text>"
        for i, (label, fill) in enumerate(zip(layout.labels, layout.fills, strict=True))
    )
    width, height = x.max() + 2.2 * r, y.max() + 1.5 * r
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" style="max-width: 100%; height: auto" stroke="currentColor" '
        f'font-family="sans-serif" text-anchor="middle" role="img" '
        f'aria-label="{escape(layout.title, quote=True)}">'
        f'<g opacity="0.7">{lines}</g>{nodes}</svg>'
    )


def short(label: str, most: int) -> str:
    """A label of so many letters at most: what is left out is in the middle.

    Examples
    --------
    >>> short("blood pressure, left", 11), short("age", 11)
    ('blood… left', 'age')
    """
    if len(label) <= most:
        return label
    end = (most - 1) // 2
    return f"{label[: most - 1 - end]}\N{HORIZONTAL ELLIPSIS}{label[-end:]}"
