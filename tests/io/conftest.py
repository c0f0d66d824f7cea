"""What the tests of files share: changed arrays in files, and files of lines."""

import numpy as np
import pytest

from expectedkernels import load, save


@pytest.fixture
def changed_arrays(tmp_path):
    """Gives the arrays in the file of a circuit, and a loader of changed ones."""
    path = tmp_path / "changed.npz"

    def arrays_of(circuit):
        save(circuit, path)
        with np.load(path) as file:
            found = dict(file)

        def reload(**changes):
            new = {name: array for name, array in (found | changes).items() if array is not None}
            with open(path, "wb") as file:
                np.savez(file, **new)
            return load(path)

        return found, reload

    return arrays_of


@pytest.fixture
def write(tmp_path):
    """Writes lines to a file of a given name in a new folder, and returns its path."""

    def writer(name, lines):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return path

    return writer
