"""Models and data over the same variables, in any order: files, networks, frames, tests."""

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_close

ONE = """network a {{}}
variable rain {{ type discrete [ 2 ] {{ no, yes }}; }}
variable sky {{ type discrete [ 3 ] {{ blue, grey, black }}; }}
variable wet {{ type discrete [ 2 ] {{ no, yes }}; }}
probability ( sky ) {{ table {sky}; }}
probability ( rain | sky ) {{ (blue) 0.95, 0.05; (grey) 0.6, 0.4; (black) 0.1, 0.9; }}
probability ( wet | rain, sky ) {{
  (no, blue) 0.9, 0.1; (no, grey) 0.8, 0.2; (no, black) 0.7, 0.3;
  (yes, blue) 0.3, 0.7; (yes, grey) 0.2, 0.8; (yes, black) 0.1, 0.9; }}
""".format(sky="0.5, 0.3, 0.2")
OTHER = """network b {}
variable wet { type discrete [ 2 ] { yes, no }; }
variable sky { type discrete [ 3 ] { black, blue, grey }; }
variable rain { type discrete [ 2 ] { yes, no }; }
probability ( wet | sky, rain ) {
  (blue, no) 0.1, 0.9; (grey, no) 0.2, 0.8; (black, no) 0.3, 0.7;
  (blue, yes) 0.7, 0.3; (grey, yes) 0.8, 0.2; (black, yes) 0.9, 0.1; }
probability ( sky ) { table 0.2, 0.5, 0.3; }
probability ( rain | sky ) { (black) 0.9, 0.1; (blue) 0.05, 0.95; (grey) 0.4, 0.6; }
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks")
    found = []
    for name, text in (("a.bif", ONE), ("b.bif", OTHER)):
        (folder / name).write_text(text)
        found.append(ek.read_bif(folder / name))
    return found


def test_one_network_in_two_orders_is_one_distribution(models):
    one, other = models
    assert one.names != other.names
    for p, q in (
        (one, other),
        (one.compile()[0], other),
        (one, other.compile()[0]),
    ):
        assert ek.mmd(p, q) < 1e-8
    first = one.compile(ek.Vtree.right_linear([0, 1, 2]))[0]
    with pytest.raises(ek.CompatibilityError, match=r"model\.circuit\(p\.vtree\)"):
        ek.mmd(first, other.compile(ek.Vtree.right_linear([0, 1, 2]))[0])
    assert ek.mmd(one, other) == pytest.approx(0.0, abs=1e-8)
    assert abs(ek.kdsd(one, other)) < 1e-12
    estimate, error = ek.monte_carlo_expected_kernel(one, other, ek.Delta(), 20_000, rng=0)
    assert abs(estimate - ek.expected_kernel(one, one, ek.Delta())) < 5 * error


def test_frames_in_any_order_give_the_same_answers(models):
    one, other = models
    frame = one.sample(300, rng=0, as_frame=True)
    mixed = frame[["wet", "rain", "sky"]]
    assert_close(other.log_likelihood(mixed), one.log_likelihood(frame))
    assert_close(ek.mmd(one, mixed), ek.mmd(one, frame))
    assert_close(ek.mmd(other, mixed), ek.mmd(one, frame))
    values = [ek.kdsd_test(x, one, rng=0) for x in (frame, mixed, one.schema.read_frame(mixed))]
    assert values[0].p_value == values[1].p_value == values[2].p_value
    assert values[0].p_value > 0.05
    assert_close(ek.kdsd_test(mixed, other, rng=0).statistic, values[0].statistic)
    weighted = [ek.bbis(one, x).weights for x in (frame, mixed)]
    assert_close(weighted[0], weighted[1])


def test_models_answer_for_themselves(models):
    one, _ = models
    circuit, _ = one.compile()
    assert_close(one.marginals({"rain": "yes"})["sky"], circuit.marginals({"rain": "yes"})["sky"])
    assert one.map({"wet": "yes"}).to_dict("records") == [
        {"rain": "yes", "sky": "black", "wet": "yes"}
    ]
    X = one.sample(10, rng=1)
    assert_close(one.log_likelihood(X), one.log_score(X))
    np.testing.assert_array_equal(X, circuit.sample(10, rng=1))


def test_what_does_not_match_is_refused_by_name(models):
    one, other = models
    renamed = ek.BayesianNetwork(other.parents, other.cpts, ["wet", "sky", "snow"], other.states)
    with pytest.raises(ek.CompatibilityError, match="Only the first has 'rain', only the second"):
        ek.mmd(one, renamed)
    frame = one.sample(5, rng=0, as_frame=True).drop(columns="sky")
    with pytest.raises(ek.DataError, match="lacks columns that the model has: 'sky'"):
        ek.mmd(one, frame)
    with pytest.raises(ek.DataError, match="'sky'"):
        ek.kdsd_test(frame, one)


def test_formats_without_names_are_given_some(tmp_path):
    p = ek.factorized([[0.2, 0.8], [0.5, 0.5]])
    names, states = ["rain", "wet"], [["no", "yes"], ["dry", "wet"]]
    ek.write_psdd(p, tmp_path / "a.psdd")
    ek.write_jpc(p, tmp_path / "a.jpc")
    ek.io.write_spn(p, tmp_path / "a.spn")
    for name, read in (("a.psdd", ek.read_psdd), ("a.jpc", ek.read_jpc), ("a.spn", ek.io.read_spn)):
        found = read(tmp_path / name, names=names, states=states)
        assert (found.names, found.states) == (("rain", "wet"), (("no", "yes"), ("dry", "wet")))
        assert read(tmp_path / name).names is None
    ek.write_uai(ek.asia(), tmp_path / "a.uai")
    again = ek.read_uai(tmp_path / "a.uai", names=ek.asia().names, states=ek.asia().states)
    assert ek.mmd(again, ek.asia()) < 1e-7
    assert isinstance(again, ek.BayesianNetwork)


def test_targets_may_be_models_of_others(gum):
    asia = ek.asia()
    theirs, pgmpy = ek.models.to_pyagrum(asia), ek.models.to_pgmpy(asia)
    X = asia.sample(40, rng=0, as_frame=True)
    wanted = ek.bbis(asia, X).weights
    for model in (theirs, pgmpy):
        np.testing.assert_allclose(ek.bbis(model, X).weights, wanted, atol=1e-12)
        assert_close(
            ek.kdsd_test(X, model, rng=0).statistic, ek.kdsd_test(X, asia, rng=0).statistic
        )
        chain = ek.collapsed_gibbs(model, 3, ["either"], burn_in=5, rng=0)
        assert chain.shape == (3, 8)
        assert ek.cis(model, 5, 2, rng=0).marginals()["lung"].shape == (2,)
        assert ek.collapsed_bbis(model, X, ["either"]).n == 40
        smooth = ek.as_model(model).smoothed(0.01)
        assert abs(ek.kdsd(ek.models.to_pyagrum(smooth), smooth)) < 1e-9


def test_kernels_that_take_text_for_numbers_are_noticed():
    p = ek.factorized([[0.2, 0.3, 0.5], [0.5, 0.5]])
    named = p.with_names(["sky", "rain"], [["blue", "grey", "black"], ["no", "yes"]])
    with pytest.warns(
        UserWarning, match=r"RBF\(gamma=0.5\) compares the codes .*'sky'.*ExpHamming"
    ):
        assert ek.expected_kernel(named, named, ek.RBF(0.5)) == ek.expected_kernel(
            p, p, ek.RBF(0.5)
        )
    ek.expected_kernel(named, named, ek.RBF([0.0, 0.5]) * ek.ExpHamming())
    numbered = p.with_names(["cylinders", "rain"], [[4, 6, 8], ["no", "yes"]])
    ek.expected_kernel(numbered, numbered, ek.RBF(0.5))
