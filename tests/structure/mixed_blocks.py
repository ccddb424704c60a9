"""Blocks of one mixing part and a feed-forward, each behind a norm, and stacks of blocks behind a first map: for tests of what the mixing part is."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn


class Mixed(nn.Module):
    """x + mix(N(x)), then x + W₂ a(W₁ N(x))."""

    def __init__(self, mix: nn.Module, width: int) -> None:
        super().__init__()
        self.mix, self.first, self.second = mix, nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.first(x))
        return x + self.feed(self.second(x))


class Stack(nn.Module):
    """Blocks behind a map."""

    def __init__(self, patch: nn.Module, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.patch, self.blocks = patch, nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for block in self.blocks:
            x = block(x)
        return x
