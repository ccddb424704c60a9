"""Which argument of forward was missing: the `None` on the line that failed, followed up the calls to an argument of the model's own forward."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Iterator
from types import FrameType

from torch import nn

from screen.capture.inputs.context import forward_parameters, forward_signature
from screen.capture.trace.source_lines import HERE, TORCH


def missing(model: nn.Module, error: BaseException) -> tuple[str, ...]:
    """The arguments of forward that were `None` where something else was needed; none when the failure does not speak of `None`.

    From the innermost call outwards: the variables of the failing statement that are `None`, then the variables that the caller passed for
    them. A frame that passes on `**kwargs` changes nothing."""
    calls = _calls(model, error)
    if not calls:
        return ()
    culprits: set[str] = set()
    for frame, line in reversed(calls):
        said = statement(frame.f_code.co_filename, line)
        if isinstance(said, ast.Raise):
            said = condition(frame.f_code.co_filename, line)
        if said is not None:
            nothing = {n.id for n in parts_of(said) if isinstance(n, ast.Name) and frame.f_locals.get(n.id, 0) is None}
            culprits = _passed(said, culprits) & nothing or nothing or culprits
    known = forward_parameters(model)
    given = calls[0][0].f_locals
    return tuple(n for n in known if n in culprits and given.get(n, 0) is None)


def handed_on(model: nn.Module, error: BaseException) -> tuple[str, ...]:
    """The arguments of a part of the model that were `None` where something else was needed, which forward takes as `**kwargs` and hands on."""
    if all(p.kind is not p.VAR_KEYWORD for p in forward_signature(model)):
        return ()
    culprits: set[str] = set()
    through = False
    for frame, line in reversed([c for c in _calls(model, error) if not c[0].f_code.co_filename.startswith((TORCH, HERE))]):
        said = statement(frame.f_code.co_filename, line)
        if isinstance(said, ast.Raise):
            said = condition(frame.f_code.co_filename, line)
        if said is None:
            continue
        nothing = {n.id for n in parts_of(said) if isinstance(n, ast.Name) and frame.f_locals.get(n.id, 0) is None}
        named = {k.arg for n in parts_of(said) if isinstance(n, ast.Call) for k in n.keywords}
        passed = _passed(said, culprits) & nothing
        through = bool(culprits) and not passed and None in named and not culprits & named
        culprits = culprits if through else passed or nothing
    if not through or not culprits:
        return ()
    known = {n for m in model.modules() for n in forward_parameters(m)} - set(forward_parameters(model))
    return tuple(sorted(culprits & known))


def taken(model: nn.Module, name: str) -> inspect.Parameter:
    """An argument of forward, or one of a part of the model that forward hands on as `**kwargs`."""
    found = next(p for m in model.modules() if (p := forward_parameters(m).get(name)) is not None)
    return found if name in forward_parameters(model) else found.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=None)


def _calls(model: nn.Module, error: BaseException) -> list[tuple[FrameType, int]]:
    """The calls that an exception passed from the model's own forward on; none when it does not speak of `None`."""
    text = str(error)
    if not _refuses(error) and ("None" not in text or "not callable" in text):  # a part of the model that is not there
        return []
    own = getattr(inspect.unwrap(getattr(model.forward, "__func__", model.forward)), "__code__", None)
    calls = list(frames(error))
    start = next((n for n, (frame, _) in enumerate(calls) if frame.f_code is own), None)
    return calls[start:] if start is not None else []


def frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The calls that an exception passed, outer ones first, each with its line."""
    trail = error.__traceback__
    while trail is not None:
        yield trail.tb_frame, trail.tb_lineno or 0
        trail = trail.tb_next


def _refuses(error: BaseException) -> bool:
    """Did a line refuse its arguments: `assert …`, or `raise …` under a condition?"""
    frame, line = next(iter(reversed(list(frames(error)))), (None, 0))
    if frame is None or frame.f_code.co_filename.startswith(TORCH):
        return False
    return isinstance(statement(frame.f_code.co_filename, line), ast.Assert | ast.Raise)


def condition(file: str, line: int) -> ast.stmt | None:
    """The smallest `if` that covers a line."""
    covering = [s for s in _statements(file) if isinstance(s, ast.If) and s.lineno <= line <= (s.end_lineno or s.lineno)]
    return min(covering, key=lambda s: (s.end_lineno or s.lineno) - s.lineno, default=None)


def _passed(statement: ast.stmt, names: set[str]) -> set[str]:
    """The variables that a call of this statement passes under one of these names."""
    calls = [node for node in parts_of(statement) if isinstance(node, ast.Call)]
    return {k.value.id for call in calls for k in call.keywords if k.arg in names and isinstance(k.value, ast.Name)}


@functools.lru_cache(maxsize=8)
def _statements(file: str) -> tuple[ast.stmt, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.stmt))


@functools.lru_cache(maxsize=4096)
def statement(file: str, line: int) -> ast.stmt | None:
    """The smallest statement that covers a line."""
    covering = [s for s in _statements(file) if s.lineno <= line <= (s.end_lineno or s.lineno)]
    return min(covering, key=lambda s: (s.end_lineno or s.lineno) - s.lineno, default=None)


def parts_of(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement, without the statements inside it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))


__all__ = ["condition", "frames", "handed_on", "missing", "parts_of", "statement", "taken"]
