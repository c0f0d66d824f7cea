"""
What changed last month
=======================

Test for drift between two tables of customers, and attribute it to columns.

In the last month the sales channel no longer depends on the age and the region of customers. The
marginal distribution of every column is unchanged, so comparing single columns cannot detect it.
The tables contain text, numbers and missing values, and need no preparation.
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
    missing = rng.random((n, 2)) < 0.05
    return frame.assign(
        age=frame["age"].mask(missing[:, 0]), channel=frame["channel"].mask(missing[:, 1])
    )


# %%
# Compare all pairs of six months.

rng = np.random.default_rng(0)
months = [month(1500, rng, linked=i < 5) for i in range(6)]
print(ek.monitoring.monitor(months))

# %%
# The last two months: is the difference significant, and which columns changed?

found = ek.drift(months[-2], months[-1], n_permutations=39, n_bins=5, rng=0)
print(found, end="\n\n")
print(found.frame().round(5))

# %%
# The same as a plot.

found.plot()
plt.show()

# %%
# Rows that are typical of the new month.

_, come = found.typical_rows(3)
print(months[-1].iloc[come])

# %%
# Which subgroups differ from all customers of the last month?

groups = ek.group_discrepancies(found.after, ["region", ("channel", "member")])
print(groups.frame().round(4).head())
