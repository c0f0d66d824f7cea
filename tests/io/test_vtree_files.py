import numpy as np
import pytest
from hypothesis import given, strategies as st

from expectedkernels import (
    ParseError,
    Vtree,
    factorized,
    read_psdd,
    read_vtree,
    write_psdd,
    write_vtree,
)


@pytest.mark.parametrize("n", [1, 2, 3, 17])
@pytest.mark.parametrize("shape", ["balanced", "right_linear", "left_linear", "random"])
@pytest.mark.parametrize("name", ["a.vtree", "a.vtree.gz"])
def test_round_trip(tmp_path, n, shape, name):
    vtree = Vtree.random(n, 0) if shape == "random" else getattr(Vtree, shape)(n)
    write_vtree(vtree, tmp_path / name)
    assert read_vtree(tmp_path / name) == vtree


@given(n=st.integers(1, 30), seed=st.integers(0, 2**32))
def test_round_trip_of_random_vtrees(scratch, n, seed):
    rng = np.random.default_rng(seed)
    vtree = Vtree.random(rng.permutation(n).tolist(), rng)
    path = scratch / "random.vtree"
    write_vtree(vtree, path)
    assert read_vtree(path) == vtree
    nodes = [line.split() for line in path.read_text().splitlines() if line[0] in "LI"]
    assert [int(words[1]) for words in nodes] == vtree.inorder.tolist()


@pytest.mark.parametrize("shape", [Vtree.right_linear, Vtree.left_linear])
def test_depth_is_no_limit(tmp_path, shape):
    write_vtree(shape(10_000), tmp_path / "deep.vtree")
    assert read_vtree(tmp_path / "deep.vtree") == shape(10_000)


def test_writing_is_reproducible(tmp_path):
    for name in ("a.vtree.gz", "b.vtree.gz"):
        write_vtree(Vtree.balanced(5), tmp_path / name)
    assert (tmp_path / "a.vtree.gz").read_bytes() == (tmp_path / "b.vtree.gz").read_bytes()


def test_ids_are_labels(write):
    path = write("a.vtree", ["c", "c any ids", "", "vtree 3", "L 70 2", "L -3 1", "I 5 -3 70"])
    assert read_vtree(path) == Vtree.from_nested((0, 1))
    lines = ["psdd 5", "L 0 -3 1", "L 1 -3 -1", "L 2 70 2", "L 3 70 -2", "D 4 5 2 0 3 0 1 2 -inf"]
    circuit = read_psdd(write("a.psdd", lines), path)
    assert circuit.vtree == Vtree.from_nested((0, 1))
    assert circuit.log_likelihood([[1, 0], [0, 1]]).tolist() == [0.0, -np.inf]


def test_companion_is_the_file_with_the_same_stem(tmp_path):
    p = factorized([[0.5, 0.5], [0.2, 0.8]], vtree=Vtree.from_nested((1, 0)))
    for name in ("a.psdd", "a.psdd.gz"):
        write_psdd(p, tmp_path / name, tmp_path / "elsewhere.vtree")
        assert read_psdd(tmp_path / name).n_variables == 2
    write_vtree(Vtree.balanced(3), tmp_path / "a.vtree.gz")
    for name in ("a.psdd", "a.psdd.gz"):
        with pytest.raises(ParseError) as caught:
            read_psdd(tmp_path / name)
        assert "a.vtree.gz, which lies beside the file" in caught.value.__notes__[0]
    write_vtree(p.vtree, tmp_path / "a.vtree")
    for name in ("a.psdd", "a.psdd.gz"):
        assert read_psdd(tmp_path / name).vtree == p.vtree


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([""], r"bad\.vtree: expected a header line 'vtree \.\.\.', found an empty file"),
        (["L 0 1"], r"line 1: expected the header line 'vtree \.\.\.', found 'L 0 1'"),
        (["vtree"], "line 1: expected 'vtree' and the number of nodes"),
        (["vtree one", "L 0 1"], "line 1: the number of nodes must be an integer, found 'one'"),
        (["vtree 0"], "line 1: the header announces 0 nodes, found 0"),
        (["vtree 3", "L 0 1", "L 2 2"], "line 1: the header announces 3 nodes, found 2"),
        (["c", "vtree 1", "L 0 1", "L 2 2", "I 1 0 2"], "line 2: the header announces 1 nodes"),
        (["vtree 1", "X 0 1"], "line 2: expected 'L id variable' or .* found 'X 0 1'"),
        (["vtree 1", "L 0"], "line 2: expected 'L id variable' or .* found 'L 0'"),
        (["vtree 1", "L 0 0"], "line 2: variables are numbered from 1"),
        (["vtree 1", "L 0 1.5"], "line 2: a variable must be an integer, found '1.5'"),
        (["vtree 1", "L x 1"], "line 2: the id of a node must be an integer"),
        (["vtree 3", "L 0 1", "L 0 2", "I 1 0 0"], "line 3: the id 0 is used a second time"),
        (["vtree 3", "L 0 1", "L 2 1", "I 1 0 2"], "line 3: variable 1 has a second leaf"),
        (["vtree 3", "L 0 1", "I 1 0 2", "L 2 2"], "line 3: child 2 has not appeared yet"),
        (["vtree 2", "L 0 1", "I 1 0 0"], "line 3: node 0 has two parents"),
        (["vtree 2", "L 0 1", "L 1 2"], "line 2: only the last node is a root"),
        (["vtree 2", "I 0 0 0", "L 1 2"], "line 2: child 0 has not appeared yet"),
    ],
)
def test_broken_files(write, lines, message):
    with pytest.raises(ParseError, match=message):
        read_vtree(write("bad.vtree", lines))


def test_errors_know_their_place(write):
    path = write("bad.vtree", ["vtree 1", "c", "L 0 0"])
    with pytest.raises(ParseError, match="variables are numbered") as caught:
        read_vtree(path)
    assert (caught.value.path, caught.value.line) == (str(path), 3)
