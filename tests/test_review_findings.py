"""Numbers that are written as text, with marks of missing values among them."""

import pytest

from cli_files import invoke


@pytest.mark.parametrize(
    "words",
    [
        ("3,300 g", "2,100 g", "-"),
        ("3,300", "2,100", "?"),
        ("10%", "20%", "none"),
        ("-$5", "$3", "-$2"),
    ],
)
def test_targets_of_numbers_as_text_beside_missing_marks(words, tmp_path):
    table = tmp_path / "t.csv"
    cells = [f'{row}.5,"{words[row % len(words)]}"\n' for row in range(30)]
    table.write_text("".join(["x,y\n", *cells]), encoding="utf-8")
    done = invoke("predict", table, "--train", table, "--target", "y")
    assert done.exit_code == 1
    assert "holds numbers that are written as text, such as" in done.stderr
    assert repr(min(set(words) - {"-", "?", "none"})) in done.stderr
    assert invoke("predict", table, "--train", table, "--target", "y", "--classify").exit_code == 0
