"""Networks from the literature."""

from importlib.util import find_spec
from pathlib import Path

import pytest

ALARM = """
HISTORY 2 LVFAILURE; CVP 3 LVEDVOLUME; PCWP 3 LVEDVOLUME; HYPOVOLEMIA 2; LVFAILURE 2;
LVEDVOLUME 3 HYPOVOLEMIA LVFAILURE; STROKEVOLUME 3 HYPOVOLEMIA LVFAILURE; ERRLOWOUTPUT 2;
HRBP 3 ERRLOWOUTPUT HR; HREKG 3 ERRCAUTER HR; ERRCAUTER 2; HRSAT 3 ERRCAUTER HR; INSUFFANESTH 2;
ANAPHYLAXIS 2; TPR 3 ANAPHYLAXIS; EXPCO2 4 ARTCO2 VENTLUNG; KINKEDTUBE 2;
MINVOL 4 INTUBATION VENTLUNG; FIO2 2; PVSAT 3 FIO2 VENTALV; SAO2 3 PVSAT SHUNT; PAP 3 PULMEMBOLUS;
PULMEMBOLUS 2; SHUNT 2 INTUBATION PULMEMBOLUS; INTUBATION 3; PRESS 4 INTUBATION KINKEDTUBE VENTTUBE;
DISCONNECT 2; MINVOLSET 3; VENTMACH 4 MINVOLSET; VENTTUBE 4 DISCONNECT VENTMACH;
VENTLUNG 4 INTUBATION KINKEDTUBE VENTTUBE; VENTALV 4 INTUBATION VENTLUNG; ARTCO2 3 VENTALV;
CATECHOL 2 ARTCO2 INSUFFANESTH SAO2 TPR; HR 3 CATECHOL; CO 3 HR STROKEVOLUME; BP 3 CO TPR
"""
"""Arcs of the monitoring network ALARM: variable, number of states, parents."""
ASIA = [0.01, 0.0104, 0.5, 0.055, 0.45, 0.064828, 0.110290, 0.435971]
"""The published probabilities that the variables of the network ASIA are yes."""


def bif_of_pgmpy(name):
    """The path of a network in the pgmpy package, which is not imported."""
    spec = find_spec("pgmpy")
    if spec is None:
        pytest.skip("pgmpy is not installed")
    folder = Path(spec.submodule_search_locations[0])
    return folder / "utils" / "example_models" / f"{name}.bif.gz"
