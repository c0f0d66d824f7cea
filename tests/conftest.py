"""Fixtures and settings shared by all tests."""

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Before anything imports pyplot: tests and doctests draw without a screen.
os.environ.setdefault("MPLBACKEND", "Agg")
# Before anything imports Triton: without a card, its kernels are interpreted.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile(
    "expectedkernels",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("expectedkernels")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with public circuits, models and data sets."""
    folder = os.environ.get("EXPECTEDKERNELS_DATA")
    if not folder:
        pytest.skip("set the environment variable EXPECTEDKERNELS_DATA to the folder with the data")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"EXPECTEDKERNELS_DATA is set to {folder!r}, which is not a folder")
    return path


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def xp(request):
    """Where arrays live, as `Circuit.to` takes it: NumPy, torch, and the strict array API."""
    if request.param == "array_api_strict":
        return pytest.importorskip("array_api_strict")
    if request.param == "torch":
        pytest.importorskip("torch")
    return request.param


@pytest.fixture(scope="module")
def gum():
    """The pyAgrum package, a peer to compare with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its binary part does not survive warnings as errors
        return pytest.importorskip("pyagrum", reason="pyagrum is not installed")


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    """A folder for all examples of a property (function-scoped folders do not go with those)."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(autouse=True)
def no_open_figures():
    """Pictures of one test are closed before the next one."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def nltcs(data_dir):
    """Training, validation and test rows of sixteen binary variables."""
    return [
        np.loadtxt(data_dir / "density" / f"nltcs.{part}.data", delimiter=",", dtype=np.intp)
        for part in ("train", "valid", "test")
    ]
