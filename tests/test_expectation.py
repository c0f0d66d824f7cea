"""What `explain` says of a call, against what the call does."""

import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels.circuits.operands import JointPass
from oracles import with_holes


class Watched:
    """What a call does: how many passes, with how many steps, by layers or not."""

    def __init__(self, monkeypatch):
        self.passes = self.folded = self.steps = 0
        values = JointPass.values

        def watched(joint):
            if joint.kernel.operands:  # that is no likelihood
                self.passes += 1
                self.folded += joint.by_layers
                self.steps += joint.n_steps
            return values(joint)

        monkeypatch.setattr(JointPass, "values", watched)


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
    assert (seen.passes, seen.steps) == (said.parts, said.steps)
    assert seen.folded == (said.parts if said.path == "folded" else 0)
    assert np.size(values) == np.prod(said.shape)
    assert said.n_bytes <= options.get("max_bytes", 2**30)
    if name == "little memory":
        assert said.parts > 1
