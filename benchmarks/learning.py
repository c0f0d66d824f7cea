"""Learned circuits and networks, from incomplete rows too, and changes that are found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import product
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import expectedkernels as ek
from benchmarks.timing import best_of, data_sets, incomplete, literature, seconds, show, timed

SETTINGS: dict[str, tuple[list[int], list[int], list[float], dict[str, Any]]] = {
    "nltcs": ([32, 64], [1000, 4000], [0.1, 1.0], {"epochs": 80, "patience": 20}),
    "dna": ([8, 16, 32], [50, 100, 200], [0.5, 1.0], {"epochs": 50, "patience": 15}),
    "jester": ([16, 32, 64], [500, 1500], [1.0], {"epochs": 50, "patience": 15}),
}
"""Hidden states, sizes of batches, pseudocounts, and what all have in common."""
LATENT, STARTS = 16, 3
"""Hidden states, and random starts, for comparing batches."""
FITTED = {"nltcs": (16, 50, None), "dna": (4, 20, None), "jester": (4, 20, 2000)}
"""Units of the hidden tree, epochs of EM, and how many training rows `fit_mmd` uses."""


def hidden_trees() -> None:
    """The full batch and automatic batches; then settings chosen by validation rows alone."""
    for name, sets in data_sets(*SETTINGS):
        units, batches, counts, rest = SETTINGS[name]
        rows = [(str(size), *_batches(*sets[:2], size), "") for size in (None, "auto")]
        show(f"Hidden tree of {name}, K = {LATENT}, by batch_size, mean of {STARTS} starts", rows)
        every = list(product(units, batches, counts))
        work = [delayed(_learned)(sets, setting, rest) for setting in every]
        taken, found = timed(Parallel(n_jobs=-1), work)
        (valid, test), best = max(zip(found, every, strict=True))
        words = "K = {}, batches of {}, pseudocount {}".format(*best)
        time = f"{taken:.0f} s for {len(every)} settings"
        show(f"Hidden tree of {name}", [(words, f"{test:.4f} test", f"{valid:.4f} valid", time)])


def _batches(X: Any, valid: Any, size: str | None) -> tuple[str, str]:
    """The mean log-likelihood of validation rows, and the CPU time of one fit."""
    total, begin = 0.0, process_time()
    for start in range(STARTS):
        p = ek.learn_hclt(X, LATENT, batch_size=size, rng=start, progress=False)
        total += float(p.log_likelihood(valid).mean())
    time = (process_time() - begin) / STARTS
    return f"{total / STARTS:.3f} valid", f"{time:.1f} s of CPU time"


def _learned(sets: Any, setting: Any, rest: dict[str, Any]) -> list[float]:
    """The mean log-likelihoods of validation and of test rows."""
    (X, valid, test), (units, size, pseudocount) = sets, setting
    options: Any = {"pseudocount": pseudocount, "step": (1.0, 0.02), "progress": False, **rest}
    p = ek.learn_hclt(X, units, X_valid=valid, batch_size=size, rng=0, **options)
    return [float(p.log_likelihood(rows).mean()) for rows in (valid, test)]


def fit_mmd() -> None:
    """Discrepancies to rows that were not seen, before and after a fit by gradients."""
    import torch

    for name, sets in data_sets(*FITTED):
        units, epochs, most = FITTED[name]
        X, X_valid, X_test = sets[0][:most], *sets[1:]
        options: Any = {"X_valid": X_valid, "progress": False}
        start = ek.learn_hclt(X, units, batch_size=None, epochs=epochs, rng=0, **options)
        rows = [("training rows themselves", *_distances(ek.Empirical(X), X, X_test), "")]
        rows.append(("before", *_distances(start, X, X_test), ""))
        for device in ["torch", *(["cuda"] if torch.cuda.is_available() else [])]:
            fit = partial(ek.fit_mmd, start, X, device=device, progress=False)
            time, fitted = timed(partial(fit, X_valid=X_valid))
            few, many = (best_of(partial(fit, steps=n), 2) for n in (30, 130))
            rows.append((f"after, on {device}", *_distances(fitted, X, X_test), seconds(time)))
            rows.append(("", f"{10 * (many - few):.2f} ms a step", "", ""))
        title = f"Squared discrepancies of a hidden tree, K = {units}, to {name}, {len(X)} rows"
        show(title, rows)


def _distances(source: Any, *sets: Any) -> list[str]:
    """The squared discrepancies to training and test rows."""
    names, k = ("train", "test"), ek.ExpHamming()
    return [f"{ek.mmd2(source, X, k):.4g} ({name})" for name, X in zip(names, sets, strict=True)]


CASES = [*product(["alarm"], [2_000, 20_000], [0.2, 0.5])]
CASES += product(["insurance"], [2_000, 20_000], [0.2])
"""Networks, rows, and shares of missing values."""
PEERS = (("asia", 1_000, 0.3), ("child", 200, 0.3), ("alarm", 200, 0.2))
CHANGED = ("INTUBATION", "HR", "PAP", "VENTLUNG", "MINVOLSET")
"""Variables of ALARM whose tables change."""


def rows_of(network: Any, n: int, share: float, seed: int = 1) -> Any:
    """Rows of a network with values missing completely at random."""
    return incomplete(np.asarray(network.sample(n, rng=seed), dtype=float), share, seed)


def case(name: str, n: int, share: float) -> str:
    return f"{name.upper()}, {n} rows, {share:.0%} missing"


def divergence(truth: Any, learned: Any) -> float:
    """The exact Kullback-Leibler divergence of a learned network from the truth."""
    return float(ek.mechanism_change(learned, truth, target=0).divergences.sum())


def fit(network: Any, X: Any, iterations: int = 500, **options: Any) -> tuple[float, Any, Any]:
    """Seconds of EM, the network, and the objective after every iteration."""
    objectives: list[float] = []
    options |= {"callback": lambda _, mean: objectives.append(mean), "progress": False}
    taken, found = timed(lambda: ek.learn_tables(network, X, iterations, **options))
    return taken, found, objectives


def learning_tables() -> None:
    """Tables of networks of the literature from incomplete rows, also by pyAgrum."""
    rows = []
    for name, n, share in CASES:
        network = literature(name)
        X = rows_of(network, n, share)
        first = ek.learn_tables(network, X, 0)
        took, found, means = fit(network, X, tolerance=1e-5)
        grown = "every iteration" if (np.diff(means) > 0).all() else "NOT ALWAYS"
        change = f"{divergence(network, first):.4f} -> {divergence(network, found):.4f}"
        each = seconds(took / len(means))
        rows.append((case(name, n, share), len(means), seconds(took), each, change, grown))
    head = ("", "iterations", "in all", "each", "KL of the start -> of EM", "objective grew in")
    show("Exact EM, tolerance 1e-5, one pseudocount; KL(truth, learned)", rows, head)
    rows = [(case(*peer), *_beside_pyagrum(*peer)) for peer in PEERS if find_spec("pyagrum")]
    head = ("", "ours, an iteration", "pyAgrum, an iteration", "ratio", "objectives")
    show("EM with one count per entry", rows, head)


def _beside_pyagrum(name: str, n: int, share: float) -> tuple[str, ...]:
    """Seconds and numbers of iterations of EM for the same rows and prior, and objectives."""
    import pyagrum as gum

    network = literature(name)
    X, prior = rows_of(network, n, share), [np.ones(table.shape) for table in network.cpts]
    structure, frame = ek.models.to_pyagrum(network), network.schema.frame(X)
    with TemporaryDirectory() as folder:
        frame.astype(object).where(~np.isnan(X), "?").to_csv(f"{folder}/rows.csv", index=False)
        learner = gum.BNLearner(f"{folder}/rows.csv", structure, ["?"])
        learner.useSmoothingPrior(1.0)
        learner.useEM(1e-6)
        theirs, other = timed(learner.learnParameters, structure.dag())
    ours, found, means = fit(network, X, pseudocount=prior, tolerance=1e-9)
    n_ours, n_theirs = len(means), learner.EMnbrIterations()
    each = ours / n_ours, theirs / n_theirs
    cells = f"{seconds(each[0])} x {n_ours}", f"{seconds(each[1])} x {n_theirs}"
    models = found, ek.as_model(other)
    logs = [model.log_likelihood(frame).sum() for model in models]  # with one count per entry:
    logs = [x + sum(np.log(t).sum() for t in m.cpts) for x, m in zip(logs, models, strict=True)]
    return *cells, f"{each[1] / each[0]:.0f}", " and ".join(f"{x:.4f}" for x in logs)


def informative_missingness() -> None:
    """Two variables, each missing more often the larger the other: with masks and without."""
    truth = ek.BayesianNetwork([[], [0]], [[0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]]], ["x", "y"])
    masked = truth.with_masks({"x": ["y"], "y": ["x"]})
    every, found = [[0, 0], [0, 1], [1, 0], [1, 1]], []
    for seed in range(5):
        X = np.asarray(truth.sample(20_000, rng=seed), dtype=float)
        chance = np.array([0.1, 0.7])[X[:, ::-1].astype(int)]
        X[np.random.default_rng(seed).random(X.shape) < chance] = np.nan
        models = (
            ek.learn_tables(masked, masked.mask_columns(X), progress=False).without_masks(),
            ek.learn_tables(truth, X, progress=False),
            ek.learn_tables(truth, X[~np.isnan(X).any(axis=1)], progress=False),
        )
        exact, *joint = [np.exp(model.log_likelihood(every)) for model in (truth, *models)]
        found.append(0.5 * np.abs(np.array(joint) - exact).sum(axis=1))
    names = ("with masks", "without masks", "complete rows")
    errors = zip(names, np.transpose(found), strict=True)
    rows = [(name, f"{np.mean(x):.4f}", f"{np.max(x):.4f}") for name, x in errors]
    title = "Total variation of the learned P(x, y) from the truth, 20 000 rows, 5 seeds"
    show(title, rows, ("", "mean", "largest"))


def moved(network: Any, names: Any, share: float = 0.5, seed: int = 0) -> Any:
    """A network with other tables for some variables."""
    rng, tables = np.random.default_rng(seed), list(network.cpts)
    for v in map(network.variable, names):
        other = rng.dirichlet(np.ones(tables[v].shape[-1]), size=tables[v].shape[:-1])
        tables[v] = (1 - share) * tables[v] / tables[v].sum(axis=-1, keepdims=True) + share * other
    return ek.BayesianNetwork(network.parents, tables, network.names, network.states)


def changed_mechanisms() -> None:
    """Shapley values of changed tables, from incomplete rows."""
    before = literature("alarm")
    after, rows = moved(before, CHANGED), []
    places = [before.variable(name) for name in CHANGED]
    for n in (2_000, 10_000):
        X, Y = rows_of(before, n, 0.2, 0), rows_of(after, n, 0.2, 1)
        took, found = timed(ek.mechanism_change, X, Y, before)
        ranks = np.argsort(np.argsort(-found.shapley))[places] + 1
        values = " ".join(f"{x:.4f}" for x in found.shapley[places])
        rest = f"{np.delete(found.shapley, places).max():.5f}"
        rows.append((f"{n} rows a side", seconds(took), sorted(ranks.tolist()), values, rest))
    exact = ek.mechanism_change(before, after).shapley[places]
    rows.append(("the networks themselves", "", "", " ".join(f"{x:.4f}" for x in exact), ""))
    head = ("", "time", "ranks", "values of the five", "largest other")
    show("ALARM, five changed tables, 20 % missing", rows, head)


TRIALS, WINDOW = 20, 3000


def permuted(column: Any, rng: Any) -> None:
    """Change the dependencies, and no marginal distribution."""
    some = np.flatnonzero(rng.random(len(column)) < 0.3)
    column[some] = column[rng.permutation(some)]


def set_to_one(column: Any, rng: Any) -> None:
    column[rng.random(len(column)) < 0.06] = 1


CHANGES = {"30 % of a column permuted": permuted, "6 % of a column set to one": set_to_one}


def drift() -> None:
    """How often the spoiled column is ranked first by one-column differences, and by drift."""
    rows = []
    for (_, (X, *_)), (name, change) in product(data_sets("nltcs"), CHANGES.items()):
        hits = np.mean([_ranked_first(X, change, seed) for seed in range(TRIALS)], axis=0)
        rows.append((name, *(f"{x:.0%}" for x in hits)))
    title = f"NLTCS, windows of {WINDOW} rows, {TRIALS} trials: how often the change is found"
    show(title, rows, ("", "marginals", "ignoring", "Shapley"))


def _ranked_first(data: Any, change: Callable[[Any, Any], None], seed: int) -> list[bool]:
    rng = np.random.default_rng(seed)
    X, Y = data[rng.permutation(len(data))[: 2 * WINDOW]].reshape(2, WINDOW, -1)
    culprit = int(rng.integers(data.shape[1]))
    change(Y[:, culprit], rng)
    found = ek.drift(X, Y, n_permutations=0)
    marginals = np.abs(X.mean(axis=0) - Y.mean(axis=0))
    return [int(np.argmax(x)) == culprit for x in (marginals, found.ignoring, found.shapley)]


MINUTES = [hidden_trees, fit_mmd, learning_tables, informative_missingness]
MINUTES += [changed_mechanisms, drift]
