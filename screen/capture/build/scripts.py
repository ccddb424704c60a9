"""What the shell scripts of a project say to its command lines, `python run.py --model Net --depth 3`: settings that an author runs a model with."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from screen.capture.build.project import beside
from screen.capture.build.literals import number_or_word
from screen.capture.build.reads import reads_below

_ASSIGNED = re.compile(r"^\s*(?:export\s+)?(\w+)=(\S*)\s*$", re.MULTILINE)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def said(entry: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """What each command of a script that names the file of a class, or the class, says of the entries that it reads of its one argument, by dotted
    names as of `--set`, with its place (`train.sh:12`): the nearest script first, the same settings once."""
    try:
        file = os.path.abspath(inspect.getsourcefile(entry) or "")
        known = inspect.signature(entry).parameters
    except (TypeError, ValueError):
        return
    read = {name: reads_below(entry, name) for name, p in known.items() if p.default is p.empty and p.annotation is p.empty}
    seen: list[dict[str, Any]] = []
    for path in beside(file, (".sh",)) if len(read) == 1 else ():
        for line, words in _commands(path):
            if not {Path(file).stem, getattr(entry, "__name__", "")} & {*words}:
                continue
            given = _options(words)
            found = {f"{name}.{key}": given[key] for name, keys in read.items() for key in keys if key in given}
            if found and found not in seen:
                seen.append(found)
                yield f"{os.path.basename(path)}:{line}", found


def _commands(path: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of a script that run a Python file, each with its words; what it gives to names stands for these."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    names: dict[str, str] = {}
    line = 1
    for whole in re.split(r"(?<!\\)\n", text):
        names |= dict(_ASSIGNED.findall(whole))
        with contextlib.suppress(ValueError):  # a quote that is not closed
            words = shlex.split(_with(names, whole.replace("\\\n", " ")), comments=True)
            if any(word.endswith(".py") for word in words):
                yield line, words
        line += whole.count("\n") + 1


def _with(names: dict[str, str], text: str) -> str:
    """A text with what these names stand for."""
    return _VARIABLE.sub(lambda one: names.get(one[1], one[0]), text)


def _options(words: list[str]) -> dict[str, Any]:
    """`--depth 3` and `--depth=3` by their names."""
    found: dict[str, Any] = {}
    for place, word in enumerate(words):
        name, equals, value = word.removeprefix("--").partition("=")
        after = value if equals else next(iter(words[place + 1 :]), "--")
        if word.startswith("--") and not after.startswith("--"):
            found[name.replace("-", "_")] = number_or_word(after)
    return found


__all__ = ["said"]
