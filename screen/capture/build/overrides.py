"""`--set k=v`: dots reach into what is nested, unknown names are an error with the nearest known ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from screen.errors import UsageError
from screen.graph.target import did_you_mean


class Whole(dict[str, Any]):
    """A dictionary given as one value: handed to the config's class as it stands, which takes names that no field has (`rope_theta`)."""


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1, "a.c": 2, "d": 3}` as `{"a": {"b": 1, "c": 2}, "d": 3}`. Raises `UsageError` when `a` and `a.b` contradict."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
            if not isinstance(level, dict):
                raise UsageError("`--set` must give each name one value", f"`{part}` has a value of its own and `{key}` reaches into it")
        if isinstance(value, dict) and isinstance(level.get(last), dict):
            level[last] = Whole({**level[last], **value})
        else:
            level[last] = Whole(value) if isinstance(value, dict) else value
    return nested


def unknown(key: str, owner: str, known: Iterable[str]) -> UsageError:
    """The error for a name that `owner` does not have."""
    names = sorted(set(known))
    return UsageError(
        f"`--set` must name a setting of `{owner}`",
        f"it has no `{key}`",
        did_you_mean(key, names) or (f"It has {', '.join(f'`{n}`' for n in names[:12])}" + (", …" if len(names) > 12 else "") if names else ""),
    )


def plain(value: Any) -> Any:
    """A setting as plain data for the report: what JSON cannot hold is written as text."""
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return str(value)


def changes(before: Any, after: Any, prefix: str = "") -> dict[str, list[Any]]:
    """`{"text_config.hidden_size": [old, new]}` for every leaf that differs between two nested dictionaries."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: dict[str, list[Any]] = {}
        for key in [*before, *(k for k in after if k not in before)]:
            found.update(changes(before.get(key), after.get(key), f"{prefix}.{key}" if prefix else str(key)))
        return found
    return {} if before == after else {prefix: [plain(before), plain(after)]}


__all__ = ["Whole", "changes", "nest", "plain", "unknown"]
