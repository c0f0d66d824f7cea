"""Targets with zeros: they work as they are, and all advice that is given can be followed."""

import warnings

import numpy as np
import pytest

import expectedkernels as ek
from oracles import worlds

ASIA = ek.asia()
EXACT = np.array([0.01, 0.0104, 0.5, 0.055, 0.45, 0.064828, 0.110290, 0.435971])
SAMPLES = ASIA.compile()[0].sample(300, rng=0)


def test_asia_works_as_it_is():
    samples = ek.bbis(ASIA, SAMPLES)
    assert samples.decision.startswith("The target has zeros: 'either' is summed out")
    assert (samples.hidden, samples.operator) == ((5,), "gibbs")
    np.testing.assert_allclose([t[0] for t in samples.marginals()], EXACT, atol=0.05)
    again = ek.bbis(ASIA, SAMPLES[:200]).extended(SAMPLES[200:])
    np.testing.assert_allclose(again.weights, samples.weights, atol=1e-7)
    assert ek.kdsd_test(SAMPLES, ASIA, rng=0).p_value > 0.01
    guesses = SAMPLES.copy()
    guesses[:, 2] = 0
    assert ek.kdsd_test(guesses, ASIA, rng=0).p_value < 0.01


def test_a_wrong_proposal_is_repaired():
    """Uniform over the possible states; Gibbs updates alone could not tell what the parts weigh."""
    every = worlds(ASIA.cardinalities)
    possible = every[ASIA.log_score(every) > -np.inf]
    samples = ek.bbis(ASIA, possible, weights="raw")
    np.testing.assert_allclose([t[0] for t in samples.marginals()], EXACT, atol=1e-4)


def test_connected_supports_need_no_sum():
    table = np.array([[0.5, 0.0, 0.2], [0.1, 0.3, 0.4]])
    model, X = ek.FactorGraph([2, 3], [((0, 1), table)]), np.argwhere(table > 0)
    found, asked = ek.bbis(model, X), ek.bbis(model, X, operator="gibbs", zeros="raise")
    assert (found.hidden, found.operator, asked.note) == ((), "gibbs", "")
    assert found.decision.startswith("The target has zeros: Gibbs updates take the place of shifts")
    np.testing.assert_array_equal(found.weights, asked.weights)
    for target in (model, model.compile()[0]):
        raw = ek.bbis(target, X, weights="raw")
        np.testing.assert_allclose(raw.weights, table[table > 0] / table.sum(), atol=1e-6)
        assert raw.decision == raw.note != ""


def test_collapsed_samples_that_meet_zeros():
    circuit = ASIA.compile()[0]
    for target in (ASIA, circuit):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plain = ek.collapsed_bbis(target, SAMPLES[:50], ["either"] if target is ASIA else [5])
        assert (plain.operator, plain.note) == ("shift", "")
    with pytest.warns(UserWarning, match=r"what the parts of the support weigh.*collapsed_bbis"):
        met = ek.collapsed_bbis(circuit, SAMPLES[:50], [0])
    assert met.operator == "gibbs"


def test_the_advice_of_later_steps_is_accepted():
    table = np.array([[0.5, 0.0, 0.2], [0.1, 0.3, 0.4]])
    model, X = ek.FactorGraph([2, 3], [((0, 1), table)]), np.argwhere(table > 0)
    samples = ek.bbis(model, X)
    with pytest.raises(ek.PropertyError, match=r"zeros: shifting .* Use operator='gibbs', which"):
        samples.reweighted("raw", "shift")
    assert samples.reweighted("raw", "gibbs").operator == "gibbs"
    circuit = ek.factorized([[0.5, 0.0, 0.5], [0.5, 0.5]])
    few = ek.bbis(circuit, [[2, 0], [2, 1]], zeros="restrict")
    assert few.extended([[0, 0]]).n == 3
    strict = ek.bbis(circuit, [[0, 0], [0, 1]])
    assert strict.operator == "shift"  # nothing next to these samples shows a zero
    with pytest.raises(ek.PropertyError, match=r"Give all samples together to bbis.*zeros='auto'"):
        strict.extended([[2, 0]])
    assert ek.bbis(circuit, [[0, 0], [0, 1], [2, 0]], zeros="auto").operator == "gibbs"


