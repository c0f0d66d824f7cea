"""Results in a file that grows, and survives interruptions."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from expectedkernels.errors import DataError, ParseError

FILES = "files"
"""Where `settings.json` has the sums of files: more of them may come later."""


class OfCell(Protocol):
    """A result, which is of a cell of a study."""

    @property
    def cell(self) -> Any:
        """Where the result is from."""


R = TypeVar("R", bound=OfCell)


class ResultsFile(Generic[R]):
    """The results in a folder, each under a key of its own.

    A study says in a subclass what its results are: the columns of the file, a result from a row
    and back, and the key of a result.

    Parameters
    ----------
    folder : str or Path
        Made if there is none; `results.csv` in it is read if it is there.
    settings : mapping
        Kept in `settings.json`. Results that were made with other settings are refused.
    """

    HEADER: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]):
        self.folder = Path(folder)
        self.path = self.folder / "results.csv"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check_settings(dict(settings))
        self._found: dict[Hashable, R] = {}
        if self.path.exists():
            self._read()

    def parse(self, row: list[str]) -> R:
        """The result in a row of the file; raises ValueError if there is none."""
        raise NotImplementedError

    def row(self, record: R) -> Sequence[Any]:
        """A result as a row of the file."""
        raise NotImplementedError

    def key(self, record: R) -> Hashable:
        """What a result is of."""
        raise NotImplementedError

    def _check_settings(self, settings: dict[str, Any]) -> None:
        path = self.folder / "settings.json"
        if path.exists() and self.path.exists():
            before = json.loads(path.read_text(encoding="utf-8"))
            before.pop(FILES, None)
            if before != settings:
                raise DataError(
                    f"The results in {self.folder} were made with other settings: {before}, and "
                    f"not {settings}. Choose another folder with --out, or remove this one."
                )
            return
        self._write_settings(settings)

    def _write_settings(self, settings: dict[str, Any]) -> None:
        path = self.folder / "settings.json"
        path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # an append was cut off
            os.truncate(self.path, len(whole.encode()))
        for line, row in enumerate(csv.reader(io.StringIO(whole)), start=1):
            if line == 1:
                if tuple(row) != self.HEADER:
                    raise ParseError(
                        f"expected the columns {', '.join(self.HEADER)}, found {', '.join(row)}. "
                        "Choose another folder with --out",
                        str(self.path),
                        1,
                    )
                continue
            try:
                record = self.parse(row)
            except ValueError:
                raise ParseError(f"expected a result, found {row}", str(self.path), line) from None
            self._note(record)

    def _note(self, record: R) -> None:
        self._found[self.key(record)] = record

    def __contains__(self, key: Hashable) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[R]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def values(self, field: str) -> list[Any]:
        """The distinct values of a field of the cells, in the order of the file."""
        return list(dict.fromkeys(getattr(record.cell, field) for record in self))

    def add(self, records: Sequence[R]) -> None:
        """Append results to the file, all or (if the process is killed) at most a cut-off line."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.path.exists() or self.path.stat().st_size == 0:
            writer.writerow(self.HEADER)
        for record in records:
            writer.writerow(self.row(record))
            self._note(record)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, text.getvalue().encode())
        finally:
            os.close(descriptor)
