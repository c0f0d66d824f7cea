"""What studies have in common: cells worked on by several processes, and what a run wrote."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from expectedkernels.errors import DataError
from expectedkernels.experiments.results import ResultsFile


@dataclass(frozen=True)
class Done:
    """What a run wrote, what it says in short, and what could not be done (empty: nothing)."""

    records: Any
    files: tuple[Path, ...]
    words: str
    problem: str = ""


def check_names(names: Sequence[str], known: Collection[str], what: str) -> None:
    """Raise if a name is not among those that are known."""
    for name in names:
        if name not in known:
            raise DataError(f"There is no {what} {name!r}. There are: {'; '.join(known)}.")


def check_jobs(jobs: int) -> None:
    """Raise if there is nobody to do the work."""
    if jobs == 0:
        raise DataError("The number of processes must be at least 1, or -1 for all. Got 0.")


def collect(
    records: ResultsFile[Any],
    work: Callable[..., list[Any]],
    todo: Collection[tuple[Any, ...]],
    label: Callable[[Any], str],
    jobs: int,
    progress: bool,
) -> None:
    """Add what `work` finds for the arguments in `todo`, as it is found, by several processes.

    Parameters
    ----------
    records : ResultsFile
    work : function
        From arguments to a list of records.
    todo : collection of tuples of arguments
    label : function
        From a record to what the bar says of it.
    jobs : int
        The number of processes.
    progress : bool
        Whether to show a bar (only on a terminal).
    """
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    with tqdm(total=len(todo), desc="cells", disable=None if progress else True) as bar:
        for found in parallel(
            joblib.delayed(_on_one_thread)(work, *arguments) for arguments in todo
        ):
            records.add(found)
            bar.set_postfix_str(label(found[0]), refresh=False)
            bar.update()


def _on_one_thread(work: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
    # One thread each: the matrices are small, and other processes work on other cells.
    with threadpool_limits(1):
        return work(*arguments)


def written(
    records: ResultsFile[Any], text: str, draw: Callable[[], Iterable[tuple[str, Any]]]
) -> Done:
    """The summary and the figures of a study, in the folder of its results.

    Parameters
    ----------
    records : ResultsFile
    text : str
        The summary. What its section "In short" says is repeated on the screen.
    draw : function
        Gives pairs of a name and the axes of a figure (None: there is nothing to draw).
    """
    path = records.folder / "summary.md"
    path.write_text(text, encoding="utf-8")
    words = text.partition("## In short\n\n")[2].partition("\n\n##")[0]
    files = [records.path, path]
    try:
        from expectedkernels.plotting import close, save

        for name, axes in draw():
            if axes is not None:
                files.append(save(axes[0], records.folder / f"{name}.png"))
                close(axes[0])
    except ImportError as error:
        return Done(records, tuple(files), words, f"No picture was written. {error}")
    return Done(records, tuple(files), words)
