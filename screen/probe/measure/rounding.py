"""Whether rounding decides what a program gives: then two runs of it, op by op and fused, may give two things and be one program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor

SHAKEN, DRAWS = 2.0**-19, 4
"""Relative change of weights, as some roundings in float32 make; and how often they are changed: of scores that are nearly equal the largest one may
be another one, or not."""
TIMES_LESS = 0.1
"""Share of what is to be explained that shaken weights have to move the result by, at least (convention)."""
SHARP = "rounding decides what it gives: weights that differ by millionths of themselves give something else"


def explains(moved: Iterable[float | None], apart: float, same: float) -> bool:
    """Whether two results are no farther apart than rounding may bring them. `moved`: how far shaken weights bring one of them, of some draws;
    `same`: how far apart two are at most that are one."""
    return any(m is not None and m > max(same, TIMES_LESS * apart if math.isfinite(apart) else 0.0) for m in moved)


def shaken(weights: Mapping[int, Tensor], seed: int) -> Iterator[dict[int, Tensor]]:
    """The same weights, each entry changed by a few roundings; of some draws."""
    for draw in range(DRAWS):
        generator = torch.Generator().manual_seed(seed + draw)
        noise = {i: torch.randn(v.shape, generator=generator, dtype=v.dtype) for i, v in weights.items() if v.is_floating_point()}
        yield {i: v * (1 + SHAKEN * noise[i]) if i in noise else v for i, v in weights.items()}


__all__ = ["SHARP", "explains", "shaken"]
