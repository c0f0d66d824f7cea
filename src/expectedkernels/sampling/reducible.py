"""Whether single-site moves lead from every possible state to every other."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log, prod
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from expectedkernels.circuits.algebra import power
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.determinism import deterministic
from expectedkernels.compilation.plan import LogFactor
from expectedkernels.sampling.cis_tables import components
from expectedkernels.verdict import Verdict

SUPPORT_STATES = 2**16
"""Up to this many states are looked at one by one."""

PRODUCT_PAIRS = 2**24
"""Determinism is looked into in circuits with at most this many pairs of products to compare."""

CANDIDATES = 16
"""How many variables are tried when one is looked for that should be collapsed."""


class ReducibleWarning(UserWarning):
    """Zeros keep a chain of single-site updates from (some of) the possible states.

    Such a chain stays in the class of states it started in, and frequencies do not approach
    probabilities however long it runs.

    Examples
    --------
    >>> import warnings
    >>> from expectedkernels.compilation.datasets import asia
    >>> from expectedkernels.sampling.gibbs import gibbs
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = gibbs(asia(), 10, rng=0)
    >>> caught[0].category.__name__
    'ReducibleWarning'
    """


@dataclass(frozen=True)
class Moves:
    """Where single-site moves lead."""

    # the number of classes of possible states that moves do not leave, None if it is not known
    classes: int | None
    zeros: bool | None  # whether there are states without probability, None if it is not known
    variables: tuple[int, ...] = ()  # where the zeros are that separate classes, or may do so
    # variables with which, once they are collapsed, a single class is left; empty if none were
    # found
    remedy: tuple[int, ...] = ()

    def verdict(self, names: Sequence[str] | None = None) -> Verdict:
        """Whether all possible states communicate, with the reason."""
        where = f" over the variables {_listed(self.variables, names)}" if self.variables else ""
        if self.classes is None:
            found = {None: "it is not known whether there are", True: "there are", False: "no"}
            return Verdict(
                None, f"{found[self.zeros]} zeros{where}; there are too many states to look at each"
            )
        if self.classes > 1:
            return Verdict(
                False,
                f"zeros{where} split the possible states into {self.classes} classes, and "
                "single-site moves do not lead from one to another",
            )
        return Verdict(True, "single-site moves connect all possible states")


def moves_of_factors(factors: Sequence[LogFactor], collapsed: Collection[int] = ()) -> Moves:
    """Where single-site moves lead in a product of factors with some variables summed out.

    Only factors with zeros matter. Where these form groups without a common variable, the possible
    states are all combinations of possible states of the groups, and so are the classes: every
    group is looked at on its own.
    """
    strict = [factor for factor in factors if (factor.logs == -np.inf).any()]
    classes: int | None = 1
    where: list[int] = []
    for group in _groups(strict):
        found = _group_classes(group, collapsed)
        if found == 1:
            continue
        where += {v for factor in group for v in factor.scope}
        classes = None if found is None or classes is None else classes * found
    remedy: tuple[int, ...] = ()
    if classes is not None and classes > 1:
        groups = [factor for factor in strict if set(factor.scope) & set(where)]
        remedy = _remedy(groups, collapsed)
    return Moves(classes, bool(strict), tuple(sorted(set(where))), remedy)


def _groups(factors: Sequence[LogFactor]) -> list[list[LogFactor]]:
    """The factors in groups that share no variable."""
    scopes = [factor.scope for factor in factors]
    groups = components(scopes, dict.fromkeys(v for scope in scopes for v in scope))
    return [[f for f in factors if f.scope and f.scope[0] in group] for group in map(set, groups)]


def _group_classes(factors: Sequence[LogFactor], collapsed: Collection[int]) -> int | None:
    """The number of classes of the possible states of some factors, None if there are too many."""
    shape: dict[int, int] = {}
    for factor in factors:
        shape.update(zip(factor.scope, factor.logs.shape, strict=True))
    scope = sorted(shape)
    if prod(shape.values()) > SUPPORT_STATES:
        return None
    possible = np.ones([shape[v] for v in scope], dtype=np.bool_)
    for factor in factors:
        inside = [shape[v] if v in factor.scope else 1 for v in scope]
        possible &= (factor.logs > -np.inf).reshape(inside)
    summed = tuple(axis for axis, v in enumerate(scope) if v in collapsed)
    return count_classes(possible.any(axis=summed))


def count_classes(possible: Any) -> int:
    """The number of connected parts of a set of states, linked if they differ in one place.

    The set is an array of booleans with one axis per variable.

    Examples
    --------
    >>> count_classes(np.eye(3, dtype=bool))
    3
    >>> count_classes(np.tri(3, dtype=bool))
    1
    """
    number = np.full(possible.shape, -1, dtype=np.intp)
    n = int(possible.sum())
    number[possible] = np.arange(n)
    starts, stops = [], []
    for axis, size in enumerate(possible.shape):
        # along the lines of an axis every possible state is linked to the next one
        lines = np.moveaxis(number, axis, -1).reshape(-1)
        at = np.flatnonzero(lines >= 0)
        same = at[1:] // size == at[:-1] // size
        starts.append(lines[at[:-1][same]])
        stops.append(lines[at[1:][same]])
    if not starts:
        return n
    links = np.concatenate(starts), np.concatenate(stops)
    graph = sparse.coo_array((np.ones(len(links[0]), dtype=np.int8), links), shape=(n, n))
    return int(connected_components(graph, directed=False, return_labels=False))


def _remedy(factors: Sequence[LogFactor], collapsed: Collection[int]) -> tuple[int, ...]:
    """Variables that are functions of others and whose collapse leaves one class, if found."""
    groups = _groups(factors)

    def enough(chosen: Sequence[int]) -> bool:
        return all(_group_classes(group, {*collapsed, *chosen}) == 1 for group in groups)

    candidates = [v for v in _functions(factors) if v not in collapsed][:CANDIDATES]
    chosen: list[int] = []
    while not enough(chosen):
        if len(chosen) == len(candidates):
            return ()
        chosen.append(candidates[len(chosen)])
    for v in list(chosen):
        fewer = [u for u in chosen if u != v]
        chosen = fewer if enough(fewer) else chosen
    return tuple(sorted(chosen))


def _functions(factors: Sequence[LogFactor]) -> list[int]:
    """The variables that some factor makes a function of others, later ones first."""
    found = set()
    for factor in factors:
        possible = factor.logs > -np.inf
        for axis, v in enumerate(factor.scope):
            if len(factor.scope) > 1 and (possible.sum(axis=axis) <= 1).all():
                found.add(v)
    return sorted(found, reverse=True)


def moves_of_circuit(circuit: Circuit, free: Sequence[int]) -> Moves:
    """Where single-site moves lead in a circuit with too many states to look at each.

    Positive inputs make a positive circuit. The possible states of a deterministic one are counted
    by its power of zero; zeros are overlooked only if they are less than one state in 10^9. Free
    variables are those with more than one possible state; all are discrete.
    """
    inputs: list[Any] = [circuit.input(v) for v in free]
    if all((block.table > 0).all() for block in inputs):
        return Moves(1, False)
    pairs = sum(block.n_products**2 for block in circuit.operand.inner if block is not None)
    discrete = None not in circuit.cardinalities
    if not (discrete and pairs <= PRODUCT_PAIRS and deterministic(circuit)):
        return Moves(None, None)
    missing = sum(log(block.cardinality) for block in inputs)
    missing -= power(circuit, 0.0).log_partition()
    return Moves(1, False) if abs(missing) < 1e-9 else Moves(None, True)


def warn_reducible(moves: Moves, names: Sequence[str] | None) -> None:
    """Warn if classes of states do not communicate, or may not, and say what to do."""
    if moves.classes == 1 or not moves.zeros:
        return
    where = f" over the variables {_listed(moves.variables, names)}" if moves.variables else ""
    if moves.classes is None:
        text = (
            f"The model has zeros{where}. They may split its possible states into classes that "
            "single-site updates do not leave (there are too many states to look at each); then "
            "frequencies do not approach probabilities."
        )
    else:
        text = (
            f"Zeros{where} split the possible states into {moves.classes} classes that single-site "
            "updates do not leave: a chain stays in the class it starts in, and frequencies do not "
            "approach probabilities."
        )
    warnings.warn(f"{text} {_advice(moves, names)}", ReducibleWarning, stacklevel=4)


def _advice(moves: Moves, names: Sequence[str] | None) -> str:
    what = "the variables that are functions of others"
    if moves.remedy:
        what = _listed(moves.remedy, names)
    return (
        f"Sum out {what} with collapsed_gibbs(..., collapsed=...), replace the zeros by small "
        "numbers, or sample with cis."
    )


def _listed(variables: Sequence[int], names: Sequence[str] | None, limit: int = 8) -> str:
    shown = [str(v) if names is None else repr(names[v]) for v in variables[:limit]]
    return ", ".join(shown) + (", ..." if len(variables) > limit else "")
