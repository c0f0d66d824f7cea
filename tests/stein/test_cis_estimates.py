import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import logsumexp

import expectedkernels as ek
from assertions import refusals
from factor_graphs import random_graph, scores
from strategies import rngs


def hellinger(tables, others):
    return np.mean(
        [
            np.sqrt(0.5 * np.square(np.sqrt(a) - np.sqrt(b)).sum())
            for a, b in zip(tables, others, strict=True)
        ]
    )


def test_everything_collapsed_is_exact():
    grid = ek.ising_grid(3, 3, rng=1)
    for budget, max_size in ((9, None), (100, None), (None, None), (None, 10**6)):
        samples = ek.cis(grid, 1, budget, rng=0, max_size=max_size)
        assert samples.collapsed.all()
        np.testing.assert_allclose(samples.log_z, np.log(scores(grid).sum()), rtol=1e-12)
        for found, exact in zip(samples.marginals(), grid.marginals(), strict=True):
            np.testing.assert_allclose(found, exact, rtol=1e-10)


def test_the_log_weights_lead_to_the_rest():
    samples = ek.cis(ek.ising_grid(3, 3, rng=0), 50, 3, rng=0)
    logs = samples.log_weights
    np.testing.assert_allclose(samples.weights, np.exp(logs - logsumexp(logs)))
    np.testing.assert_allclose(samples.log_z, logsumexp(logs) - np.log(50))
    assert samples.rule == "cis"
    assert 1 <= samples.ess <= 50


def test_errors_of_marginals_fall_with_the_budget_and_with_n():
    grid = ek.ising_grid(3, 3, rng=0)
    exact = grid.marginals()

    def error(n, budget):
        tries = [ek.cis(grid, n, budget, rng=seed) for seed in range(6)]
        return np.mean([hellinger(samples.marginals(), exact) for samples in tries])

    errors = [error(60, budget) for budget in (0, 3, 6)]
    assert errors[0] > errors[1] > errors[2]
    assert error(800, 2) < 0.6 * error(60, 2)


def test_variables_whose_factors_are_in_make_better_proposals():
    grid = ek.ising_grid(3, 3, rng=0)
    for budget in (2, 4, 6):
        chance, frontier = (
            ek.cis(grid, 600, budget, rng=0, select=select).ess for select in ("rand", "frontier")
        )
        assert frontier > 1.2 * chance


def test_evidence_by_name_by_row_and_by_weights():
    network = ek.asia()
    circuit, _ = network.compile()
    samples = ek.cis(network, 400, 3, rng=0, evidence={"smoke": "yes", "xray": 1})
    assert set(samples.rows[:, 2]) == {0.0}
    assert set(samples.rows[:, 6]) == {1.0}
    assert samples.collapsed.sum(axis=1).tolist() == [3] * 400
    exact = circuit.marginals({2: 0, 6: 1})
    assert hellinger(samples.marginals(), exact) < 0.03
    z = np.exp(circuit.log_likelihood([[np.nan, np.nan, 0, np.nan, np.nan, np.nan, 1, np.nan]])[0])
    np.testing.assert_allclose(np.exp(samples.log_z), z, rtol=0.1)
    row = np.full(8, np.nan)
    row[2], row[6] = 0, 1
    again = ek.cis(network, 400, 3, rng=0, evidence=row)
    np.testing.assert_array_equal(again.rows, samples.rows)
    soft = ek.cis(network, 1, 8, rng=0, evidence={"smoke": [0.5, 0.25]})
    np.testing.assert_allclose(np.exp(soft.log_z), 0.375, rtol=1e-10)
    both = ek.cis(network, 1, 8, rng=0, evidence={"smoke": {"yes", "no"}})
    np.testing.assert_allclose(np.exp(both.log_z), 1.0, rtol=1e-10)


