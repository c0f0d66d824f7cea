"""Few points for a model, and few of many samples: `python -m benchmarks.points [part ...]`.

Parts: herding and completions (NLTCS, from the folder density/ of EXPECTEDKERNELS_DATA; exact
values by enumeration of its 65 536 states), weights (a small grid of models and proposals), memory
(100 000 samples of 50 variables to 200 points). With none named, all of them.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import PeakMemory


def nltcs(part: str = "train") -> Any:
    """One part of the NLTCS data, 16 bits."""
    folder = Path(os.environ.get("EXPECTEDKERNELS_DATA", ".")) / "density"
    return np.loadtxt(folder / f"nltcs.{part}.data", delimiter=",", dtype=np.int64)


def states(n: int) -> Any:
    return np.indices((2,) * n).reshape(n, -1).T.astype(np.float64)


def herding(tries: int) -> None:
    """Errors of means under a learned circuit, by rule and number of points."""
    X = nltcs()
    p = ek.learn_strudel(X, nltcs("valid"), iterations=50)
    every = states(p.n_variables)
    chances = np.exp(p.log_likelihood(every))
    k = ek.ExpHamming(2.0 / p.n_variables)
    mu = ek.expected_kernel(p, every[::97], k)
    off = np.abs(mu - chances @ k(every, every[::97])).max()
    print(f"{p}; embedding against enumeration {off:.0e}")
    rng = np.random.default_rng(0)
    fives = [rng.choice(p.n_variables, 5, replace=False) for _ in range(20)]
    first, second = np.triu_indices(p.n_variables, 1)

    def functions(Z: Any) -> Any:
        pairs = Z[:, first] * Z[:, second]
        some = np.stack([Z[:, five].any(axis=1) for five in fives], axis=1)
        return np.hstack([pairs, some, Z.sum(axis=1, keepdims=True) >= 4])

    exact = chances @ functions(every)
    parts = {"pairs": slice(0, 120), "any of five": slice(120, 140), "count >= 4": slice(140, 141)}
    print(f"{'n':>4} {'rule':32}{'MMD':>9}" + "".join(f"{name:>13}" for name in parts))
    for n in (10, 30, 100, 300):
        for rule in (
            "Monte Carlo",
            "Monte Carlo, quadrature weights",
            "equal",
            "simplex",
            "quadrature",
        ):
            errors, mmds = [], []
            for seed in range(tries):
                Z, w, mmd = chosen(p, n, k, rule, seed)
                errors.append(w @ functions(Z) - exact)
                mmds.append(mmd)
            rms = [np.sqrt(np.mean(np.stack(errors)[:, s] ** 2)) for s in parts.values()]
            print(f"{n:4d} {rule:32}{np.mean(mmds):9.4f}" + "".join(f"{e:13.5f}" for e in rms))


def chosen(p: Any, n: int, k: Any, rule: str, seed: int) -> tuple[Any, Any, float]:
    if not rule.startswith("Monte"):
        points = ek.herd(p, n, k, weights=rule, rng=seed)
        return points.X, points.weights, points.mmd
    Z = p.sample(n, rng=seed)
    if rule == "Monte Carlo":
        return Z, np.full(n, 1.0 / n), float(ek.mmd(p, Z, k))
    Z = np.unique(Z, axis=0)
    weights, variance = ek.quadrature(p, Z, k, normalize=True)
    return Z, weights, float(np.sqrt(variance))


def completions(rows: int) -> None:
    """Mean predictions of random forests over few completions of rows, against all of them.

    With leaves of one row a forest differs at random between states that are next to each other,
    and no rule that does not know it can do much better than its points are many.
    """
    from sklearn.ensemble import RandomForestRegressor

    X, test = nltcs(), nltcs("test")
    inputs, target = X[:, :15], X[:, 15]
    p = ek.learn_strudel(inputs, nltcs("valid")[:, :15], iterations=50)
    every = states(15)
    chances = np.exp(p.log_likelihood(every))
    # the rate of the default kernel was chosen, of five, by the error on the first 40 rows
    Z = test[1000 : 1000 + rows, :15].astype(np.float64)
    Z[np.random.default_rng(1).random(Z.shape) < 0.6] = np.nan
    share = np.stack([chances * ((row == every) | np.isnan(row)).all(axis=1) for row in Z])
    share /= share.sum(axis=1, keepdims=True)
    for leaf in (1, 5, 20):
        forest = RandomForestRegressor(100, min_samples_leaf=leaf, random_state=0)
        print(f"leaves of {leaf} rows")
        errors_by_rule(p, Z, forest.fit(inputs, target).predict(every), share)


def errors_by_rule(p: Any, Z: Any, answers: Any, share: Any) -> None:
    """Errors of completions of rows, given the answers at all states and their probabilities."""
    exact, code = share @ answers, 2.0 ** np.arange(14, -1, -1)

    def answer(rows: Any) -> Any:  # looked up: the forest itself would take most of the time
        return answers[(rows @ code).astype(np.int64)]

    def rms(found: Any) -> float:
        return float(np.sqrt(np.mean((found - exact) ** 2)))

    imputer = ek.CircuitImputer(density=p).fit(states(15))
    best = ek.CircuitImputer("map", density=p).fit(states(15)).transform(Z)
    print(f"most probable completion {rms(answer(best)):.4f}")
    print(f"{'completions':>11}{'random':>10}{'quadrature':>12}")
    for n in (3, 10, 30):
        drawn = rms(np.mean([answer(table) for table in imputer.sample(Z, n, 0)], axis=0))
        began = time.perf_counter()
        chosen = rms(ek.expected_prediction(answer, p, Z, n_completions=n))
        taken = (time.perf_counter() - began) / len(Z)
        print(f"{n:11d}{drawn:10.4f}{chosen:12.4f}   {1e3 * taken:.0f} ms a row")


def models() -> dict[str, Any]:
    """Small targets without zeros; their marginals are known exactly."""
    rng = np.random.default_rng(5)
    chain = [([v, v + 1], np.exp(rng.normal(size=(2, 2)))) for v in range(14)]
    weak = ek.ising_grid(4, 4, rng=1)
    place = np.arange(16).reshape(4, 4)
    pairs = [*zip(place[:, :-1].flat, place[:, 1:].flat, strict=True)]
    pairs += zip(place[:-1].flat, place[1:].flat, strict=True)
    glued = np.exp([[0.5, -0.5], [-0.5, 0.5]])
    magnet = [([int(a), int(b)], glued) for a, b in pairs]
    return {
        "chain of 15": ek.FactorGraph([2] * 15, chain),
        "4x4 grid": weak,
        "ferromagnet": ek.FactorGraph([2] * 16, magnet),
    }


def log_hellinger(model: Any, rows: Any, weights: Any = None) -> float:
    found = np.average(rows, axis=0, weights=weights)
    exact = np.array([table[1] for table in model.marginals()])
    square = 1.0 - np.sqrt(found * exact) - np.sqrt((1.0 - found) * (1.0 - exact))
    return float(np.log(np.mean(np.sqrt(np.maximum(square, 0.0)))))


def weights(tries: int) -> None:
    """Where default weights lose: several modes, right marginals, good proposals and many samples.

    Logs of mean Hellinger distances of single marginals (and of pairs, for the default and equal
    weights), with importance weights and weights shrunk to these where the proposal is known.
    """
    names = ("equal", "importance", "default", "shrunk", "pairs: equal", "default")
    print(f"{'model':14}{'proposal':20}{'n':>5}" + "".join(f"{name:>13}" for name in names))
    for name, model in models().items():
        exact = list(model.marginals())
        known = {
            "the model itself": model.circuit(),
            "right marginals": ek.factorized(exact),
            "learned circuit": ek.learn_chow_liu(model.sample(300, rng=99)),
        }
        for proposal, p in known.items():
            for n in (200, 600):
                found = [weighted_errors(model, p, n, seed) for seed in range(tries)]
                row = "".join(f"{value:13.2f}" for value in np.mean(found, axis=0))
                print(f"{name:14}{proposal:20}{n:5d}{row}")


def weighted_errors(model: Any, proposal: Any, n: int, seed: int) -> list[float]:
    X = proposal.sample(n, rng=seed)
    logs = model.log_score(X) - proposal.log_likelihood(X)
    importance = np.exp(logs - logs.max())
    default = ek.bbis(model, X).weights
    shrunk = ek.bbis(model, X, log_weights=logs).weights
    single = [log_hellinger(model, X, w) for w in (None, importance, default, shrunk)]
    return [*single, log_pair_error(model, X, None), log_pair_error(model, X, default)]


def log_pair_error(model: Any, X: Any, weights: Any) -> float:
    """The log of the mean error of the probabilities that two variables are both one."""
    d, draws = X.shape[1], states(X.shape[1])
    chances = np.exp(model.circuit().log_likelihood(draws))
    exact = draws.T @ (chances[:, None] * draws)
    share = np.full(len(X), 1.0 / len(X)) if weights is None else weights
    error = np.abs(X.T @ (share[:, None] * X) - exact)[np.triu_indices(d, 1)]
    return float(np.log(error.mean()))


def memory(n: int) -> None:
    """Time and memory of thinning many samples of 50 variables to 200 points."""
    grid = ek.ising_grid(5, 10, rng=0)
    X = np.random.default_rng(0).integers(2, size=(n, 50)).astype(np.float64)
    began = time.perf_counter()
    with PeakMemory() as watched:
        ek.stein_thin(grid, X, 200)
    seconds = time.perf_counter() - began
    more = (watched.peak - watched.before) / 2**20
    print(f"{n} samples of 50 variables to 200: {seconds:.0f} s, {more:.0f} MiB more at the peak")


def main() -> None:
    parts = {
        "herding": lambda: herding(arguments.tries),
        "completions": lambda: completions(60),
        "weights": lambda: weights(arguments.tries),
        "memory": lambda: memory(arguments.samples),
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*parts, []])
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--samples", type=int, default=100_000)
    arguments = parser.parse_args()
    for part in arguments.part or parts:
        print(f"\n{part}")
        parts[part]()


if __name__ == "__main__":
    main()
