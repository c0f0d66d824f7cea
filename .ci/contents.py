"""Complains if a wheel holds anything but the package, or a source archive lacks a part."""

import sys
import tarfile
import zipfile

PARTS = {"src", "studies", "tests", "examples", "benchmarks", "docs", ".ci", ".github"}
FILES = {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "pyproject.toml"}


def tops(names):
    """The first part of every path."""
    return {name.split("/")[0] for name in names}


def check(wheel, sdist):
    """Look at the names of the files of both."""
    with zipfile.ZipFile(wheel) as packed, tarfile.open(sdist) as sources:
        names, paths = packed.namelist(), sources.getnames()
    extra = {top for top in tops(names) if not top.startswith("expectedkernels")}
    if extra or "expectedkernels/py.typed" not in names:
        sys.exit(f"The wheel holds {sorted(tops(names))}, and py.typed must be among its files.")
    inside = tops(path.split("/", 1)[1] for path in paths if "/" in path)
    if lacking := (PARTS | FILES) - inside:
        sys.exit(f"The source archive lacks {sorted(lacking)}.")


def same(wheel, other):
    """Compare the contents of two wheels."""
    held = []
    for path in (wheel, other):
        with zipfile.ZipFile(path) as packed:
            held.append({name: packed.read(name) for name in packed.namelist()})
    one, two = held
    differing = {name for name in one.keys() | two.keys() if one.get(name) != two.get(name)}
    if differing:
        sys.exit(f"The source archive makes another wheel. These differ: {sorted(differing)}.")


if sys.argv[1] == "--same":
    same(*sys.argv[2:])
else:
    check(*sys.argv[1:])
