"""The reference of the site names everything public, and nothing else."""

import inspect
import re

import pytest

import expectedkernels as ek
from docs._ext import api_pages, gallery_pages

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


def test_scripts_become_pages_without_their_docstring_in_the_code(tmp_path):
    script = tmp_path / "two.py"
    script.write_text('"""One and one: a sum.\n\nMore of it.\n"""\n\nprint(1 + 1)\n')
    page = gallery_pages.script_page(script, ["two.png"])
    assert page.startswith("# One and one\n\nOne and one: a sum.\n\nMore of it.\n\n![What two.py")
    assert ":lines: 5-" in page
    assert "A sum." in gallery_pages.card(script, [])


def test_a_script_that_fails_stops_the_build(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery_pages, "KEPT", tmp_path)
    script = tmp_path / "bad.py"
    script.write_text("raise ValueError('no')")
    with pytest.raises(RuntimeError, match=r"bad\.py failed:(.|\n)*ValueError: no"):
        gallery_pages.outcome(script, "")
