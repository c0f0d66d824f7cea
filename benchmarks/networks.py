"""Networks from incomplete rows: EM, beside pyAgrum's; informative missingness; mechanisms."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import all_states, incomplete, literature, seconds, show, timed

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
    rows = [(case(*peer), *_beside_pyagrum(*peer)) for peer in PEERS]
    head = ("", "ours, an iteration", "pyAgrum, an iteration", "ratio", "objectives")
    show("EM with one count per entry", rows, head)


def _beside_pyagrum(name: str, n: int, share: float) -> tuple[str, ...]:
    """Seconds and numbers of iterations of EM for the same rows and prior, and objectives."""
    try:
        import pyagrum as gum
    except ImportError:
        return ("", "not installed", "", "")
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
    sizes = len(means), learner.EMnbrIterations()
    each = [time / size for time, size in zip((ours, theirs), sizes, strict=True)]
    cells = [f"{seconds(time)} x {size}" for time, size in zip(each, sizes, strict=True)]
    # the log-likelihood with one count per entry of the tables
    objectives = [
        float(model.log_likelihood(frame).sum() + sum(np.log(t).sum() for t in model.cpts))
        for model in (found, ek.as_model(other))
    ]
    return *cells, f"{each[1] / each[0]:.0f}", " and ".join(f"{x:.4f}" for x in objectives)


def informative_missingness() -> None:
    """Two variables, each missing more often the larger the other: with masks and without."""
    truth = ek.BayesianNetwork([[], [0]], [[0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]]], ["x", "y"])
    masked = truth.with_masks({"x": ["y"], "y": ["x"]})
    exact, found = np.exp(truth.log_likelihood(all_states(2))), []
    for seed in range(5):
        X = np.asarray(truth.sample(20_000, rng=seed), dtype=float)
        chance = np.array([0.1, 0.7])[X[:, ::-1].astype(int)]
        X[np.random.default_rng(seed).random(X.shape) < chance] = np.nan
        models = (
            ek.learn_tables(masked, masked.mask_columns(X), progress=False).without_masks(),
            ek.learn_tables(truth, X, progress=False),
            ek.learn_tables(truth, X[~np.isnan(X).any(axis=1)], progress=False),
        )
        joint = [np.exp(model.log_likelihood(all_states(2))) for model in models]
        found.append(0.5 * np.abs(np.array(joint) - exact).sum(axis=1))
    names = ("with masks", "without masks", "complete rows")
    columns = zip(names, np.mean(found, axis=0), np.max(found, axis=0), strict=True)
    rows = [(name, f"{mean:.4f}", f"{most:.4f}") for name, mean, most in columns]
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


ALL = [learning_tables, informative_missingness, changed_mechanisms]
