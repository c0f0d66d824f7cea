"""The inference study: marginals from samples that are weighted, collapsed, or both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from expectedkernels.checks import DataError
from studies.base import Done, Results, check_names, chosen, collect, write_report
from studies.inference.models import MASKS, PROPOSALS, find_model, load_model
from studies.inference.report import report
from studies.inference.samples import CIS_RULES, KEYS, RULES, VALUES, Cell, Settings, evaluate

MODELS = ("ising", "asia")
SHARES = (0.25, 0.5)
QUICK = Settings(n=100, thin=200)
"""Settings for a first look within a minute."""


def _work(
    cell: Cell, path: str | None, rules: Sequence[str], settings: Settings, grams: str | None
) -> list[Any]:
    return evaluate(load_model(cell.model, path, settings.seed), cell, rules, settings, grams)


def cells(
    models: Sequence[str],
    proposals: Sequence[str],
    shares: Sequence[float],
    masks: Sequence[str],
    tries: int,
) -> Iterator[Cell]:
    """All cells of a run but those of CIS; a try of everything comes before the next one."""
    places = [(0.0, "none"), *product(shares, masks)]
    for trial, model, proposal, place in product(range(tries), models, proposals, places):
        yield Cell(model, proposal, *place, trial)


def run(
    out: str | Path,
    folder: str | Path | None = None,
    *,
    models: Sequence[str] = MODELS,
    proposals: Sequence[str] = PROPOSALS[:2],
    shares: Sequence[float] = SHARES,
    masks: Sequence[str] = MASKS,
    rules: Sequence[str] = RULES,
    cis_rules: Sequence[str] = CIS_RULES,
    tries: int = 5,
    settings: Settings | None = None,
    again: Sequence[str] = (),
    keep: bool = False,
    jobs: int = 1,
    progress: bool = True,
) -> Results:
    """The errors of all methods, written to `results.csv` in a folder as they are found.

    What is there already is not computed again, so an interrupted run goes on where it stopped.
    For `out` and `settings` see `Results`, for `jobs` and `progress` see `collect`.

    Parameters
    ----------
    folder : str or Path, optional
        The folder with the data, for the grid of the paper.
    models : sequence of str
        "ising", "asia", or paths of `.uai` or `.bif` files, each with a name of its own.
    proposals, masks, rules, cis_rules : sequences of str
        What to run, of `PROPOSALS`, `MASKS`, `RULES` and `CIS_RULES`.
    shares : sequence of float
        The shares of the variables to collapse.
    tries : int
        The number of repetitions, each with random numbers of its own.
    again : sequence of str
        Rules whose results are computed anew, because the rule has changed.
    keep : bool
        Whether Gram matrices are kept in the folder, for other rules later.
    """
    settings = Settings() if settings is None else settings
    known = {"proposal": (proposals, PROPOSALS), "kind of masks": (masks, MASKS)}
    weights = {
        "rule for weights": ([*rules, *again], RULES),
        "variant of CIS": (cis_rules, CIS_RULES),
    }
    check_names({**known, **weights}, jobs)
    for share in shares:
        if not 0 < share <= 1:
            raise DataError(
                f"The share of collapsed variables must be in the range (0, 1]. Got {share}."
            )
    places = _places(models, folder)
    for name, path in places.items():
        load_model(name, path, settings.seed)  # problems with files show before the work
    digests = {  # but that of the grid, whose name says what it is
        name: sha256(Path(path).read_bytes()).hexdigest()
        for name, path in places.items()
        if path is not None and name not in MODELS
    }
    results = Results(out, KEYS, VALUES, asdict(settings), digests)
    grams = str(Path(out) / "grams") if keep else None
    wanted = [(cell, rules) for cell in cells(list(places), proposals, shares, masks, tries)]
    wanted += [  # CIS makes its own samples
        (Cell(model, "cis", share, "online", trial), cis_rules)
        for trial, model, share in product(range(tries), places, shares)
    ]
    work, last = [], settings.counts[-1]
    for cell, names in wanted:
        left = [rule for rule in names if rule in again or (*cell, rule, last) not in results]
        if left:
            work.append((cell, places[cell.model], left, settings, grams))
    return collect(results, _work, work, jobs, progress)


def _places(models: Sequence[str], folder: str | Path | None) -> dict[str, str | None]:
    """The files of models (None: made here) by the names that they have in results."""
    asked: dict[str, str] = {}
    places = {}
    for model in models:
        name, path = find_model(model, folder)
        if name in asked:
            raise DataError(
                "Models must have different names, by which results tell them apart. "
                f"Got {name!r} twice: {asked[name]} and {model}."
            )
        asked[name], places[name] = model, path
    return places


def reproduce_inference(
    out: Path, folder: Path | None = None, quick: bool = False, seed: int = 0, **asked: Any
) -> Done:
    """The study with its page and figure, written to a folder (for what is asked, see `run`).

    A quick one takes a hundred samples of shorter chains.
    """
    few: dict[str, Any] = {"cis_rules": CIS_RULES[:1], "tries": 2} if quick else {}
    settings = replace(QUICK if quick else Settings(), seed=seed)
    results = run(out, folder, settings=settings, **few | chosen(**asked))
    return write_report(results, *report(results.frame, comparable=not quick))