def test_protected_variables_are_never_sampled():
    network = ek.asia()
    samples = ek.cis(network, 20, 0, rng=0, protected=["either", 1])
    kept = samples.collapsed
    assert kept.sum(axis=1).tolist() == [2] * 20
    assert kept[:, [1, 5]].all()
    everything = ek.cis(network, 1, 0, rng=0, protected=range(8))
    np.testing.assert_allclose(everything.log_z, 0.0, atol=1e-12)


def test_a_model_with_products_too_large_for_one_table():
    rng = np.random.default_rng(0)
    cards = rng.integers(2, 5, size=16).tolist()
    graph = random_graph(rng, cards, [(i, i + 1) for i in range(15)] + [(0, 2), (5, 8), (9, 14)])
    samples = ek.cis(graph, 1, 16, rng=0)
    np.testing.assert_allclose(samples.log_z, graph.log_partition(), rtol=1e-10)
    for select in ("frontier", "ent"):
        samples = ek.cis(graph, 20, 10, rng=0, select=select)
        weights = samples.log_weights - graph.log_partition()
        assert abs(np.exp(weights).mean() - 1.0) < 0.5


def test_numbers_that_are_no_doubles_as_products():
    table = [[1e-200, 1e-180], [1e-190, 1e-170]]
    graph = ek.FactorGraph([2] * 6, [((i, i + 1), table) for i in range(5)])
    samples = ek.cis(graph, 50, 2, rng=0)
    np.testing.assert_allclose(samples.log_z, graph.log_partition(), atol=0.5)


