"""Circuits with names as densities: columns and categories are found by what they are called."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.mixture import GaussianMixture
from sklearn.svm import SVR

import expectedkernels as ek
from assertions import assert_close

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(30, 3)), columns=["a", "b", "c"])
TARGET = TABLE["a"].to_numpy() + 0.1 * RNG.normal(size=30)
HOLES = TABLE.iloc[:4].assign(a=np.nan)


def normals(**means):
    circuit = ek.gaussian_mixture([1.0], [list(means.values())], [[1.0] * len(means)])
    return circuit.with_names(list(means))


IN_ORDER, TURNED = normals(a=1.0, b=2.0, c=0.0), normals(c=0.0, a=1.0, b=2.0)


def test_expected_predictions_take_variables_by_their_names():
    model = SVR().fit(TABLE, TARGET)
    assert_close(
        ek.expected_prediction(model, TURNED, HOLES), ek.expected_prediction(model, IN_ORDER, HOLES)
    )


def test_densities_take_variables_by_their_names():
    first, second = (ek.ExpectedSVR(density=p).fit(TABLE, TARGET) for p in (IN_ORDER, TURNED))
    assert_close(second.predict(HOLES), first.predict(HOLES))


@pytest.mark.parametrize("columns", ["as they are", "sorted"])
def test_densities_take_states_by_their_labels(columns):
    asia = ek.asia()
    circuit = asia.compile()[0]
    table = asia.sample(300, rng=0, as_frame=True)
    if columns == "sorted":
        table = table[sorted(table.columns)]
    target = (table["dysp"] == "yes") + 0.5 * (table["xray"] == "yes")
    model = ek.ExpectedSVR(density=circuit).fit(table, target)
    row = table.iloc[[0]].astype(object)
    values, chances = [], []
    for smoke, dysp in itertools.product(["yes", "no"], repeat=2):
        full = row.assign(smoke=smoke, dysp=dysp)
        values.append(model.predict(full)[0])
        chances.append(np.exp(circuit.log_likelihood(full)[0]))
    expected = np.dot(values, chances) / sum(chances)
    assert_close(model.predict(row.assign(smoke=None, dysp=None)), [expected])


def test_other_names_are_refused():
    other = normals(a=0.0, b=0.0, x=0.0)
    with pytest.raises(ek.DataError, match=r"Only the table has \['c'\], only the circuit \['x'\]"):
        ek.ExpectedSVR(density=other).fit(TABLE, TARGET)
    with pytest.raises(ek.DataError, match="matched with the columns of a table by these"):
        ek.expected_prediction(SVR().fit(TABLE, TARGET), other, HOLES)


def test_other_categories_are_refused():
    rain = ek.factorized([[0.2, 0.3, 0.5]]).with_names(["rain"], [["no", "some", "much"]])
    table = pd.DataFrame({"rain": ["no", "lots"] * 10})
    with pytest.raises(ek.DataError, match=r"'rain' has the categories \['lots', 'no'\], and"):
        ek.ExpectedSVR(density=rain).fit(table, np.arange(20.0))


def test_arrays_are_matched_by_position():
    model = ek.ExpectedSVR(density=IN_ORDER).fit(TABLE.to_numpy(), TARGET)
    plain = ek.gaussian_mixture([1.0], [[1.0, 2.0, 0.0]], [[1.0] * 3])
    other = ek.ExpectedSVR(density=plain).fit(TABLE.to_numpy(), TARGET)
    assert_close(model.predict(HOLES.to_numpy()), other.predict(HOLES.to_numpy()))


def test_categories_that_a_table_happens_to_lack_are_those_of_the_circuit():
    rain = ek.factorized([[0.2, 0.3, 0.5]]).with_names(["rain"], [["no", "some", "much"]])
    table = pd.DataFrame({"rain": ["no", "some"] * 10})
    model = ek.ExpectedKernelRidge(density=rain).fit(table, np.arange(20.0))
    asked = pd.DataFrame({"rain": ["no", "some", "much", None]})
    found = model.predict(asked)
    assert found[3] == pytest.approx(found[:3] @ [0.2, 0.3, 0.5])


def test_models_as_densities_are_compiled():
    asia = ek.asia()
    table = asia.sample(100, rng=0, as_frame=True)
    target = np.arange(100.0)
    row = table.iloc[:2].astype(object).assign(smoke=None)
    expected = ek.ExpectedSVR(density=asia.compile()[0]).fit(table, target).predict(row)
    assert_close(ek.ExpectedSVR(density=asia).fit(table, target).predict(row), expected)
    pytest.importorskip("pgmpy")
    network = ek.models.to_pgmpy(asia)
    assert_close(ek.ExpectedSVR(density=network).fit(table, target).predict(row), expected)


def test_mixtures_of_scikit_learn_as_densities():
    mixture = GaussianMixture(2, covariance_type="diag", random_state=0)
    with pytest.raises(ek.CircuitError, match="not fitted yet: call its fit first"):
        ek.ExpectedSVR(density=mixture).fit(TABLE, TARGET)
    mixture.fit(TABLE)
    expected = ek.ExpectedSVR(density=ek.as_model(mixture)).fit(TABLE, TARGET).predict(HOLES)
    assert_close(ek.ExpectedSVR(density=mixture).fit(TABLE, TARGET).predict(HOLES), expected)
