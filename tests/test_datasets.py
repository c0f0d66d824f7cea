import numpy as np

from assertions import refusals
from expectedkernels import CircuitError, asia, ising_grid
from factor_graphs import grid_scopes
from networks import ASIA


def test_asia():
    network = asia()
    assert network.names == ["asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp"]
    assert network.states == [["yes", "no"]] * 8
    circuit, log_z = network.compile()
    np.testing.assert_allclose(log_z, 0.0, atol=1e-14)
    found = [table[0] for table in circuit.marginals()]
    np.testing.assert_allclose(found, ASIA, rtol=0, atol=5e-7)
    either, tub, lung = (network.variable(name) for name in ("either", "tub", "lung"))
    assert network.parents[either] == (tub, lung)
    assert network.cpts[either][:, :, 0].tolist() == [[1.0, 1.0], [1.0, 0.0]]


def test_tables_are_drawn_edge_by_edge_in_the_order_of_the_public_model(data_dir):
    grid = ising_grid(3, 4, rng=7)
    assert [factor.scope for factor in grid.factors] == grid_scopes(3, 4)
    rng = np.random.default_rng(7)
    for factor in grid.factors:
        np.testing.assert_array_equal(factor.table, rng.random((2, 2)))
    lines = (data_dir / "uai" / "ising_4x4.uai").read_text().splitlines()
    scopes = [tuple(map(int, line.split()[1:])) for line in lines[4:28]]
    assert [factor.scope for factor in ising_grid(4, 4, rng=0).factors] == scopes


def test_frustrated_grids_states_and_single_cells():
    grid = ising_grid(20, 20, rng=0, frustrated=True)
    tables = np.stack([factor.table for factor in grid.factors])
    diagonal = tables[:, [0, 1], [0, 1]]
    others = tables[:, [0, 1], [1, 0]]
    small = (diagonal <= 0.5).all(axis=1) & (others >= 0.5).all(axis=1)
    large = (diagonal >= 0.5).all(axis=1) & (others <= 0.5).all(axis=1)
    assert (small ^ large).all()
    assert 0.4 < small.mean() < 0.6
    assert ising_grid(2, 2, rng=0, cardinality=3).cardinalities == (3, 3, 3, 3)
    lone = ising_grid(1, 1, rng=0)
    assert lone.factors == ()
    assert lone.compile()[0].marginals()[0].tolist() == [0.5, 0.5]


test_errors = refusals(CircuitError, [
    ((0, 3), {}, r"'rows' parameter of ising_grid must be an int in the range \[1, inf\)\."),
    ((3, "3"), {}, "'cols' parameter of ising_grid must be an int"),
    ((3, True), {}, "'cols' parameter of ising_grid must be an int"),
    ((2, 2), {"cardinality": 0}, "'cardinality' parameter of ising_grid must be an int"),
    ((2, 2), {"cardinality": True}, "'cardinality' parameter of ising_grid must be an int"),
], lambda arguments, options: ising_grid(*arguments, rng=0, **options))  # fmt: skip
