"""Targets with zeros, impossible rows, and samples of weight zero."""

import warnings
from functools import partial

import numpy as np
import pytest

import expectedkernels as ek
import networks
from assertions import assert_all_close, assert_close, assert_raises, refusals

ASIA = ek.asia()
SAMPLES = ASIA.compile()[0].sample(300, rng=0)
RULES = ("default", "raw", "smoothed", "signed", "uniform")


def test_asia_works_as_it_is():
    samples = ek.bbis(ASIA, SAMPLES)
    assert samples.decision.startswith("The target has zeros: 'either' is marginalised")
    assert (samples.hidden, samples.operator) == ((5,), "gibbs")
    np.testing.assert_allclose([t[0] for t in samples.marginals()], networks.ASIA, atol=0.05)
    again = ek.bbis(ASIA, SAMPLES[:200]).extended(SAMPLES[200:])
    np.testing.assert_allclose(again.weights, samples.weights, atol=1e-7)
    assert ek.kdsd_test(SAMPLES, ASIA, rng=0).p_value > 0.01
    guesses = SAMPLES.copy()
    guesses[:, 2] = 0
    assert ek.kdsd_test(guesses, ASIA, rng=0).p_value < 0.01


TABLE = np.array([[0.5, 0.0, 0.2], [0.1, 0.3, 0.4]])
CONNECTED, POSSIBLE = ek.FactorGraph([2, 3], [((0, 1), TABLE)]), np.argwhere(TABLE > 0)
MASSES = TABLE[TABLE > 0] / TABLE.sum()


def test_connected_supports_need_no_sum():
    model, X = CONNECTED, POSSIBLE
    found, asked = ek.bbis(model, X), ek.bbis(model, X, operator="gibbs", zeros="raise")
    assert (found.hidden, found.operator, asked.note) == ((), "gibbs", "")
    assert found.decision.startswith("The target has zeros: Gibbs updates take the place of shifts")
    np.testing.assert_array_equal(found.weights, asked.weights)
    for target in (model, model.compile()[0]):
        raw = ek.bbis(target, X, weights="raw")
        np.testing.assert_allclose(raw.weights, MASSES, atol=1e-6)
        assert raw.decision == raw.note != ""
    for rule in RULES:
        samples = ek.bbis(model, X, weights=rule, operator="gibbs")
        assert samples.gram is None
        w, gram = samples.weights, samples.updates_gram
        assert_close(samples.discrepancy, max(0.0, w @ gram @ w), np.abs(gram).max())
    grown = ek.bbis(model, X[:3], weights="raw", operator="gibbs").extended(X[3:])
    np.testing.assert_allclose(grown.weights, MASSES, atol=1e-6)


def test_zeros_of_functions():
    target, X = ek.Target(CONNECTED.log_score, [2, 3]), POSSIBLE
    with pytest.warns(UserWarning, match="not known whether changes of single variables connect"):
        samples = ek.bbis(target, X, weights="raw")
    assert samples.operator == "gibbs"
    assert "Gibbs updates take the place of shifts" in samples.decision
    np.testing.assert_allclose(samples.weights, MASSES, atol=1e-6)
    ek.bbis(target, X, operator="gibbs")  # without a warning
    ek.kdsd_test(X, target, rng=0)
    assert_raises(ek.PropertyError, "zeros='restrict'", ek.bbis, target, X, zeros="raise")
    for remedy in ("collapse", "smooth"):
        assert_raises(ek.PropertyError, "FactorGraph", ek.bbis, target, X, zeros=remedy)


def test_collapsed_samples_that_meet_zeros():
    circuit = ASIA.compile()[0]
    for target in (ASIA, circuit):
        plain = ek.collapsed_bbis(target, SAMPLES[:50], ["either"] if target is ASIA else [5])
        assert (plain.operator, plain.note) == ("shift", "")
    with pytest.warns(UserWarning, match=r"what the parts of the support weigh.*collapsed_bbis"):
        met = ek.collapsed_bbis(circuit, SAMPLES[:50], [0])
    assert met.operator == "gibbs"


