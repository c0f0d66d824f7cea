"""Other libraries on the same tasks: time, memory and error, on one thread of the CPU.

Every pair of a task and a library has a process of its own; these run in turns. A library that is
not installed, or fails, is named with the reason.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module, metadata
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

import expectedkernels as ek
from benchmarks.timing import THREADS, in_turns, incomplete, peak_memory, states, timed
from expectedkernels.engine.blocks import from_leaves

ROUNDS = 5
OURS, CIRKIT, SPFLOW, SCIKIT = "expectedkernels", "libcirkit", "SPFlow", "scikit-learn"
PACKAGES = (OURS, CIRKIT, "spflow", "pyAgrum", "pgmpy", "dowhy", "scikit-learn", "torch", "numpy")


def largest_error(exact: Any, words: str = "") -> Callable[[Any], str]:
    """What says how far numbers are from exact ones at most."""
    return lambda found: f"{float(np.abs(np.asarray(found) - exact).max()):.1e}{words}"


def tensors(p: Any, library: str) -> Any:
    """A circuit as a model of a library of tensors, and torch, in double precision."""
    torch = import_module("torch")
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if library == SPFLOW:
        return ek.models.to_spflow(p), torch
    return import_module("cirkit.pipeline").compile(ek.models.to_cirkit(p)), torch


def log_likelihoods(p: Any, X: Any, library: str) -> Callable[[], Any]:
    """What asks a library for the log-likelihoods of rows."""
    if library == OURS:
        return partial(p.log_likelihood, X)
    module, torch = tensors(p, library)
    rows, ask = torch.as_tensor(X), module if library == CIRKIT else module.log_likelihood
    return torch.no_grad()(lambda: ask(rows).numpy().ravel())


def likelihoods(library: str) -> Any:
    """The log-likelihoods of 2000 rows under a dense circuit, beside naive sums in long doubles."""
    p = ek.random_circuit(32, 16, rng=0)
    X = p.sample(2000, rng=2)
    return log_likelihoods(p, X, library), largest_error(naive(p, X))


def naive(p: Any, X: Any) -> Any:
    """Log-likelihoods of rows of states, unit by unit, in long doubles."""

    def leaf(node: int, variable: int) -> Any:
        table = p.blocks[node].numbers.astype(np.longdouble)
        return table[:, X[:, variable].astype(int)]

    def inner(node: int, left: Any, right: Any) -> Any:
        a, b = p.blocks[node].inputs
        return p.blocks[node].csr.toarray().astype(np.longdouble) @ (left[a] * right[b])

    return np.log(from_leaves(p.vtree, leaf, inner)[-1][0])


def inner_products(library: str) -> Any:
    """The sum of the product of two circuits over all states, beside the sum over 65 536 states."""
    p, q = (ek.random_circuit(16, 8, rng=seed) for seed in (0, 1))
    exact = float(np.exp(naive(p, states(16)) + naive(q, states(16))).sum())
    error = largest_error(1.0)
    if library == OURS:
        return lambda: ek.expected_kernel(p, q, ek.Delta()) / exact, error
    if library == SPFLOW:
        (a, torch), (b, _) = tensors(p, library), tensors(q, library)
        product = import_module("spflow.utils.inner_product").inner_product_matrix
        return torch.no_grad()(lambda: product(a, b).numpy().squeeze() / exact), error
    symbolic = import_module("cirkit.symbolic.functional")
    _, torch = tensors(p, library)
    both = symbolic.multiply(ek.models.to_cirkit(p), ek.models.to_cirkit(q))
    compiled = import_module("cirkit.pipeline").compile(symbolic.integrate(both))
    return torch.no_grad()(lambda: np.exp(compiled().numpy().squeeze()) / exact), error


def samples(library: str) -> Any:
    """2000 samples of a dense circuit; the error is that of frequencies of states."""
    p = ek.random_circuit(32, 16, rng=0)
    noise = largest_error([table[1] for table in p.marginals()], " (noise)")

    def error(found: Any) -> str:
        return noise(np.asarray(found).mean(axis=0))

    if library == OURS:
        return lambda: p.sample(2000, rng=0), error
    module, torch = tensors(p, library)
    if library == CIRKIT:
        query = import_module("cirkit.backend.torch.queries").SamplingQuery(module)
        return lambda: query(2000)[0].numpy(), error
    return torch.no_grad()(lambda: module.sample(num_samples=2000).numpy()), error


def em_step(library: str) -> Any:
    """One step of EM on 2000 rows; the error is that of the log-likelihood beside ours."""
    p, q = (ek.random_circuit(32, 16, rng=seed) for seed in (0, 1))
    X = q.sample(2000, rng=3)
    stepped = partial(ek.em, p, X, iterations=1)
    if library == OURS:
        return stepped, lambda found: "reference"
    reference = float(np.mean(stepped().log_likelihood(X)))

    def error(found: Any) -> str:
        return f"{abs(float(np.mean(found.log_likelihood(X))) - reference):.1e}"

    def learned() -> Any:
        module, torch = tensors(p, library)
        rows = torch.as_tensor(X)
        if library == SPFLOW:
            learn = import_module("spflow.learn.expectation_maximization").expectation_maximization
            taken, _ = timed(lambda: learn(module, rows, max_steps=1))
            return Timed(taken, ek.models.from_spflow(module))
        em = import_module("cirkit.backend.torch.em_optimizer").EM(module, lr=1.0, pseudocount=0.0)
        taken, _ = timed(lambda: (module(rows).sum().backward(), em.step()))
        return Timed(taken, ek.models.from_cirkit(module))

    return learned, error


class Timed(NamedTuple):
    """A result with its own time, without preparations."""

    seconds: float
    answer: Any


def posteriors(library: str) -> Any:
    """Marginals of ASIA given each of 50 incomplete rows; exact: sums over its 256 states."""
    network, everything = ek.asia(), states(8)
    rows = incomplete(network.sample(50, rng=0), 0.6, 0)
    joint = np.exp(np.asarray(network.log_likelihood(everything), dtype=np.longdouble))
    exact = np.empty((50, 8))
    for i, row in enumerate(rows):
        chances = np.where((np.isnan(row) | (everything == row)).all(axis=1), joint, 0.0)
        exact[i] = (chances @ everything) / chances.sum()
    error, names, frame = largest_error(exact), network.names, network.schema.frame(rows)
    given = [row.dropna().to_dict() for _, row in frame.iterrows()]
    if library == OURS:
        return lambda: np.stack([t[:, 1] for t in network.marginals(rows)], axis=1), error
    if library == "pyAgrum":
        engine = import_module("pyagrum").LazyPropagation(ek.models.to_pyagrum(network))

        def propagated() -> Any:
            found = []
            for evidence in given:
                engine.setEvidence(evidence)
                engine.makeInference()
                found.append([engine.posterior(name)[1] for name in names])
            return found

        return propagated, error
    inference = import_module("pgmpy.inference").VariableElimination(ek.models.to_pgmpy(network))

    def eliminated() -> Any:
        found = np.array(rows)
        for row, evidence in zip(found, given, strict=True):
            asked = np.flatnonzero(np.isnan(row))
            options = {"joint": False, "show_progress": False}
            tables = inference.query([names[v] for v in asked], evidence, **options)
            row[asked] = [tables[names[v]].values[1] for v in asked]
        return found

    return eliminated, error


def mixtures(library: str) -> Any:
    """Log-densities of 10 000 points under 20 normals in 10 dimensions, beside long doubles."""
    from sklearn.mixture import GaussianMixture

    X = np.random.default_rng(0).normal(size=(10_000, 10))
    model = GaussianMixture(20, covariance_type="diag", random_state=0, max_iter=5)
    model.fit(X)
    means, variances = model.means_.astype(np.longdouble), model.covariances_.astype(np.longdouble)
    logs = -0.5 * (((X[:, None] - means) ** 2 / variances) + np.log(2 * np.pi * variances)).sum(2)
    error = largest_error(np.log(np.exp(logs) @ (model.weights_ / model.weights_.sum())))
    if library == SCIKIT:
        return partial(model.score_samples, X), error
    return log_likelihoods(ek.as_model(model), X, library), error


def imputation(library: str) -> Any:
    """Fit and predict diabetes with 40 % missing; the error is the RMSE over 142 test rows."""
    from sklearn import datasets, ensemble, impute, pipeline, svm
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401

    X, y = datasets.load_diabetes(return_X_y=True)
    X, y = incomplete(20.0 * X, 0.4, 0), (y - y.mean()) / y.std()
    model = {
        OURS: ek.ExpectedSVR(),
        "median": pipeline.make_pipeline(impute.SimpleImputer(strategy="median"), svm.SVR()),
        "iterative": pipeline.make_pipeline(impute.IterativeImputer(random_state=0), svm.SVR()),
        "boosting": ensemble.HistGradientBoostingRegressor(random_state=0),
    }[library.removeprefix(f"{SCIKIT}, ")]

    def error(found: Any) -> str:
        return f"RMSE {float(np.sqrt(np.mean((found - y[300:]) ** 2))):.3f}"

    return lambda: model.fit(X[:300], y[:300]).predict(X[300:]), error


def network_tables(library: str) -> Any:
    """Tables of ASIA from 1000 rows, 10 % missing, by EM; the error: log-likelihood lost, a row."""
    network = ek.asia()
    X = incomplete(network.sample(1000, rng=1), 0.1, 1)
    frame = network.schema.frame(X).astype(object)
    prior = [np.ones(table.shape) for table in network.cpts]

    fitted = partial(ek.learn_tables, network, frame, pseudocount=prior, progress=False)
    best = float(fitted().log_likelihood(X).mean())

    def error(found: Any) -> str:
        model = ek.as_model(found)
        return f"{best - float(model.log_likelihood(frame[model.names]).mean()):.1e}"

    if library == OURS:
        return fitted, error
    if library == "pgmpy":
        estimators, models = import_module("pgmpy.estimators"), import_module("pgmpy.models")
        states = dict(zip(network.names, network.states, strict=True))
        structure = models.DiscreteBayesianNetwork(ek.models.to_pgmpy(network).edges())

        def estimated() -> Any:
            made = structure.copy()
            learner = estimators.ExpectationMaximization(made, frame, state_names=states)
            made.add_cpds(*learner.get_parameters(n_jobs=1, show_progress=False))
            return made

        return estimated, error
    gum, structure = import_module("pyagrum"), ek.models.to_pyagrum(network)
    folder = TemporaryDirectory()
    path = f"{folder.name}/rows.csv"
    frame.fillna("?").to_csv(path, index=False)

    def learned(held: Any = folder) -> Any:
        learner = gum.BNLearner(path, structure, ["?"])
        learner.useSmoothingPrior(1.0)
        learner.useEM(1e-6)
        return learner.learnParameters(structure.dag())

    return learned, error


def interventions(library: str) -> Any:
    """The distribution of dyspnoea after setting each of 4 causes, beside truncated sums."""
    network = ek.asia()
    causes = ("smoke", "lung", "bronc", "tub")
    joint, rows = np.exp(network.log_likelihood(states(8))), states(8).astype(int)
    exact = []
    for name in causes:
        v = network.variable(name)
        own = network.cpts[v][tuple(rows[:, u] for u in (*network.parents[v], v))]
        kept = np.where(rows[:, v] == 0, joint / np.where(own > 0, own, 1.0), 0.0)
        exact.append(kept[rows[:, 7] == 0].sum() / kept.sum())
    error = largest_error(exact, " (noise)" if library == "dowhy" else "")
    if library == OURS:
        return lambda: [network.do({x: "yes"}).marginals()["dysp"][0] for x in causes], error
    if library == "pgmpy":
        model = import_module("pgmpy.inference").CausalInference(ek.models.to_pgmpy(network))
        ask = partial(model.query, ["dysp"], show_progress=False)
        return lambda: [ask(do={x: "yes"}).values[0] for x in causes], error
    if library == "pyAgrum":
        causal = import_module("pyagrum.causal")
        model = causal.CausalModel(ek.models.to_pyagrum(network))
        impact = partial(causal.causalImpact, model, on="dysp")
        return lambda: [impact(doing=x, values={x: "yes"})[1][0] for x in causes], error
    gcm, model = _dowhy(network)
    gcm.fit(model, network.sample(20_000, rng=0, as_frame=True).astype(str))

    def sampled(name: str) -> Any:
        options = {"num_samples_to_draw": 2000}
        rows = gcm.interventional_samples(model, {name: lambda x: "yes"}, **options)
        return (rows["dysp"] == "yes").mean()

    return lambda: list(map(sampled, causes)), error


def _dowhy(network: Any) -> Any:
    """The module for causal models of dowhy, and one with the arcs of a network."""
    gcm, networkx = import_module("dowhy.gcm"), import_module("networkx")
    gcm.config.disable_progress_bars()
    model = gcm.ProbabilisticCausalModel(networkx.DiGraph(ek.models.to_networkx(network).edges))
    gcm.auto.assign_causal_mechanisms(model, network.sample(500, rng=0, as_frame=True).astype(str))
    return gcm, model


def mechanisms(library: str) -> Any:
    """Parts of tables of ASIA in a change of a mean, 500 complete rows a side, beside the truth."""
    before = ek.asia()
    after = before.do({"smoke": [0.8, 0.2], "bronc": [[0.9, 0.1], [0.2, 0.8]]})
    truth = ek.mechanism_change(before, after, target="dysp", values=[1, 0])
    X, Y = (m.sample(500, rng=i, as_frame=True).astype(str) for i, m in enumerate((before, after)))
    error = largest_error(truth.shapley)
    if library == OURS:
        ask = partial(ek.mechanism_change, X, Y, before, target="dysp", values=[1, 0])
        return lambda: ask().shapley, error
    gcm, model = _dowhy(before)

    def difference(a: Any, b: Any) -> Any:
        return np.mean(b == "yes") - np.mean(a == "yes")

    def changed() -> Any:
        options = {"difference_estimation_func": difference, "num_samples": 500}
        found = gcm.distribution_change(model, X, Y, "dysp", **options)
        return [float(found.get(name, 0.0)) for name in before.names]

    return changed, error


TASKS: dict[str, tuple[Callable[[str], Any], tuple[str, ...]]] = {
    "likelihoods": (likelihoods, (OURS, CIRKIT, SPFLOW)),
    "inner products": (inner_products, (OURS, CIRKIT, SPFLOW)),
    "samples": (samples, (OURS, CIRKIT, SPFLOW)),
    "EM step": (em_step, (OURS, CIRKIT, SPFLOW)),
    "posteriors": (posteriors, (OURS, "pyAgrum", "pgmpy")),
    "network tables": (network_tables, (OURS, "pyAgrum", "pgmpy")),
    "interventions": (interventions, (OURS, "pyAgrum", "pgmpy", "dowhy")),
    "mechanisms": (mechanisms, (OURS, "dowhy")),
    "mixtures": (mixtures, (OURS, SCIKIT, CIRKIT, SPFLOW)),
    "imputation": (
        imputation,
        (OURS, *(f"{SCIKIT}, {how}" for how in ("median", "iterative", "boosting"))),
    ),
}
STATE: dict[str, Any] = {}
"""Of a process: the task, its error, and the last answer."""


def prepare(task: str, library: str) -> None:
    warnings.simplefilter("ignore")
    STATE["ask"], STATE["error"] = TASKS[task][0](library)
    STATE["peak"] = peak_memory()
    STATE["ask"]()


def ask() -> float:
    taken, answer = timed(STATE["ask"])
    own = answer if isinstance(answer, Timed) else Timed(taken, answer)
    STATE["answer"] = own.answer
    return own.seconds


def finish() -> tuple[float, str]:
    return STATE["peak"](), STATE["error"](STATE["answer"])


def answers(task: str) -> Iterator[str]:
    """The lines of the table for one task."""
    libraries, failed = TASKS[task][1], {}
    pools = {x: ProcessPoolExecutor(1, get_context("spawn")) for x in libraries}

    def call(library: str, function: Any, *arguments: Any) -> Any:
        if library not in failed:
            try:
                return pools[library].submit(function, *arguments).result()
            except BaseException as failure:
                text = (str(failure).splitlines() or [""])[0][:90]
                failed[library] = f"{type(failure).__name__}: {text}"
        return np.inf

    for library in libraries:  # one after the other: none waits for what another prepares
        call(library, prepare, task, library)
    best = in_turns({library: partial(call, library, ask) for library in libraries}, ROUNDS)
    for library in libraries:
        found = call(library, finish)
        cells = f"- | - | {failed.get(library)}"
        if library not in failed:
            cells = f"{1e3 * best[library]:.1f} | {found[0]:.0f} | {found[1]}"
        yield f"| {task} | {library} | {cells} |"
        pools[library].shutdown()


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def peers(tasks: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Time, memory and error of other libraries on the same tasks."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    chosen = tasks or list(TASKS)
    print("Versions:", ", ".join(f"{name} {version(name)}" for name in PACKAGES), end=".\n\n")
    print("| task | library | best of 5, ms | peak memory, MiB | error, or why there is none |")
    print("|---|---|---:|---:|---|")
    for task in chosen:
        print("\n".join(answers(task)), flush=True)
    print()
    for task in chosen:
        print(f"- **{task}**: {TASKS[task][0].__doc__}")


HOURS = [peers]
