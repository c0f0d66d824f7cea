"""Files that list units or vtree nodes: .psdd, .jpc, .spn and .vtree."""

import gzip
import math
import shutil

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import expectedkernels as ek
from assertions import assert_raises
from circuit_oracles import block_circuits
from expectedkernels import Circuit, CircuitError, ParseError, Vtree
from oracles import Inner, Real, Table, distribution

HALF = "-0.6931471805599453"
READERS = {"vtree": ek.read_vtree, "psdd": ek.read_psdd, "jpc": ek.read_jpc, "spn": ek.io.read_spn}
WRITERS = {"psdd": ek.write_psdd, "jpc": ek.write_jpc, "spn": ek.io.write_spn}
TOY_VTREE = Vtree.from_nested((0, (1, 2)))
VTREE = ["vtree 5", "L 0 1", "L 1 2", "L 2 3", "I 3 1 2", "I 4 0 3"]
PSDD = [
    "psdd 13",
    "L 0 0 1 ",
    "L 2 1 2",
    "L 4 2 3",
    "L 1 0 -1",
    "L 3 1 -2",
    "L 5 2 -3",
    "D 6 3 2 2 4 -0.5108256237659907 3 5 -0.916290731874155",
    "D 7 3 2 2 5 -0.6931471805599453 3 4 -0.6931471805599453",
    "D 8 4 2 0 6 -1.6094379124341003 1 7 -0.2231435513142097",
]
JPC = [
    "jpc 12",
    *(f"L {i} {i // 2} {sign}{1 + i // 2}" for i, sign in enumerate(["", "-"] * 3)),
    "P 6 3 2 2 4",
    "P 7 3 2 3 5",
    "S 8 3 2 6 -0.5108256237659907 7 -0.916290731874155",
    "P 9 4 2 0 8",
    "P 10 4 2 1 8",
    "S 11 4 2 9 -1.6094379124341003 10 -0.2231435513142097",
]
TOYS = {"psdd": PSDD, "jpc": JPC}
EIGHT = {"psdd": [0, 0.4, 0.4, 0, 0.08, 0, 0, 0.12], "jpc": [0.32, 0, 0, 0.48, 0.08, 0, 0, 0.12]}
"""The probabilities of the toy circuits at 000, 001, ..., 111."""
LAST = "D 8 4 2 6 0 -1.6094379124341003 7 1 -0.2231435513142097"


def with_ids(lines, ids):
    """The units with other vtree ids: those at the places that the old ones say."""
    words = [line.split() for line in lines[1:]]
    return [lines[0], *(" ".join([*x[:2], ids[int(x[2])], *x[3:]]) for x in words)]


@pytest.mark.parametrize("suffix", TOYS)
@pytest.mark.parametrize("vtree", ["path", "object", "companion", "none", "inorder", "gzip"])
def test_toy_circuits(write, suffix, vtree):
    lines = with_ids(TOYS[suffix], "02431") if vtree == "inorder" else TOYS[suffix]
    path = write(f"toy.{suffix}", lines)
    argument = TOY_VTREE if vtree == "object" else None
    if vtree in ("path", "inorder"):
        argument = write("elsewhere.vtree", VTREE)
    elif vtree == "companion":
        write("toy.vtree", VTREE)
    elif vtree == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))
    circuit = READERS[suffix](path, argument)
    assert circuit.vtree.align(TOY_VTREE) is not None
    np.testing.assert_allclose(distribution(circuit), EIGHT[suffix], rtol=1e-15)


