"""Wrong questions: each gets an error that says what is wrong, what was found and what to do."""

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sklearn_kernels

import expectedkernels as ek
from assertions import assert_close

P = ek.factorized([[0.5, 0.5], [0.2, 0.8], [0.3, 0.7]], ek.Vtree.right_linear(3))
Q = ek.factorized([[0.1, 0.9], [0.6, 0.4], [0.3, 0.7]], ek.Vtree.right_linear(3))
REAL = ek.gaussian_mixture([1.0], [[0.0, 0.0]], [[1.0, 1.0]])
K = ek.RBF(0.5)


def dependent(a, b):
    """A sum over two binary variables that does not factorise."""
    points = [ek.Product([ek.Indicator(a, v, 2), ek.Indicator(b, v, 2)]) for v in range(2)]
    return ek.Sum(points, [0.5, 0.5])


def test_all_errors_are_value_errors():
    names = [name for name in dir(ek) if name.endswith("Error")]
    assert len(names) >= 8
    for name in names:
        assert issubclass(getattr(ek, name), ek.CircuitError)
        assert issubclass(getattr(ek, name), ValueError)


def test_a_parse_error_names_its_place():
    assert str(ek.ParseError("no", path="a.psdd", line=3)) == "a.psdd, line 3: no"
    assert str(ek.ParseError("no", line=3)) == "line 3: no"
    assert str(ek.ParseError("no")) == "no"
    assert ek.ParseError("no", path="a.psdd").path == "a.psdd"


class TestCompatibility:
    def test_other_splits_are_named(self):
        q = ek.factorized([[0.5, 0.5]] * 3, ek.Vtree.left_linear(3))
        message = (
            r"not compatible: over variables \{0, 1, 2\}, .* splits into \{0\} \| \{1, 2\}, "
            r".* into \{0, 1\} \| \{2\}.*#P-hard.*monte_carlo_expected_kernel"
        )
        for left, right in ((P, q), (P, ek.algebra.stack([q, q]))):
            with pytest.raises(ek.CompatibilityError, match=message):
                ek.expected_kernel(left, right, K)
        with pytest.raises(ek.CompatibilityError, match="#P-hard"):
            ek.expected_kernel(P, q, K, evidence_p=[0, np.nan, np.nan])
        with pytest.raises(ek.CompatibilityError, match="#P-hard"):
            ek.mmd(P, q, K)

    def test_unit_graphs_name_their_products(self):
        x, y, z = (ek.Categorical(v, [0.5, 0.5]) for v in range(3))
        a, b = ek.Product([dependent(0, 1), z]), ek.Product([x, dependent(1, 2)])
        message = r"product unit #\d of the first circuit splits into .*product unit #\d of the"
        with pytest.raises(ek.CompatibilityError, match=message):
            ek.expected_kernel(a, b, K)
        with pytest.raises(ek.CompatibilityError, match="#P-hard"):
            ek.expected_kernel(P, a, K)
        with pytest.raises(ek.CompatibilityError, match="#P-hard"):
            ek.expected_kernel(a, P, K)
        # products of inputs alone fit every vtree
        free = ek.Product([ek.Product([x, y]), z])
        same = ek.Circuit.from_units(free, vtree=P.vtree)
        assert_close(ek.expected_kernel(P, free, K), ek.expected_kernel(P, same, K))

    def test_other_variables(self):
        q = ek.factorized([[0.5, 0.5]] * 2)
        with pytest.raises(
            ek.CompatibilityError, match=r"variables \{0, 1, 2\}, the second \{0, 1\}"
        ):
            ek.expected_kernel(P, q, K)

    def test_other_cardinalities(self):
        q = ek.factorized([[0.5, 0.5], [0.2, 0.3, 0.5], [0.3, 0.7]], ek.Vtree.right_linear(3))
        with pytest.raises(ek.CompatibilityError, match=r"variable 1 has 2 states .* 3 states in"):
            ek.expected_kernel(P, q, K)
        real = ek.gaussian_mixture(
            [1.0], np.zeros((1, 3)), np.ones((1, 3)), ek.Vtree.right_linear(3)
        )
        with pytest.raises(ek.CompatibilityError, match=r"variable 0 has 2 states .* is real"):
            ek.expected_kernel(P, real, K)


