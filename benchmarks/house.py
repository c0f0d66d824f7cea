"""How large the house is: `python -m benchmarks.house [name of a call ...]`.

Prints lines and files, how many functions and modules some calls visit, and what the design wants
few of: tests for the kind of a block, and loops over the nodes of a vtree, outside of the places
that are there for it. With the name of a call, the functions it visits, in the order of their
first visit.
"""

from __future__ import annotations

import ast
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np

import expectedkernels as ek

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "expectedkernels"
KINDS = {"Table", "Normal", "Real", "Inner"}
"""The kinds of blocks."""
AT_HOME = ("engine/", "circuits/inputs.py")
"""Where the kind of a block may be asked for."""
OF_NODES = ("engine/", "vtree.py")
"""Where nodes may be gone through."""
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
SKIPPED |= {tokenize.ENCODING, tokenize.ENDMARKER}


def sources(folder: Path) -> dict[str, str]:
    """The text of all modules below a folder, by their path from there."""
    paths = sorted(folder.rglob("*.py"))
    return {str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in paths}


def code_lines(text: str) -> int:
    """The lines with code: neither empty, nor comments, nor docstrings."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstrings |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = set()
    for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__):
        if token.type not in SKIPPED:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def kind_tests(text: str) -> int:
    """The calls isinstance(..., Table), or Normal, Inner, or several of these.

    A `Real` that comes from Python's numbers is none of them.
    """
    nodes = list(ast.walk(ast.parse(text)))
    from_numbers = (x for x in nodes if isinstance(x, ast.ImportFrom) and x.module == "numbers")
    kinds = KINDS - {alias.name for node in from_numbers for alias in node.names}
    count = 0
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            names = {getattr(x, "id", getattr(x, "attr", "")) for x in ast.walk(node.args[1])}
            count += bool(names & kinds)
    return count


def node_loops(text: str) -> tuple[int, int]:
    """The statements, and the comprehensions, that go through all nodes of a vtree."""
    statements = comprehensions = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.For):
            statements += any(map(_is_of_nodes, _iterated(node.iter)))
        elif isinstance(node, ast.comprehension):
            # a bare name is too often something else here
            named = (x for x in _iterated(node.iter) if not isinstance(x, ast.Name))
            comprehensions += any(map(_is_of_nodes, named))
    return statements, comprehensions


def _iterated(node: ast.expr) -> Iterator[ast.expr]:
    """What is iterated over, behind enumerate, zip, reversed, tolist and the ends of ranges."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name == "range":
            for end in node.args:
                yield from (x for x in ast.walk(end) if isinstance(x, ast.Attribute))
        elif name in ("enumerate", "zip", "reversed"):
            for argument in node.args:
                yield from _iterated(argument)
        elif name == "tolist" and isinstance(node.func, ast.Attribute):
            yield from _iterated(node.func.value)
    else:
        yield node


def _is_of_nodes(node: ast.expr) -> bool:
    """Whether this has one entry per node: blocks, arrays of a vtree, its size or root."""
    if isinstance(node, ast.Name):
        return node.id == "blocks"
    if not isinstance(node, ast.Attribute):
        return False
    of_vtree = getattr(node.value, "id", getattr(node.value, "attr", "")) == "vtree"
    named = node.attr in ("variable", "left", "right", "height", "root")
    return node.attr in ("blocks", "n_nodes") or (of_vtree and named)


def outside(home: tuple[str, ...], count: Callable[[str], int]) -> Counter[str]:
    """The counts of all modules that are not at home, by folder (or file)."""
    found: Counter[str] = Counter()
    for path, text in sources(PACKAGE).items():
        if not path.startswith(home):
            found[path.split("/")[0]] += count(text)
    return +found