@pytest.mark.parametrize(("lines", "vtree"), [
    (["psdd 622", *PSDD[1:]], (0, (1, 2))),
    ([*PSDD[:-1], "D 80 4 1 0 6 0.0", PSDD[-1]], (0, (1, 2))),  # an unused unit
    ([*PSDD[:-1], LAST.replace("6 0", "0 6")], (0, (1, 2))),
    ([*PSDD[:-1], LAST], ((1, 2), 0)),  # all elements are swapped
])  # fmt: skip
def test_what_may_be_written_in_other_ways(write, lines, vtree):
    path = write("toy.psdd", lines)
    for wanted in (Vtree.from_nested(vtree), TOY_VTREE):
        circuit = ek.read_psdd(path)
        assert (circuit.vtree, circuit.n_roots) == (wanted, 1)
        np.testing.assert_allclose(distribution(circuit), EIGHT["psdd"], rtol=1e-15)
        write("toy.vtree", VTREE)


@pytest.mark.parametrize("p", [0.3, 1e-12, 1 - 1e-12, 0.0, 1.0])
def test_dialects_of_true_units_agree(write, p):
    with np.errstate(divide="ignore"):
        log0, log1 = float(np.log1p(-p)), float(np.log(p))
    for header, logs in (("psdd 1", f"{log1}"), ("psdd", f"{log0} {log1}")):
        table = ek.read_psdd(write("a.psdd", [header, f"T 0 0 1 {logs}"])).input(0).table
        np.testing.assert_allclose(table, [[1 - p, p]], rtol=1e-12, atol=1e-16)


def test_logs_of_zero_and_slightly_above_it(write):
    def read(*lines):
        return ek.read_psdd(write("a.psdd", ["psdd 1", *lines]))

    np.testing.assert_array_equal(read("T 0 0 1 0.0 0").input(0).table, [[1.0, 1.0]])
    for infinity in ("-inf", "-Inf", "-INF", "-Infinity"):
        last = f"T 2 2 2 {HALF}", f"D 3 1 2 0 2 0.0 1 2 {infinity}"
        table = read("L 0 0 1", "L 1 0 -1", *last).input(0).table
        np.testing.assert_array_equal(table, [[0.0, 1.0]])
    circuit = read("T 0 0 1 1e-9", f"T 1 2 2 {HALF}", "D 2 1 1 0 1 1e-9")
    np.testing.assert_array_equal(circuit.input(0).table, [[0.0, 1.0]])
    np.testing.assert_allclose(circuit.blocks[-1].csr.data, [1 + 1e-9], rtol=1e-15)


def test_all_kinds_of_inputs(write):
    lines = ["c a comment", "jpc 5", "I 0 0 1 2", f"C 1 0 2 {HALF} -inf {HALF}"]
    lines += [f"B 2 0 3 3 {HALF}", "L 3 0 -4", "P 4 0 4 0 1 2 3"]
    circuit = ek.read_jpc(write("a.jpc", lines))
    assert circuit.cardinalities == (3, 3, 4, 2)
    tables = [[0, 0, 1], [0.5, 0, 0.5], np.array([1, 3, 3, 1]) / 8, [1, 0]]
    expected = np.einsum("i,j,k,l->ijkl", *tables).ravel()
    np.testing.assert_allclose(distribution(circuit), expected, rtol=1e-13)
    lines = ["( 2  3 )", "", "v 0 0", "v 0 1 ", "v 1 0", "v 1 2", "* 0 2", "* 1 3"]
    path = write("a.spn", [*lines, "+ 4 -0.5 5 -inf", "+ 6 0.0 5 0.25", "EOF", ""])
    circuit = ek.io.read_spn(path)
    assert circuit.cardinalities == (2, 3)
    expected = np.exp([-0.5, -np.inf, -np.inf, -np.inf, -np.inf, 0.25])
    np.testing.assert_allclose(distribution(circuit), expected, rtol=1e-15)
    swapped = Vtree.from_nested((1, 0))
    assert ek.io.read_spn(path, swapped).vtree == swapped
    assert ek.io.read_spn(path, as_units=True).scope == {0, 1}


@pytest.mark.parametrize(("n", "p"), [(0, 0.5), (1, 0.25), (5, 0.9), (20, 0.3), (4, 0.0), (4, 1.0)])
def test_binomial_inputs(write, n, p):
    log_p = math.log(p) if p else -math.inf
    unit = ek.read_jpc(write("a.jpc", ["jpc 1", f"B 0 0 1 {n} {log_p!r}"]), as_units=True)
    expected = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    np.testing.assert_allclose(unit.probs, expected, rtol=1e-12)


