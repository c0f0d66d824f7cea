"""Answers of some two hundred calls over the public names, written to a file and compared with it.

    python -m benchmarks.recorded write answers.npz      # at one commit
    python -m benchmarks.recorded compare answers.npz    # at another

Numbers must agree to 1e-12 of their size; samples, states and labels to the letter.
"""

import sys
import warnings

import numpy as np

import expectedkernels as ek

TOLERANCE = 1e-12


def circuits():
    """Circuits of different kinds over the same eight variables, on one vtree."""
    rng = np.random.default_rng(0)
    vtree = ek.Vtree.random(8, rng)
    cards = [2, 3, 2, 4, 2, 3, 2, 2]
    dense = ek.random_circuit(vtree, 4, rng, cards)
    thin = ek.random_circuit(vtree, 6, rng, cards, density=0.4)
    tables = [rng.dirichlet(np.ones(c)) for c in cards]
    plain = ek.factorized(tables, vtree)
    return {"dense": dense, "thin": thin, "plain": plain, "mixed": ek.mixture([thin, plain])}


def rows(p, n, seed, holes=0.0):
    rng = np.random.default_rng(seed)
    X = p.sample(n, rng=seed)
    return np.where(rng.random(X.shape) < holes, np.nan, X)


def kernels():
    return {
        "rbf": ek.RBF(0.3),
        "laplacian": ek.Laplacian(0.2),
        "hamming": ek.ExpHamming(),
        "delta": ek.Delta(),
        "sum": 0.5 * ek.RBF(0.1) + ek.Delta() * ek.ExpHamming(0.2),
    }


def questions_of_circuits():
    for name, p in circuits().items():
        E = rows(p, 5, 1, 0.5)
        for n in (1, 5, 33, 40, 150):
            yield f"{name} likelihood {n}", lambda p=p, n=n: p.log_likelihood(rows(p, n, n, 0.3))
        yield f"{name} partition", lambda p=p: np.exp(p.log_partition())
        yield f"{name} marginals", lambda p=p: np.concatenate(p.marginals())
        yield f"{name} marginals of rows", lambda p=p, E=E: np.concatenate(p.marginals(E), axis=1)
        yield f"{name} sample", lambda p=p: p.sample(20, rng=3)
        yield f"{name} sample given rows", lambda p=p, E=E: p.sample(4, rng=3, evidence=E)
        yield f"{name} condition", lambda p=p, E=E: p.condition(E[0]).log_likelihood(rows(p, 9, 5))
        yield f"{name} sites", lambda p=p: p.site_logs(rows(p, 6, 7), 3)
        yield f"{name} shift", lambda p=p: ek.algebra.shift(p, 1).log_likelihood(rows(p, 9, 5))
        yield (
            f"{name} marginal",
            lambda p=p: np.concatenate(ek.algebra.marginalize(p, [0, 4]).marginals()),
        )
        yield (
            f"{name} em",
            lambda p=p: ek.em(p, rows(p, 30, 2, 0.2), 2, progress=False).log_likelihood(
                rows(p, 9, 5)
            ),
        )


def questions_of_pairs():
    found = circuits()
    names = list(found)
    for a, b in zip(names, [*names[1:], names[0]], strict=True):
        p, q = found[a], found[b]
        for name, k in kernels().items():
            yield f"{a} {b} {name}", lambda p=p, q=q, k=k: ek.expected_kernel(p, q, k)
            yield f"{a} {b} {name} log", lambda p=p, q=q, k=k: ek.expected_kernel(p, q, k, log=True)
            yield (
                f"{a} points {name}",
                lambda p=p, q=q, k=k: ek.expected_kernel(p, rows(q, 7, 1), k),
            )
            yield (
                f"{a} {b} {name} evidence",
                lambda p=p, q=q, k=k: ek.expected_kernel(
                    p, q, k, evidence_p=rows(p, 6, 2, 0.5), evidence_q=rows(q, 5, 3, 0.5)
                ),
            )
            yield f"{a} {b} {name} mmd", lambda p=p, q=q, k=k: ek.mmd2(p, q, k)
        yield f"{a} {b} witness", lambda p=p, q=q: ek.witness(p, q, ek.ExpHamming(), rows(p, 5, 1))
        yield f"{a} {b} product", lambda p=p, q=q: ek.algebra.multiply(p, q).log_partition()


