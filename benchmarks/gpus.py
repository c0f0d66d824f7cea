"""Times on a GPU (`python -m benchmarks on_a_gpu`), and errors of single precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import expectedkernels as ek
from benchmarks.timing import best_of, data_sets, in_turns, incomplete, seconds, show, states, timed
from expectedkernels.data.schema import Schema
from expectedkernels.learning.chow_liu import grouped_counts, spanning_edges
from expectedkernels.learning.em import Phase, epochs
from expectedkernels.learning.training_data import Data, mutual_information

KERNEL = ek.RBF(0.1)
UNITS, EPOCHS, ASKED, PASSES = 16, 10, 500, 4


def on_a_gpu() -> None:
    """Expected kernels, queries and training on a GPU."""
    import torch

    if not torch.cuda.is_available():
        print("\n(no GPU here: this benchmark is left out)")
        return
    dense_products(torch)
    evidence_and_points(torch)
    training("cuda")
    totals("cuda")


def dense_products(torch: Any) -> None:
    """Dense circuits, compared with the GPU's own matrix products."""
    rows = []
    for units in (32, 128, 1024):
        vtree = ek.Vtree.balanced(256)
        p, q = (ek.random_circuit(vtree, units, rng=i).to("cuda") for i in range(2))
        a = torch.rand(128, units, units, dtype=torch.float64, device="cuda")

        def products(a=a):
            for _ in range(4):  # about 2 * 255 products
                torch.matmul(a, a)
            torch.cuda.synchronize()

        def ours(p=p, q=q):
            ek.expected_kernel(p, q, KERNEL)
            torch.cuda.synchronize()

        calls = {f: partial(best_of, f, 20, 0.5) for f in (ours, products)}
        mine, limit = in_turns(calls, 5).values()
        limit *= 510 / 512
        cells = seconds(mine), f"{seconds(limit)} matmul", f"{100 * limit / mine:.0f} %"
        rows.append((f"K = {units}", *cells))
    show(f"Dense circuits of 256 variables on {torch.cuda.get_device_name()}, float64", rows)


def evidence_and_points(torch: Any) -> None:
    """Evidence against evidence, and points against a circuit, on the GPU and on the CPU."""
    vtree, rng = ek.Vtree.balanced(64), np.random.default_rng(0)
    p, q, wide = (ek.random_circuit(vtree, units, rng=i) for i, units in enumerate((32, 32, 64)))
    X = rng.integers(2, size=(5000, 64)).astype(float)
    E, F = (incomplete(x, 0.5, rng) for x in (X[:200], X[200:400]))

    def evidence(p: Any, q: Any, n: int = 200) -> Any:
        return ek.expected_kernel(p, q, KERNEL, evidence_p=E[:n], evidence_q=F[:n])

    gpu = [c.to("cuda") for c in (p, q, wide)]
    same = np.abs(evidence(*gpu[:2], 20).cpu().numpy() / evidence(p, q, 20) - 1.0).max()
    asked = {"evidence, 200 x 200 rows, K = 32": partial(evidence, *gpu[:2])}
    asked["5000 points, K = 64"] = partial(ek.expected_kernel, gpu[2], X, KERNEL)
    rows = []
    for name, ask in asked.items():
        took = best_of(lambda ask=ask: (ask(), torch.cuda.synchronize()), 5)
        rows.append((name, seconds(took), "", f"{same:.0e} from the CPU"))
    show("Expected kernels of 64 variables on the GPU", rows)


