"""Damaged files by the thousand: whatever is done to a file, readers read it or refuse it.

``python tests/file_fuzzing.py 100000`` tries as many files of every format and prints a summary.
"""

import gzip
import io
import random
import re
import sys
import tempfile
import traceback
import tracemalloc
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import expectedkernels as ek

READERS = {
    "vtree": ek.read_vtree,
    "psdd": ek.read_psdd,
    "jpc": ek.read_jpc,
    "spn": ek.io.read_spn,
    "uai": ek.read_uai,
    "evid": ek.read_uai_evidence,
    "bif": ek.read_bif,
    "npz": ek.load,
    "csv": ek.io.read_table,
}
REFUSALS = {
    # a list of units may be a sound file and still no circuit with a vtree
    "jpc": (ek.ParseError, ek.PropertyError),
    "spn": (ek.ParseError, ek.PropertyError),
}
ODD = (
    "-1 0 1 2 3 7 99 -0 +1 1048576 1048577 2147483648 4294967297 9223372036854775807 nan inf -inf "
    "99999999999999999999 1e308 1e999 -1e999 5e-324 709 -700 0.5 1.5 1_0 0x1F ٣ ² é \0 ( ) { } "
    f"[ ] | ; , \" ' <a> </a> &lt; &b; <!-- /* // # c \t \r \n \x0b \x85 \u2028 {'9' * 5000}"
).split(" ")
TOKEN = re.compile(rb"[^\s,;(){}\[\]|<>\"]+")
MEMORY = 600e6
"""No small file may take more bytes than this."""


def seeds(folder):
    """Small sound files of every format."""
    rng = np.random.default_rng(0)
    found = {suffix: [] for suffix in READERS}

    def keep(suffix, write, *things):
        path = folder / f"seed.{suffix}"
        write(*things, path)
        found[suffix].append(path.read_bytes())

    for vtree in (ek.Vtree.balanced(3), ek.Vtree.right_linear(2)):
        circuit = ek.random_circuit(vtree, 2, rng=rng)
        keep("vtree", ek.write_vtree, vtree)
        for suffix, write in (
            ("psdd", ek.write_psdd),
            ("jpc", ek.write_jpc),
            ("spn", ek.io.write_spn),
        ):
            keep(suffix, write, circuit.normalize())
        keep("npz", ek.save, circuit)
    found["jpc"].append(b"jpc 4\nI 0 0 1 2\nB 1 0 2 3 -0.5\nC 2 0 3 -1 -2\nP 3 0 3 0 1 2\n")
    found["spn"].append(b"(2 2)\nv 0 0\nv 1 1\n* 0 1\n+ 2 700\n+ 3 -700 2 0\n+ 4 1.5\nEOF\n")
    keep("npz", ek.save, ek.gaussian_mixture([0.5, 0.5], rng.random((2, 2)), np.ones((2, 2))))
    network = ek.BayesianNetwork(
        [[], [0], [1, 0]],
        [rng.dirichlet([1, 1]), rng.dirichlet([1, 1, 1], 2), rng.dirichlet([1, 1], (3, 2))],
        ["a", "b c", "d"],
        [["t", "f"], ["x", "y", "z"], ["0", "1"]],
    )
    keep("bif", ek.io.write_bif, network)
    found["bif"].append(
        b"variable a { type discrete [2] { t, f }; property x; } // note\n"
        b"variable b { type discrete [2] { t, f }; } /* note */\n"
        b"probability ( a ) { table 0.5 0.5; }\n"
        b"probability ( b | a ) { (t) 0.1, 0.9; default 1 0; }\n"
    )
    keep("uai", ek.write_uai, network)
    keep("uai", ek.write_uai, ek.FactorGraph([2, 3], [ek.Factor([1, 0], rng.random((3, 2)))]))
    keep("evid", ek.io.write_uai_evidence, {3: 0, 5: 1})
    keep("evid", ek.io.write_uai_evidence, [{3: 0, 5: 1}, {}, {2: 1}])
    found["csv"] += [
        b"size,color\n1,0\n2,\n0,3\n",
        b'"a";"b c";c\n1;0;NA\n2;?;"4"\n',
        b"0 1 2\n1 1 nan\n",
    ]
    return found


def mutated(rng, files):
    """A file with one to four kinds of damage."""
    data = rng.choice(files)
    if data.startswith(b"PK") and rng.random() < 0.8:
        return _mutated_archive(rng, data)
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(MUTATIONS)(rng, data, files)
    if rng.random() < 0.05:
        data = gzip.compress(data, 1, mtime=0)
        if rng.random() < 0.5:
            data = _flip(rng, data, files)
    return data


def _span(rng, data):
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.choice((1, 2, 5, 20, 100)))


