"""
Ten patients that stand for all
===============================

Rows of data are chosen so that their discrepancy from a model is small.

A doctor wants to see ten patients of a lung clinic, not a thousand, and they should show how the
clinic is: not the ten most usual, which are all alike, and not ten at random. They are chosen among
real rows, one after the other, so that their exact discrepancy from the model becomes small.
"""

import matplotlib.pyplot as plt
import numpy as np

import expectedkernels as ek

clinic = ek.asia()
patients = clinic.sample(1000, rng=0)
ten = ek.herd(clinic, 10, candidates=patients)
print(ten.to_frame().to_string(index=False))

# %%
# They are closer to the clinic than ten at random are.

circuit = clinic.circuit()
others = [float(ek.mmd(circuit, circuit.sample(10, rng=seed))) for seed in range(50)]
print(f"discrepancy of these ten {ten.mmd:.3f}, of ten at random {np.mean(others):.3f}")

# %%
# How often every finding occurs: the first state of each variable is yes.

share = ten.weights @ (ten.X == 0)
exact = np.array([table[0] for table in clinic.marginals()])
print(f"{'share of yes':16}{'clinic':>8}{'the ten':>9}")
for name, all_of_them, few in zip(clinic.names, exact, share, strict=True):
    print(f"{name:16}{all_of_them:8.2f}{few:9.2f}")

places = np.arange(len(exact))
figure, ax = plt.subplots()
ax.bar(places - 0.2, exact, 0.4, label="the clinic")
ax.bar(places + 0.2, share, 0.4, label="the ten")
ax.set_xticks(places, clinic.names)
ax.set_ylabel("share of yes")
ax.legend()
plt.show()