def test_states_follow_from_all_units_of_a_variable(write):
    lines = ["jpc 4", "I 0 0 1 0", "C 1 0 1 -1 -1 -1", "S 2 0 2 0 -1 1 -1", "P 3 0 1 2"]
    assert ek.read_jpc(write("a.jpc", lines)).cardinalities == (3,)
    lines = ["jpc 3", "I 0 0 1 0", "I 1 0 1 4", "S 2 0 2 0 -1 1 -1"]
    assert ek.read_jpc(write("a.jpc", lines)).cardinalities == (5,)
    assert ek.read_jpc(write("a.jpc", ["jpc 1", "I 0 0 1 0"])).cardinalities == (2,)


def test_circuits_without_a_vtree_or_with_another_one(write):
    """A sum of two products that pair up three variables in different ways."""
    inputs = [f"C {i} 0 {i // 2 + 1} -{i + 1} -2" for i in range(6)]
    first = ["P 6 0 2 0 2", "P 7 0 2 1 3", "S 8 0 2 6 -1 7 -2", "P 9 0 2 8 4"]
    second = ["P 10 0 2 2 4", "P 11 0 2 3 5", "S 12 0 2 10 -1 11 -2", "P 13 0 2 0 12"]
    path = write("a.jpc", ["jpc 15", *inputs, *first, *second, "S 14 0 2 9 -1 13 -2"])
    assert_raises(ek.PropertyError, "not structured-decomposable", ek.read_jpc, path)
    root = ek.read_jpc(path, as_units=True)
    assert (type(root), root.scope) == (ek.Sum, {0, 1, 2})
    assert all(isinstance(unit, ek.Product) for unit in root.inputs)
    np.testing.assert_allclose(root.weights, np.exp([-1, -2]), rtol=1e-15)
    plain = write("toy.jpc", with_ids(JPC, "00000"))
    assert ek.read_jpc(plain, TOY_VTREE).vtree == TOY_VTREE
    other = Vtree.from_nested((1, (0, 2)))
    assert_raises(ek.CompatibilityError, "vtree", ek.read_jpc, plain, other)


def test_smoothing(write):
    lines = ["jpc 4", "L 0 0 1", "L 1 0 2", "P 2 0 2 0 1", "S 3 0 2 2 0.0 0 0.0"]
    assert_raises(ek.PropertyError, "not smooth", ek.read_jpc, write("a.jpc", lines))
    circuit = ek.read_jpc(write("a.jpc", lines), smooth=True)
    np.testing.assert_array_equal(distribution(circuit), [0, 0, 1, 2])


@pytest.mark.parametrize(("name", "n"), [("abalone", 72), ("elevators", 182)])
@pytest.mark.parametrize("with_vtree", [True, False])
def test_learned_circuits(data_dir, tmp_path, name, n, with_vtree):
    path = data_dir / "psdd" / f"{name}.psdd"
    vtree = ek.read_vtree(path.with_suffix(".vtree"))
    if not with_vtree:  # in a folder without the vtree
        path = shutil.copy(path, tmp_path / "alone.psdd")
    circuit = ek.read_psdd(path)
    assert circuit.n_variables == n
    assert circuit.vtree == vtree if with_vtree else circuit.vtree.align(vtree) is not None
    np.testing.assert_allclose(circuit.log_partition(), 0.0, atol=1e-12)
    ek.write_psdd(circuit, tmp_path / "a.psdd", tmp_path / "a.vtree")
    again = ek.read_psdd(tmp_path / "a.psdd")
    assert again.vtree == circuit.vtree
    assert (again.n_units, again.n_edges) == (circuit.n_units, circuit.n_edges)