def test_the_advice_of_later_steps_is_accepted():
    samples = ek.bbis(CONNECTED, POSSIBLE)
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


REMEDIES = [{"zeros": "restrict"}, {"operator": "gibbs"}]
OF_WEIGHTS = [{"zeros": "auto"}, {"zeros": "collapse"}, {"zeros": "smooth"}]
REFUSED = {
    "bbis": ({"zeros": "raise"}, partial(ek.bbis, ASIA, SAMPLES)),
    "collapsed_bbis": ({"zeros": "raise"}, partial(ek.collapsed_bbis, ASIA, SAMPLES)),
    "SteinKernel": ({}, lambda **options: ek.SteinKernel(ASIA, **options)(SAMPLES)),
    "CollapsedSteinKernel": (
        {},
        lambda **options: ek.CollapsedSteinKernel(ASIA.circuit(), **options)(SAMPLES[:20]),
    ),
    "kdsd": ({}, partial(ek.kdsd, SAMPLES, ASIA)),
    "kdsd_test": ({"operator": "shift"}, partial(ek.kdsd_test, SAMPLES, ASIA)),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
def test_the_advice_is_accepted(name):
    options, call = REFUSED[name]
    for remedy in REMEDIES + (OF_WEIGHTS if "bbis" in name else []):
        ((argument, value),) = remedy.items()
        assert_raises(ek.PropertyError, f"{argument}='{value}'", call, **options)
        call(**(options | remedy))


def test_the_advice_between_circuits_is_accepted():
    p, q = ASIA.compile()[0], ASIA.smoothed().compile(ASIA.vtree)[0]
    assert_raises(ek.PropertyError, r"kdsd\(q\.sample\(1000\), p, k, zeros=", ek.kdsd, p, p)
    ek.kdsd(p.sample(1000, rng=0), p, zeros="restrict")
    assert ek.kdsd(p, q) > 0
    assert_raises(ek.KernelError, r"are shifts.*operator='gibbs'", ek.kdsd, p, q, operator="gibbs")
    ek.kdsd(p.sample(1000, rng=0), q, operator="gibbs")


def test_names_of_collapsed_variables_are_listed():
    for call in (
        lambda: ek.collapsed_bbis(ASIA, SAMPLES, ["eithr"]),
        lambda: ek.collapsed_gibbs(ASIA, 3, ["eithr"]),
        lambda: ek.bbis(ASIA, SAMPLES).expect(lambda X: X[:, 0], scope="eithr"),
    ):
        assert_raises(ek.EvidenceError, r"'either', 'xray'.*Did you mean 'either'", call)


N = 60


def model_with_zeros(rng):
    d = int(rng.integers(3, 6))
    cards = rng.integers(2, 4, size=d).tolist()
    factors = []
    for _ in range(d + 1):
        scope = rng.choice(d, size=int(rng.integers(1, 4)), replace=False).tolist()
        table = rng.gamma(1.0, size=[cards[v] for v in scope])
        table[rng.random(table.shape) < 0.3] = 0.0
        factors.append((scope, table))
    return ek.FactorGraph(cards, factors)


def campaign(budget, n_models):
    """Models, samples of `cis` of which some have weight zero, and the others alone."""
    seed = 0
    while n_models:
        seed += 1
        model = model_with_zeros(np.random.default_rng(seed))
        try:
            samples = ek.cis(model, N, budget, rng=seed)
        except ek.PropertyError:  # the model or all samples are impossible
            continue
        used = np.flatnonzero(samples.weights)
        complete = not np.isnan(samples.rows[used]).any()
        if 20 <= len(used) < N and (budget or complete):
            n_models -= 1
            logs = samples.log_weights[used]
            few = ek.WeightedSamples(
                model, samples.rows[used], samples.weights[used], log_weights=logs
            )
            yield model, samples, few, used


def assert_kept(found, expected, used):
    """All weights have those of the samples that count, and zeros for the others."""
    assert len(found) == N
    np.testing.assert_allclose(found[used], expected, rtol=1e-9, atol=1e-12)
    assert not np.delete(found, used).any()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
def test_weights_of_samples_with_weight_zero(rule):
    close = {"rtol": 1e-9, "atol": 1e-12}
    for budget, weighted in ((0, ek.bbis), (2, ek.collapsed_bbis)):
        for model, samples, few, used in campaign(budget, 15):
            found, expected = (weighted(model, some, weights=rule) for some in (samples, few))
            assert_kept(found.weights, expected.weights, used)
            np.testing.assert_allclose(found.discrepancy, expected.discrepancy, **close)
            again, wanted = (some.reweighted("raw").weights for some in (found, expected))
            assert_kept(again, wanted, used)
            assert_all_close(found.marginals(), expected.marginals(), **close)


@pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
def test_samples_with_weight_zero_that_are_added_later():
    for model, samples, few, used in campaign(2, 8):
        start = ek.collapsed_bbis(model, few)
        found = start.extended(samples, log_weights=samples.log_weights).weights
        expected = start.extended(few, log_weights=few.log_weights).weights
        n = len(used)
        np.testing.assert_allclose(found[:n], expected[:n], rtol=1e-9, atol=1e-12)
        assert_kept(found[n:], expected[n:], used)


@pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
def test_thinning_and_discrepancies_ignore_samples_of_weight_zero():
    k = ek.ExpHamming()
    for model, samples, few, used in campaign(0, 20):
        chosen = ek.stein_thin(model, samples, 5)
        np.testing.assert_array_equal(chosen, used[ek.stein_thin(model, few, 5)])
        other, found = model.sample(20, rng=0), []
        for x in (samples, few):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found.append([ek.mmd2(x, model), ek.mmd2(other, x, k)])
                for unbiased in (False, True):
                    found[-1].append(ek.kdsd(x, model, operator="gibbs", unbiased=unbiased))
                found[-1] += ek.witness(x, model, k, other).tolist()
                found[-1] += ek.log_partition_estimate(model, x, rng=0)
        np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)


