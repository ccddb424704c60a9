"""Files of settings in the project of a model, YAML, JSON, TOML, and Python in places that are called so, that have what its class needs and
nobody states.

They are named in the message that asks for it, `--config configs/base.yaml:model`, once the model builds with what stands there; nothing is judged
with one of several before somebody says so: how deep a model is stands in them. Where one alone has all that is lacking, it is what the author says.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from screen import tables
from screen.capture.build.project import beside
from screen.errors import UsageError
from screen.graph.target import OPTIONAL

FILES, LARGEST = 100, 2**16
"""Of a project: files that are looked at, and the bytes of each."""
_WORD = re.compile(r"conf(ig)?s?\b|conf(ig)?s?_|settings|hparams|\bhps\b|options", re.IGNORECASE)
"""Of a path to Python that holds settings."""
TRIED = 6
"""Tables with which a model is built."""


@dataclass(frozen=True)
class Found:
    """A table that has more than half of what is lacking."""

    text: str
    """What `--config` takes, from the working directory."""
    settings: Mapping[str, Any]
    """As the command line would give them: all that it says, or of one that is not the class's own what is lacking."""
    wanted: Mapping[str, Any]
    """What of it is lacking."""
    whole: bool
    """Whether that is all."""
    own: bool
    """Whether no other table of its file has twice as many of the names that the class takes: else it says something of something else."""


def having(file: str, name: str, lacking: Iterable[str], takes: Iterable[str] = ()) -> list[Found]:
    """The tables that have most of these names (as of `--set`), of them first those of a file that names the class, the nearest before others.
    `takes`: the names of all arguments of the class."""
    wanted, arguments, ranked = tuple(lacking), {*takes}, []
    for steps, (path, whole) in enumerate(_read(os.path.abspath(file))):
        named = _names(whole, name)
        most = max(len(arguments & {*table}) for _, table in tables.sections(whole))
        for section, table in tables.sections(whole):
            keys = {*_paths(table)}
            count = sum(key in keys or key.partition(".")[2] in keys for key in wanted)
            if 2 * count > len(wanted):
                other = 2 * len(arguments & {*table}) < most
                ranked.append((-count, other, not named, section.count("."), steps, section, path, table))
    ranked.sort(key=lambda one: one[:7])
    found = []
    for count, other, _, _, _, section, path, table in ranked[:TRIED]:
        text, flat = os.path.relpath(path) + (f":{section}" if section else ""), dict(tables.flat(table))
        own = {key: value for key, value in flat.items() if any(f"{key}.".startswith((f"{k}.", f"{k.partition('.')[2] or k}.")) for k in wanted)}
        settings = own if other else {OPTIONAL + key: value for key, value in {"": text, **flat}.items()}
        found.append(Found(text, settings, own, -count == len(wanted), not other))
    return found


def sole(file: str, name: str, lacking: Iterable[str], takes: Iterable[str] = ()) -> Found | None:
    """The table that alone has all of these names, or says of them what all others that have them say; None where there is none, or are several."""
    found = [one for one in having(file, name, lacking, takes) if one.whole]
    return found[0] if found and found[0].own and all(one.wanted == found[0].wanted for one in found) else None


@functools.lru_cache(maxsize=2)
def _read(file: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The tables of the project, by their files; files that cannot be read say nothing."""
    found = []
    written = [p for p in beside(file, (".py",)) if _WORD.search(os.path.relpath(p, os.path.dirname(file)))]
    for path in [p for p in (*beside(file, tables.SUFFIXES), *written) if os.path.getsize(p) <= LARGEST][:FILES]:
        try:
            found.append((path, tables.composed(Path(path), "the file")))
        except UsageError:
            continue
    return tuple(found)


def _paths(table: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The dotted names of a table, those of tables in it too."""
    for key, value in table.items():
        yield f"{before}{key}"
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{key}.")


def _names(table: Mapping[str, Any], name: str) -> bool:
    """Is a class named anywhere in a table, `_target_: models.Net`?"""
    waiting: list[Any] = [table]
    while waiting:
        value = waiting.pop()
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        if isinstance(value, str) and value.rpartition(".")[2] == name:
            return True
    return False


__all__ = ["Found", "having", "sole"]
