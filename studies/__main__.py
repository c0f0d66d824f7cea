"""Run a study: `python -m studies NAME ...`; without a name, list them."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, BooleanOptionalAction
from importlib import import_module
from pathlib import Path
from typing import Any

from expectedkernels.checks import CircuitError
from studies.base import reproduce

STUDIES = {
    "regression": (
        "Expected predictions against imputation, on four data sets (Figure 2 of the paper).",
        "dataset method split missing",
    ),
    "inference": (
        "Marginals of collapsed and weighted samples, Gibbs sampling and CIS (Figure 3).",
        "model proposal again",
    ),
    "missing": ("Expected predictions, imputation and boosting.", "table method missing"),
}
"""What every study does, and its options that may be repeated."""


def parser() -> ArgumentParser:
    """The parser of the command line."""
    words = "Repeat studies: print a table, write results.csv, summary.md and a figure, and resume."
    found = ArgumentParser(prog="python -m studies", description=words)
    commands, folder = found.add_subparsers(dest="study"), os.environ.get("EXPECTEDKERNELS_DATA")
    for name, (words, several) in STUDIES.items():
        example = f"Example: python -m studies {name} --quick"
        add = commands.add_parser(name, help=words, description=words, epilog=example).add_argument
        for option in several.split():
            dest = option if option in ("missing", "again") else f"{option}s"
            words = "May be repeated; a wrong name lists all."
            add(f"--{option}", dest=dest, action="append", help=words)
        data: Any = {"type": Path, "default": folder and Path(folder)}
        add("--data-dir", **data, help="The folder with the data: regression, uai below it.")
        add("--out", "-o", type=Path, help="The folder for results; those in it are kept.")
        add("--trials", "--tries", dest="trials", type=int, help="Repetitions. Default: 5.")
        add("--jobs", type=int, default=1, help="The number of processes (-1: all cores).")
        add("--quick", action="store_true", help="A first look within a minute, at less data.")
        if name == "inference":
            add("--seed", type=int, default=0, help="Of random numbers.")
        if name == "regression":
            words = "Whether the data must be exactly those of the paper."
            add("--check", action=BooleanOptionalAction, default=True, help=words)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the study that is named, and print what it found and wrote."""
    asked = vars(parser().parse_args(arguments))
    name, out = asked.pop("study"), asked.pop("out", None)
    if name is None:
        parser().print_help()
        return 2
    out = out or Path(f"{name}-quick" if asked["quick"] else name)
    try:
        study = import_module(f"studies.{name}.study")
        files, table, words = reproduce(study, out, asked.pop("data_dir"), **asked)
    except (CircuitError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(table.to_string(float_format="{:.3f}".format, na_rep=""), words, sep="\n\n")
    print("", *(f"written: {path}" for path in files), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
