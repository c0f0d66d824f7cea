"""The reference of the site names everything public, and nothing else."""

import inspect
import re

import pytest

import expectedkernels as ek
from docs._ext import api_pages

SPACES = [name for name in ek.__all__ if inspect.ismodule(getattr(ek, name))]
LISTED = [name for names in api_pages.groups().values() for name in names]


def test_every_public_name_is_in_the_reference_once():
    flat = set(ek.__all__) - set(SPACES)
    more = {f"{s}.{n}" for s in SPACES for n in getattr(ek, s).__all__ if n not in flat}
    assert sorted(LISTED) == sorted(flat | more)


def test_pages_have_different_names_on_all_file_systems():
    files = api_pages.file_names()
    assert files["monitoring.monitor"] == "monitoring.monitor.rst"
    assert len({file.lower() for file in files.values()}) == len(LISTED)


def test_the_index_lists_names_below_their_namespace():
    text = api_pages.index_page()
    shown = text.split(".. currentmodule:: expectedkernels.algebra\n")[1].split("-----")[0]
    assert re.search(r"^   multiply$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "directive"),
    [
        ("expected_kernel", ".. autofunction:: expected_kernel"),
        ("Circuit", ".. automethod:: Circuit.sample"),
        ("Circuit", ".. autoproperty:: Circuit.n_edges"),
        ("DataError", ".. autoexception:: DataError"),
        ("algebra.multiply", ".. currentmodule:: expectedkernels.algebra"),
    ],
)
def test_pages_say_what_there_is(name, directive):
    assert directive in api_pages.name_page(name).splitlines()


def test_members_of_other_libraries_and_inner_ones_are_left_out():
    page = api_pages.name_page("ExpectedSVR")
    assert "ExpectedSVR.predict" in page
    assert "set_params" not in page
    assert "gram" not in api_pages.name_page("RBF")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mmd", "expectedkernels.mmd"),
        ("ek.mmd(p, q)", "expectedkernels.mmd"),
        ("Circuit.sample", "expectedkernels.Circuit.sample"),
        ("ek.io.read_spn", "expectedkernels.io.read_spn"),
        ("ek", None),
        ("max_bytes", None),
        ("Circuit.nothing", None),
        ("Circuit.__init__", None),
        ("errors.DataError", None),
    ],
)
def test_words_in_backticks_lead_to_public_names_only(text, name):
    assert api_pages.public_name(text) == name
