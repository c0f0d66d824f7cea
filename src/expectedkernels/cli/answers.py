"""Commands that ask a circuit: samples, and marginal distributions."""

from __future__ import annotations

from typing import Annotated

import typer

from expectedkernels.cli.base import AsJson, OutTable, Seed, check_folder, errors, show_json

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A circuit (.npz, .psdd, .jpc, .spn), or a model (.uai, .bif, .xmlbif), compiled.",
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(help="What is known, such as rain=yes (may be repeated)."),
]


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

        check_folder(out)
        circuit = read_distribution(model)
        rows = circuit.sample(n, seed, evidence_of(circuit, given) if given else None)
        write_rows(*decoded(circuit, rows), out)


def marginals(
    model: Model,
    given: Given = None,
    of: Annotated[
        list[str] | None, typer.Option(help="A variable (may be repeated). Default: all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the exact distribution of every variable, given what is known."""
    with errors():
        from expectedkernels.cli.models import read_distribution
        from expectedkernels.cli.tables import evidence_of, variable_of

        circuit = read_distribution(model)
        chosen = [variable_of(circuit, name) for name in of or ()] or range(circuit.n_variables)
        found = circuit.marginals(evidence_of(circuit, given) if given else None)
        lines = {}
        for v in chosen:
            labels = circuit.schema.labels(v) or range(circuit.cardinalities[v] or 0)
            names = labels if circuit.cardinalities[v] else ("mean", "variance")
            lines[circuit.schema.name(v)] = dict(zip(map(str, names), found[v], strict=True))
        if as_json:
            kinds = {circuit.schema.name(v): circuit.cardinalities[v] is None for v in chosen}
            show_json(
                {
                    "given": list(given or ()),
                    "marginals": [
                        {"name": name, "real": kinds[name], "values": values}
                        for name, values in lines.items()
                    ],
                }
            )
            return
        width = max(len(str(name)) for name in lines) + 2
        for name, values in lines.items():
            words = "  ".join(f"{state} {value:.6g}" for state, value in values.items())
            typer.echo(f"{name!s:{width}}{words}")