@settings(max_examples=10)
@given(rngs)
def test_circuits_are_sampled_exactly(rng):
    vtree = ek.Vtree.balanced(4)
    circuit = ek.random_circuit(vtree, 3, rng, cardinalities=[2, 3, 2, 4])
    for select in ("frontier", "rand"):
        samples = ek.cis(circuit, 40, 1, rng=0, select=select, query=2)
        assert samples.collapsed.sum(axis=1).tolist() == [1] * 40
        assert samples.collapsed[:, 2].all()
        np.testing.assert_allclose(samples.log_z, 0.0, atol=1e-10)
        np.testing.assert_allclose(samples.weights, 1 / 40)
    exact = ek.cis(circuit, 1, rng=0, evidence={1: 2})
    np.testing.assert_allclose(exact.log_z, np.log(circuit.marginals()[1][2]), rtol=1e-10)
    assert exact.rows[0, 1] == 2
    for found, wanted in zip(exact.marginals(), circuit.marginals({1: 2}), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


GRID = ek.ising_grid(2, 2, rng=0)


test_bad_arguments = refusals(ek.CircuitError, [
    ({"n": 0}, r"'n' parameter of cis must be an int in the range \[1, inf\)\. Got 0"),
    ({"n": 2.5}, r"'n' parameter of cis must be an int"),
    ({"collapse_budget": -1}, r"'collapse_budget' parameter .* range \[0, inf\) or None. Got -1"),
    ({"collapse_budget": True}, r"'collapse_budget' parameter .* Got True"),
    ({"max_size": 0}, r"'max_size' parameter of cis must be an int in the range \[1, inf\)"),
    ({"order": "dfs"}, r"'order' parameter of cis must be 'rbfs', .* Got 'dfs'"),
    ({"rng": 1.5}, r"The 'rng' parameter must be a non-negative int"),
    ({"order": ["bfs"]}, r"'order' parameter of cis must be .* Got \['bfs'\]"),
    ({"select": "best"}, r"'select' parameter of cis must be 'frontier', .* Got 'best'"),
    ({"select": "frb"}, r"Got 'frb', which was removed: use 'rbvar' with a query"),
    ({"select": "size"}, r"Got 'size', which was removed: use 'frontier'"),
    ({"select": "ind"}, r"Got 'ind', which was removed: use 'frontier'"),
    ({"select": "mi"}, r"select='mi' of cis asks what sampling does to a query"),
    ({"protected": "x1"}, r"'protected' parameter of cis must be a list"),
    ({"protected": 3}, r"'protected' parameter of cis must be a list"),
    ({"target": 3}, r"must be a FactorGraph, a BayesianNetwork or a Circuit; .* Got int"),
], lambda arguments: ek.cis(**{"target": GRID, "n": 3} | arguments))  # fmt: skip


OF_GRID = GRID.compile()[0]


test_bad_variables_and_evidence = refusals(None, [
    *((target, options, ek.EvidenceError, r"is an int in 0\.\.3") for target in (GRID, OF_GRID)
      for options in ({"query": 4}, {"protected": ["smoke"]})),
    (GRID, {"evidence": {1: 7}}, ek.EvidenceError, r"state of variable 1 is an int in 0\.\.1"),
    (OF_GRID, {"evidence": np.zeros((2, 4))}, ek.EvidenceError, r"cis is one row. Got 2 rows"),
    (OF_GRID, {"max_size": 10}, ek.CircuitError, "limits products of factors"),
    (OF_GRID, {"select": "mi", "query": 0}, ek.CircuitError, "'mi' of cis needs the factors"),
    (ek.gaussian_mixture([1.0], [[0.0]], [[1.0]]), {}, ek.CircuitError,
     r"Targets are discrete here. Variable 0"),
], lambda target, options: ek.cis(target, 2, **options))  # fmt: skip


def test_a_size_limit_collapses_fewer_variables():
    graph = random_graph(
        np.random.default_rng(0), [2, 3, 2, 2], [(0, 1), (1, 2), (2, 3), (3, 0), (1,)]
    )
    counts = [
        ek.cis(graph, 20, rng=0, max_size=size).collapsed.sum() for size in (1, 6, 12, 30, 1000)
    ]
    assert counts == sorted(counts)
    assert counts[0] == 20  # one variable is never too large
    assert counts[-1] == 80


def test_isolated_variables_and_those_of_one_state_are_kept_outside():
    rng = np.random.default_rng(0)
    graph = random_graph(rng, [2, 3, 1, 2, 4], [(0, 2, 3), (2,), ()])
    samples = ek.cis(graph, 30, 0, rng=0)
    assert samples.collapsed.tolist() == [[False, True, True, False, True]] * 30
    np.testing.assert_allclose(samples.marginals()[1], [1 / 3] * 3)
    np.testing.assert_allclose(samples.marginals()[4], [1 / 4] * 4)
    nothing = ek.cis(ek.FactorGraph([2, 3], []), 2, 0, rng=0)
    np.testing.assert_allclose(nothing.log_z, np.log(6))
    assert nothing.collapsed.all()


def test_impossible_samples_have_the_weight_zero():
    # x0 and x1 are drawn before the factor that ties them is seen
    factors = [((0,), [0.5, 0.5]), ((1,), [0.5, 0.5]), ((0, 1), np.eye(2)), ((1, 2), np.eye(2))]
    graph = ek.FactorGraph([2, 2, 2], factors)
    samples = ek.cis(graph, 200, 0, rng=0, order="bfs")
    for table in samples.marginals():
        np.testing.assert_allclose(table, [0.5, 0.5], atol=0.1)
    backwards = ek.FactorGraph([2, 2], [((0, 1), [[1, 1], [1, 0]]), ((0,), [0, 1]), ((1,), [0, 1])])
    with pytest.raises(ek.PropertyError, match=r"All 20 samples have the weight zero"):
        ek.cis(backwards, 20, 0, rng=0)
    late = ek.FactorGraph([2, 2], [((0, 1), [[9, 1], [1, 1]]), ((0,), [0, 1]), ((1,), [1, 1])])
    found = ek.cis(late, 50, 0, rng=0, order="bfs")
    assert (found.log_weights == -np.inf).any()
    assert (found.log_weights > -np.inf).any()
    np.testing.assert_allclose(found.marginals()[0], [0.0, 1.0])
    np.testing.assert_allclose(found.uniform().marginals()[0], [0.0, 1.0])
    assert 0 <= found.expect(lambda X: X[:, 1]) <= 1
