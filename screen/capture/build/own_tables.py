"""Tables of settings in a project, `CONFIG = {"dim": 64, …}`, for a class that takes one: those of its own file, and of files that use it."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from torch import nn

from screen.capture.build.examples import handed_here, literals_of, tables
from screen.capture.build.reads import globals_of


def stated(entry: Any, own: Mapping[str, dict[str, Any]], wanted: list[str]) -> tuple[str, dict[str, Any]]:
    """The table with most of these names, more than half, and what it is: one of its file's `own` that is handed to the class or function there, else
    one of another file."""
    here = handed_here(entry)
    chosen, table = _fullest(((f"`{key}` of its own file", own[key]) for key in own if key in here), wanted)
    return (chosen, table) if chosen else _fullest(_elsewhere(entry), wanted)


def _fullest(tables: Iterator[tuple[str, dict[str, Any]]], wanted: list[str]) -> tuple[str, dict[str, Any]]:
    """The first table that has all of these names, else the one that has most of them where that is more than half: code may read the others in
    branches that are not taken, and names them where they are."""
    best: tuple[str, dict[str, Any]] = "", {}
    for name, given in tables:
        table = {key: value for key, value in given.items() if value is not None or {*wanted} <= {*given}}
        if {*wanted} <= {*table}:
            return name, table
        if len({*wanted} & {*table}) > max(len(wanted) / 2, len({*wanted} & {*best[1]})):
            best = name, table
    return best


def tables_of(entry: Any) -> dict[str, dict[str, Any]]:
    """The tables of settings that stand in the file of a class or function, those inside of its functions too."""
    try:
        found = literals_of(inspect.getsourcefile(entry) or "")
    except TypeError:
        found = {}
    named = {n: as_table(v) for n, v in {**found, **globals_of(entry)}.items() if not n.startswith("__")}
    flat = {n: v for n, v in named.items() if v and all(isinstance(k, str) for k in v)}
    rows = {f"{n}[{key!r}]": row for n, v in flat.items() for key, row in v.items() if isinstance(row, dict) and row}
    return {**flat, **rows}


def as_table(value: Any, deep: int = 4) -> Any:
    """Settings of any kind as a dictionary: a mapping, a namespace, an object of a dataclass, or a `ConfigDict`; other values as they are, and above
    all of them nothing."""
    if isinstance(value, types.SimpleNamespace | argparse.Namespace):
        value = vars(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    elif not isinstance(value, type | ModuleType | nn.Module) and callable(getattr(type(value), "to_dict", None)) and hasattr(type(value), "keys"):
        value = value.to_dict()
    if not isinstance(value, Mapping):
        return {} if deep == 4 else value
    return {key: as_table(entry, deep - 1) for key, entry in value.items()} if deep > 1 else dict(value)


def _elsewhere(entry: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tables of other files of the project that use a class or function, and the arguments of its command lines there."""
    try:
        return tables(inspect.getsourcefile(entry) or "", getattr(entry, "__name__", ""))
    except TypeError:
        return iter(())


__all__ = ["as_table", "stated", "tables_of"]
