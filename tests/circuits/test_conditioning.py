"""Conditionals by layers, compared with those made unit by unit."""

import pickle

import numpy as np
import pytest

from assertions import assert_close, assert_raises
from circuit_oracles import drawn_deterministic, drawn_distribution, joint, posterior, sparsified
from expectedkernels import Circuit, EvidenceError
from expectedkernels.circuits.queries import conditional_units
from expectedkernels.data.evidence import as_evidence
from oracles import evidence_as_weights


def n_units(vtree, blocks):
    """The number of units of the circuit of blocks, where equal ones may differ by rounding."""
    return Circuit.from_blocks(vtree, [b.refilled(b.flat[0].round(12)) for b in blocks]).n_units


@pytest.mark.parametrize("form", [lambda p: p, sparsified])
@pytest.mark.parametrize("drawn", [drawn_distribution, drawn_deterministic])
@pytest.mark.parametrize("seed", range(8))
def test_conditionals_have_the_right_values_and_no_more_units(seed, drawn, form):
    p = form(drawn(seed))
    x = p.sample(1, rng=seed)
    x[0, np.random.default_rng(seed).random(x.shape[1]) < 0.5] = np.nan
    evidence = as_evidence(x, p.schema)
    found = p.condition(x[0])
    blocks = found.blocks
    assert_close(joint(found), posterior(p, evidence_as_weights(x, p.cardinalities)))
    assert found.n_units == Circuit.from_blocks(p.vtree, blocks).n_units
    assert n_units(p.vtree, blocks) <= 1.1 * n_units(p.vtree, conditional_units(p, evidence))


def test_what_plain_numbers_cannot_tell():
    real = drawn_distribution(1, share_real=1.0)
    assert "blocks" in vars(real.normalize())
    p = drawn_deterministic(0)
    weights = [np.zeros((1, card)) for card in p.cardinalities]
    assert_raises(EvidenceError, "row 0 has probability zero", p.condition, weights)


def test_blocks_are_cut_once_when_they_are_asked_for():
    p = drawn_deterministic(3)
    found = p.condition({0: int(p.sample(1, rng=0)[0, 0])})
    assert "blocks" not in vars(found)
    copied = pickle.loads(pickle.dumps(found))
    assert found.blocks is found.blocks
    assert copied.vtree == found.vtree
    assert_close(joint(copied), joint(found))
    with pytest.raises(AttributeError, match="A Circuit has no attribute 'block'"):
        _ = found.block
