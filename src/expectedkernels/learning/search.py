"""The search for a structure: which split comes next, when to stop, which circuit is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from expectedkernels.learning.complete import CompleteSearch
from expectedkernels.learning.incomplete import IncompleteSearch
from expectedkernels.learning.statistics import PairCounts, mutual_information
from expectedkernels.progress import progress_bar

SAME_SCORE = 1e-12
"""Variables whose scores differ by less are tied: the first one is taken."""

Search = CompleteSearch | IncompleteSearch


@dataclass(frozen=True)
class StrudelStep:
    """What `learn_strudel` tells its callback after a split.

    Attributes
    ----------
    iteration : int
        The number of splits so far.
    decisions, elements : int
        The number of sum units that are not sums of indicators, and of their inputs.
    units : int
        The number of sums, products and indicators.
    log_likelihood : float
        The mean log-likelihood of the training rows.
    valid_log_likelihood : float or None
        That of the validation rows.

    Examples
    --------
    >>> from expectedkernels.learning.strudel import learn_strudel
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    >>> told = []
    >>> p = learn_strudel(X, iterations=2, callback=told.append)
    >>> [(step.iteration, step.decisions, step.elements) for step in told]
    [(1, 3, 5), (2, 3, 6)]
    """

    iteration: int
    decisions: int
    elements: int
    units: int
    log_likelihood: float
    valid_log_likelihood: float | None


def best_variable(search: Search, edge: int, alpha: float) -> int:
    """The variable to split an edge on: the one that tells most about the others."""
    variables = search.circuit.splittable_variables(edge)
    if len(variables) == 1:
        return int(variables[0])
    rows, weights = search.rows_through(edge)
    cards = np.asarray(search.circuit.cardinalities)[variables]
    counts = PairCounts(rows[:, variables], cards, weights)
    scores = mutual_information(counts, alpha).sum(axis=1)
    return int(variables[np.argmax(scores >= scores.max() - SAME_SCORE)])


class Run:
    """How long a search goes on, and who is told: see `learn_strudel`."""

    def __init__(
        self,
        iterations: int,
        patience: int | None,
        callback: Callable[[StrudelStep], object] | None,
    ) -> None:
        self.iterations, self._callback = iterations, callback
        self._patience = inf if patience is None else patience

    def follow(self, search: Search, progress: bool) -> None:
        """Start from a circuit."""
        self._has_valid = len(search.log_likelihoods) > 1
        self._best, self._best_at = search.log_likelihoods[-1], 0
        self._bar = progress_bar(self.iterations, "Strudel", not progress, "split")
        self._is_shown = not self._bar.disable  # bars that are closed count as disabled

    def __iter__(self) -> Iterator[int]:
        """The numbers of the splits to come, until it is time to stop or the user interrupts."""
        with self._bar:
            for iteration in range(1, self.iterations + 1):
                yield iteration
                if iteration - self._best_at >= self._patience:
                    return

    def interrupted(self) -> None:
        """Tell that the user has interrupted."""
        if self._is_shown:
            message = "Strudel was interrupted: returning the best circuit so far."
            self._bar.write(message, file=sys.stderr)

    def report(self, search: Search, iteration: int) -> bool:
        """Tell about a split; whether the circuit is the one to return if nothing better comes."""
        train, *valid = search.log_likelihoods
        best = not self._has_valid or valid[0] > self._best
        if best:
            self._best, self._best_at = search.log_likelihoods[-1], iteration
        self._bar.set_postfix_str(
            f"log-likelihood {train:.4f}" + (f", valid {valid[0]:.4f}" if valid else ""), False
        )
        self._bar.update()
        return best

    def tell(self, search: Search, iteration: int) -> None:
        """Call the callback."""
        if self._callback is not None:
            circuit = search.circuit
            train, *valid = search.log_likelihoods
            self._callback(
                StrudelStep(
                    iteration,
                    circuit.n_decisions,
                    circuit.n_elements,
                    circuit.n_units,
                    train,
                    valid[0] if valid else None,
                )
            )


def greedy(search: Search, alpha: float, run: Run) -> Search:
    """Split one circuit again and again; it keeps the best one on the way."""
    try:
        for iteration in run:
            edge = search.candidates.best(search.circuit)
            if edge is None:
                break
            search.split(edge, best_variable(search, edge, alpha))
            if run.report(search, iteration):
                search.keep()
            run.tell(search, iteration)
    except KeyboardInterrupt:
        run.interrupted()
    return search
