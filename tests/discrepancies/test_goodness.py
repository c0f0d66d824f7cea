import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals, rejected

RARE = ek.factorized([[0.999, 0.001]] * 5)
REPEATS = 150
ABOVE = 0.05 + 3 * np.sqrt(0.05 * 0.95 / REPEATS)
"""A level of 5 % is exceeded by so much in one of a thousand sets of repetitions."""


def model(seed=0):
    grid = ek.ising_grid(2, 3, rng=seed)
    # no state is so rare that samples of this size never see it
    return ek.FactorGraph(grid.cardinalities, [(f.scope, f.table + 0.3) for f in grid.factors])


P = model().circuit()


def share_rejected(source, target, n, rng, repeats=REPEATS, **options):
    test = lambda _: ek.kdsd_test(source(n, rng), target, n_null=19, rng=rng, **options)  # noqa: E731
    return rejected(test, repeats)


@pytest.mark.parametrize("operator", ["gibbs", "shift"])
def test_draws_of_the_model_keep_the_level_and_have_power(operator):
    q, _ = model(1).compile(P.vtree)
    rng = np.random.default_rng(0)
    assert share_rejected(P.sample, P, 40, rng, operator=operator) <= ABOVE
    assert share_rejected(q.sample, P, 40, rng, repeats=30, operator=operator) > 0.5


@pytest.mark.parametrize("operator", ["gibbs", "shift"])
@pytest.mark.parametrize("null", ["model", "gibbs"])
def test_rare_states_keep_the_level(operator, null):
    target = ek.Target(RARE.log_likelihood, [2] * 5)
    rng = np.random.default_rng(1)
    share = share_rejected(RARE.sample, target, 40, rng, repeats=40, operator=operator, null=null)
    assert share <= 0.05


def chain(strength):
    table = [[strength, 1.0], [1.0, strength]]
    return ek.FactorGraph([2] * 6, [([v, v + 1], table) for v in range(5)])


def test_chains_keep_the_level_where_they_hardly_move_and_have_power():
    rng = np.random.default_rng(2)
    assert share_rejected(chain(30.0).sample, chain(30.0), 40, rng, null="gibbs") <= ABOVE
    assert share_rejected(chain(2.0).sample, chain(30.0), 40, rng, repeats=20, null="gibbs") > 0.5


def test_how_samples_are_simulated_follows_from_the_target():
    X, rng = P.sample(10, rng=0), np.random.default_rng(0)
    for target in (P, model(), ek.Target(model().log_score, [2] * 6)):
        assert ek.kdsd_test(X, target, n_null=3, rng=0).drawn == "model"
    assert ek.kdsd_test(X, P, n_null=3, rng=0, change=0.3).drawn == "signs"
    wide = ek.Target(lambda rows: model().log_score(rows[:, :6]), [2] * 19)
    pairs = [([i, j], np.exp(0.05 * rng.normal(size=(2, 2)))) for i in range(48) for j in range(i)]
    for target, n, message in (
        (wide, 19, "a function of more than 262144 states"),
        (ek.FactorGraph([2] * 48, pairs), 48, "too large to compile"),
    ):
        rows = rng.integers(2, size=(20, n))
        assert ek.kdsd_test(rows, target, n_null=9, rng=0).drawn == "gibbs"
        assert_raises(ek.PropertyError, message, ek.kdsd_test, rows, target, null="model")


def test_its_parts():
    X = P.sample(30, rng=0)
    test = ek.kdsd_test(X, model(), ek.ExpHamming(), n_null=99, rng=0)
    assert test.n == 30
    assert len(test.null) == 99
    for operator in ("gibbs", "shift"):
        found = ek.kdsd_test(X, model(), operator=operator, n_null=99, rng=0)
        value = ek.kdsd(X, P, unbiased=True, operator=operator)
        assert found.statistic == pytest.approx(value, rel=1e-10)
        assert (found.statistic == test.statistic) == (operator == "gibbs")
    assert test.p_value == (1 + (test.null >= test.statistic).sum()) / 100
    again = ek.kdsd_test(X, model(), ek.ExpHamming(), n_null=99, rng=0)
    assert again.p_value == test.p_value
    assert "not rejected at 5 %" in str(test)
    with pytest.raises(ValueError, match="read-only"):
        test.null[0] = 1.0
    assert not np.isclose(test.null, test.statistic, rtol=1e-9, atol=0).any()  # seeds are others


def test_several_kernels_are_one_test():
    q, _ = model(1).compile(P.vtree)
    rng = np.random.default_rng(4)
    assert share_rejected(P.sample, P, 40, rng, k="aggregate", repeats=100) <= 0.05 + 3 * 0.022
    X, kernels = q.sample(40, rng=0), [ek.ExpHamming(0.1), ek.ExpHamming(1.0)]
    test = ek.kdsd_test(X, P, kernels, n_null=19, rng=0)
    assert test.kernel in kernels
    singles = [ek.kdsd_test(X, P, kernel, n_null=19, rng=0) for kernel in kernels]
    values = np.array([[one.statistic, *one.null] for one in singles])
    scores = (values - values.mean(axis=1)[:, None]) / values.std(axis=1)[:, None]
    assert_close(np.array([test.statistic, *test.null]), scores.max(axis=0), scale=1.0)
    assert_raises(ek.DataError, "at least one kernel", ek.kdsd_test, X, P, [])


