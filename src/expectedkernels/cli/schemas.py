"""What commands print with --json: a JSON schema for each, in schemas.json beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from expectedkernels.cli.base import fail, show_json


def schemas() -> dict[str, Any]:
    """The JSON schemas of what commands print, by the names of these.

    Examples
    --------
    >>> sorted(schemas()["mmd"]["properties"])
    ['mmd', 'p', 'q']
    """
    found: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    return found


def schema(
    command: Annotated[str | None, typer.Argument(help="A command. Default: list them.")] = None,
) -> None:
    """Print the JSON schema of what a command prints with --json."""
    known = schemas()
    if command is None:
        typer.echo("\n".join(known))
    elif command in known:
        show_json(known[command])
    else:
        fail(f"{command!r} prints no JSON. These commands do: {', '.join(known)}.")