class TestUnitGraphs:
    def test_sums_that_are_not_smooth(self):
        x, y = ek.Categorical(0, [0.5, 0.5]), ek.Categorical(1, [0.5, 0.5])
        rough = ek.Sum([x, ek.Product([x, y])], [0.5, 0.5])
        with pytest.raises(ek.CircuitError, match="smooth"):
            ek.expected_kernel(rough, [[0, 0]], K)
        with pytest.raises(ek.PropertyError, match=r"has an input over .* smooth=True"):
            ek.expected_kernel(rough, rough, K)

    def test_products_that_are_not_decomposable(self):
        x = ek.Categorical(0, [0.5, 0.5])
        with pytest.raises(ek.CircuitError, match=r"decomposable|share|disjoint"):
            ek.expected_kernel(ek.Product([x, x]), [[0]], K)

    def test_products_that_fit_no_vtree(self):
        parts = [
            ek.Product([dependent(a, b), ek.Categorical(c, [0.5, 0.5])])
            for a, b, c in ((0, 1, 2), (1, 2, 0))
        ]
        p = ek.Sum(parts, [0.5, 0.5])
        with pytest.raises(ek.PropertyError, match=r"structured.*monte_carlo_expected_kernel"):
            ek.expected_kernel(p, [[0, 0, 0]], K)


