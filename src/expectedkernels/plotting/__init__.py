"""Pictures. The only package that needs matplotlib."""

from expectedkernels.plotting.graphs import plot, plot_circuit, plot_model, plot_vtree
from expectedkernels.plotting.results import plot_gram, plot_intervals, plot_witness

__all__ = [
    "plot",
    "plot_circuit",
    "plot_gram",
    "plot_intervals",
    "plot_model",
    "plot_vtree",
    "plot_witness",
]
