"""
Ten representative patients
===========================

Select rows that represent a model by minimising their exact MMD to it.

Ten of a thousand patients of a lung clinic should represent all of them: not the ten most probable
ones, which are all alike, and not ten at random. Greedy selection among the rows minimises the
exact MMD to the model.
"""

import matplotlib.pyplot as plt
import numpy as np

import expectedkernels as ek

clinic = ek.asia()
patients = clinic.sample(1000, rng=0)
ten = ek.herd(clinic, 10, candidates=patients)
print(ten.to_frame().to_string(index=False))

# %%
# They are closer to the model than ten random patients.

circuit = clinic.circuit()
others = [float(ek.mmd(circuit, circuit.sample(10, rng=seed))) for seed in range(50)]
print(f"discrepancy of these ten {ten.mmd:.3f}, of ten at random {np.mean(others):.3f}")

# %%
# The frequency of every finding: the first state of each variable is yes.

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
