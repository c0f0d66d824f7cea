"""Commands on models: learn, compile, marginals and others."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

import expectedkernels as ek
from expectedkernels.cli import options as opt
from expectedkernels.cli.options import Answer, check_circuit_file, check_folder, in_columns

MODEL = "A circuit (.npz, .psdd, .jpc, .spn), or a model (.uai, .bif), compiled."
Model = Annotated[str, opt.InFile(metavar="MODEL", help=MODEL)]
Given = Annotated[
    list[str] | None, typer.Option(help="What is known, such as rain=yes (may be repeated).")
]
Of = Annotated[list[str] | None, typer.Option(help="A variable (may be repeated). Default: all.")]
MOST_BARS = 60
"""How many states a picture shows."""


def sample(
    model: Model,
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 1000,
    given: Given = None,
    out: opt.OutTable = "-",
    seed: opt.Seed = 0,
) -> None:
    """Draw rows from a circuit or a model, with the names of variables and states."""
    from expectedkernels.cli import input as files

    circuit = files.read_distribution(model)
    rows = circuit.sample(n, seed, files.evidence_of(circuit, given) if given else None)
    files.write_rows(files.decoded(circuit, rows), out)


def marginals(
    model: Model, given: Given = None, of: Of = None, as_json: opt.AsJson = False
) -> Answer:
    """Print the exact distribution of every variable, given what is known."""
    found = _marginals(model, given, of)
    words = {
        str(part["name"]): "  ".join(f"{x} {value:.6g}" for x, value in part["values"].items())
        for part in found
    }
    return Answer({"given": list(given or ()), "marginals": found}, in_columns(words))


def _marginals(model: str, given: list[str] | None, of: list[str] | None) -> list[dict[str, Any]]:
    """The marginal distributions of variables; means and variances of real ones."""
    from expectedkernels.cli import input as files

    circuit = files.read_distribution(model)
    schema = circuit.schema
    chosen = [files.variable_of(circuit, name) for name in of or ()] or range(circuit.n_variables)
    found = circuit.marginals(files.evidence_of(circuit, given) if given else None)
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
    out: opt.OutPicture,
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
    from expectedkernels.cli.input import read_distribution
    from expectedkernels.plotting.style import close, save

    if kind is Kind.MARGINALS:
        picture = _bars(_marginals(model, given, of))
    elif given or of:
        raise typer.BadParameter("--given and --of are for --kind marginals")
    elif kind is Kind.MODEL:
        picture = ek.plotting.plot_model(ek.io.read_model(model))
    elif kind is Kind.CIRCUIT:
        picture = ek.plotting.plot_circuit(read_distribution(model))
    else:
        picture = ek.plotting.plot_vtree(read_distribution(model).vtree)
    save(picture, out)
    close(picture)


def _bars(found: list[dict[str, Any]]) -> Any:
    """The axes of a bar for every state of discrete variables."""
    from expectedkernels.plotting.results import plot_distributions

    shown = {str(part["name"]): part["values"] for part in found if not part["real"]}
    n = sum(map(len, shown.values()))
    if not n:
        raise ek.DataError(
            "Bars are for states of discrete variables, and these are real: `marginals` prints "
            "their means and variances."
        )
    if n > MOST_BARS:
        raise ek.DataError(
            f"A picture has up to {MOST_BARS} bars, one for every state of a discrete variable. "
            f"Got {n}: choose variables by --of."
        )
    return plot_distributions(shown)


class Method(StrEnum):
    """How `learn` makes a circuit."""

    CHOW_LIU = "chow-liu"
    STRUDEL = "strudel"
    MIXTURE = "mixture"


def learn(
    data: Annotated[
        str,
        opt.InFile(
            help="The table: a CSV file (separated by commas, semicolons, tabs, bars or spaces; "
            "also gzipped), a Parquet file, or - for standard input. Empty cells, NA, NaN and the "
            "like are missing values; the first line holds names unless it is all numbers.",
        ),
    ],
    out: opt.Out,
    method: Annotated[
        Method,
        typer.Option(
            help="A tree of variables; splits of that tree; or a mixture of circuits that share "
            "such a structure."
        ),
    ] = Method.STRUDEL,
    valid: Annotated[
        str | None,
        opt.InFileOption(help="Validation data: the circuit that fits them best is kept."),
    ] = None,
    iterations: Annotated[
        int, typer.Option(min=0, help="The largest number of splits (strudel, mixture).")
    ] = 100,
    components: Annotated[int, typer.Option(min=1, help="The number of components (mixture).")] = 5,
    em_iterations: Annotated[
        int, typer.Option(min=0, help="The number of iterations of EM (mixture).")
    ] = 100,
    pseudocount: Annotated[
        float, typer.Option(min=0.0, help="Rows' worth of counts that every sum gets in advance.")
    ] = 1.0,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
) -> Answer:
    """Learn a circuit from a table of text, codes and numbers; values may be missing.

    Ctrl-C ends the search, and the best circuit so far is written.
    """
    from expectedkernels.cli.input import coded, read_tables, sizes

    check_circuit_file(out)
    paths = [data] if valid is None else [data, valid]
    schema, sets = coded(read_tables(paths, without, missing), data, bins)
    began = perf_counter()
    options: Any = {"cardinalities": schema.cardinalities, "pseudocount": pseudocount}
    best: Any = {"X_valid": sets[1] if valid else None, **options}
    circuit: Any
    if method is Method.CHOW_LIU:
        circuit = ek.learn_chow_liu(sets[0], **options)
    elif method is Method.STRUDEL:
        circuit = ek.learn_strudel(sets[0], iterations=iterations, **best)
    else:
        best |= {"splits": iterations, "iterations": em_iterations, "rng": seed}
        circuit = ek.learn_mixture(sets[0], components, **best)
    circuit = circuit.with_schema(schema)
    seconds = perf_counter() - began
    ek.save(circuit, out)
    fits = [float(circuit.log_likelihood(X).mean()) for X in sets]
    found: Any = {"rows": len(sets[0])} | counts(circuit) | {"log_likelihood": fits[0]}
    found |= {"validation": fits[1] if valid else None, "seconds": seconds, "out": str(out)}
    words = {"rows": f"{len(sets[0])}", **sizes(circuit)}
    words["log-likelihood"] = f"{fits[0]:z.4f} (mean of the rows)"
    words |= {"validation": f"{fits[1]:z.4f}"} if valid else {}
    words |= {"time": f"{seconds:.1f} s", "written to": f"{out}"}
    return Answer(found, in_columns(words))


def counts(circuit: Any) -> dict[str, int]:
    """The size of a circuit."""
    return {
        "variables": circuit.n_variables,
        "units": circuit.n_units,
        "edges": circuit.n_edges,
        "parameters": circuit.n_parameters,
        "roots": circuit.n_roots,
    }


def compile_model(
    model: Annotated[
        Path, typer.Argument(help="A factor graph (.uai) or a Bayesian network (.bif).")
    ],
    out: opt.Out,
    evidence: Annotated[
        Path | None, typer.Option(help="Observations to condition on (.uai.evid).")
    ] = None,
    vtree: Annotated[
        Path | None,
        typer.Option(help="The vtree to compile along (.vtree). Default: found by min-fill."),
    ] = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Compile a graphical model into a circuit, exactly, and print its partition function."""
    from expectedkernels.cli.input import sizes
    from expectedkernels.io import compile_file

    check_circuit_file(out)
    began = perf_counter()
    along = None if vtree is None else ek.read_vtree(vtree)
    circuit, log_z = compile_file(model, evidence=evidence, vtree=along)
    seconds = perf_counter() - began
    ek.save(circuit, out)
    found = counts(circuit) | {"log_z": log_z, "seconds": seconds, "out": str(out)}
    words = sizes(circuit) | {"log Z": f"{log_z:z.10f}", "time": f"{seconds:.1f} s"}
    return Answer(found, in_columns(words | {"written to": f"{out}"}))