@pytest.mark.parametrize("suffix", WRITERS)
@given(data=st.data(), with_vtree=st.booleans())
def test_round_trip(scratch, suffix, data, with_vtree):
    options = {"binary": suffix == "psdd", "minimised": data.draw(st.booleans())}
    circuit = data.draw(block_circuits(**options))
    if suffix == "psdd":  # the root alone is normalised
        *blocks, root = circuit.blocks
        total = distribution(circuit).sum()
        assume(total > 0)
        if isinstance(root, Table):
            root = Table(root.table / total)
        else:
            root = Inner(root.n_products, 1, root.left, root.right, root.csr.toarray() / total)
        circuit = Circuit(circuit.vtree, (*blocks, root))
    path = scratch / f"random.{suffix}{data.draw(st.sampled_from(['', '.gz']))}"
    WRITERS[suffix](circuit, path)
    ek.write_vtree(circuit.vtree, scratch / "elsewhere.vtree")
    again = READERS[suffix](path, scratch / "elsewhere.vtree" if with_vtree else None)
    assert again.vtree.align(circuit.vtree) is not None
    assert again.vtree == circuit.vtree or not (with_vtree or suffix == "psdd")
    assert again.cardinalities == circuit.cardinalities
    np.testing.assert_allclose(distribution(again), distribution(circuit), rtol=1e-12, atol=1e-300)
    for line in path.read_text().splitlines() if path.suffix == ".psdd" else ():
        if line.startswith("D"):
            np.testing.assert_allclose(np.exp(list(map(float, line.split()[6::3]))).sum(), 1.0)


@given(n=st.integers(1, 30), seed=st.integers(0, 2**32), suffix=st.sampled_from(["", ".gz"]))
def test_round_trip_of_vtrees(scratch, n, seed, suffix):
    rng = np.random.default_rng(seed)
    for vtree in (Vtree.random(rng.permutation(n).tolist(), rng), Vtree.left_linear(n)):
        path = scratch / f"random.vtree{suffix}"
        ek.write_vtree(vtree, path)
        assert ek.read_vtree(path) == vtree
        data = path.read_bytes()
        ek.write_vtree(vtree, path)
        assert path.read_bytes() == data
        nodes = [] if suffix else [line.split() for line in path.read_text().splitlines()]
        ids = [int(words[1]) for words in nodes if words[0] in "LI"]
        assert ids == ([] if suffix else vtree.inorder.tolist())


def test_depth_is_no_limit(tmp_path):
    p = np.random.default_rng(0).uniform(0.1, 0.9, size=(3000, 2))
    circuit = ek.hmm([0.25, 0.75], [[0.25, 0.75], [0.5, 0.5]], np.stack([p, 1 - p], axis=2))
    ek.write_psdd(circuit, tmp_path / "deep.psdd", tmp_path / "deep.vtree")
    again = ek.read_psdd(tmp_path / "deep.psdd")
    assert (again.vtree, again.n_edges) == (circuit.vtree, circuit.n_edges)
    np.testing.assert_allclose(again.log_partition(), 0.0, atol=1e-9)


def test_records_and_the_precision_of_written_circuits(tmp_path):
    inputs = [ek.Categorical(0, [0.0, 1.0]), ek.Categorical(1, [1.0, 0.0, 0.0])]
    ek.write_jpc(Circuit.from_units(ek.Product(inputs)), tmp_path / "a.jpc")
    lines = (tmp_path / "a.jpc").read_text().splitlines()
    assert lines[-4:] == ["jpc 3", "L 0 0 1", "C 1 2 2 0.0 -inf -inf", "P 2 1 2 0 1"]
    ek.write_psdd(_coin([1e-200, 1.0]), tmp_path / "a.psdd")
    table = ek.read_psdd(tmp_path / "a.psdd").input(0).table
    np.testing.assert_allclose(table, [[1e-200, 1.0]], rtol=1e-12)


