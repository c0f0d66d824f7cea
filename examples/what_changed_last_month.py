"""
What changed last month
=======================

Customers before and after, as a sentence, a table and a picture.

In the last month the channel no longer depends on the age and the region of customers. Every
column for itself is as it was, so no comparison of columns one by one can see it. Some
entries are missing, columns hold text and real numbers, and nothing has to be prepared.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import expectedkernels as ek


def month(n, rng, linked=True):
    """Customers of one month; their channel depends on who they are, or not."""
    age = rng.normal(45, 14, n).clip(18, 90)
    region = rng.choice(["north", "south", "west"], n, p=[0.5, 0.2, 0.3])
    share = np.where(age < 45, 0.9, 0.3) * np.where(region == "west", 0.4, 1.0)
    online = rng.random(n) < share
    if not linked:
        online = rng.permutation(online)
    spent = rng.lognormal(3.0 + 0.01 * age, 0.5)
    member = rng.random(n) < 0.2 + 0.4 * (spent > 35)
    frame = pd.DataFrame({"age": age, "spent": spent, "member": member, "region": region})
    frame["channel"] = np.where(online, "online", "shop")
    holes = rng.random((n, 2)) < 0.05
    return frame.assign(
        age=frame["age"].mask(holes[:, 0]), channel=frame["channel"].mask(holes[:, 1])
    )


# %%
# Six months, each compared with all others.

rng = np.random.default_rng(0)
months = [month(1500, rng, linked=i < 5) for i in range(6)]
print(ek.monitoring.monitor(months))

# %%
# The last two: is the difference beyond chance, and which columns is it about?

found = ek.drift(months[-2], months[-1], n_permutations=39, n_bins=5, rng=0)
print(found, end="\n\n")
print(found.frame().round(5))

# %%
# The same as a picture.

found.plot()
plt.show()

# %%
# Rows that are most typical of what is new.

_, come = found.typical_rows(3)
print(months[-1].iloc[come])

# %%
# Who differs from all customers of the last month?

groups = ek.group_discrepancies(found.after, ["region", ("channel", "member")])
print(groups.frame().round(4).head())