def info(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="CIRCUIT", help="A circuit: .npz, .psdd, .jpc or .spn (these also gzipped)."
        ),
    ],
    vtree: Annotated[
        Path | None, typer.Option(help="Its vtree (.vtree), if neither in the file nor beside it.")
    ] = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Print the variables, the size and the structural properties of a circuit."""
    from expectedkernels.cli import input as files

    circuit = files.read_circuit(path, vtree)
    structured = isinstance(circuit, ek.Circuit)
    found = files.circuit_properties(circuit) if structured else ek.properties(circuit)
    words = files.sizes(circuit) | ({"sum": files.sum_in_words(circuit)} if structured else {})
    numbers = files.in_numbers(circuit) | {"properties": asdict(found)}
    return Answer(numbers, f"{in_columns(words)}\n{found!r}")


def convert(
    source: Annotated[str, opt.InFile(help="A circuit, a model, or a table.")],
    out: Annotated[str, typer.Argument(help="Where to write it: the suffix says in which format.")],
    missing: opt.Missing = None,
) -> None:
    """Write a circuit, a model or a table in another format.

    Circuits: .npz, .psdd (with its .vtree beside it), .jpc, .spn. Models: .uai, .bif.
    Tables: .csv, .tsv, .parquet; cells stay as they are written.
    """
    from expectedkernels.cli.input import convert_file

    check_folder(out)
    convert_file(source, out, missing)
