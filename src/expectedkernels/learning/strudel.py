"""Strudel: deterministic circuits grown from a Chow-Liu tree, one split at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy.typing import ArrayLike

from expectedkernels.arrays import RowsLike
from expectedkernels.checks import check_callback, check_count, check_real, removed
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.learning.chow_liu import chow_liu_tree, flow_blocks
from expectedkernels.learning.complete import CompleteSearch
from expectedkernels.learning.data import MAX_STATES, Data, read_data
from expectedkernels.learning.incomplete import IncompleteSearch
from expectedkernels.learning.search import Run, Search, StrudelStep, greedy


@removed(
    beam="splits are made one by one",
    edge="the edge that most rows use is split",
    max_units="set 'iterations', or raise KeyboardInterrupt in 'callback' to stop",
    rng="nothing is drawn at random",
    tie="of edges that as many rows use, the first is split; set 'iterations' for larger circuits",
    time_limit="set 'iterations', or raise KeyboardInterrupt in 'callback' to stop",
    variable="the variable that tells most about the others is taken",
)
def learn_strudel(
    X: RowsLike,
    X_valid: RowsLike | None = None,
    iterations: int = 100,
    *,
    pseudocount: float = 1.0,
    alpha: float = 1.0,
    patience: int | None = 100,
    sample_weight: ArrayLike | None = None,
    cardinalities: int | Sequence[int] | None = None,
    max_states: int = MAX_STATES,
    minimize: bool = True,
    callback: Callable[[StrudelStep], object] | None = None,
    progress: bool = True,
) -> Circuit:
    """The deterministic circuit that splits make of a Chow-Liu tree.

    A split takes an edge from a sum to a product and a variable, and replaces the product by one
    copy for every state of the variable; copies share what does not depend on it. The circuit
    stays smooth, deterministic and on the vtree of the tree, and its weights are the
    maximum likelihood (or, with a pseudocount, the smoothed) ones in closed form. The edge that
    most rows use is split (the first of several, inputs before the units that use them), on the
    variable that tells most about the others in these rows.

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
    patience : int or None
        With `X_valid`, stop after so many splits without improvement.
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
    name = "learn_strudel"
    beta, alpha = check_real(name, "pseudocount", pseudocount), check_real(name, "alpha", alpha)
    run = Run(
        check_count(name, "iterations", iterations),
        check_count(name, "patience", patience, 1, none=True),
        check_callback(name, callback),
    )
    data = read_data(X, X_valid, cardinalities, sample_weight, max_states)
    search = _start(data, beta, alpha)
    run.follow(search, progress)
    circuit = greedy(search, alpha, run).kept()
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
