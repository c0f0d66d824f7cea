"""Exact expectations of kernels under probabilistic circuits."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from expectedkernels.circuits.properties import is_compatible, properties
from expectedkernels.circuits.units import Categorical, Gaussian, Indicator, Product, Sum
from expectedkernels.discrepancies.mmd import mmd, mmd2, witness
from expectedkernels.errors import (
    CircuitError,
    CompatibilityError,
    DataError,
    EvidenceError,
    KernelError,
    ParseError,
    PropertyError,
    SizeError,
    VtreeError,
)
from expectedkernels.expectation import (
    Empirical,
    expected_kernel,
    monte_carlo_expected_kernel,
)
from expectedkernels.explain import explain
from expectedkernels.kernels.circuit import KernelCircuit, is_kernel_compatible, kernel_input
from expectedkernels.kernels.defaults import median_gamma
from expectedkernels.kernels.kernel import Kernel
from expectedkernels.kernels.library import RBF, Delta, ExpHamming, Laplacian, TableKernel
from expectedkernels.verdict import Verdict
from expectedkernels.vtree import Vtree

if TYPE_CHECKING:
    from expectedkernels.circuits.algebra import (
        linear_combination,
        multiply,
        power,
        quotient,
        reciprocal,
        shift,
    )
    from expectedkernels.circuits.marginalization import marginalize
    from expectedkernels.compilation.bayesian import BayesianNetwork
    from expectedkernels.compilation.conditionals import CollapsedModel
    from expectedkernels.compilation.factors import Factor, FactorGraph
    from expectedkernels.compilation.models import asia, ising_grid
    from expectedkernels.compilation.others import as_model, to_pgmpy, to_pyagrum
    from expectedkernels.compilation.vtrees import (
        bisection_vtree,
        conditioning_vtree,
        elimination_vtree,
        min_fill_order,
    )
    from expectedkernels.discrepancies.collapsed import CollapsedSteinKernel
    from expectedkernels.discrepancies.goodness import GoodnessOfFit, kdsd_test
    from expectedkernels.discrepancies.kdsd import kdsd
    from expectedkernels.estimators import (
        CircuitImputer,
        ExpectedGaussianProcessRegressor,
        ExpectedKernelFeatures,
        ExpectedKernelRidge,
        ExpectedSVC,
        ExpectedSVR,
        expected_prediction,
    )
    from expectedkernels.io import (
        compile_file,
        load,
        read_bif,
        read_jpc,
        read_model,
        read_psdd,
        read_spn,
        read_table,
        read_uai,
        read_uai_evidence,
        read_vtree,
        read_xmlbif,
        save,
        write_bif,
        write_jpc,
        write_psdd,
        write_spn,
        write_uai,
        write_uai_evidence,
        write_vtree,
        write_xmlbif,
    )
    from expectedkernels.kernels.stein import SteinKernel, is_strictly_positive_definite
    from expectedkernels.kernels.target import Target
    from expectedkernels.learning.chow_liu import learn_chow_liu
    from expectedkernels.learning.em import em
    from expectedkernels.learning.mixtures import learn_mixture
    from expectedkernels.learning.strudel import learn_strudel
    from expectedkernels.sampling.bbis import bbis, collapsed_bbis
    from expectedkernels.sampling.cis import cis
    from expectedkernels.sampling.gibbs import collapsed_gibbs, gibbs, irreducible
    from expectedkernels.sampling.partition import PartitionSteinKernel
    from expectedkernels.sampling.reducible import ReducibleWarning
    from expectedkernels.sampling.samples import WeightedSamples
    from expectedkernels.sampling.shrinkage import default_weights
    from expectedkernels.sampling.stein_samples import SteinSamples
    from expectedkernels.sampling.weights import signed_weights, simplex_weights, smoothed_weights
    from expectedkernels.sampling.zeros import determined_variables

__version__ = "0.1.0"

# Names of the outer layers are imported when they are first used, so that starting up stays quick.
_LATER = {
    "CircuitImputer": "expectedkernels.estimators",
    "ExpectedGaussianProcessRegressor": "expectedkernels.estimators",
    "ExpectedKernelFeatures": "expectedkernels.estimators",
    "ExpectedKernelRidge": "expectedkernels.estimators",
    "ExpectedSVC": "expectedkernels.estimators",
    "ExpectedSVR": "expectedkernels.estimators",
    "expected_prediction": "expectedkernels.estimators",
    "linear_combination": "expectedkernels.circuits.algebra",
    "multiply": "expectedkernels.circuits.algebra",
    "power": "expectedkernels.circuits.algebra",
    "quotient": "expectedkernels.circuits.algebra",
    "reciprocal": "expectedkernels.circuits.algebra",
    "shift": "expectedkernels.circuits.algebra",
    "marginalize": "expectedkernels.circuits.marginalization",
    "BayesianNetwork": "expectedkernels.compilation.bayesian",
    "CollapsedModel": "expectedkernels.compilation.conditionals",
    "Factor": "expectedkernels.compilation.factors",
    "FactorGraph": "expectedkernels.compilation.factors",
    "asia": "expectedkernels.compilation.models",
    "ising_grid": "expectedkernels.compilation.models",
    "as_model": "expectedkernels.compilation.others",
    "to_pgmpy": "expectedkernels.compilation.others",
    "to_pyagrum": "expectedkernels.compilation.others",
    "bisection_vtree": "expectedkernels.compilation.vtrees",
    "conditioning_vtree": "expectedkernels.compilation.vtrees",
    "elimination_vtree": "expectedkernels.compilation.vtrees",
    "min_fill_order": "expectedkernels.compilation.vtrees",
    "compile_file": "expectedkernels.io",
    "load": "expectedkernels.io",
    "read_bif": "expectedkernels.io",
    "read_jpc": "expectedkernels.io",
    "read_model": "expectedkernels.io",
    "read_psdd": "expectedkernels.io",
    "read_spn": "expectedkernels.io",
    "read_table": "expectedkernels.io",
    "read_uai": "expectedkernels.io",
    "read_uai_evidence": "expectedkernels.io",
    "read_vtree": "expectedkernels.io",
    "read_xmlbif": "expectedkernels.io",
    "save": "expectedkernels.io",
    "write_bif": "expectedkernels.io",
    "write_jpc": "expectedkernels.io",
    "write_psdd": "expectedkernels.io",
    "write_spn": "expectedkernels.io",
    "write_uai": "expectedkernels.io",
    "write_uai_evidence": "expectedkernels.io",
    "write_vtree": "expectedkernels.io",
    "write_xmlbif": "expectedkernels.io",
    "learn_chow_liu": "expectedkernels.learning.chow_liu",
    "em": "expectedkernels.learning.em",
    "learn_mixture": "expectedkernels.learning.mixtures",
    "learn_strudel": "expectedkernels.learning.strudel",
    "kdsd": "expectedkernels.discrepancies.kdsd",
    "kdsd_test": "expectedkernels.discrepancies.goodness",
    "GoodnessOfFit": "expectedkernels.discrepancies.goodness",
    "CollapsedSteinKernel": "expectedkernels.discrepancies.collapsed",
    "SteinKernel": "expectedkernels.kernels.stein",
    "Target": "expectedkernels.kernels.target",
    "is_strictly_positive_definite": "expectedkernels.kernels.stein",
    "gibbs": "expectedkernels.sampling.gibbs",
    "collapsed_gibbs": "expectedkernels.sampling.gibbs",
    "irreducible": "expectedkernels.sampling.gibbs",
    "ReducibleWarning": "expectedkernels.sampling.reducible",
    "WeightedSamples": "expectedkernels.sampling.samples",
    "cis": "expectedkernels.sampling.cis",
    "bbis": "expectedkernels.sampling.bbis",
    "collapsed_bbis": "expectedkernels.sampling.bbis",
    "SteinSamples": "expectedkernels.sampling.stein_samples",
    "determined_variables": "expectedkernels.sampling.zeros",
    "default_weights": "expectedkernels.sampling.shrinkage",
    "simplex_weights": "expectedkernels.sampling.weights",
    "signed_weights": "expectedkernels.sampling.weights",
    "smoothed_weights": "expectedkernels.sampling.weights",
    "PartitionSteinKernel": "expectedkernels.sampling.partition",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'expectedkernels' has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "RBF",
    "BayesianNetwork",
    "Categorical",
    "Circuit",
    "CircuitError",
    "CircuitImputer",
    "CollapsedModel",
    "CollapsedSteinKernel",
    "CompatibilityError",
    "DataError",
    "Delta",
    "Empirical",
    "EvidenceError",
    "ExpHamming",
    "ExpectedGaussianProcessRegressor",
    "ExpectedKernelFeatures",
    "ExpectedKernelRidge",
    "ExpectedSVC",
    "ExpectedSVR",
    "Factor",
    "FactorGraph",
    "Gaussian",
    "GoodnessOfFit",
    "Indicator",
    "Kernel",
    "KernelCircuit",
    "KernelError",
    "Laplacian",
    "ParseError",
    "PartitionSteinKernel",
    "Product",
    "PropertyError",
    "ReducibleWarning",
    "SizeError",
    "SteinKernel",
    "SteinSamples",
    "Sum",
    "TableKernel",
    "Target",
    "Verdict",
    "Vtree",
    "VtreeError",
    "WeightedSamples",
    "align",
    "as_model",
    "asia",
    "bbis",
    "bisection_vtree",
    "cis",
    "collapsed_bbis",
    "collapsed_gibbs",
    "compile_file",
    "conditioning_vtree",
    "default_weights",
    "determined_variables",
    "elimination_vtree",
    "em",
    "expected_kernel",
    "expected_prediction",
    "explain",
    "factorized",
    "gaussian_mixture",
    "gibbs",
    "hmm",
    "irreducible",
    "is_compatible",
    "is_kernel_compatible",
    "is_strictly_positive_definite",
    "ising_grid",
    "kdsd",
    "kdsd_test",
    "kernel_input",
    "learn_chow_liu",
    "learn_mixture",
    "learn_strudel",
    "linear_combination",
    "load",
    "marginalize",
    "median_gamma",
    "min_fill_order",
    "mixture",
    "mmd",
    "mmd2",
    "monte_carlo_expected_kernel",
    "multiply",
    "power",
    "properties",
    "quotient",
    "random_circuit",
    "read_bif",
    "read_jpc",
    "read_model",
    "read_psdd",
    "read_spn",
    "read_table",
    "read_uai",
    "read_uai_evidence",
    "read_vtree",
    "read_xmlbif",
    "reciprocal",
    "save",
    "shift",
    "signed_weights",
    "simplex_weights",
    "smoothed_weights",
    "stack",
    "to_pgmpy",
    "to_pyagrum",
    "witness",
    "write_bif",
    "write_jpc",
    "write_psdd",
    "write_spn",
    "write_uai",
    "write_uai_evidence",
    "write_vtree",
    "write_xmlbif",
]
