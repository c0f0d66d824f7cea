"""Small files that commands are tried on: tables with missing values, and models."""

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from typer.testing import CliRunner

import expectedkernels as ek

(COMMAND,) = entry_points(group="console_scripts", name="expectedkernels")
APP = COMMAND.load()
"""What the installed command runs."""
EXAMPLES = {
    command.name: command.epilog.removeprefix("Example: expectedkernels ")
    for command in APP.registered_commands
    if not command.hidden
}
"""The commands, and the example that the help of each shows."""


def invoke(*arguments, stdin=None):
    return CliRunner().invoke(APP, [str(argument) for argument in arguments], input=stdin)


def run(*arguments, stdin=None):
    """The result of a call that succeeds."""
    done = invoke(*arguments, stdin=stdin)
    assert done.exit_code == 0, done.output
    return done


def patients(n, seed, effect=1.0, holes=0.1):
    """Columns of a table: text, integers and real numbers, with missing values."""
    rng = np.random.default_rng(seed)
    smoker, sex = rng.random(n) < 0.3, rng.integers(2, size=n)
    age = rng.integers(20, 80, size=n)
    pressure = 100 + 0.5 * age + 15 * effect * smoker + rng.normal(size=n)
    ill = np.where(pressure + rng.normal(scale=5, size=n) > 130, "yes", "no")
    columns = {
        "id": [f"p{i}" for i in range(n)],
        "sex": np.array(["f", "m"])[sex].tolist(),
        "smoker": np.where(smoker, "yes", "no").tolist(),
        "age": age.tolist(),
        "pressure": pressure.round(2).tolist(),
        "ill": ill.tolist(),
    }
    for name in ("sex", "smoker", "age"):
        columns[name] = [x if rng.random() > holes else "" for x in columns[name]]
    return columns


def write_csv(path, columns, delimiter=","):
    rows = [columns, *zip(*columns.values(), strict=True)]
    Path(path).write_text("".join(delimiter.join(map(str, row)) + "\n" for row in rows))
    return path


@cache
def pressure_model():
    """The file of a model of the pressure of patients, fitted once."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        table = write_csv(folder / "patients.csv", patients(120, 0))
        options = ["--target", "pressure", "--without", "id", "--out", folder / "model.skops"]
        done = invoke("fit", table, *options)
        assert done.exit_code == 0, done.output
        return (folder / "model.skops").read_bytes()


def write_all(folder):
    """All files that the examples of the commands name, in a folder."""
    write_csv(folder / "patients.csv", patients(120, 0))
    write_csv(folder / "later.csv", patients(100, 1, effect=3.0))
    few = patients(6, 2, holes=0.3)
    write_csv(folder / "new.csv", {name: few[name] for name in few if name != "pressure"})
    (folder / "pressure.skops").write_bytes(pressure_model())
    (folder / "rain.uai").write_text("MARKOV 2 2 2 1 2 0 1 4 1.0 2.0 3.0 4.0")
    p = ek.mixture([ek.factorized([[0.2, 0.8], [0.5, 0.5]]), ek.factorized([[0.9, 0.1]] * 2)])
    p = p.with_names(["smoker", "sex"], [["no", "yes"], ["f", "m"]])
    ek.save(p, folder / "c.npz")
    names, states = ["smoker", "ill"], [["no", "yes"]] * 2
    for name, tables in (
        ("sick.bif", [[0.7, 0.3], [[0.9, 0.1], [0.5, 0.5]]]),
        ("sicker.bif", [[0.5, 0.5], [[0.8, 0.2], [0.3, 0.7]]]),
    ):
        ek.save(ek.BayesianNetwork([[], [0]], tables, names, states), folder / name)
    rows = [[p.states[v][int(x)] for v, x in enumerate(row)] for row in p.sample(60, rng=0)]
    write_csv(folder / "rows.csv", dict(zip(p.names, zip(*rows, strict=True), strict=True)))
    return p
