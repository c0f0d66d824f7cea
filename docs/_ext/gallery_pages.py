"""The gallery: every script of examples/ is run, and gets a page of what it printed and drew.

What a script left is kept until the script or the library changes.
"""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import expectedkernels as ek

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "_build" / "gallery"


def library_digest() -> str:
    """A digest of the text of the library."""
    digest = hashlib.sha256()
    for path in sorted(Path(ek.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def outcome(script: Path, library: str) -> Path:
    """The folder that holds what a script printed and drew."""
    digest = hashlib.sha256(library.encode() + script.read_bytes()).hexdigest()
    folder = KEPT / script.stem
    stamp = folder / "digest"
    if stamp.exists() and stamp.read_text() == digest:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{script.name} failed:\n{done.stderr}")
    (folder / "printed.txt").write_text(done.stdout, encoding="utf-8")
    stamp.write_text(digest)
    return folder


def said(script: Path) -> tuple[str, str, str, int]:
    """Title, first sentence and the rest of a script's docstring, and the line after it."""
    first = ast.parse(script.read_text(encoding="utf-8")).body[0]
    sentence, _, rest = ast.literal_eval(first.value).strip().partition("\n\n")
    title = sentence.partition(":")[0].rstrip(".")
    return title, sentence.replace("\n", " "), rest, first.end_lineno + 1


def script_page(script: Path, pictures: list[str]) -> str:
    """The page of one script."""
    title, sentence, rest, line = said(script)
    parts = [f"# {title}", sentence, rest]
    parts += [f"![What {script.name} draws]({name})" for name in pictures]
    parts += ["## What it prints", f"```{{literalinclude}} {script.stem}.txt\n:language: text\n```"]
    parts += [
        f"## examples/{script.name}",
        f"```{{literalinclude}} ../../examples/{script.name}\n:lines: {line}-\n```",
    ]
    return "\n\n".join(parts) + "\n"


def card(script: Path, pictures: list[str]) -> str:
    """The card that leads to a script's page."""
    title, sentence, _, _ = said(script)
    shown = "".join(f":img-bottom: {name}\n" for name in pictures[:1])
    body = sentence.partition(": ")[2] or sentence
    body = body[:1].upper() + body[1:]
    link = f":link: {script.stem}\n:link-type: doc\n"
    return f":::{{grid-item-card}} {title}\n{link}{shown}\n{body}\n:::\n"


def write_pages(app, config) -> None:
    """Run what has to be run and write all pages anew."""
    folder = Path(app.srcdir) / "gallery"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    scripts = sorted((ROOT / "examples").glob("*.py"))
    library = library_digest()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda script: outcome(script, library), scripts))
    cards = []
    for script, kept in zip(scripts, outcomes, strict=True):
        pictures = sorted(path.name for path in kept.glob("*.png"))
        for name in pictures:
            shutil.copy(kept / name, folder / name)
        shutil.copy(kept / "printed.txt", folder / f"{script.stem}.txt")
        (folder / f"{script.stem}.md").write_text(script_page(script, pictures), encoding="utf-8")
        cards.append(card(script, pictures))
    pages = "\n".join(script.stem for script in scripts)
    text = (
        "# Gallery\n\nScripts to start from, with what they print and draw. The build of these "
        "pages has run them.\n\n"
        f"::::{{grid}} 1 2 2 2\n:gutter: 3\n\n{''.join(cards)}::::\n\n"
        f"```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    )
    (folder / "index.md").write_text(text, encoding="utf-8")


def setup(app):
    """Write the pages before Sphinx looks for pages."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
