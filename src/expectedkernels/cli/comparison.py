"""Commands that compare: test, drift, audit."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
from typer import Option

import expectedkernels as ek
from expectedkernels.cli import options as opt
from expectedkernels.cli.model_commands import Model
from expectedkernels.cli.options import Answer, files, note, refuse_twice, require

Distribution = Annotated[
    str, opt.InFile(help="A circuit, a model, or a table of rows (-: standard input).")
]


Statistic = StrEnum("Statistic", ["MMD", "KDSD"])
"""What `test` measures."""


def judge(
    ctx: typer.Context,
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
    plot: opt.Picture = None,
    report: opt.Report = None,
    as_json: opt.AsJson = False,
) -> Answer:
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
    return Answer(
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
    as_json: opt.AsJson = False,
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
    as_json: opt.AsJson = False,
) -> Answer:
    """Print the kernelised discrete Stein discrepancy of a circuit, or samples, from a target."""
    target = files.read_distribution(p)
    found = ek.kdsd(files.read_any(q, target, without, missing), target)
    return Answer({"q": q, "p": p, "kdsd": found}, text=f"{found:.10g}")


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
