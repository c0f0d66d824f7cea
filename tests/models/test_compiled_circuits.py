import copy
import pickle
from fractions import Fraction
from math import log, prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_raises
from expectedkernels import SizeError, Vtree, ising_grid
from factor_graphs import factor_graphs, scores
from oracles import worlds
from strategies import rngs

QUESTIONS = {
    "one row": lambda p, rows: p.marginals(rows[0]),
    "rows": lambda p, rows: p.marginals(rows),
    "all": lambda p, rows: p.marginals(),
    "likelihood": lambda p, rows: [p.log_likelihood(rows[1:2])],
    "likelihoods": lambda p, rows: [p.log_likelihood(rows)],
    "complete": lambda p, rows: [p.log_likelihood(np.zeros((3, p.n_variables)))],
    "samples": lambda p, rows: [p.sample(3, 0, rows[0])],
    "units": lambda p, rows: [np.array([p.n_units, p.layers.n_units])],
    "names": lambda p, rows: p.with_names(list(map(str, range(p.n_variables)))).marginals(rows[0]),
}


def stored(circuit, folder):
    ek.save(circuit, folder / "compiled.npz")
    return ek.load(folder / "compiled.npz")


@settings(max_examples=25)
@given(factor_graphs(), rngs, st.lists(st.sampled_from(sorted(QUESTIONS)), max_size=4))
def test_answers_depend_on_the_circuit_and_the_question_only(scratch, model, rng, before):
    points = worlds(model.cardinalities)
    rows = points[rng.choice(np.flatnonzero(scores(model) > 0), size=4)]
    rows = np.where(rng.random(rows.shape) < 0.5, rows, np.nan)
    for vtree in (None, Vtree.right_linear(model.n_variables)):
        fresh, used = (model.compile(vtree)[0] for _ in range(2))
        for question in before:
            QUESTIONS[question](used, rows)
        copies = [pickle.loads(pickle.dumps(used)), copy.deepcopy(used), stored(used, scratch)]
        for ask in QUESTIONS.values():
            expected = ask(fresh, rows)
            for circuit in (used, *copies):
                for one, other in zip(ask(circuit, rows), expected, strict=True):
                    np.testing.assert_array_equal(one, other)


def test_units_that_do_not_fit():
    grid = ising_grid(5, 5, rng=0)
    plan = grid.plan()
    needed = grid.messages.table_bytes
    assert needed < plan.n_bytes
    circuit, _ = grid.compile(max_bytes=needed)
    np.testing.assert_allclose(
        np.array(circuit.marginals({3: 0})), np.array(grid.marginals({3: 0})), atol=1e-13
    )
    assert_raises(SizeError, r"To write out the units of this circuit needs", circuit.sample, 3)
    assert repr(circuit) == "<Circuit of 25 variables: too large to be written out>"
    assert_raises(SizeError, "Compiling this model needs about", grid.compile, max_bytes=needed - 1)


def exact_logs(model, rows):
    """The log-probabilities of rows by sums of rational numbers over all worlds."""
    points = worlds(model.cardinalities)
    values = [
        prod(Fraction(float(f.table[tuple(x[list(f.scope)].astype(int))])) for f in model.factors)
        for x in points
    ]
    allowed = [((row == points) | np.isnan(row)).all(axis=1) for row in rows]
    sums = [sum((v for v, yes in zip(values, given, strict=True) if yes), 0) for given in allowed]
    total = sum(values)
    return np.array([log(x.numerator) - log(x.denominator) for x in (y / total for y in sums)])


def extreme(rng, n, reach):
    """A cycle of variables of two and three states, with factors of any size."""
    cards = rng.integers(2, 4, size=n).tolist()
    scopes = [(v, (v + 1) % n) for v in range(n)] if n > 2 else [(0, 1)]
    tables = [10.0 ** rng.uniform(-reach, reach, size=[cards[v] for v in s]) for s in scopes]
    return ek.FactorGraph(cards, list(zip(scopes, tables, strict=True)))


@settings(max_examples=40)
@given(rngs, st.integers(2, 5), st.sampled_from([100, 160, 300]), st.booleans())
def test_conditionals_below_doubles(rng, n, reach, linear):
    model = extreme(rng, n, reach)
    points = worlds(model.cardinalities)
    rows = np.where(rng.random((12, n)) < 0.6, points[rng.integers(len(points), size=12)], np.nan)
    expected = exact_logs(model, rows)
    circuit, _ = model.compile(Vtree.right_linear(n) if linear else None)
    for asked in (circuit, model):
        np.testing.assert_allclose(asked.log_likelihood(rows), expected, rtol=1e-11, atol=1e-11)
        for v, found in enumerate(asked.marginals(rows)):
            given = np.repeat(rows, model.cardinalities[v], axis=0)
            states = np.tile(np.arange(model.cardinalities[v]), len(rows))
            possible = (given[:, v] == states) | np.isnan(given[:, v])
            given[:, v] = states
            logs = exact_logs(model, given).reshape(found.shape) - expected[:, None]
            shares = np.exp(np.where(possible.reshape(found.shape), logs, -np.inf))
            np.testing.assert_allclose(found, shares, rtol=1e-9, atol=1e-13)
    best = exact_logs(model, model.map(rows))
    completions = [points[((row == points) | np.isnan(row)).all(axis=1)] for row in rows]
    largest = [exact_logs(model, some).max() for some in completions]
    np.testing.assert_allclose(best, largest, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("method", ["context", "boundary"])
@pytest.mark.parametrize("reach", [100, 160])
@pytest.mark.filterwarnings("ignore:.* conditional probabilities of the model are below")
def test_units_hold_all_but_conditionals_below_doubles(method, reach):
    for seed in range(4):
        model = extreme(np.random.default_rng(seed), 4, reach)
        circuit, _ = model.compile(Vtree.right_linear(4), method)
        points = worlds(model.cardinalities)
        found, expected = circuit.written_out().log_likelihood(points), exact_logs(model, points)
        seen = expected > -690.0
        np.testing.assert_allclose(found[seen], expected[seen], rtol=1e-11)
        assert (found[~seen] < -689.0).all()


def test_what_units_cannot_hold_is_said():
    model = ek.FactorGraph([2], [((0,), [1e-200, 1e200])])
    circuit, _ = model.compile()
    np.testing.assert_allclose(circuit.log_likelihood([[0.0]]), -400 * np.log(10.0))
    with pytest.warns(UserWarning, match="1 conditional probabilities of the model are below"):
        units = circuit.written_out()
    assert units.log_likelihood([[0.0]]) == -np.inf
    with pytest.warns(UserWarning, match="1 conditional probabilities of the model are below"):
        model.compile(method="boundary")
