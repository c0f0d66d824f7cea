"""The command line. Each command imports what it runs when it runs, so that help is instant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expectedkernels import __version__

app = typer.Typer(
    name="expectedkernels",
    help="Exact kernel expectations under probabilistic circuits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"expectedkernels {__version__}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Exact kernel expectations under probabilistic circuits."""


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(dir_okay=False, writable=True, help="Where to write the picture.")
    ] = Path("demo.png"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the samples and of the fit.")] = 0,
    samples: Annotated[
        int, typer.Option(min=100, help="The largest number of samples to compare with.")
    ] = 1_000_000,
) -> None:
    """Compare the exact E[k(x, x')] of two circuits of digits with Monte Carlo estimates."""
    from expectedkernels.experiments.demo import run, table

    result = run(seed=seed, max_samples=samples)
    typer.echo(table(result))
    try:
        from expectedkernels.plotting import plot_convergence, save
    except ImportError as error:
        typer.echo(f"No picture was written. {error}", err=True)
        raise typer.Exit(code=1) from error
    axes = plot_convergence(
        [estimate.n_samples for estimate in result.estimates],
        [estimate.value for estimate in result.estimates],
        exact=result.exact,
        standard_errors=[estimate.standard_error for estimate in result.estimates],
    )
    typer.echo(f"\nPicture written to {save(axes, out)}")
