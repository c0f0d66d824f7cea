import numpy as np
import pytest

import expectedkernels as ek


def model(seed=0):
    grid = ek.ising_grid(2, 3, rng=seed)
    # no state is so rare that samples of this size never see it
    return ek.FactorGraph(grid.cardinalities, [(f.scope, f.table + 0.3) for f in grid.factors])


def test_it_keeps_its_level_and_has_power():
    p, _ = model().compile()
    q, _ = model(1).compile(p.vtree)
    rng = np.random.default_rng(0)

    def share(source, n):
        tests = [
            ek.kdsd_test(source.sample(n, rng), p, ek.ExpHamming(), n_bootstrap=200, rng=rng)
            for _ in range(100)
        ]
        return np.mean([test.p_value <= 0.1 for test in tests])

    # a level of 0.1 over 100 tests has a standard error of 0.03
    assert share(p, 50) < 0.1 + 4 * 0.03
    assert share(q, 50) > 0.5


def test_its_parts():
    p, _ = model().compile()
    X = p.sample(30, rng=0)
    test = ek.kdsd_test(X, model(), ek.ExpHamming(), n_bootstrap=99, rng=0)
    assert test.n == 30
    assert len(test.bootstrap) == 99
    for operator in ("gibbs", "shift"):
        found = ek.kdsd_test(X, model(), operator=operator, n_bootstrap=99, rng=0)
        value = ek.kdsd(X, p, unbiased=True, operator=operator)
        assert found.statistic == pytest.approx(value, rel=1e-10)
        assert (found.statistic == test.statistic) == (operator == "gibbs")
    assert test.p_value == (1 + (test.bootstrap >= test.statistic).sum()) / 100
    again = ek.kdsd_test(X, model(), ek.ExpHamming(), n_bootstrap=99, rng=0)
    assert again.p_value == test.p_value


def test_dependent_samples_need_signs_that_seldom_change():
    p, _ = model().compile()
    rng = np.random.default_rng(1)
    rejected = {0.5: 0, 0.02: 0}
    for _ in range(60):
        X = np.repeat(p.sample(20, rng), 10, axis=0)  # a chain that moves every tenth step
        for change in rejected:
            test = ek.kdsd_test(X, p, ek.ExpHamming(), n_bootstrap=200, change=change, rng=rng)
            rejected[change] += test.p_value <= 0.1
    assert rejected[0.5] > 50
    assert rejected[0.02] < 20


def test_mistakes():
    p, _ = model().compile()
    with pytest.raises(ek.DataError, match="at least two samples"):
        ek.kdsd_test([[0] * 6], p, ek.ExpHamming())
    with pytest.raises(ek.DataError, match="'n_bootstrap' parameter"):
        ek.kdsd_test(p.sample(5, rng=0), p, ek.ExpHamming(), n_bootstrap=0)
    with pytest.raises(ek.DataError, match="'change' parameter"):
        ek.kdsd_test(p.sample(5, rng=0), p, ek.ExpHamming(), change=0.7)
    with pytest.raises(ek.DataError, match="'change' parameter"):
        ek.kdsd_test(p.sample(5, rng=0), p, ek.ExpHamming(), change="seldom")
    with pytest.raises(ek.DataError, match="'n_bootstrap' parameter"):
        ek.kdsd_test(p.sample(5, rng=0), p, ek.ExpHamming(), n_bootstrap=True)
    with pytest.raises(ek.CircuitError, match="'rng' parameter must be a non-negative int"):
        ek.kdsd_test(p.sample(5, rng=0), p, ek.ExpHamming(), rng=-1)
