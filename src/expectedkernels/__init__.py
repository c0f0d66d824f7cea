"""Exact expectations of kernels under probabilistic circuits."""

import sys as _sys
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import Any as _Any

__version__ = "0.2.0"

_MODULES = {
    "checks": (
        "CircuitError CompatibilityError DataError EvidenceError KernelError ParseError "
        "PropertyError SizeError Verdict VtreeError"
    ),
    "circuits.build": "factorized gaussian_mixture hmm mixture random_circuit",
    "circuits.circuit": "Circuit",
    "circuits.graph": "Categorical Gaussian Indicator Product Sum",
    "circuits.properties": "is_compatible properties",
    "data.chunks": "over_chunks",
    "datasets": "asia ising_grid",
    "discrepancies.choose_kernel": "choose_kernel",
    "discrepancies.hypothesis_tests": (
        "GoodnessOfFit kdsd_test mmd_compare mmd_compare_all mmd_test mmd_two_sample_test"
    ),
    "discrepancies.independence": "conditional_two_sample_test independence_test",
    "discrepancies.mechanisms": "Effect MechanismChange effect mechanism_change",
    "discrepancies.mmd": "mmd mmd2 witness",
    "discrepancies.quadrature": "HerdedPoints herd quadrature",
    "estimators.explanation": "ShapleyValues acquire acquisition_gain shapley_values",
    "estimators.imputation": "CircuitImputer ExpectedKernelFeatures",
    "estimators.kernel_models": (
        "ExpectedGaussianProcessRegressor ExpectedKernelClassifier ExpectedKernelRidge "
        "ExpectedSVC ExpectedSVR"
    ),
    "estimators.prediction": "expected_prediction",
    "expectation": "expected_kernel explain monte_carlo_expected_kernel",
    "io": (
        "load read_bif read_jpc read_psdd read_uai read_uai_evidence read_vtree save write_jpc "
        "write_psdd write_uai write_vtree"
    ),
    "kernels": (
        "Delta ExpHamming Kernel KernelCircuit Laplacian RBF TableKernel is_kernel_compatible "
        "median_gamma"
    ),
    "kernels.empirical": "Empirical",
    "kernels.target": "Target",
    "learning.chow_liu": "learn_chow_liu learn_hclt",
    "learning.em": "em",
    "learning.fit_mmd": "fit_mmd",
    "learning.network_tables": "learn_tables",
    "learning.strudel": "learn_mixture learn_strudel",
    "models": "BayesianNetwork Factor FactorGraph as_model",
    "monitoring": "drift group_discrepancies",
    "sampling.gibbs": "ReducibleWarning collapsed_gibbs gibbs",
    "stein": "CollapsedSteinKernel SteinKernel simplex_weights",
    "stein.bbis": "bbis collapsed_bbis stein_thin",
    "stein.bridge": "log_partition_estimate",
    "stein.cis": "cis",
    "stein.stein_kernel": "kdsd",
    "stein.weighted_samples": "WeightedSamples",
    "vtree": "Vtree",
}
"""The public names of every module, imported when they are first used."""
_NAMESPACES = {
    "algebra": (
        "linear_combination logarithm marginalize multiply nonnegative power quotient "
        "reciprocal shift square stack"
    ),
    "datasets": "",
    "divergences": "cross_entropy entropy kl_divergence power_divergence renyi_divergence",
    "io": "compile_file read_model read_spn read_table write_bif write_spn write_uai_evidence",
    "kernels": "kernel_input",
    "models": (
        "CollapsedModel from_cirkit from_spflow to_cirkit to_networkx to_pgmpy to_pyagrum to_spflow"
    ),
    "monitoring": (
        "Drift Groups Monitor SequentialTest ignoring monitor shapley_account univariate"
    ),
    "plotting": "plot plot_circuit plot_gram plot_intervals plot_model plot_vtree plot_witness",
    "reports": "write_report",
    "stein": (
        "IMQ LangevinSteinKernel PartitionSteinKernel SteinSamples default_weights "
        "determined_variables irreducible is_strictly_positive_definite signed_weights "
        "smoothed_weights"
    ),
    "vtrees": "align bisection_vtree conditioning_vtree elimination_vtree min_fill_order",
}
"""The namespaces, modules of the same name, with what is public there only."""

_OLD_MODULES = (
    "circuits.base circuits.evidence circuits.marginals circuits.schema circuits.units "
    "compilation.bayesian compilation.conditionals compilation.factor compilation.factors "
    "compilation.messages compilation.orders compilation.plan compilation.tables "
    "compilation.tensors discrepancies.collapsed discrepancies.outcomes errors "
    "estimators.averages estimators.circuits estimators.classifiers estimators.columns "
    "estimators.expansion estimators.features estimators.imputer estimators.intervals "
    "estimators.least_squares estimators.machines estimators.masks estimators.normals "
    "estimators.processes estimators.regressors estimators.scaling estimators.variables "
    "kernels.circuit kernels.library kernels.rows kernels.stein sampling.partition "
    "sampling.samples sampling.stein_samples verdict"
)
"""Modules of version 0.2.0 that pickles name."""
_OLD_CLASSES = (
    "models.messages models.compiler models.factor_graph circuits.circuit "
    "circuits.queries data.evidence data.schema kernels.kernel stein.bbis stein.stein_kernel vtrees"
)
"""Where their classes are now, if they are not public: the first of these that has the name."""

_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted({*_HOMES, *_NAMESPACES})


def __getattr__(name: str) -> _Any:
    if name in _NAMESPACES:
        return _import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        homes = [space for space, names in _NAMESPACES.items() if name in names.split()]
        raise AttributeError(f"{message}: {name} is now ek.{homes[0]}.{name}" if homes else message)
    value = globals()[name] = getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _OldModule(_ModuleType):
    """A module of version 0.2.0, for its pickles: looks its classes up where they are now."""

    def __getattr__(self, name: str) -> _Any:
        if name.startswith("__"):
            raise AttributeError(name)
        name = {"Scaled": "ScaledTable", "Tensors": "CliqueTree"}.get(name, name)
        for home in [_HOMES[name]] if name in _HOMES else _OLD_CLASSES.split():
            if found := getattr(_import_module(f"{__name__}.{home}"), name, None):
                return found
        raise ImportError(
            f"A file of expectedkernels 0.2.0 needs {self.__name__}.{name}, which version "
            f"{__version__} does not have. Load it with 0.2.0, and save circuits as .npz files "
            "and estimators as .skops files."
        )


for _name in _OLD_MODULES.split():
    _sys.modules[f"{__name__}.{_name}"] = _OldModule(f"{__name__}.{_name}")
