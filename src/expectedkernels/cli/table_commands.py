"""Commands on tables: fit, predict, impute, explain."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

import expectedkernels as ek
from expectedkernels.cli import options as opt
from expectedkernels.cli.options import Answer, fail, in_columns, note, refuse_twice, warn

if TYPE_CHECKING:
    from expectedkernels.cli.input import Fitted


Rows = Annotated[str, opt.InFile(help="The rows: a table (-: standard input).")]
ModelFile = Annotated[str | None, opt.InFileOption(help="A model that `fit` has written (.skops).")]
Train = Annotated[str | None, opt.InFileOption(help="Without --model: the table to learn from.")]
Target = Annotated[str | None, typer.Option(help="Without --model: the column of it to predict.")]
Classify = Annotated[
    bool, typer.Option("--classify", help="Numbers in the target are names of classes.")
]


def _coverage(share: float | None) -> float | None:
    if share is not None and not 0.0 < share < 1.0:
        raise typer.BadParameter(f"must be between 0 and 1, such as 0.9. Got {share:g} instead.")
    return share


def fit(
    table: Annotated[str, opt.InFile(help="The table (-: standard input).")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: opt.OutModel,
    classify: Classify = False,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
) -> Answer:
    """Fit a model that predicts a column of a table, and write it to a file.

    `predict`, `explain` and `impute` read it with --model. The file holds the types and levels of
    the columns as well. Needs skops.
    """
    from expectedkernels.cli.input import fit_predictor, save_fitted
    from expectedkernels.io.skops_format import require_skops

    require_skops()
    began = perf_counter()
    fitted = fit_predictor(table, target, classify, without, missing, seed)
    save_fitted(fitted, str(out))
    seconds = perf_counter() - began
    task, rows = _task(fitted), fitted.rows
    found = {"rows": rows, "columns": list(fitted.forms), "target": target, "task": task}
    found |= {"classes": fitted.classes, "seconds": seconds, "out": str(out)}
    words = {"rows": f"{rows}", "columns": f"{len(fitted.forms)}", "task": f"{task}"}
    if fitted.classes is not None:
        words["classes"] = f"{len(fitted.classes)}"
    words |= {"time": f"{seconds:.1f} s", "written to": f"{out}"}
    return Answer(found, in_columns(words))


def _task(fitted: Fitted) -> str:
    return "regression" if fitted.classes is None else "classification"


def _fitted(
    model: str | None,
    train: str | None,
    target: str | None,
    classify: bool,
    without: list[str] | None,
    missing: list[str] | None,
    seed: int,
) -> Fitted:
    """The model in a file, or one that is fitted to a table."""
    if (model is None) == (train is None) or (train is None) != (target is None):
        raise typer.BadParameter("Give either --model, or --train and --target.")
    if model is not None and classify:
        raise typer.BadParameter("--classify is for --train: a model knows its classes.")
    from expectedkernels.cli.input import fit_predictor, load_fitted

    if model is not None:
        return load_fitted(model, missing)
    return fit_predictor(str(train), str(target), classify, without, missing, seed)


def predict(
    rows: Rows,
    model: ModelFile = None,
    train: Train = None,
    target: Target = None,
    std: Annotated[
        bool, typer.Option("--std", help="Also print the standard deviation due to missing values.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            callback=_coverage,
            help="Also print prediction intervals of this coverage, such as 0.9.",
        ),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also print the probabilities of all classes.")
    ] = False,
    classify: Classify = False,
    without: opt.Without = None,
    missing: opt.Missing = None,
    out: opt.OutTable = "-",
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
) -> Answer | None:
    """Predict a column from the others, exactly averaged over all that is missing.

    The model is one that `fit` has written (--model), or is fitted here (--train and --target).
    Numbers are predicted by kernel ridge regression, words by a classifier. Columns that are left
    out stay beside the predictions.
    """
    if as_json and out != "-":
        raise typer.BadParameter("--json prints, and --out writes a table: give one of them")
    refuse_twice(rows, train)
    fitted = _fitted(model, train, target, classify, without, missing, seed)
    from expectedkernels.cli.input import leave_out, read_file, read_like, write_rows

    name = fitted.target
    if fitted.classes is None and proba:
        raise ek.DataError(f"--proba is for classes, and {name!r} holds numbers (--classify?).")
    if fitted.classes is not None and (std or interval is not None):
        raise ek.DataError(f"--std and --interval are for numbers, and {name!r} holds classes.")
    raw = read_file(rows, fitted.marks)
    if model is not None:
        leave_out(raw, without)
    X = read_like(raw, fitted)[0]
    note(f"Predicting {len(X)} rows ...")
    found = _predictions(fitted, X, std, interval, proba or as_json)
    if as_json:
        named = [{key: x[i] for key, x in found.items() if key} for i in range(len(X))]
        parts = named if fitted.classes is None else [{"probabilities": x} for x in named]
        lines = zip(found[""], parts, strict=True)
        answers = [{"prediction": x, **more} for x, more in lines]
        return Answer({"target": name, "task": _task(fitted), "rows": answers}, "")
    beside = {c.name: c for c in raw.columns if c.name in set(without or ())}
    made = {name + (f"_{part}" if part else ""): values for part, values in found.items()}
    write_rows(beside | made, out)
    return None


def _predictions(
    fitted: Fitted, X: Any, std: bool, interval: float | None, proba: bool
) -> dict[str, Any]:
    """Columns of predictions: the first has no name, others say what they are."""
    model = fitted.model
    if fitted.classes is not None:
        found = {"": model.predict(X)}
        if proba:
            found |= dict(zip(fitted.classes, model.predict_proba(X).T, strict=True))
        return found
    if std:
        mean, spread = model.predict(X, return_std=True)
        found = {"": mean, "std": spread}
    else:
        found = {"": model.predict(X)}
    if interval is not None:
        import numpy as np

        low, high = model.predict_interval(X, interval)
        if n := int((np.isinf(low) | np.isinf(high)).sum()):
            warn(
                f"{n} of {len(X)} intervals have an infinite end: there are too few training rows "
                f"for a coverage of {interval:g}."
            )
        found |= {"low": low, "high": high}
    return found


class Strategy(StrEnum):
    """What `impute` fills in."""

    MEAN = "mean"
    MAP = "map"
    SAMPLE = "sample"


def impute(
    rows: Rows,
    model: ModelFile = None,
    train: Annotated[
        str | None,
        opt.InFileOption(
            help="Without --model: the table to learn from. Default: the rows themselves."
        ),
    ] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="Means of numbers and the most probable categories; the most probable values "
            "together; or a sample."
        ),
    ] = Strategy.MEAN,
    without: opt.Without = None,
    missing: opt.Missing = None,
    out: opt.OutTable = "-",
    seed: opt.Seed = 0,
) -> None:
    """Fill in missing values of a table by their exact distribution given the rest of each row.

    What is observed, and columns that are left out, stay as they are written. Columns of the
    training table that the rows lack are marginalised. With --model, the columns that the model
    predicts from are filled in.
    """
    refuse_twice(rows, train)
    if model is not None and train is not None:
        raise typer.BadParameter("Give --model or --train, and not both.")
    from expectedkernels.cli import input as files

    if model is not None:
        fitted = files.as_imputer(files.load_fitted(model, missing), strategy.value, seed)
        raw = files.read_file(rows, fitted.marks)
        files.leave_out(raw, without)
    else:
        raw = files.read_file(rows, missing)
        table = files.leave_out(raw if train is None else files.read_file(train, missing), without)
        fitted = files.fit_imputer(table, strategy.value, seed)
    X, forms, gaps = files.read_like(raw, fitted, partly=True)
    note(f"Filling in {len(X)} rows ...")
    done = fitted.model.transform(X)
    columns = {column.name: column for column in raw.columns}
    for i, name in enumerate(fitted.forms):
        if name in columns:
            columns[name] = columns[name].filled(done[:, i].tolist(), gaps[i], forms[name])
    files.write_rows(columns, out, header=raw.named)


def explain(
    ctx: typer.Context,
    rows: Rows,
    model: ModelFile = None,
    train: Train = None,
    target: Target = None,
    row: Annotated[int, typer.Option(min=0, help="Which row, from 0.")] = 0,
    of: Annotated[
        str | None, typer.Option(help="The class to explain. Default: the predicted one.")
    ] = None,
    classify: Classify = False,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
    plot: opt.Picture = None,
    report: opt.Report = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Print what every column of a row contributes to its prediction: Shapley values.

    The model is one that `fit` has written (--model), or is fitted here (--train and --target).
    """
    refuse_twice(rows, train)
    fitted = _fitted(model, train, target, classify, without, missing, seed)
    from expectedkernels.cli.input import read_file, read_like

    raw = read_file(rows, fitted.marks)
    X = read_like(raw, fitted)[0]
    if row >= len(X):
        raise ek.DataError(f"There is no row {row}: rows are numbered from 0 to {len(X) - 1}.")
    X = X[[row]]
    found = ek.shapley_values(fitted.model, X, rng=seed)
    at, name = _output(fitted, X, of)
    values, base, total = (
        part[0] if at is None else part[0, ..., at]
        for part in (found.values, found.base_values, found.predictions)
    )
    columns = [
        {"name": column, "value": x if x == x else None, "contribution": share}
        for column, x, share in zip(fitted.forms, X[0], values, strict=True)
    ]
    columns.sort(key=lambda part: -abs(part["contribution"]))
    what = fitted.target
    numbers = {"target": what, "class": name, "row": row, "base": base, "prediction": total}
    words = {part["name"]: f"{part['contribution']:+.6g}" for part in columns}
    return Answer(
        numbers | {"exact": found.standard_errors is None, "columns": columns},
        _explanation(what if name is None else f"{what} is {name}", base, total, columns),
        f"{what} of row {row} of {rows}",
        {"nothing is known": f"{base:.6g}"} | words | {"prediction": f"{total:.6g}"},
        {"What contributes": lambda: _waterfall(columns, base)},
        {fitted.path: fitted.size, rows: raw},
    )


