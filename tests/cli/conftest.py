"""A folder to work in, with all files that the examples of the commands name."""

import pytest

from cli_files import write_all


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path)
    return tmp_path
