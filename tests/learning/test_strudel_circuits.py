"""What Strudel learns: validation, interrupts, weights of rows, missing values."""

from io import StringIO

import numpy as np
import pytest
from hypothesis import given, settings

import expectedkernels as ek
from assertions import assert_close
from expectedkernels import learn_chow_liu, learn_strudel
from learning_searches import assert_same_circuit, random_rows, steps
from oracles import distribution
from strategies import domains, rngs


@given(rngs, domains(max_worlds=16, max_variables=4))
@settings(max_examples=30)
def test_all_splits_together_represent_the_data_exactly(rng, cardinalities):
    X = random_rows(rng, cardinalities, 20)
    p = learn_strudel(X, iterations=10_000, pseudocount=0.0, cardinalities=cardinalities)
    _, place, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    np.testing.assert_allclose(np.exp(p.log_likelihood(X)), counts[place.ravel()] / 20)


@pytest.fixture(scope="module")
def clusters():
    """Training, validation and test rows of nine variables."""
    rng = np.random.default_rng(5)
    X = random_rows(rng, [2, 2, 3, 2, 2, 4, 2, 2, 2], 1500)
    return X[:700], X[700:1000], X[1000:]


def test_the_callback_hears_of_every_split(clusters):
    p, told = steps(clusters[0], iterations=20)
    assert [step.iteration for step in told] == list(range(1, 21))
    assert_close(np.float64(told[-1].log_likelihood), p.log_likelihood(clusters[0]).mean())
    assert all(step.valid_log_likelihood is None for step in told)
    sizes = [(step.units, step.decisions, step.elements) for step in told]
    assert sizes == sorted(sizes)
    _, told = steps(clusters[0], clusters[1], 5)
    assert all(step.valid_log_likelihood < 0 for step in told)


def test_no_split_is_the_chow_liu_tree(clusters):
    p, q = learn_strudel(clusters[0], iterations=0), learn_chow_liu(clusters[0])
    assert p.vtree == q.vtree
    assert_close(p.log_likelihood(clusters[2]), q.log_likelihood(clusters[2]))


def test_one_variable_has_nothing_to_split():
    p, told = steps([[0], [1], [1]], iterations=5, pseudocount=0.0)
    assert told == []
    np.testing.assert_allclose(distribution(p), [1 / 3, 2 / 3])


def test_no_rows():
    p = learn_strudel(np.zeros((0, 3)), cardinalities=[2, 3, 2], iterations=4)
    np.testing.assert_allclose(distribution(p), 1 / 12)
    p = learn_strudel(np.zeros((0, 2)), [[0, np.nan]], 0, cardinalities=2)
    np.testing.assert_allclose(distribution(p), 1 / 4)


def test_validation_rows_choose_the_circuit(clusters):
    train, valid, _ = clusters
    p, told = steps(train, valid, 2000, patience=30)
    values = [step.valid_log_likelihood for step in told]
    best = int(np.argmax(values))
    assert len(told) == best + 1 + 30
    assert_close(np.float64(values[best]), p.log_likelihood(valid).mean())
    same = learn_strudel(train, iterations=best + 1)
    assert_same_circuit(p, same)


def test_the_tree_may_be_the_best(clusters):
    """Validation rows from elsewhere never improve."""
    train, valid, _ = clusters
    noise = np.random.default_rng(0).integers(2, size=valid.shape)
    p, told = steps(train, noise, 300, patience=7, pseudocount=0.01)
    values = [step.valid_log_likelihood for step in told]
    tree = learn_chow_liu(train, 0.01)
    best = max(tree.log_likelihood(noise).mean(), *values)
    assert_close(p.log_likelihood(noise).mean(), np.float64(best))


def test_patience_can_be_infinite(clusters):
    _, told = steps(clusters[0], clusters[0][:1], 150, patience=None)
    assert len(told) == 150


@pytest.mark.parametrize("holes", [False, True])
def test_an_interrupt_returns_the_best_circuit_so_far(clusters, holes):
    X = clusters[0][:200].astype(float)
    if holes:
        X[::3, 4] = np.nan

    def stop(step):
        if step.iteration == 4:
            raise KeyboardInterrupt

    p = learn_strudel(X, callback=stop)
    assert_same_circuit(p, learn_strudel(X, iterations=4))


def test_progress_is_quiet_without_a_terminal(clusters, capsys):
    learn_strudel(clusters[0], iterations=3)
    learn_strudel(clusters[0], iterations=3, progress=False)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


class Terminal(StringIO):
    """Something that looks like a terminal."""

    def isatty(self):
        return True