def test_ids_are_labels(write):
    path = write("a.vtree", ["c", "c any ids", "", "vtree 3", "L 70 2", "L -3 1", "I 5 -3 70"])
    assert ek.read_vtree(path) == Vtree.from_nested((0, 1))
    lines = ["psdd 5", "L 0 -3 1", "L 1 -3 -1", "L 2 70 2", "L 3 70 -2", "D 4 5 2 0 3 0 1 2 -inf"]
    circuit = ek.read_psdd(write("a.psdd", lines), path)
    assert circuit.vtree == Vtree.from_nested((0, 1))
    assert circuit.log_likelihood([[1, 0], [0, 1]]).tolist() == [0.0, -np.inf]


def test_companion_is_the_file_with_the_same_stem(tmp_path):
    p = ek.factorized([[0.5, 0.5], [0.2, 0.8]], vtree=Vtree.from_nested((1, 0)))
    names = [tmp_path / "a.psdd", tmp_path / "a.psdd.gz"]
    for name in names:
        ek.write_psdd(p, name, tmp_path / "elsewhere.vtree")
    ek.write_vtree(Vtree.balanced(3), tmp_path / "a.vtree.gz")
    for name in names:
        with pytest.raises(ParseError) as caught:
            ek.read_psdd(name)
        assert "a.vtree.gz, which lies beside the file" in caught.value.__notes__[0]
    ek.write_vtree(p.vtree, tmp_path / "a.vtree")
    for name in names:
        assert ek.read_psdd(name).vtree == p.vtree


L1, L2 = "L 0 0 1", "L 1 2 2"


