"""Discrepancies are between distributions: what does not sum to one is refused."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close, assert_raises

P = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
HEAVY = ek.factorized([[1.0, 1.0], [0.2, 0.8]], normalized=False)
UNIT = ek.Product([ek.Categorical(0, [1.0, 1.0]), ek.Categorical(1, [0.2, 0.8])])
LIGHT = ek.Empirical([[0, 1], [1, 1]], [0.25, 0.5])
K = ek.ExpHamming()
SUMS = r"must sum to one.*\(its log_partition\(\)\) is 0\.693147; normalize\(\)"
WEIGHTS = r"weights of points must sum to one.* These sum to 0\.75: divide"


@pytest.mark.parametrize("ask", [
    lambda x: ek.mmd(P, x, K),
    lambda x: ek.mmd(x, P, K),
    lambda x: ek.mmd2(x, [[0, 1]], K),
    lambda x: ek.witness(x, P, K, [[0, 1]]),
    lambda x: ek.witness(P, x, K, [[0, 1]]),
    lambda x: ek.kdsd(x, P, K),
])  # fmt: skip
def test_what_does_not_sum_to_one_is_refused(ask):
    for x in (HEAVY, UNIT):
        assert_raises(ek.PropertyError, SUMS, ask, x)
    assert_raises(ek.DataError, WEIGHTS, ask, LIGHT)
    ask(HEAVY.normalize())


def test_targets_need_no_normaliser():
    assert_close(ek.kdsd(P, HEAVY, K), ek.kdsd(P, HEAVY.normalize(), K), 1.0)
    points = P.sample(20, rng=0)
    same = [ek.kdsd_test(points, p, K, rng=0).statistic for p in (HEAVY, HEAVY.normalize())]
    assert_close(same[0], same[1])


def test_signed_weights_that_sum_to_one_are_fine():
    q = ek.Empirical([[0, 1], [1, 1]], [1.5, -0.5])
    assert ek.mmd(P, q, K) > 0
    assert np.isfinite(ek.kdsd(q, P, K))


@pytest.mark.parametrize(("off", "fine"), [(5e-7, True), (2e-6, False)])
def test_rounding_is_not_refused(off, fine):
    p = ek.factorized([[0.5, 0.5 + off]], normalized=False)
    if fine:
        ek.mmd2(p, [[0]], K)
    else:
        with pytest.raises(ek.PropertyError, match="A discrepancy is between distributions"):
            ek.mmd2(p, [[0]], K)


def test_single_precision_has_a_wider_tolerance_and_gradients_pass():
    torch = pytest.importorskip("torch")
    for dtype, off in ((torch.float32, 2e-4), (torch.float64, 2e-7)):
        table = torch.tensor([[0.5, 0.5 + off]], dtype=dtype, requires_grad=True)
        p = ek.Circuit(ek.Vtree.balanced(1), (type(P.input(0))(table),))
        q = ek.factorized([[0.25, 0.75]]).to("torch") if dtype == torch.float64 else p
        value = ek.mmd2(p, q, ek.Delta())
        value.backward()
        assert table.grad is not None
    table = torch.tensor([[0.5, 0.5 + 2e-4]], dtype=torch.float64)
    p = ek.Circuit(p.vtree, (type(P.input(0))(table),))
    assert_raises(ek.PropertyError, "sum to one", ek.mmd2, p, q, ek.Delta())
