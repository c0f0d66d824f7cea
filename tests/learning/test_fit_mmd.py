"""Circuits fitted by gradients of the exact maximum mean discrepancy."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, refusals
from expectedkernels.learning import fit_mmd as gradients
from oracles import Inner, Table, with_holes
from strategies import points, random_blocks

torch = pytest.importorskip("torch")
CARDS = (2, 3, 2, 4)


def rows(n=60, seed=3):
    return points(np.random.default_rng(seed), CARDS, n)


def start(form="dense", seed=0):
    rng = np.random.default_rng(seed)
    vtree = ek.Vtree.balanced(len(CARDS))
    return ek.Circuit.from_blocks(vtree, random_blocks(rng, vtree, CARDS, form)).normalize()


def normal_mixture(seed=0):
    rng = np.random.default_rng(seed)
    parts = [
        ek.Product([ek.Gaussian(0, 3.0 * rng.normal(), 1.0), ek.Categorical(1, rng.random(3))])
        for _ in range(3)
    ]
    return ek.Circuit.from_units(ek.Sum(parts, rng.random(3))).normalize()


def fitted_to(circuit, X, k):
    """What is fitted, and the rows, as the fit sees them."""
    circuit = gradients.normalized(circuit)
    blocks = k.blocks(circuit.vtree, circuit.cardinalities)
    fitted = gradients._start_state(circuit.to("torch"), blocks, 2**30)
    return fitted, gradients._groups(fitted, gradients._distinct(X, circuit, "X"))


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_objective_is_the_discrepancy_less_a_constant(form):
    p, X, k = start(form), rows(), ek.RBF(0.3) + 2.0 * ek.ExpHamming()
    fitted, groups = fitted_to(p, X, k)
    data = ek.Empirical(X)
    constant = ek.expected_kernel(data, data, k)
    assert_close(fitted.objective(groups).item() + constant, ek.mmd2(p, X, k), scale=constant)


@pytest.mark.parametrize("form", ["dense", "sparse", "normals"])
def test_gradients_by_finite_differences(form):
    p = normal_mixture() if form == "normals" else start(form)
    X = np.column_stack([np.linspace(-3, 3, 9), np.arange(9) % 3]) if form == "normals" else rows(9)
    fitted, groups = fitted_to(p, X, ek.RBF(0.4))
    fitted.objective(groups).backward()
    rng = np.random.default_rng(1)
    for logits in fitted.logits:
        found, flat = logits.grad.reshape(-1), logits.data.view(-1)
        alive = np.flatnonzero(np.isfinite(flat.numpy()))
        for place in rng.permutation(alive)[:4].tolist():
            ends = []
            for step in (1e-5, -2e-5):
                flat[place] += step
                ends.append(fitted.objective(groups).item())
            flat[place] += 1e-5
            assert abs(float(found[place]) - (ends[0] - ends[1]) / 2e-5) < 1e-8


def fitted_numbers(**options):
    p, X = start(), rows()
    q = ek.fit_mmd(p, X, steps=60, learning_rate=0.1, progress=False, **options)
    return [block.numbers for block in q.blocks if block.numbers is not None], ek.mmd2(q, X)


def test_steps_that_measure_nothing_are_plain_steps(monkeypatch):
    found, value = fitted_numbers()
    monkeypatch.setattr(gradients, "steady_step", lambda run, like: [run(), run()] and run)
    expected, _ = fitted_numbers()
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, scale=1.0)
    assert value < ek.mmd2(start(), rows())


@pytest.mark.parametrize("wrong", [1.001, float("nan")])
def test_steps_that_go_wrong_are_replaced_by_plain_ones(monkeypatch, wrong):
    asked = []

    def broken(run, like):
        asked.append(run)
        return lambda: wrong * run()

    monkeypatch.setattr(gradients, "steady_step", broken)
    _, value = fitted_numbers()
    assert len(asked) == 1
    assert value < 0.5 * ek.mmd2(start(), rows())


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_fitted_circuits_are_nearer_to_the_data(form, dtype):
    names = ("a", "b", "c", "d")
    p, X = start(form).with_names(names), rows()
    q = ek.fit_mmd(p, X, steps=40, learning_rate=0.1, dtype=dtype, progress=False)
    assert q.is_on_cpu
    assert q.names == names
    assert abs(float(q.log_partition())) < 1e-12
    assert ek.mmd2(q, X) < 0.9 * ek.mmd2(p, X)
    for old, new in zip(p.blocks, q.blocks, strict=True):
        assert type(old.numbers) is type(new.numbers)
        if isinstance(old.numbers, np.ndarray):
            assert not new.numbers[old.numbers == 0].any()


def test_units_without_weights_are_left_alone():
    vtree, X = ek.Vtree.balanced(2), [[0, 1], [1, 1], [0, 0], [1, 1]]
    tables = np.array([[0.5, 0.5], [0.0, 0.0]]), np.array([[0.3, 0.7], [0.2, 0.8]])
    blocks = [
        Table(tables[vtree.variable[node]])
        if vtree.is_leaf(node)
        else Inner(2, 1, np.arange(2), np.arange(2), np.array([[1.0, 0.5]]))
        for node in range(3)
    ]
    starts = ek.Circuit(vtree, tuple(blocks)), ek.factorized([tables[0][0], tables[1][0]])
    found, alone = (ek.fit_mmd(p, X, steps=20, progress=False) for p in starts)
    assert_close(found.log_likelihood(X), alone.log_likelihood(X))
    assert not found.input(0).table[1].any()


def test_validation_rows_decide_and_real_variables_keep_their_means():
    p = start()
    X, V = rows(), p.sample(1000, rng=0)
    options = {"steps": 60, "learning_rate": 0.1, "progress": False}
    q, far = ek.fit_mmd(p, X, X_valid=V, **options), ek.fit_mmd(p, X, **options)
    assert ek.mmd2(q, V) <= ek.mmd2(p, V) + 1e-12
    assert ek.mmd2(q, V) < ek.mmd2(far, V)
    p = normal_mixture()
    X = np.column_stack([np.linspace(-2, 5, 30), np.arange(30) % 2])
    q = ek.fit_mmd(p, X, **options)
    assert ek.mmd2(q, X) < ek.mmd2(p, X)
    assert np.array_equal(q.input(0).mean, p.input(0).mean)


X = rows()


test_mistakes = refusals(None, [
    ({"X": X[:0]}, ek.DataError, "at least one point"),
    ({"X": with_holes(X, 0.1)}, ek.DataError, r"NaN in row \d, column \d of X\. em fits"),
    ({"X_valid": ek.Empirical(X[:2], [1.0, 1.0])}, ek.DataError,
     r"weights of X_valid .* They sum to 2"),
    ({"kernel": "rbf"}, ek.KernelError, "must be an expectedkernels kernel"),
    ({"dtype": "int8"}, ek.CircuitError, "float32"),
    ({"circuit": X}, ek.CircuitError, "structure of a Circuit"),
], lambda options: ek.fit_mmd(**{"circuit": start(), "X": X} | options))  # fmt: skip