@pytest.mark.parametrize(("suffix", "lines", "line", "message"), [
    ("vtree", [""], None, r"expected the header line 'vtree N' .* found 'an empty file'"),
    ("vtree", ["L 0 1"], 1, "expected the header line 'vtree N' .* found 'L 0 1'"),
    ("vtree", ["vtree"], 1, "expected the header line 'vtree N' .* found 'vtree'"),
    ("vtree", ["vtree 0"], None, "expected at least one unit"),
    ("vtree", ["vtree 3", "L 0 1", "L 2 2"], 1, "the header announces 3 nodes, found 2"),
    ("vtree", ["vtree 1", "X 0 1"], 2, "expected 'L id variable' or .* found 'X 0 1'"),
    ("vtree", ["vtree 1", "L 0"], 2, r"found 'L 0' \(2 words\)"),
    ("vtree", ["vtree 2", "L 0 1", "I 1 0"], 3, r"found 'I 1 0' \(3 words\)"),
    ("vtree", ["vtree 1", "L 0 0"], 2, "variables are from 1 to 1048576, found 0"),
    ("vtree", ["vtree 1", "L 0 1.5"], 2, "expected an integer, found '1.5'"),
    ("vtree", ["vtree 3", "L 0 1", "L 0 2", "I 1 0 0"], 3, "the id 0 is used a second time"),
    ("vtree", ["vtree 3", "L 0 1", "L 2 1", "I 1 0 2"], 3, "a variable a second leaf"),
    ("vtree", ["vtree 3", "L 0 1", "I 1 0 2", "L 2 2"], 3, "unit 2 has not appeared yet"),
    ("vtree", ["vtree 2", "L 0 1", "I 1 0 0"], 3, "a node has a second parent"),
    ("vtree", ["vtree 2", "L 0 1", "L 1 2"], None, "Only 1 of 2 nodes are reached"),
    ("psdd", ["L 0 0 1"], 1, r"expected the header line 'psdd \.\.\.', found 'L 0 0 1'"),
    ("psdd", ["psdd 1", "L 0 0 1 2"], 2, r"'L id vtree literal', .* \(5 words\)"),
    ("psdd", ["psdd 1", "T 0 0 1 -1 -1 -1"], 2, "expected a true unit with one or two"),
    ("psdd", ["psdd 1", "T 0 0 1 minus"], 2, "expected a number, found 'minus'"),
    ("psdd", ["psdd 1", "T 0 0 1 0.5"], 2, "a log-probability must not be above 0"),
    ("psdd", ["psdd 1", "T 0 0 1 nan"], 2, r"a log weight must be -inf or in \[.*found nan"),
    ("psdd", ["psdd 1", "c", "T 0 0 1 -1 inf"], 3, "doubles, found inf"),
    ("psdd", ["psdd 1", L1, L2, "D 2 1 1 0 7 0.0"], 4, "unit 7 has not appeared yet"),
    ("psdd", ["psdd 1", L1, L2, "D 2 1 2 0 1 0.0"], 4, r"'D id vtree count .* \(7 words\)"),
    ("psdd", ["psdd 1", L1, L2, "D 2 1 1 0 1"], 4, r"\(6 words\)"),
    ("psdd", ["psdd 1", L1, L2, "D 2 1 0"], 4, r"\(4 words\)"),
    ("psdd", ["psdd 1", L1, "L 1 0 -1", "D 2 1 1 0 1 0"], 4, "the last unit is not decomposable"),
    ("psdd", ["psdd 1", L1, L2], 2, "variable 1 is not below the root"),
    ("psdd", ["psdd 1", L1, "L 1 2 4", "D 2 1 1 0 1 0"], None,
     r"all 4 variables, and does not on \[2, 3\]"),
    ("psdd", ["psdd 1", L1, "L 1 0 2", "D 2 1 1 0 1 0"], 3, "the vtree id 0 does not fit"),
    ("psdd", [*PSDD, "D 9 5 1 0 2 0.0", "D 10 6 2 0 6 0 9 4 0.0"], 11, "a prime over .* not su"),
    ("jpc", [*JPC[:2], *JPC[3:]], 1, "the header announces 12 units, found 11"),
    ("jpc", ["jpc 1", "B 0 0 1 -1"], 2, "expected .* found 'B 0 0 1 -1'"),
    ("jpc", ["jpc 1", "I 0 0 1 -1"], 2, "values are 0 to 1048575 .* found -1"),
    ("jpc", ["jpc 1", "I 0 0 1 999999999"], 2, "found 999999999"),
    ("jpc", ["jpc 1", "B 0 0 1 2 0.5"], 2, "a log-probability must not be above 0"),
    ("jpc", ["jpc 1", "B 0 0 1 400 -20"], 2, "doubles, found -7"),
    ("jpc", ["jpc 2", L1, "C 1 0 1 -1 -1 -1"], 3, "variable 1 has 3 states here and 2 before"),
    ("jpc", ["jpc 2", L1, "I 1 0 1 2"], 3, "variable 1 has 2 states in other units, found 2"),
    ("jpc", ["jpc 1", "L 0 0 2"], None, r"all 2 variables, and does not on \[1\]"),
    ("spn", [""], 1, r"the numbers of states in parentheses, like '\(2 2 3\)', found ''"),
    ("spn", ["(2 x)"], 1, "expected an integer, found 'x'"),
    ("spn", ["(2 0)"], 1, "numbers of states must be from 1"),
    ("spn", ["(2)", "v 0 0", "EOF", "v 0 1"], None, "expected the last line to be EOF"),
    ("spn", ["(2)", "EOF", "EOF"], 2, "expected 'v variable value', .* found 'EOF'"),
    ("spn", ["(2)", "v 0 2", "EOF"], 2, "variables are 0 to 0 .* variable 0 with value 2"),
    ("spn", ["(2)", "v 1 0", "EOF"], 2, "variables are 0 to 0 .* variable 1 with value 0"),
    ("spn", ["(2)", "v 0 0", "+ 0", "EOF"], 3, r"expected .* found '\+ 0'"),
    ("spn", ["(2)", "v 0 0", "* -1", "EOF"], 3, "unit -1 has not appeared yet"),
    ("spn", ["(2 2)", "v 0 0", "EOF"], None, r"all 2 variables, and does not on \[1\]"),
])  # fmt: skip
def test_broken_files(write, suffix, lines, line, message):
    path = write(f"bad.{suffix}", lines)
    with pytest.raises(ParseError, match=message) as caught:
        READERS[suffix](path)
    assert (caught.value.path, caught.value.line) == (str(path), line)


