"""What all pictures share: colours, axes, and files. The only place that imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

try:
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgb as to_rgb
    from matplotlib.ticker import MaxNLocator as MaxNLocator, PercentFormatter as PercentFormatter
except ImportError as error:
    raise ImportError(
        "Pictures need matplotlib, which is not installed. "
        "Install it with: pip install 'expectedkernels[plot]'"
    ) from error

from expectedkernels.layouts import PALETTE, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXACT, SAMPLED = PALETTE[:2]

MOST_LETTERS = 32
"""Longer names are divided, or shortened."""


def row_of_axes(n: int, width: float, height: float, ratios: Sequence[float] | None = None) -> Any:
    """A figure of this size, in inches, and the array of its axes side by side."""
    figure, axes = plt.subplots(
        1,
        n,
        figsize=(width, height),
        layout="constrained",
        squeeze=False,
        gridspec_kw={"width_ratios": ratios},
    )
    return figure, axes[0]


def new_axes(width: float = 5.4, height: float = 3.4) -> Any:
    """New axes of this size, in inches."""
    return row_of_axes(1, width, height)[1][0]


def axes_of(n: int) -> Any:
    """Axes that are high enough for so many lines."""
    return new_axes(6.4, 1.4 + 0.35 * n)


def name_lines(ax: Any, names: Sequence[str]) -> None:
    """Write names beside lines, from below; long ones in two lines."""
    words = [fill(short(str(name), 2 * MOST_LETTERS - 8), MOST_LETTERS) for name in names]
    long = any("\n" in name for name in words)
    ax.set_yticks(range(len(names)), words, fontsize="small" if long else None)


def legend_above(ax: Any) -> None:
    """A legend above the axes, where it hides nothing."""
    handles, labels = ax.get_legend_handles_labels()
    ax.figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False)


def legend_below(figure: Any, axes: Any, ncols: int) -> None:
    """One legend for all axes, below them; the figure grows by its lines."""
    entries = {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=ncols,
        frameon=False,
        fontsize="small",
    )
    figure.set_figheight(figure.get_figheight() + 0.19 * ceil(len(entries) / ncols))


def save(ax: Axes, path: str | Path) -> Path:
    """The path, after the figure of the axes was written there.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Any axes of the figure.
    path : str or Path
        The file; its suffix chooses the format, and its folder is made if there is none.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> ax = new_axes()
    >>> with TemporaryDirectory() as folder:
    ...     save(ax, f"{folder}/curves.png").name
    'curves.png'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure: Any = ax.figure
    figure.savefig(path, dpi=160)
    return path


def close(ax: Axes) -> None:
    """Forget the figure of the axes, which would else be kept until the end of the process."""
    figure: Any = ax.figure
    plt.close(figure)


def tidy(ax: Any, legend: bool = True) -> None:
    """Leave only what is read: two spines, a faint grid, a legend without a frame."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(which="major", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    if legend:
        ax.legend(frameon=False)
