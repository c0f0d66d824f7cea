"""
Explaining a prediction
=======================

Attribute the predicted body mass of a penguin to its measurements by exact Shapley values.

A support vector regressor predicts the body mass of penguins. The Shapley value of a column is the
change of the expected prediction when the column becomes known, averaged over all orders of the
columns. Dependent columns share their contribution.
"""

import matplotlib.pyplot as plt
from palmerpenguins import load_penguins

import expectedkernels as ek

table = load_penguins().dropna(subset=["body_mass_g"]).drop(columns="year")
X, y = table.drop(columns="body_mass_g"), table["body_mass_g"].astype(float)
test = X.index % 10 == 0
model = ek.ExpectedSVR(C=10.0).fit(X[~test], y[~test])

# %%
# The base value and the Shapley values of a row sum to its prediction; missing values contribute
# zero.

found = ek.shapley_values(model, X[test])
print(found)
print(f"\nweight of penguin {X[test].index[0]} in grams, and what it is made of:")
print(f"{'nothing known':>24}{found.base_values[0]:9.0f}")
for name, value, entry in zip(found.names, found.values[0], found.data[0], strict=True):
    print(f"{name:>24}{value:+9.0f}   ({entry})")
print(f"{'everything known':>24}{found.predictions[0]:9.0f}")

# %%
# The same as a plot.

ax = found.plot("waterfall")
ax.set_xlabel("weight in grams")
plt.show()

# %%
# For a penguin without any measurement, choose the value to measure first.

history = ek.acquire(model, {}, X[test].iloc[0].get, budget=3)
print("three measurements of the same penguin:")
for name, prediction in zip(["(none)", *history.asked], history.predictions, strict=True):
    print(f"{name:>24}{prediction:9.0f}")
