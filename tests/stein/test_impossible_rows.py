"""Errors about samples name their rows in the table that was given."""

import numpy as np
import pytest

import expectedkernels as ek

NAN = np.nan
EQUAL = ek.FactorGraph(
    [2, 2, 2, 2],
    [((0, 1), np.eye(2)), ((2, 3), [[1.0, 2.0], [3.0, 4.0]]), ((1, 2), [[1.0, 2.0], [3.0, 4.0]])],
)
"""The first two variables are equal."""
CIRCUIT = EQUAL.circuit()
FUNCTION = ek.Target(EQUAL.log_score, [2] * 4)
GOOD = np.array(
    [[*x] for x in ["1111", "1100", "0011", "1111", "0001", "1100", "1110", "0000"]], dtype=float
)
"""Sorted and without repeats, the rows have other places than here."""
MANY = np.tile(GOOD, (5, 1))
BAD, GAP, MANY_BAD, MANY_GAP = GOOD.copy(), GOOD.copy(), MANY.copy(), MANY.copy()
BAD[6] = MANY_BAD[36] = [0, 1, 0, 0]
GAP[6, 3] = MANY_GAP[36, 3] = NAN
OPEN = BAD.copy()
OPEN[:, 3] = NAN
HALF_OPEN = BAD.copy()
HALF_OPEN[:, 2:] = NAN
IGNORED = np.r_[0.0, np.full(7, 1 / 7)]
"""Weights that leave the first row out."""

CALLS = {
    "bbis": lambda: ek.bbis(EQUAL, BAD, weights="raw", operator="gibbs", zeros="raise"),
    "bbis of a circuit": lambda: ek.bbis(CIRCUIT, BAD),
    "bbis of a function": lambda: ek.bbis(FUNCTION, BAD),
    "bbis with a weight of zero": lambda: ek.bbis(CIRCUIT, ek.Empirical(BAD, IGNORED)),
    "bbis with a missing value": lambda: ek.bbis(EQUAL, ek.Empirical(GAP, IGNORED)),
    "collapsed_bbis": lambda: ek.collapsed_bbis(CIRCUIT, OPEN),
    "extended": lambda: ek.bbis(CIRCUIT, GOOD).extended(BAD),
    "extended, collapsed": lambda: ek.collapsed_bbis(CIRCUIT, GOOD, [3]).extended(OPEN),
    "stein_thin": lambda: ek.stein_thin(EQUAL, BAD, 3),
    "stein_thin, collapsed": lambda: ek.stein_thin(EQUAL, OPEN, 3),
    "stein_thin with a weight of zero": lambda: ek.stein_thin(EQUAL, ek.Empirical(BAD, IGNORED), 3),
    "kdsd": lambda: ek.kdsd(BAD, EQUAL, operator="gibbs"),
    "kdsd, shifts": lambda: ek.kdsd(BAD, CIRCUIT, zeros="restrict"),
    "kdsd with a weight of zero": lambda: ek.kdsd(
        ek.Empirical(BAD, IGNORED), EQUAL, operator="gibbs"
    ),
    "kdsd with a missing value": lambda: ek.kdsd(GAP, EQUAL),
    "kdsd_test": lambda: ek.kdsd_test(BAD, EQUAL, rng=0),
    "kdsd_test with signs": lambda: ek.kdsd_test(BAD, EQUAL, null="signs", rng=0),
    "SteinKernel": lambda: ek.SteinKernel(EQUAL, operator="gibbs")(BAD),
    "marginals of samples": lambda: ek.WeightedSamples(EQUAL, OPEN).marginals(),
    "expectations of samples": lambda: ek.WeightedSamples(EQUAL, OPEN).expect(lambda X: X[:, 3]),
    "expectations of pairs": lambda: ek.WeightedSamples(EQUAL, HALF_OPEN).expect(
        lambda X: X[:, 2] * X[:, 3]
    ),
    "expectations of circuits": lambda: ek.WeightedSamples(EQUAL, OPEN).expect(CIRCUIT),
    "mmd2 with a missing value": lambda: ek.mmd2(GAP, EQUAL),
    "mmd2 of points": lambda: ek.mmd2(ek.Empirical(GAP, IGNORED), GOOD, ek.ExpHamming()),
    "mmd2 of weighted points": lambda: ek.mmd2(ek.Empirical(GAP, IGNORED), EQUAL),
    "mmd2 of other states": lambda: ek.mmd2(
        ek.Empirical(np.where(np.isnan(GAP), 7, GAP), IGNORED), EQUAL
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
def test_errors_name_the_row_of_the_table_that_was_given(name):
    with pytest.raises(ek.CircuitError, match=r"row 6\b"):
        CALLS[name]()


@pytest.mark.parametrize("weights", [None, "default", np.r_[0.0, np.ones(39)]])
@pytest.mark.parametrize("rows", [MANY_BAD, MANY_GAP])
def test_partition_functions_name_the_row_of_the_table_that_was_given(weights, rows):
    for target in (EQUAL, CIRCUIT):
        with pytest.raises(ek.DataError, match=r"row 36\b"):
            ek.log_partition_estimate(target, rows, weights=weights, rng=0)


def test_partition_functions_look_at_both_halves_of_the_samples():
    rows = np.zeros((40, 2))
    rows[3] = [0, 1]  # the proposal is learned from this half
    equal = ek.FactorGraph([2, 2], [((0, 1), np.eye(2))])
    for target in (equal, equal.compile()[0]):
        with pytest.raises(ek.DataError, match=r"The sample in row 3 has probability zero"):
            ek.log_partition_estimate(target, rows, rng=0)
