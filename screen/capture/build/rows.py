"""Sizes that nobody states and that a model may be judged without: how many rows a table of tokens or positions has, or a last map.

That a number is one is measured, not read off its name: the model is built with two values of each, and every parameter that is not the same has
more rows and no more columns. A number of layers, heads, experts or channels is none (a stack of weights in one tensor has three axes and more).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

MORE = 128
"""Rows between the two values."""


def other(sizes: Mapping[str, Any], indices: Mapping[str, bool]) -> dict[str, Any]:
    """Another value for each of these numbers; one more for places in a table (`indices`)."""
    return {key: value + (1 if indices[key] else MORE) if type(value) is int else value for key, value in sizes.items()}


def only(first: nn.Module, second: nn.Module) -> list[str] | None:
    """The parameters that have more rows in `second`; None where anything else is not the same."""
    mine, theirs = _shapes(first), _shapes(second)
    if mine.keys() != theirs.keys() or [type(m) for m in first.modules()] != [type(m) for m in second.modules()]:
        return None
    found = [name for name in mine if mine[name] != theirs[name]]
    if any(len(mine[name]) not in (1, 2) or len(mine[name]) != len(theirs[name]) or mine[name][1:] != theirs[name][1:] for name in found):
        return None
    return found if any(len(mine[name]) == 2 for name in found) or not found else None


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The shapes of parameters, without leading ones."""
    return {name: _without_ones(p) for name, p in model.named_parameters() if not isinstance(p, nn.parameter.UninitializedParameter)}


def _without_ones(parameter: Tensor) -> tuple[int, ...]:
    shape = tuple(parameter.shape)
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


def said(sizes: Mapping[str, Any], grown: list[str]) -> str:
    """What a report says of it."""
    given = ", ".join(f"`{key}={value}`" for key, value in sizes.items())
    rest = f" and {len(grown) - 3} more" if len(grown) > 3 else ""
    rows = f": of the weights only the rows of {', '.join(f'`{name}`' for name in grown[:3])}{rest} depend on it" if grown else ""
    return f"nobody states {given}, taken here{rows}"


__all__ = ["only", "other", "said"]
