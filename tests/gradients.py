"""The gradient of the first of some blocks over that of the last one, as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


def first_over_last(blocks: Sequence[nn.Module], x: Tensor) -> float:
    """Of all parameters, behind a random linear readout of what the blocks make of `x` one after the other. Both are of one type (float64)."""
    for block in blocks:
        x = block(x)
    (x * torch.randn_like(x)).sum().backward()  # type: ignore[no-untyped-call]
    ends = (sum(float(p.grad.square().sum()) for p in block.parameters() if p.grad is not None) for block in (blocks[0], blocks[-1]))
    return math.sqrt(next(ends) / next(ends))


__all__ = ["first_over_last"]
