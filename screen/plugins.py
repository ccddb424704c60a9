"""What is found by its place and listed nowhere: the modules of a folder of `screen`, and those that other distributions register as entry points of
the group that has the folder's dotted name (`screen.rules`, `screen.report.formats`). Nothing is imported to find them."""

from __future__ import annotations

import pkgutil
import sys
from importlib.metadata import entry_points
from pathlib import Path


def own(group: str) -> dict[str, str]:
    """Name -> module of every file in the folder but those that begin with `_`."""
    package = sys.modules.get(group)
    folders = package.__path__ if package is not None else [str(Path(__file__).parent.joinpath(*group.split(".")[1:]))]
    names = sorted(m.name for m in pkgutil.iter_modules(folders) if not m.name.startswith("_"))
    return {name: f"{group}.{name}" for name in names}


def foreign(group: str) -> dict[str, str]:
    """Name -> module of every entry point."""
    return {point.name: point.value for point in sorted(entry_points(group=group), key=lambda point: point.value)}


def distributions(group: str) -> dict[str, str]:
    """Module of every entry point -> the distribution that registers it; empty text where that has no name."""
    return {point.value: point.dist.name if point.dist is not None else "" for point in entry_points(group=group)}


def find(group: str, name: str) -> str | None:
    """The module of that name, the folder's own first; entry points are asked when none of these is meant."""
    return own(group).get(name) or foreign(group).get(name)


__all__ = ["distributions", "find", "foreign", "own"]
