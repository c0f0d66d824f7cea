"""Effects and changed mechanisms against enumeration, and what they say."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_raises, refusals
from network_oracles import incomplete, joint, natural, random_network, random_tables, shapley
from networks import bif_of_pgmpy
from oracles import worlds
from strategies import rngs

KERNELS = [ek.ExpHamming(0.7), ek.Delta() + 2.0 * ek.ExpHamming(0.3), ek.RBF(0.4), ek.Delta()]


def descendants(network, v):
    found, grown = {v}, True
    while grown:
        more = {u for u, above in enumerate(network.parents) if found & set(above)} | found
        grown, found = more != found, more
    return found - {v}


def outcome_tables(k, cards, outcomes):
    """The kernel of all pairs of worlds with factors of one but for the outcomes."""
    points = worlds(cards)[:, outcomes]
    return np.exp(-k.gamma * (points[:, None] != points).sum(axis=2))


@settings(max_examples=60)
@given(rng=rngs)
def test_effects_are_those_of_enumeration(rng):
    network = random_network(rng, least=2, zeros=0.0)
    n, cards = network.n_variables, network.cardinalities
    points = worlds(cards).astype(int)
    v = int(rng.integers(n))
    others = [u for u in range(n) if u != v]
    outcomes = rng.permutation(others)[: rng.integers(1, 3)].tolist()
    of = (0, cards[v] - 1)
    free = [u for u in range(n) if u not in descendants(network, v)]
    rows = np.full((3, n), np.nan)
    for row in rows[1:]:
        for u in rng.permutation(free)[:2].tolist():
            row[u] = rng.integers(cards[u])
    values = [rng.normal(size=cards[u]) for u in outcomes]
    k = ek.ExpHamming(0.6)
    given_values = values if len(outcomes) > 1 else values[0]
    found = ek.effect(network, v, outcomes, of, rows, given_values, k)
    gram = outcome_tables(k, cards, outcomes)
    for i, row in enumerate(rows):
        kept = np.all(np.isnan(row) | (points == row), axis=1)
        arms = [natural(network, {v: x}) * kept for x in of]
        control, treated = (arm / arm.sum() for arm in arms)
        change = treated - control
        means = [change @ x[points[:, u]] for u, x in zip(outcomes, values, strict=True)]
        np.testing.assert_allclose(np.ravel(found.difference[i]), means, atol=1e-12)
        np.testing.assert_allclose(found.mmd2[i], change @ gram @ change, atol=1e-12)
        index = rng.integers(len(points), size=4)
        at = points[index][:, outcomes].astype(float)
        np.testing.assert_allclose(found.witness(at)[i], gram[index] @ change, atol=1e-12)
        table = np.zeros([cards[u] for u in outcomes])
        np.add.at(table, tuple(points[:, u] for u in outcomes), treated)
        np.testing.assert_allclose(found.treated[i], table, atol=1e-12)
    alone = ek.effect(network, v, outcomes, of, rows[1], given_values, k)
    np.testing.assert_allclose(alone.difference, found.difference[1], atol=1e-14)
    np.testing.assert_allclose(alone.mmd, np.sqrt(max(0.0, found.mmd2[1])), atol=1e-9)
    assert alone.witness(at).shape == (4,)


def test_effects_are_read_by_name_and_average_to_each_other():
    network = ek.asia()
    states, share = ("no", "yes"), network.marginals()["smoke"]
    whole = ek.effect(network, "bronc", "dysp", states)
    rows = {name: [None, None] for name in network.names} | {"smoke": ["yes", "no"]}
    groups = ek.effect(network, "bronc", "dysp", states, pd.DataFrame(rows))
    np.testing.assert_allclose(share @ groups.difference, whole.difference, atol=1e-14)
    itself = ek.effect(network, "bronc", ["bronc", "dysp"], states)
    np.testing.assert_allclose(itself.treated[0], whole.treated, atol=1e-14)
    np.testing.assert_allclose(itself.control[1], whole.control, atol=1e-14)
    every = ek.effect(network, "smoke", network.names, states)
    pair = [network.do({"smoke": x}) for x in states]
    np.testing.assert_allclose(every.mmd2, ek.mmd2(*pair), atol=1e-13)


def test_outcomes_with_numbers_for_labels_count_these():
    network = ek.BayesianNetwork(
        [[], [0]], [[0.5, 0.5], [[1, 0, 0], [0, 0.5, 0.5]]], ["a", "b"], [["no", "yes"], [4, 6, 8]]
    )
    assert ek.effect(network, "a", "b", ("no", "yes")).difference == pytest.approx(3.0)
    assert ek.effect(network, "a", "b", (1, 0), values=[0, 1, 0]).difference == pytest.approx(-0.5)
    assert ek.effect(network, "a", ["b"], (1, 0), values=[[0, 1, 0]]).difference == -0.5


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_values_are_read_by_label(kind):
    network, values, after = ek.asia(), kind({"no": 0.0, "yes": 1.0}), ek.asia().do({"smoke": "no"})
    found = ek.effect(network, "bronc", "dysp", ("no", "yes"), values=values)
    assert found.difference == pytest.approx(found.treated[0] - found.control[0])
    several = ek.effect(network, "bronc", ["dysp", "xray"], ("no", "yes"), values=[values, [1, 0]])
    assert several.difference[0] == pytest.approx(float(found.difference))
    assert ek.mechanism_change(network, after, target="lung", values=values).total < 0


ASKED = {"network": ek.asia(), "treatment": "lung", "outcome": "dysp", "of": ("no", "yes")}


test_wrong_questions_are_refused = refusals(None, [
    ({"evidence": {"xray": "yes"}}, ek.EvidenceError,
     r"'xray' comes after 'lung', so knowing it is no property of those treated. Ask "
     r"network.do\({'lung': ...}\).marginals\(evidence\) for what is seen after the action"),
    ({"of": "yes"}, ek.CircuitError, "'of' parameter of effect must be two states of variable 3"),
    ({"of": ("no", "maybe")}, ek.EvidenceError, "A state of variable 3"),
    ({"of": (["no"], "yes")}, ek.EvidenceError, "A state of variable 3"),
    ({"values": ["a", "b"]}, ek.DataError, "'values' must be an array of numbers"),
    ({"values": [[1], [1, 2]]}, ek.DataError, "'values' must be an array of numbers"),
    ({"outcome": ["dysp", "xray"], "values": 3}, ek.DataError,
     "'values' parameter of effect must be one array per outcome"),
    ({"values": [1.0]}, ek.DataError, "'values' must be 2 finite numbers, one per state of var"),
    ({"network": ek.asia().circuit()}, ek.CircuitError, "'network' parameter of effect must be"),
    ({"evidence": {"tub": "yes", "asia": {0: 0}}}, ek.EvidenceError, "asia"),
    ({"outcome": []}, ek.CircuitError, "'outcome' parameter of effect must be one or several"),
    ({"outcome": ["dysp", 7]}, ek.CircuitError, "variables, each once"),
    ({"outcome": ["dysp", "xray"], "values": [[0, 1]]}, ek.DataError,
     "'values' parameter of effect must be one array per outcome"),
], lambda options: ek.effect(**ASKED | options))  # fmt: skip


def test_kernels_with_sums_inside_are_refused():
    network = ek.BayesianNetwork([[], [0], [1]], [[0.5, 0.5], [[0.5, 0.5]] * 2, [[0.5, 0.5]] * 2])
    left, right = network.vtree.to_nested()
    pair, single = (left, right) if isinstance(left, tuple) else (right, left)
    tables = np.eye(2), np.ones((2, 2))
    inputs = [[ek.kernels.kernel_input(v, table) for v in pair] for table in tables]
    inner = ek.Sum([ek.Product(own) for own in inputs], [0.5, 0.5])
    k = ek.KernelCircuit(ek.Product([inner, ek.kernels.kernel_input(single, np.eye(2))]))
    message = r"effect takes the factors of single variables out of"
    assert_raises(ek.KernelError, message, ek.effect, network, 0, 2, (0, 1), k=k)
    given = ek.mechanism_change, network, network
    assert_raises(ek.KernelError, "which has sums inside", *given, k=k)


def test_impossible_evidence_and_what_is_too_large_is_refused():
    alarm = ek.read_bif(bif_of_pgmpy("alarm"))
    given = ek.effect, alarm, "HYPOVOLEMIA", alarm.names, ("TRUE", "FALSE")
    assert_raises(ek.SizeError, r"A table of joint outcomes needs about .* Name few", *given)
    given = ek.mechanism_change, alarm, moved(alarm, 0.1, 0, ["HR"])
    message = r"Attributing MMD needs about .* Give target=... \(about"
    assert_raises(ek.SizeError, message, *given, max_bytes=2**16)
    message = r"Attributing a change needs about .* Put states toge"
    assert_raises(ek.SizeError, message, *given, target="HR", max_bytes=2**10)
    network = ek.BayesianNetwork([[], [0]], [[1.0, 0.0], [[0.5, 0.5]] * 2])
    assert_raises(ek.EvidenceError, "probability zero", ek.effect, network, 0, 1, (0, 1), {0: 1})


@settings(max_examples=50)
@given(rng=rngs)
def test_shapley_values_are_those_of_all_subsets(rng):
    before = random_network(rng, zeros=0.2)
    others = random_tables(rng, before.parents, before.cardinalities)
    chosen = rng.permutation(before.n_variables)[: rng.integers(1, 5)].tolist()
    points = worlds(before.cardinalities)

    def tables(subset):
        pairs = enumerate(zip(before.cpts, others, strict=True))
        return [b if v in subset else a for v, (a, b) in pairs]

    def mixed(subset):
        return joint(before, tables(subset))

    after = ek.BayesianNetwork(before.parents, tables(chosen))
    target = int(rng.integers(before.n_variables))
    values = rng.normal(size=before.cardinalities[target])
    at = values[points[:, target].astype(int)]
    found = ek.mechanism_change(before, after, target=target, values=values)
    wanted = dict.fromkeys(range(before.n_variables), 0.0)
    wanted |= shapley(lambda s: mixed(s) @ at, chosen)
    np.testing.assert_allclose(found.shapley, list(wanted.values()), atol=1e-12)
    np.testing.assert_allclose(found.total, mixed(set(chosen)) @ at - mixed(set()) @ at, atol=1e-12)
    k = KERNELS[int(rng.integers(len(KERNELS)))]
    gram = k(points, points)

    def squared(subset):
        change = mixed(subset) - mixed(set())
        return change @ gram @ change

    found = ek.mechanism_change(before, after, k=k)
    wanted |= shapley(squared, chosen)
    np.testing.assert_allclose(found.shapley, list(wanted.values()), atol=1e-12)
    p, q = mixed(set()), mixed(set(chosen))
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(q > 0, q * np.log(q / p), 0.0).sum()
    np.testing.assert_allclose(found.divergences.sum(), kl, rtol=1e-9, atol=1e-12)


def test_tables_that_act_on_nothing_that_is_looked_at_have_no_part():
    network = ek.asia()
    tables = [0.9 * t + 0.05 for t in network.cpts]
    other = ek.BayesianNetwork(network.parents, tables, network.names, network.states)
    found = ek.mechanism_change(network, other, target="lung")
    assert np.flatnonzero(found.shapley).tolist() == [3]
    assert found.changed.tolist() == [True, True, False, *[True] * 5]  # 'smoke' is even
    ones = [np.ones((2, 2))] * 8
    ones[1] = np.eye(2)
    kernel = ek.mechanism_change(network, other, k=ek.TableKernel(ones))
    assert np.flatnonzero(kernel.shapley).tolist() == [0, 1]
    nothing = ek.mechanism_change(network, network)
    assert nothing.total == 0.0
    assert not nothing.changed.any()
    constant = ek.mechanism_change(network, other, k=ek.TableKernel([np.ones((2, 2))] * 8))
    assert constant.total == 0.0


@pytest.mark.parametrize("options", [{}, {"target": 1, "values": [1, 0]}], ids=str)
def test_probabilities_whose_inverses_are_no_floats(options):
    def change(*least):
        return ek.mechanism_change(*(
            ek.BayesianNetwork([[], [0]], [[0.5, 0.5], [[x, 1 - x], [0.3 + a, 0.7 - a]]])
            for x, a in zip(least, (0.0, 0.1), strict=True)
        ), **options)  # fmt: skip

    least, zero = change(1e-310, 3e-310).shapley, change(0.0, 0.0).shapley
    np.testing.assert_allclose(least, zero, atol=1e-15)
    assert zero[1] > 0.001


def test_networks_are_matched_by_names_and_states():
    before = ek.asia()
    rng = np.random.default_rng(0)
    tables = [0.8 * t + 0.1 for t in before.cpts]
    after = ek.BayesianNetwork(before.parents, tables, before.names, before.states)
    order = rng.permutation(8).tolist()
    place = {v: i for i, v in enumerate(order)}
    parents, cpts = [], []
    for v in order:
        above = before.parents[v][::-1]
        parents.append([place[u] for u in above])
        table = after.cpts[v].transpose([*range(len(above))[::-1], len(above)])
        cpts.append(np.flip(table))  # states in the other order, everywhere
    names, states = [before.names[v] for v in order], [["no", "yes"]] * 8
    shuffled = ek.BayesianNetwork(parents, cpts, names, states)
    one, other = (ek.mechanism_change(before, x) for x in (after, shuffled))
    np.testing.assert_allclose(one.shapley, other.shapley, atol=1e-14)
    theirs = ek.mechanism_change(ek.models.to_pgmpy(before), after)
    np.testing.assert_allclose(theirs.total, one.total, atol=1e-14)


def moved(network, share, seed, names):
    """A network with other tables for some variables."""
    rng = np.random.default_rng(seed)
    tables = list(network.cpts)
    for name in names:
        v = network.variable(name)
        other = rng.dirichlet(np.ones(tables[v].shape[-1]), size=tables[v].shape[:-1])
        tables[v] = (1 - share) * tables[v] / tables[v].sum(axis=-1, keepdims=True) + share * other
    return ek.BayesianNetwork(network.parents, tables, network.names, network.states)


def test_changed_tables_of_alarm_are_found_from_incomplete_rows():
    before = ek.read_bif(bif_of_pgmpy("alarm"))
    chosen = ["INTUBATION", "HR", "PAP", "VENTLUNG", "MINVOLSET"]
    after = moved(before, 0.5, 0, chosen)
    X, Y = incomplete(before, 2000, 0.2, 0), incomplete(after, 2000, 0.2, 1)
    found = ek.mechanism_change(X, Y, before)
    top = np.argsort(-found.shapley)[:5]
    assert sorted(before.names[v] for v in top) == sorted(chosen)
    truth = ek.mechanism_change(before, after)
    np.testing.assert_allclose(found.shapley[top], truth.shapley[top], rtol=0.35, atol=3e-4)
    np.testing.assert_allclose(found.total, found.shapley.sum())


def test_p_values_are_small_for_tables_that_changed():
    before = ek.asia()
    after = moved(before, 0.6, 1, ["bronc"])
    X, Y = (incomplete(m, 400, 0.2, i) for i, m in enumerate((before, after)))
    found = ek.mechanism_change(X, Y, before, target="dysp", n_permutations=39, rng=0)
    assert found.p_values[4] == 1 / 40
    assert (np.delete(found.p_values, 4) > 1 / 40).mean() > 0.5
    same = ek.mechanism_change(X, Y, before, n_permutations=39, rng=0, max_bytes=2**16)
    np.testing.assert_array_equal(same.p_values, found.p_values)
    assert found.frame().columns.tolist() == ["shapley", "divergence", "changed", "p_value"]
    assert found.frame().index[0] == "bronc"


def test_more_missing_values_in_one_set_are_no_change_of_a_table():
    network, small = ek.asia(), []
    for seed in range(5):
        X, Y = network.sample(300, rng=2 * seed), incomplete(network, 300, 0.4, 2 * seed + 1)
        options = {"target": "dysp", "n_permutations": 19, "rng": seed}
        small.append(ek.mechanism_change(X, Y, network, **options).p_values <= 0.05)
    assert not np.any(small, axis=0)[network.variable("either")]  # a function of its parents
    assert np.mean(small) < 0.1


def test_tables_of_hidden_variables_depend_on_the_seed_alone():
    network = ek.asia()
    X, Y = (incomplete(network, 100, 0.2, seed) for seed in (0, 1))
    X[:, 3] = Y[:, 3] = np.nan
    one, other = (ek.mechanism_change(X, Y, network, target="dysp", rng=0) for _ in range(2))
    np.testing.assert_array_equal(one.shapley, other.shapley)


def test_changes_are_shown(tmp_path):
    network = ek.asia()
    found = ek.mechanism_change(network, network.do({"smoke": [0.9, 0.1]}), target="lung")
    assert "The mean of 'lung' changed by" in str(found)
    assert "is that of &#x27;smoke" in found._repr_html_()
    assert found.plot().get_yticklabels()[-1].get_text() != ""
    text = found.report(tmp_path / "page.html").read_text()
    assert "Changed mechanisms" in text
    assert text.count("<figure") == 1
    plain = ek.BayesianNetwork([[]], [[0.5, 0.5]])
    other = ek.mechanism_change(plain, ek.BayesianNetwork([[]], [[0.2, 0.8]]))
    assert other.names == [0]
    assert other.frame().shape == (1, 3)


ASIA = ek.asia()
ROWS_ALONE = "Rows alone do not say what depends on what. Give the 'network'"
OTHER_PARENTS = r"with the same parents. 'dysp' has \('bronc', 'either'\) before and \(\) after"
NEGATIVE = ek.TableKernel([[[1, -0.5], [-0.5, 1]]] * 8)


test_wrong_comparisons_are_refused = refusals(None, [
    ({"before": [[0]], "after": [[1]]}, ek.DataError, ROWS_ALONE),
    ({"after": [[1]]}, ek.DataError, ROWS_ALONE),
    ({"after": ASIA.do({"dysp": "yes"})}, ek.CircuitError, OTHER_PARENTS),
    ({"k": NEGATIVE}, ek.KernelError, "that are not negative. Got TableKernel"),
    ({"n_permutations": -1}, ek.CircuitError, "'n_permutations' parameter"),
    ({"n_permutations": 9}, ek.CircuitError, "of mechanism_change must be 0 for networks"),
    ({"values": [0, 1]}, ek.CircuitError, "None without a target"),
    ({"target": "dysp", "k": ek.Delta()}, ek.CircuitError, "'k' .* must be None with a target"),
    ({"before": [np.ones((1, 2))] * 8, "after": [[0.0] * 8], "network": ASIA}, ek.DataError,
     "takes rows with states. Got weights of states"),
    ({"network": 3}, ek.CircuitError, "'network' parameter of mechanism_ch"),
], lambda options: ek.mechanism_change(**{"before": ASIA, "after": ASIA} | options))  # fmt: skip
