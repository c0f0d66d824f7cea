"""Commands that compare: test, drift, audit."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

import expectedkernels as ek
from expectedkernels.cli import options as opt
from expectedkernels.cli.model_commands import Model
from expectedkernels.cli.options import Answer, as_table, in_columns, note, refuse_twice

Distribution = Annotated[
    str, opt.InFile(help="A circuit, a model, or a table of rows (-: standard input).")
]


class Statistic(StrEnum):
    """What `test` measures."""

    MMD = "mmd"
    KDSD = "kdsd"


def judge(
    ctx: typer.Context,
    model: Model,
    samples: Annotated[
        str, opt.InFile(help="The samples: a table of complete rows (-: standard input).")
    ],
    statistic: Annotated[
        Statistic, typer.Option(help="The maximum mean discrepancy, or a Stein discrepancy.")
    ] = Statistic.MMD,
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Combine several bandwidths in one test.")
    ] = False,
    simulations: Annotated[
        int, typer.Option(min=1, help="How many samples are simulated under the hypothesis.")
    ] = 199,
    level: opt.Level = 0.05,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
    plot: opt.Picture = None,
    report: opt.Report = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Test whether samples come from a model. Ends with exit code 3 if that is rejected."""
    from expectedkernels.cli import input as files
    from expectedkernels.reports import pictures_of

    circuit = files.read_distribution(model)
    table = files.leave_out(files.read_file(samples, missing), without)
    rows = files.rows_for(circuit, table)
    note(f"Simulating {simulations} samples of {len(rows)} rows ...")
    run: Any = ek.mmd_test if statistic is Statistic.MMD else ek.kdsd_test
    found = run(rows, circuit, "aggregate" if aggregate else None, n_null=simulations, rng=seed)
    rejected = bool(found.p_value <= level)
    verdict = "rejected" if rejected else "not rejected"
    words = {
        "samples": f"{len(rows)}",
        "statistic": f"{found.statistic:.6g} ({statistic.value})",
        "p-value": f"{found.p_value:.4g} ({simulations} simulations)",
        "answer": f"that the samples come from the model is {verdict} at {level:g}",
    }
    kernel = repr(found.kernel)
    numbers = {"statistic": found.statistic, "p_value": found.p_value, "samples": len(rows)}
    numbers |= {"test": statistic.value, "kernel": kernel, "level": level}
    return Answer(
        numbers | {"simulations": simulations, "rejected": rejected},
        in_columns(words),
        f"Do {samples} come from {model}?",
        words | {"kernel": kernel},
        pictures_of(found),
        {model: circuit, samples: table},
        rejected=rejected,
    )


