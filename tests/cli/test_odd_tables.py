"""Tables that are read in a way that people may not expect: commands say so, or refuse."""

import csv
import gzip
import json
from datetime import date
from decimal import Decimal

import numpy as np
import pytest

import expectedkernels as ek
from cli_files import invoke, run, write_csv

ROWS = 60
X = np.random.default_rng(0).normal(size=ROWS).round(2)
Y = (2.0 * X + 80.0).round(2)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def column(path, name):
    """The cells of a column as they are written."""
    with open(path, newline="") as file:
        return [row[name] for row in csv.DictReader(file)]


def predict(*more, rows="t.csv", train="t.csv", target="y"):
    return invoke("predict", rows, "--train", train, "--target", target, *more)


@pytest.mark.parametrize(("delimiter", "quote"), [(";", ""), ("\t", ""), (",", '"')])
def test_decimal_commas_are_numbers_and_are_told(delimiter, quote):
    words = [f"{quote}{v:.2f}{quote}".replace(".", ",") for v in Y]
    write_csv("t.csv", {"x": X, "y": words}, delimiter)
    found = predict()
    assert found.exit_code == 0
    assert found.stderr.count("t.csv: decimal commas in 'y': ") == 1
    assert f"is read as {Y[0]}" in found.stderr
    write_csv("t.csv", {"x": X, "y": Y})
    assert predict().stdout == found.stdout


def test_values_are_filled_in_with_the_decimal_comma_of_their_column(folder):
    y = [f"{v:.2f}".replace(".", ",") for v in Y]
    write_csv("t.csv", {"x": X, "y": ["", *y[1:]]}, ";")
    run("impute", "t.csv", "-o", "u.csv")
    filled = column("u.csv", "y")
    assert filled[1:] == y[1:]
    assert 70.0 < float(filled[0].replace(",", ".")) < 90.0


@pytest.mark.parametrize("few", [False, True], ids=["many values", "three values"])
@pytest.mark.parametrize("form", [
    *("{:.2f} kg", "$ {:.2f}", "{:.0f},{:03.0f}", "{:.0f} {:03.0f}", "{:.0f} g", "{:.1f}%"),
    *("~{:.0f}", "({:.0f})", ".{:.0f} g", "US$ {:.0f}"),
])  # fmt: skip
def test_targets_of_numbers_written_as_text_are_refused(form, few):
    words = [form.format(v, 999.0 - 10.0 * i) for i, v in enumerate(Y)]
    write_csv("t.csv", {"x": X, "y": (words[:3] * ROWS)[:ROWS] if few else words}, ";")
    done = predict()
    assert done.exit_code == 1
    assert "Column 'y' of t.csv holds numbers that are written as text, such as " in done.stderr
    assert "Write numbers with a decimal point, without units" in done.stderr
    assert predict("--classify").exit_code == 0
    beside = predict(target="x")
    assert "'y' (numbers written as text: " in beside.stderr
    assert "Leave them out: --without y; or write numbers with a decimal point" in beside.stderr


@pytest.mark.parametrize("words", [
    ("3,300 g", "2,100 g", "-"),
    ("3,300", "2,100", "?"),
    ("10%", "20%", "none"),
    ("-$5", "$3", "-$2"),
])  # fmt: skip
def test_targets_of_numbers_as_text_beside_missing_marks(words):
    write_csv("t.csv", {"x": X, "y": [words[i % len(words)] for i in range(ROWS)]}, ";")
    done = predict()
    assert done.exit_code == 1
    assert "holds numbers that are written as text, such as" in done.stderr
    assert repr(min(set(words) - {"-", "?", "none"})) in done.stderr
    assert predict("--classify").exit_code == 0


