"""A norm behind the map that begins a stage comes before all blocks of it: no skip crosses it. One that each block puts on its stream is crossed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from screen.capture.trace.tracer import trace
from screen.facts import derive


class Residual(nn.Module):
    """`x + f(x)` with a batch norm behind f, on images."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(width, 2 * width, 1), nn.ReLU(), nn.Conv2d(2 * width, width, 1), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.f(x)
        return out


class Stage(nn.Module):
    """A convolution and a norm that make the state of a stage, and its blocks."""

    def __init__(self, before: int, width: int, count: int) -> None:
        super().__init__()
        self.steps = nn.Sequential(nn.Conv2d(before, width, 3, 2, 1), nn.BatchNorm2d(width), *(Residual(width) for _ in range(count)))

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return x


class Normed(nn.Module):
    """`x = norm(x); x = x + f(x)`: a norm on the stream (near)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.f = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        out: Tensor = x + self.f(x)
        return out


@pytest.mark.parametrize("count", [1, 2])
def test_the_norm_that_a_stage_begins_with_is_crossed_by_no_skip(count: int) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), Stage(8, 16, count), Stage(16, 32, count))
    found = derive(trace(model.eval(), (torch.empty(2, 3, 16, 16, device="meta"),), {}))
    assert [(s.depth, s.identity.exists, s.identity.gain, s.identity.norms_crossed) for s in found.streams] == [(count, True, "1", 0)] * 2


@pytest.mark.parametrize("count", [1, 3])
def test_the_norm_that_a_block_puts_on_its_stream_is_crossed(count: int) -> None:
    model = nn.Sequential(nn.Linear(3, 8), *(Normed(8) for _ in range(count)))
    [stream] = derive(trace(model, (torch.empty(2, 5, 3, device="meta"),), {})).streams
    assert (stream.identity.exists, stream.identity.norms_crossed) == (False, count)
