"""Text and Parquet files as they are written, and the values that their columns stand for."""

import csv
import gzip
import random
from datetime import datetime
from io import StringIO

import numpy as np
import pytest

import expectedkernels as ek
from assertions import assert_raises
from expectedkernels.io.table_files import forms_of, frame_of, read_cells, read_raw
from expectedkernels.io.text import Source

WORDS = [
    "gas",
    "none",
    "New York",
    "a, b",
    "x; y",
    'say "hi"',
    "line\nbreak",
    "1|2",
    " x ",
    "",
    "é",
]


NAN = np.nan


def random_table(rng):
    """The text of a random table in a random dialect, its names (or None), and its columns."""
    delimiter, header = rng.choice([",", ";", "\t", "|"]), rng.random() < 0.8
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC, csv.QUOTE_ALL])
    point = "," if delimiter in ";\t" and rng.random() < 0.4 else "."

    def number():
        return f"{rng.gauss(0, 100):.2f}".replace(".", point)

    makers = [number, lambda: str(rng.randint(0, 99)), lambda: rng.choice(WORDS)]
    makers = [rng.choice(makers if header else makers[:2]) for _ in range(rng.randint(1, 4))]
    n = rng.randint(2, 20)
    columns = [[make() for _ in range(n)] for make in [number, *makers]]
    names = [f"{rng.choice(['a', 'size, cm', 'b; c'])} {i}" for i in range(len(columns))]
    text = StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerows([names] * header)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue(), names if header else None, columns


def cells(text):
    """The names (or None) and the columns of a text."""
    return read_cells(Source("t.csv", text.encode(), any_encoding=True))[:2]


def test_cells_are_read_as_they_were_written():
    rng = random.Random(0)
    for _ in range(500):
        text, names, columns = random_table(rng)
        assert cells(text) == (names, columns), text


@pytest.mark.parametrize(("text", "names", "columns"), [
    ('"a, b";c\n1;2\n3;4\n', ["a, b", "c"], [["1", "3"], ["2", "4"]]),
    ('note,x\n"a\nb;c",1\n"d;\ne;f",2\n', ["note", "x"], [["a\nb;c", "d;\ne;f"], ["1", "2"]]),
    ('a, "b, c"\n1, "x, y"\n', ["a", "b, c"], [["1"], ["x, y"]]),
    ("a;b\n1,5;2,5\n2,25;3\n", ["a", "b"], [["1,5", "2,25"], ["2,5", "3"]]),
    ("1,5;2,5\n2,25;3\n", None, [["1,5", "2,25"], ["2,5", "3"]]),
    ("x\n1,5\n2,5\n", ["x"], [["1,5", "2,5"]]),
    ("city\nNew York\nSan Jose\n", ["city"], [["New York", "San Jose"]]),
    ('x\n1\n""\n\n2\n', ["x"], [["1", "", "2"]]),
    ("2019,2020\n1.5,2.5\n3,4\n", ["2019", "2020"], [["1.5", "3"], ["2.5", "4"]]),
    ("2019;2020\n120;95\n2019;85\n", ["2019", "2020"], [["120", "2019"], ["95", "85"]]),
    (",2019,2020\nA,1,2\n", ["", "2019", "2020"], [["A"], ["1"], ["2"]]),
    ("2019,2020\n2001,2002\n", None, [["2019", "2001"], ["2020", "2002"]]),
    ("2019,2020\n2001,5\n", None, [["2019", "2001"], ["2020", "5"]]),
    ("2019,2019\n1,5\n", None, [["2019", "1"], ["2019", "5"]]),
    ("1,2\n0.5,0.7\n", None, [["1", "0.5"], ["2", "0.7"]]),
])  # fmt: skip
def test_delimiters_and_headers_are_found(text, names, columns):
    assert cells(text) == (names, columns)


def read(path, data=None):
    """The columns of a file as numbers and text, by their names."""
    table = read_raw(path, data)
    return {c.name: c.values for c in frame_of(table, forms_of([table])).columns}


def test_first_lines_of_decimal_commas_are_no_names():
    data = b"1,5;2\n2,25;\n;1\n"
    with pytest.warns(UserWarning, match="decimal commas in '0': '1,5' is read as 1.5"):
        np.testing.assert_array_equal(read("t.csv", data)["0"], [1.5, 2.25, np.nan])
    assert read_raw("t.csv", data).names is None


def test_the_marks_of_pandas_are_missing():
    pd = pytest.importorskip("pandas")
    words = ["x", "NA", "NaN", "nan", "null", "NULL", "None", "n/a", "N/A", "#N/A", "<NA>", ""]
    words += ["none", "na", "Na", "-", "?", ".", "unknown", "x "]
    data = "\n".join(["a,b", *(f"{word},1" for word in words)])
    wanted = pd.read_csv(StringIO(data))["a"].isna().tolist()
    assert [x is None for x in read("t.csv", data.encode())["a"]] == wanted


