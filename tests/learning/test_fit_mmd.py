"""The objective of fits by MMD, its gradients, and steps that are measured."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close
from expectedkernels.learning import fit_mmd as gradients
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
    fitted = gradients._fitted(circuit.to("torch"), blocks, 2**30)
    return fitted, gradients._groups(fitted, gradients._distinct(X, circuit, "X"))


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_objective_is_the_discrepancy_less_a_constant(form):
    p, X, k = start(form), rows(), ek.RBF(0.3) + 2.0 * ek.ExpHamming()
    fitted, groups = fitted_to(p, X, k)
    data = ek.Empirical(X)
    constant = ek.expected_kernel(data, data, k)
    assert_close(fitted.objective(groups).item() + constant, ek.mmd2(p, X, k), scale=constant)


def test_objective_of_rows_in_groups():
    p, X, k = start(), rows(500), ek.ExpHamming()
    fitted, groups = fitted_to(p, X, k)
    whole = fitted.objective(groups)
    some = [
        (side.rows(at), shares[at])
        for side, shares in groups
        for at in (slice(0, 7), slice(7, None))
    ]
    assert_close(fitted.objective(some).item(), whole.item())


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


def test_interrupted(monkeypatch):
    p, X = start(), rows()
    asked = []

    def objective(self, groups, true=gradients.Fitted.objective):
        asked.append(1)
        if len(asked) > 30:
            raise KeyboardInterrupt
        return true(self, groups)

    monkeypatch.setattr(gradients.Fitted, "objective", objective)
    q = ek.fit_mmd(p, X, progress=False)
    assert ek.mmd2(q, X) < ek.mmd2(p, X)


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