def training(
    where: str,
    n_variables: int = 784,
    states: int = 256,
    n_rows: int = 8192,
    sizes: Sequence[tuple[int, int]] = ((32, 512), (64, 2048), (128, 2048), (512, 512)),
) -> None:
    """Passes of EM in batches over a hidden tree, in rows per second, beside PyJuice."""

    X = near_neighbours(n_variables, states, n_rows)
    title = f"EM, {n_variables} variables of {states} states, on {where}: rows/s"
    for units, size in sizes:
        row = [f"K = {units}, batches of {size}"]
        for name in precisions():
            row.append(f"{speed(passes_over(X, states, units, size, where), n_rows):.0f} {name}")
        pc = juice_circuit(X, states, units) if where == "cuda" else None
        passes = juice_passes(pc, X, size, 0.1 * size / n_rows)
        row.append(f"{speed(passes, n_rows):.0f} PyJuice" if pc else "no PyJuice here")
        show(title, [tuple(row)])


def precisions() -> Iterator[str]:
    """Set the precision of torch's products of matrices."""
    import torch

    for name, products in (("float32", "highest"), ("TF32", "high")):
        torch.set_float32_matmul_precision(products)
        yield name
    torch.set_float32_matmul_precision("highest")


def speed(passes: Iterator[Any], n_rows: int) -> float:
    """Rows per second of the fastest pass."""
    return n_rows / min(timed(next, passes)[0] for _ in range(PASSES))


def totals(where: str, n: int = 16, units: int = 64) -> None:
    """How far from one the probabilities of all states are, after EM in single precision."""
    import torch

    rng = np.random.default_rng(0)
    X = (rng.random((4000, n)) < rng.random((4000, 1))).astype(np.intp)
    options = {"epochs": 10, "batch_size": 500, "device": where, "dtype": "float32"}
    found = {}
    for name in precisions():
        p = ek.learn_hclt(X, units, rng=0, progress=False, **options).to(where, dtype="float32")
        found[name] = p.log_likelihood(states(n))
    if pc := juice_circuit(X, 2, units) if where == "cuda" else None:
        for _ in zip(range(10), juice_passes(pc, X, 500, 0.01), strict=False):
            pass
        with torch.no_grad():
            parts = torch.as_tensor(states(n), dtype=torch.int64, device=where).split(1024)
            found["PyJuice"] = torch.cat([pc(part)[:, 0] for part in parts])
    errors = {name: abs(float(logs.double().exp().sum()) - 1) for name, logs in found.items()}
    rows = [(name, f"{error:.1e}", "", "") for name, error in errors.items()]
    show(f"The sum of all probabilities less one, {n} bits, K = {units}, on {where}", rows)


