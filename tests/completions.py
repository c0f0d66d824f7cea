"""All that an incomplete row may be, by enumeration: for circuits over bins and categories."""

import numpy as np


def completions(model, row, n_nodes=20):
    """Completions of a row, and their probabilities given what is observed.

    Within bins these are the nodes of Gauss-Legendre quadrature.
    """
    variables, raw = model.density_.variables, row
    row = model.columns_.standardise(row)
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    rows, shares = row[None], np.ones(1)
    states = np.array([[v.observe(row[None]).state[0] for v in variables]], dtype=float)
    for i, variable in enumerate(variables):
        if not np.isnan(row[variable.columns]).any():
            continue
        low, high = variable.low, variable.high
        inside = (low < high).any(axis=1)
        times = np.where(inside, n_nodes, 1)
        at = np.repeat(np.arange(len(low)), times)
        node = np.concatenate([nodes if bin_ else [-1.0] for bin_ in inside])
        share = np.concatenate([weights / 2 if bin_ else [1.0] for bin_ in inside])
        values = low[at] + (high - low)[at] * (node[:, None] + 1) / 2
        n, m = len(rows), len(at)
        rows, states = np.repeat(rows, m, axis=0), np.repeat(states, m, axis=0)
        rows[:, variable.columns], states[:, i] = np.tile(values, (n, 1)), np.tile(at, n)
        shares = np.repeat(shares, m) * np.tile(share, n)
    shares = shares * np.exp(model.circuit_.log_likelihood(states))
    return np.where(np.isnan(raw), model.columns_.undo(rows), raw), shares / shares.sum()


def mean_and_deviation(f, model, row):
    """The mean and the standard deviation of a function over all completions of a row."""
    rows, shares = completions(model, row)
    values = f(rows)
    shares = shares.astype(values.dtype)
    mean = shares @ values
    return mean, np.sqrt(shares @ (values - mean) ** 2)
