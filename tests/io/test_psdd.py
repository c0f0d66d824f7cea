import gzip
import shutil

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from expectedkernels import (
    Circuit,
    CircuitError,
    ParseError,
    Vtree,
    read_psdd,
    read_vtree,
    write_psdd,
)
from oracles import Inner, Real, Table

HALF = "-0.6931471805599453"
EIGHT = [0.4 * 0, 0.4, 0.4, 0, 0.08, 0, 0, 0.12]
"""The probabilities of the toy circuit at 000, 001, ..., 111."""


@pytest.mark.parametrize("vtree", ["path", "object", "companion", "none", "gzip"])
def test_toy_circuit(write, toy, values, vtree):
    path = write("toy.psdd", toy["psdd"])
    argument = None
    if vtree == "companion":
        write("toy.vtree", toy["vtree"])
    elif vtree == "path":
        argument = write("elsewhere.vtree", toy["vtree"])
    elif vtree == "object":
        argument = Vtree.from_nested((0, (1, 2)))
    elif vtree == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))
    circuit = read_psdd(path, argument)
    assert circuit.vtree == Vtree.from_nested((0, (1, 2)))
    np.testing.assert_allclose(values(circuit), EIGHT, rtol=1e-15)


LAST = "D 8 4 2 6 0 -1.6094379124341003 7 1 -0.2231435513142097"
CHANGES = {
    "number in the header": lambda first, *rest: ["psdd 622", *rest],
    "unit that is not used": lambda *lines: [*lines[:-1], "D 80 4 1 0 6 0.0", lines[-1]],
    "one element swapped": lambda *lines: [*lines[:-1], LAST.replace("6 0", "0 6")],
    "inorder vtree ids": lambda first, *rest: [
        first,
        *(" ".join([*x[:2], "02431"[int(x[2])], *x[3:]]) for x in map(str.split, rest)),
    ],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_may_be_written_in_other_ways(write, toy, values, change):
    if "inorder" in change:
        write("toy.vtree", toy["vtree"])
    circuit = read_psdd(write("toy.psdd", CHANGES[change](*toy["psdd"])))
    assert circuit.n_roots == 1
    np.testing.assert_allclose(values(circuit), EIGHT, rtol=1e-15)


@pytest.mark.parametrize("with_vtree", [True, False])
def test_primes_on_the_right_are_swapped(write, toy, values, with_vtree):
    lines = [*toy["psdd"][:-1], LAST]
    write("toy.vtree", toy["vtree"]) if with_vtree else None
    circuit = read_psdd(write("toy.psdd", lines))
    assert circuit.vtree == Vtree.from_nested((0, (1, 2)) if with_vtree else ((1, 2), 0))
    np.testing.assert_allclose(values(circuit), EIGHT, rtol=1e-15)


@pytest.mark.parametrize("p", [0.3, 1e-12, 1 - 1e-12, 0.0, 1.0])
def test_dialects_of_true_units_agree(write, p):
    with np.errstate(divide="ignore"):
        log0, log1 = np.log1p(-p), np.log(p)
    a = read_psdd(write("a.psdd", ["psdd 1", f"T 0 0 1 {float(log1)}"]))
    b = read_psdd(write("b.psdd", ["psdd", f"T 0 0 1 {float(log0)} {float(log1)}"]))
    np.testing.assert_allclose(a.input(0).table, b.input(0).table, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(b.input(0).table, [[1 - p, p]], rtol=1e-12, atol=1e-16)


def test_true_units_in_the_second_dialect_need_not_be_normalised(write):
    circuit = read_psdd(write("a.psdd", ["psdd 1", "T 0 0 1 0.0 0"]))
    np.testing.assert_array_equal(circuit.input(0).table, [[1.0, 1.0]])


@pytest.mark.parametrize("infinity", ["-inf", "-Inf", "-INF", "-Infinity"])
def test_minus_infinity_drops_an_element(write, infinity):
    lines = ["psdd 5", "L 0 0 1", "L 1 0 -1", f"T 2 2 2 {HALF}"]
    circuit = read_psdd(write("a.psdd", [*lines, f"D 3 1 2 0 2 0.0 1 2 {infinity}"]))
    np.testing.assert_array_equal(circuit.input(0).table, [[0.0, 1.0]])


def test_weights_slightly_above_zero(write):
    path = write("a.psdd", ["psdd 2", "T 0 0 1 1e-9", f"T 1 2 2 {HALF}", "D 2 1 1 0 1 1e-9"])
    circuit = read_psdd(path)
    np.testing.assert_array_equal(circuit.input(0).table, [[0.0, 1.0]])
    np.testing.assert_allclose(circuit.blocks[-1].csr.data, [1 + 1e-9], rtol=1e-15)


@pytest.mark.parametrize(("name", "n"), [("abalone", 72), ("elevators", 182)])
@pytest.mark.parametrize("with_vtree", [True, False])
def test_learned_circuits(data_dir, tmp_path, total, name, n, with_vtree):
    path = data_dir / "psdd" / f"{name}.psdd"
    vtree = read_vtree(path.with_suffix(".vtree"))
    if not with_vtree:  # in a folder without the vtree
        path = shutil.copy(path, tmp_path / "alone.psdd")
    circuit = read_psdd(path)
    assert circuit.n_variables == n
    assert circuit.vtree == vtree if with_vtree else circuit.vtree.align(vtree) is not None
    np.testing.assert_allclose(total(circuit), 1.0, rtol=1e-12)


def test_learned_circuit_survives_writing(data_dir, tmp_path):
    circuit = read_psdd(data_dir / "psdd" / "elevators.psdd")
    write_psdd(circuit, tmp_path / "a.psdd", tmp_path / "a.vtree")
    again = read_psdd(tmp_path / "a.psdd")
    assert again.vtree == circuit.vtree
    assert (again.n_units, again.n_edges) == (circuit.n_units, circuit.n_edges)


@given(data=st.data(), with_vtree=st.booleans())
def test_round_trip(scratch, circuits, values, normalised, total, data, with_vtree):
    circuit = data.draw(circuits(binary=True, minimised=data.draw(st.booleans())))
    assume(total(circuit) > 0)
    circuit = normalised(circuit)
    path, vtree_path = scratch / "decisions.psdd.gz", scratch / "elsewhere.vtree"
    write_psdd(circuit, path, vtree_path)
    again = read_psdd(path, vtree_path if with_vtree else None)
    assert again.vtree == circuit.vtree
    np.testing.assert_allclose(values(again), values(circuit), rtol=1e-12, atol=1e-300)


@given(data=st.data())
def test_written_decisions_are_normalised(scratch, circuits, normalised, total, data):
    circuit = data.draw(circuits(binary=True))
    assume(total(circuit) > 0)
    write_psdd(normalised(circuit), scratch / "sums.psdd")
    for line in (scratch / "sums.psdd").read_text().splitlines():
        if line.startswith("D"):
            weights = np.exp([float(token) for token in line.split()[6::3]])
            np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)


def test_depth_is_no_limit(tmp_path, chain, total):
    circuit = chain(10_000)
    write_psdd(circuit, tmp_path / "deep.psdd", tmp_path / "deep.vtree")
    again = read_psdd(tmp_path / "deep.psdd")
    assert again.vtree == circuit.vtree
    assert again.n_edges == circuit.n_edges
    np.testing.assert_allclose(total(again), 1.0, rtol=1e-9)


def test_small_probabilities_keep_their_precision(tmp_path):
    circuit = Circuit.from_blocks(Vtree.balanced(1), [Table(np.array([[1e-200, 1.0]]))])
    write_psdd(circuit, tmp_path / "a.psdd")
    table = read_psdd(tmp_path / "a.psdd").input(0).table
    np.testing.assert_allclose(table, [[1e-200, 1.0]], rtol=1e-12)


L1, L2 = "L 0 0 1", "L 1 2 2"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([""], "found an empty file"),
        (["L 0 0 1"], r"line 1: expected the header line 'psdd \.\.\.'"),
        (["psdd 3"], "expected at least one unit"),
        (["psdd 1", "Q 0 0 1"], "line 2: expected 'L id vtree literal', .* found 'Q 0 0 1'"),
        (["psdd 1", "L 0 0"], "line 2: expected 'L id vtree literal', .* found 'L 0 0'"),
        (["psdd 1", "L 0 0 1 2"], "line 2: expected 'L id vtree literal', .* found 'L 0 0 1 2'"),
        (["psdd 1", "L 0 0 x"], "line 2: a literal must be an integer, found 'x'"),
        (["psdd 1", "L 0 0 0"], "line 2: variables are numbered from 1"),
        (["psdd 1", "L x 0 1"], "line 2: the id of a unit must be an integer"),
        (["psdd 1", "L 0 x 1"], "line 2: the id of a vtree node must be an integer"),
        (["psdd 1", "T 0 0 1"], "line 2: expected .* found 'T 0 0 1'"),
        (["psdd 1", "T 0 0 1 -1 -1 -1"], "line 2: expected a true unit with one or two"),
        (["psdd 1", "T 0 0 1 minus"], "line 2: expected a number, found 'minus'"),
        (["psdd 1", "T 0 0 1 0.5"], "line 2: the log-probability of a true unit must not be"),
        (["psdd 1", "T 0 0 1 nan"], "line 2: a log weight must be a number or -inf, found nan"),
        (["psdd 1", "c", "T 0 0 1 -1 inf"], "line 3: a log weight must be .* found inf"),
        (["psdd 1", "T 0 0 1 -800"], r"line 2: the log weight -800.0 is outside .* as doubles"),
        (["psdd 1", L1, L1], "line 3: the id 0 is used a second time"),
        (["psdd 1", L1, L2, "D 2 1 1 0 7 0.0"], "line 4: unit 7 has not appeared yet"),
        (["psdd 1", L1, "D 2 1 1 0 1 0.0", L2], "line 3: unit 1 has not appeared yet"),
        (["psdd 1", L1, L2, "D 2 1 1 2 1 0.0"], "line 4: unit 2 has not appeared yet"),
        (["psdd 1", L1, L2, "D 2 1 1 0 x 0.0"], "line 4: the id of an input must be an int"),
        (["psdd 1", L1, L2, "D 2 1 2 0 1 0.0"], "line 4: a unit with 2 inputs .* 10 .* 7"),
        (["psdd 1", L1, L2, "D 2 1 1 0 1"], "line 4: a unit with 1 inputs .* 7 .* found 6"),
        (["psdd 1", L1, L2, "D 2 1 0"], "line 4: a unit with 0 inputs needs at least one"),
        (["psdd 1", L1, L2, "D 2 1 x 0 1 0.0"], "line 4: the number of inputs must be an int"),
        (["psdd 1", L1, L2, "D 2 1 1 0 1 nan"], "line 4: a log weight must be .* found nan"),
        (["psdd 1", L1, L2, "D 2 1 1 0 1 -709"], "line 4: the log weight -709.0 is outside"),
        (["psdd 1", L1, L2, "D 2 1 1 0 1 710"], "line 4: the log weight 710.0 is outside"),
        (["psdd 1", L1, "L 1 0 -1", "D 2 1 1 0 1 0"], "line 4: the last record .* decomposable"),
        (["psdd 1", L1, L2], "line 2: variable 1 is not below the root"),
        (["psdd 1", L1, "L 1 2 4", "D 2 1 1 0 1 0"], "must be numbered from 1 to 2, found .* 4"),
        (["psdd 1", L1, "L 1 0 2", "D 2 1 1 0 1 0"], "line 3: the vtree id 0 does not fit"),
        (["psdd 1", L1, L2, "L 5 7 2", "D 2 1 1 0 1 0"], "line 4: the vtree id 7 .* expected 2"),
    ],
)
def test_broken_files(write, lines, message):
    with pytest.raises(ParseError, match=message):
        read_psdd(write("bad.psdd", lines))