def test_progress_tells_of_an_interrupt_on_a_terminal(clusters, monkeypatch):
    def stop(step):
        raise KeyboardInterrupt

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    learn_strudel(clusters[0], clusters[1], callback=stop)
    assert "Strudel was interrupted: returning the best circuit so far" in terminal.getvalue()


@given(rngs, domains(min_variables=2, max_variables=5))
@settings(max_examples=20)
def test_integer_weights_are_repeated_rows(rng, cardinalities):
    X = random_rows(rng, cardinalities, 20)
    weights = rng.integers(0, 4, size=20)
    weights[0] = 1
    options = {"iterations": 8, "pseudocount": 0.0, "cardinalities": cardinalities}
    p = learn_strudel(X, sample_weight=weights, **options)
    q = learn_strudel(np.repeat(X, weights, axis=0), **options)
    assert_same_circuit(p, q)


def test_the_scale_of_weights_only_matters_beside_alpha(clusters):
    X = clusters[0]
    p = learn_strudel(X, iterations=20, sample_weight=np.full(len(X), 0.3), alpha=0.3)
    q = learn_strudel(X, iterations=20)
    assert_close(p.log_likelihood(X), q.log_likelihood(X))


def test_weights_change_what_is_learned(clusters):
    X = clusters[0]
    weights = np.where(X[:, 0] == 1, 20.0, 0.01)
    p = learn_strudel(X, iterations=20, sample_weight=weights)
    assert p.marginals()[0][1] > 0.99


def test_the_order_of_rows_does_not_matter(clusters):
    X = clusters[0]
    shuffled = np.random.default_rng(0).permutation(X)
    assert_same_circuit(learn_strudel(X, iterations=40), learn_strudel(shuffled, iterations=40))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": -1}, r"'iterations' parameter of learn_strudel must be an int in .*Got -1"),
        ({"iterations": 2.0}, r"'iterations' .* must be an int in the range \[0, inf\). Got 2.0"),
        ({"pseudocount": -0.5}, r"'pseudocount' .* in the range \[0, inf\). Got -0.5 instead"),
        ({"alpha": "1"}, r"'alpha' parameter of learn_strudel must be a float"),
        ({"patience": 0}, r"'patience' .* an int in the range \[1, inf\) or None. Got 0 instead"),
        ({"callback": 3}, r"'callback' .* a function of one argument or None. Got 3 instead"),
    ],
)
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(ek.CircuitError, match=message):
        learn_strudel([[0, 1], [1, 0]], **options)


@pytest.fixture(scope="module")
def nltcs(data_dir):
    return [
        np.loadtxt(data_dir / "density" / f"nltcs.{part}.data", delimiter=",", dtype=np.intp)
        for part in ("train", "valid", "test")
    ]


@pytest.mark.parametrize(
    ("iterations", "size", "means"),
    [
        (200, (619, 917), (-6.1149, -6.0920, -6.1347)),
        (500, (1575, 2382), (-6.0184, -6.0073, -6.0677)),
    ],
)
def test_nltcs(nltcs, iterations, size, means):
    p, told = steps(nltcs[0], iterations=iterations)
    assert (told[-1].decisions, told[-1].elements) == size
    found = [float(p.log_likelihood(X).mean()) for X in nltcs]
    np.testing.assert_allclose(found, means, rtol=0, atol=5e-5)
    assert ek.properties(p).deterministic


def test_missing_values(clusters):
    train, valid, test = (X.astype(float) for X in clusters)
    rng = np.random.default_rng(0)
    holes = np.where(rng.random(train.shape) < 0.2, np.nan, train)
    valid = np.where(rng.random(valid.shape) < 0.2, np.nan, valid)
    tree = learn_chow_liu(holes)
    p, told = steps(holes, iterations=25)
    assert ek.properties(p).deterministic
    assert p.vtree == tree.vtree
    assert p.log_likelihood(holes).mean() >= told[-1].log_likelihood - 1e-9
    assert p.log_likelihood(test).mean() > tree.log_likelihood(test).mean() + 0.03
    q, told = steps(holes, valid, 25, patience=5)
    assert ek.properties(q).deterministic
    assert len(told) <= 25


def test_missing_values_of_validation_rows_only(clusters):
    train, valid, _ = clusters
    holes = valid.astype(float)
    holes[:5, 2] = np.nan
    p, told = steps(train, holes, 10)
    values = [step.valid_log_likelihood for step in told]
    q = learn_strudel(train, iterations=1 + int(np.argmax(values)))
    assert_close(p.log_likelihood(valid), q.log_likelihood(valid))
    assert_close(np.float64(max(values)), p.log_likelihood(holes).mean())
