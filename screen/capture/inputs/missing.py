"""Which argument of forward was missing: the `None` on the line that failed, followed up the calls to an argument of the model's own forward."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Iterator
from types import FrameType

from torch import nn

from screen.capture.inputs.context import forward_parameters
from screen.capture.trace.source_lines import TORCH


def missing(model: nn.Module, error: BaseException) -> tuple[str, ...]:
    """The arguments of forward that were `None` where something else was needed; none when the failure does not speak of `None`.

    From the innermost call outwards: the variables of the failing statement that are `None`, then the variables that the caller passed for
    them. A frame that passes on `**kwargs` changes nothing."""
    text = str(error)
    refused = _refuses(error)
    if not refused and ("None" not in text or "not callable" in text):  # a part of the model that is not there
        return ()
    own = getattr(inspect.unwrap(getattr(model.forward, "__func__", model.forward)), "__code__", None)
    calls = list(frames(error))
    start = next((n for n, (frame, _) in enumerate(calls) if frame.f_code is own), None)
    if start is None:
        return ()
    culprits: set[str] = set()
    for frame, line in reversed(calls[start:]):
        said = statement(frame.f_code.co_filename, line)
        if isinstance(said, ast.Raise):
            said = condition(frame.f_code.co_filename, line)
        if said is not None:
            nothing = {n.id for n in parts_of(said) if isinstance(n, ast.Name) and frame.f_locals.get(n.id, 0) is None}
            culprits = _passed(said, culprits) & nothing or nothing or culprits
    known = forward_parameters(model)
    given = calls[start][0].f_locals
    return tuple(n for n in known if n in culprits and given.get(n, 0) is None)


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


__all__ = ["condition", "frames", "missing", "parts_of", "statement"]
