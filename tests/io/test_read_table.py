import gzip

import numpy as np
import pytest

import expectedkernels as ek

NAN = np.nan


def written(tmp_path, text, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "0,1,2\n3,4,5\n",
        "0, 1, 2\n3, 4, 5",
        "0;1;2\n3;4;5\n",
        "0\t1\t2\n3\t4\t5\n",
        "0 1  2\n 3 4 5 \n",
        "\n0,1,2\r\n\r\n3,4,5\r\n",
        '\ufeff0,"1",2\n3,4.0,5\n',
    ],
)
def test_cells_are_separated_in_several_ways(tmp_path, text):
    table = ek.io.read_table(written(tmp_path, text))
    assert table.names is None
    np.testing.assert_array_equal(table.X, [[0, 1, 2], [3, 4, 5]])


def test_missing_values_and_headers(tmp_path):
    table = ek.io.read_table(written(tmp_path, "age,,b\n1,,2\nNaN,?,0\n3,NA,null\n"))
    assert table.names == ["age", "", "b"]
    np.testing.assert_array_equal(table.X, [[1, NAN, 2], [NAN, NAN, 0], [3, NAN, NAN]])
    quoted = ek.io.read_table(written(tmp_path, '"a, b",c\n1,0\n'))
    assert quoted.names == ["a, b", "c"]
    np.testing.assert_array_equal(quoted.X, [[1, 0]])


def test_rows_without_any_value_are_rows(tmp_path):
    np.testing.assert_array_equal(
        ek.io.read_table(written(tmp_path, "0,1\n,\n")).X, [[0, 1], [NAN, NAN]]
    )


def test_compressed_files_and_single_columns(tmp_path):
    path = tmp_path / "data.data.gz"
    path.write_bytes(gzip.compress(b"x\n1\n0\n"))
    table = ek.io.read_table(path)
    assert table.names == ["x"]
    np.testing.assert_array_equal(table.X, [[1], [0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "data.csv: expected rows, found an empty file"),
        (" \n\n", "found an empty file"),
        ("a,b\n", "found only a header"),
        ("0,1\n0,1,2\n", "line 2: expected 2 cells, found 3"),
        ("a,b\n\n0,1\n0\n", "line 4: expected 2 cells, found 1"),
        ("a,b\n0,1,1\n0,1,1\n", "line 2: expected 2 cells, found 3"),
        ("0,1\n0,red\n", r"line 2: expected integer codes .* in column 2, found 'red'; encode"),
        ("0,1\n0.5,1\n", r"line 2: expected integer codes .* in column 1, found '0.5'; discretise"),
        ("a,b\n0,-1\n", r"line 2: .* in column 2 \('b'\), found '-1'; codes start at 0"),
        ("0,inf\n", r"line 1: .* in column 2, found 'inf'; discretise"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, message):
    with pytest.raises(ek.ParseError, match=message):
        ek.io.read_table(written(tmp_path, text))