class TestKernels:
    @pytest.mark.parametrize("thing", [np.eye(2), "rbf", None, lambda x, y: 1.0])
    def test_not_a_kernel(self, thing):
        with pytest.raises(ek.KernelError, match="must be an expectedkernels kernel, such as RBF"):
            ek.expected_kernel(P, Q, thing)
        with pytest.raises(ek.KernelError, match="must be an expectedkernels kernel, such as RBF"):
            ek.monte_carlo_expected_kernel(P, Q, thing, 10)

    def test_kernels_of_others(self):
        theirs = sklearn_kernels.RBF(2.0)
        message = (
            r"Got sklearn\.gaussian_process\.kernels\.RBF instead\. There is an "
            r"expectedkernels\.RBF: use that with gamma = 1 / \(2 length_scale\^2\)"
        )
        for ask in (
            lambda k: ek.expected_kernel(P, Q, k),
            lambda k: ek.mmd(P, Q, k),
            lambda k: ek.is_kernel_compatible(k, P, Q),
            lambda k: ek.SteinKernel(P, k),
            lambda k: ek.bbis(P, np.zeros((4, P.n_variables)), k),
        ):
            with pytest.raises(ek.KernelError, match=message):
                ask(theirs)
            with pytest.raises(ek.KernelError, match=r"kernels\.Matern instead\.$"):
                ask(sklearn_kernels.Matern())
            with pytest.raises(
                ek.KernelError, match=r"Got the class .*RBF.*one of it: RBF\(\.\.\.\)"
            ):
                ask(ek.RBF)

    @pytest.mark.parametrize("kind", [ek.RBF, ek.Laplacian, ek.ExpHamming])
    @pytest.mark.parametrize(
        "gamma", [-1.0, 0.0, np.inf, np.nan, "1", True, [-1.0, 1.0], [np.nan], [[1.0]], 1j]
    )
    def test_rates(self, kind, gamma):
        message = rf"'gamma' parameter of {kind.__name__} must be a float in the range \(0, inf\)"
        with pytest.raises(ek.KernelError, match=message):
            kind(gamma)

    @pytest.mark.parametrize("kind", [ek.RBF, ek.Laplacian])
    def test_a_missing_rate(self, kind):
        with pytest.raises(ek.KernelError, match="Got None instead"):
            kind(None)

    @pytest.mark.parametrize("weight", [-1.0, 0.0, np.inf, np.nan, -3])
    def test_weights_of_sums(self, weight):
        with pytest.raises(ek.KernelError, match=r"must be a float in the range \(0, inf\)"):
            weight * K
        with pytest.raises(ek.KernelError, match="stay positive definite"):
            K * weight

    def test_operands_that_are_no_kernels(self):
        for make in (lambda: K + 1.0, lambda: K * "a", lambda: 1.0 + K):
            with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
                make()

    def test_the_number_of_variables(self):
        for k in (ek.RBF([1.0, 2.0]), ek.ExpHamming([1.0, 2.0])):
            with pytest.raises(ek.KernelError, match=r"rates for 2 variables. It is used on 3"):
                ek.expected_kernel(P, Q, k)
            with pytest.raises(ek.KernelError, match=r"rates for 2 variables. It is used on 3"):
                k([[0, 0, 0]])
        k = ek.TableKernel([np.eye(2)] * 4)
        with pytest.raises(ek.KernelError, match=r"tables for 4 variables. It is used on 3"):
            ek.expected_kernel(P, [[0, 0, 0]], k)

    def test_tables(self):
        with pytest.raises(ek.KernelError, match=r"square matrix. Got shape \(2, 3\)"):
            ek.TableKernel([np.ones((2, 3))])
        with pytest.raises(ek.KernelError, match="finite"):
            ek.TableKernel([[[1.0, np.nan], [np.nan, 1.0]]])
        k = ek.TableKernel([np.eye(2), np.eye(3), np.eye(2)])
        with pytest.raises(ek.KernelError, match=r"variable 1 must have shape \(2, 2\)"):
            ek.expected_kernel(P, Q, k)
        with pytest.raises(ek.KernelError, match=r"variable 0 is for states 0..1. Got points"):
            k([[2, 0, 0]])

    def test_tables_on_real_variables(self):
        k = ek.TableKernel([np.eye(2)] * 2)
        with pytest.raises(ek.KernelError, match=r"real variable 0.*RBF, Laplacian, ExpHamming"):
            ek.expected_kernel(REAL, REAL, k)
        with pytest.raises(ek.KernelError, match="real variable"):
            ek.expected_kernel(REAL, [[0.0, 1.0]], k)

    def test_kernel_circuits(self):
        units = [ek.kernels.kernel_input(v, np.eye(2)) for v in range(3)]
        k = ek.KernelCircuit(ek.Product([ek.Product(units[:2]), units[2]]))
        with pytest.raises(ek.CompatibilityError, match="split their variables in different ways"):
            ek.expected_kernel(P, Q, k)
        with pytest.raises(ek.KernelError, match=r"is over 3 variables. It is used on 2"):
            ek.expected_kernel(REAL, REAL, k)
        wide = ek.factorized([[0.5, 0.5], [0.2, 0.3, 0.5], [0.3, 0.7]], k.vtree)
        with pytest.raises(ek.KernelError, match="has 2 states for variable 1, which has 3 states"):
            ek.expected_kernel(wide, wide, k)
        k = ek.KernelCircuit(ek.Product(units[:2]))
        with pytest.raises(ek.KernelError, match="variable 0, which has a real variable here"):
            ek.expected_kernel(REAL, REAL, k)

    def test_how_kernel_circuits_are_built(self):
        with pytest.raises(
            ek.KernelError, match=r"square matrix of finite numbers. Got shape \(2,"
        ):
            ek.kernels.kernel_input(0, np.ones((2, 3)))
        with pytest.raises(ek.KernelError, match="variable 3 must be a square matrix of finite"):
            ek.kernels.kernel_input(3, [[np.nan]])
        with pytest.raises(ek.KernelError, match="Got ndarray instead"):
            ek.KernelCircuit(np.eye(2))
        with pytest.raises(
            ek.KernelError, match=r"square tables, made by kernel_input. Got an input"
        ):
            ek.KernelCircuit(ek.Categorical(0, [1.0, 1.0, 1.0]))
        with pytest.raises(ek.KernelError, match="square tables"):
            ek.KernelCircuit(ek.Gaussian(0, 0.0, 1.0))
        a, b = (
            ek.Product(
                [ek.kernels.kernel_input(0, np.eye(2) + x), ek.kernels.kernel_input(1, np.eye(2))]
            )
            for x in (0, 1)
        )
        with pytest.raises(ek.KernelError, match=r"must not be negative.*Got -1.0 in a sum"):
            ek.KernelCircuit(ek.Sum([a, b], [2.0, -1.0]))

    def test_points_of_gram_matrices(self):
        with pytest.raises(
            ek.KernelError, match=r"complete, finite points. Got nan in row 1, column"
        ):
            K([[0.0, 1.0], [np.nan, 0.0]])
        with pytest.raises(ek.KernelError, match="Got inf in row 0, column 1"):
            K([[0.0, np.inf]])
        with pytest.raises(ek.KernelError, match=r"need as many columns. Got 2 and 3"):
            K([[0.0, 1.0]], [[0.0, 1.0, 2.0]])
        with pytest.raises(
            ek.KernelError, match=r"shape \(rows, variables\). Got shape \(1, 1, 1\)"
        ):
            K(np.zeros((1, 1, 1)))

    def test_projections_of_real_variables(self):
        with pytest.raises(ek.KernelError, match="discrete variables only"):
            K.left_projection([0.0], cardinalities=[None])


