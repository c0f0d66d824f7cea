import numpy as np
import pytest
from hypothesis import given, strategies as st

from expectedkernels import Circuit, CircuitError, ParseError, Vtree, io, write_jpc
from oracles import Real, Table


def test_small_file(write, values):
    lines = ["(2 3)", "v 0 0", "v 0 1", "v 1 0", "v 1 2", "* 0 2", "* 1 3"]
    circuit = io.read_spn(write("a.spn", [*lines, "+ 4 -0.5 5 -inf", "+ 6 0.0 5 0.25", "EOF"]))
    assert circuit.cardinalities == (2, 3)
    expected = np.exp([-0.5, -np.inf, -np.inf, -np.inf, -np.inf, 0.25])
    np.testing.assert_allclose(values(circuit), expected, rtol=1e-15)


def test_spaces_and_blank_lines(write):
    path = write("a.spn", ["( 2  2 )", "", "v 0 0", "v 1 1 ", "* 0 1", "EOF", ""])
    assert io.read_spn(path).n_variables == 2
    assert io.read_spn(path, Vtree.from_nested((1, 0))).vtree == Vtree.from_nested((1, 0))
    assert io.read_spn(path, as_units=True).scope == {0, 1}


@given(data=st.data())
def test_round_trip(scratch, circuits, values, data):
    circuit = data.draw(circuits(minimised=data.draw(st.booleans())))
    path = scratch / data.draw(st.sampled_from(["random.spn", "random.spn.gz"]))
    io.write_spn(circuit, path)
    again = io.read_spn(path, circuit.vtree)
    assert again.vtree == circuit.vtree
    assert again.cardinalities == circuit.cardinalities
    np.testing.assert_allclose(values(again), values(circuit), rtol=1e-12, atol=1e-300)
    assert io.read_spn(path).vtree.align(circuit.vtree) is not None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [""],
            r"line 1: expected the numbers of states in parentheses, like '\(2 2 3\)', found ''",
        ),
        (["2 2"], "line 1: expected the numbers of states in parentheses"),
        (["()"], "line 1: expected the numbers of states in parentheses"),
        (["(2 x)"], "line 1: a number of states must be an integer, found 'x'"),
        (["(2 0)"], "line 1: numbers of states must be from 1"),
        (["(2)", "EOF"], "expected at least one unit"),
        (["(2)", "v 0 0"], "expected the last line to be EOF; is the file complete"),
        (["(2)", "v 0 0", "EOF", "v 0 1"], "line 4: expected nothing after EOF, found 'v'"),
        (["(2)", "x 0 0", "EOF"], r"line 2: expected 'v variable value', .* found 'x 0 0'"),
        (["(2)", "v 0 2", "EOF"], "line 2: variables are 0 to 0 .* variable 0 with value 2"),
        (["(2)", "v 1 0", "EOF"], "line 2: variables are 0 to 0 .* variable 1 with value 0"),
        (["(2)", "v 0 x", "EOF"], "line 2: a value must be an integer"),
        (["(2)", "*", "EOF"], "line 2: expected 'v variable value'"),
        (["(2)", "v 0 0", "+ 0", "EOF"], r"line 3: expected .* found '\+ 0'"),
        (["(2)", "v 0 0", "* -1", "EOF"], "line 3: unit -1 has not appeared yet"),
        (
            ["(2 2)", "v 0 0", "EOF"],
            "line 1: the first line announces 2 variables, .* not depend on variable 1",
        ),
    ],
)
def test_broken_files(write, lines, message):
    with pytest.raises(ParseError, match=message):
        io.read_spn(write("bad.spn", lines))


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Table(np.array([[0.5, 0.5], [1.0, 0.0]])), "file holds a circuit with one root"),
        (Table(np.array([[-0.5, 1.5]])), r"must be zero or at least .* contain -0\.5"),
        (Real(np.ones((1, 1)), np.zeros(1), np.ones(1)), "Variable 0 is real; use save"),
    ],
)
@pytest.mark.parametrize("write", [io.write_spn, write_jpc])
def test_circuits_that_cannot_be_written(tmp_path, write, block, message):
    with pytest.raises(CircuitError, match=message):
        write(Circuit(Vtree.balanced(1), (block,)), tmp_path / "a")
