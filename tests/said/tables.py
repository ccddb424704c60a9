"""What stands outside of functions, module by module: numbers, words, tables (of functions the keys), and the defaults of data classes."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from screen.calculi.bounds.expr import Expr
from screen.ops.scalars import SCALARS
from tests.copies import ROOT
from tests.said.plain import plain

AREAS = ("screen/calculi", "screen/ops", "screen/verdict", "screen/facts", "rules")
EXAMPLES = {"RULE", "HOLDS", "VIOLATES", "CANNOT_TELL"}
POINTS = (-30.0, -3.0, -1.0, -0.4, 0.0, 0.4, 1.0, 3.0, 30.0)


def names() -> list[str]:
    """The modules."""
    files = [file.relative_to(ROOT).with_suffix("") for area in AREAS for file in sorted((ROOT / area).rglob("*.py"))]
    return [".".join(("screen",) * (file.parts[0] == "rules") + file.parts).removesuffix(".__init__") for file in files]


def _told(value: Any) -> str:
    """As `plain`, tables in the order of their words (some are made of sets); a function by nothing but its being there."""
    match value:
        case bool() | None | str() | int() | Expr():
            return plain(value)
        case float():  # the smallest too
            return f"{value + 0.0:.5g}"
        case Mapping():
            return "{" + ", ".join(sorted(f"{_told(k)}: {_told(v)}" for k, v in value.items())) + "}"
        case Set():
            return "{" + ", ".join(sorted(map(_told, value))) + "}"
        case tuple() | list():
            return "[" + ", ".join(map(_told, value)) + "]"
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__ + "(" + ", ".join(f"{f.name}={_told(getattr(value, f.name))}" for f in fields(value)) + ")"
    return getattr(value, "pattern", "…")  # type: ignore[no-any-return]  # a regular expression


def _defaults(cls: Any) -> str:
    own = fields(cls)
    kind = cls.__dataclass_params__
    defaults = {f.name: f.default if f.default is not MISSING else "given" for f in own if f.init}
    return _told(defaults) + f" frozen={kind.frozen}, eq={kind.eq}, order={kind.order}"


def _is_filled_later(name: str, value: ast.expr | None) -> bool:
    """A private table that starts empty keeps what calls left there."""
    return name.startswith("_") and ((isinstance(value, ast.Dict) and not value.keys) or (isinstance(value, ast.Call) and not value.args))


def of_module(name: str) -> dict[str, str]:
    """Name -> what it is, for all that the module itself defines."""
    module = importlib.import_module(name)
    assert module.__file__ is not None
    body = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
    stored = {n.id for s in body if isinstance(s, ast.Assign | ast.AnnAssign) for n in ast.walk(s)
              if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and not _is_filled_later(n.id, s.value)}  # fmt: skip
    values = {key: value for key, value in vars(module).items() if key in stored - EXAMPLES and not key.startswith("__")}
    found = {key: _told(value) for key, value in values.items() if isinstance(value, bool | int | float | str | tuple | list | Mapping | Set)}
    classes = [getattr(module, s.name) for s in body if isinstance(s, ast.ClassDef)]
    return found | {cls.__name__: _defaults(cls) for cls in classes if is_dataclass(cls)}


def of_scalar(op: str) -> dict[str, str]:
    """A function of one number at some points."""
    with np.errstate(all="ignore"):
        return {"values": _told([float(v) for v in np.asarray(SCALARS[op].f(np.array(POINTS)))])}


__all__ = ["names", "of_module", "of_scalar"]
