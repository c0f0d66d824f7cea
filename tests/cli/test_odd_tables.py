"""Tables that are read in a way that people may not expect: commands say so, or refuse."""

import csv
import json
from datetime import datetime

import numpy as np
import pytest

import expectedkernels as ek
from cli_files import invoke
from expectedkernels.io.raw import read_raw

ROWS = 60


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def numbers():
    x = np.random.default_rng(0).normal(size=ROWS).round(2)
    return x, (2.0 * x + 80.0).round(2)


def write(path, words, delimiter=";"):
    """A table of x and y, which is given as words."""
    x = numbers()[0]
    lines = [f"{a}{delimiter}{word}" for a, word in zip(x, words, strict=True)]
    with open(path, "w") as file:
        file.write("\n".join([f"x{delimiter}y", *lines]) + "\n")


def predict(*more):
    return invoke("predict", "t.csv", "--train", "t.csv", "--target", "y", *more)


@pytest.mark.parametrize(("delimiter", "quote"), [(";", ""), ("\t", ""), (",", '"')])
def test_decimal_commas_are_numbers_and_are_told(delimiter, quote):
    y = numbers()[1]
    write("t.csv", [f"{quote}{v:.2f}{quote}".replace(".", ",") for v in y], delimiter)
    found = predict()
    assert found.exit_code == 0
    assert "column 'y' has decimal commas: " in found.stderr
    assert f"is read as {y[0]}" in found.stderr
    with pytest.warns(UserWarning, match="decimal commas"):
        np.testing.assert_array_equal(read_raw("t.csv").columns[1].values, y)
    write("t.csv", y)
    assert predict().stdout == found.stdout


def test_first_lines_of_decimal_commas_are_no_names():
    with pytest.warns(UserWarning, match="'0' has decimal commas: '1,5' is read as 1.5"):
        table = read_raw("t.csv", b"1,5;2\n2,25;\n;1\n")
    assert table.names is None
    np.testing.assert_array_equal(table.columns[0].values, [1.5, 2.25, np.nan])


@pytest.mark.parametrize("form", ["{:.2f} kg", "$ {:.2f}", "{:.0f},{:03.0f}", "{:.0f} {:03.0f}"])
def test_targets_that_look_like_numbers_are_refused(form):
    y = numbers()[1]
    write("t.csv", [form.format(v, 999.0 - 10.0 * i) for i, v in enumerate(y)])
    done = predict()
    assert done.exit_code == 1
    assert "different words in 60 rows, such as" in done.stderr
    assert "Write them with a decimal point, without units" in done.stderr
    assert predict("--classify").exit_code == 0
    beside = invoke("predict", "t.csv", "--train", "t.csv", "--target", "x")
    assert "If they are numbers, write them with a decimal point" in beside.stderr