@pytest.mark.parametrize(
    ("index", "line", "message"),
    [
        (2, "L 2 2 2", r"line 3: the vtree id 2 does not fit .* variable\(s\) \[2\] .* expected 1"),
        (2, "L 2 9 2", "line 3: the vtree id 9 does not fit"),
        (8, "D 7 4 1 2 5 0.0", r"line 9: the vtree id 4 does not fit .* \[2, 3\] .* expected 3"),
        (3, "L 4 2 4", "line 4: variable 4 is not below the root of the vtree"),
        (9, "D 8 4 1 0 2 0.0", r"line 10: a prime over variable\(s\) \[1\] and a sub over \[2\]"),
        (9, "D 8 4 1 6 7 0.0", r"line 10: a prime over variable\(s\) \[2, 3\] and a sub over"),
        (9, "D 8 3 1 2 4 0.0", r"line 10: the last record is the root, but .* \[2, 3\] .* all 3"),
    ],
)
def test_files_that_do_not_fit_their_vtree(write, toy, index, line, message):
    lines = list(toy["psdd"])
    lines[index] = line
    write("toy.vtree", toy["vtree"])
    with pytest.raises(ParseError, match=message):
        read_psdd(write("toy.psdd", lines))


def test_units_that_split_variables_differently(write, toy):
    lines = [*toy["psdd"], "D 9 5 1 0 2 0.0", "D 10 6 2 0 6 0 9 4 0.0"]
    with pytest.raises(ParseError, match=r"line 11: a prime over .* are not supported"):
        read_psdd(write("toy.psdd", lines))


