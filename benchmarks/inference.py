"""Stein discrepancies and weights, beside the textbook ways and another library's samplers."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import expectedkernels as ek
from benchmarks.timing import alternating, best_of, seconds, show
from expectedkernels.stein.bbis import bbis, collapsed_bbis
from expectedkernels.stein.collapsed import CollapsedSteinKernel
from expectedkernels.stein.kdsd import stein_measure
from studies.inference.models import BURN_IN, THIN, Model, collapse, make_model

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from networks import ALARM

CHAINS = (12, 24, 48, 96)
SAMPLES = 7
"""The textbook way is measured for the 21 entries between so many samples."""
TRIES = 3


def stein_discrepancies() -> None:
    """All variables in one sweep, beside one expected kernel for every variable."""
    rng, rows, before = np.random.default_rng(0), [], None
    for n in CHAINS:
        p = _chain(n, rng).circuit()
        q = _chain(n, rng).circuit(p.vtree)
        pairs = _pairs(stein_measure(q, p))
        ours = best_of(lambda p=p, q=q: ek.kdsd(q, p, ek.ExpHamming()), repeats=5)
        began = time.perf_counter()
        value, one_by_one = _one_by_one(q, p)
        theirs = time.perf_counter() - began
        if abs(value - ek.kdsd(q, p, ek.ExpHamming())) > 1e-9 * value:
            raise SystemExit(f"{value} differs from {ek.kdsd(q, p, ek.ExpHamming())}")
        grown = "" if before is None else f", x {pairs / before:.2f}"
        rows += [
            (f"{n} variables", f"{pairs} pairs{grown}", f"{one_by_one} pairs one by one",
             f"{one_by_one / pairs:.0f} x"),
            ("", seconds(ours), seconds(theirs), f"{theirs / ours:.0f} x"),
        ]  # fmt: skip
        before = pairs
    show("KDSD of chains: pairs of units, and time (doubling should double both)", rows)


def _chain(n: int, rng: Any) -> ek.FactorGraph:
    return ek.FactorGraph([2] * n, [((i, i + 1), rng.random((2, 2)) + 0.05) for i in range(n - 1)])


def _pairs(circuit: ek.Circuit) -> int:
    return sum(block.n_units**2 for block in circuit.blocks)


def _one_by_one(q: ek.Circuit, p: ek.Circuit) -> tuple[float, int]:
    """The discrepancy as a sum over variables, and the pairs of units that this takes."""
    rho, total, pairs = ek.algebra.quotient(q, p), 0.0, 0
    for i in range(p.n_variables):
        change = ek.algebra.linear_combination([rho, ek.algebra.shift(rho, i)], [1.0, -1.0])
        u = ek.algebra.multiply(ek.algebra.shift(p, i), change)
        total += ek.expected_kernel(u, u, ek.ExpHamming())
        pairs += _pairs(u)
    return total, pairs


def collapsed_gram() -> None:
    """200 samples of a 4x4 grid, half of the variables collapsed, other ones in every sample.

    In a Gram matrix every pair of conditionals occurs once, so the textbook way is timed for pairs
    of circuits that have been used before, but not with each other. The same pairs again, which
    their remembered plans make faster, are shown beside them.
    """
    model = make_model("grid", ek.ising_grid(4, 4, rng=0))
    points = ek.gibbs(model.graph, 200, burn_in=2000, thin=100, rng=1)
    rows = collapse(model, points, 0.5, "per sample", np.random.default_rng(1))
    stein = CollapsedSteinKernel(model.circuit, ek.ExpHamming(), positive=True)
    gram = stein(rows)
    ours = float(np.median([best_of(lambda: stein(rows), repeats=1) for _ in range(3)]))
    first, again, calls = _textbook(model, rows[:SAMPLES], gram)
    n_entries, sampled = len(rows) * (len(rows) + 1) // 2, model.n_variables // 2
    table = [("all of it", seconds(ours), f"{seconds(ours / n_entries)} an entry", "")]
    for what, call in (("expected kernels", first), ("the same pairs again", again)):
        for count, which in ((4 * sampled, "4|s| = "), (calls, "where both have values: ")):
            entry = count * call
            wanted = " (wanted: at least 100)" if (what, count) == ("expected kernels", 32) else ""
            beside = f"{seconds(entry)} an entry, {which}{count:.3g} calls of {seconds(call)}"
            table.append((what, "", beside, f"{entry * n_entries / ours:.0f} x{wanted}"))
    show(f"Gram matrix of {len(rows)} collapsed samples: {n_entries} different entries", table)


def _textbook(model: Model, rows: Any, gram: Any) -> tuple[float, float, float]:
    """The median times of an expected kernel of a new pair and of a known one; calls per entry."""
    kernel = ek.ExpHamming()
    measures = {
        (n, int(i)): _measures(model, row, int(i))
        for n, row in enumerate(rows)
        for i in np.flatnonzero(~np.isnan(row))
    }
    for pair in measures.values():
        for _, p in pair:
            ek.expected_kernel(p, p, kernel)
    first, again, entries = [], [], 0
    for n in range(len(rows)):
        for m in range(n):
            total = 0.0
            for i in range(model.n_variables):
                if (n, i) not in measures or (m, i) not in measures:
                    continue
                for weight, p in measures[n, i]:
                    for other, q in measures[m, i]:
                        began = time.perf_counter()
                        value = ek.expected_kernel(p, q, kernel)
                        first.append(time.perf_counter() - began)
                        again.append(best_of(lambda p=p, q=q: ek.expected_kernel(p, q, kernel), 1))
                        total += weight * other * value
            if abs(total - gram[n, m]) > 1e-8 * np.sqrt(gram[n, n] * gram[m, m]):
                raise SystemExit(f"{total} differs from {gram[n, m]} at {n}, {m}")
            entries += 1
    return float(np.median(first)), float(np.median(again)), len(first) / entries


def _measures(model: Model, x: Any, i: int) -> list[tuple[float, ek.Circuit]]:
    """The conditional given the next state placed at the state, and that given the state before."""
    up = x.copy()
    up[i] = (x[i] + 1) % model.graph.cardinalities[i]
    logs = model.circuit.log_likelihood(np.stack([up, x]))
    conditionals = [ek.algebra.shift(model.circuit.condition(row), i) for row in (up, x)]
    return [(float(np.exp(logs[0] - logs[1])), conditionals[0]), (-1.0, conditionals[1])]


def many_samples() -> None:
    """Weights for 2000 samples of a 4x4 grid, nothing collapsed."""
    grid = ek.ising_grid(4, 4, rng=0)
    points = ek.gibbs(grid, 2000, burn_in=2000, thin=50, rng=0)
    rows = []
    for rule in ("raw", "default"):
        # threads of BLAS that wait for each other make times on a busy machine meaningless
        with threadpool_limits(1):
            began = time.perf_counter()
            samples = bbis(grid, points, weights=rule)
            took = time.perf_counter() - began
        found = f"certificate {samples.certificate:.0e}, ess {samples.ess:.0f}"
        rows.append((f"{rule} weights", seconds(took), found, "(wanted: less than 10 s)"))
    n = len(np.unique(points, axis=0))
    show(f"Gram matrix and weights of 2000 samples ({n} distinct), one thread", rows)


def function_targets() -> None:
    """A Python function as the target, beside the factor graph that it asks."""
    grid = ek.ising_grid(4, 4, rng=0)
    function = ek.Target(lambda X: grid.log_score(X), grid.cardinalities)
    rows = []
    for n in (500, 2000):
        points = ek.gibbs(grid, n, burn_in=2000, thin=50, rng=0)
        tasks = {
            "kdsd": lambda t, X=points: ek.kdsd(X, t),
            "kdsd_test": lambda t, X=points: ek.kdsd_test(X, t, rng=0).statistic,
            "raw weights": lambda t, X=points: bbis(t, X, weights="raw").weights,
            "default weights": lambda t, X=points: bbis(t, X).weights,
        }
        for name, task in tasks.items():
            if np.abs(task(function) - task(grid)).max() > 1e-10:
                raise SystemExit(f"{name}: the function and the factor graph differ")
            with threadpool_limits(1):
                ours, theirs = alternating(
                    lambda task=task: task(function), lambda task=task: task(grid), rounds=3
                )
            ratio = f"{ours / theirs:.2f} x (wanted: less than 3)"
            rows.append((f"{name}, {n} samples", seconds(ours), seconds(theirs), ratio))
    show("Functions as targets, beside factor graphs (4x4 grid), one thread", rows)


def alarm_network() -> None:
    """37 variables with up to four states, half of them collapsed, beside pyAgrum's samplers."""
    network = _alarm()
    model = make_model("ALARM", network)
    n, rows = 100, []
    errors: dict[str, list[float]] = {}
    began = time.perf_counter()
    for seed in range(TRIES):
        points = ek.gibbs(network, n, burn_in=BURN_IN, thin=THIN, rng=seed)
        plain = bbis(network, points, weights="uniform")
        masked = collapse(model, points, 0.5, "per sample", np.random.default_rng(seed))
        samples = collapsed_bbis(network, masked)
        for name, found in (
            ("VS", plain),
            ("BBIS, default weights", plain.reweighted("default")),
            ("CVS 50 %", samples.reweighted("uniform")),
            ("CBBIS 50 %, raw weights", samples.reweighted("raw")),
            ("CBBIS 50 %, default weights", samples),
        ):
            estimates = np.concatenate(found.marginals())
            errors.setdefault(name, []).append(model.error(estimates))
    took = (time.perf_counter() - began) / TRIES
    for name, estimates in _pyagrum(model, n).items():
        errors[name] = [model.error(estimate) for estimate in estimates]
    for name, found in errors.items():
        spread = f"± {np.std(found, ddof=1):.2f} over {len(found)} tries"
        rows.append((name, f"{np.mean(found):.2f}", spread, ""))
    show(
        f"ALARM (random tables), {n} samples: logs of the mean Hellinger distance of the marginals "
        f"({seconds(took)} a try)",
        rows,
    )


