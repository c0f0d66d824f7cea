"""How often tests reject what is true and what is not, and intervals hold it; errors of weights."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from itertools import product
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from joblib import Parallel, delayed
from scipy.special import softmax
from threadpoolctl import threadpool_limits

import expectedkernels as ek
from benchmarks.timing import cross, incomplete, literature, neighbours, show, states

N_NULL = 19
"""With 19 simulated samples a p-value of at most 5 % means the largest statistic of twenty."""
BATCH = 25
"""How many repetitions have one generator of random numbers."""
STAY, CHANGE = 0.5, 0.05
"""How often a chain stays where it is, and how often the signs of its samples change."""
SPREAD = {"SACHS": 0.5, "EARTHQUAKE": 0.8, "rare bits": 2.0, "chain of 30": 0.6}
"""How far alternatives are: their tables are multiplied by exp(spread times normal numbers)."""

FORMS = ("circuit", "graph", "function")


def rare_bits() -> Any:
    """Five bits that are one once in a thousand times."""
    return ek.FactorGraph([2] * 5, [([v], [0.999, 0.001]) for v in range(5)])


def chain(n: int, seed: int) -> Any:
    """Bits in a row, with a random table on every edge."""
    rng = np.random.default_rng(seed)
    tables = [([v, v + 1], np.exp(rng.normal(size=(2, 2)))) for v in range(n - 1)]
    return ek.FactorGraph([2] * n, tables)


def grid(coupling: float) -> Any:
    """Five by five bits whose neighbours attract or repel each other."""
    rng = np.random.default_rng(1)
    signs = [(pair, coupling * rng.choice([-1.0, 1.0])) for pair in neighbours(5)]
    return ek.FactorGraph([2] * 25, [(pair, np.exp([[c, -c], [-c, c]])) for pair, c in signs])


MODELS: dict[str, Callable[[], Any]] = {
    "SACHS": partial(literature, "sachs"),
    "EARTHQUAKE": partial(literature, "earthquake"),
    "rare bits": rare_bits,
    "chain of 30": partial(chain, 30, 0),
    "weak grid": partial(grid, 0.3),
    "strong grid": partial(grid, 1.5),
}

TREES = ("rare bits", "chain of 30")
"""The models that trees can represent."""
LARGE = ("chain of 30", "weak grid", "strong grid")
"""Those with more than 2**18 states."""
SIZES = [40, 100]


def changed(graph: Any, spread: float) -> Any:
    """A model whose tables differ at random from those of another."""
    rng = np.random.default_rng(2)
    tables = [f.table * np.exp(spread * rng.normal(size=f.table.shape)) for f in graph.factors]
    scopes = [f.scope for f in graph.factors]
    return ek.FactorGraph(graph.cardinalities, list(zip(scopes, tables, strict=True)))


class Ground(NamedTuple):
    """A model in all forms, one that differs from it, and the tree that is closest to it."""

    forms: dict[str, Any]
    other: Any
    tree: Any

    def sample(self, power: bool, n: int, rng: Any) -> Any:
        """Samples of the model, or, to see that tests notice it, of the other one."""
        return (self.other if power else self.forms["circuit"]).sample(n, rng)


@lru_cache(maxsize=len(MODELS))
def ground_of(name: str) -> Ground:
    """One of the models; raises ImportError if it is that of a library which is not there."""
    graph = MODELS[name]()
    circuit, other = graph.circuit(), changed(graph, SPREAD.get(name, 0.35)).circuit()
    function = ek.Target(graph.log_score, graph.cardinalities)
    tree = ek.learn_chow_liu(circuit.sample(2000, 4), cardinalities=list(graph.cardinalities))
    return Ground(dict(zip(FORMS, (circuit, graph, function), strict=True)), other, tree)


def of_samples(test: Any, g: Ground, form: str, n: int, power: bool, rng: Any, **how: Any) -> Any:
    """A test of independent samples."""
    return test(g.sample(power, n, rng), g.forms[form], n_null=N_NULL, rng=rng, **how)


def of_two(g: Ground, form: str, n: int, power: bool, rng: Any, **how: Any) -> Any:
    """The test against as many samples of the model."""
    X, Y = g.sample(power, n, rng), g.forms[form].sample(n, rng)
    return ek.mmd_two_sample_test(X, Y, n_null=N_NULL, rng=rng, **how)


def of_fitted(test: Any, g: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A test of a tree that was fitted to the samples, of a tree or of the model."""
    X = (g.forms[form] if power else g.tree).sample(n, rng)
    refit = partial(ek.learn_chow_liu, cardinalities=list(g.tree.cardinalities))
    return test(X, refit(X), refit=refit, n_null=N_NULL, rng=rng)


