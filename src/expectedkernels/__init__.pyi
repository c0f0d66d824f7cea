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
from expectedkernels.circuits.circuit import Circuit as Circuit
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
from expectedkernels.data.chunks import over_chunks as over_chunks
from expectedkernels.datasets import asia as asia, ising_grid as ising_grid
from expectedkernels.discrepancies.choose_kernel import choose_kernel as choose_kernel
from expectedkernels.discrepancies.hypothesis_tests import (
    GoodnessOfFit as GoodnessOfFit,
    kdsd_test as kdsd_test,
    mmd_compare as mmd_compare,
    mmd_compare_all as mmd_compare_all,
    mmd_test as mmd_test,
    mmd_two_sample_test as mmd_two_sample_test,
)
from expectedkernels.discrepancies.independence import (
    conditional_two_sample_test as conditional_two_sample_test,
    independence_test as independence_test,
)
from expectedkernels.discrepancies.mechanisms import (
    Effect as Effect,
    MechanismChange as MechanismChange,
    effect as effect,
    mechanism_change as mechanism_change,
)
from expectedkernels.discrepancies.mmd import mmd as mmd, mmd2 as mmd2, witness as witness
from expectedkernels.discrepancies.quadrature import (
    HerdedPoints as HerdedPoints,
    herd as herd,
    quadrature as quadrature,
)
from expectedkernels.estimators.explanation import (
    ShapleyValues as ShapleyValues,
    acquire as acquire,
    acquisition_gain as acquisition_gain,
    shapley_values as shapley_values,
)
from expectedkernels.estimators.imputation import (
    CircuitImputer as CircuitImputer,
    ExpectedKernelFeatures as ExpectedKernelFeatures,
)
from expectedkernels.estimators.kernel_models import (
    ExpectedGaussianProcessRegressor as ExpectedGaussianProcessRegressor,
    ExpectedKernelClassifier as ExpectedKernelClassifier,
    ExpectedKernelRidge as ExpectedKernelRidge,
    ExpectedSVC as ExpectedSVC,
    ExpectedSVR as ExpectedSVR,
)
from expectedkernels.estimators.prediction import expected_prediction as expected_prediction
from expectedkernels.expectation import (
    expected_kernel as expected_kernel,
    explain as explain,
    monte_carlo_expected_kernel as monte_carlo_expected_kernel,
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
from expectedkernels.kernels import (
    RBF as RBF,
    Delta as Delta,
    ExpHamming as ExpHamming,
    Kernel as Kernel,
    KernelCircuit as KernelCircuit,
    Laplacian as Laplacian,
    TableKernel as TableKernel,
    is_kernel_compatible as is_kernel_compatible,
    median_gamma as median_gamma,
)
from expectedkernels.kernels.empirical import Empirical as Empirical
from expectedkernels.kernels.target import Target as Target
from expectedkernels.learning.chow_liu import (
    learn_chow_liu as learn_chow_liu,
    learn_hclt as learn_hclt,
)
from expectedkernels.learning.em import em as em
from expectedkernels.learning.fit_mmd import fit_mmd as fit_mmd
from expectedkernels.learning.network_tables import learn_tables as learn_tables
from expectedkernels.learning.strudel import (
    learn_mixture as learn_mixture,
    learn_strudel as learn_strudel,
)
from expectedkernels.models import (
    BayesianNetwork as BayesianNetwork,
    Factor as Factor,
    FactorGraph as FactorGraph,
    as_model as as_model,
)
from expectedkernels.monitoring import drift as drift, group_discrepancies as group_discrepancies
from expectedkernels.sampling.gibbs import (
    ReducibleWarning as ReducibleWarning,
    collapsed_gibbs as collapsed_gibbs,
    gibbs as gibbs,
)
from expectedkernels.stein import (
    CollapsedSteinKernel as CollapsedSteinKernel,
    SteinKernel as SteinKernel,
    simplex_weights as simplex_weights,
)
from expectedkernels.stein.bbis import (
    bbis as bbis,
    collapsed_bbis as collapsed_bbis,
    stein_thin as stein_thin,
)
from expectedkernels.stein.bridge import log_partition_estimate as log_partition_estimate
from expectedkernels.stein.cis import cis as cis
from expectedkernels.stein.stein_kernel import kdsd as kdsd
from expectedkernels.stein.weighted_samples import WeightedSamples as WeightedSamples
from expectedkernels.vtree import Vtree as Vtree

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