@pytest.mark.parametrize("mark", ["-", "?", "."])
def test_marks_among_numbers_are_missing_and_counted(mark):
    for path, missing in (("t.csv", mark), ("u.csv", "")):
        write_csv(path, {"x": [missing if i % 9 == 0 else v for i, v in enumerate(X)], "y": Y})
    found = predict()
    assert found.exit_code == 0
    line = f"Warning: t.csv: 7 cells are missing values among numbers: 7 of {mark!r} in 'x'.\n"
    assert found.stderr == line
    plain = predict(rows="u.csv", train="u.csv")
    assert (found.stdout, plain.stderr) == (plain.stdout, "")
    target = predict(target="x")
    assert target.exit_code == 1
    assert f"Column 'x' of t.csv holds {mark!r} among numbers. Where nothing" in target.stderr
    allowed = predict("--missing", mark, target="x")
    assert (allowed.exit_code, allowed.stderr.count("7 rows have no 'x'")) == (0, 1)


def test_words_that_mean_something_are_no_missing_values():
    cells = ["gas", "none", "oil", "?", "-", ""] * 10
    write_csv("t.csv", {"heating": cells, "y": range(ROWS)})
    done = run("impute", "t.csv", "-o", "filled.csv")
    assert done.stderr == ""
    found = column("filled.csv", "heating")
    assert all(new == old for new, old in zip(found, cells, strict=True) if old)
    assert "" not in found
    classes = predict("--json", target="heating")
    assert set(json.loads(classes.stdout)["rows"][0]["probabilities"]) == {*cells} - {""}
    fewer = invoke("impute", "t.csv", "--missing", "?", "--missing", "-")
    assert {row.split(",")[0] for row in fewer.stdout.splitlines()[1:]} == {"gas", "none", "oil"}
    for name, words in (("half.csv", ["none", "gas"]), ("all.csv", ["gas", "gas"])):
        write_csv(name, {"heating": words * 30})
    assert invoke("drift", "half.csv", "all.csv").exit_code == 3


