"""Ops of other libraries that compute what an op of the vocabulary does: their distributions say so by the entry point group `screen.ops`.

Each entry point names a module with `SAME`, a table from the op's full name, `namespace::name` as `torch.library` registers it, to the op here that
takes the same arguments in the same order. An op that is in no such table is unmodelled, as ever."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from screen import ops, plugins

GROUP = "screen.ops"


@cache
def same() -> tuple[dict[str, str], dict[str, str]]:
    """Full name of an op -> the op here; and module that is not believed -> why, with its distribution. Found once per process."""
    known: dict[str, str] = {}
    faults: dict[str, str] = {}
    whose = plugins.distributions(GROUP)
    for name in dict.fromkeys(plugins.foreign(GROUP).values()):
        try:
            table = import_module(name).SAME
            why = _fault(table, known)
        except Exception as error:  # a broken plugin must not break the command
            table, why = {}, f"it does not load: `{type(error).__name__}: {error}`"
        if why:
            faults[name] = f"of the distribution `{whose[name]}`: {why}" if whose.get(name) else why
        else:
            known |= table
    return known, faults


def _fault(table: Any, known: dict[str, str]) -> str:
    """What is wrong with a table, in words; empty when nothing."""
    if not isinstance(table, dict) or not all(isinstance(word, str) for pair in table.items() for word in pair):
        return "its `SAME` must be a table from names of ops to names of ops"
    for name, op in table.items():
        if "::" not in name or name.startswith(("aten::", "prims::")):
            return f"`{name}` must be the full name of an op of another library, `namespace::name`"
        if name in known:
            return f"`{name}` stands in the table of another one too"
        if not ops.has_row(op):
            return f"`{name}` is said to be `{op}`, which is no op of the vocabulary"
    return ""


__all__ = ["GROUP", "same"]
