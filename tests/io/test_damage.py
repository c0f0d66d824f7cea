"""Whatever happens to a file, readers either read it or say what is wrong with it."""

import contextlib

import pytest
from hypothesis import given, strategies as st

from expectedkernels import (
    CircuitError,
    io,
    read_jpc,
    read_psdd,
    read_vtree,
    write_jpc,
    write_psdd,
    write_vtree,
)

READERS = {"psdd": read_psdd, "jpc": read_jpc, "spn": io.read_spn, "vtree": read_vtree}
TOKENS = "0 1 -1 2 5 0.5 -800 nan -inf inf 1e400 99999999999999999999 x L T D P S I C B EOF + * v"
EDITS = st.tuples(
    st.sampled_from(["replace", "insert", "delete", "cut"]),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([*TOKENS.split(), "(", ")", "\n", "\0", "é"]),
)


@pytest.fixture(scope="module")
def intact(scratch, chain):
    """The tokens of the files of a small circuit; line ends are tokens, too."""
    circuit = chain(4)
    write_psdd(circuit, scratch / "intact.psdd")
    write_jpc(circuit, scratch / "intact.jpc")
    io.write_spn(circuit, scratch / "intact.spn")
    write_vtree(circuit.vtree, scratch / "whole.vtree")
    paths = {suffix: scratch / f"intact.{suffix}" for suffix in READERS}
    paths["vtree"] = scratch / "whole.vtree"
    return {
        suffix: path.read_text().replace("\n", " \n ").split(" ") for suffix, path in paths.items()
    }


@pytest.mark.parametrize("suffix", READERS)
@given(edits=st.lists(EDITS, min_size=1, max_size=4))
def test_damaged_files(scratch, intact, suffix, edits):
    tokens = list(intact[suffix])
    for edit, share, token in edits:
        place = int(share * len(tokens))
        if edit == "cut":
            del tokens[place:]
        else:
            tokens[place : place + (edit != "insert")] = [] if edit == "delete" else [token]
    path = scratch / f"damaged_{suffix}.txt"
    path.write_text(" ".join(tokens), encoding="utf-8")
    with contextlib.suppress(CircuitError):
        READERS[suffix](path)
