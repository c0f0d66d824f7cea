"""Progress bars: on terminals and in notebooks, and nowhere else."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tqdm import tqdm


def progress_bar(total: int, what: str, quiet: bool = False, unit: str = "it") -> Any:
    """A bar that appears after a second, if anybody is looking.

    In notebooks it is a widget where ipywidgets is installed, and text elsewhere.

    Examples
    --------
    >>> with progress_bar(3, "steps", quiet=True) as bar:
    ...     bar.update(3)
    >>> bar.total
    3
    """
    notebook = _in_notebook()
    widgets = notebook and not quiet and find_spec("ipywidgets") is not None
    kind = import_module("tqdm.notebook").tqdm if widgets else tqdm
    # None: only if the output is a terminal, which that of a notebook is not
    disable = True if quiet else False if notebook else None
    return kind(total=total, desc=what, unit=unit, delay=1.0, leave=False, disable=disable)


def _in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
