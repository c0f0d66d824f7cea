import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st

from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.compilation.datasets import asia
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.errors import CircuitError, ParseError
from expectedkernels.io import compile_file, read_model, read_xmlbif, write_xmlbif
from strategies import rngs

A = "<VARIABLE TYPE='nature'><NAME>a</NAME><OUTCOME>t</OUTCOME><OUTCOME>f</OUTCOME></VARIABLE>"
B = A.replace(">a<", ">b<")
PA = "<DEFINITION><FOR>a</FOR><TABLE>0.5 0.5</TABLE></DEFINITION>"
PB = "<DEFINITION><FOR>b</FOR><GIVEN>a</GIVEN><TABLE>1 0 0.25 .75</TABLE></DEFINITION>"
DTD = """<!DOCTYPE BIF [
<!ELEMENT BIF ( NETWORK )*>
<!ATTLIST BIF VERSION CDATA #REQUIRED>
<!ATTLIST VARIABLE TYPE (nature|decision|utility) "nature">
]>
"""


def _file(*lines, start=""):
    return [f"{start}<BIF VERSION='0.3'><NETWORK><NAME>n</NAME>", *lines, "</NETWORK></BIF>"]


@pytest.fixture(scope="module")
def gum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its binary part does not survive warnings as errors
        return pytest.importorskip("pyagrum", reason="pyagrum is not installed")


@pytest.fixture(scope="module")
def pgmpy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("pgmpy.readwrite", reason="pgmpy is not installed")


def _random_network(rng, n, words):
    cards = rng.integers(1, 4, size=n)
    parents = [rng.permutation(v)[: rng.integers(0, 3)].tolist() for v in range(n)]
    cpts = [rng.dirichlet(np.ones(cards[v]), [cards[p] for p in parents[v]]) for v in range(n)]
    names = [f"{words[rng.integers(len(words))]}_{v}" for v in range(n)]
    states = [[f"{words[rng.integers(len(words))]}{k}" for k in range(card)] for card in cards]
    return BayesianNetwork(parents, cpts, names, states)


def test_small_file(write):
    start = f'<?xml version="1.0" encoding="US-ASCII"?>\n<!-- by hand -->\n{DTD}'
    lines = _file(B, A, "<PROPERTY>x<y/></PROPERTY>", PB, PA, start=start)
    network = read_xmlbif(write("a.xmlbif", lines))
    assert network.names == ["b", "a"]
    assert network.states == [["t", "f"]] * 2
    assert network.parents == ((1,), ())
    assert network.cpts[0].tolist() == [[1.0, 0.0], [0.25, 0.75]]


@given(rngs, st.integers(1, 6), st.sampled_from(["random.xmlbif", "random.xml.gz"]))
def test_round_trip(scratch, rng, n, name):
    words = ["a b", "<x>", "&amp;", "plain", "ä→", "]]>", '"', "'", "&", "1.5"]
    network = _random_network(rng, n, words)
    write_xmlbif(network, scratch / name)
    again = read_xmlbif(scratch / name)
    assert again.names == network.names
    assert again.states == network.states
    assert again.parents == network.parents
    for a, b in zip(again.cpts, network.cpts, strict=True):
        np.testing.assert_array_equal(a, b)


def test_networks_without_names(tmp_path):
    write_xmlbif(BayesianNetwork([[], [0]], [[0.5, 0.5], np.eye(2)]), tmp_path / "a.xml")
    again = read_xmlbif(tmp_path / "a.xml")
    assert again.names == ["x0", "x1"]
    assert again.states == [["s0", "s1"]] * 2


@pytest.mark.parametrize("suffix", ["xmlbif", "bifxml", "xml", "xml.gz"])
def test_models_are_read_and_compiled(tmp_path, suffix):
    path = tmp_path / f"asia.{suffix}"
    write_xmlbif(asia(), path)
    assert read_model(path).names == asia().names
    circuit, log_z = compile_file(path)
    np.testing.assert_allclose(log_z, 0.0, atol=1e-12)
    np.testing.assert_allclose(circuit.marginals()[7][0], 0.435971, rtol=0, atol=5e-7)


@pytest.mark.parametrize("seed", [1, 2])
def test_pyagrum_reads_what_is_written(gum, tmp_path, seed):
    network = _random_network(np.random.default_rng(seed), 8, ["u", "v", "w"])
    write_xmlbif(network, tmp_path / "a.bifxml")
    theirs = gum.loadBN(str(tmp_path / "a.bifxml"))
    assert sorted(theirs.names()) == sorted(network.names)
    engine = gum.LazyPropagation(theirs)
    engine.makeInference()
    circuit, _ = network.compile()
    for name, found in zip(network.names, circuit.marginals(), strict=True):
        expected = np.ravel(engine.posterior(name).tolist())
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
        assert list(theirs.variable(name).labels()) == network.states[network.variable(name)]


@pytest.mark.parametrize("seed", [1, 2])
def test_what_pyagrum_writes_is_read(gum, tmp_path, seed):
    gum.initRandom(seed)
    theirs = gum.BNGenerator().generate(12, 16, 3)
    theirs.generateCPTs()
    gum.saveBN(theirs, str(tmp_path / "a.bifxml"))
    network = read_xmlbif(tmp_path / "a.bifxml")
    engine = gum.LazyPropagation(theirs)
    engine.makeInference()
    for name, found in zip(network.names, network.compile()[0].marginals(), strict=True):
        # six digits are written
        np.testing.assert_allclose(found, engine.posterior(name).tolist(), rtol=0, atol=1e-4)