def test_weights_that_are_given_leave_samples_out():
    grid = ek.ising_grid(3, 3, rng=0)
    rows = ek.gibbs(grid, 60, burn_in=10, thin=2, rng=0).astype(float)
    weights = np.ones(60)
    weights[::7] = 0.0
    few = rows[weights > 0]
    rows[::7] = NAN
    found = ek.log_partition_estimate(grid, rows, weights=weights, rng=0)
    np.testing.assert_allclose(found, ek.log_partition_estimate(grid, few, rng=0))
    logs = np.where(weights > 0, 0.0, -np.inf)
    found = ek.bbis(grid, rows, log_weights=logs).weights
    expected = ek.bbis(grid, few, log_weights=logs[weights > 0]).weights
    np.testing.assert_allclose(found[weights > 0], expected)
    assert not found[::7].any()
    points = ek.Empirical(rows, weights / weights.sum())
    np.testing.assert_allclose(ek.mmd2(points, grid), ek.mmd2(few, grid), rtol=1e-9)


def test_all_samples_with_weight_zero():
    grid, none = ek.ising_grid(2, 2, rng=0), ek.Empirical(np.zeros((2, 4)), [0.0, 0.0])
    assert_raises(ek.DataError, "All 2 samples have weight zero", ek.stein_thin, grid, none, 1)


