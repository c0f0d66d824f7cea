"""Monitoring of data, `ek.monitoring`: many windows at once, and where discrepancies come from."""

from expectedkernels.discrepancies.attribution import ignoring, shapley_account, univariate
from expectedkernels.discrepancies.groups import Groups
from expectedkernels.estimators.drift import Drift, Monitor, monitor

__all__ = ["Drift", "Groups", "Monitor", "ignoring", "monitor", "shapley_account", "univariate"]


def __dir__() -> list[str]:
    return __all__