def mmd(
    p: Distribution,
    q: Distribution,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Print the maximum mean discrepancy between two circuits, models or tables, exactly."""
    from expectedkernels.cli.input import coded, is_model, read_distribution, read_tables
    from expectedkernels.kernels.empirical import default_kernel

    refuse_twice(p, q)
    kernel = None
    if is_model(p) or is_model(q):
        circuit = read_distribution(p if is_model(p) else q)
        kernel = default_kernel(circuit)
        pair: list[Any] = [_distribution(path, circuit, without, missing) for path in (p, q)]
    else:
        pair = coded(read_tables([p, q], without, missing), p, bins)[1]
    found = ek.mmd(pair[0], pair[1], kernel)
    return Answer({"p": p, "q": q, "mmd": found}, f"{found:.10g}")


def kdsd(
    q: Distribution,
    p: Annotated[str, opt.InFile(help="The target: a circuit or a model.")],
    without: opt.Without = None,
    missing: opt.Missing = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Print the kernelised discrete Stein discrepancy of a circuit, or samples, from a target."""
    from expectedkernels.cli.input import read_distribution

    target = read_distribution(p)
    found = ek.kdsd(_distribution(q, target, without, missing), target)
    return Answer({"q": q, "p": p, "kdsd": found}, f"{found:.10g}")


def _distribution(path: str, circuit: ek.Circuit, without: Any, missing: Any) -> Any:
    """A circuit from a file, or rows of a table by the variables of another circuit."""
    from expectedkernels.cli import input as files

    if files.is_model(path):
        return files.read_distribution(path)
    return files.rows_for(circuit, files.leave_out(files.read_file(path, missing), without))


def drift(
    ctx: typer.Context,
    before: Annotated[str, opt.InFile(help="A table (-: standard input).")],
    after: Annotated[str, opt.InFile(help="A table with the same columns.")],
    permutations: Annotated[
        int, typer.Option(min=1, help="How often rows are divided at random, for the p-value.")
    ] = 99,
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
    import numpy as np

    from expectedkernels.cli.input import read_tables
    from expectedkernels.reports import pictures_of

    refuse_twice(before, after)
    one, other = read_tables([before, after], without, missing)
    note(f"Dividing {len(one) + len(other)} rows {permutations} times ...")
    found = ek.drift(one, other, n_permutations=permutations, n_bins=bins, rng=seed)
    differ = bool(found.p_value is not None and found.p_value <= level)
    gaps = [np.isnan(found.windows.rows(i)).mean(axis=0) for i in (0, 1)]
    named = {
        "univariate": found.univariate,
        "shapley": found.shapley,
        "ignoring": found.ignoring,
        "missing_before": gaps[0],
        "missing_after": gaps[1],
    }
    parts = [
        {"name": str(found.names[v]), **{name: values[v] for name, values in named.items()}}
        for v in np.argsort(-found.ignoring, kind="stable").tolist()
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
    columns = (list(parts[0]), [list(part.values()) for part in parts])
    return Answer(
        numbers | {"rows_before": len(one), "rows_after": len(other), "columns": parts},
        f"{in_columns(words)}\n\n{as_table(*columns, digits=3)}",
        f"What changed from {before} to {after}",
        words | {"kernel": repr(found.kernel)},
        pictures_of(found),
        {before: one, after: other},
        {"Columns": columns},
        rejected=differ,
    )


def audit(
    ctx: typer.Context,
    source: Annotated[
        str, opt.InFile(help="A table (-: standard input), or a circuit or model of one.")
    ],
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="A column whose states are groups; several with commas between them are combined "
            "(may be repeated). Default: every column."
        ),
    ] = None,
    least: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Leave out groups of smaller probability.")
    ] = 0.01,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
    plot: opt.Picture = None,
    report: opt.Report = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Print how far groups are from the whole population, the furthest first."""
    from expectedkernels.reports import pictures_of

    circuit, read = _population(source, bins, without, missing)
    found = ek.group_discrepancies(circuit, _groups(circuit, by), min_probability=least)
    order = sorted(range(len(found.groups)), key=lambda i: -found.mmd2[i])
    groups = [(found.groups[i], found.mmd[i], found.probabilities[i]) for i in order]
    table = (["group", "discrepancy", "probability"], groups)
    names = ("group", "mmd", "probability")
    return Answer(
        {"groups": [dict(zip(names, group, strict=True)) for group in groups]},
        as_table(*table, digits=4),
        f"Groups of {source}",
        {"groups": len(groups), "kernel": repr(found.kernel)},
        pictures_of(found),
        {source: read},
        {"Groups": table},
    )


def _population(source: str, bins: int, without: Any, missing: Any) -> tuple[ek.Circuit, Any]:
    """The circuit in a file, or a tree that is learned from a table; and what was read."""
    from expectedkernels.cli.input import coded, is_model, read_distribution, read_tables

    if is_model(source):
        circuit = read_distribution(source)
        return circuit, circuit
    [table] = read_tables([source], without, missing)
    schema, [rows] = coded([table], source, bins)
    cards = [card or 0 for card in schema.cardinalities]
    return ek.learn_chow_liu(rows, cardinalities=cards).with_schema(schema), table


def _groups(circuit: ek.Circuit, by: list[str] | None) -> Any:
    """The names of the variables of every grouping; 1: of every variable alone."""
    from expectedkernels.cli.input import variable_of

    if not by:
        return 1
    variables = [[variable_of(circuit, name) for name in part.split(",")] for part in by]
    if circuit.names is None:
        raise ek.DataError("The variables have no names to make groups by. Leave --by out.")
    return [[circuit.schema.name(v) for v in part] for part in variables]
