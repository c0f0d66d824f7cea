"""Labels, codes and numbers are told apart: in models, evidence, arrays and data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals

PAIR = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
RAIN = PAIR.with_names(["rain", "wet"], [["no", "yes"], ["no", "yes"]])


def labelled(probabilities, labels):
    return ek.factorized([probabilities]).with_names(["x"], [labels])


@pytest.mark.parametrize(("first", "second"), [
    (["0", "1"], ["1", "0"]),
    (["0", "1"], [1, 0]),
    ([0, 1], ["1", "0"]),
    ([1, 0], ["0", "1"]),
    (["0", "1"], [True, False]),
    (["false", "true"], [True, False]),
    (["no", "yes"], ["yes", "no"]),
])  # fmt: skip
def test_states_are_matched_by_what_labels_say(first, second):
    p, q = labelled([0.2, 0.8], first), labelled([0.7, 0.3], second)
    assert_close(ek.expected_kernel(p, q, ek.Delta()), 0.2 * 0.3 + 0.8 * 0.7)
    assert_close(ek.expected_kernel(q, p, ek.Delta()), 0.2 * 0.3 + 0.8 * 0.7)
    words = labelled([0.7, 0.3], ["no", "yes"])  # codes are their order
    assert_close(ek.expected_kernel(p.with_names(["x"], [["0", "1"]]), words, ek.Delta()), 0.38)


@pytest.mark.parametrize("second", [[1, 2], ["1", "2"], ["-1", "1"]])
def test_codes_beside_other_numbers_are_refused(second):
    with pytest.raises(ek.CompatibilityError, match="have other labels in the two models: '0',"):
        ek.mmd(labelled([0.2, 0.8], ["0", "1"]), labelled([0.2, 0.8], second))


@pytest.mark.parametrize(("labels", "given"), [([4, 8], [4, 8]), ([True, False], [True, False])])
def test_lists_that_may_be_states_or_weights_are_refused(labels, given):
    p = labelled([0.2, 0.8], labels)
    assert_close(p.marginals({"x": set(given)})[0], [0.2, 0.8])
    assert_close(p.marginals({"x": np.array([1.0, 2.0])})[0], np.array([0.2, 1.6]) / 1.8)
    assert_raises(ek.EvidenceError, "could be states or weights of the", p.marginals, {"x": given})


@pytest.mark.parametrize("columns", [{"rain": ["no", "yes"]}, {"rain": [0, 1], "wet": [1, 0]}])
def test_a_mapping_of_columns_is_no_row(columns):
    assert_raises(ek.EvidenceError, r"several rows are a data frame", RAIN.log_likelihood, columns)
    assert_close(
        RAIN.log_likelihood({"rain": {"no", "yes"}, "wet": np.array([1.0, 0])}), [-np.log(2)]
    )


test_what_is_no_array_of_numbers_is_told = refusals(ek.DataError, [
    (np.array([["1", "0"]]), "Got text, '1'. Labels are read from data frames"),
    (np.array([["no", None]], dtype=object), "Got text, 'no'"),
    (np.ma.masked_array([["no", "yes"]], mask=[[True, False]]), "Got text"),
    (np.array([[1j, 0]]), r"complex numbers, 1j. Give their real parts"),
    (np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"), "dates or durations"),
    (np.array([(0, 1)], dtype=[("rain", int), ("wet", int)]), "records with named fields"),
    (sparse.csr_matrix([[0, 1]]), r"a sparse matrix. Make it dense: X.toarray\(\)"),
    ((row for row in [[0, 1]]), r"a generator. Make a list of it: list\(X\)"),
    ([{"rain": "no", "wet": "yes"}], r"a list of mappings. Give a data frame"),
    ("data.csv", "the text 'data.csv'. Read files first"),
    (pl.LazyFrame({"rain": ["no"], "wet": ["yes"]}), r"holds no rows yet. Call X.collect\(\)"),
    (ek.RBF(1.0), "an object of type RBF. Give an array of shape"),
    ([[0, 1], [0]], "must be arrays of numbers"),
], RAIN.log_likelihood)  # fmt: skip


test_what_is_no_data_is_told = refusals(ek.DataError, [
    ((row for row in [[0, 1]]), "must be arrays of numbers.* Got a generator"),
    ({"rain": ["no"]}, "must be arrays .* Got a mapping .* Give a data frame"),
    ([{"rain": "no"}], "Got a list of mappings"),
    (pd.Series([0, 1]), r"or X.to_frame\(\)"),
    ("data.csv", "Got the text 'data.csv'. Read files first"),
    (pd.DataFrame({"a": [np.inf, 1.0], "b": [0, 1]}), r"Got inf in row 0, column 0 \('a'\)"),
], ek.learn_chow_liu)  # fmt: skip


def test_lazy_frames_and_missing_objects_are_data():
    table = pl.DataFrame({"a": [0, 1, 1], "b": [0, 1, 0]})
    lazy, eager = (ek.learn_chow_liu(X, pseudocount=1.0) for X in (table.lazy(), table))
    assert_close(lazy.log_likelihood(table), eager.log_likelihood(table))
    wanted = PAIR.log_likelihood([[1, np.nan], [np.nan, 0]])
    masked = np.ma.masked_array([[1, 0], [1, 0]], mask=[[False, True], [True, False]])
    for rows in (np.array([[1, pd.NA], [None, 0]], dtype=object), masked):
        assert_close(PAIR.log_likelihood(rows), wanted)


def test_columns_are_found_by_numbers_and_by_several_levels():
    rng = np.random.default_rng(0)
    rows = rng.integers(2, size=(60, 3))
    rows[:, 2] = rows[:, 1]
    frame = pd.DataFrame(rows)
    circuit = ek.learn_chow_liu(rows)
    assert_close(circuit.log_likelihood(frame[[2, 0, 1]]), circuit.log_likelihood(rows))
    turned = ek.learn_chow_liu(frame[[2, 0, 1]])
    assert turned.names == ("2", "0", "1")
    assert_close(turned.log_likelihood(frame), turned.log_likelihood(frame[[2, 0, 1]]))
    others = frame.set_axis([3, 5, 7], axis=1)
    circuit = ek.learn_chow_liu(others)
    assert_close(circuit.log_likelihood(others[[7, 3, 5]]), circuit.log_likelihood(others))
    columns = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
    frame = pd.DataFrame([[0, 1], [1, 0], [1, 1]], columns=columns)
    circuit = ek.learn_chow_liu(frame)
    assert circuit.names == ("('a', 1)", "('a', 2)")
    assert_close(circuit.log_likelihood(frame), circuit.log_likelihood(frame.to_numpy()))


def test_frames_beside_arrays_and_empty_frames():
    frame = pd.DataFrame({"sky": ["grey", "blue"], "wet": [0, 1]})
    assert_raises(ek.DataError, "'sky' of a data frame holds", ek.mmd, frame, [[0, 0], [1, 1]])
    bools = pd.DataFrame({"wet": [True, False]})
    assert ek.mmd2(bools, [[0], [1]], ek.Delta()) == pytest.approx(0.0, abs=1e-15)
    with pytest.raises(ek.DataError, match=r"at least one point: .* Got shape \(0, 2\)"):
        ek.mmd(RAIN, pd.DataFrame({"rain": [], "wet": []}, dtype=str))


GRADES = np.random.default_rng(0).integers(1, 4, size=(2, 80))
SPELLINGS = {
    "text": lambda x: pd.DataFrame({"grade": x.astype(str)}),
    "integers": lambda x: pd.DataFrame({"grade": x}),
    "floats": lambda x: pd.DataFrame({"grade": x.astype(float)}),
    "text of floats": lambda x: pd.DataFrame({"grade": x.astype(float).astype(str)}),
    "nullable": lambda x: pd.DataFrame({"grade": pd.array(x, dtype="Int64")}),
    "categories of text": lambda x: pd.DataFrame({"grade": pd.Categorical(x.astype(str))}),
    "categories of numbers": lambda x: pd.DataFrame({"grade": pd.Categorical(x)}),
    "both in one column": lambda x: pd.DataFrame(
        {"grade": [str(v) if i % 2 else int(v) for i, v in enumerate(x)]}, dtype=object
    ),
    "polars text": lambda x: pl.DataFrame({"grade": x.astype(str)}),
    "polars integers": lambda x: pl.DataFrame({"grade": x}),
    "polars categories": lambda x: pl.DataFrame({"grade": x.astype(str)}).cast(pl.Categorical),
    "arrow text": lambda x: pl.DataFrame({"grade": x.astype(str)}).to_arrow(),
    "arrow integers": lambda x: pl.DataFrame({"grade": x}).to_arrow(),
}
LABELS = SPELLINGS["text"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_numbers_and_text_that_say_the_same_are_one_category(spelling):
    first, second = GRADES
    X, Y, same = LABELS(first), SPELLINGS[spelling](second), LABELS(second)
    for one, other in ((X, Y), (Y, X)):
        assert_close(ek.mmd2(one, other, ek.Delta()), ek.mmd2(X, same, ek.Delta()))
        test = ek.mmd_two_sample_test(one, other, ek.Delta(), rng=0)
        assert test.p_value == ek.mmd_two_sample_test(X, same, ek.Delta(), rng=0).p_value > 0.05
        found = ek.drift(one, other, n_permutations=0)
        assert_close(found.mmd2, ek.drift(X, same, n_permutations=0).mmd2)
        assert len(ek.monitoring.monitor([one, other]).windows.schema.states[0]) == 3
    assert_close(ek.witness(X, Y, ek.Delta(), Y), ek.witness(X, same, ek.Delta(), same))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_models_read_numbers_and_text_that_say_the_same(spelling):
    first, second = GRADES
    X, Y, same = LABELS(first), SPELLINGS[spelling](second), LABELS(second)
    p, q = ek.learn_chow_liu(X), ek.learn_chow_liu(Y)
    assert_close(p.log_likelihood(Y), p.log_likelihood(same))
    assert_close(q.log_likelihood(X), q.log_likelihood(SPELLINGS[spelling](first)))
    for data in ([X, Y], [Y, X], lambda: iter([Y, X, Y])):
        learned = ek.learn_chow_liu(data)
        assert learned.cardinalities == (3,)
        whole = [
            LABELS(x) for x in ((first, second) if isinstance(data, list) else (second, *GRADES))
        ]
        again = ek.learn_chow_liu(pd.concat(whole))
        assert_close(learned.log_likelihood(X), again.log_likelihood(X))
    assert_close(
        np.concatenate(list(ek.over_chunks(p.log_likelihood, [X, Y]))),
        p.log_likelihood(pd.concat([X, same])),
    )
    assert_close(ek.mmd2(p, Y), ek.mmd2(p, same))
    assert ek.mmd_test(Y, p, rng=0).p_value == ek.mmd_test(same, p, rng=0).p_value
    found, wanted = (ek.mmd_compare(p, q, rows).difference for rows in (Y, same))
    assert_close(found, wanted)


def test_truth_values_and_words_for_them_are_one_category():
    truth = np.random.default_rng(1).random((2, 60)) < 0.4
    X = pd.DataFrame({"a": truth[0]})
    same = ek.mmd2(X, pd.DataFrame({"a": truth[1]}), ek.Delta())
    for words in (["False", "True"], ["false", "true"], ["0", "1"], [0, 1]):
        Y = pd.DataFrame({"a": np.asarray(words, dtype=object)[truth[1].astype(int)]})
        assert_close(ek.mmd2(X, Y, ek.Delta()), same)
        assert_close(ek.mmd2(Y, X, ek.Delta()), same)
        assert_close(ek.drift(X, Y, n_permutations=0).mmd2, ek.drift(Y, X, n_permutations=0).mmd2)


def test_labels_stay_apart_or_are_one_by_what_they_say():
    X, Y = pd.DataFrame({"a": ["1", "2", "2", "x"]}), pd.DataFrame({"a": [2, 3, 3, 2]})
    codes = [[0], [1], [1], [3]], [[1], [2], [2], [1]]
    assert_close(ek.mmd2(X, Y, ek.Delta()), ek.mmd2(*map(np.array, codes), ek.Delta()))
    assert ek.learn_chow_liu([X, Y]).states == (("1", "2", "3", "x"),)
    assert ek.learn_chow_liu([Y, X]).states == (("1", "2", "3", "x"),)
    X = pd.DataFrame({"zip": ["0123", "123", "0123", "77"]})
    Y = pd.DataFrame({"zip": ["0123", "0123", "123", "88"]})
    learned = ek.learn_chow_liu([X, Y])
    assert learned.states == (("0123", "123", "77", "88"),)
    k = ek.Delta()
    codes = [[[0], [1], [0], [2]], [[0], [0], [1], [3]]]
    assert_close(ek.mmd2(X, Y, k), ek.mmd2(*map(np.array, codes), k))
    x, _ = GRADES
    frame = LABELS(x)
    model = ek.ExpectedKernelRidge(density="chow_liu").fit(frame, x * 1.5)
    padded = pd.DataFrame({name: "0" + frame[name].astype(str) for name in frame})
    with pytest.warns(UserWarning, match="not seen in fit"):
        found = model.predict(padded)
    with pytest.warns(UserWarning, match="not seen in fit"):
        assert_close(found[:1], model.predict(padded[:1]))
    with pytest.raises(ek.DataError, match=r"must hold one of '1', '2', or nothing. Got '01'"):
        labelled([0.2, 0.8], ["1", "2"]).log_likelihood(pd.DataFrame({"x": ["01", "02"]}))
    p = labelled([0.2, 0.8], [1, 2])
    assert_close(p.log_likelihood(pd.DataFrame({"x": ["01", "02"]})), np.log([0.2, 0.8]))
    with pytest.raises(ek.DataError, match=r"'x' must hold one of 1, 2, or nothing. Got '01' in"):
        p.log_likelihood(pd.DataFrame({"x": ["1", "01"]}))


def test_estimators_know_categories_by_what_they_say():
    x, _ = GRADES
    frame, y = LABELS(x), x * 1.5
    model = ek.ExpectedKernelRidge(density="chow_liu").fit(frame, y)
    for spelling in (
        "integers",
        "floats",
        "categories of numbers",
        "polars integers",
        "arrow text",
    ):
        assert_close(model.predict(SPELLINGS[spelling](x)), model.predict(frame))
