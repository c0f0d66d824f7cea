"""How the pages in this folder become a site: ``make docs``."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from expectedkernels import __version__

project = "expectedkernels"
author = "The expectedkernels developers"
project_copyright = author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "full_docstrings",
    "math_markup",
    "name_role",
]
exclude_patterns = ["_build", "_ext"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = False  # api_pages writes a page for every name
default_role = "name"
autodoc_typehints = "none"  # numpydoc's sections say it in words
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "icon_links": [
        {"name": "Repository", "url": address, "icon": "fa-solid fa-code-branch"}
        for address in [os.environ.get("REPOSITORY")]  # make docs REPOSITORY=https://...
        if address
    ],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "run_stale_examples": True,  # the library may have changed where the script has not
    "abort_on_example_error": True,
    "parallel": 2,
    "thumbnail_size": (600, 420),
    "min_reported_time": 3600,  # pages are the same on every machine
    "write_computation_times": False,
    "show_signature": False,
    "download_all_examples": False,
    "reference_url": {"expectedkernels": None},
    "capture_repr": (),
}
