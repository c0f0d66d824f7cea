"""Random block circuits for tests, and what they mean by definition: sums over all worlds."""

from dataclasses import replace
from functools import partial

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp

from expectedkernels import Categorical, Circuit, Gaussian, Product, Sum, Vtree, factorized
from oracles import Inner, Real, Table, with_holes, worlds as all_worlds
from unit_graphs import random_nested


def signed_log_joint(circuit):
    """Logs of absolute values and signs of all roots at all points, shape (roots, *cardinalities).

    Every unit is written out over all states of its scope, in logarithms.
    """
    vtree, values = circuit.vtree, []
    for node, block in enumerate(circuit.blocks):
        if isinstance(block, Table):
            with np.errstate(divide="ignore"):
                values.append((np.log(np.abs(block.table)), np.sign(block.table)))
            continue
        (a, s), (b, t) = values[vtree.left[node]], values[vtree.right[node]]
        left, right = block.index("left"), block.index("right")
        logs = (a[left][:, :, None] + b[right][:, None, :]).reshape(len(left), -1)
        sign = (s[left][:, :, None] * t[right][:, None, :]).reshape(len(left), -1)
        if block.weights is not None:
            weights = block.csr.toarray()[:, :, None]
            with np.errstate(divide="ignore"):
                terms = np.log(np.abs(weights)) + logs
            logs, sign = logsumexp(terms, axis=1, b=np.sign(weights) * sign, return_sign=True)
        values.append((logs, sign))
    scope = vtree.scope().tolist()
    shape = (-1, *(circuit.cardinalities[v] for v in scope))
    order = (0, *(1 + scope.index(v) for v in range(len(scope))))
    logs, sign = values[-1]
    return logs.reshape(shape).transpose(order), sign.reshape(shape).transpose(order)


def log_joint(circuit):
    """Logs of the values of a non-negative circuit at all points, shape (*cardinalities)."""
    logs, sign = signed_log_joint(circuit)
    assert not (sign < 0).any()
    return logs[0]


def log_distribution(circuit):
    """The same in one row."""
    return log_joint(circuit).ravel()


def joint(circuit):
    """The values of all roots at all points, shape (roots, *cardinalities)."""
    logs, sign = signed_log_joint(circuit)
    return sign * np.exp(logs)


def log_weights(evidence, cardinalities):
    """A list with one (rows, cardinality) array of weights per variable, as logs over all points.

    Shape (rows, *cardinalities).
    """
    n_rows = {len(x) for x in evidence if x is not None}.pop()
    total = np.zeros((n_rows, *cardinalities))
    for variable, given in enumerate(evidence):
        if given is not None:
            shape = [n_rows] + [1] * len(cardinalities)
            shape[1 + variable] = -1
            with np.errstate(divide="ignore"):
                total = total + np.log(given).reshape(shape)
    return total


def posterior(circuit, weights):
    """Probabilities of all points given rows of evidence, shape (rows, *cardinalities).

    None if a row has probability zero.
    """
    logs = log_joint(circuit)[None] + log_weights(weights, circuit.cardinalities)
    axes = tuple(range(1, logs.ndim))
    total = logsumexp(logs, axis=axes, keepdims=True)
    return np.exp(logs - total) if (total > -np.inf).all() else None


def marginal(table, variable):
    """The distribution of one variable under tables of shape (rows, *cardinalities)."""
    axes = tuple(i for i in range(1, table.ndim) if i != 1 + variable)
    return table.sum(axis=axes)


def random_domain(rng, n_max=6):
    """A random vtree and cardinalities from 2 to 4, at most 4096 points."""
    n = int(rng.integers(1, n_max + 1))
    cardinalities = tuple(int(card) for card in rng.integers(2, 5, size=n))
    return Vtree.from_nested(random_nested(rng, rng.permutation(n))), cardinalities


def random_numbers(rng, shape, zeros=0.0, signed=False, decades=0.5):
    """Weights and table entries from 10 ** -decades to 10 ** decades, and a share of zeros."""
    numbers = 10.0 ** rng.uniform(-decades, decades, size=shape)
    if signed:
        numbers *= rng.choice([-1, 1], size=shape)
    return numbers * (rng.random(shape) >= zeros)