@pytest.mark.parametrize("test", [ek.kdsd_test, ek.mmd_test])
def test_fitted_targets_are_fitted_again(test):
    p = ek.factorized([[0.3, 0.7]] * 3)

    def fit(X):
        return ek.factorized([[1 - m, m] for m in np.clip(X.mean(axis=0), 0.01, 0.99)])

    rng = np.random.default_rng(5)
    samples = [p.sample(40, rng) for _ in range(30)]
    again, once = (
        np.mean([test(X, fit(X), refit=f, n_null=9, rng=rng).p_value for X in samples])
        for f in (fit, None)
    )
    assert 0.4 < again < 0.7  # of ranks among ten, whose mean is 0.55
    assert once > again + 0.2  # fitted models are closer to their samples than the truth is


def test_dependent_samples_need_signs_that_seldom_change():
    rng = np.random.default_rng(1)
    count = {0.5: 0, 0.02: 0}
    for _ in range(60):
        X = np.repeat(P.sample(20, rng), 10, axis=0)  # a chain that moves every tenth step
        for change in count:
            test = ek.kdsd_test(X, P, ek.ExpHamming(), n_null=200, change=change, rng=rng)
            count[change] += test.p_value <= 0.1
    assert count[0.5] > 50
    assert count[0.02] < 20


def test_chains_that_stay_in_their_places_keep_the_level():
    rng = np.random.default_rng(2)

    def test(_):
        fresh = rng.random(100) < 0.5
        X = P.sample(100, rng)[np.cumsum(fresh) - fresh[0]]
        return ek.kdsd_test(X, P, change=0.1, n_null=19, rng=rng)

    assert rejected(test, 150) <= 0.05 + 3 * 0.018


def test_signs_do_not_judge_samples_that_few_rare_ones_outweigh():
    X, message = np.zeros((40, 5)), "Random signs cannot judge these 40 samples"
    assert_raises(ek.DataError, message, ek.kdsd_test, X, RARE, change=0.1)
    assert ek.kdsd_test(X, RARE, rng=0).p_value > 0.5
    X = np.zeros((100, 5))
    X[:2, 0] = 1.0
    own = np.diag(ek.SteinKernel(RARE, ek.ExpHamming(), operator="gibbs")(X))
    count = own.sum() ** 2 / (own**2).sum()
    assert count < 3  # two samples in a rare state, and hardly any weight on the others
    message = rf"they count as {count:.1f}, because rare"
    assert_raises(ek.DataError, message, ek.kdsd_test, X, RARE, null="signs")
    seldom = np.tile(np.repeat(np.eye(5), [2, 0, 0, 0, 0], axis=0), (10, 1))
    X = np.vstack([seldom, np.zeros((180, 5))])
    assert ek.kdsd_test(X, RARE, null="signs", rng=0).p_value < 0.05  # twenty of them are judged
    message = r"With change=0\.05, about 1\d\d\d samples"
    assert_raises(ek.DataError, message, ek.kdsd_test, X, RARE, change=0.05)


def test_signs_keep_the_level_of_a_target_with_rare_states():
    p = ek.factorized([[0.97, 0.03]] * 3)
    rng, count, judged = np.random.default_rng(4), 0, 0
    for _ in range(200):
        X = p.sample(80, rng)
        try:
            count += ek.kdsd_test(X, p, null="signs", n_null=19, rng=rng).p_value <= 0.05
            judged += 1
        except ek.DataError:
            continue
    assert judged > 20
    assert count / 200 <= 0.05 + 3 * 0.0155


FIVE, OTHER_NAN = P.sample(5, rng=0), np.where(np.arange(30).reshape(5, 6) == 2, np.nan, 0.0)


test_mistakes = refusals(ek.DataError, [
    ({"samples": [[0] * 6]}, "at least two samples"),
    ({"samples": OTHER_NAN}, r"NaN in row 0, column 2 \(in 1 of 5 rows\)"),
    ({"n_null": 0}, "'n_null' parameter"),
    ({"n_null": True}, "'n_null' parameter"),
    ({"change": 0.7}, "'change' parameter"),
    ({"change": "seldom"}, "'change' parameter"),
    ({"change": 0.01}, r"at least 50 steps apart\. Got 5 samples"),
    ({"null": "model", "change": 0.1}, "'change' is for the random signs of dependent"),
    ({"null": "normal"}, "'null' parameter of kdsd_test must be 'auto'"),
    ({"refit": P}, "'refit' parameter of a test must be a function"),
    ({"refit": ek.learn_chow_liu, "null": "signs"}, "fitted anew to simulations of the model"),
], lambda options: ek.kdsd_test(**{"samples": FIVE, "target": P} | options))  # fmt: skip
