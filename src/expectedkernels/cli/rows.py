"""Commands that say something of every row: predictions, missing values, explanations."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expectedkernels.cli.base import (
    AsJson,
    Seed,
    Without,
    errors,
    note,
    show_json,
)
from expectedkernels.cli.pages import OutTable, Picture, Report, draw

if TYPE_CHECKING:
    from expectedkernels.cli.fitting import Fitted

Rows = Annotated[str, typer.Argument(help="The rows: a table (-: standard input).")]
Train = Annotated[str, typer.Option(help="The table to learn from (-: standard input).")]
Target = Annotated[str, typer.Option(help="The column of it to predict.")]
Classify = Annotated[
    bool, typer.Option("--classify", help="Numbers in the target are names of classes.")
]


def predict(
    rows: Rows,
    train: Train,
    target: Target,
    std: Annotated[
        bool, typer.Option("--std", help="Also how far predictions spread over what is missing.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Also intervals that hold this share of targets, such as 0.9."
        ),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probabilities of all classes.")
    ] = False,
    classify: Classify = False,
    without: Without = None,
    out: OutTable = "-",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Predict a column from the others, exactly averaged over all that is missing.

    Numbers are predicted by kernel ridge regression, words by a classifier. Columns that are left
    out stay beside the predictions.
    """
    with errors():
        from expectedkernels.cli.fitting import fit, read_like
        from expectedkernels.cli.tables import write_rows
        from expectedkernels.errors import DataError

        if as_json and out != "-":
            raise typer.BadParameter("--json prints, and --out writes a table: give one of them")
        _refuse_twice(rows, train)
        fitted = fit(train, target, classify, without, seed)
        if fitted.classes is None and proba:
            raise DataError(f"--proba is for classes, and {target!r} holds numbers (--classify?).")
        if fitted.classes is not None and (std or interval is not None):
            raise DataError(f"--std and --interval are for numbers, and {target!r} holds classes.")
        X, every = read_like(rows, fitted.table, train)
        note(f"Predicting {len(X)} rows ...")
        found = _predictions(fitted, X, std, interval, proba or as_json)
        if as_json:
            _show_predictions(fitted, target, found)
            return
        beside = {c.name: c.values for c in every.columns if c.name in set(without or ())}
        names = [target + (f"_{name}" if name else "") for name in found]
        write_rows([*beside, *names], [*beside.values(), *found.values()], out)


def _refuse_twice(rows: str, train: str | None) -> None:
    from expectedkernels.errors import DataError

    if rows == train == "-":
        raise DataError("Standard input can be one of two tables, and not both.")


def _predictions(
    fitted: Fitted, X: Any, std: bool, interval: float | None, proba: bool
) -> dict[str, Any]:
    """Columns of predictions: the first has no name, others say what they are."""
    model = fitted.model
    if fitted.classes is not None:
        found = {"": model.predict(X)}
        if proba:
            found |= dict(zip(map(str, fitted.classes), model.predict_proba(X).T, strict=True))
        return found
    if std:
        mean, spread = model.predict(X, return_std=True)
        found = {"": mean, "std": spread}
    else:
        found = {"": model.predict(X)}
    if interval is not None:
        found |= dict(zip(("low", "high"), model.predict_interval(X, interval), strict=True))
    return found


def _show_predictions(fitted: Fitted, target: str, found: dict[str, Any]) -> None:
    n = len(found[""])
    rows: list[dict[str, Any]] = [{"prediction": found[""][i]} for i in range(n)]
    for i, row in enumerate(rows):
        if fitted.classes is None:
            row |= {name: found[name][i] for name in found if name}
        else:
            row["probabilities"] = {name: found[name][i] for name in found if name}
    task = "regression" if fitted.classes is None else "classification"
    show_json({"target": target, "task": task, "rows": rows})


class Strategy(StrEnum):
    """What `impute` fills in."""

    MEAN = "mean"
    MAP = "map"
    SAMPLE = "sample"


