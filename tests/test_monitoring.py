"""Drift between windows: the numbers are those of circuits fitted by hand, changes are found."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek


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


def test_the_discrepancy_is_that_of_circuits_fitted_on_the_pooled_tree():
    X, Y = chains(300, 0), chains(200, 1, flip=0.3)
    found = ek.drift(X, Y, n_permutations=3, rng=0)
    tree = ek.learn_chow_liu(np.concatenate([X, Y]))
    p, q = (ek.em(tree, Z, 1, pseudocount=1.0, progress=False) for Z in (X, Y))
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
    tree = ek.learn_chow_liu(every)
    for value in found.null:
        mask = rng.permutation(np.arange(100) < 60)
        p, q = (ek.em(tree, every[m], 1, pseudocount=1.0, progress=False) for m in (mask, ~mask))
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
    assert frame.index[0] == "size"
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
    p, q = (ek.em(pooled, Z, 100, pseudocount=1.0, tolerance=1e-6, progress=False) for Z in (X, Y))
    assert found.mmd2 == pytest.approx(ek.mmd2(p, q, ek.ExpHamming(0.5)), abs=1e-13)
    p, q = (ek.em(pooled, Z, 1, pseudocount=1.0, progress=False) for Z in (X, Y))
    assert found.statistic == pytest.approx(ek.mmd2(p, q, ek.ExpHamming(0.5)), abs=1e-13)
    # rows with gaps: the mean of the witness over what they could be
    row = int(np.argmax(np.isnan(X).sum(axis=1) == 1))
    gap = int(np.argmax(np.isnan(X[row])))
    filled = np.repeat(X[row : row + 1], 2, axis=0)
    filled[:, gap] = [0, 1]
    chance = np.exp(pooled.log_likelihood(filled))
    values = ek.witness(found.before, found.after, ek.ExpHamming(0.5), filled)
    assert found.witness[0][row] == pytest.approx(chance @ values / chance.sum(), abs=1e-13)


def test_without_permutations_there_is_no_p_value():
    found = ek.drift(chains(30, 0), chains(30, 1), ek.RBF(0.3), n_permutations=0)
    assert found.p_value is None
    assert str(found).startswith("The windows are ")
    assert found.kernel.gamma == 0.3


def test_equal_windows():
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


def test_pictures():
    plt = pytest.importorskip("matplotlib.pyplot")
    found = ek.drift(*frames(), n_permutations=9, rng=0)
    assert found.plot().get_yticklabels()[0].get_text() == "size"
    assert ek.monitoring.monitor([chains(20, 0), chains(20, 1)]).plot().images
    plt.close("all")


X = chains(20, 0)


def compared(*windows, **options):
    return lambda: ek.drift(*windows, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (compared(X, X, n_permutations=-1), r"'n_permutations' parameter of drift must be an int"),
        (compared(X, X, n_bins=1), r"'n_bins' .* of drift must be an int in the range \[2, inf\)"),
        (compared(X, X, pseudocount=-1.0), r"'pseudocount' parameter of drift must be a float"),
        (compared(X, X, "rbf"), r"such as ExpHamming\(0.5\). Got str"),
        (lambda: ek.monitoring.monitor([X]), "list of at least two windows .* Got list of 1"),
        (lambda: ek.monitoring.monitor(X), "at least two windows of rows. Got ndarray"),
        (compared(X, X[:, :3]), r"Window 2 must have one column per variable, 5 in all. Got 3"),
        (compared(X, X[:1]), r"at least two rows. Window 2 has 1"),
        (compared(X, X[0]), r"Window 2 has shape \(5,\)"),
        (compared(X * np.nan, X * np.nan), r"Column '0' has no value in any window"),
        (compared(X[:, :1], np.full((5, 1), np.inf)), r"Column '0' has infinite values"),
        (
            compared(np.array([[f"id {i}"] for i in range(101)]), np.array([["a"]] * 2)),
            r"Column '0' has 102 different labels.*leave it out",
        ),
        (
            compared(pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]})),
            r"Window 2 lacks columns that the model has: 'a'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises((ek.DataError, ek.KernelError), match=message):
        call()


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
