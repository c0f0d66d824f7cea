"""Commands on tables: fit, predict, impute, explain, drift, audit."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from typer import Option

import expectedkernels as ek
from expectedkernels.cli import options as opt
from expectedkernels.cli.options import Answer, fail, files, note, refuse_twice, require, warn

Rows = Annotated[str, opt.InFile(help="The rows: a table (-: standard input).")]
ModelFile = Annotated[str | None, opt.InFileOption(help="A model that `fit` has written (.skops).")]
Train = Annotated[str | None, opt.InFileOption(help="Without --model: the table to learn from.")]
Target = Annotated[str | None, Option(help="Without --model: the column of it to predict.")]
Classify = Annotated[bool, Option("--classify", help="Numbers in the target are classes.")]


def _coverage(share: float | None) -> float | None:
    if share is not None and not 0.0 < share < 1.0:
        raise typer.BadParameter(f"must be between 0 and 1, such as 0.9. Got {share:g} instead.")
    return share


def fit(
    table: Annotated[str, opt.InFile(help="The table (-: standard input).")],
    target: Annotated[str, Option(help="The column to predict.")],
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
    files.require_skops()
    began = perf_counter()
    fitted = files.fit_predictor(table, target, classify, without, missing, seed)
    files.save_fitted(fitted, str(out))
    seconds, classes = perf_counter() - began, fitted.classes
    found = {"rows": fitted.rows, "columns": list(fitted.forms), "target": target}
    found |= {"task": fitted.task, "classes": classes, "seconds": seconds, "out": str(out)}
    words = {"rows": fitted.rows, "columns": len(fitted.forms), "task": fitted.task}
    words |= {} if classes is None else {"classes": len(classes)}
    return Answer(found, words | {"time": f"{seconds:.1f} s", "written to": out})


def _fitted(
    rows: str, model: str | None, train: str | None, target: str | None, classify: bool, *fit: Any
) -> Any:
    """The model in a file, or one that is fitted to a table."""
    refuse_twice(rows, train)
    good = (model is None) != (train is None) and (train is None) == (target is None)
    require(good, "Give either --model, or --train and --target.", opt.WRONG_USAGE)
    if model is None:
        return files.fit_predictor(train, target, classify, *fit)
    require(not classify, "--classify is for --train: a model knows its classes.", opt.WRONG_USAGE)
    return files.load_fitted(model, fit[1])


def predict(
    rows: Rows,
    model: ModelFile = None,
    train: Train = None,
    target: Target = None,
    std: Annotated[
        bool, Option("--std", help="Also print the standard deviation due to missing values.")
    ] = False,
    interval: Annotated[
        float | None,
        Option(callback=_coverage, help="Also print prediction intervals of this coverage."),
    ] = None,
    proba: Annotated[bool, Option("--proba", help="Also print class probabilities.")] = False,
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
    alone = not as_json or out == "-"
    require(alone, "--json prints, and --out writes a table: give one of them", opt.WRONG_USAGE)
    fitted = _fitted(rows, model, train, target, classify, without, missing, seed)
    name, classes = fitted.target, fitted.classes
    good = classes is not None or not proba
    require(good, f"--proba is for classes, and {name!r} holds numbers (--classify?).")
    good = classes is None or not (std or interval is not None)
    require(good, f"--std and --interval are for numbers, and {name!r} holds classes.")
    raw = files.read_file(rows, fitted.marks)
    if model is not None:
        files.leave_out(raw, without)
    X = files.read_like(raw, fitted)[0]
    note(f"Predicting {len(X)} rows ...")
    found = _predictions(fitted, X, std, interval, proba or as_json)
    if as_json:
        named = [{key: x[i] for key, x in found.items() if key} for i in range(len(X))]
        parts = named if classes is None else [{"probabilities": x} for x in named]
        pairs = zip(found[""], parts, strict=True)
        answers = [{"prediction": x, **more} for x, more in pairs]
        return Answer({"target": name, "task": fitted.task, "rows": answers})
    beside = {c.name: c for c in raw.columns if c.name in set(without or ())}
    made = {name + (f"_{part}" if part else ""): values for part, values in found.items()}
    files.write_rows(beside | made, out)
    return None


def _predictions(
    fitted: Any, X: Any, std: bool, interval: float | None, proba: bool
) -> dict[str, Any]:
    """Columns of predictions: the first has no name, others say what they are."""
    model, classes = fitted.model, fitted.classes
    if std:
        found = dict(zip(("", "std"), model.predict(X, return_std=True), strict=True))
    else:
        found = {"": model.predict(X)}
    if classes is not None and proba:
        found |= dict(zip(classes, model.predict_proba(X).T, strict=True))
    if interval is not None:
        low, high = model.predict_interval(X, interval)
        if n := int((abs(low) + abs(high) == float("inf")).sum()):
            rows = f"{n} of {len(X)} intervals have an infinite end"
            why = f"there are too few training rows for a coverage of {interval:g}"
            warn(f"{rows}: {why}.")
        found |= {"low": low, "high": high}
    return found


Strategy = StrEnum("Strategy", ["MEAN", "MAP", "SAMPLE"])
"""What `impute` fills in."""


def impute(
    rows: Rows,
    model: ModelFile = None,
    train: Annotated[
        str | None, opt.InFileOption(help="The table to learn from. Default: the rows themselves.")
    ] = None,
    strategy: Annotated[
        Strategy,
        Option(help="Means and modes; the most probable values together; or a sample."),
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
    alone = model is None or train is None
    require(alone, "Give --model or --train, and not both.", opt.WRONG_USAGE)
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
    row: Annotated[int, Option(min=0, help="Which row, from 0.")] = 0,
    of: Annotated[str | None, Option(help="The class. Default: the predicted one.")] = None,
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
    fitted = _fitted(rows, model, train, target, classify, without, missing, seed)
    what, classes = fitted.target, fitted.classes
    raw = files.read_file(rows, fitted.marks)
    X = files.read_like(raw, fitted)[0]
    require(row < len(X), f"There is no row {row}: rows are numbered from 0 to {len(X) - 1}.")
    X = X[[row]]
    good = classes is not None or of is None
    require(good, "--of names a class, and the target holds numbers (--classify?).")
    if classes is not None:
        of = str(files.as_label(fitted.model.predict(X)[0])) if of is None else of
        require(of in classes, f"There is no class {of!r}. There are {files.listed(classes)}.")
    found = ek.shapley_values(fitted.model, X, rng=seed)
    at = (0,) if classes is None else (0, ..., classes.index(of))
    values, base, total = (x[at] for x in (found.values, found.base_values, found.predictions))
    columns = [
        {"name": column, "value": x if x == x else None, "contribution": share}
        for column, x, share in zip(fitted.forms, X[0], values, strict=True)
    ]
    columns.sort(key=lambda part: -abs(part["contribution"]))
    numbers = {"target": what, "class": of, "row": row, "base": base, "prediction": total}
    words = {f"{what if of is None else f'{what} is {of}'}:": f"{total:.6g}"}
    words |= {"nothing is known": f"{base:.6g}"}
    for part in columns:
        entry = f"{part['name']} = {'?' if part['value'] is None else part['value']}"
        words[entry] = f"{part['contribution']:+.6g}"
    return Answer(
        numbers | {"exact": found.standard_errors is None, "columns": columns},
        words,
        title=f"{what} of row {row} of {rows}",
        pictures={"What contributes": lambda: files.waterfall(columns, base)},
        files={fitted.path: fitted.size, rows: raw},
    )


def drift(
    ctx: typer.Context,
    before: Annotated[str, opt.InFile(help="A table (-: standard input).")],
    after: Annotated[str, opt.InFile(help="A table with the same columns.")],
    permutations: Annotated[int, Option(min=1, help="Permutations, for the p-value.")] = 99,
    bins: opt.Bins = 8,
    level: opt.Level = 0.05,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
    plot: opt.Picture = None,
    report: opt.Report = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Compare two tables: how far apart, whether by chance, and which columns changed.

    Columns, the most changed first: univariate is the squared discrepancy of a column alone;
    shapley its share of that of all columns, which is negative where the column dilutes the
    changes of others more than it adds, however much it changed itself; ignoring how much smaller
    the squared discrepancy is without it.

    Ends with exit code 3 if the tables differ beyond chance.
    """
    refuse_twice(before, after)
    one, other = files.read_tables([before, after], without, missing)
    note(f"Dividing {len(one) + len(other)} rows {permutations} times ...")
    found = ek.drift(one, other, n_permutations=permutations, n_bins=bins, rng=seed)
    differ = bool(found.p_value is not None and found.p_value <= level)
    gaps = [(found.windows.rows(i) != found.windows.rows(i)).mean(axis=0) for i in (0, 1)]
    named = {"univariate": found.univariate, "shapley": found.shapley, "ignoring": found.ignoring}
    named |= {"missing_before": gaps[0], "missing_after": gaps[1]}
    parts = [
        {"name": str(found.names[v]), **{name: values[v] for name, values in named.items()}}
        for v in (-found.ignoring).argsort(kind="stable").tolist()
    ]
    words = {
        "rows": f"{len(one)} and {len(other)}",
        "discrepancy": f"{found.mmd:.6g} (squared: {found.mmd2:.6g})",
        "p-value": f"{found.p_value:.4g} ({len(found.null)} permutations)",
        "answer": f"the tables {'differ' if differ else 'do not differ'} at {level:g}",
    }
    for i, path in enumerate((before, after)):
        if empty := found.windows.empty(i):
            words |= {f"empty in {path}": f"{', '.join(map(str, empty))}: not compared"}
    numbers = {"mmd": found.mmd, "p_value": found.p_value, "differ": differ, "level": level}
    return Answer(
        numbers | {"rows_before": len(one), "rows_after": len(other), "columns": parts},
        words,
        tables={"Columns": (list(parts[0]), [list(part.values()) for part in parts])},
        title=f"What changed from {before} to {after}",
        details={"kernel": repr(found.kernel)},
        pictures=files.pictures_of(found),
        files={before: one, after: other},
        rejected=differ,
    )