class TestPoints:
    @pytest.mark.parametrize(
        ("points", "message"),
        [
            ([[0, np.nan, 1]], "must be complete. Got NaN in row 0, column 1.*evidence_p="),
            ([[0, 0, 0], [0, 2, 0]], r"variable 1 must be integers in 0..1. Got 2.0 in row 1"),
            ([[0, 0, -1]], r"variable 2 must be integers in 0..1. Got -1.0 in row 0"),
            ([[0.5, 0, 0]], r"variable 0 must be integers in 0..1. Got 0.5 in row 0"),
            ([[np.inf, 0, 0]], r"variable 0 must be integers in 0..1. Got inf"),
            ([[0, 0]], r"must have shape \(rows, 3\): one column per variable. Got shape \(1, 2\)"),
            (np.zeros((1, 1, 3)), r"must have shape \(rows, 3\)"),
        ],
    )
    def test_points(self, points, message):
        for left, right in ((P, points), (points, P)):
            with pytest.raises(ek.DataError, match=message):
                ek.expected_kernel(left, right, K)
        with pytest.raises(ek.DataError, match=message):
            ek.witness(P, Q, K, points)

    def test_empirical_distributions(self):
        with pytest.raises(ek.DataError, match="variable 1 must be integers"):
            ek.expected_kernel(P, ek.Empirical([[0, 2, 0]]), K)
        with pytest.raises(ek.DataError, match="with at least one point"):
            ek.Empirical(np.zeros((0, 3)))
        with pytest.raises(ek.DataError, match=r"shape \(points, variables\)"):
            ek.Empirical(np.zeros((1, 1, 1, 3)))
        with pytest.raises(ek.DataError, match=r"2 points needs as many finite weights. Got shape"):
            ek.Empirical([[0, 0, 0], [1, 1, 1]], [1.0])
        with pytest.raises(ek.DataError, match="finite weights"):
            ek.Empirical([[0, 0, 0]], [np.nan])

    def test_real_points(self):
        with pytest.raises(ek.DataError, match=r"variable 1 must be finite. Got inf in row 0"):
            ek.expected_kernel(REAL, [[0.0, np.inf]], K)
        with pytest.raises(ek.DataError, match=r"must be complete. Got NaN"):
            ek.expected_kernel(REAL, [[0.0, np.nan]], K)

    @pytest.mark.parametrize("n", [0, 1, 2.5, "3", None])
    def test_the_number_of_samples(self, n):
        with pytest.raises(ek.DataError, match=r"'n' must be an int in \[2, inf\)"):
            ek.monte_carlo_expected_kernel(P, Q, K, n)

    def test_negative_weights_cannot_be_sampled(self):
        points = ek.Empirical([[0, 0, 0], [1, 1, 1]], [1.0, -1.0])
        with pytest.raises(ek.DataError, match="negative weights cannot be sampled"):
            ek.monte_carlo_expected_kernel(P, points, K, 10)


