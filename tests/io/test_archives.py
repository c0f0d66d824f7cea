"""Archives made to hurt: declared sizes, narrow types, members that are no arrays."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import ParseError, VtreeError


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


@pytest.mark.parametrize("length", ["(99999999999,)", "(999999999999999999,)"])
def test_declared_lengths_are_checked_before_memory_is_taken(members, length):
    _, reload = members
    tracemalloc.start()
    with pytest.raises(ParseError, match=r"announces 9+ entries of 8 bytes, found 80 bytes"):
        reload(("tables.npy", _header(length) + b"\0" * 80))
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the member 'tables' is no array"),
        (b"hello", "the member 'tables' is no array"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "the member 'tables' is no array"),
        (b"\x93NUMPY\x02\x00" + b" " * 90, "the member 'tables' is no array"),
        (_header("(" + "9" * 5000 + ",)"), "the member 'tables' is no array"),
        (_npy(np.ones((2, 3))), "expected an array 'tables' of floats in one dimension"),
        (_npy(np.array(1.0)), "expected an array 'tables' of floats in one dimension"),
        (_npy(np.array([print])), "expected an array 'tables' of floats"),
        (_npy(np.array([1.0], np.float16)), "floats of 4 or 8 bytes, found 2"),
        (_npy(np.zeros(1, np.longdouble)), "floats of 4 or 8 bytes, found 16"),
        (_npy(np.zeros(3, dtype=[("a", "f8")])), "expected an array 'tables' of floats"),
    ],
)
def test_members_that_are_no_arrays_of_floats(members, data, message):
    _, reload = members
    with pytest.raises(ParseError, match=message):
        reload(("tables.npy", data))


def test_big_endian_numbers_are_read_right(members):
    found, reload = members
    expected = reload()
    swapped = {
        name: _npy(array.astype(array.dtype.newbyteorder(">")))
        for name, array in ((name, np.load(io.BytesIO(data))) for name, data in found.items())
    }
    circuit = reload(*swapped.items())
    for a, b in zip(circuit.blocks, expected.blocks, strict=True):
        for x, y in zip(a.arrays, b.arrays, strict=True):
            assert x.dtype == y.dtype
            assert x.tobytes() == y.tobytes()


def test_narrow_counts_do_not_wrap(tmp_path):
    path = tmp_path / "a.npz"
    circuit = ek.random_circuit(2, 120, rng=0, cardinalities=3)
    ek.save(circuit, path)
    with np.load(path) as file:
        arrays = dict(file)
    narrow = {n: a.astype(np.int8) for n, a in arrays.items() if a.dtype.kind == "i"}
    with open(path, "wb") as file:
        np.savez(file, **(arrays | narrow))
    points = [[0, 1], [2, 2]]
    assert ek.load(path).log_likelihood(points).tolist() == circuit.log_likelihood(points).tolist()


def test_extra_members(members):
    _, reload = members
    with pytest.raises(ParseError, match="nothing else, found 'surprise'"):
        reload(("surprise.npy", _npy(np.arange(3))))
    with pytest.raises(ParseError, match=r"not one array each: 'surprise.txt'"):
        reload(("surprise.txt", b"boo"))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicated_members(members):
    found, reload = members
    name = "tables.npy"
    with pytest.raises(ParseError, match=r"not one array each: 'tables.npy'"):
        reload((name, found[name]), (name, _npy(np.zeros(3))))


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
    with pytest.raises(ParseError, match="its arrays are larger than the file"):
        ek.load(path)


def test_a_repeated_variable_among_many_is_found_in_linear_time():
    vtree = ek.Vtree.balanced(100_000)
    variable = vtree.variable.copy()
    variable[0] = 99_999
    with pytest.raises(VtreeError, match=r"Variables \[99999\] are repeated"):
        ek.Vtree(vtree.left, vtree.right, variable)