def audit(
    ctx: typer.Context,
    source: Annotated[str, opt.InFile(help="A table (-: standard input), circuit or model.")],
    by: Annotated[
        list[str] | None,
        Option(help="A column of groups, or several: a,b (may be repeated). Default: each."),
    ] = None,
    least: Annotated[float, Option(min=0.0, max=1.0, help="Leave out rarer groups.")] = 0.01,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
    plot: opt.Picture = None,
    report: opt.Report = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Print how far groups are from the whole population, the furthest first."""
    if files.is_model(source):
        read = circuit = files.read_distribution(source)
    else:
        [read] = files.read_tables([source], without, missing)
        schema, [rows] = files.coded([read], source, bins)
        cards = list(schema.cardinalities)
        circuit = ek.learn_chow_liu(rows, cardinalities=cards).with_schema(schema)
    chosen: Any = [[files.variable_of(circuit, x) for x in part.split(",")] for part in by or ()]
    named = not chosen or circuit.names is not None
    require(named, "The variables have no names to make groups by. Leave --by out.")
    chosen = [[circuit.schema.name(v) for v in part] for part in chosen] or 1
    found = ek.group_discrepancies(circuit, chosen, min_probability=least)
    order = sorted(range(len(found.groups)), key=lambda i: -found.mmd2[i])
    groups = [(found.groups[i], found.mmd[i], found.probabilities[i]) for i in order]
    names = ("group", "mmd", "probability")
    return Answer(
        {"groups": [dict(zip(names, group, strict=True)) for group in groups]},
        tables={"Groups": (["group", "discrepancy", "probability"], groups)},
        title=f"Groups of {source}",
        details={"groups": len(groups), "kernel": repr(found.kernel)},
        pictures=files.pictures_of(found),
        files={source: read},
    )


def demo(
    out: opt.OutPicture = Path("demo.png"),
    seed: opt.Seed = 0,
    splits: Annotated[int, Option(min=1, help="Splits into training and test rows.")] = 8,
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
        plot(result)[0].figure.savefig(out, dpi=160)
    except ImportError as error:
        typer.echo(table(result))
        fail(f"No figure was written. {error}")
    return Answer(found, text=f"{table(result)}\n\nFigure written to {out}")
