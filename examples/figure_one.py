"""Two circuits and a kernel, written down unit by unit: drawn, compared, and summed by hand.

All three split four variables in the same way: the last one goes first, then the third, and the
first two last. That is what makes the expected kernel a matter of one sweep. Here it is checked
against the sum over all pairs of states, of which there are 256.
"""

from itertools import product
from math import exp, isclose

import matplotlib.pyplot as plt
import numpy as np

import expectedkernels as ek

plt.switch_backend("Agg")


def pair(first, second):
    """A product over the first two variables, with these probabilities of ones."""
    return ek.Product([coin(0, first), coin(1, second)])


def coin(variable, one):
    return ek.Categorical(variable, [1 - one, one])


def first_circuit():
    """Mixtures at every split, which share what is below them."""
    two = [
        ek.Sum([pair(0.1, 0.8), pair(0.7, 0.3)], weights) for weights in ([0.6, 0.4], [0.2, 0.8])
    ]
    three = [ek.Product([two[0], coin(2, 0.9)]), ek.Product([two[1], coin(2, 0.2)])]
    mixed = [ek.Sum(three, weights) for weights in ([0.5, 0.5], [0.1, 0.9])]
    four = [ek.Product([mixed[0], coin(3, 0.3)]), ek.Product([mixed[1], coin(3, 0.6)])]
    return ek.Sum(four, [0.75, 0.25])


def second_circuit():
    """Fewer units, and the same splits."""
    two = ek.Sum([pair(0.5, 0.5), pair(0.9, 0.9)], [0.3, 0.7])
    three = [ek.Product([two, coin(2, 0.4)]), ek.Product([pair(0.2, 0.6), coin(2, 0.7)])]
    return ek.Product([ek.Sum(three, [0.35, 0.65]), coin(3, 0.5)])


def kernel_circuit():
    """An RBF kernel: one product of four kernels, taken apart where the circuits split."""
    apart = [[exp(-((a - b) ** 2)) for b in (0, 1)] for a in (0, 1)]
    inputs = [ek.kernels.kernel_input(v, apart) for v in range(4)]
    two = ek.Sum([ek.Product(inputs[:2])], [1.0])
    three = ek.Sum([ek.Product([two, inputs[2]])], [1.0])
    return ek.Product([three, inputs[3]])


p, q, k = first_circuit(), second_circuit(), kernel_circuit()

figure, axes = plt.subplots(1, 3, figsize=(13, 6), layout="constrained")
for ax, drawn, title in zip(axes, (p, q, k), ("p", "q", "k"), strict=True):
    ek.plotting.plot_circuit(drawn, ax=ax)
    ax.set_title(title, loc="left")
figure.savefig("figure_one.svg")
plt.close(figure)
print("Drawn to figure_one.svg")

print("p and q are compatible:", ek.is_compatible(p, q))
kernel = ek.KernelCircuit(k)
print("k fits both:", ek.is_kernel_compatible(kernel, p, q))
assert ek.is_compatible(p, q)
assert ek.is_kernel_compatible(kernel, p, q)

found = ek.expected_kernel(p, q, kernel)
states = np.array(list(product((0, 1), repeat=4)))
at_p, at_q = (np.exp(circuit.log_likelihood(states)) for circuit in (p, q))
summed = sum(
    at_p[i] * at_q[j] * exp(-((x - y) ** 2).sum())
    for i, x in enumerate(states)
    for j, y in enumerate(states)
)
print(f"E[k(x, x')] = {found:.12f} in one sweep, and {summed:.12f} as a sum over pairs of states")
assert isclose(found, summed, rel_tol=1e-12)
assert isclose(found, ek.expected_kernel(p, q, ek.RBF(1.0)), rel_tol=1e-12)
