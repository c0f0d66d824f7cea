"""The command line. Each command imports what it runs when it runs, so that help is instant."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from expectedkernels import __version__

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit

LARGEST_CHECKED = 5_000
"""Determinism compares all pairs of products of a vtree node: `info` does for up to so many."""
ROUNDING = 1e-6
"""Sums this close to one are one: some formats print six decimals."""

app = typer.Typer(
    name="expectedkernels",
    help="Exact kernel expectations under probabilistic circuits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

reproduce = typer.Typer(
    help="Repeat the studies of the paper, and one more (from the repository).",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(reproduce, name="reproduce")

Out = Annotated[Path, typer.Option("--out", "-o", help="Where to write the circuit (.npz).")]


class Method(StrEnum):
    """How `learn` makes a circuit."""

    CHOW_LIU = "chow-liu"
    STRUDEL = "strudel"
    MIXTURE = "mixture"


class Tie(StrEnum):
    """Which of several edges that as many rows use is split."""

    FIRST = "first"
    TOP = "top"


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
        _fail(f"No picture was written. {error}")
    from expectedkernels.plotting import save

    with _errors():
        typer.echo(f"\nPicture written to {save(axes[0], out)}")


@app.command()
def learn(
    data: Annotated[
        Path,
        typer.Argument(
            help="The data: one row per line, integer codes from 0, separated by commas, "
            "semicolons, tabs or spaces; empty cells, 'nan' and '?' are missing values. "
            "A header and gzip are recognised."
        ),
    ],
    out: Out,
    method: Annotated[
        Method,
        typer.Option(
            help="A tree of variables; splits of that tree; or a mixture of circuits that share "
            "such a structure."
        ),
    ] = Method.STRUDEL,
    valid: Annotated[
        Path | None,
        typer.Option(help="Validation data: the circuit that fits them best is kept."),
    ] = None,
    iterations: Annotated[
        int, typer.Option(min=0, help="The largest number of splits (strudel, mixture).")
    ] = 100,
    tie: Annotated[
        Tie,
        typer.Option(
            help="Which of several edges that as many rows use is split; 'top' makes larger "
            "circuits that fit better (strudel, mixture)."
        ),
    ] = Tie.FIRST,
    components: Annotated[int, typer.Option(min=1, help="The number of components (mixture).")] = 5,
    em_iterations: Annotated[
        int, typer.Option(min=0, help="The number of iterations of EM (mixture).")
    ] = 100,
    pseudocount: Annotated[
        float, typer.Option(min=0.0, help="Rows' worth of counts that every sum gets in advance.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
) -> None:
    """Learn a circuit from a table of integer codes; values may be missing.

    Ctrl-C ends the search, and the best circuit so far is written.
    """
    from expectedkernels.learning.chow_liu import learn_chow_liu
    from expectedkernels.learning.mixtures import learn_mixture
    from expectedkernels.learning.strudel import learn_strudel

    with _errors():
        _check_out(out)
        X, X_valid, cardinalities = _read_data(data, valid)
        began = perf_counter()
        if method is Method.CHOW_LIU:
            circuit = learn_chow_liu(X, pseudocount, cardinalities=cardinalities)
        else:
            options: dict[str, Any] = {
                "X_valid": X_valid,
                "cardinalities": cardinalities,
                "pseudocount": pseudocount,
                "tie": tie.value,
                "rng": seed,
            }
            if method is Method.STRUDEL:
                circuit = learn_strudel(X, iterations=iterations, **options)
            else:
                options |= {"splits": iterations, "iterations": em_iterations}
                circuit = learn_mixture(X, components, **options)
        seconds = perf_counter() - began
        _save(circuit, out)
        found = {"rows": f"{len(X)}", **_sizes(circuit)}
        found["log-likelihood"] = f"{circuit.log_likelihood(X).mean():z.4f} (mean of the rows)"
        if X_valid is not None:
            found["validation"] = f"{circuit.log_likelihood(X_valid).mean():z.4f}"
        _show(found | {"time": f"{seconds:.1f} s", "written to": f"{out}"})


@app.command("compile")
def compile_model(
    model: Annotated[
        Path, typer.Argument(help="A factor graph (.uai) or a Bayesian network (.bif, .xmlbif).")
    ],
    out: Out,
    evidence: Annotated[
        Path | None, typer.Option(help="Observations to condition on (.uai.evid).")
    ] = None,
    vtree: Annotated[
        Path | None,
        typer.Option(help="The vtree to compile along (.vtree). Default: found by min-fill."),
    ] = None,
) -> None:
    """Compile a graphical model into a circuit, exactly, and print its partition function."""
    from expectedkernels.io import read_vtree
    from expectedkernels.io.models import compile_file

    with _errors():
        _check_out(out)
        began = perf_counter()
        along = None if vtree is None else read_vtree(vtree)
        circuit, log_z = compile_file(model, evidence=evidence, vtree=along)
        seconds = perf_counter() - began
        _save(circuit, out)
        found = _sizes(circuit) | {"log Z": f"{log_z:z.10f}"}
        _show(found | {"time": f"{seconds:.1f} s", "written to": f"{out}"})


@app.command()
def info(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="CIRCUIT", help="A circuit: .npz, .psdd, .jpc or .spn (these also gzipped)."
        ),
    ],
    vtree: Annotated[
        Path | None,
        typer.Option(help="Its vtree (.vtree), if neither in the file nor beside it."),
    ] = None,
) -> None:
    """Print the variables, the size and the structural properties of a circuit."""
    from expectedkernels.circuits.circuit import Circuit
    from expectedkernels.circuits.properties import properties

    with _errors():
        circuit = _read_circuit(path, vtree)
        if not isinstance(circuit, Circuit):
            _show(_graph_sizes(circuit))
            typer.echo(repr(properties(circuit)))
            return
        _show(_sizes(circuit) | {"sum": _sum_in_words(circuit)})
        typer.echo(repr(_properties(circuit)))


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

    with _errors():
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

    with _errors():
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

    with _errors():
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


def _study(name: str) -> Any:
    """The module of a study: they lie beside the library in its repository, and not in wheels."""
    root = Path(__file__).resolve().parents[2]
    if not root.joinpath("studies", *name.split("."), "study.py").is_file():
        _fail("Studies run from the repository of expectedkernels: clone it, and run this there.")
    sys.path.insert(0, str(root))
    return import_module(f"studies.{name}.study")


def _report(done: Any) -> None:
    """Print what a study found and wrote."""
    typer.echo(done.words)
    for path in done.files:
        typer.echo(f"written: {path}")
    if done.problem:
        _fail(done.problem)


@contextmanager
def _errors() -> Iterator[None]:
    """Turn the errors a user can do something about into a message and the exit code 1."""
    from expectedkernels.errors import CircuitError

    try:
        yield
    except OSError as error:
        place = "" if error.filename is None else f"{error.filename}: "
        _fail(f"{place}{error.strerror or error}")
    except CircuitError as error:
        _fail("\n".join([str(error), *getattr(error, "__notes__", ())]))
    except MemoryError:
        _fail("There is not enough memory.")


def _fail(message: str) -> NoReturn:
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(code=1)


def _check_out(out: Path) -> None:
    """Raise before the work is done if its result cannot be written, or not be read again."""
    from expectedkernels.errors import CircuitError

    if out.is_dir():
        raise IsADirectoryError(21, "Is a folder, and not a place for a circuit", str(out))
    if not out.absolute().parent.is_dir():
        raise FileNotFoundError(2, "The folder to write to does not exist", str(out))
    if out.suffix != ".npz":
        raise CircuitError(f"The file for a circuit must end in .npz. Got {out} instead.")


def _read_data(data: Path, valid: Path | None) -> tuple[Any, Any, Any]:
    """Training and validation data, and the number of states of every variable in both."""
    from expectedkernels.errors import DataError
    from expectedkernels.io.tables import read_table
    from expectedkernels.learning.data import as_cardinalities, as_states

    train = read_table(data)
    if valid is None:
        return train.X, None, as_cardinalities(None, as_states(train.X, str(data)), what=str(data))
    other = read_table(valid)
    columns, wanted = (t.names or t.X.shape[1] for t in (other, train))
    if isinstance(columns, list) != isinstance(wanted, list):
        columns, wanted = other.X.shape[1], train.X.shape[1]
    if columns != wanted:
        raise DataError(
            f"{valid} must have the same columns as {data}. Got {columns} and {wanted}."
        )
    sets = [as_states(train.X, str(data)), as_states(other.X, str(valid))]
    return train.X, other.X, as_cardinalities(None, *sets, what=str(data))


def _read_circuit(path: Path, vtree: Path | None) -> Any:
    """The circuit in a file, or, if it is not structured, the root of its graph of units."""
    from expectedkernels import io
    from expectedkernels.errors import ParseError, PropertyError

    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix == ".npz":
        return io.load(path)
    if suffix == ".psdd":
        return io.read_psdd(path, vtree)
    if suffix not in (".jpc", ".spn"):
        raise ParseError("expected a file that ends in .npz, .psdd, .jpc or .spn", path=str(path))
    read: Any = io.read_jpc if suffix == ".jpc" else io.read_spn
    try:
        return read(path, None if vtree is None else io.read_vtree(vtree))
    except PropertyError:
        return read(path, as_units=True)


def _save(circuit: Circuit, out: Path) -> None:
    from expectedkernels.io import save

    save(circuit, out)


def _show(found: dict[str, str]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, found)) + 2
    for name, value in found.items():
        typer.echo(f"{name:{width}}{value}")


def _sizes(circuit: Circuit) -> dict[str, str]:
    """The variables and the size of a circuit, in words."""
    return {
        "variables": _variables(circuit.cardinalities),
        "units": f"{circuit.n_units}",
        "edges": f"{circuit.n_edges}",
        "parameters": f"{circuit.n_parameters}",
    } | ({} if circuit.n_roots == 1 else {"roots": f"{circuit.n_roots}"})


def _graph_sizes(root: Any) -> dict[str, str]:
    """The variables and the size of a graph of units, in words."""
    from expectedkernels.circuits.graph import Graph

    graph = Graph(root)
    return {
        "variables": _variables(tuple(graph.cardinalities.values())),
        "units": f"{len(graph.units)}",
        "edges": f"{sum(map(len, graph.inputs))}",
    }


def _variables(cardinalities: tuple[int | None, ...]) -> str:
    """How many variables there are, and with how many states."""
    counts = Counter(-1 if card is None else card for card in cardinalities)
    names = {-1: "real", 2: "binary"}
    kinds = [f"{n} {names.get(card, f'with {card} states')}" for card, n in sorted(counts.items())]
    shown = kinds if len(kinds) <= 6 else [*kinds[:5], f"... up to {max(counts)} states"]
    return f"{len(cardinalities)} ({', '.join(shown)})"


def _sum_in_words(circuit: Circuit) -> str:
    """What a circuit sums to over all states, and whether that is one."""
    import numpy as np

    from expectedkernels.errors import PropertyError

    try:
        logs = np.atleast_1d(circuit.log_partition())
    except PropertyError:
        return "negative, so the circuit is no distribution"
    if (np.abs(logs) <= ROUNDING).all():
        return "1, normalised"
    shown = ", ".join(f"exp({log:.6g})" for log in logs[:4]) + (", ..." if len(logs) > 4 else "")
    return f"{shown}, not normalised"


def _properties(circuit: Circuit) -> Any:
    """The structural properties of a circuit; determinism only if it does not take too long."""
    from expectedkernels.circuits.properties import Properties, properties
    from expectedkernels.verdict import Verdict

    inner = [block for block in circuit.operand.inner if block is not None]
    most = max((block.n_products for block in inner), default=1)
    if most <= LARGEST_CHECKED:
        return properties(circuit)
    holds = Verdict(True, "its units are those of a vtree's nodes")
    return Properties(
        holds,
        holds,
        holds,
        Verdict(
            None,
            f"not checked, as a vtree node has {most} products and all pairs of them would be "
            "compared; properties() does that",
        ),
    )
