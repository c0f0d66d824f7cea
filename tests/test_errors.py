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
LEFT = ek.factorized([[0.5, 0.5]] * 3, ek.Vtree.left_linear(3))
X, Y, Z = (ek.Categorical(v, [0.5, 0.5]) for v in range(3))
UNITS = [ek.kernels.kernel_input(v, np.eye(2)) for v in range(3)]
NESTED = ek.KernelCircuit(ek.Product([ek.Product(UNITS[:2]), UNITS[2]]))
WIDE = ek.factorized([[0.5, 0.5], [0.2, 0.3, 0.5], [0.3, 0.7]], NESTED.vtree)
SIGNED = ek.factorized([[0.5, -1.5]], normalized=False)
OTHER_SPLITS = (
    r"not compatible: over variables \{0, 1, 2\}, .* splits into \{0\} \| \{1, 2\}, "
    r".* into \{0, 1\} \| \{2\}.*#P-hard.*monte_carlo_expected_kernel"
)
OF_POINTS = r"conditions circuits. Got evidence_{} for a set of"


def dependent(a, b):
    """A sum over two binary variables that does not factorise."""
    points = [ek.Product([ek.Indicator(a, v, 2), ek.Indicator(b, v, 2)]) for v in range(2)]
    return ek.Sum(points, [0.5, 0.5])


def test_errors_are_value_errors_and_parse_errors_name_their_place():
    names = [name for name in dir(ek) if name.endswith("Error")]
    assert len(names) >= 8
    for name in names:
        assert issubclass(getattr(ek, name), ek.CircuitError)
        assert issubclass(getattr(ek, name), ValueError)
    assert str(ek.ParseError("no", path="a.psdd", line=3)) == "a.psdd, line 3: no"
    assert str(ek.ParseError("no", line=3)) == "line 3: no"
    assert str(ek.ParseError("no")) == "no"
    assert ek.ParseError("no", path="a.psdd").path == "a.psdd"


A, B = ek.Product([dependent(0, 1), Z]), ek.Product([X, dependent(1, 2)])
ROUGH = ek.Sum([X, ek.Product([X, Y])], [0.5, 0.5])
UNSTRUCTURED = ek.Sum([A, ek.Product([dependent(1, 2), X])], [0.5, 0.5])
FOUR, TWO = ek.TableKernel([np.eye(2)] * 4), ek.TableKernel([np.eye(2)] * 2)
UNEQUAL = ek.TableKernel([np.eye(2), np.eye(3), np.eye(2)])
REAL_OF_THREE = ek.gaussian_mixture(
    [1.0], np.zeros((1, 3)), np.ones((1, 3)), ek.Vtree.right_linear(3)
)
ROW = [[0, 0, 0]]

TWO_VARIABLES, COIN = ek.factorized([[0.5, 0.5]] * 2), ek.factorized([[0.0, 1.0]])
THREE_STATES = ek.factorized([[0.5, 0.5], [0.2, 0.3, 0.5], [0.3, 0.7]], ek.Vtree.right_linear(3))

