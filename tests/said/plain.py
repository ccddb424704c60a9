"""Any value of ours in one line of text: numbers to five digits, and nothing of where a file stood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any

from screen.calculi.bounds.expr import Expr
from screen.graph import Graph
from screen.structure.types import Place, Unknown

NOUGHT = 1e-11
MOST = 120
"""Letters of a text that are kept; of a longer one its digest stands for the rest."""


def plain(value: Any) -> str:
    """Of data classes, fields that hold None, False or nothing are left out."""
    match value:
        case bool() | None | str() | int():
            return str(value)
        case float():
            return _number(value)
        case Expr():
            return str(value)
        case Unknown():
            return f"? {value.reason} {list(value.nodes)}"
        case Place():
            return f"@{value.node} {value.module}"
        case Graph():
            return "graph"
        case Mapping():
            return "{" + ", ".join(f"{plain(k)}: {plain(v)}" for k, v in value.items()) + "}"
        case Set():
            return "{" + ", ".join(sorted(map(plain, value))) + "}"
        case tuple() | list():
            return "[" + ", ".join(map(plain, value)) + "]"
    if is_dataclass(value):
        held = {f.name: getattr(value, f.name) for f in fields(value) if f.repr and not f.name.startswith("_")}
        kept = {n: v for n, v in held.items() if v is not None and v is not False and v != "" and v != ()}
        return type(value).__name__ + "(" + ", ".join(f"{n}={plain(v)}" for n, v in kept.items()) + ")"
    return str(value)


def _number(value: float) -> str:
    """What is small and has many digits is what rounding left of a zero, which is not the same on every machine."""
    text = f"{value + 0.0:.5g}"
    return "0" if abs(value) < NOUGHT and float(text) != value else text


def chosen(number: float, names: Iterable[str]) -> str:
    """One of some names, drawn so that a name that is added changes few choices."""
    return min(names, key=lambda name: digest(f"{number} {name}"))


def digest(text: str) -> str:
    """A name of it."""
    return blake2b(text.encode(), digest_size=5).hexdigest()


def short(text: str) -> str:
    """Its beginning, where it is long, and what tells it from another with the same."""
    return text if len(text) <= MOST else f"{text[:MOST]} … {digest(text)}"


__all__ = ["chosen", "digest", "plain", "short"]