NAN = np.nan
TABLES = [((2, 3), [[1.0, 2.0], [3.0, 4.0]]), ((1, 2), [[1.0, 2.0], [3.0, 4.0]])]
EQUAL = ek.FactorGraph([2, 2, 2, 2], [((0, 1), np.eye(2)), *TABLES])
"""The first two variables are equal."""
CIRCUIT = EQUAL.circuit()
FUNCTION = ek.Target(EQUAL.log_score, [2] * 4)
ROWS = "1111", "1100", "0011", "1111", "0001", "1100", "1110", "0000"
GOOD = np.array([[*row] for row in ROWS], dtype=float)
"""Sorted and without repeats, the rows have other places than here."""
MANY = np.tile(GOOD, (5, 1))
BAD, GAP, MANY_BAD, MANY_GAP = GOOD.copy(), GOOD.copy(), MANY.copy(), MANY.copy()
BAD[6] = MANY_BAD[36] = [0, 1, 0, 0]
GAP[6, 3] = MANY_GAP[36, 3] = NAN
OPEN = BAD.copy()
OPEN[:, 3] = NAN
HALF_OPEN = BAD.copy()
HALF_OPEN[:, 2:] = NAN
IGNORED = np.r_[0.0, np.full(7, 1 / 7)]
"""Weights that leave the first row out."""

BAD_LATER, GAP_LATER = ek.Empirical(BAD, IGNORED), ek.Empirical(GAP, IGNORED)
OTHERS = ek.Empirical(np.where(np.isnan(GAP), 7, GAP), IGNORED)


def raw_gibbs(X):
    return ek.bbis(EQUAL, X, weights="raw", operator="gibbs", zeros="raise")


ignored = pytest.mark.filterwarnings("ignore:Gibbs updates may not tell")
test_errors_name_the_row_of_the_table_that_was_given = ignored(refusals(ek.CircuitError, [
    (*row, r"row 6\b") for row in [
        (raw_gibbs, BAD),
        *((ek.bbis, target, BAD) for target in (CIRCUIT, FUNCTION)),
        (ek.bbis, CIRCUIT, BAD_LATER),
        (ek.bbis, EQUAL, GAP_LATER),
        (ek.collapsed_bbis, CIRCUIT, OPEN),
        (lambda X: ek.bbis(CIRCUIT, GOOD).extended(X), BAD),
        (lambda X: ek.collapsed_bbis(CIRCUIT, GOOD, [3]).extended(X), OPEN),
        *((ek.stein_thin, EQUAL, X, 3) for X in (BAD, OPEN, BAD_LATER)),
        (partial(ek.kdsd, operator="gibbs"), BAD, EQUAL),
        (partial(ek.kdsd, operator="gibbs"), BAD_LATER, EQUAL),
        (partial(ek.kdsd, zeros="restrict"), BAD, CIRCUIT),
        (ek.kdsd, GAP, EQUAL),
        *((partial(ek.kdsd_test, null=null, rng=0), BAD, EQUAL) for null in ("auto", "signs")),
        (ek.SteinKernel(EQUAL, operator="gibbs"), BAD),
        (ek.WeightedSamples(EQUAL, OPEN).marginals,),
        (ek.WeightedSamples(EQUAL, OPEN).expect, lambda X: X[:, 3]),
        (ek.WeightedSamples(EQUAL, HALF_OPEN).expect, lambda X: X[:, 2] * X[:, 3]),
        (ek.WeightedSamples(EQUAL, OPEN).expect, CIRCUIT),
        *((ek.mmd2, X, EQUAL) for X in (GAP, GAP_LATER, OTHERS)),
        (ek.mmd2, GAP_LATER, GOOD, ek.ExpHamming()),
    ]
], lambda call, *arguments: call(*arguments)))  # fmt: skip


@pytest.mark.parametrize("weights", [None, "default", np.r_[0.0, np.ones(39)]])
@pytest.mark.parametrize("rows", [MANY_BAD, MANY_GAP])
@pytest.mark.parametrize("order", [1, -1])  # the proposal is learned from the first half
def test_partition_functions_name_the_row_of_the_table_that_was_given(weights, rows, order):
    weights = weights[::order] if isinstance(weights, np.ndarray) else weights
    for target in (EQUAL, CIRCUIT):
        with pytest.raises(ek.DataError, match=rf"row {36 if order == 1 else 3}\b"):
            ek.log_partition_estimate(target, rows[::order], weights=weights, rng=0)
