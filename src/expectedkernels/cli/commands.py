"""The commands, on models and on tables."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from typer import Argument, Option

import expectedkernels as ek
from expectedkernels.checks import rows_numbered
from expectedkernels.cli import options as opt
from expectedkernels.cli.options import (
    Answer,
    Drawn,
    fail,
    files,
    note,
    refuse_twice,
    require,
    warn,
)

MODEL = "A circuit (.npz, .psdd, .jpc, .spn), or a model (.uai, .bif), compiled."
Model = Annotated[str, opt.InFile(metavar="MODEL", help=MODEL)]
Given = Annotated[list[str] | None, Option(help="Evidence, such as rain=yes (may be repeated).")]
Of = Annotated[list[str] | None, Option(help="A variable (may be repeated). Default: all.")]
ROWS_OR_MODEL = "A circuit, a model, or a table of rows (-: standard input)."
Distribution = Annotated[str, opt.InFile(help=ROWS_OR_MODEL)]
MOST_BARS = 60
"""How many states a picture shows."""


def sample(
    model: Model,
    n: Annotated[int, Option("-n", min=1, help="How many rows.")] = 1000,
    given: Given = None,
    out: opt.OutTable = "-",
    seed: opt.Seed = 0,
) -> None:
    """Draw rows from a circuit or a model, with the names of variables and states."""
    circuit = files.read_distribution(model)
    rows = circuit.sample(n, seed, files.evidence_of(circuit, given))
    files.write_rows(files.decoded(circuit, rows), out)


def marginals(model: Model, given: Given = None, of: Of = None) -> Answer:
    """Print the exact distribution of every variable, given what is known."""
    found = files.marginals_of(model, given, of)
    parts = ((str(part["name"]), part["values"].items()) for part in found)
    words = {name: "  ".join(f"{x} {value:.6g}" for x, value in own) for name, own in parts}
    return Answer({"given": list(given or ()), "marginals": found}, words)


Kind = StrEnum("Kind", ["MARGINALS", "CIRCUIT", "VTREE", "MODEL"])
"""What `plot` draws."""


def plot(
    model: Model,
    out: opt.OutPicture,
    kind: Annotated[
        Kind, Option(help="Probabilities of states, the units, the vtree, or a .uai or .bif file.")
    ] = Kind.MARGINALS,
    given: Given = None,
    of: Of = None,
) -> None:
    """Draw distributions of variables given what is known, a circuit, its vtree, or a network."""
    from expectedkernels.plotting import close, plot_distributions, save

    plain = kind is Kind.MARGINALS or not (given or of)
    require(plain, "--given and --of are for --kind marginals", opt.WRONG_USAGE)
    if kind is Kind.MARGINALS:
        found = files.marginals_of(model, given, of)
        states = {str(part["name"]): part["values"] for part in found if not part["real"]}
        n = sum(map(len, states.values()))
        advice = "`marginals` prints their means and variances"
        require(n, f"Bars are for states of variables, and these are real: {advice}.")
        advice = f"Got {n}: choose variables by --of"
        require(n <= MOST_BARS, f"A picture has up to {MOST_BARS} bars, for states. {advice}.")
        picture: Any = plot_distributions(states)
    elif kind is Kind.MODEL:
        picture = ek.plotting.plot_model(ek.io.read_model(model))
    else:
        circuit = files.read_distribution(model)
        picture = ek.plotting.plot(circuit if kind is Kind.CIRCUIT else circuit.vtree)
    save(picture, out)
    close(picture)


Method = StrEnum("Method", {"CHOW_LIU": "chow-liu", "STRUDEL": "strudel", "MIXTURE": "mixture"})
"""How `learn` makes a circuit."""


def learn(
    data: Annotated[
        str,
        opt.InFile(
            help="The table: CSV (commas, semicolons, tabs, bars or spaces; also gzipped), Parquet "
            "or - for standard input. Empty cells, NA, NaN and the like are missing values; the "
            "first line holds names unless it is all numbers."
        ),
    ],
    out: opt.Out,
    method: Annotated[
        Method, Option(help="A tree of variables; splits of that tree; or a mixture of such.")
    ] = Method.STRUDEL,
    valid: Annotated[str | None, opt.InFileOption(help="Validation data, to choose by.")] = None,
    iterations: Annotated[int, Option(min=0, help="Most splits (strudel, mixture).")] = 100,
    components: Annotated[int, Option(min=1, help="The number of components (mixture).")] = 5,
    em_iterations: Annotated[int, Option(min=0, help="Iterations of EM (mixture).")] = 100,
    pseudocount: Annotated[float, Option(min=0.0, help="Pseudocount of every sum unit.")] = 1.0,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
) -> Answer:
    """Learn a circuit from a table of text, codes and numbers; values may be missing.

    Ctrl-C ends the search, and the best circuit so far is written.
    """
    paths = [data] if valid is None else [data, valid]
    schema, sets = files.coded(files.read_tables(paths, without, missing), data, bins)
    began = perf_counter()
    options: Any = {"cardinalities": schema.cardinalities, "pseudocount": pseudocount}
    best: Any = {"X_valid": sets[1] if valid else None, **options}
    circuit: Any
    if method is Method.CHOW_LIU:
        circuit = ek.learn_chow_liu(sets[0], **options)
    elif method is Method.STRUDEL:
        circuit = ek.learn_strudel(sets[0], iterations=iterations, **best)
    else:
        best |= {"splits": iterations, "iterations": em_iterations, "rng": seed}
        circuit = ek.learn_mixture(sets[0], components, **best)
    circuit = circuit.with_schema(schema)
    seconds = perf_counter() - began
    ek.save(circuit, out)
    fits = [float(circuit.log_likelihood(X).mean()) for X in sets]
    found = {"rows": len(sets[0]), **files.counts(circuit), "log_likelihood": fits[0]}
    found |= {"validation": fits[1] if valid else None, "seconds": seconds, "out": str(out)}
    words = {"rows": len(sets[0]), **files.sizes(circuit)}
    words["log-likelihood"] = f"{fits[0]:z.4f} (mean of the rows)"
    words |= {"validation": f"{fits[1]:z.4f}"} if valid else {}
    return Answer(found, words | {"time": f"{seconds:.1f} s", "written to": out})


def compile_model(
    model: Annotated[Path, Argument(help="A factor graph (.uai) or Bayesian network (.bif).")],
    out: opt.Out,
    evidence: Annotated[Path | None, Option(help="Evidence to condition on (.uai.evid).")] = None,
    vtree: Annotated[Path | None, Option(help="The .vtree file. Default: by min-fill.")] = None,
) -> Answer:
    """Compile a graphical model into a circuit, exactly, and print its partition function."""
    began = perf_counter()
    along = None if vtree is None else ek.read_vtree(vtree)
    circuit, log_z = ek.io.compile_file(model, evidence=evidence, vtree=along)
    seconds = perf_counter() - began
    ek.save(circuit, out)
    found = files.counts(circuit) | {"log_z": log_z, "seconds": seconds, "out": str(out)}
    words = files.sizes(circuit) | {"log Z": f"{log_z:z.10f}", "time": f"{seconds:.1f} s"}
    return Answer(found, words | {"written to": out})


def info(
    path: Annotated[Path, Argument(metavar="CIRCUIT", help="A .npz, .psdd, .jpc or .spn file.")],
    vtree: Annotated[Path | None, Option(help="The .vtree file, if not beside it.")] = None,
) -> Answer:
    """Print the variables, the size and the structural properties of a circuit."""
    circuit = files.read_circuit(path, vtree)
    numbers, words = files.describe(circuit)
    found = files.properties_of(circuit)
    return Answer(numbers | {"properties": asdict(found)}, words, repr(found))


def convert(
    source: Annotated[str, opt.InFile(help="A circuit, a model, or a table.")],
    out: Annotated[str, Argument(help="Where to write it: the suffix says in which format.")],
    missing: opt.Missing = None,
) -> None:
    """Write a circuit, a model or a table in another format.

    Circuits: .npz, .psdd (with its .vtree beside it), .jpc, .spn. Models: .uai, .bif.
    Tables: .csv, .tsv, .parquet; cells stay as they are written.
    """
    opt.check_folder(out)
    files.convert_file(source, out, missing)


Statistic = StrEnum("Statistic", ["MMD", "KDSD"])
"""What `test` measures."""


def judge(
    model: Model,
    samples: Annotated[str, opt.InFile(help="A table of complete rows (-: standard input).")],
    statistic: Annotated[
        Statistic, Option(help="The maximum mean discrepancy, or a Stein discrepancy.")
    ] = Statistic.MMD,
    aggregate: Annotated[bool, Option("--aggregate", help="Combine several bandwidths.")] = False,
    simulations: Annotated[int, Option(min=1, help="Samples under the hypothesis.")] = 199,
    level: opt.Level = 0.05,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
) -> Drawn:
    """Test whether samples come from a model. Ends with exit code 3 if that is rejected."""
    circuit = files.read_distribution(model)
    table = files.read_file(samples, missing, without)
    rows = files.rows_for(circuit, table)
    note(f"Simulating {simulations} samples of {len(rows)} rows ...")
    run: Any = ek.mmd_test if statistic is Statistic.MMD else ek.kdsd_test
    found = run(rows, circuit, "aggregate" if aggregate else None, n_null=simulations, rng=seed)
    numbers = {"statistic": found.statistic, "p_value": found.p_value, "samples": len(rows)}
    numbers |= {"test": statistic.value, "kernel": repr(found.kernel), "level": level}
    rejected = bool(found.p_value <= level)
    verdict = "rejected" if rejected else "not rejected"
    words = {
        "samples": len(rows),
        "statistic": f"{found.statistic:.6g} ({statistic.value})",
        "p-value": f"{found.p_value:.4g} ({simulations} simulations)",
        "answer": f"that the samples come from the model is {verdict} at {level:g}",
    }
    return Drawn(
        numbers | {"simulations": simulations, "rejected": rejected},
        words,
        title=f"Do {samples} come from {model}?",
        details={"kernel": repr(found.kernel)},
        pictures=files.pictures_of(found),
        files={model: circuit, samples: table},
        rejected=rejected,
    )


def mmd(
    p: Distribution,
    q: Distribution,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
) -> Answer:
    """Print the maximum mean discrepancy between two circuits, models or tables, exactly."""
    refuse_twice(p, q)
    kernel = None
    if files.is_model(p) or files.is_model(q):
        circuit = files.read_distribution(p if files.is_model(p) else q)
        kernel = files.default_kernel(circuit)
        pair = [files.read_any(path, circuit, without, missing) for path in (p, q)]
    else:
        pair = files.coded(files.read_tables([p, q], without, missing), p, bins)[1]
    found = ek.mmd(pair[0], pair[1], kernel)
    return Answer({"p": p, "q": q, "mmd": found}, text=f"{found:.10g}")


def kdsd(
    q: Distribution,
    p: Annotated[str, opt.InFile(help="The target: a circuit or a model.")],
    without: opt.Without = None,
    missing: opt.Missing = None,
) -> Answer:
    """Print the kernelised discrete Stein discrepancy of a circuit, or samples, from a target."""
    target = files.read_distribution(p)
    found = ek.kdsd(files.read_any(q, target, without, missing), target)
    return Answer({"q": q, "p": p, "kdsd": found}, text=f"{found:.10g}")


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
    coverage: Annotated[
        float | None,
        Option("--set", callback=_coverage, help="Also print prediction sets of this coverage."),
    ] = None,
    reference: Annotated[
        str | None,
        opt.InFileOption(help="Rows that intervals are for, if they differ from training rows."),
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
    out stay beside the predictions. Classes in a prediction set are separated by |.
    """
    alone = not as_json or out == "-"
    require(alone, "--json prints, and --out writes a table: give one of them", opt.WRONG_USAGE)
    fitted = _fitted(rows, model, train, target, classify, without, missing, seed)
    name, classes = fitted.target, fitted.classes
    good = classes is not None or not (proba or coverage is not None)
    require(good, f"--proba and --set are for classes, and {name!r} holds numbers (--classify?).")
    good = reference is None or interval is not None
    require(good, "--reference is for --interval.", opt.WRONG_USAGE)
    good = classes is None or not (std or interval is not None)
    require(good, f"--std and --interval are for numbers, and {name!r} holds classes.")
    raw = files.read_file(rows, fitted.marks)
    if model is not None:
        files.leave_out(raw, without)
    X = files.read_like(raw, fitted)[0]
    note(f"Predicting {len(X)} rows ...")
    # columns of predictions: the first has no name, others say what they are
    predicted = fitted.model.predict(X, return_std=True) if std else [fitted.model.predict(X)]
    found = dict(zip(("", "std"), predicted, strict=False))
    if classes is not None and (proba or as_json):
        found |= dict(zip(classes, fitted.model.predict_proba(X).T, strict=True))
    if interval is not None:
        like = None
        if reference is not None:
            like = files.read_like(files.read_file(reference, fitted.marks), fitted)[0]
        low, high = fitted.model.predict_interval(X, interval, reference=like)
        found["low"], found["high"] = low, high
        if n := int((abs(low) + abs(high) == float("inf")).sum()):
            why = f"there are too few training rows for a coverage of {interval:g}"
            warn(f"{n} of {len(X)} intervals have an infinite end: {why}.")
    sets = None
    if coverage is not None:
        members = fitted.model.predict_set(X, coverage)
        sets = [[x for x, own in zip(classes, row, strict=True) if own] for row in members]
    if as_json:
        named = [{key: x[i] for key, x in found.items() if key} for i in range(len(X))]
        parts = named if classes is None else [{"probabilities": x} for x in named]
        pairs = zip(found[""], parts, strict=True)
        answers = [{"prediction": x, **more} for x, more in pairs]
        for answer, own in zip(answers, sets or (), strict=False):
            answer["set"] = own
        return Answer({"target": name, "task": fitted.task, "rows": answers})
    beside = {c.name: c for c in raw.columns if c.name in set(without or ())}
    made = {name + (f"_{part}" if part else ""): values for part, values in found.items()}
    made |= {} if sets is None else {f"{name}_set": ["|".join(own) for own in sets]}
    files.write_rows(beside | made, out)
    return None


