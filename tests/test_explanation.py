import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import DataError, EvidenceError, KernelError
from expectedkernels.engine import sweep as engine
from expectedkernels.kernels import gram as grams
from expectedkernels.kernels.kernel import BLOCK


def with_holes(X, share, seed=0):
    X = np.array(X, dtype=float)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


class Watched:
    """What a call does: how many sweeps, with how many steps, folded or not."""

    def __init__(self, monkeypatch):
        self.sweeps = self.folded = self.steps = 0
        run, visit, sweep = engine._run, engine.visit, grams.sweep

        def watched_run(plan, *rest):
            self.folded += 1
            self.steps += len(plan.steps)
            return run(plan, *rest)

        def watched_visit(*args):
            for found in visit(*args):
                self.steps += 1
                yield found

        def watched_sweep(*args):
            self.sweeps += 1
            monkeypatch.setattr(engine, "_run", watched_run)
            monkeypatch.setattr(engine, "visit", watched_visit)
            try:
                return sweep(*args)
            finally:
                monkeypatch.setattr(engine, "_run", run)
                monkeypatch.setattr(engine, "visit", visit)

        monkeypatch.setattr(grams, "sweep", watched_sweep)


def dense():
    return ek.random_circuit(ek.Vtree.balanced(12), 6, rng=0)


CALLS = {
    "circuits": lambda p: ((p, p), {}),
    "points": lambda p: ((p, p.sample(50, rng=0)), {}),
    "one row": lambda p: ((p, p), {"evidence_p": with_holes(p.sample(1, rng=0), 0.5)}),
    "rows": lambda p: ((p, p), {"evidence_p": with_holes(p.sample(20, rng=0), 0.5),
                                "evidence_q": with_holes(p.sample(3, rng=1), 0.5)}),
    "many rows": lambda p: ((p, p.sample(20, rng=0)),
                            {"evidence_p": with_holes(p.sample(90, rng=0), 0.5)}),
    "little memory": lambda p: ((p, p.sample(40, rng=0)),
                                {"evidence_p": with_holes(p.sample(90, rng=0), 0.5),
                                 "max_bytes": 2**19}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_call_does_what_is_said(monkeypatch, name):
    (p, q), options = CALLS[name](dense())
    k = ek.RBF(0.1) + ek.ExpHamming()
    said = ek.explain(p, q, k, **options)
    seen = Watched(monkeypatch)
    values = ek.expected_kernel(p, q, k, **options)
    assert (seen.sweeps, seen.steps) == (said.parts, said.steps)
    assert seen.folded == (said.parts if said.path == "folded" else 0)
    assert np.size(values) == np.prod(said.shape)
    assert said.n_bytes <= options.get("max_bytes", 2**30)
    if name == "little memory":
        assert said.parts > 1


def test_conditionals_are_said_to_be_taken_where_they_are(data_dir):
    p = ek.read_psdd(data_dir / "psdd" / "abalone.psdd")
    E = with_holes(p.sample(40, rng=0), 0.5)
    said = ek.explain(p, p, ek.RBF(0.1), evidence_p=E, evidence_q=E)
    assert said.forms == ("conditionals", "conditionals")
    assert "given 40 rows of evidence: the conditionals as one circuit" in str(said)
    assert "not by conditionals x patterns: " in str(said)
    assert "sparse matrices of weights" in str(said)


def test_operations_are_counted():
    p = ek.factorized([[0.5, 0.5], [0.2, 0.8]])
    # two leaves of one pair of units, one product
    assert ek.explain(p, p, ek.RBF(1.0)).operations == 5
    small, large = (ek.random_circuit(ek.Vtree.balanced(8), n, rng=0) for n in (4, 8))
    counts = [ek.explain(c, c, ek.RBF(1.0)).operations for c in (small, large)]
    assert 4 * counts[0] < counts[1] < 9 * counts[0]
    twice = ek.explain(small, small, ek.RBF(1.0) + ek.RBF(2.0))
    assert twice.operations > 1.9 * counts[0]
    assert "kernel with 2 terms" in str(twice)


def test_blocks_of_points_are_counted():
    said = ek.explain(np.zeros((2 * BLOCK + 1, 3)), np.zeros((5, 3)), ek.RBF(1.0))
    assert said.path == "points"
    assert (said.parts, said.shape) == (3, (2 * BLOCK + 1, 5))
    assert ek.explain(ek.Empirical([[0.0]]), [[1.0]], ek.RBF(1.0)).shape == (1, 1)


def test_mistakes_are_told_as_by_the_call():
    p = ek.factorized([[1.0, 0.0]])
    with pytest.raises(KernelError, match="must be an expectedkernels kernel"):
        ek.explain(p, p, "rbf")
    with pytest.raises(EvidenceError, match="row 0 has probability zero"):
        ek.explain(p, p, ek.RBF(1.0), evidence_p=[[1]])
    with pytest.raises(DataError, match="Evidence conditions circuits"):
        ek.explain([[0]], [[1]], ek.RBF(1.0), evidence_p=[[1]])


def test_places_of_circuits():
    pytest.importorskip("torch")
    p = ek.random_circuit(3, 2, rng=0)
    assert " in torch on cpu: as it is" in str(
        ek.explain(p.to("torch"), p.to("torch"), ek.RBF(1.0))
    )
    assert " on cpu" not in str(ek.explain(p, p, ek.RBF(1.0)))
