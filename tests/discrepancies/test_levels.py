import pytest

from benchmarks import levels


@pytest.mark.parametrize("power", [False, True])
def test_the_campaign_prints_a_line_for_every_test(power, capsys):
    options = ["--repeats", "2", "--n", "10", "--models", "rare bits", *["--power"] * power]
    levels.main(options)
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == f"{'rejected' if power else 'level'} at 5 %, 2 repetitions"
    assert len(lines) == sum(len(forms) for _, forms in levels.TESTS.values())
    assert all("rare bits" in line and " % " in line for line in lines)


@pytest.mark.parametrize("name", ["chain of 30", "weak grid", "strong grid"])
def test_models_have_the_size_that_they_say(name):
    graph = levels.MODELS[name]()
    assert graph.n_variables == (30 if name == "chain of 30" else 25)
    other = levels.changed(graph, 0.1)
    assert [f.scope for f in other.factors] == [f.scope for f in graph.factors]
