"""Names and files of version 0.2.0 still work, and circuits and kernels can be copied."""

import copy
import inspect
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import assert_raises

HERE = Path(__file__).parent
NAMES = (HERE / "public_names.txt").read_text(encoding="utf-8").split()
SAVED = HERE / "saved"
ANSWERS = json.loads((SAVED / "answers.json").read_text(encoding="utf-8"))
MACHINES = [f"ExpectedKernel{kind}" for kind in ("Classifier", "Ridge")]
MACHINES += [f"Expected{kind}" for kind in ("GaussianProcessRegressor", "SVC", "SVR")]
DROPPED = {
    *("save(circuit)", "io.save(circuit)"),
    "io.read_xmlbif",
    "io.read_xmlbif(path)",
    "io.write_xmlbif",
    "io.write_xmlbif(network)",
    "io.write_xmlbif(path)",
    "io.write_psdd(dialect)",
    "write_psdd(dialect)",
    "ExpectedGaussianProcessRegressor(n_restarts_optimizer)",
    *("CircuitImputer.sample(method)", "expected_prediction(return_bound)"),
    "ExpectedSVC(decision_function_shape)",
    *(f"{name}(density_weights)" for name in MACHINES),
    *(f"learn_chow_liu({name})" for name in ("grouping", "min_mi", "rng")),
    "learn_mixture(method)",
    *(f"learn_strudel({name})" for name in ("beam", "edge", "max_units", "rng", "tie")),
    *("learn_strudel(time_limit)", "learn_strudel(variable)"),
    *(f"{name}(binning)" for name in (*MACHINES, "CircuitImputer", "ExpectedKernelFeatures")),
}
"""What went on purpose: the CHANGELOG says what to use instead."""


def find(name):
    value = ek
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_names_and_parameters_resolve():
    missing = []
    for line in NAMES:
        name, _, parameter = line.rstrip(")").partition("(")
        try:
            value = find(name)
            if parameter and parameter not in inspect.signature(value).parameters:
                missing.append(line)
        except AttributeError:
            missing.append(line)
    assert set(missing) == DROPPED


def rows(name):
    if name == "named":
        rain, grass = ["yes", "no", "no", "yes", "no"], ["wet", "dry", "wet", "wet", "dry"]
        return pd.DataFrame({"rain": rain, "grass": grass})
    return np.array(ANSWERS[name]["rows"], dtype=float)


CIRCUITS = ("compiled", "dense", "named", "normals", "sparse", "square")


def unpickled(name):
    return pickle.loads((SAVED / f"{name}.pkl").read_bytes())


@pytest.mark.parametrize("load", [lambda name: ek.load(SAVED / f"{name}.npz"), unpickled])
@pytest.mark.parametrize("name", CIRCUITS)
def test_circuits_in_the_native_format_and_pickled_load(name, load):
    found = load(name).log_likelihood(rows(name))
    np.testing.assert_allclose(found, ANSWERS[name]["log_likelihood"], rtol=1e-12)


def test_circuits_with_negative_weights_load():
    signed, dense = (ek.load(SAVED / f"{name}.npz") for name in ("signed", "dense"))
    found = ek.expected_kernel(signed, dense, ek.RBF(0.1))
    np.testing.assert_allclose(found, ANSWERS["signed"]["values"], rtol=1e-12)


def test_pickled_kernels_networks_and_samples_load():
    gram = unpickled("kernel")(np.array([[0, 1], [1, 1]]))
    np.testing.assert_allclose(gram, ANSWERS["kernel"]["gram"], rtol=1e-12)
    marginal = unpickled("network").marginals()[3]
    np.testing.assert_allclose(marginal, ANSWERS["network"]["marginal"], rtol=1e-12)
    np.testing.assert_array_equal(unpickled("samples").weights, ANSWERS["samples"]["weights"])


def from_skops():
    skops = pytest.importorskip("skops.io")
    path = SAVED / "ridge.skops"
    return skops.load(path, trusted=skops.get_untrusted_types(file=path))


@pytest.mark.parametrize("load", [lambda: unpickled("ridge"), from_skops])
def test_estimators_name_the_versions(load):
    assert_raises(ImportError, rf"of expectedkernels 0.2.0 .* version {ek.__version__}", load)


NEAR = [[1.0, 0.5], [0.5, 1.0]]
GRID = ek.ising_grid(2, 3, rng=0)
ROWS = np.random.default_rng(0).integers(2, size=(12, 6)).astype(float)
HOLES = np.where(np.random.default_rng(1).random(ROWS.shape) < 0.5, np.nan, ROWS)
GRAPH = ek.Product([ek.kernels.kernel_input(0, NEAR), ek.kernels.kernel_input(1, NEAR)])


def collapsed_kernel(operator):
    return ek.CollapsedSteinKernel(GRID.compile()[0], ek.ExpHamming(), operator=operator)


def of_circuit(p):
    return ek.expected_kernel(p, p, ek.RBF(0.3))


def of_samples(samples):
    tables = np.concatenate(samples.marginals())
    return np.r_[samples.weights, tables, samples.extended(ROWS[:2]).gram.ravel()]


COPIED = {
    "circuit": (ek.random_circuit(ek.Vtree.balanced(5), 3, rng=0), of_circuit),
    "real circuit": (
        ek.gaussian_mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 1.0]]),
        of_circuit,
    ),
    "kernel": (
        2.0 * ek.RBF([0.1, 0.2]) + ek.KernelCircuit(GRAPH) * ek.TableKernel([NEAR, NEAR]),
        lambda k: np.r_[
            ek.expected_kernel(*[ek.factorized([[0.2, 0.8], [0.7, 0.3]])] * 2, k),
            k(np.array([[0, 1], [1, 1]])).ravel(),
        ],
    ),
    "shifts": (collapsed_kernel("shift"), lambda k: k(HOLES)),
    "updates": (collapsed_kernel("gibbs"), lambda k: k(HOLES)),
    "samples": (ek.bbis(GRID, ROWS), of_samples),
    "one collapsed set": (ek.collapsed_bbis(GRID, ROWS, [0, 3]), of_samples),
    "many collapsed sets": (ek.collapsed_bbis(GRID, HOLES), of_samples),
}


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
@pytest.mark.parametrize("name", COPIED)
def test_copies_give_the_same_answers(name, copied):
    thing, ask = COPIED[name]
    again = copied(thing)
    assert again is not thing
    np.testing.assert_array_equal(ask(again), ask(thing))
