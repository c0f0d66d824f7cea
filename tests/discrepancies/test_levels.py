import pytest

from benchmarks import coverage, levels

OPTIONS = ["--repeats", "2", "--n", "10", "--models", "rare bits"]


@pytest.mark.parametrize("power", [False, True])
def test_the_campaign_prints_a_line_for_every_test_and_a_table(power, capsys):
    levels.main([*OPTIONS, *["--power"] * power])
    _, title, header, *lines = capsys.readouterr().out.splitlines()
    assert title == f"{'rejected' if power else 'level'} at 5 %, 2 repetitions"
    assert header.split() == [*levels.CELL, "rejected", "refused", "seconds", "drawn"]
    wanted = sum(len(forms) for _, forms in levels.TESTS.values()) - 2 * power  # trees fit trees
    printed, table = lines[:wanted], lines[wanted:]
    assert all(line.startswith("  rare bits") and " % " in line for line in printed)
    assert table[0] == "| test | form | rare bits |"
    assert len(table) == wanted + 2


@pytest.mark.parametrize("name", ["chain of 30", "weak grid", "strong grid"])
def test_models_have_the_size_that_they_say(name):
    graph = levels.ground_of(name).forms["graph"]
    assert graph.n_variables == (30 if name == "chain of 30" else 25)
    other = levels.changed(graph, 0.1)
    assert [f.scope for f in other.factors] == [f.scope for f in graph.factors]


@pytest.mark.parametrize(("n", "distance"), [(30, 2.0), (100, 3.0), (100, 0.0), (30, 8.0)])
def test_intervals_hold_the_truth_at_every_distance(n, distance):
    case = coverage.Case("bits", "ExpHamming()", 1, n, distance, "one")
    both, low, high, _ = coverage.shares(case, 120, 0.9)
    assert min(low, high) >= 95 - 3 * 2.0
    assert both >= 90 - 3 * 2.8


def test_the_campaign_prints_a_line_for_every_case(capsys):
    coverage.main(
        ["--repeats", "2", "--n", "10", "--dimensions", "1", "2", "--distances", "0", "1"]
    )
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "Intervals of 95 %, 2 repetitions"
    assert len(lines) == 6 * (2 + 3)
    assert all("errors away" in line and "length" in line for line in lines)
