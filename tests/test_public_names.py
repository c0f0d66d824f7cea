"""Every public name is documented, with an example that runs (the doctests run them)."""

import importlib
import inspect

import pytest

import expectedkernels as ek


def methods(cls):
    for name, member in vars(cls).items():
        if not name.startswith("_") and callable(getattr(cls, name)):
            yield f"{cls.__name__}.{name}", member


@pytest.mark.parametrize("name", ek.__all__)
def test_every_public_name_has_a_docstring(name):
    assert inspect.getdoc(getattr(ek, name))


@pytest.mark.parametrize(
    "name",
    [n for n in ek.__all__ if not (inspect.isclass(getattr(ek, n))
                                   and issubclass(getattr(ek, n), Exception))],
)  # fmt: skip
def test_every_public_name_but_the_errors_has_an_example(name):
    assert ">>> " in getattr(ek, name).__doc__


@pytest.mark.parametrize(("name", "method"), list(methods(ek.Circuit)))
def test_every_question_to_a_circuit_has_an_example(name, method):
    function = getattr(method, "__func__", method)
    assert ">>> " in function.__doc__, name


def test_all_is_complete():
    public = {n for n in dir(ek) if not n.startswith("_")}
    modules = {n for n in public if inspect.ismodule(getattr(ek, n))}
    assert public - modules == set(ek.__all__)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'expected_kernels'"):
        _ = ek.expected_kernels


PACKAGES = ["circuits", "compilation", "discrepancies", "estimators", "io", "kernels", "learning"]


@pytest.mark.parametrize("name", [*PACKAGES, "sampling"])
def test_packages_have_their_public_names(name):
    package = importlib.import_module(f"expectedkernels.{name}")
    for public in package.__all__:
        assert getattr(package, public) is getattr(ek, public)


def test_every_public_name_is_in_a_package_or_at_the_top():
    packages = [importlib.import_module(f"expectedkernels.{name}") for name in PACKAGES]
    packages.append(importlib.import_module("expectedkernels.sampling"))
    inside = {name for package in packages for name in package.__all__}
    top = {"Empirical", "Verdict", "Vtree", "expected_kernel", "explain"}
    top |= {"monte_carlo_expected_kernel"}
    errors = {name for name in ek.__all__ if name.endswith("Error")}
    assert set(ek.__all__) == inside | top | errors
