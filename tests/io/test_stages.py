import numpy as np
import pytest

import expectedkernels as ek
from expectedkernels import ParseError, asia

MIXED = ek.FactorGraph([2, 1, 3], [((0, 2), [[1e-230, 1e60, 1e50], [1.0, 2.0, 0.0]])])


@pytest.fixture
def arrays(changed_arrays):
    return changed_arrays(asia().compile()[0])


@pytest.mark.parametrize("model", [asia(), MIXED, ek.FactorGraph([3], [])])
@pytest.mark.parametrize("vtree", [None, "linear"])
def test_round_trips_are_exact(tmp_path, model, vtree):
    circuit, _ = model.compile(vtree and ek.Vtree.right_linear(model.n_variables))
    first = circuit
    for name in ("a", "b"):
        ek.save(circuit, tmp_path / name)
        circuit = ek.load(tmp_path / name)
    assert circuit.schema == model.schema
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    X = circuit.sample(5, rng=0)
    np.testing.assert_array_equal(circuit.log_likelihood(X), first.log_likelihood(X))


def test_units_are_not_in_the_file(tmp_path):
    grid = ek.ising_grid(5, 5, rng=0)
    circuit, _ = grid.compile(max_bytes=grid.messages.table_bytes)
    ek.save(circuit, tmp_path / "grid")
    with pytest.raises(ek.SizeError, match="To write out the units"):
        _ = ek.load(tmp_path / "grid").blocks


def test_missing_arrays(arrays):
    found, reload = arrays
    for name in set(found) - {"version", "schema"}:
        with pytest.raises(ParseError, match=f"expected an array '{name}' of"):
            reload(**{name: None})
    with pytest.raises(ParseError, match="nothing else, found 'kind'"):
        reload(kind=found["context"])


def test_arrays_of_the_wrong_length(arrays):
    found, reload = arrays
    for name in set(found) - {"version", "schema"}:
        for wrong in (found[name][:-1], np.append(found[name], found[name][-1:])):
            with pytest.raises(ParseError, match=r"arrays .* are inconsistent|the vtree is"):
                reload(**{name: wrong})


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("stage_variable", 0, 99, "every variable has one stage"),
        ("stage_states", 0, 0, "every variable has a state"),
        ("stage_states", 0, 3, "'conditionals' has .* entries, which is not what stages need"),
        ("stage_is_log", 0, 2, "tables hold numbers or logarithms"),
        ("stage_is_log", 0, 1, "'conditionals' are probabilities or their logarithms"),
        ("stage_parent", 0, 0, "messages enter later stages"),
        ("stage_parent", 0, 8, "messages enter later stages"),
        ("stage_parent", 0, -1, "messages fit the stages that they enter"),
        ("stage_low", 0, 0.0, "'stage_low' are bounds of the logs of tables"),
        ("stage_low", 0, -np.inf, "'stage_low' are bounds of the logs of tables"),
        ("context", 0, -1, "contexts are made of variables"),
        ("context", 0, 8, "contexts are made of variables"),
        ("context_size", 0, -1, "'context' has .* entries"),
        ("max_bytes", 0, 0, "'max_bytes' is one positive number"),
        ("conditionals", 0, np.nan, "'conditionals' are probabilities or their logarithms"),
        ("conditionals", 0, -0.1, "'conditionals' are probabilities or their logarithms"),
        ("conditionals", 0, 0.123, "conditional probabilities sum to one"),
        ("conditionals", slice(0, None), 0.0, "conditional probabilities sum to one"),
    ],
)
def test_inconsistent_arrays(arrays, name, index, value, message):
    found, reload = arrays
    wrong = found[name].copy()
    wrong[index] = value
    with pytest.raises(ParseError, match=message):
        reload(**{name: wrong})


def test_contexts_that_do_not_fit(arrays):
    found, reload = arrays
    first = found["stage_variable"][0]
    with pytest.raises(ParseError, match="contexts follow the order of stages"):
        reload(context=np.where(np.arange(len(found["context"])) == 0, first, found["context"]))
    balanced = ek.Vtree.balanced(8)
    sides = {f"vtree_{name}": getattr(balanced, name) for name in ("left", "right", "variable")}
    with pytest.raises(ParseError, match="contexts belong to the vtree"):
        reload(**sides)
