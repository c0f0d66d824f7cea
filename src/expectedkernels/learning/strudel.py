"""Strudel: deterministic circuits grown from a Chow-Liu tree, one split at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from time import monotonic

from numpy.typing import ArrayLike

from expectedkernels.arrays import RngLike, RowsLike, as_generator
from expectedkernels.checks import check_callback, check_choice, check_count, check_real
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.learning.chow_liu import chow_liu_tree, flow_blocks
from expectedkernels.learning.complete import CompleteSearch
from expectedkernels.learning.data import MAX_STATES, Data, read_data
from expectedkernels.learning.incomplete import IncompleteSearch
from expectedkernels.learning.search import Chooser, Run, Search, StrudelStep, beam_search, greedy


def learn_strudel(
    X: RowsLike,
    X_valid: RowsLike | None = None,
    iterations: int = 100,
    *,
    pseudocount: float = 1.0,
    alpha: float = 1.0,
    tie: str = "first",
    edge: str = "flow",
    variable: str = "mi",
    beam: int = 1,
    patience: int | None = 100,
    max_units: int | None = None,
    time_limit: float | None = None,
    sample_weight: ArrayLike | None = None,
    cardinalities: int | Sequence[int] | None = None,
    max_states: int = MAX_STATES,
    minimize: bool = True,
    rng: RngLike = None,
    callback: Callable[[StrudelStep], object] | None = None,
    progress: bool = True,
) -> Circuit:
    """The deterministic circuit that splits make of a Chow-Liu tree.

    A split takes an edge from a sum to a product and a variable, and replaces the product by one
    copy for every state of the variable; copies share what does not depend on it. The circuit
    stays smooth, deterministic and on the vtree of the tree, and its weights are the
    maximum likelihood (or, with a pseudocount, the smoothed) ones in closed form. By default the
    edge that most rows use is split, on the variable that tells most about the others in
    these rows.

    Parameters
    ----------
    X : array of shape (n, variables), or data frame
        States coded as integers 0, 1, 2, ...; NaN for missing values. The columns of a data frame
        name the variables, and may hold text, categories, booleans or other integers, which
        become labelled states.
    X_valid : array of shape (m, variables), optional
        Rows to stop by: the circuit that is most likely on them is returned.
    iterations : int
        The largest number of splits.
    pseudocount : float
        How many rows' worth of counts every sum unit gets in advance, spread evenly over its
        inputs.
    alpha : float
        Smoothing of mutual information, as in `learn_chow_liu`.
    tie : {"first", "top"}
        Which of several edges with the same flow to take: the first or the last in post-order
        (inputs before the units that use them). The last makes larger circuits, which fit
        better.
    edge : {"flow", "random"}
        Take the edge with the largest flow, or any.
    variable : {"mi", "random"}
        Take the variable with the largest mutual information with all others, or any.
    beam : int
        How many circuits to keep. With more than one, the best of their splits are tried, and the
        circuits that are most likely are kept; every one is copied for that.
    patience : int or None
        With `X_valid`, stop after so many splits without improvement.
    max_units : int, optional
        Stop when there are more units than this: sums, products and the indicators of all states,
        as `StrudelStep.units` counts them. They are counted while the circuit grows, before
        equal units are merged; the circuit that is returned may have fewer.
    time_limit : float, optional
        Stop after so many seconds.
    sample_weight : array of shape (n,), optional
        How much every row counts, for flows, mutual information and weights. The pseudocount is
        multiplied by the mean weight.
    cardinalities : int or sequence of int, optional
        The number of states of every variable. Default: one more than the largest code, and at
        least two.
    max_states : int
        How many distinct labels a column of a data frame may have.
    minimize : bool
        Whether to merge units that are equal. Without, units whose weights happen to be equal stay
        apart, so that they can be fitted to other data.
    rng : int, Generator or None
        For random choices.
    callback : function, optional
        Called with a `StrudelStep` after every split.
    progress : bool
        Whether to show a bar with the log-likelihood (only on a terminal).

    Returns
    -------
    Circuit
        Deterministic, on the vtree of the Chow-Liu tree. After an interrupt (Ctrl-C), the best one
        so far.

    Raises
    ------
    DataError
        If the data are not states coded as integers.

    Notes
    -----
    On complete data a split costs what it changes: the rows of one edge move at the vtree nodes
    between the edge and the variable. With missing values the flow of an edge is how often it is
    expected to be used, and there is one step of EM after every split, each a pass over all
    rows, and EM until it converges at the end. The mutual information is then that of rows
    weighted by how likely they use the edge, every pair of variables on the rows in which both
    are observed.

    References
    ----------
    Dang, M., Vergari, A. and Van den Broeck, G. (2020). Strudel: learning structured-decomposable
    probabilistic circuits. PGM.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    >>> p = learn_strudel(X, pseudocount=0.0)
    >>> np.exp(p.log_likelihood(X)).round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    name, began = "learn_strudel", monotonic()
    beta, alpha = check_real(name, "pseudocount", pseudocount), check_real(name, "alpha", alpha)
    chooser = Chooser(
        check_choice(name, "edge", edge, ("flow", "random")),
        check_choice(name, "tie", tie, ("first", "top")),
        check_choice(name, "variable", variable, ("mi", "random")),
        alpha,
        as_generator(rng),
    )
    run = Run(
        check_count(name, "iterations", iterations),
        check_count(name, "patience", patience, 1, none=True),
        check_count(name, "max_units", max_units, 1, none=True),
        inf if time_limit is None else began + check_real(name, "time_limit", time_limit),
        check_callback(name, callback),
    )
    width = check_count(name, "beam", beam, 1)
    data = read_data(X, X_valid, cardinalities, sample_weight, max_states)
    search = _start(data, beta, alpha)
    run.follow(search, progress)
    found = greedy(search, chooser, run) if width == 1 else beam_search(search, chooser, run, width)
    circuit = found.kept()
    circuit = Circuit.from_blocks(circuit.vtree, circuit.blocks) if minimize else circuit
    return data.named(circuit)


def _start(data: Data, beta: float, alpha: float) -> Search:
    """The Chow-Liu circuit and what the data says of it."""
    states, weights = data.train
    tree = chow_liu_tree(states, data.cardinalities, weights, alpha)
    rows, scaled = data.distinct(), beta * data.mean_weight
    if data.is_complete:
        return CompleteSearch(tree, rows.states, rows.weights, scaled)
    blocks = flow_blocks(tree, states, weights, beta, alpha)
    return IncompleteSearch(tree, blocks, rows.states, rows.weights, scaled)