def expected_kernel() -> Callable[[], Any]:
    vtree = ek.Vtree.balanced(8)
    p = ek.random_circuit(vtree, 3, rng=0, cardinalities=[2] * 8)
    X = p.sample(5, rng=0)
    E = np.where(np.random.default_rng(0).random((4, 8)) < 0.5, np.nan, X[:4])
    return lambda: ek.expected_kernel(p, X, ek.RBF(0.1), evidence_p=E)


def _rows() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    return X, X.sum(axis=1), np.where(rng.random((8, 4)) < 0.4, np.nan, X[:8])


def svr_fit() -> Callable[[], Any]:
    X, y, _ = _rows()
    return lambda: ek.ExpectedSVR().fit(X, y)


def svr_predict() -> Callable[[], Any]:
    X, y, holes = _rows()
    machine = ek.ExpectedSVR().fit(X, y)
    return lambda: machine.predict(holes)


def collapsed_bbis() -> Callable[[], Any]:
    model = ek.ising_grid(3, 3, rng=0)
    rng = np.random.default_rng(0)
    X, masks = rng.integers(2, size=(20, 9)), rng.random((20, 9)) < 0.5
    return lambda: ek.collapsed_bbis(model, X, masks)


CALLS = {f.__name__: f for f in (expected_kernel, svr_fit, svr_predict, collapsed_bbis)}


def visited(call: Callable[[], Any]) -> Counter[tuple[str, str]]:
    """How often every function of the library runs in a call: (module, name), first ones first.

    A generator counts whenever it goes on.
    """
    found: Counter[tuple[str, str]] = Counter()
    prefix = f"{PACKAGE}/"

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix):
            name = code.co_qualname.replace(".<locals>", "")
            if not code.co_name.startswith("<"):  # comprehensions and lambdas are their function's
                found[code.co_filename.removeprefix(prefix), name] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found


def _show(title: str, rows: list[tuple[Any, ...]]) -> None:
    print(f"\n{title}")
    cells = [[f"{c:,}" if isinstance(c, int) else str(c) for c in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *rest in cells:
        shown = (c.rjust(w) for c, w in zip(rest, widths[1:], strict=True))
        print(f"  {first:{widths[0]}}  " + "  ".join(shown))


def main(names: list[str]) -> None:
    unknown = sorted(set(names) - set(CALLS))
    if unknown:
        raise SystemExit(f"no call {unknown}; there are {', '.join(CALLS)}")
    for module in walk_packages(ek.__path__, "expectedkernels."):
        if not module.name.endswith("__main__"):
            import_module(module.name)  # else what runs at import would count as visited
    if names:
        for name in names:
            for (module, function), n in visited(CALLS[name]()).items():
                print(f"{module:32}{function}  {n}")
        return
    sizes: list[tuple[Any, ...]] = [("", "files", "lines", "of code")]
    for folder in (PACKAGE, ROOT / "studies", ROOT / "tests", ROOT / "benchmarks"):
        texts = sources(folder).values()
        lines = sum(len(text.splitlines()) for text in texts)
        row = (folder.relative_to(ROOT), len(texts), lines, sum(map(code_lines, texts)))
        sizes.append(row)
    _show("Size", sizes)
    calls: list[tuple[Any, ...]] = [("", "functions", "modules", "calls")]
    for name, make in CALLS.items():
        found = visited(make())
        calls.append((name, len(found), len({module for module, _ in found}), found.total()))
    _show("What calls visit", calls)
    counts = {
        "isinstance of Table, Normal, Inner": outside(AT_HOME, kind_tests),
        "for statements over vtree nodes": outside(OF_NODES, lambda text: node_loops(text)[0]),
        "comprehensions over them": outside(OF_NODES, lambda text: node_loops(text)[1]),
    }
    where = list(dict.fromkeys(place for found in counts.values() for place in found))
    head = ("", "in all", *where)
    rows = [(what, found.total(), *(found[w] for w in where)) for what, found in counts.items()]
    _show("Outside of their home", [head, *rows])


if __name__ == "__main__":
    main(sys.argv[1:])
