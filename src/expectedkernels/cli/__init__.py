"""The command line. Each command imports what it runs when it runs, so that help is instant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from expectedkernels import __version__
from expectedkernels.cli import commands
from expectedkernels.cli.options import CONTEXT, WRONG_USAGE, Remembering, command, fail

app = typer.Typer(
    name="expectedkernels",
    help="Exact kernel expectations under probabilistic circuits.",
    cls=Remembering,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
)

COMMANDS: list[tuple[Callable[..., Any], str]] = [
    (commands.learn, "learn patients.csv -o c.npz --without id"),
    (commands.compile_model, "compile rain.uai -o rain.npz"),
    (commands.info, "info c.npz --json"),
    (commands.sample, "sample c.npz -n 500 --given smoker=yes -o rows.csv"),
    (commands.marginals, "marginals c.npz --given smoker=yes --of sex"),
    (commands.plot, "plot c.npz --given smoker=yes -o marginals.png"),
    (commands.judge, "test c.npz rows.csv --level 0.01"),
    (commands.mmd, "mmd c.npz rows.csv"),
    (commands.kdsd, "kdsd rows.csv c.npz"),
    (commands.fit, "fit patients.csv --target pressure --without id -o pressure.skops"),
    (commands.predict, "predict new.csv --model pressure.skops --interval 0.9"),
    (commands.impute, "impute patients.csv --without id -o filled.csv"),
    (commands.explain, "explain new.csv --model pressure.skops --row 2"),
    (commands.drift, "drift patients.csv later.csv --without id"),
    (commands.fit_network, "fit-network rows.csv --arc smoker,sex -o smoking.bif"),
    (commands.effect, "effect sick.bif --treatment smoker --outcome ill --of no,yes"),
    (commands.mechanisms, "mechanisms sick.bif sicker.bif --target ill"),
    (commands.monitor, "monitor c.npz rows.csv --arl 40000"),
    (commands.audit, "audit patients.csv --without id --by sex --by sex,smoker"),
    (commands.convert, "convert patients.csv patients.tsv"),
    (commands.demo, "demo --out picture.png"),
]
"""What commands run, and an example of each, which begins with its name."""

for run, example in COMMANDS:
    app.command(example.split()[0], epilog=f"Example: expectedkernels {example}")(command(run))
app.command("compare", hidden=True)(command(commands.drift))  # its former name

REMOVED = {
    "reproduce": "Run `python -m studies NAME` in a clone of the repository.",
    "bench": "Run `python -m benchmarks NAME` in a clone of the repository.",
    "schema": "See docs/schemas.json for the schemas of what commands print with --json.",
}
"""Removed commands, and what to use instead."""


def _removed(ctx: typer.Context) -> None:
    fail(f"The command '{ctx.info_name}' was removed. {REMOVED[str(ctx.info_name)]}", WRONG_USAGE)


for name in REMOVED:
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name, hidden=True, add_help_option=False, context_settings=settings)(_removed)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"expectedkernels {__version__}")
        raise typer.Exit


VERSION = typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")


@app.callback()
def main(show_version: Annotated[bool, VERSION] = False) -> None:
    """Exact kernel expectations under probabilistic circuits."""