def random_inner(rng, numbers, n_units, n_left, n_right):
    """A block with random inputs; its sums are dense, sparse, or absent."""
    kind = rng.choice(["plain", "identity", "dense", "sparse"])
    if kind == "identity" and n_left == n_right:
        left = right = None
        n_products = n_left
    else:
        n_products = n_units if kind == "plain" else int(rng.integers(1, 6))
        left, right = (rng.integers(n, size=n_products) for n in (n_left, n_right))
    if kind == "plain":
        return Inner(n_products, n_products, left, right, None)
    weights = numbers((n_units, n_products))
    if kind == "sparse":
        weights = sparse.csr_array(weights * (rng.random(weights.shape) < 0.7))
    return Inner(n_products, n_units, left, right, weights)


def random_input(rng, numbers, n_units, cardinality):
    """A block of input units."""
    if cardinality is not None:
        return Table(numbers((n_units, cardinality)))
    n = int(rng.integers(1, 4))
    weights = np.abs(numbers((n_units, n)))
    weights[:, 0] += 0.1  # a mixture of normals is not empty
    return Real(weights, rng.normal(0, 2, size=n), rng.uniform(0.2, 2, size=n))


def random_blocks(rng, vtree, cardinalities, roots=1, **options):
    """Blocks with random units; options as for `random_numbers`."""
    numbers = partial(random_numbers, rng, **options)
    blocks = []
    for node, variable in enumerate(vtree.variable.tolist()):
        n = roots if node == vtree.root else int(rng.integers(1, 6))
        if variable >= 0:
            blocks.append(random_input(rng, numbers, n, cardinalities[variable]))
        else:
            sizes = (blocks[vtree.left[node]].n_units, blocks[vtree.right[node]].n_units)
            blocks.append(random_inner(rng, numbers, n, *sizes))
    return blocks


