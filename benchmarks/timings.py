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
from itertools import chain

import numpy as np

import expectedkernels as ek
from benchmarks.recorded import rows
from benchmarks.timing import BASE, best_of, in_turns, incomplete, run, show, source

ROUNDS = 7
SECONDS = 0.2
"""How long a call is repeated in one round."""


def circuit_calls():
    vtree = ek.Vtree.balanced(32)
    p, q = (ek.random_circuit(vtree, 8, rng=seed) for seed in (0, 1))
    sparse = ek.learn_strudel(p.sample(500, rng=0), iterations=30, progress=False)
    tree = ek.learn_chow_liu(p.sample(500, rng=0))
    X, E, F = rows(p, 200, 2), rows(p, 60, 0, 0.5), rows(q, 60, 1, 0.5)
    kernel, quiet = partial(ek.expected_kernel, k=ek.RBF(0.1)), {"progress": False}
    hidden = {"epochs": 5, "batch_size": 50, "rng": 0, **quiet}
    yield "likelihood, 1 row", partial(p.log_likelihood, X[:1])
    yield "likelihood, 200 rows", partial(p.log_likelihood, X)
    yield "likelihood, strudel", partial(sparse.log_likelihood, X)
    yield "marginals", p.marginals
    yield "marginals, 60 rows", partial(p.marginals, E)
    yield "sample 200", partial(p.sample, 200, rng=0)
    yield "map, 60 rows", partial(tree.map, E)
    yield "condition", partial(p.condition, E[0])
    yield "expected kernel", partial(kernel, p, q)
    yield "expected kernel, points", partial(kernel, p, X)
    yield "expected kernel, evidence and points", partial(kernel, p, X, evidence_p=E)
    both = partial(kernel, p, q, evidence_p=E, evidence_q=F)
    yield "expected kernel, evidence on both sides", both
    yield "expected kernel, strudel, evidence", partial(kernel, sparse, X, evidence_p=E)
    yield "mmd2", partial(ek.mmd2, p, q, ek.RBF(0.1))
    yield "multiply", partial(ek.algebra.multiply, tree, tree)
    yield "properties", partial(ek.properties, tree)
    yield "chow_liu", partial(ek.learn_chow_liu, X)
    yield "em, 5 iterations", partial(ek.em, p, E, 5, **quiet)
    yield "strudel, 20 iterations", partial(ek.learn_strudel, X, iterations=20, **quiet)
    yield "hclt, 5 epochs", partial(ek.learn_hclt, X, 8, **hidden)
    yield "herd 20", partial(ek.herd, p, 20, rng=0)


def model_calls():
    grid, quiet = ek.ising_grid(4, 4, rng=0), {"rng": 0, "progress": False}
    X = ek.gibbs(grid, 200, burn_in=20, **quiet)
    masks = np.random.default_rng(1).random(X.shape) < 0.4
    circuit, other = grid.compile()[0], ek.ising_grid(4, 4, rng=1).compile()[0]
    two = partial(ek.mmd_two_sample_test, X[:100], X[100:], ek.ExpHamming(0.1), rng=0)
    yield "compile grid", grid.compile
    yield "compile asia", lambda: ek.asia().compile()
    yield "marginals of a grid", grid.marginals
    yield "gibbs 500", partial(ek.gibbs, grid, 500, **quiet)
    yield "cis 20", partial(ek.cis, grid, 20, 4, **quiet)
    yield "bbis", partial(ek.bbis, grid, X)
    yield "collapsed bbis", partial(ek.collapsed_bbis, grid, X[:50], masks[:50])
    yield "kdsd of points", partial(ek.kdsd, X, grid)
    yield "stein thin", partial(ek.stein_thin, grid, X, 20)
    yield "kdsd test", partial(ek.kdsd_test, X[:60], grid, n_null=49, rng=0)
    yield "mmd test", partial(ek.mmd_test, X[:60], circuit, n_null=49, rng=0)
    yield "two-sample test", two
    yield "compare", partial(ek.mmd_compare, circuit, other, X)


def estimator_calls():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8)) @ rng.normal(size=(8, 8))
    y = np.sin(X[:, 0]) + X[:, 1]
    test, train = incomplete(X[:60], 0.4, rng), incomplete(X, 0.2, rng)
    gaussian = {"alpha": 0.5, "gamma": 0.1, "density": "gaussian"}
    tree = gaussian | {"density": "chow_liu"}
    ridge, by_tree = (ek.ExpectedKernelRidge(**o).fit(X, y) for o in (gaussian, tree))
    yield "ridge fit", lambda: ek.ExpectedKernelRidge(**gaussian).fit(X, y)
    yield "ridge fit, incomplete", lambda: ek.ExpectedKernelRidge(**gaussian).fit(train, y)
    yield "ridge predict", partial(ridge.predict, test)
    yield "ridge predict, chow_liu", partial(by_tree.predict, test)
    yield "ridge std", partial(ridge.predict, test[:20], return_std=True)
    yield "shapley", partial(ek.shapley_values, ridge, test[:2])


def serve():
    """Answer with the shortest time of a call, whenever standard input names one."""
    warnings.simplefilter("ignore")
    there = dict(chain(circuit_calls(), model_calls(), estimator_calls()))
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
            found = sorted(compare((first, second), threads), key=lambda row: row[1] / row[2])
            ratios = np.array([b / a for _, a, b in found])
            shown = [(x, f"{1e3 * a:.2f}", f"{1e3 * b:.2f}", f"{b / a:.2f}") for x, a, b in found]
            title = f"{threads or 'default'} BLAS thread(s): milliseconds"
            show(title, shown, ("", *commits, "ratio"))
            mean = np.exp(np.log(ratios).mean())
            print(f"  geometric mean {mean:.3f}, largest {ratios.max():.2f}, {len(found)} calls")


if __name__ == "__main__":
    main(sys.argv[1:])
