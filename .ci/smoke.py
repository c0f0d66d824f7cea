"""What an installed wheel must do: exact numbers, a model of incomplete rows, a file and back."""

import math
import sys
import tempfile
from pathlib import Path

import numpy as np

import expectedkernels as ek

if ek.__version__ != sys.argv[1] or "site-packages" not in ek.__file__:
    sys.exit(f"Found version {ek.__version__} at {ek.__file__}, and not the installed one.")
p, q = ek.factorized([[0.2, 0.8], [0.5, 0.5]]), ek.factorized([[0.6, 0.4], [0.1, 0.9]])
found = ek.expected_kernel(p, q, ek.Delta())
if not math.isclose(found, (0.12 + 0.32) * 0.5, rel_tol=1e-12):
    sys.exit(f"The expected kernel is {found}.")
X = np.random.default_rng(0).normal(size=(40, 3))
y, incomplete = X.sum(axis=1), np.where(np.eye(40, 3) > 0, np.nan, X)
if not np.isfinite(ek.ExpectedKernelRidge().fit(incomplete, y).predict(incomplete)).all():
    sys.exit("A kernel model predicts numbers that are not finite.")
with tempfile.TemporaryDirectory() as folder:
    ek.save(p, Path(folder) / "p.npz")
    if ek.mmd2(ek.load(Path(folder) / "p.npz"), p, ek.Delta()) != 0.0:
        sys.exit("A circuit is not read back as it was written.")
