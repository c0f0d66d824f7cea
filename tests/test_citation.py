"""CITATION.cff says what the package says."""

import tomllib
from pathlib import Path

import pytest
import yaml

import expectedkernels as ek

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_has_the_keys_the_format_requires(citation):
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["type"] == "software"


def test_version_license_and_authors_are_those_of_the_package(citation, project):
    assert citation["version"] == ek.__version__
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]


def test_changelog_has_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {ek.__version__}" in changelog


def test_refers_to_the_paper(citation):
    [paper] = citation["references"]
    assert paper["title"] == "Tractable Computation of Expected Kernels"
    families = [author["family-names"] for author in paper["authors"]]
    assert families == ["Li", "Zeng", "Vergari", "Van den Broeck"]
    assert paper["year"] == 2021
