import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import expectedkernels as ek
from assertions import assert_raises
from factor_graphs import factor_graphs


def same(a, b):
    assert a.cardinalities == b.cardinalities
    assert [f.scope for f in a.factors] == [f.scope for f in b.factors]
    for one, other in zip(a.factors, b.factors, strict=True):
        np.testing.assert_array_equal(one.table, other.table)


def test_small_files(write):
    lines = ["MARKOV", "3", "2 3 2", "2", "2 1 0", "1 2", "", "6", " 0.5 1 2", "3 4e0 .5", "2 1 0"]
    model = ek.read_uai(write("a.uai", lines))
    assert model.cardinalities == (2, 3, 2)
    assert [factor.scope for factor in model.factors] == [(1, 0), (2,)]
    assert model.factors[0].table.tolist() == [[0.5, 1.0], [2.0, 3.0], [4.0, 0.5]]
    assert model.names is None
    assert not isinstance(model, ek.BayesianNetwork)
    lines = ["BAYES", "2", "2 3", "2", "2 1 0", "1 1", "6", "0.1 0.9 0.2 0.8 0.3 0.7", "3 .2 .2 .6"]
    network = ek.read_uai(write("a.uai", lines))
    assert isinstance(network, ek.BayesianNetwork)
    assert network.parents == ((1,), ())
    assert network.cpts[0].tolist() == [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]


def test_white_space_is_free(write):
    text = "markov 2 2 2 1 2 0 1 4 1 2 3 4"
    wide = ek.read_uai(write("a.uai", ["", *text.split(), ""]))
    same(wide, ek.read_uai(write("b.uai", [text])))
    same(wide, ek.read_uai(write("c.uai", [text.replace("2 0 1", "2 0 1 # an edge\n")])))


def test_public_grid(data_dir):
    model = ek.read_uai(data_dir / "uai" / "ising_4x4.uai")
    assert model.cardinalities == (2,) * 16
    assert len(model.factors) == 24
    assert model.factors[0].table.tolist() == [[0.8773558, 0.24339577], [0.29175817, 0.11773018]]


@given(factor_graphs(), st.sampled_from(["model.uai", "model.uai.gz"]))
@example(ek.asia(), "model.uai")
def test_round_trip(scratch, model, name):
    ek.write_uai(model, scratch / name)
    again = ek.read_uai(scratch / name)
    same(again, model)
    assert type(again) is type(model)
    assert getattr(again, "parents", None) == getattr(model, "parents", None)


MARKOV = ["MARKOV", "2", "2 2", "1", "2 0 1"]
WIDE = ["MARKOV", "65", *["1"] * 65, "1", f"65 {' '.join(map(str, range(65)))}"]


@pytest.mark.parametrize(("lines", "line", "message"), [
    ([""], None, "expected 'MARKOV' or 'BAYES', found the end of the file"),
    (["GRID", "2"], 1, "expected 'MARKOV' or 'BAYES', found 'GRID'"),
    (["", "MARKOV", "x"], 3, "the number of variables must be an integer .* found 'x'"),
    (["MARKOV", "2", "2 0"], 3, "a number of states must be an integer in 1"),
    (["MARKOV", "2", "2"], 3, "expected a number of states, found the end of the file"),
    (["MARKOV", "1 2", "-1"], 3, "the number of factors must be an integer at least 0"),
    (["MARKOV", "2 2 2", "1", "3 0 1 1"], 4, "the size of a scope .* in 0..2, found '3'"),
    (["MARKOV", "2 2 2", "1", "2 0 2"], 4, "a variable must be an integer in 0..1"),
    (["MARKOV", "2 2 2", "1", "2 1 1"], 4, "a variable is repeated in the scope"),
    ([*MARKOV, "5 1 2 3 4 5"], 6, r"size of a table over \[2, 2\] states .* found '5'"),
    ([*MARKOV, "4 1 2 3"], 6, "expected an entry of a table, found the end"),
    ([*MARKOV, "4 1", "2 x 4"], 7, "a finite number at least 0, found 'x'"),
    ([*MARKOV, "4 1 2", "3 -4"], 7, "an entry of a table .* found '-4'"),
    ([*MARKOV, "4 1 2 nan 4"], 6, "an entry of a table .* found 'nan'"),
    ([*MARKOV, "4 1 2 3 4", "", "7"], 8, "expected the end of the file, found '7'"),
    (WIDE, 69, "the size of a scope must be an integer in 0..64, found '65'"),
    (["BAYES", "2 2 2", "2 1 0 1 0", "2 .5 .5", "2 .5 .5"], 1, "found 2 of 0. Write MARKOV"),
    (["BAYES", "1 2", "1 0", "1 1"], 1, "found one without variables. Write MARKOV"),
    (["BAYES", "2 2 2", "1 1 0", "2 .5 .5"], 1, "in a BAYES file .* found 0 of 1."),
    (["BAYES", "1 2 1 1 0", "2 .5 .6"], 1, "must sum to one .* Write MARKOV"),
])  # fmt: skip
def test_broken_files(write, lines, line, message):
    with pytest.raises(ek.ParseError, match=message) as caught:
        ek.read_uai(write("a.uai", lines))
    assert caught.value.line == line


@pytest.mark.parametrize(("lines", "expected"), [
    (["2 5 0 7 1"], [{5: 0, 7: 1}]),
    (["2", "5 0", "7 1"], [{5: 0, 7: 1}]),
    (["0"], [{}]),
    ([""], []),
    (["1", "2 5 0 7 1"], [{5: 0, 7: 1}]),
    (["2", "1 5 0", "2 5 1 7 1"], [{5: 0}, {5: 1, 7: 1}]),
    (["2", "1 3 0", "0"], [{3: 0}, {}]),
    (["1", "3 0"], [{3: 0}]),
    (["1 0"], [{}]),
])  # fmt: skip
def test_evidence(write, lines, expected):
    assert ek.read_uai_evidence(write("a.uai.evid", lines)) == expected


SETS = st.dictionaries(st.integers(0, 9), st.integers(0, 3), max_size=4)


@given(st.one_of(SETS, st.lists(SETS, min_size=1)))
def test_evidence_round_trip(scratch, evidence):
    ek.io.write_uai_evidence(evidence, scratch / "model.uai.evid")
    found = ek.read_uai_evidence(scratch / "model.uai.evid")
    assert found == (evidence if isinstance(evidence, list) else [evidence])


@pytest.mark.parametrize(("lines", "message"), [
    (["x"], r"line 1: the number of observations \(or of sets\) must be an integer"),
    (["2 1 0"], "line 1: expected a value, found the end of the file"),
    (["1", "2", "3 0 3 1"], "line 3: variable 3 is observed twice"),
    (["1 3 -1"], "line 1: a value must be an integer at least 0"),
    (["1 0", "3 4"], "line 2: expected the end of the file, found '3'"),
])  # fmt: skip
def test_broken_evidence(write, lines, message):
    assert_raises(ek.ParseError, message, ek.read_uai_evidence, write("a.uai.evid", lines))