def of_chain(g: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A test of a chain that stays in its place at times, and else moves anywhere."""
    fresh = rng.random(n) >= STAY
    fresh[0] = True
    X = g.sample(power, int(fresh.sum()), rng)[np.cumsum(fresh) - 1]
    return ek.kdsd_test(X, g.forms[form], change=CHANGE, n_null=N_NULL, rng=rng)


def of_models(g: Ground, form: str, n: int, power: bool, rng: Any) -> Any:
    """A comparison of two models with samples of both, or, to see which it is, of the first."""
    X = g.forms[form].sample(n, rng)
    if not power:
        X = np.where(rng.random((n, 1)) < 0.5, X, g.other.sample(n, rng))
    return ek.mmd_compare(g.forms[form], g.other, X)


TESTS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "kdsd": (partial(of_samples, ek.kdsd_test), FORMS),
    "mmd": (partial(of_samples, ek.mmd_test), FORMS),
    "two-sample": (of_two, FORMS[:1]),
    "kdsd aggregate": (partial(of_samples, ek.kdsd_test, k="aggregate"), FORMS[:1]),
    "mmd aggregate": (partial(of_samples, ek.mmd_test, k="aggregate"), FORMS[:1]),
    "two-sample aggregate": (partial(of_two, k="aggregate"), FORMS[:1]),
    "kdsd refit": (partial(of_fitted, ek.kdsd_test), FORMS[:1]),
    "mmd refit": (partial(of_fitted, ek.mmd_test), FORMS[:1]),
    "kdsd signs": (partial(of_samples, ek.kdsd_test, null="signs"), FORMS),
    "kdsd change": (of_chain, FORMS[:1]),
    "compare": (of_models, FORMS[:1]),
}


COLUMNS = ("model", "test", "form", "n", "power", "rejected", "refused", "seconds", "drawn")


@threadpool_limits.wrap(limits=1)
def rejections(cell: tuple[Any, ...], repeats: int) -> tuple[str, ...]:
    """How often a test rejected at 5 %, and how often it did not judge, in how many seconds."""
    model, name, *rest = cell
    ground, test, found, drawn, refused = ground_of(model), TESTS[name][0], [], "", 0
    rng, began = None, time.perf_counter()
    for i in range(repeats):
        if i % BATCH == 0:
            rng = np.random.default_rng([crc32(repr(cell).encode()), i // BATCH])
        try:
            result = test(ground, *rest, rng)
        except ek.DataError:  # signs that cannot tell, and differences without an error
            refused += 1
            continue
        found.append(result.p_value <= 0.05)
        drawn = getattr(result, "drawn", "")
    shares = [f"{100 * x / repeats:.1f} %" for x in (sum(found), refused)]
    ms = 1e3 * (time.perf_counter() - began) / repeats
    return *map(str, cell), *shares, f"{ms:.0f} ms", drawn


def levels(
    repeats: int = 400,
    n: list[int] = SIZES,
    tests: list[str] = (),
    models: list[str] = (),
    power: bool = False,
    jobs: int = 1,
) -> None:
    """How often tests reject what is true, or (--power) what is not."""
    cells = [
        (model, test, form, size, power)
        for model, test, size in product(models or MODELS, tests or TESTS, n)
        for form in TESTS[test][1]
        if not (power and "refit" in test and model in TREES)  # trees fit
        and not (test == "mmd" and form == "function" and model in LARGE)  # no embedding
    ]
    lines = Parallel(jobs)(delayed(rejections)(cell, repeats) for cell in cells)
    title = f"{'rejected' if power else 'level'} at 5 %, {repeats} repetitions"
    show(title, lines, COLUMNS)


BIT = 0.3
"""The probability that a bit of the model is one."""
KERNELS = (ek.ExpHamming(), ek.ExpHamming(0.02), ek.ExpHamming(2.0), ek.Delta())
ROWS, DIMENSIONS, DISTANCES = [30, 100, 1000], [1, 5, 12], [0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0]
HEADS = ("kernel", "bits", "n", "errors away", "bits moved", "%", "low", "high", "length")


@threadpool_limits.wrap(limits=1)
def shares(
    k: Any, bits: int, n: int, distance: float, moved: int, repeats: int, share: float
) -> tuple[float, ...]:
    """Percent of intervals, lower and upper ends that are right, and the median length.

    Samples come from bits of which some have another probability, so many standard errors away. The
    length is that on the scale of the discrepancy, in terms of its error.
    """
    other = min(0.97, BIT + distance / np.sqrt(n * moved) * np.sqrt(BIT * (1 - BIT)))
    same, away = [[1 - BIT, BIT]], [[1 - other, other]]
    p, q = ek.factorized(same * bits), ek.factorized(away * moved + same * (bits - moved))
    rng, found, scale, rounding = np.random.default_rng(0), [], 0.0, 1e-12
    for _ in range(repeats):
        test = ek.mmd_test(q.sample(n, rng), p, k, n_null=N_NULL, rng=rng)
        found.append(test.interval(share))
        scale += test.sampling_error.variance**0.25 / repeats
    truth, ends = float(ek.mmd2(p, q, k)), np.array(found)
    low, high = ends[:, 0] <= truth + rounding, ends[:, 1] >= truth - rounding
    length = float(np.median(np.diff(np.sqrt(ends), axis=1))) / scale
    return 100 * np.mean(low & high), 100 * np.mean(low), 100 * np.mean(high), length


def coverage(
    repeats: int = 200,
    share: float = 0.95,
    n: list[int] = ROWS,
    dimensions: list[int] = DIMENSIONS,
    distances: list[float] = DISTANCES,
    jobs: int = 1,
) -> None:
    """How often intervals of discrepancies, of which this share should, hold the truth."""
    cells = product(KERNELS, dimensions, n, distances)
    cases = [(*x, moved) for x in cells for moved in sorted({1, x[1]} if x[3] > 0 else {1})]
    found = Parallel(jobs)(delayed(shares)(*case, repeats, share) for case in cases)
    text = [(*(f"{x:.1f}" for x in right), f"{length:.2f}") for *right, length in found]
    lines = [case + cells for case, cells in zip(cases, text, strict=True)]
    show(f"Intervals of {100 * share:g} %, {repeats} repetitions", lines, HEADS)


LEVELS, POWERS, SAMPLES, TRIES = 1000, 200, 100, 3
MEANS = np.array([[-1.5, 0.0], [1.5, 1.0], [0.5, -2.0]])
WEIGHTS, OTHER_WEIGHTS = (0.5, 0.3, 0.2), (0.35, 0.45, 0.2)
VARIANCE = 0.5


def rejected(p_value: Callable[[Any], float], repeats: int, seed: Any) -> tuple[float, float]:
    """The share of p-values of at most 5 %, and milliseconds of a repetition."""
    rng, began = np.random.default_rng(seed), time.perf_counter()
    share = float(np.mean([p_value(rng) <= 0.05 for _ in range(repeats)]))
    return share, 1e3 * (time.perf_counter() - began) / repeats


def normals(weights: Any = WEIGHTS, variance: float = VARIANCE) -> Any:
    """A mixture of three normals in two dimensions, as a circuit."""
    return ek.gaussian_mixture(weights, MEANS, np.full((3, 2), variance))


def score(X: Any) -> Any:
    """The gradient of its log-density."""
    logs = np.log(WEIGHTS) - 0.5 * ((X[:, None] - MEANS) ** 2).sum(axis=2) / VARIANCE
    return (softmax(logs, axis=1) @ MEANS - X) / VARIANCE


def langevin() -> None:
    """Rejections at 5 % by Langevin chains, by random signs, and by an exact mean embedding."""
    model = normals()
    density = ek.Target(model.log_likelihood, n_variables=2, score=score)
    tests = {
        "chains": lambda X, rng: ek.kdsd_test(X, density, n_null=N_NULL, rng=rng),
        "signs": lambda X, rng: ek.kdsd_test(X, density, null="signs", n_null=N_NULL, rng=rng),
        "mmd_test": lambda X, rng: ek.mmd_test(X, model, n_null=N_NULL, rng=rng),
    }
    sources = {
        "true": lambda n, rng: model.sample(n, rng),
        "shifted by 0.4": lambda n, rng: model.sample(n, rng) + np.array([0.4, 0.0]),
        "other weights": lambda n, rng: normals(OTHER_WEIGHTS).sample(n, rng),
        "variances times 1.5": lambda n, rng: normals(variance=1.5 * VARIANCE).sample(n, rng),
    }

    def cell(case: tuple[Any, int], test: Any) -> str:
        draw, n = case
        repeats = LEVELS if (draw, test) == (sources["true"], tests["chains"]) else POWERS
        share, ms = rejected(lambda rng: test(draw(n, rng), rng).p_value, repeats, n)
        return f"{share:.3f} ({ms:.0f} ms)"

    cases = {f"{name}, n = {n}": (draw, n) for name, draw in sources.items() for n in (30, 100)}
    title = f"Rejected at 5 %, {POWERS} repetitions ({LEVELS} of the level of chains)"
    cross(title, cases, tests, cell)


def rows(n: int, effect: float, rng: Any) -> tuple[Any, Any, Any, Any]:
    """Ternary x, y and z (three columns), and the distributions of z, and of x and y given z.

    The effect is a logit of y = x.
    """
    p_z = rng.dirichlet(np.full(27, 3.0))
    x, y = rng.normal(size=(27, 3)), rng.normal(size=(27, 1, 3)) + effect * np.eye(3)
    p_x, p_y = softmax(x, axis=1), softmax(y, axis=2)
    z = rng.choice(27, size=n, p=p_z)
    x = (rng.random((n, 1)) > np.cumsum(p_x[z], axis=1)).sum(axis=1)
    y = (rng.random((n, 1)) > np.cumsum(p_y[z, x], axis=1)).sum(axis=1)
    Z = np.stack([z // 9, z // 3 % 3, z % 3], axis=1)
    known = p_z, p_x, (p_x[:, :, None] * p_y).sum(axis=1)
    return np.minimum(x, 2), np.minimum(y, 2), Z, known


def truth(known: Any) -> Callable[[Any, Any], Any]:
    """A density that knows the distributions: that of x for the first call, then that of y."""
    made = iter(known[1:])

    def density(X: Any, cardinalities: Any) -> Any:
        joint = (known[0][:, None] * next(made)).T.reshape(3, 3, 3, 3)
        return ek.FactorGraph([3] * 4, [(range(4), joint)]).circuit()

    return density


def p_value(method: str, n: int, effect: float, rng: Any) -> float:
    x, y, Z, known = rows(n, effect, rng)
    if method == "causal-learn KCI":
        kci = import_module("causallearn.utils.cit").CIT
        return float(kci(np.column_stack([x, y, Z]).astype(float), "kci")(0, 1, [2, 3, 4]))
    density: Any = {
        "true distributions": truth(known),
        "mixture of 8": ("mixture", 8),
        "single tree": lambda X, cards: ek.learn_chow_liu(X, cardinalities=cards),
    }[method.removesuffix(", 20 % missing")]
    Z = incomplete(Z, 0.2, rng) if method.endswith("missing") else Z
    return ek.independence_test(x, y, Z, density=density, n_null=99, rng=rng).p_value


def independence() -> None:
    """Rejections at 5 % with true, learned and too simple densities, and with missing values."""
    lines = []
    cases = [
        ("true distributions", 300, 400),
        ("mixture of 8", 300, LEVELS),
        ("mixture of 8", 1000, LEVELS),
        ("mixture of 8, 20 % missing", 300, 400),
        ("single tree", 300, POWERS),
        ("causal-learn KCI", 300, 100),
    ]
    for method, n, repeats in cases:
        test, few = partial(p_value, method, n), min(POWERS, repeats)
        try:
            level, ms = rejected(partial(test, 0.0), repeats, [n, 0])
        except ImportError:
            continue
        powers = [rejected(partial(test, x), few, [n, int(10 * x)])[0] for x in (0.5, 1.0)]
        cells = (f"{level:.3f} ({repeats})", *(f"{power:.2f}" for power in powers))
        lines.append((method, n, *cells, f"{ms:.0f}"))
    title = "Rejected at 5 %: x and y given three ternary columns, with all interactions"
    show(title, lines, ("", "n", "independent", "logit 0.5", "logit 1", "ms"))


def chosen_kernels() -> None:
    """Kernels chosen by half of the samples from a list, and by gradients, tested by the rest."""
    fair = ek.factorized([[0.5, 0.5]] * 8)
    parts = [ek.factorized([[x, 1 - x]] * 2 + [[0.5, 0.5]] * 6) for x in (0.02, 0.98)]
    bits = ek.mixture([fair, *parts], [0.2, 0.4, 0.4])
    p, q = (ek.random_circuit(ek.Vtree.balanced(6), 2, rng=seed) for seed in (0, 1))
    cases = {"two of 8 bits depend": (fair, bits), "mixture": (p, ek.mixture([p, q], [0.4, 0.6]))}
    lines = []
    for name, (model, source) in cases.items():
        n = model.n_variables
        kernels = [ek.ExpHamming(np.full(n, scale / n)) for scale in (0.5, 1.0, 2.0, 4.0, 8.0)]
        best = max(_rejected(model, source, lambda X, k=k: k) for k in kernels)
        for method in ("list", "gradient"):
            choose = partial(ek.choose_kernel, other=model, kernels=kernels, method=method)
            found = _rejected(model, source, choose), best, _rejected(model, model, choose)
            lines.append((f"{name}, {method}", *(f"{share:.1%}" for share in found)))
    heads = ("", "chosen kernel", "best of the list", "level")
    show(f"rejected at 5 %, {SAMPLES} samples, {POWERS} repetitions", lines, heads)


def _rejected(model: ek.Circuit, source: ek.Circuit, choose: Callable[[Any], Any]) -> float:
    found, half = [], SAMPLES // 2
    for seed in range(POWERS):
        X = source.sample(SAMPLES, rng=1000 + seed)
        test = ek.mmd_test(X[half:], model, choose(X[:half]), n_null=99, rng=seed)
        found.append(test.p_value <= 0.05)
    return float(np.mean(found))


def weights() -> None:
    """Where default weights lose: several modes, right marginals, good proposals and many samples.

    Logs of mean Hellinger distances of single marginals (and of pairs, for the default and equal
    weights), with importance weights and weights shrunk to these where the proposal is known.
    """
    rows = []
    for name, model in _targets().items():
        proposals = {
            "the model itself": model.circuit(),
            "right marginals": ek.factorized(list(model.marginals())),
            "learned circuit": ek.learn_chow_liu(model.sample(300, rng=99)),
        }
        for proposal, p in proposals.items():
            for n in (200, 600):
                found = np.mean([_errors(model, p, n, seed) for seed in range(TRIES)], axis=0)
                rows.append((f"{name}, {proposal}", n, *(f"{value:.2f}" for value in found)))
    names = ("equal", "importance", "default", "shrunk", "pairs: equal", "pairs: default")
    show(f"Logs of errors of weighted samples, {TRIES} tries", rows, ("", "N", *names))


def _targets() -> dict[str, Any]:
    """Small targets without zeros; their marginals are known exactly."""
    glued = np.exp([[0.5, -0.5], [-0.5, 0.5]])
    magnet = ek.FactorGraph([2] * 16, [(pair, glued) for pair in neighbours(4)])
    small = ek.ising_grid(4, 4, rng=1)
    return {"chain of 15": chain(15, 5), "4x4 grid": small, "ferromagnet": magnet}


def _errors(model: Any, proposal: Any, n: int, seed: int) -> list[float]:
    X = proposal.sample(n, rng=seed)
    logs = model.log_score(X) - proposal.log_likelihood(X)
    default, shrunk = (ek.bbis(model, X, log_weights=w).weights for w in (None, logs))
    every = states(X.shape[1])
    chances = np.exp(model.circuit().log_likelihood(every))
    exact, both = chances @ every, every.T @ (chances[:, None] * every)

    def single(w: Any) -> float:
        found = np.average(X, axis=0, weights=w)
        square = 1.0 - np.sqrt(found * exact) - np.sqrt((1.0 - found) * (1.0 - exact))
        return float(np.log(np.mean(np.sqrt(np.maximum(square, 0.0)))))

    def pairs(w: Any) -> float:
        error = np.abs(X.T @ (w[:, None] * X) - both)[np.triu_indices(X.shape[1], 1)]
        return float(np.log(error.mean()))

    equal = np.full(n, 1.0 / n)
    four = [single(w) for w in (equal, np.exp(logs - logs.max()), default, shrunk)]
    return [*four, pairs(equal), pairs(default)]


MINUTES = [langevin, independence, chosen_kernels, weights]
HOURS = [levels, coverage]
