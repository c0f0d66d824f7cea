"""Commands on models: learn, compile, marginals, test and others."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from typer import Argument, Option

import expectedkernels as ek
from expectedkernels.cli import options as opt
from expectedkernels.cli.options import Answer, check_folder, files, note, refuse_twice

MODEL = "A circuit (.npz, .psdd, .jpc, .spn), or a model (.uai, .bif), compiled."
Model = Annotated[str, opt.InFile(metavar="MODEL", help=MODEL)]
Given = Annotated[list[str] | None, Option(help="Evidence, such as rain=yes (may be repeated).")]
Of = Annotated[list[str] | None, Option(help="A variable (may be repeated). Default: all.")]
Distribution = Annotated[
    str, opt.InFile(help="A circuit, a model, or a table of rows (-: standard input).")
]
MOST_BARS = 60
"""How many states a picture shows."""


def sample(
    model: Model,
    n: Annotated[int, Option("-n", min=1, help="How many rows.")] = 1000,
    given: Given = None,
    out: opt.OutTable = "-",
    seed: opt.Seed = 0,
) -> None:
    """Draw rows from a circuit or a model, with the names of variables and states."""
    circuit = files.read_distribution(model)
    rows = circuit.sample(n, seed, files.evidence_of(circuit, given))
    files.write_rows(files.decoded(circuit, rows), out)


def marginals(
    model: Model, given: Given = None, of: Of = None, as_json: opt.AsJson = False
) -> Answer:
    """Print the exact distribution of every variable, given what is known."""
    found = files.marginals_of(model, given, of)
    words = {
        str(part["name"]): "  ".join(f"{x} {value:.6g}" for x, value in part["values"].items())
        for part in found
    }
    return Answer({"given": list(given or ()), "marginals": found}, words)


Kind = StrEnum("Kind", ["MARGINALS", "CIRCUIT", "VTREE", "MODEL"])
"""What `plot` draws."""


def plot(
    model: Model,
    out: opt.OutPicture,
    kind: Annotated[
        Kind,
        Option(help="Probabilities of states, the units, the vtree, or a .uai or .bif file."),
    ] = Kind.MARGINALS,
    given: Given = None,
    of: Of = None,
) -> None:
    """Draw distributions of variables given what is known, a circuit, its vtree, or a network."""
    from expectedkernels.plotting.results import close, save

    plain = kind is Kind.MARGINALS or not (given or of)
    opt.require(plain, "--given and --of are for --kind marginals", opt.WRONG_USAGE)
    if kind is Kind.MARGINALS:
        picture = _bars(files.marginals_of(model, given, of))
    elif kind is Kind.MODEL:
        picture = ek.plotting.plot_model(ek.io.read_model(model))
    else:
        circuit = files.read_distribution(model)
        picture = ek.plotting.plot(circuit if kind is Kind.CIRCUIT else circuit.vtree)
    save(picture, out)
    close(picture)


def _bars(found: list[dict[str, Any]]) -> Any:
    """The axes of a bar for every state of discrete variables."""
    from expectedkernels.plotting.results import plot_distributions

    shown = {str(part["name"]): part["values"] for part in found if not part["real"]}
    n = sum(map(len, shown.values()))
    advice = "`marginals` prints their means and variances"
    opt.require(n, f"Bars are for states of variables, and these are real: {advice}.")
    advice = f"Got {n}: choose variables by --of"
    opt.require(n <= MOST_BARS, f"A picture has up to {MOST_BARS} bars, for states. {advice}.")
    return plot_distributions(shown)


Method = StrEnum("Method", {"CHOW_LIU": "chow-liu", "STRUDEL": "strudel", "MIXTURE": "mixture"})
"""How `learn` makes a circuit."""


def learn(
    data: Annotated[
        str,
        opt.InFile(
            help="The table: CSV (commas, semicolons, tabs, bars or spaces; also gzipped), Parquet "
            "or - for standard input. Empty cells, NA, NaN and the like are missing values; the "
            "first line holds names unless it is all numbers."
        ),
    ],
    out: opt.Out,
    method: Annotated[
        Method, Option(help="A tree of variables; splits of that tree; or a mixture of such.")
    ] = Method.STRUDEL,
    valid: Annotated[str | None, opt.InFileOption(help="Validation data, to choose by.")] = None,
    iterations: Annotated[int, Option(min=0, help="Most splits (strudel, mixture).")] = 100,
    components: Annotated[int, Option(min=1, help="The number of components (mixture).")] = 5,
    em_iterations: Annotated[int, Option(min=0, help="Iterations of EM (mixture).")] = 100,
    pseudocount: Annotated[float, Option(min=0.0, help="Pseudocount of every sum unit.")] = 1.0,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
) -> Answer:
    """Learn a circuit from a table of text, codes and numbers; values may be missing.

    Ctrl-C ends the search, and the best circuit so far is written.
    """
    paths = [data] if valid is None else [data, valid]
    schema, sets = files.coded(files.read_tables(paths, without, missing), data, bins)
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
    found = {"rows": len(sets[0]), **files.counts(circuit), "log_likelihood": fits[0]}
    found |= {"validation": fits[1] if valid else None, "seconds": seconds, "out": str(out)}
    words = {"rows": len(sets[0]), **files.sizes(circuit)}
    words["log-likelihood"] = f"{fits[0]:z.4f} (mean of the rows)"
    words |= {"validation": f"{fits[1]:z.4f}"} if valid else {}
    return Answer(found, words | {"time": f"{seconds:.1f} s", "written to": out})


def compile_model(
    model: Annotated[Path, Argument(help="A factor graph (.uai) or Bayesian network (.bif).")],
    out: opt.Out,
    evidence: Annotated[Path | None, Option(help="Evidence to condition on (.uai.evid).")] = None,
    vtree: Annotated[Path | None, Option(help="The .vtree file. Default: by min-fill.")] = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Compile a graphical model into a circuit, exactly, and print its partition function."""
    began = perf_counter()
    along = None if vtree is None else ek.read_vtree(vtree)
    circuit, log_z = ek.io.compile_file(model, evidence=evidence, vtree=along)
    seconds = perf_counter() - began
    ek.save(circuit, out)
    found = files.counts(circuit) | {"log_z": log_z, "seconds": seconds, "out": str(out)}
    words = files.sizes(circuit) | {"log Z": f"{log_z:z.10f}", "time": f"{seconds:.1f} s"}
    return Answer(found, words | {"written to": out})


