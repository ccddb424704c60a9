"""A recipe as TOML, in our own words: what a file of another program was read as, to look at, to keep and to change."""

from __future__ import annotations

import json
from typing import Any

from screen.recipe.stated import Stated


def toml(stated: Stated, title: str = "", source: str = "") -> str:
    """Field by field, with who states it behind each, or above all where it is one file; what was not used stands below in comments."""
    origins = set(stated.origins.values())
    lines = [f"{key} = {_value(text)}" for key, text in (("title", title), ("source", source)) if text]
    lines += [f"# {_comment(origin)}" for origin in origins if len(origins) == 1 and not title]
    for name, value in stated.recipe.stated.items():
        said = stated.sources.get(name) or (stated.origins.get(name, "") if len(origins) > 1 else "")
        lines.append(f"{name} = {_value(value)}" + (f"  # {_comment(said)}" if said else ""))
    lines += [f"# not used: {_comment(why)}" for why in stated.unused]
    return "".join(f"{line}\n" for line in lines)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return f"[{', '.join(_value(v) for v in value)}]"
    return repr(value)


def _comment(text: str) -> str:
    """On one line, without what would end a comment or is no character of one."""
    return "".join(c if c.isprintable() else "?" for c in text)


__all__ = ["toml"]
