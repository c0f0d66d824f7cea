"""What searches over parameters need again and again: densities, means of rows, expected kernels.

They do not depend on how much errors count, so that a `joblib.Memory` may keep them from one fit to
the next, also for other processes. What they depend on is told by a key, which stands for the
density wherever it is given with one.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

import joblib
import numpy as np
from sklearn.utils.validation import check_memory

from expectedkernels.estimators.densities import learn_density
from expectedkernels.estimators.expansion import kernels_between
from expectedkernels.estimators.resources import Resources

IGNORED = ("recipe", "density", "resources")
"""Arguments that the key stands for, or that do not change what is found."""


def key_of(memory: Any, recipe: dict[str, Any]) -> str | None:
    """What stands for the density of a recipe; None if nothing is to be kept.

    Objects that learn a circuit may do so in another way each time: theirs are not kept.

    Examples
    --------
    >>> key_of(None, {"density": "gaussian"}) is None
    True
    >>> len(key_of("folder", {"density": "gaussian"}))
    32
    """
    if memory is None or hasattr(recipe["density"], "fit"):
        return None
    found: str = joblib.hash(recipe)
    return found


def kept(memory: Any, key: str | None, function: Any, **given: Any) -> Any:
    """What a function of this module gives, from memory if it was asked before."""
    if key is None:
        return function(key=key, **given)
    memory = check_memory(fspath(memory) if isinstance(memory, PathLike) else memory)
    ignored = [name for name in IGNORED if name in given]
    # strides count in keys, and in last digits
    arrays = {k: np.ascontiguousarray(x) for k, x in given.items() if isinstance(x, np.ndarray)}
    return memory.cache(function, ignore=ignored)(key=key, **(given | arrays))


def learned(key: Any, recipe: dict[str, Any]) -> Any:
    """The density of a recipe: the arguments of `learn_density`, with a seed."""
    rest = {name: value for name, value in recipe.items() if name != "seed"}
    return learn_density(**rest, rng=np.random.default_rng(recipe["seed"]))


def means(key: Any, density: Any, Z: Any) -> Any:
    """The rows with the expected values of what is missing."""
    return density.means(Z)


def gram(key: Any, density: Any, rates: Any, A: Any, B: Any, resources: Resources) -> Any:
    """The expected kernels between rows, (rows of A, rows of B); B is A by default."""
    return kernels_between(density, rates, A, A if B is None else B, resources)
