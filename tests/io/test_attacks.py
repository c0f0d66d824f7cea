"""Files made to exhaust time or memory, or to slip odd numbers past a reader."""

import gzip
import tracemalloc

import numpy as np
import pytest

from assertions import assert_raises
from expectedkernels import ParseError
from file_fuzzing import READERS, fuzz, seeds

WHOLE = {
    "vtree": "vtree 3\nL 0 1\nL 2 2\nI 1 0 2\n",
    "psdd": "psdd 5\nL 0 0 1\nL 1 0 -1\nL 2 2 2\nL 3 2 -2\nD 4 1 2 0 2 -0.5 1 3 -0.9\n",
    "jpc": "jpc 3\nC 0 0 1 -1.5 -0.3 -3.2\nL 1 0 -2\nP 2 0 2 0 1\n",
    "spn": "(2 3)\nv 0 1\nv 1 2\n* 0 1\nEOF\n",
    "uai": "MARKOV\n2\n2 2\n1\n2 0 1\n4\n1.0 2.0 3.0 4.0\n",
    "evid": "2\n5 0\n7 1\n",
    "bif": "network a { }\nvariable b { type discrete [ 2 ] { c, d }; }\n"
    "probability ( b ) { table 0.25, 0.75; }\n",
    "csv": "a,b\n1,0\n2,\n",
}
TEXT = sorted(WHOLE)


@pytest.fixture
def read(tmp_path):
    """Writes bytes (or text) to a file and reads it as a format; memory must not exceed 300 MB."""

    def reader(suffix, data, **options):
        path = tmp_path / f"attack.{suffix}"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        tracemalloc.start()
        try:
            return READERS[suffix](path, **options)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 300e6

    return reader


@pytest.mark.parametrize("suffix", TEXT)
def test_line_ends_and_byte_order_marks_change_nothing(read, suffix):
    def described(data):
        found = read(suffix, data)
        found = found.X.tolist() if suffix == "csv" else found
        return repr(found)

    whole = WHOLE[suffix]
    expected = described(whole)
    for data in (
        whole.replace("\n", "\r"),
        whole.replace("\n", "\r\n"),
        whole.encode("utf-8-sig"),
        gzip.compress(whole.encode()),
    ):
        assert described(data) == expected


