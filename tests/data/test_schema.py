"""Names and states: reading, writing, matching, and what operations pass on."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals
from strategies import domains, rngs, vtrees


def named(cardinalities, names=None, states=None):
    """A product of inputs over such variables, with these names and labels."""
    units = [
        ek.Gaussian(v, 0.0, 1.0) if card is None else ek.Categorical(v, np.full(card, 1 / card))
        for v, card in enumerate(cardinalities)
    ]
    return ek.Circuit.from_units(ek.Product(units)).with_names(names, states)


WEATHER = named(
    [2, 3, None], ["rain", "sky", "hours"], [["no", "yes"], ["blue", "grey", "x"], None]
)


def shuffled(circuit, rng):
    """The circuit with variables and states in another order, by the plain definition."""
    order = rng.permutation(circuit.n_variables)  # new number -> old number
    number = np.argsort(order)
    swaps = [rng.permutation(circuit.cardinalities[v]) for v in order]
    vtree = circuit.vtree
    new = [int(number[v]) if v >= 0 else -1 for v in vtree.variable]
    blocks = list(circuit.blocks)
    for node, v in enumerate(new):
        if v >= 0:
            blocks[node] = type(blocks[node])(blocks[node].table[:, swaps[v]])
    names = [circuit.names[v] for v in order]
    states = [[circuit.states[v][s] for s in swap] for v, swap in zip(order, swaps, strict=True)]
    return ek.Circuit(ek.Vtree(vtree.left, vtree.right, new), tuple(blocks)).with_names(
        names, states
    )


@st.composite
def named_circuits(draw, n=1):
    """Circuits on one vtree with names and text labels."""
    cards = draw(domains(max_worlds=64, min_variables=2, max_variables=5))
    vtree, rng = draw(vtrees(len(cards))), draw(rngs)
    names = [f"v{v}" for v in range(len(cards))]
    states = [[f"s{v}{i}" for i in range(card)] for v, card in enumerate(cards)]
    found = [
        ek.random_circuit(vtree, 3, rng, list(cards)).with_names(names, states) for _ in range(n)
    ]
    return (*found, rng)


@settings(max_examples=30)
@given(named_circuits(2))
def test_answers_do_not_depend_on_the_order_of_variables_and_states(drawn):
    p, q, rng = drawn
    other = shuffled(q, rng)
    k = ek.ExpHamming(0.3)
    assert_close(ek.expected_kernel(p, other, k), ek.expected_kernel(p, q, k))
    assert_close(ek.expected_kernel(other, p, k), ek.expected_kernel(q, p, k))
    assert ek.mmd(q, other) < 1e-7
    frame = p.sample(7, rng=rng, as_frame=True)
    mixed = frame[rng.permutation(frame.columns)]
    codes = q.schema.read_frame(frame)
    wanted = q.log_likelihood(codes)
    for table in (mixed, mixed.astype(str), pl.DataFrame(mixed.astype(str).to_dict("list"))):
        assert_close(other.log_likelihood(table), wanted)
        assert_close(q.log_likelihood(table), wanted)
    assert_allclose(ek.mmd(other, mixed), ek.mmd(q, frame), rtol=1e-9, atol=1e-9)
    marginals = other.marginals()
    for v, name in enumerate(q.names):
        by_label = dict(zip(other.states[other.names.index(name)], marginals[name], strict=True))
        assert_close([by_label[label] for label in q.states[v]], q.marginals()[v])
    both = ek.mixture([q, other], [0.3, 0.7])
    assert both.names == q.names
    assert_close(both.log_likelihood(codes), wanted)
    assert_close(ek.algebra.multiply(q, other).log_likelihood(codes), 2 * wanted)


@settings(max_examples=30)
@given(named_circuits(1))
def test_operations_pass_names_and_states_on(drawn):
    p, rng = drawn
    first = p.names[0]
    A = ek.algebra
    for circuit in (
        *(p.condition({first: p.states[0][0]}), p.normalize(), p.to("torch"), A.shift(p, first)),
        *(ek.mixture([p, p]), A.stack([p, p]), A.linear_combination([p, p], [1.0, -0.5])),
        *(pickle.loads(pickle.dumps(p)), A.multiply(p, p)),
        ek.em(p, p.sample(4, rng=rng), 1, progress=False),
    ):
        assert (circuit.names, circuit.states) == (p.names, p.states)
    assert A.power(ek.factorized([[0.5, 0.5]]).with_names(["a"]), 2.0).names == ("a",)
    less = ek.algebra.marginalize(p, first)
    assert (less.names, less.states) == (p.names[1:], p.states[1:])


def test_evidence_speaks_names_and_labels():
    p = ek.mixture(
        [ek.factorized([[1, 0], [0.5, 0.5, 0]]), ek.factorized([[0, 1], [0, 0.25, 0.75]])]
    )
    q = p.with_names(["rain", "sky"], [["no", "yes"], ["blue", "grey", "black"]])
    wanted = p.marginals({0: 1})
    for evidence in (
        {"rain": "yes"},
        {"rain": 1},
        {"rain": {"yes"}},
        {"rain": ["yes"]},
        {"rain": [0.0, 1.0]},
        {0: "yes", "sky": None},
        {"rain": "yes", "sky": float("nan")},
        pd.Series({"rain": "yes", "sky": None}),
    ):
        assert_close(q.marginals(evidence)["sky"], wanted[1])
    rows = q.marginals(pd.DataFrame({"sky": [None, "blue"], "rain": ["yes", None]}))
    assert_close(rows["sky"][0], wanted[1])
    assert rows["rain"].shape == (2, 2)
    assert isinstance(wanted, list)
    assert wanted[-1] is wanted[1]
    drawn = q.sample(4, rng=0, evidence={"rain": "yes"}, as_frame=True)
    assert drawn["rain"].tolist() == ["yes"] * 4
    assert q.sample(2, rng=0, evidence=[[1, np.nan]] * 3, as_frame=True).shape == (6, 2)
    with pytest.raises(ek.EvidenceError, match=r"Variable 0 \('rain'\) is given twice"):
        q.condition({0: 1, "rain": 1})
    assert_raises(ek.EvidenceError, r"Got 'rian' instead. Did you mean", q.condition, {"rian": 1})


def test_most_probable_rows_have_labels():
    q = ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]]).with_names(["a", "b"], [["n", "y"], [1, 2, 3]])
    frame = pd.DataFrame({"b": [2.0, None], "a": [None, "n"]}, index=[5, 9])
    found = q.map(frame)
    assert found.to_dict("list") == {"a": ["y", "n"], "b": [2, 3]}
    assert found.index.tolist() == [5, 9]
    for model in (
        q,
        ek.FactorGraph([2, 3], [((0,), [2, 8]), ((1,), [1, 3, 6])], q.names, q.states),
    ):
        for X in ({"a": "n"}, frame.iloc[1], [0, np.nan], [[0, np.nan]], np.array([[0, np.nan]])):
            assert model.map(X).to_dict("records") == [{"a": "n", "b": 3}]
        assert model.map({"a": "n"}, as_frame=False).tolist() == [0.0, 2.0]
        assert model.map([[0, np.nan]], as_frame=False).tolist() == [[0.0, 2.0]]
    unlabelled = q.with_names(["a", "b"], [None, None])
    assert unlabelled.map({"a": 0}).tolist() == [0.0, 2.0]
    assert unlabelled.map([[0, np.nan]], as_frame=True).to_dict("records") == [{"a": 0, "b": 2}]


COLUMNS = {"rain": ["yes", None], "sky": ["x", "blue"], "hours": [1.5, None]}
CATEGORIES = pd.Categorical(["yes", None], categories=["yes", "no", "maybe"])
FRAMES = {
    "objects": pd.DataFrame(COLUMNS),
    "categories": pd.DataFrame(COLUMNS | {"rain": CATEGORIES}).astype(
        {"sky": "category", "hours": "Float64"}
    ),
    "strings": pd.DataFrame(COLUMNS | {"rain": ["yes", pd.NA]}).astype({"sky": "string"}),
    "polars": pl.DataFrame(COLUMNS)[["hours", "rain", "sky"]],
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_are_read_by_name_with_what_is_missing(frame):
    assert_array_equal(WEATHER.schema.read_frame(frame), [[1.0, 2.0, 1.5], [np.nan, 0.0, np.nan]])


NUMBERS = (["1", "2", "3"], [1, 2, 3], ["1.0", "2.0", "3.0"])


@pytest.mark.parametrize(("labels", "value", "state"), [
    *((labels, value, 0) for labels in NUMBERS for value in (labels[0], 1, 1.0, np.int64(1))),
    *((labels, 0, "one of .* Got 0") for labels in NUMBERS),
    ([4, 6, 8], 6, 1),
    ([4, 6, 8], 5, "one of 4, 6, 8.* Got 5"),
    (["0", "1"], 1, 1),
    ([False, True], True, 1),
    ([False, True], False, 0),
    (["true", "false"], True, 0),
    (["yes", "no"], True, "one of .*'yes', 'no'.* Got True"),
])  # fmt: skip
def test_values_are_the_labels_that_say_the_same(labels, value, state):
    p = named([len(labels), 2], ["a", "b"], [labels, ["no", "yes"]])
    frame = pd.DataFrame({"b": [None, "yes"], "a": pd.Series([value, None], dtype=object)})
    if isinstance(state, str):
        assert_raises(ek.DataError, state, p.schema.read_frame, frame)
        assert_raises(ek.EvidenceError, state, p.marginals, {"a": value})
    else:
        assert_array_equal(p.schema.read_frame(frame), [[state, np.nan], [np.nan, 1.0]])
        assert p.marginals({"a": value})[0].argmax() == state == p.schema.state(0, value)


test_frames_that_do_not_fit_are_refused_by_name = refusals(ek.DataError, [
    ({"rain": ["yes"], "sky": ["x"]}, "lacks columns that the model has: 'hours'"),
    ({"rain": ["yes"], "sky": ["x"], "hours": [1.0], "id": [7]}, "has columns that the model"),
    ({"rain": ["si"], "sky": ["x"], "hours": [1.0]}, "'rain' must hold one of 'no', 'yes'"),
    ({"rain": ["yes"], "sky": ["x"], "hours": ["long"]}, "'hours' must hold a real number"),
], lambda frame: WEATHER.schema.read_frame(pd.DataFrame(frame)))  # fmt: skip


def test_columns_without_names_are_taken_as_they_stand():
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    named = p.with_names(["a", "b"])
    frame = pd.DataFrame(np.array([[1, 0], [0, 1]]))
    assert_close(named.log_likelihood(frame), p.log_likelihood([[1, 0], [0, 1]]))
    lettered = frame.set_axis(["x", "y"], axis=1)
    assert_close(p.log_likelihood(lettered), p.log_likelihood([[1, 0], [0, 1]]))
    assert_raises(ek.DataError, r"lacks columns that the model has", named.log_likelihood, lettered)
    with pytest.raises(ek.DataError, match=r"holds text .* have no labels"):
        p.log_likelihood(pd.DataFrame({"x": ["u"], "y": ["v"]}))
    assert_raises(ek.DataError, r"one column per variable, 2 in all.", p.log_likelihood, frame[[0]])


def test_other_names_and_labels_never_give_a_number():
    p = ek.factorized([[0.2, 0.8]]).with_names(["rain"], [["no", "yes"]])
    q = ek.factorized([[0.2, 0.8]]).with_names(["snow"], [["no", "yes"]])
    assert_raises(ek.CompatibilityError, r"first has 'rain', only the second 'sn", ek.mmd, p, q)
    r = p.with_names(["rain"], [["no", "heavy"]])
    assert_raises(ek.CompatibilityError, r"'yes' and 'no', 'heavy'.*states='union'", ek.mmd, p, r)
    first, second = ek.vtrees.align(p, r, states="union")
    assert first.states == second.states == (("no", "yes", "heavy"),)
    assert_close(first.marginals()["rain"], [0.2, 0.8, 0.0])
    assert_close(second.marginals()["rain"], [0.2, 0.0, 0.8])
    with pytest.raises(ek.CircuitError, match=r"must be 'same' or 'union'"):
        ek.vtrees.align(p, r, states="join")
    one, other = named([2], ["a"], [[0, 1]]), named([2], ["a"], [["no", "yes"]])
    for pair in ((one, other), (other, one)):  # labels that are codes match any
        assert [p.states for p in ek.vtrees.align(*pair)] == [(("no", "yes"),)] * 2


test_malformed_names_are_refused = refusals(ek.CircuitError, [
    (([2, 2], ["a"]), "names of the variables must be 2 different labels"),
    (([2, 2], ["a", "a"]), "names of the variables must be 2 different labels"),
    (([2], ["a"], [["x"]]), r"states of variable 0 \('a'\) must be 2 different labels"),
    (([2], None, [["x", "x"]]), "states of variable 0 must be 2 different labels"),
    (([2, 2], None, [["x", "y"]]), "one list of labels per variable, 2 in all. Got 1"),
    (([None], None, [["x"]]), "Real variables have no states"),
], lambda arguments: named(*arguments))  # fmt: skip


def test_marginals_and_states_by_name():
    p = ek.gaussian_mixture([1.0], [[1.0]], [[4.0]]).with_names(["hours"])
    assert str(p.marginals()).splitlines()[1:] == [
        "hours     mean                1",
        "          variance            4",
    ]
    many = ek.factorized([[0.5, 0.5]] * 80)
    assert str(many.marginals()).endswith("... (80 variables in all)")
    assert "3 rows" in str(many.marginals(np.full((3, 80), np.nan)))
    assert pickle.loads(pickle.dumps(p.marginals()))["hours"].tolist() == [1.0, 4.0]
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]]).with_names(["a", "b"], {"b": ["x", "y"]})
    assert p.states == (None, ("x", "y"))
    assert p.with_names(["c", "d"]).states == p.states
    assert p.sample(1, rng=0, as_frame=True)["a"].dtype == np.int64
