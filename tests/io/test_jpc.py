import gzip
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from expectedkernels import (
    Categorical,
    Circuit,
    CompatibilityError,
    ParseError,
    Product,
    PropertyError,
    Sum,
    Vtree,
    read_jpc,
    write_jpc,
)

TOY = [
    "jpc 12",
    "L 0 0 1",
    "L 1 0 -1",
    "L 2 2 2",
    "L 3 2 -2",
    "L 4 4 3",
    "L 5 4 -3",
    "P 6 3 2 2 4",
    "P 7 3 2 3 5",
    "S 8 3 2 6 -0.5108256237659907 7 -0.916290731874155",
    "P 9 1 2 0 8",
    "P 10 1 2 1 8",
    "S 11 1 2 9 -1.6094379124341003 10 -0.2231435513142097",
]
VTREE = ["vtree 5", "L 0 1", "L 2 2", "L 4 3", "I 3 2 4", "I 1 0 3"]
EIGHT = [0.32, 0, 0, 0.48, 0.08, 0, 0, 0.12]


@pytest.mark.parametrize("vtree", ["none", "path", "object", "ids 0", "gzip"])
def test_toy_circuit(write, values, vtree):
    lines, argument = TOY, None
    if vtree == "path":
        argument = write("a.vtree", VTREE)
    elif vtree in ("object", "ids 0"):
        argument = Vtree.from_nested((0, (1, 2)))
    if vtree == "ids 0":
        lines = [TOY[0], *(" ".join([*x.split()[:2], "0", *x.split()[3:]]) for x in TOY[1:])]
    path = write("toy.jpc", lines)
    if vtree == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))
    circuit = read_jpc(path, argument)
    np.testing.assert_allclose(values(circuit), EIGHT, rtol=1e-15)


def test_all_kinds_of_inputs(write, values):
    circuit = read_jpc(
        write(
            "a.jpc",
            [
                "c a comment",
                "jpc 5",
                "I 0 0 1 2",
                "C 1 0 2 -0.6931471805599453 -inf -0.6931471805599453",
                "B 2 0 3 3 -0.6931471805599453",
                "L 3 0 -4",
                "P 4 0 4 0 1 2 3",
            ],
        )
    )
    assert circuit.cardinalities == (3, 3, 4, 2)
    tables = [[0, 0, 1], [0.5, 0, 0.5], np.array([1, 3, 3, 1]) / 8, [1, 0]]
    expected = np.einsum("i,j,k,l->ijkl", *tables).ravel()
    np.testing.assert_allclose(values(circuit), expected, rtol=1e-13)


@pytest.mark.parametrize(("n", "p"), [(0, 0.5), (1, 0.25), (5, 0.9), (20, 0.3), (4, 0.0), (4, 1.0)])
def test_binomial_inputs(write, n, p):
    log_p = math.log(p) if p else -math.inf
    unit = read_jpc(write("a.jpc", ["jpc 1", f"B 0 0 1 {n} {log_p!r}"]), as_units=True)
    expected = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    np.testing.assert_allclose(unit.probs, expected, rtol=1e-12)


def test_states_follow_from_all_units_of_a_variable(write):
    lines = ["jpc 4", "I 0 0 1 0", "C 1 0 1 -1 -1 -1", "S 2 0 2 0 -1 1 -1", "P 3 0 1 2"]
    assert read_jpc(write("a.jpc", lines)).cardinalities == (3,)
    lines = ["jpc 3", "I 0 0 1 0", "I 1 0 1 4", "S 2 0 2 0 -1 1 -1"]
    assert read_jpc(write("a.jpc", lines)).cardinalities == (5,)
    assert read_jpc(write("a.jpc", ["jpc 1", "I 0 0 1 0"])).cardinalities == (2,)


def test_circuit_without_a_vtree(write):
    """A sum of two products that pair up three variables in different ways."""
    inputs = [f"C {i} 0 {i // 2 + 1} -{i + 1} -2" for i in range(6)]
    first = ["P 6 0 2 0 2", "P 7 0 2 1 3", "S 8 0 2 6 -1 7 -2", "P 9 0 2 8 4"]
    second = ["P 10 0 2 2 4", "P 11 0 2 3 5", "S 12 0 2 10 -1 11 -2", "P 13 0 2 0 12"]
    path = write("a.jpc", ["jpc 15", *inputs, *first, *second, "S 14 0 2 9 -1 13 -2"])
    with pytest.raises(PropertyError, match="not structured-decomposable"):
        read_jpc(path)
    root = read_jpc(path, as_units=True)
    assert isinstance(root, Sum)
    assert root.scope == {0, 1, 2}
    assert all(isinstance(unit, Product) for unit in root.inputs)
    np.testing.assert_allclose(root.weights, np.exp([-1, -2]), rtol=1e-15)


def test_circuit_that_does_not_fit_the_vtree(write):
    lines = [TOY[0], *(" ".join([*x.split()[:2], "0", *x.split()[3:]]) for x in TOY[1:])]
    with pytest.raises(CompatibilityError, match="vtree"):
        read_jpc(write("toy.jpc", lines), Vtree.from_nested((1, (0, 2))))


