"""Arguments of a constructor that are `None` by default, or −1, and with which it does not build: that where it fails, followed up the calls."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Mapping
from types import FrameType
from typing import Any

from screen.capture.inputs.missing import condition, frames, parts_of, statement
from screen.capture.trace.source_lines import HERE, TORCH

_UNTOLD = "not told"
_INSIDE = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")
"""Code that has the names of what is around it."""


def left_none(error: BaseException, entry: Any, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Arguments that nobody gave and whose default `None` the constructor or function refuses, with that, and the place where it does; none
    elsewhere. Of those that `raise …` or `assert …` speaks of, the first one: any of them may be meant. There −1 stands for nothing too."""
    try:
        left = {p.name: p.default for p in inspect.signature(entry).parameters.values() if _is_nothing(p.default) and p.name not in given}
    except (TypeError, ValueError):
        return {}, ""
    own = [f for f in frames(error) if not f[0].f_code.co_filename.startswith((TORCH, HERE))]
    if not left or not own:
        return {}, ""
    inner, line = own[-1]
    said = statement(inner.f_code.co_filename, line)
    refuses = isinstance(said, ast.Raise | ast.Assert)
    if said is None or not (refuses or (isinstance(error, TypeError | AttributeError) and "None" in str(error))):
        return {}, ""
    around = condition(inner.f_code.co_filename, line) if isinstance(said, ast.Raise) else None
    names = {name: None for part in (said, around) if part is not None for name in _nothing(part, inner)}
    for place, (frame, _) in reversed(list(enumerate(own))):
        if _is_of(frame, entry):
            found = [name for name in names if name in left and (refuses or left[name] is None)]
            return {name: left[name] for name in (found[:1] if refuses else found)}, f"{os.path.basename(inner.f_code.co_filename)}:{line}"
        if place and frame.f_code.co_name not in _INSIDE:
            names = _passed(frame, own[place - 1], names)
    return {}, ""


def _is_nothing(value: Any) -> bool:
    """Does it stand for nothing: `None`, or a number below zero?"""
    return value is None or (type(value) is int and value < 0)


def _is_of(frame: FrameType, entry: Any) -> bool:
    """Is this a call of the constructor of a class, or of a function?"""
    code = getattr(inspect.unwrap(getattr(entry, "__init__", entry) if isinstance(entry, type) else entry), "__code__", None)
    return frame.f_code is code


def _nothing(said: ast.stmt, frame: FrameType) -> list[str]:
    """Names on a statement that stand for nothing there, also of what an object keeps, `self.depth`, or may keep, `self.config.depth`."""
    found = []
    for node in parts_of(said):
        if isinstance(node, ast.Name) and _is_nothing(_held(node, frame)):
            found.append((node.lineno, node.col_offset, node.id))
        elif isinstance(node, ast.Attribute) and ((held := _held(node, frame)) is _UNTOLD or _is_nothing(held)):
            found.append((node.lineno, node.col_offset, node.attr))
    return [name for *_, name in sorted(found)]


def _held(node: ast.expr, frame: FrameType) -> Any:
    """What a name or an attribute stands for; a property is not run."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, 0)
    holder = _held(node.value, frame) if isinstance(node, ast.Attribute) else _UNTOLD
    if holder == 0 or not isinstance(node, ast.Attribute):
        return holder
    return (holder if isinstance(holder, Mapping) else getattr(holder, "__dict__", {})).get(node.attr, _UNTOLD)


def _passed(frame: FrameType, above: tuple[FrameType, int], names: Mapping[str, None]) -> dict[str, None]:
    """What the caller gave for some arguments of a call, by name or by place; names that no argument has are gone."""
    caller, line = above
    said, code = statement(caller.f_code.co_filename, line), frame.f_code
    own = [n for n in code.co_varnames[: code.co_argcount] if n not in ("self", "cls")]
    more = set(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])
    if not any(name in own or name in more for name in names):
        return dict(names)  # a wrapper that hands everything on, or a name that is kept on the way
    found: dict[str, None] = {}
    for call in (n for n in parts_of(said) if isinstance(n, ast.Call)) if said is not None else ():
        given = [*zip(own, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
        for name, value in given:
            if name in names and isinstance(value, ast.Name | ast.Attribute):
                found[value.id if isinstance(value, ast.Name) else value.attr] = None
    return found


__all__ = ["left_none"]