def near_neighbours(n_variables: int, states: int, n_rows: int) -> Any:
    """Rows in which every variable is near the one above it in a binary tree."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, states, size=(n_rows, n_variables))
    for v in range(1, n_variables):
        X[:, v] = (X[:, (v - 1) // 2] + rng.integers(-3, 4, size=n_rows)) % states
    return X


def passes_over(X: Any, states: int, units: int, size: int, where: str) -> Any:
    """Passes of EM in single precision from the same start."""
    data = Data(Schema((states,) * X.shape[1]), X)
    start = ek.learn_hclt(X[:256], units, epochs=0, cardinalities=states, rng=0, progress=False)
    phases, place = [Phase(PASSES, size, (1.0, 0.5))], (where, "float32")
    return epochs(start, data, phases, 0.1, place, np.random.default_rng(0))


def juice_circuit(X: Any, states: int, units: int) -> Any:
    """The hidden tree of `learn_hclt` as a circuit of PyJuice, None where that is not installed."""
    try:
        import pyjuice
        from pyjuice.structures.compilation import BayesianTreeToHiddenRegionGraph
    except ImportError:
        return None
    import networkx

    counts = grouped_counts(Data(Schema((states,) * X.shape[1]), X[:256]))
    tree = networkx.Graph(spanning_edges(mutual_information(counts, 1.0)))
    root = networkx.center(tree)[0]
    inputs = pyjuice.distributions.Categorical, {"num_cats": states}
    return pyjuice.compile(BayesianTreeToHiddenRegionGraph(tree, root, units, *inputs)).to("cuda")


def juice_passes(pc: Any, X: Any, size: int, pseudocount: float) -> Iterator[None]:
    """Passes of EM there, in batches, by the graphs that it captures."""
    import torch

    data, options = torch.as_tensor(X, device="cuda"), {"propagation_alg": "LL"}
    flows = {"flows_memory": 0.0, "allow_modify_flows": False, "logspace_flows": True}
    while True:
        for chosen in torch.randperm(len(X), device="cuda").split(size):
            pc(data[chosen], record_cudagraph=True, **options)
            pc.backward(data[chosen], record_cudagraph=True, **options, **flows)
            pc.mini_batch_em(step_size=0.5, pseudocount=pseudocount)
        torch.cuda.synchronize()
        yield


def precision() -> None:
    """Results of circuits in float32, on the CPU and on a GPU (there in TF32, too)."""
    import torch

    title = "Largest errors of {} on {}, hidden tree of NLTCS"
    for _, (X, *_) in data_sets("nltcs"):
        show(title.format("float32", "torch"), _errors(X, "torch"))
        for name in precisions() if torch.cuda.is_available() else ():
            show(title.format(name, "cuda"), _errors(X, "cuda"))


def _errors(X: Any, place: str) -> list[tuple[str, ...]]:
    options: Any = {"batch_size": 512, "epochs": EPOCHS, "rng": 0, "progress": False}
    learn = partial(ek.learn_hclt, X, UNITS, device=place, **options)
    single, double = (learn(dtype=dtype) for dtype in ("float32", "float64"))
    rows = incomplete(X[:ASKED], 0.3, 0)
    tree, other = ek.learn_chow_liu(X), ek.random_circuit(double.vtree, 4, rng=0)
    k = ek.ExpHamming()
    every = states(X.shape[1])
    total = np.exp(_array(single.to(place, dtype="float32").log_likelihood(every))).sum()
    lines = [(f"total of {len(every)} states after EM", f"{abs(total - 1.0):.1e}", "absolute", "")]

    def add(what: str, circuit: Any, ask: Callable[[Any], Any], relative: bool = False) -> None:
        exact, found = (_array(ask(circuit.to(place, dtype=d))) for d in ("float64", "float32"))
        error = np.abs(found - exact) / (np.abs(exact) if relative else 1.0)
        lines.append((what, f"{error.max():.1e}", "relative" if relative else "absolute", ""))

    add("log-likelihoods", double, lambda p: p.log_likelihood(rows))
    add("marginals", double, lambda p: np.concatenate(p.marginals(rows), axis=1))
    best = [tree.to(place, dtype=dtype).map(rows) for dtype in ("float64", "float32")]
    differ = float((best[0] != best[1]).any(axis=1).mean())
    lines.append(("most probable rows", f"{differ:.1%}", "of rows differ", ""))
    add("expected kernel", double, lambda p: ek.expected_kernel(p, other.to(place), k), True)
    add("given rows", double, lambda p: ek.expected_kernel(p, p, k, evidence_p=rows[:50]), True)
    add("squared MMD to data", double, lambda p: ek.mmd2(p, X[:ASKED], k), True)
    means = [float(np.mean(p.log_likelihood(X))) for p in (single, double)]
    y = X[:ASKED, -1] + 0.1 * X[:ASKED, :-1].sum(axis=1)
    densities = (double.to("numpy", dtype=dtype) for dtype in ("float64", "float32"))
    models = (ek.ExpectedKernelRidge(density=p).fit(X[:ASKED], y) for p in densities)
    exact, found = (model.predict(rows) for model in models)
    for what, error in (
        (f"mean log-likelihood after {EPOCHS} epochs of EM", abs(means[0] - means[1])),
        ("predictions of a kernel model", np.abs(exact - found).max()),
    ):
        lines.append((what, f"{error:.1e}", "absolute", ""))
    return lines


def _array(x: Any) -> Any:
    return np.asarray(x.cpu() if hasattr(x, "cpu") else x, dtype=np.float64)


MINUTES = [on_a_gpu, precision]
