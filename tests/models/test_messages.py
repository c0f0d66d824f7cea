"""Messages along cliques: rows answered one by one, tables cut down, and who messages."""

from math import log
from unittest.mock import patch

import numpy as np
from hypothesis import given

import expectedkernels as ek
from expectedkernels.models import messages
from factor_graphs import factor_graphs, scores
from oracles import worlds
from strategies import rngs


@given(factor_graphs(), rngs)
def test_tables_are_cut_down_to_what_is_observed(model, rng):
    points = worlds(model.cardinalities)
    row = points[rng.choice(np.flatnonzero(scores(model) > 0))]
    row = np.where(rng.random(len(row)) < 0.5, row, np.nan)
    mixed = [
        (np.arange(card) == row[v])[None] * 0.5 if row[v] >= 0 else rng.random((1, card))
        for v, card in enumerate(model.cardinalities)
    ]
    circuit, _ = model.compile()
    for evidence in (row, mixed):
        expected = model.marginals(evidence), model.log_partition(evidence)
        with patch.object(messages, "CUT", 0):
            for asked in (model, circuit):
                for ours, theirs in zip(asked.marginals(evidence), expected[0], strict=True):
                    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(
                model.log_partition(evidence), expected[1], rtol=1e-12, atol=1e-13
            )


def test_single_rows_of_tiny_probabilities():
    tiny = 1e-200
    skew = np.array([[1.0 - tiny, tiny], [tiny, 1.0 - tiny]])
    parents = [[], [0], [0], [0], [1], [4]]
    circuit, _ = ek.BayesianNetwork(parents, [np.full(2, 0.5), *[skew] * 5]).compile()
    plan = circuit.shortcuts.plan
    assert plan.is_small
    points = worlds([2] * 6).astype(int)
    logs = log(0.5) + sum(np.log(skew[points[:, p[0]], points[:, v + 1]])
                          for v, p in enumerate(parents[1:]))  # fmt: skip
    ways = set()
    for row in np.ndindex(*[3] * 6):
        states = np.array(row) - 1
        if (states >= 0).all() or (states < 0).all():
            continue
        ways.add(messages.solve_states(plan, states.tolist()) is None)
        fits = ((states < 0) | (points == states)).all(axis=1)
        seen = np.where(states < 0, np.nan, states)
        found = circuit.log_likelihood(seen[None])[0]
        wanted = np.logaddexp.reduce(logs[fits])
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        shares = np.exp(logs[fits] - wanted)
        for v, share in enumerate(circuit.marginals(seen)):
            np.testing.assert_allclose(share, np.bincount(points[fits, v], shares, 2), atol=1e-12)
    assert ways == {True, False}
