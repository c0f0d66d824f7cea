"""The public names, each with the module it lives in: the one list of them."""

from expectedkernels.circuits.algebra import (
    linear_combination as linear_combination,
)
from expectedkernels.circuits.algebra import (
    multiply as multiply,
)
from expectedkernels.circuits.algebra import (
    power as power,
)
from expectedkernels.circuits.algebra import (
    quotient as quotient,
)
from expectedkernels.circuits.algebra import (
    reciprocal as reciprocal,
)
from expectedkernels.circuits.algebra import (
    shift as shift,
)
from expectedkernels.circuits.alignment import (
    align as align,
)
from expectedkernels.circuits.build import (
    factorized as factorized,
)
from expectedkernels.circuits.build import (
    gaussian_mixture as gaussian_mixture,
)
from expectedkernels.circuits.build import (
    hmm as hmm,
)
from expectedkernels.circuits.build import (
    mixture as mixture,
)
from expectedkernels.circuits.build import (
    random_circuit as random_circuit,
)
from expectedkernels.circuits.build import (
    stack as stack,
)
from expectedkernels.circuits.circuit import (
    Circuit as Circuit,
)
from expectedkernels.circuits.marginalization import (
    marginalize as marginalize,
)
from expectedkernels.circuits.properties import (
    is_compatible as is_compatible,
)
from expectedkernels.circuits.properties import (
    properties as properties,
)
from expectedkernels.circuits.units import (
    Categorical as Categorical,
)
from expectedkernels.circuits.units import (
    Gaussian as Gaussian,
)
from expectedkernels.circuits.units import (
    Indicator as Indicator,
)
from expectedkernels.circuits.units import (
    Product as Product,
)
from expectedkernels.circuits.units import (
    Sum as Sum,
)
from expectedkernels.compilation.bayesian import (
    BayesianNetwork as BayesianNetwork,
)
from expectedkernels.compilation.conditionals import (
    CollapsedModel as CollapsedModel,
)
from expectedkernels.compilation.factors import (
    Factor as Factor,
)
from expectedkernels.compilation.factors import (
    FactorGraph as FactorGraph,
)
from expectedkernels.compilation.models import (
    asia as asia,
)
from expectedkernels.compilation.models import (
    ising_grid as ising_grid,
)
from expectedkernels.compilation.others import (
    as_model as as_model,
)
from expectedkernels.compilation.others import (
    to_pgmpy as to_pgmpy,
)
from expectedkernels.compilation.others import (
    to_pyagrum as to_pyagrum,
)
from expectedkernels.compilation.vtrees import (
    bisection_vtree as bisection_vtree,
)
from expectedkernels.compilation.vtrees import (
    conditioning_vtree as conditioning_vtree,
)
from expectedkernels.compilation.vtrees import (
    elimination_vtree as elimination_vtree,
)
from expectedkernels.compilation.vtrees import (
    min_fill_order as min_fill_order,
)
from expectedkernels.discrepancies.collapsed import (
    CollapsedSteinKernel as CollapsedSteinKernel,
)
from expectedkernels.discrepancies.goodness import (
    GoodnessOfFit as GoodnessOfFit,
)
from expectedkernels.discrepancies.goodness import (
    kdsd_test as kdsd_test,
)
from expectedkernels.discrepancies.kdsd import (
    kdsd as kdsd,
)
from expectedkernels.discrepancies.mmd import (
    mmd as mmd,
)
from expectedkernels.discrepancies.mmd import (
    mmd2 as mmd2,
)
from expectedkernels.discrepancies.mmd import (
    witness as witness,
)
from expectedkernels.errors import (
    CircuitError as CircuitError,
)
from expectedkernels.errors import (
    CompatibilityError as CompatibilityError,
)
from expectedkernels.errors import (
    DataError as DataError,
)
from expectedkernels.errors import (
    EvidenceError as EvidenceError,
)
from expectedkernels.errors import (
    KernelError as KernelError,
)
from expectedkernels.errors import (
    ParseError as ParseError,
)
from expectedkernels.errors import (
    PropertyError as PropertyError,
)
from expectedkernels.errors import (
    SizeError as SizeError,
)
from expectedkernels.errors import (
    VtreeError as VtreeError,
)
from expectedkernels.estimators import (
    CircuitImputer as CircuitImputer,
)
from expectedkernels.estimators import (
    ExpectedGaussianProcessRegressor as ExpectedGaussianProcessRegressor,
)
from expectedkernels.estimators import (
    ExpectedKernelFeatures as ExpectedKernelFeatures,
)
from expectedkernels.estimators import (
    ExpectedKernelRidge as ExpectedKernelRidge,
)
from expectedkernels.estimators import (
    ExpectedSVC as ExpectedSVC,
)
from expectedkernels.estimators import (
    ExpectedSVR as ExpectedSVR,
)
from expectedkernels.estimators import (
    expected_prediction as expected_prediction,
)
from expectedkernels.expectation import (
    Empirical as Empirical,
)
from expectedkernels.expectation import (
    expected_kernel as expected_kernel,
)
from expectedkernels.expectation import (
    monte_carlo_expected_kernel as monte_carlo_expected_kernel,
)
from expectedkernels.explanation import (
    explain as explain,
)
from expectedkernels.io import (
    compile_file as compile_file,
)
from expectedkernels.io import (
    load as load,
)
from expectedkernels.io import (
    read_bif as read_bif,
)
from expectedkernels.io import (
    read_jpc as read_jpc,
)
from expectedkernels.io import (
    read_model as read_model,
)
from expectedkernels.io import (
    read_psdd as read_psdd,
)
from expectedkernels.io import (
    read_spn as read_spn,
)
from expectedkernels.io import (
    read_table as read_table,
)
from expectedkernels.io import (
    read_uai as read_uai,
)
from expectedkernels.io import (
    read_uai_evidence as read_uai_evidence,
)
from expectedkernels.io import (
    read_vtree as read_vtree,
)
from expectedkernels.io import (
    read_xmlbif as read_xmlbif,
)
from expectedkernels.io import (
    save as save,
)
from expectedkernels.io import (
    write_bif as write_bif,
)
from expectedkernels.io import (
    write_jpc as write_jpc,
)
from expectedkernels.io import (
    write_psdd as write_psdd,
)
from expectedkernels.io import (
    write_spn as write_spn,
)
from expectedkernels.io import (
    write_uai as write_uai,
)
from expectedkernels.io import (
    write_uai_evidence as write_uai_evidence,
)
from expectedkernels.io import (
    write_vtree as write_vtree,
)
from expectedkernels.io import (
    write_xmlbif as write_xmlbif,
)
from expectedkernels.kernels.circuit import (
    KernelCircuit as KernelCircuit,
)
from expectedkernels.kernels.circuit import (
    is_kernel_compatible as is_kernel_compatible,
)
from expectedkernels.kernels.circuit import (
    kernel_input as kernel_input,
)
from expectedkernels.kernels.defaults import (
    median_gamma as median_gamma,
)
from expectedkernels.kernels.kernel import (
    Kernel as Kernel,
)
from expectedkernels.kernels.library import (
    RBF as RBF,
)
from expectedkernels.kernels.library import (
    Delta as Delta,
)
from expectedkernels.kernels.library import (
    ExpHamming as ExpHamming,
)
from expectedkernels.kernels.library import (
    Laplacian as Laplacian,
)
from expectedkernels.kernels.library import (
    TableKernel as TableKernel,
)
from expectedkernels.kernels.stein import (
    SteinKernel as SteinKernel,
)
from expectedkernels.kernels.stein import (
    is_strictly_positive_definite as is_strictly_positive_definite,
)
from expectedkernels.kernels.target import (
    Target as Target,
)
from expectedkernels.learning.chow_liu import (
    learn_chow_liu as learn_chow_liu,
)
from expectedkernels.learning.em import (
    em as em,
)
from expectedkernels.learning.mixtures import (
    learn_mixture as learn_mixture,
)
from expectedkernels.learning.strudel import (
    learn_strudel as learn_strudel,
)
from expectedkernels.sampling.bbis import (
    bbis as bbis,
)
from expectedkernels.sampling.bbis import (
    collapsed_bbis as collapsed_bbis,
)
from expectedkernels.sampling.cis import (
    cis as cis,
)
from expectedkernels.sampling.gibbs import (
    collapsed_gibbs as collapsed_gibbs,
)
from expectedkernels.sampling.gibbs import (
    gibbs as gibbs,
)
from expectedkernels.sampling.gibbs import (
    irreducible as irreducible,
)
from expectedkernels.sampling.partition import (
    PartitionSteinKernel as PartitionSteinKernel,
)
from expectedkernels.sampling.reducible import (
    ReducibleWarning as ReducibleWarning,
)
from expectedkernels.sampling.samples import (
    WeightedSamples as WeightedSamples,
)
from expectedkernels.sampling.shrinkage import (
    default_weights as default_weights,
)
from expectedkernels.sampling.stein_samples import (
    SteinSamples as SteinSamples,
)
from expectedkernels.sampling.weights import (
    signed_weights as signed_weights,
)
from expectedkernels.sampling.weights import (
    simplex_weights as simplex_weights,
)
from expectedkernels.sampling.weights import (
    smoothed_weights as smoothed_weights,
)
from expectedkernels.sampling.zeros import (
    determined_variables as determined_variables,
)
from expectedkernels.verdict import (
    Verdict as Verdict,
)
from expectedkernels.vtree import (
    Vtree as Vtree,
)

__version__: str
__all__: list[str]
