"""Files of models: .bif, .uai and .evid."""

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import expectedkernels as ek
from assertions import assert_raises
from factor_graphs import factor_graphs
from networks import ALARM
from strategies import rngs

SMALL = """
// a comment { with marks
network "small net" { property "author = (someone; else)" ; property version 2 ; }
variable rain {  /* states of
                    the sky */
  type discrete [ 2 ] { yes, no };
  property "position = (73, 165)" ;
}
variable "wet grass" { property x = (1, 2); type discrete[3] {<7.5, "7.5 - 12" >=12} ; }
variable 3rd { type discrete [ 2 ] { Asy/Patch, Transp. }; }
probability ( rain ) { table 0.2, 0.8; }
probability ( "wet grass" | rain ) {
  (yes) 0.1, 0.2, 0.7; // wet
  property "x" ;
  (no) 5e-1 0.25 .25 ;
}
probability ( 3rd | "wet grass", rain ) {
  ("7.5 - 12", no) 0.4, 0.6;
  default 0.5, 0.5;
  (<7.5, yes) 1, 0;
}
"""


def test_small_bif_file(write):
    network = ek.read_bif(write("a.bif", [SMALL]))
    assert network.names == ["rain", "wet grass", "3rd"]
    assert network.states == [["yes", "no"], ["<7.5", "7.5 - 12", ">=12"], ["Asy/Patch", "Transp."]]
    assert network.parents == ((), (0,), (1, 0))
    assert network.cpts[0].tolist() == [0.2, 0.8]
    assert network.cpts[1].tolist() == [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]
    half = [0.5, 0.5]
    assert network.cpts[2].tolist() == [[[1.0, 0.0], half], [half, [0.4, 0.6]], [half, half]]


def test_tables_start_with_the_variable_itself(write):
    text = """
    variable a { type discrete [2] { t, f }; } variable b { type discrete [3] { x, y, z }; }
    variable c { type discrete [2] { t, f }; }
    probability ( c | a, b ) { table 0.1 0.2 0.3 0.4 0.5 0.6   0.9 0.8 0.7 0.6 0.5 0.4; }
    probability ( a ) { table 0.5, 0.5; } probability ( b a ) { table .1 .2 .3 .4 .6 .4; }
    """
    network = ek.read_bif(write("a.bif", [text]))
    assert network.parents == ((), (0,), (0, 1))
    assert network.cpts[2][:, :, 0].tolist() == [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]
    assert network.cpts[1].tolist() == [[0.1, 0.3, 0.6], [0.2, 0.4, 0.4]]


def random_network(rng, n):
    """A network with strange names and few parents."""
    cards = rng.integers(1, 4, size=n)
    parents = [rng.permutation(v)[: rng.integers(0, 3)].tolist() for v in range(n)]
    cpts = [rng.dirichlet(np.ones(cards[v]), [cards[p] for p in parents[v]]) for v in range(n)]
    words = ["a b", "x//y", "{", "plain", "-1", "1.5", "|", "(0,1)", "'", "/*", "table", ""]
    names = [f"{words[rng.integers(len(words))]}_{v}" for v in range(n)]
    states = [[f"{words[rng.integers(len(words))]}{k}" for k in range(card)] for card in cards]
    return ek.BayesianNetwork(parents, cpts, names, states)


@given(rngs, st.integers(1, 6), st.sampled_from(["random.bif", "random.bif.gz"]))
def test_round_trip_of_bif_files(scratch, rng, n, name):
    network = random_network(rng, n)
    ek.io.write_bif(network, scratch / name)
    again = ek.read_bif(scratch / name)
    assert again.names == network.names
    assert again.states == network.states
    assert again.parents == network.parents
    for a, b in zip(again.cpts, network.cpts, strict=True):
        np.testing.assert_array_equal(a, b)


def test_networks_without_names_or_with_some_labels(tmp_path):
    ek.io.write_bif(ek.BayesianNetwork([[], [0]], [[0.5, 0.5], np.eye(2)]), tmp_path / "a.bif")
    again = ek.read_bif(tmp_path / "a.bif")
    assert again.names == ["x0", "x1"]
    assert again.states == [["0", "1"]] * 2
    numbered = ek.BayesianNetwork([[]], [[0.2, 0.8]], names=["dose"], states=[[10, 20]])
    ek.io.write_bif(numbered, tmp_path / "a.bif")
    assert ek.read_bif(tmp_path / "a.bif").states == [["10", "20"]]
    tables = [[0.2, 0.8], [[0.1, 0.9], [0.6, 0.4]]]
    network = ek.BayesianNetwork([[], [0]], tables, ["dose", "ill"], [None, ["no", "yes"]])
    ek.io.write_bif(network, tmp_path / "a.bif")
    again = ek.read_bif(tmp_path / "a.bif")
    assert again.states == [["0", "1"], ["no", "yes"]]
    assert again.marginals({"dose": 1})["ill"].tolist() == [0.6, 0.4]