def info(
    path: Annotated[Path, Argument(metavar="CIRCUIT", help="A .npz, .psdd, .jpc or .spn file.")],
    vtree: Annotated[Path | None, Option(help="The .vtree file, if not beside it.")] = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Print the variables, the size and the structural properties of a circuit."""
    circuit = files.read_circuit(path, vtree)
    numbers, words = files.describe(circuit)
    found = files.properties_of(circuit)
    return Answer(numbers | {"properties": asdict(found)}, words, repr(found))


def convert(
    source: Annotated[str, opt.InFile(help="A circuit, a model, or a table.")],
    out: Annotated[str, Argument(help="Where to write it: the suffix says in which format.")],
    missing: opt.Missing = None,
) -> None:
    """Write a circuit, a model or a table in another format.

    Circuits: .npz, .psdd (with its .vtree beside it), .jpc, .spn. Models: .uai, .bif.
    Tables: .csv, .tsv, .parquet; cells stay as they are written.
    """
    check_folder(out)
    files.convert_file(source, out, missing)


Statistic = StrEnum("Statistic", ["MMD", "KDSD"])
"""What `test` measures."""


def judge(
    ctx: typer.Context,
    model: Model,
    samples: Annotated[str, opt.InFile(help="A table of complete rows (-: standard input).")],
    statistic: Annotated[
        Statistic, Option(help="The maximum mean discrepancy, or a Stein discrepancy.")
    ] = Statistic.MMD,
    aggregate: Annotated[bool, Option("--aggregate", help="Combine several bandwidths.")] = False,
    simulations: Annotated[int, Option(min=1, help="Samples under the hypothesis.")] = 199,
    level: opt.Level = 0.05,
    without: opt.Without = None,
    missing: opt.Missing = None,
    seed: opt.Seed = 0,
    plot: opt.Picture = None,
    report: opt.Report = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Test whether samples come from a model. Ends with exit code 3 if that is rejected."""
    circuit = files.read_distribution(model)
    table = files.read_file(samples, missing, without)
    rows = files.rows_for(circuit, table)
    note(f"Simulating {simulations} samples of {len(rows)} rows ...")
    run: Any = ek.mmd_test if statistic is Statistic.MMD else ek.kdsd_test
    found = run(rows, circuit, "aggregate" if aggregate else None, n_null=simulations, rng=seed)
    numbers = {"statistic": found.statistic, "p_value": found.p_value, "samples": len(rows)}
    numbers |= {"test": statistic.value, "kernel": repr(found.kernel), "level": level}
    rejected = bool(found.p_value <= level)
    verdict = "rejected" if rejected else "not rejected"
    words = {
        "samples": len(rows),
        "statistic": f"{found.statistic:.6g} ({statistic.value})",
        "p-value": f"{found.p_value:.4g} ({simulations} simulations)",
        "answer": f"that the samples come from the model is {verdict} at {level:g}",
    }
    return Answer(
        numbers | {"simulations": simulations, "rejected": rejected},
        words,
        title=f"Do {samples} come from {model}?",
        details={"kernel": repr(found.kernel)},
        pictures=files.pictures_of(found),
        files={model: circuit, samples: table},
        rejected=rejected,
    )


def mmd(
    p: Distribution,
    q: Distribution,
    bins: opt.Bins = 8,
    without: opt.Without = None,
    missing: opt.Missing = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Print the maximum mean discrepancy between two circuits, models or tables, exactly."""
    refuse_twice(p, q)
    kernel = None
    if files.is_model(p) or files.is_model(q):
        circuit = files.read_distribution(p if files.is_model(p) else q)
        kernel = files.default_kernel(circuit)
        pair = [files.read_any(path, circuit, without, missing) for path in (p, q)]
    else:
        pair = files.coded(files.read_tables([p, q], without, missing), p, bins)[1]
    found = ek.mmd(pair[0], pair[1], kernel)
    return Answer({"p": p, "q": q, "mmd": found}, text=f"{found:.10g}")


def kdsd(
    q: Distribution,
    p: Annotated[str, opt.InFile(help="The target: a circuit or a model.")],
    without: opt.Without = None,
    missing: opt.Missing = None,
    as_json: opt.AsJson = False,
) -> Answer:
    """Print the kernelised discrete Stein discrepancy of a circuit, or samples, from a target."""
    target = files.read_distribution(p)
    found = ek.kdsd(files.read_any(q, target, without, missing), target)
    return Answer({"q": q, "p": p, "kdsd": found}, text=f"{found:.10g}")
