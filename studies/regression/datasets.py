"""The four regression data sets of the paper, from their raw files to bits, splits and targets."""

from __future__ import annotations

import csv
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from expectedkernels.checks import DataError
from studies.base import check_names

FOLDER = "EXPECTEDKERNELS_DATA"
"""The environment variable with the folder of the data, used if no folder is given."""
SEED = 1337
N_BINS = 10
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Source:
    """A raw file, what its columns are, and the regressor that was selected for it.

    Attributes
    ----------
    name, file : str
    target : str
        The column to predict.
    discrete, continuous : sequences of str
        The columns that are categories, and those that are cut into bins.
    where : str
        Where the file can be found.
    sha256 : mapping
        The SHA-256 sums of bits (x) and targets (y) of the splits.
    C, epsilon, gamma : float
        The parameters of the support vector regressor, as the paper's grid search selected them.
    openml : int or None
        Its number on OpenML.
    truncate : bool
        Whether targets lose their digits after the decimal point.
    fit_rows : int or None
        Fit the regressor to so many of the first training rows. None: all.
    unit : float
        What errors are given in multiples of.
    """

    name: str
    file: str
    target: str
    discrete: Sequence[str]
    continuous: Sequence[str]
    where: str
    sha256: Mapping[str, str]
    C: float
    epsilon: float
    gamma: float
    openml: int | None = None
    truncate: bool = False
    fit_rows: int | None = None
    unit: float = 1.0

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are used, the target last."""
        return (*self.discrete, *self.continuous, self.target)


_TOML = Path(__file__).with_name("sources.toml").read_text(encoding="utf-8")
SOURCES = {name: Source(name, **table) for name, table in tomllib.loads(_TOML).items()}


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
        Whether the splits are those of the paper, bit for bit.
    """

    source: Source
    sizes: tuple[int, ...]
    train: Split
    valid: Split
    test: Split
    verified: bool

    @property
    def n_bits(self) -> int:
        """The number of bits of a row."""
        return sum(self.sizes)

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
    check_names({"data set": ([name], SOURCES)})
    source = SOURCES[name]
    path = data_folder(folder) / source.file
    if not path.exists():
        fetch(source, path)
    dataset = prepare(source, read_table(source, path))
    different = [file for file, digest in digests(dataset).items() if digest != source.sha256[file]]
    if different and check:
        raise DataError(
            f"The {name} data made from {path} are not those of the paper: {', '.join(different)} "
            "differ in their SHA-256 sums. The splits depend on the order of the rows, so files "
            f"from other places may give others. Take the file from {source.where}, or go on "
            "without this check (--no-check); the numbers are then not comparable."
        )
    return replace(dataset, verified=not different)


def read_table(source: Source, path: Path) -> dict[str, list[str]]:
    """The columns of a raw file with a header, as text, by name."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    names = [name.strip() for name in rows[0]] if rows else []
    missing = [name for name in source.columns if name not in names]
    if missing:
        raise DataError(
            f"{path} must start with a line of column names. There is no column "
            f"{', '.join(map(repr, missing))} in it; found {names}."
        )
    ragged = [i for i, row in enumerate(rows, start=1) if len(row) != len(names)]
    if ragged:
        raise DataError(
            f"{path}, line {ragged[0]}: expected {len(names)} cells. "
            f"Found {len(rows[ragged[0] - 1])}."
        )
    return {name: [row[names.index(name)].strip() for row in rows[1:]] for name in source.columns}


def prepare(source: Source, table: dict[str, list[str]]) -> Dataset:
    """The splits of a table: features as categories and bits, discrete ones first."""
    order = np.random.RandomState(SEED).permutation(len(table[source.target]))
    n_train = int(0.7 * len(order))
    stop = n_train + int(0.2 * n_train)
    if n_train < 2 or stop >= len(order):
        raise DataError(f"The {source.name} data need at least ten rows. Got {len(order)}.")
    columns, sizes = [], []
    for name in (*source.discrete, *source.continuous):
        column: Any = np.asarray(table[name])
        if name in source.continuous:
            column = _numbers(source, name, table[name])
            edges = np.histogram(column[order[:n_train]], bins=N_BINS)[1]
            column = np.digitize(column, edges)
        seen = np.unique(column[order[:n_train]])
        place = np.minimum(np.searchsorted(seen, column), len(seen) - 1)
        columns.append(np.where(seen[place] == column, place, -1))
        sizes.append(len(seen))
    codes = np.stack(columns, axis=1)
    y = _numbers(source, source.target, table[source.target])
    y = np.trunc(y) if source.truncate else y
    parts = (order[:n_train], order[n_train:stop], order[stop:])
    splits = [Split(codes[rows], one_hot(codes[rows], sizes), y[rows]) for rows in parts]
    return Dataset(source, tuple(sizes), splits[0], splits[1], splits[2], verified=False)


def _numbers(source: Source, name: str, cells: list[str]) -> Any:
    try:
        return np.asarray(cells, dtype=np.float64)
    except ValueError as error:
        raise DataError(
            f"The column {name!r} of {source.file} must hold numbers: {error}."
        ) from None


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
    found = {}
    for name in SPLITS:
        split: Split = getattr(dataset, name)
        rows = split.bits.astype(np.int64).tolist()
        x = "".join(",".join(map(str, row)) + "\n" for row in rows)
        digits = 0 if dataset.source.truncate else 6
        y = "".join(f"{value:.{digits}f}\n" for value in split.y.tolist())
        found[f"{name}_x.csv"] = sha256(x.encode()).hexdigest()
        found[f"{name}_y.csv"] = sha256(y.encode()).hexdigest()
    return found


def fetch(source: Source, path: Path) -> None:
    """Fetch a raw file from OpenML and write it to the path; raises where that is not possible."""
    where = f"Get it from {source.where}, and save it there with a first line of column names"
    if source.openml is None:
        raise DataError(f"{path} does not exist, and it is not on OpenML. {where}.")
    from sklearn.datasets import fetch_openml

    try:
        with catch_warnings():
            simplefilter("ignore")  # what goes wrong in the end is said below
            found = fetch_openml(data_id=source.openml, as_frame=True, n_retries=1, delay=0.5)
        table = found.data.rename(columns=_plain).assign(**{_plain(source.target): found.target})
        table = table[[_plain(name) for name in source.columns]]
    except Exception as error:  # whatever is wrong with the connection, the server or the answer
        raise DataError(
            f"{path} does not exist, and could not be fetched from OpenML "
            f"(data set {source.openml}): {type(error).__name__}: {error}. {where}."
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    table.to_csv(partial, header=list(source.columns), index=False)
    partial.replace(path)


def _plain(name: str) -> str:
    """A name without what spellings differ in."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
