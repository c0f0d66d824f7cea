"""Commands that repeat studies, show what the library does, and time it."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from expectedkernels.cli.base import errors, fail, group

reproduce = group("Repeat the studies of the paper, and one more (from the repository).")


def demo(
    out: Annotated[
        Path, typer.Option(dir_okay=False, writable=True, help="Where to write the picture.")
    ] = Path("demo.png"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the splits and of what goes missing.")
    ] = 0,
    splits: Annotated[
        int, typer.Option(min=1, help="How often the rows are split into training and test rows.")
    ] = 8,
) -> None:
    """Predict from rows with missing values: expected predictions against imputation.

    Takes the diabetes data that come with scikit-learn; prints a table and writes a picture.
    """
    from expectedkernels.demo import plot, run, table

    result = run(seed=seed, n_splits=splits)
    typer.echo(table(result))
    try:
        axes = plot(result)
    except ImportError as error:
        fail(f"No picture was written. {error}")
    from expectedkernels.plotting.style import save

    with errors():
        typer.echo(f"\nPicture written to {save(axes[0], out)}")


@reproduce.command()
def regression(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="EXPECTEDKERNELS_DATA",
            help="The folder with the raw data (or with a folder 'regression' of them). What is "
            "missing there is fetched from OpenML, where it can be found.",
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="A data set (may be repeated). Default: all four.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The folder for results; those in it are kept. Default: 'regression', or "
            "'regression-quick'.",
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Random masks per rate.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method (may be repeated). Default: all.")
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option(help="'valid' or 'test'. Default: both.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option(help="'bits' or 'features' are missing. Default: both.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="The number of processes (-1: all cores).")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look within a minute, at fewer rows.")
    ] = False,
    check: Annotated[
        bool, typer.Option(help="Whether the data must be those of the paper, bit for bit.")
    ] = True,
) -> None:
    """Predict with missing values: expected predictions against imputation, on four data sets.

    Writes results.csv, summary.md and figures; goes on where an earlier run stopped.
    """
    reproduce_regression = _study("regression").reproduce_regression

    with errors():
        folder = out or Path("regression-quick" if quick else "regression")
        done = reproduce_regression(
            folder,
            data_dir,
            datasets=dataset,
            splits=split,
            missing=missing,
            methods=method,
            trials=trials,
            jobs=jobs,
            quick=quick,
            check=check,
        )
        _report(done)


@reproduce.command()
def inference(
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="'ising', 'asia', or the path of a .uai, .bif or .xmlbif file (may be "
            "repeated). Default: the first two."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="EXPECTEDKERNELS_DATA",
            help="The folder with the grid of the paper (uai/ising_4x4.uai). Without it, 'ising' "
            "is another random grid.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The folder for results; those in it are kept. Default: 'inference', or "
            "'inference-quick'.",
        ),
    ] = None,
    proposal: Annotated[
        list[str] | None,
        typer.Option(
            help="Where samples come from: 'gibbs' (thinned), 'uniform' or 'sticky' (every update "
            "of a Gibbs chain); may be repeated. Default: the first two."
        ),
    ] = None,
    tries: Annotated[int | None, typer.Option(min=1, help="Repetitions. Default: 5.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    jobs: Annotated[int, typer.Option(help="The number of processes (-1: all cores).")] = 1,
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
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look within a minute, at fewer samples.")
    ] = False,
) -> None:
    """Estimate marginals: collapsed and weighted samples against Gibbs sampling and CIS.

    Writes results.csv, summary.md and figures; goes on where an earlier run stopped.
    """
    reproduce_inference = _study("inference").reproduce_inference

    with errors():
        done = reproduce_inference(
            out or Path("inference-quick" if quick else "inference"),
            data_dir,
            models=model,
            proposals=proposal,
            tries=tries,
            seed=seed,
            again=again,
            keep=keep,
            jobs=jobs,
            quick=quick,
        )
        _report(done)


@reproduce.command()
def missing(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="EXPECTEDKERNELS_DATA",
            help="The folder with the tables of the regression study; those that are there are "
            "taken besides the ones of scikit-learn.",
        ),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="A table (may be repeated). Default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The folder for results; those in it are kept. Default: 'missing', or "
            "'missing-quick'.",
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Splits per table. Default: 5.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method (may be repeated). Default: all.")
    ] = None,
    holes: Annotated[
        list[str] | None,
        typer.Option(
            help="Values are missing in 'test' rows only, or in 'both' training and test rows "
            "(may be repeated). Default: both ways."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="The number of processes (-1: all cores).")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look within a minute, at fewer rows.")
    ] = False,
) -> None:
    """Predict from rows with holes: expected predictions against imputation and boosting.

    Writes results.csv, summary.md and a figure; goes on where an earlier run stopped.
    """
    reproduce_missing = _study("missing").reproduce_missing

    with errors():
        done = reproduce_missing(
            out or Path("missing-quick" if quick else "missing"),
            data_dir,
            tables=table,
            holes=holes,
            methods=method,
            trials=trials,
            jobs=jobs,
            quick=quick,
        )
        _report(done)


def bench(
    name: Annotated[
        list[str] | None, typer.Argument(help="Benchmarks. Default: list them.")
    ] = None,
) -> None:
    """Run benchmarks (from the repository), or list them."""
    run = _from_repository("benchmarks.run", "Benchmarks")
    unknown = [word for word in name or () if word not in run.BENCHMARKS]
    if unknown:
        fail(f"There is no benchmark {unknown[0]!r}. There are {', '.join(run.BENCHMARKS)}.")
    if name:
        run.main(name)
    else:
        typer.echo("\n".join(run.BENCHMARKS))


def _study(name: str) -> Any:
    return _from_repository(f"studies.{name}.study", "Studies")


def _from_repository(module: str, what: str) -> Any:
    """A module that lies beside the library in its repository, and not in wheels."""
    root = Path(__file__).resolve().parents[3]
    if not root.joinpath(*module.split(".")).with_suffix(".py").is_file():
        fail(f"{what} run from the repository of expectedkernels: clone it, and run this there.")
    sys.path.insert(0, str(root))
    return import_module(module)


def _report(done: Any) -> None:
    """Print what a study found and wrote."""
    typer.echo(done.words)
    for path in done.files:
        typer.echo(f"written: {path}")
    if done.problem:
        fail(done.problem)
