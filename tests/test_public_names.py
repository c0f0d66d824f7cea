"""Every public name is documented, with an example that runs (the doctests run them)."""

import ast
import inspect
import re
import sys
import textwrap
from pathlib import Path

import pytest

import expectedkernels as ek

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "_ext"))
import full_docstrings

NAMESPACES = [name for name in ek.__all__ if inspect.ismodule(getattr(ek, name))]
FLAT = {name: getattr(ek, name) for name in ek.__all__ if name not in NAMESPACES}
LISTED = {
    f"{space}.{name}": getattr(getattr(ek, space), name)
    for space in NAMESPACES
    for name in getattr(ek, space).__all__
}
PUBLIC = FLAT | {name: value for name, value in LISTED.items() if name.split(".")[1] not in FLAT}
"""Every public name once, and what it names."""


def is_error(value):
    return inspect.isclass(value) and issubclass(value, Exception)


@pytest.mark.parametrize("name", [*PUBLIC, *NAMESPACES])
def test_every_public_name_has_a_docstring(name):
    assert inspect.getdoc(PUBLIC.get(name) or getattr(ek, name))


def test_names_are_those_of_one_namespace_each():
    assert sorted(dir(ek)) == sorted([*FLAT, *NAMESPACES, "__version__"])
    assert all(FLAT.get(name.split(".")[1], value) is value for name, value in LISTED.items())
    names = [name.split(".")[1] for name in LISTED]
    assert len(names) == len(set(names))
    with pytest.raises(AttributeError, match=r"no attribute 'expected_kernels'$"):
        _ = ek.expected_kernels


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - set(FLAT)))
def test_names_of_a_namespace_are_not_flat_and_the_error_says_where_they_are(name):
    flat = name.split(".")[1]
    with pytest.raises(AttributeError, match=rf"no attribute '{flat}': {flat} is now ek\.{name}$"):
        getattr(ek, flat)


def members(cls):
    """The public methods and properties of a class and its bases in the library, by name."""
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("expectedkernels"):
            for name, member in vars(base).items():
                function = getattr(member, "fget", getattr(member, "__func__", member))
                if (name == "__call__" or name[0] != "_") and inspect.isfunction(function):
                    yield f"{base.__name__}.{name}", function


def callables():
    """Every function, constructor, method and property that people can call, by name."""
    found = {}
    for name, value in PUBLIC.items():
        if inspect.isclass(value) and not is_error(value):
            found |= {name: value.__init__, **dict(members(value))}
        elif not inspect.isclass(value):
            found[name] = value
    return found


SAYS_ANY = {
    "models.from_cirkit",  # networks of libraries that need not be installed
    "models.from_spflow",
    "models.to_cirkit",
    "models.to_networkx",
    "models.to_pgmpy",
    "models.to_pyagrum",
    "models.to_spflow",
    "load",  # whatever is in the file
    "learn_mixture",  # options for the learner of the components
    "stein.SteinSamples",  # kernels of three kinds, which share no base with all that is used
}
"""Whose signatures say Any, because no type says it better."""


def test_signatures_say_what_they_take_and_return():
    vague = {
        name
        for name, function in callables().items()
        if re.search(r"\bAny\b", str(inspect.signature(function)))
    }
    assert vague == SAYS_ANY


INNER = {
    "Circuit": ("aligned_to deferred from_blocks input matched require_single_root with_schema"),
    "Empirical": "on",
    "Kernel": "blocks gram is_symmetric factors pairs scaled",
    "PartitionSteinKernel": "site_logs",
    "Target": "log_density",
    "Vtree": "align is_leaf renumbered",
}
"""Methods that modules call of each other, with what is not public: a sentence is enough."""


def is_inner(name):
    owner, _, method = name.partition(".")
    return method in INNER.get(owner, "").split()


def documented():
    """Every function and class, and every method where it is first defined, with its docstring."""
    for name, value in PUBLIC.items():
        if not inspect.isclass(value):
            yield name, value, value.__doc__
        elif not is_error(value):
            # a class says what its bases do not
            yield name, value.__init__, "\n".join(b.__doc__ or "" for b in value.__mro__[:-1])
            firsts = {}
            for method, function in members(value):
                if not is_property(value, method):
                    firsts.setdefault(method.split(".")[1], (method, function, function.__doc__))
            yield from (first for first in firsts.values() if not is_inner(first[0]))


def is_property(cls, method):
    return not callable(getattr(cls, method.split(".")[1]))


def has_section(docstring, title):
    return re.search(rf"^ *{title}\n *-+$", docstring, re.MULTILINE) is not None


def raises(function):
    """Whether a function of the library raises errors on its own, and not those of bases."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):  # no text: made by dataclass, or of object
        return False
    found = (n.exc for n in ast.walk(tree) if isinstance(n, ast.Raise) and n.exc)
    return any("NotImplementedError" not in ast.unparse(exc) for exc in found)


def missing(name, function, docstring):
    """The parts that a docstring does not have and should."""
    signature = inspect.signature(function)
    names = set(signature.parameters) - {"self", "cls", "args", "kwargs"}
    titles = {"Parameters"} if names else set()
    if function.__name__ == "__init__":
        titles = set() if has_section(docstring, "Attributes") else titles
    elif signature.return_annotation != "None":
        titles |= {"Returns"}
    titles |= {"Raises"} if raises(function) else set()
    lacks = {title for title in titles if not has_section(docstring, title)}
    lacks |= {n for n in names if not re.search(rf"\b{n}\b", docstring)}
    return lacks if ">>> " in docstring else {*lacks, "Examples"}


DOCUMENTED = {name: (function, docstring or "") for name, function, docstring in documented()}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_have_all_their_parts(name):
    assert missing(name, *DOCUMENTED[name]) == set()


def test_missing_parts_would_be_noticed():
    def spoken(word: "str") -> "str":
        """What is said.

        Parameters
        ----------
        word : str
        """

    assert missing("spoken", spoken, spoken.__doc__) == {"Returns", "Examples"}


def owner_of(name):
    """The public class that a method belongs to."""
    classes = {v.__name__: v for v in PUBLIC.values() if inspect.isclass(v)}
    return classes.get(name.partition(".")[0])


def undescribed(name):
    """The parameters that the page of a name shows without a type or a description."""
    value, found = PUBLIC.get(name, DOCUMENTED[name][0]), {}
    titles = ("Parameters", "Attributes") if inspect.isclass(value) else ("Parameters",)
    for title in titles:
        for names, kind, body in full_docstrings.entries(value, owner_of(name), title):
            found |= {n: bool(kind) and any(body) for n in names if not found.get(n)}
    wanted = full_docstrings.signature(value).values()
    return {p.name for p in wanted if p.kind is not p.VAR_KEYWORD and not found.get(p.name)}


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if not name.endswith("__call__")])
def test_every_parameter_has_a_type_and_a_description_on_its_page(name):
    assert undescribed(name) == set()


def test_pages_compose_shared_parameters_and_defaults():
    lines = full_docstrings.entries(ek.collapsed_bbis)
    [shown] = [entry for entry in lines if entry[0] == ["epsilon"]]
    head = full_docstrings.headed(*shown[:2], full_docstrings.signature(ek.collapsed_bbis))
    assert (head, shown[2][0].strip()) == (
        "epsilon : float, default: 0.01",
        'For ``zeros="smooth"``.',
    )
    assert full_docstrings.related("mmd")[0] == "mmd2"