Strategy = StrEnum("Strategy", ["MEAN", "MAP", "SAMPLE"])
"""What `impute` fills in."""


def impute(
    rows: Rows,
    model: ModelFile = None,
    train: Annotated[
        str | None, opt.InFileOption(help="The table to learn from. Default: the rows themselves.")
    ] = None,
    strategy: Annotated[
        Strategy, Option(help="Means and modes; the most probable values together; or a sample.")
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
) -> Drawn:
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
    return Drawn(
        numbers | {"exact": found.standard_errors is None, "columns": columns},
        words,
        title=f"{what} of row {row} of {rows}",
        pictures={"What contributes": lambda: files.waterfall(columns, base)},
        files={fitted.path: fitted.size, rows: raw},
    )


def drift(
    before: Annotated[str, opt.InFile(help="A table (-: standard input).")],
    after: Annotated[str, opt.InFile(help="A table with the same columns.")],
    permutations: Annotated[int, Option(min=1, help="Permutations, for the p-value.")] = 99,
    bins: opt.Bins = 8,
    level: opt.Level = 0.05,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
) -> Drawn:
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
    return Drawn(
        numbers | {"rows_before": len(one), "rows_after": len(other), "columns": parts},
        words,
        tables={"Columns": (list(parts[0]), [list(part.values()) for part in parts])},
        title=f"What changed from {before} to {after}",
        details={"kernel": repr(found.kernel)},
        pictures=files.pictures_of(found),
        files={before: one, after: other},
        rejected=differ,
    )


Network = Annotated[str | None, opt.InFileOption(help="The network: a .bif or .uai file.")]
Arcs = Annotated[list[str] | None, Option(help="An arc: PARENT,CHILD (may be repeated).")]


def fit_network(
    data: Rows,
    out: opt.OutNetwork,
    network: Network = None,
    arc: Arcs = None,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
) -> Answer:
    """Fit the tables of a Bayesian network to rows with missing values, by exact EM.

    The structure is that of a file (--network), or has the columns of the table and arcs (--arc).
    """
    require((network is None) == bool(arc), "Give either --network or --arc.", opt.WRONG_USAGE)
    model: Any
    if network is None:
        rows = files.in_states(files.read_tables([data], without, missing), data, bins)
        model = ek.BayesianNetwork.from_arcs([words.split(",") for words in arc or ()], rows)
    else:
        model = files.read_network(network)
        rows = files.rows_for(model, files.read_file(data, missing, without))
    means: list[float] = []
    fitted = ek.learn_tables(model, rows, rng=seed, callback=lambda _, mean: means.append(mean))
    ek.save(fitted, out)
    found = {"rows": len(rows), "variables": fitted.n_variables, "iterations": len(means)}
    found |= {"objective": means[-1], "out": str(out)}
    return Answer(found, found)


def effect(
    model: Annotated[str, opt.InFile(metavar="NETWORK", help="A Bayesian network (.bif, .uai).")],
    treatment: Annotated[str, Option(help="The variable that is set.")],
    outcome: Annotated[str, Option(help="The variable that it acts on.")],
    of: Annotated[str, Option(help="The states without and with treatment, such as no,yes.")],
    given: Given = None,
) -> Answer:
    """Print the effect of setting a variable of a network on another, exactly.

    Evidence on the treatment is on the value that it has by itself: the effect on the treated.
    """
    network = files.read_network(model)
    known = files.evidence_of(network, given)
    v, u = (files.variable_of(network, name) for name in (treatment, outcome))
    labels = network.schema.labels(v) or range(network.cardinalities[v])
    rows = [files.evidence_of(network, [f"{treatment}={word}"]) for word in of.split(",")]
    found = ek.effect(network, v, u, [labels[int(row[v])] for row in rows], known)
    numbers = {"difference": found.difference, "mmd": found.mmd}
    numbers |= {"control": found.control, "treated": found.treated}
    states = list(found.schema.labels(0) or range(len(found.control)))
    words = {name: "  ".join(f"{x:.6g}" for x in own.ravel()) for name, own in numbers.items()}
    return Answer(numbers | {"states": states}, words | {"states": "  ".join(map(str, states))})


def mechanisms(
    before: Annotated[str, opt.InFile(help="A network, or with --network a table.")],
    after: Annotated[str, opt.InFile(help="Likewise.")],
    network: Network = None,
    target: Annotated[str | None, Option(help="Whose mean it is. Default: squared MMD.")] = None,
    permutations: Annotated[int, Option(min=0, help="Permutations of rows, for p-values.")] = 0,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
) -> Drawn:
    """Print which tables of a network are responsible for a change: exact Shapley values."""
    model, paths = None if network is None else files.read_network(network), (before, after)
    pair: Any = [files.read_network(path) for path in paths] if model is None else []
    for path in paths if model is not None else ():
        pair.append(files.rows_for(model, files.read_file(path, missing, without)))
    number = None if target is None else files.variable_of(model or pair[0], target)
    options: Any = {"target": number, "n_permutations": permutations, "rng": seed}
    found = ek.mechanism_change(pair[0], pair[1], model, **options)
    parts = {"shapley": found.shapley, "divergence": found.divergences}
    parts |= {} if found.p_values is None else {"p_value": found.p_values}
    order, heads = (-abs(found.shapley)).argsort(kind="stable").tolist(), ["table", *parts]
    rows = [[str(found.names[v]), *(x[v] for x in parts.values())] for v in order]
    holds = [repr(x) if model is None else f"{len(x)} rows" for x in pair]
    return Drawn(
        {"total": found.total, "tables": [dict(zip(heads, row, strict=True)) for row in rows]},
        {found.measure: f"{found.total:.6g}"},
        tables={"Tables": (heads, rows)},
        title=f"What changed from {before} to {after}",
        pictures=files.pictures_of(found),
        files=dict(zip(paths, holds, strict=True)),
    )


def monitor(
    model: Model,
    rows: Annotated[str, opt.InFile(help="The rows: a table (-: standard input, row by row).")],
    alpha: Annotated[float, Option(help="The probability of a false alarm, ever.")] = 0.05,
    arl: Annotated[float | None, Option(help="The mean run length until a false alarm.")] = None,
    tolerance: Annotated[float, Option(help="The discrepancy that is no change.")] = 0.0,
    without: opt.Without = None,
    missing: opt.Missing = None,
) -> None:
    """Watch rows as they come, and print a line of JSON at every alarm.

    The test is anytime-valid: it may be evaluated after every row. It restarts after an alarm.
    Rows are numbered from 0; a row of standard input is a line. Values may be missing at
    random. Ends with exit code 3 if there was an alarm.
    """
    circuit = files.read_distribution(model)
    test = ek.monitoring.SequentialTest(circuit, alpha=alpha, arl=arl, tolerance=tolerance)
    began, alarms = 0, 0
    for table in files.read_stream(rows, missing, without):
        X = files.rows_for(circuit, table)
        while len(X):
            before = test.n_rows
            with rows_numbered(range(began, began + before + len(X))):
                logs = test.update(X)
            if test.alarm is None:
                break
            at = test.alarm - before
            found = {"row": began + test.alarm, "rows": test.alarm + 1, "log_e": logs[at]}
            found["threshold"] = test.threshold
            typer.echo(json.dumps(opt.plain(found)))
            X, began, alarms = X[at + 1 :], began + test.alarm + 1, alarms + 1
            test.reset()
    if alarms:
        raise typer.Exit(opt.NO)


def audit(
    source: Annotated[str, opt.InFile(help="A table (-: standard input), circuit or model.")],
    by: Annotated[
        list[str] | None,
        Option(help="A column of groups, or several: a,b (may be repeated). Default: each."),
    ] = None,
    least: Annotated[float, Option(min=0.0, max=1.0, help="Leave out rarer groups.")] = 0.01,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
) -> Drawn:
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
    return Drawn(
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
