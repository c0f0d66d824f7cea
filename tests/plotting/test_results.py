"""Pictures of circuits, models and results: what they show, and that nothing is cut off."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import refusals
from studies.base import plot_panels

LONG = [f"measurement number {i} of the first visit, in some unit" for i in range(12)]


def drifting(n):
    X = np.random.default_rng(0).integers(3, size=(60, n))
    frames = (pd.DataFrame(x, columns=LONG[:n]) for x in (X, np.minimum(X, 1)))
    return ek.drift(*frames, n_permutations=9, rng=0)


def far(n):
    p = ek.random_circuit(ek.Vtree.balanced(n), 2, rng=0).with_names(LONG[:n])
    return ek.group_discrepancies(p, 1)


def shares(names, values, base=0.0, data=None):
    """The Shapley values of one row."""
    entries = np.full(len(names), 0.123) if data is None else np.array(data)
    values = np.array(values)
    total = np.array([base + values.sum()])
    return ek.ShapleyValues(values[None], np.array([base]), total, list(names), entries[None])


def panels(n):
    band = pd.DataFrame({"mean": [0, 1], "std": [0.1, 0.1]})
    curves = {f"{name} prediction": band for name in "abcdefg"}
    curves["a prediction (published)"] = band[["mean"]]
    return plot_panels({str(i): curves for i in range(n)}, "", {}, {})[0]


def units(n, k):
    return ek.plotting.plot(ek.random_circuit(n, k, rng=0).with_names(LONG[:n]))


PICTURES = {
    "3 units": lambda: units(2, 1),
    "30 units": lambda: units(6, 2),
    "300 units": lambda: units(12, 9),
    "network": lambda: ek.plotting.plot(ek.asia().with_names(LONG[:8])),
    "one column": lambda: drifting(1).plot(),
    "columns": lambda: drifting(6).plot(),
    "groups": lambda: far(4).plot(),
    "contributions": lambda: shares(LONG, np.linspace(-1, 1, 12), 5.0).plot("waterfall"),
    "importances": lambda: shares(LONG, np.arange(12.0)).plot(),
    "one panel": lambda: panels(1),
    "two panels": lambda: panels(2),
    "four panels": lambda: panels(4),
    "3 rows": lambda: ek.plotting.plot_intervals([1, 2, 3], ([0, 1, 2], [2, 3, 4]), [1, 2, 3]),
}


def seen_ticks(axis):
    """The labels of an axis that are within its ends."""
    low, high = sorted(axis.get_view_interval())
    pairs = zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True)
    return [label for label, at in pairs if low <= at <= high and label.get_text()]


@pytest.mark.parametrize("make", PICTURES.values(), ids=PICTURES)
def test_nothing_is_cut_off_and_labels_do_not_lie_on_each_other(make):
    ax = make()
    figure = ax.figure
    figure.canvas.draw()
    axes = (ax.xaxis, ax.yaxis) if ax.axison else ()
    written = [*figure.texts, *ax.texts, *(axis.label for axis in axes)]
    written += [text for legend in figure.legends for text in legend.get_texts()]
    written += [ax.title, ax._left_title, *(t for axis in axes for t in seen_ticks(axis))]
    for text in written:
        if text.get_text():
            box = text.get_window_extent()
            low, high = figure.bbox.padded(1.5).get_points()
            assert (low <= box.min).all(), text
            assert (box.max <= high).all(), text
    for i, axis in enumerate(axes):
        ends = sorted(t.get_window_extent().get_points()[:, i].tolist() for t in seen_ticks(axis))
        assert all(a[1] <= b[0] + 1 for a, b in pairwise(ends))


def test_waterfalls_write_numbers_as_people_do():
    names, data = ["carat", "year", "price"], [0.5, 2007.0, 53940.0]
    ax = shares(names, [14312.0, -0.00123, 941.6], -2000.0, data).plot("waterfall")
    assert {text.get_text() for text in ax.texts} == {"+14,300", "-0.00123", "+942"}
    labels = {text.get_text() for text in ax.get_yticklabels()}
    assert labels == {"carat = 0.5", "year = 2007", "price = 53940"}
    lines = [line.get_label() for line in ax.lines]
    assert lines == ["base value: -2000", "this row: 13,250"]


def labels(ax):
    return [text.get_text() for text in ax.texts]


def test_circuits_show_all_units_and_edges():
    p = ek.random_circuit(ek.Vtree.balanced(3), 2, rng=0)
    ax = ek.plotting.plot_circuit(p)
    assert len(labels(ax)) == p.n_units
    assert len(ax.get_lines()) == p.n_units + p.n_edges
    assert sorted(set(labels(ax))) == ["+", "0", "1", "2", "\N{MULTIPLICATION SIGN}"]


def test_negative_weights_are_dashed_and_units_are_drawn_as_written():
    root = ek.Sum([ek.Categorical(0, [1.0, 1.0]), ek.Indicator(0, 1, 2)], [1.0, -0.5])
    ax = ek.plotting.plot(root)
    assert labels(ax) == ["0", "0", "+"]
    styles = [line.get_linestyle() for line in ax.get_lines()]
    assert styles.count("--") == 1


def test_large_circuits_are_summarised_by_their_vtree():
    p = ek.random_circuit(ek.Vtree.balanced(16), 5, rng=0)
    assert p.n_units > 200
    first, *shown, last = labels(ek.plotting.plot_circuit(p))
    assert (first, len(shown), last) == ("0: 5", p.vtree.n_nodes - 2, "1")


def test_networks_have_arrows_from_parents_above_to_children_below():
    model = ek.asia()
    ax = ek.plotting.plot(model)
    nodes = {text.get_position(): text.get_text() for text in ax.texts if text.get_text()}
    assert sorted(nodes.values()) == sorted(model.names)
    arrows = [(text.get_position(), text.xy) for text in ax.texts if not text.get_text()]
    assert sorted((nodes[above], nodes[below]) for above, below in arrows) == sorted(
        (model.names[parent], model.names[v])
        for v, parents in enumerate(model.parents)
        for parent in parents
    )
    assert all(above[1] > below[1] for above, below in arrows)


def nodes_and_edges(ax):
    """The places of the nodes of a drawing, and the nodes at the ends of its lines."""
    lines = [line.get_xydata() for line in ax.get_lines()]
    nodes = np.concatenate([line for line in lines if len(line) == 1])
    ends = [line for line in lines if len(line) == 2]
    return nodes, [[nodes.tolist().index(end) for end in line.tolist()] for line in ends]


def test_factors_of_many_variables_are_squares():
    pairs = [([0, 1], np.ones((2, 2))), ([1, 2, 3], np.ones((2, 2, 2)))]
    ax = ek.plotting.plot(ek.FactorGraph([2] * 5, pairs))
    _, edges = nodes_and_edges(ax)
    assert [line.get_marker() for line in ax.get_lines()[len(edges) :]] == ["o"] * 5 + ["s"]
    assert edges == [[0, 1], [5, 1], [5, 2], [5, 3]]
    assert labels(ax) == ["0", "1", "2", "3", "4", ""]


def test_neighbours_on_a_grid_are_nearer_than_others():
    nodes, edges = nodes_and_edges(ek.plotting.plot(ek.ising_grid(4, 4, rng=0)))
    apart = np.linalg.norm(nodes[:, None] - nodes[None], axis=2)
    near = np.zeros((16, 16), dtype=bool)
    near[tuple(np.array(edges).T)] = True
    assert apart[near].mean() < 0.6 * apart[~(near | near.T | np.eye(16, dtype=bool))].mean()


def test_anything_with_a_picture_is_written(tmp_path):
    p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    samples = ek.WeightedSamples(p, [[0, 1], [1, 0]], [0.5, 0.5])
    for i, what in enumerate([p, samples, np.eye(3), ek.mmd_test(p.sample(9, rng=0), p, rng=0)]):
        ek.plotting.plot(what, tmp_path / f"{i}.svg")
        assert (tmp_path / f"{i}.svg").read_text(encoding="utf-8").startswith("<?xml")
    ek.plotting.plot(p, tmp_path / "new" / "picture.png")
    assert (tmp_path / "new" / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_tensors_and_networks_of_others_are_drawn():
    torch, pyagrum = pytest.importorskip("torch"), pytest.importorskip("pyagrum")
    ax = ek.plotting.plot(torch.eye(3, requires_grad=True))
    assert ax.images[0].get_array().tolist() == np.eye(3).tolist()
    network = pyagrum.fastBN("rain->wet<-sprinkler")
    assert sorted(filter(None, labels(ek.plotting.plot(network)))) == ["rain", "sprinkler", "wet"]


def test_intervals_show_rows_in_order():
    ax = ek.plotting.plot_intervals([2.0, 1.0], ([1.0, 0.0], [3.0, 4.0]), measured=[2.5, 0.5])
    assert ax.containers[0][0].get_ydata().tolist() == [1.0, 2.0]
    assert [line[0][1] for line in ax.collections[0].get_segments()] == [0.5, 2.5]


test_mistakes_are_named = refusals(ek.DataError, [
    (lambda: ek.plotting.plot(3), "Got int"),
    (lambda: ek.plotting.plot_circuit(3), "A circuit is drawn here. Got int"),
    (lambda: ek.plotting.plot_vtree(3), "A vtree is drawn here. Got int"),
    (lambda: ek.plotting.plot_model(3), "A factor graph or Bayesian network .* Got int"),
    (lambda: ek.plotting.plot_gram([1.0]), r"shape \(1,\)"),
    (lambda: ek.plotting.plot_witness([], [1.0]), "Got 0 and 1"),
    (lambda: ek.plotting.plot_intervals([1.0], ([1.0, 2.0], [1.0])), r"shapes \[\(1,\), \(2,"),
])  # fmt: skip
