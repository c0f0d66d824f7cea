"""``python -m expectedkernels``: the command line."""

from expectedkernels.cli import app

if __name__ == "__main__":
    app(prog_name="expectedkernels")
