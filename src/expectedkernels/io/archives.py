"""NumPy archives from strangers: every array is checked before memory is taken for it."""

from __future__ import annotations

import os
import re
import zipfile
from collections import Counter
from io import BytesIO
from typing import Any

import numpy as np

from expectedkernels.errors import ParseError
from expectedkernels.io.text import PathLike, shown

MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    rb"\{'descr': '([^']*)', 'fortran_order': (?:True|False), 'shape': \(([0-9, ]*)\), \} *\n"
)
KNOWN = re.compile(r"[<>|][iufU][0-9]{1,9}")
"""The types of numbers and text; no other type (objects least of all) is ever made."""
KINDS = {"i": "integers", "f": "floats", "U": "texts"}


class Archive:
    """The members of an uncompressed `.npz` file, in no more memory than the file takes.

    Parameters
    ----------
    path : path
        The file.

    Attributes
    ----------
    names : frozenset of str
        The arrays that the file holds.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.npz")
    ...     np.savez(path, x=np.array([0.5, 2.0]))
    ...     Archive(path).array("x", "f")
    array([0.5, 2. ])
    """

    def __init__(self, path: PathLike):
        self.path = os.fspath(path)
        with open(self.path, "rb") as file:
            data = file.read()
        try:
            self._members = _members(data)
        except Exception as error:  # damage shows up in many ways inside zipfile
            raise self._unknown(str(error)) from error
        self.names = frozenset(self._members)

    def _unknown(self, what: str) -> ParseError:
        return ParseError(
            "expected a circuit written by save(), but the file is damaged, cut off or something "
            f"else ({what})",
            path=self.path,
        )

    def array(self, name: str, kind: str) -> Any:
        """The array of a name, in one dimension and in the byte order of this machine.

        Parameters
        ----------
        name : str
        kind : "i", "f" or "U"
            Whether it holds integers, floats (of four or eight bytes) or texts.
        """
        data = self._members.get(name)
        if data is None:
            raise ParseError(f"expected an array {name!r} of {KINDS[kind]}, found none", self.path)
        dtype, shape, start = self._header(name, data)
        if dtype is None or dtype.kind != kind or len(shape) != 1:
            raise ParseError(
                f"expected an array {name!r} of {KINDS[kind]} in one dimension, found another",
                self.path,
            )
        if kind == "f" and dtype.itemsize not in (4, 8):
            raise ParseError(
                f"expected an array {name!r} of floats of 4 or 8 bytes, found {dtype.itemsize}",
                self.path,
            )
        if shape[0] * dtype.itemsize != len(data) - start:
            raise ParseError(
                f"the array {name!r} announces {shape[0]} entries of {dtype.itemsize} bytes, "
                f"found {len(data) - start} bytes",
                self.path,
            )
        found = np.frombuffer(data, dtype, offset=start) if shape[0] else np.empty(0, dtype)
        return found.astype(dtype.newbyteorder("="))

    def _header(self, name: str, data: bytes) -> tuple[Any, list[int], int]:
        """The type of an array (None: not of numbers or text), its shape, and its first byte."""
        size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 2], "little")
        start = len(MAGIC) + 2 + size
        header = HEADER.fullmatch(data[len(MAGIC) + 2 : start])
        if not data.startswith(MAGIC) or header is None or len(data) < start:
            raise self._unknown(f"the member {shown(name)} is no array")
        descr = header[1].decode("latin-1")
        lengths = header[2].replace(b" ", b"").split(b",")
        if any(len(length) > 18 for length in lengths):
            raise self._unknown(f"the array {shown(name)} has a length of too many digits")
        dtype = np.dtype(descr) if KNOWN.fullmatch(descr) and _exists(descr) else None
        return dtype, [int(length) for length in lengths if length], start


def _exists(descr: str) -> bool:
    """Whether NumPy has the type of a description, with at least one byte per entry."""
    try:
        return np.dtype(descr).itemsize > 0
    except (TypeError, ValueError):
        return False


def _members(data: bytes) -> dict[str, bytes]:
    """The contents of the members of an archive by their names without `.npy`."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("its arrays are compressed")
        # members may overlap, so that all of them together are larger than the file
        if sum(member.file_size for member in members) > len(data):
            raise ValueError("its arrays are larger than the file")
        names = Counter(member.filename for member in members)
        for name, count in names.items():
            if count > 1 or not name.endswith(".npy"):
                raise ValueError(f"its members are not one array each: {shown(name)}")
        return {member.filename.removesuffix(".npy"): archive.read(member) for member in members}
