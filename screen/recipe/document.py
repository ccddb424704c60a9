"""A file that may state a recipe: its text, its table where it is one, and the lines of its keys."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from screen import tables
from screen.errors import UsageError

TABLES = (".toml", ".yaml", ".yml", ".json")
LONGEST = 10_000_000
"""Bytes: no recipe is longer."""


@dataclass(frozen=True)
class Document:
    """One file. Its name is relative to the working directory: it stands in reports."""

    name: str
    data: bytes

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix.lower()

    @property
    def origin(self) -> str:
        return f"`{self.name}`"

    @cached_property
    def text(self) -> str:
        """Raises `UsageError`."""
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError("a recipe must be a text in UTF-8", f"{self.origin}: {error}", file=self.name) from None

    @cached_property
    def table(self) -> dict[str, Any] | None:
        """What the file holds where its suffix is that of a table, else None. Raises `UsageError`."""
        if self.suffix not in TABLES:
            return None
        try:
            return tables.parse(self.text, self.suffix)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{self.origin} must be readable {self.suffix[1:].upper()}", str(error), file=self.name) from None

    @cached_property
    def leaves(self) -> dict[str, Any]:
        """Dotted keys to values; empty where it is no table. Raises `UsageError`."""
        try:
            return dict(tables.flat(self.table or {}))
        except (RecursionError, ValueError):
            raise UsageError(f"{self.origin} must be a table of finite depth", "it holds itself, or too much", file=self.name) from None

    def line(self, key: str) -> int | None:
        """The line of a dotted key, where exactly one begins with its last word."""
        word = re.escape(key.rpartition(".")[2])
        begins = re.compile(rf"""\s*[{{,-]?\s*["']?(?:[\w.-]+\.)?{word}["']?\s*[:=]""")
        at = [number for number, line in enumerate(self.text.splitlines(), 1) if begins.match(line)]
        return at[0] if len(at) == 1 else None


def document(name: str) -> Document:
    """Reads a file. Raises `UsageError`."""
    try:
        with open(name, "rb") as file:
            data = file.read(LONGEST + 1)
    except OSError as error:
        raise UsageError("a recipe must be a file that can be read", str(error), file=name) from None
    if len(data) > LONGEST:
        raise UsageError("a recipe must be a short file", f"`{name}` has more than {LONGEST // 10**6} MB", file=name)
    return Document(shown(name), data)


def shown(name: str) -> str:
    """The name as a report may show it: the way from the working directory."""
    try:
        return os.path.relpath(name).replace(os.sep, "/") if os.path.isabs(name) else name
    except ValueError:  # another drive on Windows
        return os.path.basename(name)


__all__ = ["Document", "document", "shown"]