def questions_of_models():
    grid, asia = ek.ising_grid(3, 3, rng=0), ek.asia()
    X = ek.gibbs(grid, 40, burn_in=20, rng=0)
    masks = np.random.default_rng(1).random(X.shape) < 0.4
    circuit, log_z = grid.compile()
    yield "grid z", lambda: log_z
    yield "grid marginals", lambda: np.concatenate(circuit.marginals())
    yield "grid map", lambda: circuit.map(rows(circuit, 6, 1, 0.6))
    yield "grid chain", lambda: X
    yield "asia marginals", lambda: np.concatenate(asia.compile()[0].marginals({0: 1}))
    for operator in ("shift", "gibbs"):
        stein = ek.SteinKernel(grid, ek.ExpHamming(), operator=operator)
        yield f"stein {operator}", lambda stein=stein: stein(X)
    for weights in ("default", "raw", "smoothed", "uniform"):
        yield f"bbis {weights}", lambda w=weights: ek.bbis(grid, X, weights=w).weights
        yield (
            f"cbbis {weights}",
            lambda w=weights: ek.collapsed_bbis(grid, X, masks, weights=w).weights,
        )
    yield "cis", lambda: ek.cis(grid, 30, 4, rng=0).rows
    other = ek.ising_grid(3, 3, rng=2).compile(circuit.vtree)[0]
    yield "kdsd", lambda: ek.kdsd(other, circuit, ek.ExpHamming())
    yield "kdsd of points", lambda: ek.kdsd(X, grid, ek.ExpHamming())


def questions_of_learners():
    rng = np.random.default_rng(5)
    data = rng.integers(3, size=(300, 5))
    data[:, 1] = np.where(rng.random(300) < 0.7, data[:, 0], data[:, 1])
    holes = np.where(rng.random(data.shape) < 0.1, np.nan, data)
    for name, X in (("complete", data), ("holes", holes)):
        yield f"tree {name}", lambda X=X: ek.learn_chow_liu(X).log_likelihood(data)
        yield (
            f"strudel {name}",
            lambda X=X: ek.learn_strudel(X, iterations=8, progress=False).log_likelihood(data),
        )
        yield (
            f"mixture {name}",
            lambda X=X: ek.learn_mixture(X, 2, splits=4, rng=0, progress=False).log_likelihood(
                data
            ),
        )


def questions_of_estimators():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 4))
    X[:, 1] += X[:, 0]
    y, labels = X[:, 0] + np.sin(X[:, 1]), (X[:, 2] > 0).astype(int)
    test = np.where(rng.random((30, 4)) < 0.4, np.nan, rng.normal(size=(30, 4)))
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    for name, train in (("complete", X), ("holes", gaps)):
        for kind in (ek.ExpectedSVR, ek.ExpectedKernelRidge):
            yield (
                f"{kind.__name__} {name}",
                lambda kind=kind, train=train: np.stack(
                    kind(standardize=False, density="chow_liu")
                    .fit(train, y)
                    .predict(test, return_std=True)
                ),
            )
        yield (
            f"svc {name}",
            lambda train=train: (
                ek.ExpectedSVC(standardize=False, density="chow_liu")
                .fit(train, labels)
                .decision_function(test)
            ),
        )
        yield (
            f"imputer {name}",
            lambda train=train: ek.CircuitImputer(strategy="mean").fit(train).transform(test),
        )


def answers():
    """The name and the answer of every call, as an array."""
    for group in (
        questions_of_circuits,
        questions_of_pairs,
        questions_of_models,
        questions_of_learners,
        questions_of_estimators,
    ):
        for name, ask in group():
            yield name, np.asarray(ask(), dtype=np.float64)


def difference(now, before):
    """The largest difference, relative to the size of the numbers."""
    if now.shape != before.shape or (np.isnan(now) != np.isnan(before)).any():
        return np.inf
    finite = np.isfinite(before) & np.isfinite(now)
    if not np.array_equal(now[~finite], before[~finite], equal_nan=True):
        return np.inf
    size = max(1e-300, float(np.abs(before[finite]).max(initial=0.0)))
    return float(np.abs(now[finite] - before[finite]).max(initial=0.0)) / size


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
        sys.exit("python -m benchmarks.recorded write|compare FILE")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dict(answers())
    if sys.argv[1] == "write":
        np.savez(sys.argv[2], **found)
        print(f"{len(found)} answers written")
        return
    known = np.load(sys.argv[2])
    worst = {name: difference(found[name], known[name]) for name in known.files}
    for name, value in sorted(worst.items(), key=lambda item: -item[1])[:10]:
        print(f"{value:8.1e}  {name}")
    failed = [name for name, value in worst.items() if not value <= TOLERANCE]
    print(f"{len(worst)} answers compared, {len(failed)} differ by more than {TOLERANCE:g}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
