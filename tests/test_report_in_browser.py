"""A report in a real browser: figures are there, nothing is wrong, and phones need no sideways."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import expectedkernels as ek

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

# what the page knows of itself once it is laid out, written where --dump-dom shows it
LOOK = """<script>addEventListener("load", () => { document.title = JSON.stringify({
  images: [...document.images].map(image => [image.naturalWidth, image.width]),
  page: document.documentElement.scrollWidth, window: innerWidth,
  paper: getComputedStyle(document.body).backgroundColor }) })</script>"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 5))
    found = ek.drift(X, np.minimum(X, 1), n_permutations=9, rng=0)
    path = found.report(tmp_path_factory.mktemp("report") / "drift.html", seed=0)
    page = path.read_text(encoding="utf-8")
    path.write_text(page.replace("</body>", f"{LOOK}</body>"), encoding="utf-8")
    return path


def seen(path, profile, width, *options):
    """What the page wrote down of itself at this width, after checking that it logs nothing."""
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--v=0",
            f"--user-data-dir={profile}",
            f"--window-size={width},900",
            *options,
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    title = re.search("<title>(.*)</title>", done.stdout)
    if done.returncode or not title:
        pytest.skip(f"Chromium does not start here: {done.stderr[-300:]}")
    assert "CONSOLE" not in done.stderr
    return json.loads(title[1])


@pytest.mark.parametrize("width", [1200, 390])
def test_figures_are_seen_and_the_page_is_as_wide_as_the_window(report, tmp_path, width):
    found = seen(report, tmp_path, width)
    assert len(found["images"]) == 2
    assert all(natural > 0 for natural, _ in found["images"])
    assert all(0 < shown <= found["window"] for _, shown in found["images"])
    assert found["page"] <= found["window"]


def test_the_page_is_dark_for_those_who_want_it(report, tmp_path):
    dark = seen(report, tmp_path, 1200, "--blink-settings=preferredColorScheme=0")
    light = seen(report, tmp_path, 1200, "--blink-settings=preferredColorScheme=1")
    assert light["paper"] == "rgb(255, 255, 255)"
    assert dark["paper"] == "rgb(22, 24, 28)"