@pytest.mark.parametrize(("cells", "wanted"), [
    (["2,621", "715.75"], [2621.0, 715.75]),
    (["1,234,567", "12"], [1234567.0, 12.0]),
    (["2.621,5", "715"], [2621.5, 715.0]),
    (["2.621", "715,75"], [2621.0, 715.75]),
    (["1.234.567", "12"], [1234567.0, 12.0]),
    (["2,621", "715"], None),
    (["2,621", "2.621"], None),
    (["12,34,567", "1.5"], None),
    (["1e3", "-2.5", "+7"], [1000.0, -2.5, 7.0]),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*decimal commas")
def test_commas_and_points_say_what_they_separate(cells, wanted):
    data = "\n".join(["a;b", *(f"{cell};x" for cell in cells)])
    found = read("t.csv", data.encode())["a"]
    if wanted is None:
        assert found == cells
    else:
        np.testing.assert_array_equal(found, wanted)


def test_dates_and_times_of_parquet_files_are_text(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    days = [datetime(2024, 1, 1), datetime(2024, 1, 2)]
    columns = {
        "day": pa.array(days, pa.timestamp("ns")),
        "hour": pa.array([day.replace(hour=5) for day in days], pa.timestamp("us", "UTC")),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = read(tmp_path / "t.parquet")
    assert list(found) == list(columns)
    assert found["day"] == ["2024-01-01", "2024-01-02"]
    assert found["hour"][0] == "2024-01-01 05:00:00Z"


@pytest.fixture
def read_text(tmp_path):
    """Reads a table of codes from a file with this text."""

    def reader(text, name="data.csv"):
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return ek.io.read_table(tmp_path / name)

    return reader


SIX = [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(("text", "names", "X"), [
    ("0,1,2\n3,4,5\n", None, SIX),
    ("0, 1, 2\n3, 4, 5", None, SIX),
    ("0;1;2\n3;4;5\n", None, SIX),
    ("0\t1\t2\n3\t4\t5\n", None, SIX),
    ("0 1  2\n 3 4 5 \n", None, SIX),
    ("\n0,1,2\r\n\r\n3,4,5\r\n", None, SIX),
    ('\ufeff0,"1",2\n3,4.0,5\n', None, SIX),
    ("age,,b\n1,,2\nNaN,?,0\n3,NA,null\n", ["age", "", "b"],
     [[1, NAN, 2], [NAN, NAN, 0], [3, NAN, NAN]]),
    ('"a, b",c\n1,0\n', ["a, b", "c"], [[1, 0]]),
    ("0,1\n,\n", None, [[0, 1], [NAN, NAN]]),
    ('"",""\n"",""\n', None, [[NAN, NAN]] * 2),
    ("a,b\u2028c\n0,1\n", ["a", "b\u2028c"], [[0, 1]]),
])  # fmt: skip
def test_tables_of_codes(read_text, text, names, X):
    for name in ("data.csv", "data.data.gz"):
        table = read_text(text, name)
        assert table.names == names
        np.testing.assert_array_equal(table.X, X)


@pytest.mark.parametrize(("text", "message"), [
    ("", "data.csv: expected rows, found an empty file"),
    (" \n\n", "found an empty file"),
    ("a,b\n", "found only a header"),
    ("0,1\n0,1,2\n", "line 2: expected 2 cells, found 3"),
    ("a,b\n\n0,1\n0\n", "line 4: expected 2 cells, found 1"),
    ("a,b\n0,1,1\n0,1,1\n", "line 2: expected 2 cells, found 3"),
    ("My report\na,b\n1,2\n", "line 2: expected 1 cells, found 2"),
    ("/*\n1.5 2.5\n3.5 4.5\n", "line 2: expected 1 cells, found 2"),
    ("a\x0cb\n0 1\x0b2 3\n", "line 2: expected 2 cells, found 4"),
    ('a,b\n1,"x\n2,y\n', "line 2: cannot tell cells apart .*is a quote not closed"),
    ('a,b\n"' + "1" * 200_000 + '",0\n', "line 2: cannot tell cells apart .*field limit"),
    ("a,b\n1,0\0\n", "found zero bytes"),
    ("\0\0\0", "found zero bytes"),
    ("0,1\n0,red\n", r"line 2: expected integer codes .* in column 2, found 'red'; encode"),
    ("0,1\n0.5,1\n", r"line 2: expected integer codes .* in column 1, found '0.5'; discretise"),
    ("a,b\n0,-1\n", r"line 2: .* in column 2 \('b'\), found '-1'; codes start at 0"),
    ("0,inf\n", r"line 1: .* in column 2, found 'inf'; discretise"),
    ("0,1e300\n", r"found '1e300'; larger ones than 2\*\*53 are not held exactly"),
])  # fmt: skip
def test_bad_files_are_refused(read_text, text, message):
    assert_raises(ek.ParseError, message, read_text, text)
