"""The schema of reports by its version: what a reader of version N relies on stays while the version is N. Fields may be added at any time.

`python -m tests.report.test_schema` writes `schema.txt` again: after a new `SCHEMA_VERSION`, or where fields were added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from screen.report.schema import SCHEMA_VERSION, Report, Reports

FILE = Path(__file__).with_name("schema.txt")


def lines() -> list[str]:
    """Every field of every part with its types, one a line, values of a choice among them; the version first."""
    found: set[str] = set()
    for model in (Report, Reports):
        schema = model.model_json_schema()
        for name, part in {model.__name__: schema, **schema.get("$defs", {})}.items():
            for field, said in part.get("properties", {}).items():
                found.update(f"{name}.{field}: {kind}" for kind in _kinds(said))
    return [f"schema_version {SCHEMA_VERSION}", *sorted(found)]


def _kinds(said: dict[str, Any]) -> list[str]:
    """The types of a field, those of the entries of a list among them."""
    if "anyOf" in said:
        return [kind for one in said["anyOf"] for kind in _kinds(one)]
    if "$ref" in said:
        return [said["$ref"].rpartition("/")[2]]
    values = said.get("enum") or ([said["const"]] if "const" in said else [])
    inside = said.get("items", said.get("additionalProperties"))
    below = [f"{said.get('type')} of {kind}" for kind in _kinds(inside)] if isinstance(inside, dict) else []
    return [f"{value!r}" for value in values] or below or [str(said.get("type", "any"))]


def test_what_a_reader_relies_on_stays_while_the_version_does() -> None:
    version, *before = FILE.read_text(encoding="utf-8").splitlines()
    now = lines()
    assert version == now[0], "the version is a new one: write `schema.txt` again"
    lost = sorted(set(before) - set(now))
    assert lost == [], f"raise `SCHEMA_VERSION`: {lost}"


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
