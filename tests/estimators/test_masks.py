"""Kernels that know which values are missing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR
from sklearn.utils._param_validation import InvalidParameterError

import expectedkernels as ek
from assertions import assert_raises, refusals
from machines import MACHINES, answers, target

NAN = np.nan
RATE = 0.7
WAYS = [("gaussian", "mean"), ("chow_liu", "expected"), ("auto", "mean")]


def table(n=60, seed=0, share=0.3):
    """A frame with a category, and holes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += X[:, 0]
    y = X[:, 0] - X[:, 2] + 0.1 * rng.normal(size=n)
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["kind"] = np.where(y + rng.normal(size=n) > 0, "p", np.where(X[:, 1] > 0, "q", "r"))
    return frame.mask(rng.random(frame.shape) < share), y


def factors(A, B, rate=RATE):
    """One by one: exp(-rate * number of columns of the frame that one of both lacks)."""
    a, b = A.isna().to_numpy(), B.isna().to_numpy()
    return np.array([[np.exp(-rate * sum(u != v)) for v in b] for u in a])


def plain(model, A):
    """The columns of numbers without masks."""
    return model._read(A)[:, : len(model._shift)]


def kernels(model, A, B=None, means=False):
    """The expected kernels between rows of frames, without masks; of the means of B."""
    Z, W = plain(model, A), plain(model, A if B is None else B)
    W = model.density_.means(W) if means else W
    Z = W if B is None else Z
    return model.density_.gram(model._gammas(model.gamma_), Z, W)


def both(model, A, test):
    """The kernels in fit and for prediction, with masks."""
    means = model.fit_missing_ == "mean"
    K = kernels(model, A, means=means) * factors(A, A)
    return K, kernels(model, test, A, means=means) * factors(test, A)


def by_squares(K, L, y, alpha):
    """Predictions of ridge regression from kernels."""
    return L @ np.linalg.solve(K + alpha * np.eye(len(K)), y)


@pytest.mark.parametrize(("density", "way"), WAYS)
def test_machines_are_those_of_products_of_matrices(density, way):
    (A, y), (test, _) = table(), table(20, 1)
    scaled, label = (y - y.mean()) / y.std(), np.digitize(y, [-0.7, 0.7])
    bits = np.eye(3)[label]
    share = bits.mean(axis=0)
    support = {"kernel": "precomputed", "C": 3.0, "tol": 1e-9}
    for model, values, by_hand in (
        (ek.ExpectedSVR(C=3.0, tol=1e-9), y,
         lambda K, L: SVR(**support).fit(K, scaled).predict(L) * y.std() + y.mean()),
        (ek.ExpectedKernelRidge(alpha=0.2), y,
         lambda K, L: by_squares(K, L, scaled, 0.2) * y.std() + y.mean()),
        (ek.ExpectedSVC(C=3.0, tol=1e-9), label,
         lambda K, L: SVC(**support).fit(K, label).decision_function(L)),
        (ek.ExpectedKernelClassifier(alpha=0.2, gamma="scale"), label,
         lambda K, L: share + by_squares(K, L, bits - share, 0.2)),
        (ek.ExpectedGaussianProcessRegressor(alpha=0.05, optimizer=None), y,
         lambda K, L: by_squares(K - np.diag(np.diag(K)), L, scaled, 1.15) * y.std() + y.mean()),
    ):  # fmt: skip
        model.set_params(density=density, fit_missing=way, mask_kernel=RATE).fit(A, values)
        K, L = both(model, A, test)
        atol = 1e-7 if hasattr(model, "C") else 1e-12
        np.testing.assert_allclose(answers(model, test), by_hand(K, L), rtol=1e-9, atol=atol)
        assert model.mask_rate_ == RATE
    np.fill_diagonal(K, 1.0 + 0.1 + 0.05)
    std = model.predict(test, return_std=True)[1] / y.std()
    complete = ~test.isna().any(axis=1).to_numpy()
    left = 1.1 - np.einsum("ri,ir->r", L, np.linalg.solve(K, L.T))
    np.testing.assert_allclose(std[complete], np.sqrt(left)[complete], rtol=1e-6)


