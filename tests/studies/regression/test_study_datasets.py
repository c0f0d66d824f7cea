import csv
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

from expectedkernels import DataError
from studies.regression.datasets import (
    SOURCES,
    SPLITS,
    data_folder,
    digests,
    fetch,
    load,
    one_hot,
    prepare,
    read_table,
)

SIZES = {
    "abalone": ((3, 11, 11, 5, 11, 10, 11, 10), (2923, 584, 670)),
    "delta-ailerons": ((11,) * 5, (4990, 998, 1141)),
    "insurance": ((6, 2, 4, 2, 11, 11), (936, 187, 215)),
    "elevators": ((*(11,) * 14, 3, 11, 3, 11), (11619, 2323, 2657)),
}


@pytest.fixture(params=SIZES)
def dataset(request, data_dir):
    return load(request.param, data_dir)


def test_all_splits_are_those_of_the_paper_bit_for_bit(dataset):
    assert dataset.verified
    assert digests(dataset) == dataset.source.sha256
    sizes, rows = SIZES[dataset.source.name]
    assert dataset.sizes == sizes
    assert tuple(len(getattr(dataset, split).y) for split in SPLITS) == rows


def test_codes_and_bits_say_the_same(dataset):
    for name in SPLITS:
        split = getattr(dataset, name)
        np.testing.assert_array_equal(one_hot(split.codes, dataset.sizes), split.bits)
        known = np.stack([split.bits[:, g].sum(axis=1) for g in dataset.groups], axis=1)
        np.testing.assert_array_equal(known == 0, split.codes < 0)
    assert (dataset.train.codes >= 0).all()


def insurance_rows(n, seed=0):
    """Rows in the format of the insurance data."""
    rng = np.random.default_rng(seed)
    region, sex = rng.choice(["north", "south"], n), rng.choice(["female", "male"], n)
    smoker, children = rng.choice(["no", "yes"], n), rng.integers(0, 3, n)
    age, bmi = rng.integers(18, 64, n), rng.normal(30, 6, n)
    charges = 200 * age + 15000 * (smoker == "yes") + rng.normal(0, 500, n)
    return zip(age, sex, bmi, children, smoker, region, charges, strict=True)


def write_insurance(folder, n=60):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "insurance.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "sex", "bmi", "children", "smoker", "region", "charges"])
        writer.writerows(insurance_rows(n))
    return folder


def test_other_rows_are_refused_unless_they_may_be_others(tmp_path):
    write_insurance(tmp_path)
    with pytest.raises(DataError, match=r"not those of the paper: train_x.csv.*--no-check"):
        load("insurance", tmp_path)
    dataset = load("insurance", tmp_path, check=False)
    assert not dataset.verified
    assert len(dataset.train.y) == 42
    np.testing.assert_array_equal(dataset.train.y, np.trunc(dataset.train.y))


def table(column, discrete=()):
    """A table with the columns of the insurance data, all real features alike."""
    source, n = SOURCES["insurance"], len(column)
    names = {name: ["a"] * n for name in source.discrete}
    return names | dict.fromkeys(source.continuous, column) | {"charges": column} | dict(discrete)


def test_categories_outside_of_training_are_all_zeros():
    order = np.random.RandomState(1337).permutation(20)
    column = np.full(20, "5.0", dtype=object)
    column[order[:14]] = [str(float(i)) for i in range(14)]
    column[order[14]] = "100.0"  # validation, as high as the training maximum: its own category
    column[order[15]] = "-1.0"  # validation, below all training values
    sex = np.full(20, "f", dtype=object)
    sex[order[16]] = "m"
    dataset = prepare(SOURCES["insurance"], table(column.tolist(), [("sex", sex.tolist())]))
    age = dataset.valid.codes[:, 4]
    assert age[0] == dataset.sizes[4] - 1
    assert age[1] == -1
    assert dataset.test.codes[0, 3] == -1
    np.testing.assert_array_equal(dataset.valid.bits[1, dataset.groups[4]], 0)


def test_the_folder_comes_from_the_argument_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("EXPECTEDKERNELS_DATA", raising=False)
    with pytest.raises(DataError, match="--data-dir, or set the environment variable"):
        data_folder()
    monkeypatch.setenv("EXPECTEDKERNELS_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    (tmp_path / "regression").mkdir()
    assert data_folder() == tmp_path / "regression"
    assert data_folder(tmp_path / "other") == tmp_path / "other"
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"must be a folder\. .*file is a file"):
        data_folder(tmp_path / "file")


def test_a_missing_file_that_is_not_on_openml_says_where_it_is(tmp_path):
    with pytest.raises(DataError, match=r"delta_ailerons.data does not exist.*Luis Torgo"):
        load("delta-ailerons", tmp_path)


def test_a_file_that_cannot_be_fetched_says_why_and_where_it_is(tmp_path, monkeypatch):
    def offline(**_):
        warnings.warn("A network error occurred. Retrying...", UserWarning, stacklevel=2)
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", offline)
    message = r"could not be fetched from OpenML \(data set 183\): OSError: no route.*UCI"
    with pytest.raises(DataError, match=message):
        load("abalone", tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_openml_sends_is_written_as_a_raw_file(tmp_path, monkeypatch):
    source = SOURCES["abalone"]
    names = ["Sex", "Length", "Diameter", "Height", "Whole_weight", "Shucked_weight"]
    names += ["Viscera_weight", "Shell_weight"]
    data = pd.DataFrame(np.arange(21).reshape(3, 7) / 10, columns=names[1:])
    data.insert(0, "Sex", pd.Categorical(["F", "M", "M"]))

    def answer(**options):
        assert options["data_id"] == 183
        target = pd.Series([7, 8, 9], name="Class_number_of_rings")
        return SimpleNamespace(data=data, target=target)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", answer)
    path = tmp_path / "new" / source.file
    fetch(source, path)
    found = read_table(source, path)
    assert found["Sex"] == ["F", "M", "M"]
    assert found["Whole weight"] == ["0.3", "1.0", "1.7"]
    assert found["Rings"] == ["7", "8", "9"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "There is no column 'children'"),
        ("age,sex\n1,2\n", "There is no column 'children', 'smoker'"),
        ("age,sex,bmi,children,smoker,region,charges\n1,2\n", "line 2: expected 7 cells. Found 2"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused(tmp_path, text, message):
    (tmp_path / "insurance.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load("insurance", tmp_path)


def test_text_among_numbers_is_refused():
    with pytest.raises(DataError, match=r"column 'age' of insurance\.csv must hold numbers"):
        prepare(SOURCES["insurance"], table(["a"] * 20))


def test_too_few_rows_are_refused():
    with pytest.raises(DataError, match=r"at least ten rows\. Got 2"):
        prepare(SOURCES["insurance"], table(["1", "2"]))
