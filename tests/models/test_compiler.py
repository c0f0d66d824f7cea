"""Compiled circuits: distributions, sizes, ranges, and answers without units."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import expectedkernels as ek
from assertions import assert_all_close, assert_raises, refusals
from expectedkernels import SizeError, Vtree, ising_grid
from factor_graphs import factor_graphs, random_chain, row_by_row, scores
from oracles import EXACT, Inner, distribution, log_of, worlds
from strategies import rngs, vtrees

GRID_MARGINALS = [
    [0.465698, 0.055924, 0.210891, 0.276034],
    [0.688824, 0.059906, 0.148000, 0.734724],
    [0.488214, 0.222368, 0.137453, 0.192583],
    [0.971414, 0.058589, 0.211428, 0.489945],
]


def check(model, vtree, method):
    """Compare a compiled circuit with the enumeration of all worlds."""
    circuit, log_z = model.compile(vtree, method)
    expected = scores(model)
    np.testing.assert_allclose(log_z, np.log(expected.sum()), rtol=1e-12, atol=1e-12)
    expected = expected / expected.sum()
    np.testing.assert_allclose(distribution(circuit), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(circuit.log_partition(), 0.0, atol=1e-12)
    assert circuit.vtree == (model.vtree if vtree is None else vtree)
    assert circuit.cardinalities == model.cardinalities
    found = ek.properties(circuit)
    assert all((found.smooth, found.structured_decomposable, found.deterministic))
    np.testing.assert_allclose(model.log_partition(), log_z, rtol=0, atol=1e-12)
    for block in circuit.blocks:  # every unit is a distribution
        rows = block.csr if isinstance(block, Inner) else block.table
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-12)


@given(factor_graphs(), st.data(), st.sampled_from(["order", "right", "left"]))
def test_any_vtree(model, data, form):
    check(model, None, None)
    vtree = data.draw(vtrees(model.n_variables))
    check(model, vtree, data.draw(st.sampled_from([None, "boundary"])))
    for tree, compiled in ((None, model.compile()[0]), (vtree, model.compile(vtree)[0])):
        circuit = model.circuit(tree)
        assert (circuit.vtree, circuit.names) == (compiled.vtree, compiled.names)
        np.testing.assert_allclose(distribution(circuit), distribution(compiled))
    assert model.circuit() is model.circuit()
    order = data.draw(rngs).permutation(model.n_variables).tolist()
    if form == "order":
        vtree = ek.vtrees.conditioning_vtree(model.graph, order)
    else:
        vtree = Vtree.right_linear(order) if form == "right" else Vtree.left_linear(order)
    check(model, vtree, "context")
    assert model.plan(vtree).method == "context"


def sizes(plan):
    return plan.n_sums, plan.n_products


@pytest.mark.parametrize(("side", "context", "linear", "boundary", "bisection", "elimination"), [
    (4, (179, 290), (183, 366), (185, 372), (97, 480), (145, 344)),
    (6, (1167, 1806), (1783, 3566), (1785, 3572), (569, 7808), (1393, 5512)),
    (8, (10271, 14974), (13303, 26606), (13305, 26612), (2529, 132992), (57629, 213988)),
])  # fmt: skip
def test_sizes_of_grids(side, context, linear, boundary, bisection, elimination):
    grid = ek.ising_grid(side, side, rng=0)
    row_linear = ek.Vtree.right_linear(side * side)
    min_fill = ek.vtrees.conditioning_vtree(grid.graph, ek.vtrees.min_fill_order(grid.graph))
    assert sizes(grid.plan(min_fill)) == context
    assert grid.plan().n_products <= context[1]
    assert sum(n**2 for n in grid.plan().products) < context[1] ** 2
    assert sizes(grid.plan(row_linear)) == linear
    assert sizes(grid.plan(row_linear, "boundary")) == boundary
    assert sizes(grid.plan(ek.vtrees.bisection_vtree(side, side))) == bisection
    assert sizes(grid.plan(ek.vtrees.elimination_vtree(grid.graph), "boundary")) == elimination


def test_public_grid(data_dir):
    model = ek.read_uai(data_dir / "uai" / "ising_4x4.uai")
    assert sizes(model.plan()) == (179, 290)
    values, points = scores(model), worlds(model.cardinalities)
    for method in ("context", "boundary"):
        circuit, log_z = model.compile(method=method)
        np.testing.assert_allclose(log_z, -5.0747427194, rtol=0, atol=5e-11)
        ones = [table[1] for table in circuit.marginals()]
        # the published marginals are right to 4e-7, and rounded to six decimals here
        np.testing.assert_allclose(ones, np.ravel(GRID_MARGINALS), rtol=0, atol=9e-7)
        np.testing.assert_allclose(ones, values @ points / values.sum(), rtol=0, atol=1e-13)


@pytest.mark.parametrize(("rows", "cols"), [(1, 6), (5, 7), (8, 8), (10, 10)])
def test_large_grids(rows, cols):
    grid = ek.ising_grid(rows, cols, rng=11)
    circuit, log_z = grid.compile()
    np.testing.assert_allclose(log_z, row_by_row(grid, rows, cols), rtol=1e-12)
    np.testing.assert_allclose(circuit.log_partition(), 0.0, atol=1e-12)
    X = circuit.sample(20, rng=0)
    np.testing.assert_allclose(circuit.log_likelihood(X), grid.log_score(X) - log_z, rtol=1e-11)


def doubled(p, q, kernel):
    """The model of two independent copies with a kernel between the twins of every variable."""
    n = p.n_variables
    second = [ek.Factor([v + n for v in factor.scope], factor.table) for factor in q.factors]
    twins = [ek.Factor((v, v + n), kernel) for v in range(n)]
    return ek.FactorGraph(p.cardinalities + q.cardinalities, [*p.factors, *second, *twins])


@pytest.mark.parametrize("frustrated", [False, True])
def test_expected_kernel_is_the_partition_function_of_two_copies(frustrated):
    p, q = (ek.ising_grid(6, 6, rng=seed, frustrated=frustrated) for seed in (1, 2))
    off = np.exp(-1 / 36)
    together = doubled(p, q, np.array([[1.0, off], [off, 1.0]])).log_partition()
    (circuit_p, log_z_p), (circuit_q, log_z_q) = p.compile(), q.compile()
    exact = ek.expected_kernel(circuit_p, circuit_q, ek.ExpHamming(), log=True)
    np.testing.assert_allclose(exact, together - log_z_p - log_z_q, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("form", "n"), [("default", 10_000), ("left", 2_000), ("balanced", 2_000)])
def test_long_chains(form, n):
    chain = random_chain(n, np.random.default_rng(3))
    vtree = {"left": Vtree.left_linear, "balanced": Vtree.balanced}.get(form, lambda n: None)(n)
    circuit, log_z = chain.compile(vtree)
    message, expected = np.ones(2), 0.0
    for factor in chain.factors:
        message = message @ factor.table
        expected += np.log(message.sum())
        message /= message.sum()
    np.testing.assert_allclose(log_z, expected, rtol=1e-11)
    np.testing.assert_allclose(circuit.log_partition(), 0.0, atol=1e-9)


@pytest.mark.parametrize("method", ["context", "boundary"])
def test_impossible_models(method):
    clash = ek.FactorGraph([2, 2], [((0, 1), np.eye(2)), ((0,), [1.0, 0.0]), ((1,), [0.0, 1.0])])
    message = r"multiply to zero at every state \(Z = 0\)"
    for model in (clash, ek.FactorGraph([2], [((), 0.0)])):
        assert_raises(ek.PropertyError, message, model.compile, method=method)
        assert_raises(ek.PropertyError, message, model.log_partition)


test_errors = refusals(None, [
    (lambda g: g.compile(ek.Vtree.balanced(4)), ek.CompatibilityError, r"variables 0\.\.15"),
    (lambda g: g.compile(ek.Vtree.balanced(16), "context"), ek.CompatibilityError,
     r"vtree node 6 interact.* method='boundary'"),
    (lambda g: g.compile("x"), ek.VtreeError, r"'vtree' .* a Vtree or None. Got 'x' instead"),
    (lambda g: g.plan("x"), ek.VtreeError, r"'vtree' .* a Vtree or None. Got 'x' instead"),
    (lambda g: g.compile(method="best"), ek.CircuitError, "Got 'best' instead"),
    (lambda g: g.compile(max_bytes=1000), ek.SizeError, r"about .* GiB, .* 290 products on its"),
    (lambda g: ek.ising_grid(30, 30).compile(), ek.SizeError, r"width 3. .* Condition on some"),
    (lambda g: ek.ising_grid(30, 30).log_partition(), ek.SizeError, "more than max_bytes"),
], lambda ask: ask(ek.ising_grid(4, 4, rng=0)))  # fmt: skip


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
                assert_all_close(ask(circuit, rows), expected, rtol=0)


def test_units_that_do_not_fit():
    grid = ising_grid(5, 5, rng=0)
    plan = grid.plan()
    needed = grid.messages.table_bytes
    assert needed < plan.n_bytes
    circuit, _ = grid.compile(max_bytes=needed)
    assert_all_close(circuit.marginals({3: 0}), grid.marginals({3: 0}), atol=1e-13)
    assert_raises(SizeError, r"To write out the units of this circuit needs", circuit.sample, 3)
    assert repr(circuit) == "<Circuit of 25 variables: too large to be written out>"
    assert_raises(SizeError, "Compiling this model needs about", grid.compile, max_bytes=needed - 1)


def exact_logs(model, rows):
    """The log-probabilities of rows by sums of rational numbers over all worlds."""
    points = worlds(model.cardinalities)
    values = scores(model, [EXACT(factor.table) for factor in model.factors])
    allowed = [((row == points) | np.isnan(row)).all(axis=1) for row in rows]
    return np.array([log_of(values[given].sum() / values.sum()) for given in allowed])


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
    one_by_one = [(circuit.log_likelihood(row[None]), circuit.marginals(row)) for row in rows]
    likelihoods, marginals = zip(*one_by_one, strict=True)
    answers = [(asked.log_likelihood(rows), asked.marginals(rows)) for asked in (circuit, model)]
    answers.append((np.concatenate(likelihoods), map(np.stack, zip(*marginals, strict=True))))
    for log_likelihoods, tables in answers:
        np.testing.assert_allclose(log_likelihoods, expected, rtol=1e-11, atol=1e-11)
        for v, found in enumerate(tables):
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
