"""Tables that are too large raise errors with figures before memory is taken."""

import tracemalloc

import numpy as np
import pytest

import expectedkernels as ek

NAN = np.nan


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ek.ExpectedKernelRidge(), "A kernel matrix of 53940 rows takes 21.7 GiB, more than 4 GiB"),
        (ek.ExpectedSVR(), "A kernel matrix of 53940 rows takes 21.7 GiB"),
        (ek.ExpectedSVC(), "A kernel matrix of 53940 rows takes 21.7 GiB"),
        (ek.ExpectedKernelClassifier(), "ExpectedKernelFeatures of all rows.* set max_bytes to 58"),
        (ek.ExpectedGaussianProcessRegressor(), "4 kernel matrices of 53940 rows take 86.7 GiB"),
    ],
    ids=lambda x: type(x).__name__ if hasattr(x, "fit") else "",
)
@pytest.mark.parametrize("holes", [False, True])
def test_too_many_rows_are_refused_before_memory_is_taken(model, message, holes):
    X = np.random.default_rng(0).normal(size=(53940, 2))
    X[: 5000 if holes else 0, 0] = NAN
    tracemalloc.start()
    try:
        with pytest.raises(ek.DataError, match=message):
            model.fit(X, (X[:, 1] > 0).astype(float))
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def test_the_remedy_for_many_rows_works():
    X = np.random.default_rng(0).normal(size=(53940, 2))
    X[::3, 0] = NAN
    features = ek.ExpectedKernelFeatures(10, random_state=0)
    assert features.fit_transform(X).shape == (53940, 10)
    few = ek.ExpectedKernelRidge(alpha=0.1).fit(X[:200], X[:200, 1])
    assert np.isfinite(few.predict(X[:50])).all()


def test_rows_that_are_dropped_take_no_memory():
    X = np.full((53940, 2), NAN)
    X[:50] = np.random.default_rng(0).normal(size=(50, 2))
    model = ek.ExpectedKernelRidge(alpha=0.1, fit_missing="drop").fit(X, np.arange(53940.0))
    assert np.isfinite(model.predict(X[:50])).all()


@pytest.mark.parametrize("model", [ek.ExpectedKernelRidge(), ek.CircuitImputer()])
def test_identifiers_are_refused_before_memory_is_taken(model):
    X = np.array([[f"row {i}", i] for i in range(30000)], dtype=object)
    model.set_params(categorical_features=[0])
    with pytest.raises(
        ek.DataError, match=r"take 6.7 GiB.* column 0 has 30000 categories in 30000"
    ):
        model.fit(X, np.arange(30000.0))


def test_normal_distributions_of_too_many_columns_are_refused():
    X = np.zeros((20, 8500))
    with pytest.raises(ek.DataError, match=r"A normal distribution of 8500 columns.* 4.3 GiB"):
        ek.ExpectedKernelRidge().fit(X, np.arange(20.0))


def table(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    holes = np.where(rng.random((30, 3)) < 0.4, NAN, X[:30])
    holes[5:15] = [0.3, NAN, NAN]  # many rows of one pattern
    return X, X[:, 0] + np.sin(X[:, 1]), holes


def test_kernels_that_are_too_many_are_not_kept(tmp_path):
    X, y, holes = table()
    model = ek.ExpectedKernelRidge(alpha=0.1, memory=tmp_path).fit(X, y)
    wanted = model.predict(holes)
    model.set_params(max_bytes=1000)
    kept = len(list(tmp_path.rglob("output.pkl")))
    np.testing.assert_allclose(model.predict(holes[:20]), wanted[:20], rtol=1e-10)
    assert len(list(tmp_path.rglob("output.pkl"))) == kept
