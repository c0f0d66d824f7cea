"""Reports are whole, escaped, and fetch nothing; what notebooks show is small."""

import json
import re
import shutil
import subprocess
from html import escape, unescape
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_raises
from cli_files import invoke, write_all

write_report = ek.reports.write_report


def drawn(n=5):
    ax = plt.subplots()[1]
    ax.scatter(np.arange(n), np.arange(n) % 7, c=np.linspace(0.0, 1.0, n))
    return ax


def written(tmp_path, sections, **settings):
    path = write_report(tmp_path / "new" / "report.html", "A & B", sections, settings)
    return path.read_text(encoding="utf-8")


def test_text_is_escaped(tmp_path):
    page = written(tmp_path, {"<h>": "1 < 2 & <script>", "t": {"<k>": "<v>"}}, seed="<0>")
    assert "<title>A &amp; B</title>" in page
    assert "1 &lt; 2 &amp; &lt;script&gt;" in page
    assert not re.search("<(h|k|v|0|script)>", page)


def test_all_kinds_of_tables(tmp_path):
    frame = pd.DataFrame({"mmd": [0.25, np.nan]}, index=["a", "b"])
    page = written(
        tmp_path,
        {
            "all": [{"n": 3}, frame, pl.DataFrame({"x": ["y"]}), (["u", "v"], [[1, None]])],
            "more": ["before", ["1 < 2", "two"], pd.DataFrame({"x": [7]})],
        },
    )
    assert "<th>n<td>3" in page
    assert '<th><th class="n">mmd<tr><td>a<td class="n">0.25<tr><td>b<td class="n">-' in page
    assert "<th>x<tr><td>y" in page
    assert '<th class="n">u<th>v<tr><td class="n">1<td>-' in page
    assert "<p>before</p><ul><li>1 &lt; 2<li>two</ul>" in page
    assert '<tr><th class="n">x<tr><td class="n">7</table>' in page  # rows are not numbered


def test_figures_are_inside_and_nothing_is_fetched(tmp_path):
    page = written(tmp_path, {"one": drawn(), "two": [drawn().figure, b"\x89PNG"]}, seed=3)
    assert page.count("data:image/svg+xml;base64,") == 2
    assert page.count("data:image/png;base64,") == 1
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "prefers-color-scheme" in page
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "<th>seed<td>3" in page
    for name in ("python", "expectedkernels", "numpy", "matplotlib"):
        assert f"<th>{name}<td>" in page


def test_the_same_contents_are_the_same_file(tmp_path):
    assert written(tmp_path, {"one": drawn()}) == written(tmp_path, {"one": drawn()})


def test_large_drawings_are_pixels(tmp_path):
    page = written(tmp_path, {"one": drawn(6_000)})
    assert "data:image/png;base64," in page
    assert "svg+xml" not in page


P = ek.factorized([[0.5, 0.5], [0.3, 0.7]]).with_names(["<a>", "b"])
RESULTS = {
    "mmd_test": lambda: ek.mmd_test(P.sample(30, rng=0), P, rng=0),
    "two samples": lambda: ek.mmd_two_sample_test(P.sample(9, rng=0), P.sample(9, rng=1), rng=0),
    "drift": lambda: ek.drift(P.sample(30, rng=0), P.sample(30, rng=1), n_permutations=9, rng=0),
    "no permutations": lambda: ek.drift(P.sample(9), P.sample(9), n_permutations=0),
    "monitor": lambda: ek.monitoring.monitor([P.sample(9, rng=i) for i in range(3)]),
    "groups": lambda: ek.group_discrepancies(P, ["<a>", "b"]),
}


