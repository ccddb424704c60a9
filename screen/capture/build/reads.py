"""What code reads of an argument, told from its source: attributes, keys, and what it asks by name."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import tokenize
from typing import Any

NOT_ATTRIBUTES = frozenset(vars(dict)) | {"to_dict", "merge_from_dict"}


@functools.lru_cache(maxsize=64)
def tree_of(entry: Any) -> ast.AST | None:
    """The source of a class (its constructor, with those of its bases in the same file) or of a function."""
    text = source_of(entry)
    try:
        return ast.parse(inspect.cleandoc("\n" + text)) if text is not None else None
    except SyntaxError:
        return None


def source_of(entry: Any) -> str | None:
    """The text of a class, a function or a module; None where it cannot be had: the lines that code says it stands on are what somebody made them."""
    try:
        return inspect.getsource(entry)
    except (OSError, TypeError, SyntaxError, IndexError, ValueError, tokenize.TokenError):
        return None


def reads(entry: Any, name: str) -> dict[str, bool]:
    """The names that the code of `entry` reads of its argument `name` (`cfg.x`, `cfg["x"]`), with whether each must be there."""
    tree = tree_of(entry)
    found: dict[str, bool] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name and isinstance(node.ctx, ast.Load):
            if node.attr not in NOT_ATTRIBUTES:
                found[node.attr] = True
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == name:
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                found[node.slice.value] = True
        elif isinstance(node, ast.Call) and (key := asked_for(node, name)):
            found.setdefault(key, False)
    return found


def below(entry: Any, name: str, key: str) -> list[str]:
    """What the code of `entry` reads of an entry of its argument, `config.model.width`, by dotted paths from the argument; the entry itself where it
    reads nothing of it."""
    tree = tree_of(entry)
    found = []
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == f"{name}.{key}" and node.attr not in NOT_ATTRIBUTES:
            found.append(f"{key}.{node.attr}")
    return list(dict.fromkeys(found)) or [key]


def entries_read(entry: Any, name: str) -> list[str]:
    """The keys that the code reads of its argument `name`, `batch["x"]`."""
    tree = tree_of(entry)
    subscripts = [
        n.slice.value
        for n in (ast.walk(tree) if tree is not None else ())
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and n.value.id == name and isinstance(n.slice, ast.Constant)
    ]
    return list(dict.fromkeys(key for key in subscripts if isinstance(key, str)))


def entries_offered(entry: Any, name: str) -> list[str]:
    """The keys that the code asks its argument `name` for: those that it reads, `name.get("x")`, and those of the table that stands for it where it
    is left out, `name or {"x": None}`."""
    tree = tree_of(entry)
    found = entries_read(entry, name)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and (key := asked_for(node, name)):
            found.append(key)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and isinstance(node.values[0], ast.Name) and node.values[0].id == name:
            tables = [v for v in node.values[1:] if isinstance(v, ast.Dict)]
            found += [k.value for v in tables for k in v.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
    return list(dict.fromkeys(found))


def asked_for(call: ast.Call, name: str) -> str:
    """The name in `cfg.get("x")` and `getattr(cfg, "x", default)`."""
    method = isinstance(call.func, ast.Attribute) and call.func.attr == "get" and isinstance(call.func.value, ast.Name) and call.func.value.id == name
    function = isinstance(call.func, ast.Name) and call.func.id in ("getattr", "hasattr") and len(call.args) > 1
    if method and call.args:
        key = call.args[0]
    elif function and isinstance(call.args[0], ast.Name) and call.args[0].id == name:
        key = call.args[1]
    else:
        return ""
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def is_read_by_name(key: str, *sources: Any) -> bool:
    """Does modelling code ask a configuration for this name, `getattr(config, "key")`, in one of these modules?"""
    pattern = re.compile(rf"""(?:getattr|hasattr)\(\s*[\w.]+\s*,\s*["']{re.escape(key)}["']|\.get\(\s*["']{re.escape(key)}["']""")
    return any(source is not None and pattern.search(source_of(source) or "") for source in sources)


__all__ = ["NOT_ATTRIBUTES", "asked_for", "below", "entries_offered", "entries_read", "is_read_by_name", "reads", "source_of", "tree_of"]
