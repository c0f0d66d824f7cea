"""The tables of the study of missing values, and what goes missing in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn import datasets

from expectedkernels.checks import DataError
from studies.regression.datasets import SOURCES, data_folder, read_table

REGRESSION, CLASSIFICATION = "regression", "classification"
N_PIXELS = 20
"""So many pixels of the digits are columns: those of the largest variance."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table without missing values.

    Attributes
    ----------
    name, task : str
    X : array of shape (rows, columns)
        Numbers, and the one-hot bits of categories.
    variables : tuple of tuples of int
        The columns of every variable: one of a number, several of a category.
    y : array of shape (rows,)
        Targets of mean zero and variance one, or the numbers of classes.
    """

    name: str
    task: str
    X: Any
    variables: tuple[tuple[int, ...], ...]
    y: Any

    @property
    def groups(self) -> list[list[int]]:
        """The columns of the categories."""
        return [list(columns) for columns in self.variables if len(columns) > 1]

    @property
    def owner(self) -> Any:
        """The variable of every column."""
        return np.repeat(np.arange(len(self.variables)), [len(c) for c in self.variables])


def make_table(name: str, task: str, columns: Sequence[Any], y: Any) -> Table:
    """The table of some columns, where those of text are categories.

    Examples
    --------
    >>> table = make_table("t", "regression", [["a", "b", "a"], [1.0, 2.0, 3.0]], [0.0, 3.0, 0.0])
    >>> table.X.tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 2.0], [1.0, 0.0, 3.0]]
    >>> table.variables
    ((0, 1), (2,))
    """
    parts, variables, start = [], [], 0
    for column in map(np.asarray, columns):
        part = column[:, None]
        if column.dtype.kind == "U":
            part = part == np.unique(column)
        parts.append(part.astype(np.float64))
        variables.append(tuple(range(start, start + part.shape[1])))
        start += part.shape[1]
    target = np.asarray(y)
    if task == REGRESSION:
        target = (target - target.mean()) / target.std()
    return Table(name, task, np.concatenate(parts, axis=1), tuple(variables), target)


SHIPPED = {
    "diabetes": REGRESSION,
    "linnerud": REGRESSION,
    "breast_cancer": CLASSIFICATION,
    "wine": CLASSIFICATION,
    "iris": CLASSIFICATION,
    "digits": CLASSIFICATION,
}
"""The tables that come with scikit-learn."""
TABLES = (*SHIPPED, *SOURCES)


def available(folder: str | Path | None) -> list[str]:
    """The tables that are there: those of scikit-learn, and those in a folder.

    Examples
    --------
    >>> available(None)
    ['diabetes', 'linnerud', 'breast_cancer', 'wine', 'iris', 'digits']
    """
    if folder is None:
        return list(SHIPPED)
    where = data_folder(folder)
    return [*SHIPPED, *(name for name, s in SOURCES.items() if (where / s.file).is_file())]


def load_table(name: str, folder: str | Path | None = None) -> Table:
    """The table of this name, one of `TABLES`.

    Examples
    --------
    >>> table = load_table("iris")
    >>> table.task, table.X.shape
    ('classification', (150, 4))
    """
    if name in SHIPPED:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        X = X[:, np.argsort(-X.std(axis=0))[:N_PIXELS]] if name == "digits" else X
        return make_table(name, SHIPPED[name], X.T, y[:, 0] if name == "linnerud" else y)
    source = SOURCES[name]
    path = data_folder(folder) / source.file
    if not path.is_file():
        raise DataError(
            f"The table {name} is not there: {path} does not exist. Get it from {source.where}, or "
            "leave this table out."
        )
    found = read_table(source, path)
    columns = [_numbers_or_text(found[name]) for name in (*source.discrete, *source.continuous)]
    return make_table(name, REGRESSION, columns, np.asarray(found[source.target], np.float64))


def _numbers_or_text(cells: list[str]) -> Any:
    try:
        return np.asarray(cells, dtype=np.float64)
    except ValueError:
        return np.asarray(cells)


STEEPNESS = 2.0
"""How fast the chance of a hole changes with the value that it depends on."""
LOWEST_RATE, HIGHEST_RATE = 0.1, 0.8
"""The rates at which rows of masked copies lose values: nobody knows those of the test rows."""


def draw_mask(rng: np.random.Generator, table: Table, mechanism: str, rate: float) -> Any:
    """Which values of a table are missing, (rows, variables).

    Parameters
    ----------
    rng : Generator
    table : Table
    mechanism : {"MCAR", "MAR", "MNAR"}
        Every value with the same chance; with a chance that depends on a third of the variables,
        which are never missing; or with a chance that depends on the value itself.
    rate : float
        The mean chance of those that may be missing.

    Examples
    --------
    >>> mask = draw_mask(np.random.default_rng(0), load_table("iris"), "MAR", 0.5)
    >>> mask.mean(axis=0).round(1).tolist()
    [0.4, 0.5, 0.5, 0.0]
    """
    n, m = len(table.X), len(table.variables)
    if mechanism == "MCAR":
        return rng.random((n, m)) < rate
    columns = [  # a number for every value: itself, or one that its category has drawn
        table.X[:, c[0]] if len(c) == 1 else table.X[:, list(c)] @ rng.normal(size=len(c))
        for c in table.variables
    ]
    scores = _standardised(np.stack(columns, axis=1))
    hidden = np.ones(m, dtype=bool)
    if mechanism == "MAR":
        seen = rng.choice(m, max(1, round(m / 3)), replace=False)
        hidden[seen] = False
        scores = _standardised(scores[:, seen] @ rng.normal(size=(len(seen), m)))
    else:
        scores = scores * rng.choice([-1.0, 1.0], m)
    chance = np.stack([_chances(column, rate) for column in scores.T], axis=1)
    return (rng.random((n, m)) < chance) & hidden


def _standardised(x: Any) -> Any:
    deviation = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _chances(score: Any, rate: float) -> Any:
    """Chances that grow with the score and have this mean."""
    steep = STEEPNESS * score
    most = 40.0 + np.abs(steep).max()
    return expit(steep + brentq(lambda a: expit(steep + a).mean() - rate, -most, most))


def draw_copy(rng: np.random.Generator, X: Any, owner: Any) -> Any:
    """The rows with more missing values, each row at a rate of its own.

    Examples
    --------
    >>> draw_copy(np.random.default_rng(4), np.ones((1, 3)), np.array([0, 0, 1])).tolist()
    [[nan, nan, 1.0]]
    """
    rate = rng.uniform(LOWEST_RATE, HIGHEST_RATE, (len(X), 1))
    return hide(X, rng.random((len(X), owner.max() + 1)) < rate, owner)


def hide(X: Any, mask: Any, owner: Any) -> Any:
    """The rows with NaN in all columns of the variables that are missing."""
    return np.where(mask[:, owner], np.nan, X)
