"""Two circuits over the same variables, brought to one order of variables and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from expectedkernels.checks import check_choice
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.matching import Matching, match
from expectedkernels.circuits.schema import Schema
from expectedkernels.errors import CircuitError, DataError
from expectedkernels.vtree import Vtree


def align(p: Circuit, q: Circuit, states: str = "same") -> tuple[Circuit, Circuit]:
    """Two circuits with the variables and states of the second as in the first, by their names.

    Variables are renumbered and states recoded; no number changes. If one of the circuits has no
    names, variables are taken in their order.

    Parameters
    ----------
    p, q : Circuit
    states : "same" or "union"
        What to do if a variable has labels that only one of the circuits knows: refuse, or join
        them (with probability zero in the other circuit).

    Returns
    -------
    tuple of two Circuits

    Raises
    ------
    CompatibilityError
        If the circuits have different variables or states, with what differs.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5]]).with_names(["rain", "wet"])
    >>> q = ek.factorized([[0.1, 0.9], [0.3, 0.7]]).with_names(["wet", "rain"])
    >>> align(p, q)[1].marginals()["rain"].tolist()
    [0.3, 0.7]
    >>> align(p, q)[1].names
    ('rain', 'wet')
    """
    check_choice("align", "states", states, ("same", "union"))
    require_circuits("align", p, q)
    if p is q or p.schema.is_plain or q.schema.is_plain:
        return p, q
    matching = match(p.schema, q.schema, union=states == "union")
    return _widened(p, matching), q.matched(matching)


def require_circuits(function: str, *given: Any) -> None:
    """Raise unless all arguments of a function are circuits; say how other things become one."""
    for circuit in given:
        if isinstance(circuit, Circuit):
            continue
        how = "Circuit.from_units makes one of a graph of units"
        if hasattr(circuit, "compile"):
            how = "a model becomes one by model.circuit()"
        raise CircuitError(
            f"{function} works on Circuits. Got {type(circuit).__name__} instead; {how}."
        )


def in_order(
    circuit: Circuit, columns: Sequence[Any], states: Mapping[int, Sequence[Any]] | None = None
) -> Circuit:
    """The circuit with its variables in the order of the columns of a table, by their names.

    It stays as it is if it has no names, or the columns are only numbered.

    Parameters
    ----------
    circuit : Circuit
    columns : sequence
        The names of the columns, one per variable.
    states : mapping from columns to labels, optional
        In which order the states of some columns are.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8], [0.5, 0.5]]).with_names(["rain", "wet"])
    >>> in_order(p, ["wet", "rain"]).names
    ('wet', 'rain')
    """
    schema = circuit.schema
    if schema.is_plain or len(columns) != schema.n_variables:
        return circuit
    numbers = list(range(schema.n_variables))
    if schema.names is not None and list(columns) != numbers:
        names = tuple(map(str, columns))
        only = [sorted({*a} - {*b}) for a, b in ((names, schema.names), (schema.names, names))]
        if any(only):
            raise DataError(
                "A circuit with names is matched with the columns of a table by these. Only the "
                f"table has {only[0]}, only the circuit {only[1]}; rename one of them, or take the "
                "names off to match them by position: Circuit(circuit.vtree, circuit.blocks)."
            )
        numbers = [schema.variable(name) for name in names]
    wanted = schema.subset(numbers)
    labels: list[Any] = [wanted.labels(v) for v in range(schema.n_variables)]
    for v, given in (states or {}).items():
        if labels[v] is not None and len(labels[v]) != len(given):
            raise DataError(
                f"The column {columns[v]!r} has the categories {list(given)[:20]}, and the circuit "
                f"the states {list(labels[v])[:20]}: they must be the same."
            )
        labels[v] = labels[v] and tuple(given)
    cards = [c if x is None else len(x) for c, x in zip(wanted.cardinalities, labels, strict=True)]
    return circuit.matched(match(Schema(tuple(cards), wanted.names, tuple(labels)), schema))


def _widened(p: Circuit, matching: Matching) -> Circuit:
    """The first circuit with the states that only the second one has."""
    if not any(matching.first_states):
        return p.with_schema(matching.schema)
    same = tuple(range(p.n_variables))
    own = Matching(matching.schema, same, matching.first_states, ())
    return p.matched(own)


def vtree_for(model: Any, other: Any, vtree: Vtree) -> Vtree:
    """A vtree of another model in the numbers that a model has for variables of the same name."""
    if model.schema.names is None or other.schema.names is None:
        return vtree
    return vtree.renumbered(match(other.schema, model.schema).variables)
