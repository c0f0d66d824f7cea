"""Times of 40 calls of everyday size at two commits, measured in turns in one run.

    python -m benchmarks.timings [BASE [OTHER]]      # by default fbb9c2e, and the working tree

Two processes, one for each commit, answer in turns; the best of seven counts. Everything is done
once with one BLAS thread and once with the default number. The geometric mean of the ratios should
be at most 1.02, and no ratio above 1.15 in two runs.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial

import numpy as np

import expectedkernels as ek
from benchmarks.commits import BASE, run, source
from benchmarks.recorded import rows
from benchmarks.timing import best_of, in_turns, show

ROUNDS = 7
SECONDS = 0.2
"""How long a call is repeated in one round."""


def circuit_calls():
    vtree = ek.Vtree.balanced(32)
    p, q = (ek.random_circuit(vtree, 8, rng=seed) for seed in (0, 1))
    sparse = ek.learn_strudel(p.sample(500, rng=0), iterations=30, progress=False)
    tree = ek.learn_chow_liu(p.sample(500, rng=0))
    X, E, F = rows(p, 200, 2), rows(p, 60, 0, 0.5), rows(q, 60, 1, 0.5)
    k = ek.RBF(0.1)
    yield "likelihood, 1 row", lambda: p.log_likelihood(X[:1])
    yield "likelihood, 200 rows", lambda: p.log_likelihood(X)
    yield "likelihood, strudel", lambda: sparse.log_likelihood(X)
    yield "marginals", lambda: p.marginals()
    yield "marginals, 60 rows", lambda: p.marginals(E)
    yield "sample 200", lambda: p.sample(200, rng=0)
    yield "map, 60 rows", lambda: tree.map(E)
    yield "condition", lambda: p.condition(E[0])
    yield "expected kernel", lambda: ek.expected_kernel(p, q, k)
    yield "expected kernel, points", lambda: ek.expected_kernel(p, X, k)
    yield "expected kernel, evidence and points", lambda: ek.expected_kernel(p, X, k, evidence_p=E)
    yield (
        "expected kernel, evidence on both sides",
        lambda: ek.expected_kernel(p, q, k, evidence_p=E, evidence_q=F),
    )
    yield (
        "expected kernel, strudel, evidence",
        lambda: ek.expected_kernel(sparse, X, k, evidence_p=E),
    )
    yield "mmd2", lambda: ek.mmd2(p, q, k)
    yield "multiply", lambda: ek.algebra.multiply(tree, tree)
    yield "properties", lambda: ek.properties(tree)
    yield "chow_liu", lambda: ek.learn_chow_liu(X)
    yield "em, 5 iterations", lambda: ek.em(p, E, 5, progress=False)
    yield "strudel, 20 iterations", lambda: ek.learn_strudel(X, iterations=20, progress=False)
    yield (
        "hclt, 5 epochs",
        lambda: ek.learn_hclt(X, 8, epochs=5, batch_size=50, rng=0, progress=False),
    )
    yield "herd 20", lambda: ek.herd(p, 20, rng=0)


def model_calls():
    grid = ek.ising_grid(4, 4, rng=0)
    X = ek.gibbs(grid, 200, burn_in=20, rng=0, progress=False)
    masks = np.random.default_rng(1).random(X.shape) < 0.4
    circuit, other = grid.compile()[0], ek.ising_grid(4, 4, rng=1).compile()[0]
    yield "compile grid", lambda: grid.compile()
    yield "compile asia", lambda: ek.asia().compile()
    yield "marginals of a grid", lambda: grid.marginals()
    yield "gibbs 500", lambda: ek.gibbs(grid, 500, rng=0, progress=False)
    yield "cis 20", lambda: ek.cis(grid, 20, 4, rng=0, progress=False)
    yield "bbis", lambda: ek.bbis(grid, X)
    yield "collapsed bbis", lambda: ek.collapsed_bbis(grid, X[:50], masks[:50])
    yield "kdsd of points", lambda: ek.kdsd(X, grid)
    yield "stein thin", lambda: ek.stein_thin(grid, X, 20)
    yield "kdsd test", lambda: ek.kdsd_test(X[:60], grid, n_null=49, rng=0)
    yield "mmd test", lambda: ek.mmd_test(X[:60], circuit, n_null=49, rng=0)
    yield (
        "two-sample test",
        lambda: ek.mmd_two_sample_test(X[:100], X[100:], ek.ExpHamming(0.1), rng=0),
    )
    yield "compare", lambda: ek.mmd_compare(circuit, other, X)


def estimator_calls():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8)) @ rng.normal(size=(8, 8))
    y = np.sin(X[:, 0]) + X[:, 1]
    test = np.where(rng.random((60, 8)) < 0.4, np.nan, X[:60])
    train = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    gaussian = {"alpha": 0.5, "gamma": 0.1, "density": "gaussian"}
    tree = {"alpha": 0.5, "gamma": 0.1, "density": "chow_liu"}
    ridge, by_tree = (ek.ExpectedKernelRidge(**o).fit(X, y) for o in (gaussian, tree))
    yield "ridge fit", lambda: ek.ExpectedKernelRidge(**gaussian).fit(X, y)
    yield "ridge fit, incomplete", lambda: ek.ExpectedKernelRidge(**gaussian).fit(train, y)
    yield "ridge predict", lambda: ridge.predict(test)
    yield "ridge predict, chow_liu", lambda: by_tree.predict(test)
    yield "ridge std", lambda: ridge.predict(test[:20], return_std=True)
    yield "shapley", lambda: ek.shapley_values(ridge, test[:2])


def calls():
    for group in (circuit_calls, model_calls, estimator_calls):
        yield from group()


def serve():
    """Answer with the shortest time of a call, whenever standard input names one."""
    warnings.simplefilter("ignore")
    there = dict(calls())
    for call in there.values():
        call()
    print("|".join(there), flush=True)
    for line in sys.stdin:
        print(best_of(there[line.strip()], 10**9, SECONDS), flush=True)


def ask(process, name):
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def compare(sources, threads):
    """The best times of every call, as (name, seconds in the first, in the second)."""
    processes = [run("benchmarks.timings", src, "--serve", threads=threads) for src in sources]
    names, _ = (process.stdout.readline().strip().split("|") for process in processes)
    pairs = [(name, process) for name in names for process in processes]
    best = in_turns({pair: partial(ask, *pair[::-1]) for pair in pairs}, ROUNDS)
    for process in processes:
        process.stdin.close()
        process.wait()
    return [(name, *(best[name, process] for process in processes)) for name in names]


def main(arguments):
    if arguments == ["--serve"]:
        serve()
        return
    commits = [*arguments, *[BASE, "."][len(arguments) :]]
    with source(commits[0]) as first, source(commits[1]) as second:
        for threads in ("1", None):
            found = compare((first, second), threads)
            shown = [
                (name, f"{1e3 * a:.2f}", f"{1e3 * b:.2f}", f"{b / a:.2f}")
                for name, a, b in sorted(found, key=lambda row: row[1] / row[2])
            ]
            title = f"{threads or 'default'} BLAS thread(s): milliseconds"
            show(title, shown, ("", *commits, "ratio"))
            ratios = np.array([b / a for _, a, b in found])
            mean = float(np.exp(np.log(ratios).mean()))
            print(f"  geometric mean {mean:.3f}, largest {ratios.max():.2f}, {len(found)} calls")


if __name__ == "__main__":
    main(sys.argv[1:])
