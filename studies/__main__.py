"""Run a study: `python -m studies NAME ...`; without a name, list them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from expectedkernels.cli.options import CONTEXT, Seed, errors, fail

app = typer.Typer(
    name="python -m studies",
    help="Repeat the studies of the paper, and one of missing values. Each prints a table, writes "
    "results.csv, a page (summary.md) and a figure, and goes on where an earlier run stopped.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
)


def _some(name: str, what: str, default: str) -> Any:
    return typer.Option(name, help=f"{what} (may be repeated). Default: {default}.")


def _data(words: str) -> Any:
    return typer.Option(envvar="EXPECTEDKERNELS_DATA", help=words)


Some = list[str] | None
Method = Annotated[Some, _some("--method", "A method", "all")]
Number = Annotated[int | None, typer.Option(min=1, help="Repetitions. Default: 5.")]
Jobs = Annotated[int, typer.Option(help="The number of processes (-1: all cores).")]
Quick = Annotated[bool, typer.Option("--quick", help="A first look within a minute, at less data.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="The folder for results; those in it are kept. Default: the name of the study, with "
        "'-quick' for a first look.",
    ),
]
RAW = (
    "The folder with the raw data (or with a folder 'regression' of them). What is missing there "
    "is fetched from OpenML, where it can be found."
)
GRID = "The folder with the grid of the paper (uai/ising_4x4.uai); else 'ising' is a random grid."
TABLES = "The folder with the tables of the regression study, besides those of scikit-learn."
MODEL = "'ising', 'asia', or the path of a .uai or .bif file"
PROPOSAL = "Samples are of 'gibbs' (thinned), 'uniform' or 'sticky' (every update of a Gibbs chain)"
AGAIN = "A rule for weights to compute anew, such as 'default', because it has changed"
HOLES = "Values are missing in 'test' rows only, or in 'both' training and test rows"


@app.command(epilog="Example: python -m studies regression --quick")
def regression(
    ctx: typer.Context,
    data_dir: Annotated[Path | None, _data(RAW)] = None,
    datasets: Annotated[Some, _some("--dataset", "A data set", "all four")] = None,
    out: Out = None,
    trials: Number = None,
    methods: Method = None,
    splits: Annotated[Some, _some("--split", "'valid' or 'test' rows", "both")] = None,
    missing: Annotated[Some, _some("--missing", "'bits' or 'features'", "both")] = None,
    jobs: Jobs = 1,
    quick: Quick = False,
    check: Annotated[
        bool, typer.Option(help="Whether the data must be those of the paper, bit for bit.")
    ] = True,
) -> None:
    """Predict with missing values: expected predictions against imputation, on four data sets.

    The figure is Figure 2 of the paper, from our own runs.
    """
    _run(ctx)


@app.command(epilog="Example: python -m studies inference --quick")
def inference(
    ctx: typer.Context,
    models: Annotated[Some, _some("--model", MODEL, "the first two")] = None,
    data_dir: Annotated[Path | None, _data(GRID)] = None,
    out: Out = None,
    proposals: Annotated[Some, _some("--proposal", PROPOSAL, "the first two")] = None,
    tries: Number = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    again: Annotated[Some, _some("--again", AGAIN, "none")] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep Gram matrices: other weights are fast later."),
    ] = False,
    quick: Quick = False,
) -> None:
    """Estimate marginals: collapsed and weighted samples against Gibbs sampling and CIS.

    The figure is Figure 3 of the paper, from our own runs.
    """
    _run(ctx)


@app.command(epilog="Example: python -m studies missing --quick")
def missing(
    ctx: typer.Context,
    data_dir: Annotated[Path | None, _data(TABLES)] = None,
    tables: Annotated[Some, _some("--table", "A table", "all")] = None,
    out: Out = None,
    trials: Number = None,
    methods: Method = None,
    holes: Annotated[Some, _some("--holes", HOLES, "both ways")] = None,
    jobs: Jobs = 1,
    quick: Quick = False,
) -> None:
    """Predict from rows with missing values: expected predictions, imputation and boosting."""
    _run(ctx)


def _run(ctx: typer.Context) -> None:
    """Run the study that the command is named after, and say what it found and wrote."""
    name, asked = str(ctx.info_name), dict(ctx.params)
    out, data_dir = asked.pop("out"), asked.pop("data_dir")
    study = import_module(f"studies.{name}.study")
    with errors():
        folder = out or Path(f"{name}-quick" if asked["quick"] else name)
        done = getattr(study, f"reproduce_{name}")(folder, data_dir, **asked)
        table = done.table.to_string(float_format="{:.3f}".format, na_rep="")
        typer.echo(f"{table}\n\n{done.words}\n")
        for path in done.files:
            typer.echo(f"written: {path}")
        if done.problem:
            fail(done.problem)


if __name__ == "__main__":
    app(prog_name="python -m studies")
