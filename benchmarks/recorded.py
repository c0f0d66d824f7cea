"""Results of some 300 calls of public names, compared between two commits in one run.

    python -m benchmarks.recorded [BASE [OTHER]]     # by default fbb9c2e, and the working tree

Closed forms must agree to 1e-10 of their size, iterative fits to 1e-6, samples, states and labels
exactly. A call that fails is recorded with its error.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

import expectedkernels as ek
from benchmarks.timing import BASE, incomplete, literature, run, source

K = ek.ExpHamming()
TOLERANCES = {"closed": 1e-10, "fit": 1e-6, "exact": 0.0}
NETWORKS = ("cancer", "earthquake", "survey", "sachs", "child", "alarm", "insurance")


def circuits():
    """Circuits of different kinds over the same eight variables, on one vtree."""
    rng, cards = np.random.default_rng(0), [2, 3, 2, 4, 2, 3, 2, 2]
    vtree = ek.Vtree.random(8, rng)
    dense = ek.random_circuit(vtree, 4, rng, cards)
    sparse = ek.random_circuit(vtree, 6, rng, cards, density=0.4)
    product = ek.factorized([rng.dirichlet(np.ones(c)) for c in cards], vtree)
    mixed = ek.mixture([sparse, product])
    return {"dense": dense, "sparse": sparse, "product": product, "mixed": mixed}


def rows(p, n, seed, missing=0.0):
    return incomplete(p.sample(n, rng=seed), missing, seed)


def kernels():
    both = 0.5 * ek.RBF(0.1) + ek.Delta() * ek.ExpHamming(0.2)
    return {"rbf": ek.RBF(0.3), "laplacian": ek.Laplacian(0.2), "hamming": K, "sum": both}


def circuit_queries():
    for name, p in circuits().items():
        E, X = rows(p, 5, 1, 0.5), rows(p, 9, 5)
        for n in (1, 5, 40, 150):
            yield f"{name} likelihood {n}", partial(p.log_likelihood, rows(p, n, n, 0.3))
        yield f"{name} partition", lambda p=p: np.exp(p.log_partition())
        yield f"{name} marginals", p.marginals
        yield f"{name} marginals of rows", partial(p.marginals, E)
        yield f"{name} condition", lambda p=p, E=E, X=X: p.condition(E[0]).log_likelihood(X)
        yield f"{name} conditionals", partial(p.site_logs, rows(p, 6, 7), 3)
        yield f"{name} shift", lambda p=p, X=X: ek.algebra.shift(p, 1).log_likelihood(X)
        yield f"{name} square", lambda p=p: ek.algebra.square(p).log_partition()
        yield f"{name} marginalize", ek.algebra.marginalize(p, [0, 4]).marginals
    p = circuits()["product"]
    yield "entropy", partial(ek.divergences.entropy, p)
    yield "power", lambda: ek.algebra.power(p, 0.7).log_likelihood(rows(p, 9, 5))
    long = ek.hmm([0.6, 0.4], [[0.9, 0.1], [0.3, 0.7]], [[0.99, 0.01], [0.2, 0.8]], 3000)
    yield "long chain", partial(long.log_likelihood, np.ones((2, 3000)))
    yield "long chain pair", partial(ek.expected_kernel, long, long, ek.RBF(0.5), log=True)
    means, variances = [[0.0, 1.0, 2.0], [2.0, 3.0, -1.0]], [[1.0, 1.0, 0.5], [2.0, 1.0, 3.0]]
    normals = ek.gaussian_mixture([0.4, 0.6], means, variances)
    X = np.array([[0.1, np.nan, 2.0], [40.0, 1.0, -60.0], [np.nan] * 3])
    yield "normals likelihood", partial(normals.log_likelihood, X)
    kernel = partial(ek.expected_kernel, normals, k=ek.RBF(0.2))
    yield "normals pair", partial(kernel, normals)
    yield "normals points", partial(kernel, np.ones((2, 3)))
    yield "normals evidence", partial(kernel, np.ones((2, 3)), evidence_p=X)


def circuit_samples():
    for name, p in circuits().items():
        yield f"{name} sample", partial(p.sample, 20, rng=3)
        E = rows(p, 5, 1, 0.5)
        yield f"{name} sample given rows", partial(p.sample, 4, rng=3, evidence=E)
    dense = circuits()["dense"]
    yield "map", partial(ek.learn_chow_liu(rows(dense, 200, 1)).map, rows(dense, 9, 4, 0.5))


def pairs():
    found = circuits()
    names = list(found)
    for a, b in zip(names, [*names[1:], names[0]], strict=True):
        p, q = found[a], found[b]
        both = {"evidence_p": rows(p, 6, 2, 0.5), "evidence_q": rows(q, 5, 3, 0.5)}
        for name, k in kernels().items():
            kernel = partial(ek.expected_kernel, p, k=k)
            yield f"{a} {b} {name}", partial(kernel, q)
            yield f"{a} {b} {name} log", partial(kernel, q, log=True)
            yield f"{a} points {name}", partial(kernel, rows(q, 7, 1))
            yield f"{a} {b} {name} evidence", partial(kernel, q, **both)
            yield f"{a} {b} {name} mmd", partial(ek.mmd2, p, q, k)
        kernel = partial(ek.expected_kernel, p, rows(q, 9, 4), ek.RBF(0.3))
        points, groups = np.unique(rows(p, 8, 3), axis=0), [{0: 0}, {0: 1}]
        yield f"{a} {b} witness", partial(ek.witness, p, q, K, rows(p, 5, 1))
        yield f"{a} {b} product", lambda p=p, q=q: ek.algebra.multiply(p, q).log_partition()
        yield f"{a} evidence points", partial(kernel, evidence_p=rows(p, 20, 2, 0.5))
        yield f"{a} herd", lambda p=p: ek.herd(p, 5, rng=0).mmd
        yield f"{a} quadrature", partial(ek.quadrature, p, points)
        yield f"{a} groups", lambda p=p, g=groups: ek.group_discrepancies(p, g, K).mmd2
        yield f"{a} {b} ignoring", partial(ek.monitoring.ignoring, p, q)
        yield f"{a} {b} shapley", partial(ek.monitoring.shapley_account, p, q)


def networks():
    for name in NETWORKS:
        model = literature(name)
        E = np.full(model.n_variables, np.nan)
        E[-1] = 0
        circuit = model.compile()[0]
        X = circuit.sample(6, rng=0)
        yield f"{name} marginals", model.marginals
        yield f"{name} posterior", partial(model.marginals, E)
        yield f"{name} likelihood", partial(model.log_likelihood, X)
        yield f"{name} partition", lambda m=model: np.exp(m.log_partition())
        yield f"{name} expected kernel", partial(ek.expected_kernel, circuit, X, ek.RBF(0.1))
        yield f"{name} samples", lambda X=X: X


def grids():
    """A grid, its circuit, and another one on the same vtree."""
    grid = ek.ising_grid(3, 3, rng=0)
    circuit = grid.compile()[0]
    return grid, circuit, ek.ising_grid(3, 3, rng=2).compile(circuit.vtree)[0]


def models():
    grid, circuit, other = grids()
    X = ek.gibbs(grid, 40, burn_in=20, rng=0)
    masks = np.random.default_rng(1).random(X.shape) < 0.4
    yield "grid z", lambda: grid.compile()[1]
    yield "grid marginals", circuit.marginals
    yield "grid map", partial(circuit.map, rows(circuit, 6, 1, 0.6))
    yield "grid chain", lambda: X
    yield "collapsed chain", partial(ek.collapsed_gibbs, grid, 9, [0, 3], rng=0)
    yield "asia marginals", partial(ek.asia().compile()[0].marginals, {0: 1})
    for operator in ("shift", "gibbs"):
        stein = ek.CollapsedSteinKernel(circuit, operator=operator)
        yield f"stein {operator}", partial(ek.SteinKernel(grid, K, operator=operator), X)
        yield f"collapsed stein {operator}", partial(stein, np.where(masks, np.nan, X)[:9])
    cbbis = partial(ek.collapsed_bbis, grid, X, masks)
    for rule in ("default", "raw", "smoothed", "uniform"):
        yield f"bbis {rule}", partial(ek.bbis, grid, X, weights=rule)
        yield f"cbbis {rule}", partial(cbbis, weights=rule)
    yield "bbis function", partial(ek.bbis, ek.Target(grid.log_score, [2] * 9), X)
    yield "bbis discrepancy", lambda: ek.bbis(grid, X).discrepancy
    yield "cbbis marginals", lambda: cbbis().marginals()
    cis = partial(ek.cis, grid, 30, 4, rng=0, progress=False)
    yield "cis", lambda: cis().rows
    yield "cis weights", cis
    yield "kdsd", partial(ek.kdsd, other, circuit, K)
    yield "kdsd of points", partial(ek.kdsd, X, grid, K)
    yield "thinned", partial(ek.stein_thin, grid, X, 7)
    yield "collapsed thinned", partial(ek.stein_thin, grid, X, 7, collapsed=masks)
    gram = ek.SteinKernel(grid)(X)
    yield "simplex weights", partial(ek.simplex_weights, gram)
    yield "signed weights", partial(ek.stein.signed_weights, gram)
    yield "smoothed weights", partial(ek.stein.smoothed_weights, np.full(5, 0.2))
    yield "log z estimate", lambda: ek.log_partition_estimate(grid, X, rng=0).log_z


def hypothesis_tests():
    grid, circuit, other = grids()
    X, Y, k = circuit.sample(60, rng=0), other.sample(50, rng=1), ek.ExpHamming(0.2)
    for name, target in (("graph", grid), ("circuit", circuit)):
        yield f"kdsd test {name}", partial(ek.kdsd_test, X, target, n_null=49, rng=0)
        yield f"mmd test {name}", partial(ek.mmd_test, Y, target, n_null=49, rng=0)
    function = ek.Target(grid.log_score, [2] * 9)
    yield "kdsd test function", partial(ek.kdsd_test, X, function, n_null=19, rng=0)
    for what in (k, "aggregate"):
        yield f"two samples {what}", partial(ek.mmd_two_sample_test, X, Y, what, n_null=49, rng=0)
    yield "compare", partial(ek.mmd_compare, circuit, other, Y, k)
    drift = partial(ek.drift, X, Y, k, rng=0)
    yield "drift", lambda: (lambda d: [d.mmd2, d.p_value])(drift())
    yield "drift parts", lambda: drift().ignoring
    yield "monitor", lambda: ek.monitoring.monitor([X, Y, X[:30]], k).mmd2


def learners():
    rng = np.random.default_rng(5)
    data = rng.integers(3, size=(300, 5))
    data[:, 1] = np.where(rng.random(300) < 0.7, data[:, 0], data[:, 1])
    gaps, weight = np.where(rng.random(data.shape) < 0.1, np.nan, data), rng.random(300)

    def logs(learn, *arguments, rows=data, **options):
        return lambda: learn(*arguments, **options).log_likelihood(rows)

    hidden = {"epochs": 4, "rng": 0, "progress": False}
    for name, X in (("complete", data), ("incomplete", gaps)):
        yield f"tree {name}", logs(ek.learn_chow_liu, X)
        yield f"weighted tree {name}", logs(ek.learn_chow_liu, X, sample_weight=weight)
        yield f"strudel {name}", logs(ek.learn_strudel, X, iterations=8, progress=False)
        yield f"mixture {name}", logs(ek.learn_mixture, X, 2, splits=4, rng=0, progress=False)
        yield f"hclt {name}", logs(ek.learn_hclt, X, 3, batch_size=None, **hidden)
        yield f"hclt batches {name}", logs(ek.learn_hclt, X, 3, batch_size=50, **hidden)
    for name, p in circuits().items():
        X = rows(p, 30, 2, 0.2)
        yield f"{name} em", logs(ek.em, p, X, 2, progress=False, rows=rows(p, 9, 5))
    p = circuits()["dense"]
    some = {"steps": 5, "progress": False, "rows": rows(p, 9, 5)}
    yield "fit mmd", logs(ek.fit_mmd, p, rows(p, 50, 8), K, **some)


def table():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 4))
    X[:, 1] += X[:, 0]
    X[:, 3] = rng.integers(3, size=80)
    y, labels = X[:, 0] + np.sin(X[:, 1]), (X[:, 2] > 0).astype(int)
    test = np.where(rng.random((12, 4)) < 0.4, np.nan, X[:12])
    train = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    return X, train, y, labels, test


DENSITIES = ("chow_liu", "gaussian", "kernel", "gaussian_mixture", "mixture")


def estimators():
    complete, gaps, y, labels, test = table()
    values = {"alpha": 0.5, "gamma": 0.2}
    for density in DENSITIES:
        options = {"density": density, "random_state": 0}
        for name, train in (("complete", complete), ("incomplete", gaps)):
            ridge = ek.ExpectedKernelRidge(**values, **options).fit(train, y)
            svr = ek.ExpectedSVR(tol=1e-10, **options)
            yield f"ridge {density} {name}", partial(ridge.predict, test)
            std = lambda m=ridge: m.predict(test[:4], return_std=True)[1]  # noqa: E731
            yield f"ridge std {density} {name}", std
            yield f"svr {density} {name}", lambda m=svr, t=train: m.fit(t, y).predict(test)
        svc = ek.ExpectedSVC(tol=1e-10, **options).fit(complete, labels)
        yield f"svc {density}", partial(svc.decision_function, test)
        classifier = ek.ExpectedKernelClassifier(**values, **options).fit(complete, labels)
        yield f"classifier {density}", partial(classifier.predict_proba, test)
        process = ek.ExpectedGaussianProcessRegressor(alpha=0.1, optimizer=None, **options)
        yield f"process {density}", partial(process.fit(complete, y).predict, test, return_std=True)
    for density in ("chow_liu", "gaussian"):
        options = {"density": density, "random_state": 0}
        ridge = ek.ExpectedKernelRidge(**values, **options).fit(complete, y)
        yield f"interval {density}", partial(ridge.predict_interval, test)
        yield f"quantiles {density}", partial(ridge.predict_quantiles, test, [0.1, 0.5])
        yield f"shapley {density}", lambda m=ridge: ek.shapley_values(m, test[:3]).values
        yield f"gain {density}", partial(ek.acquisition_gain, ridge, test[:3])
        imputer = ek.CircuitImputer(strategy="mean", density=density)
        for m in (imputer, ek.ExpectedKernelFeatures(9, **options)):
            yield f"{type(m).__name__} {density}", lambda m=m: m.fit(complete).transform(test)
    ridge = partial(ek.ExpectedKernelRidge, density="gaussian")
    yield "chosen alpha", lambda: ridge(alpha="auto").fit(complete, y).predict(test)
    masked = ridge(**values, mask_kernel=0.3)
    yield "mask kernel", lambda: masked.fit(gaps, y).predict(test)
    p = ek.gaussian_mixture([0.5, 0.5], [[0.0] * 4, [1.0] * 4], [[1.0] * 4, [2.0] * 4])
    model = lambda X: np.sin(X).sum(axis=1)  # noqa: E731
    yield "any model", partial(ek.expected_prediction, model, p, test, n_completions=6)


def frames():
    import pandas as pd

    rng = np.random.default_rng(3)
    colour, size = rng.choice(["red", "green", None], 60), rng.choice(["S", "M", "L"], 60)
    frame = pd.DataFrame({"colour": colour, "size": size, "flag": rng.random(60) < 0.5})
    p = ek.learn_chow_liu(frame)
    yield "frame likelihood", partial(p.log_likelihood, frame)
    yield "frame marginals", partial(p.marginals, {"size": "M"})
    yield "frame mmd", partial(ek.mmd2, frame[:30].dropna(), frame[30:].dropna())
    mixed = frame.assign(x=rng.normal(size=60))
    model = ek.ExpectedKernelRidge(alpha=0.5, gamma=0.2, density="gaussian").fit(mixed, mixed.x)
    yield "frame predictions", partial(model.predict, mixed.assign(x=np.nan))


def files():
    tree = ek.learn_chow_liu(np.random.default_rng(1).integers(2, size=(90, 5)))
    formats = {
        "npz": (tree, ek.save, ek.load),
        "psdd": (tree, ek.write_psdd, ek.read_psdd),
        "jpc": (tree, ek.write_jpc, ek.read_jpc),
        "spn": (tree, ek.io.write_spn, ek.io.read_spn),
        "uai": (ek.ising_grid(2, 2, rng=0), ek.write_uai, ek.read_uai),
        "bif": (ek.asia(), ek.io.write_bif, ek.read_bif),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, write, read) in formats.items():
            suffixes = (name, "vtree") if name in ("psdd", "jpc") else (name,)
            paths = [Path(folder, f"{name}.{suffix}") for suffix in suffixes]
            write(model, *paths)
            yield name, read(*paths).marginals
            for path in paths if name != "npz" else ():
                yield f"text of {path.name}", lambda x=path: np.frombuffer(x.read_bytes(), np.uint8)


GROUPS = {"fit": (learners, estimators), "exact": (circuit_samples, files)}
GROUPS["closed"] = (circuit_queries, pairs, networks, models, hypothesis_tests, frames)
ATTRIBUTES = (["statistic", "p_value"], ["difference", "standard_error", "p_value"], ["weights"])


def numbers(found):
    """An array of what a call returns: of several arrays, one after the other."""
    if isinstance(found, list | tuple):
        return np.concatenate([np.ravel(numbers(x)) for x in found])
    for names in ATTRIBUTES:
        if all(hasattr(found, name) for name in names):
            return numbers([getattr(found, name) for name in names])
    return np.asarray(found, dtype=np.float64)


def results():
    """The kind, the name and the result of every call: an array, or the text of an error."""
    for kind, groups in GROUPS.items():
        for name, call in chain(*(group() for group in groups)):
            try:
                found = numbers(call())
            except Exception as error:  # what fails in one commit is a difference
                found = np.array(f"{type(error).__name__}: {error}")
            yield f"{kind}/{name}", found


def difference(a, b):
    """The largest difference, relative to the size of the numbers."""
    if a.dtype.kind == "U" or b.dtype.kind == "U":
        return 0.0 if a.dtype == b.dtype and a == b else np.inf
    if a.shape != b.shape or (np.isnan(a) != np.isnan(b)).any():
        return np.inf
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    size = max(1e-300, float(np.abs(a[finite]).max(initial=0.0)))
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / size


def main(arguments):
    if arguments[:1] == ["--write"]:
        warnings.simplefilter("ignore")
        np.savez(arguments[1], **dict(results()))
        return
    commits = [*arguments, *[BASE, "."][len(arguments) :]]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for i, commit in enumerate(commits):
            file = Path(folder, f"{i}.npz")
            with source(commit) as src:
                if run("benchmarks.recorded", src, "--write", str(file)).wait():
                    sys.exit(f"{commit} did not finish")
            with np.load(file) as stored:
                found.append(dict(stored))
    first, second = found
    failed = 0
    for name in first:
        gap = difference(first[name], second[name])
        if not gap <= TOLERANCES[name.split("/")[0]]:
            failed += 1
            texts = [f": {x}" for x in (first[name], second[name]) if x.dtype.kind == "U"]
            print(f"{gap:8.1e}  {name}{''.join(texts)}")
    print(f"{len(first)} results of {commits[0]} and {commits[1]} compared, {failed} differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
