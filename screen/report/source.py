"""Lines of the user's code as data of a report: formats read no files."""

from __future__ import annotations

import os
import stat
from functools import lru_cache

from screen.report.paths import relative

AROUND = 2
"""Lines before and after the one that is meant."""
LONGEST = 200
"""Characters of a line."""
LARGEST = 4 << 20
"""Bytes of a file that is read."""


def excerpt(file: str, line: int, root: str) -> list[tuple[int, str]]:
    """Some lines of a Python file below `root` or of an installed package; none of any other file, since a graph may name what it likes."""
    shown = relative(file, root) if line > 0 else None
    if shown is None or os.path.normpath(shown).startswith("..") or os.path.isabs(shown):
        return []
    try:
        path = os.path.realpath(os.path.join(root, file))
        found = os.stat(path)
        readable = path.endswith(".py") and stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST
        lines = _lines(path, found.st_mtime_ns) if readable else ()
    except (OSError, ValueError):
        return []
    if line > len(lines):
        return []
    return [(number, lines[number - 1].rstrip()[:LONGEST]) for number in range(max(line - AROUND, 1), min(line + AROUND, len(lines)) + 1)]


@lru_cache(maxsize=16)
def _lines(path: str, changed: int) -> tuple[str, ...]:
    """The lines of a file as it was at one time."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return tuple(file.read(LARGEST).split("\n"))


__all__ = ["excerpt"]