def test_alarm(gum, tmp_path):
    rows = [row.split() for row in ALARM.split(";")]
    states = {name: n for name, n, *_ in rows}
    arcs = [f"{p}[{states[p]}]->{name}[{n}]" for name, n, *above in rows for p in above]
    network = gum.fastBN(";".join(arcs))
    assert (network.size(), network.sizeArcs()) == (37, 46)
    gum.initRandom(2)
    network.generateCPTs()
    gum.saveBN(network, str(tmp_path / "alarm.bif"))
    model = ek.read_bif(tmp_path / "alarm.bif")
    assert sorted(model.names) == sorted(network.names())
    circuit, log_z = model.compile()
    np.testing.assert_allclose(log_z, 0.0, atol=1e-10)
    engine = gum.LazyPropagation(network)
    for evidence in ({}, dict.fromkeys(model.names[::9], 0)):
        engine.setEvidence(evidence)
        engine.makeInference()
        for name, table in zip(model.names, circuit.marginals(evidence), strict=True):
            wanted = engine.posterior(name).tolist()
            np.testing.assert_allclose(table, wanted, rtol=0, atol=1e-10)


A = "variable a { type discrete [ 2 ] { t, f }; }\n"
B = "variable b { type discrete [ 2 ] { t, f }; }\n"
PA = "probability ( a ) { table 0.5, 0.5; }\n"
GIVEN = A + B + PA + "probability ( b | a ) "
P = A + "probability ( a "
CYCLE = "probability ( a | b ) { default 1 0; } probability ( b | a ) { default 1 0; }"


@pytest.mark.parametrize(("text", "line", "message"), [
    ("", None, "expected the declaration of at least one variable, found none"),
    ("hello", 1, "'network', 'variable', .* or the end of the file, found 'hello'"),
    ("network x {", 2, "expected '}', found the end of the file"),
    ("\n/* never closed", 2, "a comment is not closed"),
    ('network "x\n{ }', 1, "a quoted name is not closed"),
    ("variable { }", 1, "expected a name, found '{'"),
    ("variable a { kind discrete }", 1, "'type', 'property' or '}', found 'kind'"),
    ("variable a { }", 1, "variable 'a' has no type"),
    ("variable a {\ntype discrete [ 3 ] { x, y }; }", 2, "expected '3' different .* 'x, y'"),
    ("variable a { type discrete [ 0 ] { }; }", 1, "expected '0' different states"),
    ("variable a { type discrete [ 2 ] { x, x }; }", 1, "expected '2' different states"),
    (A + A, 2, "variable 'a' is declared twice"),
    (A, 1, "variable 'a' has no probabilities"),
    (P + ") {\n table 0.5, 0.", 4, "expected a number or ';', found the end"),
    (GIVEN + "{ (t) 1 0;\n(f", 6, r"expected a name or '\)', found the end of the file"),
    (A + PA + PA, 3, "variable 'a' has probabilities twice"),
    (P + "| c ) { table 1 0; }", 2, "of 'a', 'c' is not declared"),
    (P + "| a ) { table 1 0; }", 2, "'a' is named twice"),
    (P + ") { 0.5 0.5; }", 2, "expected .*'table'.* found '0.5'"),
    (P + ") { table 0.5 x; }", 2, "not negative, found 'x'"),
    (P + ") { table 1.5 -0.5; }", 2, "not negative, found '-0.5'"),
    (P + ") { table nan 1; }", 2, "not negative, found 'nan'"),
    (P + ") { table 1; }", 2, "expected 2 probabilities of 'a', found 1"),
    (P + ") {\ntable 0.5 0.4; }", 3, "sum to one, found a sum of 0.9"),
    (GIVEN + "{ (t) 1 0; }", 4, r"probabilities of 'b' given \(f\) .* found none"),
    (P + ") { table 1 0; table 0 1; }", 2, "the probabilities of 'a' are given twice"),
    (GIVEN + "{\n(t) 1 0;\n(t) 0 1; }", 6, r"of 'b' given \(t\) are given twice"),
    (GIVEN + "{ (t) 1 0;\n(x) 1 0; }", 5, r"states of {'a': \['t', 'f'\]}, found \(x\)"),
    (GIVEN + "{ (t, f) 1 0; }", 4, r"expected states of {'a': .*}, found \(t, f\)"),
    (A + B + CYCLE, None, "The arcs of a Bayesian network form no cycle"),
])  # fmt: skip
def test_broken_bif_files(write, text, line, message):
    with pytest.raises(ek.ParseError, match=message) as caught:
        ek.read_bif(write("a.bif", [text]))
    assert caught.value.line == line


def test_networks_that_cannot_be_written(tmp_path):
    for model, message in (
        (ek.FactorGraph([2], []), r"\.bif file does not hold a FactorGraph\. .* \.uai"),
        (ek.BayesianNetwork([[]], [[1.0]], ["é"]), r"are ASCII, without quotes and .* Got 'é'"),
    ):
        assert_raises(ek.CircuitError, message, ek.io.write_bif, model, tmp_path / "a.bif")


def same(a, b):
    assert a.cardinalities == b.cardinalities
    assert [f.scope for f in a.factors] == [f.scope for f in b.factors]
    for one, other in zip(a.factors, b.factors, strict=True):
        np.testing.assert_array_equal(one.table, other.table)


def test_small_uai_files(write):
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
def test_round_trip_of_uai_files(scratch, model, name):
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
def test_broken_uai_files(write, lines, line, message):
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
