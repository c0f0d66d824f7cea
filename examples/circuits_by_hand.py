"""
Circuits by hand
================

Build two circuits and a kernel over four binary variables, plot and compare them.

All three decompose their variables in the same way, as the circuits in Figure 1 of the paper do.
The expected kernel therefore takes one pass over the units. The script compares it with the sum
over all pairs of states.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np

import expectedkernels as ek


def bit(variable, probability):
    """A variable that is one with this probability."""
    return ek.Categorical(variable, [1 - probability, probability])


# %%
# A circuit consists of inputs (distributions of one variable), products of units over different
# variables, and weighted sums of units over the same variables. Units may be shared: ``alike`` and
# ``other`` are each an input of two sums.

alike = ek.Product([bit(0, 0.9), bit(1, 0.8)])
other = ek.Product([bit(0, 0.2), bit(1, 0.3)])
mostly, rarely = ek.Sum([alike, other], [0.7, 0.3]), ek.Sum([alike, other], [0.1, 0.9])
up, down = ek.Product([mostly, bit(2, 0.6)]), ek.Product([rarely, bit(2, 0.1)])
left, right = ek.Sum([up, down], [0.5, 0.5]), ek.Sum([up, down], [0.2, 0.8])
ends = [ek.Product([left, bit(3, 0.3)]), ek.Product([right, bit(3, 0.9)])]
p = ek.Circuit.from_units(ek.Sum(ends, [0.6, 0.4]))

pairs = [ek.Product([bit(0, a), bit(1, b)]) for a, b in [(0.5, 0.5), (0.1, 0.7)]]
triple = ek.Product([ek.Sum(pairs, [0.4, 0.6]), bit(2, 0.5)])
q = ek.Circuit.from_units(ek.Product([triple, bit(3, 0.2)]))
print(f"p: {p}\nq: {q}")

# %%
# The Gaussian kernel is a product of four univariate kernels, so it decomposes in any way; here it
# has the decomposition of the models.

table = np.exp(-1.0 * (np.arange(2)[:, None] - np.arange(2)) ** 2.0)
unit = ek.kernels.kernel_input(0, table)
for variable in (1, 2, 3):
    unit = ek.Product([unit, ek.kernels.kernel_input(variable, table)])
k = ek.KernelCircuit(unit)

print(f"Do the models split alike?  {ek.is_compatible(p, q)}")
print(f"And the kernel?             {ek.is_kernel_compatible(k, p, q)}")

# %%
# The expected kernel in one pass, and by enumeration of all pairs of states.

states = np.array(list(itertools.product(range(2), repeat=4)))
at_p, at_q = (np.exp(circuit.log_likelihood(states)) for circuit in (p, q))
print(f"expected kernel                {ek.expected_kernel(p, q, k):.12f}")
print(f"the same with ek.RBF           {ek.expected_kernel(p, q, ek.RBF(gamma=1.0)):.12f}")
print(f"sum over {len(states) ** 2} pairs of states   {at_p @ k(states, states) @ at_q:.12f}")
print(f"discrepancy of the models      {ek.mmd(p, q, k):.6f}")

# %%
# Plot p, q and the kernel.

figure, axes = plt.subplots(1, 3, figsize=(12, 5.5), layout="constrained")
for ax, drawn, title in zip(axes, (p, q, unit), ("p", "q", "the kernel"), strict=True):
    ek.plotting.plot_circuit(drawn, ax=ax)
    ax.set_title(title, loc="left")
plt.show()
