"""Reports: one HTML file that holds its tables and figures, and needs nothing beside it."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from html import escape
from io import BytesIO
from pathlib import Path
from platform import platform, python_version
from typing import Any, ClassVar

from expectedkernels.checks import DataError, preview
from expectedkernels.display import NOTEBOOK, pairs, table

__all__ = ["write_report"]

WIDE = 2.0
"""Figures that are wider than this, by their height, are moved on narrow screens."""

LARGEST_SVG = 400_000
"""Figures with longer drawings are written as pixels."""

NAMED = ("expectedkernels", "numpy", "scipy", "sklearn", "pandas", "polars", "torch", "matplotlib")
"""Modules whose versions are written down if they were imported."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --line: #d8dbe0; --soft: #5c636e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6eb; --paper: #16181c; --line: #3a3f47; --soft: #a0a7b3 } }
body { margin: 0 auto; max-width: 60rem; padding: 1rem 1.2rem 3rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.6rem; line-height: 1.2 }
h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid var(--line) }
div.wide { overflow-x: auto; margin: 1rem 0 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600; white-space: nowrap }
td:first-child { min-width: 8rem }
td:first-child, th:first-child { white-space: normal; max-width: 12rem }
.n { text-align: right }
figure { margin: 1rem 0 }
figure img { max-width: 100%; height: auto; background: #fff; border-radius: 6px }
@media (max-width: 40rem) {
  figure.wide { overflow-x: auto } figure.wide img { max-width: none; height: 15rem } }
footer { margin-top: 3rem; font-size: .85rem; color: var(--soft) }
"""


def write_report(
    path: str | Path,
    title: str,
    sections: Mapping[str, object],
    settings: Mapping[str, object] | None = None,
) -> Path:
    """The path, after a report was written there: one HTML file with all of its figures.

    The file needs no network and no other file, follows the reader's choice of light or dark, and
    is read on a phone as well. The same contents give the same file.

    Parameters
    ----------
    path : str or Path
        Its folder is made if there is none.
    title : str
        The heading of the page.
    sections : mapping
        From headings to what is below them, a thing or a list of things: text is a paragraph, a
        list of texts within that list is a list, a mapping a table of names and values, a data
        frame (of pandas or polars) a table, a pair ``(columns, rows)`` likewise; axes or figures of
        matplotlib are drawn, and bytes are the contents of a PNG file.
    settings : mapping, optional
        What the numbers depend on, such as parameters and seeds: a table at the end, beside that
        of the versions.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        If a section holds something else, or the sections are no mapping.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = write_report(
    ...         f"{folder}/sizes.html", "Sizes", {"Units": {"sums": 3}}, {"seed": 0}
    ...     )
    ...     "<th>sums" in path.read_text(encoding="utf-8")
    True
    """
    if not isinstance(title, str):
        raise DataError(f"The title of a report must be text. Got {preview(title)}.")
    if not isinstance(sections, Mapping):
        rule = "The sections of a report must be a mapping from headings to what is below them"
        raise DataError(f"{rule}. Got {preview(sections)}.")
    parts = ""
    for heading, found in sections.items():
        inside = "".join(_part(heading, x) for x in (found if isinstance(found, list) else [found]))
        parts += f"<section><h2>{escape(str(heading))}</h2>{inside}</section>\n"
    chosen = f"<h2>Settings</h2>{_scrolling(pairs(settings))}" if settings else ""
    # without an icon of its own, browsers ask for one
    page = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><style>{STYLE}</style>
<body><h1>{escape(title)}</h1>
{parts}<footer>{chosen}<h2>Versions</h2>{_scrolling(pairs(versions()))}</footer>
</html>
"""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


class Reported:
    """What results share that are shown in notebooks, and write reports of themselves.

    They say what they are by `_title`, `_numbers`, `_settings`, `_tables` and `_pictures`.
    """

    _title: ClassVar[str]
    _picture: ClassVar[str]  # the heading of what `plot` draws
    _table: ClassVar[str] = ""  # the heading of `frame()`, if there is one
    kernel: Any

    def _numbers(self) -> dict[str, Any]:
        """What was found."""
        return {}

    def _settings(self) -> dict[str, Any]:
        """What the numbers depend on."""
        return {"kernel": repr(self.kernel)}

    def _tables(self) -> dict[str, Any]:
        """From headings to tables."""
        result: Any = self
        return {self._table: result.frame()} if self._table else {}

    def _pictures(self) -> dict[str, Callable[[], Any]]:
        """From headings to what draws the picture."""
        result: Any = self
        return {self._picture: result.plot}

    def report(self, path: str | Path, **settings: object) -> Path:
        """The path, after a report was written there: one HTML file. Needs matplotlib and pandas.

        Parameters
        ----------
        path : str or Path
            Where to write; its folder is made if it is missing.
        **settings
            What else is to be written down there, such as ``seed=0``.

        Returns
        -------
        Path

        Examples
        --------
        >>> import expectedkernels as ek
        >>> from tempfile import TemporaryDirectory
        >>> p = ek.factorized([[0.5, 0.5], [0.3, 0.7]])
        >>> found = ek.mmd_test(p.sample(50, rng=0), p, rng=1)
        >>> with TemporaryDirectory() as folder:
        ...     found.report(f"{folder}/test.html", seed=1).name
        'test.html'
        """
        from expectedkernels.plotting import close

        drawn = {heading: draw() for heading, draw in self._pictures().items()}
        found = [str(self), self._numbers()]
        sections: dict[str, Any] = {"What was found": found, **drawn, **self._tables()}
        try:
            return write_report(path, self._title, sections, {**self._settings(), **settings})
        finally:
            for axes in drawn.values():
                close(axes)

    def _repr_html_(self) -> str:
        shown = pairs({**self._numbers(), **self._settings()}, NOTEBOOK)
        return f"<p>{escape(str(self))}</p>{shown}"


def pictures_of(result: Reported) -> dict[str, Callable[[], Any]]:
    """From headings to what draws the pictures of a result.

    Examples
    --------
    >>> import expectedkernels as ek
    >>> p = ek.factorized([[0.5, 0.5]])
    >>> list(pictures_of(ek.mmd_test(p.sample(5, rng=0), p, rng=1)))
    ['The statistic among simulated ones']
    """
    return result._pictures()


def versions() -> dict[str, str]:
    """The versions of Python, of the system, and of the packages that were imported.

    Examples
    --------
    >>> list(versions())[:2]
    ['python', 'system']
    """
    found = {"python": python_version(), "system": platform()}
    for name in NAMED:
        if name in sys.modules:
            # what runs, which need not be what is installed
            found[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    return found


def _part(heading: str, part: Any) -> str:
    """One thing of a section as HTML."""
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if isinstance(part, list) and all(isinstance(line, str) for line in part):
        return "<ul>" + "".join(f"<li>{escape(line)}" for line in part) + "</ul>"
    if isinstance(part, Mapping):
        return _scrolling(pairs(part))
    if isinstance(part, bytes):
        wide, high = (int.from_bytes(part[at : at + 4], "big") for at in (16, 20))
        return _image(heading, "image/png", part, wide > WIDE * high)
    if isinstance(part, tuple) and len(part) == 2:
        return _scrolling(table(*part))
    if hasattr(part, "iter_rows") or hasattr(part, "itertuples"):
        names: list[Any] = list(part.columns)
        if hasattr(part, "iter_rows"):
            rows = part.iter_rows()
        elif part.index.dtype.kind in "iu" and part.index.name is None:  # just numbers
            rows = part.itertuples(index=False)
        else:
            names, rows = [part.index.name or "", *names], part.itertuples()
        return _scrolling(table(names, rows))
    figure = getattr(part, "figure", part)
    if not hasattr(figure, "savefig"):
        rule = "A section of a report holds text, mappings, tables and figures"
        raise DataError(f"{rule}. Got {type(part).__name__} in {heading!r}.")
    from matplotlib import rc_context

    drawing, (wide, high) = BytesIO(), figure.get_size_inches()
    with rc_context({"svg.hashsalt": "expectedkernels"}):  # else names in it are random
        figure.savefig(drawing, format="svg", metadata={"Date": None, "Creator": None})
    kind = "svg+xml" if drawing.tell() <= LARGEST_SVG else "png"
    if kind == "png":
        drawing = BytesIO()
        figure.savefig(drawing, format="png", dpi=160)
    return _image(heading, f"image/{kind}", drawing.getvalue(), wide > WIDE * high)


def _scrolling(inside: str) -> str:
    """On narrow screens tables are moved, and not the page."""
    return f'<div class="wide">{inside}</div>'


def _image(heading: str, kind: str, contents: bytes, wide: bool) -> str:
    data = b64encode(contents).decode("ascii")
    alt = escape(str(heading), quote=True)
    shape = ' class="wide"' if wide else ""
    return f'<figure{shape}><img alt="{alt}" src="data:{kind};base64,{data}"></figure>'