PAIRS = [
    (P, LEFT, K, {}, ek.CompatibilityError, OTHER_SPLITS),
    (P, ek.algebra.stack([LEFT, LEFT]), K, {}, ek.CompatibilityError, OTHER_SPLITS),
    (P, LEFT, K, {"evidence_p": [0, np.nan, np.nan]}, ek.CompatibilityError, "#P-hard"),
    (A, B, K, {}, ek.CompatibilityError, r"product unit #\d of the first circuit splits into .*"),
    (P, A, K, {}, ek.CompatibilityError, "#P-hard"),
    (A, P, K, {}, ek.CompatibilityError, "#P-hard"),
    (P, TWO_VARIABLES, K, {}, ek.CompatibilityError, r"variables \{0, 1, 2\}, the second \{0, 1\}"),
    (P, THREE_STATES, K, {}, ek.CompatibilityError, "variable 1 has 2 states .* 3 states in"),
    (P, REAL_OF_THREE, K, {}, ek.CompatibilityError, "variable 0 has 2 states .* is real"),
    (ROUGH, [[0, 0]], K, {}, ek.CircuitError, "smooth"),
    (ROUGH, ROUGH, K, {}, ek.PropertyError, "has an input over .* smooth=True"),
    (ek.Product([X, X]), [[0]], K, {}, ek.CircuitError, "decomposable|share|disjoint"),
    (UNSTRUCTURED, ROW, K, {}, ek.PropertyError, "structured.*monte_carlo_expected_kernel"),
    (P, Q, ek.RBF([1.0, 2.0]), {}, ek.KernelError, "This RBF is for 2 variables. It is used on 3"),
    (P, ROW, FOUR, {}, ek.KernelError, "is for 4 variables. It is used on 3"),
    (P, Q, UNEQUAL, {}, ek.KernelError, r"variable 1 must have shape \(2, 2\)"),
    (REAL, REAL, TWO, {}, ek.KernelError, "real variable 0.*RBF, Laplacian, ExpHamming"),
    (REAL, [[0.0, 1.0]], TWO, {}, ek.KernelError, "real variable"),
    (P, Q, NESTED, {}, ek.CompatibilityError, "split their variables in different ways"),
    (REAL, REAL, NESTED, {}, ek.KernelError, "is for 3 variables. It is used on 2"),
    (WIDE, WIDE, NESTED, {}, ek.KernelError, r"for variables of \[2, 2, 2\] states, and used on"),
    (
        REAL,
        REAL,
        ek.KernelCircuit(ek.Product(UNITS[:2])),
        {},
        ek.KernelError,
        r"\[None, None\] states \(None: a real variable\)",
    ),
    (P, ek.Empirical([[0, 2, 0]]), K, {}, ek.DataError, "variable 1 must be integers"),
    (REAL, [[0.0, np.inf]], K, {}, ek.DataError, "variable 1 must be finite. Got inf in row 0"),
    (REAL, [[0.0, np.nan]], K, {}, ek.DataError, "must be complete. Got NaN"),
    (P, ROW, K, {"evidence_q": ROW}, ek.DataError, OF_POINTS.format("q")),
    (ek.Empirical(ROW), P, K, {"evidence_p": ROW}, ek.DataError, OF_POINTS.format("p")),
    (ROW, ROW, K, {"evidence_p": ROW}, ek.DataError, OF_POINTS.format("p")),
    (REAL, REAL, K, {"evidence_p": [[np.inf, 0]]}, ek.EvidenceError, "0 must be finite. Got inf"),
    (REAL, REAL, K, {"evidence_p": [np.ones((1, 2)), None]}, ek.EvidenceError, "one finite value"),
    (
        ek.algebra.stack([P, Q]),
        P,
        K,
        {"evidence_p": ROW},
        ek.CircuitError,
        r"Conditioning \(evidence_p\) needs a circuit with one root. Got 2 roots",
    ),
    (SIGNED, COIN, ek.Delta(), {"log": True}, ek.KernelError, "negative here"),
    (SIGNED, SIGNED, ek.Delta(), {"evidence_p": [[1.0]]}, ek.PropertyError, "negative"),
]


@pytest.mark.parametrize(
    ("p", "q", "k", "options", "error", "message"), PAIRS, ids=range(len(PAIRS))
)
def test_expectations_that_are_refused(p, q, k, options, error, message):
    with pytest.raises(error, match=message):
        ek.expected_kernel(p, q, k, **options)


def made_of(*units):
    return lambda: ek.KernelCircuit(*units)


def mixed(weight):
    near = ek.Product([ek.kernels.kernel_input(0, np.eye(2) + 1), UNITS[1]])
    return ek.Sum([ek.Product(UNITS[:2]), near], [2.0, weight])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ek.mmd(P, LEFT, K), ek.CompatibilityError, "#P-hard"),
        (lambda: ek.RBF(None), ek.KernelError, "Got None instead"),
        (lambda: ek.Laplacian(None), ek.KernelError, "Got None instead"),
        (lambda: K + 1.0, TypeError, "unsupported operand"),
        (lambda: 1.0 + K, TypeError, "unsupported operand"),
        (lambda: K * "a", TypeError, "unsupported operand|can't multiply"),
        (lambda: ek.ExpHamming([1.0, 2.0])(ROW), ek.KernelError, "It is used on 3"),
        (lambda: ek.TableKernel([np.ones((2, 3))]), ek.KernelError, r"Got shape \(2, 3\)"),
        (lambda: ek.TableKernel([[[np.nan]]]), ek.KernelError, "finite"),
        (lambda: UNEQUAL([[2, 0, 0]]), ek.KernelError, "variable 0 is for states 0..1. Got points"),
        (lambda: ek.kernels.kernel_input(0, np.ones((2, 3))), ek.KernelError, r"shape \(2,"),
        (lambda: ek.kernels.kernel_input(3, [[np.nan]]), ek.KernelError, "3 must be a square matr"),
        (made_of(np.eye(2)), ek.KernelError, "Got ndarray instead"),
        (made_of(ek.Categorical(0, [1.0] * 3)), ek.KernelError, "made by kernel_input. Got an in"),
        (made_of(ek.Gaussian(0, 0.0, 1.0)), ek.KernelError, "square tables"),
        (made_of(mixed(-1.0)), ek.KernelError, r"must not be negative.*Got -1.0 in a sum"),
        (lambda: K([[0.0, 1.0], [np.nan, 0.0]]), ek.KernelError, "finite points. Got nan in row 1"),
        (lambda: K([[0.0, np.inf]]), ek.KernelError, "Got inf in row 0, column 1"),
        (lambda: K([[0, 1]], [[0, 1, 2]]), ek.KernelError, "as many columns. Got 2 and 3"),
        (lambda: K(np.zeros((1, 1, 1))), ek.KernelError, r"Got shape \(1, 1, 1\)"),
        (lambda: K.left_projection([0.0], [None]), ek.KernelError, "discrete variables only"),
        (lambda: ek.Empirical(np.zeros((0, 3))), ek.DataError, "with at least one point"),
        (lambda: ek.Empirical(np.zeros((1,) * 4)), ek.DataError, r"shape \(points, variables\)"),
        (lambda: ek.Empirical([[0], [1]], [1.0]), ek.DataError, "2 points needs as many finite"),
        (lambda: ek.Empirical([[0]], [np.nan]), ek.DataError, "finite weights"),
        (lambda: SIGNED.log_likelihood([[1.0]]), ek.PropertyError, "has a negative value.*log=Fa"),
        (
            lambda: ek.monte_carlo_expected_kernel(P, ek.Empirical([ROW[0]] * 2, [1, -1]), K, 10),
            ek.DataError,
            "negative weights cannot be sampled",
        ),
        (
            lambda: ek.monte_carlo_expected_kernel(SIGNED, SIGNED, K, 10),
            ek.PropertyError,
            "negative",
        ),
    ],
)
def test_calls_that_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("thing", [np.eye(2), "rbf", None, lambda x, y: 1.0])
def test_not_a_kernel(thing):
    for ask in (ek.expected_kernel, lambda p, q, k: ek.monte_carlo_expected_kernel(p, q, k, 10)):
        with pytest.raises(ek.KernelError, match="must be an expectedkernels kernel, such as RBF"):
            ask(P, Q, thing)


