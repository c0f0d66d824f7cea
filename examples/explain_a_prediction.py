"""
Explaining a prediction
=======================

What every measurement of a penguin says of its weight, as exact Shapley values.

A support vector machine predicts the weight of penguins. What a column contributes to one
prediction is its Shapley value: what it adds on average to the expected prediction, over all
orders in which columns become known. Columns that hang together share what they say.
"""

import matplotlib.pyplot as plt
from palmerpenguins import load_penguins

import expectedkernels as ek

table = load_penguins().dropna(subset=["body_mass_g"]).drop(columns="year")
X, y = table.drop(columns="body_mass_g"), table["body_mass_g"].astype(float)
test = X.index % 10 == 0
model = ek.ExpectedSVR(C=10.0).fit(X[~test], y[~test])

# %%
# The values of a row add up to its prediction, and columns without a value contribute nothing.

found = ek.shapley_values(model, X[test])
print(found)
print(f"\nweight of penguin {X[test].index[0]} in grams, and what it is made of:")
print(f"{'nothing known':>24}{found.base_values[0]:9.0f}")
for name, value, entry in zip(found.names, found.values[0], found.data[0], strict=True):
    print(f"{name:>24}{value:+9.0f}   ({entry})")
print(f"{'everything known':>24}{found.predictions[0]:9.0f}")

# %%
# The same as a picture.

ax = found.plot("waterfall")
ax.set_xlabel("weight in grams")
plt.show()

# %%
# Of a penguin of which nothing is known, first ask what tells most of its weight.

history = ek.acquire(model, {}, X[test].iloc[0].get, budget=3)
print("three questions about the same penguin:")
for name, prediction in zip(["(none)", *history.asked], history.predictions, strict=True):
    print(f"{name:>24}{prediction:9.0f}")
