"""Wrong questions: each gets an error that says what is wrong, what was found and what to do."""

import gc
import weakref

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import kernels as sklearn_kernels

import expectedkernels as ek
from assertions import assert_close, assert_raises, refusals

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
test_expectations_that_are_refused = refusals(None, [
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
    (REAL, REAL, ek.KernelCircuit(ek.Product(UNITS[:2])), {}, ek.KernelError,
     r"\[None, None\] states \(None: a real variable\)"),
    (P, ek.Empirical([[0, 2, 0]]), K, {}, ek.DataError, "variable 1 must be integers"),
    (REAL, [[0.0, np.inf]], K, {}, ek.DataError, "variable 1 must be finite. Got inf in row 0"),
    (REAL, [[0.0, np.nan]], K, {}, ek.DataError, "must be complete. Got NaN"),
    (P, ROW, K, {"evidence_q": ROW}, ek.DataError, OF_POINTS.format("q")),
    (ek.Empirical(ROW), P, K, {"evidence_p": ROW}, ek.DataError, OF_POINTS.format("p")),
    (ROW, ROW, K, {"evidence_p": ROW}, ek.DataError, OF_POINTS.format("p")),
    (REAL, REAL, K, {"evidence_p": [[np.inf, 0]]}, ek.EvidenceError, "0 must be finite. Got inf"),
    (REAL, REAL, K, {"evidence_p": [np.ones((1, 2)), None]}, ek.EvidenceError, "one finite value"),
    (ek.algebra.stack([P, Q]), P, K, {"evidence_p": ROW}, ek.CircuitError,
     r"Conditioning \(evidence_p\) needs a circuit with one root. Got 2 roots"),
    (P, [["a", "b", "c"]], K, {}, ek.DataError, "must be arrays of numbers"),
    (SIGNED, SIGNED, ek.Delta(), {"evidence_p": [[1.0]]}, ek.PropertyError, "negative"),
], lambda p, q, k, options: ek.expected_kernel(p, q, k, **options))  # fmt: skip


def made_of(*units):
    return lambda: ek.KernelCircuit(*units)


def mixed(weight):
    near = ek.Product([ek.kernels.kernel_input(0, np.eye(2) + 1), UNITS[1]])
    return ek.Sum([ek.Product(UNITS[:2]), near], [2.0, weight])


test_calls_that_are_refused = refusals(None, [
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
    (made_of(ek.Sum(UNITS[:2], [0.5, 0.5])), ek.PropertyError,
     r"not smooth: (?!.*smooth=True).* kernel_input\(v, "),
    (lambda: NESTED([[2, 0, 0]]), ek.DataError, "variable 0 must be integers in 0..1. Got 2.0"),
    (lambda: NESTED([[0, 0]]), ek.DataError, "one column per variable"),
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
    (lambda: ek.monte_carlo_expected_kernel(P, ek.Empirical([ROW[0]] * 2, [1, -1]), K, 10),
     ek.DataError, "negative weights cannot be sampled"),
    (lambda: ek.monte_carlo_expected_kernel(SIGNED, SIGNED, K, 10), ek.PropertyError, "negative"),
    *((lambda n=n: ek.monte_carlo_expected_kernel(P, Q, K, n), ek.DataError,
       r"'n' parameter of .* must be an int in the range \[2,") for n in (0, 1, 2.5, "3", None)),
])  # fmt: skip


