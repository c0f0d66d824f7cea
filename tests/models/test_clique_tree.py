"""Products and sums of tables of cliques against plain NumPy."""

import numpy as np

from expectedkernels.models import clique_tree as tables


def test_tables_with_many_short_axes():
    rng = np.random.default_rng(0)
    shape = (2, 3, 1, 4, 2, 5, 2, 3, 2, 2)
    for _ in range(20):
        parts = [
            tables.Scaled(
                rng.random(
                    [n if keep else 1 for n, keep in zip(shape, rng.random(10) < 0.6, strict=True)]
                ),
                -20.0,
            )
            for _ in range(3)
        ]
        expected = np.broadcast_to(parts[0].data * parts[1].data * parts[2].data, shape)
        found = tables.product(parts, shape)
        assert not found.is_log
        np.testing.assert_allclose(found.data, expected, rtol=1e-14)
        logs = tables.product(
            [part._replace(low=-500.0, data=part.data * 1e-200) for part in parts], shape
        )
        assert logs.is_log
        np.testing.assert_allclose(logs.data, np.log(expected) - 600 * np.log(10), rtol=1e-13)
        axes = tuple(np.flatnonzero(rng.random(10) < 0.5).tolist())
        np.testing.assert_allclose(
            tables.summed(found.data, axes), expected.sum(axis=axes), rtol=1e-13
        )
