"""Commands that repeat studies, show what the library does, and time it."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from expectedkernels.cli.base import AsJson, Seed, errors, fail, group, show_json
from expectedkernels.cli.pages import OutPicture, Report, settings_of

reproduce = group("Repeat the studies of the paper, and one more (from the repository).")

Jobs = Annotated[int, typer.Option(help="The number of processes (-1: all cores).")]
Quick = Annotated[bool, typer.Option("--quick", help="A first look within a minute, at less data.")]
Method = Annotated[list[str] | None, typer.Option(help="A method (may be repeated). Default: all.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="The folder for results; those in it are kept. Default: the name of the study, with "
        "'-quick' for a first look.",
    ),
]


def _data(words: str) -> Any:
    return typer.Option(envvar="EXPECTEDKERNELS_DATA", help=words)


def demo(
    out: OutPicture = Path("demo.png"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the splits and of what goes missing.")
    ] = 0,
    splits: Annotated[
        int, typer.Option(min=1, help="How often the rows are split into training and test rows.")
    ] = 8,
    as_json: AsJson = False,
) -> None:
    """Predict from rows with missing values: expected predictions against imputation.

    Takes the diabetes data that come with scikit-learn; prints a table and writes a picture.
    """
    from expectedkernels.demo import RATES, plot, run, table

    result = run(seed=seed, n_splits=splits)
    if as_json:
        means, ranks = result.mean_errors(), result.mean_ranks()
        methods = [{"name": m, "errors": means[m], "mean_rank": ranks[m]} for m in means]
        found = {"rates": RATES, "complete": result.complete.mean(), "methods": methods}
        show_json(found | {"coverage": result.shown.coverage, "seconds": result.seconds})
    else:
        typer.echo(table(result))
    try:
        axes = plot(result)
    except ImportError as error:
        fail(f"No picture was written. {error}")
    from expectedkernels.plotting.style import save

    with errors():
        save(axes[0], out)
        if not as_json:
            typer.echo(f"\nPicture written to {out}")


@reproduce.command(epilog="Example: expectedkernels reproduce regression --quick")
def regression(
    ctx: typer.Context,
    data_dir: Annotated[
        Path | None,
        _data(
            "The folder with the raw data (or with a folder 'regression' of them). What is "
            "missing there is fetched from OpenML, where it can be found."
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="A data set (may be repeated). Default: all four.")
    ] = None,
    out: Out = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Random masks per rate.")] = None,
    method: Method = None,
    split: Annotated[
        list[str] | None, typer.Option(help="'valid' or 'test'. Default: both.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option(help="'bits' or 'features' are missing. Default: both.")
    ] = None,
    jobs: Jobs = 1,
    quick: Quick = False,
    check: Annotated[
        bool, typer.Option(help="Whether the data must be those of the paper, bit for bit.")
    ] = True,
    report: Report = None,
) -> None:
    """Predict with missing values: expected predictions against imputation, on four data sets.

    Writes results.csv, summary.md and figures, Figure 2 of the paper among them; goes on where an
    earlier run stopped.
    """
    _reproduce(
        ctx,
        datasets=dataset,
        splits=split,
        missing=missing,
        methods=method,
        trials=trials,
        jobs=jobs,
        check=check,
    )


@reproduce.command(epilog="Example: expectedkernels reproduce inference --quick")
def inference(
    ctx: typer.Context,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="'ising', 'asia', or the path of a .uai, .bif or .xmlbif file (may be "
            "repeated). Default: the first two."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        _data(
            "The folder with the grid of the paper (uai/ising_4x4.uai). Without it, 'ising' "
            "is another random grid."
        ),
    ] = None,
    out: Out = None,
    proposal: Annotated[
        list[str] | None,
        typer.Option(
            help="Where samples come from: 'gibbs' (thinned), 'uniform' or 'sticky' (every update "
            "of a Gibbs chain); may be repeated. Default: the first two."
        ),
    ] = None,
    tries: Annotated[int | None, typer.Option(min=1, help="Repetitions. Default: 5.")] = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    again: Annotated[
        list[str] | None,
        typer.Option(
            help="A rule for weights to compute anew, such as 'default', because it has changed "
            "(may be repeated)."
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep Gram matrices in the folder: other weights are fast later."
        ),
    ] = False,
    quick: Quick = False,
    report: Report = None,
) -> None:
    """Estimate marginals: collapsed and weighted samples against Gibbs sampling and CIS.

    Writes results.csv, summary.md and figures, Figure 3 of the paper among them; goes on where an
    earlier run stopped.
    """
    _reproduce(
        ctx,
        models=model,
        proposals=proposal,
        tries=tries,
        seed=seed,
        again=again,
        keep=keep,
        jobs=jobs,
    )


@reproduce.command(epilog="Example: expectedkernels reproduce missing --quick")
def missing(
    ctx: typer.Context,
    data_dir: Annotated[
        Path | None,
        _data(
            "The folder with the tables of the regression study; those that are there are "
            "taken besides the ones of scikit-learn."
        ),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="A table (may be repeated). Default: all.")
    ] = None,
    out: Out = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Splits per table. Default: 5.")] = None,
    method: Method = None,
    holes: Annotated[
        list[str] | None,
        typer.Option(
            help="Values are missing in 'test' rows only, or in 'both' training and test rows "
            "(may be repeated). Default: both ways."
        ),
    ] = None,
    jobs: Jobs = 1,
    quick: Quick = False,
    report: Report = None,
) -> None:
    """Predict from rows with holes: expected predictions against imputation and boosting.

    Writes results.csv, summary.md and a figure; goes on where an earlier run stopped.
    """
    _reproduce(ctx, tables=table, holes=holes, methods=method, trials=trials, jobs=jobs)


def _reproduce(ctx: typer.Context, **asked: Any) -> None:
    """Run the study that the command is named after, and say what it found and wrote."""
    name = str(ctx.info_name)
    out, data_dir, quick, report = (ctx.params[x] for x in ("out", "data_dir", "quick", "report"))
    study = _from_repository(f"studies.{name}.study", "Studies")
    with errors():
        folder = out or Path(f"{name}-quick" if quick else name)
        done = getattr(study, f"reproduce_{name}")(folder, data_dir, quick=quick, **asked)
        typer.echo(done.words)
        pages = [] if report is None else [done.write_page(report, settings_of(ctx))]
        for path in (*done.files, *pages):
            typer.echo(f"written: {path}")
        if done.problem:
            fail(done.problem)


def bench(
    name: Annotated[
        list[str] | None, typer.Argument(help="Benchmarks. Default: list them.")
    ] = None,
) -> None:
    """Run benchmarks (from the repository), or list them."""
    run = _from_repository("benchmarks.__main__", "Benchmarks")
    unknown = [word for word in name or () if word not in run.BENCHMARKS]
    if unknown:
        fail(f"There is no benchmark {unknown[0]!r}. There are {', '.join(run.BENCHMARKS)}.")
    if name:
        run.main(name)
    else:
        typer.echo("\n".join(run.BENCHMARKS))


def _from_repository(module: str, what: str) -> Any:
    """A module that lies beside the library in its repository, and not in wheels."""
    root = Path(__file__).resolve().parents[3]
    if not root.joinpath(*module.split(".")).with_suffix(".py").is_file():
        fail(f"{what} run from the repository of expectedkernels: clone it, and run this there.")
    sys.path.insert(0, str(root))
    return import_module(module)
