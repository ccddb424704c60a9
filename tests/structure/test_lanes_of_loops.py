"""Lanes of a block that is stacked: each has as many layers as the stack, also where it reads others that have read nothing of it at first."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

WIDTH = 8


class Ring(nn.Module):
    """Each lane is changed by a net of the norm of the next one, as that was before the block or is already."""

    def __init__(self, lanes: int, old: bool) -> None:
        super().__init__()
        self.nets, self.old = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(lanes)), old

    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        given, now = list(state), list(state)
        for place, net in enumerate(self.nets):
            now[place] = now[place] + net((given if self.old else now)[(place + 1) % len(state)])
        return tuple(now)


@pytest.mark.parametrize(("lanes", "old"), [(3, False), (4, True), (4, False)])
def test_each_lane_has_all_layers(lanes: int, old: bool) -> None:
    report = screen.check(Ring(lanes, old), example_inputs=tuple(torch.randn(2, 3, WIDTH) for _ in range(lanes)), depth=12)
    assert [s.depth for s in report.streams] == [12] * lanes