def _alarm() -> ek.BayesianNetwork:
    """The structure of the network ALARM with random conditional probabilities."""
    rows = [row.split() for row in ALARM.split(";")]
    names = [name for name, *_ in rows]
    cards = {name: int(card) for name, card, *_ in rows}
    rng = np.random.default_rng(0)
    tables = [
        rng.dirichlet(np.ones(cards[name]), size=[cards[p] for p in above])
        for name, _, *above in rows
    ]
    parents = [[names.index(p) for p in above] for _, _, *above in rows]
    return ek.BayesianNetwork(parents, tables, names)


def _pyagrum(model: Model, n: int) -> dict[str, list[Any]]:
    """Estimates of pyAgrum's samplers for ten seeds; empty without it."""
    try:
        import pyagrum as gum
    except ImportError:
        print("\n(no pyAgrum: its samplers are left out; pip install pyagrum)")
        return {}
    network, graph = gum.BayesNet(), model.graph
    names, cards = graph.names, graph.cardinalities
    for name, card in zip(names, cards, strict=True):
        network.add(gum.LabelizedVariable(name, name, card))
    for factor in graph.factors:
        for parent in factor.scope[:-1]:
            network.addArc(names[parent], names[factor.scope[-1]])
    for factor in graph.factors:
        *above, child = factor.scope
        for index in np.ndindex(*(cards[v] for v in above)):
            place = {names[v]: int(x) for v, x in zip(above, index, strict=True)}
            network.cpt(names[child])[place] = factor.table[index].tolist()
    updates = (BURN_IN + n * THIN) // len(names)
    found: dict[str, list[Any]] = {}
    for name, kind, size in (
        (f"pyAgrum, Gibbs, {n} sweeps", gum.GibbsSampling, n),
        (f"pyAgrum, Gibbs, {updates} sweeps (as many updates as VS)", gum.GibbsSampling, updates),
        ("pyAgrum, importance sampling", gum.ImportanceSampling, n),
    ):
        for seed in range(10):
            gum.initRandom(seed)
            sampler = kind(network)
            sampler.setMaxIter(size)
            sampler.setPeriodSize(size)
            sampler.setEpsilon(1e-12)
            sampler.setMinEpsilonRate(1e-12)
            if kind is gum.GibbsSampling:
                # Its burn-in is a least number of samples, all of which count: there is none here.
                sampler.setBurnIn(0)
                sampler.setNbrDrawnVar(len(names))
            sampler.makeInference()
            if sampler.nbrIterations() != size:
                raise SystemExit(f"pyAgrum took {sampler.nbrIterations()} samples, and not {size}")
            estimate = [sampler.posterior(v).toarray() for v in names]
            found.setdefault(name, []).append(np.concatenate(estimate))
    return found


ALL = [stein_discrepancies, collapsed_gram, many_samples, function_targets, alarm_network]
