"""The public names, each with the module it lives in: the one list of them."""

from expectedkernels.circuits.algebra import (
    linear_combination as linear_combination,
    multiply as multiply,
    power as power,
    quotient as quotient,
    reciprocal as reciprocal,
    shift as shift,
)
from expectedkernels.circuits.alignment import (
    align as align,
)
from expectedkernels.circuits.build import (
    factorized as factorized,
    gaussian_mixture as gaussian_mixture,
    hmm as hmm,
    mixture as mixture,
    random_circuit as random_circuit,
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
    properties as properties,
)
from expectedkernels.circuits.units import (
    Categorical as Categorical,
    Gaussian as Gaussian,
    Indicator as Indicator,
    Product as Product,
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
    FactorGraph as FactorGraph,
)
from expectedkernels.compilation.models import (
    asia as asia,
    ising_grid as ising_grid,
)
from expectedkernels.compilation.others import (
    as_model as as_model,
    to_pgmpy as to_pgmpy,
    to_pyagrum as to_pyagrum,
)
from expectedkernels.compilation.vtrees import (
    bisection_vtree as bisection_vtree,
    conditioning_vtree as conditioning_vtree,
    elimination_vtree as elimination_vtree,
    min_fill_order as min_fill_order,
)
from expectedkernels.discrepancies.collapsed import (
    CollapsedSteinKernel as CollapsedSteinKernel,
)
from expectedkernels.discrepancies.goodness import (
    GoodnessOfFit as GoodnessOfFit,
    kdsd_test as kdsd_test,
)
from expectedkernels.discrepancies.kdsd import (
    kdsd as kdsd,
)
from expectedkernels.discrepancies.mmd import (
    mmd as mmd,
    mmd2 as mmd2,
    witness as witness,
)
from expectedkernels.errors import (
    CircuitError as CircuitError,
    CompatibilityError as CompatibilityError,
    DataError as DataError,
    EvidenceError as EvidenceError,
    KernelError as KernelError,
    ParseError as ParseError,
    PropertyError as PropertyError,
    SizeError as SizeError,
    VtreeError as VtreeError,
)
from expectedkernels.estimators import (
    CircuitImputer as CircuitImputer,
    ExpectedGaussianProcessRegressor as ExpectedGaussianProcessRegressor,
    ExpectedKernelFeatures as ExpectedKernelFeatures,
    ExpectedKernelRidge as ExpectedKernelRidge,
    ExpectedSVC as ExpectedSVC,
    ExpectedSVR as ExpectedSVR,
    expected_prediction as expected_prediction,
)
from expectedkernels.expectation import (
    Empirical as Empirical,
    expected_kernel as expected_kernel,
    monte_carlo_expected_kernel as monte_carlo_expected_kernel,
)
from expectedkernels.explanation import (
    explain as explain,
)
from expectedkernels.io import (
    compile_file as compile_file,
    load as load,
    read_bif as read_bif,
    read_jpc as read_jpc,
    read_model as read_model,
    read_psdd as read_psdd,
    read_spn as read_spn,
    read_table as read_table,
    read_uai as read_uai,
    read_uai_evidence as read_uai_evidence,
    read_vtree as read_vtree,
    read_xmlbif as read_xmlbif,
    save as save,
    write_bif as write_bif,
    write_jpc as write_jpc,
    write_psdd as write_psdd,
    write_spn as write_spn,
    write_uai as write_uai,
    write_uai_evidence as write_uai_evidence,
    write_vtree as write_vtree,
    write_xmlbif as write_xmlbif,
)
from expectedkernels.kernels.circuit import (
    KernelCircuit as KernelCircuit,
    is_kernel_compatible as is_kernel_compatible,
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
    Delta as Delta,
    ExpHamming as ExpHamming,
    Laplacian as Laplacian,
    TableKernel as TableKernel,
)
from expectedkernels.kernels.stein import (
    SteinKernel as SteinKernel,
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
    collapsed_bbis as collapsed_bbis,
)
from expectedkernels.sampling.cis import (
    cis as cis,
)
from expectedkernels.sampling.gibbs import (
    collapsed_gibbs as collapsed_gibbs,
    gibbs as gibbs,
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
    simplex_weights as simplex_weights,
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
