"""Weighted samples and their completions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from expectedkernels import arrays, checks
from expectedkernels.arrays import Array, RngLike, VariablesLike, from_logs, spans, to_numpy
from expectedkernels.checks import CircuitError, DataError, imported, public, rows_numbered
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.queries import Marginals
from expectedkernels.data.tables import as_floats
from expectedkernels.display import overview
from expectedkernels.expectation import expected_kernel
from expectedkernels.kernels.empirical import as_log_weights, distinct_rows, sample_rows, schema_of
from expectedkernels.kernels.kernel import Delta, Kernel
from expectedkernels.kernels.target import Target, as_target, refuse_functions, values_of
from expectedkernels.models.factor_graph import FactorGraph
from expectedkernels.sampling.gibbs import every_state
from expectedkernels.stein.langevin import is_real
from expectedkernels.stein.stein_kernel import discrete_cardinalities

if TYPE_CHECKING:
    from arviz import InferenceData
    from matplotlib.axes import Axes


MAX_COMPLETIONS = 10**6
"""How many completions of one row are enumerated at most."""
CHUNK = 2**16
"""How many completed rows are looked at together."""

SUM_TOLERANCE = 1e-6
"""How far the sum of the weights may be from one, relative to the sum of their sizes."""

Conditionals = Callable[[Any], list[Any]]
"""From rows with NaN to the conditional marginals of every variable, (rows, cardinality) each."""


@public
@dataclass(frozen=True, eq=False, repr=False)
class WeightedSamples:
    r"""Weighted samples of a target, some of their variables marginalised exactly.

    A row represents the target given the values in it: entries that are NaN are collapsed, and
    have their exact conditional distribution. Together the samples represent

    .. math:: q(x) = \sum_n w_n \, [x_{s_n} = x^n_{s_n}] \, p(x_{c_n} | x^n_{s_n})

    Parameters
    ----------
    target : FactorGraph, Circuit or Target
        What the samples represent, over discrete variables, or a density over the reals.
    rows : array of shape (n, variables)
        NaN where a variable is collapsed.
    weights : array of shape (n,), optional
        They sum to one, and may be negative. Default: equal.
    rule : str
        How the weights were made, in a word or two.
    discrepancy, uniform_discrepancy : float, optional
        The Stein discrepancy from the target with these weights, and with equal ones.
    certificate : float, optional
        The relative gap of the minimisation that found the weights: a bound on how far they are
        from the best.
    log_weights : array of shape (n,), optional
        The logs of importance weights before they were divided by their sum.
    log_z : float, optional
        The estimated log of the target's partition function.
    conditionals : callable, optional
        From rows (none twice) to the conditional marginals, one (rows, cardinality) array per
        variable. Default: computed from the compiled target; for a target that is too large to
        compile `CollapsedModel.marginals` may do.
    circuit : Circuit, optional
        The compiled target, if there is one already. Default: made when first needed.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> target = ek.factorized([[0.2, 0.8], [0.1, 0.3, 0.6]])
    >>> samples = WeightedSamples(target, [[0, np.nan], [1, np.nan]], [0.25, 0.75])
    >>> samples
    <WeightedSamples: samples 2, variables 2, collapsed 50 %, effective sample size 1.6>
    >>> [table.round(12).tolist() for table in samples.marginals()]
    [[0.25, 0.75], [0.1, 0.3, 0.6]]
    """

    target: FactorGraph | Circuit | Target
    rows: Array
    weights: Array = None
    rule: str = ""
    discrepancy: float | None = None
    uniform_discrepancy: float | None = None
    certificate: float | None = None
    log_weights: Array = None
    log_z: float | None = None
    conditionals: Conditionals | None = None
    circuit: Circuit | None = None

    def __post_init__(self) -> None:
        target = as_target(self.target)
        discrete_cardinalities(target, real=True)
        rows = sample_rows(target, self.rows)
        n, logs = len(rows), self.log_weights
        weights = np.full(n, 1.0 / n) if self.weights is None else np.array(as_floats(self.weights))
        if weights.shape != (n,) or not np.isfinite(weights).all():
            raise DataError(f"{n} samples need as many finite weights. Got shape {weights.shape}.")
        total = float(weights.sum())
        if abs(total - 1.0) > SUM_TOLERANCE * max(1.0, float(np.abs(weights).sum())):
            raise DataError(f"The weights of samples must sum to one. Got a sum of {total:.6g}.")
        rows.flags.writeable = weights.flags.writeable = False
        logs = None if logs is None else as_log_weights(logs, n)
        vars(self).update(target=target, rows=rows, weights=weights, log_weights=logs)

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of states of every variable."""
        known: Any = self.target.cardinalities
        return tuple(known)

    @property
    def signed(self) -> bool:
        """Whether some weight is negative, so that the weights are no probabilities."""
        return bool((self.weights < 0).any())

    @property
    def collapsed(self) -> Array:
        """The boolean mask of the entries that are marginalised, shape (n, variables).

        Examples
        --------
        >>> import expectedkernels as ek
        >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
        >>> WeightedSamples(target, [[0, np.nan], [1, 0]]).collapsed.tolist()
        [[False, True], [False, False]]
        """
        return np.isnan(self.rows)

    @property
    def ess(self) -> float:
        r"""The effective sample size :math:`1 / \sum_n w_n^2`.

        The number of independent, equally weighted samples that would be as noisy. With negative
        weights it still says how much the weights amplify noise, and can then be less than one;
        it does not say how well these samples are balanced against each other, which is what
        signed weights are for.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> coin = ek.factorized([[0.5, 0.5]])
        >>> WeightedSamples(coin, [[0], [1]], [0.5, 0.5]).ess
        2.0
        >>> WeightedSamples(coin, [[0], [1]], [2.0, -1.0]).ess
        0.2
        """
        return float(1.0 / np.square(self.weights).sum())

    def uniform(self) -> WeightedSamples:
        """The same samples with equal weights.

        Samples that an importance weight of zero shows to be impossible are left at zero.

        Returns
        -------
        WeightedSamples

        Examples
        --------
        >>> import expectedkernels as ek
        >>> coin = ek.factorized([[0.5, 0.5]])
        >>> WeightedSamples(coin, [[0], [1]], [0.9, 0.1]).uniform().weights.tolist()
        [0.5, 0.5]
        """
        weights = None
        if self.log_weights is not None:
            possible = self.log_weights > -np.inf
            weights = possible / possible.sum()
        gone: Any = {"certificate": None, "log_weights": None, "log_z": None, "rule": "uniform"}
        return replace(self, weights=weights, discrepancy=self.uniform_discrepancy, **gone)

    def resample(self, n: int | None = None, rng: RngLike = None) -> WeightedSamples:
        """Samples with equal weights that stand for these: rows drawn in proportion to weights.

        Systematic resampling: a row of weight w is taken n w times on average, and never more than
        one time less or more than that.

        Parameters
        ----------
        n : int, optional
            How many rows to draw. Default: as many as there are.
        rng : int, Generator or None
            Seed or generator of random numbers; an int makes results reproducible.

        Returns
        -------
        WeightedSamples

        Raises
        ------
        DataError
            If a weight is negative, or `n` is no positive int.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> samples = WeightedSamples(ek.factorized([[0.5, 0.5]]), [[0], [1]], [0.25, 0.75])
        >>> samples.resample(4, rng=0).rows.tolist()
        [[0.0], [1.0], [1.0], [1.0]]
        """
        if self.signed:
            raise DataError(
                "Rows are drawn in proportion to their weights, and some weights here are "
                "negative. Use thin(m), which looks at the target in place of the weights."
            )
        count = checks.check_count("resample", "n", self.n if n is None else n, 1, error=DataError)
        edges = np.cumsum(self.weights)
        places = (np.arange(count) + arrays.as_generator(rng).random()) / count
        chosen = np.searchsorted(edges, places * edges[-1], side="right")
        # rounding may lead beyond the last row that has a weight
        last = int(np.flatnonzero(self.weights)[-1])
        return self._equally_weighted(np.minimum(chosen, last), "resampled")

    def thin(
        self, m: int, kernel: Kernel | None = None, *, operator: str = "gibbs"
    ) -> WeightedSamples:
        """The m rows, with repeats, that together represent the target best: see `stein_thin`.

        What is collapsed stays so. The weights do not matter, but rows of weight zero are not
        chosen: the target says which of the others are needed.

        Parameters
        ----------
        m : int
            How many rows to choose.
        kernel : Kernel, optional
            The kernel of the Stein discrepancy. Default: as for `stein_thin`.
        operator : "gibbs" or "shift"
            The operator of the Stein discrepancy, as in `SteinKernel`.

        Returns
        -------
        WeightedSamples
            With equal weights.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> ek.cis(ek.ising_grid(3, 3, rng=0), 30, 4, rng=0).thin(5).n
        5
        """
        from expectedkernels.stein.bbis import stein_thin

        chosen = stein_thin(self.target, self, m, kernel=kernel, operator=operator)
        return self._equally_weighted(chosen, "thinned")

    def _equally_weighted(self, chosen: Any, rule: str) -> WeightedSamples:
        """Some of the rows with equal weights; what was known of all rows is not of these."""
        known: Any = {"conditionals": self.conditionals, "circuit": self.circuit}
        return WeightedSamples(self.target, self.rows[chosen], rule=rule, **known)

    def marginals(self) -> Marginals:
        """The estimated probabilities of the states of every variable, (cardinality,) each.

        A list that is also indexed by the names of the target's variables. Of variables over the
        reals it holds the mean and the variance.

        The weighted mean of the conditional marginals: one or zero for a sampled value, exact for
        a collapsed variable. Signed weights can lead outside of [0, 1]; only for them the
        estimates are clipped and divided by their sum, and `clipped` says if that changed
        something.

        Returns
        -------
        list of arrays
            Indexed by number or name of the variables.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
        >>> WeightedSamples(target, [[0, 1], [1, np.nan]]).marginals()[1].tolist()
        [0.25, 0.75]
        """
        if is_real(self.target):
            means = self.weights @ self.rows
            squares = self.weights @ (self.rows - means) ** 2
            return Marginals(map(np.array, zip(means, squares, strict=True)), self.target.schema)
        means = self._means
        if not self.signed:
            return Marginals((mean.copy() for mean in means), self.target.schema)
        kept = [np.clip(mean, 0.0, 1.0) for mean in means]
        return Marginals((table / table.sum() for table in kept), self.target.schema)

    @property
    def clipped(self) -> bool:
        """Whether `marginals` had to clip estimates that left [0, 1]; never for probabilities.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> coin = ek.factorized([[0.5, 0.5]])
        >>> samples = WeightedSamples(coin, [[0], [1]], [1.5, -0.5])
        >>> samples.marginals()[0].tolist(), samples.clipped
        ([1.0, 0.0], True)
        """
        # every table sums to one, so an entry above one comes with one below zero
        return self.signed and any(bool((mean < 0).any()) for mean in self._means)

    def expect(
        self,
        f: Callable[[Array], Array] | Circuit,
        scope: VariablesLike | None = None,
        *,
        vectorized: bool = True,
    ) -> Array:
        r"""The estimated expectation of a function of complete points, exact where collapsed.

        .. math:: \sum_n w_n \sum_{x_c} p(x_c | x^n_s) f(x_c, x^n_s)

        Parameters
        ----------
        f : callable, or Circuit
            A function from an array of points, one row each, to an array of shape (points,) or
            (points, k). A circuit over the same variables is summed without enumeration;
            it must be compatible with the compiled target.
        scope : int, str, or sequence of these, optional
            The variables (numbers; names if the target has some) that the function looks at, in
            the order of the columns that it gets. Default: all.
        vectorized : bool
            False for a function of a single point, which is then called point by point.

        Returns
        -------
        float, or array of shape (k,)
            Never clipped.

        Raises
        ------
        CircuitError
            If it is given neither a function nor a circuit.

        Notes
        -----
        The completions of the collapsed variables in the scope are enumerated for every
        distinct row, so that a small scope pays.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
        >>> samples = WeightedSamples(target, [[0, np.nan], [1, np.nan]], [0.25, 0.75])
        >>> samples.expect(lambda X: X[:, 0] * X[:, 1])
        0.375
        >>> samples.expect(lambda X: X, scope=[1, 0]).tolist()
        [0.5, 0.75]
        >>> samples.expect(lambda x: x[0] * x[1], vectorized=False)
        0.375
        >>> round(samples.expect(target), 12)
        0.325
        """
        if isinstance(f, Circuit):
            if scope is not None:
                what = "A circuit is a function of all variables."
                raise CircuitError(f"{what} Got a scope beside it.")
            rows, weights, numbers = self._distinct
            # the delta kernel puts both on the same point: sum over x of p(x | row) f(x)
            with rows_numbered(numbers):
                values = expected_kernel(self._compiled, f.to("numpy"), Delta(), evidence_p=rows)
            return float(weights @ np.asarray(values).reshape(len(rows)))
        if not callable(f):
            rule = "The expectation is that of a function of points, or of a Circuit"
            raise CircuitError(f"{rule}. Got {type(f).__name__} instead.")
        total: Any = 0.0
        for points, shares in self._completions(self._scope(scope)):
            total = total + shares @ values_of(f, points, "The function", vectorized, several=True)
        return total if np.ndim(total) else float(total)

    def plot(self) -> list[Axes]:
        """Two axes: the sorted weights, and the marginals against those of equal weights.

        Needs matplotlib. `ek.plotting.plot` writes the figure to a file.

        Returns
        -------
        list of two matplotlib axes

        Examples
        --------
        >>> import expectedkernels as ek
        >>> target = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
        >>> left, right = WeightedSamples(target, [[0, np.nan], [1, 0]], [0.3, 0.7]).plot()
        >>> left.get_ylabel(), right.get_ylabel()
        ('weight', 'weighted marginal')
        """
        from expectedkernels.plotting import plot_samples

        return plot_samples(self)

    def to_arviz(self) -> InferenceData:
        """The samples as inference data of ArviZ: one chain, with the weights beside it.

        ArviZ itself ignores weights: `resample` before it summarises.

        Returns
        -------
        arviz.InferenceData, or xarray.DataTree with ArviZ 1
            In ``posterior`` the variables by name (or x0, x1, ...): numbers of states, or labels
            that are numbers; NaN where collapsed. In ``sample_stats`` the ``weight``.

        Examples
        --------
        >>> import expectedkernels as ek
        >>> rain = ek.factorized([[0.2, 0.8]]).with_names(["rain"], [["no", "yes"]])
        >>> found = WeightedSamples(rain, [[0], [1]], [0.25, 0.75]).to_arviz()
        >>> found.posterior["rain"].values.tolist(), found.sample_stats["weight"].values.tolist()
        ([[0, 1]], [[0.25, 0.75]])
        """
        arviz, xarray = imported("arviz", "arviz"), imported("xarray", "xarray")
        schema, axes = schema_of(self.target), ("chain", "draw")
        posterior = {}
        for v, name in enumerate(schema.names or [f"x{v}" for v in range(schema.n_variables)]):
            labels = schema.labels(v)
            facts = {} if labels is None else {"states": list(labels)}
            posterior[name] = (axes, _label_numbers(self.rows[:, v], labels)[None], facts)
        places = {"chain": [0], "draw": np.arange(self.n)}
        stats = {"weight": (axes, np.array(self.weights)[None])}
        groups: Any = {"posterior": posterior, "sample_stats": stats}
        groups = {name: xarray.Dataset(group, places) for name, group in groups.items()}
        make = vars(arviz).get("InferenceData")  # ArviZ 1 has trees of xarray in its place
        return make(**groups) if make else xarray.DataTree.from_dict(groups)

    def _facts(self) -> dict[str, Any]:
        facts = {
            "samples": self.n,
            "variables": self.rows.shape[1],
            "collapsed": f"{100 * float(self.collapsed.mean()):.3g} %",
            "effective sample size": self.ess,
            "weights": "signed" if self.signed else None,
            "discrepancy": self.discrepancy,
            "with equal weights": self.uniform_discrepancy,
            "log Z": self.log_z,
            "rule": self.rule or None,
        }
        return {name: value for name, value in facts.items() if value is not None}

    def __repr__(self) -> str:
        facts = self._facts().items()
        parts = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in facts)
        return f"<{type(self).__name__}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        return overview(type(self).__name__, self._facts())

    @cached_property
    def _distinct(self) -> tuple[Any, Any, Any]:
        """The distinct rows with a weight, their weights, and where they come first."""
        rows, place, first = distinct_rows(self.rows)
        weights = np.bincount(place, self.weights, minlength=len(rows))
        used = weights != 0
        return rows[used], weights[used], first[used]

    @cached_property
    def _compiled(self) -> Circuit:
        refuse_functions(self.target)
        known: Any = self.target if self.circuit is None else self.circuit
        return known.to("numpy") if isinstance(known, Circuit) else known.circuit()

    @cached_property
    def _means(self) -> list[Any]:
        """The weighted means of the conditional marginals, as they come."""
        rows, weights, numbers = self._distinct
        with rows_numbered(numbers):
            return [weights @ table for table in self._conditional_marginals(rows)]

    def _conditional_marginals(self, rows: Any) -> list[Any]:
        """The marginals of every variable given each row; ones and zeros where it is sampled."""
        open_entries = np.isnan(rows)
        if not open_entries.any():
            tables: list[Any] = [None] * rows.shape[1]
        elif self.conditionals is not None:
            tables = [np.asarray(table, dtype=np.float64) for table in self.conditionals(rows)]
        else:
            tables = [to_numpy(table) for table in self._compiled.marginals(rows)]
        for v, card in enumerate(self.cardinalities):
            known = ~open_entries[:, v]
            table = np.zeros((len(rows), card)) if tables[v] is None else np.array(tables[v])
            table[known] = np.eye(card)[rows[known, v].astype(np.intp)]
            tables[v] = table
        return tables

    def _scope(self, scope: Any) -> list[int]:
        """The variables that a function looks at, checked."""
        if scope is None:
            return list(range(len(self.cardinalities)))
        if not isinstance(scope, (Iterable, int, np.integer)):
            raise DataError(f"A scope is a list of variables. Got {type(scope).__name__} instead.")
        variables = self.target.schema.variables(scope)
        if len(set(variables)) != len(variables) or not variables:
            raise DataError(f"A scope names at least one variable, and none twice. Got {scope}.")
        return variables

    def _completions(self, variables: list[int]) -> Iterator[tuple[Any, Any]]:
        """Points over the variables, and the shares of the samples that they stand for."""
        rows, weights, numbers = self._distinct
        masks, group = np.unique(np.isnan(rows[:, variables]), axis=0, return_inverse=True)
        for number, mask in enumerate(masks):
            gone = [v for v, is_open in zip(variables, mask, strict=True) if is_open]
            shape = [self.cardinalities[v] for v in gone]
            if prod(shape) > MAX_COMPLETIONS:
                raise CircuitError(
                    f"A row has {prod(shape):.3g} completions of the {len(shape)} collapsed "
                    f"variables in the scope, more than {MAX_COMPLETIONS:.0e}. Give the few "
                    "variables that the function looks at as scope=[...], or pass a Circuit."
                )
            states, own = every_state(shape), np.flatnonzero(group.reshape(-1) == number)
            for chunk in spans(len(own), max(1, CHUNK // len(states))):
                here = own[chunk]
                few, share = rows[here], weights[here]
                if gone:
                    full = np.repeat(few, len(states), axis=0)
                    full[:, gone] = np.tile(states, (len(few), 1))
                    with rows_numbered(numbers[here]):
                        share = (share[:, None] * self._joint(few, gone, full)).reshape(-1)
                    few = full
                yield few[:, variables], share

    def _joint(self, rows: Any, gone: list[int], full: Any) -> Any:
        """The probabilities of completions, in which variables are gone, given the rows."""
        if len(gone) == 1:
            return self._conditional_marginals(rows)[gone[0]]
        chances = from_logs(to_numpy(self._compiled.log_likelihood(full)).reshape(len(rows), -1))
        possible = chances.any(axis=1)
        if not possible.all():
            raise DataError(
                "The sample in row {row} has probability zero under the target, so that it has "
                "no completions. Give it the weight zero.",
                row=int(np.argmin(possible)),
            )
        return chances / chances.sum(axis=1, keepdims=True)


def _label_numbers(codes: Any, labels: Any) -> Any:
    """Codes as ints, or as the labels if these are numbers; floats where some are missing."""
    known, values = ~np.isnan(codes), np.array(codes)
    if labels is not None and not any(isinstance(label, (str, bool)) for label in labels):
        values[known] = np.asarray(labels, dtype=np.float64)[codes[known].astype(np.intp)]
    whole = known.all() and (values == np.rint(values)).all()
    return values.astype(np.int64) if whole else values
