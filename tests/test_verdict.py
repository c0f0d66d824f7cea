import pytest

from expectedkernels import Verdict


@pytest.mark.parametrize(
    ("holds", "truth", "word"),
    [(True, True, "yes"), (False, False, "no"), (None, False, "undecided")],
)
def test_verdicts_answer_and_explain(holds, truth, word):
    verdict = Verdict(holds, "because of unit 3")
    assert bool(verdict) is truth
    assert repr(verdict) == str(verdict) == f"{word}: because of unit 3"


def test_verdicts_are_values():
    assert Verdict(True, "a") == Verdict(True, "a")
    assert Verdict(None, "a") != Verdict(False, "a")
    with pytest.raises(AttributeError):
        Verdict(True, "a").holds = False