def impute(
    rows: Rows,
    train: Annotated[
        str | None, typer.Option(help="The table to learn from. Default: the rows themselves.")
    ] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="Means of numbers and the most probable words; what is most probable together; "
            "or a draw."
        ),
    ] = Strategy.MEAN,
    without: Without = None,
    out: OutTable = "-",
    seed: Seed = 0,
) -> None:
    """Fill in what is missing in a table, by the exact distribution given the rest of each row.

    Columns that are left out are copied as they are.
    """
    with errors():
        from expectedkernels.cli.fitting import (
            objects,
            read_like,
            warn_of_empty,
            warn_of_free_text,
        )
        from expectedkernels.cli.tables import leave_out, read_all, read_columns, write_rows
        from expectedkernels.estimators.imputer import CircuitImputer

        _refuse_twice(rows, train)
        if train is None:
            every = read_all(rows, set(without or ()).__contains__)
            table = leave_out(every, without, rows)
            X, categorical = objects(table, rows)
            learned = X
        else:
            table = read_columns(train, without)
            learned, categorical = objects(table, train)
            X, every = read_like(rows, table, train)
        warn_of_free_text(table, train or rows)
        warn_of_empty(table, train or rows)
        imputer = CircuitImputer(
            strategy.value, categorical_features=categorical or None, random_state=seed
        )
        note(f"Filling in {len(X)} rows ...")
        done = imputer.fit(learned).transform(X)
        filled = {column.name: done[:, i] for i, column in enumerate(table.columns)}
        shown = {c.name: filled.get(c.name, c.values) for c in every.columns}
        write_rows(list(shown), list(shown.values()), out)


def explain(
    ctx: typer.Context,
    rows: Rows,
    train: Train,
    target: Target,
    row: Annotated[int, typer.Option(min=0, help="Which row, from 0.")] = 0,
    of: Annotated[
        str | None, typer.Option(help="The class to explain. Default: the predicted one.")
    ] = None,
    classify: Classify = False,
    without: Without = None,
    seed: Seed = 0,
    plot: Picture = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Print what every column of a row contributes to its prediction: Shapley values."""
    with errors():
        from expectedkernels.cli.fitting import fit, read_like
        from expectedkernels.errors import DataError
        from expectedkernels.estimators.shapley import shapley_values

        _refuse_twice(rows, train)
        fitted = fit(train, target, classify, without, seed)
        X, every = read_like(rows, fitted.table, train)
        if row >= len(X):
            raise DataError(f"There is no row {row}: rows are numbered from 0 to {len(X) - 1}.")
        X = X[[row]]
        found = shapley_values(fitted.model, X, rng=seed)
        at, name = _output(fitted, X, of)
        values, base, total = (
            part[0] if at is None else part[0, ..., at]
            for part in (found.values, found.base_values, found.predictions)
        )
        columns = [
            {"name": column.name, "value": x if x == x else None, "contribution": share}
            for column, x, share in zip(fitted.table.columns, X[0], values, strict=True)
        ]
        columns.sort(key=lambda part: -abs(part["contribution"]))
        if as_json:
            answer = {"target": target, "class": name, "row": row, "base": base}
            exact = found.standard_errors is None
            show_json(answer | {"prediction": total, "exact": exact, "columns": columns})
        else:
            what = target if name is None else f"{target} is {name}"
            _show_explanation(what, base, total, columns)
        words = {part["name"]: f"{part['contribution']:+.6g}" for part in columns}
        draw(
            ctx,
            f"{target} of row {row} of {rows}",
            {"nothing is known": f"{base:.6g}"} | words | {"prediction": f"{total:.6g}"},
            {"What contributes": lambda: _waterfall(columns, base)},
            {train: fitted.table, rows: every},
        )


def _waterfall(columns: list[dict[str, Any]], base: float) -> Any:
    import numpy as np

    from expectedkernels.plotting.contributions import plot_waterfall

    names = [part["name"] for part in columns]
    data = np.array([part["value"] for part in columns], dtype=object)
    shares = np.array([part["contribution"] for part in columns])
    return plot_waterfall(names, shares, float(base), data)


def _output(fitted: Fitted, X: Any, of: str | None) -> tuple[int | None, str | None]:
    """Which output of a model is explained, and the name of its class."""
    from expectedkernels.circuits.schema import listed
    from expectedkernels.errors import DataError

    if fitted.classes is None:
        if of is not None:
            raise DataError("--of names a class, and the target holds numbers (--classify?).")
        return None, None
    names = [str(c) for c in fitted.classes]
    name = str(fitted.model.predict(X)[0]) if of is None else of
    if name not in names:
        raise DataError(f"There is no class {name!r}. There are {listed(names)}.")
    return names.index(name), name


def _show_explanation(what: str, base: float, total: float, columns: list[dict[str, Any]]) -> None:
    entries = [
        f"{part['name']} = {'?' if part['value'] is None else part['value']}" for part in columns
    ]
    width = max(*map(len, entries), len("nothing is known")) + 2
    typer.echo(f"{what}: {total:.6g}\n")
    typer.echo(f"{'nothing is known':{width}}{base:>12.6g}")
    for entry, part in zip(entries, columns, strict=True):
        typer.echo(f"{entry:{width}}{part['contribution']:>+12.6g}")