POINTS = [[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0]]
TAKERS = {
    "expected_kernel": lambda k: ek.expected_kernel(P, Q, k),
    "monte_carlo": lambda k: ek.monte_carlo_expected_kernel(P, Q, k, 10),
    "explain": lambda k: ek.explain(P, Q, k),
    "is_kernel_compatible": lambda k: ek.is_kernel_compatible(k, P, Q),
    "mmd": lambda k: ek.mmd(P, Q, k),
    "mmd_test": lambda k: ek.mmd_test(POINTS, P, k),
    "choose_kernel": lambda k: ek.choose_kernel(POINTS, P, [k]),
    "kdsd": lambda k: ek.kdsd(P, Q, k),
    "SteinKernel": lambda k: ek.SteinKernel(P, k),
    "bbis": lambda k: ek.bbis(P, POINTS, k),
    "stein_thin": lambda k: ek.stein_thin(P, POINTS, 1, kernel=k),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize(("thing", "message"), [
    *((thing, "must be an expectedkernels kernel, such as") for thing in (np.eye(2), "rbf", max)),
    (sklearn_kernels.RBF(2.0), r"Got sklearn\.gaussian_process\.kernels\.RBF instead\. There is an "
     r"expectedkernels\.RBF: use that with gamma = 1 / \(2 length_scale\^2\)"),
    (sklearn_kernels.Matern(), r"kernels\.Matern instead\.$"),
    (ek.RBF, r"Got the class .*RBF.*one of it: RBF\(\.\.\.\)"),
], ids=["array", "text", "function", "RBF of scikit-learn", "Matern", "class"])  # fmt: skip
def test_what_is_no_kernel_is_refused(taker, thing, message):
    assert_raises(ek.KernelError, message, TAKERS[taker], thing)


@pytest.mark.parametrize("kind", [ek.RBF, ek.Laplacian, ek.ExpHamming])
@pytest.mark.parametrize(
    "gamma", [-1.0, 0.0, np.inf, np.nan, "1", True, [-1.0, 1.0], [np.nan], [[1.0]], 1j]
)
def test_rates(kind, gamma):
    message = rf"'gamma' parameter of {kind.__name__} must be a float in the range \(0, inf\)"
    assert_raises(ek.KernelError, message, kind, gamma)


@pytest.mark.parametrize("weight", [-1.0, 0.0, np.inf, np.nan, -3])
def test_weights_of_sums(weight):
    with pytest.raises(ek.KernelError, match=r"must be a float in the range \(0, inf\)"):
        weight * K
    with pytest.raises(ek.KernelError, match="stay positive definite"):
        K * weight


@pytest.mark.parametrize(("points", "message"), [
    ([[0, np.nan, 1]], "must be complete. Got NaN in row 0, column 1.*evidence_p="),
    ([[0, 0, 0], [0, 2, 0]], r"variable 1 must be integers in 0..1. Got 2.0 in row 1"),
    ([[0, 0]], r"must have shape \(rows, 3\): one column per variable. Got shape \(1, 2\)"),
    (np.zeros((1, 1, 3)), r"must have shape \(rows, "),
    ([0, 0, 0], r"must be a 2-D array.*X.reshape\(1, -1\) if they are a single row"),
])  # fmt: skip
def test_points(points, message):
    for left, right in ((P, points), (points, P)):
        assert_raises(ek.DataError, message, ek.expected_kernel, left, right, K)
    assert_raises(ek.DataError, message, ek.witness, P, Q, K, points)


@pytest.mark.parametrize("rows", [1, 40])
def test_evidence_of_probability_zero(rows):
    p = ek.factorized([[0.5, 0.5], [0.0, 1.0], [0.3, 0.7]])
    E = np.full((rows, 3), np.nan)
    E[-1, 1] = 0.0
    message = rf"evidence in row {rows - 1} has probability zero under the circuit"
    assert_raises(ek.EvidenceError, message, ek.expected_kernel, p, p, K, evidence_p=E)
    assert_raises(ek.EvidenceError, message, ek.expected_kernel, [[0, 0, 0]], p, K, evidence_q=E)


@pytest.mark.parametrize("zero", [0, 2])
def test_impossible_rows_of_collapsed_graphs_are_those_of_the_table(zero):
    table = [[1.0, 0.5], [0.5, 0.0]]
    graph = ek.FactorGraph([2] * 3, [((0, 1), table), ((1, 2), table)])
    rows = np.array([[0, 0, 0]] * 4 + [[0, 1, 0]] * 2 + [[1, 1, 0]] + [[0, 0, 1]] * 5)
    logs = np.where(np.arange(len(rows)) < zero, -np.inf, 0.0)
    with pytest.raises(ek.EvidenceError, match="evidence in row 6 has probability zero"):
        ek.collapsed_bbis(graph, rows, [2], log_weights=logs)


@pytest.mark.parametrize(("given", "message"), [
    (np.zeros((2, 2)), r"must have shape \(rows, 3\): one column per variable"),
    ({"a": 1}, r"an int in 0..2. Got 'a' instead"),
])  # fmt: skip
def test_malformed_evidence(given, message):
    assert_raises(ek.EvidenceError, message, ek.expected_kernel, P, Q, K, evidence_p=given)
    assert_raises(ek.EvidenceError, message, ek.expected_kernel, P, Q, K, evidence_q=given)


def test_a_negative_expectation_has_no_logarithm():
    k = ek.TableKernel([[[1.0, -2.0], [-2.0, 1.0]]])
    p, q = ek.factorized([[1.0, 0.0]]), ek.factorized([[0.0, 1.0]])
    assert_close(ek.expected_kernel(p, q, k), -2.0)
    for left, right in ((p, q), (p, [[1.0]]), ([[0.0]], [[1.0]]), (p, ek.Empirical([[1.0]]))):
        with pytest.raises(ek.KernelError, match="is negative here, so it has no logarithm"):
            ek.expected_kernel(left, right, k, log=True)


NEAR = np.array([[1.0, 0.5], [0.5, 1.0]])


def test_circuits_share_no_memory_and_are_forgotten():
    a, table, rate = np.array([0.2, 0.8]), NEAR.copy(), np.array([0.1, 0.2])
    X, w = np.array([[0.0, 1.0]]), np.array([1.0])
    p, q = ek.factorized([a, [0.5, 0.5]]), ek.Empirical(X, w)
    kernels = [ek.TableKernel([table, NEAR]), ek.RBF(rate)]
    before = [ek.expected_kernel(p, q, k) for k in kernels]
    for array in (a, table, rate, X, w):
        array += 1.0
    assert [ek.expected_kernel(p, q, k) for k in kernels] == before
    p = ek.random_circuit(ek.Vtree.balanced(16), 3, rng=0)
    ek.expected_kernel(p, p, ek.RBF(0.1))
    gone = weakref.ref(p.blocks[-1])
    del p
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("budget", [0, -5, "1 GiB"])
@pytest.mark.parametrize("call", [
    lambda n: ek.expected_kernel(P, P, K, max_bytes=n),
    lambda n: ek.kdsd(P, Q, K, max_bytes=n),
    lambda n: ek.kdsd(POINTS, P, K, max_bytes=n),
    lambda n: ek.bbis(P, POINTS, max_bytes=n),
    lambda n: ASIA.compile(max_bytes=n),
])  # fmt: skip
def test_memory_budgets_are_positive(call, budget):
    assert_raises(ek.CircuitError, "'max_bytes' parameter must be a positive int", call, budget)


def test_unit_graphs_with_products_of_different_widths_meet_on_a_common_vtree():
    leaves = [ek.Categorical(v, [0.3, 0.7]) for v in range(3)]
    wide = ek.Product(leaves)
    narrow = ek.Product([ek.Product(leaves[:2]), leaves[2]])
    other = ek.Product([leaves[0], ek.Product(leaves[1:])])
    k = ek.RBF(0.4)
    p = ek.factorized([[0.3, 0.7]] * 3)
    exact = ek.expected_kernel(p, p, k)
    for a, b in [(wide, narrow), (narrow, other), (wide, wide)]:
        assert_close(ek.expected_kernel(a, b, k), exact)
    mixed = ek.Sum([narrow, other], [0.5, 0.5])
    assert_close(ek.expected_kernel(mixed, mixed, k), exact)


PAIR = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
NAMED = PAIR.with_names(["a", "b"], [["x", "y"], ["u", "v"]])
ASIA = ek.asia()
FRAME = pd.DataFrame({"a": [0]})
BITS = np.array([[0, 1], [1, 0], [1, 1]])


@pytest.mark.parametrize("draw", [
    lambda rng: PAIR.sample(2, rng=rng),
    lambda rng: ek.Categorical(0, [0.5, 0.5]).sample(2, rng=rng),
    lambda rng: ek.Vtree.random(3, rng=rng),
    lambda rng: ek.random_circuit(3, 2, rng=rng),
    lambda rng: ek.ising_grid(2, 2, rng=rng),
    lambda rng: ek.monte_carlo_expected_kernel(PAIR, PAIR, ek.RBF(1.0), 5, rng=rng),
    lambda rng: ek.learn_mixture(BITS, 2, rng=rng),
    lambda rng: ek.kdsd_test(BITS, PAIR, rng=rng),
])  # fmt: skip
def test_seeds_are_numbers(draw):
    assert_raises(ek.CircuitError, r"'rng' parameter must be .* Got 'a' instead", draw, "a")


test_builders_say_what_they_take = refusals(ek.CircuitError, [
    (lambda: ek.mixture(PAIR), "Circuits must be a list. Got Circuit instead"),
    (lambda: ek.mixture([PAIR, ASIA]), r"a model becomes one by model.circuit\(\)"),
    (lambda: ek.mixture([ek.Categorical(0, [0.5, 0.5])]), "Circuit.from_units makes one"),
    (lambda: ek.mixture([PAIR, PAIR], ["a", "b"]), "must be arrays of numbers.* Got text, 'a'"),
    (lambda: ek.vtrees.align(PAIR, ASIA), "align works on Circuits. Got BayesianNetwork"),
    (lambda: ek.factorized([["a", "b"]]), "Tables, .* must be arrays of numbers"),
    (lambda: ek.factorized(None), "Tables must be a list. Got NoneType"),
    (lambda: ek.random_circuit((0, 1), 2), "Vtree.from_nested makes one of nested pairs"),
    (lambda: ek.TableKernel([["a"]]), "tables of a kernel must be arrays of numbers"),
    (lambda: ek.vtrees.min_fill_order(ASIA), "the set of neighbours .* Give model.graph"),
    (lambda: ek.vtrees.elimination_vtree(3), "the set of neighbours of every variable. Got"),
    (lambda: PAIR.with_names({0: "a", 1: "b"}), r"Got \{0: 'a', 1: 'b'\}; give a sequence"),
    (lambda: PAIR.with_names(3), "names of the variables .* Got 3; give a sequence"),
    (lambda: PAIR.with_names(["a", None]), "none of which is missing"),
    (lambda: PAIR.with_names(["a", "b"], [[np.nan, 1], None]), "none of which is missing"),
    (lambda: PAIR.sample(1, rng=True), "'rng' parameter must be .* Got True"),
])  # fmt: skip


@pytest.mark.parametrize(("write", "given", "match"), [
    (ek.write_psdd, FRAME, "A .psdd file does not hold a DataFrame"),
    (ek.write_jpc, ASIA, r"ends in .uai or .bif, or save its circuit, model.circuit\(\)"),
    (ek.io.write_spn, ek.Categorical(0, [0.5, 0.5]), r"Save Circuit.from_units\(root\)"),
    (ek.write_uai, PAIR, r"A .uai file does not hold a Circuit. Save it to .* \.npz"),
    (ek.write_vtree, PAIR, "or save its vtree, circuit.vtree"),
    (ek.io.write_uai_evidence, FRAME, "not hold a DataFrame, but mappings"),
    (ek.io.write_uai_evidence, [[0, 1]], "not hold a list, but mappings"),
])  # fmt: skip
def test_files_say_what_they_hold(tmp_path, write, given, match):
    path = tmp_path / "file"
    assert_raises(ek.CircuitError, match, write, given, path)
    assert not path.exists()
    assert_raises(ek.CircuitError, r"hold a str\b.* The path comes second", write, "file", PAIR)


@pytest.mark.parametrize("path", [1, None, FRAME])
@pytest.mark.parametrize("read", [ek.load, ek.read_uai, lambda path: ek.save(PAIR, path)])
def test_paths_are_paths(read, path):
    assert_raises(ek.CircuitError, r"path of a file is text or a Path. Got", read, path)


def test_names_and_states_that_are_ambiguous():
    circuit = PAIR.with_names([1, 0])
    assert circuit.marginals({"1": 0})["0"].tolist() == [0.5, 0.5]
    assert_raises(ek.EvidenceError, r"1 could be the number of a", circuit.marginals, {1: 0})
    years = PAIR.with_names([1990, 2000])
    assert years.marginals({2000: 1})["2000"].tolist() == [0, 1]
    with pytest.raises(ek.EvidenceError, match=r"A state of variable 0 \('a'\) is .* Got \{'x':"):
        NAMED.marginals({"a": {"x": 1}})
    with pytest.raises(ek.EvidenceError, match=r"for states write set\(range\(0, 2\)\)"):
        NAMED.marginals({"a": range(2)})


def test_tensors_that_numpy_does_not_know():
    torch = pytest.importorskip("torch")
    X = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    expected = PAIR.log_likelihood(X.numpy())
    for tensor in (X.bfloat16(), X.to_sparse()):
        assert_close(PAIR.log_likelihood(tensor), expected)
    assert_close(NAMED.marginals({"a": torch.tensor(1)})["a"], [0.0, 1.0])
    assert_raises(ek.CircuitError, r"cannot be read as an array", PAIR.log_likelihood, X.to("meta"))
