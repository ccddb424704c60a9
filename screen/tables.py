"""Tables that users write in files: TOML, YAML or JSON by the suffix, and nested tables as dotted keys."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from screen.errors import UsageError

MOST = 100_000
"""Keys of a table."""


def read(path: Path, where: str) -> dict[str, Any]:
    """The table in a file. `where`: what names the file, for errors. Raises `UsageError`."""
    try:
        return parse(text(path), path.suffix)
    except (OSError, ValueError, RecursionError) as error:
        found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{where} must be a readable YAML, JSON or TOML file", f"`{path}`: {found}", "Mend it, or name another one") from None


def text(path: Path) -> str:
    """A file's text. Raises `OSError`, `ValueError`; a FIFO or a device, which may have no end, is one too."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError("it is no regular file")
    return path.read_text(encoding="utf-8")


def parse(text: str, suffix: str) -> dict[str, Any]:
    """The table in a text; YAML where the suffix is neither `.json` nor `.toml`. Raises `ValueError`; `UsageError` where YAML cannot be read here."""
    table = _LOADERS.get(suffix, _yaml)(text)
    if not isinstance(table, dict):
        raise ValueError(f"it holds a `{type(table).__name__}`, not a table")
    return table


def flat(table: Mapping[Any, Any], before: str = "") -> list[tuple[str, Any]]:
    """Nested tables as dotted keys, as `--set` writes them. Raises `UsageError` for too many of them: YAML can write 2ⁿ in n lines."""
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        if len(pairs) > MOST or (isinstance(value, list) and _is_large(value)):
            raise UsageError("a table must have few keys", f"there are more than {MOST:,}", "Name the file that holds the settings alone")
        pairs += flat(value, f"{before}{key}.") if isinstance(value, dict) else [(f"{before}{key}", value)]
    return pairs


def _is_large(entries: list[Any]) -> bool:
    """Whether a list has too many entries, with those of what stands in it."""
    waiting = [*entries]
    for value in waiting:
        if len(waiting) > MOST:
            return True
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return False


def _yaml(text: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError("a YAML file needs `pyyaml` to be read", "it is not installed", "Install it, or give JSON or TOML") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


_LOADERS: dict[str, Callable[[str], Any]] = {".json": json.loads, ".toml": tomllib.loads}

__all__ = ["flat", "parse", "read"]