def test_smoothing(write, values):
    lines = ["jpc 4", "L 0 0 1", "L 1 0 2", "P 2 0 2 0 1", "S 3 0 2 2 0.0 0 0.0"]
    with pytest.raises(PropertyError, match="not smooth"):
        read_jpc(write("a.jpc", lines))
    circuit = read_jpc(write("a.jpc", lines), smooth=True)
    np.testing.assert_array_equal(values(circuit), [0, 0, 1, 2])


@given(data=st.data(), with_vtree=st.booleans())
def test_round_trip(scratch, circuits, values, data, with_vtree):
    circuit = data.draw(circuits(minimised=data.draw(st.booleans())))
    path, vtree_path = scratch / "random.jpc.gz", scratch / "elsewhere.vtree"
    write_jpc(circuit, path, vtree_path)
    again = read_jpc(path, vtree_path if with_vtree else None)
    assert again.vtree.align(circuit.vtree) is not None
    assert again.vtree == circuit.vtree or not with_vtree
    np.testing.assert_allclose(values(again), values(circuit), rtol=1e-12, atol=1e-300)


def test_records_of_a_written_circuit(tmp_path):
    circuit = Circuit.from_units(
        Product([Categorical(0, [0.0, 1.0]), Categorical(1, [1.0, 0.0, 0.0])])
    )
    write_jpc(circuit, tmp_path / "a.jpc")
    lines = (tmp_path / "a.jpc").read_text().splitlines()
    assert lines[-4:-2] == ["jpc 3", "L 0 0 1"]
    assert lines[-2:] == ["C 1 2 2 0.0 -inf -inf", "P 2 1 2 0 1"]


L1, L2 = "L 0 0 1", "L 1 0 2"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["jpc"], "line 1: expected 'jpc' and the number of units"),
        (["jpc x"], "line 1: the number of units must be an integer"),
        (["jpc 0"], "line 1: the header announces 0 units, found 0"),
        (["jpc 2", L1], "line 1: the header announces 2 units, found 1; is the file complete"),
        (["jpc 1", L1, L2], "line 1: the header announces 1 units, found 2"),
        (["jpc 1", "Z 0 0 1"], "line 2: expected 'L id vtree literal', .* found 'Z 0 0 1'"),
        (["jpc 1", "I 0 0 1"], "line 2: expected .* found 'I 0 0 1'"),
        (["jpc 1", "B 0 0 1 -1"], "line 2: expected .* found 'B 0 0 1 -1'"),
        (["jpc 1", "I 0 0 1 -1"], "line 2: values are numbered from 0"),
        (["jpc 1", "I 0 0 1 999999999"], "line 2: values are numbered from 0 and at most 1048575"),
        (["jpc 1", "I 0 0 1 x"], "line 2: a value must be an integer"),
        (["jpc 1", "C 0 0 1"], "line 2: expected .* found 'C 0 0 1'"),
        (["jpc 1", "C 0 0 1 -1 -1000"], "line 2: the log weight -1000.0 is outside .* doubles"),
        (["jpc 1", "B 0 0 1 -2 -1"], "line 2: values are numbered from 0"),
        (["jpc 1", "B 0 0 1 x -1"], "line 2: the number of trials must be an integer"),
        (["jpc 1", "B 0 0 1 2 0.5"], "line 2: the log-probability of a binomial unit must not be"),
        (["jpc 1", "B 0 0 1 2 nan"], "line 2: a log weight must be a number or -inf"),
        (["jpc 1", "B 0 0 1 400 -20"], "line 2: the log weight .* is outside .* doubles"),
        (["jpc 2", L1, "C 1 0 1 -1 -1 -1"], "line 3: variable 1 has 3 states here and 2 before"),
        (["jpc 2", L1, "I 1 0 1 2"], "line 3: variable 1 has 2 states in other units, .* value 2"),
        (["jpc 2", L1, "P 1 0 2 0 5"], "line 3: unit 5 has not appeared yet; inputs come first"),
        (["jpc 2", L1, "P 1 0 3 0 0"], "line 3: a unit with 3 inputs .* 7 entries .* found 6"),
        (["jpc 2", L1, "S 1 0 2 0 -1 0"], "line 3: a unit with 2 inputs .* 8 entries .* found 7"),
        (["jpc 1", "L 0 0 2"], "the root depends on 1 variables, .* found variable 2"),
    ],
)
def test_broken_files(write, lines, message):
    with pytest.raises(ParseError, match=message):
        read_jpc(write("bad.jpc", lines))


@pytest.mark.parametrize(
    ("index", "line", "message"),
    [
        (1, "L 0 2 1", r"line 2: the vtree id 2 does not fit .* variable\(s\) \[1\] .* expected 0"),
        (7, "P 6 1 2 2 4", r"line 8: the vtree id 1 .* \[2, 3\] .* expected 3"),
        (1, "L 0 0 9", "line 2: variable 9 is not below the root of the vtree"),
    ],
)
def test_files_that_do_not_fit_their_vtree(write, index, line, message):
    lines = list(TOY)
    lines[index] = line
    with pytest.raises(ParseError, match=message):
        read_jpc(write("toy.jpc", lines), write("toy.vtree", VTREE))