@pytest.mark.parametrize("suffix", [*TEXT, "npz"])
def test_folders_missing_files_and_what_is_no_text(tmp_path, read, suffix):
    with pytest.raises(FileNotFoundError):
        READERS[suffix](tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        READERS[suffix](tmp_path)
    if suffix != "evid":  # a file without evidence is one
        assert_raises(ParseError, "expected", read, suffix, b"")
    message = r"expected a (text file|circuit written by save)"
    for data in (b"\xff\xfea\0b\0", b"\x80abc", b"\xc3("):
        assert_raises(ParseError, message, read, suffix, data)


@pytest.mark.parametrize("suffix", TEXT)
def test_damaged_gzip_data(read, suffix):
    packed = gzip.compress(WHOLE[suffix].encode())
    for data in (packed[:-9], packed[:3], packed[:12] + b"\xff" * 20):
        assert_raises(ParseError, "the gzip data is damaged or cut off", read, suffix, data)


@pytest.mark.parametrize("suffix", TEXT)
def test_gzip_bombs(read, suffix):
    bomb = gzip.compress(b"0 " * 10_000_000)
    assert len(bomb) < 50_000
    assert_raises(ParseError, r"unpack to more than 16777216 bytes.*gunzip", read, suffix, bomb)


ODD = ["1_0", "٣", "²", "0x10", "1e999", "nan", "inf", "9" * 5000, "-", "1\0", "1.5.2"]


@pytest.mark.parametrize("number", ODD)
@pytest.mark.parametrize(("suffix", "place"), [
    ("vtree", "vtree 3\nL 0 1\nL 2 @\nI 1 0 2\n"),
    ("vtree", "vtree @\nL 0 1\nL 2 2\nI 1 0 2\n"),
    ("psdd", WHOLE["psdd"].replace("2 0 2 -0.5", "2 0 @ -0.5")),
    ("psdd", WHOLE["psdd"].replace("-0.5", "@").replace("inf", "-inf")),
    ("jpc", WHOLE["jpc"].replace("P 2 0 2", "P 2 0 @")),
    ("jpc", WHOLE["jpc"].replace("-0.3", "@")),
    ("spn", WHOLE["spn"].replace("(2 3)", "(2 @)")),
    ("spn", WHOLE["spn"].replace("* 0 1", "* 0 @")),
    ("uai", WHOLE["uai"].replace("2.0", "@")),
    ("uai", WHOLE["uai"].replace("MARKOV\n2", "MARKOV\n@")),
    ("evid", "1\n@ 0\n"),
    ("evid", "@\n1 5 0\n"),
    ("evid", "2\n@ 0\n7 1\n"),
    ("bif", WHOLE["bif"].replace("0.25", "@")),
    ("bif", WHOLE["bif"].replace("[ 2 ]", "[ @ ]")),
    ("csv", "a,b\n1,@\n"),
    ("csv", "1 0\n@ 1\n"),
])  # fmt: skip
def test_odd_numbers_are_refused(read, suffix, place, number):
    if suffix == "csv" and number == "nan":
        assert np.isnan(read(suffix, place.replace("@", number)).X).any()
        return
    assert_raises(ParseError, "attack", read, suffix, place.replace("@", number))


def children(n, card, count):
    """A file of one variable with many parents."""
    names, states = [f"p{i}" for i in range(n)], "ab"[:card]
    kind = f"{{ type discrete [ {card} ] {{ {', '.join(states)} }}; }}"
    even = ", ".join([str(1.0 / card)] * card)
    lines = [f"variable {name} {kind}" for name in (*names, "x")]
    lines += [f"probability ( {name} ) {{ table {even}; }}" for name in names]
    lines.append(f"probability ( x | {', '.join(names[:count])} ) {{ default {even}; }}")
    return "\n".join(lines)


def test_many_parents(read):
    for count in (24, 40):
        message = rf"table of 'x' .* {2 ** (count + 1)} numbers"
        assert_raises(ParseError, message, read, "bif", children(40, 2, count))
    assert read("bif", children(40, 2, 12)).cpts[-1].size == 2**13
    message = "line 142: the table of 'x' has 70 parents, at most 63 can"
    assert_raises(ParseError, message, read, "bif", children(70, 1, 70))


def test_few_units_of_many_states(read):
    n = 1000
    lines = ["(1048576)", *(f"v 0 {i}" for i in range(n))]
    lines += ["+ " + " ".join(f"{i} -7.0" for i in range(n)), "EOF"]
    assert_raises(ParseError, r"variable 0 .* has 1048576 states", read, "spn", "\n".join(lines))
    root = read("spn", "\n".join(lines), as_units=True)
    assert len(root.inputs) == n
    lines = [f"jpc {n + 1}", *(f"I {i} 0 1 {1_048_000 + i % 2}" for i in range(n))]
    lines += [f"S {n} 0 {n} " + " ".join(f"{i} -7.0" for i in range(n))]
    assert_raises(ParseError, r"variable 0 .* has 1048002 states", read, "jpc", "\n".join(lines))
    lines = ["jpc 50", *(f"B {i} 0 {i + 1} 1048575 -0.5" for i in range(50))]
    assert_raises(ParseError, r"variable 0 .* has 1048576 states", read, "jpc", "\n".join(lines))
    lines = ["jpc 10001", "L 0 0 1048576", *(f"S {i} 0 1 0 0.0" for i in range(1, 10_001))]
    message = r"line 2: .* variables 1 to 10001, found 1 of variable 1048576"
    assert_raises(ParseError, message, read, "jpc", "\n".join(lines), as_units=True)


def test_deep_circuits(read):
    n = 5_000
    units = "\n".join(["v 0 0", *(f"+ {i} 0.0" for i in range(n)), "EOF"])
    assert read("spn", "(2)\n" + units).n_variables == 1
    units = "\n".join(["L 0 0 1", *(f"S {i + 1} 0 1 {i} 0.0" for i in range(n))])
    assert read("jpc", f"jpc {n + 1}\n" + units).n_variables == 1


@pytest.mark.parametrize("log", ["700", "-700"])
def test_weights_that_multiply_to_numbers_beyond_doubles(read, log):
    sums = "".join(f"+ {i} {log}\n" for i in range(5))
    message = r"attack\.{}: .* beyond the range of double precision"
    assert_raises(ParseError, message.format("spn"), read, "spn", f"(2)\nv 0 0\n{sums}EOF\n")
    sums = "".join(f"S {i + 1} 0 1 {i} {log}\n" for i in range(5))
    assert_raises(ParseError, message.format("jpc"), read, "jpc", f"jpc 6\nL 0 0 1\n{sums}")


@pytest.mark.parametrize("suffix", READERS)
def test_damaged_files(tmp_path, suffix):
    outcome = fuzz(suffix, 2_000, tmp_path)
    for number, data, what in outcome.failures:
        pytest.fail(f"file {number}, {data!r}: {what}")
    assert outcome.read > 20  # the damage is not always so bad that nothing is left to find
    assert outcome.refused > 200


@pytest.mark.parametrize("suffix", READERS)
def test_files_before_the_damage_are_sound(tmp_path, suffix):
    path = tmp_path / f"sound.{suffix}"
    for data in seeds(tmp_path)[suffix]:
        path.write_bytes(data)
        READERS[suffix](path)
