"""A module without a forward of its own (it trains another one): the module inside it is what runs."""

from __future__ import annotations

import inspect

from torch import nn

from screen.capture.build.block import largest_stack
from screen.errors import LoadError


def inner(name: str, model: nn.Module) -> list[tuple[nn.Module, str]]:
    """The module to run, and no name, where it has a forward; else the part that runs in its place, with its name inside, or all parts that hold a
    stack, where there are several. Raises `LoadError` with the parts."""
    if has_forward(model):
        return [(model, "")]
    parts = {part: child for part, child in model.named_children() if next(child.parameters(), None) is not None and has_forward(child)}
    stacks = {part: child for part, child in parts.items() if largest_stack(child)}
    if len(parts) == 1 or stacks:
        return [(child, part) for part, child in (stacks or parts).items()]
    found = f"its parts are {', '.join(f'`{p}`' for p in parts)}" if parts else "it has no part with weights either"
    raise LoadError(f"`{name}` must have a `forward`", f"it has none; {found}", "Write a function `build_model()` that returns the part to look at")


def has_forward(model: nn.Module) -> bool:
    """Does a forward do anything? A module's default one, and one that only calls that, raises when it is called."""
    try:
        found = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return True
    if any(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
        return True
    try:
        model.forward()
    except NotImplementedError as error:
        return "forward" not in str(error)
    except Exception:  # it does something
        return True
    return True


__all__ = ["has_forward", "inner"]
