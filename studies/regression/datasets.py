"""The four regression data sets of the paper, from their raw files to bits, splits and targets."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd

from expectedkernels.checks import DataError

FOLDER = "EXPECTEDKERNELS_DATA"
"""The environment variable with the folder of the data, used if no folder is given."""
SEED = 1337
N_BINS = 10
SPLITS = ("train", "valid", "test")


Source = SimpleNamespace
"""A raw file, what its columns are, and the regressor that was selected for it.

With `name`, `file` and `where` it can be found (and its number on OpenML, or None); the columns
`target`, `discrete` and `continuous` (which are cut into bins), and all of them in `columns`;
`sha256`, the sums of bits (x) and targets (y) of the splits; `C`, `epsilon` and `gamma` of the
support vector regressor, as the paper's grid search selected them; `truncate`, whether targets lose
their digits after the decimal point; `fit_rows`, how many of the first training rows the regressor
is fitted to (None: all); and `unit`, what errors are given in multiples of.
"""


OPTIONAL = {"openml": None, "truncate": False, "fit_rows": None, "unit": 1.0}
TABLES = tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))
SOURCES = {name: Source(name=name, **OPTIONAL | table) for name, table in TABLES.items()}
for _source in SOURCES.values():
    _source.columns = (*_source.discrete, *_source.continuous, _source.target)


@dataclass(frozen=True, eq=False)
class Split:
    """Some rows of a data set.

    Attributes
    ----------
    codes : int array of shape (rows, features)
        The category of every feature, numbered from 0; -1 if it does not occur in training.
    bits : float array of shape (rows, bits)
        The same, one-hot encoded; a category that does not occur in training is all zeros.
    y : array of shape (rows,)
        The target.
    """

    codes: Any
    bits: Any
    y: Any


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in three splits.

    Attributes
    ----------
    source : Source
    sizes : tuple of int
        The number of categories (and bits) of every feature.
    train, valid, test : Split
    verified : bool
        Whether the splits are exactly those of the paper.
    """

    source: Source
    sizes: tuple[int, ...]
    train: Split
    valid: Split
    test: Split
    verified: bool = False

    @property
    def groups(self) -> list[slice]:
        """Where the bits of every feature are."""
        stops = np.cumsum(self.sizes).tolist()
        return [slice(stop - size, stop) for stop, size in zip(stops, self.sizes, strict=True)]


def data_folder(folder: str | Path | None = None) -> Path:
    """The folder of the data: the given one, else that of EXPECTEDKERNELS_DATA.

    The raw files are looked for in its folder `regression`, if there is one.

    Examples
    --------
    >>> data_folder("somewhere").name
    'somewhere'
    """
    given = os.environ.get(FOLDER) if folder is None else folder
    if not given:
        raise DataError(
            "No folder with the data was named. Give one with --data-dir, or set the environment "
            f"variable {FOLDER}; raw files that are on OpenML are put there if they are missing."
        )
    path = Path(given)
    if path.exists() and not path.is_dir():
        raise DataError(f"The folder with the data must be a folder. {path} is a file.")
    return path / "regression" if (path / "regression").is_dir() else path


def load(name: str, folder: str | Path | None = None, *, check: bool = True) -> Dataset:
    """The data set of this name, read from its raw file and split as in the paper.

    The rows are permuted with a fixed seed; 70 % of them are for training, and 20 % as many for
    validation. Real features are cut into ten equal bins of their training range, with
    categories of their own below it and from its maximum on.

    Parameters
    ----------
    name : str
        One of `SOURCES`.
    folder : str or Path, optional
        See `data_folder`. A file that is missing is fetched from OpenML, if it is there.
    check : bool
        Whether to raise if the bits and targets are not exactly those of the paper.

    Raises
    ------
    DataError
        If there is no such data set or file, or if its splits are not those of the paper.

    Examples
    --------
    >>> load("iris")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    expectedkernels.DataError: There is no data set 'iris'. There are: abalone; ...
    """
    if name not in SOURCES:
        raise DataError(f"There is no data set {name!r}. There are: {'; '.join(SOURCES)}.")
    source = SOURCES[name]
    dataset = prepare(source, raw_table(source, folder))
    different = [file for file, digest in digests(dataset).items() if digest != source.sha256[file]]
    if different and check:
        raise DataError(
            f"The {name} data of {source.file} are not those of the paper: {', '.join(different)} "
            "differ in their SHA-256 sums. The splits depend on the order of the rows, so files "
            f"from other places may give others. Take the file from {source.where}, or go on "
            "without this check (--no-check); the numbers are then not comparable."
        )
    return replace(dataset, verified=not different)


