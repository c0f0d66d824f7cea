"""Discrepancies of subgroups, against sums over all states."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek

CARDS = [2, 3, 2, 4, 2]
NAMES = ["a", "b", "c", "d", "e"]
STATES = np.array(list(product(*map(range, CARDS))))


def circuit(seed=0):
    p = ek.random_circuit(ek.Vtree.random(5, rng=seed), 3, rng=seed, cardinalities=CARDS)
    return ek.Circuit(p.vtree, p.blocks, NAMES, None)


def kernel_without(ignored, gamma=0.6):
    """The values of ExpHamming on all pairs of states, without some variables."""
    rates = np.where(np.isin(np.arange(5), list(ignored)), 0.0, gamma)
    return ek.ExpHamming(rates)(STATES) if rates.any() else np.ones((len(STATES), len(STATES)))


def conditional(p, row):
    chances = np.exp(p.log_likelihood(STATES))
    known = ~np.isnan(row)
    chances = chances * (STATES[:, known] == row[known]).all(axis=1)
    return chances / chances.sum(), chances.sum()


def squared(p, row, other):
    """The squared discrepancy of two groups, the kernel ignoring what both are made by."""
    ignored = np.flatnonzero(~np.isnan(row) | ~np.isnan(other))
    d = conditional(p, row)[0] - conditional(p, other)[0]
    return d @ kernel_without(ignored) @ d


K = ek.ExpHamming(0.6)


@pytest.mark.parametrize("groups", [1, 2, 5, ["b", "d"], [("a", "c"), ("d",)]], ids=repr)
def test_all_groups_are_those_of_sums_over_states(groups):
    p = circuit()
    found = ek.group_discrepancies(p, groups, K)
    nothing = np.full(5, np.nan)
    wanted = [squared(p, row, nothing) for row in found.rows]
    assert found.mmd2 == pytest.approx(wanted, abs=1e-13)
    sizes = [conditional(p, row)[1] for row in found.rows]
    assert found.probabilities == pytest.approx(sizes, abs=1e-14)


def test_groups_of_other_variables_are_compared_without_both():
    p = circuit(1)
    found = ek.group_discrepancies(p, ["a", ("b", "c"), "e"], K)
    wanted = [[squared(p, a, b) for b in found.rows] for a in found.rows]
    assert found.between == pytest.approx(np.array(wanted), abs=1e-13)


def test_sums_of_products_lose_the_factors_in_every_term():
    p = circuit(2)
    found = ek.group_discrepancies(p, ["a"], 2.0 * K + ek.Delta())
    parts = [ek.group_discrepancies(p, ["a"], k).mmd2 for k in (K, ek.Delta())]
    assert found.mmd2 == pytest.approx(2.0 * parts[0] + parts[1])


def test_rows_mappings_and_frames_say_the_same():
    p = circuit()
    rows = np.full((2, 5), np.nan)
    rows[0, 1], rows[1, [0, 3]] = 2, (1, 3)
    one = ek.group_discrepancies(p, rows, K)
    two = ek.group_discrepancies(p, [{"b": 2}, {"a": 1, "d": 3}], K)
    three = ek.group_discrepancies(p, pd.DataFrame(rows, columns=NAMES), K)
    assert one.groups == two.groups == three.groups == ["b = 2", "a = 1, d = 3"]
    assert one.mmd2.tolist() == two.mmd2.tolist() == three.mmd2.tolist()


def test_real_variables_may_be_there_but_not_make_groups():
    tables = [ek.Categorical(0, [0.2, 0.8]), ek.Categorical(0, [0.7, 0.3])]
    normals = [ek.Gaussian(1, 0.0, 1.0), ek.Gaussian(1, 2.0, 1.0)]
    parts = [ek.Product([t, n]) for t, n in zip(tables, normals, strict=True)]
    p = ek.Circuit.from_units(ek.Sum(parts, [0.5, 0.5]))
    found = ek.group_discrepancies(p, 1, ek.RBF(0.3))
    for state in (0, 1):
        wanted = ek.mmd2(p.condition({0: state}), p, ek.RBF([0.0, 0.3]))
        assert found.mmd2[state] == pytest.approx(wanted, abs=1e-14)
    with pytest.raises(ek.DataError, match=r"made by states, and variable 1 is real"):
        ek.group_discrepancies(p, [[np.nan, 1.0]])


def test_impossible_combinations_are_left_out_and_small_ones_on_request():
    p = ek.factorized([[0.5, 0.5, 0.0], [0.05, 0.95]])
    assert ek.group_discrepancies(p, 1).groups == ["0 = 0", "0 = 1", "1 = 0", "1 = 1"]
    assert ek.group_discrepancies(p, 1, min_probability=0.1).groups == ["0 = 0", "0 = 1", "1 = 1"]
    with pytest.raises(ek.EvidenceError, match=r"Group 1, 0 = 2, has probability zero"):
        ek.group_discrepancies(p, [[0, np.nan], [2, np.nan]])
    with pytest.raises(ek.DataError, match=r"no groups of at least this probability"):
        ek.group_discrepancies(p, 1, min_probability=0.99)


def test_what_is_printed_shown_and_drawn():
    plt = pytest.importorskip("matplotlib.pyplot")
    found = ek.group_discrepancies(circuit(), 2, K)
    top = found.frame().index[0]
    assert f"The furthest from the population is {top}: discrepancy" in str(found)
    assert (np.diff(found.frame()["mmd"]) <= 0).all()
    assert top in [text.get_text() for text in found.plot().texts]
    plt.close("all")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (0, r"made by 1 to 5 discrete variables. Got 0"),
        (6, r"made by 1 to 5 discrete variables. Got 6"),
        ([[np.nan] * 5], r"Group 0 says nothing, so it is the population"),
        ([[0, 1]], r"Got an array of shape \(1, 2\) for 5 variables"),
        ([], r"Groups are rows of evidence"),
    ],
)
def test_other_groups_are_refused(groups, message):
    with pytest.raises(ek.DataError, match=message):
        ek.group_discrepancies(circuit(), groups)
    with pytest.raises(ek.CircuitError, match="zz"):
        ek.group_discrepancies(circuit(), ["zz"])
