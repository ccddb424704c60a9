"""Shapes of arguments as the docstring of a forward writes them: `y: (N, 1, 120, C) tensor of captions`."""

from __future__ import annotations

import inspect
import re

from torch import Tensor, nn

from screen.capture.inputs.context import BATCH, Lookup

_LINE = re.compile(r"^\W*(?:param\s+)?(\w+)\s*(?:\([^()]*\))?\s*:\s*[^(\[\n]{0,40}[(\[]([^()\[\]]*)[)\]]", re.MULTILINE)
"""A name and what stands in the first brackets behind it."""
_AXIS = re.compile(r"[A-Za-z_]\w{0,15}|\d{1,6}")
MOST = 6
"""Axes of an argument."""
WIDTHS = 2
"""Widths that are proposed: the one that a map refuses is mended."""


def shape_of(model: nn.Module, name: str) -> list[str]:
    """The axes of an argument, sizes and letters; none where the docstring does not tell."""
    text = inspect.getdoc(type(model).forward) or ""
    for said in _LINE.finditer(text):
        axes = [axis.strip() for axis in said[2].split(",") if axis.strip()]
        if said[1] == name and 1 <= len(axes) <= MOST and all(_AXIS.fullmatch(axis) for axis in axes):
            return axes
    return []


def documented(model: nn.Module, name: str, look: Lookup, widths: list[int]) -> list[Tensor]:
    """Floats for an argument of three axes, or of more with a size among them, as the docstring has them: the batch, sizes that are written, a length
    of our own for other letters, and widths of the model last."""
    axes = shape_of(model, name)
    if len(axes) < 3 or (len(axes) > 3 and not any(axis.isdigit() for axis in axes)):  # ids, steps and images are found without
        return []
    sizes = [int(axis) if axis.isdigit() else look.targets for axis in axes]
    sizes[0] = sizes[0] if axes[0].isdigit() else BATCH
    last = [sizes[-1]] if axes[-1].isdigit() else widths[:WIDTHS]
    return [look.floats(*sizes[:-1], width) for width in last]


__all__ = ["documented", "shape_of"]