test_wrong_mask_kernels_are_refused = refusals(InvalidParameterError, [
    (wrong, "'mask_kernel' parameter") for wrong in (-1.0, "always", np.inf, [1.0])
], lambda wrong: ek.ExpectedSVR(mask_kernel=wrong).fit([[0.0], [1.0]], [0.0, 1.0]))  # fmt: skip


@pytest.mark.parametrize(
    ("density", "way"), [("gaussian", "mean"), ("chow_liu", "mean"), ("chow_liu", "expected")]
)
def test_deviations_are_those_of_the_function_of_a_mask(density, way):
    A, y = table(40)
    options = {"density": density, "fit_missing": way, "mask_kernel": RATE}
    model = ek.ExpectedKernelRidge(alpha=0.2, **options).fit(A, y)
    test = A[A.isna().any(axis=1)].iloc[:4]
    mean, std = model.predict(test, return_std=True)
    Z = plain(model, test)
    draws = model.density_.draws(Z, 4000, np.random.default_rng(0))
    for i, own in enumerate(model._read(test)[:, Z.shape[1] :]):
        rows = np.column_stack([draws[:, i], np.tile(own, (len(draws), 1))])
        f = model._expected(rows, False)
        assert abs(f.mean() - mean[i]) < 5 * std[i] / np.sqrt(len(f)) + 1e-9
        np.testing.assert_allclose(f.std(), std[i], rtol=0.1, atol=1e-9)
    assert (model.predict(A.dropna(), return_std=True)[1] == 0).all()


@pytest.mark.parametrize("model", MACHINES.values(), ids=MACHINES)
def test_no_rate_is_no_mask_kernel_and_columns_have_no_order(model):
    (A, y), (test, _) = table(), table(20, 1)
    y = target(model, y, [0.0])
    plain = clone(model).fit(A, y)
    zero = clone(model).set_params(mask_kernel=0).fit(A, y)
    np.testing.assert_allclose(answers(zero, test), answers(plain, test), rtol=1e-12)
    assert plain.mask_rate_ == zero.mask_rate_ == 0.0
    masked = clone(model).set_params(mask_kernel=RATE, density="gaussian").fit(A, y)
    assert not np.allclose(answers(masked, test), answers(plain, test), rtol=1e-3)
    turned = clone(masked).fit(A[["kind", "c", "a", "b"]], y)
    found = answers(turned, test[["kind", "c", "a", "b"]])
    np.testing.assert_allclose(found, answers(masked, test), rtol=1e-7)


@pytest.mark.parametrize("model", MACHINES.values(), ids=MACHINES)
def test_auto_finds_masks_that_tell_something_and_no_others(model):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 3))
    y = target(model, X[:, 0] + 0.3 * rng.normal(size=150), [0.0])
    model = clone(model).set_params(mask_kernel="auto", density="gaussian")
    holes = np.where(rng.random(X.shape) < 0.3, NAN, X)
    assert clone(model).fit(holes, y).mask_rate_ == 0.0
    assert clone(model).fit(X, y).mask_rate_ == 0.0
    X[(y > 0) & (rng.random(150) < 0.9), 0] = NAN
    found = clone(model).fit(X, y)
    assert found.mask_rate_ > 0
    assert found.score(X, y) > clone(model).set_params(mask_kernel=None).fit(X, y).score(X, y)


