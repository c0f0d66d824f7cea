"""What commands print with --json follows the schemas that are promised."""

import json
import shlex
from pathlib import Path

import pytest

from cli_files import EXAMPLES, invoke, write_all

DOCS = Path(__file__).parents[2] / "docs"
SCHEMAS = json.loads((DOCS / "schemas.json").read_text(encoding="utf-8"))
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
MORE = {
    "learn": "learn patients.csv --valid later.csv -o c.npz --without id --method chow-liu",
    "info": "info rain.npz",
    "marginals": "marginals rain.uai --given 0=1",
    "test": "test c.npz rows.csv --statistic kdsd",
    "fit": "fit patients.csv --target ill --without id -o ill.skops",
    "predict": "predict new.csv --train patients.csv --target ill --without id --without pressure",
    "explain": "explain new.csv --train patients.csv --target ill --without id --without pressure",
}
SLOW = ("learn", "demo")
ASKED = [(name, EXAMPLES[name]) for name in EXAMPLES if name in SCHEMAS and name not in SLOW]


def is_a(value, kind):
    """Whether a value is of a type of JSON; true and false are no numbers."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def check(value, schema, place="$"):
    """Assert that a value follows a schema, of the words that the schemas here use."""
    known = {"$schema", "title", "description", "type", "enum", "items", "properties", "required"}
    assert set(schema) <= known | {"additionalProperties"}, place
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    assert any(is_a(value, kind) for kind in kinds), (place, value)
    assert value in schema.get("enum", [value]), place
    if isinstance(value, list):
        for i, entry in enumerate(value):
            check(entry, schema["items"], f"{place}[{i}]")
    if isinstance(value, dict):
        assert set(schema.get("required", ())) <= set(value), place
        for name, entry in value.items():
            below = schema.get("properties", {}).get(name, schema["additionalProperties"])
            assert below is not False, f"{place}.{name}"
            check(entry, below, f"{place}.{name}")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path)
    invoke("compile", "rain.uai", "-o", "rain.npz")
    return tmp_path


@pytest.mark.parametrize(("name", "call"), [*ASKED, *MORE.items()])
def test_answers_follow_their_schema(folder, name, call):
    done = invoke(*shlex.split(call), *([] if "--json" in call else ["--json"]))
    assert done.exit_code in (0, 3), done.output
    check(json.loads(done.stdout), SCHEMAS[name])


def test_the_answer_of_the_demo_follows_its_schema(folder):
    done = invoke("demo", "--splits", 1, "--json")
    assert done.exit_code == 0, done.output
    check(json.loads(done.stdout), SCHEMAS["demo"])
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_every_command_with_json_has_a_schema():
    told = {name for name in EXAMPLES if "--json" in invoke(name, "--help").output}
    assert told == set(SCHEMAS)


@pytest.mark.parametrize(
    "value",
    [{"p": "a", "q": "b"}, {"p": "a", "q": "b", "mmd": "1"}, {"p": 1, "q": "b", "mmd": 1}, []],
)
def test_the_check_finds_what_is_wrong(value):
    with pytest.raises(AssertionError):
        check(value, SCHEMAS["mmd"])
    with pytest.raises(AssertionError):
        check({"p": "a", "q": "b", "mmd": 1.0, "more": 2}, SCHEMAS["mmd"])
