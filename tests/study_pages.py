"""What a page of a study has to hold."""

import re
from html import escape

import expectedkernels as ek


def assert_page_holds_the_summary(page, text, line, n_figures):
    """Assert that all tables and words of a summary are in a page, and how it was made."""
    html = page.read_text(encoding="utf-8").replace("&nbsp;", " ")
    assert html.count('<img alt="') == html.count("data:image/png;base64,") == n_figures
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    plain = re.sub(r"\*+([^*|\n]+)\*+", r"\1", text)
    rows = [row[2:-2].split(" | ") for row in plain.splitlines() if row.startswith("| ")]
    assert rows
    for row in rows:
        if not set("".join(row)) <= set("-:"):
            cells = [escape(cell) for cell in row]
            assert any("".join(f"<t{t}>{c}" for c in cells) in html for t in "dh"), row
    for block in plain.split("\n\n"):
        if block[0] not in "|!#":
            assert all(escape(x.removeprefix("- ")) in html for x in block.strip().splitlines())
    assert re.search(f"<th>command<td>python -m studies [a-z]+ .*{re.escape(line)}", html)
    assert "<th>study: seed<td>0<" in html
    assert "<th>quick<td>yes<" in html
    assert "<th>jobs<td>1 (default)<" in html
    assert f"<th>expectedkernels<td>{ek.__version__}<" in html
