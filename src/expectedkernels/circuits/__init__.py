"""Circuits: what they are and what they answer."""

from expectedkernels.circuits.algebra import (
    linear_combination,
    multiply,
    power,
    quotient,
    reciprocal,
    shift,
)
from expectedkernels.circuits.alignment import align
from expectedkernels.circuits.build import (
    factorized,
    gaussian_mixture,
    hmm,
    mixture,
    random_circuit,
    stack,
)
from expectedkernels.circuits.circuit import Circuit
from expectedkernels.circuits.marginalization import marginalize
from expectedkernels.circuits.properties import is_compatible, properties
from expectedkernels.circuits.units import Categorical, Gaussian, Indicator, Product, Sum

__all__ = [
    "Categorical",
    "Circuit",
    "Gaussian",
    "Indicator",
    "Product",
    "Sum",
    "align",
    "factorized",
    "gaussian_mixture",
    "hmm",
    "is_compatible",
    "linear_combination",
    "marginalize",
    "mixture",
    "multiply",
    "power",
    "properties",
    "quotient",
    "random_circuit",
    "reciprocal",
    "shift",
    "stack",
]
