"""Circuits by hand: two models and a kernel that split their variables alike, drawn and averaged.

Two distributions of four bits are written as sums and products, and so is the Gaussian kernel. All
three split their variables in the same way, so the expected kernel is one pass over all of them;
the sum over all pairs of worlds confirms it. The picture shows inputs on the left, roots on the
right, and products coloured by the variables they are about.
"""

import itertools

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import expectedkernels as ek

COLOURS = {2: "#cc79a7", 3: "#009e73", 4: "#d55e00"}
"""The colour of a product, by its number of variables."""


def bit(variable: int, probability: float) -> ek.Categorical:
    return ek.Categorical(variable, [1 - probability, probability])


def first_model() -> ek.Sum:
    """Two ways to have the first two bits, in each of two ways to have the first three."""
    alike = ek.Product([bit(0, 0.9), bit(1, 0.8)])
    other = ek.Product([bit(0, 0.2), bit(1, 0.3)])
    mostly, rarely = ek.Sum([alike, other], [0.7, 0.3]), ek.Sum([alike, other], [0.1, 0.9])
    up, down = ek.Product([mostly, bit(2, 0.6)]), ek.Product([rarely, bit(2, 0.1)])
    left, right = ek.Sum([up, down], [0.5, 0.5]), ek.Sum([up, down], [0.2, 0.8])
    roots = [ek.Product([left, bit(3, 0.3)]), ek.Product([right, bit(3, 0.9)])]
    return ek.Sum(roots, [0.6, 0.4])


def second_model() -> ek.Sum:
    """Fewer units, and the same splits."""
    pairs = [ek.Product([bit(0, a), bit(1, b)]) for a, b in [(0.5, 0.5), (0.1, 0.7)]]
    triple = ek.Product([ek.Sum(pairs, [0.4, 0.6]), bit(2, 0.5)])
    return ek.Sum([ek.Product([triple, bit(3, 0.2)])], [1.0])


def kernel(gamma: float = 1.0) -> ek.Product:
    """The Gaussian kernel of four bits, a product of four, split as the models are."""
    table = np.exp(-gamma * (np.arange(2)[:, None] - np.arange(2)) ** 2.0)
    unit = ek.kernels.kernel_input(0, table)
    for variable in (1, 2, 3):
        unit = ek.Product([unit, ek.kernels.kernel_input(variable, table)])
    return unit


def draw(root: ek.Sum | ek.Product, ax: plt.Axes, title: str) -> None:
    graph = ek.models.to_networkx(root)
    for layer, nodes in enumerate(nx.topological_generations(graph.reverse())):
        for node in nodes:
            graph.nodes[node]["subset"] = layer
    scopes: dict[int, set[int]] = {}
    for node in reversed(list(nx.topological_sort(graph))):
        below = [scopes[child] for child in graph.successors(node)]
        scopes[node] = set().union(*below) if below else {graph.nodes[node]["variable"]}
    kinds = dict(graph.nodes(data="kind"))
    signs = {"sum": "+", "product": r"$\times$"}
    labels = {n: signs.get(kind, f"$x_{min(scopes[n]) + 1}$") for n, kind in kinds.items()}
    colours = [COLOURS[len(scopes[n])] if kinds[n] == "product" else "#dddddd" for n in graph.nodes]
    places = nx.multipartite_layout(graph)
    nx.draw_networkx(
        graph, places, ax=ax, labels=labels, node_color=colours, arrows=False, font_size=9
    )
    ax.set_title(title)
    ax.set_axis_off()


def main() -> None:
    roots = first_model(), second_model()
    p, q = (ek.Circuit.from_units(root) for root in roots)
    k = ek.KernelCircuit(kernel())
    print(f"p: {p}\nq: {q}")
    print(f"Are the models compatible?   {ek.is_compatible(p, q)}")
    print(f"Is the kernel, with both?    {ek.is_kernel_compatible(k, p, q)}")

    worlds = np.array(list(itertools.product(range(2), repeat=4)))
    weights = [np.exp(circuit.log_likelihood(worlds)) for circuit in (p, q)]
    pairs = weights[0] @ k(worlds, worlds) @ weights[1]
    print(f"\nexpected kernel              {ek.expected_kernel(p, q, k):.12f}")
    print(f"sum over {len(worlds) ** 2} pairs of worlds {pairs:.12f}")
    print(f"the same with ek.RBF         {ek.expected_kernel(p, q, ek.RBF(gamma=1.0)):.12f}")
    print(f"discrepancy                  {ek.mmd(p, q, k):.6f}")

    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    titles = ["a model", "a model that splits alike", "the kernel, split alike"]
    for root, ax, title in zip((*roots, kernel()), axes, titles, strict=True):
        draw(root, ax, title)
    figure.savefig("circuits_by_hand.png", dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
