"""D202 of branches that have no weights: what one of them adds is not independent of the stream, so that the law is that of two depths or none."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from tests.gradients import first_over_last

WIDTH, DEPTH = 16, 24


class Mixer(nn.Module):
    """A mixing of a norm, and a net. x: [2, 8, 16]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last, self.up, self.down = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        for linear in (self.up, self.down):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mixed(self.norm(x))
        out: Tensor = x + self.down(torch.relu(self.up(self.last(x))))
        return out

    def mixed(self, h: Tensor) -> Tensor:
        raise NotImplementedError


class Transform(Mixer):
    def mixed(self, h: Tensor) -> Tensor:
        return torch.fft.fft2(h, norm="ortho").real


class Sums(Mixer):
    def mixed(self, h: Tensor) -> Tensor:
        return h.cumsum(1)


class Smoothed(Mixer):
    """Less a norm: tokens come nearer to the mean of their neighbours, and no law shows at two depths."""

    def mixed(self, h: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool1d(h.mT, 3, 1, 1).mT - h


def _ratio(kind: type[Mixer], depth: int) -> float:
    torch.manual_seed(0)
    blocks = [kind().double() for _ in range(depth)]
    return first_over_last(blocks, torch.randn(2, 8, WIDTH, dtype=torch.float64))


@pytest.mark.parametrize(("kind", "outcome"), [(Transform, "holds"), (Sums, "holds"), (Smoothed, "conditional")])
def test_mixing_without_weights_is_told_by_two_depths(kind: type[Mixer], outcome: str) -> None:
    report = screen.check(kind(), example_inputs=torch.randn(2, 8, WIDTH), depth=DEPTH)
    found = next(f for f in report.findings if f.code == "D202")
    assert found.outcome == outcome and ("has no weights" in found.message) is (outcome == "holds")
    assert outcome != "holds" or _ratio(kind, 192) < 16 * _ratio(kind, 48)  # a power of at most two
