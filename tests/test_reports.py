"""Reports are whole, escaped, and fetch nothing; what notebooks show is small."""

import re
from html import escape
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek
from assertions import assert_raises

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
    assert '<meta name="viewport"' in page
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


def test_mistakes_are_named(tmp_path):
    path = tmp_path / "report.html"
    assert_raises(ek.DataError, "Got set in 'Units'", write_report, path, "t", {"Units": {1, 2}})
    with pytest.raises(ek.DataError, match="must be a mapping from headings"):
        write_report(path, "t", [("Units", "text")])
    assert_raises(ek.DataError, r"must be text. Got 3", write_report, path, 3, {})
    assert not path.exists()


NAMED = ek.factorized([[0.5, 0.5], [0.3, 0.7]]).with_names(["<a>", "b&b"])
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


def test_circuits_show_names_and_sizes_and_few_units():
    page = read(NAMED._repr_html_())
    assert "2: <a>, b&b" in page.words
    assert page.tags.count("circle") == NAMED.n_units
    assert page.tags.count("line") == NAMED.n_edges
    assert "svg" not in read(SHOWN["large circuit"]._repr_html_()).tags


def test_vtrees_show_all_nodes_if_they_are_few():
    page = read(SHOWN["vtree"]._repr_html_())
    assert page.tags.count("circle") == 9
    assert page.tags.count("line") == 8
    assert set("01234") <= set(page.words)
    page = read(SHOWN["long vtree"]._repr_html_())
    assert {"400", "399"} <= set(page.words)
    assert "svg" not in page.tags


def test_networks_show_all_variables():
    page = read(SHOWN["network"]._repr_html_())
    assert {f"<{i}>" for i in range(8)} <= set(page.words)


def test_explanations_show_what_they_print():
    found = SHOWN["explanation"]
    assert str(found) in read(found._repr_html_()).words