def test_errors_name_the_vtree_that_was_found_beside_the_file(write, toy):
    beside = write("one.vtree", ["vtree 1", "L 0 1"])
    with pytest.raises(ParseError, match="variable 2 is not below") as caught:
        read_psdd(write("one.psdd", toy["psdd"]))
    assert caught.value.__notes__ == [f"The vtree is that of {beside}, which lies beside the file."]


def _coin(*table):
    return Circuit(Vtree.balanced(1), (Table(np.array(table)),))


def _weighted(weight, *table):
    tables = Table(np.array([table])), Table(np.array([[0.5, 0.5]]))
    return Circuit(Vtree.balanced(2), (*tables, Inner(1, 1, None, None, np.array([[weight]]))))


@pytest.mark.parametrize(
    ("circuit", "message"),
    [
        (_coin([0.5, 0.5], [1.0, 0.0]), r"A .psdd file holds a circuit with one root\. Got 2"),
        (_coin([0.2, 0.3, 0.5]), r"binary variables\. Got 3 states of variable 0"),
        (_coin([0.5, 0.4]), r"normalised circuit.* is -0\.10536.* Write p\.normalize\(\)"),
        (_coin([0.0, 0.0]), r"normalised circuit.* is -inf"),
        (_coin([-0.5, 1.5]), r"must be zero or at least .* variable 0 contain -0\.5"),
        (_coin([5e-324, 1.0]), "must be zero or at least .* contain 5e-324"),
        (_weighted(1e-200, 1e-200, 1e200), r"log weight of -921\.\d+, below the range of doubles"),
        (_weighted(-1.0, 0.5, 0.5), r"weights at vtree node 2 contain -1\.0"),
        (
            Circuit(Vtree.balanced(1), (Real(np.ones((1, 1)), np.zeros(1), np.ones(1)),)),
            "holds discrete variables. Variable 0 is real",
        ),
    ],
)
def test_circuits_that_cannot_be_written(tmp_path, circuit, message):
    with pytest.raises(CircuitError, match=message):
        write_psdd(circuit, tmp_path / "a.psdd")
    assert not (tmp_path / "a.psdd").exists()


def test_the_second_dialect_is_not_written(tmp_path):
    with pytest.raises(CircuitError, match=r"'dialect' .* was removed: .* are still read"):
        write_psdd(_coin([0.5, 0.5]), tmp_path / "a.psdd", dialect="B")
