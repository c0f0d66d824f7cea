"""The library's own files: lossless, and safe to load whatever was done to them."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

import expectedkernels as ek
from assertions import assert_raises, assert_same_circuit
from circuit_oracles import block_circuits
from expectedkernels import CircuitError, ParseError, asia
from oracles import Inner, Real, Table


def _mixture(seed=0, n=3):
    rng = np.random.default_rng(seed)
    return ek.gaussian_mixture([0.2, 0.8], rng.normal(size=(2, n)), rng.random((2, n)) + 0.5)


def _discrete(seed=0, vtree=None, units=3, **options):
    vtree = ek.Vtree.balanced(5) if vtree is None else vtree
    return ek.random_circuit(vtree, units, rng=seed, **options)


def _of_one(block):
    return ek.Circuit(ek.Vtree.balanced(1), (block,))


def _sparse_block(index_dtype):
    rng = np.random.default_rng(0)
    weights = sparse.random_array((60, 80), density=0.03, rng=rng).tocsr()
    weights.indices = weights.indices.astype(index_dtype)
    weights.indptr = weights.indptr.astype(index_dtype)
    tables = Table(rng.random((40, 2))), Table(rng.random((30, 3)))
    index = rng.integers(40, size=80), rng.integers(30, size=80)
    return ek.Circuit(ek.Vtree.balanced(2), (*tables, Inner(80, 60, *index, weights)))


def _stored_zeros():
    """Sparse weights with zeros among their numbers and unsorted columns."""
    arrays = np.array([0.0, -0.0, 2.5]), np.array([2, 0, 1]), np.array([0, 2, 3])
    weights = sparse.csr_array(arrays, shape=(2, 3))
    tables = Table(np.eye(3)), Table(np.ones((3, 2)))
    return ek.Circuit(ek.Vtree.balanced(2), (*tables, Inner(3, 2, None, None, weights)))


KINDS = {
    "point masses": lambda: _mixture().condition({0: 1.0}),
    "point masses everywhere": lambda: _mixture().condition({0: 1.0, 1: -2.0, 2: 0.0}),
    "one real variable, observed": lambda: _mixture(n=1).condition({0: 0.5}),
    "one state": lambda: ek.factorized([[1.0], [0.5, 0.5], [2.0]], normalized=False),
    "right-linear": lambda: _discrete(vtree=ek.Vtree.right_linear(2_000)),
    "sparse": lambda: _discrete(units=60, density=0.05),
    "sparse, wide indices": lambda: _sparse_block(np.int64),
    "sparse, narrow indices": lambda: _sparse_block(np.int32),
    "sparse, stored zeros": _stored_zeros,
    "several roots": lambda: ek.algebra.stack([_discrete(seed) for seed in range(3)]),
    "signed": lambda: ek.algebra.linear_combination([_discrete(0), _discrete(1)], [1.0, -1.0]),
    "single precision": lambda: _of_one(Table(np.array([[0.1, 0.9]], dtype=np.float32))),
    "tiny and huge": lambda: _of_one(Table(np.array([[5e-324, -0.0, np.finfo(float).max]]))),
    "units without components": lambda: _of_one(Real(np.zeros((2, 0)), np.zeros(0), np.ones(0))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(tmp_path, kind):
    circuit = KINDS[kind]()
    ek.save(circuit, tmp_path / "a.npz")
    loaded = ek.load(tmp_path / "a.npz")
    assert_same_circuit(loaded, circuit)
    ek.save(loaded, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@given(data=st.data(), roots=st.integers(1, 3))
def test_round_trip_of_random_blocks(scratch, data, roots):
    options = {"signed": data.draw(st.booleans()), "minimised": data.draw(st.booleans())}
    circuit = data.draw(block_circuits(real=True, roots=roots, **options))
    ek.save(circuit, scratch / "random.npz")
    assert_same_circuit(ek.load(scratch / "random.npz"), circuit)


MIXED = ek.FactorGraph([2, 1, 3], [((0, 2), [[1e-230, 1e60, 1e50], [1.0, 2.0, 0.0]])])


@pytest.mark.parametrize("model", [asia(), MIXED, ek.FactorGraph([3], [])])
@pytest.mark.parametrize("vtree", [None, "linear"])
def test_round_trip_of_compiled_models(tmp_path, model, vtree):
    circuit, _ = model.compile(vtree and ek.Vtree.right_linear(model.n_variables))
    first = circuit
    for name in ("a", "b"):
        ek.save(circuit, tmp_path / name)
        circuit = ek.load(tmp_path / name)
    assert circuit.schema == model.schema
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    X = circuit.sample(5, rng=0)
    np.testing.assert_array_equal(circuit.log_likelihood(X), first.log_likelihood(X))


@pytest.mark.parametrize("kind", ["sparse", "point masses", "signed", "several roots"])
def test_torch_circuits_are_moved(tmp_path, kind):
    pytest.importorskip("torch")
    circuit = KINDS[kind]().to("torch")
    ek.save(circuit, tmp_path / "a.npz")
    assert_same_circuit(ek.load(tmp_path / "a.npz"), circuit.to("numpy"))


def test_numbers_that_are_not_finite_are_not_saved(tmp_path):
    circuit = _of_one(Table(np.array([[0.5, np.inf]])))
    message = "The tables of the circuit contain infinities or NaN"
    assert_raises(CircuitError, message, ek.save, circuit, tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists()


def test_units_are_not_in_files_of_compiled_models(tmp_path):
    grid = ek.ising_grid(5, 5, rng=0)
    circuit, _ = grid.compile(max_bytes=grid.messages.table_bytes)
    ek.save(circuit, tmp_path / "grid")
    with pytest.raises(ek.SizeError, match="To write out the units"):
        _ = ek.load(tmp_path / "grid").blocks


def test_files_of_earlier_versions_are_read():
    """Written by 0.2.0 and kept: whoever changes the format goes on reading them."""
    files = Path(__file__).parent / "files"
    assert ek.load(files / "version_1.npz").marginals()[0].tolist() == [0.2, 0.8]
    network = ek.load(files / "version_2.npz")
    found = network.marginals({"smoke": "yes", "dysp": "yes"})["lung"]
    np.testing.assert_allclose(found, asia().marginals({"smoke": "yes", "dysp": "yes"})["lung"])


def _example():
    """A circuit with every kind of block: tables, normals, all forms of weights and inputs."""
    rng = np.random.default_rng(0)
    vtree = ek.Vtree.from_nested(((0, 1), (2, 3)))
    weights = sparse.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
    blocks = (
        Table(rng.random((2, 2))),
        Real(rng.random((2, 3)), rng.normal(size=3), rng.random(3) + 0.1),
        Inner(2, 2, None, np.array([1, 0]), None),
        Table(rng.random((3, 2))),
        Table(rng.random((2, 4))),
        Inner(3, 2, None, np.array([1, 0, 1]), weights),
        Inner(3, 1, np.array([0, 1, 1]), np.array([1, 0, 1]), rng.random((1, 3))),
    )
    return ek.Circuit(vtree, blocks)


@pytest.fixture(params=["blocks", "stages"])
def arrays(request, changed_arrays):
    """The arrays of a file, and what writes changed ones and loads them."""
    return changed_arrays(_example() if request.param == "blocks" else asia().compile()[0])


def test_wrong_arrays(arrays):
    found, reload = arrays
    assert len(found) in (14, 20)
    for name in set(found) - {"version", "schema"}:
        array = found[name]
        kind = "floats" if array.dtype.kind == "f" else "integers"
        message = f"expected an array '{name}' of {kind}"
        for wrong in (None, array.astype(complex), array[None], array.astype(str)):
            assert_raises(ParseError, message, reload, **{name: wrong})
        message = r"npz: the (arrays .* are incons|vtree is)"
        for wrong in (array[:-1], np.append(array, array[-1:])):
            assert_raises(ParseError, message, reload, **{name: wrong})
    assert_raises(ParseError, "found version unknown", reload, version=None)
    assert_raises(ParseError, "nothing else, found 'more'", reload, more=found["vtree_left"])


def test_units_without_numbers_are_limited(changed_arrays):
    empty = Real(np.zeros((2**21, 0)), np.zeros(0), np.ones(0))
    assert_raises(ParseError, UNFIT, changed_arrays(_of_one(empty))[1])


UNFIT = "blocks have units that fit the vtree"


@pytest.mark.parametrize(("name", "index", "value", "message"), [
    ("version", 0, 2, "expected an array .stage_variable. of integers .* found none"),
    ("version", 0, 3, r"expected a circuit in version 1 or 2 .* found version '\[3\]'"),
    ("vtree_left", -1, 6, "the vtree is malformed: Node 6 needs two children"),
    ("vtree_left", 0, -(2**40), "vtree nodes must be in post-order"),
    ("vtree_variable", 0, 1, "the vtree is malformed: .* repeated"),
    ("vtree_variable", 0, 9, "variables must be numbered from 0 without gaps"),
    ("kind", 0, 2, UNFIT),
    ("kind", 0, -1, "'kind' must hold one natural number per vtree node"),
    ("kind", 0, 1, "'tables' has 18 entries, which is not what the others say"),
    ("n_units", 0, 0, UNFIT),
    ("n_units", 0, 2**31, "'n_units' must hold one natural number"),
    ("n_units", 1, 3, "'normal_weights' has 6 entries"),
    ("width", 0, 0, UNFIT),
    ("weight_form", 0, 1, UNFIT),
    ("weight_form", 5, 1, "'dense' has 3 entries"),
    ("has_left", 2, 2, UNFIT),
    ("has_left", 6, 0, UNFIT),
    ("left", 0, 2, "left inputs must be units of the child"),
    ("right", 0, -1, "right inputs must be units of the child"),
    ("csr_indptr", 0, 1, "sparse weights: index pointer should start with 0"),
    ("csr_indptr", -1, 9, "'csr_data' has 3 entries"),
    ("csr_indices", 0, 3, "sparse weights: indices must be < 3"),
    ("csr_data", 0, np.nan, "'csr_data' must be finite"),
    ("normal_variance", 0, -1e-9, "variances and widths are not negative"),
    ("stage_variable", 0, 99, "every variable has one stage"),
    ("stage_states", 0, 0, "every variable has a state"),
    ("stage_states", 0, 3, "'conditionals' has .* entries, which is not what the others say"),
    ("stage_is_log", 0, 2, "tables hold numbers or logarithms"),
    ("stage_is_log", 0, 1, "'conditionals' are probabilities or their logarithms"),
    ("stage_parent", 0, 0, "messages enter later stages"),
    ("stage_parent", 0, -1, "messages fit the stages that they enter"),
    ("stage_low", 0, 0.0, "'stage_low' are bounds of the logs of tables"),
    ("context", 0, -1, "contexts are made of variables"),
    ("context_size", 0, -1, "'context' has .* entries"),
    ("max_bytes", 0, 0, "'max_bytes' is one positive number"),
    ("conditionals", 0, np.nan, "'conditionals' are probabilities or their logarithms"),
    ("conditionals", 0, 0.123, "conditional probabilities sum to one"),
    ("conditionals", slice(0, None), 0.0, "conditional probabilities sum to one"),
])  # fmt: skip
def test_inconsistent_arrays(changed_arrays, name, index, value, message):
    stages = any(part in name for part in ("stage", "context", "conditionals", "max_bytes"))
    found, reload = changed_arrays(asia().compile()[0] if stages else _example())
    wrong = found[name].copy()
    wrong[index] = value
    assert_raises(ParseError, message, reload, **{name: wrong})


def test_contexts_that_do_not_fit(changed_arrays):
    found, reload = changed_arrays(asia().compile()[0])
    wrong = np.append(found["stage_variable"][:1], found["context"][1:])
    assert_raises(ParseError, "contexts follow the order of stages", reload, context=wrong)
    balanced = ek.Vtree.balanced(8)
    sides = {f"vtree_{name}": getattr(balanced, name) for name in ("left", "right", "variable")}
    assert_raises(ParseError, "contexts belong to the vtree", reload, **sides)


ODD = '{"names": 3, "states": null}', '{"names": ["a"], "states": [3]}'


@pytest.mark.parametrize("text", ["", "[]", "{}", *ODD, "[" * 9999])
def test_names_that_are_malformed(changed_arrays, text):
    _, reload = changed_arrays(asia().compile()[0])
    for wrong in (np.array([text]), np.array([text, text])):
        assert_raises(ParseError, "names of the circuit are malformed", reload, schema=wrong)


def test_other_files(tmp_path):
    path = tmp_path / "other"
    for write, message in (
        (lambda file: np.save(file, np.arange(3)), "expected a circuit written by save"),
        (lambda file: np.savez(file, x=np.arange(3)), "found version unknown"),
        (lambda file: file.write(b"PK" * 500), "expected a circuit written by save"),
        (lambda file: np.savez_compressed(file, version=[1]), "its arrays are compressed"),
    ):
        with open(path, "wb") as file:
            write(file)
        assert_raises(ParseError, message, ek.load, path)


@pytest.fixture
def members(tmp_path):
    """The members of the file of a small circuit, and a function that writes and loads others."""
    path = tmp_path / "changed.npz"
    ek.save(ek.random_circuit(3, 2, rng=0), path)
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}

    def reload(*changes):
        with zipfile.ZipFile(path, "w") as archive:
            kept = [member for member in found.items() if member[0] not in dict(changes)]
            for name, data in [*kept, *changes]:
                archive.writestr(name, data)
        return ek.load(path)

    return found, reload


def _npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _header(shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("changes", "message"), [
    ([("surprise.npy", _npy(np.arange(3)))], "nothing else, found 'surprise'"),
    ([("surprise.txt", b"boo")], "not one array each: 'surprise.txt'"),
    ([("tables.npy", _npy(np.zeros(n))) for n in (9, 3)], "not one array each: 'tables.npy'"),
])  # fmt: skip
def test_extra_members(members, changes, message):
    assert_raises(ParseError, message, members[1], *changes)


@pytest.mark.parametrize("length", ["(99999999999,)", "(999999999999999999,)"])
def test_declared_lengths_are_checked_before_memory_is_taken(members, length):
    tracemalloc.start()
    member = "tables.npy", _header(length) + b"\0" * 80
    assert_raises(ParseError, r"announces 79+2 bytes, found 80", members[1], member)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(("data", "message"), [
    (b"", "the member 'tables' is no array"),
    (b"hello", "the member 'tables' is no array"),
    (b"\x93NUMPY\x01\x00\xff\xff{", "the member 'tables' is no array"),
    (b"\x93NUMPY\x02\x00" + b" " * 90, "the member 'tables' is no array"),
    (_header("(" + "9" * 5000 + ",)"), "the member 'tables' is no array"),
    (_npy(np.ones((2, 3))), "an array 'tables' of floats of 4 or 8 bytes in one dimension"),
    (_npy(np.array(1.0)), "an array 'tables' of floats of 4 or 8 bytes in one dimension"),
    (_npy(np.array([print])), "expected an array 'tables' of floats"),
    (_npy(np.array([1.0], np.float16)), "in one dimension, found float16 in 1"),
    (_npy(np.zeros(1, np.longdouble)), "in one dimension, found float128 in 1"),
    (_npy(np.zeros(3, dtype=[("a", "f8")])), "expected an array 'tables' of floats"),
])  # fmt: skip
def test_members_that_are_no_arrays_of_floats(members, data, message):
    assert_raises(ParseError, message, members[1], ("tables.npy", data))


def test_big_endian_numbers_are_read_right(members):
    found, reload = members
    expected = reload()
    swapped = {
        name: _npy(array.astype(array.dtype.newbyteorder(">")))
        for name, array in ((name, np.load(io.BytesIO(data))) for name, data in found.items())
    }
    assert_same_circuit(reload(*swapped.items()), expected)


def test_narrow_counts_do_not_wrap(changed_arrays):
    circuit, points = ek.random_circuit(2, 120, rng=0, cardinalities=3), [[0, 1], [2, 2]]
    arrays, reload = changed_arrays(circuit)
    narrow = reload(**{n: a.astype(np.int8) for n, a in arrays.items() if a.dtype.kind == "i"})
    assert narrow.log_likelihood(points).tolist() == circuit.log_likelihood(points).tolist()


def test_overlapping_members_are_refused(tmp_path):
    """A thousand entries of the directory that all point to the same bytes."""
    one = io.BytesIO()
    with zipfile.ZipFile(one, "w") as archive:
        archive.writestr("a.npy", _npy(np.zeros(100_000)))
    data = one.getvalue()
    start = data.rindex(b"PK\x01\x02")
    end = data.rindex(b"PK\x05\x06")
    entry, tail = data[start:end], bytearray(data[end:])
    directory = b"".join(entry.replace(b"a.npy", b"%05d" % i) for i in range(1000))
    tail[8:12] = (1000).to_bytes(2, "little") * 2
    tail[12:16] = len(directory).to_bytes(4, "little")
    path = tmp_path / "bomb.npz"
    path.write_bytes(data[:start] + directory + bytes(tail))
    assert_raises(ParseError, "its arrays are larger than the file", ek.load, path)
