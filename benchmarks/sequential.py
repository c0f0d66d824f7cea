"""How often tests of streams alarm, and how soon: false alarms, run lengths, delays, times."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.optimize import brentq

import expectedkernels as ek
from benchmarks.timing import best_of, cross, incomplete, show, states

K = ek.ExpHamming(0.5)
STREAMS, ROWS = 1000, 2000
CHANGED, CHANGE = 100, 1000
"""Streams with a change, and the row at which it comes."""
WINDOW, STEP = 100, 25
"""The rows of a test of fixed size that is repeated, and how often."""
NETWORK = ek.asia().smoothed(1e-3)
"""ASIA without zeros, so that every incomplete row has a distribution."""
STATES = states(8)
Alarm = Callable[[Any], int | None]
"""What finds the first alarm in a stream of the numbers of states."""


class Table:
    """A distribution over the states of eight bits."""

    def __init__(self, weights: Any):
        self.chances = weights / weights.sum()

    def sample(self, shape: Any, rng: Any) -> Any:
        """The numbers of states."""
        edges = np.cumsum(self.chances)
        return np.searchsorted(edges, rng.random(shape) * edges[-1], side="right")

    def mmd(self, other: Table) -> float:
        change = self.chances - other.chances
        return float(np.sqrt(max(0.0, change @ K(STATES) @ change)))


ASIA = Table(np.exp(NETWORK.log_likelihood(STATES)))


def tilted(mmd: float) -> Table:
    """p(x) exp((x - 1/2)' A (x - 1/2)) with normal entries of A, scaled to a discrepancy."""
    X, A = STATES - 0.5, np.random.default_rng(0).normal(size=(8, 8))
    form = np.einsum("ni,ij,nj->n", X, A, X)

    def at(scale: float) -> Table:
        return Table(ASIA.chances * np.exp(scale * form))

    return at(brentq(lambda scale: at(scale).mmd(ASIA) - mmd, 0.0, 3.0))


def loosened() -> Table:
    """Half of the rows with independent columns: all marginal distributions are kept."""
    ones = ASIA.chances @ STATES
    return Table(0.5 * ASIA.chances + 0.5 * np.where(STATES == 1, ones, 1.0 - ones).prod(axis=1))


SEEN = [0, 2, 4, 6]
"""Columns that are never missing."""
MISSING: dict[str, Callable[[Any], Any]] = {
    "completely at random, 30 %": lambda X: np.full(X.shape, 0.3),
    "at random, 10 or 60 %": lambda X: np.where(X[:, 2:3] == 1, 0.6, 0.1) + 0.0 * X,
    "not at random, 10 or 60 %": lambda X: np.where(X == 1, 0.6, 0.1),
}
"""The probabilities of missing values: constant, by a column that is seen, by the value itself."""


def hidden(X: Any, rng: Any, kind: str) -> Any:
    """Rows with missing values of the four columns that are not always seen."""
    chances = MISSING[kind](X)
    chances[:, SEEN] = 0.0
    return incomplete(X, chances, rng)


def first_alarm(test: Any, rows: Any) -> int | None:
    test.reset()
    test.update(rows)
    return test.alarm


def false_alarms() -> None:
    """Streams of the model that alarm at 5 %, looked at after every row."""
    lines = []
    for name in ("no", *list(MISSING)[:2]):
        rng, test, alarms = np.random.default_rng(0), ek.monitoring.SequentialTest(NETWORK, K), 0
        for _ in range(STREAMS):
            rows = STATES[ASIA.sample(ROWS, rng)]
            rows = rows if name == "no" else hidden(rows, rng, name)
            alarms += first_alarm(test, rows) is not None
        lines.append((f"missing values: {name}", f"{alarms / STREAMS:.1%}"))
    title = f"False alarms at 5 % in {STREAMS} streams of {ROWS} rows of ASIA"
    show(title, lines, ("", "false alarms"))


def incomplete_samples() -> None:
    """How often `mmd_test` rejects samples with missing values, and complete rows alone."""
    circuit, lines = NETWORK.circuit(), []
    for kind in MISSING:
        cells = []
        for source, repeats in ((ASIA, 300), (tilted(0.1), 100)):
            rng, found = np.random.default_rng(6), []
            for _ in range(repeats):
                X = hidden(STATES[source.sample(200, rng)], rng, kind)
                both = (X, X[~np.isnan(X).any(axis=1)])
                tests = [ek.mmd_test(rows, circuit, K, n_null=39, rng=rng) for rows in both]
                found.append([test.p_value <= 0.05 for test in tests])
            cells += [f"{share:.3f}" for share in np.mean(found, axis=0)]
        lines.append((kind, *cells))
    heads = ("model", "complete rows only", "mmd 0.1", "complete rows only")
    show("mmd_test of 200 rows of ASIA, rejected at 5 %, by missing values", lines, ("", *heads))


def fitted_models() -> None:
    """Streams of the true distribution that alarm against a tree fitted to 1000 rows of it."""
    rng, mmds, tolerances, alarms = np.random.default_rng(7), [], [], []
    for _ in range(30):
        tree = ek.learn_chow_liu(STATES[ASIA.sample(1000, rng)], cardinalities=[2] * 8)
        held_out = STATES[ASIA.sample(500, rng)]
        limit = ek.mmd_test(held_out, tree, K, n_null=99, rng=rng).interval(0.9)[1]
        tolerances.append(np.sqrt(limit))
        mmds.append(Table(np.exp(tree.log_likelihood(STATES))).mmd(ASIA))
        tests = [ek.monitoring.SequentialTest(tree, K, tolerance=t) for t in (0.0, tolerances[-1])]
        for _ in range(10):
            rows = STATES[ASIA.sample(ROWS, rng)]
            alarms.append([first_alarm(test, rows) is not None for test in tests])
    without, within = np.mean(alarms, axis=0)
    covers = int(np.sum(np.array(mmds) <= tolerances))
    line = (f"{np.mean(mmds):.3f}", f"{np.mean(tolerances):.3f}", f"{covers} of 30")
    heads = ("", "true mmd", "tolerance", "covers", "alarms without", "with")
    title = f"Chow-Liu trees of 1000 rows of ASIA, 10 streams of {ROWS} rows each"
    show(title, [("means of 30 trees", *line, f"{without:.0%}", f"{within:.0%}")], heads)


def run_lengths() -> None:
    """The mean number of rows until a false alarm, beside the average run length asked for."""
    lines = []
    for arl in (200, 1000):
        rng, lengths = np.random.default_rng(1), []
        test = ek.monitoring.SequentialTest(NETWORK, K, arl=arl)
        while len(lengths) < 400:
            test.reset()
            while test.alarm is None:
                test.update(STATES[ASIA.sample(200, rng)])
            lengths.append(test.alarm + 1)
        error = np.std(lengths) / np.sqrt(len(lengths))
        lines.append((f"arl={arl}", f"{np.mean(lengths):.0f} ± {error:.0f}"))
    show("Rows until a false alarm, mean of 400 streams of ASIA", lines, ("", "mean run length"))


def ours(**settings: Any) -> Alarm:
    """The alarms of a sequential test."""
    test = ek.monitoring.SequentialTest(NETWORK, K, **settings)
    return lambda rows: first_alarm(test, STATES[rows])


def discrepancies(samples: Any) -> Any:
    """The squared MMD of samples from ASIA: of the numbers of their states, one row each."""
    return from_counts(np.stack([np.bincount(rows, minlength=256) for rows in samples]))


def from_counts(counts: Any) -> Any:
    """The same, of how often every state is in a sample."""
    gram, at = K(STATES), K(STATES) @ ASIA.chances
    h = gram - at[:, None] - at + ASIA.chances @ at
    return ((counts @ h) * counts).sum(axis=1) / counts.sum(axis=1) ** 2


def looks(samples: Any, ends: Any, thresholds: Any) -> Alarm:
    """The alarms of exact tests of parts of a stream that end at some rows."""

    def alarm(rows: Any) -> int | None:
        found = discrepancies(samples(rows)) > thresholds
        return ends[int(np.argmax(found))] - 1 if found.any() else None

    return alarm


def repeated() -> Alarm:
    """The exact test of the last rows every so often, with Bonferroni's correction."""
    rng, ends = np.random.default_rng(2), range(WINDOW, ROWS + 1, STEP)
    null = np.concatenate([discrepancies(ASIA.sample((2000, WINDOW), rng)) for _ in range(50)])
    threshold = np.quantile(null, 1.0 - 0.05 / len(ends))
    return looks(lambda rows: [rows[end - WINDOW : end] for end in ends], ends, threshold)


def growing(sizes: Any, corrected: bool = True) -> Alarm:
    """The exact test of all rows at some sizes."""
    rng, chance = np.random.default_rng(4), 1.0 - 0.05 / (len(sizes) if corrected else 1)
    null = [from_counts(rng.multinomial(n, ASIA.chances, size=20_000)) for n in sizes]
    thresholds = [np.quantile(values, chance) for values in null]
    return looks(lambda rows: [rows[:n] for n in sizes], sizes, thresholds)


def river(name: str) -> Alarm | None:
    """A detector of river on every column; None if river is not there."""
    if find_spec("river") is None:
        return None
    make = getattr(import_module("river.drift"), name)

    def alarm(rows: Any) -> int | None:
        detectors = [make() for _ in range(8)]
        for i, row in enumerate(STATES[rows].tolist()):
            for detector, value in zip(detectors, row, strict=True):
                detector.update(value)
                if detector.drift_detected:
                    return i
        return None

    return alarm


def delays() -> None:
    """Rows from a change to the alarm, for sequential tests and what else is in use."""
    kept = loosened()
    sources = {"none": ASIA, **{f"{mmd:.3f}": tilted(mmd) for mmd in (0.098, 0.156, 0.229)}}
    sources[f"marginals kept, {kept.mmd(ASIA):.3f}"] = kept
    methods = {
        "alpha=0.05": ours(),
        "arl=40000": ours(arl=40_000),
        "arl=2000": ours(arl=2000),
        f"MMD of {WINDOW} rows, Bonferroni": repeated(),
        "river ADWIN": river("ADWIN"),
        "river PageHinkley": river("PageHinkley"),
    }
    title = f"Change after row {CHANGE} of {ROWS}, {CHANGED} streams of ASIA: alarms before the "
    title += "change, then share found / median delay"
    cross(title, methods, sources, _delay)


def _delay(alarm: Alarm | None, q: Table) -> str:
    if alarm is None:
        return "-"
    rng, found = np.random.default_rng(3), []
    for _ in range(CHANGED):
        rows = np.concatenate([ASIA.sample(CHANGE, rng), q.sample(ROWS - CHANGE, rng)])
        first = alarm(rows)
        found.append(np.inf if first is None else first + 1 - CHANGE)
    early, later = np.array(found) <= 0, np.array(found)[np.array(found) > 0]
    if q is ASIA:
        return f"{np.mean(np.isfinite(found)):.0%} in {ROWS} rows"
    median = f"{np.median(later):.0f}" if np.isfinite(np.median(later)) else "-"
    return f"{np.mean(early):.0%}, {np.mean(np.isfinite(later)):.2f} / {median}"


def first_alarms() -> None:
    """Rows until an alarm if all rows come from another distribution, beside fixed sizes."""
    few, many = [62, 125, 250, 500, 1000, 2000], list(range(100, ROWS + 1, 100))
    methods = {
        "alpha=0.05": ours(),
        "Bonferroni, 6 sizes": growing(few),
        "Bonferroni, every 100 rows": growing(many),
        "uncorrected, 6 sizes": growing(few, corrected=False),
        "uncorrected, every 100 rows": growing(many, corrected=False),
    }

    def cell(alarm: Alarm, q: Table) -> str:
        rng = np.random.default_rng(5)
        firsts = [alarm(q.sample(ROWS, rng)) for _ in range(300)]
        rows = np.array([np.inf if first is None else first + 1 for first in firsts])
        median = f" / {np.median(rows):.0f}" if q is not ASIA else ""
        return f"{np.mean(np.isfinite(rows)):.2f}{median}"

    sources = [ASIA, *(tilted(mmd) for mmd in (0.044, 0.076, 0.098, 0.156))]
    title = f"All rows from another distribution: share found in {ROWS} rows / median row of alarm"
    cross(title, methods, {f"mmd {q.mmd(ASIA):.3f}": q for q in sources}, cell)


def stream_times() -> None:
    """Milliseconds a row, with 400 rows in the window, one by one and in batches."""
    normals = np.random.default_rng(0).normal(size=(3, 5))
    five = ek.gaussian_mixture([1 / 3] * 3, normals, np.ones((3, 5)))
    lines = []
    for name, model, k in (
        ("ASIA", NETWORK.circuit(), K),
        ("five real columns", five, ek.RBF(0.1)),
    ):
        for share in (0.0, 0.15):
            rng = np.random.default_rng(1)
            X = incomplete(model.sample(500, rng), share, rng)
            test = ek.monitoring.SequentialTest(model, k)
            test.update(X)
            single, batch = (best_of(partial(test.update, some), 300) for some in (X[0], X[:50]))
            what = f"{name}, {share:.0%} missing"
            lines.append((what, f"{1e3 * single:.2f}", f"{1e3 * batch / 50:.2f}"))
    show("SequentialTest, ms a row", lines, ("", "one by one", "50 at a time"))


MINUTES = [false_alarms, incomplete_samples, fitted_models, run_lengths, delays, first_alarms]
MINUTES += [stream_times]
