"""Networks from incomplete rows: EM, beside pyAgrum's; informative missingness; mechanisms.

Run as `python -m benchmarks.networks`, or with the names of functions to run only these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import expectedkernels as ek
from benchmarks.timing import in_turns, literature, seconds, show, timed

CASES = (
    ("asia", 20_000, 0.5),
    ("alarm", 2_000, 0.2),
    ("alarm", 2_000, 0.5),
    ("alarm", 20_000, 0.2),
    ("alarm", 20_000, 0.5),
    ("child", 20_000, 0.5),
    ("insurance", 2_000, 0.2),
    ("insurance", 20_000, 0.2),
)
"""Networks, rows, and shares of missing values."""
PEERS = (("asia", 1_000, 0.3), ("child", 200, 0.3), ("alarm", 200, 0.2))
CHANGED = ("INTUBATION", "HR", "PAP", "VENTLUNG", "MINVOLSET")
"""Variables of ALARM whose tables change."""


def incomplete(network: Any, n: int, share: float, seed: int = 1) -> Any:
    """Rows of a network with values missing completely at random."""
    X = np.asarray(network.sample(n, rng=seed), dtype=float)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def divergence(truth: Any, learned: Any) -> float:
    """The exact Kullback-Leibler divergence of a learned network from the truth."""
    return float(ek.mechanism_change(learned, truth, target=0).divergences.sum())


def learning_tables() -> None:
    """Tables of networks of the literature from incomplete rows."""
    rows = []
    for name, n, share in CASES:
        network = literature(name)
        X, means = incomplete(network, n, share), list[float]()
        first = ek.learn_tables(network, X, 0)
        took, found = timed(
            lambda network=network, X=X, means=means: ek.learn_tables(
                network,
                X,
                tolerance=1e-5,
                callback=lambda _, mean: means.append(mean),
                progress=False,
            )
        )
        grown = "every iteration" if (np.diff(means) > 0).all() else "NOT ALWAYS"
        change = f"{divergence(network, first):.4f} -> {divergence(network, found):.4f}"
        case = f"{name.upper()}, {n} rows, {share:.0%} missing"
        rows.append((case, len(means), seconds(took), seconds(took / len(means)), change, grown))
    head = ("", "iterations", "in all", "each", "KL of the start -> of EM", "objective grew in")
    show("Exact EM, tolerance 1e-5, one pseudocount; KL(truth, learned)", rows, head)


def tables_beside_pyagrum() -> None:
    """EM for the same rows and prior, in turns with that of pyAgrum."""
    try:
        import pandas as pd
        import pyagrum as gum
    except ImportError:
        print("\n(no pyAgrum: nothing to compare with; pip install pyagrum)")
        return
    rows = []
    for name, n, share in PEERS:
        network = literature(name)
        X = incomplete(network, n, share)
        frame = network.schema.frame(X).astype(object).where(~np.isnan(X), "?")
        path = Path("rows_with_missing_values.csv")
        pd.DataFrame(frame).to_csv(path, index=False)
        structure, prior = ek.models.to_pyagrum(network), [np.ones(t.shape) for t in network.cpts]
        state: dict[str, Any] = {}

        def theirs(structure=structure, path=path, state=state, gum=gum) -> float:
            learner = gum.BNLearner(str(path), structure, ["?"])
            learner.useSmoothingPrior(1.0)
            learner.useEM(1e-6)
            took, found = timed(lambda: learner.learnParameters(structure.dag()))
            state["theirs"], state["n theirs"] = found, learner.EMnbrIterations()
            return took / learner.EMnbrIterations()

        def ours(network=network, X=X, state=state, prior=prior) -> float:
            means: list[float] = []
            options: Any = {"pseudocount": prior, "tolerance": 1e-9, "progress": False}
            took, found = timed(
                lambda: ek.learn_tables(
                    network, X, 500, callback=lambda _, mean: means.append(mean), **options
                )
            )
            state["ours"], state["n ours"] = found, len(means)
            return took / len(means)

        best = in_turns({"ours": ours, "theirs": theirs}, 2)
        path.unlink()
        other = ek.as_model(state["theirs"])
        scores = [_objective(model, X, network) for model in (state["ours"], other)]
        case = f"{name.upper()}, {n} rows, {share:.0%} missing"
        mine, their = (f"{seconds(best[x])} x {state[f'n {x}']}" for x in ("ours", "theirs"))
        ratio = f"{best['theirs'] / best['ours']:.0f}"
        rows.append((case, mine, their, ratio, " and ".join(f"{x:.4f}" for x in scores)))
    head = ("", "ours, an iteration", "pyAgrum, an iteration", "ratio", "objectives")
    show("EM with one count per entry, iterations in turns", rows, head)


def _objective(model: Any, X: Any, like: Any) -> float:
    """The log-likelihood with one count per entry of the tables."""
    logs = sum(float(np.log(table).sum()) for table in model.cpts)
    return float(model.log_likelihood(like.schema.frame(X)).sum()) + logs


def informative_missingness() -> None:
    """Two variables, each missing more often the larger the other: with masks and without."""
    truth = ek.BayesianNetwork([[], [0]], [[0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]]], ["x", "y"])
    masked = truth.with_masks({"x": ["y"], "y": ["x"]})
    exact = np.exp(truth.log_likelihood([[0, 0], [0, 1], [1, 0], [1, 1]]))
    found: dict[str, list[float]] = {"with masks": [], "without masks": [], "complete rows": []}
    for seed in range(5):
        X = np.asarray(truth.sample(20_000, rng=seed), dtype=float)
        chance = np.array([0.1, 0.7])[X[:, ::-1].astype(int)]
        X[np.random.default_rng(seed).random(X.shape) < chance] = np.nan
        whole = X[~np.isnan(X).any(axis=1)]
        models = (
            ek.learn_tables(masked, masked.mask_columns(X), progress=False).without_masks(),
            ek.learn_tables(truth, X, progress=False),
            ek.learn_tables(truth, whole, progress=False),
        )
        for errors, model in zip(found.values(), models, strict=True):
            joint = np.exp(model.log_likelihood([[0, 0], [0, 1], [1, 0], [1, 1]]))
            errors.append(0.5 * float(np.abs(joint - exact).sum()))
    rows = [(name, f"{np.mean(x):.4f}", f"{np.max(x):.4f}") for name, x in found.items()]
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
    """Shapley values of changed tables: of given networks, and from incomplete rows."""
    rows = []
    for name in ("asia", "child", "alarm"):
        before = literature(name)
        after = moved(before, before.names, 0.2)
        took, found = timed(ek.mechanism_change, before, after)
        mean, _ = timed(lambda a=before, b=after: ek.mechanism_change(a, b, target=a.names[-1]))
        models = [
            ek.BayesianNetwork(x.parents, [t / t.sum(-1, keepdims=True) for t in x.cpts])
            for x in (before, after)
        ]
        error = abs(found.total - float(ek.mmd2(*models, ek.ExpHamming())))
        case = f"{name.upper()}, all {len(before.names)} tables"
        rows.append((case, seconds(took), seconds(mean), f"{error:.0e}"))
    head = ("", "squared MMD", "mean", "error of the sum")
    show("Exact Shapley values of tables", rows, head)
    before = literature("alarm")
    after = moved(before, CHANGED)
    truth, rows = ek.mechanism_change(before, after), []
    for n in (2_000, 10_000):
        X, Y = incomplete(before, n, 0.2, 0), incomplete(after, n, 0.2, 1)
        took, found = timed(ek.mechanism_change, X, Y, before)
        order = np.argsort(-found.shapley)
        ranks = sorted(int(np.flatnonzero(order == before.variable(x))[0]) + 1 for x in CHANGED)
        rest = max(x for v, x in enumerate(found.shapley) if before.names[v] not in CHANGED)
        values = " ".join(f"{found.shapley[before.variable(x)]:.4f}" for x in CHANGED)
        rows.append((f"{n} rows a side", seconds(took), ranks, values, f"{rest:.5f}"))
    exact = " ".join(f"{truth.shapley[before.variable(x)]:.4f}" for x in CHANGED)
    rows.append(("the networks themselves", "", "", exact, ""))
    head = ("", "time", "ranks", "values of the five", "largest other")
    show("ALARM, five changed tables, 20 % missing", rows, head)


ALL = [learning_tables, tables_beside_pyagrum, informative_missingness, changed_mechanisms]


def main() -> None:
    chosen = sys.argv[1:] or [function.__name__ for function in ALL]
    with threadpool_limits(1):
        for function in ALL:
            if function.__name__ in chosen:
                function()


if __name__ == "__main__":
    main()
