"""How often tests reject what is true, and what is not: `python -m benchmarks.levels`.

Every cell is one test of one model with n samples, and the share of repetitions whose p-value is at
most 5 %. Samples and simulated samples are fresh in every repetition. Cells are done in batches of
repetitions, each with seeds of its own, over some processes (`--jobs`); with `--results FILE`,
batches are kept in a file, a line each, and those in it are not done again. SACHS and EARTHQUAKE
are read from pgmpy, or from `--bif FOLDER` with sachs.bif and earthquake.bif.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from joblib import Parallel, delayed, parallel_config

import expectedkernels as ek
from benchmarks.grounds import FORMS, MODELS, TREES, Ground, fitted_tree, ground_of

N_NULL = 19
"""With 19 simulated samples a p-value of at most 5 % means the largest statistic of twenty."""

BATCH = 25
"""How many repetitions are one piece of work."""

STAY, CHANGE = 0.5, 0.05
"""How often a chain stays where it is, and how often the signs of its samples change."""

BESIDE = {
    "kdsd": {"SACHS": 99.5, "EARTHQUAKE": 67.0, "chain of 30": 100.0, "weak grid": 100.0},
    "mmd": {"SACHS": 100.0, "EARTHQUAKE": 72.0, "chain of 30": 100.0, "weak grid": 100.0},
    "two-sample": {"SACHS": 98.0, "EARTHQUAKE": 62.0, "chain of 30": 100.0, "weak grid": 100.0},
}
"""Power at n = 100 in trials of 100 to 200 repetitions, with other random tables."""


def of_samples(
    test: Any, ground: Ground, form: str, n: int, power: bool, rng: Any, **how: Any
) -> Any:
    """A test of independent samples."""
    return test(
        ground.source(power).sample(n, rng), ground.forms[form], n_null=N_NULL, rng=rng, **how
    )


def of_two(ground: Ground, form: str, n: int, power: bool, rng: Any, **how: Any) -> Any:
    """The test against as many samples of the model."""
    X, Y = ground.source(power).sample(n, rng), ground.forms[form].sample(n, rng)
    return ek.mmd_two_sample_test(X, Y, n_null=N_NULL, rng=rng, **how)


def of_fitted(test: Any, ground: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A test of a tree that was fitted to the samples, of a tree or of the model."""
    X = (ground.forms[form] if power else ground.tree).sample(n, rng)
    refit = partial(fitted_tree, cardinalities=ground.tree.cardinalities)
    return test(X, refit(X), refit=refit, n_null=N_NULL, rng=rng)


def of_chain(ground: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A test of a chain that stays in its place at times, and else moves anywhere."""
    fresh = rng.random(n) >= STAY
    fresh[0] = True
    X = ground.source(power).sample(int(fresh.sum()), rng)[np.cumsum(fresh) - 1]
    return ek.kdsd_test(X, ground.forms[form], change=CHANGE, n_null=N_NULL, rng=rng)


def of_models(ground: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A comparison of two models with samples of both, or, to see which it is, of the first."""
    X = ground.forms[form].sample(n, rng)
    if not power:
        X = np.where(rng.random((n, 1)) < 0.5, X, ground.other.sample(n, rng))
    return ek.mmd_compare(ground.forms[form], ground.other, X)


TESTS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "kdsd": (partial(of_samples, ek.kdsd_test), FORMS),
    "mmd": (partial(of_samples, ek.mmd_test), FORMS),
    "two-sample": (of_two, FORMS[:1]),
    "kdsd aggregate": (partial(of_samples, ek.kdsd_test, k="aggregate"), FORMS[:1]),
    "mmd aggregate": (partial(of_samples, ek.mmd_test, k="aggregate"), FORMS[:1]),
    "two-sample aggregate": (partial(of_two, k="aggregate"), FORMS[:1]),
    "kdsd refit": (partial(of_fitted, ek.kdsd_test), FORMS[:1]),
    "mmd refit": (partial(of_fitted, ek.mmd_test), FORMS[:1]),
    "kdsd signs": (partial(of_samples, ek.kdsd_test, null="signs"), FORMS),
    "kdsd change": (of_chain, FORMS[:1]),
    "compare": (of_models, FORMS[:1]),
}


@dataclass(frozen=True)
class Cell:
    """A test of a form of a model with n samples of it, or of another one."""

    model: str
    test: str
    form: str
    n: int
    power: bool

    def __str__(self) -> str:
        return f"{self.model:12} {self.test:20} {self.form:8} n = {self.n:4}"


@dataclass(frozen=True)
class Batch:
    """Some repetitions of a cell, by their number and how many they are."""

    cell: Cell
    number: int
    size: int


@dataclass(frozen=True)
class Found:
    """How often a test rejected at 5 %, and how often it did not judge, in how many seconds."""

    rejected: int
    refused: int
    seconds: float
    drawn: str


def done(batch: Batch, folder: str | None) -> Found:
    """What the repetitions of a batch find."""
    cell = batch.cell
    ground, test = ground_of(cell.model, folder), TESTS[cell.test][0]
    rng = np.random.default_rng([crc32(repr(cell).encode()), batch.number])
    rejected, refused, drawn, start = 0, 0, "", time.perf_counter()
    for _ in range(batch.size):
        try:
            found = test(ground, cell.form, cell.n, cell.power, rng)
            rejected += int(found.p_value <= 0.05)
            drawn = getattr(found, "drawn", "")
        except ek.DataError:  # signs that cannot tell, and differences without an error
            refused += 1
    return Found(rejected, refused, time.perf_counter() - start, drawn)


