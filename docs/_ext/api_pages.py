"""The pages of the reference, written from the list of public names before every build.

Names of every day stand under the folder they live in, the others under their namespace.
"""

import inspect
import re
import shutil
from pathlib import Path

import expectedkernels as ek

TITLES = {
    "estimators": "Predict from incomplete rows",
    "discrepancies": "Compare models and data, and test hypotheses",
    "monitoring": "Detect drift",
    "learning": "Learn circuits and networks from data",
    "models": "Bayesian networks, factor graphs, models of other libraries",
    "circuits": "Write down circuits",
    "vtree": "Variable trees",
    "kernels": "Kernels and targets",
    "expectation": "Expected kernels",
    "stein": "Weight samples towards a target",
    "sampling": "Gibbs sampling",
    "data": "Out-of-core data",
    "io": "Read and write files",
    "datasets": "Example models",
    "checks": "Verdicts",
}
"""Headings of the folders, in the order of the page."""
ERRORS = "Errors and warnings"


def namespaces() -> list[str]:
    """The public modules."""
    return [name for name in ek.__all__ if inspect.ismodule(getattr(ek, name))]


def is_error(value: object) -> bool:
    """Whether it is a class of errors or warnings."""
    return inspect.isclass(value) and issubclass(value, Exception)


def groups() -> dict[str, list[str]]:
    """Every public name once, dotted and without the package, below the heading it belongs to."""
    spaces = namespaces()
    flat = [name for name in ek.__all__ if name not in spaces]
    found: dict[str, list[str]] = {title: [] for title in TITLES.values()}
    for name in (name for name in flat if not is_error(getattr(ek, name))):
        found[TITLES[ek._HOMES[name].split(".")[0]]].append(name)
    for space in spaces:
        names = [name for name in getattr(ek, space).__all__ if name not in flat]
        found[f"ek.{space}"] = [f"{space}.{name}" for name in names]
    found[ERRORS] = [name for name in flat if is_error(getattr(ek, name))]
    return {title: names for title, names in found.items() if names}


def named(name: str):
    """The object of a dotted name."""
    value = ek
    for part in name.split("."):
        value = getattr(value, part)
    return value


def members(cls: type) -> list[str]:
    """Directives for the properties, and the methods that show an example, of the library's own."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("expectedkernels"):
            found |= {name: member for name, member in vars(base).items() if name[0] != "_"}
    shown = []
    for name, member in found.items():
        text = inspect.getdoc(getattr(cls, name)) or ""
        if isinstance(member, property) and text:
            shown.append(f".. autoproperty:: {cls.__name__}.{name}")
        elif callable(getattr(cls, name)) and ">>> " in text:
            shown.append(f".. automethod:: {cls.__name__}.{name}")
    return shown


def file_names() -> dict[str, str]:
    """The file of every name, different ones where file systems ignore the case of letters."""
    names = [name for group in groups().values() for name in group]
    doubled = {name for name in names if name != name.lower() and name.lower() in names}
    return {name: f"{name}-class.rst" if name in doubled else f"{name}.rst" for name in names}


def name_page(name: str) -> str:
    """The page of one name."""
    space, _, own = f"expectedkernels.{name}".rpartition(".")
    value = named(name)
    title = f"ek.{name}"
    lines = [title, "=" * len(title), "", f".. currentmodule:: {space}", ""]
    if not inspect.isclass(value):
        kind = "function" if callable(value) else "data"
        return "\n".join([*lines, f".. auto{kind}:: {own}", ""])
    kind, shown = ("exception", []) if is_error(value) else ("class", members(value))
    return "\n".join([*lines, f".. auto{kind}:: {own}", "", *(f"{m}\n" for m in shown)])


def index_page() -> str:
    """The page that lists all names, each with the first line of what is said of it."""
    title = "Reference"
    lines = [
        title,
        "=" * len(title),
        "",
        "Every public name by task, then namespaces and errors; ``import expectedkernels as ek``.",
        "",
    ]
    for heading, names in groups().items():
        space = heading.removeprefix("ek.") if heading.startswith("ek.") else ""
        module = ".".join(part for part in ("expectedkernels", space) if part)
        lines += [heading, "-" * len(heading), "", f".. currentmodule:: {module}", ""]
        lines += [f"{(inspect.getdoc(named(space)) or '').splitlines()[0]}", ""] if space else []
        lines += [".. autosummary::", ""]
        lines += [f"   {name.removeprefix(space + '.')}" for name in names] + [""]
    return "\n".join([*lines, ".. toctree::", "   :hidden:", "   :glob:", "", "   names/*", ""])


def write_pages(app, config) -> None:
    """Write all pages anew."""
    folder = Path(app.srcdir) / "api"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "names").mkdir(parents=True)
    (folder / "index.rst").write_text(index_page(), encoding="utf-8")
    for name, file in file_names().items():
        (folder / "names" / file).write_text(name_page(name), encoding="utf-8")


def setup(app):
    """Write the pages before Sphinx looks for pages."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def public_name(text):
    """The full name that a word stands for, or None; calls stand for what they call."""
    name = re.sub(r"\(.*\)$", "", text, flags=re.DOTALL).removeprefix("expectedkernels.")
    value = ek
    for part in name.removeprefix("ek.").split("."):
        value = getattr(value, part, None)
        if value is None or part.startswith("_"):
            return None
    outer = name.removeprefix("ek.").partition(".")[0]
    return f"expectedkernels.{name.removeprefix('ek.')}" if outer in ek.__all__ else None
