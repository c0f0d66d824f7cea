"""Commands that ask a circuit: samples, and marginal distributions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from expectedkernels.cli.base import AsJson, Seed, errors, require_file, show_json
from expectedkernels.cli.pages import OutPicture, OutTable

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        callback=require_file,
        help="A circuit (.npz, .psdd, .jpc, .spn), or a model (.uai, .bif), compiled.",
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(help="What is known, such as rain=yes (may be repeated)."),
]
Of = Annotated[list[str] | None, typer.Option(help="A variable (may be repeated). Default: all.")]
MOST_BARS = 60
"""How many states a picture shows."""


def sample(
    model: Model,
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 1000,
    given: Given = None,
    out: OutTable = "-",
    seed: Seed = 0,
) -> None:
    """Draw rows from a circuit or a model, with the names of variables and states."""
    with errors():
        from expectedkernels.cli.models import read_distribution
        from expectedkernels.cli.tables import decoded, evidence_of, write_rows

        circuit = read_distribution(model)
        rows = circuit.sample(n, seed, evidence_of(circuit, given) if given else None)
        write_rows(decoded(circuit, rows), out)


def marginals(
    model: Model,
    given: Given = None,
    of: Of = None,
    as_json: AsJson = False,
) -> None:
    """Print the exact distribution of every variable, given what is known."""
    with errors():
        found = _marginals(model, given, of)
        if as_json:
            show_json({"given": list(given or ()), "marginals": found})
            return
        width = max(len(str(part["name"])) for part in found) + 2
        for part in found:
            words = "  ".join(f"{state} {value:.6g}" for state, value in part["values"].items())
            typer.echo(f"{part['name']!s:{width}}{words}")


def _marginals(model: str, given: list[str] | None, of: list[str] | None) -> list[dict[str, Any]]:
    """The marginal distributions of variables; means and variances of real ones."""
    from expectedkernels.cli.models import read_distribution
    from expectedkernels.cli.tables import evidence_of, variable_of

    circuit = read_distribution(model)
    schema = circuit.schema
    chosen = [variable_of(circuit, name) for name in of or ()] or range(circuit.n_variables)
    found = circuit.marginals(evidence_of(circuit, given) if given else None)
    answers = []
    for v in chosen:
        card = circuit.cardinalities[v]
        states = ("mean", "variance") if card is None else schema.labels(v) or range(card)
        values = dict(zip(map(str, states), found[v].tolist(), strict=True))
        answers.append({"name": schema.name(v), "real": card is None, "values": values})
    return answers


class Kind(StrEnum):
    """What `plot` draws."""

    MARGINALS = "marginals"
    CIRCUIT = "circuit"
    VTREE = "vtree"
    MODEL = "model"


def plot(
    model: Model,
    out: OutPicture,
    kind: Annotated[
        Kind,
        typer.Option(
            help="Probabilities of states, the units, how variables are split, or the variables "
            "of a .uai or .bif file and what connects them."
        ),
    ] = Kind.MARGINALS,
    given: Given = None,
    of: Of = None,
) -> None:
    """Draw distributions of variables given what is known, a circuit, its vtree, or a network."""
    with errors():
        from expectedkernels.cli.models import read_distribution
        from expectedkernels.io import read_model
        from expectedkernels.plotting.graphs import plot_circuit, plot_model, plot_vtree
        from expectedkernels.plotting.style import close, save

        if kind is Kind.MARGINALS:
            picture = _bars(_marginals(model, given, of))
        elif given or of:
            raise typer.BadParameter("--given and --of are for --kind marginals")
        elif kind is Kind.MODEL:
            picture = plot_model(read_model(model))
        else:
            circuit = read_distribution(model)
            whole = kind is Kind.CIRCUIT
            picture = plot_circuit(circuit) if whole else plot_vtree(circuit.vtree)
        save(picture, out)
        close(picture)


def _bars(found: list[dict[str, Any]]) -> Any:
    """The axes of a bar for every state of discrete variables."""
    from expectedkernels.errors import DataError
    from expectedkernels.plotting.contributions import plot_distributions

    shown = {str(part["name"]): part["values"] for part in found if not part["real"]}
    n = sum(map(len, shown.values()))
    if not n:
        raise DataError(
            "Bars are for states of discrete variables, and these are real: `marginals` prints "
            "their means and variances."
        )
    if n > MOST_BARS:
        raise DataError(
            f"A picture has up to {MOST_BARS} bars, one for every state of a discrete variable. "
            f"Got {n}: choose variables by --of."
        )
    return plot_distributions(shown)
