"""Models of other libraries as ours, and back: pyAgrum, pgmpy, mixtures of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from expectedkernels.circuits.build import gaussian_mixture
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.units import Unit
from expectedkernels.compilation.bayesian import BayesianNetwork
from expectedkernels.compilation.cirkit import from_cirkit
from expectedkernels.compilation.factor import Factor
from expectedkernels.compilation.factors import FactorGraph
from expectedkernels.compilation.layers import imported
from expectedkernels.compilation.spflow import from_spflow
from expectedkernels.errors import CircuitError


def as_model(obj: object) -> Circuit | FactorGraph | Unit:
    """A model of another library as one of ours.

    Parameters
    ----------
    obj : object
        A Bayesian network or Markov random field of pyAgrum, a discrete Bayesian or Markov network
        of pgmpy, a (diagonal or spherical) ``GaussianMixture`` of scikit-learn, a compiled circuit
        of libcirkit or a module of SPFlow (see `models.from_cirkit` and `models.from_spflow`), or
        a model of this library, which is returned as it is.

    Returns
    -------
    BayesianNetwork, FactorGraph or Circuit
        With the names of variables and the labels of states.

    Raises
    ------
    CircuitError
        If the object is none of these.

    Notes
    -----
    Functions that take a model or a distribution call this themselves.

    Examples
    --------
    >>> from sklearn.mixture import GaussianMixture
    >>> X = np.array([[0.0, 0.0], [0.1, 0.2], [5.0, 5.0], [5.2, 5.1]])
    >>> as_model(GaussianMixture(2, covariance_type="diag", random_state=0).fit(X))
    <Circuit of 2 variables: 7 units, 6 edges>
    """
    found = converted(obj)
    if isinstance(found, (FactorGraph, Circuit, Unit)):
        return found
    raise CircuitError(
        "Models are FactorGraphs, BayesianNetworks and Circuits of this library, networks of "
        "pyAgrum and pgmpy, circuits of libcirkit and SPFlow, and GaussianMixtures of "
        "scikit-learn. Got "
        f"{type(obj).__module__}.{type(obj).__qualname__}."
    )


def converted(obj: Any) -> Any:
    """A model of another library as one of ours; everything else as it is."""
    for base in type(obj).__mro__:
        reader = READERS.get((base.__module__.split(".")[0], base.__name__))
        if reader is not None:
            return reader(obj)
    return obj


def _from_pyagrum(network: Any) -> BayesianNetwork:
    ids = sorted(network.nodes())
    number = {network.variable(i).name(): v for v, i in enumerate(ids)}
    parents, cpts = [], []
    for i in ids:
        tensor = network.cpt(i)
        names = list(tensor.names)  # the variable itself first; arrays have the axes reversed
        parents.append([number[name] for name in names[:0:-1]])
        cpts.append(tensor.toarray())
    return BayesianNetwork(parents, cpts, list(number), _pyagrum_states(network, ids))


def _pyagrum_states(network: Any, ids: Sequence[int]) -> list[list[str]]:
    return [list(network.variable(i).labels()) for i in ids]


def _from_pyagrum_field(field: Any) -> FactorGraph:
    ids = sorted(field.nodes())
    number = {field.variable(i).name(): v for v, i in enumerate(ids)}
    factors = []
    for scope in field.factors():
        tensor = field.factor(scope)
        factors.append(Factor([number[name] for name in tensor.names[::-1]], tensor.toarray()))
    states = _pyagrum_states(field, ids)
    return FactorGraph([len(labels) for labels in states], factors, list(number), states)


def _from_pgmpy(network: Any) -> BayesianNetwork:
    names = list(network.nodes())
    cpds = {cpd.variable: cpd for cpd in network.get_cpds()}
    lacking = [name for name in names if name not in cpds]
    if lacking:
        raise CircuitError(
            f"Every variable of a network needs its probabilities. {lacking[0]!r} has none: "
            "fit the network, or add them with add_cpds."
        )
    number = {name: v for v, name in enumerate(names)}
    states = {name: list(cpds[name].state_names[name]) for name in names}
    parents, cpts = [], []
    for name in names:
        cpd = cpds[name]
        table = _pgmpy_table(cpd, states)
        parents.append([number[other] for other in cpd.variables[1:]])
        cpts.append(np.moveaxis(table, 0, -1))
    return BayesianNetwork(parents, cpts, list(map(str, names)), [states[n] for n in names])


def _from_pgmpy_field(field: Any) -> FactorGraph:
    names = list(field.nodes())
    number = {name: v for v, name in enumerate(names)}
    states: dict[Any, list[Any]] = {}
    for factor in field.get_factors():
        for name in factor.variables:
            states.setdefault(name, list(factor.state_names[name]))
    lacking = [name for name in names if name not in states]
    if lacking:
        raise CircuitError(f"Every variable of a network needs a factor. {lacking[0]!r} has none.")
    factors = [
        Factor([number[name] for name in factor.variables], _pgmpy_table(factor, states))
        for factor in field.get_factors()
    ]
    cards = [len(states[name]) for name in names]
    return FactorGraph(cards, factors, list(map(str, names)), [states[name] for name in names])


def _pgmpy_table(factor: Any, states: dict[Any, list[Any]]) -> Any:
    """The table of a factor, which may have the states of a variable in an order of its own."""
    table = np.asarray(factor.values, dtype=np.float64)
    for axis, name in enumerate(factor.variables):
        own = list(factor.state_names[name])
        if set(own) != set(states[name]):
            raise CircuitError(
                f"The states of {name!r} are {states[name]} in one table of the network and {own} "
                "in another."
            )
        table = np.take(table, [own.index(state) for state in states[name]], axis=axis)
    return table


def _from_gaussian_mixture(mixture: Any) -> Circuit:
    kind = mixture.covariance_type
    if kind not in ("diag", "spherical"):
        raise CircuitError(
            "A GaussianMixture becomes a circuit if its coordinates are independent in every "
            f"component: fit it with covariance_type='diag' or 'spherical'. Got {kind!r}."
        )
    if not hasattr(mixture, "weights_"):
        raise CircuitError("The GaussianMixture is not fitted yet: call its fit first.")
    means = np.asarray(mixture.means_, dtype=np.float64)
    variances = np.asarray(mixture.covariances_, dtype=np.float64)
    if kind == "spherical":
        variances = np.broadcast_to(variances[:, None], means.shape)
    weights = np.asarray(mixture.weights_, dtype=np.float64)
    circuit = gaussian_mixture(weights / weights.sum(), means, variances)
    names = getattr(mixture, "feature_names_in_", None)
    return circuit if names is None else circuit.with_names(names)


READERS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("pyagrum", "BayesNet"): _from_pyagrum,
    ("pyAgrum", "BayesNet"): _from_pyagrum,
    ("pyagrum", "MarkovRandomField"): _from_pyagrum_field,
    ("pyAgrum", "MarkovRandomField"): _from_pyagrum_field,
    ("pgmpy", "DiscreteBayesianNetwork"): _from_pgmpy,
    ("pgmpy", "BayesianNetwork"): _from_pgmpy,
    ("pgmpy", "DiscreteMarkovNetwork"): _from_pgmpy_field,
    ("pgmpy", "MarkovNetwork"): _from_pgmpy_field,
    ("sklearn", "GaussianMixture"): _from_gaussian_mixture,
    ("cirkit", "TorchCircuit"): from_cirkit,
    ("cirkit", "Circuit"): from_cirkit,
    ("spflow", "Module"): from_spflow,
}
"""Classes of other libraries, by package and name, and what reads them."""


def to_pyagrum(model: FactorGraph) -> Any:
    """A factor graph as a model of pyAgrum: a ``BayesNet``, or a ``MarkovRandomField``.

    Parameters
    ----------
    model : BayesianNetwork or FactorGraph
        Variables without names are called x0, x1, ..., states without labels 0, 1, ...

    Returns
    -------
    pyAgrum's BayesNet or MarkovRandomField

    Examples
    --------
    >>> import expectedkernels as ek
    >>> network = to_pyagrum(ek.asia())
    >>> network.size(), list(network.variable("smoke").labels())
    (8, ['yes', 'no'])
    """
    gum = imported("pyagrum", "pyagrum")
    names, states = _called(_checked(model, "to_pyagrum"))
    bayesian = isinstance(model, BayesianNetwork)
    made = gum.BayesNet() if bayesian else gum.MarkovRandomField()
    for name, labels in zip(names, states, strict=True):
        made.add(gum.LabelizedVariable(name, name, list(map(str, labels))))
    if isinstance(model, BayesianNetwork):
        for v, above in enumerate(model.parents):
            for parent in above:
                made.addArc(names[parent], names[v])
        for v, table in enumerate(model.cpts):
            made.cpt(names[v])[:] = np.ascontiguousarray(_reversed(table))
        return made
    for scope, table in _by_scope(model):
        made.addFactor([names[v] for v in scope])
        tensor = made.factor([names[v] for v in scope])
        axes = [names.index(name) for name in tensor.names[::-1]]
        tensor[:] = np.ascontiguousarray(np.transpose(table, [scope.index(v) for v in axes]))
    return made


def _reversed(table: Any) -> Any:
    """The table with the axes of the parents, all but the last one, in reverse order."""
    return np.transpose(table, [*range(table.ndim - 2, -1, -1), table.ndim - 1])


def to_pgmpy(model: FactorGraph) -> Any:
    """A factor graph as a ``DiscreteBayesianNetwork`` or ``DiscreteMarkovNetwork`` of pgmpy.

    Parameters
    ----------
    model : BayesianNetwork or FactorGraph
        Variables without names are called x0, x1, ..., states without labels 0, 1, ...

    Returns
    -------
    pgmpy's DiscreteBayesianNetwork or DiscreteMarkovNetwork

    Examples
    --------
    >>> import expectedkernels as ek
    >>> network = to_pgmpy(ek.asia())
    >>> sorted(network.get_cpds("either").variables)
    ['either', 'lung', 'tub']
    """
    models = imported("pgmpy.models", "pgmpy")
    discrete = imported("pgmpy.factors.discrete", "pgmpy")
    names, states = _called(_checked(model, "to_pgmpy"))
    labels = dict(zip(names, map(list, states), strict=True))
    if isinstance(model, BayesianNetwork):
        made = models.DiscreteBayesianNetwork()
        made.add_nodes_from(names)
        for v, (above, table) in enumerate(zip(model.parents, model.cpts, strict=True)):
            parents = [names[parent] for parent in above]
            made.add_edges_from((parent, names[v]) for parent in parents)
            values = np.moveaxis(table, -1, 0).reshape(table.shape[-1], -1)
            cpd = discrete.TabularCPD(
                names[v],
                table.shape[-1],
                values,
                parents or None,
                [len(labels[parent]) for parent in parents] or None,
                state_names={name: labels[name] for name in (names[v], *parents)},
            )
            made.add_cpds(cpd)
        return made
    made = models.DiscreteMarkovNetwork()
    made.add_nodes_from(names)
    for scope, table in _by_scope(model):
        called = [names[v] for v in scope]
        made.add_edges_from((a, b) for i, a in enumerate(called) for b in called[i + 1 :])
        own = {name: labels[name] for name in called}
        made.add_factors(discrete.DiscreteFactor(called, table.shape, table, state_names=own))
    return made


def _checked(model: Any, function: str) -> FactorGraph:
    if not isinstance(model, FactorGraph):
        raise CircuitError(
            f"{function} works on BayesianNetworks and FactorGraphs. "
            f"Got {type(model).__name__} instead."
        )
    return model


def _called(model: FactorGraph) -> tuple[list[str], list[list[Any]]]:
    names = model.names or [f"x{v}" for v in range(model.n_variables)]
    states = model.states or [list(range(card)) for card in model.cardinalities]
    return names, states


def _by_scope(model: FactorGraph) -> list[tuple[tuple[int, ...], Any]]:
    """The tables of a factor graph, one per set of variables; constants are left out."""
    tables: dict[tuple[int, ...], Any] = {
        (v,): np.ones(c) for v, c in enumerate(model.cardinalities)
    }
    for factor in model.factors:
        scope = tuple(sorted(factor.scope))
        table = np.transpose(factor.table, [factor.scope.index(v) for v in scope])
        tables[scope] = tables[scope] * table if scope in tables else table
    tables.pop((), None)
    return list(tables.items())
