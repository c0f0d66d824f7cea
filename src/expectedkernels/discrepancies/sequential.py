"""Tests of a stream of rows that may be looked at after every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import exp, inf, log, sqrt
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels import arrays, checks
from expectedkernels.arrays import Array, RowsLike
from expectedkernels.checks import DataError, EvidenceError, KernelError, public_in
from expectedkernels.data import tables
from expectedkernels.data.schema import Schema, listed
from expectedkernels.discrepancies import hypothesis_tests as tests, mmd
from expectedkernels.kernels import empirical
from expectedkernels.kernels.empirical import DistributionLike, default_kernel
from expectedkernels.kernels.kernel import Kernel, refuse_gradients, require_kernel
from expectedkernels.kernels.target import TargetLike, as_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

ALPHA = 0.05
BETS = np.array([0.05, 0.1, 0.2, 0.4, 0.7, 0.95])
"""Shares of the wealth that are bet on every row."""
TOTAL = 2.1098
"""What 1 / (n log(n)^2) sums to from n = 2 on, rounded up."""
RESAMPLES = 400
"""How many bootstrap samples the tolerance of a sample comes from."""
CHUNK = 200
"""How many rows are compared with the rows before them at once."""
SHOWN = 100_000
"""So many e-values are kept for the plot."""
ROUNDING = 1e-9
"""A squared norm of a witness that is no larger, for every row, is rounding."""


@public_in("monitoring")
class SequentialTest:
    r"""A test of whether a stream of rows comes from a model, valid after every row.

    A bettor stakes wealth on every row before it is seen, on its payoff under the witness function
    between the rows of a window and the model. The mean embedding of the model is exact, so that
    the payoff has mean zero under the hypothesis, and wealth is a test martingale: an e-value at
    every row. It exceeds 1 / alpha with probability at most alpha, however often one looks, and
    whenever one stops.

    Parameters
    ----------
    model : Circuit, FactorGraph, network, or sample (data frame, array or Empirical)
        The distribution of the rows under the hypothesis, normalised. Of a sample, its own mean
        embedding takes the place of that of a model, and `tolerance` must be given.
    k : Kernel, optional
        Default: as for `mmd_test`.
    alpha : float
        The probability of an alarm, ever, if the hypothesis is true.
    arl : float, optional
        The average run length: the least mean number of rows until a false alarm, in place of
        `alpha`, for streams that are watched for a change without an end. The probability of a
        false alarm within n rows is at most n / arl.
    windows : sequence of int
        The numbers of last rows that witness functions are made of. Short windows find large
        changes, long ones small changes; the wealth is divided between them.
    tolerance : float or "auto"
        The discrepancy from the model that does not count as a change: the hypothesis is that
        every row has, given the rows before, a distribution whose maximum mean discrepancy (MMD)
        from the model is at most this. **Give one for every model that was fitted to data**: with
        zero, long streams always find what is wrong with a fitted model. Held-out rows tell how
        much: ``tolerance=sqrt(ek.mmd_test(held_out, model, k).interval(0.9)[1])``. "auto", for a
        sample: the quantile at 1 - alpha / 2 of the discrepancy between the sample and bootstrap
        samples of it. The other half of alpha is that of alarms, and the level is approximate.
    largest : float
        The largest k(x, x), which bets are bounded by: one for `RBF`, `Laplacian`, `ExpHamming`,
        `Delta` and their products.

    Attributes
    ----------
    kernel : Kernel
    windows : tuple of int
    tolerance : float
    threshold : float
        The e-value of an alarm: 1 / alpha, 2 / alpha for a sample, or `arl`.
    alarm : int or None
        The number of the first row, from 0, at which `threshold` was reached.
    n_rows : int
        The number of rows since the start, or since `reset`.

    Raises
    ------
    DataError
        If `alpha` is given beside `arl`, or the tolerance is so large that nothing can alarm.

    Notes
    -----
    With :math:`h(x, y) = k(x, y) - \mu(x) - \mu(y) + M` as for `mmd_test` and a window I, the
    payoff of row t is :math:`u_t = \sum_{i \in I} h(x_i, x_t) / \sqrt{S}`, where S is the sum of h
    over pairs in the window: the value of a witness of norm one, at most
    :math:`R = \sqrt{\kappa + M}` with the largest k(x, x), :math:`\kappa`. For every bet
    :math:`\lambda` of a grid and every window

    .. math:: E \leftarrow (E + \pi_t) \left(1 + \lambda \frac{u_t - \epsilon}{R + \epsilon}\right)

    with the tolerance :math:`\epsilon`. The e-value is the mean of all E and of what is not staked
    yet: with `alpha`, the :math:`\pi_t` sum to one over the stream, so that a change may come at
    any row; with `arl` all of them are one (Shiryaev and Roberts).

    Missing values are allowed with a model: an incomplete row stands for its conditional mean
    embedding given the observed values, exactly. Payoffs then have mean zero if values are missing
    at random: missingness may depend on observed values and on rows before. An incomplete row whose
    observed values have probability zero refutes the hypothesis: the e-value is infinite. Complete
    rows need no density, and are bet on as others.

    Rows may depend on rows before; what is tested is their distribution given these. Cost of a
    row: its embedding, and its kernels with the rows of the longest window.

    S. Shekhar and A. Ramdas, "Nonparametric two-sample testing by betting", IEEE Transactions on
    Information Theory 2023; J. Shin, A. Ramdas and A. Rinaldo, "E-detectors: a nonparametric
    framework for sequential change detection", 2022.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
    >>> q = ek.factorized([[0.8, 0.2], [0.6, 0.4]])
    >>> test = ek.monitoring.SequentialTest(p)
    >>> test.update(p.sample(200, rng=0)).shape, test.alarm
    ((200,), None)
    >>> _ = test.update(q.sample(200, rng=1))
    >>> print(test)
    Alarm at row 258: the e-value reached 20 (400 rows, log e-value 29.6, p = 1.3e-13,
    ExpHamming(gamma=None), windows of 25, 100, 400 rows).
    """

    alarm: int | None
    n_rows: int = 0

    def __init__(
        self,
        model: TargetLike | DistributionLike,
        k: Kernel | None = None,
        *,
        alpha: float = ALPHA,
        arl: float | None = None,
        windows: Sequence[int] = (25, 100, 400),
        tolerance: float | str = 0.0,
        largest: float = 1.0,
    ):
        name = "SequentialTest"
        checks.check_real(name, "alpha", alpha, 0, 1, "()", error=DataError)
        checks.check_real(name, "largest", largest, 0, inf, "()", error=DataError)
        if arl is not None:
            checks.check_real(name, "arl", arl, 1, inf, "()", error=DataError)
            if alpha != ALPHA:
                what = "'alpha' bounds the probability of an alarm, and 'arl' the mean run length"
                raise DataError(f"{what} until one. Got alpha={alpha:g} and arl={arl:g}: give one.")
        sizes = tuple(windows) if np.iterable(windows) else ()
        good = len(sizes) > 0 and all(checks.is_int(n) and n >= 1 for n in sizes)
        wanted = "a sequence of ints in [1, inf)"
        checks.check_parameter(good, name, "windows", windows, wanted, DataError)
        self.windows = tuple(map(int, sizes))
        given = as_target(model)
        self._sample = not empirical.is_model(given)
        if self._sample:
            sample = mmd.as_distribution(given).counted()
            tests.check_samples(sample.X, sample.weights)
            p, self._n_sample = mmd.MeanEmbedding(sample.merged()), len(sample.X)
        else:
            p = mmd.mean_embedding(given, "A sequential test")
        self.kernel = default_kernel(p.circuit) if k is None else k
        require_kernel(self.kernel)
        refuse_gradients(name, self.kernel)
        self._p = replace(p, kernel=self.kernel)
        self._total = float(arrays.to_cpu(self._p.total))
        self._largest, self._radius = largest, sqrt(largest + self._total)
        self.tolerance = self._read_tolerance(tolerance, alpha)
        self._arl, self.threshold = arl, arl or (2.0 if tolerance == "auto" else 1.0) / alpha
        self.reset()

    def _read_tolerance(self, tolerance: Any, alpha: float) -> float:
        if tolerance == "auto" and self._sample:
            return self._bootstrap(alpha)
        if tolerance == "auto":
            what = "tolerance='auto' resamples a sample, and this is a model"
            raise DataError(f"{what}. See 'tolerance' for models that were fitted to data.")
        checks.check_real("SequentialTest", "tolerance", tolerance, 0, error=DataError)
        if self._sample and tolerance == 0:
            what = "A sample differs from its source, and with tolerance 0 long streams alarm at"
            raise DataError(f"{what} the difference. Give tolerance='auto'.")
        if tolerance >= self._radius:
            what = f"With tolerance {tolerance:g} nothing can alarm: discrepancies under this"
            raise DataError(f"{what} kernel are at most {self._radius:.3g}.")
        return float(tolerance)

    def _bootstrap(self, alpha: float) -> float:
        """The quantile of the discrepancy between a sample and bootstrap samples of it."""
        shares, n = self._p.circuit.weights / self._p.circuit.weights.sum(), self._n_sample
        change = np.random.default_rng(0).multinomial(n, shares, size=RESAMPLES) / n - shares
        values = partial(tests.kernels_between, self.kernel.numbers, self._p.circuit.X)
        sums, _ = tests.row_sums(values, change)
        squared = np.maximum((change.T * sums).sum(axis=0), 0.0)
        return float(np.quantile(np.sqrt(squared), 1.0 - 0.5 * alpha))

    def reset(self) -> None:
        """Forget all rows, as after an alarm: the next row is row 0 of a new run.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> test = ek.monitoring.SequentialTest(ek.factorized([[0.5, 0.5]]))
        >>> _ = test.update([[0], [1]])
        >>> test.reset()
        >>> test.n_rows
        0
        """
        self._schema = self._p.circuit.schema or Schema((None,) * self._p.circuit.X.shape[1])
        self._rows, self._at = np.empty((0, self._schema.n_variables)), np.empty(0)
        self._sums = np.zeros(1)  # of h over pairs of the last n rows, n = 0, 1, ...
        self._wealth = np.full((len(self.windows), len(BETS)), -inf)  # logs
        self._rest, self._top, self._frames, self.alarm = 1.0, 0.0, False, None
        self.n_rows, self._logs = 0, list[float]()

    @property
    def log_e(self) -> float:
        """The log of the e-value after the last row."""
        return self._logs[-1] if self._logs else (0.0 if self._arl is None else -inf)

    @property
    def p_value(self) -> float | None:
        """One over the largest e-value so far, valid after every row; None with `arl`."""
        return None if self._arl is not None else exp(-self._top)

    @property
    def window(self) -> Array | DataFrame:
        """The last rows, as many as the longest window: a frame if frames were given."""
        return self._schema.frame(self._rows) if self._frames else self._rows.copy()

    def update(self, X: RowsLike) -> Array:
        """The log of the e-value after each of some more rows of the stream.

        Parameters
        ----------
        X : array of shape (rows, variables) or (variables,), or data frame
            One row or many, with the same results. NaN for missing values.

        Returns
        -------
        array of shape (rows,)

        Raises
        ------
        DataError
            If rows of a sample's stream are incomplete.
        EvidenceError
            If observed values have probability zero under a model that has a tolerance.
        KernelError
            If k(x, x) exceeds `largest`, or the kernel has negative values or is not positive
            definite. None of the rows counts if one of them raises.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> test = ek.monitoring.SequentialTest(ek.factorized([[0.5, 0.5], [0.3, 0.7]]))
        >>> test.update([[0, 1], [0, float("nan")]]).round(4).tolist()
        [0.0, 0.0644]
        """
        frames = tables.is_frame(table := tables.as_table(X))
        given = table if frames else np.atleast_2d(tables.as_floats(table))
        rows = empirical.sample_rows(SimpleNamespace(schema=self._schema), given, least=0)
        del self._logs[:-SHOWN]
        before, n = vars(self).copy(), len(self._logs)
        try:
            self._frames = frames
            possible = self._possible(rows)
            for part in arrays.spans(possible, CHUNK):
                self._bet(rows[part])
            for _ in rows[possible:]:  # wealth stays infinite
                self._record(inf)
            self._rows = np.concatenate([self._rows, rows[possible:]])[-max(self.windows) :]
        except BaseException:
            vars(self).update(before)
            del self._logs[n:]
            raise
        return np.array(self._logs[n:])

    def _possible(self, rows: Any) -> int:
        """How many rows come before the first whose observed values refute the hypothesis."""
        incomplete = np.flatnonzero(np.isnan(rows).any(axis=1))
        if not len(incomplete) or self.log_e == inf:
            return len(rows) if self.log_e < inf else 0
        if self._sample:
            what = f"Row {self.n_rows + incomplete[0]} is incomplete. A sample says nothing of"
            advice = "Fit a model to it, e.g. learn_mixture, or leave the columns out"
            raise DataError(f"{what} missing values. {advice}.")
        logs = arrays.to_cpu(self._p.circuit.log_likelihood(rows[incomplete]))
        impossible = incomplete[logs == -inf]
        if len(impossible) and self.tolerance > 0:
            what = "Row {row} has probability zero under the model, so its missing values have no"
            advice = "Smooth the model: model.smoothed(1e-3), or learn it with a pseudocount"
            raise EvidenceError(f"{what} distribution. {advice}.", row=self.n_rows + impossible[0])
        return int(impossible[0]) if len(impossible) else len(rows)

    def _bet(self, rows: Any) -> None:
        """Bet on rows one by one, with the kernels of all of them computed together."""
        known, most, windows = len(self._rows), max(self.windows), np.array(self.windows)
        every = np.concatenate([self._rows, rows])
        at = np.concatenate([self._at, arrays.to_cpu(self._p.at(rows))])
        kernels = self._p.between(rows, every)
        self._check_bound(kernels[:, known:].diagonal(), at[known:])
        h = kernels - at[known:, None] - at + self._total
        for i, end in enumerate(range(known, len(every))):
            # sums over the last n rows, of h with this row and of h over pairs, n = 0, 1, ...
            past = np.cumsum(np.append(0.0, h[i, max(0, end - most) : end][::-1]))
            n = np.minimum(windows, len(past) - 1)
            norms = self._sums[n]
            norms[norms <= ROUNDING * self._largest * n] = inf  # no witness, no payoff
            payoffs = past[n] / np.sqrt(norms)
            if (size := np.abs(payoffs).max()) > 1.001 * self._radius:  # more than rounding
                raise KernelError(
                    f"The payoff of row {self.n_rows} is {size:.4g}, and its bound is "
                    f"{self._radius:.4g}; bets need a positive definite kernel, such as RBF."
                )
            self._stake((payoffs - self.tolerance) / (self._radius + self.tolerance))
            self._sums = np.append(0.0, self._sums + 2.0 * past + h[i, end])[: most + 1]
        self._rows, self._at = every[-most:], at[-most:]

    def _check_bound(self, own: Any, at: Any) -> None:
        """Raise unless rows have embeddings as long as bets assume: payoffs are bounded then."""
        bad = (own > self._largest * (1.0 + ROUNDING)) | (at < -ROUNDING * self._largest)
        if bad.any():
            i = int(np.argmax(bad))
            what = f"k(x, x) is {own[i]:.4g} in row {self.n_rows + i} and 'largest' is"
            advice = "bets need a bound: give largest=..., and a kernel without negative values"
            raise KernelError(f"{what} {self._largest:g}; {advice}.")

    def _stake(self, z: Any) -> None:
        """Stake on the outcome z of a row, at least -1, for every window."""
        n, stake, rest = self.n_rows + 2, 1.0, -inf
        if self._arl is None:
            stake = 1.0 / (TOTAL * n * log(n) ** 2)
            self._rest -= stake
            rest = log(self._rest)
        self._wealth = np.logaddexp(self._wealth, log(stake)) + np.log1p(BETS * z[:, None])
        mean = np.logaddexp.reduce(self._wealth, axis=None) - log(self._wealth.size)
        self._record(float(np.logaddexp(mean, rest)))

    def _record(self, log_e: float) -> None:
        if self.alarm is None and log_e >= log(self.threshold):
            self.alarm = self.n_rows
        self._logs.append(log_e)
        self.n_rows, self._top = self.n_rows + 1, max(self._top, log_e)

    def plot(self) -> Axes:
        """Axes with the log of the e-value after every row, and the threshold. Needs matplotlib.

        Of more than 100,000 rows, with those of the last.

        Returns
        -------
        matplotlib axes

        Examples
        --------
        >>> import expectedkernels as ek
        >>> test = ek.monitoring.SequentialTest(ek.factorized([[0.5, 0.5]]))
        >>> _ = test.update([[0], [1], [1]])
        >>> test.plot().get_ylabel()
        'log e-value'
        """
        from expectedkernels.plotting import plot_stream

        return plot_stream(self._logs[-SHOWN:], self.n_rows, log(self.threshold), self.alarm)

    def __str__(self) -> str:
        claim = f"No alarm: the e-value did not reach {self.threshold:g}"
        if self.alarm is not None:
            claim = f"Alarm at row {self.alarm}: the e-value reached {self.threshold:g}"
        p = "" if self.p_value is None else f", p = {self.p_value:.2g}"
        within = f", tolerance {self.tolerance:.3g}" if self.tolerance else ""
        return (
            f"{claim} ({self.n_rows} rows, log e-value {self.log_e:.3g}{p}, {self.kernel!r}, "
            f"windows of {listed(self.windows)} rows{within})."
        )

    def __repr__(self) -> str:
        return f"<SequentialTest: {self}>"