def test_positive_targets_are_weighted_by_shifts():
    grid = ek.ising_grid(2, 3, rng=0)
    X = ek.gibbs(grid, 30, rng=0)
    found = ek.bbis(grid, X)
    assert (found.target, found.operator, found.stein.zeros) == (grid, "shift", "raise")
    assert (found.hidden, found.note) == ((), "")
    np.testing.assert_array_equal(found.weights, ek.bbis(grid, X, zeros="raise").weights)


def test_too_large_a_model_is_not_collapsed(monkeypatch):
    """The variables that others determine cannot be summed out within the memory."""
    rng = np.random.default_rng(0)
    factors = [((i, i + 1), rng.random((2, 2)) + 0.1) for i in range(11)]
    model = ek.FactorGraph([2] * 12, [*factors, ((0, 11), np.eye(2))])
    X = model.compile()[0].sample(4, rng=0)
    assert ek.bbis(model, X).hidden == ek.bbis(model, X, max_bytes=3000).hidden == (0,)

    def refuse(*_, **__):
        raise ek.SizeError("too large")

    monkeypatch.setattr(ek.models.CollapsedModel, "__init__", refuse)
    with pytest.warns(UserWarning, match="may not tell what the parts of the support weigh"):
        samples = ek.bbis(model, X, max_bytes=3000)
    assert (samples.hidden, samples.operator) == ((), "gibbs")


@pytest.mark.parametrize("option", [{"zeros": "auto"}, {"zeros": "collapse"}, {"zeros": "smooth"},
                                    {"zeros": "restrict"}, {"operator": "gibbs"}])  # fmt: skip
@pytest.mark.parametrize("call", [ek.bbis, ek.collapsed_bbis])
def test_the_advice_of_weights_is_accepted(call, option):
    ((name, value),) = option.items()
    with pytest.raises(ek.PropertyError, match=f"{name}='{value}'"):
        call(ASIA, SAMPLES, zeros="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parts of the support that are not compared
        assert call(ASIA, SAMPLES, **option).n == 300


CALLS = {
    "SteinKernel": lambda **options: ek.SteinKernel(ASIA, **options)(SAMPLES),
    "CollapsedSteinKernel": lambda **options: ek.CollapsedSteinKernel(
        ASIA.compile()[0], **options
    )(SAMPLES[:20]),
    "kdsd": lambda **options: ek.kdsd(SAMPLES, ASIA, **options),
    "kdsd_test": lambda **options: ek.kdsd_test(
        SAMPLES, ASIA, **({"operator": "shift"} | options)
    ),
}  # fmt: skip


@pytest.mark.parametrize("option", [{"zeros": "restrict"}, {"operator": "gibbs"}])
@pytest.mark.parametrize("call", CALLS)
def test_the_advice_of_discrepancies_is_accepted(call, option):
    ((name, value),) = option.items()
    with pytest.raises(ek.PropertyError, match=f"{name}='{value}'"):
        CALLS[call]()
    CALLS[call](**option)


def test_the_advice_between_circuits_is_accepted():
    p, q = ASIA.compile()[0], ASIA.smoothed().compile(ASIA.vtree)[0]
    with pytest.raises(ek.PropertyError, match=r"kdsd\(q\.sample\(1000\), p, k, zeros='restrict'"):
        ek.kdsd(p, p)
    ek.kdsd(p.sample(1000, rng=0), p, zeros="restrict")
    assert ek.kdsd(p, q) > 0
    with pytest.raises(ek.KernelError, match=r"are shifts.*operator='gibbs'\)"):
        ek.kdsd(p, q, operator="gibbs")
    ek.kdsd(p.sample(1000, rng=0), q, operator="gibbs")


def test_names_of_collapsed_variables_are_listed():
    for call in (
        lambda: ek.collapsed_bbis(ASIA, SAMPLES, ["eithr"]),
        lambda: ek.collapsed_gibbs(ASIA, 3, ["eithr"]),
        lambda: ek.bbis(ASIA, SAMPLES).expect(lambda X: X[:, 0], scope="eithr"),
    ):
        with pytest.raises(ek.EvidenceError, match=r"'either', 'xray'.*Did you mean 'either'"):
            call()
