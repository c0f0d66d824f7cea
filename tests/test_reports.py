"""Reports are whole: what is given is there, escaped, and nothing is fetched from elsewhere."""

import re
from html import escape

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest

import expectedkernels as ek

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
    with pytest.raises(ek.DataError, match="Got set in 'Units'"):
        write_report(path, "t", {"Units": {1, 2}})
    with pytest.raises(ek.DataError, match="must be a mapping from headings"):
        write_report(path, "t", [("Units", "text")])
    with pytest.raises(ek.DataError, match=r"must be text. Got 3"):
        write_report(path, 3, {})
    assert not path.exists()
