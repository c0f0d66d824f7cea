"""
Which mechanism changed
=======================

Attribute the change of a mean to the conditional tables of a Bayesian network.

The clinic of the ASIA network sees more patients with shortness of breath (dyspnoea) than last
year. The arcs of the network say what depends on what; 20 % of the values in both tables are
missing. Two mechanisms have changed: more of the patients smoke, and bronchitis is diagnosed more
often.
"""

import matplotlib.pyplot as plt
import numpy as np

import expectedkernels as ek


def patients(network, n, seed):
    """A table of patients with missing values."""
    table = network.sample(n, rng=seed, as_frame=True)
    return table.mask(np.random.default_rng(seed).random(table.shape) < 0.2)


# %%
# Last year, and this year.

asia = ek.asia()
after = asia.do({"smoke": [0.7, 0.3], "bronc": [[0.75, 0.25], [0.4, 0.6]]})
last_year, this_year = patients(asia, 3000, 0), patients(after, 3000, 1)

# %%
# Shapley values of all tables in the change of the probability of dyspnoea, with p-values.

options = {"target": "dysp", "values": [1, 0], "n_permutations": 99, "rng": 0}
found = ek.mechanism_change(last_year, this_year, asia, **options)
print(found, end="\n\n")
print(found.frame().round(4))

# %%
# The same as a figure: the parts sum to the change.

found.plot()
plt.show()

# %%
# The parts of the networks that the tables were sampled from.

exact = ek.mechanism_change(asia, after, target="dysp", values=[1, 0])
print(exact.frame()[["shapley"]].round(4).head(3))
