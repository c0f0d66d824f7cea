"""Every public name is documented, with an example that runs (the doctests run them)."""

import inspect
import re
import subprocess
import sys

import pytest

import expectedkernels as ek

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


def methods(cls):
    for name, member in vars(cls).items():
        if not name.startswith("_") and callable(getattr(cls, name)):
            yield f"{cls.__name__}.{name}", member


@pytest.mark.parametrize("name", [*PUBLIC, *NAMESPACES])
def test_every_public_name_has_a_docstring(name):
    assert inspect.getdoc(PUBLIC.get(name) or getattr(ek, name))


@pytest.mark.parametrize("name", [n for n, value in PUBLIC.items() if not is_error(value)])
def test_every_public_name_but_the_errors_has_an_example(name):
    assert ">>> " in PUBLIC[name].__doc__


@pytest.mark.parametrize(("name", "method"), list(methods(ek.Circuit)))
def test_every_question_to_a_circuit_has_an_example(name, method):
    function = getattr(method, "__func__", method)
    assert ">>> " in function.__doc__, name


def test_the_namespaces_are_these():
    assert NAMESPACES == ["algebra", "datasets", "io", "kernels", "models", "stein", "vtrees"]


def test_dir_lists_names_and_namespaces_only():
    assert sorted(dir(ek)) == sorted([*FLAT, *NAMESPACES, "__version__"])


def test_names_that_are_flat_and_in_a_namespace_are_the_same():
    for name, value in LISTED.items():
        assert FLAT.get(name.split(".")[1], value) is value


def test_no_name_is_in_two_namespaces():
    names = [name.split(".")[1] for name in LISTED]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - set(FLAT)))
def test_names_of_a_namespace_are_not_flat_and_the_error_says_where_they_are(name):
    flat = name.split(".")[1]
    with pytest.raises(AttributeError, match=rf"no attribute '{flat}': {flat} is now ek\.{name}$"):
        getattr(ek, flat)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match=r"no attribute 'expected_kernels'$"):
        _ = ek.expected_kernels


def test_asking_for_a_name_that_moved_imports_nothing():
    code = (
        "import sys, expectedkernels as ek\n"
        "hasattr(ek, 'power')\n"
        "print([m for m in sys.modules if m.startswith('expectedkernels.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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
    "models.to_pgmpy",  # networks of libraries that need not be installed
    "models.to_pyagrum",
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
