import matplotlib.pyplot as plt
import numpy as np
import pytest

from expectedkernels.plotting import Curve, close, plot_panels, save


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_panels_have_curves_bands_and_one_legend():
    ours, before = Curve([1, 2], [3.0, 4.0], [0.1, 0.2]), Curve([1, 2], [5.0, 6.0])
    axes = plot_panels({"one": {"ours": ours, "before": before}, "two": {"ours": ours}})
    lines = axes[0].get_lines()
    np.testing.assert_allclose(lines[0].get_ydata(), [3.0, 4.0])
    np.testing.assert_allclose(lines[1].get_ydata(), [5.0, 6.0])
    assert lines[1].get_linestyle() == "--"
    assert len(axes[0].collections) == 1  # no band around what has no deviations
    assert lines[0].get_color() == axes[1].get_lines()[0].get_color()
    (legend,) = axes[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ours", "before"]


def test_saves_in_a_new_folder_and_closes(tmp_path):
    ax = plt.subplots()[1]
    path = save(ax, tmp_path / "new" / "picture.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    close(ax)
    assert not plt.get_fignums()