def _waterfall(columns: list[dict[str, Any]], base: float) -> Any:
    import numpy as np

    from expectedkernels.plotting.results import plot_waterfall

    names = [part["name"] for part in columns]
    data = np.array([part["value"] for part in columns], dtype=object)
    shares = np.array([part["contribution"] for part in columns])
    return plot_waterfall(names, shares, float(base), data)


def _output(fitted: Fitted, X: Any, of: str | None) -> tuple[int | None, str | None]:
    """Which output of a model is explained, and the name of its class."""
    from expectedkernels.data.schema import listed
    from expectedkernels.data.tables import as_label

    if fitted.classes is None:
        if of is not None:
            raise ek.DataError("--of names a class, and the target holds numbers (--classify?).")
        return None, None
    name = str(as_label(fitted.model.predict(X)[0])) if of is None else of
    if name not in fitted.classes:
        raise ek.DataError(f"There is no class {name!r}. There are {listed(fitted.classes)}.")
    return fitted.classes.index(name), name


def _explanation(what: str, base: float, total: float, columns: list[dict[str, Any]]) -> str:
    lines = [("nothing is known", f"{base:.6g}")]
    for part in columns:
        entry = f"{part['name']} = {'?' if part['value'] is None else part['value']}"
        lines.append((entry, f"{part['contribution']:+.6g}"))
    width = max(len(entry) for entry, _ in lines) + 2
    return "\n".join([f"{what}: {total:.6g}\n", *(f"{a:{width}}{b:>12}" for a, b in lines)])


def demo(
    out: opt.OutPicture = Path("demo.png"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the splits and of what goes missing.")
    ] = 0,
    splits: Annotated[
        int, typer.Option(min=1, help="How often the rows are split into training and test rows.")
    ] = 8,
    as_json: opt.AsJson = False,
) -> Answer:
    """Predict from rows with missing values: expected predictions against imputation.

    Takes the diabetes data that come with scikit-learn; prints a table and writes a picture.
    """
    from expectedkernels.demo import RATES, plot, run, table

    result = run(seed=seed, n_splits=splits)
    means, ranks = result.mean_errors(), result.mean_ranks()
    methods = [{"name": m, "errors": means[m], "mean_rank": ranks[m]} for m in means]
    found = {"rates": RATES, "complete": result.complete.mean(), "methods": methods}
    found |= {"coverage": result.shown.coverage, "seconds": result.seconds}
    try:
        axes = plot(result)
    except ImportError as error:
        typer.echo(table(result))
        fail(f"No figure was written. {error}")
    from expectedkernels.plotting.style import save

    save(axes[0], out)
    return Answer(found, f"{table(result)}\n\nFigure written to {out}")