def cells(given: Any) -> list[Cell]:
    """The cells that were asked for, without those that make no sense."""
    found = []
    for model in given.models:
        try:
            large = np.prod(ground_of(model, given.bif).tree.cardinalities) > 2**18
        except ImportError:
            print(f"{model} is read from pgmpy, which is not installed, or from --bif FOLDER")
            continue
        for test, n in product(given.tests, given.n):
            if given.power and "refit" in test and model in TREES:
                continue  # trees fit
            for form in (f for f in TESTS[test][1] if f in given.forms):
                if not (large and form == "function" and test == "mmd"):  # no embedding
                    found.append(Cell(model, test, form, n, given.power))
    return found


def batches(cell: Cell, repeats: int) -> list[Batch]:
    starts = range(0, repeats, BATCH)
    return [Batch(cell, i, min(BATCH, repeats - start)) for i, start in enumerate(starts)]


def kept(path: Path | None) -> dict[Batch, Found]:
    """The batches of a file; a last line that was not finished is left out."""
    known = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else []:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        cell = Cell(**entry["cell"])
        known[Batch(cell, entry["number"], entry["size"])] = Found(**entry["found"])
    return known


def worked(todo: list[Batch], folder: str | None, jobs: int) -> Iterator[tuple[Batch, Found]]:
    """What batches find, as it comes."""
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        work = Parallel(return_as="generator_unordered", batch_size=1)
        yield from work(delayed(lambda b: (b, done(b, folder)))(batch) for batch in todo)


def line(cell: Cell, found: list[Found], repeats: int) -> str:
    """A cell in words."""
    refused = sum(f.refused for f in found)
    spent = 1e3 * sum(f.seconds for f in found) / repeats
    words = [f"{share(found, repeats):5.1f} %", found[0].drawn or "t", f"{spent:.0f} ms"]
    if refused:
        words.append(f"{100 * refused / repeats:.1f} % refused")
    beside = BESIDE.get(cell.test, {}).get(cell.model)
    if cell.power and cell.n == 100 and beside is not None:
        words.append(f"beside {beside:.1f} %")
    return f"{cell} {'  '.join(words)}"


def share(found: list[Found], repeats: int) -> float:
    return 100 * sum(f.rejected for f in found) / repeats


def table(shares: dict[Cell, float]) -> str:
    """All cells, a row per test and form and a column per model, numbers of samples in order."""
    models = list(dict.fromkeys(cell.model for cell in shares))
    rows = [["test", "target", *models], ["---"] * (2 + len(models))]
    for test, form in dict.fromkeys((cell.test, cell.form) for cell in shares):
        row = [test, form]
        for model in models:
            here = (model, test, form)
            cell = [f"{s:.1f}" for c, s in shares.items() if (c.model, c.test, c.form) == here]
            row.append(", ".join(cell) or "-")
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def estimated(wanted: list[Cell], given: Any) -> None:
    """Print what cells cost, by two repetitions each."""
    total = 0.0
    for cell in wanted:
        ground_of(cell.model, given.bif)
        cost = done(Batch(cell, 0, 2), given.bif).seconds / 2 * given.repeats
        total += cost
        print(f"{cell} {cost:7.1f} s", flush=True)
    print(f"about {total:.0f} s, {total / given.jobs:.0f} s with {given.jobs} processes")


def options(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--n", type=int, nargs="*", default=[40, 100])
    parser.add_argument("--tests", nargs="*", default=list(TESTS), choices=list(TESTS))
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=FORMS)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--power", action="store_true", help="samples of a model that differs")
    parser.add_argument("--bif", metavar="FOLDER", help="where sachs.bif and earthquake.bif are")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep batches, and go on")
    parser.add_argument("--estimate", action="store_true", help="only say how long it takes")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    given = options(arguments)
    wanted = cells(given)
    if given.estimate:
        estimated(wanted, given)
        return
    print(f"{'rejected' if given.power else 'level'} at 5 %, {given.repeats} repetitions")
    known = kept(given.results)
    plan = {cell: batches(cell, given.repeats) for cell in wanted}
    todo = [batch for some in plan.values() for batch in some if batch not in known]
    for cell in wanted:
        show(cell, plan, known, given.repeats)
    for batch, found in worked(todo, given.bif, given.jobs):
        known[batch] = found
        if given.results is not None:
            entry = {**asdict(batch), "found": asdict(found)}
            with given.results.open("a") as file:
                file.write(json.dumps(entry) + "\n")
        show(batch.cell, plan, known, given.repeats)
    print(table({c: share([known[b] for b in plan[c]], given.repeats) for c in wanted}))


def show(cell: Cell, plan: Any, known: Any, repeats: int) -> None:
    """Print a cell as soon as all of its batches are known."""
    if all(batch in known for batch in plan[cell]):
        print(line(cell, [known[batch] for batch in plan[cell]], repeats), flush=True)


if __name__ == "__main__":
    from benchmarks import levels  # by its name, so that other processes import it, too

    levels.main()
