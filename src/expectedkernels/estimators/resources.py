"""How much of the machine estimators use, and the order of their work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs

from expectedkernels.arrays import spans
from expectedkernels.engine.sweep import DEFAULT_MAX_BYTES
from expectedkernels.errors import DataError
from expectedkernels.kernels.gram import CHUNK_BYTES

MATRICES = 4
"""Kernel matrices may take so many times the memory of other intermediate values."""
BUNDLES = 4
"""Tasks are handed out in so many bundles per worker: what they share is sent once for each."""


@dataclass(frozen=True)
class Resources:
    """How much of the machine to use, and how exact to be.

    Attributes
    ----------
    n_jobs : int or None
        Workers, as in scikit-learn: threads, unless `joblib.parallel_config` names others.
    max_bytes : int
        Memory for intermediate values, of all workers together.
    std_tol : float
        The relative error that standard deviations may have where exact ones take long.
    """

    n_jobs: int | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    std_tol: float = 0.0

    @property
    def workers(self) -> int:
        """The number of workers."""
        return effective_n_jobs(self.n_jobs)

    @property
    def chunk_bytes(self) -> int:
        """What the chunks of one worker may take."""
        return max(2**16, min(self.max_bytes // self.workers, CHUNK_BYTES))

    def require_matrix(self, n: int, matrices: int = 1) -> None:
        """Raise if kernel matrices of n rows take more memory than they may, before they do.

        Parameters
        ----------
        n : int
        matrices : int
            How many of them there are at once.

        Examples
        --------
        >>> Resources().require_matrix(10000)
        """
        limit, size = MATRICES * max(self.max_bytes, DEFAULT_MAX_BYTES), 8 * matrices * n**2
        if size > limit:
            what = "A kernel matrix" if matrices == 1 else f"{matrices} kernel matrices"
            raise DataError(
                f"{what} of {n} rows {'takes' if matrices == 1 else 'take'} {size / 2**30:.1f} "
                f"GiB, more than {limit / 2**30:.3g} GiB. Fit the model to a sample of the rows, "
                "or a linear model to ExpectedKernelFeatures of all rows. If there is enough "
                f"memory, set max_bytes to {-(-size // MATRICES)} or more."
            )

    def map(self, work: Callable[[Any], Any], tasks: list[Any]) -> Iterator[Any]:
        """The results of all tasks, in their order.

        Workers may be other processes, or other machines: `work` and the tasks must be such that
        they can be pickled, and what they find out must be in what they return.
        """
        if self.workers == 1 or len(tasks) <= 1:
            yield from map(work, tasks)
            return
        n = min(len(tasks), BUNDLES * self.workers)
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads")
        bundles = parallel(delayed(_all_done)(work, tasks[i::n]) for i in range(n))
        for i in range(len(tasks)):
            yield bundles[i % n][i // n]


def _all_done(work: Callable[[Any], Any], tasks: list[Any]) -> list[Any]:
    return [work(task) for task in tasks]


def chunks(index: Any, n_points: int, max_bytes: int) -> list[Any]:
    """Parts of an index whose matrices of kernels with all points fit into memory."""
    size = max(1, max_bytes // (32 * max(1, n_points)))
    return [index[span] for span in spans(len(index), size)]
