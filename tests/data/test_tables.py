"""Columns of tables, and bins of numbers: none is empty, their names say where they begin."""

import numpy as np
import pandas as pd
import pytest

from expectedkernels.data.tables import FrameColumn, binned, edges_of, frame_columns

RNG = np.random.default_rng(0)
COLUMNS = {
    "normal": RNG.normal(size=200),
    "few digits apart": 1e6 + RNG.random(50) * 1e-3,
    "mostly the smallest": np.concatenate([np.zeros(95), np.arange(1.0, 6.0)]),
    "mostly the largest": np.concatenate([np.full(95, 1.23456789), np.arange(-5.0, 0.0)]),
    "tiny": RNG.random(50) * 1e-310,
    "holes": np.where(RNG.random(100) < 0.3, np.nan, RNG.exponential(size=100)),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("n_bins", [2, 4])
def test_bins_are_found_again_by_their_names(name, n_bins):
    x = COLUMNS[name]
    found = binned(FrameColumn("x", "number", x), n_bins)
    assert 2 <= len(found.categories) <= n_bins
    assert set(found.values) - {None} == set(found.categories)  # none is empty
    edges = edges_of(found.categories)
    places = np.searchsorted(edges, x, side="right")
    wanted = [None if np.isnan(v) else found.categories[i] for v, i in zip(x, places, strict=True)]
    assert found.values == wanted


def test_labels_that_are_no_bins_and_kinds_of_columns():
    no_bins = None, [], [1, 2], ["a", "b"], ["below 1", "2 or more"], ["below x", "x or more"]
    assert [edges_of(labels) for labels in no_bins] == [None] * 6
    columns = {"a": [1, None, "z"], "b": [1, None, 2], "c": [True, None, False]}
    frame = pd.DataFrame(columns, dtype=object)
    kinds = {column.name: column.kind for column in frame_columns(frame)}
    assert kinds == {"a": "label", "b": "number", "c": "bool"}
