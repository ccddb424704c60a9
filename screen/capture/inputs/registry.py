"""The table of inputs: the name of an argument of `forward` -> the forms that it may have, from the config and the model. One row per name.

A row knows no model: it reads fields of the config and layers of the model. It gives its forms in the order in which they should be tried;
none when the model does not need the argument. Integers and truth values are CPU tensors (their values may decide), floats are on meta.
The rows stand in `rows_text`, `rows_vision` and `rows_sound`; `rows` brings them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from screen.capture.inputs.context import Lookup

Make = Callable[[Lookup], Iterator[Any]]
VISION = ("vision", "image", "visual", "vit", "backbone", "video")
AUDIO = ("audio", "speech", "acoustic", "encoder")
GRID = ((1, 6, 6), (1, 6, 12))
"""Patches of the two images of a batch: (time, height, width)."""


@dataclass(frozen=True)
class Row:
    """How to make one argument."""

    make: Make
    main: bool = False
    """Given whenever forward takes it, not only when it must."""
    goes_with: tuple[str, ...] = ()
    """Given when one of these is."""
    extra: bool = False
    """Given when the forward does not run without."""
    when: str = ""
    """A truth value of the config that asks for it: the forward runs without, and then leaves a part of the model out."""


@dataclass(frozen=True)
class Like:
    """A mask of ones over the longest or the second axis of an argument that has been chosen."""

    names: tuple[str, ...]
    longest: bool

    def made(self, chosen: dict[str, Any]) -> Tensor | None:
        """[batch, length]; None when none of the arguments is there."""
        found = next((chosen[n] for n in self.names if isinstance(chosen.get(n), Tensor) and chosen[n].dim() > 1), None)
        if found is None:
            return None
        axis = max(range(1, found.dim()), key=lambda i: found.shape[i]) if self.longest else 1
        return torch.ones(found.shape[0], found.shape[axis], dtype=torch.bool)


ROWS: dict[str, Row] = {}


def row(
    *names: str, main: bool = False, goes_with: tuple[str, ...] = (), extra: bool = False, when: str = ""
) -> Callable[[Make], Make]:
    """Register a row under its names; a second row for a name is an error."""

    def register(make: Make) -> Make:
        for name in names:
            if name in ROWS:
                raise ValueError(f"two rows for the input `{name}`")
            ROWS[name] = Row(make, main, goes_with, extra, when)
        return make

    return register


__all__ = ["AUDIO", "GRID", "ROWS", "VISION", "Like", "Make", "Row", "row"]
