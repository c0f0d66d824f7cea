"""Types of the public names, which `__init__.py` imports when they are first used."""

from expectedkernels.checks import (
    CircuitError as CircuitError,
    CompatibilityError as CompatibilityError,
    DataError as DataError,
    EvidenceError as EvidenceError,
    KernelError as KernelError,
    ParseError as ParseError,
    PropertyError as PropertyError,
    SizeError as SizeError,
    Verdict as Verdict,
    VtreeError as VtreeError,
)
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
from expectedkernels.circuits.graph import (
    Categorical as Categorical,
    Gaussian as Gaussian,
    Indicator as Indicator,
    Product as Product,
    Sum as Sum,
)
from expectedkernels.circuits.properties import (
    is_compatible as is_compatible,
    properties as properties,
)
from expectedkernels.data.chunks import (
    over_chunks as over_chunks,
)
from expectedkernels.datasets import (
    asia as asia,
    ising_grid as ising_grid,
)
from expectedkernels.discrepancies.attribution import (
    group_discrepancies as group_discrepancies,
)
from expectedkernels.discrepancies.choose_kernel import (
    choose_kernel as choose_kernel,
)
from expectedkernels.discrepancies.hypothesis_tests import (
    GoodnessOfFit as GoodnessOfFit,
    kdsd_test as kdsd_test,
    mmd_compare as mmd_compare,
    mmd_compare_all as mmd_compare_all,
    mmd_test as mmd_test,
    mmd_two_sample_test as mmd_two_sample_test,
)
from expectedkernels.discrepancies.mmd import (
    mmd as mmd,
    mmd2 as mmd2,
    witness as witness,
)
from expectedkernels.discrepancies.quadrature import (
    HerdedPoints as HerdedPoints,
    herd as herd,
    quadrature as quadrature,
)
from expectedkernels.estimators.acquisition import (
    acquire as acquire,
    acquisition_gain as acquisition_gain,
)
from expectedkernels.estimators.classification import (
    ExpectedSVC as ExpectedSVC,
)
from expectedkernels.estimators.gaussian_process import (
    ExpectedGaussianProcessRegressor as ExpectedGaussianProcessRegressor,
)
from expectedkernels.estimators.imputation import (
    CircuitImputer as CircuitImputer,
    ExpectedKernelFeatures as ExpectedKernelFeatures,
)
from expectedkernels.estimators.prediction import (
    expected_prediction as expected_prediction,
)
from expectedkernels.estimators.regression import (
    ExpectedKernelClassifier as ExpectedKernelClassifier,
    ExpectedKernelRidge as ExpectedKernelRidge,
    ExpectedSVR as ExpectedSVR,
)
from expectedkernels.estimators.shapley import (
    ShapleyValues as ShapleyValues,
    shapley_values as shapley_values,
)
from expectedkernels.expectation import (
    expected_kernel as expected_kernel,
    explain as explain,
    monte_carlo_expected_kernel as monte_carlo_expected_kernel,
)
from expectedkernels.io import (
    load as load,
    save as save,
)
from expectedkernels.io.bif import (
    read_bif as read_bif,
)
from expectedkernels.io.uai import (
    read_uai as read_uai,
    read_uai_evidence as read_uai_evidence,
    write_uai as write_uai,
)
from expectedkernels.io.unit_lists import (
    read_jpc as read_jpc,
    read_psdd as read_psdd,
    read_vtree as read_vtree,
    write_jpc as write_jpc,
    write_psdd as write_psdd,
    write_vtree as write_vtree,
)
from expectedkernels.kernels.empirical import (
    Empirical as Empirical,
    median_gamma as median_gamma,
)
from expectedkernels.kernels.kernel import (
    RBF as RBF,
    Delta as Delta,
    ExpHamming as ExpHamming,
    Kernel as Kernel,
    KernelCircuit as KernelCircuit,
    Laplacian as Laplacian,
    TableKernel as TableKernel,
    is_kernel_compatible as is_kernel_compatible,
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
from expectedkernels.learning.fit_mmd import (
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
from expectedkernels.models.factor_graph import (
    BayesianNetwork as BayesianNetwork,
    Factor as Factor,
    FactorGraph as FactorGraph,
)
from expectedkernels.models.interop import (
    as_model as as_model,
)
from expectedkernels.monitoring import (
    drift as drift,
)
from expectedkernels.sampling.gibbs import (
    ReducibleWarning as ReducibleWarning,
    collapsed_gibbs as collapsed_gibbs,
    gibbs as gibbs,
)
from expectedkernels.sampling.weights import (
    simplex_weights as simplex_weights,
)
from expectedkernels.stein.bbis import (
    bbis as bbis,
    collapsed_bbis as collapsed_bbis,
)
from expectedkernels.stein.bridge import (
    log_partition_estimate as log_partition_estimate,
)
from expectedkernels.stein.cis import (
    cis as cis,
)
from expectedkernels.stein.kdsd import (
    kdsd as kdsd,
)
from expectedkernels.stein.stein_kernel import (
    CollapsedSteinKernel as CollapsedSteinKernel,
    SteinKernel as SteinKernel,
)
from expectedkernels.stein.weighted_samples import (
    WeightedSamples as WeightedSamples,
    stein_thin as stein_thin,
)
from expectedkernels.vtree import (
    Vtree as Vtree,
)

from . import (
    algebra as algebra,
    datasets as datasets,
    divergences as divergences,
    io as io,
    kernels as kernels,
    models as models,
    monitoring as monitoring,
    plotting as plotting,
    reports as reports,
    stein as stein,
    vtrees as vtrees,
)

__version__: str
__all__: list[str]
