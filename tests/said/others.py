"""What is said of rules and tables of other distributions, right ones and wrong ones."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any
from unittest.mock import patch

from screen import plugins
from screen.ops import foreign
from screen.rule import Example, Outcome
from screen.verdict.discover import catalogue, collect
from tests.said.plain import plain

TABLES: dict[str, Any] = {
    "right": {"theirs::gelu": "gelu", "theirs::mm": "matmul"}, "again": {"theirs::gelu": "gelu"}, "a list": ["gelu"], "a number": {"theirs::gelu": 3},
    "no space": {"gelu": "gelu"}, "torch's own": {"aten::gelu": "gelu"}, "of torch too": {"prims::gelu": "gelu"}, "no op": {"theirs::gelu": "gelo"},
}  # fmt: skip


def _module(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(content)
    return module


def tables() -> dict[str, str]:
    """Tables of ops, one alone and some after each other."""
    found = {name: f"{foreign._fault(table, {})} / {foreign._fault(table, {'theirs::gelu': 'gelu'})}" for name, table in TABLES.items()}
    modules = {f"others_{n}": _module(f"others_{n}", SAME=table) for n, table in enumerate(TABLES.values())}
    points = {**{name: name for name in modules}, "gone": "others_gone"}
    with patch.dict(sys.modules, modules), patch.object(plugins, "foreign", lambda _: points), \
            patch.object(plugins, "distributions", lambda _: {"others_1": "of-another", "others_gone": "of-another"}):  # fmt: skip
        found["all"] = plain(foreign.same.__wrapped__())
        found["of the catalogue"] = plain([(f.rule, f.reason) for f in catalogue.__wrapped__().faults])
    return found


def rules() -> dict[str, str]:
    """Files of rules, each with another thing wrong."""
    [one, two] = catalogue().rules[:2]
    whole = {"__doc__": "It holds.", "RULE": one.rule, "check": lambda _: (Outcome("holds", "so"),)}
    whole |= dict.fromkeys(("HOLDS", "VIOLATES", "CANNOT_TELL"), (Example("", "x"),))
    wrong: dict[str, dict[str, Any]] = {
        "right": {}, "the same code": {}, "another code": {"RULE": two.rule}, "no rule": {"RULE": None}, "no check": {"check": 3},
        "no docstring": {"__doc__": " "}, "no words": {"__doc__": None}, "no examples": {"HOLDS": ()}, "a list": {"VIOLATES": [Example("", "x")]},
        "no example": {"CANNOT_TELL": ("x",)},
    }  # fmt: skip
    for field, value in (("code", "Z1"), ("code", "D99"), ("name", "Not Kebab"), ("code", "X901"), ("step", "sideways"), ("severity", "fatal"),
                         ("channel", "Q")):  # fmt: skip
        changed = object.__new__(type(one.rule))
        vars(changed).update({**vars(one.rule), field: value})
        wrong[f"{field} {value}"] = {"RULE": changed}
    modules = {f"rules_{n}": _module(f"rules_{n}", **{**whole, **more}) for n, more in enumerate(wrong.values())}
    with patch.dict(sys.modules, modules):
        found = {}
        for whose in ({}, dict.fromkeys(modules, "of-another"), dict.fromkeys(modules, "")):
            made = collect((*modules, "rules_gone"), whose)
            found[f"of {whose.get('rules_0', 'ours')}"] = plain([r.rule for r in made.rules]) + plain([(f.rule, f.reason) for f in made.faults])
    return found


__all__ = ["rules", "tables"]