def test_many_words_are_classes_with_a_warning():
    write_csv("t.csv", {"x": X, "y": [f"name {i}" for i in range(ROWS)]})
    done = predict()
    assert done.exit_code == 0
    assert "'y' has 60 different words in 60 rows. They are taken for names" in done.stderr
    assert "unique classes" not in done.stderr
    for words in (["1st", "2nd"], ["5th", "6th"], ["1a", "2b"], ["3+", "2"], ["1.0.2", "1.2.0"]):
        write_csv("t.csv", {"x": X, "y": words * (ROWS // 2)})
        found = predict()
        assert (found.exit_code, found.stderr) == (0, "")


def test_columns_without_values_are_not_filled_in():
    write_csv("t.csv", {"x": X, "y": [""] * ROWS})
    done = invoke("impute", "t.csv")
    assert done.stderr == "Warning: t.csv: without a value, and left as they are: y.\n"
    assert all(line.endswith(",") for line in done.stdout.splitlines()[1:])


CELLS = ["007", "12345678901234567891", "1e5", "NA", "1,5", " x ", "", "0.50", "9007199254740993"]


@pytest.mark.parametrize("command", [
    ["impute", "t.csv", "--without", "id"],
    ["impute", "t.csv", "--without", "id", "--train", "t.csv"],
    ["predict", "t.csv", "--without", "id", "--train", "t.csv", "--target", "y"],
    ["convert", "t.csv", "out.csv"],
], ids=lambda command: f"{command[0]} {len(command)}")  # fmt: skip
def test_columns_that_are_copied_stay_as_they_are_written(command):
    ids, y = [f'"{cell}"' for cell in CELLS], [f" {2 * i}.0" for i in range(9)]
    write_csv("t.csv", {"id": ids, "x": ["" if i == 2 else f"0{i}" for i in range(9)], "y": y})
    found = invoke(*command, *([] if command[0] == "convert" else ["-o", "out.csv"]))
    assert (found.exit_code, found.stderr) == (0, "")
    assert column("out.csv", "id") == CELLS


def test_numbers_in_text_are_typed_in_parquet_if_nothing_is_lost(folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    lines = ["code,big,huge,n,x,word,gap", "002,9007199254740993,12345678901234567891,1,0.50, a,-"]
    (folder / "t.csv").write_text("\n".join([*lines, "010,2,3,2,,NA,1.5", "1,-4,,3,2,none,2"]))
    found = invoke("convert", "t.csv", "t.parquet")
    assert found.exit_code == 0
    assert found.stderr.count("1 cell is a missing value among numbers") == 1
    assert parquet.read_table("t.parquet").to_pydict() == {
        "code": ["002", "010", "1"],
        "big": [9007199254740993, 2, -4],
        "huge": ["12345678901234567891", "3", None],
        "n": [1, 2, 3],
        "x": [0.5, None, 2.0],
        "word": [" a", None, "none"],
        "gap": [None, 1.5, 2.0],
    }
    again = invoke("convert", "t.parquet", "-").stdout.splitlines()
    assert again[1] == "002,9007199254740993,12345678901234567891,1,0.5, a,"


def test_parquet_files_keep_their_types(folder):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    n = rng.integers(10, size=ROWS)
    days = [date(2024, 1, 1 + int(i) // 5) for i in n]
    gap = [i % 7 == 0 for i in range(ROWS)]

    def with_gaps(values, kind):
        return pa.array([None if g else v for g, v in zip(gap, values, strict=True)], kind)

    table = pa.table(
        {
            "id": pa.array([2**60 + i for i in range(ROWS)], pa.int64()),
            "n": with_gaps(n.tolist(), pa.int16()),
            "x": with_gaps((n + 0.25).tolist(), pa.float32()),
            "cost": with_gaps([Decimal(f"{i}.50") for i in n], pa.decimal128(9, 2)),
            "up": with_gaps((n > 4).tolist(), pa.bool_()),
            "word": with_gaps([f"w{i // 4}" for i in n], pa.dictionary(pa.int8(), pa.string())),
            "day": with_gaps(days, pa.date32()),
            "whole": pa.array(n),
        }
    )
    parquet.write_table(table, "t.parquet")
    run("convert", "t.parquet", "copy.parquet")
    assert parquet.read_table("copy.parquet").equals(table)
    run("impute", "t.parquet", "--without", "id", "-o", "filled.parquet")
    found = parquet.read_table("filled.parquet")
    assert found.schema.equals(table.schema)
    assert sum(column.null_count for column in found.columns) == 0
    observed = pa.array([not g for g in gap])
    assert found.filter(observed).to_pydict() == table.filter(observed).to_pydict()
    assert found["id"].equals(table["id"])


@pytest.mark.parametrize("command", ["drift", "predict", "learn", "mmd"])
def test_a_column_has_one_type_in_all_files(command):
    codes = [f"00{1 + i % 5}" for i in range(ROWS)]
    for path, first in (("t.csv", "A01"), ("u.csv", "001")):
        write_csv(path, {"code": [first, *codes[1:]], "y": Y})
    if command == "drift":
        done = invoke("drift", "u.csv", "t.csv")
    elif command == "predict":
        done = predict(rows="u.csv")
    elif command == "mmd":
        done = invoke("mmd", "t.csv", "u.csv")
        assert float(done.stdout) < 0.02
    else:
        run("learn", "t.csv", "-o", "c.npz")
        assert ek.load("c.npz").states[0] == ("001", "002", "003", "004", "005", "A01")
        done = invoke("test", "c.npz", "u.csv")
    assert (done.exit_code, done.stderr) == (0, "")


def test_text_columns_that_are_no_categories_are_named_in_one_warning(folder):
    forms = {"id": "p{0}", "day": "2024-03-{1}", "seen": "Jan {1} 2001"}
    forms |= {"rate": "{2}%", "cost": "${0}"}
    values = [(i, 1 + i % 20, i % 9) for i in range(ROWS)]
    table = {name: [form.format(*own) for own in values] for name, form in forms.items()}
    table["x"] = [0, 1, 2, "unknown", "-", *range(5, ROWS)]
    write_csv("t.csv", table | {"city": ["Bonn", "Ulm"] * (ROWS // 2), "y": range(ROWS)})
    done = predict()
    assert done.exit_code == 0
    assert done.stderr == (
        "Warning: t.csv: text is categories, probably not meant for 'rate' (numbers written as "
        "text: '0%'), 'cost' (numbers written as text: '$0'), 'x' (words among numbers: "
        "'unknown'), 'day' (dates or times), 'seen' (dates or times), 'id' (identifiers or free "
        "text). Leave them out: --without rate --without cost --without x --without day --without "
        "seen --without id; or write numbers with a decimal point, without units and without signs "
        "between thousands; or name cells without a value: --missing unknown; or write dates as "
        "numbers, such as days or months.\n"
    )
    compared = invoke("drift", "t.csv", "t.csv", "--permutations", 1).stderr
    assert compared == done.stderr
    rest = [f"--without={name}" for name in ("id", "day", "seen", "rate", "cost")]
    assert "1 of '-' in 'x'" in predict(*rest, "--missing", "unknown").stderr


def test_names_with_signs_of_equality_are_given(folder):
    names = ["a", "a=b", "c"]
    p = ek.factorized([[0.5, 0.5]] * 3).with_names(names, [["b=1", "0"], ["1", "0"], ["=", "0"]])
    ek.save(p, "c.npz")
    for words, wanted in (("a=b=1", 1), ("a=0", 0), (" c = =", 2)):
        done = run("marginals", "c.npz", "--given", words, "--json")
        sure = [
            max(part["values"].values()) == 1.0 for part in json.loads(done.stdout)["marginals"]
        ]
        assert sure.index(True) == wanted


@pytest.mark.parametrize(
    ("encoding", "told"), [("latin-1", 1), ("cp1252", 1), ("utf-16", 0), ("utf-8-sig", 0)]
)
def test_other_encodings_are_read(encoding, told, folder):
    words = ["città", "Forlì"] + ["naïve"] * (encoding != "cp1252") + ["€"] * (encoding == "cp1252")
    text = "\n".join(["città,y", *(f"{words[i % len(words)]},{i}" for i in range(ROWS))])
    (folder / "t.csv").write_bytes(text.encode(encoding))
    done = invoke("convert", "t.csv", "-")
    assert (done.exit_code, done.stdout.strip()) == (0, text)
    assert done.stderr.count("t.csv is not in UTF-8: it is read as Windows-1252") == told
    (folder / "t.csv.gz").write_bytes(gzip.compress(text.encode(encoding)))
    assert invoke("convert", "t.csv.gz", "-").stdout.strip() == text


def test_truth_values_are_the_same_in_csv_and_parquet(folder):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    up = [None if i % 7 == 0 else bool(v > 0) for i, v in enumerate(X)]
    parquet.write_table(pa.table({"up": up, "y": Y}), "t.parquet")
    words = np.array([{True: "True", False: "false", None: ""}[x] for x in up])
    write_csv("t.csv", {"up": words, "y": Y})
    write_csv("full.csv", {"up": words[words != ""], "y": Y[words != ""]})
    same = invoke("drift", "t.csv", "t.parquet", "--json")
    assert (same.exit_code, same.stderr) == (0, "")
    assert json.loads(same.stdout)["mmd"] == 0.0
    for rows, train in (("t.csv", "t.parquet"), ("t.parquet", "t.csv")):
        found = predict(rows=rows, train=train)
        assert (found.exit_code, found.stderr) == (0, "")
        assert found.stdout == predict().stdout
    for source in ("t.csv", "t.parquet"):
        run("learn", source, "-o", "c.npz")
        run("test", "c.npz", "full.csv", "--simulations", "19")
        run("sample", "c.npz", "-n", "3", "--given", "up=True")
        run("audit", source, "--by", "up")


def test_tables_of_many_rows_are_fitted_with_landmarks(monkeypatch):
    monkeypatch.setattr("expectedkernels.estimators.landmarks.MANY_ROWS", 5)
    monkeypatch.setattr("expectedkernels.estimators.landmarks.LANDMARKS", 2)
    write_csv("t.csv", {"x": [1, 2, 4] * 3, "y": [2, 3, 1] * 3})
    found = predict()
    assert (found.exit_code, found.stderr) == (0, "")
    assert len(found.stdout.splitlines()) == 10