def test_many_words_are_classes_with_a_warning():
    write("t.csv", [f"name {i}" for i in range(ROWS)])
    done = predict()
    assert done.exit_code == 0
    assert "'y' has 60 different words in 60 rows. They are taken for names" in done.stderr
    assert "unique classes" not in done.stderr
    write("t.csv", ["1st", "2nd"] * (ROWS // 2))
    assert predict().stderr == ""


def test_nothing_is_given_twice():
    ek.save(ek.factorized([[0.5, 0.5], [0.2, 0.8]]).with_names(["x", "y"]), "c.npz")
    done = invoke("marginals", "c.npz", "--given", "x=1", "--given", "x=0")
    assert done.exit_code == 2
    assert "'x' can be given once. Got 'x=1' and 'x=0'" in " ".join(done.stderr.split())


def test_columns_without_values_in_one_table_are_named():
    write("a.csv", numbers()[1])
    write("b.csv", [""] * ROWS)
    done = invoke("compare", "a.csv", "b.csv", "--permutations", 9)
    assert done.exit_code == 0
    assert "empty in b.csv  y: not compared" in done.stdout
    done = invoke("compare", "b.csv", "a.csv", "--permutations", 9)
    assert "empty in b.csv  y: not compared" in done.stdout
    x, y = numbers()
    holes = np.full(ROWS, np.nan)
    found = ek.drift(np.c_[x, y], np.c_[x, holes], n_permutations=0)
    assert "Without a value in the second window, and so not compared: 1." in str(found)


def test_columns_without_values_are_not_filled_in():
    write("t.csv", [""] * ROWS)
    done = invoke("impute", "t.csv")
    assert done.stderr == "Warning: t.csv: without a value, and left as they are: y.\n"
    assert all(line.endswith(",") for line in done.stdout.splitlines()[1:])


IDENTIFIERS = ["007", "12345678901234567891", "1e5", "NA", "1,5", " x ", ""]
WITH_IDENTIFIERS = "id,x,y\n" + "".join(
    f'"{word}",{"" if i == 2 else i},{2 * i}\n' for i, word in enumerate(IDENTIFIERS)
)


@pytest.mark.parametrize(
    "command",
    [
        ["impute", "t.csv", "--without", "id"],
        ["impute", "t.csv", "--without", "id", "--train", "t.csv"],
        ["predict", "t.csv", "--without", "id", "--train", "t.csv", "--target", "y"],
        ["convert", "t.csv", "out.csv"],
    ],
    ids=lambda command: f"{command[0]} {len(command)}",
)
def test_columns_that_are_copied_stay_as_they_are_written(command, folder):
    (folder / "t.csv").write_text(WITH_IDENTIFIERS)
    found = invoke(*command, *([] if command[0] == "convert" else ["-o", "out.csv"]))
    assert (found.exit_code, found.stderr) == (0, "")
    with open("out.csv", newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == IDENTIFIERS


def test_columns_to_leave_out_are_there(folder):
    (folder / "t.csv").write_text(WITH_IDENTIFIERS)
    found = invoke("impute", "t.csv", "--without", "key")
    assert found.exit_code == 1
    assert "t.csv has no column 'key' to leave out. It has 'id', 'x', 'y'." in found.stderr


def test_dates_of_parquet_files_are_text_as_in_csv(folder):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    days = [datetime(2024, 1, 1 + i % 3) for i in range(ROWS)]
    x, y = numbers()
    columns = {
        "day": pa.array(days, pa.timestamp("ns")),
        "hour": pa.array([day.replace(hour=5) for day in days], pa.timestamp("us", "UTC")),
        "id": pa.array([2**60 + i for i in range(ROWS)]),
        "x": x,
        "y": y,
    }
    parquet.write_table(pa.table(columns), "t.parquet")
    found = invoke("impute", "t.parquet")
    assert found.exit_code == 1
    assert "The column 'id' holds numbers that are no floats. If they identify" in found.stderr
    table = read_raw("t.parquet", verbatim=lambda name: name == "id")
    assert table.names == tuple(columns)
    assert table.columns[0].values[:2] == ["2024-01-01", "2024-01-02"]
    assert table.columns[1].values[:1] == ["2024-01-01 05:00:00Z"]
    options = ["--train", "t.parquet", "--target", "y", "--without", "id", "--without", "hour"]
    found = invoke("predict", "t.parquet", *options)
    assert (found.exit_code, found.stderr) == (0, "")
    first = found.stdout.splitlines()[1]
    assert first.startswith("2024-01-01 05:00:00+00:00,1152921504606846976,")
    lines = ["day,x,y", *(f"{d:%Y-%m-%d},{a},{b}" for d, a, b in zip(days, x, y, strict=True))]
    (folder / "t.csv").write_text("\n".join(lines))
    assert first.split(",")[2] == predict().stdout.splitlines()[1]


@pytest.mark.parametrize("command", [["impute"], ["predict", "--train", "t.csv", "--target", "y"]])
def test_infinite_numbers_are_told_by_the_names_of_their_columns(command, folder):
    (folder / "t.csv").write_text("city,x,y\n" + "Bonn,1,2\n" * 3 + "Ulm,inf,3\n")
    found = invoke(command[0], "t.csv", *command[1:])
    assert found.exit_code == 1
    assert "Column 'x' of t.csv is infinite in row 3. Leave cells empty" in found.stderr


def test_words_among_numbers_are_told(folder):
    lines = [f"{30 + i % 25},{i}" for i in range(ROWS)]
    (folder / "t.csv").write_text("\n".join(["x,y", "unknown,1", "-,2", *lines]))
    found = predict()
    assert found.exit_code == 0
    assert "column 'x' is text, as it holds '-', 'unknown' among numbers. Leave" in found.stderr


@pytest.mark.parametrize("words", [("True", "False"), ("true", "false")])
def test_truth_values_are_the_same_in_csv_and_parquet(words, folder):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    x, y = numbers()
    up = [None if i % 7 == 0 else bool(v > 0) for i, v in enumerate(x)]
    parquet.write_table(pa.table({"up": up, "y": y}), "t.parquet")
    spelt = {True: words[0], False: words[1], None: ""}
    lines = [f"{spelt[a]},{b}" for a, b in zip(up, y, strict=True)]
    (folder / "t.csv").write_text("\n".join(["up,y", *lines]))
    (folder / "full.csv").write_text("\n".join(["up,y", *(s for s in lines if s[0] != ",")]))
    same = invoke("compare", "t.csv", "t.parquet", "--json")
    assert (same.exit_code, same.stderr) == (0, "")
    assert json.loads(same.stdout)["mmd"] == 0.0
    for rows, train in (("t.csv", "t.parquet"), ("t.parquet", "t.csv")):
        found = invoke("predict", rows, "--train", train, "--target", "y")
        assert (found.exit_code, found.stderr) == (0, "")
        assert found.stdout == predict().stdout
    for source in ("t.csv", "t.parquet"):
        assert invoke("learn", source, "-o", "c.npz").exit_code == 0
        assert invoke("test", "c.npz", "full.csv", "--simulations", "19").exit_code == 0
        assert invoke("sample", "c.npz", "-n", "3", "--given", f"up={words[0]}").exit_code == 0
        assert invoke("audit", source, "--by", "up").exit_code == 0


def test_numbers_of_one_table_are_the_text_of_another(folder):
    cells = [str(i % 5) for i in range(ROWS)]
    (folder / "t.csv").write_text("\n".join(["x,y", *(f"{x},1" for x in cells)]))
    cells[0] = "many"
    (folder / "u.csv").write_text("\n".join(["x,y", *(f"{x},1" for x in cells)]))
    assert invoke("compare", "t.csv", "u.csv").exit_code == 0


def test_names_in_parquet_files_are_distinct():
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = pa.array([1, 2, 3])
    parquet.write_table(pa.Table.from_arrays([column, column], names=["a", "a"]), "t.parquet")
    with pytest.raises(ek.ParseError, match="names of columns must be distinct, found 'a' twice"):
        read_raw("t.parquet")