@pytest.mark.parametrize(("suffix", "index", "line", "message"), [
    ("psdd", 2, "L 2 2 2", r"the vtree id 2 .* variables \[2\] .* expected 1"),
    ("psdd", 2, "L 2 9 2", "the vtree id 9 does not fit"),
    ("psdd", 8, "D 7 4 1 2 5 0.0", r"the vtree id 4 does not fit .* \[2, 3\] .* expected 3"),
    ("psdd", 3, "L 4 2 4", "variable 4 is not below the root of the vtree"),
    ("psdd", 9, "D 8 4 1 0 2 0.0", r"a prime over variables \[1\] .* and a sub over \[2\]"),
    ("psdd", 9, "D 8 4 1 6 7 0.0", r"a prime over variables \[2, 3\] .* and a sub over"),
    ("psdd", 9, "D 8 3 1 2 4 0.0", r"the last unit is over variables \[2, 3\] .* all 3"),
    ("jpc", 1, "L 0 2 1", r"the vtree id 2 does not fit .* variables \[1\] .* expected 0"),
    ("jpc", 7, "P 6 1 2 2 4", r"the vtree id 1 .* \[2, 3\] .* expected 3"),
    ("jpc", 1, "L 0 0 9", "variable 9 is not below the root of the vtree"),
])  # fmt: skip
def test_files_that_do_not_fit_their_vtree(write, suffix, index, line, message):
    lines = list(TOYS[suffix])
    lines[index] = line
    paths = write(f"toy.{suffix}", lines), write("toy.vtree", VTREE)
    assert_raises(ParseError, f"line {index + 1}: {message}", READERS[suffix], *paths)


def _coin(*table):
    return Circuit(Vtree.balanced(1), (Table(np.array(table)),))


def _weighted(weight, *table):
    tables = Table(np.array([table])), Table(np.array([[0.5, 0.5]]))
    return Circuit(Vtree.balanced(2), (*tables, Inner(1, 1, None, None, np.array([[weight]]))))


@pytest.mark.parametrize(("circuit", "suffixes", "message"), [
    (_coin([0.5, 0.5], [1.0, 0.0]), WRITERS, r"file holds a circuit with one root\. Got 2"),
    (_coin([-0.5, 1.5]), WRITERS, r"-inf or in the range .* Got nan \(nan: of a negative"),
    (_coin([5e-324, 1.0]), WRITERS, r"Got -744\.44 .* at vtree node 0"),
    (_weighted(-1.0, 0.5, 0.5), WRITERS, r"Got nan .* at vtree node 2"),
    (_coin([0.2, 0.3, 0.5]), ["psdd"], r"binary variables\. Got 3 states of variable 0"),
    (_coin([0.5, 0.4]), ["psdd"], r"normalised circuit.* is -0\.10536.* p\.normalize\(\)"),
    (_coin([0.0, 0.0]), ["psdd"], r"normalised circuit.* is -inf"),
    (_weighted(1e-200, 1e-200, 1e200), ["psdd"], r"range of doubles .* Got -921\.\d+"),
    (Circuit(Vtree.balanced(1), (Real(np.ones((1, 1)), np.zeros(1), np.ones(1)),)), WRITERS,
     "holds discrete variables. Variable 0 is real; use save"),
])  # fmt: skip
def test_circuits_that_cannot_be_written(tmp_path, circuit, suffixes, message):
    for suffix in suffixes:
        assert_raises(CircuitError, message, WRITERS[suffix], circuit, tmp_path / "a")
        assert not (tmp_path / "a").exists()


def test_the_second_dialect_is_not_written(tmp_path):
    given, message = (_coin([0.5, 0.5]), tmp_path / "a"), "'dialect' .* was removed: .* still read"
    assert_raises(CircuitError, message, ek.write_psdd, *given, dialect="B")
