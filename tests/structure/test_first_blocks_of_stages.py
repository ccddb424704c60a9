"""Stages of a U-Net inside of a stream: the first block of each has a map on its skip, since the width changes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen


class Block(nn.Module):
    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.norm, self.one = nn.GroupNorm(4, before), nn.Conv2d(before, width, 3, padding=1)
        self.again, self.two = nn.GroupNorm(4, width), nn.Conv2d(width, width, 3, padding=1)
        self.skip = nn.Conv2d(before, width, 1) if before != width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.two(F.silu(self.again(self.one(F.silu(self.norm(x))))))
        return self.skip(x) + y


WIDTHS = (16, 32, 48)


class UNet(nn.Module):
    """Every state of the way down is read again on the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle = nn.Conv2d(3, 16, 3, padding=1), Block(48, 48)
        self.down, self.up, kept, width = nn.ModuleList(), nn.ModuleList(), [16], 16
        for stage in WIDTHS:
            for _ in range(3):
                self.down.append(Block(width, stage))
                kept.append(width := stage)
            if stage != WIDTHS[-1]:
                self.down.append(nn.Conv2d(stage, stage, 3, stride=2, padding=1))
                kept.append(stage)
        for stage in WIDTHS[::-1]:
            for _ in range(4):
                self.up.append(Block(width + kept.pop(), width := stage))
            if stage != WIDTHS[0]:
                self.up.append(nn.Sequential(nn.Upsample(scale_factor=2.0), nn.Conv2d(stage, stage, 3, padding=1)))
        self.norm, self.last = nn.GroupNorm(4, 16), nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        kept = [x := self.first(x)]
        for part in self.down:
            kept.append(x := part(x))
        x = self.middle(x)
        for part in self.up:
            x = part(torch.cat([x, kept.pop()], dim=1) if isinstance(part, Block) else x)
        out: Tensor = self.last(F.silu(self.norm(x)))
        return out


def test_the_first_block_of_a_stage_reads_a_norm_too() -> None:
    streams = screen.check(UNet(), example_inputs=torch.zeros(2, 3, 16, 16)).streams
    assert {(s.placement, s.positions[0]) for stream in streams for k in stream.kinds for s in k.sublayers} == {("pre", "A")}