def test_labels_may_be_text_where_some_rows_are_chosen(monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.base.MOST_COMPLETE", 50)
    (A, y), (test, _) = table(80), table(20, 1)
    model = ek.ExpectedSVC(mask_kernel="auto", density="gaussian")
    numbers = clone(model).fit(A, (y > 0).astype(int)).predict(test)
    words = model.fit(A, np.where(y > 0, "up", "down")).predict(test)
    assert words.tolist() == np.take(["down", "up"], numbers).tolist()


def test_several_targets_and_weights_of_rows():
    (A, y), (test, _) = table(), table(20, 1)
    model = ek.ExpectedKernelRidge(alpha=0.2, density="gaussian", mask_kernel=RATE)
    two = clone(model).fit(A, np.stack([y, -2.0 * y], axis=1))
    wanted = np.outer(clone(model).fit(A, y).predict(test), [1.0, -2.0])
    np.testing.assert_allclose(two.predict(test), wanted, rtol=1e-9)
    assert clone(two).set_params(mask_kernel="auto").fit(A, y).mask_rate_ == 0.0
    weights = 0.5 + np.arange(60) % 3
    weighted = clone(model).set_params(standardize=False).fit(A, y, sample_weight=weights)
    K, L = both(weighted, A, test)
    by_hand = KernelRidge(alpha=0.2, kernel="precomputed").fit(K, y, sample_weight=weights)
    np.testing.assert_allclose(weighted.predict(test), by_hand.predict(L), rtol=1e-8)


def test_units_of_columns_do_not_change_the_choice():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = X[:, 0] + X[:, 1]
    X[y > 0.5, 0] = NAN
    model = ek.ExpectedSVR(mask_kernel="auto", standardize=False, density="gaussian")
    one, other = clone(model).fit(X, y), clone(model).fit(1000 * X, y)
    assert one.mask_rate_ > 0
    np.testing.assert_allclose(one.mask_rate_, other.mask_rate_, rtol=1e-9)


def test_intervals_quantiles_and_draws_follow_the_mask():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = 3.0 * (X[:, 0] > 0) + 0.1 * rng.normal(size=200)
    X[X[:, 0] > 0, 0] = NAN
    model = ek.ExpectedKernelRidge(alpha=0.1, density="gaussian", mask_kernel="auto").fit(X, y)
    assert model.mask_rate_ > 0
    low, high = model.predict_interval(X)
    assert ((low <= y) & (y <= high)).mean() > 0.85
    assert (high - low).mean() < 2.0
    assert abs(model.predict_quantiles([[NAN, 0.0]], [0.5])[0, 0] - 3.0) < 0.5
    drawn = model.sample_predictions([[NAN, 0.0]], 200, rng=0)
    assert abs(np.median(drawn) - 3.0) < 0.5


def test_probabilities_follow_the_mask():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] > 0
    X[y, 0] = NAN
    for model in (ek.ExpectedSVC(), ek.ExpectedKernelClassifier()):
        fitted = model.set_params(density="gaussian", mask_kernel="auto").fit(X, y)
        assert fitted.predict_proba([[NAN, 0.0], [-0.5, 0.0]])[:, 1].round().tolist() == [1.0, 0.0]


@pytest.fixture(scope="module")
def masked():
    A, y = table(60, share=0.2)
    model = ek.ExpectedKernelRidge(alpha=0.2, density="chow_liu", mask_kernel=RATE).fit(A, y)
    return model, A.iloc[:5]


def test_coalitions_keep_the_mask_of_their_row(masked):
    model, rows = masked
    found = ek.shapley_values(model, rows)
    np.testing.assert_allclose(found.predictions, model.predict(rows), rtol=1e-9)
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, found.predictions, rtol=1e-9)
    Z = model._read(rows)
    Z[:, : len(model._shift)] = NAN
    base = model._answers(Z)
    np.testing.assert_allclose(found.base_values, base, rtol=1e-9)
    given = ek.shapley_values, model, rows
    assert_raises(ek.DataError, "does not matter what is missing", *given, method="independent")


def test_gains_are_those_of_the_mask_of_the_row(masked):
    model, rows = masked
    row = rows.iloc[[0]].copy()
    row["a"], row["kind"] = NAN, None
    gain = ek.acquisition_gain(model, row)
    Z = model._read(row)
    completed = np.repeat(Z, 3, axis=0)
    completed[:, 3:6] = np.eye(3)
    answer = model._answers(completed)
    nodes = model.density_.nodes(model.density_.rows(Z))[3]
    share = np.array([nodes.weights[nodes.values.argmax(axis=1) == k].sum() for k in range(3)])
    np.testing.assert_allclose(gain[0, 3], share @ (answer - share @ answer) ** 2, rtol=1e-9)
    history = ek.acquire(model, row, lambda name: {"a": 0.3, "kind": "p"}.get(name), budget=1)
    whole = model._numbers(row)
    asked = {"a": ([0], [0.3]), "kind": ([3, 4, 5], [1.0, 0.0, 0.0])}[history.asked[0]]
    whole[0, asked[0]] = asked[1]
    Z[:, : len(model._shift)] = model.columns_.standardise(whole)
    np.testing.assert_allclose(history.predictions[1], model._answers(Z)[0], rtol=1e-9)
