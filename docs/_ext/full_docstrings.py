"""Docstrings made whole for their pages: shared parameters, defaults, and related names.

In the source, ``As for `other``` stands for descriptions that another docstring has, and a class
leaves out the parameters that its bases describe. Defaults are those of the signature.
"""

import inspect
import re
from functools import cache

from api_pages import groups, named, public_name

HEADER = re.compile(r"([\w*]+(?:, [\w*]+)*)(?: : (.+))?$")
ELSEWHERE = re.compile(r"(?:As for|see) `([\w.]+)`(?: and `[\w.]+`)?[.,]?\s*")
TITLE = re.compile(r"\w[\w ]*$")
MOST = 6


def parsed(docstring: str, title: str = "Parameters") -> list[tuple[list[str], str, list[str]]]:
    """The entries of a section: their names, their types and their descriptions."""
    lines, found = docstring.splitlines(), []
    begin = next((i for i, line in enumerate(lines) if line == title and "---" in lines[i + 1]), -1)
    for line in lines[begin + 2 :] if begin >= 0 else []:
        if TITLE.match(line) and lines[lines.index(line, begin + 2) + 1 :][:1] == ["-" * len(line)]:
            break
        header = HEADER.match(line)
        if header:
            names = [name.lstrip("*") for name in header[1].split(", ")]
            found.append((names, header[2] or "", []))
        elif found and (line.strip() or found[-1][2]):
            found[-1][2].append(line)
    return found


def other(name: str, owner):
    """What a docstring refers to: a member of the same class, or a public name."""
    members = [cls for cls in getattr(owner, "__mro__", ()) if hasattr(cls, name)]
    return getattr(members[0], name) if members else named(name)


def entries(value, owner=None, title: str = "Parameters") -> list[tuple[list[str], str, list[str]]]:
    """All entries of a section: also those that another docstring, or a base, describes."""
    bases = value.__mro__[:-1] if inspect.isclass(value) else (value,)
    found, seen = [], set()
    for base in bases:
        for names, kind, body in parsed(inspect.cleandoc(base.__doc__ or ""), title):
            text = " ".join(line.strip() for line in body)
            elsewhere = ELSEWHERE.match(text or kind)
            theirs = entries(other(elsewhere[1], owner), owner) if elsewhere else []
            shared = [([n for n in ns if n in names], k, [*b]) for ns, k, b in theirs]
            shared = [(ns, k if kind in ("", "optional") else kind, b) for ns, k, b in shared if ns]
            if shared and not set(names) & seen:
                found += shared
                rest = text[elsewhere.end() :]
                found[-1][2].extend([f"    {rest[:1].upper()}{rest[1:]}"] if rest else [])
            elif not seen >= set(names):
                found.append((names, kind, body))
            seen |= set(names)
    if title != "Parameters" or inspect.isclass(value):
        return found  # of a class: its own parameters first
    wanted = list(signature(value))
    found = [entry for entry in found if set(entry[0]) & set(wanted)]
    return sorted(found, key=lambda entry: min(wanted.index(n) for n in entry[0] if n in wanted))


def signature(value) -> dict[str, inspect.Parameter]:
    """The parameters of a function, or of the constructor of a class, by name."""
    found = inspect.signature(value).parameters
    return {name: found[name] for name in found if name not in ("self", "cls")}


def default(parameter: inspect.Parameter) -> str:
    """The default as people write it, or nothing."""
    value = parameter.default
    if value is parameter.empty or value is None:
        return ""
    if isinstance(value, int) and value >= 2**15 and value & (value - 1) == 0:
        return f"2**{value.bit_length() - 1}"
    return repr(value) if isinstance(value, str | int | float | tuple | bool) else ""


def headed(names: list[str], kind: str, wanted: dict[str, inspect.Parameter]) -> str:
    """The first line of an entry, with the default if the type does not name it."""
    starred = {inspect.Parameter.VAR_KEYWORD: "**", inspect.Parameter.VAR_POSITIONAL: "*"}
    shown = ", ".join(starred.get(wanted[n].kind, "") + n if n in wanted else n for n in names)
    defaults = [default(wanted[name]) for name in names if name in wanted]
    if defaults and all(defaults) and "default" not in kind.lower():
        same = defaults[:1] if len(set(defaults)) == 1 else defaults
        kind = f"{kind}, default: {', '.join(same)}"
    return f"{shown} : {kind}" if kind else shown


@cache
def mentions() -> dict[str, list[str]]:
    """The public names that the docstring of every public name mentions, in their order."""
    names = [name for group in groups().values() for name in group]
    found = {}
    for name in names:
        words = re.findall(r"`([\w.]+)`", inspect.getdoc(named(name)) or "")
        full = [public_name(word) for word in words]
        plain = [word.removeprefix("expectedkernels.") for word in full if word]
        tops = [".".join(w.split(".")[: 2 if w.split(".")[0].islower() else 1]) for w in plain]
        found[name] = [top for top in dict.fromkeys(tops) if top in names and top != name]
    return found


def related(name: str) -> list[str]:
    """Public names to look at next: of its kin, mentioned ones, ones that mention it, its group."""
    group = next((names for names in groups().values() if name in names), [])
    family = re.split(r"_|\d", name)[0]
    kin = [other for other in group if "." not in name and re.split(r"_|\d", other)[0] == family]
    back = [other for other, theirs in mentions().items() if name in theirs]
    near = [n for n in back if n in group]
    order = dict.fromkeys([*kin[:3], *mentions()[name], *near, *back, *group])
    return [other for other in order if other != name][:MOST]


def replace(lines: list[str], title: str, text: list[str]) -> None:
    """Put text in place of a section, or where sections begin if there is none."""
    heads = [
        i - 1 for i, line in enumerate(lines) if i and line and line == "-" * len(lines[i - 1])
    ]
    own = [i for i in heads if lines[i] == title]
    begin = own[0] if own else min(heads, default=len(lines))
    end = min((i for i in heads if i > begin), default=len(lines)) if own else begin
    lines[begin:end] = [title, "-" * len(title), *text, ""]


def whole(app, what, name, obj, options, lines) -> None:
    """Replace the parameters of a docstring by all entries, and add what is related."""
    if what not in ("class", "function", "method"):
        return
    short = name.removeprefix("expectedkernels.")
    owner = named(short.rpartition(".")[0]) if what == "method" else obj
    wanted = signature(obj)
    for title in ("Attributes", "Parameters") if what == "class" else ("Parameters",):
        text = []
        for names, kind, body in entries(obj, owner, title):
            head = headed(names, kind, wanted if title == "Parameters" else {})
            text += [head, *"\n".join(body).rstrip().splitlines()]
        if text:
            replace(lines, title, text)
    if what != "method" and "See Also" not in lines and (names := related(short)):
        replace(lines, "See Also", [", ".join(f":obj:`~expectedkernels.{n}`" for n in names)])


def setup(app):
    """Do it before numpydoc reads the sections."""
    app.connect("autodoc-process-docstring", whole, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
