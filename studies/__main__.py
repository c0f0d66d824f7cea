"""Run a study: `python -m studies NAME ...`; without a name, list them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from expectedkernels.cli.options import (
    CONTEXT,
    Remembering,
    Report,
    Seed,
    errors,
    fail,
    settings_of,
)

app = typer.Typer(
    name="python -m studies",
    help="Repeat the studies of the paper, and one of missing values.",
    cls=Remembering,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
)

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


@app.command(epilog="Example: python -m studies regression --quick")
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
    _run(
        ctx,
        datasets=dataset,
        splits=split,
        missing=missing,
        methods=method,
        trials=trials,
        jobs=jobs,
        check=check,
    )


@app.command(epilog="Example: python -m studies inference --quick")
def inference(
    ctx: typer.Context,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="'ising', 'asia', or the path of a .uai or .bif file (may be "
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
    _run(
        ctx,
        models=model,
        proposals=proposal,
        tries=tries,
        seed=seed,
        again=again,
        keep=keep,
        jobs=jobs,
    )


@app.command(epilog="Example: python -m studies missing --quick")
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
    _run(ctx, tables=table, holes=holes, methods=method, trials=trials, jobs=jobs)


def _run(ctx: typer.Context, **asked: Any) -> None:
    """Run the study that the command is named after, and say what it found and wrote."""
    name = str(ctx.info_name)
    out, data_dir, quick, report = (ctx.params[x] for x in ("out", "data_dir", "quick", "report"))
    study = import_module(f"studies.{name}.study")
    with errors():
        folder = out or Path(f"{name}-quick" if quick else name)
        done = getattr(study, f"reproduce_{name}")(folder, data_dir, quick=quick, **asked)
        typer.echo(done.words)
        pages = [] if report is None else [done.write_page(report, settings_of(ctx))]
        for path in (*done.files, *pages):
            typer.echo(f"written: {path}")
        if done.problem:
            fail(done.problem)


if __name__ == "__main__":
    app(prog_name="python -m studies")
