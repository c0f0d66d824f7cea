"""Arguments of the wrong kind are told: what was expected, what was found, what may be meant."""

import numpy as np
import pandas as pd
import pytest

import expectedkernels as ek
from assertions import assert_close

PAIR = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
NAMED = PAIR.with_names(["a", "b"], [["x", "y"], ["u", "v"]])
ASIA = ek.asia()
FRAME = pd.DataFrame({"a": [0]})


@pytest.mark.parametrize("variables", [2.0, "3", True, None, [0, "1"]])
def test_variables_of_a_vtree_are_ints(variables):
    with pytest.raises(ek.VtreeError, match=r"an int .how many there are. or a list of ints. Got"):
        ek.Vtree.balanced(variables)


@pytest.mark.parametrize(
    ("make", "match"),
    [
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
    ],
)
def test_builders_say_what_they_take(make, match):
    with pytest.raises(ek.CircuitError, match=match):
        make()


@pytest.mark.parametrize(
    ("write", "given", "match"),
    [
        (ek.write_psdd, FRAME, "A .psdd file does not hold a DataFrame"),
        (ek.write_jpc, ASIA, r"ends in .uai or .bif, or save its circuit, model.circuit\(\)"),
        (ek.io.write_spn, ek.Categorical(0, [0.5, 0.5]), r"Save Circuit.from_units\(root\)"),
        (ek.write_uai, PAIR, r"A .uai file does not hold a Circuit. Save it to .* \.npz"),
        (ek.write_vtree, PAIR, "or save its vtree, circuit.vtree"),
        (ek.io.write_uai_evidence, FRAME, "not hold a DataFrame, but mappings"),
        (ek.io.write_uai_evidence, [[0, 1]], "not hold a list, but mappings"),
    ],
)
def test_files_say_what_they_hold(tmp_path, write, given, match):
    path = tmp_path / "file"
    with pytest.raises(ek.CircuitError, match=match):
        write(given, path)
    assert not path.exists()
    with pytest.raises(ek.CircuitError, match=r"hold a str\b.* The path comes second"):
        write("file", PAIR)


@pytest.mark.parametrize("path", [1, None, FRAME])
@pytest.mark.parametrize("read", [ek.load, ek.read_uai, lambda path: ek.save(PAIR, path)])
def test_paths_are_paths(read, path):
    with pytest.raises(ek.CircuitError, match=r"path of a file is text or a Path. Got"):
        read(path)


def test_names_and_states_that_are_ambiguous():
    circuit = PAIR.with_names([1, 0])
    assert circuit.marginals({"1": 0})["0"].tolist() == [0.5, 0.5]
    with pytest.raises(ek.EvidenceError, match=r"1 could be the number of a variable or the name"):
        circuit.marginals({1: 0})
    years = PAIR.with_names([1990, 2000])
    assert years.marginals({2000: 1})["2000"].tolist() == [0, 1]
    with pytest.raises(ek.EvidenceError, match=r"A state of variable 0 \('a'\) is .* Got \{'x':"):
        NAMED.marginals({"a": {"x": 1}})
    with pytest.raises(ek.EvidenceError, match=r"for states write set\(range\(0, 2\)\)"):
        NAMED.marginals({"a": range(2)})


def test_tensors_that_numpy_does_not_know():
    torch = pytest.importorskip("torch")

    class Guarded(torch.Tensor):
        def __array__(self, *args, **kwargs):
            raise TypeError("not as an array of NumPy")

    X = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    expected = PAIR.log_likelihood(X.numpy())
    for tensor in (
        X.bfloat16(),
        X.to_sparse(),
        X.as_subclass(Guarded),
    ):
        assert_close(PAIR.log_likelihood(tensor), expected)
    assert_close(NAMED.marginals({"a": torch.tensor(1)})["a"], [0.0, 1.0])
    with pytest.raises(ek.CircuitError, match=r"cannot be read as an array of numbers: .*meta"):
        PAIR.log_likelihood(X.to("meta"))
