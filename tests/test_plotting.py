import numpy as np
import pytest

import expectedkernels as ek

TIMES = "\N{MULTIPLICATION SIGN}"


def labels(ax):
    return [text.get_text() for text in ax.texts]


def test_circuits_show_all_units_and_edges():
    p = ek.random_circuit(ek.Vtree.balanced(3), 2, rng=0)
    ax = ek.plotting.plot_circuit(p)
    shown = labels(ax)
    assert len(shown) == p.n_units
    assert len(ax.get_lines()) == p.n_units + p.n_edges
    assert sorted(set(shown)) == ["+", "0", "1", "2", TIMES]


def test_negative_weights_are_dashed_and_units_are_drawn_as_written():
    root = ek.Sum([ek.Categorical(0, [1.0, 1.0]), ek.Indicator(0, 1, 2)], [1.0, -0.5])
    ax = ek.plotting.plot(root)
    assert labels(ax) == ["0", "0", "+"]
    styles = [line.get_linestyle() for line in ax.get_lines()]
    assert styles.count("--") == 1


def test_large_circuits_are_summarised_by_their_vtree():
    p = ek.random_circuit(ek.Vtree.balanced(16), 5, rng=0)
    assert p.n_units > 200
    shown = labels(ek.plotting.plot_circuit(p))
    assert len(shown) == p.vtree.n_nodes
    assert shown[0] == "0: 5"
    assert shown[-1] == "1"


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


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: ek.plotting.plot(3), "Got int"),
        (lambda: ek.plotting.plot_circuit(3), "A circuit is drawn here. Got int"),
        (lambda: ek.plotting.plot_vtree(3), "A vtree is drawn here. Got int"),
        (lambda: ek.plotting.plot_model(3), "A factor graph or Bayesian network .* Got int"),
        (lambda: ek.plotting.plot_gram([1.0]), r"shape \(1,\)"),
        (lambda: ek.plotting.plot_witness([], [1.0]), "Got 0 and 1"),
        (lambda: ek.plotting.plot_intervals([1.0], ([1.0, 2.0], [1.0])), r"shapes \[\(1,\), \(2,"),
    ],
)
def test_mistakes_are_named(draw, message):
    with pytest.raises(ek.DataError, match=message):
        draw()
