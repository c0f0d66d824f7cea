"""Samples go to ArviZ and come back as they were."""

import sys
import warnings

import numpy as np
import pytest

import expectedkernels as ek

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it announces another package
    arviz = pytest.importorskip("arviz")

LABELS = {
    "none": None,
    "text": [["no", "yes"], ["low", "mid", "high"]],
    "numbers": [[10, 20], [1, 2, 3]],
    "fractions": [[0.5, 1.5], [1, 2.5, 3]],
    "bools": [[False, True], ["low", "mid", "high"]],
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("collapsed", [False, True])
def test_samples_come_back_as_they_were(labels, collapsed):
    target = ek.random_circuit(2, 2, rng=0, cardinalities=[2, 3])
    if LABELS[labels] is not None:
        target = target.with_names(["rain", "wind"], LABELS[labels])
    rows = target.sample(30, rng=1)
    if collapsed:
        rows[np.random.default_rng(2).random(rows.shape) < 0.3] = np.nan
    weights = np.random.default_rng(3).dirichlet(np.ones(30))
    samples = ek.WeightedSamples(target, rows, weights)
    data = samples.to_arviz()
    found = ek.WeightedSamples(target, data, data.sample_stats["weight"].values.ravel())
    np.testing.assert_array_equal(found.rows, samples.rows)
    np.testing.assert_array_equal(found.weights, samples.weights)
    np.testing.assert_allclose(
        target.log_likelihood(found.rows), target.log_likelihood(rows), rtol=0, atol=1e-10
    )


def test_arviz_summarises_what_it_is_given():
    target = ek.asia()
    samples = ek.WeightedSamples(target, target.sample(200, rng=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains that never move have no diagnostics
        table = arviz.summary(samples.to_arviz(), kind="stats", round_to="none")
    means = dict(zip(target.names, samples.rows.mean(axis=0), strict=True))
    assert table["mean"].to_dict() == pytest.approx(means)
    assert samples.to_arviz().posterior["smoke"].attrs["states"] == ["yes", "no"]


def test_chains_of_arviz_are_samples_of_discrete_variables_by_name():
    target = ek.asia()
    drawn = np.stack([target.sample(25, rng=seed) for seed in (0, 1)])
    order = np.random.default_rng(0).permutation(len(target.names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = arviz.from_dict(
            posterior={target.names[v]: drawn[..., v].astype(int) for v in order}
        )
    found = ek.WeightedSamples(target, data)
    np.testing.assert_array_equal(found.rows, drawn.reshape(-1, 8))
    kernel = ek.ExpHamming(1.0)
    np.testing.assert_array_equal(
        ek.expected_kernel(target, data, kernel), ek.expected_kernel(target, found.rows, kernel)
    )


def test_the_package_is_named_if_it_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ek.CircuitError, match="arviz is not installed"):
        ek.WeightedSamples(ek.factorized([[0.5, 0.5]]), [[0]]).to_arviz()
