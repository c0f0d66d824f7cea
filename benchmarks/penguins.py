"""The estimators with their defaults on the penguins of the Palmer Archipelago, as they come.

The table has text columns and holes (package palmerpenguins). More values are hidden at random, in
the rows for fitting and in those for testing alike; all methods see the same folds and holes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import expectedkernels as ek

HIDDEN = (0.0, 0.2, 0.4)
"""Which share of the values is hidden besides those that are missing anyway."""
REPEATS, FOLDS = 4, 5
MASS = "body_mass_g"


def penguins() -> None:
    """Regression of the body mass, classification of sex and species, and imputation."""
    try:
        from palmerpenguins import load_penguins
    except ImportError:
        print("\n(no penguins: pip install palmerpenguins)")
        return
    table = load_penguins()
    text = [name for name in table.columns if table[name].dtype.kind not in "if"]
    _scores(table, MASS, text, "R2 of the body mass in grams", _regressors)
    _scores(table, "sex", text, "share of sexes that are right", _classifiers)
    _scores(table, "species", text, "share of species that are right", _classifiers)
    _imputation(table)


def _scores(table: Any, target: str, text: list[str], what: str, methods: Any) -> None:
    known = table[table[target].notna()]
    X, y = known.drop(columns=target), known[target].to_numpy()
    text = [name for name in text if name != target]
    models = methods([name for name in X.columns if name not in text], text)
    lines = []
    for name, model in models.items():
        scores = [_cross_validated(model, X, y, share, text) for share in HIDDEN]
        lines.append((name, *(f"{np.mean(s):.3f} +- {np.std(s):.3f}" for s in scores)))
    title = f"penguins, {len(X)} rows: {what}, {REPEATS} x {FOLDS} folds"
    show(title, [("", *(f"{share:.0%} hidden" for share in HIDDEN)), *lines])


def _cross_validated(model: Any, X: Any, y: Any, share: float, text: list[str]) -> list[float]:
    """The mean score over the folds, for every repeat."""
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import KFold, StratifiedKFold

    kind = StratifiedKFold if is_classifier(model) else KFold
    means = []
    for repeat in range(REPEATS):
        holes = X.mask(np.random.default_rng(repeat).random(X.shape) < share)
        if "HistGradient" in type(model).__name__:
            holes = holes.astype(dict.fromkeys(text, "category"))
        scores = []
        for train, test in kind(FOLDS, shuffle=True, random_state=repeat).split(X, y):
            with warnings.catch_warnings():  # of imputers that have not converged
                warnings.simplefilter("ignore")
                fitted = clone(model).fit(holes.iloc[train], y[train])
                scores.append(fitted.score(holes.iloc[test], y[test]))
        means.append(float(np.mean(scores)))
    return means


def _regressors(numeric: list[str], text: list[str]) -> dict[str, Any]:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    others = {
        f"{name}, SVR()": TransformedTargetRegressor(pipeline, transformer=StandardScaler())
        for name, pipeline in _pipelines(numeric, text, SVR()).items()
    }
    plain = _pipelines(numeric, text, SVR())["mean imputation"]
    return {
        "ExpectedSVR()": ek.ExpectedSVR(),
        "ExpectedKernelRidge()": ek.ExpectedKernelRidge(),
        "ExpectedGaussianProcessRegressor()": ek.ExpectedGaussianProcessRegressor(),
        **others,
        "mean imputation, SVR() of grams": plain,
        "HistGradientBoostingRegressor()": HistGradientBoostingRegressor(),
    }


def _classifiers(numeric: list[str], text: list[str]) -> dict[str, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.svm import SVC

    others = _pipelines(numeric, text, SVC())
    return {
        "ExpectedKernelClassifier()": ek.ExpectedKernelClassifier(),
        "ExpectedSVC()": ek.ExpectedSVC(),
        **{f"{name}, SVC()": pipeline for name, pipeline in others.items()},
        "HistGradientBoostingClassifier()": HistGradientBoostingClassifier(),
    }


def _pipelines(numeric: list[str], text: list[str], model: Any) -> dict[str, Any]:
    """One-hot bits and standardised columns, imputed in several ways, before a model."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    bits = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = make_column_transformer(
        (StandardScaler(), numeric), (bits, text), sparse_threshold=0.0
    )
    return {name: make_pipeline(columns, imputer, model) for name, imputer in _imputers().items()}


def _imputers() -> dict[str, Any]:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    return {
        "mean imputation": SimpleImputer(),
        "iterative imputation": IterativeImputer(random_state=0),
        "nearest neighbours": KNNImputer(),
    }


def _imputation(table: Any) -> None:
    """How far imputed numbers are from those that were hidden, in standard deviations."""
    text = [name for name in table.columns if table[name].dtype.kind not in "if"]
    numeric = [name for name in table.columns if name not in text]
    whole = _pipelines(numeric, text, "passthrough")
    ours = {
        "CircuitImputer()": ek.CircuitImputer(),
        "CircuitImputer('map')": ek.CircuitImputer("map"),
    }
    lines = []
    for name, imputer in {**ours, **whole}.items():
        errors = [_imputation_errors(imputer, table, numeric, share) for share in HIDDEN[1:]]
        lines.append((name, *(f"{np.mean(e):.3f} +- {np.std(e):.3f}" for e in errors)))
    title = f"penguins, {len(table)} rows: error of imputed numbers, in standard deviations"
    show(title, [("", *(f"{share:.0%} hidden" for share in HIDDEN[1:])), *lines])


def _imputation_errors(imputer: Any, table: Any, numeric: list[str], share: float) -> list[float]:
    truth = table[numeric].to_numpy(dtype=float)
    at = [table.columns.get_loc(name) for name in numeric]
    errors = []
    for repeat in range(REPEATS):
        hidden = np.random.default_rng(repeat).random(table.shape) < share
        away = (_filled(imputer, table.mask(hidden), numeric) - truth) / np.nanstd(truth, axis=0)
        errors.append(float(np.sqrt(np.nanmean(away[hidden[:, at]] ** 2))))
    return errors


def _filled(imputer: Any, table: Any, numeric: list[str]) -> Any:
    """The numeric columns, imputed."""
    from sklearn.base import clone

    imputer = clone(imputer)
    if isinstance(imputer, ek.CircuitImputer):
        filled = imputer.set_output(transform="pandas").fit_transform(table)
        return filled[numeric].to_numpy(dtype=float)
    with warnings.catch_warnings():  # of imputers that have not converged
        warnings.simplefilter("ignore")
        filled = imputer.fit_transform(table)[:, : len(numeric)]
    scaler = imputer[0].named_transformers_["standardscaler"]
    return scaler.inverse_transform(filled)


def show(title: str, rows: list[tuple[str, ...]]) -> None:
    """Print a title, and rows with their cells below each other."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    print(f"\n{title}")
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


ALL = [penguins]
