import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import DataError, EvidenceError, KernelError


def with_holes(X, share, seed=0):
    X = np.array(X, dtype=float)
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


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
    # two leaves: four pairs of states, summed over one side and then over the other; one product
    assert ek.explain(p, p, ek.RBF(1.0)).operations == 2 * (4 + 8 + 4) + 1
    small, large = (ek.random_circuit(ek.Vtree.balanced(8), n, rng=0) for n in (4, 8))
    counts = [ek.explain(c, c, ek.RBF(1.0)).operations for c in (small, large)]
    assert 4 * counts[0] < counts[1] < 9 * counts[0]
    twice = ek.explain(small, small, ek.RBF(1.0) + ek.RBF(2.0))
    assert twice.operations > 1.9 * counts[0]
    assert "kernel with 2 terms" in str(twice)


def test_blocks_of_points_are_counted():
    said = ek.explain(np.zeros((2049, 3)), np.zeros((5, 3)), ek.RBF(1.0))
    assert said.path == "points"
    assert (said.parts, said.shape) == (3, (2049, 5))
    assert "3 blocks of at most 1024 x 1024 pairs" in str(said)
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
