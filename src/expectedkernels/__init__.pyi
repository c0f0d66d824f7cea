"""The public names, each with the module it lives in: the one list of them.

Relative imports are namespaces: modules that list more public names.
"""

from expectedkernels.circuits.build import (
    factorized as factorized,
    gaussian_mixture as gaussian_mixture,
    hmm as hmm,
    mixture as mixture,
    random_circuit as random_circuit,
)
from expectedkernels.circuits.circuit import (
    Circuit as Circuit,
)
from expectedkernels.circuits.properties import (
    is_compatible as is_compatible,
    properties as properties,
)
from expectedkernels.circuits.streams import (
    over_chunks as over_chunks,
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
from expectedkernels.compilation.datasets import (
    asia as asia,
    ising_grid as ising_grid,
)
from expectedkernels.compilation.factor import (
    Factor as Factor,
)
from expectedkernels.compilation.factors import (
    FactorGraph as FactorGraph,
)
from expectedkernels.compilation.others import (
    as_model as as_model,
)
from expectedkernels.discrepancies.collapsed import (
    CollapsedSteinKernel as CollapsedSteinKernel,
)
from expectedkernels.discrepancies.comparison import (
    mmd_compare as mmd_compare,
    mmd_compare_all as mmd_compare_all,
)
from expectedkernels.discrepancies.fit import (
    mmd_test as mmd_test,
)
from expectedkernels.discrepancies.goodness import (
    kdsd_test as kdsd_test,
)
from expectedkernels.discrepancies.groups import (
    group_discrepancies as group_discrepancies,
)
from expectedkernels.discrepancies.kdsd import (
    kdsd as kdsd,
)
from expectedkernels.discrepancies.mmd import (
    mmd as mmd,
    mmd2 as mmd2,
    witness as witness,
)
from expectedkernels.discrepancies.outcomes import (
    GoodnessOfFit as GoodnessOfFit,
)
from expectedkernels.discrepancies.power import (
    choose_kernel as choose_kernel,
)
from expectedkernels.discrepancies.quadrature import (
    quadrature as quadrature,
)
from expectedkernels.discrepancies.two_samples import (
    mmd_two_sample_test as mmd_two_sample_test,
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
from expectedkernels.estimators.acquisition import (
    acquire as acquire,
    acquisition_gain as acquisition_gain,
)
from expectedkernels.estimators.classifiers import (
    ExpectedSVC as ExpectedSVC,
)
from expectedkernels.estimators.drift import (
    drift as drift,
)
from expectedkernels.estimators.features import (
    ExpectedKernelFeatures as ExpectedKernelFeatures,
)
from expectedkernels.estimators.imputer import (
    CircuitImputer as CircuitImputer,
)
from expectedkernels.estimators.least_squares import (
    ExpectedKernelClassifier as ExpectedKernelClassifier,
)
from expectedkernels.estimators.prediction import (
    expected_prediction as expected_prediction,
)
from expectedkernels.estimators.processes import (
    ExpectedGaussianProcessRegressor as ExpectedGaussianProcessRegressor,
)
from expectedkernels.estimators.regressors import (
    ExpectedKernelRidge as ExpectedKernelRidge,
    ExpectedSVR as ExpectedSVR,
)
from expectedkernels.estimators.shapley import (
    ShapleyValues as ShapleyValues,
    shapley_values as shapley_values,
)
from expectedkernels.expectation import (
    expected_kernel as expected_kernel,
    monte_carlo_expected_kernel as monte_carlo_expected_kernel,
)
from expectedkernels.explanation import (
    explain as explain,
)
from expectedkernels.io import (
    load as load,
    read_bif as read_bif,
    read_jpc as read_jpc,
    read_psdd as read_psdd,
    read_uai as read_uai,
    read_uai_evidence as read_uai_evidence,
    read_vtree as read_vtree,
    save as save,
    write_jpc as write_jpc,
    write_psdd as write_psdd,
    write_uai as write_uai,
    write_vtree as write_vtree,
)
from expectedkernels.kernels.circuit import (
    KernelCircuit as KernelCircuit,
    is_kernel_compatible as is_kernel_compatible,
)
from expectedkernels.kernels.defaults import (
    median_gamma as median_gamma,
)
from expectedkernels.kernels.empirical import (
    Empirical as Empirical,
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
from expectedkernels.learning.gradients import (
    fit_mmd as fit_mmd,
)
from expectedkernels.learning.hclt import (
    learn_hclt as learn_hclt,
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
from expectedkernels.sampling.bridge import (
    log_partition_estimate as log_partition_estimate,
)
from expectedkernels.sampling.cis import (
    cis as cis,
)
from expectedkernels.sampling.gibbs import (
    collapsed_gibbs as collapsed_gibbs,
    gibbs as gibbs,
)
from expectedkernels.sampling.herding import (
    HerdedPoints as HerdedPoints,
    herd as herd,
)
from expectedkernels.sampling.reducible import (
    ReducibleWarning as ReducibleWarning,
)
from expectedkernels.sampling.samples import (
    WeightedSamples as WeightedSamples,
)
from expectedkernels.sampling.thinning import (
    stein_thin as stein_thin,
)
from expectedkernels.sampling.weights import (
    simplex_weights as simplex_weights,
)
from expectedkernels.verdict import (
    Verdict as Verdict,
)
from expectedkernels.vtree import (
    Vtree as Vtree,
)

from . import (
    io as io,
    kernels as kernels,
    plotting as plotting,
    reports as reports,
)
from .circuits import (
    algebra as algebra,
    divergences as divergences,
)
from .compilation import (
    datasets as datasets,
    models as models,
    vtrees as vtrees,
)
from .estimators import (
    monitoring as monitoring,
)
from .sampling import (
    stein as stein,
)

__version__: str
__all__: list[str]
