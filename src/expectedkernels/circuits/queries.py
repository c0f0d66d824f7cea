"""Queries of circuits: likelihoods, marginals, conditionals, samples, most probable rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf, prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from expectedkernels import arrays
from expectedkernels.arrays import DEFAULT_MAX_BYTES, as_like, detach, namespace, spans, to_numpy
from expectedkernels.checks import DataError, EvidenceError, PropertyError, Verdict, check_count
from expectedkernels.circuits import conditioning, operands
from expectedkernels.circuits.conditioning import evidence_chunks, layers_of, run_shares
from expectedkernels.circuits.graph import show
from expectedkernels.circuits.inputs import Block, log_sizes, log_sum_exp, require_range
from expectedkernels.data.evidence import Column, Evidence, as_evidence, is_batch
from expectedkernels.data.schema import Schema
from expectedkernels.data.tables import as_floats, as_table, is_frame
from expectedkernels.engine import operations, passes
from expectedkernels.engine.blocks import from_leaves
from expectedkernels.engine.layers import Layers, double_logs
from expectedkernels.engine.operations import States, TensorLayers
from expectedkernels.engine.passes import Forward, LeafValues
from expectedkernels.engine.replay import replayed_pass
from expectedkernels.engine.sampling import Descent, descend, draw_alike, draw_edges, first_reaching

if TYPE_CHECKING:
    from expectedkernels.circuits.circuit import Circuit


def by_rows(circuit: Circuit, evidence: Evidence | None) -> bool:
    """Whether a pass over layers, row by row, is the cheapest way to likelihoods.

    The other way works on the patterns of rows at every node, which is better for many rows that
    look alike. It is only considered where the time it takes in any case is not decisive.
    """
    layers = layers_of(circuit)
    if layers is None:
        return False
    if evidence is None or isinstance(layers, TensorLayers):
        return True
    real = None in circuit.cardinalities
    watched = layers.n_units + layers.n_atoms if real else layers.n_watched
    return operands.rows_are_cheaper(
        layers, evidence.n_rows, lambda: evidence.patterns(circuit.vtree).count, watched
    )


def layer_logs(circuit: Circuit, evidence: Evidence | None, layers: Any = None) -> tuple[Any, Any]:
    """The logs of the values of the roots, (rows, roots), and the rows where they are not right.

    By default layers have the weights of the circuit. Passes over others, which change with every
    step of training, are not captured.
    """
    trained, layers = layers is not None, layers or layers_of(circuit)
    parts, lost = [], []
    work = operations.Workspace(layers.like)

    def run(atoms: LeafValues) -> tuple[Any, Any]:
        forward = passes.forward(layers, atoms, work, values_only=True)
        return forward.log_roots, forward.clamped_mark

    for rows, some in evidence_chunks(layers, evidence, DEFAULT_MAX_BYTES, values_only=True):
        atoms = conditioning.observed(circuit.on_cpu, layers, some)
        roots, mark = run(atoms) if trained else _captured(layers, "likelihoods", atoms, run)
        parts.append(roots.reshape(circuit.n_roots, -1).T)
        if mark is not None and bool(mark):
            good = conditioning.certain(passes.forward(layers, atoms, work))
            lost.append(rows.start + np.flatnonzero(~good))
    logs = parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)
    return logs, np.concatenate(lost) if lost else ()


def _captured(layers: Layers, name: str, atoms: LeafValues, run: Any) -> Any:
    """What a pass gives for atoms; on a GPU it is captured."""
    states = atoms.values
    if not isinstance(states, States):
        return run(atoms)
    return replayed_pass(
        layers, name, states.states, lambda x: run(LeafValues(replace(states, states=x)))
    )


CHUNK_ROWS = 2048
"""How many rows are worked on at once: they stay in the cache."""


def normal_mixture_logs(circuit: Circuit, evidence: Evidence | None) -> Any:
    """The log-densities of rows, (rows,), None if the circuit is no mixture of normals."""
    if evidence is None or evidence.values is None or not circuit.is_on_cpu:
        return None
    parts = circuit.operand.cached("normal components", lambda: _components(circuit))
    if parts is None:
        return None
    weights, means, variances = parts
    sizes, rates = -0.5 * np.log(2.0 * np.pi * variances), -0.5 / variances
    found = np.empty(evidence.n_rows)
    for rows in spans(evidence.n_rows, CHUNK_ROWS):
        X = evidence.values[rows]
        hidden, away = np.isnan(X), np.empty_like(X)
        complete = not hidden.any()
        seen = np.ones((X.shape[1], 1)) if complete else ~hidden.T
        logs = np.tile(sizes @ seen + weights[:, None], len(X) if complete else 1)
        with np.errstate(over="ignore"):  # the log-density of a remote value is -inf
            for k, mean in enumerate(means):
                np.subtract(X, mean, out=away)
                np.multiply(away, away, out=away)
                if not complete:
                    away[hidden] = 0.0
                logs[k] += away @ rates[k]
        found[rows] = log_sum_exp(logs, 0)[0]
    return found


def _components(circuit: Circuit) -> tuple[Any, Any, Any] | None:
    """The logs of weights, (components,), and means and variances, (components, variables).

    None if there are sums below the root, or inputs that are not normal.
    """
    n, root, blocks = circuit.n_variables, circuit.vtree.root, circuit.blocks
    if circuit.n_roots != 1 or n == 1 or set(circuit.cardinalities) != {None}:
        return None

    def leaf(node: int, variable: int) -> Any:
        block = blocks[node]
        weights = np.asarray(block.weights)
        if block.half is not None or block.mean.ndim != 1 or (block.variance <= 0).any():
            return None
        if ((weights != 0).sum(axis=1) != 1).any() or (weights.max(axis=1) <= 0).any():
            return None
        at, place = weights.argmax(axis=1), np.eye(n)[variable]  # zeros are in other columns
        parts = (np.outer(x[at], place) for x in (block.mean, block.variance))
        return np.log(weights.max(axis=1)), *parts

    def inner(node: int, left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        block = blocks[node]
        a, b = block.inputs
        logs, means, variances = (one[a] + two[b] for one, two in zip(left, right, strict=True))
        if block.weights is None:
            return logs, means, variances
        numbers, starts = block.flat
        if (numbers <= 0).any() or not (node == root or (np.diff(starts) == 1).all()):
            return None
        at = block.columns
        return np.log(numbers) + logs[at], means[at], variances[at]

    return from_leaves(circuit.vtree, leaf, inner)[root]


TOLERANCE, SINGLE_TOLERANCE = 1e-6, 1e-3
"""How far the log of the sum of a normalised circuit may be from zero, in doubles and in singles.
"""


def log_values(circuit: Circuit, evidence: Evidence | None) -> tuple[Any, Any]:
    """Logs of the absolute values of the roots given rows of evidence, and signs (or None).

    Shape (rows, roots); one row without evidence.
    """
    n = 1 if evidence is None else evidence.n_rows
    if n == 0:
        return circuit.xp.zeros((0, circuit.n_roots)), None
    found = None if circuit.clique_tree is None else circuit.clique_tree.log_values(evidence)
    if found is None:
        found = normal_mixture_logs(circuit, evidence)
    if found is not None:
        return found[:, None], None
    if not by_rows(circuit, evidence):
        logs, sign = _swept_logs(circuit, evidence)
        if circuit.is_known_nonnegative:  # rounding of a zero may have a sign
            return circuit.xp.where(sign > 0, logs, -inf), None
        return logs, sign if bool(circuit.xp.any(detach(sign) < 0)) else None
    logs, lost = layer_logs(circuit, evidence)
    if len(lost):
        some = None if evidence is None else evidence.rows(lost)
        again = _swept_logs(circuit, some)[0]
        logs[as_like(lost, logs)] = circuit.xp.astype(again, logs.dtype)
    return logs, None


def _swept_logs(circuit: Circuit, evidence: Any) -> tuple[Any, Any]:
    """Logs and signs for any weights and range, by a joint pass of the circuit alone.

    In halves if it is too large, or a few rows are out of range.
    """
    side = operands.CircuitOperand(circuit, evidence)
    joint, n = operands.JointPass((side,), operands.LIKELIHOODS), side.n_rows or 1
    result = None if n > 1 and joint.n_bytes > DEFAULT_MAX_BYTES else joint.values()
    if result is None:
        halves = (_swept_logs(circuit, evidence.rows(half)) for half in spans(n, (n + 1) // 2))
        logs, sign = map(circuit.xp.concat, zip(*halves, strict=True))
        return logs, sign
    logs, sign = (x.reshape(circuit.n_roots, -1).T for x in result.logs())
    rows = None if joint.by_layers else side.row_index
    if rows is not None:
        logs, sign = (x[as_like(rows, x)] for x in (logs, sign))
    return as_like(logs, circuit.like), as_like(sign, circuit.like)


def log_likelihood(circuit: Circuit, X: Any) -> Any:
    """See `Circuit.log_likelihood`."""
    logs, sign = log_values(circuit, as_evidence(X, circuit.schema, single=False))
    refuse_negative(sign)
    return logs[:, 0] if circuit.n_roots == 1 else logs


def site_logs(circuit: Circuit, X: Any, variables: Iterable[Any]) -> list[Any]:
    """The logs at points with each of some variables set to each of its states in turn.

    For several variables by one pass forward and back, where this can be.
    """
    chosen = [circuit.schema.variable(v) for v in variables]
    require_discrete(circuit, "Setting variables to each state", chosen, EvidenceError)
    X = as_table(X)
    points = circuit.schema.read_frame(X) if is_frame(X) else as_floats(X)
    unsigned = circuit.is_on_cpu and not circuit.layers.signed
    together = len(chosen) > 1 and circuit.n_roots == 1 and (unsigned or layers_of(circuit))
    if together and points.size:
        read = as_evidence(points, circuit.schema, single=False)
        logs = atom_shares(circuit, read, exact=True)
        place = {variable: slice(a, b) for variable, a, b in circuit.on_cpu.atom_slices}
        return [logs[:, place[v]] for v in chosen]
    found = []
    for variable in chosen:
        cardinality: Any = circuit.cardinalities[variable]
        rows = np.repeat(points, cardinality, axis=0)
        if rows.ndim == 2 and rows.shape[1] == circuit.n_variables:  # errors are raised below
            rows[:, variable] = np.tile(np.arange(cardinality), len(points))
        logs = log_likelihood(circuit, rows)
        shape = (len(points), cardinality, *logs.shape[1:])
        found.append(namespace(logs).reshape(logs, shape))
    return found


def require_discrete(
    circuit: Circuit,
    what: str,
    variables: Iterable[int] | None = None,
    error: type[Exception] = PropertyError,
) -> None:
    """Raise unless all variables, or these, are discrete."""
    for variable in range(circuit.n_variables) if variables is None else variables:
        if circuit.cardinalities[variable] is None:
            raise error(f"{what} needs discrete variables. Variable {variable} is real.")


def refuse_negative(sign: Any) -> None:
    """Raise if a sign is negative."""
    if sign is not None and (to_numpy(sign) < 0).any():
        raise PropertyError(
            "The circuit has a negative value here, so it has no logarithm and is no distribution. "
            "Signed circuits can be used in expected_kernel(..., log=False)."
        )


NO_SUM = ", so it cannot be normalised: check its weights and tables"


def condition(circuit: Circuit, evidence: Any) -> Circuit:
    """See `Circuit.condition`; the circuit is in NumPy."""
    circuit.require_single_root("Conditioning")
    read = as_evidence(evidence, circuit.schema)
    if read.n_rows != 1:
        raise EvidenceError(
            f"A circuit is conditioned on one row of evidence. Got {read.n_rows} rows; batches of "
            "conditionals are made by expected_kernel(..., evidence_p=rows)."
        )
    return conditioned(circuit, read)


def conditioned(circuit: Circuit, evidence: Evidence | None) -> Circuit:
    """The circuit given one row of evidence (or none), with every unit scaled to sum to one."""
    if circuit.n_roots > 1 or None in circuit.cardinalities or circuit.layers.signed:
        units = conditional_units(circuit, evidence)
        result = type(circuit).from_blocks(circuit.vtree, units).with_schema(circuit.schema)
        return replace(result, nonnegative=circuit.nonnegative)
    values = conditioning.all_values(circuit, evidence, exact=True)
    refuse_impossible(values.possible, evidence is not None, NO_SUM)
    active = conditioning.active_edges_in(circuit, values)
    return circuit.deferred(
        circuit.vtree, circuit.schema, lambda: conditioning.conditional_blocks(circuit, active)[0]
    )


def conditional_units(circuit: Circuit, evidence: Evidence | None) -> list[Block]:
    """The blocks of a circuit given evidence, unit for unit, every unit scaled to sum to one.

    Weights become conditional probabilities, w_si value_i / value_s. Those that are no doubles are
    zero.
    """
    blocks = list(circuit.blocks)
    logs = [log_sizes(block.flat[0]) for block in blocks]
    if evidence is not None:
        for variable in range(circuit.n_variables):
            node = circuit.vtree.leaf(variable)
            blocks[node], more = blocks[node].condition(evidence.column(variable))
            logs[node] = log_sizes(blocks[node].flat[0]) + more
    result, totals = normalized_units(circuit, blocks, logs)
    refuse_impossible(np.array([(totals > -inf).all()]), evidence is not None, NO_SUM)
    return result


def normalized_units(
    circuit: Circuit, blocks: Sequence[Any], logs: Sequence[Any]
) -> tuple[list[Any], Any]:
    """Blocks on a circuit's vtree (see `normalized_blocks`) with roots summing to one, and logs.

    Raises if that is negative.
    """
    result, totals = conditioning.normalized_blocks(circuit.vtree, blocks, logs)
    if any((block.flat[0] < 0).any() for block in result):
        logs, sign = log_values(type(circuit)(circuit.vtree, tuple(result)), None)
        refuse_negative(sign)
        rest: Any = logs[0]
        numbers, starts = result[-1].flat
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = numbers * np.repeat(np.exp(-rest), np.diff(starts))
        if (rest > -inf).all():
            advice = "the terms of its sums cancel"
            require_range(scaled, 0, np.zeros(0), "The normalised circuit", advice)
        result[-1], totals = result[-1].refilled(scaled), totals + rest
    return result, totals


def negative_node(circuit: Circuit) -> int | None:
    """The first vtree node with a negative weight or entry of a table, None if there is none."""
    if circuit.is_on_cpu and not circuit.layers.signed:
        return None
    signed = ((numbers < 0).any() for numbers, _ in map(attrgetter("flat"), circuit.blocks))
    return next((node for node, found in enumerate(signed) if found), None)


def refuse_signed(circuit: Circuit, what: str) -> None:
    """Raise if a weight or an entry of a table is negative."""
    if (node := negative_node(circuit)) is not None:
        raise PropertyError(
            f"{what} needs a circuit without negative weights. There is one at vtree node {node}."
        )


def require_normalized(circuit: Any, what: str) -> None:
    """Raise unless a circuit (or a graph of units) with one root sums to one.

    `what` says who needs it, as the start of the error. The sum is kept by circuits, so that
    asking again costs nothing.
    """
    total = float(detach(circuit.log_partition()))
    blocks = getattr(circuit, "blocks", None)
    single = blocks is not None and "float32" in str(blocks[0].arrays[0].dtype)
    if not abs(total) <= (SINGLE_TOLERANCE if single else TOLERANCE):
        raise PropertyError(
            f"{what} is between distributions, so a circuit must sum to one. The log of the sum "
            f"of this one (its log_partition()) is {total:.6g}; normalize() makes it one."
        )


def require_possible(circuit: Circuit, evidence: Evidence | None) -> Any:
    """The log probabilities of rows of evidence; raises if one is zero."""
    logs, sign = log_values(circuit, evidence)
    refuse_negative(sign)
    refuse_impossible(logs[:, 0] > -inf, evidence is not None)
    return logs[:, 0]


def refuse_impossible(
    possible: Any, given: bool, why: str = "; it is no distribution", first: int = 0
) -> None:
    """Raise unless all rows of evidence (or, if none is given, the circuit itself) are possible.

    `first` is the number of the first of these rows.
    """
    possible = to_numpy(possible).reshape(-1)
    if possible.all():
        return
    if not given:
        raise PropertyError(f"The circuit sums to zero{why}.")
    row = first + int(np.argmin(possible))
    raise EvidenceError(
        "The evidence in row {row} has probability zero under the circuit, so there is no "
        "conditional distribution. Check the row, or smooth the circuit's parameters.",
        row=row,
    )


CHUNK = 2**14
"""How many rows are evaluated at once, at most."""


def nonnegative(circuit: Circuit) -> Verdict:
    """Whether a circuit is known to have no negative values, with the reason.

    It has none if it has no negative weights, or if it was made by `square`, or from such a square
    by conditioning, marginalising, renaming, moving, copying or storing it. Of other circuits it is
    not known: that is hard to decide.

    Parameters
    ----------
    circuit : Circuit
        The circuit to check.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> import expectedkernels as ek
    >>> f = ek.factorized([[1.0, -2.0]], normalized=False)
    >>> bool(ek.algebra.nonnegative(f)), bool(ek.algebra.nonnegative(ek.algebra.square(f)))
    (False, True)
    """
    if circuit.is_known_nonnegative:
        return Verdict(True, "it is the square of a circuit")
    node = negative_node(circuit.on_cpu)
    if node is None:
        return Verdict(True, "no weight is negative")
    return Verdict(False, f"there is a negative weight at vtree node {node}, and it is no square")


MOST_LINES = 60
"""How many lines a table prints before it is cut."""


class Marginals(list[Any]):
    """A list of one array per variable, also indexed by names, that prints as a table.

    Parameters
    ----------
    arrays : iterable of arrays
        Probabilities of the states of every variable, (cardinality,) or (rows, cardinality); mean
        and variance of a real one.
    schema : Schema

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.2, 0.8]]).with_names(["rain"], [["no", "yes"]])
    >>> p.marginals()["rain"].tolist()
    [0.2, 0.8]
    >>> p.marginals()
    variable  state  probability
    rain      no             0.2
              yes            0.8
    """

    def __init__(self, arrays: Iterable[Any], schema: Schema):
        super().__init__(arrays)
        self.schema = schema

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        return super().__getitem__(self.schema.variable(key) if isinstance(key, str) else key)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self), self.schema)

    def __repr__(self) -> str:
        lines, schema = [("variable", "state", "probability")], self.schema
        for v, array in enumerate(map(to_numpy, self)):
            card, name = schema.cardinalities[v], str(schema.name(v))
            rows: Any = schema.labels(v) or range(card or 0) if card else ("mean", "variance")
            if array.ndim != 1:
                lines.append((name, ", ".join(map(str, rows)), f"{len(array)} rows"))
                continue
            for i, (label, x) in enumerate(zip(rows, array.tolist(), strict=True)):
                lines.append(("" if i else name, str(label), f"{x:.6g}"))
        widths = [max(len(line[i]) for line in lines) for i in range(3)]
        shown = [f"{a:{widths[0]}}  {b:{widths[1]}}  {c:>{widths[2]}}" for a, b, c in lines]
        if len(shown) > MOST_LINES:
            shown = [*shown[:MOST_LINES], f"... ({len(self)} variables in all)"]
        return "\n".join(line.rstrip() for line in shown)


def marginals(circuit: Circuit, evidence: Any = None) -> Marginals:
    """See `Circuit.marginals`."""
    circuit.require_single_root("Marginals")
    on_cpu, domains, what = circuit.on_cpu, circuit.cardinalities, "A list of marginals"
    read = None if evidence is None else as_evidence(evidence, circuit.schema)
    if read is not None and read.n_rows == 0:
        empty = [np.empty((0, 2 if card is None else card)) for card in domains]
        return Marginals(empty, circuit.schema)
    result = None if circuit.clique_tree is None else circuit.clique_tree.marginals(read)
    if circuit.has_gradients:
        rows = _discrete_rows(circuit, read, f"{what} with gradients (to('numpy') has none)")
        require_possible(circuit, rows)
        result = [states_with_gradients(circuit, rows, v) for v in range(len(domains))]
    elif result is None and circuit.is_known_nonnegative:
        rows = _discrete_rows(on_cpu, read, f"{what} of a square")
        result = [_state_shares(on_cpu, rows, v) for v in range(len(domains))]
    elif result is None:
        refuse_signed(on_cpu, what)
        shares, slices = atom_shares(circuit, read), sorted(on_cpu.atom_slices)
        result = [on_cpu.input(v).marginal(shares[:, a:c], read, v) for v, a, c in slices]
    if not is_batch(evidence):
        result = [array[0] for array in result]
    return Marginals(result, circuit.schema)


def states_with_gradients(circuit: Circuit, evidence: Evidence, variable: int) -> Any:
    """The marginals of one variable as a tensor, (rows, states)."""
    weights = evidence.state_weights([variable])[0]
    row, state = np.nonzero(weights)
    own, alone = weights[row], weights[row] * np.eye(weights.shape[1])[state]
    whole = log_values(circuit, evidence)[0][:, 0]
    logs = log_values(circuit, _with_weights(evidence.rows(row), variable, alone))[0][:, 0]
    shares = (logs - whole[as_like(row, logs)]).exp()
    zero = np.flatnonzero(to_numpy(logs) == -np.inf)
    if len(zero):
        # a log of zero has no derivative, that of a sum with other states has
        cases = _with_weights(evidence.rows(row[zero]), variable, (own + alone)[zero])
        risen = (log_values(circuit, cases)[0][:, 0] - whole[as_like(row[zero], logs)]).exp()
        shares = shares.index_put((as_like(zero, logs),), risen - risen.detach())
    places = as_like(row * weights.shape[1] + state, logs)
    every = logs.new_zeros(weights.size).index_put((places,), shares)
    return every.reshape(weights.shape)


def _with_weights(rows: Evidence, variable: int, weights: Any, codes: Any = None) -> Evidence:
    """Rows with other weights of the states of one variable, one of them for each by default."""
    columns = [rows.column(v) for v in range(len(rows.domains))]
    columns[variable] = Column(weights, None, np.arange(len(weights)) if codes is None else codes)
    return Evidence(rows.domains, columns=columns)


def _discrete_rows(circuit: Circuit, evidence: Evidence | None, what: str) -> Evidence:
    """Rows of evidence, one without any by default; raises if a variable is real."""
    require_discrete(circuit, what)
    return evidence or Evidence(circuit.cardinalities, np.full((1, circuit.n_variables), np.nan))


def _state_shares(circuit: Circuit, rows: Evidence, variable: int) -> Any:
    """The probabilities of the states of a variable, (rows, states), by their likelihoods."""
    weights = rows.state_weights([variable])[0]
    n, cardinality = weights.shape
    alone = (weights[:, :, None] * np.eye(cardinality)).reshape(-1, cardinality)
    cases = _with_weights(rows.rows(np.repeat(np.arange(n), cardinality)), variable, alone)
    logs = log_values(circuit, cases)[0]
    shares, totals = run_shares(logs[:, 0], np.arange(n + 1) * cardinality)
    refuse_impossible(totals > -inf, given=True)
    return shares.reshape(n, cardinality)


def _conditional_samples(
    circuit: Circuit, evidence: Evidence | None, n: int, rng: Any, out: Any
) -> None:
    """Draw variable by variable, each given those before it; n rows for every row of evidence."""
    every = _discrete_rows(circuit, evidence, "Sampling of a square")
    for part in spans(len(out), CHUNK):
        rows = every.rows(np.arange(part.start, part.stop) // n)
        for v in range(circuit.n_variables):
            shares = _state_shares(circuit, rows, v)
            state = arrays.inverse_cdf(arrays.cumulative(shares), rng.random(len(shares)))
            out[part, v] = state
            rows = _with_weights(rows, v, np.eye(shares.shape[1]), state)


def atom_shares(circuit: Circuit, evidence: Evidence | None, exact: bool = False) -> Any:
    """The posterior probabilities of all atoms, (rows, atoms), in NumPy.

    With `exact`, the logs of the circuit with every atom set in turn, where the circuit is.
    """
    layers, on_cpu = layers_of(circuit), circuit.on_cpu
    if layers is None:
        return _log_at_atoms(on_cpu, evidence, exact)
    work = operations.Workspace(layers.like)
    parts, reliable = [], []

    def run(atoms: LeafValues) -> tuple[Any, Any, Any]:
        """What is found, rows where it is right, and possible ones."""
        forward = passes.forward(layers, atoms, work)
        below = passes.backward(forward, exact, work)
        with np.errstate(invalid="ignore", over="ignore"):  # rows that are not reliable
            if exact:
                roots, xp = forward.log_roots[0], circuit.xp
                scale = xp.zeros_like(roots) if forward.scale is None else forward.scale
                terms = double_logs(below.atoms)
                terms += xp.where(roots > -inf, roots, scale)
            else:
                terms = operations.normalised(layers, operations.times_atoms(forward, below.atoms))
        return terms.reshape(layers.n_atoms, -1).T, below.reliable, forward.possible

    for rows, some in evidence_chunks(layers, evidence):
        out = _captured(layers, f"atoms {exact}", conditioning.observed(on_cpu, layers, some), run)
        # other results are in memory that the next pass uses again
        parts.append(out[0] if exact else np.array(to_numpy(out[0]), dtype=np.float64))
        reliable.append(to_numpy(out[1]).reshape(-1))
        if not exact:
            refuse_impossible(out[2], evidence is not None, first=rows.start)
    result = parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts)
    lost = np.flatnonzero(~np.concatenate(reliable))
    if len(lost):
        some = None if evidence is None else evidence.rows(lost)
        result[as_like(lost, result)] = as_like(_log_at_atoms(on_cpu, some, exact), result)
    return result


def _log_at_atoms(circuit: Circuit, evidence: Evidence | None, exact: bool) -> Any:
    """The same, for values of any range."""
    layers, n = circuit.layers, 1 if evidence is None else evidence.n_rows
    result = np.empty((n, layers.n_atoms))
    for rows in spans(n, max(1, passes.chunk_rows(layers) // conditioning.COPIES)):
        some = None if evidence is None else evidence.rows(rows)
        forward = conditioning.forward_logs(circuit, some)
        terms = passes.backward_over(conditioning.log_sums, layers, forward.values)
        if not exact:
            refuse_impossible(forward.possible, evidence is not None, first=rows.start)
            terms = run_shares(forward.atoms.values + terms, layers.layers[0].product_starts)[0]
        result[rows] = terms.T
    return result


def deterministic(circuit: Circuit) -> Verdict:
    """Whether the inputs of every sum unit have disjoint supports, with the first that do not.

    Two units of one vtree node overlap iff the inner product of their support indicators is not
    zero, so one sweep of the circuit's supports against themselves decides. (Weights that
    cancel are taken as if they did not.) Cost: that of one expected kernel, once per circuit.
    """
    return circuit.on_cpu.operand.cached("deterministic", lambda: _decided(circuit.on_cpu))


def require_deterministic(circuit: Circuit, what: str, why: str) -> None:
    """Raise if a weight is negative, or inputs of a sum overlap."""
    refuse_signed(circuit, what)
    verdict = deterministic(circuit)
    if not verdict:
        raise PropertyError(f"{what} needs a deterministic circuit, but {verdict.reason}. {why}")


def _decided(circuit: Circuit) -> Verdict:
    """See `deterministic`."""
    for variable in circuit.vtree.scope().tolist():
        block = circuit.input(variable)
        several = (block.numbers != 0).sum(axis=1) > 1
        if block.cardinality is None and several.any():
            kind = "normal densities, which" if block.half is None else "densities, which may"
            where = f"input unit {int(np.argmax(several))} of the real variable {variable}"
            return Verdict(False, f"{where} is a sum of several {kind} overlap")
    vtree, blocks = circuit.vtree, circuit.blocks
    sizes = [16.0 * max(block.n_units, block.width) * block.width for block in blocks]
    advice = "Compile it on a vtree that suits it, where it has fewer units."
    arrays.require_memory(max(sizes), "To decide whether the circuit is deterministic", advice)
    overlaps: list[Any] = [None] * vtree.n_nodes
    for node, block in enumerate(blocks):
        if vtree.is_leaf(node):
            overlaps[node] = block.overlaps(block)
            continue
        (a, b), left, right = block.inputs, vtree.left[node], vtree.right[node]
        overlap = overlaps[left][np.ix_(a, a)] & overlaps[right][np.ix_(b, b)]
        overlaps[left], overlaps[right], overlaps[node] = None, None, overlap
        if block.weights is None:
            continue
        takes = abs(block.csr.sign())
        overlaps[node] = takes @ (takes @ overlap.astype(np.float64)).T > 0
        np.fill_diagonal(overlap, False)
        clashes = np.argwhere((takes @ overlap.astype(np.float64)) * takes.toarray())
        if len(clashes):
            unit, first = clashes[0].tolist()
            inputs = takes.indices[takes.indptr[unit] : takes.indptr[unit + 1]]
            second = int(inputs[overlap[first, inputs]][0])
            scope = show(sum(1 << v for v in vtree.scope(node).tolist()))
            where = f"sum unit {unit} at vtree node {node} (variables {scope})"
            pair = f"inputs {first} and {second} with overlapping supports"
            return Verdict(False, f"{where} has {pair}")
    return Verdict(True, "no two inputs of any sum unit overlap")


NOISE_BYTES = 2**28
"""How much memory random numbers, which are drawn before the samples are made, may take."""

MANY = 16
"""With so many samples per row, fewer rows are worked on at once."""


def sample(circuit: Circuit, n: int, rng: Any = None, evidence: Any = None) -> Any:
    """See `Circuit.sample`."""
    check_count("sample", "n", n, error=DataError)
    circuit.require_single_root("Sampling")
    by_conditionals = circuit.is_known_nonnegative
    if not by_conditionals:
        refuse_signed(circuit.on_cpu, "Sampling")
    generator = arrays.as_generator(rng)
    read = None if evidence is None else as_evidence(evidence, circuit.schema)
    n_rows = 1 if read is None else read.n_rows
    shape = (n_rows * n, circuit.n_variables)
    what = f"An array of {shape[0]} samples"
    arrays.require_memory(8.0 * prod(shape), what, "Draw some of them at a time.")
    out = np.empty(shape)
    if n == 0:
        require_possible(circuit.on_cpu, read)
    elif n_rows and by_conditionals:
        _conditional_samples(circuit.on_cpu, read, n, generator, out)
    elif n_rows:
        _write_samples(circuit, read, generator, n, out)
    return out.reshape(n_rows, n, circuit.n_variables) if is_batch(evidence) else out


def most_probable(circuit: Circuit, X: Any) -> Any:
    """See `Circuit.map`."""
    circuit.require_single_root("MAP")
    on_cpu = circuit.on_cpu
    require_deterministic(on_cpu, "MAP", "For others the problem is NP-hard.")
    read, layers = as_evidence(X, circuit.schema), layers_of(circuit)
    every: Any = on_cpu.layers if layers is None else layers
    completed = np.empty((read.n_rows, circuit.n_variables))
    for rows, some in evidence_chunks(every, read):
        atoms = conditioning.atom_logs(on_cpu, some, modes=True)
        in_numpy = isinstance(every.like, np.ndarray)
        atoms = atoms[:, 0] if some.n_rows == 1 and in_numpy else as_like(atoms, every.like)
        values = passes.forward_over(passes.largest, every, atoms)
        refuse_impossible(values[-1] > -inf, given=True, first=rows.start)
        chosen = descend(every, some.n_rows, partial(_best_edges, every, values, atoms))
        _write(on_cpu, some, chosen, None, np.arange(some.n_rows), completed[rows])
    return completed if is_batch(X) else completed[0]


def _best_edges(layers: Layers, values: Any, atoms: Any, descent: Descent) -> Any:
    """The edges that make up the largest values, in logs."""
    layer = descent.layer
    products, own = descent.edges.products, layers.log_weights[descent.number]
    rows = np.arange(descent.rows.start, descent.rows.stop)
    rows = as_like(np.tile(rows, len(descent.nodes)), values)

    def scores(places: Any, edges: Any) -> Any:
        row = rows[places]
        if layer.inputs is None:
            return _at(atoms, products[edges], row) + own[edges]
        left, right = (side[products[edges]] for side in layer.inputs)
        # the very sums the values are the largest of
        return _at(values, left, row) + _at(values, right, row) + own[edges]

    goals = _at(values, layer.start + descent.flat, rows)
    return first_reaching(descent.edges, descent.flat, scores, goals)


def _at(array: Any, places: Any, rows: Any) -> Any:
    """Entries of an array of shape (places, rows), or (places,) for a single row."""
    at = places if array.ndim == 1 else places * array.shape[1] + rows
    return array.reshape(-1)[at]


def _write_samples(
    circuit: Circuit, evidence: Evidence | None, generator: Any, n: int, out: Any
) -> None:
    """Write n > 0 samples for every row of evidence, one row after the other.

    Random numbers are drawn node by node from the root down, for all samples at once.
    """
    on_cpu, layers = circuit.on_cpu, layers_of(circuit)
    passed = on_cpu.layers if layers is None else layers
    work = operations.Workspace(passed.like)
    for part, noise in _noises(on_cpu, generator, len(out)):
        first = part.start // n
        for some in conditioning.chunks(passed, -(-part.stop // n) - first, per_row=1 + n // MANY):
            rows = slice(first + some.start, first + some.stop)
            given = None if evidence is None else evidence.rows(rows)
            forward = conditioning.all_values(circuit, given, work)
            refuse_impossible(forward.possible, evidence is not None, first=rows.start)
            start, stop = max(part.start, rows.start * n), min(part.stop, rows.stop * n)
            row_of = np.arange(start, stop) // n - rows.start
            own = [x[:, start - part.start : stop - part.start] for x in noise]
            choose = partial(_drawn_edges, forward, row_of, own[0])
            chosen = descend(forward.layers, stop - start, choose)
            _write(on_cpu, given, chosen, own[1:], row_of, out[start:stop])


def _noises(circuit: Circuit, generator: Any, n: int) -> Iterator[tuple[slice, list[Any]]]:
    """Samples in parts (mostly one), with what is random in them.

    That is a uniform number for every choice, (nodes, samples), and for real variables normal
    ones and uniform ones, (variables, samples).
    """
    n_nodes, n_real = circuit.vtree.n_nodes, circuit.cardinalities.count(None)
    draws = (generator.random, generator.standard_normal, generator.random)
    kinds_of = [block.noise_kinds for block in circuit.blocks]
    for part in spans(n, max(1, NOISE_BYTES // (8 * n_nodes))):
        noise = [np.empty((k, part.stop - part.start)) for k in (n_nodes, n_real, n_real)]
        variable = n_real
        for node in range(n_nodes - 1, -1, -1):
            variable -= len(kinds_of[node]) > 1
            for kind in kinds_of[node]:
                draws[kind](out=noise[kind][variable if kind else node])
        yield part, noise


def _drawn_edges(forward: Forward, row_of: Any, noise: Any, descent: Descent) -> Any:
    """Edges drawn with probabilities in proportion to what they add to their units."""
    edges, units, number = descent.edges, descent.flat, descent.number
    numbers = as_like(noise[descent.nodes, descent.rows].reshape(-1), forward.layers.like)
    if not forward.in_logs and forward.values.shape[1:] in ((), (1,)):
        terms = forward.product_values(number).reshape(-1)[edges.products]
        return draw_alike(edges, units, edges.weights * terms, numbers)
    rows = as_like(np.tile(row_of[descent.rows], len(descent.nodes)), forward.layers.like)
    inputs = forward.product_values(number)
    totals = _at(forward.sums(number), units, rows)

    def scores(places: Any, at: Any) -> Any:
        terms = _at(inputs, edges.products[at], rows[places])
        if forward.in_logs:
            return np.exp(terms + forward.layers.log_weights[number][at] - totals[places])
        return edges.weights[at] * terms

    sums = np.ones(len(rows)) if forward.in_logs else totals
    return draw_edges(edges, units, scores, sums, numbers)


def _write(
    circuit: Circuit, evidence: Evidence | None, chosen: Any, noise: Any, rows: Any, out: Any
) -> None:
    """Write the values that chosen atoms stand for; observed values of real variables stay."""
    layer = circuit.layers.layers[0]
    out[:, circuit.vtree.variable[layer.nodes]] = circuit.atom_names[1][chosen].T
    real = [v for v in circuit.vtree.scope().tolist() if circuit.cardinalities[v] is None]
    for i, variable in enumerate(real):
        random = (None, None) if noise is None else (kind[i] for kind in noise)
        values = circuit.input(variable).sample_values(out[:, variable].astype(np.intp), *random)
        if evidence is not None:
            column = evidence.column(variable)
            observed = column.values[column.codes[rows]]
            values = np.where(np.isnan(observed), values, observed)
        out[:, variable] = values
