"""Passes of EM over data in batches; on a card, every step is launched as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, repeat
from math import frexp
from typing import Any, NamedTuple

import numpy as np

from expectedkernels.arrays import as_like, namespace, to_numpy
from expectedkernels.circuits.observed import observed
from expectedkernels.circuits.streams import naming
from expectedkernels.engine import on_tensors
from expectedkernels.engine.levels import Levels
from expectedkernels.engine.passes import Atoms, Up, down, up
from expectedkernels.engine.replay import Captured, fits, replayed
from expectedkernels.engine.tensors import States, TensorLevels
from expectedkernels.errors import DataError
from expectedkernels.learning.batches import (
    Trained,
    batch_counts,
    moved,
    row_sums,
    sent_weights,
    stepped,
)
from expectedkernels.learning.data import Rows, require_weight
from expectedkernels.learning.streams import used_up

TRAINED_SHARE = 4
"""Steps of EM may keep one part in so many of a card's memory."""
CAPTURED = 8
"""A chunk of so many batches is worth sending to a card as a whole."""


class Batch(NamedTuple):
    """Rows between two updates, what sums get in advance, and the step."""

    rows: Any
    beta: float
    step: float


def epochs(
    trained: Trained,
    data: Rows,
    phases: Iterable[tuple[int, int, tuple[float, float]]],
    beta: float,
    generator: np.random.Generator,
) -> Iterator[tuple[Trained, float]]:
    """The circuit after every pass over the data, and the mean log-likelihood in it.

    Phases follow one another. Each is (n, size, steps): n passes, with rows in random order,
    `size` at a time, and steps that go evenly from the first to the last. `beta` is what sums
    get in advance for all of the data.
    """
    n_rows, unit = data.evidence.n_rows, _unit(float(data.weights.mean()))
    data, beta = replace(data, weights=data.weights / unit), beta / unit
    for n, size, steps in phases:
        every = iter(np.linspace(*steps, n * -(-n_rows // size)).tolist())
        card = card_of(trained, data, size) if n else None
        for _ in range(n):
            trained, total = _pass(trained, data, card, size, every, beta / n_rows, generator)
            yield trained, total / float(data.weights.sum())


def _unit(weight: float) -> float:
    """A power of two of about the size of weights: over it they keep to the range of floats."""
    return 2.0 ** (frexp(weight)[1] - 1)


def _pass(
    trained: Trained,
    data: Rows,
    card: Card | None,
    size: int,
    steps: Iterator[float],
    beta: float,
    generator: np.random.Generator,
) -> tuple[Trained, float]:
    """The circuit after steps for all rows, and the sum of log-likelihoods; `beta` is for a row."""
    n_rows, total = data.evidence.n_rows, 0.0
    order = np.arange(n_rows) if size >= n_rows else generator.permutation(n_rows)
    parts = (order[i : i + size] for i in range(0, n_rows, size))
    batches = [Batch(rows, beta * len(rows), next(steps)) for rows in parts]
    if card is not None:
        trained, total, batches = card.run(trained, batches)
    for batch in batches:
        part = data.evidence if size >= n_rows else data.evidence.rows(batch.rows)
        own, numbers = data.weights[batch.rows], data.numbers[batch.rows]
        found, counts = batch_counts(trained, part, own, numbers)
        trained, total = stepped(trained, counts, batch.beta, batch.step), total + found
    return trained, total


def chunked_epochs(
    start: Callable[..., Trained],
    read: Callable[[], Iterable[tuple[str, tuple[int, Rows | None]]]],
    n: int,
    size: int | None,
    steps: tuple[float, float],
    beta: float,
    generator: np.random.Generator,
) -> Iterator[tuple[Trained, float]]:
    """What `epochs` gives, of chunks of rows that are read for every pass, and once before.

    Rows come in random order within their chunk, which no batch goes beyond; without a size there
    is one step for all. `beta` is what sums get in advance if rows have the mean weight one, and
    `start` is `start_of` without what only the data know.
    """
    sizes, n_all, weight, largest = [], 0, 0.0, 0.0
    for _, (found, rows) in read():
        n_all += found
        if rows is not None:
            sizes.append(len(rows.weights))
            weight += float(rows.weights.sum())
            largest = max(largest, float(rows.weights.max()))
    if n_all == 0:
        raise DataError("EM needs at least one row of data. Got none.")
    require_weight(weight)
    n_rows, beta = sum(sizes), beta * weight / n_all
    most = min(size or n_rows, n_rows)
    trained, unit = start(beta=beta * most / n_rows, largest=most * largest), _unit(weight / n_rows)
    beta /= unit
    per_pass = 1 if size is None else sum(-(-rows // size) for rows in sizes)
    every = chain(np.linspace(*steps, n * per_pass).tolist(), repeat(steps[1]))
    for _ in range(n):
        total, weight, counts = 0.0, 0.0, None
        for name, (_, data) in read():
            if data is None:
                continue
            data = replace(data, weights=data.weights / unit)
            with naming(name):
                if size is None:
                    given = data.evidence, data.weights, data.numbers
                    logs, counts = batch_counts(trained, *given, counts)
                else:
                    many = len(data.weights) >= CAPTURED * size
                    card = card_of(trained, data, size) if many else None
                    options = size, every, beta / n_rows, generator
                    trained, logs = _pass(trained, data, card, *options)
            total += logs
            weight += float(data.weights.sum())
        if counts is not None:
            trained = stepped(trained, counts, beta, next(every))
        yield trained, total / weight if weight else used_up()


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the weights of all stacks and edges of levels lie in one list.

    Attributes
    ----------
    levels : TensorLevels
    stacks : list of lists of slices
        For every level, those of its stacks.
    edges : list of slices
    groups : list of (slice, int)
        Parts of the list that hold weights of units with the same number of them.
    """

    levels: TensorLevels
    stacks: list[list[slice]]
    edges: list[slice]
    groups: list[tuple[slice, int]]

    @property
    def size(self) -> int:
        """The length of the list."""
        return self.edges[-1].stop

    def views(self, flat: Any) -> list[tuple[list[Any], Any]]:
        """For every level the parts of a list that belong to its stacks, and to its edges."""
        return [
            (
                [
                    flat[part].view(stack.weights.shape)
                    for part, stack in zip(parts, level.stacks, strict=True)
                ],
                flat[edges],
            )
            for level, parts, edges in zip(self.levels.levels, self.stacks, self.edges, strict=True)
        ]

    def joined(self, levels: TensorLevels) -> Any:
        """All weights of levels as one list."""
        flat = levels.like.new_empty(self.size)
        for level, (stacks, edges) in zip(levels.levels, self.views(flat), strict=True):
            for stack, part in zip(level.stacks, stacks, strict=True):
                part.copy_(stack.weights)
            edges.copy_(level.edges.weights)
        return flat


def layout(levels: TensorLevels) -> Layout:
    """The places of weights, those of the same width side by side."""
    stacks: list[list[slice]] = [[slice(0)] * len(level.stacks) for level in levels.levels]
    every = [(i, j) for i, level in enumerate(levels.levels) for j in range(len(level.stacks))]
    widths = {(i, j): int(levels.levels[i].stacks[j].weights.shape[2]) for i, j in every}
    at, groups = 0, []
    for width in sorted(set(widths.values())):
        first = at
        for i, j in every:
            if widths[i, j] == width:
                stacks[i][j] = slice(at, at + levels.levels[i].stacks[j].weights.numel())
                at = stacks[i][j].stop
        groups.append((slice(first, at), width))
    edges = []
    for level in levels.levels:
        edges.append(slice(at, at + level.edges.weights.shape[0]))
        at = edges[-1].stop
    return Layout(levels, stacks, edges, groups)


@dataclass(frozen=True, eq=False)
class Card:
    """Data on a card, and steps of EM there.

    Attributes
    ----------
    trained : Trained
        As it was at the start.
    states : int tensor of shape (leaves, rows)
    weights : tensor of shape (rows,)
    captured : dict
        Steps that were made more than once.
    """

    trained: Trained
    states: Any
    weights: Any
    captured: dict[Any, Captured] = field(default_factory=dict)

    @cached_property
    def layout(self) -> Layout:
        """Where weights lie."""
        levels: Any = self.trained.levels
        return layout(levels)

    def levels_of(self, flat: Any) -> TensorLevels:
        """The levels with weights from a list."""
        views = self.layout.views(flat)
        return on_tensors.renumbered(self.layout.levels, views, self.trained.floor)

    def run(self, trained: Trained, batches: Sequence[Batch]) -> tuple[Trained, float, list[Batch]]:
        """The circuit after steps on batches, the sum of log-likelihoods, and what is to be done.

        These are the batches in which some values left the range of plain numbers, or a row is
        impossible: nothing was learned from them yet. Numbers are read once, at the end.
        """
        levels: Any = trained.levels
        flat, like = self.layout.joined(levels), self.layout.levels.like
        rows = as_like(np.concatenate([batch.rows for batch in batches]), self.states)
        given = as_like(np.array([batch[1:] for batch in batches]), like).to(like.dtype)
        told, at = [], 0
        for batch, (beta, step) in zip(batches, given, strict=True):
            n = len(batch.rows)
            key = n, batch.beta > 0
            inputs = rows[at : at + n], beta, step, flat
            found, _ = replayed(self.captured, key, (self.trained,), self._step, inputs)
            flat, at = found[0], at + n
            told.append(found[1])
        sums, good = to_numpy(namespace(like).stack(told)).T
        left = [batch for batch, is_good in zip(batches, good, strict=True) if not is_good]
        levels = self.levels_of(flat)
        return replace(trained, levels=levels), float(sums[good > 0].sum()), left

    def _step(self, rows: Any, beta: Any, step: Any, flat: Any) -> tuple[tuple[Any, Any], None]:
        """The weights after one step, the sum of log-likelihoods, and whether it could be made."""
        levels = self.levels_of(flat)
        weights = self.weights.index_select(0, rows)
        states = self.states.index_select(1, rows)
        found = up(levels, Atoms(States(states, levels.n_atoms)), lift=levels.room / 2)
        dots = flat.new_zeros(flat.shape)
        views = self.layout.views(dots)
        below = down(
            found,
            each=lambda number, units: _write_dots(found, number, units, *views[number]),
            to_atoms=False,
            weights=weights,
        )
        logs = found.log_roots.reshape(-1)
        good = ((logs - logs == 0) & below.trusted).all()
        xp = namespace(flat)
        after = self._moved(flat, dots, good, beta, step)
        total = weights.to(logs.dtype) @ logs
        return (after, xp.stack([total, good.to(total.dtype)])), None

    def _moved(self, flat: Any, dots: Any, good: Any, beta: Any, step: Any) -> Any:
        """The weights moved towards the shares of counts, these times dots; if it is good."""
        after, floor = flat.new_empty(flat.shape), self.trained.floor
        xp = namespace(flat)
        for part, width in self.layout.groups:
            old, own, new = (x[part].view(-1, width) for x in (flat, dots, after))
            fused = on_tensors.fused_at(old)
            if fused is not None and width <= fused.WIDEST:
                fused.move(old, own, good, beta, step, floor, new)
            else:
                found = moved(old, own * old, row_sums, beta, step, floor)
                new.copy_(xp.where(good, found, old))
        for level, part in zip(self.layout.levels.levels, self.layout.edges, strict=True):
            if part.stop > part.start:

                def sums(terms: Any, level: Any = level) -> Any:
                    return on_tensors.unit_sums(level, terms)

                old = flat[part]
                found = moved(old, dots[part] * old, sums, beta, step, floor)
                after[part] = xp.where(good, found, old)
        return after


def _write_dots(found: Up, number: int, units: Any, stacks: list[Any], edges: Any) -> None:
    """Write the sums over rows of derivatives times values, for all weights of a level."""
    levels: Any = found.levels
    level, products = levels.levels[number], found.products[number]
    if isinstance(products, tuple):
        uses = on_tensors.table_uses(levels, products[1], units)
        on_tensors.write_table_dots(levels, uses, stacks, edges)
        return
    xp = namespace(units)
    for out, stack in zip(stacks, level.stacks, strict=True):
        n, height, width = stack.weights.shape
        above = units[stack.units].view(n, height, -1)
        below = products[stack.products].view(n, width, -1)
        xp.bmm(above, below.swapaxes(1, 2), out=out)
    if edges.shape[0]:
        edges.copy_(on_tensors.edge_dots(level, units, products))


def card_of(trained: Trained, data: Rows, size: int) -> Card | None:
    """The states of rows where the weights are.

    None if that is no card, there is no room for them, or rows say other things than states.
    """
    levels = trained.levels
    if isinstance(levels, Levels) or not levels.is_remote or data.evidence.values is None:
        return None
    like, (n_rows, n_leaves) = levels.like, data.evidence.values.shape
    held = levels.n_units + levels.host.n_products
    if not fits(like, 4 * n_rows * n_leaves + 4 * like.element_size() * held * size, TRAINED_SHARE):
        return None
    step = max(1, 2**24 // n_leaves)
    parts = [
        observed(trained.circuit, levels, data.evidence.rows(slice(i, i + step))).values.states
        for i in range(0, n_rows, step)
    ]
    _ = levels.last_entries, levels.room, levels.ranges  # levels with other weights share them
    xp = namespace(like)
    states = xp.concat([xp.astype(part, xp.int32) for part in parts], axis=1)
    return Card(trained, states, sent_weights(data.weights, like))
