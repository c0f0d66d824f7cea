"""Samples that have collapsed some variables, with all values of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from expectedkernels.errors import CircuitError, rows_numbered

MAX_COMPLETIONS = 10**6
"""How many completions of one row are enumerated at most."""
CHUNK = 2**16
"""How many completed rows are looked at together."""

Joint = Callable[[Any, list[int], Any], Any]
"""From rows, collapsed variables and states of these to probabilities, (rows, states)."""


def completions(
    rows: Any,
    weights: Any,
    numbers: Any,
    variables: list[int],
    cardinalities: Sequence[int],
    joint: Joint,
) -> Iterator[tuple[Any, Any]]:
    """Points over the variables, and the shares of the samples that they stand for, in chunks.

    Errors name the rows by their numbers.

    Examples
    --------
    >>> rows, half = np.array([[0.0, np.nan]]), lambda rows, gone, states: np.full((1, 2), 0.5)
    >>> parts = completions(rows, np.ones(1), np.zeros(1), [0, 1], [2, 2], half)
    >>> [(x.tolist(), w.tolist()) for x, w in parts]
    [([[0.0, 0.0], [0.0, 1.0]], [0.5, 0.5])]
    """
    masks, group = np.unique(np.isnan(rows[:, variables]), axis=0, return_inverse=True)
    for number, mask in enumerate(masks):
        some = np.flatnonzero(group.reshape(-1) == number)
        gone = [v for v, is_open in zip(variables, mask, strict=True) if is_open]
        states = _states([cardinalities[v] for v in gone])
        step = max(1, CHUNK // len(states))
        for i in range(0, len(some), step):
            here = some[i : i + step]
            few, share = rows[here], weights[here]
            if not gone:
                yield few[:, variables], share
                continue
            full = np.repeat(few, len(states), axis=0)
            full[:, gone] = np.tile(states, (len(few), 1))
            with rows_numbered(numbers[here]):
                chances = joint(few, gone, states)
            yield full[:, variables], (share[:, None] * chances).reshape(-1)


def _states(shape: list[int]) -> Any:
    """All states of the collapsed variables, one row each; raises if they are too many."""
    count = prod(shape)
    if count > MAX_COMPLETIONS:
        raise CircuitError(
            f"A row has {count:.3g} completions of the {len(shape)} collapsed variables in the "
            f"scope, more than the {MAX_COMPLETIONS:.0e} that are enumerated. Give the few "
            "variables that the function looks at as scope=[...], or pass it as a Circuit."
        )
    if not shape:
        return np.zeros((1, 0))
    return np.stack(np.unravel_index(np.arange(count), shape), axis=1)
