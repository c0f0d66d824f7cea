"""All densities serve all estimators; the default one is an average."""

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek


def table(seed, n=60):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    X = pd.DataFrame({"a": a, "b": a + 0.5 * rng.normal(size=n), "c": rng.choice(list("xyz"), n)})
    holes = X.iloc[:8].copy()
    holes.loc[[0, 1, 2], "b"] = np.nan
    holes.loc[[2, 3], "c"] = None
    holes.loc[[4], ["a", "b", "c"]] = None
    return X, a + (X["c"] == "x"), holes


@pytest.mark.parametrize(
    "name",
    ["auto", "gaussian", "kernel", "gaussian_mixture", "chow_liu", "strudel", "mixture"],
)
def test_every_density_serves_all_machines(name):
    X, y, holes = table(0)
    for kind in (ek.ExpectedSVR, ek.ExpectedKernelRidge, ek.ExpectedGaussianProcessRegressor):
        options = {} if kind is not ek.ExpectedGaussianProcessRegressor else {"optimizer": None}
        model = kind(density=name, random_state=0, **options).fit(X, y)
        mean, std = model.predict(holes, return_std=True)
        assert np.isfinite(mean).all()
        assert (std[:5] > 0).all()
        drawn = model.density_.draws(model._read(holes), 400, np.random.default_rng(0))
        rows = drawn.reshape(-1, drawn.shape[2])
        f = model._machine.expansion.at(model.density_, rows, model._resources)
        f = f.reshape(400, len(holes))
        np.testing.assert_array_less(abs(mean - f.mean(axis=0)), 5 * f.std(axis=0) / 20 + 1e-6)
        if not options:
            np.testing.assert_allclose(std, f.std(axis=0), rtol=0.2, atol=0.1)


def test_the_average_is_that_of_its_parts():
    X, y, holes = table(1)
    model = ek.ExpectedSVR(density="auto", random_state=0).fit(X, y)
    p = model.density_
    assert p.names == ["gaussian", "kernel(0.6)"]
    assert repr(p) == "AverageDensity(0.5 gaussian + 0.5 kernel(0.6))"
    Z, f = model._read(holes)[:5], model._machine.expansion
    every = [part.mean(f, part.rows(Z), model._resources) for part in p.parts]
    np.testing.assert_allclose(model.predict(holes)[:5], np.mean(every, axis=0)[:, 0])
    assert model.circuit_ is None
    means = p.means(Z)
    for nodes, variable in zip(p.nodes(p.rows(Z)), p.variables, strict=True):
        assert set(nodes.rows) == set(np.flatnonzero(np.isnan(Z[:, variable.columns[0]])))
        for row in np.unique(nodes.rows):
            weights, values = nodes.weights[nodes.rows == row], nodes.values[nodes.rows == row]
            np.testing.assert_allclose(weights.sum(), 1.0)
            np.testing.assert_allclose(
                weights @ values, means[row, variable.columns], rtol=0.02, atol=0.02
            )
    assert np.isfinite(ek.acquisition_gain(model, holes)[2, 1:]).all()


def test_the_parts_depend_on_the_kinds_of_columns_alone():
    X, y, holes = table(2)
    X.loc[X.index[::4], "b"] = np.nan
    model = ek.ExpectedKernelRidge(density="auto", random_state=0).fit(X, y)
    assert model.density_.names == ["gaussian", "kernel(0.6)"]
    assert np.isfinite(model.predict(holes)).all()
    rng = np.random.default_rng(0)
    states = np.where(rng.random((40, 3)) < 0.2, np.nan, rng.integers(3, size=(40, 3)))
    text = pd.DataFrame(states).map(lambda x: None if np.isnan(x) else "abc"[int(x)])
    bits = np.eye(3)[rng.integers(3, size=40)]
    for table_, options in (
        (text, {}),
        (states, {"groups": [[0], [1], [2]]}),
        (bits, {"groups": [[0, 1, 2]]}),
    ):
        model = ek.ExpectedKernelRidge(**options).fit(table_, rng.normal(size=40))
        assert model.densities_ == ["gaussian", "chow_liu"]
        assert model.circuit_ is model.density_.parts[1].circuit
        np.testing.assert_array_equal(model.density_weights_, [0.5, 0.5])
        assert np.isfinite(model.predict(table_)).all()


@pytest.mark.parametrize("name", ["auto", "gaussian"])
def test_deviations_of_expected_kernels_under_normals_are_refused(name):
    X, y, holes = table(3, 30)
    X.loc[X.index[::4], "b"] = np.nan
    model = ek.ExpectedSVR(density=name, fit_missing="expected").fit(X, y)
    assert np.isfinite(model.predict(holes)).all()
    with pytest.raises(ek.KernelError, match="Fit it with fit_missing='mean'"):
        model.predict(holes, return_std=True)


def test_densities_that_need_no_random_numbers_are_the_same_for_all_seeds():
    X = np.random.default_rng(0).normal(size=(40, 2))
    one, other = (
        ek.ExpectedSVR(density="gaussian", random_state=seed).fit(X, X[:, 0]).density_.mixture
        for seed in (0, 1)
    )
    np.testing.assert_array_equal(one.covariances, other.covariances)
