"""Recipes of published trainings, one TOML file each: values that the source states, and where it states them."""

from __future__ import annotations

import tomllib
from pathlib import Path

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Of all presets, in order."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str) -> Path | None:
    """The file of a name; `_` and `-` and the case of letters are the same."""
    wanted = name.strip().lower().replace("_", "-")
    return next((FOLDER / f"{known}.toml" for known in names() if known == wanted), None)


def about(name: str) -> tuple[str, str]:
    """What a preset is of, in a line, and where it is published."""
    table = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return table["title"], table["source"]


__all__ = ["about", "find", "names"]
