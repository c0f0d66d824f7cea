"""The sources of two commits, run one beside the other."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASE = "fbb9c2e"
"""The commit that the rebuild of the package began at."""


@contextmanager
def source(commit: str) -> Iterator[Path]:
    """The folder `src` of a commit, in a temporary worktree; that of this tree for "."."""
    if commit == ".":
        yield ROOT / "src"
        return
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", folder, commit], check=True)
        try:
            yield Path(folder) / "src"
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


def run(
    module: str, src: Path, *arguments: str, threads: str | None = "1"
) -> subprocess.Popen[str]:
    """A process that runs a benchmark of this tree on the library in another folder."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(src), str(ROOT)])}
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        env.pop(name, None)
        if threads:
            env[name] = threads
    command = [sys.executable, "-m", module, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