class TestEvidence:
    def test_evidence_of_points(self):
        X = [[0, 0, 0]]
        with pytest.raises(ek.DataError, match=r"conditions circuits. Got evidence_q for a set of"):
            ek.expected_kernel(P, X, K, evidence_q=X)
        with pytest.raises(ek.DataError, match=r"conditions circuits. Got evidence_p for a set of"):
            ek.expected_kernel(ek.Empirical(X), P, K, evidence_p=X)
        with pytest.raises(ek.DataError, match=r"conditions circuits. Got evidence_p for a set of"):
            ek.expected_kernel(X, X, K, evidence_p=X)

    @pytest.mark.parametrize("rows", [1, 40])
    def test_evidence_of_probability_zero(self, rows):
        p = ek.factorized([[0.5, 0.5], [0.0, 1.0], [0.3, 0.7]])
        E = np.full((rows, 3), np.nan)
        E[-1, 1] = 0.0
        message = rf"evidence in row {rows - 1} has probability zero under the circuit"
        with pytest.raises(ek.EvidenceError, match=message):
            ek.expected_kernel(p, p, K, evidence_p=E)
        with pytest.raises(ek.EvidenceError, match=message):
            ek.expected_kernel([[0, 0, 0]], p, K, evidence_q=E)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (np.zeros((2, 2)), r"must have shape \(rows, 3\): one column per variable"),
            (np.zeros((1, 2, 3)), r"must have shape \(rows, 3\)"),
            ([[0, 2, 0]], r"variable 1 must be integers in 0..1. Got 2.0 in row 0"),
            ([[0, 0.5, 0]], r"variable 1 must be integers in 0..1. Got 0.5"),
            ([[0, np.inf, 0]], r"variable 1 must be integers in 0..1. Got inf"),
            ([np.ones((1, 2)), None], "one array per variable, 3 in all. Got 2"),
            ([np.ones((1, 2)), np.ones((2, 2)), None], r"as many rows. Got \[1, 2\] rows"),
            (
                [np.ones((1, 3)), None, None],
                r"of shape \(rows, 2\). Got an array of shape \(1, 3\)",
            ),
            ([-np.ones((1, 2)), None, None], "variable 0 must be finite, non-negative"),
            ([np.full((1, 2), np.nan), None, None], "finite, non-negative .* with other entries"),
            ({3: 1}, r"an int in 0..2. Got 3 instead"),
            ({"a": 1}, r"an int in 0..2. Got 'a' instead"),
            ({1: 5}, r"A state of variable 1 is an int in 0..1"),
        ],
    )
    def test_malformed_evidence(self, given, message):
        with pytest.raises(ek.EvidenceError, match=message):
            ek.expected_kernel(P, Q, K, evidence_p=given)
        with pytest.raises(ek.EvidenceError, match=message):
            ek.expected_kernel(P, Q, K, evidence_q=given)

    def test_evidence_on_real_variables(self):
        with pytest.raises(ek.EvidenceError, match=r"variable 0 must be finite. Got inf"):
            ek.expected_kernel(REAL, REAL, K, evidence_p=[[np.inf, 0.0]])
        with pytest.raises(ek.EvidenceError, match=r"one finite value .or NaN. per row"):
            ek.expected_kernel(REAL, REAL, K, evidence_p=[np.ones((1, 2)), None])

    def test_circuits_of_several_roots(self):
        several = ek.algebra.stack([P, Q])
        message = r"Conditioning \(evidence_p\) needs a circuit with one root. Got 2 roots"
        with pytest.raises(ek.CircuitError, match=message):
            ek.expected_kernel(several, P, K, evidence_p=[[0, 0, 0]])


class TestLogs:
    def test_a_negative_expectation_has_no_logarithm(self):
        k = ek.TableKernel([[[1.0, -2.0], [-2.0, 1.0]]])
        p, q = ek.factorized([[1.0, 0.0]]), ek.factorized([[0.0, 1.0]])
        assert ek.expected_kernel(p, q, k) == -2.0
        for left, right in ((p, q), (p, [[1.0]]), ([[0.0]], [[1.0]]), (p, ek.Empirical([[1.0]]))):
            with pytest.raises(ek.KernelError, match="is negative here, so it has no logarithm"):
                ek.expected_kernel(left, right, k, log=True)

    def test_signed_circuits(self):
        p = ek.factorized([[0.5, -1.5]], normalized=False)
        with pytest.raises(ek.PropertyError, match=r"has a negative value.*log=False"):
            p.log_likelihood([[1.0]])
        with pytest.raises(ek.KernelError, match="negative here"):
            ek.expected_kernel(p, ek.factorized([[0.0, 1.0]]), ek.Delta(), log=True)
        with pytest.raises(ek.PropertyError, match="negative"):
            ek.expected_kernel(p, p, ek.Delta(), evidence_p=[[1.0]])
        with pytest.raises(ek.PropertyError, match="negative"):
            ek.monte_carlo_expected_kernel(p, p, ek.Delta(), 10)
