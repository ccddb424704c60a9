"""A module without a forward of its own (it trains another one): the module inside it is what runs."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from screen.capture.build.block import largest_stack
from screen.errors import LoadError

PARTS = 4
"""Parts without a stack that are looked at: an actor and a critic."""


def inner(name: str, model: nn.Module) -> list[tuple[nn.Module, str]]:
    """The module to run, and no name, where it has a forward; else the part that runs in its place, with its name inside, or all parts that hold a
    stack, where there are several, or all where none does, up to `PARTS`. Raises `LoadError` with the parts."""
    if has_forward(model):
        return [(model, "")]
    parts = {part: child for part, child in model.named_children() if next(child.parameters(), None) is not None and has_forward(child)}
    stacks = {part: child for part, child in parts.items() if largest_stack(child)}
    if stacks or 0 < len(parts) <= PARTS:
        return [(child, part) for part, child in (stacks or parts).items()]
    found = f"its parts are {', '.join(f'`{p}`' for p in parts)}" if parts else "it has no part with weights either"
    raise LoadError(f"`{name}` must have a `forward`", f"it has none; {found}", "Write a function `build_model()` that returns the part to look at")


def has_forward(model: nn.Module) -> bool:
    """Does a forward do anything? A module's default one, and one that only calls that or is left to others, raises when it is called."""
    try:
        found = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return True
    if any(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
        return True
    try:
        model.forward()
    except NotImplementedError as error:
        return "forward" not in str(error) and not _raised_by(model.forward, error)
    except Exception:  # it does something
        return True
    return True


def _raised_by(function: Any, error: BaseException) -> bool:
    """Did a function raise an error itself, in no call of its own?"""
    code, frame = getattr(inspect.unwrap(function), "__code__", None), error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and code is frame.tb_frame.f_code


__all__ = ["has_forward", "inner"]
