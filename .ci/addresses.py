"""Gives a tree the address of its repository: absolute links in the README, and project URLs."""

import re
import sys
from pathlib import Path


def absolute(text, repository, version):
    """The text of a page whose links and pictures can be found from anywhere."""

    def found(match):
        mark, label, path = match.groups()
        if "://" in path or path.startswith("#"):
            return match[0]
        return f"{mark}[{label}]({repository}/{'raw' if mark else 'blob'}/v{version}/{path})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", found, text)


def urls(repository, version):
    """The table of addresses for pyproject.toml."""
    pages = {"Homepage": "", "Documentation": "docs/index.md", "Changelog": "CHANGELOG.md"}
    at = f"{repository}/blob/v{version}/"
    lines = [f'{name} = "{at + page if page else repository}"' for name, page in pages.items()]
    return "\n".join(["", "[project.urls]", *lines, ""])


if __name__ == "__main__":
    tree, repository, version = Path(sys.argv[1]), sys.argv[2].rstrip("/"), sys.argv[3]
    readme, project = tree / "README.md", tree / "pyproject.toml"
    readme.write_text(
        absolute(readme.read_text(encoding="utf-8"), repository, version), encoding="utf-8"
    )
    with project.open("a", encoding="utf-8") as file:
        file.write(urls(repository, version))