def test_pgmpy_reads_what_is_written_and_writes_it_again(pgmpy, tmp_path):
    network = _random_network(np.random.default_rng(3), 7, ["u", "v", "w"])
    write_xmlbif(network, tmp_path / "a.xml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pgmpy.XMLBIFReader(str(tmp_path / "a.xml")).get_model()
        writer = pgmpy.XMLBIFWriter(theirs)
        write = getattr(writer, "write", None) or writer.write_xmlbif  # by age of the package
        write(str(tmp_path / "b.xml"))
    again = read_xmlbif(tmp_path / "b.xml")
    ours, expected = again.compile()[0].marginals(), network.compile()[0].marginals()
    for name, found in zip(again.names, ours, strict=True):
        v = network.variable(name)
        states = [again.states[again.variable(name)].index(label) for label in network.states[v]]
        np.testing.assert_allclose(np.asarray(found)[states], expected[v], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([""], "not well-formed"),
        (["<BIF>"], "not well-formed"),
        (["<BIF><NETWORK></BIF></NETWORK>"], r"line 1: .* not well-formed \(mismatched tag\)"),
        (["<HTML/>"], "line 1: expected the element 'BIF', found 'HTML'"),
        (_file(), "expected the declaration of at least one variable"),
        (_file(A, A, PA), "line 3: variable 'a' is declared twice"),
        (_file(A), "line 2: variable 'a' has no definition"),
        (_file(A, PA, PA), "line 4: variable 'a' has two definitions"),
        (_file(A, PB), "line 3: variable 'b' is not declared"),
        (_file(A.replace("nature", "decision"), PA), "type 'nature', found 'decision'"),
        (_file(A.replace("<NAME>a</NAME>", ""), PA), "a variable has one name, found 0"),
        (_file(A.replace(">f<", ">t<"), PA), "variable 'a' has two outcomes of one name"),
        (_file("<VARIABLE><NAME>a</NAME></VARIABLE>", PA), "variable 'a' has no outcomes"),
        (_file(A, PA.replace("0.5 0.5", "0.5")), "line 3: expected 2 probabilities of 'a', found"),
        (_file(A, PA.replace("0.5 0.5", "0.5 x")), "line 3: expected a number, found 'x'"),
        (_file(A, PA.replace("0.5 0.5", "1_0 0")), "line 3: expected a number, found '1_0'"),
        (_file(A, PA.replace("0.5 0.5", "nan 1")), "finite and not negative, found 'nan'"),
        (_file(A, PA.replace("0.5 0.5", "-1 2")), "finite and not negative, found '-1'"),
        (_file(A, PA.replace("0.5 0.5", "0.5 0.9")), "must sum to one"),
        (_file(A, PA.replace("0.5 0.5", "<b/>")), "line 3: expected a text in 'TABLE', found 'b'"),
        (_file(A, PA.replace("</FOR>", "</FOR><GIVEN>a</GIVEN>")), "name a variable twice"),
        (_file(A, PA.replace("<FOR>a</FOR>", "")), "for one variable and has one table, found 0"),
        (_file(A, B, PB, PB.replace(">b<", ">c<").replace(">a<", ">b<").replace(">c<", ">a<")),
         "an ancestor of itself"),
    ],
)  # fmt: skip
def test_bad_files(write, lines, message):
    with pytest.raises(ParseError, match=message):
        read_xmlbif(write("a.xmlbif", lines))


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">',
        '<!ENTITY a SYSTEM "file:///etc/hostname">',
        '<!ENTITY % a SYSTEM "http://localhost/x.dtd"> %a;',
    ],
)
def test_entities_are_refused(write, declaration):
    start = f"<!DOCTYPE BIF [\n{declaration}\n]>\n"
    with pytest.raises(ParseError, match="line 2: networks need no entities"):
        read_xmlbif(write("a.xml", _file(A, PA, start=start)))


def test_unknown_entities_are_refused(write):
    with pytest.raises(ParseError, match="undefined entity"):
        read_xmlbif(write("a.xml", _file(A, PA.replace("0.5 0.5", "&half; 0.5"))))
    start = '<!DOCTYPE BIF SYSTEM "http://localhost/bif.dtd">\n'
    assert read_xmlbif(write("a.xml", _file(A, PA, start=start))).names == ["a"]
    with pytest.raises(ParseError, match="networks need no entities"):
        read_xmlbif(write("a.xml", _file(A, PA.replace("0.5 0.5", "&h; 0.5"), start=start)))


def test_deep_and_wide_files(write):
    deep = "<a>" * 100_000 + "</a>" * 100_000
    assert read_xmlbif(write("a.xml", _file(A, PA, deep))).names == ["a"]
    names = [f"p{i}" for i in range(70)]
    lines = [A.replace(">a<", f">{name}<").replace("<OUTCOME>f</OUTCOME>", "") for name in names]
    lines += [PA.replace(">a<", f">{name}<").replace("0.5 0.5", "1") for name in names[1:]]
    given = "".join(f"<GIVEN>{name}</GIVEN>" for name in names[1:])
    lines.append(PA.replace(">a<", ">p0<").replace("</FOR>", f"</FOR>{given}"))
    with pytest.raises(ParseError, match="at most 63 parents, found 69 of 'p0'"):
        read_xmlbif(write("a.xml", _file(*lines)))


@pytest.mark.parametrize("name", ["", " a", "a\n", "a\tb", "a\0", "\ud800", "\uffff"])
def test_names_that_cannot_be_written(tmp_path, name):
    network = BayesianNetwork([[]], [[0.5, 0.5]], [name or "a"], [["t", name or ""]])
    with pytest.raises(CircuitError, match="Names and labels in an XMLBIF file"):
        write_xmlbif(network, tmp_path / "a.xml")


def test_other_models_cannot_be_written(tmp_path):
    with pytest.raises(CircuitError, match="Got a FactorGraph; use write_uai"):
        write_xmlbif(FactorGraph([2], []), tmp_path / "a.xml")
