"""Commands that compare: test, drift, audit."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expectedkernels.cli.model_commands import Model
from expectedkernels.cli.options import (
    NO,
    AsJson,
    Bins,
    Level,
    Missing,
    Picture,
    Report,
    Seed,
    Without,
    draw,
    errors,
    note,
    refuse_twice,
    require_file,
    show,
    show_json,
)

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit


Distribution = Annotated[
    str,
    typer.Argument(
        callback=require_file, help="A circuit, a model, or a table of rows (-: standard input)."
    ),
]


class Statistic(StrEnum):
    """What `test` measures."""

    MMD = "mmd"
    KDSD = "kdsd"


def judge(
    ctx: typer.Context,
    model: Model,
    samples: Annotated[
        str,
        typer.Argument(
            callback=require_file, help="The samples: a table of complete rows (-: standard input)."
        ),
    ],
    statistic: Annotated[
        Statistic,
        typer.Option(help="The maximum mean discrepancy, or a Stein discrepancy."),
    ] = Statistic.MMD,
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Combine several bandwidths in one test.")
    ] = False,
    simulations: Annotated[
        int, typer.Option(min=1, help="How many samples are simulated under the hypothesis.")
    ] = 199,
    level: Level = 0.05,
    without: Without = None,
    missing: Missing = None,
    seed: Seed = 0,
    plot: Picture = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Test whether samples come from a model. Ends with exit code 3 if that is rejected."""
    with errors():
        from expectedkernels.cli.input import leave_out, read_distribution, read_file, rows_for
        from expectedkernels.discrepancies.hypothesis_tests import kdsd_test, mmd_test
        from expectedkernels.reports import pictures_of

        circuit = read_distribution(model)
        table = leave_out(read_file(samples), without)
        rows = rows_for(circuit, table, missing)
        note(f"Simulating {simulations} samples of {len(rows)} rows ...")
        run: Any = mmd_test if statistic is Statistic.MMD else kdsd_test
        kernel = "aggregate" if aggregate else None
        found = run(rows, circuit, kernel, n_null=simulations, rng=seed)
        rejected = bool(found.p_value <= level)
        verdict = "rejected" if rejected else "not rejected"
        words = {
            "samples": f"{len(rows)}",
            "statistic": f"{found.statistic:.6g} ({statistic.value})",
            "p-value": f"{found.p_value:.4g} ({simulations} simulations)",
            "answer": f"that the samples come from the model is {verdict} at {level:g}",
        }
        if as_json:
            answer = {"statistic": found.statistic, "p_value": found.p_value, "samples": len(rows)}
            settings = {"test": statistic.value, "kernel": repr(found.kernel), "level": level}
            show_json(answer | settings | {"simulations": simulations, "rejected": rejected})
        else:
            show(words)
        title = f"Do {samples} come from {model}?"
        words |= {"kernel": repr(found.kernel)}
        draw(ctx, title, words, pictures_of(found), {model: circuit, samples: table})
        if rejected:
            raise typer.Exit(NO)


def mmd(
    p: Distribution,
    q: Distribution,
    bins: Bins = 8,
    without: Without = None,
    missing: Missing = None,
    as_json: AsJson = False,
) -> None:
    """Print the maximum mean discrepancy between two circuits, models or tables, exactly."""
    with errors():
        from expectedkernels.discrepancies.mmd import mmd as mmd_between
        from expectedkernels.kernels.empirical import default_kernel

        one, other, circuit = _two(p, q, bins, without, missing)
        kernel = None if circuit is None else default_kernel(circuit)
        _answer("mmd", mmd_between(one, other, kernel), as_json, p=p, q=q)


def kdsd(
    q: Distribution,
    p: Annotated[
        str, typer.Argument(callback=require_file, help="The target: a circuit or a model.")
    ],
    without: Without = None,
    missing: Missing = None,
    as_json: AsJson = False,
) -> None:
    """Print the kernelised discrete Stein discrepancy of a circuit, or samples, from a target."""
    with errors():
        from expectedkernels.cli.input import read_distribution
        from expectedkernels.stein.kdsd import kdsd as kdsd_between

        target = read_distribution(p)
        found = kdsd_between(_distribution(q, target, without, missing), target)
        _answer("kdsd", found, as_json, q=q, p=p)