def raw_table(source: Source, folder: str | Path | None) -> Any:
    """The columns of a data set in a folder, as text; fetched from OpenML if it is missing."""
    path = data_folder(folder) / source.file
    if not path.exists():
        fetch(source, path)
    return read_table(source, path)


def read_table(source: Source, path: Path) -> Any:
    """The columns of a raw file with a header, as text."""
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, skip_blank_lines=True)
    except ValueError as error:  # nothing in it, or lines of several lengths
        raise DataError(f"{path} must be a table with a line of column names: {error}.") from None
    table = table.rename(columns=str.strip)
    missing = [name for name in source.columns if name not in table]
    if missing or (table == "").any(axis=None):
        absent = ", ".join(map(repr, missing))
        found = f"There is no column {absent}" if missing else "Cells are empty"
        raise DataError(
            f"{path} must start with a line of column names, and have no missing values. "
            f"{found} in it; found {list(table)}."
        )
    return table[list(source.columns)].apply(lambda column: column.str.strip())


def prepare(source: Source, table: Any) -> Dataset:
    """The splits of a table of text: features as categories and bits, discrete ones first."""
    order = np.random.RandomState(SEED).permutation(len(table[source.target]))
    n_train = int(0.7 * len(order))
    stop = n_train + int(0.2 * n_train)
    if n_train < 2 or stop >= len(order):
        raise DataError(f"The {source.name} data need at least ten rows. Got {len(order)}.")

    def numbers(name: str) -> Any:
        try:
            return np.asarray(table[name], dtype=np.float64)
        except ValueError as error:
            text = f"The column {name!r} of {source.file} must hold numbers: {error}."
            raise DataError(text) from None

    columns, sizes = [], []
    for name in (*source.discrete, *source.continuous):
        column: Any = np.asarray(table[name], dtype=str)
        if name in source.continuous:
            edges = np.histogram(numbers(name)[order[:n_train]], bins=N_BINS)[1]
            column = np.digitize(numbers(name), edges)
        seen = np.unique(column[order[:n_train]])
        columns.append(pd.Index(seen).get_indexer(column))
        sizes.append(len(seen))
    codes, y = np.stack(columns, axis=1), numbers(source.target)
    y = np.trunc(y) if source.truncate else y
    parts = (order[:n_train], order[n_train:stop], order[stop:])
    splits: Any = [Split(codes[rows], one_hot(codes[rows], sizes), y[rows]) for rows in parts]
    return Dataset(source, tuple(sizes), *splits)


def one_hot(codes: Any, sizes: Any) -> Any:
    """The one-hot bits of categories; -1 is all zeros.

    Examples
    --------
    >>> one_hot(np.array([[0, 1], [1, -1]]), [2, 3]).tolist()
    [[1.0, 0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]]
    """
    parts = [codes[:, [i]] == np.arange(size) for i, size in enumerate(sizes)]
    return np.concatenate(parts, axis=1).astype(np.float64)


def digests(dataset: Dataset) -> dict[str, str]:
    """The SHA-256 sums of all splits, written as text: rows of bits, and targets."""
    found: dict[str, str] = {}
    form = "%.0f" if dataset.source.truncate else "%.6f"
    for name in SPLITS:
        split: Split = getattr(dataset, name)
        for what, values in (("x", split.bits.astype(np.intp)), ("y", split.y)):
            text = pd.DataFrame(values).to_csv(header=False, index=False, float_format=form)
            found[f"{name}_{what}.csv"] = sha256(text.encode()).hexdigest()
    return found


def fetch(source: Source, path: Path) -> None:
    """Fetch a raw file from OpenML and write it to the path; raises where that is not possible."""
    where = f"Get it from {source.where}, and save it there with a first line of column names"
    if source.openml is None:
        raise DataError(f"{path} does not exist, and it is not on OpenML. {where}.")
    from sklearn.datasets import fetch_openml

    def plain(name: str) -> str:  # without what spellings differ in
        return "".join(letter for letter in name.lower() if letter.isalnum())

    try:
        with catch_warnings():
            simplefilter("ignore")  # what goes wrong in the end is said below
            found = fetch_openml(data_id=source.openml, as_frame=True, n_retries=1, delay=0.5)
        table = found.data.rename(columns=plain).assign(**{plain(source.target): found.target})
        table = table[[plain(name) for name in source.columns]]
    except Exception as error:  # whatever is wrong with the connection, the server or the answer
        raise DataError(
            f"{path} does not exist, and could not be fetched from OpenML "
            f"(data set {source.openml}): {type(error).__name__}: {error}. {where}."
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, header=list(source.columns), index=False)