def test_kernels_of_others():
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
        with pytest.raises(ek.KernelError, match=r"Got the class .*RBF.*one of it: RBF\(\.\.\.\)"):
            ask(ek.RBF)


@pytest.mark.parametrize("kind", [ek.RBF, ek.Laplacian, ek.ExpHamming])
@pytest.mark.parametrize(
    "gamma", [-1.0, 0.0, np.inf, np.nan, "1", True, [-1.0, 1.0], [np.nan], [[1.0]], 1j]
)
def test_rates(kind, gamma):
    message = rf"'gamma' parameter of {kind.__name__} must be a float in the range \(0, inf\)"
    with pytest.raises(ek.KernelError, match=message):
        kind(gamma)


@pytest.mark.parametrize("weight", [-1.0, 0.0, np.inf, np.nan, -3])
def test_weights_of_sums(weight):
    with pytest.raises(ek.KernelError, match=r"must be a float in the range \(0, inf\)"):
        weight * K
    with pytest.raises(ek.KernelError, match="stay positive definite"):
        K * weight


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0, np.nan, 1]], "must be complete. Got NaN in row 0, column 1.*evidence_p="),
        ([[0, 0, 0], [0, 2, 0]], r"variable 1 must be integers in 0..1. Got 2.0 in row 1"),
        ([[0, 0]], r"must have shape \(rows, 3\): one column per variable. Got shape \(1, 2\)"),
        (np.zeros((1, 1, 3)), r"must have shape \(rows, "),
    ],
)
def test_points(points, message):
    for left, right in ((P, points), (points, P)):
        with pytest.raises(ek.DataError, match=message):
            ek.expected_kernel(left, right, K)
    with pytest.raises(ek.DataError, match=message):
        ek.witness(P, Q, K, points)


@pytest.mark.parametrize("n", [0, 1, 2.5, "3", None])
def test_the_number_of_samples(n):
    with pytest.raises(ek.DataError, match=r"'n' parameter of .* must be an int in the range \[2,"):
        ek.monte_carlo_expected_kernel(P, Q, K, n)


@pytest.mark.parametrize("rows", [1, 40])
def test_evidence_of_probability_zero(rows):
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
        ([np.ones((1, 2)), None], "one array per variable, 3 in all. Got 2"),
        ([-np.ones((1, 2)), None, None], "variable 0 must be finite, non-negative"),
        ({"a": 1}, r"an int in 0..2. Got 'a' instead"),
        ({1: 5}, r"A state of variable 1 is an int in 0..1"),
    ],
)
def test_malformed_evidence(given, message):
    with pytest.raises(ek.EvidenceError, match=message):
        ek.expected_kernel(P, Q, K, evidence_p=given)
    with pytest.raises(ek.EvidenceError, match=message):
        ek.expected_kernel(P, Q, K, evidence_q=given)


def test_a_negative_expectation_has_no_logarithm():
    k = ek.TableKernel([[[1.0, -2.0], [-2.0, 1.0]]])
    p, q = ek.factorized([[1.0, 0.0]]), ek.factorized([[0.0, 1.0]])
    assert_close(ek.expected_kernel(p, q, k), -2.0)
    for left, right in ((p, q), (p, [[1.0]]), ([[0.0]], [[1.0]]), (p, ek.Empirical([[1.0]]))):
        with pytest.raises(ek.KernelError, match="is negative here, so it has no logarithm"):
            ek.expected_kernel(left, right, k, log=True)
