"""Drift between windows, and its parts by variables and groups, against sums over states."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_raises, refusals
from circuit_oracles import real_mixture
from network_oracles import shapley
from oracles import worlds
from stein_oracles import conditionals_given


def chains(n, seed, flip=0.15, columns=5):
    """Rows of a chain of binary variables, each mostly like the one before."""
    rng = np.random.default_rng(seed)
    flips = rng.random((n, columns)) < flip
    flips[:, 0] = rng.random(n) < 0.5
    return np.cumsum(flips, axis=1) % 2


def broken(X, column, seed):
    """The rows with one column permuted: its marginal stays, its dependencies go."""
    Y = X.copy()
    Y[:, column] = np.random.default_rng(seed).permutation(Y[:, column])
    return Y


def fits(*windows, iterations=1):
    """Circuits fitted to windows on the tree of all their rows."""
    tree = ek.learn_chow_liu(np.concatenate(windows))
    options = {"pseudocount": 1.0, "tolerance": 1e-6, "progress": False}
    return [ek.em(tree, rows, iterations, **options) for rows in windows]


def test_the_discrepancy_is_that_of_circuits_fitted_on_the_pooled_tree():
    X, Y = chains(300, 0), chains(200, 1, flip=0.3)
    found = ek.drift(X, Y, n_permutations=3, rng=0)
    p, q = fits(X, Y)
    assert found.mmd2 == pytest.approx(ek.mmd2(p, q, ek.ExpHamming(0.5)), abs=1e-14)
    assert found.statistic == pytest.approx(found.mmd2, abs=1e-14)
    assert found.mmd == pytest.approx(np.sqrt(found.mmd2))
    assert found.ignoring == pytest.approx(ek.monitoring.ignoring(p, q, ek.ExpHamming(0.5)))
    assert found.shapley.sum() == pytest.approx(found.mmd2, abs=1e-12)
    every = np.concatenate([X, Y])
    witness = ek.witness(p, q, ek.ExpHamming(0.5), every)
    assert np.concatenate(found.witness) == pytest.approx(witness, abs=1e-13)
    gone, come = found.typical_rows(4)
    assert found.witness[0][gone] == pytest.approx(np.sort(witness[:300])[::-1][:4])
    assert found.witness[1][come] == pytest.approx(np.sort(witness[300:])[:4])


def test_permutations_are_refitted():
    X, Y = chains(60, 0), chains(40, 1)
    found = ek.drift(X, Y, n_permutations=4, rng=5)
    every, rng = np.concatenate([X, Y]), np.random.default_rng(5)
    for value in found.null:
        mask = rng.permutation(np.arange(100) < 60)
        p, q = fits(every[mask], every[~mask])
        assert value == pytest.approx(ek.mmd2(p, q, ek.ExpHamming(0.5)), abs=1e-14)
    assert found.p_value == (1 + (found.null >= found.mmd2).sum()) / 5


def test_a_changed_dependence_is_found_where_no_marginal_changed():
    X = chains(1000, 0)
    Y = broken(chains(1000, 1), 2, 2)
    found = ek.drift(X, Y, n_permutations=39, rng=0)
    assert found.p_value == 1 / 40
    assert found.ignoring.argmax() == 2


def test_equal_sources_are_not_told_apart():
    p_values = [
        ek.drift(chains(80, i), chains(80, i + 50), n_permutations=9, rng=i).p_value
        for i in range(10)
    ]
    assert 0.2 < np.mean(p_values) < 0.8


def frames():
    rng = np.random.default_rng(0)
    n = 400
    kind = rng.choice(["a", "b", "c"], size=(2, n))
    size = rng.normal(size=(2, n)) + (kind == "a") + [[0.0], [1.0]]
    ok = rng.random((2, n)) < 0.5
    parts = [{"kind": kind[i], "size": size[i], "ok": ok[i]} for i in (0, 1)]
    parts[0]["size"][:20] = np.nan
    return pd.DataFrame(parts[0]), pd.DataFrame(parts[1])[["ok", "size", "kind"]]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_matched_by_name_and_may_have_text_gaps_and_real_columns(library):
    X, Y = frames()
    if library == "polars":
        X, Y = (pl.DataFrame({c: Z[c].tolist() for c in Z.columns}) for Z in (X, Y))
    found = ek.drift(X, Y, n_permutations=19, rng=0)
    assert found.names == ("kind", "size", "ok")
    assert found.p_value == 0.05
    assert found.names[found.ignoring.argmax()] == "size"
    assert found.before.states[0] == ("a", "b", "c")
    assert found.before.cardinalities == (3, 8, 2)
    assert found.before.states[1][0].startswith("below ")
    frame = found.frame()
    assert found.plot().get_yticklabels()[0].get_text() == frame.index[0] == "size"
    assert frame.loc["size", "missing_before"] == 0.05
    assert frame["shapley"].sum() == pytest.approx(found.mmd2, abs=1e-12)
    assert re.match(
        r"The windows differ at 5 %: p = 0.05, discrepancy [\d.]+ \(400 and 400 rows, "
        r"ExpHamming\(gamma=0.5\), 19 permutations of rows, fitted again\). The largest part "
        r"is that of 'size': without it, \d+% of the squared discrepancy is left.",
        str(found),
    )


def test_missing_values_are_fitted_by_em():
    rng = np.random.default_rng(3)
    X, Y = (
        np.where(rng.random((150, 4)) < 0.2, np.nan, chains(150, i, 0.1 + 0.3 * i, 4))
        for i in (0, 1)
    )
    found = ek.drift(X, Y, n_permutations=9, rng=0)
    pooled = ek.learn_chow_liu(np.concatenate([X, Y]))
    for value, iterations in ((found.mmd2, 100), (found.statistic, 1)):
        wanted = ek.mmd2(*fits(X, Y, iterations=iterations), ek.ExpHamming(0.5))
        assert value == pytest.approx(wanted, abs=1e-13)
    # rows with gaps: the mean of the witness over what they could be
    row = int(np.argmax(np.isnan(X).sum(axis=1) == 1))
    gap = int(np.argmax(np.isnan(X[row])))
    filled = np.repeat(X[row : row + 1], 2, axis=0)
    filled[:, gap] = [0, 1]
    chance = np.exp(pooled.log_likelihood(filled))
    values = ek.witness(found.before, found.after, ek.ExpHamming(0.5), filled)
    assert found.witness[0][row] == pytest.approx(chance @ values / chance.sum(), abs=1e-13)


def test_equal_windows_and_no_permutations():
    found = ek.drift(chains(30, 0), chains(30, 1), ek.RBF(0.3), n_permutations=0)
    assert (found.p_value, found.kernel.gamma) == (None, 0.3)
    assert str(found).startswith("The windows are ")
    X = chains(50, 0)
    found = ek.drift(X, X, n_permutations=9, rng=0)
    assert found.mmd2 == pytest.approx(0.0, abs=1e-15)
    assert found.p_value == 1.0
    assert "do not differ" in str(found)
    assert "largest part" not in str(found)


def test_columns_that_never_vary_are_no_obstacle():
    X = np.column_stack([chains(50, 0), np.full(50, 7.0)])
    found = ek.drift(X, X[:25], n_permutations=0)
    assert found.before.states[-1] == (7, "another value")
    assert found.ignoring[-1] == pytest.approx(0.0, abs=1e-3)


def test_many_windows_are_one_gram_matrix():
    rows = [chains(100, i, 0.1 + 0.2 * (i > 2)) for i in range(5)]
    found = ek.monitoring.monitor(rows)
    for i in range(5):
        for j in range(5):
            p, q = found.circuits[i], found.circuits[j]
            assert found.mmd2[i, j] == pytest.approx(ek.mmd2(p, q, ek.ExpHamming(0.5)), abs=1e-13)
    assert found.steps == pytest.approx([found.mmd[i, i + 1] for i in range(4)])
    assert found.frame()["from_first"].tolist() == found.mmd[0].tolist()
    assert "is from window 3 to 4" in str(found)
    assert found.plot().images


X = chains(20, 0)


def compared(*windows, **options):
    return lambda: ek.drift(*windows, **options)


test_what_does_not_fit_is_refused = refusals((ek.DataError, ek.KernelError), [
    (compared(X, X, n_permutations=-1), r"'n_permutations' parameter of drift must be an int"),
    (compared(X, X, n_bins=1), r"'n_bins' .* of drift must be an int in the range \[2, inf\)"),
    (compared(X, X, pseudocount=-1.0), r"'pseudocount' parameter of drift must be a float"),
    (compared(X, X, "rbf"), r"such as ExpHamming\(0.5\). Got str"),
    (lambda: ek.monitoring.monitor([X]), r"list of at least two windows .* Got \[array"),
    (lambda: ek.monitoring.monitor(X), "at least two windows of rows. Got array"),
    (compared(X, X[:, :3]), r"Window 2 must have one column per variable, 5 in all. Got 3"),
    (compared(X, X[:1]), r"at least two rows. Window 2 has 1"),
    (compared(X, X[0]), r"Window 2 has shape \(5,\)"),
    (compared(X * np.nan, X * np.nan), r"Column '0' has no value in any row"),
    (compared(np.arange(40.0)[:, None], np.full((5, 1), np.inf)),
     r"Column '0' has infinite values"),
    (compared(np.array([[f"id {i}"] for i in range(101)]), np.array([["a"]] * 2)),
     r"Column '0' has 102 different labels.*leave it out"),
    (compared(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]})),
     r"Window 2 lacks columns that the model has: 'a'"),
])  # fmt: skip


def test_masked_entries_are_missing():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (2, 80, 3))
    mask = rng.random(rows.shape) < 0.2
    windows = [np.ma.masked_array(np.where(m, 99, x), m) for x, m in zip(rows, mask, strict=True)]
    incomplete = [np.where(m, np.nan, x) for x, m in zip(rows, mask, strict=True)]
    found, wanted = (ek.drift(*pair, n_permutations=0) for pair in (windows, incomplete))
    np.testing.assert_allclose(found.mmd2, wanted.mmd2)
    assert found.before.cardinalities == (3, 3, 3)
    several = ek.monitoring.monitor([*windows, rows[0]]).mmd2
    np.testing.assert_allclose(several, ek.monitoring.monitor([*incomplete, rows[0]]).mmd2)


CARDS = [2, 3, 2, 4, 2]
NAMES = ["a", "b", "c", "d", "e"]
STATES = worlds(CARDS)


def circuit(seed=0):
    p = ek.random_circuit(ek.Vtree.random(5, rng=seed), 3, rng=seed, cardinalities=CARDS)
    return ek.Circuit(p.vtree, p.blocks, NAMES, None)


def conditional(p, row):
    chances = np.exp(p.log_likelihood(STATES))
    known = ~np.isnan(row)
    total = chances[(STATES[:, known] == row[known]).all(axis=1)].sum()
    return conditionals_given(row[None], chances, CARDS)[0], total


TABLES = [np.eye(n) + 0.2 * np.arange(n)[:, None] * np.arange(n) for n in CARDS]


def values_on(kernel, chosen):
    """The values of a kernel, without other factors, at all pairs of states of some variables."""
    if hasattr(kernel, "weights"):
        terms = zip(kernel.weights, kernel.kernels, strict=True)
        return sum(weight * values_on(k, chosen) for weight, k in terms)
    values = np.ones((len(STATES), len(STATES)))
    for i in chosen:
        only = STATES[:, [i]].astype(int)
        own = TABLES[i] if isinstance(kernel, ek.TableKernel) else kernel(np.arange(4.0)[:, None])
        values *= own[only, only.T]
    return values


def squared(p, row, other, kernel):
    """The squared discrepancy of two groups, the kernel ignoring what both are made by."""
    d = conditional(p, row)[0] - conditional(p, other)[0]
    return d @ values_on(kernel, np.flatnonzero(np.isnan(row) & np.isnan(other))) @ d


K = ek.ExpHamming(0.6)


@pytest.mark.parametrize("kernel", [K, 2.0 * K + ek.Delta()], ids=repr)
@pytest.mark.parametrize("groups", [1, 2, 5, ["b", "d"], [("a", "c"), ("d",)]], ids=repr)
def test_all_groups_are_those_of_sums_over_states(groups, kernel):
    p = circuit()
    found = ek.group_discrepancies(p, groups, kernel)
    nothing = np.full(5, np.nan)
    wanted = [squared(p, row, nothing, kernel) for row in found.rows]
    assert found.mmd2 == pytest.approx(wanted, abs=1e-13)
    sizes = [conditional(p, row)[1] for row in found.rows]
    assert found.probabilities == pytest.approx(sizes, abs=1e-14)
    few = slice(None, None, 1 + len(sizes) // 20)
    wanted = [[squared(p, a, b, kernel) for b in found.rows[few]] for a in found.rows[few]]
    assert found.between[few, few] == pytest.approx(np.array(wanted), abs=1e-13)


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
    p = real_mixture(0).normalize()
    found = ek.group_discrepancies(p, 1, ek.RBF(0.3))
    for state in range(3):
        wanted = ek.mmd2(p.condition({1: state}), p, ek.RBF([0.3, 0.0, 0.3]))
        assert found.mmd2[state] == pytest.approx(wanted, abs=1e-14)
    with pytest.raises(ek.DataError, match=r"made by states, and variable 0 is real"):
        ek.group_discrepancies(p, [[1.0, np.nan, np.nan]])


def test_impossible_combinations_are_left_out_and_small_ones_on_request():
    p = ek.factorized([[0.5, 0.5, 0.0], [0.05, 0.95]])
    assert ek.group_discrepancies(p, 1).groups == ["0 = 0", "0 = 1", "1 = 0", "1 = 1"]
    assert ek.group_discrepancies(p, 1, min_probability=0.1).groups == ["0 = 0", "0 = 1", "1 = 1"]
    with pytest.raises(ek.EvidenceError, match=r"Group 1, 0 = 2, has probability zero"):
        ek.group_discrepancies(p, [[0, np.nan], [2, np.nan]])
    with pytest.raises(ek.DataError, match=r"no groups of at least this probability"):
        ek.group_discrepancies(p, 1, min_probability=0.99)


def test_what_is_printed_shown_and_drawn():
    found = ek.group_discrepancies(circuit(), 2, K)
    top = found.frame().index[0]
    assert f"The furthest from the population is {top}: discrepancy" in str(found)
    assert (np.diff(found.frame()["mmd"]) <= 0).all()
    assert top in [text.get_text() for text in found.plot().texts]


@pytest.mark.parametrize(("groups", "message"), [
    (0, r"made by 1 to 5 discrete variables. Got 0"),
    (6, r"made by 1 to 5 discrete variables. Got 6"),
    ([[np.nan] * 5], r"Group 0 says nothing, so it is the population"),
    ([[0, 1]], r"Got an array of shape \(1, 2\) for 5 variables"),
    ([], r"Groups are rows of evidence"),
])  # fmt: skip
def test_other_groups_are_refused(groups, message):
    assert_raises(ek.DataError, message, ek.group_discrepancies, circuit(), groups)
    assert_raises(ek.CircuitError, "zz", ek.group_discrepancies, circuit(), ["zz"])


KERNELS = [ek.ExpHamming(0.7), ek.RBF(0.4), ek.TableKernel(TABLES), 2.0 * ek.Delta() + ek.RBF(0.1)]


def two_circuits(seed):
    vtree = ek.Vtree.random(5, rng=seed)
    p = ek.random_circuit(vtree, 3, rng=seed, cardinalities=CARDS)
    return p, ek.random_circuit(vtree, 2, rng=seed + 100, cardinalities=CARDS)


def worth(kernel, p, q, chosen):
    """The squared discrepancy of the marginals of some variables, over all pairs of states."""
    d = np.exp(p.log_likelihood(STATES)) - np.exp(q.log_likelihood(STATES))
    return d @ values_on(kernel, chosen) @ d


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_parts_are_those_of_the_marginals_of_all_sets_of_variables(seed, kernel):
    p, q = two_circuits(seed)
    every, total = set(range(5)), worth(kernel, p, q, range(5))
    for function, wanted in (
        (ek.monitoring.ignoring, [total - worth(kernel, p, q, every - {i}) for i in every]),
        (ek.monitoring.univariate, [worth(kernel, p, q, {i}) for i in every]),
        (
            ek.monitoring.shapley_account,
            [*shapley(lambda s: worth(kernel, p, q, s), range(5)).values()],
        ),
    ):
        assert function(p, q, kernel) == pytest.approx(np.array(wanted), abs=1e-13)
    assert sum(wanted) == pytest.approx(total, abs=1e-12)
    assert total == pytest.approx(ek.mmd2(p, q, kernel), abs=1e-12)


@pytest.mark.parametrize("vtree", [ek.Vtree.right_linear(90), ek.Vtree.balanced(90)])
def test_many_variables_are_changed_in_groups(vtree):
    p, q = (ek.random_circuit(vtree, 2, rng=i) for i in (0, 1))
    values = ek.monitoring.ignoring(p, q, ek.ExpHamming(0.1))
    for i in (0, 63, 64, 89):
        rates = np.where(np.arange(90) == i, 0.0, 0.1)
        less = ek.mmd2(p, q, ek.ExpHamming(0.1)) - ek.mmd2(p, q, ek.ExpHamming(rates))
        assert values[i] == pytest.approx(less, abs=1e-14)


def test_real_variables_can_be_ignored_but_not_shared_among():
    p = ek.gaussian_mixture([1.0], [[0.0, 0.0]], [[1.0, 1.0]])
    q = ek.gaussian_mixture([1.0], [[0.0, 1.0]], [[1.0, 1.0]])
    values = ek.monitoring.ignoring(p, q, ek.RBF(0.5))
    wanted = [ek.mmd2(p, q, ek.RBF(0.5)) - ek.mmd2(p, q, ek.RBF(g)) for g in ([0, 0.5], [0.5, 0])]
    assert values == pytest.approx(wanted)
    with pytest.raises(ek.KernelError, match=r"need discrete variables. Variable 0 is real"):
        ek.monitoring.shapley_account(p, q, ek.RBF(0.5))


def test_circuits_and_kernels_that_do_not_fit_are_refused():
    p = ek.random_circuit(ek.Vtree.balanced(4), 2, rng=0)
    with pytest.raises(ek.CompatibilityError, match="compatible"):
        ek.monitoring.ignoring(p, ek.random_circuit(ek.Vtree.right_linear(4), 2, rng=0))
    with pytest.raises(ek.PropertyError, match="sum"):
        ek.monitoring.ignoring(p, ek.factorized([[1.0, 1.0]] * 4, normalized=False))
    inputs = [[ek.kernels.kernel_input(v, x) for v in range(2)] for x in (np.eye(2), [[1, 1]] * 2)]
    both = ek.Sum([ek.Product(units) for units in inputs], [0.5, 0.5])
    k = ek.KernelCircuit(ek.Product([both, ek.kernels.kernel_input(2, np.eye(2))]))
    p = ek.random_circuit(ek.Vtree.from_nested(((0, 1), 2)), 2, rng=0)
    assert_raises(ek.KernelError, r"a product over the variables", ek.monitoring.ignoring, p, p, k)