def _flip(rng, data, _):
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if out:
            out[rng.randrange(len(out))] = rng.choice((rng.randrange(256), 0, 10, 13, 32, 34, 255))
    return bytes(out)


def _delete(rng, data, _):
    start, stop = _span(rng, data)
    return data[:start] + data[stop:]


def _duplicate(rng, data, _):
    start, stop = _span(rng, data)
    return data[:stop] + data[start:stop] * rng.choice((1, 1, 3)) + data[stop:]


def _swap_tokens(rng, data, _):
    places = [match.span() for match in TOKEN.finditer(data)]
    if len(places) < 2:
        return data
    (a, b), (c, d) = sorted(rng.sample(places, 2))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _edit_token(rng, data, _):
    places = [match.span() for match in TOKEN.finditer(data)]
    if not places:
        return data
    start, stop = rng.choice(places)
    return data[:start] + rng.choice(ODD).encode() + data[stop:]


def _move_lines(rng, data, _):
    lines = data.split(b"\n")
    lines.insert(rng.randrange(len(lines)), lines.pop(rng.randrange(len(lines))))
    return b"\n".join(lines)


def _truncate(rng, data, _):
    return data[: rng.randint(0, len(data))]


def _splice(rng, data, files):
    other = rng.choice(files)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


MUTATIONS = [_flip, _delete, _duplicate, _swap_tokens, _move_lines, _truncate, _splice]
MUTATIONS += [_edit_token] * 3


def _mutated_archive(rng, data):
    """An archive of damaged members whose checksums are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(rng.randint(1, 2)):
        name = rng.choice(list(members))
        kind = rng.random()
        if kind < 0.2:
            members[name] = members[rng.choice(list(members))]
        elif kind < 0.25:
            members[rng.choice(["extra.npy", "extra", "../x.npy"])] = members.pop(name)
        elif kind < 0.5:
            members[name] = rng.choice(MUTATIONS)(rng, members[name], list(members.values()))
        else:
            members[name] = _edit_array(rng, members[name])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, member in members.items():
            archive.writestr(zipfile.ZipInfo(name), member)  # without the time of day
    return out.getvalue()


def _edit_array(rng, member):
    """The member of an array with another number in one place, another length or type."""
    try:
        array = np.load(io.BytesIO(member)).ravel()
        kind = rng.random()
        if kind < 0.2:
            array = array.astype(rng.choice(["i1", ">i4", ">f8", "f2", "u8", "c16", "U3", "S2"]))
        elif kind < 0.4:
            array = np.concatenate([array, array[: rng.randint(0, 3)]])
        elif kind < 0.5:
            array = array[: rng.randint(0, len(array))]
        elif len(array):
            numbers = [-2, -1, 0, 1, 2, 3, 127, 2**20, 2**31, 2**62, 1e308, float("nan"), 5e-324]
            with np.errstate(all="ignore"):
                array[rng.randrange(len(array))] = rng.choice(numbers)
    except Exception:  # damaged before, or a number that the type does not hold
        return member
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@dataclass
class Outcome:
    """What came of the damaged files of one format."""

    read: int = 0
    refused: int = 0
    failures: list[tuple[int, bytes, str]] = field(default_factory=list)


def fuzz(suffix, count, folder, seed=0):
    """Try damaged files of a format, each known by its number; memory is watched now and then."""
    files = seeds(folder)[suffix]
    refusals = REFUSALS.get(suffix, (ek.ParseError,))
    path = folder / suffix / f"damaged.{suffix}"  # alone, as a .psdd file looks for a .vtree file
    path.parent.mkdir()
    outcome = Outcome()
    for number in range(count):
        data = mutated(random.Random(f"{suffix} {seed} {number}"), files)
        path.write_bytes(data)
        watched = number % 50 == 0
        if watched:
            tracemalloc.start()
        try:
            READERS[suffix](path)
            outcome.read += 1
        except refusals:
            outcome.refused += 1
        except Exception:
            outcome.failures.append((number, data, traceback.format_exc()))
        if watched:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > MEMORY:
                outcome.failures.append((number, data, f"took {peak} bytes"))
    return outcome


def main():
    """Try files of all formats and print a summary; the exit status says whether all went well."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as folder:
        outcomes = {suffix: fuzz(suffix, count, Path(folder), seed=1) for suffix in READERS}
    print(f"{'format':8}{'read':>9}{'refused':>9}{'failed':>9}")
    for suffix, found in outcomes.items():
        print(f"{suffix:8}{found.read:>9}{found.refused:>9}{len(found.failures):>9}")
    for suffix, found in outcomes.items():
        for number, data, what in found.failures[:3]:
            print(f"\n{suffix} file {number}: {data[:2000]!r}\n{what}")
    return int(any(found.failures for found in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