def _answer(name: str, value: float, as_json: bool, **paths: str) -> None:
    if as_json:
        show_json({**paths, name: value})
    else:
        typer.echo(f"{value:.10g}")


def _two(p: str, q: str, bins: int, without: Any, missing: Any) -> tuple[Any, Any, Circuit | None]:
    """Two distributions over the same variables, and a circuit among them, if there is one."""
    from expectedkernels.cli.input import coded, is_model, read_distribution, read_tables

    refuse_twice(p, q)
    if is_model(p):
        circuit = read_distribution(p)
        return circuit, _distribution(q, circuit, without, missing), circuit
    if is_model(q):
        circuit = read_distribution(q)
        return _distribution(p, circuit, without, missing), circuit, circuit
    one, other = coded(read_tables([p, q], without, missing), p, bins)[1]
    return one, other, None


def _distribution(path: str, circuit: Circuit, without: Any, missing: Any) -> Any:
    """A circuit from a file, or rows of a table by the variables of another circuit."""
    from expectedkernels.cli.input import (
        is_model,
        leave_out,
        read_distribution,
        read_file,
        rows_for,
    )

    if is_model(path):
        return read_distribution(path)
    return rows_for(circuit, leave_out(read_file(path), without), missing)


def drift(
    ctx: typer.Context,
    before: Annotated[
        str, typer.Argument(callback=require_file, help="A table (-: standard input).")
    ],
    after: Annotated[
        str, typer.Argument(callback=require_file, help="A table with the same columns.")
    ],
    permutations: Annotated[
        int, typer.Option(min=1, help="How often rows are divided at random, for the p-value.")
    ] = 99,
    bins: Bins = 8,
    level: Level = 0.05,
    without: Without = None,
    missing: Missing = None,
    seed: Seed = 0,
    plot: Picture = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Compare two tables: how far apart, whether by chance, and which columns changed.

    Columns, the most changed first: univariate is the squared discrepancy of a column alone;
    shapley its share of that of all columns, which is negative where the column dilutes the
    changes of others more than it adds, however much it changed itself; ignoring how much smaller
    the squared discrepancy is without it.

    Ends with exit code 3 if the tables differ beyond chance.
    """
    with errors():
        from expectedkernels.cli.input import read_tables
        from expectedkernels.monitoring import drift as drift_between
        from expectedkernels.reports import pictures_of

        refuse_twice(before, after)
        tables = read_tables([before, after], without, missing)
        note(f"Dividing {sum(map(len, tables))} rows {permutations} times ...")
        one, other = tables
        found = drift_between(one, other, n_permutations=permutations, n_bins=bins, rng=seed)
        differ = found.p_value is not None and found.p_value <= level
        parts = _parts(found)
        words = _drift_in_words(found, f"{'differ' if differ else 'do not differ'} at {level:g}")
        for i, path in enumerate((before, after)):
            if empty := found.windows.empty(i):
                words |= {f"empty in {path}": f"{', '.join(map(str, empty))}: not compared"}
        if as_json:
            answer = {"mmd": found.mmd, "p_value": found.p_value, "differ": differ, "level": level}
            sizes = {"rows_before": len(tables[0]), "rows_after": len(tables[1])}
            show_json(answer | sizes | {"columns": parts})
        else:
            show(words)
            _show_parts(parts)
        words |= {"kernel": repr(found.kernel)}
        title, files = f"What changed from {before} to {after}", {before: tables[0]}
        columns = (list(parts[0]), [list(part.values()) for part in parts])
        draw(
            ctx, title, words, pictures_of(found), files | {after: tables[1]}, {"Columns": columns}
        )
        if differ:
            raise typer.Exit(NO)


def _parts(found: Any) -> list[dict[str, Any]]:
    """What every column has to do with a change, the most changed one first."""
    import numpy as np

    gaps = [np.isnan(found.windows.rows(i)).mean(axis=0) for i in (0, 1)]
    return [
        {
            "name": str(found.names[v]),
            "univariate": found.univariate[v],
            "shapley": found.shapley[v],
            "ignoring": found.ignoring[v],
            "missing_before": gaps[0][v],
            "missing_after": gaps[1][v],
        }
        for v in np.argsort(-found.ignoring, kind="stable").tolist()
    ]


def _drift_in_words(found: Any, verdict: str) -> dict[str, str]:
    n, m = found.windows.sizes
    return {
        "rows": f"{n} and {m}",
        "discrepancy": f"{found.mmd:.6g} (squared: {found.mmd2:.6g})",
        "p-value": f"{found.p_value:.4g} ({len(found.null)} permutations)",
        "answer": f"the tables {verdict}",
    }


def _show_parts(parts: list[dict[str, Any]]) -> None:
    name, *numbers = parts[0]
    width = max(len(name), *(len(part[name]) for part in parts)) + 2
    typer.echo("\n" + "  ".join([f"{name:{width}}", *(f"{head:>12}" for head in numbers)]))
    for part in parts:
        cells = [f"{part[head]:>{max(12, len(head))}.3g}" for head in numbers]
        typer.echo("  ".join([f"{part[name]:{width}}", *cells]))


def audit(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            callback=require_file, help="A table (-: standard input), or a circuit or model of one."
        ),
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
    bins: Bins = 8,
    without: Without = None,
    missing: Missing = None,
    plot: Picture = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Print how far groups are from the whole population, the furthest first."""
    with errors():
        from expectedkernels.discrepancies.attribution import group_discrepancies
        from expectedkernels.reports import pictures_of

        circuit, read = _population(source, bins, without, missing)
        names = [part.split(",") for part in by] if by else 1
        found = group_discrepancies(circuit, _groups(circuit, names), min_probability=least)
        order = sorted(range(len(found.groups)), key=lambda i: -found.mmd2[i])
        groups = [
            {
                "group": found.groups[i],
                "mmd": found.mmd[i],
                "probability": found.probabilities[i],
            }
            for i in order
        ]
        if as_json:
            show_json({"groups": groups})
        else:
            width = max(len("group"), *map(len, found.groups)) + 2
            typer.echo(f"{'group':{width}}{'discrepancy':>12}{'probability':>13}")
            for x in groups:
                typer.echo(f"{x['group']:{width}}{x['mmd']:>12.4g}{x['probability']:>13.4g}")
        words = {"groups": len(groups), "kernel": repr(found.kernel)}
        table = (["group", "discrepancy", "probability"], [list(x.values()) for x in groups])
        title = f"Groups of {source}"
        draw(ctx, title, words, pictures_of(found), {source: read}, {"Groups": table})


def _population(source: str, bins: int, without: Any, missing: Any) -> tuple[Circuit, Any]:
    """The circuit in a file, or a tree that is learned from a table; and what was read."""
    from expectedkernels.cli.input import coded, is_model, read_distribution, read_tables
    from expectedkernels.learning.chow_liu import learn_chow_liu

    if is_model(source):
        circuit = read_distribution(source)
        return circuit, circuit
    [table] = read_tables([source], without, missing)
    schema, [rows] = coded([table], source, bins)
    cards = [card or 0 for card in schema.cardinalities]
    return learn_chow_liu(rows, cardinalities=cards).with_schema(schema), table


def _groups(circuit: Circuit, names: Any) -> Any:
    from expectedkernels.checks import DataError
    from expectedkernels.cli.input import variable_of

    if isinstance(names, int):
        return names
    variables = [[variable_of(circuit, name) for name in part] for part in names]
    if circuit.names is None:
        raise DataError("The variables have no names to make groups by. Leave --by out.")
    return [[circuit.schema.name(v) for v in part] for part in variables]
