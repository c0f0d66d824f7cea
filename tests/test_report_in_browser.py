"""Reports in a real browser: figures are there, nothing is wrong, and phones need no sideways."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import expectedkernels as ek
from browser import CHROMIUM, DRIVER, a_browser
from cli_files import invoke, write_all

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="Chromium and its driver are not installed"
)

LOOK = """return {
  images: [...document.images].map(i => ({
    natural: i.naturalWidth, width: i.width, ratio: i.width / i.height,
    drawn: i.naturalWidth / i.naturalHeight, moved: i.parentElement.className == "wide" })),
  page: document.documentElement.scrollWidth, window: innerWidth,
  colours: [...document.querySelectorAll("h1, h2, p, th, td")].map(e => getComputedStyle(e).color),
  paper: getComputedStyle(document.body).backgroundColor }"""

P = ek.factorized([[0.5, 0.5], [0.3, 0.7]]).with_names(["a", "b"])


def everything(path):
    """A report of all that may be in one, too wide for phones and windows."""
    figure, axes = plt.subplots(1, 4, figsize=(14, 3))
    for ax in axes:
        ax.plot([0, 1])
    many = ([f"column {i}" for i in range(40)], [list(range(40))])
    words = ["x" * 300, {"y" * 200: "z" * 200}, many, figure]
    plt.close(figure)
    return ek.reports.write_report(path, "t" * 100, {"u" * 150: words}, {"v" * 90: "w" * 90})


def changed(path):
    X = np.random.default_rng(0).integers(3, size=(60, 5))
    return ek.drift(X, np.minimum(X, 1), n_permutations=9, rng=0).report(path, seed=0)


def by_command(path):
    write_all(path.parent)
    files = [path.parent / name for name in ("patients.csv", "later.csv")]
    options = ["--without", "id", "--permutations", 9, "--report", path]
    assert invoke("compare", *files, *options).exit_code in (0, 3)
    return path


REPORTS = {
    "command": by_command,
    "everything": everything,
    "drift": changed,
    "test": lambda path: ek.mmd_test(P.sample(30, rng=0), P, rng=0).report(path),
    "groups": lambda path: ek.group_discrepancies(P, ["a", "b"]).report(path),
    "monitor": lambda path: ek.monitoring.monitor([P.sample(9, rng=i) for i in range(3)]).report(
        path
    ),
}


@pytest.fixture(scope="module")
def browser():
    with a_browser() as browser:  # fails where it does not start
        yield browser


def brightness(colour):
    """The relative luminance of a colour, such as rgb(22, 24, 28)."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("make", REPORTS.values(), ids=REPORTS)
def test_reports_are_read_on_all_screens(browser, tmp_path, make):
    path = make(tmp_path / "report.html")
    for width in (1200, 390):
        for dark in (False, True):
            assert browser.open(path, width, dark) == []
            found = browser.run(LOOK)
            assert found["window"] == width
            assert found["page"] <= width
            assert found["images"]
            for image in found["images"]:
                assert image["natural"] > 0
                assert 0 < image["width"] <= width or image["moved"]
                assert image["ratio"] == pytest.approx(image["drawn"], rel=0.05)
            assert found["paper"] == ("rgb(22, 24, 28)" if dark else "rgb(255, 255, 255)")
            for colour in set(found["colours"]):
                light = sorted(0.05 + brightness(c) for c in (colour, found["paper"]))
                assert light[1] / light[0] > 4.5  # what is asked of small text


def test_values_beside_long_names_are_seen_on_phones(browser, tmp_path):
    words = {"short": "1", "long_" * 30: "2"}
    path = ek.reports.write_report(tmp_path / "report.html", "Names", {"Answer": words})
    browser.open(path, 390)
    ends = "return [...document.querySelectorAll('td')].map(e => e.getBoundingClientRect().right)"
    assert max(browser.run(ends)[:2]) <= 390