@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_results_write_reports_and_show_themselves_in_notebooks(make, tmp_path):
    found = make()
    page = found.report(tmp_path / "found.html", seed=11).read_text(encoding="utf-8")
    assert escape(str(found)) in page
    assert page.count("data:image/svg+xml;base64,") == len(found._pictures()) > 0
    assert "<th>seed<td>11" in page
    assert "<a>" not in page
    assert plt.get_fignums() == []
    shown = found._repr_html_()
    assert escape(str(found)) in shown
    assert "<th>kernel<td>" in shown
    assert "<a>" not in shown


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
BROWSER = (CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
WIDTHS = (1200, 390)
LOOK = """<pre></pre><script>
function look(window) {
  const d = window.document, style = window.getComputedStyle;
  return {
    images: [...d.images].map(i => ({
      natural: i.naturalWidth, width: i.width, ratio: i.width / i.height,
      drawn: i.naturalWidth / i.naturalHeight, moved: i.parentElement.className == "wide" })),
    page: d.documentElement.scrollWidth, window: window.innerWidth,
    colours: [...d.querySelectorAll("h1, h2, p, th, td")].map(e => style(e).color),
    ends: [...d.querySelectorAll("td")].map(e => e.getBoundingClientRect().right),
    paper: style(d.body).backgroundColor };
}
onload = () => document.querySelector("pre").textContent = JSON.stringify(
  [...document.querySelectorAll("iframe")].map(frame => look(frame.contentWindow)))
</script>"""


def looks(path, dark):
    """What a browser shows of a report in windows of all widths; there it logs no errors."""
    frame = f'<iframe width="{{}}" height="900" style="border:0" src="{path.name}"></iframe>'
    page = path.with_name("look.html")
    page.write_text("".join(map(frame.format, WIDTHS)) + LOOK)
    scheme = f"--blink-settings=preferredColorScheme={int(not dark)}"
    options = "--allow-file-access-from-files", "--enable-logging=stderr", "--dump-dom"
    command = [*BROWSER, scheme, *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "CONSOLE" not in done.stderr
    return json.loads(unescape(re.search("<pre>(.*?)</pre>", done.stdout)[1]))


def everything(path):
    """A report of all that may be in one, too wide for phones and windows."""
    figure = plt.subplots(1, 4, figsize=(14, 3))[0]
    many = ([f"column {i}" for i in range(40)], [list(range(40))])
    words = ["x" * 300, {"y" * 200: "z" * 200}, many, figure]
    return write_report(path, "t" * 100, {"u" * 150: words}, {"v" * 90: "w" * 90})


def by_command(path):
    write_all(path.parent)
    files = [path.parent / name for name in ("patients.csv", "later.csv")]
    options = ["--without", "id", "--permutations", 9, "--report", path]
    assert invoke("compare", *files, *options).exit_code in (0, 3)
    return path


REPORTS = {name: lambda path, make=make: make().report(path) for name, make in RESULTS.items()}


def brightness(colour):
    """The relative luminance of a colour, such as rgb(22, 24, 28)."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("make", [by_command, everything, *REPORTS.values()])
@pytest.mark.parametrize("dark", [False, True])
def test_reports_are_read_on_all_screens(tmp_path, make, dark):
    for width, found in zip(WIDTHS, looks(make(tmp_path / "report.html"), dark), strict=True):
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


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_values_beside_long_names_are_seen_on_phones(tmp_path):
    words = {"short": "1", "long_" * 30: "2"}
    path = write_report(tmp_path / "report.html", "Names", {"Answer": words})
    assert max(looks(path, dark=False)[1]["ends"][:2]) <= 390


def test_mistakes_are_named(tmp_path):
    path = tmp_path / "report.html"
    assert_raises(ek.DataError, "Got set in 'Units'", write_report, path, "t", {"Units": {1, 2}})
    with pytest.raises(ek.DataError, match="must be a mapping from headings"):
        write_report(path, "t", [("Units", "text")])
    assert_raises(ek.DataError, r"must be text. Got 3", write_report, path, 3, {})
    assert not path.exists()


NAMED = P.with_names(["<a>", "b&b"])
A = ek.Product([ek.Indicator(0, 1, 2), ek.Categorical(1, [0.2, 0.8])])
NEAR = [[1.0, 0.5], [0.5, 1.0]]
SHOWN = {
    "circuit": NAMED,
    "large circuit": ek.random_circuit(ek.Vtree.balanced(16), 5, rng=0),
    "negative": ek.Circuit.from_units(ek.Sum([A, ek.Product(A.inputs)], [2.0, -1.0])),
    "units": A,
    "network": ek.asia().with_names([f"<{i}>" for i in range(8)]),
    "grid": ek.ising_grid(2, 2, rng=0),
    "vtree": ek.Vtree.balanced(5),
    "long vtree": ek.Vtree.right_linear(400),
    "one variable": ek.Vtree.balanced(1),
    "kernel": 2.0 * ek.RBF(0.5) + ek.Delta(),
    "kernel circuit": ek.KernelCircuit(ek.kernels.kernel_input(0, NEAR)),
    "samples": ek.WeightedSamples(NAMED, [[0, np.nan], [1, 0]], [0.3, 0.7]),
    "explanation": ek.explain(NAMED, NAMED, ek.RBF(1.0)),
    "properties": ek.properties(NAMED),
    "shapley": ek.shapley_values(lambda Z: np.nan_to_num(Z).sum(axis=1), [[2.0, 3.0]]),
}


class Reader(HTMLParser):
    """The tags and the words of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.words = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    return reader


@pytest.mark.parametrize("what", SHOWN.values(), ids=SHOWN)
def test_what_is_shown_is_small_and_has_known_tags_only(what):
    html = what._repr_html_()
    known = re.findall("[a-z]+", "div b table tr th td svg g line circle text title pre")
    assert set(read(html).tags) <= set(known)
    assert len(html) < 40_000
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_names_and_sizes_and_few_units_are_shown():
    page = {name: read(what._repr_html_()) for name, what in SHOWN.items()}
    tags = {name: [own.tags.count(tag) for tag in ("circle", "line")] for name, own in page.items()}
    assert tags["circuit"] == [NAMED.n_units, NAMED.n_edges]
    assert tags["vtree"] == [9, 8]
    assert "svg" not in page["large circuit"].tags + page["long vtree"].tags
    assert "2: <a>, b&b" in page["circuit"].words
    assert set("01234") <= set(page["vtree"].words)
    assert {"400", "399"} <= set(page["long vtree"].words)
    assert {f"<{i}>" for i in range(8)} <= set(page["network"].words)
    assert str(SHOWN["explanation"]) in page["explanation"].words