@st.composite
def block_circuits(draw, binary=False, signed=False, real=False, roots=1, minimised=True):
    """Circuits with few variables, any mixture of block forms, and zeros and ones in all places."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 6))
    vtree = Vtree.random(rng.permutation(n).tolist(), rng)
    cards = [2 if binary else int(rng.integers(1, 4)) for _ in range(n)]
    cards = [None if real and rng.random() < 0.5 else card for card in cards]
    decades = float(rng.choice([0.0, 3.0]))  # all numbers are ones, or of different sizes
    options = {"zeros": 0.25, "signed": signed, "decades": decades}
    blocks = random_blocks(rng, vtree, cards, roots=roots, **options)
    return Circuit.from_blocks(vtree, blocks) if minimised else Circuit(vtree, tuple(blocks))


def drawn_circuit(seed, n_max=6, roots=1, share_real=0.0, **options):
    """A random unnormalised circuit: dense or sparse, with or without zeros."""
    rng = np.random.default_rng(seed)
    vtree, cardinalities = random_domain(rng, n_max)
    cardinalities = tuple(None if rng.random() < share_real else c for c in cardinalities)
    options.setdefault("zeros", float(rng.choice([0.0, 0.3, 0.5])))
    circuit = Circuit.from_blocks(
        vtree, random_blocks(rng, vtree, cardinalities, roots=roots, **options)
    )
    return sparsified(circuit) if rng.random() < 0.3 else circuit


def drawn_distribution(seed, **options):
    """A random circuit that is not zero everywhere."""
    while True:
        circuit = drawn_circuit(seed, **options)
        if circuit.log_partition() > -np.inf:
            return circuit
        seed += 1


def with_arrays(circuit, weights, table=lambda table: table):
    """The circuit with functions of all sparse matrices of weights, and of all tables."""

    def changed(block):
        if isinstance(block, Inner) and block.weights is not None:
            return replace(block, weights=weights(block.csr))
        return replace(block, table=table(block.table)) if isinstance(block, Table) else block

    return Circuit(circuit.vtree, tuple(map(changed, circuit.blocks)))


def sparsified(circuit):
    """The circuit with all weights stored sparsely, as those of large circuits are."""
    return with_arrays(circuit, lambda weights: weights)


def absolute(circuit):
    """The circuit of the absolute values of all weights and tables of a discrete circuit."""
    return with_arrays(circuit, abs, np.abs)


def rows_of(p, n, seed=0, missing=0.4):
    """Samples of a circuit with values missing."""
    return with_holes(p.sample(n, rng=seed), missing, seed)


def random_evidence(rng, circuit, n_rows, share=0.5):
    """Rows with NaN that have positive probability: parts of samples by enumeration."""
    logs = log_joint(circuit).ravel()
    p = np.exp(logs - logsumexp(logs))
    picked = rng.choice(len(p), size=n_rows, p=p / p.sum())
    rows = all_worlds(circuit.cardinalities)[picked]
    rows[rng.random(rows.shape) < share] = np.nan
    return rows


class RandomDecisions:
    """Draws deterministic graphs of units: sums branch on the value of a variable.

    Parameters
    ----------
    rng : numpy.random.Generator
    ties : bool
        Whether all numbers are equal.
    """

    def __init__(self, rng, ties=False):
        self.rng, self.ties = rng, ties

    def numbers(self, n):
        return np.full(n, 0.5) if self.ties else self.rng.uniform(0.1, 2.0, size=n)

    def unit(self, nested, allowed):
        """A unit whose support lies in the allowed states of every variable."""
        if isinstance(nested, int):
            table = self.numbers(len(allowed[nested])) * allowed[nested]
            return Categorical(nested, table)
        free = [v for v in _flat(nested) if sum(allowed[v]) > 1]
        if not free or self.rng.random() < 0.2:
            return Product([self.unit(child, allowed) for child in nested])
        variable = free[int(self.rng.integers(len(free)))]
        states = np.flatnonzero(allowed[variable])
        cut = int(self.rng.integers(1, len(states)))
        terms = []
        for part in (states[:cut], states[cut:]):
            mask = np.isin(np.arange(len(allowed[variable])), part)
            below = {**allowed, variable: mask}
            terms.append(Product([self.unit(child, below) for child in nested]))
        return Sum(terms, self.numbers(2))


def _flat(nested):
    return [nested] if isinstance(nested, int) else _flat(nested[0]) + _flat(nested[1])


def drawn_deterministic(seed, ties=False, n_max=4):
    """A random deterministic circuit."""
    rng = np.random.default_rng(seed)
    vtree, cardinalities = random_domain(rng, n_max)
    allowed = {v: rng.random(card) < 0.8 for v, card in enumerate(cardinalities)}
    for mask in allowed.values():
        mask[int(rng.integers(len(mask)))] = True
    root = RandomDecisions(rng, ties).unit(vtree.to_nested(), allowed)
    return Circuit.from_units(root, vtree=vtree)


def real_mixture(seed, n=3):
    """A mixture over a real, a discrete and a real variable."""
    rng = np.random.default_rng(seed)
    parts = [
        Product(
            [
                Product([Gaussian(0, rng.normal(), rng.gamma(2.0)), Categorical(1, rng.random(3))]),
                Gaussian(2, rng.normal(), rng.gamma(2.0)),
            ]
        )
        for _ in range(n)
    ]
    return Circuit.from_units(Sum(parts, rng.random(n)))


def rare(n_variables):
    """A circuit whose points have probabilities far below the smallest float, and these."""
    rng = np.random.default_rng(0)
    p = factorized([[x, 1.0 - x] for x in rng.uniform(1e-5, 1e-2, size=n_variables)])
    X = (rng.random((70, n_variables)) < rng.random((70, 1))).astype(float)
    return p, X, np.asarray(p.log_likelihood(X))


def followed(circuit):
    """The numbers of a circuit in tensors, and a function from such numbers to the circuit."""
    start = circuit.to("torch")
    places = [
        (node, name)
        for node, block in enumerate(start.blocks)
        for name, x in vars(block).items()
        if hasattr(x, "requires_grad") and x.is_floating_point()
    ]

    def build(*numbers):
        blocks = list(start.blocks)
        for (node, name), x in zip(places, numbers, strict=True):
            blocks[node] = replace(blocks[node], **{name: x})
        return Circuit(start.vtree, tuple(blocks))

    return [getattr(start.blocks[n], a).clone().requires_grad_() for n, a in places], build
